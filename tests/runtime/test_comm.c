// SPDX-License-Identifier: Apache-2.0
// Misuse of the public calls: each returns ERR_INVALID with one line that names the function and
// the argument, nothing is sent, and the communicator still works afterwards, also if a child of
// fork() makes the call. Also kolo_alloc, and abort in a world of one.
#include <criterion/criterion.h>

#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm.h"
#include "tests/support/world.h"

/** Checks that @p status is ERR_INVALID and that the detail names @p function and @p argument. */
static kolo_status refused(kolo_status status, const char *function, const char *argument)
{
    const char *detail = kolo_error_detail();
    if (status == KOLO_ERR_INVALID && strstr(detail, function) == detail &&
        strstr(detail, argument) && !strchr(detail, '\n'))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INTERNAL, "%s with a bad %s: %s: %s", function, argument,
                     kolo_status_name(status), detail);
}

static kolo_status misuse_arguments(struct kolo_comm *comm)
{
    float a[8] = {0}, b[8] = {0};
    size_t huge = SIZE_MAX / 2;
    kolo_dtype f = KOLO_FLOAT32;
    kolo_status status;
    KOLO_TRY(
        refused(kolo_allreduce(NULL, a, b, 1, f, KOLO_SUM, NULL, NULL), "kolo_allreduce", "comm"));
    KOLO_TRY(refused(kolo_allreduce(comm, NULL, b, 1, f, KOLO_SUM, NULL, NULL), "kolo_allreduce",
                     "send"));
    KOLO_TRY(refused(kolo_allreduce(comm, a, NULL, 1, f, KOLO_SUM, NULL, NULL), "kolo_allreduce",
                     "recv"));
    KOLO_TRY(refused(kolo_allreduce(comm, a, b, huge, f, KOLO_SUM, NULL, NULL), "kolo_allreduce",
                     "count"));
    KOLO_TRY(refused(kolo_allreduce(comm, a, b, 1, (kolo_dtype)99, KOLO_SUM, NULL, NULL),
                     "kolo_allreduce", "dtype 99"));
    KOLO_TRY(refused(kolo_allreduce(comm, a, b, 1, (kolo_dtype)-1, KOLO_SUM, NULL, NULL),
                     "kolo_allreduce", "dtype -1"));
    KOLO_TRY(refused(kolo_allreduce(comm, a, b, 1, f, (kolo_redop)77, NULL, NULL), "kolo_allreduce",
                     "op 77"));
    KOLO_TRY(refused(kolo_allreduce(comm, a, a + 1, 4, f, KOLO_SUM, NULL, NULL), "kolo_allreduce",
                     "overlap"));
    KOLO_TRY(refused(kolo_reduce(comm, a, b, 1, f, KOLO_SUM, kolo_size(comm), NULL, NULL),
                     "kolo_reduce", "root"));
    KOLO_TRY(refused(kolo_broadcast(comm, a, 1, f, -1, NULL, NULL), "kolo_broadcast", "root -1"));
    KOLO_TRY(refused(kolo_broadcast(comm, NULL, 1, f, 0, NULL, NULL), "kolo_broadcast", "buffer"));
    KOLO_TRY(refused(kolo_allgather(comm, a, b, SIZE_MAX / 6, f, NULL, NULL), "kolo_allgather",
                     "count"));
    KOLO_TRY(refused(kolo_reduce_scatter(comm, a, a + 3, 2, f, KOLO_SUM, NULL, NULL),
                     "kolo_reduce_scatter", "overlap"));
    KOLO_TRY(refused(kolo_allgatherv(comm, a, b, NULL, NULL, f, NULL, NULL), "kolo_allgatherv",
                     "counts"));
    KOLO_TRY(refused(kolo_scatter(comm, NULL, NULL, 2, f, 0, NULL, NULL), "kolo_scatter", "NULL"));
    KOLO_TRY(refused(kolo_gather(comm, NULL, b, 2, f, 0, NULL, NULL), "kolo_gather", "send"));
    KOLO_TRY(refused(kolo_barrier(NULL, NULL, NULL), "kolo_barrier", "comm"));
    KOLO_TRY(refused(kolo_send(comm, a, 1, f, 5, NULL, NULL), "kolo_send", "peer 5"));
    KOLO_TRY(refused(kolo_recv(comm, a, 1, f, kolo_rank(comm), NULL, NULL), "kolo_recv",
                     "this rank itself"));
    KOLO_TRY(refused(kolo_recv(comm, NULL, 1, f, 1 - kolo_rank(comm), NULL, NULL), "kolo_recv",
                     "recv is NULL"));
    KOLO_TRY(refused(kolo_wait(NULL, 0), "kolo_wait", "request"));
    KOLO_TRY(refused(kolo_test(NULL), "kolo_test", "request"));
out:
    return status;
}

