// SPDX-License-Identifier: Apache-2.0
// Trains a small classifier on Fashion-MNIST, data-parallel: copy this file to begin your own.
//
//   cc -O2 fashion-train.c fashion.c fashion_gpu.c gpu.c -o fashion-train -lkolo -lz -lm -ldl
//   kolorun -np 4 fashion-train [--data DIR] [--epochs E] [--batch B] [--lr R] [--seed S]
//   [--device auto|cpu|gpu] --checkpoint FILE
//
// What kolo does here: the sampler distributes the samples of an epoch, broadcast makes all ranks
// start from rank 0's parameters, one allreduce per step averages the gradients, and the metrics
// make the epoch's mean loss exact. On a GPU the gradients are averaged in place: the allreduce
// gets the GPU's memory and the stream that computes them. Rank 0 writes the checkpoint after each
// epoch; a run that finds one continues from it.
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kolo/kolo.h>
#include <kolo/metrics.h>

#include "fashion.h"
#include "fashion_gpu.h"

static const double momentum_factor = 0.9;
static const double rate_decay = 0.7; /* of the learning rate, each epoch */

struct options {
    const char *data, *checkpoint;
    int64_t epochs, batch, seed;
    double rate;
    enum fashion_device device;
};

struct training {
    struct kolo_comm *comm;
    struct options options;
    struct fashion_data data;
    struct fashion_checkpoint *state;
    struct fashion_gpu *gpu; /* NULL: everything is computed on the host */
    /* without a GPU: from kolo_alloc, which neighbours reduce in place */
    struct fashion_model *gradient;
    struct kolo_sampler *sampler;
    struct kolo_metric *loss;
    double *losses;                   /* for one batch, like the next two */
    float (*scores)[FASHION_CLASSES]; /* from a GPU */
    char note[FASHION_ERROR_MAX];     /* which GPU it is, or why none */
};

static int usage(void)
{
    fprintf(fashion_speaker(stdout),
            "usage: fashion-train [--data DIR] [--epochs E] [--batch B] [--lr R] [--seed S] "
            "[--device D] --checkpoint FILE\n"
            "  --data DIR         folder of Fashion-MNIST's gz files [" FASHION_DATA_DIR "]\n"
            "  --epochs E         passes over the training set, 1 to 10000 [5]\n"
            "  --batch B          images per rank and step, 1 to 60000 [64]\n"
            "  --lr R             learning rate, above 0 up to 10 [0.1]\n"
            "  --seed S           seed of the initial parameters and of the shuffling [1]\n"
            "  --device D         gpu, cpu, or auto: a GPU if there is one [auto]\n"
            "  --checkpoint FILE  written after each epoch; if it exists, training continues from "
            "it\n");
    return 0;
}

static int bad_option(const char *name, const char *value, const char *expected)
{
    fprintf(fashion_speaker(stderr), "fashion-train: %s %s: expected %s\n", name, value, expected);
    return 2;
}

static int bad_usage(const char *argument, int why)
{
    fprintf(fashion_speaker(stderr), "fashion-train: %s: %s; try --help\n", argument,
            why == ':' ? "its value is missing" : "no such option");
    return 2;
}

