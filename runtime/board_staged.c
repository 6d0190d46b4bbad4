// SPDX-License-Identifier: Apache-2.0
// The way for memory that the others cannot see: in each round every member passes on a chunk of
// each track. The three parts of a round (board_tracks.h) may run ahead of each other by as many
// rounds as there are slots. Counters say how far each member is; board_tracks.h says, and proves,
// what each part waits for. A part in which a member has no share is reported as complete at once.
// At the end of a collective the stages are free, since no member enters the next one before it has
// taken all that it needs.
#include <stddef.h>

#include "runtime/board_hub.h"

enum {
    SLOTS = 3,
    CELL_BYTES_MAX = 128 << 10,
    CELL_STREAM_BYTES = 8 << 10,
    IN_PARTS = 2,
    OUT_PARTS = 1 /* parts of the stage, if there are out-slots */
};

static size_t align_elements(const struct kolo_hub *hub)
{
    return hub->run.element_bytes < KOLO_BOARD_LINE ? KOLO_BOARD_LINE / hub->run.element_bytes : 1;
}

/** Keeps the tracks in which this member takes part. */
static void choose_tracks(struct kolo_hub *hub)
{
    struct kolo_board_rounds *rounds = &hub->rounds;
    const struct kolo_plan_args *args = &hub->run.request->args;
    size_t count = kolo_tracks_count(hub->run.collective, args);
    rounds->track_count = 0;
    rounds->copies_in = rounds->goes_out = rounds->copies_out = false;
    for (size_t i = 0; i < count; i++) {
        struct kolo_track track;
        kolo_tracks_at(hub->run.collective, args, i, align_elements(hub), &track);
        bool copies_in = kolo_track_copies_in(&track, hub->self);
        bool copies_out = kolo_track_copies_out(&track, hub->self);
        rounds->goes_out |= kolo_track_goes_out(&track);
        rounds->copies_in |= copies_in;
        rounds->copies_out |= copies_out;
        if (copies_in || copies_out || kolo_track_works(&track, hub->self))
            hub->tracks[rounds->track_count++] = track;
    }
}

/** Determines the sizes of cells and slots; the same on all members. */
static void cut_stage(struct kolo_hub *hub)
{
    struct kolo_board_rounds *rounds = &hub->rounds;
    const struct kolo_plan_args *args = &hub->run.request->args;
    size_t cells = kolo_tracks_cells(hub->run.collective, args);
    size_t longest = kolo_tracks_longest(hub->run.collective, args, align_elements(hub));
    size_t for_in = KOLO_BOARD_STAGED_BYTES;
    if (rounds->goes_out)
        for_in = for_in / (IN_PARTS + OUT_PARTS) * IN_PARTS;
    size_t cell = for_in / SLOTS / cells;
    if (cell > CELL_BYTES_MAX)
        cell = CELL_BYTES_MAX;
    _Static_assert(KOLO_BOARD_STAGED_BYTES / (IN_PARTS + OUT_PARTS) * IN_PARTS / SLOTS /
                           KOLO_BOARD_MEMBERS_MAX >=
                       KOLO_OPAQUE_BYTES_MAX + KOLO_BOARD_LINE,
                   "a cell holds an element of any type");
    rounds->cell_bytes = cell - cell % KOLO_BOARD_LINE;
    rounds->slots = SLOTS;
    rounds->in_bytes = rounds->cell_bytes * cells;
    rounds->chunk = rounds->cell_bytes / hub->run.element_bytes;
    rounds->count = longest / rounds->chunk + (longest % rounds->chunk != 0);
}

kolo_status kolo_staged_begin(struct kolo_hub *hub)
{
    struct kolo_board_rounds *rounds = &hub->rounds;
    struct kolo_board_notes *notes = hub->members[hub->self].notes;
    kolo_status status = kolo_board_reserve(hub->board, KOLO_BOARD_STAGE_BYTES);
    if (status != KOLO_OK)
        return status;
    rounds->base += rounds->count;
    choose_tracks(hub);
    cut_stage(hub);
    rounds->staged = rounds->worked = rounds->taken = 0;
    if (!rounds->copies_in) {
        rounds->staged = rounds->count;
        kolo_hub_publish(hub, &notes->staged, rounds->base + rounds->count);
    }
    if (!rounds->copies_out) {
        rounds->taken = rounds->count;
        kolo_hub_publish(hub, &notes->taken, rounds->base + rounds->count);
    }
    return KOLO_OK;
}

/* ---- one part of one round ---- */

/** The other members have read the previous contents of the cell, so ordinary stores must first
 * fetch each line back from their caches; on some machines that is slower than stores past the
 * caches. */
static enum kolo_store_how into_cell(const struct kolo_hub *hub, size_t bytes)
{
    return bytes >= CELL_STREAM_BYTES ? hub->run.cell_how : KOLO_STORE_CACHED;
}

