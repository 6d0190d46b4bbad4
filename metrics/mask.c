// SPDX-License-Identifier: Apache-2.0
// Owns the runs of a mask: the check that they add up to the image, their memory, and what can be
// read from them directly. Runs are kept as given, also those of no pixels, so that what was read
// is written back unchanged. It must never write to runs that belong to the program.
#include <string.h>

#include "base/alloc.h"
#include "metrics/mask.h"
#include "metrics/stage.h"

static kolo_status check_size(uint32_t height, uint32_t width, const char *where, size_t i)
{
    if (height == 0 || width == 0 || (uint64_t)height * width > UINT32_MAX)
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s %zu is of an image of %u x %u; give 1 to 2^32 - 1 pixels", where, i,
                         height, width);
    return KOLO_OK;
}

kolo_status kolo_mask_check_one(const struct kolo_mask *mask, const char *where, size_t i)
{
    kolo_status status = check_size(mask->height, mask->width, where, i);
    if (status != KOLO_OK || mask->count == 0)
        return status;
    if (!mask->runs)
        return kolo_fail(KOLO_ERR_INVALID, "%s %zu has %zu runs, but runs is NULL", where, i,
                         mask->count);
    if (mask->count > UINT32_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "%s %zu has %zu runs; give fewer than 2^32", where, i,
                         mask->count);
    uint64_t sum = 0;
    for (size_t r = 0; r < mask->count; r++)
        sum += mask->runs[r];
    if (sum != kolo_mask_pixels(mask))
        return kolo_fail(
            KOLO_ERR_INVALID, "%s %zu has runs of %llu pixels together; its image has %u x %u = %u",
            where, i, (unsigned long long)sum, mask->height, mask->width, kolo_mask_pixels(mask));
    return KOLO_OK;
}

kolo_status kolo_mask_check_read(const struct kolo_mask *mask, const char *where)
{
    if (!mask)
        return kolo_fail(KOLO_ERR_INVALID, "%s is NULL", where);
    return kolo_mask_check_one(mask, where, 0);
}

kolo_status kolo_mask_check(const struct kolo_mask *mask)
{
    return kolo_mask_check_read(mask, "kolo_mask_check: mask");
}

/* ---- writing ---- */

kolo_status kolo_mask_begin(struct kolo_mask *mask, uint32_t height, uint32_t width,
                            const char *call)
{
    if (!mask)
        return kolo_fail(KOLO_ERR_INVALID, "%s_out is NULL", call);
    mask->count = 0;
    if (mask->room == 0)
        mask->runs = NULL; /* if not NULL, they belong to the program */
    mask->height = height;
    mask->width = width;
    return check_size(height, width, call, 0);
}

kolo_status kolo_mask_room(struct kolo_mask *mask, size_t count)
{
    void *runs = mask->runs;
    kolo_status status = kolo_grow(&runs, &mask->room, count, sizeof *mask->runs);
    mask->runs = runs;
    return status;
}

void kolo_mask_free(struct kolo_mask *mask)
{
    if (!mask)
        return;
    if (mask->room > 0)
        kolo_free_memory(mask->runs);
    *mask = (struct kolo_mask){.runs = NULL};
}

kolo_status kolo_mask_from_runs(const uint32_t *runs, size_t count, uint32_t height, uint32_t width,
                                struct kolo_mask *mask_out)
{
    static const char call[] = "kolo_mask_from_runs: mask";
    /* only to be checked: its runs are not written */
    const struct kolo_mask given = {
        .height = height, .width = width, .count = count, .runs = (uint32_t *)(uintptr_t)runs};
    if (mask_out && runs && mask_out->room > 0 && mask_out->runs == runs)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_mask_from_runs: runs are those of mask_out; give another, zeroed "
                         "mask");
    kolo_status status = kolo_mask_begin(mask_out, height, width, call);
    if (status == KOLO_OK)
        status = kolo_mask_check_one(&given, call, 0);
    if (status == KOLO_OK)
        status = kolo_mask_room(mask_out, count);
    if (status != KOLO_OK)
        return status;
    if (count > 0)
        memcpy(mask_out->runs, runs, count * sizeof *runs);
    mask_out->count = count;
    return KOLO_OK;
}

/* ---- pixels ---- */

static size_t place_of(const struct kolo_mask *mask, bool by_rows, uint32_t x, uint32_t y)
{
    return by_rows ? (size_t)y * mask->width + x : (size_t)x * mask->height + y;
}

