// SPDX-License-Identifier: Apache-2.0
// For scores.py and scores_torch.py: reads samples from standard input, computes their metrics on
// three ranks, prints one "name value" a line. Input, native byte order: int64 samples, int64
// classes; then float probabilities[samples][classes], int64 labels[samples], double
// predictions[samples], double targets[samples]. Several labels per sample are made of its label:
// multilabel_truth().
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <kolo/classification.h>
#include <kolo/regression.h>

enum {
    CONFUSION,
    CURVE,
    LIKELIHOOD,
    REGRESSION,
    ACCURACY,
    MULTILABEL,
    CALIBRATION,
    ACCURACY_BUT_LAST, /* without samples of the last class */
    CALIBRATION_BUT_LAST,
    BINNED_CURVE,
    MEAN_SKIPPING, /* of predictions, of which some are NaN */
    MEAN_IMPUTING,
    MEAN_FAST,
    METRICS
};
enum { CLASSES_MAX = 64, BINS = 16 };

struct data {
    int64_t samples, classes;
    float *probabilities;
    int64_t *labels;
    double *predictions, *targets;
};

static void *take(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (!memory || fread(memory, bytes, count, stdin) != count) {
        fprintf(stderr, "scores: the input is too short\n");
        exit(1);
    }
    return memory;
}

static kolo_status create_but_last(const struct data *data, struct kolo_metric *metrics[METRICS])
{
    const struct kolo_accuracy_config accuracy = {.size = sizeof accuracy,
                                                  .classes = data->classes,
                                                  .k = {1, 2},
                                                  .ignores = true,
                                                  .ignore_index = data->classes - 1};
    const struct kolo_calibration_config calibration = {.size = sizeof calibration,
                                                        .classes = data->classes,
                                                        .ignores = true,
                                                        .ignore_index = data->classes - 1};
    kolo_status status = kolo_accuracy_create(&accuracy, &metrics[ACCURACY_BUT_LAST]);
    if (status == KOLO_OK)
        status = kolo_calibration_create(&calibration, &metrics[CALIBRATION_BUT_LAST]);
    return status;
}

static kolo_status create_means(struct kolo_metric *metrics[METRICS])
{
    const struct kolo_mean_config skipping = {.size = sizeof skipping,
                                              .nonfinite = KOLO_NONFINITE_SKIP};
    const struct kolo_mean_config imputing = {
        .size = sizeof imputing, .nonfinite = KOLO_NONFINITE_IMPUTE, .imputed = 1};
    const struct kolo_mean_config fast = {
        .size = sizeof fast, .nonfinite = KOLO_NONFINITE_SKIP, .fast = true};
    kolo_status status = kolo_mean_create(&skipping, &metrics[MEAN_SKIPPING]);
    if (status == KOLO_OK)
        status = kolo_mean_create(&imputing, &metrics[MEAN_IMPUTING]);
    if (status == KOLO_OK)
        status = kolo_mean_create(&fast, &metrics[MEAN_FAST]);
    return status;
}

static kolo_status create(const struct data *data, struct kolo_metric *metrics[METRICS])
{
    const struct kolo_confusion_config confusion = {.size = sizeof confusion,
                                                    .classes = data->classes};
    const struct kolo_curve_config curve = {
        .size = sizeof curve, .labels = data->classes, .micro = true};
    const struct kolo_curve_config binned = {
        .size = sizeof binned, .labels = data->classes, .bins = BINS};
    const struct kolo_likelihood_config likelihood = {.size = sizeof likelihood,
                                                      .classes = data->classes};
    const struct kolo_regression_config regression = {.size = sizeof regression};
    const struct kolo_accuracy_config accuracy = {
        .size = sizeof accuracy, .classes = data->classes, .k = {1, 2}};
    const struct kolo_multilabel_config multilabel = {.size = sizeof multilabel,
                                                      .labels = data->classes};
    const struct kolo_calibration_config calibration = {.size = sizeof calibration,
                                                        .classes = data->classes};
    kolo_status status = kolo_confusion_create(&confusion, &metrics[CONFUSION]);
    if (status == KOLO_OK)
        status = kolo_accuracy_create(&accuracy, &metrics[ACCURACY]);
    if (status == KOLO_OK)
        status = kolo_multilabel_create(&multilabel, &metrics[MULTILABEL]);
    if (status == KOLO_OK)
        status = kolo_calibration_create(&calibration, &metrics[CALIBRATION]);
    if (status == KOLO_OK)
        status = kolo_curve_create(&curve, &metrics[CURVE]);
    if (status == KOLO_OK)
        status = kolo_curve_create(&binned, &metrics[BINNED_CURVE]);
    if (status == KOLO_OK)
        status = kolo_likelihood_create(&likelihood, &metrics[LIKELIHOOD]);
    if (status == KOLO_OK)
        status = kolo_regression_create(&regression, &metrics[REGRESSION]);
    if (status == KOLO_OK)
        status = create_but_last(data, metrics);
    if (status == KOLO_OK)
        status = create_means(metrics);
    return status;
}

