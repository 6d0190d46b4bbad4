// SPDX-License-Identifier: Apache-2.0
// runtime/nest.c: which communicators get a nest, what it consists of, and its end.
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/nest.h"
#include "tests/support/hosts.h"
#include "tests/support/world.h"

#define NESTED "KOLO_NESTED_BYTES=1"

static kolo_status run(int size, int hosts, const char *setting,
                       kolo_status (*body)(struct kolo_comm *comm, void *argument), void *argument)
{
    struct world world = {.size = size, .settings = {setting}};
    hosts_pretend(hosts);
    const kolo_status status = world_run(&world, body, argument);
    cr_assert(status == KOLO_OK, "%d ranks on %d hosts, %s: %s", size, hosts, setting,
              world_cause(&world)->text);
    return status;
}

static kolo_status has_none(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    WORLD_EXPECT(!comm->nest, "there is a nest");
    return KOLO_OK;
}

Test(nest, is_only_where_hosts_have_as_many_ranks, .timeout = 60)
{
    run(1, 1, NESTED, has_none, NULL);
    run(4, 1, NESTED, has_none, NULL);
    run(3, 3, NESTED, has_none, NULL);                /* one rank on each */
    run(5, 2, NESTED, has_none, NULL);                /* 3 and 2 */
    run(4, 2, "KOLO_NESTED_BYTES=0", has_none, NULL); /* switched off */
}

/** The numbers of all members of @p inner in the world, summed up with their hosts. */
static kolo_status check_inner(const struct kolo_comm *comm, const struct kolo_comm *inner,
                               int size, bool is_of_one_host)
{
    const uint64_t here = kolo_comm_peer(comm, comm->rank)->identity.host_id;
    WORLD_EXPECT(inner && inner->is_inner && inner->parent == comm && !inner->nest,
                 "not an inner communicator");
    WORLD_EXPECT(inner->size == size, "%d members", inner->size);
    for (int rank = 0; rank < inner->size; rank++) {
        const bool is_here = kolo_comm_peer(inner, rank)->identity.host_id == here;
        WORLD_EXPECT(is_here == (is_of_one_host || rank == inner->rank), "rank %d", rank);
    }
    return KOLO_OK;
}

static kolo_status check_nest(const struct kolo_comm *comm, int hosts)
{
    WORLD_EXPECT(comm->nest, "communicator %u has no nest", comm->number);
    WORLD_EXPECT(comm->nest->host->rank == comm->local_rank, "rank %d in its host",
                 comm->nest->host->rank);
    WORLD_TRY(check_inner(comm, comm->nest->host, comm->size / hosts, true));
    return check_inner(comm, comm->nest->across, hosts, false);
}

static kolo_status is_there(struct kolo_comm *comm, void *argument)
{
    return check_nest(comm, *(const int *)argument);
}

Test(nest, has_the_ranks_of_a_host_and_one_of_each, .timeout = 60)
{
    int hosts = 2;
    run(4, hosts, NESTED, is_there, &hosts);
    run(8, hosts, NESTED, is_there, &hosts);
    hosts = 3;
    run(6, hosts, NESTED, is_there, &hosts);
}

/** How many communicators this rank has. */
static int count(struct kolo_comm *comm)
{
    int n = 0;
    kolo_comm_enter(comm);
    for (const struct kolo_comm *at = comm->engine->comms; at; at = at->listed.next)
        n++;
    kolo_comm_leave(comm);
    return n;
}

static kolo_status comes_and_goes(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *dup = NULL, *half = NULL;
    const int before = count(comm);
    (void)argument;
    WORLD_TRY(kolo_dup(comm, NULL, &dup));
    WORLD_TRY(check_nest(dup, 2));
    WORLD_EXPECT(count(comm) == before + 3, "%d communicators", count(comm));
    WORLD_TRY(kolo_split(comm, comm->local_rank / 2, 0, NULL, &half));
    WORLD_TRY(check_nest(half, 2));
    WORLD_TRY(kolo_finalize(half));
    WORLD_TRY(kolo_finalize(dup));
    WORLD_EXPECT(count(comm) == before, "%d communicators are left", count(comm) - before);
    return KOLO_OK;
}

Test(nest, of_a_split_ends_with_it, .timeout = 60)
{
    run(8, 2, NESTED, comes_and_goes, NULL);
}

static kolo_status fails_all(struct kolo_comm *comm, void *argument)
{
    int32_t value = 1;
    (void)argument;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 1)
        kolo_abort(comm, "a test");
    const kolo_status status =
        kolo_allreduce(comm, &value, &value, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED, "%s", kolo_error_detail());
    WORLD_EXPECT(comm->nest->host->failure.status == KOLO_ERR_ABORTED &&
                     comm->nest->across->failure.status == KOLO_ERR_ABORTED,
                 "its nest has not failed");
    struct kolo_comm *survivors = NULL;
    WORLD_TRY(kolo_shrink(comm, NULL, &survivors));
    WORLD_TRY(check_nest(survivors, 2));
    return kolo_finalize(survivors);
}

Test(nest, fails_with_its_communicator_and_comes_back_with_the_survivors, .timeout = 60)
{
    run(4, 2, NESTED, fails_all, NULL);
}
