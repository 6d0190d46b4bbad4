// SPDX-License-Identifier: Apache-2.0
// What the core does with frames that no honest peer sends: they are fed to a link of an inproc
// world by hand. And what kolo_endpoint_* says of choices, links and mistakes.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/support/transport_suite.h"
#include "transport/core.h"

/* Rank 0's link to rank 1. */
static struct kolo_link *open_link(struct suite_world **world_out, const char *credit)
{
    *world_out = suite_open("inproc", 2, "CREDIT_BYTES", credit);
    struct kolo_link *link = suite_link(&(*world_out)->ranks[0], 1);
    cr_assert_not_null(link);
    cr_assert_eq(link->state, KOLO_LINK_UP);
    return link;
}

static struct kolo_header header_of(uint32_t channel, uint32_t bytes)
{
    return (struct kolo_header){.channel = channel, .bytes = bytes, .desc = {{1, 2, 3}}};
}

static struct kolo_header control_of(uint8_t type, uint32_t bytes)
{
    struct kolo_header header = {.channel = KOLO_CHANNEL_CONTROL, .bytes = bytes};
    header.desc.bytes[0] = type;
    return header;
}

/* A whole frame with zeros as payload. */
static kolo_status feed(struct kolo_link *link, const struct kolo_header *header)
{
    uint8_t zeros[4096] = {0};
    kolo_status status = kolo_link_rx_begin(link, header);
    for (size_t left = header->bytes; status == KOLO_OK && left > 0;)
        left -= kolo_sink_put(&link->sink, zeros, left < sizeof zeros ? left : sizeof zeros);
    return status == KOLO_OK ? kolo_link_rx_end(link) : status;
}

Test(link, a_huge_frame_is_refused_before_anything_is_allocated, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header small = header_of(1, 1), huge = header_of(1, UINT32_MAX);
    cr_assert_eq(feed(link, &small), KOLO_OK);
    uint64_t before = kolo_alloc_count();
    cr_assert_eq(kolo_link_rx_begin(link, &huge), KOLO_ERR_PROTOCOL);
    cr_assert_eq(kolo_alloc_count(), before);
    cr_assert(strstr(kolo_error_detail(), "rank 1 sent") != NULL, "%s", kolo_error_detail());
    suite_close(world);
}

Test(link, a_flood_of_empty_messages_ends_at_the_credit, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(7, 0);
    size_t taken = 0;
    while (feed(link, &header) == KOLO_OK)
        taken++;
    cr_assert_eq(taken, (64 << 10) / KOLO_FRAME_COST_BYTES);
    suite_close(world);
}

Test(link, the_last_byte_of_the_credit_is_taken_and_no_more, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(7, (64 << 10) - KOLO_FRAME_COST_BYTES);
    cr_assert_eq(feed(link, &header), KOLO_OK);
    header.bytes = 0;
    cr_assert_eq(feed(link, &header), KOLO_ERR_PROTOCOL);
    header = header_of(8, (64 << 10) - KOLO_FRAME_COST_BYTES + 1);
    cr_assert_eq(feed(link, &header), KOLO_ERR_PROTOCOL);
    suite_close(world);
}

Test(link, channels_are_bounded, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    for (uint32_t i = 0; i < KOLO_CHANNELS_MAX; i++) {
        struct kolo_header header = header_of(i, 0);
        cr_assert_eq(feed(link, &header), KOLO_OK, "channel %u", i);
    }
    struct kolo_header header = header_of(KOLO_CHANNELS_MAX, 0);
    cr_assert_eq(feed(link, &header), KOLO_ERR_PROTOCOL);
    suite_close(world);
}

