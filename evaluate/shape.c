// SPDX-License-Identifier: Apache-2.0
// See shape.h. As bytes a shape is a head, followed by the ends of its polygons and their numbers,
// or by its runs, or by its text. Polygons are interpreted as by pycocotools' frPyObjects(): if the
// first has 4 numbers, all are boxes (for which it then fails).
#include "evaluate/shape.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "evaluate/number.h"

struct head {
    uint32_t kind, height, width, ends;
    uint64_t count; /* numbers, runs or bytes of text */
};

/* ---- reading ---- */

const char *eval_shape_begin(struct eval_shape *shape, bool is_points, bool is_object)
{
    shape->kind = is_points ? EVAL_POINTS : is_object ? EVAL_NO_SHAPE : EVAL_POLYGONS;
    shape->is_object = is_object;
    shape->key = EVAL_KEY_OTHER;
    shape->sizes = shape->numbers = shape->ends = shape->bytes = 0;
    return is_points && is_object ? "the keypoints are an object; they are numbers" : NULL;
}

const char *eval_shape_open(struct eval_shape *shape, size_t inside, bool is_object)
{
    if (shape->kind == EVAL_POINTS)
        return "an array or object among keypoints; they are numbers";
    if (!shape->is_object)
        return is_object || inside > 1 ? "polygons are arrays of numbers" : NULL;
    if (inside > 1 || shape->key == EVAL_KEY_OTHER)
        return shape->key == EVAL_KEY_OTHER ? NULL : "an array in the size or counts of a mask";
    if (is_object)
        return "the size or counts of a mask are an object";
    if (shape->key == EVAL_KEY_COUNTS) {
        shape->kind = EVAL_RUNS;
        shape->numbers = 0;
    } else {
        shape->sizes = 0;
    }
    return NULL;
}

const char *eval_shape_key(struct eval_shape *shape, size_t inside, const char *text, size_t length)
{
    if (shape->is_object && inside == 1)
        shape->key = length == 4 && memcmp(text, "size", 4) == 0     ? EVAL_KEY_SIZE
                     : length == 6 && memcmp(text, "counts", 6) == 0 ? EVAL_KEY_COUNTS
                                                                     : EVAL_KEY_OTHER;
    return NULL;
}

const char eval_shape_no_memory[] = "no memory for it";

static const char *add_number(struct eval_shape *shape, double value)
{
    if (kolo_grow((void **)&shape->number, &shape->number_room, shape->numbers + 1,
                  sizeof *shape->number) != KOLO_OK)
        return eval_shape_no_memory;
    shape->number[shape->numbers++] = value;
    return NULL;
}

static const char *add_integer(struct eval_shape *shape, double value)
{
    if (!(value >= 0 && value <= UINT32_MAX) || value != floor(value))
        return "the size and counts of a mask are whole numbers below 2^32";
    if (shape->key == EVAL_KEY_COUNTS)
        return add_number(shape, value);
    if (shape->sizes == 2)
        return "the size of a mask has 2 numbers, height and width";
    shape->size[shape->sizes++] = (uint32_t)value;
    return NULL;
}

const char *eval_shape_number(struct eval_shape *shape, size_t inside, const char *text,
                              size_t length)
{
    double value;
    if (!eval_number_read(text, length, &value) || !isfinite(value))
        return "a number that is too long or too large";
    if (shape->kind == EVAL_POINTS)
        return add_number(shape, value);
    if (!shape->is_object)
        return inside == 2 ? add_number(shape, value)
                           : "a number in a segmentation; it has polygons, which are arrays";
    if (shape->key == EVAL_KEY_OTHER)
        return NULL;
    return inside == 2 ? add_integer(shape, value) : "the size or counts of a mask are a number";
}

const char *eval_shape_string(struct eval_shape *shape, size_t inside, const char *text,
                              size_t length)
{
    if (shape->is_object && shape->key == EVAL_KEY_OTHER)
        return NULL;
    if (!shape->is_object || shape->key != EVAL_KEY_COUNTS || inside != 1)
        return "a string where numbers are expected";
    if (kolo_grow((void **)&shape->text, &shape->text_room, length, 1) != KOLO_OK)
        return eval_shape_no_memory;
    if (length > 0)
        memcpy(shape->text, text, length);
    shape->bytes = length;
    shape->kind = EVAL_STRING;
    return NULL;
}

