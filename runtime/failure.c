// SPDX-License-Identifier: Apache-2.0
// How a communicator fails: what is heard from links and store, who wins, what is told to whom, and
// the timers (deadlines, stalls).
//
// A fallen link is a suspicion first: the store may know within milliseconds that the rank was
// killed, and by what. A verdict, a mismatch, an abort or a deadline is the failure at once. The
// first failure ends every request on this rank and is told to the store and to all links, so that
// every rank ends with the same words; later calls return it.
//
//   fine --suspect(grace)--> suspected --deadline, or a better cause--> failed
//     \------------------suspect(0), fail()------------------------------^
//
// Event functions only take notes: they run inside the endpoint.
#include "runtime/failure.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/comm.h"
#include "runtime/finalized.h"
#include "runtime/local.h"
#include "runtime/store_stall.h"

/* Ranks that one request is asked for, of those it waits for. */
enum { WAITS_MAX = 64 };

/* ---- causes ---- */

static void take_note(struct kolo_comm *comm, int peer, kolo_status status, int64_t grace_ms,
                      bool is_told, const char *text)
{
    struct kolo_suspicion *suspicion = &comm->suspicion;
    kolo_deadline deadline = kolo_deadline_in_ms(grace_ms);
    if (comm->failure.status != KOLO_OK)
        return;
    if (suspicion->status != KOLO_OK && suspicion->deadline <= deadline)
        return;
    suspicion->status = status;
    suspicion->peer = peer;
    suspicion->deadline = deadline;
    suspicion->is_told = is_told;
    snprintf(suspicion->text, sizeof(suspicion->text), "%s", text);
    comm->engine->next_timer = kolo_deadline_min(comm->engine->next_timer, deadline);
    kolo_comm_is_busy(comm);
}

void kolo_comm_suspect(struct kolo_comm *comm, int peer, kolo_status status, int64_t grace_ms,
                       const char *format, ...)
{
    char text[KOLO_DETAIL_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    take_note(comm, peer, status, grace_ms, false, text);
}

/* ---- rumours ---- */

/** The failure of a communicator that a member has told before this rank had it. */
struct kolo_rumour {
    uint32_t number;
    kolo_status status;
    bool is_told;
    char text[KOLO_DETAIL_MAX];
    struct kolo_rumour *next;
};

void kolo_engine_creating(struct kolo_engine *engine)
{
    engine->creating++;
}

void kolo_engine_created(struct kolo_engine *engine)
{
    if (--engine->creating > 0)
        return;
    while (engine->rumours != NULL) {
        struct kolo_rumour *rumour = engine->rumours;
        engine->rumours = rumour->next;
        kolo_free_memory(rumour);
    }
}

/** Communicator @p number failed, says another. */
static void heard(struct kolo_engine *engine, uint32_t number, kolo_status status, bool is_told,
                  const char *text)
{
    struct kolo_comm *comm = kolo_engine_comm(engine, number);
    if (comm != NULL) {
        take_note(comm, -1, status, 0, is_told, text);
        return;
    }
    if (engine->creating == 0)
        return; /* one that this rank has given up */
    struct kolo_rumour *rumour = kolo_calloc(1, sizeof(*rumour));
    if (rumour == NULL)
        return; /* its first call will find out by its deadline */
    rumour->number = number;
    rumour->status = status;
    rumour->is_told = is_told;
    snprintf(rumour->text, sizeof(rumour->text), "%s", text);
    rumour->next = engine->rumours;
    engine->rumours = rumour;
}

void kolo_comm_hear(struct kolo_comm *comm)
{
    for (const struct kolo_rumour *at = comm->engine->rumours; at != NULL; at = at->next)
        if (at->number == comm->number)
            take_note(comm, -1, at->status, 0, at->is_told, at->text);
}

/* ---- becoming a failure ---- */

static void set_bit(const struct kolo_comm *comm, uint8_t *bits, int rank)
{
    int world = kolo_comm_world(comm, rank);
    bits[world / 8] |= (uint8_t)(1u << (world % 8));
}

/** Whom a stalled call needs, a bit each: all members, but in a broadcast, which may be over on
 * some, those that this rank waits for. */
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

/** Does the broadcast wait for others than it has told the store? Over links its root alone asks:
 * the others wait for one that waits as well, or is missing. */
static bool has_changed(struct kolo_request *request, const uint8_t *bits, size_t bytes)
{
    uint64_t before = request->needed_reported, hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ bits[i]) * UINT64_C(1099511628211);
    request->needed_reported = hash;
    return before != hash && kolo_plan_is_open(request->plan, &request->args) &&
           (request->plan->on_board || request->call.root == request->comm->rank);
}

