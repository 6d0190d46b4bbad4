// SPDX-License-Identifier: Apache-2.0
// Reads a list of results, see detections.h. In general every rank scans the whole file, but only
// to see where one detection ends and the next begins, which needs only brackets and quotes; it
// parses as JSON only what begins in its own blocks. So the division does not need the file's size,
// works for gzip, and is right whatever strings contain. The rank that parses a block finds what is
// not JSON.
//
// If all ranks have one plain file, each scans only its own part. The beginning of the first
// detection after the part's border is a guess. It is proved by the rank before, which started from
// the beginning of the file by the same proof and ends at the first detection after its part. If a
// guess is wrong (a string, or a list in a detection, looked like one), or something fails, all
// read the file in the general way: no result and no error ever depends on a border.
#include "evaluate/detections.h"

#include <endian.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "evaluate/agree.h"
#include "evaluate/json.h"

enum {
    BLOCK_BYTES = 1 << 12,
    OBJECT_BYTES_MAX = 64 << 20,
    /* bytes before a part that are searched for the comma before its first detection */
    LOOK_BACK = 256
};

/* BEYOND: before a detection of the next part */
enum place { BEFORE, HEAD, FIRST, AFTER_COMMA, AFTER_OBJECT, INSIDE, TAIL, BEHIND, BEYOND };

struct walk {
    enum place place;
    size_t depth; /* INSIDE: brackets that are open */
    bool in_string, is_escaped;
    bool is_mine;
    uint64_t begin; /* of the object, in the file */
};

struct reading {
    struct eval_detections *detections;
    const struct eval_truths *truths;
    struct eval_source source;
    struct eval_list lists[2];
    struct eval_json json;
    struct eval_json head; /* what is around the list, if the list is a value of an object */
    struct walk walk;
    int64_t last_id, last_image; /* detections of an image are usually adjacent */
    const struct eval_division *division;
    uint64_t end; /* what begins from here on is of the next part; or EVAL_NO_PLACE */
};

static kolo_status take_detection(void *context, const struct eval_record *record)
{
    struct reading *reading = context;
    struct eval_detections *detections = reading->detections;
    bool has_box = record->has & 1u << EVAL_BOX;
    if (detections->all == 0)
        detections->first_has_box = has_box;
    if (record->image != reading->last_id) {
        reading->last_image = eval_image_find(reading->truths, record->image);
        reading->last_id = record->image;
    }
    if (reading->last_image < 0)
        return kolo_fail(KOLO_ERR_DATA,
                         "the detection is of image %lld, which the ground truth does "
                         "not list: are these the results of another data set?",
                         (long long)record->image);
    int64_t category = eval_category_find(reading->truths, record->category);
    if (category < 0 && reading->division->skip_unknown)
        return KOLO_OK;
    if (category < 0)
        return kolo_fail(KOLO_ERR_DATA,
                         "the detection is of category %lld, which the ground truth does not list; "
                         "--skip-unknown leaves such ones out",
                         (long long)record->category);
    kolo_status status = kolo_grow((void **)&detections->detection, &detections->room,
                                   detections->count + 1, sizeof *detections->detection);
    if (status != KOLO_OK)
        return status;
    struct eval_detection *detection = &detections->detection[detections->count++];
    *detection = (struct eval_detection){
        .image = (uint32_t)reading->last_image,
        .category = (uint32_t)category,
        .number = detections->all,
        .box = {record->box[0], record->box[1], record->box[2], record->box[3]},
        .score = record->score,
        .has_box = has_box};
    if (record->has & (1u << EVAL_SEGMENTATION | 1u << EVAL_KEYPOINTS))
        return eval_shapes_add(&detections->shapes, record->shape, &detection->shape);
    return KOLO_OK;
}

enum { PLAIN, ESCAPE, QUOTE, OPENING, CLOSING };
static const unsigned char kinds[256] = {['"'] = QUOTE,   ['\\'] = ESCAPE, ['{'] = OPENING,
                                         ['['] = OPENING, ['}'] = CLOSING, [']'] = CLOSING};

typedef unsigned char vector __attribute__((vector_size(16)));

/* Number of bytes, in the order of memory, before the first that is not 0. */
static size_t bytes_before(uint64_t word)
{
    return (size_t)__builtin_ctzll(le64toh(word)) / 8;
}

