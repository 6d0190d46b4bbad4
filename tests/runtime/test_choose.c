// SPDX-License-Identifier: Apache-2.0
// The choice of plans: what must follow from the figures, from a requested order of operands, and
// from settings; and that all ranks get the same bits in deterministic mode.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory/reduce.h"
#include "runtime/choose.h"
#include "runtime/comm.h"
#include "runtime/engine.h"
#include "tests/support/world.h"
#include "transport/link.h"

static struct kolo_question question_of(int size, size_t bytes)
{
    return (struct kolo_question){
        .collective = KOLO_COLLECTIVE_ALLREDUCE,
        .args = {.size = size, .count = bytes, .segment = 1 << 18},
        .element_bytes = 1,
        .layout = {.size = size, .cores = size, .local = KOLO_PATH_LOOPBACK}};
}

Test(choose, by_latency_for_short_vectors_by_bytes_for_long_ones)
{
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    struct kolo_question question = question_of(4, 8);
    const struct kolo_plan *plan = kolo_choose(&question, &figures);
    cr_assert(strcmp(plan->name, "flat") == 0 || strcmp(plan->name, "doubling") == 0, "%s",
              plan->name);
    question = question_of(4, 64 << 20);
    plan = kolo_choose(&question, &figures);
    cr_assert(strcmp(plan->name, "ring") == 0 || strcmp(plan->name, "direct") == 0 ||
                  strcmp(plan->name, "halving") == 0,
              "%s", plan->name);
}

/** Measured on 2 cores (bench/RESULTS.md, "What is in flight, counted again"). */
Test(choose, long_vectors_where_ranks_share_cores)
{
    static const struct {
        enum kolo_collective collective;
        int ranks;
        size_t bytes; /* of the whole vector */
        const char *name;
    } cases[] = {
        {KOLO_COLLECTIVE_ALLGATHER, 8, 1 << 20, "doubling"},
        {KOLO_COLLECTIVE_ALLGATHER, 8, 4 << 20, "ring"},
        {KOLO_COLLECTIVE_ALLGATHER, 8, 16 << 20, "doubling"},
        {KOLO_COLLECTIVE_ALLGATHER, 4, 64 << 20, "doubling"},
        {KOLO_COLLECTIVE_ALLREDUCE, 4, 1 << 20, "halving"},
        {KOLO_COLLECTIVE_ALLREDUCE, 8, 1 << 20, "halving"},
        {KOLO_COLLECTIVE_ALLREDUCE, 8, 4 << 20, "halving"},
        {KOLO_COLLECTIVE_ALLREDUCE, 8, 16 << 20, "halving"},
        {KOLO_COLLECTIVE_REDUCE_SCATTER, 8, 4 << 20, "halving"},
        {KOLO_COLLECTIVE_REDUCE_SCATTER, 8, 16 << 20, "halving"},
    };
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kolo_question question = question_of(cases[i].ranks, cases[i].bytes);
        question.collective = cases[i].collective;
        question.layout.cores = 2;
        if (cases[i].collective != KOLO_COLLECTIVE_ALLREDUCE)
            question.args.count /= (size_t)cases[i].ranks;
        const struct kolo_plan *plan = kolo_choose(&question, &figures);
        cr_assert(strcmp(plan->name, cases[i].name) == 0, "case %zu: %s", i, plan->name);
    }
}

/** A plan that is kept for blocks of different lengths must support them; one that does not would
 * be looked up again at each call. */
Test(choose, lengths_of_their_own)
{
    static const size_t counts[16] = {1, 2, 3}, displs[16] = {0, 1, 3};
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    for (int collective = 0; collective < KOLO_COLLECTIVES; collective++)
        for (size_t bytes = 1; bytes < (size_t)1 << 32; bytes *= 2)
            for (int has_board = 0; has_board < 2; has_board++) {
                struct kolo_question question = question_of(16, bytes);
                question.collective = (enum kolo_collective)collective;
                question.layout.has_board = has_board != 0;
                question.is_uneven = true;
                const struct kolo_plan *plan = kolo_choose(&question, &figures);
                question.is_uneven = false;
                question.args.counts = counts;
                question.args.displs = displs;
                const char *why = kolo_plan_bars(plan, &question);
                cr_assert(why == NULL, "%s %s: %s", kolo_collective_text(plan->collective),
                          plan->name, why);
            }
}

