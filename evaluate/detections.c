// SPDX-License-Identifier: Apache-2.0
// Reads a list of results, see detections.h. Every rank walks through the whole file, but only to see
// where one detection ends and the next begins, which takes a look at brackets and quotes; only what
// begins in blocks of its own it reads as JSON. So the division needs no size, works for gzip, and is
// right whatever strings hold. What is no JSON is found by the rank that reads it.
#include "evaluate/detections.h"

#include "base/alloc.h"
#include "evaluate/agree.h"
#include "evaluate/json.h"

enum { BLOCK_BYTES = 1 << 12, OBJECT_BYTES_MAX = 64 << 20 };

enum place { BEFORE, FIRST, AFTER_COMMA, AFTER_OBJECT, INSIDE, BEHIND };

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
    struct eval_json json;
    struct walk walk;
    int64_t last_id, last_image; /* detections of an image stand together as a rule */
    bool skip_unknown;
    int rank, ranks;
};

static kolo_status take_detection(void *context, const struct eval_record *record)
{
    struct reading *reading = context;
    struct eval_detections *detections = reading->detections;
    if (record->image != reading->last_id) {
        reading->last_image = eval_image_find(reading->truths, record->image);
        reading->last_id = record->image;
    }
    if (reading->last_image < 0)
        return kolo_fail(KOLO_ERR_DATA,
                         "the detection is of image %lld, which the ground truth does "
                         "not list",
                         (long long)record->image);
    int64_t category = eval_category_find(reading->truths, record->category);
    if (category < 0 && reading->skip_unknown)
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
    detections->detection[detections->count++] = (struct eval_detection){
        .image = (uint32_t)reading->last_image,
        .category = (uint32_t)category,
        .number = detections->all,
        .box = {record->box[0], record->box[1], record->box[2], record->box[3]},
        .score = record->score};
    return KOLO_OK;
}

enum {
    DETECTION_FIELDS = 1u << EVAL_IMAGE | 1u << EVAL_CATEGORY | 1u << EVAL_BOX | 1u << EVAL_SCORE
};
static const struct eval_list lists[] = {
    {NULL, "detection", DETECTION_FIELDS, DETECTION_FIELDS, take_detection},
    {NULL, NULL, 0, 0, NULL},
};

enum { PLAIN, ESCAPE, QUOTE, OPENING, CLOSING };
static const unsigned char kinds[256] = {['"'] = QUOTE,   ['\\'] = ESCAPE, ['{'] = OPENING,
                                         ['['] = OPENING, ['}'] = CLOSING, [']'] = CLOSING};

