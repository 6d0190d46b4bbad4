// SPDX-License-Identifier: Apache-2.0
// The RDMA port of a rank, on top of a TCP port: its devices, their completion queues, and the
// descriptors and timers that tell when to look at them. Must never wait, and never look at a
// link's queue after it was closed.
#include "transport/rdma.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/wire.h"

enum { ENTRIES_MIN = 4 * RDMA_BUFFERS };

/* ---- addresses: u32 Mbit/s (0: not known), the port's, then the places of TCP ---- */

enum { RATE_BYTES = 4, NETWORK_BYTES = KOLO_RDMA_GID_BYTES / 2 };

bool kolo_rdma_published(const struct kolo_address *address, struct kolo_rdma_gids *gids_out,
                         size_t *bytes_out)
{
    size_t gids_bytes = 0;
    if (address->bytes < RATE_BYTES ||
        kolo_rdma_gids_unpack(address->data + RATE_BYTES, address->bytes - (size_t)RATE_BYTES,
                              gids_out, &gids_bytes) != KOLO_OK)
        return false;
    *bytes_out = RATE_BYTES + gids_bytes;
    return true;
}

/** As in struct kolo_transport. A port is known by its best address, without the network: a host
 * has no two ports with the same one. Further rails are not counted, as only long messages go by
 * them. */
static struct kolo_line line(const struct kolo_address *address)
{
    struct kolo_reader rate = kolo_reader_over(address->data, RATE_BYTES);
    struct kolo_rdma_gids gids;
    size_t bytes = 0;
    if (!kolo_rdma_published(address, &gids, &bytes))
        return (struct kolo_line){.mbit = 0};
    struct kolo_reader host =
        kolo_reader_over(gids.all[0].bytes + NETWORK_BYTES, KOLO_RDMA_GID_BYTES - NETWORK_BYTES);
    return (struct kolo_line){.mbit = kolo_read_u32(&rate), .card = kolo_read_u64(&host)};
}

static size_t prefix(const struct kolo_address *address)
{
    struct kolo_rdma_gids gids;
    size_t bytes = 0;
    return kolo_rdma_published(address, &gids, &bytes) ? bytes : SIZE_MAX;
}

/** Puts the port's speed and as many of its addresses as fit in front of the places, best first. */
static kolo_status publish(struct rdma_port *port, struct kolo_address *address)
{
    uint8_t packed[RATE_BYTES + KOLO_RDMA_GIDS_BYTES_MAX];
    const struct kolo_rdma_device *device = port->nic.device;
    struct kolo_rdma_gids *gids = &port->nic.device->gids;
    struct kolo_writer writer = kolo_writer_over(packed, RATE_BYTES);
    kolo_write_u32(&writer, device->is_hardware ? device->rate_mbit : 0);
    size_t bytes = RATE_BYTES + kolo_rdma_gids_pack(gids, packed + RATE_BYTES);
    while (bytes + address->bytes > sizeof address->data && gids->count > 1) {
        gids->count--;
        bytes = RATE_BYTES + kolo_rdma_gids_pack(gids, packed + RATE_BYTES);
    }
    if (bytes + address->bytes > sizeof address->data)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "rdma: no room for an address of %zu bytes beside %u of tcp", bytes,
                         address->bytes);
    memmove(address->data + bytes, address->data, address->bytes);
    memcpy(address->data, packed, bytes);
    address->bytes = (uint16_t)(address->bytes + bytes);
    return KOLO_OK;
}

static bool reaches(const struct kolo_port *base, const struct kolo_peer *peer,
                    struct kolo_why *why_out)
{
    const struct rdma_port *port = (const struct rdma_port *)base;
    const struct kolo_address *address = kolo_port_address_of(base, peer);
    struct kolo_rdma_gids theirs;
    size_t ours = 0, other = 0, bytes = 0;
    char text[KOLO_RDMA_GID_TEXT];
    if (!kolo_rdma_published(address, &theirs, &bytes)) {
        snprintf(why_out->text, sizeof why_out->text,
                 "rank %d published no RDMA address that can be read", (int)peer->identity.rank);
        return false;
    }
    if (!kolo_rdma_gids_join(&port->nic.device->gids, &theirs, &ours, &other, why_out) ||
        !kolo_tcp_reaches(base, peer, why_out))
        return false;
    kolo_rdma_gid_format(&theirs.all[other], text, sizeof text);
    snprintf(why_out->text, sizeof why_out->text, "%s", text);
    return true;
}

/* ---- events ---- */

/** Ends every link that uses RDMA, for the reason in the detail. A link that is not up yet, unless
 *  RDMA is forced, goes on by TCP when its queue pair fails or its first message has waited long
 *  enough. */