Test(choose, two_levels_for_long_vectors_on_hosts_of_several_ranks)
{
    enum { RANKS_THERE = 8 };
    static const int of[RANKS_THERE] = {0, 0, 0, 0, 1, 1, 1, 1};
    int memory[KOLO_HOSTS_INTS(RANKS_THERE)];
    struct kolo_figures figures;
    struct kolo_topology hosts;
    kolo_figures_init(&figures);
    kolo_topology_fill(&hosts, RANKS_THERE, of, NULL, memory);
    struct kolo_question question = question_of(RANKS_THERE, 64 << 20);
    question.layout.hosts = of;
    question.layout.nhosts = 2;
    question.args.hosts = &hosts;
    cr_assert(strcmp(kolo_choose(&question, &figures)->name, "twolevel") == 0);
    question.args.count = 64;
    cr_assert(strcmp(kolo_choose(&question, &figures)->name, "twolevel") != 0);
    question.args.count = 64 << 17; /* per rank */
    question.collective = KOLO_COLLECTIVE_ALLGATHER;
    cr_assert(strcmp(kolo_choose(&question, &figures)->name, "twolevel") == 0);
    question.collective = KOLO_COLLECTIVE_REDUCE_SCATTER;
    cr_assert(strcmp(kolo_choose(&question, &figures)->name, "twolevel") == 0);
    question.collective = KOLO_COLLECTIVE_ALLREDUCE;
    question.args.count = 64 << 20;
    question.order = KOLO_ORDER_STRICT;
    cr_assert(kolo_choose(&question, &figures)->is_ordered);
}

/** For short vectors one rank of each host sends, above all if ranks share processors; for blocks
 * only if those of a host are contiguous. */
Test(choose, leaders_for_short_vectors_on_hosts_of_several_ranks)
{
    enum { RANKS_THERE = 8 };
    static const int in_order[RANKS_THERE] = {0, 0, 0, 0, 1, 1, 1, 1},
                     in_turn[RANKS_THERE] = {0, 1, 0, 1, 0, 1, 0, 1};
    static const enum kolo_collective collectives[] = {
        KOLO_COLLECTIVE_ALLREDUCE, KOLO_COLLECTIVE_ALLGATHER, KOLO_COLLECTIVE_REDUCE_SCATTER};
    int memory[KOLO_HOSTS_INTS(RANKS_THERE)];
    struct kolo_figures figures;
    struct kolo_topology hosts;
    kolo_figures_init(&figures);
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        for (int is_in_order = 0; is_in_order < 2; is_in_order++) {
            const int *of = is_in_order ? in_order : in_turn;
            struct kolo_question question = question_of(RANKS_THERE, 64);
            kolo_topology_fill(&hosts, RANKS_THERE, of, NULL, memory);
            question.collective = collectives[i];
            question.layout.local = KOLO_PATH_SHM;
            question.layout.hosts = of;
            question.layout.nhosts = 2;
            question.layout.cores = 2;
            question.args.hosts = &hosts;
            const bool is_expected =
                is_in_order || question.collective == KOLO_COLLECTIVE_ALLREDUCE;
            const char *name = kolo_choose(&question, &figures)->name;
            cr_assert((strcmp(name, "leaders") == 0) == is_expected, "%s: %s",
                      kolo_collective_text(question.collective), name);
        }
}

/** Of two plans with the same expected time, the one that follows the hosts is chosen, since a tree
 * in rank order may go from host to host more often. */
