// SPDX-License-Identifier: Apache-2.0
// base/settings.c: where values come from (defaults, the environment), and which are refused.
#include "base/settings.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings_table.h"

static struct kolo_settings settings;

static void init(void)
{
    kolo_settings_init(&settings);
}

TestSuite(settings, .init = init);

typedef void unknown_fn(void *context, const char *name, const char *nearest);

/* An environment consists of writable strings, which literals are not. */
static kolo_status load(const char *const *entries, unknown_fn *unknown, void *context)
{
    char *environment[16] = {NULL};
    size_t count = 0;
    for (; entries[count]; count++) {
        environment[count] = strdup(entries[count]);
        cr_assert(environment[count] && count < 15, "environment");
    }
    kolo_status status = kolo_settings_load(&settings, environment, unknown, context);
    while (count > 0)
        free(environment[--count]);
    return status;
}

#define LOAD(...) load((const char *const[]){__VA_ARGS__, NULL}, NULL, NULL)

struct told {
    int count;
    char name[KOLO_TEXT_MAX], nearest[64];
};

static void remember(void *context, const char *name, const char *nearest)
{
    struct told *told = context;
    told->count++;
    strcpy(told->name, name);
    strcpy(told->nearest, nearest ? nearest : "(none)");
}

Test(settings, defaults_are_valid_and_marked_as_such)
{
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        const struct kolo_setting_row *row = &kolo_setting_rows[i];
        cr_assert(kolo_setting_parse(row, row->preset, &settings) == KOLO_OK, "%s",
                  kolo_error_detail());
        cr_assert(settings.source[i] == KOLO_FROM_DEFAULT, "%s", row->name);
    }
    cr_assert(settings.rank == -1 && settings.size == -1, "rank");
    cr_assert(settings.timeout_ms == 300000, "%lld", (long long)settings.timeout_ms);
    cr_assert(settings.segment_bytes == 262144, "%zu", settings.segment_bytes);
    cr_assert(strcmp(settings.transport, "auto") == 0, "%s", settings.transport);
}

Test(settings, the_environment_is_applied_with_its_source)
{
    cr_assert(LOAD("KOLO_TIMEOUT=5s", "HOME=/x", "KOLO_RANK=3", "KOLO_TRANSPORT=shm") == KOLO_OK,
              "%s", kolo_error_detail());
    cr_assert(settings.timeout_ms == 5000 && settings.rank == 3, "values");
    cr_assert(strcmp(settings.transport, "shm") == 0, "%s", settings.transport);
    cr_assert(settings.source[KOLO_SET_TIMEOUT] == KOLO_FROM_ENVIRONMENT, "source");
    cr_assert(settings.source[KOLO_SET_SIZE] == KOLO_FROM_DEFAULT, "untouched");
}

Test(settings, nothing_is_applied_if_one_is_bad)
{
    struct kolo_settings before = settings;
    cr_assert(LOAD("KOLO_TIMEOUT=5s", "KOLO_SEGMENT_BYTES=12q", "KOLO_RANK=3") == KOLO_ERR_CONFIG,
              "status");
    cr_assert(memcmp(&settings, &before, sizeof settings) == 0, "something was applied");
    cr_assert(strcmp(kolo_error_detail(),
                     "KOLO_SEGMENT_BYTES=12q: expected bytes: N, or N with K, M, G, KiB, MiB or "
                     "GiB, from 4096 to 16777216") == 0,
              "%s", kolo_error_detail());
}

Test(settings, of_two_entries_the_first_counts_as_for_getenv)
{
    cr_assert(LOAD("KOLO_RANK=1", "KOLO_RANK=2") == KOLO_OK && settings.rank == 1, "%lld",
              (long long)settings.rank);
}

