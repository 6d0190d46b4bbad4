// SPDX-License-Identifier: Apache-2.0
/** Classification and segmentation, exact at any number of ranks: kinds of metrics for
 *  <kolo/metrics.h>, which says how all metrics are created, updated, computed, merged and saved.
 *
 *  What is counted is int64; the last step, which divides, is in double and the same on all ranks.
 *
 *  Where definitions differ. A class is absent if no sample has it as label or prediction. scikit-
 *  learn (without labels=) and TorchMetrics leave absent classes out of a macro average, and so
 *  does kolo; scikit-learn with labels=range(C) counts them, as counts_absent does here. A value
 *  0 / 0 of a class that is not absent is 0 in both (scikit-learn warns), and here unless
 *  `undefined` says otherwise. TorchMetrics rounds to float32, kolo and scikit-learn do not.
 */
#ifndef KOLO_CLASSIFICATION_H
#define KOLO_CLASSIFICATION_H

#include <kolo/metrics.h>

KOLO_BEGIN_DECLS

/* ---- scores from true and false positives and negatives
 * --------------------------------------- */

/** With tp, fp, fn, tn: true and false positives, false and true negatives of one class. */
typedef enum kolo_score {
    KOLO_SCORE_PRECISION,   /**< tp / (tp + fp) */
    KOLO_SCORE_RECALL,      /**< tp / (tp + fn), sensitivity */
    KOLO_SCORE_F_BETA,      /**< (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp) */
    KOLO_SCORE_SPECIFICITY, /**< tn / (tn + fp) */
    KOLO_SCORE_IOU,         /**< tp / (tp + fp + fn), Jaccard; its macro average is mIoU */
    KOLO_SCORE_DICE,        /**< 2 tp / (2 tp + fp + fn), F-beta for b = 1 */
} kolo_score;

/** How one number is made of those of the classes. */
typedef enum kolo_average {
    KOLO_AVERAGE_MACRO,    /**< the mean over classes */
    KOLO_AVERAGE_MICRO,    /**< of the sums of tp, fp, fn, tn over classes */
    KOLO_AVERAGE_WEIGHTED, /**< the mean over classes weighted by tp + fn */
    KOLO_AVERAGE_NONE,     /**< one number per class */
} kolo_average;

struct kolo_score_config {
    size_t size; /**< sizeof(struct kolo_score_config) */
    kolo_score score;
    kolo_average average;
    double beta;        /**< of F-beta; 0: 1 */
    double undefined;   /**< what 0 / 0 is; 0, NaN or what you like */
    bool counts_absent; /**< macro: also classes without label or prediction, as `undefined` or 1 */
};

/* ---- confusion matrix
 * ------------------------------------------------------------------------- */

enum { KOLO_CONFUSION_CLASSES_MAX = 32768 };

struct kolo_confusion_config {
    size_t size;          /**< sizeof(struct kolo_confusion_config) */
    int64_t samples;      /**< as in kolo_mean_config */
    int64_t classes;      /**< 1 to KOLO_CONFUSION_CLASSES_MAX; the state has classes^2 int64 */
    bool ignores;         /**< labels equal to ignore_index are left out and counted as ignored */
    int64_t ignore_index; /**< any number, a class or not */
};

/** How often which class was taken for which. Accuracy, precision, recall, F-beta, specificity,
 *  balanced accuracy, Cohen's kappa, Matthews' coefficient, mIoU and Dice are read from it.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status
kolo_confusion_create(const struct kolo_confusion_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples of @p elements elements each (1 for classification; the pixels of an image
 *  for segmentation): predictions[i * elements + e] and labels[i * elements + e] are classes. A
 *  sample that others have too counts once with all its elements.
 *  @return KOLO_OK; ERR_INVALID (a class or index out of range, named; nothing is added);
 *  ERR_NO_MEMORY (nothing is added). */
KOLO_API KOLO_NODISCARD kolo_status kolo_confusion_update(struct kolo_metric *metric,
                                                          const int64_t *predictions,
                                                          const int64_t *labels, size_t count,
                                                          size_t elements, const int64_t *indices);
