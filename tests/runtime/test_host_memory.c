// SPDX-License-Identifier: Apache-2.0
// runtime/host_memory.c: kolo_free while a stream is held, and memory that is kept for later
// allocations. Which memory is refused, and which is kept, is in memory/test_heap.c and
// runtime/test_comm.c.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory/held.h"
#include "memory/memory.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

enum { COUNT = 100, BYTES = COUNT * 4, LENGTH = 3 << 16 };

static const struct mock_cuda *mock;

static void begin(void)
{
    mock = mock_cuda_load();
    mock->begin();
    mock->set_current(0);
}

/** It is freed for the program, but stays locked, and another allocation gets it. */
static kolo_status free_while_held(struct kolo_comm *comm, unsigned char *memory)
{
    void *again = NULL, *other = NULL;
    const int before = mock->registered();
    memset(memory, 7, LENGTH);
    WORLD_TRY(kolo_free(comm, memory));
    WORLD_EXPECT(mock->registered() == before, "it is unlocked while a stream is held");
    WORLD_EXPECT(kolo_free(comm, memory) == KOLO_ERR_INVALID, "it was freed before");
    WORLD_EXPECT(kolo_free(comm, memory + 1) == KOLO_ERR_INVALID, "it is no start");
    WORLD_TRY(kolo_alloc(comm, 2 * LENGTH, &other));
    WORLD_TRY(kolo_alloc(comm, LENGTH, &again));
    WORLD_EXPECT(again == memory && memory[0] == 0 && memory[LENGTH - 1] == 0, "not the same");
    WORLD_TRY(kolo_free(comm, other));
    return kolo_free(comm, again);
}

/** The stream of rank 0 waits for a call that rank 1 makes only after kolo_free. */
static kolo_status free_before_the_call(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm);
    const struct kolo_opts opts = {.size = sizeof opts, .stream = rank == 0 ? argument : NULL};
    struct kolo_request *request = NULL;
    int32_t one = 1, sum = 0;
    struct kolo_span span;
    void *on_device = mock->alloc(MOCK_DEVICE, 0, BYTES), *memory = NULL;
    mock->set_current(0);
    WORLD_TRY(kolo_alloc(comm, LENGTH, &memory));
    WORLD_TRY(kolo_allreduce(comm, on_device, on_device, COUNT, KOLO_INT32, KOLO_SUM, NULL, NULL));
    if (rank == 0) {
        WORLD_TRY(kolo_free(comm, memory)); /* now, since nothing is held */
        WORLD_TRY(kolo_allreduce(comm, &one, &sum, 1, KOLO_INT32, KOLO_SUM, &opts, &request));
        WORLD_TRY(kolo_send(comm, &one, 1, KOLO_INT32, 1, NULL, NULL));
        WORLD_TRY(kolo_wait(&request, -1));
    } else {
        WORLD_TRY(kolo_recv(comm, &one, 1, KOLO_INT32, 0, NULL, NULL));
        WORLD_EXPECT(kolo_none_held_begin(NULL, 0, NULL) == KOLO_AGAIN, "nothing is held");
        WORLD_TRY(free_while_held(comm, memory));
        WORLD_TRY(kolo_allreduce(comm, &one, &sum, 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
        WORLD_EXPECT(AWAIT(!kolo_heap_find(comm->engine->heap, memory, 1, &span)), "still there");
    }
    WORLD_EXPECT(sum == 2, "%d", sum);
    return kolo_barrier(comm, NULL, NULL);
}

Test(host_memory, is_freed_after_a_stream_that_waits_for_the_rank_that_frees, .timeout = 120)
{
    struct world world = {.size = 2, .transport = "inproc", .settings = {"KOLO_TIMEOUT=30s", NULL}};
    begin();
    WORLD_MUST_RUN(&world, free_before_the_call, mock->stream(0));
    cr_assert_eq(mock->registered(), 0);
}

/** What is still aside when the rank ends goes with its heap. */
static kolo_status end_with_some_aside(struct kolo_comm *comm, void *argument)
{
    void *memory = NULL;
    (void)argument;
    mock->set_current(0);
    WORLD_TRY(kolo_alloc(comm, LENGTH, &memory));
    WORLD_EXPECT(kolo_held_begin(&mock, 0) == KOLO_OK, "a call is made");
    const kolo_status status = kolo_free(comm, memory);
    WORLD_EXPECT(kolo_heap_has_aside(comm->engine->heap) && mock->registered() == 1, "none");
    return status;
}

Test(host_memory, aside_at_the_end_is_freed_with_the_rank, .timeout = 60)
{
    struct world world = {.size = 1, .transport = "inproc"};
    begin();
    WORLD_MUST_RUN(&world, end_with_some_aside, NULL);
    kolo_held_end(&mock);
    cr_assert_eq(mock->registered(), 0);
}

/** A later kolo_free frees it too. */
static kolo_status free_another(struct kolo_comm *comm, void *argument)
{
    void *memory = NULL, *other = NULL;
    (void)argument;
    WORLD_TRY(kolo_alloc(comm, LENGTH, &memory));
    WORLD_TRY(kolo_alloc(comm, LENGTH, &other));
    WORLD_TRY(kolo_heap_put_aside(comm->engine->heap, memory)); /* as without a tidying thread */
    WORLD_TRY(kolo_free(comm, other));
    WORLD_EXPECT(!kolo_heap_has_aside(comm->engine->heap), "it stays aside");
    return KOLO_OK;
}

Test(host_memory, aside_is_freed_by_a_later_free, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, free_another, NULL);
}

