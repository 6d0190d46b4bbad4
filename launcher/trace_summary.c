// SPDX-License-Identifier: Apache-2.0
// Says in a few lines what a trace shows: how many calls there are, which part of the ranks' time
// was spent in them and in waiting for others, and who was waited for: a rank, several, or a whole
// host. Only blocking calls and waits for requests count as time of a rank.
#include "base/text.h"
#include "launcher/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_MAX = 1024, NAMED_MAX = 4 };
/* A rank is named as slow if it causes this many times its share of all waiting, */
#define STANDS_OUT 1.5
/* and if the ranks lost this part of their time by it. */
#define MATTERS 0.01

struct times {
    double all_ns, in_calls_ns, waiting_ns;
};

static void add_track(const struct kolo_trace *trace, const struct kolo_trace_track *track,
                      struct times *times)
{
    int64_t begun_ns = INT64_MAX, ended_ns = INT64_MIN;
    for (size_t i = 0; i < track->count; i++) {
        const struct kolo_trace_call *call = &trace->calls[track->first + i];
        const struct kolo_timeline_record *record = &call->record;
        if (!kolo_trace_is_of_rank(record))
            continue;
        const int64_t end_ns = kolo_trace_end(trace, call);
        begun_ns = record->begin_ns < begun_ns ? record->begin_ns : begun_ns;
        ended_ns = end_ns > ended_ns ? end_ns : ended_ns;
        times->in_calls_ns += (double)(end_ns - record->begin_ns);
        times->waiting_ns += (double)kolo_trace_waited(trace, call, record->begin_ns, end_ns);
    }
    if (begun_ns < ended_ns)
        times->all_ns += (double)(ended_ns - begun_ns);
}

static int per_cent(double part, double whole)
{
    const double value = whole > 0 ? 100 * part / whole : 0;
    return value > 100 ? 100 : (int)(value + 0.5); /* several threads of a rank may be in calls */
}

/** Three digits, in a unit of which it is less than a thousand unless there is no greater one. */
static void duration_text(double ns, char *text, size_t capacity)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;
    double value = ns;
    for (; value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1000;
    snprintf(text, capacity, value >= 999.5 ? "%.0f %s" : "%.3g %s", value, units[unit]);
}

/* ---- who was waited for ---- */

struct waits {
    const struct kolo_trace *trace;
    double all_ns, least_ns; /* for all ranks; less than least_ns names nobody */
};

static bool stands_out(const struct waits *waits, double ns, double share)
{
    return ns >= waits->least_ns && ns >= STANDS_OUT * share * waits->all_ns;
}

static bool rank_stands_out(const struct waits *waits, int rank)
{
    return stands_out(waits, waits->trace->costs[rank].ns, 1.0 / waits->trace->size);
}

static const struct kolo_trace_track *track_of(const struct kolo_trace *trace, int rank)
{
    for (size_t i = 0; i < trace->track_count; i++)
        if (trace->tracks[i].rank == rank)
            return &trace->tracks[i];
    return NULL;
}

