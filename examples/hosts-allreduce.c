// SPDX-License-Identifier: Apache-2.0
// An allreduce of GPU memory across hosts whose sums inside each host are computed on the GPUs:
// copy what is between the two rulers.
//
//   kolorun -H a:8,b:8 hosts-allreduce [--mib N] [--piece-mib N]
//
// kolo_allreduce() of device memory among ranks of several hosts copies all of it to the hosts and
// sums it there. If each host has several GPUs, three calls on two communicators avoid most of
// that: kernels sum inside the host, so that each rank holds its share of the host's sum; only the
// shares cross the network; kernels distribute them inside the host. All hosts must have the same
// number of ranks.
//
// The vector is sent in pieces, so that one crosses the network while the next is summed and the
// one before is distributed. The ranks of a communicator must make its calls in the same order, so
// all run the same loop.
//
// Both ways are run, compared and timed. The numbers are small integers, whose sum is the same in
// any order. Without a GPU, host memory is used.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kolo/kolo.h>

/* ---- to copy ------------------------------------------------------------------------------- */

struct two_levels {
    struct kolo_comm *host, *across; /* this host's ranks; those with this index on each host */
    int place, ranks;                /* on the host */
    size_t *counts;                  /* of a piece, by index on the host */
};

/** Finds the ranks of this rank's host: the lowest, their number, and this rank's index among
 * them. */
static kolo_status find_host(struct kolo_comm *comm, struct two_levels *levels, int *lowest_out)
{
    struct kolo_peer_info mine = {.size = sizeof(mine)}, other = {.size = sizeof(other)};
    kolo_status status = kolo_get_peer_info(comm, kolo_rank(comm), &mine);
    for (int rank = kolo_size(comm) - 1; rank >= 0 && status == KOLO_OK; rank--) {
        status = kolo_get_peer_info(comm, rank, &other);
        if (status != KOLO_OK || strcmp(other.host, mine.host) != 0)
            continue;
        *lowest_out = rank;
        levels->ranks++;
        levels->place += rank < kolo_rank(comm);
    }
    return status;
}

/** Collective. KOLO_ERR_UNSUPPORTED: hosts have different numbers of ranks. */
static kolo_status two_levels_create(struct kolo_comm *comm, struct two_levels *levels)
{
    int lowest = 0;
    int32_t most[2];
    *levels = (struct two_levels){0};
    kolo_status status = find_host(comm, levels, &lowest);
    levels->counts = calloc((size_t)levels->ranks, sizeof(*levels->counts));
    most[0] = levels->ranks, most[1] = -levels->ranks;
    if (status == KOLO_OK && levels->counts == NULL)
        status = KOLO_ERR_NO_MEMORY;
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, most, most, 2, KOLO_INT32, KOLO_MAX, NULL, NULL);
    if (status == KOLO_OK && most[0] != -most[1])
        status = KOLO_ERR_UNSUPPORTED;
    if (status == KOLO_OK)
        status = kolo_split(comm, lowest, 0, NULL, &levels->host);
    if (status == KOLO_OK)
        status = kolo_split(comm, levels->place, 0, NULL, &levels->across);
    return status;
}

static void two_levels_free(struct two_levels *levels)
{
    kolo_finalize(levels->across);
    kolo_finalize(levels->host);
    free(levels->counts);
}

/** Divides a piece of @p count elements into shares; returns where this rank's share begins. */
static size_t share_out(const struct two_levels *levels, size_t count)
{
    size_t begin = 0, ranks = (size_t)levels->ranks;
    for (int place = 0; place < levels->ranks; place++) {
        levels->counts[place] = count / ranks + ((size_t)place < count % ranks);
        begin += place < levels->place ? levels->counts[place] : 0;
    }
    return begin;
}

