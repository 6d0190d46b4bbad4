// SPDX-License-Identifier: Apache-2.0
// A link of the rdma transport: the three stages that rdma.h shows, frames in and out of the eager
// buffers, and the end. Must never read a byte of the connection that belongs to TCP, and never
// close a queue from within its callbacks.
#include "transport/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "transport/checksum.h"

enum {
    PROBE_BYTES = 4096, /* the largest packet there is: reveals a path that drops such packets */
    TELL_US = 1000000 /* how long pairs that failed for one cause are counted before the warning */
};

static struct rdma_link *link_of(struct kolo_link *base)
{
    return (struct rdma_link *)base;
}

/* ---- stages ---- */

static void advance(struct rdma_link *link);

/** Sends our block. 256 bytes into an empty socket do not block. */
static void send_block(struct rdma_link *link)
{
    uint8_t block[KOLO_RDMA_HELLO_BYTES];
    kolo_rdma_hello_pack(&link->mine, block);
    kolo_block_seal(&link->tcp.base, block, sizeof block);
    const ssize_t sent = send(link->tcp.socket.watch.fd, block, sizeof block, MSG_NOSIGNAL);
    if (sent != (ssize_t)sizeof block) {
        kolo_tcp_fail(&link->tcp, sent >= 0 ? 0 : errno);
        return;
    }
    link->has_sent = true;
    advance(link);
}

/** Our block of this stage declines, for @p reason. */
static void decline(struct rdma_link *link, const char *reason)
{
    link->mine = (struct kolo_rdma_hello){.offers = false};
    snprintf(link->mine.reason, sizeof link->mine.reason, "%.190s", reason);
    send_block(link);
}

/** The side with the cause warns, once for all pairs with that cause. */
static void note_fall(struct rdma_link *link)
{
    struct rdma_port *port = rdma_port_of(link);
    if (!link->mine.offers) {
        kolo_rdma_fallen_note(&port->fallen, link->tcp.base.peer, kolo_rdma_peer_host(link),
                              link->mine.reason);
        port->tells_at = kolo_deadline_min(port->tells_at, kolo_tcp_soon(TELL_US));
        kolo_rdma_look_at(port, port->tells_at);
    } else {
        KOLO_INFO("rank %d on %.63s is reached by tcp, not rdma: there, %s", link->tcp.base.peer,
                  kolo_rdma_peer_host(link), link->theirs.reason);
    }
}

static void fall_back(struct rdma_link *link)
{
    struct rdma_port *port = rdma_port_of(link);
    bool is_ours = !link->mine.offers;
    const char *reason = is_ours ? link->mine.reason : link->theirs.reason;
    if (is_ours || link->stage == RDMA_PROBED)
        kolo_rdma_fallen_failed(&port->fallen);
    link->stage = RDMA_SETTLED;
    port->has_leftovers = true;
    if (kolo_rdma_is_forced(port)) {
        kolo_link_set_down(
            &link->tcp.base,
            kolo_fail(KOLO_ERR_CONNECT,
                      "rank %d on %.63s cannot be reached by rdma: %s%s (and KOLO_TRANSPORT=rdma "
                      "allows nothing else)",
                      link->tcp.base.peer, kolo_rdma_peer_host(link), is_ours ? "" : "there, ",
                      reason));
        return;
    }
    note_fall(link);
    kolo_tcp_come_up(&link->tcp);
}

static void begin_stage(struct rdma_link *link, enum rdma_stage stage)
{
    link->stage = stage;
    link->has_sent = link->has_theirs = false;
    link->block_bytes = 0;
}

/** Our block of stage PROBED is due when the probe is known to have arrived. */
static void tell_probed(struct rdma_link *link)
{
    if (link->stage == RDMA_PROBED && !link->has_sent &&
        link->tcp.base.state == KOLO_LINK_CONNECTING && kolo_rdma_queue_is_drained(link->queue))
        send_block(link);
}

/** For how long our first message may be on its way: not for long if TCP can do instead. */
static int64_t patience_ns(const struct rdma_port *port)
{
    return kolo_rdma_is_forced(port) ? kolo_rdma_silence_ns(port)
                                     : kolo_rdma_fallen_patience_ns(&port->fallen);
}

