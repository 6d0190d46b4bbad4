// SPDX-License-Identifier: Apache-2.0
// What the simulator runs on, shared by simulate.c (ranks take their steps) and simulate_memory.c
// (buffers, symbols, and what may be touched). Private to these two.
#ifndef KOLO_RUNTIME_SIMULATE_WORLD_H
#define KOLO_RUNTIME_SIMULATE_WORLD_H

#include "runtime/simulate.h"

struct kolo_symbol {
    uint64_t sum;   /* 0: never written */
    uint64_t order; /* hash of the operand tree */
};

enum kolo_sim_memory { MEMORY_SEND, MEMORY_RECV, MEMORY_SCRATCH };

/** Where a slice really lies, once in-place buffers are laid over each other. */
struct kolo_place {
    enum kolo_sim_memory memory;
    size_t offset, count;
};

/** A step that has begun and may not be over. */
struct kolo_sim_flight {
    struct kolo_step step;
    struct kolo_place in, local, out; /* count 0: none */
    bool is_sent, is_received;
    uint64_t *carries; /* who has begun, as its message tells */
    uint64_t *heard;   /* as the message that came told */
};

struct kolo_actor {
    struct kolo_plan_args args;
    const struct kolo_plan *plan; /* the plan, then what closes it */
    int call;                     /* of those that come one after another */
    bool is_closing;
    size_t nsteps, window;
    size_t first, next; /* steps in flight: first <= i < next, in flights[i % window] */
    size_t certain;     /* steps below it are over whenever the next one begins */
    struct kolo_sim_flight *flights;
    int to[KOLO_WINDOW_MAX], from[KOLO_WINDOW_MAX]; /* by flight: whom with, -1: over or none */
    uint64_t *words;                                /* memory of their sets */
    bool is_done, is_listed;
    struct kolo_symbol *recv; /* by sample */
    struct kolo_symbol *scratch;
    size_t send_count, recv_count, scratch_count;
    uint64_t *known;   /* who has begun, as is certain when the next step begins */
    size_t words_full; /* words of `known` before the first that lacks a rank */
    struct kolo_simulated cost;
};

struct kolo_world {
    const struct kolo_simulation *what;
    struct kolo_actor *actors;
    size_t words;        /* of a set of ranks */
    size_t recv_count;   /* elements of the longest RECV */
    uint32_t *sample_of; /* element of RECV -> index into actor.recv, or UINT32_MAX */
    size_t nsamples;
    int *list; /* ranks that may move */
    int listed;
    uint64_t drawn; /* the last random number */
};

#define OBJECT(actor, format, ...)                                                                 \
    kolo_fail(KOLO_ERR_INTERNAL, "plan %s for %s, rank %d of %d, step %zu: " format,               \
              (actor)->plan->name, kolo_collective_text((actor)->plan->collective),                \
              (actor)->args.rank, (actor)->args.size, (actor)->next, __VA_ARGS__)

/** What rank @p rank brings as element @p offset of its SEND. */
struct kolo_symbol kolo_sim_contribution(int rank, size_t offset);
struct kolo_symbol kolo_sim_combine(struct kolo_symbol a, struct kolo_symbol b);
/** Divided once; dividing twice, or combining afterwards, never gives the expected value. */
struct kolo_symbol kolo_sim_finished(struct kolo_symbol a);
uint64_t kolo_sim_mix(uint64_t x);

bool kolo_sim_has_send(enum kolo_collective collective, const struct kolo_plan_args *args);
bool kolo_sim_has_recv(enum kolo_collective collective, const struct kolo_plan_args *args);
/** Sets the lengths of @p actor's SEND and RECV. */
void kolo_sim_measure(const struct kolo_world *world, struct kolo_actor *actor);
/** In place, RECV begins with what SEND holds. */
void kolo_sim_lay_in_place(const struct kolo_world *world, struct kolo_actor *actor);
struct kolo_place kolo_sim_place(const struct kolo_world *world, const struct kolo_actor *actor,
                                 const struct kolo_slice *slice);
/** The cell that holds element @p offset of a place; NULL: SEND, or an element not followed. */
struct kolo_symbol *kolo_sim_cell(const struct kolo_world *world, const struct kolo_actor *actor,
                                  enum kolo_sim_memory memory, size_t offset);
struct kolo_symbol kolo_sim_load(const struct kolo_world *world, const struct kolo_actor *actor,
                                 enum kolo_sim_memory memory, size_t offset);
/** Whether @p step of @p actor, which is about to begin, stays in its buffers and touches nothing
 * that is in flight. */
kolo_status kolo_sim_check_step(const struct kolo_world *world, const struct kolo_actor *actor,
                                const struct kolo_step *step) KOLO_NODISCARD;

#endif
