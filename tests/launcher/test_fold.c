// SPDX-License-Identifier: Apache-2.0
// What is shown of equal lines, in plain cases; and that from what is shown a reader can tell what
// each rank has written, in which order: a naive reader of the rules in launcher/fold.h unfolds the
// lines of ranks that write, repeat and interrupt each other at random. Also that all credit comes
// back, whatever allocation fails.
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "launcher/fold.h"
#include "launcher/line_end.h"

enum { RANKS_MAX = 400, OWNERS = 3, HELD_MAX = 1 << 20 };

/* ---- what is written, and what is shown of it ---- */

struct lines {
    char **at;
    size_t count, capacity;
};

static void add_line(struct lines *lines, const char *text, size_t bytes)
{
    if (lines->count == lines->capacity) {
        lines->capacity = 2 * lines->capacity + 16;
        lines->at = realloc(lines->at, lines->capacity * sizeof *lines->at);
    }
    lines->at[lines->count] = strndup(text, bytes);
    cr_assert(lines->at[lines->count++]);
}

static void clear_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->at[i]);
    free(lines->at);
    *lines = (struct lines){.at = NULL};
}

struct stage {
    struct kolo_fold *fold;
    int64_t now_ms;
    struct lines written[RANKS_MAX];
    struct lines shown; /* with prefixes */
    size_t put[OWNERS], returned[OWNERS];
};

static void show_line(struct stage *stage, const char *prefix, const uint8_t *at, size_t bytes)
{
    char text[8192];
    const int len = snprintf(text, sizeof text, "%s%.*s", prefix, (int)bytes, (const char *)at);
    cr_assert((size_t)len < sizeof text);
    add_line(&stage->shown, text, (size_t)len);
}

static void on_show(void *context, int owner, int rank, const void *data, size_t bytes)
{
    struct stage *stage = context;
    char prefix[16];
    cr_assert_eq(owner, rank % OWNERS);
    snprintf(prefix, sizeof prefix, "[%d] ", rank);
    for (const uint8_t *at = data, *past = at + bytes, *end; at < past; at = end) {
        end = kolo_line_end(at, past);
        show_line(stage, prefix, at, (size_t)(end - at));
    }
    stage->returned[owner] += bytes;
}

static void on_same(void *context, const char *line, size_t bytes)
{
    cr_assert(line[bytes - 1] == '\n' && strlen(line) == bytes);
    show_line(context, "", (const uint8_t *)line, bytes);
}

static void on_folded(void *context, int owner, size_t bytes)
{
    ((struct stage *)context)->returned[owner] += bytes;
}

static void begin(struct stage *stage, int ranks, size_t held_max)
{
    const struct kolo_fold_events events = {stage, on_show, on_same, on_folded};
    *stage = (struct stage){.now_ms = 1000};
    cr_assert_eq(kolo_fold_create(ranks, OWNERS, held_max, &events, &stage->fold), KOLO_OK);
}

static void write_text(struct stage *stage, int rank, const char *text)
{
    const size_t bytes = strlen(text);
    for (const uint8_t *at = (const uint8_t *)text, *past = at + bytes, *end; at < past; at = end) {
        end = kolo_line_end(at, past);
        add_line(&stage->written[rank], (const char *)at, (size_t)(end - at));
    }
    stage->put[rank % OWNERS] += bytes;
    kolo_fold_add(stage->fold, rank % OWNERS, rank, text, bytes, stage->now_ms);
}

/* As kolorun does. */
static void say_own(struct stage *stage)
{
    kolo_fold_settle(stage->fold);
    show_line(stage, "", (const uint8_t *)"kolorun: this\n", 14);
    kolo_fold_interrupt(stage->fold);
}

/* Compares what was shown since the last call with @p expected lines. */
static void expect(struct stage *stage, const char *expected)
{
    char shown[16384] = "";
    for (size_t i = 0, used = 0; i < stage->shown.count; i++)
        used += (size_t)snprintf(shown + used, sizeof shown - used, "%s", stage->shown.at[i]);
    cr_assert_str_eq(shown, expected);
    clear_lines(&stage->shown);
}