static kolo_status misuse_options(struct kolo_comm *comm)
{
    struct kolo_opts small = {.size = 8}, negative = {.size = sizeof negative, .timeout_ms = -1};
    struct kolo_info info = {.size = 1};
    struct kolo_peer_info peer = {.size = sizeof peer};
    size_t counts[2] = {3, 3}, overlapping[2] = {0, 2}, backwards[2] = {2, 0};
    float a[8] = {0}, b[8] = {0};
    kolo_status status;
    KOLO_TRY(refused(kolo_barrier(comm, &small, NULL), "kolo_barrier",
                     "opts->size is 8, not 56: set it to sizeof(struct kolo_opts)"));
    KOLO_TRY(refused(kolo_barrier(comm, &negative, NULL), "kolo_barrier", "timeout_ms is -1"));
    KOLO_TRY(refused(kolo_send(comm, a, 1, KOLO_INT8, 1 - kolo_rank(comm), &small, NULL),
                     "kolo_send", "opts->size is 8"));
    KOLO_TRY(refused(kolo_send(comm, a, 1, KOLO_INT8, 1 - kolo_rank(comm), &negative, NULL),
                     "kolo_send", "timeout"));
    KOLO_TRY(refused(kolo_allgatherv(comm, a, b, counts, overlapping, KOLO_FLOAT32, NULL, NULL),
                     "kolo_allgatherv", "overlap"));
    KOLO_TRY(refused(kolo_allgatherv(comm, a, b, counts, backwards, KOLO_FLOAT32, NULL, NULL),
                     "kolo_allgatherv", "ranks 0 and 1 overlap"));
    counts[1] = SIZE_MAX;
    KOLO_TRY(refused(kolo_gatherv(comm, a, b, counts, NULL, KOLO_FLOAT32, 0, NULL, NULL),
                     "kolo_gatherv", "counts[1]"));
    KOLO_TRY(refused(kolo_get_info(comm, &info), "kolo_get_info", "size is 1"));
    KOLO_TRY(refused(kolo_get_peer_info(comm, 2, &peer), "kolo_get_peer_info", "rank 2"));
    KOLO_TRY(refused(kolo_alloc(comm, 10, NULL), "kolo_alloc", "memory_out"));
out:
    return status;
}

