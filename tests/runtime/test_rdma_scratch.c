// SPDX-License-Identifier: Apache-2.0
// runtime/comm.c: the memory that scratch is made of. Each rank is alone on its host, over devices
// in memory: the device reads what a plan sends from its scratch in place, as it reads memory of
// kolo_alloc.
#include <stdatomic.h>
#include <unistd.h>

#include "tests/support/fake_fixture.h"
#include "tests/support/world.h"

enum { RANKS = 3, COUNT = 1 << 17, BYTES = COUNT * sizeof(float) };

TestSuite(rdma_scratch, .init = begin, .fini = end, .timeout = 100);

/* Not static: the system's headers may make gethostname an inline function. */
bool is_alone;
atomic_int hosts;

/** Replaces the system's function. Each rank calls it once, and is then on a host of its own, or on
 * the same host as all others. */
int gethostname(char *name, size_t bytes)
{
    snprintf(name, bytes, "host%d", is_alone ? atomic_fetch_add(&hosts, 1) : 0);
    return 0;
}

static kolo_status sum_blocks(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    float *send = NULL, *recv = NULL;
    struct kolo_info info = {.size = sizeof info};
    (void)argument;
    WORLD_TRY(kolo_get_info(comm, &info));
    WORLD_EXPECT(info.local_nranks == (is_alone ? 1 : size), "%d ranks on %s", info.local_nranks,
                 info.host);
    WORLD_TRY(kolo_alloc(comm, (size_t)size * BYTES, (void **)&send));
    WORLD_TRY(kolo_alloc(comm, BYTES, (void **)&recv));
    for (int i = 0; i < size * COUNT; i++)
        send[i] = (float)(i % 1000 + rank);
    for (int round = 0; round < 3; round++) {
        memset(recv, 0, BYTES);
        WORLD_TRY(kolo_reduce_scatter(comm, send, recv, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
        for (int i = 0; i < COUNT; i++) {
            const float expected = (float)(size * ((rank * COUNT + i) % 1000) + 0 + 1 + 2);
            WORLD_EXPECT(recv[i] == expected, "round %d, %d: %f instead of %f", round, i,
                         (double)recv[i], (double)expected);
        }
    }
    return KOLO_OK;
}

/** A ring sends all of its partial sums but the first from scratch. */
static void run(void)
{
    struct world world = {.size = RANKS, .transport = "rdma", .settings = {"KOLO_PLAN=ring"}};
    WORLD_MUST_RUN(&world, sum_blocks, NULL);
    const size_t sent = (size_t)3 * RANKS * (RANKS - 1) * BYTES;
    cr_assert(fake_verbs_lent() == sent, "%zu of %zu bytes were sent from where they lay",
              fake_verbs_lent(), sent);
}

Test(rdma_scratch, is_sent_from_where_it_lies_between_hosts)
{
    is_alone = true;
    run();
}

Test(rdma_scratch, is_sent_from_where_it_lies_inside_a_host)
{
    run();
}
