// SPDX-License-Identifier: Apache-2.0
// The strict parser of one setting's value. A number is decimal digits and a unit, with nothing
// before, between or after them; a value beyond 64 bits or the bounds is refused. Only a time may
// have a decimal point. A refused value leaves the field unchanged. The value of a secret never
// appears in an error's text.
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/settings_table.h"
#include "base/text.h"

struct unit {
    const char *text;
    uint64_t factor;
};

static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};
static const struct unit size_units[] = {
    {"", 1},           {"K", 1u << 10},   {"M", 1u << 20},   {"G", 1u << 30},
    {"KiB", 1u << 10}, {"MiB", 1u << 20}, {"GiB", 1u << 30}, {NULL, 0},
};
static const struct unit time_units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"min", 60000}, {"h", 3600000}, {NULL, 0},
};

/* Appends the digits at @p at to the number; returns what follows them, NULL if it overflows. */
static const char *read_digits(const char *at, uint64_t *number)
{
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(*number, 10u, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*at - '0'), number))
            return NULL;
    return at;
}

/* Multiplies @p number by the factor of the unit @p text; false if it is none of @p units. */
static bool apply_unit(const char *text, const struct unit *units, uint64_t *number)
{
    while (units->text && strcmp(units->text, text) != 0)
        units++;
    return units->text && !__builtin_mul_overflow(*number, units->factor, number);
}

/* Parses digits and one of @p units, with the product in *value_out; false if the text is anything
 * else, or the product exceeds int64_t. */
static bool parse_amount(const char *text, const struct unit *units, int64_t *value_out)
{
    uint64_t number = 0;
    const char *end = read_digits(text, &number);
    if (!end || end == text || !apply_unit(end, units, &number) || number > INT64_MAX)
        return false;
    *value_out = (int64_t)number;
    return true;
}

/* The same for a time, which may have digits after a decimal point. It is rounded up to whole
 * milliseconds: a short time must not become 0, which may mean no limit. */
static bool parse_ms(const char *text, int64_t *ms_out)
{
    uint64_t number = 0, parts = 1;
    const char *end = read_digits(text, &number);
    if (!end || end == text)
        return false;
    if (*end == '.') {
        const char *decimals = end + 1;
        end = read_digits(decimals, &number);
        if (!end || end == decimals)
            return false;
        for (const char *at = decimals; at < end; at++)
            if (__builtin_mul_overflow(parts, 10u, &parts))
                return false;
    }
    if (!apply_unit(end, time_units, &number))
        return false;
    number = number / parts + (number % parts != 0);
    if (number > INT64_MAX)
        return false;
    *ms_out = (int64_t)number;
    return true;
}

bool kolo_size_parse(const char *text, int64_t *bytes_out)
{
    return parse_amount(text, size_units, bytes_out);
}

static bool in_bounds(const struct kolo_setting_row *row, int64_t value)
{
    return value >= row->min && value <= row->max;
}

static bool parse_bool(const struct kolo_setting_row *row, const char *text, void *field)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"false", "true"}, {"no", "yes"}, {"off", "on"}};
    (void)row;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int truth = 0; truth < 2; truth++)
            if (strcasecmp(words[i][truth], text) == 0) {
                *(bool *)field = truth;
                return true;
            }
    return false;
}

static bool parse_int(const struct kolo_setting_row *row, const char *text, void *field)
{
    bool is_negative = *text == '-';
    int64_t value;
    if (!parse_amount(text + is_negative, plain_units, &value))
        return false;
    value = is_negative ? -value : value;
    if (!in_bounds(row, value))
        return false;
    *(int64_t *)field = value;
    return true;
}

static bool parse_size(const struct kolo_setting_row *row, const char *text, void *field)
{
    int64_t value;
    if (!parse_amount(text, size_units, &value) || !in_bounds(row, value))
        return false;
    *(size_t *)field = (size_t)value;
    return true;
}

static bool parse_time(const struct kolo_setting_row *row, const char *text, void *field)
{
    int64_t value;
    if (!parse_ms(text, &value) || !in_bounds(row, value))
        return false;
    *(int64_t *)field = value;
    return true;
}

static bool parse_text(const struct kolo_setting_row *row, const char *text, void *field)
{
    size_t bytes = strnlen(text, KOLO_TEXT_MAX);
    if (bytes >= KOLO_TEXT_MAX || !in_bounds(row, (int64_t)bytes))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (kolo_text_is_control(text[i]))
            return false;
    memset(field, 0, KOLO_TEXT_MAX);
    memcpy(field, text, bytes);
    return true;
}

static const struct {
    bool (*parse)(const struct kolo_setting_row *row, const char *text, void *field);
    const char *grammar;
} types[KOLO_SETTING_TYPES] = {
    [KOLO_TYPE_BOOL] = {parse_bool, "0, 1, false, true, no, yes, off or on"},
    [KOLO_TYPE_INT] = {parse_int, "a decimal integer"},
    [KOLO_TYPE_SIZE] = {parse_size, "bytes: N, or N with K, M, G, KiB, MiB or GiB"},
    [KOLO_TYPE_TIME] = {parse_time, "time such as 500ms, 90s, 5m, 1.5h or 90 (seconds)"},
    [KOLO_TYPE_TEXT] = {parse_text, "text without control characters"},
};

const char *kolo_setting_grammar(const struct kolo_setting_row *row)
{
    return types[row->type].grammar;
}

void kolo_setting_bounds(const struct kolo_setting_row *row, char *text, size_t capacity)
{
    switch (row->type) {
    case KOLO_TYPE_INT:
    case KOLO_TYPE_SIZE:
        snprintf(text, capacity, "from %" PRId64 " to %" PRId64, row->min, row->max);
        return;
    case KOLO_TYPE_TIME:
        snprintf(text, capacity, "from %" PRId64 "ms to %" PRId64 "s", row->min, row->max / 1000);
        return;
    case KOLO_TYPE_TEXT:
        snprintf(text, capacity, "of %" PRId64 " to %" PRId64 " bytes", row->min, row->max);
        return;
    case KOLO_TYPE_BOOL:
    case KOLO_SETTING_TYPES:
        break;
    }
    snprintf(text, capacity, "%s", "");
}

kolo_status kolo_setting_parse(const struct kolo_setting_row *row, const char *value,
                               struct kolo_settings *settings)
{
    if (types[row->type].parse(row, value, (char *)settings + row->offset))
        return KOLO_OK;
    char bounds[96];
    kolo_setting_bounds(row, bounds, sizeof bounds);
    bool is_long = strnlen(value, 65) > 64;
    return kolo_fail(KOLO_ERR_CONFIG, "%s=%.64s%s: expected %s%s%s", row->name,
                     row->is_secret ? "(hidden)" : value, is_long && !row->is_secret ? "..." : "",
                     kolo_setting_grammar(row), *bounds ? ", " : "", bounds);
}
