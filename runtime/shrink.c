// SPDX-License-Identifier: Apache-2.0
// kolo_shrink: makes a new communicator of the members that survive.
//
// The store knows which ranks died and which left, so it decides. Each survivor asks it, and all of
// them get the same answer, once it is certain that every other member is gone. If two live members
// can no longer reach each other, the store leaves out one of them. The survivors then meet as
// after a split, for at most KOLO_PEER_TIMEOUT. If another rank dies before all have met, or one
// cannot be reached, the members that noticed it ask again, for the survivors of the communicator
// that has just failed. Members that had already met notice it in their first call on that
// communicator.
//
// The meeting has a second even if the call's time is over: others may meet and go on, and nobody
// would come to the first communicator any more. If the time is over all the same before a
// communicator of all is made, or a rank lacks memory for it, the program may call again, and this
// rank asks for the survivors of the one that is half made, as the others do. What this rank needs
// for its part is allocated before it asks, since the others count on it once they have the answer.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/finalized.h"
#include "runtime/numbers.h"
#include "runtime/scale.h"
#include "runtime/split.h"
#include "runtime/store_stall.h"
#include "runtime/submit.h"

/* How much longer than the store this rank waits, so that the store can say which rank it waited
 * for. */
enum { ANSWER_GRACE_MS = 1000 };

/* How long the survivors may take to meet, at least. */
enum { MEETING_MS = 1000 };

struct shrinking {
    struct kolo_engine *engine;
    const struct kolo_opts *opts;
    kolo_deadline deadline;
    uint32_t number; /* number of the communicator that failed */
    bool may_resume; /* after a failure: another call may go on from there */
    int size;
    int *ranks; /* its members' ranks in the world, in order */
    uint8_t *bits, *lost;
    struct kolo_store_call call;
};

/** Waits for the store's answer. Held: lock. */
static kolo_status await(struct shrinking *shrinking)
{
    struct kolo_engine *engine = shrinking->engine;
    struct kolo_store_call *call = &shrinking->call;
    const kolo_deadline deadline = kolo_deadline_plus_ms(shrinking->deadline, ANSWER_GRACE_MS);
    (void)kolo_engine_await(engine, NULL, &call->status, deadline);
    if (call->status == KOLO_AGAIN) {
        kolo_store_client_cancel(engine->store, call);
        return kolo_fail(KOLO_ERR_TIMEOUT, "kolo_shrink: the job's store did not answer in time");
    }
    if (call->status == KOLO_OK)
        return KOLO_OK;
    if (call->status == KOLO_ERR_PEER && !call->is_answered)
        return kolo_fail(
            KOLO_ERR_PEER,
            "kolo_shrink: the job's store is gone, and only it knows the survivors (%s): %s",
            call->why,
            engine->settings.launcher[0] != '\0'
                ? "the launcher ended"
                : "rank 0 served it; under kolorun --keep-going any rank may die");
    return kolo_fail(call->status, "kolo_shrink: %s",
                     call->why[0] != '\0' ? call->why : kolo_status_text(call->status));
}

/** Names the members, and as lost those whose link has failed: a rank at the other end that is
 * still alive is not reached again. Held: lock. */
static void name_members(struct shrinking *shrinking)
{
    size_t bytes = kolo_stall_bits_bytes(shrinking->engine->size);
    memset(shrinking->bits, 0, bytes);
    memset(shrinking->lost, 0, bytes);
    for (int i = 0; i < shrinking->size; i++) {
        int rank = shrinking->ranks[i];
        uint8_t bit = (uint8_t)(1u << (rank % 8));
        shrinking->bits[rank / 8] |= bit;
        if (kolo_endpoint_link_fell(shrinking->engine->endpoint, rank))
            shrinking->lost[rank / 8] |= bit;
    }
}

/** Asks the store which ranks survive; the answer is put into shrinking->bits. */
static kolo_status ask(struct shrinking *shrinking)
{
    struct kolo_engine *engine = shrinking->engine;
    size_t bytes = kolo_stall_bits_bytes(engine->size);
    kolo_status status;
    int left_ms = kolo_deadline_poll_ms(shrinking->deadline);
    kolo_engine_enter(engine);
    name_members(shrinking);
    const struct kolo_store_loss loss = {.number = shrinking->number,
                                         .timeout_ms = left_ms < 0 ? UINT32_MAX : (uint32_t)left_ms,
                                         .members = shrinking->bits,
                                         .lost = shrinking->lost,
                                         .survivors = shrinking->bits};
    kolo_store_client_shrink(engine->store, &loss, &shrinking->call);
    status = await(shrinking);
    kolo_engine_leave(engine);
    if (status == KOLO_OK && shrinking->call.bytes != bytes)
        status = kolo_fail(KOLO_ERR_PROTOCOL, "kolo_shrink: the store names survivors in %zu bytes",
                           shrinking->call.bytes);
    return status;
}

