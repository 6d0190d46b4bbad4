// SPDX-License-Identifier: Apache-2.0
// The order of hosts and domains, by hand and against their definition, for worlds whose ranks are
// distributed at random.
#include <criterion/criterion.h>

#include "runtime/plan.h"

enum { RANKS = 64 };

static void expect_domain(const struct kolo_topology *hosts, int rank, int domain, int local)
{
    cr_assert(hosts->domains.of[rank] == domain && hosts->domains.local[rank] == local,
              "rank %d: place %d of domain %d", rank, hosts->domains.local[rank],
              hosts->domains.of[rank]);
}

Test(plan_hosts, ranks_of_a_host_are_in_the_order_of_their_numa_nodes)
{
    static const int of[] = {0, 1, 0, 1, 0, 1, 0, 0}, nodes[] = {1, 0, 0, -1, 1, 0, 0, -1};
    static const int by_node[] = {7, 2, 6, 0, 4, 3, 1, 5}, by_rank[] = {0, 2, 4, 6, 7, 1, 3, 5};
    int memory[KOLO_HOSTS_INTS(8)];
    struct kolo_topology hosts;
    struct kolo_plan_args args = {.size = 8, .hosts = &hosts};
    for (int way = 0; way < 2; way++) {
        kolo_topology_fill(&hosts, 8, of, way == 0 ? nodes : NULL, memory);
        cr_assert(hosts.count == 2 && hosts.least == 3 && hosts.first[1] == 5);
        for (int at = 0; at < 8; at++) {
            int rank = way == 0 ? by_node[at] : by_rank[at];
            cr_assert(hosts.ranks[at] == rank && kolo_plan_position(&args, rank) == at,
                      "rank %d at %d", rank, at);
        }
    }
}

Test(plan_hosts, domains_by_hand)
{
    static const int of[] = {0, 0, 0, 1, 1, 1, 1}, nodes[] = {1, 0, 1, 4, 2, 2, 4};
    int memory[KOLO_HOSTS_INTS(7)];
    struct kolo_topology hosts;
    kolo_topology_fill(&hosts, 7, of, nodes, memory);
    cr_assert(hosts.domains.count == 4 && hosts.domains.a_host == 2);
    cr_assert(hosts.domains.least == 1 && hosts.domains.most == 2);
    expect_domain(&hosts, 1, 0, 0);
    expect_domain(&hosts, 0, 1, 0);
    expect_domain(&hosts, 2, 1, 1);
    expect_domain(&hosts, 4, 2, 0);
    expect_domain(&hosts, 5, 2, 1);
    expect_domain(&hosts, 3, 3, 0);
    expect_domain(&hosts, 6, 3, 1);
    cr_assert(hosts.domains.first[1] == 1 && hosts.domains.first[4] == 7);
    struct kolo_topology as_hosts = kolo_topology_of_domains(&hosts);
    cr_assert(as_hosts.count == 4 && as_hosts.least == 1 && as_hosts.most == 2);
    cr_assert(as_hosts.of[6] == 3 && as_hosts.ranks[as_hosts.first[3] + 1] == 6);
}

Test(plan_hosts, a_host_of_which_something_is_not_known_is_one_domain)
{
    static const int of[] = {0, 0, 0, 1, 1, 1}, nodes[] = {1, -1, 0, 5, 6, 5};
    int memory[KOLO_HOSTS_INTS(6)];
    struct kolo_topology hosts;
    kolo_topology_fill(&hosts, 6, of, nodes, memory);
    cr_assert(hosts.domains.count == 3 && hosts.domains.a_host == 0, "%d", hosts.domains.count);
    cr_assert(hosts.domains.most == 3 && hosts.domains.least == 1);
    expect_domain(&hosts, 1, 0, 0); /* it is in host order nevertheless */
    expect_domain(&hosts, 2, 0, 1);
    expect_domain(&hosts, 0, 0, 2);
    kolo_topology_fill(&hosts, 6, of, NULL, memory);
    cr_assert(hosts.domains.count == 2 && hosts.domains.a_host == 1);
}

/** Ranks are in one domain if they share a host and, if all ranks of that host know their NUMA
 * nodes, a node. */
static void expect_sound(const struct kolo_topology *hosts, int size, const int *of,
                         const int *nodes)
{
    const struct kolo_domains *domains = &hosts->domains;
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++) {
            bool is_known = true;
            for (int rank = 0; rank < size; rank++)
                is_known = is_known && (of[rank] != of[a] || nodes[rank] >= 0);
            bool are_near = of[a] == of[b] && (!is_known || nodes[a] == nodes[b]);
            cr_assert((domains->of[a] == domains->of[b]) == are_near, "%d and %d", a, b);
        }
    for (int domain = 0; domain < domains->count; domain++)
        for (int at = domains->first[domain]; at < domains->first[domain + 1]; at++) {
            int rank = hosts->ranks[at];
            cr_assert(domains->of[rank] == domain);
            cr_assert(domains->local[rank] == at - domains->first[domain]);
        }
    cr_assert(domains->first[0] == 0 && domains->first[domains->count] == size);
}

Test(plan_hosts, domains_of_worlds_dealt_at_random)
{
    unsigned seed = 1;
    for (int size = 1; size <= RANKS; size++)
        for (int way = 0; way < 6; way++) {
            int of[RANKS], nodes[RANKS], numbers[4] = {-1, -1, -1, -1}, next = 0;
            int memory[KOLO_HOSTS_INTS(RANKS)];
            struct kolo_topology hosts;
            for (int rank = 0; rank < size; rank++) {
                seed = seed * 1103515245u + 12345;
                int host = (int)(seed >> 16) % (1 + way % 4);
                if (numbers[host] < 0)
                    numbers[host] = next++;
                of[rank] = numbers[host];
                nodes[rank] = (int)(seed >> 24) % 4 - (way > 3);
            }
            kolo_topology_fill(&hosts, size, of, nodes, memory);
            expect_sound(&hosts, size, of, nodes);
        }
}
