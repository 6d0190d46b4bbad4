// SPDX-License-Identifier: Apache-2.0
// Ranks as threads over shm and over inproc, with boards of all ranks and of some, spans that come
// and go, and messages between all pairs in between. No rank spins, so a lost wake-up ends in a
// deadline. A program without Criterion, for ThreadSanitizer.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/board.h"

enum { WAIT_MS = 60000, RANKS_MAX = 8, STAGE = 16384, SPAN = 8192, MESSAGE = 3000 };

struct rank {
    struct world *world;
    int number;
    struct kolo_endpoint *endpoint;
    struct kolo_heap *heap;
    struct kolo_link *links[RANKS_MAX];
    pthread_t thread;
};

struct world {
    int size, rounds;
    struct kolo_settings settings;
    struct kolo_secret secret;
    struct kolo_peer peers[RANKS_MAX];
    struct rank ranks[RANKS_MAX];
    atomic_int failures;
};

struct note {
    _Atomic uint32_t turn;
    struct kolo_board_name name;
};

static bool fail(struct rank *rank, const char *what, const char *detail)
{
    if (atomic_fetch_add(&rank->world->failures, 1) == 0)
        fprintf(stderr, "rank %d of %d: %s: %s\n", rank->number, rank->world->size, what, detail);
    return false;
}

/** Sleeps until @p is_true. */
static bool wait_until(struct rank *rank, bool (*is_true)(void *context), void *context)
{
    kolo_deadline deadline = kolo_deadline_in_ms(WAIT_MS);
    while (!is_true(context)) {
        bool moved = false;
        if (kolo_deadline_passed(deadline))
            return fail(rank, "the deadline passed", "");
        if (atomic_load(&rank->world->failures) > 0)
            return false;
        kolo_endpoint_arm(rank->endpoint);
        if (kolo_endpoint_progress(rank->endpoint, &moved) != KOLO_OK)
            return fail(rank, "progress", kolo_error_detail());
        if (!moved && !is_true(context))
            kolo_endpoint_sleep(rank->endpoint, deadline);
        kolo_endpoint_disarm(rank->endpoint);
    }
    return true;
}

static bool is_settled(void *context)
{
    const struct kolo_work *works = context;
    return works[0].status != KOLO_AGAIN && works[1].status != KOLO_AGAIN;
}

static bool is_ready(void *context)
{
    return kolo_board_ready(context, NULL) != KOLO_AGAIN;
}

struct goal {
    struct kolo_board *board;
    uint32_t turn;
};

static bool have_all_come(void *context)
{
    const struct goal *goal = context;
    for (int i = 0; i < kolo_board_count(goal->board); i++) {
        const struct note *note = kolo_board_notes(goal->board, i);
        if (atomic_load(&note->turn) < goal->turn)
            return false;
    }
    return true;
}

static bool step(struct rank *rank, struct kolo_board *board, uint32_t turn)
{
    struct goal goal = {board, turn};
    struct note *note = kolo_board_notes(board, kolo_board_self(board));
    atomic_store(&note->turn, turn);
    kolo_board_ring(board);
    return wait_until(rank, have_all_come, &goal);
}

static struct kolo_board *open_board(struct rank *rank, uint32_t id, const int *ranks, int count)
{
    struct kolo_board *board = NULL;
    if (kolo_board_open(rank->endpoint, id, ranks, count, STAGE, kolo_deadline_in_ms(WAIT_MS),
                        &board) != KOLO_OK ||
        !wait_until(rank, is_ready, board) || kolo_board_ready(board, NULL) != KOLO_OK) {
        fail(rank, "a board", kolo_error_detail());
        return NULL;
    }
    return board;
}

/** A message to a rank at some distance, and one from the rank at that distance on the other
 * side. */
static bool exchange(struct rank *rank, uint32_t round)
{
    static const uint8_t out[MESSAGE];
    uint8_t in[MESSAGE];
    int size = rank->world->size, distance = 1 + (int)round % (size - 1);
    size_t bytes = round % 3 == 0 ? MESSAGE : round % 40;
    struct kolo_desc desc = {{(uint8_t)round}};
    struct kolo_work works[2];
    kolo_link_send(rank->links[(rank->number + distance) % size], 1, &desc, out, bytes, &works[0]);
    kolo_link_recv(rank->links[(rank->number + size - distance) % size], 1, &desc, in, bytes, NULL,
                   &works[1]);
    if (!wait_until(rank, is_settled, works))
        return false;
    return works[0].status == KOLO_OK && works[1].status == KOLO_OK
               ? true
               : fail(rank, "a message", kolo_error_detail());
}

static void tell_gone(void *context, uint64_t id)
{
    kolo_endpoint_span_gone(context, id);
}

