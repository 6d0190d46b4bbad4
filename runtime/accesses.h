// SPDX-License-Identifier: Apache-2.0
// Accesses: which bytes of its rank's memory each call of a group reads and writes, and whether two
// calls meet in some of them. Nothing in a group comes before anything else, so what one of its
// calls writes no other may read or write.
#ifndef KOLO_RUNTIME_ACCESSES_H
#define KOLO_RUNTIME_ACCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/submit.h"

struct kolo_access {
    uintptr_t begin, end; /* the byte after the last; not empty */
    const char *function; /* of its call: "kolo_allreduce"; not owned */
    uint32_t call;        /* whose it is: 1, 2, ... in the order in which they were added */
    bool is_written;
};

/** All of them zero: no calls. */
struct kolo_accesses {
    struct kolo_access *items;
    size_t count, capacity;
    uint32_t calls;
    bool is_mixed; /* they do not ascend as they are */
};

/** Adds what this rank, one of @p size, reads and writes in @p task, which has been checked: blocks
 * one by one, so that what lies in the gaps between them is not the call's.
 * @return KOLO_OK; KOLO_ERR_NO_MEMORY: accesses may be missing, and the group cannot start. */
kolo_status kolo_accesses_add(struct kolo_accesses *accesses, const struct kolo_task *task,
                              int size) KOLO_NODISCARD;

/** Two accesses of different calls that share a byte which one of them writes; in *first_out that
 * of the earlier call. false: there are none. Sorts @p accesses: O(n log n), or n if they were
 * added in the order in which they lie in memory. */
bool kolo_accesses_clash(struct kolo_accesses *accesses, struct kolo_access *first_out,
                         struct kolo_access *second_out);

void kolo_accesses_free(struct kolo_accesses *accesses);

#endif
