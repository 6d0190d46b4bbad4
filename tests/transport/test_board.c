// SPDX-License-Identifier: Apache-2.0
// Boards of ranks that are threads, over shm and inproc. test_shm_board.c tests what only shm has
// (messages, spans of other processes).
#include "tests/support/transport_suite.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/shm_side.h"
#include "transport/board_private.h"

enum { STAGE = 3 * 4096 + 100, BOARD = 7, BIG = 1 << 20, SPANS = 3 * KOLO_SHM_SPANS };

static const char *const kinds[] = {"shm", "inproc"};
static const int everyone[SUITE_RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};

struct opening {
    struct kolo_board *board;
    kolo_status status;
    int waits_for;
};

static bool is_settled(struct suite_rank *rank, void *context)
{
    struct opening *opening = context;
    (void)rank;
    opening->status = kolo_board_ready(opening->board, &opening->waits_for);
    return opening->status != KOLO_AGAIN;
}

/** Opens board @p id of @p ranks and waits until it is usable or has failed; *status_out says
 * which. */
static struct kolo_board *open_board(struct suite_rank *rank, uint32_t id, const int *ranks,
                                     int count, size_t stage_bytes, kolo_status *status_out)
{
    struct opening opening = {0};
    *status_out = kolo_board_open(rank->endpoint, id, ranks, count, stage_bytes,
                                  kolo_deadline_in_ms(20000), &opening.board);
    if (*status_out != KOLO_OK)
        return NULL;
    suite_until(rank, is_settled, &opening);
    *status_out = opening.status;
    return opening.board;
}

static struct kolo_board *open_all(struct suite_rank *rank)
{
    kolo_status status;
    struct kolo_board *board = open_board(rank, BOARD, everyone, rank->world->size, STAGE, &status);
    if (status != KOLO_OK)
        suite_fail(rank, "open_board", "%s: %s", kolo_status_name(status), kolo_error_detail());
    return board;
}

static _Atomic uint32_t *note_of(struct kolo_board *board, int member)
{
    return kolo_board_notes(board, member);
}

struct expectation {
    struct kolo_board *board;
    uint32_t value;
};

static bool all_notes_are(struct suite_rank *rank, void *context)
{
    const struct expectation *expected = context;
    (void)rank;
    for (int i = 0; i < kolo_board_count(expected->board); i++)
        if (atomic_load(note_of(expected->board, i)) < expected->value)
            return false;
    return true;
}

/** Publishes @p value and waits until all members have published theirs. */
static bool step(struct suite_rank *rank, struct kolo_board *board, uint32_t value)
{
    struct expectation expected = {board, value};
    atomic_store(note_of(board, kolo_board_self(board)), value);
    kolo_board_ring(board);
    return suite_until(rank, all_notes_are, &expected);
}

/* ---- which ranks can have a board ---- */

static void expect_no(struct suite_rank *rank, const int *ranks, int count, const char *reason)
{
    struct kolo_why why;
    struct kolo_board *board;
    SUITE_CHECK(rank, !kolo_board_fits(rank->endpoint, ranks, count, &why), "%s", reason);
    SUITE_CHECK(rank, strstr(why.text, reason) != NULL, "'%s' instead of '%s'", why.text, reason);
    kolo_status status =
        kolo_board_open(rank->endpoint, BOARD, ranks, count, STAGE, KOLO_NEVER, &board);
    SUITE_CHECK(rank, status == KOLO_ERR_UNSUPPORTED, "%s", kolo_status_name(status));
}

static void ask_who_fits(struct suite_rank *rank)
{
    struct kolo_why why;
    static int many[KOLO_BOARD_MEMBERS_MAX + 1];
    const int two[2] = {rank->rank, (rank->rank + 1) % 3};
    SUITE_CHECK(rank, kolo_board_fits(rank->endpoint, everyone, 3, &why), "%s", why.text);
    SUITE_CHECK(rank, kolo_board_fits(rank->endpoint, two, 2, &why), "%s", why.text);
    expect_no(rank, (int[]){rank->rank}, 1, "a board has from 2 to 64 members");
    expect_no(rank, many, KOLO_BOARD_MEMBERS_MAX + 1, "a board has from 2 to 64 members");
    expect_no(rank, (int[]){0, 1, 0}, 3, "rank 0 is there twice");
    expect_no(rank, (int[]){0, 3}, 2, "there is no rank 3");
    expect_no(rank, (int[]){0, -1}, 2, "there is no rank -1");
    expect_no(rank, (int[]){(rank->rank + 1) % 3, (rank->rank + 2) % 3}, 2,
              "is not among its members");
}

