// SPDX-License-Identifier: Apache-2.0
// A collective whose buffers the others cannot see, as tracks: moves whose data goes through the
// members' stages, a chunk of each track in a round. Pure functions, as board_moves.h.
//
//   copy in     whoever holds an input that another member needs copies its chunk into a cell of
//               its own in-slot
//   work        the track's owner folds its own input and the others' cells; a track from one
//               member has no owner: whoever wants it copies it out of the sender's cell
//   copy out    the result of a fold that others want lies in the owner's out-slot, of one cell
//
// All three cut the vector at the same places, so a cell is found by who, which and how far.
#ifndef KOLO_RUNTIME_BOARD_TRACKS_H
#define KOLO_RUNTIME_BOARD_TRACKS_H

#include "runtime/board_moves.h"

struct kolo_track {
    struct kolo_move move;
    int owner;   /* who folds it; -1: it comes from one member */
    size_t cell; /* of the in-slot of each who copies it in */
};

size_t kolo_tracks_count(enum kolo_collective collective, const struct kolo_plan_args *args);
/** @p align: as in kolo_share_begin. */
void kolo_tracks_at(enum kolo_collective collective, const struct kolo_plan_args *args,
                    size_t index, size_t align, struct kolo_track *track_out);
/** Cells in an in-slot, the same on all members. */
size_t kolo_tracks_cells(enum kolo_collective collective, const struct kolo_plan_args *args);
/** Elements of the longest track. */
size_t kolo_tracks_longest(enum kolo_collective collective, const struct kolo_plan_args *args,
                           size_t align);

/** What @p member does for @p track. */
bool kolo_track_copies_in(const struct kolo_track *track, int member);
/** Folds it; or, of a track from one member, copies it into its RECV (from its own SEND, or out of
 * a cell). */
bool kolo_track_works(const struct kolo_track *track, int member);
bool kolo_track_wants(const struct kolo_track *track, int member);
/** Whether the fold's result goes through the owner's out-slot to others. */
bool kolo_track_goes_out(const struct kolo_track *track);
/** Takes it from the owner's out-slot. */
bool kolo_track_copies_out(const struct kolo_track *track, int member);

/* ---- the order of rounds ---- */

/** The parts of a round, the one that others wait for most first. */
enum kolo_part { KOLO_PART_WORK, KOLO_PART_OUT, KOLO_PART_IN, KOLO_PARTS };

/** How far a member is: rounds it has copied in, worked and copied out. A part that it has no share
 * in counts as over from the beginning. */
struct kolo_progress {
    size_t count, slots; /* rounds of the collective; slots of each kind, > 0 */
    bool goes_out;       /* there are out-slots */
    size_t staged, worked, taken;
};

/** How far all others must be; 0: no matter. */
struct kolo_need {
    size_t staged, worked, taken;
};

/** Whether a member that is so far may go on with @p part as soon as *need_out is met by all
 * others. Round r is
 *   copied in    once all have worked round r - slots: nobody reads that in-slot any more
 *   worked       once all have copied in round r, and taken round r - slots out of out-slots
 *   copied out   once all have worked round r
 * Each waits for earlier rounds or parts alone, so somebody can always go on. */
bool kolo_rounds_need(const struct kolo_progress *progress, enum kolo_part part,
                      struct kolo_need *need_out);

#endif
