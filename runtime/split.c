// SPDX-License-Identifier: Apache-2.0
// kolo_split and kolo_dup: make new communicators from a communicator, in these steps:
//
//   1  member 0 takes as many numbers as there may be new communicators; often it has them, else
//      the store gives it a block
//   2  all gather what each offers: colour, key, the first number, what is wrong with its call
//   3  every member reads the same table, so all refuse, or all make the same communicators
//   4  the members of each new one meet in a barrier on it, so a member that returns knows
//      that all have it. They use the board of the parent (meeting.c) or links; a board of the new
//      one is opened by the first call that needs it
//
// The call has one deadline: for 1 (at most half of the time), 2, and 4, which gets a second if
// less is left.
//
// A number is never used twice in a job, since links and the store identify communicators by it.
// What step 4 needs is allocated before step 2, so that no member fails between the two; over links
// channels are allocated before a member sends anything in step 4, so that none is through it if
// one of them gives up for want of memory.
//
// Until step 4 is over, the new communicator fails with its parent, because a member that the
// parent has lost may never get it; but not at once, since members that all have it meet in a
// moment, and some may be through step 4 already. A failure that comes from a member which is
// through step 4 is not one of its making: a member that is still in step 4 gets the communicator
// too, and its calls say why.
#include "runtime/split.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/finalized.h"
#include "runtime/group.h"
#include "runtime/nest.h"
#include "runtime/numbers.h"
#include "runtime/submit.h"

/* How long the members may take to meet, at least. */
enum { MEETING_MS = 1000 };

enum fault { FAULT_NONE, FAULT_COLOUR, FAULT_OUT, FAULT_MEMORY, FAULT_NUMBERS, FAULTS };

/* What each member sends to the others: 32-bit integers. */
struct offer {
    int32_t colour, key, first, fault;
};
enum { OFFER_INTS = sizeof(struct offer) / sizeof(int32_t) };

struct place {
    int32_t colour, key;
    int rank;
};

struct making {
    enum kolo_call_kind kind;
    const char *function;
    const struct kolo_opts *opts;
    kolo_deadline deadline; /* of the whole call */
    const char *inside;     /* origin of an inner communicator; NULL: it is not for a nest */
    struct offer mine;
    char why_none[KOLO_DETAIL_MAX]; /* why this rank got no numbers; the others are not told */
    struct offer *table;
    struct place *places;
    struct kolo_comm *child;
};

static int by_colour_and_key(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->colour != b->colour)
        return a->colour < b->colour ? -1 : 1;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank < b->rank ? -1 : 1;
}

/* ---- refusals ---- */

static kolo_status refuse(const struct kolo_comm *comm, const struct making *making, int rank)
{
    const char *function = making->function;
    const struct offer *offer = &making->table[rank];
    char who[KOLO_RANK_TEXT_MAX];
    kolo_comm_rank_text(comm, rank, who);
    switch (offer->fault) {
    case FAULT_COLOUR:
        return kolo_fail(KOLO_ERR_INVALID,
                         "%s: %s gave colour %d: use 0 or more, or KOLO_NO_COLOUR to get none",
                         function, who, (int)offer->colour);
    case FAULT_OUT:
        return kolo_fail(KOLO_ERR_INVALID, "%s: new_out is NULL on %s", function, who);
    case FAULT_MEMORY:
        return kolo_fail(KOLO_ERR_NO_MEMORY, "%s: %s has no memory for it", function, who);
    case FAULT_NUMBERS:
        return kolo_fail(KOLO_ERR_SYSTEM, "%s: %s got no numbers from the job's store: %s",
                         function, who, making->why_none[0] ? making->why_none : "it says why");
    default:
        return kolo_fail(KOLO_ERR_PROTOCOL, "%s: the offer of %s makes no sense (%d)", function,
                         who, (int)offer->fault);
    }
}

/** KOLO_OK, or the same refusal on every member: the fault of the lowest rank that has one. */
static kolo_status check_table(const struct kolo_comm *comm, const struct making *making)
{
    for (int rank = 0; rank < comm->size; rank++)
        if (making->table[rank].fault != FAULT_NONE)
            return refuse(comm, making, rank);
    return KOLO_OK;
}

/* ---- members ---- */

/** Puts the members of this rank's colour into @p child, and this rank's place into @p seat. The
 * communicator's number depends on how many colours come before this one. */
