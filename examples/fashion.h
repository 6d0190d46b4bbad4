// SPDX-License-Identifier: Apache-2.0
// What fashion-train and fashion-eval share: the data set, the model, the checkpoint. Replace these
// by your own; the two programs show where kolo comes in. Nothing here calls kolo.
#ifndef FASHION_H
#define FASHION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    FASHION_PIXELS = 28 * 28,
    FASHION_HIDDEN = 128,
    FASHION_CLASSES = 10,
    FASHION_ERROR_MAX = 512
};
#define FASHION_DATA_DIR "/usr/share/datasets/fashion-mnist"

/** Images, as pixels / 255 in float32, [count][FASHION_PIXELS], and their classes. */
struct fashion_data {
    int64_t count;
    float *images;
    int64_t *labels;
};

/** Reads `<dir>/<prefix>-images-idx3-ubyte.gz` and `-labels-idx1-ubyte.gz` (prefix "train" or
 * "t10k"), and checks every byte. On failure returns false; @p error says which file is wrong,
 * how, and what to do. */
bool fashion_data_read(struct fashion_data *data, const char *dir, const char *prefix,
                       char error[FASHION_ERROR_MAX]);
void fashion_data_free(struct fashion_data *data);

/** A perceptron with one hidden layer. All parameters are in one block, so that one allreduce
 * averages all gradients. */
struct fashion_model {
    float input_weights[FASHION_PIXELS][FASHION_HIDDEN];
    float hidden_bias[FASHION_HIDDEN];
    float hidden_weights[FASHION_HIDDEN][FASHION_CLASSES];
    float class_bias[FASHION_CLASSES];
};
enum { FASHION_PARAMETERS = sizeof(struct fashion_model) / sizeof(float) };

void fashion_model_init(struct fashion_model *model, uint64_t seed);
/** Computes the class scores of one image. They have the same bits whatever other images are
 * computed. hidden may be NULL.
 */
void fashion_model_scores(const struct fashion_model *model, const float *image, float *scores,
                          float *hidden);
/** Adds one image's gradient of the cross-entropy loss, times @p scale; returns the loss. */
double fashion_model_gradient(const struct fashion_model *model, const float *image, int64_t label,
                              float scale, struct fashion_model *gradient);
/** -log(softmax(scores)[label]) in double. */
double fashion_cross_entropy(const float *scores, int64_t label);
/** The same, and its derivative by each score, times @p scale. */
double fashion_slopes(const float *scores, int64_t label, float scale, float *slopes);

/** Everything that is needed to continue training. */
struct fashion_checkpoint {
    int64_t epochs_done;
    struct fashion_model model, momentum;
};
/** Creates the file that would be renamed to @p path, and removes it. Returns false if that fails,
 * or @p path names a folder: better known before an epoch is spent than after. */
bool fashion_checkpoint_possible(const char *path, char error[FASHION_ERROR_MAX]);
/** Writes a file beside @p path and renames it, so that the file is always complete. */
bool fashion_checkpoint_write(const struct fashion_checkpoint *checkpoint, const char *path,
                              char error[FASHION_ERROR_MAX]);
/** If there is no such file, returns true with *exists_out false. */
bool fashion_checkpoint_read(struct fashion_checkpoint *checkpoint, const char *path,
                             bool *exists_out, char error[FASHION_ERROR_MAX]);

/** Where a message about the command line goes: to @p stream on rank 0 and without ranks; nowhere
 * on other ranks, so that a job of a thousand ranks complains once. */
FILE *fashion_speaker(FILE *stream);

/** Writes what standard output still holds. If any of it was lost, on a full disk for example, says
 * so in one line on standard error and returns false: the program has failed then. */
bool fashion_output_written(const char *program);

/** Parse numbers of the command line: all of @p text must be a number within the bounds. */
bool fashion_parse_integer(const char *text, int64_t min, int64_t max, int64_t *value_out);
bool fashion_parse_real(const char *text, double min, double max, double *value_out);

#endif
