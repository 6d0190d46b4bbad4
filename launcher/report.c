// SPDX-License-Identifier: Apache-2.0
// Puts ranks that do the same into groups, in the order of their lowest ranks, and writes a line
// for each group: first those in calls, then the others, so many of each that the others are never
// crowded out. A group is found by comparing all ranks, so only as many are made as are written.
#include "launcher/report.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launcher/ranks.h"
#include "runtime/store_wire.h"

enum { PART_LINES_MAX = 12, BRIEF_MAX = 160, LINE_MAX = 1024 };

struct report {
    const struct kolo_report_rank *ranks;
    int size;
    int64_t now_ns;
    bool *is_told;
    uint32_t *numbers; /* room for the ranks of a group */
};

/* What a rank does outside of calls; without figures, so that those of a group can be compared. */
static void say_activity(const struct kolo_report_rank *rank, char *text, size_t capacity)
{
    text[0] = '\0';
    const bool runs = rank->sight && !kolo_sight_has_ended(rank->sight);
    if (runs && rank->sight->permille >= KOLO_SIGHT_BUSY_PERMILLE)
        snprintf(text, capacity, "busy");
    else if (rank->sight)
        kolo_sight_text(rank->sight, text, capacity);
}

/* Whether two ranks, of which at least one is in a call, wait in the same call for the same.
 * Before a call each rank waits by itself for its device, so that only the words are the same. */
static bool is_same_wait(const struct kolo_store_view *a, const struct kolo_store_view *b)
{
    if (!a->call || !b->call || a->own != b->own)
        return false;
    return a->call == b->call || (a->own != KOLO_OWN_NONE && strcmp(a->words, b->words) == 0);
}

static bool is_alike(const struct kolo_report_rank *a, const struct kolo_report_rank *b)
{
    char first[KOLO_SIGHT_TEXT_MAX], second[KOLO_SIGHT_TEXT_MAX];
    if (a->has_ended || b->has_ended)
        return a->has_ended == b->has_ended;
    if (a->view.call || b->view.call)
        return is_same_wait(&a->view, &b->view);
    say_activity(a, first, sizeof first);
    say_activity(b, second, sizeof second);
    return a->view.place == b->view.place && strcmp(first, second) == 0;
}

/* Collects the ranks that do what @p first does. */
static struct kolo_ranks collect(struct report *report, int first)
{
    struct kolo_ranks group = {.at = report->numbers};
    for (int rank = first; rank < report->size; rank++) {
        if (report->is_told[rank] || !is_alike(&report->ranks[first], &report->ranks[rank]))
            continue;
        report->is_told[rank] = true;
        group.at[group.count++] = (uint32_t)rank;
    }
    return group;
}

/* "python3, ": the name of the process if it is not the one that was started, whose program the
 * user has named. */
static void say_name(const struct kolo_report_rank *rank, char *text, size_t capacity)
{
    const struct kolo_sight *sight = rank->sight;
    text[0] = '\0';
    if (sight && sight->name[0] && rank->started != 0 && rank->started != sight->pid)
        snprintf(text, capacity, "%s, ", sight->name);
}

/* "rank 3 (b, pid 812)", "rank 3 (b, python3, pid 813)" behind a script, "ranks 4-7 (b)" if they
 * are on one host, else "ranks 0-2, 7". */
static void say_who(const struct report *report, const struct kolo_ranks *group, char *text,
                    size_t capacity)
{
    const struct kolo_report_rank *first = &report->ranks[group->at[0]];
    const uint32_t pid =
        first->sight && first->sight->pid ? first->sight->pid : (uint32_t)first->view.pid;
    bool is_one_host = true;
    char brief[BRIEF_MAX], name[KOLO_PROCESS_NAME_MAX + 2];
    kolo_ranks_brief(group, brief, sizeof brief);
    for (uint32_t i = 1; i < group->count; i++)
        is_one_host = is_one_host && strcmp(report->ranks[group->at[i]].host, first->host) == 0;
    say_name(first, name, sizeof name);
    if (group->count == 1 && pid != 0)
        snprintf(text, capacity, "%s (%s, %spid %u)", brief, first->host, name, pid);
    else if (is_one_host)
        snprintf(text, capacity, "%s (%s)", brief, first->host);
    else
        snprintf(text, capacity, "%s", brief);
}

/* "busy (90 to 100 % of a processor each)". */
static void say_busy(const struct report *report, const struct kolo_ranks *group, char *text,
                     size_t capacity)
{
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const uint32_t permille = report->ranks[group->at[i]].sight->permille;
        low = permille < low ? permille : low;
        high = permille > high ? permille : high;
    }
    snprintf(text, capacity, "busy (%u to %u %% of a processor each)", (low + 5) / 10,
             (high + 5) / 10);
}

