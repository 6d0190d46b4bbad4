// SPDX-License-Identifier: Apache-2.0
// Lanes: copies between device and host memory that run while the caller does something else.
//
// A lane belongs to one context of a device. It has two directions ("ways"), to the host and from
// it, which do not wait for each other; copies in one direction run in the order in which they were
// added. A lane also inserts gates into streams of the program: a gate tells the host how far the
// stream is, and may make the stream wait. And it folds memory that other ranks of the host have
// lent, in place.
//
// A caller that polls sees by itself how far a lane is, and that is all that short copies need.
// Only a caller that is about to sleep asks the driver to notify it (kolo_lane_sleeps), which costs
// more than a copy.
//
// Threads: only one at a time may call a lane's functions. The exceptions are await_device, place,
// ready, unmap and stuck, which any thread may call at any time. wake() is called by a thread of
// the driver, or by one that is in a function of the lane.
#ifndef KOLO_MEMORY_LANE_H
#define KOLO_MEMORY_LANE_H

#include <pthread.h>
#include <stdatomic.h>

#include <kolo/types.h>

#include "base/clock.h"
#include "memory/memory.h"

/** Not the number of a mark: stands for all copies in a direction, if no mark could be set. */
#define KOLO_LANE_IDLE UINT64_MAX

/** How often a sleeping thread must check a lane whose driver does not notify it. */
enum { KOLO_LANE_UNTOLD_NS = KOLO_NS_PER_MS };

enum kolo_way { KOLO_WAY_IN, KOLO_WAY_OUT, KOLO_WAYS };

/** A gate in a stream of the program. */
struct kolo_gate {
    struct kolo_lane *lane;
    /** The word that a stream that waits reads until it is at least the ticket. */
    uint32_t *word;
    uint32_t ticket; /* number of this use; words are not reset */
    bool is_taken;   /* in use until it is opened; held: lane->lock, as the next */
    bool is_due;     /* the stream has not reached it yet */
    /** The stream waits for the ticket, and is counted as held (memory/held.h). Held: while the
     * gate is watched, the lock of memory/gate_watch.c. */
    bool is_holding;
    /* of memory/gate_watch.c */
    struct kolo_gate *next_watched, *last_watched;
    kolo_deadline deadline; /* of the collective */
    int looks;              /* how often it was found to have passed */
    bool is_watched;
    atomic_bool is_let_go;
};

/** A device allocation that another rank has lent, mapped for this lane's device. */
struct kolo_mapping;
struct kolo_fold;

