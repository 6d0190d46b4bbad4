// SPDX-License-Identifier: Apache-2.0
// Shared by base/settings*.c and their tests only: a row of the table that is generated from
// settings.def, and the functions on one value.
#ifndef KOLO_BASE_SETTINGS_TABLE_H
#define KOLO_BASE_SETTINGS_TABLE_H

#include "base/settings.h"

enum kolo_setting_type {
    KOLO_TYPE_BOOL,
    KOLO_TYPE_INT,
    KOLO_TYPE_SIZE,
    KOLO_TYPE_TIME,
    KOLO_TYPE_TEXT,
    KOLO_SETTING_TYPES
};

struct kolo_setting_row {
    const char *name; /* "KOLO_TIMEOUT" */
    enum kolo_setting_type type;
    bool is_secret;
    size_t offset; /* in struct kolo_settings */
    const char *preset;
    int64_t min, max; /* of the number, or of the length of the text */
    const char *help;
};

extern const struct kolo_setting_row kolo_setting_rows[KOLO_SETTINGS_COUNT];

/** Parses @p value into the field of @p row. ERR_CONFIG with value and grammar; the field is then
 *  unchanged. */
kolo_status kolo_setting_parse(const struct kolo_setting_row *row, const char *value,
                               struct kolo_settings *settings) KOLO_NODISCARD;

/** What the type of @p row accepts, without its bounds, such as "a decimal integer". */
const char *kolo_setting_grammar(const struct kolo_setting_row *row);

/** Writes the bounds of @p row in words: "from 4096 to 16777216"; "" if there is nothing to say. */
void kolo_setting_bounds(const struct kolo_setting_row *row, char *text, size_t capacity);

/** The index of the setting whose name is nearest to @p name (with or without KOLO_);
 *  KOLO_SETTINGS_COUNT: no name is near. */
enum kolo_setting_index kolo_setting_nearest(const char *name);

#endif
