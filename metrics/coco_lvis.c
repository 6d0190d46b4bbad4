// SPDX-License-Identifier: Apache-2.0
// LVIS's rules: what is known of each category in an image.
//
// A category is asked for if the image has ground truth of it or names it as absent; detections of
// other categories are not looked at. In a category that is not annotated exhaustively (partial), a
// miss may be right, so misses are left out.
//
// Owns the notes of one image at a time. They are erased with the same lists that set them, so that
// no memory is as large as categories times images.
#include "base/alloc.h"
#include "metrics/coco.h"

enum { ASKED = 1, PARTIAL = 2 };

static kolo_status check_list(const char *name, const size_t *counts, const int64_t *list,
                              size_t images)
{
    size_t sum = 0;
    for (size_t i = 0; counts && i < images; i++) {
        if (sum + counts[i] < sum)
            return kolo_fail(KOLO_ERR_INVALID,
                             "kolo_detection_update: truths.%s_counts[%zu] is %zu, which makes the "
                             "sum of the counts overflow",
                             name, i, counts[i]);
        sum += counts[i];
    }
    if (sum > 0 && !list)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_detection_update: truths.%s is NULL, and its counts add up to %zu",
                         name, sum);
    if (!counts && list)
        return kolo_fail(
            KOLO_ERR_INVALID,
            "kolo_detection_update: truths.%s_counts is NULL; pass the number for each image",
            name);
    return KOLO_OK;
}

kolo_status kolo_coco_lvis_check(const struct kolo_boxes *truths, size_t images)
{
    kolo_status status = check_list("absent", truths->absent_counts, truths->absent, images);
    if (status == KOLO_OK)
        status = check_list("partial", truths->partial_counts, truths->partial, images);
    return status;
}

kolo_status kolo_coco_lvis_begin(struct kolo_coco_lvis *lvis, const struct kolo_coco_params *params)
{
    if (!lvis->notes)
        lvis->notes = kolo_calloc(params->categories, 1);
    lvis->absent = lvis->partial = 0;
    return lvis->notes ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

void kolo_coco_lvis_free(struct kolo_coco_lvis *lvis)
{
    kolo_free_memory(lvis->notes);
    *lvis = (struct kolo_coco_lvis){.notes = NULL};
}

/* Sets or erases notes. Categories that the config does not name are skipped. */
static void note(const struct kolo_coco_lvis *lvis, const struct kolo_coco_params *params,
                 const int64_t *ids, size_t count, uint8_t bit, bool is_true)
{
    for (size_t i = 0; i < count; i++) {
        int64_t category = kolo_coco_category(params, ids[i]);
        if (category >= 0)
            lvis->notes[category] = is_true ? lvis->notes[category] | bit : 0;
    }
}

static void note_lists(const struct kolo_coco_lvis *lvis, const struct kolo_coco_params *params,
                       const struct kolo_boxes *truths, size_t image, bool is_true)
{
    if (truths && truths->absent)
        note(lvis, params, truths->absent + lvis->absent, truths->absent_counts[image], ASKED,
             is_true);
    if (truths && truths->partial)
        note(lvis, params, truths->partial + lvis->partial, truths->partial_counts[image], PARTIAL,
             is_true);
}

void kolo_coco_lvis_open(const struct kolo_coco_lvis *lvis, const struct kolo_coco_params *params,
                         const struct kolo_boxes *truths, size_t image)
{
    note_lists(lvis, params, truths, image, true);
}

void kolo_coco_lvis_ask(const struct kolo_coco_lvis *lvis, size_t category)
{
    lvis->notes[category] |= ASKED;
}

void kolo_coco_lvis_forget(const struct kolo_coco_lvis *lvis, size_t category)
{
    lvis->notes[category] = 0;
}

void kolo_coco_lvis_close(struct kolo_coco_lvis *lvis, const struct kolo_coco_params *params,
                          const struct kolo_boxes *truths, size_t image)
{
    note_lists(lvis, params, truths, image, false);
    if (truths && truths->absent)
        lvis->absent += truths->absent_counts[image];
    if (truths && truths->partial)
        lvis->partial += truths->partial_counts[image];
}

bool kolo_coco_lvis_is_asked(const struct kolo_coco_lvis *lvis, size_t category)
{
    return lvis->notes[category] & ASKED;
}

bool kolo_coco_lvis_is_partial(const struct kolo_coco_lvis *lvis, size_t category)
{
    return lvis->notes[category] & PARTIAL;
}
