// SPDX-License-Identifier: Apache-2.0
// A request: a collective, send or receive that has been called. It holds the checked call, the
// route that moves its data (links or a board), its plan, its buffers and its deadline. Private to
// runtime/.
//
// Held: the engine's lock, for all fields and in all functions.
#ifndef KOLO_RUNTIME_REQUEST_H
#define KOLO_RUNTIME_REQUEST_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "runtime/board_moves.h"
#include "runtime/call.h"
#include "runtime/plan.h"
#include "runtime/store.h"
#include "transport/transport.h"

struct kolo_comm;
struct kolo_follow;
struct kolo_group_part;
struct kolo_link;
struct kolo_nested;
struct kolo_own_op;
struct kolo_request;
struct kolo_staged;

/** How the data of a request moves: over links (route_links.c) or over the board of this host
 * (route_board.c). Held: lock. */
struct kolo_route {
    /** It waits for flags in shared memory of other ranks, which may need this processor. */
    bool is_on_board;
    /** Called when a request has been appended to its list. A collective may have others ahead of
     * it, so it must not move anything before advance() is called. */
    void (*begin)(struct kolo_request *request);
    /** Makes as much progress as is possible now. True: the request is over, and its result is
     * there. */
    bool (*advance)(struct kolo_request *request);
    /** Withdraws the request: after it returns, neither this rank nor any other touches its
     * buffers. */
    void (*cancel)(struct kolo_request *request);
    /** Writes the ranks that the request waits for now to @p peers, at most @p capacity of them,
     * and returns their number. */
    int (*waits_for)(const struct kolo_request *request, int peers[], int capacity);
    /** Describes what the request waits for, as in "rank 3 (host, pid 7): tcp ... 3 of 8 MiB
     * received"; "" if it waits for nothing. */
    void (*describe)(const struct kolo_request *request, char *text, size_t capacity);
    /** A number that grows whenever something moves; if it stays the same, the request has
     * stalled. */
    uint64_t (*moves)(const struct kolo_request *request);
};
extern const struct kolo_route kolo_route_links;
extern const struct kolo_route kolo_route_board;

/** A step in flight: its send and its receive. A status of KOLO_OK means that this one is over, or
 * that the step has none. */
struct kolo_flight {
    struct kolo_work in, out;
    int from, to; /* -1: none */
};

/** The progress of a plan over links, on a channel of its own (KOLO_CHANNEL_...). */
struct kolo_strand {
    const struct kolo_plan *plan; /* NULL: a message, which has one step, or an unused strand */
    uint32_t channel;
    bool queues; /* what it sends is only queued */
    size_t nsteps, window;
    size_t first, next;          /* steps in flight: first <= i < next, in flights[i % window] */
    size_t after;                /* `after` of step `next`, if it is known; else 0 */
    struct kolo_flight *flights; /* the communicator's array, or the address of `alone` */
    struct kolo_flight alone;
};

/** Where the data of the request's device buffers is now. */
enum kolo_staging {
    KOLO_STAGING_NONE,   /* the request is not running, or has no device buffers */
    KOLO_STAGING_BEHIND, /* on the device: the stream has not done its earlier work yet */
    KOLO_STAGING_IN,     /* being copied to the host */
    KOLO_STAGING_FLOWS,  /* being copied to the host and back in segments, while the plan runs */
    KOLO_STAGING_DIRECT, /* on the device, where links reach it (staging_direct.c) */
    KOLO_STAGING_LENT,   /* on the device, where the ranks' kernels reach it (staging_lent.c) */
    KOLO_STAGING_READY,  /* on the host */
    KOLO_STAGING_OUT     /* the call is over, its result is being copied to the device */
};

/** What a rank does in a oneshot. It is the same at each start of a request, so it is computed
 * once. */
struct kolo_oneshot {
    bool is_known; /* the other fields have been computed */
    bool is_short; /* a broadcast of which several can be published at a time */
    bool is_inline;
    size_t put_bytes;          /* length of this rank's contribution */
    size_t first, count;       /* the range of moves whose destination is this rank */
    struct kolo_move moves[2]; /* those moves, if they are at most two */
};

