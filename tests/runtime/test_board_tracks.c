// SPDX-License-Identifier: Apache-2.0
// Rounds through the stages. A model check: in every state that any order of steps can reach, for
// small numbers of members, rounds and slots, no slot is written while another member may read it,
// and some member can go on. A simulation: along random orders of steps, for every collective,
// tracks and rounds produce each element once, from the right inputs, which are there when they are
// read.
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/board_tracks.h"

enum { MEMBERS_MAX = 6 };

struct team {
    int size;
    struct kolo_progress members[MEMBERS_MAX];
};

static size_t *part_of(struct kolo_progress *progress, enum kolo_part part)
{
    return part == KOLO_PART_WORK  ? &progress->worked
           : part == KOLO_PART_OUT ? &progress->taken
                                   : &progress->staged;
}

/** Whether @p member may begin the next round of @p part, or is already in it. */
static bool is_enabled(const struct team *team, int member, enum kolo_part part)
{
    struct kolo_need need;
    if (!kolo_rounds_need(&team->members[member], part, &need))
        return false;
    for (int other = 0; other < team->size; other++) {
        const struct kolo_progress *p = &team->members[other];
        if (other != member &&
            (p->staged < need.staged || p->worked < need.worked || p->taken < need.taken))
            return false;
    }
    return true;
}

static bool is_over(const struct team *team)
{
    for (int member = 0; member < team->size; member++) {
        const struct kolo_progress *p = &team->members[member];
        if (p->staged < p->count || p->worked < p->count || p->taken < p->count)
            return false;
    }
    return true;
}

/* ---- every state ---- */

struct world {
    struct team team;
    size_t slots; /* slots that exist; the rules get team.members[].slots */
    bool copies_in[MEMBERS_MAX], copies_out[MEMBERS_MAX];
    unsigned char *seen;
    size_t states;
};

/** Whether round @p round is readable in slots of which @p writer has written @p written rounds,
 * and is not about to be overwritten. */
static bool is_safe(const struct world *world, int writer, enum kolo_part part, size_t written,
                    size_t round)
{
    if (written <= round || written > round + world->slots)
        return false;
    return written < round + world->slots || !is_enabled(&world->team, writer, part);
}

/** NULL, or what is wrong with this state. */
static const char *objection(const struct world *world)
{
    const struct team *team = &world->team;
    bool can_go_on = is_over(team);
    for (int member = 0; member < team->size; member++) {
        const struct kolo_progress *p = &team->members[member];
        bool works = is_enabled(team, member, KOLO_PART_WORK);
        bool takes = is_enabled(team, member, KOLO_PART_OUT);
        can_go_on |= works || takes || is_enabled(team, member, KOLO_PART_IN);
        for (int other = 0; other < team->size; other++) {
            const struct kolo_progress *q = &team->members[other];
            if (other == member)
                continue;
            if (works && world->copies_in[other] &&
                !is_safe(world, other, KOLO_PART_IN, q->staged, p->worked))
                return "an in-slot is read that is not there, or may be written";
            if (takes && !is_safe(world, other, KOLO_PART_WORK, q->worked, p->taken))
                return "an out-slot is read that is not there, or may be written";
        }
    }
    return can_go_on ? NULL : "nobody can go on";
}

static size_t number_of(const struct team *team)
{
    size_t number = 0;
    for (int member = 0; member < team->size; member++) {
        const struct kolo_progress *p = &team->members[member];
        number =
            ((number * (p->count + 1) + p->staged) * (p->count + 1) + p->worked) * (p->count + 1) +
            p->taken;
    }
    return number;
}

static const char *explore(struct world *world)
{
    unsigned char *seen = &world->seen[number_of(&world->team)];
    const char *wrong = NULL;
    if (*seen)
        return NULL;
    *seen = 1;
    world->states++;
    wrong = objection(world);
    for (int member = 0; member < world->team.size && !wrong; member++)
        for (int part = 0; part < KOLO_PARTS && !wrong; part++) {
            if (!is_enabled(&world->team, member, (enum kolo_part)part))
                continue;
            size_t *at = part_of(&world->team.members[member], (enum kolo_part)part);
            ++*at;
            wrong = explore(world);
            --*at;
        }
    return wrong;
}