/** The same for one element per sample, whose prediction is the class with the highest of
 *  scores[i * classes + c], the lowest class among equals. NaN counts as the highest, as argmax
 *  takes it, and such samples are counted.
 *  @return as of kolo_confusion_update(). */
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
    double accuracy;          /**< trace / elements; NaN where there are none */
    double balanced_accuracy; /**< the mean recall of the classes that occur as labels; NaN */
    double kappa;             /**< Cohen's; NaN where chance alone agrees always */
    double matthews;          /**< for many classes (Gorodkin's R_K); 0 where it is 0 / 0 */
    struct kolo_sample_counts samples;
};
/** Of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a confusion matrix, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_confusion_result(const struct kolo_metric *metric,
                                                          struct kolo_confusion_result *result_out);
/** counts_out[label * classes + prediction]; @p count is the room there, classes^2.
 *  @return KOLO_OK; ERR_INVALID (@p count; not computed). */
KOLO_API KOLO_NODISCARD kolo_status kolo_confusion_counts(const struct kolo_metric *metric,
                                                          int64_t *counts_out, size_t count);
/** A score of the classes: into values_out[0], or with KOLO_AVERAGE_NONE values_out[0..classes-1];
 *  @p count is the room there. As often as you like after one compute.
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_confusion_score(const struct kolo_metric *metric,
                                                         const struct kolo_score_config *config,
                                                         double *values_out, size_t count);

/* ---- several labels per sample
 * ---------------------------------------------------------------- */

enum { KOLO_MULTILABEL_LABELS_MAX = 1 << 20 };

struct kolo_multilabel_config {
    size_t size;             /**< sizeof(struct kolo_multilabel_config) */
    int64_t samples;         /**< as in kolo_mean_config */
    int64_t labels;          /**< 1 to KOLO_MULTILABEL_LABELS_MAX; 1 is binary classification */
    const float *thresholds; /**< one per label; NULL: 0.5 for each */
    bool ignores;            /**< truths equal to ignore_index are ignored, as -1 always is */
    int64_t ignore_index;
};

/** True and false positives and negatives of each label, where a sample may have several.
 *  @return KOLO_OK; ERR_INVALID (a threshold is NaN, say); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_multilabel_create(
    const struct kolo_multilabel_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples: label l is predicted if scores[i * labels + l] > its threshold (as
 *  TorchMetrics has it; NaN is not, and is counted), and right if truths[i * labels + l] is 1,
 *  wrong if 0, ignored if -1 or the config's ignore_index (which may be 0 or 1).
 *  @return KOLO_OK; ERR_INVALID (a truth that is none of these, named; nothing is added);
 *  ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_multilabel_update(struct kolo_metric *metric,
                                                           const float *scores,
                                                           const int8_t *truths, size_t count,
                                                           const int64_t *indices);

struct kolo_multilabel_result {
    size_t size;      /**< set to sizeof(struct kolo_multilabel_result) by the caller */
    int64_t elements; /**< sample and label, without ignored ones */
    int64_t ignored, nan_elements;
    double accuracy;    /**< of elements (1 - Hamming loss); NaN where there are none */
    double exact_match; /**< samples with no wrong element, by samples; NaN where there are none */
    struct kolo_sample_counts samples;
};
/** Of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a multilabel metric, or not computed since the last
 *  update). */
KOLO_API KOLO_NODISCARD kolo_status
kolo_multilabel_result(const struct kolo_metric *metric, struct kolo_multilabel_result *result_out);
/** As kolo_confusion_score(), with the labels as classes.
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_multilabel_score(const struct kolo_metric *metric,
                                                          const struct kolo_score_config *config,
                                                          double *values_out, size_t count);

/* ---- areas under curves
 * ----------------------------------------------------------------------- */

enum { KOLO_CURVE_LABELS_MAX = 1 << 16, KOLO_CURVE_BINS_MAX = 1 << 20 };