/** What this rank called as number @p sequence, if that was a broadcast that may be open; NULL. */
static const struct kolo_desc *past_of(const struct kolo_comm *comm, uint32_t sequence)
{
    const struct kolo_desc *desc = &comm->past[sequence % KOLO_PAST];
    struct kolo_call call;
    kolo_call_unpack(desc, &call);
    return call.sequence == sequence && call.kind == KOLO_CALL_BROADCAST ? desc : NULL;
}

/** The call, and the broadcast before it if that is open: ranks that called it otherwise may differ
 * in nothing else. */
static void say_with_last(const struct kolo_request *request, char *text, size_t capacity)
{
    char words[KOLO_WORDS_MAX];
    struct kolo_call last;
    const struct kolo_desc *past = past_of(request->comm, request->call.sequence - 1);
    kolo_request_words(request, text, capacity);
    if (past == NULL || request->call.history == 0)
        return;
    kolo_call_unpack(past, &last);
    kolo_call_words(&last, words, sizeof(words));
    size_t used = strlen(text);
    snprintf(text + used, capacity - used, " [after %s sequence %u]", words, last.sequence);
}

/** Tells the store what the running collective is, for comparison with the other ranks', and whom
 * it needs. */
static void report(struct kolo_comm *comm)
{
    char words[2 * KOLO_WORDS_MAX];
    struct kolo_request *request = comm->collectives.first;
    size_t bytes = kolo_stall_bits_bytes(comm->engine->size);
    comm->must_report = false;
    if (request == NULL)
        return;
    uint8_t *needed = kolo_calloc(bytes, 1);
    if (needed == NULL)
        return; /* the next look may have more */
    find_needed(comm, request, needed);
    bool has_news = has_changed(request, needed, bytes) || !request->is_reported;
    say_with_last(request, words, sizeof(words));
    request->is_reported = true;
    if (has_news)
        kolo_store_client_stalled(comm->engine->store,
                                  kolo_comm_channel(comm, KOLO_CHANNEL_COLLECTIVE),
                                  request->call.sequence, &request->desc, words, needed);
    kolo_free_memory(needed);
}

/** Is a message of the communicator's reported? One stands for all that this rank waits for. */
static bool has_reported_message(const struct kolo_comm *comm)
{
    const struct kolo_request *request = comm->messages.first;
    while (request != NULL && !request->is_reported)
        request = request->next;
    return request != NULL;
}

/** The same of a message that somebody waits for: for it alone, since it has but one peer. */
static void report_message(struct kolo_comm *comm, struct kolo_request *request)
{
    char words[KOLO_WORDS_MAX], text[KOLO_WORDS_MAX + 32];
    if ((request->is_async && !request->is_awaited) || has_reported_message(comm))
        return;
    uint8_t *needed = kolo_calloc(kolo_stall_bits_bytes(comm->engine->size), 1);
    if (needed == NULL)
        return;
    set_bit(comm, needed, request->call.peer);
    kolo_request_words(request, words, sizeof(words));
    snprintf(text, sizeof(text), "%s sequence %u", words, request->call.sequence);
    request->is_reported = true;
    request->report = ++comm->engine->reports;
    kolo_store_client_stalled(comm->engine->store, kolo_comm_channel(comm, KOLO_CHANNEL_MESSAGE),
                              request->report, &request->desc, text, needed);
    kolo_free_memory(needed);
}

