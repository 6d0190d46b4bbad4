// SPDX-License-Identifier: Apache-2.0
// The simulator runs every plan for every world size, and must reject plans that are broken on
// purpose.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>

#include <string.h>

#include "tests/support/length.h"
#include "tests/support/simulate.h"

static bool fits(const struct kolo_simulation *what)
{
    struct kolo_plan_args args = {.size = what->size,
                                  .root = what->root,
                                  .hosts = what->hosts,
                                  .count = what->count,
                                  .counts = what->counts,
                                  .displs = what->displs,
                                  .segment = what->segment};
    return what->plan->fits(&args) == NULL;
}

/** As kolo_plan_next, but skips plans on a board, which have no steps:
 * tests/runtime/test_board_moves.c tests them. */
static const struct kolo_plan *next_plan(const struct kolo_plan *plan)
{
    do
        plan = kolo_plan_next(plan);
    while (plan && (plan->on_board || plan->is_nested));
    return plan;
}

/** Distributes ranks to @p count hosts: in turn (@p way 0), at random (1, with @p seed), in blocks
 * (2), or at random to hosts and NUMA nodes (3). NULL: one host, in rank order. */
static const struct kolo_topology *deal(int size, int count, int way, unsigned seed)
{
    static int of[4096], memory[KOLO_HOSTS_INTS(4096)], numbers[4096], nodes[4096];
    static struct kolo_topology hosts;
    int next = 0;
    for (int host = 0; host < count; host++)
        numbers[host] = -1;
    for (int rank = 0; rank < size; rank++) {
        seed = seed * 1103515245u + 12345;
        int drawn = way == 0  ? rank % count
                    : way % 2 ? (int)(seed >> 16) % count
                              : (int)((long)rank * count / size);
        if (numbers[drawn] < 0)
            numbers[drawn] = next++;
        of[rank] = numbers[drawn];
        nodes[rank] = (int)(seed >> 24) % 4 - 1;
    }
    kolo_topology_fill(&hosts, size, of, way == 3 ? nodes : NULL, memory);
    return hosts.count > 1 || way == 3 ? &hosts : NULL;
}

/** Distributes @p size ranks in blocks to @p count hosts, and on each host in turn to @p nodes NUMA
 * nodes. */
static const struct kolo_topology *deal_nodes(int size, int count, int nodes)
{
    static int of[4096], memory[KOLO_HOSTS_INTS(4096)], on[4096];
    static struct kolo_topology hosts;
    for (int rank = 0; rank < size; rank++) {
        of[rank] = (int)((long)rank * count / size);
        on[rank] = rank % nodes;
    }
    kolo_topology_fill(&hosts, size, of, on, memory);
    return &hosts;
}

static bool is_numa(const struct kolo_plan *plan)
{
    return strcmp(plan->name, "numa") == 0;
}

static bool is_by_leaders(const struct kolo_plan *plan)
{
    return strcmp(plan->name, "leaders") == 0;
}

/** The hosts of the ranks that @p plan needs: any, or hosts or NUMA nodes that have several ranks
 * each. */
static const struct kolo_topology *hosts_for(const struct kolo_plan *plan, int size)
{
    struct kolo_plan_args args = {.size = size, .count = 1, .segment = 1};
    if (is_numa(plan) && size >= 8 && plan->collective == KOLO_COLLECTIVE_ALLREDUCE)
        return deal_nodes(size, size / 4, 2);
    if (is_numa(plan))
        return deal_nodes(size, 1, size < 6 ? 2 : size / 3);
    const int way = is_by_leaders(plan) ? 2 : 0;
    return !plan->fits(&args) ? NULL : deal(size, size < 6 ? 2 : size / 3, way, 0);
}

/** The smallest world of at least @p size ranks that the plan supports with the hosts that
 * hosts_for() gives it: some plans need equal numbers of ranks on all hosts. */
static int size_for(const struct kolo_plan *plan, int size)
{
    struct kolo_plan_args args = {.size = size, .count = 1, .segment = 1};
    args.hosts = hosts_for(plan, size);
    while (args.hosts && plan->fits(&args))
        args.hosts = hosts_for(plan, ++args.size);
    return args.size;
}

static void prove(struct kolo_simulation what)
{
    if (!fits(&what))
        return;
    kolo_status status = kolo_simulate(&what, NULL);
    cr_assert(status == KOLO_OK, "%s %s size %d root %d count %zu segment %zu in place %d: %s",
              kolo_collective_text(what.plan->collective), what.plan->name, what.size, what.root,
              what.count, what.segment, what.in_place, kolo_error_detail());
}

static bool has_root(const struct kolo_plan *plan)
{
    return plan->collective == KOLO_COLLECTIVE_REDUCE ||
           plan->collective == KOLO_COLLECTIVE_BROADCAST ||
           plan->collective == KOLO_COLLECTIVE_GATHER ||
           plan->collective == KOLO_COLLECTIVE_SCATTER;
}

/** Large worlds take minutes with a sanitizer: TEST_LARGE_WORLDS=0 leaves them to other builds. */
static bool are_large_wanted(void)
{
    const char *value = getenv("TEST_LARGE_WORLDS");
    return !value || strcmp(value, "0") != 0;
}

/** Of the worlds of more than 32 ranks, except in the long run, the multiples of 8 and the sizes
 * beside them. Of those of more than 12 that are left to other builds, each multiple of 16 and the
 * size after it, so that the sanitizer sees the same code. */
static bool is_size_wanted(int size)
{
    if (size > 12 && !are_large_wanted())
        return size % 16 <= 1;
    return size <= 32 || test_is_long() || (size + 1) % 8 <= 2;
}

/** Proves both in and out of place, and segmented plans with segments of one, some, and all
 * elements. In large worlds it proves one of these, another one for each count. In worlds of more
 * than 32 ranks, except in the long run, it proves one way of placing, and the other one for the
 * next count and for the next size. */
static void prove_variants(struct kolo_simulation what, int turn)
{
    size_t segments[] = {1, 3, 16, 16 * (what.count + 1)};
    for (size_t i = what.plan->is_segmented ? 0 : 3; i < 4; i++) {
        if (what.size > 16 && what.plan->is_segmented && i != (what.count + (size_t)what.size) % 4)
            continue;
        what.segment = segments[i];
        for (int in_place = 0; in_place < 2; in_place++) {
            what.in_place = in_place;
            if (what.size <= 32 || test_is_long() || in_place == turn % 2)
                prove(what);
        }
    }
}

