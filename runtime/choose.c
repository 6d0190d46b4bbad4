// SPDX-License-Identifier: Apache-2.0
// Checks the plans of a collective one by one: first whether something prevents a plan, in words,
// then how long it is expected to take (cost.h). kolo_choose and kolo_explain use the same two
// functions, so the reasons shown are those of the choice. Must never use what only one rank knows.
#include "runtime/choose.h"

#include <string.h>

#include "runtime/board_hub.h"

enum kolo_order kolo_order_of(kolo_dtype dtype, kolo_redop op, bool is_deterministic)
{
    bool is_half = dtype == KOLO_FLOAT16 || dtype == KOLO_BFLOAT16;
    bool is_float = is_half || dtype == KOLO_FLOAT32 || dtype == KOLO_FLOAT64;
    if (!is_float || op == KOLO_MIN || op == KOLO_MAX)
        return KOLO_ORDER_FREE;
    return is_deterministic ? KOLO_ORDER_STRICT : is_half ? KOLO_ORDER_WIDE : KOLO_ORDER_FREE;
}

static bool combines(enum kolo_collective collective)
{
    return collective == KOLO_COLLECTIVE_ALLREDUCE || collective == KOLO_COLLECTIVE_REDUCE ||
           collective == KOLO_COLLECTIVE_REDUCE_SCATTER;
}

/** The arguments for a plan's `fits`, which may only ask whether blocks have lengths of their own,
 * not what they are. */
static struct kolo_plan_args to_fit(const struct kolo_question *question)
{
    struct kolo_plan_args args = question->args;
    if (question->is_uneven)
        args.counts = args.displs = &question->args.count;
    return args;
}

static const char *bars_board(const struct kolo_plan *plan, const struct kolo_question *question)
{
    const struct kolo_plan_args *args = &question->args, fitted = to_fit(question);
    if (!question->layout.has_board)
        return "these ranks do not share memory";
    const char *why = kolo_moves_fit(plan->collective, &fitted);
    if (!why && plan->is_oneshot &&
        kolo_oneshot_bytes(plan->collective, args, question->element_bytes) >
            KOLO_BOARD_ONESHOT_BYTES)
        return "a rank's contribution does not fit its part of the board";
    return why;
}

const char *kolo_plan_bars(const struct kolo_plan *plan, const struct kolo_question *question)
{
    if (plan->on_board)
        return bars_board(plan, question);
    if (question->order != KOLO_ORDER_FREE && combines(question->collective) && !plan->is_ordered)
        return question->order == KOLO_ORDER_STRICT
                   ? "the plan does not combine in the order of ranks, which this call needs"
                   : "the plan rounds to 16 bits at every step";
    const struct kolo_plan_args fitted = to_fit(question);
    return kolo_plan_fits(plan, &fitted, question->element_bytes);
}

static double cost(const struct kolo_plan *plan, const struct kolo_question *question,
                   const struct kolo_figures *figures)
{
    return kolo_plan_cost(plan, &question->args, question->element_bytes, &question->layout,
                          figures);
}

const struct kolo_plan *kolo_choose(const struct kolo_question *question,
                                    const struct kolo_figures *figures)
{
    struct kolo_question asked = *question;
    const struct kolo_plan *best = NULL;
    double least = 0;
    asked.layout.is_unseen = false; /* each rank knows only its own memory */
    for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan)) {
        if (plan->collective != question->collective || kolo_plan_bars(plan, question))
            continue;
        double ns = cost(plan, &asked, figures);
        if (!best || ns < least || (ns <= least && plan->is_by_hosts)) {
            best = plan;
            least = ns;
        }
    }
    return best;
}

/** Whether @p a is listed before @p b: first plans that can carry out the call, the fastest
 * first. */
static bool goes_before(const struct kolo_answer *a, const struct kolo_answer *b)
{
    if ((a->ns < 0) != (b->ns < 0))
        return b->ns < 0;
    return a->ns < b->ns || (a->ns <= b->ns && a->is_chosen);
}

static void insert(struct kolo_answer *answers, size_t used, const struct kolo_answer *answer)
{
    for (; used > 0 && goes_before(answer, &answers[used - 1]); used--)
        answers[used] = answers[used - 1];
    answers[used] = *answer;
}

/** How a plan on a board runs if the memory turns out not to be visible to the others. */
static const char *way_of(const struct kolo_plan *plan, const struct kolo_question *question,
                          const struct kolo_figures *figures)
{
    if (!question->layout.is_unseen || !plan->on_board || plan->is_oneshot)
        return "";
    static const char *const ways[] = {
        [KOLO_UNSEEN_SHOWN] = "; else as oneshot, as expected here",
        [KOLO_UNSEEN_PULLED] = "; else pulled by the kernel, as expected here",
        [KOLO_UNSEEN_STAGED] = "; else through stages, as expected here",
    };
    return ways[kolo_board_unseen(plan, &question->args, question->element_bytes, &question->layout,
                                  figures)];
}

/** No rank knows the memory of the others, so all choose as for kolo_alloc memory; for other memory
 * that plan need not be the fastest. */
static const char *of_what(const struct kolo_question *question)
{
    return question->layout.is_unseen ? " with kolo_alloc memory, by which all ranks choose" : "";
}

size_t kolo_explain(const struct kolo_question *question, const struct kolo_figures *figures,
                    struct kolo_answer *answers_out, size_t capacity)
{
    const struct kolo_plan *chosen = kolo_choose(question, figures);
    double least = chosen ? cost(chosen, question, figures) : 0;
    size_t count = 0;
    for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan)) {
        struct kolo_answer answer = {.plan = plan, .ns = -1, .is_chosen = plan == chosen};
        if (plan->collective != question->collective)
            continue;
        const char *bars = kolo_plan_bars(plan, question);
        if (!bars)
            answer.ns = cost(plan, question, figures);
        if (bars)
            snprintf(answer.why, sizeof answer.why, "cannot: %s", bars);
        else if (answer.is_chosen)
            snprintf(answer.why, sizeof answer.why, "fastest%s%s", of_what(question),
                     way_of(plan, question, figures));
        else
            snprintf(answer.why, sizeof answer.why, "%.2f times as long",
                     least > 0 ? answer.ns / least : 1);
        if (count < capacity)
            insert(answers_out, count, &answer);
        count++;
    }
    return count;
}
