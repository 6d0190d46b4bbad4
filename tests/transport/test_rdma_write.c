// SPDX-License-Identifier: Apache-2.0
// Messages that are written directly, without a copy, between two ranks over devices in memory:
// which messages are written, that they arrive whole and in order with the others, what happens to
// abandoned ones, and every way in which a write can fail.
#include "tests/support/transport_suite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/support/fake_fixture.h"
#include "tests/support/rdma_messages.h"
#include "transport/rdma.h"

enum { MIB = 1 << 20, BYTES = 3 * MIB + 1000, ROUNDS = 20 };

TestSuite(rdma_write, .init = begin, .fini = end, .timeout = 100);

/* ---- what is written ---- */

static size_t unit = BYTES;

/** Long messages in both directions, between short ones on the same channel. */
static void to_and_fro(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *out = allocate(rank, unit), *in = allocate(rank, unit), bytes[2];
    struct kolo_work works[6];
    SUITE_CHECK(rank, link && out && in, "no link");
    for (unsigned i = 0; i < ROUNDS; i++) {
        const uint8_t number = (uint8_t)i;
        fill(out, unit, i + (unsigned)rank->rank);
        kolo_link_recv(link, 1, &desc, &bytes[0], 1, NULL, &works[0]);
        kolo_link_recv(link, 1, &desc, in, unit, NULL, &works[1]);
        kolo_link_recv(link, 1, &desc, &bytes[1], 1, NULL, &works[2]);
        SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "round %u", i);
        kolo_link_send(link, 1, &desc, &number, 1, &works[3]);
        kolo_link_send(link, 1, &desc, out, unit, &works[4]);
        kolo_link_send(link, 1, &desc, &number, 1, &works[5]);
        SUITE_CHECK(rank, suite_settle(rank, works, 6), "round %u", i);
        for (int j = 0; j < 6; j++)
            SUITE_CHECK(rank, works[j].status == KOLO_OK, "%s: %s",
                        kolo_status_name(works[j].status), rank->heard[1 - rank->rank].text);
        SUITE_CHECK(rank, bytes[0] == number && bytes[1] == number, "round %u", i);
        size_t wrong = first_wrong(in, unit, i + 1 - (unsigned)rank->rank);
        SUITE_CHECK(rank, wrong == unit, "round %u, byte %zu", i, wrong);
    }
}

static void run(void (*function)(struct suite_rank *rank))
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, function);
    suite_close(world);
}

Test(rdma_write, long_messages_come_whole_and_in_order_and_nobody_copies_them)
{
    run(to_and_fro);
    cr_assert(fake_verbs_written() == (size_t)2 * ROUNDS * BYTES, "%zu written",
              fake_verbs_written());
    cr_assert(fake_verbs_registered() == 2 + 4, "eager buffers and spans, once each: %d",
              fake_verbs_registered());
}

Test(rdma_write, short_ones_go_through_eager_buffers)
{
    unit = 60000;
    run(to_and_fro);
    cr_assert(fake_verbs_written() == 0, "%zu written", fake_verbs_written());
}

Test(rdma_write, where_memory_cannot_be_registered_they_are_copied_with_a_warning)
{
    fake_verbs_fail("reg_mr", 3, ENOMEM); /* of the first span */
    run(to_and_fro);
    cr_assert(fake_verbs_written() < (size_t)2 * ROUNDS * BYTES, "%zu written",
              fake_verbs_written());
    cr_assert(strstr(logged, "long messages are copied, not written in place: "), "%s", logged);
}

/** What is not written directly: memory of the program, receives that reduce, and a message that is
 * sent before its receive is posted. */