static void expect_settled(struct stage *stage, const char *expected)
{
    kolo_fold_settle(stage->fold);
    cr_assert_eq(kolo_fold_held(stage->fold), 0);
    for (int owner = 0; owner < OWNERS; owner++)
        cr_assert_eq(stage->put[owner], stage->returned[owner], "owner %d", owner);
    expect(stage, expected);
}

static void end(struct stage *stage)
{
    kolo_fold_destroy(stage->fold);
    clear_lines(&stage->shown);
    for (int rank = 0; rank < RANKS_MAX; rank++)
        clear_lines(&stage->written[rank]);
}

static struct stage stage;

/* ---- plain cases ---- */

Test(fold, three_ranks_that_repeat_a_line_are_one_line)
{
    begin(&stage, 8, HELD_MAX);
    write_text(&stage, 2, "rank 5 died\n");
    expect(&stage, "[2] rank 5 died\n"); /* at once */
    for (int rank = 7; rank >= 0; rank--)
        if (rank != 2 && rank != 5)
            write_text(&stage, rank, "rank 5 died\n");
    expect(&stage, "");
    expect_settled(&stage, "[0-1, 3-4, 6-7] the same\n");
    write_text(&stage, 5, "rank 5 died\n"); /* late, and alone */
    expect(&stage, "");
    expect_settled(&stage, "[5] rank 5 died\n");
    end(&stage);
}

Test(fold, two_ranks_are_shown_as_they_are)
{
    begin(&stage, 8, HELD_MAX);
    for (int rank = 0; rank < 3; rank++)
        write_text(&stage, rank, "a\nb\n");
    expect_settled(&stage, "[0] a\n[0] b\n[1] a\n[1] b\n[2] a\n[2] b\n");
    end(&stage);
}

Test(fold, one_rank_that_repeats_itself_is_not_held)
{
    begin(&stage, 8, HELD_MAX);
    for (int i = 0; i < 4; i++)
        write_text(&stage, 1, "tick\n");
    expect(&stage, "[1] tick\n[1] tick\n[1] tick\n[1] tick\n");
    end(&stage);
}

Test(fold, a_block_of_lines_is_one_line)
{
    begin(&stage, 6, HELD_MAX);
    write_text(&stage, 3, "Traceback:\n  a.py\n");
    write_text(&stage, 0, "Traceback:\n");
    write_text(&stage, 1, "Traceback:\n  a.py\nError\n"); /* further than the first */
    write_text(&stage, 3, "Error\n");
    write_text(&stage, 0, "  a.py\nError\n");
    write_text(&stage, 2, "Traceback:\n  a.py\nError\n");
    expect(&stage, "[3] Traceback:\n[3]   a.py\n[3] Error\n");
    expect_settled(&stage, "[0-2] the same 3 lines\n");
    end(&stage);
}

Test(fold, what_stands_between_is_seen)
{
    begin(&stage, 8, HELD_MAX);
    write_text(&stage, 4, "a rank died\n");
    for (int rank = 0; rank < 3; rank++)
        write_text(&stage, rank, "a rank died\n");
    write_text(&stage, 4, "cleaning up\n");
    expect_settled(&stage, "[4] a rank died\n[4] cleaning up\n"
                           "[0-2] the same as rank 4: a rank died\n");
    for (int rank = 5; rank < 8; rank++)
        write_text(&stage, rank, "a rank died\ncleaning up\n");
    expect_settled(&stage, "[5-7] the same 2 lines as rank 4: a rank died\n");
    kolo_fold_interrupt(stage.fold);
    write_text(&stage, 0, "x\n");
    kolo_fold_interrupt(stage.fold);
    for (int rank = 1; rank < 4; rank++)
        write_text(&stage, rank, "x\n");
    expect_settled(&stage, "[0] x\n[1-3] the same as rank 0: x\n");
    write_text(&stage, 4, "y\n");
    say_own(&stage);
    for (int rank = 1; rank < 4; rank++)
        write_text(&stage, rank, "y\n");
    expect_settled(&stage, "[4] y\nkolorun: this\n[1-3] the same as rank 4: y\n");
    end(&stage);
}

