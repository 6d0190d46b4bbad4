// SPDX-License-Identifier: Apache-2.0
// Wraps yajl and holds the values of a record, see json.h. Trusts nothing: depth and the lengths of
// numbers and names are bounded, integers must be integers, numbers finite. Numbers get the values
// that Python's float() gives them: correctly rounded. If a key occurs twice, its last value
// counts, as in Python.
#include "evaluate/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "evaluate/number.h"
#include "tools/letters.h"

enum {
    QUIET_BYTES_MAX = 64 << 20, /* longest string, which yajl keeps in memory */
};

#define NAME(text, must_be)                                                                        \
    {                                                                                              \
        text, sizeof text - 1, must_be                                                             \
    }
static const struct name {
    const char *text;
    size_t length;
    const char *must_be;
} names[EVAL_FIELDS] = {
    NAME("id", "an integer"),
    NAME("image_id", "an integer"),
    NAME("category_id", "an integer"),
    NAME("bbox", "an array of 4 numbers"),
    NAME("area", "a number"),
    NAME("iscrowd", "0 or 1"),
    NAME("ignore", "0 or 1"),
    NAME("score", "a number"),
    NAME("name", "a string"),
    NAME("segmentation", "an array of polygons, or an object with size and counts"),
    NAME("keypoints", "an array of numbers"),
    NAME("num_keypoints", "an integer"),
    NAME("height", "an integer"),
    NAME("width", "an integer"),
    NAME("difficult", "0 or 1"),
    NAME("frequency", "\"r\", \"c\" or \"f\""),
    NAME("keypoints", "an array of names"),
    NAME("neg_category_ids", "an array of ids"),
    NAME("not_exhaustive_category_ids", "an array of ids")};

