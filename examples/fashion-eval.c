// SPDX-License-Identifier: Apache-2.0
// Evaluates a checkpoint of fashion-train on the Fashion-MNIST test set: copy this file to evaluate
// your own model.
//
//   cc -O2 fashion-eval.c fashion.c fashion_gpu.c gpu.c -o fashion-eval -lkolo -lz -lm -ldl
//   kolorun -np 4 fashion-eval [--data DIR] [--pad|--no-pad] [--device auto|cpu|gpu]
//                              --checkpoint FILE
//
// Prints loss, top-1 and top-3 accuracy, each in decimal and as the exact hexadecimal
// floating-point number. They are the same to the last bit for any number of ranks and hosts, with
// and without GPUs, even if the sampler pads, since every sample counts once.
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <kolo/kolo.h>
#include <kolo/metrics.h>

#include "fashion.h"
#include "fashion_gpu.h"

enum { BATCH = 256 };

struct options {
    const char *data, *checkpoint;
    bool pad;
    enum fashion_device device;
};

struct evaluation {
    struct kolo_comm *comm;
    struct options options;
    struct fashion_data data;
    struct fashion_checkpoint *checkpoint;
    struct fashion_gpu *gpu; /* NULL: everything is computed on the host */
    struct kolo_sampler *sampler;
    struct kolo_metric *metrics[2]; /* loss, accuracy */
};

static int usage(void)
{
    fprintf(fashion_speaker(stdout),
            "usage: fashion-eval [--data DIR] [--pad|--no-pad] [--device D] --checkpoint "
            "FILE\n"
            "  --data DIR         folder of Fashion-MNIST's gz files [" FASHION_DATA_DIR "]\n"
            "  --pad, --no-pad    give all ranks equally many samples by repeating some, or "
            "not [--no-pad]\n"
            "  --device D         gpu, cpu, or auto: a GPU if there is one [auto]\n"
            "  --checkpoint FILE  written by fashion-train\n");
    return 0;
}

static int bad_usage(const char *argument, int why)
{
    fprintf(fashion_speaker(stderr), "fashion-eval: %s: %s; try --help\n", argument,
            why == ':' ? "its value is missing" : "no such option");
    return 2;
}

static int bad_device(const char *value)
{
    fprintf(fashion_speaker(stderr), "fashion-eval: --device %s: expected auto, cpu or gpu\n",
            value);
    return 2;
}

/* Returns -1 to go on, else the exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option table[] = {{"data", required_argument, NULL, 'd'},
                                          {"checkpoint", required_argument, NULL, 'c'},
                                          {"pad", no_argument, NULL, 'p'},
                                          {"no-pad", no_argument, NULL, 'n'},
                                          {"device", required_argument, NULL, 'D'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, ":", table, NULL)) != -1;) {
        if (option == 'd')
            options->data = optarg;
        else if (option == 'c')
            options->checkpoint = optarg;
        else if (option == 'p' || option == 'n')
            options->pad = option == 'p';
        else if (option == 'h')
            return usage();
        else if (option == 'D' && fashion_parse_device(optarg, &options->device))
            continue;
        else if (option == 'D')
            return bad_device(optarg);
        else
            return bad_usage(argv[optind - 1], option);
    }
    if (optind < argc) {
        fprintf(fashion_speaker(stderr), "fashion-eval: unexpected argument '%s'; try --help\n",
                argv[optind]);
        return 2;
    }
    if (!options->checkpoint) {
        fprintf(fashion_speaker(stderr),
                "fashion-eval: --checkpoint FILE is missing; try --help\n");
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
        fprintf(stderr, "fashion-eval: %s\n", error);
    *all_out = failed == INT32_MAX;
    return status;
}

static bool read_inputs(struct evaluation *evaluation, char *error)
{
    const char *path = evaluation->options.checkpoint;
    bool exists;
    evaluation->checkpoint = malloc(sizeof *evaluation->checkpoint);
    if (!evaluation->checkpoint) {
        snprintf(error, FASHION_ERROR_MAX, "out of memory");
        return false;
    }
    if (!fashion_checkpoint_read(evaluation->checkpoint, path, &exists, error))
        return false;
    if (!exists) {
        snprintf(error, FASHION_ERROR_MAX,
                 "%s: no such file; make it with fashion-train --checkpoint %s", path, path);
        return false;
    }
    return fashion_data_read(&evaluation->data, evaluation->options.data, "t10k", error);
}

/* Puts the model on the GPU, if one is used. */
static kolo_status take_gpu(struct evaluation *evaluation, bool *ok_out)
{
    char note[FASHION_ERROR_MAX], error[sizeof note + 16] = "";
    struct kolo_comm *comm = evaluation->comm;
    bool ok = fashion_gpu_open(&evaluation->gpu, comm, evaluation->options.device, BATCH, note);
    if (!ok)
        snprintf(error, sizeof error, "--device gpu: %s", note);
    kolo_status status = all_succeeded(comm, ok, error, ok_out);
    if (status != KOLO_OK || !*ok_out)
        return status;
    status = fashion_gpu_announce("fashion-eval", comm, evaluation->gpu, note);
    if (status == KOLO_OK && evaluation->gpu &&
        !fashion_gpu_put(evaluation->gpu, evaluation->checkpoint))
        status = KOLO_ERR_SYSTEM;
    return status;
}