Test(fold, a_long_text_is_repeated_in_brief)
{
    char line[256], expected[512];
    begin(&stage, 8, HELD_MAX);
    memset(line, 'a', sizeof line);
    memcpy(line, "\x1b[31m", 5);
    memcpy(line + 70, "\xe2\x82\xac", 3); /* a character that does not fit */
    snprintf(line + 200, sizeof line - 200, "\r\n");
    write_text(&stage, 0, line);
    kolo_fold_interrupt(stage.fold);
    for (int rank = 1; rank < 4; rank++)
        write_text(&stage, rank, line);
    snprintf(expected, sizeof expected, "[0] %s[1-3] the same as rank 0: ?[31m%.65s...\n", line,
             line + 5);
    expect_settled(&stage, expected);
    end(&stage);
}

/* If a later line begins like it, all of the line is repeated. */
Test(fold, lines_that_begin_alike_are_told_apart)
{
    char first[128], second[128], expected[1024];
    begin(&stage, 8, HELD_MAX);
    snprintf(first, sizeof first, "%090d one\n", 0);
    snprintf(second, sizeof second, "%090d two\n", 0);
    write_text(&stage, 0, first);
    write_text(&stage, 0, second);
    for (int rank = 1; rank < 4; rank++)
        write_text(&stage, rank, first);
    snprintf(expected, sizeof expected, "[0] %s[0] %s[1-3] the same as rank 0: %s", first, second,
             first);
    expect_settled(&stage, expected);
    end(&stage);
}

/* Dots at the end of a line look as if something had been cut off. */
Test(fold, lines_that_end_in_dots_are_told_apart)
{
    begin(&stage, 8, HELD_MAX);
    write_text(&stage, 0, "loading...\nready\n");
    for (int rank = 1; rank < 4; rank++)
        write_text(&stage, rank, "loading...\n");
    expect_settled(&stage, "[0] loading...\n[0] ready\n[1-3] the same as rank 0: loading...\n");
    write_text(&stage, 0, "loading: done\n");
    for (int rank = 4; rank < 8; rank++)
        write_text(&stage, rank, "loading...\n");
    expect_settled(&stage, "[0] loading: done\n[4] loading...\n[5-7] the same\n");
    end(&stage);
}

/* What of a rank is folded does not stand between its lines for a reader, who would take the three
 * from the second "loading" on. Others refer to one whose lines are shown for that, if they are
 * enough without it. */
Test(fold, lines_are_read_on_across_folded_ones)
{
    for (int last = 6; last < 8; last++) {
        begin(&stage, 8, HELD_MAX);
        write_text(&stage, 0, "loading\ngood\nready\nloading\n");
        write_text(&stage, 3, "a miss\n");
        for (int rank = 0; rank < 3; rank++)
            write_text(&stage, rank, "a miss\n");
        expect_settled(&stage, "[0] loading\n[0] good\n[0] ready\n[0] loading\n[3] a miss\n"
                               "[0-2] the same\n");
        write_text(&stage, 0, "BAD\n");
        for (int rank = 4; rank < 7; rank++) /* there are not yet three from there on */
            write_text(&stage, rank, "loading\ngood\nready\n");
        expect_settled(&stage, "[0] BAD\n[4-6] the same 3 lines as rank 0: loading\n");
        write_text(&stage, 0, "retry\n");
        for (int rank = 4; rank <= last; rank++)
            write_text(&stage, rank, "loading\ngood\nready\n");
        expect_settled(&stage, last == 6 ? "[0] retry\n[4] loading\n[4] good\n[4] ready\n"
                                           "[5] loading\n[5] good\n[5] ready\n"
                                           "[6] loading\n[6] good\n[6] ready\n"
                                         : "[0] retry\n[4] loading\n[4] good\n[4] ready\n"
                                           "[5-7] the same 3 lines\n");
        end(&stage);
    }
}

