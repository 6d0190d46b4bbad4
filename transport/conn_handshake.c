// SPDX-License-Identifier: Apache-2.0
// Owns one socket during the proof that conn.h shows, as a state table for both roles. Its owner (a
// dial or a listener) handles deadlines, redials and lists. Must never read a byte beyond the
// handshake, since what follows belongs to whoever gets the socket.
//
//   dialler    CONNECTING -> AWAITS_NONCE [-> HELD] -> SENDS_CLAIM -> AWAITS_ANSWER -> OVER
//   acceptor  SENDS_NONCE -> AWAITS_CLAIM -> SENDS_ANSWER -> OVER
//
// HELD: if there are several dials to one peer, only one at a time sends its claim, so that the
// peer does not accept two connections.
#include "transport/conn_private.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/random.h"

enum event { EV_READABLE, EV_WRITABLE, EV_LOST, EV_PROVE, EVENTS };

static const struct {
    const char *name;
    uint32_t interest;
} states[KOLO_HANDSHAKE_STATES] = {
    [KOLO_HANDSHAKE_OVER] = {"over", 0},
    [KOLO_HANDSHAKE_CONNECTING] = {"connecting", EPOLLOUT},
    [KOLO_HANDSHAKE_AWAITS_NONCE] = {"awaits nonce", EPOLLIN},
    [KOLO_HANDSHAKE_HELD] = {"held", 0},
    [KOLO_HANDSHAKE_SENDS_CLAIM] = {"sends claim", EPOLLOUT},
    [KOLO_HANDSHAKE_AWAITS_ANSWER] = {"awaits answer", EPOLLIN},
    [KOLO_HANDSHAKE_SENDS_NONCE] = {"sends nonce", EPOLLOUT},
    [KOLO_HANDSHAKE_AWAITS_CLAIM] = {"awaits claim", EPOLLIN},
    [KOLO_HANDSHAKE_SENDS_ANSWER] = {"sends answer", EPOLLOUT},
};

/** The only function that changes the state. @p bytes: how many to move in the new state. */
static void enter(struct kolo_handshake *handshake, enum kolo_handshake_state state, size_t bytes)
{
    char text[KOLO_PLACE_TEXT_MAX];

    if (kolo_log_on(KOLO_LOG_DEBUG)) {
        kolo_place_format(handshake->place, text, sizeof text);
        KOLO_DEBUG("conn %s fd %d: %s -> %s", text, handshake->watch.fd,
                   states[handshake->state].name, states[state].name);
    }
    handshake->state = state;
    handshake->bytes = bytes;
    handshake->bytes_done = 0;
    if (state != KOLO_HANDSHAKE_OVER)
        kolo_poller_modify(handshake->poller, &handshake->watch, states[state].interest);
}

static void finish(struct kolo_handshake *handshake, enum kolo_conn_verdict verdict, int error)
{
    kolo_poller_remove(handshake->poller, &handshake->watch);
    enter(handshake, KOLO_HANDSHAKE_OVER, 0);
    handshake->owner->over(handshake, verdict, error);
}

/** Whether the peer's system has all that was sent to it. A peer that makes room for others closes
 *  while a claim may be on its way, or unread, which resets the connection; one that has read a
 *  claim and does not accept it just closes. */
static bool has_arrived(int fd)
{
    int unsent = 0;
    return ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent == 0;
}

/** Handles the end of the stream, and an error of a read or a write. */
static void lose(struct kolo_handshake *handshake, int error)
{
    bool has_claimed = handshake->state == KOLO_HANDSHAKE_AWAITS_ANSWER;
    bool is_reset = error == ECONNRESET || error == EPIPE;

    if (has_claimed && error == 0 && has_arrived(handshake->watch.fd))
        finish(handshake, KOLO_VERDICT_REJECTED, 0);
    else if (error == 0 || (has_claimed && is_reset))
        finish(handshake, KOLO_VERDICT_CLOSED, 0);
    else
        finish(handshake, KOLO_VERDICT_ERROR, error);
}

