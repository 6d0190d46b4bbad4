// SPDX-License-Identifier: Apache-2.0
// Calls that are started as one.
#ifndef KOLO_RUNTIME_GROUP_H
#define KOLO_RUNTIME_GROUP_H

#include "runtime/submit.h"

/** A call that another carries out: its part of that one's vector. */
struct kolo_group_part {
    const void *send;
    void *recv;
    size_t count;
    double prescale; /* of what is sent; 0: none */
};
/** One that was closed, or whose communicator ends; its calls are left. NULL: nothing. */
void kolo_group_free(struct kolo_group *group);
/** Takes a call up into the group that is open: prepared, not started. Takes the lock.
 * ERR_INVALID: it has a stream or a request of its own, or the group was ended meanwhile. */
kolo_status kolo_group_add(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** Remembers what a call failed with, if a group is open: nothing of it starts then. Returns it. */
kolo_status kolo_group_note(struct kolo_comm *comm, kolo_status status);
/** What @p function does cannot be part of a group: ERR_INVALID while one is open. */
kolo_status kolo_group_none(const struct kolo_comm *comm, const char *function) KOLO_NODISCARD;
/** Of a request that stands for several: puts their inputs together, and takes the result
 * apart. */
void kolo_parts_gather(const struct kolo_request *request);
void kolo_parts_scatter(const struct kolo_request *request);

#endif