struct kolo_lane_ops {
    bool (*serves)(const struct kolo_lane *lane, const struct kolo_pointer *pointer);
    /** Frees the lane. Of what cannot be ended, only the memory that a late copy needs is kept. */
    void (*close)(struct kolo_lane *lane);
    kolo_status (*await_device)(struct kolo_lane *lane, kolo_deadline deadline,
                                const struct kolo_unless *unless);
    kolo_status (*copy)(struct kolo_lane *lane, enum kolo_way way, void *to, const void *from,
                        size_t bytes);
    /** Sets mark number @p mark, one more than the last. */
    kolo_status (*mark)(struct kolo_lane *lane, enum kolo_way way, uint64_t mark);
    /** Makes the driver call kolo_lane_told once, when mark @p mark or a later one has passed, and
     * never before. */
    kolo_status (*tell)(struct kolo_lane *lane, enum kolo_way way, uint64_t mark);
    /** Asks the device which of the marks after *@p passed, up to @p last, have passed, and raises
     * *@p passed accordingly. Not KOLO_OK: the device has failed, or the driver does not tell. */
    kolo_status (*look)(struct kolo_lane *lane, enum kolo_way way, uint64_t last, uint64_t *passed);
    /** KOLO_OK: all of its copies are done. KOLO_AGAIN: not yet. */
    kolo_status (*check)(struct kolo_lane *lane, enum kolo_way way);
    /** KOLO_OK: none of its copies will touch memory any more: they are done, or the device has
     * failed. KOLO_AGAIN: some may. Any other failure: the driver does not tell. */
    kolo_status (*check_over)(struct kolo_lane *lane, enum kolo_way way);
    kolo_status (*place)(struct kolo_lane *lane, void *stream, bool holds, int64_t timeout_ms,
                         struct kolo_gate **gate_out);
    /** KOLO_OK: no stream reads a gate of the lane any more, and kolo_lane_told will not be called.
     * KOLO_AGAIN: not yet. */
    kolo_status (*check_gates)(struct kolo_lane *lane);
    /* As kolo_lane_ready and the functions after it. All NULL: the lane cannot access memory of
     * other ranks. */
    kolo_status (*ready)(struct kolo_lane *lane, kolo_deadline deadline);
    kolo_status (*map)(struct kolo_lane *lane, int lender, const struct kolo_loan *loan,
                       struct kolo_mapping **mapping_out);
    kolo_status (*reach)(const struct kolo_mapping *mapping, uint64_t address, size_t bytes,
                         void **memory_out);
    void (*done)(struct kolo_mapping *mapping);
    bool (*forget)(struct kolo_lane *lane, int lender, uint64_t id);
    struct kolo_mapping *(*detach)(struct kolo_lane *lane);
    void (*unmap)(struct kolo_lane *lane, struct kolo_mapping *mappings);
    bool (*stuck)(struct kolo_lane *lane, int *lender_out, uint64_t *id_out);
    kolo_status (*fold)(struct kolo_lane *lane, enum kolo_way way, const struct kolo_fold *fold,
                        void *const out[], size_t nout, const void *const in[], size_t nin,
                        size_t count);
    kolo_status (*scale)(struct kolo_lane *lane, enum kolo_way way, void *out, const void *in,
                         size_t count, kolo_dtype dtype, double factor);
};

/** The members that all lanes have. A backend's struct begins with it. */
struct kolo_lane {
    const struct kolo_lane_ops *ops;
    /** For the owner: `next`, and `is_late`, which says that a wait for its copies has timed
     * out. */
    struct kolo_lane *next;
    bool is_late;
    void (*wake)(void *context);
    void *context;
    const void *streams; /* of the streams for which it places gates, as kolo_held_begin takes it */
    _Atomic uint64_t marks[KOLO_WAYS];
    atomic_bool is_asleep; /* its owner sleeps and must be woken */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /** The driver was asked to notify and has not done so yet; held: lock, as the next two. */
    bool is_telling[KOLO_WAYS];
    uint64_t wakes;
    int gates_due;        /* gates that their streams have not reached */
    atomic_bool is_ready; /* ready for memory that others have lent */
};

/** Opens a lane for the memory that @p pointer points to. @p wake(@p context) is called when what a
 * sleeping thread waits for may have come. ERR_UNSUPPORTED: its kind has no lanes; ERR_SYSTEM,
 * ERR_NO_MEMORY. */
kolo_status kolo_lane_open(const struct kolo_pointer *pointer, void (*wake)(void *context),
                           void *context, struct kolo_lane **lane_out) KOLO_NODISCARD;
/** Closes the lane; wake() is not called any more. Waits for its copies until @p deadline. False:
 * the device needs longer, and the lane is never freed. NULL is allowed. */
bool kolo_lane_close(struct kolo_lane *lane, kolo_deadline deadline);
static inline bool kolo_lane_serves(const struct kolo_lane *lane,
                                    const struct kolo_pointer *pointer)
{
    return lane->ops->serves(lane, pointer);
}
/** Waits until the earlier work of the device's context is done. KOLO_AGAIN: it is not by @p
 * deadline, or @p unless (may be NULL) ended the wait. Any thread, also while others call the
 * lane's functions. */
static inline kolo_status kolo_lane_await_device(struct kolo_lane *lane, kolo_deadline deadline,
                                                 const struct kolo_unless *unless)
{
    return lane->ops->await_device(lane, deadline, unless);
}
/** Adds a copy in direction @p way. Nobody else may touch either buffer until it is done. */
static inline kolo_status kolo_lane_copy(struct kolo_lane *lane, enum kolo_way way, void *to,
                                         const void *from, size_t bytes)
{
    return lane->ops->copy(lane, way, to, from, bytes);
}
/** Sets a mark after the copies so far in direction @p way; its number is *mark_out. */
kolo_status kolo_lane_mark(struct kolo_lane *lane, enum kolo_way way,
                           uint64_t *mark_out) KOLO_NODISCARD;
