// SPDX-License-Identifier: Apache-2.0
// The tables of messages that are written directly into the peer's memory (rdma_direct.h explains
// them). Must never give up a registration while somebody may write or read through it, and never
// trust an offer that cannot be valid.
#include "transport/rdma_direct.h"

#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "base/wire.h"

void kolo_rdma_direct_init(struct kolo_rdma_direct *direct, struct kolo_rdma_regions *regions)
{
    *direct = (struct kolo_rdma_direct){.regions = regions};
}

/** The region that contains @p memory, if it is kolo_alloc memory, or device memory that is known.
 *  Copying other memory is cheaper than registering it for one message, and it may be unmapped
 *  without our noticing. */
static struct kolo_rdma_region *take(struct kolo_rdma_direct *direct, const void *memory,
                                     size_t bytes)
{
    struct kolo_rdma_region *region = kolo_rdma_regions_take_device(direct->regions, memory, bytes);
    struct kolo_span span;
    if (region)
        return region;
    if (direct->is_refused || !direct->regions->heap ||
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

static void give(struct kolo_rdma_regions *regions, struct kolo_rdma_region **region)
{
    if (*region)
        kolo_rdma_regions_give(regions, *region);
    *region = NULL;
}

static void give_all(struct kolo_rdma_direct *direct, struct kolo_rdma_region **first,
                     struct kolo_rdma_region **rails)
{
    give(direct->regions, first);
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX; i++)
        give(direct->rails[i], &rails[i]);
}

/** The same for further rails that are open and in @p wanted. Returns those that have a region,
 *  by bit. If a rail's device does not register the memory, that rail carries no part of the
 *  message. */
static uint8_t take_rails(struct kolo_rdma_direct *direct, const void *memory, size_t bytes,
                          uint8_t wanted, struct kolo_rdma_region **rails)
{
    uint8_t taken = 0;
    wanted &= direct->rails_open;
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX && bytes >= KOLO_RDMA_STRIPED_BYTES; i++) {
        if ((wanted >> i & 1) == 0)
            continue;
        kolo_status status =
            kolo_rdma_regions_take(direct->rails[i], (void *)(uintptr_t)memory, bytes, &rails[i]);
        if (status == KOLO_OK) {
            taken |= (uint8_t)(1 << i);
            continue;
        }
        direct->rails_open &= (uint8_t) ~(1 << i);
        KOLO_WARN("a rail carries no long messages any more: %s", kolo_error_detail());
    }
    return taken;
}

void kolo_rdma_direct_fini(struct kolo_rdma_direct *direct)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++) {
        give_all(direct, &direct->lent[i].region, direct->lent[i].rails);
        direct->lent[i].work = NULL;
        kolo_rdma_direct_end(direct, &direct->writings[i]);
        direct->offers[i].bytes = 0;
    }
}

/* ---- what we offer ---- */

static struct kolo_rdma_lent *free_slot(struct kolo_rdma_direct *direct)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
        if (!direct->lent[i].region)
            return &direct->lent[i];
    return NULL;
}

bool kolo_rdma_direct_lend(struct kolo_rdma_direct *direct, struct kolo_work *work, uint8_t type,
                           struct kolo_desc *desc_out, uint8_t payload_out[KOLO_RDMA_OFFER_BYTES])
{
    const void *into = work->action.landing ? work->action.landing : work->dst;
    struct kolo_rdma_lent *lent = free_slot(direct);
    struct kolo_rdma_region *region = lent ? take(direct, into, work->bytes) : NULL;
    if (!region)
        return false;
    *lent = (struct kolo_rdma_lent){.work = work,
                                    .region = region,
                                    .generation =
                                        (uint8_t)((lent->generation + 1) % KOLO_RDMA_GENERATIONS)};
    uint8_t rails =
        region->is_device ? 0 : take_rails(direct, into, work->bytes, UINT8_MAX, lent->rails);
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
    kolo_write_u8(&writer, rails);
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX; i++)
        kolo_write_u32(&writer, lent->rails[i] ? lent->rails[i]->remote_key : 0);
    return true;
}

/* A mark: slot (6 bits) | generation (6 bits) | how many parts go by other rails, or that this is
 * such a part (4 bits). */
