// SPDX-License-Identifier: Apache-2.0
// Finds the pixels within a polygon, with the result of pycocotools (maskApi.c, rleFrPoly) but
// another method. Owns the changes, which are memory of one call.
//
// Corners are rounded to fifths of a pixel. An edge is a chain of points, one for each fifth along
// its longer side, with the other coordinate rounded. Where a chain crosses the middle of a column
// of pixels, between the fifths 5x + 2 and 5x + 3, the inside of the polygon changes in that
// column, beginning with the first pixel whose middle is not above the upper one of the two points.
// pycocotools walks along all points and keeps those crossings. Here, each edge computes where it
// crosses the columns that it spans, which takes a division or a few guesses for each. All these
// pixels, in the order of runs, are the places where runs end; two equal ones cancel each other.
//
// Every double that decides something is computed as in pycocotools: y + slope * t + .5, truncated,
// (v + .5) / 5 - .5, and its ceiling.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/merge_sort.h"
#include "metrics/mask.h"

enum {
    PARTS = 5,
    MIDDLE = 2,
    STEPS_MAX =
        1 << 24 /* column crossings: bounds the time and memory that a small file can cost */
};
static const double farthest = 1 << 28;

/* An edge of the polygon. It begins at its upper end if it is steep, else at its left end. */
struct edge {
    int64_t x, y;   /* where it begins, in fifths */
    int64_t length; /* of its longer side, in fifths; at least 1 */
    double slope;   /* change of the other coordinate per fifth of the longer side */
    bool is_steep;  /* y is the longer side */
    bool is_turned; /* the polygon goes from its end to its beginning */
};

/* The pixels at which columns change between outside and inside, as places in the order of runs. */
struct changes {
    const char *call;       /* the public function, for error messages */
    struct kolo_mask *mask; /* its runs hold the places */
    size_t count, steps;    /* steps: all crossings, including those that cancelled each other */
};

/* ---- sorting places ---- */

static inline bool is_less(const uint32_t *a, const uint32_t *b)
{
    return *a < *b;
}

KOLO_DEFINE_MERGE_SORT(sort, uint32_t, is_less)

/* Keeps one of an odd number of equal places, and none of an even number. Sorting uses the room
 * after the places. */
static void settle(struct changes *changes)
{
    uint32_t *places = changes->mask->runs;
    size_t count = changes->count, kept = 0;
    sort(places, places + count, count);
    for (size_t i = 0; i < count; i++)
        if (kept > 0 && places[kept - 1] == places[i])
            kept--;
        else
            places[kept++] = places[i];
    changes->count = kept;
}

/* A polygon that goes back and forth has many more changes than runs, so changes that cancel
 * each other are removed before more memory is allocated. */
static kolo_status make_room(struct changes *changes)
{
    enum { FIRST = 512 };
    struct kolo_mask *mask = changes->mask;
    if (2 * (changes->count + 1) <= mask->room)
        return KOLO_OK;
    if (mask->room >= FIRST)
        settle(changes);
    size_t need = 4 * (changes->count + 1);
    return kolo_mask_room(mask, need < FIRST ? FIRST : need);
}

/* ---- the edges ---- */

static int64_t in_fifths(double pixels)
{
    return (int)((double)PARTS * pixels + .5);
}

/* Returns the other coordinate of the edge at its point t. */
static int64_t across(const struct edge *edge, int64_t t)
{
    int64_t from = edge->is_steep ? edge->x : edge->y;
    return (int64_t)((double)from + edge->slope * (double)t + .5);
}

/* Adds the change in column x where an edge crosses its middle; the upper point there is at y. */
static kolo_status add_change(struct changes *changes, uint32_t x, int64_t y)
{
    const struct kolo_mask *mask = changes->mask;
    double row = ((double)y + .5) / (double)PARTS - .5;
    row = row < 0 ? 0 : row > mask->height ? mask->height : row;
    kolo_status status = make_room(changes);
    if (status == KOLO_OK)
        changes->mask->runs[changes->count++] = x * mask->height + (uint32_t)ceil(row);
    return status;
}

/* Returns the first point of a steep edge that is beyond `middle`, counted from its beginning.
 * The edge must begin on one side of `middle` and end on the other. */
static int64_t find_step(const struct edge *edge, int64_t middle)
{
    bool rises = edge->slope > 0;
    double guess = ((double)middle + .5 - (double)edge->x) / edge->slope;
    int64_t t = guess < 1 ? 1 : guess > (double)edge->length ? edge->length : (int64_t)guess;
    while (t > 1 && (across(edge, t - 1) > middle) == rises)
        t--;
    while ((across(edge, t) > middle) != rises)
        t++;
    return t;
}

static kolo_status step_over(struct changes *changes, const struct edge *edge, uint32_t x)
{
    int64_t middle = (int64_t)x * PARTS + MIDDLE;
    if (!edge->is_steep) {
        int64_t t = middle - edge->x, here = across(edge, t), next = across(edge, t + 1);
        return add_change(changes, x, here < next ? here : next);
    }
    int64_t t = find_step(edge, middle), before = across(edge, t - 1), after = across(edge, t);
    int64_t first = edge->is_turned ? after : before, second = edge->is_turned ? before : after;
    if ((second < first ? second : second - 1) != middle)
        return KOLO_OK; /* can happen because very long edges are rounded */
    return add_change(changes, x, edge->y + t - 1);
}

