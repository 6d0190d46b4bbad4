// SPDX-License-Identifier: Apache-2.0
// The expected time of a plan, computed from the steps of some of its ranks and from figures of the
// machine. Pure arithmetic on doubles: the same figures give the same prediction on every rank.
//
//   time = call + latency + max(processor, wire)
//
//   call       what a collective takes besides its messages; the latency figures cover messages
//              only
//   latency    of the longest chain of steps that wait for each other, plus as much again for what
//              is passed on before the last rank's first message arrives. (Each time a rank is
//              woken, which costs a switch if ranks share cores.) On several hosts the path to the
//              last rank counts, since few of its messages go from host to host. For a broadcast
//              and a scatter the second part counts half: nobody waits for the last rank, and by
//              then the first ranks are in the next call. The closing plan of a plan that does not
//              close itself runs beside it: the longer of the two counts, plus half of the shorter.
//              An open broadcast (KOLO_CLOSING_LATER) has no closing plan
//   processor  of the busiest rank: messages, and bytes sent, received, copied and combined. If a
//              host has more ranks than cores, and that takes longer than the chain: the sum over
//              the host's ranks, divided by its cores. There a message also costs a switch between
//              ranks, and between a byte's arrival and its next use passes all that a rank has in
//              flight, otherwise only its message. Part of long data has left the caches by then,
//              earlier if all ranks send at the same time; data that is read in place is then read
//              as slowly as bytes are copied. Data that arrives by RDMA is where the device put it:
//              a reduction reads it there, everything else is assumed to be copied (rdma_direct.h
//              says when it need not be)
//   wire       what all ranks of a host send to other hosts, or receive from them, over its line,
//              for the host that has most; or what goes between NUMA domains inside a host, if that
//              takes longer
#ifndef KOLO_RUNTIME_COST_H
#define KOLO_RUNTIME_COST_H

#include <stddef.h>

#include "base/settings.h"
#include "base/status.h"
#include "runtime/plan.h"
#include "transport/path.h"

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
/** Whether the speed of the line between hosts, or of the one for RDMA, is a guess, because nobody
 * has measured it. */
bool kolo_figures_guess_line(const struct kolo_figures *figures, bool by_rdma);
/** Where the ranks are. */
struct kolo_layout {
    int size;
    int cores;            /* of a host, at least 1 */
    enum kolo_path local; /* between ranks of one host */
    const int *hosts;     /* number of each rank's host, from 0; NULL: all on one */
    int nhosts;
    bool by_rdma; /* from host to host */
    /* Time of a byte on the slowest host's line, by the speed of its cards; 0: unknown, or
     * measured, so that the figures hold. */
    double line_byte;
    int domains;    /* NUMA domains of the ranks, over all hosts; 0: as 1 */
    bool has_board; /* all ranks see each other's memory, so plans on a board are possible */
    bool is_unseen; /* but not the memory of this call, which is not from kolo_alloc */
    /* Block size in bytes from which on they pull such memory (kolo_pull_from); 0: never. */
    size_t pull_from;
    bool pull_is_tried; /* and only if that is faster */
};

/** Nanoseconds that @p plan is expected to take with @p args (rank is not used) for elements of @p
 * element_bytes. */
double kolo_plan_cost(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                      size_t element_bytes, const struct kolo_layout *layout,
                      const struct kolo_figures *figures);

/* ---- cost_board.c ---- */

/** The same for a plan on a board that fits (kolo_moves_fit), from the moves of its collective. */
double kolo_board_cost(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                       size_t element_bytes, const struct kolo_layout *layout,
                       const struct kolo_figures *figures);
/** Block size in bytes from which on a rank with these settings would pull such memory; 0: never.
 * *is_tried_out: only if it is found to be faster. */
size_t kolo_pull_from(const struct kolo_settings *settings, bool *is_tried_out);
/** Whether memory that the others cannot see is pulled (board_pull.c), or expected to be. */
bool kolo_board_is_pulled(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                          size_t element_bytes, const struct kolo_layout *layout,
                          const struct kolo_figures *figures);
/** How a plan on a board that is no oneshot is expected to run with such memory. */
enum kolo_unseen { KOLO_UNSEEN_SHOWN, KOLO_UNSEEN_PULLED, KOLO_UNSEEN_STAGED };
enum kolo_unseen kolo_board_unseen(const struct kolo_plan *plan, const struct kolo_plan_args *args,
                                   size_t element_bytes, const struct kolo_layout *layout,
                                   const struct kolo_figures *figures);
/** The longest contribution in bytes for which memory that the others cannot see is shown as in a
 * oneshot, although the plan is another: that is expected to finish before the stages. */
size_t kolo_board_shown(enum kolo_collective collective, const struct kolo_layout *layout,
                        const struct kolo_figures *figures);

#endif
