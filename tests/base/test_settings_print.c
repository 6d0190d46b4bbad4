// SPDX-License-Identifier: Apache-2.0
// base/settings_print.c: values, help, Markdown and the man page as text. No secret is printed.
#include "base/settings.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings_table.h"

static struct kolo_settings settings;

static void init(void)
{
    kolo_settings_init(&settings);
}

TestSuite(settings_print, .init = init);

static void assert_value(enum kolo_setting_index index, const char *set, const char *expected)
{
    char text[KOLO_TEXT_MAX];
    const char *name = kolo_settings_name(index);
    cr_assert(kolo_settings_set(&settings, name, set, KOLO_FROM_API) == KOLO_OK, "%s",
              kolo_error_detail());
    kolo_settings_value(&settings, index, text, sizeof text);
    cr_assert(strcmp(text, expected) == 0, "%s=%s prints as %s", name, set, text);
}

Test(settings_print, values_in_the_largest_unit_that_is_exact)
{
    assert_value(KOLO_SET_SEGMENT_BYTES, "4096", "4KiB");
    assert_value(KOLO_SET_SEGMENT_BYTES, "4097", "4097");
    assert_value(KOLO_SET_SEGMENT_BYTES, "16384K", "16MiB");
    assert_value(KOLO_SET_SMALL_BYTES, "1073741824", "1GiB");
    assert_value(KOLO_SET_SMALL_BYTES, "0", "0");
    assert_value(KOLO_SET_TIMEOUT, "2min", "120s");
    assert_value(KOLO_SET_TIMEOUT, "1500ms", "1500ms");
    assert_value(KOLO_SET_RANK, "-1", "-1");
    assert_value(KOLO_SET_TRANSPORT, "shm", "shm");
    assert_value(KOLO_SET_TRANSPORT, "", "");
}

Test(settings_print, every_value_is_taken_back_as_itself)
{
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        char text[KOLO_TEXT_MAX];
        enum kolo_setting_index index = (enum kolo_setting_index)i;
        struct kolo_settings before = settings;
        kolo_settings_value(&settings, index, text, sizeof text);
        cr_assert(kolo_settings_set(&settings, kolo_settings_name(index), text,
                                    KOLO_FROM_DEFAULT) == KOLO_OK,
                  "%s", kolo_error_detail());
        cr_assert(memcmp(&settings, &before, sizeof settings) == 0, "%s",
                  kolo_settings_name(index));
    }
}

Test(settings_print, a_short_buffer_is_not_overrun)
{
    char text[8] = "zzzzzzz";
    cr_assert(kolo_settings_set(&settings, "transport", "long text", KOLO_FROM_API) == KOLO_OK,
              "set");
    kolo_settings_value(&settings, KOLO_SET_TRANSPORT, text, 4);
    cr_assert(memcmp(text, "lon\0zzz", 8) == 0, "%s", text);
}

typedef void printer(FILE *out);

static char *printed(printer *print)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    print(out);
    fclose(out);
    return text;
}

static void print_values(FILE *out)
{
    kolo_settings_print_values(&settings, out);
}

Test(settings_print, a_secret_is_never_printed)
{
    char text[KOLO_TEXT_MAX];
    kolo_settings_value(&settings, KOLO_SET_SECRET, text, sizeof text);
    cr_assert(*text == '\0', "not set: %s", text);
    cr_assert(kolo_settings_set(&settings, "secret", "deadbeef", KOLO_FROM_API) == KOLO_OK, "set");
    kolo_settings_value(&settings, KOLO_SET_SECRET, text, sizeof text);
    cr_assert(strcmp(text, "(set)") == 0, "%s", text);
    char *all = printed(print_values);
    cr_assert(strstr(all, "(set)") && !strstr(all, "deadbeef"), "%s", all);
    free(all);
}

Test(settings_print, values_say_where_they_come_from)
{
    char entry[] = "KOLO_TIMEOUT=7s";
    char *const environment[] = {entry, NULL};
    cr_assert(kolo_settings_load(&settings, environment, NULL, NULL) == KOLO_OK, "load");
    cr_assert(kolo_settings_set(&settings, "rank", "3", KOLO_FROM_API) == KOLO_OK, "api");
    cr_assert(kolo_settings_set(&settings, "plan", "ring", KOLO_FROM_OPTION) == KOLO_OK, "option");
    char *all = printed(print_values);
    static const char *const lines[][3] = {{"KOLO_TIMEOUT ", "7s", "environment"},
                                           {"KOLO_RANK ", "3", "program"},
                                           {"KOLO_PLAN ", "ring", "option"},
                                           {"KOLO_SIZE ", "-1", "default"},
                                           {"KOLO_NET ", "(empty)", "default"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char name[64], value[64], source[64];
        const char *line = strstr(all, lines[i][0]);
        cr_assert(line && sscanf(line, "%63s %63s %63s", name, value, source) == 3, "%s", all);
        cr_assert(strcmp(value, lines[i][1]) == 0, "%s is %s", name, value);
        cr_assert(strcmp(source, lines[i][2]) == 0, "%s is from %s", name, source);
    }
    free(all);
}

Test(settings_print, help_and_markdown_name_every_setting_with_its_help)
{
    char *help = printed(kolo_settings_print_help);
    char *page = printed(kolo_settings_print_markdown);
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        const struct kolo_setting_row *row = &kolo_setting_rows[i];
        cr_assert(strstr(help, row->name) && strstr(help, row->help), "help: %s", row->name);
        cr_assert(strstr(page, row->name), "page: %s", row->name);
    }
    size_t bars = 0;
    for (const char *at = page; *at; at++)
        bars += *at == '|' && (at == page || at[-1] != '\\');
    cr_assert(bars == 5 * (KOLO_SETTINGS_COUNT + 2), "a cell holds a bar: %zu", bars);
    free(help);
    free(page);
}

Test(settings_print, the_man_page_has_every_setting_and_nothing_that_roff_takes_for_its_own)
{
    char *page = printed(kolo_settings_print_man);
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        char entry[96];
        snprintf(entry, sizeof entry, "\n.TP\n.B %s\n\\&", kolo_setting_rows[i].name);
        cr_assert(strstr(page, entry), "no entry of %s", kolo_setting_rows[i].name);
    }
    for (const char *line = page; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        bool is_ours = strncmp(line, ".TP", 3) == 0 || strncmp(line, ".B ", 3) == 0 ||
                       strncmp(line, ".BR ", 4) == 0 || strncmp(line, ".br", 3) == 0 ||
                       strncmp(line, ".SH ", 4) == 0 || strncmp(line, ".TH ", 4) == 0 ||
                       strncmp(line, ".\\\"", 3) == 0;
        cr_assert((*line != '.' && *line != '\'') || is_ours, "roff takes it: %.40s", line);
    }
    free(page);
}

Test(settings_print, sources_have_words)
{
    for (int source = KOLO_FROM_DEFAULT; source <= KOLO_FROM_API; source++)
        cr_assert(strlen(kolo_setting_source_text((enum kolo_setting_source)source)) > 2, "%d",
                  source);
    cr_assert(strcmp(kolo_setting_source_text((enum kolo_setting_source)9), "?") == 0, "none");
}