/** @p roles has a bit for each member that copies in, then one for each that copies out. */
static const char *explore_all(int size, size_t count, size_t slots, size_t told, unsigned roles,
                               size_t *states_out)
{
    struct world world = {.team = {.size = size}, .slots = slots};
    size_t states = 1;
    for (int member = 0; member < size; member++) {
        world.copies_in[member] = roles >> member & 1;
        world.copies_out[member] = roles >> (size + member) & 1;
        states *= (count + 1) * (count + 1) * (count + 1);
        world.team.members[member] =
            (struct kolo_progress){.count = count,
                                   .slots = told,
                                   .goes_out = roles >> size != 0,
                                   .staged = world.copies_in[member] ? 0 : count,
                                   .taken = world.copies_out[member] ? 0 : count};
    }
    world.seen = calloc(states, 1);
    const char *wrong = explore(&world);
    free(world.seen);
    *states_out += world.states;
    return wrong;
}

Test(board_tracks, no_slot_is_written_while_it_may_be_read, .timeout = 100)
{
    size_t states = 0;
    for (int size = 1; size <= 3; size++)
        for (size_t slots = 1; slots <= 3; slots++)
            for (unsigned roles = 0; roles < 1u << (2 * size); roles++) {
                size_t count = size == 3 ? 3 : 2 * slots + 1;
                const char *wrong = explore_all(size, count, slots, slots, roles, &states);
                cr_assert(wrong == NULL, "%d members, %zu slots, roles %x: %s", size, slots, roles,
                          wrong);
            }
    cr_assert(states > 10000, "%zu states", states);
}

/** Rules that assume one slot more than there is must be found to be wrong. */
Test(board_tracks, finds_a_slot_too_few)
{
    size_t states = 0;
    for (size_t slots = 1; slots <= 3; slots++) {
        cr_assert(explore_all(2, 6, slots, slots + 1, 0x3, &states) != NULL, "in-slots");
        cr_assert(explore_all(2, 6, slots, slots + 1, 0xf, &states) != NULL, "out-slots too");
    }
}

/* ---- what is moved ---- */

enum { ELEMENTS_MAX = 512, SLOTS_MAX = 3, CHUNK_MAX = 16, NOTHING = -2 };

/** Element `at` of the SEND of rank `from`; KOLO_EVERY: the fold over all ranks. */
struct value {
    int from;
    size_t at;
};

static struct value in_cells[MEMBERS_MAX][SLOTS_MAX][MEMBERS_MAX][CHUNK_MAX];
static struct value out_cells[MEMBERS_MAX][SLOTS_MAX][CHUNK_MAX];
static struct value results[MEMBERS_MAX][ELEMENTS_MAX];

struct staging {
    enum kolo_collective collective;
    struct kolo_plan_args args;
    size_t align, chunk, slots;
    bool is_wrong; /* a wrong value was read, or an element was written twice */
};

/** The part of @p track that may proceed in @p round; false: none. */
static bool chunk_of(const struct staging *staging, const struct kolo_track *track, size_t round,
                     struct kolo_move *move_out)
{
    size_t at = round * staging->chunk;
    *move_out = track->move;
    if (at >= track->move.count)
        return false;
    move_out->send_at += at;
    move_out->recv_at += at;
    move_out->count -= at;
    if (move_out->count > staging->chunk)
        move_out->count = staging->chunk;
    return true;
}

static void give(struct staging *staging, int member, size_t at, struct value value)
{
    staging->is_wrong |= results[member][at].from != NOTHING;
    results[member][at] = value;
}

static void expect(struct staging *staging, const struct value *found, int from, size_t at)
{
    staging->is_wrong |= found->from != from || found->at != at;
}

static void work_track(struct staging *staging, int self, const struct kolo_track *track,
                       const struct kolo_move *move, size_t slot)
{
    bool folds = move->from == KOLO_EVERY;
    for (size_t i = 0; i < move->count; i++) {
        size_t at = move->send_at + i;
        for (int member = 0; member < staging->args.size; member++)
            if (member != self && (folds || member == move->from))
                expect(staging, &in_cells[member][slot][track->cell][i], member, at);
        struct value value = {folds ? KOLO_EVERY : move->from, at};
        if (kolo_track_goes_out(track))
            out_cells[self][slot][i] = value;
        if (kolo_track_wants(track, self))
            give(staging, self, move->recv_at + i, value);
    }
}

static void play(struct staging *staging, int self, enum kolo_part part, size_t round)
{
    size_t count = kolo_tracks_count(staging->collective, &staging->args);
    size_t slot = round % staging->slots;
    for (size_t t = 0; t < count; t++) {
        struct kolo_track track;
        struct kolo_move move;
        kolo_tracks_at(staging->collective, &staging->args, t, staging->align, &track);
        if (!chunk_of(staging, &track, round, &move))
            continue;
        if (part == KOLO_PART_WORK && kolo_track_works(&track, self))
            work_track(staging, self, &track, &move, slot);
        for (size_t i = 0; i < move.count; i++) {
            size_t at = move.send_at + i;
            if (part == KOLO_PART_IN && kolo_track_copies_in(&track, self))
                in_cells[self][slot][track.cell][i] = (struct value){self, at};
            if (part != KOLO_PART_OUT || !kolo_track_copies_out(&track, self))
                continue;
            expect(staging, &out_cells[track.owner][slot][i], KOLO_EVERY, at);
            give(staging, self, move.recv_at + i, (struct value){KOLO_EVERY, at});
        }
    }
}

