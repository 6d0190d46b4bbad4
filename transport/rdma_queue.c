// SPDX-License-Identifier: Apache-2.0
// Must never post a send without a place for it there, nor let the device touch a place that somebody reads or writes.
#include "transport/rdma_queue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "transport/auth.h"
#include "transport/rdma_register.h"

enum {
    WRITE_BYTES =
        1
        << 20, /* the device is asked for no more at once, so that messages of others come between */
    MARK_BITS = 16,
    SEND_PARTS = 2,
    RESERVE = 4, /* receives for messages that bring nothing but credit */
    PACKET_MASK = 0xffffff,
    INLINE_BYTES = 220, /* what devices take without fetching it: asked for, and less is fine */
    HOPS = 64,
    RNR_TIMER = 12, /* 0.64 ms: not needed, see the head */
    RNR_RETRIES = 6 /* 7 would be for ever */
};

/* ---- places ---- */

static uint8_t *send_place(const struct kolo_rdma_queue *queue, uint64_t number)
{
    return queue->memory + (number & (queue->places - 1)) * queue->place_bytes;
}

static uint8_t *receive_place(const struct kolo_rdma_queue *queue, uint64_t number)
{
    return send_place(queue, number) + (size_t)queue->places * queue->place_bytes;
}

/** Puts the next receive back. A failure ends the queue. */
static bool post_receive(struct kolo_rdma_queue *queue)
{
    struct ibv_recv_wr *bad = NULL;
    uint8_t *place = receive_place(queue, queue->receives.next);
    const struct kolo_rdma_request request = {"a receive", queue->place_bytes, place};
    struct ibv_sge part = {
        .addr = (uintptr_t)place, .length = queue->place_bytes, .lkey = queue->region->lkey};
    struct ibv_recv_wr receive = {.wr_id = kolo_rdma_track_add(&queue->receives, &request, true),
                                  .sg_list = &part,
                                  .num_sge = 1};
    int error = queue->completions->device->verbs->post_recv(queue->pair, &receive, &bad);
    if (error != 0)
        kolo_rdma_track_refused(&queue->receives, error);
    return error == 0;
}

/** Posts @p send, whose parts are filled in. */
static void post(struct kolo_rdma_queue *queue, const struct kolo_rdma_request *request,
                 struct ibv_send_wr *send, bool is_told)
{
    struct ibv_send_wr *bad = NULL;
    bool told = is_told || kolo_rdma_track_wants_told(&queue->sends);
    send->wr_id = kolo_rdma_track_add(&queue->sends, request, told);
    if (told)
        send->send_flags |= IBV_SEND_SIGNALED;
    int error = queue->completions->device->verbs->post_send(queue->pair, send, &bad);
    if (error != 0)
        kolo_rdma_track_refused(&queue->sends, error);
}

/** The number that goes along: all credit that is owed, behind a mark. */
static uint32_t take_owed(struct kolo_rdma_queue *queue, uint16_t mark)
{
    uint32_t owed = queue->owed;
    queue->owed = 0;
    return htonl((uint32_t)mark << MARK_BITS | owed);
}

static struct ibv_sge part_of(const void *data, size_t bytes, uint32_t key)
{
    return (struct ibv_sge){.addr = (uintptr_t)data, .length = (uint32_t)bytes, .lkey = key};
}

/** The next send. */
static void post_send(struct kolo_rdma_queue *queue, const char *what, size_t bytes, bool is_told)
{
    const struct kolo_rdma_request request = {what, bytes, NULL};
    struct ibv_sge part = part_of(send_place(queue, queue->sends.next), bytes, queue->region->lkey);
    struct ibv_send_wr send = {.sg_list = &part,
                               .num_sge = bytes > 0 ? 1 : 0,
                               .opcode = IBV_WR_SEND_WITH_IMM,
                               .imm_data = take_owed(queue, 0)};
    if (bytes > 0 && bytes <= queue->inline_bytes)
        send.send_flags |= IBV_SEND_INLINE;
    post(queue, &request, &send, is_told);
}

static void return_credit(struct kolo_rdma_queue *queue)
{
    bool is_due = queue->owed >= (queue->places - RESERVE) / 2;
    if (is_due && !queue->has_failed && !kolo_rdma_track_is_full(&queue->sends))
        post_send(queue, "a return of credit", 0, true);
}