/* @return the position of the first byte from @p at on whose kind is not PLAIN, or @p to, or a
 * position somewhat before: the caller handles what is less than a vector. Most bytes belong to
 * numbers and strings. `| 32` turns brackets and the backslash between them into '{' to '}', and no
 * quote into one of these. */
static size_t skip_plain(const unsigned char *data, size_t at, size_t to)
{
    vector found;
    uint64_t half[2];
    for (; to - at >= sizeof found; at += sizeof found) {
        memcpy(&found, data + at, sizeof found);
        found = (vector)((found | 32) - '{' <= '}' - '{') | (vector)(found == '"');
        memcpy(half, &found, sizeof half);
        if (half[0] | half[1])
            return at + (half[0] ? bytes_before(half[0]) : 8 + bytes_before(half[1]));
    }
    return at;
}

/* Scans inside an object. @return the position after its end, or @p to. */
static size_t go_through(struct walk *walk, const unsigned char *data, size_t at, size_t to)
{
    if (walk->is_escaped && at < to) {
        walk->is_escaped = false;
        at++;
    }
    while (at < to && walk->depth > 0) {
        unsigned char kind = kinds[data[at++]];
        if (kind == PLAIN)
            at = skip_plain(data, at, to);
        else if (kind == QUOTE)
            walk->in_string = !walk->in_string;
        else if (kind == ESCAPE && walk->in_string && at < to)
            at++;
        else if (kind == ESCAPE)
            walk->is_escaped = walk->in_string;
        else if (!walk->in_string)
            walk->depth += kind == OPENING ? 1 : (size_t)-1;
    }
    return at;
}

