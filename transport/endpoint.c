// SPDX-License-Identifier: Apache-2.0
// One rank's end of all its links: opening, making links when they are first needed, progress,
// sleeping and waking, abort, close. Must never block except in sleep and close, and there never
// beyond its deadline.
//
// Sleep: arm sets the doorbell word of every port, and the caller then runs progress once more. A
// peer that publishes something after arm reads the word and writes to our eventfd; what it
// published before, that progress finds. For this a peer stores and reads the word with seq_cst,
// and arm has a fence after its store: progress loads from ports, links and boards with acquire or
// less, and Arm may perform such a load before an earlier seq_cst store.
//
// Dials that arrive before the runtime has set the table of peers are parked until then.
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "transport/board_private.h"
#include "transport/core.h"

/* While no link depends on descriptors alone, progress asks the poller only once in this many
 * rounds. */
enum { POLLER_ROUNDS = 64 };
/* A rank proves itself within a round trip, and dials again if it was dropped. So a stranger's
 * connection is not kept for longer than this, although the user may let hosts be silent for days.
 */
enum { HANDSHAKE_MS_MAX = 10000 };

kolo_status kolo_endpoint_open(const struct kolo_endpoint_config *config,
                               struct kolo_endpoint **endpoint_out)
{
    kolo_status status = KOLO_ERR_NO_MEMORY;
    struct kolo_endpoint *endpoint = kolo_calloc(1, sizeof *endpoint);
    if (!endpoint)
        return status;
    endpoint->config = *config;
    atomic_init(&endpoint->next_timer, KOLO_NEVER);
    KOLO_TRY(kolo_poller_create(&endpoint->poller));
    KOLO_TRY(kolo_endpoint_open_ports(endpoint));
    *endpoint_out = endpoint;
    return KOLO_OK;
out:
    (void)kolo_endpoint_close(endpoint, 0);
    return status;
}

void kolo_endpoint_self(const struct kolo_endpoint *endpoint, struct kolo_peer *peer_out)
{
    memset(peer_out, 0, sizeof *peer_out);
    peer_out->identity = endpoint->config.identity;
    peer_out->credit_bytes = endpoint->config.settings->credit_bytes;
    peer_out->checksum = endpoint->config.settings->checksum;
    memcpy(peer_out->addresses, endpoint->addresses, sizeof peer_out->addresses);
}

struct kolo_poller *kolo_endpoint_poller(struct kolo_endpoint *endpoint)
{
    return endpoint->poller;
}

const struct kolo_endpoint_config *kolo_endpoint_config_of(const struct kolo_endpoint *endpoint)
{
    return &endpoint->config;
}

const struct kolo_peer *kolo_endpoint_peer(const struct kolo_endpoint *endpoint, int peer)
{
    return &endpoint->peers[peer];
}

/* ---- making links ---- */

static struct kolo_link *find_link(const struct kolo_endpoint *endpoint, int peer)
{
    return kolo_map_get(&endpoint->links, (uint32_t)peer);
}

/* Connects (fd -1), or takes over the peer's connection. */
static kolo_status make_link(struct kolo_port *port, int peer, int fd, kolo_deadline deadline,
                             struct kolo_link **link_out)
{
    struct kolo_endpoint *endpoint = port->endpoint;
    struct kolo_link *link = NULL;
    kolo_status status = port->transport->connect(port, peer, fd, deadline, &link);
    if (status != KOLO_OK)
        return status;
    status = kolo_map_put(&endpoint->links, (uint32_t)peer, link);
    if (status != KOLO_OK) {
        kolo_link_set_down(link, status);
        port->transport->free_link(link);
        return status;
    }
    link->next = endpoint->first_link;
    endpoint->first_link = link;
    *link_out = link;
    return KOLO_OK;
}

static bool has_fallen(const struct kolo_link *link)
{
    return link->state == KOLO_LINK_DOWN && !link->heard_goodbye;
}

