// SPDX-License-Identifier: Apache-2.0
// kolo_conn_dial and kolo_listener with genuine peers, strangers and failing system calls. Both
// sides are on one poller; strangers are raw sockets.
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tests/support/refuse.h"
#include "transport/auth.h"
#include "transport/conn.h"

enum { ENDS_MAX = 512 };

struct end {
    int calls;
    kolo_status status;
    int fd;
    struct kolo_greeting theirs;
    char detail[1024];
};

struct world {
    struct kolo_poller *poller;
    struct kolo_listener *listener;
    struct kolo_place place;
    struct kolo_secret secret;
    struct end accepted[ENDS_MAX];
    int accepted_count;
};

static void on_accepted(void *context, kolo_status status, int fd,
                        const struct kolo_greeting *theirs)
{
    struct world *w = context;
    cr_assert(status == KOLO_OK);
    cr_assert(w->accepted_count < ENDS_MAX);
    w->accepted[w->accepted_count++] = (struct end){1, status, fd, *theirs, ""};
}

static void on_done(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct end *end = context;
    end->calls++;
    end->status = status;
    end->fd = fd;
    end->theirs = *theirs;
    snprintf(end->detail, sizeof end->detail, "%s", status == KOLO_OK ? "" : kolo_error_detail());
}

static struct kolo_place loopback(uint16_t port)
{
    struct kolo_place place = {.bytes = sizeof(struct sockaddr_in)};
    struct sockaddr_in *in = (struct sockaddr_in *)&place.addr;
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return place;
}

static struct kolo_place loopback6(void)
{
    struct kolo_place place = {.bytes = sizeof(struct sockaddr_in6)};
    struct sockaddr_in6 *in = (struct sockaddr_in6 *)&place.addr;
    in->sin6_family = AF_INET6;
    in->sin6_addr = in6addr_loopback;
    return place;
}

static const struct kolo_greeting server = {
    .protocol = 1, .purpose = KOLO_PURPOSE_TCP, .from = 3, .to = -1, .tag = 77};
static const struct kolo_greeting client = {
    .protocol = 1, .purpose = KOLO_PURPOSE_TCP, .from = 5, .to = 3, .tag = 88};

static void open_world_at(struct world *w, const struct kolo_place *place, int handshake_ms)
{
    memset(w, 0, sizeof *w);
    cr_assert(kolo_secret_make(&w->secret) == KOLO_OK);
    cr_assert(kolo_poller_create(&w->poller) == KOLO_OK);
    cr_assert(kolo_listener_open(w->poller,
                                 &(struct kolo_listener_config){.place = place,
                                                                .handshake_ms = handshake_ms,
                                                                .secret = &w->secret,
                                                                .mine = &server,
                                                                .accepted = on_accepted,
                                                                .context = w},
                                 &w->listener) == KOLO_OK,
              "%s", kolo_error_detail());
    kolo_listener_place(w->listener, &w->place);
}

static void open_world(struct world *w, int handshake_ms)
{
    struct kolo_place place = loopback(0);
    open_world_at(w, &place, handshake_ms);
}

static void close_world(struct world *w)
{
    for (int i = 0; i < w->accepted_count; i++)
        close(w->accepted[i].fd);
    kolo_listener_close(w->listener);
    cr_assert(*kolo_poller_conns(w->poller) == NULL, "the timers are gone");
    kolo_poller_destroy(w->poller);
}

/** One iteration of an event loop: sleeps until something is due (a dial that begins meanwhile ends
 * the sleep), then does it. */
static void turn(struct kolo_poller *poller, kolo_deadline deadline)
{
    static kolo_deadline next;
    kolo_poller_sleep(poller, kolo_deadline_min(next, deadline));
    cr_assert(kolo_poller_dispatch(poller, NULL) == KOLO_OK);
    next = kolo_conn_expire(poller);
}

static void run_until(struct world *w, const int *count, int wanted, int ms)
{
    kolo_deadline deadline = kolo_deadline_in_ms(ms);
    while (*count < wanted && !kolo_deadline_passed(deadline))
        turn(w->poller, deadline);
}

static void run_for(struct world *w, int ms)
{
    kolo_deadline deadline = kolo_deadline_in_ms(ms);
    while (!kolo_deadline_passed(deadline))
        turn(w->poller, deadline);
}

static struct kolo_conn *dial(struct world *w, const struct kolo_place *places, size_t count,
                              const struct kolo_secret *secret, int ms, struct end *end)
{
    struct kolo_conn *conn = NULL;
    cr_assert(kolo_conn_dial(w->poller,
                             &(struct kolo_dial_config){.places = places,
                                                        .count = count,
                                                        .secret = secret,
                                                        .mine = &client,
                                                        .deadline = kolo_deadline_in_ms(ms),
                                                        .done = on_done,
                                                        .context = end},
                             &conn) == KOLO_OK);
    cr_assert(end->calls == 0, "never from within the call");
    return conn;
}

/** The options of both sides' sockets: no call blocks, programs that are started do not inherit
 * them, and nothing is delayed. */
static void expect_options(int fd, int family)
{
    int on = 0;
    socklen_t bytes = sizeof on;

    cr_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    cr_assert(family == AF_UNIX ||
              (getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &bytes) == 0 && on != 0));
}

/** Asserts that a genuine peer gets through within @p ms. Returns how long it took. */
static int64_t expect_genuine(struct world *w, int ms)
{
    int64_t begun = kolo_now_ns();
    int before = w->accepted_count;
    struct end end = {0};

    dial(w, &w->place, 1, &w->secret, ms, &end);
    run_until(w, &end.calls, 1, ms + 20000);
    cr_assert(end.calls == 1 && end.status == KOLO_OK, "calls %d: %s", end.calls, end.detail);
    run_until(w, &w->accepted_count, before + 1, 20000);
    cr_assert(w->accepted_count == before + 1);
    cr_assert(end.theirs.from == 3 && end.theirs.to == 5 && end.theirs.tag == 77);
    cr_assert(w->accepted[before].theirs.from == 5 && w->accepted[before].theirs.tag == 88);
    cr_assert(write(end.fd, "ping", 4) == 4);
    char text[8] = "";
    struct pollfd ready = {.fd = w->accepted[before].fd, .events = POLLIN};
    cr_assert(poll(&ready, 1, 2000) == 1);
    cr_assert(read(w->accepted[before].fd, text, 8) == 4 && memcmp(text, "ping", 4) == 0,
              "the stream begins right after the proof");
    expect_options(end.fd, w->place.addr.ss_family);
    expect_options(w->accepted[before].fd, w->place.addr.ss_family);
    close(end.fd);
    return kolo_now_ns() - begun;
}

