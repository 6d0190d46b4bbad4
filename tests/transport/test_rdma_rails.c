// SPDX-License-Identifier: Apache-2.0
// Rails over devices in memory: how ports are paired, how rails come up or fail to, and that a link
// continues with whole messages when one ends, whatever it was doing. test_rdma_stripe.c tests how
// messages are spread over rails.
#include "tests/support/transport_suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tests/support/fake_fixture.h"
#include "tests/support/rdma_messages.h"
#include "tests/support/rdma_rails.h"
#include "transport/rdma.h"

TestSuite(rdma_rails, .init = begin, .fini = end, .timeout = 600);

/* ---- pairs of ports ---- */

static struct kolo_rdma_gids port_at(uint8_t network, uint8_t host)
{
    return (struct kolo_rdma_gids){
        .all = {{.kind = KOLO_RDMA_ROCE_V2,
                 .bytes = {[10] = 0xff, [11] = 0xff, [12] = 10, [14] = network, [15] = host}}},
        .count = 1};
}

static int choose(int ours, int theirs, int wanted, struct rdma_rail_pair *pairs)
{
    const struct kolo_rdma_gids all[] = {port_at(0, 1), port_at(1, 1), port_at(2, 1)};
    const struct kolo_rdma_gids others[] = {port_at(0, 2), port_at(2, 2), port_at(1, 2)};
    return kolo_rdma_rails_choose(all, ours, others, theirs, wanted, pairs);
}

Test(rdma_rails, ports_of_one_network_are_paired)
{
    struct rdma_rail_pair pairs[KOLO_RDMA_RAILS_MAX];
    cr_assert(choose(3, 3, 0, pairs) == 3);
    cr_assert(pairs[0].ours == 0 && pairs[0].theirs == 0);
    cr_assert(pairs[1].ours == 1 && pairs[1].theirs == 2);
    cr_assert(pairs[2].ours == 2 && pairs[2].theirs == 1);
}

Test(rdma_rails, each_port_is_used_once_and_more_are_begun_anew)
{
    struct rdma_rail_pair pairs[KOLO_RDMA_RAILS_MAX];
    cr_assert(choose(3, 2, 0, pairs) == 2, "one side has fewer ports");
    cr_assert(choose(2, 3, 0, pairs) == 2 && choose(1, 3, 0, pairs) == 1);
    cr_assert(choose(3, 3, 2, pairs) == 2, "no more than are wanted");
    cr_assert(choose(2, 2, 4, pairs) == 4 && pairs[2].ours == 0 && pairs[3].ours == 1);
    cr_assert(choose(1, 1, 8, pairs) == 8 && pairs[7].ours == 0 && pairs[7].theirs == 0);
}

Test(rdma_rails, ports_that_do_not_reach_each_other_make_none)
{
    struct rdma_rail_pair pairs[KOLO_RDMA_RAILS_MAX];
    struct kolo_rdma_gids ours[] = {port_at(0, 1), port_at(1, 1)};
    struct kolo_rdma_gids theirs[] = {port_at(0, 2), port_at(1, 2)};
    theirs[1].all[0].kind = KOLO_RDMA_ROCE_V1;
    cr_assert(kolo_rdma_rails_choose(ours, 2, theirs, 2, 0, pairs) == 1);
}

/* ---- coming up ---- */

static char described[2][256];

static void look_at_it(struct suite_rank *rank)
{
    struct rdma_link *link = rails_up(rank, rails_expected);
    SUITE_CHECK(rank, link != NULL, "no link");
    kolo_link_describe(&link->tcp.base, described[rank->rank], sizeof described[0]);
    SUITE_CHECK(rank, exchange_long(rank, &link->tcp.base, 1), "the messages");
}

static void run(const char *rails, int expected, void (*function)(struct suite_rank *rank))
{
    struct suite_world *world = suite_open("rdma", 2, "RDMA_RAILS", rails);
    rails_expected = expected;
    suite_run(world, function);
    suite_close(world);
}

Test(rdma_rails, one_for_each_port)
{
    run("0", 2, look_at_it);
    for (int i = 0; i < 2; i++)
        cr_assert(strstr(described[i], "rdma fake0 port 1 to RoCE v2 10.0.0.1, fake1 port 1 to "
                                       "RoCE v2 10.0.0.2 up"),
                  "%s", described[i]);
    cr_assert(logged[0] == '\0', "%s", logged);
}

Test(rdma_rails, one_port_makes_one_unless_more_are_asked_for)
{
    fake_verbs_device_count(1);
    run("0", 1, look_at_it);
    run("3", 3, look_at_it);
    run("1", 1, look_at_it);
    cr_assert(logged[0] == '\0', "%s", logged);
}

