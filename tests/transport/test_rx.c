// SPDX-License-Identifier: Apache-2.0
// transport/rx.c: credit of the receiving side, with frames fed by hand, also dishonest ones.
#include "base/alloc.h"
#include "base/wire.h"
#include "tests/support/transport_frames.h"

Test(rx, a_huge_frame_is_refused_before_anything_is_allocated, .timeout = 60)
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

Test(rx, a_flood_of_empty_messages_ends_at_the_credit, .timeout = 60)
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

Test(rx, the_last_byte_of_the_credit_is_taken_and_no_more, .timeout = 60)
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

/* The credit that the link now returns, on any channel; 0: none. */
static uint64_t returned_credit(struct kolo_link *link)
{
    struct kolo_frame frame;
    uint64_t bytes = 0;
    if (kolo_link_next_frame(link, KOLO_CONTROL_BYTES_MAX, &frame) &&
        frame.header.desc.bytes[0] == KOLO_CONTROL_CREDIT)
        memcpy(&bytes, frame.header.desc.bytes + 8, 8);
    return bytes;
}

Test(rx, what_has_its_place_is_paid_before_it_comes_and_not_twice, .timeout = 60)
{
    enum { CREDIT = 64 << 10, FIRST = 10000, FRAME = 60000, FRAMES = 5, ALL = 310000 };
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(7, FIRST);
    uint8_t *memory = malloc(ALL);
    struct kolo_work work;
    link->is_pushing = true; /* the test takes the frames */
    kolo_link_recv(link, 7, &header.desc, memory, ALL, NULL, &work);
    cr_assert_eq(feed(link, &header), KOLO_OK);
    /* including the first one's */
    cr_assert_eq(returned_credit(link), ALL + KOLO_FRAME_COST_BYTES);
    header.bytes = FRAME;
    for (int i = 0; i < FRAMES; i++) {
        cr_assert_eq(feed(link, &header), KOLO_OK, "frame %d", i);
        cr_assert_eq(returned_credit(link), 0, "frame %d", i);
    }
    cr_assert_eq(work.status, KOLO_OK);
    header.bytes = CREDIT - (1 + FRAMES) * KOLO_FRAME_COST_BYTES; /* all that is left */
    cr_assert_eq(feed(link, &header), KOLO_OK);
    header.bytes = 0;
    cr_assert_eq(feed(link, &header), KOLO_ERR_PROTOCOL);
    free(memory);
    suite_close(world);
}

Test(rx, the_rest_of_an_early_message_is_paid_when_it_gets_its_place, .timeout = 60)
{
    enum { FIRST = 20000, SECOND = 30000, ALL = 200000 };
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(7, FIRST);
    uint8_t *memory = malloc(ALL);
    struct kolo_work work;
    link->is_pushing = true; /* the test takes the frames */
    cr_assert_eq(feed(link, &header), KOLO_OK);
    header.bytes = SECOND;
    cr_assert_eq(feed(link, &header), KOLO_OK);
    cr_assert_eq(returned_credit(link), 0);
    kolo_link_recv(link, 7, &header.desc, memory, ALL, NULL, &work);
    cr_assert_eq(returned_credit(link), ALL + 2 * KOLO_FRAME_COST_BYTES);
    header.bytes = ALL - FIRST - SECOND;
    cr_assert_eq(feed(link, &header), KOLO_OK);
    cr_assert_eq(work.status, KOLO_OK);
    free(memory);
    suite_close(world);
}

Test(rx, two_messages_before_the_credit_is_sent_are_both_paid, .timeout = 60)
{
    enum { FIRST = 4000, REST = 40000, SECOND = 16000, ALL = 60000 };
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(7, FIRST);
    uint8_t *memory = malloc(2 * ALL);
    struct kolo_work works[2];
    link->is_pushing = true; /* the test takes the frames */
    kolo_link_recv(link, 7, &header.desc, memory, FIRST + REST, NULL, &works[0]);
    kolo_link_recv(link, 7, &header.desc, memory + ALL, ALL, NULL, &works[1]);
    cr_assert_eq(feed(link, &header), KOLO_OK);
    header.bytes = REST;
    cr_assert_eq(feed(link, &header), KOLO_OK);
    header.bytes = SECOND;
    cr_assert_eq(feed(link, &header), KOLO_OK);
    uint64_t got = returned_credit(link);
    cr_assert_eq(got, FIRST + REST + ALL + 3 * KOLO_FRAME_COST_BYTES, "%llu, not %d",
                 (unsigned long long)got, FIRST + REST + ALL + 3 * KOLO_FRAME_COST_BYTES);
    header.bytes = ALL - SECOND;
    cr_assert_eq(feed(link, &header), KOLO_OK);
    cr_assert_eq(works[1].status, KOLO_OK);
    free(memory);
    suite_close(world);
}

