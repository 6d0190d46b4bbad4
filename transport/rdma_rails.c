// SPDX-License-Identifier: Apache-2.0
// The further rails of a link (rdma_rails.h explains them). Must never let a message be written
// again while writes of its rail may still land, and never count what was not delivered.
#include "transport/rdma_rails.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/wire.h"
#include "transport/rdma.h"

enum word { HAVE = 1, OFFER, ANSWER, READY, OVER };
enum {
    FIRST_BYTES = 4096, /* of a first message and of a buffer: a whole packet of the largest MTU */
    GIDS_TOLD = 4       /* how many addresses of each port are told, best first */
};

/* ---- pairs of ports ---- */

/** How well two ports fit together. -1: they do not reach each other. */
static int fit(const struct kolo_rdma_gids *ours, const struct kolo_rdma_gids *theirs)
{
    size_t i = 0, j = 0;
    struct kolo_why why;
    if (!kolo_rdma_gids_join(ours, theirs, &i, &j, &why))
        return -1;
    return (int)kolo_rdma_gid_common_bits(&ours->all[i], &theirs->all[j]);
}

int kolo_rdma_rails_choose(const struct kolo_rdma_gids *ours, int our_count,
                           const struct kolo_rdma_gids *theirs, int their_count, int wanted,
                           struct rdma_rail_pair pairs_out[KOLO_RDMA_RAILS_MAX])
{
    bool is_used[KOLO_RDMA_RAILS_MAX] = {true};
    const int most = wanted > 0 && wanted < KOLO_RDMA_RAILS_MAX ? wanted : KOLO_RDMA_RAILS_MAX;
    int count = 1;
    pairs_out[0] = (struct rdma_rail_pair){0, 0};
    for (int i = 1; i < our_count && count < most; i++) {
        int best = -1, best_fit = -1;
        for (int j = 1; j < their_count; j++) {
            int one = is_used[j] ? -1 : fit(&ours[i], &theirs[j]);
            if (one > best_fit) {
                best = j;
                best_fit = one;
            }
        }
        if (best < 0)
            continue;
        is_used[best] = true;
        pairs_out[count++] = (struct rdma_rail_pair){i, best};
    }
    for (int distinct = count; wanted > 0 && count < most; count++)
        pairs_out[count] = pairs_out[count % distinct];
    return count;
}

/* ---- messages ---- */

/** What a control frame says about a rail, beside its payload. */
struct notice {
    uint8_t number; /* the rail's; HAVE: 0 */
    uint8_t word;
    uint8_t nic;       /* OFFER: which port of the receiver */
    uint64_t received; /* OVER: how much had arrived */
};

static void say(struct rdma_link *link, struct notice notice, const uint8_t *payload, size_t bytes)
{
    struct kolo_link *base = &link->tcp.base;
    struct kolo_desc desc = {{0}};
    struct kolo_writer writer = kolo_writer_over(desc.bytes, sizeof desc.bytes);
    kolo_write_u8(&writer, KOLO_RDMA_RAIL_FRAME);
    kolo_write_u8(&writer, notice.number);
    kolo_write_u8(&writer, notice.word);
    kolo_write_u8(&writer, notice.nic);
    kolo_write_u64(&writer, notice.received);
    kolo_status status = kolo_link_send_control(base, &desc, payload, bytes);
    if (status != KOLO_OK)
        kolo_link_set_down(base, status);
    else
        (void)kolo_link_push(base);
}

static void say_pair(struct rdma_rail *rail, enum word word, uint8_t nic)
{
    struct kolo_rdma_hello hello;
    uint8_t block[KOLO_RDMA_HELLO_BYTES];
    kolo_rdma_queue_hello(rail->queue, &rail->gid, &hello);
    kolo_rdma_hello_pack(&hello, block);
    say(rail->link, (struct notice){rail->number, (uint8_t)word, nic, 0}, block, sizeof block);
}

/* ---- the end of one ---- */

/** Checks that the peer can have received that many: not less than is known to have arrived, since
 *  that cannot be written again any more. */
