// SPDX-License-Identifier: Apache-2.0
// The direct way, for kolo_alloc memory: every member moves its share from the members' send
// buffers to the members' recv buffers, in one pass. So others write this rank's memory, and a call
// that fails must withdraw it first:
//
//   a member that moves a chunk   touching = number; leaves if any memory is revoked; moves the
//                                 chunk; touching = 0
//   a member that withdraws       revoked = 1; waits while any member's touching is this number
//
// All these stores and loads are sequentially consistent, so one of the two sees the other. Chunks
// are short, and so is the wait. A member that died or was stopped inside a chunk cannot block
// others: a dead one has no mapping, and memory that a stopped one could write is replaced
// (cut_off).
#include <sched.h>
#include <stddef.h>
#include <unistd.h>

#include "base/log.h"
#include "runtime/board_hub.h"

enum {
    CHUNK_BYTES = 128 << 10, /* of each buffer, between two checks of the others */
    PAGE_BYTES = 4096,
    /* Meanwhile the engine's lock is held, and calls of other communicators wait. */
    PATIENCE_MS = 200, /* until a neighbour is cut off */
    WITHDRAW_MS = 2000 /* if it cannot be */
};

static void name(const struct kolo_hub *hub, const void *memory, size_t bytes,
                 struct kolo_board_name *name_out)
{
    *name_out = (struct kolo_board_name){0};
    if (bytes > 0)
        kolo_board_lend(hub->board, memory, bytes, name_out);
}

/** Whether member @p index has named all memory that the moves use. */
static bool has_named(const struct kolo_hub *hub, int index)
{
    const struct kolo_hub_member *member = &hub->members[index];
    const struct kolo_board_entry *entry = kolo_hub_entry(hub, index);
    return (member->send_bytes == 0 || entry->names.send.span != 0) &&
           (member->recv_bytes == 0 || entry->names.recv.span != 0);
}

void kolo_board_extents(struct kolo_hub *hub)
{
    for (int i = 0; i < hub->count; i++) {
        struct kolo_hub_member *member = &hub->members[i];
        size_t send, recv;
        kolo_moves_extent(hub->run.collective, &hub->run.request->args, i, &send, &recv);
        member->send_bytes = send * hub->run.element_bytes;
        member->recv_bytes = recv * hub->run.element_bytes;
    }
}

bool kolo_board_direct_put(struct kolo_hub *hub)
{
    const struct kolo_request *request = hub->run.request;
    struct kolo_board_entry *entry = kolo_hub_entry(hub, hub->self);
    kolo_board_extents(hub);
    const struct kolo_hub_member *self = &hub->members[hub->self];
    name(hub, request->send, self->send_bytes, &entry->names.send);
    if (entry->names.send.span == 0 && self->send_bytes > 0)
        entry->names.send.offset = kolo_board_address(hub->board, request->send);
    name(hub, request->recv, self->recv_bytes, &entry->names.recv);
    return has_named(hub, hub->self);
}

enum kolo_board_named kolo_board_direct_look(const struct kolo_hub *hub)
{
    int named = 0, touched = 0;
    for (int i = 0; i < hub->count; i++) {
        bool is_touched = hub->members[i].send_bytes + hub->members[i].recv_bytes > 0;
        touched += is_touched;
        named += is_touched && has_named(hub, i);
    }
    if (named == touched)
        return KOLO_BOARD_ALL_NAMED;
    return named == 0 ? KOLO_BOARD_NONE_NAMED : KOLO_BOARD_SOME_NAMED;
}

static kolo_status borrow(struct kolo_hub *hub, int from, const struct kolo_board_name *shown,
                          size_t bytes, uint8_t **memory_out)
{
    *memory_out = NULL;
    return bytes == 0 ? KOLO_OK : kolo_board_borrow(hub->board, from, shown, bytes, memory_out);
}

/** Cuts inside a vector fall on page boundaries if shares are long, otherwise on cache lines. */
static size_t cut_align(const struct kolo_hub *hub, size_t total_bytes)
{
    size_t unit =
        total_bytes / (size_t)hub->count >= 16 * PAGE_BYTES ? PAGE_BYTES : KOLO_BOARD_LINE;
    return hub->run.element_bytes < unit ? unit / hub->run.element_bytes : 1;
}

static void begin_share(struct kolo_hub *hub)
{
    const struct kolo_request *request = hub->run.request;
    size_t all = 0;
    hub->members[hub->self].send = (uint8_t *)(uintptr_t)request->send; /* only read */
    hub->members[hub->self].recv = request->recv;
    for (int i = 0; i < hub->count; i++)
        all += hub->members[i].send_bytes + hub->members[i].recv_bytes;
    kolo_share_begin(hub->run.collective, &request->args, hub->self, hub->count,
                     cut_align(hub, all / (size_t)hub->count), &hub->share);
}

kolo_status kolo_board_direct_borrow(struct kolo_hub *hub)
{
    kolo_status status = KOLO_OK;
    for (int i = 0; i < hub->count; i++) {
        struct kolo_hub_member *member = &hub->members[i];
        const struct kolo_board_entry *entry = kolo_hub_entry(hub, i);
        if (i == hub->self)
            continue;
        KOLO_TRY(borrow(hub, i, &entry->names.send, member->send_bytes, &member->send));
        KOLO_TRY(borrow(hub, i, &entry->names.recv, member->recv_bytes, &member->recv));
    }
    begin_share(hub);
out:
    return status;
}

