// SPDX-License-Identifier: Apache-2.0
// The way for small vectors: each member puts up all that it contributes, and takes what it needs
// from what the others put up. One flag, seen once: whoever has seen all members enter is over. A
// contribution stays up until its entry comes round again, which is after all have taken it.
#include <string.h>

#include "runtime/board_hub.h"

/* Contributions up to so many bytes: measured, bench/RESULTS.md. */
enum { STREAM_BYTES = 8 << 10, TWO_BYTES = 32 << 10, MANY_BYTES = 16 << 10 };

/** Elements of the longest contribution. */
static size_t longest(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    size_t elements = 0, count = kolo_moves_count(collective, args);
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(collective, args, i, &move);
        if (move.send_at + move.count > elements)
            elements = move.send_at + move.count;
    }
    return elements;
}

size_t kolo_oneshot_bytes(enum kolo_collective collective, const struct kolo_plan_args *args,
                          size_t element_bytes)
{
    size_t bytes;
    return __builtin_mul_overflow(longest(collective, args), element_bytes, &bytes) ? SIZE_MAX
                                                                                    : bytes;
}

size_t kolo_oneshot_limit(int ranks)
{
    return ranks > 2 ? MANY_BYTES : TWO_BYTES;
}

/** What @p member has put up. */
static uint8_t *put_up(const struct kolo_hub *hub, int member)
{
    if (hub->is_inline)
        return kolo_hub_entry(hub, member)->data;
    return hub->members[member].stage + hub->number % 2 * KOLO_BOARD_ONESHOT_BYTES;
}

void kolo_oneshot_put(struct kolo_hub *hub)
{
    const struct kolo_request *request = hub->running;
    size_t send, recv;
    hub->is_inline =
        longest(hub->collective, &request->args) * hub->element_bytes <= KOLO_BOARD_INLINE_BYTES;
    kolo_moves_extent(hub->collective, &request->args, hub->self, &send, &recv);
    if (send > 0)
        kolo_copy(put_up(hub, hub->self), request->send, send * hub->element_bytes,
                  send * hub->element_bytes >= STREAM_BYTES ? KOLO_STORE_STREAM
                                                            : KOLO_STORE_CACHED);
}

void kolo_oneshot_take(struct kolo_hub *hub)
{
    const struct kolo_request *request = hub->running;
    size_t count = kolo_moves_count(hub->collective, &request->args);
    hub->how = KOLO_STORE_CACHED;
    for (int member = 0; member < hub->count; member++)
        hub->members[member].send = put_up(hub, member);
    hub->members[hub->self].send = (uint8_t *)(uintptr_t)request->send; /* only read */
    hub->members[hub->self].recv = request->recv;
    for (size_t i = 0; i < count; i++) {
        struct kolo_move move;
        kolo_moves_at(hub->collective, &request->args, i, &move);
        if (move.count == 0 || (move.to != KOLO_EVERY && move.to != hub->self))
            continue;
        move.to = hub->self;
        kolo_hub_move(hub, &move);
    }
}
