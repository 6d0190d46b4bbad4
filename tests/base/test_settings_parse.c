// SPDX-License-Identifier: Apache-2.0
// The grammar of each type of setting, by tables, on rows of this test that share real fields.
#include "base/settings_table.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Rows over a structure of this test, which works because the parser only knows an offset. */
union field {
    bool truth;
    int64_t number;
    size_t bytes;
    char text[KOLO_TEXT_MAX];
};

static const struct kolo_setting_row rows[KOLO_SETTING_TYPES] = {
    [KOLO_TYPE_BOOL] = {"KOLO_B", KOLO_TYPE_BOOL, false, 0, "off", 0, 1, "b"},
    [KOLO_TYPE_INT] = {"KOLO_I", KOLO_TYPE_INT, false, 0, "0", -5, 1000, "i"},
    [KOLO_TYPE_SIZE] = {"KOLO_S", KOLO_TYPE_SIZE, false, 0, "4096", 4096, 16777216, "s"},
    [KOLO_TYPE_TIME] = {"KOLO_T", KOLO_TYPE_TIME, false, 0, "1s", 100, 604800000, "t"},
    [KOLO_TYPE_TEXT] = {"KOLO_X", KOLO_TYPE_TEXT, false, 0, "x", 1, 255, "x"},
};
/* Only the range of int64_t limits this one. */
static const struct kolo_setting_row widest = {"KOLO_W", KOLO_TYPE_INT, false,     0,
                                               "0",      INT64_MIN,     INT64_MAX, "w"};

static kolo_status parse(const struct kolo_setting_row *row, const char *value, union field *field)
{
    return kolo_setting_parse(row, value, (struct kolo_settings *)(void *)field);
}

static const struct {
    enum kolo_setting_type type;
    const char *text;
    int64_t value;
} good[] = {
    {KOLO_TYPE_BOOL, "0", 0},
    {KOLO_TYPE_BOOL, "1", 1},
    {KOLO_TYPE_BOOL, "false", 0},
    {KOLO_TYPE_BOOL, "true", 1},
    {KOLO_TYPE_BOOL, "no", 0},
    {KOLO_TYPE_BOOL, "yes", 1},
    {KOLO_TYPE_BOOL, "off", 0},
    {KOLO_TYPE_BOOL, "on", 1},
    {KOLO_TYPE_BOOL, "TRUE", 1},
    {KOLO_TYPE_BOOL, "Off", 0},
    {KOLO_TYPE_INT, "0", 0},
    {KOLO_TYPE_INT, "-0", 0},
    {KOLO_TYPE_INT, "-5", -5},
    {KOLO_TYPE_INT, "1000", 1000},
    {KOLO_TYPE_INT, "0000000000000000000000000000000007", 7},
    {KOLO_TYPE_SIZE, "4096", 4096},
    {KOLO_TYPE_SIZE, "4K", 4096},
    {KOLO_TYPE_SIZE, "4KiB", 4096},
    {KOLO_TYPE_SIZE, "16M", 16777216},
    {KOLO_TYPE_SIZE, "16MiB", 16777216},
    {KOLO_TYPE_SIZE, "16777216", 16777216},
    {KOLO_TYPE_TIME, "100ms", 100},
    {KOLO_TYPE_TIME, "1", 1000},
    {KOLO_TYPE_TIME, "1s", 1000},
    {KOLO_TYPE_TIME, "2min", 120000},
    {KOLO_TYPE_TIME, "2m", 120000},
    {KOLO_TYPE_TIME, "168h", 604800000},
    {KOLO_TYPE_TIME, "1.5", 1500},
    {KOLO_TYPE_TIME, "1.50s", 1500},
    {KOLO_TYPE_TIME, "0.25h", 900000},
    {KOLO_TYPE_TIME, "0.1s", 100},
    {KOLO_TYPE_TIME, "99.1ms", 100}, /* rounded up */
    {KOLO_TYPE_TIME, "1.000000000000", 1000},
    {KOLO_TYPE_TIME, "604800s", 604800000},
    {KOLO_TYPE_TIME, "604800000ms", 604800000},
};

Test(settings_parse, good_values)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        union field field = {.number = 77};
        cr_assert(parse(&rows[good[i].type], good[i].text, &field) == KOLO_OK, "'%s': %s",
                  good[i].text, kolo_error_detail());
        int64_t got = good[i].type == KOLO_TYPE_BOOL ? field.truth : field.number;
        cr_assert(got == good[i].value, "'%s' gives %lld", good[i].text, (long long)got);
    }
}

