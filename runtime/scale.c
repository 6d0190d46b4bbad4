// SPDX-License-Identifier: Apache-2.0
// Scaling before and after reductions (prescale and postscale of struct kolo_opts): checks the
// factors, scales the input before anything is sent, and the result when it is there. So a plan
// only sees scaled data, and the result does not depend on the plan. Must never write the caller's
// send buffer, unless the call is in place; the scaled input goes to memory of the call or to the
// receive buffer.
#include "runtime/scale.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "memory/reduce.h"

static bool is_set(double factor)
{
    return factor != 0 && factor != 1;
}

/** A caller that was compiled before the factors existed has none. */
bool kolo_opts_scale(const struct kolo_opts *opts)
{
    return opts && opts->size >= offsetof(struct kolo_opts, flags) &&
           (is_set(opts->prescale) || is_set(opts->postscale));
}

bool kolo_opts_size_is_known(size_t size)
{
    return size == offsetof(struct kolo_opts, prescale) ||
           size == offsetof(struct kolo_opts, flags) || size == sizeof(struct kolo_opts);
}

struct kolo_opts kolo_opts_copy(const struct kolo_opts *opts)
{
    struct kolo_opts copy = {0};
    if (opts)
        memcpy(&copy, opts, opts->size);
    copy.size = sizeof copy;
    return copy;
}

/** Whether @p factor can be used for elements of @p dtype. All types except float64 are multiplied
 * by the nearest float32, which may be 0 or infinite although the factor is not. */
static bool is_kept(double factor, kolo_dtype dtype)
{
    float narrow = (float)factor;
    return !is_set(factor) || dtype == KOLO_FLOAT64 || (narrow != 0 && isfinite(narrow));
}

kolo_status kolo_scale_check(const struct kolo_task *task)
{
    const struct kolo_opts *opts = task->opts;
    if (!kolo_opts_scale(opts))
        return KOLO_OK;
    if (!kolo_call_reduces(task->kind))
        return kolo_fail(KOLO_ERR_INVALID, "%s: only reductions have prescale and postscale",
                         task->function);
    if (!kolo_dtype_is_float(task->dtype))
        return kolo_fail(KOLO_ERR_INVALID, "%s: prescale and postscale are for floats, not for %s",
                         task->function, kolo_dtype_text(task->dtype));
    if (!isfinite(opts->prescale) || !isfinite(opts->postscale))
        return kolo_fail(KOLO_ERR_INVALID, "%s: prescale %g or postscale %g is not finite",
                         task->function, opts->prescale, opts->postscale);
    if (!is_kept(opts->prescale, task->dtype) || !is_kept(opts->postscale, task->dtype))
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: prescale %g or postscale %g is beyond float32, in which %s is "
                         "multiplied: use a factor from 1e-45 to 3e38",
                         task->function, opts->prescale, opts->postscale,
                         kolo_dtype_text(task->dtype));
    return KOLO_OK;
}

/** The number of elements in this rank's send buffer. */
static size_t input_count(const struct kolo_request *request, const struct kolo_task *task)
{
    if (task->kind == KOLO_CALL_REDUCE_SCATTER)
        return task->count * (size_t)request->comm->size;
    return (size_t)request->call.count; /* reduce_scatterv: the sum of the counts */
}

static size_t result_count(const struct kolo_request *request, const struct kolo_task *task)
{
    if (task->kind == KOLO_CALL_REDUCE && request->comm->rank != task->root)
        return 0;
    if (task->kind == KOLO_CALL_REDUCE_SCATTERV)
        return task->counts[request->comm->rank];
    return task->count;
}

/** Where the scaled input goes: to the input itself if the call is in place; to the receive buffer
 * if that is as large (then the plan runs in place); else to memory of the request. */
static void *place_for(struct kolo_request *request, const struct kolo_task *task, size_t bytes)
{
    bool has_result = task->kind == KOLO_CALL_ALLREDUCE ||
                      (task->kind == KOLO_CALL_REDUCE && request->comm->rank == task->root);
    if (task->in_place || has_result) {
        request->in_place = true;
        return task->in_place ? (void *)(uintptr_t)task->send : task->recv;
    }
    request->scaling.room = kolo_aligned(64, bytes);
    return request->scaling.room;
}

bool kolo_scale_has_place(const struct kolo_task *task)
{
    return !kolo_opts_scale(task->opts) || !is_set(task->opts->prescale) ||
           task->kind == KOLO_CALL_ALLREDUCE;
}

void kolo_scale_describe(struct kolo_request *request, const struct kolo_task *task)
{
    if (kolo_opts_scale(task->opts) && is_set(task->opts->postscale))
        request->call.hash = kolo_call_hash(request->call.hash, &task->opts->postscale,
                                            sizeof task->opts->postscale);
}

kolo_status kolo_scale_prepare(struct kolo_request *request, const struct kolo_task *task)
{
    size_t count;
    if (!kolo_opts_scale(task->opts))
        return KOLO_OK;
    if (is_set(task->opts->postscale)) {
        request->scaling.postscale = task->opts->postscale;
        request->scaling.result_count = result_count(request, task);
    }
    count = input_count(request, task);
    if (count == 0 || !is_set(task->opts->prescale))
        return KOLO_OK;
    request->scaling.input = place_for(request, task, count * kolo_dtype_bytes(task->dtype));
    if (!request->scaling.input)
        return KOLO_ERR_NO_MEMORY;
    request->scaling.prescale = task->opts->prescale;
    request->scaling.input_count = count;
    request->scaling.unscaled = task->send;
    request->send = request->scaling.input;
    return KOLO_OK;
}

void kolo_scale_begin(const struct kolo_request *request)
{
    if (request->scaling.is_on_device)
        return;
    kolo_scale(request->scaling.input, request->scaling.unscaled, request->scaling.input_count,
               request->call.dtype, request->scaling.prescale);
}

void kolo_scale_end(const struct kolo_request *request)
{
    if (is_set(request->scaling.postscale) && request->scaling.result_count > 0)
        kolo_scale(request->recv, request->recv, request->scaling.result_count, request->call.dtype,
                   request->scaling.postscale);
}
