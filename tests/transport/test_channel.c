// SPDX-License-Identifier: Apache-2.0
// transport/channel.c: the number of channels is bounded, a cancelled receive is not written, and
// what comes late on a forgotten channel is dropped.
#include "base/wire.h"
#include "tests/support/transport_frames.h"

Test(channel, channels_are_bounded, .timeout = 60)
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

Test(channel, a_receive_taken_back_in_the_middle_of_its_frame_is_not_written, .timeout = 60)
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

/* ---- what comes late on a channel that was forgotten ---- */

enum { GONE = 5, PAYLOAD = 1000 };

/** Sends a message on channel GONE; the test takes its only frame. */
static void send_a_frame(struct kolo_link *link)
{
    static const uint8_t payload[PAYLOAD];
    const struct kolo_transport *real = link->transport;
    struct kolo_transport plain = *real;
    struct kolo_desc desc = {{0}};
    struct kolo_frame frame;
    struct kolo_work work;
    plain.is_remote = NULL; /* by frames, as over tcp */
    link->transport = &plain;
    link->is_pushing = true;
    kolo_link_send(link, GONE, &desc, payload, PAYLOAD, &work);
    cr_assert(kolo_link_next_frame(link, PAYLOAD + 8, &frame) && frame.bytes == PAYLOAD);
    kolo_link_frame_done(link, &frame);
    cr_assert_eq(work.status, KOLO_OK);
    link->is_pushing = false;
    link->transport = real;
}

Test(channel, a_late_message_does_not_make_a_forgotten_channel_again, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header late = header_of(GONE, 8), credit = control_of(KOLO_CONTROL_CREDIT, 0);
    struct kolo_writer writer = kolo_writer_over(credit.desc.bytes + 4, 12);
    kolo_write_u32(&writer, GONE);
    kolo_write_u64(&writer, KOLO_FRAME_COST_BYTES + PAYLOAD);
    send_a_frame(link);
    kolo_endpoint_forget(link->endpoint, GONE - 1, 4);
    cr_assert(!kolo_link_is_early(link, &late), "nobody will receive it");
    cr_assert_eq(feed(link, &late), KOLO_OK, "%s", kolo_error_detail());
    cr_assert_eq(feed(link, &credit), KOLO_OK, "%s", kolo_error_detail()); /* for send_a_frame() */
    cr_assert_eq(link->channels.count, 0);
    cr_assert_eq(world->ranks[0].heard[1].early, 0);
    cr_assert(!kolo_link_has_frames(link), "something is returned");
    suite_close(world);
}

Test(channel, any_number_of_channels_can_be_forgotten, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    for (uint32_t i = 0; i < KOLO_CHANNELS_MAX + 10; i++) {
        struct kolo_header header = header_of(2 * i, 8);
        kolo_endpoint_forget(link->endpoint, 2 * i, 1);
        cr_assert_eq(feed(link, &header), KOLO_OK, "channel %u: %s", i, kolo_error_detail());
    }
    struct kolo_header header = header_of(1, 8);
    cr_assert_eq(feed(link, &header), KOLO_OK);
    cr_assert_eq(link->channels.count, 1);
    suite_close(world);
}

Test(channel, the_rest_of_a_frame_is_dropped_when_its_channel_is_forgotten, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_header header = header_of(GONE, 8), next = header_of(1, 8);
    cr_assert_eq(kolo_link_rx_begin(link, &header), KOLO_OK);
    cr_assert_eq(kolo_sink_put(&link->sink, "abcd", 4), 4);
    kolo_endpoint_forget(link->endpoint, GONE, 1);
    cr_assert_eq(kolo_sink_put(&link->sink, "efgh", 4), 4);
    cr_assert_eq(kolo_link_rx_end(link), KOLO_OK);
    cr_assert_eq(link->channels.count, 0);
    cr_assert_eq(feed(link, &next), KOLO_OK);
    suite_close(world);
}

static uint64_t released;

static bool note_release(struct kolo_link *link, uint64_t cookie)
{
    (void)link;
    released = cookie;
    return true;
}

Test(channel, memory_that_is_lent_for_a_forgotten_channel_is_released, .timeout = 60)
{
    enum { COOKIE = 77 };
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    const struct kolo_transport *real = link->transport;
    struct kolo_transport noting = *real;
    struct kolo_header header = header_of(GONE, 0);
    noting.release = note_release;
    kolo_endpoint_forget(link->endpoint, GONE, 1);
    link->transport = &noting;
    const kolo_status status = kolo_link_rx_remote(link, &header, "abcd", 4, COOKIE);
    link->transport = real;
    cr_assert_eq(status, KOLO_OK);
    cr_assert_eq(released, COOKIE);
    cr_assert_eq(link->channels.count, 0);
    suite_close(world);
}