static int stop(struct eval_json *json, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int stop(struct eval_json *json, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(json->why, sizeof json->why, format, args);
    va_end(args);
    return 0;
}

/* That memory is missing is no fault of the text, and what the detail says of it has no place
 * there. */
static int stop_without_memory(struct eval_json *json)
{
    json->lacks_memory = true;
    return 0;
}

static bool in_record(const struct eval_json *json)
{
    return json->list && json->depth == json->outside + 1;
}

static bool in_box(const struct eval_json *json)
{
    return json->list && json->depth == json->outside + 2 && json->field == EVAL_BOX;
}

/* The list of ids whose numbers come next; NULL: none. */
static struct eval_ids *ids_of(struct eval_json *json)
{
    return json->field == EVAL_ABSENT    ? &json->absent
           : json->field == EVAL_PARTIAL ? &json->partial
                                         : NULL;
}

static bool is_row(const struct eval_json *json)
{
    return json->field == EVAL_POINT_NAMES || json->field == EVAL_ABSENT ||
           json->field == EVAL_PARTIAL;
}

/* Inside a list of ids or of names. */
static bool in_row(const struct eval_json *json)
{
    return json->list && json->depth == json->outside + 2 && is_row(json);
}

/* How many arrays and objects of a shape are open. */
static size_t inside(const struct eval_json *json)
{
    return json->depth - json->outside - 1;
}

static bool is_shape(const struct eval_json *json)
{
    return json->field == EVAL_SEGMENTATION || json->field == EVAL_KEYPOINTS;
}

static bool in_shape(const struct eval_json *json)
{
    return json->list && json->depth > json->outside + 1 && is_shape(json);
}

static int judge(struct eval_json *json, const char *words)
{
    if (words == eval_shape_no_memory)
        return stop_without_memory(json);
    return words ? stop(json, "the %s of this %s: %s", names[json->field].text, json->list->what,
                        words)
                 : 1;
}

/* Refuses a value in a list that may contain only objects, or of a kind that its field does not
 * allow. A name is only printed: what is no string is no name. */
static int refuse_value(struct eval_json *json, const char *kind)
{
    if (json->list && json->depth == json->outside)
        return stop(json, "%s where the object of %s %s is expected", kind,
                    strchr("aeiou", json->list->what[0]) ? "an" : "a", json->list->what);
    if (json->outside && json->depth == 1 && json->list)
        return stop(json, "\"%s\" is %s; it must be an array", json->list->key, kind);
    if (json->outside && json->depth == 0)
        return stop(json,
                    "the file is %s; an object with \"annotations\" is expected: the ground truth "
                    "comes first, the results second",
                    kind);
    if (in_box(json))
        return stop(json, "%s in a bbox; it has 4 numbers", kind);
    if (in_row(json))
        return stop(json, "%s in the %s of this %s; it has %s", kind, names[json->field].text,
                    json->list->what, ids_of(json) ? "ids" : "names");
    if (in_record(json) && json->field == EVAL_NAME) {
        json->record.has &= ~(1u << EVAL_NAME);
        json->field = EVAL_FIELDS;
    }
    if (in_record(json) && json->field != EVAL_FIELDS)
        return stop(json, "the %s of this %s is %s; it must be %s", names[json->field].text,
                    json->list->what, kind, names[json->field].must_be);
    return 1;
}

static int read_number(struct eval_json *json, const char *text, size_t length, double *value_out)
{
    if (!eval_number_read(text, length, value_out))
        return stop(json, "a number of %zu characters", length);
    if (!isfinite(*value_out))
        return stop(json, "%.*s is too large: it would be infinite", length < 40 ? (int)length : 40,
                    text);
    return 1;
}

/* Python accepts 3.0 as 3; so do we, if it is exact. */
static int read_integer(struct eval_json *json, const char *text, size_t length, int64_t *value_out)
{
    const double limit = 9007199254740992; /* 2^53 */
    double value;
    if (eval_number_read_whole(text, length, value_out))
        return 1;
    if (!read_number(json, text, length, &value))
        return 0;
    if (!(value > -limit && value < limit) || value != floor(value))
        return stop(json, "the %s of this %s is %.*s; it must be an integer of 64 bits",
                    names[json->field].text, json->list->what, length < 40 ? (int)length : 40,
                    text);
    *value_out = (int64_t)value;
    return 1;
}

static int take_box(struct eval_json *json, const char *text, size_t length)
{
    struct eval_record *record = &json->record;
    if (json->numbers == 4)
        return stop(json, "a bbox of more than 4 numbers");
    double *value = &record->box[json->numbers++];
    if (!read_number(json, text, length, value))
        return 0;
    if (json->numbers > 2 && *value < 0)
        return stop(json, "the %s of a bbox is %g", json->numbers == 3 ? "width" : "height",
                    *value);
    const double *box = record->box;
    bool is_whole = json->numbers == 4;
    if (is_whole &&
        !(isfinite(box[0] + box[2]) && isfinite(box[1] + box[3]) && isfinite(box[2] * box[3])))
        return stop(json, "a bbox of %g by %g at %g, %g is too large", box[2], box[3], box[0],
                    box[1]);
    return 1;
}

static int take_id(struct eval_json *json, const char *text, size_t length)
{
    struct eval_ids *ids = ids_of(json);
    if (!ids)
        return refuse_value(json, "a number");
    if (kolo_grow((void **)&ids->id, &ids->room, ids->count + 1, sizeof *ids->id) != KOLO_OK)
        return stop_without_memory(json);
    return read_integer(json, text, length, &ids->id[ids->count++]);
}

static int take_value(struct eval_json *json, const char *text, size_t length)
{
    struct eval_record *record = &json->record;
    int64_t flag = 0;
    int goes_on = 1;
    switch (json->field) {
    case EVAL_ID:
        goes_on = read_integer(json, text, length, &record->id);
        break;
    case EVAL_IMAGE:
        goes_on = read_integer(json, text, length, &record->image);
        break;
    case EVAL_CATEGORY:
        goes_on = read_integer(json, text, length, &record->category);
        break;
    case EVAL_CROWD:
        goes_on = read_integer(json, text, length, &flag);
        record->is_crowd = flag != 0;
        break;
    case EVAL_IGNORE:
        goes_on = read_integer(json, text, length, &flag);
        record->is_ignored = flag != 0;
        break;
    case EVAL_DIFFICULT:
        goes_on = read_integer(json, text, length, &flag);
        record->is_difficult = flag != 0;
        break;
    case EVAL_POINT_COUNT:
        goes_on = read_integer(json, text, length, &record->point_count);
        break;
    case EVAL_HEIGHT:
        goes_on = read_integer(json, text, length, &record->height);
        break;
    case EVAL_WIDTH:
        goes_on = read_integer(json, text, length, &record->width);
        break;
    case EVAL_AREA:
        goes_on = read_number(json, text, length, &record->area);
        break;
    case EVAL_SCORE:
        goes_on = read_number(json, text, length, &record->score);
        break;
    case EVAL_BOX:
    case EVAL_NAME:
    case EVAL_SEGMENTATION:
    case EVAL_KEYPOINTS:
    case EVAL_FREQUENCY:
    case EVAL_POINT_NAMES:
    case EVAL_ABSENT:
    case EVAL_PARTIAL:
        return refuse_value(json, "a number");
    case EVAL_FIELDS:
        return 1;
    }
    record->has |= 1u << json->field;
    return goes_on;
}

static int on_number(void *context, const char *text, size_t length)
{
    struct eval_json *json = context;
    json->heard++;
    if (in_shape(json))
        return judge(json, eval_shape_number(&json->shape, inside(json), text, length));
    if (in_box(json))
        return take_box(json, text, length);
    if (in_row(json))
        return take_id(json, text, length);
    if (in_record(json))
        return take_value(json, text, length);
    return refuse_value(json, "a number");
}

static int on_null(void *context)
{
    struct eval_json *json = context;
    json->heard++;
    if (in_shape(json))
        return judge(json, eval_shape_word(&json->shape, inside(json)));
    return refuse_value(json, "null");
}

static int on_boolean(void *context, int value)
{
    struct eval_json *json = context;
    json->heard++;
    if (in_record(json) &&
        (json->field == EVAL_CROWD || json->field == EVAL_IGNORE || json->field == EVAL_DIFFICULT))
        return take_value(json, value ? "1" : "0", 1);
    if (in_shape(json))
        return judge(json, eval_shape_word(&json->shape, inside(json)));
    return refuse_value(json, value ? "true" : "false");
}

static int take_frequency(struct eval_json *json, const char *text, size_t length)
{
    static const char groups[] = "rcf";
    const char *group = length == 1 ? memchr(groups, text[0], sizeof groups - 1) : NULL;
    if (!group)
        return stop(json, "the frequency of this %s is not r, c or f", json->list->what);
    json->record.frequency = 1 + (group - groups);
    json->record.has |= 1u << EVAL_FREQUENCY;
    return 1;
}

/** Of a name that is too long its beginning is kept, up to the end of a letter. */
static size_t length_of_name(const unsigned char *text, size_t length)
{
    if (length < EVAL_NAME_MAX)
        return length;
    length = EVAL_NAME_MAX - 1;
    while (length > 0 && (text[length] & 0xc0) == 0x80)
        length--;
    return length;
}

static int on_string(void *context, const unsigned char *text, size_t length)
{
    struct eval_json *json = context;
    json->heard++;
    if (in_shape(json))
        return judge(json,
                     eval_shape_string(&json->shape, inside(json), (const char *)text, length));
    if (in_row(json) && json->field == EVAL_POINT_NAMES)
        return ++json->record.point_names > 0;
    if (in_record(json) && json->field == EVAL_FREQUENCY)
        return take_frequency(json, (const char *)text, length);
    if (!in_record(json) || json->field != EVAL_NAME)
        return refuse_value(json, "a string");
    length = length_of_name(text, length);
    memcpy(json->record.name, text, length);
    json->record.name[length] = '\0';
    letters_repair(json->record.name, length); /* yajl accepts some invalid UTF-8 */
    json->record.has |= 1u << EVAL_NAME;
    return 1;
}

static int choose_list(struct eval_json *json, const char *key, size_t length)
{
    json->list = NULL;
    for (size_t i = 0; json->lists[i].what; i++) {
        if (strlen(json->lists[i].key) != length || memcmp(json->lists[i].key, key, length) != 0)
            continue;
        if (json->seen & 1u << i)
            return stop(json, "\"%s\" is there twice", json->lists[i].key);
        json->seen |= 1u << i;
        json->list = &json->lists[i];
    }
    return 1;
}

static int on_key(void *context, const unsigned char *key, size_t length)
{
    struct eval_json *json = context;
    json->heard++;
    if (json->outside && json->depth == 1)
        return choose_list(json, (const char *)key, length);
    if (in_shape(json))
        return judge(json, eval_shape_key(&json->shape, inside(json), (const char *)key, length));
    if (!in_record(json))
        return 1;
    json->field = EVAL_FIELDS;
    for (unsigned left = json->list->wanted; left; left &= left - 1) {
        int f = __builtin_ctz(left);
        if (names[f].length == length && memcmp(names[f].text, key, length) == 0)
            json->field = (enum eval_field)f;
    }
    return 1;
}

static int go_in(struct eval_json *json)
{
    if (json->depth == EVAL_DEPTH_MAX)
        return stop(json, "arrays and objects more than %d deep", EVAL_DEPTH_MAX);
    json->depth++;
    json->heard++;
    return 1;
}

/* The beginning of a shape, or of a part of it. */
static int open_shape(struct eval_json *json, bool is_object)
{
    bool is_points = json->field == EVAL_KEYPOINTS;
    const char *words = inside(json) == 0 ? eval_shape_begin(&json->shape, is_points, is_object)
                                          : eval_shape_open(&json->shape, inside(json), is_object);
    return judge(json, words) && go_in(json);
}

static int close_shape(struct eval_json *json)
{
    json->depth--;
    if (inside(json) == 0)
        json->record.has |= 1u << json->field;
    return judge(json, eval_shape_close(&json->shape, inside(json)));
}

static int on_object(void *context)
{
    struct eval_json *json = context;
    bool is_top = json->outside && json->depth == 0;
    bool is_record = json->list && json->depth == json->outside;
    if (is_record) {
        json->absent.count = json->partial.count = 0;
        json->record = (struct eval_record){
            .shape = &json->shape, .absent = &json->absent, .partial = &json->partial};
        json->field = EVAL_FIELDS;
    } else if (in_shape(json) || (in_record(json) && is_shape(json))) {
        return open_shape(json, true);
    } else if (!is_top && !refuse_value(json, "an object")) {
        return 0;
    }
    return go_in(json);
}

/* Refuses a record without a field that it needs. */
static int stop_without(struct eval_json *json, enum eval_field field)
{
    static const char *const types[EVAL_FIELDS] = {
        [EVAL_BOX] = ", which --iou-type bbox (the default) needs",
        [EVAL_SEGMENTATION] = ", which --iou-type segm needs",
        [EVAL_KEYPOINTS] = ", which --iou-type keypoints needs"};
    const struct eval_list *list = json->list;
    const char *why = list->spared & 1u << field   ? ", which only --mode fixed can do without"
                      : !list->key && types[field] ? types[field]
                                                   : "";
    return stop(json, "this %s has no %s%s", list->what, names[field].text, why);
}

static int on_object_end(void *context)
{
    struct eval_json *json = context;
    bool is_record = in_record(json);
    if (in_shape(json))
        return close_shape(json);
    json->depth--;
    if (!is_record)
        return 1;
    unsigned missing = json->list->needed & ~json->record.has;
    if (missing)
        return stop_without(json, (enum eval_field)__builtin_ctz(missing));
    const kolo_status taken = json->list->take(json->context, &json->record);
    if (taken == KOLO_ERR_NO_MEMORY)
        return stop_without_memory(json);
    return taken == KOLO_OK ? 1 : stop(json, "%s", kolo_error_detail());
}

/* If a key occurs twice, its last value counts. */
static void begin_row(struct eval_json *json)
{
    struct eval_ids *ids = ids_of(json);
    if (ids)
        ids->count = 0;
    else
        json->record.point_names = 0;
}

static int on_array(void *context)
{
    struct eval_json *json = context;
    bool is_list = json->outside && json->depth == 1 && json->list;
    bool is_box = in_record(json) && json->field == EVAL_BOX;
    if (in_shape(json) || (in_record(json) && is_shape(json)))
        return open_shape(json, false);
    bool begins_row = in_record(json) && is_row(json);
    if (begins_row)
        begin_row(json);
    if (is_box) {
        json->numbers = 0;
        json->record.has &= ~(1u << EVAL_BOX);
    }
    if (!is_list && !is_box && !begins_row && !refuse_value(json, "an array"))
        return 0;
    return go_in(json);
}

static int on_array_end(void *context)
{
    struct eval_json *json = context;
    bool is_box = in_box(json);
    if (in_shape(json))
        return close_shape(json);
    if (in_row(json))
        json->record.has |= 1u << json->field;
    json->depth--;
    if (!is_box || (json->numbers == 0 && !(json->list->needed & 1u << EVAL_BOX)))
        return 1;
    if (json->numbers != 4)
        return stop(json, "a bbox of %zu numbers; it has 4", json->numbers);
    json->record.has |= 1u << EVAL_BOX;
    return 1;
}

static const yajl_callbacks callbacks = {.yajl_null = on_null,
                                         .yajl_boolean = on_boolean,
                                         .yajl_number = on_number,
                                         .yajl_string = on_string,
                                         .yajl_start_map = on_object,
                                         .yajl_map_key = on_key,
                                         .yajl_end_map = on_object_end,
                                         .yajl_start_array = on_array,
                                         .yajl_end_array = on_array_end};

static kolo_status fail_without_memory(const struct eval_json *json)
{
    return kolo_fail(KOLO_ERR_NO_MEMORY, "%s: %s", json->source->path, kolo_error_detail());
}

kolo_status eval_json_open(struct eval_json *json, struct eval_source *source,
                           const struct eval_list *lists, void *context)
{
    bool is_single = lists[0].key == NULL;
    *json = (struct eval_json){.source = source,
                               .lists = lists,
                               .context = context,
                               .list = is_single ? lists : NULL,
                               .outside = is_single ? 0 : 2,
                               .field = EVAL_FIELDS};
    yajl_alloc_funcs memory = eval_memory_functions(&json->memory);
    if (setjmp(json->memory.missing) != 0)
        return fail_without_memory(json);
    json->parser = yajl_alloc(&callbacks, &memory, json);
    (void)yajl_config(json->parser, yajl_allow_multiple_values, is_single ? 1 : 0);
    return KOLO_OK;
}

static bool is_word(unsigned char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= 'a' && byte <= 'z') || byte == '+' || byte == '-' || byte == '.';
}

