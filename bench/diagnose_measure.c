// SPDX-License-Identifier: Apache-2.0
// Measures every pair of ranks by the public send and receive, and each rank's own speed. Pairs run
// in rounds, like a tournament: no host takes part in two pairs of a round, so that no pair slows
// another, and hosts do not wait for each other. With `exhaustive` a round is one pair. Ranks of
// one host measure their own speed one after the other.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "bench/diagnose.h"
#include "bench/statistics.h"
#include "memory/reduce.h"

enum {
    PINGS_MIN = 5,
    PINGS_MAX = 2000,
    PROBES = 3,
    MESSAGES_MAX = 4000,
    WINDOW = 4,
    PROBE_BYTES = 64 << 10,
    REDUCE_BYTES = 128 << 10, /* within a core's cache: only the processor matters */
    COPY_BYTES = 8 << 20,
    SPEED_TIMES = 5 /* so many times longer, because CPU limits act in time slices */
};

struct meter {
    struct kolo_comm *comm;
    const struct diagnose_options *options;
    struct diagnosis *d;
    int rank;
    uint8_t *memory;
};

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* ---- one rank ---- */

static double rate_of(const struct meter *meter, size_t bytes, bool reduces, uint8_t *memory)
{
    int64_t begun = kolo_now_ns(), ended = begun, turns = 0;
    while (ended - begun < meter->options->time_ns * SPEED_TIMES || turns < 3) {
        if (reduces)
            kolo_reduce_function(KOLO_FLOAT32, KOLO_SUM)(memory, memory, memory + bytes,
                                                         bytes / sizeof(float));
        else
            memcpy(memory, memory + bytes, bytes);
        ended = kolo_now_ns();
        turns++;
    }
    return (double)bytes * (double)turns / (double)(ended - begun);
}

static kolo_status measure_speeds(struct meter *meter)
{
    struct diagnose_rank *own = &meter->d->ranks[meter->rank];
    uint8_t *memory = kolo_aligned(4096, 2 * COPY_BYTES);
    int64_t turns = 0;
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (!memory)
        return status;
    memset(memory, 0, 2 * COPY_BYTES);
    struct kolo_info info = {.size = sizeof info};
    KOLO_TRY(kolo_get_info(meter->comm, &info));
    turns = info.local_nranks;
    KOLO_TRY(kolo_allreduce(meter->comm, &turns, &turns, 1, KOLO_INT64, KOLO_MAX, NULL, NULL));
    for (int64_t turn = 0; turn < turns; turn++) {
        if (own->local_rank == turn) {
            own->reduce_gbps = rate_of(meter, REDUCE_BYTES, true, memory);
            own->copy_gbps = rate_of(meter, COPY_BYTES, false, memory);
        }
        KOLO_TRY(kolo_barrier(meter->comm, NULL, NULL));
    }
out:
    kolo_free_memory(memory);
    return status;
}

/* ---- one pair ---- */

static kolo_status give(const struct meter *meter, int peer, const void *data, size_t bytes)
{
    return kolo_send(meter->comm, data, bytes, KOLO_UINT8, peer, NULL, NULL);
}

static kolo_status take(const struct meter *meter, int peer, void *data, size_t bytes)
{
    return kolo_recv(meter->comm, data, bytes, KOLO_UINT8, peer, NULL, NULL);
}

/* The side that leads decides how many; the other is told. */
static kolo_status agree(const struct meter *meter, int peer, bool leads, int64_t *count)
{
    return leads ? give(meter, peer, count, sizeof *count)
                 : take(meter, peer, count, sizeof *count);
}

static kolo_status ping(const struct meter *meter, int peer, bool leads, int64_t *ns_out)
{
    uint8_t word[8] = {0};
    int64_t begun = kolo_now_ns();
    kolo_status status =
        leads ? give(meter, peer, word, sizeof word) : take(meter, peer, word, sizeof word);
    if (status == KOLO_OK)
        status =
            leads ? take(meter, peer, word, sizeof word) : give(meter, peer, word, sizeof word);
    *ns_out = kolo_now_ns() - begun;
    return status;
}

static kolo_status measure_latency(const struct meter *meter, int peer, bool leads, double *us_out)
{
    double each[PINGS_MAX];
    int64_t ns = 0, count = 0;
    kolo_status status = KOLO_OK;
    for (int i = 0; i < PROBES; i++)
        KOLO_TRY(ping(meter, peer, leads, &ns));
    count = clamp(meter->options->time_ns / (ns + 1), PINGS_MIN, PINGS_MAX);
    KOLO_TRY(agree(meter, peer, leads, &count));
    count = clamp(count, PINGS_MIN, PINGS_MAX); /* it came from another process */
    for (int64_t i = 0; i < count; i++) {
        KOLO_TRY(ping(meter, peer, leads, &ns));
        each[i] = (double)ns / 2e3;
    }
    if (leads)
        *us_out = bench_median(each, (size_t)count);
out:
    return status;
}