#define TWO_TO_64 "18446744073709551616"
#define TWO_TO_63 "9223372036854775808"

static const struct {
    enum kolo_setting_type type;
    const char *text;
} bad[] = {
    {KOLO_TYPE_BOOL, ""},
    {KOLO_TYPE_BOOL, "2"},
    {KOLO_TYPE_BOOL, "tru"},
    {KOLO_TYPE_BOOL, "true "},
    {KOLO_TYPE_BOOL, " on"},
    {KOLO_TYPE_BOOL, "-1"},
    {KOLO_TYPE_BOOL, "00"},
    {KOLO_TYPE_INT, ""},
    {KOLO_TYPE_INT, "-"},
    {KOLO_TYPE_INT, "--1"},
    {KOLO_TYPE_INT, "+1"},
    {KOLO_TYPE_INT, " 1"},
    {KOLO_TYPE_INT, "1 "},
    {KOLO_TYPE_INT, "1\n"},
    {KOLO_TYPE_INT, "0x10"},
    {KOLO_TYPE_INT, "1e2"},
    {KOLO_TYPE_INT, "1.0"},
    {KOLO_TYPE_INT, "1K"},
    {KOLO_TYPE_INT, "one"},
    {KOLO_TYPE_INT, "1,000"},
    {KOLO_TYPE_INT, "\xd9\xa1"}, /* a digit, but an Arabic-Indic one */
    {KOLO_TYPE_INT, "-6"},
    {KOLO_TYPE_INT, "1001"},
    {KOLO_TYPE_INT, TWO_TO_64},
    {KOLO_TYPE_INT, "18446744073709551617"}, /* 1, if it wrapped around */
    {KOLO_TYPE_INT, "18446744073709551620"}, /* 4, if the product wrapped around */
    {KOLO_TYPE_INT, TWO_TO_63},
    {KOLO_TYPE_SIZE, ""},
    {KOLO_TYPE_SIZE, "KiB"},
    {KOLO_TYPE_SIZE, "-4096"},
    {KOLO_TYPE_SIZE, "4095"},
    {KOLO_TYPE_SIZE, "16777217"},
    {KOLO_TYPE_SIZE, "12q"},
    {KOLO_TYPE_SIZE, "4 KiB"},
    {KOLO_TYPE_SIZE, "4kib"},
    {KOLO_TYPE_SIZE, "4KB"},
    {KOLO_TYPE_SIZE, "4KiBs"},
    {KOLO_TYPE_SIZE, "4Ki"},
    {KOLO_TYPE_SIZE, "4.5KiB"},
    {KOLO_TYPE_SIZE, "0x1000"},
    {KOLO_TYPE_SIZE, "17179869188G"}, /* wraps around to a value below 2^64 */
    {KOLO_TYPE_SIZE, "17179869184G"}, /* 2^64: to 0 */
    {KOLO_TYPE_SIZE, TWO_TO_64 "KiB"},
    {KOLO_TYPE_TIME, ""},
    {KOLO_TYPE_TIME, "ms"},
    {KOLO_TYPE_TIME, "99ms"},
    {KOLO_TYPE_TIME, "0"},
    {KOLO_TYPE_TIME, "-1s"},
    {KOLO_TYPE_TIME, "604801s"},
    {KOLO_TYPE_TIME, "169h"},
    {KOLO_TYPE_TIME, "1 s"},
    {KOLO_TYPE_TIME, "1d"},
    {KOLO_TYPE_TIME, ".5s"},
    {KOLO_TYPE_TIME, "1.s"},
    {KOLO_TYPE_TIME, "1.5.0s"},
    {KOLO_TYPE_TIME, "1,5s"},
    {KOLO_TYPE_TIME, "1m30s"},
    {KOLO_TYPE_TIME, "1e1s"},
    {KOLO_TYPE_TIME, "1.00000000000000000000s"}, /* beyond 64 bits */
    {KOLO_TYPE_TIME, "1S"},
    {KOLO_TYPE_TIME, "1sec"},
    {KOLO_TYPE_TIME, "18446744073709552s"}, /* 384 ms, if it wrapped around */
    {KOLO_TYPE_TEXT, ""},
    {KOLO_TYPE_TEXT, "a\nb"},
    {KOLO_TYPE_TEXT, "\x1b[0m"},
    {KOLO_TYPE_TEXT, "a\x7f"},
};

