// SPDX-License-Identifier: Apache-2.0
// From facts of hosts to findings: a host without problems gets none, and each wrong fact gets its
// own.
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "launcher/doctor_judge.h"

enum { HOSTS = 3 };

static struct kolo_checkup hosts[HOSTS];
static struct kolo_findings findings;
static struct kolo_prognosis job;

static void add_backend(int host, const char *kind, const char *name, bool works, const char *why)
{
    struct kolo_facts *facts = &hosts[host].facts;
    struct kolo_fact_backend *backend = &facts->backends[facts->backend_count++];
    snprintf(backend->kind, sizeof backend->kind, "%s", kind);
    snprintf(backend->name, sizeof backend->name, "%s", name);
    snprintf(backend->why, sizeof backend->why, "%s", why);
    backend->works = works;
}

static void set(int host, enum kolo_fact_number number, int64_t value)
{
    hosts[host].facts.number[number] = value;
}

static void set_text(int host, enum kolo_fact_text text, const char *value)
{
    snprintf(hosts[host].facts.text[text], KOLO_FACT_TEXT_MAX, "%s", value);
}

/* Hosts a (here), b and c, each with 4 ranks and everything that they need. */
static void begin(void)
{
    static const char *const names[HOSTS] = {"a", "b", "c"};
    findings = (struct kolo_findings){.at = NULL};
    job = (struct kolo_prognosis){.size = 12,
                                  .agent = "/usr/bin/kolorun",
                                  .build = "00ff",
                                  .machine = "x86_64",
                                  .ports = "",
                                  .net = "",
                                  .transport = "auto"};
    for (int i = 0; i < HOSTS; i++) {
        hosts[i] = (struct kolo_checkup){.name = names[i],
                                         .ranks = 4,
                                         .is_here = i == 0,
                                         .reach_ms = 200,
                                         .has_clock = true,
                                         .has_facts = true,
                                         .has_survey = true,
                                         .has_paths = true};
        kolo_facts_init(&hosts[i].facts);
        set(i, KOLO_FACT_cpus, 8);
        set(i, KOLO_FACT_cores, 4);
        set(i, KOLO_FACT_load_milli, 300);
        set(i, KOLO_FACT_memory_bytes, INT64_C(64) << 30);
        set(i, KOLO_FACT_available_bytes, INT64_C(60) << 30);
        set(i, KOLO_FACT_open_files, 1024);
        set(i, KOLO_FACT_open_files_most, 4096);
        set(i, KOLO_FACT_may_lock, 0);
        set(i, KOLO_FACT_locked_bytes, 8 << 20);
        set(i, KOLO_FACT_memfd_works, 1);
        set(i, KOLO_FACT_loopback_works, 1);
        set(i, KOLO_FACT_gpus, 0);
        set_text(i, KOLO_FACT_host, names[i]);
        set_text(i, KOLO_FACT_identity, names[i]);
        set_text(i, KOLO_FACT_machine, "x86_64");
        set_text(i, KOLO_FACT_build, "00ff");
        add_backend(i, "transport", "shm", true, "");
        add_backend(i, "transport", "tcp", true, "");
        add_backend(i, "transport", "rdma", false, "no device");
        add_backend(i, "memory", "cma", true, "");
    }
}

static void end(void)
{
    kolo_findings_fini(&findings);
}
TestSuite(doctor_judge, .init = begin, .fini = end);

static void judge(void)
{
    kolo_findings_fini(&findings);
    kolo_judge_hosts(hosts, HOSTS, &job, &findings);
    kolo_findings_sort(&findings);
}

/* Asserts exactly one finding, about host @p host, with these words. */
static void expect(enum kolo_severity severity, const char *kind, int host, const char *words)
{
    judge();
    cr_assert(findings.count == 1, "%zu findings, the first '%s'; expected %s", findings.count,
              findings.count ? findings.at[0].text : "", kind);
    const struct kolo_finding *finding = &findings.at[0];
    cr_assert(finding->severity == severity && strcmp(finding->kind, kind) == 0, "%s: %s",
              finding->kind, finding->text);
    cr_assert(finding->host_count == 1 && finding->hosts[0] == host);
    cr_assert(strstr(finding->text, words), "'%s' is not in '%s'", words, finding->text);
}

Test(doctor_judge, nothing_to_mend)
{
    judge();
    cr_assert(findings.count == 0, "%s", findings.at[0].text);
}

