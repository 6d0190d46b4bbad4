// SPDX-License-Identifier: Apache-2.0
// Owns the meeting of a new communicator's members on the board of its parent. Each member has a
// word there, in which it puts the number of the communicator that it has opened last, and each
// waits until the words of all others have that number.
//
// A communicator of no more than one creation needs the word at a time: a member begins its next
// meeting on this parent only after an exchange between all of the parent's members, each of which
// has ended its meeting by then, also if several of its threads make communicators of this parent
// (they take turns: split.c). What is there stays readable if the parent fails, and after its owner
// has left.
//
// Must never allocate memory: a member that has come to the meeting must not fail in it, since
// others may have the communicator then.
#include "runtime/meeting.h"

#include <stddef.h>
#include <stdio.h>

#include "runtime/board_hub.h"
#include "runtime/relax.h"

bool kolo_meeting_has_board(const struct kolo_comm *comm)
{
    return comm->parent && comm->parent->hub && comm->parent->hub->is_ready;
}

/** What a member's word has once it has opened @p comm; never 0, as at first. */
static uint64_t sign_of(const struct kolo_comm *comm)
{
    return (uint64_t)comm->number + 1;
}

/** Whether @p member of the new communicator has come to the meeting. */
static bool has_come(const struct kolo_comm *comm, int member)
{
    const int there = kolo_comm_member(comm->parent, kolo_comm_world_rank(comm, member));
    return member == comm->rank ||
           kolo_hub_word(comm->parent->hub, there, offsetof(struct kolo_board_notes, opened)) ==
               sign_of(comm);
}

/** Whether all have come; those below comm->met are known to have. */
static bool have_all_come(struct kolo_comm *comm)
{
    for (; comm->met < comm->size; comm->met++) {
        if (!has_come(comm, comm->met))
            return false;
        comm->engine->has_moved = true;
    }
    return true;
}

static void meeting_begin(struct kolo_request *request)
{
    struct kolo_hub *hub = request->comm->parent->hub;
    kolo_hub_publish(hub, &hub->members[hub->self].notes->opened, sign_of(request->comm));
}

static bool meeting_advance(struct kolo_request *request)
{
    struct kolo_comm *comm = request->comm;
    const struct kolo_hub *hub = comm->parent->hub;
    for (int looks = kolo_hub_looks(hub); looks > 0; looks--) {
        if (have_all_come(comm))
            return true;
        if (hub->is_crowded)
            return false;
        comm->engine->looks++;
        kolo_relax();
    }
    return false;
}

/** A member that gives up withdraws its number, so that whoever comes later waits for it and hears
 * that it has given up, instead of getting what nobody else has. */
static void meeting_cancel(struct kolo_request *request)
{
    const struct kolo_comm *comm = request->comm;
    const struct kolo_hub *hub = comm->parent ? comm->parent->hub : NULL;
    if (hub && comm->met < comm->size)
        atomic_store(&hub->members[hub->self].notes->opened.value, 0);
}

static int meeting_waits_for(const struct kolo_request *request, int peers[], int capacity)
{
    const struct kolo_comm *comm = request->comm;
    int count = 0;
    for (int member = comm->met; member < comm->size && count < capacity; member++)
        if (!has_come(comm, member))
            peers[count++] = member;
    return count;
}

static void meeting_describe(const struct kolo_request *request, char *text, size_t capacity)
{
    char who[KOLO_RANK_TEXT_MAX];
    int first;
    text[0] = '\0';
    if (meeting_waits_for(request, &first, 1) > 0)
        snprintf(text, capacity, "%s: shared memory, it has not opened its new communicator yet",
                 kolo_comm_rank_text(request->comm, first, who));
}

static uint64_t meeting_moves(const struct kolo_request *request)
{
    return (uint64_t)request->comm->met;
}

const struct kolo_route kolo_route_meeting = {
    .is_on_board = true,
    .begin = meeting_begin,
    .advance = meeting_advance,
    .cancel = meeting_cancel,
    .waits_for = meeting_waits_for,
    .describe = meeting_describe,
    .moves = meeting_moves,
};