Test(board, fits_members_with_memory_in_common, .timeout = 60)
{
    for (int i = 0; i < 2; i++) {
        struct suite_world *world = suite_open(kinds[i], 3, NULL, NULL);
        suite_run(world, ask_who_fits);
        suite_close(world);
    }
}

static void ask_over_tcp(struct suite_rank *rank)
{
    expect_no(rank, everyone, 3, "have no memory in common");
}

Test(board, does_not_fit_over_tcp, .timeout = 60)
{
    struct suite_world *world = suite_open("tcp", 3, NULL, NULL);
    suite_run(world, ask_over_tcp);
    suite_close(world);
}

static void ask_mixed(struct suite_rank *rank)
{
    struct kolo_why why;
    expect_no(rank, everyone, 3, "others by");
    if (rank->rank < 2)
        SUITE_CHECK(rank, kolo_board_fits(rank->endpoint, everyone, 2, &why), "%s", why.text);
}

Test(board, does_not_fit_threads_and_processes_mixed, .timeout = 60)
{
    struct suite_world *world = suite_open("auto", 3, NULL, NULL);
    world->peers[2].identity.process++; // as the others and the rank itself see it
    suite_run(world, ask_mixed);
    world->peers[2].identity.process--;
    suite_close(world);
}

/* ---- notes and stage ---- */

static void write_and_read(struct suite_rank *rank)
{
    struct kolo_board *board = open_all(rank);
    if (!board)
        return;
    int self = kolo_board_self(board), count = kolo_board_count(board);
    SUITE_CHECK(rank, self == rank->rank && count == rank->world->size, "%d of %d", self, count);
    SUITE_CHECK(rank, kolo_board_reserve(board, STAGE) == KOLO_OK, "%s", kolo_error_detail());
    SUITE_CHECK(rank, kolo_board_reserve(board, 2 * STAGE) == KOLO_ERR_INVALID, "too much");
    for (int i = 0; i < count; i++) {
        const uint8_t *notes = kolo_board_notes(board, i);
        SUITE_CHECK(rank, (uintptr_t)notes % 4096 == 0, "%p", (const void *)notes);
        SUITE_CHECK(rank, kolo_board_stage(board, i) == notes + KOLO_BOARD_NOTES_BYTES, "stage");
        SUITE_CHECK(rank, notes[KOLO_BOARD_NOTES_BYTES + STAGE - 1] == 0, "not zeroed");
    }
    suite_meet(rank, 0);
    for (uint32_t round = 1; round <= 300; round++) {
        memset(kolo_board_stage(board, self), (int)(round + (uint32_t)self), STAGE);
        SUITE_CHECK(rank, step(rank, board, 2 * round), "round %u", round);
        for (int i = 0; i < count; i++) {
            const uint8_t *stage = kolo_board_stage(board, i);
            uint8_t expected = (uint8_t)(round + (uint32_t)i);
            SUITE_CHECK(rank, stage[0] == expected && stage[STAGE - 1] == expected,
                        "round %u, member %d: %d and %d", round, i, stage[0], stage[STAGE - 1]);
        }
        SUITE_CHECK(rank, step(rank, board, 2 * round + 1), "round %u", round);
    }
    suite_meet(rank, 1);
    kolo_board_close(board);
}

Test(board, members_see_what_others_put_up, .timeout = 120)
{
    for (int i = 0; i < 2; i++)
        for (int size = 2; size <= 5; size += 3) {
            int fds = shm_count_fds(), maps = shm_count_maps();
            struct suite_world *world = suite_open(kinds[i], size, NULL, NULL);
            suite_run(world, write_and_read);
            suite_close(world);
            cr_assert(shm_count_fds() == fds && shm_count_maps() == maps, "%s: %d and %d left",
                      kinds[i], shm_count_fds() - fds, shm_count_maps() - maps);
        }
}

