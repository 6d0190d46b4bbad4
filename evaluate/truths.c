// SPDX-License-Identifier: Apache-2.0
// Reads COCO's ground truth, see truths.h. The lists may be in any order, so annotations are
// checked once everything is read. As strict as pycocotools, which fails without iscrowd or area,
// unless they may be missing; and stricter where pycocotools computes wrong numbers: there, entries
// with the same id replace each other.
#include "evaluate/truths.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "evaluate/json.h"

enum {
    IMAGE_FIELDS = 1u << EVAL_ID,
    SIZE_FIELDS = 1u << EVAL_HEIGHT | 1u << EVAL_WIDTH,
    LVIS_IMAGE_FIELDS = 1u << EVAL_ABSENT | 1u << EVAL_PARTIAL,
    CATEGORY_FIELDS = 1u << EVAL_ID,
    TRUTH_FIELDS = 1u << EVAL_ID | 1u << EVAL_IMAGE | 1u << EVAL_CATEGORY | 1u << EVAL_BOX |
                   1u << EVAL_AREA | 1u << EVAL_CROWD,
    SIDE_MAX = 1 << 20 /* of an image: drawing visits each edge of a polygon once per column */
};

static kolo_status keep_ids(struct eval_truths *truths, const struct eval_ids *ids,
                            struct eval_id_list *list_out)
{
    kolo_status status = kolo_grow((void **)&truths->id, &truths->id_room, truths->ids + ids->count,
                                   sizeof *truths->id);
    if (status != KOLO_OK)
        return status;
    if (ids->count > 0)
        memcpy(truths->id + truths->ids, ids->id, ids->count * sizeof *ids->id);
    *list_out = (struct eval_id_list){.at = truths->ids, .count = ids->count};
    truths->ids += ids->count;
    return KOLO_OK;
}

static kolo_status take_image(void *context, const struct eval_record *record)
{
    struct eval_truths *truths = context;
    bool is_sized = (record->has & SIZE_FIELDS) == SIZE_FIELDS;
    if (is_sized && (record->height < 1 || record->width < 1 || record->height > SIDE_MAX ||
                     record->width > SIDE_MAX || record->height > UINT32_MAX / record->width))
        return kolo_fail(
            KOLO_ERR_DATA,
            "an image of %lld times %lld pixels; a side has 1 to %d, and all of it fewer "
            "than 2^32",
            (long long)record->width, (long long)record->height, SIDE_MAX);
    struct eval_image image = {.id = record->id,
                               .height = is_sized ? (uint32_t)record->height : 0,
                               .width = is_sized ? (uint32_t)record->width : 0};
    kolo_status status;
    KOLO_TRY(keep_ids(truths, record->absent, &image.absent));
    KOLO_TRY(keep_ids(truths, record->partial, &image.partial));
    KOLO_TRY(kolo_grow((void **)&truths->image, &truths->image_room, truths->images + 1,
                       sizeof *truths->image));
    truths->image[truths->images++] = image;
out:
    return status;
}

static kolo_status take_category(void *context, const struct eval_record *record)
{
    struct eval_truths *truths = context;
    struct eval_category category = {
        .id = record->id, .frequency = record->frequency, .points = record->point_names};
    kolo_status status = kolo_grow((void **)&truths->category, &truths->category_room,
                                   truths->categories + 1, sizeof *truths->category);
    if (status == KOLO_OK && record->has & 1u << EVAL_NAME) {
        category.name = kolo_strdup(record->name);
        status = category.name ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    }
    if (status == KOLO_OK)
        truths->category[truths->categories++] = category;
    return status;
}

static kolo_status take_truth(void *context, const struct eval_record *record)
{
    struct eval_truths *truths = context;
    kolo_status status = kolo_grow((void **)&truths->truth, &truths->truth_room, truths->truths + 1,
                                   sizeof *truths->truth);
    if (status != KOLO_OK)
        return status;
    struct eval_truth *truth = &truths->truth[truths->truths++];
    *truth = (struct eval_truth){
        .id = record->id,
        .image = record->image,
        .category = record->category,
        .point_count = record->point_count,
        .area = record->has & 1u << EVAL_AREA ? record->area : record->box[2] * record->box[3],
        .is_crowd = record->is_crowd,
        .is_ignored = record->is_ignored || record->is_difficult};
    memcpy(truth->box, record->box, sizeof truth->box);
    if (record->has & (1u << EVAL_SEGMENTATION | 1u << EVAL_KEYPOINTS))
        return eval_shapes_add(&truths->shapes, record->shape, &truth->shape);
    return KOLO_OK;
}

