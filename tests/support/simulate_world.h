// SPDX-License-Identifier: Apache-2.0
// The data of the simulator: the world and its ranks (simulate_world.c), symbols (below), where
// they are in the ranks' buffers and what a step may touch (simulate_memory.c), and the results
// that are expected (simulate_results.c). Private to these files and to simulate.c, which runs the
// ranks' steps.
#ifndef KOLO_TESTS_SUPPORT_SIMULATE_WORLD_H
#define KOLO_TESTS_SUPPORT_SIMULATE_WORLD_H

#include "tests/support/simulate.h"

struct kolo_sim_symbol {
    uint64_t sum;   /* 0: never written */
    uint64_t order; /* hash of the operand tree */
};

enum kolo_sim_buffer { KOLO_SIM_SEND, KOLO_SIM_RECV, KOLO_SIM_SCRATCH };

/** Where a slice really lies, with in-place buffers laid over each other. */
struct kolo_sim_extent {
    enum kolo_sim_buffer memory;
    size_t offset, count;
};

/** A step that has begun and may not be over yet. */
struct kolo_sim_flight {
    struct kolo_step step;
    struct kolo_sim_extent in, local, out; /* count 0: none */
    bool is_sent, is_received;
    uint64_t *carries; /* the ranks that have begun, as its message says */
    uint64_t *heard;   /* the same, as the message that it received said */
};

struct kolo_sim_actor {
    struct kolo_plan_args args;
    const struct kolo_plan *plan; /* the plan, then the plan that closes it */
    int call;                     /* number of the call among those that follow each other */
    bool is_closing;
    size_t nsteps, window;
    size_t first, next; /* steps in flight: first <= i < next, in flights[i % window] */
    size_t certain;     /* steps below this are over whenever the next one begins */
    struct kolo_sim_flight *flights;
    int to[KOLO_WINDOW_MAX], from[KOLO_WINDOW_MAX]; /* peers of each flight; -1: over or none */
    uint64_t *sets; /* memory of all sets of ranks: those of the flights, and `known` */
    bool is_done, is_listed;
    struct kolo_sim_symbol *recv; /* one symbol for each sample */
    struct kolo_sim_symbol *scratch;
    size_t send_count, recv_count, scratch_count;
    uint64_t *known;   /* ranks that have certainly begun when the next step begins */
    size_t words_full; /* words of `known` before the first that lacks a rank */
    struct kolo_simulated cost;
};

struct kolo_sim_world {
    const struct kolo_simulation *what;
    struct kolo_sim_actor *actors;
    size_t set_words;    /* length of a set of ranks, which has a bit for each */
    size_t recv_count;   /* elements of the longest RECV */
    uint32_t *sample_of; /* element of RECV -> index into actor.recv, or UINT32_MAX */
    size_t nsamples;
    /* element of RECV -> the first one from it on that is followed; NULL: all are */
    uint32_t *next_followed;
    int *list; /* ranks that may move */
    int listed;
    uint64_t drawn; /* the last random number */
};

#define KOLO_SIM_OBJECT(actor, format, ...)                                                        \
    kolo_fail(KOLO_ERR_INTERNAL, "plan %s for %s, rank %d of %d, step %zu: " format,               \
              (actor)->plan->name, kolo_collective_text((actor)->plan->collective),                \
              (actor)->args.rank, (actor)->args.size, (actor)->next, __VA_ARGS__)

/* ---- symbols (here, because nearly all time is spent with them) ---- */

static const struct kolo_sim_symbol KOLO_SIM_NOT_FOLLOWED = {UINT64_MAX, UINT64_MAX};

static inline uint64_t kolo_sim_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
/** The symbol that rank @p rank contributes as element @p offset of its SEND. */
static inline struct kolo_sim_symbol kolo_sim_contribution(int rank, size_t offset)
{
    uint64_t random = kolo_sim_mix(kolo_sim_mix((uint64_t)rank + 0x9e3779b97f4a7c15u) + offset) | 1;
    return (struct kolo_sim_symbol){random, kolo_sim_mix(random)};
}
static inline struct kolo_sim_symbol kolo_sim_combine(struct kolo_sim_symbol a,
                                                      struct kolo_sim_symbol b)
{
    if (a.sum == KOLO_SIM_NOT_FOLLOWED.sum || b.sum == KOLO_SIM_NOT_FOLLOWED.sum)
        return KOLO_SIM_NOT_FOLLOWED;
    return (struct kolo_sim_symbol){a.sum + b.sum,
                                    kolo_sim_mix(a.order * 3 + kolo_sim_mix(b.order * 5 + 1))};
}
/** The symbol divided once. Dividing twice, or combining afterwards, never gives the expected
 * value. */