/** The previous rank writes into memory that exists only during this call. */
static bool lend(struct rank *rank, struct kolo_board *board, uint32_t turn)
{
    int count = kolo_board_count(board), self = kolo_board_self(board), next = (self + 1) % count;
    struct note *mine = kolo_board_notes(board, self);
    const struct note *theirs = kolo_board_notes(board, next);
    uint8_t *borrowed;
    void *memory;
    if (kolo_heap_alloc(rank->heap, SPAN, &memory) != KOLO_OK)
        return fail(rank, "memory", kolo_error_detail());
    kolo_board_lend(board, memory, SPAN, &mine->name);
    if (mine->name.span == 0 || !step(rank, board, turn))
        return fail(rank, "lend", "");
    if (kolo_board_borrow(board, next, &theirs->name, SPAN, &borrowed) != KOLO_OK)
        return fail(rank, "borrow", kolo_error_detail());
    memset(borrowed, (int)turn, SPAN);
    if (!step(rank, board, turn + 1))
        return false;
    const uint8_t *bytes = memory;
    if (bytes[0] != (uint8_t)turn || bytes[SPAN - 1] != (uint8_t)turn)
        return fail(rank, "what was written", "is not there");
    kolo_board_settle(board);
    return kolo_heap_free(rank->heap, memory, tell_gone, rank->endpoint) == KOLO_OK;
}

/** A board of the ranks with the same parity, open for one step. */
static bool meet_some(struct rank *rank, uint32_t round)
{
    int ranks[RANKS_MAX], count = 0;
    for (int i = rank->number % 2; i < rank->world->size; i += 2)
        ranks[count++] = i;
    if (count < 2)
        return true;
    struct kolo_board *board =
        open_board(rank, 10 + 2 * (round / 8 % 2) + (uint32_t)(rank->number % 2), ranks, count);
    bool is_fine = board && step(rank, board, 1);
    kolo_board_close(board);
    return is_fine;
}

static bool play(struct rank *rank, struct kolo_board *board)
{
    uint32_t turn = 1;
    for (uint32_t round = 0; round < (uint32_t)rank->world->rounds; round++) {
        for (int i = 0; i < 3; i++)
            if (!step(rank, board, turn++))
                return false;
        if (!exchange(rank, round))
            return false;
        if (round % 2 == 0 && !lend(rank, board, turn))
            return false;
        turn += 2;
        if (round % 8 == 0 && !meet_some(rank, round))
            return false;
    }
    return step(rank, board, turn);
}

static void *run(void *argument)
{
    struct rank *rank = argument;
    const int everyone[RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int i = 0; i < rank->world->size; i++)
        if (i != rank->number &&
            kolo_endpoint_link(rank->endpoint, i, KOLO_NEVER, &rank->links[i]) != KOLO_OK)
            fail(rank, "a link", kolo_error_detail());
    struct kolo_board *board = open_board(rank, 1, everyone, rank->world->size);
    if (board)
        play(rank, board);
    kolo_board_close(board);
    if (kolo_endpoint_close(rank->endpoint, kolo_deadline_in_ms(WAIT_MS)) != KOLO_OK)
        fail(rank, "close", kolo_error_detail());
    kolo_heap_destroy(rank->heap);
    return NULL;
}

static bool open_rank(struct world *world, int number)
{
    struct rank *rank = &world->ranks[number];
    struct kolo_endpoint_config config = {
        .rank = number, .size = world->size, .settings = &world->settings, .secret = world->secret};
    *rank = (struct rank){.world = world, .number = number};
    kolo_identity_here(number, &config.identity);
    if (kolo_heap_create(&rank->heap) != KOLO_OK)
        return fail(rank, "heap", kolo_error_detail());
    config.heap = rank->heap;
    if (kolo_endpoint_open(&config, &rank->endpoint) != KOLO_OK)
        return fail(rank, "endpoint", kolo_error_detail());
    kolo_endpoint_self(rank->endpoint, &world->peers[number]);
    return true;
}

static int run_world(const char *transport, int size, int rounds)
{
    static struct world world;
    world = (struct world){.size = size, .rounds = rounds};
    kolo_settings_init(&world.settings);
    if (kolo_settings_set(&world.settings, "TRANSPORT", transport, KOLO_FROM_API) != KOLO_OK ||
        kolo_secret_make(&world.secret) != KOLO_OK)
        return 1;
    for (int i = 0; i < size; i++)
        if (!open_rank(&world, i))
            return 1;
    for (int i = 0; i < size; i++)
        if (kolo_endpoint_set_peers(world.ranks[i].endpoint, world.peers) != KOLO_OK ||
            pthread_create(&world.ranks[i].thread, NULL, run, &world.ranks[i]) != 0)
            return 1;
    for (int i = 0; i < size; i++)
        pthread_join(world.ranks[i].thread, NULL);
    printf("%s, %d ranks, %d rounds: %s\n", transport, size, rounds,
           atomic_load(&world.failures) == 0 ? "ok" : "FAILED");
    return atomic_load(&world.failures) != 0;
}

int main(void)
{
    static const int sizes[] = {2, 3, 5, 8};
    for (int i = 0; i < 4; i++)
        if (run_world("shm", sizes[i], 300) != 0 || run_world("inproc", sizes[i], 300) != 0)
            return 1;
    return 0;
}