static void choose_members(const struct kolo_comm *comm, const struct offer *table,
                           struct place *places, struct kolo_comm *child, struct kolo_seat *seat)
{
    int first = 0;
    uint32_t index = 0;
    for (int rank = 0; rank < comm->size; rank++)
        places[rank] = (struct place){table[rank].colour, table[rank].key, rank};
    qsort(places, (size_t)comm->size, sizeof *places, by_colour_and_key);
    while (places[first].colour != table[comm->rank].colour) {
        if (places[first].colour != KOLO_NO_COLOUR &&
            (first == 0 || places[first].colour != places[first - 1].colour))
            index++;
        first++;
    }
    seat->size = 0;
    for (int i = first; i < comm->size && places[i].colour == places[first].colour; i++) {
        if (places[i].rank == comm->rank)
            seat->rank = seat->size;
        child->ranks[seat->size++] = kolo_comm_world_rank(comm, places[i].rank);
    }
    seat->number = (uint32_t)table[0].first + index;
}

/* ---- opening ---- */

/** Gives up a communicator that some members may not have, and tells the members that have it.
 * After a split the store is also told that ranks which shrink it need not wait for this rank,
 * which has nothing to shrink; after a shrink this rank may ask again. */
static void give_up(struct kolo_comm *child, bool is_of_split, kolo_status status)
{
    struct kolo_engine *engine = child->engine;
    char detail[KOLO_DETAIL_MAX];
    kolo_detail_keep(detail);
    kolo_engine_enter(engine);
    kolo_comm_fail_here(child, status, detail);
    if (is_of_split)
        kolo_comm_tell_store(engine, child->number, child->ranks, child->size);
    kolo_comm_close(child);
    kolo_comm_free(child);
    kolo_engine_leave(engine);
    kolo_detail_set(detail);
}

/** Opens @p child, unless its parent has failed: then nobody waits for this rank in it. */
static kolo_status open_child(struct kolo_comm *child, struct kolo_comm *parent,
                              const struct kolo_seat *seat)
{
    struct kolo_engine *engine = child->engine;
    kolo_status status = KOLO_OK;
    kolo_engine_enter(engine);
    if (parent && parent->failure.status != KOLO_OK) {
        kolo_comm_tell_store(engine, seat->number, child->ranks, seat->size);
        status = kolo_comm_failed(parent, NULL);
    } else {
        kolo_comm_open(child, seat->number, seat->rank, seat->size);
        kolo_comm_count_local(child);
        child->parent = parent;
        child->is_unmet = true;
        kolo_comm_hear(child);
    }
    kolo_engine_leave(engine);
    return status;
}

/** The end of the meeting, in which this rank had @p status: KOLO_OK if @p child is made. It also
 * is if it failed after some member had met all; it is not if it failed before that. */
static kolo_status end_meeting(struct kolo_comm *child, kolo_status status)
{
    kolo_engine_enter(child->engine);
    const bool has_failed = child->failure.status != KOLO_OK;
    if (has_failed && !child->is_unmet)
        status = KOLO_OK;
    else if (has_failed && status == KOLO_OK)
        status = kolo_comm_failed(child, NULL);
    if (status == KOLO_OK) {
        child->parent = NULL;
        child->orphan_by = 0;
        child->is_unmet = false;
    }
    kolo_engine_leave(child->engine);
    return status;
}

kolo_status kolo_comm_meet(struct kolo_comm *child, struct kolo_comm *parent,
                           const struct kolo_seat *seat, const char *function,
                           const struct kolo_opts *opts, kolo_deadline deadline)
{
    struct kolo_task task = {.kind = KOLO_CALL_BARRIER,
                             .function = function,
                             .opts = opts,
                             .is_own = true,
                             .is_meeting = parent != NULL};
    if (deadline == 0)
        deadline = kolo_deadline_in_ms(kolo_task_timeout_ms(child, &task));
    task.deadline = deadline;
    kolo_status status = open_child(child, parent, seat);
    if (status != KOLO_OK) {
        kolo_comm_free(child);
        return status;
    }
    status = kolo_task_run(child, &task);
    if (status == KOLO_OK)
        status = kolo_nest_open(child, deadline);
    status = end_meeting(child, status);
    if (status != KOLO_OK)
        give_up(child, parent != NULL, status);
    return status;
}

