// SPDX-License-Identifier: Apache-2.0
// The tables of messages that are written directly, without a copy: an offer fits exactly one
// message, memory that was not offered cannot be written, and a registration lives as long as it
// may be used.
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/wire.h"
#include "tests/support/fake_verbs.h"
#include "transport/rdma_direct.h"

enum { BYTES = 1 << 17, TYPE = 128 };

static struct kolo_rdma_device *device;
static struct kolo_heap *heap;
static struct kolo_rdma_regions regions;
static struct kolo_rdma_direct ours, theirs; /* the receiver's and the sender's */
static uint8_t *memory;

static void begin(void)
{
    void *span = NULL;
    fake_verbs_reset();
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), fake_verbs_settings(""), -1, &device) ==
              KOLO_OK);
    cr_assert(kolo_heap_create(&heap) == KOLO_OK);
    cr_assert(kolo_heap_alloc(heap, (size_t)2 * BYTES, &span) == KOLO_OK);
    memory = span;
    kolo_rdma_regions_init(&regions, device, heap);
    kolo_rdma_direct_init(&ours, &regions);
    kolo_rdma_direct_init(&theirs, &regions);
}

static void end(void)
{
    kolo_rdma_direct_fini(&ours);
    kolo_rdma_direct_fini(&theirs);
    kolo_rdma_regions_fini(&regions);
    kolo_heap_destroy(heap);
    kolo_rdma_device_close(device);
    cr_assert(fake_verbs_living() == 0, "%d left", fake_verbs_living());
}

TestSuite(rdma_direct, .init = begin, .fini = end, .timeout = 60);

static struct kolo_work work_of(uint32_t number)
{
    return (struct kolo_work){.bytes = BYTES,
                              .dst = memory,
                              .src = memory + BYTES,
                              .desc = {{1, 2, 3}},
                              .channel = 7,
                              .number = number};
}

/** Offers @p receive's memory, through the wire format. */
static void offer(struct kolo_work *receive)
{
    struct kolo_desc desc;
    uint8_t payload[KOLO_RDMA_OFFER_BYTES];
    uint32_t channel = 0;
    cr_assert(kolo_rdma_direct_lend(&ours, receive, TYPE, &desc, payload));
    cr_assert(desc.bytes[0] == TYPE);
    cr_assert(kolo_rdma_direct_heard(&theirs, &desc, payload, sizeof payload, &channel) == KOLO_OK);
    cr_assert(channel == receive->channel);
}

Test(rdma_direct, an_offer_is_for_one_message_and_used_once)
{
    struct kolo_work receive = work_of(5), send = work_of(5);
    struct kolo_rdma_told got;
    offer(&receive);
    struct kolo_work others[] = {send, send, send, send};
    others[0].number++;
    others[1].channel++;
    others[2].bytes--;
    others[3].desc.bytes[23]++;
    for (int i = 0; i < 4; i++)
        cr_assert(!kolo_rdma_direct_promise(&theirs, &others[i]), "%d", i);
    cr_assert(kolo_rdma_direct_promise(&theirs, &send) && kolo_rdma_direct_promise(&theirs, &send));
    cr_assert(!kolo_rdma_direct_promise(&theirs, &others[0]));
    struct kolo_rdma_writing *writing = kolo_rdma_direct_find(&theirs, &send);
    cr_assert(writing && writing->offer.address == (uintptr_t)memory);
    const uint16_t mark = kolo_rdma_direct_mark(writing, 0);
    cr_assert(kolo_rdma_direct_written(&ours, mark, &got) == KOLO_OK && got.work == &receive &&
              got.has_turn && got.is_whole);
    cr_assert(kolo_rdma_direct_written(&ours, mark, &got) == KOLO_ERR_PROTOCOL);
    kolo_rdma_direct_end(&theirs, writing);
    cr_assert(kolo_rdma_direct_find(&theirs, &send) == NULL);
    cr_assert(!kolo_rdma_direct_promise(&theirs, &send), "it was used");
}