/* Finds the runs of pixels of the mask's size, which was checked. */
static kolo_status find_runs(const uint8_t *pixels, bool by_rows, struct kolo_mask *mask_out)
{
    const uint32_t height = mask_out->height, width = mask_out->width;
    kolo_status status = KOLO_OK;
    bool is_in = false;
    uint32_t length = 0;
    size_t count = 0;
    for (uint32_t x = 0; status == KOLO_OK && x < width; x++) {
        status = kolo_mask_room(mask_out,
                                count + height + 1); /* at most a run per pixel, and the last */
        for (uint32_t y = 0; status == KOLO_OK && y < height; y++) {
            if ((pixels[place_of(mask_out, by_rows, x, y)] != 0) != is_in) {
                mask_out->runs[count++] = length;
                length = 0;
                is_in = !is_in;
            }
            length++;
        }
    }
    if (status != KOLO_OK)
        return status;
    mask_out->runs[count++] = length;
    mask_out->count = count;
    return KOLO_OK;
}

kolo_status kolo_mask_from_pixels(const uint8_t *pixels, bool by_rows, uint32_t height,
                                  uint32_t width, struct kolo_mask *mask_out)
{
    struct kolo_stage stage = {.call = "kolo_mask_from_pixels"};
    kolo_status status = kolo_mask_begin(mask_out, height, width, "kolo_mask_from_pixels: mask");
    if (status == KOLO_OK && !pixels)
        status = kolo_fail(KOLO_ERR_INVALID, "kolo_mask_from_pixels: pixels is NULL");
    if (status != KOLO_OK)
        return status;
    pixels = kolo_stage(&stage, "pixels", pixels, height, width, sizeof *pixels);
    status = stage.status == KOLO_OK ? find_runs(pixels, by_rows, mask_out) : stage.status;
    kolo_stage_end(&stage);
    return status;
}

kolo_status kolo_mask_to_pixels(const struct kolo_mask *mask, bool by_rows, uint8_t *pixels)
{
    kolo_status status = kolo_mask_check_read(mask, "kolo_mask_to_pixels: mask");
    if (status == KOLO_OK && !pixels)
        status = kolo_fail(KOLO_ERR_INVALID, "kolo_mask_to_pixels: pixels is NULL");
    if (status != KOLO_OK)
        return status;
    memset(pixels, 0, kolo_mask_pixels(mask));
    uint32_t x = 0, y = 0;
    for (size_t r = 0; r < mask->count; r++)
        for (uint32_t i = 0; i < mask->runs[r]; i++) {
            pixels[place_of(mask, by_rows, x, y)] = r % 2;
            if (++y == mask->height) {
                y = 0;
                x++;
            }
        }
    return KOLO_OK;
}

/* ---- area and box ---- */

kolo_status kolo_mask_area(const struct kolo_mask *mask, uint32_t *area_out)
{
    kolo_status status = kolo_mask_check_read(mask, "kolo_mask_area: mask");
    if (status == KOLO_OK && !area_out)
        status = kolo_fail(KOLO_ERR_INVALID, "kolo_mask_area: area_out is NULL");
    if (status != KOLO_OK)
        return status;
    uint32_t area = 0;
    for (size_t r = 1; r < mask->count; r += 2)
        area += mask->runs[r];
    *area_out = area;
    return KOLO_OK;
}

kolo_status kolo_mask_box(const struct kolo_mask *mask, double *box_out)
{
    kolo_status status = kolo_mask_check_read(mask, "kolo_mask_box: mask");
    if (status == KOLO_OK && !box_out)
        status = kolo_fail(KOLO_ERR_INVALID, "kolo_mask_box: box_out is NULL");
    struct kolo_mask_outlines outlines = {.outline = NULL};
    if (status == KOLO_OK)
        status = kolo_mask_outlines_begin(&outlines, 1, mask->count);
    if (status == KOLO_OK) {
        kolo_mask_outlines_add(&outlines, mask);
        struct kolo_mask_bounds bounds = outlines.outline->bounds;
        box_out[0] = bounds.x0;
        box_out[1] = bounds.y0;
        box_out[2] = bounds.x1 - bounds.x0;
        box_out[3] = bounds.y1 - bounds.y0;
    }
    kolo_mask_outlines_free(&outlines);
    return status;
}
