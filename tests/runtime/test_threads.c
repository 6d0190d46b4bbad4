// SPDX-License-Identifier: Apache-2.0
// kolo_run_threads: results, many ranks, and failing allocations: whichever one fails, every rank
// ends with a status, and nothing hangs or leaks (ASan).
#include <criterion/criterion.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tests/support/await.h"
#include "tests/support/signal_masks.h"
#include "tests/support/world.h"

static kolo_status fail_on_two(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) >= 2)
        return kolo_fail(KOLO_ERR_DATA, "rank %d found a bad file", kolo_rank(comm));
    return status;
}

Test(threads, lowest_failure_wins, .timeout = 120)
{
    kolo_status status = kolo_run_threads(4, NULL, fail_on_two, NULL);
    cr_assert(status == KOLO_ERR_DATA, "%s", kolo_status_name(status));
    cr_assert(strcmp(kolo_error_detail(), "rank 2 found a bad file") == 0, "%s",
              kolo_error_detail());
}

/** Returns a status of its own after a call that succeeded, while the others leave: their goodbyes
 * may reach it during that call. */
static kolo_status fail_without_a_word(struct kolo_comm *comm, void *argument)
{
    int32_t one = 1;
    kolo_status status = kolo_allreduce(comm, &one, &one, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
    WORLD_EXPECT(status == KOLO_OK, "%s", kolo_error_detail());
    return kolo_rank(comm) == 1 ? *(kolo_status *)argument : KOLO_OK;
}

Test(threads, a_status_without_a_detail_is_said_to_be_the_functions, .timeout = 120)
{
    enum { REPEATS = 50 };
    for (int i = 0; i < REPEATS; i++) {
        kolo_status own = i % 2 == 0 ? KOLO_ERR_DATA : KOLO_AGAIN;
        kolo_status status = kolo_run_threads(4, NULL, fail_without_a_word, &own);
        const char *expected = i % 2 == 0 ? "rank 1's function returned KOLO_ERR_DATA"
                                          : "rank 1's function returned KOLO_AGAIN";
        cr_assert(status == own, "%s", kolo_status_name(status));
        cr_assert(strcmp(kolo_error_detail(), expected) == 0, "%s", kolo_error_detail());
    }
}

/** One rank cannot go on; the others wait for it, or learn of its abort. */
static kolo_status leave_the_others(struct kolo_comm *comm, void *argument)
{
    if (kolo_rank(comm) != 3)
        return kolo_barrier(comm, NULL, NULL);
    if (*(bool *)argument)
        kolo_abort(comm, "a bad file");
    return kolo_fail(KOLO_ERR_DATA, "rank 3 found a bad file");
}

Test(threads, what_others_suffer_from_it_does_not_hide_the_cause, .timeout = 120)
{
    for (int i = 0; i < 2; i++) {
        bool aborts = i > 0;
        kolo_status status = kolo_run_threads(4, NULL, leave_the_others, &aborts);
        cr_assert(status == KOLO_ERR_DATA, "%s", kolo_status_name(status));
        cr_assert(strcmp(kolo_error_detail(), "rank 3 found a bad file") == 0, "%s",
                  kolo_error_detail());
    }
}

/** Some ranks call kolo_finalize themselves, as in a program that kolorun starts. */
static kolo_status finalize_on_odd(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) % 2 == 1)
        status = kolo_finalize(comm);
    return status;
}

Test(threads, a_function_may_finalize_its_communicator, .timeout = 120)
{
    kolo_status status = kolo_run_threads(4, NULL, finalize_on_odd, NULL);
    cr_assert(status == KOLO_OK, "%s: %s", kolo_status_name(status), kolo_error_detail());
}

static atomic_bool has_gone;

/** Runs at the end of the thread that was rank 1. */
static void note_end(void *value)
{
    (void)value;
    atomic_store(&has_gone, true);
}

