// SPDX-License-Identifier: Apache-2.0
// runtime/host_memory.c: kolo_free while a stream is held. Which memory is refused, and use without
// devices, are in memory/test_heap.c and runtime/test_comm.c.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

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
