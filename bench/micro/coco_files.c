// SPDX-License-Identifier: Apache-2.0
// Files like COCO's, for what reads files: `coco_files IMAGES PER_IMAGE GT.json DT.json` writes the
// set of bench/coco_data.h as Python's json.dump() writes it, numbers with as few digits as give the
// same bits. The same arguments make the same bytes everywhere.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/coco_data.h"

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

static void put_truths(FILE *file, uint64_t id, const struct coco_image *image, uint64_t *number)
{
    for (int g = 0; g < image->truths; g++) {
        fprintf(file, "%s{\"id\": %llu, \"image_id\": %llu, \"category_id\": %lld, \"area\": ",
                *number > 0 ? ", " : "", (unsigned long long)*number + 1, (unsigned long long)id,
                (long long)image->truth_category[g]);
        put_number(file, image->truth_area[g]);
        fprintf(file, ", \"iscrowd\": %d, ", image->truth_crowd[g]);
        put_box(file, image->truth_box + (ptrdiff_t)4 * g);
        fputc('}', file);
        ++*number;
    }
}

static void put_detections(FILE *file, uint64_t id, const struct coco_image *image)
{
    for (int i = 0; i < image->found; i++) {
        fprintf(file, "%s{\"image_id\": %llu, \"category_id\": %lld, ", id > 0 || i > 0 ? ", " : "",
                (unsigned long long)id, (long long)image->category[i]);
        put_box(file, image->box + (ptrdiff_t)4 * i);
        fputs(", \"score\": ", file);
        put_number(file, image->score[i]);
        fputc('}', file);
    }
}

static void put_lists(FILE *file, uint64_t images)
{
    fputs("], \"images\": [", file);
    for (uint64_t i = 0; i < images; i++)
        fprintf(file, "%s{\"id\": %llu, \"height\": 480, \"width\": 640}", i > 0 ? ", " : "",
                (unsigned long long)i);
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
    if (argc != 5) {
        fputs("usage: coco_files IMAGES PER_IMAGE GT.json DT.json\n", stderr);
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
        put_truths(truths, i, &image, &number);
        put_detections(detections, i, &image);
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
