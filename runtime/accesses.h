// SPDX-License-Identifier: Apache-2.0
// The memory that each call of a group reads and writes, and the check that no two calls of the
// group conflict. The calls of a group have no order among themselves, so what one of them writes
// no other may read or write.
#ifndef KOLO_RUNTIME_ACCESSES_H
#define KOLO_RUNTIME_ACCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/submit.h"

struct kolo_access {
    uintptr_t begin, end; /* [begin, end), never empty */
    const char *function; /* the call's function, such as "kolo_allreduce"; not owned */
    uint32_t call;        /* the call: 1, 2, ... in the order in which calls were added */
    bool is_written;
};

/** Zero-initialised: no calls. */
struct kolo_accesses {
    struct kolo_access *items;
    size_t count, capacity;
    uint32_t calls;
    bool is_mixed; /* items are not in ascending order of address */
};

/** Adds what @p task, which has been checked, reads and writes on this rank, one of @p size. Blocks
 * are added one by one, so the gaps between them do not belong to the call.
 * @return KOLO_OK; KOLO_ERR_NO_MEMORY: accesses may be missing, so the group must not start. */
kolo_status kolo_accesses_add(struct kolo_accesses *accesses, const struct kolo_task *task,
                              int size) KOLO_NODISCARD;

/** Finds two accesses of different calls that share a byte which at least one of them writes;
 * *first_out is that of the earlier call. Returns false if there are none. Sorts @p accesses: O(n
 * log n), or O(n) if they were added in ascending order of address. */
bool kolo_accesses_clash(struct kolo_accesses *accesses, struct kolo_access *first_out,
                         struct kolo_access *second_out);

void kolo_accesses_free(struct kolo_accesses *accesses);

#endif
