// SPDX-License-Identifier: Apache-2.0
// Messages over an RDMA link that neither side copies: offers receives, writes sends, and cuts off
// the memory of what is given up (rdma_direct.h explains how these fit together). Must never hand
// memory back that a device may still touch.
#include "base/log.h"
#include "transport/checksum.h"
#include "transport/rdma.h"

enum { OFFER = KOLO_CONTROL_TRANSPORT };

static struct rdma_link *link_of(struct kolo_link *base)
{
    return (struct rdma_link *)base;
}

static bool is_long(const struct kolo_link *base, const struct kolo_work *work)
{
    return work->bytes >= kolo_endpoint_config_of(base->endpoint)->settings->rdma_direct_bytes;
}

/* ---- memory that is taken back ---- */

static void tell_cut(void *context, uint64_t id)
{
    kolo_endpoint_span_cut(context, id);
}

/** Device memory has no other pages: whatever may still touch it ends with the link. */
static void end_access(struct kolo_link *base)
{
    kolo_link_set_down(base, kolo_fail(KOLO_ERR_ABORTED,
                                       "a call on a device's memory was given up while RDMA with "
                                       "rank %d could still use it: the link ends",
                                       base->peer));
}

/** Replaces the pages that a device may still touch by fresh ones. If that is impossible, the link
 *  ends, and the device's access with it. */
static void cut_off(struct kolo_link *base, const void *memory, size_t bytes)
{
    struct kolo_heap *heap = kolo_endpoint_config_of(base->endpoint)->heap;
    kolo_status status = kolo_heap_sever(heap, memory, bytes, tell_cut, base->endpoint);
    if (status != KOLO_OK)
        kolo_link_set_down(base, status);
}

void kolo_rdma_cut_off_all(struct kolo_link *base)
{
    struct kolo_heap *heap = kolo_endpoint_config_of(base->endpoint)->heap;
    struct rdma_link *link = link_of(base);
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++) {
        const struct kolo_rdma_lent *lent = &link->direct.lent[i];
        if (!lent->work) /* what was given up already has other pages */
            continue;
        kolo_status status = KOLO_ERR_UNSUPPORTED;
        if (!lent->region->is_device)
            status =
                kolo_heap_sever(heap, lent->work->dst, lent->work->bytes, tell_cut, base->endpoint);
        if (status != KOLO_OK)
            KOLO_WARN("%zu bytes that were offered to rank %d may still be written by a device",
                      lent->work->bytes, base->peer);
    }
}

void kolo_rdma_span_gone(struct kolo_port *base, uint64_t id)
{
    struct rdma_port *port = (struct rdma_port *)base;
    for (int i = 0; i <= port->other_count; i++)
        kolo_rdma_regions_gone(&kolo_rdma_nic_at(port, i)->regions, id);
}

/* ---- device memory ---- */

bool kolo_rdma_know(struct kolo_port *base, const struct kolo_pointer *pointer)
{
    struct rdma_nic *nic = &((struct rdma_port *)base)->nic;
    return !nic->device->is_gone && kolo_rdma_regions_know(&nic->regions, pointer);
}

bool kolo_rdma_reaches_devices(const struct kolo_link *base)
{
    const struct rdma_link *link = (const struct rdma_link *)base;
    return link->is_by_rdma && link->queue->takes_parts;
}

void kolo_rdma_device_gone(struct kolo_port *base, const void *memory)
{
    kolo_rdma_regions_forget(&((struct rdma_port *)base)->nic.regions, memory);
}

/* ---- receives ---- */

void kolo_rdma_posted(struct kolo_link *base, struct kolo_work *work)
{
    struct rdma_link *link = link_of(base);
    struct kolo_desc desc;
    uint8_t payload[KOLO_RDMA_OFFER_BYTES];
    if (!link->is_by_rdma || base->state != KOLO_LINK_UP || work->action.kind != KOLO_COPY ||
        !is_long(base, work) || !kolo_rdma_direct_lend(&link->direct, work, OFFER, &desc, payload))
        return;
    if (kolo_link_send_control(base, &desc, payload, sizeof payload) != KOLO_OK) {
        kolo_rdma_direct_reclaim(&link->direct, work, false);
        return;
    }
    work->is_lent = true;
    (void)kolo_link_push(base);
}

void kolo_rdma_take_back(struct kolo_link *base, struct kolo_work *work)
{
    struct rdma_link *link = link_of(base);
    if (kolo_rdma_drop_check(link, work))
        return; /* everything of it has arrived */
    /* A message whose frames have begun is not written any more. */
    bool may_come = base->state == KOLO_LINK_UP && !base->heard_goodbye && work->bytes_done == 0;
    kolo_rdma_direct_reclaim(&link->direct, work, may_come);
    if (may_come && work->action.landing)
        end_access(base);
    else if (may_come)
        cut_off(base, work->dst, work->bytes);
}

