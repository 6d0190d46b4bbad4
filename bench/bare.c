// SPDX-License-Identifier: Apache-2.0
// The common state of the bare loops: one memfd that the ranks of a host map, private buffers, and
// the timing. The memfd is opened through /proc/PID/fd, so it has no name that could be left
// behind.
#include "bench/bare.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "bench/statistics.h"

enum {
    DEADLINE_MS = 60000,
    ROUNDS = 5,
    SAMPLES_MIN = ROUNDS,
    SAMPLES_MAX = 4000,
    SAMPLE_NS = 20000,
    GUESSES = 3,
    TURNS_MAX = 16
};

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

/* The flags, followed by two stages, a send buffer and a receive buffer per rank. */
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

/* Maps rank 0's memfd, which the others open. All of them try, and all agree on the result. */
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

void bare_fill(void *memory, size_t bytes)
{
    uint8_t *to = memory;
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        const float value = (float)((uint32_t)i * UINT32_C(2654435761) >> 16) / 65536;
        memcpy(to + i * sizeof(float), &value, sizeof value);
    }
}

/* Each rank fills its own buffers before any other rank touches them, as a program does: a page is
 * placed near the processor that touched it first. */
static void fill_own(struct bare_world *world)
{
    if (world->memory)
        bare_fill(bare_stages(world, world->rank),
                  4 * (size_t)BARE_STAGE_BYTES + 2 * whole_pages(world->vector_bytes));
    bare_fill(world->user_send, world->vector_bytes);
    bare_fill(world->user_recv, world->vector_bytes);
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
    int cores;
    KOLO_TRY(kolo_get_info(comm, &info));
    KOLO_TRY(bench_cores(comm, &cores));
    int64_t crowded = info.local_nranks > cores;
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
        fill_own(world);
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

/* The state of timing a loop. */
struct timing {
    int64_t steps, samples; /* samples, and steps of each; equal on all ranks */
    int64_t *ns;            /* of each sample */
};

static kolo_status run_steps(struct bare_world *world, const struct bare_run *run, int64_t steps,
                             int64_t *ns_out)
{
    void *context = run->context ? run->context : (void *)(uintptr_t)&run->loop; /* only read */
    int64_t begun = kolo_now_ns();
    world->deadline = kolo_deadline_in_ms(DEADLINE_MS);
    for (int64_t i = 0; i < steps; i++) {
        if (run->step(world, context))
            continue;
        if (world->failed != KOLO_OK)
            return world->failed;
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "limits: the bare loop of %s did not end within %d s on rank %d",
                         run->name, DEADLINE_MS / 1000, world->rank);
    }
    *ns_out = kolo_now_ns() - begun;
    return KOLO_OK;
}

static kolo_status longest(struct bare_world *world, int64_t *values, size_t count)
{
    return kolo_allreduce(world->comm, values, values, count, KOLO_INT64, KOLO_MAX, NULL, NULL);
}

/* Estimates the time of a step from a few of them. Repeats this as long as the time falls, since
 * caches fill and an engine learns what is fast here. */
static kolo_status guess_step(struct bare_world *world, const struct bare_run *run, int64_t *ns_out)
{
    int64_t guess, before = INT64_MAX;
    kolo_status status;
    KOLO_TRY(kolo_barrier(world->comm, NULL, NULL));
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        KOLO_TRY(run_steps(world, run, GUESSES, &guess));
        KOLO_TRY(longest(world, &guess, 1));
        if (turn > 0 && guess > before / 10 * 8)
            break;
        before = guess;
    }
    *ns_out = (guess < before ? guess : before) / GUESSES + 1;
out:
    return status;
}

static kolo_status plan_samples(struct bare_world *world, const struct bare_run *run,
                                int64_t time_ns, struct timing *timing)
{
    int64_t guess, samples;
    kolo_status status;
    KOLO_TRY(guess_step(world, run, &guess));
    timing->steps = SAMPLE_NS / guess + 1;
    samples = time_ns / (guess * timing->steps);
    samples = samples < SAMPLES_MIN ? SAMPLES_MIN : samples;
    timing->samples = samples > SAMPLES_MAX ? SAMPLES_MAX : samples;
    timing->ns = kolo_calloc((size_t)timing->samples, sizeof *timing->ns);
    if (!timing->ns)
        status = KOLO_ERR_NO_MEMORY;
out:
    return status;
}

/* Takes the samples of this round; the last round takes what is left. */
static kolo_status run_round(struct bare_world *world, const struct bare_run *run, int round,
                             const struct timing *timing)
{
    int64_t from = timing->samples * round / ROUNDS, to = timing->samples * (round + 1) / ROUNDS;
    kolo_status status = kolo_barrier(world->comm, NULL, NULL);
    for (int64_t i = from; status == KOLO_OK && i < to; i++)
        status = run_steps(world, run, timing->steps, &timing->ns[i]);
    return status;
}

static kolo_status conclude(struct bare_world *world, struct bare_run *run,
                            const struct timing *timing)
{
    size_t samples = (size_t)timing->samples;
    double *each = kolo_calloc(samples, sizeof *each);
    kolo_status status = each ? longest(world, timing->ns, samples) : KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; status == KOLO_OK && i < samples; i++)
        each[i] = (double)timing->ns[i] / (double)timing->steps / 1e3;
    if (status == KOLO_OK)
        run->us = bench_median(each, samples);
    kolo_free_memory(each);
    return status;
}

kolo_status bare_time_in_turn(struct bare_world *world, struct bare_run *runs, size_t count,
                              int64_t time_ns)
{
    struct timing *timings = kolo_calloc(count + 1, sizeof *timings);
    kolo_status status = timings ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        status = plan_samples(world, &runs[i], time_ns, &timings[i]);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; status == KOLO_OK && i < count; i++)
            status = run_round(world, &runs[i], round, &timings[i]);
    for (size_t i = 0; status == KOLO_OK && i < count; i++)
        status = conclude(world, &runs[i], &timings[i]);
    for (size_t i = 0; timings && i < count; i++)
        kolo_free_memory(timings[i].ns);
    kolo_free_memory(timings);
    return status;
}

kolo_status bare_time(struct bare_world *world, const char *name, bare_step step, void *context,
                      int64_t time_ns, double *us_out)
{
    struct bare_run run = {.name = name, .step = step, .context = context};
    kolo_status status = bare_time_in_turn(world, &run, 1, time_ns);
    *us_out = run.us;
    return status;
}