/* Some ranks have got further than others. */
Test(fold, what_all_have_in_common_is_one_line)
{
    begin(&stage, 8, HELD_MAX);
    write_text(&stage, 0, "a\nb\nc\nd\n");
    write_text(&stage, 1, "a\nb\n");
    write_text(&stage, 2, "a\nb\nc\n");
    write_text(&stage, 3, "a\nb\nc\nd\n");
    write_text(&stage, 4, "a\nb\nc\nd\n");
    expect_settled(&stage, "[0] a\n[0] b\n[0] c\n[0] d\n[1-4] the same 2 lines as rank 0: a\n"
                           "[2-4] the same as rank 0: c\n[3] d\n[4] d\n");
    kolo_fold_interrupt(stage.fold);
    write_text(&stage, 0, "a\nb\nc\n");
    write_text(&stage, 5, "a\n"); /* that is less than half */
    for (int rank = 6; rank < 8; rank++)
        write_text(&stage, rank, "a\nb\nc\n");
    expect_settled(&stage, "[0] a\n[0] b\n[0] c\n[5] a\n[6] a\n[6] b\n[6] c\n[7] a\n[7] b\n"
                           "[7] c\n");
    end(&stage);
}

Test(fold, what_differs_is_shown_after_what_is_the_same)
{
    begin(&stage, 5, HELD_MAX);
    write_text(&stage, 0, "failed\n");
    for (int rank = 1; rank < 5; rank++) {
        char own[64];
        snprintf(own, sizeof own, "failed\nin process %d\nbye\n", 100 + rank);
        write_text(&stage, rank, own);
    }
    expect_settled(&stage, "[0] failed\n[1-4] the same\n[1] in process 101\n[1] bye\n"
                           "[2] in process 102\n[3] in process 103\n[4] in process 104\n"
                           "[2-4] the same as rank 1: bye\n");
    end(&stage);
}

/* A rank has begun a block that another one has only in part, and is held in the middle of it. What
 * it has left is shown before others are said to have written the same as both. */
Test(fold, a_block_that_begins_late_is_one_line)
{
    begin(&stage, 6, HELD_MAX);
    write_text(&stage, 0, "99%");
    write_text(&stage, 0, "Traceback:\nb\nc\n"); /* its beginning ends the bar */
    for (int rank = 1; rank < 5; rank++)
        write_text(&stage, rank, "Traceback:\nb\nc\n");
    expect_settled(&stage, "[0] 99%[0] Traceback:\n[0] b\n[0] c\n[1] Traceback:\n[1] b\n[1] c\n"
                           "[2-4] the same 3 lines\n");
    end(&stage);
}

/* What others repeat may be pushed out of memory by what is shown before it is their turn. */
Test(fold, lines_that_are_forgotten_meanwhile_are_shown)
{
    enum { LONG = 62 };
    static char text[LONG][4002];
    begin(&stage, 8, HELD_MAX);
    write_text(&stage, 2, "x\n");
    for (int i = 0; i < LONG; i++) {
        snprintf(text[i], sizeof text[i], "%04000d\n", i);
        write_text(&stage, 3, text[i]);
    }
    write_text(&stage, 4, "y\n");
    write_text(&stage, 1, "y\n");
    for (int i = 0; i < LONG; i++)
        write_text(&stage, 1, text[i]);
    for (int rank = 5; rank < 8; rank++)
        write_text(&stage, rank, "x\n");
    cr_assert_eq(stage.shown.count, (size_t)LONG + 2);
    clear_lines(&stage.shown);
    kolo_fold_settle(stage.fold);
    cr_assert_eq(stage.shown.count, (size_t)1 + LONG + 3);
    cr_assert_str_eq(stage.shown.at[1 + LONG], "[5] x\n");
    cr_assert_str_eq(stage.shown.at[3 + LONG], "[7] x\n");
    end(&stage);
}