static const char *say_place(const struct kolo_store_view *view, bool is_one)
{
    switch (view->place) {
    case KOLO_VIEW_HERE:
        return is_one ? "waits in no known call" : "wait in no known call";
    case KOLO_VIEW_LEFT:
        return is_one ? "has called kolo_finalize" : "have called kolo_finalize";
    case KOLO_VIEW_GONE:
        return is_one ? "has lost its connection" : "have lost their connections";
    case KOLO_VIEW_ABSENT:
    default:
        return is_one ? "has not called kolo_init" : "have not called kolo_init";
    }
}

static void say_group(const struct report *report, const struct kolo_ranks *group, char *line,
                      size_t capacity)
{
    const struct kolo_report_rank *first = &report->ranks[group->at[0]];
    const struct kolo_store_view *view = &first->view;
    const bool is_one = group->count == 1;
    char who[BRIEF_MAX + 256], doing[KOLO_SIGHT_TEXT_MAX], waited[32];
    say_who(report, group, who, sizeof who);
    if (first->has_ended) {
        snprintf(line, capacity, "%s %s ended", who, is_one ? "has" : "have");
        return;
    }
    if (view->call) {
        kolo_duration_format((report->now_ns - view->since_ns) / KOLO_NS_PER_MS, waited,
                             sizeof waited);
        snprintf(line, capacity, "%s wait%s in %s, for %s%s%s", who, is_one ? "s" : "", view->words,
                 waited,
                 view->own == KOLO_OWN_NONE ? ""
                 : is_one                   ? ": for "
                                            : ": each for ",
                 view->own == KOLO_OWN_NONE ? "" : kolo_own_text(view->own));
        return;
    }
    say_activity(first, doing, sizeof doing);
    if (is_one && first->sight)
        kolo_sight_text(first->sight, doing, sizeof doing);
    else if (strcmp(doing, "busy") == 0)
        say_busy(report, group, doing, sizeof doing);
    snprintf(line, capacity, "%s %s%s%s", who, say_place(view, is_one), doing[0] ? ": " : "",
             doing);
}

static bool is_missing(const struct kolo_report_rank *rank)
{
    const bool may_come =
        rank->view.place == KOLO_VIEW_HERE || rank->view.place == KOLO_VIEW_ABSENT;
    return !rank->has_ended && may_come && !rank->view.call && rank->view.is_awaited;
}

/* Which lines come first: those in calls, so that what the others are waited for in is read before
 * them. */
enum part { IN_CALLS, OUTSIDE, ENDED, PARTS };

static enum part part_of(const struct kolo_report_rank *rank)
{
    return rank->has_ended ? ENDED : rank->view.call ? IN_CALLS : OUTSIDE;
}

static int print_part(struct report *report, enum part part,
                      void (*print)(void *context, const char *line), void *context)
{
    static const char *const rest[PARTS] = {"in other calls", "that do other things", "that ended"};
    int lines = 0;
    uint32_t left = 0;
    char line[LINE_MAX];
    for (int rank = 0; rank < report->size; rank++) {
        if (report->is_told[rank] || part_of(&report->ranks[rank]) != part)
            continue;
        if (lines == PART_LINES_MAX) {
            left++;
            continue;
        }
        const struct kolo_ranks group = collect(report, rank);
        say_group(report, &group, line, sizeof line);
        print(context, line);
        lines++;
    }
    if (left == 0)
        return lines;
    snprintf(line, sizeof line, "and %u more rank%s %s", left, left == 1 ? "" : "s", rest[part]);
    print(context, line);
    return lines + 1;
}

int kolo_report(const struct kolo_report_rank *ranks, int size, enum kolo_report_choice choice,
                int64_t now_ns, void (*print)(void *context, const char *line), void *context)
{
    struct report report = {.ranks = ranks,
                            .size = size,
                            .now_ns = now_ns,
                            .is_told = kolo_calloc((size_t)size, sizeof(bool)),
                            .numbers = kolo_calloc((size_t)size, sizeof(uint32_t))};
    int lines = -1;
    if (!report.is_told || !report.numbers)
        goto out;
    for (int rank = 0; rank < size; rank++)
        report.is_told[rank] = (choice == KOLO_REPORT_MISSING && !is_missing(&ranks[rank])) ||
                               (choice == KOLO_REPORT_RUNNING && ranks[rank].has_ended);
    lines = 0;
    for (int part = 0; part < PARTS; part++)
        lines += print_part(&report, (enum part)part, print, context);
out:
    kolo_free_memory(report.is_told);
    kolo_free_memory(report.numbers);
    return lines;
}

bool kolo_report_has_stall(const struct kolo_report_rank *ranks, int size, int64_t ms,
                           int64_t now_ns)
{
    for (int rank = 0; rank < size; rank++)
        if (ranks[rank].view.call && now_ns - ranks[rank].view.since_ns >= ms * KOLO_NS_PER_MS)
            return true;
    return false;
}