/* ---- the calls ---- */

/** This rank cannot take part in the exchange, for which the others wait: it loses the
 * communicator, if that is not lost already. This thread's detail says why. */
static kolo_status cannot_exchange(struct kolo_comm *comm, const struct making *making)
{
    char who[KOLO_RANK_TEXT_MAX], text[KOLO_DETAIL_MAX];
    snprintf(text, sizeof text, "%s: %s cannot exchange lists with the %d members: %s",
             making->function, kolo_comm_rank_text(comm, comm->rank, who), comm->size,
             kolo_error_detail());
    kolo_comm_enter(comm);
    kolo_comm_fail(comm, KOLO_ERR_SYSTEM, text);
    const kolo_status status = kolo_comm_failed(comm, NULL);
    kolo_comm_leave(comm);
    return status;
}

/** The exchange. A rank that cannot even begin it must not leave the others waiting. */
static kolo_status exchange(struct kolo_comm *comm, const struct making *making,
                            const struct kolo_task *task)
{
    const kolo_status status = kolo_task_run(comm, task);
    if (status == KOLO_OK)
        return KOLO_OK;
    kolo_comm_enter(comm);
    const bool has_failed = comm->failure.status != KOLO_OK;
    kolo_comm_leave(comm);
    return has_failed ? status : cannot_exchange(comm, making);
}

/** Takes numbers for the new communicators. The store has half of the time, so that members can
 * still tell each other that it gives none. If the communicator is lost, the exchange fails too. */
static void take_numbers(struct kolo_comm *comm, struct making *making)
{
    const int half_ms = kolo_deadline_poll_ms(making->deadline) / 2;
    const int count = making->kind == KOLO_CALL_DUP ? 1 : comm->size;
    const kolo_status status = kolo_numbers_take(comm, making->function, count,
                                                 half_ms > 0 ? half_ms : 1, &making->mine.first);
    if (status != KOLO_OK && making->mine.fault == FAULT_NONE) {
        making->mine.fault = FAULT_NUMBERS;
        kolo_detail_keep(making->why_none);
    }
}

/** Before the exchange: allocates memory and, on member 0, takes numbers. A failure is offered to
 * the others as a fault, so that all refuse; only without the table there is no exchange. */
static kolo_status prepare(struct kolo_comm *comm, struct making *making)
{
    size_t n = (size_t)comm->size;
    making->table = kolo_calloc(n, sizeof *making->table);
    making->places = kolo_calloc(n, sizeof *making->places);
    if (!making->table || !making->places)
        return cannot_exchange(comm, making);
    if (making->mine.fault == FAULT_NONE &&
        kolo_comm_create(comm->engine, comm->size, &making->child) != KOLO_OK)
        making->mine.fault = FAULT_MEMORY;
    if (comm->rank == 0)
        take_numbers(comm, making);
    return KOLO_OK;
}

/** When the members must have met. All of them come at once, since all have the table; so a member
 * that got it just before the deadline does not give up what the others already have. A nest is
 * made while its communicator is, which nobody has yet. */
static kolo_deadline meet_by(const struct making *making)
{
    const kolo_deadline soonest = kolo_deadline_in_ms(MEETING_MS);
    const bool has_more = making->inside || making->deadline > soonest;
    return has_more ? making->deadline : soonest;
}

/** @p task: the exchange. */
static kolo_status make(struct kolo_comm *comm, struct making *making, struct kolo_task *task,
                        struct kolo_comm **new_out)
{
    struct kolo_seat seat = {0};
    kolo_status status;
    KOLO_TRY(prepare(comm, making));
    task->recv = making->table;
    KOLO_TRY(exchange(comm, making, task));
    KOLO_TRY(check_table(comm, making));
    if (making->mine.colour == KOLO_NO_COLOUR)
        goto out;
    choose_members(comm, making->table, making->places, making->child, &seat);
    making->child->is_inner = making->inside != NULL;
    if (making->inside)
        snprintf(making->child->origin, sizeof making->child->origin, "%s", making->inside);
    else if (making->kind == KOLO_CALL_SPLIT)
        snprintf(making->child->origin, sizeof making->child->origin, "split colour %d",
                 (int)making->mine.colour);
    else
        snprintf(making->child->origin, sizeof making->child->origin, "dup");
    struct kolo_comm *child = making->child;
    making->child = NULL; /* kolo_comm_meet frees it on failure */
    KOLO_TRY(kolo_comm_meet(child, comm, &seat, making->function, making->opts, meet_by(making)));
    *new_out = child;
out:
    return status;
}

