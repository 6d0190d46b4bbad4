// SPDX-License-Identifier: Apache-2.0
// Sends each detection, with its shape, to the rank of its image: first counts, then both, by
// alltoallv. Every rank takes part, even if it has read none. A failure on one rank before the data
// moves becomes a failure on all (agree.h).
#include "evaluate/detections.h"

#include <string.h>

#include "base/alloc.h"
#include "evaluate/agree.h"

struct deal {
    size_t *give, *take; /* int64s to and from each rank */
    int64_t *counts;     /* detections and words of shapes to each rank; then from each */
    struct eval_detection *sent, *got;
    struct eval_shapes sent_shapes, got_shapes;
};

enum {
    WORDS = sizeof(struct eval_detection) / sizeof(int64_t),
    WORD_BYTES = sizeof(int64_t),
    COUNTS = 2
};

static kolo_status make_room(struct deal *deal, const struct eval_detections *detections, size_t n)
{
    deal->give = kolo_calloc(n, sizeof *deal->give);
    deal->take = kolo_calloc(n, sizeof *deal->take);
    deal->counts = kolo_calloc(2 * COUNTS * n, sizeof *deal->counts);
    deal->sent = kolo_calloc(detections->count, sizeof *deal->sent);
    deal->sent_shapes.data = kolo_calloc(detections->shapes.bytes, 1);
    bool ok = deal->give && deal->take && deal->counts && deal->sent && deal->sent_shapes.data;
    return ok ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

/* Sorts by rank; shapes are in the order of their detections. */
static kolo_status plan(struct deal *deal, const struct eval_detections *detections, int ranks)
{
    size_t n = (size_t)ranks;
    kolo_status status = make_room(deal, detections, n);
    if (status != KOLO_OK)
        return status;
    size_t *next = deal->take, *next_shape = deal->give; /* their first use */
    for (size_t i = 0; i < detections->count; i++) {
        int64_t *counts = deal->counts + COUNTS * (detections->detection[i].image % n);
        counts[0]++;
        counts[1] += (int64_t)(detections->detection[i].shape.bytes / WORD_BYTES);
    }
    for (size_t r = 1; r < n; r++) {
        next[r] = next[r - 1] + (size_t)deal->counts[COUNTS * (r - 1)];
        next_shape[r] = next_shape[r - 1] + (size_t)deal->counts[COUNTS * (r - 1) + 1] * WORD_BYTES;
    }
    for (size_t i = 0; i < detections->count; i++) {
        const struct eval_detection *one = &detections->detection[i];
        size_t r = one->image % n;
        deal->sent[next[r]++] = *one;
        if (one->shape.bytes > 0)
            memcpy(deal->sent_shapes.data + next_shape[r], detections->shapes.data + one->shape.at,
                   one->shape.bytes);
        next_shape[r] += one->shape.bytes;
    }
    return KOLO_OK;
}

/* Sets how many int64s go to and come from each rank. @return how many things come. */
static size_t set_counts(struct deal *deal, size_t n, size_t which, size_t words)
{
    size_t sum = 0;
    for (size_t r = 0; r < n; r++) {
        size_t to = (size_t)deal->counts[COUNTS * r + which];
        size_t from = (size_t)deal->counts[COUNTS * (n + r) + which];
        deal->give[r] = to * words;
        deal->take[r] = from * words;
        sum += from;
    }
    return sum;
}

static kolo_status exchange(struct deal *deal, struct eval_detections *detections,
                            struct kolo_comm *comm)
{
    size_t n = (size_t)kolo_size(comm);
    kolo_status status;
    KOLO_TRY(eval_called(comm, kolo_alltoall(comm, deal->counts, deal->counts + COUNTS * n, COUNTS,
                                             KOLO_INT64, NULL, NULL)));
    deal->got_shapes.bytes = set_counts(deal, n, 1, 1) * WORD_BYTES;
    size_t count = set_counts(deal, n, 0, WORDS);
    deal->got = kolo_calloc(count, sizeof *deal->got);
    deal->got_shapes.data = kolo_calloc(deal->got_shapes.bytes, 1);
    status = deal->got && deal->got_shapes.data ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    KOLO_TRY(eval_agree(comm, status, EVAL_NO_PLACE));
    KOLO_TRY(eval_called(comm, kolo_alltoallv(comm, deal->sent, deal->give, NULL, deal->got,
                                              deal->take, NULL, KOLO_INT64, NULL, NULL)));
    (void)set_counts(deal, n, 1, 1);
    KOLO_TRY(eval_called(comm, kolo_alltoallv(comm, deal->sent_shapes.data, deal->give, NULL,
                                              deal->got_shapes.data, deal->take, NULL, KOLO_INT64,
                                              NULL, NULL)));
    for (size_t i = 0, at = 0; i < count; at += deal->got[i++].shape.bytes)
        deal->got[i].shape.at = at;
    detections->detection = deal->got;
    detections->count = detections->room = count;
    detections->shapes = deal->got_shapes;
    deal->got = NULL;
    deal->got_shapes.data = NULL;
out:
    return status;
}

kolo_status eval_detections_deal(struct eval_detections *detections, struct kolo_comm *comm)
{
    struct deal deal = {.give = NULL};
    if (kolo_size(comm) == 1)
        return KOLO_OK;
    kolo_status status = eval_agree(comm, plan(&deal, detections, kolo_size(comm)), EVAL_NO_PLACE);
    if (status == KOLO_OK) {
        eval_detections_free(detections);
        status = exchange(&deal, detections, comm);
    }
    kolo_free_memory(deal.give);
    kolo_free_memory(deal.take);
    kolo_free_memory(deal.counts);
    kolo_free_memory(deal.sent);
    kolo_free_memory(deal.got);
    eval_shapes_free(&deal.sent_shapes);
    eval_shapes_free(&deal.got_shapes);
    return status;
}
