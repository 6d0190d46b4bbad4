// SPDX-License-Identifier: Apache-2.0
// Scores of classes: see metrics/score.h. Numerator and denominator are integers (for F-beta, made
// from integers in one fixed order) and are divided once. Averages are summed in the order of the
// classes.
#include "metrics/score.h"

#include "metrics/metric.h"

struct fraction {
    double over, under;
};

static struct fraction fraction_of(const struct kolo_score_config *config,
                                   const struct kolo_outcomes *o)
{
    double beta = config->beta != 0 ? config->beta : 1, square = beta * beta;
    double hits = (1 + square) * (double)o->tp;
    switch (config->score) {
    case KOLO_SCORE_PRECISION:
        return (struct fraction){(double)o->tp, (double)(o->tp + o->fp)};
    case KOLO_SCORE_RECALL:
        return (struct fraction){(double)o->tp, (double)(o->tp + o->fn)};
    case KOLO_SCORE_F_BETA:
        return (struct fraction){hits, hits + square * (double)o->fn + (double)o->fp};
    case KOLO_SCORE_SPECIFICITY:
        return (struct fraction){(double)o->tn, (double)(o->tn + o->fp)};
    case KOLO_SCORE_IOU:
        return (struct fraction){(double)o->tp, (double)(o->tp + o->fp + o->fn)};
    case KOLO_SCORE_DICE:
        break;
    }
    return (struct fraction){(double)(2 * o->tp), (double)(2 * o->tp + o->fp + o->fn)};
}

static double value_of(const struct kolo_score_config *config, const struct kolo_outcomes *o)
{
    struct fraction fraction = fraction_of(config, o);
    return fraction.under > 0 ? fraction.over / fraction.under : config->undefined;
}

static kolo_status check(const struct kolo_score_config *config, int64_t classes,
                         const char *function, size_t count)
{
    kolo_status status =
        kolo_check_struct(function, "config", "kolo_score_config", config, sizeof *config);
    if (status != KOLO_OK)
        return status;
    if ((unsigned)config->score > KOLO_SCORE_DICE)
        return kolo_fail(KOLO_ERR_INVALID, "%s: score %d is not a value of kolo_score", function,
                         (int)config->score);
    if ((unsigned)config->average > KOLO_AVERAGE_NONE)
        return kolo_fail(KOLO_ERR_INVALID, "%s: average %d is not a value of kolo_average",
                         function, (int)config->average);
    if (!(config->beta >= 0 && config->beta <= 1e100))
        return kolo_fail(KOLO_ERR_INVALID, "%s: beta %g is not in 0..1e100", function,
                         config->beta);
    size_t need = config->average == KOLO_AVERAGE_NONE ? (size_t)classes : 1;
    if (count < need)
        return kolo_fail(KOLO_ERR_INVALID, "%s: count is %zu, but values_out gets %zu", function,
                         count, need);
    return KOLO_OK;
}

static double macro(const struct kolo_metric *metric, kolo_outcomes_of outcomes_of, int64_t classes,
                    const struct kolo_score_config *config)
{
    double sum = 0;
    int64_t counted = 0;
    for (int64_t c = 0; c < classes; c++) {
        struct kolo_outcomes o = outcomes_of(metric, c);
        if (!config->counts_absent && o.tp + o.fp + o.fn == 0)
            continue;
        sum += value_of(config, &o);
        counted++;
    }
    return counted ? sum / (double)counted : config->undefined;
}

static double micro(const struct kolo_metric *metric, kolo_outcomes_of outcomes_of, int64_t classes,
                    const struct kolo_score_config *config)
{
    struct kolo_outcomes sum = {0};
    for (int64_t c = 0; c < classes; c++) {
        struct kolo_outcomes o = outcomes_of(metric, c);
        sum.tp += o.tp;
        sum.fp += o.fp;
        sum.fn += o.fn;
        sum.tn += o.tn;
    }
    return value_of(config, &sum);
}

static double weighted(const struct kolo_metric *metric, kolo_outcomes_of outcomes_of,
                       int64_t classes, const struct kolo_score_config *config)
{
    double sum = 0;
    int64_t weight = 0;
    for (int64_t c = 0; c < classes; c++) {
        struct kolo_outcomes o = outcomes_of(metric, c);
        if (o.tp + o.fn == 0)
            continue;
        weight += o.tp + o.fn;
        sum += value_of(config, &o) * (double)(o.tp + o.fn);
    }
    return weight ? sum / (double)weight : config->undefined;
}

kolo_status kolo_truths_check(const char *function, const struct kolo_ignored *ignored,
                              const int8_t *truths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (truths[i] != 0 && truths[i] != 1 && !kolo_truth_is_ignored(ignored, truths[i]))
            return kolo_fail(KOLO_ERR_INVALID,
                             "%s: truths[%zu] is %d, not 0, 1, -1 (ignored) or the config's "
                             "ignore_index",
                             function, i, truths[i]);
    return KOLO_OK;
}

kolo_status kolo_scores(const struct kolo_metric *metric, kolo_outcomes_of outcomes_of,
                        int64_t classes, const char *function,
                        const struct kolo_score_config *config, double *values_out, size_t count)
{
    kolo_status status = check(config, classes, function, count);
    if (status != KOLO_OK)
        return status;
    switch (config->average) {
    case KOLO_AVERAGE_MACRO:
        *values_out = macro(metric, outcomes_of, classes, config);
        return KOLO_OK;
    case KOLO_AVERAGE_MICRO:
        *values_out = micro(metric, outcomes_of, classes, config);
        return KOLO_OK;
    case KOLO_AVERAGE_WEIGHTED:
        *values_out = weighted(metric, outcomes_of, classes, config);
        return KOLO_OK;
    case KOLO_AVERAGE_NONE:
        break;
    }
    for (int64_t c = 0; c < classes; c++) {
        struct kolo_outcomes o = outcomes_of(metric, c);
        values_out[c] = value_of(config, &o);
    }
    return KOLO_OK;
}
