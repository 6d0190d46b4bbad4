// SPDX-License-Identifier: Apache-2.0
// TCP links: connecting, coming up, the end. tcp_port.c listens and watches, tcp_rx.c and tcp_tx.c
// move the bytes. Must never wait.
//
// Both sides may dial, at the same time and, after a failure, again. A link in CONNECTING has at
// most one connection that may become its own, and the two sides agree on it by a byte each: the
// acceptor's WELCOME offers a connection, the dialler's STANDS takes it. Whoever leaves a
// connection closes it. An acceptor leaves one that it has offered only when it has ended, and the
// dialler takes only one that is offered, so they never take two different ones.
//
//   state   our dial  connection            the peer proves one       the connection ends
//   DIALS   runs      none                  by lower rank: OFFERS
//                                           by higher rank: rival (1)
//   PROVED  over      ours, no WELCOME yet  likewise                  LEFT
//   OFFERS  none      theirs, WELCOME sent  rival                     LEFT
//   JOINED  none      either, STANDS said   closed                    the link is down
//
//   LEFT: the latest rival that has not ended is welcomed; if there is none, we dial (again)
//   (1) it is welcomed if our dial fails; or after RIVAL_MS, if ours is not the link by then. A
//       lower rank that was PROVED once, and is not again, knows better: OFFERS
//
// If dials cross, the lower rank's is taken: the lower rank keeps to it, and the higher rank leaves
// its own when that is proved. A rival of the lower rank that stands after RIVAL_MS nevertheless is
// from a peer that has lost our dial, or cannot be dialled. The dialler has the last word, since a
// dialler that is not answered in time proves itself at another place too, and only it knows which
// of its connections it has kept. If a connection breaks while STANDS is under way, the dialler's
// link is down: it cannot know whether the other side has taken it. An acceptor that closes its
// endpoint meanwhile says goodbye behind its WELCOME, so that this is the end of a link in order.
#include "transport/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "transport/checksum.h"

enum {
    DRAIN_US = 500,  /* no event tells that the last byte is acknowledged: look again after this */
    RIVAL_MS = 1000, /* doubles with each rival that is welcomed after it */
    REDIAL_FIRST_MS = 20,
    REDIAL_MAX_MS = 500,
    WELCOME = 'k',
    STANDS = 's'
};

/* ---- a link's socket ---- */

static struct tcp_port *port_of(const struct tcp_link *tcp)
{
    return (struct tcp_port *)tcp->base.port;
}

static void close_socket(struct tcp_link *tcp)
{
    if (tcp->socket.watch.fd < 0)
        return;
    kolo_poller_remove(kolo_endpoint_poller(tcp->base.endpoint), &tcp->socket.watch);
    close(tcp->socket.watch.fd);
    tcp->socket.watch.fd = -1;
}

static const char *end_words(const struct tcp_link *tcp, int error, char *text, size_t capacity)
{
    switch (error) {
    case 0:
    case EPIPE:
        return tcp->rx.is_in_frame ? "connection closed by peer in the middle of a message"
                                   : "connection closed by peer";
    case ECONNRESET:
        return "connection reset by peer";
    case ETIMEDOUT:
        snprintf(text, capacity,
                 "no answer for %g s (KOLO_PEER_TIMEOUT): its host is down, or the way to it cut, "
                 "or too narrow for long packets (MTU; kolorun doctor tries it)",
                 (double)kolo_tcp_settings(port_of(tcp))->peer_timeout_ms / 1000);
        return text;
    case EHOSTUNREACH:
        return "no route to host";
    case ENETUNREACH:
        return "network unreachable";
    default:
        return strerror_r(error, text, capacity);
    }
}

/** A buffer of this rank's call that the kernel cannot use is not the peer's doing. */
static kolo_status blame_buffer(const struct tcp_link *tcp)
{
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "rank %d's own buffer, for data to or from rank %d at tcp %s, cannot be read "
                     "or written: was it freed during the call, or is it protected?",
                     kolo_endpoint_config_of(tcp->base.endpoint)->rank, tcp->base.peer, tcp->place);
}

