// SPDX-License-Identifier: Apache-2.0
// What the simulator runs on: the world with its ranks (simulate_world.c), the symbols in their
// buffers and what a step may touch (simulate_memory.c), and what must come of it
// (simulate_results.c). Private to these and to simulate.c, which lets the ranks take their steps.
#ifndef KOLO_RUNTIME_SIMULATE_WORLD_H
#define KOLO_RUNTIME_SIMULATE_WORLD_H

#include "runtime/simulate.h"

struct kolo_sim_symbol {
    uint64_t sum;   /* 0: never written */
    uint64_t order; /* hash of the operand tree */
};

enum kolo_sim_buffer { KOLO_SIM_SEND, KOLO_SIM_RECV, KOLO_SIM_SCRATCH };

/** Where a slice really lies, once in-place buffers are laid over each other. */
struct kolo_sim_extent {
    enum kolo_sim_buffer memory;
    size_t offset, count;
};

/** A step that has begun and may not be over. */
struct kolo_sim_flight {
    struct kolo_step step;
    struct kolo_sim_extent in, local, out; /* count 0: none */
    bool is_sent, is_received;
    uint64_t *carries; /* who has begun, as its message tells */
    uint64_t *heard;   /* as the message that came told */
};

struct kolo_sim_actor {
    struct kolo_plan_args args;
    const struct kolo_plan *plan; /* the plan, then what closes it */
    int call;                     /* of those that come one after another */
    bool is_closing;
    size_t nsteps, window;
    size_t first, next; /* steps in flight: first <= i < next, in flights[i % window] */
    size_t certain;     /* steps below it are over whenever the next one begins */
    struct kolo_sim_flight *flights;
    int to[KOLO_WINDOW_MAX], from[KOLO_WINDOW_MAX]; /* by flight: whom with, -1: over or none */
    uint64_t *sets; /* memory of the sets of ranks, theirs and `known` */
    bool is_done, is_listed;
    struct kolo_sim_symbol *recv; /* by sample */
    struct kolo_sim_symbol *scratch;
    size_t send_count, recv_count, scratch_count;
    uint64_t *known;   /* who has begun, as is certain when the next step begins */
    size_t words_full; /* words of `known` before the first that lacks a rank */
    struct kolo_simulated cost;
};

struct kolo_sim_world {
    const struct kolo_simulation *what;
    struct kolo_sim_actor *actors;
    size_t set_words;    /* of a set of ranks, a bit each */
    size_t recv_count;   /* elements of the longest RECV */
    uint32_t *sample_of; /* element of RECV -> index into actor.recv, or UINT32_MAX */
    size_t nsamples;
    int *list; /* ranks that may move */
    int listed;
    uint64_t drawn; /* the last random number */
};

#define KOLO_SIM_OBJECT(actor, format, ...)                                                        \
    kolo_fail(KOLO_ERR_INTERNAL, "plan %s for %s, rank %d of %d, step %zu: " format,               \
              (actor)->plan->name, kolo_collective_text((actor)->plan->collective),                \
              (actor)->args.rank, (actor)->args.size, (actor)->next, __VA_ARGS__)

/* ---- simulate_world.c ---- */

/** The world of @p simulation, in which nothing has happened yet. ERR_NO_MEMORY. In either case
 * kolo_sim_close frees what is there. */
kolo_status kolo_sim_open(const struct kolo_simulation *simulation,
                          struct kolo_sim_world *world) KOLO_NODISCARD;
void kolo_sim_close(struct kolo_sim_world *world);
/** @p actor is before the first step of @p plan; @p is_closing: that which closes its plan. */
void kolo_sim_begin_plan(struct kolo_sim_actor *actor, const struct kolo_plan *plan,
                         bool is_closing);
/** It knows of no other rank that it has begun the call. */
void kolo_sim_begin_knowing(const struct kolo_sim_world *world, struct kolo_sim_actor *actor);
/** How call number @p call of several broadcasts is closed. */
enum kolo_closing kolo_sim_closing(const struct kolo_simulation *what, int call);

/* ---- simulate_memory.c ---- */

/** What rank @p rank brings as element @p offset of its SEND. */
struct kolo_sim_symbol kolo_sim_contribution(int rank, size_t offset);
struct kolo_sim_symbol kolo_sim_combine(struct kolo_sim_symbol a, struct kolo_sim_symbol b);
/** Divided once; dividing twice, or combining afterwards, never gives the expected value. */
struct kolo_sim_symbol kolo_sim_finished(struct kolo_sim_symbol a);
uint64_t kolo_sim_mix(uint64_t x);

bool kolo_sim_has_send(enum kolo_collective collective, const struct kolo_plan_args *args);
bool kolo_sim_has_recv(enum kolo_collective collective, const struct kolo_plan_args *args);
/** Sets the lengths of @p actor's SEND and RECV. */
void kolo_sim_measure(const struct kolo_sim_world *world, struct kolo_sim_actor *actor);
/** In place, RECV begins with what SEND holds. */
void kolo_sim_lay_in_place(const struct kolo_sim_world *world, struct kolo_sim_actor *actor);
/** Where @p slice of @p actor lies. */
struct kolo_sim_extent kolo_sim_locate(const struct kolo_sim_world *world,
                                       const struct kolo_sim_actor *actor,
                                       const struct kolo_slice *slice);
/** The cell that holds element @p offset of a buffer; NULL: SEND, or an element not followed. */
struct kolo_sim_symbol *kolo_sim_cell(const struct kolo_sim_world *world,
                                      const struct kolo_sim_actor *actor,
                                      enum kolo_sim_buffer memory, size_t offset);
struct kolo_sim_symbol kolo_sim_load(const struct kolo_sim_world *world,
                                     const struct kolo_sim_actor *actor,
                                     enum kolo_sim_buffer memory, size_t offset);
/** Whether @p step of @p actor, which is about to begin, stays in its buffers and touches nothing
 * that is in flight. */
kolo_status kolo_sim_check_step(const struct kolo_sim_world *world,
                                const struct kolo_sim_actor *actor,
                                const struct kolo_step *step) KOLO_NODISCARD;

/* ---- simulate_results.c ---- */

/** Has @p actor what the call that is over for it gives? Of collectives that give the same to
 * all. */
kolo_status kolo_sim_check_call(const struct kolo_sim_world *world,
                                const struct kolo_sim_actor *actor) KOLO_NODISCARD;
/** Have all ranks what the last call gives, and none anything else? */
kolo_status kolo_sim_check_results(const struct kolo_sim_world *world) KOLO_NODISCARD;

#endif
