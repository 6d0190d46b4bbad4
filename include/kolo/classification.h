// SPDX-License-Identifier: Apache-2.0
/** Metrics of classification and segmentation whose results do not depend on the number of ranks.
 *  <kolo/metrics.h> says how all metrics are created, updated, computed, merged and saved, and what
 *  the `indices` of an update are.
 *
 *  All counts are int64; the last step, which divides, is in double and the same on all ranks.
 *
 *  Definitions that differ between libraries: a class is absent if no sample has it as label or
 *  prediction. scikit-learn (without labels=) and TorchMetrics leave absent classes out of a macro
 *  average, and so does kolo; scikit-learn with labels=range(C) counts them, as counts_absent does
 *  here. If a class that is not absent has the value 0 / 0, both take 0 (scikit-learn warns), and
 *  so does kolo unless `undefined` says otherwise. TorchMetrics rounds to float32; kolo and
 *  scikit-learn do not. TorchMetrics (1.4) also
 *    - leaves the class ignore_index out of the macro and the micro IoU, even if it was predicted;
 *    - counts no sample with an ignored label as an exact match;
 *    - takes 0 for the AUROC and the average precision of a label that has none, also in averages;
 *    - has another value than 0 for Matthews' coefficient of two classes where it is 0 / 0, such as
 *      1 if all samples are of one class and right.
 */
#ifndef KOLO_CLASSIFICATION_H
#define KOLO_CLASSIFICATION_H

#include <kolo/metrics.h>

KOLO_BEGIN_DECLS

/* ---- scores from true and false positives and negatives -------------------------------------- */

/** Scores of one class, from its numbers of true positives (tp), false positives (fp), false
 *  negatives (fn) and true negatives (tn). */
typedef enum kolo_score {
    KOLO_SCORE_PRECISION,   /**< tp / (tp + fp) */
    KOLO_SCORE_RECALL,      /**< tp / (tp + fn), sensitivity */
    KOLO_SCORE_F_BETA,      /**< (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp) */
    KOLO_SCORE_SPECIFICITY, /**< tn / (tn + fp) */
    KOLO_SCORE_IOU,         /**< tp / (tp + fp + fn), Jaccard; its macro average is mIoU */
    KOLO_SCORE_DICE,        /**< 2 tp / (2 tp + fp + fn), F-beta for b = 1 */
} kolo_score;

/** How the scores of the classes are averaged. */
typedef enum kolo_average {
    KOLO_AVERAGE_MACRO,    /**< the mean over classes */
    KOLO_AVERAGE_MICRO,    /**< the score of the sums of tp, fp, fn and tn over classes */
    KOLO_AVERAGE_WEIGHTED, /**< the mean over classes, weighted by tp + fn */
    KOLO_AVERAGE_NONE,     /**< not at all: one number per class */
} kolo_average;

struct kolo_score_config {
    size_t size; /**< sizeof(struct kolo_score_config) */
    kolo_score score;
    kolo_average average;
    double beta;        /**< of F-beta; 0: 1 */
    double undefined;   /**< the value of 0 / 0: 0, NaN or any other */
    bool counts_absent; /**< macro: count absent classes too, as `undefined` or 1 */
};

/* ---- confusion matrix ------------------------------------------------------------------------ */

enum { KOLO_CONFUSION_CLASSES_MAX = 32768 };

struct kolo_confusion_config {
    size_t size;          /**< sizeof(struct kolo_confusion_config) */
    int64_t samples;      /**< as in kolo_mean_config */
    int64_t classes;      /**< 1 to KOLO_CONFUSION_CLASSES_MAX; the state has classes^2 int64 */
    bool ignores;         /**< leave out labels equal to ignore_index, and count them as ignored */
    int64_t ignore_index; /**< any number, whether or not it is a class */
};

/** Creates a confusion matrix. Accuracy, precision, recall, F-beta, specificity, balanced accuracy,
 *  Cohen's kappa, Matthews' coefficient, mIoU and Dice are computed from it.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status
kolo_confusion_create(const struct kolo_confusion_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples of @p elements elements each (1 for classification; the pixels of an image
 *  for segmentation): predictions[i * elements + e] and labels[i * elements + e] are classes. A
 *  sample that other ranks have too counts once, with all its elements.
 *  @return KOLO_OK; ERR_INVALID (a class or an index is out of range, and named); ERR_NO_MEMORY.
 *  On failure nothing is added. */
