// SPDX-License-Identifier: Apache-2.0
// Freed spans that a heap keeps with their pages. Owns the order, and the count of the process.
// Must never keep more than the bounds, nor hand out pages that a child of this process also has:
// it would see what is written to them, and could write to them itself.
//
// To make a span takes eight system calls, and a fault for each page; to clear one that is kept
// takes a tenth of that or less. 2 MiB are as much as eight links over shm take. The number of
// spans is bounded too, because each has a descriptor, of which a process often may have 1024: for
// all heaps together, since a process may have a thousand ranks.
#include "memory/kept.h"

#include <stdatomic.h>
#include <string.h>

static atomic_int of_process;

static bool enter_process(void)
{
    int count = atomic_load(&of_process);
    do {
        if (count >= KOLO_KEPT_OF_PROCESS)
            return false;
    } while (!atomic_compare_exchange_weak(&of_process, &count, count + 1));
    return true;
}

static void take_out(struct kolo_kept *kept, size_t at, struct kolo_span *span_out)
{
    *span_out = kept->spans[at];
    kept->bytes -= span_out->bytes;
    kept->count--;
    (void)atomic_fetch_sub(&of_process, 1);
    memmove(&kept->spans[at], &kept->spans[at + 1], (kept->count - at) * sizeof *kept->spans);
}

bool kolo_kept_put(struct kolo_kept *kept, const struct kolo_span *span,
                   struct kolo_span *oldest_out)
{
    const bool is_stale = kept->count > 0 && kept->spans[0].stamp != span->stamp;
    if (!is_stale && kept->count < KOLO_KEPT_SPANS &&
        kept->bytes + span->bytes <= KOLO_KEPT_BYTES && enter_process()) {
        kept->spans[kept->count++] = *span;
        kept->bytes += span->bytes;
        return true;
    }
    if (!kolo_kept_take_oldest(kept, oldest_out))
        *oldest_out = *span;
    return false;
}

bool kolo_kept_take(struct kolo_kept *kept, size_t bytes, uint64_t stamp,
                    struct kolo_span *span_out)
{
    for (size_t i = kept->count; i > 0; i--) {
        if (kept->spans[i - 1].bytes != bytes || kept->spans[i - 1].stamp != stamp)
            continue;
        take_out(kept, i - 1, span_out);
        return true;
    }
    return false;
}

bool kolo_kept_take_oldest(struct kolo_kept *kept, struct kolo_span *span_out)
{
    if (kept->count == 0)
        return false;
    take_out(kept, 0, span_out);
    return true;
}
