// SPDX-License-Identifier: Apache-2.0
// A collective, send or receive on its way: what a call has become, how it moves (its route), and
// what it has of plans, buffers and deadlines. Private to runtime/.
//
// Held: the engine's lock, for all of it and in all calls.
#ifndef KOLO_RUNTIME_REQUEST_H
#define KOLO_RUNTIME_REQUEST_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "runtime/board_moves.h"
#include "runtime/call.h"
#include "runtime/plan.h"
#include "transport/transport.h"

struct kolo_comm;
struct kolo_follow;
struct kolo_group_part;
struct kolo_link;
struct kolo_own_op;
struct kolo_request;
struct kolo_staged;

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

struct kolo_request_list {
    struct kolo_request *first, *last;
};

/** Is it a send or receive? Once it has its plan. */
static inline bool kolo_request_is_message(const struct kolo_request *request)
{
    return request->plan == NULL;
}

/* ---- request.c ---- */

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

#endif
