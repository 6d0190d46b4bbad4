// SPDX-License-Identifier: Apache-2.0
// Aligns the clocks of all hosts by the calls themselves: no member of a closed collective ends it
// before every other has begun it, and no receive ends before its send has begun. Each such pair on
// two hosts bounds the offset of their clocks from one side. A collective that both hosts are in
// bounds it from both sides, within the time that both were in it; for a short collective that is
// the time of a message. So nothing needs to be measured or sent in addition to the job, kolo_init
// alone gives a bound, and a host that was lost is aligned as well.
//
// If one offset agrees with all bounds, the middle of the interval that they leave is used.
// Otherwise the clocks drift: then the narrowest collectives of the first and of the last quarter
// of the time define a line.
#include "launcher/trace.h"

#include "base/alloc.h"

/* Clocks that time servers adjust are within 0.0005 of each other; others do not drift by seconds a
 * minute. */
#define RATE_MAX 1e-3

/* A bound of what is to be added to a clock's times, at a time of that clock. */
struct bound {
    int64_t at_ns, low_ns, high_ns; /* low and high: INT64_MIN, INT64_MAX: none */
};

struct bounds {
    struct bound *at;
    size_t count, capacity;
};

/* What one group says about one clock. */
struct span {
    int64_t begin_ns, end_ns; /* last begin that others wait for; first end that waits */
};

struct aligning {
    struct bounds *bounds; /* by clock */
    struct span *spans;
};

static kolo_status add_bound(struct bounds *bounds, const struct bound *bound)
{
    void *at = bounds->at;
    kolo_status status = kolo_grow(&at, &bounds->capacity, bounds->count + 1, sizeof *bounds->at);
    if (status != KOLO_OK)
        return status;
    bounds->at = at;
    bounds->at[bounds->count++] = *bound;
    return KOLO_OK;
}

/** Whether others wait for the begin of @p record, of @p rank. */
static bool is_awaited(const struct kolo_timeline_record *record, int rank)
{
    const enum kolo_timeline_shape shape = kolo_timeline_shape(record);
    return shape == KOLO_SHAPE_ALL || shape == KOLO_SHAPE_SEND ||
           (shape == KOLO_SHAPE_ROOT && record->peer == rank);
}

/** Whether its end waits for such a begin. A call that failed, or has not ended, proves nothing. */
static bool awaits(const struct kolo_timeline_record *record, int rank)
{
    const enum kolo_timeline_shape shape = kolo_timeline_shape(record);
    const bool waits = shape == KOLO_SHAPE_ALL || shape == KOLO_SHAPE_RECV ||
                       (shape == KOLO_SHAPE_ROOT && record->peer != rank);
    return waits && record->end_ns > 0 && record->status == KOLO_OK;
}

static void spread(const struct kolo_trace_group *group, struct span *spans)
{
    const struct kolo_trace *trace = group->trace;
    for (size_t clock = 0; clock < trace->clock_count; clock++)
        spans[clock] = (struct span){INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < group->count; i++) {
        const struct kolo_trace_call *call = &trace->calls[group->calls[i]];
        const struct kolo_trace_track *track = &trace->tracks[call->track];
        struct span *span = &spans[track->clock];
        const int64_t entered = kolo_trace_entered(&call->record);
        if (is_awaited(&call->record, track->rank) && entered > span->begin_ns)
            span->begin_ns = entered;
        if (awaits(&call->record, track->rank) && call->record.end_ns < span->end_ns)
            span->end_ns = call->record.end_ns;
    }
}

