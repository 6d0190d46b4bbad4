// SPDX-License-Identifier: Apache-2.0
// The verdicts of kolobench diagnose, on worlds whose slow part is known.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "bench/diagnose.h"

enum { MOST = 64 };

static struct diagnose_rank ranks[MOST];
static double latency[MOST * MOST], gbps[MOST * MOST];
static uint32_t seed;

/* 1 plus up to @p spread. */
static double about(double value, double spread)
{
    seed = seed * 1664525 + 1013904223;
    return value * (1 + spread * (seed >> 8) / (1 << 24));
}

/* @p hosts hosts with @p each ranks each: shm within a host, a network between hosts. */
static struct diagnosis world(int hosts, int each)
{
    struct diagnosis d = {.nranks = hosts * each,
                          .nhosts = hosts,
                          .factor = 2,
                          .ranks = ranks,
                          .latency_us = latency,
                          .gbps = gbps};
    seed = 1;
    for (int rank = 0; rank < d.nranks; rank++) {
        ranks[rank] = (struct diagnose_rank){.pid = 100 + rank,
                                             .host_index = rank / each,
                                             .local_rank = rank % each,
                                             .reduce_gbps = about(30, 0.2),
                                             .copy_gbps = about(10, 0.2)};
        snprintf(ranks[rank].host, sizeof ranks[rank].host, "h%d", rank / each);
    }
    for (int at = 0; at < d.nranks * d.nranks; at++) {
        int from = at / d.nranks, to = at % d.nranks;
        bool within = from / each == to / each;
        latency[at] = from == to ? 0 : about(within ? 0.5 : 20, 0.3);
        gbps[at] = from == to ? 0 : about(within ? 8 : 1.1, 0.2);
    }
    return d;
}

static void finds(struct diagnosis *d, const char *who, const char *measure)
{
    char text[512];
    cr_assert_eq(diagnose_judge(d), KOLO_OK);
    for (size_t i = 0; i < d->nfindings; i++) {
        diagnose_say(&d->findings[i], text, sizeof text);
        cr_log_info("%s", text);
        cr_expect_str_eq(d->findings[i].who, who, "%s", text);
        cr_expect(!strchr(text, '\n') && strstr(text, who) == text);
    }
    cr_assert_eq(d->nfindings, 1, "%zu findings instead of one of %s", d->nfindings, who);
    cr_expect_str_eq(d->findings[0].measure, measure);
    cr_expect_gt(d->findings[0].times, 2);
}

Test(diagnose, nothing_is_slow)
{
    for (int hosts = 1; hosts <= 8; hosts++)
        for (int each = 1; each <= 8; each *= 2) {
            struct diagnosis d = world(hosts, each);
            cr_assert_eq(diagnose_judge(&d), KOLO_OK);
            cr_expect_eq(d.nfindings, 0, "%d hosts of %d: %s", hosts, each, d.findings[0].who);
        }
}

Test(diagnose, one_rank_computes_slowly)
{
    for (int each = 2; each <= 8; each++) {
        struct diagnosis d = world(1, each);
        ranks[1].reduce_gbps /= 5;
        ranks[1].copy_gbps /= 5;
        for (int other = 0; other < each; other++) { /* and its links are slow too */
            latency[each + other] *= 40;
            latency[other * each + 1] *= 40;
            gbps[each + other] /= 5;
            gbps[other * each + 1] /= 5;
        }
        finds(&d, "rank 1 (h0, pid 101)", "reduce");
    }
}

Test(diagnose, one_host_is_slow_altogether)
{
    struct diagnosis d = world(3, 4);
    for (int rank = 4; rank < 8; rank++)
        ranks[rank].reduce_gbps /= 3;
    finds(&d, "host h1", "reduce");
}

static void slow_host(struct diagnosis *d, int each, int host, bool sends, bool receives, bool late)
{
    for (int at = 0; at < d->nranks * d->nranks; at++) {
        int from = at / d->nranks / each, to = at % d->nranks / each;
        if (from == to)
            continue;
        if ((sends && from == host) || (receives && to == host))
            gbps[at] /= 10;
        if (late && (from == host || to == host))
            latency[at] *= 10;
    }
}

Test(diagnose, one_hosts_wire)
{
    for (int hosts = 3; hosts <= 8; hosts++)
        for (int each = 1; each <= 8 && each * hosts <= MOST; each *= 2) {
            struct diagnosis d = world(hosts, each);
            slow_host(&d, each, hosts - 1, true, false, false);
            char who[16];
            snprintf(who, sizeof who, "host h%d", hosts - 1);
            finds(&d, who, "send");
            d = world(hosts, each);
            slow_host(&d, each, 1, true, true, true);
            finds(&d, "host h1", "send");
            d = world(hosts, each);
            slow_host(&d, each, 0, false, true, false);
            finds(&d, "host h0", "receive");
            d = world(hosts, each);
            slow_host(&d, each, 0, false, false, true);
            finds(&d, "host h0", "latency");
        }
}

/* Slow processors explain links that are slower by the same factor, but not a line that is much
 * slower. */
Test(diagnose, a_slow_line_of_a_host_that_is_busy_too)
{
    struct diagnosis d;
    char text[512];
    for (int hosts = 2; hosts <= 4; hosts++) {
        for (int is_worse = 0; is_worse < 2; is_worse++) {
            d = world(hosts, 2);
            for (int rank = 2; rank < 4; rank++) {
                ranks[rank].reduce_gbps /= 4;
                ranks[rank].copy_gbps /= 4;
            }
            for (int at = 0; at < d.nranks * d.nranks; at++)
                if (at / d.nranks / 2 == 1 && at % d.nranks / 2 != 1)
                    gbps[at] /= is_worse ? 40 : 4;
            if (!is_worse) {
                finds(&d, "host h1", "reduce");
                continue;
            }
            cr_assert_eq(diagnose_judge(&d), KOLO_OK);
            cr_assert_eq(d.nfindings, 2, "%d hosts: %zu", hosts, d.nfindings);
            diagnose_say(&d.findings[1], text, sizeof text);
            cr_assert(strstr(text, "host h1 is slow: it sends at no more than") == text, "%s",
                      text);
        }
    }
}

Test(diagnose, of_two_hosts_the_one_that_sends_slowly)
{
    struct diagnosis d = world(2, 2);
    slow_host(&d, 2, 1, true, false, false);
    finds(&d, "host h1", "send");
}

Test(diagnose, one_path_between_hosts)
{
    struct diagnosis d = world(5, 2);
    for (int a = 2; a < 4; a++)
        for (int b = 6; b < 8; b++)
            gbps[a * 10 + b] /= 8;
    finds(&d, "link from host h1 to host h3", "bandwidth");
}

Test(diagnose, one_link_within_a_host)
{
    struct diagnosis d = world(1, 6);
    latency[2 * 6 + 4] = latency[4 * 6 + 2] = 50;
    finds(&d, "link from rank 2 to rank 4 on host h0", "latency");
}

Test(diagnose, what_varies_much_is_not_slow)
{
    struct diagnosis d = world(1, 8);
    for (int rank = 0; rank < 8; rank++)
        ranks[rank].copy_gbps = 3 + 2 * rank;
    cr_assert_eq(diagnose_judge(&d), KOLO_OK);
    cr_expect_eq(d.nfindings, 0);
}