/* ---- opening ---- */

/** Boards of all pairs and of all ranks, opened in different orders; some are never closed
 * explicitly. */
static void open_many(struct suite_rank *rank)
{
    struct opening openings[4] = {{0}};
    int size = rank->world->size, used = 0;
    for (int i = 0; i < size; i++) {
        int other = (rank->rank + 1 + i) % size;
        int pair[2] = {rank->rank < other ? rank->rank : other,
                       rank->rank < other ? other : rank->rank};
        uint32_t id = (uint32_t)(10 * pair[0] + pair[1]);
        if (other == rank->rank)
            continue;
        SUITE_CHECK(rank,
                    kolo_board_open(rank->endpoint, id, pair, 2, STAGE, KOLO_NEVER,
                                    &openings[used].board) == KOLO_OK,
                    "board %u: %s", id, kolo_error_detail());
        used++;
    }
    struct kolo_board *board = open_all(rank);
    if (!board)
        return;
    struct kolo_board *again;
    SUITE_CHECK(rank,
                kolo_board_open(rank->endpoint, BOARD, everyone, size, STAGE, KOLO_NEVER, &again) ==
                    KOLO_ERR_INVALID,
                "twice");
    for (int i = 0; i < used; i++) {
        SUITE_CHECK(rank, suite_until(rank, is_settled, &openings[i]), "pair %d", i);
        SUITE_CHECK(rank, openings[i].status == KOLO_OK, "pair %d: %s", i, kolo_error_detail());
        atomic_store(note_of(openings[i].board, kolo_board_self(openings[i].board)), 1);
        kolo_board_ring(openings[i].board);
    }
    for (int i = 0; i < used; i++)
        SUITE_CHECK(rank, step(rank, openings[i].board, 1), "pair %d", i);
    suite_meet(rank, 0);
    kolo_board_close(openings[0].board);
    kolo_board_close(NULL);
}

Test(board, many_can_be_open, .timeout = 60)
{
    for (int i = 0; i < 2; i++) {
        int fds = shm_count_fds(), maps = shm_count_maps();
        struct suite_world *world = suite_open(kinds[i], 4, NULL, NULL);
        suite_run(world, open_many);
        suite_close(world);
        cr_assert(shm_count_fds() == fds && shm_count_maps() == maps);
    }
}

/** The same board repeatedly: no rank may take a segment of the previous one for one of the new
 * one. */
static void reopen(struct suite_rank *rank)
{
    for (uint32_t round = 0; round < 50; round++) {
        struct kolo_board *board = open_all(rank);
        if (!board)
            return;
        for (int i = 0; i < rank->world->size; i++) {
            uint32_t seen = atomic_load(note_of(board, i));
            SUITE_CHECK(rank, seen == 0 || (seen == 1 && i != rank->rank), "round %u: %u of %d",
                        round, seen, i);
        }
        SUITE_CHECK(rank, step(rank, board, 1), "round %u", round);
        kolo_board_close(board);
    }
}

Test(board, can_be_opened_again, .timeout = 60)
{
    for (int i = 0; i < 2; i++) {
        struct suite_world *world = suite_open(kinds[i], 4, NULL, NULL);
        suite_run(world, reopen);
        suite_close(world);
    }
}

static void open_different(struct suite_rank *rank)
{
    kolo_status status;
    struct kolo_board *board =
        open_board(rank, BOARD, everyone, 2, rank->rank == 0 ? STAGE : 4 * STAGE, &status);
    SUITE_CHECK(rank, status == KOLO_ERR_MISMATCH, "%s", kolo_status_name(status));
    SUITE_CHECK(rank, strstr(kolo_error_detail(), "is a setting different there?") != NULL, "%s",
                kolo_error_detail());
    suite_meet(rank, 0);
    kolo_board_close(board);
}

Test(board, tells_that_sizes_differ, .timeout = 60)
{
    for (int i = 0; i < 2; i++) {
        struct suite_world *world = suite_open(kinds[i], 2, NULL, NULL);
        suite_run(world, open_different);
        suite_close(world);
    }
}

