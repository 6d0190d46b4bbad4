// SPDX-License-Identifier: Apache-2.0
// Unions and intersections of masks, made of two at a time. Owns the intermediate masks. In a
// result, only the first run may have no pixels, whatever the masks contain. (If two masks both
// have a run of no pixels at the same place, pycocotools takes it for the end of both.)
#include "base/alloc.h"
#include "metrics/mask.h"

/* A walk along the pixels of a mask. */
struct walk {
    const struct kolo_mask *mask;
    size_t next;   /* index of the next run */
    uint32_t left; /* pixels left in the current run; 0: at the end of the mask */
    bool is_in;
};

static void settle(struct walk *walk)
{
    while (walk->left == 0 && walk->next < walk->mask->count) {
        walk->is_in = walk->next % 2 == 1;
        walk->left = walk->mask->runs[walk->next++];
    }
}

/* A mask without runs is a mask whose pixels are all outside. */
static struct walk begin(const struct kolo_mask *mask)
{
    struct walk walk = {.mask = mask, .next = 1};
    walk.left = mask->count > 0 ? mask->runs[0] : kolo_mask_pixels(mask);
    settle(&walk);
    return walk;
}

static void go(struct walk *walk, uint32_t pixels)
{
    walk->left -= pixels;
    settle(walk);
}

static kolo_status merge_two(const struct kolo_mask *one, const struct kolo_mask *other,
                             bool intersect, struct kolo_mask *made)
{
    /* Each run of the result ends where a run of one of the masks does, or is the first or last. */
    kolo_status status = kolo_mask_room(made, one->count + other->count + 2);
    if (status != KOLO_OK)
        return status;
    struct walk a = begin(one), b = begin(other);
    bool is_in = false;
    uint32_t length = 0;
    made->count = 0;
    while (a.left > 0 && b.left > 0) {
        bool was_in = is_in;
        is_in = intersect ? a.is_in && b.is_in : a.is_in || b.is_in;
        if (is_in != was_in) {
            made->runs[made->count++] = length;
            length = 0;
        }
        uint32_t pixels = a.left < b.left ? a.left : b.left;
        length += pixels;
        go(&a, pixels);
        go(&b, pixels);
    }
    made->runs[made->count++] = length;
    return KOLO_OK;
}

static void swap(struct kolo_mask *one, struct kolo_mask *other)
{
    struct kolo_mask before = *one;
    *one = *other;
    *other = before;
}

/* Merges a few masks one after the other, and more of them by halves, so that the time does not
 * grow with the square of their number. The result is the same. */
static kolo_status merge_all(const struct kolo_mask *masks, size_t count, bool intersect,
                             struct kolo_mask *made)
{
    enum { FEW = 16 };
    const uint32_t height = masks->height, width = masks->width;
    /* made and spare swap roles: one has the result so far, the other gets the next. */
    struct kolo_mask spare = {.height = height, .width = width};
    struct kolo_mask rest = {.height = height, .width = width};
    size_t half = count / 2;
    kolo_status status = count > FEW ? merge_all(masks, half, intersect, made)
                                     : merge_two(masks, masks, intersect, made);
    for (size_t i = 1; status == KOLO_OK && count <= FEW && i < count; i++) {
        status = merge_two(made, &masks[i], intersect, &spare);
        swap(made, &spare);
    }
    if (status == KOLO_OK && count > FEW) {
        status = merge_all(masks + half, count - half, intersect, &rest);
        if (status == KOLO_OK)
            status = merge_two(made, &rest, intersect, &spare);
        swap(made, &spare);
    }
    kolo_mask_free(&spare);
    kolo_mask_free(&rest);
    return status;
}

static kolo_status check(const struct kolo_mask *masks, size_t count)
{
    kolo_status status = KOLO_OK;
    if (!masks || count == 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_mask_merge: masks is NULL or empty (%zu)", count);
    for (size_t i = 0; status == KOLO_OK && i < count; i++) {
        status = kolo_mask_check_one(&masks[i], "kolo_mask_merge: mask", i);
        if (status == KOLO_OK &&
            (masks[i].height != masks[0].height || masks[i].width != masks[0].width))
            status = kolo_fail(KOLO_ERR_INVALID,
                               "kolo_mask_merge: mask %zu is of %u x %u pixels, mask 0 of %u x %u",
                               i, masks[i].height, masks[i].width, masks[0].height, masks[0].width);
    }
    return status;
}

kolo_status kolo_mask_merge(const struct kolo_mask *masks, size_t count, bool intersect,
                            struct kolo_mask *mask_out)
{
    kolo_status status = check(masks, count);
    for (size_t i = 0; status == KOLO_OK && mask_out && i < count; i++)
        if (mask_out->runs && mask_out->runs == masks[i].runs)
            status =
                kolo_fail(KOLO_ERR_INVALID,
                          "kolo_mask_merge: mask_out is mask %zu; give another, zeroed mask", i);
    if (status == KOLO_OK)
        status = kolo_mask_begin(mask_out, masks->height, masks->width, "kolo_mask_merge: mask");
    if (status != KOLO_OK)
        return status;
    status = merge_all(masks, count, intersect, mask_out);
    if (status != KOLO_OK)
        mask_out->count = 0;
    return status;
}