/* Goes on inside an object. @return behind its end, or @p to. */
static size_t go_through(struct walk *walk, const unsigned char *data, size_t at, size_t to)
{
    if (walk->is_escaped && at < to) {
        walk->is_escaped = false;
        at++;
    }
    while (at < to && walk->depth > 0) {
        unsigned char kind = kinds[data[at++]];
        if (kind == PLAIN)
            continue;
        if (kind == QUOTE)
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

/* A byte outside of the objects, which is no blank. */
static kolo_status step(struct reading *reading, unsigned char byte, size_t at)
{
    struct walk *walk = &reading->walk;
    const struct eval_source *source = &reading->source;
    switch (walk->place) {
    case BEFORE:
        walk->place = FIRST;
        return byte == '[' ? KOLO_OK
                           : eval_source_fail(source, at,
                                              "a list of results is expected, as "
                                              "[{\"image_id\": 1, ...}, ...]");
    case FIRST:
    case AFTER_COMMA:
        if (byte == ']' && walk->place == FIRST) {
            walk->place = BEHIND;
            return KOLO_OK;
        }
        if (byte != '{')
            return eval_source_fail(source, at, "a detection is expected, as {\"image_id\": ...}");
        walk->begin = source->before + at;
        walk->is_mine =
            walk->begin / BLOCK_BYTES % (unsigned)reading->ranks == (unsigned)reading->rank;
        walk->depth = 1;
        walk->place = INSIDE;
        return KOLO_OK;
    case AFTER_OBJECT:
        walk->place = byte == ',' ? AFTER_COMMA : BEHIND;
        return byte == ',' || byte == ']'
                   ? KOLO_OK
                   : eval_source_fail(source, at, "',' or ']' is expected after a detection");
    case INSIDE:
    case BEHIND:
        break;
    }
    return eval_source_fail(source, at, "something follows the list of results");
}

/* The bytes from @p from on to the end of the object or of the piece. */
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

static kolo_status read_piece(struct reading *reading)
{
    struct walk *walk = &reading->walk;
    const struct eval_source *source = &reading->source;
    kolo_status status = KOLO_OK;
    for (size_t at = 0; status == KOLO_OK && at < source->bytes;) {
        if (walk->place == INSIDE) {
            status = read_object(reading, at, &at);
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
            status = read_piece(reading);
    } while (status == KOLO_OK && reading->source.bytes > 0);
    if (status == KOLO_OK && reading->walk.place != BEHIND)
        return eval_source_fail(&reading->source, 0,
                                "the file ends here, in the middle of its JSON");
    return status;
}

kolo_status eval_detections_read(struct eval_detections *detections, const char *path,
                                 const struct eval_truths *truths, bool skip_unknown, int rank,
                                 int ranks)
{
    struct reading reading = {.detections = detections,
                              .truths = truths,
                              .last_image = -1,
                              .skip_unknown = skip_unknown,
                              .rank = rank,
                              .ranks = ranks};
    *detections = (struct eval_detections){.bad = EVAL_NO_PLACE};
    reading.last_image = eval_image_find(truths, reading.last_id);
    kolo_status status = eval_source_open(&reading.source, path);
    if (status == KOLO_OK)
        status = eval_json_open(&reading.json, &reading.source, lists, &reading);
    if (status == KOLO_OK)
        status = read_list(&reading);
    detections->bytes = reading.source.before;
    detections->sum = reading.source.sum;
    eval_json_close(&reading.json);
    eval_source_close(&reading.source);
    return status;
}

struct deal {
    size_t *give, *take; /* int64s to and from each rank */
    int64_t *counts;     /* to, then from each rank */
    struct eval_detection *sent, *got;
};

static kolo_status plan(struct deal *deal, const struct eval_detections *detections, int ranks)
{
    size_t n = (size_t)ranks;
    deal->give = kolo_calloc(n, sizeof *deal->give);
    deal->take = kolo_calloc(n, sizeof *deal->take);
    deal->counts = kolo_calloc(2 * n, sizeof *deal->counts);
    deal->sent = kolo_calloc(detections->count, sizeof *deal->sent);
    if (!deal->give || !deal->take || !deal->counts || !deal->sent)
        return KOLO_ERR_NO_MEMORY;
    size_t *next = deal->take; /* its first use: where the next one for each rank goes */
    for (size_t i = 0; i < detections->count; i++)
        deal->counts[detections->detection[i].image % n]++;
    for (size_t r = 1; r < n; r++)
        next[r] = next[r - 1] + (size_t)deal->counts[r - 1];
    for (size_t i = 0; i < detections->count; i++)
        deal->sent[next[detections->detection[i].image % n]++] = detections->detection[i];
    return KOLO_OK;
}

enum { WORDS = sizeof(struct eval_detection) / sizeof(int64_t) };

static kolo_status exchange(struct deal *deal, struct eval_detections *detections,
                            struct kolo_comm *comm)
{
    size_t n = (size_t)kolo_size(comm), count = 0;
    kolo_status status =
        kolo_alltoall(comm, deal->counts, deal->counts + n, 1, KOLO_INT64, NULL, NULL);
    if (status != KOLO_OK)
        return status;
    for (size_t r = 0; r < n; r++) {
        deal->give[r] = (size_t)deal->counts[r] * WORDS;
        deal->take[r] = (size_t)deal->counts[n + r] * WORDS;
        count += (size_t)deal->counts[n + r];
    }
    deal->got = kolo_calloc(count, sizeof *deal->got);
    status = eval_agree(comm, deal->got ? KOLO_OK : KOLO_ERR_NO_MEMORY, EVAL_NO_PLACE);
    if (status == KOLO_OK)
        status = kolo_alltoallv(comm, deal->sent, deal->give, NULL, deal->got, deal->take, NULL,
                                KOLO_INT64, NULL, NULL);
    if (status != KOLO_OK)
        return status;
    detections->detection = deal->got;
    detections->count = detections->room = count;
    deal->got = NULL;
    return KOLO_OK;
}

kolo_status eval_detections_deal(struct eval_detections *detections, struct kolo_comm *comm)
{
    struct deal deal = {.give = NULL};
    if (kolo_size(comm) == 1)
        return KOLO_OK;
    kolo_status status = eval_agree(comm, plan(&deal, detections, kolo_size(comm)), EVAL_NO_PLACE);
    if (status == KOLO_OK) {
        kolo_free_memory(detections->detection);
        detections->detection = NULL;
        detections->count = detections->room = 0;
        status = exchange(&deal, detections, comm);
    }
    kolo_free_memory(deal.give);
    kolo_free_memory(deal.take);
    kolo_free_memory(deal.counts);
    kolo_free_memory(deal.sent);
    kolo_free_memory(deal.got);
    return status;
}

void eval_detections_free(struct eval_detections *detections)
{
    kolo_free_memory(detections->detection);
    detections->detection = NULL;
}