static kolo_status check_received(const struct rdma_rail *rail)
{
    const struct rdma_link *link = rail->link;
    if (rail->received > rail->queue->uses)
        return kolo_fail(
            KOLO_ERR_PROTOCOL,
            "rank %d says that it has %llu requests of rail %d, of %llu that were sent",
            link->tcp.base.peer, (unsigned long long)rail->received, rail->number + 1,
            (unsigned long long)rail->queue->uses);
    if (rail->received < rail->arrived)
        return kolo_fail(KOLO_ERR_LINK,
                         "rank %d on %.63s by rdma %s port %u: what had arrived by rail %d was "
                         "lost there with its device",
                         link->tcp.base.peer, kolo_rdma_peer_host(link), rail->nic->device->name,
                         rail->nic->device->port, rail->number + 1);
    return KOLO_OK;
}

/** Nothing of the rail moves any more on either side, so what the peer has of each message is
 *  known. */
static void settle_rows(struct rdma_rail *rail)
{
    struct rdma_link *link = rail->link;
    kolo_status status = check_received(rail);
    if (status != KOLO_OK)
        kolo_link_set_down(&link->tcp.base, status);
    for (int i = 0; i < KOLO_RDMA_SLOTS && link->tcp.base.state == KOLO_LINK_UP; i++) {
        struct kolo_rdma_writing *writing = &link->direct.writings[i];
        struct kolo_rdma_row *row = &writing->rows[rail->number];
        if (!writing->region || row->state == KOLO_RDMA_ROW_NONE)
            continue;
        if (row->state == KOLO_RDMA_ROW_CLOSED && row->closes <= rail->received)
            kolo_rdma_row_is_over(link, row);
        else
            row->state = KOLO_RDMA_ROW_AGAIN;
    }
    kolo_rdma_wake_writing(link);
}

/** If its device does not release the pair, it may still write into memory that was offered: calls
 *  must not end before that is cut off. */
static void end_link(struct rdma_rail *rail)
{
    struct kolo_link *base = &rail->link->tcp.base;
    kolo_link_set_down(
        base, kolo_fail(KOLO_ERR_LINK,
                        "rank %d on %.63s by rdma %s port %u: rail %d is over, but its device does "
                        "not destroy its queue pair: look at dmesg",
                        base->peer, kolo_rdma_peer_host(rail->link), rail->nic->device->name,
                        rail->nic->device->port, rail->number + 1));
}

static void end_rail(struct rdma_rail *rail)
{
    struct rdma_link *link = rail->link;
    const bool has_ended = kolo_rdma_queue_stop(rail->queue);
    rail->step = RAIL_OVER;
    if (!has_ended) {
        end_link(rail);
        return;
    }
    say(link,
        (struct notice){.number = rail->number,
                        .word = OVER,
                        .received = kolo_rdma_queue_received(rail->queue)},
        NULL, 0);
    if (rail->heard_over && link->tcp.base.state == KOLO_LINK_UP)
        settle_rows(rail);
}

/** Begins to stop: the next looks deliver what had arrived. */
static void stop_rail(struct rdma_rail *rail)
{
    struct rdma_link *link = rail->link;
    link->direct.rails_open &= (uint8_t) ~(1 << rail->number);
    rail->step = RAIL_STOPS;
    rail->stops_until = kolo_now_ns();
    if (kolo_rdma_queue_cut(rail->queue) == KOLO_OK)
        rail->stops_until +=
            kolo_tcp_settings(&rdma_port_of(link)->tcp)->peer_timeout_ms * KOLO_NS_PER_MS;
    rdma_port_of(link)->has_stopping = true;
    kolo_rdma_look_at(rdma_port_of(link), kolo_now_ns());
}

/** Delivers everything that is there. */
static void take_all(struct kolo_rdma_completions *completions)
{
    const uint32_t looks = completions->entries / KOLO_RDMA_COMPLETIONS_POLL_MAX + 1;
    bool moved = true;
    for (uint32_t i = 0; i < looks && moved; i++)
        if (kolo_rdma_completions_poll(completions, &moved) != KOLO_OK)
            return;
}