Test(settings_parse, bad_values_name_variable_and_grammar_and_change_nothing)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct kolo_setting_row *row = &rows[bad[i].type];
        union field field, before;
        memset(&field, 0x5a, sizeof field);
        before = field;
        cr_assert(parse(row, bad[i].text, &field) == KOLO_ERR_CONFIG, "'%s'", bad[i].text);
        cr_assert(memcmp(&field, &before, sizeof field) == 0, "'%s' was applied", bad[i].text);
        const char *detail = kolo_error_detail();
        cr_assert(strncmp(detail, row->name, strlen(row->name)) == 0, "%s", detail);
        cr_assert(strstr(detail, kolo_setting_grammar(row)), "%s", detail);
        cr_assert(!strchr(detail, '\n'), "%s", detail);
    }
}

Test(settings_parse, the_ends_of_int64)
{
    union field field = {.number = 1};
    cr_assert(parse(&widest, "9223372036854775807", &field) == KOLO_OK, "max");
    cr_assert(field.number == INT64_MAX, "%lld", (long long)field.number);
    cr_assert(parse(&widest, "-9223372036854775807", &field) == KOLO_OK, "min + 1");
    cr_assert(field.number == -INT64_MAX, "%lld", (long long)field.number);
    cr_assert(parse(&widest, TWO_TO_63, &field) == KOLO_ERR_CONFIG, "max + 1");
    cr_assert(parse(&widest, TWO_TO_64, &field) == KOLO_ERR_CONFIG, "2^64");
    cr_assert(parse(&widest, "99999999999999999999999999", &field) == KOLO_ERR_CONFIG, "more");
}

Test(settings_parse, text_up_to_255_bytes)
{
    char text[KOLO_TEXT_MAX + 1];
    union field field;
    memset(text, 'x', sizeof text);
    text[KOLO_TEXT_MAX - 1] = '\0';
    cr_assert(parse(&rows[KOLO_TYPE_TEXT], text, &field) == KOLO_OK, "255");
    cr_assert(strcmp(field.text, text) == 0, "255");
    text[KOLO_TEXT_MAX - 1] = 'x';
    text[KOLO_TEXT_MAX] = '\0';
    cr_assert(parse(&rows[KOLO_TYPE_TEXT], text, &field) == KOLO_ERR_CONFIG, "256");
    cr_assert(strlen(field.text) == KOLO_TEXT_MAX - 1, "256 was applied");
    cr_assert(strlen(kolo_error_detail()) < 200, "a long value is cut: %s", kolo_error_detail());
    cr_assert(parse(&rows[KOLO_TYPE_TEXT], "h\xc3\xb6st", &field) == KOLO_OK, "UTF-8");
    cr_assert(strcmp(field.text, "h\xc3\xb6st") == 0, "UTF-8");
}

static void assert_detail(const struct kolo_setting_row *row, const char *value,
                          const char *expected)
{
    union field field;
    cr_assert(parse(row, value, &field) == KOLO_ERR_CONFIG, "%s", value);
    cr_assert(strcmp(kolo_error_detail(), expected) == 0, "%s", kolo_error_detail());
}

Test(settings_parse, the_whole_line)
{
    assert_detail(&kolo_setting_rows[KOLO_SET_SEGMENT_BYTES], "12q",
                  "KOLO_SEGMENT_BYTES=12q: expected bytes: N, or N with K, M, G, KiB, MiB or GiB, "
                  "from 4096 to 16777216");
    assert_detail(&rows[KOLO_TYPE_BOOL], "maybe",
                  "KOLO_B=maybe: expected 0, 1, false, true, no, yes, off or on");
    assert_detail(&rows[KOLO_TYPE_INT], "", "KOLO_I=: expected a decimal integer, from -5 to 1000");
    assert_detail(&rows[KOLO_TYPE_TIME], "5d",
                  "KOLO_T=5d: expected time such as 500ms, 90s, 5m, 1.5h or 90 (seconds), from "
                  "100ms to 604800s");
    assert_detail(&rows[KOLO_TYPE_TEXT], "a\nb",
                  "KOLO_X=a?b: expected text without control characters, of 1 to 255 bytes");
}

Test(settings_parse, a_secret_stays_out_of_the_error)
{
    struct kolo_setting_row row = rows[KOLO_TYPE_INT];
    row.is_secret = true;
    assert_detail(&row, "hunter2", "KOLO_I=(hidden): expected a decimal integer, from -5 to 1000");
    char text[300];
    memset(text, 'h', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_detail(&row, text, "KOLO_I=(hidden): expected a decimal integer, from -5 to 1000");
}