Test(choose, what_follows_the_hosts_where_two_are_as_good)
{
    static const int of[] = {0, 0, 0, 1, 1, 1};
    enum { SIX = 6 };
    int memory[KOLO_HOSTS_INTS(SIX)];
    struct kolo_topology hosts;
    struct kolo_figures figures;
    kolo_topology_fill(&hosts, SIX, of, NULL, memory);
    kolo_figures_init(&figures);
    struct kolo_question question = {
        .collective = KOLO_COLLECTIVE_BROADCAST,
        .element_bytes = 4,
        .args = {.size = SIX, .count = 16, .segment = 1 << 16, .hosts = &hosts},
        .layout = {.size = SIX, .cores = 1, .local = KOLO_PATH_SHM, .hosts = of, .nhosts = 2}};
    cr_assert_str_eq(kolo_choose(&question, &figures)->name, "twolevel");
}

/** The plan chosen for @p bytes on 64 ranks of one host or two, each of which has two NUMA
 * nodes. */
static const char *chosen_on_nodes(int nhosts, size_t bytes, bool has_board, double far_byte)
{
    enum { RANKS_THERE = 64 };
    static int of[RANKS_THERE], nodes[RANKS_THERE], memory[KOLO_HOSTS_INTS(RANKS_THERE)];
    struct kolo_figures figures;
    struct kolo_topology hosts;
    kolo_figures_init(&figures);
    figures.far_byte = far_byte >= 0 ? far_byte : figures.far_byte;
    for (int rank = 0; rank < RANKS_THERE; rank++) {
        of[rank] = rank * nhosts / RANKS_THERE;
        nodes[rank] = rank % 2;
    }
    kolo_topology_fill(&hosts, RANKS_THERE, of, nodes, memory);
    struct kolo_question question = question_of(RANKS_THERE, bytes);
    question.layout.local = KOLO_PATH_SHM;
    question.layout.hosts = of;
    question.layout.nhosts = nhosts;
    question.layout.domains = hosts.domains.count;
    question.layout.has_board = has_board;
    question.args.hosts = &hosts;
    return kolo_choose(&question, &figures)->name;
}

Test(choose, plans_by_numa_node_where_the_line_between_nodes_is_what_takes_long)
{
    const char *name = chosen_on_nodes(1, 64 << 20, true, -1);
    cr_assert(strcmp(name, "twoshot") == 0, "%s: built-in figures, a board", name);
    name = chosen_on_nodes(1, 64 << 20, true, 0.2);
    cr_assert(strcmp(name, "numa") == 0, "%s: 5 GB/s between the nodes", name);
    name = chosen_on_nodes(1, 4, true, 0.2);
    cr_assert(strcmp(name, "oneshot") == 0, "%s: short vectors", name);
    name = chosen_on_nodes(2, 64 << 20, false, 0.05);
    cr_assert(strcmp(name, "numa") == 0, "%s: two hosts", name);
    name = chosen_on_nodes(2, 64 << 20, false, 0);
    cr_assert(strcmp(name, "numa") == 0 || strcmp(name, "twolevel") == 0, "%s: two hosts", name);
}

Test(choose, order)
{
    cr_assert(kolo_order_of(KOLO_FLOAT32, KOLO_SUM, false) == KOLO_ORDER_FREE);
    cr_assert(kolo_order_of(KOLO_FLOAT32, KOLO_SUM, true) == KOLO_ORDER_STRICT);
    cr_assert(kolo_order_of(KOLO_INT32, KOLO_AVERAGE, true) == KOLO_ORDER_FREE);
    cr_assert(kolo_order_of(KOLO_FLOAT64, KOLO_MAX, true) == KOLO_ORDER_FREE);
    cr_assert(kolo_order_of(KOLO_BFLOAT16, KOLO_SUM, false) == KOLO_ORDER_WIDE);
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    for (size_t bytes = 1; bytes < (size_t)1 << 32; bytes *= 2)
        for (int size = 1; size <= KOLO_FOLD_MAX; size = size * 3 + 1) {
            struct kolo_question question = question_of(size, bytes);
            question.order = KOLO_ORDER_STRICT;
            cr_assert(kolo_choose(&question, &figures)->is_ordered);
        }
    struct kolo_question question = question_of(KOLO_FOLD_MAX + 1, 100);
    question.order = KOLO_ORDER_STRICT;
    cr_assert(kolo_choose(&question, &figures) == NULL);
}