Test(doctor_judge, ssh_and_what_helps)
{
    static const char *const cases[][2] = {
        {"Permission denied (publickey).", "ssh-copy-id"},
        {"Host key verification failed.", "ssh-keyscan"},
        {"ssh: Could not resolve hostname b: Name or service not known", "/etc/hosts"},
        {"ssh: connect to host b port 22: Connection refused", "ssh -p PORT"},
        {"ssh: connect to host b port 22: Connection timed out", "firewall"},
        {"Connection to 10.0.0.2 port 22 timed out; it answered at first: now it hangs, or only "
         "short messages arrive (MTU)",
         "; see its load, and whether ping -M do"},
        {"Connection timed out during banner exchange; Connection to 10.0.0.2 port 22 timed out",
         "; see its load, and what its sshd does"},
        {"ssh: connect to host b port 22: No route to host", "network"},
        {"something new", "by hand"},
    };
    hosts[1].has_facts = hosts[1].has_clock = false;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(hosts[1].unreached, sizeof hosts[1].unreached,
                 "host b: cannot be reached by ssh: %s", cases[i][0]);
        expect(KOLO_SEVERITY_ERROR, "ssh", 1, cases[i][1]);
        cr_assert(strncmp(findings.at[0].text, "cannot be reached by ssh: ", 26) == 0,
                  "the host is not said twice: %s", findings.at[0].text);
    }
    snprintf(hosts[1].unreached, sizeof hosts[1].unreached,
             "host b: runs kolorun 9, this one is 0; install the same");
    expect(KOLO_SEVERITY_ERROR, "ssh", 1, "install the same");
    cr_assert(!strstr(findings.at[0].text, "by hand"));
    snprintf(hosts[1].unreached, sizeof hosts[1].unreached,
             "host b: agent: cannot start: fork: Permission denied: have it allowed");
    expect(KOLO_SEVERITY_ERROR, "ssh", 1, "agent: cannot start");
    cr_assert(!strstr(findings.at[0].text, "; "), "%s", findings.at[0].text);
    hosts[1].is_here = true; /* it is not reached by ssh */
    snprintf(hosts[1].unreached, sizeof hosts[1].unreached, "the agent did not answer within 5 s");
    expect(KOLO_SEVERITY_ERROR, "ssh", 1, "within 5 s; see its load, and ask again");
    snprintf(hosts[1].unreached, sizeof hosts[1].unreached,
             "pipe: Too many open files: raise `ulimit -n`");
    expect(KOLO_SEVERITY_ERROR, "ssh", 1, "raise `ulimit -n`");
    cr_assert(!strstr(findings.at[0].text, "; "));
}

Test(doctor_judge, reached_but)
{
    hosts[1].reach_ms = 7000;
    expect(KOLO_SEVERITY_WARNING, "ssh-slow", 1, "7 s");
    hosts[1].reach_ms = 0;
    hosts[2].noise_bytes = 30;
    expect(KOLO_SEVERITY_WARNING, "noise", 2, "print 30 bytes");
    hosts[2].noise_bytes = 0;
    snprintf(hosts[2].noise, sizeof hosts[2].noise, "welcome");
    expect(KOLO_SEVERITY_NOTE, "noise", 2, "says: welcome");
    hosts[2].noise[0] = '\0';
    snprintf(hosts[2].refused, sizeof hosts[2].refused,
             "directory '/x': No such file or directory");
    expect(KOLO_SEVERITY_ERROR, "refused", 2, "--chdir");
    hosts[2].refused[0] = '\0';
    snprintf(hosts[2].unfinished, sizeof hosts[2].unfinished, "did not say");
    expect(KOLO_SEVERITY_ERROR, "silent", 2, "did not say");
    hosts[2].unfinished[0] = '\0';
    snprintf(hosts[2].gone, sizeof hosts[2].gone, "the connection to host c broke");
    expect(KOLO_SEVERITY_ERROR, "lost", 2, "broke");
}

Test(doctor_judge, clocks)
{
    hosts[1].clock_offset_ns = 3500000000;
    expect(KOLO_SEVERITY_WARNING, "clock", 1, "3.5 s ahead of this");
    hosts[1].clock_offset_ns = -3500000000;
    expect(KOLO_SEVERITY_WARNING, "clock", 1, "3.5 s behind this");
    hosts[1].clock_doubt_ns = 3000000000; /* the clock may be right: the answer took 6 s */
    judge();
    cr_assert(findings.count == 0);
    hosts[1].clock_offset_ns = 900000000;
    hosts[1].clock_doubt_ns = 0;
    judge();
    cr_assert(findings.count == 0);
}

