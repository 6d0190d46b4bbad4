// SPDX-License-Identifier: Apache-2.0
// Computes how much two masks overlap. Owns outlines, which are made from each mask first: where
// its object begins and ends, its area, and its bounds. Bounds decide most pairs. For the others,
// the common pixels are counted along both outlines, from where the later one begins to where the
// earlier one ends.
//
// Pixels are integers, so any way of counting gives pycocotools' result, with one exception: if
// both masks have a run of no pixels at the same place, pycocotools takes it for the end of both;
// here it is ignored.
#include "base/alloc.h"
#include "metrics/mask.h"

static uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* ---- outlines ---- */

kolo_status kolo_mask_outlines_begin(struct kolo_mask_outlines *outlines, size_t masks, size_t runs)
{
    kolo_status status = kolo_grow((void **)&outlines->outline, &outlines->outline_room, masks,
                                   sizeof *outlines->outline);
    if (status == KOLO_OK)
        status = kolo_grow((void **)&outlines->edge, &outlines->edge_room, runs + 1,
                           sizeof *outlines->edge); /* at least one, also if no mask has runs */
    outlines->outlines = outlines->edges = 0;
    return status;
}

void kolo_mask_outlines_free(struct kolo_mask_outlines *outlines)
{
    kolo_free_memory(outlines->outline);
    kolo_free_memory(outlines->edge);
    *outlines = (struct kolo_mask_outlines){.outline = NULL};
}

/* Finds the rows of the pieces, which are from edge 0 to 1, from 2 to 3 and so on. If a piece
 * continues into the next column, the bounds are all rows. */
static void bound_rows(const uint32_t *edge, size_t edges, uint32_t height,
                       struct kolo_mask_bounds *bounds)
{
    enum { NEAR = 4 };   /* fewer columns than this are stepped over instead of dividing */
    uint64_t column = 0; /* the first pixel of the current column */
    bounds->y0 = height;
    bounds->y1 = 0;
    for (size_t i = 0; i < edges; i += 2) {
        uint32_t begin = edge[i], end = edge[i + 1];
        if (begin == end)
            continue;
        if (begin - column >= (uint64_t)NEAR * height)
            column = begin / height * (uint64_t)height;
        while (begin - column >= height)
            column += height;
        if (end - column > height) {
            bounds->y0 = 0;
            bounds->y1 = height;
            return;
        }
        bounds->y0 = least_of(bounds->y0, (uint32_t)(begin - column));
        bounds->y1 = most_of(bounds->y1, (uint32_t)(end - column));
    }
}

static struct kolo_mask_bounds bounds_of(const uint32_t *edge, size_t edges, uint32_t height)
{
    struct kolo_mask_bounds bounds = {.x0 = 0};
    size_t first = 0, last = edges;
    while (first < edges && edge[first] == edge[first + 1])
        first += 2;
    if (first == edges)
        return bounds;
    while (edge[last - 2] == edge[last - 1])
        last -= 2;
    bounds.x0 = edge[first] / height;
    bounds.x1 = (edge[last - 1] - 1) / height + 1;
    bound_rows(edge + first, last - first, height, &bounds);
    return bounds;
}

void kolo_mask_outlines_add(struct kolo_mask_outlines *outlines, const struct kolo_mask *mask)
{
    struct kolo_mask_outline *outline = &outlines->outline[outlines->outlines++];
    uint32_t *edge = outlines->edge + outlines->edges;
    size_t edges = mask->count / 2 * 2;
    uint32_t at = 0, area = 0;
    for (size_t i = 0; i < edges; i += 2) {
        edge[i] = at += mask->runs[i];
        edge[i + 1] = at += mask->runs[i + 1];
        area += mask->runs[i + 1];
    }
    *outline = (struct kolo_mask_outline){.mask = mask,
                                          .first = outlines->edges,
                                          .edges = edges,
                                          .area = area,
                                          .bounds = bounds_of(edge, edges, mask->height)};
    outlines->edges += edges;
}

/* ---- pixels of both ---- */

