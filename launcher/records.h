// SPDX-License-Identifier: Apache-2.0
// The timeline of one rank, as seen by its agent: memory that the rank writes and that outlives the
// rank.
#ifndef KOLO_LAUNCHER_RECORDS_H
#define KOLO_LAUNCHER_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct kolo_records {
    int fd;           /* 0: none */
    uint64_t at, end; /* bytes sent so far, and in total; end 0: not read yet */
};

enum { KOLO_RECORDS_PIECE_BYTES = 64 << 10 };

/** Creates the memory for rank @p rank of @p size, with room for @p calls calls
 * (kolo_timeline_calls). */
kolo_status kolo_records_open(struct kolo_records *records, int rank, int size,
                              uint32_t calls) KOLO_NODISCARD;
/** The rank has ended with @p wait_status. */
void kolo_records_ended(struct kolo_records *records, int wait_status);
/** Copies the next bytes of the timeline, at most KOLO_RECORDS_PIECE_BYTES; returns their number, 0
 * at the end. */
size_t kolo_records_next(struct kolo_records *records, void *data);
void kolo_records_close(struct kolo_records *records);

#endif