Test(choose, explains_every_plan)
{
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    for (int collective = 0; collective < KOLO_COLLECTIVES; collective++) {
        struct kolo_question question = question_of(8, 64 << 20);
        struct kolo_answer answers[32];
        question.collective = (enum kolo_collective)collective;
        size_t count = kolo_explain(&question, &figures, answers, 32), plans = 0;
        for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan))
            plans += plan->collective == question.collective;
        cr_assert(count == plans && count <= 32);
        cr_assert(answers[0].is_chosen && strcmp(answers[0].why, "fastest") == 0);
        for (size_t i = 1; i < count; i++) {
            cr_assert(!answers[i].is_chosen && answers[i].why[0] != '\0');
            cr_assert(answers[i].ns < 0 || answers[i].ns >= answers[i - 1].ns);
        }
        cr_assert(kolo_explain(&question, &figures, answers, 0) == plans);
    }
}

/** The plan chosen is the fastest for memory that all ranks see. For other memory another plan may
 * be faster, and then the explanation does not call it the fastest. */
Test(choose, explains_what_is_chosen_for_memory_that_others_do_not_see)
{
    struct kolo_question question = question_of(2, 1 << 20);
    struct kolo_answer answers[32];
    struct kolo_figures figures;
    kolo_figures_init(&figures);
    question.collective = KOLO_COLLECTIVE_ALLTOALL;
    question.layout.has_board = question.layout.is_unseen = true;
    size_t count = kolo_explain(&question, &figures, answers, 32), chosen = 0;
    for (size_t i = 0; i < count; i++) {
        chosen += answers[i].is_chosen;
        if (answers[i].is_chosen)
            cr_assert_str_eq(answers[i].why,
                             "fastest with kolo_alloc memory, by which all ranks choose; else "
                             "through stages, as expected here");
    }
    cr_assert(chosen == 1);
    question.layout.pull_from = 64 << 10;
    cr_assert(kolo_explain(&question, &figures, answers, 32) == count);
    for (size_t i = 0; i < count; i++)
        if (answers[i].is_chosen)
            cr_assert_str_eq(answers[i].why,
                             "fastest with kolo_alloc memory, by which all ranks choose; else "
                             "pulled by the kernel, as expected here");
}

/* ---- deterministic mode ---- */

enum { COUNT = 5000, RANKS = 5 };

/** Values for which every order of addition gives another sum. */
static float value_of(int rank, size_t i)
{
    uint32_t x = (uint32_t)(rank + 1) * 2654435761u ^ (uint32_t)i * 40503u;
    x ^= x >> 13;
    x *= 0x5bd1e995u;
    return (float)((int)(x % 20001) - 10000) * (x % 3 == 0 ? 1e-4f : x % 3 == 1 ? 1.0f : 1e4f);
}

static float folded(size_t i)
{
    float sum = value_of(0, i);
    for (int rank = 1; rank < RANKS; rank++)
        sum += value_of(rank, i);
    return sum;
}

static kolo_status expect_folded(const float *recv, size_t first, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        float expected = folded(first + i);
        WORLD_EXPECT(memcmp(&recv[i], &expected, sizeof expected) == 0,
                     "%s, element %zu: %a is not the fold %a", what, first + i, (double)recv[i],
                     (double)expected);
    }
    return KOLO_OK;
}

