// SPDX-License-Identifier: Apache-2.0
// kolo_get_info and kolo_get_peer_info: what works here, what does not, and why.
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

static void look(struct kolo_comm *comm)
{
    struct kolo_why why = {""};
    kolo_status status;
    const char *name;
    for (size_t i = 0; (name = kolo_transport_probe(i, &comm->settings, &status, &why)); i++) {
        if (status == KOLO_OK)
            add_name(comm->transports, name);
        else
            add_line(comm->left_out, name, why.text);
    }
    for (size_t i = 0; kolo_memory_kinds[i] != NULL; i++) {
        if (kolo_memory_kinds[i]->probe(&why) == KOLO_OK)
            add_name(comm->memory_kinds, kolo_memory_kinds[i]->name);
        else
            add_line(comm->left_out, kolo_memory_kinds[i]->name, why.text);
    }
    for (size_t i = 0; kolo_left_out[i].what != NULL; i++)
        add_line(comm->left_out, kolo_left_out[i].what, kolo_left_out[i].why);
}

/** Held: lock. */
static kolo_status look_once(struct kolo_comm *comm)
{
    if (comm->left_out != NULL)
        return KOLO_OK;
    comm->transports = kolo_calloc(LIST_BYTES, 1);
    comm->memory_kinds = kolo_calloc(LIST_BYTES, 1);
    comm->left_out = kolo_calloc(LEFT_OUT_BYTES, 1);
    if (comm->transports != NULL && comm->memory_kinds != NULL && comm->left_out != NULL) {
        look(comm);
        return KOLO_OK;
    }
    kolo_free_memory(comm->transports);
    kolo_free_memory(comm->memory_kinds);
    kolo_free_memory(comm->left_out);
    comm->transports = comm->memory_kinds = comm->left_out = NULL;
    return KOLO_ERR_NO_MEMORY;
}

kolo_status kolo_get_info(struct kolo_comm *comm, struct kolo_info *info_out)
{
    if (comm == NULL || info_out == NULL)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_get_info: %s is NULL",
                         comm == NULL ? "comm" : "info_out");
    if (info_out->size != sizeof(*info_out))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_get_info: info_out->size is %zu, not %zu: set it to sizeof",
                         info_out->size, sizeof(*info_out));
    kolo_comm_enter(comm);
    kolo_status status = look_once(comm);
    kolo_comm_leave(comm);
    if (status != KOLO_OK)
        return status;
    *info_out = (struct kolo_info){.size = sizeof(*info_out),
                                   .rank = comm->rank,
                                   .nranks = comm->size,
                                   .local_rank = comm->local_rank,
                                   .local_nranks = comm->local_size,
                                   .host = comm->peers[comm->rank].identity.host,
                                   .memory_kinds = comm->memory_kinds,
                                   .transports = comm->transports,
                                   .left_out = comm->left_out};
    return KOLO_OK;
}

static int local_rank_of(const struct kolo_comm *comm, int rank)
{
    int local_rank = 0;
    for (int other = 0; other < rank; other++)
        local_rank += comm->peers[other].identity.host_id == comm->peers[rank].identity.host_id;
    return local_rank;
}

kolo_status kolo_get_peer_info(struct kolo_comm *comm, int rank, struct kolo_peer_info *info_out)
{
    if (comm == NULL || info_out == NULL)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_get_peer_info: %s is NULL",
                         comm == NULL ? "comm" : "info_out");
    if (info_out->size != sizeof(*info_out))
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_get_peer_info: info_out->size is %zu, not %zu: set it to sizeof",
                         info_out->size, sizeof(*info_out));
    if (rank < 0 || rank >= comm->size)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_get_peer_info: rank %d is not a rank (there are %d)", rank,
                         comm->size);
    const struct kolo_identity *identity = &comm->peers[rank].identity;
    const char *transport = "self", *why = "this rank";
    kolo_comm_enter(comm);
    if (rank != comm->rank)
        kolo_endpoint_choice(comm->endpoint, rank, &transport, &why);
    snprintf(comm->choice_why, sizeof(comm->choice_why), "%s", why);
    kolo_comm_leave(comm);
    *info_out = (struct kolo_peer_info){.size = sizeof(*info_out),
                                        .rank = rank,
                                        .pid = identity->pid,
                                        .local_rank = local_rank_of(comm, rank),
                                        .host = identity->host,
                                        .transport = transport,
                                        .why = comm->choice_why};
    return KOLO_OK;
}
