// SPDX-License-Identifier: Apache-2.0
// Judges each host by itself, then against the others. A text does not name its host, so that the
// same finding on several hosts can be combined (doctor_findings.c).
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "launcher/doctor_judge.h"
#include "launcher/open_files.h"

#define ERROR(kind, ...) kolo_findings_add(findings, KOLO_SEVERITY_ERROR, kind, self, __VA_ARGS__)
#define WARNING(kind, ...)                                                                         \
    kolo_findings_add(findings, KOLO_SEVERITY_WARNING, kind, self, __VA_ARGS__)
#define NOTE(kind, ...) kolo_findings_add(findings, KOLO_SEVERITY_NOTE, kind, self, __VA_ARGS__)

enum {
    MIB = 1 << 20,
    REACH_SLOW_MS = 5000,
    /* A difference of a second is noticed where times of several hosts are compared (logs,
     * make). */
    CLOCK_MAX_S = 1,
    /* Measured on one host: a rank has 9 descriptors and 2 per peer. tests/launcher/doctor.sh
     * compares these numbers with real ranks. */
    FILES_OF_RANK = 32,
    FILES_OF_PEER = 2
};

static int64_t number(const struct kolo_checkup *host, enum kolo_fact_number which)
{
    return host->facts.number[which];
}

static const char *text(const struct kolo_checkup *host, enum kolo_fact_text which)
{
    return host->facts.text[which];
}

/* ---- reaching ---- */

/* What ssh says, and the step that helps. */
static const char *ssh_advice(const char *words)
{
    static const struct {
        const char *words, *advice;
    } table[] = {
        {"--start-timeout", ""}, /* and whatever the host printed */
        {"Permission denied", "put your key there (ssh-copy-id HOST), or start an ssh-agent"},
        {"Host key verification failed",
         "accept its key once (ssh HOST true), or add it with ssh-keyscan"},
        {"IDENTIFICATION HAS CHANGED", "see why its key changed, then ssh-keygen -R HOST"},
        {"Could not resolve hostname", "correct the name, or add it to DNS or /etc/hosts"},
        {"Connection refused", "start sshd there, or give its port: --ssh 'ssh -p PORT'"},
        {"No route to host", "see that it is up and on this network"},
        {"(MTU)", "see its load, and whether ping -M do -s 1400 HOST is answered"},
        {"banner exchange", "see its load, and what its sshd does"},
        {"timed out", "see that it is up, and that no firewall drops port 22"},
        {"install", ""}, /* its message already gives a step */
        {"give --", ""},
        {"raise ", ""},
    };
    if (strncmp(words, "agent: ", 7) == 0) /* ssh was well, and the agent said what to do */
        return "";
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strstr(words, table[i].words))
            return table[i].advice;
    return "try ssh HOST true by hand";
}

/* Messages of kolo_remote_* begin with the host, which stands before each finding anyway. */
static const char *without_host(const char *words, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(words, "host ", 5) == 0 && strncmp(words + 5, name, length) == 0 &&
        strncmp(words + 5 + length, ": ", 2) == 0)
        return words + 5 + length + 2;
    return words;
}

static void judge_reach(const struct kolo_checkup *host, int self, struct kolo_findings *findings)
{
    const char *words = without_host(host->unreached, host->name);
    if (words[0] != '\0') {
        const char *advice = !host->is_here && !host->is_launcher ? ssh_advice(words)
                             : strstr(words, "raise ")            ? ""
                                                                  : "see its load, and ask again";
        ERROR("ssh", "%s%s%s", words, advice[0] ? "; " : "", advice);
        return;
    }
    if (host->unfinished[0] != '\0')
        ERROR("silent", "%s", host->unfinished);
    else if (host->gone[0] != '\0')
        ERROR("lost", "was lost while it was looked at: %s; see its journal, and ask again",
              without_host(host->gone, host->name));
    if (host->refused[0] != '\0')
        ERROR("refused", "would not start the job: %s%s", host->refused,
              strncmp(host->refused, "directory ", 10) == 0
                  ? "; put it there (a shared file system), or give --chdir"
                  : "");
    if (!host->is_here && host->reach_ms > (double)REACH_SLOW_MS)
        WARNING("ssh-slow",
                "ssh took %.0f s; see there for slow name lookups (UseDNS, GSSAPIAuthentication) "
                "and start-up files",
                host->reach_ms / 1000);
    if (host->noise_bytes > 0)
        WARNING("noise",
                "start-up files of the shell there print %zu bytes, which kolorun has to skip; let "
                "them print only where [ -t 1 ]",
                host->noise_bytes);
    if (host->noise[0] != '\0')
        NOTE("noise", "ssh, or a start-up file of the shell there, says: %s", host->noise);
}