static kolo_status misuse(struct kolo_comm *comm, void *argument)
{
    float sum = 1;
    kolo_status status;
    (void)argument;
    KOLO_TRY(misuse_arguments(comm));
    KOLO_TRY(misuse_options(comm));
    KOLO_TRY(kolo_allreduce(comm, &sum, &sum, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_EXPECT(sum == 2, "after all that the sum is %g", (double)sum);
out:
    return status;
}

Test(comm, misuse_is_refused_and_costs_nothing, .timeout = 120)
{
    struct world world = {.size = 2, .settings = {"KOLO_TIMEOUT=10"}};
    WORLD_MUST_RUN(&world, misuse, NULL);
}

static kolo_status allocate(struct kolo_comm *comm, void *argument)
{
    void *memory[3] = {NULL};
    int local = 0;
    kolo_status status;
    (void)argument;
    for (int i = 0; i < 3; i++) {
        KOLO_TRY(kolo_alloc(comm, 5000, &memory[i]));
        WORLD_EXPECT((uintptr_t)memory[i] % 4096 == 0, "not page-aligned");
        for (int k = 0; k < 5000; k++)
            WORLD_EXPECT(((char *)memory[i])[k] == 0, "not zeroed");
        memset(memory[i], 1, 5000);
    }
    WORLD_EXPECT(kolo_free(comm, &local) == KOLO_ERR_INVALID, "freed a local variable");
    WORLD_EXPECT(kolo_free(comm, (char *)memory[0] + 1) == KOLO_ERR_INVALID, "freed the middle");
    WORLD_EXPECT(kolo_free(comm, NULL) == KOLO_OK, "free NULL");
    KOLO_TRY(kolo_free(comm, memory[1]));
    WORLD_EXPECT(kolo_free(comm, memory[1]) == KOLO_ERR_INVALID, "freed twice");
    KOLO_TRY(kolo_free(comm, memory[0]));
out:
    return status; /* kolo_finalize releases memory[2] */
}

Test(comm, memory, .timeout = 120)
{
    struct world world = {.size = 2};
    WORLD_MUST_RUN(&world, allocate, NULL);
}

static kolo_status abort_alone(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    kolo_abort(comm, "first reason");
    kolo_abort(comm, NULL);
    kolo_abort(NULL, "nobody");
    WORLD_EXPECT(kolo_barrier(comm, NULL, NULL) == KOLO_ERR_ABORTED, "barrier went on");
    WORLD_EXPECT(strstr(kolo_error_detail(), "first reason") != NULL, "%s", kolo_error_detail());
    WORLD_EXPECT(kolo_kv_set(comm, "k", "v", 1) == KOLO_ERR_ABORTED, "kv went on");
    return KOLO_OK;
}

Test(comm, abort_keeps_the_first_reason, .timeout = 120)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, abort_alone, NULL);
    cr_assert(kolo_rank(NULL) == -1 && kolo_size(NULL) == -1);
}

/* ---- a child by fork ---- */

/** State of the parent, of which a child gets a copy. */
struct inherited {
    struct kolo_comm *world, *part;
    struct kolo_request *pending, *again;
    void *memory;
};

/** Like refused(); the detail must also say whose child this is. */
static kolo_status refused_child(kolo_status status, const char *function)
{
    return refused(status, function, "is a child, by fork, of rank ");
}

static kolo_status child_requests(struct inherited *own)
{
    kolo_status status;
    KOLO_TRY(refused_child(kolo_wait(&own->pending, 1000), "kolo_wait"));
    KOLO_TRY(refused_child(kolo_test(&own->pending), "kolo_test"));
    KOLO_TRY(refused_child(kolo_start(own->again), "kolo_start"));
    KOLO_TRY(refused_child(kolo_run(own->again), "kolo_run"));
    KOLO_TRY(refused_child(kolo_request_free(&own->again), "kolo_request_free"));
    KOLO_TRY(refused_child(kolo_group_begin(own->world), "kolo_group_begin"));
    KOLO_TRY(refused_child(kolo_group_end(own->world, NULL, NULL), "kolo_group_end"));
out:
    return status;
}

