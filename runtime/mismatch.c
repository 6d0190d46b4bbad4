// SPDX-License-Identifier: Apache-2.0
// Ranks that call different things: a message arrives whose description differs from that of its
// receive, or that belongs to a call which this rank has not entered or has left behind. This file
// puts into words what both sides called; failure.c decides which of the reporting ranks is first.
// Must never fail a communicator for a message of a call that may still be entered.
//
// This rank's words may not be enough: the other rank may know better what it called, or the two
// may differ only in an earlier broadcast, which comm->broadcasts.past remembers. Then the failure
// waits for a grace period, so that the other rank's words, or the store's, can arrive first.
#include "runtime/mismatch.h"

#include <stdio.h>

#include "runtime/comm.h"

const struct kolo_desc *kolo_comm_past(const struct kolo_comm *comm, uint32_t sequence)
{
    const struct kolo_desc *desc = &comm->broadcasts.past[sequence % KOLO_PAST];
    struct kolo_call call;
    kolo_call_unpack(desc, &call);
    return call.sequence == sequence && call.kind == KOLO_CALL_BROADCAST ? desc : NULL;
}

/** Compares two sequence numbers: < 0, 0, > 0. */
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
    if (request && request->call.sequence != mine.sequence)
        request = NULL; /* the mismatch is about an earlier call */
    if (kind == KOLO_CHANNEL_COLLECTIVE && request) {
        mine = request->call;
        mine.count = count; /* of the message, for alltoallv */
    }
    const char *difference = kolo_call_difference(&mine, &theirs);
    if (kind == KOLO_CHANNEL_MESSAGE)
        mine.kind = KOLO_CALL_RECV, mine.peer = peer;
    kolo_call_words(&mine, words, sizeof words);
    kolo_call_words(&theirs, their_words, sizeof their_words);
    int64_t grace_ms = 0;
    bool is_later = kind == KOLO_CHANNEL_COLLECTIVE && compare(theirs.sequence, mine.sequence) > 0;
    if ((difference[0] != '\0' && kind == KOLO_CHANNEL_COLLECTIVE && request) || is_later) {
        /* Either the words differ only in what the other rank alone can say, or the other rank is
         * past the call and knows what it called then. So let that rank, or the store, say it. */
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

/** The communicator of @p channel; NULL: this rank has none. *kind_out: KOLO_CHANNEL_... */
static struct kolo_comm *comm_of(const struct kolo_engine *engine, uint32_t channel,
                                 uint32_t *kind_out)
{
    *kind_out = channel % KOLO_CHANNELS_PER_COMM;
    return kolo_engine_comm(engine, channel / KOLO_CHANNELS_PER_COMM);
}

/** The channel of collectives also stands for their closing plans. */
static uint32_t subject_of(uint32_t kind)
{
    return kind == KOLO_CHANNEL_CLOSING ? KOLO_CHANNEL_COLLECTIVE : kind;
}

void kolo_mismatch_found(void *context, int world_rank, uint32_t channel,
                         const struct kolo_desc *expected, const struct kolo_desc *arrived)
{
    uint32_t kind;
    struct kolo_comm *comm = comm_of(context, channel, &kind);
    struct kolo_call mine, theirs;
    const struct kolo_desc *past = NULL;
    if (!comm)
        return;
    kolo_call_unpack(expected, &mine);
    kolo_call_unpack(arrived, &theirs);
    if (subject_of(kind) == KOLO_CHANNEL_COLLECTIVE && compare(theirs.sequence, mine.sequence) < 0)
        past = kolo_comm_past(comm, theirs.sequence);
    say_mismatch(comm, kolo_comm_member(comm, world_rank), subject_of(kind), past ? past : expected,
                 arrived);
}

void kolo_mismatch_words(void *context, uint32_t channel, const struct kolo_desc *desc, char *text,
                         size_t capacity)
{
    uint32_t kind;
    const struct kolo_comm *comm = comm_of(context, channel, &kind);
    struct kolo_call call;
    char words[KOLO_WORDS_MAX], where[KOLO_COMM_WORDS_MAX] = "";
    kolo_call_unpack(desc, &call);
    kolo_call_words(&call, words, sizeof words);
    if (comm)
        (void)kolo_comm_words(comm, where);
    snprintf(text, capacity, "%s%s sequence %u", words, where, call.sequence);
}

/** A message of a call that is over here, with all expected messages received. */
static void say_late(struct kolo_comm *comm, int peer, const struct kolo_desc *arrived)
{
    struct kolo_call theirs;
    char words[KOLO_WORDS_MAX], who[KOLO_RANK_TEXT_MAX], me[KOLO_RANK_TEXT_MAX];
    kolo_call_unpack(arrived, &theirs);
    const struct kolo_desc *past = kolo_comm_past(comm, theirs.sequence);
    if (past) {
        say_mismatch(comm, peer, KOLO_CHANNEL_COLLECTIVE, past, arrived);
        return;
    }
    kolo_call_words(&theirs, words, sizeof words);
    kolo_comm_suspect(comm, -1, KOLO_ERR_MISMATCH, KOLO_VERDICT_GRACE_MS,
                      "%s called %s sequence %u, from which %s expected no more messages",
                      kolo_comm_rank_text(comm, peer, who), words, theirs.sequence,
                      kolo_comm_rank_text(comm, comm->rank, me));
}

void kolo_mismatch_look(void *context, int world_rank, uint32_t channel,
                        const struct kolo_desc *arrived)
{
    uint32_t kind;
    struct kolo_comm *comm = comm_of(context, channel, &kind);
    struct kolo_call theirs;
    if (!comm || subject_of(kind) != KOLO_CHANNEL_COLLECTIVE)
        return;
    const struct kolo_request *request = comm->collectives.first;
    uint32_t now = request ? request->call.sequence : comm->sequences.collective;
    kolo_call_unpack(arrived, &theirs);
    int32_t order = compare(theirs.sequence, now);
    if (order < 0)
        say_late(comm, kolo_comm_member(comm, world_rank), arrived);
    else if (order > 0 || !request) {
        comm->early.is_there = true;
        comm->early.is_broadcast |= theirs.kind == KOLO_CALL_BROADCAST;
    } else if (!kolo_call_is_same(arrived, &request->desc))
        say_mismatch(comm, kolo_comm_member(comm, world_rank), KOLO_CHANNEL_COLLECTIVE,
                     &request->desc, arrived);
}

void kolo_comm_look_early(struct kolo_comm *comm)
{
    struct kolo_endpoint *endpoint = comm->engine->endpoint;
    comm->early.is_there = false;
    comm->early.is_broadcast = false;
    kolo_endpoint_say_early(endpoint, kolo_comm_channel(comm, KOLO_CHANNEL_COLLECTIVE));
    kolo_endpoint_say_early(endpoint, kolo_comm_channel(comm, KOLO_CHANNEL_CLOSING));
}