/** A stranger's blocking socket. */
static int raw_connect(const struct kolo_place *place)
{
    int fd = socket(place->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0);
    cr_assert(connect(fd, (const struct sockaddr *)&place->addr, place->bytes) == 0, "%s",
              strerror(errno));
    return fd;
}

/** Reads until the end of the stream or @p ms of silence. Returns the number of bytes. */
static size_t raw_read(struct world *w, int fd, uint8_t *data, size_t bytes, int ms, bool *end_out)
{
    kolo_deadline deadline = kolo_deadline_in_ms(ms);
    size_t have = 0;

    *end_out = false;
    while (have < bytes && !*end_out && !kolo_deadline_passed(deadline)) {
        ssize_t got = recv(fd, data + have, bytes - have, MSG_DONTWAIT);
        if (got > 0)
            have += (size_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EINTR))
            *end_out = true;
        else
            turn(w->poller, kolo_deadline_in_ms(5));
    }
    return have;
}

/** Reads the nonce of 32 bytes, after which only the end of the stream may follow. */
static void expect_dropped(struct world *w, int fd, int ms)
{
    uint8_t data[64];
    bool is_end;
    size_t got = raw_read(w, fd, data, sizeof data, ms, &is_end);
    cr_assert(is_end, "still open after %d ms", ms);
    cr_assert(got <= 32, "a stranger gets no more than the nonce: %zu", got);
}

Test(conn, peers_meet_over_ipv4, .timeout = 120)
{
    struct world w;
    open_world(&w, 5000);
    expect_genuine(&w, 25000);
    cr_assert(kolo_listener_strangers(w.listener) == 0);
    close_world(&w);
}

Test(conn, peers_meet_over_ipv6, .timeout = 120)
{
    struct world w;
    struct kolo_place place = loopback6();
    open_world_at(&w, &place, 5000);
    expect_genuine(&w, 25000);
    close_world(&w);
}

Test(conn, peers_meet_over_unix_sockets, .timeout = 120)
{
    struct world w;
    struct kolo_place place = {.bytes = sizeof(sa_family_t)};
    char text[64];

    place.addr.ss_family = AF_UNIX; /* autobind */
    open_world_at(&w, &place, 5000);
    kolo_place_format(&w.place, text, sizeof text);
    cr_assert(strncmp(text, "unix:@", 6) == 0 && strlen(text) > 6, "%s", text);
    expect_genuine(&w, 25000);
    close_world(&w);

    struct sockaddr_un *name = (struct sockaddr_un *)&place.addr;
    int length = snprintf(name->sun_path + 1, 60, "kolo-test-%d", (int)getpid());
    place.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    open_world_at(&w, &place, 5000);
    expect_genuine(&w, 25000);
    close_world(&w);
}

Test(conn, many_peers_at_once, .timeout = 60)
{
    struct world w;
    static struct end ends[200];
    int done = 0;

    open_world(&w, 5000);
    for (int i = 0; i < 200; i++)
        dial(&w, &w.place, 1, &w.secret, 20000, &ends[i]);
    kolo_deadline deadline = kolo_deadline_in_ms(20000);
    while (done < 200 && !kolo_deadline_passed(deadline)) {
        turn(w.poller, deadline);
        done = 0;
        for (int i = 0; i < 200; i++)
            done += ends[i].calls;
    }
    for (int i = 0; i < 200; i++) {
        cr_assert(ends[i].calls == 1 && ends[i].status == KOLO_OK, "%d: %s", i, ends[i].detail);
        close(ends[i].fd);
    }
    cr_assert(w.accepted_count == 200, "%d", w.accepted_count);
    close_world(&w);
}

/* ---- what a dialler meets ---- */

Test(conn, dialler_waits_for_a_peer_that_starts_later, .timeout = 120)
{
    struct world w;
    struct end end = {0};
    struct kolo_listener *late = NULL;

    open_world(&w, 5000);
    struct kolo_place place = w.place;
    kolo_listener_close(w.listener);
    w.listener = NULL;
    dial(&w, &place, 1, &w.secret, 10000, &end);
    run_for(&w, 300);
    cr_assert(end.calls == 0, "%s", end.detail);
    cr_assert(kolo_listener_open(w.poller,
                                 &(struct kolo_listener_config){.place = &place,
                                                                .handshake_ms = 5000,
                                                                .secret = &w.secret,
                                                                .mine = &server,
                                                                .accepted = on_accepted,
                                                                .context = &w},
                                 &late) == KOLO_OK,
              "%s", kolo_error_detail());
    run_until(&w, &end.calls, 1, 20000);
    cr_assert(end.status == KOLO_OK && end.calls == 1, "%s", end.detail);
    close(end.fd);
    w.listener = late;
    close_world(&w);
}

/** One of two places refuses; at the other one the kernel accepts connections that no process
 * reads. */
Test(conn, who_is_busy_is_waited_for_and_who_is_not_there_is_not, .timeout = 120)
{
    enum { EXPECTED_MS = 100 };
    struct world w, busy;
    struct end end = {0};
    struct kolo_place places[2] = {loopback(1), loopback(2)};

    open_world(&w, 5000);
    struct kolo_conn *conn = dial(&w, places, 2, &w.secret, 100000, &end);
    kolo_conn_expect(conn, kolo_deadline_in_ms(EXPECTED_MS));
    run_until(&w, &end.calls, 1, 20000);
    cr_assert(end.calls == 1 && end.status == KOLO_ERR_CONNECT, "%d", end.status);

    open_world(&busy, 5000);
    busy.secret = w.secret;
    places[1] = busy.place;
    end = (struct end){0};
    conn = dial(&w, places, 2, &w.secret, 100000, &end);
    kolo_conn_expect(conn, kolo_deadline_in_ms(EXPECTED_MS));
    run_for(&w, 6 * EXPECTED_MS);
    cr_assert(end.calls == 0, "%s", end.detail);
    kolo_conn_cancel(conn);
    close_world(&busy);
    close_world(&w);
}

