// SPDX-License-Identifier: Apache-2.0
// Makes the two communicators of a nest, and ends them with the communicator that they are inside
// of. Must never decide by what only one rank knows: either all members make the nest, or none.
//
// Both are made by splits of that communicator, while it is made itself, so that no later call has
// to wait for all members before it can begin. They fail with it, whatever the cause, and nobody
// but its own calls (nested.c) uses them.
#include "runtime/nest.h"

#include "base/alloc.h"
#include "runtime/split.h"

/** Whether several hosts have the same number of members, two or more. */
static bool is_even(const struct kolo_comm *comm)
{
    const struct kolo_topology *map = kolo_choices_hosts(&comm->choices);
    return map && map->count > 1 && map->least == map->most && map->least > 1;
}

/** Finds out on which host each member is. */
static kolo_status know_hosts(struct kolo_comm *comm)
{
    kolo_comm_enter(comm);
    const kolo_status status = kolo_comm_know_hosts(comm);
    kolo_comm_leave(comm);
    return status;
}

static kolo_status make(struct kolo_comm *comm, struct kolo_nest *nest, kolo_deadline deadline)
{
    kolo_status status;
    KOLO_TRY(kolo_split_inside(comm, comm->choices.hosts[comm->rank], "ranks of one host", deadline,
                               &nest->host));
    KOLO_TRY(kolo_split_inside(comm, comm->local_rank, "one rank of each host", deadline,
                               &nest->across));
out:
    return status;
}

/** From now on the inner communicators fail with @p comm, which may have failed already. Held:
 * lock. */
static void tie(struct kolo_comm *comm, struct kolo_nest *nest)
{
    struct kolo_comm *inner[] = {nest->host, nest->across};
    for (int i = 0; i < 2; i++) {
        inner[i]->parent = comm;
        if (comm->failure.status != KOLO_OK)
            kolo_comm_fail_quietly(inner[i], comm->failure.status, comm->failure.text);
    }
}

kolo_status kolo_nest_open(struct kolo_comm *comm, kolo_deadline deadline)
{
    if (comm->engine->settings.nested_bytes == 0 || comm->is_inner || comm->size == 1)
        return KOLO_OK;
    kolo_status status = know_hosts(comm);
    if (status != KOLO_OK || !is_even(comm))
        return status;
    struct kolo_nest *nest = kolo_calloc(1, sizeof *nest);
    if (!nest)
        return KOLO_ERR_NO_MEMORY;
    status = make(comm, nest, deadline);
    kolo_comm_enter(comm);
    comm->nest = nest;
    if (status == KOLO_OK)
        tie(comm, nest);
    else
        kolo_nest_close(comm);
    kolo_comm_leave(comm);
    return status;
}

void kolo_nest_close(struct kolo_comm *comm)
{
    struct kolo_nest *nest = comm->nest;
    if (!nest)
        return;
    struct kolo_comm *inner[] = {nest->host, nest->across};
    comm->nest = NULL;
    for (int i = 0; i < 2; i++)
        if (inner[i]) {
            kolo_comm_close(inner[i]);
            kolo_comm_free(inner[i]);
        }
    kolo_free_memory(nest);
}