void kolo_rdma_take_mark(struct rdma_link *link, uint16_t mark)
{
    struct kolo_link *base = &link->tcp.base;
    struct kolo_rdma_told told;
    if (!link->is_by_rdma || base->state != KOLO_LINK_UP)
        return;
    kolo_status status = kolo_rdma_direct_written(&link->direct, mark, &told);
    const bool is_whole = status == KOLO_OK && told.work && told.is_whole;
    if (status == KOLO_OK && told.work && told.has_turn)
        status = kolo_link_rx_turn(base, told.work);
    if (status == KOLO_OK && is_whole && base->sums && !told.has_sum)
        status = kolo_fail(KOLO_ERR_PROTOCOL, "rank %d wrote a message without its checksum",
                           base->peer);
    if (status != KOLO_OK) {
        kolo_link_set_down(base, status);
    } else if (is_whole && base->sums) {
        kolo_rdma_check(link, told.work, told.sum);
    } else if (is_whole) {
        told.work->is_lent = false;
        kolo_link_rx_whole(base, told.work);
    }
}

void kolo_rdma_written(struct kolo_rdma_queue *queue, uint16_t mark)
{
    kolo_rdma_take_mark(queue->context, mark);
}

/* ---- sends ---- */

kolo_status kolo_rdma_control(struct kolo_link *base, const struct kolo_header *header,
                              const uint8_t *payload)
{
    struct rdma_link *link = link_of(base);
    if (link->is_by_rdma && header->desc.bytes[0] == KOLO_RDMA_RAIL_FRAME)
        return kolo_rdma_rails_heard(link, header, payload);
    if (link->is_by_rdma && base->sums && header->desc.bytes[0] == KOLO_RDMA_SUM_FRAME &&
        header->bytes == 0)
        return kolo_rdma_direct_heard_sum(&link->direct, &header->desc);
    if (!link->is_by_rdma || header->desc.bytes[0] != OFFER)
        return kolo_fail(KOLO_ERR_PROTOCOL, "rank %d sent a control frame of type %u", base->peer,
                         header->desc.bytes[0]);
    uint32_t channel = 0;
    kolo_status status =
        kolo_rdma_direct_heard(&link->direct, &header->desc, payload, header->bytes, &channel);
    if (status == KOLO_OK)
        kolo_link_reconsider(base, channel);
    return status;
}

bool kolo_rdma_is_remote(struct kolo_link *base, const struct kolo_work *work)
{
    struct rdma_link *link = link_of(base);
    return link->is_by_rdma && is_long(base, work) && kolo_rdma_direct_promise(&link->direct, work);
}

bool kolo_rdma_may_take_frame(const struct rdma_link *link)
{
    return !link->direct.regions->devices || kolo_rdma_direct_has_entry(&link->direct);
}

bool kolo_rdma_send_in_place(struct rdma_link *link, const struct kolo_frame *frame)
{
    struct kolo_rdma_writing *writing = NULL;
    if (link->queue->takes_parts && frame->work && frame->bytes > 0 &&
        (is_long(&link->tcp.base, frame->work) ||
         kolo_rdma_regions_is_device(link->direct.regions, frame->payload, frame->bytes)))
        writing = kolo_rdma_direct_frame(&link->direct, frame);
    if (!writing)
        return false;
    const struct kolo_rdma_write rest = {
        .data = frame->payload, .bytes = frame->bytes, .key = writing->region->local_key};
    /* The sender of the message waits for its last frame. */
    writing->rows[0].state = KOLO_RDMA_ROW_CLOSED;
    kolo_rdma_queue_send_with(link->queue, link->tcp.base.header_bytes, &rest, &writing->rows[0],
                              frame->work->is_taken);
    return true;
}

void kolo_rdma_withdraw_writing(struct rdma_link *link, const struct kolo_work *work)
{
    struct kolo_rdma_writing *writing;
    bool is_begun = false, is_device = false;
    kolo_rdma_finish_sum(link, work);
    while ((writing = kolo_rdma_direct_find(&link->direct, work)) != NULL) {
        is_begun |= writing->is_begun;
        is_device |= writing->region->is_device;
        if (writing->is_begun)
            writing->work = NULL; /* continues to its end, from the old pages */
        else
            kolo_rdma_direct_end(&link->direct, writing);
    }
    if (is_begun && is_device)
        end_access(&link->tcp.base);
    else if (is_begun)
        cut_off(&link->tcp.base, work->src, work->bytes);
}
