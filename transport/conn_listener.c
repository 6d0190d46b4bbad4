// SPDX-License-Identifier: Apache-2.0
// Owns a listening socket and its pending connections: those that were accepted and have not proved
// themselves yet, oldest first. All listeners of a poller share one room for them: there are at
// most KOLO_LISTENER_PENDING_MAX in addition to the expected peers, and at most a share of the file
// descriptors that the process may have. So whoever connects cannot take the descriptors that the
// job needs, however many addresses it listens at. Must never let one of them delay another: no
// read waits, each has handshake_ms, and when the limit is reached, the oldest one whose grace has
// passed makes room.
//
// A peer proves itself within a round trip, or within some hundred milliseconds if its machine is
// overloaded; a stranger may never do so. When the limit is reached, the grace decides who makes
// room. A long grace for all would let a flood of strangers keep out quick peers; a short one would
// never let slow peers in. So the grace differs from arrival to arrival: it doubles from GRACE_MS
// to GRACE_MAX_MS, then starts again. Most strangers soon make room, and a slow peer that tries
// again gets a longer grace some time. A connection whose claim has arrived is not dropped because
// this rank was slow to read it.
//
// Accepting pauses (connections wait in the kernel's queue) if the process has no file descriptor
// left, or if the limit is reached and nobody's grace has passed.
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/alloc.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/conn_private.h"

enum {
    GRACE_MS = 20,
    GRACE_MAX_MS = 640,
    JUDGE_MS = 1,      /* until a claim that has arrived is read */
    ACCEPT_BATCH = 32, /* between two looks at the pending ones */
    PAUSE_FIRST_MS = 20,
    PAUSE_MAX_MS = 500,
    BACKLOG = 4096,
    /* The parts of the limit of open files that all strangers, and all expected peers that have not
     * proved themselves, may have. The process may have several pollers, as with ranks that are
     * threads; each has at least ROOM_MIN. */
    STRANGERS_PART = 8,
    PEERS_PART = 2,
    ROOM_MIN = 8
};

/** The room of a poller's listeners. */
struct kolo_conn_room {
    struct kolo_listener *first;
    size_t count;    /* of pending connections */
    size_t expected; /* peers, at all listeners: each may dial all addresses at once */
    size_t limit;    /* the soft limit of open files when the first one listened */
};
static atomic_size_t rooms; /* of the process */

struct pending {
    struct kolo_handshake handshake; /* must be first: the owner's functions get this pointer */
    struct kolo_listener *listener;
    struct kolo_place place;
    kolo_deadline since, grace;
    struct pending *next, *previous; /* ordered by age */
};

struct kolo_listener {
    struct kolo_conn_timer timer; /* must be first: fire gets this pointer */
    struct listening {
        struct kolo_watch watch; /* must be first: ready gets this pointer */
        struct kolo_listener *listener;
    } listening;
    struct kolo_poller *poller;
    struct kolo_place place;
    struct kolo_secret secret;
    struct kolo_greeting mine;
    kolo_conn_done *accepted;
    void *context;
    int64_t handshake_ns;
    int64_t pause_ms;           /* length of the next pause for lack of file descriptors */
    kolo_deadline paused_until; /* KOLO_NEVER: accepting is not paused */
    struct kolo_conn_room *room;
    struct kolo_listener *next; /* in the room */
    size_t expected;
    struct pending *oldest, *newest;
    int64_t grace_ms; /* for the next connection */
    uint64_t strangers;
    int lack;                       /* the errno value when it first ran out; 0: it never did */
    struct kolo_place failed;       /* the latest stranger that tried to prove itself */
    enum kolo_conn_verdict verdict; /* on that one; KOLO_VERDICT_PROVED: there was none */
};

static void reckon(struct kolo_listener *listener)
{
    kolo_deadline at = listener->paused_until;

    if (listener->oldest)
        at = kolo_deadline_min(at, listener->oldest->since + listener->handshake_ns);
    listener->timer.at = at;
}

static void pause_until(struct kolo_listener *listener, kolo_deadline until)
{
    listener->paused_until = until;
    kolo_poller_modify(listener->poller, &listener->listening.watch, 0);
}

static void resume(struct kolo_listener *listener)
{
    listener->paused_until = KOLO_NEVER;
    kolo_poller_modify(listener->poller, &listener->listening.watch, EPOLLIN);
}

