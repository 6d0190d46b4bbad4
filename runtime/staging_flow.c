// SPDX-License-Identifier: Apache-2.0
// Copies between device buffers and what stands in for them. The long buffers of a call over links
// are cut into segments, so that copies, the network and the reduction run side by side. Owns
// nothing. Must never let a step touch a segment that is not on the host yet, nor copy one back
// that a step may still write.
//
// How it works: a plan is a pure function, so when a call starts, all its steps are computed once,
// to learn in which order steps first touch the segments. They are copied to the host in that
// order, only a little ahead of the steps: what the device writes stays in the cache until it is
// sent, and ranks that share a device get their first segments soon. A copy is a few neighbouring
// segments; the first ones are short, so that the plan begins early, and later ones longer, since
// each is several calls of the driver. A mark after each copy tells when it is there. A step does
// not begin before all segments that it touches have arrived (kolo_staging_has), also those that it
// only writes, since the copy would overwrite them.
//
// A segment has its result when the last step that receives into it is over or has received so far,
// and the last one that computes it has begun, because a step computes before it sends. Then it is
// copied back, while others are still on their way to the host. A segment that no step writes to is
// copied back at the end.
#include "runtime/staging_private.h"

enum {
    SEGMENTS_MAX = 256, /* of a buffer: each is looked at after each step */
    SEGMENT_ALIGN = 4096,
    RUN_MAX = 4,    /* the most segments in a copy: a MiB by default, 20 us on PCIe 5 */
    AHEAD = 12,     /* segments put before the next step needs them, and RUN_MAX more */
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
    if (!request->plan || request->route != &kolo_route_links || request->parts ||
        request->scaling.prescale != 0 || request->scaling.postscale != 0)
        return false;
    for (const struct kolo_staged *staged = request->staged; staged; staged = staged->next)
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

/** COMPUTED: before the messages of the step; RECEIVED: by one. */
enum touch { TOUCH_READ, TOUCH_COMPUTED, TOUCH_RECEIVED };

struct touched {
    const uint8_t *memory;
    size_t bytes;
    enum touch how;
};

struct touches {
    struct touched all[TOUCHED_MAX];
    int count;
};

static void touch(struct touches *touches, const struct kolo_request *request,
                  const struct kolo_slice *slice, enum touch how)
{
    if (slice->count == 0 || slice->buffer == KOLO_BUFFER_SCRATCH)
        return;
    touches->all[touches->count++] =
        (struct touched){kolo_slice_address(request, slice),
                         slice->count * kolo_dtype_bytes(request->call.dtype), how};
}

static void find_touches(const struct kolo_request *request, const struct kolo_step *step,
                         struct touches *touches_out)
{
    touches_out->count = 0;
    if (step->to >= 0)
        touch(touches_out, request, &step->out, TOUCH_READ);
    if (step->from >= 0)
        touch(touches_out, request, &step->in, TOUCH_RECEIVED);
    if (step->from >= 0 && step->reduces)
        touch(touches_out, request, &step->local, TOUCH_READ);
    if (step->copy_to.count > 0) {
        touch(touches_out, request, &step->copy_from, TOUCH_READ);
        touch(touches_out, request, &step->copy_to, TOUCH_COMPUTED);
    }
    if (step->fold.ways > 0) {
        struct kolo_slice others = step->fold.others;
        others.count = (size_t)(step->fold.ways - 1) * step->fold.stride;
        touch(touches_out, request, &step->fold.out, TOUCH_COMPUTED);
        touch(touches_out, request, &step->fold.mine, TOUCH_READ);
        touch(touches_out, request, &others, TOUCH_READ);
    }
    if (kolo_step_finishes(request, step))
        touch(touches_out, request, &step->finish, TOUCH_COMPUTED);
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

/* ---- the order of the segments ---- */

static void place(struct kolo_staged *staged, size_t index, size_t step)
{
    struct kolo_segment *segment = &staged->segments[index];
    if (segment->has_place)
        return;
    segment->has_place = true;
    segment->first = step;
    staged->segments[staged->placed++].turn = index;
}

/** Step number @p step will touch these segments. */
static void foresee(struct kolo_staged *staged, const struct touches *touches, size_t step)
{
    for (int t = 0; t < touches->count; t++) {
        size_t i, end;
        if (!find_segments(staged, &touches->all[t], &i, &end))
            continue;
        for (; i < end; i++) {
            struct kolo_segment *segment = &staged->segments[i];
            place(staged, i, step);
            if (touches->all[t].how == TOUCH_RECEIVED)
                segment->received = step + 1;
            if (touches->all[t].how == TOUCH_COMPUTED)
                segment->computed = step + 1;
        }
    }
}

static bool is_written(const struct kolo_segment *segment)
{
    return segment->received > 0 || segment->computed > 0;
}

/** Segments that no step touches come last. */
static void place_rest(struct kolo_staged *staged, size_t steps)
{
    for (size_t i = 0; i < staged->segment_count; i++) {
        place(staged, i, steps);
        staged->results_left += is_written(&staged->segments[i]);
    }
}

static void reset(struct kolo_staged *staged)
{
    staged->marks[KOLO_WAY_IN] = staged->marks[KOLO_WAY_OUT] = 0;
    staged->passed = 0;
    staged->placed = staged->due = staged->put = staged->results_left = 0;
    staged->steps_over = staged->steps_begun = staged->arrived = 0;
    for (size_t i = 0; i < staged->segment_count; i++)
        staged->segments[i] = (struct kolo_segment){.mark = 0};
}

static void foresee_all(const struct kolo_request *request)
{
    const size_t steps = request->plan->nsteps(&request->args);
    struct kolo_step step;
    struct touches touches;
    for (size_t index = 0; index < steps; index++) {
        request->plan->step(&request->args, index, &step);
        find_touches(request, &step, &touches);
        for (struct kolo_staged *staged = request->staged; staged; staged = staged->next)
            foresee(staged, &touches, index);
    }
    for (struct kolo_staged *staged = request->staged; staged; staged = staged->next)
        place_rest(staged, steps);
}

/* ---- copies to the host ---- */

/** How many neighbouring segments the next copy takes: those that one step needs, or as many as
 * have been put before. */
static size_t run_to_put(const struct kolo_staged *staged)
{
    const struct kolo_segment *segments = staged->segments;
    const size_t from = staged->put, first = segments[from].turn;
    size_t length = 1;
    while (length < RUN_MAX && from + length < staged->segment_count &&
           segments[from + length].turn == first + length &&
           (length < from || segments[first + length].first == segments[first].first))
        length++;
    return length;
}

static kolo_status put(struct kolo_staged *staged)
{
    const size_t length = run_to_put(staged), at = staged->segments[staged->put].turn;
    const uint64_t before = staged->marks[KOLO_WAY_IN];
    kolo_status status = copy(staged, KOLO_WAY_IN, at * staged->segment_bytes,
                              (at + length) * staged->segment_bytes);
    if (status == KOLO_OK)
        status = mark(staged, KOLO_WAY_IN);
    for (size_t i = at; i < at + length && status == KOLO_OK; i++) {
        staged->segments[i].is_put = true;
        staged->segments[i].mark =
            staged->marks[KOLO_WAY_IN] != before ? staged->marks[KOLO_WAY_IN] : 0;
    }
    staged->put += length;
    return status;
}

/** Puts what the steps up to number @p next need, and some more: a copy of RUN_MAX, and as many as
 * were needed so far. So at the start, when ranks that share a device all wait for their first
 * segments, few others come between these. */
static kolo_status put_ahead(struct kolo_staged *staged, size_t next)
{
    const size_t count = staged->placed;
    const struct kolo_segment *segments = staged->segments;
    kolo_status status = KOLO_OK;
    while (staged->due < count && segments[segments[staged->due].turn].first <= next)
        staged->due++;
    const size_t ahead = RUN_MAX + (staged->due < AHEAD ? staged->due : AHEAD);
    while (staged->put < count && staged->put < staged->due + ahead && status == KOLO_OK)
        status = put(staged);
    return status;
}

static kolo_status put_whole(struct kolo_staged *staged)
{
    const kolo_status status = copy(staged, KOLO_WAY_IN, 0, staged->bytes);
    return status == KOLO_OK ? mark(staged, KOLO_WAY_IN) : status;
}

kolo_status kolo_flow_begin(struct kolo_request *request, bool in_segments)
{
    kolo_status status = KOLO_OK;
    for (struct kolo_staged *staged = request->staged; staged; staged = staged->next)
        reset(staged);
    if (in_segments)
        foresee_all(request);
    for (struct kolo_staged *staged = request->staged; staged && status == KOLO_OK;
         staged = staged->next)
        status = in_segments ? put_ahead(staged, 0) : put_whole(staged);
    return status;
}

/** Looks which copies to the host are done. KOLO_AGAIN: not all of those that were put. */
static kolo_status look_in(struct kolo_request *request, struct kolo_staged *staged)
{
    uint64_t passed;
    if (staged->passed >= staged->marks[KOLO_WAY_IN])
        return KOLO_OK;
    const kolo_status status =
        kolo_lane_look(staged->lane, KOLO_WAY_IN, staged->marks[KOLO_WAY_IN], &passed);
    if (passed > staged->passed)
        request->comm->engine->has_moved = true;
    staged->passed = status == KOLO_OK ? staged->marks[KOLO_WAY_IN] : passed;
    return status;
}

kolo_status kolo_flow_is_in(struct kolo_request *request)
{
    kolo_status result = KOLO_OK;
    for (struct kolo_staged *staged = request->staged; staged; staged = staged->next) {
        const kolo_status status = look_in(request, staged);
        if (status != KOLO_OK && status != KOLO_AGAIN)
            return status;
        if (status == KOLO_AGAIN || staged->put < staged->placed)
            result = KOLO_AGAIN;
    }
    return result;
}

/** Whether the segments of @p staged that are touched were seen to be on the host. */
static bool has(const struct kolo_staged *staged, const struct touches *touches)
{
    for (int t = 0; t < touches->count; t++) {
        size_t i, end;
        if (!find_segments(staged, &touches->all[t], &i, &end))
            continue;
        for (; i < end; i++)
            if (!staged->segments[i].is_put || staged->segments[i].mark > staged->passed)
                return false;
    }
    return true;
}

kolo_status kolo_flow_has(struct kolo_request *request, const struct kolo_step *step)
{
    struct touches touches;
    find_touches(request, step, &touches);
    for (struct kolo_staged *staged = request->staged; staged; staged = staged->next) {
        if (has(staged, &touches))
            continue;
        const kolo_status status = look_in(request, staged);
        if (status != KOLO_OK && status != KOLO_AGAIN)
            return status;
        if (!has(staged, &touches))
            return KOLO_AGAIN;
    }
    return KOLO_OK;
}

/* ---- copies from the host ---- */

/** To where in @p staged the oldest step that is not over has received; 0: nothing. */
static size_t arrived_in(const struct kolo_staged *staged, const struct kolo_strand *strand)
{
    if (strand->first == strand->next)
        return 0;
    const struct kolo_flight *flight = &strand->flights[strand->first % strand->window];
    const size_t at = (size_t)((uintptr_t)flight->in.dst - (uintptr_t)staged->host);
    return flight->from >= 0 && at < staged->bytes ? at + flight->in.bytes_done : 0;
}

/** Whether its result is complete, and not on its way yet. A receive writes from its beginning
 * on. */
static bool is_ready(const struct kolo_staged *staged, size_t index)
{
    const struct kolo_segment *segment = &staged->segments[index];
    const size_t end =
        index + 1 < staged->segment_count ? (index + 1) * staged->segment_bytes : staged->bytes;
    const size_t over = staged->steps_over + (end <= staged->arrived);
    return !segment->is_out && is_written(segment) && segment->received <= over &&
           segment->computed <= staged->steps_begun;
}

/** How many neighbouring segments are ready, from number @p first on. */
static size_t run_of_results(const struct kolo_staged *staged, size_t first)
{
    size_t length = 0;
    while (length < RUN_MAX && first + length < staged->segment_count &&
           is_ready(staged, first + length))
        length++;
    return length;
}

/** Copies results back: few at a time towards the end, so that little is left when the plan is
 * over, and more before that. */
static kolo_status bring_results(struct kolo_staged *staged)
{
    kolo_status status = KOLO_OK;
    for (size_t i = 0, length; i < staged->segment_count && status == KOLO_OK;
         i += length + (length == 0)) {
        length = run_of_results(staged, i);
        if (length == 0 || (length < RUN_MAX && length < staged->results_left / RUN_MAX))
            continue;
        for (size_t k = i; k < i + length; k++)
            staged->segments[k].is_out = true;
        staged->results_left -= length;
        status = copy(staged, KOLO_WAY_OUT, i * staged->segment_bytes,
                      (i + length) * staged->segment_bytes);
    }
    return status;
}

kolo_status kolo_flow_continue(struct kolo_request *request)
{
    const size_t over = request->main.first, begun = request->main.next;
    kolo_status status = KOLO_OK;
    for (struct kolo_staged *staged = request->staged; staged && status == KOLO_OK;
         staged = staged->next) {
        status = put_ahead(staged, begun);
        const size_t arrived = arrived_in(staged, &request->main);
        if (status != KOLO_OK || staged->results_left == 0 || staged->out.bytes == 0 ||
            (staged->steps_over == over && staged->steps_begun == begun &&
             staged->arrived == arrived))
            continue;
        staged->steps_over = over;
        staged->steps_begun = begun;
        staged->arrived = arrived;
        status = bring_results(staged);
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
    for (struct kolo_staged *staged = request->staged; staged && status == KOLO_OK;
         staged = staged->next) {
        status = bring_rest(staged);
        if (status == KOLO_OK)
            status = mark(staged, KOLO_WAY_OUT);
    }
    return status;
}
