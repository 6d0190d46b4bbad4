// SPDX-License-Identifier: Apache-2.0
// The TCP port of a rank: listeners, published addresses, socket options, and the watchdog over its
// links. Must never take a slow peer for a lost one.
//
// A lost host: keepalive.h has idle connections probed. TCP_USER_TIMEOUT is not used, since
// it also ends connections whose peer answers but does not read for that long, such as a rank that
// computes between two collectives while its neighbour already sends. Instead, a watchdog checks at
// most once a second whether bytes are unacknowledged and nothing has come back for peer_timeout.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "transport/keepalive.h"
#include "transport/tcp.h"

enum { WATCH_MS_MAX = 1000 };

const struct kolo_settings *kolo_tcp_settings(const struct tcp_port *port)
{
    return kolo_endpoint_config_of(port->base.endpoint)->settings;
}

kolo_deadline kolo_tcp_soon(int64_t us)
{
    return kolo_now_ns() + us * 1000;
}

kolo_status kolo_tcp_places_of(const struct tcp_port *port, const struct kolo_peer *peer,
                               struct kolo_place *places_out, size_t *count_out)
{
    const struct kolo_address *address = kolo_port_address_of(&port->base, peer);
    size_t prefix = port->rider ? port->rider->prefix(address) : 0;

    if (prefix > address->bytes)
        prefix = address->bytes;
    return kolo_tcp_read_places(address->data + prefix, address->bytes - prefix, places_out,
                                count_out);
}

/* ---- socket options ---- */

static bool joins_same_host(int fd)
{
    struct kolo_place ours = {.bytes = sizeof ours.addr}, theirs = {.bytes = sizeof theirs.addr};

    return getsockname(fd, (struct sockaddr *)&ours.addr, &ours.bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs.addr, &theirs.bytes) == 0 &&
           kolo_place_is_same_ip(&ours, &theirs);
}

static bool set_congestion(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
}

/** The congestion control that the system gives to sockets by default. */
static void find_congestion(struct tcp_port *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    kolo_conn_congestion(fd, port->congestion);
    if (fd >= 0)
        close(fd);
}

/** Warns once that a congestion control is not available, and why (errno). */
static void warn_congestion(struct tcp_port *port, const char *name)
{
    if (port->has_warned)
        return;
    port->has_warned = true;
    KOLO_WARN("KOLO_TCP_CONGESTION=%s refused: %s; it is as if it were not set (sysctl "
              "net.ipv4.tcp_allowed_congestion_control lists what users may choose)",
              name, errno == ENOENT ? "unknown to this kernel" : "not allowed");
}

/** Whether the connection still has what kolo_conn_set_unpaced set. A route may have a congestion
 *  control of its own. */
static bool is_reno(int fd)
{
    char name[KOLO_CONGESTION_MAX];

    kolo_conn_congestion(fd, name);
    return strcmp(name, "reno") == 0;
}

/** Chooses the one that was asked for. Otherwise, between hosts, the system's. Inside a host it is
 *  reno, since there is no wire to share. Congestion controls that pace are slowed down by pacing
 *  there. cubic takes rising round trips, which come from busy processors there, for a full wire;
 *  it then ends its slow start early and lets its window grow by the clock. reno's window grows
 *  with every round trip, and those take microseconds. */
static void choose_congestion(struct tcp_port *port, int fd)
{
    const char *name = kolo_tcp_settings(port)->tcp_congestion;

    if (name[0] != '\0') {
        if (set_congestion(fd, name))
            return;
        warn_congestion(port, name);
    }
    if (joins_same_host(fd))
        (void)set_congestion(fd, "reno"); /* otherwise the system's stays */
    else if (port->congestion[0] != '\0' && is_reno(fd) && !set_congestion(fd, port->congestion))
        KOLO_INFO("tcp: congestion control %s, the system's, is refused: %s; it is reno",
                  port->congestion, strerror(errno));
}

void kolo_tcp_set_options(struct tcp_port *port, int fd)
{
    kolo_keepalive_set(fd, kolo_tcp_settings(port)->peer_timeout_ms);
    choose_congestion(port, fd);
}

