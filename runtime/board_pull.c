// SPDX-License-Identifier: Apache-2.0
// The way for memory that the others cannot map but may read, in alltoall, scatter and small
// allgather of middle sizes: every member copies what goes to it directly from the senders' memory,
// by the kernel (kolo_board_pull), or by itself if a sender could lend its memory. That is one
// copy, where the stages need two. Must never write to another's memory.
//
// All members know before the first call whether they can pull: each has tested whether it may read
// all others, and its notes say from which block size on it would pull (0: never), and whether a
// setting says so. The largest of the sizes counts; if any come from settings, the largest of
// those. With a setting, blocks of this size are pulled; without one, only if that is found to be
// faster (board_ways.c). An entry says what to read: a name, or, with span 0, an address in the
// sender's process.
//
// If a sender withdraws its memory during a read, what was read must not be used. As in
// board_direct.c, the sender sets revoked before its program may use the memory for anything else,
// and a reader checks that after each piece, before it continues or reports "done".
//
// A read that fails is not an error of the call, nor is an address of 0 (kolo_board_address). Some
// memory can be used by its process and not be read by others (that of some devices, say), or a
// permission may have been withdrawn. Then the call and all later ones use the stages instead: the
// member that could not read says so in its notes (unread) before it reports "done", so all know it
// when all are done, and the senders' data is unchanged. If the process is gone, the calls wait for
// it in the stages, as for any rank that died.
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "runtime/board_hub.h"
#include "runtime/cost.h"

enum {
    CHUNK_BYTES = 256 << 10, /* of one call to the kernel */
    CACHE_BYTES = 24 << 20,  /* of all buffers together: from here on caches do not help */
    ALLGATHER_MOST = 3,      /* most members of an allgather that is pulled */
    PAIR_BYTES = 1 << 20,    /* blocks from this size on, of a scatter of two, are not pulled */
    TRIED_BYTES = 8 << 10    /* block size from which on it is tried: shorter ones are shown */
};

/* A bit beside the bytes in a member's notes: they do not come from a setting. */
static const uint64_t tried = (uint64_t)1 << 63;

/* ---- who may pull ---- */

size_t kolo_pull_from(const struct kolo_settings *settings, bool *is_tried_out)
{
    *is_tried_out = settings->cma_bytes == 0;
    if (!settings->cma)
        return 0;
    return *is_tried_out ? TRIED_BYTES : (size_t)settings->cma_bytes;
}

void kolo_pull_probe(struct kolo_hub *hub)
{
    bool is_tried;
    uint64_t from = kolo_pull_from(&hub->comm->engine->settings, &is_tried);
    if (is_tried && from != 0)
        from |= tried;
    for (int member = 0; member < hub->count && from != 0; member++) {
        if (member == hub->self || kolo_board_may_pull(hub->board, member) == KOLO_OK)
            continue;
        KOLO_INFO(
            "communicator %u: memory of rank %d that is not from kolo_alloc is copied twice: %s",
            hub->comm->number, kolo_comm_world_rank(hub->comm, member), kolo_error_detail());
        from = 0;
    }
    atomic_store(&hub->members[hub->self].notes->pulls.value, from);
}

/** Determines from which block size on all pull, and whether it is only tried. All members have
 * entered. */
static void agree(struct kolo_hub *hub)
{
    uint64_t most_tried = 0, most_set = 0;
    for (int member = 0; member < hub->count; member++) {
        uint64_t from = kolo_hub_word(hub, member, offsetof(struct kolo_board_notes, pulls));
        uint64_t *most = (from & tried) != 0 ? &most_tried : &most_set;
        from &= ~tried;
        if (from == 0) {
            hub->pull_bytes = SIZE_MAX; /* one member never pulls */
            return;
        }
        *most = from > *most ? from : *most;
    }
    hub->pull_is_tried = most_set == 0;
    hub->pull_bytes = hub->pull_is_tried ? most_tried : most_set;
}

/** One copy by the kernel, which has to look up every page, can be faster than two copies by
 * processors. But not if many members read the same bytes, which a stage holds once for all, nor if
 * one rank would have to do the work that the stages share between ranks. */
bool kolo_pull_can(enum kolo_collective collective, const struct kolo_plan_args *args,
                   size_t element_bytes, size_t from)
{
    const bool can_win = collective == KOLO_COLLECTIVE_ALLTOALL ||
                         collective == KOLO_COLLECTIVE_SCATTER ||
                         (collective == KOLO_COLLECTIVE_ALLGATHER && args->size <= ALLGATHER_MOST);
    return from != 0 && can_win && kolo_plan_mean_block(args) * element_bytes >= from;
}

/** Not for a long scatter of two ranks, where one copies while the other waits, although with the
 * stages both work; nor for more than the caches hold. */
bool kolo_pull_pays(enum kolo_collective collective, const struct kolo_plan_args *args,
                    size_t element_bytes, double buffer_bytes, size_t from)
{
    const bool is_pair = collective == KOLO_COLLECTIVE_SCATTER && args->size == 2;
    return kolo_pull_can(collective, args, element_bytes, from) &&
           buffer_bytes < (double)CACHE_BYTES &&
           !(is_pair && kolo_plan_mean_block(args) * element_bytes >= PAIR_BYTES);
}

bool kolo_pull_is_known(const struct kolo_hub *hub)
{
    return hub->pull_bytes != 0;
}