static void none_of_these(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *out = allocate(rank, BYTES), *in = allocate(rank, BYTES), *own = calloc(1, BYTES);
    const struct kolo_action sum = {
        .kind = KOLO_REDUCE, .dtype = KOLO_UINT8, .op = KOLO_SUM, .local = in};
    struct kolo_work works[6];
    SUITE_CHECK(rank, link && out && in && own, "no link");
    fill(out, BYTES, 0);
    kolo_link_recv(link, 1, &desc, own, BYTES, NULL, &works[0]);
    kolo_link_recv(link, 3, &desc, in, BYTES, &sum, &works[1]);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "offers");
    kolo_link_send(link, 1, &desc, out, BYTES, &works[2]);
    kolo_link_send(link, 3, &desc, out, BYTES, &works[3]);
    kolo_link_send(link, 4, &desc, out, BYTES, &works[4]);
    SUITE_CHECK(rank, suite_settle(rank, works, 4), "stuck");
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the first frames");
    SUITE_CHECK(rank, first_wrong(own, BYTES, 0) == BYTES && first_wrong(in, BYTES, 0) == BYTES,
                "content");
    kolo_link_recv(link, 4, &desc, own, BYTES, NULL, &works[5]);
    SUITE_CHECK(rank, suite_settle(rank, works, 6), "stuck");
    free(own);
}

Test(rdma_write, what_cannot_be_written_in_place_goes_through_eager_buffers)
{
    run(none_of_these);
    cr_assert(fake_verbs_written() == 0, "%zu written", fake_verbs_written());
    cr_assert(fake_verbs_registered() == 2 + 2,
              "eager buffers, and what is sent from where it lies: %d", fake_verbs_registered());
}

/* ---- what is cancelled ---- */

/** Rank 1 has offered *memory_out to its peer for a message whose receive is @p work. Rank 0 has
 * the offer, and memory of the same kind. NULL: it failed. */
static struct kolo_link *offer(struct suite_rank *rank, struct kolo_desc *desc,
                               uint8_t **memory_out, struct kolo_work *work)
{
    struct kolo_link *link = come_up(rank, desc);
    *memory_out = allocate(rank, BYTES);
    if (!link || !*memory_out)
        return NULL;
    if (rank->rank == 1)
        kolo_link_recv(link, 1, desc, *memory_out, BYTES, NULL, work);
    return exchange_bytes(rank, link, 2) ? link : NULL;
}

/** Rank 1's link ends while a receive is offered, and its device fails to deregister the memory. */
static void end_with_a_stubborn_device(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_work work;
    struct offered offered;
    struct kolo_link *link = come_up(rank, &desc);
    SUITE_CHECK(rank, link && prepare_offer(rank, BYTES, &offered), "no link");
    if (rank->rank == 1)
        kolo_link_recv(link, 1, &desc, offered.memory, BYTES, NULL, &work);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "offers");
    if (rank->rank == 1) {
        fake_verbs_fail("destroy_qp", 1, EBUSY);
        kolo_link_set_down(link, kolo_fail(KOLO_ERR_ABORTED, "the test ends it"));
        SUITE_CHECK(rank, suite_settle(rank, &work, 1) && work.status != KOLO_OK, "%s",
                    kolo_status_name(work.status));
        SUITE_CHECK(rank, is_cut_off(&offered), "the program sees what is written late");
    }
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
}

Test(rdma_write, what_a_device_does_not_let_go_of_is_not_the_programs_memory_any_more)
{
    run(end_with_a_stubborn_device);
    cr_assert(strstr(logged, "a queue pair cannot be destroyed"), "%s", logged);
    cr_assert(!strstr(logged, "may still be written"), "%s", logged);
}

/** Rank 1 cancels a receive that rank 0 knows of and writes into. */
static void give_up_a_receive(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_work work;
    uint8_t *memory = NULL;
    struct kolo_link *link = offer(rank, &desc, &memory, &work);
    SUITE_CHECK(rank, link != NULL, "no link, or no offer");
    if (rank->rank == 1) {
        SUITE_CHECK(rank, work.is_lent, "it was not offered");
        kolo_work_cancel(&work);
        SUITE_CHECK(rank, work.status == KOLO_ERR_ABORTED && !work.is_lent, "%s",
                    kolo_status_name(work.status));
    }
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    if (rank->rank == 0) {
        memset(memory, 1, BYTES);
        kolo_link_send(link, 1, &desc, memory, BYTES, &work);
        SUITE_CHECK(rank, suite_settle(rank, &work, 1) && work.status == KOLO_OK, "%s",
                    kolo_status_name(work.status));
    }
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the link does not go on");
    for (size_t i = 0; rank->rank == 1 && i < BYTES; i++)
        SUITE_CHECK(rank, memory[i] == 0, "byte %zu was written after the cancel", i);
    SUITE_CHECK(rank, kolo_heap_free(rank->heap, memory, NULL, NULL) == KOLO_OK, "free");
}