/* Which fields of each list are read, and which are required. */
struct fields {
    unsigned image, image_needed, category, category_needed, truth, truth_needed;
};

static struct fields fields_of(const struct eval_terms *terms)
{
    bool is_lvis = terms->rules == KOLO_DETECTION_LVIS, is_voc = terms->rules == KOLO_DETECTION_VOC;
    struct fields fields = {IMAGE_FIELDS,    IMAGE_FIELDS, CATEGORY_FIELDS | 1u << EVAL_NAME,
                            CATEGORY_FIELDS, TRUTH_FIELDS, TRUTH_FIELDS};
    if (terms->kind == KOLO_DETECTION_MASKS) {
        fields.image |= SIZE_FIELDS;
        fields.truth |= 1u << EVAL_SEGMENTATION;
        fields.truth_needed |= 1u << EVAL_SEGMENTATION;
    }
    if (terms->kind == KOLO_DETECTION_KEYPOINTS) {
        fields.category |= 1u << EVAL_POINT_NAMES;
        fields.truth |= 1u << EVAL_KEYPOINTS | 1u << EVAL_POINT_COUNT;
        fields.truth_needed |= 1u << EVAL_KEYPOINTS | 1u << EVAL_POINT_COUNT;
    }
    if (is_lvis) {
        fields.image |= LVIS_IMAGE_FIELDS;
        fields.image_needed |= terms->is_lenient ? 0u : LVIS_IMAGE_FIELDS;
        fields.category |= 1u << EVAL_FREQUENCY;
        fields.category_needed |= terms->is_lenient ? 0u : 1u << EVAL_FREQUENCY;
    }
    if (is_lvis || is_voc || terms->is_lenient) /* pycocotools overwrites it */
        fields.truth |= 1u << EVAL_IGNORE;
    if (is_lvis || is_voc) /* these have no crowds */
        fields.truth &= ~(1u << EVAL_CROWD);
    if (is_voc)
        fields.truth |= 1u << EVAL_DIFFICULT;
    if (terms->is_lenient || is_voc)
        fields.truth_needed &= ~(1u << EVAL_AREA | 1u << EVAL_CROWD);
    fields.truth_needed &= fields.truth;
    return fields;
}

static kolo_status read_lists(struct eval_truths *truths, struct eval_source *source,
                              const struct eval_terms *terms)
{
    struct eval_terms fixed = *terms;
    fixed.is_lenient = true;
    const struct fields of = fields_of(terms), least = fields_of(&fixed);
    const struct eval_list lists[] = {
        {"images", "image", of.image, of.image_needed, take_image,
         of.image_needed & ~least.image_needed},
        {"categories", "category", of.category, of.category_needed, take_category,
         of.category_needed & ~least.category_needed},
        {"annotations", "annotation", of.truth, of.truth_needed, take_truth,
         of.truth_needed & ~least.truth_needed},
        {.key = NULL},
    };
    struct eval_json json;
    kolo_status status = eval_json_open(&json, source, lists, truths);
    if (status == KOLO_OK)
        status = eval_json_read_all(&json);
    eval_json_close(&json);
    return status;
}

/* For numbers, and for structs that begin with one. */
static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The id of an entry of a list, and the position of the entry in the list, from 1 on. */
struct tag {
    int64_t id;
    size_t number;
};