/* Returns -1 to go on, else the exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option table[] = {{"data", required_argument, NULL, 'd'},
                                          {"epochs", required_argument, NULL, 'e'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"lr", required_argument, NULL, 'r'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"checkpoint", required_argument, NULL, 'c'},
                                          {"device", required_argument, NULL, 'D'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, ":", table, NULL)) != -1;) {
        if (option == 'd')
            options->data = optarg;
        else if (option == 'c')
            options->checkpoint = optarg;
        else if (option == 'h')
            return usage();
        else if (option == 'e' && !fashion_parse_integer(optarg, 1, 10000, &options->epochs))
            return bad_option("--epochs", optarg, "an integer from 1 to 10000");
        else if (option == 'b' && !fashion_parse_integer(optarg, 1, 60000, &options->batch))
            return bad_option("--batch", optarg, "an integer from 1 to 60000");
        else if (option == 's' && !fashion_parse_integer(optarg, 0, INT64_MAX, &options->seed))
            return bad_option("--seed", optarg, "an integer from 0");
        else if (option == 'r' && !fashion_parse_real(optarg, 1e-9, 10, &options->rate))
            return bad_option("--lr", optarg, "a number from 1e-9 to 10");
        else if (option == 'D' && !fashion_parse_device(optarg, &options->device))
            return bad_option("--device", optarg, "auto, cpu or gpu");
        else if (option == '?' || option == ':')
            return bad_usage(argv[optind - 1], option);
    }
    if (optind < argc) {
        fprintf(fashion_speaker(stderr), "fashion-train: unexpected argument '%s'; try --help\n",
                argv[optind]);
        return 2;
    }
    if (!options->checkpoint) {
        fprintf(fashion_speaker(stderr),
                "fashion-train: --checkpoint FILE is missing; try --help\n");
        return 2;
    }
    return -1;
}

/* Is true if every rank passes true. Otherwise the lowest rank that failed prints its @p error,
 * once for the job. */
static kolo_status all_succeeded(struct kolo_comm *comm, bool mine, const char *error,
                                 bool *all_out)
{
    int32_t failed = mine ? INT32_MAX : kolo_rank(comm);
    kolo_status status =
        kolo_allreduce(comm, &failed, &failed, 1, KOLO_INT32, KOLO_MIN, NULL, NULL);
    if (status == KOLO_OK && failed == kolo_rank(comm))
        fprintf(stderr, "fashion-train: %s\n", error);
    *all_out = failed == INT32_MAX;
    return status;
}

/* Rank 0 reads the checkpoint or makes new parameters; the others get them from rank 0. */
static kolo_status begin_state(struct training *training, bool *ok_out)
{
    char error[FASHION_ERROR_MAX] = "";
    bool ok = true, exists = false;
    if (kolo_rank(training->comm) == 0) {
        ok = fashion_checkpoint_possible(training->options.checkpoint, error) &&
             fashion_checkpoint_read(training->state, training->options.checkpoint, &exists, error);
        if (ok && !exists)
            fashion_model_init(&training->state->model, (uint64_t)training->options.seed);
        if (ok && exists)
            printf("%s: going on after epoch %" PRId64 "\n", training->options.checkpoint,
                   training->state->epochs_done);
    }
    kolo_status status = all_succeeded(training->comm, ok, error, ok_out);
    if (status != KOLO_OK || !*ok_out)
        return status;
    status = kolo_broadcast(training->comm, training->state, sizeof *training->state, KOLO_UINT8, 0,
                            NULL, NULL);
    if (status == KOLO_OK && training->gpu && !fashion_gpu_put(training->gpu, training->state))
        status = KOLO_ERR_SYSTEM;
    return status;
}

/* Computes the gradient of a batch, and the losses of its images, on the host. */
static kolo_status look_here(struct training *training, const int64_t *indices, int64_t count)
{
    memset(training->gradient, 0, sizeof *training->gradient);
    for (int64_t i = 0; i < count; i++)
        training->losses[i] = fashion_model_gradient(
            &training->state->model, training->data.images + indices[i] * FASHION_PIXELS,
            training->data.labels[indices[i]], 1.0f / (float)count, training->gradient);
    return KOLO_OK;
}

static kolo_status look_on_gpu(struct training *training, const int64_t *indices, int64_t count)
{
    if (!fashion_gpu_scores(training->gpu, &training->data, indices, count, training->scores[0]))
        return KOLO_ERR_SYSTEM;
    for (int64_t i = 0; i < count; i++)
        training->losses[i] = fashion_slopes(training->scores[i], training->data.labels[indices[i]],
                                             1.0f / (float)count, training->scores[i]);
    return fashion_gpu_gradient(training->gpu, training->scores[0], count) ? KOLO_OK
                                                                           : KOLO_ERR_SYSTEM;
}