static kolo_status prepare(struct evaluation *evaluation)
{
    int64_t samples = evaluation->data.count;
    struct kolo_sampler_config sampler = {.size = sizeof sampler,
                                          .samples = samples,
                                          .rank = kolo_rank(evaluation->comm),
                                          .nranks = kolo_size(evaluation->comm),
                                          .tail = evaluation->options.pad ? KOLO_SAMPLER_PAD
                                                                          : KOLO_SAMPLER_UNPADDED};
    struct kolo_mean_config loss = {.size = sizeof loss, .samples = samples};
    struct kolo_accuracy_config accuracy = {
        .size = sizeof accuracy, .samples = samples, .classes = FASHION_CLASSES, .k = {1, 3}};
    kolo_status status = kolo_sampler_create(&sampler, &evaluation->sampler);
    if (status == KOLO_OK)
        status = kolo_mean_create(&loss, &evaluation->metrics[0]);
    if (status == KOLO_OK)
        status = kolo_accuracy_create(&accuracy, &evaluation->metrics[1]);
    return status;
}

static kolo_status score_batch(struct evaluation *evaluation, const int64_t *indices, size_t count,
                               float scores[][FASHION_CLASSES])
{
    if (evaluation->gpu)
        return fashion_gpu_scores(evaluation->gpu, &evaluation->data, indices, (int64_t)count,
                                  scores[0])
                   ? KOLO_OK
                   : KOLO_ERR_SYSTEM;
    for (size_t i = 0; i < count; i++)
        fashion_model_scores(&evaluation->checkpoint->model,
                             evaluation->data.images + indices[i] * FASHION_PIXELS, scores[i],
                             NULL);
    return KOLO_OK;
}

static kolo_status evaluate_batch(struct evaluation *evaluation, const int64_t *indices,
                                  size_t count)
{
    float scores[BATCH][FASHION_CLASSES];
    double losses[BATCH];
    int64_t labels[BATCH];
    kolo_status status = score_batch(evaluation, indices, count, scores);
    for (size_t i = 0; i < count && status == KOLO_OK; i++) {
        labels[i] = evaluation->data.labels[indices[i]];
        losses[i] = fashion_cross_entropy(scores[i], labels[i]);
    }
    if (status == KOLO_OK)
        status = kolo_mean_update_float64(evaluation->metrics[0], losses, count, indices);
    if (status == KOLO_OK)
        status = kolo_accuracy_update(evaluation->metrics[1], scores[0], labels, count, indices);
    return status;
}

static kolo_status report(const struct evaluation *evaluation)
{
    struct kolo_mean_result loss = {.size = sizeof loss};
    struct kolo_accuracy_result accuracy = {.size = sizeof accuracy};
    kolo_status status = kolo_mean_result(evaluation->metrics[0], &loss);
    if (status == KOLO_OK)
        status = kolo_accuracy_result(evaluation->metrics[1], &accuracy);
    if (status == KOLO_OK && kolo_rank(evaluation->comm) == 0) {
        printf("loss %.6f (%a)\n", loss.mean, loss.mean);
        printf("top-1 %.4f (%a)\n", accuracy.accuracy[0], accuracy.accuracy[0]);
        printf("top-3 %.4f (%a)\n", accuracy.accuracy[1], accuracy.accuracy[1]);
    }
    return status;
}

static kolo_status evaluate(struct evaluation *evaluation)
{
    kolo_status status = prepare(evaluation);
    if (status != KOLO_OK)
        return status;
    const int64_t *indices = kolo_sampler_indices(evaluation->sampler);
    int64_t all = kolo_sampler_count(evaluation->sampler);
    for (int64_t at = 0; status == KOLO_OK && at < all; at += BATCH)
        status =
            evaluate_batch(evaluation, indices + at, (size_t)(all - at < BATCH ? all - at : BATCH));
    if (status == KOLO_OK)
        status = kolo_metrics_compute(evaluation->comm, evaluation->metrics, 2, NULL);
    return status == KOLO_OK ? report(evaluation) : status;
}

int main(int argc, char **argv)
{
    struct evaluation evaluation = {.options = {.data = FASHION_DATA_DIR}};
    int usage_status = parse_options(argc, argv, &evaluation.options);
    char error[FASHION_ERROR_MAX] = "";
    bool ok = false;
    if (usage_status == 0) /* --help needs no other rank */
        return 0;
    kolo_status status = kolo_init(NULL, &evaluation.comm);
    if (usage_status > 0) { /* not before kolo_init(): a rank that fails ends the job, and rank 0
                                may not have complained yet */
        (void)kolo_finalize(evaluation.comm);
        return usage_status;
    }
    if (status == KOLO_OK)
        status = all_succeeded(evaluation.comm, read_inputs(&evaluation, error), error, &ok);
    if (status == KOLO_OK && ok)
        status = take_gpu(&evaluation, &ok);
    if (status == KOLO_OK && ok)
        status = evaluate(&evaluation);
    if (status != KOLO_OK)
        fprintf(stderr, "fashion-eval: %s: %s\n", kolo_status_text(status),
                fashion_gpu_detail(evaluation.gpu));
    fashion_gpu_close(evaluation.gpu);
    kolo_metric_destroy(evaluation.metrics[0]);
    kolo_metric_destroy(evaluation.metrics[1]);
    kolo_sampler_destroy(evaluation.sampler);
    (void)kolo_finalize(evaluation.comm);
    fashion_data_free(&evaluation.data);
    free(evaluation.checkpoint);
    ok = fashion_output_written("fashion-eval") && ok;
    return status == KOLO_OK && ok ? 0 : 1;
}
