// SPDX-License-Identifier: Apache-2.0
// Owns the list of the memory that the calls of a group read and write, and finds two calls that
// conflict. Must never read that memory (it may be a device's), nor count the gap between two
// blocks as used (two allgathers may fill one matrix by columns).
//
// The accesses are sorted by where they begin and then scanned once. For all accesses so far, and
// for the written ones among them, the scan remembers the one that reaches farthest, and the one of
// another call that reaches farthest. An access conflicts with an earlier one if it begins before
// that one's end.
#include "runtime/accesses.h"

#include <stdlib.h>

#include "base/alloc.h"

static kolo_status add(struct kolo_accesses *accesses, const struct kolo_task *task,
                       const void *memory, size_t bytes, bool is_written)
{
    const uintptr_t begin = (uintptr_t)memory;
    if (bytes == 0)
        return KOLO_OK;
    kolo_status status = kolo_grow((void **)&accesses->items, &accesses->capacity,
                                   accesses->count + 1, sizeof *accesses->items);
    if (status != KOLO_OK)
        return status;
    if (accesses->count > 0 && begin < accesses->items[accesses->count - 1].begin)
        accesses->is_mixed = true;
    accesses->items[accesses->count++] =
        (struct kolo_access){begin, begin + bytes, task->function, accesses->calls, is_written};
    return KOLO_OK;
}

/** The blocks of one buffer, one for each rank. */
struct blocks {
    const void *memory;
    const size_t *counts, *displs;
    int size; /* number of ranks */
    bool is_written;
};

/** Empty blocks are skipped. */
static kolo_status add_blocks(struct kolo_accesses *accesses, const struct kolo_task *task,
                              struct blocks blocks)
{
    const size_t element_bytes = kolo_dtype_bytes(task->dtype);
    kolo_status status = KOLO_OK;
    for (int rank = 0; rank < blocks.size && status == KOLO_OK; rank++)
        if (blocks.counts[rank] > 0)
            status = add(accesses, task,
                         (const uint8_t *)blocks.memory + blocks.displs[rank] * element_bytes,
                         blocks.counts[rank] * element_bytes, blocks.is_written);
    return status;
}

/** Whether counts and displs describe the blocks that the call reads, and those that it writes. */
static bool reads_blocks(const struct kolo_task *task)
{
    return task->kind == KOLO_CALL_SCATTERV && task->displs && task->send_bytes > 0;
}

static bool writes_blocks(const struct kolo_task *task)
{
    const bool gathers = task->kind == KOLO_CALL_ALLGATHERV || task->kind == KOLO_CALL_GATHERV ||
                         task->kind == KOLO_CALL_ALLTOALLV;
    return gathers && task->displs && task->recv_bytes > 0;
}

/** Whether the call may overwrite its whole input: its prescale does, for example. */
static bool loses_input(const struct kolo_task *task)
{
    return task->in_place &&
           (task->kind == KOLO_CALL_REDUCE_SCATTER || task->kind == KOLO_CALL_REDUCE_SCATTERV);
}

static kolo_status add_read(struct kolo_accesses *accesses, const struct kolo_task *task, int size)
{
    if (task->send_counts && task->send_displs)
        return add_blocks(accesses, task,
                          (struct blocks){.memory = task->send,
                                          .counts = task->send_counts,
                                          .displs = task->send_displs,
                                          .size = size});
    if (reads_blocks(task))
        return add_blocks(accesses, task,
                          (struct blocks){.memory = task->send,
                                          .counts = task->counts,
                                          .displs = task->displs,
                                          .size = size});
    return add(accesses, task, task->send, task->send_bytes, loses_input(task));
}

kolo_status kolo_accesses_add(struct kolo_accesses *accesses, const struct kolo_task *task,
                              int size)
{
    accesses->calls++;
    kolo_status status = add_read(accesses, task, size);
    if (status != KOLO_OK)
        return status;
    if (writes_blocks(task))
        return add_blocks(accesses, task,
                          (struct blocks){.memory = task->recv,
                                          .counts = task->counts,
                                          .displs = task->displs,
                                          .size = size,
                                          .is_written = true});
    return add(accesses, task, task->recv, task->recv_bytes, true);
}

/* ---- where they meet ---- */

/** Of the accesses so far: the one that reaches farthest, and the one of another call that does.
 * NULL: none. */
struct reach {
    const struct kolo_access *farthest, *other;
};

static void extend(struct reach *reach, const struct kolo_access *access)
{
    if (!reach->farthest || access->end > reach->farthest->end) {
        if (reach->farthest && reach->farthest->call != access->call)
            reach->other = reach->farthest;
        reach->farthest = access;
    } else if (access->call != reach->farthest->call &&
               (!reach->other || access->end > reach->other->end)) {
        reach->other = access;
    }
}

/** An access of another call than @p access's that overlaps it; NULL: none. */
static const struct kolo_access *into(const struct reach *reach, const struct kolo_access *access)
{
    const struct kolo_access *before = reach->farthest;
    if (before && before->call == access->call)
        before = reach->other;
    return before && before->end > access->begin ? before : NULL;
}

static int by_begin(const void *a, const void *b)
{
    const uintptr_t x = ((const struct kolo_access *)a)->begin;
    const uintptr_t y = ((const struct kolo_access *)b)->begin;
    return (x > y) - (x < y);
}

bool kolo_accesses_clash(struct kolo_accesses *accesses, struct kolo_access *first_out,
                         struct kolo_access *second_out)
{
    struct reach all = {NULL, NULL}, written = {NULL, NULL};
    if (accesses->is_mixed)
        qsort(accesses->items, accesses->count, sizeof *accesses->items, by_begin);
    accesses->is_mixed = false;
    for (size_t i = 0; i < accesses->count; i++) {
        const struct kolo_access *access = &accesses->items[i];
        const struct kolo_access *before = into(access->is_written ? &all : &written, access);
        if (before) {
            *first_out = before->call < access->call ? *before : *access;
            *second_out = before->call < access->call ? *access : *before;
            return true;
        }
        extend(&all, access);
        if (access->is_written)
            extend(&written, access);
    }
    return false;
}

void kolo_accesses_free(struct kolo_accesses *accesses)
{
    kolo_free_memory(accesses->items);
    *accesses = (struct kolo_accesses){0};
}