/* ---- what the tracks tell ---- */

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
    if (queue->has_failed)
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

static void take_credit(struct kolo_rdma_queue *queue, const struct ibv_wc *wc)
{
    uint32_t more =
        (wc->wc_flags & IBV_WC_WITH_IMM) != 0 ? ntohl(wc->imm_data) & ((1u << MARK_BITS) - 1) : 0;
    if (more > queue->credit_whole - queue->credit) {
        break_protocol(queue, "more places were returned than were used", more);
        return;
    }
    queue->credit += more;
}

static void received(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                     const struct ibv_wc *wc)
{
    struct kolo_rdma_queue *queue = of_track(track);
    bool is_write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    take_credit(queue, wc);
    if (!queue->has_failed && is_write)
        queue->ops->written(queue, (uint16_t)(ntohl(wc->imm_data) >> MARK_BITS));
    else if (!queue->has_failed && wc->byte_len > 0)
        queue->ops->arrived(queue, request->context, wc->byte_len);
    if (queue->has_failed || !post_receive(queue))
        return;
    queue->owed += is_write || wc->byte_len > 0;
    queue->ops->has_room(queue); /* what is sent from in there takes the credit along */
    return_credit(queue);
}

static void sent(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                 const struct ibv_wc *wc)
{
    struct kolo_rdma_queue *queue = of_track(track);
    (void)wc;
    if (queue->has_failed)
        return;
    if (request->context != NULL)
        queue->ops->has_written(queue, request->context);
    if (queue->has_failed || (track->first != track->told && track->first != track->next))
        return; /* broken by that, or not yet the last that this completion ends */
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
    /* Whole pages: libibverbs may keep them from the child of a fork, and nothing else with them. */
    size_t bytes = (2 * (size_t)queue->places * queue->place_bytes + page - 1) / page * page;
    queue->memory = kolo_aligned(page, bytes);
    if (queue->memory == NULL)
        return KOLO_ERR_NO_MEMORY;
    memset(queue->memory, 0, bytes);
    return kolo_rdma_register(device, queue->memory, bytes, IBV_ACCESS_LOCAL_WRITE, &queue->region);
}

/** A device that inlines less says so by a refusal. */
static kolo_status make_pair(struct kolo_rdma_queue *queue)
{
    const struct kolo_rdma_device *device = queue->completions->device;
    struct ibv_qp_init_attr attr = {.send_cq = queue->completions->queue,
                                    .recv_cq = queue->completions->queue,
                                    .qp_type = IBV_QPT_RC};
    for (uint32_t inlined = INLINE_BYTES;; inlined = 0) {
        attr.cap = (struct ibv_qp_cap){.max_send_wr = queue->places,
                                       .max_recv_wr = queue->places,
                                       .max_send_sge = queue->takes_parts ? SEND_PARTS : 1,
                                       .max_recv_sge = 1,
                                       .max_inline_data = inlined};
        errno = 0;
        queue->pair = device->verbs->create_qp(device->domain, &attr);
        queue->inline_bytes = inlined;
        if (queue->pair != NULL)
            return KOLO_OK;
        if (inlined == 0)
            return kolo_fail_errno(KOLO_ERR_SYSTEM, errno,
                                   "rdma %s: a queue pair of %u requests cannot be made",
                                   device->name, queue->places);
    }
}

static kolo_status modify(struct kolo_rdma_queue *queue, struct ibv_qp_attr *attr, int mask,
                          const char *what)
{
    const struct kolo_rdma_device *device = queue->completions->device;
    int error = device->verbs->modify_qp(queue->pair, attr, mask | IBV_QP_STATE);
    return error == 0 ? KOLO_OK
                      : kolo_fail_errno(KOLO_ERR_LINK, error, "rdma %s: the queue pair cannot %s",
                                        device->name, what);
}

static kolo_status make_ready(struct kolo_rdma_queue *queue)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
                               .port_num = queue->completions->device->port};
    kolo_status status =
        modify(queue, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "be prepared");
    for (uint32_t i = 0; status == KOLO_OK && i < queue->places; i++)
        if (!post_receive(queue))
            status = KOLO_ERR_LINK;
    return status;
}

