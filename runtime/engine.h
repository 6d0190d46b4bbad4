// SPDX-License-Identifier: Apache-2.0
// What a rank has once, however many communicators it is in: settings, memory, its endpoint, the
// connection to the store, the lock, and the threads that make progress. Private to those who may
// include runtime/comm.h.
//
// One lock (engine->lock) protects everything here except the fields marked constant, and
// everything in the rank's communicators. It is never held while a thread sleeps. Threads that wait
// take turns as the progressor, the one thread that polls the endpoint and advances requests
// (engine.c).
#ifndef KOLO_RUNTIME_ENGINE_H
#define KOLO_RUNTIME_ENGINE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "runtime/cost.h"
#include "runtime/patience.h"
#include "runtime/rendezvous.h"
#include "runtime/store.h"

struct kolo_comm;
struct kolo_request;
struct kolo_early_failure;
struct kolo_own_op;
struct kolo_lane;
struct kolo_slab;
struct kolo_device_memory;
struct kolo_timeline;

enum { KOLO_RANK_TEXT_MAX = 160 };

/** The thread that makes progress while no thread of the program waits (engine.c). */
struct kolo_progress_thread {
    pthread_t id;
    bool is_running;
    atomic_bool is_stopping;
    bool is_asleep;         /* it polls nothing until it is woken */
    _Atomic uint64_t calls; /* times it was asked to check whether it is needed */
    sem_t wake;
    atomic_bool is_woken; /* `wake` is posted, and the thread has not taken that yet */
};

/** Host memory that stands in for device memory (slabs.c). */
struct kolo_slabs {
    struct kolo_slab *first;
    size_t bytes_unused; /* of those that no call uses now */
    size_t bytes_used;   /* of those that calls use now */
    size_t bytes_kept;   /* the most that calls used at a time, forgotten slowly */
    struct kolo_slab *to_free;
    atomic_bool has_to_free; /* written with the lock held */
};

/** Numbers for new communicators that this rank has taken from the store (numbers.c). */
struct kolo_numbers {
    int32_t next, end; /* those from next to below end */
};

/** Memory of requests that are over (spares.c). */
struct kolo_spares {
    struct kolo_request *first;
    int count;
};

/** The thread that returns lent device memory, and frees what kolo_free has left to it
 *  (loans.c). */
struct kolo_tidier {
    struct kolo_recall *recalls; /* memory that others want back */
    pthread_t thread;
    pthread_cond_t wake;
    /* While the thread runs, all three are written with the lock held. */
    atomic_bool has_thread, is_stopping, has_work;
    bool is_unmapping; /* memory that lanes have detached is still mapped */
    /* KOLO_AGAIN while they are awaited: that loans are returned at the end; that the device has
     * freed what the program freed */
    kolo_status loans_return, memory_freeing;
};

/* Numbers are given one after the other: up to so many communicators have a remainder each. */
enum { KOLO_COMM_REMAINDERS = 256 };

struct kolo_engine {
    int rank, size;                /* in the world; constant, like all down to the line */
    unsigned forks;                /* kolo_forks() of the process that it belongs to */
    struct kolo_settings settings; /* must outlive the endpoint */
    struct kolo_figures figures;   /* rank 0's; used to choose plans */
    struct kolo_heap *heap;
    struct kolo_endpoint *endpoint;
    struct kolo_store_client *store;
    const struct kolo_peer *peers;       /* by rank in the world; owned by the store client */
    struct kolo_rendezvous_host *host;   /* in rank 0 without a launcher */
    struct kolo_store_thread *own_store; /* in a world of one */
    int64_t spin_ns, yield_ns;           /* how long a wait spins at most, and then yields */
    char *transports, *memory_kinds, *left_out; /* for kolo_get_info; made when first asked for */
    struct kolo_comm *world;
    struct kolo_timeline *timeline; /* NULL: none is kept */
    uint64_t start_ticket;          /* of kolo_init, in the timeline */
    bool *ended;                    /* set to true when the world is finalized; may be NULL */
    /* ---- */
    struct kolo_comm *comms; /* all, including the world, */
    /** and the same by the remainders of their numbers: frames name their communicator by it. */
    struct kolo_comm *numbered[KOLO_COMM_REMAINDERS];
    struct kolo_comm *busy; /* all that have requests or a suspicion, and maybe others */
    int creating;           /* calls under way that make communicators */
    struct kolo_numbers numbers;
    struct kolo_early_failure
        *early_failures; /* failures of communicators that this rank does not have yet */
    pthread_mutex_t lock;
    pthread_mutex_t news_lock; /* for the wait on `changed`; taken after `lock` to publish news */
    pthread_cond_t changed;    /* a request or query has ended, or there is no progressor */
    uint64_t news;             /* counts these events; written with both locks held */
    atomic_int wanting;        /* threads that wait for the lock */
    atomic_bool is_awaited;    /* the progressor waits for the lock: others leave it to it */
    /* this and all other atomic fields are also read without the lock */
    atomic_bool has_progressor;
    bool is_sleeping;
    struct kolo_patience patience; /* how long the progressor spins before it yields */
    unsigned asks;    /* times a program asked whether a request is over, and it was not */
    unsigned looks;   /* since the clock was read: polls of everything, or of a route's flags */
    uint64_t turns;   /* polls of everything so far */
    uint32_t reports; /* messages reported to the store */
    unsigned calls_at_once; /* messages so far that completed without such a poll */
    bool has_moved;      /* set by a route: a request progressed other than through the endpoint */
    int waiting;         /* callers that wait on `changed` */
    int64_t *left_ns;    /* by rank: when the store said that it left; 0: it has not */
    bool has_left;       /* a rank has left, by its own word or the store's */
    bool has_lost_first; /* the store said that rank 0 was lost */
    kolo_deadline next_timer; /* when kolo_engine_timers is due at the latest */
    kolo_deadline next_tick;  /* of the check for stalls */
    struct kolo_progress_thread thread;
    struct kolo_request *asyncs; /* all asynchronous requests that are not freed */
    atomic_int outstanding;      /* those that are not over */
    int following;               /* those of them that follow a stream */
    struct kolo_lane *lanes;     /* to devices whose memory calls have used; staging.c */
    struct kolo_slabs slabs;
    struct kolo_own_op **own_ops; /* by number; NULL: free; see own_ops.c */
    int own_op_count;
    struct kolo_device_memory *device_memory; /* of kolo_alloc_device; see device_memory.c */
    struct kolo_tidier tidier;
    struct kolo_spares spares;
};

