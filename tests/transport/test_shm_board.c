// SPDX-License-Identifier: Apache-2.0
// What only boards over shm have: messages of a hostile peer, segments that arrive before their
// board, and spans of another process.
#include "tests/support/shm_side.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/board_private.h"

enum { BOARD = 3, STAGE = 8192, SEGMENT = KOLO_BOARD_NOTES_BYTES + STAGE };

static const int both[2] = {0, 1};

static struct kolo_board *begin(struct shm_side *side, uint32_t id)
{
    struct kolo_board *board = NULL;
    cr_assert(kolo_board_open(side->endpoint, id, both, 2, STAGE, kolo_deadline_in_ms(20000),
                              &board) == KOLO_OK,
              "%s", kolo_error_detail());
    return board;
}

/** Drives both sides until the boards have opened or failed; @p boards[1] may be NULL. */
static void drive_ready(struct shm_side sides[2], struct kolo_board *const boards[2])
{
    kolo_deadline deadline = kolo_deadline_in_ms(50000);
    for (int ready = 0; ready < 2;) {
        cr_assert(!kolo_deadline_passed(deadline), "%s", kolo_error_detail());
        shm_drive_rounds(sides, 2, 1);
        ready = 0;
        for (int i = 0; i < 2; i++)
            ready += !boards[i] || kolo_board_ready(boards[i], NULL) == KOLO_OK;
    }
}

Test(shm_board, segments_wait_for_their_board, .timeout = 60)
{
    static struct shm_side sides[2];
    shm_pair_up(sides, true);
    int fds = shm_count_fds(), maps = shm_count_maps();
    struct kolo_board *boards[2];
    boards[0] = begin(&sides[0], BOARD);
    strcpy(kolo_board_notes(boards[0], 0), "first");
    shm_drive_rounds(sides, 2, 3);
    kolo_board_close(boards[0]); // before the other side has seen it
    shm_drive_rounds(sides, 2, 3);
    cr_assert(shm_count_fds() == fds && shm_count_maps() == maps);
    boards[0] = begin(&sides[0], BOARD);
    strcpy(kolo_board_notes(boards[0], 0), "second");
    shm_drive_rounds(sides, 2, 3);
    boards[1] = begin(&sides[1], BOARD);
    cr_assert(kolo_board_ready(boards[1], NULL) == KOLO_OK, "it was there before");
    drive_ready(sides, boards);
    cr_assert_str_eq((char *)kolo_board_notes(boards[1], 0), "second");
    kolo_board_close(boards[0]);
    shm_drive_rounds(sides, 2, 3);
    // it exists until this side closes it
    cr_assert_str_eq((char *)kolo_board_notes(boards[1], 0), "second");
    boards[0] = begin(&sides[0], BOARD);
    shm_drive_rounds(sides, 2, 3);
    cr_assert(kolo_board_ready(boards[0], NULL) == KOLO_AGAIN, "the other's is the old one");
    kolo_board_close(boards[1]);
    boards[1] = begin(&sides[1], BOARD);
    drive_ready(sides, boards);
    cr_assert_str_eq((char *)kolo_board_notes(boards[1], 0), "");
    kolo_board_close(boards[0]);
    kolo_board_close(boards[1]);
    shm_drive_rounds(sides, 2, 3);
    cr_assert(shm_count_fds() == fds && shm_count_maps() == maps);
    shm_pair_close(sides);
}

Test(shm_board, a_segment_is_read_only_for_others, .timeout = 60)
{
    static struct shm_side sides[2];
    shm_pair_up(sides, true);
    struct kolo_board *boards[2] = {begin(&sides[0], BOARD), begin(&sides[1], BOARD)};
    drive_ready(sides, boards);
    void *theirs = kolo_board_notes(boards[1], 0);
    cr_assert(mprotect(theirs, 4096, PROT_READ | PROT_WRITE) != 0, "could be made writable");
    shm_pair_close(sides); // closes the boards too
}

/* ---- hostile messages ---- */

static int make_segment(size_t bytes, bool is_sealed)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    if (is_sealed)
        cr_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    return fd;
}

/** Side 1 sends @p message as a hostile peer would. Returns whether side 0's link is up
 * afterwards. */
