// SPDX-License-Identifier: Apache-2.0
// The network between hosts, judged from the measurements of each path.
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "launcher/doctor_judge.h"

enum { HOSTS = 5, ETH = 0, DOCKER = 1, FAST = 2 };

static struct kolo_checkup hosts[HOSTS];
static struct kolo_fact_paths paths;
static struct kolo_findings findings;
static struct kolo_prognosis job;

static void add_place(int host, const char *interface, int network, int64_t speed_mbit)
{
    struct kolo_facts *facts = &hosts[host].facts;
    struct kolo_fact_place *place = &facts->places[facts->place_count++];
    snprintf(place->address, sizeof place->address, "10.%d.0.%d:4711", network, host + 1);
    snprintf(place->interface, sizeof place->interface, "%s", interface);
    place->is_hardware = speed_mbit > 0;
    place->speed_mbit = speed_mbit;
    place->mtu = 1500;
}

/* Hosts a (here) to e, each with one card. */
static void begin(void)
{
    static const char *const names[HOSTS] = {"a", "b", "c", "d", "e"};
    findings = (struct kolo_findings){.at = NULL};
    paths = (struct kolo_fact_paths){.at = NULL};
    job = (struct kolo_prognosis){.size = HOSTS, .ports = "", .net = "", .transport = "auto"};
    for (int i = 0; i < HOSTS; i++) {
        hosts[i] = (struct kolo_checkup){
            .name = names[i], .ranks = 1, .is_here = i == 0, .has_facts = true, .has_paths = true};
        kolo_facts_init(&hosts[i].facts);
        add_place(i, "eth0", 0, 1000);
    }
}

static void end(void)
{
    kolo_findings_fini(&findings);
    kolo_free_memory(paths.at);
}
TestSuite(doctor_paths, .init = begin, .fini = end);

/* All paths between @p count hosts, all without problems, of 100 us. */
static void join(int count)
{
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++)
            for (int place = 0; from != to && (size_t)place < hosts[to].facts.place_count; place++)
                cr_assert(kolo_fact_paths_add(&paths, &(struct kolo_fact_path){.from = from,
                                                                               .to = to,
                                                                               .place = place,
                                                                               .rtt_us = 100}) ==
                          KOLO_OK);
}

static struct kolo_fact_path *path(int from, int to, int place)
{
    for (size_t i = 0; i < paths.count; i++)
        if (paths.at[i].from == from && paths.at[i].to == to && paths.at[i].place == place)
            return &paths.at[i];
    cr_assert_fail("no path");
    return NULL;
}

static void judge(int count)
{
    kolo_findings_fini(&findings);
    kolo_judge_paths(hosts, (size_t)count, &paths, &job, &findings);
}

static void expect(size_t index, enum kolo_severity severity, const char *kind, const char *words)
{
    cr_assert(index < findings.count, "%zu findings, not one of %s", findings.count, kind);
    const struct kolo_finding *finding = &findings.at[index];
    cr_assert(finding->severity == severity && strcmp(finding->kind, kind) == 0, "%s: %s",
              finding->kind, finding->text);
    cr_assert(strstr(finding->text, words), "'%s' is not in '%s'", words, finding->text);
}

Test(doctor_paths, all_fine)
{
    join(3);
    judge(3);
    cr_assert(findings.count == 0, "%s", findings.at[0].text);
    judge(1);
    cr_assert(findings.count == 0);
}

Test(doctor_paths, one_direction_alone)
{
    join(3);
    path(1, 2, ETH)->end = KOLO_FACT_PATH_SILENT;
    judge(3);
    cr_assert(findings.count == 1 && findings.at[0].hosts[0] == 1);
    expect(0, KOLO_SEVERITY_WARNING, "one-way",
           "cannot connect to c: 10.0.0.3 (eth0) does not answer");
    cr_assert(strstr(findings.at[0].text, "KOLO_PORTS"));
    job.ports = "7000-7100";
    judge(3);
    expect(0, KOLO_SEVERITY_WARNING, "one-way", "the firewall of c accept ports 7000-7100");
}

Test(doctor_paths, neither_direction)
{
    join(3);
    path(1, 2, ETH)->end = KOLO_FACT_PATH_SILENT;
    path(2, 1, ETH)->end = KOLO_FACT_PATH_NO_ROUTE;
    snprintf(path(2, 1, ETH)->words, KOLO_FACT_TEXT_MAX, "no route to host");
    judge(3);
    cr_assert(findings.count == 2);
    expect(0, KOLO_SEVERITY_ERROR, "apart", "cannot connect to c, nor c to it");
    expect(1, KOLO_SEVERITY_ERROR, "apart", "10.0.0.2 (eth0) no route to host");
}

Test(doctor_paths, ranks_must_reach_kolorun)
{
    join(3);
    path(1, 0, ETH)->end = path(2, 0, ETH)->end = KOLO_FACT_PATH_REFUSED;
    judge(3);
    cr_assert(findings.count == 1 && findings.at[0].host_count == 2);
    expect(0, KOLO_SEVERITY_ERROR, "rendezvous", "kolorun on a");
    hosts[0].is_here = false;
    hosts[0].is_launcher = true;
    hosts[0].name = "this machine";
    judge(3);
    cr_assert(findings.count == 1);
    expect(0, KOLO_SEVERITY_ERROR, "rendezvous", "kolorun on this machine");
}

Test(doctor_paths, a_host_that_gets_out_to_nobody_is_one_line)
{
    join(5);
    for (int to = 0; to < 5; to++)
        if (to != 2)
            path(2, to, ETH)->end = KOLO_FACT_PATH_SILENT;
    judge(5);
    cr_assert(findings.count == 1, "%zu", findings.count);
    expect(0, KOLO_SEVERITY_ERROR, "isolated", "none of 4 other hosts");
}