/** A collective, send or receive that has been called. Blocking calls keep it on their stack. */
/** The factors of a request's options. */
struct kolo_scaling {
    /** Factor by which input_count elements of `unscaled` are multiplied, into `input`, at each
     * start; 0: none. */
    double prescale;
    size_t input_count;
    const void *unscaled;
    void *input;
    void *room;        /* memory for the input; NULL: none, or it is in a buffer of the caller */
    bool is_on_device; /* its device has scaled the input of this start, in the caller's buffer */
    double postscale;  /* factor of the first result_count elements of recv; 0: none */
    size_t result_count;
};

/** What the detection of stalls knows of a request. */
struct kolo_stall_watch {
    uint64_t moves;      /* what has been done so far */
    uint64_t moves_seen; /* what had been at the last check */
    int quiet_ticks;
    bool is_reported;
    bool has_asked;           /* its deadline has passed, and the store was asked who is absent */
    uint64_t needed_reported; /* hash of the ranks that the store was told it waits for */
    uint32_t report;          /* the number under which a message was reported to the store */
    enum kolo_own_wait own_reported; /* what the store was told that it waits for itself */
};

struct kolo_request {
    struct kolo_comm *comm;
    const struct kolo_route *route;
    struct kolo_request *next, *previous; /* in comm->collectives or comm->messages.list */
    kolo_status status;                   /* KOLO_AGAIN until it is over */
    bool is_async;                        /* from spares.c, freed by test, wait or finalize */
    bool is_persistent;         /* not freed by test and wait, since it can be started again */
    bool is_counted;            /* in engine->outstanding */
    struct kolo_request *chain; /* the next request of its group; all are started together */
    struct kolo_request *next_async, *previous_async; /* in engine->asyncs until freed */
    bool fell_with_comm; /* the communicator failed while it was running */
    bool has_entered;    /* a collective that is or was at the head of comm->collectives */

    struct kolo_call call;
    struct kolo_desc desc;
    int timeout_ms;
    kolo_deadline fixed_deadline; /* of the task; 0: timeout_ms counts from submission */
    unsigned flags;               /* the flag of its options that affects it: KOLO_DETERMINISTIC */
    kolo_deadline deadline;       /* counts from submission, or from when it first has to wait */

    const uint8_t *send; /* buffers, lent by the caller */
    uint8_t *recv, *scratch;
    void *own_scratch;          /* its own scratch memory; NULL: it uses the communicator's */
    size_t *arrays;             /* copies of counts and displs, then of send_...; NULL: none */
    char *name;                 /* copy of opts->name, async only */
    bool in_place;              /* whether the call is in place for the plan */
    struct kolo_own_op *own_op; /* the operator, if the program defined it; else NULL */
    struct kolo_scaling scaling;
    struct kolo_staged *staged; /* its device buffers (staging.c); NULL: none */
    enum kolo_staging stage;    /* where their data is */
    bool is_apart;              /* all of its buffers are device buffers */
    bool may_lend;              /* as far as this rank knows, they may be lent to other ranks */
    struct kolo_follow *follow; /* the program's stream that it follows (stream.c); NULL: none */
    size_t copied; /* with KOLO_STAGING_DIRECT: 1 + the last step whose copy was begun */
    struct kolo_group_part *parts; /* the calls fused into this one (group.c); NULL: none */
    size_t part_count;
    struct kolo_nested *nested; /* the calls that it consists of (nested.c); NULL: none */
    size_t divisor;             /* of an average */

    const struct kolo_plan *plan; /* NULL: a message */
    struct kolo_plan_args args;
    struct kolo_oneshot oneshot; /* board_oneshot.c */
    bool is_kept;  /* kept by repeat.c: its desc is that of the equal call before it */
    bool is_taken; /* kept by repeat.c: a call is using it and may not have read its status */

    struct kolo_stall_watch stall;
    bool is_awaited;        /* a thread is waiting for it, though it is asynchronous */
    struct kolo_work *told; /* a message's work that tells when it ends (messages.c); NULL: none */

    uint64_t ticket; /* ticket of its record in the timeline; 0: none */
    bool has_turn;   /* its turn has been recorded, or need not be */

    struct kolo_strand main, closing; /* its plan and the plan that closes it (route_links.c) */
};