bool kolo_rdma_rails_step(struct rdma_link *link)
{
    bool is_any = false;
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX && link->tcp.base.state == KOLO_LINK_UP; i++) {
        struct rdma_rail *rail = &link->rails.all[i];
        if (rail->step != RAIL_STOPS)
            continue;
        bool is_late = kolo_now_ns() >= rail->stops_until;
        if (is_late)
            take_all(rail->nic->completions);
        if (is_late || rail->queue->has_failed || kolo_rdma_queue_is_still(rail->queue)) {
            end_rail(rail);
            continue;
        }
        kolo_rdma_look_at(rdma_port_of(link), rail->stops_until);
        is_any = true;
    }
    return is_any;
}

/* ---- the queue's callbacks ---- */

static struct rdma_rail *rail_of(const struct kolo_rdma_queue *queue)
{
    return queue->context;
}

static void arrived(struct kolo_rdma_queue *queue, const uint8_t *data, size_t bytes)
{
    (void)queue; /* a first message: its arrival says everything, and says it to its sender */
    (void)data;
    (void)bytes;
}

static void written(struct kolo_rdma_queue *queue, uint16_t mark)
{
    kolo_rdma_take_mark(rail_of(queue)->link, mark);
}

static void has_written(struct kolo_rdma_queue *queue, void *context)
{
    struct kolo_rdma_row *row = context;
    rail_of(queue)->arrived = row->closes;
    kolo_rdma_row_is_over(rail_of(queue)->link, row);
}

static void passed(struct kolo_rdma_queue *queue, size_t bytes)
{
    struct rdma_rail *rail = rail_of(queue);
    kolo_rdma_pace_over(&rail->link->rails.paces[rail->number], bytes, kolo_now_ns());
}

static void has_room(struct kolo_rdma_queue *queue)
{
    struct rdma_rail *rail = rail_of(queue);
    struct rdma_link *link = rail->link;
    char port[KOLO_RDMA_PORT_TEXT_MAX];
    if (rail->step == RAIL_PROVES && kolo_rdma_queue_is_drained(queue)) {
        rail->step = RAIL_GOES;
        link->direct.rails[rail->number] = &rail->nic->regions;
        link->direct.rails_open |= (uint8_t)(1 << rail->number);
        kolo_rdma_device_format(rail->nic->device, port);
        KOLO_INFO("rank %d on %.63s by rdma: rail %d goes by %s", link->tcp.base.peer,
                  kolo_rdma_peer_host(link), rail->number + 1, port);
    }
    if (rail->step == RAIL_GOES)
        (void)kolo_link_push(&link->tcp.base);
}

static bool broke(struct kolo_rdma_queue *queue)
{
    struct rdma_rail *rail = rail_of(queue);
    const struct kolo_link *base = &rail->link->tcp.base;
    if (rail->step >= RAIL_STOPS)
        return true;
    if (base->state == KOLO_LINK_UP && !base->heard_goodbye && !base->said_goodbye)
        KOLO_WARN("%s; rail %d of this link is over, it goes on by the others", kolo_error_detail(),
                  rail->number + 1);
    stop_rail(rail);
    return true;
}

static void failed(struct kolo_rdma_queue *queue, kolo_status why)
{
    struct rdma_rail *rail = rail_of(queue);
    if (why == KOLO_ERR_PROTOCOL || why == KOLO_ERR_DATA)
        kolo_link_set_down(&rail->link->tcp.base, why);
    else
        (void)broke(queue);
}

static void describe_peer(const struct kolo_rdma_queue *queue, char *text, size_t capacity)
{
    kolo_rdma_describe_peer(rail_of(queue)->link, text, capacity);
}

static const struct kolo_rdma_queue_ops rail_ops = {.arrived = arrived,
                                                    .written = written,
                                                    .has_written = has_written,
                                                    .passed = passed,
                                                    .has_room = has_room,
                                                    .broke = broke,
                                                    .failed = failed,
                                                    .describe = describe_peer,
                                                    .is_spare = true};

/* ---- how one comes up ---- */