/* @p count messages of @p bytes bytes from the side that leads, WINDOW at once, and an answer. */
static kolo_status stream(const struct meter *meter, int peer, bool leads, size_t bytes,
                          int64_t count, int64_t *ns_out)
{
    struct kolo_request *requests[WINDOW] = {NULL};
    uint8_t answer = 0;
    int64_t begun = kolo_now_ns();
    kolo_status status = KOLO_OK;
    for (int64_t i = 0; i < count + WINDOW; i++) {
        struct kolo_request **request = &requests[i % WINDOW];
        KOLO_TRY(kolo_wait(request, -1));
        if (i >= count)
            continue;
        uint8_t *at = meter->memory + (size_t)(i % WINDOW) * bytes;
        if (leads)
            KOLO_TRY(kolo_send(meter->comm, at, bytes, KOLO_UINT8, peer, NULL, request));
        else
            KOLO_TRY(kolo_recv(meter->comm, at, bytes, KOLO_UINT8, peer, NULL, request));
    }
    KOLO_TRY(leads ? take(meter, peer, &answer, 1) : give(meter, peer, &answer, 1));
    *ns_out = kolo_now_ns() - begun;
out:
    for (int i = 0; i < WINDOW; i++) { /* on a lost communicator all end at once */
        kolo_status ended = kolo_wait(&requests[i], -1);
        status = status == KOLO_OK ? ended : status;
    }
    return status;
}

/* As many messages as fit into the time; short ones if long ones take too long. */
static kolo_status measure_bandwidth(const struct meter *meter, int peer, bool leads,
                                     double *gbps_out)
{
    int64_t ns = 0, plan[2] = {meter->options->bytes, 1}, time_ns = meter->options->time_ns;
    kolo_status status;
    KOLO_TRY(stream(meter, peer, leads, PROBE_BYTES, 1, &ns));
    KOLO_TRY(stream(meter, peer, leads, PROBE_BYTES, 2, &ns));
    double each = (double)ns / 2 * (double)plan[0] / (double)PROBE_BYTES;
    if (each * (double)WINDOW > (double)time_ns * 10) {
        plan[0] = PROBE_BYTES;
        each = (double)ns / 2;
    }
    plan[1] = clamp((int64_t)((double)time_ns / (each + 1)), WINDOW, MESSAGES_MAX);
    KOLO_TRY(agree(meter, peer, leads, &plan[0]));
    KOLO_TRY(agree(meter, peer, leads, &plan[1]));
    plan[0] = plan[0] == PROBE_BYTES ? PROBE_BYTES : meter->options->bytes;
    plan[1] = clamp(plan[1], WINDOW, MESSAGES_MAX);
    KOLO_TRY(stream(meter, peer, leads, (size_t)plan[0], plan[1], &ns));
    if (leads)
        *gbps_out = (double)plan[0] * (double)plan[1] / (double)ns;
out:
    return status;
}

static kolo_status measure_pair(struct meter *meter, int a, int b)
{
    int peer = meter->rank == a ? b : a;
    size_t at = (size_t)meter->rank * (size_t)meter->d->nranks + (size_t)peer;
    double *latency = &meter->d->latency_us[at], *best = &meter->d->gbps[at];
    kolo_status status = KOLO_OK;
    for (int turn = 0; turn < 2; turn++) {
        bool leads = (turn == 0) == (meter->rank == a);
        double us = 0, gbps = 0;
        KOLO_TRY(measure_latency(meter, peer, leads, &us));
        KOLO_TRY(measure_bandwidth(meter, peer, leads, &gbps));
        if (leads && (*latency == 0 || us < *latency))
            *latency = us;
        if (leads && gbps > *best)
            *best = gbps;
    }
out:
    return status;
}

/* ---- all pairs ---- */

struct pair {
    int a, b;
    bool done;
};

