// SPDX-License-Identifier: Apache-2.0
// Many threads in one engine. Every rank runs collectives on one thread, messages on a second and
// keys on a third, with asynchronous requests that the progress thread runs; in the last world one
// rank aborts in the middle. A program without Criterion, for ThreadSanitizer.
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/kolo.h>

enum { RANKS = 4, ROUNDS = 150, LENGTH = 2000, PENDING = 6 };

struct job {
    struct kolo_comm *comm;
    kolo_status status;
    bool may_abort;
    char text[512];
};

static void keep(struct job *job, kolo_status status)
{
    if (job->status != KOLO_OK || status == KOLO_OK)
        return;
    job->status = status;
    snprintf(job->text, sizeof job->text, "%s", kolo_error_detail());
}

static void wrong(struct job *job, const char *what)
{
    job->status = KOLO_ERR_INTERNAL;
    snprintf(job->text, sizeof job->text, "%s", what);
}

static void *collectives(void *argument)
{
    struct job *job = argument;
    static const char reason[] = "enough";
    int n = kolo_size(job->comm);
    int(*data)[LENGTH] = calloc(PENDING, sizeof *data);
    for (int i = 0; i < ROUNDS && job->status == KOLO_OK; i++) {
        struct kolo_request *requests[PENDING] = {0};
        for (int k = 0; k < PENDING && job->status == KOLO_OK; k++) {
            size_t count = k % 2 ? LENGTH : 7;
            data[k][count - 1] = 1;
            keep(job, kolo_allreduce(job->comm, data[k], data[k], count, KOLO_INT32, KOLO_SUM, NULL,
                                     k % 3 ? &requests[k] : NULL));
        }
        if (job->may_abort && i == ROUNDS / 2 && kolo_rank(job->comm) == 1)
            kolo_abort(job->comm, reason);
        for (int k = PENDING - 1; k >= 0; k--) {
            kolo_status status = kolo_test(&requests[k]);
            keep(job, status == KOLO_AGAIN ? kolo_wait(&requests[k], -1) : status);
        }
        for (int k = 0; k < PENDING && job->status == KOLO_OK; k++)
            if (data[k][(k % 2 ? LENGTH : 7) - 1] != n)
                wrong(job, "a sum is wrong");
    }
    free(data);
    return NULL;
}

static void *messages(void *argument)
{
    struct job *job = argument;
    int n = kolo_size(job->comm), rank = kolo_rank(job->comm);
    for (int i = 0; i < ROUNDS && job->status == KOLO_OK; i++) {
        int out[300] = {rank, i}, in[300] = {0};
        size_t count = i % 5 ? 2 : 300;
        struct kolo_request *request = NULL;
        keep(job, kolo_send(job->comm, out, count, KOLO_INT32, (rank + 1) % n, NULL, &request));
        if (job->status == KOLO_OK)
            keep(job, kolo_recv(job->comm, in, count, KOLO_INT32, (rank + n - 1) % n, NULL, NULL));
        keep(job, kolo_wait(&request, -1));
        if (job->status == KOLO_OK && (in[0] != (rank + n - 1) % n || in[1] != i))
            wrong(job, "a message is wrong");
    }
    return NULL;
}

static void *keys(void *argument)
{
    struct job *job = argument;
    for (int i = 0; i < ROUNDS / 3 && job->status == KOLO_OK; i++) {
        int64_t sum = 0;
        char value[8] = "abc";
        size_t bytes = sizeof value;
        keep(job, kolo_kv_add(job->comm, "sum", 1, &sum));
        if (job->status == KOLO_OK)
            keep(job, kolo_kv_set(job->comm, "key", value, 4));
        if (job->status == KOLO_OK)
            keep(job, kolo_kv_get(job->comm, "key", value, &bytes, -1));
    }
    return NULL;
}

static kolo_status rank_main(struct kolo_comm *comm, void *argument)
{
    static void *(*const bodies[])(void *) = {collectives, messages, keys};
    struct job jobs[3];
    pthread_t threads[3];
    bool may_abort = *(const bool *)argument;
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct job){.comm = comm, .may_abort = may_abort};
        if (pthread_create(&threads[i], NULL, bodies[i], &jobs[i]) != 0)
            exit(2);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) {
        bool is_fine =
            jobs[i].status == KOLO_OK ||
            (may_abort && jobs[i].status == KOLO_ERR_ABORTED && strstr(jobs[i].text, "enough"));
        if (is_fine)
            continue;
        fprintf(stderr, "rank %d, thread %d: %s: %s\n", kolo_rank(comm), i,
                kolo_status_name(jobs[i].status), jobs[i].text);
        return KOLO_ERR_INTERNAL;
    }
    return KOLO_OK;
}

int main(void)
{
    static const char *const transports[] = {"KOLO_TRANSPORT=inproc", "KOLO_TRANSPORT=shm",
                                             "KOLO_TRANSPORT=tcp"};
    for (int i = 0; i < 6; i++) {
        const char *settings[] = {transports[i % 3], "KOLO_TIMEOUT=100", NULL};
        struct kolo_config config = {.size = sizeof config, .settings = settings};
        bool may_abort = i >= 3;
        kolo_status status = kolo_run_threads(RANKS, &config, rank_main, &may_abort);
        if (status != KOLO_OK) {
            fprintf(stderr, "%s, %s: %s: %s\n", transports[i % 3], may_abort ? "abort" : "whole",
                    kolo_status_name(status), kolo_error_detail());
            return 1;
        }
    }
    puts("engine: every sum, message and key was right, and every abort heard");
    return 0;
}
