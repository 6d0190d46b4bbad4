// SPDX-License-Identifier: Apache-2.0
// Words of a command line, see words.h. A mistake is reported in one line that names the option,
// the value, what is allowed, and the nearest word that would have been right.
#include "bench/words.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "tools/job.h"

enum { WORD_MAX = 40, HELP_COLUMN = 26 };

int bench_refuse(const char *what, const char *value, const char *expected, const char *hint)
{
    job_complain("kolobench", "%s%s%s: expected %s; %s%s%s", what, *value ? " " : "", value,
                 expected, hint ? "did you mean " : "try --help", hint ? hint : "",
                 hint ? "?" : "");
    return 2;
}

/* ---- the nearest word ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The number of insertions, deletions and replacements that turn @p a into @p b, ignoring case. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], width = strlen(b);
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            size_t above = row[j];
            bool differ = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            row[j] = least(least(row[j], row[j - 1]) + 1, diagonal + differ);
            diagonal = above;
        }
    }
    return row[width];
}

const char *bench_nearest(const char *word, const char *const *words)
{
    const char *best = NULL;
    size_t length = strlen(word), allowed = length / 3 + 1;
    for (; length <= WORD_MAX && *words; words++) {
        size_t far = strlen(*words) > WORD_MAX ? WORD_MAX : distance(word, *words);
        if (length >= 3 && strncmp(*words, word, length) == 0)
            far = 1; /* its beginning */
        if (far >= allowed + !best || far >= strlen(*words))
            continue;
        allowed = far;
        best = *words;
    }
    return best;
}

/* ---- options ---- */

static int unknown(const struct bench_flag *flags, const char *word)
{
    const char *names[64] = {NULL};
    for (size_t count = 0; flags->name && count + 1 < sizeof names / sizeof *names; flags++)
        if (flags->help)
            names[count++] = flags->name;
    char bare[WORD_MAX + 1];
    const char *name = word + strspn(word, "-");
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(name, "="), name);
    const char *near = bench_nearest(bare, names);
    job_complain("kolobench", "unknown option '%s'%s%s%s; try --help", word,
                 near ? ", did you mean --" : "", near ? near : "", near ? "?" : "");
    return 2;
}

/* The option that @p word names. *value_out: what follows its '=' or its letter, or NULL. */
static const struct bench_flag *find(const struct bench_flag *flags, const char *word,
                                     const char **value_out)
{
    *value_out = NULL;
    bool is_long = word[1] == '-';
    size_t length = strcspn(word + 2, "=");
    for (const struct bench_flag *flag = flags; !is_long && flag->name; flag++)
        if (strcmp(flag->name, word + 1) == 0) /* -np, as in kolorun */
            return flag;
    for (; flags->name; flags++) {
        if (!is_long && flags->letter == word[1]) {
            if (word[2])
                *value_out = word + 2 + (word[2] == '=');
            return flags;
        }
        if (!is_long || strlen(flags->name) != length || strncmp(flags->name, word + 2, length))
            continue;
        if (word[2 + length])
            *value_out = word + 3 + length;
        return flags;
    }
    return NULL;
}

int bench_flags_parse(const struct bench_flag *flags, char *const *argv, void *target,
                      int (*word)(const char *word, void *target))
{
    int status = BENCH_GO_ON;
    bool only_words = false;
    for (; status == BENCH_GO_ON && *argv; argv++) {
        const char *value;
        if (only_words || argv[0][0] != '-' || !argv[0][1]) {
            status = word(*argv, target);
            continue;
        }
        if (strcmp(*argv, "--") == 0) {
            only_words = true;
            continue;
        }
        const struct bench_flag *flag = find(flags, *argv, &value);
        if (!flag || (value && !flag->value))
            return flag ? bench_refuse(*argv, "", "no value", NULL) : unknown(flags, *argv);
        if (flag->value && !value && !argv[1])
            return bench_refuse(*argv, "", "a value", NULL);
        status = flag->take(flag, flag->value && !value ? *++argv : value, target);
    }
    return status;
}

int bench_take_file(const struct bench_flag *flag, const char *value, const char **path_out)
{
    char option[WORD_MAX];
    snprintf(option, sizeof option, "--%s", flag->name);
    if (!*value)
        return bench_refuse(option, "''", "the name of a file", NULL);
    *path_out = value;
    return BENCH_GO_ON;
}