static void update_here(struct training *training, float rate)
{
    const float *slope = (const float *)training->gradient;
    float *speed = (float *)&training->state->momentum,
          *parameter = (float *)&training->state->model;
    for (size_t i = 0; i < FASHION_PARAMETERS; i++) {
        speed[i] = (float)momentum_factor * speed[i] - rate * slope[i];
        parameter[i] += speed[i];
    }
}

/* One step: the mean gradient of all ranks' batches, then momentum. */
static kolo_status step(struct training *training, const int64_t *indices, int64_t count)
{
    struct fashion_gpu *gpu = training->gpu;
    const float rate =
        (float)(training->options.rate * pow(rate_decay, (double)training->state->epochs_done));
    /* The allreduce waits for the stream's kernels; this thread does not. */
    const struct kolo_opts opts = {
        .size = sizeof opts, .name = "gradient", .stream = gpu ? gpu_stream(gpu->gpu) : NULL};
    void *gradient = gpu ? gpu->gradient : training->gradient;
    kolo_status status =
        gpu ? look_on_gpu(training, indices, count) : look_here(training, indices, count);
    if (status == KOLO_OK)
        status = kolo_mean_update_float64(training->loss, training->losses, (size_t)count, NULL);
    if (status == KOLO_OK)
        status = kolo_allreduce(training->comm, gradient, gradient, FASHION_PARAMETERS,
                                KOLO_FLOAT32, KOLO_AVERAGE, &opts, NULL);
    if (status != KOLO_OK)
        return status;
    if (gpu)
        return fashion_gpu_update(gpu, rate, (float)momentum_factor) ? KOLO_OK : KOLO_ERR_SYSTEM;
    update_here(training, rate);
    return KOLO_OK;
}

/* On rank 0, if standard error is a terminal. */
static void show_progress(const struct training *training, int64_t epoch, int64_t done, int64_t all)
{
    enum { WIDTH = 40 };
    if (kolo_rank(training->comm) != 0 || !isatty(STDERR_FILENO))
        return;
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i * all < done * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\repoch %" PRId64 " [%s] %3" PRId64 "%%%s", epoch, bar, done * 100 / all,
            done == all ? "\r\033[K" : "");
}

static kolo_status run_epoch(struct training *training, int64_t epoch)
{
    kolo_metric_reset(training->loss);
    kolo_status status = kolo_sampler_set_epoch(training->sampler, epoch);
    const int64_t *indices = kolo_sampler_indices(training->sampler);
    int64_t all = kolo_sampler_count(training->sampler), batch = training->options.batch;
    for (int64_t at = 0; status == KOLO_OK && at < all; at += batch) {
        int64_t count = all - at < batch ? all - at : batch;
        status = step(training, indices + at, count);
        if (at / batch % 16 == 0 || at + count == all)
            show_progress(training, epoch + 1, at + count, all);
    }
    if (status == KOLO_OK)
        status = kolo_metrics_compute(training->comm, &training->loss, 1, NULL);
    struct kolo_mean_result result = {.size = sizeof result};
    if (status == KOLO_OK)
        status = kolo_mean_result(training->loss, &result);
    if (status == KOLO_OK && kolo_rank(training->comm) == 0) {
        printf("epoch %" PRId64 "/%" PRId64 " training loss %.6f\n", epoch + 1,
               training->options.epochs, result.mean);
        fflush(stdout);
    }
    return status;
}

