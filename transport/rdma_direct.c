// SPDX-License-Identifier: Apache-2.0
// Must never let go of a registration while somebody may write or read by it, nor believe an offer that cannot be meant.
#include "transport/rdma_direct.h"

#include <string.h>

#include "base/log.h"
#include "base/wire.h"

void kolo_rdma_direct_init(struct kolo_rdma_direct *direct, struct kolo_rdma_regions *regions)
{
    *direct = (struct kolo_rdma_direct){.regions = regions};
}

/** The region that @p memory lies in, if it is of kolo_alloc, or of a device and known: other memory is cheaper copied than registered for one
 * message, and may be unmapped behind our back. */
static struct kolo_rdma_region *take(struct kolo_rdma_direct *direct, const void *memory,
                                     size_t bytes)
{
    struct kolo_rdma_region *region = kolo_rdma_regions_take_device(direct->regions, memory, bytes);
    struct kolo_span span;
    if (region != NULL)
        return region;
    if (direct->is_refused || direct->regions->heap == NULL ||
        !kolo_heap_find(direct->regions->heap, memory, bytes, &span))
        return NULL;
    kolo_status status =
        kolo_rdma_regions_take(direct->regions, (void *)(uintptr_t)memory, bytes, &region);
    if (status == KOLO_OK)
        return region;
    direct->is_refused = true;
    KOLO_WARN("long messages are copied, not written in place: %s", kolo_error_detail());
    return NULL;
}

static void give(struct kolo_rdma_direct *direct, struct kolo_rdma_region **region)
{
    if (*region != NULL)
        kolo_rdma_regions_give(direct->regions, *region);
    *region = NULL;
}

void kolo_rdma_direct_fini(struct kolo_rdma_direct *direct)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++) {
        give(direct, &direct->lent[i].region);
        direct->lent[i].work = NULL;
        kolo_rdma_direct_end(direct, &direct->writings[i]);
        direct->offers[i].bytes = 0;
    }
}

/* ---- what we offer ---- */

static struct kolo_rdma_lent *free_slot(struct kolo_rdma_direct *direct)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
        if (direct->lent[i].region == NULL)
            return &direct->lent[i];
    return NULL;
}

bool kolo_rdma_direct_lend(struct kolo_rdma_direct *direct, struct kolo_work *work, uint8_t type,
                           struct kolo_desc *desc_out, uint8_t payload_out[KOLO_RDMA_OFFER_BYTES])
{
    const void *into = work->action.landing != NULL ? work->action.landing : work->dst;
    struct kolo_rdma_lent *lent = free_slot(direct);
    struct kolo_rdma_region *region = lent != NULL ? take(direct, into, work->bytes) : NULL;
    if (region == NULL)
        return false;
    lent->work = work;
    lent->region = region;
    lent->generation++;
    struct kolo_writer writer = kolo_writer_over(desc_out->bytes, sizeof desc_out->bytes);
    kolo_write_u8(&writer, type);
    kolo_write_u8(&writer, (uint8_t)(lent - direct->lent));
    kolo_write_u8(&writer, lent->generation);
    kolo_write_u8(&writer, 0);
    kolo_write_u32(&writer, work->channel);
    kolo_write_u32(&writer, work->number);
    kolo_write_u32(&writer, region->remote_key);
    kolo_write_u64(&writer, (uintptr_t)into);
    writer = kolo_writer_over(payload_out, KOLO_RDMA_OFFER_BYTES);
    kolo_write_bytes(&writer, work->desc.bytes, sizeof work->desc.bytes);
    kolo_write_u64(&writer, work->bytes);
    return true;
}

kolo_status kolo_rdma_direct_written(struct kolo_rdma_direct *direct, uint16_t mark,
                                     struct kolo_work **work_out)
{
    struct kolo_rdma_lent *lent = &direct->lent[(mark & 0xff) % KOLO_RDMA_SLOTS];
    if ((mark & 0xff) >= KOLO_RDMA_SLOTS || lent->region == NULL || lent->generation != mark >> 8)
        return kolo_fail(KOLO_ERR_PROTOCOL, "a message was written where nothing is offered (%04x)",
                         mark);
    *work_out = lent->work;
    if (lent->work != NULL && lent->region->is_device)
        lent->work->has_landed = true;
    else if (lent->work != NULL && lent->region->is_gone)
        kolo_rdma_regions_bring(direct->regions, lent->region, lent->work->dst, lent->work->bytes);
    lent->work = NULL;
    give(direct, &lent->region);
    return KOLO_OK;
}

void kolo_rdma_direct_reclaim(struct kolo_rdma_direct *direct, const struct kolo_work *work,
                              bool may_come)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++) {
        struct kolo_rdma_lent *lent = &direct->lent[i];
        if (lent->work != work)
            continue;
        lent->work = NULL;
        if (!may_come)
            give(direct, &lent->region);
    }
}

