// SPDX-License-Identifier: Apache-2.0
// What is printed above all figures: hosts, ranks, cores, load, transport, and the congestion
// control of kolo's TCP links, which is asked of the kernel rather than taken from the settings.
#include <dirent.h>
#include <jansson.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "bench/bench.h"
#include "memory/reduce.h"
#include "runtime/choose.h"
#include "runtime/comm.h"
#include "runtime/local.h"

enum { TRAFFIC_BYTES = 1 << 18 };

/* Reads the rest, after the colon, of the first line of @p path that begins with @p key. */
static void read_fact(const char *path, const char *key, char *text, size_t capacity)
{
    char line[512];
    snprintf(text, capacity, "unknown");
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        const char *value = colon + 1;
        value += strspn(value, " \t");
        snprintf(text, capacity, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (file)
        fclose(file);
}

static kolo_status transport_text(struct kolo_comm *comm, char *text, size_t capacity)
{
    int nranks = kolo_size(comm);
    text[0] = '\0';
    for (int peer = 0; peer < nranks; peer++) {
        struct kolo_peer_info info = {.size = sizeof info};
        kolo_status status = kolo_get_peer_info(comm, peer, &info);
        if (status != KOLO_OK)
            return status;
        if ((peer == kolo_rank(comm) && nranks > 1) || strstr(text, info.transport))
            continue;
        size_t used = strlen(text);
        snprintf(text + used, capacity - used, "%s%s", used ? "+" : "", info.transport);
    }
    return KOLO_OK;
}

struct host {
    char name[BENCH_TEXT_MAX];
    int ranks;
};

static kolo_status count_hosts(struct kolo_comm *comm, struct host *hosts, int *nhosts_out)
{
    struct kolo_peer_info info = {.size = sizeof info};
    for (int rank = 0; rank < kolo_size(comm); rank++) {
        int at = *nhosts_out;
        kolo_status status = kolo_get_peer_info(comm, rank, &info);
        if (status != KOLO_OK)
            return status;
        while (at > 0 && strcmp(hosts[at - 1].name, info.host) != 0)
            at--;
        if (at == 0) {
            at = ++*nhosts_out;
            snprintf(hosts[at - 1].name, sizeof hosts[at - 1].name, "%s", info.host);
        }
        hosts[at - 1].ranks++;
    }
    return KOLO_OK;
}

/* "a*4, b*4": hosts in the order of their first rank; ends in "..." if it is too long. */
static kolo_status host_text(struct kolo_comm *comm, struct bench_machine *machine)
{
    struct host *hosts = kolo_calloc((size_t)kolo_size(comm), sizeof *hosts);
    size_t used = 0;
    if (!hosts)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status = count_hosts(comm, hosts, &machine->nhosts);
    for (int host = 0; status == KOLO_OK && host < machine->nhosts; host++) {
        int put = snprintf(machine->hosts + used, sizeof machine->hosts - used, "%s%s*%d",
                           used ? ", " : "", hosts[host].name, hosts[host].ranks);
        if ((size_t)put < sizeof machine->hosts - used)
            used += (size_t)put;
        else
            snprintf(machine->hosts + sizeof machine->hosts - 5, 5, " ...");
    }
    kolo_free_memory(hosts);
    return status;
}

/* The congestion control of @p fd and the bytes that it has moved; 0: it is not a TCP socket. */
static uint64_t moved_by(int fd, char name[32])
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info, name_length = 31;
    memset(name, 0, 32);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &name_length) != 0)
        return 0;
    return info.tcpi_bytes_acked + info.tcpi_bytes_received;
}

/* Of all TCP sockets of this process, the one that moved most is a link of kolo's. */
static void congestion_text(char *text, size_t capacity)
{
    uint64_t most = TRAFFIC_BYTES / 4;
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL) {
        char name[32];
        int64_t fd;
        if (!bench_parse_integer(entry->d_name, 0, INT32_MAX, &fd))
            continue; /* "." and ".." */
        uint64_t moved = moved_by((int)fd, name);
        if (moved <= most)
            continue;
        most = moved;
        snprintf(text, capacity, "%s", name);
    }
    if (folder)
        closedir(folder);
}

static kolo_status look_at_congestion(struct kolo_comm *comm, struct bench_machine *machine)
{
    uint8_t *traffic = kolo_calloc(TRAFFIC_BYTES, 1);
    if (!traffic)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status =
        kolo_allreduce(comm, traffic, traffic, TRAFFIC_BYTES, KOLO_UINT8, KOLO_SUM, NULL, NULL);
    kolo_free_memory(traffic);
    if (status == KOLO_OK)
        congestion_text(machine->congestion, sizeof machine->congestion);
    return status;
}

