// SPDX-License-Identifier: Apache-2.0
// Owns the layout of a ring and the order of its loads and stores (shm_ring.h shows both). Must
// never block, make a system call, or use a number from the shared memory before it was bounded.
#include "transport/shm_ring.h"

#include <inttypes.h>
#include <string.h>

static const uint64_t wake_none = UINT64_MAX;

/* A record's word: a bit that says that it is there, its kind, and above bit 32 its length in
 * bytes. */
static const uint64_t is_there = (uint64_t)1 << 31;

enum { WORD_BYTES = 8, HEAD_BYTES = WORD_BYTES + KOLO_SHM_RECORD_HEADER };
_Static_assert(HEAD_BYTES + KOLO_SHM_INLINE == KOLO_SHM_LINE,
               "the first line of a record holds its head and the inline payload");

/** How many bytes of the ring a record takes. */
static uint64_t record_span(uint64_t bytes)
{
    if (bytes <= KOLO_SHM_INLINE)
        return KOLO_SHM_LINE;
    return KOLO_SHM_LINE + (bytes + KOLO_SHM_LINE - 1) / KOLO_SHM_LINE * KOLO_SHM_LINE;
}

/** Where the payload begins within the record. */
static uint64_t payload_offset(uint64_t bytes)
{
    return bytes <= KOLO_SHM_INLINE ? HEAD_BYTES : KOLO_SHM_LINE;
}

uint64_t kolo_shm_ring_capacity(size_t bytes)
{
    uint64_t capacity = KOLO_SHM_RING_MIN;
    while (capacity < bytes)
        capacity *= 2;
    return capacity;
}

size_t kolo_shm_ring_footprint(uint64_t capacity)
{
    return sizeof(struct kolo_shm_control) + (size_t)capacity;
}

size_t kolo_shm_record_max(uint64_t capacity)
{
    return (size_t)(capacity / 4 - KOLO_SHM_LINE);
}

void kolo_shm_writer_init(struct kolo_shm_writer *writer, void *memory, uint64_t capacity)
{
    *writer = (struct kolo_shm_writer){
        .control = memory,
        .data = (uint8_t *)memory + sizeof(struct kolo_shm_control),
        .capacity = capacity,
    };
    atomic_store_explicit(&writer->control->wake_at, wake_none, memory_order_relaxed);
}

void kolo_shm_reader_init(struct kolo_shm_reader *reader, void *memory, uint64_t capacity)
{
    *reader = (struct kolo_shm_reader){
        .control = memory,
        .data = (const uint8_t *)memory + sizeof(struct kolo_shm_control),
        .capacity = capacity,
    };
}

/** Takes a new copy of the reader's tail. */
static kolo_status look_at_tail(struct kolo_shm_writer *writer)
{
    uint64_t tail = atomic_load_explicit(&writer->control->tail, memory_order_seq_cst);
    if (tail < writer->tail_seen || tail > writer->head || tail % KOLO_SHM_LINE != 0)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "shm ring: the reader's tail %" PRIu64 " is impossible (between %" PRIu64
                         " and %" PRIu64 ", a multiple of %d): its memory is corrupt",
                         tail, writer->tail_seen, writer->head, KOLO_SHM_LINE);
    writer->tail_seen = tail;
    return KOLO_OK;
}

/** Whether there is room for the record and for the word after it. */
static bool has_room(const struct kolo_shm_writer *writer, uint64_t span)
{
    return writer->capacity - (writer->head - writer->tail_seen) >= span + KOLO_SHM_LINE;
}

/** Asks to be woken when half the ring is free. Room may have become free before the reader could
 *  see this, so the caller must check once more. */
static void ask_for_wake(struct kolo_shm_writer *writer)
{
    uint64_t at = writer->head - writer->capacity / 2;
    atomic_store_explicit(&writer->control->wake_at, at, memory_order_seq_cst);
}