Test(settings, malformed_entries_are_no_settings)
{
    struct told told = {0};
    struct kolo_settings before = settings;
    const char *const strange[] = {"KOLO_RANK",    "=x",          "",  "KOLO",
                                   "XKOLO_RANK=1", "kolo_rank=1", NULL};
    cr_assert(load(strange, remember, &told) == KOLO_OK && told.count == 0, "%s", told.name);
    cr_assert(memcmp(&settings, &before, sizeof settings) == 0, "something was applied");
}

Test(settings, an_empty_number_is_an_error_and_an_empty_text_is_a_value)
{
    cr_assert(LOAD("KOLO_RANK=") == KOLO_ERR_CONFIG, "number");
    cr_assert(LOAD("KOLO_TRANSPORT=") == KOLO_OK && *settings.transport == '\0', "text");
}

Test(settings, a_shorter_text_leaves_nothing_of_the_longer_one)
{
    cr_assert(LOAD("KOLO_SECRET=0123456789") == KOLO_OK, "long");
    cr_assert(LOAD("KOLO_SECRET=ab") == KOLO_OK, "short");
    for (size_t i = 2; i < KOLO_TEXT_MAX; i++)
        cr_assert(settings.secret[i] == '\0', "byte %zu", i);
}

Test(settings, an_unknown_variable_is_told_with_what_was_meant)
{
    struct told told = {0};
    const char *const typo[] = {"KOLO_SEGMENT_SIZE=1", NULL};
    cr_assert(load(typo, remember, &told) == KOLO_OK, "status");
    cr_assert(told.count == 1 && strcmp(told.name, "KOLO_SEGMENT_SIZE") == 0, "%s", told.name);
    cr_assert(strcmp(told.nearest, "KOLO_SEGMENT_BYTES") == 0, "%s", told.nearest);

    const char *const strange[] = {"KOLO_QQQQQQQQQ=1", "KOLO_=1", NULL};
    cr_assert(load(strange, remember, &told) == KOLO_OK, "status");
    cr_assert(told.count == 3 && strcmp(told.nearest, "(none)") == 0, "%s", told.nearest);

    const char *const cased[] = {"KOLO_Rank=1", NULL};
    cr_assert(load(cased, remember, &told) == KOLO_OK, "status");
    cr_assert(strcmp(told.nearest, "KOLO_RANK") == 0 && settings.rank == -1, "%s", told.nearest);
}

Test(settings, an_unknown_name_of_any_length_is_survived)
{
    struct told told = {0};
    char entry[5000] = "KOLO_";
    memset(entry + 5, 'X', sizeof entry - 5);
    entry[sizeof entry - 2] = '=';
    entry[sizeof entry - 1] = '\0';
    char *const environment[] = {entry, NULL};
    cr_assert(kolo_settings_load(&settings, environment, remember, &told) == KOLO_OK, "status");
    cr_assert(told.count == 1 && strlen(told.name) == KOLO_TEXT_MAX - 1, "%zu", strlen(told.name));
}

Test(settings, null_is_this_process)
{
    setenv("KOLO_RANK", "12", 1);
    cr_assert(kolo_settings_load(&settings, NULL, NULL, NULL) == KOLO_OK, "%s",
              kolo_error_detail());
    cr_assert(settings.rank == 12, "%lld", (long long)settings.rank);
    cr_assert(strcmp(kolo_environment("KOLO_RANK"), "12") == 0, "raw");
    cr_assert(!kolo_environment("KOLO_THIS_IS_NOT_SET"), "not set");
}

Test(settings, set_by_any_form_of_the_name)
{
    static const char *const names[] = {"KOLO_TIMEOUT", "TIMEOUT", "timeout", "kolo_timeout"};
    for (int i = 0; i < 4; i++) {
        char value[16];
        snprintf(value, sizeof value, "%ds", i + 1);
        cr_assert(kolo_settings_set(&settings, names[i], value, KOLO_FROM_OPTION) == KOLO_OK, "%s",
                  names[i]);
        cr_assert(settings.timeout_ms == (i + 1) * 1000, "%s", names[i]);
        cr_assert(settings.source[KOLO_SET_TIMEOUT] == KOLO_FROM_OPTION, "%s", names[i]);
    }
}