static void judge_clock(const struct kolo_checkup *host, int self, struct kolo_findings *findings)
{
    double offset_s = (double)host->clock_offset_ns / 1e9;
    double doubt_s = (double)host->clock_doubt_ns / 1e9;
    if (!host->has_clock || (offset_s < 0 ? -offset_s : offset_s) - doubt_s < (double)CLOCK_MAX_S)
        return;
    WARNING("clock",
            "its clock is %.1f s %s this machine's; times in logs will not match; start chronyd or "
            "systemd-timesyncd there",
            offset_s < 0 ? -offset_s : offset_s, offset_s < 0 ? "behind" : "ahead of");
}

/* ---- resources ---- */

static void judge_processors(const struct kolo_checkup *host, int self,
                             struct kolo_findings *findings)
{
    int64_t cpus = number(host, KOLO_FACT_cpus), cores = number(host, KOLO_FACT_cores);
    int64_t quota = number(host, KOLO_FACT_quota_milli), load = number(host, KOLO_FACT_load_milli);
    if (cpus > 0 && host->ranks > cpus)
        WARNING("cores",
                "%d ranks on %" PRId64
                " processors take turns, and each wait of a collective costs a "
                "turn; give at most %" PRId64,
                host->ranks, cpus, cpus);
    else if (cores > 0 && host->ranks > cores)
        NOTE("threads", "%d ranks on %" PRId64 " cores: some share a core as hyper-threads",
             host->ranks, cores);
    if (quota > 0 && quota < (int64_t)host->ranks * 1000)
        WARNING(
            "quota",
            "its cgroup gives %.2g processors to %d ranks: all are stopped for a part of each "
            "period; raise cpu.max (docker --cpus, a Slurm or Kubernetes limit), or start fewer",
            (double)quota / 1000, host->ranks);
    if (load >= 0 && cpus > 0 && (double)load / 1000 + host->ranks > 1.25 * (double)cpus &&
        (double)load / 1000 >= 1)
        WARNING("load",
                "its load is %.0f already, beside %d rank%s on %" PRId64
                " processors; see what runs there (top)",
                (double)load / 1000, host->ranks, host->ranks == 1 ? "" : "s", cpus);
}

static void judge_memory(const struct kolo_checkup *host, int self, struct kolo_findings *findings)
{
    /* What the ranks take before the program's own buffers. */
    const int64_t needed = (int64_t)host->ranks * 32 * MIB;
    int64_t available = number(host, KOLO_FACT_available_bytes);
    int64_t room = number(host, KOLO_FACT_memory_room_bytes);
    int64_t limit = number(host, KOLO_FACT_memory_limit_bytes);
    if (available >= 0 && available < needed)
        WARNING("memory", "%" PRId64 " MiB of memory are free for %d ranks; see what uses the rest",
                available / MIB, host->ranks);
    if (room >= 0 && room < needed)
        WARNING("memory-limit",
                "%" PRId64 " MiB are left below its cgroup's limit of %" PRId64
                " MiB for %d ranks: the kernel kills a rank that exceeds it; raise memory.max",
                room / MIB, limit / MIB, host->ranks);
    if (number(host, KOLO_FACT_memfd_works) == 0)
        ERROR("memfd", "ranks cannot share memory (memfd_create is refused); see the "
                       "seccomp profile of its container");
}

static bool has_device(const struct kolo_checkup *host, const char *kind, const char *name)
{
    for (size_t i = 0; i < host->facts.backend_count; i++) {
        const struct kolo_fact_backend *backend = &host->facts.backends[i];
        if (backend->works && strcmp(backend->kind, kind) == 0 && strcmp(backend->name, name) == 0)
            return true;
    }
    return false;
}