kolo_status kolo_rdma_queue_open(struct kolo_rdma_completions *completions,
                                 const struct kolo_rdma_queue_ops *ops, void *context,
                                 uint32_t places, uint32_t place_bytes,
                                 struct kolo_rdma_queue **queue_out)
{
    kolo_status status;
    struct kolo_rdma_queue *queue = kolo_calloc(1, sizeof *queue);
    if (queue == NULL)
        return KOLO_ERR_NO_MEMORY;
    queue->completions = completions;
    queue->ops = ops;
    queue->context = context;
    queue->places = places;
    queue->place_bytes = place_bytes;
    KOLO_TRY(kolo_random(&queue->packet, sizeof queue->packet));
    queue->packet &= PACKET_MASK;
    queue->takes_parts = completions->device->parts_max >= SEND_PARTS;
    queue->write_bytes = completions->device->message_bytes_max < WRITE_BYTES
                             ? completions->device->message_bytes_max
                             : WRITE_BYTES;
    KOLO_TRY(kolo_rdma_track_open(&queue->sends, completions, &send_ops, false, places));
    KOLO_TRY(kolo_rdma_track_open(&queue->receives, completions, &receive_ops, true, places));
    KOLO_TRY(make_memory(queue));
    KOLO_TRY(make_pair(queue));
    queue->has_failed = true; /* its owner is told by the status alone */
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
    const struct kolo_rdma_device *device = queue->completions->device;
    if (queue->pair != NULL && device->verbs->destroy_qp(queue->pair) != 0 && !device->is_gone)
        KOLO_WARN("rdma %s: a queue pair is still in use", device->name);
    queue->pair = NULL;
}

void kolo_rdma_queue_close(struct kolo_rdma_queue *queue)
{
    if (queue == NULL)
        return;
    const struct kolo_rdma_device *device = queue->completions->device;
    destroy_pair(queue);
    kolo_rdma_track_close(&queue->sends);
    kolo_rdma_track_close(&queue->receives);
    if (queue->region != NULL && device->verbs->dereg_mr(queue->region) != 0 && !device->is_gone)
        KOLO_WARN("rdma %s: memory of a queue stays registered, and is not freed", device->name);
    else
        kolo_free_memory(queue->memory);
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
                                          .places = queue->places,
                                          .place_bytes = queue->place_bytes};
}

static kolo_status to_receive(struct kolo_rdma_queue *queue, const struct kolo_rdma_gid *gid,
                              const struct kolo_rdma_hello *theirs)
{
    const struct kolo_rdma_device *device = queue->completions->device;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = theirs->mtu < device->mtu ? (enum ibv_mtu)theirs->mtu
                                                                     : device->mtu,
                               .dest_qp_num = theirs->pair,
                               .rq_psn = theirs->packet,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = RNR_TIMER};
    attr.ah_attr.port_num = device->port;
    attr.ah_attr.dlid = theirs->lid;
    attr.ah_attr.is_global = device->is_ethernet;
    attr.ah_attr.grh.sgid_index = gid->index;
    attr.ah_attr.grh.hop_limit = HOPS;
    memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid.bytes, sizeof attr.ah_attr.grh.dgid.raw);
    return modify(queue, &attr,
                  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                  "be joined to its peer's");
}

static kolo_status to_send(struct kolo_rdma_queue *queue)
{
    const struct kolo_rdma_patience *patience = &queue->completions->device->patience;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .sq_psn = queue->packet,
                               .timeout = patience->timeout,
                               .retry_cnt = patience->retries,
                               .rnr_retry = RNR_RETRIES,
                               .max_rd_atomic = 1};
    return modify(queue, &attr,
                  IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_MAX_QP_RD_ATOMIC,
                  "begin to send");
}

kolo_status kolo_rdma_queue_connect(struct kolo_rdma_queue *queue, const struct kolo_rdma_gid *gid,
                                    const struct kolo_rdma_hello *theirs)
{
    kolo_status status = to_receive(queue, gid, theirs);
    if (status == KOLO_OK)
        status = to_send(queue);
    if (status != KOLO_OK)
        return status;
    queue->message_bytes =
        theirs->place_bytes < queue->place_bytes ? theirs->place_bytes : queue->place_bytes;
    queue->credit = queue->credit_whole = theirs->places - RESERVE;
    queue->is_connected = true;
    return KOLO_OK;
}

/* ---- sending ---- */

uint8_t *kolo_rdma_queue_place(struct kolo_rdma_queue *queue)
{
    bool can = queue->is_connected && !queue->has_failed && queue->credit > 0 &&
               !kolo_rdma_track_is_full(&queue->sends);
    return can ? send_place(queue, queue->sends.next) : NULL;
}

