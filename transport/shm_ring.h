// SPDX-License-Identifier: Apache-2.0
// A ring of records between one writer and one reader, usually in two processes, in memory that
// either may map anywhere. Private to the shm transport.
//
//   control: tail | wake_at, each on a line of its own       data: capacity bytes
//
// head (the writer's own) and tail count bytes and only grow; both are multiples of 64, and so is
// every record:
//
//   0    8                40        64
//   word | 32-byte header | payload of at most 24 bytes |              one line
//   word | 32-byte header | (24 unused)                 | payload ...  more lines
//
// The word holds kind, length and a bit that says that there is a record; stored last, it publishes
// it. So a reader that waits looks at the line that the record comes in, and a short message is one
// line that moves from one core to the other. Before it publishes a record the writer zeroes the
// word behind it, for which a line stays free: what the reader looks at is a word or 0, never an
// old payload.
//
// A record that reaches the end of the data goes on at its beginning. The cut lies on a multiple of
// 64, so no element of a payload is ever split.
//
// Nothing that is read from the shared memory is trusted: each side keeps its own index to itself,
// takes the tail, or a record's word, once, by copy, and bounds it. A peer that writes garbage
// makes ERR_PROTOCOL or wrong payloads, never an access outside of the ring.
//
// Sleeping: publishing and freeing are sequentially consistent stores, so that whoever then reads
// the other side's `armed` word (or wake_at) either sees it set or has been seen. A writer that
// found the ring full leaves the tail at which it wants to be woken in wake_at; the reader that
// moves the tail there takes the wish back and rings. Half a ring at a time: not one wake a record.
#ifndef KOLO_TRANSPORT_SHM_RING_H
#define KOLO_TRANSPORT_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    KOLO_SHM_LINE = 64,
    KOLO_SHM_RECORD_HEADER = 32, /* what the caller puts at the head of a record */
    KOLO_SHM_INLINE = 24,        /* payload that fits into the record's first line */
    KOLO_SHM_RING_MIN = 8192,
    KOLO_SHM_RING_MAX = 64 << 20
};

/** Shared. The only fields that both sides touch. */
struct kolo_shm_control {
    _Alignas(KOLO_SHM_LINE) _Atomic uint64_t tail; /* the reader's: all before it is free again */
    _Alignas(KOLO_SHM_LINE) _Atomic uint64_t wake_at; /* the tail the writer waits for, or NONE */
};

struct kolo_shm_writer {
    struct kolo_shm_control *control;
    uint8_t *data;
    uint64_t capacity, head, tail_seen;
};

struct kolo_shm_reader {
    struct kolo_shm_control *control;
    const uint8_t *data;
    uint64_t capacity, tail;
};

/** A record as its reader finds it: kind, bytes and header are copies; the payload lies in the ring
 * in at most two pieces (the second may be of 0 bytes) until it is popped. */
struct kolo_shm_record {
    uint32_t kind, bytes;
    uint8_t header[KOLO_SHM_RECORD_HEADER];
    struct kolo_shm_piece {
        const uint8_t *at;
        size_t bytes;
    } pieces[2];
    uint64_t end; /* the tail after it; for pop */
};

/** The power of two that is used for a ring of at least @p bytes. */
uint64_t kolo_shm_ring_capacity(size_t bytes);
/** What a ring of @p capacity takes in memory: control and data. */
size_t kolo_shm_ring_footprint(uint64_t capacity);
/** The longest payload of a record: a quarter of the ring, so that writer and reader overlap. */
size_t kolo_shm_record_max(uint64_t capacity);

/** Both sides start over @p memory (zeroed, aligned to a line, footprint bytes). The writer's side
 * must be set up before the memory is handed over. */
void kolo_shm_writer_init(struct kolo_shm_writer *writer, void *memory, uint64_t capacity);
void kolo_shm_reader_init(struct kolo_shm_reader *reader, void *memory, uint64_t capacity);

/** KOLO_OK: a record with @p bytes of payload (at most kolo_shm_record_max) fits now. KOLO_AGAIN:
 * not yet; the reader has been asked to wake us (see pop). ERR_PROTOCOL: the peer's tail is
 * impossible. */
kolo_status kolo_shm_writer_room(struct kolo_shm_writer *writer, size_t bytes) KOLO_NODISCARD;
/** Writes and publishes a record for which there is room; @p kind below 2^31. */
void kolo_shm_writer_put(struct kolo_shm_writer *writer, uint32_t kind,
                         const uint8_t header[KOLO_SHM_RECORD_HEADER], const void *payload,
                         size_t bytes);

/** Where the next record is published: 0 until it is there. */
const _Atomic uint64_t *kolo_shm_reader_word(const struct kolo_shm_reader *reader);
/** The oldest record; stays until it is popped. KOLO_AGAIN: none. ERR_PROTOCOL: its word is
 * impossible. */
kolo_status kolo_shm_reader_peek(struct kolo_shm_reader *reader,
                                 struct kolo_shm_record *record_out) KOLO_NODISCARD;
/** Frees the record. True: the writer wanted to know, ring its bell. */
bool kolo_shm_reader_pop(struct kolo_shm_reader *reader,
                         const struct kolo_shm_record *record) KOLO_NODISCARD;

#endif
