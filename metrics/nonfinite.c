// SPDX-License-Identifier: Apache-2.0
// Policies for values that are not finite: see metrics/nonfinite.h. All ranks return the same
// status, and only one of them warns.
#include "metrics/nonfinite.h"

#include <math.h>

#include "base/log.h"

kolo_status kolo_nonfinite_check(const char *kind, kolo_nonfinite policy, double imputed,
                                 double largest)
{
    if ((unsigned)policy > KOLO_NONFINITE_IMPUTE)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_%s_create: nonfinite %d is not a value of kolo_nonfinite", kind,
                         (int)policy);
    if (policy == KOLO_NONFINITE_IMPUTE && !(fabs(imputed) <= largest))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_%s_create: imputed %g must be at most %g in magnitude", kind,
                         imputed, largest);
    return KOLO_OK;
}

void kolo_nonfinite_setting(struct kolo_metric *metric, kolo_nonfinite policy, double imputed)
{
    kolo_metric_setting(metric, &policy, sizeof policy);
    if (policy == KOLO_NONFINITE_IMPUTE)
        kolo_metric_setting(metric, &imputed, sizeof imputed);
}

kolo_status kolo_nonfinite_judge(const struct kolo_metric *metric, kolo_nonfinite policy,
                                 int64_t nonfinite, const char *text)
{
    if (nonfinite == 0)
        return KOLO_OK;
    if (policy == KOLO_NONFINITE_ERROR)
        return kolo_fail(KOLO_ERR_DATA,
                         "%s: %s; correct the data, or create the metric with KOLO_NONFINITE_SKIP",
                         metric->ops->name, text);
    if (policy == KOLO_NONFINITE_WARN && metric->warns)
        KOLO_WARN("%s: %s: they are left out", metric->ops->name, text);
    return KOLO_OK;
}

bool kolo_nonfinite_leaves_out(kolo_nonfinite policy)
{
    return policy == KOLO_NONFINITE_SKIP || policy == KOLO_NONFINITE_WARN;
}