Test(fold, bars_and_lines_without_an_end_are_not_held)
{
    begin(&stage, 5, HELD_MAX);
    for (int rank = 0; rank < 5; rank++)
        write_text(&stage, rank, "10%\r20%\r");
    expect(&stage, "[0] 10%\r[0] 20%\r[1] 10%\r[1] 20%\r[2] 10%\r[2] 20%\r[3] 10%\r[3] 20%\r"
                   "[4] 10%\r[4] 20%\r");
    for (int rank = 0; rank < 4; rank++)
        write_text(&stage, rank, "name? ");
    for (int rank = 0; rank < 4; rank++)
        write_text(&stage, rank, "really?\n"); /* belongs to it */
    expect(&stage, "[0] name? [1] name? [2] name? [3] name? [0] really?\n[1] really?\n"
                   "[2] really?\n[3] really?\n");
    write_text(&stage, 0, "x\n");
    write_text(&stage, 1, "x\n");
    expect(&stage, "[0] x\n");
    write_text(&stage, 1, "50%\r"); /* of a rank that is held */
    expect(&stage, "[1] x\n[1] 50%\r");
    end(&stage);
}

Test(fold, long_lines_are_not_held)
{
    static char line[8000];
    begin(&stage, 5, HELD_MAX);
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    for (int rank = 0; rank < 5; rank++) {
        write_text(&stage, rank, line);
        cr_assert_eq(stage.shown.count, (size_t)rank + 1);
    }
    end(&stage);
}

Test(fold, only_what_is_recent_is_repeated)
{
    begin(&stage, 5, HELD_MAX);
    write_text(&stage, 0, "a\n");
    stage.now_ms += 2001;
    write_text(&stage, 1, "a\n");
    expect(&stage, "[0] a\n[1] a\n");
    stage.now_ms += 1999;
    write_text(&stage, 2, "a\n");
    expect(&stage, "");
    end(&stage);
}

/* What is written elsewhere in between comes behind what was held. */
Test(fold, the_order_of_a_rank_is_kept_beside_others)
{
    begin(&stage, 5, HELD_MAX);
    write_text(&stage, 0, "a\n");
    write_text(&stage, 1, "a\n");
    kolo_fold_beside(stage.fold, 2, "out\n", 4);
    kolo_fold_beside(stage.fold, 1, "", 0);
    expect(&stage, "[0] a\n");
    kolo_fold_beside(stage.fold, 1, "prompt", 6);
    expect(&stage, "[1] a\n");
    write_text(&stage, 1, "a\n"); /* goes on behind the prompt */
    expect(&stage, "[1] a\n");
    end(&stage);
}

Test(fold, hundreds_of_scattered_ranks_are_all_named)
{
    begin(&stage, RANKS_MAX, HELD_MAX);
    for (int rank = 0; rank < RANKS_MAX; rank += 2)
        write_text(&stage, rank, "a\n");
    kolo_fold_settle(stage.fold);
    cr_assert_str_eq(stage.shown.at[0], "[0] a\n");
    char all[4096] = "";
    for (size_t i = 1; i < stage.shown.count; i++) {
        const char *line = stage.shown.at[i];
        cr_assert(strlen(line) < 300 && !strstr(line, "..."), "%s", line);
        cr_assert(i == 1 || strstr(line, "] the same as rank 0: a\n") ||
                      strstr(line, "] the same\n"),
                  "%s", line);
        snprintf(all + strlen(all), sizeof all - strlen(all), ", %.*s", (int)strcspn(line, "]") - 1,
                 line + 1);
    }
    cr_assert(stage.shown.count < 10);
    for (int rank = 2; rank < RANKS_MAX; rank += 2) {
        char number[16];
        snprintf(number, sizeof number, ", %d%s", rank, rank == RANKS_MAX - 2 ? "" : ",");
        cr_assert(strstr(all, number), "rank %d", rank);
    }
    end(&stage);
}

