// SPDX-License-Identifier: Apache-2.0
// Scaling before and after reductions (kolo_opts.prescale and postscale). Plans know nothing of it.
#ifndef KOLO_RUNTIME_SCALE_H
#define KOLO_RUNTIME_SCALE_H

#include "runtime/submit.h"

/** Whether @p size is that of struct kolo_opts in this version or an earlier one. */
bool kolo_opts_size_is_known(size_t size);
/** A copy in the form of this version; what an earlier version's form lacks is zero. @p opts may be
 *  NULL; otherwise its size must be known. */
struct kolo_opts kolo_opts_copy(const struct kolo_opts *opts);
/** Whether these options (which may be NULL) scale anything. */
bool kolo_opts_scale(const struct kolo_opts *opts);
/** Whether the scaled input of a call goes to the call's own buffers, on all ranks. */
bool kolo_scale_has_place(const struct kolo_task *task);
/** Checks that the call can be scaled by the factors of its options. ERR_INVALID. */
kolo_status kolo_scale_check(const struct kolo_task *task) KOLO_NODISCARD;
/** Finds a place for the scaled input, and remembers the factors. ERR_NO_MEMORY. */
kolo_status kolo_scale_prepare(struct kolo_request *request,
                               const struct kolo_task *task) KOLO_NODISCARD;
/** Makes the factor of the result, which must be the same on all ranks, part of the request's
 *  description. */
void kolo_scale_describe(struct kolo_request *request, const struct kolo_task *task);
/** Scales the input, unless its device has done that. Only for a request whose prescale is not
 *  0. */
void kolo_scale_begin(const struct kolo_request *request);
/** Scales the result if the call asked for it. */
void kolo_scale_end(const struct kolo_request *request);

#endif