static void send_probe(struct rdma_link *link)
{
    uint8_t *buffer = kolo_rdma_queue_buffer(link->queue);
    if (!buffer) {
        decline(link, link->broke[0] != '\0' ? link->broke
                                             : "there is no buffer free for a first message");
        return;
    }
    const uint32_t bytes =
        link->queue->message_bytes < PROBE_BYTES ? link->queue->message_bytes : PROBE_BYTES;
    memset(buffer, 0, bytes);
    link->probe_until = kolo_now_ns() + patience_ns(rdma_port_of(link));
    kolo_rdma_look_at(rdma_port_of(link), link->probe_until);
    kolo_rdma_queue_send(link->queue, bytes, true); /* a refusal is reported to failed() */
}

kolo_deadline kolo_rdma_watch_probe(struct rdma_link *link, kolo_deadline now)
{
    bool waits = link->stage == RDMA_PROBED && !link->has_sent &&
                 link->tcp.base.state == KOLO_LINK_CONNECTING;
    if (waits && link->probe_until <= now)
        decline(link,
                "a first message gets no answer in time: is there a smaller MTU on the way, or a "
                "filter (RoCE v2: UDP port 4791)?");
    return waits && link->probe_until > now ? link->probe_until : KOLO_NEVER;
}

void kolo_rdma_set_signal(struct rdma_link *link)
{
    static const _Atomic uint64_t never;
    const bool is_idle = !link->writing && link->checks.count == 0;
    link->tcp.base.signal = is_idle ? &never : NULL;
}

void kolo_rdma_set_writing(struct rdma_link *link, struct kolo_rdma_writing *writing)
{
    link->writing = writing;
    kolo_rdma_set_signal(link);
}

static void settle(struct rdma_link *link)
{
    kolo_rdma_fallen_succeeded(&rdma_port_of(link)->fallen);
    link->stage = RDMA_SETTLED;
    link->is_by_rdma = true;
    kolo_rdma_set_writing(link, NULL);
    kolo_rdma_direct_init(&link->direct, &rdma_port_of(link)->nic.regions);
    kolo_rdma_watch_links(rdma_port_of(link));
    kolo_tcp_come_up(&link->tcp);
    kolo_rdma_rails_begin(link);
    if (link->broke[0] != '\0')
        kolo_link_set_down(&link->tcp.base, kolo_fail(KOLO_ERR_LINK, "%s", link->broke));
}

/** Both blocks of a stage are there and agree: begins the next stage. */
static void advance(struct rdma_link *link)
{
    if (!link->has_sent || !link->has_theirs || link->tcp.base.state != KOLO_LINK_CONNECTING)
        return;
    if (!link->mine.offers || !link->theirs.offers) {
        fall_back(link);
        return;
    }
    switch (link->stage) {
    case RDMA_HELLO:
        begin_stage(link, RDMA_JOINED);
        if (kolo_rdma_queue_connect(link->queue, &link->gid, &link->theirs) == KOLO_OK)
            send_block(link);
        else
            decline(link, kolo_error_detail());
        break;
    case RDMA_JOINED:
        begin_stage(link, RDMA_PROBED);
        send_probe(link);
        break;
    case RDMA_PROBED:
        settle(link);
        break;
    case RDMA_SETTLED:
        break;
    }
}

/* ---- the queue's callbacks ---- */

static void deliver(struct rdma_link *link, const uint8_t *data, size_t bytes)
{
    struct kolo_link *base = &link->tcp.base;
    const size_t header_bytes = base->header_bytes;
    struct kolo_header header = {0};
    kolo_status status = KOLO_OK;
    if (bytes >= header_bytes)
        status = kolo_frame_unpack(base, data, &header);
    if (status == KOLO_OK && (bytes < header_bytes || header.bytes != bytes - header_bytes))
        status =
            kolo_fail(KOLO_ERR_PROTOCOL, "rank %d sent a message of %zu bytes with a header for %u",
                      base->peer, bytes, header.bytes);
    if (status == KOLO_OK)
        status = kolo_link_rx_begin(base, &header);
    if (status == KOLO_OK) {
        (void)kolo_sink_put(&base->sink, data + header_bytes, header.bytes);
        status = kolo_link_rx_end(base);
    }
    if (status != KOLO_OK)
        kolo_link_set_down(base, status);
}

static void arrived(struct kolo_rdma_queue *queue, const uint8_t *data, size_t bytes)
{
    struct rdma_link *link = queue->context;
    if (!link->has_probe) {
        link->has_probe = true;
        return;
    }
    /* The peer is up, so its last block is under way, and agrees. */
    if (link->stage == RDMA_PROBED && link->has_sent && link->mine.offers)
        settle(link);
    if (link->is_by_rdma && link->tcp.base.state == KOLO_LINK_UP)
        deliver(link, data, bytes);
}