static inline struct kolo_sim_symbol kolo_sim_finished(struct kolo_sim_symbol a)
{
    if (a.sum == KOLO_SIM_NOT_FOLLOWED.sum)
        return KOLO_SIM_NOT_FOLLOWED;
    return (struct kolo_sim_symbol){kolo_sim_mix(a.sum ^ 0x5851f42d4c957f2du),
                                    kolo_sim_mix(a.order + 7)};
}

/* ---- simulate_world.c ---- */

/** Makes the world of @p simulation, in which nothing has happened yet. ERR_NO_MEMORY. Also after a
 * failure kolo_sim_close frees what was made. */
kolo_status kolo_sim_open(const struct kolo_simulation *simulation,
                          struct kolo_sim_world *world) KOLO_NODISCARD;
void kolo_sim_close(struct kolo_sim_world *world);
/** Puts @p actor before the first step of @p plan. @p is_closing: this plan closes another one. */
void kolo_sim_begin_plan(struct kolo_sim_actor *actor, const struct kolo_plan *plan,
                         bool is_closing);
/** Resets what the rank knows: of no other rank that it has begun the call. */
void kolo_sim_begin_knowing(const struct kolo_sim_world *world, struct kolo_sim_actor *actor);
/** How call number @p call of several broadcasts is closed. */
enum kolo_closing kolo_sim_closing(const struct kolo_simulation *what, int call);

/* ---- simulate_memory.c ---- */

bool kolo_sim_has_send(enum kolo_collective collective, const struct kolo_plan_args *args);
bool kolo_sim_has_recv(enum kolo_collective collective, const struct kolo_plan_args *args);
/** Computes the lengths of SEND and RECV of @p actor. */
void kolo_sim_measure(const struct kolo_sim_world *world, struct kolo_sim_actor *actor);
/** If the call is in place, sets the part of RECV that is also SEND. */
void kolo_sim_lay_in_place(const struct kolo_sim_world *world, struct kolo_sim_actor *actor);
/** Where @p slice of @p actor is. */
struct kolo_sim_extent kolo_sim_locate(const struct kolo_sim_world *world,
                                       const struct kolo_sim_actor *actor,
                                       const struct kolo_slice *slice);
/** kolo_sim_cell() of an element of SEND, which is in RECV in some calls in place. */
struct kolo_sim_symbol *kolo_sim_cell_of_send(const struct kolo_sim_world *world,
                                              const struct kolo_sim_actor *actor, size_t offset);
/** The cell that holds element @p offset of a buffer; NULL: SEND, or an element not followed. */
static inline struct kolo_sim_symbol *kolo_sim_cell(const struct kolo_sim_world *world,
                                                    const struct kolo_sim_actor *actor,
                                                    enum kolo_sim_buffer memory, size_t offset)
{
    if (memory == KOLO_SIM_SCRATCH)
        return &actor->scratch[offset];
    if (memory == KOLO_SIM_SEND)
        return kolo_sim_cell_of_send(world, actor, offset);
    uint32_t sample = world->sample_of[offset];
    return sample == UINT32_MAX ? NULL : &actor->recv[sample];
}
static inline struct kolo_sim_symbol kolo_sim_load(const struct kolo_sim_world *world,
                                                   const struct kolo_sim_actor *actor,
                                                   enum kolo_sim_buffer memory, size_t offset)
{
    struct kolo_sim_symbol *at = kolo_sim_cell(world, actor, memory, offset);
    if (at)
        return *at;
    return memory == KOLO_SIM_SEND ? kolo_sim_contribution(actor->args.rank, offset)
                                   : KOLO_SIM_NOT_FOLLOWED;
}
/** The first element of @p to, from its element @p i on, that has a cell: those of RECV that are
 * not followed have none. Its count, if there is none. */
static inline size_t kolo_sim_next(const struct kolo_sim_world *world, struct kolo_sim_extent to,
                                   size_t i)
{
    if (!world->next_followed || to.memory != KOLO_SIM_RECV || i >= to.count)
        return i;
    size_t next = world->next_followed[to.offset + i] - to.offset;
    return next < to.count ? next : to.count;
}
/** Checks that @p step of @p actor, which is about to begin, stays in its buffers and touches
 * nothing that is in flight. */
kolo_status kolo_sim_check_step(const struct kolo_sim_world *world,
                                const struct kolo_sim_actor *actor,
                                const struct kolo_step *step) KOLO_NODISCARD;

/* ---- simulate_results.c ---- */

/** Checks the result of a call that is over for @p actor. Only for collectives that give the same
 * result to all ranks. */
kolo_status kolo_sim_check_call(const struct kolo_sim_world *world,
                                const struct kolo_sim_actor *actor) KOLO_NODISCARD;
/** Checks that all ranks have exactly the result of the last call, and no rank has anything
 * else. */
kolo_status kolo_sim_check_results(const struct kolo_sim_world *world) KOLO_NODISCARD;

#endif
