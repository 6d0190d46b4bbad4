// SPDX-License-Identifier: Apache-2.0
// Sends and receives over one queue pair (rdma_queue.h explains credit and marks). Must never post
// a send for which the peer has no buffer, and never let the device touch a buffer that somebody
// reads or writes.
#include "transport/rdma_queue.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"
#include "transport/auth.h"
#include "transport/rdma_number.h"
#include "transport/rdma_pair.h"
#include "transport/rdma_register.h"

enum {
    /* the most that one request asks of the device, so that messages to others can go between */
    WRITE_BYTES = 1 << 20,
    /* limit of the bytes of writes under way before one more is posted: far more than a fast wire
     * holds */
    WRITES_BYTES = 4 << 20,
    SEND_PARTS = 2,
    RESERVE = 4,           /* receives for messages that carry only credit */
    PACKET_MASK = 0xffffff /* packet numbers have 24 bits */
};

/* ---- eager buffers ---- */

static uint8_t *send_buffer(const struct kolo_rdma_queue *queue, uint64_t number)
{
    return queue->memory + (number & (queue->buffers - 1)) * queue->buffer_bytes;
}

static uint8_t *receive_buffer(const struct kolo_rdma_queue *queue, uint64_t number)
{
    return send_buffer(queue, number) + (size_t)queue->buffers * queue->buffer_bytes;
}

/** Posts the next receive again. If the device refuses it, the queue ends; or it is cut, and what
 *  had arrived is still delivered. */
static bool post_receive(struct kolo_rdma_queue *queue)
{
    struct ibv_recv_wr *bad = NULL;
    uint8_t *buffer = receive_buffer(queue, queue->receives.next);
    const struct kolo_rdma_request request = {
        .what = "a receive", .bytes = queue->buffer_bytes, .context = buffer};
    struct ibv_sge part = {
        .addr = (uintptr_t)buffer, .length = queue->buffer_bytes, .lkey = queue->region->lkey};
    struct ibv_recv_wr receive = {.wr_id = kolo_rdma_track_add(&queue->receives, &request, true),
                                  .sg_list = &part,
                                  .num_sge = 1};
    int error = queue->completions->device->verbs->post_recv(queue->pair, &receive, &bad);
    if (error != 0)
        kolo_rdma_track_refused(&queue->receives, error);
    if (error != 0 && queue->is_cut)
        queue->receives.has_failed = false; /* until the first one that is flushed */
    return error == 0;
}

static struct kolo_rdma_posted *posted_at(const struct kolo_rdma_queue *queue, uint64_t number)
{
    return &queue->posted[number & (queue->buffers - 1)];
}

static bool takes_receive(const struct kolo_rdma_posted *posted)
{
    return posted->opcode != IBV_WR_RDMA_WRITE;
}

/** Keeps a copy of what is about to be posted. */
static void keep(struct kolo_rdma_queue *queue, const struct ibv_send_wr *send)
{
    struct kolo_rdma_posted *posted = posted_at(queue, queue->sends.next);
    posted->opcode = send->opcode;
    posted->mark = kolo_rdma_number_mark(ntohl(send->imm_data));
    posted->part_count = (uint8_t)send->num_sge;
    posted->is_inlined = (send->send_flags & IBV_SEND_INLINE) != 0;
    posted->address = send->wr.rdma.remote_addr;
    posted->remote_key = send->wr.rdma.rkey;
    for (int i = 0; i < send->num_sge; i++)
        posted->parts[i] = send->sg_list[i];
    queue->uses += takes_receive(posted);
    posted->uses = queue->uses;
}

/** Posts what has been added to the track. If the device refuses it, or has refused one before it,
 *  only the pair that replaces this one gets it. */
