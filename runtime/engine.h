// SPDX-License-Identifier: Apache-2.0
// What a rank has once, however many communicators it is in: settings, memory, its endpoint, the
// connection to the store, the lock, and the threads that make progress. Private to runtime/.
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
    int64_t spin_ns, yield_ns;
    char *transports, *memory_kinds, *left_out; /* for kolo_get_info; made when first asked for */
    struct kolo_comm *world;
    struct kolo_timeline *timeline; /* NULL: none is kept */
    uint64_t start_ticket;          /* of kolo_init, in the timeline */
    bool *ended;                    /* set to true when the world is finalized; may be NULL */
    /* ---- */
    struct kolo_comm *comms; /* all, including the world */
    struct kolo_comm *busy;  /* all that have requests or a suspicion, and maybe others */
    int creating;            /* calls under way that make communicators */
    struct kolo_early_failure
        *early_failures; /* failures of communicators that this rank does not have yet */
    pthread_mutex_t lock;
    pthread_mutex_t news_lock;   /* for the wait on `changed`; taken after `lock` to publish news */
    pthread_cond_t changed;      /* a request or query has ended, or there is no progressor */
    uint64_t news;               /* counts these events; written with both locks held */
    sem_t thread_wake;           /* wakes the progress thread */
    atomic_bool is_thread_woken; /* posted, and not yet taken by the thread */
    atomic_int wanting;          /* threads that wait for the lock */
    /* this and all other atomic fields are also read without the lock */
    atomic_bool has_progressor;
    bool is_sleeping;
    unsigned asks;    /* times a program asked whether a request is over, and it was not */
    unsigned looks;   /* since the clock was read: polls of everything, or of a route's flags */
    uint64_t turns;   /* polls of everything so far */
    uint32_t reports; /* messages reported to the store */
    unsigned calls_at_once; /* messages so far that completed without such a poll */
    bool has_moved;   /* set by a route: a request progressed other than through the endpoint */
    int waiting;      /* callers that wait on `changed` */
    int64_t *left_ns; /* by rank: when the store said that it left; 0: it has not */
    bool has_left;    /* a rank has left, by its own word or the store's */
    kolo_deadline next_timer; /* when kolo_engine_timers is due at the latest */
    kolo_deadline next_tick;  /* of the check for stalls */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_stopping;
    bool is_thread_asleep;         /* it polls nothing until it is woken */
    _Atomic uint64_t thread_calls; /* times it was asked to check whether it is needed */
    struct kolo_request *asyncs;   /* all asynchronous requests that are not freed */
    atomic_int outstanding;        /* those that are not over */
    int following;                 /* those of them that follow a stream */
    struct kolo_lane *lanes;       /* to devices whose memory calls have used; staging.c */
    struct kolo_slab *slabs;       /* host memory that stands in for device memory */
    size_t slab_bytes_unused;      /* of the slabs that no call uses now */
    size_t slab_bytes_used;        /* of those that calls use now */
    size_t slab_bytes_kept;        /* the most that calls used at a time, forgotten slowly */
    struct kolo_slab *slabs_to_free;
    atomic_bool has_slabs_to_free; /* written with the lock held */
    struct kolo_own_op **own_ops;  /* by number; NULL: free; see own_ops.c */
    int own_op_count;
    /* From kolo_alloc_device; see device_memory.c. */
    struct kolo_device_memory *device_memory;
    struct kolo_recall *recalls; /* loans.c: memory that others want back, like the fields below */
    pthread_t tidier;            /* thread that returns it, and frees what has been returned */
    pthread_cond_t tidy_wake;
    /* is_untidy: the thread has work. While it runs, all three are written with the lock held. */
    atomic_bool has_tidier, is_tidier_stopping, is_untidy;
    bool is_unmapping;         /* memory that lanes have detached is still mapped */
    kolo_status are_loans_out; /* KOLO_AGAIN: the end waits for loans to be returned */
    /* KOLO_AGAIN: memory that the program freed is not yet freed on the device */
    kolo_status is_freed_there;
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
/** For kolo_heap_free, with the engine as @p context: neighbours unmap the span. Held: lock. */
void kolo_engine_tell_gone(void *context, uint64_t id);
/** The communicator with that number; NULL: this rank has none. Held: lock. */
struct kolo_comm *kolo_engine_comm(const struct kolo_engine *engine, uint32_t number);
/** "rank 5 (host7, pid 812)" for a rank in the world. */
const char *kolo_engine_rank_text(const struct kolo_engine *engine, int world,
                                  char text[KOLO_RANK_TEXT_MAX]);

