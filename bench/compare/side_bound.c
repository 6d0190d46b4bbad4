// SPDX-License-Identifier: Apache-2.0
// The limit as a side: bare loops that do one pattern each over shared memory, without checks,
// deadlines or failure handling. Own memory: every rank maps every other's buffers, and reads and
// writes them in place. User memory: through a ring of slots that all ranks map, copied in and out.
//
// Direct: an allreduce sums its share of all ranks' inputs once and writes it into all ranks'
// outputs; the other collectives copy what a rank needs from where it lies. Flags come before (all
// inputs are there) and after (all have read mine). Vectors of a few cache lines go through two
// slots per rank instead, used alternately, for which one flag is enough. Staged: pieces of the
// vectors go through slots in the same way, two in flight.
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/compare/compare.h"

enum { SLOT_BYTES = 64 << 10, SMALL = 1024, BUFFERS = 8, TILE = 4096, SPINS = 2000 };

struct rank_area {
    uint64_t flag __attribute__((aligned(128)));
    struct {
        uint64_t bytes;
        int pid, fd;
    } offer __attribute__((aligned(128)));
    float slots[2][SLOT_BYTES / sizeof(float)] __attribute__((aligned(4096)));
    float results[2][SLOT_BYTES / sizeof(float)];
};

/** A buffer of MEMORY_OWN, and where each rank's is mapped here. */
struct buffer {
    void *mine;
    size_t bytes;
    int fd;
    float *views[GATE_RANKS];
};

static struct rank_area *areas;
static struct buffer buffers[BUFFERS];
static int me, all;
static bool crowded;
static uint64_t step; /* how many times this rank has set its flag */

static void relax(int *spins)
{
    if (crowded || ++*spins > SPINS)
        sched_yield();
    else
        __builtin_ia32_pause();
}

/* Sets this rank's flag and waits for the others'. */
static void meet_all(void)
{
    __atomic_store_n(&areas[me].flag, ++step, __ATOMIC_RELEASE);
    for (int rank = 0; rank < all; rank++) {
        int spins = 0;
        while (__atomic_load_n(&areas[rank].flag, __ATOMIC_ACQUIRE) < step)
            relax(&spins);
    }
}

static int start(int rank, int nranks, const char *meet, char *detail)
{
    size_t bytes = sizeof(struct rank_area) * (size_t)nranks;
    int fd = open(meet, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    me = rank;
    all = nranks;
    crowded = nranks > sysconf(_SC_NPROCESSORS_ONLN);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        snprintf(detail, GATE_TEXT, "cannot open %.100s", meet);
        return -1;
    }
    areas = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (areas == MAP_FAILED) {
        snprintf(detail, GATE_TEXT, "cannot map %.100s", meet);
        return -1;
    }
    return 0;
}

static bool can(enum collective collective, enum memory memory)
{
    (void)collective;
    (void)memory;
    return true;
}

/* ---- own memory ---- */

static struct buffer *buffer_of(const void *memory)
{
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].mine == memory)
            return &buffers[i];
    return NULL;
}

static float *map_offer(const struct rank_area *area)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", area->offer.pid, area->offer.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED
                       : mmap(NULL, area->offer.bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_POPULATE, fd, 0);
    if (fd >= 0)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