/* Returns the first edge of the first piece that ends after a place. */
static size_t piece_behind(const uint32_t *edge, size_t edges, uint32_t place)
{
    size_t low = 0, high = edges / 2;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (edge[2 * middle + 1] <= place)
            low = middle + 1;
        else
            high = middle;
    }
    return 2 * low;
}

static uint32_t count_both(const uint32_t *a, size_t edges_a, const uint32_t *b, size_t edges_b)
{
    const uint32_t *end_a = a + edges_a, *end_b = b + edges_b;
    uint32_t first_a = *a;
    a += piece_behind(a, edges_a, *b);
    b += piece_behind(b, edges_b, first_a);
    uint32_t both = 0;
    while (a < end_a && b < end_b) {
        uint32_t begin = most_of(a[0], b[0]), end = least_of(a[1], b[1]);
        both += end > begin ? end - begin : 0;
        size_t step_a = a[1] <= b[1], step_b = b[1] <= a[1];
        a += 2 * step_a;
        b += 2 * step_b;
    }
    return both;
}

/* Returns how many pixels are within both bounds. */
static uint64_t common_bounds(const struct kolo_mask_bounds *a, const struct kolo_mask_bounds *b)
{
    uint32_t x0 = most_of(a->x0, b->x0), x1 = least_of(a->x1, b->x1);
    uint32_t y0 = most_of(a->y0, b->y0), y1 = least_of(a->y1, b->y1);
    return x1 > x0 && y1 > y0 ? (uint64_t)(x1 - x0) * (y1 - y0) : 0;
}

double kolo_mask_overlap(const struct kolo_mask_outlines *detections, size_t d,
                         const struct kolo_mask_outlines *truths, size_t g, bool is_crowd,
                         double least)
{
    const struct kolo_mask_outline *a = &detections->outline[d], *b = &truths->outline[g];
    uint64_t common = common_bounds(&a->bounds, &b->bounds);
    if (common == 0)
        return 0;
    if (a->mask->height != b->mask->height || a->mask->width != b->mask->width)
        return -1;
    /* an upper bound of the common pixels */
    uint32_t most = least_of(a->area, b->area);
    most = common < most ? (uint32_t)common : most;
    if ((double)most / (double)(is_crowd ? a->area : a->area + (b->area - most)) < least)
        return 0;
    uint32_t both =
        count_both(detections->edge + a->first, a->edges, truths->edge + b->first, b->edges);
    return (double)both / (double)(is_crowd ? a->area : a->area + (b->area - both));
}

/* ---- many at once ---- */

static kolo_status make_outlines(struct kolo_mask_outlines *outlines, const struct kolo_mask *masks,
                                 size_t count, const char *what)
{
    size_t runs = 0;
    kolo_status status = KOLO_OK;
    for (size_t i = 0; status == KOLO_OK && i < count; i++) {
        status = kolo_mask_check_one(&masks[i], what, i);
        runs += masks[i].count;
    }
    if (status == KOLO_OK)
        status = kolo_mask_outlines_begin(outlines, count, runs);
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        kolo_mask_outlines_add(outlines, &masks[i]);
    return status;
}

kolo_status kolo_mask_overlaps(const struct kolo_mask *detection, size_t detections,
                               const struct kolo_mask *truth, size_t truths, const uint8_t *crowds,
                               double *overlaps_out)
{
    if ((!detection && detections > 0) || (!truth && truths > 0) ||
        (!overlaps_out && detections > 0 && truths > 0))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_mask_overlaps: detection, truth or overlaps_out is NULL");
    struct kolo_mask_outlines found = {.outline = NULL}, there = {.outline = NULL};
    kolo_status status =
        make_outlines(&found, detection, detections, "kolo_mask_overlaps: detection");
    if (status == KOLO_OK)
        status = make_outlines(&there, truth, truths, "kolo_mask_overlaps: truth");
    for (size_t d = 0; status == KOLO_OK && d < detections; d++)
        for (size_t g = 0; g < truths; g++)
            overlaps_out[d * truths + g] =
                kolo_mask_overlap(&found, d, &there, g, crowds && crowds[g], 0);
    kolo_mask_outlines_free(&found);
    kolo_mask_outlines_free(&there);
    return status;
}