/* kolorun and its agents raise their soft limit themselves. A rank has the one of its login. */
static void judge_open_files(const struct kolo_checkup *host, int self,
                             const struct kolo_prognosis *job, size_t hosts,
                             struct kolo_findings *findings)
{
    const int64_t files = number(host, KOLO_FACT_open_files);
    const int64_t most = number(host, KOLO_FACT_open_files_most);
    const int64_t of_rank =
        host->is_launcher ? 0 : FILES_OF_RANK + (int64_t)FILES_OF_PEER * job->size;
    int64_t watched = host->is_launcher ? 0 : (int64_t)kolo_open_files_of_agent(host->ranks);
    if (host->is_here || host->is_launcher) {
        const int64_t of_job = (int64_t)kolo_open_files_of_job(job->size, hosts);
        watched = watched > of_job ? watched : of_job;
    }
    const int64_t needed = of_rank > watched ? of_rank : watched;
    if ((files >= 0 && files < of_rank) || (most >= 0 && most < watched))
        ERROR("open-files",
              "ulimit -n is %" PRId64 " and %d ranks may need %" PRId64 " files in a process; %s",
              files, job->size, needed,
              most < 0 || most >= needed ? "raise it in the shell's start-up file"
                                         : "raise nofile in /etc/security/limits.conf");
}

static void judge_limits(const struct kolo_checkup *host, int self, struct kolo_findings *findings)
{
    int64_t locked = number(host, KOLO_FACT_locked_bytes);
    int64_t file_bytes = number(host, KOLO_FACT_file_bytes);
    if (file_bytes >= 0)
        WARNING("file-size",
                "ulimit -f is %" PRId64
                " MiB: memory that ranks share is a file and cannot be larger; set "
                "it to unlimited",
                file_bytes / MIB);
    if (locked >= 0 && number(host, KOLO_FACT_may_lock) == 0 &&
        locked < number(host, KOLO_FACT_memory_bytes) &&
        (has_device(host, "transport", "rdma") || number(host, KOLO_FACT_gpus) > 0))
        WARNING("locked-memory",
                "ulimit -l is %" PRId64
                " MiB: RDMA and GPUs need locked memory, and use slower ways for the rest; set "
                "memlock to unlimited in /etc/security/limits.conf",
                locked / MIB);
}

/* Its driver lists them, but refuses a program that would use them. */
static void judge_cuda(const struct kolo_checkup *host, int self, int gpus_of_rank, const char *why,
                       struct kolo_findings *findings)
{
    const int64_t gpus = number(host, KOLO_FACT_gpus);
    if (gpus <= 0)
        return;
    if (gpus_of_rank > 0)
        ERROR("cuda", "its %" PRId64 " GPU%s, which --gpus gives to ranks, cannot be used: %s",
              gpus, gpus == 1 ? "" : "s", why);
    else
        WARNING("cuda", "its %" PRId64 " GPU%s cannot be used: %s", gpus, gpus == 1 ? "" : "s",
                why);
}

static void judge_devices(const struct kolo_checkup *host, int self,
                          const struct kolo_prognosis *job, struct kolo_findings *findings)
{
    const struct kolo_facts *facts = &host->facts;
    int64_t gpus = number(host, KOLO_FACT_gpus);
    if (!host->has_survey)
        WARNING("survey",
                "the search for devices hangs (last step: %s); ranks may hang "
                "there as well: see dmesg, and nvidia-smi or ibv_devinfo by hand",
                facts->step);
    else if (text(host, KOLO_FACT_survey_error)[0] != '\0')
        WARNING("survey", "the search for devices %s (last step: %s); see dmesg there",
                text(host, KOLO_FACT_survey_error), facts->step);
    if (gpus > 0 && job->gpus == 0 && host->ranks > gpus)
        NOTE("gpus", "%d ranks and %" PRId64 " GPU%s: some share one", host->ranks, gpus,
             gpus == 1 ? "" : "s");
    for (size_t i = 0; i < facts->backend_count; i++) {
        const struct kolo_fact_backend *backend = &facts->backends[i];
        if (backend->works)
            continue;
        if (strcmp(backend->kind, "memory") == 0 && strcmp(backend->name, "cuda") == 0)
            judge_cuda(host, self, job->gpus, backend->why, findings);
        if (strcmp(backend->kind, "memory") == 0 && strcmp(backend->name, "cma") == 0 &&
            host->ranks > 1)
            NOTE("cma", "%s; long messages between its ranks out of plain memory are copied twice",
                 backend->why);
        if (strcmp(backend->kind, "transport") == 0 && strcmp(backend->name, "shm") == 0 &&
            host->ranks > 1 && strcmp(job->transport, "auto") == 0)
            WARNING("shm", "its ranks cannot share memory, and use TCP: %s", backend->why);
        if (strcmp(backend->kind, "transport") == 0 && strcmp(backend->name, job->transport) == 0)
            ERROR("transport", "%s, which KOLO_TRANSPORT asks for, does not work: %s",
                  backend->name, backend->why);
    }
}

