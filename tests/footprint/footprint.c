// SPDX-License-Identifier: Apache-2.0
// Measures what a rank uses, as the kernel counts it (smaps_rollup, maps, fd, getrusage), and
// compares it with limits. Memory is PSS, which divides memory that several processes share among
// them, so that the sum over all ranks is what the host provides. PSS of files is not counted: a
// library's pages are divided among all processes that use it, so the share of one grows whenever
// another process, of any other test, ends.
//
//   memory        each communicator takes at most 16 MiB of a rank besides the user's buffers, one
//                 of a single rank nothing
//   start         begins, connects to the others and ends: to measure that
//   wait          a rank that waits for a second, or does nothing, uses almost no processor time
//   wait-threads  the same for threads of one process, without kolorun
//   alloc         repeated kolo_alloc and kolo_free, with collectives in between, leave nothing
//   dup           the same for kolo_dup and kolo_finalize, and without calls in between
//   again         the same for worlds that begin and end in one process, without kolorun
//
// TEST_SOAK=1 makes the last three long.
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <kolo/kolo.h>

#include "tests/support/length.h"

enum { MIB = 1 << 20, LARGEST_BYTES = 64 << 20, COMM_BYTES_MAX = 16 << 20 };

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != KOLO_OK) {                                                                   \
            fprintf(stderr, "%s: %s\n", #call, kolo_error_detail());                               \
            return KOLO_ERR_INTERNAL;                                                              \
        }                                                                                          \
    } while (0)

static int complain(const char *what, double got, double most)
{
    if (got > most)
        fprintf(stderr, "FAIL: %s: %.3f, at most %.3f\n", what, got, most);
    return got > most;
}

/* ---- what the kernel reports ---- */

struct taken {
    double pss_mib, file_mib, rss_mib; /* file_mib is the part of pss_mib that belongs to files */
    int maps, fds;
};

/** The value of a line like "Pss: 123 kB". */
static double field_mib(const char *line, const char *name, double otherwise)
{
    size_t len = strlen(name);
    return strncmp(line, name, len) == 0 ? strtod(line + len, NULL) / 1024 : otherwise;
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int lines = 0, c;
    while (file && (c = getc(file)) != EOF)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

static int count_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static struct taken look(void)
{
    struct taken taken = {.maps = count_lines("/proc/self/maps"), .fds = count_fds()};
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file)) {
        taken.pss_mib = field_mib(line, "Pss:", taken.pss_mib);
        taken.file_mib = field_mib(line, "Pss_File:", taken.file_mib);
        taken.rss_mib = field_mib(line, "Rss:", taken.rss_mib);
    }
    if (file)
        fclose(file);
    taken.pss_mib -= taken.file_mib; /* zero before Linux 5.4, which does not report it */
    return taken;
}

static double cpu_ms(int who)
{
    struct rusage usage;
    if (getrusage(who, &usage) != 0)
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static void pause_ms(long ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&span, NULL);
}

static int rounds(int few, int many)
{
    return test_is_long() ? many : few;
}

/* ---- memory ---- */

struct buffers {
    void *send, *recv;
};

/** Makes some calls of every length, in all the ways that lengths can take. */
static kolo_status use(struct kolo_comm *comm, const struct buffers *buffers, size_t most)
{
    for (size_t bytes = 4; bytes <= most; bytes *= 4)
        for (int i = 0; i < 3; i++)
            TRY(kolo_allreduce(comm, buffers->send, buffers->recv, bytes / 4, KOLO_FLOAT32,
                               KOLO_SUM, NULL, NULL));
    TRY(kolo_allreduce(comm, buffers->send, buffers->recv, most / 4, KOLO_FLOAT32, KOLO_SUM, NULL,
                       NULL));
    return kolo_barrier(comm, NULL, NULL);
}

/** All ranks measure at the same time, while none of them is in a call; returns the mean. */
static kolo_status look_together(struct kolo_comm *comm, struct taken *taken, double *mean_out)
{
    double sum;
    TRY(kolo_barrier(comm, NULL, NULL));
    *taken = look();
    sum = taken->pss_mib;
    TRY(kolo_allreduce(comm, &sum, &sum, 1, KOLO_FLOAT64, KOLO_SUM, NULL, NULL));
    *mean_out = sum / kolo_size(comm);
    return KOLO_OK;
}

