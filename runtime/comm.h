// SPDX-License-Identifier: Apache-2.0
// A communicator from inside: some ranks of the world, numbered anew, with calls and failures of
// their own. What a rank has only once, whatever communicators it is in, is its engine's
// (runtime/engine.h). Private to runtime/.
//
// The engine's lock guards everything here but the fields marked constant. Ranks here are members'
// numbers; the endpoint and the store speak of ranks in the world (kolo_comm_world, _member), and
// so do texts, which say both where they differ. Nothing calls back into the user.
#ifndef KOLO_RUNTIME_COMM_H
#define KOLO_RUNTIME_COMM_H

#include <kolo/kolo.h>

#include "runtime/choose.h"
#include "runtime/engine.h"
#include "runtime/failure.h"
#include "runtime/request.h"

enum {
    KOLO_COMM_WORDS_MAX = 80,
    KOLO_PAST = 2 * KOLO_OPEN_MAX /* broadcasts that are kept, to name one that was not alike */
};

struct kolo_finalized;
struct kolo_group;

/** A set of ranks that call the same collectives, seen from one of them. */
struct kolo_comm {
    struct kolo_engine *engine; /* constant, as far as the line */
    uint32_t number;            /* 0: the world; the same on all members */
    int rank, size;
    int *ranks; /* member -> rank in the world; NULL: the same numbers */
    int alone;  /* what ranks points to in a communicator of one */
    int local_rank, local_size;
    char origin[40];   /* "split colour 1"; "" for the world */
    bool has_board;    /* its members can have one */
    bool plan_is_auto; /* no setting forces one */
    int own_calls;     /* of the library, under way, whose collectives are no program's */
    /* ---- */
    struct kolo_comm *next, *previous;           /* in engine->comms, if is_listed */
    struct kolo_comm *next_busy, *previous_busy; /* in engine->busy, if is_busy */
    bool is_busy;
    struct kolo_comm *parent; /* it fails with it, until all members are known to have it */
    struct kolo_request_list collectives, messages;
    uint32_t sequence;         /* of the next collective */
    uint32_t history;          /* of the broadcasts that later calls close; 0: none */
    int open_count;            /* how many they are */
    uint32_t *sent, *received; /* next sequence per member; NULL in a world of one */
    void *scratch;
    size_t scratch_bytes;
    bool scratch_in_heap;
    bool lends;                  /* calls with devices' buffers may go without the host */
    size_t direct_bytes;         /* the least of the members of which it was asked: */
    int direct_asked;            /* so many */
    struct kolo_choices choices; /* of plans over links */
    /** KOLO_WINDOW_MAX for each strand of the collective that runs; NULL: not yet. */
    struct kolo_flight *flights;
    struct kolo_request *repeats; /* repeat.c; NULL: none yet */
    struct kolo_hub *hub; /* its board; NULL: not opened, or it has none (runtime/board_hub.h) */
    _Atomic(struct kolo_group *) group; /* that is open; NULL: none */
    struct kolo_failure failure;
    struct kolo_suspicion suspicion;
    struct kolo_finalized *finalized; /* the members that have finalized it; NULL: none */
    bool is_listed;                   /* among the engine's: opened, and not freed yet */
    bool must_report;                 /* the running collective, to the store */
    bool is_open;        /* the last collective was over here, and a rank may not have entered it */
    kolo_status placing; /* KOLO_AGAIN: a call is placed into its stream (stream.c) */
    bool is_leaving;     /* in kolo_finalize: that others have left, or do not come, fails nobody */
    bool has_early;      /* something has come of a collective that this rank has not entered */
    bool has_early_broadcast;         /* it is a broadcast, which others may be through with */
    struct kolo_desc past[KOLO_PAST]; /* by sequence number: broadcasts that were over here */
    const char *joined_by;            /* timeline_call.c; NULL: not asked yet */
    char **whys;      /* by member, of those asked for: why that transport; NULL until asked */
    int *local_ranks; /* by member, among those of its host; NULL until one is asked for */
};

