// SPDX-License-Identifier: Apache-2.0
// Calls whose device buffers are lent to the other ranks of the host: the kernels of these ranks
// access them, as this rank's kernels access theirs (runtime/board_lent.c). No data passes through
// the host. Owns what stands in for such buffers: address ranges without memory. Must never let a
// copy or the processor touch those.
//
// How it works: whether a call can be lent depends on its arguments and options, its memory
// (kolo_alloc_device, for the reason in staging_direct.c), its lane, which needs the kernels, and
// its plan. Whether other ranks can lend is not known before they have entered. So the route begins
// with the stand-ins. If all ranks lend, the call continues where the data is. Otherwise this rank
// copies its data to the host after all (kolo_lent_bring), and so do all later calls of the
// communicator.
//
// A slab for a long buffer would cost more than the call: it would be allocated and locked, and
// then not used. So only addresses stand in for a long buffer. They get memory if it is needed
// after all: a slab if this is known before the call begins, else ordinary memory.
#include <errno.h>
#include <sys/mman.h>

#include "base/log.h"
#include "runtime/device_memory.h"
#include "runtime/scale.h"
#include "runtime/staging_private.h"
#include "runtime/submit.h"

enum { RESERVE_BYTES = 1 << 20 /* from this length on it is worth two system calls */ };

bool kolo_lent_may(const struct kolo_comm *comm, const struct kolo_task *task)
{
    return comm->engine->settings.cuda_ipc && comm->has_board && !atomic_load(&comm->group) &&
           (unsigned)task->op < KOLO_REDOP_OWN && kolo_scale_has_place(task) &&
           !kolo_call_is_message(task->kind) && task->kind != KOLO_CALL_ALLTOALLV;
}

bool kolo_lent_look(struct kolo_request *request, const void *memory, size_t bytes)
{
    struct kolo_engine *engine = request->comm->engine;
    return request->may_lend && kolo_device_memory_may_lend(engine, memory, bytes);
}

static void say_copies(void)
{
    KOLO_INFO("collectives copy device memory to the host: %s", kolo_error_detail());
}

void kolo_lent_ready(struct kolo_request *request)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(request->timeout_ms);
    for (struct kolo_staged *staged = request->staged; staged; staged = staged->next)
        if (request->may_lend && staged->bytes > 0 &&
            kolo_lane_ready(staged->lane, deadline) != KOLO_OK) {
            say_copies();
            request->may_lend = false;
        }
}

void kolo_lent_expect(struct kolo_engine *engine, const struct kolo_pointer *memory)
{
    struct kolo_lane *lane = NULL;
    if (!engine->settings.cuda_ipc || engine->world->local_size < 2)
        return;
    kolo_engine_enter(engine);
    kolo_status status = kolo_staging_lane(engine, memory, &lane);
    kolo_engine_leave(engine);
    if (status == KOLO_OK)
        status = kolo_lane_ready(lane, kolo_deadline_in_ms(engine->settings.timeout_ms));
    if (status != KOLO_OK)
        say_copies();
}

/* ---- what stands in for a buffer ---- */