static void report(struct kolo_comm *comm, const char *what, double mean, const struct taken *taken)
{
    if (kolo_rank(comm) == 0)
        printf("%-40s PSS %8.2f MiB (mean of ranks), rank 0: RSS %8.2f MiB, %d maps, %d fds\n",
               what, mean, taken->rss_mib, taken->maps, taken->fds);
}

/** The world, then duplicates of it, each of which may add COMM_BYTES_MAX. */
static kolo_status grow(struct kolo_comm *world, const struct buffers *buffers, const char *what,
                        double before, int *failures)
{
    struct kolo_comm *more[3] = {world};
    struct taken taken;
    double mean;
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            TRY(kolo_dup(world, NULL, &more[i]));
        TRY(use(more[i], buffers, LARGEST_BYTES));
        TRY(look_together(world, &taken, &mean));
        report(world, what, mean, &taken);
        *failures += complain(what, mean - before, COMM_BYTES_MAX / MIB);
        before = mean;
    }
    for (int i = 1; i < 3; i++)
        TRY(kolo_finalize(more[i]));
    return KOLO_OK;
}

/** Communicators of one rank: their calls need no memory at all. */
static kolo_status alone(struct kolo_comm *world, const struct buffers *buffers, int *failures)
{
    enum { COMMS = 16 };
    struct kolo_comm *comms[COMMS];
    struct taken before, after;
    double mean, more;
    for (int i = 0; i < 2; i++) { /* what the world needs for the split is counted for the world */
        TRY(kolo_split(world, kolo_rank(world), 0, NULL, &comms[0]));
        TRY(kolo_finalize(comms[0]));
    }
    TRY(look_together(world, &before, &mean));
    for (int i = 0; i < COMMS; i++) {
        TRY(kolo_split(world, kolo_rank(world), 0, NULL, &comms[i]));
        TRY(use(comms[i], buffers, LARGEST_BYTES));
    }
    TRY(look_together(world, &after, &more));
    report(world, "16 communicators of one rank", more, &after);
    *failures += complain("MiB of a communicator of one rank", (more - mean) / COMMS, 0.05);
    *failures += complain("maps of 16 of one rank", after.maps - before.maps, 2);
    *failures += complain("fds of 16 of one rank", after.fds - before.fds, 0);
    for (int i = 0; i < COMMS; i++)
        TRY(kolo_finalize(comms[i]));
    return KOLO_OK;
}