enum { SLOT_BITS = 6, GENERATION_BITS = 6 };

uint16_t kolo_rdma_direct_mark(const struct kolo_rdma_writing *writing, uint8_t parts)
{
    return (uint16_t)(writing->slot | writing->offer.generation << SLOT_BITS |
                      parts << (SLOT_BITS + GENERATION_BITS));
}

void kolo_rdma_direct_tell_sum(const struct kolo_rdma_writing *writing, uint8_t type, uint64_t sum,
                               struct kolo_desc *desc_out)
{
    struct kolo_writer writer = kolo_writer_over(desc_out->bytes, sizeof desc_out->bytes);
    memset(desc_out->bytes, 0, sizeof desc_out->bytes);
    kolo_write_u8(&writer, type);
    kolo_write_u8(&writer, writing->slot);
    kolo_write_u8(&writer, writing->offer.generation);
    kolo_write_u8(&writer, 0);
    kolo_write_u64(&writer, sum);
}

/** The message is complete. */
static void land(struct kolo_rdma_direct *direct, struct kolo_rdma_lent *lent)
{
    if (lent->work && lent->region->is_device)
        lent->work->has_landed = true;
    else if (lent->work && lent->region->is_gone)
        kolo_rdma_regions_bring(direct->regions, lent->region, lent->work->dst, lent->work->bytes);
    lent->work = NULL;
    give_all(direct, &lent->region, lent->rails);
}

kolo_status kolo_rdma_direct_written(struct kolo_rdma_direct *direct, uint16_t mark,
                                     struct kolo_rdma_told *told_out)
{
    struct kolo_rdma_lent *lent = &direct->lent[mark % KOLO_RDMA_SLOTS];
    const uint8_t parts = (uint8_t)(mark >> (SLOT_BITS + GENERATION_BITS));
    const bool is_part = parts == KOLO_RDMA_PART;
    if (!lent->region || lent->generation != (mark >> SLOT_BITS) % KOLO_RDMA_GENERATIONS ||
        (is_part ? lent->parts_there == KOLO_RDMA_RAILS_MAX - 1
                 : lent->has_mark || parts >= KOLO_RDMA_RAILS_MAX))
        return kolo_fail(
            KOLO_ERR_PROTOCOL,
            "the peer says that it wrote a message where nothing is offered (mark %04x)", mark);
    lent->has_mark |= !is_part;
    lent->parts_there += is_part;
    if (!is_part)
        lent->parts = parts;
    *told_out =
        (struct kolo_rdma_told){.work = lent->work,
                                .has_turn = !is_part,
                                .has_sum = lent->has_sum,
                                .sum = lent->sum,
                                .is_whole = lent->has_mark && lent->parts_there >= lent->parts};
    if (told_out->is_whole)
        land(direct, lent);
    return KOLO_OK;
}

kolo_status kolo_rdma_direct_heard_sum(struct kolo_rdma_direct *direct,
                                       const struct kolo_desc *desc)
{
    struct kolo_reader reader = kolo_reader_over(desc->bytes + 1, sizeof desc->bytes - 1);
    const uint8_t slot = kolo_read_u8(&reader), generation = kolo_read_u8(&reader);
    const uint8_t reserved = kolo_read_u8(&reader);
    struct kolo_rdma_lent *lent = &direct->lent[slot % KOLO_RDMA_SLOTS];
    if (slot >= KOLO_RDMA_SLOTS || reserved != 0 || !lent->region ||
        lent->generation != generation || lent->has_sum)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "the peer tells the checksum of a message where nothing is offered (slot "
                         "%u, generation %u)",
                         slot, generation);
    lent->has_sum = true;
    lent->sum = kolo_read_u64(&reader);
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
            give_all(direct, &lent->region, lent->rails);
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
    if (slot >= KOLO_RDMA_SLOTS || offer.generation >= KOLO_RDMA_GENERATIONS || reserved != 0 ||
        bytes != KOLO_RDMA_OFFER_BYTES)
        return kolo_fail(KOLO_ERR_PROTOCOL, "an offer of slot %u in %zu bytes", slot, bytes);
    reader = kolo_reader_over(payload, bytes);
    kolo_read_bytes(&reader, offer.desc.bytes, sizeof offer.desc.bytes);
    offer.bytes = kolo_read_u64(&reader);
    offer.rails = kolo_read_u8(&reader);
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX; i++)
        offer.keys[i] = kolo_read_u32(&reader);
    if (offer.bytes == 0 || offer.address > UINT64_MAX - offer.bytes)
        return kolo_fail(KOLO_ERR_PROTOCOL, "an offer of %llu bytes at %llx",
                         (unsigned long long)offer.bytes, (unsigned long long)offer.address);
    direct->offers[slot] = offer;
    *channel_out = offer.channel;
    return KOLO_OK;
}