/** Initialises a request in memory with any contents. The strands, two thirds of the struct, are
 * left as they are: the route over links sets them up in begin(), and the route over a board does
 * not use them. */
static inline void kolo_request_clear(struct kolo_request *request)
{
    memset(request, 0, offsetof(struct kolo_request, main));
}

struct kolo_request_list {
    struct kolo_request *first, *last;
};

/** Whether it is a send or receive. Valid once the request has its plan. */
static inline bool kolo_request_is_message(const struct kolo_request *request)
{
    return request->plan == NULL;
}

/* ---- request.c ---- */

/** Makes the request asynchronous and lists it, so that finalize can free it if the program does
 * not. */
void kolo_request_enlist(struct kolo_comm *comm, struct kolo_request *request);
/** Undoes that: the caller frees it. */
void kolo_request_unlist(struct kolo_request *request);
/** Packs the description, appends the request to its list and begins it if possible. */
void kolo_request_submit(struct kolo_comm *comm, struct kolo_request *request);
/** Appends a message that was posted (kolo_message_post) and is not over to the list of messages,
 * so that it is advanced with the others. */
void kolo_request_take_up(struct kolo_comm *comm, struct kolo_request *request);
/** Advances every request as far as possible. */
void kolo_requests_advance(struct kolo_comm *comm);
/** Completes the result once it is on the host: scales it, and copies the parts of a fused call to
 * the program's buffers. */
void kolo_request_finish(const struct kolo_request *request);
/** Prepares for ending unfinished collectives of @p comm: ends the copies of all of them, and lets
 * the streams that wait for them continue where possible. This must come first because a route may
 * lock pages when it is cancelled, for which a driver may wait for its streams. */
void kolo_requests_calm(const struct kolo_comm *comm);
/** Removes the request from its list and gives it @p status; its transfers are cancelled. */
void kolo_request_end(struct kolo_request *request, kolo_status status);
/** Frees what the request owns, and the request itself if it is asynchronous. Held: lock, if
 * it is. */
void kolo_request_drop(struct kolo_request *request);
void kolo_request_words(const struct kolo_request *request, char *text, size_t capacity);

/* ---- messages.c ---- */

/** Advances the messages of @p comm that may go on. */
void kolo_messages_advance(struct kolo_comm *comm);
/** Advances a message that has just begun. The others wait for the next poll of everything. */
void kolo_message_advance_new(struct kolo_comm *comm, struct kolo_request *request);
/** Forgets the work of a message that is over. */
void kolo_message_untell(struct kolo_request *request);

/* ---- route_links.c ---- */

/** Whether the range that @p step marks as finished must still be processed (the division of an
 * average, for example). */
static inline bool kolo_step_finishes(const struct kolo_request *request,
                                      const struct kolo_step *step)
{
    return step->finish.count > 0 && (request->args.size == 1 || request->call.op == KOLO_AVERAGE);
}
/** Makes the channels of the plan's steps on links that are up, so that the request does not lack
 * memory for them once it has begun. Held: lock. ERR_NO_MEMORY. */
kolo_status kolo_links_open_channels(const struct kolo_request *request) KOLO_NODISCARD;
/** Gives a message its number and hands its transfer to @p link, which must be up. The request has
 * its call, and its buffers are in host memory. Held: lock. */
void kolo_message_post(struct kolo_request *request, struct kolo_link *link);
/** Whether the message has been sent or received. False: not yet, or it failed. */
static inline bool kolo_message_is_over(const struct kolo_request *request)
{
    const struct kolo_flight *flight = &request->main.alone;
    return flight->in.status == KOLO_OK && flight->out.status == KOLO_OK;
}
static inline bool kolo_message_has_failed(const struct kolo_request *request)
{
    const struct kolo_flight *flight = &request->main.alone;
    return (flight->in.status != KOLO_OK && flight->in.status != KOLO_AGAIN) ||
           (flight->out.status != KOLO_OK && flight->out.status != KOLO_AGAIN);
}
/** The address of a slice; NULL: this rank does not have that buffer. */
uint8_t *kolo_slice_address(const struct kolo_request *request, const struct kolo_slice *slice);

#endif