static void prove_size(int size)
{
    size_t n = (size_t)size, counts[] = {0, 1, n - 1, n, n + 1, 13, 2 * n + 3};
    for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan)) {
        bool per_rank = plan->collective != KOLO_COLLECTIVE_ALLREDUCE &&
                        plan->collective != KOLO_COLLECTIVE_REDUCE &&
                        plan->collective != KOLO_COLLECTIVE_BROADCAST;
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            for (int root = 0; root < (has_root(plan) ? size : 1); root++) {
                if (size > 9 && root != 0 && root != size - 1 && root != (int)(c * 5 % n))
                    continue;
                if (per_rank && counts[c] > 13)
                    continue; /* n blocks of n elements prove no more than blocks of 13 */
                prove_variants(
                    (struct kolo_simulation){
                        .plan = plan, .size = size, .root = root, .count = counts[c]},
                    (int)c + size / 2);
            }
    }
}

/* A long broadcast along a binary tree has pieces of one to four segments, depending on the height
 * of the tree. */
Test(simulate, long_pieces_of_a_binary_broadcast, .timeout = 200)
{
    static const size_t counts[] = {31, 32, 33, 49, 64, 100, 130, 201, 333};
    const struct kolo_plan *plan = kolo_plan_find(KOLO_COLLECTIVE_BROADCAST, "binary");
    for (int size = 2; size <= 20; size++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t segment = 1; segment <= 5; segment += 2)
                prove((struct kolo_simulation){.plan = plan,
                                               .size = size,
                                               .root = (int)c % size,
                                               .count = counts[c],
                                               .segment = segment});
}

/** The largest number of steps in flight of a direct plan among @p size ranks; also proves the
 * plan. */
static size_t in_flight(enum kolo_collective collective, int size, size_t count,
                        const struct kolo_topology *hosts)
{
    const struct kolo_plan *plan = kolo_plan_find(collective, "direct");
    struct kolo_plan_args args = {.size = size, .count = count, .segment = 16, .hosts = hosts};
    size_t window = kolo_plan_window(plan, &args), most = 0;
    for (size_t i = 0; i < plan->nsteps(&args); i++) {
        struct kolo_step step;
        plan->step(&args, i, &step);
        most = step.after > most ? step.after : most;
    }
    cr_assert(most == window, "%d ranks, %zu elements: %zu of %zu", size, count, most, window);
    prove((struct kolo_simulation){
        .plan = plan, .size = size, .count = count, .segment = 16, .hosts = hosts});
    return window;
}

/* Of blocks of at least a quarter of a segment, not all are in flight, except across several
 * hosts. */
Test(simulate, direct_exchanges_of_long_blocks, .timeout = 200)
{
    static const enum kolo_collective both[] = {KOLO_COLLECTIVE_ALLGATHER,
                                                KOLO_COLLECTIVE_ALLTOALL};
    for (int i = 0; i < 2; i++) {
        for (int size = 2; size <= 40; size++)
            for (size_t count = 1; is_size_wanted(size) && count <= 16 * 9;
                 count += size < 9 ? 1 : 7)
                in_flight(both[i], size, count, NULL);
        cr_assert(in_flight(both[i], 8, 16, NULL) == 7);
        cr_assert(in_flight(both[i], 8, 2 * 16, NULL) == 4);
        cr_assert(in_flight(both[i], 8, 4 * 16, NULL) == 2);
        cr_assert(in_flight(both[i], 8, 8 * 16, NULL) == 1);
        cr_assert(in_flight(both[i], 8, 100 * 16, NULL) == 1);
        cr_assert(in_flight(both[i], 8, 8 * 16, deal(8, 1, 3, 1)) == 1, "a host of several nodes");
        cr_assert(in_flight(both[i], 8, 8 * 16, deal(8, 2, 0, 1)) == 7, "two hosts");
    }
}

/* What fits into four segments of scratch is one piece. Otherwise all pieces have the same length,
 * so that no piece has only a few elements, and two of them fit into five segments. */
Test(simulate, direct_folds_in_even_pieces, .timeout = 200)
{
    const struct kolo_plan *plan = kolo_plan_find(KOLO_COLLECTIVE_REDUCE_SCATTER, "direct");
    enum { SEGMENT = 240 };
    for (int size = 2; size <= 17; size++)
        for (size_t block = 1; block <= 5000; block += block < 1000 ? 1 : 37) {
            size_t turns = (size_t)size - 1, share = SEGMENT / (turns < 16 ? turns : 16);
            struct kolo_plan_args args = {.size = size, .count = block, .segment = SEGMENT};
            size_t scratch = plan->scratch(&args), pieces = plan->nsteps(&args) / (turns + 1);
            size_t length = scratch / turns / (pieces > 1 ? 2 : 1);
            cr_assert((pieces == 1) == (block <= 4 * share), "%d ranks, %zu: %zu pieces", size,
                      block, pieces);
            cr_assert(scratch <= 5 * SEGMENT + 2 * turns, "%d ranks, %zu: scratch %zu", size, block,
                      scratch);
            cr_assert(pieces * length - block < pieces, "%d ranks, %zu: %zu pieces of %zu", size,
                      block, pieces, length);
        }
}

static void prove_sizes(int first, int last)
{
    for (int size = first; size <= last; size++)
        if (is_size_wanted(size))
            prove_size(size);
}

Test(simulate, every_plan_for_1_to_32, .timeout = 200)
{
    prove_sizes(1, 32);
}

Test(simulate, every_plan_for_33_to_50, .timeout = 200)
{
    prove_sizes(33, 50);
}

Test(simulate, every_plan_for_51_to_64, .timeout = 200)
{
    prove_sizes(51, 64);
}

/** Plans whose number of steps grows with the world, which are proved separately, in parallel. */
static bool is_linear(const struct kolo_plan *plan)
{
    struct kolo_plan_args args = {.size = 1000, .root = 0, .rank = 1, .count = 1, .segment = 1};
    struct kolo_plan_args roots = args;
    roots.rank = 0;
    args.hosts = roots.hosts = hosts_for(plan, 1000);
    return plan->nsteps(&args) > 100 || plan->nsteps(&roots) > 100;
}

