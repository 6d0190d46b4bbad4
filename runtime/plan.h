// SPDX-License-Identifier: Apache-2.0
// Plans: a collective as a pure function from (rank, size, count, root, in place) and the index of
// a step to what is sent, received, combined and copied in that step. No I/O and no allocation. The
// engine runs plans; a simulator, which only the tests contain, proves them
// (tests/support/simulate.h). Each plan is a row of a table, which names its functions; the row is
// at the end of the file of the plan.
//
// Steps begin in order. A step is over when its send and its receive are over. `after` says how
// many of the steps right before it may still be in flight when it begins: 1 none, 1 + k the last
// k. So all steps of a direct exchange can be in flight at once, and in a pipeline of S segments
// step i begins after step i - S.
//
// Rules that every plan follows, because links may lend a buffer to the peer until it has read it:
//   - a step does not touch what may still be in flight when it begins: what is being sent is not
//     written, what is being received is neither read nor written;
//   - SEND is never written, except for the part of it that is RECV when the call is in place;
//   - a message without elements is sent too, because its header carries the mismatch check.
//
// A plan that `closes` is not over on any rank before every rank has begun. Beside other plans the
// engine runs a closing plan (kolo_plan_closing): a barrier; or for a broadcast notes to the root,
// which close it for the root only; or nothing, if later calls close it.
#ifndef KOLO_RUNTIME_PLAN_H
#define KOLO_RUNTIME_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/** What a plan computes: X(name, text). */
#define KOLO_COLLECTIVE_MAP(X)                                                                     \
    X(ALLREDUCE, "allreduce")                                                                      \
    X(REDUCE, "reduce")                                                                            \
    X(BROADCAST, "broadcast")                                                                      \
    X(ALLGATHER, "allgather")                                                                      \
    X(REDUCE_SCATTER, "reduce_scatter")                                                            \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(BARRIER, "barrier")                                                                          \
    X(ALLTOALL, "alltoall")

enum kolo_collective {
#define KOLO_COLLECTIVE_ENUM(name, text) KOLO_COLLECTIVE_##name,
    KOLO_COLLECTIVE_MAP(KOLO_COLLECTIVE_ENUM)
#undef KOLO_COLLECTIVE_ENUM
        KOLO_COLLECTIVES
};

const char *kolo_collective_text(enum kolo_collective collective);

enum {
    KOLO_WINDOW_MAX = 64, /* the most steps of a plan in flight at once */
    KOLO_FOLD_MAX = 4096, /* the most operands of a fold */
    /* The most scratch of a plan in which ranks hold others' data while they pass it on or fold it.
     * Such plans are for short vectors; for long ones they would need a multiple of the caller's
     * buffers. */
    KOLO_SCRATCH_BYTES = 16 << 20,
    /** At least one in this many consecutive broadcasts is closed for all, which bounds how far a
     * rank can be ahead. 64 is few enough to notice a late rank soon, and costs an estimated 2 % of
     * the time of short broadcasts. */
    KOLO_OPEN_MAX = 64
};

/** How a broadcast is closed whose plan does not close it: over links, or a short one on a
 * board. */
enum kolo_closing {
    KOLO_CLOSING_LATER, /* by later calls, whose descriptions include it */
    KOLO_CLOSING_NOTES, /* for its root, by a note of each other rank, or its entry on the board */
    KOLO_CLOSING_NOW    /* for all, by a barrier; on a board, for its root */
};

/** The NUMA domains of all hosts (plan_hosts.c), numbered in host order. */
struct kolo_domains {
    int count;        /* over all hosts; equal to the number of hosts if none has several */
    int a_host;       /* on each host; 0: hosts have different numbers of them */
    int least, most;  /* ranks of the smallest and of the largest domain */
    const int *of;    /* by rank: its domain */
    const int *local; /* by rank: its place among the ranks of its domain */
    const int *first; /* by domain: its start in `ranks` of the hosts; count + 1 entries */
};

/** Which ranks share a host, in a world of several hosts, or on hosts with several NUMA nodes. The
 * arrays are in host order: hosts are numbered from 0 by their lowest ranks; the ranks of a host
 * are sorted by NUMA node, then by rank. */
struct kolo_topology {
    int count;        /* number of hosts, at least 1 */
    int least, most;  /* ranks of the smallest and of the largest host */
    const int *of;    /* by rank: its host */
    const int *local; /* by rank: its place among the ranks of its host */
    const int *ranks; /* by position in host order */
    const int *first; /* by host: its start in `ranks`; count + 1 entries */
    bool is_in_order; /* the ranks of each host have consecutive numbers, host by host */
    struct kolo_domains domains;
};

