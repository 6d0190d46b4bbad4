// SPDX-License-Identifier: Apache-2.0
// A collective whose buffers the other members cannot see, as a set of tracks: moves whose data
// goes through the members' stages, one chunk of each track in a round. Pure functions, like
// board_moves.h.
//
//   copy in     a member that holds an input which another member needs copies the chunk into a
//               cell of its own in-slot
//   work        the track's owner folds its own input and the others' cells. A track from a single
//               member has no owner: each receiver copies it from the sender's cell
//   copy out    receivers copy the result of a fold from the owner's out-slot, which has one cell
//
// All three cut the vector at the same places, so member, track and round determine the cell.
#ifndef KOLO_RUNTIME_BOARD_TRACKS_H
#define KOLO_RUNTIME_BOARD_TRACKS_H

#include "runtime/board_moves.h"

struct kolo_track {
    struct kolo_move move;
    int owner;   /* the member that folds it; -1: it comes from a single member */
    size_t cell; /* in the in-slot of each member that copies it in */
};

size_t kolo_tracks_count(enum kolo_collective collective, const struct kolo_plan_args *args);
/** @p align: as in kolo_share_begin. */
void kolo_tracks_at(enum kolo_collective collective, const struct kolo_plan_args *args,
                    size_t index, size_t align, struct kolo_track *track_out);
/** Cells of an in-slot, the same on all members. */
size_t kolo_tracks_cells(enum kolo_collective collective, const struct kolo_plan_args *args);
/** Elements of the longest track. */
size_t kolo_tracks_longest(enum kolo_collective collective, const struct kolo_plan_args *args,
                           size_t align);

/** Whether @p member copies an input of @p track into its in-slot. */
bool kolo_track_copies_in(const struct kolo_track *track, int member);
/** Whether @p member folds @p track; or, for a track from a single member, copies it into its RECV
 * (from its own SEND, or from a cell). */
bool kolo_track_works(const struct kolo_track *track, int member);
/** Whether @p track writes to @p member's RECV. */
bool kolo_track_wants(const struct kolo_track *track, int member);
/** Whether the result of the fold goes to other members through the owner's out-slot. */
bool kolo_track_goes_out(const struct kolo_track *track);
/** Whether @p member copies the result from the owner's out-slot. */
bool kolo_track_copies_out(const struct kolo_track *track, int member);

/* ---- the order of rounds ---- */

/** The parts of a round, in order of priority: first the one that most others wait for. */
enum kolo_part { KOLO_PART_WORK, KOLO_PART_OUT, KOLO_PART_IN, KOLO_PARTS };

/** How many rounds a member has copied in, worked and copied out. A part in which it has no share
 * counts as complete from the beginning. */
struct kolo_progress {
    size_t count, slots; /* rounds of the collective; slots of each kind, > 0 */
    bool goes_out;       /* there are out-slots */
    size_t staged, worked, taken;
};

/** How many rounds all others must have completed; 0: any number. */
struct kolo_need {
    size_t staged, worked, taken;
};

/** Whether a member with this progress may continue with @p part as soon as all others meet
 * *need_out. Round r is
 *   copied in    once all have worked round r - slots: nobody reads that in-slot any more
 *   worked       once all have copied in round r, and copied out round r - slots
 *   copied out   once all have worked round r
 * Each waits only for earlier rounds or parts, so some member can always continue. */
bool kolo_rounds_need(const struct kolo_progress *progress, enum kolo_part part,
                      struct kolo_need *need_out);

#endif
