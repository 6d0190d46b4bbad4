// SPDX-License-Identifier: Apache-2.0
// Finds what is slow compared with others of its kind. Each thing is compared with the median of
// the others (without itself, so that one of two can be found). It is slow if it is `factor` times
// worse and, if there are enough others to know how much they differ, further from their median
// than DEVIATIONS times their median deviation.
//
// Hosts are judged first, then ranks, then links. What involves a slow one is left out of the
// following comparisons, since it would only repeat the finding; one exception: the line of a host
// with slow processors is reported if it is much worse than they explain. A host or a rank is
// judged by its best link: one bad link does not make it slow, but if even the best one is slow,
// its links have nothing else in common.
#include "bench/diagnose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/statistics.h"

static const double deviations = 5 * 1.4826; /* of a normal distribution: five sigma */
static const double least_us = 2;            /* smaller differences in latency do not count */
enum { SIBLINGS_FOR_MAD = 4 };
/* How much processors that are slow by a factor explain about a line: it is slow only if it is slow
 * by twice that factor, and more than a few times slower than they copy. */
enum { EXPLAINED_TIMES = 2, COPIES_A_BYTE = 4 };

struct judge {
    struct diagnosis *d;
    bool *slow_host, *slow_rank;
    double *busy; /* by host: how many times slower its processors are, if nothing else was found */
    double *values, *others, *scratch; /* room for as many as there can be of any kind */
    size_t nvalues;
};

enum direction { LOWER_IS_SLOW, HIGHER_IS_SLOW };

/* Whether values[i] is slow compared with the other values; 0 is not a value. */
static bool is_slow(struct judge *judge, size_t i, enum direction direction,
                    struct diagnose_finding *finding)
{
    size_t count = 0;
    double value = judge->values[i];
    for (size_t k = 0; k < judge->nvalues; k++)
        if (k != i && judge->values[k] > 0)
            judge->others[count++] = judge->values[k];
    if (value <= 0 || count == 0)
        return false;
    double median = bench_median(judge->others, count);
    double mad = bench_mad(judge->others, count, median, judge->scratch);
    double times = direction == LOWER_IS_SLOW ? median / value : value / median;
    if (times < judge->d->factor)
        return false;
    if (count >= SIBLINGS_FOR_MAD && fabs(value - median) < deviations * mad)
        return false;
    if (direction == HIGHER_IS_SLOW && value - median < least_us)
        return false;
    finding->value = value;
    finding->siblings = median;
    finding->times = times;
    return true;
}

static void keep(struct judge *judge, const struct diagnose_finding *finding)
{
    if (judge->d->nfindings < DIAGNOSE_FINDINGS_MAX)
        judge->d->findings[judge->d->nfindings++] = *finding;
}

static const char *host_name(const struct diagnosis *d, int host)
{
    for (int rank = 0; rank < d->nranks; rank++)
        if (d->ranks[rank].host_index == host)
            return d->ranks[rank].host;
    return "?";
}

static void name_rank(const struct diagnosis *d, int rank, char *text, size_t capacity)
{
    snprintf(text, capacity, "rank %d (%s, pid %lld)", rank, d->ranks[rank].host,
             (long long)d->ranks[rank].pid);
}

static void found_host(struct judge *judge, int host, struct diagnose_finding *finding)
{
    finding->kind = DIAGNOSE_HOST;
    finding->rank = finding->peer = -1;
    snprintf(finding->who, sizeof finding->who, "host %s", host_name(judge->d, host));
    keep(judge, finding);
    judge->slow_host[host] = true;
}

static void found_rank(struct judge *judge, int rank, struct diagnose_finding *finding)
{
    finding->kind = DIAGNOSE_RANK;
    finding->rank = rank;
    finding->peer = -1;
    name_rank(judge->d, rank, finding->who, sizeof finding->who);
    keep(judge, finding);
    judge->slow_rank[rank] = true;
}

/* ---- processors ---- */