static bool survives(const struct kolo_shm_message *message, bool is_open)
{
    static struct shm_side sides[2];
    memset(sides, 0, sizeof sides);
    shm_pair_up(sides, true);
    int fds = shm_count_fds(), maps = shm_count_maps();
    struct kolo_board *board = is_open ? begin(&sides[0], BOARD) : NULL;
    cr_assert(kolo_shm_message_send(kolo_shm_link_of(sides[1].link)->watch.fd, message) == KOLO_OK);
    shm_drive_rounds(&sides[0], 1, 3);
    bool is_up = sides[0].link->state == KOLO_LINK_UP;
    cr_assert(is_up || sides[0].down_why == KOLO_ERR_PROTOCOL, "%s", sides[0].down_text);
    kolo_board_close(board);
    if (!is_up)
        cr_assert(shm_count_fds() <= fds && shm_count_maps() == maps);
    shm_pair_close(sides);
    return is_up;
}

Test(shm_board, impossible_messages_end_the_link, .timeout = 120)
{
    int before = shm_count_fds(), fd = make_segment(SEGMENT, true);
    int loose = make_segment(SEGMENT, false), tiny = make_segment(1, true);
    const struct {
        struct kolo_shm_message message;
        bool is_fine;
    } cases[] = {
        {{KOLO_SHM_SEGMENT, BOARD, SEGMENT, 0, {fd}, 1}, true},
        {{KOLO_SHM_SEGMENT, BOARD + 1, SEGMENT, 0, {fd}, 1}, true},
        {{KOLO_SHM_SEGMENT, BOARD, SEGMENT, 1, {fd}, 1}, false},
        {{KOLO_SHM_SEGMENT, BOARD, SEGMENT, 0, {fd}, 0}, false},
        {{KOLO_SHM_SEGMENT, BOARD, SEGMENT, 0, {fd, fd}, 2}, false},
        {{KOLO_SHM_SEGMENT, BOARD, SEGMENT, 0, {loose}, 1}, false},
        {{KOLO_SHM_SEGMENT, BOARD, SEGMENT + 1, 0, {fd}, 1}, false},
        {{KOLO_SHM_SEGMENT, BOARD, SEGMENT - 1, 0, {fd}, 1}, false},
        {{KOLO_SHM_SEGMENT, BOARD, 0, 0, {fd}, 1}, false},
        {{KOLO_SHM_SEGMENT, BOARD, 1, 0, {tiny}, 1}, false},
        {{KOLO_SHM_SEGMENT, BOARD, UINT64_MAX, 0, {fd}, 1}, false},
        {{KOLO_SHM_SEGMENT, BOARD, (uint64_t)1 << 62, 0, {fd}, 1}, false},
        {{KOLO_SHM_SEGMENT, (uint64_t)1 << 32 | BOARD, SEGMENT, 0, {fd}, 1}, false},
        {{KOLO_SHM_SEGMENT, BOARD, SEGMENT, 0, {0}, 1}, false},
        {{KOLO_SHM_CLOSED_BOARD, BOARD, 0, 0, {0}, 0}, true},
        {{KOLO_SHM_CLOSED_BOARD, UINT64_MAX, 0, 0, {0}, 0}, false},
        {{KOLO_SHM_CLOSED_BOARD, BOARD, 0, 0, {fd}, 1}, false},
        {{KOLO_SHM_CLOSED_BOARD, BOARD, 0, 9, {0}, 0}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int is_open = 0; is_open < 2; is_open++)
            cr_assert(survives(&cases[i].message, is_open) == cases[i].is_fine, "case %zu, %s", i,
                      is_open ? "open" : "not open");
    close(fd);
    close(loose);
    close(tiny);
    cr_assert(shm_count_fds() == before);
}

Test(shm_board, segments_that_wait_are_bounded, .timeout = 60)
{
    enum { MOST = 17000, LOOK = 1000 };
    static struct shm_side sides[2];
    int maps = shm_count_maps();
    shm_pair_up(sides, true);
    int fd = make_segment(SEGMENT, true);
    struct kolo_shm_message message = {KOLO_SHM_SEGMENT, BOARD, SEGMENT, 0, {fd}, 1};
    int sent = 0, most = 0;
    for (; sides[0].link->state == KOLO_LINK_UP && sent < 2 * MOST; sent++) {
        cr_assert(kolo_shm_message_send(kolo_shm_link_of(sides[1].link)->watch.fd, &message) ==
                  KOLO_OK);
        shm_drive_rounds(&sides[0], 1, 1);
        if (sent % LOOK == 0)
            most = shm_count_maps() - maps > most ? shm_count_maps() - maps : most;
    }
    cr_assert(sides[0].down_why == KOLO_ERR_PROTOCOL && sent < MOST && most < MOST,
              "%d sent, %d mapped: %s", sent, most, sides[0].down_text);
    close(fd);
    shm_pair_close(sides);
    cr_assert(shm_count_maps() == maps);
}

/** Messages with random kinds, numbers and descriptors: the link survives or ends, and nothing is
 * left. */
Test(shm_board, random_messages_leave_nothing_behind, .timeout = 120)
{
    int fds = shm_count_fds(), maps = shm_count_maps();
    int files[] = {make_segment(SEGMENT, true), make_segment(4096, true), make_segment(4096, false),
                   STDERR_FILENO};
    srand(7);
    for (int world = 0; world < 60; world++) {
        static struct shm_side sides[2];
        memset(sides, 0, sizeof sides);
        shm_pair_up(sides, true);
        struct kolo_board *board = begin(&sides[0], BOARD);
        struct kolo_board_name name = {.span = 1};
        uint8_t *memory;
        for (int i = 0; i < 100 && sides[0].link->state == KOLO_LINK_UP; i++) {
            struct kolo_shm_message message = {.kind = KOLO_SHM_SPAN + (uint32_t)rand() % 5,
                                               .id = (uint64_t)(rand() % 3),
                                               .bytes = rand() % 2 ? SEGMENT : 4096,
                                               .fd_count = (size_t)(rand() % 20 < 19)};
            message.fds[0] = files[rand() % 20 < 18 ? message.bytes == 4096 : rand() % 4];
            if (message.kind == KOLO_SHM_SPAN)
                message.span = (uint64_t)(rand() % 3);
            else if (message.kind != KOLO_SHM_SEGMENT && rand() % 20 < 19)
                message.fd_count = 0;
            cr_assert(kolo_shm_message_send(kolo_shm_link_of(sides[1].link)->watch.fd, &message) ==
                      KOLO_OK);
            if (kolo_board_borrow(board, 1, &name, 4096, &memory) == KOLO_OK)
                memory[0] = memory[4095]; // whatever has happened to it since
            if (rand() % 8 == 0)
                kolo_board_settle(board);
            shm_drive_rounds(&sides[0], 1, 1);
        }
        shm_pair_close(sides);
    }
    for (int i = 0; i < 3; i++)
        close(files[i]);
    cr_assert(shm_count_fds() == fds && shm_count_maps() == maps, "%d and %d left",
              shm_count_fds() - fds, shm_count_maps() - maps);
}

/* ---- spans ---- */

Test(shm_board, a_span_that_is_freed_too_early_leaves_its_addresses, .timeout = 60)
{
    static struct shm_side sides[2];
    struct kolo_board_name name;
    uint8_t *borrowed;
    void *memory;
    shm_pair_up(sides, true);
    struct kolo_board *boards[2] = {begin(&sides[0], BOARD), begin(&sides[1], BOARD)};
    struct kolo_board *others[2] = {begin(&sides[0], BOARD + 1), begin(&sides[1], BOARD + 1)};
    drive_ready(sides, boards);
    drive_ready(sides, others);
    int maps = shm_count_maps();
    cr_assert(kolo_heap_alloc(sides[0].heap, 8192, &memory) == KOLO_OK);
    memset(memory, 5, 8192);
    kolo_board_lend(boards[0], memory, 8192, &name);
    cr_assert(kolo_board_borrow(boards[1], 0, &name, 8192, &borrowed) == KOLO_OK);
    cr_assert(borrowed[8191] == 5 && shm_count_maps() == maps + 2);
    struct kolo_span span;
    cr_assert(kolo_heap_find(sides[0].heap, memory, 8192, &span));
    kolo_endpoint_span_gone(sides[0].endpoint, span.id);
    shm_drive_rounds(sides, 2, 3);
    cr_assert(shm_count_maps() == maps + 1, "the pages are kept");
    borrowed[0] = 9;
    cr_assert(borrowed[8191] == 0 && *(uint8_t *)memory == 5);
    cr_assert(kolo_board_borrow(boards[1], 0, &name, 8192, &borrowed) == KOLO_AGAIN);
    cr_assert(kolo_board_borrow(others[1], 0, &name, 8192, &borrowed) == KOLO_AGAIN);
    kolo_board_settle(boards[1]); // the other side may use it
    cr_assert(kolo_shm_link_of(sides[1].link)->borrower.graves != NULL);
    kolo_board_settle(others[1]);
    cr_assert(kolo_shm_link_of(sides[1].link)->borrower.graves == NULL);
    shm_pair_close(sides);
}

static void gone(void *endpoint, uint64_t id)
{
    kolo_endpoint_span_gone(endpoint, id);
}

Test(shm_board, severed_memory_is_out_of_reach, .timeout = 60)
{
    static struct shm_side sides[2];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 4 * page;
    struct kolo_board_name name;
    uint8_t *stale, *borrowed, local = 0;
    void *memory;
    shm_pair_up(sides, true);
    struct kolo_board *boards[2] = {begin(&sides[0], BOARD), begin(&sides[1], BOARD)};
    drive_ready(sides, boards);
    cr_assert(kolo_heap_alloc(sides[0].heap, bytes, &memory) == KOLO_OK);
    uint8_t *mine = memory;
    memset(mine, 5, bytes);
    kolo_board_lend(boards[0], mine, bytes, &name);
    cr_assert(kolo_board_borrow(boards[1], 0, &name, bytes, &stale) == KOLO_OK);
    // the other side is stopped: it does not read its socket, but writes
    cr_assert(kolo_board_sever(boards[0], mine + page, 2 * page) == KOLO_OK, "%s",
              kolo_error_detail());
    memset(stale, 7, bytes);
    cr_assert(mine[0] == 7 && mine[page] == 5 && mine[3 * page - 1] == 5 && mine[3 * page] == 7);
    cr_assert(kolo_board_sever(boards[0], &local, 1) == KOLO_OK);
    // and it is lent again, each part by itself
    for (size_t i = 0; i < 4; i++) {
        uint8_t *part = mine + i * page, value = (uint8_t)(20 + i);
        kolo_board_lend(boards[0], part, page, &name);
        cr_assert(name.span != 0);
        cr_assert(kolo_board_borrow(boards[1], 0, &name, page, &borrowed) == KOLO_OK);
        memset(borrowed, value, page);
        cr_assert(part[0] == value && part[page - 1] == value, "part %zu", i);
    }
    kolo_board_lend(boards[0], mine, bytes, &name);
    cr_assert(name.span == 0, "it lies in three files");
    uint8_t *copy = calloc(2, page);
    shm_transfer(sides, 0, mine + page, copy, 2 * page); // the link lends it too
    kolo_board_settle(boards[1]);
    shm_pair_close(sides);
    free(copy);
}

/** One collective is given up while another has named memory of the same span. Its neighbour, which
 * maps that late, sees the same pages as its owner. The span is unmapped when both are over. */
Test(shm_board, a_cut_leaves_what_others_have_named, .timeout = 60)
{
    static struct shm_side sides[2];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 4 * page;
    struct kolo_board_name cut, kept, fresh;
    uint8_t *stale, *borrowed, *own;
    void *memory;
    shm_pair_up(sides, true);
    struct kolo_board *boards[2] = {begin(&sides[0], BOARD), begin(&sides[1], BOARD)};
    struct kolo_board *others[2] = {begin(&sides[0], BOARD + 1), begin(&sides[1], BOARD + 1)};
    drive_ready(sides, boards);
    drive_ready(sides, others);
    const int maps = shm_count_maps();
    cr_assert(kolo_heap_alloc(sides[0].heap, bytes, &memory) == KOLO_OK);
    uint8_t *mine = memory;
    memset(mine, 5, bytes);
    kolo_board_lend(boards[0], mine, page, &cut);
    kolo_board_lend(others[0], mine + 2 * page, page, &kept);
    cr_assert(kolo_board_borrow(boards[1], 0, &cut, page, &stale) == KOLO_OK);
    cr_assert(kolo_board_sever(boards[0], mine, page) == KOLO_OK);
    kolo_board_settle(boards[0]);
    shm_drive_rounds(sides, 2, 3);
    cr_assert(kolo_board_borrow(others[1], 0, &kept, page, &borrowed) == KOLO_OK);
    cr_assert(kolo_board_borrow(others[0], 0, &kept, page, &own) == KOLO_OK);
    cr_assert(own == mine + 2 * page);
    memset(stale, 7, page);
    memset(borrowed, 9, page);
    cr_assert(mine[0] == 5 && own[0] == 9 && own[page - 1] == 9);
    kolo_board_lend(others[0], mine + 2 * page, page, &fresh);
    cr_assert(fresh.span != 0 && fresh.span != kept.span, "a new name is one of a piece");
    for (int side = 0; side < 2; side++) {
        kolo_board_settle(boards[side]);
        kolo_board_settle(others[side]);
    }
    shm_drive_rounds(sides, 2, 3);
    kolo_board_settle(others[1]);
    cr_assert(kolo_board_borrow(others[1], 0, &kept, page, &borrowed) == KOLO_AGAIN);
    cr_assert(kolo_heap_free(sides[0].heap, memory, gone, sides[0].endpoint) == KOLO_OK);
    shm_drive_rounds(sides, 2, 3);
    kolo_board_settle(others[1]);
    cr_assert_eq(shm_count_maps(), maps);
    shm_pair_close(sides);
}

Test(shm_board, impossible_names_are_refused, .timeout = 60)
{
    static struct shm_side sides[2];
    const size_t bytes = 2 * (size_t)sysconf(_SC_PAGESIZE);
    struct kolo_board_name name;
    uint8_t *borrowed;
    void *memory;
    shm_pair_up(sides, true);
    struct kolo_board *boards[2] = {begin(&sides[0], BOARD), begin(&sides[1], BOARD)};
    drive_ready(sides, boards);
    cr_assert(kolo_heap_alloc(sides[0].heap, bytes, &memory) == KOLO_OK);
    kolo_board_lend(boards[0], memory, bytes, &name);
    const struct {
        struct kolo_board_name name;
        size_t bytes;
        kolo_status status;
    } cases[] = {
        {{name.span, 0}, bytes + 1, KOLO_ERR_PROTOCOL},
        {{name.span, bytes + 1}, 0, KOLO_ERR_PROTOCOL},
        {{name.span, UINT64_MAX}, 2, KOLO_ERR_PROTOCOL},
        {{name.span, 2}, SIZE_MAX, KOLO_ERR_PROTOCOL},
        {{name.span, bytes}, 0, KOLO_OK},
        {{name.span + 1, 0}, 1, KOLO_AGAIN},
        {{0, 0}, 1, KOLO_AGAIN},
        {{UINT64_MAX, 0}, 1, KOLO_AGAIN},
        {{name.span, 0}, bytes, KOLO_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kolo_status status =
            kolo_board_borrow(boards[1], 0, &cases[i].name, cases[i].bytes, &borrowed);
        cr_assert(status == cases[i].status, "case %zu: %d", i, (int)status);
    }
    cr_assert(kolo_board_borrow(boards[0], 0, &name, bytes + 1, &borrowed) == KOLO_ERR_PROTOCOL);
    shm_pair_close(sides);
}

/* ---- processes ---- */

struct child_note {
    _Atomic uint32_t turn;
    struct kolo_board_name name;
};

static void wait_for_turn(struct shm_side *side, struct kolo_board *board, int member,
                          uint32_t turn)
{
    const struct child_note *note = kolo_board_notes(board, member);
    while (atomic_load(&note->turn) < turn && side->downs == 0) {
        bool moved;
        kolo_endpoint_arm(side->endpoint);
        kolo_status status = kolo_endpoint_progress(side->endpoint, &moved);
        if (status == KOLO_OK && !moved && atomic_load(&note->turn) < turn)
            kolo_endpoint_sleep(side->endpoint, kolo_deadline_in_ms(20000));
        kolo_endpoint_disarm(side->endpoint);
    }
}

static void put_turn(struct kolo_board *board, uint32_t turn)
{
    struct child_note *note = kolo_board_notes(board, kolo_board_self(board));
    atomic_store(&note->turn, turn);
    kolo_board_ring(board);
}

static struct kolo_board *open_alone(struct shm_side *side)
{
    struct kolo_board *board = NULL;
    if (kolo_board_open(side->endpoint, BOARD, both, 2, STAGE, kolo_deadline_in_ms(20000),
                        &board) != KOLO_OK)
        return NULL;
    while (kolo_board_ready(board, NULL) == KOLO_AGAIN)
        shm_drive_rounds(side, 1, 1);
    return kolo_board_ready(board, NULL) == KOLO_OK ? board : NULL;
}

/** Rank 1 lends memory that rank 0 writes into, reports what it found there, and stays until it is
 * killed. */
static void live_as_child(struct shm_side *side)
{
    struct kolo_board *board = open_alone(side);
    void *memory;
    if (!board || kolo_heap_alloc(side->heap, 1 << 20, &memory) != KOLO_OK)
        _exit(3);
    struct child_note *note = kolo_board_notes(board, 1);
    kolo_board_lend(board, memory, 1 << 20, &note->name);
    for (uint32_t turn = 1;; turn++) {
        put_turn(board, 2 * turn - 1);
        wait_for_turn(side, board, 0, turn);
        *kolo_board_stage(board, 1) = ((uint8_t *)memory)[(1 << 20) - 1];
        put_turn(board, 2 * turn);
    }
}

Test(shm_board, a_child_has_no_address_for_what_its_parent_has_there, .timeout = 60)
{
    static struct shm_side sides[2];
    int ended = 0;
    shm_pair_up(sides, true);
    struct kolo_board *board = begin(&sides[0], BOARD);
    cr_assert(kolo_board_address(board, &ended) == (uint64_t)(uintptr_t)&ended);
    pid_t pid = fork();
    if (pid == 0)
        _exit(kolo_board_address(board, &ended) == 0 ? 0 : 1);
    cr_assert(pid > 0 && waitpid(pid, &ended, 0) == pid);
    cr_assert(WIFEXITED(ended) && WEXITSTATUS(ended) == 0, "what its parent has would be read");
    shm_pair_close(sides);
}

static pid_t fork_child(int socket)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    static struct shm_side side;
    struct kolo_peer other;
    shm_side_init(&side, 1);
    if (shm_side_open(&side) &&
        write(socket, &side.peers[1], sizeof other) == (ssize_t)sizeof other &&
        read(socket, &other, sizeof other) == (ssize_t)sizeof other && shm_side_meet(&side, &other))
        live_as_child(&side);
    _exit(9);
}

Test(shm_board, processes_share_and_a_killed_one_is_noticed, .timeout = 60)
{
    static struct shm_side side;
    struct kolo_peer other;
    uint8_t *borrowed;
    int pair[2], fds = shm_count_fds(), maps = shm_count_maps(), ended;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork_child(pair[1]);
    shm_side_init(&side, 0);
    cr_assert(shm_side_open(&side), "%s", kolo_error_detail());
    cr_assert(read(pair[0], &other, sizeof other) == (ssize_t)sizeof other);
    cr_assert(write(pair[0], &side.peers[0], sizeof other) == (ssize_t)sizeof other);
    cr_assert(shm_side_meet(&side, &other), "%s", kolo_error_detail());
    struct kolo_board *board = open_alone(&side);
    cr_assert_not_null(board, "%s", kolo_error_detail());
    side.link = board->members[1].link;
    struct child_note *theirs = kolo_board_notes(board, 1);
    for (uint32_t turn = 1; turn <= 200; turn++) {
        wait_for_turn(&side, board, 1, 2 * turn - 1);
        cr_assert(kolo_board_borrow(board, 1, &theirs->name, 1 << 20, &borrowed) == KOLO_OK);
        borrowed[(1 << 20) - 1] = (uint8_t)turn;
        put_turn(board, turn);
        wait_for_turn(&side, board, 1, 2 * turn);
        cr_assert(*kolo_board_stage(board, 1) == (uint8_t)turn, "turn %u", turn);
    }
    cr_assert(kill(pid, SIGKILL) == 0 && waitpid(pid, &ended, 0) == pid);
    wait_for_turn(&side, board, 1, UINT32_MAX);
    cr_assert(side.downs == 1 && side.down_why == KOLO_ERR_LINK, "%s", side.down_text);
    cr_assert(kolo_board_ready(board, NULL) == KOLO_ERR_LINK);
    borrowed[0] = 1; // a mapping outlives its owner
    kolo_board_ring(board);
    kolo_board_close(board);
    shm_side_close(&side);
    close(pair[0]);
    close(pair[1]);
    cr_assert(shm_count_fds() == fds && shm_count_maps() == maps, "%d and %d left",
              shm_count_fds() - fds, shm_count_maps() - maps);
}
