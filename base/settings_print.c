// SPDX-License-Identifier: Apache-2.0
// Settings as text: one value, the help, the values with their sources, docs/SETTINGS.md, and the
// man page. A secret is printed as "(set)" everywhere.
#include <inttypes.h>
#include <string.h>

#include "base/settings_table.h"

static void print_size(size_t bytes, char *text, size_t capacity)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    while (unit < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, capacity, "%zu%s", bytes, units[unit]);
}

static void print_time(int64_t ms, char *text, size_t capacity)
{
    if (ms % 1000 == 0)
        snprintf(text, capacity, "%" PRId64 "s", ms / 1000);
    else
        snprintf(text, capacity, "%" PRId64 "ms", ms);
}

void kolo_settings_value(const struct kolo_settings *settings, enum kolo_setting_index index,
                         char *text, size_t capacity)
{
    const struct kolo_setting_row *row = &kolo_setting_rows[index];
    const void *field = (const char *)settings + row->offset;
    switch (row->type) {
    case KOLO_TYPE_BOOL:
        snprintf(text, capacity, "%s", *(const bool *)field ? "on" : "off");
        return;
    case KOLO_TYPE_INT:
        snprintf(text, capacity, "%" PRId64, *(const int64_t *)field);
        return;
    case KOLO_TYPE_SIZE:
        print_size(*(const size_t *)field, text, capacity);
        return;
    case KOLO_TYPE_TIME:
        print_time(*(const int64_t *)field, text, capacity);
        return;
    case KOLO_TYPE_TEXT:
        snprintf(text, capacity, "%s",
                 row->is_secret && *(const char *)field ? "(set)" : (const char *)field);
        return;
    case KOLO_SETTING_TYPES:
        break;
    }
    snprintf(text, capacity, "?");
}

const char *kolo_setting_source_text(enum kolo_setting_source source)
{
    switch (source) {
    case KOLO_FROM_DEFAULT:
        return "default";
    case KOLO_FROM_ENVIRONMENT:
        return "environment";
    case KOLO_FROM_OPTION:
        return "option";
    case KOLO_FROM_API:
        return "program";
    }
    return "?";
}

static const char *preset_text(const struct kolo_setting_row *row)
{
    return *row->preset ? row->preset : "(empty)";
}

void kolo_settings_print_help(FILE *out)
{
    fprintf(out, "Settings are environment variables. An invalid value is an error; an unknown\n"
                 "KOLO_ variable is a warning.\n");
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        const struct kolo_setting_row *row = &kolo_setting_rows[i];
        char bounds[96];
        kolo_setting_bounds(row, bounds, sizeof bounds);
        fprintf(out, "\n%s\n    %s\n    %s%s%s; default %s\n", row->name, row->help,
                kolo_setting_grammar(row), *bounds ? ", " : "", bounds, preset_text(row));
    }
}

void kolo_settings_print_values(const struct kolo_settings *settings, FILE *out)
{
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        char value[KOLO_TEXT_MAX];
        enum kolo_setting_source source = (enum kolo_setting_source)settings->source[i];
        kolo_settings_value(settings, (enum kolo_setting_index)i, value, sizeof value);
        fprintf(out, "%-22s %-24s %s\n", kolo_setting_rows[i].name, *value ? value : "(empty)",
                kolo_setting_source_text(source));
    }
}

/* Escapes bars, since a bar would end the cell. */
static void print_cell(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

void kolo_settings_print_markdown(FILE *out)
{
    fprintf(out,
            "<!-- Generated from base/settings.def: build target settings-doc. Do not edit. -->\n"
            "# Settings\n\n"
            "Each setting is an environment variable. An invalid value is an error; an unknown "
            "`KOLO_` variable is a warning that\nsuggests the nearest known one. "
            "`kolorun --print-settings` shows each value and where it came from.\n\n"
            "| Variable | Meaning | Accepts | Default |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        const struct kolo_setting_row *row = &kolo_setting_rows[i];
        char bounds[96];
        kolo_setting_bounds(row, bounds, sizeof bounds);
        fprintf(out, "| `%s` | ", row->name);
        print_cell(row->help, out);
        fprintf(out, " | ");
        print_cell(kolo_setting_grammar(row), out);
        fprintf(out, "%s%s | %s |\n", *bounds ? ", " : "", bounds, preset_text(row));
    }
}

/* Escapes text for roff: a hyphen stays a minus sign, so that text copied from the page works. */
static void print_roff(const char *text, FILE *out)
{
    for (; *text != 0; text++) {
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
    }
}

void kolo_settings_print_man(FILE *out)
{
    fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n"
          ".\\\" Generated from base/settings.def: build target settings-doc. Do not edit.\n"
          ".TH KOLO\\-SETTINGS 7 \"\" \"kolo\" \"Miscellaneous\"\n"
          ".SH NAME\nkolo\\-settings \\- environment variables of kolo's library and programs\n"
          ".SH DESCRIPTION\n"
          "Each setting is an environment variable.\n"
          "An invalid value is an error; an unknown KOLO_ variable is a warning that\n"
          "suggests the nearest known one.\n.B kolorun \\-\\-print\\-settings\n"
          "shows each value and where it came from;\n.B kolorun \\-\\-set\nNAME=VALUE gives one "
          "to kolorun and to every rank.\n.SH ENVIRONMENT\n",
          out);
    for (size_t i = 0; i < KOLO_SETTINGS_COUNT; i++) {
        const struct kolo_setting_row *row = &kolo_setting_rows[i];
        char bounds[96];
        kolo_setting_bounds(row, bounds, sizeof bounds);
        fprintf(out, ".TP\n.B %s\n\\&", row->name);
        print_roff(row->help, out);
        fputs(".\n.br\nAccepts ", out);
        print_roff(kolo_setting_grammar(row), out);
        fputs(*bounds ? ", " : "", out);
        print_roff(bounds, out);
        fputs(". Default: ", out);
        print_roff(preset_text(row), out);
        fputs(".\n", out);
    }
    fputs(".SH SEE ALSO\n.BR kolo (7),\n.BR kolorun (1),\n.BR kolo_init (3)\n", out);
}
