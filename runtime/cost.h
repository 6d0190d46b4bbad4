// SPDX-License-Identifier: Apache-2.0
// What a plan is expected to take: its steps counted for some of its ranks, and figures of the
// machine. Pure arithmetic over doubles: the same figures give the same prediction on every rank.
//
//   time = call + latency + the larger of processor and wire
//   call       what a collective takes beside its messages, whose latencies are of messages alone
//   latency    along the longest chain of steps that wait for each other, and as much again for
//              what is passed on before the last rank's first message comes (each time a rank is
//              woken, which costs a switch where ranks share cores), on several hosts by the way
//              that it takes, of which few messages go from host to host; of a broadcast and a
//              scatter half as much, since nobody waits for the last rank: the first ones are at
//              the next call by then.
//              What closes a plan that does not close itself runs beside it, and costs the longer
//              of both and half of the shorter; an open broadcast (KOLO_CLOSING_LATER) has none
//   processor  messages, bytes sent, received, copied and combined, of the busiest rank; or, where
//              a host has more ranks than cores, of all its ranks over its cores, if that is longer
//              than the chain. There a message costs a switch between ranks too, and all that a
//              rank has in flight lies between a byte's arrival and its next use, else its message.
//              Of what is long a part has left the caches by then, sooner where all ranks send at a
//              time; what is read where it lies is then read as slowly as bytes are copied. What
//              comes by RDMA lies where the device put it: a sum reads it there, all else is taken
//              to be copied (rdma_direct.h says when it need not be)
//   wire       what all ranks of a host send to others, or get from them, over its line, of the
//              host that has most; or what goes from NUMA domain to NUMA domain inside one, if that
//              takes longer
#ifndef KOLO_RUNTIME_COST_H
#define KOLO_RUNTIME_COST_H

#include <stddef.h>

#include "base/settings.h"
#include "base/status.h"
#include "runtime/plan.h"

/** How two ranks are joined: X(name, text). */
#define KOLO_PATH_MAP(X)                                                                           \
    X(INPROC, "inproc")     /* threads of one process */                                           \
    X(SHM, "shm")           /* one host, shared memory */                                          \
    X(LOOPBACK, "loopback") /* one host, sockets */                                                \
    X(RDMA, "rdma")         /* any two, by RDMA */                                                 \
    X(NETWORK, "network")   /* two hosts, sockets */

enum kolo_path {
#define KOLO_PATH_ENUM(name, text) KOLO_PATH_##name,
    KOLO_PATH_MAP(KOLO_PATH_ENUM)
#undef KOLO_PATH_ENUM
        KOLO_PATHS
};
const char *kolo_path_text(enum kolo_path path);

/** Figures of a path, in nanoseconds: X(field, what). */
#define KOLO_PATH_FIGURE_MAP(X)                                                                    \
    X(call, "a collective over links, beside its messages")                                        \
    X(latency, "from a send to the receive that waits for it, less the processors' part")          \
    X(message, "processor time of a message on each side")                                         \
    X(byte, "processor time of a byte on each side")                                               \
    X(crowded_message, "more of it for a message, where ranks share cores")                        \
    X(crowded_byte, "more of it for a byte, where ranks share cores")

/** Figures of a machine, in nanoseconds: X(field, what). */
#define KOLO_HOST_FIGURE_MAP(X)                                                                    \
    X(wire_byte, "a byte on the line between hosts")                                               \
    X(rdma_wire_byte, "the same, by RDMA")                                                         \
    X(combine_byte, "combining a byte that is in the cache")                                       \
    X(copy_byte, "copying a byte")                                                                 \
    X(turn, "another rank's turn at a board, on a core that several share")                        \
    X(enter, "processor time of entering a collective over a board, or of going on in it")         \
    X(flag, "a word from one core to another that looks for it")                                   \
    X(share_byte, "reading or writing a byte of memory that ranks share, in a cache")              \
    X(remote_byte, "having a byte that another core has just written, on top of that")             \
    X(far_flag, "a word to a core of another NUMA node, on top of one within it")                  \
    X(far_byte, "a byte on the line into a NUMA node, which its cores share")                      \
    X(pull_byte, "a byte out of another process's memory, which the kernel copies")

struct kolo_figures {
    struct kolo_path_figures {
#define KOLO_FIGURE_FIELD(field, what) double field;
        KOLO_PATH_FIGURE_MAP(KOLO_FIGURE_FIELD)
    } path[KOLO_PATHS];
    KOLO_HOST_FIGURE_MAP(KOLO_FIGURE_FIELD)
#undef KOLO_FIGURE_FIELD
};

/** Built-in figures, of a machine of 2024 (cost_figures.c). */
void kolo_figures_init(struct kolo_figures *figures);
/** Has nobody measured the line between hosts? */
bool kolo_figures_guess_line(const struct kolo_figures *figures);
/** Where the ranks are. */
struct kolo_layout {
    int size;
    int cores;            /* of a host, at least 1 */
    enum kolo_path local; /* between ranks of one host */
    const int *hosts;     /* number of each rank's host, from 0; NULL: all on one */
    int nhosts;
    bool by_rdma; /* from host to host */
    /* A byte on the slowest host's line, as its cards' speed says; 0: that is not known, or it was
     * measured: it is as the figures say. */
    double line_byte;
    int domains;    /* NUMA domains that they are on, of all hosts together; 0: as 1 */
    bool has_board; /* all see memory of all: plans on a board can be taken */
    bool is_unseen; /* but not that of the call, which is not of kolo_alloc */
    /* Bytes of a block from which on they pull such memory (kolo_pull_from); 0: never. */
    size_t pull_from;
    bool pull_is_tried; /* and only where it is faster */
};

/** Nanoseconds that @p plan is expected to take with @p args (rank is not looked at) for elements
 * of @p element_bytes. */
double kolo_plan_cost(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                      size_t element_bytes, const struct kolo_layout *layout,
                      const struct kolo_figures *figures);

/* ---- cost_board.c ---- */

/** The same of a plan on a board that fits (kolo_moves_fit), by the moves of its collective. */
double kolo_board_cost(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                       size_t element_bytes, const struct kolo_layout *layout,
                       const struct kolo_figures *figures);
/** Bytes of a block from which on a rank with these settings would pull such memory; 0: never. And
 * whether only where it is found to be faster. */
size_t kolo_pull_from(const struct kolo_settings *settings, bool *is_tried_out);
/** Whether memory that the others cannot see is pulled (board_pull.c), or expected to be. */
bool kolo_board_is_pulled(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                          size_t element_bytes, const struct kolo_layout *layout,
                          const struct kolo_figures *figures);
/** Up to so many bytes of the longest contribution, memory that the others cannot see is shown as
 * in a oneshot, though the plan is another; it is over first then. */
size_t kolo_board_shown(enum kolo_collective collective, const struct kolo_layout *layout,
                        const struct kolo_figures *figures);

#endif