static kolo_status sum_in_order(struct kolo_comm *comm, void *argument)
{
    static const size_t counts[] = {1, 3, 64, 777, COUNT};
    float send[COUNT], recv[COUNT];
    struct kolo_opts opts = {.size = sizeof opts, .flags = KOLO_DETERMINISTIC};
    const struct kolo_opts *given = argument ? NULL : &opts;
    kolo_status status = KOLO_OK;
    for (size_t i = 0; i < COUNT; i++)
        send[i] = value_of(kolo_rank(comm), i);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t count = counts[c];
        KOLO_TRY(kolo_allreduce(comm, send, recv, count, KOLO_FLOAT32, KOLO_SUM, given, NULL));
        KOLO_TRY(expect_folded(recv, 0, count, "allreduce"));
        int root = (int)(c % RANKS);
        KOLO_TRY(kolo_reduce(comm, send, recv, count, KOLO_FLOAT32, KOLO_SUM, root, given, NULL));
        if (kolo_rank(comm) == root)
            KOLO_TRY(expect_folded(recv, 0, count, "reduce"));
        KOLO_TRY(kolo_reduce_scatter(comm, send, recv, count / RANKS, KOLO_FLOAT32, KOLO_SUM, given,
                                     NULL));
        KOLO_TRY(expect_folded(recv, count / RANKS * (size_t)kolo_rank(comm), count / RANKS,
                               "reduce_scatter"));
    }
out:
    return status;
}

ParameterizedTestParameters(choose, deterministic_sums_are_left_folds)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, choose, deterministic_sums_are_left_folds,
                  .timeout = 60)
{
    static const char *const plans[] = {"KOLO_PLAN=auto", "KOLO_PLAN=direct", "KOLO_PLAN=flat"};
    for (int i = 0; i < 6; i++) {
        bool by_setting = i % 2 == 1;
        struct world world = {.size = RANKS,
                              .transport = param->name,
                              .settings = {plans[i / 2], "KOLO_SEGMENT_BYTES=4096",
                                           by_setting ? "KOLO_DETERMINISTIC=1" : NULL}};
        WORLD_MUST_RUN(&world, sum_in_order, by_setting ? &world : NULL);
    }
}

static kolo_status sum_halves(struct kolo_comm *comm, void *argument)
{
    enum { HALVES = 300 };
    unsigned short send[HALVES], recv[HALVES];
    (void)argument;
    for (size_t i = 0; i < HALVES; i++)
        send[i] = kolo_bfloat16_from_float(value_of(kolo_rank(comm), i));
    kolo_status status =
        kolo_allreduce(comm, send, recv, HALVES, KOLO_BFLOAT16, KOLO_AVERAGE, NULL, NULL);
    for (size_t i = 0; status == KOLO_OK && i < HALVES; i++) {
        float sum = 0;
        for (int rank = 0; rank < kolo_size(comm); rank++) {
            float value = kolo_bfloat16_to_float(kolo_bfloat16_from_float(value_of(rank, i)));
            sum = rank == 0 ? value : sum + value;
        }
        unsigned short expected = kolo_bfloat16_from_float(sum / (float)kolo_size(comm));
        WORLD_EXPECT(recv[i] == expected, "element %zu: %04x, not %04x", i, recv[i], expected);
    }
    return status;
}

Test(choose, halves_are_accumulated_in_float32, .timeout = 60)
{
    struct world world = {.size = 6, .transport = "tcp"};
    WORLD_MUST_RUN(&world, sum_halves, NULL);
}

/* ---- what all ranks must know alike ---- */

enum { MACHINES = 4 };

/** The RDMA port of each rank: Mbit/s, and the last byte of its address. */
struct port {
    uint16_t mbit;
    uint8_t address;
};

static int rdma_number(void)
{
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && kolo_transports[i]; i++)
        if (strcmp(kolo_transports[i]->name, "rdma") == 0)
            return i;
    return -1;
}

/** What a rank with that port publishes: u32 speed, u8 count, u8 kind and 16 bytes of address. */
static struct kolo_address address_of(const struct port *port)
{
    enum { AT_COUNT = 4, AT_KIND = 5, AT_LAST = 21 };
    struct kolo_address address = {.bytes = AT_LAST + 1};
    memcpy(address.data, &port->mbit, sizeof port->mbit);
    address.data[AT_COUNT] = 1;
    address.data[AT_KIND] = 3;
    address.data[AT_LAST] = port->address;
    return address;
}

/** Chooses as if the ranks were on @p nhosts different hosts, the smallest of which has 3 cores,
 * and bound in turn to NUMA nodes @p nodes - 1 to 0, with @p ports (NULL: without any). */