static struct team gather_team(const struct staging *staging)
{
    struct team team = {.size = staging->args.size};
    size_t tracks = kolo_tracks_count(staging->collective, &staging->args);
    size_t longest = kolo_tracks_longest(staging->collective, &staging->args, staging->align);
    size_t count = (longest + staging->chunk - 1) / staging->chunk;
    for (int member = 0; member < team.size; member++) {
        struct kolo_progress progress = {
            .count = count, .slots = staging->slots, .staged = count, .taken = count};
        for (size_t t = 0; t < tracks; t++) {
            struct kolo_track track;
            kolo_tracks_at(staging->collective, &staging->args, t, staging->align, &track);
            progress.goes_out |= kolo_track_goes_out(&track);
            progress.staged = kolo_track_copies_in(&track, member) ? 0 : progress.staged;
            progress.taken = kolo_track_copies_out(&track, member) ? 0 : progress.taken;
        }
        team.members[member] = progress;
    }
    return team;
}

/** Runs it, with a member drawn at random for each step. False: it is stuck, or something was
 * wrong. */
static bool run(struct staging *staging, unsigned seed)
{
    struct team team = gather_team(staging);
    for (size_t idle = 0; !is_over(&team) && idle < 10000; idle++) {
        seed = seed * 1103515245u + 12345;
        int member = (int)(seed >> 16) % team.size;
        enum kolo_part part = (enum kolo_part)((seed >> 8) % KOLO_PARTS);
        if (!is_enabled(&team, member, part))
            continue;
        size_t *at = part_of(&team.members[member], part);
        play(staging, member, part, *at);
        ++*at;
        idle = 0;
    }
    return is_over(&team) && !staging->is_wrong;
}

/** RECV of all members is exactly what the moves say, which test_board_moves.c proves right. */
static bool is_right(const struct staging *staging)
{
    size_t moves = kolo_moves_count(staging->collective, &staging->args);
    for (size_t m = 0; m < moves; m++) {
        struct kolo_move move;
        kolo_moves_at(staging->collective, &staging->args, m, &move);
        for (int member = 0; member < staging->args.size; member++)
            for (size_t i = 0; i < move.count; i++) {
                struct value *value = &results[member][move.recv_at + i];
                if (move.to != KOLO_EVERY && move.to != member)
                    continue;
                if (value->from != move.from || value->at != move.send_at + i)
                    return false;
                value->from = NOTHING;
            }
    }
    for (int member = 0; member < staging->args.size; member++)
        for (size_t i = 0; i < ELEMENTS_MAX; i++)
            if (results[member][i].from != NOTHING)
                return false;
    return true;
}

static void clear(void)
{
    const struct value nothing = {NOTHING, 0};
    for (int member = 0; member < MEMBERS_MAX; member++)
        for (size_t i = 0; i < ELEMENTS_MAX; i++)
            results[member][i] = nothing;
    memset(in_cells, 0xff, sizeof in_cells);
    memset(out_cells, 0xff, sizeof out_cells);
}

Test(board_tracks, every_element_once_from_what_is_there, .timeout = 100)
{
    size_t runs = 0;
    for (int collective = 0; collective < KOLO_COLLECTIVES; collective++)
        for (unsigned seed = 0; seed < 2000; seed++) {
            int size = 1 + (int)(seed % MEMBERS_MAX);
            struct staging staging = {.collective = (enum kolo_collective)collective,
                                      .args = {.size = size,
                                               .root = (int)(seed / 7) % size,
                                               .count = seed * 5 % 61,
                                               .segment = 1},
                                      .align = seed % 2 == 0 ? 1 : 4,
                                      .chunk = 1 + seed / 3 % CHUNK_MAX,
                                      .slots = 1 + seed % SLOTS_MAX};
            if (kolo_moves_fit(staging.collective, &staging.args) ||
                collective == KOLO_COLLECTIVE_BARRIER)
                continue;
            clear();
            bool is_fine = run(&staging, seed) && is_right(&staging);
            cr_assert(is_fine, "%s, %d members, root %d, count %zu, chunks of %zu, %zu slots",
                      kolo_collective_text(staging.collective), size, staging.args.root,
                      staging.args.count, staging.chunk, staging.slots);
            runs++;
        }
    cr_assert(runs > 10000, "%zu runs", runs);
}