/** @p variant from 0 to 3 selects counts and roots; every other variant is in place. */
static void prove_large(const struct kolo_plan *plan, int size, int variant)
{
    size_t n = (size_t)size, counts[] = {n + 1, 1, n - 1, 0};
    bool per_rank = plan->collective != KOLO_COLLECTIVE_ALLREDUCE &&
                    plan->collective != KOLO_COLLECTIVE_REDUCE &&
                    plan->collective != KOLO_COLLECTIVE_BROADCAST;
    struct kolo_simulation what = {.plan = plan,
                                   .size = size,
                                   .samples = 24,
                                   .count = per_rank ? (size_t)(variant + 1) % 3 : counts[variant],
                                   .segment = n / 3 + 1,
                                   .in_place = variant % 2 == 1};
    if (has_root(plan))
        what.root = variant % 2 == 0 ? size / 3 : size - 1;
    what.hosts = hosts_for(plan, size);
    prove(what);
}

Test(simulate, every_plan_for_127_and_128, .timeout = 200)
{
    for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan))
        for (int variant = 0; variant < 4; variant++)
            for (int size = 127; size <= 128; size++)
                prove_large(plan, size, variant);
}

/* Plans of many steps are proved for 1000 ranks or more below, and here only in the long run. */
Test(simulate, every_plan_for_1000, .timeout = 400)
{
    for (const struct kolo_plan *plan = next_plan(NULL); are_large_wanted() && plan;
         plan = next_plan(plan)) {
        int variants = !is_linear(plan) ? 4 : test_is_long() ? 1 : 0;
        for (int variant = 0; variant < variants; variant++)
            prove_large(plan, 1000, variant);
    }
}

Test(simulate, plans_of_few_steps_for_thousands, .timeout = 400)
{
    for (const struct kolo_plan *plan = next_plan(NULL); are_large_wanted() && plan;
         plan = next_plan(plan))
        if (!is_linear(plan))
            prove_large(plan, test_is_long() ? 4096 : 2048, 0);
}

static int linear_plans[64];

ParameterizedTestParameters(simulate, plans_of_many_steps_for_thousands)
{
    size_t count = 0;
    for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan))
        if (is_linear(plan))
            linear_plans[count++] = (int)plan->number;
    return cr_make_param_array(int, linear_plans, count);
}
/** n ranks of n steps each take time proportional to n^2, so of these plans only the ring, with
 * which everything else is compared, is proved for 2048 ranks outside the long run. */
ParameterizedTest(int *plan, simulate, plans_of_many_steps_for_thousands, .timeout = 400)
{
    const struct kolo_plan *linear = kolo_plans[*plan];
    bool is_first =
        linear->collective == KOLO_COLLECTIVE_ALLREDUCE && strcmp(linear->name, "ring") == 0;
    if (are_large_wanted())
        prove_large(linear,
                    test_is_long() ? 4096
                    : is_first     ? 2048
                                   : 1000,
                    linear->is_ordered ? 2 : 0);
}

/** Every plan must work whatever hosts its ranks are on and however they are numbered. */
static void prove_on_hosts(int size, int count, int way, unsigned seed)
{
    const struct kolo_topology *hosts = deal(size, count, way, seed);
    for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan)) {
        bool per_rank = plan->collective != KOLO_COLLECTIVE_ALLREDUCE &&
                        plan->collective != KOLO_COLLECTIVE_REDUCE &&
                        plan->collective != KOLO_COLLECTIVE_BROADCAST;
        prove((struct kolo_simulation){.plan = plan,
                                       .size = size,
                                       .root = (int)(seed % (unsigned)size),
                                       .hosts = hosts,
                                       .count = per_rank ? seed % 5 : seed % (2 * (unsigned)size),
                                       .segment = 1 + seed % 3,
                                       .in_place = seed % 2});
    }
}

Test(simulate, every_plan_on_hosts, .timeout = 200)
{
    const int largest = are_large_wanted() ? 64 : 33;
    for (int size = 1; size <= largest; size += size < 20 ? 1 : 4)
        for (int way = 0; is_size_wanted(size) && way < 3 + (size % 3 == 0); way++)
            for (int count = 1; count <= size; count += 1 + size / (test_is_long() ? 7 : 3))
                prove_on_hosts(size, count, way, (unsigned)(size * 31 + way * 7 + count));
}

Test(simulate, rings_go_from_node_to_node_once)
{
    enum { N = 12, COUNT = 12000 };
    static const int nodes[N] = {0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0};
    for (int nhosts = 1; nhosts <= 2; nhosts++) {
        int of[N], memory[KOLO_HOSTS_INTS(N)];
        struct kolo_topology hosts;
        struct kolo_plan_args args = {.size = N, .count = COUNT, .segment = 1000, .hosts = &hosts};
        size_t elements = 0;
        for (int rank = 0; rank < N; rank++)
            of[rank] = rank % 4 < 2 ? 0 : nhosts - 1;
        kolo_topology_fill(&hosts, N, of, nodes, memory);
        const struct kolo_plan *plan = kolo_plan_find(KOLO_COLLECTIVE_ALLREDUCE, "ring");
        for (args.rank = 0; args.rank < N; args.rank++)
            for (size_t i = 0; i < plan->nsteps(&args); i++) {
                struct kolo_step step;
                plan->step(&args, i, &step);
                if (step.to >= 0 && of[step.to] == of[args.rank] &&
                    nodes[step.to] != nodes[args.rank])
                    elements += step.out.count;
            }
        cr_assert(elements == 2 * 2 * COUNT / N * (N - 1), "%d hosts: two links of a ring: %zu",
                  nhosts, elements);
    }
}

/** A world of up to 3 hosts with up to 4 NUMA nodes each, drawn from @p seed. Mostly all hosts have
 * equal numbers of nodes, and each node has one rank or more. In some worlds the nodes of a few
 * ranks are unknown, or hosts have different numbers of nodes. */