kolo_status kolo_endpoint_link(struct kolo_endpoint *endpoint, int peer, kolo_deadline deadline,
                               struct kolo_link **link_out)
{
    struct kolo_why why;
    struct kolo_link *link;
    if (peer < 0 || peer >= endpoint->config.size || peer == endpoint->config.rank ||
        !endpoint->peers)
        return kolo_fail(KOLO_ERR_INVALID, "rank %d has no link to rank %d", endpoint->config.rank,
                         peer);
    link = find_link(endpoint, peer);
    if (!link) {
        int index = kolo_endpoint_choose(endpoint, peer, &why);
        if (index < 0)
            return kolo_fail(KOLO_ERR_UNSUPPORTED, "no transport joins ranks %d and %d: %s",
                             endpoint->config.rank, peer, why.text);
        kolo_status status = make_link(endpoint->ports[index], peer, -1, deadline, &link);
        if (status != KOLO_OK)
            return status;
    }
    if (has_fallen(link)) {
        if (link->why_text)
            kolo_detail_set(link->why_text);
        return link->why;
    }
    *link_out = link;
    return KOLO_OK;
}

bool kolo_endpoint_link_fell(const struct kolo_endpoint *endpoint, int peer)
{
    const struct kolo_link *link = find_link(endpoint, peer);
    return link && has_fallen(link);
}

const char *kolo_endpoint_broken_link(const struct kolo_endpoint *endpoint, int peer)
{
    const struct kolo_link *link = find_link(endpoint, peer);
    return link && has_fallen(link) && link->why == KOLO_ERR_LINK ? link->why_text : NULL;
}

struct kolo_link *kolo_endpoint_link_up(const struct kolo_endpoint *endpoint, int peer)
{
    struct kolo_link *link = find_link(endpoint, peer);
    return link && link->state == KOLO_LINK_UP ? link : NULL;
}

bool kolo_endpoint_may_deliver(const struct kolo_endpoint *endpoint, int peer)
{
    const struct kolo_link *link = kolo_endpoint_link_up(endpoint, peer);
    return link && !link->heard_goodbye;
}

void kolo_endpoint_attach(struct kolo_port *port, int peer)
{
    struct kolo_endpoint *endpoint = port->endpoint;
    const struct kolo_endpoint_events *events = &endpoint->config.events;
    struct kolo_link *link;
    if (find_link(endpoint, peer))
        return;
    kolo_status status = make_link(port, peer, -1, KOLO_NEVER, &link);
    if (status != KOLO_OK && events->down)
        events->down(events->context, peer, status, kolo_error_detail());
}

static void park(struct kolo_port *port, const struct kolo_greeting *theirs, int fd)
{
    struct kolo_endpoint *endpoint = port->endpoint;
    void *parked = endpoint->parked;
    size_t bound = (size_t)endpoint->config.size * KOLO_TRANSPORTS_MAX;
    if (endpoint->parked_count >= bound ||
        kolo_grow(&parked, &endpoint->parked_capacity, endpoint->parked_count + 1,
                  sizeof *endpoint->parked) != KOLO_OK) {
        close(fd);
        return;
    }
    endpoint->parked = parked;
    endpoint->parked[endpoint->parked_count++] =
        (struct kolo_parked){.port = port, .greeting = *theirs, .fd = fd};
}

static void take_dial(struct kolo_link *link, int fd)
{
    if (link->state == KOLO_LINK_CONNECTING && link->transport->adopt)
        link->transport->adopt(link, fd);
    else
        close(fd);
}

void kolo_endpoint_incoming(struct kolo_port *port, const struct kolo_greeting *theirs, int fd)
{
    struct kolo_endpoint *endpoint = port->endpoint;
    const struct kolo_endpoint_events *events = &endpoint->config.events;
    int rank = endpoint->config.rank, peer = theirs->from;
    if (endpoint->is_closing || theirs->to != rank || peer == rank || peer < 0 ||
        peer >= endpoint->config.size || theirs->purpose != port->transport->purpose ||
        /* A connection that its dialler has left must not become a link, since its end would be
         * taken for the end of the peer. */
        kolo_conn_is_left(fd)) {
        close(fd);
        return;
    }
    if (!endpoint->peers) {
        park(port, theirs, fd);
        return;
    }
    struct kolo_link *link = find_link(endpoint, peer);
    if (link && link->port == port) {
        take_dial(link, fd);
        return;
    }
    if (link) {
        close(fd);
        return;
    }
    kolo_deadline deadline = kolo_deadline_in_ms(endpoint->config.settings->start_timeout_ms);
    kolo_status status = make_link(port, peer, fd, deadline, &link);
    if (status != KOLO_OK && events->down)
        events->down(events->context, peer, status, kolo_error_detail());
}

/* ---- listening ---- */

static void accepted(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    (void)status; /* listeners report only proved connections */
    kolo_endpoint_incoming(context, theirs, fd);
}

