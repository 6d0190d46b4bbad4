// SPDX-License-Identifier: Apache-2.0
// Copies between a device's memory and the host's that go on while the caller does something else.
// A lane is of one device's context, and has two ways that do not wait for each other, into the
// host and out of it; what is put on one way is copied in that order. A lane also puts gates into
// streams of the program's: there the host learns how far a stream is, and may let it wait.
//
// A lane also folds memory that other ranks of the host have lent, where it lies.
//
// Whoever looks sees by itself how far a lane is, and that is all that short copies need. Only who
// is about to sleep has the driver tell (kolo_lane_sleeps), which costs more than a copy does.
//
// Threads: one at a time calls a lane's functions, but any those for await_device, place, ready and
// unmap; wake() is called by a thread of the driver's.
#ifndef KOLO_MEMORY_LANE_H
#define KOLO_MEMORY_LANE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "memory/memory.h"

/** Not a mark, but all that is on a way: for what could not be marked. */
#define KOLO_LANE_IDLE UINT64_MAX

/** Who sleeps for a lane whose driver tells nothing looks so often. */
enum { KOLO_LANE_UNTOLD_NS = 1000000 };

enum kolo_way { KOLO_WAY_IN, KOLO_WAY_OUT, KOLO_WAYS };

/** A place in a stream of the program's. */
struct kolo_gate {
    struct kolo_lane *lane;
    uint32_t *word;  /* that the stream reads, until it is at least the ticket; NULL: it does not */
    uint32_t ticket; /* of this use; words are not reset */
    bool is_taken;   /* by who placed it, until it is opened; held: lane->lock, as the next */
    bool is_due;     /* the stream has not come to it */
};

/** One allocation of a device's that another rank has lent, as this lane's device reaches it. */
struct kolo_mapping;
struct kolo_fold;

struct kolo_lane_ops {
    bool (*serves)(const struct kolo_lane *lane, const struct kolo_pointer *pointer);
    /** Of what it cannot end, only the memory that a late copy needs is left. */
    void (*close)(struct kolo_lane *lane);
    kolo_status (*await_device)(struct kolo_lane *lane, kolo_deadline deadline,
                                const struct kolo_unless *unless);
    kolo_status (*copy)(struct kolo_lane *lane, enum kolo_way way, void *to, const void *from,
                        size_t bytes);
    /** Puts mark number @p mark on it, one more than the one before. */
    kolo_status (*mark)(struct kolo_lane *lane, enum kolo_way way, uint64_t mark);
    /** Has the driver call kolo_lane_told, once, when mark @p mark is passed, or one of those
     * behind it: never before. */
    kolo_status (*tell)(struct kolo_lane *lane, enum kolo_way way, uint64_t mark);
    /** Asks the device: of the marks behind *@p passed, up to @p last, those that were passed are
     * counted too. Not KOLO_OK: it has failed. */
    kolo_status (*look)(struct kolo_lane *lane, enum kolo_way way, uint64_t last, uint64_t *passed);
    /** KOLO_OK: there is nothing left on it. KOLO_AGAIN: there is. */
    kolo_status (*check)(struct kolo_lane *lane, enum kolo_way way);
    kolo_status (*place)(struct kolo_lane *lane, void *stream, bool holds,
                         struct kolo_gate **gate_out);
    /** KOLO_OK: no stream reads a gate of it any more, and nobody will call kolo_lane_told.
     * KOLO_AGAIN: one may. */
    kolo_status (*check_gates)(struct kolo_lane *lane);
    /* As kolo_lane_ready and those that follow it. NULL, all of them: others' memory is out of
     * reach. */
    kolo_status (*ready)(struct kolo_lane *lane);
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
};

/** What all lanes have. A backend's begins with it. */
struct kolo_lane {
    const struct kolo_lane_ops *ops;
    struct kolo_lane *next; /* the owner's, as is_late: what was waited for did not come in time */
    bool is_late;
    void (*wake)(void *context);
    void *context;
    _Atomic uint64_t marks[KOLO_WAYS];
    atomic_bool is_asleep; /* who has it, and is to be woken */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_telling[KOLO_WAYS]; /* the driver was asked to, and has not yet; held: lock, as the
                                   next two */
    uint64_t wakes;
    int gates_due;        /* that their streams have not come to */
    atomic_bool is_ready; /* for memory that others have lent */
};

