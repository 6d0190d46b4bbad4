// SPDX-License-Identifier: Apache-2.0
// Calls whose links reach device buffers themselves: data is sent straight from device memory and
// lands in it, unless it arrives too early. No other data passes through the host. Owns nothing.
// Must never let a link read device memory that a copy has yet to write.
//
// How it works: a rank can run a call this way if no step of its plan computes anything or uses
// scratch (allgather, broadcast, alltoall, gather, scatter, messages), its buffers are memory of
// kolo_alloc_device that the transports know, and all of its links are up and reach that memory.
// Other ranks need not know, since nothing is different on the wire. Data that arrives before its
// receive has been offered lands in the slab that stands in for the buffer; it is copied to the
// device when its step is over, and no step begins before such copies are done. Local copies of a
// plan are done on the device.
//
// A rank that is alone has no links, and its steps only copy: those calls too stay on the device,
// with any memory.
//
// Why no other memory: the library is not told when the program frees it, and a registration that
// is kept would prevent the device from using it again.
#include "runtime/device_memory.h"
#include "runtime/staging_private.h"

/* ---- which calls ---- */

/** Whether the link to @p peer reaches device memory now. The link is made if there is none, since
 * the plan needs it. */
static bool reaches(const struct kolo_request *request, int peer)
{
    struct kolo_link *link = NULL;
    if (peer < 0)
        return true;
    const kolo_deadline deadline = kolo_deadline_in_ms(request->timeout_ms);
    return kolo_comm_link(request->comm, peer, deadline, &link) == KOLO_OK &&
           kolo_link_reaches_devices(link);
}

static struct kolo_staged *find(const struct kolo_request *request, const void *host)
{
    const uintptr_t at = (uintptr_t)host;
    for (struct kolo_staged *staged = request->staged; staged; staged = staged->next)
        if (at - (uintptr_t)staged->host < staged->bytes)
            return staged;
    return NULL;
}

static bool is_scratch(const struct kolo_slice *slice)
{
    return slice->count > 0 && slice->buffer == KOLO_BUFFER_SCRATCH;
}

/** Whether both buffers of the copy are on one device, or one of them is in host memory. */
static bool can_copy(const struct kolo_request *request, const struct kolo_step *step)
{
    if (step->copy_to.count == 0)
        return true;
    const struct kolo_staged *to = find(request, kolo_slice_address(request, &step->copy_to));
    const struct kolo_staged *from = find(request, kolo_slice_address(request, &step->copy_from));
    return !is_scratch(&step->copy_to) && !is_scratch(&step->copy_from) &&
           (!to || !from || to->lane == from->lane);
}

/** Whether what the step still has to compute changes nothing: the fold of one input is that input,
 * but the result of a logical operator is 0 or 1. */
static bool is_finished(const struct kolo_request *request, const struct kolo_step *step)
{
    const kolo_redop op = request->call.op;
    const bool is_same = request->args.size == 1 && (unsigned)op < KOLO_REDOP_OWN &&
                         op != KOLO_LAND && op != KOLO_LOR && op != KOLO_LXOR;
    return is_same || !kolo_step_finishes(request, step);
}

static bool can_step(const struct kolo_request *request, const struct kolo_step *step)
{
    return !(step->from >= 0 && (step->reduces || is_scratch(&step->in))) && step->fold.ways == 0 &&
           !(step->to >= 0 && is_scratch(&step->out)) && is_finished(request, step) &&
           can_copy(request, step);
}

static bool are_known(const struct kolo_request *request)
{
    struct kolo_engine *engine = request->comm->engine;
    struct kolo_pointer pointer;
    bool has_any = false;
    for (const struct kolo_staged *staged = request->staged; staged; staged = staged->next) {
        if (staged->bytes == 0) /* the entry of a stream that is followed */
            continue;
        has_any = true;
        if (!kolo_device_memory_find(engine, staged->device, staged->bytes, &pointer) ||
            !kolo_endpoint_know(engine->endpoint, &pointer))
            return false;
    }
    return has_any;
}

/** @p is_link: whether the links of all steps reach devices. Else: whether no step needs the data
 * on the host. */
static bool can_steps(const struct kolo_request *request, bool is_link)
{
    struct kolo_step step;
    const size_t steps = request->plan->nsteps(&request->args);
    for (size_t i = 0; i < steps; i++) {
        request->plan->step(&request->args, i, &step);
        if (is_link ? !reaches(request, step.to) || !reaches(request, step.from)
                    : !can_step(request, &step))
            return false;
    }
    return true;
}