Test(rdma_rails, so_many_at_most)
{
    fake_verbs_device_count(4);
    run("2", 2, look_at_it);
    run("0", 4, look_at_it);
    run("8", 8, look_at_it);
}

/** The addresses of its port are at other positions in the table than they were at the start. */
Test(rdma_rails, one_whose_address_moved_since_the_start_comes_up)
{
    struct suite_world *world = suite_open("rdma", 2, "RDMA_RAILS", "2");
    fake_verbs_turn_gids(&fake_verbs_device(1)->ports[0]);
    rails_expected = 2;
    suite_run(world, look_at_it);
    suite_close(world);
    cr_assert(logged[0] == '\0', "%s", logged);
}

/** Whatever fails while the second rail comes up, the link continues with one. */
Test(rdma_rails, one_that_cannot_be_had_is_done_without)
{
    static const struct {
        const char *function;
        int nth;
    } faults[] = {{"reg_mr", 3},    {"reg_mr", 4},     {"modify_qp", 7},  {"modify_qp", 8},
                  {"modify_qp", 9}, {"modify_qp", 12}, {"post_recv", 90}, {"post_recv", 120}};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        fake_verbs_fail(faults[i].function, faults[i].nth, EIO);
        run("2", 1, look_at_it);
        cr_assert(fake_verbs_living() == 0, "%s %d", faults[i].function, faults[i].nth);
    }
}

Test(rdma_rails, one_that_nothing_gets_through_is_told_once_and_done_without)
{
    fake_verbs_unplug(fake_verbs_device(1), true);
    run("2", 1, look_at_it);
    const char *told = strstr(logged, "rail 2 of this link is over, it goes on by the others");
    cr_assert(told && strstr(logged, "rdma fake1 port 1: a message of 4096 bytes: no answer"), "%s",
              logged);
}

/* ---- the end of one ---- */

static int nth;
static void (*fault)(void);

/** Sends pieces to every rail again, whatever rates a rank that had to wait has estimated. */
static void forget_paces(struct rdma_link *link)
{
    for (int i = 0; i < KOLO_RDMA_RAILS_MAX; i++)
        link->rails.paces[i].bytes = link->rails.paces[i].ns = 0;
}

static void lose_one_meanwhile(struct suite_rank *rank)
{
    struct rdma_link *link = rails_up(rank, 2);
    SUITE_CHECK(rank, link != NULL, "no link");
    for (unsigned round = 0; round < 8; round++) {
        if (round == 2 && rank->rank == 0)
            fault();
        forget_paces(link);
        SUITE_CHECK(rank, exchange_long(rank, &link->tcp.base, round), "round %u: %s", round,
                    logged);
    }
    SUITE_CHECK(rank, suite_until(rank, has_rails_left, link), "rail 2 goes on");
}

static void expect_going_on(void (*what)(void), const char *text)
{
    logged[0] = '\0';
    fault = what;
    run("2", 2, lose_one_meanwhile);
    cr_assert(strstr(logged, text) && strstr(logged, "goes on by the others"),
              "%d: '%s' not in: %s", nth, text, logged);
    cr_assert(fake_verbs_living() == 0);
    fake_verbs_install();
}

static void unplug(void)
{
    fake_verbs_unplug(fake_verbs_device(1), true);
}
static void unplug_when_slow(void)
{
    fake_verbs_slow(fake_verbs_device(1), 50);
    fake_verbs_unplug(fake_verbs_device(1), true);
}
static void pull_out(void)
{
    fake_verbs_remove(fake_verbs_device(1));
}
static void break_down(void)
{
    fake_verbs_tell(fake_verbs_device(1), IBV_EVENT_DEVICE_FATAL, 0);
}

Test(rdma_rails, a_link_goes_on_when_one_ends)
{
    expect_going_on(unplug, "by rdma fake1 port 1: a piece of 262144 bytes: no answer");
    expect_going_on(unplug_when_slow, "by rdma fake1 port 1: a piece of 262144 bytes: no answer");
    expect_going_on(pull_out, "fake1");
    expect_going_on(break_down, "rdma fake1 port 1: the device was removed or broke down");
}

static void lose_a_piece(void)
{
    fake_verbs_fail_on(fake_verbs_device(1), nth, IBV_WC_RETRY_EXC_ERR, false);
}
static void lose_an_answer(void)
{
    fake_verbs_fail_on(fake_verbs_device(1), nth, IBV_WC_RETRY_EXC_ERR, true);
}
static void refuse(void)
{
    fake_verbs_fail_on(fake_verbs_device(1), nth, IBV_WC_REM_OP_ERR, false);
}

