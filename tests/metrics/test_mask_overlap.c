// SPDX-License-Identifier: Apache-2.0
// Overlaps and merged masks, against pixels counted one by one.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/mask.h"

enum { MOST = 24, MASKS = 6 };

struct picture {
    uint32_t height, width;
    uint8_t pixels[MOST * MOST];
};

static void paint(struct picture *picture, unsigned *seed)
{
    uint32_t pixels = picture->height * picture->width;
    memset(picture->pixels, 0, sizeof picture->pixels);
    int how = rand_r(seed) % 4;
    uint32_t from = (uint32_t)rand_r(seed) % pixels,
             to = from + (uint32_t)rand_r(seed) % pixels / 3;
    for (uint32_t i = 0; i < pixels; i++)
        picture->pixels[i] = how == 0   ? rand_r(seed) % 2
                             : how == 1 ? i >= from && i <= to
                             : how == 2 ? i % picture->height > from % picture->height
                                        : 0;
}

/* Some masks have runs of length 0. */
static void encode(const struct picture *picture, struct kolo_mask *mask, unsigned *seed)
{
    cr_assert_eq(
        kolo_mask_from_pixels(picture->pixels, false, picture->height, picture->width, mask),
        KOLO_OK);
    uint32_t odd[2 * MOST * MOST + 64];
    size_t count = 0;
    for (size_t i = 0; i < mask->count; i++) {
        uint32_t half = mask->runs[i] / 2;
        odd[count++] = half;
        odd[count++] = 0;
        odd[count++] = mask->runs[i] - half;
    }
    if (rand_r(seed) % 3 == 0 && count < sizeof odd / sizeof *odd / 2)
        cr_assert_eq(kolo_mask_from_runs(odd, count, picture->height, picture->width, mask),
                     KOLO_OK);
}

static double overlap_of(const struct picture *a, const struct picture *b, bool is_crowd)
{
    uint32_t both = 0, either = 0, area = 0;
    for (uint32_t i = 0; i < a->height * a->width; i++) {
        both += a->pixels[i] && b->pixels[i];
        either += a->pixels[i] || b->pixels[i];
        area += a->pixels[i];
    }
    return both == 0 ? 0 : (double)both / (is_crowd ? area : either);
}

static void compare(unsigned *seed)
{
    struct picture picture[MASKS];
    struct kolo_mask mask[MASKS] = {{.runs = NULL}};
    uint8_t crowds[MASKS];
    double overlaps[MASKS * MASKS];
    uint32_t height = 1 + (uint32_t)rand_r(seed) % MOST, width = 1 + (uint32_t)rand_r(seed) % MOST;
    for (int i = 0; i < MASKS; i++) {
        picture[i].height = height;
        picture[i].width = width;
        crowds[i] = rand_r(seed) % 3 == 0;
        paint(&picture[i], seed);
        encode(&picture[i], &mask[i], seed);
    }
    cr_assert_eq(kolo_mask_overlaps(mask, MASKS, mask, MASKS, crowds, overlaps), KOLO_OK);
    for (int d = 0; d < MASKS; d++)
        for (int g = 0; g < MASKS; g++)
            cr_assert_eq(overlaps[d * MASKS + g], overlap_of(&picture[d], &picture[g], crowds[g]));
    for (int intersect = 0; intersect < 2; intersect++) {
        struct kolo_mask merged = {.runs = NULL};
        uint8_t pixels[MOST * MOST];
        size_t count = 1 + (size_t)rand_r(seed) % MASKS;
        cr_assert_eq(kolo_mask_merge(mask, count, intersect, &merged), KOLO_OK);
        cr_assert_eq(kolo_mask_to_pixels(&merged, false, pixels), KOLO_OK);
        for (uint32_t i = 0; i < height * width; i++) {
            size_t have = 0;
            for (size_t j = 0; j < count; j++)
                have += picture[j].pixels[i];
            cr_assert_eq(pixels[i], intersect ? have == count : have > 0);
        }
        for (size_t r = 1; r < merged.count; r++)
            cr_assert_gt(merged.runs[r], 0);
        kolo_mask_free(&merged);
    }
    for (int i = 0; i < MASKS; i++)
        kolo_mask_free(&mask[i]);
}

Test(mask_overlap, as_by_every_pixel)
{
    unsigned seed = 1;
    for (int round = 0; round < 400; round++)
        compare(&seed);
}