/** Waits until the calls of other threads that came first have made their communicators. If that
 * takes too long, the others wait for this rank in its exchange: as any call that waits behind
 * another, it loses the communicator. Held: lock. */
static kolo_status take_turn(struct kolo_comm *comm, const struct making *making)
{
    char text[KOLO_DETAIL_MAX];
    const kolo_status status = kolo_turn_take(comm, &comm->creating, making->deadline);
    if (status == KOLO_OK || comm->failure.status != KOLO_OK)
        return status;
    snprintf(text, sizeof text,
             "%s: another thread's kolo_split or kolo_dup of this communicator, which came first, "
             "took until the deadline",
             making->function);
    kolo_comm_fail_here(comm, KOLO_ERR_TIMEOUT, text);
    return kolo_comm_failed(comm, NULL);
}

/** Checks the call, and makes the communicator when it is this call's turn. */
static kolo_status check_and_make(struct kolo_comm *comm, struct making *making,
                                  struct kolo_comm **new_out)
{
    struct kolo_task task = {.kind = making->kind,
                             .function = making->function,
                             .send = &making->mine,
                             .count = OFFER_INTS,
                             .dtype = KOLO_INT32,
                             .is_own = true,
                             .opts = making->opts};
    kolo_status status;
    KOLO_TRY(kolo_task_check(comm, &task));
    KOLO_TRY(kolo_group_none(comm, making->function));
    making->deadline = task.deadline = kolo_deadline_in_ms(kolo_task_timeout_ms(comm, &task));
    kolo_comm_enter(comm);
    status = take_turn(comm, making);
    kolo_comm_leave(comm);
    if (status != KOLO_OK)
        return status;
    status = make(comm, making, &task, new_out);
    kolo_comm_enter(comm);
    kolo_turn_give(comm, &comm->creating);
    kolo_comm_leave(comm);
out:
    return status;
}

static kolo_status run(struct kolo_comm *comm, struct making *making, struct kolo_comm **new_out)
{
    kolo_status status = kolo_comm_check(comm, making->function);
    if (status != KOLO_OK)
        return status;
    if (new_out)
        *new_out = NULL;
    else
        making->mine.fault = FAULT_OUT;
    kolo_comm_enter(comm);
    kolo_engine_creating(comm->engine);
    kolo_comm_leave(comm);
    status = check_and_make(comm, making, new_out);
    kolo_comm_enter(comm);
    kolo_engine_created(comm->engine);
    kolo_comm_leave(comm);
    kolo_comm_free(making->child);
    kolo_free_memory(making->table);
    kolo_free_memory(making->places);
    return status;
}

kolo_status kolo_split(struct kolo_comm *comm, int colour, int key, const struct kolo_opts *opts,
                       struct kolo_comm **new_out)
{
    struct making making = {.kind = KOLO_CALL_SPLIT,
                            .function = "kolo_split",
                            .opts = opts,
                            .mine = {.colour = colour, .key = key}};
    if (colour < 0 && colour != KOLO_NO_COLOUR)
        making.mine.fault = FAULT_COLOUR;
    return run(comm, &making, new_out);
}

kolo_status kolo_split_inside(struct kolo_comm *comm, int colour, const char *origin,
                              kolo_deadline deadline, struct kolo_comm **new_out)
{
    const int left_ms = kolo_deadline_poll_ms(deadline);
    /* the name tells a rank with another setting what it has met */
    const struct kolo_opts opts = {
        .size = sizeof opts, .timeout_ms = left_ms > 0 ? left_ms : 1, .name = "KOLO_NESTED_BYTES"};
    struct making making = {.kind = KOLO_CALL_SPLIT,
                            .function = "kolo_split",
                            .opts = &opts,
                            .inside = origin,
                            .mine = {.colour = colour, .key = 0}};
    return run(comm, &making, new_out);
}

kolo_status kolo_dup(struct kolo_comm *comm, const struct kolo_opts *opts,
                     struct kolo_comm **new_out)
{
    struct making making = {.kind = KOLO_CALL_DUP, .function = "kolo_dup", .opts = opts};
    return run(comm, &making, new_out);
}