static kolo_status with_buffers(struct kolo_comm *world, bool is_shared, double bare, int *failures)
{
    const double both = 2.0 * LARGEST_BYTES / MIB;
    struct buffers buffers;
    if (is_shared) {
        TRY(kolo_alloc(world, LARGEST_BYTES, &buffers.send));
        TRY(kolo_alloc(world, LARGEST_BYTES, &buffers.recv));
    } else {
        void *memory = mmap(NULL, 2 * (size_t)LARGEST_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return KOLO_ERR_NO_MEMORY;
        buffers = (struct buffers){memory, (char *)memory + LARGEST_BYTES};
    }
    memset(buffers.send, 0, LARGEST_BYTES);
    memset(buffers.recv, 0, LARGEST_BYTES);
    TRY(grow(world, &buffers, is_shared ? "with kolo_alloc memory" : "with the user's memory",
             bare + both, failures));
    TRY(alone(world, &buffers, failures));
    if (is_shared) {
        TRY(kolo_free(world, buffers.send));
        TRY(kolo_free(world, buffers.recv));
    } else {
        (void)munmap(buffers.send, 2 * (size_t)LARGEST_BYTES);
    }
    return KOLO_OK;
}

static kolo_status memory(struct kolo_comm *world, double bare, int *failures)
{
    struct taken taken;
    double mean;
    TRY(look_together(world, &taken, &mean));
    report(world, "after kolo_init", mean, &taken);
    if (kolo_rank(world) == 0)
        printf("%-40s PSS %8.2f MiB (rank 0)\n", "before kolo_init", bare);
    TRY(with_buffers(world, false, bare, failures));
    TRY(with_buffers(world, true, bare, failures));
    return KOLO_OK;
}

/* ---- waiting ---- */

enum { WAIT_MS = 1000, ATTEMPTS = 3 };
static const double wait_ms_max = 20, idle_ms_max = 2;

/** Rank 0 is late by a second: measures the processor time of the others. */
static kolo_status wait_once(struct kolo_comm *comm, int who, const char *name, float *data,
                             size_t count, double *used_out)
{
    TRY(kolo_allreduce(comm, data, data, count, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    TRY(kolo_barrier(comm, NULL, NULL));
    double before = cpu_ms(who);
    if (kolo_rank(comm) == 0)
        pause_ms(WAIT_MS);
    double late = kolo_rank(comm) == 0 ? before : 0;
    TRY(kolo_allreduce(comm, data, data, count, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    *used_out = cpu_ms(who) - before;
    printf("rank %d of %d: %s: %.3f ms of processor time%s\n", kolo_rank(comm), kolo_size(comm),
           name, *used_out, late > 0 ? " (the late one)" : "");
    return KOLO_OK;
}

static kolo_status idle_once(struct kolo_comm *comm, int who, const char *name, float *data,
                             size_t count, double *used_out)
{
    (void)data;
    (void)count;
    TRY(kolo_barrier(comm, NULL, NULL));
    double before = cpu_ms(who);
    pause_ms(WAIT_MS);
    *used_out = cpu_ms(who) - before;
    printf("rank %d of %d: %s: %.3f ms of processor time\n", kolo_rank(comm), kolo_size(comm), name,
           *used_out);
    return KOLO_OK;
}

/** The system counts more when other processes compete for the processors. What keeps a rank busy
 * does so in every attempt, so the test fails only if every attempt exceeds the limit. */
static kolo_status hold(struct kolo_comm *comm, int who, const char *name, size_t count,
                        double most,
                        kolo_status (*once)(struct kolo_comm *comm, int who, const char *name,
                                            float *data, size_t count, double *used_out),
                        int *failures)
{
    float *data = calloc(count + 1, sizeof *data);
    double used = 0;
    if (!data)
        return KOLO_ERR_NO_MEMORY;
    for (int i = 0; i < ATTEMPTS; i++) {
        int32_t is_over = 0;
        TRY(once(comm, who, name, data, count, &used));
        is_over = used > most;
        TRY(kolo_allreduce(comm, &is_over, &is_over, 1, KOLO_INT32, KOLO_MAX, NULL, NULL));
        if (!is_over)
            break;
    }
    free(data);
    *failures += complain(name, used, most);
    return KOLO_OK;
}

static kolo_status wait_and_idle(struct kolo_comm *comm, int who, int *failures)
{
    TRY(hold(comm, who, "an allreduce of 4 bytes waits a second", 1, wait_ms_max, wait_once,
             failures));
    TRY(hold(comm, who, "an allreduce of 256 KiB waits a second", 65536, wait_ms_max, wait_once,
             failures));
    TRY(hold(comm, who, "idle for a second", 0, idle_ms_max, idle_once, failures));
    return KOLO_OK;
}

static kolo_status thread_waits(struct kolo_comm *comm, void *argument)
{
    int failures = 0;
    (void)argument;
    TRY(wait_and_idle(comm, RUSAGE_THREAD, &failures));
    return failures == 0 ? KOLO_OK : KOLO_ERR_INTERNAL;
}

/* ---- repeated ---- */

/** What exists after this many repetitions must have existed after a few. */
static int nothing_stays(struct taken before, const char *what, int times)
{
    struct taken after = look();
    printf("%d times %s: PSS %.2f to %.2f MiB, %d to %d maps, %d to %d fds\n", times, what,
           before.pss_mib, after.pss_mib, before.maps, after.maps, before.fds, after.fds);
    return complain("MiB more", after.pss_mib - before.pss_mib, 1.0) +
           complain("maps more", after.maps - before.maps, 4) +
           complain("fds more", after.fds - before.fds, 0);
}

static kolo_status alloc_once(struct kolo_comm *comm, int time)
{
    struct buffers buffers;
    size_t bytes = (size_t)(1 + time % 7) * 9000;
    TRY(kolo_alloc(comm, bytes, &buffers.send));
    TRY(kolo_alloc(comm, bytes, &buffers.recv));
    TRY(kolo_allreduce(comm, buffers.send, buffers.recv, bytes / 4, KOLO_FLOAT32, KOLO_SUM, NULL,
                       NULL));
    TRY(kolo_free(comm, time % 2 != 0 ? buffers.send : buffers.recv));
    TRY(kolo_free(comm, time % 2 != 0 ? buffers.recv : buffers.send));
    return KOLO_OK;
}

static kolo_status dup_once(struct kolo_comm *comm, int time)
{
    static char memory[2][70000];
    struct buffers buffers = {memory[0], memory[1]};
    struct kolo_comm *more = NULL;
    TRY(kolo_dup(comm, NULL, &more));
    if (time % 3 != 0)
        TRY(use(more, &buffers, time % 3 == 1 ? 16 : 65536));
    return kolo_finalize(more);
}

static kolo_status dup_unused(struct kolo_comm *comm, int time)
{
    struct kolo_comm *more = NULL;
    (void)time;
    TRY(kolo_dup(comm, NULL, &more));
    return kolo_finalize(more);
}

static kolo_status repeat(struct kolo_comm *comm, const char *what, int times,
                          kolo_status (*once)(struct kolo_comm *comm, int time), int *failures)
{
    enum { BEFORE = 60 };
    struct taken before = {0};
    for (int time = 0; time < BEFORE + times; time++) {
        if (time == BEFORE) {
            TRY(kolo_barrier(comm, NULL, NULL));
            before = look();
            TRY(kolo_barrier(comm, NULL, NULL));
        }
        TRY(once(comm, time));
    }
    TRY(kolo_barrier(comm, NULL, NULL));
    *failures += nothing_stays(before, what, times);
    return kolo_barrier(comm, NULL, NULL);
}

static kolo_status a_little(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    return alloc_once(comm, kolo_rank(comm) % 1);
}

static kolo_status worlds(struct kolo_comm *unused, int time)
{
    struct kolo_comm *comm = NULL;
    (void)unused;
    TRY(kolo_run_threads(2 + time % 2, NULL, a_little, NULL));
    TRY(kolo_init(NULL, &comm));
    TRY(a_little(comm, NULL));
    return kolo_finalize(comm);
}

static int again(void)
{
    enum { BEFORE = 5 };
    int times = rounds(20, 200);
    struct taken before = {0};
    for (int time = 0; time < BEFORE + times; time++) {
        if (time == BEFORE)
            before = look();
        if (worlds(NULL, time) != KOLO_OK)
            return 1;
    }
    return nothing_stays(before, "two worlds", times);
}

/* ---- */

static kolo_status run(struct kolo_comm *comm, const char *mode, double bare, int *failures)
{
    if (strcmp(mode, "memory") == 0)
        return memory(comm, bare, failures);
    if (strcmp(mode, "wait") == 0)
        return wait_and_idle(comm, RUSAGE_SELF, failures);
    if (strcmp(mode, "alloc") == 0)
        return repeat(comm, "kolo_alloc", rounds(300, 10000), alloc_once, failures);
    if (strcmp(mode, "dup") == 0) {
        TRY(repeat(comm, "kolo_dup alone", 10000, dup_unused, failures));
        return repeat(comm, "kolo_dup", rounds(300, 10000), dup_once, failures);
    }
    if (strcmp(mode, "start") == 0)
        return kolo_barrier(comm, NULL, NULL);
    fprintf(stderr, "no mode %s\n", mode);
    return KOLO_ERR_INVALID;
}

int main(int argc, char **argv)
{
    struct kolo_comm *comm = NULL;
    int failures = 0;
    const char *mode = argc == 2 ? argv[1] : "";
    double bare = look().pss_mib;
    if (bare == 0) {
        printf("no /proc/self/smaps_rollup here\n");
        return 77;
    }
    if (strcmp(mode, "wait-threads") == 0)
        return kolo_run_threads(8, NULL, thread_waits, NULL) == KOLO_OK ? 0 : 1;
    if (strcmp(mode, "again") == 0)
        return again() != 0;
    if (kolo_init(NULL, &comm) != KOLO_OK || run(comm, mode, bare, &failures) != KOLO_OK) {
        fprintf(stderr, "%s\n", kolo_error_detail());
        return 1;
    }
    if (kolo_finalize(comm) != KOLO_OK)
        failures++;
    return failures != 0;
}