static void post_as(struct kolo_rdma_queue *queue, struct ibv_send_wr *send, uint64_t id,
                    bool is_signaled)
{
    struct ibv_send_wr *bad = NULL;
    if (queue->is_cut)
        return;
    send->wr_id = id;
    if (is_signaled)
        send->send_flags |= IBV_SEND_SIGNALED;
    int error = queue->completions->device->verbs->post_send(queue->pair, send, &bad);
    if (error == 0)
        return;
    queue->holds = true; /* nothing may be sent before it, also from within the callback */
    kolo_rdma_track_refused(&queue->sends, error);
}

/** Posts @p send, whose parts are filled in. */
static void post(struct kolo_rdma_queue *queue, const struct kolo_rdma_request *request,
                 struct ibv_send_wr *send, bool is_signaled)
{
    const bool is_write =
        send->opcode != IBV_WR_SEND_WITH_IMM; /* signaled, since others wait for it */
    const bool signals = is_signaled || is_write || kolo_rdma_track_wants_signal(&queue->sends);
    queue->writes_out += is_write ? request->bytes : 0;
    keep(queue, send);
    post_as(queue, send, kolo_rdma_track_add(&queue->sends, request, signals), signals);
}

/** The 32-bit number to send: the credit that is owed, as far as it fits, and a mark. */
static uint32_t take_owed(struct kolo_rdma_queue *queue, uint16_t mark)
{
    const uint32_t most = queue->has_checks ? KOLO_RDMA_CREDIT_CHECKED_MAX : KOLO_RDMA_CREDIT_MAX;
    const uint32_t owed = queue->owed < most ? queue->owed : most;
    queue->owed -= owed;
    return htonl(kolo_rdma_number_pack(mark, owed, queue->has_checks));
}

static struct ibv_sge part_of(const void *data, size_t bytes, uint32_t key)
{
    return (struct ibv_sge){.addr = (uintptr_t)data, .length = (uint32_t)bytes, .lkey = key};
}

/** Posts the next send. */
static void post_send(struct kolo_rdma_queue *queue, const char *what, size_t bytes,
                      bool is_signaled)
{
    const struct kolo_rdma_request request = {.what = what, .bytes = bytes};
    struct ibv_sge part =
        part_of(send_buffer(queue, queue->sends.next), bytes, queue->region->lkey);
    struct ibv_send_wr send = {.sg_list = &part,
                               .num_sge = bytes > 0 ? 1 : 0,
                               .opcode = IBV_WR_SEND_WITH_IMM,
                               .imm_data = take_owed(queue, 0)};
    if (bytes > 0 && bytes <= queue->inline_bytes)
        send.send_flags |= IBV_SEND_INLINE;
    post(queue, &request, &send, is_signaled);
}

static bool can_post(const struct kolo_rdma_queue *queue)
{
    return queue->is_connected && !queue->has_failed && !queue->holds &&
           !kolo_rdma_track_is_full(&queue->sends);
}

static void return_credit(struct kolo_rdma_queue *queue)
{
    bool is_due = queue->owed >= (queue->buffers - RESERVE) / 2;
    if (is_due && can_post(queue))
        post_send(queue, "a return of credit", 0, true);
}

/* ---- the tracks' callbacks ---- */

static struct kolo_rdma_queue *of_sends(const struct kolo_rdma_track *track)
{
    return (struct kolo_rdma_queue *)(void *)((char *)(uintptr_t)track -
                                              offsetof(struct kolo_rdma_queue, sends));
}

static struct kolo_rdma_queue *of_track(const struct kolo_rdma_track *track)
{
    if (!track->is_receive)
        return of_sends(track);
    return (struct kolo_rdma_queue *)(void *)((char *)(uintptr_t)track -
                                              offsetof(struct kolo_rdma_queue, receives));
}