struct kolo_plan_args {
    int rank, size, root;
    const struct kolo_topology *hosts; /* NULL: all on one host, in the order of ranks */
    /** Elements per rank for allgather, reduce_scatter, gather, scatter and alltoall. */
    size_t count;
    /** Elements of each rank's block, and its offset: in RECV for allgather and gather, in SEND for
     * scatter and reduce_scatter, and for alltoall in RECV, by sender. NULL: blocks of `count`, one
     * after the other. Either both or neither is NULL. */
    const size_t *counts, *displs;
    /** alltoall with counts: the blocks of SEND, by receiver. */
    const size_t *send_counts, *send_displs;
    size_t segment; /* elements that a pipelined plan moves in a step, > 0 */
    /** SEND and RECV share memory on this rank, as kolo.h allows it; never for alltoall. */
    bool in_place;
    enum kolo_closing closing; /* of a broadcast */
};

enum kolo_buffer { KOLO_BUFFER_SEND, KOLO_BUFFER_RECV, KOLO_BUFFER_SCRATCH, KOLO_BUFFERS };

/** Elements [offset, offset + count) of a buffer. */
struct kolo_slice {
    enum kolo_buffer buffer;
    size_t offset, count;
};

/** out = x[0] op x[1] op ... op x[ways - 1], from left to right, and finished (divided, for an
 * average). x[own] is `mine`; the others follow each other in rank order from `others` on, `stride`
 * elements apart. `out` equals `mine` or is disjoint from all of them. */
struct kolo_folding {
    int ways; /* 0: none; at most KOLO_FOLD_MAX */
    int own;
    struct kolo_slice out, mine, others;
    size_t stride;
};

/** One step of one rank. Order: copy, fold, finish, then the messages. */
struct kolo_step {
    struct kolo_slice copy_from, copy_to; /* count 0: none */
    struct kolo_folding fold;
    struct kolo_slice finish; /* elements that now have their final sum: divided for an average */
    int to;                   /* -1: nothing is sent */
    struct kolo_slice out;
    int from; /* -1: nothing is received */
    struct kolo_slice in;
    bool reduces;            /* in = local op incoming; else in = incoming */
    struct kolo_slice local; /* equals `in`, or is disjoint from it */
    bool incoming_first;     /* in = incoming op local */
    /** The step begins when all steps before it, except the last after - 1, are over. */
    size_t after;
};

/** What happens before the last rank's first message arrives, beyond what its own steps show.
 * ROUNDS: whole vectors spread as down a tree, and every rank takes part in every round, so that on
 * one host its own steps show the time. */
enum kolo_depth { KOLO_DEPTH_NONE, KOLO_DEPTH_CHAIN, KOLO_DEPTH_TREE, KOLO_DEPTH_ROUNDS };

/** All plans in the order of their numbers, which are part of the wire format; of each collective
 * the first one is for long vectors. X(NAME, name): the file of the plan defines its row of the
 * table, kolo_plan_##name. */