static const struct kolo_topology *draw_nodes(int size, unsigned seed)
{
    static int of[64], memory[KOLO_HOSTS_INTS(64)], on[64];
    static struct kolo_topology hosts;
    unsigned drawn = seed * 2654435761u + (unsigned)size;
    int count = 1 + (int)(seed % 3), nodes = 1 + (int)(seed / 3 % 4), numbers[3] = {-1, -1, -1};
    int odd = (int)(seed % 11), next = 0;
    count = count > size ? size : count;
    nodes = count * nodes > size ? size / count : nodes;
    for (int rank = 0; rank < size; rank++) {
        drawn = drawn * 1103515245u + 12345;
        int spot = rank < count * nodes ? rank : (int)(drawn >> 16) % (count * nodes);
        of[rank] = spot % count;
        on[rank] = 2 * (spot / count);
        if (odd == 0 && (drawn >> 8) % 16 == 0)
            on[rank] = -1;
        if (odd == 1 && (drawn >> 8) % 16 == 0)
            on[rank] = 1;
    }
    for (int rank = size - 1; rank > 0; rank--) { /* shuffles the ranks */
        drawn = drawn * 1103515245u + 12345;
        int other = (int)(drawn >> 16) % (rank + 1), host = of[rank], node = on[rank];
        of[rank] = of[other], on[rank] = on[other];
        of[other] = host, on[other] = node;
    }
    for (int rank = 0; rank < size; rank++) {
        if (numbers[of[rank]] < 0)
            numbers[of[rank]] = next++;
        of[rank] = numbers[of[rank]];
    }
    kolo_topology_fill(&hosts, size, of, on, memory);
    return &hosts;
}

static void prove_by_node(const struct kolo_topology *hosts, int size, unsigned seed, int *proved)
{
    for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan)) {
        bool is_short = plan->collective != KOLO_COLLECTIVE_ALLREDUCE;
        struct kolo_simulation what = {
            .plan = plan,
            .size = size,
            .root = (int)(seed * 7) % size,
            .hosts = hosts,
            .count = seed % (is_short ? 7 : 3 * (unsigned)size),
            .segment = seed % 4 == 0 ? 1000 : 1 + seed % 3,
            .in_place = seed % 2,
        };
        if (!is_numa(plan) || !fits(&what))
            continue;
        prove(what);
        ++*proved;
    }
}

/** There are few worlds whose hosts have equal numbers of ranks on all nodes, and all of these are
 * proved; of the others, the long run proves all, and other runs one in five. */
Test(simulate, plans_by_numa_node_for_1_to_64, .timeout = 200)
{
    int uneven = 0, even = 0, sizes = 0;
    for (int size = 1; size <= 64; size++) {
        sizes += is_size_wanted(size);
        for (unsigned seed = 0; is_size_wanted(size) && seed < 66; seed++) {
            const struct kolo_topology *hosts = draw_nodes(size, seed);
            if (hosts->domains.least == hosts->domains.most)
                prove_by_node(hosts, size, seed, &even);
            else if (test_is_long() || seed % 5 == 0)
                prove_by_node(hosts, size, seed, &uneven);
        }
    }
    cr_assert(uneven > 2000 * sizes / 64 && even > 100 * sizes / 64, "%d sizes: %d uneven, %d even",
              sizes, uneven, even);
}