static void judge_other(const struct kolo_fact_other *other, int self,
                        struct kolo_findings *findings)
{
    char age[40] = "", step[48] = "its container"; /* its first process cannot be killed */
    if (other->age_s >= 0)
        snprintf(age, sizeof age,
                 other->has_launcher ? " for %" PRId64 " s" : ", %" PRId64 " s old", other->age_s);
    if (other->pid > 1)
        snprintf(step, sizeof step, "it: kill %" PRId64, other->pid);
    if (other->has_launcher)
        WARNING("other-job",
                "another job of kolo has been running here%s (its agent is pid %" PRId64
                "); both share the host",
                age, other->pid);
    else
        WARNING("leftover",
                "'%s' (pid %" PRId64 ") is a rank of an earlier job%s, whose agent is gone; end %s",
                other->program, other->pid, age, step);
}

static void judge_others(const struct kolo_checkup *host, int self, struct kolo_findings *findings)
{
    for (size_t i = 0; i < host->facts.other_count; i++)
        judge_other(&host->facts.others[i], self, findings);
}

static void judge_net(const struct kolo_checkup *host, int self, const struct kolo_prognosis *job,
                      size_t hosts, struct kolo_findings *findings)
{
    int64_t ports = number(host, KOLO_FACT_ports_free);
    int64_t denied = number(host, KOLO_FACT_ports_denied);
    int64_t needed = host->ranks + (host->is_here || host->is_launcher);
    const char *why = text(host, KOLO_FACT_listen_error);
    if (why[0] != '\0' && hosts > 1)
        ERROR("listen", "%s", why);
    if (number(host, KOLO_FACT_loopback_works) == 0 && host->is_here)
        ERROR("loopback", "its loopback interface is down, over which its ranks meet; bring it up "
                          "(ip link set lo up)");
    else if (number(host, KOLO_FACT_loopback_works) == 0 && host->ranks > 1)
        WARNING("loopback", "its loopback interface is down, and its ranks have no TCP with each "
                            "other; bring it up (ip link set lo up)");
    if (text(host, KOLO_FACT_net_unnamed)[0] != '\0')
        NOTE("net-unnamed", "KOLO_NET: nothing of this host is named %s",
             text(host, KOLO_FACT_net_unnamed));
    if (job->ports[0] == '\0' || ports < 0 || ports >= needed)
        return;
    if (denied > 0)
        ERROR("ports",
              "this user may not listen at %" PRId64 " ports of KOLO_PORTS=%s, and %" PRId64
              " are needed; give ports above those that the system keeps (sysctl "
              "net.ipv4.ip_unprivileged_port_start)",
              denied, job->ports, needed);
    else
        ERROR("ports",
              "%" PRId64 " ports of KOLO_PORTS=%s are free and %" PRId64 " are needed; widen it",
              ports, job->ports, needed);
}

/* ---- against the others ---- */

static void judge_build(const struct kolo_checkup *host, int self, const struct kolo_prognosis *job,
                        struct kolo_findings *findings)
{
    const char *build = text(host, KOLO_FACT_build);
    if (build[0] == '\0' || job->build[0] == '\0' || strcmp(build, job->build) == 0 ||
        strcmp(text(host, KOLO_FACT_machine), job->machine) != 0)
        return;
    WARNING("build",
            "%s there is another build of the same version (%s, here %s); install the same",
            job->agent, build, job->build);
}

static void judge_twins(const struct kolo_checkup *hosts, size_t count, int self,
                        struct kolo_findings *findings)
{
    const struct kolo_checkup *host = &hosts[self];
    for (int i = 0; i < self && (size_t)i < count; i++)
        if (hosts[i].has_facts && kolo_facts_are_twins(&hosts[i].facts, &host->facts)) {
            WARNING("twin",
                    "is the same machine as %s (both are %s): it gets the ranks of both; name it "
                    "once, with the sum of the slots",
                    hosts[i].name, text(host, KOLO_FACT_host));
            return;
        }
}

static bool is_loopback_only(const struct kolo_facts *facts)
{
    for (size_t i = 0; i < facts->place_count; i++)
        if (!kolo_fact_place_is_loopback(&facts->places[i]))
            return false;
    return facts->place_count > 0;
}