Test(link, control_frames_out_of_bounds_break_the_protocol, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    const struct kolo_header bad[] = {
        control_of(KOLO_CONTROL_ABORT, KOLO_CONTROL_BYTES_MAX + 1),
        control_of(KOLO_CONTROL_ABORT, UINT32_MAX),
        control_of(KOLO_CONTROL_CREDIT, 1),
        control_of(KOLO_CONTROL_CREDIT, 0), /* of channel 0, never used */
        control_of(KOLO_CONTROL_GOODBYE, 1),
        control_of(0, 0),
        control_of(99, 0),
        control_of(KOLO_CONTROL_TRANSPORT, 0), /* inproc has none of its own */
        control_of(255, 8),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(feed(link, &bad[i]), KOLO_ERR_PROTOCOL, "frame %zu", i);
    suite_close(world);
}

Test(link, credit_that_was_never_used_is_not_taken_back, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_desc desc = {{0}};
    struct kolo_work work;
    kolo_link_send(link, 0, &desc, "abcd", 4, &work);
    cr_assert_eq(work.status, KOLO_OK);
    struct kolo_header header = control_of(KOLO_CONTROL_CREDIT, 0);
    header.desc.bytes[8] = KOLO_FRAME_COST_BYTES + 4 + 1;
    cr_assert_eq(feed(link, &header), KOLO_ERR_PROTOCOL);
    memset(header.desc.bytes + 8, 0xff, 8);
    cr_assert_eq(feed(link, &header), KOLO_ERR_PROTOCOL);
    suite_close(world);
}

Test(link, nothing_comes_after_a_goodbye, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header goodbye = control_of(KOLO_CONTROL_GOODBYE, 0), data = header_of(1, 0);
    cr_assert_eq(feed(link, &goodbye), KOLO_OK);
    cr_assert_eq(world->ranks[0].heard[1].left, 1);
    cr_assert_eq(feed(link, &goodbye), KOLO_ERR_PROTOCOL);
    cr_assert_eq(feed(link, &data), KOLO_ERR_PROTOCOL);
    suite_close(world);
}

Test(link, goodbye_is_the_last_frame_even_if_credit_is_owed, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(1, 40000);
    struct kolo_frame frame;
    uint8_t *memory = malloc(40000);
    struct kolo_work work;
    link->is_pushing = true; /* the frames are for us to take */
    link->owes_goodbye = true;
    cr_assert(kolo_link_next_frame(link, KOLO_CONTROL_BYTES_MAX, &frame));
    cr_assert_eq(frame.header.desc.bytes[0], KOLO_CONTROL_GOODBYE);
    link->said_goodbye = false;
    kolo_link_recv(link, 1, &header.desc, memory, 40000, NULL, &work);
    cr_assert_eq(feed(link, &header), KOLO_OK);
    cr_assert_eq(work.status, KOLO_OK);
    cr_assert(kolo_link_has_frames(link), "no credit is owed");
    link->said_goodbye = true;
    cr_assert_not(kolo_link_has_frames(link));
    cr_assert_not(kolo_link_next_frame(link, KOLO_CONTROL_BYTES_MAX, &frame));
    free(memory);
    suite_close(world);
}

Test(link, a_torn_element_breaks_the_protocol, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    float values[4] = {0};
    struct kolo_action action = {KOLO_REDUCE, KOLO_FLOAT32, KOLO_SUM, values, false};
    struct kolo_header header = header_of(1, 6);
    struct kolo_work work;
    kolo_link_recv(link, 1, &header.desc, values, 6, &action, &work);
    cr_assert_eq(work.status, KOLO_ERR_INVALID);
    kolo_link_recv(link, 1, &header.desc, values, sizeof values, &action, &work);
    cr_assert_eq(work.status, KOLO_AGAIN);
    cr_assert_eq(feed(link, &header), KOLO_ERR_PROTOCOL);
    suite_close(world);
}

Test(link, an_abort_with_an_unknown_status_is_an_abort, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = control_of(KOLO_CONTROL_ABORT, KOLO_CONTROL_BYTES_MAX);
    header.desc.bytes[4] = 0x7f;
    cr_assert_eq(feed(link, &header), KOLO_OK);
    cr_assert_eq(world->ranks[0].heard[1].why, KOLO_ERR_ABORTED);
    cr_assert_eq(strlen(world->ranks[0].heard[1].text), KOLO_CONTROL_BYTES_MAX);
    suite_close(world);
}

Test(link, a_receive_taken_back_in_the_middle_of_its_frame_is_not_written, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(1, 8);
    uint8_t memory[8] = {0};
    struct kolo_work work;
    kolo_link_recv(link, 1, &header.desc, memory, 8, NULL, &work);
    cr_assert_eq(kolo_link_rx_begin(link, &header), KOLO_OK);
    cr_assert_eq(kolo_sink_put(&link->sink, "abcd", 4), 4);
    kolo_work_cancel(&work);
    cr_assert_eq(work.status, KOLO_ERR_ABORTED);
    cr_assert_eq(kolo_sink_put(&link->sink, "efgh", 4), 4);
    cr_assert_eq(kolo_link_rx_end(link), KOLO_OK);
    cr_assert_eq(memcmp(memory, "abcd\0\0\0\0", 8), 0);
    suite_close(world);
}

Test(link, a_receive_posted_in_the_middle_of_an_early_frame_gets_it, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(1, 8);
    uint8_t memory[8] = {0};
    struct kolo_work work;
    cr_assert_eq(kolo_link_rx_begin(link, &header), KOLO_OK);
    cr_assert_eq(kolo_sink_put(&link->sink, "abcd", 4), 4);
    kolo_link_recv(link, 1, &header.desc, memory, 8, NULL, &work);
    cr_assert_eq(work.status, KOLO_AGAIN);
    cr_assert_eq(kolo_sink_put(&link->sink, "efgh", 4), 4);
    cr_assert_eq(kolo_link_rx_end(link), KOLO_OK);
    cr_assert_eq(work.status, KOLO_OK);
    cr_assert_eq(memcmp(memory, "abcdefgh", 8), 0);
    suite_close(world);
}

Test(link, the_control_channel_is_not_for_callers, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_desc desc = {{0}};
    struct kolo_work work;
    kolo_link_send(link, KOLO_CHANNEL_CONTROL, &desc, "", 0, &work);
    cr_assert_eq(work.status, KOLO_ERR_INVALID);
    kolo_link_recv(link, KOLO_CHANNEL_CONTROL, &desc, NULL, 0, NULL, &work);
    cr_assert_eq(work.status, KOLO_ERR_INVALID);
    suite_close(world);
}

Test(link, describe_says_how_far_it_is, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(1, 8);
    char text[256];
    uint8_t memory[20];
    struct kolo_work work;
    kolo_link_recv(link, 1, &header.desc, memory, 20, NULL, &work);
    cr_assert_eq(feed(link, &header), KOLO_OK);
    kolo_link_describe(link, text, sizeof text);
    cr_assert_str_eq(text, "inproc rank 1 up, 0 of 0 bytes sent, 8 of 20 bytes received");
    suite_close(world);
}

/* Every allocation fails once: a status, never a crash, and all is given back (the sanitizer sees
 * it). */
static void works_without_memory(uint64_t nth)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_endpoint *other = world->ranks[1].endpoint;
    struct kolo_desc desc = {{0}};
    static uint8_t memory[100000];
    struct kolo_work works[4];
    kolo_alloc_fail_nth(nth);
    kolo_link_send(link, 1, &desc, memory, 100, &works[0]);
    kolo_link_send(link, 2, &desc, memory, sizeof memory, &works[1]);
    kolo_link_recv(link, 3, &desc, memory, 10, NULL, &works[2]);
    cr_assert_eq(kolo_endpoint_progress(other, NULL), KOLO_OK);
    cr_assert_eq(kolo_endpoint_progress(other, NULL), KOLO_OK);
    cr_assert_eq(kolo_endpoint_progress(world->ranks[0].endpoint, NULL), KOLO_OK);
    kolo_alloc_fail_nth(0);
    for (int i = 0; i < 3; i++)
        kolo_work_cancel(&works[i]);
    suite_close(world);
}

Test(link, survives_every_failing_allocation, .timeout = 120)
{
    for (uint64_t nth = 1; nth <= 24; nth++)
        works_without_memory(nth);
}
