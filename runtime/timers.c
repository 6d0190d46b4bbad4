// SPDX-License-Identifier: Apache-2.0
// The timers of a communicator: deadlines, and calls that stall. If nothing has moved in a call at
// two checks in a row, half of KOLO_STALL apart, it is reported to the store: which call it is, and
// which ranks this one needs. The store compares the reports of all ranks; here only ranks that
// have left or are stopped are looked for.
#include "runtime/timers.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "runtime/comm.h"
#include "runtime/finalized.h"
#include "runtime/local.h"
#include "runtime/mismatch.h"
#include "runtime/nested.h"
#include "runtime/store_stall.h"
#include "runtime/stream.h"

/* The most ranks that are asked for of those that a request waits for. */
enum { WAITS_MAX = 64, QUIET_TICKS = 2 /* checks in a row at which nothing had moved */ };
enum { CHECK_SHARE = 19 /* a pause is at least that many times as long as the check before it */ };

/* ---- what a rank waits for itself ---- */

/** What the data of a request waits for whose route waits for no rank. */
static enum kolo_own_wait own_wait_of_stage(enum kolo_staging stage)
{
    switch (stage) {
    case KOLO_STAGING_IN:
    case KOLO_STAGING_FLOWS:
        return KOLO_OWN_INPUT;
    case KOLO_STAGING_DIRECT:
    case KOLO_STAGING_LENT:
        return KOLO_OWN_WORK;
    case KOLO_STAGING_OUT:
        return KOLO_OWN_RESULT;
    case KOLO_STAGING_NONE:
    case KOLO_STAGING_BEHIND:
    case KOLO_STAGING_READY:
        break;
    }
    return KOLO_OWN_NONE;
}

/** Whether the call has its turn, and waits for nothing but work of this rank's device, if for no
 * other rank; and for what. */
static enum kolo_own_wait own_wait(const struct kolo_comm *comm, const struct kolo_request *request)
{
    const struct kolo_request *inner[2] = {NULL, NULL};
    enum kolo_own_wait own = KOLO_OWN_NONE;
    int peer;
    const bool has_turn = kolo_request_is_message(request) || comm->collectives.first == request;
    if (kolo_follow_was_let_go(request))
        return KOLO_OWN_NONE;
    if (request->stage == KOLO_STAGING_BEHIND)
        return KOLO_OWN_STREAM;
    if (!has_turn || request->route->waits_for(request, &peer, 1) > 0)
        return KOLO_OWN_NONE;
    if (!request->nested)
        return own_wait_of_stage(request->stage);
    kolo_nested_running(request, inner);
    for (int i = 0; i < 2 && own == KOLO_OWN_NONE; i++)
        if (inner[i])
            own = own_wait(inner[i]->comm, inner[i]);
    return own;
}

/* ---- reports to the store ---- */

static void set_bit(const struct kolo_comm *comm, uint8_t *bits, int rank)
{
    int world_rank = kolo_comm_world_rank(comm, rank);
    bits[world_rank / 8] |= (uint8_t)(1u << (world_rank % 8));
}

/** Finds the ranks that a stalled call needs, a bit each: all members; but in a broadcast, which
 * may be over on some, only those that this rank waits for. */
static void find_needed(const struct kolo_comm *comm, const struct kolo_request *request,
                        uint8_t *bits)
{
    int peers[WAITS_MAX], count = WAITS_MAX;
    if (kolo_plan_is_open(request->plan, &request->args))
        count = request->route->waits_for(request, peers, WAITS_MAX);
    if (count > 0 && count < WAITS_MAX)
        for (int i = 0; i < count; i++)
            set_bit(comm, bits, peers[i]);
    else
        for (int rank = 0; rank < comm->size; rank++)
            set_bit(comm, bits, rank);
}

/** Whether a broadcast waits for other ranks than the store was last told. Over links only its root
 * asks, since the others wait for a rank that waits too or is missing. */
