// SPDX-License-Identifier: Apache-2.0
// Moves as tracks through the members' stages: for a fold that all share, one track per member;
// otherwise one per move. Also computes what each part of a round waits for.
#include "runtime/board_tracks.h"

/** Whether the collective is one fold of the whole vector, which is cut among the members. */
static bool is_shared_fold(enum kolo_collective collective)
{
    return collective == KOLO_COLLECTIVE_ALLREDUCE || collective == KOLO_COLLECTIVE_REDUCE;
}

size_t kolo_tracks_count(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    return is_shared_fold(collective) ? (size_t)args->size : kolo_moves_count(collective, args);
}

size_t kolo_tracks_cells(enum kolo_collective collective, const struct kolo_plan_args *args)
{
    bool differs_by_receiver =
        is_shared_fold(collective) || collective == KOLO_COLLECTIVE_REDUCE_SCATTER ||
        collective == KOLO_COLLECTIVE_SCATTER || collective == KOLO_COLLECTIVE_ALLTOALL;
    return differs_by_receiver ? (size_t)args->size : 1;
}

void kolo_tracks_at(enum kolo_collective collective, const struct kolo_plan_args *args,
                    size_t index, size_t align, struct kolo_track *track_out)
{
    struct kolo_track track = {.owner = -1};
    if (is_shared_fold(collective)) {
        struct kolo_share share;
        kolo_share_begin(collective, args, (int)index, args->size, align, &share);
        if (!kolo_share_next(&share, SIZE_MAX, &track.move))
            kolo_moves_at(collective, args, 0, &track.move), track.move.count = 0;
        track.owner = (int)index;
    } else {
        kolo_moves_at(collective, args, index, &track.move);
        if (track.move.from == KOLO_EVERY)
            track.owner = track.move.to;
    }
    if (kolo_tracks_cells(collective, args) > 1)
        track.cell = track.owner >= 0 ? (size_t)track.owner : (size_t)track.move.to;
    *track_out = track;
}

size_t kolo_tracks_longest(enum kolo_collective collective, const struct kolo_plan_args *args,
                           size_t align)
{
    size_t longest = 0, count = kolo_tracks_count(collective, args);
    for (size_t i = 0; i < count; i++) {
        struct kolo_track track;
        kolo_tracks_at(collective, args, i, align, &track);
        if (track.move.count > longest)
            longest = track.move.count;
    }
    return longest;
}

bool kolo_track_wants(const struct kolo_track *track, int member)
{
    return track->move.to == KOLO_EVERY || track->move.to == member;
}

bool kolo_track_copies_in(const struct kolo_track *track, int member)
{
    if (track->owner >= 0)
        return track->owner != member;
    return track->move.from == member && track->move.to != member;
}

bool kolo_track_works(const struct kolo_track *track, int member)
{
    return track->owner >= 0 ? track->owner == member : kolo_track_wants(track, member);
}

bool kolo_track_goes_out(const struct kolo_track *track)
{
    return track->owner >= 0 && track->move.to != track->owner;
}

bool kolo_track_copies_out(const struct kolo_track *track, int member)
{
    return kolo_track_goes_out(track) && track->owner != member && kolo_track_wants(track, member);
}

/* ---- the order of rounds ---- */

/** The round that readers of the slot must have completed before it may be written in @p round. */
static size_t back(size_t round, size_t slots)
{
    return round >= slots ? round - slots + 1 : 0;
}

bool kolo_rounds_need(const struct kolo_progress *progress, enum kolo_part part,
                      struct kolo_need *need_out)
{
    const struct kolo_progress *p = progress;
    struct kolo_need need = {0, 0, 0};
    bool may_go_on = false;
    switch (part) {
    case KOLO_PART_WORK:
        may_go_on = p->worked < p->count && p->worked < p->staged;
        need.staged = p->worked + 1;
        need.taken = p->goes_out ? back(p->worked, p->slots) : 0;
        break;
    case KOLO_PART_OUT:
        may_go_on = p->taken < p->worked;
        need.worked = p->taken + 1;
        break;
    case KOLO_PART_IN:
        may_go_on = p->staged < p->count && p->staged < p->worked + p->slots;
        need.worked = back(p->staged, p->slots);
        break;
    case KOLO_PARTS:
        break;
    }
    *need_out = need;
    return may_go_on;
}
