// SPDX-License-Identifier: Apache-2.0
// The runs, pixels, area and box of masks against values known by hand, what is refused, and reuse
// of memory. oracle/masks.py compares random masks with pycocotools.
#include <criterion/criterion.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics/mask.h"

enum { HEIGHT = 3, WIDTH = 4 };

/* By rows:  0 0 1 0
 *           1 0 1 0
 *           1 1 0 0   */
static const uint8_t by_rows[HEIGHT * WIDTH] = {0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0};
static const uint32_t runs[] = {1, 2, 2, 3, 4};

static void expect_runs(const struct kolo_mask *mask, const uint32_t *expected, size_t count)
{
    cr_assert_eq(mask->count, count);
    cr_assert_arr_eq(mask->runs, expected, count * sizeof *expected);
}

Test(mask, pixels_both_ways)
{
    struct kolo_mask mask = {.runs = NULL};
    uint8_t pixels[HEIGHT * WIDTH];
    cr_assert_eq(kolo_mask_from_pixels(by_rows, true, HEIGHT, WIDTH, &mask), KOLO_OK);
    expect_runs(&mask, runs, 5);
    cr_assert_eq(kolo_mask_to_pixels(&mask, true, pixels), KOLO_OK);
    cr_assert_arr_eq(pixels, by_rows, sizeof pixels);
    cr_assert_eq(kolo_mask_to_pixels(&mask, false, pixels), KOLO_OK);
    cr_assert(pixels[1] && pixels[2] && !pixels[3] && pixels[5], "column by column");
    struct kolo_mask again = {.runs = NULL};
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(pixels[i] * (i + 2)); /* any value but 0 */
    cr_assert_eq(kolo_mask_from_pixels(pixels, false, HEIGHT, WIDTH, &again), KOLO_OK);
    expect_runs(&again, runs, 5);
    kolo_mask_free(&again);
    kolo_mask_free(&mask);
    cr_assert_null(mask.runs);
    kolo_mask_free(NULL);
}

Test(mask, area_and_box)
{
    uint32_t own[] = {1, 2, 2, 3, 4}, area;
    struct kolo_mask mask = {.height = HEIGHT, .width = WIDTH, .count = 5, .runs = own};
    double box[4];
    cr_assert_eq(kolo_mask_area(&mask, &area), KOLO_OK);
    cr_assert_eq(area, 5);
    cr_assert_eq(kolo_mask_box(&mask, box), KOLO_OK);
    cr_assert(box[0] == 0 && box[1] == 0 && box[2] == 3 && box[3] == 3);
    own[3] = 1, own[4] = 6; /* rows 1 and 2 of column 0, row 2 of column 1 */
    cr_assert_eq(kolo_mask_box(&mask, box), KOLO_OK);
    cr_assert(box[0] == 0 && box[1] == 1 && box[2] == 2 && box[3] == 2);
    mask.count = 0;
    cr_assert_eq(kolo_mask_area(&mask, &area), KOLO_OK);
    cr_assert_eq(area, 0);
    cr_assert_eq(kolo_mask_box(&mask, box), KOLO_OK);
    cr_assert(box[0] == 0 && box[1] == 0 && box[2] == 0 && box[3] == 0);
    kolo_mask_free(&mask);
    cr_assert_eq(own[0], 1, "a program's runs are not freed");
}

Test(mask, runs_may_be_none_and_rooms_are_used_again)
{
    const uint32_t odd[] = {1, 0, 0, 2, 0, 0, 9, 0};
    struct kolo_mask mask = {.runs = NULL};
    uint32_t area;
    double box[4];
    cr_assert_eq(kolo_mask_from_runs(odd, 8, HEIGHT, WIDTH, &mask), KOLO_OK);
    expect_runs(&mask, odd, 8);
    const uint32_t *runs_before = mask.runs;
    cr_assert_eq(kolo_mask_area(&mask, &area), KOLO_OK);
    cr_assert_eq(area, 2);
    cr_assert_eq(kolo_mask_box(&mask, box), KOLO_OK);
    cr_assert(box[0] == 0 && box[1] == 1 && box[2] == 1 && box[3] == 2);
    cr_assert_eq(kolo_mask_from_runs(runs, 5, HEIGHT, WIDTH, &mask), KOLO_OK);
    expect_runs(&mask, runs, 5);
    cr_assert_eq(mask.runs, runs_before);
    kolo_mask_free(&mask);
}