kolo_status kolo_shm_writer_room(struct kolo_shm_writer *writer, size_t bytes)
{
    uint64_t span = record_span(bytes);
    if (has_room(writer, span))
        return KOLO_OK;
    kolo_status status = look_at_tail(writer);
    if (status != KOLO_OK || has_room(writer, span))
        return status;
    ask_for_wake(writer);
    status = look_at_tail(writer);
    if (status != KOLO_OK || !has_room(writer, span))
        return status != KOLO_OK ? status : KOLO_AGAIN;
    atomic_store_explicit(&writer->control->wake_at, wake_none, memory_order_relaxed);
    return KOLO_OK;
}

static _Atomic uint64_t *word_of(uint8_t *record)
{
    return (_Atomic uint64_t *)(void *)record;
}

void kolo_shm_writer_put(struct kolo_shm_writer *writer, uint32_t kind,
                         const uint8_t header[KOLO_SHM_RECORD_HEADER], const void *payload,
                         size_t bytes)
{
    const uint64_t mask = writer->capacity - 1, end = writer->head + record_span(bytes);
    uint8_t *at = writer->data + (writer->head & mask);
    memcpy(at + WORD_BYTES, header, KOLO_SHM_RECORD_HEADER);
    if (bytes > 0) {
        uint64_t offset = (writer->head + payload_offset(bytes)) & mask;
        uint64_t first = writer->capacity - offset < bytes ? writer->capacity - offset : bytes;
        memcpy(writer->data + offset, payload, (size_t)first);
        memcpy(writer->data, (const uint8_t *)payload + first, bytes - (size_t)first);
    }
    atomic_store_explicit(word_of(writer->data + (end & mask)), 0, memory_order_relaxed);
    atomic_store_explicit(word_of(at), is_there | kind | (uint64_t)bytes << 32,
                          memory_order_seq_cst);
    writer->head = end;
}

const _Atomic uint64_t *kolo_shm_reader_word(const struct kolo_shm_reader *reader)
{
    const uint8_t *at = reader->data + (reader->tail & (reader->capacity - 1));
    return (const _Atomic uint64_t *)(const void *)at;
}

/** Finds the pieces of the payload in the ring. */
static void find_pieces(const struct kolo_shm_reader *reader, struct kolo_shm_record *record)
{
    uint64_t offset = (reader->tail + payload_offset(record->bytes)) & (reader->capacity - 1);
    uint64_t until_end = reader->capacity - offset;
    size_t first = record->bytes < until_end ? record->bytes : (size_t)until_end;
    record->pieces[0] = (struct kolo_shm_piece){reader->data + offset, first};
    record->pieces[1] = (struct kolo_shm_piece){reader->data, record->bytes - first};
}

kolo_status kolo_shm_reader_peek(struct kolo_shm_reader *reader, struct kolo_shm_record *record_out)
{
    const uint8_t *at = reader->data + (reader->tail & (reader->capacity - 1));
    const uint64_t word = atomic_load_explicit(kolo_shm_reader_word(reader), memory_order_seq_cst);
    const uint64_t bytes = word >> 32;
    if (word == 0)
        return KOLO_AGAIN;
    if ((word & is_there) == 0 || bytes > kolo_shm_record_max(reader->capacity))
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "shm ring: a record begins with %016" PRIx64
                         ", which is not a record of at most %zu bytes: its memory is corrupt",
                         word, kolo_shm_record_max(reader->capacity));
    record_out->kind = (uint32_t)(word & (is_there - 1));
    record_out->bytes = (uint32_t)bytes;
    memcpy(record_out->header, at + WORD_BYTES, sizeof record_out->header);
    record_out->end = reader->tail + record_span(bytes);
    find_pieces(reader, record_out);
    return KOLO_OK;
}

bool kolo_shm_reader_pop(struct kolo_shm_reader *reader, const struct kolo_shm_record *record)
{
    reader->tail = record->end;
    atomic_store_explicit(&reader->control->tail, reader->tail, memory_order_seq_cst);
    uint64_t at = atomic_load_explicit(&reader->control->wake_at, memory_order_seq_cst);
    if (at == wake_none || reader->tail < at)
        return false;
    return atomic_compare_exchange_strong(&reader->control->wake_at, &at, wake_none);
}