/* ---- lost hosts ---- */

/** Since when bytes are unacknowledged and nothing has come from the peer; 0: that is not the case.
 *  A closed window is not silence, since the peer's kernel answers our kernel's probes. It does not
 *  answer every probe (two within half a second get one answer), and one may be lost, while the
 *  next one comes after twice the time; but if several in a row have no answer, the path has
 *  failed. */
static kolo_deadline silent_since(const struct tcp_link *tcp, kolo_deadline now)
{
    enum { PROBES_IN_VAIN = 3 };
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    kolo_deadline heard;

    if (getsockopt(tcp->socket.watch.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return 0;
    heard = now - info.tcpi_last_ack_recv * KOLO_NS_PER_MS;
    if (info.tcpi_unacked == 0)
        return info.tcpi_probes >= PROBES_IN_VAIN ? heard : 0;
    if (tcp->stuck_since == 0)
        return now;
    return heard > tcp->stuck_since ? heard : tcp->stuck_since;
}

int64_t kolo_tcp_watch_us(const struct tcp_port *port)
{
    int64_t quarter_ms = kolo_tcp_settings(port)->peer_timeout_ms / 4;

    return (quarter_ms < WATCH_MS_MAX ? quarter_ms : WATCH_MS_MAX) * 1000;
}

static void watch_links(struct kolo_conn_timer *timer, kolo_deadline now)
{
    struct tcp_port *port = ((struct tcp_port_timer *)timer)->port;
    int64_t timeout_ns = kolo_tcp_settings(port)->peer_timeout_ms * KOLO_NS_PER_MS;
    /* A rank that was busy elsewhere between two looks knows nothing about the time between them:
     * what is unacknowledged now may have been sent just now. */
    bool is_late = now - timer->at > 2 * kolo_tcp_watch_us(port) * 1000;

    for (struct tcp_link *tcp = port->first; tcp; tcp = tcp->next) {
        if (tcp->base.state != KOLO_LINK_UP)
            continue;
        if (is_late)
            tcp->stuck_since = 0;
        tcp->stuck_since = silent_since(tcp, now);
        if (tcp->stuck_since != 0 && now - tcp->stuck_since >= timeout_ns)
            kolo_tcp_fail(tcp, ETIMEDOUT);
    }
    timer->at = kolo_tcp_soon(kolo_tcp_watch_us(port));
}

static void look_again(struct kolo_conn_timer *timer, kolo_deadline now)
{
    (void)now;
    timer->at = KOLO_NEVER; /* its purpose was to end a sleep */
}

/* ---- the port ---- */

static kolo_status add_listener(struct tcp_port *port, const struct kolo_place *place)
{
    kolo_status status = kolo_endpoint_listen(port->base.endpoint, &port->base, port->purpose,
                                              place, &port->listeners[port->listener_count]);

    if (status == KOLO_OK)
        port->listener_count++;
    return status;
}

/** The place that stands for all addresses of a family. */
static struct kolo_place any_place(sa_family_t family, const struct kolo_ports *ports)
{
    struct kolo_place place = kolo_place_make(family, NULL, 0);

    place.ports = *ports;
    return place;
}

/** Listens at @p place; with KOLO_PORTS, at the port of the first listener if that is free here. */
static kolo_status add_listener_beside(struct tcp_port *port, struct kolo_place *place)
{
    struct kolo_place first = *place;

    if (port->listener_count > 0 && place->ports.low != 0) {
        struct kolo_place bound;
        kolo_listener_place(port->listeners[0], &bound);
        kolo_place_set_port(&first, kolo_place_port(&bound));
        if (add_listener(port, &first) == KOLO_OK)
            return KOLO_OK;
    }
    return add_listener(port, place);
}

/** Listens at every address of both families that this machine has; places of a family without a
 *  listener are removed. */
static kolo_status listen_everywhere(struct tcp_port *port, const struct kolo_ports *ports,
                                     struct kolo_place *places, size_t *count)
{
    static const sa_family_t families[] = {AF_INET, AF_INET6};
    kolo_status status = KOLO_OK;
    size_t kept = 0;

    for (size_t f = 0; f < 2; f++) {
        struct kolo_place any = any_place(families[f], ports);
        kolo_status tried = add_listener_beside(port, &any);
        if (tried != KOLO_OK)
            status = tried;
    }
    for (size_t i = 0; i < *count; i++)
        for (size_t j = 0; j < port->listener_count; j++) {
            struct kolo_place bound;
            kolo_listener_place(port->listeners[j], &bound);
            if (bound.addr.ss_family != places[i].addr.ss_family)
                continue;
            kolo_place_set_port(&places[i], kolo_place_port(&bound));
            places[kept++] = places[i];
        }
    *count = kept;
    return kept > 0 ? KOLO_OK : status;
}

/** Listens only at the addresses that KOLO_NET allows. */
static kolo_status listen_at(struct tcp_port *port, const struct kolo_ports *ports,
                             struct kolo_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct kolo_place bound;
        places[i].ports = *ports;
        kolo_status status = add_listener_beside(port, &places[i]);
        if (status != KOLO_OK)
            return status;
        kolo_listener_place(port->listeners[i], &bound);
        kolo_place_set_port(
            &places[i],
            kolo_place_port(&bound)); /* only the port: what is known of the interface stays */
    }
    return KOLO_OK;
}

void kolo_tcp_fini_port(struct tcp_port *port)
{
    for (size_t i = 0; i < port->listener_count; i++)
        kolo_listener_close(port->listeners[i]);
    kolo_conn_timer_remove(&port->watchdog.timer);
    kolo_conn_timer_remove(&port->drain.timer);
}

void kolo_tcp_close(struct kolo_port *base)
{
    struct tcp_port *port = (struct tcp_port *)base;

    if (!port)
        return;
    kolo_tcp_fini_port(port);
    kolo_free_memory(port);
}

/** Hosts differ, so this is not an error, but the entry may be misspelt. Rank 0 warns on behalf of
 *  all. */
static void warn_unnamed(const struct kolo_endpoint_config *config)
{
    char unnamed[256];

    if (config->rank != 0 || config->settings->net[0] == '\0')
        return;
    kolo_places_unnamed(config->settings->net, unnamed, sizeof unnamed);
    if (unnamed[0] != '\0')
        KOLO_WARN("KOLO_NET: %s: no interface and no address of host %s has this name (right, if "
                  "another host has it)",
                  unnamed, config->identity.host);
}

/** Inside one host this does not matter. The first rank of a host warns; without a launcher, which
 *  would number the ranks, rank 0. */
static void warn_missed(const struct tcp_port *port)
{
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(port->base.endpoint);
    const struct kolo_settings *settings = config->settings;
    int64_t number = settings->local_rank >= 0 ? settings->local_rank : config->rank;
    size_t all;

    if (number != 0 || settings->local_size == config->size || port->place_count < TCP_PLACES_MAX)
        return;
    all = kolo_places_missed(settings->net, port->places, port->place_count);
    if (all > 0)
        KOLO_WARN(
            "host %s has %zu addresses, and its ranks offer others the first %zu in the order "
            "of `kolorun info`; name the network between the hosts in KOLO_NET",
            config->identity.host, all, port->place_count);
}

/** The kernel may refuse an address for a while, or for good: other hosts are told of none then,
 *  and only this rank knows why. */
static void warn_unusable(const struct tcp_port *port)
{
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(port->base.endpoint);
    const struct kolo_settings *settings = config->settings;
    char unusable[512];

    if (settings->local_size == config->size ||
        !kolo_places_are_loopback(port->places, port->place_count))
        return;
    kolo_places_unusable(settings->net, unusable, sizeof unusable);
    if (unusable[0] != '\0')
        KOLO_WARN("host %s offers the other hosts only loopback addresses: %s",
                  config->identity.host, unusable);
}

kolo_status kolo_tcp_init_port(struct tcp_port *port, struct kolo_endpoint *endpoint,
                               const struct kolo_transport *transport, uint8_t purpose,
                               struct kolo_address *address_out)
{
    const struct kolo_settings *settings = kolo_endpoint_config_of(endpoint)->settings;
    struct kolo_poller *poller = kolo_endpoint_poller(endpoint);
    struct kolo_place places[TCP_PLACES_MAX];
    struct kolo_ports ports;
    size_t count = 0;
    kolo_status status;

    port->base.endpoint = endpoint;
    port->base.transport = transport;
    port->purpose = purpose;
    port->turn = -1;
    find_congestion(port);
    port->watchdog = (struct tcp_port_timer){
        {.at = kolo_tcp_soon(kolo_tcp_watch_us(port)), .fire = watch_links}, port};
    port->drain = (struct tcp_port_timer){{.at = KOLO_NEVER, .fire = look_again}, port};
    KOLO_TRY(kolo_ports_parse(settings->ports, &ports));
    KOLO_TRY(kolo_places_local(settings->net, 0, places, TCP_PLACES_MAX, &count));
    warn_unnamed(kolo_endpoint_config_of(endpoint));
    if (settings->net[0] != '\0')
        KOLO_TRY(listen_at(port, &ports, places, count));
    else
        KOLO_TRY(listen_everywhere(port, &ports, places, &count));
    KOLO_TRY(kolo_tcp_write_places(places, count, address_out));
    memcpy(port->places, places, count * sizeof places[0]);
    port->place_count = count;
    KOLO_TRY(kolo_conn_timer_add(&port->watchdog.timer, poller));
    KOLO_TRY(kolo_conn_timer_add(&port->drain.timer, poller));
out:
    return status;
}

kolo_status kolo_tcp_open(struct kolo_endpoint *endpoint, struct kolo_port **port_out,
                          struct kolo_address *address_out)
{
    struct tcp_port *port = kolo_calloc(1, sizeof *port);
    kolo_status status;

    if (!port)
        return KOLO_ERR_NO_MEMORY;
    status = kolo_tcp_init_port(port, endpoint, &kolo_transport_tcp, KOLO_PURPOSE_TCP, address_out);
    if (status != KOLO_OK) {
        address_out->bytes = 0;
        kolo_tcp_close(&port->base);
        return status;
    }
    warn_missed(port);
    warn_unusable(port);
    *port_out = &port->base;
    return KOLO_OK;
}

kolo_status kolo_tcp_probe(const struct kolo_settings *settings, struct kolo_why *why_out)
{
    struct kolo_place place;
    size_t count;
    kolo_status status = kolo_places_local(settings->net, 0, &place, 1, &count);

    snprintf(why_out->text, sizeof why_out->text, "%.250s",
             status == KOLO_OK ? "" : kolo_error_detail());
    return status;
}

bool kolo_tcp_reaches(const struct kolo_port *base, const struct kolo_peer *peer,
                      struct kolo_why *why_out)
{
    const struct kolo_identity *mine = &kolo_endpoint_config_of(base->endpoint)->identity;
    bool is_same_host = mine->host_id == peer->identity.host_id;
    struct kolo_place places[TCP_PLACES_MAX];
    size_t count = 0, reachable = 0;

    if (kolo_tcp_places_of((const struct tcp_port *)base, peer, places, &count) != KOLO_OK) {
        snprintf(why_out->text, sizeof why_out->text, "%.250s", kolo_error_detail());
        return false;
    }
    for (size_t i = 0; i < count; i++)
        reachable += is_same_host || !kolo_place_is_loopback(&places[i]);
    if (reachable == 0)
        snprintf(why_out->text, sizeof why_out->text,
                 "rank %d on %.64s offers only loopback addresses (see KOLO_NET)",
                 (int)peer->identity.rank, peer->identity.host);
    else
        snprintf(why_out->text, sizeof why_out->text, "%s",
                 is_same_host ? "same host" : "other host");
    return reachable > 0;
}