/** The offer for this very message; -1: none. */
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
        if (!direct->writings[i].region)
            return &direct->writings[i];
    return NULL;
}

bool kolo_rdma_direct_has_entry(const struct kolo_rdma_direct *direct)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
        if (!direct->writings[i].region)
            return true;
    return false;
}

/** Whether enough entries are left for frames of device memory, which need one each. */
static bool may_promise(const struct kolo_rdma_direct *direct)
{
    int count = 0;
    if (!direct->regions->devices)
        return true;
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
        count += direct->writings[i].region && direct->writings[i].offer.bytes > 0;
    return count < KOLO_RDMA_PROMISES;
}

static void begin_rows(struct kolo_rdma_writing *writing)
{
    for (uint8_t i = 0; i < KOLO_RDMA_RAILS_MAX; i++)
        writing->rows[i] = (struct kolo_rdma_row){.state = KOLO_RDMA_ROW_NONE, .rail = i};
    writing->rows[0].state = KOLO_RDMA_ROW_OPEN;
}

struct kolo_rdma_writing *kolo_rdma_direct_of_row(struct kolo_rdma_row *row)
{
    return (struct kolo_rdma_writing *)(void *)((char *)(row - row->rail) -
                                                offsetof(struct kolo_rdma_writing, rows));
}

bool kolo_rdma_direct_is_over(const struct kolo_rdma_writing *writing)
{
    for (int i = 0; i < KOLO_RDMA_RAILS_MAX; i++)
        if (writing->rows[i].state != KOLO_RDMA_ROW_NONE)
            return false;
    return true;
}

bool kolo_rdma_direct_promise(struct kolo_rdma_direct *direct, const struct kolo_work *work)
{
    if (kolo_rdma_direct_find(direct, work))
        return true;
    int slot = find_offer(direct, work);
    struct kolo_rdma_writing *writing =
        slot >= 0 && may_promise(direct) ? free_writing(direct) : NULL;
    struct kolo_rdma_region *region = writing ? take(direct, work->src, work->bytes) : NULL;
    if (!region)
        return false;
    *writing = (struct kolo_rdma_writing){
        .work = work, .region = region, .offer = direct->offers[slot], .slot = (uint8_t)slot};
    if (!region->is_device)
        (void)take_rails(direct, work->src, work->bytes, writing->offer.rails, writing->rails);
    begin_rows(writing);
    direct->offers[slot].bytes = 0; /* an offer is used once */
    return true;
}

struct kolo_rdma_writing *kolo_rdma_direct_frame(struct kolo_rdma_direct *direct,
                                                 const struct kolo_frame *frame)
{
    struct kolo_rdma_writing *writing = free_writing(direct);
    struct kolo_rdma_region *region = writing ? take(direct, frame->payload, frame->bytes) : NULL;
    if (!region)
        return NULL;
    *writing = (struct kolo_rdma_writing){
        .work = frame->work, .region = region, .frame = *frame, .is_begun = true};
    begin_rows(writing);
    return writing;
}

struct kolo_rdma_writing *kolo_rdma_direct_find(struct kolo_rdma_direct *direct,
                                                const struct kolo_work *work)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
        if (direct->writings[i].region && direct->writings[i].work == work)
            return &direct->writings[i];
    return NULL;
}

void kolo_rdma_direct_end(struct kolo_rdma_direct *direct, struct kolo_rdma_writing *writing)
{
    give_all(direct, &writing->region, writing->rails);
    writing->work = NULL;
}