Test(settings, set_refuses_and_changes_nothing)
{
    struct kolo_settings before = settings;
    cr_assert(kolo_settings_set(&settings, "timeout", "soon", KOLO_FROM_API) == KOLO_ERR_CONFIG,
              "value");
    cr_assert(kolo_settings_set(&settings, "timeot", "1s", KOLO_FROM_API) == KOLO_ERR_NOT_FOUND,
              "name");
    cr_assert(strcmp(kolo_error_detail(), "unknown setting timeot; did you mean KOLO_TIMEOUT?") ==
                  0,
              "%s", kolo_error_detail());
    cr_assert(kolo_settings_set(&settings, "qqqqqqqqq", "1", KOLO_FROM_API) == KOLO_ERR_NOT_FOUND,
              "name");
    cr_assert(strcmp(kolo_error_detail(),
                     "unknown setting qqqqqqqqq; kolorun --help-settings lists them") == 0,
              "%s", kolo_error_detail());
    cr_assert(kolo_settings_set(&settings, "", "1", KOLO_FROM_API) == KOLO_ERR_NOT_FOUND, "empty");
    cr_assert(memcmp(&settings, &before, sizeof settings) == 0, "something was applied");
}

Test(settings, a_variable_is_set_by_its_exact_name)
{
    static const char *const unknown[][2] = {
        {"KOLO_TIMEOOUT=1", "unknown setting KOLO_TIMEOOUT; did you mean KOLO_TIMEOUT?"},
        {"KOLO_timeout=1", "unknown setting KOLO_timeout; did you mean KOLO_TIMEOUT?"}};
    cr_assert(kolo_settings_set_variable(&settings, "KOLO_TIMEOUT=4s", KOLO_FROM_ENVIRONMENT) ==
                  KOLO_OK,
              "%s", kolo_error_detail());
    cr_assert(settings.timeout_ms == 4000 &&
              settings.source[KOLO_SET_TIMEOUT] == KOLO_FROM_ENVIRONMENT);
    cr_assert(kolo_settings_set_variable(&settings, "KOLO_TIMEOUT=5s", KOLO_FROM_API) == KOLO_OK);
    cr_assert(settings.timeout_ms == 5000 && settings.source[KOLO_SET_TIMEOUT] == KOLO_FROM_API);
    struct kolo_settings before = settings;
    cr_assert(kolo_settings_set_variable(&settings, "KOLO_TIMEOUT=x", KOLO_FROM_API) ==
              KOLO_ERR_CONFIG);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        cr_assert(kolo_settings_set_variable(&settings, unknown[i][0], KOLO_FROM_API) ==
                      KOLO_ERR_NOT_FOUND,
                  "%s", unknown[i][0]);
        cr_assert_str_eq(kolo_error_detail(), unknown[i][1]);
    }
    cr_assert(kolo_settings_set_variable(&settings, "HOME=/x", KOLO_FROM_API) == KOLO_OK);
    cr_assert(kolo_settings_set_variable(&settings, "timeout=1", KOLO_FROM_API) == KOLO_OK);
    cr_assert(memcmp(&settings, &before, sizeof settings) == 0, "something was applied");
}

Test(settings, names_are_unique_and_well_formed)
{
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        const char *name = kolo_settings_name((enum kolo_setting_index)i);
        cr_assert(strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(name), "%s",
                  name);
        for (size_t j = 0; j < i; j++)
            cr_assert(strcmp(name, kolo_setting_rows[j].name) != 0, "%s twice", name);
        cr_assert(kolo_setting_rows[i].min <= kolo_setting_rows[i].max, "%s", name);
    }
    cr_assert(strcmp(kolo_settings_name(KOLO_SETTINGS_COUNT), "KOLO_?") == 0, "beyond");
}
