// SPDX-License-Identifier: Apache-2.0
// How a communicator fails: what links and store report, which cause wins, and who is told. Ranks
// that call different things are in mismatch.c, timeouts in timers.c.
//
// A broken link is only a suspicion at first: within milliseconds the store may know that the rank
// was killed, and by what. A verdict of the store, a mismatch, an abort or a deadline is the
// failure at once. The first failure ends every request on this rank, and is reported to the store
// and over all links, so that all ranks end with the same words. Later calls return it.
//
//   fine --suspect(grace)--> suspected --deadline, or a better cause--> failed
//     \------------------suspect(0), fail()------------------------------^
//
// Event functions only take notes, because they run inside the endpoint.
#include "runtime/failure.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/comm.h"
#include "runtime/finalized.h"
#include "runtime/loans.h"
#include "runtime/mismatch.h"
#include "runtime/timers.h"

/* ---- causes ---- */

/** What may become a communicator's suspicion (struct kolo_suspicion). */
struct cause {
    kolo_status status;
    int peer;
    int64_t grace_ms;
    bool is_from_store;
    const char *text;
};

/** Programs do not know links: they are told that the peer is lost, and the text says how. */
static void take_note(struct kolo_comm *comm, const struct cause *cause)
{
    struct kolo_suspicion *suspicion = &comm->suspicion;
    kolo_deadline deadline = kolo_deadline_in_ms(cause->grace_ms);
    if (comm->failure.status != KOLO_OK)
        return;
    if (suspicion->status != KOLO_OK && suspicion->deadline <= deadline)
        return;
    suspicion->status = cause->status == KOLO_ERR_LINK ? KOLO_ERR_PEER : cause->status;
    suspicion->peer = cause->peer;
    suspicion->deadline = deadline;
    suspicion->is_from_store = cause->is_from_store;
    snprintf(suspicion->text, sizeof suspicion->text, "%s", cause->text);
    comm->engine->next_timer = kolo_deadline_min(comm->engine->next_timer, deadline);
    kolo_comm_set_busy(comm);
}