static kolo_status gather(const struct kolo_trace_group *group, void *context)
{
    struct aligning *aligning = context;
    const struct span *spans = aligning->spans;
    spread(group, aligning->spans);
    for (size_t clock = 1; clock < group->trace->clock_count; clock++) {
        const struct span *here = &spans[0], *there = &spans[clock];
        struct bound bound = {.low_ns = INT64_MIN, .high_ns = INT64_MAX};
        if (here->begin_ns != INT64_MIN && there->end_ns != INT64_MAX) {
            bound.low_ns = here->begin_ns - there->end_ns;
            bound.at_ns = there->end_ns;
        }
        if (there->begin_ns != INT64_MIN && here->end_ns != INT64_MAX) {
            bound.high_ns = here->end_ns - there->begin_ns;
            bound.at_ns = there->begin_ns;
        }
        if (bound.at_ns == 0)
            continue;
        kolo_status status = add_bound(&aligning->bounds[clock], &bound);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

/* ---- from bounds to a line ---- */

static bool has_both(const struct bound *bound)
{
    return bound->low_ns != INT64_MIN && bound->high_ns != INT64_MAX &&
           bound->low_ns <= bound->high_ns;
}

static int64_t width(const struct bound *bound)
{
    return bound->high_ns - bound->low_ns;
}

static int64_t middle(const struct bound *bound)
{
    return bound->low_ns + width(bound) / 2;
}

/** The narrowest bound between two times; NULL: none has both sides. */
static const struct bound *narrowest(const struct bounds *bounds, int64_t from_ns, int64_t to_ns)
{
    const struct bound *best = NULL;
    for (size_t i = 0; i < bounds->count; i++) {
        const struct bound *bound = &bounds->at[i];
        if (has_both(bound) && bound->at_ns >= from_ns && bound->at_ns <= to_ns &&
            (!best || width(bound) < width(best)))
            best = bound;
    }
    return best;
}

static void draw_line(struct kolo_trace_clock *clock, const struct bounds *bounds, int64_t begin_ns,
                      int64_t end_ns)
{
    const int64_t quarter = (end_ns - begin_ns) / 4;
    const struct bound *best = narrowest(bounds, INT64_MIN, INT64_MAX);
    const struct bound *early = narrowest(bounds, begin_ns, begin_ns + quarter);
    const struct bound *late = narrowest(bounds, end_ns - quarter, end_ns);
    if (!best)
        return;
    clock->how = KOLO_CLOCK_CALLS;
    clock->at_ns = best->at_ns;
    clock->offset_ns = middle(best);
    clock->error_ns = width(best) / 2;
    if (!early || !late || late->at_ns <= early->at_ns)
        return;
    const double rate =
        (double)(middle(late) - middle(early)) / (double)(late->at_ns - early->at_ns);
    if (rate > RATE_MAX || rate < -RATE_MAX)
        return;
    clock->at_ns = early->at_ns;
    clock->offset_ns = middle(early);
    clock->rate = rate;
    clock->error_ns = (width(early) > width(late) ? width(early) : width(late)) / 2;
}

static void fit(struct kolo_trace_clock *clock, const struct bounds *bounds)
{
    struct bound all = {.low_ns = INT64_MIN, .high_ns = INT64_MAX};
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    for (size_t i = 0; i < bounds->count; i++) {
        const struct bound *bound = &bounds->at[i];
        all.low_ns = bound->low_ns > all.low_ns ? bound->low_ns : all.low_ns;
        all.high_ns = bound->high_ns < all.high_ns ? bound->high_ns : all.high_ns;
        begin_ns = bound->at_ns < begin_ns ? bound->at_ns : begin_ns;
        end_ns = bound->at_ns > end_ns ? bound->at_ns : end_ns;
    }
    if (has_both(&all)) {
        clock->how = KOLO_CLOCK_CALLS;
        clock->offset_ns = middle(&all);
        clock->error_ns = width(&all) / 2;
    } else if (all.low_ns != INT64_MIN && all.high_ns != INT64_MAX) {
        draw_line(clock, bounds, begin_ns, end_ns);
    } else if (all.low_ns != INT64_MIN || all.high_ns != INT64_MAX) {
        clock->how = KOLO_CLOCK_ONE_WAY;
        clock->offset_ns = all.low_ns != INT64_MIN ? all.low_ns : all.high_ns;
        clock->error_ns = -1;
    }
}

/** Without a common call, both clocks are assumed to have begun at the same time: nothing better is
 * known. */
static void guess(struct kolo_trace *trace, uint32_t index)
{
    struct kolo_trace_clock *clock = &trace->clocks[index];
    int64_t begun[2] = {INT64_MAX, INT64_MAX};
    if (clock->how != KOLO_CLOCK_UNKNOWN)
        return;
    clock->error_ns = -1;
    for (size_t i = 0; i < trace->call_count; i++) {
        const struct kolo_trace_call *call = &trace->calls[i];
        const uint32_t whose = trace->tracks[call->track].clock;
        if ((whose == 0 || whose == index) && call->record.begin_ns < begun[whose != 0])
            begun[whose != 0] = call->record.begin_ns;
    }
    if (begun[0] != INT64_MAX && begun[1] != INT64_MAX)
        clock->offset_ns = begun[0] - begun[1];
}

kolo_status kolo_trace_align(struct kolo_trace *trace)
{
    const size_t count = trace->clock_count;
    kolo_status status = KOLO_OK;
    if (count == 0)
        return KOLO_OK;
    trace->clocks[0].how = KOLO_CLOCK_SAME;
    if (count == 1)
        return KOLO_OK;
    struct aligning aligning = {.bounds = kolo_calloc(count, sizeof(struct bounds)),
                                .spans = kolo_calloc(count, sizeof(struct span))};
    if (!aligning.bounds || !aligning.spans) {
        status = KOLO_ERR_NO_MEMORY;
        goto out;
    }
    KOLO_TRY(kolo_trace_groups(trace, gather, &aligning));
    for (uint32_t clock = 1; clock < count; clock++) {
        fit(&trace->clocks[clock], &aligning.bounds[clock]);
        guess(trace, clock);
    }
out:
    for (size_t clock = 0; aligning.bounds && clock < count; clock++)
        kolo_free_memory(aligning.bounds[clock].at);
    kolo_free_memory(aligning.bounds);
    kolo_free_memory(aligning.spans);
    return status;
}