static void add_text(char line[LINE_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_text(char line[LINE_MAX], const char *format, ...)
{
    const size_t used = strlen(line);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line + used, LINE_MAX - used, format, args);
    va_end(args);
}

static void add_part(const struct waits *waits, double ns, char line[LINE_MAX])
{
    char text[32];
    duration_text(ns, text, sizeof text);
    add_text(line, "%d %% of all waiting, %s", per_cent(ns, waits->all_ns), text);
}

static void add_rank(const struct waits *waits, int rank, char line[LINE_MAX])
{
    const struct kolo_trace_cost *cost = &waits->trace->costs[rank];
    const struct kolo_trace_track *track = track_of(waits->trace, rank);
    char host[KOLO_TIMELINE_HOST_MAX] = "";
    if (track)
        kolo_trace_host(track, host);
    add_text(line, "rank %d (%s%s) in %" PRIu64 " of %" PRIu64 " calls, ", rank,
             track ? "host " : "of which there is no timeline", host, cost->calls,
             waits->trace->matched);
    add_part(waits, cost->ns, line);
}

/** Waiting for the ranks of one clock, which is a host. */
struct host {
    size_t ranks, first; /* first: the track of the lowest rank */
    double ns, most_ns;  /* for all its ranks; for one of them */
};

static struct host host_of(const struct kolo_trace *trace, uint32_t clock)
{
    struct host host = {.ranks = 0};
    for (size_t i = trace->track_count; i-- > 0;) {
        const struct kolo_trace_track *track = &trace->tracks[i];
        if (track->clock != clock)
            continue;
        const double ns = trace->costs[track->rank].ns;
        host.ranks++;
        host.first = i;
        host.ns += ns;
        host.most_ns = ns > host.most_ns ? ns : host.most_ns;
    }
    return host;
}

/** Names a host that was waited for as a whole, if no rank of it stands out. */
static bool name_host(const struct waits *waits, char line[LINE_MAX])
{
    const struct kolo_trace *trace = waits->trace;
    char name[KOLO_TIMELINE_HOST_MAX];
    for (uint32_t clock = 0; trace->clock_count > 1 && clock < trace->clock_count; clock++) {
        const struct host host = host_of(trace, clock);
        if (host.ranks < 2 || !stands_out(waits, host.ns, (double)host.ranks / trace->size) ||
            host.most_ns * (double)host.ranks >= STANDS_OUT * host.ns)
            continue;
        kolo_trace_host(&trace->tracks[host.first], name);
        add_text(line, "one host was waited for most: %s with its %zu ranks (the lowest is %d), ",
                 name, host.ranks, trace->tracks[host.first].rank);
        add_part(waits, host.ns, line);
        return true;
    }
    return false;
}

static bool name_ranks(const struct waits *waits, char line[LINE_MAX])
{
    int count = 0, named = 0;
    for (int rank = 0; rank < waits->trace->size; rank++)
        count += rank_stands_out(waits, rank);
    if (count == 0)
        return false;
    if (count == 1)
        add_text(line, "one rank was waited for most: ");
    else
        add_text(line, "%d ranks were waited for most: ", count);
    for (int rank = 0; rank < waits->trace->size && named < NAMED_MAX; rank++) {
        if (!rank_stands_out(waits, rank))
            continue;
        add_text(line, "%s", named > 0 ? "; " : "");
        add_rank(waits, rank, line);
        named++;
    }
    if (named < count)
        add_text(line, "; and %d more", count - named);
    return true;
}

static void say_waits(const struct kolo_trace *trace, double of_ranks_ns,
                      void (*say)(void *context, const char *line), void *context)
{
    struct waits waits = {.trace = trace, .least_ns = MATTERS * of_ranks_ns};
    char line[LINE_MAX] = "timeline: ";
    int most = 0;
    if (trace->matched == 0 || trace->size < 2)
        return;
    for (int rank = 0; rank < trace->size; rank++) {
        waits.all_ns += trace->costs[rank].ns;
        most = trace->costs[rank].ns > trace->costs[most].ns ? rank : most;
    }
    if (waits.all_ns <= 0 || (!name_host(&waits, line) && !name_ranks(&waits, line))) {
        const bool is_long = waits.all_ns > 0 && trace->costs[most].ns >= waits.least_ns;
        add_text(line, "no rank was waited for %s",
                 is_long ? "much more than others; most was for " : "long");
        if (is_long)
            add_rank(&waits, most, line);
    }
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
    duration_text((double)worst_ns, error, sizeof error);
    if (is_known)
        snprintf(line, sizeof line,
                 "timeline: the clocks of %zu hosts were aligned by their calls, to %s",
                 trace->clock_count, error);
    else
        snprintf(
            line, sizeof line,
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
        snprintf(left_out, sizeof left_out,
                 "; %" PRIu64 " earlier ones were overwritten (KOLO_TIMELINE_CALLS keeps more)",
                 dropped);
    snprintf(line, sizeof line, "timeline: %zu call%s of %zu rank%s in %s%s", trace->call_count,
             trace->call_count == 1 ? "" : "s", trace->track_count,
             trace->track_count == 1 ? "" : "s", path, left_out);
    kolo_text_clean(line); /* the path is the user's */
    say(context, line);
    if (torn > 0) {
        snprintf(line, sizeof line, "timeline: %" PRIu64 " records could not be read", torn);
        say(context, line);
    }
    if (times.all_ns > 0) {
        snprintf(
            line, sizeof line,
            "timeline: the ranks were in calls for %d %% of their time; for %d %% of their time "
            "they waited for others to come",
            per_cent(times.in_calls_ns, times.all_ns), per_cent(times.waiting_ns, times.all_ns));
        say(context, line);
    }
    say_waits(trace, times.all_ns, say, context);
    say_clocks(trace, say, context);
}