#define KOLO_PLAN_MAP(X)                                                                           \
    X(RING_ALLREDUCE, ring_allreduce)                                                              \
    X(DOUBLING_ALLREDUCE, doubling_allreduce)                                                      \
    X(RING_REDUCE, ring_reduce)                                                                    \
    X(TREE_REDUCE, tree_reduce)                                                                    \
    X(RING_BROADCAST, ring_broadcast)                                                              \
    X(TREE_BROADCAST, tree_broadcast)                                                              \
    X(RING_ALLGATHER, ring_allgather)                                                              \
    X(RING_REDUCE_SCATTER, ring_reduce_scatter)                                                    \
    X(DIRECT_GATHER, direct_gather)                                                                \
    X(DIRECT_SCATTER, direct_scatter)                                                              \
    X(DISSEMINATION_BARRIER, dissemination_barrier)                                                \
    X(DIRECT_ALLREDUCE, direct_allreduce)                                                          \
    X(FLAT_ALLREDUCE, flat_allreduce)                                                              \
    X(DIRECT_REDUCE, direct_reduce)                                                                \
    X(FLAT_REDUCE, flat_reduce)                                                                    \
    X(DIRECT_REDUCE_SCATTER, direct_reduce_scatter)                                                \
    X(DIRECT_ALLGATHER, direct_allgather)                                                          \
    X(DIRECT_ALLTOALL, direct_alltoall)                                                            \
    X(ONESHOT_ALLREDUCE, oneshot_allreduce)                                                        \
    X(TWOSHOT_ALLREDUCE, twoshot_allreduce)                                                        \
    X(ONESHOT_REDUCE, oneshot_reduce)                                                              \
    X(TWOSHOT_REDUCE, twoshot_reduce)                                                              \
    X(ONESHOT_BROADCAST, oneshot_broadcast)                                                        \
    X(TWOSHOT_BROADCAST, twoshot_broadcast)                                                        \
    X(ONESHOT_ALLGATHER, oneshot_allgather)                                                        \
    X(TWOSHOT_ALLGATHER, twoshot_allgather)                                                        \
    X(ONESHOT_REDUCE_SCATTER, oneshot_reduce_scatter)                                              \
    X(TWOSHOT_REDUCE_SCATTER, twoshot_reduce_scatter)                                              \
    X(ONESHOT_GATHER, oneshot_gather)                                                              \
    X(TWOSHOT_GATHER, twoshot_gather)                                                              \
    X(ONESHOT_SCATTER, oneshot_scatter)                                                            \
    X(TWOSHOT_SCATTER, twoshot_scatter)                                                            \
    X(ONESHOT_BARRIER, oneshot_barrier)                                                            \
    X(ONESHOT_ALLTOALL, oneshot_alltoall)                                                          \
    X(TWOSHOT_ALLTOALL, twoshot_alltoall)                                                          \
    X(SPREAD_BROADCAST, spread_broadcast)                                                          \
    X(BRUCK_ALLGATHER, bruck_allgather)                                                            \
    X(HALVING_ALLREDUCE, halving_allreduce)                                                        \
    X(HALVING_REDUCE_SCATTER, halving_reduce_scatter)                                              \
    X(DOUBLING_ALLGATHER, doubling_allgather)                                                      \
    X(BRUCK_ALLTOALL, bruck_alltoall)                                                              \
    X(TREE_GATHER, tree_gather)                                                                    \
    X(TREE_SCATTER, tree_scatter)                                                                  \
    X(TWOLEVEL_ALLREDUCE, twolevel_allreduce)                                                      \
    X(TWOLEVEL_BROADCAST, twolevel_broadcast)                                                      \
    X(TWOLEVEL_REDUCE, twolevel_reduce)                                                            \
    X(TWOLEVEL_BARRIER, twolevel_barrier)                                                          \
    X(SCATTERED_BROADCAST, scattered_broadcast)                                                    \
    X(BINARY_BROADCAST, binary_broadcast)                                                          \
    X(BINARY_REDUCE, binary_reduce)                                                                \
    X(TWOLEVEL_ALLGATHER, twolevel_allgather)                                                      \
    X(TWOLEVEL_REDUCE_SCATTER, twolevel_reduce_scatter)                                            \
    X(TWOLEVEL_ALLTOALL, twolevel_alltoall)                                                        \
    X(NUMA_ALLREDUCE, numa_allreduce)                                                              \
    X(NUMA_BROADCAST, numa_broadcast)                                                              \
    X(NUMA_REDUCE, numa_reduce)                                                                    \
    X(NUMA_ALLGATHER, numa_allgather)                                                              \
    X(NUMA_REDUCE_SCATTER, numa_reduce_scatter)                                                    \
    X(LEADERS_ALLREDUCE, leaders_allreduce)                                                        \
    X(LEADERS_ALLGATHER, leaders_allgather)                                                        \
    X(LEADERS_REDUCE_SCATTER, leaders_reduce_scatter)                                              \
    X(LEADERS_GATHER, leaders_gather)                                                              \
    X(LEADERS_SCATTER, leaders_scatter)                                                            \
    X(NESTED_ALLREDUCE, nested_allreduce)

enum kolo_plan_number {
#define KOLO_PLAN_NUMBER(NAME, name) KOLO_PLAN_##NAME,
    KOLO_PLAN_MAP(KOLO_PLAN_NUMBER)
#undef KOLO_PLAN_NUMBER
        KOLO_PLANS
};