/* ---- what the peer offers ---- */

kolo_status kolo_rdma_direct_heard(struct kolo_rdma_direct *direct, const struct kolo_desc *desc,
                                   const uint8_t *payload, size_t bytes, uint32_t *channel_out)
{
    struct kolo_reader reader = kolo_reader_over(desc->bytes + 1, sizeof desc->bytes - 1);
    uint8_t slot = kolo_read_u8(&reader);
    struct kolo_rdma_offer offer = {.generation = kolo_read_u8(&reader)};
    uint8_t reserved = kolo_read_u8(&reader);
    offer.channel = kolo_read_u32(&reader);
    offer.number = kolo_read_u32(&reader);
    offer.key = kolo_read_u32(&reader);
    offer.address = kolo_read_u64(&reader);
    if (slot >= KOLO_RDMA_SLOTS || reserved != 0 || bytes != KOLO_RDMA_OFFER_BYTES)
        return kolo_fail(KOLO_ERR_PROTOCOL, "an offer of slot %u in %zu bytes", slot, bytes);
    reader = kolo_reader_over(payload, bytes);
    kolo_read_bytes(&reader, offer.desc.bytes, sizeof offer.desc.bytes);
    offer.bytes = kolo_read_u64(&reader);
    if (offer.bytes == 0 || offer.address > UINT64_MAX - offer.bytes)
        return kolo_fail(KOLO_ERR_PROTOCOL, "an offer of %llu bytes at %llx",
                         (unsigned long long)offer.bytes, (unsigned long long)offer.address);
    direct->offers[slot] = offer;
    *channel_out = offer.channel;
    return KOLO_OK;
}

/** The offer for just this message; -1: none. */
static int find_offer(const struct kolo_rdma_direct *direct, const struct kolo_work *work)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++) {
        const struct kolo_rdma_offer *offer = &direct->offers[i];
        if (offer->bytes == work->bytes && offer->number == work->number &&
            offer->channel == work->channel &&
            memcmp(&offer->desc, &work->desc, sizeof offer->desc) == 0)
            return i;
    }
    return -1;
}

static struct kolo_rdma_writing *free_writing(struct kolo_rdma_direct *direct)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
        if (direct->writings[i].region == NULL)
            return &direct->writings[i];
    return NULL;
}

bool kolo_rdma_direct_has_entry(const struct kolo_rdma_direct *direct)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
        if (direct->writings[i].region == NULL)
            return true;
    return false;
}

/** Are entries left for frames of a device's memory, which cannot do without? */
static bool may_promise(const struct kolo_rdma_direct *direct)
{
    int count = 0;
    if (direct->regions->devices == NULL)
        return true;
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
        count += direct->writings[i].region != NULL && direct->writings[i].offer.bytes > 0;
    return count < KOLO_RDMA_PROMISES;
}

bool kolo_rdma_direct_promise(struct kolo_rdma_direct *direct, const struct kolo_work *work)
{
    if (kolo_rdma_direct_find(direct, work) != NULL)
        return true;
    int slot = find_offer(direct, work);
    struct kolo_rdma_writing *writing =
        slot >= 0 && may_promise(direct) ? free_writing(direct) : NULL;
    struct kolo_rdma_region *region = writing != NULL ? take(direct, work->src, work->bytes) : NULL;
    if (region == NULL)
        return false;
    *writing =
        (struct kolo_rdma_writing){.work = work,
                                   .region = region,
                                   .offer = direct->offers[slot],
                                   .mark = (uint16_t)(direct->offers[slot].generation << 8 | slot)};
    direct->offers[slot].bytes = 0; /* it is used once */
    return true;
}

struct kolo_rdma_writing *kolo_rdma_direct_frame(struct kolo_rdma_direct *direct,
                                                 const struct kolo_frame *frame)
{
    struct kolo_rdma_writing *writing = free_writing(direct);
    struct kolo_rdma_region *region =
        writing != NULL ? take(direct, frame->payload, frame->bytes) : NULL;
    if (region == NULL)
        return NULL;
    *writing = (struct kolo_rdma_writing){
        .work = frame->work, .region = region, .frame = *frame, .is_begun = true};
    return writing;
}

struct kolo_rdma_writing *kolo_rdma_direct_find(struct kolo_rdma_direct *direct,
                                                const struct kolo_work *work)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
        if (direct->writings[i].region != NULL && direct->writings[i].work == work)
            return &direct->writings[i];
    return NULL;
}

void kolo_rdma_direct_end(struct kolo_rdma_direct *direct, struct kolo_rdma_writing *writing)
{
    give(direct, &writing->region);
    writing->work = NULL;
}