/* ---- the room ---- */

/** Enters the poller's room. The listener's timer must have been added. */
static kolo_status enter_room(struct kolo_listener *listener)
{
    struct kolo_conn_room **room = kolo_conn_room(listener->poller);
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

    if (!*room) {
        *room = kolo_calloc(1, sizeof **room);
        if (!*room)
            return KOLO_ERR_NO_MEMORY;
        (void)getrlimit(RLIMIT_NOFILE, &limit);
        (*room)->limit = limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX;
        atomic_fetch_add(&rooms, 1);
    }
    listener->room = *room;
    listener->next = (*room)->first;
    (*room)->first = listener;
    return KOLO_OK;
}

static void leave_room(struct kolo_listener *listener)
{
    struct kolo_conn_room *room = listener->room;
    struct kolo_listener **at;

    if (!room)
        return;
    at = &room->first;
    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
    room->expected -= listener->expected;
    listener->room = NULL;
    if (room->first)
        return;
    *kolo_conn_room(listener->poller) = NULL;
    kolo_free_memory(room);
    atomic_fetch_sub(&rooms, 1);
}

/** @p wanted, or less if this part of the limit of open files, divided among the rooms, is less. */
static size_t bound(const struct kolo_conn_room *room, size_t wanted, size_t part)
{
    size_t most = room->limit / part / atomic_load(&rooms);

    if (most < ROOM_MIN)
        most = ROOM_MIN;
    return wanted < most ? wanted : most;
}

static bool is_full(const struct kolo_conn_room *room)
{
    return room->count >= bound(room, KOLO_LISTENER_PENDING_MAX, STRANGERS_PART) +
                              bound(room, room->expected, PEERS_PART);
}

static void resume_all(struct kolo_conn_room *room)
{
    for (struct kolo_listener *listener = room->first; listener; listener = listener->next)
        if (listener->paused_until != KOLO_NEVER)
            resume(listener);
}

/* ---- pending connections ---- */

/** NULL: no memory. */
static struct pending *add_pending(struct kolo_listener *listener)
{
    struct pending *pending = kolo_calloc(1, sizeof *pending);

    if (!pending)
        return NULL;
    listener->room->count++;
    pending->listener = listener;
    pending->since = kolo_now_ns();
    pending->grace = pending->since + listener->grace_ms * KOLO_NS_PER_MS;
    listener->grace_ms = listener->grace_ms < GRACE_MAX_MS ? listener->grace_ms * 2 : GRACE_MS;
    pending->previous = listener->newest;
    if (listener->newest)
        listener->newest->next = pending;
    else
        listener->oldest = pending;
    listener->newest = pending;
    return pending;
}

static void remove_pending(struct pending *pending)
{
    struct kolo_listener *listener = pending->listener;

    kolo_handshake_drop(&pending->handshake);
    if (pending->previous)
        pending->previous->next = pending->next;
    else
        listener->oldest = pending->next;
    if (pending->next)
        pending->next->previous = pending->previous;
    else
        listener->newest = pending->previous;
    listener->room->count--;
    kolo_free_memory(pending);
}

static void drop(struct pending *pending, const char *why)
{
    char text[KOLO_PLACE_TEXT_MAX];

    if (kolo_log_on(KOLO_LOG_DEBUG)) {
        kolo_place_format(&pending->place, text, sizeof text);
        KOLO_DEBUG("listener: dropped %s: %s", text, why);
    }
    remove_pending(pending);
}

static void drop_stranger(struct pending *pending, const char *why)
{
    pending->listener->strangers++;
    drop(pending, why);
}

static const char *verdict_words(enum kolo_conn_verdict verdict)
{
    switch (verdict) {
    case KOLO_VERDICT_WRONG_PROOF:
        return "does not know the secret";
    case KOLO_VERDICT_OTHER_VERSION:
        return "speaks another protocol version";
    case KOLO_VERDICT_OTHER_PURPOSE:
        return "wants another service";
    case KOLO_VERDICT_OTHER_RANK:
        return "wants another rank";
    case KOLO_VERDICT_PROVED:
    case KOLO_VERDICT_ERROR:
    case KOLO_VERDICT_LACK:
    case KOLO_VERDICT_CLOSED:
    case KOLO_VERDICT_REJECTED:
    case KOLO_VERDICT_SILENT:
    default:
        return "closed";
    }
}