static void open_without_two(struct suite_rank *rank)
{
    struct opening opening = {0};
    if (rank->rank != 2) {
        SUITE_CHECK(rank,
                    kolo_board_open(rank->endpoint, BOARD, everyone, 3, STAGE,
                                    kolo_deadline_in_ms(3000), &opening.board) == KOLO_OK,
                    "%s", kolo_error_detail());
        SUITE_CHECK(rank, suite_until(rank, is_settled, &opening), "hangs");
        SUITE_CHECK(rank, opening.status == KOLO_ERR_TIMEOUT && opening.waits_for == 2, "%s, %d",
                    kolo_status_name(opening.status), opening.waits_for);
    }
    suite_meet(rank, 0);
    kolo_board_close(opening.board);
}

Test(board, waits_for_a_member_until_the_deadline, .timeout = 60)
{
    for (int i = 0; i < 2; i++) {
        struct suite_world *world = suite_open(kinds[i], 3, NULL, NULL);
        suite_run(world, open_without_two);
        suite_close(world);
    }
}

static bool are_links_up(struct suite_rank *rank, void *context)
{
    struct kolo_link **links = context;
    (void)rank;
    return links[0]->state == KOLO_LINK_UP && links[1]->state == KOLO_LINK_UP;
}

static void open_with_a_crash(struct suite_rank *rank)
{
    struct opening opening = {0};
    if (rank->rank == 2) {
        struct kolo_link *links[2] = {suite_link(rank, 0), suite_link(rank, 1)};
        SUITE_CHECK(rank, suite_until(rank, are_links_up, links), "links");
        suite_meet(rank, 0);
        suite_crash(rank);
        return;
    }
    SUITE_CHECK(rank,
                kolo_board_open(rank->endpoint, BOARD, everyone, 3, STAGE, KOLO_NEVER,
                                &opening.board) == KOLO_OK,
                "%s", kolo_error_detail());
    suite_meet(rank, 0);
    SUITE_CHECK(rank, suite_until(rank, is_settled, &opening), "hangs");
    SUITE_CHECK(rank, opening.status == KOLO_ERR_LINK && opening.waits_for == 2, "%s, %d",
                kolo_status_name(opening.status), opening.waits_for);
    SUITE_CHECK(rank, rank->heard[2].down == 1, "%d", rank->heard[2].down);
    SUITE_CHECK(rank, strstr(kolo_error_detail(), "rank 2") != NULL, "%s", kolo_error_detail());
    kolo_board_close(opening.board);
    SUITE_CHECK(rank,
                kolo_board_open(rank->endpoint, BOARD, everyone, 3, STAGE, KOLO_NEVER,
                                &opening.board) == KOLO_ERR_LINK,
                "again");
}

Test(board, tells_that_a_member_vanished, .timeout = 60)
{
    for (int i = 0; i < 2; i++) {
        int fds = shm_count_fds(), maps = shm_count_maps();
        struct suite_world *world = suite_open(kinds[i], 3, NULL, NULL);
        suite_run(world, open_with_a_crash);
        suite_close(world);
        cr_assert(shm_count_fds() == fds && shm_count_maps() == maps);
    }
}

/* ---- spans ---- */

/** The notes have the name of each member for the span that it lends. */
struct lent {
    _Atomic uint32_t at;
    struct kolo_board_name name;
};

/** Each rank writes into the memory of the next one, and all see it. */
static void write_to_next(struct suite_rank *rank, struct kolo_board *board, uint8_t *memory,
                          size_t bytes, uint32_t turn)
{
    int self = kolo_board_self(board), count = kolo_board_count(board), next = (self + 1) % count;
    struct lent *mine = kolo_board_notes(board, self);
    const struct lent *theirs = kolo_board_notes(board, next);
    uint8_t *borrowed, before = (uint8_t)((self + count - 1) % count + (int)turn);
    kolo_board_lend(board, memory, bytes, &mine->name);
    SUITE_CHECK(rank, mine->name.span != 0, "turn %u: not lent", turn);
    SUITE_CHECK(rank, step(rank, board, 2 * turn), "turn %u", turn);
    kolo_status status = kolo_board_borrow(board, next, &theirs->name, bytes, &borrowed);
    SUITE_CHECK(rank, status == KOLO_OK, "turn %u: %s %s", turn, kolo_status_name(status),
                kolo_error_detail());
    memset(borrowed, (int)((uint32_t)self + turn), bytes);
    SUITE_CHECK(rank, step(rank, board, 2 * turn + 1), "turn %u", turn);
    SUITE_CHECK(rank, memory[0] == before && memory[bytes - 1] == before, "turn %u: %d and %d",
                turn, memory[0], memory[bytes - 1]);
    kolo_board_settle(board);
}