static double speed(const struct diagnose_rank *rank, bool reduces)
{
    return reduces ? rank->reduce_gbps : rank->copy_gbps;
}

/* A host whose fastest rank is slow is itself slow. */
static void judge_hosts_speed(struct judge *judge, bool reduces)
{
    const struct diagnosis *d = judge->d;
    judge->nvalues = (size_t)d->nhosts;
    memset(judge->values, 0, judge->nvalues * sizeof *judge->values);
    for (int rank = 0; rank < d->nranks; rank++) {
        double *best = &judge->values[d->ranks[rank].host_index];
        *best = fmax(*best, speed(&d->ranks[rank], reduces));
    }
    for (int host = 0; d->nhosts > 1 && host < d->nhosts; host++) {
        struct diagnose_finding finding = {.measure = reduces ? "reduce" : "copy"};
        if (judge->slow_host[host] || !is_slow(judge, (size_t)host, LOWER_IS_SLOW, &finding))
            continue;
        found_host(judge, host, &finding);
        judge->busy[host] = finding.times;
    }
}

static void judge_ranks_speed(struct judge *judge, bool reduces)
{
    const struct diagnosis *d = judge->d;
    judge->nvalues = (size_t)d->nranks;
    for (int rank = 0; rank < d->nranks; rank++)
        judge->values[rank] = judge->slow_host[d->ranks[rank].host_index] || judge->slow_rank[rank]
                                  ? 0
                                  : speed(&d->ranks[rank], reduces);
    for (int rank = 0; rank < d->nranks; rank++) {
        struct diagnose_finding finding = {.measure = reduces ? "reduce" : "copy"};
        if (is_slow(judge, (size_t)rank, LOWER_IS_SLOW, &finding))
            found_rank(judge, rank, &finding);
    }
}

/* ---- links ---- */

static bool counts(const struct judge *judge, int from, int to)
{
    const struct diagnosis *d = judge->d;
    return from != to && !judge->slow_rank[from] && !judge->slow_rank[to] &&
           !judge->slow_host[d->ranks[from].host_index] &&
           !judge->slow_host[d->ranks[to].host_index];
}

static bool same_host(const struct diagnosis *d, int a, int b)
{
    return d->ranks[a].host_index == d->ranks[b].host_index;
}

static void improve(double *best, double value, enum direction direction)
{
    if (value <= 0)
        return;
    if (*best == 0 || (direction == LOWER_IS_SLOW ? value > *best : value < *best))
        *best = value;
}

struct side {
    const char *measure;
    enum direction direction;
    bool incoming;
};
static const struct side sides[] = {{"send", LOWER_IS_SLOW, false},
                                    {"receive", LOWER_IS_SLOW, true},
                                    {"latency", HIGHER_IS_SLOW, false}};
enum { SIDES = sizeof sides / sizeof *sides };

static double link_value(const struct diagnosis *d, const struct side *side, int a, int b)
{
    size_t n = (size_t)d->nranks;
    size_t at = side->incoming ? (size_t)b * n + (size_t)a : (size_t)a * n + (size_t)b;
    return side->direction == LOWER_IS_SLOW ? d->gbps[at] : d->latency_us[at];
}

/* The best link to another host; if there are two hosts, both have the same one. */
static void judge_hosts_links(struct judge *judge, const struct side *side)
{
    const struct diagnosis *d = judge->d;
    int hosts = 0;
    judge->nvalues = (size_t)d->nhosts;
    memset(judge->values, 0, judge->nvalues * sizeof *judge->values);
    for (int a = 0; a < d->nranks; a++)
        for (int b = 0; b < d->nranks; b++)
            if (!same_host(d, a, b) && counts(judge, a, b))
                improve(&judge->values[d->ranks[a].host_index], link_value(d, side, a, b),
                        side->direction);
    for (int host = 0; host < d->nhosts; host++)
        hosts += judge->values[host] > 0;
    if (hosts < 2 || (hosts == 2 && side->direction == HIGHER_IS_SLOW))
        return;
    for (int host = 0; host < d->nhosts; host++) {
        struct diagnose_finding finding = {.measure = side->measure};
        if (is_slow(judge, (size_t)host, side->direction, &finding))
            found_host(judge, host, &finding);
    }
}

