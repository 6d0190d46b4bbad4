// SPDX-License-Identifier: Apache-2.0
// transport/link.c: the control channel, the description of a link, and failing allocations.
#include "base/alloc.h"
#include "tests/support/transport_frames.h"

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
    cr_assert_str_eq(text, "inproc rank 1 up, 8 of 20 bytes received");
    suite_close(world);
}

Test(link, describe_says_how_much_is_sent, .timeout = 60)
{
    enum { BYTES = 100000, FRAME = 4096 };
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_desc desc = {{0}};
    struct kolo_frame frame;
    char text[256];
    static uint8_t memory[BYTES];
    struct kolo_work work;
    struct kolo_transport plain;
    const struct kolo_transport *real = drive_frames(link, &plain);
    kolo_link_send(link, 1, &desc, memory, BYTES, &work);
    for (int i = 0; i < 2; i++) {
        cr_assert(kolo_link_next_frame(link, FRAME, &frame));
        cr_assert_not(kolo_link_frame_done(link, &frame));
    }
    kolo_link_describe(link, text, sizeof text);
    cr_assert_str_eq(text, "inproc rank 1 up, 8192 of 100000 bytes sent");
    kolo_work_cancel(&work);
    link->transport = real;
    suite_close(world);
}

static struct {
    int count;
    const struct kolo_work *last;
} withdrawn;

static void note_withdrawal(struct kolo_link *link, struct kolo_work *work)
{
    (void)link;
    withdrawn.count++;
    withdrawn.last = work;
}

/* Its memory is the caller's again, so the transport must not read it any more. */
static void ends_with_a_frame_out(bool is_cancelled)
{
    struct suite_world *world;
    struct kolo_link *link = open_link(&world, "64KiB");
    struct kolo_desc desc = {{0}};
    struct kolo_frame frame;
    struct kolo_work works[2];
    static uint8_t memory[8192];
    struct kolo_transport plain;
    const struct kolo_transport *real = drive_frames(link, &plain);
    plain.withdraw = note_withdrawal;
    withdrawn.count = 0;
    for (int i = 0; i < 2; i++)
        kolo_link_send(link, 1, &desc, memory, sizeof memory, &works[i]);
    cr_assert(kolo_link_next_frame(link, 4096, &frame) && frame.work == &works[0]);
    if (is_cancelled)
        for (int i = 1; i >= 0; i--)
            kolo_work_cancel(&works[i]);
    else
        kolo_channel_fail_sends(kolo_map_get(&link->channels, 1), KOLO_ERR_ABORTED);
    cr_assert(withdrawn.count == 1 && withdrawn.last == &works[0], "%d", withdrawn.count);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(works[i].status, KOLO_ERR_ABORTED);
    link->transport = real;
    suite_close(world);
}

Test(link, what_ends_with_a_frame_out_is_withdrawn, .timeout = 60)
{
    ends_with_a_frame_out(false);
    ends_with_a_frame_out(true);
}

/* Each allocation fails once: the result is a status, never a crash, and nothing leaks (sanitizers
 * check that). */
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
