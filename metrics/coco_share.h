// SPDX-License-Identifier: Apache-2.0
// What the steps from the images of each rank to results on all ranks hand on. Private to
// coco_share, coco_pieces, coco_route and coco_join.
#ifndef KOLO_METRICS_COCO_SHARE_H
#define KOLO_METRICS_COCO_SHARE_H

#include "metrics/coco.h"

/** A class, or its records between two scores: what one rank makes the curve of. */
struct kolo_coco_piece {
    size_t class, owner;
    int64_t total;  /* records of all ranks */
    int64_t work;   /* what it costs its owner, in records */
    int64_t number; /* among the pieces of cut classes; -1: the whole class */
};

struct kolo_coco_share {
    struct kolo_comm *comm;
    const struct kolo_opts *opts;
    const struct kolo_coco_params *params;
    const struct kolo_coco_images *images;
    size_t ranks, rank;
    /* coco_share: images and counts */
    size_t *image_counts; /* per rank */
    int64_t *ids;         /* of all ranks' images */
    uint32_t *chosen;     /* this rank's images to count, by id */
    uint32_t *place;      /* of each of them */
    size_t kept;          /* how many */
    int64_t *sums;        /* of all ranks, per class: ground truths of each area range */
    double *cutoff;       /* per class: records with less change no curve */
    int64_t *class_total; /* the other records of all ranks; behind the sums */
    int64_t *class_true;  /* of those the true ones; behind that, then totals */
    int64_t *totals;
    size_t *class_start; /* per class, and the end: where its records begin in order */
    uint32_t *order;     /* numbers of this rank's records that count: by class, best first */
    uint32_t *place_of;  /* per record: its image's place; NULL on one rank */
    /* coco_pieces: by class, best scores first */
    struct kolo_coco_piece *piece;
    size_t pieces, cut_pieces;
    int64_t *counts; /* records per rank and piece */
    /* coco_route: records of this rank's pieces that other ranks had, of one rank after the
     * other */
    struct kolo_coco_record *in;
};

/** Records of a piece that a rank has. */
static inline size_t kolo_coco_count_of(const struct kolo_coco_share *share, size_t rank,
                                        size_t piece)
{
    return (size_t)share->counts[rank * share->pieces + piece];
}

/** The status of a step that can fail on one rank alone: all go on, or none. Collective. */
kolo_status kolo_coco_agree(const struct kolo_coco_share *share, kolo_status mine) KOLO_NODISCARD;

/** Cuts heavy classes, and deals out the pieces. Collective. */
kolo_status kolo_coco_deal(struct kolo_coco_share *share) KOLO_NODISCARD;

/** Records to the owners of their pieces. Collective. */
kolo_status kolo_coco_route(struct kolo_coco_share *share) KOLO_NODISCARD;

/** Makes the curves of this rank's pieces, and fills the arrays with those of all. Collective. */
kolo_status kolo_coco_join(struct kolo_coco_share *share,
                           struct kolo_coco_arrays *arrays) KOLO_NODISCARD;

/** The area under the curve of a class that is one piece, for each cap, area range and threshold.
 *  @param climb  room for as many as the run has, and one */
void kolo_voc_areas(const struct kolo_coco_share *share, struct kolo_coco_run *run, size_t class,
                    double *climb, double *areas);
/** Areas to all ranks, and averages at points from the precision there. Collective. */
kolo_status kolo_voc_join(struct kolo_coco_share *share,
                          struct kolo_coco_arrays *arrays) KOLO_NODISCARD;

#endif
