// SPDX-License-Identifier: Apache-2.0
// Freed spans that a heap keeps with their pages, for allocations of the same length. Private to
// the heap, whose lock guards what it keeps.
#ifndef KOLO_MEMORY_KEPT_H
#define KOLO_MEMORY_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/memory.h"

enum {
    KOLO_KEPT_SPANS = 16, /* of a heap */
    KOLO_KEPT_BYTES = 2 << 20,
    KOLO_KEPT_LONGEST = KOLO_KEPT_BYTES / 2, /* so that a call's input and output both fit */
    KOLO_KEPT_OF_PROCESS = 64                /* spans of all heaps, since each is a descriptor */
};

/** All zeros: nothing is kept. */
struct kolo_kept {
    struct kolo_span spans[KOLO_KEPT_SPANS]; /* those kept first come first */
    size_t count, bytes;
};

/** Keeps the span, of at most KOLO_KEPT_LONGEST bytes. False: not yet; to make room, or because
 * this process has forked since it was kept, the oldest was taken out. The caller frees that and
 * tries again; if it is @p span itself, there is no room at all. */
bool kolo_kept_put(struct kolo_kept *kept, const struct kolo_span *span,
                   struct kolo_span *oldest_out);
/** Takes out the span of @p bytes bytes that was kept last, if this process has not forked since,
 * as @p stamp (kolo_forks_stamp) says. False: there is none. */
bool kolo_kept_take(struct kolo_kept *kept, size_t bytes, uint64_t stamp,
                    struct kolo_span *span_out);
/** Takes out the span that was kept first. False: there is none. */
bool kolo_kept_take_oldest(struct kolo_kept *kept, struct kolo_span *span_out);

#endif