static void *allocate(size_t bytes)
{
    struct buffer *buffer = buffer_of(NULL);
    int fd = memfd_create("kolo-compare", MFD_CLOEXEC);
    if (!buffer || fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return NULL;
    buffer->fd = fd;
    buffer->bytes = areas[me].offer.bytes = bytes;
    areas[me].offer.pid = getpid();
    areas[me].offer.fd = fd;
    meet_all();
    bool mapped = true;
    for (int rank = 0; rank < all; rank++) {
        buffer->views[rank] = map_offer(&areas[rank]);
        mapped = mapped && buffer->views[rank];
    }
    buffer->mine = buffer->views[me];
    meet_all();
    return mapped ? buffer->mine : NULL;
}

static void release(void *memory)
{
    struct buffer *buffer = buffer_of(memory);
    for (int rank = 0; rank < all; rank++)
        munmap(buffer->views[rank], buffer->bytes);
    close(buffer->fd);
    memset(buffer, 0, sizeof *buffer);
}

static int barrier(char *detail)
{
    (void)detail;
    meet_all();
    return 0;
}

/* ---- sums ---- */

/* out[i] = sum over ranks of in[rank][i], left to right, one tile of the first-level cache at a
 * time.
 */
static void sum_into(float *restrict out, float *const *in, size_t begin, size_t count)
{
    for (size_t at = 0; at < count; at += TILE / sizeof(float)) {
        size_t n = count - at < TILE / sizeof(float) ? count - at : TILE / sizeof(float);
        const float *first = in[0] + begin + at, *second = in[1 % all] + begin + at;
        float *sum = out + at;
        if (all == 1) {
            memcpy(sum, first, n * sizeof *sum);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            sum[i] = first[i] + second[i];
        for (int rank = 2; rank < all; rank++) {
            const float *next = in[rank] + begin + at;
            for (size_t i = 0; i < n; i++)
                sum[i] += next[i];
        }
    }
}

static void share_of(size_t count, int rank, size_t *begin, size_t *length)
{
    size_t line = 16, lines = (count + line - 1) / line;
    size_t first = lines * (size_t)rank / (size_t)all * line;
    size_t last = lines * ((size_t)rank + 1) / (size_t)all * line;
    first = first < count ? first : count;
    last = last < count ? last : count;
    *begin = first;
    *length = last - first;
}

/* ---- direct ---- */

static void direct_allreduce(const struct operation *operation)
{
    float *const *in = buffer_of(operation->send)->views;
    float *const *out = buffer_of(operation->recv)->views;
    size_t begin, length, tile = TILE / sizeof(float);
    share_of(operation->count, me, &begin, &length);
    meet_all();
    for (size_t at = 0; at < length; at += tile) {
        size_t n = length - at < tile ? length - at : tile;
        sum_into(out[me] + begin + at, in, begin + at, n);
        for (int rank = 0; rank < all; rank++)
            if (rank != me)
                memcpy(out[rank] + begin + at, out[me] + begin + at, n * sizeof(float));
    }
    meet_all();
}

static void direct_others(const struct operation *operation)
{
    float *const *in = buffer_of(operation->send ? operation->send : operation->recv)->views;
    float *recv = operation->recv;
    size_t block = operation->block, bytes = block * sizeof(float);
    meet_all();
    if (operation->collective == REDUCE_SCATTER)
        sum_into(recv, in, block * (size_t)me, block);
    else if (operation->collective == BROADCAST && operation->root != me)
        memcpy(recv, buffer_of(recv)->views[operation->root], operation->count * sizeof(float));
    else if (operation->collective != BROADCAST)
        for (int i = 0; i < all; i++) {
            size_t from = (size_t)((me + i) % all);
            size_t skip = operation->collective == ALLTOALL ? block * (size_t)me : 0;
            memcpy(recv + from * block, in[from] + skip, bytes);
        }
    meet_all();
}

/* ---- through slots ---- */

static float **slots_of(uint64_t round, float **slots)
{
    for (int rank = 0; rank < all; rank++)
        slots[rank] = areas[rank].slots[round % 2];
    return slots;
}

/* Whole vectors in one slot each, read by all ranks. */
static void small(const struct operation *operation, uint64_t round)
{
    float *slots[GATE_RANKS], *recv = operation->recv;
    size_t block = operation->block;
    bool gathers = operation->collective == ALLGATHER;
    slots_of(round, slots);
    if (operation->collective != BROADCAST)
        memcpy(slots[me], operation->send, (gathers ? block : operation->count) * sizeof(float));
    else if (operation->root == me)
        memcpy(slots[me], recv, operation->count * sizeof(float));
    meet_all();
    if (operation->collective == ALLREDUCE)
        sum_into(recv, slots, 0, operation->count);
    else if (operation->collective == REDUCE_SCATTER)
        sum_into(recv, slots, block * (size_t)me, block);
    else if (operation->collective == BROADCAST && operation->root != me)
        memcpy(recv, slots[operation->root], operation->count * sizeof(float));
    else if (operation->collective != BROADCAST)
        for (int rank = 0; rank < all; rank++)
            memcpy(recv + (size_t)rank * block, slots[rank] + (gathers ? 0 : block * (size_t)me),
                   block * sizeof(float));
}

/* A piece of a vector is copied in, except this rank's share of it. Each rank sums its share,
 * taking its own input from where it lies. The sums are copied out. */
static void staged_allreduce(const struct operation *operation, uint64_t *round)
{
    float *send = operation->send, *recv = operation->recv, *in[GATE_RANKS];
    size_t most = SLOT_BYTES / sizeof(float), begin, length;
    for (size_t at = 0; at < operation->count; at += most, ++*round) {
        size_t n = operation->count - at < most ? operation->count - at : most;
        for (int rank = 0; rank < all; rank++) {
            share_of(n, rank, &begin, &length);
            if (rank != me)
                memcpy(areas[me].slots[*round % 2] + begin, send + at + begin,
                       length * sizeof(float));
        }
        meet_all();
        share_of(n, me, &begin, &length);
        slots_of(*round, in)[me] = send + at;
        sum_into(recv + at + begin, in, begin, length);
        memcpy(areas[me].results[*round % 2], recv + at + begin, length * sizeof(float));
        meet_all();
        for (int rank = 0; rank < all; rank++) {
            share_of(n, rank, &begin, &length);
            if (rank != me)
                memcpy(recv + at + begin, areas[rank].results[*round % 2], length * sizeof(float));
        }
    }
}

static void staged_broadcast(const struct operation *operation, uint64_t *round)
{
    float *recv = operation->recv;
    size_t most = SLOT_BYTES / sizeof(float);
    for (size_t at = 0; at < operation->count; at += most, ++*round) {
        size_t n = operation->count - at < most ? operation->count - at : most;
        float *slot = areas[operation->root].slots[*round % 2];
        if (operation->root == me)
            memcpy(slot, recv + at, n * sizeof(float));
        meet_all();
        if (operation->root != me)
            memcpy(recv + at, slot, n * sizeof(float));
    }
}

/* What others need is copied in, and each copies out its own; what a rank has for itself is copied
 * directly.
 */
static void staged_blocks(const struct operation *operation, uint64_t *round)
{
    float *send = operation->send, *recv = operation->recv, *in[GATE_RANKS];
    bool gathers = operation->collective == ALLGATHER;
    bool sums = operation->collective == REDUCE_SCATTER;
    size_t block = operation->block, mine = gathers ? 0 : (size_t)me, n;
    size_t most = SLOT_BYTES / sizeof(float) / (gathers ? 1 : (size_t)all);
    for (size_t at = 0; at < block; at += most, ++*round) {
        float *slot = areas[me].slots[*round % 2];
        n = block - at < most ? block - at : most;
        for (size_t to = 0; to < (gathers ? 1 : (size_t)all); to++)
            if (gathers || to != mine)
                memcpy(slot + to * most, send + to * block + at, n * sizeof(float));
        meet_all();
        slots_of(*round, in)[me] = send + at + mine * (block - most);
        if (sums)
            sum_into(recv + at, in, most * mine, n);
        for (int rank = 0; !sums && rank < all; rank++)
            memcpy(recv + (size_t)rank * block + at, in[rank] + most * mine, n * sizeof(float));
    }
}

static int play(const struct operation *operation, char *detail)
{
    static uint64_t round;
    (void)detail;
    if (operation->count <= SMALL)
        small(operation, round++);
    else if (buffer_of(operation->recv) && operation->collective == ALLREDUCE)
        direct_allreduce(operation);
    else if (buffer_of(operation->recv))
        direct_others(operation);
    else if (operation->collective == ALLREDUCE)
        staged_allreduce(operation, &round);
    else if (operation->collective == BROADCAST)
        staged_broadcast(operation, &round);
    else
        staged_blocks(operation, &round);
    return 0;
}

static void end(void)
{
}

const struct side this_side = {.start = start,
                               .can = can,
                               .allocate = allocate,
                               .release = release,
                               .barrier = barrier,
                               .play = play,
                               .end = end};
