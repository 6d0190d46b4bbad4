// SPDX-License-Identifier: Apache-2.0
// Predicted times of the ways over a board against values counted by hand, and the choice that
// follows from them.
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "runtime/board_hub.h"
#include "runtime/choose.h"

static const struct kolo_layout two = {
    .size = 2, .cores = 2, .local = KOLO_PATH_SHM, .has_board = true};
static const struct kolo_layout crowd = {
    .size = 8, .cores = 2, .local = KOLO_PATH_SHM, .has_board = true};

static double cost_of(enum kolo_collective collective, bool is_oneshot, size_t count,
                      const struct kolo_layout *layout, const struct kolo_figures *figures)
{
    struct kolo_plan_args args = {.size = layout->size, .count = count, .segment = 1 << 18};
    return kolo_plan_cost(kolo_plan_on_board(collective, is_oneshot), &args, 1, layout, figures);
}

Test(cost_board, of_what_can_be_counted_by_hand)
{
    struct kolo_figures figures = {.flag = 100, .turn = 10};
    double ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, true, 8, &two, &figures);
    cr_assert(fabs(ns - 100) < 1e-6, "one flag: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, false, 8, &two, &figures);
    cr_assert(fabs(ns - 200) < 1e-6, "two flags: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_BARRIER, true, 0, &crowd, &figures);
    cr_assert(fabs(ns - 40) < 1e-6, "a turn of each of four ranks: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, true, 8, &crowd, &figures);
    cr_assert(fabs(ns - 20) < 1e-6, "half of that, since the root alone awaits all: %g", ns);
    figures = (struct kolo_figures){.share_byte = 1};
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, false, 8000, &two, &figures);
    cr_assert(fabs(ns - 16000) < 1e-6, "half of two vectors read, of two written: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, true, 8000, &two, &figures);
    cr_assert(fabs(ns - 40000) < 1e-6, "one copied, two read, one written: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_BROADCAST, false, 8000, &crowd, &figures);
    cr_assert(fabs(ns - 32000) < 1e-6, "one read, seven written, by two cores: %g", ns);
    figures = (struct kolo_figures){.remote_byte = 1};
    ns = cost_of(KOLO_COLLECTIVE_ALLGATHER, true, 1000, &two, &figures);
    cr_assert(fabs(ns - 1000) < 1e-6, "the other's block: %g", ns);
}

Test(cost_board, of_what_goes_from_numa_domain_to_numa_domain)
{
    struct kolo_layout apart = {
        .size = 8, .cores = 8, .local = KOLO_PATH_SHM, .domains = 2, .has_board = true};
    struct kolo_layout together = apart;
    together.domains = 1;
    struct kolo_figures figures = {.flag = 100, .far_flag = 50};
    double ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, false, 8, &apart, &figures);
    cr_assert(fabs(ns - 300) < 1e-6, "two flags: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, false, 8, &together, &figures);
    cr_assert(fabs(ns - 200) < 1e-6, "two flags near by: %g", ns);
    figures = (struct kolo_figures){.far_byte = 1};
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, false, 8000, &apart, &figures);
    cr_assert(fabs(ns - 4 * 8000) < 1e-6,
              "four ranks, each half of its eighth of eight vectors, read and written: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLREDUCE, false, 8000, &together, &figures);
    cr_assert(fabs(ns) < 1e-6, "nothing is far: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLGATHER, true, 1000, &apart, &figures);
    cr_assert(fabs(ns - 3500) < 1e-6, "half of seven blocks: %g", ns);
}

/** Bytes that each rank has from others through stages. */
static double passed_on(enum kolo_collective collective, const struct kolo_layout *layout)
{
    const struct kolo_figures figures = {.remote_byte = 1};
    struct kolo_layout unseen = *layout;
    unseen.is_unseen = true;
    return cost_of(collective, false, 1 << 20, &unseen, &figures) / (1 << 20);
}

Test(cost_board, of_what_others_have_just_written_into_stages)
{
    const struct kolo_layout four = {
        .size = 4, .cores = 4, .local = KOLO_PATH_SHM, .has_board = true};
    cr_expect_float_eq(passed_on(KOLO_COLLECTIVE_ALLREDUCE, &two), 1, 1e-9,
                       "half of the other's vector, and half of the result");
    cr_expect_float_eq(passed_on(KOLO_COLLECTIVE_ALLREDUCE, &four), 1.5, 1e-9,
                       "a quarter of three vectors, and three quarters of the result");
    cr_expect_float_eq(passed_on(KOLO_COLLECTIVE_ALLGATHER, &two), 1.5, 1e-9,
                       "half of the other's block, and half of the result");
    cr_expect_float_eq(passed_on(KOLO_COLLECTIVE_ALLREDUCE, &crowd), 0, 1e-9,
                       "ranks that share cores are not charged for it");
}

/* 2 ranks with a core each: a oneshot takes 0.5 to 0.7 of the time up to 128 KiB (RESULTS.md). */
Test(cost_board, a_oneshot_passes_less_from_core_to_core_than_stages)
{
    struct kolo_figures figures;
    struct kolo_layout unseen = two;
    kolo_figures_init(&figures);
    unseen.is_unseen = true;
    for (size_t bytes = 16 << 10; bytes <= 64 << 10; bytes *= 2) {
        cr_expect_eq(cost_of(KOLO_COLLECTIVE_ALLREDUCE, false, bytes, &unseen, &figures),
                     cost_of(KOLO_COLLECTIVE_ALLREDUCE, true, bytes, &two, &figures));
        cr_expect_eq(cost_of(KOLO_COLLECTIVE_REDUCE, false, bytes, &unseen, &figures),
                     cost_of(KOLO_COLLECTIVE_REDUCE, true, bytes, &two, &figures));
    }
}

Test(cost_board, memory_that_cannot_be_seen_takes_the_shorter_way)
{
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    for (int c = 0; c < KOLO_COLLECTIVES; c++) {
        enum kolo_collective collective = (enum kolo_collective)c;
        for (int size = 2; size <= 16; size *= 2) {
            struct kolo_layout layout = {.size = size, .cores = 4, .has_board = true};
            struct kolo_layout unseen = layout;
            unseen.is_unseen = true;
            if (!kolo_plan_on_board(collective, false))
                continue;
            size_t shown = kolo_board_shown(collective, &layout, &figures);
            cr_assert(shown >= 64 && shown <= KOLO_BOARD_ONESHOT_BYTES, "%s on %d: %zu",
                      kolo_collective_text(collective), size, shown);
            for (size_t count = 1; count <= 64 << 20; count *= 4) {
                double seen_ns = cost_of(collective, false, count, &layout, &figures);
                double ns = cost_of(collective, false, count, &unseen, &figures);
                struct kolo_plan_args args = {.size = size, .count = count, .segment = 1};
                size_t bytes = kolo_oneshot_bytes(collective, &args, 1);
                cr_assert(isfinite(ns) && ns > 0 && seen_ns > 0);
                if (bytes > KOLO_BOARD_ONESHOT_BYTES)
                    cr_assert(ns > seen_ns, "%s on %d, %zu", kolo_collective_text(collective), size,
                              count);
                else if (bytes <= shown)
                    cr_assert(ns <= cost_of(collective, true, count, &layout, &figures));
            }
        }
    }
}

static bool is_pulled(enum kolo_collective collective, const struct kolo_plan_args *args,
                      const struct kolo_layout *layout, const struct kolo_figures *figures)
{
    return kolo_board_is_pulled(kolo_plan_on_board(collective, false), args, 1, layout, figures);
}

/** Two ranks with a core each that find out whether to pull blocks of @p from bytes and more. */
static struct kolo_layout pair_that_tries(size_t from)
{
    return (struct kolo_layout){.size = 2,
                                .cores = 2,
                                .has_board = true,
                                .is_unseen = true,
                                .pull_from = from,
                                .pull_is_tried = true};
}

/** With blocks of 1 MiB on two ranks: a rank pulls all blocks but its own. */
Test(cost_board, pulled_memory_takes_what_the_kernel_takes)
{
    enum { BLOCK = 1 << 20, FROM = 64 << 10 };
    struct kolo_figures figures = {.pull_byte = 0.5, .share_byte = 0.125};
    struct kolo_layout layout = {
        .size = 2, .cores = 2, .has_board = true, .is_unseen = true, .pull_from = FROM};
    double ns = cost_of(KOLO_COLLECTIVE_ALLTOALL, false, BLOCK, &layout, &figures);
    cr_assert(fabs(ns - BLOCK * 0.75) < 1e-6, "one block pulled, one copied: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLGATHER, false, BLOCK, &layout, &figures);
    cr_assert(fabs(ns - BLOCK * 0.75) < 1e-6, "the same: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_SCATTER, false, BLOCK / 2, &layout, &figures);
    cr_assert(fabs(ns - BLOCK * 0.25) < 1e-6, "one block pulled, beside it one copied: %g", ns);
    layout.size = layout.cores = 4;
    ns = cost_of(KOLO_COLLECTIVE_ALLTOALL, false, BLOCK / 4, &layout, &figures);
    cr_assert(fabs(ns - BLOCK / 4 * 1.75) < 1e-6, "three blocks pulled, one copied: %g", ns);
    struct kolo_plan_args edge = {.size = 2, .count = FROM, .segment = 1};
    cr_assert(is_pulled(KOLO_COLLECTIVE_ALLTOALL, &edge, &layout, &figures));
    figures.pull_byte = 1e3; /* so that pulling is visible */
    const struct {
        enum kolo_collective collective;
        int size, cores;
        size_t block;
        bool is_pulled;
    } cases[] = {
        {KOLO_COLLECTIVE_ALLTOALL, 2, 2, BLOCK / 4, true},
        {KOLO_COLLECTIVE_ALLTOALL, 2, 2, FROM - 1, false},
        {KOLO_COLLECTIVE_ALLTOALL, 2, 2, 8 << 20, false}, /* more than the caches hold */
        {KOLO_COLLECTIVE_ALLTOALL, 8, 2, BLOCK / 8, true},
        {KOLO_COLLECTIVE_ALLGATHER, 3, 2, BLOCK / 4, true},
        {KOLO_COLLECTIVE_ALLGATHER, 4, 2, BLOCK / 4, false},
        {KOLO_COLLECTIVE_SCATTER, 2, 2, BLOCK, false},
        {KOLO_COLLECTIVE_SCATTER, 4, 2, BLOCK, true},
        {KOLO_COLLECTIVE_BROADCAST, 2, 2, BLOCK, false},
        {KOLO_COLLECTIVE_ALLREDUCE, 2, 2, BLOCK, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kolo_plan_args args = {.size = cases[i].size, .count = cases[i].block, .segment = 1};
        layout.size = cases[i].size, layout.cores = cases[i].cores, layout.pull_from = FROM;
        cr_assert(is_pulled(cases[i].collective, &args, &layout, &figures) == cases[i].is_pulled,
                  "case %zu", i);
        double may = cost_of(cases[i].collective, false, cases[i].block, &layout, &figures);
        layout.pull_from = 0;
        double never = cost_of(cases[i].collective, false, cases[i].block, &layout, &figures);
        cr_assert(!is_pulled(cases[i].collective, &args, &layout, &figures));
        cr_assert((may > never) == cases[i].is_pulled, "case %zu: %g, %g", i, may, never);
    }
}

static enum kolo_unseen unseen(enum kolo_collective collective, size_t block,
                               const struct kolo_layout *layout, const struct kolo_figures *figures)
{
    const struct kolo_plan_args args = {.size = layout->size, .count = block, .segment = 1};
    return kolo_board_unseen(kolo_plan_on_board(collective, false), &args, 1, layout, figures);
}

/** What is short is shown, unless it is pulled in less time, or by a setting. Short blocks of a
 * scatter are never tried otherwise (kolo_ways_shows). */
Test(cost_board, what_is_shown_and_what_is_not)
{
    enum { FROM = 8 << 10, BLOCK = 32 << 10, SHORT_BLOCK = 12 << 10 };
    struct kolo_figures figures = {.pull_byte = 0.1, .share_byte = 1, .flag = 1000};
    struct kolo_layout layout = pair_that_tries(FROM);
    const enum kolo_collective alltoall = KOLO_COLLECTIVE_ALLTOALL,
                               scatter = KOLO_COLLECTIVE_SCATTER;
    cr_assert_eq(unseen(alltoall, BLOCK, &layout, &figures), KOLO_UNSEEN_PULLED);
    cr_assert_eq(unseen(alltoall, FROM - 1, &layout, &figures), KOLO_UNSEEN_SHOWN);
    cr_assert_eq(unseen(KOLO_COLLECTIVE_ALLREDUCE, BLOCK, &layout, &figures), KOLO_UNSEEN_SHOWN);
    cr_assert_eq(unseen(KOLO_COLLECTIVE_ALLREDUCE, 32 * BLOCK, &layout, &figures),
                 KOLO_UNSEEN_STAGED);
    cr_assert_eq(unseen(alltoall, SHORT_BLOCK, &layout, &figures), KOLO_UNSEEN_PULLED);
    cr_assert_eq(unseen(scatter, BLOCK, &layout, &figures), KOLO_UNSEEN_PULLED);
    cr_assert_eq(unseen(scatter, SHORT_BLOCK, &layout, &figures), KOLO_UNSEEN_SHOWN);
    figures.pull_byte = 20; /* longer than a oneshot */
    cr_assert_eq(unseen(alltoall, BLOCK, &layout, &figures), KOLO_UNSEEN_SHOWN);
    layout.pull_is_tried = false;
    cr_assert_eq(unseen(alltoall, BLOCK, &layout, &figures), KOLO_UNSEEN_PULLED);
    cr_assert_eq(unseen(scatter, SHORT_BLOCK, &layout, &figures), KOLO_UNSEEN_PULLED);
    layout.pull_from = 0;
    cr_assert_eq(unseen(alltoall, BLOCK, &layout, &figures), KOLO_UNSEEN_SHOWN);
}

/** If no setting says from which length on blocks are pulled, the faster way is assumed. */
Test(cost_board, memory_that_is_tried_is_taken_to_go_the_faster_way)
{
    enum {
        BLOCK = 8 << 20,
        FROM = 8 << 10
    }; /* more than the caches hold, which a setting excludes */
    struct kolo_figures figures = {.pull_byte = 0.01, .share_byte = 1};
    struct kolo_layout layout = pair_that_tries(FROM);
    struct kolo_plan_args args = {.size = 2, .count = BLOCK, .segment = 1};
    double pulled = cost_of(KOLO_COLLECTIVE_ALLTOALL, false, BLOCK, &layout, &figures);
    cr_assert(is_pulled(KOLO_COLLECTIVE_ALLTOALL, &args, &layout, &figures));
    cr_assert(!is_pulled(KOLO_COLLECTIVE_BROADCAST, &args, &layout, &figures));
    args.count = FROM - 1;
    cr_assert(!is_pulled(KOLO_COLLECTIVE_ALLTOALL, &args, &layout, &figures));
    args.count = BLOCK;
    figures.pull_byte = 100;
    double staged = cost_of(KOLO_COLLECTIVE_ALLTOALL, false, BLOCK, &layout, &figures);
    cr_assert(!is_pulled(KOLO_COLLECTIVE_ALLTOALL, &args, &layout, &figures));
    cr_assert(pulled < staged, "%g, %g", pulled, staged);
}

static const struct kolo_plan *choice(enum kolo_collective collective, size_t count,
                                      const struct kolo_layout *layout)
{
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    struct kolo_question question = {
        .collective = collective,
        .args = {.size = layout->size, .count = count, .segment = 1 << 18},
        .element_bytes = 1,
        .layout = *layout};
    return kolo_choose(&question, &figures);
}

Test(cost_board, one_flag_for_short_vectors_one_pass_for_long_ones)
{
    const struct kolo_layout *const layouts[] = {&two, &crowd};
    for (int i = 0; i < 2; i++)
        for (int c = 0; c < KOLO_COLLECTIVES; c++) {
            enum kolo_collective collective = (enum kolo_collective)c;
            const struct kolo_plan *plan = choice(collective, 8, layouts[i]);
            cr_assert(plan->on_board && plan->is_oneshot, "%s: %s",
                      kolo_collective_text(collective), plan->name);
            plan = choice(collective, 16 << 20, layouts[i]);
            bool has_second = kolo_plan_on_board(collective, false) != NULL;
            cr_assert(plan->on_board && plan->is_oneshot == !has_second, "%s: %s",
                      kolo_collective_text(collective), plan->name);
            struct kolo_layout apart = *layouts[i];
            apart.has_board = false;
            cr_assert(!choice(collective, 8, &apart)->on_board);
        }
}

Test(cost_board, memory_of_the_call_decides_nothing)
{
    for (int c = 0; c < KOLO_COLLECTIVES; c++)
        for (size_t count = 1; count <= 64 << 20; count *= 2) {
            struct kolo_layout unseen = two;
            unseen.is_unseen = true;
            cr_assert(choice((enum kolo_collective)c, count, &two) ==
                      choice((enum kolo_collective)c, count, &unseen));
        }
}

/** Data that does not fit into the caches is copied at the speed of memory, whoever copies it. */
Test(cost_board, long_memory_is_pulled_no_faster_than_memory_is)
{
    enum { BLOCK = 8 << 20, SHORT = 1 << 20 };
    struct kolo_figures figures = {.pull_byte = 0.25, .share_byte = 0.125, .copy_byte = 1};
    struct kolo_layout layout = pair_that_tries(SHORT);
    struct kolo_plan_args args = {.size = 2, .count = BLOCK, .segment = 1};
    cr_assert(is_pulled(KOLO_COLLECTIVE_ALLTOALL, &args, &layout, &figures));
    double ns = cost_of(KOLO_COLLECTIVE_ALLTOALL, false, BLOCK, &layout, &figures);
    cr_assert(fabs(ns - BLOCK * 2.0) < 1e-6, "one block pulled, one copied: %g", ns);
    ns = cost_of(KOLO_COLLECTIVE_ALLTOALL, false, SHORT, &layout, &figures);
    cr_assert(fabs(ns - SHORT * 0.5) < 1e-6, "the same within the caches: %g", ns);
}
