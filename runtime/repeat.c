// SPDX-License-Identifier: Apache-2.0
// Owns the requests that are kept of blocking calls over a board. If a program calls the same
// collective again and again, its plan, description and moves are found out only once: a kept
// request gets the buffers of the next equal call and a new number. Everything that can differ in
// that call is checked again (arguments, a failed communicator, device memory).
//
// Must never keep what belongs to a single call (options, arrays, an operator of the program), nor
// give a request to a second thread before the first, which waits without the lock, has read its
// status.
#include "runtime/repeat.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

enum { REPEATS = 8 /* a power of two */ };

/** Calls of one kind that differ in their root, or in their length by a power of two, get different
 * slots and so do not replace each other. */
static size_t slot_of(enum kolo_call_kind kind, int root, uint64_t count)
{
    unsigned length = count != 0 ? 63 - (unsigned)__builtin_clzll(count) : 0;
    return ((unsigned)kind + (unsigned)root + length) % REPEATS;
}

bool kolo_repeat_may(const struct kolo_comm *comm, const struct kolo_task *task)
{
    return !task->opts && !task->counts && !task->request_out && !task->is_own && comm->has_board &&
           comm->plan_is_auto && (unsigned)task->op < KOLO_REDOP_OWN;
}

struct kolo_request *kolo_repeat_take(struct kolo_comm *comm, const struct kolo_task *task)
{
    if (!comm->repeats)
        return NULL;
    struct kolo_request *kept = &comm->repeats[slot_of(task->kind, task->root, task->count)];
    const struct kolo_call *call = &kept->call;
    bool is_like = kept->comm && call->kind == task->kind && call->count == task->count &&
                   call->root == task->root && call->dtype == task->dtype && call->op == task->op;
    if (!is_like || kept->is_taken)
        return NULL;
    kept->is_taken = true;
    kept->send = task->send;
    kept->recv = task->recv;
    kept->in_place = kept->args.in_place = task->in_place;
    return kept;
}

void kolo_repeat_give_back(struct kolo_request *kept)
{
    kept->is_taken = false;
}

void kolo_repeat_keep(struct kolo_comm *comm, const struct kolo_request *request)
{
    const struct kolo_call *call = &request->call;
    if (!request->plan || !request->plan->on_board || request->status != KOLO_OK)
        return;
    if (!comm->repeats)
        comm->repeats = kolo_calloc(REPEATS, sizeof *comm->repeats);
    if (!comm->repeats)
        return; /* the next call finds out everything again */
    struct kolo_request *kept = &comm->repeats[slot_of(call->kind, call->root, call->count)];
    if (kept->is_taken)
        return;
    memcpy(kept, request, offsetof(struct kolo_request, main));
    kept->is_kept = true;
}