Test(doctor_judge, processors)
{
    set(1, KOLO_FACT_cpus, 2);
    set(1, KOLO_FACT_cores, 2);
    expect(KOLO_SEVERITY_WARNING, "cores", 1, "4 ranks on 2 processors");
    set(1, KOLO_FACT_cpus, 4);
    expect(KOLO_SEVERITY_NOTE, "threads", 1, "4 ranks on 2 cores");
    set(1, KOLO_FACT_cpus, 8);
    set(1, KOLO_FACT_cores, 4);
    set(1, KOLO_FACT_quota_milli, 1500);
    expect(KOLO_SEVERITY_WARNING, "quota", 1, "1.5 processors to 4 ranks");
    set(1, KOLO_FACT_quota_milli, 4000);
    judge();
    cr_assert(findings.count == 0);
    set(1, KOLO_FACT_load_milli, 7200);
    expect(KOLO_SEVERITY_WARNING, "load", 1, "load is 7");
}

Test(doctor_judge, memory)
{
    set(1, KOLO_FACT_available_bytes, 20 << 20);
    expect(KOLO_SEVERITY_WARNING, "memory", 1, "20 MiB");
    set(1, KOLO_FACT_available_bytes, INT64_C(1) << 40);
    set(1, KOLO_FACT_memory_limit_bytes, 512 << 20);
    set(1, KOLO_FACT_memory_room_bytes, 100 << 20);
    expect(KOLO_SEVERITY_WARNING, "memory-limit", 1,
           "100 MiB are left below its cgroup's limit of 512");
    set(1, KOLO_FACT_memory_room_bytes, 300 << 20);
    set(1, KOLO_FACT_memfd_works, 0);
    expect(KOLO_SEVERITY_ERROR, "memfd", 1, "memfd_create");
}

Test(doctor_judge, loopback)
{
    set(1, KOLO_FACT_loopback_works, 0);
    expect(KOLO_SEVERITY_WARNING, "loopback", 1, "no TCP with each other; bring it up");
    hosts[1].ranks = 1;
    judge();
    cr_assert(findings.count == 0);
    hosts[1].is_here = true;
    expect(KOLO_SEVERITY_ERROR, "loopback", 1, "over which its ranks meet; bring it up (ip link");
}

Test(doctor_judge, limits)
{
    set(1, KOLO_FACT_open_files, 50);
    expect(KOLO_SEVERITY_ERROR, "open-files", 1, "ulimit -n is 50 and 12 ranks may need 56");
    cr_assert(strstr(findings.at[0].text, "start-up file"));
    set(1, KOLO_FACT_open_files_most, 50);
    expect(KOLO_SEVERITY_ERROR, "open-files", 1, "limits.conf");
    set(1, KOLO_FACT_open_files, -1);
    set(1, KOLO_FACT_file_bytes, 5 << 20);
    expect(KOLO_SEVERITY_WARNING, "file-size", 1, "5 MiB");
    set(1, KOLO_FACT_file_bytes, -1);
    set(1, KOLO_FACT_gpus, 4);
    expect(KOLO_SEVERITY_WARNING, "locked-memory", 1, "8 MiB");
    set(1, KOLO_FACT_may_lock, 1);
    judge();
    cr_assert(findings.count == 0);
}

Test(doctor_judge, kolorun_needs_files_for_all_ranks)
{
    job.size = 2000;
    for (int i = 0; i < HOSTS; i++)
        set(i, KOLO_FACT_open_files, -1);
    hosts[0].is_here = false;
    hosts[0].is_launcher = true;
    hosts[0].ranks = 0;
    const int needed = 18 + 2000 + 3 * HOSTS;
    set(0, KOLO_FACT_open_files, 1024);
    set(0, KOLO_FACT_open_files_most, 1024);
    expect(KOLO_SEVERITY_ERROR, "open-files", 0, "1024");
    set(0, KOLO_FACT_open_files_most, needed - 1);
    expect(KOLO_SEVERITY_ERROR, "open-files", 0, "limits.conf");
    set(0, KOLO_FACT_open_files_most, needed); /* kolorun raises the soft one */
    judge();
    cr_assert(findings.count == 0);
}

/* A soft limit that is enough for a rank is raised by the agent, if the hard one allows it. */
Test(doctor_judge, agents_need_files_for_their_ranks)
{
    hosts[1].ranks = 500;
    set(1, KOLO_FACT_cpus, 500);
    set(1, KOLO_FACT_cores, 500);
    set(1, KOLO_FACT_available_bytes, -1);
    set(1, KOLO_FACT_open_files, 1024);
    set(1, KOLO_FACT_open_files_most, 32 + 4 * 500 - 1);
    expect(KOLO_SEVERITY_ERROR, "open-files", 1, "may need 2032 files");
    set(1, KOLO_FACT_open_files_most, 32 + 4 * 500);
    judge();
    cr_assert(findings.count == 0, "%s", findings.at[0].text);
}