KOLO_API KOLO_NODISCARD kolo_status kolo_confusion_update(struct kolo_metric *metric,
                                                          const int64_t *predictions,
                                                          const int64_t *labels, size_t count,
                                                          size_t elements, const int64_t *indices);
/** The same for one element per sample, from scores: the prediction is the class with the highest
 *  of scores[i * classes + c], the lowest class among equal ones. NaN counts as the highest, as in
 *  argmax, and the result has the number of such samples.
 *  @return as kolo_confusion_update(). */
KOLO_API KOLO_NODISCARD kolo_status kolo_confusion_update_scores(struct kolo_metric *metric,
                                                                 const float *scores,
                                                                 const int64_t *labels,
                                                                 size_t count,
                                                                 const int64_t *indices);

struct kolo_confusion_result {
    size_t size;              /**< set to sizeof(struct kolo_confusion_result) by the caller */
    int64_t elements;         /**< in the matrix */
    int64_t ignored;          /**< elements left out by ignore_index */
    int64_t nan_elements;     /**< elements with a NaN score */
    double accuracy;          /**< trace / elements; NaN without elements */
    double balanced_accuracy; /**< mean recall of the classes that occur as labels; NaN if none */
    double kappa;             /**< Cohen's kappa; NaN if chance alone always agrees */
    double matthews;          /**< for several classes (Gorodkin's R_K); 0 for 0 / 0 */
    struct kolo_sample_counts samples;
};
/** The result of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a confusion matrix, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_confusion_result(const struct kolo_metric *metric,
                                                          struct kolo_confusion_result *result_out);
/** Writes the matrix: counts_out[label * classes + prediction]. @p count is the number of elements
 *  of @p counts_out, at least classes^2.
 *  @return KOLO_OK; ERR_INVALID (@p count is wrong; not computed). */
KOLO_API KOLO_NODISCARD kolo_status kolo_confusion_counts(const struct kolo_metric *metric,
                                                          int64_t *counts_out, size_t count);
/** Computes a score of the classes from the matrix: into values_out[0], or with KOLO_AVERAGE_NONE
 *  into values_out[0..classes-1]. @p count is the number of elements of @p values_out. It may be
 *  called any number of times after one compute, and does not communicate.
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_confusion_score(const struct kolo_metric *metric,
                                                         const struct kolo_score_config *config,
                                                         double *values_out, size_t count);

/* ---- several labels per sample --------------------------------------------------------------- */

enum { KOLO_MULTILABEL_LABELS_MAX = 1 << 20 };

struct kolo_multilabel_config {
    size_t size;             /**< sizeof(struct kolo_multilabel_config) */
    int64_t samples;         /**< as in kolo_mean_config */
    int64_t labels;          /**< 1 to KOLO_MULTILABEL_LABELS_MAX; 1 is binary classification */
    const float *thresholds; /**< one per label; NULL: 0.5 for each */
    bool ignores;            /**< ignore truths equal to ignore_index; -1 is always ignored */
    int64_t ignore_index;
};

/** Creates a metric of true and false positives and negatives of each label, for samples that may
 *  have several labels.
 *  @return KOLO_OK; ERR_INVALID (for example, a threshold is NaN); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_multilabel_create(
    const struct kolo_multilabel_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples. Label l of sample i is predicted if scores[i * labels + l] is greater
 *  than its threshold, as in TorchMetrics; NaN is not, and the result has the number of NaNs. The
 *  truth truths[i * labels + l] is 1 if the sample has the label, 0 if not; -1 and the config's
 *  ignore_index (which may be 0 or 1) are ignored.
 *  @return KOLO_OK; ERR_INVALID (a truth has another value, and is named; nothing is added);
 *  ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_multilabel_update(struct kolo_metric *metric,
                                                           const float *scores,
                                                           const int8_t *truths, size_t count,
                                                           const int64_t *indices);

struct kolo_multilabel_result {
    size_t size;      /**< set to sizeof(struct kolo_multilabel_result) by the caller */
    int64_t elements; /**< pairs of a sample and a label, without ignored ones */
    int64_t ignored, nan_elements;
    double accuracy;    /**< of elements (1 - Hamming loss); NaN without elements */
    double exact_match; /**< the share of samples with no wrong element; NaN without samples */
    struct kolo_sample_counts samples;
};
/** The result of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a multilabel metric, or not computed since the last
 *  update). */
KOLO_API KOLO_NODISCARD kolo_status
kolo_multilabel_result(const struct kolo_metric *metric, struct kolo_multilabel_result *result_out);
/** As kolo_confusion_score(), with the labels as classes.
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_multilabel_score(const struct kolo_metric *metric,
                                                          const struct kolo_score_config *config,
                                                          double *values_out, size_t count);

/* ---- areas under curves ---------------------------------------------------------------------- */