/** Begins stage @p stage, 0 to 2, of the piece that begins at @p send and @p recv. */
static kolo_status begin_stage(const struct two_levels *levels, int stage, const float *send,
                               float *recv, size_t count, struct kolo_request **request_out)
{
    const size_t begin = share_out(levels, count), mine = levels->counts[levels->place];
    if (stage == 0)
        return kolo_reduce_scatterv(levels->host, send, recv + begin, levels->counts, KOLO_FLOAT32,
                                    KOLO_SUM, NULL, request_out);
    if (stage == 1)
        return kolo_allreduce(levels->across, recv + begin, recv + begin, mine, KOLO_FLOAT32,
                              KOLO_SUM, NULL, request_out);
    return kolo_allgatherv(levels->host, recv + begin, recv, levels->counts, NULL, KOLO_FLOAT32,
                           NULL, request_out);
}

/** Sums like kolo_allreduce(), in pieces of @p piece elements. Not in place. */
static kolo_status two_level_allreduce(const struct two_levels *levels, const float *send,
                                       float *recv, size_t count, size_t piece)
{
    enum { STAGES = 3 };
    struct kolo_request *running[STAGES] = {NULL}; /* by stage, each with its own piece */
    const size_t pieces = (count + piece - 1) / piece;
    kolo_status status = KOLO_OK;
    for (size_t turn = 0; turn <= pieces + STAGES - 1; turn++) {
        for (int stage = 0; stage < STAGES; stage++) {
            const kolo_status waited = kolo_wait(&running[stage], -1); /* NULL: nothing runs */
            status = status == KOLO_OK ? waited : status;
        }
        for (size_t stage = 0; stage < STAGES && status == KOLO_OK; stage++) {
            const size_t at = (turn - stage) * piece;
            if (turn >= stage && turn - stage < pieces)
                status = begin_stage(levels, (int)stage, send + at, recv + at,
                                     count - at < piece ? count - at : piece, &running[stage]);
        }
    }
    return status;
}

/* ---- the program --------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct run {
    struct kolo_comm *comm, *alone; /* all ranks; this one alone: its calls there are copies */
    struct two_levels levels;
    size_t count, piece;
    float *send, *recv; /* device memory, or the host's */
    float *host;        /* in host memory */
    const char *memory;
    size_t wrong; /* wrong elements of results */
};

static kolo_status copy(const struct run *run, const float *from, float *to)
{
    return kolo_allgather(run->alone, from, to, run->count, KOLO_FLOAT32, NULL, NULL);
}

static kolo_status allocate(struct run *run)
{
    const size_t bytes = run->count * sizeof(float);
    void *send = NULL, *recv = NULL, *host = NULL;
    kolo_status status = kolo_alloc(run->comm, bytes, &host);
    run->memory = "GPU";
    if (status == KOLO_OK)
        status = kolo_alloc_device(run->comm, bytes, -1, &send);
    if (status == KOLO_OK)
        status = kolo_alloc_device(run->comm, bytes, -1, &recv);
    if (status == KOLO_ERR_UNSUPPORTED) {
        run->memory = "host";
        status = kolo_alloc(run->comm, bytes, &send);
        if (status == KOLO_OK)
            status = kolo_alloc(run->comm, bytes, &recv);
    }
    run->send = send, run->recv = recv, run->host = host;
    return status;
}

static float number(size_t index, int rank)
{
    return (float)((index * 7 + (size_t)rank) % 13);
}

static kolo_status fill(const struct run *run)
{
    for (size_t i = 0; i < run->count; i++)
        run->host[i] = number(i, kolo_rank(run->comm));
    return copy(run, run->host, run->send);
}

/** Counts the wrong elements of the result. */
static kolo_status check(const struct run *run, size_t *wrong_out)
{
    const kolo_status status = copy(run, run->recv, run->host);
    *wrong_out = 0;
    for (size_t i = 0; i < run->count && status == KOLO_OK; i++) {
        float sum = 0;
        for (int rank = 0; rank < kolo_size(run->comm); rank++)
            sum += number(i, rank);
        *wrong_out += run->host[i] != sum;
    }
    return status;
}