Test(rx, what_was_paid_in_advance_for_a_send_that_is_cancelled_breaks_nothing, .timeout = 60)
{
    enum { FRAME = 16 << 10, ALL = 300000 };
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header credit = control_of(KOLO_CONTROL_CREDIT, 0);
    struct kolo_desc desc = {{0}};
    struct kolo_work work;
    struct kolo_frame frame;
    uint8_t *memory = calloc(1, ALL);
    struct kolo_transport plain;
    const struct kolo_transport *real = drive_frames(link, &plain);
    plain.withdraw = NULL;
    kolo_link_send(link, 0, &desc, memory, ALL, &work);
    cr_assert(kolo_link_next_frame(link, FRAME, &frame));
    kolo_link_frame_done(link, &frame);
    kolo_work_cancel(&work);
    struct kolo_writer writer = kolo_writer_over(credit.desc.bytes + 8, 8);
    kolo_write_u64(&writer, ALL - FRAME); /* it crossed the cancellation */
    kolo_status status = feed(link, &credit);
    link->transport = real;
    cr_assert_eq(status, KOLO_OK, "%s", kolo_error_detail());
    free(memory);
    suite_close(world);
}

Test(rx, what_was_paid_for_a_receive_that_is_gone_may_still_come, .timeout = 60)
{
    enum { FIRST = 10000, FRAME = 60000, FRAMES = 5, ALL = 310000 };
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(7, FIRST);
    uint8_t *memory = malloc(ALL);
    struct kolo_work work;
    link->is_pushing = true; /* the test takes the frames */
    kolo_link_recv(link, 7, &header.desc, memory, ALL, NULL, &work);
    cr_assert_eq(feed(link, &header), KOLO_OK);
    cr_assert_eq(returned_credit(link), ALL + KOLO_FRAME_COST_BYTES);
    kolo_work_cancel(&work);
    kolo_endpoint_forget(link->endpoint, 7, 1); /* its communicator is finalized */
    header.bytes = FRAME;
    for (int i = 0; i < FRAMES; i++)
        cr_assert_eq(feed(link, &header), KOLO_OK, "frame %d: %s", i, kolo_error_detail());
    free(memory);
    suite_close(world);
}