void bench_flags_help(const struct bench_flag *flags, FILE *out)
{
    for (; flags->name; flags++) {
        if (!flags->help)
            continue;
        char left[64], letter[8] = "    ";
        if (flags->letter)
            snprintf(letter, sizeof letter, "-%c, ", flags->letter);
        snprintf(left, sizeof left, "  %s--%s%s%s", letter, flags->name, flags->value ? " " : "",
                 flags->value ? flags->value : "");
        fprintf(out, "%-*s ", HELP_COLUMN, left);
        if (strlen(left) > HELP_COLUMN)
            fprintf(out, "\n%*s", HELP_COLUMN + 1, "");
        for (const char *at = flags->help; *at; at++) {
            fputc(*at, out);
            if (*at == '\n')
                fprintf(out, "%*s", HELP_COLUMN + 1, "");
        }
        fputc('\n', out);
    }
}

/* ---- numbers ---- */

bool bench_parse_integer(const char *text, int64_t min, int64_t max, int64_t *value_out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || isspace((unsigned char)*text) || value < min || value > max)
        return false;
    *value_out = value;
    return true;
}

bool bench_parse_time(const char *text, int64_t *ns_out)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e9},   {"s", 1e9},    {"ms", 1e6},  {"us", 1e3},
                 {"m", 6e10}, {"min", 6e10}, {"h", 3.6e12}};
    char *end;
    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    double value = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit) != 0 || !(value * units[i].ns >= 1) ||
            value * units[i].ns > 1e15)
            continue;
        *ns_out = (int64_t)(value * units[i].ns);
        return true;
    }
    return false;
}

static bool add_size(int64_t size, int64_t *sizes, size_t *count)
{
    size_t at = *count;
    while (at > 0 && sizes[at - 1] > size)
        at--;
    if (at > 0 && sizes[at - 1] == size)
        return true;
    if (*count == BENCH_SIZES_MAX)
        return false;
    memmove(&sizes[at + 1], &sizes[at], (*count - at) * sizeof *sizes);
    sizes[at] = size;
    ++*count;
    return true;
}

/* FIRST[:LAST[:xN|:+SIZE]] */
static bool add_range(char *text, int64_t *sizes, size_t *count)
{
    int64_t first, last, factor = 4, step = 0;
    char *colon = strchr(text, ':'), *second = colon ? strchr(colon + 1, ':') : NULL;
    if (colon)
        *colon = '\0';
    if (second)
        *second = '\0';
    if (!kolo_size_parse(text, &first) || first < 1)
        return false;
    last = first;
    if (colon && (!kolo_size_parse(colon + 1, &last) || last < first))
        return false;
    if (second && second[1] == '+') {
        if (!kolo_size_parse(second + 2, &step) || step < 1)
            return false;
    } else if (second &&
               !bench_parse_integer(second + 1 + (second[1] == 'x'), 2, 1 << 20, &factor)) {
        return false;
    }
    for (int64_t size = first; size <= last; size = step ? size + step : size * factor) {
        if (!add_size(size, sizes, count))
            return false;
        if (size > INT64_MAX / factor - step)
            break;
    }
    return true;
}

bool bench_parse_sizes(const char *text, int64_t *sizes, size_t *count_out)
{
    char part[96];
    size_t count = 0;
    for (bool more = true; more; text += strcspn(text, ",") + more) {
        size_t length = strcspn(text, ",");
        more = text[length] == ',';
        if (length == 0 || length >= sizeof part)
            return false;
        memcpy(part, text, length);
        part[length] = '\0';
        if (!add_range(part, sizes, &count))
            return false;
    }
    *count_out = count;
    return true;
}

const char *bench_size_text(double bytes, char *text, size_t capacity)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    snprintf(text, capacity, "%.4g %s", bytes, units[unit]);
    return text;
}

const char *bench_time_text(double us, char *text, size_t capacity)
{
    if (us < 1e3)
        snprintf(text, capacity, "%.2f us", us);
    else if (us < 1e6)
        snprintf(text, capacity, "%.2f ms", us / 1e3);
    else
        snprintf(text, capacity, "%.2f s", us / 1e6);
    return text;
}