kolo_status kolo_endpoint_listen(struct kolo_endpoint *endpoint, struct kolo_port *port,
                                 uint8_t purpose, const struct kolo_place *place,
                                 struct kolo_listener **listener_out)
{
    const struct kolo_endpoint_config *config = &endpoint->config;
    const int64_t silence_ms = config->settings->peer_timeout_ms;
    const struct kolo_greeting mine = {
        .protocol = KOLO_PROTOCOL_VERSION, .purpose = purpose, .from = config->rank, .to = -1};
    const struct kolo_listener_config listener_config = {
        .place = place,
        .handshake_ms = (int)(silence_ms < HANDSHAKE_MS_MAX ? silence_ms : HANDSHAKE_MS_MAX),
        .secret = &config->secret,
        .mine = &mine,
        .accepted = accepted,
        .context = port};
    kolo_status status = kolo_listener_open(endpoint->poller, &listener_config, listener_out);
    if (status == KOLO_OK)
        kolo_listener_expect(*listener_out, config->size);
    return status;
}

/** The links of a rank whose setting differs would take checksums for something else. */
static kolo_status check_checksums(const struct kolo_peer *peers, int size)
{
    for (int peer = 1; peer < size; peer++)
        if (peers[peer].checksum != peers[0].checksum)
            return kolo_fail(KOLO_ERR_CONFIG,
                             "KOLO_CHECKSUM is %d on rank 0 on %.64s and %d on rank %d on %.64s: "
                             "give all ranks the same (kolorun --set checksum=1)",
                             peers[0].checksum, peers[0].identity.host, peers[peer].checksum, peer,
                             peers[peer].identity.host);
    return KOLO_OK;
}

/** Whether @p peer offers nothing but the transport that KOLO_TRANSPORT forces here. */
static bool is_forced_there(const struct kolo_endpoint *endpoint, const struct kolo_peer *peer)
{
    for (size_t i = 0; kolo_transport_name(i); i++) {
        const char *const name = kolo_transport_name(i);
        const bool is_ours = strcmp(name, endpoint->config.settings->transport) == 0;
        if (kolo_transport_is_offered(name, peer) != is_ours)
            return false;
    }
    return true;
}

kolo_status kolo_endpoint_set_peers(struct kolo_endpoint *endpoint, const struct kolo_peer *peers)
{
    struct kolo_why why;
    kolo_status status = check_checksums(peers, endpoint->config.size);
    if (status != KOLO_OK)
        return status;
    endpoint->peers = peers;
    for (int peer = 0; peer < endpoint->config.size; peer++) {
        if (peer == endpoint->config.rank || kolo_endpoint_choose(endpoint, peer, &why) >= 0)
            continue;
        endpoint->peers = NULL;
        return kolo_fail(
            KOLO_ERR_UNSUPPORTED,
            "no transport joins rank %d and rank %d on %.64s: %s (KOLO_TRANSPORT=%s%s)",
            endpoint->config.rank, peer, peers[peer].identity.host, why.text,
            endpoint->config.settings->transport,
            is_forced_there(endpoint, &peers[peer]) ? " on both" : "");
    }
    size_t count = endpoint->parked_count;
    endpoint->parked_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct kolo_parked parked = endpoint->parked[i];
        kolo_endpoint_incoming(parked.port, &parked.greeting, parked.fd);
    }
    return KOLO_OK;
}

/* ---- progress ---- */

static bool progress_ports(struct kolo_endpoint *endpoint)
{
    bool moved = false;
    for (int i = 0; i < KOLO_TRANSPORTS_MAX; i++) {
        struct kolo_port *port = endpoint->ports[i];
        if (port && port->transport->poll && endpoint->peers)
            moved |= port->transport->poll(port);
    }
    return moved;
}

static kolo_status progress_poller(struct kolo_endpoint *endpoint, bool *moved)
{
    int ran = 0;
    kolo_status status = kolo_poller_dispatch(endpoint->poller, &ran);
    *moved |= ran > 0;
    /* even if there is none: the last one may have been due, and removed in dispatch */
    atomic_store_explicit(&endpoint->next_timer, kolo_conn_expire(endpoint->poller),
                          memory_order_relaxed);
    return status;
}

/** Whether a link that is up has nothing to receive and nothing to hand over. */
static bool is_quiet(const struct kolo_link *link)
{
    return link->signal && atomic_load(link->signal) == link->signal_seen && !link->ready_first &&
           !link->owing_first && !link->control_first && !link->owes_goodbye;
}

