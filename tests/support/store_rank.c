// SPDX-License-Identifier: Apache-2.0
// See store_rank.h.
#include "tests/support/store_rank.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/store_dial.h"

static void on_failed(void *context, int rank, uint32_t scope, kolo_status why, const char *text)
{
    struct store_rank *self = context;
    self->failed = why;
    self->failed_rank = rank;
    self->failed_scope = scope;
    snprintf(self->text, sizeof self->text, "%s", text);
}

static void on_left(void *context, int rank)
{
    (void)rank;
    ((struct store_rank *)context)->left++;
}

static void on_lost(void *context)
{
    ((struct store_rank *)context)->lost++;
}

kolo_status store_rank_join(struct store_rank *rank, int number, int size, int fd,
                            const struct kolo_place *places, size_t count,
                            const struct kolo_secret *secret, int timeout_ms)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(timeout_ms);
    struct kolo_peer self = {0};
    kolo_identity_here(number, &self.identity);
    self.credit_bytes = 1 << 20;
    void *context = rank->context;
    *rank = (struct store_rank){.rank = number, .size = size, .context = context};
    rank->joined = kolo_poller_create(&rank->poller);
    const struct kolo_store_dial_config dial_config = {
        .places = places, .count = count, .secret = secret, .rank = number, .deadline = deadline};
    if (rank->joined == KOLO_OK && fd < 0)
        rank->joined = kolo_store_dial(&dial_config, &fd);
    const struct kolo_store_client_config config = {
        .poller = rank->poller,
        .fd = fd,
        .self = &self,
        .size = size,
        .deadline = deadline,
        .events = {.context = rank, .failed = on_failed, .left = on_left, .lost = on_lost}};
    if (rank->joined == KOLO_OK)
        rank->joined = kolo_store_client_join(&config, &rank->client, &rank->peers);
    snprintf(rank->why, sizeof rank->why, "%s", kolo_error_detail());
    return rank->joined;
}

static bool turn(struct store_rank *rank, kolo_deadline deadline)
{
    int count = 0;
    kolo_poller_sleep(rank->poller, deadline);
    return kolo_poller_dispatch(rank->poller, &count) == KOLO_OK && !kolo_deadline_passed(deadline);
}

kolo_status store_rank_wait(struct store_rank *rank, struct kolo_store_call *call, int timeout_ms)
{
    kolo_deadline deadline = kolo_deadline_in_ms(timeout_ms);
    while (call->status == KOLO_AGAIN && turn(rank, deadline))
        ;
    return call->status;
}

bool store_rank_hear(struct store_rank *rank, int left, int timeout_ms)
{
    kolo_deadline deadline = kolo_deadline_in_ms(timeout_ms);
    while (rank->failed == KOLO_OK && !rank->lost && !(left && rank->left >= left))
        if (!turn(rank, deadline))
            return false;
    return true;
}

void store_rank_close(struct store_rank *rank)
{
    kolo_store_client_close(rank->client, kolo_deadline_in_ms(10000));
    kolo_poller_destroy(rank->poller);
    rank->client = NULL;
    rank->poller = NULL;
}

struct start {
    struct store_rank *rank;
    void (*body)(struct store_rank *rank);
};

static void *run_one(void *argument)
{
    const struct start *start = argument;
    start->body(start->rank);
    return NULL;
}

void store_ranks_run(struct store_rank *ranks, int count, void (*body)(struct store_rank *rank),
                     void *context)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    struct start *starts = calloc((size_t)count, sizeof *starts);
    pthread_attr_t small;
    if (!threads || !starts)
        abort();
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 512 << 10);
    for (int i = 0; i < count; i++) {
        ranks[i] = (struct store_rank){.rank = i, .size = count, .context = context};
        starts[i] = (struct start){&ranks[i], body};
        if (pthread_create(&threads[i], &small, run_one, &starts[i]) != 0)
            abort();
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&small);
    free(threads);
    free(starts);
}