/* Whoever writes much is shown before the time is over. */
Test(fold, what_is_held_is_bounded)
{
    enum { SOME = 1000 };
    begin(&stage, 5, SOME);
    write_text(&stage, 0, "a\n");
    write_text(&stage, 1, "a\n");
    for (int i = 0; i < SOME; i++) {
        char line[32];
        snprintf(line, sizeof line, "this is line %d\n", i);
        write_text(&stage, 1, line);
        cr_assert_leq(stage.put[1] - stage.returned[1], (size_t)SOME);
        cr_assert((kolo_fold_held(stage.fold) > 0) == (stage.shown.count == 1));
    }
    cr_assert_eq(stage.shown.count, (size_t)SOME + 2);
    end(&stage);
}

/* ---- at random ---- */

static uint32_t seed;

static uint32_t below(uint32_t limit)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * limit >> 32);
}

/* In whatever order ranks write the same, the first is shown and the others are one line. */
Test(fold, who_is_ahead_does_not_matter, .timeout = 60)
{
    enum { RANKS = 9, LINES = 7, ROUNDS = 300 };
    for (int round = 0; round < ROUNDS; round++) {
        size_t done[RANKS] = {0}, left = RANKS * LINES;
        int first = -1;
        char expected[512] = "", others[64] = "[";
        begin(&stage, RANKS, HELD_MAX);
        for (uint32_t rank = below(RANKS); left > 0; rank = below(RANKS)) {
            char text[256] = "";
            for (size_t n = 1 + below(3); n > 0 && done[rank] < LINES; n--, left--)
                snprintf(text + strlen(text), sizeof text - strlen(text), "line %zu\n",
                         done[rank]++ % 5); /* the last two are as the first two */
            first = first < 0 ? (int)rank : first;
            write_text(&stage, (int)rank, text);
        }
        for (size_t i = 0; i < LINES; i++)
            snprintf(expected + strlen(expected), sizeof expected - strlen(expected),
                     "[%d] line %zu\n", first, i % 5);
        snprintf(others, sizeof others,
                 first == 0           ? "[1-8]"
                 : first == 1         ? "[0, 2-8]"
                 : first == RANKS - 2 ? "[0-6, 8]"
                 : first == RANKS - 1 ? "[0-7]"
                                      : "[0-%d, %d-8]",
                 first - 1, first + 1);
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected),
                 "%s the same 7 lines\n", others);
        expect_settled(&stage, expected);
        end(&stage);
    }
}

/* A naive reader. */
static void brief(const char *line, size_t max, char out[8192])
{
    size_t len = strcspn(line, "\r\n");
    const bool is_long = len > max;
    len = is_long ? max : len;
    snprintf(out, 8192, "%.*s%s", (int)len, line, is_long ? "..." : "");
}

/* The latest place in what was shown as it is. */
static size_t find_meant(const struct lines *of, size_t lines, const char *text)
{
    char line[8192];
    const size_t len = strlen(text);
    const bool goes_on = len >= 3 && strcmp(text + len - 3, "...") == 0; /* or its own dots */
    for (size_t left = of->count + 1; left-- > lines;) {
        const size_t at = left - lines;
        brief(of->at[at], 8000, line);
        if (strcmp(line, text) == 0 || (goes_on && strncmp(line, text, len - 3) == 0))
            return at;
    }
    cr_assert(false, "nothing begins with '%s'", text);
    return 0;
}

/* The numbers in "[0-2, 5] ...". Returns how many. */
static size_t read_ranks(const char *line, int ranks[RANKS_MAX])
{
    size_t count = 0;
    char *at = (char *)(uintptr_t)line;
    do {
        const long low = strtol(at + 1, &at, 10), high = *at == '-' ? strtol(at + 1, &at, 10) : low;
        for (long rank = low; rank <= high; rank++)
            ranks[count++] = (int)rank;
    } while (*at == ',');
    cr_assert_eq(*at, ']');
    return count;
}