struct kolo_plan {
    const char *name; /* "ring" */
    enum kolo_collective collective;
    enum kolo_plan_number number; /* its place in the table */
    const char *summary;
    bool closes;
    bool is_segmented; /* the contents of its steps depend on args->segment */
    /** Each element is folded once, on one rank, from all contributions in the order of ranks: all
     * such plans give the same bits. */
    bool is_ordered;
    /** A plan on a board (route_board.c), not over links: it has no steps and no scratch, and only
     * its name and its place in the table are used. */
    bool on_board, is_oneshot;
    /** Not over links either, but by calls on other communicators (nested.c). It is not chosen by
     * its cost, which nobody knows, but by a setting. */
    bool is_nested;
    /** Follows the hosts or their NUMA nodes. Among plans with the same expected time it goes
     * between hosts least often, whatever the order of ranks. */
    bool is_by_hosts;
    enum kolo_depth depth;
    /** NULL, or why the plan cannot carry out the call. */
    const char *(*fits)(const struct kolo_plan_args *args);
    size_t (*scratch)(const struct kolo_plan_args *args); /* elements of SCRATCH */
    /** For plans that may take at most KOLO_SCRATCH_BYTES: returns a factor; times `count` it gives
     * the elements of SCRATCH on the rank that needs most. NULL: the scratch is not limited beyond
     * the caller's buffers. Called only if the plan fits. */
    size_t (*held)(const struct kolo_plan_args *args);
    size_t (*nsteps)(const struct kolo_plan_args *args);
    /** The most steps in flight, 1 to KOLO_WINDOW_MAX: no step has a larger `after`. NULL: 1. */
    size_t (*window)(const struct kolo_plan_args *args);
    void (*step)(const struct kolo_plan_args *args, size_t index, struct kolo_step *step_out);
};

#define KOLO_PLAN_ROW(NAME, name) extern const struct kolo_plan kolo_plan_##name;
KOLO_PLAN_MAP(KOLO_PLAN_ROW)
#undef KOLO_PLAN_ROW

/** The table: all plans by number. */
extern const struct kolo_plan *const kolo_plans[KOLO_PLANS];

/** The plan after @p plan in the table; NULL after the last. NULL: the first. */
static inline const struct kolo_plan *kolo_plan_next(const struct kolo_plan *plan)
{
    size_t next = !plan ? 0 : (size_t)plan->number + 1;
    return next < KOLO_PLANS ? kolo_plans[next] : NULL;
}

/** NULL, or why @p plan, which runs over links, cannot carry out the call for elements of @p
 * element_bytes: because of its `fits`, or of the scratch that it would need. */
const char *kolo_plan_fits(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                           size_t element_bytes);

/** The plan with this name; NULL: there is none. */
const struct kolo_plan *kolo_plan_find(enum kolo_collective collective, const char *name);

/** The closing plan that runs beside @p plan, which does not close itself. It moves no elements,
 * whatever count and root @p args have. NULL: nothing runs. */
const struct kolo_plan *kolo_plan_closing(const struct kolo_plan *plan,
                                          const struct kolo_plan_args *args);
/** Whether @p plan may be over on one rank before another has begun: a broadcast that is closed
 * later, or only for its root, or any short one on a board. */
bool kolo_plan_is_open(const struct kolo_plan *plan, const struct kolo_plan_args *args);
/** Closes a broadcast for its root: a note from each other rank. Not in the table, since it is
 * never chosen; its number is KOLO_PLANS. */
extern const struct kolo_plan kolo_plan_notes;

/** The plan on a board: for short vectors (oneshot), or for all others. NULL: none. */
const struct kolo_plan *kolo_plan_on_board(enum kolo_collective collective, bool is_oneshot);

/** Checks a value of KOLO_PLAN: "auto", or a name that some collective's plan has. ERR_CONFIG. In
 * plan_names.c, which does not refer to the table. */
kolo_status kolo_plan_check(const char *name) KOLO_NODISCARD;

/** Chooses among the plans over links: @p forced ("auto" or a name) if it exists for the collective
 * and fits, else by comparing @p bytes, the size of the whole vector, with @p small_bytes. Never
 * NULL. */
const struct kolo_plan *kolo_plan_choose(enum kolo_collective collective,
                                         const struct kolo_plan_args *args, size_t bytes,
                                         size_t small_bytes, const char *forced);

/* ---- helpers of the plan files ---- */

/** The most steps of @p plan that are in flight at once. */
size_t kolo_plan_window(const struct kolo_plan *plan, const struct kolo_plan_args *args);
/** @p steps, but no more than may be in flight at all. */
static inline size_t kolo_in_window(size_t steps)
{
    return steps < KOLO_WINDOW_MAX ? steps : KOLO_WINDOW_MAX;
}
/** An empty step: no peers, no slices; it begins when all steps before it are over. */
void kolo_step_clear(struct kolo_step *step);
/** The number of elements of rank @p rank in a gathered vector, and their offset. */
size_t kolo_plan_block(const struct kolo_plan_args *args, int rank);
size_t kolo_plan_block_offset(const struct kolo_plan_args *args, int rank);
/** The length of the longest block of a gathered vector. */
static inline size_t kolo_plan_longest_block(const struct kolo_plan_args *args)
{
    size_t most = kolo_plan_block(args, 0);
    for (int rank = 1; args->counts && rank < args->size; rank++)
        if (args->counts[rank] > most)
            most = args->counts[rank];
    return most;
}
/** Elements of the vector, or of a block on average; the same on all ranks: 0 if each has its own
 * counts (alltoall). */
