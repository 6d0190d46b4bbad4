// SPDX-License-Identifier: Apache-2.0
// A communicator from inside: a set of ranks of the world with its own numbering, calls and
// failures. What a rank has only once, however many communicators it is in, belongs to its engine
// (runtime/engine.h). Private to runtime/, to metrics/compute*.c, which makes collectives of its
// own, and to bench/.
//
// The engine's lock protects everything here except the fields marked constant. Ranks here are
// members' numbers. The endpoint and the store use ranks in the world (kolo_comm_world_rank
// and kolo_comm_member translate), and so do messages, which give both numbers where they differ.
// Nothing here calls the user's code.
#ifndef KOLO_RUNTIME_COMM_H
#define KOLO_RUNTIME_COMM_H

#include <kolo/kolo.h>

#include "runtime/choose.h"
#include "runtime/engine.h"
#include "runtime/failure.h"
#include "runtime/request.h"
#include "runtime/turn.h"

enum {
    KOLO_COMM_WORDS_MAX = 80,
    KOLO_PAST = 2 * KOLO_OPEN_MAX /* broadcasts kept, so that one that differed can be named */
};

struct kolo_finalized;
struct kolo_group;
struct kolo_nest;

/** What kolo_shrink was making of a communicator when its time was over: not all members may have
 * it. The next kolo_shrink begins with it. */
struct kolo_half_made {
    uint32_t number;
    int size;
    int *ranks; /* its members' ranks in the world; NULL: there is none */
};

/** Where a communicator is in a list of the engine's. */
struct kolo_comm_node {
    struct kolo_comm *next, *previous;
    bool is_in;
};

/** Messages under way (messages.c). */
struct kolo_comm_messages {
    struct kolo_request_list list;
    struct kolo_works_over over; /* their works that have ended since they were advanced */
    bool are_watched;            /* some message must be advanced also if no work has ended since */
};

/** The numbers of the next collective and of the next message to and from each member. */
struct kolo_comm_sequences {
    uint32_t collective;
    uint32_t *sent, *received; /* by member; NULL in a world of one */
};

/** Broadcasts that are over here although other members may not have entered them. */
struct kolo_comm_broadcasts {
    uint32_t history;                 /* hash of those that later calls close; 0: none */
    int open;                         /* the number of those */
    struct kolo_desc past[KOLO_PAST]; /* the latest, by sequence number */
};

/** Whether a message of a collective that this rank has not entered has arrived. */
struct kolo_comm_early {
    bool is_there;
    bool is_broadcast; /* it is of a broadcast, which others may have completed */
};

/** Memory that collectives use one after the other. */
struct kolo_comm_scratch {
    void *memory;
    size_t bytes;
    bool in_heap;
    size_t direct_bytes; /* the smallest threshold of the members asked so far */
    int direct_asked;    /* the number of those members */
};

/** What was determined when it was first asked for; NULL until then. */
struct kolo_comm_told {
    const char *joined_by; /* see timeline_call.c */
    char **whys;           /* by member: why its transport was chosen */
    int *local_ranks;      /* by member: its number among the ranks of its host */
};

/** A communicator, as one of its members sees it. */
struct kolo_comm {
    /* ---- constant ---- */
    struct kolo_engine *engine;
    uint32_t number; /* 0: the world; the same on all members */
    int rank, size;
    int *ranks; /* member -> rank in the world; NULL: the numbers are the same */
    int alone;  /* what ranks points to if there is only one member */
    int local_rank, local_size;
    char origin[40];        /* "split colour 1"; "" for the world */
    bool has_board;         /* its members can have a board */
    bool plan_is_auto;      /* no setting forces a plan */
    bool is_inner;          /* it is of the nest of its parent */
    struct kolo_nest *nest; /* the communicators inside it (nest.h); NULL: none */
    int own_calls; /* calls of the library under way whose collectives are not the program's */
    /* ---- where it is, and how it came to be ---- */
    struct kolo_comm_node listed;   /* in engine->comms: opened, and not freed yet */
    struct kolo_comm_node numbered; /* in one of engine->numbered, likewise */
    struct kolo_comm_node busy;     /* in engine->busy */
    /** It fails with its parent: while it is being made, a little later; if is_inner, always. */
    struct kolo_comm *parent;
    kolo_deadline orphan_by; /* it fails then, because its parent has failed; 0: it has not */
    bool is_unmet;           /* it is being made: not all members are known to have opened it */
    int met; /* in its meeting (meeting.c): the members below are known to have opened it */
    struct kolo_half_made half_made; /* see shrink.c */
    bool is_left_out;                /* its survivors went on without this rank */
    /* ---- its calls ---- */
    struct kolo_request_list collectives;
    struct kolo_comm_messages messages;
    struct kolo_comm_sequences sequences;
    struct kolo_comm_broadcasts broadcasts;
    struct kolo_comm_early early;
    bool is_open;     /* the last collective is over here, but some rank may not have entered it */
    bool must_report; /* the running collective must be reported to the store */
    struct kolo_turn placing;           /* of calls that are placed into streams (stream.c) */
    struct kolo_turn creating;          /* of calls that make communicators of this one (split.c) */
    _Atomic(struct kolo_group *) group; /* the open group; NULL: none */
    struct kolo_request *repeats;       /* see repeat.c; NULL: none yet */
    /** The request of each call that was over before it returned; its status is KOLO_OK. It never
     * changes, so it is read without the lock. */
    struct kolo_request ended;
    /* ---- how they run ---- */
    struct kolo_choices choices; /* of plans over links */
    /** KOLO_WINDOW_MAX for each strand of the running collective; NULL: not allocated yet. */
    struct kolo_flight *flights;
    struct kolo_hub *hub; /* its board (runtime/board_hub.h); NULL: not opened, or it has none */
    struct kolo_comm_scratch scratch;
    bool lends; /* calls on device buffers may bypass the host */
    /* ---- how it ends ---- */
    struct kolo_failure failure;
    struct kolo_suspicion suspicion;
    struct kolo_finalized *finalized; /* members that have finalized it; NULL: none */
    bool is_leaving; /* in kolo_finalize: a member that has left, or does not come, is no failure */
    struct kolo_comm_told told;
};