static void has_room(struct kolo_rdma_queue *queue)
{
    struct rdma_link *link = queue->context;
    kolo_rdma_resume_proved(link);
    if (link->is_by_rdma)
        (void)kolo_link_push(&link->tcp.base);
    else
        tell_probed(link);
}

void kolo_rdma_describe_peer(const struct rdma_link *link, char *text, size_t capacity)
{
    snprintf(text, capacity, "rank %d on %.63s", link->tcp.base.peer, kolo_rdma_peer_host(link));
}

static void describe_peer(const struct kolo_rdma_queue *queue, char *text, size_t capacity)
{
    kolo_rdma_describe_peer(queue->context, text, capacity);
}

/** The detail without the peer's name at its beginning, since pairs with one cause should have one
 *  text. */
static const char *past_peer(const struct kolo_rdma_queue *queue, const char *detail)
{
    char peer[128];
    describe_peer(queue, peer, sizeof peer);
    size_t used = strlen(peer);
    snprintf(peer + used, sizeof peer - used, " by ");
    used = strlen(peer);
    return strncmp(detail, peer, used) == 0 ? detail + used : detail;
}

/** What a side has agreed to stands: if a queue breaks before its stage is over, the next block
 *  says so. */
static void failed(struct kolo_rdma_queue *queue, kolo_status why)
{
    struct rdma_link *link = queue->context;
    if (link->is_by_rdma) {
        kolo_rdma_finish_checks(link);
        kolo_link_set_down(&link->tcp.base, why);
        return;
    }
    snprintf(link->broke, sizeof link->broke, "%.190s", past_peer(queue, kolo_error_detail()));
    if (link->stage == RDMA_PROBED && !link->has_sent &&
        link->tcp.base.state == KOLO_LINK_CONNECTING)
        decline(link, link->broke);
}

static const struct kolo_rdma_queue_ops queue_ops = {.arrived = arrived,
                                                     .written = kolo_rdma_written,
                                                     .has_written = kolo_rdma_has_written,
                                                     .passed = kolo_rdma_passed,
                                                     .has_room = has_room,
                                                     .broke = kolo_rdma_resume_broke,
                                                     .failed = failed,
                                                     .describe = describe_peer};

/* ---- the connection ---- */

/** Makes a queue and our hello; on failure the reason is in the detail. */
static kolo_status prepare(struct rdma_link *link)
{
    struct rdma_port *port = rdma_port_of(link);
    const struct kolo_peer *peer = kolo_endpoint_peer(link->tcp.base.endpoint, link->tcp.base.peer);
    struct kolo_why why = {""};
    size_t ours = 0, theirs = 0, bytes = 0;
    if (!kolo_rdma_published(kolo_port_address_of(&port->tcp.base, peer), &link->published, &bytes))
        return KOLO_ERR_DATA;
    if (port->nic.device->is_gone)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "rdma %s is gone: look at dmesg",
                         port->nic.device->name);
    if (!kolo_rdma_is_forced(port) && kolo_rdma_fallen_gives_up(&port->fallen))
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "it is tried no more, since it failed with several peers in a row");
    if (!kolo_rdma_gids_join(&port->nic.device->gids, &link->published, &ours, &theirs, &why))
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "%s", why.text);
    link->gid = port->nic.device->gids.all[ours];
    kolo_status status = kolo_rdma_device_find_gid(port->nic.device, &link->gid);
    if (status != KOLO_OK)
        return status;
    status = kolo_rdma_queue_open(port->nic.completions, &queue_ops, link, RDMA_BUFFERS,
                                  RDMA_PAYLOAD_BYTES + link->tcp.base.header_bytes, &link->queue);
    if (status != KOLO_OK)
        return status;
    link->queue->has_checks = link->tcp.base.sums != NULL;
    kolo_rdma_queue_hello(link->queue, &link->gid, &link->mine);
    return KOLO_OK;
}

void kolo_rdma_joined(struct tcp_link *tcp)
{
    struct rdma_link *link = (struct rdma_link *)tcp;
    link->probe_until = KOLO_NEVER;
    begin_stage(link, RDMA_HELLO);
    if (prepare(link) == KOLO_OK)
        send_block(link);
    else
        decline(link, kolo_error_detail());
}

/** Reads up to @p wanted bytes; 0: nothing is there, or the link is down. */
static size_t read_some(struct rdma_link *link, void *data, size_t wanted, int flags)
{
    ssize_t got = recv(link->tcp.socket.watch.fd, data, wanted, flags);
    if (got > 0)
        return (size_t)got;
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
        kolo_tcp_fail(&link->tcp, got == 0 ? 0 : errno);
    return 0;
}

