// SPDX-License-Identifier: Apache-2.0
// The figures of a machine: how fast one rank, and all ranks at once, copy and reduce; how long a
// word takes from one core to another, a sleeper to wake, a byte through TCP and by RDMA; and how
// fast bytes go from one rank to another through a small ring, through a socket and by RDMA writes.
// Pairs are rank 0 and rank 1, or over TCP and RDMA rank 0 and the first rank of another host.
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/short_file.h"
#include "base/status.h"
#include "bench/limits.h"
#include "memory/reduce.h"
#include "runtime/relax.h"

enum {
    CACHED_BYTES = 128 << 10, /* three of them fit into a core's second-level cache */
    SLOTS = 8,
    SLOT_BYTES = 16 << 10, /* with SLOTS: like kolo's ring */
    RING_BYTES = 16 << 20, /* moved through it in a step */
    STREAM_BYTES = 32 << 20,
    CPUS = 1024,
    FUTEX_SLICE_MS = 100
};

/* ---- one rank's memory ---- */

struct buffers {
    uint8_t *a, *b, *out;
    size_t bytes;
    bool all; /* every rank works, else only rank 0 */
};

static bool copy_step(struct bare_world *world, void *context)
{
    struct buffers *buffers = context;
    if (buffers->all || world->rank == 0)
        memcpy(buffers->out, buffers->a, buffers->bytes);
    return true;
}

static bool reduce_step(struct bare_world *world, void *context)
{
    struct buffers *buffers = context;
    if (buffers->all || world->rank == 0)
        kolo_reduce_function(KOLO_FLOAT32, KOLO_SUM)(buffers->out, buffers->a, buffers->b,
                                                     buffers->bytes / sizeof(float));
    return true;
}

static void add(struct bench_figures *figures, const char *key, const char *text, double value)
{
    if (figures->count < BENCH_FIGURES_MAX)
        figures->list[figures->count++] = (struct bench_figure){key, text, value};
}

static kolo_status memory_figures(struct bare_world *world, int64_t time_ns,
                                  struct bench_figures *figures)
{
    static const struct {
        const char *key, *text;
        bare_step step;
        size_t bytes;
        bool all;
    } wanted[] = {
        {"copy_gbps", "memory copied by one rank (bytes copied)", copy_step, BARE_LARGE_BYTES,
         false},
        {"copy_all_gbps", "memory copied by all ranks at once, together", copy_step,
         BARE_LARGE_BYTES, true},
        {"copy_cached_gbps", "the same by one rank within its cache", copy_step, CACHED_BYTES,
         false},
        {"reduce_gbps", "float32 sum of two vectors by one rank (bytes of the result)", reduce_step,
         BARE_LARGE_BYTES, false},
        {"reduce_all_gbps", "the same by all ranks at once, together", reduce_step,
         BARE_LARGE_BYTES, true},
        {"reduce_cached_gbps", "the same by one rank within its cache", reduce_step, CACHED_BYTES,
         false},
    };
    struct buffers buffers = {.a = kolo_aligned(4096, BARE_LARGE_BYTES),
                              .b = kolo_aligned(4096, BARE_LARGE_BYTES),
                              .out = kolo_aligned(4096, BARE_LARGE_BYTES)};
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (!buffers.a || !buffers.b || !buffers.out)
        goto out;
    bare_fill(buffers.a, BARE_LARGE_BYTES);
    bare_fill(buffers.b, BARE_LARGE_BYTES);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        double us;
        buffers.bytes = wanted[i].bytes;
        buffers.all = wanted[i].all;
        KOLO_TRY(bare_time(world, wanted[i].key, wanted[i].step, &buffers, time_ns, &us));
        add(figures, wanted[i].key, wanted[i].text,
            (double)buffers.bytes * (buffers.all ? world->nranks : 1) / us / 1e3);
    }
out:
    kolo_free_memory(buffers.a);
    kolo_free_memory(buffers.b);
    kolo_free_memory(buffers.out);
    return status;
}

/* ---- processors ---- */

static int core_of(int cpu)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
    const int64_t core = kolo_short_file_number(path);
    return core >= 0 ? (int)core : cpu;
}

static bool move_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

/* Finds the first usable processor, and the first on another core (-1: there is none). Afterwards
 * this thread may be bound to either. */
static void find_processors(int *first_out, int *other_out)
{
    *first_out = *other_out = -1;
    for (int cpu = 0; cpu < CPUS && *other_out < 0; cpu++) {
        if (!move_to(cpu))
            continue;
        if (*first_out < 0)
            *first_out = cpu;
        else if (core_of(cpu) != core_of(*first_out))
            *other_out = cpu;
    }
}

/* ---- between two ranks by memory ---- */

enum { PAIR_SPINS, PAIR_YIELDS, PAIR_SLEEPS };

struct pair {
    int how;
    uint64_t turn;
    const uint8_t *from;
    uint8_t *to;
};

static uint64_t *pair_word(const struct bare_world *world, int rank)
{
    return bare_flag(world, rank) + 2; /* on the line of the flag, which is not in use now */
}