static pthread_barrier_t step;

/** Rank 1 leaves after it has made rank 0's call fail, so what rank 0 tells it of the freed memory
 * does not arrive. */
static kolo_status free_after_a_failure(struct kolo_comm *comm, void *argument)
{
    enum { SPAN = 1 << 20 };
    char why[KOLO_DETAIL_MAX];
    void *memory;
    (void)argument;
    WORLD_TRY(kolo_alloc(comm, SPAN, &memory));
    WORLD_TRY(kolo_broadcast(comm, memory, SPAN, KOLO_UINT8, 0, NULL, NULL));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 1) {
        kolo_abort(comm, "the file is bad");
        pthread_barrier_wait(&step); /* rank 0 knows */
        const kolo_status left = kolo_finalize(comm);
        pthread_barrier_wait(&step);
        return left;
    }
    const kolo_status status = kolo_recv(comm, memory, SPAN, KOLO_UINT8, 1, NULL, NULL);
    snprintf(why, sizeof why, "%s", kolo_error_detail());
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step); /* rank 1 has left */
    const kolo_status freed = kolo_free(comm, memory);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED && freed == KOLO_OK, "%s, %s", kolo_status_name(status),
                 kolo_status_name(freed));
    if (strcmp(kolo_error_detail(), why) != 0)
        snprintf(why, sizeof why, "%s", kolo_error_detail());
    WORLD_EXPECT(strstr(why, "the file is bad") != NULL, "replaced by: %s", why);
    return KOLO_OK;
}

Test(host_memory, what_is_freed_does_not_replace_the_detail_of_a_failure, .timeout = 60)
{
    struct world world = {.size = 2, .transport = "shm"};
    pthread_barrier_init(&step, NULL, 2);
    WORLD_MUST_RUN(&world, free_after_a_failure, NULL);
    pthread_barrier_destroy(&step);
}

/* ---- kept ---- */

/** What it returns is zeroed, whatever was there before. */
static kolo_status take_zeroed(struct kolo_comm *comm, size_t bytes, int32_t **memory_out)
{
    void *memory = NULL;
    WORLD_TRY(kolo_alloc(comm, bytes, &memory));
    const char *at = memory;
    WORLD_EXPECT(at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0, "not zeroed");
    *memory_out = memory;
    return KOLO_OK;
}

/** Adds up the ranks' vectors, which are others in each round, from memory that is freed at once,
 * and which the neighbours have read and written in place. */
static kolo_status sum_once(struct kolo_comm *comm, int round, size_t bytes, int32_t **memory)
{
    const int32_t size = kolo_size(comm), mine = round * size + kolo_rank(comm);
    const int32_t all = round * size * size + size * (size - 1) / 2;
    for (int i = 0; i < 2; i++)
        WORLD_TRY(take_zeroed(comm, bytes, &memory[i]));
    for (size_t i = 0; i < bytes / 4; i++)
        memory[0][i] = mine;
    WORLD_TRY(
        kolo_allreduce(comm, memory[0], memory[1], bytes / 4, KOLO_INT32, KOLO_SUM, NULL, NULL));
    for (size_t i = 0; i < bytes / 4; i++)
        WORLD_EXPECT(memory[0][i] == mine && memory[1][i] == all, "[%zu] is %d", i, memory[1][i]);
    WORLD_TRY(kolo_free(comm, memory[round % 2]));
    return kolo_free(comm, memory[1 - round % 2]);
}

static kolo_status sum_in_a_loop(struct kolo_comm *comm, void *argument)
{
    static const size_t lengths[] = {16, 4096, 5000, 1 << 16, 3 << 18, 1 << 20};
    (void)argument;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int32_t *before[2], *memory[2];
        WORLD_TRY(sum_once(comm, 0, lengths[i], before));
        for (int round = 1; round < 30; round++) {
            WORLD_TRY(sum_once(comm, round, lengths[i], memory));
            for (int k = 0; k < 2; k++)
                WORLD_EXPECT(memory[k] == before[0] || memory[k] == before[1], "fresh memory");
        }
    }
    return KOLO_OK;
}