void kolo_tcp_fail(struct tcp_link *tcp, int error)
{
    char text[160];
    const kolo_status why = error == EFAULT
                                ? blame_buffer(tcp)
                                : kolo_fail(KOLO_ERR_LINK, "rank %d at tcp %s: %s", tcp->base.peer,
                                            tcp->place, end_words(tcp, error, text, sizeof text));

    kolo_link_set_down(&tcp->base, why);
}

void kolo_tcp_come_up(struct tcp_link *tcp)
{
    kolo_conn_timer_remove(&tcp->deadline.timer);
    kolo_link_set_up(&tcp->base);
    kolo_link_push(&tcp->base);
}

static void drop_rivals(struct tcp_link *tcp)
{
    while (tcp->rivals.count > 0)
        close(tcp->rivals.fds[--tcp->rivals.count]);
}

/** The connection stands. */
static void join(struct tcp_link *tcp)
{
    drop_rivals(tcp);
    tcp->is_joined = true;
    if (port_of(tcp)->rider)
        port_of(tcp)->rider->joined(tcp);
    else
        kolo_tcp_come_up(tcp);
}

/** Writing one byte to an empty socket does not block, unless the system has no memory for it. */
static bool say(int fd, uint8_t byte)
{
    return send(fd, &byte, 1, MSG_NOSIGNAL) == 1;
}

static void go_elsewhere(struct tcp_link *tcp);

/** The dial is proved, and the acceptor's byte says that it uses this connection. */
static void take_welcome(struct tcp_link *tcp)
{
    if (say(tcp->socket.watch.fd, STANDS))
        join(tcp);
    else
        go_elsewhere(tcp);
}

/** The acceptor has left our connection, or it was cut. Only a dial tells whether the peer is there
 *  still: its own may be impossible. */
static void lose_dial(struct tcp_link *tcp)
{
    tcp->is_turned_away = true;
    go_elsewhere(tcp);
}

/** Reads the other side's byte on a connection that is proved. */
static void read_byte(struct tcp_link *tcp, uint8_t expected, void (*came)(struct tcp_link *tcp),
                      void (*ended)(struct tcp_link *tcp))
{
    uint8_t byte = 0;
    ssize_t got = recv(tcp->socket.watch.fd, &byte, 1, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == 1 && byte == expected)
        came(tcp);
    else if (got != 1)
        ended(tcp);
    else
        kolo_link_set_down(&tcp->base,
                           kolo_fail(KOLO_ERR_PROTOCOL, "rank %d at tcp %s: byte %02x for '%c'",
                                     tcp->base.peer, tcp->place, byte, expected));
}