bool kolo_link_has_signal(const struct kolo_link *link)
{
    return link->signal != NULL;
}

bool kolo_link_look(struct kolo_link *link)
{
    bool moved = false;
    if (link->state != KOLO_LINK_UP || is_quiet(link))
        return false;
    if (link->transport->pull)
        moved = link->transport->pull(link);
    if (link->state == KOLO_LINK_UP)
        moved |= kolo_link_push(link);
    return moved;
}

static bool progress_links(struct kolo_endpoint *endpoint, bool *needs_poller)
{
    bool moved = false;
    for (struct kolo_link *link = endpoint->first_link; link; link = link->next) {
        moved |= kolo_link_look(link);
        *needs_poller |= link->state == KOLO_LINK_CONNECTING ||
                         (link->state == KOLO_LINK_UP && !link->transport->pull);
    }
    return moved;
}

static kolo_status progress(struct kolo_endpoint *endpoint, bool *moved_out)
{
    kolo_status status = KOLO_OK;
    bool needs_poller = endpoint->is_armed || !endpoint->first_link;
    bool moved = progress_ports(endpoint);
    moved |= progress_links(endpoint, &needs_poller);
    if (needs_poller || endpoint->tick++ % POLLER_ROUNDS == 0) {
        status = progress_poller(endpoint, &moved);
        bool unused = false;
        moved |= progress_links(endpoint, &unused);
    }
    if (moved_out)
        *moved_out = moved;
    return status;
}

/* What befalls a link is kept with that link. The detail of the thread that happens to poll is
 * about the program's own calls, so it stays as it was. */
kolo_status kolo_endpoint_progress(struct kolo_endpoint *endpoint, bool *moved_out)
{
    char before[KOLO_DETAIL_MAX];
    kolo_detail_keep(before);
    kolo_status status = progress(endpoint, moved_out);
    if (status == KOLO_OK && strcmp(kolo_error_detail(), before) != 0)
        kolo_detail_set(before);
    return status;
}

/* ---- sleep ---- */

static void set_doorbells(struct kolo_endpoint *endpoint, uint32_t value)
{
    for (int i = 0; i < KOLO_TRANSPORTS_MAX; i++)
        if (endpoint->ports[i] && endpoint->ports[i]->doorbell)
            atomic_store(endpoint->ports[i]->doorbell, value);
    endpoint->is_armed = value != 0;
}

