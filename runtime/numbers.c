// SPDX-License-Identifier: Apache-2.0
// Owns the numbers that a rank has taken from the job's store and not used. Must never give one
// away twice, nor give it back to the store.
//
// The store hands out each number once in a job. A rank that makes communicators takes a block of
// them, so that most of these calls need no answer of the store, which takes longer than all the
// rest. What is left of a block when it is too small for the next call is not used by anybody.
#include "runtime/numbers.h"

#include "runtime/kv.h"

/** Takes @p count from the block. False: it has not so many. */
static bool take_here(struct kolo_comm *comm, int count, int32_t *first_out)
{
    struct kolo_numbers *numbers = &comm->engine->numbers;
    kolo_comm_enter(comm);
    const bool has = numbers->end - numbers->next >= count;
    if (has) {
        *first_out = numbers->next;
        numbers->next += count;
    }
    kolo_comm_leave(comm);
    return has;
}

/** Keeps the numbers from @p next to below @p end, unless another thread has left more. */
static void keep(struct kolo_comm *comm, int64_t next, int64_t end)
{
    struct kolo_numbers *numbers = &comm->engine->numbers;
    if (end > KOLO_COMMS_MAX)
        end = KOLO_COMMS_MAX;
    kolo_comm_enter(comm);
    if (end - next > numbers->end - numbers->next)
        *numbers = (struct kolo_numbers){(int32_t)next, (int32_t)end};
    kolo_comm_leave(comm);
}

kolo_status kolo_numbers_take(struct kolo_comm *comm, const char *function, int count,
                              int timeout_ms, int32_t *first_out)
{
    const int block = count > KOLO_NUMBERS_BLOCK ? count : KOLO_NUMBERS_BLOCK;
    int64_t last = 0;
    if (take_here(comm, count, first_out))
        return KOLO_OK;
    kolo_status status = kolo_kv_take(comm, function, block, timeout_ms, &last);
    if (status != KOLO_OK)
        return status;
    const int64_t first = last - block + 1;
    if (first + count > KOLO_COMMS_MAX)
        return kolo_fail(KOLO_ERR_SYSTEM, "all %d are used", KOLO_COMMS_MAX);
    *first_out = (int32_t)first;
    keep(comm, first + count, last + 1);
    return KOLO_OK;
}
