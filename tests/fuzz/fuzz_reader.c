// SPDX-License-Identifier: Apache-2.0
// A fuzzer of kolo-coco's readers, in libFuzzer's form. Besides what a sanitizer finds, it checks
// that a failure has a detail of one line; that three ranks together keep what one rank keeps, and
// fail if it fails; that parts of a file that fit together hold what the whole file does, which can
// then be read; and that all values kept are finite.
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
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

/* What a program does with shapes; it may fail. */
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

/* Reads the share of a rank. @return how many detections it kept; -1: it failed. */
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

/* What has been read of one part must equal the next detections of the whole. */
static void compare(const struct eval_detections *part, const struct eval_detections *whole,
                    size_t *kept, uint64_t before)
{
    for (size_t i = 0; i < part->count; i++, (*kept)++) {
        fuzz_check(*kept < whole->count, "parts keep more than the whole");
        struct eval_detection one = part->detection[i], other = whole->detection[*kept];
        fuzz_check(one.number + before == other.number, "a part counts otherwise");
        fuzz_check(one.shape.bytes == other.shape.bytes, "a part has other shapes");
        if (one.shape.bytes > 0)
            fuzz_check(memcmp(part->shapes.data + one.shape.at, whole->shapes.data + other.shape.at,
                              one.shape.bytes) == 0,
                       "a part has other shapes");
        one.number = other.number;
        one.shape.at = other.shape.at;
        fuzz_check(memcmp(&one, &other, sizeof one) == 0, "a part has other detections");
    }
}

/* Parts that fit together are the whole file, which must then be readable; @p bytes is the file's
 * length. */
static void read_parts(const struct eval_truths *truths, kolo_detection_kind kind, size_t bytes,
                       size_t parts)
{
    struct eval_detections whole, some[RANKS];
    struct eval_part part[RANKS];
    struct eval_division division = {.kind = kind, .skip_unknown = true, .ranks = 1};
    bool is_well = true;
    size_t kept = 0;
    uint64_t all = 0;
    for (size_t i = 0; i < parts; i++) {
        part[i] = (struct eval_part){.from = i * (bytes / parts),
                                     .to = i + 1 < parts ? (i + 1) * (bytes / parts) : UINT64_MAX};
        kolo_status status = eval_detections_read_part(&some[i], path, truths, &division, &part[i]);
        fuzz_check_status(status, false);
        is_well = is_well && status == KOLO_OK;
    }
    if (is_well && eval_parts_fit(part, parts)) {
        kolo_status status = eval_detections_read(&whole, path, truths, &division);
        fuzz_check(status == KOLO_OK, "parts are taken where the whole is refused");
        for (size_t i = 0; i < parts; all += part[i++].count)
            compare(&some[i], &whole, &kept, all);
        fuzz_check(kept == whole.count && all == whole.all, "parts are less than the whole");
        fuzz_check(some[0].first_has_box == whole.first_has_box, "parts have another first");
        eval_detections_free(&whole);
    }
    for (size_t i = 0; i < parts; i++)
        eval_detections_free(&some[i]);
}

static void read_detections(kolo_detection_kind kind, const unsigned char *data, size_t size)
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
    for (size_t parts = 2; size > 0 && data[0] == '[' && parts <= RANKS; parts++)
        read_parts(&truths, kind, size, parts);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    write_file(data, size);
    for (int kind = KOLO_DETECTION_BOXES; kind <= KOLO_DETECTION_KEYPOINTS; kind++) {
        read_truths((kolo_detection_kind)kind, KOLO_DETECTION_COCO, false);
        read_detections((kolo_detection_kind)kind, data, size);
    }
    read_truths(KOLO_DETECTION_BOXES, KOLO_DETECTION_LVIS, false);
    read_truths(KOLO_DETECTION_BOXES, KOLO_DETECTION_VOC, true);
    return 0;
}