Test(doctor_judge, devices)
{
    set(1, KOLO_FACT_gpus, 2);
    set(1, KOLO_FACT_locked_bytes, -1);
    expect(KOLO_SEVERITY_NOTE, "gpus", 1, "4 ranks and 2 GPUs");
    set(1, KOLO_FACT_gpus, 4);
    hosts[1].has_survey = false;
    snprintf(hosts[1].facts.step, sizeof hosts[1].facts.step, "cuda");
    expect(KOLO_SEVERITY_WARNING, "survey", 1, "last step: cuda");
    hosts[1].has_survey = true;
    set_text(1, KOLO_FACT_survey_error, "ended by signal 11 (SIGSEGV)");
    expect(KOLO_SEVERITY_WARNING, "survey", 1, "SIGSEGV");
    set_text(1, KOLO_FACT_survey_error, "");
    hosts[1].facts.backends[0].works = false; /* shm */
    snprintf(hosts[1].facts.backends[0].why, sizeof hosts[1].facts.backends[0].why, "sealed off");
    expect(KOLO_SEVERITY_WARNING, "shm", 1, "sealed off");
    job.transport = "shm";
    expect(KOLO_SEVERITY_ERROR, "transport", 1, "shm, which KOLO_TRANSPORT asks for");
    job.transport = "auto";
    hosts[1].facts.backends[0].works = true;
    hosts[1].facts.backends[3].works = false; /* cma */
    expect(KOLO_SEVERITY_NOTE, "cma", 1, "copied twice");
}

Test(doctor_judge, rdma_on_some_hosts_alone)
{
    for (int i = 0; i < HOSTS; i++)
        set(i, KOLO_FACT_may_lock, 1);
    hosts[0].facts.backends[2].works = hosts[1].facts.backends[2].works = true;
    expect(KOLO_SEVERITY_WARNING, "rdma", 2, "no RDMA (no device), unlike a");
}

Test(doctor_judge, rdma_ports_that_cannot_be_joined)
{
    for (int i = 0; i < HOSTS; i++) {
        set(i, KOLO_FACT_may_lock, 1);
        hosts[i].facts.backends[2].works = true;
        add_backend(i, "port", "mlx5_0:1", true, "...");
        add_backend(i, "network", "mlx5_0:1", true,
                    i == 0   ? "RoCE v1 IPv4; RoCE v2 IPv4"
                    : i == 1 ? "RoCE v2 IPv4; RoCE v2 link-local"
                             : "RoCE v2 link-local");
        add_backend(i, "network", "mlx5_1:1", true, "InfiniBand fe80::"); /* of the other rails */
    }
    expect(KOLO_SEVERITY_WARNING, "rdma-network", 2,
           "its RDMA port mlx5_0:1 (RoCE v2 link-local) cannot be connected to mlx5_0:1 of a "
           "(RoCE v1 IPv4; RoCE v2 IPv4), and all links between them use TCP");
}

Test(doctor_judge, others)
{
    hosts[1].facts.others[0] =
        (struct kolo_fact_other){.pid = 77, .age_s = 3600, .program = "train"};
    hosts[1].facts.other_count = 1;
    expect(KOLO_SEVERITY_WARNING, "leftover", 1, "kill 77");
    hosts[1].facts.others[0].has_launcher = true;
    expect(KOLO_SEVERITY_WARNING, "other-job", 1, "for 3600 s (its agent is pid 77)");
    hosts[1].facts.others[0].age_s = -1;
    expect(KOLO_SEVERITY_WARNING, "other-job", 1, "has been running here (its agent is pid 77)");
    hosts[1].facts.others[0].has_launcher = false;
    expect(KOLO_SEVERITY_WARNING, "leftover", 1, "of an earlier job, whose agent is gone");
    hosts[1].facts.others[0].pid = 1;
    expect(KOLO_SEVERITY_WARNING, "leftover", 1, "end its container");
    cr_assert(!strstr(findings.at[0].text, "kill"));
}

Test(doctor_judge, one_machine_under_two_names)
{
    set_text(2, KOLO_FACT_identity, "b");
    expect(KOLO_SEVERITY_WARNING, "twin", 2, "same machine as b");
    hosts[1].has_facts = false; /* in that case it is unknown */
    hosts[1].has_clock = false;
    judge();
    cr_assert(findings.count == 0);
}