/** Takes the next block once it is complete, and ends the link if it is invalid. True: it is in
 *  @p hello_out. */
static bool take_block(struct rdma_link *link, struct kolo_rdma_hello *hello_out)
{
    char detail[KOLO_DETAIL_MAX];
    link->block_bytes +=
        read_some(link, link->block + link->block_bytes, sizeof link->block - link->block_bytes, 0);
    if (link->block_bytes < sizeof link->block || link->tcp.base.state == KOLO_LINK_DOWN)
        return false;
    link->block_bytes = 0;
    kolo_status status = kolo_block_verify(&link->tcp.base, link->block, sizeof link->block);
    if (status == KOLO_OK)
        status = kolo_rdma_hello_unpack(link->block, &link->published, hello_out);
    if (status == KOLO_OK && !link->has_theirs && (hello_out->round != 0 || hello_out->is_joined))
        status = kolo_fail(KOLO_ERR_PROTOCOL, "an RDMA handshake of round %u that begins with it",
                           hello_out->round);
    if (status == KOLO_OK)
        return true;
    kolo_detail_keep(detail);
    kolo_fail(status, "rank %d on %.63s: %s", link->tcp.base.peer, kolo_rdma_peer_host(link),
              detail);
    kolo_link_set_down(&link->tcp.base, status);
    return false;
}

static void read_block(struct rdma_link *link)
{
    uint8_t unused;
    if (link->has_theirs) { /* what follows is the end, or for a link that the peer has up */
        (void)read_some(link, &unused, sizeof unused, MSG_PEEK);
        return;
    }
    if (!take_block(link, &link->theirs))
        return;
    link->has_theirs = true;
    advance(link);
}

/** Reads the connection of a link that uses RDMA: the rest of the last block, then the end, or
 *  blocks that replace a broken pair. */
static void read_rest(struct rdma_link *link)
{
    struct kolo_rdma_hello hello;
    /* What was sent before the end is delivered before it; it may be behind what the queue holds
     * from all other ranks. */
    const uint32_t looks =
        rdma_port_of(link)->nic.completions->entries / KOLO_RDMA_COMPLETIONS_POLL_MAX + 1;
    for (uint32_t i = 0; i < looks && link->tcp.base.state == KOLO_LINK_UP; i++)
        if (!kolo_rdma_poll(link->tcp.base.port))
            break;
    kolo_rdma_finish_checks(link);
    if (link->tcp.base.state != KOLO_LINK_UP || !take_block(link, &hello))
        return;
    if (!link->has_theirs) {
        link->has_theirs = true;
        return;
    }
    kolo_rdma_resume_heard(link, &hello);
    rdma_port_of(link)->has_broken = true;
    (void)kolo_rdma_poll(link->tcp.base.port);
}

void kolo_rdma_ready(struct tcp_link *tcp)
{
    struct rdma_link *link = (struct rdma_link *)tcp;
    if (tcp->base.state == KOLO_LINK_CONNECTING)
        read_block(link);
    else if (link->is_by_rdma)
        read_rest(link);
    else
        (void)kolo_tcp_receive(tcp);
}

/* ---- operations ---- */

/** Whether this is the last frame of a message, copied, while frames before it are read in place:
 *  their completion comes with its own. */
static bool waits_for_those_before(const struct kolo_frame *frame)
{
    return frame->work && frame->work->is_taken && frame->work->frames_out > 1;
}

/** The next frame for an eager buffer. While a message is being written in pieces of limited size,
 *  other frames continue; above all those that say that it is given up. */
static bool next_frame(struct rdma_link *link, struct kolo_frame *frame_out)
{
    struct kolo_link *base = &link->tcp.base;
    const size_t most = link->queue->message_bytes - base->header_bytes;
    if (!link->writing)
        return kolo_link_next_frame(base, most, frame_out);
    return kolo_link_next_frame_beside(base, link->writing->frame.header.channel, most, frame_out);
}

static bool push_frames(struct rdma_link *link)
{
    struct kolo_link *base = &link->tcp.base;
    struct kolo_frame frame;
    bool moved = false;
    uint8_t *buffer;
    for (;;) {
        (void)kolo_rdma_go_on_writing(link);
        if (base->state != KOLO_LINK_UP || !kolo_rdma_may_take_frame(link) ||
            (buffer = kolo_rdma_queue_buffer(link->queue)) == NULL || !next_frame(link, &frame))
            return moved;
        moved = true;
        if (frame.is_remote) {
            kolo_rdma_begin_writing(link, &frame);
            continue;
        }
        kolo_frame_pack(base, &frame, buffer);
        if (kolo_rdma_send_in_place(link, &frame))
            continue;
        if (frame.bytes > 0)
            memcpy(buffer + base->header_bytes, frame.payload, frame.bytes);
        bool is_awaited = waits_for_those_before(&frame);
        if (kolo_link_frame_done(base, &frame))
            link->ended = link->queue->sends.next + 1;
        /* Otherwise only a side that closes asks whether everything has been sent. */
        kolo_rdma_queue_send(link->queue, base->header_bytes + frame.bytes,
                             is_awaited || base->said_goodbye);
    }
}