/** Whether a stranger with this verdict may be a peer that was started wrongly. */
static bool has_tried(enum kolo_conn_verdict verdict)
{
    return verdict == KOLO_VERDICT_WRONG_PROOF || verdict == KOLO_VERDICT_OTHER_VERSION;
}

static void over(struct kolo_handshake *handshake, enum kolo_conn_verdict verdict, int error)
{
    struct pending *pending = (struct pending *)handshake;
    struct kolo_listener *listener = pending->listener;
    struct kolo_greeting theirs = handshake->theirs;
    int fd = -1;

    (void)error; /* concerns only a stranger */
    if (verdict == KOLO_VERDICT_PROVED) {
        fd = kolo_handshake_take(handshake);
        remove_pending(pending);
    } else {
        if (has_tried(verdict)) {
            listener->failed = pending->place;
            listener->verdict = verdict;
        }
        drop_stranger(pending, verdict_words(verdict));
    }
    resume_all(listener->room);
    reckon(listener);
    if (fd >= 0)
        listener->accepted(listener->context, KOLO_OK, fd, &theirs); /* may close the listener */
}

static bool never_held(struct kolo_handshake *handshake)
{
    (void)handshake;
    return true;
}

static const struct kolo_handshake_owner owner = {.may_prove = never_held, .over = over};

/* ---- accepting ---- */

bool kolo_listener_explain_lack(const struct kolo_listener *listener, char *text, size_t capacity)
{
    char place[KOLO_PLACE_TEXT_MAX], words[96];

    if (listener->lack == 0)
        return false;
    kolo_place_format(&listener->place, place, sizeof place);
    snprintf(text, capacity,
             "listener %s: accept: %s; connections are dropped or wait, and are tried again (see "
             "`ulimit -n`)",
             place, strerror_r(listener->lack, words, sizeof words));
    return true;
}

/** Said once, since a listener that runs out does so for each connection that follows. */
static void warn_of_shortage(struct kolo_listener *listener, int error)
{
    char text[320];

    if (listener->lack != 0)
        return;
    listener->lack = error;
    if (kolo_listener_explain_lack(listener, text, sizeof text))
        KOLO_WARN("%s", text);
}

/** The older one of two; either may be NULL. */
static struct pending *older(struct pending *a, struct pending *b)
{
    return !a || (b && b->since < a->since) ? b : a;
}

/** Out of file descriptors or memory: drops the oldest pending connection to free its own. It may
 *  be a peer's, which tries again, so it does not count as a stranger. If there is none, accepting
 *  pauses for a while. */
static void run_out(struct kolo_listener *listener, int error)
{
    struct pending *oldest = NULL;

    warn_of_shortage(listener, error);
    for (struct kolo_listener *at = listener->room->first; at; at = at->next)
        oldest = older(oldest, at->oldest);
    if (oldest) {
        drop(oldest, "its file descriptor is needed");
        return;
    }
    pause_until(listener, kolo_now_ns() + listener->pause_ms * KOLO_NS_PER_MS);
    listener->pause_ms =
        listener->pause_ms * 2 < PAUSE_MAX_MS ? listener->pause_ms * 2 : PAUSE_MAX_MS;
}

/** The listener's oldest pending connection whose grace has passed, or NULL. @p next is lowered to
 *  the next time at which one passes. */
static struct pending *find_expendable(struct kolo_listener *listener, kolo_deadline now,
                                       kolo_deadline *next)
{
    for (struct pending *pending = listener->oldest; pending; pending = pending->next) {
        kolo_deadline grace = pending->grace;
        if (grace <= now && kolo_handshake_is_fed(&pending->handshake))
            grace = now + JUDGE_MS * KOLO_NS_PER_MS;
        if (grace <= now)
            return pending;
        *next = kolo_deadline_min(*next, grace);
    }
    return NULL;
}

/** Makes room for one more. False: accepting pauses until the next grace has passed. */
static bool make_room(struct kolo_listener *listener)
{
    struct pending *oldest = NULL;
    kolo_deadline now, next = KOLO_NEVER;

    if (!is_full(listener->room))
        return true;
    now = kolo_now_ns();
    for (struct kolo_listener *at = listener->room->first; at; at = at->next)
        oldest = older(oldest, find_expendable(at, now, &next));
    if (oldest) {
        drop_stranger(oldest, "more strangers wait than there is room for");
        return true;
    }
    pause_until(listener, next);
    return false;
}

