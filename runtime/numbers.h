// SPDX-License-Identifier: Apache-2.0
// The numbers of communicators. Private to runtime/.
#ifndef KOLO_RUNTIME_NUMBERS_H
#define KOLO_RUNTIME_NUMBERS_H

#include "runtime/comm.h"

enum {
    /* numbers are below this, because a channel's number is up to four times as large */
    KOLO_COMMS_MAX = 1 << 29,
    KOLO_NUMBERS_BLOCK = 64 /* how many a rank takes from the store at a time, at least */
};

/** Takes @p count consecutive numbers for the caller alone; *first_out is the lowest. If this rank
 * has not so many left of its block, it asks the job's store, through @p comm, on behalf of @p
 * function, and waits at most @p timeout_ms. ERR_SYSTEM: all are used. Else the statuses of
 * kolo_kv_take(). Not held: lock. */
kolo_status kolo_numbers_take(struct kolo_comm *comm, const char *function, int count,
                              int timeout_ms, int32_t *first_out) KOLO_NODISCARD;

#endif
