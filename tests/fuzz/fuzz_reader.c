// SPDX-License-Identifier: Apache-2.0
// The readers of kolo-coco on any bytes, in libFuzzer's form. Besides what a sanitizer sees: a failure
// has one line that says why; three ranks keep together what one keeps, and fail where it fails; what
// is kept is finite.
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "evaluate/detections.h"
#include "evaluate/truths.h"
#include "tests/fuzz/fuzz.h"

enum { RANKS = 3, POINT_NUMBERS = 51 };

static char path[64];

static void write_file(const unsigned char *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fuzz_check(fd >= 0 && ftruncate(fd, 0) == 0, "no memory file");
    fuzz_check(pwrite(fd, data, size, 0) == (ssize_t)size, "no memory file");
}

static void check_box(const double *box)
{
    for (int i = 0; i < 4; i++)
        fuzz_check(isfinite(box[i]) && (i < 2 || box[i] >= 0), "a box that is none");
}

/* What a program does with a shape; it may fail. */
static void use(const struct eval_shapes *shapes, const struct eval_place *place,
                const struct eval_image *image)
{
    double points[POINT_NUMBERS];
    struct kolo_mask mask = {.height = 0};
    uint32_t area;
    fuzz_check(place->at + place->bytes <= shapes->bytes, "a shape out of its bytes");
    fuzz_check_status(eval_shapes_points(shapes, place, POINT_NUMBERS, points), false);
    kolo_status status = eval_shapes_mask(shapes, place, image->height, image->width, &mask);
    fuzz_check_status(status, status == KOLO_ERR_INVALID);
    if (status == KOLO_OK)
        fuzz_check(kolo_mask_area(&mask, &area) == KOLO_OK, "a mask that is none");
    kolo_mask_free(&mask);
}

static void read_truths(kolo_detection_kind kind, kolo_detection_rules rules, bool is_lenient)
{
    struct eval_truths truths;
    const struct eval_terms terms = {.kind = kind, .rules = rules, .is_lenient = is_lenient};
    kolo_status status = eval_truths_read(&truths, path, &terms);
    fuzz_check_status(status, false);
    for (size_t i = 0; status == KOLO_OK && i < truths.truths; i++) {
        check_box(truths.truth[i].box);
        fuzz_check(isfinite(truths.truth[i].area), "an area that is not finite");
        int64_t image = eval_image_find(&truths, truths.truth[i].image);
        fuzz_check(image >= 0, "an image that is not there");
        use(&truths.shapes, &truths.truth[i].shape, &truths.image[image]);
    }
    for (size_t i = 0; status == KOLO_OK && i < truths.images; i++) {
        const struct eval_image *image = &truths.image[i];
        fuzz_check(image->absent.at + image->absent.count <= truths.ids &&
                       image->partial.at + image->partial.count <= truths.ids,
                   "a list out of the ids");
    }
    eval_truths_free(&truths);
}

/* Reads the share of a rank. @return how many it kept; -1: it failed. */
static long read_share(const struct eval_truths *truths, kolo_detection_kind kind, int rank,
                       int ranks)
{
    struct eval_detections detections;
    const struct eval_division division = {
        .kind = kind, .skip_unknown = true, .rank = rank, .ranks = ranks};
    kolo_status status = eval_detections_read(&detections, path, truths, &division);
    long count = status == KOLO_OK ? (long)detections.count : -1;
    fuzz_check_status(status, false);
    for (long i = 0; i < count; i++) {
        const struct eval_detection *one = &detections.detection[i];
        fuzz_check(one->image < truths->images && one->category < truths->categories,
                   "out of the lists");
        check_box(one->box);
        fuzz_check(isfinite(one->score) && one->number < detections.all,
                   "a score that is not finite");
        use(&detections.shapes, &one->shape, &truths->image[one->image]);
    }
    eval_detections_free(&detections);
    return count;
}

static void read_detections(kolo_detection_kind kind)
{
    struct eval_image images[] = {
        {.id = 0, .height = 9, .width = 9}, {.id = 1}, {.id = 2}, {.id = 7}};
    struct eval_category categories[] = {{.id = 1}, {.id = 3}};
    const struct eval_truths truths = {
        .image = images, .images = 4, .category = categories, .categories = 2};
    long all = read_share(&truths, kind, 0, 1), sum = 0;
    bool has_failed = false;
    for (int rank = 0; rank < RANKS; rank++) {
        long some = read_share(&truths, kind, rank, RANKS);
        has_failed = has_failed || some < 0;
        sum += some;
    }
    fuzz_check(has_failed == (all < 0), "one rank and three do not agree whether it can be read");
    fuzz_check(has_failed || sum == all, "three ranks keep another count");
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    write_file(data, size);
    for (int kind = KOLO_DETECTION_BOXES; kind <= KOLO_DETECTION_KEYPOINTS; kind++) {
        read_truths((kolo_detection_kind)kind, KOLO_DETECTION_COCO, false);
        read_detections((kolo_detection_kind)kind);
    }
    read_truths(KOLO_DETECTION_BOXES, KOLO_DETECTION_LVIS, false);
    read_truths(KOLO_DETECTION_BOXES, KOLO_DETECTION_VOC, true);
    return 0;
}
