// SPDX-License-Identifier: Apache-2.0
// Combines the timelines of a job's ranks: converts all times to one clock, finds the records of
// the same call on all ranks, and determines which rank the others waited for. Nothing that is read
// is trusted (runtime/timeline_read.c).
#ifndef KOLO_LAUNCHER_TRACE_H
#define KOLO_LAUNCHER_TRACE_H

#include <stdio.h>

#include "runtime/timeline.h"

enum { KOLO_TRACE_NOBODY = -1 };

/** How a clock's offset to the first clock is known. */
enum kolo_trace_how {
    KOLO_CLOCK_SAME,    /* it is the first clock */
    KOLO_CLOCK_CALLS,   /* from calls that end on one after they began on the other, both ways */
    KOLO_CLOCK_ONE_WAY, /* from such calls in one direction only: a bound */
    KOLO_CLOCK_UNKNOWN  /* its ranks and those of the first clock have no call in common */
};

struct kolo_trace_clock {
    uint64_t id;
    int rank; /* lowest rank that has this clock */
    enum kolo_trace_how how;
    int64_t offset_ns, at_ns; /* what is added to its times, exact at its time at_ns */
    double rate;              /* growth of the offset */
    int64_t error_ns;         /* bound of the offset's error; -1: not known */
};

struct kolo_trace_call {
    struct kolo_timeline_record record;
    uint32_t track;
    int32_t last;       /* last to come of the ranks it needs; KOLO_TRACE_NOBODY: not known */
    int64_t arrived_ns; /* when that rank came, by the first clock; INT64_MAX: it never did */
    uint32_t message;   /* number of a message found on both sides; else 0 */
};

struct kolo_trace_track {
    int rank;
    uint32_t clock; /* index */
    void *data;
    size_t bytes;
    struct kolo_timeline_view view;
    size_t first, count;    /* range of its calls */
    int64_t end_ns;         /* when it was last seen to do something, by its own clock */
    uint64_t dropped, torn; /* records overwritten by later ones; records that cannot be read */
};

/** The total time that ranks waited for one rank, and in how many calls. */
struct kolo_trace_cost {
    double ns;
    uint64_t calls;
};

struct kolo_trace {
    int size;                        /* of the world; 0: not known yet */
    uint64_t job;                    /* 0: not known yet */
    struct kolo_trace_track *tracks; /* in the order of ranks, once merged */
    size_t track_count, track_capacity;
    struct kolo_trace_call *calls;
    size_t call_count, call_capacity;
    struct kolo_trace_clock *clocks;
    size_t clock_count, clock_capacity;
    struct kolo_trace_cost *costs; /* by rank of the world; NULL: there are no timelines */
    uint64_t matched;              /* calls of which it is known which rank was waited for */
};

/** Takes @p data (from kolo_calloc, freed in every case) as the timeline of @p rank; -1: of the
 * rank that it names. ERR_DATA: it is not a timeline, or does not belong to those added before. */
kolo_status kolo_trace_add(struct kolo_trace *trace, int rank, void *data,
                           size_t bytes) KOLO_NODISCARD;
/** To be called once all timelines were added. ERR_NO_MEMORY. */
kolo_status kolo_trace_merge(struct kolo_trace *trace) KOLO_NODISCARD;
void kolo_trace_fini(struct kolo_trace *trace);

/** Converts a time of @p track to the first clock. */
int64_t kolo_trace_time(const struct kolo_trace *trace, const struct kolo_trace_track *track,
                        int64_t ns);
/** How much of the time from @p from_ns to @p to_ns, by the clock of the call's rank, passed before
 * the last rank that the call needs had come; 0 if that is not known, or was the rank itself. */
int64_t kolo_trace_waited(const struct kolo_trace *trace, const struct kolo_trace_call *call,
                          int64_t from_ns, int64_t to_ns);
/** When the call ended, or if it did not, the last time known of its rank; by the rank's own
 * clock. */
int64_t kolo_trace_end(const struct kolo_trace *trace, const struct kolo_trace_call *call);
/** Writes the host's name as printable text. */
void kolo_trace_host(const struct kolo_trace_track *track, char host[KOLO_TIMELINE_HOST_MAX]);
/** When the call's turn came, by its rank's own clock; 0: it has not come. */
static inline int64_t kolo_trace_entered(const struct kolo_timeline_record *record)
{
    return record->enter_ns > 0 ? record->enter_ns : record->enter_ns < 0 ? 0 : record->begin_ns;
}
/** Did the rank itself spend the call's time? During an asynchronous call it does something
 * else. */
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
/** Calls @p fn for each group of records. */
kolo_status kolo_trace_groups(struct kolo_trace *trace, kolo_trace_group_fn *fn,
                              void *context) KOLO_NODISCARD;
/** Determines for each call which rank came last; clocks must have been aligned. */
kolo_status kolo_trace_match(struct kolo_trace *trace) KOLO_NODISCARD;

/* ---- trace_clocks.c ---- */

kolo_status kolo_trace_align(struct kolo_trace *trace) KOLO_NODISCARD;

/* ---- trace_write.c ---- */

/** Writes the trace as Chrome trace JSON. @p verdict, "" for none, is why the job ended. Write
 * errors are left in the stream. ERR_NO_MEMORY. */
kolo_status kolo_trace_write(const struct kolo_trace *trace, const char *verdict,
                             FILE *out) KOLO_NODISCARD;

/* ---- trace_summary.c ---- */

/** Passes on some lines, without newlines, that say what the trace shows. */
void kolo_trace_summary(const struct kolo_trace *trace, const char *path,
                        void (*say)(void *context, const char *line), void *context);

#endif