size_t kolo_plan_mean_block(const struct kolo_plan_args *args);
/** The block of @p rank in @p buffer. */
struct kolo_slice kolo_plan_block_in(const struct kolo_plan_args *args, int rank,
                                     enum kolo_buffer buffer);
/** Chunk @p index (any number, modulo the number of ranks) of a vector that is cut into one chunk
 * for each rank, the first ones longer by an element. */
struct kolo_slice kolo_plan_chunk(const struct kolo_plan_args *args, long index,
                                  enum kolo_buffer buffer);
/** The first args->count elements of @p buffer: the whole vector, or one block. */
static inline struct kolo_slice kolo_slice_whole(const struct kolo_plan_args *args,
                                                 enum kolo_buffer buffer)
{
    return (struct kolo_slice){buffer, 0, args->count};
}
/** Piece @p index of a slice that is cut into pieces of @p length; empty beyond the last. */
struct kolo_slice kolo_slice_piece(struct kolo_slice slice, size_t index, size_t length);
/** The number of pieces of @p length in @p count elements, at least one: an empty piece is sent
 * too. */
size_t kolo_pieces(size_t count, size_t length);
/** @p rank modulo @p size, for -size <= rank < 2 * size. */
int kolo_plan_wrap(int rank, int size);
/** The position of @p rank in host order, and the rank at @p position; without hosts they are
 * equal. A ring in this order goes from each host to the next once, and inside each host from one
 * NUMA node to the next once. */
int kolo_plan_position(const struct kolo_plan_args *args, int rank);
int kolo_plan_rank_at(const struct kolo_plan_args *args, int position);
/** The rank at place @p local of host @p host. */
int kolo_plan_rank_on(const struct kolo_plan_args *args, int host, int local);
/** The blocks of all ranks of a host, if the ranks of each host follow each other and all blocks
 * have `count` elements. */
struct kolo_slice kolo_plan_blocks_on(const struct kolo_plan_args *args, int host,
                                      enum kolo_buffer buffer);
/** The number of children of @p position in a binomial tree over @p size positions; child i is at
 * position + 2^i. */
int kolo_plan_children(int position, int size);
/** Fills @p hosts for @p size ranks from @p of (the host of each rank), which is kept; @p nodes:
 * the NUMA node of each rank, -1 for several or unknown; NULL: as if all were on one. @p memory has
 * room for KOLO_HOSTS_INTS(size) and must live as long as @p hosts. */
void kolo_topology_fill(struct kolo_topology *hosts, int size, const int *of, const int *nodes,
                        int *memory);
#define KOLO_HOSTS_INTS(size) (6 * (size_t)(size) + 2)
/** The topology with each domain as a host; valid as long as @p hosts. is_in_order is false. */
struct kolo_topology kolo_topology_of_domains(const struct kolo_topology *hosts);

/** The place of a rank in the tree inside its host, whose root is the host's first rank, its
 * leader. */
struct kolo_post {
    int host, local, ranks; /* its host, its place there, the number of ranks there */
    size_t children;
    bool has_parent; /* false: it is the leader */
};
struct kolo_post kolo_post_of(const struct kolo_plan_args *args);
/** Child @p index of this rank; the parent, if it has one. */
int kolo_post_child(const struct kolo_plan_args *args, const struct kolo_post *post, size_t index);
int kolo_post_parent(const struct kolo_plan_args *args, const struct kolo_post *post);
static inline size_t kolo_post_edges(const struct kolo_post *post)
{
    return post->children + post->has_parent;
}

/** The number of steps of the first, halving half of kolo_plan_halving_allreduce. */
size_t kolo_halving_half(const struct kolo_plan_args *args);
/** The round that its step @p index belongs to, counted through both halves. */
int kolo_halving_round(const struct kolo_plan_args *args, size_t index);

/* Functions of rows of several files. All others are static, beside their row. */
const char *kolo_always_fits(const struct kolo_plan_args *args);
size_t kolo_no_scratch(const struct kolo_plan_args *args);
/** All blocks must have the same length. */
const char *kolo_bruck_fits(const struct kolo_plan_args *args);
const char *kolo_twolevel_fits(const struct kolo_plan_args *args);
const char *kolo_numa_fits(const struct kolo_plan_args *args);
const char *kolo_leaders_blocks_fits(const struct kolo_plan_args *args);
/** Of allgather and reduce_scatter in two levels. */
size_t kolo_twolevel_blocks_window(const struct kolo_plan_args *args);

#endif