static kolo_status choose_with(struct kolo_comm *comm, int nhosts, int nodes,
                               const struct port *ports)
{
    static const int32_t cores[MACHINES] = {64, 16, 3, 32};
    const struct kolo_peer *peers = comm->engine->peers;
    struct kolo_peer *there = malloc(MACHINES * sizeof *there);
    const struct kolo_plan *plan = NULL;
    struct kolo_plan_args args = {.size = MACHINES, .count = 1000, .segment = 4096};
    for (int rank = 0; rank < MACHINES; rank++) {
        there[rank] = peers[rank];
        there[rank].identity.cores = cores[rank];
        there[rank].identity.numa = nodes - 1 - rank / nhosts % nodes;
        there[rank].identity.host_id = (uint64_t)(rank % nhosts);
        if (ports)
            there[rank].addresses[rdma_number()] = address_of(&ports[rank]);
    }
    kolo_choices_free(&comm->choices);
    comm->engine->peers = there;
    kolo_status status =
        kolo_comm_choose(comm, KOLO_COLLECTIVE_ALLREDUCE, &args, 4, KOLO_ORDER_FREE, false, &plan);
    comm->engine->peers = peers;
    free(there);
    return status;
}

static kolo_status choose_there(struct kolo_comm *comm, int nhosts, int nodes)
{
    return choose_with(comm, nhosts, nodes, NULL);
}

static kolo_status expect_least(struct kolo_comm *comm, void *argument)
{
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int nhosts = 1; nhosts <= 2; nhosts++) {
        KOLO_TRY(choose_there(comm, nhosts, 1));
        const struct kolo_layout *layout = &comm->choices.layout;
        WORLD_EXPECT(layout->nhosts == nhosts && layout->cores == 3, "%d hosts of %d cores",
                     layout->nhosts, layout->cores);
    }
    kolo_choices_free(&comm->choices);
out:
    return status;
}

Test(choose, every_rank_goes_by_the_host_of_the_fewest_cores, .timeout = 60)
{
    struct world world = {.size = MACHINES, .transport = "tcp"};
    WORLD_MUST_RUN(&world, expect_least, NULL);
}

static kolo_status expect_order(struct kolo_comm *comm, void *argument)
{
    static const int orders[][MACHINES] = {{1, 3, 0, 2}, {2, 0, 3, 1}};
    kolo_status status = KOLO_OK;
    (void)argument;
    KOLO_TRY(choose_there(comm, 1, 1));
    WORLD_EXPECT(kolo_choices_hosts(&comm->choices) == NULL, "one host of one node");
    for (int nhosts = 1; nhosts <= 2; nhosts++) {
        KOLO_TRY(choose_there(comm, nhosts, 2));
        const struct kolo_topology *hosts = kolo_choices_hosts(&comm->choices);
        WORLD_EXPECT(hosts && hosts->count == nhosts, "%d hosts are mapped", nhosts);
        for (int at = 0; at < MACHINES; at++)
            WORLD_EXPECT(hosts->ranks[at] == orders[nhosts - 1][at], "rank %d at %d of %d hosts",
                         hosts->ranks[at], at, nhosts);
    }
    kolo_choices_free(&comm->choices);
out:
    return status;
}

Test(choose, ranks_are_in_the_order_of_hosts_and_numa_nodes, .timeout = 60)
{
    struct world world = {.size = MACHINES, .transport = "tcp"};
    WORLD_MUST_RUN(&world, expect_order, NULL);
}

