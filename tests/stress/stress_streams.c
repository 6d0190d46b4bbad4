// SPDX-License-Identifier: Apache-2.0
// Many threads whose calls follow streams. On every rank, three threads make the same calls on one
// stream of one communicator. A fourth uses device buffers with a stream and a communicator of its
// own; the buffers are lent if there is a board, and freed while others have them mapped. Meanwhile
// a fifth allocates and frees memory that is locked for devices. The streams are the mock's, whose
// queues are sometimes full. In the last worlds a rank aborts in the middle: all streams go on. A
// program without Criterion, for ThreadSanitizer.
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/kolo.h>

#include "memory/cuda_driver.h"
#include "tests/support/mock_cuda.h"

/* Ranks 0 and 2 share one device. */
enum { RANKS = 3, CALLERS = 3, THREADS = CALLERS + 2 };
enum { ROUNDS = 30, PENDING = 4, LENGTH = 2000 };

static const struct mock_cuda *mock;

/** At the end of a thread the dynamic linker frees its thread-local memory. ThreadSanitizer does
 * not understand this, and reports the mock's use of that memory, by the same thread, as a
 * race. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:_dl_deallocate_tls\n";
}

struct job {
    struct kolo_comm *comm;
    void *stream;
    bool has_device; /* its buffers are in device memory */
    bool lends;      /* lends to the others, another piece in each round */
    int32_t *device; /* LENGTH numbers on the device; NULL: host memory */
    bool aborts;
    kolo_status status;
    char text[KOLO_DETAIL_MAX];
};

static void keep(struct job *job, kolo_status status)
{
    if (job->status != KOLO_OK || status == KOLO_OK)
        return;
    job->status = status;
    (void)snprintf(job->text, sizeof job->text, "%s", kolo_error_detail());
}

/** Whether all are sums of @p count ones. */
static bool are_sums(const struct job *job, const int32_t *sums, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sums[i] != kolo_size(job->comm))
            return false;
    return true;
}

static void round_of_calls(struct job *job, int32_t (*values)[LENGTH])
{
    const struct kolo_opts opts = {.size = sizeof opts, .stream = job->stream};
    const size_t count = job->device ? LENGTH : 7;
    struct kolo_request *requests[PENDING] = {NULL};
    for (int k = 0; k < PENDING && job->status == KOLO_OK; k++) {
        for (size_t i = 0; i < count; i++)
            values[k][i] = 1;
        if (job->device)
            mock->write_on(job->stream, job->device, values[k], count * sizeof **values);
        int32_t *memory = job->device ? job->device : values[k];
        keep(job, kolo_allreduce(job->comm, memory, memory, count, KOLO_INT32, KOLO_SUM, &opts,
                                 k % 3 != 2 ? &requests[k] : NULL));
    }
    for (int k = 0; k < PENDING; k++)
        keep(job, kolo_wait(&requests[k], -1));
    if (job->device)
        mock->read(job->device, values[PENDING - 1], count * sizeof **values);
    for (int k = job->device ? PENDING - 1 : 0; k < PENDING; k++)
        if (job->status == KOLO_OK && !are_sums(job, values[k], count))
            job->status = KOLO_ERR_INTERNAL;
}

static void take_device(struct job *job)
{
    void *memory = NULL;
    keep(job, kolo_alloc_device(job->comm, LENGTH * sizeof(int32_t),
                                kolo_rank(job->comm) % MOCK_DEVICES, &memory));
    job->device = memory;
}

/** Memory that is not lent is freed only after all work of its device. Another rank's stream may
 * have such work, which may wait for this rank's next call: so it is freed only after the last
 * call. */
static void give_device(struct job *job)
{
    keep(job, kolo_free(job->comm, job->device));
    job->device = NULL;
}

static void *call(void *argument)
{
    struct job *job = argument;
    int32_t(*values)[LENGTH] = calloc(PENDING, sizeof *values);
    for (int i = 0; i < ROUNDS && job->status == KOLO_OK; i++) {
        if (job->has_device && !job->device)
            take_device(job);
        if (job->status == KOLO_OK)
            round_of_calls(job, values);
        if (job->lends)
            give_device(job); /* others have it mapped */
        if (job->aborts && i == ROUNDS / 2)
            kolo_abort(job->comm, "enough");
    }
    give_device(job);
    free(values);
    return NULL;
}