static void begin_handshake(struct kolo_listener *listener, int fd, const struct kolo_place *place)
{
    struct pending *pending = add_pending(listener);

    if (!pending) {
        close(fd);
        run_out(listener, ENOMEM);
        return;
    }
    pending->place = *place;
    pending->handshake = (struct kolo_handshake){.watch.fd = -1,
                                                 .poller = listener->poller,
                                                 .owner = &owner,
                                                 .secret = &listener->secret,
                                                 .mine = &listener->mine,
                                                 .place = &pending->place};
    if (kolo_handshake_accept(&pending->handshake, fd) != 0)
        drop_stranger(pending, "cannot be watched");
}

/** False: nobody is waiting, or accepting pauses. */
static bool accept_one(struct kolo_listener *listener)
{
    struct kolo_place place = {.bytes = sizeof place.addr};
    int fd;

    if (!make_room(listener))
        return false;
    fd = kolo_descriptor_keep(accept4(listener->listening.watch.fd, (struct sockaddr *)&place.addr,
                                      &place.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd >= 0) {
        listener->pause_ms = PAUSE_FIRST_MS;
        begin_handshake(listener, fd, &place);
        return listener->paused_until == KOLO_NEVER;
    }
    switch (errno) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        run_out(listener, errno);
        return listener->paused_until == KOLO_NEVER;
    default: /* EINTR, or an error of that one connection */
        return true;
    }
}

static void accept_some(struct kolo_watch *watch, uint32_t events)
{
    struct kolo_listener *listener = ((struct listening *)watch)->listener;
    int tries = ACCEPT_BATCH;

    (void)events;
    while (tries-- > 0 && accept_one(listener))
        ;
    reckon(listener);
}

static void fire(struct kolo_conn_timer *timer, kolo_deadline now)
{
    struct kolo_listener *listener = (struct kolo_listener *)timer;

    while (listener->oldest && listener->oldest->since + listener->handshake_ns <= now &&
           !kolo_handshake_is_fed(&listener->oldest->handshake))
        drop_stranger(listener->oldest, "stayed silent");
    if (listener->paused_until <= now)
        resume(listener);
    reckon(listener);
}

/* ---- open and close ---- */

static kolo_status fail_listen(const struct kolo_place *place, const char *what, int error)
{
    char text[KOLO_PLACE_TEXT_MAX];

    kolo_place_format(place, text, sizeof text);
    return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "cannot listen at %s: %s", text, what);
}

