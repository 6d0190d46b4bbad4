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

#include <stddef.h>
#include <string.h>

#include "memory/operator.h"
#include "runtime/board_moves.h"
#include "runtime/call.h"
#include "runtime/choose.h"
#include "runtime/engine.h"
#include "runtime/plan.h"

enum {
    KOLO_COMM_WORDS_MAX = 80,
    KOLO_PAST = 2 * KOLO_OPEN_MAX, /* broadcasts that are kept, to name one that was not alike */
    KOLO_VERDICT_GRACE_MS = 300    /* how long a fallen link may wait for the store to say why */
};

struct kolo_finalized;
struct kolo_group;
struct kolo_request;
struct kolo_staged;
struct kolo_task;

/** How a request moves: over links (route_links.c), or over the board of this host. Held: lock. */
struct kolo_route {
    /** First look at a request that was just appended to its list. A collective may have others
     * before it: it must not move before advance() is called. */
    void (*begin)(struct kolo_request *request);
    /** Goes as far as it can now. True: it is over, and the result is there. */
    bool (*advance)(struct kolo_request *request);
    /** Takes everything back: on return nobody touches its buffers any more. */
    void (*cancel)(struct kolo_request *request);
    /** The ranks that it waits for now, at most @p capacity; how many. */
    int (*waits_for)(const struct kolo_request *request, int peers[], int capacity);
    /** What it waits for, in words: "rank 3 (host, pid 7): tcp ... 3 of 8 MiB received"; "" if for
     * nothing. */
    void (*describe)(const struct kolo_request *request, char *text, size_t capacity);
    /** A number that grows with everything that moves, to see a stall. */
    uint64_t (*moves)(const struct kolo_request *request);
};
extern const struct kolo_route kolo_route_links;
extern const struct kolo_route kolo_route_board;

/** A step in flight: what is on its way in and out; status KOLO_OK: over, or none. */
struct kolo_flight {
    struct kolo_work in, out;
    int from, to; /* -1: none */
};

/** A plan on its way over links, on a channel of its own (KOLO_CHANNEL_...). */
struct kolo_strand {
    const struct kolo_plan *plan; /* NULL: a message, which is one step, or no strand */
    uint32_t channel;
    size_t nsteps, window;
    size_t first, next;          /* steps in flight: first <= i < next, in flights[i % window] */
    size_t after;                /* of step `next`, if it is known; else 0 */
    struct kolo_flight *flights; /* the communicator's, or just `alone` */
    struct kolo_flight alone;
};

/** Where the data of buffers that are a device's is. */
enum kolo_stage {
    KOLO_STAGE_NONE,   /* it is not running, or has none */
    KOLO_STAGE_BEHIND, /* where it is: its stream has not done what it was given before */
    KOLO_STAGE_IN,     /* on its way to the host */
    KOLO_STAGE_FLOWS,  /* in segments on its way to the host and back, beside the plan */
    KOLO_STAGE_DIRECT, /* where it is: links reach it (staging_direct.c) */
    KOLO_STAGE_LENT,   /* where it is: the ranks' kernels reach it (staging_lent.c) */
    KOLO_STAGE_READY,  /* on the host */
    KOLO_STAGE_OUT     /* the call is over, its result on its way to the device */
};

/** What a rank does in a collective that goes by contributions which all show: the same at each
 * start of a request. */
struct kolo_oneshot {
    bool is_known; /* the rest */
    bool is_short; /* a broadcast of which several are shown at a time */
    bool is_inline;
    size_t put_bytes;          /* of the own contribution */
    size_t first, count;       /* moves to this rank */
    struct kolo_move moves[2]; /* they, if they are no more */
};

/** A collective, send or receive on its way. Blocking calls keep it on their stack. */
struct kolo_request {
    struct kolo_comm *comm;
    const struct kolo_route *route;
    struct kolo_request *next, *previous; /* in comm->collectives or comm->messages */
    kolo_status status;                   /* KOLO_AGAIN until it is over */
    bool is_async;                        /* from kolo_calloc, freed by test, wait or finalize */
    bool is_persistent;                   /* not freed by test and wait: it starts again */
    bool is_counted;                      /* in engine->outstanding */
    struct kolo_request *chain;           /* the next of its group, all started as one */
    struct kolo_request *next_async, *previous_async; /* in engine->asyncs until freed */
    bool fell_with_comm; /* it was running when the communicator failed */
    bool has_entered;    /* a collective that is or was the first of its communicator's */