static void *take_memory(void *argument)
{
    struct job *job = argument;
    for (int i = 0; i < ROUNDS && job->status == KOLO_OK; i++) {
        void *memory[PENDING] = {NULL};
        for (int k = 0; k < PENDING; k++)
            keep(job, kolo_alloc(job->comm, 4096 << k, &memory[k]));
        for (int k = 0; k < PENDING; k++)
            keep(job, kolo_free(job->comm, memory[k]));
    }
    return NULL;
}

static void run(struct job jobs[THREADS])
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, i < THREADS - 1 ? call : take_memory, &jobs[i]) != 0)
            exit(2);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
}

static bool is_fine(const struct job *job, bool may_abort)
{
    return job->status == KOLO_OK ||
           (may_abort && job->status == KOLO_ERR_ABORTED && strstr(job->text, "enough"));
}

/** What the ranks of a communicator do. */
struct kind {
    bool may_abort, lends;
};

static kolo_status rank_main(struct kolo_comm *comm, void *argument)
{
    const struct kind *kind = argument;
    const int rank = kolo_rank(comm), device = rank % MOCK_DEVICES;
    struct job jobs[THREADS];
    struct kolo_comm *other = NULL;
    void *memory = NULL, *stream = mock->stream(device);
    kolo_status status = kolo_dup(comm, NULL, &other);
    if (status == KOLO_OK)
        status = kolo_alloc(comm, 1 << 20, &memory); /* locked from the first call on */
    if (status != KOLO_OK)
        return status;
    for (int i = 0; i < THREADS; i++)
        jobs[i] = (struct job){.comm = comm, .stream = stream};
    jobs[0].aborts = kind->may_abort && rank == 1;
    jobs[CALLERS].comm = other;
    jobs[CALLERS].stream = mock->stream(device);
    jobs[CALLERS].has_device = true;
    jobs[CALLERS].lends = kind->lends;
    run(jobs);
    for (int i = 0; i < THREADS; i++)
        if (kolo_cuda_driver_loaded()->stream_synchronize(jobs[i].stream) != KOLO_CUDA_SUCCESS)
            return kolo_fail(KOLO_ERR_INTERNAL, "a stream failed");
    for (int i = 0; i < THREADS; i++)
        if (!is_fine(&jobs[i], kind->may_abort))
            return kolo_fail(KOLO_ERR_INTERNAL, "rank %d, thread %d: %s: %s", rank, i,
                             kolo_status_name(jobs[i].status), jobs[i].text);
    return KOLO_OK;
}

int main(void)
{
    static const char *const transports[] = {"KOLO_TRANSPORT=inproc", "KOLO_TRANSPORT=shm",
                                             "KOLO_TRANSPORT=tcp"};
    /* twoshot over a board, so that device memory is lent */
    static const char *const plans[] = {"KOLO_PLAN=twoshot", "KOLO_PLAN=twoshot", "KOLO_PLAN=auto"};
    mock = mock_cuda_load();
    mock->begin();
    for (unsigned i = 0; i < 6; i++) {
        const char *settings[] = {transports[i % 3], "KOLO_TIMEOUT=100",
                                  "KOLO_SHM_DIRECT_BYTES=4KiB", plans[i % 3], NULL};
        struct kolo_config config = {.size = sizeof config, .settings = settings};
        struct kind kind = {.may_abort = i >= 3, .lends = i % 3 != 2};
        mock->delays(i, 50);
        mock->queue(i % 2 ? 0 : 5);
        const kolo_status status = kolo_run_threads(RANKS, &config, rank_main, &kind);
        if (status != KOLO_OK) {
            fprintf(stderr, "%s, %s: %s: %s\n", transports[i % 3],
                    kind.may_abort ? "abort" : "whole", kolo_status_name(status),
                    kolo_error_detail());
            return 1;
        }
    }
    puts("streams: every sum was right, every abort heard, and every stream went on");
    return 0;
}