void kolo_comm_unreport(struct kolo_comm *comm, struct kolo_request *request)
{
    const bool is_message = request->plan == NULL;
    request->is_reported = false;
    kolo_store_client_resumed(
        comm->engine->store,
        kolo_comm_channel(comm, is_message ? KOLO_CHANNEL_MESSAGE : KOLO_CHANNEL_COLLECTIVE),
        is_message ? request->report : request->call.sequence);
}

/** When member @p rank left the job; 0: it did not. */
static int64_t left_ns(const struct kolo_comm *comm, int rank)
{
    return comm->engine->left_ns[kolo_comm_world(comm, rank)];
}

void kolo_comm_settle(struct kolo_comm *comm)
{
    struct kolo_suspicion *suspicion = &comm->suspicion;
    if (comm->must_report)
        report(comm);
    if (suspicion->status == KOLO_OK || comm->failure.status != KOLO_OK ||
        !kolo_deadline_passed(suspicion->deadline))
        return;
    bool is_loss =
        suspicion->status == KOLO_ERR_PEER || kolo_status_lost(suspicion->status) == KOLO_LOST_LINK;
    if (is_loss && suspicion->peer >= 0 && left_ns(comm, suspicion->peer) != 0) {
        /* it said goodbye to the store: that its link fell is no news */
        char who[KOLO_RANK_TEXT_MAX];
        suspicion->status = KOLO_ERR_PEER;
        snprintf(suspicion->text, sizeof(suspicion->text),
                 "%s has left (finalized its communicator)",
                 kolo_comm_rank_text(comm, suspicion->peer, who));
    }
    kolo_comm_fail(comm, suspicion->status, suspicion->text, !suspicion->is_told);
}

/** Does the cause need "during allreduce(...)" to be complete? */
static bool wants_during(kolo_status status)
{
    return status != KOLO_ERR_MISMATCH && status != KOLO_ERR_TIMEOUT;
}

static void say_during(const struct kolo_request *request, char *text, size_t capacity)
{
    char words[KOLO_WORDS_MAX];
    kolo_request_words(request, words, sizeof(words));
    snprintf(text, capacity, ", during %s sequence %u", words, request->call.sequence);
}

void kolo_comm_fail(struct kolo_comm *comm, kolo_status status, const char *text, bool tell)
{
    struct kolo_failure *failure = &comm->failure;
    struct kolo_request_list *lists[] = {&comm->collectives, &comm->messages};
    if (failure->status != KOLO_OK)
        return;
    bool is_quiet = comm->is_leaving && status != KOLO_ERR_MISMATCH;
    snprintf(failure->text, sizeof(failure->text), "%s", text);
    const struct kolo_request *running =
        comm->collectives.first != NULL ? comm->collectives.first : comm->messages.first;
    if (running != NULL && wants_during(status))
        say_during(running, failure->during, sizeof(failure->during));
    failure->status = status;
    comm->suspicion.status = KOLO_OK;
    if (tell && !is_quiet) {
        kolo_store_client_abort(comm->engine->store, comm->number, status, failure->text);
        kolo_endpoint_abort(comm->engine->endpoint, comm->ranks, comm->size, comm->number, status,
                            failure->text);
    }
    kolo_requests_calm(comm);
    for (int i = 0; i < 2; i++)
        while (lists[i]->first != NULL) {
            lists[i]->first->fell_with_comm = true;
            kolo_request_end(lists[i]->first, status);
        }
    for (struct kolo_comm *child = comm->engine->comms; child != NULL; child = child->next)
        if (child->parent == comm)
            kolo_comm_fail(child, status, failure->text, !is_quiet);
    kolo_engine_news(comm->engine);
    if (comm->engine->is_sleeping)
        kolo_endpoint_wake(comm->engine->endpoint);
}

