// SPDX-License-Identifier: Apache-2.0
// transport/shm_link.c: peers that are killed, silent or dishonest while a link is set up or used.
#include "tests/support/shm_side.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/** Runs rank 1 in a child: it comes up, and then calls @p act. Its exit status says whether it got
 * that far. */
static pid_t fork_rank(int socket, void (*act)(struct shm_side *side))
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    static struct shm_side side;
    struct kolo_peer other;
    shm_side_init(&side, 1);
    if (!shm_side_open(&side) ||
        write(socket, &side.peers[1], sizeof side.peers[1]) != (ssize_t)sizeof side.peers[1] ||
        read(socket, &other, sizeof other) != (ssize_t)sizeof other ||
        !shm_side_meet(&side, &other) || !shm_drive_up(&side, 1))
        _exit(9);
    act(&side);
    _exit(7);
}

/** Runs rank 0 in this process, connected to the child. */
static void meet_child(struct shm_side *side, int socket)
{
    struct kolo_peer other;
    shm_side_init(side, 0);
    cr_assert(shm_side_open(side), "%s", kolo_error_detail());
    cr_assert(read(socket, &other, sizeof other) == (ssize_t)sizeof other);
    cr_assert(write(socket, &side->peers[0], sizeof other) == (ssize_t)sizeof other);
    cr_assert(shm_side_meet(side, &other), "%s", kolo_error_detail());
    cr_assert(shm_drive_up(side, 1));
}

static void send_forever(struct shm_side *side)
{
    static uint8_t data[MIB];
    for (;;) {
        struct kolo_work work;
        shm_send(side, 3, data, sizeof data, &work);
        if (!shm_drive(side, 1, &work.status) || work.status != KOLO_OK)
            return;
    }
}

static void lend_forever(struct shm_side *side)
{
    void *lent;
    if (kolo_heap_alloc(side->heap, MIB, &lent) != KOLO_OK)
        return;
    for (;;) {
        struct kolo_work work;
        shm_send(side, 3, lent, MIB, &work);
        if (!shm_drive(side, 1, &work.status) || work.status != KOLO_OK)
            return;
    }
}

/** Kills a child that sends, and sleeps as the runtime does until the link is down. */
static void kill_in_mid_transfer(void (*act)(struct shm_side *side))
{
    int pair[2], exit_status, fds = shm_count_fds(), maps = shm_count_maps();
    static struct shm_side side;
    static uint8_t data[MIB];
    struct kolo_work work;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork_rank(pair[1], act);
    meet_child(&side, pair[0]);
    for (int i = 0; i < 20; i++) {
        shm_recv(&side, 3, data, sizeof data, &work);
        cr_assert(shm_drive(&side, 1, &work.status) && work.status == KOLO_OK, "%d: %s",
                  (int)work.status, side.down_text);
    }
    cr_assert(kill(pid, SIGKILL) == 0);
    cr_assert(waitpid(pid, &exit_status, 0) == pid && WIFSIGNALED(exit_status));
    int64_t start = kolo_now_ns();
    while (side.downs == 0 && kolo_now_ns() - start < 20000000000) {
        bool moved;
        shm_recv(&side, 3, data, sizeof data, &work);
        while (work.status == KOLO_AGAIN) {
            kolo_endpoint_arm(side.endpoint);
            cr_assert(kolo_endpoint_progress(side.endpoint, &moved) == KOLO_OK);
            if (!moved)
                kolo_endpoint_sleep(side.endpoint, kolo_deadline_in_ms(5000));
            kolo_endpoint_disarm(side.endpoint);
        }
    }
    cr_assert(side.downs == 1 && side.down_why == KOLO_ERR_LINK);
    cr_assert(kolo_now_ns() - start < 10000000000, "took %lld ms",
              (long long)(kolo_now_ns() - start) / 1000000);
    char expected[128];
    snprintf(expected, sizeof expected, "pid %d: process ended", (int)pid);
    cr_assert(strstr(side.down_text, expected) != NULL, "%s", side.down_text);
    shm_side_close(&side);
    close(pair[0]);
    close(pair[1]);
    cr_assert(shm_count_fds() == fds && shm_count_maps() == maps,
              "%d descriptors, %d mappings left", shm_count_fds() - fds, shm_count_maps() - maps);
}