/** Reduces shrinking->ranks to the survivors, in their old order, and finds this rank's place. */
static kolo_status keep_survivors(struct shrinking *shrinking, struct kolo_seat *seat)
{
    int kept = 0, mine = -1;
    for (int i = 0; i < shrinking->size; i++) {
        int rank = shrinking->ranks[i];
        if (!((shrinking->bits[rank / 8] >> (rank % 8)) & 1))
            continue;
        if (rank == shrinking->engine->rank)
            mine = kept;
        shrinking->ranks[kept++] = rank;
    }
    if (mine < 0 || shrinking->call.sum <= 0 || shrinking->call.sum >= KOLO_COMMS_MAX)
        return kolo_fail(KOLO_ERR_PROTOCOL, "kolo_shrink: the store's answer makes no sense");
    shrinking->size = kept;
    *seat = (struct kolo_seat){(uint32_t)shrinking->call.sum, mine, kept};
    return KOLO_OK;
}

/** How long to wait for the others. All have the answer and come at once, so one that takes longer
 * is a peer that cannot be reached; but one that got it just before its deadline does not give up
 * what the others may have. */
static int meeting_ms(const struct shrinking *shrinking)
{
    int64_t most_ms = shrinking->engine->settings.peer_timeout_ms;
    int left_ms = kolo_deadline_poll_ms(shrinking->deadline);
    if (left_ms >= 0 && left_ms < MEETING_MS)
        left_ms = MEETING_MS;
    return left_ms >= 0 && left_ms < most_ms ? left_ms : (int)most_ms;
}

/** Makes @p child the communicator of the survivors, and waits until all have it. */
static kolo_status meet(struct shrinking *shrinking, struct kolo_comm *child,
                        const struct kolo_seat *seat, struct kolo_comm **new_out)
{
    struct kolo_opts opts = kolo_opts_copy(shrinking->opts);
    kolo_status status;
    opts.timeout_ms = meeting_ms(shrinking);
    memcpy(child->ranks, shrinking->ranks, (size_t)shrinking->size * sizeof *child->ranks);
    snprintf(child->origin, sizeof child->origin, "survivors of %u", shrinking->number);
    KOLO_TRY(kolo_comm_meet(child, NULL, seat, "kolo_shrink", &opts, 0));
    *new_out = child;
out:
    return status;
}

/** Whether the survivors did not meet because another rank was lost or could not be reached. */
static bool is_loss(kolo_status status)
{
    return status == KOLO_ERR_PEER || status == KOLO_ERR_TIMEOUT ||
           kolo_status_lost(status) == KOLO_LOST_LINK;
}

/** One round. The memory for the communicator comes first: once the store has answered, the others
 * count on this rank. */
static kolo_status try_once(struct shrinking *shrinking, struct kolo_comm **new_out)
{
    struct kolo_comm *child = NULL;
    struct kolo_seat seat;
    kolo_status status;
    shrinking->may_resume = false;
    KOLO_TRY(kolo_comm_create(shrinking->engine, shrinking->size, &child));
    KOLO_TRY(ask(shrinking));
    KOLO_TRY(keep_survivors(shrinking, &seat));
    status = meet(shrinking, child, &seat, new_out);
    child = NULL; /* meet() has freed it if it failed */
    shrinking->number = seat.number;
    shrinking->may_resume = is_loss(status);
out:
    kolo_comm_free(child);
    return status;
}

static kolo_status shrink(struct shrinking *shrinking, struct kolo_comm **new_out)
{
    kolo_status status;
    do
        status = try_once(shrinking, new_out);
    while (shrinking->may_resume && !kolo_deadline_passed(shrinking->deadline));
    /* without memory it was not asked, or the survivors have no communicator */
    shrinking->may_resume |= status == KOLO_ERR_TIMEOUT || status == KOLO_ERR_NO_MEMORY;
    return status;
}

/* ---- begin and end ---- */