/* The first byte of the value that ends before @p end, or of the part of it in this piece. */
static size_t value_begin(const unsigned char *data, size_t end)
{
    size_t begin = end > 0 ? end - 1 : 0, backslashes;
    if (end == 0)
        return 0;
    if (data[begin] != '"') {
        while (begin > 0 && is_word(data[begin]) && is_word(data[begin - 1]) &&
               (data[begin] != '-' || data[begin - 1] == 'e' || data[begin - 1] == 'E'))
            begin--; /* a sign begins a number, or its exponent */
        return begin;
    }
    do { /* a quote inside the string follows an odd number of backslashes */
        for (backslashes = 0; begin > 0 && data[--begin] != '"';)
            continue;
        while (backslashes < begin && data[begin - 1 - backslashes] == '\\')
            backslashes++;
    } while (backslashes % 2 == 1);
    return begin;
}

/* The first byte of a value behind another in an object. Here yajl goes back by the length of the
 * value; but that of a string is without its quotes. */
static size_t value_behind(const unsigned char *data, size_t at)
{
    bool is_word_behind_string = at > 0 && data[at - 1] == ' ';
    return at >= 2 && data[at - 2] == '"' && !is_word_behind_string ? at - 2 : at;
}

/* The first byte of the invalid UTF-8 that yajl noticed at byte @p at: it may have begun up to
 * three bytes before. */
