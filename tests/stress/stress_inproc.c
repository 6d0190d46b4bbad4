// SPDX-License-Identifier: Apache-2.0
// Ranks as threads over inproc, with everything that can happen at the same time: rings of messages
// in both directions, sleeping, withdrawing a message while the other side reads it, closing while
// others dial. The last world has a thousand ranks. A program without Criterion, for
// ThreadSanitizer.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"

enum { ROUNDS = 40, LONG_BYTES = 30000, WAIT_MS = 240000, RANKS_MAX = 1000 };

struct rank {
    struct world *world;
    int number;
    struct kolo_endpoint *endpoint;
    pthread_t thread;
    uint8_t *memory;
};

struct world {
    int size, rounds;
    bool takes_back;
    struct kolo_settings settings;
    struct kolo_peer *peers;
    struct rank *ranks;
    atomic_int failures;
};

static void fail(struct rank *rank, const char *what, const char *detail)
{
    if (atomic_fetch_add(&rank->world->failures, 1) == 0)
        fprintf(stderr, "rank %d of %d: %s: %s\n", rank->number, rank->world->size, what, detail);
}

static void settle(struct rank *rank, const struct kolo_work *work)
{
    kolo_deadline deadline = kolo_deadline_in_ms(WAIT_MS);
    for (int idle = 0; work->status == KOLO_AGAIN; idle++) {
        bool moved = false;
        if (kolo_deadline_passed(deadline)) {
            fail(rank, "the deadline passed", "");
            return;
        }
        if (idle > 20)
            kolo_endpoint_arm(rank->endpoint);
        (void)!kolo_endpoint_progress(rank->endpoint, &moved);
        if (idle > 20 && !moved && work->status == KOLO_AGAIN)
            kolo_endpoint_sleep(rank->endpoint, deadline);
        if (idle > 20)
            kolo_endpoint_disarm(rank->endpoint);
    }
}

/* A step of a ring: send to the right, receive from the left, reduce into the local data. */
static void ring_step(struct rank *rank, struct kolo_link *right, struct kolo_link *left, int round)
{
    size_t bytes = round % 3 == 0 ? LONG_BYTES : (size_t)(round % 5) * 8;
    struct kolo_action action = {.kind = KOLO_REDUCE,
                                 .dtype = KOLO_INT64,
                                 .op = KOLO_SUM,
                                 .local = rank->memory + LONG_BYTES};
    struct kolo_desc desc = {{(uint8_t)round}};
    struct kolo_work out, in;
    kolo_link_send(right, 1, &desc, rank->memory, bytes, &out);
    kolo_link_recv(left, 1, &desc, rank->memory + LONG_BYTES, bytes, &action, &in);
    settle(rank, &in);
    settle(rank, &out);
    if (in.status != KOLO_OK || out.status != KOLO_OK)
        fail(rank, "a ring step", kolo_status_name(in.status != KOLO_OK ? in.status : out.status));
}

/* A long message that the right neighbour may or may not be reading when it is cancelled and
 * overwritten. */
static void take_back(struct rank *rank, struct kolo_link *right, struct kolo_link *left, int round)
{
    struct kolo_desc desc = {{0}};
    struct kolo_work out, in;
    uint32_t channel = 100 + (uint32_t)round;
    kolo_link_send(right, channel, &desc, rank->memory, LONG_BYTES, &out);
    kolo_link_recv(left, channel, &desc, rank->memory + (size_t)2 * LONG_BYTES, LONG_BYTES, NULL,
                   &in);
    (void)!kolo_endpoint_progress(rank->endpoint, NULL);
    kolo_work_cancel(&out);
    memset(rank->memory, 0, LONG_BYTES);
    kolo_work_cancel(&in);
    memset(rank->memory + (size_t)2 * LONG_BYTES, 0, LONG_BYTES);
}

static void *run(void *argument)
{
    struct rank *rank = argument;
    const struct world *world = rank->world;
    struct kolo_link *right, *left;
    int next = (rank->number + 1) % world->size;
    int before = (rank->number + world->size - 1) % world->size;
    rank->memory = calloc(3, LONG_BYTES);
    if (!rank->memory || kolo_endpoint_link(rank->endpoint, next, KOLO_NEVER, &right) != KOLO_OK ||
        kolo_endpoint_link(rank->endpoint, before, KOLO_NEVER, &left) != KOLO_OK) {
        fail(rank, "a link", kolo_error_detail());
        return NULL;
    }
    for (int round = 0; round < world->rounds; round++) {
        ring_step(rank, right, left, round);
        if (world->takes_back)
            take_back(rank, right, left, round);
    }
    if (kolo_endpoint_close(rank->endpoint, kolo_deadline_in_ms(WAIT_MS)) != KOLO_OK)
        fail(rank, "close", kolo_error_detail());
    free(rank->memory);
    return NULL;
}

static int open_ranks(struct world *world)
{
    for (int i = 0; i < world->size; i++) {
        struct rank *rank = &world->ranks[i];
        struct kolo_endpoint_config config = {
            .rank = i, .size = world->size, .settings = &world->settings};
        *rank = (struct rank){.world = world, .number = i};
        kolo_identity_here(i, &config.identity);
        if (kolo_endpoint_open(&config, &rank->endpoint) != KOLO_OK) {
            fprintf(stderr, "rank %d: %s\n", i, kolo_error_detail());
            return 1;
        }
        kolo_endpoint_self(rank->endpoint, &world->peers[i]);
    }
    return 0;
}

static int run_world(int size, int rounds, bool takes_back)
{
    static struct kolo_peer peers[RANKS_MAX];
    static struct rank ranks[RANKS_MAX];
    struct world world = {
        .size = size, .rounds = rounds, .takes_back = takes_back, .peers = peers, .ranks = ranks};
    pthread_attr_t attributes;
    kolo_settings_init(&world.settings);
    if (kolo_settings_set(&world.settings, "TRANSPORT", "inproc", KOLO_FROM_API) != KOLO_OK ||
        open_ranks(&world) != 0)
        return 1;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (int i = 0; i < size; i++)
        if (kolo_endpoint_set_peers(ranks[i].endpoint, peers) != KOLO_OK ||
            pthread_create(&ranks[i].thread, &attributes, run, &ranks[i]) != 0)
            return 1;
    for (int i = 0; i < size; i++)
        pthread_join(ranks[i].thread, NULL);
    pthread_attr_destroy(&attributes);
    printf("%d ranks, %d rounds%s: %s\n", size, rounds, takes_back ? ", taking back" : "",
           atomic_load(&world.failures) == 0 ? "ok" : "FAILED");
    return atomic_load(&world.failures) != 0;
}

int main(void)
{
    for (int i = 0; i < 20; i++)
        if (run_world(2 + i % 6, ROUNDS, i % 2 == 0) != 0)
            return 1;
    return run_world(RANKS_MAX, 3, false);
}