static kolo_status expect_lines(struct kolo_comm *comm, void *argument)
{
    static const struct {
        double mbit; /* 0: not known */
        struct port ports[MACHINES];
    } cases[] = {
        {20000, {{10000, 1}, {50000, 2}, {10000, 3}, {50000, 4}}}, /* 20000 and 100000 */
        {10000, {{10000, 1}, {50000, 2}, {10000, 1}, {50000, 2}}}, /* one port each */
        {50000, {{0, 1}, {50000, 2}, {0, 3}, {50000, 2}}},         /* a host does not know */
        {40000, {{40000, 1}, {40000, 1}, {40000, 1}, {40000, 1}}}, /* alike on both hosts */
        {0, {{0, 1}, {0, 2}, {0, 3}, {0, 4}}},
    };
    struct kolo_figures *figures = &comm->engine->figures;
    kolo_status status = KOLO_OK;
    (void)argument;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        KOLO_TRY(choose_with(comm, 2, 1, cases[i].ports));
        const struct kolo_layout *layout = &comm->choices.layout;
        const double mbit = layout->line_byte > 0 ? 8000 / layout->line_byte : 0;
        WORLD_EXPECT(layout->by_rdma && fabs(mbit - cases[i].mbit) < 1, "case %zu: %g Mbit/s", i,
                     mbit);
    }
    figures->rdma_wire_byte = 0.05;
    KOLO_TRY(choose_with(comm, 2, 1, cases[0].ports));
    WORLD_EXPECT(comm->choices.layout.line_byte <= 0, "it was measured");
    KOLO_TRY(choose_with(comm, 1, 1, cases[0].ports));
    WORLD_EXPECT(comm->choices.layout.line_byte <= 0, "one host has no line");
    kolo_choices_free(&comm->choices);
out:
    return status;
}

Test(choose, lines_are_as_fast_as_the_rdma_ports_that_the_ranks_of_a_host_use, .timeout = 60)
{
    struct world world = {.size = MACHINES, .transport = "auto"};
    if (rdma_number() < 0)
        cr_skip_test("this build has no RDMA");
    WORLD_MUST_RUN(&world, expect_lines, NULL);
}

/* ---- settings ---- */

static kolo_status expect_refusal(struct kolo_comm *comm, void *argument)
{
    float send[4] = {1, 2, 3, 4}, recv[4] = {7, 7, 7, 7};
    kolo_status status = kolo_allreduce(comm, send, recv, 4, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED, "status %d", (int)status);
    WORLD_EXPECT(strstr(kolo_error_detail(), argument) != NULL, "%s", kolo_error_detail());
    WORLD_EXPECT(recv[0] == 7 && recv[3] == 7, "something was written");
    return kolo_barrier(comm, NULL, NULL);
}

Test(choose, a_forced_plan_that_cannot_is_refused, .timeout = 60)
{
    struct world world = {
        .size = 3, .transport = "tcp", .settings = {"KOLO_PLAN=ring", "KOLO_DETERMINISTIC=1"}};
    WORLD_MUST_RUN(&world, expect_refusal, (void *)(uintptr_t) "not combine in the order of ranks");
}

/** Few but long elements, and two whole vectors of 18 MB: a bound on the number of elements would
 * accept both. */
static kolo_status expect_refusal_of_scratch(struct kolo_comm *comm, void *argument)
{
    enum { ELEMENT = 4096, BLOCK = 1500 };
    char *send = calloc(BLOCK * 3, ELEMENT), *recv = calloc(BLOCK * 3, ELEMENT);
    kolo_status status;
    recv[0] = 7;
    (void)argument;
    if (strcmp(comm->engine->settings.plan, "flat") == 0)
        status = kolo_allreduce(comm, send, recv, BLOCK * 3 * ELEMENT / 8, KOLO_INT64, KOLO_SUM,
                                NULL, NULL);
    else
        status = kolo_alltoall(comm, send, recv, BLOCK, KOLO_OPAQUE(ELEMENT), NULL, NULL);
    bool is_written = recv[0] != 7;
    free(send);
    free(recv);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED && !is_written &&
                     strstr(kolo_error_detail(), "more than 16 MiB of scratch on a rank"),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    return kolo_barrier(comm, NULL, NULL);
}

