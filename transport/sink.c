// SPDX-License-Identifier: Apache-2.0
// Puts arriving payload into a receive, by copy or by reduction, into the stash, or nowhere, and
// all of it into the frame's checksum, if there is one. Must never write more than the frame
// announced.
#include <string.h>

#include "base/checksum.h"
#include "base/float_mode.h"
#include "memory/operator.h"
#include "transport/core.h"

void kolo_sink_to_work(struct kolo_sink *sink, struct kolo_work *work, size_t bytes)
{
    const struct kolo_action *action = &work->action;
    size_t done = work->bytes_done;
    *sink = (struct kolo_sink){.left = bytes, .element_bytes = 1, .work = work};
    if (bytes == 0)
        return;
    sink->dst = work->dst + done;
    if (action->kind == KOLO_REDUCE) {
        sink->local = (const uint8_t *)action->local + done;
        sink->own = action->own;
        sink->dtype = action->dtype;
        if (!action->own)
            sink->reduce = kolo_reduce_function(action->dtype, action->op);
        sink->element_bytes = kolo_dtype_bytes(action->dtype);
        sink->incoming_first = action->incoming_first;
    }
}

void kolo_sink_to_stash(struct kolo_sink *sink, struct kolo_stash *stash)
{
    *sink = (struct kolo_sink){
        .dst = stash->payload, .left = stash->bytes, .element_bytes = 1, .stash = stash};
}

void kolo_sink_to_memory(struct kolo_sink *sink, uint8_t *memory, size_t bytes)
{
    *sink = (struct kolo_sink){.dst = memory, .left = bytes, .element_bytes = 1};
}

void kolo_sink_drop(struct kolo_sink *sink)
{
    *sink = (struct kolo_sink){.left = sink->left, .element_bytes = 1, .sum = sink->sum};
}

static void advance(struct kolo_sink *sink, size_t bytes)
{
    sink->left -= bytes;
    if (sink->dst)
        sink->dst += bytes;
    if (sink->local)
        sink->local += bytes;
    if (sink->work)
        sink->work->bytes_done += bytes;
}

uint8_t *kolo_sink_room(struct kolo_sink *sink, size_t *room_out)
{
    if (sink->reduce || sink->own || !sink->dst || sink->left == 0)
        return NULL;
    *room_out = sink->left;
    return sink->dst;
}

void kolo_sink_stored(struct kolo_sink *sink, size_t bytes)
{
    bytes = bytes < sink->left ? bytes : sink->left;
    if (sink->sum)
        kolo_checksum_add(sink->sum, sink->dst, bytes);
    advance(sink, bytes);
}

/** Combines in the order of the operands, in the floating-point mode of all ranks. */
static void combine(const struct kolo_sink *sink, const void *data, size_t count)
{
    const void *in[2] = {sink->incoming_first ? data : (const void *)sink->local,
                         sink->incoming_first ? (const void *)sink->local : data};
    void *out = sink->dst;
    const uint64_t mode = kolo_float_mode_begin();
    if (sink->own)
        kolo_operator_fold(sink->own, sink->dtype, &out, 1, in, 2, count, KOLO_STORE_CACHED);
    else
        sink->reduce(out, in[0], in[1], count);
    kolo_float_mode_end(mode);
}

size_t kolo_sink_put(struct kolo_sink *sink, const void *data, size_t bytes)
{
    if (bytes > sink->left)
        bytes = sink->left;
    bytes -= bytes % sink->element_bytes;
    if (bytes == 0)
        return 0;
    size_t count = bytes / sink->element_bytes;
    if (sink->sum)
        kolo_checksum_add(sink->sum, data, bytes);
    if (sink->reduce || sink->own)
        combine(sink, data, count);
    else if (sink->dst)
        memcpy(sink->dst, data, bytes);
    advance(sink, bytes);
    return bytes;
}