static void refuse_a_receive(void)
{
    fake_verbs_refuse_receive(fake_verbs_device(1), nth);
}

/** Messages that had arrived are still delivered: their sender knows that they are there, and will
 * not write them again. */
Test(rdma_rails, it_goes_on_when_a_receive_is_refused)
{
    for (nth = 1; nth < 6; nth++)
        expect_going_on(refuse_a_receive, "a receive of 4096 bytes: the device does not take it");
}

/** One breaks at each piece, and at the mark of a row, both after it had arrived and before. */
Test(rdma_rails, it_goes_on_wherever_one_breaks)
{
    for (nth = 1; nth < 14; nth++) {
        expect_going_on(lose_a_piece, "no answer");
        expect_going_on(lose_an_answer, "no answer");
        /* either side may be the first to log it */
        expect_going_on(refuse, "goes on by the others");
    }
}

/* ---- a device that cannot destroy its queue pair ---- */

static int stubborn; /* the ranks whose device is stubborn */

/** A rail breaks while a receive is offered, and the device of one side fails to destroy its queue
 * pair. */
static void break_one_that_is_not_destroyed(struct suite_rank *rank)
{
    struct rdma_link *link = rails_up(rank, 2);
    struct kolo_desc desc = {{9}};
    struct kolo_work works[3];
    struct offered offered;
    uint8_t *memory = allocate(rank, 2 * (size_t)LONG_BYTES);
    SUITE_CHECK(rank, link && memory && prepare_offer(rank, LONG_BYTES, &offered), "no link");
    forget_paces(link);
    kolo_link_recv(&link->tcp.base, 5, &desc, offered.memory, LONG_BYTES, NULL, &works[0]);
    kolo_link_recv(&link->tcp.base, 1, &desc, memory, LONG_BYTES, NULL, &works[1]);
    SUITE_CHECK(rank, exchange_bytes(rank, &link->tcp.base, 2) && suite_meet(rank, 2), "offers");
    if (rank->rank == 0) {
        fake_verbs_fail_on(fake_verbs_device(1), 1, IBV_WC_RETRY_EXC_ERR, false);
        fake_verbs_fail("destroy_qp", 1, EBUSY);
    }
    SUITE_CHECK(rank, suite_meet(rank, 3), "rank %d", rank->rank);
    kolo_link_send(&link->tcp.base, 1, &desc, memory + LONG_BYTES, LONG_BYTES, &works[2]);
    SUITE_CHECK(rank, suite_until(rank, is_link_down, NULL), "the link goes on");
    SUITE_CHECK(rank, works[0].status == rank->heard[1 - rank->rank].why, "%s",
                kolo_status_name(works[0].status));
    if (strstr(rank->heard[1 - rank->rank].text,
               "fake1 port 1: rail 2 is over, but its device does not destroy its queue pair")) {
        __atomic_fetch_add(&stubborn, 1, __ATOMIC_RELAXED);
        SUITE_CHECK(rank, is_cut_off(&offered), "the program sees what is written late");
    }
}

Test(rdma_rails, a_link_ends_with_a_rail_that_its_device_does_not_let_go_of)
{
    run("2", 2, break_one_that_is_not_destroyed);
    cr_assert(stubborn == 1 && strstr(logged, "a queue pair cannot be destroyed"), "%s", logged);
}

/* ---- messages that no honest peer sends ---- */

static void say_nonsense(struct suite_rank *rank)
{
    static const uint8_t words[][3] = {{1, 3, 0}, {1, 4, 0}, {9, 5, 0}, {0, 1, 0},
                                       {7, 5, 0}, {1, 9, 0}, {1, 2, 0}};
    struct rdma_link *link = rails_up(rank, 2);
    struct kolo_desc desc = {{KOLO_RDMA_RAIL_FRAME, words[nth][0], words[nth][1], words[nth][2]}};
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 1)
        SUITE_CHECK(rank,
                    kolo_link_send_control(&link->tcp.base, &desc, NULL, 0) == KOLO_OK &&
                        kolo_link_push(&link->tcp.base),
                    "it cannot be sent");
    SUITE_CHECK(rank, suite_until(rank, is_link_down, NULL), "nobody noticed %d", nth);
    if (rank->rank == 0)
        SUITE_CHECK(rank, rank->heard[1].why == KOLO_ERR_PROTOCOL, "%d: %s", nth,
                    rank->heard[1].text);
}

Test(rdma_rails, words_that_nobody_can_mean_end_the_link)
{
    for (nth = 0; nth < 7; nth++)
        run("2", 2, say_nonsense);
}
