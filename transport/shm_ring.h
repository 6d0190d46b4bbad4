// SPDX-License-Identifier: Apache-2.0
// A ring of records between one writer and one reader, usually in two processes, in memory that
// each may map at any address. Private to the shm transport.
//
//   control: tail | wake_at, each on a line of its own       data: capacity bytes
//
// head (known to the writer only) and tail count bytes and only grow. Both are multiples of 64, as
// is the size of every record:
//
//   0    8                40        64
//   word | 32-byte header | payload of at most 24 bytes |              one line
//   word | 32-byte header | (24 unused)                 | payload ...  more lines
//
// The word contains kind, length and a bit that says that there is a record; it is stored last,
// which publishes the record. A waiting reader therefore looks at the line in which the record will
// come, and a short message moves a single line from one core to the other. Before it publishes a
// record, the writer zeroes the word behind it, and keeps a line free for that: the reader sees
// either a word or 0 there, never an old payload.
//
// A record that reaches the end of the data continues at its beginning. The cut is at a multiple of
// 64, so it never splits an element of a payload.
//
// Nothing that is read from the shared memory is trusted: each side keeps its own index in private
// memory, copies the tail or a record's word once, and bounds the copy. A peer that writes garbage
// causes ERR_PROTOCOL or wrong payloads, never an access outside of the ring.
//
// Sleeping: publishing and freeing are sequentially consistent stores, and whoever made one then
// reads the other side's `armed` word (or wake_at). So either it finds the word set, and rings, or
// the other side has seen the store before it sleeps. A writer that found the ring full writes to
// wake_at the tail at which it wants to be woken, half a ring away, so that not every record wakes
// it. The reader that moves the tail there clears wake_at and rings the bell.
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

/** The shared fields. Both sides touch no others. */
struct kolo_shm_control {
    _Alignas(KOLO_SHM_LINE) _Atomic uint64_t tail;    /* written by the reader: all before it is
                                                    * free */
    _Alignas(KOLO_SHM_LINE) _Atomic uint64_t wake_at; /* the tail that the writer waits for, or
                                                       * NONE */
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

/** A record as its reader finds it. kind, bytes and header are copies. Until the record is popped,
 *  the payload is in the ring, in at most two pieces (the second one may have 0 bytes). */
struct kolo_shm_record {
    uint32_t kind, bytes;
    uint8_t header[KOLO_SHM_RECORD_HEADER];
    struct kolo_shm_piece {
        const uint8_t *at;
        size_t bytes;
    } pieces[2];
    uint64_t end; /* the tail after this record; for pop */
};

/** The capacity, a power of two, of a ring of at least @p bytes bytes. */
uint64_t kolo_shm_ring_capacity(size_t bytes);
/** How much memory a ring of @p capacity takes: control and data. */
size_t kolo_shm_ring_footprint(uint64_t capacity);
/** The longest payload of a record: a quarter of the ring, so that writer and reader can
 *  overlap. */
size_t kolo_shm_record_max(uint64_t capacity);

/** Both sides start with @p memory (zeroed, aligned to a line, footprint bytes). The writer's side
 *  must be set up before the memory is handed over. */
void kolo_shm_writer_init(struct kolo_shm_writer *writer, void *memory, uint64_t capacity);
void kolo_shm_reader_init(struct kolo_shm_reader *reader, void *memory, uint64_t capacity);

/** KOLO_OK: a record with @p bytes bytes of payload (at most kolo_shm_record_max) fits now.
 *  KOLO_AGAIN: not yet; the reader was asked to wake us (see pop). ERR_PROTOCOL: the peer's tail is
 *  impossible. */
kolo_status kolo_shm_writer_room(struct kolo_shm_writer *writer, size_t bytes) KOLO_NODISCARD;
/** Writes and publishes a record for which there is room. @p kind must be below 2^31. */
void kolo_shm_writer_put(struct kolo_shm_writer *writer, uint32_t kind,
                         const uint8_t header[KOLO_SHM_RECORD_HEADER], const void *payload,
                         size_t bytes);

/** Where the next record will be published: 0 until it is there. */
const _Atomic uint64_t *kolo_shm_reader_word(const struct kolo_shm_reader *reader);
/** The oldest record, which stays in the ring until it is popped. KOLO_AGAIN: none. ERR_PROTOCOL:
 *  its word is impossible. */
kolo_status kolo_shm_reader_peek(struct kolo_shm_reader *reader,
                                 struct kolo_shm_record *record_out) KOLO_NODISCARD;
/** Frees the record. True: the writer waits for this; ring its bell. */
bool kolo_shm_reader_pop(struct kolo_shm_reader *reader,
                         const struct kolo_shm_record *record) KOLO_NODISCARD;

#endif