/* Finds the columns whose middle the edge crosses: from *first to *last - 1. */
static void columns_of(const struct edge *edge, uint32_t width, uint32_t *first, uint32_t *last)
{
    int64_t end = edge->is_steep ? across(edge, edge->length) : edge->x + edge->length;
    int64_t begin = edge->is_steep ? across(edge, 0) : edge->x;
    int64_t low = begin < end ? begin : end, high = begin < end ? end : begin;
    /* low <= 5x + 2 < high */
    int64_t from = low <= MIDDLE ? 0 : (low - MIDDLE + PARTS - 1) / PARTS;
    int64_t to = high <= MIDDLE ? 0 : (high - MIDDLE + PARTS - 1) / PARTS;
    *first = (uint32_t)(from < width ? from : width);
    *last = (uint32_t)(to < width ? to : width);
}

static kolo_status add_edge(struct changes *changes, int64_t x0, int64_t y0, int64_t x1, int64_t y1)
{
    int64_t dx = llabs(x1 - x0), dy = llabs(y1 - y0);
    struct edge edge = {.x = x0, .y = y0, .length = dx >= dy ? dx : dy, .is_steep = dx < dy};
    if (edge.length == 0)
        return KOLO_OK;
    edge.is_turned = edge.is_steep ? y0 > y1 : x0 > x1;
    if (edge.is_turned) {
        edge.x = x1;
        edge.y = y1;
    }
    int64_t other = edge.is_steep ? x1 - x0 : y1 - y0;
    edge.slope = (double)(edge.is_turned ? -other : other) / (double)edge.length;
    uint32_t first, last;
    columns_of(&edge, changes->mask->width, &first, &last);
    changes->steps += first < last ? last - first : 0;
    if (changes->steps > STEPS_MAX)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: the polygon crosses columns of pixels more than %d times (%u x %u "
                         "pixels); give one that goes around its object once",
                         changes->call, STEPS_MAX, (unsigned)changes->mask->height,
                         (unsigned)changes->mask->width);
    kolo_status status = KOLO_OK;
    for (uint32_t x = first; status == KOLO_OK && x < last; x++)
        status = step_over(changes, &edge, x);
    return status;
}

/* Converts places to lengths of runs. A change at the end of the image is dropped. */
static void make_runs(struct changes *changes)
{
    struct kolo_mask *mask = changes->mask;
    uint32_t *runs = mask->runs, end = kolo_mask_pixels(mask), before = 0;
    settle(changes);
    size_t count = changes->count;
    if (count == 0 || runs[count - 1] != end)
        runs[count++] = end;
    for (size_t i = 0; i < count; i++) {
        uint32_t place = runs[i];
        runs[i] = place - before;
        before = place;
    }
    mask->count = count;
}

static kolo_status check_corners(const char *call, const double *xy, size_t points)
{
    if (!xy && points > 0)
        return kolo_fail(KOLO_ERR_INVALID, "%s: xy is NULL", call);
    for (size_t i = 0; i < points; i++)
        if (!(fabs(xy[2 * i]) <= farthest && fabs(xy[2 * i + 1]) <= farthest))
            return kolo_fail(KOLO_ERR_INVALID, "%s: corner %zu is %g, %g; give numbers up to %g",
                             call, i, xy[2 * i], xy[2 * i + 1], farthest);
    return KOLO_OK;
}

/* @param mask  a mask that was begun */
static kolo_status draw(const char *call, const double *xy, size_t points, struct kolo_mask *mask)
{
    struct changes changes = {.call = call, .mask = mask};
    kolo_status status = check_corners(call, xy, points);
    if (status == KOLO_OK)
        status = make_room(&changes);
    for (size_t i = 0; status == KOLO_OK && i < points; i++) {
        const double *here = xy + 2 * i, *next = i + 1 < points ? here + 2 : xy;
        status = add_edge(&changes, in_fifths(here[0]), in_fifths(here[1]), in_fifths(next[0]),
                          in_fifths(next[1]));
    }
    if (status == KOLO_OK)
        make_runs(&changes);
    return status;
}

kolo_status kolo_mask_from_polygon(const double *xy, size_t points, uint32_t height, uint32_t width,
                                   struct kolo_mask *mask_out)
{
    kolo_status status = kolo_mask_begin(mask_out, height, width, "kolo_mask_from_polygon: mask");
    return status == KOLO_OK ? draw("kolo_mask_from_polygon", xy, points, mask_out) : status;
}

kolo_status kolo_mask_from_box(const double *box, uint32_t height, uint32_t width,
                               struct kolo_mask *mask_out)
{
    kolo_status status = kolo_mask_begin(mask_out, height, width, "kolo_mask_from_box: mask");
    if (status == KOLO_OK && !box)
        status = kolo_fail(KOLO_ERR_INVALID, "kolo_mask_from_box: box is NULL");
    if (status != KOLO_OK)
        return status;
    double left = box[0], top = box[1], right = left + box[2], bottom = top + box[3];
    const double corners[] = {left, top, left, bottom, right, bottom, right, top};
    return draw("kolo_mask_from_box", corners, 4, mask_out);
}
