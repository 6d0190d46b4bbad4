// SPDX-License-Identifier: Apache-2.0
// Plans: a collective as a pure function from (rank, size, count, root, in place) and a step index
// to what is sent, received, combined and copied in that step. No I/O and no allocation; the engine
// runs them, simulate.c proves them.
//
// Steps begin in their order, and a step is over when its send and its receive are over. A step
// says how many of those right before it may still be in flight when it begins (`after`): with 1
// none, with 1 + k the last k. So the first steps of an exchange with everybody are all in flight
// at once, and step i of a pipeline of S segments follows step i - S.
//
// Rules that every plan keeps, because links may lend a buffer to the peer until it has read it:
//   - nothing that may still be in flight when a step begins is touched by it: what is being sent
//     is not written, what is being received is neither read nor written;
//   - SEND is never written, but for the part of it that is RECV when the call is in place;
//   - a message of no elements is sent all the same: its header carries the mismatch check.
// A plan that `closes` ends on no rank before every rank has begun; beside the others the engine
// runs another plan that does it (kolo_plan_closing): a barrier, or for a broadcast notes to the
// root, which close it for the root alone, or nothing, if the calls after it close it.
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
    KOLO_WINDOW_MAX = 64, /* steps of a plan in flight at once, at most */
    KOLO_FOLD_MAX = 4096, /* operands of a fold, at most */
    /* Scratch of plans that hold what others sent while they pass it on or fold it, on a rank: they
     * are for short vectors, and would take a multiple of the caller's own. */
    KOLO_SCRATCH_BYTES = 16 << 20,
    /** Of so many broadcasts in a row at least one is closed for all: nobody is further ahead of
     * another. 64: few enough to hear of a late rank soon, and by estimate 2 % of short
     * broadcasts. */
    KOLO_OPEN_MAX = 64
};

/** How a broadcast is closed whose plan does not close it: over links, or a short one on a
 * board. */
enum kolo_closing {
    KOLO_CLOSING_LATER, /* by the calls after it, whose descriptions speak of it */
    KOLO_CLOSING_NOTES, /* for its root, by a note of each other rank, or its entry on the board */
    KOLO_CLOSING_NOW    /* for all, by a barrier; on a board, for its root */
};

/** The NUMA domains of all hosts (plan_hosts.c), numbered in host order. */
struct kolo_domains {
    int count;        /* of all hosts together; as many as hosts: none has several */
    int a_host;       /* on each host; 0: some have more than others */
    int least, most;  /* ranks of the one that has the fewest, and of that which has the most */
    const int *of;    /* by rank: its domain */
    const int *local; /* by rank: its place among the ranks of its domain */
    const int *first; /* by domain: where it begins in `ranks` of the hosts; count + 1 of them */
};

/** Which ranks share a host, for worlds on several, and for hosts of several NUMA nodes. All arrays
 * are in host order: hosts numbered from 0 in the order of their lowest ranks, the ranks of one by
 * NUMA node, those of one node ascending. */
struct kolo_topology {
    int count;        /* of hosts, at least 1 */
    int least, most;  /* ranks of the host that has the fewest, and of that which has the most */
    const int *of;    /* by rank: its host */
    const int *local; /* by rank: its place among the ranks of its host */
    const int *ranks; /* by position in host order */
    const int *first; /* by host: where it begins in `ranks`; count + 1 of them */
    bool is_in_order; /* the ranks of a host have numbers that follow each other, host by host */
    struct kolo_domains domains;
};

