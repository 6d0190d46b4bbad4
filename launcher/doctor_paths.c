// SPDX-License-Identifier: Apache-2.0
// Judges the network between hosts by what happened on its paths. A pair of ranks needs one
// direction: both dial, and one connection serves both ways. All ranks dial kolorun, so the
// direction to it is needed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "launcher/doctor_judge.h"

enum {
    ROUND_TRIP_TIMES = 10,    /* times the median of all */
    ROUND_TRIP_MIN_US = 1000, /* no round trip below this is called slow */
    FAR_US = 5000
};

/* What is known about one direction between two hosts. */
struct way {
    const struct kolo_fact_path *first;
    size_t count;
    const struct kolo_fact_path *best; /* best of the paths that work; NULL: none does */
};

struct network {
    const struct kolo_checkup *hosts;
    size_t count;
    const struct kolo_prognosis *job;
    struct kolo_fact_path *sorted;
    struct way *ways; /* index: from * count + to */
    struct kolo_findings *findings;
};

static struct way *way_of(const struct network *network, int from, int to)
{
    return &network->ways[(size_t)from * network->count + (size_t)to];
}

static const struct kolo_fact_place *place_of(const struct network *network,
                                              const struct kolo_fact_path *path)
{
    return &network->hosts[path->to].facts.places[path->place];
}

static bool is_better(const struct kolo_fact_place *a, const struct kolo_fact_place *b)
{
    if (a->is_hardware != b->is_hardware)
        return a->is_hardware;
    return a->speed_mbit > b->speed_mbit;
}

/* ---- words ---- */

/* "10.0.0.2 (eth0)" */
static void name_place(const struct kolo_fact_place *place, char *text, size_t capacity)
{
    const char *port = strrchr(place->address, ':');
    snprintf(text, capacity, "%.*s (%s)",
             port ? (int)(port - place->address) : (int)strlen(place->address), place->address,
             place->interface);
}

static void describe_end(const struct network *network, const struct kolo_fact_path *path,
                         char *text, size_t capacity)
{
    long who = -1;
    switch ((int)path->end) {
    case KOLO_FACT_PATH_LONG_LOST:
        snprintf(text, capacity, "lets only short messages through (its MTU is %lld)",
                 (long long)place_of(network, path)->mtu);
        return;
    case KOLO_FACT_PATH_REFUSED:
        snprintf(text, capacity, "refuses the connection");
        return;
    case KOLO_FACT_PATH_SILENT:
        snprintf(text, capacity, "does not answer");
        return;
    case KOLO_FACT_PATH_STRANGER:
        snprintf(text, capacity, "is answered by something other than kolo");
        return;
    case KOLO_FACT_PATH_OTHER_HOST:
        if (sscanf(path->words, "is rank %ld", &who) == 1 && who >= 0 &&
            (size_t)who < network->count)
            snprintf(text, capacity, "leads to %s",
                     who == path->from ? "the host itself" : network->hosts[who].name);
        else
            snprintf(text, capacity, "leads to another host");
        return;
    default:
        snprintf(text, capacity, "%s", path->words);
    }
}

static bool has_end(const struct way *way, enum kolo_fact_path_end end)
{
    for (size_t i = 0; i < way->count; i++)
        if (way->first[i].end == end)
            return true;
    return false;
}

/* Says why no place of a way works: each place and what happened there. If long messages get lost
 * at some, names only those: ranks would take one of them. */
static void describe_way(const struct network *network, const struct way *way, char *text,
                         size_t capacity)
{
    bool is_lossy = has_end(way, KOLO_FACT_PATH_LONG_LOST);
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < way->count && used < capacity; i++) {
        char place[96], how[128];
        if (is_lossy && way->first[i].end != KOLO_FACT_PATH_LONG_LOST)
            continue;
        name_place(place_of(network, &way->first[i]), place, sizeof place);
        describe_end(network, &way->first[i], how, sizeof how);
        int put = snprintf(text + used, capacity - used, "%s%s %s", used ? ", " : "", place, how);
        used += put > 0 ? (size_t)put : 0;
    }
}