bool kolo_rdma_push(struct kolo_link *base)
{
    struct rdma_link *link = link_of(base);
    return link->is_by_rdma ? push_frames(link) : kolo_tcp_push(base);
}

bool kolo_rdma_pull(struct kolo_link *base)
{
    struct rdma_link *link = link_of(base);
    return link->is_by_rdma ? kolo_rdma_go_on_checking(link) : kolo_tcp_pull(base);
}

void kolo_rdma_withdraw(struct kolo_link *base, struct kolo_work *work)
{
    if (link_of(base)->is_by_rdma) /* otherwise frames were copied at once */
        kolo_rdma_withdraw_writing(link_of(base), work);
    else
        kolo_tcp_withdraw(base, work);
}

void kolo_rdma_describe(const struct kolo_link *base, char *text, size_t capacity)
{
    const struct rdma_link *link = (const struct rdma_link *)base;
    char device[KOLO_RDMA_PORT_TEXT_MAX], address[KOLO_RDMA_GID_TEXT];
    if (!link->is_by_rdma) {
        kolo_tcp_describe(base, text, capacity);
        return;
    }
    kolo_rdma_device_format(rdma_port_of(link)->nic.device, device);
    kolo_rdma_gid_format(&link->theirs.gid, address, sizeof address);
    snprintf(text, capacity, "rdma %s to %s", device, address);
    kolo_rdma_rails_describe(link, text, capacity);
}

void kolo_rdma_explain(const struct kolo_link *base, char *text, size_t capacity)
{
    const struct rdma_link *link = (const struct rdma_link *)base;
    const char *reason = !link->mine.offers ? link->mine.reason : link->theirs.reason;
    if (link->is_by_rdma)
        kolo_rdma_describe(base, text, capacity);
    else
        snprintf(text, capacity, "by tcp instead: %s", reason);
}

const char *kolo_rdma_goes_by(const struct kolo_link *base)
{
    const struct rdma_link *link = (const struct rdma_link *)base;
    return link->is_by_rdma ? kolo_transport_rdma.name : kolo_transport_tcp.name;
}

bool kolo_rdma_is_drained(const struct kolo_link *base)
{
    const struct rdma_link *link = (const struct rdma_link *)base;
    if (!link->is_by_rdma)
        return kolo_tcp_is_drained(base);
    if (base->said_goodbye)
        kolo_rdma_queue_flush(link->queue);
    return kolo_rdma_queue_is_drained(link->queue);
}

/** A message in an eager buffer is known to have arrived when its completion is there, or one
 * behind it. */
bool kolo_rdma_has_undelivered(const struct kolo_link *base)
{
    const struct rdma_link *link = (const struct rdma_link *)base;
    return link->is_by_rdma ? link->queue->sends.first < link->ended
                            : kolo_tcp_has_undelivered(base);
}

void kolo_rdma_drop_leftover(struct rdma_link *link)
{
    if (link->stage != RDMA_SETTLED || link->is_by_rdma)
        return;
    kolo_rdma_queue_close(link->queue);
    link->queue = NULL;
}

void kolo_rdma_down(struct kolo_link *base)
{
    struct rdma_link *link = link_of(base);
    if (link->is_by_rdma) { /* works end with this: then their memory is the program's */
        bool has_ended = kolo_rdma_queue_stop(link->queue);
        if (!kolo_rdma_rails_stop(link) || !has_ended)
            kolo_rdma_cut_off_all(base);
        kolo_rdma_resume_end(&link->resume);
        link->writing = NULL;
        link->checks.count = 0; /* these end like all others: nobody knows whether they are right */
        kolo_rdma_direct_fini(&link->direct);
    }
    kolo_tcp_down(base);
}

void kolo_rdma_free_link(struct kolo_link *base)
{
    kolo_rdma_rails_close(link_of(base));
    kolo_rdma_queue_close(link_of(base)->queue);
    link_of(base)->queue = NULL;
    kolo_tcp_free_link(base);
}