    struct kolo_call call;
    struct kolo_desc desc;
    int timeout_ms;
    unsigned flags;         /* of its options that say how it is carried out: KOLO_DETERMINISTIC */
    kolo_deadline deadline; /* from its submission, or from when it first has to wait */

    const uint8_t *send; /* buffers, lent by the caller */
    uint8_t *recv, *scratch;
    void *own_scratch; /* NULL: the communicator's */
    size_t *arrays;    /* copies of counts and displs, then of send_...; NULL: none */
    char *name;        /* copy of opts->name, async only */
    bool in_place;     /* as the plan sees it */
    double postscale;  /* of the first result_count elements of recv; 0: none */
    size_t result_count;
    struct kolo_own_op *own_op; /* the operator, if it is the program's own; else NULL */
    void *scaled;    /* the scaled input; NULL: none, or it lies in a buffer of the caller's */
    double prescale; /* of input_count elements of `unscaled`, to `input`, at each start; 0: none */
    size_t input_count;
    const void *unscaled;
    void *input;
    struct kolo_staged *staged; /* staging.c: buffers that are a device's; NULL: none */
    enum kolo_stage stage;      /* of those */
    bool is_apart;              /* they are all its buffers */
    bool may_lend;              /* they may be lent to the other ranks, by what the call asks for */
    struct kolo_follow *follow; /* stream.c: the program's stream that it follows; NULL: none */
    size_t copied; /* DIRECT: one more than the number of the last step whose copy was begun */
    struct kolo_group_part *parts; /* group.c: the calls that this one stands for; NULL: none */
    size_t part_count;

    const struct kolo_plan *plan; /* NULL: a message */
    struct kolo_plan_args args;
    struct kolo_oneshot oneshot; /* board_oneshot.c */
    bool is_kept;                /* by repeat.c: its desc is that of the call before it */
    bool is_taken;               /* by repeat.c: a call has it, and may not have read its status */

    /* stalls: what was done when we last looked */
    uint64_t moves, moves_seen;
    int quiet_ticks;
    bool is_reported;
    bool is_awaited;          /* somebody waits for it, though it is asynchronous */
    uint64_t needed_reported; /* a hash of whom the store was told that it waits for */
    uint32_t report;          /* a message's number there */

    uint64_t ticket; /* of its record in the timeline; 0: none */
    bool has_turn;   /* or that says nothing of its turn */

    struct kolo_strand main, closing; /* route_links.c: the plan, and what closes it */
};

/** Makes a request of memory that may hold anything. The strands, two thirds of it, are left: their
 * route sets them up when it begins, and the other route has none. */
static inline void kolo_request_clear(struct kolo_request *request)
{
    memset(request, 0, offsetof(struct kolo_request, main));
}

/** An operator of the program's own. */
struct kolo_own_op {
    struct kolo_operator op;
    char name[KOLO_OP_NAME_MAX + 1];
    bool is_commutative;
    atomic_int uses; /* requests that have it */
};
/** What folds take; NULL: the operator is built in. */
static inline const struct kolo_operator *kolo_own_operator(const struct kolo_request *request)
{
    return request->own_op != NULL ? &request->own_op->op : NULL;
}

struct kolo_request_list {
    struct kolo_request *first, *last;
};

/** Why the communicator is lost; status KOLO_OK: it is not. */
struct kolo_failure {
    kolo_status status;
    char text[KOLO_DETAIL_MAX];
    char during[KOLO_WORDS_MAX + 32]; /* the call that ran then; "" */
};

/** A cause that waits for a better one until its deadline. */
struct kolo_suspicion {
    kolo_status status; /* KOLO_OK: none */
    int peer;           /* whose link fell, or who left; -1: not that */
    kolo_deadline deadline;
    bool is_told; /* learned from the store: need not be told to it */
    char text[KOLO_DETAIL_MAX];
};

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

/* ---- failure.c (held: lock) ---- */

/** Something is wrong, with @p peer if not -1; it becomes the failure after @p grace_ms, unless
 * something more telling comes. */