struct kolo_curve_config {
    size_t size;     /**< sizeof(struct kolo_curve_config) */
    int64_t samples; /**< as in kolo_mean_config */
    int64_t labels;  /**< curves, 1 to KOLO_CURVE_LABELS_MAX; 1: binary */
    /** 0: exact, every score counts as it is, 8 bytes are kept per sample and label, and computing
     *  sorts them over all ranks. 1 to KOLO_CURVE_BINS_MAX: nothing is kept but counts; scores in
     *  [0, 1] (others are clamped) fall into bins floor(score * bins), 1 into the last, and those
     *  in one bin are ties. (TorchMetrics' binned curves have thresholds instead, `linspace(0, 1,
     *  n)`, and no point (0, 0) where a score is 1.) */
    int64_t bins;
    /** Of kolo_curve_update_classes(): samples of class ignore_index, any number, are left out of
     *  all curves, and their scores are not looked at. Of kolo_curve_update(): truths equal to it
     *  are ignored, as -1 always is. */
    bool ignores;
    int64_t ignore_index;
    /** kolo_curve_average() is to have KOLO_AVERAGE_MICRO: of exact curves that is one more, of all
     *  elements, so that computing sorts and sends twice as much. Binned ones have it anyway. */
    bool micro;
};

/** The area under the ROC curve and the average precision, per label. AUROC is the part of the
 *  pairs of a positive and a negative in which the positive has the higher score, ties counting
 *  half: an exact fraction, divided once. Average precision is the sum over distinct scores of
 *  precision times the growth of recall (scikit-learn's, without interpolation): each term rounded,
 *  their sum exact. Both are the same bits however samples are dealt out.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_create(const struct kolo_curve_config *config,
                                                      struct kolo_metric **metric_out);
/** Adds @p count samples: scores[i * labels + l], and truths[i * labels + l]: 1 positive, 0
 *  negative, -1 or the config's ignore_index ignored.
 *  @return KOLO_OK; ERR_INVALID (a score is NaN or a truth none of these, named; nothing is added);
 *  ERR_NO_MEMORY (nothing is added). */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_update(struct kolo_metric *metric,
                                                      const float *scores, const int8_t *truths,
                                                      size_t count, const int64_t *indices);
/** One against the rest: a sample is positive for label classes[i] (0 <= it < labels) and negative
 *  for all others.
 *  @return KOLO_OK; ERR_INVALID (a score is NaN, or a class or index out of range, named; nothing
 *  is added); ERR_NO_MEMORY (nothing is added). */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_update_classes(struct kolo_metric *metric,
                                                              const float *scores,
                                                              const int64_t *classes, size_t count,
                                                              const int64_t *indices);

struct kolo_curve_result {
    size_t size;              /**< set to sizeof(struct kolo_curve_result) by the caller */
    double auroc;             /**< the mean of those labels that have one; NaN if none has */
    double average_precision; /**< likewise */
    struct kolo_sample_counts samples;
};
/** Of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a curve, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_result(const struct kolo_metric *metric,
                                                      struct kolo_curve_result *result_out);

struct kolo_curve_label {
    double auroc;             /**< NaN without a positive or without a negative */
    double average_precision; /**< NaN without a positive */
    int64_t positives, negatives;
};
/** The areas of each label; @p count is the room there, at least `labels`.
 *  @return KOLO_OK; ERR_INVALID. */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_labels(const struct kolo_metric *metric,
                                                      struct kolo_curve_label *labels_out,
                                                      size_t count);

/** An average of the curves; positives and negatives are those of all labels.
 *  - KOLO_AVERAGE_MACRO: the means that kolo_curve_result() has, of the labels that have the area.
 *  - KOLO_AVERAGE_WEIGHTED: the same, each label by its positives (scikit-learn's and TorchMetrics'
 *    "weighted").
 *  - KOLO_AVERAGE_MICRO: of one curve of all elements, a sample and a label each (scikit-learn's
 *    "micro"; TorchMetrics' of multilabel curves). Exact curves need `micro` in their config.
 *  - KOLO_AVERAGE_NONE: refused; kolo_curve_labels() has each label's.
 *  @return KOLO_OK; ERR_INVALID (not computed; an average that is none; MICRO without `micro`). */
KOLO_API KOLO_NODISCARD kolo_status kolo_curve_average(const struct kolo_metric *metric,
                                                       kolo_average average,
                                                       struct kolo_curve_label *average_out);

/* ---- likelihood
 * ------------------------------------------------------------------------------- */

