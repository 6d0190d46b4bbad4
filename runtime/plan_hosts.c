// SPDX-License-Identifier: Apache-2.0
// Where the ranks are, for plans: host order, the domains in it, and the tree inside a host whose
// root is the host's first rank. A domain is the set of ranks of a host that are bound inside one
// NUMA node. If that is unknown for some rank of a host, the host counts as one domain, because
// nothing says which ranks are near each other.
#include "runtime/plan.h"

/** Sorts @p count ascending ranks by node, and keeps the order inside nodes. Ranks mostly are in
 * this order already. */
static void sort_by_node(int *ranks, int count, const int *nodes)
{
    for (int i = 1; i < count; i++) {
        int rank = ranks[i], to = i;
        for (; to > 0 && nodes[ranks[to - 1]] > nodes[rank]; to--)
            ranks[to] = ranks[to - 1];
        ranks[to] = rank;
    }
}

/** Whether the rank at position @p at is the first one of a domain. @p is_known: the nodes of all
 * ranks of its host are known. */
static bool begins_domain(const struct kolo_topology *hosts, const int *nodes, int at,
                          bool is_known)
{
    const int *ranks = hosts->ranks;
    if (at == hosts->first[hosts->of[ranks[at]]])
        return true;
    return is_known && nodes[ranks[at]] != nodes[ranks[at - 1]];
}

/** Divides the ranks, which are in host order, into domains. */
static void find_domains(struct kolo_topology *hosts, int size, const int *nodes, int *memory)
{
    int *of = memory, *local = memory + size, *first = memory + 2 * (size_t)size;
    struct kolo_domains *domains = &hosts->domains;
    *domains = (struct kolo_domains){.least = size, .of = of, .local = local, .first = first};
    for (int host = 0; host < hosts->count; host++) {
        int begin = hosts->first[host], end = hosts->first[host + 1], before = domains->count;
        /* unknown nodes come first in the order of nodes */
        bool is_known = nodes && nodes[hosts->ranks[begin]] >= 0;
        for (int at = begin; at < end; at++) {
            if (begins_domain(hosts, nodes, at, is_known))
                first[domains->count++] = at;
            of[hosts->ranks[at]] = domains->count - 1;
            local[hosts->ranks[at]] = at - first[domains->count - 1];
        }
        bool is_like_others = host == 0 || domains->count - before == domains->a_host;
        domains->a_host = is_like_others ? domains->count - before : -1;
    }
    first[domains->count] = size;
    for (int i = 0; i < domains->count; i++) {
        int ranks = first[i + 1] - first[i];
        domains->least = ranks < domains->least ? ranks : domains->least;
        domains->most = ranks > domains->most ? ranks : domains->most;
    }
    domains->a_host = domains->a_host > 0 ? domains->a_host : 0;
}

void kolo_topology_fill(struct kolo_topology *hosts, int size, const int *of, const int *nodes,
                        int *memory)
{
    int *local = memory, *ranks = memory + size, *first = memory + 2 * (size_t)size;
    int count = 0, least = size, most = 0;
    bool is_in_order = true;
    for (int rank = 0; rank < size; rank++) {
        is_in_order = is_in_order && of[rank] + 1 >= count;
        count = of[rank] + 1 > count ? of[rank] + 1 : count;
    }
    for (int host = 0; host <= count; host++)
        first[host] = 0;
    for (int rank = 0; rank < size; rank++) {
        local[rank] = first[of[rank] + 1]++;
    }
    for (int host = 0; host < count; host++) {
        least = first[host + 1] < least ? first[host + 1] : least;
        most = first[host + 1] > most ? first[host + 1] : most;
        first[host + 1] += first[host];
    }
    for (int rank = 0; rank < size; rank++)
        ranks[first[of[rank]] + local[rank]] = rank;
    for (int host = 0; nodes && host < count; host++) {
        sort_by_node(ranks + first[host], first[host + 1] - first[host], nodes);
        for (int at = first[host]; at < first[host + 1]; at++)
            local[ranks[at]] = at - first[host];
    }
    *hosts = (struct kolo_topology){.count = count,
                                    .least = least,
                                    .most = most,
                                    .of = of,
                                    .local = local,
                                    .ranks = ranks,
                                    .first = first,
                                    .is_in_order = is_in_order};
    find_domains(hosts, size, nodes, memory + 3 * (size_t)size + 1);
}

struct kolo_topology kolo_topology_of_domains(const struct kolo_topology *hosts)
{
    const struct kolo_domains *domains = &hosts->domains;
    return (struct kolo_topology){.count = domains->count,
                                  .least = domains->least,
                                  .most = domains->most,
                                  .of = domains->of,
                                  .local = domains->local,
                                  .ranks = hosts->ranks,
                                  .first = domains->first,
                                  .is_in_order = false,
                                  .domains = *domains};
}

/* ---- the tree inside a host ---- */

/* Wide, since ranks that share cores pay for each rank that passes something on, not for each
 * message. */
enum { FAN = 8 };

static size_t count_below(int local, int ranks)
{
    size_t count = 0;
    for (int step = 1; step < ranks && local / step % FAN == 0; step *= FAN)
        for (int digit = 1; digit < FAN && local + digit * step < ranks; digit++)
            count++;
    return count;
}

struct kolo_post kolo_post_of(const struct kolo_plan_args *args)
{
    const struct kolo_topology *hosts = args->hosts;
    struct kolo_post post = {.host = hosts->of[args->rank], .local = hosts->local[args->rank]};
    post.ranks = hosts->first[post.host + 1] - hosts->first[post.host];
    post.children = count_below(post.local, post.ranks);
    post.has_parent = post.local != 0;
    return post;
}

/* If positions are written in base FAN, a child has a digit below the lowest nonzero one of its
 * parent. */
int kolo_post_child(const struct kolo_plan_args *args, const struct kolo_post *post, size_t index)
{
    int step = 1;
    for (; index >= FAN - 1; index -= FAN - 1)
        step *= FAN;
    return kolo_plan_rank_on(args, post->host, post->local + (int)(index + 1) * step);
}

int kolo_post_parent(const struct kolo_plan_args *args, const struct kolo_post *post)
{
    int step = 1;
    while (post->local / step % FAN == 0)
        step *= FAN;
    return kolo_plan_rank_on(args, post->host, post->local - post->local / step % FAN * step);
}