static void track_failed(struct kolo_rdma_track *track, kolo_status why)
{
    struct kolo_rdma_queue *queue = of_track(track);
    const bool may_survive = track->is_survivable || (queue->ops->is_spare && why == KOLO_ERR_LINK);
    if (queue->has_failed || (queue->is_cut && may_survive))
        return;
    bool is_survivable = may_survive && queue->is_connected && queue->ops->broke;
    if (is_survivable && queue->ops->broke(queue))
        return;
    queue->has_failed = true;
    queue->ops->failed(queue, why);
}

static void track_describe(const struct kolo_rdma_track *track, char *text, size_t capacity)
{
    const struct kolo_rdma_queue *queue = of_track(track);
    queue->ops->describe(queue, text, capacity);
}

static void break_protocol(struct kolo_rdma_queue *queue, const char *text, unsigned value)
{
    char peer[128];
    queue->ops->describe(queue, peer, sizeof peer);
    track_failed(&queue->receives,
                 kolo_fail(KOLO_ERR_PROTOCOL, "%s by rdma: %s (%u)", peer, text, value));
}

static void report_number(struct kolo_rdma_queue *queue, uint32_t number)
{
    char peer[128];
    queue->ops->describe(queue, peer, sizeof peer);
    track_failed(&queue->receives,
                 kolo_fail(KOLO_ERR_DATA,
                           "%s by rdma: the number that came with a message changed on the way "
                           "here: %08x has a wrong check (a network card, a switch or memory "
                           "corrupts data: run kolobench diagnose, and look at dmesg, ethtool -S "
                           "and memory errors on both hosts)",
                           peer, number));
}

/** Takes the credit of its number, and returns the mark. If it is wrong, the queue has failed. */
static uint16_t take_number(struct kolo_rdma_queue *queue, const struct ibv_wc *wc)
{
    const uint32_t number = (wc->wc_flags & IBV_WC_WITH_IMM) != 0 ? ntohl(wc->imm_data) : 0;
    uint32_t more = 0;
    uint16_t mark = 0;
    if (!kolo_rdma_number_unpack(number, queue->has_checks, &mark, &more))
        report_number(queue, number);
    else if (more > queue->credit_whole - queue->credit)
        break_protocol(queue, "more eager buffers were returned than were used", more);
    else
        queue->credit += more;
    return mark;
}

static void received(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                     const struct ibv_wc *wc)
{
    struct kolo_rdma_queue *queue = of_track(track);
    bool is_write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    const uint16_t mark = take_number(queue, wc);
    if (!queue->has_failed && is_write)
        queue->ops->written(queue, mark);
    else if (!queue->has_failed && wc->byte_len > 0)
        queue->ops->arrived(queue, request->context, wc->byte_len);
    if (queue->has_failed || queue->is_cut || !post_receive(queue))
        return;
    queue->owed += is_write || wc->byte_len > 0;
    queue->ops->has_room(queue); /* what is sent from within this callback carries the credit */
    return_credit(queue);
}

static void sent(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                 const struct ibv_wc *wc)
{
    struct kolo_rdma_queue *queue = of_track(track);
    (void)wc;
    if (posted_at(queue, track->first - 1)->opcode != IBV_WR_SEND_WITH_IMM)
        queue->writes_out -= request->bytes;
    if (queue->has_failed)
        return;
    if (request->is_piece)
        queue->ops->passed(queue, request->bytes);
    if (request->context)
        queue->ops->has_written(queue, request->context);
    if (queue->has_failed || (track->first != track->signaled && track->first != track->next))
        return; /* broken by that callback, or not the last request of this completion */
    queue->ops->has_room(queue);
    return_credit(queue);
}

static const struct kolo_rdma_track_ops send_ops = {
    .done = sent, .failed = track_failed, .describe = track_describe};
static const struct kolo_rdma_track_ops receive_ops = {
    .done = received, .failed = track_failed, .describe = track_describe};

/* ---- opening ---- */