/** A lane for the memory that @p pointer leads to. @p wake(@p context) is called when what somebody
 * sleeps for may have come. ERR_UNSUPPORTED: its kind has none; ERR_SYSTEM, ERR_NO_MEMORY. */
kolo_status kolo_lane_open(const struct kolo_pointer *pointer, void (*wake)(void *context),
                           void *context, struct kolo_lane **lane_out) KOLO_NODISCARD;
/** wake() is not called any more. What was put on it goes on until @p deadline; a device that needs
 * longer keeps the lane: false. NULL is fine. */
bool kolo_lane_close(struct kolo_lane *lane, kolo_deadline deadline);
static inline bool kolo_lane_serves(const struct kolo_lane *lane,
                                    const struct kolo_pointer *pointer)
{
    return lane->ops->serves(lane, pointer);
}
/** Waits until the work that the program gave to the device's context before is done; KOLO_AGAIN:
 * not by @p deadline, or @p unless (may be NULL) said so. Any thread, also while others call the
 * lane's functions. */
static inline kolo_status kolo_lane_await_device(struct kolo_lane *lane, kolo_deadline deadline,
                                                 const struct kolo_unless *unless)
{
    return lane->ops->await_device(lane, deadline, unless);
}
/** Puts a copy on @p way; both are untouched by others until it has passed. */
static inline kolo_status kolo_lane_copy(struct kolo_lane *lane, enum kolo_way way, void *to,
                                         const void *from, size_t bytes)
{
    return lane->ops->copy(lane, way, to, from, bytes);
}
/** Puts a mark on @p way, whose number is *mark_out. */
kolo_status kolo_lane_mark(struct kolo_lane *lane, enum kolo_way way,
                           uint64_t *mark_out) KOLO_NODISCARD;
/** KOLO_OK: what was put there before @p mark is done. KOLO_AGAIN: not yet. Else the device
 * failed. */
kolo_status kolo_lane_passed(struct kolo_lane *lane, enum kolo_way way,
                             uint64_t mark) KOLO_NODISCARD;
/** The same, and which mark is the last that was passed; 0: none. */
kolo_status kolo_lane_look(struct kolo_lane *lane, enum kolo_way way, uint64_t mark,
                           uint64_t *passed_out) KOLO_NODISCARD;
/** Whoever has the lane goes to sleep, or is awake again. Asleep, wake() is called when a mark is
 * passed that is there, or put there meanwhile, on either way; who then sleeps on says so again.
 * Else than KOLO_OK: the driver does not tell, or the device
 * failed: sleep no longer than KOLO_LANE_UNTOLD_NS. */
kolo_status kolo_lane_sleeps(struct kolo_lane *lane, bool is_asleep) KOLO_NODISCARD;
/** Waits for that; KOLO_AGAIN: not by @p deadline. */
kolo_status kolo_lane_wait(struct kolo_lane *lane, enum kolo_way way, uint64_t mark,
                           kolo_deadline deadline) KOLO_NODISCARD;

/** Puts a gate into @p stream, which is of the lane's context (kolo_stream_look): when what the
 * stream was given before is done, wake() is called, and the gate is reached. @p holds: what it is
 * given afterwards waits until the gate is opened. The driver may wait until that or other streams
 * have done what they have to do. ERR_UNSUPPORTED: that device's streams cannot, or it is captured;
 * ERR_INVALID: it is none; ERR_SYSTEM, ERR_NO_MEMORY. After a failure the stream goes on. Any
 * thread. */
kolo_status kolo_lane_place(struct kolo_lane *lane, void *stream, bool holds,
                            struct kolo_gate **gate_out) KOLO_NODISCARD;