/** Whether a rank that is alone needs no data on the host: its steps copy within the device, and no
 * link is used, so that any memory will do. */
static bool can_alone(const struct kolo_request *request)
{
    return request->args.size == 1 && request->route == &kolo_route_links && !request->parts &&
           request->scaling.prescale == 0 && request->scaling.postscale == 0 &&
           can_steps(request, false);
}

bool kolo_direct_buffers_allow(const struct kolo_request *request)
{
    if (!kolo_request_is_message(request) && can_alone(request))
        return true;
    if (!kolo_request_is_message(request) &&
        (request->route != &kolo_route_links || request->parts || request->scaling.prescale != 0 ||
         request->scaling.postscale != 0 || request->args.size == 1 || !can_steps(request, false)))
        return false;
    return are_known(request);
}

bool kolo_direct_is_possible(const struct kolo_request *request)
{
    if (!kolo_request_is_message(request) && can_alone(request))
        return true;
    return kolo_direct_buffers_allow(request) &&
           (kolo_request_is_message(request) ? reaches(request, request->call.peer)
                                             : can_steps(request, true));
}

void kolo_direct_begin(struct kolo_request *request)
{
    for (struct kolo_staged *staged = request->staged; staged; staged = staged->next)
        staged->marks[KOLO_WAY_IN] = staged->marks[KOLO_WAY_OUT] = 0;
    request->copied = 0;
}

/* ---- where data is ---- */

uint8_t *kolo_direct_address(const struct kolo_request *request, uint8_t *host)
{
    const struct kolo_staged *staged = find(request, host);
    return staged ? staged->device + (host - staged->host) : NULL;
}

/** Starts a copy in the lane of @p staged, in the direction to the device. */
static kolo_status copy(struct kolo_staged *staged, void *to, const void *from, size_t bytes)
{
    staged->marks[KOLO_WAY_OUT] = KOLO_LANE_IDLE;
    kolo_status status = kolo_lane_copy(staged->lane, KOLO_WAY_OUT, to, from, bytes);
    if (status == KOLO_OK)
        status = kolo_lane_mark(staged->lane, KOLO_WAY_OUT, &staged->marks[KOLO_WAY_OUT]);
    return status;
}

kolo_status kolo_direct_received(struct kolo_request *request, const struct kolo_work *work)
{
    struct kolo_staged *staged =
        work->bytes > 0 && !work->has_landed ? find(request, work->dst) : NULL;
    if (!staged)
        return KOLO_OK;
    return copy(staged, kolo_direct_address(request, work->dst), work->dst, work->bytes);
}

static kolo_status copy_on_the_spot(struct kolo_request *request, const struct kolo_step *step)
{
    uint8_t *to = kolo_slice_address(request, &step->copy_to);
    uint8_t *from = kolo_slice_address(request, &step->copy_from);
    struct kolo_staged *owner = find(request, to);
    const size_t bytes = step->copy_to.count * kolo_dtype_bytes(request->call.dtype);
    if (to == from)
        return KOLO_OK;
    if (!owner)
        owner = find(request, from);
    if (!owner) { /* both buffers are in host memory */
        memcpy(to, from, bytes);
        return KOLO_OK;
    }
    uint8_t *to_there = kolo_direct_address(request, to);
    const uint8_t *from_there = kolo_direct_address(request, from);
    return copy(owner, to_there ? to_there : to, from_there ? from_there : from, bytes);
}

static kolo_status are_copied(const struct kolo_request *request)
{
    kolo_status status = KOLO_OK;
    for (const struct kolo_staged *staged = request->staged; staged && status == KOLO_OK;
         staged = staged->next)
        if (staged->marks[KOLO_WAY_OUT] != 0)
            status = kolo_lane_passed(staged->lane, KOLO_WAY_OUT, staged->marks[KOLO_WAY_OUT]);
    return status;
}

kolo_status kolo_direct_may(struct kolo_request *request, size_t index,
                            const struct kolo_step *step)
{
    kolo_status status = are_copied(request);
    if (status != KOLO_OK || step->copy_to.count == 0 || request->copied > index)
        return status;
    status = copy_on_the_spot(request, step);
    request->copied = index + 1;
    return status == KOLO_OK ? are_copied(request) : status;
}
