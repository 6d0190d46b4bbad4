// SPDX-License-Identifier: Apache-2.0
// A communicator from inside: one rank's world. Private to runtime/.
//
// One lock (comm->lock) guards everything here but the fields marked constant; it is never held
// while a thread sleeps. Whoever has to wait takes turns as the progressor: the one thread that
// moves the endpoint and advances requests (engine.c). Nothing calls back into the user.
#ifndef KOLO_RUNTIME_COMM_H
#define KOLO_RUNTIME_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include <kolo/kolo.h>

#include "runtime/call.h"
#include "runtime/plan.h"
#include "runtime/rendezvous.h"
#include "runtime/store.h"

enum {
    KOLO_CHANNEL_COLLECTIVE = 0,
    KOLO_CHANNEL_MESSAGE = 1,
    KOLO_RANK_TEXT_MAX = 128,
    KOLO_VERDICT_GRACE_MS = 300 /* how long a fallen link may wait for the store to say why */
};

struct kolo_request;

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

/** A collective, send or receive on its way. Blocking calls keep it on their stack. */
struct kolo_request {
    struct kolo_comm *comm;
    const struct kolo_route *route;
    struct kolo_request *next, *previous; /* in comm->collectives or comm->messages */
    kolo_status status;                   /* KOLO_AGAIN until it is over */
    bool is_async;                        /* from kolo_calloc, freed by test, wait or finalize */
    struct kolo_request *next_async, *previous_async; /* in comm->asyncs until freed */
    bool fell_with_comm; /* it was running when the communicator failed */

    struct kolo_call call;
    struct kolo_desc desc;
    int timeout_ms;
    kolo_deadline deadline;

    const uint8_t *send; /* buffers, lent by the caller */
    uint8_t *recv, *scratch;
    void *own_scratch; /* NULL: the communicator's */
    size_t *arrays;    /* copies of counts and displs; NULL: none */
    char *name;        /* copy of opts->name, async only */

    /* a collective: where in the plan it is; a message has just one step */
    const struct kolo_plan *plan; /* then the barrier that closes it */
    struct kolo_plan_args args;
    size_t index, nsteps;
    struct kolo_work in, out; /* of the present step; status OK: over, or none */
    int from, to;             /* -1: none */

    /* stalls: what was done when we last looked */
    uint64_t moves, moves_seen;
    int quiet_ticks;
    bool is_reported;
};

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

struct kolo_comm {
    int rank, size;                /* constant, as far as the line */
    struct kolo_settings settings; /* outlives the endpoint */
    struct kolo_heap *heap;
    struct kolo_endpoint *endpoint;
    struct kolo_store_client *store;
    const struct kolo_peer *peers;       /* by rank; the store client's */
    struct kolo_rendezvous_host *host;   /* rank 0 without a launcher */
    struct kolo_store_thread *own_store; /* a world of one */
    int64_t spin_ns, yield_ns;
    char *transports, *memory_kinds, *left_out; /* for kolo_get_info; made when first asked */
    char choice_why[256];                       /* of the peer last asked for */
    int local_rank, local_size;
    /* ---- */
    pthread_mutex_t lock;
    pthread_mutex_t news_lock;  /* what waiters sleep on; taken after `lock` by who has news */
    pthread_cond_t changed;     /* a request or question ended, or the progressor's place is free */
    uint64_t news;              /* counts them; changed with both locks held */
    pthread_cond_t thread_wake; /* for the progress thread */
    atomic_int wanting;         /* threads that wait for the lock */
    bool has_progressor, is_sleeping;
    int waiting; /* callers that wait on `changed` */
    struct kolo_request_list collectives, messages;
    uint32_t sequence;         /* of the next collective */
    uint32_t *sent, *received; /* next sequence per peer */
    int64_t *left_ns;          /* when the store said that a rank left; 0: it did not */
    kolo_deadline next_timer;  /* when kolo_comm_timers is due, at the latest */
    kolo_deadline next_tick;   /* of stalls */
    void *scratch;
    size_t scratch_bytes;
    bool scratch_in_heap;
    struct kolo_failure failure;
    struct kolo_suspicion suspicion;
    bool must_report;       /* the running collective, to the store */
    atomic_bool has_failed; /* mirrors failure.status, for a look without the lock */
    pthread_t thread;
    bool has_thread, is_stopping;
    struct kolo_request *asyncs; /* all asynchronous requests that were not freed */
    int outstanding;             /* those of them that are not over */
};

