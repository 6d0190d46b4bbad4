// SPDX-License-Identifier: Apache-2.0
// The settings registry: everything that can be tuned is one line of settings.def. Read once, then
// const. The only file of the project that reads the environment.
#ifndef KOLO_BASE_SETTINGS_H
#define KOLO_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

enum { KOLO_TEXT_MAX = 256 };

enum kolo_setting_source {
    KOLO_FROM_DEFAULT,
    KOLO_FROM_ENVIRONMENT,
    KOLO_FROM_OPTION,
    KOLO_FROM_API
};

#define KOLO_CTYPE_BOOL(field) bool field
#define KOLO_CTYPE_INT(field) int64_t field
#define KOLO_CTYPE_SIZE(field) size_t field
#define KOLO_CTYPE_TIME(field) int64_t field
#define KOLO_CTYPE_TEXT(field) char field[KOLO_TEXT_MAX]

enum kolo_setting_index {
#define KOLO_SETTING(field, NAME, TYPE, preset, min, max, help) KOLO_SET_##NAME,
#define KOLO_SETTING_SECRET KOLO_SETTING
#include "base/settings.def"
#undef KOLO_SETTING_SECRET
#undef KOLO_SETTING
    KOLO_SETTINGS_COUNT
};

struct kolo_settings {
#define KOLO_SETTING(field, NAME, TYPE, preset, min, max, help) KOLO_CTYPE_##TYPE(field);
#define KOLO_SETTING_SECRET KOLO_SETTING
#include "base/settings.def"
#undef KOLO_SETTING_SECRET
#undef KOLO_SETTING
    uint8_t source[KOLO_SETTINGS_COUNT]; /* enum kolo_setting_source of each */
};

/** Defaults only. */
void kolo_settings_init(struct kolo_settings *settings);

/** Applies every KOLO_* of @p environment (a NULL-terminated "NAME=value" array; NULL: this
 * process's environment).
 *  @return ERR_CONFIG for a bad value: the detail names variable, value and grammar; nothing is
 * applied then. An unknown KOLO_* is no error: @p unknown (may be NULL) is called with its name and
 * the nearest known name or NULL. */
kolo_status kolo_settings_load(struct kolo_settings *settings, char *const *environment,
                               void (*unknown)(void *context, const char *name,
                                               const char *nearest),
                               void *context) KOLO_NODISCARD;

/** Sets one by name ("KOLO_TIMEOUT", "TIMEOUT" or "timeout"). ERR_CONFIG as above; ERR_NOT_FOUND
 * with "did you mean". */
kolo_status kolo_settings_set(struct kolo_settings *settings, const char *name, const char *value,
                              enum kolo_setting_source source) KOLO_NODISCARD;

/** Writes the value of setting @p index as text that kolo_settings_set takes back ("(set)" for a
 * secret that is set). */
void kolo_settings_value(const struct kolo_settings *settings, enum kolo_setting_index index,
                         char *text, size_t capacity);
const char *kolo_settings_name(enum kolo_setting_index index); /* "KOLO_TIMEOUT" */
const char *
kolo_setting_source_text(enum kolo_setting_source source); /* "default", "environment", ... */

/** A number of bytes as a SIZE setting takes it: "64", "4K", "1MiB". False: it is none. */
bool kolo_size_parse(const char *text, int64_t *bytes_out);

void kolo_settings_print_help(FILE *out); /* kolorun --help-settings */
void kolo_settings_print_values(const struct kolo_settings *settings,
                                FILE *out);   /* kolorun --print-settings */
void kolo_settings_print_markdown(FILE *out); /* docs/SETTINGS.md */
void kolo_settings_print_man(FILE *out);      /* docs/man/kolo-settings.7 */

/** Raw access for the few that need a variable which is no setting of kolo's (HOME, PATH, TERM), or
 * need one before there are settings (KOLO_RANK). */
const char *kolo_environment(const char *name);
/** All of it, "NAME=value", NULL-terminated. Both: nothing in a program that has more rights than
 * whoever started it (set-user-id, set-group-id, capabilities of its file). */
char *const *kolo_environment_entries(void);
/** Is it such a program, and is there this variable, or any KOLO_*, that is not read? */
bool kolo_environment_withholds(const char *name);
bool kolo_environment_is_withheld(void);

#endif