Test(simulate, plans_by_numa_node_say_why_they_do_not_fit)
{
    static const int of[] = {0, 0, 0, 1, 1, 1}, equal[] = {0, 1, 1, 0, 0, 1};
    static const int more[] = {0, 1, 1, 0, 0, 0}, unknown[] = {0, -1, 1, -1, 0, 1};
    static const int alone[] = {0, 1, 2, 0, 1, 2};
    static const struct {
        const int *nodes;
        const char *why, *of_others; /* for allreduce, and for the other collectives */
    } cases[] = {{equal, NULL, NULL},
                 {more, "more NUMA nodes than others", NULL},
                 {unknown, "not known", "not known"},
                 {alone, "NUMA node of its own", "NUMA node of its own"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int memory[KOLO_HOSTS_INTS(6)];
        struct kolo_topology hosts;
        struct kolo_plan_args args = {.size = 6, .count = 8, .segment = 8, .hosts = &hosts};
        kolo_topology_fill(&hosts, 6, of, cases[i].nodes, memory);
        const char *why = kolo_plan_numa_allreduce.fits(&args),
                   *of_others = kolo_plan_numa_broadcast.fits(&args);
        cr_assert(!cases[i].why ? why == NULL : why && strstr(why, cases[i].why), "%zu", i);
        cr_assert(!cases[i].of_others ? of_others == NULL
                                      : of_others && strstr(of_others, cases[i].of_others),
                  "%zu", i);
    }
}

/** The number of elements that go from host to host when plan @p name runs. */
static size_t crossings(enum kolo_collective collective, const char *name,
                        struct kolo_plan_args args)
{
    const struct kolo_plan *plan = kolo_plan_find(collective, name);
    size_t elements = 0;
    for (args.rank = 0; args.rank < args.size; args.rank++)
        for (size_t i = 0; i < plan->nsteps(&args); i++) {
            struct kolo_step step;
            plan->step(&args, i, &step);
            if (step.to >= 0 && args.hosts->of[step.to] != args.hosts->of[args.rank])
                elements += step.out.count;
        }
    return elements;
}

/** The number of elements that go between domains of one host when plan @p name runs. */
static size_t domain_crossings(enum kolo_collective collective, const char *name,
                               struct kolo_plan_args args)
{
    const struct kolo_plan *plan = kolo_plan_find(collective, name);
    const struct kolo_topology *hosts = args.hosts;
    size_t elements = 0;
    for (args.rank = 0; args.rank < args.size; args.rank++)
        for (size_t i = 0; i < plan->nsteps(&args); i++) {
            struct kolo_step step;
            plan->step(&args, i, &step);
            if (step.to >= 0 && hosts->of[step.to] == hosts->of[args.rank] &&
                hosts->domains.of[step.to] != hosts->domains.of[args.rank])
                elements += step.out.count;
        }
    return elements;
}

Test(simulate, what_crosses_between_numa_nodes)
{
    enum { N = 16, COUNT = 16000 };
    for (int nhosts = 1; nhosts <= 2; nhosts++)
        for (int nodes = 2; nodes <= 4; nodes += 2) {
            struct kolo_plan_args args = {.size = N, .count = COUNT, .segment = 1000};
            args.hosts = deal_nodes(N, nhosts, nodes);
            size_t others = (size_t)nodes - 1, hosts = (size_t)nhosts;
            size_t elements = domain_crossings(KOLO_COLLECTIVE_ALLREDUCE, "numa", args);
            cr_assert(elements == 2 * others * COUNT * hosts, "%d on %d hosts: %zu", nodes, nhosts,
                      elements);
            if (nhosts == 2) {
                size_t flat = domain_crossings(KOLO_COLLECTIVE_ALLREDUCE, "twolevel", args);
                cr_assert(flat >= 2 * elements, "%zu by hosts alone, %zu by node", flat, elements);
                flat = crossings(KOLO_COLLECTIVE_ALLREDUCE, "twolevel", args);
                elements = crossings(KOLO_COLLECTIVE_ALLREDUCE, "numa", args);
                cr_assert(elements == flat, "over the wire %zu and %zu", elements, flat);
                continue;
            }
            elements = domain_crossings(KOLO_COLLECTIVE_BROADCAST, "numa", args);
            cr_assert(elements == others * COUNT, "a tree over %d: %zu", nodes, elements);
            elements = domain_crossings(KOLO_COLLECTIVE_REDUCE, "numa", args);
            cr_assert(elements == others * COUNT, "a tree over %d: %zu", nodes, elements);
            elements = domain_crossings(KOLO_COLLECTIVE_ALLGATHER, "numa", args);
            cr_assert(elements == others * COUNT * N, "each block once to each: %zu", elements);
            elements = domain_crossings(KOLO_COLLECTIVE_REDUCE_SCATTER, "numa", args);
            cr_assert(elements == others * COUNT * N, "each sum once: %zu", elements);
        }
}

Test(simulate, what_crosses_between_hosts)
{
    enum { N = 8, COUNT = 8000 };
    for (int way = 0; way < 3; way += 2) {
        struct kolo_plan_args args = {
            .size = N, .count = COUNT, .segment = 1000, .hosts = deal(N, 2, way, 0)};
        size_t elements = crossings(KOLO_COLLECTIVE_ALLREDUCE, "ring", args);
        cr_assert(elements == 2 * 2 * COUNT / N * (N - 1), "two links of a ring: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_ALLREDUCE, "doubling", args);
        cr_assert(elements == N * COUNT, "one exchange of whole vectors: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_ALLREDUCE, "twolevel", args);
        cr_assert(elements == 2 * COUNT, "half a vector each way, twice: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_BROADCAST, "ring", args);
        cr_assert(elements == COUNT, "a chain: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_BROADCAST, "twolevel", args);
        cr_assert(elements == COUNT, "a tree: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_BROADCAST, "spread", args);
        cr_assert(elements == COUNT, "what is far first: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_REDUCE, "twolevel", args);
        cr_assert(elements == COUNT, "the same, back: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_ALLGATHER, "ring", args);
        cr_assert(elements == 2 * COUNT * (N - 1), "two links of a ring: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_ALLGATHER, "twolevel", args);
        cr_assert(elements == N * COUNT, "each block once: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_REDUCE_SCATTER, "twolevel", args);
        cr_assert(elements == N * COUNT, "each sum once: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_ALLREDUCE, "leaders", args);
        cr_assert(elements == 2 * COUNT, "a vector each way: %zu", elements);
        if (way == 0) /* blocks of a host must be contiguous */
            continue;
        elements = crossings(KOLO_COLLECTIVE_ALLGATHER, "leaders", args);
        cr_assert(elements == N * COUNT, "each block once: %zu", elements);
        elements = crossings(KOLO_COLLECTIVE_REDUCE_SCATTER, "leaders", args);
        cr_assert(elements == N * COUNT, "each sum once: %zu", elements);
    }
}

/** The number of messages of all ranks that go from host to host. *others_out: those of ranks that
 * are neither the first on their host nor the root. */
static size_t far_messages(const struct kolo_plan *plan, struct kolo_plan_args args,
                           size_t *others_out)
{
    size_t messages = 0;
    *others_out = 0;
    for (args.rank = 0; args.rank < args.size; args.rank++)
        for (size_t i = 0; i < plan->nsteps(&args); i++) {
            struct kolo_step step;
            plan->step(&args, i, &step);
            if (step.to < 0 || args.hosts->of[step.to] == args.hosts->of[args.rank])
                continue;
            messages++;
            *others_out += args.hosts->local[args.rank] > 0 && args.rank != args.root;
        }
    return messages;
}

/* Only leaders use the network, each with log2 of the hosts as partners, or with every other
 * leader; a root with the leader of each other host. */
Test(simulate, messages_of_leaders)
{
    enum { N = 24, HOSTS = 4 };
    static const size_t expected[KOLO_COLLECTIVES] = {
        [KOLO_COLLECTIVE_ALLREDUCE] = (size_t)HOSTS * 2,
        [KOLO_COLLECTIVE_ALLGATHER] = (size_t)HOSTS * (HOSTS - 1),
        [KOLO_COLLECTIVE_REDUCE_SCATTER] = (size_t)HOSTS * (HOSTS - 1),
        [KOLO_COLLECTIVE_GATHER] = HOSTS - 1,
        [KOLO_COLLECTIVE_SCATTER] = HOSTS - 1};
    struct kolo_plan_args args = {.size = N, .count = 3, .segment = 1};
    args.hosts = deal(N, HOSTS, 2, 0);
    for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan))
        for (args.root = 0; is_by_leaders(plan) && args.root < (has_root(plan) ? N : 1);
             args.root++) {
            size_t others, messages = far_messages(plan, args, &others);
            cr_assert(messages == expected[plan->collective] && others == 0, "%s root %d: %zu, %zu",
                      kolo_collective_text(plan->collective), args.root, messages, others);
        }
}

/* Deep trees, hosts of one rank, and leaders that are not the lowest ranks of their hosts. */
Test(simulate, leaders_of_hosts_of_any_size, .timeout = 100)
{
    static const int sizes[][4] = {{1, 1, 2}, {70, 1, 9}, {8, 9, 1, 65}, {3, 3, 3, 3}, {2, 17}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int of[90], nodes[90], memory[KOLO_HOSTS_INTS(90)], size = 0;
        struct kolo_topology hosts;
        for (int host = 0; host < 4; host++)
            for (int rank = 0; rank < sizes[i][host]; rank++, size++)
                of[size] = host, nodes[size] = 3 - size % 4;
        kolo_topology_fill(&hosts, size, of, i % 2 == 0 ? nodes : NULL, memory);
        for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan))
            for (size_t count = 0; is_by_leaders(plan) && count < 3; count++)
                prove_variants(
                    (struct kolo_simulation){
                        .plan = plan, .size = size, .hosts = &hosts, .count = count},
                    (int)count);
    }
}

/** Hosts of different sizes, with ranks in scattered order: the host of each rank. */
struct spots {
    int size;
    int of[12];
};
static const struct spots unlike[] = {
    {9, {0, 0, 0, 1, 0, 0, 0, 0, 0}},
    {9, {0, 1, 2, 0, 1, 0, 2, 0, 2}},
    {12, {0, 1, 1, 2, 3, 0, 3, 0, 4, 0, 4, 0}},
    {7, {0, 1, 1, 1, 0, 1, 1}},
    {8, {0, 1, 2, 0, 1, 2, 0, 1}},
    {4, {0, 1, 1, 0}},
};

static const struct kolo_topology *unlike_hosts(size_t index)
{
    static int memory[KOLO_HOSTS_INTS(12)];
    static struct kolo_topology hosts;
    kolo_topology_fill(&hosts, unlike[index].size, unlike[index].of, NULL, memory);
    return &hosts;
}

Test(simulate, two_levels_in_many_pieces_on_unlike_hosts)
{
    static const size_t counts[] = {0, 1, 13, 257};
    for (size_t i = 0; i < sizeof unlike / sizeof unlike[0]; i++)
        for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan))
            for (size_t c = 0; strcmp(plan->name, "twolevel") == 0 && c < 4; c++)
                for (int root = 0; root < (has_root(plan) ? unlike[i].size : 1); root++)
                    prove_variants((struct kolo_simulation){.plan = plan,
                                                            .size = unlike[i].size,
                                                            .root = root,
                                                            .hosts = unlike_hosts(i),
                                                            .count = counts[c]},
                                   (int)c + root);
}

/** For each rank, the steps within its host that run between its first and its last step to another
 * host. A plan whose phases follow each other has none. */
Test(simulate, two_levels_at_once)
{
    struct kolo_plan_args args = {.size = 8, .count = 80000, .segment = 1000};
    const struct kolo_plan *plan = kolo_plan_find(KOLO_COLLECTIVE_ALLREDUCE, "twolevel");
    args.hosts = deal(8, 2, 0, 0);
    for (; args.rank < args.size; args.rank++) {
        size_t inside = 0, between = 0;
        bool has_left = false;
        for (size_t i = 0; i < plan->nsteps(&args); i++) {
            struct kolo_step step;
            plan->step(&args, i, &step);
            bool leaves = step.to >= 0 && args.hosts->of[step.to] != args.hosts->of[args.rank];
            inside += has_left && step.to >= 0 && !leaves;
            between = leaves ? inside : between;
            has_left |= leaves;
        }
        cr_assert(between >= 2 * (80000 / 4000 - 4), "rank %d: %zu", args.rank, between);
    }
}

static void prove_all(struct kolo_simulation what, enum kolo_collective collective)
{
    for (what.plan = next_plan(NULL); what.plan; what.plan = next_plan(what.plan))
        for (what.segment = 1; what.plan->collective == collective && what.segment < 9;
             what.segment += 3)
            prove(what);
}

Test(simulate, alltoall_of_different_lengths, .timeout = 100)
{
    enum { MOST = 17 };
    static size_t counts[4][MOST * MOST]; /* counts and displs of RECV, then of SEND */
    for (int size = 1; size <= MOST; size++) {
        size_t n = (size_t)size;
        for (size_t me = 0; me < n; me++) {
            size_t received = 1, sent = 2; /* gaps that nothing may read or write */
            for (size_t i = n; i-- > 0;) {
                counts[0][me * n + i] = (i * 3 + me) % 5;
                counts[2][me * n + i] = (me * 3 + i) % 5;
                counts[1][me * n + i] = received;
                counts[3][me * n + i] = sent;
                received += counts[0][me * n + i] + me % 2;
                sent += counts[2][me * n + i] + i % 2;
            }
        }
        struct kolo_simulation what = {.size = size,
                                       .counts = counts[0],
                                       .displs = counts[1],
                                       .send_counts = counts[2],
                                       .send_displs = counts[3]};
        prove_all(what, KOLO_COLLECTIVE_ALLTOALL);
    }
}

static void prove_blocks_of_different_lengths(int size, const struct kolo_topology *hosts)
{
    size_t counts[33], displs[33], at = 2; /* gaps that nothing may write */
    for (int rank = size - 1; rank >= 0; rank--) {
        counts[rank] = (size_t)(rank * 7 % 5);
        displs[rank] = at;
        at += counts[rank] + (size_t)(rank % 3);
    }
    for (int in_place = 0; in_place < 2; in_place++)
        for (int root = 0; root < size; root++) {
            struct kolo_simulation what = {.size = size,
                                           .root = root,
                                           .hosts = hosts,
                                           .counts = counts,
                                           .displs = displs,
                                           .segment = 1,
                                           .in_place = in_place};
            if (root == 0)
                prove_all(what, KOLO_COLLECTIVE_ALLGATHER);
            if (root == 0)
                prove_all(what, KOLO_COLLECTIVE_REDUCE_SCATTER);
            prove_all(what, KOLO_COLLECTIVE_GATHER);
            prove_all(what, KOLO_COLLECTIVE_SCATTER);
        }
}

Test(simulate, blocks_of_different_lengths, .timeout = 100)
{
    for (int size = 1; size <= 33; size++)
        prove_blocks_of_different_lengths(size, NULL);
    for (size_t i = 0; i < sizeof unlike / sizeof unlike[0]; i++)
        prove_blocks_of_different_lengths(unlike[i].size, unlike_hosts(i));
    prove_blocks_of_different_lengths(33, deal(33, 4, 1, 7));
}

Test(simulate, steps_and_messages_of_a_ring)
{
    struct kolo_simulation what = {.plan = kolo_plan_find(KOLO_COLLECTIVE_ALLREDUCE, "ring"),
                                   .size = 8,
                                   .count = 800,
                                   .segment = 800};
    struct kolo_simulated needed;
    cr_assert(kolo_simulate(&what, &needed) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(needed.messages == 14 && needed.steps == 14, "%zu messages", needed.messages);
    cr_assert(needed.elements_sent == 1400 && needed.elements_reduced == 700, "%zu elements",
              needed.elements_sent);
}

/* ---- plans broken on purpose ---- */

enum fault {
    SOUND,
    WRONG_PEER,
    SHORT_OUT,
    SHIFTED_IN,
    SHIFTED_OUT,
    SHIFTED_LOCAL,
    COPY_FOR_REDUCE,
    SWAPPED,
    NO_FINISH,
    FINISH_TWICE,
    WRITES_SEND,
    EARLY_READ,
    SKIPPED_STEP,
    FAULTS
};
static const char *const fault_texts[FAULTS] = {
    [SOUND] = "sound",
    [WRONG_PEER] = "wrong peer",
    [SHORT_OUT] = "short send",
    [SHIFTED_IN] = "shifted receive",
    [SHIFTED_OUT] = "shifted send",
    [SHIFTED_LOCAL] = "shifted operand",
    [COPY_FOR_REDUCE] = "copy for reduce",
    [SWAPPED] = "operands swapped",
    [NO_FINISH] = "no finish",
    [FINISH_TWICE] = "finished twice",
    [WRITES_SEND] = "writes SEND",
    [EARLY_READ] = "reads scratch early",
    [SKIPPED_STEP] = "a step less",
};
static enum fault fault;
static int fault_rank;
static const struct kolo_plan *sound_plan;
static bool has_struck, has_swapped;

/** Whether the peer computes the same from the same two operands. */
static bool is_exchange(const struct kolo_step *step)
{
    const struct kolo_slice *out = &step->out, *local = &step->local;
    return step->to == step->from && out->buffer == local->buffer && out->offset == local->offset;
}

static void broken_step(const struct kolo_plan_args *args, size_t index, struct kolo_step *step)
{
    sound_plan->step(args, index, step);
    if (args->rank != fault_rank)
        return;
    struct kolo_step before = *step;
    bool sends = step->to >= 0 && step->out.count > 1,
         receives = step->from >= 0 && step->in.count > 1;
    if (fault == WRONG_PEER && step->to >= 0)
        step->to = (step->to + 1) % args->size;
    if (fault == SHORT_OUT && sends)
        step->out.count--;
    if (fault == SHIFTED_IN && receives)
        step->in.offset += step->in.offset > 0 ? (size_t)-1 : 1;
    if (fault == SHIFTED_OUT && sends)
        step->out.offset += step->out.offset > 0 ? (size_t)-1 : 1;
    if (fault == SHIFTED_LOCAL && step->reduces && step->local.count > 1)
        step->local.offset += step->local.offset > 0 ? (size_t)-1 : 1;
    if (fault == COPY_FOR_REDUCE && step->reduces && step->in.count > 0)
        step->reduces = false;
    if (fault == SWAPPED && step->reduces && step->in.count > 0 && !sound_plan->is_segmented) {
        step->incoming_first = !step->incoming_first;
        has_swapped |= is_exchange(step);
    }
    if (fault == NO_FINISH)
        step->finish.count = 0;
    if (fault == FINISH_TWICE && step->finish.count == 0 && index > 0 && step->reduces)
        step->finish = step->local.buffer == KOLO_BUFFER_SEND ? step->finish : step->local;
    if (fault == WRITES_SEND && receives)
        step->in.buffer = KOLO_BUFFER_SEND;
    if (fault == EARLY_READ && sends && index == 0 &&
        sound_plan->collective != KOLO_COLLECTIVE_BROADCAST)
        step->out.buffer = KOLO_BUFFER_RECV;
    if (memcmp(&before, step, sizeof before) != 0)
        has_struck = true;
}

static size_t broken_nsteps(const struct kolo_plan_args *args)
{
    size_t nsteps = sound_plan->nsteps(args);
    if (fault == SKIPPED_STEP && args->rank == fault_rank && nsteps > 0) {
        has_struck = true;
        return nsteps - 1;
    }
    return nsteps;
}

Test(simulate, objects_to_broken_plans, .timeout = 100)
{
    int struck[FAULTS] = {0};
    for (sound_plan = next_plan(NULL); sound_plan; sound_plan = next_plan(sound_plan))
        for (fault = SOUND; fault < FAULTS; fault++)
            for (int size = 3; size <= 9; size++)
                for (fault_rank = size_for(sound_plan, size) == size ? 0 : size; fault_rank < size;
                     fault_rank++) {
                    struct kolo_plan broken = *sound_plan;
                    broken.step = broken_step;
                    broken.nsteps = broken_nsteps;
                    struct kolo_simulation what = {.plan = &broken,
                                                   .size = size,
                                                   .root = 1,
                                                   .hosts = hosts_for(sound_plan, size),
                                                   .count = 29,
                                                   .segment = 5};
                    has_struck = has_swapped = false;
                    kolo_status status = kolo_simulate(&what, NULL);
                    /* a value that is reduced once and then copied is the same everywhere */
                    bool matters = fault != SWAPPED || has_swapped;
                    if (fault == EARLY_READ && sound_plan->collective == KOLO_COLLECTIVE_ALLGATHER)
                        /* the others are in place */
                        matters = fault_rank != 0 || strcmp(sound_plan->name, "bruck") == 0;
                    if (fault == SKIPPED_STEP && fault_rank == 0 &&
                        sound_plan->collective == KOLO_COLLECTIVE_ALLGATHER &&
                        strcmp(sound_plan->name, "bruck") == 0)
                        matters = false; /* its last step rotates the blocks by 0 */
                    bool objects = status == KOLO_ERR_INTERNAL;
                    cr_assert(objects == (has_struck && matters), "%s %s size %d rank %d, %s: %s",
                              kolo_collective_text(sound_plan->collective), sound_plan->name, size,
                              fault_rank, fault_texts[fault],
                              objects ? kolo_error_detail() : "no objection");
                    struck[fault] += has_struck && matters;
                }
    for (fault = SOUND + 1; fault < FAULTS; fault++)
        cr_assert(struck[fault] > 0, "no plan has been broken by: %s", fault_texts[fault]);
}

static void swapped_fold(const struct kolo_plan_args *args, size_t index, struct kolo_step *step)
{
    sound_plan->step(args, index, step);
    if (args->rank == fault_rank && step->fold.ways > 1)
        step->fold.own = step->fold.own > 0 ? step->fold.own - 1 : 1;
}

Test(simulate, objects_to_another_order_in_an_ordered_plan)
{
    int ordered = 0;
    for (sound_plan = next_plan(NULL); sound_plan; sound_plan = next_plan(sound_plan)) {
        struct kolo_plan broken = *sound_plan;
        struct kolo_simulation what = {.plan = &broken,
                                       .size = size_for(sound_plan, 5),
                                       .root = 2,
                                       .hosts = hosts_for(sound_plan, size_for(sound_plan, 5)),
                                       .count = 29,
                                       .segment = 8};
        fault_rank = 2;
        broken.step = swapped_fold;
        kolo_status status = kolo_simulate(&what, NULL);
        cr_assert((status == KOLO_OK) == !sound_plan->is_ordered, "%s %s: %s",
                  kolo_collective_text(sound_plan->collective), sound_plan->name,
                  kolo_error_detail());
        ordered += sound_plan->is_ordered;
        broken = *sound_plan;
        broken.is_ordered = true; /* a plan that combines pairs is not ordered */
        bool combines = strcmp(sound_plan->name, "direct") != 0 &&
                        (sound_plan->collective == KOLO_COLLECTIVE_ALLREDUCE ||
                         sound_plan->collective == KOLO_COLLECTIVE_REDUCE ||
                         sound_plan->collective == KOLO_COLLECTIVE_REDUCE_SCATTER);
        cr_assert((kolo_simulate(&what, NULL) == KOLO_OK) == (sound_plan->is_ordered || !combines),
                  "%s %s", kolo_collective_text(sound_plan->collective), sound_plan->name);
    }
    cr_assert(ordered >= 5);
}

static size_t widest(const struct kolo_plan_args *args)
{
    (void)args;
    return KOLO_WINDOW_MAX;
}

/** Begins while all steps before it are in flight. */
static void early_step(const struct kolo_plan_args *args, size_t index, struct kolo_step *step)
{
    sound_plan->step(args, index, step);
    step->after = KOLO_WINDOW_MAX;
}

/** Plans whose steps do not depend on each other. */
static bool is_one_exchange(const struct kolo_plan *plan)
{
    return strcmp(plan->name, "direct") == 0 && plan->collective != KOLO_COLLECTIVE_ALLREDUCE &&
           plan->collective != KOLO_COLLECTIVE_REDUCE &&
           plan->collective != KOLO_COLLECTIVE_REDUCE_SCATTER;
}

Test(simulate, objects_to_steps_that_begin_too_early)
{
    for (sound_plan = next_plan(NULL); sound_plan; sound_plan = next_plan(sound_plan)) {
        struct kolo_plan broken = *sound_plan;
        struct kolo_simulation what = {.plan = &broken,
                                       .size = size_for(sound_plan, 5),
                                       .root = 2,
                                       .hosts = hosts_for(sound_plan, size_for(sound_plan, 5)),
                                       .count = 60,
                                       .segment = 4};
        broken.window = widest;
        cr_assert(kolo_simulate(&what, NULL) == KOLO_OK, "%s", kolo_error_detail());
        broken.step = early_step;
        kolo_status status = kolo_simulate(&what, NULL);
        cr_assert((status == KOLO_OK) == is_one_exchange(sound_plan), "%s %s: %s",
                  kolo_collective_text(sound_plan->collective), sound_plan->name,
                  kolo_error_detail());
        broken.window = NULL; /* one step at a time, although the plan has more in flight */
        what.segment = 60;
        if (sound_plan->window && strcmp(sound_plan->name, "direct") == 0)
            cr_assert(kolo_simulate(&what, NULL) == KOLO_ERR_INTERNAL);
    }
}

/** Ranks go on to the next broadcast, from another root, as soon as one is over for them. */
static void check_broadcasts_in_turn(enum kolo_closing closing, int closed_every)
{
    const uint64_t seeds = test_is_long() ? 8 : 3;
    for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan))
        for (int size = 2; size <= 65 && plan->collective == KOLO_COLLECTIVE_BROADCAST;
             size += size < 18 ? 1 : 47)
            for (uint64_t seed = 0; is_size_wanted(size) && seed < seeds; seed++) {
                struct kolo_simulation what = {.plan = plan,
                                               .size = size,
                                               .root = (int)seed % size,
                                               .hosts = hosts_for(plan, size),
                                               .count = (size_t)size + 2,
                                               .segment = 3,
                                               .calls = size < 18 ? 2 * size : 5,
                                               .closing = closing,
                                               .closed_every = closed_every,
                                               .seed = seed};
                if (!fits(&what))
                    continue;
                cr_assert(kolo_simulate(&what, NULL) == KOLO_OK,
                          "%s, %d ranks, seed %d, closing %d: %s", plan->name, size, (int)seed,
                          (int)closing, kolo_error_detail());
            }
}

Test(simulate, broadcasts_one_after_another)
{
    check_broadcasts_in_turn(KOLO_CLOSING_LATER, 0);
    check_broadcasts_in_turn(KOLO_CLOSING_LATER, 3);
    check_broadcasts_in_turn(KOLO_CLOSING_NOTES, 0);
    check_broadcasts_in_turn(KOLO_CLOSING_NOW, 0);
}

/** A broadcast whose root sends nothing. */
static void silent_root(const struct kolo_plan_args *args, size_t index, struct kolo_step *step)
{
    sound_plan->step(args, index, step);
    if (args->rank == args->root)
        step->to = -1;
}

Test(simulate, objects_to_a_root_that_says_nothing)
{
    for (sound_plan = next_plan(NULL); sound_plan; sound_plan = next_plan(sound_plan)) {
        struct kolo_plan broken = *sound_plan;
        struct kolo_simulation what = {.plan = &broken,
                                       .size = size_for(sound_plan, 5),
                                       .root = 2,
                                       .hosts = hosts_for(sound_plan, size_for(sound_plan, 5)),
                                       .count = 10,
                                       .segment = 4};
        broken.step = silent_root;
        if (sound_plan->collective == KOLO_COLLECTIVE_BROADCAST)
            cr_assert(kolo_simulate(&what, NULL) == KOLO_ERR_INTERNAL, "%s", sound_plan->name);
    }
}

/** The barrier that follows a rooted plan closes it: without it the simulator must object. */
Test(simulate, objects_to_a_plan_that_does_not_close)
{
    for (const struct kolo_plan *plan = next_plan(NULL); plan; plan = next_plan(plan)) {
        struct kolo_plan open = *plan;
        struct kolo_simulation what = {.plan = &open,
                                       .size = size_for(plan, 5),
                                       .root = 2,
                                       .hosts = hosts_for(plan, size_for(plan, 5)),
                                       .count = 10,
                                       .segment = 4};
        open.closes = true;
        kolo_status status = kolo_simulate(&what, NULL);
        cr_assert((status == KOLO_OK) == plan->closes, "%s %s: %s",
                  kolo_collective_text(plan->collective), plan->name, kolo_error_detail());
    }
}