static void refused(const char *what, const uint32_t *given, size_t count, uint32_t height,
                    uint32_t width)
{
    struct kolo_mask mask = {.runs = NULL};
    cr_assert_eq(kolo_mask_from_runs(given, count, height, width, &mask), KOLO_ERR_INVALID);
    cr_assert(strstr(kolo_error_detail(), what), "%s", kolo_error_detail());
    cr_assert_eq(mask.count, 0);
    kolo_mask_free(&mask);
}

Test(mask, refuses_what_is_none)
{
    const uint32_t over[] = {UINT32_MAX, UINT32_MAX, 14};
    refused("runs of 12 pixels together; its image has 3 x 5 = 15", runs, 5, 3, 5);
    refused("runs of 8589934604 pixels", over, 3, HEIGHT, WIDTH);
    refused("NULL", NULL, 5, HEIGHT, WIDTH);
    refused("0 x 4", runs, 5, 0, WIDTH);
    refused("65536 x 65536", runs, 5, 65536, 65536);
    struct kolo_mask mask = {.height = HEIGHT, .width = WIDTH, .count = 1};
    uint32_t area;
    uint8_t pixels[1];
    cr_assert_eq(kolo_mask_area(&mask, &area), KOLO_ERR_INVALID);
    mask.count = 0;
    cr_assert_eq(kolo_mask_area(&mask, NULL), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_mask_box(&mask, NULL), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_mask_to_pixels(&mask, true, NULL), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_mask_check(NULL), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_mask_from_pixels(NULL, true, HEIGHT, WIDTH, &mask), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_mask_from_pixels(pixels, true, 1, 1, NULL), KOLO_ERR_INVALID);
}

/** A call on something that is not a mask must say which call it was. */
#define MUST_SAY(call, words)                                                                      \
    do {                                                                                           \
        cr_expect_eq(call, KOLO_ERR_INVALID);                                                      \
        cr_expect_eq(strncmp(kolo_error_detail(), words, strlen(words)), 0, "%s",                  \
                     kolo_error_detail());                                                         \
    } while (0)

Test(mask, refusals_name_the_call)
{
    const struct kolo_mask none = {.height = 0};
    uint32_t area;
    double box[4];
    size_t length;
    uint8_t pixels[1];
    MUST_SAY(kolo_mask_area(&none, &area), "kolo_mask_area: mask 0 is of an image of 0 x 0");
    MUST_SAY(kolo_mask_area(NULL, &area), "kolo_mask_area: mask is NULL");
    MUST_SAY(kolo_mask_box(&none, box), "kolo_mask_box: mask 0 is of");
    MUST_SAY(kolo_mask_to_pixels(NULL, true, pixels), "kolo_mask_to_pixels: mask is NULL");
    MUST_SAY(kolo_mask_to_string(&none, NULL, 0, &length), "kolo_mask_to_string: mask 0 is of");
    MUST_SAY(kolo_mask_check(NULL), "kolo_mask_check: mask is NULL");
    const struct kolo_mask two[2] = {{.height = 1, .width = 1}, none};
    struct kolo_mask merged = {.height = 0};
    MUST_SAY(kolo_mask_merge(&none, 1, true, &merged), "kolo_mask_merge: mask 0 is of");
    MUST_SAY(kolo_mask_merge(two, 2, false, &merged),
             "kolo_mask_merge: mask 1 is of an image of 0");
    MUST_SAY(kolo_mask_from_runs(&area, 1, 1, 1, NULL), "kolo_mask_from_runs: mask_out is NULL");
    MUST_SAY(kolo_mask_from_pixels(pixels, true, 1, 1, NULL),
             "kolo_mask_from_pixels: mask_out is NULL");
}

Test(mask, without_memory)
{
    struct kolo_mask mask = {.runs = NULL};
    for (uint64_t nth = 1; nth < 3; nth++) {
        kolo_alloc_fail_nth(nth);
        kolo_status status = kolo_mask_from_pixels(by_rows, true, HEIGHT, WIDTH, &mask);
        kolo_alloc_fail_nth(0);
        cr_assert(status == KOLO_OK || (status == KOLO_ERR_NO_MEMORY && mask.count == 0));
    }
    kolo_mask_free(&mask);
}