bool kolo_pull_must(struct kolo_hub *hub)
{
    if (hub->pull_bytes == 0)
        agree(hub);
    return !hub->pull_is_tried &&
           kolo_pull_pays(hub->run.collective, &hub->run.request->args, hub->run.element_bytes,
                          kolo_ways_bytes(hub), hub->pull_bytes);
}

bool kolo_pull_may(struct kolo_hub *hub)
{
    if (hub->pull_bytes == 0)
        agree(hub);
    return hub->pull_is_tried && kolo_pull_can(hub->run.collective, &hub->run.request->args,
                                               hub->run.element_bytes, hub->pull_bytes);
}

/* ---- senders ---- */

/** Whether any move goes from @p from to this member. */
static bool is_given_by(const struct kolo_hub *hub, int from)
{
    bool is_scatter = hub->run.collective == KOLO_COLLECTIVE_SCATTER;
    return hub->members[from].send_bytes > 0 &&
           (!is_scatter || from == hub->run.request->args.root);
}

kolo_status kolo_pull_borrow(struct kolo_hub *hub)
{
    const struct kolo_request *request = hub->run.request;
    struct kolo_pull *pull = &hub->pull;
    struct kolo_hub_member *self = &hub->members[hub->self];
    kolo_status status = KOLO_OK;
    for (int i = 0; i < hub->count; i++) {
        struct kolo_hub_member *member = &hub->members[i];
        if (i == hub->self || !is_given_by(hub, i))
            continue;
        struct kolo_board_name name = kolo_hub_entry(hub, i)->names.send;
        member->send = NULL;
        member->address = name.offset;
        if (name.span != 0)
            KOLO_TRY(kolo_board_borrow(hub->board, i, &name, member->send_bytes, &member->send));
    }
    self->send = (uint8_t *)(uintptr_t)request->send; /* only read */
    self->recv = request->recv;
    hub->run.how = KOLO_STORE_CACHED;
    *pull = (struct kolo_pull){0};
    pull->count = kolo_moves_to(hub->run.collective, &request->args, hub->self, &pull->first);
out:
    return status;
}

/* ---- pieces ---- */

/** The rest of the next move. For an allgather each member begins with its own block, so that not
 * all read one sender's memory at the same time. False: nothing is left. */
static bool next_move(struct kolo_hub *hub, struct kolo_move *move_out)
{
    struct kolo_pull *pull = &hub->pull;
    bool is_turned = hub->run.collective == KOLO_COLLECTIVE_ALLGATHER;
    for (; pull->turn < pull->count; pull->turn++, pull->at = 0) {
        size_t turn = is_turned ? (pull->turn + (size_t)hub->self) % pull->count : pull->turn;
        kolo_moves_at(hub->run.collective, &hub->run.request->args, pull->first + turn, move_out);
        if (pull->at >= move_out->count)
            continue;
        move_out->to = hub->self;
        move_out->send_at += pull->at;
        move_out->recv_at += pull->at;
        move_out->count -= pull->at;
        return true;
    }
    return false;
}

static kolo_status move_piece(struct kolo_hub *hub, const struct kolo_move *move)
{
    const struct kolo_hub_member *from = &hub->members[move->from];
    if (from->send) {
        kolo_hub_move(hub, move);
        return KOLO_OK;
    }
    if (from->address == 0)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "the rank goes on in a child of its process (fork)");
    return kolo_board_pull(hub->board, move->from,
                           from->address + move->send_at * hub->run.element_bytes,
                           hub->members[hub->self].recv + move->recv_at * hub->run.element_bytes,
                           move->count * hub->run.element_bytes);
}

/** Stops reading. The call goes through the stages when all members have seen that. */
static void give_up(struct kolo_hub *hub, int member)
{
    KOLO_INFO(
        "communicator %u: from now on memory that is not from kolo_alloc is copied twice, since "
        "rank %d's could not be read: %s",
        hub->comm->number, kolo_comm_world_rank(hub->comm, member), kolo_error_detail());
    atomic_store(&hub->members[hub->self].notes->unread.value, hub->number);
}

enum kolo_board_step kolo_pull_step(struct kolo_hub *hub)
{
    size_t chunk = CHUNK_BYTES / hub->run.element_bytes, moved = 0;
    struct kolo_move move;
    while (true) {
        bool may_touch = kolo_hub_touch(hub); /* if true, what was read before is what was sent */
        bool is_left = may_touch && next_move(hub, &move);
        kolo_status status = KOLO_OK;
        if (is_left && moved < KOLO_BOARD_TURN_BYTES) {
            move.count = move.count < chunk ? move.count : chunk;
            status = move_piece(hub, &move);
        }
        kolo_hub_untouch(hub);
        if (!may_touch)
            return KOLO_BOARD_STUCK; /* its owner has failed, and the news is on its way */
        if (!is_left)
            return KOLO_BOARD_DONE;
        if (moved >= KOLO_BOARD_TURN_BYTES)
            return KOLO_BOARD_MOVED;
        if (status != KOLO_OK) {
            give_up(hub, move.from);
            return KOLO_BOARD_DONE;
        }
        hub->pull.at += move.count;
        moved += move.count * hub->run.element_bytes;
        hub->moves++;
    }
}

bool kolo_pull_has_failed(struct kolo_hub *hub)
{
    for (int member = 0; member < hub->count; member++)
        if (kolo_hub_word(hub, member, offsetof(struct kolo_board_notes, unread)) == hub->number) {
            hub->run.is_pulled = false;
            hub->pull_bytes = SIZE_MAX;
            return true;
        }
    return false;
}