/* The end of a polygon, or of all. */
const char *eval_shape_close(struct eval_shape *shape, size_t inside)
{
    if (shape->is_object && inside == 0) {
        if (shape->kind == EVAL_NO_SHAPE)
            return "a segmentation without counts";
        return shape->sizes == 2 ? NULL : "the size of a mask has 2 numbers, height and width";
    }
    if (shape->kind != EVAL_POLYGONS)
        return NULL;
    if (inside == 0)
        return shape->ends > 0 ? NULL : "a segmentation without polygons";
    size_t begin = shape->ends > 0 ? (size_t)shape->end[shape->ends - 1] : 0;
    size_t count = shape->numbers - begin, first = shape->ends > 0 ? (size_t)shape->end[0] : count;
    if (count % 2 != 0 || first < 4 || count == 0)
        return "a polygon of no points, of one point, or of an odd count of numbers";
    if (first == 4 && count != 4)
        return "a polygon among boxes: where the first has 4 numbers all are boxes";
    if (shape->ends == UINT32_MAX || kolo_grow((void **)&shape->end, &shape->end_room,
                                               shape->ends + 1, sizeof *shape->end) != KOLO_OK)
        return eval_shape_no_memory;
    shape->end[shape->ends++] = shape->numbers;
    return NULL;
}

const char *eval_shape_word(const struct eval_shape *shape, size_t inside)
{
    bool matters = !shape->is_object || (inside > 0 && shape->key != EVAL_KEY_OTHER);
    return matters ? "null, true or false where numbers are expected" : NULL;
}

void eval_shape_free(struct eval_shape *shape)
{
    kolo_free_memory(shape->number);
    kolo_free_memory(shape->end);
    kolo_free_memory(shape->text);
    *shape = (struct eval_shape){.kind = EVAL_NO_SHAPE};
}

/* ---- keeping ---- */

static void put(unsigned char **at, const void *data, size_t bytes)
{
    if (bytes > 0)
        memcpy(*at, data, bytes);
    *at += bytes;
}

kolo_status eval_shapes_add(struct eval_shapes *shapes, const struct eval_shape *shape,
                            struct eval_place *place_out)
{
    bool is_text = shape->kind == EVAL_STRING, is_parted = shape->kind == EVAL_POLYGONS;
    struct head head = {.kind = shape->kind,
                        .height = shape->is_object ? shape->size[0] : 0,
                        .width = shape->is_object ? shape->size[1] : 0,
                        .ends = is_parted ? (uint32_t)shape->ends : 0,
                        .count = is_text ? shape->bytes : shape->numbers};
    size_t ends = head.ends * sizeof *shape->end;
    size_t numbers = is_text ? 0 : shape->numbers * sizeof *shape->number;
    size_t bytes = sizeof head + ends + numbers + (is_text ? (shape->bytes + 7) / 8 * 8 : 0);
    kolo_status status = kolo_grow((void **)&shapes->data, &shapes->room, shapes->bytes + bytes, 1);
    if (status != KOLO_OK)
        return status;
    unsigned char *at = shapes->data + shapes->bytes;
    memset(at + bytes - 8, 0, 8); /* after a text */
    put(&at, &head, sizeof head);
    put(&at, shape->end, ends);
    put(&at, shape->number, numbers);
    put(&at, shape->text, is_text ? shape->bytes : 0);
    *place_out = (struct eval_place){.at = shapes->bytes, .bytes = bytes};
    shapes->bytes += bytes;
    return KOLO_OK;
}

static const unsigned char *find(const struct eval_shapes *shapes, const struct eval_place *place,
                                 struct head *head)
{
    *head = (struct head){.kind = EVAL_NO_SHAPE};
    if (place->bytes < sizeof *head)
        return NULL;
    memcpy(head, shapes->data + place->at, sizeof *head);
    return shapes->data + place->at + sizeof *head;
}

