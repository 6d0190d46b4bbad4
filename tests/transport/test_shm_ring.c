// SPDX-License-Identifier: Apache-2.0
// transport/shm_ring.c: a ring against a model, and a peer that writes garbage into it.
#include "transport/shm_ring.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/** A ring with both its sides, on the heap, where ASan checks its bounds. */
struct ring {
    uint8_t *memory;
    uint64_t capacity;
    struct kolo_shm_writer writer;
    struct kolo_shm_reader reader;
};

static void ring_init(struct ring *ring, size_t bytes)
{
    ring->capacity = kolo_shm_ring_capacity(bytes);
    size_t footprint = kolo_shm_ring_footprint(ring->capacity);
    ring->memory = aligned_alloc(KOLO_SHM_LINE, footprint);
    memset(ring->memory, 0, footprint);
    kolo_shm_writer_init(&ring->writer, ring->memory, ring->capacity);
    kolo_shm_reader_init(&ring->reader, ring->memory, ring->capacity);
}

static void ring_fini(struct ring *ring)
{
    free(ring->memory);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/** Byte @p i of the payload of record @p number. */
static uint8_t byte_of(uint64_t number, size_t i)
{
    return (uint8_t)(number * 131 + i * 7 + (i >> 8));
}

static void fill(uint8_t *payload, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        payload[i] = byte_of(number, i);
}

static kolo_status put(struct ring *ring, uint64_t number, size_t bytes)
{
    static uint8_t payload[1 << 20];
    uint8_t header[KOLO_SHM_RECORD_HEADER];
    kolo_status status = kolo_shm_writer_room(&ring->writer, bytes);
    if (status != KOLO_OK)
        return status;
    fill(payload, number, bytes);
    memset(header, (int)(number & 0xff), sizeof header);
    kolo_shm_writer_put(&ring->writer, (uint32_t)number, header, payload, bytes);
    return KOLO_OK;
}

static void drop(struct ring *ring, const struct kolo_shm_record *record)
{
    bool woke = kolo_shm_reader_pop(&ring->reader, record);
    (void)woke;
}

/** Takes the oldest record and compares it with record @p number of @p bytes bytes. */
static bool take(struct ring *ring, uint64_t number, size_t bytes, bool *woke_out)
{
    struct kolo_shm_record record;
    if (kolo_shm_reader_peek(&ring->reader, &record) != KOLO_OK)
        return false;
    bool same = record.kind == (uint32_t)number && record.bytes == bytes &&
                record.header[0] == (uint8_t)number && record.header[31] == (uint8_t)number &&
                record.pieces[0].bytes + record.pieces[1].bytes == bytes;
    for (size_t i = 0; same && i < bytes; i++) {
        size_t first = record.pieces[0].bytes;
        uint8_t got = i < first ? record.pieces[0].at[i] : record.pieces[1].at[i - first];
        same = got == byte_of(number, i);
    }
    *woke_out = kolo_shm_reader_pop(&ring->reader, &record);
    return same;
}

/** Whether the reader has taken everything. */
static bool is_empty(const struct kolo_shm_writer *writer)
{
    return atomic_load_explicit(&writer->control->tail, memory_order_acquire) == writer->head;
}

Test(shm_ring, capacity_is_a_power_of_two_of_at_least_a_page)
{
    cr_assert(kolo_shm_ring_capacity(0) == KOLO_SHM_RING_MIN);
    cr_assert(kolo_shm_ring_capacity(8192) == 8192);
    cr_assert(kolo_shm_ring_capacity(8193) == 16384);
    cr_assert(kolo_shm_ring_capacity(128 << 10) == 128 << 10);
    cr_assert(kolo_shm_ring_footprint(4096) == 4096 + 2 * 64);
}

Test(shm_ring, empty_says_again)
{
    struct ring ring;
    struct kolo_shm_record record;
    ring_init(&ring, 0);
    cr_assert(kolo_shm_reader_peek(&ring.reader, &record) == KOLO_AGAIN);
    cr_assert(is_empty(&ring.writer));
    ring_fini(&ring);
}

Test(shm_ring, every_length_at_every_offset)
{
    struct ring ring;
    bool woke;
    ring_init(&ring, 0);
    size_t longest = kolo_shm_record_max(ring.capacity);
    uint64_t number = 0;
    for (size_t bytes = 0; bytes <= longest; bytes++) {
        // One more line in each iteration, so that the record begins at every line of the ring.
        for (size_t line = 0; line < ring.capacity / KOLO_SHM_LINE; line++) {
            uint64_t at = ring.writer.head;
            while ((ring.writer.head - at) / KOLO_SHM_LINE < 1) {
                cr_assert(put(&ring, number, 0) == KOLO_OK);
                cr_assert(take(&ring, number, 0, &woke));
                number++;
            }
            cr_assert(put(&ring, number, bytes) == KOLO_OK, "%zu bytes: no room", bytes);
            cr_assert(!is_empty(&ring.writer));
            cr_assert(take(&ring, number, bytes, &woke), "%zu bytes at line %zu came out changed",
                      bytes, (size_t)(at / KOLO_SHM_LINE) % 128);
            number++;
            if (bytes > 130 && bytes % 191 != 0 && line > 3)
                break; // every length up to 130, and every 191st, at every line
        }
    }
    ring_fini(&ring);
}

Test(shm_ring, a_cut_never_splits_an_element)
{
    struct ring ring;
    struct kolo_shm_record record;
    ring_init(&ring, 0);
    bool saw_cut = false;
    for (uint64_t number = 0; number < 500; number++) {
        cr_assert(put(&ring, number, 200 + number % 300) == KOLO_OK);
        cr_assert(kolo_shm_reader_peek(&ring.reader, &record) == KOLO_OK);
        if (record.pieces[1].bytes > 0) {
            saw_cut = true;
            cr_assert(record.pieces[0].bytes % 8 == 0, "cut after %zu", record.pieces[0].bytes);
        }
        cr_assert(record.bytes <= 24 || (uintptr_t)record.pieces[0].at % 64 == 0);
        drop(&ring, &record);
    }
    cr_assert(saw_cut);
    ring_fini(&ring);
}

Test(shm_ring, full_says_again_and_wakes_once_at_half)
{
    struct ring ring;
    bool woke;
    ring_init(&ring, 0);
    uint64_t puts = 0, takes = 0;
    while (put(&ring, puts, 8) == KOLO_OK)
        puts++;
    cr_assert(puts == ring.capacity / KOLO_SHM_LINE - 1, "%llu records fit",
              (unsigned long long)puts);
    int wakes = 0;
    for (; takes < puts; takes++) {
        cr_assert(take(&ring, takes, 8, &woke));
        wakes += woke;
        cr_assert(!woke || takes + 1 == puts / 2, "woken after %llu", (unsigned long long)takes);
    }
    cr_assert(wakes == 1, "woken %d times", wakes);
    ring_fini(&ring);
}

Test(shm_ring, no_wake_without_a_wish)
{
    struct ring ring;
    bool woke;
    ring_init(&ring, 0);
    for (uint64_t number = 0; number < 1000; number++) {
        cr_assert(put(&ring, number, 500) == KOLO_OK);
        cr_assert(take(&ring, number, 500, &woke));
        cr_assert(!woke);
    }
    ring_fini(&ring);
}

Test(shm_ring, random_lengths_against_a_model, .timeout = 60)
{
    enum { MODEL = 1 << 14 };
    static size_t lengths[MODEL];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ring ring;
        bool woke;
        uint64_t state = seed * 0x9e3779b97f4a7c15u, puts = 0, takes = 0, refused = 0;
        ring_init(&ring, (size_t)KOLO_SHM_RING_MIN << (seed % 4));
        while (puts < MODEL) {
            size_t bytes = next_random(&state) % (kolo_shm_record_max(ring.capacity) + 1);
            if (next_random(&state) % 3 == 0)
                bytes %= 32;
            bool full = false;
            if (next_random(&state) % 2 == 0) {
                full = put(&ring, puts, bytes) != KOLO_OK;
                refused += full;
                if (!full)
                    lengths[puts++] = bytes;
            }
            if (takes < puts && (full || next_random(&state) % 2 == 0)) {
                cr_assert(take(&ring, takes, lengths[takes], &woke), "seed %llu, record %llu",
                          (unsigned long long)seed, (unsigned long long)takes);
                takes++;
            }
        }
        for (; takes < puts; takes++)
            cr_assert(take(&ring, takes, lengths[takes], &woke));
        cr_assert(refused > 0, "the ring was never full");
        cr_assert(is_empty(&ring.writer));
        ring_fini(&ring);
    }
}