static void end_links(struct rdma_port *port, kolo_status why)
{
    char detail[KOLO_DETAIL_MAX];
    kolo_detail_keep(detail);
    for (struct tcp_link *tcp = port->tcp.first; tcp; tcp = tcp->next) {
        const struct rdma_link *link = (const struct rdma_link *)tcp;
        bool may_go_on = link->stage == RDMA_SETTLED || !kolo_rdma_is_forced(port);
        if (!link->is_by_rdma && may_go_on)
            continue;
        kolo_detail_set(detail);
        kolo_link_set_down(&tcp->base, why);
    }
}

static void drop_leftovers(struct rdma_port *port)
{
    port->has_leftovers = false;
    for (struct tcp_link *tcp = port->tcp.first; tcp; tcp = tcp->next)
        kolo_rdma_drop_leftover((struct rdma_link *)tcp);
}

/** Continues stopping rails. */
static void stop_rails(struct rdma_port *port)
{
    port->has_stopping = false;
    for (struct tcp_link *tcp = port->tcp.first; tcp; tcp = tcp->next)
        port->has_stopping |= kolo_rdma_rails_step((struct rdma_link *)tcp);
}

/** A device cannot be used any more, for the reason in the detail. */
static void lose_nic(struct rdma_nic *nic, kolo_status why)
{
    if (nic == &nic->port->nic)
        end_links(nic->port, why);
    else
        kolo_rdma_rails_lost(nic);
}

/** Replaces broken pairs of links, as far as possible now. True: something was done. */
static bool mend_links(struct rdma_port *port)
{
    bool moved = false;
    port->has_broken = false;
    for (struct tcp_link *tcp = port->tcp.first; tcp; tcp = tcp->next) {
        const struct rdma_resume *resume = &((const struct rdma_link *)tcp)->resume;
        const enum kolo_rdma_resume_step before = resume->step;
        kolo_deadline at = kolo_rdma_resume_step((struct rdma_link *)tcp);
        moved |= resume->step != before;
        kolo_rdma_look_at(port, at);
        port->has_broken |= at != KOLO_NEVER;
    }
    return moved;
}

static bool poll_once(struct rdma_nic *nic)
{
    bool moved = false;
    kolo_status status = kolo_rdma_completions_poll(nic->completions, &moved);
    if (status != KOLO_OK) {
        nic->device->is_gone = true;
        lose_nic(nic, status);
    }
    return moved;
}

static bool poll_nic(struct rdma_nic *nic)
{
    if (nic->completions->entries_used == 0) /* no queue pair, so nothing can arrive */
        return false;
    bool moved = poll_once(nic);
    if (kolo_endpoint_is_armed(nic->port->tcp.base.endpoint) && !nic->tells_next) {
        kolo_status status = kolo_rdma_completions_arm(nic->completions);
        nic->tells_next = status == KOLO_OK;
        if (status != KOLO_OK)
            lose_nic(nic, status);
        moved |= poll_once(nic); /* completions from before it was armed do not tell */
    }
    return moved;
}

bool kolo_rdma_poll(struct kolo_port *base)
{
    struct rdma_port *port = (struct rdma_port *)base;
    bool moved = poll_nic(&port->nic);
    for (int i = 0; i < port->other_count; i++)
        moved |= poll_nic(&port->others[i]);
    if (port->has_leftovers)
        drop_leftovers(port);
    if (port->has_broken)
        moved |= mend_links(port);
    if (port->has_stopping)
        stop_rails(port);
    return moved;
}

static void unwatch(struct rdma_watch *watch)
{
    if (watch->watch.fd >= 0)
        kolo_poller_remove(kolo_endpoint_poller(watch->nic->port->tcp.base.endpoint),
                           &watch->watch);
    watch->watch.fd = -1;
}

static void channel_ready(struct kolo_watch *watch, uint32_t events)
{
    struct rdma_nic *nic = ((struct rdma_watch *)watch)->nic;
    (void)events;
    const kolo_status status = kolo_rdma_completions_heard(nic->completions);
    if (status != KOLO_OK) {
        unwatch(&nic->channel); /* it may stay readable for ever */
        lose_nic(nic, status);
        return;
    }
    nic->tells_next = false;
    (void)kolo_rdma_poll(&nic->port->tcp.base);
}

static void news_ready(struct kolo_watch *watch, uint32_t events)
{
    struct rdma_nic *nic = ((struct rdma_watch *)watch)->nic;
    (void)events;
    const kolo_status status = kolo_rdma_device_news(nic->device);
    if (status == KOLO_OK)
        return;
    unwatch(&nic->news);
    lose_nic(nic, status);
}

