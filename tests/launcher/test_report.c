// SPDX-License-Identifier: Apache-2.0
// What the ranks of a job do, in lines: who is told together, in which words, and how many lines.
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "base/clock.h"
#include "launcher/report.h"

static const int64_t now_ns = INT64_C(100000000000);
static char lines[8192];

static void keep(void *context, const char *line)
{
    (void)context;
    const size_t used = strlen(lines);
    snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

static void expect(const struct kolo_report_rank *ranks, int size, enum kolo_report_choice choice,
                   const char *expected)
{
    int count = 0;
    lines[0] = '\0';
    const int told = kolo_report(ranks, size, choice, now_ns, keep, NULL);
    for (const char *at = lines; (at = strchr(at, '\n')); at++)
        count++;
    cr_assert_str_eq(lines, expected);
    cr_assert_eq(told, count);
}

static const struct kolo_store_view in_a = {.place = KOLO_VIEW_HERE,
                                            .pid = 11,
                                            .call = "a",
                                            .since_ns = INT64_C(88000000000),
                                            .words = "allreduce(count 1, float32, sum) sequence 5"};
static const struct kolo_store_view in_b = {.place = KOLO_VIEW_HERE,
                                            .pid = 12,
                                            .call = "b",
                                            .since_ns = INT64_C(99000000000),
                                            .words =
                                                "recv(count 7, float64, from rank 0) sequence 0"};
static const struct kolo_store_view here = {.place = KOLO_VIEW_HERE, .pid = 13};
static const struct kolo_store_view wanted = {
    .place = KOLO_VIEW_HERE, .pid = 16, .is_awaited = true};
static const struct kolo_store_view absent = {.place = KOLO_VIEW_ABSENT};
static const struct kolo_store_view left = {.place = KOLO_VIEW_LEFT, .pid = 14};
static const struct kolo_store_view gone = {.place = KOLO_VIEW_GONE, .pid = 15};

static const struct kolo_sight reads = {.pid = 812, .state = 'S', .blocked = "read of /data/a"};
static const struct kolo_sight sleeps = {.pid = 813, .state = 'S', .blocked = "nanosleep"};
static const struct kolo_sight works = {.pid = 814, .state = 'R', .permille = 903};
static const struct kolo_sight works_more = {.pid = 815, .state = 'R', .permille = 3000};

Test(report, ranks_that_do_the_same_share_a_line)
{
    const struct kolo_report_rank ranks[] = {
        {"a", false, in_a, &sleeps, 0}, {"a", false, in_a, NULL, 0},
        {"a", false, here, &reads, 0},  {"b", false, in_a, &reads, 0},
        {"b", false, here, &works, 0},  {"b", false, here, &works_more, 0},
        {"b", false, in_b, &sleeps, 0}, {"b", true, left, NULL, 0},
        {"b", true, gone, &sleeps, 0},  {"c", false, left, &sleeps, 0},
        {"c", false, gone, &sleeps, 0}, {"c", false, absent, &sleeps, 0},
        {"d", false, absent, NULL, 0}};
    expect(
        ranks, 13, KOLO_REPORT_ALL,
        "ranks 0-1, 3 wait in allreduce(count 1, float32, sum) sequence 5, for 12 s\n"
        "rank 6 (b, pid 813) waits in recv(count 7, float64, from rank 0) sequence 0, for 1.0 s\n"
        "rank 2 (a, pid 812) waits in no known call: blocked in read of /data/a\n"
        "ranks 4-5 (b) wait in no known call: busy (90 to 300 % of a processor each)\n"
        "rank 9 (c, pid 813) has called kolo_finalize: blocked in nanosleep (it sleeps)\n"
        "rank 10 (c, pid 813) has lost its connection: blocked in nanosleep (it sleeps)\n"
        "rank 11 (c, pid 813) has not called kolo_init: blocked in nanosleep (it sleeps)\n"
        "rank 12 (d) has not called kolo_init\n"
        "ranks 7-8 (b) have ended\n");
}

/** Ranks that wait for their own devices: in the same call, and before one. */
Test(report, says_who_waits_for_its_own_device)
{
    struct kolo_store_view behind = in_a, before = in_b, other = in_b;
    behind.own = KOLO_OWN_STREAM;
    before.own = other.own = KOLO_OWN_DEVICE;
    before.is_awaited = true;
    other.call = "c";
    const struct kolo_report_rank ranks[] = {
        {"a", false, in_a, NULL, 0},   {"a", false, behind, NULL, 0}, {"a", false, in_a, NULL, 0},
        {"b", false, before, NULL, 0}, {"b", false, other, NULL, 0},  {"b", false, in_b, NULL, 0}};
    expect(ranks, 6, KOLO_REPORT_ALL,
           "ranks 0, 2 (a) wait in allreduce(count 1, float32, sum) sequence 5, for 12 s\n"
           "rank 1 (a, pid 11) waits in allreduce(count 1, float32, sum) sequence 5, for 12 s: for "
           "the earlier work of its stream\n"
           "ranks 3-4 (b) wait in recv(count 7, float64, from rank 0) sequence 0, for 1.0 s: each "
           "for the earlier work of its device\n"
           "rank 5 (b, pid 12) waits in recv(count 7, float64, from rank 0) sequence 0, for 1.0 "
           "s\n");
    expect(ranks, 6, KOLO_REPORT_MISSING, "");
}

/** The name of the process says what its number is, if that is not the number which was started. */
Test(report, names_a_process_that_a_script_has_started)
{
    const struct kolo_sight python = {.pid = 9, .name = "python3", .state = 'R', .permille = 950};
    const struct kolo_sight hidden = {.pid = 9, .state = '?'};
    struct kolo_report_rank ranks[] = {{"a", false, here, &python, 8}};
    expect(ranks, 1, KOLO_REPORT_ALL,
           "rank 0 (a, python3, pid 9) waits in no known call: busy (95 % of a "
           "processor)\n");
    ranks[0].started = 9;
    expect(ranks, 1, KOLO_REPORT_ALL,
           "rank 0 (a, pid 9) waits in no known call: busy (95 % of a processor)\n");
    ranks[0] = (struct kolo_report_rank){"a", false, here, &hidden, 8};
    expect(ranks, 1, KOLO_REPORT_ALL,
           "rank 0 (a, pid 9) waits in no known call: what it does is not shown (its user "
           "may not see it in /proc)\n");
}

Test(report, of_a_stall_names_only_those_that_are_waited_for)
{
    const struct kolo_report_rank ranks[] = {
        {"a", false, in_a, &sleeps, 0}, {"a", false, wanted, &works, 0},
        {"a", false, left, &sleeps, 0}, {"b", false, gone, &sleeps, 0},
        {"b", false, absent, NULL, 0},  {"b", true, wanted, NULL, 0},
        {"b", false, in_b, NULL, 0},    {"b", false, here, NULL, 0},
        {"b", false, wanted, NULL, 0}};
    expect(ranks, 9, KOLO_REPORT_MISSING,
           "rank 1 (a, pid 814) waits in no known call: busy (90 % of a processor)\n"
           "rank 8 (b, pid 16) waits in no known call\n");
    expect(ranks, 1, KOLO_REPORT_MISSING, "");
}

/** In a pipeline each stage waits in a call of its own; the one that does not is the last. */
Test(report, has_a_bounded_number_of_lines_and_room_for_who_waits_in_no_call)
{
    enum { SIZE = 3000, OTHERS = 2990, LINES = 12 };
    static struct kolo_report_rank ranks[SIZE];
    static char calls[SIZE];
    char expected[4096] = "";
    for (int i = 0; i < SIZE; i++) {
        ranks[i] = (struct kolo_report_rank){"a", false, i < OTHERS ? in_b : here, NULL, 0};
        ranks[i].view.pid = 1;
        ranks[i].view.call = i < OTHERS ? &calls[i] : NULL;
    }
    for (int i = 0; i < LINES; i++) {
        const size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used,
                 "rank %d (a, pid 1) waits in %s, for 1.0 s\n", i, in_b.words);
    }
    const size_t used = strlen(expected);
    snprintf(expected + used, sizeof expected - used,
             "and 2978 more ranks in other calls\nranks 2990-2999 (a) wait in no known call\n");
    expect(ranks, SIZE, KOLO_REPORT_ALL, expected);
}

Test(report, knows_whether_somebody_has_waited_long)
{
    const struct kolo_report_rank ranks[] = {{"a", false, in_b, NULL, 0},
                                             {"a", false, here, NULL, 0}};
    cr_assert(kolo_report_has_stall(ranks, 2, 1000, now_ns));
    cr_assert_not(kolo_report_has_stall(ranks, 2, 1001, now_ns));
    cr_assert_not(kolo_report_has_stall(ranks + 1, 1, 0, now_ns));
}

Test(report, of_what_is_left_names_all_that_run)
{
    const struct kolo_report_rank ranks[] = {{"a", true, in_a, NULL, 0},
                                             {"a", false, here, &works, 0},
                                             {"a", true, left, NULL, 0},
                                             {"b", false, gone, &sleeps, 0}};
    expect(ranks, 4, KOLO_REPORT_RUNNING,
           "rank 1 (a, pid 814) waits in no known call: busy (90 % of a processor)\n"
           "rank 3 (b, pid 813) has lost its connection: blocked in nanosleep (it sleeps)\n");
}