static kolo_status make_memory(struct kolo_rdma_queue *queue)
{
    const struct kolo_rdma_device *device = queue->completions->device;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    /* Whole pages: libibverbs may hide them from a forked child, which must not affect other
     * memory. */
    size_t bytes = (2 * (size_t)queue->buffers * queue->buffer_bytes + page - 1) / page * page;
    queue->memory = kolo_aligned(page, bytes);
    if (!queue->memory)
        return KOLO_ERR_NO_MEMORY;
    memset(queue->memory, 0, bytes);
    return kolo_rdma_register(device, queue->memory, bytes, IBV_ACCESS_LOCAL_WRITE, &queue->region);
}

static kolo_status make_pair(struct kolo_rdma_queue *queue)
{
    return kolo_rdma_pair_make(queue->completions, queue->buffers,
                               queue->takes_parts ? SEND_PARTS : 1, &queue->pair,
                               &queue->inline_bytes);
}

/** Posts all receives, so that messages can arrive as soon as the pair is joined. */
static kolo_status make_ready(struct kolo_rdma_queue *queue)
{
    kolo_status status = kolo_rdma_pair_prepare(queue->completions->device, queue->pair);
    for (uint32_t i = 0; status == KOLO_OK && i < queue->buffers; i++)
        if (!post_receive(queue))
            status = KOLO_ERR_LINK;
    return status;
}

kolo_status kolo_rdma_queue_open(struct kolo_rdma_completions *completions,
                                 const struct kolo_rdma_queue_ops *ops, void *context,
                                 uint32_t buffers, uint32_t buffer_bytes,
                                 struct kolo_rdma_queue **queue_out)
{
    kolo_status status;
    struct kolo_rdma_queue *queue = kolo_calloc(1, sizeof *queue);
    if (!queue)
        return KOLO_ERR_NO_MEMORY;
    queue->posted = kolo_calloc(buffers, sizeof *queue->posted);
    if (!queue->posted) {
        kolo_free_memory(queue);
        return KOLO_ERR_NO_MEMORY;
    }
    queue->completions = completions;
    queue->ops = ops;
    queue->context = context;
    queue->buffers = buffers;
    queue->buffer_bytes = buffer_bytes;
    KOLO_TRY(kolo_random(&queue->packet, sizeof queue->packet));
    queue->packet &= PACKET_MASK;
    queue->takes_parts = completions->device->parts_max >= SEND_PARTS;
    queue->write_bytes = completions->device->message_bytes_max < WRITE_BYTES
                             ? completions->device->message_bytes_max
                             : WRITE_BYTES;
    KOLO_TRY(kolo_rdma_track_open(&queue->sends, completions, &send_ops, false, buffers));
    KOLO_TRY(kolo_rdma_track_open(&queue->receives, completions, &receive_ops, true, buffers));
    KOLO_TRY(make_memory(queue));
    KOLO_TRY(make_pair(queue));
    queue->has_failed = true; /* its owner gets the status only, and no callback */
    KOLO_TRY(make_ready(queue));
    queue->has_failed = false;
    *queue_out = queue;
    return KOLO_OK;
out:
    kolo_rdma_queue_close(queue);
    return status;
}

static void destroy_pair(struct kolo_rdma_queue *queue)
{
    queue->is_loose |= !kolo_rdma_pair_destroy(queue->completions->device, queue->pair);
    queue->pair = NULL;
}

static void free_memory(void *memory, size_t bytes)
{
    (void)bytes;
    kolo_free_memory(memory);
}

void kolo_rdma_queue_close(struct kolo_rdma_queue *queue)
{
    if (!queue)
        return;
    destroy_pair(queue);
    kolo_rdma_track_close(&queue->sends);
    kolo_rdma_track_close(&queue->receives);
    if (queue->region)
        kolo_rdma_unregister(queue->completions->device, queue->region, queue->memory,
                             queue->region->length, free_memory);
    else
        kolo_free_memory(queue->memory);
    kolo_free_memory(queue->posted);
    kolo_free_memory(queue);
}

/* ---- joining ---- */

