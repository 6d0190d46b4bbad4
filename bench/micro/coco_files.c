// SPDX-License-Identifier: Apache-2.0
// Writes files like COCO's, to measure programs that read files:
//   coco_files IMAGES PER_IMAGE GT.json DT.json [bbox|segm|keypoints]
// Writes the set of bench/coco_data.h as Python's json.dump() does, with the fewest digits that
// give the same bits. For segm the ground truth has polygons and the results have COCO's strings,
// without boxes, as for keypoints. The same arguments give the same bytes everywhere.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/mask.h>

#include "bench/coco_data.h"
#include "bench/micro/check.h"

static void put_number(FILE *file, double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, file);
}

static void put_box(FILE *file, const double *box)
{
    fputs("\"bbox\": [", file);
    for (int i = 0; i < 4; i++) {
        put_number(file, box[i]);
        fputs(i < 3 ? ", " : "]", file);
    }
}

static void put_numbers(FILE *file, const double *values, int count)
{
    for (int i = 0; i < count; i++) {
        put_number(file, values[i]);
        if (i < count - 1)
            fputs(", ", file);
    }
}

/* What an annotation has besides its box. */
static void put_shape(FILE *file, const char *kind, const double *box, uint64_t seed)
{
    double corners[2 * COCO_DATA_CORNERS], points[3 * COCO_DATA_POINTS];
    int seen = 0;
    if (strcmp(kind, "segm") == 0) {
        coco_data_draw(box, seed, corners);
        fputs(", \"segmentation\": [[", file);
        put_numbers(file, corners, 2 * COCO_DATA_CORNERS);
        fputs("]]", file);
    } else if (strcmp(kind, "keypoints") == 0) {
        coco_data_pose(box, seed, points);
        fputs(", \"keypoints\": [", file);
        put_numbers(file, points, 3 * COCO_DATA_POINTS);
        for (int i = 0; i < COCO_DATA_POINTS; i++)
            seen += points[3 * i + 2] > 0;
        fprintf(file, "], \"num_keypoints\": %d", seen);
    }
}

/* The mask as COCO's string. */
static void put_mask(FILE *file, const double *box, uint64_t seed)
{
    double corners[2 * COCO_DATA_CORNERS];
    char text[1 << 16];
    size_t length;
    struct kolo_mask mask = {.runs = NULL};
    coco_data_draw(box, seed, corners);
    check(kolo_mask_from_polygon(corners, COCO_DATA_CORNERS, COCO_DATA_HEIGHT, COCO_DATA_WIDTH,
                                 &mask),
          NULL);
    check(kolo_mask_to_string(&mask, text, sizeof text, &length), NULL);
    kolo_mask_free(&mask);
    fprintf(file, "\"segmentation\": {\"size\": [%d, %d], \"counts\": \"", COCO_DATA_HEIGHT,
            COCO_DATA_WIDTH);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\')
            fputc('\\', file);
        fputc(text[i], file);
    }
    fputs("\"}", file);
}

static void put_found(FILE *file, const char *kind, const double *box, uint64_t seed)
{
    double points[3 * COCO_DATA_POINTS];
    if (strcmp(kind, "segm") == 0) {
        put_mask(file, box, seed);
    } else if (strcmp(kind, "keypoints") == 0) {
        coco_data_pose(box, seed, points);
        fputs("\"keypoints\": [", file);
        put_numbers(file, points, 3 * COCO_DATA_POINTS);
        fputc(']', file);
    } else {
        put_box(file, box);
    }
}

static void put_truths(FILE *file, uint64_t id, const struct coco_image *image, const char *kind,
                       uint64_t *number)
{
    for (int g = 0; g < image->truths; g++) {
        fprintf(file, "%s{\"id\": %llu, \"image_id\": %llu, \"category_id\": %lld, \"area\": ",
                *number > 0 ? ", " : "", (unsigned long long)*number + 1, (unsigned long long)id,
                (long long)image->truth_category[g]);
        put_number(file, image->truth_area[g]);
        fprintf(file, ", \"iscrowd\": %d, ", image->truth_crowd[g]);
        put_box(file, image->truth_box + (ptrdiff_t)4 * g);
        put_shape(file, kind, image->truth_box + (ptrdiff_t)4 * g, *number * 7919 + id);
        fputc('}', file);
        ++*number;
    }
}

static void put_detections(FILE *file, uint64_t id, const struct coco_image *image,
                           const char *kind)
{
    for (int i = 0; i < image->found; i++) {
        fprintf(file, "%s{\"image_id\": %llu, \"category_id\": %lld, ", id > 0 || i > 0 ? ", " : "",
                (unsigned long long)id, (long long)image->category[i]);
        put_found(file, kind, image->box + (ptrdiff_t)4 * i, id * 7919 + (uint64_t)i);
        fputs(", \"score\": ", file);
        put_number(file, image->score[i]);
        fputc('}', file);
    }
}

static void put_lists(FILE *file, uint64_t images)
{
    fputs("], \"images\": [", file);
    for (uint64_t i = 0; i < images; i++)
        fprintf(file, "%s{\"id\": %llu, \"height\": %d, \"width\": %d}", i > 0 ? ", " : "",
                (unsigned long long)i, COCO_DATA_HEIGHT, COCO_DATA_WIDTH);
    fputs("], \"categories\": [", file);
    for (int k = 1; k <= COCO_DATA_CATEGORIES; k++)
        fprintf(file, "%s{\"id\": %d, \"name\": \"class %d\"}", k > 1 ? ", " : "", k, k);
    fputs("]}", file);
}

static int whole(FILE *file)
{
    return fflush(file) == 0 && !ferror(file) && fclose(file) == 0;
}

int main(int argc, char **argv)
{
    static const char *const kinds = " bbox segm keypoints ";
    const char *kind = argc == 6 ? argv[5] : "bbox";
    if (argc < 5 || argc > 6 || !strstr(kinds, kind)) {
        fputs("usage: coco_files IMAGES PER_IMAGE GT.json DT.json [bbox|segm|keypoints]\n", stderr);
        return 2;
    }
    uint64_t images = strtoull(argv[1], NULL, 10), number = 0;
    struct coco_data data = {.seed = 1, .found = (int)strtol(argv[2], NULL, 10)};
    size_t found = (size_t)data.found;
    struct coco_image image = {
        .box = calloc(found, 32), .score = calloc(found, 8), .category = calloc(found, 8)};
    FILE *truths = fopen(argv[3], "w"), *detections = fopen(argv[4], "w");
    if (!truths || !detections || !image.box || !image.score || !image.category) {
        perror("coco_files");
        return 1;
    }
    fputs("{\"annotations\": [", truths);
    fputc('[', detections);
    for (uint64_t i = 0; i < images; i++) {
        coco_data_make(&data, i, &image);
        put_truths(truths, i, &image, kind, &number);
        put_detections(detections, i, &image, kind);
    }
    put_lists(truths, images);
    fputc(']', detections);
    if (!whole(truths) || !whole(detections)) {
        perror("coco_files");
        return 1;
    }
    free(image.box);
    free(image.score);
    free(image.category);
    return 0;
}
