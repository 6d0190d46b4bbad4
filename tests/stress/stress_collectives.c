// SPDX-License-Identifier: Apache-2.0
// Collectives on several communicators at once, over boards and links. Each rank has a thread for
// each of four communicators, with every kind of memory, long and short vectors, blocking calls and
// requests, and memory that is freed as soon as a call is over. One communicator is aborted in the
// middle, and each thread finalizes its own while the others are at work. A program without
// Criterion, for ThreadSanitizer.
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/kolo.h>

enum { RANKS = 3, ROUNDS = 40, SHORT = 5, LONG = 40000, WORKERS = 4, ABORTED = 2 };

struct worker {
    struct kolo_comm *world, *comm; /* comm: a dup of the world, or some of its ranks */
    int number;
    kolo_status status;
    char text[512];
};

static bool keep(struct worker *worker, kolo_status status)
{
    if (worker->status == KOLO_OK && status != KOLO_OK) {
        worker->status = status;
        snprintf(worker->text, sizeof worker->text, "%s", kolo_error_detail());
    }
    return worker->status == KOLO_OK;
}

static bool expect(struct worker *worker, bool condition, const char *what)
{
    if (condition || worker->status != KOLO_OK)
        return worker->status == KOLO_OK;
    worker->status = KOLO_ERR_INTERNAL;
    snprintf(worker->text, sizeof worker->text, "%s", what);
    return false;
}

/** Memory of kolo_alloc in two of three rounds, and plain memory in the third. */
static int32_t *take(struct worker *worker, int round, size_t count)
{
    void *memory = NULL;
    if (round % 3 == 0)
        return malloc(count * sizeof(int32_t));
    return keep(worker, kolo_alloc(worker->comm, count * sizeof(int32_t), &memory)) ? memory : NULL;
}

static void give_back(struct worker *worker, int round, int32_t *memory)
{
    if (round % 3 == 0)
        free(memory);
    else
        keep(worker, kolo_free(worker->comm, memory));
}

static void reduce(struct worker *worker, int round, bool waits)
{
    size_t count = round % 2 != 0 ? LONG : SHORT;
    int n = kolo_size(worker->comm);
    struct kolo_request *request = NULL;
    int32_t *data = take(worker, round, 2 * count);
    if (!data)
        return;
    for (size_t i = 0; i < 2 * count; i++)
        data[i] = (int32_t)i + round;
    bool is_fine = keep(worker, kolo_allreduce(worker->comm, data, data + count, count, KOLO_INT32,
                                               KOLO_SUM, NULL, waits ? &request : NULL));
    if (waits)
        is_fine = keep(worker, kolo_wait(&request, -1)) && is_fine;
    if (is_fine)
        expect(worker,
               data[count] == n * round && data[2 * count - 1] == n * ((int32_t)count - 1 + round),
               "a sum is wrong");
    give_back(worker, round, data);
}

static void gather_and_spread(struct worker *worker, int round)
{
    int n = kolo_size(worker->comm), rank = kolo_rank(worker->comm);
    int32_t all[RANKS] = {0}, mine = rank * 100 + round, told = rank == round % n ? round : -1;
    if (keep(worker, kolo_allgather(worker->comm, &mine, all, 1, KOLO_INT32, NULL, NULL)))
        for (int i = 0; i < n; i++)
            expect(worker, all[i] == i * 100 + round, "a gathered value is wrong");
    if (worker->status == KOLO_OK &&
        keep(worker, kolo_broadcast(worker->comm, &told, 1, KOLO_INT32, round % n, NULL, NULL)))
        expect(worker, told == round, "what was broadcast is wrong");
    if (worker->status == KOLO_OK)
        keep(worker, kolo_barrier(worker->comm, NULL, NULL));
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    bool is_aborted = worker->number == ABORTED;
    for (int round = 0; round < ROUNDS && worker->status == KOLO_OK; round++) {
        if (is_aborted && round == ROUNDS / 2 && kolo_rank(worker->comm) == 1)
            kolo_abort(worker->comm, "enough");
        reduce(worker, round, worker->number % 2 != 0);
        if (worker->status == KOLO_OK)
            gather_and_spread(worker, round);
    }
    if (is_aborted && worker->status == KOLO_ERR_ABORTED && strstr(worker->text, "enough"))
        worker->status = KOLO_OK;
    else if (is_aborted)
        expect(worker, false, "the abort was not heard");
    if (worker->comm != worker->world)
        keep(worker, kolo_finalize(worker->comm));
    return NULL;
}

static kolo_status rank_main(struct kolo_comm *world, void *argument)
{
    struct worker workers[WORKERS];
    pthread_t threads[WORKERS];
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < WORKERS && status == KOLO_OK; i++) {
        workers[i] = (struct worker){.world = world, .comm = world, .number = i};
        if (i == WORKERS - 1) /* ranks 0 and 2 in one, and rank 1 alone */
            status = kolo_split(world, kolo_rank(world) % 2, 0, NULL, &workers[i].comm);
        else if (i > 0)
            status = kolo_dup(world, NULL, &workers[i].comm);
    }
    if (status != KOLO_OK)
        return status;
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            exit(2);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].status == KOLO_OK)
            continue;
        fprintf(stderr, "rank %d, communicator %d: %s: %s\n", kolo_rank(world), i,
                kolo_status_name(workers[i].status), workers[i].text);
        status = KOLO_ERR_INTERNAL;
    }
    return status;
}

int main(void)
{
    static const char *const ways[][2] = {
        {"KOLO_TRANSPORT=inproc", "KOLO_PLAN=auto"}, {"KOLO_TRANSPORT=shm", "KOLO_PLAN=auto"},
        {"KOLO_TRANSPORT=shm", "KOLO_PLAN=twoshot"}, {"KOLO_TRANSPORT=inproc", "KOLO_PLAN=twoshot"},
        {"KOLO_TRANSPORT=tcp", "KOLO_PLAN=auto"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const char *settings[] = {ways[i][0], ways[i][1], "KOLO_TIMEOUT=100", NULL};
        struct kolo_config config = {.size = sizeof config, .settings = settings};
        kolo_status status = kolo_run_threads(RANKS, &config, rank_main, NULL);
        if (status != KOLO_OK) {
            fprintf(stderr, "%s, %s: %s: %s\n", ways[i][0], ways[i][1], kolo_status_name(status),
                    kolo_error_detail());
            return 1;
        }
    }
    puts("collectives: every result was right, and every abort heard by its communicator alone");
    return 0;
}