Test(rdma_write, a_receive_that_is_given_up_is_written_by_nobody)
{
    run(give_up_a_receive);
    cr_assert(fake_verbs_written() == BYTES, "%zu written, elsewhere", fake_verbs_written());
}

/** Rank 1 cancels a receive between two others that go on; the edges of all three lie within
 * pages. */
static void give_up_a_neighbour(struct suite_rank *rank)
{
    enum { PART = 100000 };
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *memory = allocate(rank, 3 * PART);
    struct kolo_work works[3];
    SUITE_CHECK(rank, link && memory, "no link");
    for (unsigned i = 0; i < 3; i++)
        if (rank->rank == 1)
            kolo_link_recv(link, 10 + i, &desc, memory + i * PART, PART, NULL, &works[i]);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the offers");
    if (rank->rank == 1)
        kolo_work_cancel(&works[1]);
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    for (unsigned i = 0; rank->rank == 0 && i < 3; i++) {
        fill(memory + i * PART, PART, i);
        kolo_link_send(link, 10 + i, &desc, memory + i * PART, PART, &works[i]);
    }
    SUITE_CHECK(rank, suite_settle(rank, works, 3), "stuck");
    for (unsigned i = 0; rank->rank == 1 && i < 3; i += 2) {
        size_t wrong = first_wrong(memory + i * PART, PART, i);
        SUITE_CHECK(rank, works[i].status == KOLO_OK && wrong == PART, "%u: byte %zu", i, wrong);
    }
    for (size_t i = PART; rank->rank == 1 && i < 2 * PART; i++)
        SUITE_CHECK(rank, memory[i] == 0, "byte %zu was written after the cancel", i);
}

Test(rdma_write, receives_beside_one_that_is_given_up_come_whole)
{
    run(give_up_a_neighbour);
    cr_assert(fake_verbs_written() == 300000, "%zu written", fake_verbs_written());
}

/** Rank 0 cancels a send while the device reads it. */
static void give_up_a_send(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_work work;
    uint8_t *memory = NULL;
    struct kolo_link *link = offer(rank, &desc, &memory, &work);
    SUITE_CHECK(rank, link != NULL, "no link, or no offer");
    if (rank->rank == 0)
        fill(memory, BYTES, 5);
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    if (rank->rank == 0) {
        fake_verbs_delay(2, 1000); /* the first piece is sent, the second one waits */
        kolo_link_send(link, 1, &desc, memory, BYTES, &work);
        SUITE_CHECK(rank, work.status == KOLO_AGAIN, "it is over");
        kolo_work_cancel(&work);
        memset(memory, 0, BYTES);
        SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the link does not go on");
        return;
    }
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the link does not go on");
    SUITE_CHECK(rank, suite_settle(rank, &work, 1) && work.status == KOLO_OK, "%s",
                kolo_status_name(work.status));
    SUITE_CHECK(rank, first_wrong(memory, BYTES, 5) == BYTES, "byte %zu is of what came later",
                first_wrong(memory, BYTES, 5));
}

Test(rdma_write, a_send_that_is_given_up_is_read_by_nobody)
{
    run(give_up_a_send);
}

/** The same for a message that goes through the peer's eager buffers: the part that was on its way
 * arrives unchanged. */
