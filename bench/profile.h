// SPDX-License-Identifier: Apache-2.0
// kolobench profile: the figures by which plans are chosen, measured and saved.
#ifndef KOLO_BENCH_PROFILE_H
#define KOLO_BENCH_PROFILE_H

#include "runtime/cost.h"

/** What was measured between ranks, in nanoseconds; 0: not in this run. */
struct profile_times {
    int cores, ranks;           /* of a host */
    double one_way;             /* a short message from rank to rank */
    double stream_byte;         /* of long messages from host to host */
    double barrier;             /* over links, by dissemination */
    double ring, ring_long;     /* allgather over links, by rings: short blocks, long ones */
    double shown, shown_long;   /* allreduce over a board, by oneshot: short vectors, longer ones */
    double direct, direct_long; /* by twoshot, where the others see all memory */
    double copy_byte, combine_byte, pull_byte;
    double ring_bytes, shown_bytes, direct_bytes; /* of the long ones */
};

/** Turns times into the figures by which the model gives these times again; what was not measured
 * keeps its value. Ranks that share cores give what crowding adds, to figures that are there.
 * @p path is that of the links, or, where a stream was measured, of rank 0's to another host.
 * Pure. */
void profile_solve(const struct profile_times *times, enum kolo_path path,
                   struct kolo_figures *figures);

/** @p argv: what comes after "profile". Returns the exit status. */
int profile_main(char *const *argv);

#endif