static bool has_changed(struct kolo_request *request, const uint8_t *bits, size_t bytes)
{
    const uint64_t before = request->stall.needed_reported;
    const uint64_t hash = kolo_hash(KOLO_HASH_START, bits, bytes);
    request->stall.needed_reported = hash;
    return before != hash && kolo_plan_is_open(request->plan, &request->args) &&
           (request->plan->on_board || request->call.root == request->comm->rank);
}

/** Writes the call, and the broadcast before it if that is open, since ranks that called that one
 * differently may differ in nothing else. */
static void say_with_last(const struct kolo_request *request, char *text, size_t capacity)
{
    char words[KOLO_WORDS_MAX];
    struct kolo_call last;
    const struct kolo_desc *past = kolo_comm_past(request->comm, request->call.sequence - 1);
    kolo_request_words(request, text, capacity);
    if (!past || request->call.history == 0)
        return;
    kolo_call_unpack(past, &last);
    kolo_call_words(&last, words, sizeof words);
    size_t used = strlen(text);
    snprintf(text + used, capacity - used, " [after %s sequence %u]", words, last.sequence);
}

void kolo_comm_report(struct kolo_comm *comm)
{
    char words[2 * KOLO_WORDS_MAX];
    struct kolo_request *request = comm->collectives.first;
    size_t bytes = kolo_stall_bits_bytes(comm->engine->size);
    comm->must_report = false;
    if (!request)
        return;
    uint8_t *needed = kolo_calloc(bytes, 1);
    if (!needed)
        return; /* there may be memory at the next check */
    const enum kolo_own_wait own = own_wait(comm, request);
    if (own == KOLO_OWN_NONE)
        find_needed(comm, request, needed);
    bool has_news = has_changed(request, needed, bytes) || !request->stall.is_reported ||
                    own != request->stall.own_reported;
    say_with_last(request, words, sizeof words);
    request->stall.is_reported = true;
    request->stall.own_reported = own;
    if (has_news)
        kolo_store_client_stalled(
            comm->engine->store,
            &(struct kolo_stall_report){.channel = kolo_comm_channel(comm, KOLO_CHANNEL_COLLECTIVE),
                                        .sequence = request->call.sequence,
                                        .desc = &request->desc,
                                        .words = words,
                                        .members = needed,
                                        .own = own});
    kolo_free_memory(needed);
}

/** Reports what is this rank's only: a message, which needs its peer, or a call that has not begun.
 * In that case, and if it waits for @p own, it needs no rank. False: there was no memory. */
static bool report_own(struct kolo_comm *comm, const struct kolo_request *request, uint32_t number,
                       const char *words, enum kolo_own_wait own)
{
    static const struct kolo_desc none; /* such descriptions are not compared */
    uint8_t *needed = kolo_calloc(kolo_stall_bits_bytes(comm->engine->size), 1);
    if (!needed)
        return false;
    if (own == KOLO_OWN_NONE)
        set_bit(comm, needed, request->call.peer);
    kolo_store_client_stalled(
        comm->engine->store,
        &(struct kolo_stall_report){.channel = kolo_comm_channel(comm, KOLO_CHANNEL_MESSAGE),
                                    .sequence = number,
                                    .desc = &none,
                                    .words = words,
                                    .members = needed,
                                    .own = own});
    kolo_free_memory(needed);
    return true;
}

/** Whether a message of the communicator has been reported. One report stands for all messages that
 * this rank waits for. */
static bool has_reported_message(const struct kolo_comm *comm)
{
    const struct kolo_request *request = comm->messages.list.first;
    while (request && !request->stall.is_reported)
        request = request->next;
    return request != NULL;
}

