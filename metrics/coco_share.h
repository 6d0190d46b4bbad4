// SPDX-License-Identifier: Apache-2.0
// The state that the steps from the images of each rank to the results on all ranks pass to each
// other. Private to coco_share.c, coco_pieces.c, coco_route.c, coco_join.c and voc_average.c.
#ifndef KOLO_METRICS_COCO_SHARE_H
#define KOLO_METRICS_COCO_SHARE_H

#include "metrics/coco.h"

/** A piece: a class, or the records of a class in a range of its order. One rank makes its
 *  curve. */
struct kolo_coco_piece {
    size_t class, owner;
    int64_t total;  /* records of all ranks */
    int64_t work;   /* its estimated cost for the owner, in records */
    int64_t number; /* among the pieces of cut classes; -1: it is a whole class */
};

struct kolo_coco_share {
    struct kolo_comm *comm;
    const struct kolo_opts *opts;
    const struct kolo_coco_params *params;
    const struct kolo_coco_images *images;
    size_t ranks, rank;
    /* coco_share: images and counts */
    size_t *image_counts; /* per rank */
    int64_t *ids;         /* of the images of all ranks */
    uint32_t *chosen;     /* the images that this rank counts, by id */
    uint32_t *place;      /* of each of them, among the ids of all ranks */
    size_t kept;          /* number of chosen images */
    int64_t *sums;        /* of all ranks, per class: ground truths of each area range */
    double *cutoff;       /* per class: records with a lower score change no curve */
    int64_t *class_total; /* per class: the other records of all ranks; follows sums in memory */
    int64_t *class_true;  /* per class: the true ones of all ranks; follows class_total */
    int64_t *totals;      /* follows class_true */
    size_t *class_start;  /* per class, then the end: where its records begin in order */
    uint32_t *order;      /* this rank's records that count (numbers): by class, best first */
    uint32_t *place_of;   /* per record: the place of its image; NULL on one rank */
    /* coco_pieces: pieces by class, best scores first */
    struct kolo_coco_piece *piece;
    size_t pieces, cut_pieces;
    int64_t *counts; /* records per rank and piece */
    /* coco_route: records of this rank's pieces from the other ranks, one rank after another */
    struct kolo_coco_record *in;
};

/** Returns the number of records of a piece that a rank has. */
static inline size_t kolo_coco_count_of(const struct kolo_coco_share *share, size_t rank,
                                        size_t piece)
{
    return (size_t)share->counts[rank * share->pieces + piece];
}

/** Agrees on the status of a step that can fail on single ranks, as kolo_metric_agree().
 *  Collective. */
kolo_status kolo_coco_agree(const struct kolo_coco_share *share, kolo_status mine) KOLO_NODISCARD;

/** Cuts classes with many records into pieces and assigns the pieces to ranks. Collective. */
kolo_status kolo_coco_deal(struct kolo_coco_share *share) KOLO_NODISCARD;

/** Sends records to the owners of their pieces. Collective. */
kolo_status kolo_coco_route(struct kolo_coco_share *share) KOLO_NODISCARD;

/** Makes the curves of this rank's pieces and fills the arrays with those of all ranks.
 *  Collective. */
kolo_status kolo_coco_join(struct kolo_coco_share *share,
                           struct kolo_coco_arrays *arrays) KOLO_NODISCARD;

/** Computes the area under the curve of a class that is one piece, for each cap, area range and
 *  threshold.
 *  @param climb  memory for one element more than the run has records */
void kolo_voc_areas(const struct kolo_coco_share *share, struct kolo_coco_run *run, size_t class,
                    double *climb, double *areas);
/** Sends the areas to all ranks, and makes the averages at points from the precision arrays.
 *  Collective. */
kolo_status kolo_voc_join(struct kolo_coco_share *share,
                          struct kolo_coco_arrays *arrays) KOLO_NODISCARD;

#endif