enum kolo_board_step kolo_board_direct_step(struct kolo_hub *hub)
{
    size_t chunk = CHUNK_BYTES / hub->run.element_bytes, moved = 0;
    struct kolo_move move;
    while (moved < KOLO_BOARD_TURN_BYTES) {
        if (kolo_share_is_over(&hub->share) && !kolo_hub_is_revoked(hub))
            return KOLO_BOARD_DONE;
        bool may_touch = kolo_hub_touch(hub);
        bool is_left = may_touch && kolo_share_next(&hub->share, chunk, &move);
        if (is_left)
            kolo_hub_move(hub, &move);
        kolo_hub_untouch(hub);
        if (!may_touch)
            return KOLO_BOARD_STUCK; /* its owner has failed, and the news is on its way */
        if (!is_left)
            return KOLO_BOARD_DONE;
        moved += move.count * hub->run.element_bytes;
        hub->moves++;
    }
    return KOLO_BOARD_MOVED;
}

/* ---- withdrawing memory ---- */

static bool is_touched(struct kolo_hub *hub)
{
    struct kolo_comm *comm = hub->comm;
    for (int i = 0; i < hub->count; i++) {
        struct kolo_link *link;
        if (i == hub->self || atomic_load(&hub->members[i].notes->touching.value) != hub->number)
            continue;
        if (kolo_endpoint_link(comm->engine->endpoint, kolo_comm_world_rank(comm, i), 0, &link) !=
            KOLO_ERR_LINK) /* which says that it has gone, and its mappings with it */
            return true;
    }
    return false;
}

/** Whether both begin or end in one page, or overlap. */
static bool share_page(const void *one, size_t one_bytes, const void *other, size_t other_bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return one_bytes > 0 && other_bytes > 0 &&
           (uintptr_t)one / page <= ((uintptr_t)other + other_bytes - 1) / page &&
           (uintptr_t)other / page <= ((uintptr_t)one + one_bytes - 1) / page;
}

/** Whether others may write to the recv buffer of the collective that runs on @p hub. */
static bool may_be_written(const struct kolo_hub *hub)
{
    return hub->run.request && hub->run.phase > KOLO_BOARD_HOLDING &&
           hub->run.phase < KOLO_BOARD_STAGING && !hub->run.is_oneshot && hub->run.has_named &&
           !hub->run.is_pulled && !hub->run.is_lent;
}

/** The pages of @p memory have been replaced, and members of other communicators keep the old ones:
 * what they write for a call that has memory in the same page is lost. Such a call fails. */
static void end_calls_beside(const struct kolo_hub *hub, const void *memory, size_t bytes)
{
    for (struct kolo_comm *comm = hub->comm->engine->comms; comm; comm = comm->listed.next) {
        const struct kolo_hub *other = comm->hub;
        if (other && other != hub && may_be_written(other) &&
            share_page(memory, bytes, other->run.request->recv,
                       other->members[other->self].recv_bytes))
            kolo_comm_fail_here(comm, KOLO_ERR_ABORTED,
                                "the buffer of its call has a page in common with that of another "
                                "call, of which a rank had to be cut off");
    }
}

/** Memory that cannot be withdrawn in time is replaced: a late write then goes where nobody
 * reads. False: it cannot be replaced, and @p why_out says why. */
static bool cut_off(struct kolo_hub *hub, char why_out[KOLO_DETAIL_MAX])
{
    const struct kolo_request *request = hub->run.request;
    const struct kolo_hub_member *self = &hub->members[hub->self];
    const void *memory[] = {request->send, request->recv};
    const size_t bytes[] = {self->send_bytes, self->recv_bytes};
    bool is_done = true;
    for (int i = 0; i < 2; i++) {
        const kolo_status status = kolo_board_sever(hub->board, memory[i], bytes[i]);
        if (status != KOLO_OK)
            kolo_detail_keep(why_out);
        if (status != KOLO_ERR_UNSUPPORTED)
            end_calls_beside(hub, memory[i], bytes[i]);
        is_done &= status == KOLO_OK;
    }
    return is_done;
}

void kolo_board_direct_withdraw(struct kolo_hub *hub)
{
    const kolo_deadline patience = kolo_deadline_in_ms(PATIENCE_MS),
                        end = kolo_deadline_in_ms(WITHDRAW_MS);
    const struct kolo_hub_member *self = &hub->members[hub->self];
    const int64_t began_ns = kolo_now_ns();
    char why[KOLO_DETAIL_MAX] = "it is a device's";
    bool may_cut_off = !hub->run.is_lent;
    kolo_status status = KOLO_OK;
    atomic_store(&self->notes->revoked.value, 1);
    while (is_touched(hub)) {
        const bool is_broken = status != KOLO_OK;
        const int used_ms = (int)((kolo_now_ns() - began_ns) / KOLO_NS_PER_MS);
        if (may_cut_off && (is_broken || kolo_deadline_passed(patience))) {
            may_cut_off = false;
            if (cut_off(hub, why)) {
                KOLO_WARN("a neighbour has been using this rank's memory for %d ms: its access is "
                          "cut off",
                          used_ms);
                break;
            }
        }
        if (is_broken || kolo_deadline_passed(end)) {
            KOLO_WARN("a neighbour has been using this rank's memory for %d ms, and may still "
                      "write to the buffers of the failed call: %s",
                      used_ms, why);
            break;
        }
        status = kolo_endpoint_progress(hub->comm->engine->endpoint, NULL);
        sched_yield();
    }
}
