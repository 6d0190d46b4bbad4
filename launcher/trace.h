// SPDX-License-Identifier: Apache-2.0
// The timelines of a job's ranks, put together: one clock for all, the same call found on all
// ranks, who waited for whom. Nothing that is read is believed (runtime/timeline_read.c).
#ifndef KOLO_LAUNCHER_TRACE_H
#define KOLO_LAUNCHER_TRACE_H

#include <stdio.h>

#include "runtime/timeline.h"

enum { KOLO_TRACE_NOBODY = -1 };

/** How a clock's distance to the first one is known. */
enum kolo_trace_how {
    KOLO_CLOCK_SAME,    /* it is the first one */
    KOLO_CLOCK_CALLS,   /* by calls that end on one after they began on the other, both ways */
    KOLO_CLOCK_ONE_WAY, /* by such calls, but one way alone: a bound */
    KOLO_CLOCK_UNKNOWN  /* its ranks and those of the first have no call in common */
};

struct kolo_trace_clock {
    uint64_t id;
    int rank; /* the lowest that has it */
    enum kolo_trace_how how;
    int64_t offset_ns, at_ns; /* what is added to its times, at that time of it */
    double rate;              /* and how much that grows */
    int64_t error_ns;         /* the offset is as much off, at most; -1: who knows */
};

struct kolo_trace_call {
    struct kolo_timeline_record record;
    uint32_t track;
    int32_t last; /* rank that came last of those that are needed; KOLO_TRACE_NOBODY: not known */
    int64_t arrived_ns; /* when it did, by the first clock; INT64_MAX: it never did */
    uint32_t message;   /* of a message that was found on both sides: its number; else 0 */
};

struct kolo_trace_track {
    int rank;
    uint32_t clock; /* index */
    void *data;
    size_t bytes;
    struct kolo_timeline_view view;
    size_t first, count;    /* of its calls */
    int64_t end_ns;         /* when it was last seen to do something, by its own clock */
    uint64_t dropped, torn; /* made room for later ones; cannot be read */
};

/** What ranks waited for one, all together, and in how many calls. */
struct kolo_trace_cost {
    double ns;
    uint64_t calls;
};

struct kolo_trace {
    int size;                        /* of the world; 0: not known yet */
    uint64_t job;                    /* 0: not known yet */
    struct kolo_trace_track *tracks; /* by rank, once merged */
    size_t track_count, track_capacity;
    struct kolo_trace_call *calls;
    size_t call_count, call_capacity;
    struct kolo_trace_clock *clocks;
    size_t clock_count, clock_capacity;
    struct kolo_trace_cost *costs; /* by rank of the world; NULL: nobody's timeline is there */
    uint64_t matched;              /* calls of which it is known who was waited for */
};

/** Takes @p data (of kolo_calloc, freed in every case) as the timeline of @p rank, -1: of whichever
 * it says. ERR_DATA: it is none, or does not belong to those before it. */
kolo_status kolo_trace_add(struct kolo_trace *trace, int rank, void *data,
                           size_t bytes) KOLO_NODISCARD;
/** Once all are there. ERR_NO_MEMORY. */
kolo_status kolo_trace_merge(struct kolo_trace *trace) KOLO_NODISCARD;
void kolo_trace_fini(struct kolo_trace *trace);

/** A time of @p track by the first clock. */
int64_t kolo_trace_time(const struct kolo_trace *trace, const struct kolo_trace_track *track,
                        int64_t ns);
/** How much of the time from @p from_ns to @p to_ns, by the clock of the call's rank, passed before
 * the last rank that it needs had come; 0 if that is not known, or was the rank itself. */
int64_t kolo_trace_waited(const struct kolo_trace *trace, const struct kolo_trace_call *call,
                          int64_t from_ns, int64_t to_ns);
/** When its end was, or that of all that is known of its rank, by its own clock. */
int64_t kolo_trace_end(const struct kolo_trace *trace, const struct kolo_trace_call *call);
/** Its host's name, as text that can be shown. */
void kolo_trace_host(const struct kolo_trace_track *track, char host[KOLO_TIMELINE_HOST_MAX]);
/** When its turn had come, by its own clock; 0: it has not. */
static inline int64_t kolo_trace_entered(const struct kolo_timeline_record *record)
{
    return record->enter_ns > 0 ? record->enter_ns : record->enter_ns < 0 ? 0 : record->begin_ns;
}
/** Is its time one of its rank? Beside an asynchronous call that does something else. */
static inline bool kolo_trace_is_of_rank(const struct kolo_timeline_record *record)
{
    return record->comm != KOLO_TIMELINE_NO_COMM &&
           (kolo_timeline_flags(record) & KOLO_TIMELINE_IS_ASYNC) == 0;
}

/* ---- trace_match.c ---- */

/** The records of one call on different ranks, or of a message on two. */
struct kolo_trace_group {
    struct kolo_trace *trace;
    const uint32_t *calls; /* indices, in the order of ranks */
    size_t count;
};
typedef kolo_status kolo_trace_group_fn(const struct kolo_trace_group *group, void *context);
/** Calls @p fn for each of them. */
kolo_status kolo_trace_groups(struct kolo_trace *trace, kolo_trace_group_fn *fn,
                              void *context) KOLO_NODISCARD;
/** Who came last where, by clocks that are aligned. */
kolo_status kolo_trace_match(struct kolo_trace *trace) KOLO_NODISCARD;

/* ---- trace_clocks.c ---- */

kolo_status kolo_trace_align(struct kolo_trace *trace) KOLO_NODISCARD;

/* ---- trace_write.c ---- */

/** Writes it as Chrome trace JSON. @p verdict, "" for none: why the job ended, which @p failed, a
 * rank or -1, was the first to show. Whether all could be written is the stream's to say.
 * ERR_NO_MEMORY. */
kolo_status kolo_trace_write(const struct kolo_trace *trace, const char *verdict,
                             FILE *out) KOLO_NODISCARD;

/* ---- trace_summary.c ---- */

/** Says in some lines, each without its newline, what the trace shows. */
void kolo_trace_summary(const struct kolo_trace *trace, const char *path,
                        void (*say)(void *context, const char *line), void *context);

#endif
