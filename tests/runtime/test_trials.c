// SPDX-License-Identifier: Apache-2.0
// runtime/trials.c: what is found out, and how often it is asked.
#include <criterion/criterion.h>

#include <string.h>

#include "runtime/trials.h"

enum { ROUND_MOST = KOLO_TRIALS_TIMES * KOLO_TRIALS_WAYS, ALL = (1 << KOLO_TRIALS_WAYS) - 1 };

/** Uses @p trials @p uses times; what each way takes stands in @p took. How often each was taken comes
 * in taken_out, and how often a use was measured is returned. */
static int use(struct kolo_trials *trials, unsigned open, const double *took, int uses,
               int taken_out[KOLO_TRIALS_WAYS])
{
    int measured = 0;
    memset(taken_out, 0, KOLO_TRIALS_WAYS * sizeof(*taken_out));
    for (int i = 0; i < uses; i++) {
        bool is_measured;
        const int way = kolo_trials_take(trials, open, &is_measured);
        cr_assert((open >> way & 1) != 0, "way %d of %#x", way, open);
        taken_out[way]++;
        measured += is_measured;
        if (is_measured)
            kolo_trials_note(trials, way, took[way]);
    }
    return measured;
}

Test(trials, the_fastest_is_found_and_kept)
{
    for (int best = 0; best < KOLO_TRIALS_WAYS; best++) {
        struct kolo_trials trials = {0};
        double took[KOLO_TRIALS_WAYS] = {1.2, 1.3, 1.1, 1.4, 1.2};
        int taken[KOLO_TRIALS_WAYS];
        took[best] = 1;
        int measured = use(&trials, ALL, took, ROUND_MOST + 16, taken);
        cr_assert_eq(measured, ROUND_MOST, "each three times, then none: %d", measured);
        cr_assert_eq(taken[best], 3 + 16, "way %d: %d", best, taken[best]);
    }
}

Test(trials, a_slow_way_is_taken_twice_a_round)
{
    struct kolo_trials trials = {0};
    const double took[KOLO_TRIALS_WAYS] = {6, 1, 1.6, 1.4, 9};
    int taken[KOLO_TRIALS_WAYS];
    cr_assert_eq(use(&trials, ALL, took, 24, taken), 3 + 3 + 2 + 3 + 2);
    cr_assert(taken[0] == 3 && taken[1] == 3 + 11 && taken[2] == 2 && taken[3] == 3 &&
                  taken[4] == 2,
              "%d %d %d %d", taken[0], taken[2], taken[3], taken[4]);
}

Test(trials, rounds_become_rare)
{
    struct kolo_trials trials = {0};
    const double took[KOLO_TRIALS_WAYS] = {1, 2};
    enum { USES = 1 << 20 };
    int taken[KOLO_TRIALS_WAYS];
    int measured = use(&trials, 3, took, USES, taken);
    const int rounds = USES / 4096;
    cr_assert(measured >= 5 * rounds && measured <= 5 * (rounds + 4), "%d", measured);
    cr_assert(taken[1] <= 2 * (rounds + 4), "%d", taken[1]);
}

Test(trials, a_machine_that_changes_is_noticed)
{
    struct kolo_trials trials = {0};
    const double before[KOLO_TRIALS_WAYS] = {1, 2}, after[KOLO_TRIALS_WAYS] = {3, 2};
    int taken[KOLO_TRIALS_WAYS];
    use(&trials, 3, before, 100000, taken);
    use(&trials, 3, after, 100000, taken);
    cr_assert(taken[0] < 4096 + 100, "%d", taken[0]);
}

Test(trials, what_disturbs_one_use_does_not_count)
{
    const double took[2][KOLO_TRIALS_TIMES] = {{1.4, 0.1, 1.4}, {1, 100, 1}};
    struct kolo_trials trials = {0};
    int taken[2] = {0};
    for (int i = 0; i < 2 * KOLO_TRIALS_TIMES + 1; i++) {
        bool is_measured;
        const int way = kolo_trials_take(&trials, 3, &is_measured);
        if (is_measured)
            kolo_trials_note(&trials, way, took[way][taken[way]++]);
    }
    cr_assert(taken[0] == KOLO_TRIALS_TIMES && taken[1] == KOLO_TRIALS_TIMES);
    cr_assert_eq(trials.best, 1, "neither the least, nor the most, nor the mean");
}

Test(trials, a_way_that_closes_is_left)
{
    struct kolo_trials trials = {0};
    const double took[KOLO_TRIALS_WAYS] = {3, 2, 4, 4, 1};
    int taken[KOLO_TRIALS_WAYS];
    use(&trials, ALL, took, 20, taken);
    cr_assert(trials.best == 4 && trials.left > 0, "between two rounds");
    cr_assert_gt(use(&trials, ALL & ~(1 << 4), took, 30, taken), 0, "it is found out anew");
    cr_assert_eq(trials.best, 1);
    cr_assert_eq(use(&trials, 1, took, 30, taken), 0, "of one way nothing is");
}

Test(trials, what_others_found_out_stands_for_the_first_round)
{
    struct kolo_trials trials = {0}, other = {0};
    const double took[KOLO_TRIALS_WAYS] = {3, 1, 2}, then[KOLO_TRIALS_WAYS] = {1, 3, 2};
    int taken[KOLO_TRIALS_WAYS];
    cr_assert(kolo_trials_is_new(&trials) && !kolo_trials_adopt(&trials, &other));
    use(&other, 7, took, 20, taken);
    cr_assert(kolo_trials_is_new(&trials) && kolo_trials_adopt(&trials, &other));
    cr_assert(!kolo_trials_is_new(&trials));
    cr_assert_eq(use(&trials, 7, then, 16, taken), 0);
    cr_assert_eq(taken[1], 16);
    use(&trials, 7, then, 20, taken);
    cr_assert_eq(trials.best, 0, "and then it finds out itself");
}

Test(trials, they_are_not_new_within_their_first_round)
{
    struct kolo_trials trials = {0};
    const double took[KOLO_TRIALS_WAYS] = {1, 1, 1, 1, 1};
    int taken[KOLO_TRIALS_WAYS];
    use(&trials, 12, took, 2, taken); /* the first way is not open */
    cr_assert(!kolo_trials_is_new(&trials));
}

Test(trials, nobody_told_anything_and_one_is_taken)
{
    struct kolo_trials trials = {0};
    for (int i = 0; i < 1000; i++) {
        bool is_measured;
        const int way = kolo_trials_take(&trials, 6, &is_measured);
        cr_assert(way == 1 || way == 2);
    }
}
