// SPDX-License-Identifier: Apache-2.0
// Estimates the speed of rails and chooses among them (rdma_pace.h). Must never divide by what was
// not measured yet: a rail without figures of its own is taken to be as fast as the fastest that
// has some, so that it is tried.
#include "transport/rdma_pace.h"

#include <stdbool.h>

enum {
    MEMORY_BYTES = 16 << 20, /* after each such amount the older figures count half */
    FADES = 512              /* with each piece that another rail gets, by this fraction */
};

void kolo_rdma_pace_posted(struct kolo_rdma_pace *pace, size_t bytes, int64_t now)
{
    if (pace->out_bytes == 0)
        pace->since = now;
    pace->out_bytes += bytes;
}

void kolo_rdma_pace_over(struct kolo_rdma_pace *pace, size_t bytes, int64_t now)
{
    pace->out_bytes -= bytes < pace->out_bytes ? bytes : pace->out_bytes;
    pace->bytes += bytes;
    pace->ns += now > pace->since ? (uint64_t)(now - pace->since) : 0;
    pace->since = now;
    if (pace->bytes > MEMORY_BYTES) {
        pace->bytes /= 2;
        pace->ns /= 2;
    }
}

static double ns_per_byte(const struct kolo_rdma_pace *pace)
{
    return (double)pace->ns / (double)pace->bytes;
}

static bool is_measured(const struct kolo_rdma_pace *pace)
{
    return pace->bytes > 0 && pace->ns > 0;
}

static double fastest(struct kolo_rdma_pace *const *paces, int count)
{
    double least = 0;
    for (int i = 0; i < count; i++)
        if (paces[i] && is_measured(paces[i]) && (least == 0 || ns_per_byte(paces[i]) < least))
            least = ns_per_byte(paces[i]);
    return least > 0 ? least : 1;
}

/** How long @p bytes more bytes take on that rail, including what is under way. */
static double takes(const struct kolo_rdma_pace *pace, size_t bytes, double unknown)
{
    return (double)(pace->out_bytes + bytes) * (is_measured(pace) ? ns_per_byte(pace) : unknown);
}

/** How long everything takes on all rails together: what is under way, and @p left bytes. */
static double all_takes(struct kolo_rdma_pace *const *paces, int count, size_t left, double unknown)
{
    double bytes = (double)left, bytes_per_ns = 0;
    for (int i = 0; i < count; i++)
        if (paces[i]) {
            bytes += (double)paces[i]->out_bytes;
            bytes_per_ns += 1 / (is_measured(paces[i]) ? ns_per_byte(paces[i]) : unknown);
        }
    return bytes_per_ns > 0 ? bytes / bytes_per_ns : 0;
}

/** The figures of an idle rail fade, so that it is tried again: it may be faster by now. */
static void fade(struct kolo_rdma_pace *pace)
{
    if (pace->out_bytes == 0)
        pace->ns -= pace->ns / FADES;
}

int kolo_rdma_pace_choose(struct kolo_rdma_pace *const *paces, int count, size_t bytes, size_t left)
{
    const uint64_t most = (uint64_t)KOLO_RDMA_PIECES_OUT * KOLO_RDMA_PIECE_BYTES;
    const double unknown = fastest(paces, count), whole = all_takes(paces, count, left, unknown);
    double soonest = 0, soonest_with_room = 0;
    int best = -1, with_room = -1;
    for (int i = 0; i < count; i++) {
        if (!paces[i])
            continue;
        const double here = takes(paces[i], bytes, unknown);
        if (best < 0 || here < soonest) {
            best = i;
            soonest = here;
        }
        if (paces[i]->out_bytes + bytes <= most && (with_room < 0 || here < soonest_with_room)) {
            with_room = i;
            soonest_with_room = here;
        }
    }
    if (with_room >= 0 && with_room != best && soonest_with_room > whole)
        with_room = -1; /* it would finish last */
    for (int i = 0; i < count && with_room >= 0; i++)
        if (paces[i] && i != with_room)
            fade(paces[i]);
    return with_room;
}