void kolo_comm_suspect(struct kolo_comm *comm, int peer, kolo_status status, int64_t grace_ms,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
/** What members may have told of it before it was opened. */
void kolo_comm_hear(struct kolo_comm *comm);
/** Member @p peer called something else than this rank. */
void kolo_comm_mismatch(struct kolo_comm *comm, int peer, const struct kolo_desc *mine,
                        const struct kolo_desc *theirs);
/** The first collective of @p comm is entered: is what had come of it before the same? */
void kolo_comm_look_early(struct kolo_comm *comm);
/** Turns a ripe suspicion into the failure: ends all requests, tells the others. */
void kolo_comm_settle(struct kolo_comm *comm);
/** The first failure wins. @p tell: the store and the links do not know it yet. */
void kolo_comm_fail(struct kolo_comm *comm, kolo_status status, const char *text, bool tell);
/** The failure as a call's result: sets this thread's detail, returns the status. @p request NULL:
 * the call is no request. */
kolo_status kolo_comm_failed(struct kolo_comm *comm, const struct kolo_request *request);

/** The store is told that @p request, which was reported, goes on, or that nobody waits for it. */
void kolo_comm_unreport(struct kolo_comm *comm, struct kolo_request *request);

/* ---- finalized.c (held: lock) ---- */

/** The first collective in which this rank will not have taken part, if it finalizes now. */
uint32_t kolo_comm_end_sequence(const struct kolo_comm *comm);
/** Tells the members that this rank calls nothing more on it. It has no requests any more. */
void kolo_comm_tell_finalized(struct kolo_comm *comm, uint32_t end_sequence);
/** Tells the store the same of communicator @p number, whose members are the world's @p ranks
 * (NULL: the first @p size): whoever shrinks it need not wait for this rank. */
void kolo_comm_tell_store(struct kolo_engine *engine, uint32_t number, const int *ranks, int size);
/** Member @p rank takes part in no collective from @p sequence on, and sends nothing more. */
void kolo_comm_hear_finalized(struct kolo_comm *comm, int rank, uint32_t sequence);
/** Fails it if something of it waits for a member that will not come. Each look at everything asks
 * once comm->finalized is there. */
void kolo_comm_check_finalized(struct kolo_comm *comm);
/** The same for a send, which a member that has gone may yet let through: once it has stalled. */
void kolo_comm_check_stalled_send(struct kolo_comm *comm, const struct kolo_request *request);

/* ---- request.c (held: lock) ---- */

/** So that finalize can free what the user did not: it is asynchronous from here on. */
void kolo_request_keep(struct kolo_comm *comm, struct kolo_request *request);
/** Packs the description, appends to its list, begins if it can. */
void kolo_request_submit(struct kolo_comm *comm, struct kolo_request *request);
/** Lets a message that was posted (kolo_message_post), and is not over, wait among the others from
 * here on. */
void kolo_request_take_up(struct kolo_comm *comm, struct kolo_request *request);
/** Advances every request as far as it goes. */
void kolo_requests_advance(struct kolo_comm *comm);
/** What is done to the result once it is on the host. */
void kolo_request_finish(const struct kolo_request *request);
/** Before collectives of @p comm are ended that are not over: ends the copies of all, and lets
 * their streams go on as far as can be. Their routes may lock pages, for which a driver may wait
 * for its streams. */
void kolo_requests_calm(const struct kolo_comm *comm);
/** Takes it out of its list with this result; its works are cancelled. */
void kolo_request_end(struct kolo_request *request, kolo_status status);
/** Frees what it owns (and itself if asynchronous). Held: lock, if it was kept. */
void kolo_request_drop(struct kolo_request *request);
void kolo_request_words(const struct kolo_request *request, char *text, size_t capacity);

/* ---- route_links.c ---- */

/** Whether anything is done to what @p step says has its final sum. */
static inline bool kolo_step_finishes(const struct kolo_request *request,
                                      const struct kolo_step *step)
{
    return step->finish.count > 0 && (request->args.size == 1 || request->call.op == KOLO_AVERAGE);
}
/** Numbers a message of memory of the host's and hands its work to @p link, which is up: of a
 * request that has its buffers and its call. Held: lock. */
void kolo_message_post(struct kolo_request *request, struct kolo_link *link);
/** Has it been sent or received? False: not yet, or it failed. */
static inline bool kolo_message_is_over(const struct kolo_request *request)
{
    const struct kolo_flight *flight = &request->main.alone;
    return flight->in.status == KOLO_OK && flight->out.status == KOLO_OK;
}
/** Where a slice lies; NULL: nowhere on this rank. */
uint8_t *kolo_slice_address(const struct kolo_request *request, const struct kolo_slice *slice);

/* ---- engine.c ---- */

/** kolo_engine_await() of a call on @p comm. Held: lock. */
static inline bool kolo_engine_wait(struct kolo_comm *comm, const kolo_status *status,
                                    kolo_deadline deadline)
{
    return kolo_engine_await(comm->engine, comm, status, deadline);
}

/* ---- kv.c ---- */

/** kolo_kv_get() on behalf of @p function, whose caller knows the key as @p shown. */
kolo_status kolo_kv_read(struct kolo_comm *comm, const char *function, const char *shown,
                         const char *key, void *value, size_t *bytes,
                         int timeout_ms) KOLO_NODISCARD;
/** Takes @p count numbers of communicators, which nobody else gets: *last_out is the highest. */
kolo_status kolo_kv_take(struct kolo_comm *comm, const char *function, int count,
                         int64_t *last_out) KOLO_NODISCARD;
/* ---- route_board.c ---- */

/** Whether its members can have a board; the same on all of them. Once there is a table of ranks.
 */
bool kolo_board_has(const struct kolo_comm *comm);
/** Whether a member has entered a broadcast over the board that this rank has not called. Held:
 * lock. */
bool kolo_board_has_missed(const struct kolo_comm *comm);
/** Fails the communicator if a member called one of its last broadcasts over the board otherwise,
 * as far as that stands there yet. Held: lock. */
void kolo_board_look_back(struct kolo_comm *comm);

/* ---- submit.c ---- */

/** A call of the public API, checked. */
struct kolo_task {
    enum kolo_call_kind kind;
    const char *function; /* "kolo_allreduce" */
    const void *send;
    void *recv;
    size_t count;
    const size_t *counts, *displs;
    const size_t *send_counts, *send_displs; /* alltoallv; counts and displs are of recv */
    kolo_dtype dtype;
    kolo_redop op;
    int root, peer;
    bool in_place;
    bool is_own; /* the library's, of a call that is no collective of the program's */
    size_t send_bytes, recv_bytes; /* that it reads and writes, gaps between blocks included */
    const struct kolo_opts *opts;
    struct kolo_request **request_out;
};
/** The call that it is. */
static inline struct kolo_call kolo_task_call(const struct kolo_task *task)
{
    return (struct kolo_call){.kind = task->kind,
                              .dtype = task->dtype,
                              .op = task->op,
                              .root = task->root,
                              .count = task->count,
                              .peer = task->peer};
}
/** What all calls have in common: comm, dtype, op, root and opts. collectives.c */
kolo_status kolo_task_check(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** Whether so many elements of its type can be said in a description. collectives.c */
kolo_status kolo_count_check(const struct kolo_task *task, size_t count) KOLO_NODISCARD;
/** Whether there can be so many bytes at @p pointer, which is called @p what. collectives.c */
kolo_status kolo_pointer_check(const struct kolo_task *task, const char *what, const void *pointer,
                               size_t bytes) KOLO_NODISCARD;
/** What its options say, or else the settings. */
static inline int kolo_task_timeout_ms(const struct kolo_comm *comm, const struct kolo_task *task)
{
    const int own = task->opts != NULL ? task->opts->timeout_ms : 0;
    return own > 0 ? own : (int)comm->engine->settings.timeout_ms;
}
/** Waits for a request that was submitted; its result. Held: lock. */
kolo_status kolo_request_await(struct kolo_comm *comm, struct kolo_request *request) KOLO_NODISCARD;
/** opts->flags, 0 for opts of before there were flags. */
unsigned kolo_opts_flags(const struct kolo_opts *opts);
kolo_status kolo_task_run(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** A request that is ready to start, kept; nothing has been sent or written. */
kolo_status kolo_task_prepare(struct kolo_comm *comm, const struct kolo_task *task,
                              struct kolo_request **request_out) KOLO_NODISCARD;
/** Starts all requests of a chain that are not running, or none. @p in_background: the progress
 * thread goes on with them while nobody waits. */
kolo_status kolo_chain_start(struct kolo_request *chain, bool in_background) KOLO_NODISCARD;
/** Waits for all of them; the first failure. Held: lock. */
kolo_status kolo_chain_wait(struct kolo_request *chain, kolo_deadline deadline) KOLO_NODISCARD;
/** Some of them are not over. Held: lock. */
bool kolo_chain_is_running(const struct kolo_request *chain);
/** Frees them all. Held: lock. */
void kolo_chain_drop(struct kolo_request *chain);

/* ---- repeat.c ---- */

/** Whether a call like @p task may be one that was kept, as far as can be told without the lock. */
bool kolo_repeat_may(const struct kolo_comm *comm, const struct kolo_task *task);
/** A request that is ready to be submitted for @p task; NULL: no call like it was kept, or another
 * thread has it. Of a task that may. Held: lock, as of all below. */
struct kolo_request *kolo_repeat_take(struct kolo_comm *comm, const struct kolo_task *task);
/** The call has its status. */
void kolo_repeat_give_back(struct kolo_request *kept);
/** Keeps what the call of @p request, which is over, has found out, if it is worth it. Of a task
 * that may. */
void kolo_repeat_keep(struct kolo_comm *comm, const struct kolo_request *request);

/* ---- group.c ---- */

/** A call that another carries out: its part of that one's vector. */
struct kolo_group_part {
    const void *send;
    void *recv;
    size_t count;
    double prescale; /* of what is sent; 0: none */
};
/** One that was closed, or whose communicator ends; its calls are left. NULL: nothing. */
void kolo_group_free(struct kolo_group *group);
/** Takes a call up into the group that is open. */
kolo_status kolo_group_add(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** Remembers what a call failed with, if a group is open: nothing of it starts then. Returns it. */
kolo_status kolo_group_note(struct kolo_comm *comm, kolo_status status);
/** What @p function does cannot be part of a group: ERR_INVALID while one is open. */
kolo_status kolo_group_none(const struct kolo_comm *comm, const char *function) KOLO_NODISCARD;
/** Puts the parts together, and takes them apart. */
void kolo_parts_gather(const struct kolo_request *request);
void kolo_parts_scatter(const struct kolo_request *request);

/* ---- staging.c ---- */

/** Memory of the host's in place of those buffers of @p task that are a device's. @p task is a
 * copy. Takes the lock. ERR_NO_MEMORY; what a device failed with fails the communicator. */
kolo_status kolo_staging_prepare(struct kolo_comm *comm, struct kolo_request *request,
                                 struct kolo_task *task) KOLO_NODISCARD;
/** Waits for what the program gave to the device before; of a message also for its copy to the
 * host. ERR_UNSUPPORTED: a stream of that context is captured; else a failure is the
 * communicator's. Not held: lock. */
kolo_status kolo_staging_await(struct kolo_request *request) KOLO_NODISCARD;
/** Puts the copies of a collective to the host on their way; if it follows a stream, once that has
 * come to its place. Held: lock, as of all below. */
kolo_status kolo_staging_begin(struct kolo_request *request) KOLO_NODISCARD;
/** Can the route go on? If the device failed, the communicator has failed, and all is over. */
bool kolo_staging_is_in(struct kolo_request *request);
/** Is all that @p step touches on the host? */
bool kolo_staging_has(const struct kolo_request *request, const struct kolo_step *step);
/** Of a request whose links reach its devices' memory (KOLO_STAGE_DIRECT): where @p host, the
 * host's address of a part, is there; NULL: it is the host's own. */
uint8_t *kolo_staging_address(const struct kolo_request *request, uint8_t *host);
/** May step number @p index begin, which copies nothing itself then? A failure as above. */
bool kolo_staging_may(struct kolo_request *request, size_t index, const struct kolo_step *step);
/** Receive @p work of it is over. False: a failure as above. */
bool kolo_staging_received(struct kolo_request *request, const struct kolo_work *work);
/** Brings what the plan has done with to the device, if that goes beside it. A failure as above. */
void kolo_staging_flow(struct kolo_request *request);
/** The call is over: finishes its result and brings it to the device. Is it there? As above. */
bool kolo_staging_is_out(struct kolo_request *request);
/** Nothing is copied any more; waits a moment for what is. A stream that waits for the end goes on,
 * unless it could touch what other ranks still may: what is the host's, or its links reach. */
void kolo_staging_cancel(struct kolo_request *request);
/** What stands in for the buffers of @p from does so for a call of @p to from here on. */
void kolo_staging_take(struct kolo_request *to, struct kolo_request *from);
/** Gives back what stood in for the buffers. */
void kolo_staging_drop(struct kolo_request *request);
/** Of all calls: none is running. False: copies may still come, and the heap must stay. Not held:
 * lock. */
bool kolo_staging_close(struct kolo_engine *engine, kolo_deadline deadline);

/* ---- staging_lent.c (held: lock) ---- */

/** A call whose plan is known: what only holds places for its buffers becomes memory of the host's,
 * if it will not be lent. Gives up the lock meanwhile. ERR_NO_MEMORY. */
kolo_status kolo_lent_settle(struct kolo_request *request) KOLO_NODISCARD;

/* ---- stream.c ---- */

/** The stream of the options of @p task, NULL: none. */
static inline void *kolo_task_stream(const struct kolo_task *task)
{
    return task->opts != NULL ? task->opts->stream : NULL;
}
/** Lets @p request follow @p stream from each start on. Takes the lock. ERR_INVALID,
 * ERR_UNSUPPORTED as kolo_stream_look, ERR_NO_MEMORY: the communicator lives on. */
kolo_status kolo_follow_prepare(struct kolo_request *request, void *stream) KOLO_NODISCARD;
/** One at a time places calls of a communicator into streams, from here to kolo_follow_leave: so
 * those that two threads make on one stream are submitted in the order in which they lie there.
 * ERR_TIMEOUT: another's call is held up for longer than this one may take; else the communicator
 * has failed. Held: lock, as of all below; it is given up meanwhile. */
kolo_status kolo_follow_enter(struct kolo_request *request) KOLO_NODISCARD;
void kolo_follow_leave(struct kolo_comm *comm);
/** Puts a place into the stream: the request, which is not running, is behind what is there; what
 * comes after waits for its end, if it @p holds. The lock is given up meanwhile: a driver may wait
 * until the stream goes on. ERR_UNSUPPORTED, ERR_INVALID: that stream cannot wait, or is captured,
 * or none; what else it fails with loses the communicator. */
kolo_status kolo_follow_place(struct kolo_request *request, bool holds) KOLO_NODISCARD;
/** Is what was before it done? KOLO_AGAIN: not yet. Else the device failed. */
kolo_status kolo_follow_reached(const struct kolo_request *request) KOLO_NODISCARD;
/** It is over, well or not: the stream goes on. */
void kolo_follow_end(struct kolo_request *request);
void kolo_follow_drop(struct kolo_request *request);

/** What is done before the first step: of a request whose data is on the host. submit.c */
void kolo_request_load(const struct kolo_request *request);

/* ---- own_ops.c ---- */

/** Whether task->op is an operator that this rank has made. Takes the lock. */
kolo_status kolo_own_op_check(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;
/** Holds on to the operator of @p task, if it is one of those. Takes the lock. */
kolo_status kolo_own_op_take(struct kolo_comm *comm, struct kolo_request *request,
                             const struct kolo_task *task) KOLO_NODISCARD;
/** Gives it back. */
void kolo_own_op_give_back(struct kolo_request *request);
/** Whether a plan may take the operands of @p task in any order, as far as its operator goes. */
bool kolo_own_op_is_free(const struct kolo_request *request);
/** All that are left, at the end. */
void kolo_own_ops_free(struct kolo_engine *engine);

/* ---- scale.c ---- */

/** Of struct kolo_opts, in this version or an earlier one? */
bool kolo_opts_size_is_known(size_t size);
/** Do these options (may be NULL) scale anything? */
bool kolo_opts_scale(const struct kolo_opts *opts);
kolo_status kolo_scale_check(const struct kolo_task *task) KOLO_NODISCARD;
/** Finds a place for the scaled input, and remembers the factors. ERR_NO_MEMORY. */
kolo_status kolo_scale_prepare(struct kolo_request *request,
                               const struct kolo_task *task) KOLO_NODISCARD;
/** Scales the input; of a request whose prescale is not 0. */
void kolo_scale_begin(const struct kolo_request *request);
/** Scales the result, if that was asked for. */
void kolo_scale_end(const struct kolo_request *request);

#endif