/** KOLO_OK: what was before it is done. KOLO_AGAIN: not yet. Else the device failed. */
kolo_status kolo_gate_reached(const struct kolo_gate *gate) KOLO_NODISCARD;
/** Lets the stream go on, also before it is there. The gate is the lane's again. */
void kolo_gate_open(struct kolo_gate *gate);

/* ---- memory that others have lent ---- */

/** Makes the lane ready for what follows, which may take a driver long: so no lock is held that
 * others need. Any thread; the second time it costs nothing. ERR_UNSUPPORTED: it cannot be had, and
 * why. */
kolo_status kolo_lane_ready(struct kolo_lane *lane) KOLO_NODISCARD;
/** Was it made ready? */
static inline bool kolo_lane_is_ready(struct kolo_lane *lane)
{
    return atomic_load_explicit(&lane->is_ready, memory_order_acquire);
}
/** Maps what @p lender, a number of the caller's, has lent, or finds it mapped, and holds it until
 * kolo_lane_done. Fails as the driver does; what a lender says is not believed (ERR_PROTOCOL). */
static inline kolo_status kolo_lane_map(struct kolo_lane *lane, int lender,
                                        const struct kolo_loan *loan,
                                        struct kolo_mapping **mapping_out)
{
    return lane->ops->map(lane, lender, loan, mapping_out);
}
/** Where the lane's device reaches the @p bytes bytes that the owner has at @p address.
 * ERR_PROTOCOL: they are not in it. */
static inline kolo_status kolo_lane_reach(struct kolo_lane *lane,
                                          const struct kolo_mapping *mapping, uint64_t address,
                                          size_t bytes, void **memory_out)
{
    return lane->ops->reach(mapping, address, bytes, memory_out);
}
/** What is on the lane does not use it any more. */
static inline void kolo_lane_done(struct kolo_lane *lane, struct kolo_mapping *mapping)
{
    lane->ops->done(mapping);
}
/** Allocation @p id of @p lender (0: all) is to be freed there, or that is dead. True: none of it
 * is mapped; else it goes by kolo_lane_detach once nothing uses it. */
bool kolo_lane_forget(struct kolo_lane *lane, int lender, uint64_t id);
/** Takes out what was forgotten and is not used; NULL: nothing. */
struct kolo_mapping *kolo_lane_detach(struct kolo_lane *lane);
/** Unmaps it. A driver may wait for its context meanwhile, so nothing that its streams wait for may
 * wait for the caller, or for a lock that it holds. Any thread, also beside all others. */
static inline void kolo_lane_unmap(struct kolo_lane *lane, struct kolo_mapping *mappings)
{
    lane->ops->unmap(lane, mappings);
}
/** One that the driver would not unmap, each once: allocation *@p id_out of *@p lender_out, who
 * must never free it, and is told of it by nobody else. False: there is no other. Any thread. */
static inline bool kolo_lane_stuck(struct kolo_lane *lane, int *lender_out, uint64_t *id_out)
{
    return lane->ops->stuck(lane, lender_out, id_out);
}
/** Puts a fold on @p way, as kolo_fold, of memory that the lane's device reaches. */
static inline kolo_status kolo_lane_fold(struct kolo_lane *lane, enum kolo_way way,
                                         const struct kolo_fold *fold, void *const out[],
                                         size_t nout, const void *const in[], size_t nin,
                                         size_t count)
{
    return lane->ops->fold(lane, way, fold, out, nout, in, nin, count);
}

/* ---- for backends ---- */

kolo_status kolo_lane_init(struct kolo_lane *lane, const struct kolo_lane_ops *ops,
                           void (*wake)(void *context), void *context) KOLO_NODISCARD;
/** What ops->tell was asked for. Any thread. */
void kolo_lane_told(struct kolo_lane *lane, enum kolo_way way);
/** Takes @p gate for a stream that will come to it, unless it is in use. */
bool kolo_gate_take(struct kolo_gate *gate);
/** The stream has come to it. Any thread. */
void kolo_gate_reach(struct kolo_gate *gate);
/** The stream will not come to it: it was never put there. */
void kolo_gate_drop(struct kolo_gate *gate);
/** After the last that is told. */
void kolo_lane_deinit(struct kolo_lane *lane);

#endif