/* Other hosts cannot reach it, and their ranks would say so of its ranks. */
static void judge_reachable(const struct kolo_checkup *hosts, size_t count, int self,
                            const struct kolo_prognosis *job, struct kolo_findings *findings)
{
    const struct kolo_facts *facts = &hosts[self].facts;
    const char *why = text(&hosts[self], KOLO_FACT_net_unusable);
    bool has_others = false;
    for (size_t i = 0; i < count; i++)
        has_others |=
            hosts[i].has_facts && !kolo_facts_are_twins(&hosts[i].facts, facts) && (int)i != self;
    if (!has_others || !is_loopback_only(facts))
        return;
    if (why[0] != '\0')
        ERROR("unreachable", "offers the other hosts only loopback addresses: %s", why);
    else if (job->net[0] != '\0')
        ERROR("unreachable",
              "offers the other hosts only loopback addresses under KOLO_NET=%s; name the network "
              "between the hosts",
              job->net);
    else
        ERROR("unreachable", "offers the other hosts only loopback addresses: it has no other that "
                             "is up (ip address)");
}

/* A backend that works on some host but not on this one makes all links to this one slower. */
static void judge_lack(const struct kolo_checkup *hosts, size_t count, int self,
                       struct kolo_findings *findings)
{
    const struct kolo_facts *facts = &hosts[self].facts;
    for (size_t i = 0; i < facts->backend_count; i++) {
        const struct kolo_fact_backend *backend = &facts->backends[i];
        if (backend->works || strcmp(backend->name, "rdma") != 0 ||
            strcmp(backend->kind, "transport") != 0)
            continue;
        for (size_t j = 0; j < count; j++)
            if (hosts[j].has_facts && has_device(&hosts[j], "transport", "rdma")) {
                WARNING("rdma", "no RDMA (%s), unlike %s; all links to it use TCP", backend->why,
                        hosts[j].name);
                break;
            }
    }
}

static const struct kolo_fact_backend *first_of(const struct kolo_checkup *host, const char *kind)
{
    for (size_t i = 0; i < host->facts.backend_count; i++)
        if (strcmp(host->facts.backends[i].kind, kind) == 0)
            return &host->facts.backends[i];
    return NULL;
}

/* Whether the two lists, separated by "; ", have an entry in common. */
static bool have_common(const char *one, const char *other)
{
    for (const char *at = one; *at;) {
        const size_t length = strcspn(at, ";");
        for (const char *there = other; *there;) {
            const size_t theirs = strcspn(there, ";");
            if (length == theirs && strncmp(at, there, length) == 0)
                return true;
            there += theirs + strspn(there + theirs, "; ");
        }
        at += length + strspn(at + length, "; ");
    }
    return false;
}

/* Ports that cannot be connected, and the first earlier host with which that is so. */
static void judge_ports(const struct kolo_checkup *hosts, int self, struct kolo_findings *findings)
{
    const struct kolo_fact_backend *mine = first_of(&hosts[self], "network");
    for (int i = 0; mine && i < self; i++) {
        const struct kolo_fact_backend *theirs =
            hosts[i].has_facts ? first_of(&hosts[i], "network") : NULL;
        if (!theirs || have_common(mine->why, theirs->why))
            continue;
        WARNING("rdma-network",
                "its RDMA port %s (%.120s) cannot be connected to %s of %s (%.120s), and all links "
                "between them use TCP; name ports of one network: KOLO_RDMA_DEVICE, KOLO_NET",
                mine->name, mine->why, theirs->name, hosts[i].name, theirs->why);
        return;
    }
}

void kolo_judge_hosts(const struct kolo_checkup *hosts, size_t count,
                      const struct kolo_prognosis *job, struct kolo_findings *findings)
{
    for (int self = 0; (size_t)self < count; self++) {
        const struct kolo_checkup *host = &hosts[self];
        judge_reach(host, self, findings);
        judge_clock(host, self, findings);
        if (!host->has_facts)
            continue;
        judge_net(host, self, job, count, findings);
        judge_reachable(hosts, count, self, job, findings);
        judge_open_files(host, self, job, count, findings);
        judge_limits(host, self, findings);
        if (host->is_launcher)
            continue;
        judge_build(host, self, job, findings);
        judge_twins(hosts, count, self, findings);
        judge_lack(hosts, count, self, findings);
        judge_ports(hosts, self, findings);
        judge_processors(host, self, findings);
        judge_memory(host, self, findings);
        judge_devices(host, self, job, findings);
        judge_others(host, self, findings);
    }
}