/** Opens a queue pair for rail @p number on @p nic, at the address that joins it with @p theirs. */
static kolo_status open_rail(struct rdma_link *link, uint8_t number, struct rdma_nic *nic,
                             const struct kolo_rdma_gids *theirs)
{
    struct rdma_rail *rail = &link->rails.all[number];
    struct kolo_why why = {""};
    size_t i = 0, j = 0;
    if (nic->device->is_gone)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "rdma %s is gone", nic->device->name);
    if (!kolo_rdma_gids_join(&nic->device->gids, theirs, &i, &j, &why))
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "%s", why.text);
    *rail = (struct rdma_rail){
        .link = link, .nic = nic, .number = number, .gid = nic->device->gids.all[i]};
    kolo_status status = kolo_rdma_device_find_gid(nic->device, &rail->gid);
    if (status == KOLO_OK)
        status = kolo_rdma_queue_open(nic->completions, &rail_ops, rail, RDMA_BUFFERS, FIRST_BYTES,
                                      &rail->queue);
    if (status == KOLO_OK)
        rail->queue->has_checks = link->tcp.base.sums != NULL;
    return status;
}

static void send_first(struct rdma_rail *rail)
{
    uint8_t *buffer = kolo_rdma_queue_buffer(rail->queue);
    rail->step = RAIL_PROVES;
    if (!buffer)
        return; /* it has broken, and stops */
    memset(buffer, 0, rail->queue->message_bytes);
    kolo_rdma_queue_send(rail->queue, rail->queue->message_bytes, true);
}

/** The rail is not available, for the reason in the detail: the link goes on without it. */
static void do_without(struct rdma_link *link, uint8_t number)
{
    struct rdma_rail *rail = &link->rails.all[number];
    KOLO_INFO("rank %d on %.63s by rdma: there is no rail %d: %s", link->tcp.base.peer,
              kolo_rdma_peer_host(link), number + 1, kolo_error_detail());
    if (rail->queue && rail->step < RAIL_STOPS)
        stop_rail(rail);
    else if (!rail->queue) {
        rail->step = RAIL_OVER;
        say(link, (struct notice){.number = number, .word = OVER}, NULL, 0);
    }
}

void kolo_rdma_rails_begin(struct rdma_link *link)
{
    struct rdma_port *port = rdma_port_of(link);
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(link->tcp.base.endpoint);
    uint8_t payload[KOLO_CONTROL_BYTES_MAX];
    const int64_t wanted = config->settings->rdma_rails;
    if (wanted == 1 || config->identity.rank < link->tcp.base.peer)
        return;
    payload[0] = (uint8_t)wanted;
    payload[1] = (uint8_t)(1 + port->other_count);
    size_t bytes = 2;
    for (int i = 0; i <= port->other_count; i++) {
        struct kolo_rdma_gids gids = kolo_rdma_nic_at(port, i)->device->gids;
        gids.count = gids.count < GIDS_TOLD ? gids.count : GIDS_TOLD;
        bytes += kolo_rdma_gids_pack(&gids, payload + bytes);
    }
    say(link, (struct notice){.word = HAVE}, payload, bytes);
}

static kolo_status nonsense(const struct rdma_link *link, int word, int number)
{
    return kolo_fail(KOLO_ERR_PROTOCOL,
                     "rank %d sent word %d about rail %d, which is impossible in its state",
                     link->tcp.base.peer, word, number);
}

/** The number of rails that both sides allow; 0: as many as there are ports. */
static int agree(int64_t ours, int theirs)
{
    if (ours == 0 || theirs == 0)
        return ours > theirs ? (int)ours : theirs;
    return ours < theirs ? (int)ours : theirs;
}

