// SPDX-License-Identifier: Apache-2.0
// What kinds of metrics do with numbers that are not finite, by the policy of their config. Owns
// nothing. Private to metrics/.
#ifndef KOLO_METRICS_NONFINITE_H
#define KOLO_METRICS_NONFINITE_H

#include "metrics/metric.h"

/** ERR_INVALID, naming @p kind, unless the policy is one and what it imputes is at most @p largest
 * in magnitude. */
kolo_status kolo_nonfinite_check(const char *kind, kolo_nonfinite policy, double imputed,
                                 double largest) KOLO_NODISCARD;
/** Makes the policy a part of the configuration. */
void kolo_nonfinite_setting(struct kolo_metric *metric, kolo_nonfinite policy, double imputed);
/** When a compute is over: the status of @p nonfinite values, of which @p text says what they are,
 * and a warning if the policy wants one. */
kolo_status kolo_nonfinite_judge(const struct kolo_metric *metric, kolo_nonfinite policy,
                                 int64_t nonfinite, const char *text) KOLO_NODISCARD;
/** Whether they do not count. */
bool kolo_nonfinite_leaves_out(kolo_nonfinite policy);

#endif