Test(choose, a_forced_plan_that_would_take_too_much_scratch_is_refused, .timeout = 60)
{
    static const char *const plans[] = {"KOLO_PLAN=flat", "KOLO_PLAN=bruck"};
    for (int i = 0; i < 2; i++) {
        struct world world = {.size = 3, .transport = "tcp", .settings = {plans[i]}};
        WORLD_MUST_RUN(&world, expect_refusal_of_scratch, NULL);
    }
}

/** The program's collectives are refused, but not those that kolo_split and kolo_dup use to
 * agree. */
static kolo_status split_by_another_plan(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *part = NULL, *copy = NULL;
    int32_t value = kolo_rank(comm), other = -1;
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_split(comm, kolo_rank(comm) == 2 ? KOLO_NO_COLOUR : 4, 0, NULL, &part));
    KOLO_TRY(kolo_dup(comm, NULL, &copy));
    if (kolo_rank(comm) == 0)
        KOLO_TRY(kolo_send(part, &value, 1, KOLO_INT32, 1, NULL, NULL));
    if (kolo_rank(comm) == 1)
        KOLO_TRY(kolo_recv(part, &other, 1, KOLO_INT32, 0, NULL, NULL));
    WORLD_EXPECT(kolo_rank(comm) != 1 || other == 0, "%d came", (int)other);
    status = kolo_allreduce(copy, &value, &other, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED &&
                     strstr(kolo_error_detail(), "do not share memory"),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    KOLO_TRY(kolo_finalize(copy));
    if (part)
        KOLO_TRY(kolo_finalize(part));
out:
    return status;
}

Test(choose, a_forced_plan_bars_no_call_of_the_librarys_own, .timeout = 60)
{
    static const char *const plans[] = {"KOLO_PLAN=twoshot", "KOLO_PLAN=oneshot"};
    for (int i = 0; i < 2; i++) {
        struct world world = {.size = 3, .transport = "tcp", .settings = {plans[i]}};
        WORLD_MUST_RUN(&world, split_by_another_plan, NULL);
    }
}

static kolo_status expect_refusal_of_counts(struct kolo_comm *comm, void *argument)
{
    const size_t counts[] = {1, 2, 1};
    float send[2] = {1, 2}, recv[4] = {7, 7, 7, 7};
    kolo_status status = kolo_allgatherv(comm, send, recv, counts, NULL, KOLO_FLOAT32, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_UNSUPPORTED, "status %d", (int)status);
    WORLD_EXPECT(strstr(kolo_error_detail(), argument) != NULL, "%s", kolo_error_detail());
    WORLD_EXPECT(recv[0] == 7 && recv[3] == 7, "something was written");
    return kolo_barrier(comm, NULL, NULL);
}

Test(choose, a_refusal_names_no_count_where_there_are_many, .timeout = 60)
{
    struct world world = {.size = 3, .transport = "tcp", .settings = {"KOLO_PLAN=bruck"}};
    void *words = (void *)(uintptr_t) "KOLO_PLAN=bruck: allgather with counts by rank on 3 ranks: ";
    WORLD_MUST_RUN(&world, expect_refusal_of_counts, words);
}

static kolo_status any_allreduce(struct kolo_comm *comm, void *argument)
{
    float one = 1, sum = 0;
    (void)argument;
    kolo_status status = kolo_allreduce(comm, &one, &sum, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    WORLD_EXPECT(status != KOLO_OK || sum == (float)kolo_size(comm), "%g", (double)sum);
    return status;
}

Test(choose, rank_0_hands_its_profile_to_all, .timeout = 60)
{
    char path[] = "/tmp/kolo-profile-XXXXXX", setting[64];
    FILE *file = fdopen(mkstemp(path), "w");
    fputs("loopback.latency 1e6\n", file);
    fclose(file);
    snprintf(setting, sizeof setting, "KOLO_PROFILE=%s", path);
    struct world world = {.size = 4, .transport = "tcp", .settings = {setting}};
    WORLD_MUST_RUN(&world, any_allreduce, NULL);
    file = fopen(path, "w");
    fputs("loopback.latency fast\n", file);
    fclose(file);
    cr_assert(world_run(&world, any_allreduce, NULL) != KOLO_OK);
    remove(path);
}
