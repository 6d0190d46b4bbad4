// SPDX-License-Identifier: Apache-2.0
// Words of a command line: tables of options, one line for each mistake, lists of sizes. Does not
// know any option itself.
#ifndef KOLO_BENCH_WORDS_H
#define KOLO_BENCH_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { BENCH_GO_ON = -1, BENCH_SIZES_MAX = 1024 };

/** Prints one line on standard error: "kolobench: --op summ: expected sum, min or max; did you mean
 * sum?". @p hint NULL: none. @return 2, the exit status. */
int bench_refuse(const char *what, const char *value, const char *expected, const char *hint);

/** The word of @p words (ends with NULL) nearest to @p word; NULL if none is near. */
const char *bench_nearest(const char *word, const char *const *words);

/** One option of a command. */
struct bench_flag {
    char letter;       /* 0: none */
    const char *name;  /* without dashes */
    const char *value; /* its name in the help; NULL: takes no value */
    /* NULL: the option was removed; `take` says what replaces it. It is neither listed nor
     * suggested. */
    const char *help;
    /** Returns BENCH_GO_ON, or the exit status. */
    int (*take)(const struct bench_flag *flag, const char *value, void *target);
};

/** Parses @p argv: options go to their functions with @p target, other words to @p word. @p flags
 * ends with a NULL name. @return BENCH_GO_ON, or the exit status. */
int bench_flags_parse(const struct bench_flag *flags, char *const *argv, void *target,
                      int (*word)(const char *word, void *target));
/** For the function of an option that names an output file: refuses an empty name. */
int bench_take_file(const struct bench_flag *flag, const char *value, const char **path_out);
/** Prints a line for each option. */
void bench_flags_help(const struct bench_flag *flags, FILE *out);

bool bench_parse_integer(const char *text, int64_t min, int64_t max, int64_t *value_out);
/** Parses "0.2s", "200ms" or "1min"; a bare number is seconds. */
bool bench_parse_time(const char *text, int64_t *ns_out);
/** Parses "4,64K,1M", "4:64M" (each times 4), "4:64M:x2", "1M:4M:+1M", and such texts separated by
 * commas. The sizes are in ascending order, without duplicates. Returns false if the text is none
 * of these, or gives more than BENCH_SIZES_MAX sizes.
 */
bool bench_parse_sizes(const char *text, int64_t *sizes, size_t *count_out);
/** "512 B", "64 KiB", "1.5 MiB". */
const char *bench_size_text(double bytes, char *text, size_t capacity);
/** "0.49 us", "3.70 ms", "1.20 s". */
const char *bench_time_text(double us, char *text, size_t capacity);

#endif