struct kolo_plan_args {
    int rank, size, root;
    const struct kolo_topology *hosts; /* NULL: all on one host, in the order of ranks */
    /** Per rank for allgather, reduce_scatter, gather, scatter and alltoall. */
    size_t count;
    /** Elements of each rank's block, and where it lies: in RECV for allgather and gather, in SEND
     * for scatter and reduce_scatter; in RECV, by who sends it, for alltoall. NULL: count of each,
     * one after the other. Given both or neither. */
    const size_t *counts, *displs;
    /** alltoall with counts: the blocks of SEND, by who gets them. */
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

/** out = x[0] op x[1] op ... op x[ways - 1], from left to right, and finished: divided for average.
 * x[own] is `mine`, the others lie behind each other in rank order, `stride` elements apart, from
 * `others` on. `out` equals `mine` or is disjoint from all. */
struct kolo_folding {
    int ways; /* 0: none; at most KOLO_FOLD_MAX */
    int own;
    struct kolo_slice out, mine, others;
    size_t stride;
};

/** One step of one rank. In this order: copy, fold, finish, then the messages. */
struct kolo_step {
    struct kolo_slice copy_from, copy_to; /* count 0: none */
    struct kolo_folding fold;
    struct kolo_slice finish; /* these have their final sum: divide them for average */
    int to;                   /* -1: nothing is sent */
    struct kolo_slice out;
    int from; /* -1: nothing is received */
    struct kolo_slice in;
    bool reduces;            /* in = local op incoming; else in = incoming */
    struct kolo_slice local; /* equals `in`, or is disjoint from it */
    bool incoming_first;     /* in = incoming op local */
    /** Begins when all steps before it but the last after - 1 are over. */
    size_t after;
};

/** What passes before the last rank's first message comes, beyond what its steps show. ROUNDS:
 * whole vectors spread out as down a tree, and every rank takes part in every round, so that on one
 * host its own steps show the time that is spent. */
enum kolo_depth { KOLO_DEPTH_NONE, KOLO_DEPTH_CHAIN, KOLO_DEPTH_TREE, KOLO_DEPTH_ROUNDS };

struct kolo_plan {
    const char *name; /* "ring" */
    enum kolo_collective collective;
    const char *summary;
    bool closes;
    bool is_segmented; /* what its steps move depends on args->segment */
    /** Every element is folded once, on one rank, from all ranks' contributions in the order of
     * ranks: the same bits as any other such plan gives. */
    bool is_ordered;
    /** Not steps over links, but memory that all ranks see (route_board.c): has no steps and needs
     * no scratch; nothing but its name and place in the table are the plan's. */
    bool on_board, is_oneshot;
    /** Follows the hosts, or their NUMA nodes: of plans that are expected to take as long it goes
     * from host to host least often, whatever the order of ranks. */
    bool is_by_hosts;
    enum kolo_depth depth;
    /** NULL, or why it cannot do it. */
    const char *(*fits)(const struct kolo_plan_args *args);
    size_t (*scratch)(const struct kolo_plan_args *args); /* elements of SCRATCH */
    /** For plans that may take KOLO_SCRATCH_BYTES at most: times `count`, the elements of SCRATCH
     * on the rank that needs most. NULL: its scratch is not bounded beyond the caller's buffers.
     * Asked if it fits. */
    size_t (*held)(const struct kolo_plan_args *args);
    size_t (*nsteps)(const struct kolo_plan_args *args);
    /** The most steps in flight, 1 to KOLO_WINDOW_MAX: no step says more in `after`. NULL: 1. */
    size_t (*window)(const struct kolo_plan_args *args);
    void (*step)(const struct kolo_plan_args *args, size_t index, struct kolo_step *step_out);
};

/** All plans; the table ends with a NULL name. The index of a plan is part of the wire format. */
extern const struct kolo_plan kolo_plans[];

/** NULL, or why @p plan, which runs over links, cannot do it, of elements of @p element_bytes: by
 * its `fits`, or for the scratch that it would take. */
const char *kolo_plan_fits(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                           size_t element_bytes);

/** The plan of this name, NULL: none. */
const struct kolo_plan *kolo_plan_find(enum kolo_collective collective, const char *name);

/** What runs beside @p plan, which does not close by itself; it moves no elements, whatever count
 * and root @p args have. NULL: nothing. */
const struct kolo_plan *kolo_plan_closing(const struct kolo_plan *plan,
                                          const struct kolo_plan_args *args);
/** Whether @p plan may be over on a rank before another has begun: a broadcast that is closed
 * later, or for its root alone, or any short one on a board. */
bool kolo_plan_is_open(const struct kolo_plan *plan, const struct kolo_plan_args *args);
/** What closes a broadcast for its root: a note from each other rank. Not in the table, for nobody
 * chooses it. */
extern const struct kolo_plan kolo_plan_notes;

/** The plan on a board, for short vectors or for all others. NULL: none. */
const struct kolo_plan *kolo_plan_on_board(enum kolo_collective collective, bool is_oneshot);

/** Whether any collective has a plan of this name, or it is "auto". If not, @p known gets the names
 * there are. */
bool kolo_plan_is_known(const char *name, char *known, size_t capacity);

/** Chooses among those over links: @p forced ("auto" or a name) where it exists for the collective
 * and fits, else by @p bytes of the whole vector against @p small_bytes. Never NULL. */
const struct kolo_plan *kolo_plan_choose(enum kolo_collective collective,
                                         const struct kolo_plan_args *args, size_t bytes,
                                         size_t small_bytes, const char *forced);

/* ---- helpers of the plan files ---- */

/** The most steps of @p plan in flight. */
size_t kolo_plan_window(const struct kolo_plan *plan, const struct kolo_plan_args *args);
/** An empty step: no peers, no slices; begins when all before it are over. */
void kolo_step_clear(struct kolo_step *step);
/** Elements of rank @p rank in a gathered vector, and where they go. */
size_t kolo_plan_block(const struct kolo_plan_args *args, int rank);
size_t kolo_plan_block_offset(const struct kolo_plan_args *args, int rank);
/** Its block in @p buffer. */
struct kolo_slice kolo_plan_block_in(const struct kolo_plan_args *args, int rank,
                                     enum kolo_buffer buffer);
/** Chunk @p index (any number, taken modulo the number of ranks) of a vector that is cut into as
 * many chunks as there are ranks, the first ones an element longer. */
struct kolo_slice kolo_plan_chunk(const struct kolo_plan_args *args, long index,
                                  enum kolo_buffer buffer);
/** Piece @p index of a slice cut into pieces of @p length; empty beyond the last. */
struct kolo_slice kolo_slice_piece(struct kolo_slice slice, size_t index, size_t length);
/** How many pieces of @p length @p count elements make, at least one: an empty one travels too. */
size_t kolo_pieces(size_t count, size_t length);
/** @p rank modulo @p size, for -size <= rank < 2 * size. */
int kolo_plan_wrap(int rank, int size);
/** Where @p rank is in host order, and who is at @p position; without hosts, the same. Whoever
 * passes something round in this order crosses from each host to the next once, and inside each
 * from one NUMA node to the next once. */
int kolo_plan_position(const struct kolo_plan_args *args, int rank);
int kolo_plan_rank_at(const struct kolo_plan_args *args, int position);
/** The rank at place @p local of host @p host. */
int kolo_plan_rank_on(const struct kolo_plan_args *args, int host, int local);
/** Children of @p position in a binomial tree over @p size positions; child i is 2^i further. */
int kolo_plan_children(int position, int size);
/** Fills @p hosts for @p size ranks from @p of, which it keeps; @p nodes: the NUMA node of each, -1
 * for several or not known; NULL: as if all were on one. @p memory has room for
 * KOLO_HOSTS_INTS(size) and lives as long as @p hosts. */
void kolo_topology_fill(struct kolo_topology *hosts, int size, const int *of, const int *nodes,
                        int *memory);
#define KOLO_HOSTS_INTS(size) (6 * (size_t)(size) + 2)
/** As if each domain were a host; valid as long as @p hosts. Not known to be in order. */
struct kolo_topology kolo_topology_of_domains(const struct kolo_topology *hosts);

/** A rank in the tree inside its host that leads to the first rank there, its leader. */
struct kolo_post {
    int host, local, ranks; /* its host, its place there, of how many */
    size_t children;
    bool has_parent; /* it is not the leader */
};
struct kolo_post kolo_post_of(const struct kolo_plan_args *args);
/** Child @p index of this rank; the parent of one that has one. */
int kolo_post_child(const struct kolo_plan_args *args, const struct kolo_post *post, size_t index);
int kolo_post_parent(const struct kolo_plan_args *args, const struct kolo_post *post);
static inline size_t kolo_post_edges(const struct kolo_post *post)
{
    return post->children + post->has_parent;
}

/** Steps of the halving half of kolo_halving_allreduce. */
size_t kolo_halving_half(const struct kolo_plan_args *args);
/** The round that step @p index of it belongs to, counted through both halves. */
int kolo_halving_round(const struct kolo_plan_args *args, size_t index);

/* plan_*.c; which of these a plan has is said in the table */
#define KOLO_PLAN_DECLARE(name)                                                                    \
    size_t kolo_##name##_nsteps(const struct kolo_plan_args *args);                                \
    size_t kolo_##name##_scratch(const struct kolo_plan_args *args);                               \
    size_t kolo_##name##_window(const struct kolo_plan_args *args);                                \
    void kolo_##name##_step(const struct kolo_plan_args *args, size_t index,                       \
                            struct kolo_step *step_out)