enum { KOLO_CURVE_LABELS_MAX = 1 << 16, KOLO_CURVE_BINS_MAX = 1 << 20 };

struct kolo_curve_config {
    size_t size;     /**< sizeof(struct kolo_curve_config) */
    int64_t samples; /**< as in kolo_mean_config */
    int64_t labels;  /**< the number of curves, 1 to KOLO_CURVE_LABELS_MAX; 1: binary */
    /** 0: exact. Every score counts as it is; 8 bytes are kept per sample and label, and computing
     *  sorts them over all ranks. 1 to KOLO_CURVE_BINS_MAX: binned. Only counts are kept; a score
     *  (clamped to [0, 1]) falls into bin floor(score * bins), 1 into the last bin, and scores in
     *  one bin are ties. (TorchMetrics' binned curves have thresholds instead, `linspace(0, 1, n)`,
     *  and no point (0, 0) if a score is 1.) */
    int64_t bins;
    /** For kolo_curve_update_classes(): leave samples of class ignore_index (any number) out of all
     *  curves; their scores are not read. For kolo_curve_update(): ignore truths equal to it; -1 is
     *  always ignored. */
    bool ignores;
    int64_t ignore_index;
    /** Needed for KOLO_AVERAGE_MICRO of exact curves in kolo_curve_average(). It adds one curve, of
     *  all elements, so computing sorts and sends twice as much. Binned curves always have it. */
    bool micro;
};

/** Creates a metric of the area under the ROC curve and the average precision of each label. AUROC
 *  is the share of the pairs of a positive and a negative in which the positive has the higher
 *  score, ties counting half: an exact fraction, divided once. Average precision is the sum over
 *  distinct scores of precision times the increase of recall (as in scikit-learn, without
 *  interpolation): each term is rounded, their sum is exact. Both have the same bits for any
 *  distribution of the samples.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_create(const struct kolo_curve_config *config,
                                                      struct kolo_metric **metric_out);
/** Adds @p count samples with scores[i * labels + l] and truths[i * labels + l]: 1 is positive, 0
 *  negative; -1 and the config's ignore_index are ignored.
 *  @return KOLO_OK; ERR_INVALID (a score is NaN, or a truth has another value; it is named);
 *  ERR_NO_MEMORY. On failure nothing is added. */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_update(struct kolo_metric *metric,
                                                      const float *scores, const int8_t *truths,
                                                      size_t count, const int64_t *indices);
/** Adds @p count samples of one class each (one against the rest): sample i is positive for label
 *  classes[i], from 0 to labels - 1, and negative for all others. Scores as for
 *  kolo_curve_update().
 *  @return KOLO_OK; ERR_INVALID (a score is NaN, or a class or an index is out of range; it is
 *  named); ERR_NO_MEMORY. On failure nothing is added. */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_update_classes(struct kolo_metric *metric,
                                                              const float *scores,
                                                              const int64_t *classes, size_t count,
                                                              const int64_t *indices);

struct kolo_curve_result {
    size_t size;              /**< set to sizeof(struct kolo_curve_result) by the caller */
    double auroc;             /**< the mean over the labels that have one; NaN if none has */
    double average_precision; /**< likewise */
    struct kolo_sample_counts samples;
};
/** The result of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a curve, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_result(const struct kolo_metric *metric,
                                                      struct kolo_curve_result *result_out);

struct kolo_curve_label {
    double auroc;             /**< NaN without a positive or without a negative */
    double average_precision; /**< NaN without a positive */
    int64_t positives, negatives;
};
/** Writes the areas of each label. @p count is the number of elements of @p labels_out, at least
 *  `labels`.
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_labels(const struct kolo_metric *metric,
                                                      struct kolo_curve_label *labels_out,
                                                      size_t count);

/** Averages the curves; its positives and negatives are those of all labels.
 *  - KOLO_AVERAGE_MACRO: the means of kolo_curve_result(), over the labels that have the area.
 *  - KOLO_AVERAGE_WEIGHTED: the same, weighted by each label's positives ("weighted" of
 *    scikit-learn and TorchMetrics).
 *  - KOLO_AVERAGE_MICRO: the areas of one curve of all pairs of a sample and a label ("micro" of
 *    scikit-learn and, for multilabel curves, TorchMetrics). Exact curves need `micro` in their
 *    config.
 *  - KOLO_AVERAGE_NONE: refused; use kolo_curve_labels().
 *  @return KOLO_OK; ERR_INVALID (not computed; not an average; MICRO without `micro`). */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_average(const struct kolo_metric *metric,
                                                       kolo_average average,
                                                       struct kolo_curve_label *average_out);

