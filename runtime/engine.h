// SPDX-License-Identifier: Apache-2.0
// What one rank has once, whatever communicators it is in: settings, memory, its end of the links,
// the connection to the store, the lock, and the threads that move things along. Private to
// runtime/.
//
// One lock (engine->lock) guards everything here but the fields marked constant, and everything of
// its communicators; it is never held while a thread sleeps. Whoever has to wait takes turns as the
// progressor: the one thread that moves the endpoint and advances requests (engine.c).
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
    int rank, size;                /* in the world; constant, as far as the line */
    unsigned forks;                /* kolo_forks() of the process that it is of */
    struct kolo_settings settings; /* outlives the endpoint */
    struct kolo_figures figures;   /* of rank 0 of the world: the choice of plans goes by them */
    struct kolo_heap *heap;
    struct kolo_endpoint *endpoint;
    struct kolo_store_client *store;
    const struct kolo_peer *peers;       /* by rank in the world; the store client's */
    struct kolo_rendezvous_host *host;   /* rank 0 without a launcher */
    struct kolo_store_thread *own_store; /* a world of one */
    int64_t spin_ns, yield_ns;
    char *transports, *memory_kinds, *left_out; /* for kolo_get_info; made when first asked */
    struct kolo_comm *world;
    struct kolo_timeline *timeline; /* NULL: none is kept */
    uint64_t start_ticket;          /* there: of kolo_init */
    bool *ended;                    /* becomes true when the world is finalized; NULL: none */
    /* ---- */
    struct kolo_comm *comms; /* all, the world among them */
    struct kolo_comm *busy;  /* those with requests or a suspicion, and maybe more */
    int creating;            /* calls that make communicators now */
    struct kolo_early_failure
        *early_failures; /* failures of communicators that this rank does not have yet */
    pthread_mutex_t lock;
    pthread_mutex_t news_lock; /* what waiters sleep on; taken after `lock` by who has news */
    pthread_cond_t changed;    /* a request or question ended, or the progressor's place is free */
    uint64_t news;             /* counts them; changed with both locks held */
    sem_t thread_wake;         /* ends a sleep of the progress thread's */
    atomic_bool is_thread_woken; /* it was posted, and the thread has not taken that */
    atomic_int wanting;          /* threads that wait for the lock */
    atomic_bool has_progressor;  /* read without the lock, too, as all atomic ones here */
    bool is_sleeping;
    unsigned asks;    /* of programs whether requests are over, which they were not */
    unsigned looks;   /* since the clock was read: at everything, or by a route at its flags */
    uint64_t turns;   /* looks at everything, so far */
    uint32_t reports; /* messages that the store was told of */
    unsigned calls_at_once; /* messages that were over without any, so far */
    bool has_moved;   /* a request went on by other ways than the endpoint's; set by its route */
    int waiting;      /* callers that wait on `changed` */
    int64_t *left_ns; /* when the store said that a rank left; 0: it did not */
    bool has_left;    /* one of them has, by its own word or the store's */
    kolo_deadline next_timer; /* when kolo_engine_timers is due, at the latest */
    kolo_deadline next_tick;  /* of stalls */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_stopping;
    bool is_thread_asleep;         /* it looks at nothing until it is woken */
    _Atomic uint64_t thread_calls; /* so often it was asked to look whether it is needed */
    struct kolo_request *asyncs;   /* all asynchronous requests that were not freed */
    atomic_int outstanding;        /* those of them that are not over */
    int following;                 /* those of these that follow a stream */
    struct kolo_lane *lanes;       /* to devices whose memory calls have brought; staging.c */
    struct kolo_slab *slabs;       /* what stands in for it */
    size_t slab_bytes_unused;      /* of those that no call has now */
    struct kolo_slab *slabs_to_free;
    atomic_bool has_slabs_to_free; /* written: lock */
    struct kolo_own_op **own_ops;  /* by number; NULL: free. own_ops.c */
    int own_op_count;
    /* of kolo_alloc_device; device_memory.c */
    struct kolo_device_memory *device_memory;
    struct kolo_recall *recalls; /* loans.c: what others want back, as what follows */
    pthread_t tidier;            /* the thread that gives it back, and frees what has come back */
    pthread_cond_t tidy_wake;
    atomic_bool has_tidier, is_tidier_stopping;
    atomic_bool is_untidy;     /* it has something to look at; written: lock, as of the two above */
    bool is_unmapping;         /* what lanes have detached is mapped yet */
    kolo_status are_loans_out; /* KOLO_AGAIN: the end waits for them */
    kolo_status is_freed_there; /* KOLO_AGAIN: what the program freed is not the device's again */
};

/* ---- engine_life.c ---- */

/** Zeroes and sets up locks; what kolo_engine_destroy frees. */
kolo_status kolo_engine_create(struct kolo_engine **engine_out) KOLO_NODISCARD;
/** Frees everything that is there, communicators too, by @p deadline; the links, which hand over
 * what was sent, by @p handover. NULL is fine. */
kolo_status kolo_engine_destroy(struct kolo_engine *engine, kolo_deadline deadline,
                                kolo_deadline handover);
/** The same at once for one that could not start: the detail of why stays. */
void kolo_engine_give_up(struct kolo_engine *engine);
void kolo_engine_enter(struct kolo_engine *engine);
void kolo_engine_leave(struct kolo_engine *engine);
/** Of kolo_heap_free, whose @p context is the engine: the neighbours let go of what they mapped.
 * Held: lock. */
