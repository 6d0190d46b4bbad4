// SPDX-License-Identifier: Apache-2.0
// The settings registry. Every setting is one line of settings.def. Settings are read once and do
// not change afterwards. settings.c is the only file of the library and of the tools that reads
// the environment.
#ifndef KOLO_BASE_SETTINGS_H
#define KOLO_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

enum {
    KOLO_TEXT_MAX = 256,
    KOLO_SIZE_MAX = 1048576 /* the largest KOLO_SIZE, as settings.def has it */
};

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

/** Sets every setting to its default. */
void kolo_settings_init(struct kolo_settings *settings);

/** Applies every KOLO_* variable of @p environment (a NULL-terminated array of "NAME=value"; NULL:
 *  this process's environment).
 *  @return ERR_CONFIG for an invalid value: the detail names variable, value and grammar, and
 *  nothing is applied. An unknown KOLO_* is not an error: @p unknown (may be NULL) is called with
 *  its name and the nearest known name, or NULL. */
kolo_status kolo_settings_load(struct kolo_settings *settings, char *const *environment,
                               void (*unknown)(void *context, const char *name,
                                               const char *nearest),
                               void *context) KOLO_NODISCARD;

/** Sets one setting by name ("KOLO_TIMEOUT", "TIMEOUT" or "timeout"). ERR_CONFIG as above;
 *  ERR_NOT_FOUND with "did you mean". */
kolo_status kolo_settings_set(struct kolo_settings *settings, const char *name, const char *value,
                              enum kolo_setting_source source) KOLO_NODISCARD;

/** Sets what @p entry ("KOLO_TIMEOUT=5s") would set in the environment of a rank, where a name must
 *  match exactly; an entry without KOLO_ sets nothing. The errors are those of kolo_settings_set:
 *  what somebody gives by hand is a mistake if it is unknown. */
kolo_status kolo_settings_set_variable(struct kolo_settings *settings, const char *entry,
                                       enum kolo_setting_source source) KOLO_NODISCARD;

/** Writes the value of setting @p index as text that kolo_settings_set accepts ("(set)" for a
 *  secret that is set). */
void kolo_settings_value(const struct kolo_settings *settings, enum kolo_setting_index index,
                         char *text, size_t capacity);
const char *kolo_settings_name(enum kolo_setting_index index); /* "KOLO_TIMEOUT" */
const char *
kolo_setting_source_text(enum kolo_setting_source source); /* "default", "environment", ... */

/** Parses a number of bytes as a SIZE setting: "64", "4K", "1MiB". False: it is not one. */
bool kolo_size_parse(const char *text, int64_t *bytes_out);

void kolo_settings_print_help(FILE *out); /* kolorun --help-settings */
void kolo_settings_print_values(const struct kolo_settings *settings,
                                FILE *out);   /* kolorun --print-settings */
void kolo_settings_print_markdown(FILE *out); /* docs/SETTINGS.md */
void kolo_settings_print_man(FILE *out);      /* docs/man/kolo-settings.7 */

/** Direct access to the environment, for variables that are not kolo's settings (HOME, PATH, TERM),
 *  or that are needed before there are settings (KOLO_RANK). */
const char *kolo_environment(const char *name);
/** The whole environment as "NAME=value", NULL-terminated. In a program that has more rights than
 *  the user who started it (set-user-id, set-group-id, file capabilities), this and
 *  kolo_environment return nothing. */
char *const *kolo_environment_entries(void);
/** Whether this is such a program, and the variable @p name, or any KOLO_* variable, is set and
 *  therefore ignored. */
bool kolo_environment_withholds(const char *name);
bool kolo_environment_is_withheld(void);

#endif