static void ready(struct kolo_watch *watch, uint32_t events)
{
    struct tcp_link *tcp = ((struct tcp_socket *)watch)->link;

    if (tcp->base.state == KOLO_LINK_CONNECTING && !tcp->is_joined) {
        if (tcp->is_ours)
            read_byte(tcp, WELCOME, take_welcome, lose_dial);
        else
            read_byte(tcp, STANDS, join, go_elsewhere);
        return;
    }
    if (events & EPOLLOUT) {
        kolo_tcp_watch_room(tcp, false);
        kolo_link_push(&tcp->base);
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
        return;
    if (port_of(tcp)->rider)
        port_of(tcp)->rider->ready(tcp);
    else
        kolo_tcp_receive(tcp);
}

/** A rank that is awake reads the socket of the peer that it waits for by itself, which takes one
 *  system call per message instead of two. Sockets that nobody waits for are left to the poller. */
bool kolo_tcp_pull(struct kolo_link *base)
{
    struct tcp_link *tcp = (struct tcp_link *)base;

    return (base->receives > 0 || base->sends > 0 || tcp->rx.held > 0) && kolo_tcp_receive(tcp);
}

/** Takes over a proved connection. */
static kolo_status use_socket(struct tcp_link *tcp, int fd)
{
    struct kolo_place place = {.bytes = sizeof place.addr};
    kolo_status status;

    if (getpeername(fd, (struct sockaddr *)&place.addr, &place.bytes) == 0)
        kolo_place_format(&place, tcp->place, sizeof tcp->place);
    kolo_tcp_set_options(port_of(tcp), fd);
    tcp->socket.watch.fd = fd;
    status = kolo_poller_add(kolo_endpoint_poller(tcp->base.endpoint), &tcp->socket.watch, EPOLLIN);
    if (status != KOLO_OK) {
        close(fd);
        tcp->socket.watch.fd = -1;
    }
    return status;
}

/** Acceptor: offers to use this dial. */
static kolo_status welcome(struct tcp_link *tcp, int fd)
{
    kolo_status status = use_socket(tcp, fd);

    tcp->is_ours = tcp->is_joined = false;
    /* The dialler may have left, or the system have no memory for the byte: both sides then read
     * the end of the stream, and dial again. Without it the dialler would wait for the byte. */
    if (status == KOLO_OK && !say(fd, WELCOME))
        (void)shutdown(fd, SHUT_RDWR);
    return status;
}

/** Whether @p tcp is an acceptor that still waits for the dialler's byte. */
static bool awaits_stand(const struct tcp_link *tcp)
{
    return tcp->socket.watch.fd >= 0 && !tcp->is_ours && !tcp->is_joined;
}

/** If there are too many, the oldest one is closed: its dialler has had time to leave it. */
static void add_rival(struct tcp_rivals *rivals, int fd)
{
    if (rivals->count == TCP_RIVALS_MAX) {
        close(rivals->fds[0]);
        memmove(&rivals->fds[0], &rivals->fds[1], (TCP_RIVALS_MAX - 1) * sizeof rivals->fds[0]);
        rivals->count--;
    }
    rivals->fds[rivals->count++] = fd;
}

/** The latest of them that has not ended; -1: there is none. */
static int take_rival(struct tcp_rivals *rivals)
{
    while (rivals->count > 0) {
        int fd = rivals->fds[--rivals->count];
        if (!kolo_conn_is_left(fd))
            return fd;
        close(fd);
    }
    return -1;
}

/** Leaves the connection or the dial that there is for one that the peer has proved. */
static void prefer(struct tcp_link *tcp, int fd)
{
    kolo_status status;

    kolo_conn_cancel(tcp->dial);
    tcp->dial = NULL;
    tcp->rival_at = KOLO_NEVER;
    close_socket(tcp);
    status = welcome(tcp, fd);
    if (status != KOLO_OK)
        kolo_link_set_down(&tcp->base, status);
}

/* ---- connecting ---- */

static const char advice[] = "is a firewall between the hosts? KOLO_PORTS=LOW-HIGH keeps kolo to "
                             "ports that it can let through, KOLO_NET to a network";

static bool is_same_host(const struct tcp_link *tcp)
{
    const struct kolo_endpoint *endpoint = tcp->base.endpoint;

    return kolo_endpoint_config_of(endpoint)->identity.host_id ==
           kolo_endpoint_peer(endpoint, tcp->base.peer)->identity.host_id;
}

static const char turned_away[] =
    "it has proved itself before, and the connection ended: was it cut, "
    "or has the rank given up this link?";

/** The number of links whose dials take long too, which need not be told again. */
static int take_late(const struct tcp_port *port, kolo_deadline now)
{
    int count = 0;

    for (struct tcp_link *tcp = port->first; tcp; tcp = tcp->next) {
        if (tcp->base.state != KOLO_LINK_CONNECTING || !tcp->dial || now < tcp->warn_at)
            continue;
        tcp->warn_at = KOLO_NEVER;
        count++;
    }
    return count;
}

/** Only this rank notices this: for the store, all ranks are there and one waits. Of many dials
 * that take long one is named, and the others are counted: a rank of many would say it of each. */
static void warn_of_dial(struct tcp_link *tcp, kolo_deadline now)
{
    struct tcp_port *port = port_of(tcp);
    const int64_t patience_ms = kolo_tcp_settings(port)->stall_warn_ms;
    char text[KOLO_DETAIL_MAX], more[48] = "";

    if (now < port->warned_until) {
        tcp->warn_at = port->warned_until;
        return;
    }
    const int others = take_late(port, now) - 1;
    port->warned_until = kolo_deadline_plus_ms(now, patience_ms);
    kolo_conn_explain(tcp->dial, text, sizeof text);
    if (others > 0)
        snprintf(more, sizeof more, "; %d more rank%s waited for, too", others,
                 others == 1 ? " is" : "s are");
    KOLO_WARN("for %g s now: %s%s", (double)patience_ms / 1000, text, more);
}

/** Sets the timer to what is due next. */
static void reckon(struct tcp_link *tcp)
{
    tcp->deadline.timer.at =
        kolo_deadline_min(tcp->dial_by, kolo_deadline_min(tcp->warn_at, tcp->rival_at));
}

static void give_up(struct tcp_link *tcp)
{
    kolo_fail(KOLO_ERR_TIMEOUT,
              "rank %d is late: tcp %s knows the secret but did not %s in time; is it busy, or "
              "stopped?",
              tcp->base.peer, tcp->place,
              tcp->is_joined      ? "settle what the connection is for"
              : awaits_stand(tcp) ? "say that its connection stands"
                                  : "take the connection");
    kolo_link_set_down(&tcp->base, KOLO_ERR_TIMEOUT);
}

/** The peer's connection has waited for ours to become the link. If it still stands, the peer has
 *  lost ours, or ours is stuck. */
static void review_rivals(struct tcp_link *tcp)
{
    int fd;

    tcp->rival_at = KOLO_NEVER;
    if (tcp->is_joined || awaits_stand(tcp))
        return;
    fd = take_rival(&tcp->rivals);
    if (fd < 0)
        return;
    KOLO_DEBUG("tcp %s: the other side's dial is taken instead", tcp->place);
    tcp->patience++;
    prefer(tcp, fd);
}

static void due(struct kolo_conn_timer *timer, kolo_deadline now)
{
    struct tcp_link *tcp = ((struct tcp_deadline *)timer)->link;

    if (now >= tcp->dial_by) {
        if (tcp->dial) /* its own end is due too, and says more */
            timer->at = now + 1;
        else
            give_up(tcp);
        return;
    }
    if (now >= tcp->warn_at) {
        if (tcp->dial)
            warn_of_dial(tcp, now);
        else
            tcp->warn_at = KOLO_NEVER;
    }
    if (now >= tcp->rival_at)
        review_rivals(tcp);
    if (tcp->base.state == KOLO_LINK_CONNECTING)
        reckon(tcp);
}

static void dialled(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct tcp_link *tcp = context;
    int rival = -1;

    (void)theirs; /* kolo_conn_dial has checked the rank */
    tcp->dial = NULL;
    if (status != KOLO_OK)
        rival = take_rival(&tcp->rivals);
    if (rival >= 0) {
        prefer(tcp, rival);
        return;
    }
    tcp->is_ours = status == KOLO_OK;
    if (status == KOLO_OK)
        status = use_socket(tcp, fd);
    if (status != KOLO_OK)
        kolo_link_set_down(&tcp->base, status);
}

/** How many ranks of this host have a lower number. */
static unsigned turn_of(struct tcp_port *port)
{
    const struct kolo_endpoint *endpoint = port->base.endpoint;
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(endpoint);

    if (port->turn < 0) {
        port->turn = 0;
        for (int rank = 0; rank < config->rank; rank++)
            port->turn +=
                kolo_endpoint_peer(endpoint, rank)->identity.host_id == config->identity.host_id;
    }
    return (unsigned)port->turn;
}

/** How long this dial of the link waits, in case the peer ends each. Both sides may have seen the
 *  same end. If each dial of the lower rank is cut, the other's must come while it waits. */
static int64_t next_pause_ms(struct tcp_link *tcp)
{
    const bool goes_second = tcp->is_turned_away && !kolo_link_gives_way(&tcp->base);
    int64_t pause_ms = tcp->pause_ms;

    tcp->pause_ms = pause_ms == 0 ? REDIAL_FIRST_MS : pause_ms * 2;
    if (tcp->pause_ms > REDIAL_MAX_MS)
        tcp->pause_ms = REDIAL_MAX_MS;
    return goes_second ? pause_ms * 2 : pause_ms;
}

static kolo_status dial(struct tcp_link *tcp)
{
    struct kolo_endpoint *endpoint = tcp->base.endpoint;
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(endpoint);
    const struct kolo_greeting mine = {.protocol = KOLO_PROTOCOL_VERSION,
                                       .purpose = port_of(tcp)->purpose,
                                       .from = config->rank,
                                       .to = tcp->base.peer};
    const struct kolo_peer *peer = kolo_endpoint_peer(endpoint, tcp->base.peer);
    struct kolo_place places[TCP_PLACES_MAX];
    size_t count = 0;
    kolo_status status;

    status = kolo_tcp_places_of(port_of(tcp), peer, places, &count);
    if (status != KOLO_OK)
        return status;
    tcp->race = (struct kolo_race){.locals = port_of(tcp)->places,
                                   .local_count = port_of(tcp)->place_count,
                                   .numa_node = config->identity.numa,
                                   .turn = turn_of(port_of(tcp))};
    kolo_place_format(&places[0], tcp->place, sizeof tcp->place);
    tcp->warn_at = kolo_deadline_min(
        tcp->warn_at, kolo_deadline_in_ms(kolo_tcp_settings(port_of(tcp))->stall_warn_ms));
    reckon(tcp);
    /* Inside one host every address is reached over loopback, so there is nothing to compare. */
    const struct kolo_dial_config dial_config = {.places = places,
                                                 .count = count,
                                                 .secret = &config->secret,
                                                 .mine = &mine,
                                                 .pause_ms = next_pause_ms(tcp),
                                                 .deadline = tcp->dial_by,
                                                 .race = is_same_host(tcp) ? NULL : &tcp->race,
                                                 .advice = tcp->is_turned_away ? turned_away
                                                           : is_same_host(tcp) ? NULL
                                                                               : advice,
                                                 .done = dialled,
                                                 .context = tcp};
    status = kolo_conn_dial(kolo_endpoint_poller(endpoint), &dial_config, &tcp->dial);
    if (status == KOLO_OK)
        kolo_conn_expect(tcp->dial, kolo_deadline_in_ms(config->settings->start_timeout_ms));
    return status;
}

/** The connection that there was has ended. The peer's latest dial is the one that it has most
 *  likely kept. If there is none, a dial of ours reaches it, or finds out why that is
 *  impossible. */
static void go_elsewhere(struct tcp_link *tcp)
{
    int rival = take_rival(&tcp->rivals);
    kolo_status status;

    KOLO_DEBUG("tcp %s: left by the other side", tcp->place);
    if (rival >= 0) {
        prefer(tcp, rival);
        return;
    }
    close_socket(tcp);
    status = dial(tcp);
    if (status != KOLO_OK)
        kolo_link_set_down(&tcp->base, status);
}

/** Whether the peer may have taken our dial already. */
static bool may_be_proved(const struct tcp_link *tcp)
{
    return tcp->socket.watch.fd >= 0 || (tcp->dial && kolo_conn_is_proving(tcp->dial));
}

void kolo_tcp_adopt(struct kolo_link *base, int fd)
{
    struct tcp_link *tcp = (struct tcp_link *)base;

    if (tcp->is_joined) {
        close(fd);
    } else if (awaits_stand(tcp)) {
        add_rival(&tcp->rivals, fd);
    } else if (!kolo_link_gives_way(base) && (!tcp->is_turned_away || may_be_proved(tcp))) {
        add_rival(&tcp->rivals, fd);
        tcp->rival_at = kolo_deadline_min(tcp->rival_at,
                                          kolo_deadline_in_ms((int64_t)RIVAL_MS << tcp->patience));
        reckon(tcp);
    } else {
        prefer(tcp, fd);
    }
}

void kolo_tcp_down(struct kolo_link *base)
{
    struct tcp_link *tcp = (struct tcp_link *)base;

    kolo_conn_cancel(tcp->dial);
    tcp->dial = NULL;
    close_socket(tcp);
    drop_rivals(tcp);
    kolo_conn_timer_remove(&tcp->deadline.timer);
    kolo_tcp_tx_drop(tcp);
}

void kolo_tcp_free_link(struct kolo_link *base)
{
    struct tcp_link *tcp = (struct tcp_link *)base;
    struct tcp_link **at = &port_of(tcp)->first;

    kolo_tcp_down(base);
    while (*at && *at != tcp)
        at = &(*at)->next;
    if (*at)
        *at = tcp->next;
    kolo_free_memory(tcp->rx.buf);
    kolo_link_fini(base);
    kolo_free_memory(tcp);
}

kolo_status kolo_tcp_connect(struct kolo_port *base, int peer, int fd, kolo_deadline deadline,
                             struct kolo_link **link_out)
{
    struct tcp_port *port = (struct tcp_port *)base;
    struct kolo_poller *poller = kolo_endpoint_poller(base->endpoint);
    size_t bytes = port->rider ? port->rider->link_bytes : sizeof(struct tcp_link);
    struct tcp_link *tcp = kolo_calloc(1, bytes);

    if (!tcp) {
        if (fd >= 0)
            close(fd);
        return KOLO_ERR_NO_MEMORY;
    }
    tcp->socket = (struct tcp_socket){.watch = {.fd = -1, .ready = ready}, .link = tcp};
    tcp->deadline = (struct tcp_deadline){.timer = {.at = deadline, .fire = due}, .link = tcp};
    kolo_link_init(&tcp->base, base, peer);
    kolo_status status = kolo_sums_open(&tcp->base);
    tcp->dial_by = deadline;
    tcp->warn_at = tcp->rival_at = KOLO_NEVER;
    tcp->next = port->first;
    port->first = tcp;
    if (status == KOLO_OK)
        status = kolo_conn_timer_add(&tcp->deadline.timer, poller);
    if (status == KOLO_OK)
        status = fd >= 0 ? welcome(tcp, fd) : dial(tcp);
    else if (fd >= 0)
        close(fd);
    if (status != KOLO_OK) {
        tcp->base.transport->free_link(&tcp->base);
        return status;
    }
    *link_out = &tcp->base;
    return KOLO_OK;
}

/* ---- the end ---- */

/** Drained means acknowledged: if a socket is closed while our side has unread bytes, the kernel
 *  discards what it has not delivered. */
bool kolo_tcp_is_drained(const struct kolo_link *base)
{
    const struct tcp_link *tcp = (const struct tcp_link *)base;
    int unacknowledged = 0;

    if (tcp->tx.count > 0)
        return false;
    if (tcp->socket.watch.fd < 0 || ioctl(tcp->socket.watch.fd, SIOCOUTQ, &unacknowledged) != 0 ||
        unacknowledged == 0)
        return true;
    port_of(tcp)->drain.timer.at = kolo_tcp_soon(DRAIN_US);
    return false;
}

/** The peer may not have read yet that its connection is welcome. Once it has, the next that it
 *  reads are the notices that wait here, and the goodbye. Its own byte is not read any more. */
static void leave(struct kolo_link *base)
{
    struct tcp_link *tcp = (struct tcp_link *)base;

    if (awaits_stand(tcp))
        kolo_tcp_come_up(tcp);
}

/** What the kernel holds is the end of what was sent, also once the connection has failed. A
 *  message that is not in it is acknowledged: nothing is lost if only the goodbye is. Before the
 *  first message it may hold the dialler's byte, which `passed` does not count. */
bool kolo_tcp_has_undelivered(const struct kolo_link *base)
{
    const struct tcp_link *tcp = (const struct tcp_link *)base;
    const struct tcp_tx *tx = &tcp->tx;
    int unacknowledged = 0;

    return tx->ended > 0 && tcp->socket.watch.fd >= 0 &&
           ioctl(tcp->socket.watch.fd, SIOCOUTQ, &unacknowledged) == 0 &&
           (uint64_t)unacknowledged > tx->passed + tx->offset - tx->ended;
}

/** How many times in a row the kernel has sent the same data again without any acknowledgement. */
static unsigned sent_in_vain(const struct tcp_link *tcp)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;

    if (tcp->socket.watch.fd < 0 ||
        getsockopt(tcp->socket.watch.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return 0;
    return info.tcpi_unacked > 0 ? info.tcpi_retransmits : 0;
}

void kolo_tcp_describe(const struct kolo_link *base, char *text, size_t capacity)
{
    enum { IN_VAIN = 3 }; /* one or two are lost now and then */
    const struct tcp_link *tcp = (const struct tcp_link *)base;
    const unsigned in_vain = sent_in_vain(tcp);
    char so_far[KOLO_DETAIL_MAX];

    if (tcp->dial) {
        kolo_conn_explain(tcp->dial, so_far, sizeof so_far);
        snprintf(text, capacity, "tcp %s (%s)", tcp->place, so_far);
    } else if (in_vain < IN_VAIN)
        snprintf(text, capacity, "tcp %s", tcp->place);
    else
        snprintf(text, capacity,
                 "tcp %s (sent the same %u times, unanswered: is the way cut, or for long packets, "
                 "by its MTU? kolorun doctor tries)",
                 tcp->place, in_vain + 1);
}

static void explain(const struct kolo_link *base, char *text, size_t capacity)
{
    const struct tcp_link *tcp = (const struct tcp_link *)base;
    struct kolo_place ours = {.bytes = sizeof ours.addr};
    char place[64] = "?";

    if (getsockname(tcp->socket.watch.fd, (struct sockaddr *)&ours.addr, &ours.bytes) == 0)
        kolo_place_format(&ours, place, sizeof place);
    if (!tcp->is_ours)
        snprintf(text, capacity, "%s to %s, dialled by rank %d", place, tcp->place, base->peer);
    else if (tcp->race.tried == 0)
        snprintf(text, capacity, "%s to %s", place, tcp->place);
    else
        snprintf(text, capacity, "%s to %s by %s; the best of %zu that answered of %zu", place,
                 tcp->place, tcp->race.text, tcp->race.answered, tcp->race.tried);
}

const struct kolo_transport kolo_transport_tcp = {
    .name = "tcp",
    .purpose = KOLO_PURPOSE_TCP,
    .probe = kolo_tcp_probe,
    .open = kolo_tcp_open,
    .close = kolo_tcp_close,
    .reaches = kolo_tcp_reaches,
    .line = kolo_tcp_line,
    .connect = kolo_tcp_connect,
    .adopt = kolo_tcp_adopt,
    .push = kolo_tcp_push,
    .gathers = true,
    .pull = kolo_tcp_pull,
    .withdraw = kolo_tcp_withdraw,
    .describe = kolo_tcp_describe,
    .explain = explain,
    .is_drained = kolo_tcp_is_drained,
    .has_undelivered = kolo_tcp_has_undelivered,
    .leave = leave,
    .down = kolo_tcp_down,
    .free_link = kolo_tcp_free_link,
};