static void lend_and_borrow(struct suite_rank *rank)
{
    struct kolo_board *board = open_all(rank);
    struct kolo_board_name name, second;
    uint8_t *own;
    void *memory, *other;
    if (!board)
        return;
    SUITE_CHECK(rank, kolo_heap_alloc(rank->heap, BIG, &memory) == KOLO_OK, "alloc");
    SUITE_CHECK(rank, kolo_heap_alloc(rank->heap, 100, &other) == KOLO_OK, "alloc");
    for (uint32_t turn = 1; turn < 20; turn++) {
        write_to_next(rank, board, memory, BIG, 2 * turn);
        write_to_next(rank, board, (uint8_t *)other + turn, 50, 2 * turn + 1);
        if (rank->error[0] != '\0')
            return;
    }
    kolo_board_lend(board, memory, BIG, &name);
    kolo_board_lend(board, (uint8_t *)memory + 4096, 1000, &second);
    SUITE_CHECK(rank, name.span == second.span && second.offset == name.offset + 4096, "names");
    SUITE_CHECK(rank,
                kolo_board_borrow(board, kolo_board_self(board), &second, 1000, &own) == KOLO_OK &&
                    own == (uint8_t *)memory + 4096,
                "own memory");
    kolo_board_lend(board, &own, sizeof own, &name);
    SUITE_CHECK(rank, (name.span == 0) == (strcmp(rank->world->transport, "shm") == 0), "%llu",
                (unsigned long long)name.span);
    suite_meet(rank, 0);
    kolo_board_close(board);
}

Test(board, members_write_into_what_others_lend, .timeout = 60)
{
    for (int i = 0; i < 2; i++) {
        int fds = shm_count_fds(), maps = shm_count_maps();
        struct suite_world *world = suite_open(kinds[i], 4, NULL, NULL);
        suite_run(world, lend_and_borrow);
        suite_close(world);
        cr_assert(shm_count_fds() == fds && shm_count_maps() == maps);
    }
}

static void gone(void *context, uint64_t id)
{
    kolo_endpoint_span_gone(context, id);
}

static void lend_many(struct suite_rank *rank)
{
    struct kolo_board *board = open_all(rank);
    static void *memory[2][SPANS];
    if (!board)
        return;
    for (int i = 0; i < SPANS; i++)
        SUITE_CHECK(rank, kolo_heap_alloc(rank->heap, 4096, &memory[rank->rank][i]) == KOLO_OK,
                    "alloc");
    for (uint32_t i = 0; i < SPANS; i++) { // more than a link has room for
        write_to_next(rank, board, memory[rank->rank][i], 4096, i + 1);
        if (rank->error[0] != '\0')
            return;
    }
    suite_meet(rank, 0);
    for (int i = 0; i < SPANS; i++)
        SUITE_CHECK(rank,
                    kolo_heap_free(rank->heap, memory[rank->rank][i], gone, rank->endpoint) ==
                        KOLO_OK,
                    "free");
    suite_meet(rank, 1);
    SUITE_CHECK(rank, kolo_heap_alloc(rank->heap, 4096, &memory[rank->rank][0]) == KOLO_OK,
                "alloc");
    write_to_next(rank, board, memory[rank->rank][0], 4096, SPANS + 1);
    suite_meet(rank, 2);
}

Test(board, spans_come_and_go, .timeout = 60)
{
    struct suite_world *world = suite_open("shm", 2, NULL, NULL);
    int fds = shm_count_fds(), maps = shm_count_maps();
    suite_run(world, lend_many);
    // the link: its memory and a bell for each side; two segments, seen by two ranks; one span lent
    // in each direction
    cr_assert(shm_count_maps() - maps == 4 + 4 + 4, "%d mappings", shm_count_maps() - maps);
    suite_close(world);
    cr_assert(shm_count_fds() < fds);
}