Test(rdma_direct, nothing_is_written_where_nothing_is_offered)
{
    struct kolo_work receive = work_of(0);
    struct kolo_rdma_told got;
    offer(&receive);
    const uint16_t mark = (uint16_t)(ours.lent[0].generation << 6);
    const uint16_t wrong[] = {(uint16_t)(mark + 1), (uint16_t)(mark + KOLO_RDMA_SLOTS),
                              (uint16_t)(mark + 2 * KOLO_RDMA_SLOTS), 0x8fff};
    for (int i = 0; i < 4; i++) {
        cr_assert(kolo_rdma_direct_written(&ours, wrong[i], &got) == KOLO_ERR_PROTOCOL, "%d", i);
        cr_assert(strstr(kolo_error_detail(), "nothing is offered"), "%s", kolo_error_detail());
    }
    cr_assert(kolo_rdma_direct_written(&ours, mark, &got) == KOLO_OK && got.work == &receive);
}

Test(rdma_direct, a_checksum_is_told_once_and_for_what_is_offered)
{
    struct kolo_work receive = work_of(0), send = work_of(0);
    struct kolo_rdma_told got;
    struct kolo_desc sum;
    offer(&receive);
    cr_assert(kolo_rdma_direct_promise(&theirs, &send));
    const struct kolo_rdma_writing *writing = kolo_rdma_direct_find(&theirs, &send);
    kolo_rdma_direct_tell_sum(writing, TYPE, 0x0123456789abcdef, &sum);
    cr_assert(sum.bytes[0] == TYPE);
    const int bytes[] = {1, 2, 3}; /* another slot, another generation, a reserved byte */
    for (int i = 0; i < 3; i++) {
        struct kolo_desc wrong = sum;
        wrong.bytes[bytes[i]]++;
        cr_assert(kolo_rdma_direct_heard_sum(&ours, &wrong) == KOLO_ERR_PROTOCOL, "%d", i);
        cr_assert(strstr(kolo_error_detail(), "where nothing is offered"), "%s",
                  kolo_error_detail());
    }
    cr_assert(kolo_rdma_direct_heard_sum(&ours, &sum) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(kolo_rdma_direct_heard_sum(&ours, &sum) == KOLO_ERR_PROTOCOL, "it was told before");
    const uint16_t mark = kolo_rdma_direct_mark(writing, 0);
    cr_assert(kolo_rdma_direct_written(&ours, mark, &got) == KOLO_OK && got.is_whole);
    cr_assert(got.has_sum && got.sum == 0x0123456789abcdef);
    cr_assert(kolo_rdma_direct_heard_sum(&ours, &sum) == KOLO_ERR_PROTOCOL, "it is over");
}

Test(rdma_direct, a_checksum_of_what_was_given_up_is_heard)
{
    struct kolo_work receive = work_of(0), send = work_of(0);
    struct kolo_desc sum;
    offer(&receive);
    cr_assert(kolo_rdma_direct_promise(&theirs, &send));
    kolo_rdma_direct_tell_sum(kolo_rdma_direct_find(&theirs, &send), TYPE, 1, &sum);
    kolo_rdma_direct_reclaim(&ours, &receive, true);
    cr_assert(kolo_rdma_direct_heard_sum(&ours, &sum) == KOLO_OK, "%s", kolo_error_detail());
}

Test(rdma_direct, an_offer_that_nobody_can_mean_is_refused)
{
    struct kolo_work receive = work_of(0);
    struct kolo_desc desc, bad;
    uint8_t payload[KOLO_RDMA_OFFER_BYTES], none[KOLO_RDMA_OFFER_BYTES];
    uint32_t channel = 0;
    cr_assert(kolo_rdma_direct_lend(&ours, &receive, TYPE, &desc, payload));
    cr_assert(kolo_rdma_direct_heard(&theirs, &desc, payload, sizeof payload - 1, &channel) ==
              KOLO_ERR_PROTOCOL);
    bad = desc;
    bad.bytes[1] = KOLO_RDMA_SLOTS;
    cr_assert(kolo_rdma_direct_heard(&theirs, &bad, payload, sizeof payload, &channel) ==
              KOLO_ERR_PROTOCOL);
    bad = desc;
    bad.bytes[3] = 1;
    cr_assert(kolo_rdma_direct_heard(&theirs, &bad, payload, sizeof payload, &channel) ==
              KOLO_ERR_PROTOCOL);
    bad = desc;
    memset(bad.bytes + 16, 0xff, 8); /* the range would wrap around the end of the address space */
    cr_assert(kolo_rdma_direct_heard(&theirs, &bad, payload, sizeof payload, &channel) ==
              KOLO_ERR_PROTOCOL);
    memcpy(none, payload, sizeof none);
    memset(none + sizeof desc, 0, 8);
    cr_assert(kolo_rdma_direct_heard(&theirs, &desc, none, sizeof none, &channel) ==
              KOLO_ERR_PROTOCOL);
    struct kolo_work send = work_of(0);
    cr_assert(!kolo_rdma_direct_promise(&theirs, &send), "none of them was taken");
}

Test(rdma_direct, what_is_given_up_stays_registered_until_nobody_can_write_it)
{
    struct kolo_work receive = work_of(3);
    struct kolo_rdma_told got = {.work = &receive};
    offer(&receive);
    const uint16_t mark = (uint16_t)(ours.lent[0].generation << 6);
    kolo_rdma_direct_reclaim(&ours, &receive, true);
    struct kolo_rdma_region *region = ours.lent[0].region;
    cr_assert(region && region->users == 1);
    struct kolo_work next = work_of(4);
    offer(&next);
    cr_assert(ours.lent[1].work == &next, "another slot");
    cr_assert(kolo_rdma_direct_written(&ours, mark, &got) == KOLO_OK && !got.work,
              "it comes to nothing");
    cr_assert(!ours.lent[0].region && region->users == 1);
    kolo_rdma_direct_reclaim(&ours, &next, false);
    cr_assert(region->users == 0);
}

Test(rdma_direct, only_so_many_are_offered_and_all_are_let_go)
{
    struct kolo_work receives[KOLO_RDMA_SLOTS + 1];
    struct kolo_desc desc;
    uint8_t payload[KOLO_RDMA_OFFER_BYTES];
    for (uint32_t i = 0; i < KOLO_RDMA_SLOTS; i++) {
        receives[i] = work_of(i);
        offer(&receives[i]);
        cr_assert(kolo_rdma_direct_promise(&theirs, &receives[i]));
    }
    receives[KOLO_RDMA_SLOTS] = work_of(KOLO_RDMA_SLOTS);
    cr_assert(!kolo_rdma_direct_lend(&ours, &receives[KOLO_RDMA_SLOTS], TYPE, &desc, payload));
    cr_assert(fake_verbs_regions() == 1 && ours.lent[0].region->users == 2 * KOLO_RDMA_SLOTS);
    struct kolo_rdma_region *region = ours.lent[0].region;
    kolo_rdma_direct_fini(&theirs);
    kolo_rdma_direct_fini(&ours);
    cr_assert(region->users == 0);
}

Test(rdma_direct, memory_that_cannot_be_registered_is_tried_once)
{
    static uint8_t plain[BYTES];
    struct kolo_work receive = work_of(0);
    struct kolo_desc desc;
    uint8_t payload[KOLO_RDMA_OFFER_BYTES];
    receive.dst = plain;
    cr_assert(!kolo_rdma_direct_lend(&ours, &receive, TYPE, &desc, payload), "it is copied");
    receive.dst = memory;
    fake_verbs_fail("reg_mr", 1, ENOMEM);
    cr_assert(!kolo_rdma_direct_lend(&ours, &receive, TYPE, &desc, payload) && ours.is_refused);
    cr_assert(!kolo_rdma_direct_lend(&ours, &receive, TYPE, &desc, payload));
    cr_assert(fake_verbs_registered() == 0);
}