Test(rx, control_frames_out_of_bounds_break_the_protocol, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    const struct kolo_header bad[] = {
        control_of(KOLO_CONTROL_ABORT, KOLO_CONTROL_BYTES_MAX + 1),
        control_of(KOLO_CONTROL_ABORT, UINT32_MAX),
        control_of(KOLO_CONTROL_CREDIT, 1),
        control_of(KOLO_CONTROL_CREDIT, 0), /* for channel 0, which is never used */
        control_of(KOLO_CONTROL_GOODBYE, 1),
        control_of(0, 0),
        control_of(99, 0),
        control_of(KOLO_CONTROL_TRANSPORT, 0), /* inproc has none of these */
        control_of(255, 8),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(feed(link, &bad[i]), KOLO_ERR_PROTOCOL, "frame %zu", i);
    suite_close(world);
}

Test(rx, nothing_comes_after_a_goodbye, .timeout = 60)
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

/** Four receives of 8 bytes on channel 1, none of which has any data yet. */
static void post_four(struct kolo_link *link, uint8_t memory[4][8], struct kolo_work works[4])
{
    const struct kolo_header header = header_of(1, 8);
    memset(memory, 0xff, (size_t)4 * 8);
    for (int i = 0; i < 4; i++)
        kolo_link_recv(link, 1, &header.desc, memory[i], 8, NULL, &works[i]);
}

/* Written, frame, written, frame: their turns come in order, but the written ones are complete in
 * the opposite order. */
Test(rx, what_follows_a_message_that_has_its_turn_waits_for_it, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    const struct kolo_header header = header_of(1, 8);
    uint8_t memory[4][8];
    struct kolo_work works[4];
    post_four(link, memory, works);
    cr_assert_eq(kolo_link_rx_turn(link, &works[0]), KOLO_OK);
    cr_assert_eq(feed(link, &header), KOLO_OK);
    cr_assert_eq(kolo_link_rx_turn(link, &works[2]), KOLO_OK);
    cr_assert_eq(feed(link, &header), KOLO_OK);
    kolo_link_rx_whole(link, &works[2]);
    for (int i = 0; i < 4; i++)
        cr_assert(works[i].status == KOLO_AGAIN, "work %d is over", i);
    cr_assert(memory[1][0] == 0xff, "a frame went past the message before it");
    kolo_link_rx_whole(link, &works[0]);
    for (int i = 0; i < 4; i++)
        cr_assert(works[i].status == KOLO_OK, "work %d: %s", i, kolo_status_name(works[i].status));
    cr_assert(memory[1][0] == 0 && memory[3][0] == 0 && memory[0][0] == 0xff);
    cr_assert(link->turns == 0 && link->receives == 0);
    suite_close(world);
}

Test(rx, a_message_that_has_its_turn_out_of_turn_breaks_the_protocol, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    uint8_t memory[4][8];
    struct kolo_work works[4];
    post_four(link, memory, works);
    cr_assert_eq(kolo_link_rx_turn(link, &works[1]), KOLO_ERR_PROTOCOL);
    cr_assert_eq(kolo_link_rx_turn(link, &works[0]), KOLO_OK);
    /* reported when the first one is complete */
    cr_assert_eq(kolo_link_rx_turn(link, &works[0]), KOLO_OK);
    kolo_link_rx_whole(link, &works[0]);
    cr_assert(link->state == KOLO_LINK_DOWN);
    suite_close(world);
}

Test(rx, a_receive_that_has_its_turn_can_be_given_up, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    uint8_t memory[4][8];
    struct kolo_work works[4];
    post_four(link, memory, works);
    cr_assert_eq(kolo_link_rx_turn(link, &works[0]), KOLO_OK);
    cr_assert_eq(kolo_link_rx_turn(link, &works[1]), KOLO_OK);
    kolo_work_cancel(&works[0]);
    for (int i = 0; i < 4; i++)
        cr_assert(works[i].status == KOLO_ERR_ABORTED, "work %d", i);
    cr_assert(link->turns == 0 && link->receives == 0);
    suite_close(world);
}

Test(rx, a_goodbye_counts_when_all_before_it_is_there, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    const struct kolo_header goodbye = control_of(KOLO_CONTROL_GOODBYE, 0);
    uint8_t memory[4][8];
    struct kolo_work works[4];
    post_four(link, memory, works);
    cr_assert_eq(kolo_link_rx_turn(link, &works[0]), KOLO_OK);
    cr_assert_eq(feed(link, &goodbye), KOLO_OK);
    cr_assert(world->ranks[0].heard[1].left == 0 && works[0].status == KOLO_AGAIN);
    kolo_link_rx_whole(link, &works[0]);
    cr_assert(world->ranks[0].heard[1].left == 1 && works[0].status == KOLO_OK);
    cr_assert(works[1].status == KOLO_ERR_PEER, "%s", kolo_status_name(works[1].status));
    suite_close(world);
}

/* It is found out as soon as a receive is there. */
Test(rx, an_early_message_longer_than_its_receive_breaks_the_protocol, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(1, 9);
    uint8_t memory[8];
    struct kolo_work work;
    cr_assert_eq(feed(link, &header), KOLO_OK);
    kolo_link_recv(link, 1, &header.desc, memory, sizeof memory, NULL, &work);
    cr_assert_eq(link->state, KOLO_LINK_DOWN);
    cr_assert_eq(work.status, KOLO_ERR_PROTOCOL, "%s", kolo_status_name(work.status));
    suite_close(world);
}

static bool release_nothing(struct kolo_link *link, uint64_t cookie)
{
    (void)link;
    return cookie == 5;
}

Test(rx, a_control_frame_to_read_in_place_breaks_the_protocol, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    const struct kolo_header header = control_of(KOLO_CONTROL_CREDIT, 0);
    const struct kolo_transport *real = link->transport;
    struct kolo_transport remote = *real;
    remote.release = release_nothing;
    link->transport = &remote;
    cr_assert_eq(kolo_link_rx_remote(link, &header, "abcd", 4, 5), KOLO_ERR_PROTOCOL);
    cr_assert(strstr(kolo_error_detail(), "control frame") != NULL, "%s", kolo_error_detail());
    link->transport = real;
    suite_close(world);
}

Test(rx, a_torn_element_breaks_the_protocol, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    float values[4] = {0};
    struct kolo_action action = {
        .kind = KOLO_REDUCE, .dtype = KOLO_FLOAT32, .op = KOLO_SUM, .local = values};
    struct kolo_header header = header_of(1, 6);
    struct kolo_work work;
    kolo_link_recv(link, 1, &header.desc, values, 6, &action, &work);
    cr_assert_eq(work.status, KOLO_ERR_INVALID);
    kolo_link_recv(link, 1, &header.desc, values, sizeof values, &action, &work);
    cr_assert_eq(work.status, KOLO_AGAIN);
    cr_assert_eq(feed(link, &header), KOLO_ERR_PROTOCOL);
    suite_close(world);
}

Test(rx, an_abort_with_an_unknown_status_is_an_abort, .timeout = 60)
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

Test(rx, a_receive_posted_in_the_middle_of_an_early_frame_gets_it, .timeout = 60)
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