void kolo_rdma_queue_hello(const struct kolo_rdma_queue *queue, const struct kolo_rdma_gid *gid,
                           struct kolo_rdma_hello *hello_out)
{
    const struct kolo_rdma_device *device = queue->completions->device;
    *hello_out = (struct kolo_rdma_hello){.offers = true,
                                          .gid = *gid,
                                          .mtu = (uint8_t)device->mtu,
                                          .pair = queue->pair->qp_num,
                                          .packet = queue->packet,
                                          .lid = device->lid,
                                          .buffers = queue->buffers,
                                          .buffer_bytes = queue->buffer_bytes};
}

kolo_status kolo_rdma_queue_connect(struct kolo_rdma_queue *queue, const struct kolo_rdma_gid *gid,
                                    const struct kolo_rdma_hello *theirs)
{
    kolo_status status =
        kolo_rdma_pair_join(queue->completions->device, queue->pair, queue->packet, gid, theirs);
    if (status != KOLO_OK)
        return status;
    queue->message_bytes =
        theirs->buffer_bytes < queue->buffer_bytes ? theirs->buffer_bytes : queue->buffer_bytes;
    queue->credit = queue->credit_whole = theirs->buffers - RESERVE;
    queue->is_connected = true;
    return KOLO_OK;
}

/* ---- sending ---- */

uint8_t *kolo_rdma_queue_buffer(struct kolo_rdma_queue *queue)
{
    return queue->credit > 0 && can_post(queue) ? send_buffer(queue, queue->sends.next) : NULL;
}

void kolo_rdma_queue_send(struct kolo_rdma_queue *queue, size_t bytes, bool is_signaled)
{
    queue->credit--;
    post_send(queue, "a message", bytes, is_signaled);
}

void kolo_rdma_queue_send_with(struct kolo_rdma_queue *queue, size_t bytes,
                               const struct kolo_rdma_write *rest, void *context, bool is_signaled)
{
    const struct kolo_rdma_request request = {
        .what = "a message", .bytes = bytes + rest->bytes, .context = context};
    struct ibv_sge parts[SEND_PARTS] = {
        part_of(send_buffer(queue, queue->sends.next), bytes, queue->region->lkey),
        part_of(rest->data, rest->bytes, rest->key)};
    queue->credit--;
    struct ibv_send_wr send = {.sg_list = parts,
                               .num_sge = SEND_PARTS,
                               .opcode = IBV_WR_SEND_WITH_IMM,
                               .imm_data = take_owed(queue, 0)};
    post(queue, &request, &send, is_signaled);
}

/* ---- writing ---- */

bool kolo_rdma_queue_can_write(const struct kolo_rdma_queue *queue, bool is_last)
{
    return (!is_last || queue->credit > 0) && queue->writes_out < WRITES_BYTES && can_post(queue);
}

static void post_write(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write,
                       const struct kolo_rdma_request *request, enum ibv_wr_opcode opcode,
                       uint32_t number)
{
    struct ibv_sge part = part_of(write->data, write->bytes, write->key);
    struct ibv_send_wr send = {
        .sg_list = &part,
        .num_sge = write->bytes > 0, /* some devices take a part of length 0 as a very long one */
        .opcode = opcode,
        .imm_data = number,
        .wr.rdma = {.remote_addr = write->address, .rkey = write->remote_key}};
    post(queue, request, &send, request->context || request->is_piece);
}

void kolo_rdma_queue_write(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write)
{
    const struct kolo_rdma_request request = {.what = "a write", .bytes = write->bytes};
    post_write(queue, write, &request, IBV_WR_RDMA_WRITE, 0);
}

void kolo_rdma_queue_write_piece(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write)
{
    const struct kolo_rdma_request request = {
        .what = "a piece", .bytes = write->bytes, .is_piece = true};
    post_write(queue, write, &request, IBV_WR_RDMA_WRITE, 0);
}