kolo_status kolo_comm_failed(struct kolo_comm *comm, const struct kolo_request *request)
{
    struct kolo_failure *failure = &comm->failure;
    char during[sizeof(failure->during)] = "";
    if (!wants_during(failure->status))
        return kolo_fail(failure->status, "%s", failure->text);
    if (request != NULL && failure->during[0] == '\0') /* it came between two calls */
        say_during(request, failure->during, sizeof(failure->during));
    if (request != NULL && request->fell_with_comm)
        say_during(request, during, sizeof(during));
    return kolo_fail(failure->status, "%s%s", failure->text,
                     during[0] != '\0' ? during : failure->during);
}

/* ---- events ---- */

/** Which of two sequence numbers is later: < 0, 0, > 0. */
static int32_t compare(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

static void say_mismatch(struct kolo_comm *comm, int peer, uint32_t kind,
                         const struct kolo_desc *expected, const struct kolo_desc *arrived)
{
    struct kolo_call mine, theirs;
    char words[KOLO_WORDS_MAX], their_words[KOLO_WORDS_MAX];
    char who[KOLO_RANK_TEXT_MAX], me[KOLO_RANK_TEXT_MAX], where[KOLO_COMM_WORDS_MAX];
    struct kolo_request *request = comm->collectives.first;
    kolo_call_unpack(expected, &mine);
    kolo_call_unpack(arrived, &theirs);
    uint64_t count = mine.count;
    if (request != NULL && request->call.sequence != mine.sequence)
        request = NULL; /* it is about one before that */
    if (kind == KOLO_CHANNEL_COLLECTIVE && request != NULL) {
        mine = request->call;
        mine.count = count; /* of the message, for alltoallv */
    }
    const char *difference = kolo_call_difference(&mine, &theirs);
    if (kind == KOLO_CHANNEL_MESSAGE)
        mine.kind = KOLO_CALL_RECV, mine.peer = peer;
    kolo_call_words(&mine, words, sizeof(words));
    kolo_call_words(&theirs, their_words, sizeof(their_words));
    int64_t grace_ms = 0;
    bool is_later = kind == KOLO_CHANNEL_COLLECTIVE && compare(theirs.sequence, mine.sequence) > 0;
    if ((difference[0] != '\0' && kind == KOLO_CHANNEL_COLLECTIVE && request != NULL) || is_later) {
        /* the words are the same but for what only the other rank can say, or it is beyond the call
         * about which we differ, and knows what it called then: let it say that, or the store */
        grace_ms = 2 * comm->engine->settings.stall_ms + KOLO_VERDICT_GRACE_MS;
        comm->must_report = true;
    }
    kolo_comm_suspect(comm, -1, KOLO_ERR_MISMATCH, grace_ms,
                      "%s called %s%s sequence %u, but %s called %s sequence %u%s",
                      kolo_comm_rank_text(comm, comm->rank, me), words,
                      kolo_comm_words(comm, where), mine.sequence,
                      kolo_comm_rank_text(comm, peer, who), their_words, theirs.sequence,
                      difference);
}

void kolo_comm_mismatch(struct kolo_comm *comm, int peer, const struct kolo_desc *mine,
                        const struct kolo_desc *theirs)
{
    say_mismatch(comm, peer, KOLO_CHANNEL_COLLECTIVE, mine, theirs);
}

/** The communicator whose traffic @p channel carries; NULL: none of this rank's. *kind_out:
 * KOLO_CHANNEL_... */
static struct kolo_comm *comm_of(const struct kolo_engine *engine, uint32_t channel,
                                 uint32_t *kind_out)
{
    *kind_out = channel % KOLO_CHANNELS_PER_COMM;
    return kolo_engine_comm(engine, channel / KOLO_CHANNELS_PER_COMM);
}

/** The kind of channel that speaks of collectives: what closes one does, too. */
static uint32_t subject_of(uint32_t kind)
{
    return kind == KOLO_CHANNEL_CLOSING ? KOLO_CHANNEL_COLLECTIVE : kind;
}

static void on_mismatch(void *context, int world, uint32_t channel,
                        const struct kolo_desc *expected, const struct kolo_desc *arrived)
{
    uint32_t kind;
    struct kolo_comm *comm = comm_of(context, channel, &kind);
    struct kolo_call mine, theirs;
    const struct kolo_desc *past = NULL;
    if (comm == NULL)
        return;
    kolo_call_unpack(expected, &mine);
    kolo_call_unpack(arrived, &theirs);
    if (subject_of(kind) == KOLO_CHANNEL_COLLECTIVE && compare(theirs.sequence, mine.sequence) < 0)
        past = past_of(comm, theirs.sequence);
    say_mismatch(comm, kolo_comm_member(comm, world), subject_of(kind),
                 past != NULL ? past : expected, arrived);
}

/** A message of a call that is over here, and of which all that was expected has come. */
static void say_late(struct kolo_comm *comm, int peer, const struct kolo_desc *arrived)
{
    struct kolo_call theirs;
    char words[KOLO_WORDS_MAX], who[KOLO_RANK_TEXT_MAX], me[KOLO_RANK_TEXT_MAX];
    kolo_call_unpack(arrived, &theirs);
    const struct kolo_desc *past = past_of(comm, theirs.sequence);
    if (past != NULL) {
        say_mismatch(comm, peer, KOLO_CHANNEL_COLLECTIVE, past, arrived);
        return;
    }
    kolo_call_words(&theirs, words, sizeof(words));
    kolo_comm_suspect(comm, -1, KOLO_ERR_MISMATCH, KOLO_VERDICT_GRACE_MS,
                      "%s called %s sequence %u, of which %s expected nothing more",
                      kolo_comm_rank_text(comm, peer, who), words, theirs.sequence,
                      kolo_comm_rank_text(comm, comm->rank, me));
}

/** Says at once what would otherwise show when the receive for it is posted, or never. */
static void on_early(void *context, int world, uint32_t channel, const struct kolo_desc *arrived)
{
    uint32_t kind;
    struct kolo_comm *comm = comm_of(context, channel, &kind);
    struct kolo_call theirs;
    if (comm == NULL || subject_of(kind) != KOLO_CHANNEL_COLLECTIVE)
        return;
    const struct kolo_request *request = comm->collectives.first;
    uint32_t now = request != NULL ? request->call.sequence : comm->sequence;
    kolo_call_unpack(arrived, &theirs);
    int32_t order = compare(theirs.sequence, now);
    if (order < 0)
        say_late(comm, kolo_comm_member(comm, world), arrived);
    else if (order > 0 || request == NULL) {
        comm->has_early = true;
        comm->has_early_broadcast |= theirs.kind == KOLO_CALL_BROADCAST;
    } else if (!kolo_call_is_same(arrived, &request->desc))
        say_mismatch(comm, kolo_comm_member(comm, world), KOLO_CHANNEL_COLLECTIVE, &request->desc,
                     arrived);
}

void kolo_comm_look_early(struct kolo_comm *comm)
{
    struct kolo_endpoint *endpoint = comm->engine->endpoint;
    comm->has_early = false;
    comm->has_early_broadcast = false;
    kolo_endpoint_say_early(endpoint, kolo_comm_channel(comm, KOLO_CHANNEL_COLLECTIVE));
    kolo_endpoint_say_early(endpoint, kolo_comm_channel(comm, KOLO_CHANNEL_CLOSING));
}

static void on_aborted(void *context, int world, uint32_t number, kolo_status why, const char *text)
{
    (void)world;
    heard(context, number, why, false, text);
}

static void on_finalized(void *context, int world, uint32_t number, uint32_t sequence)
{
    struct kolo_comm *comm = kolo_engine_comm(context, number);
    int rank = comm != NULL ? kolo_comm_member(comm, world) : -1;
    if (rank >= 0) /* else this rank has finalized it as well */
        kolo_comm_hear_finalized(comm, rank, sequence);
}

static void on_recalled(void *context, int world, uint64_t number)
{
    kolo_loans_recalled(context, world, number);
}

static void on_returned(void *context, int world, uint64_t number)
{
    kolo_loans_returned(context, world, number);
}

/** The works that needed it fail with ERR_PEER; that is said by who waits. */
static void on_left(void *context, int world)
{
    struct kolo_engine *engine = context;
    engine->has_left = true;
    kolo_loans_gone(engine, world);
}

static void on_down(void *context, int world, kolo_status why, const char *text)
{
    struct kolo_engine *engine = context;
    char who[KOLO_RANK_TEXT_MAX];
    kolo_status status = why == KOLO_ERR_LINK ? KOLO_ERR_PEER : why;
    kolo_loans_gone(engine, world);
    for (struct kolo_comm *comm = engine->comms; comm != NULL; comm = comm->next) {
        int peer = kolo_comm_member(comm, world);
        if (peer >= 0)
            kolo_comm_suspect(comm, peer, status, KOLO_VERDICT_GRACE_MS, "%s: %s",
                              kolo_comm_rank_text(comm, peer, who), text);
    }
}

static void on_store_failed(void *context, int rank, uint32_t scope, kolo_status why,
                            const char *text)
{
    struct kolo_engine *engine = context;
    if (scope != KOLO_STORE_RANK && scope != KOLO_STORE_JOB) {
        heard(engine, scope, why, true, text);
        return;
    }
    for (struct kolo_comm *comm = engine->comms; comm != NULL; comm = comm->next)
        if (scope == KOLO_STORE_JOB || kolo_comm_member(comm, rank) >= 0)
            take_note(comm, -1, why, 0, true, text);
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
    if (!is_launched && engine->left_ns[0] != 0)
        return; /* rank 0 served it, and has left in peace */
    for (struct kolo_comm *comm = engine->comms; comm != NULL; comm = comm->next)
        if (is_launched || kolo_comm_member(comm, 0) >= 0)
            kolo_comm_suspect(comm, -1, KOLO_ERR_PEER, KOLO_VERDICT_GRACE_MS,
                              "the connection to the job's store was lost: %s ended",
                              is_launched ? engine->settings.launcher : "rank 0, which serves it,");
}

/** Who asked may wait while another thread is the progressor. */
static void on_store_answered(void *context)
{
    kolo_engine_news(context);
}

void kolo_engine_events(struct kolo_engine *engine, struct kolo_endpoint_events *endpoint_out,
                        struct kolo_store_client_events *store_out)
{
    *endpoint_out = (struct kolo_endpoint_events){.context = engine,
                                                  .mismatch = on_mismatch,
                                                  .early = on_early,
                                                  .aborted = on_aborted,
                                                  .finalized = on_finalized,
                                                  .left = on_left,
                                                  .down = on_down,
                                                  .recalled = on_recalled,
                                                  .returned = on_returned};
    *store_out = (struct kolo_store_client_events){.context = engine,
                                                   .failed = on_store_failed,
                                                   .left = on_store_left,
                                                   .lost = on_store_lost,
                                                   .answered = on_store_answered};
}

/* ---- timers ---- */

/** Of the ranks that @p request waits for the first on this host whose process is stopped; "":
 * none. */
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

static void expire(struct kolo_comm *comm, const struct kolo_request *request)
{
    char words[KOLO_WORDS_MAX], me[KOLO_RANK_TEXT_MAX], waits[512];
    char stopped[KOLO_RANK_TEXT_MAX + 64];
    kolo_request_words(request, words, sizeof(words));
    if (request->stage == KOLO_STAGE_BEHIND)
        snprintf(waits, sizeof(waits), "%s", "what its stream was given before it");
    else
        request->route->describe(request, waits, sizeof(waits));
    say_stopped(comm, request, stopped, sizeof(stopped));
    /* A link whose dial had the same deadline has just fallen: that is why nothing is awaited. */
    const char *otherwise =
        comm->suspicion.status != KOLO_OK ? comm->suspicion.text : "earlier calls";
    kolo_comm_suspect(comm, -1, KOLO_ERR_TIMEOUT, 0,
                      "%s sequence %u on %s: %.1f s passed, waiting for %s%s", words,
                      request->call.sequence, kolo_comm_rank_text(comm, comm->rank, me),
                      request->timeout_ms / 1000.0, waits[0] != '\0' ? waits : otherwise, stopped);
}

static void check_deadlines(struct kolo_comm *comm, int64_t now_ns)
{
    const struct kolo_request *firsts[] = {comm->collectives.first, comm->messages.first};
    for (int i = 0; i < 2; i++)
        for (const struct kolo_request *request = firsts[i]; request != NULL;
             request = request->next) {
            if (now_ns >= request->deadline)
                expire(comm, request);
            comm->engine->next_timer =
                kolo_deadline_min(comm->engine->next_timer, request->deadline);
        }
}

/** A rank that left in peace some time ago and is waited for all the same will never come. */
static void check_left(struct kolo_comm *comm, const struct kolo_request *request, int64_t now_ns)
{
    char who[KOLO_RANK_TEXT_MAX];
    int peers[WAITS_MAX];
    int count = request->route->waits_for(request, peers, WAITS_MAX);
    for (int i = 0; i < count; i++)
        if (left_ns(comm, peers[i]) != 0 &&
            now_ns - left_ns(comm, peers[i]) > KOLO_VERDICT_GRACE_MS * INT64_C(1000000))
            kolo_comm_suspect(comm, peers[i], KOLO_ERR_PEER, 0, "%s has left",
                              kolo_comm_rank_text(comm, peers[i], who));
}

/** Two looks in a row without a move: reported. */
static void check_stall(struct kolo_comm *comm, struct kolo_request *request, bool is_collective,
                        int64_t now_ns)
{
    uint64_t moves = request->route->moves(request);
    request->quiet_ticks = moves == request->moves_seen ? request->quiet_ticks + 1 : 0;
    request->moves_seen = moves;
    if (request->quiet_ticks < 2)
        return;
    check_left(comm, request, now_ns);
    if (is_collective) {
        report(comm);
        return;
    }
    if (comm->finalized != NULL)
        kolo_comm_check_stalled_send(comm, request);
    report_message(comm, request);
}

/** Half the stall time: a stall is seen after one to one and a half times KOLO_STALL. */
static int64_t tick_ns(const struct kolo_engine *engine)
{
    return engine->settings.stall_ms * INT64_C(1000000) / 2;
}

static void check_stalls(struct kolo_comm *comm, int64_t now_ns)
{
    if (comm->collectives.first != NULL)
        check_stall(comm, comm->collectives.first, true, now_ns);
    for (struct kolo_request *request = comm->messages.first; request != NULL;
         request = request->next)
        check_stall(comm, request, false, now_ns);
}

void kolo_engine_timers(struct kolo_engine *engine, int64_t now_ns)
{
    bool is_tick = now_ns >= engine->next_tick, has_requests = false;
    engine->next_timer = KOLO_NEVER;
    for (struct kolo_comm *comm = engine->busy; comm != NULL; comm = comm->next_busy) {
        if (comm->suspicion.status != KOLO_OK)
            engine->next_timer = kolo_deadline_min(engine->next_timer, comm->suspicion.deadline);
        if (comm->collectives.first != NULL || comm->messages.first != NULL) {
            has_requests = true;
            check_deadlines(comm, now_ns);
            if (is_tick)
                check_stalls(comm, now_ns);
        }
        kolo_comm_settle(comm);
    }
    if (has_requests && is_tick)
        engine->next_tick = now_ns + tick_ns(engine);
    if (has_requests)
        engine->next_timer = kolo_deadline_min(engine->next_timer, engine->next_tick);
}