bool kolo_lent_reserve(const struct kolo_request *request, struct kolo_staged *staged)
{
    if (!request->may_lend || !request->comm->lends || staged->bytes < RESERVE_BYTES)
        return false;
    void *memory =
        mmap(NULL, staged->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    staged->host = memory;
    staged->is_reserved = true;
    return true;
}

void kolo_lent_drop(struct kolo_staged *staged)
{
    if (staged->is_reserved)
        (void)munmap(staged->host, staged->bytes);
    staged->is_reserved = false;
}

kolo_status kolo_lent_bring(struct kolo_request *request)
{
    for (struct kolo_staged *staged = request->staged; staged; staged = staged->next)
        if (staged->is_reserved &&
            mmap(staged->host, staged->bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            return kolo_fail_errno(KOLO_ERR_NO_MEMORY, errno,
                                   "%zu bytes of host memory in place of device memory",
                                   staged->bytes);
    return KOLO_OK;
}

kolo_status kolo_lent_settle(struct kolo_request *request)
{
    kolo_status status = KOLO_OK;
    if (kolo_lent_can(request))
        return KOLO_OK;
    for (struct kolo_staged *staged = request->staged; staged && status == KOLO_OK;
         staged = staged->next)
        if (staged->is_reserved)
            status = kolo_staging_take_slab(request, staged);
    return status;
}

/* ---- which calls ---- */

bool kolo_lent_can(const struct kolo_request *request)
{
    const struct kolo_comm *comm = request->comm;
    const struct kolo_lane *lane = NULL;
    if (!request->may_lend || !comm->lends || !request->is_apart || request->parts ||
        request->route != &kolo_route_board ||
        (request->plan->is_oneshot && request->plan->collective == KOLO_COLLECTIVE_BROADCAST))
        return false;
    for (const struct kolo_staged *staged = request->staged; staged; staged = staged->next) {
        if (staged->bytes == 0) /* the entry of a stream that is followed */
            continue;
        if ((lane && staged->lane != lane) ||
            !kolo_device_memory_has_loan(comm->engine, staged->device, staged->bytes))
            return false;
        lane = staged->lane;
    }
    return lane != NULL;
}

void kolo_lent_begin(struct kolo_request *request)
{
    kolo_direct_begin(request); /* nothing is copied */
    request->stage = KOLO_STAGING_LENT;
}

/* ---- on the board ---- */

static struct kolo_staged *first_of(const struct kolo_request *request)
{
    struct kolo_staged *staged = request->staged;
    while (staged->bytes == 0)
        staged = staged->next;
    return staged;
}

struct kolo_lane *kolo_lent_lane(const struct kolo_request *request)
{
    return first_of(request)->lane;
}

void kolo_lent_marked(struct kolo_request *request, uint64_t mark)
{
    first_of(request)->marks[KOLO_WAY_OUT] = mark;
}

/* ---- scaling ---- */

/** Multiplies the memory for which @p out and @p in stand, and sets a mark behind that. */
static kolo_status scale(struct kolo_request *request, void *out, const void *in, size_t count,
                         double factor)
{
    struct kolo_staged *first = first_of(request);
    uint64_t *mark = &first->marks[KOLO_WAY_OUT];
    *mark = KOLO_LANE_IDLE; /* until it is set */
    const kolo_status status =
        kolo_lane_scale(first->lane, KOLO_WAY_OUT, kolo_staging_address(request, out),
                        kolo_staging_address(request, (uint8_t *)(uintptr_t)in), count,
                        request->call.dtype, factor);
    return status == KOLO_OK ? kolo_lane_mark(first->lane, KOLO_WAY_OUT, mark) : status;
}

kolo_status kolo_lent_scale_input(struct kolo_request *request)
{
    if (request->scaling.input ==
        request->scaling.unscaled) /* its buffer will never hold the input again */
        request->scaling.is_on_device = true;
    return scale(request, request->scaling.input, request->scaling.unscaled,
                 request->scaling.input_count, request->scaling.prescale);
}

kolo_status kolo_lent_input_is_scaled(const struct kolo_request *request)
{
    const struct kolo_staged *first = first_of(request);
    return kolo_lane_passed(first->lane, KOLO_WAY_OUT, first->marks[KOLO_WAY_OUT]);
}

kolo_status kolo_lent_finish(struct kolo_request *request)
{
    if (request->scaling.postscale == 0 || request->scaling.result_count == 0)
        return KOLO_OK;
    return scale(request, request->recv, request->recv, request->scaling.result_count,
                 request->scaling.postscale);
}

/* ---- through the host after all ---- */

bool kolo_lent_take_in(struct kolo_request *request)
{
    kolo_status status = kolo_lent_bring(request);
    if (status == KOLO_OK)
        status = kolo_flow_begin(request, false);
    request->stage = KOLO_STAGING_IN;
    if (status != KOLO_OK)
        (void)kolo_staging_fail(request, status);
    return status == KOLO_OK;
}