static kolo_status child_calls(struct inherited *own)
{
    struct kolo_comm *comm = own->world, *made = NULL;
    struct kolo_info info = {.size = sizeof info};
    struct kolo_peer_info peer = {.size = sizeof peer};
    const struct kolo_op op = {.size = sizeof op};
    kolo_redop number = KOLO_SUM;
    size_t bytes = 1;
    int64_t sum = 0;
    char byte = 0;
    kolo_status status;
    KOLO_TRY(refused_child(kolo_barrier(own->part, NULL, NULL), "kolo_barrier"));
    KOLO_TRY(refused_child(kolo_send(comm, &byte, 1, KOLO_INT8, 1, NULL, NULL), "kolo_send"));
    KOLO_TRY(refused_child(kolo_dup(comm, NULL, &made), "kolo_dup"));
    KOLO_TRY(refused_child(kolo_shrink(comm, NULL, &made), "kolo_shrink"));
    KOLO_TRY(refused_child(kolo_kv_set(comm, "k", "v", 1), "kolo_kv_set"));
    KOLO_TRY(refused_child(kolo_kv_get(comm, "k", &byte, &bytes, 10), "kolo_kv_get"));
    KOLO_TRY(refused_child(kolo_kv_add(comm, "n", 1, &sum), "kolo_kv_add"));
    KOLO_TRY(refused_child(kolo_alloc(comm, 1, &own->memory), "kolo_alloc"));
    KOLO_TRY(refused_child(kolo_alloc_device(comm, 1, -1, &own->memory), "kolo_alloc_device"));
    KOLO_TRY(refused_child(kolo_free(comm, own->memory), "kolo_free"));
    KOLO_TRY(refused_child(kolo_get_info(comm, &info), "kolo_get_info"));
    KOLO_TRY(refused_child(kolo_get_peer_info(comm, 0, &peer), "kolo_get_peer_info"));
    KOLO_TRY(refused_child(kolo_op_create(comm, &op, &number), "kolo_op_create"));
    KOLO_TRY(refused_child(kolo_op_free(comm, number), "kolo_op_free"));
    kolo_abort(comm, "a child said so");
    KOLO_TRY(refused_child(kolo_finalize(own->part), "kolo_finalize"));
    KOLO_TRY(refused_child(kolo_finalize(comm), "kolo_finalize"));
out:
    return status;
}

/** Makes a child that tries every call while its parent has a call in progress. */
static kolo_status try_in_child(struct inherited *own)
{
    int ended = -1;
    const pid_t pid = fork();
    WORLD_EXPECT(pid >= 0, "fork");
    if (pid == 0) {
        kolo_status status = child_requests(own);
        if (status == KOLO_OK)
            status = child_calls(own);
        if (status != KOLO_OK) {
            const char *why = kolo_error_detail();
            (void)!write(STDERR_FILENO, why, strlen(why));
        }
        _exit(status == KOLO_OK ? 0 : 1);
    }
    WORLD_EXPECT(waitpid(pid, &ended, 0) == pid && WIFEXITED(ended) && WEXITSTATUS(ended) == 0,
                 "the child ended with %x: its standard error says why", (unsigned)ended);
    return KOLO_OK;
}

/** The same while a group is open, and a thread that the child does not have holds the lock. */
static kolo_status try_in_group(struct inherited *own)
{
    kolo_status status = kolo_group_begin(own->world);
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(own->world);
    status = try_in_child(own);
    kolo_comm_leave(own->world);
    const kolo_status ended = kolo_group_end(own->world, NULL, NULL);
    return status != KOLO_OK ? status : ended;
}

static kolo_status have_children(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    struct inherited own = {.world = comm};
    int32_t got = 0, one = 1, sum = 0;
    const int other = 1 - kolo_rank(comm);
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_dup(comm, NULL, &own.part));
    KOLO_TRY(kolo_alloc(comm, 1, &own.memory));
    KOLO_TRY(kolo_allreduce(comm, &one, &sum, 1, KOLO_INT32, KOLO_SUM, &again, &own.again));
    KOLO_TRY(kolo_recv(comm, &got, 1, KOLO_INT32, other, NULL, &own.pending));
    KOLO_TRY(try_in_child(&own));
    KOLO_TRY(try_in_group(&own));
    KOLO_TRY(kolo_send(comm, &one, 1, KOLO_INT32, other, NULL, NULL));
    KOLO_TRY(kolo_wait(&own.pending, -1));
    KOLO_TRY(kolo_run(own.again));
    WORLD_EXPECT(got == 1 && sum == 2, "got %d, sum %d", (int)got, (int)sum);
    KOLO_TRY(kolo_request_free(&own.again));
    KOLO_TRY(kolo_barrier(own.part, NULL, NULL));
    KOLO_TRY(kolo_finalize(own.part));
out:
    return status;
}

Test(comm, a_child_of_fork_cannot_use_its_parents, .timeout = 120)
{
    for (int i = 0; world_transports[i]; i++) {
        struct world world = {
            .size = 2, .transport = world_transports[i], .settings = {"KOLO_TIMEOUT=10"}};
        WORLD_MUST_RUN(&world, have_children, NULL);
    }
}