static struct kolo_race race_to(struct world *w, const struct kolo_place *first,
                                const struct kolo_place *second)
{
    const struct kolo_place places[2] = {*first, *second};
    struct kolo_race race = {.numa_node = -1};
    struct kolo_conn *conn = NULL;
    struct end end = {0};

    const struct kolo_dial_config config = {.places = places,
                                            .count = 2,
                                            .secret = &w->secret,
                                            .mine = &client,
                                            .deadline = kolo_deadline_in_ms(20000),
                                            .race = &race,
                                            .done = on_done,
                                            .context = &end};
    cr_assert(kolo_conn_dial(w->poller, &config, &conn) == KOLO_OK);
    run_until(w, &end.calls, 1, 20000);
    cr_assert(end.status == KOLO_OK && end.calls == 1, "%s", end.detail);
    close(end.fd);
    cr_expect(race.tried == 2 && strstr(race.text, "round trip"), "%zu, %s", race.tried, race.text);
    return race;
}

/** One of two places is the peer's. At the other one nobody is, or the kernel accepts connections
 * that no process reads. */
Test(conn, a_race_has_a_winner_whichever_place_it_is, .timeout = 120)
{
    struct world w, busy;
    const struct kolo_place nobody = loopback(1);

    open_world(&w, 5000);
    open_world(&busy, 5000);
    cr_expect_eq(race_to(&w, &nobody, &w.place).answered, 1);
    cr_expect_eq(race_to(&w, &w.place, &nobody).answered, 1);
    cr_expect_eq(race_to(&w, &busy.place, &w.place).answered, 1);
    cr_expect_eq(race_to(&w, &w.place, &busy.place).answered, 1);
    close_world(&busy);
    close_world(&w);
}

Test(conn, refused_places_are_all_named_at_the_deadline, .timeout = 120)
{
    struct world w;
    struct end end = {0};
    struct kolo_place places[2] = {loopback(1), loopback(2)};
    int64_t begun = kolo_now_ns();

    open_world(&w, 5000);
    dial(&w, places, 2, &w.secret, 2000, &end);
    run_until(&w, &end.calls, 1, 20000);
    cr_assert(end.calls == 1 && end.status == KOLO_ERR_CONNECT, "%d", end.status);
    cr_assert(end.fd == -1);
    cr_assert(kolo_now_ns() - begun >= 1990 * 1000000LL, "not before the deadline");
    cr_assert_str_eq(end.detail, "cannot reach rank 3: 127.0.0.1:1 connection refused, 127.0.0.1:2 "
                                 "connection refused");
    close_world(&w);
}

/** The advice about a place that nobody answers at: logged at once, and part of the final error. */
Test(conn, advice_is_for_places_that_nobody_takes, .timeout = 120)
{
    struct world w;
    struct end end = {0};
    struct kolo_conn *conn = NULL;
    struct kolo_place place = loopback(1);
    char text[256];

    open_world(&w, 5000);
    const struct kolo_dial_config config = {.places = &place,
                                            .count = 1,
                                            .secret = &w.secret,
                                            .mine = &client,
                                            .deadline = kolo_deadline_in_ms(300),
                                            .advice = "look at the cable",
                                            .done = on_done,
                                            .context = &end};
    cr_assert(kolo_conn_dial(w.poller, &config, &conn) == KOLO_OK);
    run_for(&w, 50);
    kolo_conn_explain(conn, text, sizeof text);
    run_until(&w, &end.calls, 1, 20000);
    cr_assert_str_eq(text,
                     "cannot reach rank 3: 127.0.0.1:1 connection refused; look at the cable");
    cr_assert_str_eq(end.detail, text);
    close_world(&w);
}

Test(conn, silence_is_a_timeout, .timeout = 120)
{
    struct world w;
    struct end end = {0};
    struct kolo_place place = loopback(0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    open_world(&w, 5000);
    cr_assert(bind(fd, (struct sockaddr *)&place.addr, place.bytes) == 0 && listen(fd, 5) == 0);
    cr_assert(getsockname(fd, (struct sockaddr *)&place.addr, &place.bytes) == 0);
    dial(&w, &place, 1, &w.secret, 300, &end);
    run_until(&w, &end.calls, 1, 20000);
    cr_assert(end.status == KOLO_ERR_TIMEOUT, "%s", end.detail);
    /* The kernel accepts connections, so the host is there, and no firewall is in the way. */
    cr_assert(strncmp(end.detail, "rank 3 is late: 127.0.0.1:", 26) == 0 &&
                  strstr(end.detail, " takes connections, but its process gives no answer: it is "
                                     "busy, or stopped") &&
                  !strstr(end.detail, "firewall"),
              "%s", end.detail);
    close(fd);
    close_world(&w);
}

/** A server that is not kolo's, on the test's own loop: sends @p banner to each connection. */
struct stranger {
    struct kolo_watch watch;
    const char *banner;
    size_t bytes;
    int fds[64];
    int count;
};

static void serve_stranger(struct kolo_watch *watch, uint32_t events)
{
    struct stranger *stranger = (struct stranger *)watch;
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC);
    (void)events;
    if (fd < 0 || stranger->count == 64)
        return;
    stranger->fds[stranger->count++] = fd;
    cr_assert(send(fd, stranger->banner, stranger->bytes, MSG_NOSIGNAL) >= 0);
}

