// SPDX-License-Identifier: Apache-2.0
// The settings registry: the table generated from settings.def, defaults, the environment, and
// values set by name. The only file of the library and of the tools that reads the environment. It
// must never do so in a program that has more rights than the user who started it (set-user-id, for
// example): a variable could make the program read or write what that user may not. A load is all
// or nothing, since it works on a copy.
#include "base/settings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/settings_table.h"

#define PREFIX "KOLO_"
enum { PREFIX_BYTES = sizeof PREFIX - 1 };

const struct kolo_setting_row kolo_setting_rows[KOLO_SETTINGS_COUNT] = {
#define ROW(field, NAME, TYPE, preset, min, max, help, secret)                                     \
    [KOLO_SET_##NAME] = {PREFIX #NAME, KOLO_TYPE_##TYPE,                                           \
                         secret,       offsetof(struct kolo_settings, field),                      \
                         preset,       min,                                                        \
                         max,          help},
#define KOLO_SETTING(field, NAME, TYPE, preset, min, max, help)                                    \
    ROW(field, NAME, TYPE, preset, min, max, help, false)
#define KOLO_SETTING_SECRET(field, NAME, TYPE, preset, min, max, help)                             \
    ROW(field, NAME, TYPE, preset, min, max, help, true)
#include "base/settings.def"
#undef KOLO_SETTING_SECRET
#undef KOLO_SETTING
#undef ROW
};

void kolo_settings_init(struct kolo_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        const struct kolo_setting_row *row = &kolo_setting_rows[i];
        kolo_status status = kolo_setting_parse(row, row->preset, settings);
        assert(status == KOLO_OK); /* settings.def is wrong; a test reads every default back */
        (void)status;
        settings->source[i] = KOLO_FROM_DEFAULT;
    }
}

/* An environment variable's name must match exactly; KOLO_SETTINGS_COUNT: unknown. */
static size_t find_variable(const char *name, size_t bytes)
{
    size_t index = 0;
    while (index < KOLO_SETTINGS_COUNT && (strlen(kolo_setting_rows[index].name) != bytes ||
                                           memcmp(kolo_setting_rows[index].name, name, bytes) != 0))
        index++;
    return index;
}

/* Options may omit the prefix and are case-insensitive. */
static size_t find_option(const char *name)
{
    if (strncasecmp(name, PREFIX, PREFIX_BYTES) == 0)
        name += PREFIX_BYTES;
    size_t index = 0;
    while (index < KOLO_SETTINGS_COUNT &&
           strcasecmp(kolo_setting_rows[index].name + PREFIX_BYTES, name) != 0)
        index++;
    return index;
}

static kolo_status assign(struct kolo_settings *settings, size_t index, const char *value,
                          enum kolo_setting_source source)
{
    kolo_status status = kolo_setting_parse(&kolo_setting_rows[index], value, settings);
    if (status == KOLO_OK)
        settings->source[index] = (uint8_t)source;
    return status;
}

static void copy_name(const char *entry, size_t bytes, char name[KOLO_TEXT_MAX])
{
    const size_t kept = bytes < KOLO_TEXT_MAX ? bytes : KOLO_TEXT_MAX - 1;
    memcpy(name, entry, kept);
    name[kept] = '\0';
}

static void tell_unknown(const char *entry, size_t bytes,
                         void (*unknown)(void *context, const char *name, const char *nearest),
                         void *context)
{
    char name[KOLO_TEXT_MAX];
    copy_name(entry, bytes, name);
    enum kolo_setting_index nearest = kolo_setting_nearest(name);
    unknown(context, name, nearest == KOLO_SETTINGS_COUNT ? NULL : kolo_setting_rows[nearest].name);
}

kolo_status kolo_settings_load(struct kolo_settings *settings, char *const *environment,
                               void (*unknown)(void *context, const char *name,
                                               const char *nearest),
                               void *context)
{
    struct kolo_settings next = *settings;
    bool seen[KOLO_SETTINGS_COUNT] = {false}; /* the first of two entries counts, as for getenv */
    for (char *const *entry = environment ? environment : kolo_environment_entries(); *entry;
         entry++) {
        const char *equals = strchr(*entry, '=');
        if (!equals || strncmp(*entry, PREFIX, PREFIX_BYTES) != 0)
            continue;
        size_t bytes = (size_t)(equals - *entry);
        size_t index = find_variable(*entry, bytes);
        if (index == KOLO_SETTINGS_COUNT) {
            if (unknown)
                tell_unknown(*entry, bytes, unknown, context);
            continue;
        }
        if (seen[index])
            continue;
        seen[index] = true;
        kolo_status status = assign(&next, index, equals + 1, KOLO_FROM_ENVIRONMENT);
        if (status != KOLO_OK)
            return status;
    }
    *settings = next;
    return KOLO_OK;
}

/* Sets the setting that was found; @p name is what was looked for. */
static kolo_status set_found(struct kolo_settings *settings, size_t index, const char *name,
                             const char *value, enum kolo_setting_source source)
{
    if (index < KOLO_SETTINGS_COUNT)
        return assign(settings, index, value, source);
    enum kolo_setting_index nearest = kolo_setting_nearest(name);
    if (nearest == KOLO_SETTINGS_COUNT)
        return kolo_fail(KOLO_ERR_NOT_FOUND,
                         "unknown setting %.64s; kolorun --help-settings lists them", name);
    return kolo_fail(KOLO_ERR_NOT_FOUND, "unknown setting %.64s; did you mean %s?", name,
                     kolo_setting_rows[nearest].name);
}

kolo_status kolo_settings_set(struct kolo_settings *settings, const char *name, const char *value,
                              enum kolo_setting_source source)
{
    return set_found(settings, find_option(name), name, value, source);
}

kolo_status kolo_settings_set_variable(struct kolo_settings *settings, const char *entry,
                                       enum kolo_setting_source source)
{
    char name[KOLO_TEXT_MAX];
    const size_t bytes = strcspn(entry, "=");
    if (strncmp(entry, PREFIX, PREFIX_BYTES) != 0 || entry[bytes] != '=')
        return KOLO_OK;
    copy_name(entry, bytes, name);
    return set_found(settings, find_variable(entry, bytes), name, entry + bytes + 1, source);
}

const char *kolo_settings_name(enum kolo_setting_index index)
{
    return (size_t)index < KOLO_SETTINGS_COUNT ? kolo_setting_rows[index].name : "KOLO_?";
}

/** Whether the program has rights that the author of its environment does not have. */
static bool has_more_rights(void)
{
    return getauxval(AT_SECURE) != 0;
}

const char *kolo_environment(const char *name)
{
    return has_more_rights() ? NULL : getenv(name);
}

char *const *kolo_environment_entries(void)
{
    static char *const none[] = {NULL};
    return has_more_rights() || !environ ? none : environ;
}

bool kolo_environment_withholds(const char *name)
{
    return has_more_rights() && getenv(name);
}

bool kolo_environment_is_withheld(void)
{
    if (!has_more_rights())
        return false;
    for (char *const *entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, PREFIX, PREFIX_BYTES) == 0)
            return true;
    return false;
}