static int by_tag(const void *a, const void *b)
{
    const struct tag *x = a, *y = b;
    int order = by_id(&x->id, &y->id);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* Entries are in the order of the file, and begin with their id. */
static kolo_status refuse_twins(const char *path, const char *list, const void *first, size_t count,
                                size_t bytes)
{
    kolo_status status = KOLO_OK;
    struct tag *tags = kolo_calloc(count, sizeof *tags);
    if (!tags)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        memcpy(&tags[i].id, (const char *)first + i * bytes, sizeof tags[i].id);
        tags[i].number = i + 1;
    }
    qsort(tags, count, sizeof *tags, by_tag);
    for (size_t i = 1; status == KOLO_OK && i < count; i++)
        if (tags[i].id == tags[i - 1].id)
            status =
                kolo_fail(KOLO_ERR_DATA,
                          "%s: entries %zu and %zu of \"%s\" both have the id %lld; give each "
                          "its own, or take one out",
                          path, tags[i - 1].number, tags[i].number, list, (long long)tags[i].id);
    kolo_free_memory(tags);
    return status;
}

static kolo_status find_twins(const struct eval_truths *truths, const char *path)
{
    kolo_status status;
    KOLO_TRY(refuse_twins(path, "images", truths->image, truths->images, sizeof *truths->image));
    KOLO_TRY(refuse_twins(path, "categories", truths->category, truths->categories,
                          sizeof *truths->category));
    KOLO_TRY(
        refuse_twins(path, "annotations", truths->truth, truths->truths, sizeof *truths->truth));
out:
    return status;
}

/* In the order that find() needs. */
static void sort(void *first, size_t count, size_t bytes)
{
    if (count > 0)
        qsort(first, count, bytes, by_id);
}

static kolo_status drop_unknown(struct eval_truths *truths, const char *path, bool skip_unknown)
{
    size_t kept = 0;
    for (size_t i = 0; i < truths->truths; i++) {
        const struct eval_truth *truth = &truths->truth[i];
        bool no_image = eval_image_find(truths, truth->image) < 0;
        bool no_category = eval_category_find(truths, truth->category) < 0;
        if (!no_image && !no_category)
            truths->truth[kept++] = *truth;
        else if (!skip_unknown)
            return kolo_fail(KOLO_ERR_DATA,
                             "%s: annotation %lld is of %s %lld, which the file does not list; "
                             "--skip-unknown leaves such ones out",
                             path, (long long)truth->id, no_image ? "image" : "category",
                             (long long)(no_image ? truth->image : truth->category));
    }
    truths->truths = kept;
    return KOLO_OK;
}

kolo_status eval_truths_read(struct eval_truths *truths, const char *path,
                             const struct eval_terms *terms)
{
    struct eval_source source;
    *truths = (struct eval_truths){.images = 0};
    kolo_status status = eval_source_open(&source, path, terms->is_compared);
    if (status == KOLO_OK)
        status = eval_source_judge(&source, read_lists(truths, &source, terms));
    truths->bytes = source.before;
    truths->sum = source.sum;
    eval_source_close(&source);
    if (status != KOLO_OK)
        return status;
    if (truths->categories == 0)
        return kolo_fail(KOLO_ERR_DATA, "%s: it lists no category", path);
    status = find_twins(truths, path);
    if (status != KOLO_OK)
        return status;
    sort(truths->image, truths->images, sizeof *truths->image);
    sort(truths->category, truths->categories, sizeof *truths->category);
    return drop_unknown(truths, path, terms->skip_unknown);
}

void eval_truths_free(struct eval_truths *truths)
{
    for (size_t i = 0; i < truths->categories; i++)
        kolo_free_memory(truths->category[i].name);
    kolo_free_memory(truths->image);
    kolo_free_memory(truths->category);
    kolo_free_memory(truths->truth);
    kolo_free_memory(truths->id);
    eval_shapes_free(&truths->shapes);
    *truths = (struct eval_truths){.images = 0};
}

/* bsearch() by the id that an element begins with. */
static int64_t find(const void *first, size_t count, size_t bytes, int64_t id)
{
    const char *found = count > 0 ? bsearch(&id, first, count, bytes, by_id) : NULL;
    return found ? (found - (const char *)first) / (int64_t)bytes : -1;
}

int64_t eval_image_find(const struct eval_truths *truths, int64_t id)
{
    return find(truths->image, truths->images, sizeof *truths->image, id);
}

int64_t eval_category_find(const struct eval_truths *truths, int64_t id)
{
    return find(truths->category, truths->categories, sizeof *truths->category, id);
}