static void describe_step(const struct network *network, const struct way *way, int to, char *text,
                          size_t capacity)
{
    const char *name = network->hosts[to].name;
    if (has_end(way, KOLO_FACT_PATH_LONG_LOST))
        snprintf(
            text, capacity,
            "give both ends the MTU that the switches between them have (ip link set ... mtu)");
    else if ((has_end(way, KOLO_FACT_PATH_SILENT) || has_end(way, KOLO_FACT_PATH_REFUSED)) &&
             network->job->ports[0])
        snprintf(text, capacity, "let the firewall of %s accept ports %s (KOLO_PORTS)", name,
                 network->job->ports);
    else if (has_end(way, KOLO_FACT_PATH_SILENT) || has_end(way, KOLO_FACT_PATH_REFUSED))
        snprintf(
            text, capacity,
            "let the firewall of %s accept this network, or a range of ports that you also name "
            "in KOLO_PORTS",
            name);
    else if (has_end(way, KOLO_FACT_PATH_NO_ROUTE))
        snprintf(text, capacity,
                 "see the routes between them (ip route get), or name a network that joins them in "
                 "KOLO_NET");
    else
        snprintf(text, capacity, "name the network that joins them in KOLO_NET");
}

/* ---- what is wrong ---- */

static bool has_ranks(const struct network *network, int host)
{
    return !network->hosts[host].is_launcher && network->hosts[host].has_facts;
}

static bool is_launcher(const struct kolo_checkup *host)
{
    return host->is_launcher || host->is_here;
}

/* No path from one host to another works. If long messages are lost, it does not matter who
 * dialled. */
static void judge_broken_way(const struct network *network, int from, int to)
{
    const struct kolo_checkup *there = &network->hosts[to];
    const struct way *way = way_of(network, from, to), *back = way_of(network, to, from);
    char how[512], what[256];
    describe_way(network, way, how, sizeof how);
    describe_step(network, way, to, what, sizeof what);
    if (has_end(way, KOLO_FACT_PATH_LONG_LOST))
        kolo_findings_add(network->findings, KOLO_SEVERITY_ERROR, "mtu", from,
                          "long messages from it to %s are lost: %s; a job would stop there; %s",
                          there->name, how, what);
    else if (is_launcher(there))
        kolo_findings_add(network->findings, KOLO_SEVERITY_ERROR, "rendezvous", from,
                          "cannot connect to kolorun on %s, which its ranks must: %s; %s",
                          there->name, how, what);
    else if (!back->best)
        kolo_findings_add(network->findings, KOLO_SEVERITY_ERROR, "apart", from,
                          "cannot connect to %s, nor %s to it: %s; %s", there->name, there->name,
                          how, what);
    else
        kolo_findings_add(
            network->findings, KOLO_SEVERITY_WARNING, "one-way", from,
            "cannot connect to %s: %s; ranks have to wait until those of %s connect to "
            "them; %s",
            there->name, how, there->name, what);
}

/* The single finding for a host that reaches no other host. */
static bool judge_isolated(const struct network *network, int from)
{
    size_t tried = 0;
    int last = -1;
    char how[512];
    for (int to = 0; (size_t)to < network->count; to++) {
        if (to == from || !network->hosts[to].has_facts || way_of(network, from, to)->count == 0)
            continue;
        if (way_of(network, from, to)->best)
            return false;
        tried++;
        last = to;
    }
    if (tried < 3)
        return false;
    describe_way(network, way_of(network, from, last), how, sizeof how);
    kolo_findings_add(network->findings, KOLO_SEVERITY_ERROR, "isolated", from,
                      "reaches none of %zu other hosts (to %s: %s); see its own firewall "
                      "and routes, or name another network in KOLO_NET",
                      tried, network->hosts[last].name, how);
    return true;
}

/* One place that does not work, of a way that works by another place. */
static void judge_place(const struct network *network, const struct kolo_fact_path *path)
{
    const struct way *way = way_of(network, path->from, path->to);
    const struct kolo_fact_place *place = place_of(network, path);
    const struct kolo_fact_place *best = place_of(network, way->best);
    char name[96], used[96], how[128], what[256];
    name_place(place, name, sizeof name);
    name_place(best, used, sizeof used);
    describe_end(network, path, how, sizeof how);
    describe_step(network, way, path->to, what, sizeof what);
    if (path->end == KOLO_FACT_PATH_LONG_LOST)
        kolo_findings_add(network->findings, KOLO_SEVERITY_ERROR, "mtu", path->from,
                          "%s of %s %s: %s, or leave it out: KOLO_NET=^%s", name,
                          network->hosts[path->to].name, how, what, place->interface);
    else if (path->end != KOLO_FACT_PATH_OTHER_HOST && place->is_hardware && is_better(place, best))
        kolo_findings_add(network->findings, KOLO_SEVERITY_WARNING, "lesser-way", path->from,
                          "%s of %s, %lld Mbit/s, %s; ranks use %s, %lld Mbit/s; see that card and "
                          "its cable, or a firewall",
                          name, network->hosts[path->to].name, (long long)place->speed_mbit, how,
                          used, (long long)best->speed_mbit);
    else
        kolo_findings_add(
            network->findings, KOLO_SEVERITY_NOTE, "dead-address", path->to,
            "others do not reach it at %s; ranks skip that, and KOLO_NET=^%s leaves it "
            "out",
            name, place->interface);
}