static double host_copies(const struct diagnosis *d, int host)
{
    double most = 0;
    for (int rank = 0; rank < d->nranks; rank++)
        if (d->ranks[rank].host_index == host)
            most = fmax(most, d->ranks[rank].copy_gbps);
    return most;
}

/* The lines of hosts whose processors are slow. They are compared with those of all hosts, because
 * even a busy host shows a lower bound of what its line can carry. */
static void judge_busy_hosts_lines(struct judge *judge, const struct side *side)
{
    const struct diagnosis *d = judge->d;
    judge->nvalues = (size_t)d->nhosts;
    memset(judge->values, 0, judge->nvalues * sizeof *judge->values);
    for (int a = 0; a < d->nranks; a++)
        for (int b = 0; b < d->nranks; b++)
            if (!same_host(d, a, b))
                improve(&judge->values[d->ranks[a].host_index], link_value(d, side, a, b),
                        side->direction);
    for (int host = 0; host < d->nhosts && side->direction == LOWER_IS_SLOW; host++) {
        struct diagnose_finding finding = {.measure = side->measure};
        if (judge->busy[host] <= 0 ||
            judge->values[host] * (double)COPIES_A_BYTE > host_copies(d, host) ||
            !is_slow(judge, (size_t)host, side->direction, &finding) ||
            finding.times < (double)EXPLAINED_TIMES * judge->busy[host])
            continue;
        found_host(judge, host, &finding);
        judge->busy[host] = 0;
    }
}

/* The best link of each rank within hosts, or between them, compared with all ranks that have
 * one. */
static void judge_ranks_links(struct judge *judge, const struct side *side, bool within)
{
    const struct diagnosis *d = judge->d;
    int ranks = 0;
    judge->nvalues = (size_t)d->nranks;
    memset(judge->values, 0, judge->nvalues * sizeof *judge->values);
    for (int a = 0; a < d->nranks; a++)
        for (int b = 0; b < d->nranks; b++)
            if (same_host(d, a, b) == within && counts(judge, a, b))
                improve(&judge->values[a], link_value(d, side, a, b), side->direction);
    for (int rank = 0; rank < d->nranks; rank++)
        ranks += judge->values[rank] > 0;
    if (ranks < 3) /* the two ends of one link */
        return;
    for (int rank = 0; rank < d->nranks; rank++) {
        struct diagnose_finding finding = {.measure = side->measure, .within = within};
        if (is_slow(judge, (size_t)rank, side->direction, &finding))
            found_rank(judge, rank, &finding);
    }
}

/* Single links: within hosts each pair of ranks, between hosts the best of each pair of hosts. */
static void judge_links(struct judge *judge, const struct side *side, bool within)
{
    const struct diagnosis *d = judge->d;
    int many = within ? d->nranks : d->nhosts;
    judge->nvalues = (size_t)many * (size_t)many;
    memset(judge->values, 0, judge->nvalues * sizeof *judge->values);
    for (int a = 0; a < d->nranks; a++)
        for (int b = 0; b < d->nranks; b++) {
            int from = within ? a : d->ranks[a].host_index,
                to = within ? b : d->ranks[b].host_index;
            if (same_host(d, a, b) == within && counts(judge, a, b))
                improve(&judge->values[from * many + to], link_value(d, side, a, b),
                        side->direction);
        }
    for (int at = 0; at < many * many; at++) {
        struct diagnose_finding finding = {
            .kind = DIAGNOSE_LINK, .measure = side->measure, .within = within};
        int from = at / many, to = at % many;
        bool again = side->direction == HIGHER_IS_SLOW && from > to; /* reverse is the same */
        if (again || !is_slow(judge, (size_t)at, side->direction, &finding))
            continue;
        finding.rank = within ? from : -1;
        finding.peer = within ? to : -1;
        if (within)
            snprintf(finding.who, sizeof finding.who, "link from rank %d to rank %d on host %s",
                     from, to, d->ranks[from].host);
        else
            snprintf(finding.who, sizeof finding.who, "link from host %s to host %s",
                     host_name(d, from), host_name(d, to));
        finding.measure = side->direction == HIGHER_IS_SLOW ? "latency" : "bandwidth";
        keep(judge, &finding);
    }
}

