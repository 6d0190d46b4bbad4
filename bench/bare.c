// SPDX-License-Identifier: Apache-2.0
// The world of the bare loops: one memfd that the ranks of a host map, private buffers, and the
// clock. The memfd is reached by /proc/PID/fd, so it has no name that could be left behind.
#include "bench/bare.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "bench/statistics.h"

enum { DEADLINE_MS = 60000, SAMPLES_MIN = 5, SAMPLES_MAX = 4000, SAMPLE_NS = 20000, GUESSES = 3 };

const struct bare_pattern bare_patterns[] = {
    {"allreduce", BENCH_ONE, BENCH_ONE, BENCH_REDUCED, false},
    {"reduce", BENCH_ONE, BENCH_ONE, BENCH_REDUCED, true},
    {"broadcast", BENCH_ONE, BENCH_ONE, BENCH_ROOTS, false},
    {"allgather", BENCH_OWN, BENCH_ALL, BENCH_GATHERED, false},
    {"reduce_scatter", BENCH_ALL, BENCH_OWN, BENCH_REDUCED, false},
    {"gather", BENCH_OWN, BENCH_ALL, BENCH_GATHERED, true},
    {"scatter", BENCH_ALL, BENCH_OWN, BENCH_ROOTS, false},
    {"alltoall", BENCH_ALL, BENCH_ALL, BENCH_TRANSPOSED, false},
    {"barrier", BENCH_NOTHING, BENCH_NOTHING, BENCH_UNCHECKED, false},
    {0},
};

/* ---- memory ---- */

static size_t whole_pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* Flags, then two stages and a send and a receive buffer of each rank. */
static size_t layout_bytes(const struct bare_world *world)
{
    size_t each = 2 * (size_t)BARE_STAGE_BYTES * 2 + 2 * whole_pages(world->vector_bytes);
    return whole_pages((size_t)world->nranks * BARE_LINE_BYTES) + (size_t)world->nranks * each;
}

static kolo_status one_host(struct kolo_comm *comm, bool *one_host_out)
{
    struct kolo_info info = {.size = sizeof info};
    kolo_status status = kolo_get_info(comm, &info);
    *one_host_out = status == KOLO_OK && info.local_nranks == info.nranks;
    return status;
}

/* Rank 0's memfd, as the others open it. All of them try, and all agree on how it went. */
static kolo_status map_memory(struct bare_world *world)
{
    int64_t where[2] = {getpid(), -1}, worst = 0;
    int fd = -1;
    kolo_status status;
    world->memory_bytes = layout_bytes(world);
    if (world->rank == 0) {
        fd = memfd_create("kolobench", MFD_CLOEXEC);
        where[1] = fd >= 0 && ftruncate(fd, (off_t)world->memory_bytes) == 0 ? fd : -1;
    }
    KOLO_TRY(kolo_broadcast(world->comm, where, 2, KOLO_INT64, 0, NULL, NULL));
    if (world->rank != 0 && where[1] >= 0) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)where[0], (long long)where[1]);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    void *memory = MAP_FAILED;
    if (fd >= 0 && where[1] >= 0)
        memory = mmap(NULL, world->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        worst = errno ? errno : EIO;
    else
        world->memory = memory;
    KOLO_TRY(kolo_allreduce(world->comm, &worst, &worst, 1, KOLO_INT64, KOLO_MAX, NULL, NULL));
    if (worst)
        status =
            kolo_fail_errno(KOLO_ERR_SYSTEM, (int)worst,
                            "limits: %zu bytes of memory between the ranks", world->memory_bytes);
out:
    if (fd >= 0)
        close(fd);
    return status;
}