ParameterizedTestParameters(host_memory, is_used_again_in_a_loop)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}

ParameterizedTest(struct world_param *param, host_memory, is_used_again_in_a_loop, .timeout = 120)
{
    struct world world = {.size = 3, .transport = param->name};
    WORLD_MUST_RUN(&world, sum_in_a_loop, NULL);
}

/** A rank that is never waited for frees and allocates while the others still read their inputs,
 * which come from it. */
static kolo_status run_ahead(struct kolo_comm *comm, void *argument)
{
    enum { ROUNDS = 200, WORDS = 1 << 14 };
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int32_t *memory = NULL;
        WORLD_TRY(take_zeroed(comm, WORDS * 4, &memory));
        for (int i = 0; kolo_rank(comm) == 0 && i < WORDS; i++)
            memory[i] = round + i;
        WORLD_TRY(kolo_broadcast(comm, memory, WORDS, KOLO_INT32, 0, NULL, NULL));
        for (int i = 0; i < WORDS; i++)
            WORLD_EXPECT(memory[i] == round + i, "round %d: [%d] is %d", round, i, memory[i]);
        WORLD_TRY(kolo_free(comm, memory));
    }
    return KOLO_OK;
}

ParameterizedTestParameters(host_memory, is_not_used_again_too_early)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}

ParameterizedTest(struct world_param *param, host_memory, is_not_used_again_too_early,
                  .timeout = 120)
{
    struct world world = {.size = 4, .transport = param->name};
    WORLD_MUST_RUN(&world, run_ahead, NULL);
}

/** With no descriptor left, what is kept makes room for what is allocated. */
static kolo_status allocate_without_descriptors(struct kolo_comm *comm, void *argument)
{
    enum { KEPT = 3, MOST = 4096 };
    static int files[MOST];
    struct rlimit limit;
    void *memory[KEPT + 1];
    int count = 0;
    (void)argument;
    for (int i = 0; i < KEPT; i++)
        WORLD_TRY(kolo_alloc(comm, BYTES, &memory[i]));
    for (int i = 0; i < KEPT; i++)
        WORLD_TRY(kolo_free(comm, memory[i]));
    WORLD_EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
    const struct rlimit few = {.rlim_cur = MOST, .rlim_max = limit.rlim_max};
    WORLD_EXPECT(limit.rlim_cur <= MOST || setrlimit(RLIMIT_NOFILE, &few) == 0, "no limit");
    while (count < MOST && (files[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    for (int i = 0; i < KEPT; i++)
        WORLD_TRY(kolo_alloc(comm, LENGTH, &memory[i]));
    WORLD_EXPECT(kolo_error_detail()[0] == '\0', "a detail is left: %s", kolo_error_detail());
    WORLD_EXPECT(kolo_alloc(comm, LENGTH, &memory[KEPT]) == KOLO_ERR_SYSTEM, "too many");
    while (count > 0)
        (void)close(files[--count]);
    for (int i = 0; i < KEPT; i++)
        WORLD_TRY(kolo_free(comm, memory[i]));
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? KOLO_OK : KOLO_ERR_SYSTEM;
}

Test(host_memory, what_is_kept_makes_no_allocation_fail, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, allocate_without_descriptors, NULL);
}

/** What may be locked for devices is not kept: the driver would have to be called when it goes. */
static kolo_status free_beside_devices(struct kolo_comm *comm, void *argument)
{
    struct kolo_heap *heap = comm->engine->heap;
    void *memory = NULL;
    (void)argument;
    WORLD_TRY(kolo_alloc(comm, LENGTH, &memory));
    WORLD_TRY(kolo_free(comm, memory));
    begin();
    for (int is_current = 1; is_current >= 0; is_current--) {
        mock->set_current(is_current - 1);
        WORLD_TRY(kolo_alloc(comm, LENGTH, &memory)); /* not what was kept before, unlocked */
        WORLD_EXPECT(mock->registered() == is_current, "%d are locked", mock->registered());
        WORLD_TRY(kolo_free(comm, memory));
        WORLD_EXPECT(mock->registered() == 0, "it is locked");
        WORLD_EXPECT(kolo_heap_drop_kept(heap, NULL, NULL) == is_current, "it is kept");
    }
    return KOLO_OK;
}

Test(host_memory, is_not_kept_beside_devices, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, free_beside_devices, NULL);
    cr_assert_eq(mock->registered(), 0);
}