KOLO_PLAN_DECLARE(ring_allreduce);
KOLO_PLAN_DECLARE(ring_reduce_scatter);
KOLO_PLAN_DECLARE(ring_allgather);
KOLO_PLAN_DECLARE(ring_rounds);
KOLO_PLAN_DECLARE(chain);
KOLO_PLAN_DECLARE(chain_broadcast);
KOLO_PLAN_DECLARE(chain_reduce);
KOLO_PLAN_DECLARE(doubling_allreduce);
KOLO_PLAN_DECLARE(tree_broadcast);
KOLO_PLAN_DECLARE(tree_reduce);
KOLO_PLAN_DECLARE(direct);
KOLO_PLAN_DECLARE(direct_rooted);
KOLO_PLAN_DECLARE(direct_gather);
KOLO_PLAN_DECLARE(direct_scatter);
KOLO_PLAN_DECLARE(direct_allgather);
KOLO_PLAN_DECLARE(direct_alltoall);
KOLO_PLAN_DECLARE(direct_allreduce);
KOLO_PLAN_DECLARE(direct_reduce);
KOLO_PLAN_DECLARE(direct_reduce_scatter);
KOLO_PLAN_DECLARE(flat_allreduce);
KOLO_PLAN_DECLARE(flat_reduce);
KOLO_PLAN_DECLARE(dissemination_barrier);
KOLO_PLAN_DECLARE(notes);
KOLO_PLAN_DECLARE(spread_broadcast);
KOLO_PLAN_DECLARE(bruck_allgather);
KOLO_PLAN_DECLARE(bruck_alltoall);
KOLO_PLAN_DECLARE(tree_rooted);
KOLO_PLAN_DECLARE(tree_gather);
KOLO_PLAN_DECLARE(tree_scatter);
KOLO_PLAN_DECLARE(halving);
KOLO_PLAN_DECLARE(halving_allreduce);
KOLO_PLAN_DECLARE(halving_reduce_scatter);
KOLO_PLAN_DECLARE(halving_allgather);
KOLO_PLAN_DECLARE(scattered_broadcast);
KOLO_PLAN_DECLARE(binary);
KOLO_PLAN_DECLARE(binary_broadcast);
KOLO_PLAN_DECLARE(binary_reduce);
KOLO_PLAN_DECLARE(twolevel_allreduce);
KOLO_PLAN_DECLARE(numa_allreduce);
KOLO_PLAN_DECLARE(numa_broadcast);
KOLO_PLAN_DECLARE(numa_reduce);
KOLO_PLAN_DECLARE(numa_allgather);
KOLO_PLAN_DECLARE(numa_reduce_scatter);
KOLO_PLAN_DECLARE(twolevel_broadcast);
KOLO_PLAN_DECLARE(twolevel_reduce);
KOLO_PLAN_DECLARE(twolevel_barrier);
KOLO_PLAN_DECLARE(twolevel_blocks);
KOLO_PLAN_DECLARE(twolevel_allgather);
KOLO_PLAN_DECLARE(twolevel_reduce_scatter);
KOLO_PLAN_DECLARE(twolevel_alltoall);
KOLO_PLAN_DECLARE(leaders_allreduce);
KOLO_PLAN_DECLARE(leaders_allgather);
KOLO_PLAN_DECLARE(leaders_reduce_scatter);
KOLO_PLAN_DECLARE(leaders_rooted);
KOLO_PLAN_DECLARE(leaders_gather);
KOLO_PLAN_DECLARE(leaders_scatter);
const char *kolo_bruck_fits(const struct kolo_plan_args *args);
const char *kolo_twolevel_fits(const struct kolo_plan_args *args);
const char *kolo_twolevel_alltoall_fits(const struct kolo_plan_args *args);
const char *kolo_leaders_blocks_fits(const struct kolo_plan_args *args);
size_t kolo_leaders_reduce_scatter_held(const struct kolo_plan_args *args);
size_t kolo_leaders_rooted_held(const struct kolo_plan_args *args);
const char *kolo_numa_fits(const struct kolo_plan_args *args);
const char *kolo_numa_allreduce_fits(const struct kolo_plan_args *args);
const char *kolo_fold_fits(const struct kolo_plan_args *args);
const char *kolo_flat_fits(const struct kolo_plan_args *args);
size_t kolo_flat_held(const struct kolo_plan_args *args);
size_t kolo_bruck_alltoall_held(const struct kolo_plan_args *args);
size_t kolo_twolevel_alltoall_held(const struct kolo_plan_args *args);

#endif
