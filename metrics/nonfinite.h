// SPDX-License-Identifier: Apache-2.0
// What a metric does with values that are not finite, according to the policy in its config. Owns
// nothing. Private to metrics/.
#ifndef KOLO_METRICS_NONFINITE_H
#define KOLO_METRICS_NONFINITE_H

#include "base/float_mode.h" // refuses to be compiled where no value counts as NaN
#include "metrics/metric.h"

/** Returns ERR_INVALID, naming @p kind, if @p policy is not a policy, or if it imputes a value
 *  whose magnitude exceeds @p largest. */
kolo_status kolo_nonfinite_check(const char *kind, kolo_nonfinite policy, double imputed,
                                 double largest) KOLO_NODISCARD;
/** Adds the policy to the fingerprint of the configuration. */
void kolo_nonfinite_setting(struct kolo_metric *metric, kolo_nonfinite policy, double imputed);
/** At the end of a compute: returns the status for @p nonfinite values that are not finite, and
 *  logs a warning if the policy says so. @p text describes the values. */
kolo_status kolo_nonfinite_judge(const struct kolo_metric *metric, kolo_nonfinite policy,
                                 int64_t nonfinite, const char *text) KOLO_NODISCARD;
/** Whether the policy leaves values that are not finite out. */
bool kolo_nonfinite_leaves_out(kolo_nonfinite policy);

#endif