Test(shm_link, a_peer_killed_while_it_sends_is_noticed, .timeout = 60)
{
    kill_in_mid_transfer(send_forever);
}

Test(shm_link, a_peer_killed_while_it_lends_is_noticed, .timeout = 60)
{
    kill_in_mid_transfer(lend_forever);
}

static void run_another_program(struct shm_side *side)
{
    (void)side;
    (void)execlp("sleep", "sleep", "600", NULL);
}

/** Nothing but the socket of such a peer has ended. */
Test(shm_link, a_peer_that_executes_another_program_has_not_ended, .timeout = 60)
{
    int pair[2];
    static struct shm_side side;
    uint8_t data[1000];
    struct kolo_work work;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork_rank(pair[1], run_another_program);
    meet_child(&side, pair[0]);
    shm_recv(&side, 3, data, sizeof data, &work);
    cr_assert(shm_drive(&side, 1, &work.status) && work.status == KOLO_ERR_LINK);
    cr_assert(strstr(side.down_text, "its process has closed the connection and runs on as /") &&
                  strstr(side.down_text, "sleep"),
              "%s", side.down_text);
    cr_assert(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    shm_side_close(&side);
    close(pair[0]);
    close(pair[1]);
}

static void send_and_die(struct shm_side *side)
{
    static uint8_t data[1000];
    struct kolo_work work;
    memset(data, 9, sizeof data);
    for (int i = 0; i < 10; i++)
        shm_send(side, 3, data, sizeof data, &work);
    raise(SIGKILL);
}

Test(shm_link, what_a_killed_peer_had_published_still_arrives, .timeout = 60)
{
    int pair[2], exit_status;
    static struct shm_side side;
    uint8_t data[1000];
    struct kolo_work work;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork_rank(pair[1], send_and_die);
    meet_child(&side, pair[0]);
    cr_assert(waitpid(pid, &exit_status, 0) == pid && WIFSIGNALED(exit_status));
    for (int i = 0; i < 10; i++) {
        memset(data, 0, sizeof data);
        shm_recv(&side, 3, data, sizeof data, &work);
        cr_assert(shm_drive(&side, 1, &work.status) && work.status == KOLO_OK, "message %d: %d", i,
                  (int)work.status);
        cr_assert(data[0] == 9 && data[999] == 9);
    }
    shm_recv(&side, 3, data, sizeof data, &work);
    cr_assert(shm_drive(&side, 1, &work.status) && work.status == KOLO_ERR_LINK);
    shm_side_close(&side);
    close(pair[0]);
    close(pair[1]);
}

/* ---- too many descriptors that nobody has taken yet ---- */

enum { OPEN_FILES = 100, JAM_MAX = 150 };

static void limit_files(rlim_t count)
{
    struct rlimit files;
    cr_assert(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = count;
    cr_assert(setrlimit(RLIMIT_NOFILE, &files) == 0);
}

/** Becomes a user whom the kernel counts them for; root may pass any number. No other test's: those
 * that run meanwhile would be counted too. */
static void become_ordinary(void)
{
    const uid_t user = 20000 + (uid_t)getpid() % 40000;
    if (geteuid() == 0)
        cr_assert(setresgid(65534, 65534, 65534) == 0 && setresuid(user, user, user) == 0);
    limit_files(OPEN_FILES);
}

/** Passes descriptors to @p pair until no more may be passed. */
static void jam(const int pair[2])
{
    const int fd = eventfd(0, EFD_CLOEXEC);
    const struct kolo_shm_message message = {.kind = 1, .fds = {fd, fd, fd}, .fd_count = 3};
    kolo_status status;
    int sent = 0;
    cr_assert(fd >= 0);
    while ((status = kolo_shm_message_send(pair[0], &message)) == KOLO_OK && sent < JAM_MAX)
        sent++;
    cr_assert(status == KOLO_AGAIN, "%d after %d messages: %s", (int)status, sent,
              kolo_error_detail());
    close(fd);
}

/** Takes them all. */
static void clear(const int pair[2])
{
    struct kolo_shm_inbox inbox = {0};
    struct kolo_shm_message message;
    while (kolo_shm_inbox_read(&inbox, pair[1], &message) == KOLO_OK)
        kolo_shm_message_drop(&message);
}

/** Drives both sides until the link of side @p which is in @p state, with or without a message that
 * waits. */
static void await_state(struct shm_side sides[2], int which, enum kolo_shm_state state, bool waits)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(50000);
    const struct kolo_shm_link *link = kolo_shm_link_of(sides[which].link);
    while (link->state != state || (link->first.kind != 0) != waits) {
        cr_assert(!kolo_deadline_passed(deadline), "side %d stays in state %d, message %u", which,
                  (int)link->state, link->first.kind);
        shm_drive_rounds(sides, 2, 1);
    }
}

/** Side 0 has dialled, and side 1's offer could not be sent. */
static void open_jammed(struct shm_side sides[2], const int pair[2], kolo_deadline deadline)
{
    for (int rank = 0; rank < 2; rank++) {
        shm_side_init(&sides[rank], rank);
        cr_assert(shm_side_open(&sides[rank]), "%s", kolo_error_detail());
    }
    for (int rank = 0; rank < 2; rank++)
        cr_assert(shm_side_meet(&sides[rank], &sides[1 - rank].peers[1 - rank]));
    cr_assert(kolo_endpoint_link(sides[0].endpoint, 1, deadline, &sides[0].link) == KOLO_OK);
    jam(pair);
    await_state(sides, 0, KOLO_SHM_AWAIT_OFFER, false);
    shm_drive_rounds(sides, 2, 50);
    cr_assert(kolo_endpoint_link(sides[1].endpoint, 0, KOLO_NEVER, &sides[1].link) == KOLO_OK);
    await_state(sides, 1, KOLO_SHM_AWAIT_ANSWER, true);
}

/** Lets side 1 send its offer, but not side 0 its answer. */
static void let_offer_pass(struct shm_side sides[2], const int pair[2])
{
    clear(pair);
    const kolo_deadline deadline = kolo_deadline_in_ms(50000);
    while (kolo_shm_link_of(sides[1].link)->first.kind != 0) {
        cr_assert(!kolo_deadline_passed(deadline));
        shm_drive_rounds(&sides[1], 1, 1);
    }
    jam(pair);
    limit_files(OPEN_FILES - 10); /* side 0 takes the descriptors of the offer before it answers */
    await_state(sides, 0, KOLO_SHM_ANSWERING, true);
}

Test(shm_link, descriptors_that_may_not_be_passed_yet_are_passed_later, .timeout = 120)
{
    static struct shm_side sides[2];
    static uint8_t src[1000], dst[1000];
    int pair[2];
    become_ordinary();
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    open_jammed(sides, pair, KOLO_NEVER);
    let_offer_pass(sides, pair);
    clear(pair);
    cr_assert(shm_drive_up(sides, 2));
    cr_assert(sides[0].downs == 0 && sides[1].downs == 0, "%s%s", sides[0].down_text,
              sides[1].down_text);
    shm_transfer(sides, 0, src, dst, sizeof src);
    shm_transfer(sides, 1, src, dst, sizeof src);
    shm_pair_close(sides);
    close(pair[0]);
    close(pair[1]);
}

Test(shm_link, descriptors_that_may_not_be_passed_in_time_are_the_reason, .timeout = 120)
{
    static struct shm_side sides[2];
    int pair[2];
    become_ordinary();
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    open_jammed(sides, pair, kolo_deadline_in_ms(3000));
    let_offer_pass(sides, pair);
    const kolo_deadline deadline = kolo_deadline_in_ms(50000);
    while (sides[0].downs == 0 && !kolo_deadline_passed(deadline))
        shm_drive_rounds(sides, 2, 1);
    cr_assert(sides[0].down_why == KOLO_ERR_TIMEOUT &&
                  strstr(sides[0].down_text, "raise the limit of open files (ulimit -n)"),
              "%d %s", (int)sides[0].down_why, sides[0].down_text);
    clear(pair);
    shm_pair_close(sides);
    close(pair[0]);
    close(pair[1]);
}

/* ---- a peer that knows the secret and misbehaves ---- */

/** The other end of a link's socket: a poller and a conn of its own. */
struct raw {
    struct kolo_poller *poller;
    struct kolo_conn *conn;
    struct kolo_listener *listener;
    int fd;
};

static void raw_done(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct raw *raw = context;
    (void)theirs;
    raw->fd = status == KOLO_OK ? fd : -2;
}

static int shm_index(void)
{
    int index = 0;
    while (strcmp(kolo_transports[index]->name, "shm") != 0)
        index++;
    return index;
}

static void place_of_name(struct kolo_place *place, const void *name, size_t bytes)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    memcpy(addr.sun_path + 1, name, bytes);
    *place = (struct kolo_place){
        .bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes)};
    memcpy(&place->addr, &addr, sizeof addr);
}