static void give_up_frames(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *memory = rank->rank == 0 ? allocate(rank, BYTES) : calloc(1, BYTES);
    struct kolo_work work;
    SUITE_CHECK(rank, link && memory, "no link");
    if (rank->rank == 0) {
        fill(memory, BYTES, 5);
        fake_verbs_delay(2, 1000); /* the first frame is sent, the second one waits */
        kolo_link_send(link, 1, &desc, memory, BYTES, &work);
        SUITE_CHECK(rank, work.status == KOLO_AGAIN && work.bytes_done < work.bytes_taken, "%zu",
                    work.bytes_done);
        kolo_work_cancel(&work);
        memset(memory, 0, BYTES);
        SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the link does not go on");
        return;
    }
    kolo_link_recv(link, 1, &desc, memory, BYTES, NULL, &work);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the link does not go on");
    SUITE_CHECK(rank, work.bytes_done > MIB / 2, "only %zu bytes", work.bytes_done);
    size_t right = first_wrong(memory, work.bytes_done, 5);
    SUITE_CHECK(rank, right == work.bytes_done, "byte %zu is of what came later", right);
    kolo_work_cancel(&work);
    free(memory);
}

Test(rdma_write, frames_that_are_given_up_are_read_by_nobody)
{
    run(give_up_frames);
}

/* number of messages before it, so that another frame is signalled each time */
static int short_before;

/** The last frame of a message cannot be sent from where it lies, as those before it were; the
 * completion of those must still be waited for. */
static void copy_the_last_frame(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    struct kolo_settings *settings = &rank->world->settings;
    const size_t bytes = settings->credit_bytes + 1000; /* so that the last one waits for credit */
    uint8_t *out = allocate(rank, bytes), *other = allocate(rank, bytes), *own = calloc(1, bytes);
    struct kolo_work works[2];
    SUITE_CHECK(rank, link && out && other && own, "no link");
    if (rank->rank == 1)
        kolo_link_recv(link, 1, &desc, own, bytes, NULL, &works[0]);
    for (int i = 0; i < short_before; i++)
        SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "message %d", i);
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    if (rank->rank == 0) {
        fill(out, bytes, 5);
        kolo_link_send(link, 1, &desc, out, bytes, &works[0]);
        SUITE_CHECK(rank, works[0].status == KOLO_AGAIN && !works[0].is_taken, "all is sent");
        fake_verbs_fail("reg_mr", 1, ENOMEM);
        kolo_link_recv(link, 3, &desc, other, bytes, NULL, &works[1]);
    }
    SUITE_CHECK(rank, suite_settle(rank, works, 1) && works[0].status == KOLO_OK, "%d before: %s",
                short_before, kolo_status_name(works[0].status));
    SUITE_CHECK(rank, rank->rank == 0 || first_wrong(own, bytes, 5) == bytes, "content");
    if (rank->rank == 0)
        kolo_work_cancel(&works[1]);
    free(own);
}

Test(rdma_write, a_message_ends_although_its_last_frame_alone_is_copied)
{
    for (short_before = 0; short_before < 9; short_before++)
        run(copy_the_last_frame);
}

/* ---- what fails ---- */

static bool is_down(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].down > 0;
}

static void (*before_the_send)(void);

/** Rank 0's write fails: both sides are told, and no work is left. */
static void fail_a_write(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_work work;
    uint8_t *memory = NULL;
    struct kolo_link *link = offer(rank, &desc, &memory, &work);
    SUITE_CHECK(rank, link != NULL, "no link, or no offer");
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    if (rank->rank == 0) {
        before_the_send();
        kolo_link_send(link, 1, &desc, memory, BYTES, &work);
    }
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "nobody noticed");
    SUITE_CHECK(rank, work.status != KOLO_AGAIN && work.status != KOLO_OK, "%s",
                kolo_status_name(work.status));
}

static void expect_failure(void (*before)(void), const char *text)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    before_the_send = before;
    suite_run(world, fail_a_write);
    const struct suite_heard *heard = &world->ranks[0].heard[1];
    cr_assert(heard->why == KOLO_ERR_LINK && strstr(heard->text, "rank 1 on ") &&
                  strstr(heard->text, text),
              "'%s' is not in: %s", text, heard->text);
    suite_close(world);
}

