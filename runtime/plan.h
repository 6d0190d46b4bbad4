// SPDX-License-Identifier: Apache-2.0
// Plans: a collective as a pure function from (rank, size, count, root, in place) and a step index
// to what is sent, received, combined and copied in that step. No I/O and no allocation; the engine
// runs them, simulate.c proves them.
//
// Rules that every plan keeps, because links may lend a buffer to the peer until it has read it:
//   - a step is over when its send and its receive are over; the next begins then;
//   - no element that is sent in a step is written in that step;
//   - SEND is never written, but for the part of it that is RECV when the call is in place;
//   - a message of no elements is sent all the same: its header carries the mismatch check.
// A plan that `closes` ends on no rank before every rank has begun; the engine lets the others be
// followed by the barrier plan.
#ifndef KOLO_RUNTIME_PLAN_H
#define KOLO_RUNTIME_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What a plan computes: X(name, text). */
#define KOLO_COLLECTIVE_MAP(X)                                                                     \
    X(ALLREDUCE, "allreduce")                                                                      \
    X(REDUCE, "reduce")                                                                            \
    X(BROADCAST, "broadcast")                                                                      \
    X(ALLGATHER, "allgather")                                                                      \
    X(REDUCE_SCATTER, "reduce_scatter")                                                            \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(BARRIER, "barrier")

enum kolo_collective {
#define KOLO_COLLECTIVE_ENUM(name, text) KOLO_COLLECTIVE_##name,
    KOLO_COLLECTIVE_MAP(KOLO_COLLECTIVE_ENUM)
#undef KOLO_COLLECTIVE_ENUM
        KOLO_COLLECTIVES
};

const char *kolo_collective_text(enum kolo_collective collective);

struct kolo_plan_args {
    int rank, size, root;
    size_t count;         /* per rank for allgather, reduce_scatter, gather and scatter */
    const size_t *counts; /* allgather and gather: elements of each rank; NULL: count of each */
    const size_t *displs; /* where they go; given whenever counts is */
    size_t segment;       /* elements that a pipelined plan moves in a step, > 0 */
    bool in_place;        /* SEND and RECV share memory on this rank, as kolo.h allows it */
};

enum kolo_buffer { KOLO_BUFFER_SEND, KOLO_BUFFER_RECV, KOLO_BUFFER_SCRATCH, KOLO_BUFFERS };

/** Elements [offset, offset + count) of a buffer. */
struct kolo_slice {
    enum kolo_buffer buffer;
    size_t offset, count;
};

/** One step of one rank. In this order: copy, finish, then the messages. */
struct kolo_step {
    struct kolo_slice copy_from, copy_to; /* count 0: none */
    struct kolo_slice finish;             /* these have their final sum: divide them for average */
    int to;                               /* -1: nothing is sent */
    struct kolo_slice out;
    int from; /* -1: nothing is received */
    struct kolo_slice in;
    bool reduces;            /* in = local op incoming; else in = incoming */
    struct kolo_slice local; /* equals `in`, or is disjoint from it */
    bool incoming_first;     /* in = incoming op local */
};

struct kolo_plan {
    const char *name; /* "ring" */
    enum kolo_collective collective;
    const char *summary;
    bool closes;
    bool is_segmented; /* the steps depend on args->segment */
    /** NULL, or why it cannot do it. */
    const char *(*fits)(const struct kolo_plan_args *args);
    size_t (*scratch)(const struct kolo_plan_args *args); /* elements of SCRATCH */
    size_t (*nsteps)(const struct kolo_plan_args *args);
    void (*step)(const struct kolo_plan_args *args, size_t index, struct kolo_step *step_out);
};

/** All plans; the table ends with a NULL name. The index of a plan is part of the wire format. */
extern const struct kolo_plan kolo_plans[];

/** The plan of this name, NULL: none. */
const struct kolo_plan *kolo_plan_find(enum kolo_collective collective, const char *name);

/** Whether any collective has a plan of this name, or it is "auto". If not, @p known gets the names
 * there are. */
bool kolo_plan_is_known(const char *name, char *known, size_t capacity);

/** Chooses: @p forced ("auto" or a name) where it exists for the collective and fits, else by @p
 * bytes of the whole vector against @p small_bytes. Never NULL. */
const struct kolo_plan *kolo_plan_choose(enum kolo_collective collective,
                                         const struct kolo_plan_args *args, size_t bytes,
                                         size_t small_bytes, const char *forced);

/* ---- helpers of the plan files ---- */

/** An empty step: no peers, no slices. */
void kolo_step_clear(struct kolo_step *step);
/** Elements of rank @p rank in a gathered vector, and where they go. */
size_t kolo_plan_block(const struct kolo_plan_args *args, int rank);
size_t kolo_plan_block_offset(const struct kolo_plan_args *args, int rank);
/** Always fits; needs no scratch. */
const char *kolo_plan_always(const struct kolo_plan_args *args);
size_t kolo_plan_no_scratch(const struct kolo_plan_args *args);

/* ring.c, doubling.c, tree.c, direct.c */
#define KOLO_PLAN_DECLARE(name)                                                                    \
    size_t kolo_##name##_nsteps(const struct kolo_plan_args *args);                                \
    size_t kolo_##name##_scratch(const struct kolo_plan_args *args);                               \
    void kolo_##name##_step(const struct kolo_plan_args *args, size_t index,                       \
                            struct kolo_step *step_out)
KOLO_PLAN_DECLARE(ring_allreduce);
KOLO_PLAN_DECLARE(ring_reduce_scatter);
KOLO_PLAN_DECLARE(ring_allgather);
KOLO_PLAN_DECLARE(chain_broadcast);
KOLO_PLAN_DECLARE(chain_reduce);
KOLO_PLAN_DECLARE(doubling_allreduce);
KOLO_PLAN_DECLARE(tree_broadcast);
KOLO_PLAN_DECLARE(tree_reduce);
KOLO_PLAN_DECLARE(direct_gather);
KOLO_PLAN_DECLARE(direct_scatter);
KOLO_PLAN_DECLARE(dissemination_barrier);

#endif