/* ---- what is due ---- */

int64_t kolo_rdma_silence_ns(const struct rdma_port *port)
{
    const int64_t timeout_ms = kolo_tcp_settings(&port->tcp)->peer_timeout_ms;
    return (timeout_ms + timeout_ms / 4) * KOLO_NS_PER_MS;
}

bool kolo_rdma_is_forced(const struct rdma_port *port)
{
    return strcmp(kolo_tcp_settings(&port->tcp)->transport, kolo_transport_rdma.name) == 0;
}

void kolo_rdma_look_at(struct rdma_port *port, kolo_deadline at)
{
    port->looks.timer.at = kolo_deadline_min(port->looks.timer.at, at);
}

void kolo_rdma_watch_links(struct rdma_port *port)
{
    kolo_deadline at = kolo_tcp_soon(kolo_tcp_watch_us(&port->tcp));
    port->watches_at = kolo_deadline_min(port->watches_at, at);
    kolo_rdma_look_at(port, port->watches_at);
}

/** A device that reports nothing is the cause if its port is not active. If it is, the device is
 *  most likely still sending again, since the InfiniBand specification lets each try take up to
 *  four times what was asked for. */
static void describe_silence(struct kolo_rdma_device *device, int64_t silent_ms, char *text,
                             size_t size)
{
    const double silent_s = (double)silent_ms / 1000;
    const char *state = kolo_rdma_device_ask_state(device);
    if (device->state == IBV_PORT_ACTIVE)
        snprintf(text, size,
                 "%s; the device has said nothing of it for %.1f s, and its port is %s: if the "
                 "network works, look at its driver (dmesg)",
                 kolo_rdma_status_text(IBV_WC_RETRY_EXC_ERR), silent_s, state);
    else
        snprintf(text, size,
                 "the device has said nothing of it for %.1f s (KOLO_PEER_TIMEOUT), not even an "
                 "error; its port is %s: look at ip link and the cable, else at its driver (dmesg)",
                 silent_s, state);
}

/** The device is given the first word, since it says more. */
static void watch_queue(const struct rdma_port *port, struct kolo_rdma_queue *queue,
                        kolo_deadline now, bool is_late)
{
    char text[KOLO_DETAIL_MAX];
    const int64_t silent_ns = kolo_rdma_queue_silence_ns(queue, now, is_late);
    if (silent_ns < kolo_rdma_silence_ns(port))
        return;
    describe_silence(queue->completions->device, silent_ns / KOLO_NS_PER_MS, text, sizeof text);
    kolo_rdma_queue_give_up(queue, text);
}

/** Like the watchdog over TCP connections: a rank that was busy elsewhere knows nothing about the
 *  time between two looks. */
static void watch_all(struct rdma_port *port, kolo_deadline now)
{
    bool is_late = now - port->watches_at > 2 * kolo_tcp_watch_us(&port->tcp) * 1000;
    port->watches_at = KOLO_NEVER;
    for (struct tcp_link *tcp = port->tcp.first; tcp; tcp = tcp->next) {
        const struct rdma_link *link = (const struct rdma_link *)tcp;
        if (!link->is_by_rdma || tcp->base.state != KOLO_LINK_UP)
            continue;
        watch_queue(port, link->queue, now, is_late);
        for (int i = 1; i < KOLO_RDMA_RAILS_MAX; i++)
            if (link->rails.all[i].step == RAIL_PROVES || link->rails.all[i].step == RAIL_GOES)
                watch_queue(port, link->rails.all[i].queue, now, is_late);
        kolo_rdma_watch_links(port);
    }
}

static void look(struct kolo_conn_timer *timer, kolo_deadline now)
{
    struct rdma_port *port = ((struct rdma_timer *)timer)->port;
    timer->at = KOLO_NEVER;
    (void)kolo_rdma_poll(&port->tcp.base); /* what arrived meanwhile arrived in time */
    for (struct tcp_link *tcp = port->tcp.first; tcp; tcp = tcp->next)
        kolo_rdma_look_at(port, kolo_rdma_watch_probe((struct rdma_link *)tcp, now));
    if (port->watches_at <= now)
        watch_all(port, now);
    kolo_rdma_look_at(port, port->watches_at);
    if (port->tells_at <= now) {
        kolo_rdma_fallen_tell(&port->fallen);
        port->tells_at = KOLO_NEVER;
    }
    kolo_rdma_look_at(port, port->tells_at);
}

/* ---- opening ---- */

