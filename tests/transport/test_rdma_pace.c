// SPDX-License-Identifier: Apache-2.0
// Simulates rails of known speed, event by event: how much each gets, and how long everything takes
// compared with the optimum.
#include <criterion/criterion.h>

#include "transport/rdma_pace.h"

enum { RAILS = 3, PIECE = KOLO_RDMA_PIECE_BYTES };

/** A rail that transfers one piece after the other. */
struct rail {
    struct kolo_rdma_pace pace;
    int64_t ns_per_piece, ends[KOLO_RDMA_PIECES_OUT];
    int out, taken;
};

static void give(struct rail *rail, int64_t now)
{
    int64_t begins = rail->out > 0 ? rail->ends[rail->out - 1] : now;
    cr_assert(rail->out < KOLO_RDMA_PIECES_OUT, "more pieces than there is room for");
    kolo_rdma_pace_posted(&rail->pace, PIECE, now);
    rail->ends[rail->out++] = begins + rail->ns_per_piece;
    rail->taken++;
}

/** Completes the next piece, and returns the time; 0: no piece is in flight. */
static int64_t go_on(struct rail *rails, int count)
{
    struct rail *next = NULL;
    for (int i = 0; i < count; i++)
        if (rails[i].out > 0 && (!next || rails[i].ends[0] < next->ends[0]))
            next = &rails[i];
    if (!next)
        return 0;
    int64_t now = next->ends[0];
    kolo_rdma_pace_over(&next->pace, PIECE, now);
    next->out--;
    for (int i = 0; i < next->out; i++)
        next->ends[i] = next->ends[i + 1];
    return now;
}

/** Transfers @p pieces pieces, and returns how long it took. */
static int64_t carry(struct rail *rails, int count, int pieces)
{
    struct kolo_rdma_pace *paces[RAILS];
    int64_t now = 1000000, begun = now, at;
    for (int i = 0; i < count; i++)
        paces[i] = &rails[i].pace;
    while (pieces > 0) {
        int chosen = kolo_rdma_pace_choose(paces, count, PIECE, (size_t)pieces * PIECE);
        if (chosen < 0) {
            now = go_on(rails, count);
            cr_assert(now != 0, "it waits for nothing");
            continue;
        }
        give(&rails[chosen], now);
        pieces--;
    }
    while ((at = go_on(rails, count)) != 0)
        now = at;
    return now - begun;
}

Test(rdma_pace, equal_rails_get_the_same)
{
    struct rail rails[RAILS] = {
        {.ns_per_piece = 7000}, {.ns_per_piece = 7000}, {.ns_per_piece = 7000}};
    int64_t took = carry(rails, RAILS, 300);
    for (int i = 0; i < RAILS; i++)
        cr_assert(rails[i].taken == 100, "rail %d: %d", i, rails[i].taken);
    cr_assert(took == 100 * 7000, "%lld", (long long)took);
}

/** Each rail gets as much as its rate allows, give or take one piece of the slowest. */
Test(rdma_pace, each_gets_by_its_rate_and_all_end_together)
{
    static const int64_t slow[] = {7000, 14000, 30000, 70000, 7000000};
    for (int i = 0; i < 5; i++) {
        struct rail rails[2] = {{.ns_per_piece = 7000}, {.ns_per_piece = slow[i]}};
        (void)carry(rails, 2, 64);
        int before = rails[1].taken;
        int64_t took = carry(rails, 2, 1000);
        double best = 1000 / (1 / 7000.0 + 1 / (double)slow[i]);
        cr_assert((double)took < best + 2.0 * 7000 + (double)((double)slow[i] < best ? slow[i] : 0),
                  "1 to %lld: %lld of %.0f ns", (long long)slow[i], (long long)took, best);
        int share = rails[1].taken - before;
        double fair = best / (double)slow[i];
        cr_assert(share <= fair + 1 && share >= fair - 2, "%d of %.1f", share, fair);
    }
}

Test(rdma_pace, a_rail_that_becomes_slow_gets_less)
{
    struct rail rails[2] = {{.ns_per_piece = 7000}, {.ns_per_piece = 7000}};
    (void)carry(rails, 2, 200);
    rails[1].ns_per_piece = 70000;
    (void)carry(rails, 2, 400);
    rails[0].taken = rails[1].taken = 0;
    (void)carry(rails, 2, 400);
    cr_assert(rails[1].taken < 50, "%d of 400", rails[1].taken);
    rails[1].ns_per_piece = 7000;
    (void)carry(rails, 2, 800);
    rails[0].taken = rails[1].taken = 0;
    (void)carry(rails, 2, 400);
    cr_assert(rails[1].taken > 150, "%d of 400", rails[1].taken);
}

Test(rdma_pace, one_alone_and_none)
{
    struct rail rail = {.ns_per_piece = 7000};
    struct kolo_rdma_pace *paces[RAILS] = {NULL, &rail.pace, NULL};
    cr_assert(kolo_rdma_pace_choose(paces, RAILS, PIECE, PIECE) == 1);
    paces[1] = NULL;
    cr_assert(kolo_rdma_pace_choose(paces, RAILS, PIECE, PIECE) == -1);
}
