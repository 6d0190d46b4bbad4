// SPDX-License-Identifier: Apache-2.0
// Groups: calls that are collected by kolo_group_begin() and start together at kolo_group_end().
#ifndef KOLO_RUNTIME_GROUP_H
#define KOLO_RUNTIME_GROUP_H

#include "runtime/submit.h"

/** A call that another call carries out: its part of that call's vector. */
struct kolo_group_part {
    const void *send;
    void *recv;
    size_t count;
    double prescale; /* of the input; 0: none */
};
/** Frees the open group of a communicator that ends, if there is one, and warns that its calls were
 * never started. While the table of peers is there. */
void kolo_group_drop(struct kolo_comm *comm);
/** Adds a call to the open group: prepared, not started. Takes the lock. ERR_INVALID: the call has
 * a stream or its own request, or the group has ended meanwhile. */
kolo_status kolo_group_add(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** If a group is open, remembers that a call failed, so that the group does not start. Returns @p
 * status. */
kolo_status kolo_group_note(struct kolo_comm *comm, kolo_status status);
/** Refuses a @p function that cannot be part of a group: ERR_INVALID while one is open. */
kolo_status kolo_group_none(const struct kolo_comm *comm, const char *function) KOLO_NODISCARD;
/** For a request that stands for several calls: gathers their inputs, and distributes the
 * result. */
void kolo_parts_gather(const struct kolo_request *request);
void kolo_parts_scatter(const struct kolo_request *request);

#endif
