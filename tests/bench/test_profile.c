// SPDX-License-Identifier: Apache-2.0
// Figures that are solved from times must give the same times again when the model uses them.
#include <criterion/criterion.h>

#include <math.h>

#include "bench/profile.h"

static double cost_of(enum kolo_collective collective, const char *plan, size_t bytes,
                      const struct kolo_layout *layout, const struct kolo_figures *figures)
{
    struct kolo_plan_args args = {
        .size = layout->size, .count = bytes, .segment = 1 << 18, .in_place = true};
    return kolo_plan_cost(kolo_plan_find(collective, plan), &args, 1, layout, figures);
}

/** The times that a run would measure if the model were right. */
static struct profile_times times_of(const struct kolo_layout *layout,
                                     const struct kolo_figures *figures)
{
    const struct kolo_path_figures *path = &figures->path[layout->local];
    enum kolo_collective all = KOLO_COLLECTIVE_ALLREDUCE, gather = KOLO_COLLECTIVE_ALLGATHER;
    return (struct profile_times){
        .cores = layout->cores,
        .ranks = layout->size,
        .one_way = path->latency + 2 * path->message,
        .barrier = cost_of(KOLO_COLLECTIVE_BARRIER, "dissemination", 0, layout, figures),
        .ring = cost_of(gather, "ring", 0, layout, figures),
        .ring_long = cost_of(gather, "ring", 65536, layout, figures),
        .ring_bytes = 65536,
        .shown = cost_of(all, "oneshot", 0, layout, figures),
        .shown_long = cost_of(all, "oneshot", 16384, layout, figures),
        .shown_bytes = 16384,
        .direct = cost_of(all, "twoshot", 0, layout, figures),
        .direct_long = cost_of(all, "twoshot", 262144, layout, figures),
        .direct_bytes = 262144,
        .copy_byte = figures->copy_byte,
        .combine_byte = figures->combine_byte,
        .pull_byte = figures->pull_byte};
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-3 * fmax(fabs(a), fabs(b)) + 1e-9;
}

static void expect_same(const struct kolo_figures *got, const struct kolo_figures *wanted,
                        enum kolo_path path)
{
    const struct kolo_path_figures *g = &got->path[path], *w = &wanted->path[path];
    cr_expect(is_near(g->call, w->call), "call %g, %g", g->call, w->call);
    cr_expect(is_near(g->latency, w->latency), "latency %g, %g", g->latency, w->latency);
    cr_expect(is_near(g->message, w->message), "message %g, %g", g->message, w->message);
    cr_expect(is_near(g->byte, w->byte), "byte %g, %g", g->byte, w->byte);
    cr_expect(is_near(g->crowded_message, w->crowded_message), "crowded_message %g, %g",
              g->crowded_message, w->crowded_message);
    cr_expect(is_near(g->crowded_byte, w->crowded_byte), "crowded_byte %g, %g", g->crowded_byte,
              w->crowded_byte);
    cr_expect(is_near(got->turn, wanted->turn), "turn %g, %g", got->turn, wanted->turn);
    cr_expect(is_near(got->share_byte, wanted->share_byte), "share_byte %g, %g", got->share_byte,
              wanted->share_byte);
    cr_expect(is_near(got->remote_byte, wanted->remote_byte), "remote_byte %g, %g",
              got->remote_byte, wanted->remote_byte);
    cr_expect(is_near(got->pull_byte, wanted->pull_byte), "pull_byte %g, %g", got->pull_byte,
              wanted->pull_byte);
    cr_expect(is_near(got->enter + got->flag, wanted->enter + wanted->flag), "enter, flag");
}

/** The built-in figures scaled by @p times, so that none is right by chance. */
static struct kolo_figures scaled(double times)
{
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    for (int path = 0; path < KOLO_PATHS; path++) {
        struct kolo_path_figures *of = &figures.path[path];
        of->call *= times, of->latency *= times, of->message *= times, of->byte *= times;
        of->crowded_message *= times, of->crowded_byte *= times;
    }
    figures.copy_byte *= times, figures.combine_byte *= times, figures.turn *= times;
    figures.enter *= times, figures.flag *= times;
    figures.share_byte *= times, figures.remote_byte *= times, figures.pull_byte *= times;
    return figures;
}

Test(profile, gives_the_times_it_was_solved_from)
{
    for (double times = 0.25; times < 8; times *= 3)
        for (int path = 0; path < KOLO_PATH_NETWORK; path++)
            for (int crowd = 2; crowd <= 4; crowd += 2) {
                struct kolo_figures wanted = scaled(times), got;
                struct kolo_layout layout = {.size = 2, .cores = 2, .has_board = true};
                layout.local = (enum kolo_path)path;
                kolo_figures_init(&got);
                struct profile_times measured = times_of(&layout, &wanted);
                profile_solve(&measured, layout.local, &got);
                layout.size = 2 * crowd;
                measured = times_of(&layout, &wanted);
                profile_solve(&measured, layout.local, &got);
                expect_same(&got, &wanted, layout.local);
            }
}

Test(profile, of_a_network_leaves_the_host_alone)
{
    struct kolo_figures before = scaled(1), got = before;
    struct profile_times times = {.cores = 2, .ranks = 1, .one_way = 5e4, .stream_byte = 8};
    profile_solve(&times, KOLO_PATH_NETWORK, &got);
    const struct kolo_path_figures *network = &got.path[KOLO_PATH_NETWORK];
    cr_expect(is_near(network->latency + 2 * network->message, 5e4));
    cr_expect(is_near(network->message, before.path[KOLO_PATH_LOOPBACK].message));
    cr_expect(is_near(got.wire_byte, 8));
    cr_expect(is_near(got.turn, before.turn) && is_near(got.share_byte, before.share_byte));
    times.one_way = 2e3, times.stream_byte = 0.1;
    profile_solve(&times, KOLO_PATH_RDMA, &got);
    const struct kolo_path_figures *rdma = &got.path[KOLO_PATH_RDMA];
    cr_expect(is_near(rdma->latency + 2 * rdma->message, 2e3) && is_near(got.rdma_wire_byte, 0.1));
    cr_expect(is_near(rdma->byte, before.path[KOLO_PATH_RDMA].byte));
    cr_expect(is_near(got.wire_byte, 8) && is_near(network->latency + 2 * network->message, 5e4));
    times.one_way = 1000; /* less than the estimated part of the processors */
    profile_solve(&times, KOLO_PATH_NETWORK, &got);
    cr_expect(network->latency > 0 && network->message > 0);
}