/* ---- likelihood ------------------------------------------------------------------------------ */

struct kolo_likelihood_config {
    size_t size;     /**< sizeof(struct kolo_likelihood_config) */
    int64_t samples; /**< as in kolo_mean_config */
    int64_t classes; /**< at least 1 (for example, the size of a vocabulary) */
    bool logits;     /**< scores are logits, to be passed through softmax; else probabilities */
    double floor;    /**< lower bound of probabilities, 0 to 1; 0: 2^-52, as in scikit-learn. Not
                          used with logits, whose log-softmax needs no bound. */
    bool ignores;    /**< leave out labels equal to ignore_index, and count them as ignored */
    int64_t ignore_index;
};

/** Creates a metric of log loss and perplexity: the mean of -ln p of the right class, and e to that
 *  power. Each logarithm is the C library's, in double. Their sum is exact, so the result has the
 *  same bits for any distribution of the samples (on machines with the same C library).
 *  Probabilities are not normalised; scikit-learn divides them by their sum first.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_likelihood_create(
    const struct kolo_likelihood_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples of @p elements elements each (1, or the tokens of a text), with
 *  scores[(i * elements + e) * classes + c] and labels[i * elements + e].
 *  @return KOLO_OK; ERR_INVALID (a label, an index or a probability is out of range, a logit is NaN
 *  or +infinity, or -infinity for the right class; it is named, and nothing is added);
 *  ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_likelihood_update(struct kolo_metric *metric,
                                                           const float *scores,
                                                           const int64_t *labels, size_t count,
                                                           size_t elements, const int64_t *indices);

struct kolo_likelihood_result {
    size_t size;       /**< set to sizeof(struct kolo_likelihood_result) by the caller */
    double log_loss;   /**< in nats per element; NaN without elements */
    double perplexity; /**< e^log_loss */
    int64_t elements, ignored;
    struct kolo_sample_counts samples;
};
/** The result of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a likelihood, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status
kolo_likelihood_result(const struct kolo_metric *metric, struct kolo_likelihood_result *result_out);

/* ---- calibration ----------------------------------------------------------------------------- */

enum { KOLO_CALIBRATION_BINS_MAX = 1 << 16 };

struct kolo_calibration_config {
    size_t size;     /**< sizeof(struct kolo_calibration_config) */
    int64_t samples; /**< as in kolo_mean_config */
    int64_t classes; /**< 1: binary, with the probability of label 1; else one for each class */
    int64_t bins;    /**< 1 to KOLO_CALIBRATION_BINS_MAX; 0: 15 */
    bool ignores;    /**< leave out samples with label ignore_index, and count them as ignored */
    /** any number, whether or not it is a label; the probabilities of such a sample are not read */
    int64_t ignore_index;
};

/** Creates a metric of calibration error: how far confidence is from accuracy. The confidence of a
 *  sample is its highest probability (binary: the one given). The sample is right if the class of
 *  that probability, the lowest among equal ones, is the label (binary: if the label is 1). The
 *  sample falls into bin floor(confidence * bins), with confidence 1 into the last bin.
 *  (TorchMetrics finds bins by comparing with a float32 linspace, so values at an edge may fall on
 *  the other side.) Confidences are added exactly.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_calibration_create(
    const struct kolo_calibration_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples with probabilities[i * classes + c] and labels[i].
 *  @return KOLO_OK; ERR_INVALID (a label or an index is out of range, or a probability is not in
 *  0..1; it is named, and nothing is added); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_calibration_update(struct kolo_metric *metric,
                                                            const float *probabilities,
                                                            const int64_t *labels, size_t count,
                                                            const int64_t *indices);

struct kolo_calibration_result {
    size_t size; /**< set to sizeof(struct kolo_calibration_result) by the caller */
    /** the mean over samples of |accuracy - confidence| of their bins (ECE); NaN without samples */
    double expected;
    double maximum;  /**< the largest |accuracy - confidence| of a bin (MCE) */
    double rms;      /**< the root mean square over samples of the same */
    int64_t ignored; /**< samples left out by ignore_index; not in samples.counted */
    struct kolo_sample_counts samples;
};
/** The result of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a calibration, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_calibration_result(
    const struct kolo_metric *metric, struct kolo_calibration_result *result_out);

KOLO_END_DECLS
#endif