/* Takes the pairs that fit into the round, and measures the one that this rank is in, if any. */
static kolo_status play_round(struct meter *meter, struct pair *pairs, size_t count, bool *busy,
                              size_t *left)
{
    const struct diagnosis *d = meter->d;
    const struct pair *own = NULL;
    memset(busy, 0, (size_t)d->nhosts * sizeof *busy);
    bool full = false;
    for (size_t i = 0; i < count && !full; i++) {
        struct pair *pair = &pairs[i];
        bool *one = &busy[d->ranks[pair->a].host_index], *two = &busy[d->ranks[pair->b].host_index];
        if (pair->done || *one || *two)
            continue;
        *one = *two = pair->done = true;
        --*left;
        if (pair->a == meter->rank || pair->b == meter->rank)
            own = pair;
        full = meter->options->exhaustive;
    }
    kolo_status status = own ? measure_pair(meter, own->a, own->b) : KOLO_OK;
    return status == KOLO_OK ? kolo_barrier(meter->comm, NULL, NULL) : status;
}

static kolo_status measure_pairs(struct meter *meter, int64_t round, bool shows)
{
    const struct diagnosis *d = meter->d;
    size_t count = (size_t)d->nranks * (size_t)(d->nranks - 1) / 2, left = count, at = 0;
    struct pair *pairs = kolo_calloc(count, sizeof *pairs);
    bool *busy = kolo_calloc((size_t)d->nhosts, sizeof *busy);
    kolo_status status = pairs && busy ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    for (int a = 0; status == KOLO_OK && a < d->nranks; a++)
        for (int b = a + 1; b < d->nranks; b++)
            pairs[at++] = (struct pair){.a = a, .b = b};
    while (status == KOLO_OK && left > 0) {
        if (shows)
            fprintf(stderr, "\r\033[Kround %d: %zu of %zu pairs", (int)round + 1, count - left,
                    count);
        status = play_round(meter, pairs, count, busy, &left);
    }
    if (shows)
        fputs("\r\033[K", stderr);
    kolo_free_memory(pairs);
    kolo_free_memory(busy);
    return status;
}

/* ---- who is where ---- */

static kolo_status learn_hosts(struct kolo_comm *comm, struct diagnosis *d)
{
    for (int rank = 0; rank < d->nranks; rank++) {
        struct kolo_peer_info info = {.size = sizeof info};
        struct diagnose_rank *own = &d->ranks[rank];
        kolo_status status = kolo_get_peer_info(comm, rank, &info);
        if (status != KOLO_OK)
            return status;
        snprintf(own->host, sizeof own->host, "%s", info.host);
        own->pid = info.pid;
        own->local_rank = info.local_rank;
        own->host_index = d->nhosts;
        for (int other = 0; other < rank; other++)
            if (strcmp(d->ranks[other].host, own->host) == 0)
                own->host_index = d->ranks[other].host_index;
        d->nhosts += own->host_index == d->nhosts;
    }
    return KOLO_OK;
}

/* Each rank has filled its own rows. */
static kolo_status share(struct kolo_comm *comm, struct diagnosis *d)
{
    size_t n = (size_t)d->nranks, own = (size_t)kolo_rank(comm);
    kolo_status status;
    KOLO_TRY(
        kolo_allgather(comm, d->ranks + own, d->ranks, sizeof *d->ranks, KOLO_UINT8, NULL, NULL));
    KOLO_TRY(
        kolo_allgather(comm, d->latency_us + own * n, d->latency_us, n, KOLO_FLOAT64, NULL, NULL));
    KOLO_TRY(kolo_allgather(comm, d->gbps + own * n, d->gbps, n, KOLO_FLOAT64, NULL, NULL));
out:
    return status;
}

kolo_status diagnose_measure(struct kolo_comm *comm, const struct diagnose_options *options,
                             struct diagnosis *d)
{
    size_t n = (size_t)kolo_size(comm);
    struct meter meter = {.comm = comm, .options = options, .d = d, .rank = kolo_rank(comm)};
    void *memory = NULL;
    kolo_status status = KOLO_ERR_NO_MEMORY;
    *d = (struct diagnosis){.nranks = kolo_size(comm), .factor = options->factor};
    d->ranks = kolo_calloc(n, sizeof *d->ranks);
    d->latency_us = kolo_calloc(n * n, sizeof *d->latency_us);
    d->gbps = kolo_calloc(n * n, sizeof *d->gbps);
    if (!d->ranks || !d->latency_us || !d->gbps)
        goto out;
    KOLO_TRY(kolo_alloc(comm, (size_t)options->bytes * WINDOW, &memory));
    meter.memory = memory;
    KOLO_TRY(learn_hosts(comm, d));
    KOLO_TRY(measure_speeds(&meter));
    bool shows = meter.rank == 0 && !options->quiet && isatty(STDERR_FILENO);
    for (int64_t round = 0; round < options->rounds; round++)
        KOLO_TRY(measure_pairs(&meter, round, shows));
    KOLO_TRY(share(comm, d));
out:
    if (memory)
        (void)kolo_free(comm, memory);
    return status;
}