static void raw_drive(struct raw *raw, struct shm_side *side)
{
    kolo_deadline deadline = kolo_deadline_in_ms(50000);
    while (raw->fd == -1 && !kolo_deadline_passed(deadline)) {
        shm_drive_rounds(side, 1, 1);
        cr_assert(kolo_poller_dispatch(raw->poller, NULL) == KOLO_OK);
        kolo_conn_expire(raw->poller);
    }
    cr_assert(raw->fd >= 0, "no connection");
}

/** Rank 1 is raw and has dialled @p side, which is rank 0 and must answer with an offer. */
static void raw_dial(struct raw *raw, struct shm_side *side)
{
    const struct kolo_greeting mine = {KOLO_PROTOCOL_VERSION, KOLO_PURPOSE_SHM, 1, 0, 0};
    const struct kolo_address *address = &side->peers[0].addresses[shm_index()];
    struct kolo_place place;
    struct kolo_peer other = side->peers[0];
    other.identity.rank = 1;
    cr_assert(shm_side_meet(side, &other), "%s", kolo_error_detail());
    place_of_name(&place, address->data, address->bytes);
    raw->fd = -1;
    cr_assert(kolo_poller_create(&raw->poller) == KOLO_OK);
    cr_assert(kolo_conn_dial(raw->poller,
                             &(struct kolo_dial_config){.places = &place,
                                                        .count = 1,
                                                        .secret = &side->secret,
                                                        .mine = &mine,
                                                        .deadline = kolo_deadline_in_ms(50000),
                                                        .done = raw_done,
                                                        .context = raw},
                             &raw->conn) == KOLO_OK);
    raw_drive(raw, side);
}