/** The rank in the world of member @p rank. */
static inline int kolo_comm_world(const struct kolo_comm *comm, int rank)
{
    return comm->ranks != NULL ? comm->ranks[rank] : rank;
}

/** When member @p rank left the job, as kolo_now_ns(); 0: it did not. */
static inline int64_t kolo_comm_left_ns(const struct kolo_comm *comm, int rank)
{
    return comm->engine->left_ns[kolo_comm_world(comm, rank)];
}

/** The channel of the links that carries this communicator's @p kind (KOLO_CHANNEL_...). */
static inline uint32_t kolo_comm_channel(const struct kolo_comm *comm, uint32_t kind)
{
    return comm->number * KOLO_CHANNELS_PER_COMM + kind;
}

/* ---- comm.c ---- */

/** Memory for a communicator of up to @p size members, which nobody else sees yet. What
 * kolo_comm_free frees. */
kolo_status kolo_comm_create(struct kolo_engine *engine, int size,
                             struct kolo_comm **comm_out) KOLO_NODISCARD;
/** From here on it is one of the engine's: @p size members, of which this rank is @p rank; the
 * caller has put their ranks in the world in comm->ranks. Cannot fail. Held: lock, unless the
 * engine has not started. */
void kolo_comm_open(struct kolo_comm *comm, uint32_t number, int rank, int size);
/** Ends what is left of it: its asynchronous requests are cancelled and gone, its channels given
 * back. Held: lock. */
void kolo_comm_close(struct kolo_comm *comm);
/** Frees what the communicator has for itself. It has no requests any more. Held: lock, if it was
 * opened and the endpoint is open. NULL is fine. */
void kolo_comm_free(struct kolo_comm *comm);
/** What the program passes to @p function can be worked with: not NULL, and not of the process that
 * this one is a child of by fork(). A child would take from its parent's links what is the
 * parent's, and wait for threads that it does not have. Takes no lock. ERR_INVALID. */
kolo_status kolo_comm_check(const struct kolo_comm *comm, const char *function) KOLO_NODISCARD;
void kolo_comm_enter(struct kolo_comm *comm);
void kolo_comm_leave(struct kolo_comm *comm);
/** The member that is rank @p world in the world; -1: none. */
int kolo_comm_member(const struct kolo_comm *comm, int world);
/** Finds the members on this host. Once there is a table of ranks. */
void kolo_comm_count_local(struct kolo_comm *comm);
const struct kolo_peer *kolo_comm_peer(const struct kolo_comm *comm, int rank);
/** " in communicator 3 (split colour 1)", "" for the world. */
const char *kolo_comm_words(const struct kolo_comm *comm, char text[KOLO_COMM_WORDS_MAX]);
/** Something of it is on its way: the progressor shall look at it. Held: lock. */
void kolo_comm_is_busy(struct kolo_comm *comm);
void kolo_comm_is_idle(struct kolo_comm *comm);
/** "rank 5 (host7, pid 812)", or "rank 5 (1 of communicator 3, host7, pid 812)". */
const char *kolo_comm_rank_text(const struct kolo_comm *comm, int rank,
                                char text[KOLO_RANK_TEXT_MAX]);
/** At least @p bytes of scratch for @p request. Held: lock. ERR_NO_MEMORY. */
kolo_status kolo_comm_scratch(struct kolo_comm *comm, struct kolo_request *request,
                              size_t bytes) KOLO_NODISCARD;
/** Makes comm->flights if there are none. Held: lock. ERR_NO_MEMORY. */
kolo_status kolo_comm_flights(struct kolo_comm *comm) KOLO_NODISCARD;

/* ---- engine.c ---- */

/** kolo_engine_await() of a call on @p comm. Held: lock. */
static inline bool kolo_engine_wait(struct kolo_comm *comm, const kolo_status *status,
                                    kolo_deadline deadline)
{
    return kolo_engine_await(comm->engine, comm, status, deadline);
}

#endif