Test(shm_ring, a_reader_looks_at_one_word)
{
    struct ring ring;
    bool woke;
    ring_init(&ring, 0);
    // fills the whole ring with payloads that have no byte 0
    for (uint64_t number = 0; number < 1000; number++) {
        const size_t bytes = number * 37 % 1500;
        cr_assert_eq(atomic_load(kolo_shm_reader_word(&ring.reader)), 0, "before %zu",
                     (size_t)number);
        cr_assert(put(&ring, number | 1, bytes) == KOLO_OK);
        cr_assert_neq(atomic_load(kolo_shm_reader_word(&ring.reader)), 0);
        cr_assert(take(&ring, number | 1, bytes, &woke));
    }
    ring_fini(&ring);
}

Test(shm_ring, impossible_tails_are_protocol_errors)
{
    struct ring ring;
    ring_init(&ring, 0);
    while (put(&ring, 0, 0) == KOLO_OK)
        ;
    const uint64_t tails[] = {1, ring.writer.head + 64, UINT64_MAX, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        atomic_store(&ring.writer.control->tail, tails[i]);
        cr_assert(kolo_shm_writer_room(&ring.writer, 8) == KOLO_ERR_PROTOCOL, "tail %llu",
                  (unsigned long long)tails[i]);
    }
    cr_assert(strstr(kolo_error_detail(), "tail") != NULL, "%s", kolo_error_detail());
    ring_fini(&ring);
}