/* The same in scores_torch.py. */
static int8_t multilabel_truth(int64_t label, int64_t class)
{
    return (label + class) % 3 == 0 || label == class;
}

/* Every seventh prediction is NaN: also in scores.py. */
static kolo_status update_means(const struct data *data, int64_t i,
                                struct kolo_metric *metrics[METRICS])
{
    double value = i % 7 == 3 ? (double)NAN : data->predictions[i];
    kolo_status status = KOLO_OK;
    for (int m = MEAN_SKIPPING; status == KOLO_OK && m <= MEAN_FAST; m++)
        status = kolo_mean_update_float64(metrics[m], &value, 1, NULL);
    return status;
}

static kolo_status update(const struct data *data, int64_t i, struct kolo_metric *metrics[METRICS])
{
    const float *p = data->probabilities + i * data->classes;
    const int64_t *label = data->labels + i;
    int8_t truths[CLASSES_MAX];
    for (int64_t c = 0; c < data->classes; c++)
        truths[c] = multilabel_truth(*label, c);
    kolo_status status = kolo_confusion_update_scores(metrics[CONFUSION], p, label, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_curve_update_classes(metrics[CURVE], p, label, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_curve_update_classes(metrics[BINNED_CURVE], p, label, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_likelihood_update(metrics[LIKELIHOOD], p, label, 1, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_regression_update_float64(metrics[REGRESSION], data->predictions + i,
                                                data->targets + i, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_accuracy_update(metrics[ACCURACY], p, label, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_accuracy_update(metrics[ACCURACY_BUT_LAST], p, label, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_calibration_update(metrics[CALIBRATION_BUT_LAST], p, label, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_multilabel_update(metrics[MULTILABEL], p, truths, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_calibration_update(metrics[CALIBRATION], p, label, 1, NULL);
    if (status == KOLO_OK)
        status = update_means(data, i, metrics);
    return status;
}

typedef kolo_status score_of(const struct kolo_metric *metric,
                             const struct kolo_score_config *config, double *values_out,
                             size_t count);

static kolo_status print_score(const struct kolo_metric *metric, score_of *score,
                               const char *prefix, kolo_score which, int64_t classes)
{
    static const char *const scores[] = {"precision", "recall", "f", "specificity", "iou", "dice"};
    static const char *const averages[] = {"macro", "micro", "weighted"};
    struct kolo_score_config config = {.size = sizeof config, .score = which, .beta = 2};
    double values[CLASSES_MAX];
    for (int a = 0; a < 3; a++) {
        config.average = (kolo_average)a;
        kolo_status status = score(metric, &config, values, 1);
        if (status != KOLO_OK)
            return status;
        printf("%s%s_%s %.17g\n", prefix, scores[which], averages[a], values[0]);
    }
    config.average = KOLO_AVERAGE_NONE;
    kolo_status status = score(metric, &config, values, CLASSES_MAX);
    for (int64_t c = 0; status == KOLO_OK && c < classes; c++)
        printf("%s%s_of_%lld %.17g\n", prefix, scores[which], (long long)c, values[c]);
    return status;
}

static kolo_status print_scores(const struct kolo_metric *metric, score_of *score,
                                const char *prefix, int64_t classes)
{
    kolo_status status = KOLO_OK;
    for (int s = 0; status == KOLO_OK && s <= KOLO_SCORE_DICE; s++)
        status = print_score(metric, score, prefix, (kolo_score)s, classes);
    return status;
}

/* @p suffix goes behind each name. */
static kolo_status print_probable(const struct kolo_metric *accuracy,
                                  const struct kolo_metric *calibration, const char *suffix)
{
    struct kolo_accuracy_result a = {.size = sizeof a};
    struct kolo_calibration_result c = {.size = sizeof c};
    kolo_status status = kolo_accuracy_result(accuracy, &a);
    if (status == KOLO_OK)
        status = kolo_calibration_result(calibration, &c);
    printf("top1%s %.17g\ntop2%s %.17g\n", suffix, a.accuracy[0], suffix, a.accuracy[1]);
    printf("ece%s %.17g\nmce%s %.17g\nrms_calibration%s %.17g\n", suffix, c.expected, suffix,
           c.maximum, suffix, c.rms);
    return status;
}

static kolo_status print_more(struct kolo_metric *const metrics[METRICS], int64_t classes)
{
    struct kolo_multilabel_result m = {.size = sizeof m};
    kolo_status status = kolo_multilabel_result(metrics[MULTILABEL], &m);
    if (status == KOLO_OK)
        status = print_probable(metrics[ACCURACY], metrics[CALIBRATION], "");
    if (status == KOLO_OK)
        status =
            print_probable(metrics[ACCURACY_BUT_LAST], metrics[CALIBRATION_BUT_LAST], "_but_last");
    if (status == KOLO_OK)
        status = print_scores(metrics[MULTILABEL], kolo_multilabel_score, "multilabel_", classes);
    printf("multilabel_accuracy %.17g\nexact_match %.17g\n", m.accuracy, m.exact_match);
    return status;
}

static kolo_status print_means(struct kolo_metric *const metrics[METRICS])
{
    static const char *const names[] = {"mean_skipping", "mean_imputing", "mean_fast"};
    struct kolo_mean_result r = {.size = sizeof r};
    kolo_status status = KOLO_OK;
    for (int m = MEAN_SKIPPING; status == KOLO_OK && m <= MEAN_FAST; m++) {
        status = kolo_mean_result(metrics[m], &r);
        printf("%s %.17g\n", names[m - MEAN_SKIPPING], r.mean);
    }
    return status;
}

/* @p suffix goes behind each name. */
static kolo_status print_curve(const struct kolo_metric *metric, const char *suffix)
{
    static const char *const names[] = {
        [KOLO_AVERAGE_MICRO] = "micro", [KOLO_AVERAGE_WEIGHTED] = "weighted"};
    struct kolo_curve_result r = {.size = sizeof r};
    struct kolo_curve_label l;
    kolo_status status = kolo_curve_result(metric, &r);
    printf("auroc%s %.17g\nap%s %.17g\n", suffix, r.auroc, suffix, r.average_precision);
    for (int a = KOLO_AVERAGE_MICRO; status == KOLO_OK && a <= KOLO_AVERAGE_WEIGHTED; a++) {
        status = kolo_curve_average(metric, (kolo_average)a, &l);
        printf("auroc_%s%s %.17g\nap_%s%s %.17g\n", names[a], suffix, l.auroc, names[a], suffix,
               l.average_precision);
    }
    return status;
}

static kolo_status print(struct kolo_metric *const metrics[METRICS], int64_t classes)
{
    struct kolo_confusion_result c = {.size = sizeof c};
    struct kolo_likelihood_result l = {.size = sizeof l};
    struct kolo_regression_result r = {.size = sizeof r};
    kolo_status status = kolo_confusion_result(metrics[CONFUSION], &c);
    if (status == KOLO_OK)
        status = print_curve(metrics[CURVE], "");
    if (status == KOLO_OK)
        status = print_curve(metrics[BINNED_CURVE], "_binned");
    if (status == KOLO_OK)
        status = kolo_likelihood_result(metrics[LIKELIHOOD], &l);
    if (status == KOLO_OK)
        status = kolo_regression_result(metrics[REGRESSION], &r);
    if (status == KOLO_OK)
        status = print_scores(metrics[CONFUSION], kolo_confusion_score, "", classes);
    if (status == KOLO_OK)
        status = print_more(metrics, classes);
    if (status == KOLO_OK)
        status = print_means(metrics);
    printf("accuracy %.17g\nbalanced %.17g\nkappa %.17g\nmatthews %.17g\n", c.accuracy,
           c.balanced_accuracy, c.kappa, c.matthews);
    printf("log_loss %.17g\nperplexity %.17g\n", l.log_loss, l.perplexity);
    printf("mae %.17g\nmse %.17g\nr2 %.17g\n", r.mae, r.mse, r.r2);
    return status;
}

static kolo_status rank_main(struct kolo_comm *comm, void *argument)
{
    const struct data *data = argument;
    struct kolo_metric *metrics[METRICS] = {NULL};
    kolo_status status = create(data, metrics);
    for (int64_t i = kolo_rank(comm); status == KOLO_OK && i < data->samples; i += kolo_size(comm))
        status = update(data, i, metrics);
    if (status == KOLO_OK)
        status = kolo_metrics_compute(comm, metrics, METRICS, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        status = print(metrics, data->classes);
    for (int m = 0; m < METRICS; m++)
        kolo_metric_destroy(metrics[m]);
    return status;
}

int main(void)
{
    int64_t *head = take(2, sizeof *head);
    struct data data = {.samples = head[0], .classes = head[1]};
    if (data.samples < 0 || data.classes < 1 || data.classes > CLASSES_MAX) {
        fprintf(stderr, "scores: at most %d classes\n", CLASSES_MAX);
        return 1;
    }
    size_t samples = (size_t)head[0];
    data.probabilities = take(samples * (size_t)head[1], sizeof *data.probabilities);
    data.labels = take(samples, sizeof *data.labels);
    data.predictions = take(samples, sizeof *data.predictions);
    data.targets = take(samples, sizeof *data.targets);
    kolo_status status = kolo_run_threads(3, NULL, rank_main, &data);
    if (status != KOLO_OK)
        fprintf(stderr, "scores: %s\n", kolo_error_detail());
    free(data.probabilities);
    free(data.labels);
    free(data.predictions);
    free(data.targets);
    free(head);
    return status == KOLO_OK ? 0 : 1;
}