/** KOLO_OK: the copies before @p mark are done. KOLO_AGAIN: not yet. Any other failure: the device
 * failed, or its driver refused (then copies may still run: kolo_lane_is_over). */
kolo_status kolo_lane_passed(struct kolo_lane *lane, enum kolo_way way,
                             uint64_t mark) KOLO_NODISCARD;
/** The same; also returns the number of the last mark that has passed; 0: none. */
kolo_status kolo_lane_look(struct kolo_lane *lane, enum kolo_way way, uint64_t mark,
                           uint64_t *passed_out) KOLO_NODISCARD;
/** Says that the owner of the lane is going to sleep, or is awake again. While the owner sleeps,
 * the next mark that passes calls wake(), in either direction, whether it was set before or during
 * the sleep. This works once: call again before sleeping on. Other than KOLO_OK: the driver does
 * not notify, or the device failed; then sleep no longer than KOLO_LANE_UNTOLD_NS. */
kolo_status kolo_lane_sleeps(struct kolo_lane *lane, bool is_asleep) KOLO_NODISCARD;
/** Waits until the mark has passed. KOLO_AGAIN: it has not by @p deadline. */
kolo_status kolo_lane_wait(struct kolo_lane *lane, enum kolo_way way, uint64_t mark,
                           kolo_deadline deadline) KOLO_NODISCARD;
/** Waits until no copy before @p mark will touch memory any more, also if the copies have failed.
 * False: that is not certain by @p deadline, so the memory must not be freed or used again. */
bool kolo_lane_is_over(struct kolo_lane *lane, enum kolo_way way, uint64_t mark,
                       kolo_deadline deadline) KOLO_NODISCARD;

/** Inserts a gate into @p stream, which is of the lane's context (kolo_stream_look). When the
 * stream's earlier work is done, wake() is called, and the gate is reached. @p holds: the stream's
 * later work waits until the gate is opened, or, if its holder does not open it, until a few
 * seconds after @p timeout_ms from when the gate is in the stream (memory/gate_watch.h). The driver
 * may wait until this or other streams have done their work. ERR_UNSUPPORTED: streams of this
 * device cannot do it, or the stream is being captured; ERR_INVALID: it is not a stream;
 * ERR_TIMEOUT: for @p timeout_ms no stream could be held (memory/held.h); ERR_SYSTEM,
 * ERR_NO_MEMORY. After a failure the stream continues. Any thread. */
kolo_status kolo_lane_place(struct kolo_lane *lane, void *stream, bool holds, int64_t timeout_ms,
                            struct kolo_gate **gate_out) KOLO_NODISCARD;
/** KOLO_OK: the stream has reached the gate. KOLO_AGAIN: not yet. Any other failure: the device
 * failed. */
kolo_status kolo_gate_reached(const struct kolo_gate *gate) KOLO_NODISCARD;
/** Lets the stream continue, also if it has not reached the gate yet. The gate returns to the
 * lane. */
void kolo_gate_open(struct kolo_gate *gate);

/* ---- memory that others have lent ---- */

/** Prepares the lane for the functions below. Waits until @p deadline for streams that are held,
 * since none may be meanwhile; then a driver may take long. So the caller must not hold a lock that
 * others need. Any thread; the second call costs nothing. ERR_UNSUPPORTED: the lane cannot do this;
 * ERR_TIMEOUT: a stream is still held. */
kolo_status kolo_lane_ready(struct kolo_lane *lane, kolo_deadline deadline) KOLO_NODISCARD;
/** Whether kolo_lane_ready has succeeded. */
static inline bool kolo_lane_is_ready(struct kolo_lane *lane)
{
    return atomic_load_explicit(&lane->is_ready, memory_order_acquire);
}
/** Maps the allocation that @p lender (a number that the caller chooses) has lent, or finds it
 * mapped, and holds it until kolo_lane_done. Fails as the driver does. What a lender says is not
 * trusted (ERR_PROTOCOL). */