/** Rank 0 is raw and listens; @p side, which is rank 1, has dialled it and awaits an offer. */
static void raw_listen(struct raw *raw, struct shm_side *side)
{
    const struct kolo_greeting mine = {KOLO_PROTOCOL_VERSION, KOLO_PURPOSE_SHM, 0, -1, 0};
    struct kolo_place place;
    struct kolo_peer other = side->peers[1];
    struct kolo_address *address = &other.addresses[shm_index()];
    char name[64];
    snprintf(name, sizeof name, "kolo-test-%d", (int)getpid());
    other.identity.rank = 0;
    address->bytes = (uint16_t)strlen(name);
    memcpy(address->data, name, strlen(name));
    place_of_name(&place, name, strlen(name));
    raw->fd = -1;
    cr_assert(kolo_poller_create(&raw->poller) == KOLO_OK);
    cr_assert(kolo_listener_open(raw->poller,
                                 &(struct kolo_listener_config){.place = &place,
                                                                .handshake_ms = 5000,
                                                                .secret = &side->secret,
                                                                .mine = &mine,
                                                                .accepted = raw_done,
                                                                .context = raw},
                                 &raw->listener) == KOLO_OK);
    cr_assert(shm_side_meet(side, &other), "%s", kolo_error_detail());
    cr_assert(kolo_endpoint_link(side->endpoint, 0, kolo_deadline_in_ms(3000), &side->link) ==
              KOLO_OK);
    raw_drive(raw, side);
}

static void raw_fini(struct raw *raw)
{
    kolo_listener_close(raw->listener);
    if (raw->fd >= 0)
        close(raw->fd);
    kolo_poller_destroy(raw->poller);
}

static void await_down(struct shm_side *side, const char *what, kolo_status why, const char *text)
{
    kolo_deadline deadline = kolo_deadline_in_ms(50000);
    while (side->downs == 0 && !kolo_deadline_passed(deadline))
        shm_drive_rounds(side, 1, 1);
    cr_assert(side->downs == 1, "%s: the link is not down", what);
    cr_assert(side->down_why == why && strstr(side->down_text, text), "%s: %d %s", what,
              (int)side->down_why, side->down_text);
}