static kolo_status train(struct training *training, bool *ok_out)
{
    struct fashion_checkpoint *state = training->state;
    kolo_status status = KOLO_OK;
    *ok_out = true;
    if (state->epochs_done >= training->options.epochs && kolo_rank(training->comm) == 0)
        printf("%s: already trained for %" PRId64 " epochs; ask for more with --epochs\n",
               training->options.checkpoint, state->epochs_done);
    while (status == KOLO_OK && *ok_out && state->epochs_done < training->options.epochs) {
        char error[FASHION_ERROR_MAX] = "";
        bool wrote = true;
        status = run_epoch(training, state->epochs_done);
        state->epochs_done++;
        if (status == KOLO_OK && training->gpu && !fashion_gpu_get(training->gpu, state))
            status = KOLO_ERR_SYSTEM;
        if (status == KOLO_OK && kolo_rank(training->comm) == 0)
            wrote = fashion_checkpoint_write(state, training->options.checkpoint, error);
        if (status == KOLO_OK)
            status = all_succeeded(training->comm, wrote, error, ok_out);
    }
    return status;
}

static kolo_status prepare(struct training *training, bool *ok_out)
{
    char error[sizeof training->note + 16] = "out of memory";
    struct options *options = &training->options;
    bool ok = fashion_data_read(&training->data, options->data, "train", error);
    training->state = calloc(1, sizeof *training->state);
    training->losses = calloc((size_t)options->batch, sizeof *training->losses);
    training->scores = calloc((size_t)options->batch, sizeof *training->scores);
    if (ok && (!training->state || !training->losses || !training->scores)) {
        ok = false;
        snprintf(error, sizeof error, "out of memory");
    }
    if (ok && !fashion_gpu_open(&training->gpu, training->comm, options->device, options->batch,
                                training->note)) {
        ok = false;
        snprintf(error, sizeof error, "--device gpu: %s", training->note);
    }
    kolo_status status = all_succeeded(training->comm, ok, error, ok_out);
    if (status != KOLO_OK || !*ok_out)
        return status;
    struct kolo_sampler_config sampler = {.size = sizeof sampler,
                                          .samples = training->data.count,
                                          .rank = kolo_rank(training->comm),
                                          .nranks = kolo_size(training->comm),
                                          .shuffle = true,
                                          .seed = (uint64_t)options->seed,
                                          .tail = KOLO_SAMPLER_PAD};
    struct kolo_mean_config loss = {.size = sizeof loss};
    status = kolo_sampler_create(&sampler, &training->sampler);
    if (status == KOLO_OK)
        status = kolo_mean_create(&loss, &training->loss);
    if (status == KOLO_OK && !training->gpu)
        status =
            kolo_alloc(training->comm, sizeof *training->gradient, (void **)&training->gradient);
    return status;
}

int main(int argc, char **argv)
{
    struct training training = {
        .options = {.data = FASHION_DATA_DIR, .epochs = 5, .batch = 64, .seed = 1, .rate = 0.1}};
    int usage_status = parse_options(argc, argv, &training.options);
    bool ok = false;
    if (usage_status == 0) /* --help needs no other rank */
        return 0;
    kolo_status status = kolo_init(NULL, &training.comm);
    if (usage_status > 0) { /* not before kolo_init(): a rank that fails ends the job, and rank 0
                                may not have complained yet */
        (void)kolo_finalize(training.comm);
        return usage_status;
    }
    if (status == KOLO_OK)
        status = prepare(&training, &ok);
    if (status == KOLO_OK && ok)
        status = begin_state(&training, &ok);
    if (status == KOLO_OK && ok)
        status = fashion_gpu_announce("fashion-train", training.comm, training.gpu, training.note);
    if (status == KOLO_OK && ok)
        status = train(&training, &ok);
    if (status != KOLO_OK)
        fprintf(stderr, "fashion-train: %s: %s\n", kolo_status_text(status),
                fashion_gpu_detail(training.gpu));
    fashion_gpu_close(training.gpu);
    kolo_metric_destroy(training.loss);
    kolo_sampler_destroy(training.sampler);
    if (training.gradient)
        (void)kolo_free(training.comm, training.gradient);
    (void)kolo_finalize(training.comm);
    fashion_data_free(&training.data);
    free(training.losses);
    free(training.scores);
    free(training.state);
    ok = fashion_output_written("fashion-train") && ok;
    return status == KOLO_OK && ok ? 0 : 1;
}