void kolo_endpoint_arm(struct kolo_endpoint *endpoint)
{
    set_doorbells(endpoint, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

void kolo_endpoint_disarm(struct kolo_endpoint *endpoint)
{
    set_doorbells(endpoint, 0);
}

bool kolo_endpoint_is_armed(const struct kolo_endpoint *endpoint)
{
    return endpoint->is_armed;
}

void kolo_endpoint_sleep(struct kolo_endpoint *endpoint, kolo_deadline deadline)
{
    int64_t timer = atomic_load_explicit(&endpoint->next_timer, memory_order_relaxed);
    kolo_poller_sleep(endpoint->poller, kolo_deadline_min(deadline, timer));
}

void kolo_endpoint_wake(struct kolo_endpoint *endpoint)
{
    kolo_poller_wake(endpoint->poller);
}

/** No port or link names span @p id in anything new, and each peer is told once the last loan of
 * it has come back. */
static void forget_span(struct kolo_endpoint *endpoint, uint64_t id)
{
    for (int i = 0; i < KOLO_TRANSPORTS_MAX; i++)
        if (endpoint->ports[i] && endpoint->ports[i]->transport->span_gone_port)
            endpoint->ports[i]->transport->span_gone_port(endpoint->ports[i], id);
    for (struct kolo_link *link = endpoint->first_link; link; link = link->next)
        if (link->state == KOLO_LINK_UP && link->transport->span_gone)
            link->transport->span_gone(link, id);
}

void kolo_endpoint_span_gone(struct kolo_endpoint *endpoint, uint64_t id)
{
    kolo_boards_span_gone(endpoint, id);
    forget_span(endpoint, id);
}

void kolo_endpoint_span_cut(struct kolo_endpoint *endpoint, uint64_t id)
{
    kolo_boards_span_cut(endpoint, id);
    forget_span(endpoint, id);
}

bool kolo_endpoint_know(struct kolo_endpoint *endpoint, const struct kolo_pointer *pointer)
{
    bool knows = false;
    if (endpoint->config.settings->checksum) /* nobody could verify what no processor reads */
        return false;
    for (int i = 0; i < KOLO_TRANSPORTS_MAX; i++)
        if (endpoint->ports[i] && endpoint->ports[i]->transport->know)
            knows |= endpoint->ports[i]->transport->know(endpoint->ports[i], pointer);
    return knows;
}

void kolo_endpoint_device_gone(struct kolo_endpoint *endpoint, const void *memory)
{
    for (int i = 0; i < KOLO_TRANSPORTS_MAX; i++)
        if (endpoint->ports[i] && endpoint->ports[i]->transport->device_gone)
            endpoint->ports[i]->transport->device_gone(endpoint->ports[i], memory);
}

void kolo_endpoint_forget(struct kolo_endpoint *endpoint, uint32_t first, uint32_t count)
{
    if (kolo_forgotten_add(&endpoint->forgotten, first, count) != KOLO_OK)
        return; /* they end with their links */
    for (struct kolo_link *link = endpoint->first_link; link; link = link->next)
        for (uint32_t i = 0; i < count; i++)
            kolo_channel_forget(link, first + i);
}

void kolo_endpoint_say_early(struct kolo_endpoint *endpoint, uint32_t channel_id)
{
    for (struct kolo_link *link = endpoint->first_link; link; link = link->next) {
        const struct kolo_channel *channel = kolo_map_get(&link->channels, channel_id);
        if (channel && channel->stash_first)
            kolo_channel_say_stashed(channel);
    }
}

/* ---- the end ---- */

static bool can_tell(const struct kolo_link *link)
{
    return link && link->state != KOLO_LINK_DOWN && !link->heard_goodbye && !link->said_goodbye;
}

/* If there is no memory, the peer is not told: the runtime has also told the store, or relies on
 * its deadlines. */
static void tell_on(struct kolo_link *link, const struct kolo_desc *desc, const char *text)
{
    if (!can_tell(link))
        return;
    if (kolo_link_queue_control(link, desc, text, strnlen(text, KOLO_CONTROL_BYTES_MAX)) != KOLO_OK)
        return;
    kolo_link_push(link);
}

static void tell(struct kolo_endpoint *endpoint, const int *peers, int count,
                 const struct kolo_desc *desc, const char *text)
{
    for (int i = 0; peers && i < count; i++)
        tell_on(find_link(endpoint, peers[i]), desc, text);
    if (peers)
        return;
    for (struct kolo_link *link = endpoint->first_link; link; link = link->next)
        tell_on(link, desc, text);
}

void kolo_endpoint_abort(struct kolo_endpoint *endpoint, const int *peers, int count,
                         uint32_t subject, kolo_status why, const char *text)
{
    struct kolo_desc desc = {{KOLO_CONTROL_ABORT}};
    struct kolo_writer writer = kolo_writer_over(desc.bytes + 4, sizeof desc.bytes - 4);
    kolo_write_i32(&writer, why);
    kolo_write_u32(&writer, subject);
    tell(endpoint, peers, count, &desc, text);
}

void kolo_endpoint_finalized(struct kolo_endpoint *endpoint, const int *peers, int count,
                             uint32_t subject, uint32_t sequence)
{
    struct kolo_desc desc = {{KOLO_CONTROL_FINALIZED}};
    struct kolo_writer writer = kolo_writer_over(desc.bytes + 4, sizeof desc.bytes - 4);
    kolo_write_u32(&writer, subject);
    kolo_write_u32(&writer, sequence);
    tell(endpoint, peers, count, &desc, "");
}

static bool tell_of_loan(struct kolo_endpoint *endpoint, int peer, enum kolo_control_type type,
                         uint64_t number)
{
    struct kolo_link *link = find_link(endpoint, peer);
    struct kolo_desc desc = {{(uint8_t)type}};
    struct kolo_writer writer = kolo_writer_over(desc.bytes + 4, sizeof desc.bytes - 4);
    kolo_write_u64(&writer, number);
    tell_on(link, &desc, "");
    return can_tell(link);
}

bool kolo_endpoint_recall(struct kolo_endpoint *endpoint, int peer, uint64_t number)
{
    return tell_of_loan(endpoint, peer, KOLO_CONTROL_RECALL, number);
}

void kolo_endpoint_return(struct kolo_endpoint *endpoint, int peer, uint64_t number)
{
    (void)tell_of_loan(endpoint, peer, KOLO_CONTROL_RETURNED, number);
}

/* True while the link has something to hand over. Says goodbye when that is all that is left. */
static bool is_busy(struct kolo_link *link)
{
    if (link->state == KOLO_LINK_CONNECTING)
        return link->sends > 0;
    if (link->state == KOLO_LINK_DOWN)
        return false;
    if (!link->said_goodbye && !link->owes_goodbye)
        link->owes_goodbye = true;
    kolo_link_push(link);
    return link->state == KOLO_LINK_UP &&
           (link->sends > 0 || !link->said_goodbye ||
            (link->transport->is_drained && !link->transport->is_drained(link)));
}

static struct kolo_link *find_busy(struct kolo_endpoint *endpoint)
{
    struct kolo_link *busy = NULL;
    for (struct kolo_link *link = endpoint->first_link; link; link = link->next)
        if (is_busy(link))
            busy = link;
    return busy;
}

/** A link that went down is not waited for, but may have lost what was sent over it. */
static kolo_status find_loss(const struct kolo_endpoint *endpoint)
{
    for (const struct kolo_link *link = endpoint->first_link; link; link = link->next)
        if (link->has_lost)
            return kolo_fail(
                KOLO_ERR_LINK, "what rank %d sent last may not have reached rank %d on %.64s: %s",
                endpoint->config.rank, link->peer, endpoint->peers[link->peer].identity.host,
                link->why_text ? link->why_text : kolo_status_text(link->why));
    return KOLO_OK;
}

static kolo_status drain(struct kolo_endpoint *endpoint, kolo_deadline deadline)
{
    char text[400];
    struct kolo_link *busy;
    while ((busy = find_busy(endpoint)) != NULL) {
        bool moved = false;
        if (kolo_deadline_passed(deadline)) {
            kolo_link_describe(busy, text, sizeof text);
            return kolo_fail(KOLO_ERR_TIMEOUT,
                             "rank %d could not hand over everything to rank %d: %s",
                             endpoint->config.rank, busy->peer, text);
        }
        kolo_endpoint_arm(endpoint);
        kolo_status status = kolo_endpoint_progress(endpoint, &moved);
        if (status != KOLO_OK)
            return status;
        if (!moved)
            kolo_endpoint_sleep(endpoint, deadline);
        kolo_endpoint_disarm(endpoint);
    }
    return find_loss(endpoint);
}

/** A peer that takes a connection which this rank has offered would take its end for a broken link,
 *  unless it is told that this rank leaves. */
static void leave_offers(struct kolo_endpoint *endpoint)
{
    for (struct kolo_link *link = endpoint->first_link; link; link = link->next)
        if (link->state == KOLO_LINK_CONNECTING && link->sends == 0 && link->transport->leave) {
            link->owes_goodbye = true;
            link->transport->leave(link);
        }
}

static void free_endpoint(struct kolo_endpoint *endpoint)
{
    for (size_t i = 0; i < endpoint->parked_count; i++)
        close(endpoint->parked[i].fd);
    kolo_free_memory(endpoint->parked);
    while (endpoint->first_link) {
        struct kolo_link *link = endpoint->first_link;
        endpoint->first_link = link->next;
        kolo_detail_set("the endpoint was closed");
        kolo_link_set_down(link, KOLO_ERR_ABORTED);
        link->transport->free_link(link);
    }
    kolo_map_fini(&endpoint->links);
    kolo_forgotten_fini(&endpoint->forgotten);
    for (int i = 0; i < KOLO_TRANSPORTS_MAX; i++)
        if (endpoint->ports[i])
            endpoint->ports[i]->transport->close(endpoint->ports[i]);
    kolo_poller_destroy(endpoint->poller);
    explicit_bzero(&endpoint->config.secret, sizeof endpoint->config.secret);
    kolo_free_memory(endpoint);
}

kolo_status kolo_endpoint_close(struct kolo_endpoint *endpoint, kolo_deadline deadline)
{
    char detail[KOLO_DETAIL_MAX];
    if (!endpoint)
        return KOLO_OK;
    endpoint->is_closing = true;
    kolo_boards_close(endpoint);
    kolo_status status = drain(endpoint, deadline);
    leave_offers(endpoint);
    kolo_detail_keep(detail);
    free_endpoint(endpoint);
    kolo_detail_set(detail); /* its own, or that of what made the caller close */
    return status;
}