/* One polygon or box. */
static kolo_status draw(const double *xy, size_t numbers, bool is_box, uint32_t height,
                        uint32_t width, struct kolo_mask *mask)
{
    return is_box ? kolo_mask_from_box(xy, height, width, mask)
                  : kolo_mask_from_polygon(xy, numbers / 2, height, width, mask);
}

static kolo_status draw_all(const struct head *head, const unsigned char *data, uint32_t height,
                            uint32_t width, struct kolo_mask *mask_out)
{
    const uint64_t *end = (const void *)data;
    const double *xy = (const void *)(data + head->ends * sizeof *end);
    size_t begin = 0;
    if (height == 0 || width == 0)
        return kolo_fail(KOLO_ERR_DATA, "polygons need the height and the width of their image");
    if (head->ends == 1)
        return draw(xy, (size_t)end[0], end[0] == 4, height, width, mask_out);
    struct kolo_mask *parts = kolo_calloc(head->ends, sizeof *parts);
    kolo_status status = parts ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    for (uint32_t i = 0; status == KOLO_OK && i < head->ends; i++) {
        status = draw(xy + begin, (size_t)end[i] - begin, end[0] == 4, height, width, &parts[i]);
        begin = (size_t)end[i];
    }
    if (status == KOLO_OK)
        status = kolo_mask_merge(parts, head->ends, false, mask_out);
    for (uint32_t i = 0; parts && i < head->ends; i++)
        kolo_mask_free(&parts[i]);
    kolo_free_memory(parts);
    return status;
}

static kolo_status take_runs(const struct head *head, const unsigned char *data,
                             struct kolo_mask *mask_out)
{
    const double *number = (const void *)data;
    uint32_t *runs = kolo_calloc((size_t)head->count, sizeof *runs);
    if (!runs)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < head->count; i++)
        runs[i] = (uint32_t)number[i];
    kolo_status status =
        kolo_mask_from_runs(runs, (size_t)head->count, head->height, head->width, mask_out);
    kolo_free_memory(runs);
    return status;
}

kolo_status eval_shapes_mask(const struct eval_shapes *shapes, const struct eval_place *place,
                             uint32_t height, uint32_t width, struct kolo_mask *mask_out)
{
    struct head head;
    const unsigned char *data = find(shapes, place, &head);
    if (head.kind == EVAL_POLYGONS)
        return draw_all(&head, data, height, width, mask_out);
    if (head.kind != EVAL_RUNS && head.kind != EVAL_STRING)
        return kolo_fail(KOLO_ERR_DATA, "it has no segmentation");
    if (height > 0 && width > 0 && (head.height != height || head.width != width))
        return kolo_fail(KOLO_ERR_DATA, "the size of the mask is [%u, %u], its image's [%u, %u]",
                         head.height, head.width, height, width);
    if (head.kind == EVAL_RUNS)
        return take_runs(&head, data, mask_out);
    return kolo_mask_from_string((const char *)data, (size_t)head.count, head.height, head.width,
                                 mask_out);
}

/* The range of every third number. */
static double extent(const double *numbers, size_t count)
{
    double low = numbers[0], high = numbers[0];
    for (size_t i = EVAL_POINT_NUMBERS; i < count; i += EVAL_POINT_NUMBERS) {
        low = numbers[i] < low ? numbers[i] : low;
        high = numbers[i] > high ? numbers[i] : high;
    }
    return high - low;
}

kolo_status eval_shapes_points(const struct eval_shapes *shapes, const struct eval_place *place,
                               size_t count, double *points_out)
{
    struct head head;
    const unsigned char *data = find(shapes, place, &head);
    if (head.kind != EVAL_POINTS || head.count != count)
        return kolo_fail(KOLO_ERR_DATA,
                         "%llu numbers as keypoints; %zu are needed, x, y and v of each",
                         (unsigned long long)head.count, count);
    memcpy(points_out, data, count * sizeof *points_out);
    if (!isfinite(extent(points_out, count) * extent(points_out + 1, count)))
        return kolo_fail(KOLO_ERR_DATA, "the keypoints are too far from each other: the area of "
                                        "the rectangle around them would be infinite");
    return KOLO_OK;
}

void eval_shapes_free(struct eval_shapes *shapes)
{
    kolo_free_memory(shapes->data);
    *shapes = (struct eval_shapes){.data = NULL};
}
