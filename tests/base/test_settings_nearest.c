// SPDX-License-Identifier: Apache-2.0
// base/settings_nearest.c: the setting that a misspelt name means.
#include "base/settings_table.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct {
    const char *typed;
    const char *nearest; /* NULL: none */
} cases[] = {
    {"KOLO_SEGMENT_BYTES", "KOLO_SEGMENT_BYTES"},
    {"KOLO_SEGMENT_SIZE", "KOLO_SEGMENT_BYTES"},
    {"KOLO_TIMOEUT", "KOLO_TIMEOUT"},
    {"KOLO_TIMEOUTS", "KOLO_TIMEOUT"},
    {"KOLO_timeout", "KOLO_TIMEOUT"},
    {"kolo_timeuot", "KOLO_TIMEOUT"},
    {"TRANSPROT", "KOLO_TRANSPORT"},
    {"KOLO_RNAK", "KOLO_RANK"},
    {"KOLO_LOCALRANK", "KOLO_LOCAL_RANK"},
    {"KOLO_LGO", "KOLO_LOG"},
    {"KOLO_ZZZZZZZZ", NULL},
    {"KOLO_", NULL},
    {"", NULL},
    {"KOLO_HOME_DIRECTORY_OF_EVERYBODY", NULL},
    {"KOLO_A_NAME_THAT_IS_LONGER_THAN_ANY_SETTING_WILL_EVER_BE_AND_THEN_SOME", NULL},
};

Test(settings_nearest, finds_what_was_meant)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum kolo_setting_index index = kolo_setting_nearest(cases[i].typed);
        const char *name = index == KOLO_SETTINGS_COUNT ? NULL : kolo_settings_name(index);
        bool same = name && cases[i].nearest ? strcmp(name, cases[i].nearest) == 0
                                             : !name && !cases[i].nearest;
        cr_assert(same, "%s: %s", cases[i].typed, name ? name : "(none)");
    }
}

Test(settings_nearest, every_single_mistake_in_every_name_is_forgiven)
{
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        const char *name = kolo_setting_rows[i].name;
        if (strlen(name) < strlen("KOLO_") + 4) /* with three letters one mistake is too much */
            continue;
        for (size_t at = strlen("KOLO_"); name[at]; at++) {
            char typed[64];
            memcpy(typed, name, strlen(name) + 1);
            typed[at] = '9';
            cr_assert((size_t)kolo_setting_nearest(typed) == i, "%s", typed);
        }
    }
}

Test(settings_nearest, names_are_short_enough_to_be_compared)
{
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++)
        cr_assert((size_t)kolo_setting_nearest(kolo_setting_rows[i].name) == i, "%s",
                  kolo_setting_rows[i].name);
}