void kolo_rdma_queue_write_last(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write,
                                uint16_t mark, void *context)
{
    const struct kolo_rdma_request request = {
        .what = "a write", .bytes = write->bytes, .context = context};
    queue->credit--;
    post_write(queue, write, &request, IBV_WR_RDMA_WRITE_WITH_IMM, take_owed(queue, mark));
}

/** Destroys the pair: a pair that is only told to stop may still work on requests until they come
 *  back flushed. */
bool kolo_rdma_queue_stop(struct kolo_rdma_queue *queue)
{
    destroy_pair(queue);
    queue->has_failed = queue->sends.has_failed = queue->receives.has_failed = true;
    return !queue->is_loose;
}

/* ---- silence ---- */

static void ask(struct kolo_rdma_queue *queue)
{
    const struct kolo_rdma_request request = {.what = "a question"};
    struct ibv_send_wr send = {.opcode = IBV_WR_RDMA_WRITE};
    post(queue, &request, &send, true);
}

int64_t kolo_rdma_queue_silence_ns(struct kolo_rdma_queue *queue, kolo_deadline now, bool is_late)
{
    const struct kolo_rdma_track *sends = &queue->sends;
    if (sends->first != queue->watched || is_late || queue->silent_since == 0)
        queue->silent_since = now;
    queue->watched = sends->first;
    if (sends->first == sends->next || !queue->is_connected || queue->has_failed || queue->holds)
        queue->silent_since = 0;
    else if (sends->signaled <= sends->first)
        ask(queue);
    return queue->silent_since != 0 ? now - queue->silent_since : 0;
}

void kolo_rdma_queue_give_up(struct kolo_rdma_queue *queue, const char *text)
{
    kolo_rdma_track_silent(&queue->sends, text);
}

/* ---- another pair ---- */

kolo_status kolo_rdma_queue_cut(struct kolo_rdma_queue *queue)
{
    queue->is_cut = queue->holds = true;
    return queue->pair ? kolo_rdma_pair_cut(queue->completions->device, queue->pair) : KOLO_OK;
}

/** Receives complete in order: the first flushed one comes after all that were not flushed. */
bool kolo_rdma_queue_is_still(const struct kolo_rdma_queue *queue)
{
    const struct kolo_rdma_track *receives = &queue->receives;
    return queue->is_cut && (receives->has_failed || receives->first == receives->next);
}

uint64_t kolo_rdma_queue_received(const struct kolo_rdma_queue *queue)
{
    return queue->receives.first;
}

/** Takes the old pair's remaining completions, since the completion queue has room for one pair of
 *  each link. */
static kolo_status take_leftovers(struct kolo_rdma_queue *queue)
{
    struct kolo_rdma_completions *completions = queue->completions;
    const uint32_t looks = completions->entries / KOLO_RDMA_COMPLETIONS_POLL_MAX + 1;
    bool moved = true;
    for (uint32_t i = 0; i < looks && moved; i++) {
        kolo_status status = kolo_rdma_completions_poll(completions, &moved);
        if (status != KOLO_OK)
            return status;
    }
    return queue->has_failed ? KOLO_ERR_LINK : KOLO_OK;
}

kolo_status kolo_rdma_queue_renew(struct kolo_rdma_queue *queue)
{
    kolo_status status;
    destroy_pair(queue);
    if (queue->is_loose) /* it may still write to memory that calls would use again */
        return kolo_fail(KOLO_ERR_LINK,
                         "rdma %s: the device does not destroy the queue pair that broke: look at "
                         "dmesg",
                         queue->completions->device->name);
    KOLO_TRY(take_leftovers(queue));
    KOLO_TRY(kolo_rdma_track_renew(&queue->sends));
    KOLO_TRY(kolo_rdma_track_renew(&queue->receives));
    kolo_rdma_track_rewind(&queue->receives);
    KOLO_TRY(kolo_random(&queue->packet, sizeof queue->packet));
    queue->packet &= PACKET_MASK;
    KOLO_TRY(make_pair(queue));
    queue->has_failed = true; /* its owner gets the status only, and no callback */
    KOLO_TRY(make_ready(queue));
    queue->has_failed = queue->is_cut = queue->is_flushed = false;
    queue->owed = 0; /* all buffers are ready, and the peer gets all credit anew */
out:
    return status;
}

