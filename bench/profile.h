// SPDX-License-Identifier: Apache-2.0
// kolobench profile: measures and saves the figures by which plans are chosen.
#ifndef KOLO_BENCH_PROFILE_H
#define KOLO_BENCH_PROFILE_H

#include "runtime/cost.h"

/** Times measured between ranks, in nanoseconds; 0: not measured in this run. */
struct profile_times {
    int cores, ranks;           /* of a host */
    double one_way;             /* a short message from rank to rank */
    double stream_byte;         /* per byte of long messages from host to host */
    double barrier;             /* over links, by dissemination */
    double ring, ring_long;     /* allgather over links, by rings: short blocks, long ones */
    double shown, shown_long;   /* allreduce over a board, by oneshot: short vectors, longer ones */
    double direct, direct_long; /* by twoshot, where ranks can read each other's memory */
    double copy_byte, combine_byte, pull_byte;
    double ring_bytes, shown_bytes, direct_bytes; /* sizes of the long ones */
};

/** Derives from the times the figures with which the model gives these times again; a figure that
 * was not measured keeps its value. If ranks share cores, the times give what crowding adds to the
 * figures that are there. @p path is that of the links, or if a stream was measured, that from
 * rank 0 to another host. Pure. */
void profile_solve(const struct profile_times *times, enum kolo_path path,
                   struct kolo_figures *figures);

/** @p argv: the words after "profile". Returns the exit status. */
int profile_main(char *const *argv);

#endif