Test(doctor_paths, a_host_that_nobody_gets_to_is_one_line)
{
    join(5);
    for (int from = 0; from < 5; from++)
        if (from != 2)
            path(from, 2, ETH)->end = KOLO_FACT_PATH_SILENT;
    judge(5);
    cr_assert(findings.count == 1 && findings.at[0].host_count == 4, "%zu", findings.count);
    expect(0, KOLO_SEVERITY_WARNING, "one-way", "cannot connect to c");
}

Test(doctor_paths, docker_on_all_hosts_is_worth_a_note)
{
    for (int i = 0; i < 3; i++)
        add_place(i, "docker0", 17, 0);
    join(3);
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++)
            if (from != to) {
                path(from, to, DOCKER)->end = KOLO_FACT_PATH_OTHER_HOST;
                snprintf(path(from, to, DOCKER)->words, KOLO_FACT_TEXT_MAX, "is rank %d", from);
            }
    judge(3);
    for (size_t i = 0; i < findings.count; i++)
        expect(i, KOLO_SEVERITY_NOTE, "dead-address", "(docker0)");
    cr_assert(findings.count == 3);
    for (int from = 1; from < 3; from++) /* also if it is the only path */
        path(from, 0, ETH)->end = KOLO_FACT_PATH_NO_ROUTE;
    judge(3);
    kolo_findings_sort(&findings);
    expect(0, KOLO_SEVERITY_ERROR, "rendezvous", "(docker0) leads to the host itself");
    snprintf(path(1, 0, DOCKER)->words, KOLO_FACT_TEXT_MAX, "is rank 2");
    judge(3);
    kolo_findings_sort(&findings);
    expect(0, KOLO_SEVERITY_ERROR, "rendezvous", "(docker0) leads to c");
    snprintf(path(1, 0, DOCKER)->words, KOLO_FACT_TEXT_MAX, "is rank 200000000000000000000");
    judge(3);
    kolo_findings_sort(&findings);
    expect(0, KOLO_SEVERITY_ERROR, "rendezvous", "(docker0) leads to another host");
}

Test(doctor_paths, a_fast_card_that_is_dead)
{
    for (int i = 0; i < 3; i++) {
        add_place(i, "docker0", 17, 0);
        add_place(i, "ib0", 9, 100000);
    }
    join(3);
    path(1, 2, FAST)->end = KOLO_FACT_PATH_SILENT;
    judge(3);
    cr_assert(findings.count == 1);
    expect(0, KOLO_SEVERITY_WARNING, "lesser-way",
           "10.9.0.3 (ib0) of c, 100000 Mbit/s, does not answer; ranks use 10.0.0.3 (eth0), 1000");
}

Test(doctor_paths, long_messages_that_are_lost)
{
    join(3);
    path(1, 2, ETH)->end = KOLO_FACT_PATH_LONG_LOST;
    judge(3);
    cr_assert(findings.count == 1);
    expect(0, KOLO_SEVERITY_ERROR, "mtu", "long messages from it to c are lost: 10.0.0.3 (eth0)");
    for (int i = 0; i < 3; i++)
        add_place(i, "eth1", 3, 1000);
    path(1, 2, ETH)->place = 1;
    cr_assert(kolo_fact_paths_add(&paths, &(struct kolo_fact_path){.from = 1, .to = 2}) == KOLO_OK);
    judge(3);
    expect(0, KOLO_SEVERITY_ERROR, "mtu", "KOLO_NET=^eth1");
}

Test(doctor_paths, round_trips)
{
    join(3);
    path(1, 2, ETH)->rtt_us = 5000;
    judge(3);
    cr_assert(findings.count == 1);
    expect(0, KOLO_SEVERITY_WARNING, "round-trip", "to c takes 5.00 ms, the median is 0.10 ms");
    path(1, 2, ETH)->rtt_us = 900;
    judge(3);
    cr_assert(findings.count == 0);
    for (size_t i = 0; i < paths.count; i++)
        paths.at[i].rtt_us = 20000;
    judge(3);
    cr_assert(findings.count == 1);
    expect(0, KOLO_SEVERITY_NOTE, "far", "20.0 ms apart");
    for (size_t i = 0; i < paths.count; i++)
        paths.at[i].rtt_us = INT64_MAX; /* a host may report any number */
    judge(3);
    cr_assert(findings.count == 1, "%s", findings.at[0].text);
}

Test(doctor_paths, what_was_not_tried_is_not_judged)
{
    join(3);
    hosts[1].has_paths = false;
    for (size_t i = 0; i < paths.count; i++)
        if (paths.at[i].from == 1)
            paths.at[i].from = 2; /* no report came from host 1 */
    judge(3);
    cr_assert(findings.count == 0, "%s", findings.at[0].text);
    static const struct kolo_fact_path made_up[] = {
        {.from = 0, .to = 9},
        {.from = -1, .to = 1},
        {.from = 0, .to = 1, .place = 15, .end = KOLO_FACT_PATH_SILENT}};
    for (size_t i = 0; i < sizeof made_up / sizeof made_up[0]; i++)
        cr_assert(kolo_fact_paths_add(&paths, &made_up[i]) == KOLO_OK);
    judge(3);
    cr_assert(findings.count == 0);
}

Test(doctor_paths, short_memory_is_told)
{
    join(3);
    for (uint64_t nth = 1; nth < 3; nth++) {
        kolo_findings_fini(&findings);
        kolo_alloc_fail_nth(nth);
        kolo_judge_paths(hosts, 3, &paths, &job, &findings);
        kolo_alloc_fail_nth(0);
        cr_assert(findings.is_short);
    }
}