Test(doctor_judge, builds)
{
    set_text(1, KOLO_FACT_build, "1234");
    expect(KOLO_SEVERITY_WARNING, "build", 1, "(1234, here 00ff)");
    set_text(1, KOLO_FACT_machine, "aarch64"); /* must differ there */
    judge();
    cr_assert(findings.count == 0);
}

Test(doctor_judge, network_of_a_host)
{
    job.ports = "7000-7001";
    for (int i = 0; i < HOSTS; i++)
        set(i, KOLO_FACT_ports_free, 5);
    set(2, KOLO_FACT_ports_free, 3);
    expect(KOLO_SEVERITY_ERROR, "ports", 2, "3 ports of KOLO_PORTS=7000-7001 are free and 4");
    set(2, KOLO_FACT_ports_denied, 2);
    expect(KOLO_SEVERITY_ERROR, "ports", 2, "may not listen at 2 ports of KOLO_PORTS=7000-7001");
    set(2, KOLO_FACT_ports_denied, 0);
    set(2, KOLO_FACT_ports_free, 4);
    set(0, KOLO_FACT_ports_free, 4); /* kolorun listens on that host too */
    expect(KOLO_SEVERITY_ERROR, "ports", 0, "and 5 are needed");
    set(0, KOLO_FACT_ports_free, 5);
    kolo_facts_init(&hosts[1].facts); /* nothing is known of it */
    set(1, KOLO_FACT_ports_free, -1);
    judge();
    cr_assert(findings.count == 0, "%s", findings.at[0].text);
    set_text(1, KOLO_FACT_listen_error, "no addresses");
    expect(KOLO_SEVERITY_ERROR, "listen", 1, "no addresses");
    set_text(1, KOLO_FACT_listen_error, "");
    set_text(1, KOLO_FACT_net_unnamed, "ib7");
    expect(KOLO_SEVERITY_NOTE, "net-unnamed", 1, "ib7");
}

static void add_place(int host, const char *address)
{
    struct kolo_facts *facts = &hosts[host].facts;
    snprintf(facts->places[facts->place_count++].address, sizeof facts->places[0].address, "%s",
             address);
}

Test(doctor_judge, a_host_that_offers_only_loopback)
{
    add_place(0, "10.0.0.1:7000");
    add_place(1, "127.0.0.1:7000");
    add_place(1, "[::1]:7000");
    expect(KOLO_SEVERITY_ERROR, "unreachable", 1, "only loopback addresses: it has no other");
    job.net = "^eth0";
    expect(KOLO_SEVERITY_ERROR, "unreachable", 1, "KOLO_NET=^eth0; name the network");
    set_text(1, KOLO_FACT_net_unusable, "eth1 fd01::2 is in use by another host too");
    expect(KOLO_SEVERITY_ERROR, "unreachable", 1, "addresses: eth1 fd01::2 is in use by");
    add_place(1, "10.0.0.2:7000");
    judge();
    cr_assert(findings.count == 0, "it has another one: %s", findings.at[0].text);
}

Test(doctor_judge, one_machine_by_several_names_needs_loopback_only)
{
    for (int i = 0; i < HOSTS; i++) {
        add_place(i, "127.0.0.1:7000");
        set_text(i, KOLO_FACT_identity, "a");
    }
    judge();
    for (size_t i = 0; i < findings.count; i++)
        cr_assert_str_eq(findings.at[i].kind, "twin", "%s", findings.at[i].text);
}

Test(doctor_judge, a_hundred_hosts_with_one_fault_are_one_line)
{
    for (int i = 0; i < HOSTS; i++)
        set(i, KOLO_FACT_file_bytes, 40 << 20);
    judge();
    cr_assert(findings.count == 1 && findings.at[0].host_count == HOSTS, "%zu", findings.count);
}

Test(doctor_judge, gpus_that_cannot_be_used)
{
    add_backend(1, "memory", "cuda", false, "cuInit: of different versions: restart the machine");
    judge();
    cr_assert(findings.count == 0, "there are no GPUs: %s", findings.at[0].text);
    set(1, KOLO_FACT_locked_bytes, -1);
    set(1, KOLO_FACT_gpus, 4);
    expect(KOLO_SEVERITY_WARNING, "cuda", 1, "its 4 GPUs cannot be used: cuInit: of different");
    job.gpus = 1;
    expect(KOLO_SEVERITY_ERROR, "cuda", 1, "which --gpus gives to ranks, cannot be used: cuInit");
    hosts[1].facts.backends[4].works = true;
    judge();
    cr_assert(findings.count == 0, "%s", findings.at[0].text);
}
