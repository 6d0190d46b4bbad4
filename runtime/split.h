// SPDX-License-Identifier: Apache-2.0
// How a new communicator comes up, shared by kolo_split, kolo_dup and kolo_shrink.
#ifndef KOLO_RUNTIME_SPLIT_H
#define KOLO_RUNTIME_SPLIT_H

#include "runtime/comm.h"

/** Numbers of communicators are below this: a channel's number holds four times as much. */
enum { KOLO_COMMS_MAX = 1 << 29 };

/** This rank's place in a communicator that comes up. */
struct kolo_seat {
    uint32_t number;
    int rank, size;
};

/** Opens @p child (created, its ranks filled in) and waits in a barrier on it until all members
 * have done so. Meanwhile it fails with @p parent (NULL: with none). Takes @p child: on failure it
 * is freed. Not held: lock; kolo_engine_creating() was called. */
kolo_status kolo_comm_meet(struct kolo_comm *child, struct kolo_comm *parent,
                           const struct kolo_seat *seat, const char *function,
                           const struct kolo_opts *opts) KOLO_NODISCARD;

#endif