void kolo_engine_tell_gone(void *context, uint64_t id);
/** The communicator of that number; NULL: this rank has none. Held: lock. */
struct kolo_comm *kolo_engine_comm(const struct kolo_engine *engine, uint32_t number);
/** "rank 5 (host7, pid 812)", of a rank in the world. */
const char *kolo_engine_rank_text(const struct kolo_engine *engine, int world,
                                  char text[KOLO_RANK_TEXT_MAX]);

/* ---- device_memory.c (takes the lock) ---- */

/** The allocation that the @p bytes bytes at @p address lie in; false: none of ours. Held: lock. */
bool kolo_device_memory_find(const struct kolo_engine *engine, const void *address, size_t bytes,
                             struct kolo_pointer *pointer_out);
/** Can other ranks of the host map the allocation that they lie in? May call a driver, once for
 * each. Not held: lock, as of none but this, _free and _reap. */
bool kolo_device_memory_may_lend(struct kolo_engine *engine, const void *address, size_t bytes);
/** Is it known that they can? */
bool kolo_device_memory_has_loan(const struct kolo_engine *engine, const void *address,
                                 size_t bytes);
/** What they need for it: the other members of @p comm may map it from here on. Good while the lock
 * is held. NULL: it cannot be lent, was freed, or there is no memory. */
const struct kolo_loan *kolo_device_memory_lend(const struct kolo_comm *comm, const void *address,
                                                size_t bytes);
/** Rank @p world in the world has loan @p id no more; 0: none. */
void kolo_device_memory_returned(struct kolo_engine *engine, int world, uint64_t id);
/** Loan @p id stays mapped somewhere, whatever is returned: its memory is never freed. */
void kolo_device_memory_kept(struct kolo_engine *engine, uint64_t id);
/** Recalls all that is lent. False: nobody has any of it. */
bool kolo_device_memory_recall(struct kolo_engine *engine);
bool kolo_device_memory_is_lent(const struct kolo_engine *engine);
/** Is there memory that the program has freed and others may have? */
bool kolo_device_memory_has_freed(const struct kolo_engine *engine);
/** Frees what the program has freed and all others have returned, once its device has done what it
 * was given before, unless @p unless ends the wait. */
void kolo_device_memory_reap(struct kolo_engine *engine, const struct kolo_unless *unless);
/** Frees @p memory, at once or when all to whom it was lent have returned it. ERR_INVALID without a
 * detail: it is none of a device's. */
kolo_status kolo_device_memory_free(struct kolo_engine *engine, void *memory);
/** All that is left. */
void kolo_device_memory_close(struct kolo_engine *engine, kolo_deadline deadline);

/* ---- loans.c ---- */

struct kolo_recall;
/** Rank @p world wants loan @p id of its memory back. Held: lock, as of the next two. */
void kolo_loans_recalled(struct kolo_engine *engine, int world, uint64_t id);
/** That rank has loan @p id of this rank's no more; 0: none. */
void kolo_loans_returned(struct kolo_engine *engine, int world, uint64_t id);
/** That rank has gone, or cannot be reached any more. */
void kolo_loans_gone(struct kolo_engine *engine, int world);
/** Before the first call that may lend: starts the thread that tidies. Not held: lock, as of
 * _settle. */
kolo_status kolo_loans_start(struct kolo_engine *engine) KOLO_NODISCARD;
/** Waits until what the program has freed is the device's again, by @p deadline. */
void kolo_loans_settle(struct kolo_engine *engine, kolo_deadline deadline);
/** There may be something to unmap, answer or free: the thread looks. Held: lock. */
void kolo_loans_look(struct kolo_engine *engine);
/** Unmaps all that others have lent, and waits until they have returned all of this rank's, until
 * @p deadline. No call uses any of it, or will. Not held: lock. */
void kolo_loans_end(struct kolo_engine *engine, kolo_deadline deadline);

/* ---- engine.c (held: lock) ---- */

/** Waits until *status is no longer KOLO_AGAIN, moving things along. False: the deadline passed, or
 * @p comm (NULL: none) failed. */
bool kolo_engine_await(struct kolo_engine *engine, struct kolo_comm *comm,
                       const kolo_status *status, kolo_deadline deadline);

/** Has any communicator requests, or a suspicion? */
bool kolo_engine_is_busy(struct kolo_engine *engine);
/** One look at everything, if nobody else does it. */
void kolo_engine_poll(struct kolo_engine *engine);
/** A program has asked for something that is not over, and will ask again: where ranks share
 * processors they need to be run for it, so the lock and the processor are given up now and
 * then. */
void kolo_engine_asked_in_vain(struct kolo_engine *engine);
/** Wakes whoever sleeps, because there is something new. */
void kolo_engine_notify(struct kolo_engine *engine);
/** Something ended: whoever waits without being the progressor shall look. */
void kolo_engine_news(struct kolo_engine *engine);
/** Starts the progress thread if there is none. */
kolo_status kolo_engine_start_thread(struct kolo_engine *engine) KOLO_NODISCARD;
/** Not held: lock. */
void kolo_engine_stop_thread(struct kolo_engine *engine);

/* ---- failure.c (held: lock) ---- */

/** The event tables that feed the failures of the engine's communicators. */
void kolo_engine_events(struct kolo_engine *engine, struct kolo_endpoint_events *endpoint_out,
                        struct kolo_store_client_events *store_out);
/** A call that makes communicators begins, and ends: meanwhile failures of unknown ones are kept,
 * for a member may be faster than this rank. */
void kolo_engine_creating(struct kolo_engine *engine);
void kolo_engine_created(struct kolo_engine *engine);
/** Fires what is due in all communicators and says when the next is. */
void kolo_engine_timers(struct kolo_engine *engine, int64_t now_ns);

#endif