void kolo_rdma_queue_send(struct kolo_rdma_queue *queue, size_t bytes, bool is_told)
{
    queue->credit--;
    post_send(queue, "a message", bytes, is_told);
}

void kolo_rdma_queue_send_with(struct kolo_rdma_queue *queue, size_t bytes,
                               const struct kolo_rdma_write *rest, void *context, bool is_told)
{
    const struct kolo_rdma_request request = {"a message", bytes + rest->bytes, context};
    struct ibv_sge parts[SEND_PARTS] = {
        part_of(send_place(queue, queue->sends.next), bytes, queue->region->lkey),
        part_of(rest->data, rest->bytes, rest->key)};
    queue->credit--;
    struct ibv_send_wr send = {.sg_list = parts,
                               .num_sge = SEND_PARTS,
                               .opcode = IBV_WR_SEND_WITH_IMM,
                               .imm_data = take_owed(queue, 0)};
    post(queue, &request, &send, is_told);
}

/* ---- writing ---- */

bool kolo_rdma_queue_can_write(const struct kolo_rdma_queue *queue, bool is_last)
{
    return queue->is_connected && !queue->has_failed && (!is_last || queue->credit > 0) &&
           !kolo_rdma_track_is_full(&queue->sends);
}

static void post_write(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write,
                       enum ibv_wr_opcode opcode, uint32_t number, void *context)
{
    const struct kolo_rdma_request request = {"a write", write->bytes, context};
    struct ibv_sge part = part_of(write->data, write->bytes, write->key);
    struct ibv_send_wr send = {
        .sg_list = &part,
        .num_sge = 1,
        .opcode = opcode,
        .imm_data = number,
        .wr.rdma = {.remote_addr = write->address, .rkey = write->remote_key}};
    post(queue, &request, &send, context != NULL);
}

void kolo_rdma_queue_write(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write)
{
    post_write(queue, write, IBV_WR_RDMA_WRITE, 0, NULL);
}

void kolo_rdma_queue_write_last(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write,
                                uint16_t mark, void *context)
{
    queue->credit--;
    post_write(queue, write, IBV_WR_RDMA_WRITE_WITH_IMM, take_owed(queue, mark), context);
}

void kolo_rdma_queue_stop(struct kolo_rdma_queue *queue)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    /* A pair that cannot be told to stop must not go on either. */
    if (queue->pair != NULL && queue->is_connected &&
        queue->completions->device->verbs->modify_qp(queue->pair, &attr, IBV_QP_STATE) != 0)
        destroy_pair(queue);
    queue->has_failed = queue->sends.has_failed = queue->receives.has_failed = true;
}

/* ---- silence ---- */

static void ask(struct kolo_rdma_queue *queue)
{
    const struct kolo_rdma_request request = {"a question", 0, NULL};
    struct ibv_send_wr send = {.opcode = IBV_WR_RDMA_WRITE};
    post(queue, &request, &send, true);
}

int64_t kolo_rdma_queue_silence_ns(struct kolo_rdma_queue *queue, kolo_deadline now, bool is_late)
{
    const struct kolo_rdma_track *sends = &queue->sends;
    if (sends->first != queue->watched || is_late || queue->silent_since == 0)
        queue->silent_since = now;
    queue->watched = sends->first;
    if (sends->first == sends->next || queue->has_failed)
        queue->silent_since = 0;
    else if (sends->told <= sends->first)
        ask(queue);
    return queue->silent_since != 0 ? now - queue->silent_since : 0;
}

void kolo_rdma_queue_give_up(struct kolo_rdma_queue *queue, const char *text)
{
    kolo_rdma_track_silent(&queue->sends, text);
}

/* ---- the end ---- */

void kolo_rdma_queue_flush(struct kolo_rdma_queue *queue)
{
    const struct kolo_rdma_track *sends = &queue->sends;
    if (queue->is_flushed || queue->has_failed || sends->told == sends->next ||
        kolo_rdma_track_is_full(sends))
        return;
    queue->is_flushed = true;
    post_send(queue, "a last message", 0, true);
}

bool kolo_rdma_queue_is_drained(const struct kolo_rdma_queue *queue)
{
    return queue->sends.first == queue->sends.next;
}