static bool sleep_on(struct bare_world *world, uint64_t *word, uint64_t turn)
{
    struct timespec slice = {.tv_nsec = FUTEX_SLICE_MS * 1000000};
    for (uint64_t now; (now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) < turn;) {
        (void)syscall(SYS_futex, word, FUTEX_WAIT, (uint32_t)now, &slice, NULL, 0);
        if (kolo_deadline_passed(world->deadline))
            return false;
    }
    return true;
}

static bool await_word(struct bare_world *world, const struct pair *pair, int rank)
{
    uint64_t *word = pair_word(world, rank);
    if (pair->how == PAIR_SLEEPS)
        return sleep_on(world, word, pair->turn);
    if (pair->how == PAIR_SPINS)
        return bare_await(world, word, pair->turn);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < pair->turn) {
        sched_yield();
        if (kolo_deadline_passed(world->deadline))
            return false;
    }
    return true;
}

static void raise_word(struct bare_world *world, const struct pair *pair)
{
    uint64_t *word = pair_word(world, world->rank);
    __atomic_store_n(word, pair->turn, __ATOMIC_RELEASE);
    if (pair->how == PAIR_SLEEPS)
        (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* There and back. */
static bool word_step(struct bare_world *world, void *context)
{
    struct pair *pair = context;
    if (world->rank > 1)
        return true;
    pair->turn++;
    if (world->rank == 1 && !await_word(world, pair, 0))
        return false;
    raise_word(world, pair);
    return world->rank == 1 || await_word(world, pair, 1);
}

static kolo_status word_figures(struct bare_world *world, int64_t time_ns,
                                struct bench_figures *figures)
{
    static const struct {
        const char *key, *text;
        int how;
        bool other;
    } wanted[] = {
        {"flag_us", "a word from one core to another, one way, both spin", PAIR_SPINS, true},
        {"flag_same_core_us", "the same on one core, both yield", PAIR_YIELDS, false},
        {"wake_us", "a sleeper on another core woken by a futex", PAIR_SLEEPS, true},
        {"wake_same_core_us", "a sleeper on the same core", PAIR_SLEEPS, false},
    };
    cpu_set_t before;
    int first, other;
    bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    bool crowded = world->crowded;
    struct pair pair = {.turn = 0};
    kolo_status status = KOLO_OK;
    find_processors(&first, &other);
    int64_t without_other = other < 0;
    KOLO_TRY(kolo_allreduce(world->comm, &without_other, &without_other, 1, KOLO_INT64, KOLO_MAX,
                            NULL, NULL));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        double us;
        if (wanted[i].other && without_other)
            continue;
        if (world->rank < 2)
            (void)move_to(wanted[i].other && world->rank == 1 ? other : first);
        else if (known)
            (void)sched_setaffinity(0, sizeof before, &before);
        pair.how = wanted[i].how;
        world->crowded = false; /* each of the two has its own core, or knows that it has not */
        KOLO_TRY(bare_time(world, wanted[i].key, word_step, &pair, time_ns, &us));
        world->crowded = crowded;
        add(figures, wanted[i].key, wanted[i].text, us / 2);
    }
out:
    if (known)
        (void)sched_setaffinity(0, sizeof before, &before);
    world->crowded = crowded;
    return status;
}

/* Moves RING_BYTES from ordinary memory of rank 0 through a ring of SLOTS to ordinary memory of
 * rank 1.
 */
static bool ring_step(struct bare_world *world, void *context)
{
    struct pair *pair = context;
    uint8_t *ring = bare_stages(world, 0);
    uint64_t *written = pair_word(world, 0), *read = pair_word(world, 1);
    if (world->rank > 1)
        return true;
    for (size_t at = 0; at < RING_BYTES; at += SLOT_BYTES) {
        uint8_t *slot = ring + pair->turn % SLOTS * SLOT_BYTES;
        pair->turn++;
        if (world->rank == 0) {
            if (pair->turn > SLOTS && !bare_await(world, read, pair->turn - SLOTS))
                return false;
            memcpy(slot, pair->from + at, SLOT_BYTES);
            __atomic_store_n(written, pair->turn, __ATOMIC_RELEASE);
        } else {
            if (!bare_await(world, written, pair->turn))
                return false;
            memcpy(pair->to + at, slot, SLOT_BYTES);
            __atomic_store_n(read, pair->turn, __ATOMIC_RELEASE);
        }
    }
    return true;
}

static kolo_status ring_figure(struct bare_world *world, int64_t time_ns,
                               struct bench_figures *figures)
{
    struct pair pair = {.turn = 0};
    uint8_t *memory = kolo_aligned(4096, RING_BYTES);
    double us;
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (!memory)
        goto out;
    bare_fill(memory, RING_BYTES);
    pair.from = pair.to = memory;
    if (world->rank < 2)
        __atomic_store_n(pair_word(world, world->rank), 0, __ATOMIC_SEQ_CST);
    KOLO_TRY(bare_time(world, "ring", ring_step, &pair, time_ns, &us));
    add(figures, "ring_gbps", "ordinary memory to another rank through a ring of 128 KiB",
        (double)RING_BYTES / us / 1e3);
out:
    kolo_free_memory(memory);
    return status;
}

/* ---- between two ranks by TCP ---- */

struct stream {
    int other; /* forms the pair with rank 0 */
    bool sleeps;
    size_t bytes; /* bytes to the other; then one byte back */
    uint8_t *memory;
};

static bool move_bytes(struct bare_world *world, const struct stream *stream, bool sends,
                       size_t bytes)
{
    int fd = world->sockets[world->rank == 0 ? stream->other : 0];
    for (size_t done = 0; done < bytes;) {
        ssize_t moved = sends ? send(fd, stream->memory, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : recv(fd, stream->memory, bytes - done, MSG_DONTWAIT);
        if (moved > 0) {
            done += (size_t)moved;
            continue;
        }
        if (moved == 0 || (errno != EAGAIN && errno != EINTR) ||
            kolo_deadline_passed(world->deadline))
            return false;
        struct pollfd poller = {.fd = fd, .events = sends ? POLLOUT : POLLIN};
        if (stream->sleeps)
            (void)poll(&poller, 1, kolo_deadline_poll_ms(world->deadline));
        else if (world->crowded)
            sched_yield();
    }
    return true;
}

static bool stream_step(struct bare_world *world, void *context)
{
    const struct stream *stream = context;
    if (world->rank != 0 && world->rank != stream->other)
        return true;
    bool sends = world->rank == 0;
    return move_bytes(world, stream, sends, stream->bytes) &&
           move_bytes(world, stream, !sends, stream->bytes > 8 ? 1 : stream->bytes);
}

static kolo_status tcp_figures(struct bare_world *world, int64_t time_ns,
                               struct bench_figures *figures)
{
    struct stream stream = {.other = 1, .bytes = 8, .memory = kolo_calloc(STREAM_BYTES, 1)};
    bool is_network;
    double us;
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (!stream.memory)
        return status;
    KOLO_TRY(bare_other(world, &stream.other, &is_network));
    KOLO_TRY(bare_time(world, "tcp, spinning", stream_step, &stream, time_ns, &us));
    add(figures, "tcp_us", "8 bytes through TCP, one way, both look without sleeping", us / 2);
    stream.sleeps = true;
    KOLO_TRY(bare_time(world, "tcp, sleeping", stream_step, &stream, time_ns, &us));
    add(figures, "tcp_sleep_us", "the same, both sleep in poll", us / 2);
    stream.bytes = STREAM_BYTES;
    KOLO_TRY(bare_time(world, "tcp stream", stream_step, &stream, time_ns, &us));
    add(figures, "tcp_gbps", "bytes through one TCP connection, one way",
        (double)STREAM_BYTES / us / 1e3);
out:
    kolo_free_memory(stream.memory);
    return status;
}

/* ---- between two ranks by RDMA ---- */

static kolo_status rdma_figures(struct bare_world *world, int64_t time_ns,
                                struct bench_figures *figures)
{
    static const struct {
        const char *key, *text;
        size_t bytes;
        bool both;
    } wanted[] = {
        {"rdma_4k_gbps", "RDMA writes of 4 KiB, many on their way, one way", 4 << 10, false},
        {"rdma_64k_gbps", "the same of 64 KiB", 64 << 10, false},
        {"rdma_1m_gbps", "the same of 1 MiB", 1 << 20, false},
        {"rdma_4m_gbps", "the same of 4 MiB", 4 << 20, false},
        {"rdma_both_gbps", "the same of 1 MiB both ways at once, each way", 1 << 20, true},
    };
    int other;
    bool is_network;
    double us;
    kolo_status status;
    KOLO_TRY(bare_other(world, &other, &is_network));
    KOLO_TRY(bare_rdma_word_time(world, other, false, time_ns, &us));
    add(figures, "rdma_us", "8 bytes by an RDMA write into memory that the other polls, one way",
        us);
    KOLO_TRY(bare_rdma_word_time(world, other, true, time_ns, &us));
    add(figures, "rdma_swap_us", "the same, each to the other at once", us);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (wanted[i].bytes > bare_rdma_write_bytes_max(world))
            continue;
        KOLO_TRY(bare_rdma_write_time(world, other, wanted[i].both, wanted[i].bytes, time_ns, &us));
        add(figures, wanted[i].key, wanted[i].text, (double)wanted[i].bytes / us / 1e3);
    }
out:
    return status;
}

kolo_status bench_figures_measure(struct bare_world *world, bool memory, int64_t time_ns,
                                  struct bench_figures *figures_out)
{
    kolo_status status;
    figures_out->count = 0;
    if (memory)
        KOLO_TRY(memory_figures(world, time_ns, figures_out));
    if (memory && world->memory && world->nranks > 1) {
        KOLO_TRY(word_figures(world, time_ns, figures_out));
        KOLO_TRY(ring_figure(world, time_ns, figures_out));
    }
    if (world->sockets && world->nranks > 1)
        KOLO_TRY(tcp_figures(world, time_ns, figures_out));
    if (world->rdma)
        KOLO_TRY(rdma_figures(world, time_ns, figures_out));
out:
    return status;
}