/** Reads what the state waits for. True: it is complete. */
static bool fill(struct kolo_handshake *handshake)
{
    while (handshake->bytes_done < handshake->bytes) {
        ssize_t got = recv(handshake->watch.fd, handshake->buf + handshake->bytes_done,
                           handshake->bytes - handshake->bytes_done, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return false;
        if (got <= 0) {
            lose(handshake, got < 0 ? errno : 0);
            return false;
        }
        handshake->bytes_done += (size_t)got;
    }
    return true;
}

/** Writes what the state sends. True: everything was written. */
static bool drain(struct kolo_handshake *handshake)
{
    while (handshake->bytes_done < handshake->bytes) {
        ssize_t put = send(handshake->watch.fd, handshake->buf + handshake->bytes_done,
                           handshake->bytes - handshake->bytes_done, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            return false;
        if (put < 0) {
            lose(handshake, errno);
            return false;
        }
        handshake->bytes_done += (size_t)put;
    }
    return true;
}

/** Checks whether a peer that is proved is the expected one. The same address may be another
 *  machine's on a private network. */
static void judge(struct kolo_handshake *handshake)
{
    const struct kolo_greeting *mine = handshake->mine;
    const struct kolo_greeting *theirs = &handshake->theirs;

    if (theirs->protocol != mine->protocol)
        finish(handshake, KOLO_VERDICT_OTHER_VERSION, 0);
    else if (theirs->purpose != mine->purpose)
        finish(handshake, KOLO_VERDICT_OTHER_PURPOSE, 0);
    else
        finish(handshake, KOLO_VERDICT_PROVED, 0);
}

/* ---- the dialler's steps ---- */

/** Whether the system connected the socket to itself, which happens if nobody listens at a port
 *  that the system also gives to clients. */
static bool is_own_echo(int fd)
{
    struct sockaddr_storage local = {0}, remote = {0};
    socklen_t local_bytes = sizeof local, remote_bytes = sizeof remote;

    return getsockname(fd, (struct sockaddr *)&local, &local_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&remote, &remote_bytes) == 0 &&
           local.ss_family != AF_UNIX && local_bytes == remote_bytes &&
           memcmp(&local, &remote, local_bytes) == 0;
}

static void check_connected(struct kolo_handshake *handshake)
{
    int error = 0;
    socklen_t bytes = sizeof error;

    if (getsockopt(handshake->watch.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error == 0 && is_own_echo(handshake->watch.fd))
        error = ECONNREFUSED;
    if (error != 0)
        finish(handshake, KOLO_VERDICT_ERROR, error);
    else
        enter(handshake, KOLO_HANDSHAKE_AWAITS_NONCE, KOLO_NONCE_BYTES);
}

static void write_claim(struct kolo_handshake *handshake)
{
    if (drain(handshake))
        enter(handshake, KOLO_HANDSHAKE_AWAITS_ANSWER, KOLO_ANSWER_BYTES);
}

static void claim(struct kolo_handshake *handshake)
{
    handshake->lack = kolo_random(handshake->nonce_d, KOLO_NONCE_BYTES);
    if (handshake->lack == KOLO_OK)
        handshake->lack = kolo_claim_make(handshake->secret, handshake->nonce_a, handshake->nonce_d,
                                          handshake->mine, handshake->buf);
    if (handshake->lack != KOLO_OK) {
        finish(handshake, KOLO_VERDICT_LACK, 0);
        return;
    }
    enter(handshake, KOLO_HANDSHAKE_SENDS_CLAIM, KOLO_CLAIM_BYTES);
    write_claim(handshake);
}

static void read_nonce(struct kolo_handshake *handshake)
{
    if (!fill(handshake))
        return;
    memcpy(handshake->nonce_a, handshake->buf, KOLO_NONCE_BYTES);
    if (handshake->owner->may_prove(handshake))
        claim(handshake);
    else
        enter(handshake, KOLO_HANDSHAKE_HELD, 0);
}

static void lose_held(struct kolo_handshake *handshake)
{
    finish(handshake, KOLO_VERDICT_CLOSED, 0);
}

static void read_answer(struct kolo_handshake *handshake)
{
    int32_t to = handshake->mine->to;

    if (!fill(handshake))
        return;
    if (!kolo_answer_check(handshake->secret, handshake->nonce_a, handshake->nonce_d,
                           handshake->buf, &handshake->theirs))
        finish(handshake, KOLO_VERDICT_WRONG_PROOF, 0);
    else if (to >= 0 && handshake->theirs.from >= 0 && handshake->theirs.from != to)
        finish(handshake, KOLO_VERDICT_OTHER_RANK, 0);
    else
        judge(handshake);
}

/* ---- the acceptor's steps ---- */

static void write_nonce(struct kolo_handshake *handshake)
{
    if (drain(handshake))
        enter(handshake, KOLO_HANDSHAKE_AWAITS_CLAIM, KOLO_CLAIM_BYTES);
}

static void write_answer(struct kolo_handshake *handshake)
{
    int32_t from = handshake->mine->from;

    if (!drain(handshake))
        return;
    if (from >= 0 && handshake->theirs.to >= 0 && handshake->theirs.to != from)
        finish(handshake, KOLO_VERDICT_OTHER_RANK, 0);
    else
        judge(handshake);
}

/** The answer is sent even to a peer that wanted another rank or purpose: it has proved itself, and
 *  learns who we are. */
static void read_claim(struct kolo_handshake *handshake)
{
    struct kolo_greeting mine = *handshake->mine;

    if (!fill(handshake))
        return;
    if (!kolo_claim_check(handshake->secret, handshake->nonce_a, handshake->buf, handshake->nonce_d,
                          &handshake->theirs)) {
        finish(handshake, KOLO_VERDICT_WRONG_PROOF, 0);
        return;
    }
    mine.to = handshake->theirs.from;
    if (kolo_answer_make(handshake->secret, handshake->nonce_a, handshake->nonce_d, &mine,
                         handshake->buf) != KOLO_OK) {
        finish(handshake, KOLO_VERDICT_ERROR, EIO);
        return;
    }
    enter(handshake, KOLO_HANDSHAKE_SENDS_ANSWER, KOLO_ANSWER_BYTES);
    write_answer(handshake);
}

/* ---- the table ---- */

typedef void step(struct kolo_handshake *handshake);

// clang-format off
static step *const steps[KOLO_HANDSHAKE_STATES][EVENTS] = {
    [KOLO_HANDSHAKE_CONNECTING]    = {[EV_WRITABLE] = check_connected, [EV_LOST] = check_connected},
    [KOLO_HANDSHAKE_AWAITS_NONCE]  = {[EV_READABLE] = read_nonce,      [EV_LOST] = read_nonce},
    [KOLO_HANDSHAKE_HELD]          = {[EV_PROVE]    = claim,           [EV_LOST] = lose_held},
    [KOLO_HANDSHAKE_SENDS_CLAIM]   = {[EV_WRITABLE] = write_claim,     [EV_LOST] = write_claim},
    [KOLO_HANDSHAKE_AWAITS_ANSWER] = {[EV_READABLE] = read_answer,     [EV_LOST] = read_answer},
    [KOLO_HANDSHAKE_SENDS_NONCE]   = {[EV_WRITABLE] = write_nonce,     [EV_LOST] = write_nonce},
    [KOLO_HANDSHAKE_AWAITS_CLAIM]  = {[EV_READABLE] = read_claim,      [EV_LOST] = read_claim},
    [KOLO_HANDSHAKE_SENDS_ANSWER]  = {[EV_WRITABLE] = write_answer,    [EV_LOST] = write_answer},
};
// clang-format on

static void happen(struct kolo_handshake *handshake, enum event event)
{
    step *const take = steps[handshake->state][event];

    if (take)
        take(handshake);
}

static void ready(struct kolo_watch *watch, uint32_t events)
{
    struct kolo_handshake *handshake = (struct kolo_handshake *)watch;

    if (events & (EPOLLERR | EPOLLHUP))
        happen(handshake, EV_LOST);
    else if (events & EPOLLIN)
        happen(handshake, EV_READABLE);
    else if (events & EPOLLOUT)
        happen(handshake, EV_WRITABLE);
}

/** Sets TCP_NODELAY. Without it a small message is held back until the one before it is
 *  acknowledged, and a peer that has nothing to send acknowledges 40 ms later. Only an improvement,
 *  so failure does not matter. */
static void send_at_once(int fd, int family)
{
    const int on = 1;

    if (family != AF_UNIX && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        KOLO_DEBUG("fd %d: TCP_NODELAY refused", fd);
}

/** Watches the socket in @p state; closes it on failure. */
static int begin(struct kolo_handshake *handshake, int fd, enum kolo_handshake_state state,
                 size_t bytes)
{
    send_at_once(fd, handshake->place->addr.ss_family);
    handshake->watch = (struct kolo_watch){.fd = fd, .ready = ready};
    handshake->lack = kolo_poller_add(handshake->poller, &handshake->watch, states[state].interest);
    if (handshake->lack != KOLO_OK) {
        close(fd);
        handshake->watch.fd = -1;
        return ENOSPC; /* of epoll watches */
    }
    enter(handshake, state, bytes);
    return 0;
}

void kolo_conn_congestion(int fd, char name_out[KOLO_CONGESTION_MAX])
{
    socklen_t bytes = KOLO_CONGESTION_MAX - 1;

    memset(name_out, 0, KOLO_CONGESTION_MAX);
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name_out, &bytes) != 0)
        name_out[0] = '\0';
}

void kolo_conn_set_unpaced(int fd)
{
    char name[KOLO_CONGESTION_MAX];

    kolo_conn_congestion(fd, name);
    if (strncmp(name, "bbr", sizeof "bbr" - 1) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", sizeof "reno" - 1);
}

/** Whether a socket cannot be made only since the machine lacks the family of the address. For any
 *  other reason this process gets none: it has run out of descriptors, or a sandbox refuses. */
static bool is_of_family(int error)
{
    return error == EAFNOSUPPORT || error == EPROTONOSUPPORT || error == EINVAL ||
           error == EPROTOTYPE;
}

int kolo_handshake_dial(struct kolo_handshake *handshake)
{
    const struct kolo_place *place = handshake->place;
    int error;
    int fd = kolo_descriptor_keep(
        socket(place->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

    handshake->lack = KOLO_OK;
    if (fd < 0) {
        error = errno;
        if (!is_of_family(error))
            handshake->lack = kolo_fail_errno(KOLO_ERR_SYSTEM, error, "socket");
        return error;
    }
    kolo_conn_set_unpaced(fd);
    if (connect(fd, (const struct sockaddr *)&place->addr, place->bytes) == 0)
        return begin(handshake, fd, KOLO_HANDSHAKE_AWAITS_NONCE, KOLO_NONCE_BYTES);
    error = errno;
    /* An interrupted connect continues by itself, like one in progress. */
    if (error == EINPROGRESS || error == EINTR)
        return begin(handshake, fd, KOLO_HANDSHAKE_CONNECTING, 0);
    close(fd);
    return error;
}

int kolo_handshake_accept(struct kolo_handshake *handshake, int fd)
{
    if (kolo_random(handshake->nonce_a, KOLO_NONCE_BYTES) != KOLO_OK) {
        close(fd);
        return EIO;
    }
    memcpy(handshake->buf, handshake->nonce_a, KOLO_NONCE_BYTES);
    return begin(handshake, fd, KOLO_HANDSHAKE_SENDS_NONCE, KOLO_NONCE_BYTES);
}

bool kolo_handshake_is_fed(const struct kolo_handshake *handshake)
{
    int there = 0;

    return handshake->state == KOLO_HANDSHAKE_AWAITS_CLAIM &&
           ioctl(handshake->watch.fd, FIONREAD, &there) == 0 &&
           there >= (int)(handshake->bytes - handshake->bytes_done);
}

void kolo_handshake_prove(struct kolo_handshake *handshake)
{
    happen(handshake, EV_PROVE);
}

void kolo_handshake_drop(struct kolo_handshake *handshake)
{
    if (handshake->state != KOLO_HANDSHAKE_OVER) {
        kolo_poller_remove(handshake->poller, &handshake->watch);
        enter(handshake, KOLO_HANDSHAKE_OVER, 0);
    } else if (!handshake->watch.ready) {
        return; /* was never begun */
    }
    if (handshake->watch.fd >= 0)
        close(handshake->watch.fd);
    handshake->watch.fd = -1;
}

int kolo_handshake_take(struct kolo_handshake *handshake)
{
    int fd = handshake->watch.fd;

    handshake->watch.fd = -1;
    return fd;
}
