// SPDX-License-Identifier: Apache-2.0
// Copies between device buffers and what stands in for them. The long buffers of a call over links
// are cut into segments, so that copies, the network and the reduction run side by side. Owns
// nothing. Must never let a step touch a segment that is not on the host yet, nor copy one back
// that a step may still write.
//
// How it works: a plan is a pure function, so when a call starts, all its steps are computed once.
// Segments are copied to the host in the order in which steps first touch them, and a mark after
// each copy tells when it is there. A step does not begin before all segments that it touches have
// arrived (kolo_staging_has), also those that it only writes, since the copy would overwrite them.
// For each segment the last step that writes to it is remembered: when that and all steps before it
// are over, the segment is copied back, while others are still on their way to the host. A segment
// that no step writes to is copied back at the end.
#include "runtime/staging_private.h"

enum {
    SEGMENTS_MAX = 64, /* of a buffer: each copy and each mark is a call of the driver */
    SEGMENT_ALIGN = 4096,
    TOUCHED_MAX = 9 /* the most slices that find_touches finds */
};

size_t kolo_flow_segment_bytes(size_t bytes, size_t least)
{
    const size_t most = (bytes + SEGMENTS_MAX - 1) / SEGMENTS_MAX;
    const size_t segment = most > least ? most : least;
    return (segment + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
}

bool kolo_flow_can(const struct kolo_request *request)
{
    /* scaling and groups process all data before or after the plan, so all of it must be on the
     * host */
    if (request->plan == NULL || request->route != &kolo_route_links || request->parts != NULL ||
        request->prescale != 0 || request->postscale != 0)
        return false;
    for (const struct kolo_staged *staged = request->staged; staged != NULL; staged = staged->next)
        if (staged->segment_count > 1)
            return true;
    return false;
}

/* ---- one copy ---- */

/** Copies the part of the bytes [from, to) that must go in this direction. */
static kolo_status copy(struct kolo_staged *staged, enum kolo_way way, size_t from, size_t to)
{
    const struct kolo_byte_range *part = way == KOLO_WAY_IN ? &staged->in : &staged->out;
    from = from > part->at ? from : part->at;
    to = to < part->at + part->bytes ? to : part->at + part->bytes;
    if (from >= to)
        return KOLO_OK;
    staged->marks[way] = KOLO_LANE_IDLE;
    uint8_t *device = staged->device + from, *host = staged->host + from;
    return way == KOLO_WAY_IN ? kolo_lane_copy(staged->lane, way, host, device, to - from)
                              : kolo_lane_copy(staged->lane, way, device, host, to - from);
}

/** Sets a mark after the last copy, if that has none yet. */
static kolo_status mark(struct kolo_staged *staged, enum kolo_way way)
{
    if (staged->marks[way] != KOLO_LANE_IDLE)
        return KOLO_OK;
    return kolo_lane_mark(staged->lane, way, &staged->marks[way]);
}

/* ---- what a step touches ---- */

struct touched {
    const uint8_t *memory;
    size_t bytes;
    bool is_written;
};

struct touches {
    struct touched all[TOUCHED_MAX];
    int count;
};

static void touch(struct touches *touches, const struct kolo_request *request,
                  const struct kolo_slice *slice, bool is_written)
{
    if (slice->count == 0 || slice->buffer == KOLO_BUFFER_SCRATCH)
        return;
    touches->all[touches->count++] =
        (struct touched){kolo_slice_address(request, slice),
                         slice->count * kolo_dtype_bytes(request->call.dtype), is_written};
}

static void find_touches(const struct kolo_request *request, const struct kolo_step *step,
                         struct touches *touches_out)
{
    touches_out->count = 0;
    if (step->to >= 0)
        touch(touches_out, request, &step->out, false);
    if (step->from >= 0)
        touch(touches_out, request, &step->in, true);
    if (step->from >= 0 && step->reduces)
        touch(touches_out, request, &step->local, false);
    if (step->copy_to.count > 0) {
        touch(touches_out, request, &step->copy_from, false);
        touch(touches_out, request, &step->copy_to, true);
    }
    if (step->fold.ways > 0) {
        struct kolo_slice others = step->fold.others;
        others.count = (size_t)(step->fold.ways - 1) * step->fold.stride;
        touch(touches_out, request, &step->fold.out, true);
        touch(touches_out, request, &step->fold.mine, false);
        touch(touches_out, request, &others, false);
    }
    if (kolo_step_finishes(request, step))
        touch(touches_out, request, &step->finish, true);
}

/** Finds the segments of @p staged that overlap @p touched: *first_out <= i < *end_out. False:
 * none. */
static bool find_segments(const struct kolo_staged *staged, const struct touched *touched,
                          size_t *first_out, size_t *end_out)
{
    const size_t at = (size_t)((uintptr_t)touched->memory - (uintptr_t)staged->host);
    if (at >= staged->bytes) /* also true if it lies before the buffer */
        return false;
    *first_out = at / staged->segment_bytes;
    *end_out = (at + touched->bytes - 1) / staged->segment_bytes + 1;
    if (*end_out > staged->segment_count)
        *end_out = staged->segment_count;
    return true;
}

/* ---- copies to the host ---- */

static kolo_status put(struct kolo_staged *staged, size_t index)
{
    struct kolo_segment *segment = &staged->segments[index];
    if (segment->is_put)
        return KOLO_OK;
    segment->is_put = true;
    kolo_status status = copy(staged, KOLO_WAY_IN, index * staged->segment_bytes,
                              (index + 1) * staged->segment_bytes);
    if (status != KOLO_OK || staged->marks[KOLO_WAY_IN] != KOLO_LANE_IDLE)
        return status;
    status = mark(staged, KOLO_WAY_IN);
    segment->mark = staged->marks[KOLO_WAY_IN];
    return status;
}

/** Step number @p index, counted from 1, will touch these segments: starts their copies to the
 * host. */
static kolo_status foresee(struct kolo_staged *staged, const struct touches *touches, size_t index)
{
    kolo_status status = KOLO_OK;
    for (int t = 0; t < touches->count; t++) {
        size_t i, end;
        if (!find_segments(staged, &touches->all[t], &i, &end))
            continue;
        for (; i < end && status == KOLO_OK; i++) {
            status = put(staged, i);
            if (touches->all[t].is_written)
                staged->segments[i].last = index;
        }
    }
    return status;
}

static void reset(struct kolo_staged *staged)
{
    staged->marks[KOLO_WAY_IN] = staged->marks[KOLO_WAY_OUT] = 0;
    staged->passed = 0;
    staged->steps_seen = 0;
    for (size_t i = 0; i < staged->segment_count; i++)
        staged->segments[i] = (struct kolo_segment){.mark = 0};
}

kolo_status kolo_flow_begin(struct kolo_request *request, bool in_segments)
{
    kolo_status status = KOLO_OK;
    struct kolo_step step;
    struct touches touches;
    for (struct kolo_staged *staged = request->staged; staged != NULL; staged = staged->next)
        reset(staged);
    const size_t steps = in_segments ? request->plan->nsteps(&request->args) : 0;
    for (size_t index = 0; index < steps && status == KOLO_OK; index++) {
        request->plan->step(&request->args, index, &step);
        find_touches(request, &step, &touches);
        for (struct kolo_staged *staged = request->staged; staged != NULL && status == KOLO_OK;
             staged = staged->next)
            status = foresee(staged, &touches, index + 1);
    }
    for (struct kolo_staged *staged = request->staged; staged != NULL && status == KOLO_OK;
         staged = staged->next) {
        if (!in_segments)
            status = copy(staged, KOLO_WAY_IN, 0, staged->bytes);
        for (size_t i = 0; in_segments && i < staged->segment_count && status == KOLO_OK; i++)
            status = put(staged, i); /* segments that no step touches */
        if (status == KOLO_OK)
            status = mark(staged, KOLO_WAY_IN);
    }
    return status;
}

kolo_status kolo_flow_is_in(struct kolo_request *request)
{
    kolo_status result = KOLO_OK;
    for (struct kolo_staged *staged = request->staged; staged != NULL; staged = staged->next) {
        if (staged->passed >= staged->marks[KOLO_WAY_IN])
            continue;
        uint64_t passed;
        const kolo_status status =
            kolo_lane_look(staged->lane, KOLO_WAY_IN, staged->marks[KOLO_WAY_IN], &passed);
        if (passed > staged->passed)
            request->comm->engine->has_moved = true;
        staged->passed = passed;
        if (status == KOLO_OK)
            staged->passed = staged->marks[KOLO_WAY_IN];
        else if (status != KOLO_AGAIN)
            return status;
        else
            result = KOLO_AGAIN;
    }
    return result;
}

bool kolo_staging_has(const struct kolo_request *request, const struct kolo_step *step)
{
    struct touches touches;
    find_touches(request, step, &touches);
    for (const struct kolo_staged *staged = request->staged; staged != NULL; staged = staged->next)
        for (int t = 0; t < touches.count; t++) {
            size_t i, end;
            if (!find_segments(staged, &touches.all[t], &i, &end))
                continue;
            for (; i < end; i++)
                if (staged->segments[i].mark > staged->passed)
                    return false;
        }
    return true;
}

/* ---- copies from the host ---- */

kolo_status kolo_flow_out(struct kolo_request *request)
{
    const size_t steps = request->main.first; /* these steps are over */
    kolo_status status = KOLO_OK;
    for (struct kolo_staged *staged = request->staged; staged != NULL && status == KOLO_OK;
         staged = staged->next) {
        if (staged->steps_seen == steps || staged->out.bytes == 0)
            continue;
        staged->steps_seen = steps;
        for (size_t i = 0; i < staged->segment_count && status == KOLO_OK; i++) {
            struct kolo_segment *segment = &staged->segments[i];
            if (segment->is_out || segment->last == 0 || segment->last > steps)
                continue;
            segment->is_out = true;
            status = copy(staged, KOLO_WAY_OUT, i * staged->segment_bytes,
                          (i + 1) * staged->segment_bytes);
        }
    }
    return status;
}

/** Copies the remaining segments back, neighbouring ones in one copy. */
static kolo_status bring_rest(struct kolo_staged *staged)
{
    kolo_status status = KOLO_OK;
    for (size_t i = 0, end; i < staged->segment_count && status == KOLO_OK; i = end) {
        for (end = i; end < staged->segment_count && !staged->segments[end].is_out; end++)
            staged->segments[end].is_out = true;
        status = copy(staged, KOLO_WAY_OUT, i * staged->segment_bytes, end * staged->segment_bytes);
        while (end < staged->segment_count && staged->segments[end].is_out)
            end++;
    }
    return status;
}

kolo_status kolo_flow_end(struct kolo_request *request)
{
    kolo_status status = KOLO_OK;
    for (struct kolo_staged *staged = request->staged; staged != NULL && status == KOLO_OK;
         staged = staged->next) {
        status = bring_rest(staged);
        if (status == KOLO_OK)
            status = mark(staged, KOLO_WAY_OUT);
    }
    return status;
}