kolo_status bare_open(struct bare_world *world, struct kolo_comm *comm, size_t vector_bytes)
{
    bool local;
    kolo_status status;
    *world = (struct bare_world){.comm = comm,
                                 .rank = kolo_rank(comm),
                                 .nranks = kolo_size(comm),
                                 .vector_bytes = vector_bytes};
    struct kolo_info info = {.size = sizeof info};
    KOLO_TRY(kolo_get_info(comm, &info));
    int64_t crowded = info.local_nranks > sysconf(_SC_NPROCESSORS_ONLN);
    KOLO_TRY(kolo_allreduce(comm, &crowded, &crowded, 1, KOLO_INT64, KOLO_MAX, NULL, NULL));
    world->crowded = crowded != 0;
    if (world->nranks > BARE_RANKS_MAX) {
        status = kolo_fail(KOLO_ERR_CONFIG, "--limits: %d ranks; at most %d", world->nranks,
                           BARE_RANKS_MAX);
        goto out;
    }
    KOLO_TRY(one_host(comm, &local));
    if (local)
        KOLO_TRY(map_memory(world));
    world->user_send = kolo_aligned(4096, whole_pages(vector_bytes + 1));
    world->user_recv = kolo_aligned(4096, whole_pages(vector_bytes + 1));
    if (!world->user_send || !world->user_recv)
        status = KOLO_ERR_NO_MEMORY;
    else
        memset(world->user_send, 0, vector_bytes);
out:
    return status;
}

void bare_close(struct bare_world *world)
{
    bare_tcp_close(world);
    bare_rdma_close(world);
    if (world->memory)
        munmap(world->memory, world->memory_bytes);
    kolo_free_memory(world->user_send);
    kolo_free_memory(world->user_recv);
    *world = (struct bare_world){0};
}

kolo_status bare_other(const struct bare_world *world, int *other_out, bool *is_network_out)
{
    struct kolo_peer_info info = {.size = sizeof info};
    char host[BENCH_TEXT_MAX];
    int other = 1;
    bool is_network = false;
    kolo_status status;
    KOLO_TRY(kolo_get_peer_info(world->comm, 0, &info));
    snprintf(host, sizeof host, "%s", info.host);
    for (int rank = world->nranks - 1; rank > 0; rank--) {
        KOLO_TRY(kolo_get_peer_info(world->comm, rank, &info));
        if (strcmp(info.host, host) == 0)
            continue;
        other = rank;
        is_network = true;
    }
    *other_out = other;
    *is_network_out = is_network;
out:
    return status;
}

/* ---- time ---- */

struct loop {
    const char *name;
    bare_step step;
    void *context;
};

static kolo_status run_steps(struct bare_world *world, const struct loop *loop, int64_t steps,
                             int64_t *ns_out)
{
    int64_t begun = kolo_now_ns();
    world->deadline = kolo_deadline_in_ms(DEADLINE_MS);
    for (int64_t i = 0; i < steps; i++)
        if (!loop->step(world, loop->context))
            return kolo_fail(KOLO_ERR_TIMEOUT,
                             "limits: the bare loop of %s did not end within %d s on rank %d",
                             loop->name, DEADLINE_MS / 1000, world->rank);
    *ns_out = kolo_now_ns() - begun;
    return KOLO_OK;
}

static kolo_status longest(struct bare_world *world, int64_t *values, size_t count)
{
    return kolo_allreduce(world->comm, values, values, count, KOLO_INT64, KOLO_MAX, NULL, NULL);
}

kolo_status bare_time(struct bare_world *world, const char *name, bare_step step, void *context,
                      int64_t time_ns, double *us_out)
{
    const struct loop loop = {name, step, context};
    int64_t ns[SAMPLES_MAX], guess = 0, steps, samples;
    double each[SAMPLES_MAX];
    kolo_status status;
    KOLO_TRY(kolo_barrier(world->comm, NULL, NULL));
    KOLO_TRY(run_steps(world, &loop, GUESSES, &guess));
    KOLO_TRY(run_steps(world, &loop, GUESSES, &guess));
    guess = guess / GUESSES + 1;
    KOLO_TRY(longest(world, &guess, 1));
    steps = SAMPLE_NS / guess + 1;
    samples = time_ns / (guess * steps);
    samples = samples < SAMPLES_MIN ? SAMPLES_MIN : samples;
    samples = samples > SAMPLES_MAX ? SAMPLES_MAX : samples;
    KOLO_TRY(kolo_barrier(world->comm, NULL, NULL));
    for (int64_t i = 0; i < samples; i++)
        KOLO_TRY(run_steps(world, &loop, steps, &ns[i]));
    KOLO_TRY(longest(world, ns, (size_t)samples));
    for (int64_t i = 0; i < samples; i++)
        each[i] = (double)ns[i] / (double)steps / 1e3;
    *us_out = bench_median(each, (size_t)samples);
out:
    return status;
}