/* ---- device_memory.c (takes the lock) ---- */

/** Finds the allocation that contains the @p bytes bytes at @p address; false: it is not one of
 * ours. Held: lock. */
bool kolo_device_memory_find(const struct kolo_engine *engine, const void *address, size_t bytes,
                             struct kolo_pointer *pointer_out);
/** Whether other ranks of the host can map the allocation that contains these bytes. May call the
 * driver, once per allocation. Must be called without the lock, as _free and _reap; the others need
 * it. */
bool kolo_device_memory_may_lend(struct kolo_engine *engine, const void *address, size_t bytes);
/** Whether it is known already that they can. */
bool kolo_device_memory_has_loan(const struct kolo_engine *engine, const void *address,
                                 size_t bytes);
/** What other members of @p comm need to map the allocation; from now on they may. Valid while the
 * lock is held. NULL: it cannot be lent, was freed, or there is no memory. */
const struct kolo_loan *kolo_device_memory_lend(const struct kolo_comm *comm, const void *address,
                                                size_t bytes);
/** Rank @p world has returned loan @p id; 0: no loan. */
void kolo_device_memory_returned(struct kolo_engine *engine, int world, uint64_t id);
/** Loan @p id stays mapped somewhere, whatever is returned: its memory is never freed. */
void kolo_device_memory_kept(struct kolo_engine *engine, uint64_t id);
/** Recalls everything that is lent. False: nothing is. */
bool kolo_device_memory_recall(struct kolo_engine *engine);
bool kolo_device_memory_is_lent(const struct kolo_engine *engine);
/** Whether there is memory that the program has freed and others may still have mapped. */
bool kolo_device_memory_has_freed(const struct kolo_engine *engine);
/** Frees what the program has freed and all others have returned, once the device has done its
 * earlier work, unless @p unless ends the wait. */
void kolo_device_memory_reap(struct kolo_engine *engine, const struct kolo_unless *unless);
/** Frees @p memory, at once or when all borrowers have returned it. ERR_INVALID without a detail:
 * it is not device memory of ours. */
kolo_status kolo_device_memory_free(struct kolo_engine *engine, void *memory);
/** Frees all that is left. */
void kolo_device_memory_close(struct kolo_engine *engine, kolo_deadline deadline);

/* ---- host_memory.c (not held: lock, which is taken) ---- */

/** Unlocks memory of the heap for devices, and frees it. No stream may be held. ERR_INVALID: it is
 * none. */
kolo_status kolo_host_memory_free(struct kolo_engine *engine, void *memory);
/** Frees what kolo_free has put aside once no stream is held, unless one still is at @p deadline,
 * or @p unless (may be NULL) ends the wait. */
void kolo_host_memory_reap(struct kolo_engine *engine, kolo_deadline deadline,
                           const struct kolo_unless *unless);

/* ---- loans.c ---- */

struct kolo_recall;
/** Rank @p world wants loan @p id of its memory back. Held: lock, as for the next two. */
void kolo_loans_recalled(struct kolo_engine *engine, int world, uint64_t id);
/** Rank @p world has returned loan @p id of this rank's memory; 0: no loan. */
void kolo_loans_returned(struct kolo_engine *engine, int world, uint64_t id);
/** Rank @p world has gone, or is unreachable. */
void kolo_loans_gone(struct kolo_engine *engine, int world);
/** Starts the thread that tidies; called before the first allocation of device memory. Not held:
 * lock, as for _settle. */
kolo_status kolo_loans_start(struct kolo_engine *engine) KOLO_NODISCARD;
/** Waits until memory that the program has freed is freed on the device, or until @p deadline. */
void kolo_loans_settle(struct kolo_engine *engine, kolo_deadline deadline);
/** Makes the thread check whether there is something to unmap, answer or free. Held: lock. */
void kolo_loans_look(struct kolo_engine *engine);
/** Unmaps all that others have lent, and waits until @p deadline for them to return all of this
 * rank's loans. No call may use any of it any more. Not held: lock. */
void kolo_loans_end(struct kolo_engine *engine, kolo_deadline deadline);

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
/** Fires what is due in all communicators, and sets when the next is. */
void kolo_engine_timers(struct kolo_engine *engine, int64_t now_ns);

#endif