static void lead(struct rdma_link *link, const struct kolo_rdma_gids *theirs, int their_count,
                 int wanted)
{
    struct rdma_port *port = rdma_port_of(link);
    struct kolo_rdma_gids ours[KOLO_RDMA_RAILS_MAX];
    struct rdma_rail_pair pairs[KOLO_RDMA_RAILS_MAX];
    for (int i = 0; i <= port->other_count; i++)
        ours[i] = kolo_rdma_nic_at(port, i)->device->gids;
    int count =
        kolo_rdma_rails_choose(ours, 1 + port->other_count, theirs, their_count, wanted, pairs);
    for (uint8_t n = 1; n < count && link->tcp.base.state == KOLO_LINK_UP; n++) {
        struct rdma_rail *rail = &link->rails.all[n];
        kolo_status status =
            open_rail(link, n, kolo_rdma_nic_at(port, pairs[n].ours), &theirs[pairs[n].theirs]);
        if (status != KOLO_OK) { /* the peer knows nothing of it */
            KOLO_INFO("rank %d on %.63s by rdma: there is no rail %d: %s", link->tcp.base.peer,
                      kolo_rdma_peer_host(link), n + 1, kolo_error_detail());
            continue;
        }
        rail->step = RAIL_OFFERED;
        say_pair(rail, OFFER, (uint8_t)pairs[n].theirs);
    }
}

static kolo_status heard_have(struct rdma_link *link, const uint8_t *payload, size_t bytes)
{
    const struct kolo_settings *settings = kolo_tcp_settings(&rdma_port_of(link)->tcp);
    struct kolo_rdma_gids theirs[KOLO_RDMA_RAILS_MAX];
    size_t at = 2, used = 0;
    if (bytes < 2 || payload[0] > KOLO_RDMA_RAILS_MAX || payload[1] < 1 ||
        payload[1] > KOLO_RDMA_RAILS_MAX || link->has_led)
        return nonsense(link, HAVE, 0);
    for (int i = 0; i < payload[1]; i++) {
        if (kolo_rdma_gids_unpack(payload + at, bytes - at, &theirs[i], &used) != KOLO_OK)
            return nonsense(link, HAVE, 0);
        at += used;
    }
    link->has_led = true;
    if (settings->rdma_rails != 1)
        lead(link, theirs, payload[1], agree(settings->rdma_rails, payload[0]));
    return KOLO_OK;
}

static void heard_offer(struct rdma_link *link, uint8_t number, uint8_t nic,
                        const struct kolo_rdma_hello *theirs)
{
    struct rdma_rail *rail = &link->rails.all[number];
    const struct kolo_rdma_gids gids = {.all = {theirs->gid}, .count = 1};
    kolo_status status = open_rail(link, number, kolo_rdma_nic_at(rdma_port_of(link), nic), &gids);
    if (status == KOLO_OK)
        status = kolo_rdma_queue_connect(rail->queue, &rail->gid, theirs);
    rail->link = link;
    rail->number = number;
    rail->theirs = theirs->gid;
    if (status != KOLO_OK) {
        do_without(link, number);
        return;
    }
    rail->step = RAIL_JOINED;
    say_pair(rail, ANSWER, 0);
}

static void heard_answer(struct rdma_link *link, uint8_t number,
                         const struct kolo_rdma_hello *theirs)
{
    struct rdma_rail *rail = &link->rails.all[number];
    rail->theirs = theirs->gid;
    if (kolo_rdma_queue_connect(rail->queue, &rail->gid, theirs) != KOLO_OK) {
        do_without(link, number);
        return;
    }
    say(link, (struct notice){.number = number, .word = READY}, NULL, 0);
    if (link->tcp.base.state == KOLO_LINK_UP && rail->step == RAIL_OFFERED)
        send_first(rail);
}

static void heard_over(struct rdma_rail *rail, uint64_t received)
{
    rail->heard_over = true;
    rail->received = received;
    if (rail->step < RAIL_STOPS) {
        KOLO_INFO("rank %d on %.63s by rdma: rail %d has ended there", rail->link->tcp.base.peer,
                  kolo_rdma_peer_host(rail->link), rail->number + 1);
        stop_rail(rail);
    } else if (rail->step == RAIL_OVER && rail->queue) {
        settle_rows(rail);
    }
}