/** Listens there. Returns NULL, or what failed, with the reason in errno. */
static const char *try_place(struct kolo_listener *listener, const struct kolo_place *place,
                             bool is_given)
{
    const int yes = 1;
    int fd = kolo_descriptor_keep(
        socket(place->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

    listener->listening.watch.fd = fd;
    if (fd < 0)
        return "socket";
    kolo_conn_set_unpaced(fd); /* connections that it accepts inherit it */
    /* One port number can serve both families only if the IPv6 socket does not take IPv4 too. */
    if (place->addr.ss_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) != 0)
        return "IPV6_V6ONLY";
    /* A port that the user gave must be available again right after the last job. */
    if (is_given && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
        return "SO_REUSEADDR";
    if (bind(fd, (const struct sockaddr *)&place->addr, place->bytes) != 0)
        return "bind";
    if (listen(fd, BACKLOG) != 0)
        return "listen";
    listener->place.bytes = sizeof listener->place.addr;
    if (getsockname(fd, (struct sockaddr *)&listener->place.addr, &listener->place.bytes) != 0)
        return "getsockname";
    return NULL;
}

/** @p refused: how many ports this user may not have; the others are in use. */
static kolo_status fail_range(const struct kolo_place *place, unsigned refused)
{
    char text[KOLO_PLACE_TEXT_MAX];
    char *colon;

    kolo_place_format(place, text, sizeof text);
    colon = strrchr(text, ':');
    if (colon)
        *colon = '\0';
    if (refused > 0)
        return kolo_fail(
            KOLO_ERR_SYSTEM,
            "KOLO_PORTS=%d-%d: this user may not listen at %u of these ports at %s, any "
            "others are taken; give ports above those that the system keeps "
            "(sysctl net.ipv4.ip_unprivileged_port_start)",
            place->ports.low, place->ports.high, refused, text);
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "KOLO_PORTS=%d-%d: every port is taken at %s; widen the range: each rank of a "
                     "host needs one, and the rendezvous another",
                     place->ports.low, place->ports.high, text);
}

static kolo_status bind_and_listen(struct kolo_listener *listener, const struct kolo_place *place)
{
    struct kolo_place at = *place;
    bool is_ip = kolo_place_is_ip(&at);
    bool is_open = is_ip && kolo_place_port(&at) == 0; /* not chosen yet, by us or the system */
    bool is_given = is_ip && (!is_open || at.ports.low != 0);
    unsigned first = kolo_ports_first(&at.ports);
    unsigned count = is_open ? kolo_ports_count(&at.ports) : 1, refused = 0;

    for (unsigned i = 0; i < count; i++) {
        const char *what;
        if (is_open)
            kolo_place_set_port(&at, kolo_ports_at(&at.ports, first + i));
        what = try_place(listener, &at, is_given);
        if (!what)
            return KOLO_OK;
        if (!is_open || at.ports.low == 0 || (errno != EADDRINUSE && errno != EACCES))
            return fail_listen(&at, what, errno);
        refused += errno == EACCES;
        close(listener->listening.watch.fd);
        listener->listening.watch.fd = -1;
    }
    return fail_range(&at, refused);
}

kolo_status kolo_listener_open(struct kolo_poller *poller,
                               const struct kolo_listener_config *config,
                               struct kolo_listener **listener_out)
{
    struct kolo_listener *listener = kolo_calloc(1, sizeof *listener);
    kolo_status status;

    if (!listener)
        return KOLO_ERR_NO_MEMORY;
    listener->poller = poller;
    listener->listening.watch = (struct kolo_watch){.fd = -1, .ready = accept_some};
    listener->listening.listener = listener;
    listener->secret = *config->secret;
    listener->mine = *config->mine;
    listener->accepted = config->accepted;
    listener->context = config->context;
    listener->handshake_ns = config->handshake_ms * KOLO_NS_PER_MS;
    listener->pause_ms = PAUSE_FIRST_MS;
    listener->paused_until = KOLO_NEVER;
    listener->timer.fire = fire;
    listener->timer.at = KOLO_NEVER;
    listener->grace_ms = GRACE_MS;
    KOLO_TRY(bind_and_listen(listener, config->place));
    KOLO_TRY(kolo_conn_timer_add(&listener->timer, poller));
    KOLO_TRY(enter_room(listener));
    KOLO_TRY(kolo_poller_add(poller, &listener->listening.watch, EPOLLIN));
    *listener_out = listener;
    return KOLO_OK;
out:
    kolo_listener_close(listener);
    return status;
}

void kolo_listener_close(struct kolo_listener *listener)
{
    if (!listener)
        return;
    while (listener->oldest)
        remove_pending(listener->oldest);
    if (listener->listening.watch.fd >= 0) {
        kolo_poller_remove(listener->poller, &listener->listening.watch);
        close(listener->listening.watch.fd);
    }
    leave_room(listener);
    kolo_conn_timer_remove(&listener->timer);
    OPENSSL_cleanse(&listener->secret, sizeof listener->secret);
    kolo_free_memory(listener);
}

void kolo_listener_expect(struct kolo_listener *listener, int peers)
{
    listener->room->expected -= listener->expected;
    listener->expected = (size_t)(peers > 0 ? peers : 0);
    listener->room->expected += listener->expected;
}

void kolo_listener_place(const struct kolo_listener *listener, struct kolo_place *place_out)
{
    *place_out = listener->place;
}

uint64_t kolo_listener_strangers(const struct kolo_listener *listener)
{
    return listener->strangers;
}

bool kolo_listener_explain(const struct kolo_listener *listener, char *text, size_t capacity)
{
    char place[KOLO_PLACE_TEXT_MAX];

    if (!has_tried(listener->verdict))
        return false;
    kolo_place_format(&listener->failed, place, sizeof place);
    snprintf(text, capacity, "a process at %s %s", place, verdict_words(listener->verdict));
    return true;
}
