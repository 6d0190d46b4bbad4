// SPDX-License-Identifier: Apache-2.0
// transport/channel.c: the number of channels is bounded, and a cancelled receive is not written.
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