/** Handles a control frame about one rail. */
static kolo_status heard_of(struct rdma_link *link, const struct notice *notice,
                            const struct kolo_rdma_hello *theirs)
{
    struct rdma_port *port = rdma_port_of(link);
    const uint8_t number = notice->number, word = notice->word;
    struct rdma_rail *rail = &link->rails.all[number];
    const bool is_on_its_way = rail->step == RAIL_STOPS || rail->step == RAIL_OVER;
    if (word == OFFER && theirs->offers && rail->step == RAIL_NONE &&
        notice->nic <= port->other_count && kolo_tcp_settings(&port->tcp)->rdma_rails != 1)
        heard_offer(link, number, notice->nic, theirs);
    else if (word == ANSWER && theirs->offers && rail->step == RAIL_OFFERED)
        heard_answer(link, number, theirs);
    else if (word == READY && rail->step == RAIL_JOINED)
        send_first(rail);
    else if (word == OVER && rail->step != RAIL_NONE && !rail->heard_over)
        heard_over(rail, notice->received);
    else if (!is_on_its_way || (word != ANSWER && word != READY)) /* these crossed our OVER */
        return nonsense(link, word, number);
    return KOLO_OK;
}

kolo_status kolo_rdma_rails_heard(struct rdma_link *link, const struct kolo_header *header,
                                  const uint8_t *payload)
{
    struct kolo_reader reader =
        kolo_reader_over(header->desc.bytes + 1, sizeof header->desc.bytes - 1);
    struct kolo_rdma_hello theirs = {.offers = false};
    struct notice notice;
    notice.number = kolo_read_u8(&reader);
    notice.word = kolo_read_u8(&reader);
    notice.nic = kolo_read_u8(&reader);
    notice.received = kolo_read_u64(&reader);
    const bool has_pair = notice.word == OFFER || notice.word == ANSWER;
    if (notice.word == HAVE && notice.number == 0)
        return heard_have(link, payload, header->bytes);
    if (notice.number < 1 || notice.number >= KOLO_RDMA_RAILS_MAX ||
        header->bytes != (has_pair ? KOLO_RDMA_HELLO_BYTES : 0))
        return nonsense(link, notice.word, notice.number);
    kolo_status status = KOLO_OK;
    if (has_pair)
        status = kolo_rdma_hello_unpack(payload, NULL, &theirs);
    return status == KOLO_OK ? heard_of(link, &notice, &theirs) : status;
}

/* ---- all of a link, or of a device ---- */

void kolo_rdma_rails_lost(struct rdma_nic *nic)
{
    char detail[KOLO_DETAIL_MAX];
    kolo_detail_keep(detail);
    for (struct tcp_link *tcp = nic->port->tcp.first; tcp; tcp = tcp->next) {
        struct rdma_link *link = (struct rdma_link *)tcp;
        for (int i = 1; link->is_by_rdma && i < KOLO_RDMA_RAILS_MAX; i++) {
            struct rdma_rail *rail = &link->rails.all[i];
            kolo_detail_set(detail);
            if (rail->nic == nic && rail->queue && rail->step < RAIL_STOPS)
                (void)broke(rail->queue);
        }
    }
}

bool kolo_rdma_rails_stop(struct rdma_link *link)
{
    bool has_ended = true;
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX; i++) {
        struct rdma_rail *rail = &link->rails.all[i];
        if (rail->queue)
            has_ended &= kolo_rdma_queue_stop(rail->queue);
        rail->step = RAIL_OVER;
    }
    link->direct.rails_open = 0;
    return has_ended;
}

void kolo_rdma_rails_close(struct rdma_link *link)
{
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX; i++) {
        kolo_rdma_queue_close(link->rails.all[i].queue);
        link->rails.all[i].queue = NULL;
    }
}

void kolo_rdma_rails_describe(const struct rdma_link *link, char *text, size_t capacity)
{
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX; i++) {
        const struct rdma_rail *rail = &link->rails.all[i];
        char port[KOLO_RDMA_PORT_TEXT_MAX], address[KOLO_RDMA_GID_TEXT];
        const size_t used = strlen(text);
        if (rail->step != RAIL_GOES)
            continue;
        kolo_rdma_device_format(rail->nic->device, port);
        kolo_rdma_gid_format(&rail->theirs, address, sizeof address);
        snprintf(text + used, capacity - used, ", %s to %s", port, address);
    }
}