static int by_number(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* @return 0 if nothing works. */
static int64_t median_us(const struct network *network, size_t *pairs_out)
{
    size_t count = 0;
    int64_t median = 0, *all = kolo_calloc(network->count * network->count, sizeof *all);
    for (size_t i = 0; all && i < network->count * network->count; i++)
        if (network->ways[i].best)
            all[count++] = network->ways[i].best->rtt_us;
    if (count > 0) {
        qsort(all, count, sizeof *all, by_number);
        median = all[count / 2];
    }
    kolo_free_memory(all);
    *pairs_out = count;
    return median;
}

static void judge_round_trips(const struct network *network)
{
    size_t pairs = 0;
    int64_t median = median_us(network, &pairs);
    bool is_far = median > FAR_US;
    if (is_far)
        kolo_findings_add(
            network->findings, KOLO_SEVERITY_NOTE, "far", -1,
            "hosts are %.1f ms apart (median round trip): short collectives take that "
            "long, and more",
            (double)median / 1000);
    for (size_t i = 0; pairs > 2 && i < network->count * network->count; i++) {
        const struct kolo_fact_path *path = network->ways[i].best;
        if (!path || path->rtt_us < ROUND_TRIP_MIN_US || path->rtt_us / ROUND_TRIP_TIMES < median)
            continue;
        kolo_findings_add(network->findings, KOLO_SEVERITY_WARNING, "round-trip", path->from,
                          "a round trip to %s takes %.2f ms, the median is %.2f ms; see the load, "
                          "the cables and the route (tracepath %s)",
                          network->hosts[path->to].name, (double)path->rtt_us / 1000,
                          (double)median / 1000, network->hosts[path->to].name);
    }
}

static void judge_from(const struct network *network, int from)
{
    if (!has_ranks(network, from) || !network->hosts[from].has_paths ||
        judge_isolated(network, from))
        return;
    for (int to = 0; (size_t)to < network->count; to++) {
        const struct way *way = way_of(network, from, to);
        if (to == from || !network->hosts[to].has_facts)
            continue;
        if (!way->best && way->count > 0) /* else it has reported why */
            judge_broken_way(network, from, to);
        for (size_t i = 0; way->best && i < way->count; i++)
            if (way->first[i].end != KOLO_FACT_PATH_FINE)
                judge_place(network, &way->first[i]);
    }
}

/* ---- sorting ---- */

static int by_way(const void *a, const void *b)
{
    const struct kolo_fact_path *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    if (left->to != right->to)
        return left->to < right->to ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

static bool is_known(const struct network *network, const struct kolo_fact_path *path)
{
    return path->from >= 0 && path->to >= 0 && (size_t)path->from < network->count &&
           (size_t)path->to < network->count && path->place >= 0 &&
           (size_t)path->place < network->hosts[path->to].facts.place_count;
}

static void sort_paths(struct network *network, const struct kolo_fact_paths *paths)
{
    size_t kept = 0;
    for (size_t i = 0; i < paths->count; i++)
        if (is_known(network, &paths->at[i]))
            network->sorted[kept++] = paths->at[i];
    if (kept > 0)
        qsort(network->sorted, kept, sizeof network->sorted[0], by_way);
    for (size_t i = 0; i < kept; i++) {
        const struct kolo_fact_path *path = &network->sorted[i];
        struct way *way = way_of(network, path->from, path->to);
        if (way->count++ == 0)
            way->first = path;
        if (path->end == KOLO_FACT_PATH_FINE &&
            (!way->best || is_better(place_of(network, path), place_of(network, way->best))))
            way->best = path;
    }
}

void kolo_judge_paths(const struct kolo_checkup *hosts, size_t count,
                      const struct kolo_fact_paths *paths, const struct kolo_prognosis *job,
                      struct kolo_findings *findings)
{
    struct network network = {.hosts = hosts, .count = count, .job = job, .findings = findings};
    if (count < 2)
        return;
    network.sorted = kolo_calloc(paths->count + 1, sizeof network.sorted[0]);
    network.ways = kolo_calloc(count * count, sizeof network.ways[0]);
    if (network.sorted && network.ways) {
        sort_paths(&network, paths);
        for (int from = 0; (size_t)from < count; from++)
            judge_from(&network, from);
        judge_round_trips(&network);
    } else {
        findings->is_short = true;
    }
    kolo_free_memory(network.sorted);
    kolo_free_memory(network.ways);
}
