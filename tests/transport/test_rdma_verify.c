// SPDX-License-Identifier: Apache-2.0
// The checksum of a long message that was written directly is verified in pieces, over devices in
// memory: other messages move in between, a receive may be given up meanwhile, and what arrived
// before the peer left, or was lost, still ends well.
#include "tests/support/transport_suite.h"

#include <sched.h>
#include <stdatomic.h>

#include "tests/support/fake_fixture.h"
#include "tests/support/rdma_messages.h"
#include "transport/rdma.h"

enum { LONG = 24 << 20, PIECE = 256 << 10, HERE = 1, BESIDE = 3 };

static void begin_with_checksums(void)
{
    begin();
    suite_checksum = "1";
}
TestSuite(rdma_verify, .init = begin_with_checksums, .fini = end, .timeout = 120);

/** What rank 0 does when its messages have arrived, before rank 1 looks. */
static enum { STAYS, LEAVES, IS_LOST } then;
static atomic_bool is_there;

static bool is_drained(struct suite_rank *rank, void *context)
{
    (void)rank;
    return kolo_rdma_is_drained(context);
}

/** Sends a long message, and a short one on another channel. */
static void send_both(struct suite_rank *rank, struct kolo_link *link, const uint8_t *memory,
                      const struct kolo_desc *desc)
{
    struct kolo_work works[2];
    kolo_link_send(link, HERE, desc, memory, LONG, &works[0]);
    kolo_link_send(link, BESIDE, desc, "s", 1, &works[1]);
    SUITE_CHECK(rank, suite_settle(rank, works, 2) && suite_until(rank, is_drained, link),
                "not sent");
    if (then == LEAVES) {
        struct kolo_endpoint *endpoint = rank->endpoint;
        rank->endpoint = NULL;
        SUITE_CHECK(rank, kolo_endpoint_close(endpoint, kolo_deadline_in_ms(60000)) == KOLO_OK,
                    "%s", kolo_error_detail());
    } else if (then == IS_LOST)
        suite_crash(rank);
    atomic_store(&is_there, true);
}

static bool is_down(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[0].down > 0;
}

static bool has_left(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[0].left > 0;
}

static bool is_idle(struct suite_rank *rank, void *context)
{
    (void)rank;
    return ((const struct rdma_link *)context)->checks.count == 0;
}

/** Makes progress until the message has ended. The endpoint looks once or twice at each link before
 * it returns. */
static void verify_in_pieces(struct suite_rank *rank, const struct rdma_link *link,
                             const struct kolo_work *work)
{
    int looks = 0;
    for (; work->status == KOLO_AGAIN; looks++) {
        const size_t before = link->checks.summed;
        SUITE_CHECK(rank, link->checks.count == 1, "%u messages", link->checks.count);
        SUITE_CHECK(rank, kolo_endpoint_progress(rank->endpoint, NULL) == KOLO_OK, "progress");
        SUITE_CHECK(rank, link->checks.count == 0 || link->checks.summed <= before + 2 * PIECE,
                    "from byte %zu to byte %zu", before, link->checks.summed);
    }
    SUITE_CHECK(rank, looks >= LONG / PIECE / 2 - 2, "%d looks", looks);
}

static void receive_both(struct suite_rank *rank, struct kolo_link *base, uint8_t *memory,
                         struct kolo_work *works, bool gives_up)
{
    const struct rdma_link *link = (const struct rdma_link *)base;
    const kolo_deadline deadline = kolo_deadline_in_ms(60000);
    while (!atomic_load(&is_there) && !kolo_deadline_passed(deadline))
        sched_yield();
    SUITE_CHECK(rank, suite_settle(rank, &works[1], 1) && works[1].status == KOLO_OK,
                "the short message: %s", rank->heard[0].text);
    if (then == STAYS)
        SUITE_CHECK(rank, works[0].status == KOLO_AGAIN && link->checks.count == 1,
                    "the long message is there before the short one");
    if (gives_up) {
        kolo_work_cancel(&works[0]);
        memset(memory, 1, LONG);
        return;
    }
    if (then == STAYS)
        verify_in_pieces(rank, link, &works[0]);
    SUITE_CHECK(rank, suite_settle(rank, works, 1) && works[0].status == KOLO_OK, "%s: %s",
                kolo_status_name(works[0].status), rank->heard[0].text);
    SUITE_CHECK(rank, first_wrong(memory, LONG, 5) == LONG, "byte %zu",
                first_wrong(memory, LONG, 5));
    if (then == LEAVES)
        SUITE_CHECK(rank, suite_until(rank, has_left, NULL) && rank->heard[0].down == 0, "%s",
                    rank->heard[0].text);
    if (then == IS_LOST)
        SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "nobody noticed");
}

static bool gives_up;

static void long_and_short(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *memory = allocate(rank, LONG), in = 0;
    struct kolo_work works[2];
    SUITE_CHECK(rank, link && memory, "no link");
    fill(memory, LONG, rank->rank == 0 ? 5 : 6);
    if (rank->rank == 1) {
        kolo_link_recv(link, HERE, &desc, memory, LONG, NULL, &works[0]);
        kolo_link_recv(link, BESIDE, &desc, &in, 1, NULL, &works[1]);
    }
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2) && suite_meet(rank, 1), "offers");
    if (rank->rank == 0)
        send_both(rank, link, memory, &desc);
    else
        receive_both(rank, link, memory, works, gives_up);
    if (then != STAYS)
        return;
    SUITE_CHECK(rank, suite_until(rank, is_idle, link), "something is left");
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the link does not go on: %s",
                rank->heard[1 - rank->rank].text);
    SUITE_CHECK(rank, suite_meet(rank, 3), "end");
}

static void run(void)
{
    const size_t written = fake_verbs_written();
    atomic_store(&is_there, false);
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, long_and_short);
    suite_close(world);
    cr_assert(fake_verbs_written() >= written + LONG, "it was not written directly");
}

Test(rdma_verify, other_messages_move_between_the_pieces)
{
    run();
}

Test(rdma_verify, a_receive_is_given_up_meanwhile)
{
    gives_up = true;
    run();
}

Test(rdma_verify, the_peer_leaves_meanwhile)
{
    then = LEAVES;
    run();
}

Test(rdma_verify, the_peer_is_lost_meanwhile)
{
    then = IS_LOST;
    run();
}
