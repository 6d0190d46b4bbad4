// SPDX-License-Identifier: Apache-2.0
// What the files of the settings registry share: one row of the table that settings.def makes, and
// the functions on one value. Included by base/settings*.c and their tests only.
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
    int64_t min, max; /* of the number, or of the text's length */
    const char *help;
};

extern const struct kolo_setting_row kolo_setting_rows[KOLO_SETTINGS_COUNT];

/** Parses @p value as @p row says into its field; ERR_CONFIG with value and grammar, and the field
 * as before. */
kolo_status kolo_setting_parse(const struct kolo_setting_row *row, const char *value,
                               struct kolo_settings *settings) KOLO_NODISCARD;

/** What the type of @p row accepts, without bounds: "bytes: N, NKiB, NMiB or NGiB". */
const char *kolo_setting_grammar(const struct kolo_setting_row *row);

/** The bounds of @p row as words: "from 4096 to 16777216"; "" where there is nothing to say. */
void kolo_setting_bounds(const struct kolo_setting_row *row, char *text, size_t capacity);

/** The index of the setting whose name is nearest to @p name (with or without KOLO_), or
 * KOLO_SETTINGS_COUNT if none is near. */
enum kolo_setting_index kolo_setting_nearest(const char *name);

#endif