static bool is_blank(unsigned char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Parses bytes of the object around the list, without what is in the list. */
static kolo_status read_head(struct reading *reading, size_t from, size_t to)
{
    struct walk *walk = &reading->walk;
    kolo_status status = eval_json_read(&reading->head, from, to);
    if (status == KOLO_OK && walk->place == HEAD && reading->head.list && reading->head.depth == 2)
        walk->place = FIRST;
    return status;
}

/* Parses what is around the list from byte *at on, up to the next bracket or the end of a string.
 * So it stops where the list begins, and passes a string to the parser as a whole: the parser
 * begins again with a string that it gets in parts, once for each part. */
static kolo_status read_around(struct reading *reading, size_t *at)
{
    struct walk *walk = &reading->walk;
    const unsigned char *data = reading->source.data;
    size_t from = *at, to = *at;
    bool is_over = false;
    while (to < reading->source.bytes && !is_over) {
        unsigned char kind = kinds[data[to++]];
        bool was_escaped = walk->is_escaped;
        walk->is_escaped = walk->in_string && !was_escaped && kind == ESCAPE;
        if (kind == QUOTE && !was_escaped)
            walk->in_string = !walk->in_string;
        is_over = !walk->in_string && kind != PLAIN;
    }
    *at = to;
    return read_head(reading, from, to);
}

static bool is_wrapped(const struct reading *reading)
{
    return reading->head.heard > 0;
}

/* Handles the end of the list. */
static kolo_status end_list(struct reading *reading, size_t at)
{
    reading->walk.place = is_wrapped(reading) ? TAIL : BEHIND;
    return is_wrapped(reading) ? read_head(reading, at, at + 1) : KOLO_OK;
}

static kolo_status refuse_begin(const struct reading *reading, size_t at)
{
    return eval_source_fail(
        &reading->source, at,
        "a list of results is expected, as [{\"image_id\": 1, ...}, ...], or an "
        "object with such a list as its \"annotations\"");
}

/* Handles a byte outside of the objects that is not a blank. */
static kolo_status step(struct reading *reading, unsigned char byte, size_t at)
{
    struct walk *walk = &reading->walk;
    const struct eval_source *source = &reading->source;
    switch (walk->place) {
    case BEFORE:
        walk->place = byte == '{' ? HEAD : FIRST;
        return byte == '{'   ? read_head(reading, at, at + 1)
               : byte == '[' ? KOLO_OK
                             : refuse_begin(reading, at);
    case FIRST:
    case AFTER_COMMA:
        if (byte == ']' && walk->place == FIRST)
            return end_list(reading, at);
        if (byte != '{')
            return eval_source_fail(source, at, "a detection is expected, as {\"image_id\": ...}");
        walk->begin = source->before + at;
        if (walk->begin >= reading->end) {
            walk->place = BEYOND;
            return KOLO_OK;
        }
        walk->is_mine = walk->begin / BLOCK_BYTES % (unsigned)reading->division->ranks ==
                        (unsigned)reading->division->rank;
        walk->depth = 1;
        walk->place = INSIDE;
        return KOLO_OK;
    case AFTER_OBJECT:
        walk->place = AFTER_COMMA;
        return byte == ',' ? KOLO_OK
               : byte == ']'
                   ? end_list(reading, at)
                   : eval_source_fail(source, at, "',' or ']' is expected after a detection");
    case HEAD:
    case TAIL:
    case INSIDE:
    case BEHIND:
    case BEYOND:
        break;
    }
    return eval_source_fail(source, at, "something follows the list of results");
}

/* Handles the bytes from @p from on, up to the end of the object or of the piece. */
static kolo_status read_object(struct reading *reading, size_t from, size_t *at)
{
    struct walk *walk = &reading->walk;
    struct eval_source *source = &reading->source;
    kolo_status status = KOLO_OK;
    *at = go_through(walk, source->data, *at, source->bytes);
    if (source->before + *at - walk->begin > OBJECT_BYTES_MAX)
        return eval_source_fail(source, *at, "a detection of more than 64 MiB");
    if (walk->is_mine)
        status = eval_json_read(&reading->json, from, *at);
    if (status != KOLO_OK) {
        reading->detections->bad = source->before + from;
    } else if (walk->depth == 0) {
        walk->place = AFTER_OBJECT;
        reading->detections->all++;
    }
    return status;
}

/* Handles the piece from byte @p at on. */
static kolo_status read_piece(struct reading *reading, size_t at)
{
    struct walk *walk = &reading->walk;
    const struct eval_source *source = &reading->source;
    kolo_status status = KOLO_OK;
    while (status == KOLO_OK && at < source->bytes && walk->place != BEYOND) {
        if (walk->place == INSIDE) {
            status = read_object(reading, at, &at);
        } else if (walk->place == HEAD || walk->place == TAIL) {
            status = read_around(reading, &at);
        } else if (is_blank(source->data[at])) {
            at++;
        } else {
            size_t from = at;
            status = step(reading, source->data[at], at);
            at++;
            if (status == KOLO_OK && walk->place == INSIDE)
                status = read_object(reading, from, &at);
        }
    }
    return status;
}

static kolo_status read_list(struct reading *reading)
{
    kolo_status status;
    do {
        status = eval_source_next(&reading->source);
        if (status == KOLO_OK)
            status = read_piece(reading, 0);
    } while (status == KOLO_OK && reading->source.bytes > 0 && reading->walk.place != BEYOND);
    if (status == KOLO_OK && is_wrapped(reading))
        return eval_json_end(&reading->head);
    if (status == KOLO_OK && reading->walk.place != BEHIND && reading->walk.place != BEYOND)
        return eval_source_fail(&reading->source, 0,
                                "the file ends here, in the middle of its JSON");
    return status;
}

static kolo_status open_reading(struct reading *reading, struct eval_detections *detections,
                                const char *path, const struct eval_truths *truths,
                                const struct eval_division *division)
{
    static const unsigned of_kind[] = {[KOLO_DETECTION_BOXES] = 1u << EVAL_BOX,
                                       [KOLO_DETECTION_MASKS] = 1u << EVAL_SEGMENTATION,
                                       [KOLO_DETECTION_KEYPOINTS] = 1u << EVAL_KEYPOINTS};
    unsigned needed =
        of_kind[division->kind] | 1u << EVAL_IMAGE | 1u << EVAL_CATEGORY | 1u << EVAL_SCORE;
    static const struct eval_list around[] = {
        {.key = "annotations", .what = "detection"}, /* which it finds empty */
        {.key = NULL},
    };
    *reading = (struct reading){.detections = detections,
                                .truths = truths,
                                .last_image = -1,
                                .division = division,
                                .end = EVAL_NO_PLACE};
    reading->lists[0] =
        (struct eval_list){NULL, "detection", needed | 1u << EVAL_BOX, needed, take_detection, 0};
    *detections = (struct eval_detections){.bad = EVAL_NO_PLACE};
    reading->last_image = eval_image_find(truths, reading->last_id);
    kolo_status status;
    KOLO_TRY(eval_source_open(&reading->source, path, division->ranks > 1));
    KOLO_TRY(eval_json_open(&reading->json, &reading->source, reading->lists, reading));
    KOLO_TRY(eval_json_open(&reading->head, &reading->source, around, reading));
out:
    return status;
}

static void close_reading(struct reading *reading)
{
    eval_json_close(&reading->json);
    eval_json_close(&reading->head);
    eval_source_close(&reading->source);
}

kolo_status eval_detections_read(struct eval_detections *detections, const char *path,
                                 const struct eval_truths *truths,
                                 const struct eval_division *division)
{
    struct reading reading;
    kolo_status status = open_reading(&reading, detections, path, truths, division);
    if (status == KOLO_OK)
        status = eval_source_judge(&reading.source, read_list(&reading));
    detections->bytes = reading.source.before;
    detections->sum = reading.source.sum;
    close_reading(&reading);
    return status;
}

/* ---- parts ---- */

/* Searches for what looks like a detection after the border: an object after a comma after an
 * object. */
static kolo_status find_first(struct reading *reading, uint64_t border, size_t *at_out)
{
    const struct eval_source *source = &reading->source;
    enum { OTHER, CLOSED, COMMA } last = OTHER;
    kolo_status status;
    KOLO_TRY(eval_source_skip(&reading->source, border > LOOK_BACK ? border - LOOK_BACK : 0));
    do {
        KOLO_TRY(eval_source_next(&reading->source));
        for (size_t at = 0; at < source->bytes; at++) {
            unsigned char byte = source->data[at];
            if (byte == '{' && last == COMMA && source->before + at >= border) {
                *at_out = at;
                reading->walk.place = AFTER_COMMA;
                return KOLO_OK;
            }
            if (!is_blank(byte))
                last = byte == '}' ? CLOSED : byte == ',' && last == CLOSED ? COMMA : OTHER;
        }
    } while (source->bytes > 0 && source->before < reading->end);
    return kolo_fail(KOLO_ERR_DATA, "%s: no detection begins behind byte %llu", source->path,
                     (unsigned long long)border);
out:
    return status;
}

static kolo_status read_part(struct reading *reading, struct eval_part *part)
{
    const struct walk *walk = &reading->walk;
    size_t at = 0;
    kolo_status status;
    reading->end = part->to;
    if (part->from == 0) {
        KOLO_TRY(eval_source_skip(&reading->source, 0));
        KOLO_TRY(eval_source_next(&reading->source));
    } else {
        KOLO_TRY(find_first(reading, part->from, &at));
    }
    part->first = reading->source.before + at;
    KOLO_TRY(read_piece(reading, at));
    if (walk->place != BEYOND)
        KOLO_TRY(read_list(reading));
    part->next = walk->place == BEYOND ? walk->begin : EVAL_NO_PLACE;
    part->count = reading->detections->all;
out:
    return status;
}

kolo_status eval_detections_read_part(struct eval_detections *detections, const char *path,
                                      const struct eval_truths *truths,
                                      const struct eval_division *division, struct eval_part *part)
{
    const struct eval_division all = {
        .kind = division->kind, .skip_unknown = division->skip_unknown, .ranks = 1};
    struct reading reading;
    kolo_status status = open_reading(&reading, detections, path, truths, &all);
    if (status == KOLO_OK)
        status = read_part(&reading, part);
    close_reading(&reading);
    detections->first_has_box = detections->first_has_box && part->from == 0;
    return status;
}

bool eval_parts_fit(const struct eval_part *part, size_t parts)
{
    for (size_t i = 1; i < parts; i++)
        if (part[i].first != part[i - 1].next)
            return false;
    return part[parts - 1].next == EVAL_NO_PLACE;
}

/* What a rank tells the others before parts are read, and then about its own part. */
struct notice {
    struct eval_identity file;
    struct eval_part part;
    int64_t is_well;
};
enum { NOTICE_WORDS = sizeof(struct notice) / sizeof(int64_t) };

/* Whether all ranks have the same file, and it is large enough to be read in parts. */
static bool is_one_file(const struct notice *notice, size_t ranks)
{
    for (size_t r = 0; r < ranks; r++)
        if (!notice[r].is_well ||
            memcmp(&notice[r].file, &notice[0].file, sizeof notice[r].file) != 0)
            return false;
    return notice[0].file.bytes / (int64_t)ranks >= BLOCK_BYTES;
}

static bool fit(struct eval_part *parts, const struct notice *notice, size_t ranks)
{
    for (size_t r = 0; r < ranks; r++)
        parts[r] = notice[r].part;
    return is_one_file(notice, ranks) && eval_parts_fit(parts, ranks);
}

static kolo_status read_parts(struct eval_detections *detections, const char *path,
                              const struct eval_truths *truths,
                              const struct eval_division *division, struct kolo_comm *comm,
                              struct notice *notices, struct eval_part *parts, bool *done_out)
{
    size_t ranks = (size_t)division->ranks, rank = (size_t)division->rank;
    struct notice mine = {.file = eval_source_identify(path, '['), .is_well = 1};
    kolo_status status;
    KOLO_TRY(eval_called(
        comm, kolo_allgather(comm, &mine, notices, NOTICE_WORDS, KOLO_INT64, NULL, NULL)));
    if (!is_one_file(notices, ranks))
        return KOLO_OK;
    uint64_t bytes = (uint64_t)mine.file.bytes / ranks;
    mine.part = (struct eval_part){.from = rank * bytes,
                                   .to = rank + 1 < ranks ? (rank + 1) * bytes : EVAL_NO_PLACE};
    status = eval_detections_read_part(detections, path, truths, division, &mine.part);
    mine.is_well = status == KOLO_OK;
    mine.file = eval_source_identify(path, '['); /* unchanged? */
    bool is_same = memcmp(&mine.file, &notices[rank].file, sizeof mine.file) == 0;
    mine.is_well = mine.is_well && is_same;
    KOLO_TRY(eval_called(
        comm, kolo_allgather(comm, &mine, notices, NOTICE_WORDS, KOLO_INT64, NULL, NULL)));
    *done_out = fit(parts, notices, ranks);
    uint64_t before = 0, all = 0;
    for (size_t r = 0; r < ranks; r++) {
        before += r < rank ? parts[r].count : 0;
        all += parts[r].count;
    }
    for (size_t i = 0; *done_out && i < detections->count; i++)
        detections->detection[i].number += before;
    detections->all = all;
    detections->bytes = (uint64_t)mine.file.bytes;
    if (*done_out)
        KOLO_DEBUG("%s: %zu detections from byte %llu on are this rank's part", path,
                   detections->count, (unsigned long long)mine.part.first);
out:
    return status;
}

kolo_status eval_detections_read_together(struct eval_detections *detections, const char *path,
                                          const struct eval_truths *truths,
                                          const struct eval_division *division,
                                          struct kolo_comm *comm)
{
    size_t ranks = (size_t)division->ranks;
    struct notice *notices = kolo_calloc(ranks, sizeof *notices);
    struct eval_part *parts = kolo_calloc(ranks, sizeof *parts);
    bool done = false;
    kolo_status status;
    KOLO_TRY(eval_agree(comm, notices && parts ? KOLO_OK : KOLO_ERR_NO_MEMORY, EVAL_NO_PLACE));
    if (ranks > 1)
        KOLO_TRY(read_parts(detections, path, truths, division, comm, notices, parts, &done));
    if (!done) {
        eval_detections_free(detections);
        status = eval_detections_read(detections, path, truths, division);
        KOLO_TRY(eval_agree(comm, status, detections->bad));
        KOLO_TRY(eval_agree_file(comm, path, detections->bytes, detections->sum));
    }
out:
    kolo_free_memory(notices);
    kolo_free_memory(parts);
    return status;
}

void eval_detections_free(struct eval_detections *detections)
{
    kolo_free_memory(detections->detection);
    detections->detection = NULL;
    detections->count = detections->room = 0;
    eval_shapes_free(&detections->shapes);
}