/** Begins with @p comm, or with what an earlier call has left half made of it. Held: lock. */
static void begin(struct shrinking *shrinking, const struct kolo_comm *comm)
{
    const struct kolo_half_made *half = &comm->half_made;
    shrinking->number = half->ranks ? half->number : comm->number;
    shrinking->size = half->ranks ? half->size : comm->size;
    for (int rank = 0; rank < shrinking->size; rank++)
        shrinking->ranks[rank] = half->ranks ? half->ranks[rank] : kolo_comm_world_rank(comm, rank);
}

/** Keeps what is half made for the next call. If there can be none that succeeds, tells the store
 * instead, so that members which have it do not wait for this rank. Held: lock. */
static void keep_half_made(struct kolo_comm *comm, struct shrinking *shrinking, kolo_status status)
{
    const bool is_half_made = status != KOLO_OK && shrinking->number != comm->number;
    const bool is_refused = status == KOLO_ERR_PEER && shrinking->call.is_answered;
    char detail[KOLO_DETAIL_MAX];
    kolo_free_memory(comm->half_made.ranks);
    comm->half_made = (struct kolo_half_made){0};
    if (is_half_made && shrinking->may_resume) {
        comm->half_made =
            (struct kolo_half_made){shrinking->number, shrinking->size, shrinking->ranks};
        shrinking->ranks = NULL;
        return;
    }
    comm->is_left_out = is_half_made || is_refused;
    if (!is_half_made)
        return;
    kolo_detail_keep(detail);
    kolo_comm_tell_store(comm->engine, shrinking->number, shrinking->ranks, shrinking->size);
    kolo_detail_set(detail);
}

/** The communicator that is being shrunk will fail, so that other ranks in a call on it do not wait
 * for this rank. Not at once: often a loss will soon make it fail, which until now only a
 * communicator made from it has met, and all ranks shall get that cause. Held: lock. */
static void give_up(struct kolo_comm *comm, kolo_deadline deadline)
{
    char who[KOLO_RANK_TEXT_MAX];
    const int quarter_ms = kolo_deadline_poll_ms(deadline) / 4;
    if (comm->failure.status != KOLO_OK)
        return;
    kolo_comm_suspect(comm, -1, KOLO_ERR_ABORTED,
                      quarter_ms < KOLO_VERDICT_GRACE_MS ? quarter_ms : KOLO_VERDICT_GRACE_MS,
                      "%s shrinks the communicator", kolo_comm_rank_text(comm, comm->rank, who));
}

/** Now it fails, if it has not. Held: lock. */
static void end(struct kolo_comm *comm)
{
    comm->suspicion.deadline = 0;
    kolo_comm_settle(comm);
}

kolo_status kolo_shrink(struct kolo_comm *comm, const struct kolo_opts *opts,
                        struct kolo_comm **new_out)
{
    const struct kolo_task task = {.function = "kolo_shrink", .is_own = true, .opts = opts};
    kolo_status status = kolo_task_check(comm, &task);
    if (status != KOLO_OK)
        return status;
    if (!new_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_shrink: new_out is NULL");
    *new_out = NULL;
    if (comm->is_left_out)
        return kolo_fail(KOLO_ERR_PEER,
                         "kolo_shrink: an earlier call on communicator %u failed on "
                         "this rank, and the others went on without it",
                         comm->number);
    struct kolo_engine *engine = comm->engine;
    int64_t timeout_ms =
        opts && opts->timeout_ms > 0 ? opts->timeout_ms : engine->settings.timeout_ms;
    struct shrinking shrinking = {
        .engine = engine, .opts = opts, .deadline = kolo_deadline_in_ms(timeout_ms)};
    shrinking.ranks = kolo_calloc((size_t)comm->size, sizeof *shrinking.ranks);
    shrinking.bits = kolo_calloc(kolo_stall_bits_bytes(engine->size), 1);
    shrinking.lost = kolo_calloc(kolo_stall_bits_bytes(engine->size), 1);
    status = KOLO_ERR_NO_MEMORY;
    if (shrinking.ranks && shrinking.bits && shrinking.lost) {
        kolo_engine_enter(engine);
        begin(&shrinking, comm);
        give_up(comm, shrinking.deadline);
        kolo_engine_creating(engine);
        kolo_engine_leave(engine);
        status = shrink(&shrinking, new_out);
        kolo_engine_enter(engine);
        keep_half_made(comm, &shrinking, status);
        kolo_engine_created(engine);
        end(comm);
        kolo_engine_leave(engine);
    }
    kolo_free_memory(shrinking.ranks);
    kolo_free_memory(shrinking.bits);
    kolo_free_memory(shrinking.lost);
    return status;
}