Test(mask_overlap, masks_of_other_size_and_of_no_run)
{
    uint32_t all[] = {0, 16}, other[] = {0, 15}, corner[] = {15, 1};
    struct kolo_mask mask[] = {{.height = 4, .width = 4, .count = 2, .runs = all},
                               {.height = 3, .width = 5, .count = 2, .runs = other},
                               {.height = 4, .width = 4, .count = 2, .runs = corner},
                               {.height = 4, .width = 4}};
    double overlaps[16];
    cr_assert_eq(kolo_mask_overlaps(mask, 4, mask, 4, NULL, overlaps), KOLO_OK);
    cr_assert_eq(overlaps[0], 1);
    cr_assert_eq(overlaps[1], -1, "of another size");
    cr_assert_eq(overlaps[2], 1. / 16);
    cr_assert_eq(overlaps[3], 0, "of no pixel");
    cr_assert_eq(overlaps[6], 0, "of another size, but elsewhere");
    cr_assert_eq(overlaps[15], 0);
    struct kolo_mask merged = {.runs = NULL};
    cr_assert_eq(kolo_mask_merge(mask, 2, false, &merged), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "mask 1 is of 3 x 5"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_mask_merge(mask + 2, 2, false, &merged), KOLO_OK);
    cr_assert(merged.count == 2 && merged.runs[0] == 15 && merged.runs[1] == 1);
    cr_assert_eq(kolo_mask_merge(mask, 0, false, &merged), KOLO_ERR_INVALID);
    struct kolo_mask both[] = {mask[0], merged}; /* which share the runs of merged */
    cr_assert_eq(kolo_mask_merge(both, 2, false, &merged), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "mask_out is mask 1;"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_mask_from_runs(merged.runs, 2, 4, 4, &merged), KOLO_ERR_INVALID);
    cr_assert(merged.count == 2 && merged.runs[0] == 15, "nothing is lost");
    corner[0] = 14;
    cr_assert_eq(kolo_mask_overlaps(mask, 4, mask, 4, NULL, overlaps), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), "detection 2"), "%s", kolo_error_detail());
    cr_assert_eq(kolo_mask_overlaps(mask, 2, NULL, 1, NULL, overlaps), KOLO_ERR_INVALID);
    kolo_mask_free(&merged);
}

/* Mask i has only the pixel 2i, or all but that one. Merging them one after the other would take
 * seconds. */
Test(mask_overlap, many_masks_are_merged)
{
    enum { MANY = 20000 };
    static uint32_t runs[MANY][4];
    static struct kolo_mask mask[MANY];
    for (int intersect = 0; intersect < 2; intersect++) {
        for (uint32_t i = 0; i < MANY; i++) {
            const uint32_t only[] = {2 * i, 1, 2 * (MANY - i) - 1, 0};
            const uint32_t others[] = {0, 2 * i, 1, 2 * (MANY - i) - 1};
            memcpy(runs[i], intersect ? others : only, sizeof only);
            mask[i] = (struct kolo_mask){.height = 2, .width = MANY, .count = 4, .runs = runs[i]};
        }
        struct kolo_mask merged = {.runs = NULL};
        cr_assert_eq(kolo_mask_merge(mask, MANY, intersect, &merged), KOLO_OK);
        cr_assert_eq(merged.count, 2 * MANY + !intersect);
        for (size_t i = 0; i < merged.count; i++)
            cr_assert_eq(merged.runs[i], i > 0 || intersect);
        kolo_mask_free(&merged);
    }
}

Test(mask_overlap, without_memory)
{
    uint32_t all[] = {0, 16}, half[] = {3, 8, 5};
    struct kolo_mask mask[] = {{.height = 4, .width = 4, .count = 2, .runs = all},
                               {.height = 4, .width = 4, .count = 3, .runs = half}};
    struct kolo_mask merged = {.runs = NULL};
    double overlaps[4];
    for (uint64_t nth = 1; nth < 6; nth++) {
        kolo_alloc_fail_nth(nth);
        kolo_status status = kolo_mask_overlaps(mask, 2, mask, 2, NULL, overlaps);
        kolo_alloc_fail_nth(0);
        cr_assert(status == KOLO_OK || status == KOLO_ERR_NO_MEMORY);
        kolo_alloc_fail_nth(nth);
        status = kolo_mask_merge(mask, 2, true, &merged);
        kolo_alloc_fail_nth(0);
        cr_assert(status == KOLO_OK || (status == KOLO_ERR_NO_MEMORY && merged.count == 0));
        kolo_mask_free(&merged);
    }
}