/** The rank in the world of member @p rank. */
static inline int kolo_comm_world_rank(const struct kolo_comm *comm, int rank)
{
    return comm->ranks ? comm->ranks[rank] : rank;
}

/** When member @p rank left the job, as kolo_now_ns(); 0: it has not. */
static inline int64_t kolo_comm_left_ns(const struct kolo_comm *comm, int rank)
{
    return comm->engine->left_ns[kolo_comm_world_rank(comm, rank)];
}

/** The number by which its failure is reported. */
static inline uint32_t kolo_comm_scope(const struct kolo_comm *comm)
{
    return comm->number | (comm->is_unmet ? KOLO_STORE_UNMET : 0);
}

/** The channel of the links that carries this communicator's @p kind (KOLO_CHANNEL_...). */
static inline uint32_t kolo_comm_channel(const struct kolo_comm *comm, uint32_t kind)
{
    return comm->number * KOLO_CHANNELS_PER_COMM + kind;
}

/* ---- comm.c ---- */

/** Allocates a communicator of up to @p size members, which nobody else sees yet. Free it with
 * kolo_comm_free. */
kolo_status kolo_comm_create(struct kolo_engine *engine, int size,
                             struct kolo_comm **comm_out) KOLO_NODISCARD;
/** Adds it to the engine's communicators: @p size members, of which this rank is @p rank. The
 * caller has filled in comm->ranks. Cannot fail. Held: lock, unless the engine has not started. */
void kolo_comm_open(struct kolo_comm *comm, uint32_t number, int rank, int size);
/** Ends it: cancels and removes its asynchronous requests, and releases its channels. Held:
 * lock. */
void kolo_comm_close(struct kolo_comm *comm);
/** Frees the communicator, which must have no requests any more. Held: lock, if it was opened and
 * the endpoint is open. NULL is allowed. */
void kolo_comm_free(struct kolo_comm *comm);
/** Checks what the program passed to @p function: it must not be NULL, nor belong to the process of
 * which this one is a forked child. A child would read data of its parent from the links, and wait
 * for threads that it does not have. Takes no lock. ERR_INVALID. */
kolo_status kolo_comm_check(const struct kolo_comm *comm, const char *function) KOLO_NODISCARD;
void kolo_comm_enter(struct kolo_comm *comm);
void kolo_comm_leave(struct kolo_comm *comm);
/** Whether its calls are those of a call on its parent, which is checked in their place. */
static inline bool kolo_comm_is_part(const struct kolo_comm *comm)
{
    return comm->is_inner && comm->parent && comm->parent->collectives.first;
}
/** The member that is rank @p world_rank in the world; -1: not a member. */
int kolo_comm_member(const struct kolo_comm *comm, int world_rank);
/** Finds the members on this host. The table of ranks must be there. */
void kolo_comm_count_local(struct kolo_comm *comm);
const struct kolo_peer *kolo_comm_peer(const struct kolo_comm *comm, int rank);
/** " in communicator 3 (split colour 1)", "" for the world. */
const char *kolo_comm_words(const struct kolo_comm *comm, char text[KOLO_COMM_WORDS_MAX]);
/** Marks it as having work, so that the progressor looks at it. Held: lock. */
void kolo_comm_set_busy(struct kolo_comm *comm);
void kolo_comm_set_idle(struct kolo_comm *comm);
/** "rank 5 (host7, pid 812)", or "rank 5 (1 of communicator 3, host7, pid 812)". */
const char *kolo_comm_rank_text(const struct kolo_comm *comm, int rank,
                                char text[KOLO_RANK_TEXT_MAX]);
/** kolo_endpoint_link() to @p member, for a call with the deadline @p call. All communicators use
 * the link, so its dial outlives a call whose deadline is shorter than KOLO_TIMEOUT; but in a
 * shrink whoever is not reached in time is left out. */
kolo_status kolo_comm_link(const struct kolo_comm *comm, int member, kolo_deadline call,
                           struct kolo_link **link_out) KOLO_NODISCARD;
/** Provides at least @p bytes of scratch for @p request. Held: lock. ERR_NO_MEMORY. */
kolo_status kolo_comm_scratch(struct kolo_comm *comm, struct kolo_request *request,
                              size_t bytes) KOLO_NODISCARD;
/** Allocates comm->flights if necessary. Held: lock. ERR_NO_MEMORY. */
kolo_status kolo_comm_flights(struct kolo_comm *comm) KOLO_NODISCARD;

/* ---- engine.c ---- */

/** kolo_engine_await() for a call on @p comm. Held: lock. */
static inline bool kolo_engine_wait(struct kolo_comm *comm, const kolo_status *status,
                                    kolo_deadline deadline)
{
    return kolo_engine_await(comm->engine, comm, status, deadline);
}

#endif