/* What a reader knows of a rank. */
struct known {
    struct lines wrote, whole; /* whole: those that were shown as they are */
};

/* Returns where the lines that are meant begin, and sets whose they are. */
static size_t find_same(const struct lines *shown, size_t at, size_t lines,
                        const struct known *ranks, int *of_out)
{
    const char *as = strstr(shown->at[at], " as rank ");
    char meant[8192];
    int one[RANKS_MAX];
    if (as) {
        *of_out = (int)strtol(as + 9, NULL, 10);
        brief(strstr(as, ": ") + 2, 8000, meant);
        return find_meant(&ranks[*of_out].whole, lines, meant);
    }
    *of_out = (int)strtol(shown->at[at - lines] + 1, NULL, 10);
    for (size_t i = 1; i <= lines; i++)
        cr_assert(read_ranks(shown->at[at - i], one) == 1 && one[0] == *of_out);
    return ranks[*of_out].whole.count - lines;
}

static void unfold_line(const struct lines *shown, size_t at, struct known *ranks_out)
{
    const char *line = shown->at[at], *text = strstr(line, "] ");
    int ranks[RANKS_MAX], of;
    size_t lines = 1;
    if (line[0] != '[') /* kolorun's own */
        return;
    const size_t count = read_ranks(line, ranks);
    text += 2;
    if (count == 1) {
        add_line(&ranks_out[ranks[0]].wrote, text, strlen(text));
        add_line(&ranks_out[ranks[0]].whole, text, strlen(text));
        return;
    }
    cr_assert_geq(count, (size_t)KOLO_FOLD_RANKS_MIN);
    cr_assert(strncmp(text, "the same", 8) == 0, "%s", line);
    if (text[8] == ' ' && text[9] != 'a')
        lines = (size_t)strtol(text + 9, NULL, 10);
    const size_t begin = find_same(shown, at, lines, ranks_out, &of);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < lines; j++) {
            const char *same = ranks_out[of].whole.at[begin + j];
            add_line(&ranks_out[ranks[i]].wrote, same, strlen(same));
        }
}

static void check_unfolded(int ranks)
{
    static struct known known[RANKS_MAX];
    for (size_t at = 0; at < stage.shown.count; at++)
        unfold_line(&stage.shown, at, known);
    for (int rank = 0; rank < ranks; rank++) {
        const struct lines *have = &known[rank].wrote, *want = &stage.written[rank];
        for (size_t i = 0; i < have->count && i < want->count; i++)
            cr_assert_str_eq(have->at[i], want->at[i], "rank %d, line %zu", rank, i);
        cr_assert_eq(have->count, want->count, "rank %d", rank);
        clear_lines(&known[rank].wrote);
        clear_lines(&known[rank].whole);
    }
}

static uint32_t rare = 40; /* one of so many lines */

/* A line of a few texts, some of which begin alike; rarely one that cannot be folded. */
static void add_random(char *text, size_t capacity, uint32_t texts)
{
    static const char *const ends[] = {"\n", "\r\n", "\r", ""};
    const size_t used = strlen(text);
    const uint32_t which = below(texts), kind = below(rare);
    const char *stop = ends[kind < 4 ? kind : 0];
    if (which % 5 == 0)
        snprintf(text + used, capacity - used, "%0*u%s", which % 2 ? 80 : 74, which, stop);
    else if (which % 11 == 1)
        snprintf(text + used, capacity - used, "%080d %u%s", 0, which, stop);
    else
        snprintf(text + used, capacity - used, "%.*s%s%s", (int)(which % 7), "abcdefg",
                 which % 13 == 2 ? "..." : "", stop);
}