/** Reports a message that a thread waits for, or, if it was reported, what has changed. */
static void report_message(struct kolo_comm *comm, struct kolo_request *request)
{
    char words[KOLO_WORDS_MAX], text[KOLO_WORDS_MAX + 32];
    const enum kolo_own_wait own = own_wait(comm, request);
    const uint32_t number =
        request->stall.is_reported ? request->stall.report : comm->engine->reports + 1;
    if (!request->stall.is_reported &&
        ((request->is_async && !request->is_awaited) || has_reported_message(comm)))
        return;
    kolo_request_words(request, words, sizeof words);
    snprintf(text, sizeof text, "%s sequence %u", words, request->call.sequence);
    if (!report_own(comm, request, number, text, own))
        return;
    comm->engine->reports += !request->stall.is_reported;
    request->stall.is_reported = true;
    request->stall.report = number;
    request->stall.own_reported = own;
}

uint32_t kolo_comm_report_before(struct kolo_comm *comm, const struct kolo_request *request,
                                 enum kolo_own_wait own)
{
    char words[KOLO_WORDS_MAX];
    kolo_request_words(request, words, sizeof words);
    if (!report_own(comm, request, comm->engine->reports + 1, words, own))
        return 0;
    return ++comm->engine->reports;
}

void kolo_comm_unreport_before(struct kolo_comm *comm, uint32_t number)
{
    kolo_store_client_resumed(comm->engine->store, kolo_comm_channel(comm, KOLO_CHANNEL_MESSAGE),
                              number);
}

void kolo_comm_unreport(struct kolo_comm *comm, struct kolo_request *request)
{
    const bool is_message = kolo_request_is_message(request);
    request->stall.is_reported = false;
    kolo_store_client_resumed(
        comm->engine->store,
        kolo_comm_channel(comm, is_message ? KOLO_CHANNEL_MESSAGE : KOLO_CHANNEL_COLLECTIVE),
        is_message ? request->stall.report : request->call.sequence);
}

/* ---- deadlines and stalls ---- */

/** Names the first rank on this host, of those that @p request waits for, whose process is stopped;
 * "": there is none. */
static void say_stopped(const struct kolo_comm *comm, const struct kolo_request *request,
                        char *text, size_t capacity)
{
    char who[KOLO_RANK_TEXT_MAX];
    int peers[WAITS_MAX];
    const int count = request->route->waits_for(request, peers, WAITS_MAX);
    const uint64_t here = kolo_comm_peer(comm, comm->rank)->identity.host_id;
    text[0] = '\0';
    for (int i = 0; i < count && i < WAITS_MAX && text[0] == '\0'; i++) {
        const struct kolo_identity *identity = &kolo_comm_peer(comm, peers[i])->identity;
        if (identity->host_id == here && kolo_local_is_stopped(identity->pid))
            snprintf(text, capacity, "; %s is stopped, by SIGSTOP or a debugger",
                     kolo_comm_rank_text(comm, peers[i], who));
    }
}

/** What a call waited for whose stream had to be let go (memory/gate_watch.h). */
static const char in_driver[] =
    "CUDA, probably since a thread of this process was in a call that waits for the stream, which "
    "waits for this collective (cudaFree, the first launch of a kernel: man kolo_allreduce, "
    "Streams)";

/** Writes what a call waits for whose deadline has passed. */
static void say_late(const struct kolo_comm *comm, const struct kolo_request *request,
                     char text[KOLO_DETAIL_MAX])
{
    char words[KOLO_WORDS_MAX], me[KOLO_RANK_TEXT_MAX], waits[768];
    char stopped[KOLO_RANK_TEXT_MAX + 64];
    const enum kolo_own_wait own = own_wait(comm, request);
    kolo_request_words(request, words, sizeof words);
    if (kolo_follow_was_let_go(request))
        snprintf(waits, sizeof waits, "%s", in_driver);
    else if (own == KOLO_OWN_STREAM)
        snprintf(waits, sizeof waits, "%s", kolo_own_text(own));
    else
        request->route->describe(request, waits, sizeof waits);
    say_stopped(comm, request, stopped, sizeof stopped);
    /* if its link has just failed, nothing is waited for */
    const bool has_cause = waits[0] == '\0' && comm->suspicion.status != KOLO_OK;
    if (waits[0] == '\0')
        snprintf(waits, sizeof waits, "%.767s",
                 has_cause              ? comm->suspicion.text
                 : own != KOLO_OWN_NONE ? kolo_own_text(own)
                                        : "earlier calls");
    snprintf(text, KOLO_DETAIL_MAX, "%s sequence %u on %s: %.*f s passed, %s%s%s", words,
             request->call.sequence, kolo_comm_rank_text(comm, comm->rank, me),
             request->timeout_ms % 100 == 0 ? 1 : 3, request->timeout_ms / 1000.0,
             has_cause ? "and " : "waiting for ", waits, stopped);
}