/** Rank 1 has come and gone before any other rank has a link to it. */
static kolo_status miss_one(struct kolo_comm *comm, void *argument)
{
    pthread_key_t *at_end = argument;
    if (kolo_rank(comm) == 1)
        return pthread_setspecific(*at_end, comm) == 0 ? KOLO_OK : KOLO_ERR_SYSTEM;
    WORLD_EXPECT(AWAIT(atomic_load(&has_gone)), "rank 1 has not gone");
    const kolo_status status = kolo_barrier(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_PEER && strstr(kolo_error_detail(), "rank 1"), "%s: %s",
                 kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

Test(threads, a_rank_that_has_left_is_a_peer_that_is_lost, .timeout = 120)
{
    struct world world = {.size = 2};
    pthread_key_t at_end;
    cr_assert(pthread_key_create(&at_end, note_end) == 0);
    WORLD_MUST_RUN(&world, miss_one, &at_end);
}

static kolo_status look_at_masks(struct kolo_comm *comm, void *argument)
{
    const struct signal_masks *before = argument;
    const int size = kolo_size(comm), rank = kolo_rank(comm);
    struct kolo_request *request = NULL;
    int got, sent = rank;
    WORLD_TRY(kolo_recv(comm, &got, 1, KOLO_INT32, (rank + 1) % size, NULL, &request));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(kolo_send(comm, &sent, 1, KOLO_INT32, (rank + size - 1) % size, NULL, NULL));
    WORLD_TRY(kolo_wait(&request, -1));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    const struct signal_masks masks = signal_masks_of(SIGUSR1);
    WORLD_EXPECT(masks.threads == before->threads + 2 * size + 1, "%d threads after %d",
                 masks.threads, before->threads);
    WORLD_EXPECT(masks.taking == before->taking + size, "%d threads take it, after %d",
                 masks.taking, before->taking);
    return kolo_barrier(comm, NULL, NULL);
}

/** Of the threads of ranks, of progress and of the store only the first run the program's code. */
Test(threads, signals_come_to_threads_of_the_program_only, .timeout = 120)
{
    struct signal_masks before = signal_masks_of(SIGUSR1);
    struct world world = {.size = 3};
    WORLD_MUST_RUN(&world, look_at_masks, &before);
}

static kolo_status never(struct kolo_comm *comm, void *argument)
{
    (void)comm;
    *(bool *)argument = true;
    return KOLO_OK;
}

static kolo_status end_the_thread(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    const kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == 1)
        pthread_exit(NULL);
    return status;
}

/** Its communicator is finalized all the same (LeakSanitizer watches). */
Test(threads, a_function_that_ends_its_thread_is_named, .timeout = 60)
{
    const kolo_status status = kolo_run_threads(3, NULL, end_the_thread, NULL);
    cr_assert(status == KOLO_ERR_INVALID, "%s", kolo_status_name(status));
    cr_assert_str_eq(kolo_error_detail(), "rank 1's function has ended its thread (pthread_exit) "
                                          "instead of returning");
}

Test(threads, bad_arguments, .timeout = 120)
{
    bool was_called = false;
    const char *unknown[] = {"KOLO_TIMEOUTS=3", NULL}, *bad[] = {"KOLO_TIMEOUT=soon", NULL};
    const char *transport[] = {"KOLO_TRANSPORT=pigeon", NULL}, *no_value[] = {"KOLO_TIMEOUT", NULL};
    const char *const *settings[] = {unknown, bad, transport, no_value};
    const char *named[] = {"KOLO_TIMEOUT", "soon", "pigeon", "NAME=value"};
    cr_assert(kolo_run_threads(0, NULL, never, &was_called) == KOLO_ERR_INVALID);
    cr_assert(kolo_run_threads(-1, NULL, never, &was_called) == KOLO_ERR_INVALID);
    cr_assert(kolo_run_threads(2, NULL, NULL, NULL) == KOLO_ERR_INVALID);
    struct kolo_config config = {.size = 1};
    cr_assert(kolo_run_threads(2, &config, never, &was_called) == KOLO_ERR_INVALID);
    config.size = sizeof config;
    for (int i = 0; i < 4; i++) {
        config.settings = settings[i];
        kolo_status status = kolo_run_threads(2, &config, never, &was_called);
        cr_assert(status == KOLO_ERR_CONFIG, "%s: %s: %s", settings[i][0], kolo_status_name(status),
                  kolo_error_detail());
        cr_assert(strstr(kolo_error_detail(), named[i]) != NULL, "%s", kolo_error_detail());
    }
    cr_assert(!was_called, "a rank ran all the same");
}

static int complaints;

static void count_complaints(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    complaints += level == KOLO_LOG_WARN && strstr(line, "KOLO_TIMELINE=fd://99 is for a rank") &&
                  strstr(line, "give KOLO_TIMELINE=FILE");
}

static kolo_status succeed(struct kolo_comm *comm, void *argument)
{
    (void)comm;
    (void)argument;
    return KOLO_OK;
}

/* A descriptor set by hand is invalid, and the error says so; one that kolorun passed to this
 * process is not for these ranks. */
Test(threads, a_descriptor_for_a_timeline_is_named, .timeout = 120)
{
    const char *given[] = {"KOLO_TIMELINE=fd://99", "KOLO_LAUNCHER=kolorun", NULL};
    const char *by_hand[] = {"KOLO_TIMELINE=fd://99", NULL};
    struct kolo_config config = {.size = sizeof config, .settings = given};
    kolo_log_set_sink(count_complaints, NULL);
    cr_assert(kolo_run_threads(2, &config, succeed, NULL) == KOLO_OK && complaints == 0);
    config.settings = by_hand;
    cr_assert(kolo_run_threads(2, &config, succeed, NULL) == KOLO_OK && complaints == 1, "%d lines",
              complaints);
    kolo_log_set_sink(NULL, NULL);
}

static kolo_status count_ranks(struct kolo_comm *comm, void *argument)
{
    int64_t one = 1;
    (void)argument;
    kolo_status status = kolo_allreduce(comm, &one, &one, 1, KOLO_INT64, KOLO_SUM, NULL, NULL);
    WORLD_EXPECT(status != KOLO_OK || one == kolo_size(comm), "%lld ranks", (long long)one);
    return status;
}

static void run_many(int nranks)
{
    struct rlimit limit;
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < 16384 ? limit.rlim_max : 16384;
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    const char *settings[] = {"KOLO_TRANSPORT=inproc", NULL};
    struct kolo_config config = {.size = sizeof config, .settings = settings};
    kolo_status status = kolo_run_threads(nranks, &config, count_ranks, NULL);
    cr_assert(status == KOLO_OK, "%s", kolo_error_detail());
}

Test(threads, two_hundred_ranks, .timeout = 100)
{
    run_many(200);
}

/** The peak memory of this process, which is the test's own because each test runs in one. */
static long peak_bytes(void)
{
    struct rusage usage;
    cr_assert(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss * 1024L;
}

/** The limit detects what each rank keeps per other rank: the table of ranks used to be 4 MB for
 * each. */
Test(threads, memory_of_a_thousand_ranks, .timeout = 200)
{
    const char *large = getenv("TEST_LARGE_WORLDS");
    if (large && strcmp(large, "0") == 0)
        cr_skip_test("a sanitizer's memory is not the ranks'");
    run_many(1000);
    cr_assert(peak_bytes() < 1000 * (1L << 20), "1000 ranks took %ld bytes", peak_bytes());
}

/* ---- failing allocations ---- */

static kolo_status a_bit_of_all(struct kolo_comm *comm, void *argument)
{
    float data[64] = {0}, all[256];
    size_t counts[4] = {5, 6, 7, 8};
    struct kolo_request *request = NULL;
    struct kolo_opts opts = {.size = sizeof opts, .name = "tensor"};
    kolo_status status;
    void *memory = NULL;
    int64_t sum;
    (void)argument;
    KOLO_TRY(kolo_allreduce(comm, data, data, 64, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    KOLO_TRY(kolo_allgatherv(comm, data, all, counts, NULL, KOLO_FLOAT32, &opts, &request));
    KOLO_TRY(kolo_wait(&request, -1));
    KOLO_TRY(kolo_kv_add(comm, "n", 1, &sum));
    KOLO_TRY(kolo_alloc(comm, 4096, &memory));
    KOLO_TRY(kolo_free(comm, memory));
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

/* Most of its time is spent waiting for a rank that is gone, so it is divided into parts that run
 * in parallel. */
enum { PARTS = 6 };

static void torture(const char *transport, int size, int part)
{
    struct world world = {
        .size = size,
        .transport = transport,
        .settings = {"KOLO_TIMEOUT=20", "KOLO_START_TIMEOUT=20", "KOLO_LOG=none"}};
    uint64_t before = kolo_alloc_count();
    cr_assert(world_run(&world, a_bit_of_all, NULL) == KOLO_OK, "%s", kolo_error_detail());
    uint64_t needed = kolo_alloc_count() - before;
    cr_assert(needed > 20, "only %lu allocations", (unsigned long)needed);
    int failed = 0, tried = 0;
    for (uint64_t nth = (uint64_t)part + 1; nth <= needed; nth += PARTS) {
        kolo_alloc_fail_nth(nth);
        kolo_status status = world_run(&world, a_bit_of_all, NULL);
        kolo_alloc_fail_nth(0);
        tried++;
        failed += status != KOLO_OK;
        cr_assert(status == KOLO_OK || kolo_error_detail()[0] != '\0',
                  "allocation %lu: %s without a word", (unsigned long)nth,
                  kolo_status_name(status));
    }
    cr_assert(failed > tried / 4, "only %d of %d failures were noticed", failed, tried);
}

#define TORTURE(transport, size, part)                                                             \
    Test(threads, any_allocation_fails_##transport##_##part, .timeout = 200)                       \
    {                                                                                              \
        torture(#transport, size, part);                                                           \
    }
#define TORTURES(transport, size)                                                                  \
    TORTURE(transport, size, 0)                                                                    \
    TORTURE(transport, size, 1)                                                                    \
    TORTURE(transport, size, 2)                                                                    \
    TORTURE(transport, size, 3)                                                                    \
    TORTURE(transport, size, 4)                                                                    \
    TORTURE(transport, size, 5)
TORTURES(inproc, 3)
TORTURES(shm, 2)
TORTURES(tcp, 2)