/** How many receives of the peer's were used by the sends that have completed. */
static uint64_t uses_completed(const struct kolo_rdma_queue *queue)
{
    const struct kolo_rdma_posted *first = posted_at(queue, queue->sends.first);
    bool has_one = queue->sends.first != queue->sends.next;
    return has_one ? first->uses - takes_receive(first) : queue->uses;
}

kolo_status kolo_rdma_queue_settle(struct kolo_rdma_queue *queue, uint64_t received)
{
    uint64_t next = queue->sends.first;
    if (received < uses_completed(queue) || received > queue->uses)
        return kolo_fail(KOLO_ERR_PROTOCOL, "%llu messages of %llu to %llu have arrived",
                         (unsigned long long)received, (unsigned long long)uses_completed(queue),
                         (unsigned long long)queue->uses);
    /* A message after a write shows that the write has arrived. A write that may have arrived is
     * written again, with the same bytes. */
    while (next < queue->sends.next &&
           posted_at(queue, next)->uses + !takes_receive(posted_at(queue, next)) <= received)
        next++;
    queue->settled = received;
    kolo_rdma_track_settle(&queue->sends, next);
    return KOLO_OK;
}

/** Posts the next one again. A message that carried only credit carries none now, since credit is
 *  counted anew, and uses no receive. */
static void post_again(struct kolo_rdma_queue *queue, bool is_last)
{
    struct kolo_rdma_posted *posted = posted_at(queue, queue->sends.next);
    if (posted->part_count == 0 && posted->opcode == IBV_WR_SEND_WITH_IMM)
        posted->opcode = IBV_WR_RDMA_WRITE;
    struct ibv_send_wr send = {
        .sg_list = posted->parts,
        .num_sge = posted->part_count,
        .opcode = posted->opcode,
        .send_flags = posted->is_inlined && posted->parts[0].length <= queue->inline_bytes
                          ? IBV_SEND_INLINE
                          : 0,
        .wr.rdma = {.remote_addr = posted->address, .rkey = posted->remote_key}};
    if (takes_receive(posted)) {
        queue->credit--;
        queue->uses++;
        send.imm_data = take_owed(queue, posted->mark);
    }
    posted->uses = queue->uses;
    const bool signals = is_last || kolo_rdma_track_wants_signal(&queue->sends);
    post_as(queue, &send, kolo_rdma_track_add_again(&queue->sends, signals), signals);
}

unsigned kolo_rdma_queue_replay(struct kolo_rdma_queue *queue)
{
    const uint64_t end = queue->sends.next;
    kolo_rdma_track_rewind(&queue->sends);
    const unsigned count = (unsigned)(end - queue->sends.next);
    queue->uses = queue->settled;
    queue->holds = false;
    while (queue->sends.next < end && !queue->has_failed)
        post_again(queue, queue->sends.next + 1 == end);
    if (can_post(queue)) /* so that something is sent by the new pair */
        ask(queue);
    return count;
}

/* ---- the end ---- */

void kolo_rdma_queue_flush(struct kolo_rdma_queue *queue)
{
    const struct kolo_rdma_track *sends = &queue->sends;
    if (queue->is_flushed || sends->signaled == sends->next || !can_post(queue))
        return;
    queue->is_flushed = true;
    post_send(queue, "a last message", 0, true);
}

bool kolo_rdma_queue_is_drained(const struct kolo_rdma_queue *queue)
{
    return queue->sends.first == queue->sends.next;
}
