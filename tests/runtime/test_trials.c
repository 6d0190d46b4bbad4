// SPDX-License-Identifier: Apache-2.0
// runtime/trials.c: what the trials find out, and how often they are repeated.
#include <criterion/criterion.h>

#include <string.h>

#include "runtime/trials.h"

/* PAUSE: the number of uses after the first round */
enum {
    PAUSE = 64,
    ROUND_MOST = KOLO_TRIALS_TIMES * KOLO_TRIALS_WAYS,
    ALL = (1 << KOLO_TRIALS_WAYS) - 1
};

/** Uses @p trials @p uses times; a use takes as long as @p took says for its way. taken_out gets
 * how often each way was taken. Returns how many uses were measured. */
static int use(struct kolo_trials *trials, unsigned open, const double *took, int uses,
               int taken_out[KOLO_TRIALS_WAYS])
{
    int measured = 0;
    memset(taken_out, 0, KOLO_TRIALS_WAYS * sizeof *taken_out);
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

/** The way of the next use, between two rounds. */
static int next(struct kolo_trials *trials, unsigned open)
{
    const double took[KOLO_TRIALS_WAYS] = {0};
    int taken[KOLO_TRIALS_WAYS], way = 0;
    cr_assert_eq(use(trials, open, took, 1, taken), 0, "it is measured");
    while (taken[way] == 0)
        way++;
    return way;
}

/** The way that is used after a round, when uses are no longer measured. */
static int found(struct kolo_trials *trials, unsigned open)
{
    bool is_measured = true;
    int way = -1;
    for (int uses = 0; is_measured && uses <= 2 * KOLO_TRIALS_TIMES_MOST; uses++)
        way = kolo_trials_take(trials, open, &is_measured);
    cr_assert(!is_measured, "its round does not end");
    return way;
}

Test(trials, the_fastest_is_found_and_kept)
{
    for (int best = 0; best < KOLO_TRIALS_WAYS; best++) {
        struct kolo_trials trials = {0};
        double took[KOLO_TRIALS_WAYS] = {1.2, 1.3, 1.1, 1.4, 1.2, 1.3};
        int taken[KOLO_TRIALS_WAYS];
        took[best] = 1;
        int measured = use(&trials, ALL, took, ROUND_MOST + PAUSE, taken);
        cr_assert_eq(measured, ROUND_MOST, "each four times, then none: %d", measured);
        cr_assert_eq(taken[best], KOLO_TRIALS_TIMES + PAUSE, "way %d: %d", best, taken[best]);
    }
}

Test(trials, a_slow_way_is_taken_twice_a_round)
{
    struct kolo_trials trials = {0};
    const double took[KOLO_TRIALS_WAYS] = {6, 1, 1.6, 1.4, 9, 1.2};
    int taken[KOLO_TRIALS_WAYS];
    cr_assert_eq(use(&trials, ALL, took, 28, taken), 4 + 4 + 2 + 4 + 2 + 4);
    cr_assert(taken[0] == 4 && taken[1] == 4 + 8 && taken[2] == 2 && taken[3] == 4 && taken[4] == 2,
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
    cr_assert(measured >= 6 * rounds && measured <= 6 * (rounds + 4), "%d", measured);
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
    const double took[2][KOLO_TRIALS_TIMES] = {{1.4, 0.1, 1.4, 1.4}, {1, 100, 1, 1}};
    struct kolo_trials trials = {0};
    int taken[2] = {0};
    for (int i = 0; i < 2 * KOLO_TRIALS_TIMES; i++) {
        bool is_measured;
        const int way = kolo_trials_take(&trials, 3, &is_measured);
        if (is_measured)
            kolo_trials_note(&trials, way, took[way][taken[way]++]);
    }
    cr_assert(taken[0] == KOLO_TRIALS_TIMES && taken[1] == KOLO_TRIALS_TIMES);
    cr_assert_eq(next(&trials, 3), 1, "neither the least, nor the most, nor the mean");
}

/** Two kinds of use alternate, one of which takes three times as long: neither way may be judged by
 * that. */
Test(trials, uses_of_two_kinds_in_turn_mislead_nobody)
{
    for (int best = 0; best < 3; best++)
        for (int phase = 0; phase < 2; phase++) {
            struct kolo_trials trials = {0};
            double took[KOLO_TRIALS_WAYS] = {1.4, 1.4, 1.4};
            took[best] = 1;
            for (int i = 0; i < 10000; i++) {
                bool is_measured;
                const int way = kolo_trials_take(&trials, 7, &is_measured);
                if (is_measured)
                    kolo_trials_note(&trials, way, took[way] * ((i + phase) % 2 == 0 ? 1 : 3));
                cr_assert(is_measured || way == best, "use %d, phase %d: %d, not %d", i, phase, way,
                          best);
            }
        }
}

/** A way that fills the caches becomes faster with each use: it is not judged by its first uses. */
Test(trials, a_way_that_becomes_faster_is_waited_for)
{
    struct kolo_trials trials = {0};
    int taken[2] = {0};
    for (int i = 0; i < 100; i++) {
        bool is_measured;
        const int way = kolo_trials_take(&trials, 3, &is_measured);
        const double cold = taken[0] < 8 ? 1.8 - 0.1 * taken[0] : 0.95;
        if (!is_measured)
            break;
        kolo_trials_note(&trials, way, way == 0 ? cold : 1);
        taken[way]++;
    }
    cr_assert(taken[0] == 16 && taken[1] == KOLO_TRIALS_TIMES, "%d, %d", taken[0], taken[1]);
    cr_assert_eq(next(&trials, 3), 0);
}

/** The same in steps, so that some pairs do not get faster, and with one disturbed use in four. */
Test(trials, a_way_that_becomes_faster_slowly_is_waited_for)
{
    struct kolo_trials trials = {0};
    int taken[2] = {0};
    for (int i = 0; i < 100; i++) {
        bool is_measured;
        const int way = kolo_trials_take(&trials, 3, &is_measured);
        const int step = taken[0] / 4;
        const double cold = step < 6 ? 1.5 - 0.1 * step : 0.9;
        if (!is_measured)
            break;
        if (way == 0)
            kolo_trials_note(&trials, way, taken[0] % 4 == 2 ? 5 : cold - 0.05 * (taken[0] % 4));
        else
            kolo_trials_note(&trials, way, 1);
        taken[way]++;
    }
    cr_assert(taken[0] == 32 && taken[1] == KOLO_TRIALS_TIMES, "%d, %d", taken[0], taken[1]);
    cr_assert_eq(next(&trials, 3), 0);
}

Test(trials, one_that_never_comes_to_rest_is_not_waited_for)
{
    struct kolo_trials trials = {0};
    double took = 1;
    int uses = 0;
    for (bool is_measured = true; is_measured; uses++) {
        const int way = kolo_trials_take(&trials, 3, &is_measured);
        if (is_measured)
            kolo_trials_note(&trials, way, took *= 0.9);
    }
    cr_assert_eq(uses, 2 * KOLO_TRIALS_TIMES_MOST + 1, "%d", uses);
}

/** Trials with different measurements take the same way at the same time. */
Test(trials, even_rounds_keep_step)
{
    struct kolo_trials one = {.is_even = true}, other = {.is_even = true};
    for (int i = 0; i < 1000; i++) {
        bool first, second;
        const int way = kolo_trials_take(&one, 3, &first);
        const int same = kolo_trials_take(&other, 3, &second);
        cr_assert(first == second && (!first || way == same), "use %d", i);
        if (first)
            kolo_trials_note(&one, way, way == 0 ? 9 : 1);
        if (second && i % 3 == 0)
            kolo_trials_note(&other, way, 100.0 / (i + 1) + way);
    }
    cr_assert(found(&one, 3) == 1 && found(&other, 3) == 0);
}

/** In an even round all uses count, wherever the undisturbed ones are. */
Test(trials, an_even_round_is_judged_by_all_its_uses)
{
    for (int at = 0; at < KOLO_TRIALS_TIMES_EVEN - 1; at++) {
        struct kolo_trials trials = {.is_even = true};
        for (int i = 0; i < 2 * KOLO_TRIALS_TIMES_EVEN; i++) {
            bool is_measured;
            const int way = kolo_trials_take(&trials, 3, &is_measured);
            const int use = i % KOLO_TRIALS_TIMES_EVEN;
            const bool is_quiet = use == at || use == at + 1;
            cr_assert(is_measured);
            kolo_trials_note(&trials, way, way == 0 ? 1.5 : is_quiet ? 1 : 50 + use);
        }
        cr_assert_eq(next(&trials, 3), 1, "quiet at use %d", at);
    }
}

/** Each use is chosen before the time of the one before it is noted: one more use of each way, of
 * which no time is missed, and the same result. */
Test(trials, uses_that_are_chosen_early)
{
    const double took[] = {1.2, 1, 1.4};
    for (int slow = 0; slow < 2; slow++) {
        struct kolo_trials trials = {0};
        int taken[3] = {0}, before = -1;
        bool is_measured = true;
        for (int i = 0; is_measured; i++) {
            cr_assert(i < 4 * KOLO_TRIALS_TIMES_MOST, "the round does not end");
            const int way = kolo_trials_take_early(&trials, 7, &is_measured);
            if (before >= 0)
                kolo_trials_note(&trials, before, took[before] * (slow && before == 2 ? 9 : 1));
            before = is_measured ? way : -1;
            taken[way] += is_measured;
        }
        cr_assert(taken[0] == 5 && taken[1] == 5 && taken[2] == (slow ? 3 : 5), "%d %d %d",
                  taken[0], taken[1], taken[2]);
        cr_assert_eq(next(&trials, 7), 1);
    }
}

/** A way whose uses become faster is waited for by those too that are chosen early. */
Test(trials, an_early_choice_waits_for_what_becomes_faster)
{
    struct kolo_trials trials = {0};
    double took[2] = {4, 1};
    int before = -1, way;
    bool is_measured = true;
    while (is_measured) {
        way = kolo_trials_take_early(&trials, 3, &is_measured);
        if (before >= 0)
            kolo_trials_note(&trials, before, took[before]);
        if (before == 0)
            took[0] *= 0.9;
        before = is_measured ? way : -1;
    }
    cr_assert(took[0] < 1);
    cr_assert_eq(next(&trials, 3), 0);
}

Test(trials, a_way_that_closes_is_left)
{
    struct kolo_trials trials = {0};
    const double took[KOLO_TRIALS_WAYS] = {3, 2, 4, 4, 1, 5};
    int taken[KOLO_TRIALS_WAYS];
    use(&trials, ALL, took, ROUND_MOST, taken);
    cr_assert_eq(next(&trials, ALL), 4);
    cr_assert_eq(next(&trials, ALL & ~(1 << 4)), 1, "of the others the fastest");
    cr_assert_eq(use(&trials, 1, took, 30, taken), 0, "of one way nothing is found out");
    cr_assert_eq(next(&trials, ALL), 4, "nothing is forgotten");
}

/** One kind of use can take two ways, the other one all: both find their best way, and most uses
 * are not measured. */
Test(trials, ways_that_are_open_to_some_uses)
{
    struct kolo_trials trials = {0};
    const double took[KOLO_TRIALS_WAYS] = {3, 4, 2, 5, 1};
    const unsigned opens[2] = {3, ALL};
    int measured = 0, taken[KOLO_TRIALS_WAYS];
    for (int i = 0; i < 10000; i++) {
        const unsigned open = opens[i % 3 == 0];
        measured += use(&trials, open, took, 1, taken);
        if (i > 100 && trials.left > 0)
            cr_assert_eq(taken[open == ALL ? 4 : 0], 1, "use %d", i);
    }
    cr_assert_lt(measured, 150, "%d", measured);
    for (int i = 0; i < 10000; i++) /* there are no more uses that could take all ways */
        measured += use(&trials, 3, took, 1, taken);
    cr_assert_lt(measured, 250, "%d", measured);
}

/** The other trials know nothing about the ways that are allowed. */
Test(trials, others_that_know_nothing_of_the_open_ways)
{
    struct kolo_trials trials = {0}, other = {0};
    const double took[KOLO_TRIALS_WAYS] = {3, 1, 5, 4, 5};
    int taken[KOLO_TRIALS_WAYS];
    use(&other, 3, took, 2 * KOLO_TRIALS_TIMES + 1, taken);
    cr_assert(kolo_trials_adopt(&trials, &other));
    cr_assert_gt(use(&trials, 3 << 2, took, 2 * KOLO_TRIALS_TIMES, taken), 0);
    cr_assert_eq(next(&trials, 3 << 2), 3);
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
    cr_assert_eq(use(&trials, 7, then, PAUSE, taken), 0);
    cr_assert_eq(taken[1], PAUSE);
    use(&trials, 7, then, ROUND_MOST, taken);
    cr_assert_eq(next(&trials, 7), 0, "and then it finds out itself");
}

Test(trials, what_was_only_adopted_is_not_handed_on)
{
    struct kolo_trials first = {0}, second = {0}, third = {0};
    const double took[KOLO_TRIALS_WAYS] = {3, 1};
    int taken[KOLO_TRIALS_WAYS];
    use(&first, 3, took, 2 * KOLO_TRIALS_TIMES + 1, taken);
    cr_assert(kolo_trials_adopt(&second, &first) && !kolo_trials_adopt(&third, &second));
    use(&second, 3, took, PAUSE + 2 * KOLO_TRIALS_TIMES + 1, taken);
    cr_assert(kolo_trials_adopt(&third, &second), "it has found something itself");
}

/** A measurement that was not requested is ignored. */
Test(trials, a_use_is_told_of_once)
{
    struct kolo_trials trials = {0};
    bool is_measured;
    kolo_trials_note(&trials, 0, 1);
    cr_assert_eq(trials.told[0], 0);
    (void)kolo_trials_take(&trials, 3, &is_measured);
    for (int i = 0; i < 300; i++)
        kolo_trials_note(&trials, 0, 1);
    cr_assert_eq(trials.told[0], 1);
}

Test(trials, they_are_not_new_within_their_first_round)
{
    struct kolo_trials trials = {0};
    const double took[KOLO_TRIALS_WAYS] = {1, 1, 1, 1, 1};
    int taken[KOLO_TRIALS_WAYS];
    use(&trials, 12, took, 2, taken); /* the first way is not allowed */
    cr_assert(!kolo_trials_is_new(&trials));
}

/** Rounds without any measurement change nothing. */
Test(trials, what_was_no_use_does_not_count)
{
    struct kolo_trials silent = {0};
    for (int i = 0; i < 1000; i++) {
        bool is_measured;
        (void)kolo_trials_take(&silent, 3, &is_measured);
    }
    cr_assert(silent.pause == 0 && !silent.has_found);
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
