// SPDX-License-Identifier: Apache-2.0
// runtime/plan.c: the table of plans, and what is found in it. test_simulate.c proves the plans.
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/plan.h"

/** Rows are in many files, and each states its own number: a wrong one would end a walk through the
 * table early, or never. */
Test(plan, every_row_has_the_number_of_its_place)
{
    int count = 0;
    for (size_t i = 0; i < KOLO_PLANS; i++)
        cr_assert(kolo_plans[i] && kolo_plans[i]->number == i, "place %zu", i);
    for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan))
        count++;
    cr_expect(count == KOLO_PLANS);
    cr_expect(kolo_plan_notes.number == KOLO_PLANS && !kolo_plan_next(&kolo_plan_notes));
}

Test(plan, is_found_by_name)
{
    for (size_t i = 0; i < KOLO_PLANS; i++)
        cr_expect(kolo_plan_find(kolo_plans[i]->collective, kolo_plans[i]->name) == kolo_plans[i],
                  "%s %s: two plans of one name", kolo_plans[i]->name,
                  kolo_collective_text(kolo_plans[i]->collective));
    cr_expect(kolo_plan_find(KOLO_COLLECTIVE_BARRIER, "ring") == NULL);
}

/** Links need a plan for every call, the engine its steps; a plan on a board has none. */
Test(plan, has_the_functions_of_its_kind)
{
    for (size_t i = 0; i < KOLO_PLANS; i++) {
        const struct kolo_plan *plan = kolo_plans[i];
        bool has_steps = !plan->on_board && !plan->is_nested;
        cr_expect(plan->summary && plan->fits && plan->scratch && plan->nsteps &&
                      (plan->step != NULL) == has_steps && (has_steps || !plan->window),
                  "%s %s", plan->name, kolo_collective_text(plan->collective));
    }
}

Test(plan, is_chosen_without_figures)
{
    struct kolo_plan_args args = {.size = 8, .count = 1, .segment = 1};
    const enum kolo_collective allreduce = KOLO_COLLECTIVE_ALLREDUCE;
    cr_expect(kolo_plan_choose(allreduce, &args, 100, 100, "auto") ==
              &kolo_plan_doubling_allreduce);
    cr_expect(kolo_plan_choose(allreduce, &args, 101, 100, "auto") == &kolo_plan_ring_allreduce);
    cr_expect(kolo_plan_choose(allreduce, &args, 100, 100, "halving") ==
              &kolo_plan_halving_allreduce);
    cr_expect(kolo_plan_choose(allreduce, &args, 101, 100, "twolevel") == &kolo_plan_ring_allreduce,
              "it does not fit");
    for (int collective = 0; collective < KOLO_COLLECTIVES; collective++) {
        const struct kolo_plan *plan =
            kolo_plan_choose((enum kolo_collective)collective, &args, 101, 100, "twoshot");
        cr_expect(plan->collective == (enum kolo_collective)collective && plan->step &&
                      !plan->fits(&args),
                  "%s", kolo_collective_text((enum kolo_collective)collective));
    }
}
