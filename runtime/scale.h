// SPDX-License-Identifier: Apache-2.0
// Pre- and post-scaling of reductions, outside of the plans.
#ifndef KOLO_RUNTIME_SCALE_H
#define KOLO_RUNTIME_SCALE_H

#include "runtime/submit.h"

/** Of struct kolo_opts, in this version or an earlier one? */
bool kolo_opts_size_is_known(size_t size);
/** Do these options (may be NULL) scale anything? */
bool kolo_opts_scale(const struct kolo_opts *opts);
/** Whether what it scales can be scaled, by such factors. ERR_INVALID. */
kolo_status kolo_scale_check(const struct kolo_task *task) KOLO_NODISCARD;
/** Finds a place for the scaled input, and remembers the factors. ERR_NO_MEMORY. */
kolo_status kolo_scale_prepare(struct kolo_request *request,
                               const struct kolo_task *task) KOLO_NODISCARD;
/** Scales the input; of a request whose prescale is not 0. */
void kolo_scale_begin(const struct kolo_request *request);
/** Scales the result, if that was asked for. */
void kolo_scale_end(const struct kolo_request *request);

#endif