void kolo_comm_suspect(struct kolo_comm *comm, int peer, kolo_status status, int64_t grace_ms,
                       const char *format, ...)
{
    char text[KOLO_DETAIL_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    take_note(comm,
              &(struct cause){.status = status, .peer = peer, .grace_ms = grace_ms, .text = text});
}

/** Whether this rank itself lacks something: no peer is at fault then. */
static bool is_own(kolo_status status)
{
    return status == KOLO_ERR_SYSTEM || status == KOLO_ERR_NO_MEMORY;
}

/** How long another cause may come, of what was found on a link if @p of_link. What this rank lacks
 * is certain; other ranks only see a link that breaks because of it, and shall hear of it before
 * they take that for the cause, also where all ranks share one processor. Beside links it may
 * follow from another rank's end: a device fails whose neighbour's memory is gone. Nobody knows
 * more about bytes that were changed on their way than the rank that has them. */
static int64_t grace_of(kolo_status status, bool of_link)
{
    if (status == KOLO_ERR_DATA || (of_link && is_own(status)))
        return 0;
    return is_own(status) ? KOLO_VERDICT_GRACE_MS / 3 : KOLO_VERDICT_GRACE_MS;
}

void kolo_comm_suspect_link(struct kolo_comm *comm, int peer, kolo_status status, const char *text)
{
    char who[KOLO_RANK_TEXT_MAX], me[KOLO_RANK_TEXT_MAX];
    kolo_comm_rank_text(comm, peer, who);
    kolo_comm_rank_text(comm, comm->rank, me);
    if (is_own(status))
        kolo_comm_suspect(comm, peer, status, grace_of(status, true), "%s, for its link to %s: %s",
                          me, who, text);
    else
        kolo_comm_suspect(comm, peer, status, grace_of(status, true), "%s, as %s sees it: %s", who,
                          me, text);
}

void kolo_comm_suspect_here(struct kolo_comm *comm, int peer, kolo_status status)
{
    char me[KOLO_RANK_TEXT_MAX];
    const char *detail = kolo_error_detail();
    const char *text = detail[0] != '\0' ? detail : kolo_status_text(status);
    if (peer >= 0)
        kolo_comm_suspect_link(comm, peer, status, text);
    else
        kolo_comm_suspect(comm, -1, status, grace_of(status, false), "%s: %s",
                          kolo_comm_rank_text(comm, comm->rank, me), text);
}

/* ---- failures of communicators that do not exist here yet ---- */

/** A failure that another rank or the store reports. */
struct report {
    uint32_t scope; /* a communicator's number, KOLO_STORE_RANK or KOLO_STORE_JOB */
    int rank;       /* whose loss it is, for KOLO_STORE_RANK */
    kolo_status status;
    bool is_from_store;
    const char *text;
};

/** One that came before this rank had the communicator, or all of them. */
struct kolo_early_failure {
    struct report report;
    char text[KOLO_DETAIL_MAX];
    struct kolo_early_failure *next;
};

void kolo_engine_creating(struct kolo_engine *engine)
{
    engine->creating++;
}

void kolo_engine_created(struct kolo_engine *engine)
{
    if (--engine->creating > 0)
        return;
    while (engine->early_failures) {
        struct kolo_early_failure *early = engine->early_failures;
        engine->early_failures = early->next;
        kolo_free_memory(early);
    }
}

/** Keeps a failure for the communicators that are just being made. */
static void keep(struct kolo_engine *engine, const struct report *report)
{
    if (engine->creating == 0)
        return;
    struct kolo_early_failure *early = kolo_calloc(1, sizeof *early);
    if (!early)
        return; /* their first calls will fail by their deadlines */
    snprintf(early->text, sizeof early->text, "%s", report->text);
    early->report = *report;
    early->report.text = early->text;
    early->next = engine->early_failures;
    engine->early_failures = early;
}

/** Whether this rank, at its own deadline, has words that another rank's timeout lacks: if all
 * ranks are in the call and none waits for its own device, the way between some two of them is bad,
 * and only these two know. */
static bool has_own_view(const struct kolo_comm *comm, kolo_status status, const char *text)
{
    const struct kolo_suspicion *mine = &comm->suspicion;
    return status == KOLO_ERR_TIMEOUT && mine->status == KOLO_ERR_TIMEOUT &&
           strncmp(text, mine->text, strlen(mine->text)) != 0 && !strstr(text, KOLO_STORE_ABSENT) &&
           !kolo_own_is_in(text);
}

/** Another rank reports that @p comm has failed. If that rank had met all members, they have all
 * opened it, so its making has succeeded. */
static void reported(struct kolo_comm *comm, const struct report *report)
{
    struct cause cause = {.status = report->status,
                          .peer = -1,
                          .is_from_store = report->is_from_store,
                          .text = report->text};
    char both[KOLO_DETAIL_MAX];
    if (report->scope == comm->number)
        comm->is_unmet = false;
    if (has_own_view(comm, cause.status, cause.text)) {
        snprintf(both, sizeof both, "%s; and %s", cause.text, comm->suspicion.text);
        cause.text = both;
    }
    take_note(comm, &cause);
}

/** Another rank reports that a communicator has failed; the scope is its number, maybe with
 * KOLO_STORE_UNMET. */
static void heard(struct kolo_engine *engine, const struct report *report)
{
    struct kolo_comm *comm = kolo_engine_comm(engine, report->scope & ~KOLO_STORE_UNMET);
    if (comm)
        reported(comm, report);
    else
        keep(engine, report); /* or this rank has finalized it */
}

/** Whether the failure is one of the communicator @p comm. */
static bool concerns(const struct kolo_comm *comm, const struct report *report)
{
    if (report->scope == KOLO_STORE_RANK)
        return kolo_comm_member(comm, report->rank) >= 0;
    return report->scope == KOLO_STORE_JOB || (report->scope & ~KOLO_STORE_UNMET) == comm->number;
}

void kolo_comm_hear(struct kolo_comm *comm)
{
    for (const struct kolo_early_failure *at = comm->engine->early_failures; at; at = at->next)
        if (concerns(comm, &at->report))
            reported(comm, &at->report);
}

/* ---- becoming a failure ---- */

static void fail(struct kolo_comm *comm, kolo_status status, const char *text, bool tell);

/** The parent of @p child has failed. If @p child is being made, some member that the parent has
 * lost may never open it; but if all have, they meet in a moment, and it is made. */
static void orphan(struct kolo_comm *child, bool tell)
{
    const struct kolo_failure *cause = &child->parent->failure;
    if (child->is_inner || !child->is_unmet) {
        fail(child, cause->status, cause->text, tell);
        return;
    }
    child->orphan_by = kolo_deadline_in_ms(KOLO_VERDICT_GRACE_MS);
    child->engine->next_timer = kolo_deadline_min(child->engine->next_timer, child->orphan_by);
    kolo_comm_set_busy(child);
}

/** The suspected peer had said goodbye to the store, so it is no surprise that it cannot be
 * reached. But over a link that was up it would have said goodbye too, behind what it sent: if that
 * link broke, the cause is what broke it. */
static void blame_leaving(const struct kolo_comm *comm, struct kolo_suspicion *suspicion)
{
    char who[KOLO_RANK_TEXT_MAX], me[KOLO_RANK_TEXT_MAX];
    const char *broken = kolo_endpoint_broken_link(comm->engine->endpoint,
                                                   kolo_comm_world_rank(comm, suspicion->peer));
    kolo_comm_rank_text(comm, suspicion->peer, who);
    suspicion->status = KOLO_ERR_PEER;
    if (broken)
        snprintf(suspicion->text, sizeof suspicion->text,
                 "%s has left (finalized its communicator), and its link to %s broke before all "
                 "had come: %s",
                 who, kolo_comm_rank_text(comm, comm->rank, me), broken);
    else
        snprintf(suspicion->text, sizeof suspicion->text,
                 "%s has left (finalized its communicator)", who);
}

void kolo_comm_settle(struct kolo_comm *comm)
{
    struct kolo_suspicion *suspicion = &comm->suspicion;
    if (comm->must_report)
        kolo_comm_report(comm);
    if (comm->orphan_by != 0 && kolo_deadline_passed(comm->orphan_by))
        kolo_comm_fail(comm, comm->parent->failure.status, comm->parent->failure.text);
    if (suspicion->status == KOLO_OK || comm->failure.status != KOLO_OK ||
        !kolo_deadline_passed(suspicion->deadline))
        return;
    bool is_loss =
        suspicion->status == KOLO_ERR_PEER || kolo_status_lost(suspicion->status) == KOLO_LOST_LINK;
    if (is_loss && suspicion->peer >= 0 && kolo_comm_left_ns(comm, suspicion->peer) != 0)
        blame_leaving(comm, suspicion);
    fail(comm, suspicion->status, suspicion->text, !suspicion->is_from_store);
}

static const char between[] = ", during "; /* the failure and its call */

/** Whether the message of such a failure needs "during allreduce(...)". */
static bool wants_during(kolo_status status)
{
    return status != KOLO_ERR_MISMATCH && status != KOLO_ERR_TIMEOUT;
}

static void say_during(const struct kolo_request *request, char *text, size_t capacity)
{
    char words[KOLO_WORDS_MAX];
    kolo_request_words(request, words, sizeof words);
    snprintf(text, capacity, "%s%s sequence %u", between, words, request->call.sequence);
}

/** Whether @p text names the call of @p during already, as it does if a frame was changed. */
static bool names_call(const char *text, const char *during)
{
    const char *call = during[0] != '\0' ? during + strlen(between) : during;
    const size_t length = strlen(call);
    const char *at = length > 0 ? strstr(text, call) : NULL;
    while (at && at[length] >= '0' && at[length] <= '9') /* of a longer number */
        at = strstr(at + 1, call);
    return at != NULL;
}

/** @p tell: the store and the links do not know of it yet. */
static void fail(struct kolo_comm *comm, kolo_status status, const char *text, bool tell)
{
    struct kolo_failure *failure = &comm->failure;
    struct kolo_request_list *lists[] = {&comm->collectives, &comm->messages.list};
    if (failure->status != KOLO_OK)
        return;
    bool is_quiet = comm->is_leaving && status != KOLO_ERR_MISMATCH;
    snprintf(failure->text, sizeof failure->text, "%s", text);
    const struct kolo_request *running =
        comm->collectives.first ? comm->collectives.first : comm->messages.list.first;
    if (running && wants_during(status))
        say_during(running, failure->during, sizeof failure->during);
    failure->status = status;
    comm->suspicion.status = KOLO_OK;
    if (tell && !is_quiet) {
        const uint32_t scope = kolo_comm_scope(comm);
        kolo_store_client_abort(comm->engine->store, scope, status, failure->text);
        kolo_endpoint_abort(comm->engine->endpoint, comm->ranks, comm->size, scope, status,
                            failure->text);
    }
    kolo_requests_calm(comm);
    for (int i = 0; i < 2; i++)
        while (lists[i]->first) {
            lists[i]->first->fell_with_comm = true;
            kolo_request_end(lists[i]->first, status);
        }
    for (struct kolo_comm *child = comm->engine->comms; child; child = child->listed.next)
        if (child->parent == comm)
            orphan(child, !is_quiet);
    kolo_engine_news(comm->engine);
    if (comm->engine->is_sleeping)
        kolo_endpoint_wake(comm->engine->endpoint);
}

void kolo_comm_fail(struct kolo_comm *comm, kolo_status status, const char *text)
{
    fail(comm, status, text, true);
}

void kolo_comm_fail_quietly(struct kolo_comm *comm, kolo_status status, const char *text)
{
    fail(comm, status, text, false);
}

void kolo_comm_fail_here(struct kolo_comm *comm, kolo_status status, const char *what)
{
    char who[KOLO_RANK_TEXT_MAX], text[KOLO_DETAIL_MAX];
    snprintf(text, sizeof text, "%s: %s", kolo_comm_rank_text(comm, comm->rank, who), what);
    kolo_comm_fail(comm, status, text);
}

bool kolo_comm_failed_after_start(const struct kolo_comm *world)
{
    const kolo_status status = world->failure.status;
    return status == KOLO_ERR_PEER || (status != KOLO_OK && !world->is_unmet);
}

kolo_status kolo_comm_failed(struct kolo_comm *comm, const struct kolo_request *request)
{
    struct kolo_failure *failure = &comm->failure;
    char during[sizeof failure->during] = "";
    failure->is_told = true;
    if (!wants_during(failure->status))
        return kolo_fail(failure->status, "%s", failure->text);
    if (request && failure->during[0] == '\0') /* it came between two calls */
        say_during(request, failure->during, sizeof failure->during);
    if (request && request->fell_with_comm)
        say_during(request, during, sizeof during);
    const char *call = during[0] != '\0' ? during : failure->during;
    return kolo_fail(failure->status, "%s%s", failure->text,
                     names_call(failure->text, call) ? "" : call);
}

kolo_status kolo_comm_last_word(struct kolo_comm *comm)
{
    const struct kolo_failure *failure = &comm->failure;
    const bool is_news = failure->status == KOLO_ERR_MISMATCH && !failure->is_told;
    return is_news && comm->is_open ? kolo_comm_failed(comm, NULL) : KOLO_OK;
}

/* ---- events ---- */

static void on_aborted(void *context, int world_rank, uint32_t scope, kolo_status why,
                       const char *text)
{
    (void)world_rank;
    heard(context, &(struct report){.scope = scope, .rank = -1, .status = why, .text = text});
}

static void on_finalized(void *context, int world_rank, uint32_t number, uint32_t sequence)
{
    struct kolo_comm *comm = kolo_engine_comm(context, number);
    int rank = comm ? kolo_comm_member(comm, world_rank) : -1;
    if (rank >= 0) /* otherwise this rank has finalized it too */
        kolo_comm_hear_finalized(comm, rank, sequence);
}

static void on_recalled(void *context, int world_rank, uint64_t number)
{
    kolo_loans_recalled(context, world_rank, number);
}

static void on_returned(void *context, int world_rank, uint64_t number)
{
    kolo_loans_returned(context, world_rank, number);
}

/** Works that need this rank fail with ERR_PEER; the waiting call reports that. */
static void on_left(void *context, int world_rank)
{
    struct kolo_engine *engine = context;
    engine->has_left = true;
    kolo_loans_gone(engine, world_rank);
}

static void on_down(void *context, int world_rank, kolo_status why, const char *text)
{
    struct kolo_engine *engine = context;
    kolo_loans_gone(engine, world_rank);
    for (struct kolo_comm *comm = engine->comms; comm; comm = comm->listed.next) {
        int peer = kolo_comm_member(comm, world_rank);
        if (peer >= 0)
            kolo_comm_suspect_link(comm, peer, why, text);
    }
}

static void on_store_failed(void *context, int rank, uint32_t scope, kolo_status why,
                            const char *text)
{
    struct kolo_engine *engine = context;
    const struct report report = {scope, rank, why, true, text};
    const struct cause cause = {.status = why, .peer = -1, .is_from_store = true, .text = text};
    if (scope != KOLO_STORE_RANK && scope != KOLO_STORE_JOB) {
        heard(engine, &report);
        return;
    }
    engine->has_lost_first |= scope == KOLO_STORE_RANK && rank == 0;
    keep(engine, &report); /* an answer of the store may still count on it */
    for (struct kolo_comm *comm = engine->comms; comm; comm = comm->listed.next)
        if (concerns(comm, &report))
            take_note(comm, &cause);
}

static void on_store_left(void *context, int rank)
{
    struct kolo_engine *engine = context;
    if (rank < 0 || rank >= engine->size)
        return;
    engine->left_ns[rank] = kolo_now_ns();
    engine->has_left = true;
}

static void on_store_lost(void *context)
{
    struct kolo_engine *engine = context;
    bool is_launched = engine->settings.launcher[0] != '\0';
    char who[KOLO_RANK_TEXT_MAX];
    if (!is_launched && engine->left_ns[0] != 0)
        return; /* rank 0 served it, and has left regularly */
    for (struct kolo_comm *comm = engine->comms; comm; comm = comm->listed.next)
        if (is_launched || kolo_comm_member(comm, 0) >= 0)
            kolo_comm_suspect(comm, -1, KOLO_ERR_PEER, KOLO_VERDICT_GRACE_MS,
                              "the connection to the job's store was lost: %s%s ended",
                              is_launched ? engine->settings.launcher
                                          : kolo_engine_rank_text(engine, 0, who),
                              is_launched ? "" : ", which served it,");
}

/** The thread that asked may wait while another one is the progressor. */
static void on_store_answered(void *context)
{
    kolo_engine_news(context);
}

void kolo_engine_events(struct kolo_engine *engine, struct kolo_endpoint_events *endpoint_out,
                        struct kolo_store_client_events *store_out)
{
    *endpoint_out = (struct kolo_endpoint_events){.context = engine,
                                                  .mismatch = kolo_mismatch_found,
                                                  .early = kolo_mismatch_look,
                                                  .aborted = on_aborted,
                                                  .finalized = on_finalized,
                                                  .left = on_left,
                                                  .down = on_down,
                                                  .recalled = on_recalled,
                                                  .returned = on_returned,
                                                  .words = kolo_mismatch_words};
    *store_out = (struct kolo_store_client_events){.context = engine,
                                                   .failed = on_store_failed,
                                                   .left = on_store_left,
                                                   .lost = on_store_lost,
                                                   .answered = on_store_answered};
}