void kolo_request_expire(struct kolo_comm *comm, const struct kolo_request *request)
{
    char text[KOLO_DETAIL_MAX];
    say_late(comm, request, text);
    kolo_comm_suspect(comm, -1, KOLO_ERR_TIMEOUT, 0, "%s", text);
    kolo_comm_settle(comm);
}

/** Whether a rank is suspected to be lost, of which the store will tell unasked. */
static bool is_loss_suspected(const struct kolo_comm *comm)
{
    const kolo_status suspected = comm->suspicion.status;
    return suspected != KOLO_OK && suspected != KOLO_ERR_TIMEOUT && suspected != KOLO_ERR_CONNECT;
}

/** Whether the store was asked about any late request of the communicator. */
static bool has_asked(const struct kolo_comm *comm)
{
    const struct kolo_request *const firsts[] = {comm->collectives.first,
                                                 comm->messages.list.first};
    for (int i = 0; i < 2; i++)
        for (const struct kolo_request *at = firsts[i]; at; at = at->next)
            if (at->stall.has_asked)
                return true;
    return false;
}

/** A rank that left in order @p grace_ms ago and is still waited for will never come. But it tells
 * the store before it delivers what it has sent: what it says on its link counts, if it has one. */
static void check_left(struct kolo_comm *comm, const struct kolo_request *request, int64_t now_ns,
                       int64_t grace_ms)
{
    char who[KOLO_RANK_TEXT_MAX];
    int peers[WAITS_MAX];
    int count = request->route->waits_for(request, peers, WAITS_MAX);
    for (int i = 0; i < count; i++)
        if (kolo_comm_left_ns(comm, peers[i]) != 0 &&
            !kolo_endpoint_may_deliver(comm->engine->endpoint,
                                       kolo_comm_world_rank(comm, peers[i])) &&
            now_ns - kolo_comm_left_ns(comm, peers[i]) > grace_ms * KOLO_NS_PER_MS)
            kolo_comm_suspect(comm, peers[i], KOLO_ERR_PEER, 0, "%s has left",
                              kolo_comm_rank_text(comm, peers[i], who));
}

/** If the request was reported, and now waits for something else of its own, or for other ranks,
 * reports that. */
static void report_change(struct kolo_comm *comm, struct kolo_request *request)
{
    if (!request->stall.is_reported || own_wait(comm, request) == request->stall.own_reported)
        return;
    if (kolo_request_is_message(request))
        report_message(comm, request);
    else if (comm->collectives.first == request)
        kolo_comm_report(comm);
}

/** The deadline of a call has passed. This rank knows only the ranks that it needs a message from,
 * which may wait themselves. If the store has been told of the call, and nothing moves in it now,
 * the store knows who is not in it: it fails the communicator on all ranks with these words and
 * their names. It has KOLO_VERDICT_GRACE_MS for that, in which other calls do not end either. */
static void end_late(struct kolo_comm *comm, struct kolo_request *request, int64_t now_ns)
{
    char text[KOLO_DETAIL_MAX];
    if (has_asked(comm))
        return;
    check_left(comm, request, now_ns, 0); /* says more than that the deadline has passed */
    say_late(comm, request, text);
    request->stall.has_asked =
        request->stall.is_reported && request->stall.quiet_ticks >= QUIET_TICKS;
    if (request->stall.has_asked && !is_loss_suspected(comm)) {
        report_change(comm, request);
        kolo_store_client_abort(comm->engine->store, kolo_comm_scope(comm), KOLO_ERR_TIMEOUT, text);
    }
    kolo_comm_suspect(comm, -1, KOLO_ERR_TIMEOUT,
                      request->stall.has_asked ? KOLO_VERDICT_GRACE_MS : 0, "%s", text);
}