/** Descriptors that a hostile message may carry. */
enum fd_kind {
    FD_PAGE,
    FD_EVENT,
    FD_BLOCKING_EVENT,
    FD_PIPE,
    FD_BROKEN_PIPE, /* a write to it raises SIGPIPE */
    FD_UNSEALED,
    FD_SMALL_RING
};

static int make_fd(enum fd_kind kind)
{
    int fd = -1, pipes[2];
    void *base;
    size_t bytes = kind == FD_PAGE ? KOLO_SHM_BELL_BYTES : 12345;
    switch (kind) {
    case FD_PAGE:
    case FD_SMALL_RING:
        cr_assert(kolo_shm_memory_create("kolo-test", bytes, &fd, &base) == KOLO_OK);
        kolo_shm_memory_unmap(base, bytes);
        return fd;
    case FD_EVENT:
        return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    case FD_BLOCKING_EVENT:
        return eventfd(0, EFD_CLOEXEC);
    case FD_UNSEALED:
        fd = memfd_create("kolo-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        cr_assert(ftruncate(fd, KOLO_SHM_BELL_BYTES) == 0);
        return fd;
    case FD_PIPE:
        cr_assert(pipe(pipes) == 0);
        close(pipes[1]);
        return pipes[0];
    case FD_BROKEN_PIPE:
        cr_assert(pipe2(pipes, O_CLOEXEC | O_NONBLOCK) == 0);
        close(pipes[0]);
        return pipes[1];
    }
    return fd;
}

struct hostile {
    const char *what;
    uint32_t kind;
    uint64_t bytes;
    size_t fd_count;
    enum fd_kind fds[3];
    const char *text;
};

static void raw_say(struct raw *raw, const struct hostile *hostile)
{
    struct kolo_shm_message message = {
        .kind = hostile->kind, .bytes = hostile->bytes, .fd_count = hostile->fd_count};
    for (size_t i = 0; i < hostile->fd_count; i++)
        message.fds[i] = make_fd(hostile->fds[i]);
    cr_assert(kolo_shm_message_send(raw->fd, &message) == KOLO_OK);
    kolo_shm_message_drop(&message);
}

static void check_hostile(const struct hostile *cases, size_t count, int rank,
                          void (*meet)(struct raw *raw, struct shm_side *side))
{
    for (size_t i = 0; i < count; i++) {
        int fds = shm_count_fds(), maps = shm_count_maps();
        static struct shm_side side;
        struct raw raw = {0};
        shm_side_init(&side, rank);
        cr_assert(shm_side_open(&side));
        meet(&raw, &side);
        raw_say(&raw, &cases[i]);
        await_down(&side, cases[i].what, KOLO_ERR_PROTOCOL, cases[i].text);
        shm_side_close(&side);
        raw_fini(&raw);
        cr_assert(shm_count_fds() == fds && shm_count_maps() == maps,
                  "%s: %d descriptors, %d mappings left", cases[i].what, shm_count_fds() - fds,
                  shm_count_maps() - maps);
    }
}

Test(shm_link, impossible_answers_are_protocol_errors, .timeout = 60)
{
    const struct hostile cases[] = {
        {"no descriptors", KOLO_SHM_ANSWER, 0, 0, {0}, "0 descriptors where 2"},
        {"one descriptor", KOLO_SHM_ANSWER, 0, 1, {FD_PAGE}, "1 descriptors where 2"},
        {"swapped", KOLO_SHM_ANSWER, 0, 2, {FD_EVENT, FD_PAGE}, "block us"},
        {"blocking eventfd", KOLO_SHM_ANSWER, 0, 2, {FD_PAGE, FD_BLOCKING_EVENT}, "block us"},
        {"a pipe as eventfd", KOLO_SHM_ANSWER, 0, 2, {FD_PAGE, FD_BROKEN_PIPE}, "no eventfd"},
        {"a pipe as page", KOLO_SHM_ANSWER, 0, 2, {FD_PIPE, FD_EVENT}, "no memfd"},
        {"unsealed page", KOLO_SHM_ANSWER, 0, 2, {FD_UNSEALED, FD_EVENT}, "not sealed"},
        {"long page", KOLO_SHM_ANSWER, 0, 2, {FD_SMALL_RING, FD_EVENT}, "12345 bytes"},
        {"an offer", KOLO_SHM_OFFER, 8192, 3, {FD_PAGE, FD_PAGE, FD_EVENT}, "unexpected message"},
        {"a span too early", KOLO_SHM_SPAN, 4096, 1, {FD_PAGE}, "unexpected message"},
        {"no such kind", 77, 0, 0, {0}, "unexpected message of kind 77"},
    };
    check_hostile(cases, sizeof cases / sizeof cases[0], 0, raw_dial);
}

Test(shm_link, impossible_offers_are_protocol_errors, .timeout = 60)
{
    const struct hostile cases[] = {
        {"no descriptors", KOLO_SHM_OFFER, 8192, 0, {0}, "0 descriptors where 3"},
        {"no ring", KOLO_SHM_OFFER, 0, 3, {FD_SMALL_RING, FD_PAGE, FD_EVENT}, "a ring of 0"},
        {"odd ring", KOLO_SHM_OFFER, 12345, 3, {FD_SMALL_RING, FD_PAGE, FD_EVENT}, "a ring of"},
        {"huge ring", KOLO_SHM_OFFER, UINT64_MAX, 3, {FD_PAGE, FD_PAGE, FD_EVENT}, "a ring of"},
        {"large ring", KOLO_SHM_OFFER, 1u << 30, 3, {FD_PAGE, FD_PAGE, FD_EVENT}, "a ring of"},
        {"short", KOLO_SHM_OFFER, 8192, 3, {FD_SMALL_RING, FD_PAGE, FD_EVENT}, "12345 bytes where"},
        {"pipe", KOLO_SHM_OFFER, 8192, 3, {FD_PIPE, FD_PAGE, FD_EVENT}, "no memfd"},
        {"an answer", KOLO_SHM_ANSWER, 0, 2, {FD_PAGE, FD_EVENT}, "unexpected message"},
    };
    check_hostile(cases, sizeof cases / sizeof cases[0], 1, raw_listen);
}

Test(shm_link, a_peer_that_says_nothing_ends_at_the_deadline, .timeout = 60)
{
    static struct shm_side side;
    struct raw raw = {0};
    shm_side_init(&side, 0);
    side.settings.start_timeout_ms = 300;
    cr_assert(shm_side_open(&side));
    raw_dial(&raw, &side);
    await_down(&side, "acceptor", KOLO_ERR_TIMEOUT, "before the deadline");
    shm_side_close(&side);
    raw_fini(&raw);

    shm_side_init(&side, 1);
    raw = (struct raw){0};
    cr_assert(shm_side_open(&side));
    raw_listen(&raw, &side);
    await_down(&side, "dialler", KOLO_ERR_TIMEOUT, "before the deadline");
    shm_side_close(&side);
    raw_fini(&raw);
}

Test(shm_link, a_dialler_that_is_hung_up_on_awaits_the_other_dial_until_the_deadline, .timeout = 60)
{
    static struct shm_side side;
    struct raw raw = {0};
    shm_side_init(&side, 1);
    cr_assert(shm_side_open(&side));
    raw_listen(&raw, &side);
    close(raw.fd);
    raw.fd = -1;
    shm_drive_rounds(&side, 1, 10);
    cr_assert(side.downs == 0 && kolo_shm_link_of(side.link)->state == KOLO_SHM_AWAIT_ADOPT);
    await_down(&side, "dialler", KOLO_ERR_TIMEOUT, "before the deadline");
    shm_side_close(&side);
    raw_fini(&raw);
}

Test(shm_link, random_bytes_after_the_proof_end_the_link_only, .timeout = 60)
{
    for (unsigned seed = 1; seed <= 20; seed++) {
        static struct shm_side side;
        struct raw raw = {0};
        uint8_t bytes[256];
        unsigned state = seed;
        shm_side_init(&side, 0);
        cr_assert(shm_side_open(&side));
        raw_dial(&raw, &side);
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)rand_r(&state);
        cr_assert(write(raw.fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
        await_down(&side, "random bytes", KOLO_ERR_PROTOCOL, "begins with");
        shm_side_close(&side);
        raw_fini(&raw);
    }
}