/* ---- engine_life.c ---- */

/** Allocates it and sets up its locks. Free it with kolo_engine_destroy. */
kolo_status kolo_engine_create(struct kolo_engine **engine_out) KOLO_NODISCARD;
/** Frees everything, including communicators, by @p deadline; the links, which deliver what was
 * sent, by @p handover. NULL is allowed. */
kolo_status kolo_engine_destroy(struct kolo_engine *engine, kolo_deadline deadline,
                                kolo_deadline handover);
/** Does the same at once for an engine that could not start, and keeps the error detail. */
void kolo_engine_give_up(struct kolo_engine *engine);
void kolo_engine_enter(struct kolo_engine *engine);
void kolo_engine_leave(struct kolo_engine *engine);
/** The communicator with that number; NULL: this rank has none. Held: lock. */
struct kolo_comm *kolo_engine_comm(const struct kolo_engine *engine, uint32_t number);
/** "rank 5 (host7, pid 812)" for a rank in the world. */
const char *kolo_engine_rank_text(const struct kolo_engine *engine, int world_rank,
                                  char text[KOLO_RANK_TEXT_MAX]);

/* ---- comm.c ---- */

/** For kolo_heap_free, with the engine as @p context: neighbours unmap the span. Held: lock. */
void kolo_engine_tell_gone(void *context, uint64_t id);

/* ---- engine.c (held: lock) ---- */

/** Waits until *status is not KOLO_AGAIN, and makes progress meanwhile. False: the deadline has
 * passed, or @p comm (NULL: none) has failed. */
bool kolo_engine_await(struct kolo_engine *engine, struct kolo_comm *comm,
                       const kolo_status *status, kolo_deadline deadline);

/** Whether any communicator has requests or a suspicion. */
bool kolo_engine_is_busy(struct kolo_engine *engine);
/** Polls everything once, unless another thread is doing so. */
void kolo_engine_poll(struct kolo_engine *engine);
/** The program has asked for something that is not over, and will ask again. If ranks share
 * processors, others need this one for it to end, so the lock and the processor are given up now
 * and then. */
void kolo_engine_asked_in_vain(struct kolo_engine *engine);
/** Wakes all sleepers, because there is something new. */
void kolo_engine_notify(struct kolo_engine *engine);
/** Something has ended: wakes waiters that are not the progressor, so that they check. */
void kolo_engine_news(struct kolo_engine *engine);
/** Starts the progress thread if it is not running. */
kolo_status kolo_engine_start_thread(struct kolo_engine *engine) KOLO_NODISCARD;
/** Not held: lock. */
void kolo_engine_stop_thread(struct kolo_engine *engine);

/* ---- failure.c (held: lock) ---- */

/** The event tables through which endpoint and store report failures of the engine's
 * communicators. */
void kolo_engine_events(struct kolo_engine *engine, struct kolo_endpoint_events *endpoint_out,
                        struct kolo_store_client_events *store_out);
/** Begin and end of a call that makes communicators. In between, failures of unknown communicators
 * are kept, since another member may be ahead of this rank. */
void kolo_engine_creating(struct kolo_engine *engine);
void kolo_engine_created(struct kolo_engine *engine);

/* ---- timers.c (held: lock) ---- */

/** Fires what is due in all communicators, and sets when the next is. */
void kolo_engine_timers(struct kolo_engine *engine, int64_t now_ns);

#endif
