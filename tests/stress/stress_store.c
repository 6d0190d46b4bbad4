// SPDX-License-Identifier: Apache-2.0
// 64 ranks as threads of one process join a store that runs on a thread of its own, and exchange
// keys through it. Then one of them vanishes without a goodbye, and all others learn which one. A
// program without Criterion, for ThreadSanitizer.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/store.h"

enum { RANKS = 64, ROUNDS = 30, SOON_MS = 60000, VICTIM = 23 };

struct rank {
    int number, fd;
    struct kolo_store_thread *store;
    struct kolo_poller *poller;
    struct kolo_store_client *client;
    bool has_failed;
    int failed_rank;
    char text[KOLO_STORE_TEXT_MAX];
    const char *wrong; /* NULL: everything went well */
};

static void on_failed(void *context, int rank, uint32_t scope, kolo_status why, const char *text)
{
    struct rank *self = context;
    self->has_failed = why == KOLO_ERR_PEER && scope == KOLO_STORE_RANK;
    self->failed_rank = rank;
    snprintf(self->text, sizeof self->text, "%s", text);
}

static bool turn(struct rank *rank, kolo_deadline deadline)
{
    kolo_poller_sleep(rank->poller, deadline);
    return kolo_poller_dispatch(rank->poller, NULL) == KOLO_OK && !kolo_deadline_passed(deadline);
}

static kolo_status wait_for(struct rank *rank, struct kolo_store_call *call)
{
    kolo_deadline deadline = kolo_deadline_in_ms(SOON_MS);
    while (call->status == KOLO_AGAIN && turn(rank, deadline))
        ;
    return call->status;
}

/** Every rank sets a key for this round, waits for its neighbour's, and adds to a common sum. */
static const char *play(struct rank *rank, int round)
{
    char key[32], text[32], wanted[32];
    struct kolo_store_call set, get, add;
    const struct kolo_desc desc = {{1}};
    int next = (rank->number + 1) % RANKS;
    snprintf(key, sizeof key, "%d of %d", round, next);
    snprintf(wanted, sizeof wanted, "%d*%d", round, next);
    kolo_store_client_get(rank->client, key, true, &get);
    kolo_store_client_stalled(rank->client, &(struct kolo_stall_report){.channel = 1,
                                                                        .sequence = (uint32_t)round,
                                                                        .desc = &desc,
                                                                        .words = "play()"});
    snprintf(key, sizeof key, "%d of %d", round, rank->number);
    snprintf(text, sizeof text, "%d*%d", round, rank->number);
    kolo_store_client_set(rank->client, key, text, strlen(text) + 1, &set);
    kolo_store_client_add(rank->client, "sum", 1, &add);
    if (wait_for(rank, &set) != KOLO_OK || wait_for(rank, &get) != KOLO_OK ||
        wait_for(rank, &add) != KOLO_OK)
        return "a call failed";
    kolo_store_client_resumed(rank->client, 1, (uint32_t)round);
    bool is_right = get.bytes == strlen(wanted) + 1 && strcmp(get.value, wanted) == 0;
    kolo_free_memory(get.value);
    if (!is_right)
        return "a neighbour's value is wrong";
    return add.sum > 0 && add.sum <= RANKS * ROUNDS ? NULL : "the sum is wrong";
}

/** The victim must not die before every rank has its answers. */
static bool all_have_played(struct rank *rank)
{
    struct kolo_store_call call;
    kolo_store_client_add(rank->client, "played", 1, &call);
    if (wait_for(rank, &call) != KOLO_OK)
        return false;
    if (call.sum == RANKS)
        kolo_store_client_set(rank->client, "all", "", 0, &call);
    else if (rank->number == VICTIM)
        kolo_store_client_get(rank->client, "all", true, &call);
    return wait_for(rank, &call) == KOLO_OK;
}

static const char *end(struct rank *rank)
{
    struct kolo_store_call call;
    char expected[32];
    kolo_deadline deadline = kolo_deadline_in_ms(SOON_MS);
    if (!all_have_played(rank))
        return "a call failed";
    if (rank->number == VICTIM) {
        (void)shutdown(rank->fd, SHUT_RDWR); /* as if it were killed */
        return NULL;
    }
    kolo_store_client_get(rank->client, "never", true, &call);
    while (!rank->has_failed && turn(rank, deadline))
        ;
    snprintf(expected, sizeof expected, "rank %d (", VICTIM);
    if (rank->failed_rank != VICTIM || strncmp(rank->text, expected, strlen(expected)) != 0)
        return "the failure does not name the victim";
    if (call.status != KOLO_AGAIN)
        return "a waiting call ended by the death of one rank";
    kolo_store_client_cancel(rank->client, &call);
    return NULL;
}

static const char *live(struct rank *rank)
{
    const struct kolo_peer *peers;
    struct kolo_peer self = {.credit_bytes = 1 << 20};
    struct kolo_store_client_config config = {
        .self = &self, .size = RANKS, .events = {.context = rank, .failed = on_failed}};
    const char *wrong = NULL;
    kolo_identity_here(rank->number, &self.identity);
    if (kolo_poller_create(&rank->poller) != KOLO_OK ||
        kolo_store_thread_pair(rank->store, &rank->fd) != KOLO_OK)
        return "no poller or no socket pair";
    config.poller = rank->poller;
    config.fd = rank->fd;
    config.deadline = kolo_deadline_in_ms(SOON_MS);
    if (kolo_store_client_join(&config, &rank->client, &peers) != KOLO_OK)
        return "cannot join";
    for (int round = 0; round < ROUNDS && !wrong; round++)
        wrong = play(rank, round);
    return wrong ? wrong : end(rank);
}

static void *run(void *argument)
{
    struct rank *rank = argument;
    rank->wrong = live(rank);
    kolo_store_client_close(rank->client, kolo_deadline_in_ms(SOON_MS));
    kolo_poller_destroy(rank->poller);
    return NULL;
}

int main(void)
{
    static struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    struct kolo_store_thread *store;
    const struct kolo_store_server_config config = {
        .size = RANKS, .start_timeout_ms = SOON_MS, .stall_warn_ms = 1, .lost_grace_ms = 20};
    int bad = 0;
    if (kolo_store_thread_start(&config, NULL, 0, NULL, &store) != KOLO_OK) {
        fprintf(stderr, "%s\n", kolo_error_detail());
        return 1;
    }
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){.number = i, .fd = -1, .store = store, .failed_rank = -1};
        if (pthread_create(&threads[i], NULL, run, &ranks[i]) != 0)
            abort();
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        if (ranks[i].wrong) {
            fprintf(stderr, "rank %d: %s: %s\n", i, ranks[i].wrong, ranks[i].text);
            bad++;
        }
    }
    kolo_store_thread_stop(store, kolo_deadline_in_ms(SOON_MS));
    printf("%d ranks, %d rounds: %s\n", RANKS, ROUNDS, bad ? "wrong" : "right");
    return bad != 0;
}