/* A rank alone knows only its own binding: under kolorun often one core. */
kolo_status bench_cores(struct kolo_comm *comm, int *cores_out)
{
    const int nranks = kolo_size(comm);
    const uint64_t self = kolo_comm_peer(comm, kolo_rank(comm))->identity.host_id;
    cpu_set_t mine, together;
    CPU_ZERO(&mine);
    CPU_ZERO(&together);
    (void)sched_getaffinity(0, sizeof mine, &mine); /* fails for more processors than a set has */
    cpu_set_t *sets = kolo_calloc((size_t)nranks, sizeof *sets);
    if (!sets)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status = kolo_allgather(comm, &mine, sets, sizeof mine, KOLO_UINT8, NULL, NULL);
    for (int rank = 0; status == KOLO_OK && rank < nranks; rank++)
        if (kolo_comm_peer(comm, rank)->identity.host_id == self)
            CPU_OR(&together, &together, &sets[rank]);
    kolo_free_memory(sets);
    const int own = kolo_local_cpus(), all = CPU_COUNT(&together);
    *cores_out = all > own ? all : own;
    return status;
}

/* The load per core of the busiest host, and the host with most ranks for its cores. The load is
 * that of the machine, so it is divided by all of its cores. */
static kolo_status look_at_load(struct kolo_comm *comm, struct bench_machine *machine)
{
    enum { LOAD, EXCESS, RANKS, CORES, FACTS };
    double load = 0;
    struct kolo_info info = {.size = sizeof info};
    kolo_status status;
    KOLO_TRY(kolo_get_info(comm, &info));
    KOLO_TRY(bench_cores(comm, &machine->cores));
    if (getloadavg(&load, 1) != 1)
        load = 0;
    int64_t facts[FACTS] = {(int64_t)(load / (double)sysconf(_SC_NPROCESSORS_ONLN) * 100),
                            info.local_nranks - machine->cores};
    int64_t excess = facts[EXCESS];
    KOLO_TRY(kolo_allreduce(comm, facts, facts, 2, KOLO_INT64, KOLO_MAX, NULL, NULL));
    machine->load = (double)facts[LOAD] / 100;
    facts[RANKS] = excess == facts[EXCESS] ? info.local_nranks : 0;
    facts[CORES] = excess == facts[EXCESS] ? machine->cores : 0;
    KOLO_TRY(
        kolo_allreduce(comm, &facts[RANKS], &facts[RANKS], 2, KOLO_INT64, KOLO_MAX, NULL, NULL));
    if (facts[EXCESS] > 0) {
        machine->crowded_ranks = (int)facts[RANKS];
        machine->crowded_cores = (int)facts[CORES];
    }
out:
    return status;
}

kolo_status bench_machine_look(struct kolo_comm *comm, struct bench_machine *machine_out)
{
    kolo_status status;
    *machine_out = (struct bench_machine){.nranks = kolo_size(comm)};
    read_fact("/proc/cpuinfo", "model name", machine_out->cpu, sizeof machine_out->cpu);
    kolo_comm_own(comm, true);
    KOLO_TRY(host_text(comm, machine_out));
    KOLO_TRY(look_at_load(comm, machine_out));
    /* After the first collective: only then it is known which RDMA links were replaced by TCP. */
    KOLO_TRY(transport_text(comm, machine_out->transport, sizeof machine_out->transport));
    /* Every rank must take part, but only rank 0 can see its own links, so all do as it does. */
    int64_t tcp = strstr(machine_out->transport, "tcp") != NULL;
    KOLO_TRY(kolo_allreduce(comm, &tcp, &tcp, 1, KOLO_INT64, KOLO_MAX, NULL, NULL));
    if (tcp)
        KOLO_TRY(look_at_congestion(comm, machine_out));
out:
    kolo_comm_own(comm, false);
    return status;
}

/* ---- how it is said ---- */

static const double busy_load = 0.3; /* runnable programs per core before the run */

json_t *bench_machine_object(struct kolo_comm *comm, const struct bench_machine *machine)
{
    char now[32];
    struct kolo_info info = {.size = sizeof info};
    struct utsname name;
    time_t seconds = time(NULL);
    struct tm utc;
    if (uname(&name) != 0 || kolo_get_info(comm, &info) != KOLO_OK)
        return json_object();
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    json_int_t memory = (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:f}",
                     "date", now, "host", info.host, "hosts", machine->hosts, "cpu", machine->cpu,
                     "cores", machine->cores, "memory_bytes", memory, "kernel", name.release,
                     "architecture", name.machine, "kolo", kolo_version(), "reduction",
                     kolo_reduce_variant(0), "tcp_congestion_control", machine->congestion,
                     "transports", info.transports, "ranks", info.nranks, "ranks_on_this_host",
                     info.local_nranks, "load_per_core", machine->load);
}

void bench_machine_print(const struct bench_machine *m)
{
    printf("# kolobench %s: %d rank%s on %s; host of rank 0: %d core%s, %s; transport %s%s%s\n",
           kolo_version(), m->nranks, m->nranks == 1 ? "" : "s", m->hosts, m->cores,
           m->cores == 1 ? "" : "s", m->cpu, m->transport,
           m->congestion[0] ? ", congestion control " : "", m->congestion);
    if (m->crowded_ranks)
        printf("# warning: %d ranks on %d core%s of a host: they take turns, and times say more of "
               "the scheduler than of the links\n",
               m->crowded_ranks, m->crowded_cores, m->crowded_cores == 1 ? "" : "s");
    if (m->load > busy_load)
        printf("# warning: the machine was busy before this began (load %.2f a core): repeat on a "
               "quiet one\n",
               m->load);
}
