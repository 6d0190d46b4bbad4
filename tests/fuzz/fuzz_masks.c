// SPDX-License-Identifier: Apache-2.0
// A fuzzer of masks, in libFuzzer's form. Inputs are a line "HEIGHT WIDTH" followed by COCO's
// string, or "HEIGHT WIDTH p" followed by the coordinates of a polygon as doubles. Besides what a
// sanitizer finds, it checks that a failure has a detail, and that an accepted mask has the same
// pixels when it is written and read again, drawn, or merged with itself.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/mask.h>

#include "tests/fuzz/fuzz.h"

enum { LINE_BYTES = 40, PIXELS_MAX = 1 << 16, SIDE_MAX = 1 << 10, POINTS_MAX = 64 };

static void check_text(const struct kolo_mask *mask, uint32_t area)
{
    struct kolo_mask again = {.runs = NULL};
    size_t room = 8 * mask->count + 8, length = 0;
    uint32_t same;
    char *text = malloc(room);
    fuzz_check(text && kolo_mask_to_string(mask, text, room, &length) == KOLO_OK, "no string");
    fuzz_check(kolo_mask_from_string(text, length, mask->height, mask->width, &again) == KOLO_OK,
               "its string is not read");
    fuzz_check(kolo_mask_area(&again, &same) == KOLO_OK && same == area, "another area, read");
    fuzz_check(again.count == mask->count &&
                   memcmp(again.runs, mask->runs, mask->count * sizeof *mask->runs) == 0,
               "other runs, read");
    kolo_mask_free(&again);
    free(text);
}

static void check_pixels(const struct kolo_mask *mask, uint32_t area)
{
    size_t count = (size_t)mask->height * mask->width, set = 0;
    struct kolo_mask again = {.runs = NULL};
    uint32_t same;
    uint8_t *pixels = malloc(count + (count == 0));
    fuzz_check(pixels && kolo_mask_to_pixels(mask, true, pixels) == KOLO_OK, "no pixels");
    for (size_t i = 0; i < count; i++)
        set += pixels[i];
    fuzz_check(set == area, "another number of pixels");
    if (count > 0) {
        fuzz_check(kolo_mask_from_pixels(pixels, true, mask->height, mask->width, &again) ==
                       KOLO_OK,
                   "its pixels are no mask");
        fuzz_check(kolo_mask_area(&again, &same) == KOLO_OK && same == area, "another area, drawn");
        kolo_mask_free(&again);
    }
    free(pixels);
}

static void check_merged(const struct kolo_mask *mask, uint32_t area)
{
    const struct kolo_mask twice[] = {*mask, *mask};
    const uint8_t crowd = 0;
    double overlap;
    for (int intersect = 0; intersect < 2; intersect++) {
        struct kolo_mask merged = {.runs = NULL};
        uint32_t same;
        fuzz_check(kolo_mask_merge(twice, 2, intersect, &merged) == KOLO_OK, "cannot be merged");
        fuzz_check(kolo_mask_area(&merged, &same) == KOLO_OK && same == area,
                   "another area, merged with itself");
        kolo_mask_free(&merged);
    }
    fuzz_check(kolo_mask_overlaps(mask, 1, mask, 1, &crowd, &overlap) == KOLO_OK, "no overlap");
    fuzz_check(area == 0 || (overlap >= 1 && overlap <= 1), "it does not overlap itself");
}

static void check_mask(const struct kolo_mask *mask)
{
    double box[4];
    uint32_t area;
    fuzz_check(kolo_mask_check(mask) == KOLO_OK, "a mask that is none");
    fuzz_check(kolo_mask_area(mask, &area) == KOLO_OK, "no area");
    fuzz_check(kolo_mask_box(mask, box) == KOLO_OK, "no box");
    fuzz_check(box[0] >= 0 && box[1] >= 0 && box[0] + box[2] <= mask->width &&
                   box[1] + box[3] <= mask->height && area <= box[2] * box[3],
               "a box that does not hold it");
    check_text(mask, area);
    check_merged(mask, area);
    if ((uint64_t)mask->height * mask->width <= PIXELS_MAX)
        check_pixels(mask, area);
}

static kolo_status draw(const unsigned char *data, size_t size, uint32_t height, uint32_t width,
                        struct kolo_mask *mask)
{
    double xy[2 * POINTS_MAX];
    size_t points = size / (2 * sizeof *xy);
    points = points < POINTS_MAX ? points : POINTS_MAX;
    memcpy(xy, data, points * 2 * sizeof *xy);
    return kolo_mask_from_polygon(xy, points, height % SIDE_MAX, width % SIDE_MAX, mask);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    char line[LINE_BYTES + 1] = "", kind = 0;
    uint32_t height, width;
    struct kolo_mask mask = {.runs = NULL};
    const unsigned char *end = size > 0 ? memchr(data, '\n', size) : NULL;
    if (!end || end - data > LINE_BYTES)
        return 0;
    memcpy(line, data, (size_t)(end - data));
    if (sscanf(line, "%9u %9u %c", &height, &width, &kind) < 2)
        return 0;
    const unsigned char *rest = end + 1;
    size_t left = size - (size_t)(rest - data);
    kolo_status status =
        kind == 'p' ? draw(rest, left, height, width, &mask)
                    : kolo_mask_from_string((const char *)rest, left, height, width, &mask);
    fuzz_check_status(status, status == KOLO_ERR_INVALID);
    fuzz_check(status == KOLO_OK || mask.count == 0, "a mask, and an error");
    if (status == KOLO_OK)
        check_mask(&mask);
    kolo_mask_free(&mask);
    return 0;
}