/* ---- comm.c ---- */

/** Zeroes and sets up locks; what kolo_comm_free frees. */
kolo_status kolo_comm_create(struct kolo_comm **comm_out) KOLO_NODISCARD;
/** Frees everything that is there; the links are closed by @p deadline. NULL is fine. */
kolo_status kolo_comm_destroy(struct kolo_comm *comm, kolo_deadline deadline);
void kolo_comm_enter(struct kolo_comm *comm);
void kolo_comm_leave(struct kolo_comm *comm);
/** "rank 5 (host7, pid 812)" */
const char *kolo_comm_rank_text(const struct kolo_comm *comm, int rank,
                                char text[KOLO_RANK_TEXT_MAX]);
/** At least @p bytes of scratch for @p request. Held: lock. ERR_NO_MEMORY. */
kolo_status kolo_comm_scratch(struct kolo_comm *comm, struct kolo_request *request,
                              size_t bytes) KOLO_NODISCARD;

/* ---- failure.c (held: lock) ---- */

/** The event tables that feed a communicator's failures. */
void kolo_comm_events(struct kolo_comm *comm, struct kolo_endpoint_events *endpoint_out,
                      struct kolo_store_client_events *store_out);
/** Something is wrong, with @p peer if not -1; it becomes the failure after @p grace_ms, unless
 * something more telling comes. */
void kolo_comm_suspect(struct kolo_comm *comm, int peer, kolo_status status, int64_t grace_ms,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
/** Turns a ripe suspicion into the failure: ends all requests, tells the others. */
void kolo_comm_settle(struct kolo_comm *comm);
/** The first failure wins. @p tell: the store and the links do not know it yet. */
void kolo_comm_fail(struct kolo_comm *comm, kolo_status status, const char *text, bool tell);
/** The failure as a call's result: sets this thread's detail, returns the status. @p request NULL:
 * the call is no request. */
kolo_status kolo_comm_failed(struct kolo_comm *comm, const struct kolo_request *request);
/** Fires what is due and says when the next is. */
void kolo_comm_timers(struct kolo_comm *comm, int64_t now_ns);

/* ---- request.c (held: lock) ---- */

/** Packs the description, appends to its list, begins if it can. */
void kolo_request_submit(struct kolo_comm *comm, struct kolo_request *request);
/** Advances every request as far as it goes. */
void kolo_requests_advance(struct kolo_comm *comm);
/** Takes it out of its list with this result; its works are cancelled. */
void kolo_request_end(struct kolo_request *request, kolo_status status);
/** Frees what it owns (and itself if asynchronous). Held: lock, if it was submitted. */
void kolo_request_free(struct kolo_request *request);
void kolo_request_words(const struct kolo_request *request, char *text, size_t capacity);

/* ---- engine.c ---- */

/** Waits until *status is no longer KOLO_AGAIN, moving things along. False: the deadline passed, or
 * the communicator failed. Held: lock. */
bool kolo_engine_wait(struct kolo_comm *comm, const kolo_status *status, kolo_deadline deadline);
/** One look at everything, if nobody else does it. Held: lock. */
void kolo_engine_poll(struct kolo_comm *comm);
/** Wakes whoever sleeps, because there is something new. Held: lock. */
void kolo_engine_notify(struct kolo_comm *comm);
/** Something ended: whoever waits without being the progressor shall look. Held: lock. */
void kolo_engine_news(struct kolo_comm *comm);
/** Starts the progress thread if there is none. Held: lock. */
kolo_status kolo_engine_start_thread(struct kolo_comm *comm) KOLO_NODISCARD;
void kolo_engine_stop_thread(struct kolo_comm *comm);

/* ---- submit.c ---- */

/** A call of the public API, checked. */
struct kolo_task {
    enum kolo_call_kind kind;
    const char *function; /* "kolo_allreduce" */
    const void *send;
    void *recv;
    size_t count;
    const size_t *counts, *displs;
    kolo_dtype dtype;
    kolo_redop op;
    int root, peer;
    bool in_place;
    const struct kolo_opts *opts;
    struct kolo_request **request_out;
};
/** What all calls have in common: comm, dtype, op, root and opts. collectives.c */
kolo_status kolo_task_check(const struct kolo_comm *comm,
                            const struct kolo_task *task) KOLO_NODISCARD;
kolo_status kolo_task_run(struct kolo_comm *comm, const struct kolo_task *task) KOLO_NODISCARD;

#endif
