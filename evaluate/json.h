// SPDX-License-Identifier: Apache-2.0
// From JSON text to records: the objects of COCO's lists, of which a few fields are needed. Streams
// through yajl; everything else is only checked to be JSON.
#ifndef KOLO_EVALUATE_JSON_H
#define KOLO_EVALUATE_JSON_H

#include <stdbool.h>
#include <yajl/yajl_parse.h>

#include "evaluate/memory.h"
#include "evaluate/shape.h"
#include "evaluate/source.h"

enum eval_field {
    EVAL_ID,
    EVAL_IMAGE,
    EVAL_CATEGORY,
    EVAL_BOX,
    EVAL_AREA,
    EVAL_CROWD,
    EVAL_IGNORE,
    EVAL_SCORE,
    EVAL_NAME,
    EVAL_SEGMENTATION,
    EVAL_KEYPOINTS,
    EVAL_POINT_COUNT,
    EVAL_HEIGHT,
    EVAL_WIDTH,
    EVAL_DIFFICULT,
    EVAL_FREQUENCY,
    EVAL_POINT_NAMES, /* keypoints of a category */
    EVAL_ABSENT,      /* LVIS: neg_category_ids */
    EVAL_PARTIAL,     /* not_exhaustive_category_ids */
    EVAL_FIELDS
};

enum { EVAL_NAME_MAX = 256, EVAL_DEPTH_MAX = 64 };

/** A list of ids; its memory is reused for the next. */
struct eval_ids {
    int64_t *id;
    size_t count, room;
};

struct eval_record {
    unsigned has; /* bits: fields that were present */
    int64_t id, image, category, point_count, height, width;
    double box[4], area, score; /* finite */
    bool is_crowd, is_ignored, is_difficult;
    int64_t frequency; /* LVIS: 1 r, 2 c, 3 f */
    size_t point_names;
    const struct eval_ids *absent, *partial;
    char name[EVAL_NAME_MAX];
    const struct eval_shape *shape; /* the segmentation or the keypoints, whichever was wanted */
};

/** A list of records. */
struct eval_list {
    const char *key;         /* key in the top object; NULL: records without a list */
    const char *what;        /* what an element is called: "annotation" */
    unsigned wanted, needed; /* bits: fields */
    /** @return KOLO_OK, or a failure whose detail says what is wrong. */
    kolo_status (*take)(void *context, const struct eval_record *record);
    unsigned spared; /* of `needed`, those that --mode fixed can do without */
};

/** The lists to read: either those of a top object, each once (the text is the whole file), or a
 * single one with key NULL, whose records follow each other (the text is their objects). Must stay
 * where it is. After a failure it may only be closed. */
struct eval_json {
    yajl_handle parser;
    struct eval_memory memory; /* the parser's */
    struct eval_source *source;
    const struct eval_list *lists; /* ends with an entry whose `what` is NULL */
    void *context;
    const struct eval_list *list; /* the current one; NULL: none */
    unsigned seen;                /* bits: indices in lists */
    size_t outside;               /* nesting depth of a record's object: 0 or 2 */
    size_t depth;
    enum eval_field field; /* whose value comes next; EVAL_FIELDS: one that is not needed */
    size_t numbers;        /* of the box so far */
    uint64_t heard;        /* events from yajl */
    size_t quiet;          /* bytes since the last event */
    struct eval_record record;
    struct eval_shape shape;
    struct eval_ids absent, partial;
    bool lacks_memory; /* why reading stopped; the detail says more */
    char why[256];     /* otherwise */
};

kolo_status eval_json_open(struct eval_json *json, struct eval_source *source,
                           const struct eval_list *lists, void *context) KOLO_NODISCARD;
/** Reads bytes @p from to @p to of the source's piece. */
kolo_status eval_json_read(struct eval_json *json, size_t from, size_t to) KOLO_NODISCARD;
/** Reads the whole source, and checks that it was complete and had all lists. */
kolo_status eval_json_read_all(struct eval_json *json) KOLO_NODISCARD;
/** Checks that what was read was complete and had all lists. */
kolo_status eval_json_end(struct eval_json *json) KOLO_NODISCARD;
void eval_json_close(struct eval_json *json);

#endif
