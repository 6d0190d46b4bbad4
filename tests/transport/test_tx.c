// SPDX-License-Identifier: Apache-2.0
// transport/tx.c: in which order frames are sent, and credit of the sending side.
#include <stdlib.h>

#include "tests/support/transport_frames.h"

/* Takes all available data frames of at most @p max_bytes, and notes the channel and length of
 * each. */
static size_t take_frames(struct kolo_link *link, size_t max_bytes, struct kolo_header *headers_out,
                          size_t max)
{
    struct kolo_frame frame;
    size_t count = 0;
    while (count < max && kolo_link_next_frame(link, max_bytes, &frame)) {
        headers_out[count++] = frame.header;
        kolo_link_frame_done(link, &frame);
    }
    return count;
}

Test(tx, channels_take_turns_frame_by_frame, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header headers[16];
    struct kolo_desc desc = {{0}};
    struct kolo_work works[3];
    static uint8_t memory[2000];
    link->is_pushing = true; /* the test takes the frames */
    for (uint32_t i = 0; i < 3; i++)
        kolo_link_send(link, i, &desc, memory, 1000 + i, &works[i]);
    cr_assert_eq(take_frames(link, 500, headers, 16), 9);
    for (uint32_t i = 0; i < 9; i++) {
        cr_assert_eq(headers[i].channel, i % 3, "frame %u is of channel %u", i, headers[i].channel);
        cr_assert_eq(headers[i].bytes, i < 6 ? 496 : 8 + i % 3, "frame %u: %u bytes", i,
                     headers[i].bytes);
    }
    for (int i = 0; i < 3; i++)
        cr_assert_eq(works[i].status, KOLO_OK);
    suite_close(world);
}

Test(tx, a_frame_beside_a_channel_is_of_another, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_desc desc = {{0}};
    struct kolo_frame frame;
    struct kolo_work works[2];
    static uint8_t memory[1000];
    struct kolo_transport plain;
    const struct kolo_transport *real = drive_frames(link, &plain);
    for (uint32_t i = 0; i < 2; i++)
        kolo_link_send(link, 1 + i, &desc, memory, sizeof memory, &works[i]);
    for (int i = 0; i < 3; i++) { /* 496, 496 and 8 bytes */
        cr_assert(kolo_link_next_frame_beside(link, 1, 500, &frame), "%d", i);
        cr_assert_eq(frame.header.channel, 2, "%d: %u", i, frame.header.channel);
        kolo_link_frame_done(link, &frame);
    }
    cr_assert_eq(works[1].status, KOLO_OK);
    cr_assert_not(kolo_link_next_frame_beside(link, 1, 500, &frame));
    cr_assert(kolo_link_next_frame_beside(link, 2, 500, &frame) && frame.header.channel == 1);
    kolo_link_frame_done(link, &frame);
    kolo_work_cancel(&works[0]);
    link->transport = real;
    suite_close(world);
}

Test(tx, stops_at_the_credit_and_goes_on_when_it_returns, .timeout = 60)
{
    enum { CREDIT = 64 << 10 };
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header headers[64], credit = control_of(KOLO_CONTROL_CREDIT, 0);
    struct kolo_desc desc = {{0}};
    static struct kolo_work works[64];
    static uint8_t memory[2000];
    size_t cost = 2000 + KOLO_FRAME_COST_BYTES, fit = CREDIT / cost;
    link->is_pushing = true;
    for (int i = 0; i < 64; i++)
        kolo_link_send(link, 0, &desc, memory, 2000, &works[i]);
    cr_assert_eq(take_frames(link, 4096, headers, 64), fit);
    cr_assert_not(kolo_link_has_frames(link));
    struct kolo_writer writer = kolo_writer_over(credit.desc.bytes + 8, 8);
    kolo_write_u64(&writer, 3 * cost);
    cr_assert_eq(feed(link, &credit), KOLO_OK);
    cr_assert_eq(take_frames(link, 4096, headers, 64), 3);
    for (int i = 0; i < 64; i++)
        kolo_work_cancel(&works[i]);
    suite_close(world);
}

/* Else the peer would combine a part of an element. */
Test(tx, what_the_credit_leaves_is_cut_at_a_whole_step, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header headers[16];
    struct kolo_desc desc = {{0}};
    struct kolo_work works[2];
    static uint8_t memory[64 << 10];
    struct kolo_transport plain;
    const struct kolo_transport *real = drive_frames(link, &plain);
    kolo_link_send(link, 0, &desc, memory, 5, &works[0]);
    kolo_link_send(link, 0, &desc, memory, sizeof memory, &works[1]);
    const size_t count = take_frames(link, sizeof memory, headers, 16);
    cr_assert(count > 2 && headers[0].bytes == 5, "%zu", count);
    const uint32_t last = headers[count - 1].bytes;
    cr_assert(last < headers[1].bytes && last % KOLO_FRAME_STEP_BYTES == 0, "%u", last);
    kolo_work_cancel(&works[1]);
    link->transport = real;
    suite_close(world);
}

Test(tx, credit_that_was_never_used_is_not_taken_back, .timeout = 60)
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

/* Sends a message of @p bytes in frames of 4 KiB as far as the credit allows; the peer then
 * returns @p returned bytes. True: the whole message was sent. */
static bool goes_with(size_t bytes, uint64_t returned, kolo_status expected)
{
    enum { FRAME = 4096, FRAMES = 128 };
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header headers[FRAMES], credit = control_of(KOLO_CONTROL_CREDIT, 0);
    struct kolo_desc desc = {{0}};
    struct kolo_work work;
    uint8_t *memory = calloc(1, bytes);
    struct kolo_transport plain;
    const struct kolo_transport *real = drive_frames(link, &plain);
    kolo_link_send(link, 0, &desc, memory, bytes, &work);
    size_t taken = take_frames(link, FRAME, headers, FRAMES);
    cr_assert_eq(taken, 14, "%zu frames", taken);
    struct kolo_writer writer = kolo_writer_over(credit.desc.bytes + 8, 8);
    kolo_write_u64(&writer, returned);
    cr_assert_eq(feed(link, &credit), expected);
    take_frames(link, FRAME, headers, FRAMES);
    bool went = work.status == KOLO_OK;
    kolo_work_cancel(&work);
    link->transport = real;
    free(memory);
    suite_close(world);
    return went;
}

Test(tx, a_message_that_has_its_place_goes_beyond_the_credit_and_no_further, .timeout = 60)
{
    enum { ALL = 300000, COST = 14 * KOLO_FRAME_COST_BYTES };
    cr_assert(goes_with(ALL, ALL - 4096, KOLO_OK));
    cr_assert(goes_with(ALL, ALL + COST, KOLO_OK));
    cr_assert_not(goes_with(ALL, ALL + COST + 1, KOLO_ERR_PROTOCOL));
}

Test(tx, goodbye_is_the_last_frame_even_if_credit_is_owed, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(1, 40000);
    struct kolo_frame frame;
    uint8_t *memory = malloc(40000);
    struct kolo_work work;
    link->is_pushing = true; /* the test takes the frames */
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