bool kolo_staged_may_stream(const struct kolo_hub *hub)
{
    return kolo_tracks_longest(hub->run.collective, &hub->run.request->args, align_elements(hub)) >=
           CELL_STREAM_BYTES / hub->run.element_bytes;
}

static uint8_t *stage_of(const struct kolo_hub *hub, int member)
{
    return hub->members[member].stage + KOLO_BOARD_SHOWN_BYTES;
}

static uint8_t *in_cell(const struct kolo_hub *hub, int member, size_t round, size_t cell)
{
    const struct kolo_board_rounds *rounds = &hub->rounds;
    return stage_of(hub, member) + round % rounds->slots * rounds->in_bytes +
           cell * rounds->cell_bytes;
}

static uint8_t *out_cell(const struct kolo_hub *hub, int member, size_t round)
{
    const struct kolo_board_rounds *rounds = &hub->rounds;
    return stage_of(hub, member) + rounds->slots * rounds->in_bytes +
           round % rounds->slots * rounds->cell_bytes;
}

/** The chunk of @p track in @p round. False: the track has ended. */
static bool chunk_of(const struct kolo_hub *hub, const struct kolo_track *track, size_t round,
                     struct kolo_move *move_out)
{
    size_t at = round * hub->rounds.chunk;
    if (at >= track->move.count)
        return false;
    *move_out = track->move;
    move_out->send_at += at;
    move_out->recv_at += at;
    move_out->count -= at;
    if (move_out->count > hub->rounds.chunk)
        move_out->count = hub->rounds.chunk;
    return true;
}

static const uint8_t *send_of(const struct kolo_hub *hub, const struct kolo_move *move)
{
    return hub->run.request->send + move->send_at * hub->run.element_bytes;
}

static uint8_t *recv_of(const struct kolo_hub *hub, const struct kolo_move *move)
{
    return hub->run.request->recv + move->recv_at * hub->run.element_bytes;
}

static size_t copy_in(struct kolo_hub *hub, size_t round)
{
    size_t moved = 0;
    for (size_t i = 0; i < hub->rounds.track_count; i++) {
        const struct kolo_track *track = &hub->tracks[i];
        struct kolo_move move;
        if (!kolo_track_copies_in(track, hub->self) || !chunk_of(hub, track, round, &move))
            continue;
        size_t bytes = move.count * hub->run.element_bytes;
        kolo_copy(in_cell(hub, hub->self, round, track->cell), send_of(hub, &move), bytes,
                  into_cell(hub, bytes));
        moved += move.count;
    }
    return moved;
}

static void fold_track(struct kolo_hub *hub, const struct kolo_track *track,
                       const struct kolo_move *move, size_t round)
{
    const void *in[KOLO_BOARD_MEMBERS_MAX];
    size_t bytes = move->count * hub->run.element_bytes;
    bool goes_out = kolo_track_goes_out(track), is_wanted = kolo_track_wants(track, hub->self);
    void *cell = out_cell(hub, hub->self, round), *recv = is_wanted ? recv_of(hub, move) : NULL;
    void *both[2] = {cell, recv};
    for (int member = 0; member < hub->count; member++)
        in[member] = member == hub->self ? (const void *)send_of(hub, move)
                                         : in_cell(hub, member, round, track->cell);
    size_t n = (size_t)hub->count;
    enum kolo_store_how to_cell = into_cell(hub, bytes);
    if (!goes_out) {
        kolo_fold(&hub->run.fold, &recv, 1, in, n, move->count, hub->run.how);
    } else if (!is_wanted) {
        kolo_fold(&hub->run.fold, &cell, 1, in, n, move->count, to_cell);
    } else if (hub->run.how == to_cell) {
        kolo_fold(&hub->run.fold, both, 2, in, n, move->count, to_cell);
    } else {
        kolo_fold(&hub->run.fold, &recv, 1, in, n, move->count, hub->run.how);
        kolo_copy(cell, recv, bytes, to_cell);
    }
}

static size_t work(struct kolo_hub *hub, size_t round)
{
    size_t moved = 0;
    for (size_t i = 0; i < hub->rounds.track_count; i++) {
        const struct kolo_track *track = &hub->tracks[i];
        struct kolo_move move;
        if (!kolo_track_works(track, hub->self) || !chunk_of(hub, track, round, &move))
            continue;
        moved += move.count;
        if (track->owner >= 0) {
            fold_track(hub, track, &move, round);
            continue;
        }
        const uint8_t *from = move.from == hub->self ? send_of(hub, &move)
                                                     : in_cell(hub, move.from, round, track->cell);
        uint8_t *to = recv_of(hub, &move);
        if (from != to)
            kolo_copy(to, from, move.count * hub->run.element_bytes, hub->run.how);
    }
    return moved;
}