static kolo_status probe(const struct kolo_settings *settings, struct kolo_why *why_out)
{
    const struct kolo_verbs *verbs = NULL;
    struct kolo_rdma_device *device = NULL;
    kolo_status status = kolo_verbs_load(&verbs);
    if (status == KOLO_OK)
        status = kolo_rdma_device_open(verbs, settings, (int)settings->numa_node, &device);
    snprintf(why_out->text, sizeof why_out->text, "%.250s",
             status == KOLO_OK ? "" : kolo_error_detail());
    kolo_rdma_device_close(device);
    return status;
}

/** Stops watching a device. The links may still need the rest, which the next function frees. */
static void unwatch_nic(struct rdma_nic *nic)
{
    unwatch(&nic->channel);
    unwatch(&nic->news);
}

static void close_nic(struct rdma_nic *nic)
{
    kolo_rdma_completions_close(nic->completions);
    kolo_rdma_regions_fini(&nic->regions);
    kolo_rdma_device_close(nic->device);
}

static void close_port(struct kolo_port *base)
{
    struct rdma_port *port = (struct rdma_port *)base;
    if (!port)
        return;
    for (int i = 0; i <= port->other_count; i++)
        unwatch_nic(kolo_rdma_nic_at(port, i));
    kolo_conn_timer_remove(&port->looks.timer);
    kolo_rdma_fallen_tell(&port->fallen);
    kolo_tcp_fini_port(&port->tcp);
    for (int i = 0; i <= port->other_count; i++)
        close_nic(kolo_rdma_nic_at(port, i));
    kolo_free_memory(port->others);
    kolo_free_memory(port);
}

static kolo_status watch(struct rdma_watch *watch, int fd,
                         void (*ready)(struct kolo_watch *watch, uint32_t events))
{
    watch->watch = (struct kolo_watch){.fd = fd, .ready = ready};
    kolo_status status = kolo_poller_add(kolo_endpoint_poller(watch->nic->port->tcp.base.endpoint),
                                         &watch->watch, EPOLLIN);
    if (status != KOLO_OK)
        watch->watch.fd = -1;
    return status;
}

/** Room for two tracks for each peer, and for each rail that may be made there in addition to one
 *  for each port, as far as the device allows. Links that find no room later go by TCP, or without
 *  that rail. */
static uint32_t entries_for(const struct kolo_rdma_device *device,
                            const struct kolo_endpoint_config *config)
{
    const uint64_t rails =
        config->settings->rdma_rails > 1 ? (uint64_t)config->settings->rdma_rails : 1;
    uint64_t wanted = 2 * (uint64_t)RDMA_BUFFERS * (uint64_t)config->size * rails;
    uint32_t most = device->completions_max;
    return wanted > most ? most : wanted < ENTRIES_MIN ? ENTRIES_MIN : (uint32_t)wanted;
}

/** Makes what belongs to the device of @p nic. */
static kolo_status fill_nic(struct rdma_nic *nic, const struct kolo_endpoint_config *config)
{
    kolo_status status;
    kolo_rdma_regions_init(&nic->regions, nic->device, config->heap);
    KOLO_TRY(kolo_rdma_completions_open(nic->device, entries_for(nic->device, config),
                                        &nic->completions));
    KOLO_TRY(watch(&nic->channel, nic->completions->channel->fd, channel_ready));
    KOLO_TRY(watch(&nic->news, nic->device->context->async_fd, news_ready));
out:
    return status;
}

static void init_nic(struct rdma_nic *nic, struct rdma_port *port)
{
    *nic = (struct rdma_nic){.port = port};
    nic->channel = nic->news = (struct rdma_watch){.watch = {.fd = -1}, .nic = nic};
}

static const struct tcp_rider rider = {.link_bytes = sizeof(struct rdma_link),
                                       .prefix = prefix,
                                       .joined = kolo_rdma_joined,
                                       .ready = kolo_rdma_ready};

/** A port for a further rail is not available, for the reason in the detail. A user who named it in
 *  the settings is warned. */
static void do_without_port(const struct kolo_settings *settings, int number)
{
    if (number < kolo_rdma_device_named(settings))
        KOLO_WARN("KOLO_RDMA_DEVICE=%.64s: port %d is not used: %s", settings->rdma_device,
                  number + 1, kolo_error_detail());
    else
        KOLO_INFO("no further RDMA port for rails: %s", kolo_error_detail());
}

/** Opens the devices of further rails, as many as exist and are wanted. If one fails, links have
 *  fewer rails. */
