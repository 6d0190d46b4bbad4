// SPDX-License-Identifier: Apache-2.0
// Trains on ranks that have different numbers of batches, as Horovod's join() allows: copy step()
// and the loop around it.
//
//   cc -O2 uneven.c -o uneven -lkolo
//   kolorun -np 4 uneven [SAMPLES]     1000 by default
//
// A rank that has no batch left contributes zeros and goes on, so all ranks make the same calls and
// keep the same parameters. One more element, the number of samples in the step, travels with the
// gradient: it is the divisor, and 0 says to all ranks at once that the epoch is over. The model is
// a line through noisy points; rank r has r + 1 times as many of them as rank 0.
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/kolo.h>
#include <kolo/metrics.h>

enum { PARAMETERS = 2, BATCH = 16, EPOCHS = 20 };

struct training {
    struct kolo_comm *comm;
    struct kolo_metric *loss;
    float model[PARAMETERS]; /* slope, offset */
    int64_t begin, end;      /* this rank's samples */
    int64_t steps;
};

/* The point of a sample: y = 2 x - 1 and some noise. */
static float point(int64_t sample, float *y_out)
{
    const uint64_t hash = (uint64_t)(sample + 1) * UINT64_C(0x9e3779b97f4a7c15);
    const float x = (float)(hash >> 40) * 0x1p-23F - 1, noise = (float)(hash >> 20 & 1023) - 511.5F;
    *y_out = 2 * x - 1 + noise * 1e-4F;
    return x;
}

/* Adds up the gradient of the squared error of @p count samples, and counts their losses. */
static kolo_status add_gradient(struct training *training, int64_t first, int64_t count, float *sum)
{
    float losses[BATCH], y;
    for (int64_t i = 0; i < count; i++) {
        const float x = point(first + i, &y);
        const float error = training->model[0] * x + training->model[1] - y;
        sum[0] += 2 * error * x;
        sum[1] += 2 * error;
        losses[i] = error * error;
    }
    return kolo_mean_update_float32(training->loss, losses, (size_t)count, NULL);
}

/* One step with this rank's next batch, which may be empty. */
static kolo_status step(struct training *training, int64_t *at, bool *is_over_out)
{
    float sum[PARAMETERS + 1] = {0}; /* the gradient, and the samples that it is of */
    const int64_t left = training->end - *at, count = left < BATCH ? left : BATCH;
    kolo_status status = add_gradient(training, *at, count, sum);
    sum[PARAMETERS] = (float)count;
    *at += count;
    if (status == KOLO_OK)
        status = kolo_allreduce(training->comm, sum, sum, PARAMETERS + 1, KOLO_FLOAT32, KOLO_SUM,
                                NULL, NULL);
    *is_over_out = sum[PARAMETERS] == 0; /* on all ranks, or on none */
    for (int i = 0; status == KOLO_OK && !*is_over_out && i < PARAMETERS; i++)
        training->model[i] -= 0.1F * sum[i] / sum[PARAMETERS];
    training->steps += !*is_over_out;
    return status;
}

static kolo_status train(struct training *training, struct kolo_mean_result *loss)
{
    kolo_status status = KOLO_OK;
    for (int epoch = 0; status == KOLO_OK && epoch < EPOCHS; epoch++) {
        int64_t at = training->begin;
        bool is_over = false;
        kolo_metric_reset(training->loss);
        while (status == KOLO_OK && !is_over)
            status = step(training, &at, &is_over);
        if (status == KOLO_OK)
            status = kolo_metrics_compute(training->comm, &training->loss, 1, NULL);
    }
    return status == KOLO_OK ? kolo_mean_result(training->loss, loss) : status;
}

/* Returns -1 to go on, else the exit status. Only rank 0 complains, once for the job: before
 * kolo_init() the environment tells which rank this is. */
static int parse_arguments(int argc, char **argv, int64_t *samples_out)
{
    enum { MOST = 1000000000 };
    const char *rank = getenv("RANK");
    const bool speaks = !rank || strcmp(rank, "0") == 0;
    if (argc < 2)
        return -1;
    char *end;
    errno = 0;
    *samples_out = strtoll(argv[1], &end, 10);
    if (argc == 2 && end != argv[1] && !*end && !errno && *samples_out >= 1 && *samples_out <= MOST)
        return -1;
    const bool helps = strcmp(argv[1], "--help") == 0;
    if (speaks && helps)
        printf("usage: uneven [SAMPLES]\n"
               "  SAMPLES  number of samples of all ranks, 1 to 1000000000 [1000]\n");
    else if (speaks)
        fprintf(stderr, "uneven: '%s': expected one number of samples from 1 to %d\n",
                argc > 2 ? argv[2] : argv[1], MOST);
    return helps ? 0 : 2;
}

int main(int argc, char **argv)
{
    const struct kolo_mean_config config = {.size = sizeof config};
    int64_t samples = 1000;
    struct kolo_mean_result loss = {.size = sizeof loss};
    struct training training = {.comm = NULL};
    const int usage_status = parse_arguments(argc, argv, &samples);
    if (usage_status == 0) /* --help needs no other rank */
        return 0;
    kolo_status status = kolo_init(NULL, &training.comm);
    if (usage_status > 0) { /* not before kolo_init(): a rank that fails ends the job, and rank 0
                                may not have complained yet */
        (void)kolo_finalize(training.comm);
        return usage_status;
    }
    if (status == KOLO_OK)
        status = kolo_mean_create(&config, &training.loss);
    if (status == KOLO_OK) {
        const int64_t rank = kolo_rank(training.comm), size = kolo_size(training.comm);
        training.begin = samples * rank * (rank + 1) / (size * (size + 1));
        training.end = samples * (rank + 1) * (rank + 2) / (size * (size + 1));
        status = train(&training, &loss);
    }
    if (status == KOLO_OK)
        printf("%lld samples here, %lld steps: %.9g x %+.9g, loss of %lld samples %.9g\n",
               (long long)(training.end - training.begin), (long long)training.steps,
               (double)training.model[0], (double)training.model[1],
               (long long)loss.samples.counted, loss.mean);
    else
        fprintf(stderr, "uneven: %s: %s\n", kolo_status_text(status), kolo_error_detail());
    kolo_metric_destroy(training.loss);
    kolo_finalize(training.comm);
    if (fflush(stdout) != 0 || ferror(stdout)) { /* on a full disk, for example */
        fprintf(stderr, "uneven: cannot write the result to standard output\n");
        return 1;
    }
    return status != KOLO_OK;
}
