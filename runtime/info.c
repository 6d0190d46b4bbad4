// SPDX-License-Identifier: Apache-2.0
// kolo_get_info and kolo_get_peer_info: which transports and kinds of memory work here, which do
// not, and why. What concerns this machine is determined once, when first asked for, and kept.
#include "runtime/comm.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/build.h"

enum { LIST_BYTES = 128, LEFT_OUT_BYTES = 4096 };

static void add_name(char *list, const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, LIST_BYTES - used, "%s%s", used > 0 ? "," : "", name);
}

static void add_line(char *lines, const char *name, const char *why)
{
    size_t used = strlen(lines);
    snprintf(lines + used, LEFT_OUT_BYTES - used, "%s%s: %s", used > 0 ? "\n" : "", name, why);
}

static void look(struct kolo_engine *engine)
{
    struct kolo_why why = {""};
    kolo_status status;
    const char *name;
    for (size_t i = 0; (name = kolo_transport_probe(i, &engine->settings, &status, &why)); i++) {
        if (status == KOLO_OK)
            add_name(engine->transports, name);
        else
            add_line(engine->left_out, name, why.text);
    }
    for (size_t i = 0; kolo_memory_kinds[i]; i++) {
        if (kolo_memory_kinds[i]->probe(&why) == KOLO_OK)
            add_name(engine->memory_kinds, kolo_memory_kinds[i]->name);
        else
            add_line(engine->left_out, kolo_memory_kinds[i]->name, why.text);
    }
    for (size_t i = 0; kolo_left_out[i].what; i++)
        add_line(engine->left_out, kolo_left_out[i].what, kolo_left_out[i].why);
}

/** Held: lock. */
static kolo_status look_once(struct kolo_engine *engine)
{
    if (engine->left_out)
        return KOLO_OK;
    engine->transports = kolo_calloc(LIST_BYTES, 1);
    engine->memory_kinds = kolo_calloc(LIST_BYTES, 1);
    engine->left_out = kolo_calloc(LEFT_OUT_BYTES, 1);
    if (engine->transports && engine->memory_kinds && engine->left_out) {
        look(engine);
        return KOLO_OK;
    }
    kolo_free_memory(engine->transports);
    kolo_free_memory(engine->memory_kinds);
    kolo_free_memory(engine->left_out);
    engine->transports = engine->memory_kinds = engine->left_out = NULL;
    return KOLO_ERR_NO_MEMORY;
}

kolo_status kolo_get_info(struct kolo_comm *comm, struct kolo_info *info_out)
{
    kolo_status status = kolo_comm_check(comm, "kolo_get_info");
    if (status != KOLO_OK)
        return status;
    status =
        kolo_check_struct("kolo_get_info", "info_out", "kolo_info", info_out, sizeof *info_out);
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(comm);
    status = look_once(comm->engine);
    kolo_comm_leave(comm);
    if (status != KOLO_OK)
        return status;
    *info_out = (struct kolo_info){.size = sizeof *info_out,
                                   .rank = comm->rank,
                                   .nranks = comm->size,
                                   .local_rank = comm->local_rank,
                                   .local_nranks = comm->local_size,
                                   .host = kolo_comm_peer(comm, comm->rank)->identity.host,
                                   .memory_kinds = comm->engine->memory_kinds,
                                   .transports = comm->engine->transports,
                                   .left_out = comm->engine->left_out};
    return KOLO_OK;
}

/** Determines each member's number among those of its host, for all members at once, since a
 * program asks for every member. Returns false if there is no memory. Held: lock. */
static bool has_local_ranks(struct kolo_comm *comm)
{
    if (comm->told.local_ranks)
        return true;
    comm->told.local_ranks = kolo_calloc((size_t)comm->size, sizeof *comm->told.local_ranks);
    if (!comm->told.local_ranks)
        return false;
    for (int rank = 0; rank < comm->size; rank++) {
        uint64_t host = kolo_comm_peer(comm, rank)->identity.host_id;
        int before = rank - 1;
        while (before >= 0 && kolo_comm_peer(comm, before)->identity.host_id != host)
            before--;
        comm->told.local_ranks[rank] = before >= 0 ? comm->told.local_ranks[before] + 1 : 0;
    }
    return true;
}

/** A copy of @p why that is kept until @p rank is asked for again. NULL: no memory. Held: lock. */
static const char *keep_why(struct kolo_comm *comm, int rank, const char *why)
{
    if (!comm->told.whys)
        comm->told.whys = kolo_calloc((size_t)comm->size, sizeof *comm->told.whys);
    if (!comm->told.whys)
        return NULL;
    if (comm->told.whys[rank] && strcmp(comm->told.whys[rank], why) == 0)
        return comm->told.whys[rank];
    kolo_free_memory(comm->told.whys[rank]);
    comm->told.whys[rank] = kolo_strdup(why);
    return comm->told.whys[rank];
}

kolo_status kolo_get_peer_info(struct kolo_comm *comm, int rank, struct kolo_peer_info *info_out)
{
    kolo_status status = kolo_comm_check(comm, "kolo_get_peer_info");
    if (status != KOLO_OK)
        return status;
    status = kolo_check_struct("kolo_get_peer_info", "info_out", "kolo_peer_info", info_out,
                               sizeof *info_out);
    if (status != KOLO_OK)
        return status;
    if (rank < 0 || rank >= comm->size)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_get_peer_info: rank %d is not a rank (there are %d)", rank,
                         comm->size);
    const struct kolo_identity *identity = &kolo_comm_peer(comm, rank)->identity;
    const char *transport = "self", *why = "this rank";
    kolo_comm_enter(comm);
    if (rank != comm->rank)
        kolo_endpoint_choice(comm->engine->endpoint, kolo_comm_world_rank(comm, rank), &transport,
                             &why);
    why = has_local_ranks(comm) ? keep_why(comm, rank, why) : NULL;
    kolo_comm_leave(comm);
    if (!why)
        return KOLO_ERR_NO_MEMORY;
    *info_out = (struct kolo_peer_info){.size = sizeof *info_out,
                                        .rank = rank,
                                        .pid = identity->pid,
                                        .local_rank = comm->told.local_ranks[rank],
                                        .host = identity->host,
                                        .transport = transport,
                                        .why = why};
    return KOLO_OK;
}