struct kolo_likelihood_config {
    size_t size;     /**< sizeof(struct kolo_likelihood_config) */
    int64_t samples; /**< as in kolo_mean_config */
    int64_t classes; /**< of which one is right; at least 1 (a vocabulary's size, say) */
    bool logits;     /**< scores are logits, of which softmax makes probabilities; else those */
    double floor;    /**< probabilities below count as this; 0: 2^-52, as scikit-learn has it */
    bool ignores;    /**< labels equal to ignore_index are left out and counted as ignored */
    int64_t ignore_index;
};

/** Log loss and perplexity: the mean of -ln p of the right class, and e to its power. Each
 *  logarithm is the C library's, in double; their sum is exact, so the result is the same bits
 *  however samples are dealt out (on machines with the same C library). Probabilities are taken as
 *  they are; scikit-learn divides them by their sum first.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_likelihood_create(
    const struct kolo_likelihood_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples of @p elements elements each (1, or the tokens of a text):
 *  scores[(i * elements + e) * classes + c], labels[i * elements + e].
 *  @return KOLO_OK; ERR_INVALID (a label, index or probability out of range, a logit that is NaN or
 *  +infinity, -infinity for the right class; named; nothing is added); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_likelihood_update(struct kolo_metric *metric,
                                                           const float *scores,
                                                           const int64_t *labels, size_t count,
                                                           size_t elements, const int64_t *indices);

struct kolo_likelihood_result {
    size_t size;       /**< set to sizeof(struct kolo_likelihood_result) by the caller */
    double log_loss;   /**< in nats per element; NaN where there are none */
    double perplexity; /**< e^log_loss */
    int64_t elements, ignored;
    struct kolo_sample_counts samples;
};
/** Of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a likelihood, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status
kolo_likelihood_result(const struct kolo_metric *metric, struct kolo_likelihood_result *result_out);

/* ---- calibration
 * ------------------------------------------------------------------------------ */

enum { KOLO_CALIBRATION_BINS_MAX = 1 << 16 };

struct kolo_calibration_config {
    size_t size;     /**< sizeof(struct kolo_calibration_config) */
    int64_t samples; /**< as in kolo_mean_config */
    int64_t classes; /**< 1: binary, one probability of the label 1; else one of each class */
    int64_t bins;    /**< 1 to KOLO_CALIBRATION_BINS_MAX; 0: 15 */
    bool ignores;    /**< samples with label ignore_index are left out and counted as ignored */
    /** any number, a label or not; what such a sample has is not looked at */
    int64_t ignore_index;
};

/** How far confidence is from being right. The confidence is the highest probability (binary: the
 *  one given), right is whether its class, the lowest among equals, is the label (binary: whether
 *  the label is 1). It falls into bin floor(confidence * bins), 1 into the last. (TorchMetrics
 *  finds bins by comparing with float32 linspace: values at an edge may fall on the other side.)
 *  Confidences are added exactly.
 *  @return KOLO_OK; ERR_INVALID; ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_calibration_create(
    const struct kolo_calibration_config *config, struct kolo_metric **metric_out);
/** Adds @p count samples: probabilities[i * classes + c], labels[i].
 *  @return KOLO_OK; ERR_INVALID (a label or index out of range, a probability not in 0..1, named;
 *  nothing is added); ERR_NO_MEMORY. */
KOLO_API KOLO_NODISCARD kolo_status kolo_calibration_update(struct kolo_metric *metric,
                                                            const float *probabilities,
                                                            const int64_t *labels, size_t count,
                                                            const int64_t *indices);

struct kolo_calibration_result {
    size_t size;     /**< set to sizeof(struct kolo_calibration_result) by the caller */
    double expected; /**< the mean over samples of |right - confidence| of their bins (ECE); NaN */
    double maximum;  /**< the largest over bins (MCE) */
    double rms;      /**< the root of the mean square over samples */
    int64_t ignored; /**< samples left out by ignore_index; not in samples.counted */
    struct kolo_sample_counts samples;
};
/** Of the last kolo_metrics_compute().
 *  @return KOLO_OK; ERR_INVALID (not a calibration, or not computed since the last update). */
KOLO_API KOLO_NODISCARD kolo_status kolo_calibration_result(
    const struct kolo_metric *metric, struct kolo_calibration_result *result_out);

KOLO_END_DECLS
#endif
