// SPDX-License-Identifier: Apache-2.0
// What a trace shows, in a few lines for people: how many calls there are, what part of the ranks'
// time passed in them and in waiting for others, and who was waited for. Only blocking calls and
// waits for requests count as time of a rank: beside an asynchronous call it does something else.
#include "launcher/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX = 512 };
/* A rank is named as slow from so many times its share of all lateness on. */
#define STANDS_OUT 1.5

struct times {
    double all_ns, in_calls_ns, waiting_ns;
};

static bool is_of_rank(const struct kolo_timeline_record *record)
{
    return record->comm != KOLO_TIMELINE_NO_COMM &&
           (kolo_timeline_flags(record) & KOLO_TIMELINE_IS_ASYNC) == 0;
}

static void add_track(const struct kolo_trace *trace, const struct kolo_trace_track *track,
                      struct times *times)
{
    int64_t begun_ns = INT64_MAX, ended_ns = INT64_MIN;
    for (size_t i = 0; i < track->count; i++) {
        const struct kolo_trace_call *call = &trace->calls[track->first + i];
        const struct kolo_timeline_record *record = &call->record;
        if (!is_of_rank(record) || record->end_ns == 0)
            continue;
        begun_ns = record->begin_ns < begun_ns ? record->begin_ns : begun_ns;
        ended_ns = record->end_ns > ended_ns ? record->end_ns : ended_ns;
        times->in_calls_ns += (double)(record->end_ns - record->begin_ns);
        times->waiting_ns +=
            (double)kolo_trace_waited(trace, call, record->begin_ns, record->end_ns);
    }
    if (begun_ns < ended_ns)
        times->all_ns += (double)(ended_ns - begun_ns);
}

static int per_cent(double part, double whole)
{
    const double value = whole > 0 ? 100 * part / whole : 0;
    return value > 100 ? 100 : (int)(value + 0.5); /* several threads of a rank may be in calls */
}

static void duration_text(double ns, char *text, size_t capacity)
{
    if (ns >= 1e9)
        snprintf(text, capacity, "%.3g s", ns / 1e9);
    else if (ns >= 1e6)
        snprintf(text, capacity, "%.3g ms", ns / 1e6);
    else if (ns >= 1e3)
        snprintf(text, capacity, "%.3g us", ns / 1e3);
    else
        snprintf(text, capacity, "%.0f ns", ns);
}

static int by_rank_and_time(const void *left, const void *right)
{
    const struct kolo_trace_late *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->late_ns > b->late_ns) - (a->late_ns < b->late_ns);
}

/** The rank that cost the others most time, and what part of all that was. */
struct slowest {
    size_t first, count; /* of its entries */
    double part;
};

static struct slowest find_slowest(const struct kolo_trace *trace)
{
    struct slowest slowest = {.count = 0};
    double most = -1, all = 0;
    for (size_t first = 0, end; first < trace->late_count; first = end) {
        double sum = 0;
        for (end = first;
             end < trace->late_count && trace->lates[end].rank == trace->lates[first].rank; end++)
            sum += (double)trace->lates[end].late_ns;
        all += sum;
        if (sum <= most)
            continue;
        most = sum;
        slowest = (struct slowest){.first = first, .count = end - first};
    }
    slowest.part = all > 0 ? most / all : 0;
    return slowest;
}

static const struct kolo_trace_track *track_of(const struct kolo_trace *trace, int rank)
{
    size_t i = 0;
    while (i + 1 < trace->track_count && trace->tracks[i].rank != rank)
        i++;
    return &trace->tracks[i];
}

static void say_slowest(const struct kolo_trace *trace,
                        void (*say)(void *context, const char *line), void *context)
{
    char line[LINE_MAX], late[32], host[KOLO_TIMELINE_HOST_MAX];
    if (trace->late_count == 0)
        return;
    qsort(trace->lates, trace->late_count, sizeof(*trace->lates), by_rank_and_time);
    const struct slowest slowest = find_slowest(trace);
    const size_t first = slowest.first, count = slowest.count;
    const int rank = trace->lates[first].rank;
    const bool stands_out = slowest.part * (double)trace->track_count >= STANDS_OUT;
    duration_text((double)trace->lates[first + count / 2].late_ns, late, sizeof(late));
    kolo_trace_host(track_of(trace, rank), host);
    snprintf(
        line, sizeof(line),
        "timeline: %s: rank %d (host %s) came last in %zu of %zu calls, %s after the one before "
        "it in the median",
        stands_out ? "one rank was waited for most"
                   : "no rank was waited for much more than others",
        rank, host, count, trace->late_count, late);
    say(context, line);
}

static void say_clocks(const struct kolo_trace *trace, void (*say)(void *context, const char *line),
                       void *context)
{
    char line[LINE_MAX], error[32];
    int64_t worst_ns = 0;
    bool is_known = true;
    for (size_t i = 0; i < trace->clock_count; i++) {
        is_known = is_known && trace->clocks[i].error_ns >= 0;
        worst_ns = trace->clocks[i].error_ns > worst_ns ? trace->clocks[i].error_ns : worst_ns;
    }
    if (trace->clock_count < 2)
        return;
    duration_text((double)worst_ns, error, sizeof(error));
    if (is_known)
        snprintf(line, sizeof(line),
                 "timeline: the clocks of %zu hosts were aligned by their calls, to %s",
                 trace->clock_count, error);
    else
        snprintf(
            line, sizeof(line),
            "timeline: the clocks of %zu hosts could not all be aligned: too few calls in common",
            trace->clock_count);
    say(context, line);
}

void kolo_trace_summary(const struct kolo_trace *trace, const char *path,
                        void (*say)(void *context, const char *line), void *context)
{
    struct times times = {0};
    uint64_t dropped = 0, torn = 0;
    char line[LINE_MAX], left_out[96] = "";
    for (size_t i = 0; i < trace->track_count; i++) {
        dropped += trace->tracks[i].dropped;
        torn += trace->tracks[i].torn;
        add_track(trace, &trace->tracks[i], &times);
    }
    if (dropped > 0)
        snprintf(left_out, sizeof(left_out),
                 "; %" PRIu64 " before them made room (KOLO_TIMELINE_CALLS keeps more)", dropped);
    snprintf(line, sizeof(line), "timeline: %zu calls of %zu rank%s in %s%s", trace->call_count,
             trace->track_count, trace->track_count == 1 ? "" : "s", path, left_out);
    say(context, line);
    if (torn > 0) {
        snprintf(line, sizeof(line), "timeline: %" PRIu64 " records could not be read", torn);
        say(context, line);
    }
    if (times.all_ns > 0) {
        snprintf(
            line, sizeof(line),
            "timeline: the ranks were in calls for %d %% of their time; for %d %% of their time "
            "they waited for others to come",
            per_cent(times.in_calls_ns, times.all_ns), per_cent(times.waiting_ns, times.all_ns));
        say(context, line);
    }
    say_slowest(trace, say, context);
    say_clocks(trace, say, context);
}