static struct kolo_place open_stranger(struct world *w, struct stranger *stranger,
                                       const char *banner, size_t bytes)
{
    struct kolo_place place = loopback(0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    cr_assert(bind(fd, (struct sockaddr *)&place.addr, place.bytes) == 0 && listen(fd, 64) == 0);
    cr_assert(getsockname(fd, (struct sockaddr *)&place.addr, &place.bytes) == 0);
    *stranger = (struct stranger){{fd, serve_stranger}, banner, bytes, {0}, 0};
    cr_assert(kolo_poller_add(w->poller, &stranger->watch, 1 /* 1: EPOLLIN */) == KOLO_OK);
    return place;
}

static void close_stranger(struct world *w, struct stranger *stranger)
{
    kolo_poller_remove(w->poller, &stranger->watch);
    close(stranger->watch.fd);
    for (int i = 0; i < stranger->count; i++)
        close(stranger->fds[i]);
}

static const char http[] =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: 0\r\nConnection: "
    "close\r\nServer: something that is not kolo at all\r\n\r\n";

Test(conn, dialler_leaves_a_strangers_server_and_goes_on, .timeout = 120)
{
    struct world w;
    struct stranger stranger;
    struct end end = {0};

    open_world(&w, 5000);
    struct kolo_place places[2] = {open_stranger(&w, &stranger, http, sizeof http - 1), w.place};
    dial(&w, places, 2, &w.secret, 10000, &end);
    run_until(&w, &end.calls, 1, 11000);
    cr_assert(end.status == KOLO_OK && end.calls == 1, "%s", end.detail);
    cr_assert(stranger.count == 1, "the stranger is dialled once: %d", stranger.count);
    close(end.fd);
    close_stranger(&w, &stranger);
    close_world(&w);
}

Test(conn, only_strangers_end_the_dial_at_once, .timeout = 120)
{
    struct world w;
    struct stranger stranger;
    struct end end = {0};
    int64_t begun = kolo_now_ns();

    open_world(&w, 5000);
    struct kolo_place place = open_stranger(&w, &stranger, http, sizeof http - 1);
    dial(&w, &place, 1, &w.secret, 25000, &end);
    run_until(&w, &end.calls, 1, 20000);
    cr_assert(end.status == KOLO_ERR_AUTH, "%d %s", end.status, end.detail);
    cr_assert(strstr(end.detail, "does not know the job's secret"), "%s", end.detail);
    cr_assert(kolo_now_ns() - begun < 10000000000LL);
    close_stranger(&w, &stranger);
    close_world(&w);
}

Test(conn, a_stranger_that_swallows_the_proof_does_not_hold_the_others, .timeout = 120)
{
    struct world w;
    struct stranger stranger;
    struct end end = {0};

    open_world(&w, 5000);
    /* 32 bytes look like a nonce; after that, silence. */
    struct kolo_place places[2] = {open_stranger(&w, &stranger, http, 32), w.place};
    dial(&w, places, 2, &w.secret, 20000, &end);
    run_until(&w, &end.calls, 1, 21000);
    cr_assert(end.status == KOLO_OK && end.calls == 1, "%s", end.detail);
    close(end.fd);
    close_stranger(&w, &stranger);
    close_world(&w);
}

Test(conn, another_secret_is_an_authentication_error, .timeout = 60)
{
    struct world w;
    struct kolo_secret other;
    struct end end = {0};
    char why[256];

    open_world(&w, 5000);
    cr_assert(!kolo_listener_explain(w.listener, why, sizeof why));
    cr_assert(kolo_secret_make(&other) == KOLO_OK);
    dial(&w, &w.place, 1, &other, 30000, &end);
    run_until(&w, &end.calls, 1, 30000);
    cr_assert(end.status == KOLO_ERR_AUTH, "%d %s", end.status, end.detail);
    cr_assert(strstr(end.detail, "secret"), "%s", end.detail);
    cr_assert(w.accepted_count == 0);
    cr_assert(kolo_listener_strangers(w.listener) >= 1);
    cr_assert(kolo_listener_explain(w.listener, why, sizeof why));
    cr_assert(strncmp(why, "a process at 127.0.0.1:", 23) == 0 &&
                  strstr(why, " does not know the secret"),
              "%s", why);
    close_world(&w);
}

/** Resets the connections whose proof has come, without reading it. */
static void reset_claimed(struct stranger *stranger)
{
    uint8_t byte;
    for (int i = 0; i < stranger->count; i++) {
        if (stranger->fds[i] < 0 || recv(stranger->fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 1)
            continue;
        close(stranger->fds[i]);
        stranger->fds[i] = -1;
    }
}

/* A peer that has no room for more drops connections, also behind a proof that it has not read:
 * however often, that does not mean another secret. */
Test(conn, who_is_dropped_for_room_tries_again, .timeout = 120)
{
    enum { TIMES = 10 }; /* more than the rejections that count as final */
    struct world w;
    struct stranger stranger;
    struct end end = {0};

    open_world(&w, 5000);
    struct kolo_place place = open_stranger(&w, &stranger, http, 32);
    struct kolo_conn *conn = dial(&w, &place, 1, &w.secret, 100000, &end);
    while (stranger.count < TIMES && end.calls == 0) {
        turn(w.poller, kolo_deadline_in_ms(20));
        reset_claimed(&stranger);
    }
    cr_assert(end.calls == 0, "after %d: %s", stranger.count, end.detail);
    kolo_conn_cancel(conn);
    close_stranger(&w, &stranger);
    close_world(&w);
}

/* What the status says of a place is what the text says: how it is now, not how an earlier try
 * ended. */
Test(conn, who_was_dropped_once_and_is_silent_now_is_late, .timeout = 120)
{
    struct world w;
    struct stranger stranger;
    struct end end = {0};

    open_world(&w, 5000);
    struct kolo_place place = open_stranger(&w, &stranger, http, 32);
    dial(&w, &place, 1, &w.secret, 2000, &end);
    while (end.calls == 0) {
        turn(w.poller, kolo_deadline_in_ms(20));
        if (stranger.count == 1)
            reset_claimed(&stranger);
    }
    cr_assert(stranger.count > 1 && end.status == KOLO_ERR_TIMEOUT &&
                  strstr(end.detail, "rank 3 is late"),
              "%d: %s: %s", stranger.count, kolo_status_name(end.status), end.detail);
    close_stranger(&w, &stranger);
    close_world(&w);
}

static void expect_wrong_door(const struct kolo_greeting *greeting, kolo_status status,
                              const char *words)
{
    struct world w;
    struct end end = {0};
    struct kolo_conn *conn;

    open_world(&w, 5000);
    cr_assert(kolo_conn_dial(w.poller,
                             &(struct kolo_dial_config){.places = &w.place,
                                                        .count = 1,
                                                        .secret = &w.secret,
                                                        .mine = greeting,
                                                        .deadline = kolo_deadline_in_ms(20000),
                                                        .done = on_done,
                                                        .context = &end},
                             &conn) == KOLO_OK);
    run_until(&w, &end.calls, 1, 20000);
    cr_assert(end.status == status, "%d %s", end.status, end.detail);
    cr_assert(strstr(end.detail, words), "%s", end.detail);
    cr_assert(w.accepted_count == 0, "and it is not let in");
    close_world(&w);
}

Test(conn, wrong_rank_purpose_or_version_is_told_at_once, .timeout = 60)
{
    struct kolo_greeting greeting = client;

    greeting.to = 4;
    expect_wrong_door(&greeting, KOLO_ERR_CONNECT, "is rank 3");
    greeting = client;
    greeting.purpose = KOLO_PURPOSE_SHM;
    expect_wrong_door(&greeting, KOLO_ERR_CONNECT, "purpose");
    greeting = client;
    greeting.protocol = 9;
    expect_wrong_door(&greeting, KOLO_ERR_PROTOCOL, "speaks protocol 1, this is 9");
}

Test(conn, cancel_is_silent_in_every_phase, .timeout = 120)
{
    struct world w;

    open_world(&w, 5000);
    for (int turns = 0; turns < 12; turns++) {
        struct end end = {0};
        struct kolo_place places[2] = {w.place, loopback(1)};
        struct kolo_conn *conn = dial(&w, places, 2, &w.secret, 10000, &end);
        for (int i = 0; i < turns && !end.calls; i++)
            turn(w.poller, kolo_deadline_in_ms(1));
        if (!end.calls)
            kolo_conn_cancel(conn);
        else
            close(end.fd);
        run_for(&w, 3);
        cr_assert(end.calls <= 1);
    }
    kolo_conn_cancel(NULL);
    close_world(&w);
}

Test(conn, dial_without_a_place_is_refused)
{
    struct world w;
    struct kolo_conn *conn;
    open_world(&w, 1000);
    cr_assert(kolo_conn_dial(w.poller,
                             &(struct kolo_dial_config){.secret = &w.secret,
                                                        .mine = &client,
                                                        .deadline = KOLO_NEVER,
                                                        .done = on_done},
                             &conn) == KOLO_ERR_INVALID);
    close_world(&w);
}

Test(conn, allocation_failures_come_back_as_such, .timeout = 120)
{
    struct world w;
    struct kolo_conn *conn;
    struct kolo_listener *listener;
    struct kolo_poller *poller;
    struct end end = {0};

    open_world(&w, 1000);
    cr_assert(kolo_poller_create(&poller) == KOLO_OK);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        kolo_alloc_fail_nth(nth);
        cr_assert(kolo_conn_dial(poller,
                                 &(struct kolo_dial_config){.places = &w.place,
                                                            .count = 1,
                                                            .secret = &w.secret,
                                                            .mine = &client,
                                                            .deadline = kolo_deadline_in_ms(99),
                                                            .done = on_done,
                                                            .context = &end},
                                 &conn) == KOLO_ERR_NO_MEMORY);
        kolo_alloc_fail_nth(nth);
        cr_assert(kolo_listener_open(poller,
                                     &(struct kolo_listener_config){.place = &w.place,
                                                                    .handshake_ms = 100,
                                                                    .secret = &w.secret,
                                                                    .mine = &server,
                                                                    .accepted = on_accepted,
                                                                    .context = &w},
                                     &listener) != KOLO_OK);
    }
    kolo_alloc_fail_nth(0);
    cr_assert(*kolo_poller_conns(poller) == NULL);
    kolo_poller_destroy(poller);
    close_world(&w);
}

/* ---- what connects to a listener ---- */

Test(conn, random_bytes_are_dropped, .timeout = 120)
{
    struct world w;
    uint8_t noise[4096];

    open_world(&w, 5000);
    srand(7);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)rand();
    int fd = raw_connect(&w.place);
    cr_assert(send(fd, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    expect_dropped(&w, fd, 3000);
    cr_assert(kolo_listener_strangers(w.listener) == 1);
    close(fd);
    expect_genuine(&w, 25000);
    close_world(&w);
}

Test(conn, an_http_get_is_dropped_at_the_handshakes_deadline, .timeout = 120)
{
    struct world w;
    static const char get[] = "GET / HTTP/1.1\r\nHost: kolo\r\n\r\n";

    open_world(&w, 300);
    int fd = raw_connect(&w.place);
    cr_assert(send(fd, get, sizeof get - 1, MSG_NOSIGNAL) > 0);
    expect_genuine(&w, 25000); /* at the same time */
    expect_dropped(&w, fd, 3000);
    close(fd);
    close_world(&w);
}

Test(conn, half_open_connections_are_dropped_and_delay_nobody, .timeout = 120)
{
    struct world w;
    int fds[20];

    open_world(&w, 400);
    for (int i = 0; i < 20; i++)
        fds[i] = raw_connect(&w.place);
    cr_assert(expect_genuine(&w, 25000) < 20000000000LL);
    for (int i = 0; i < 20; i++) {
        expect_dropped(&w, fds[i], 3000);
        close(fds[i]);
    }
    cr_assert(kolo_listener_strangers(w.listener) == 20);
    close_world(&w);
}

Test(conn, a_replayed_handshake_proves_nothing, .timeout = 120)
{
    struct world w;
    uint8_t nonce[32], claim[KOLO_CLAIM_BYTES], nonce_d[32] = {9};
    bool is_end;

    open_world(&w, 2000);
    /* The recording of a genuine claim, made for the nonce of an earlier connection. */
    int fd = raw_connect(&w.place);
    cr_assert(raw_read(&w, fd, nonce, 32, 20000, &is_end) == 32);
    cr_assert(kolo_claim_make(&w.secret, nonce, nonce_d, &client, claim) == KOLO_OK);
    cr_assert(send(fd, claim, sizeof claim, MSG_NOSIGNAL) == sizeof claim);
    run_until(&w, &w.accepted_count, 1, 20000);
    cr_assert(w.accepted_count == 1, "the original is good");
    close(fd);

    fd = raw_connect(&w.place);
    cr_assert(send(fd, claim, sizeof claim, MSG_NOSIGNAL) == sizeof claim);
    expect_dropped(&w, fd, 3000);
    cr_assert(w.accepted_count == 1, "the replay is not");
    close(fd);
    expect_genuine(&w, 25000);
    close_world(&w);
}

Test(conn, nonces_never_repeat, .timeout = 120)
{
    struct world w;
    static uint8_t nonces[40][32];
    bool is_end;

    open_world(&w, 2000);
    for (int i = 0; i < 40; i++) {
        int fd = raw_connect(&w.place);
        cr_assert(raw_read(&w, fd, nonces[i], 32, 20000, &is_end) == 32);
        close(fd);
        for (int j = 0; j < i; j++)
            cr_assert(memcmp(nonces[i], nonces[j], 32) != 0);
    }
    close_world(&w);
}

Test(conn, a_dialer_that_writes_byte_by_byte_is_served, .timeout = 120)
{
    struct world w;
    uint8_t nonce[32], claim[KOLO_CLAIM_BYTES], nonce_d[32] = {9}, answer[KOLO_ANSWER_BYTES];
    struct kolo_greeting theirs;
    bool is_end;
    int one = 1;

    open_world(&w, 5000);
    int fd = raw_connect(&w.place);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    cr_assert(raw_read(&w, fd, nonce, 32, 20000, &is_end) == 32);
    cr_assert(kolo_claim_make(&w.secret, nonce, nonce_d, &client, claim) == KOLO_OK);
    for (size_t i = 0; i < sizeof claim; i++) {
        cr_assert(send(fd, claim + i, 1, MSG_NOSIGNAL) == 1);
        cr_assert(w.accepted_count == 0);
        turn(w.poller, kolo_deadline_in_ms(5));
    }
    cr_assert(raw_read(&w, fd, answer, sizeof answer, 20000, &is_end) == sizeof answer);
    cr_assert(kolo_answer_check(&w.secret, nonce, nonce_d, answer, &theirs));
    cr_assert(theirs.from == 3 && w.accepted_count == 1);
    close(fd);
    close_world(&w);
}

Test(conn, a_flood_of_strangers_delays_no_peer, .timeout = 60)
{
    struct world w;
    enum { FLOOD = 400 };
    static int fds[FLOOD];

    open_world(&w, 30000);
    for (int i = 0; i < FLOOD; i++)
        fds[i] = raw_connect(&w.place);
    int64_t took = expect_genuine(&w, 25000);
    cr_assert(took < 20000000000LL, "%lld ms", (long long)took / 1000000);
    cr_assert(kolo_listener_strangers(w.listener) >= FLOOD - KOLO_LISTENER_PENDING_MAX, "%llu",
              (unsigned long long)kolo_listener_strangers(w.listener));
    /* And again while the table is full of connections that stay silent. */
    took = expect_genuine(&w, 25000);
    cr_assert(took < 20000000000LL, "%lld ms", (long long)took / 1000000);
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
    close_world(&w);
}

/* ---- those who are slow to answer ---- */

/** A peer or a stranger that is silent for @p slow_ms after the nonce, and then sends its claim, if
 * it has one. If it is dropped, it connects again. */
struct slow {
    int fd;
    bool has_nonce, has_claimed;
    kolo_deadline speaks_at;
    uint8_t nonce[32];
};

static void knock_again(const struct world *w, struct slow *slow)
{
    if (slow->fd >= 0)
        close(slow->fd);
    *slow = (struct slow){.fd = raw_connect(&w->place)};
}

static void claim(const struct world *w, struct slow *slow)
{
    uint8_t bytes[KOLO_CLAIM_BYTES], nonce_d[32] = {9};
    cr_assert(kolo_claim_make(&w->secret, slow->nonce, nonce_d, &client, bytes) == KOLO_OK);
    slow->has_claimed = send(slow->fd, bytes, sizeof bytes, MSG_NOSIGNAL) == sizeof bytes;
}

static void live(const struct world *w, struct slow *slow, int slow_ms)
{
    uint8_t byte;
    if (slow->fd < 0)
        knock_again(w, slow);
    ssize_t got = slow->has_nonce ? recv(slow->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK)
                                  : recv(slow->fd, slow->nonce, 32, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        knock_again(w, slow);
    } else if (got == 32 && !slow->has_nonce) {
        slow->has_nonce = true;
        slow->speaks_at = slow_ms < 0 ? KOLO_NEVER : kolo_deadline_in_ms(slow_ms);
    } else if (slow->has_nonce && !slow->has_claimed && kolo_deadline_passed(slow->speaks_at)) {
        claim(w, slow);
    }
}

static void live_all(struct world *w, struct slow *slows, int count, int slow_ms)
{
    for (int i = 0; i < count; i++)
        live(w, &slows[i], slow_ms);
    turn(w->poller, kolo_deadline_in_ms(1));
}

static void close_all(struct slow *slows, int count)
{
    for (int i = 0; i < count; i++)
        close(slows[i].fd);
}

Test(conn, more_peers_than_places_that_are_slow_to_answer_all_come_in, .timeout = 120)
{
    enum { PEERS = 300, SLOW_MS = 60 };
    static struct slow peers[PEERS];
    struct world w;

    open_world(&w, 30000);
    kolo_listener_expect(w.listener, PEERS);
    for (int i = 0; i < PEERS; i++)
        peers[i].fd = -1;
    kolo_deadline deadline = kolo_deadline_in_ms(60000);
    while (w.accepted_count < PEERS && !kolo_deadline_passed(deadline))
        live_all(&w, peers, PEERS, SLOW_MS);
    cr_assert(w.accepted_count == PEERS, "%d", w.accepted_count);
    cr_assert(kolo_listener_strangers(w.listener) == 0, "%llu are pushed out",
              (unsigned long long)kolo_listener_strangers(w.listener));
    close_all(peers, PEERS);
    close_world(&w);
}

/* ---- the room of all listeners of a poller ---- */

static struct kolo_listener *listen_beside(struct world *w, struct kolo_place *place_out)
{
    struct kolo_place place = loopback(0);
    struct kolo_listener *listener;
    cr_assert(kolo_listener_open(w->poller,
                                 &(struct kolo_listener_config){.place = &place,
                                                                .handshake_ms = 30000,
                                                                .secret = &w->secret,
                                                                .mine = &server,
                                                                .accepted = on_accepted,
                                                                .context = w},
                                 &listener) == KOLO_OK);
    kolo_listener_place(listener, place_out);
    return listener;
}

/** How many of the connections the listeners hold: those that were sent a nonce, and are open. */
static int count_held(const int *fds, int count)
{
    uint8_t nonce[32];
    int held = 0;
    for (int i = 0; i < count; i++)
        held += recv(fds[i], nonce, sizeof nonce, MSG_DONTWAIT) == sizeof nonce &&
                recv(fds[i], nonce, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    return held;
}

/** Opens listeners, connects to each as a stranger, and returns how many they hold at the end. A
 *  genuine peer of the first one comes in nevertheless. */
static int hold_strangers(int listeners, int each)
{
    enum { LISTENERS_MAX = 4, FLOOD_MAX = 800 };
    static int fds[FLOOD_MAX];
    struct kolo_listener *others[LISTENERS_MAX];
    struct kolo_place places[LISTENERS_MAX];
    struct world w;
    int count = 0, held;

    open_world(&w, 30000);
    places[0] = w.place;
    for (int i = 1; i < listeners; i++)
        others[i] = listen_beside(&w, &places[i]);
    for (int k = 0; k < each; k++)
        for (int i = 0; i < listeners; i++)
            fds[count++] = raw_connect(&places[i]);
    kolo_deadline deadline = kolo_deadline_in_ms(1500); /* the longest grace, and more */
    while (!kolo_deadline_passed(deadline))
        turn(w.poller, deadline);
    held = count_held(fds, count);
    (void)expect_genuine(&w, 25000);
    for (int i = 1; i < listeners; i++)
        kolo_listener_close(others[i]);
    while (count > 0)
        close(fds[--count]);
    close_world(&w);
    return held;
}

Test(conn, strangers_at_several_listeners_have_one_room, .timeout = 120)
{
    int held = hold_strangers(4, 100);
    cr_assert(held > 0 && held <= KOLO_LISTENER_PENDING_MAX, "%d", held);
}

/** The descriptors of this test's strangers count too. */
Test(conn, strangers_have_a_part_of_the_limit_of_open_files, .timeout = 120)
{
    const struct rlimit low = {256, 256};
    cr_assert(setrlimit(RLIMIT_NOFILE, &low) == 0);
    int held = hold_strangers(2, 70);
    cr_assert(held > 0 && held <= 256 / 8, "%d", held);
}

Test(conn, a_lasting_flood_does_not_keep_a_slow_peer_out, .timeout = 120)
{
    enum { FLOOD = KOLO_LISTENER_PENDING_MAX * 2, SLOW_MS = 60 };
    static struct slow flood[FLOOD];
    struct slow peer = {.fd = -1};
    struct world w;

    open_world(&w, 30000);
    for (int i = 0; i < FLOOD; i++)
        flood[i].fd = -1;
    kolo_deadline deadline = kolo_deadline_in_ms(60000);
    while (w.accepted_count < 1 && !kolo_deadline_passed(deadline)) {
        live_all(&w, flood, FLOOD, -1);
        live(&w, &peer, SLOW_MS);
    }
    cr_assert(w.accepted_count == 1, "%llu strangers were dropped meanwhile",
              (unsigned long long)kolo_listener_strangers(w.listener));
    close_all(flood, FLOOD);
    close(peer.fd);
    close_world(&w);
}

/** The listener's process did not run for a while: what arrived meanwhile counts before the
 * listener decides who has been silent for too long. */
Test(conn, a_claim_that_was_not_read_in_time_counts, .timeout = 120)
{
    enum { PEERS = KOLO_LISTENER_PENDING_MAX, LATER = 64, HANDSHAKE_MS = 5000 };
    static struct slow peers[PEERS], later[LATER];
    struct world w;

    open_world(&w, HANDSHAKE_MS);
    for (int i = 0; i < PEERS; i++)
        knock_again(&w, (peers[i].fd = -1, &peers[i]));
    kolo_deadline deadline = kolo_deadline_in_ms(60000);
    for (int have = 0; have < PEERS && !kolo_deadline_passed(deadline);) {
        turn(w.poller, kolo_deadline_in_ms(1));
        have = 0;
        for (int i = 0; i < PEERS; i++) {
            live(&w, &peers[i], -1);
            have += peers[i].has_nonce;
        }
    }
    uint64_t before = kolo_listener_strangers(w.listener);
    for (int i = 0; i < LATER; i++)
        knock_again(&w, (later[i].fd = -1, &later[i]));
    for (int i = 0; i < PEERS; i++)
        claim(&w, &peers[i]);
    deadline = kolo_deadline_in_ms(HANDSHAKE_MS + 100);
    while (!kolo_deadline_passed(deadline))
        poll(NULL, 0, 20);
    (void)kolo_conn_expire(w.poller);
    cr_assert(kolo_listener_strangers(w.listener) == before, "their claims lie there");
    run_until(&w, &w.accepted_count, PEERS, 60000);
    cr_assert(w.accepted_count == PEERS, "%d", w.accepted_count);
    close_all(peers, PEERS);
    close_all(later, LATER);
    close_world(&w);
}

static int spin_turns(struct world *w, int ms)
{
    kolo_deadline deadline = kolo_deadline_in_ms(ms);
    int turns = 0;
    for (; !kolo_deadline_passed(deadline); turns++)
        turn(w->poller, deadline);
    return turns;
}

Test(conn, out_of_file_descriptors_the_door_shuts_and_reopens, .timeout = 120)
{
    struct world w;
    struct rlimit limit, few;
    int fds[3];

    open_world(&w, 30000);
    for (int i = 0; i < 3; i++)
        fds[i] = raw_connect(&w.place);
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    few = limit;
    few.rlim_cur = (rlim_t)fds[2] + 1; /* every descriptor below this limit is in use */
    cr_assert(setrlimit(RLIMIT_NOFILE, &few) == 0);
    kolo_log_set_level(KOLO_LOG_NONE);
    int turns = spin_turns(&w, 600);
    cr_assert(turns < 200, "spins: %d turns in 600 ms", turns);
    cr_assert(w.accepted_count == 0);
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    expect_genuine(&w, 25000);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    close_world(&w);
}

static char logged[1 << 20];

static void collect(void *context, enum kolo_log_level level, const char *line)
{
    (void)context, (void)level;
    strncat(logged, line, sizeof logged - strlen(logged) - 2);
    strcat(logged, "\n");
}

/* It may as well be a peer, which calls again, so it does not count as a stranger. */
Test(conn, out_of_file_descriptors_the_oldest_gives_up_its_own, .timeout = 120)
{
    struct world w;
    struct rlimit limit, few;

    open_world(&w, 30000);
    int fd = raw_connect(&w.place);
    run_for(&w, 50); /* it has been accepted, and holds a descriptor */
    int last = raw_connect(&w.place);
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    few = limit;
    few.rlim_cur = (rlim_t)last + 1;
    cr_assert(setrlimit(RLIMIT_NOFILE, &few) == 0);
    kolo_log_set_sink(collect, NULL);
    expect_dropped(&w, fd, 25000);
    cr_assert(kolo_listener_strangers(w.listener) == 0);
    char why[320];
    cr_assert(kolo_listener_explain_lack(w.listener, why, sizeof why) && strstr(logged, why), "%s",
              logged);
    const char *word = strstr(logged, "ulimit -n");
    cr_assert(word && !strstr(word + 1, "ulimit -n"), "not said once: %s", logged);
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    kolo_log_set_sink(NULL, NULL);
    close(fd);
    close(last);
    close_world(&w);
}

/** Lets the process open @p count more descriptors. Returns the limit that it had. */
static struct rlimit leave_descriptors(int count)
{
    struct rlimit limit, few;
    int next = dup(0); /* the lowest free one */

    cr_assert(next >= 0 && close(next) == 0);
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    few = limit;
    few.rlim_cur = (rlim_t)(next + count);
    cr_assert(setrlimit(RLIMIT_NOFILE, &few) == 0);
    return limit;
}

/** Whatever the places answered before. */
Test(conn, a_dial_without_a_descriptor_is_told_soon, .timeout = 120)
{
    struct world w;
    struct end end = {0};
    struct kolo_place places[2];
    kolo_deadline begun = kolo_now_ns();

    open_world(&w, 30000);
    places[0] = w.place;
    places[1] = loopback6();
    struct rlimit limit = leave_descriptors(0);
    dial(&w, places, 2, &w.secret, 100000, &end);
    run_until(&w, &end.calls, 1, 60000);
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    cr_assert(end.calls == 1 && end.status == KOLO_ERR_SYSTEM, "%s", end.detail);
    cr_assert(kolo_now_ns() - begun < 50000 * KOLO_NS_PER_MS, "only at its deadline");
    cr_assert_str_eq(end.detail,
                     "cannot reach rank 3: socket: Too many open files: raise `ulimit -n`");
    close_world(&w);
}

Test(conn, a_dial_that_a_sandbox_refuses_is_told_soon, .timeout = 120)
{
    struct world w;
    struct end end = {0};

    open_world(&w, 30000);
    if (!refuse_call(SYS_socket, -1, 0, ENOSYS))
        cr_skip("no system call can be refused here");
    dial(&w, &w.place, 1, &w.secret, 100000, &end);
    run_until(&w, &end.calls, 1, 60000);
    cr_assert(end.calls == 1 && end.status == KOLO_ERR_SYSTEM, "%s", end.detail);
    cr_assert_str_eq(end.detail, "cannot reach rank 3: socket: Function not implemented: this "
                                 "kernel has no such call, or a sandbox's filter refuses it: have "
                                 "it allowed");
    close_world(&w);
}

/** Dials without a descriptor, while this process is @p held_up_ms without a look, and then with
 * one. */
static void dial_and_lack(int held_up_ms)
{
    struct world w;
    struct end end = {0};

    open_world(&w, 30000);
    kolo_log_set_level(KOLO_LOG_NONE);
    struct rlimit limit = leave_descriptors(0);
    dial(&w, &w.place, 1, &w.secret, 100000, &end);
    run_for(&w, 100);
    cr_assert(end.calls == 0, "%s", end.detail);
    (void)poll(NULL, 0, held_up_ms);
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    run_until(&w, &end.calls, 1, 60000);
    cr_assert(end.calls == 1 && end.status == KOLO_OK, "%s", end.detail);
    close(end.fd);
    close_world(&w);
}

Test(conn, a_dial_waits_a_moment_for_a_descriptor, .timeout = 120)
{
    dial_and_lack(0);
}

/** A process that was stopped tries once more. */
Test(conn, a_dial_that_was_held_up_looks_for_a_descriptor_again, .timeout = 120)
{
    dial_and_lack(1500);
}

static void close_in_callback(void *context, kolo_status status, int fd,
                              const struct kolo_greeting *theirs)
{
    struct world *w = context;
    on_accepted(context, status, fd, theirs);
    kolo_listener_close(w->listener);
    w->listener = NULL;
}

Test(conn, the_listener_may_be_closed_from_its_callback, .timeout = 120)
{
    struct world w;
    struct kolo_place place = loopback(0);
    struct end end = {0};

    open_world(&w, 1000);
    kolo_listener_close(w.listener);
    cr_assert(kolo_listener_open(w.poller,
                                 &(struct kolo_listener_config){.place = &place,
                                                                .handshake_ms = 1000,
                                                                .secret = &w.secret,
                                                                .mine = &server,
                                                                .accepted = close_in_callback,
                                                                .context = &w},
                                 &w.listener) == KOLO_OK);
    kolo_listener_place(w.listener, &w.place);
    int fd = raw_connect(&w.place);
    dial(&w, &w.place, 1, &w.secret, 5000, &end);
    run_until(&w, &end.calls, 1, 20000);
    cr_assert(end.status == KOLO_OK && !w.listener, "%s", end.detail);
    close(fd);
    close(end.fd);
    close_world(&w);
}

Test(conn, a_taken_port_is_named)
{
    struct world w;
    struct kolo_listener *second;
    char text[64];

    open_world(&w, 1000);
    kolo_place_format(&w.place, text, sizeof text);
    cr_assert(kolo_listener_open(w.poller,
                                 &(struct kolo_listener_config){.place = &w.place,
                                                                .handshake_ms = 1000,
                                                                .secret = &w.secret,
                                                                .mine = &server,
                                                                .accepted = on_accepted,
                                                                .context = &w},
                                 &second) == KOLO_ERR_SYSTEM);
    cr_assert(strstr(kolo_error_detail(), text) && strstr(kolo_error_detail(), "in use"), "%s",
              kolo_error_detail());
    close_world(&w);
}

Test(conn, states_are_logged_and_secrets_never, .timeout = 120)
{
    struct world w;
    char hex[65];

    kolo_log_set_sink(collect, NULL);
    kolo_log_set_level(KOLO_LOG_DEBUG);
    open_world(&w, 1000);
    expect_genuine(&w, 25000);
    kolo_secret_format(&w.secret, hex);
    cr_assert(strstr(logged, "awaits nonce -> sends claim"), "%s", logged);
    cr_assert(strstr(logged, "sends nonce -> awaits claim"), "%s", logged);
    cr_assert(!strstr(logged, hex));
    hex[16] = '\0';
    cr_assert(!strstr(logged, hex));
    close_world(&w);
    kolo_log_set_level(KOLO_LOG_NONE);
}
