// SPDX-License-Identifier: Apache-2.0
// Long messages over several rails between devices in memory: whole, and in order with short ones,
// in whatever order the rails deliver them; each rail gets a share according to its speed; and no
// message completes before all of it has arrived.
#include "tests/support/transport_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/support/fake_fixture.h"
#include "tests/support/rdma_messages.h"
#include "tests/support/rdma_rails.h"
#include "transport/rdma.h"

TestSuite(rdma_stripe, .init = begin, .fini = end, .timeout = 120);

enum { ROUNDS = 4 };

static void run(const char *rails, void (*function)(struct suite_rank *rank))
{
    struct suite_world *world = suite_open("rdma", 2, "RDMA_RAILS", rails);
    rails_expected = atoi(rails);
    suite_run(world, function);
    suite_close(world);
}

static void (*before)(void);

static void to_and_fro(struct suite_rank *rank)
{
    struct rdma_link *link = rails_up(rank, rails_expected);
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 0 && before)
        before();
    SUITE_CHECK(rank, suite_meet(rank, 2), "rank %d", rank->rank);
    for (unsigned round = 0; round < ROUNDS; round++)
        SUITE_CHECK(rank, exchange_long(rank, &link->tcp.base, round), "round %u: %s", round,
                    rank->heard[1 - rank->rank].text);
}

/** The clock decides which rail takes a piece. So the expected shares are required only in one of
 * several worlds, one in which this machine did nothing else meanwhile
 * (tests/transport/test_rdma_pace.c simulates the clock). */
enum { WORLDS_MAX = 40 };

/** Runs one more world, and counts the bytes that each device wrote. */
static void run_and_count(const char *rails, int devices, size_t *written)
{
    size_t all = 0;
    for (int i = 0; i < devices; i++)
        written[i] = fake_verbs_written_by(fake_verbs_device(i));
    run(rails, to_and_fro);
    for (int i = 0; i < devices; i++) {
        written[i] = fake_verbs_written_by(fake_verbs_device(i)) - written[i];
        all += written[i];
    }
    cr_assert(all == (size_t)2 * ROUNDS * LONG_BYTES, "%zu", all);
}

Test(rdma_stripe, long_messages_come_whole_by_all_rails)
{
    size_t written[3], least = 0;
    fake_verbs_device_count(3);
    before = NULL;
    for (int world = 0; world < WORLDS_MAX && least <= (size_t)ROUNDS * LONG_BYTES / 10; world++) {
        run_and_count("3", 3, written);
        least = written[0] < written[1] ? written[0] : written[1];
        least = written[2] < least ? written[2] : least;
    }
    cr_assert(least > (size_t)ROUNDS * LONG_BYTES / 10, "%zu, %zu, %zu", written[0], written[1],
              written[2]);
    cr_assert(logged[0] == '\0', "%s", logged);
}

static void slow_down_the_second(void)
{
    fake_verbs_slow(fake_verbs_device(1), 40);
}
static void slow_down_the_first(void)
{
    fake_verbs_slow(fake_verbs_device(0), 40);
}

Test(rdma_stripe, a_slow_rail_gets_less)
{
    size_t written[2] = {0, 1};
    before = slow_down_the_second;
    for (int world = 0; world < WORLDS_MAX && written[1] >= written[0] / 2; world++)
        run_and_count("2", 2, written);
    cr_assert(written[1] < written[0] / 2, "%zu of %zu", written[1], written[0]);
}

/** The mark of the first rail comes last, or that of the other. */
Test(rdma_stripe, messages_come_whole_whichever_rail_is_late)
{
    before = slow_down_the_first;
    run("2", to_and_fro);
    fake_verbs_slow(fake_verbs_device(0), 0);
    before = slow_down_the_second;
    run("2", to_and_fro);
}