static kolo_status allreduce(const struct run *run, int is_by_levels)
{
    return is_by_levels
               ? two_level_allreduce(&run->levels, run->send, run->recv, run->count, run->piece)
               : kolo_allreduce(run->comm, run->send, run->recv, run->count, KOLO_FLOAT32, KOLO_SUM,
                                NULL, NULL);
}

/** Times one way, and counts wrong elements of its result. */
static kolo_status measure(struct run *run, int is_by_levels, double *each_out)
{
    enum { WARM_UP = 2, CALLS = 5 };
    double begin = 0;
    size_t wrong = 0;
    kolo_status status = KOLO_OK;
    for (int call = -WARM_UP; call < CALLS && status == KOLO_OK; call++) {
        begin = call == 0 ? seconds() : begin;
        status = allreduce(run, is_by_levels);
    }
    *each_out = (seconds() - begin) / CALLS;
    if (status == KOLO_OK)
        status = check(run, &wrong);
    if (wrong > 0)
        fprintf(stderr, "hosts-allreduce: rank %d: %zu of %zu elements are wrong\n",
                kolo_rank(run->comm), wrong, run->count);
    run->wrong += wrong;
    return status;
}

static kolo_status compare(struct run *run)
{
    double plain = 0, levels = 0;
    kolo_status status = two_levels_create(run->comm, &run->levels);
    if (status == KOLO_ERR_UNSUPPORTED) {
        if (kolo_rank(run->comm) == 0)
            fprintf(stderr, "hosts-allreduce: hosts have different numbers of ranks: name each "
                            "with as many in -H\n");
        return status;
    }
    if (status == KOLO_OK)
        status = kolo_split(run->comm, kolo_rank(run->comm), 0, NULL, &run->alone);
    if (status == KOLO_OK)
        status = allocate(run);
    if (status == KOLO_OK)
        status = fill(run);
    if (status == KOLO_OK)
        status = measure(run, 0, &plain);
    if (status == KOLO_OK)
        status = measure(run, 1, &levels);
    if (status == KOLO_OK && kolo_rank(run->comm) == 0)
        printf("%zu MiB of %s memory, %d ranks, %d a host: kolo_allreduce %.2f ms, in two levels "
               "%.2f ms\n",
               run->count * sizeof(float) >> 20, run->memory, kolo_size(run->comm),
               run->levels.ranks, plain * 1e3, levels * 1e3);
    return status;
}

static int usage(FILE *stream, int status)
{
    fprintf(stream, "usage: hosts-allreduce [--mib N] [--piece-mib N]\n"
                    "  --mib N        length of the vector in MiB [64]\n"
                    "  --piece-mib N  length of a piece of it in MiB [8]\n");
    return status;
}

/** 0: not a number of MiB from 1 to 2^20. */
static size_t mib(const char *text)
{
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);
    return *end == '\0' && value <= 1ul << 20 ? (value << 20) / sizeof(float) : 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"mib", required_argument, NULL, 'm'},
                                            {"piece-mib", required_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct run run = {.count = mib("64"), .piece = mib("8")};
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h')
            return usage(stdout, 0);
        if (option == '?')
            return usage(stderr, 2);
        *(option == 'm' ? &run.count : &run.piece) = mib(optarg);
    }
    if (optind < argc || run.count == 0 || run.piece == 0)
        return usage(stderr, 2);
    kolo_status status = kolo_init(NULL, &run.comm);
    if (status == KOLO_OK)
        status = compare(&run);
    if (status != KOLO_OK && status != KOLO_ERR_UNSUPPORTED)
        fprintf(stderr, "hosts-allreduce: %s: %s\n", kolo_status_text(status), kolo_error_detail());
    kolo_free(run.comm, run.send);
    kolo_free(run.comm, run.recv);
    kolo_free(run.comm, run.host);
    kolo_finalize(run.alone);
    two_levels_free(&run.levels);
    kolo_finalize(run.comm);
    return status != KOLO_OK || run.wrong > 0;
}