static inline kolo_status kolo_lane_map(struct kolo_lane *lane, int lender,
                                        const struct kolo_loan *loan,
                                        struct kolo_mapping **mapping_out)
{
    return lane->ops->map(lane, lender, loan, mapping_out);
}
/** The address at which the lane's device accesses the @p bytes bytes that are at @p address in the
 * owner's process. ERR_PROTOCOL: they are not in the allocation. */
static inline kolo_status kolo_lane_reach(struct kolo_lane *lane,
                                          const struct kolo_mapping *mapping, uint64_t address,
                                          size_t bytes, void **memory_out)
{
    return lane->ops->reach(mapping, address, bytes, memory_out);
}
/** Releases a hold: no work of the lane uses the mapping any more. */
static inline void kolo_lane_done(struct kolo_lane *lane, struct kolo_mapping *mapping)
{
    lane->ops->done(mapping);
}
/** Allocation @p id of @p lender (0: all of them) will be freed by its owner, or the owner is dead.
 * True: none of it is mapped. False: once nothing uses it, kolo_lane_detach returns it. */
bool kolo_lane_forget(struct kolo_lane *lane, int lender, uint64_t id);
/** Takes out mappings that were forgotten and are not in use; NULL: there are none. */
struct kolo_mapping *kolo_lane_detach(struct kolo_lane *lane);
/** Unmaps what was taken out, once no stream of the context is held. The driver may then wait for
 * all streams of its context; so none of them may wait for the caller, or for a lock that the
 * caller holds. Any thread, also at the same time as all other functions. */
static inline void kolo_lane_unmap(struct kolo_lane *lane, struct kolo_mapping *mappings)
{
    lane->ops->unmap(lane, mappings);
}
/** Returns a mapping that the driver refused to unmap, each only once: allocation *@p id_out of *@p
 * lender_out. Its owner must never free it, and learns of it in no other way. False: there is no
 * other. Any thread. */
static inline bool kolo_lane_stuck(struct kolo_lane *lane, int *lender_out, uint64_t *id_out)
{
    return lane->ops->stuck(lane, lender_out, id_out);
}
/** Adds a fold in direction @p way, as kolo_fold, of memory that the lane's device can access. */
static inline kolo_status kolo_lane_fold(struct kolo_lane *lane, enum kolo_way way,
                                         const struct kolo_fold *fold, void *const out[],
                                         size_t nout, const void *const in[], size_t nin,
                                         size_t count)
{
    return lane->ops->fold(lane, way, fold, out, nout, in, nin, count);
}
/** Adds a multiplication in direction @p way, as kolo_scale, of memory that the lane's device can
 * access. */
static inline kolo_status kolo_lane_scale(struct kolo_lane *lane, enum kolo_way way, void *out,
                                          const void *in, size_t count, kolo_dtype dtype,
                                          double factor)
{
    return lane->ops->scale(lane, way, out, in, count, dtype, factor);
}

/* ---- for backends ---- */

kolo_status kolo_lane_init(struct kolo_lane *lane, const struct kolo_lane_ops *ops,
                           void (*wake)(void *context), void *context) KOLO_NODISCARD;
/** To be called when the driver does what ops->tell asked for. Any thread. */
void kolo_lane_told(struct kolo_lane *lane, enum kolo_way way);
/** Takes @p gate for a stream that will reach it, unless it is in use. */
bool kolo_gate_take(struct kolo_gate *gate);
/** The stream has reached the gate. Any thread. */
void kolo_gate_reach(struct kolo_gate *gate);
/** The stream will not reach the gate, since it was never inserted. */
void kolo_gate_drop(struct kolo_gate *gate);
/** Lets the stream continue, without giving the gate back. */
void kolo_gate_release(struct kolo_gate *gate);
/** To be called after the last notification. */
void kolo_lane_deinit(struct kolo_lane *lane);

#endif