static void refuse_the_key(void)
{
    fake_verbs_complete_as(2, IBV_WC_REM_ACCESS_ERR);
}
static void break_down(void)
{
    fake_verbs_complete_as(4, IBV_WC_FATAL_ERR);
}

Test(rdma_write, a_write_that_fails_ends_the_link_and_says_why)
{
    expect_failure(refuse_the_key, "a write of 1048576 bytes: the peer's memory is not there");
    expect_failure(break_down, "a write of 1000 bytes: the device broke down");
}

/** While a message is being written, others go on, except those of its channel, which come behind
 * it. */
static void go_on_beside(struct suite_rank *rank)
{
    enum { LONG = 24 * MIB, SHORTS = 40, AHEAD = 5 * MIB };
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *memory = allocate(rank, 2 * (size_t)LONG), bytes[SHORTS + 1];
    struct kolo_work works[SHORTS + 3];
    SUITE_CHECK(rank, link && memory, "no link");
    for (int i = 0; rank->rank == 1 && i < 2; i++)
        kolo_link_recv(link, 1, &desc, memory + (size_t)i * LONG, LONG, NULL, &works[i]);
    for (uint32_t i = 0; rank->rank == 1 && i <= SHORTS; i++)
        kolo_link_recv(link, 1 + i, &desc, &bytes[i], 1, NULL, &works[2 + i]);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 90), "offers");
    if (rank->rank == 0) {
        const struct rdma_link *ours = (const struct rdma_link *)link;
        fill(memory, 2 * (size_t)LONG, 3);
        fake_verbs_delay(1, 3000);
        for (int i = 0; i < 2; i++) {
            kolo_link_send(link, 1, &desc, memory + (size_t)i * LONG, LONG, &works[i]);
            SUITE_CHECK(rank, ours->queue->writes_out <= AHEAD, "%zu", ours->queue->writes_out);
        }
        for (uint32_t i = 0; i <= SHORTS; i++) {
            bytes[i] = (uint8_t)i;
            kolo_link_send(link, 1 + i, &desc, &bytes[i], 1, &works[2 + i]);
        }
        /* As many as find eager buffers complete at once, because they were copied. */
        for (int i = 1; i < 10; i++)
            SUITE_CHECK(rank, works[2 + i].status == KOLO_OK, "%d waits", i);
    }
    SUITE_CHECK(rank, suite_settle(rank, works, SHORTS + 3), "not over");
    for (int i = 0; i <= SHORTS; i++)
        SUITE_CHECK(rank, works[2 + i].status == KOLO_OK && bytes[i] == i, "message %d", i);
    SUITE_CHECK(rank, first_wrong(memory, 2 * (size_t)LONG, 3) == 2 * (size_t)LONG, "long ones");
    SUITE_CHECK(rank, exchange_bytes(rank, link, 90), "the end");
}

Test(rdma_write, beside_a_long_message_others_go_on)
{
    run(go_on_beside);
    cr_assert(fake_verbs_written() == (size_t)48 * MIB, "%zu written", fake_verbs_written());
}

/** Rank 0 announces a written message for which nobody offered memory. */
static void forge_a_mark(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_work work;
    uint8_t *memory = NULL;
    struct kolo_link *link = offer(rank, &desc, &memory, &work);
    SUITE_CHECK(rank, link != NULL, "no link, or no offer");
    if (rank->rank == 0) {
        struct rdma_link *ours = (struct rdma_link *)link;
        for (int i = 0; i < KOLO_RDMA_SLOTS; i++)
            ours->direct.offers[i].generation++;
        kolo_link_send(link, 1, &desc, memory, BYTES, &work);
    }
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "nobody noticed");
}

Test(rdma_write, a_mark_of_nothing_is_broken_protocol)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, forge_a_mark);
    const struct suite_heard *heard = &world->ranks[1].heard[0];
    cr_assert(heard->why == KOLO_ERR_PROTOCOL && strstr(heard->text, "nothing is offered"), "%s",
              heard->text);
    suite_close(world);
}
