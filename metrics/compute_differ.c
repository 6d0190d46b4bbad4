// SPDX-License-Identifier: Apache-2.0
// Says how the lists of metrics differ if ranks compute different ones: where the list of the
// lowest such rank first differs from that of rank 0, and what both have there. Owns nothing. Every
// rank makes the same collectives of fixed length, and needs no memory for them. It must be called
// on all ranks, never on some only.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "metrics/metric.h"
#include "runtime/comm.h"

enum { COMPARED = 256, TEXT_BYTES = 96 };

/* The list of a rank, as rank 0 broadcasts it. */
struct list {
    int64_t count, shapes[COMPARED];
};

static void describe(struct kolo_metric *const *metrics, size_t count, size_t index,
                     char text[TEXT_BYTES])
{
    memset(text, 0, TEXT_BYTES);
    if (index >= count)
        snprintf(text, TEXT_BYTES, "missing (count is %zu)", count);
    else if (metrics[index]->samples > 0)
        snprintf(text, TEXT_BYTES, "%.32s of %" PRId64 " samples", metrics[index]->ops->name,
                 metrics[index]->samples);
    else
        snprintf(text, TEXT_BYTES, "%.32s", metrics[index]->ops->name);
}

/* Returns where this rank's list first differs from that of rank 0; -1: not within the first
 * COMPARED metrics. */
static int64_t first_difference(const struct list *zero, struct kolo_metric *const *metrics,
                                size_t count)
{
    int64_t index = 0;
    while (index < COMPARED && index < zero->count && index < (int64_t)count &&
           zero->shapes[index] == (int64_t)kolo_metric_shape(metrics[index]))
        index++;
    return index < COMPARED && (index < zero->count || index < (int64_t)count) ? index : -1;
}

/* Finds the lowest rank that differs, and where: @p place_out has both, as rank << 32 | index;
 * INT64_MAX: none was found. */
static kolo_status find(struct kolo_comm *comm, struct kolo_metric *const *metrics, size_t count,
                        const struct kolo_opts *opts, int64_t *place_out)
{
    struct list zero = {.count = (int64_t)count};
    for (size_t i = 0; i < count && i < COMPARED; i++)
        zero.shapes[i] = (int64_t)kolo_metric_shape(metrics[i]);
    kolo_status status =
        kolo_broadcast(comm, &zero, sizeof zero / sizeof(int64_t), KOLO_INT64, 0, opts, NULL);
    if (status != KOLO_OK)
        return status;
    const int64_t index = first_difference(&zero, metrics, count);
    *place_out = index >= 0 ? (int64_t)kolo_rank(comm) << 32 | index : INT64_MAX;
    return kolo_allreduce(comm, place_out, place_out, 1, KOLO_INT64, KOLO_MIN, opts, NULL);
}

kolo_status kolo_metrics_differ(struct kolo_comm *comm, struct kolo_metric *const *metrics,
                                size_t count, const struct kolo_opts *opts)
{
    char zero[TEXT_BYTES], other[TEXT_BYTES], who[2][KOLO_RANK_TEXT_MAX];
    int64_t place = INT64_MAX;
    kolo_status status = find(comm, metrics, count, opts, &place);
    if (status != KOLO_OK)
        return status;
    if (place == INT64_MAX)
        return kolo_fail(KOLO_ERR_MISMATCH,
                         "kolo_metrics_compute: the ranks passed metrics of different kinds, sizes "
                         "or configurations after the first %d: pass the same list on all",
                         COMPARED);
    const int rank = (int)(place >> 32);
    const size_t index = (size_t)(place & UINT32_MAX);
    describe(metrics, count, index, zero);
    describe(metrics, count, index, other);
    status = kolo_broadcast(comm, zero, TEXT_BYTES, KOLO_UINT8, 0, opts, NULL);
    if (status == KOLO_OK)
        status = kolo_broadcast(comm, other, TEXT_BYTES, KOLO_UINT8, rank, opts, NULL);
    if (status != KOLO_OK)
        return status;
    zero[TEXT_BYTES - 1] = other[TEXT_BYTES - 1] = '\0'; /* whatever was received */
    return kolo_fail(
        KOLO_ERR_MISMATCH,
        "kolo_metrics_compute: metrics[%zu] is %s on %s, but %s%s on %s: pass the same "
        "list on all",
        index, zero, kolo_comm_rank_text(comm, 0, who[0]), other,
        strcmp(zero, other) == 0 ? " with another configuration" : "",
        kolo_comm_rank_text(comm, rank, who[1]));
}