Test(shm_ring, impossible_words_are_protocol_errors)
{
    struct ring ring;
    struct kolo_shm_record record;
    ring_init(&ring, 0);
    const uint32_t longest = (uint32_t)kolo_shm_record_max(ring.capacity);
    const uint32_t lengths[] = {longest + 1, 8192, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        cr_assert(put(&ring, 0, 100) == KOLO_OK);
        memcpy(ring.writer.data + 4, &lengths[i], 4);
        cr_assert(kolo_shm_reader_peek(&ring.reader, &record) == KOLO_ERR_PROTOCOL, "length %u",
                  lengths[i]);
    }
    const uint64_t without_mark = 100ULL << 32 | 1;
    memcpy(ring.writer.data, &without_mark, 8);
    cr_assert(kolo_shm_reader_peek(&ring.reader, &record) == KOLO_ERR_PROTOCOL);
    cr_assert(strstr(kolo_error_detail(), "0000006400000001") != NULL, "%s", kolo_error_detail());
    ring_fini(&ring);
}

/** A peer that writes random bytes anywhere at any time: each call returns OK, AGAIN or PROTOCOL,
 * and every piece lies within the ring (ASan checks the rest). */
Test(shm_ring, garbage_anywhere_stays_in_bounds, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct ring ring;
        struct kolo_shm_record record;
        uint64_t state = seed * 0x9e3779b97f4a7c15u, sum = 0;
        ring_init(&ring, 0);
        for (int step = 0; step < 50; step++) {
            size_t at = next_random(&state) % kolo_shm_ring_footprint(ring.capacity);
            if (next_random(&state) % 2 == 0)
                at = next_random(&state) % (sizeof(struct kolo_shm_control) + KOLO_SHM_LINE);
            ring.memory[at] = (uint8_t)next_random(&state);
            (void)put(&ring, seed, next_random(&state) % kolo_shm_record_max(ring.capacity));
            if (kolo_shm_reader_peek(&ring.reader, &record) != KOLO_OK)
                continue;
            for (int piece = 0; piece < 2; piece++)
                for (size_t i = 0; i < record.pieces[piece].bytes; i++)
                    sum += record.pieces[piece].at[i];
            drop(&ring, &record);
        }
        cr_assert(sum < UINT64_MAX);
        ring_fini(&ring);
    }
}