static void judge_all(struct judge *judge)
{
    for (int reduces = 1; reduces >= 0; reduces--) {
        judge_hosts_speed(judge, reduces);
        judge_ranks_speed(judge, reduces);
    }
    for (int i = 0; i < SIDES; i++) {
        judge_hosts_links(judge, &sides[i]);
        judge_busy_hosts_lines(judge, &sides[i]);
    }
    for (int within = 1; within >= 0; within--) {
        for (int i = 0; i < SIDES; i++)
            judge_ranks_links(judge, &sides[i], within);
        for (int i = 0; i < SIDES; i++)
            if (!sides[i].incoming) /* what a sends to b is what b receives from a */
                judge_links(judge, &sides[i], within);
    }
}

kolo_status diagnose_judge(struct diagnosis *d)
{
    size_t most = (size_t)d->nranks * (size_t)d->nranks;
    struct judge judge = {.d = d};
    kolo_status status = KOLO_ERR_NO_MEMORY;
    judge.slow_host = kolo_calloc((size_t)d->nhosts, sizeof *judge.slow_host);
    judge.slow_rank = kolo_calloc((size_t)d->nranks, sizeof *judge.slow_rank);
    judge.busy = kolo_calloc((size_t)d->nhosts, sizeof *judge.busy);
    judge.values = kolo_calloc(most, sizeof *judge.values);
    judge.others = kolo_calloc(most, sizeof *judge.others);
    judge.scratch = kolo_calloc(most, sizeof *judge.scratch);
    if (judge.slow_host && judge.slow_rank && judge.busy && judge.values && judge.others &&
        judge.scratch) {
        d->nfindings = 0;
        judge_all(&judge);
        status = KOLO_OK;
    }
    kolo_free_memory(judge.slow_host);
    kolo_free_memory(judge.slow_rank);
    kolo_free_memory(judge.busy);
    kolo_free_memory(judge.values);
    kolo_free_memory(judge.others);
    kolo_free_memory(judge.scratch);
    return status;
}

/* ---- words ---- */

static const struct {
    const char *measure, *does, *advice;
} words[] = {
    {"reduce", "sums vectors at",
     "something else uses its processor, or it is limited (nice, cgroup, frequency)"},
    {"copy", "copies memory at",
     "look for a program that uses the same memory, and at NUMA nodes (kolorun --bind)"},
    {"send", "sends at no more than", "look at its cable, its port and its NIC's queues"},
    {"receive", "receives at no more than", "look at its cable, its port and the switch"},
    {"latency", "takes, one way,", "look at the path, interrupt moderation and power saving"},
    {"bandwidth", "carries no more than", "look at the path between the two"},
};

void diagnose_say(const struct diagnose_finding *f, char *text, size_t capacity)
{
    size_t at = 0, count = sizeof words / sizeof *words;
    const char *unit = strcmp(f->measure, "latency") == 0 ? "us" : "GB/s";
    while (at + 1 < count && strcmp(words[at].measure, f->measure) != 0)
        at++;
    snprintf(text, capacity,
             "%s is slow: it %s %.3g %s where the median of its siblings is %.3g %s (%.1f times); "
             "%s",
             f->who, words[at].does, f->value, unit, f->siblings, unit, f->times,
             f->within ? "no wire is involved: look at what else runs on its processors"
                       : words[at].advice);
}