static void check_deadlines(struct kolo_comm *comm, int64_t now_ns)
{
    struct kolo_request *const firsts[] = {comm->collectives.first, comm->messages.list.first};
    if (kolo_comm_is_part(comm))
        return;
    for (int i = 0; i < 2; i++)
        for (struct kolo_request *request = firsts[i]; request; request = request->next) {
            if (now_ns >= request->deadline)
                end_late(comm, request, now_ns);
            if (now_ns < request->deadline)
                comm->engine->next_timer =
                    kolo_deadline_min(comm->engine->next_timer, request->deadline);
        }
}

/** Reports a call in which nothing moved at two checks in a row. */
static void check_stall(struct kolo_comm *comm, struct kolo_request *request, bool is_collective,
                        int64_t now_ns)
{
    uint64_t moves = request->route->moves(request);
    request->stall.quiet_ticks =
        moves == request->stall.moves_seen ? request->stall.quiet_ticks + 1 : 0;
    request->stall.moves_seen = moves;
    report_change(comm, request);
    if (request->stall.quiet_ticks < QUIET_TICKS)
        return;
    check_left(comm, request, now_ns, KOLO_VERDICT_GRACE_MS);
    if (is_collective) {
        kolo_comm_report(comm);
        return;
    }
    if (comm->finalized)
        kolo_comm_check_stalled_send(comm, request);
    report_message(comm, request);
}

/** Half of KOLO_STALL, so a stall is reported after one to one and a half times KOLO_STALL. */
static int64_t tick_ns(const struct kolo_engine *engine)
{
    return engine->settings.stall_ms * KOLO_NS_PER_MS / 2;
}

static void check_stalls(struct kolo_comm *comm, int64_t now_ns)
{
    if (kolo_comm_is_part(comm))
        return;
    if (comm->collectives.first)
        check_stall(comm, comm->collectives.first, true, now_ns);
    for (struct kolo_request *request = comm->messages.list.first; request; request = request->next)
        check_stall(comm, request, false, now_ns);
}

/** When to check again, after a check that began at @p now_ns. A check of a million requests takes
 * longer than a tick, and the calls themselves must go on. */
static int64_t next_tick(const struct kolo_engine *engine, int64_t now_ns)
{
    const int64_t end_ns = kolo_now_ns(), pause_ns = CHECK_SHARE * (end_ns - now_ns);
    return end_ns + (pause_ns > tick_ns(engine) ? pause_ns : tick_ns(engine));
}

void kolo_engine_timers(struct kolo_engine *engine, int64_t now_ns)
{
    bool is_tick = now_ns >= engine->next_tick, has_requests = false;
    engine->next_timer = KOLO_NEVER;
    for (struct kolo_comm *comm = engine->busy; comm; comm = comm->busy.next) {
        if (comm->suspicion.status != KOLO_OK)
            engine->next_timer = kolo_deadline_min(engine->next_timer, comm->suspicion.deadline);
        if (comm->orphan_by != 0)
            engine->next_timer = kolo_deadline_min(engine->next_timer, comm->orphan_by);
        if (comm->collectives.first || comm->messages.list.first) {
            has_requests = true;
            check_deadlines(comm, now_ns);
            if (is_tick)
                check_stalls(comm, now_ns);
        }
        kolo_comm_settle(comm);
    }
    if (has_requests && is_tick)
        engine->next_tick = next_tick(engine, now_ns);
    if (has_requests)
        engine->next_timer = kolo_deadline_min(engine->next_timer, engine->next_tick);
}