static kolo_status fill_others(struct rdma_port *port, const struct kolo_verbs *verbs,
                               const struct kolo_endpoint_config *config)
{
    const int64_t wanted = config->settings->rdma_rails;
    const int most = wanted > 0 ? (int)wanted : KOLO_RDMA_RAILS_MAX;
    const struct kolo_rdma_device *taken[KOLO_RDMA_RAILS_MAX] = {port->nic.device};
    char name[KOLO_RDMA_PORT_TEXT_MAX];
    port->others = kolo_calloc(KOLO_RDMA_RAILS_MAX, sizeof *port->others);
    if (!port->others)
        return KOLO_ERR_NO_MEMORY;
    while (port->other_count + 1 < most) {
        struct rdma_nic *nic = &port->others[port->other_count];
        init_nic(nic, port);
        if (kolo_rdma_device_open_next(verbs, config->settings, config->identity.numa, taken,
                                       port->other_count + 1, &nic->device) != KOLO_OK) {
            do_without_port(config->settings, port->other_count + 1);
            break;
        }
        kolo_rdma_device_format(nic->device, name);
        if (fill_nic(nic, config) != KOLO_OK) {
            do_without_port(config->settings, port->other_count + 1);
            unwatch_nic(nic);
            close_nic(nic);
            break;
        }
        port->other_count++; /* from now on close_port() closes it */
        taken[port->other_count] = nic->device;
        KOLO_DEBUG("rdma %s is for further rails", name);
    }
    return KOLO_OK;
}

static kolo_status fill_port(struct rdma_port *port, struct kolo_endpoint *endpoint,
                             struct kolo_address *address_out)
{
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(endpoint);
    const struct kolo_verbs *verbs = NULL;
    kolo_status status;
    KOLO_TRY(kolo_verbs_load(&verbs));
    KOLO_TRY(
        kolo_rdma_device_open(verbs, config->settings, config->identity.numa, &port->nic.device));
    KOLO_TRY(fill_nic(&port->nic, config));
    KOLO_TRY(fill_others(port, verbs, config));
    KOLO_TRY(kolo_tcp_init_port(&port->tcp, endpoint, &kolo_transport_rdma, KOLO_PURPOSE_RDMA,
                                address_out));
    KOLO_TRY(publish(port, address_out));
    KOLO_TRY(kolo_conn_timer_add(&port->looks.timer, kolo_endpoint_poller(endpoint)));
out:
    return status;
}

static kolo_status open_port(struct kolo_endpoint *endpoint, struct kolo_port **port_out,
                             struct kolo_address *address_out)
{
    struct kolo_address address = {.bytes = 0};
    struct rdma_port *port = kolo_calloc(1, sizeof *port);
    if (!port)
        return KOLO_ERR_NO_MEMORY;
    port->tcp.base.endpoint = endpoint;
    port->tcp.rider = &rider;
    port->tells_at = port->watches_at = KOLO_NEVER;
    port->looks = (struct rdma_timer){.timer = {.at = KOLO_NEVER, .fire = look}, .port = port};
    init_nic(&port->nic, port);
    kolo_status status = fill_port(port, endpoint, &address);
    if (status != KOLO_OK) {
        close_port(&port->tcp.base);
        return status;
    }
    *address_out = address;
    *port_out = &port->tcp.base;
    return KOLO_OK;
}

static size_t direct_bytes(const struct kolo_settings *settings)
{
    return settings->rdma_direct_bytes;
}

const struct kolo_transport kolo_transport_rdma = {
    .name = "rdma",
    .purpose = KOLO_PURPOSE_RDMA,
    .probe = probe,
    .open = open_port,
    .close = close_port,
    .reaches = reaches,
    .connect = kolo_tcp_connect,
    .adopt = kolo_tcp_adopt,
    .line = line,
    .poll = kolo_rdma_poll,
    .push = kolo_rdma_push,
    .pull = kolo_rdma_pull,
    .direct_bytes = direct_bytes,
    .is_remote = kolo_rdma_is_remote,
    .posted = kolo_rdma_posted,
    .take_back = kolo_rdma_take_back,
    .span_gone_port = kolo_rdma_span_gone,
    .know = kolo_rdma_know,
    .reaches_devices = kolo_rdma_reaches_devices,
    .device_gone = kolo_rdma_device_gone,
    .withdraw = kolo_rdma_withdraw,
    .control = kolo_rdma_control,
    .describe = kolo_rdma_describe,
    .explain = kolo_rdma_explain,
    .goes_by = kolo_rdma_goes_by,
    .is_drained = kolo_rdma_is_drained,
    .has_undelivered = kolo_rdma_has_undelivered,
    .down = kolo_rdma_down,
    .free_link = kolo_rdma_free_link,
};