static size_t letter_begin(const unsigned char *data, size_t at)
{
    for (size_t back = 1; back <= 3 && back <= at; back++) {
        unsigned char byte = data[at - back];
        size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        if (length > 1)
            return back < length ? at - back : at;
        if (byte < 0x80)
            break;
    }
    return at;
}

/* Python writes and reads NaN and Infinity, which JSON does not have. */
static const char *not_finite(const struct eval_source *source, size_t at)
{
    static const char *const words[] = {"NaN: numbers must be finite",
                                        "Infinity: numbers must be finite"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strcspn(words[i], ":");
        if (source->bytes - at >= length && memcmp(source->data + at, words[i], length) == 0)
            return words[i];
    }
    return NULL;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Fails with what yajl says, which has read all bytes before @p at: a value that it refuses, but of
 * the lexical errors in only two kinds the byte that it refuses. */
static kolo_status refuse_text(const struct eval_source *source, const char *why, size_t at)
{
    const unsigned char *data = source->data;
    size_t read = at > 0 ? at - 1 : 0;
    const char *words = NULL;
    if (begins(why, "parse error: after key and value, inside map"))
        return eval_source_fail(source, value_behind(data, at), why);
    if (!begins(why, "lexical error"))
        return eval_source_fail(source, value_begin(data, at), why);
    if (begins(why, "lexical error: invalid bytes in UTF8"))
        return eval_source_fail(source, letter_begin(data, read), why);
    if (begins(why, "lexical error: invalid char in json"))
        at = read;
    else if (!begins(why, "lexical error: malformed number"))
        return eval_source_fail(source, at, why);
    words = not_finite(source, at);
    return eval_source_fail(source, words ? value_begin(data, at + 1) : at, words ? words : why);
}

static kolo_status fail(struct eval_json *json, yajl_status how, size_t at)
{
    if (json->lacks_memory)
        return fail_without_memory(json);
    if (how == yajl_status_client_canceled)
        return eval_source_fail(json->source, value_begin(json->source->data, at), json->why);
    if (setjmp(json->memory.missing) != 0)
        return fail_without_memory(json);
    unsigned char *text = yajl_get_error(json->parser, 0, NULL, 0);
    char why[256];
    (void)snprintf(why, sizeof why, "%s", text ? (const char *)text : "no JSON");
    why[strcspn(why, "\n")] = '\0';
    if (text)
        yajl_free_error(json->parser, text);
    return refuse_text(json->source, why, at);
}

kolo_status eval_json_read(struct eval_json *json, size_t from, size_t to)
{
    uint64_t heard = json->heard;
    yajl_status how;
    if (setjmp(json->memory.missing) != 0)
        return fail_without_memory(json);
    how = yajl_parse(json->parser, json->source->data + from, to - from);
    json->quiet = heard == json->heard ? json->quiet + (to - from) : 0;
    if (json->quiet > QUIET_BYTES_MAX)
        return eval_source_fail(json->source, to,
                                "a string of more than 64 MiB, or as many blanks");
    if (how == yajl_status_ok)
        return KOLO_OK;
    return fail(json, how, from + yajl_get_bytes_consumed(json->parser));
}

kolo_status eval_json_read_all(struct eval_json *json)
{
    kolo_status status;
    do {
        status = eval_source_next(json->source);
        if (status == KOLO_OK && json->source->bytes > 0)
            status = eval_json_read(json, 0, json->source->bytes);
    } while (status == KOLO_OK && json->source->bytes > 0);
    return status == KOLO_OK ? eval_json_end(json) : status;
}

kolo_status eval_json_end(struct eval_json *json)
{
    if (setjmp(json->memory.missing) != 0)
        return fail_without_memory(json);
    if (yajl_complete_parse(json->parser) != yajl_status_ok)
        return eval_source_fail(json->source, 0, "the file ends here, in the middle of its JSON");
    for (size_t i = 0; json->lists[i].what; i++)
        if (!(json->seen & 1u << i))
            return kolo_fail(KOLO_ERR_DATA, "%s: no \"%s\" in it", json->source->path,
                             json->lists[i].key);
    return KOLO_OK;
}

void eval_json_close(struct eval_json *json)
{
    eval_memory_free(&json->memory); /* not by the parser, which may not be whole */
    json->parser = NULL;
    eval_shape_free(&json->shape);
    kolo_free_memory(json->absent.id);
    kolo_free_memory(json->partial.id);
    json->absent = json->partial = (struct eval_ids){.id = NULL};
}