/* All ranks write the same script; each leaves out or adds some lines of its own. */
static void act_at_random(int ranks, uint32_t texts, bool are_alike)
{
    size_t at[RANKS_MAX] = {0};
    char script[32][128];
    for (size_t i = 0; i < 32; i++) {
        script[i][0] = '\0';
        add_random(script[i], sizeof script[i], texts);
    }
    for (int step = 0; step < 60; step++) {
        char text[1024] = "";
        const int rank = (int)below((uint32_t)ranks);
        for (uint32_t n = 1 + below(5); n > 0; n--) {
            if (are_alike && below(rare) != 0)
                strcat(text, script[at[rank]++ % 32]);
            else
                add_random(text, sizeof text, texts);
        }
        write_text(&stage, rank, text);
        stage.now_ms += below(5 * rare) == 0 ? 3000 : below(20);
        if (below(rare) == 0)
            say_own(&stage);
        else if (below(rare) == 0)
            kolo_fold_interrupt(stage.fold);
        else if (below(rare / 3) == 0)
            kolo_fold_settle(stage.fold);
    }
}

Test(fold, what_each_rank_wrote_can_be_told, .timeout = 120)
{
    enum { ROUNDS = 6000 };
    size_t written = 0, shown = 0;
    for (int round = 0; round < ROUNDS; round++) {
        seed = (uint32_t)round * 2654435761u;
        const int ranks = 4 + (int)below(9);
        begin(&stage, ranks, round % 3 == 0 ? 200 + below(400) : HELD_MAX);
        rare = round % 4 == 0 ? 1000 : 30;
        act_at_random(ranks, 2 + below(30), round % 2 == 0);
        kolo_fold_settle(stage.fold);
        for (int owner = 0; owner < OWNERS; owner++)
            cr_assert_eq(stage.put[owner], stage.returned[owner], "round %d", round);
        for (int rank = 0; rank < ranks && rare == 1000; rank++)
            written += stage.written[rank].count;
        shown += rare == 1000 ? stage.shown.count : 0;
        check_unfolded(ranks);
        end(&stage);
    }
    cr_assert_lt(shown, written - written / 5, "%zu of %zu lines are shown", shown, written);
}

/* Long lines make old ones leave the ring. */
Test(fold, what_is_far_above_is_not_referred_to, .timeout = 120)
{
    enum { RANKS = 6, ROUNDS = 40 };
    for (int round = 0; round < ROUNDS; round++) {
        seed = (uint32_t)round;
        begin(&stage, RANKS, HELD_MAX);
        for (int step = 0; step < 300; step++) {
            static char text[8192];
            const uint32_t which = below(40);
            snprintf(text, sizeof text, "%0*u\n", round % 2 ? 4000 : 3, which);
            for (uint32_t n = below(5) == 0 ? below(RANKS) : 1; n > 0; n--)
                write_text(&stage, (int)below(RANKS), text);
            if (below(10) == 0)
                kolo_fold_settle(stage.fold);
        }
        kolo_fold_settle(stage.fold);
        check_unfolded(RANKS);
        end(&stage);
    }
}

/* Without memory lines are shown as they are. */
Test(fold, a_failed_allocation_loses_nothing, .timeout = 120)
{
    const struct kolo_fold_events events = {&stage, on_show, on_same, on_folded};
    for (uint64_t nth = 1; nth <= 7; nth++) {
        kolo_alloc_fail_nth(nth);
        cr_assert_eq(kolo_fold_create(4, 1, 1, &events, &stage.fold), KOLO_ERR_NO_MEMORY);
    }
    kolo_alloc_fail_nth(0);
    for (uint64_t nth = 1; nth < 60; nth++) {
        seed = (uint32_t)nth;
        begin(&stage, 5, HELD_MAX);
        kolo_alloc_fail_nth(nth);
        act_at_random(5, 12, true);
        kolo_alloc_fail_nth(0);
        kolo_fold_settle(stage.fold);
        for (int owner = 0; owner < OWNERS; owner++)
            cr_assert_eq(stage.put[owner], stage.returned[owner]);
        check_unfolded(5);
        end(&stage);
    }
}