static size_t take_out(struct kolo_hub *hub, size_t round)
{
    size_t moved = 0;
    for (size_t i = 0; i < hub->rounds.track_count; i++) {
        const struct kolo_track *track = &hub->tracks[i];
        struct kolo_move move;
        if (!kolo_track_copies_out(track, hub->self) || !chunk_of(hub, track, round, &move))
            continue;
        kolo_copy(recv_of(hub, &move), out_cell(hub, track->owner, round),
                  move.count * hub->run.element_bytes, hub->run.how);
        moved += move.count;
    }
    return moved;
}

/* ---- the order of parts ---- */

/** Whether @p member has completed @p rounds rounds of the part whose counter is at @p offset. */
static bool is_far(const struct kolo_hub *hub, int member, size_t offset, size_t rounds)
{
    return member == hub->self || rounds == 0 ||
           kolo_hub_word(hub, member, offset) >= hub->rounds.base + rounds;
}

static bool are_far(const struct kolo_hub *hub, size_t offset, size_t rounds)
{
    for (int member = 0; member < hub->count; member++)
        if (!is_far(hub, member, offset, rounds))
            return false;
    return true;
}

static struct kolo_progress progress_of(const struct kolo_board_rounds *rounds)
{
    return (struct kolo_progress){.count = rounds->count,
                                  .slots = rounds->slots,
                                  .goes_out = rounds->goes_out,
                                  .staged = rounds->staged,
                                  .worked = rounds->worked,
                                  .taken = rounds->taken};
}

static bool is_met(const struct kolo_hub *hub, const struct kolo_need *need)
{
    return (need->staged == 0 ||
            are_far(hub, offsetof(struct kolo_board_notes, staged), need->staged)) &&
           (need->worked == 0 ||
            are_far(hub, offsetof(struct kolo_board_notes, worked), need->worked)) &&
           (need->taken == 0 ||
            are_far(hub, offsetof(struct kolo_board_notes, taken), need->taken));
}

static void tell(struct kolo_hub *hub, struct kolo_board_word *word, size_t rounds)
{
    kolo_hub_publish(hub, word, hub->rounds.base + rounds);
    hub->moves++;
}

/** Runs the next round of @p part, and adds the elements moved to *moved. */
static void run_part(struct kolo_hub *hub, enum kolo_part part, size_t *moved)
{
    struct kolo_board_rounds *rounds = &hub->rounds;
    struct kolo_board_notes *notes = hub->members[hub->self].notes;
    switch (part) {
    case KOLO_PART_WORK:
        *moved += work(hub, rounds->worked);
        tell(hub, &notes->worked, ++rounds->worked);
        break;
    case KOLO_PART_OUT:
        *moved += take_out(hub, rounds->taken);
        tell(hub, &notes->taken, ++rounds->taken);
        break;
    case KOLO_PART_IN:
        *moved += copy_in(hub, rounds->staged);
        tell(hub, &notes->staged, ++rounds->staged);
        break;
    case KOLO_PARTS:
        break;
    }
}

/** Runs what can be run. *moved: elements moved; false: nothing could be run. */
static bool go_on(struct kolo_hub *hub, size_t *moved)
{
    const struct kolo_progress progress = progress_of(&hub->rounds);
    struct kolo_need need;
    for (int part = 0; part < KOLO_PARTS; part++)
        if (kolo_rounds_need(&progress, (enum kolo_part)part, &need) && is_met(hub, &need)) {
            run_part(hub, (enum kolo_part)part, moved);
            return true;
        }
    return false;
}

enum kolo_board_step kolo_staged_step(struct kolo_hub *hub)
{
    const struct kolo_board_rounds *rounds = &hub->rounds;
    size_t moved = 0, most = KOLO_BOARD_TURN_BYTES / hub->run.element_bytes;
    bool has_moved = false;
    while (rounds->worked < rounds->count || rounds->taken < rounds->count ||
           rounds->staged < rounds->count) {
        if (!go_on(hub, &moved))
            return has_moved ? KOLO_BOARD_MOVED : KOLO_BOARD_STUCK;
        has_moved = true;
        if (moved >= most)
            return KOLO_BOARD_MOVED;
    }
    return KOLO_BOARD_DONE;
}

bool kolo_staged_waits_for(const struct kolo_hub *hub, int member)
{
    const struct kolo_progress progress = progress_of(&hub->rounds);
    struct kolo_need need;
    for (int part = 0; part < KOLO_PARTS; part++)
        if (kolo_rounds_need(&progress, (enum kolo_part)part, &need) &&
            !(is_far(hub, member, offsetof(struct kolo_board_notes, staged), need.staged) &&
              is_far(hub, member, offsetof(struct kolo_board_notes, worked), need.worked) &&
              is_far(hub, member, offsetof(struct kolo_board_notes, taken), need.taken)))
            return true;
    return false;
}
