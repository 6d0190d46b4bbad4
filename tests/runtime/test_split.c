// SPDX-License-Identifier: Apache-2.0
// kolo_split and kolo_dup: which process is in which communicator with which rank; all kinds of
// calls on them, nested, side by side and from several threads; wrong calls; that a failure of one
// communicator leaves the others alone; and that numbers, channels and memory are reused.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/kv.h"
#include "runtime/split.h"
#include "runtime/submit.h"
#include "tests/support/await.h"
#include "tests/support/world.h"
#include "transport/core.h"

static void run(const char *transport, int size,
                kolo_status (*body)(struct kolo_comm *comm, void *argument), void *argument)
{
    struct world world = {
        .size = size, .transport = transport, .settings = {"KOLO_TIMEOUT=30", "KOLO_STALL=200ms"}};
    WORLD_MUST_RUN(&world, body, argument);
}

/** Runs over every transport. */
#define ON_ALL(test, timeout_s, size, body)                                                        \
    ParameterizedTestParameters(split, test)                                                       \
    {                                                                                              \
        return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);                \
    }                                                                                              \
    ParameterizedTest(struct world_param *param, split, test, .timeout = timeout_s)                \
    {                                                                                              \
        run(param->name, size, body, NULL);                                                        \
    }

/* ---- calls, checked by each rank's contribution ---- */

/** Member @p rank of @p comm is rank members[rank] of the world; checks that with every kind of
 * call. */
static kolo_status check_calls(struct kolo_comm *comm, const int *members, int count)
{
    int n = kolo_size(comm), me = kolo_rank(comm);
    int64_t mine, sum = 0, got = -1, all[WORLD_RANKS_MAX];
    kolo_status status;
    WORLD_EXPECT(n == count, "%d ranks, not %d", n, count);
    mine = members[me];
    for (int i = 0; i < n; i++)
        sum += members[i];
    KOLO_TRY(kolo_allreduce(comm, &mine, &got, 1, KOLO_INT64, KOLO_SUM, NULL, NULL));
    WORLD_EXPECT(got == sum, "allreduce: %lld, not %lld", (long long)got, (long long)sum);
    KOLO_TRY(kolo_allgather(comm, &mine, all, 1, KOLO_INT64, NULL, NULL));
    for (int i = 0; i < n; i++)
        WORLD_EXPECT(all[i] == members[i], "allgather: member %d is %lld, not %d", i,
                     (long long)all[i], members[i]);
    for (int root = 0; root < n; root++) {
        got = mine;
        KOLO_TRY(kolo_broadcast(comm, &got, 1, KOLO_INT64, root, NULL, NULL));
        WORLD_EXPECT(got == members[root], "broadcast from %d: %lld", root, (long long)got);
    }
    KOLO_TRY(kolo_gather(comm, &mine, all, 1, KOLO_INT64, n - 1, NULL, NULL));
    for (int i = 0; me == n - 1 && i < n; i++)
        WORLD_EXPECT(all[i] == members[i], "gather: member %d is %lld", i, (long long)all[i]);
    if (n > 1) {
        struct kolo_request *request;
        int to = (me + 1) % n, from = (me + n - 1) % n;
        KOLO_TRY(kolo_send(comm, &mine, 1, KOLO_INT64, to, NULL, &request));
        KOLO_TRY(kolo_recv(comm, &got, 1, KOLO_INT64, from, NULL, NULL));
        KOLO_TRY(kolo_wait(&request, -1));
        WORLD_EXPECT(got == members[from], "from member %d: %lld", from, (long long)got);
    }
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

/* ---- members ---- */

static kolo_status by_parity(struct kolo_comm *comm, void *argument)
{
    int n = kolo_size(comm), rank = kolo_rank(comm), members[WORLD_RANKS_MAX], count = 0;
    struct kolo_comm *half = NULL;
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_split(comm, rank % 2 * 1000000, -rank, NULL, &half)); /* backwards */
    for (int i = n - 1; i >= 0; i--)
        if (i % 2 == rank % 2)
            members[count++] = i;
    KOLO_TRY(check_calls(half, members, count));
    WORLD_EXPECT(members[kolo_rank(half)] == rank, "rank %d is member %d", rank, kolo_rank(half));
    KOLO_TRY(kolo_finalize(half));
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

ON_ALL(by_colour_and_key, 120, 5, by_parity)

static kolo_status without_colour(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), members[] = {1, 2};
    struct kolo_comm *some = comm, *none = comm;
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_split(comm, rank == 0 ? KOLO_NO_COLOUR : 7, 0, NULL, &some));
    WORLD_EXPECT((some == NULL) == (rank == 0), "rank %d got the wrong one", rank);
    if (some)
        KOLO_TRY(check_calls(some, members, 2));
    KOLO_TRY(kolo_finalize(some));
    KOLO_TRY(kolo_split(comm, KOLO_NO_COLOUR, 0, NULL, &none));
    WORLD_EXPECT(none == NULL, "a communicator for nobody");
out:
    return status;
}

ON_ALL(without_colour_there_is_none, 60, 3, without_colour)

/** Halves repeatedly, with all communicators alive at the end. */
static kolo_status nested(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), first = 0, count = kolo_size(comm), depth = 0;
    int members[WORLD_RANKS_MAX];
    struct kolo_comm *comms[8] = {comm}, *copy;
    kolo_status status = KOLO_OK;
    (void)argument;
    for (; count > 1; depth++) {
        int low = count / 2, is_high = rank - first >= low;
        KOLO_TRY(kolo_split(comms[depth], is_high, 0, NULL, &comms[depth + 1]));
        first += is_high ? low : 0;
        count = is_high ? count - low : low;
        for (int i = 0; i < count; i++)
            members[i] = first + i;
        KOLO_TRY(check_calls(comms[depth + 1], members, count));
        KOLO_TRY(kolo_dup(comms[depth + 1], NULL, &copy));
        KOLO_TRY(check_calls(copy, members, count));
        KOLO_TRY(kolo_finalize(copy));
    }
    for (int i = 0; i < kolo_size(comm); i++)
        members[i] = i;
    KOLO_TRY(check_calls(comm, members, kolo_size(comm)));
    if (rank % 2 == 0) /* finalizing the world also ends the communicators that are left */
        for (; depth > 0; depth--)
            KOLO_TRY(kolo_finalize(comms[depth]));
out:
    return status;
}

ON_ALL(at_any_depth, 120, 6, nested)

/* ---- side by side ---- */

enum { BESIDE = 6, ROUNDS = 8, LENGTH = 700 };

/** Asynchronous calls on several communicators and the world, started and waited for by each rank
 * in an order of its own. */
static kolo_status interleaved(struct kolo_comm *comm, void *argument)
{
    int n = kolo_size(comm), rank = kolo_rank(comm);
    struct kolo_comm *comms[BESIDE] = {comm};
    struct kolo_request *requests[BESIDE] = {NULL};
    int32_t(*data)[LENGTH] = calloc(BESIDE, sizeof *data);
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 1; i < BESIDE; i++)
        KOLO_TRY(kolo_split(comm, i % 2 ? 0 : rank % 2, i, NULL, &comms[i]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < BESIDE; k++) {
            int i = (k * 5 + rank + round) % BESIDE;
            for (int at = 0; at < LENGTH; at++)
                data[i][at] = rank + i + at + round;
            KOLO_TRY(kolo_allreduce(comms[i], data[i], data[i], LENGTH, KOLO_INT32, KOLO_MAX, NULL,
                                    &requests[i]));
        }
        for (int k = 0; k < BESIDE; k++) {
            int i = (k + rank * 2 + round) % BESIDE;
            bool is_half = i > 0 && i % 2 == 0;
            int top = is_half && (n - 1) % 2 != rank % 2 ? n - 2 : n - 1;
            KOLO_TRY(kolo_wait(&requests[i], -1));
            WORLD_EXPECT(data[i][3] == top + i + 3 + round, "communicator %d: %d", i, data[i][3]);
        }
    }
out:
    free(data);
    return status;
}

ON_ALL(collectives_of_several_interleave, 120, 4, interleaved)

struct runner {
    struct kolo_comm *comm;
    int number;
    kolo_status status;
    char text[KOLO_DETAIL_MAX];
};

static kolo_status split_and_reduce(struct kolo_comm *comm, int number)
{
    int rank = kolo_rank(comm);
    struct kolo_comm *part = NULL;
    kolo_status status = KOLO_OK;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t value = rank, sum = 0;
        int64_t expected = (int64_t)kolo_size(comm) * (kolo_size(comm) - 1) / 2;
        KOLO_TRY(kolo_dup(comm, NULL, &part));
        for (int i = 0; i <= number; i++) {
            KOLO_TRY(kolo_allreduce(part, &value, &sum, 1, KOLO_INT64, KOLO_SUM, NULL, NULL));
            WORLD_EXPECT(sum == expected, "thread %d: %lld", number, (long long)sum);
        }
        KOLO_TRY(kolo_finalize(part));
    }
out:
    return status;
}

static void *runner_main(void *argument)
{
    struct runner *runner = argument;
    runner->status = split_and_reduce(runner->comm, runner->number);
    snprintf(runner->text, sizeof runner->text, "%s", kolo_error_detail());
    return NULL;
}

/** Each thread of each rank has a communicator of its own, and splits it further meanwhile. */
static kolo_status threaded(struct kolo_comm *comm, void *argument)
{
    enum { THREADS = 3 };
    struct runner runners[THREADS];
    pthread_t threads[THREADS];
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){.number = i};
        KOLO_TRY(kolo_dup(comm, NULL, &runners[i].comm));
    }
    for (int i = 0; i < THREADS; i++)
        WORLD_EXPECT(pthread_create(&threads[i], NULL, runner_main, &runners[i]) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (runners[i].status != KOLO_OK)
            return kolo_fail(runners[i].status, "thread %d: %s", i, runners[i].text);
out:
    return status;
}

ON_ALL(threads_split_at_the_same_time, 120, 3, threaded)

/** Makes, uses and ends communicators of the world, beside another thread that does the same. */
static void *dup_main(void *argument)
{
    enum { TIMES = 200 };
    struct runner *runner = argument;
    kolo_status status = KOLO_OK;
    for (int i = 0; i < TIMES && status == KOLO_OK; i++) {
        struct kolo_comm *copy = NULL;
        int32_t one = 1, sum = 0;
        status = kolo_dup(runner->comm, NULL, &copy);
        if (status == KOLO_OK)
            status = kolo_allreduce(copy, &one, &sum, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
        if (status == KOLO_OK && sum != kolo_size(copy))
            status = kolo_fail(KOLO_ERR_INTERNAL, "sum %d", (int)sum);
        if (status == KOLO_OK)
            status = kolo_finalize(copy);
    }
    runner->status = status;
    snprintf(runner->text, sizeof runner->text, "%s", kolo_error_detail());
    return NULL;
}

/** Which thread of a rank meets which of another is their own affair: their calls are equal. */
static kolo_status threads_of_one_parent(struct kolo_comm *comm, void *argument)
{
    struct runner runners[2] = {{.comm = comm}, {.comm = comm}};
    pthread_t thread;
    (void)argument;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL)); /* opens its board */
    WORLD_EXPECT(pthread_create(&thread, NULL, dup_main, &runners[0]) == 0, "no thread");
    (void)dup_main(&runners[1]);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        if (runners[i].status != KOLO_OK)
            return kolo_fail(runners[i].status, "thread %d: %s", i, runners[i].text);
    return KOLO_OK;
}

ON_ALL(threads_make_communicators_of_one_parent, 120, 3, threads_of_one_parent)

/* ---- wrong calls ---- */

/** Every rank gets @p expected with @p part in the text, and then the world still works. */
static kolo_status all_refused(struct kolo_comm *comm, kolo_status got, kolo_status expected,
                               const char *part)
{
    int members[WORLD_RANKS_MAX];
    WORLD_EXPECT(got == expected && strstr(kolo_error_detail(), part), "%s: %s",
                 kolo_status_name(got), kolo_error_detail());
    for (int i = 0; i < kolo_size(comm); i++)
        members[i] = i;
    return check_calls(comm, members, kolo_size(comm));
}

static kolo_status wrong(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm);
    struct kolo_comm *part = comm;
    struct kolo_opts opts = {.size = 3};
    kolo_status status;
    (void)argument;
    KOLO_TRY(all_refused(comm, kolo_split(comm, rank == 1 ? -7 : 0, 0, NULL, &part),
                         KOLO_ERR_INVALID, "gave colour -7"));
    WORLD_EXPECT(!part && strstr(kolo_error_detail(), ""), "half made");
    KOLO_TRY(all_refused(comm, kolo_split(comm, 0, 0, NULL, rank == 2 ? NULL : &part),
                         KOLO_ERR_INVALID, "new_out is NULL on rank 2"));
    KOLO_TRY(all_refused(comm, kolo_dup(comm, NULL, rank == 0 ? NULL : &part), KOLO_ERR_INVALID,
                         "kolo_dup: new_out is NULL on rank 0"));
    KOLO_TRY(all_refused(comm, kolo_split(comm, 0, 0, &opts, &part), KOLO_ERR_INVALID,
                         "kolo_split: opts->size is 3"));
    KOLO_TRY(all_refused(comm, kolo_split(NULL, 0, 0, NULL, &part), KOLO_ERR_INVALID,
                         "kolo_split: comm is NULL"));
out:
    return status;
}

ON_ALL(wrong_calls_are_refused_on_every_rank, 60, 3, wrong)

/** The allocation that fails may also be one of the store, which ends the connection of a rank if
 * it has no memory for its answer. */
static bool is_of_the_store(kolo_status status)
{
    return status == KOLO_ERR_PEER && strstr(kolo_error_detail(), "lost its connection");
}

/** An allocation fails on some rank: all get the communicator, which works, or none; and none
 * waits. */
static kolo_status lacking_memory(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *part = NULL;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        kolo_alloc_fail_nth(*(const uint64_t *)argument);
    const kolo_status status = kolo_dup(comm, NULL, &part);
    kolo_alloc_fail_nth(0);
    WORLD_EXPECT(status != KOLO_ERR_TIMEOUT && (status != KOLO_ERR_PEER || is_of_the_store(status)),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    if (status != KOLO_OK)
        return status;
    WORLD_EXPECT(check_calls(part, (const int[]){0, 1, 2}, 3) == KOLO_OK, "%s",
                 kolo_error_detail());
    return kolo_finalize(part);
}

Test(split, memory_runs_out, .timeout = 120)
{
    for (uint64_t nth = 1; nth <= 24; nth++) {
        struct world world = {.size = 3, .settings = {"KOLO_TIMEOUT=10s"}};
        (void)world_run(&world, lacking_memory, &nth);
        const kolo_status first = world.results[0].status;
        for (int rank = 0; rank < world.size; rank++)
            cr_assert(world.results[rank].status != KOLO_ERR_INTERNAL &&
                          (world.results[rank].status == KOLO_OK) == (first == KOLO_OK),
                      "allocation %d, rank %d: %s", (int)nth, rank, world.results[rank].text);
    }
}

struct lack {
    uint64_t nth;          /* the allocation that fails */
    _Atomic uint64_t past; /* how many there have been then */
    _Atomic int waiting;   /* the others, which allocate nothing meanwhile */
};

/** Rank 1 has no memory for what it needs until it waits for the others, which come after that. */
static kolo_status lacking_before_others(struct kolo_comm *comm, void *argument)
{
    struct lack *lack = argument;
    struct kolo_comm *part = NULL;
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 1) {
        WORLD_EXPECT(AWAIT(lack->waiting == 2), "the others do not come");
        kolo_alloc_fail_nth(lack->nth);
        lack->past = kolo_alloc_count() + lack->nth;
    } else {
        lack->waiting++;
        WORLD_EXPECT(AWAIT(lack->past > 0 && kolo_alloc_count() >= lack->past),
                     "rank 1 needs less memory");
    }
    const kolo_status status = kolo_dup(comm, NULL, &part);
    WORLD_EXPECT((status == KOLO_ERR_NO_MEMORY || status == KOLO_ERR_SYSTEM) &&
                     strstr(kolo_error_detail(), "rank 1 ("),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

Test(split, a_rank_without_memory_tells_the_others, .timeout = 120)
{
    for (uint64_t nth = 1; nth <= 6; nth++) {
        struct lack lack = {.nth = nth};
        struct world world = {.size = 3, .transport = "tcp", .settings = {"KOLO_TIMEOUT=10s"}};
        WORLD_MUST_RUN(&world, lacking_before_others, &lack);
    }
}

static kolo_status split_or_dup(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *part;
    (void)argument;
    kolo_status status =
        kolo_rank(comm) == 1 ? kolo_dup(comm, NULL, &part) : kolo_split(comm, 0, 0, NULL, &part);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH && strstr(kolo_error_detail(), "dup()") &&
                     strstr(kolo_error_detail(), "split()") && !part,
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

ON_ALL(other_calls_are_a_mismatch, 60, 3, split_or_dup)

/* ---- failures ---- */

static kolo_status wait_in_vain(struct kolo_comm *comm, const char *key, int timeout_ms)
{
    size_t bytes = 0;
    const kolo_status status = kolo_kv_get(comm, key, NULL, &bytes, timeout_ms);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT, "%s: %s", key, kolo_error_detail());
    return KOLO_OK;
}

/** Members of one half make different calls; the other half, and the world, go on. */
static kolo_status one_half_fails(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), members[] = {0, 2, 4}, world[] = {0, 1, 2, 3, 4};
    struct kolo_comm *half;
    int32_t value = rank;
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_split(comm, rank % 2, 0, NULL, &half));
    if (rank % 2 == 1) {
        status = kolo_rank(half) == 0
                     ? kolo_allreduce(half, &value, &value, 1, KOLO_INT32, KOLO_SUM, NULL, NULL)
                     : kolo_barrier(half, NULL, NULL);
        WORLD_EXPECT(status == KOLO_ERR_MISMATCH && strstr(kolo_error_detail(), "(split colour 1)"),
                     "%s: %s", kolo_status_name(status), kolo_error_detail());
        status = kolo_barrier(half, NULL, NULL);
        WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "it went on: %s", kolo_status_name(status));
    } else {
        KOLO_TRY(check_calls(half, members, 3));
    }
    KOLO_TRY(check_calls(comm, world, 5));
    KOLO_TRY(kolo_finalize(half));
out:
    return status;
}

ON_ALL(a_mismatch_fails_one_communicator, 60, 5, one_half_fails)

/** Both ranks of a half wait for each other, so that only the store can notice. The other half
 * waits at the same sequence number in another call, and must not be blamed. */
static kolo_status half_stalls(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), world[] = {0, 1, 2, 3};
    struct kolo_comm *half;
    int32_t value = rank;
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_split(comm, rank / 2, 0, NULL, &half));
    if (rank < 2) {
        status = kolo_broadcast(half, &value, 1, KOLO_INT32, 1 - rank, NULL, NULL);
        WORLD_EXPECT(status == KOLO_ERR_MISMATCH && strstr(kolo_error_detail(), "(split colour 0)"),
                     "%s: %s", kolo_status_name(status), kolo_error_detail());
        KOLO_TRY(kolo_send(comm, &value, 1, KOLO_INT32, rank + 2, NULL, NULL));
    } else if (rank == 2) { /* waits as long as the other half */
        KOLO_TRY(kolo_recv(comm, &value, 1, KOLO_INT32, 0, NULL, NULL));
        KOLO_TRY(kolo_allreduce(half, &value, &value, 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
    } else {
        struct kolo_request *request;
        KOLO_TRY(kolo_allreduce(half, &value, &value, 1, KOLO_INT32, KOLO_SUM, NULL, &request));
        KOLO_TRY(kolo_wait(&request, -1));
        KOLO_TRY(kolo_recv(comm, &value, 1, KOLO_INT32, 1, NULL, NULL));
    }
    KOLO_TRY(check_calls(comm, world, 4));
out:
    return status;
}

ON_ALL(stalls_are_compared_within_a_communicator, 60, 4, half_stalls)

/** An abort by a member ends that communicator on all of its ranks, and names the member. */
static kolo_status aborted(struct kolo_comm *comm, void *argument)
{
    int rank = kolo_rank(comm), world[] = {0, 1, 2, 3};
    struct kolo_comm *part, *copy;
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_split(comm, rank == 0 ? KOLO_NO_COLOUR : 3, 0, NULL, &part));
    KOLO_TRY(kolo_dup(comm, NULL, &copy));
    if (rank == 3)
        kolo_abort(part, "enough");
    if (rank > 0) {
        status = kolo_barrier(part, NULL, NULL);
        WORLD_EXPECT(status == KOLO_ERR_ABORTED &&
                         strstr(kolo_error_detail(), "rank 3 (2 of communicator ") &&
                         strstr(kolo_error_detail(), "aborted: enough"),
                     "%s: %s", kolo_status_name(status), kolo_error_detail());
        WORLD_EXPECT(kolo_dup(part, NULL, &part) == KOLO_ERR_ABORTED, "a dup of what failed");
    }
    KOLO_TRY(check_calls(copy, world, 4));
    KOLO_TRY(check_calls(comm, world, 4));
out:
    return status;
}

ON_ALL(an_abort_ends_one_communicator, 60, 4, aborted)

enum { STRANGERS = 6 }; /* rings and barriers do not connect ranks 0 and 3 */

/** Rank 3 gives up a receive on a communicator while the link to rank 0, which is busy with other
 * things, is still being made. They use that link on the world afterwards. */
static kolo_status impatient(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts at_once = {.size = sizeof at_once, .timeout_ms = 1};
    const int me = kolo_rank(comm);
    struct kolo_comm *other = NULL;
    int64_t number = -1;
    kolo_status status;
    KOLO_TRY(kolo_dup(comm, NULL, &other));
    pthread_barrier_wait(argument);
    if (me == 3) {
        status = kolo_recv(other, &number, 1, KOLO_INT64, 0, &at_once, NULL);
        if (status == KOLO_ERR_TIMEOUT)
            status = kolo_kv_set(comm, "given up", &number, sizeof number); /* looks at links */
        else
            status = kolo_fail(KOLO_ERR_INTERNAL, "the receive: %s", kolo_status_name(status));
    }
    pthread_barrier_wait(argument);
    KOLO_TRY(status);
    if (me == 0)
        KOLO_TRY(kolo_send(comm, &(int64_t){7}, 1, KOLO_INT64, 3, NULL, NULL));
    if (me == 3)
        KOLO_TRY(kolo_recv(comm, &number, 1, KOLO_INT64, 0, NULL, NULL));
    WORLD_EXPECT(me != 3 || number == 7, "received %lld", (long long)number);
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

ParameterizedTestParameters(split, a_short_deadline_ends_one_communicator)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}

ParameterizedTest(struct world_param *param, split, a_short_deadline_ends_one_communicator,
                  .timeout = 60)
{
    struct world world = {.size = STRANGERS,
                          .transport = param->name,
                          .settings = {"KOLO_TIMEOUT=30", "KOLO_PLAN=ring"}};
    pthread_barrier_t barrier;
    cr_assert(pthread_barrier_init(&barrier, NULL, STRANGERS) == 0);
    WORLD_MUST_RUN(&world, impatient, &barrier);
    pthread_barrier_destroy(&barrier);
}

/** A communicator of the same members that is not opened yet. */
static kolo_status create_same(struct kolo_comm *comm, struct kolo_comm **child_out)
{
    kolo_status status = kolo_comm_create(comm->engine, comm->size, child_out);
    for (int i = 0; status == KOLO_OK && i < comm->size; i++)
        (*child_out)->ranks[i] = i;
    return status;
}

/** Opens a communicator as if this rank had come through the barrier of its creation. */
static kolo_status open_made(struct kolo_comm *comm, uint32_t number, struct kolo_comm **part_out)
{
    kolo_status status = create_same(comm, part_out);
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(comm);
    kolo_comm_open(*part_out, number, comm->rank, comm->size);
    kolo_comm_count_local(*part_out);
    kolo_comm_leave(comm);
    return KOLO_OK;
}

/** The barrier of the creation, for a member that has opened it by open_made(). @p parent may have
 * failed. */
static kolo_status be_met(struct kolo_comm *parent, struct kolo_comm *part)
{
    const struct kolo_task task = {
        .kind = KOLO_CALL_BARRIER, .function = "kolo_split", .is_own = true, .is_meeting = true};
    kolo_comm_enter(part);
    part->parent = parent;
    part->is_unmet = true;
    kolo_comm_leave(part);
    const kolo_status status = kolo_task_run(part, &task);
    kolo_comm_enter(part);
    part->parent = NULL;
    part->is_unmet = false;
    kolo_comm_leave(part);
    return status;
}

/** From here to the end of meet(), failures of communicators that are not open yet are kept. */
static void begin_meeting(struct kolo_comm *comm)
{
    kolo_comm_enter(comm);
    kolo_engine_creating(comm->engine);
    kolo_comm_leave(comm);
}

/** Waits in the barrier of the creation of a communicator, for at most @p timeout_ms. */
static kolo_status meet(struct kolo_comm *comm, uint32_t number, int timeout_ms,
                        struct kolo_comm **part_out)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = timeout_ms};
    const struct kolo_seat seat = {.number = number, .rank = comm->rank, .size = comm->size};
    kolo_status status = create_same(comm, part_out);
    if (status == KOLO_OK)
        status = kolo_comm_meet(*part_out, comm, &seat, "kolo_split", &opts, 0);
    kolo_comm_enter(comm);
    kolo_engine_created(comm->engine);
    kolo_comm_leave(comm);
    return status;
}

/** All ranks get the same new number, and know that all are here. */
static kolo_status take_number(struct kolo_comm *comm, uint32_t *number_out)
{
    int64_t number = 0;
    kolo_status status = KOLO_OK;
    if (comm->rank == 0)
        KOLO_TRY(kolo_kv_take(comm, "a test", 1, 10000, &number));
    KOLO_TRY(kolo_broadcast(comm, &number, 1, KOLO_INT64, 0, NULL, NULL));
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
    *number_out = (uint32_t)number;
out:
    return status;
}

/** A member aborts a communicator while another one is still in its creation. That member gets it
 * too, hears the reason, and takes part when all shrink it. */
static kolo_status aborted_while_met(struct kolo_comm *comm, void *argument)
{
    uint32_t number = 0;
    size_t bytes = 0;
    struct kolo_comm *part = NULL, *again = NULL;
    kolo_status status;
    (void)argument;
    if (comm->rank == 2)
        begin_meeting(comm);
    KOLO_TRY(take_number(comm, &number));
    if (comm->rank == 2) {
        KOLO_TRY(meet(comm, number, 20000, &part));
    } else {
        KOLO_TRY(open_made(comm, number, &part));
        if (comm->rank == 1) /* it is not in the creation, and would not keep a failure */
            KOLO_TRY(kolo_kv_set(comm, "opened", "", 0));
        else
            KOLO_TRY(kolo_kv_get(comm, "opened", NULL, &bytes, -1));
        if (comm->rank == 0)
            kolo_abort(part, "enough");
    }
    status = kolo_barrier(part, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED && strstr(kolo_error_detail(), "aborted: enough"),
                 "%s: %s", kolo_status_name(status), kolo_error_detail());
    KOLO_TRY(kolo_shrink(part, NULL, &again));
    WORLD_EXPECT(kolo_size(again) == 3, "%d survivors", kolo_size(again));
    KOLO_TRY(kolo_barrier(again, NULL, NULL));
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

ON_ALL(who_is_still_in_the_creation_gets_it_too, 60, 3, aborted_while_met)

/** Two members are still in the creation, and one of them gives up: the other gets nothing, and
 * both say who is missing. */
static kolo_status two_are_late(struct kolo_comm *comm, void *argument)
{
    uint32_t number = 0;
    struct kolo_comm *part = NULL;
    kolo_status status;
    (void)argument;
    if (comm->rank != 0)
        begin_meeting(comm);
    KOLO_TRY(take_number(comm, &number));
    if (comm->rank != 0) {
        status = meet(comm, number, comm->rank == 1 ? 50 : 20000, &part);
        WORLD_EXPECT(status == KOLO_ERR_TIMEOUT &&
                         strstr(kolo_error_detail(), "waiting for rank 0 ("),
                     "%s: %s", kolo_status_name(status), kolo_error_detail());
    }
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

ON_ALL(if_one_gives_up_nobody_in_the_creation_gets_it, 60, 3, two_are_late)

static atomic_int gave_up; /* of those that are not late */

/** A member comes to the meeting when all others have given up: it gets nothing either. */
static kolo_status one_is_too_late(struct kolo_comm *comm, void *argument)
{
    uint32_t number = 0;
    struct kolo_comm *part = NULL;
    kolo_status status;
    (void)argument;
    begin_meeting(comm);
    KOLO_TRY(take_number(comm, &number));
    if (comm->rank == 1)
        WORLD_EXPECT(AWAIT(atomic_load(&gave_up) == 2), "the others wait");
    status = meet(comm, number, comm->rank == 1 ? 20000 : 50, &part);
    atomic_fetch_add(&gave_up, 1);
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT, "%s: %s", kolo_status_name(status),
                 kolo_error_detail());
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

ON_ALL(who_comes_when_all_gave_up_gets_nothing, 60, 3, one_is_too_late)

static struct kolo_comm *worlds[3]; /* by rank: these ranks are threads */

/** Waits until the other ranks have opened communicator @p number. */
static kolo_status await_opened(const struct kolo_comm *comm, uint32_t number)
{
    for (int rank = 0; rank < comm->size; rank++)
        for (bool is_open = rank == comm->rank; !is_open;) {
            const kolo_status status = wait_in_vain(worlds[comm->rank], "a moment", 5);
            if (status != KOLO_OK)
                return status;
            kolo_comm_enter(worlds[rank]);
            is_open = kolo_engine_comm(worlds[rank]->engine, number) != NULL;
            kolo_comm_leave(worlds[rank]);
        }
    return KOLO_OK;
}

/** Waits until @p parent has failed on the other ranks too. */
static kolo_status await_failed(const struct kolo_comm *comm, uint32_t parent)
{
    for (int rank = 0; rank < comm->size; rank++)
        for (bool has_failed = false; !has_failed;) {
            kolo_comm_enter(worlds[rank]);
            has_failed = kolo_engine_comm(worlds[rank]->engine, parent)->failure.status != KOLO_OK;
            kolo_comm_leave(worlds[rank]);
            if (!has_failed)
                WORLD_TRY(wait_in_vain(worlds[comm->rank], "a moment", 5));
        }
    return KOLO_OK;
}

/** Fails @p parent while the others are in the meeting of communicator @p number, which this rank
 * has opened, or has not and never will. */
static kolo_status fail_parent(struct kolo_comm *comm, struct kolo_comm *parent, uint32_t number,
                               bool is_opened, struct kolo_comm **part_out)
{
    if (is_opened)
        WORLD_TRY(open_made(comm, number, part_out));
    WORLD_TRY(await_opened(comm, number));
    kolo_abort(parent, "enough");
    WORLD_TRY(await_failed(comm, parent->number));
    return is_opened ? be_met(parent, *part_out) : KOLO_OK;
}

struct outcome {
    int32_t mine, worst; /* status of the meeting here, and the worst of all ranks */
};

/** The parent fails while two members are in the meeting. @p has_board: it has used its board. */
static kolo_status parent_fails(struct kolo_comm *comm, bool is_opened, bool has_board,
                                struct outcome *out)
{
    uint32_t number = 0;
    struct kolo_comm *parent = NULL, *part = NULL;
    kolo_status status;
    worlds[comm->rank] = comm;
    KOLO_TRY(kolo_dup(comm, NULL, &parent));
    if (has_board)
        KOLO_TRY(kolo_barrier(parent, NULL, NULL));
    if (comm->rank != 1)
        begin_meeting(comm);
    KOLO_TRY(take_number(comm, &number));
    out->mine = comm->rank == 1 ? fail_parent(comm, parent, number, is_opened, &part)
                                : meet(parent, number, 20000, &part);
    WORLD_EXPECT(out->mine == KOLO_OK || out->mine == KOLO_ERR_ABORTED, "%s", kolo_error_detail());
    KOLO_TRY(kolo_allreduce(comm, &out->mine, &out->worst, 1, KOLO_INT32, KOLO_MIN, NULL, NULL));
    WORLD_EXPECT(out->mine != KOLO_OK || !part || (!part->parent && part->orphan_by == 0),
                 "it still has a parent");
    if (is_opened && out->worst == KOLO_OK)
        KOLO_TRY(check_calls(part, (const int[]){0, 1, 2}, 3));
    WORLD_EXPECT(kolo_barrier(parent, NULL, NULL) == KOLO_ERR_ABORTED, "the parent lives");
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

/** All have it. On a busy machine the members may not meet in the time that is left. */
static kolo_status parent_fails_last(struct kolo_comm *comm, bool has_board)
{
    enum { TRIES = 8 };
    for (int i = 0; i < TRIES; i++) {
        struct outcome outcome = {0};
        WORLD_TRY(parent_fails(comm, true, has_board, &outcome));
        if (outcome.worst == KOLO_OK)
            return KOLO_OK;
    }
    return kolo_fail(KOLO_ERR_INTERNAL, "it failed with its parent");
}

static kolo_status parent_fails_last_on_board(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    return parent_fails_last(comm, true);
}

static kolo_status parent_fails_last_on_links(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    return parent_fails_last(comm, false);
}

static kolo_status parent_fails_first(struct kolo_comm *comm, void *argument)
{
    struct outcome outcome = {0};
    (void)argument;
    WORLD_TRY(parent_fails(comm, false, true, &outcome));
    WORLD_EXPECT(outcome.mine == (comm->rank == 1 ? KOLO_OK : KOLO_ERR_ABORTED), "%s",
                 kolo_status_name(outcome.mine));
    return KOLO_OK;
}

ON_ALL(a_parent_that_fails_when_all_have_it_leaves_it_alone, 60, 3, parent_fails_last_on_board)
ON_ALL(without_a_board_too, 60, 3, parent_fails_last_on_links)
ON_ALL(a_parent_that_fails_before_takes_it_along, 60, 3, parent_fails_first)

/** One of three ranks gives up in a split, as if the others had come through its barrier. When
 * they shrink the communicator they got, they do not wait for that rank, which has none and
 * lives on. */
static kolo_status one_gives_up(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *part = NULL, *some = NULL;
    int64_t number = 0, count = 0;
    size_t bytes = sizeof number;
    kolo_status status;
    (void)argument;
    if (kolo_rank(comm) == 2) {
        KOLO_TRY(kolo_kv_take(comm, "a test", 1, 10000, &number));
        begin_meeting(comm);
        status = meet(comm, (uint32_t)number, 50, &part);
        WORLD_EXPECT(status == KOLO_ERR_TIMEOUT, "%s: %s", kolo_status_name(status),
                     kolo_error_detail());
        KOLO_TRY(kolo_kv_set(comm, "number", &number, sizeof number));
        bytes = 0;
        KOLO_TRY(kolo_kv_get(comm, "shrunk", NULL, &bytes, -1));
    } else {
        KOLO_TRY(kolo_kv_get(comm, "number", &number, &bytes, -1));
        KOLO_TRY(open_made(comm, (uint32_t)number, &part));
        KOLO_TRY(kolo_shrink(part, NULL, &some));
        WORLD_EXPECT(kolo_size(some) == 2, "%d survivors", kolo_size(some));
        KOLO_TRY(kolo_finalize(part));
        KOLO_TRY(kolo_kv_add(comm, "both", 1, &count));
        if (count == 2)
            KOLO_TRY(kolo_kv_set(comm, "shrunk", "", 0));
    }
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

ON_ALL(who_gives_one_up_is_not_waited_for, 60, 3, one_gives_up)

/* ---- deadlines ---- */

enum { WHOLE_MS = 5000, LATE_MS = 2500 };

/** Takes part in the exchange of the others' kolo_dup(), and does not meet them. */
static kolo_status only_exchange(struct kolo_comm *comm)
{
    enum { INTS = 4 };
    const int32_t mine[INTS] = {0};
    int32_t table[3][INTS];
    const struct kolo_task task = {.kind = KOLO_CALL_DUP,
                                   .function = "kolo_dup",
                                   .send = mine,
                                   .recv = table,
                                   .count = INTS,
                                   .dtype = KOLO_INT32,
                                   .is_own = true};
    return kolo_task_run(comm, &task);
}

/** Rank 2 comes late to the exchange, and then not to the meeting. */
static kolo_status late_twice(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = WHOLE_MS};
    struct kolo_comm *part = NULL;
    int64_t begun = kolo_now_ns();
    (void)argument;
    if (kolo_rank(comm) == 2) {
        WORLD_TRY(wait_in_vain(comm, "late", LATE_MS));
        WORLD_TRY(only_exchange(comm));
        return kolo_barrier(comm, NULL, NULL);
    }
    const kolo_status status = kolo_dup(comm, &opts, &part);
    const double seconds = (double)(kolo_now_ns() - begun) / 1e9;
    WORLD_EXPECT(status == KOLO_ERR_TIMEOUT && !part, "%s: %s", kolo_status_name(status),
                 kolo_error_detail());
    WORLD_EXPECT(strstr(kolo_error_detail(), "5.0 s passed") != NULL, "%s", kolo_error_detail());
    WORLD_EXPECT(seconds < (WHOLE_MS + LATE_MS - 500) / 1e3, "%.1f s", seconds);
    return kolo_barrier(comm, NULL, NULL);
}

Test(split, has_one_deadline_for_the_whole_call, .timeout = 60)
{
    run("inproc", 3, late_twice, NULL);
}

/** One deadline passes when all have agreed: the others must not get what one gives up. */
static kolo_status just_in_time(struct kolo_comm *comm, void *argument)
{
    const struct kolo_opts brief = {.size = sizeof brief, .timeout_ms = 1000};
    const bool is_late = kolo_rank(comm) == 2;
    struct kolo_comm *part = NULL;
    kolo_status status;
    (void)argument;
    if (is_late)
        KOLO_TRY(wait_in_vain(comm, "late", 900));
    status = kolo_dup(comm, is_late ? NULL : &brief, &part);
    if (status == KOLO_ERR_TIMEOUT) /* on a busy machine it may be too late */
        return kolo_barrier(comm, NULL, NULL) == KOLO_OK
                   ? kolo_fail(KOLO_ERR_INTERNAL, "lost in the meeting")
                   : KOLO_OK;
    KOLO_TRY(status);
    KOLO_TRY(kolo_barrier(part, NULL, NULL));
out:
    return status;
}

ON_ALL(who_agreed_in_time_may_still_meet, 60, 3, just_in_time)

/* ---- what is reused ---- */

static kolo_status many_times(struct kolo_comm *comm, void *argument)
{
    enum { TIMES = 150 };
    struct kolo_comm *part;
    struct kolo_link *link = NULL;
    int32_t value = 1;
    kolo_status status;
    (void)argument;
    for (int i = 0; i < TIMES; i++) {
        struct kolo_request *request = NULL;
        KOLO_TRY(kolo_dup(comm, NULL, &part));
        KOLO_TRY(kolo_allreduce(part, &value, &value, 1, KOLO_INT32, KOLO_MAX, NULL, NULL));
        if (i % 10 == 0 && kolo_rank(comm) == 0) /* nobody will ever receive it */
            KOLO_TRY(kolo_send(part, &value, 1, KOLO_INT32, 1, NULL, &request));
        KOLO_TRY(kolo_finalize(part));
    }
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
    kolo_comm_enter(comm);
    status = kolo_endpoint_link(comm->engine->endpoint, 1 - kolo_rank(comm), KOLO_NEVER, &link);
    uint32_t channels = status == KOLO_OK ? link->channels.count : 0;
    kolo_comm_leave(comm);
    WORLD_EXPECT(status == KOLO_OK && (channels > 0 || comm->has_board) && channels < TIMES / 2,
                 "%u channels are left of %d communicators", channels, TIMES);
out:
    return status;
}

ON_ALL(channels_come_back, 60, 2, many_times)

static kolo_status alone(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *part;
    float value[1000] = {1};
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_split(comm, kolo_rank(comm), 0, NULL, &part));
    WORLD_EXPECT(kolo_size(part) == 1 && kolo_rank(part) == 0, "not alone");
    uint64_t before = kolo_alloc_count();
    for (int i = 0; i < 10; i++) {
        KOLO_TRY(kolo_allreduce(part, value, value, 1000, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
        KOLO_TRY(kolo_reduce_scatter(part, value, value, 1000, KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
        KOLO_TRY(kolo_reduce(part, value, value, 1000, KOLO_FLOAT32, KOLO_AVERAGE, 0, NULL, NULL));
        KOLO_TRY(kolo_allgather(part, value, value, 1000, KOLO_FLOAT32, NULL, NULL));
        KOLO_TRY(kolo_barrier(part, NULL, NULL));
    }
    WORLD_EXPECT(kolo_alloc_count() == before, "%llu allocations for a rank alone",
                 (unsigned long long)(kolo_alloc_count() - before));
    WORLD_EXPECT(!part->sequences.sent && !part->scratch.memory &&
                     (!part->ranks || part->ranks == &part->alone),
                 "memory for a rank alone");
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
out:
    return status;
}

Test(split, a_communicator_of_one_rank_needs_nothing, .timeout = 60)
{
    run("inproc", 1, alone, NULL);
}

static kolo_status described(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *part;
    struct kolo_info info = {.size = sizeof info};
    struct kolo_peer_info peer = {.size = sizeof peer};
    kolo_status status;
    (void)argument;
    KOLO_TRY(kolo_split(comm, kolo_rank(comm) % 2, 0, NULL, &part));
    KOLO_TRY(kolo_get_info(part, &info));
    WORLD_EXPECT(info.rank == kolo_rank(comm) / 2 && info.nranks == 2 && info.local_nranks == 2 &&
                     info.local_rank == info.rank,
                 "rank %d of %d, local %d of %d", info.rank, info.nranks, info.local_rank,
                 info.local_nranks);
    KOLO_TRY(kolo_get_peer_info(part, 1 - info.rank, &peer));
    WORLD_EXPECT(peer.rank == 1 - info.rank && strcmp(peer.transport, "inproc") == 0, "peer %d, %s",
                 peer.rank, peer.transport);
out:
    return status;
}

Test(split, it_knows_itself_and_its_peers, .timeout = 60)
{
    run("inproc", 4, described, NULL);
}

/* More than there are remainders by which the engine finds them. */
enum { AT_ONCE = 2 * KOLO_COMM_REMAINDERS + 40 };

static kolo_status exchange(struct kolo_comm *comm, int value)
{
    const int other = 1 - kolo_rank(comm);
    int sum = 0, got = -1;
    struct kolo_request *request = NULL;
    WORLD_TRY(kolo_allreduce(comm, &value, &sum, 1, KOLO_INT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(kolo_recv(comm, &got, 1, KOLO_INT32, other, NULL, &request));
    WORLD_TRY(kolo_send(comm, &value, 1, KOLO_INT32, other, NULL, NULL));
    WORLD_TRY(kolo_wait(&request, -1));
    WORLD_EXPECT(sum == 2 * value && got == value, "%d, %d of %d", sum, got, value);
    return KOLO_OK;
}

/** It is found by its number when a message comes that does not match. */
static kolo_status mismatch(struct kolo_comm *comm)
{
    int64_t word = 0;
    if (kolo_rank(comm) == 0) {
        const kolo_status status = kolo_send(comm, &word, 1, KOLO_INT32, 1, NULL, NULL);
        WORLD_EXPECT(status == KOLO_OK || status == KOLO_ERR_MISMATCH, "%s", kolo_error_detail());
        return KOLO_OK;
    }
    WORLD_EXPECT(kolo_recv(comm, &word, 1, KOLO_INT64, 0, NULL, NULL) == KOLO_ERR_MISMATCH &&
                     strstr(kolo_error_detail(), "int64, from rank 0) in communicator ") &&
                     strstr(kolo_error_detail(), "int32, to rank 1) sequence "),
                 "%s", kolo_error_detail());
    return KOLO_OK;
}

static kolo_status many_at_once(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *parts[AT_ONCE];
    (void)argument;
    for (int i = 0; i < AT_ONCE; i++) {
        WORLD_TRY(kolo_dup(comm, NULL, &parts[i]));
        WORLD_TRY(exchange(parts[i], i));
    }
    for (int i = 0; i < AT_ONCE; i += 3)
        WORLD_TRY(kolo_finalize(parts[i]));
    for (int i = 0; i < AT_ONCE; i++)
        if (i % 3 != 0)
            WORLD_TRY(exchange(parts[i], i));
    WORLD_TRY(mismatch(parts[AT_ONCE - 1]));
    for (int i = 0; i < AT_ONCE; i++)
        if (i % 3 != 0)
            WORLD_TRY(kolo_finalize(parts[i]));
    return exchange(comm, 1);
}

ON_ALL(many_live_at_once, 60, 2, many_at_once)

/** Each allocation of a split fails in turn: the rank returns a status, and nothing hangs or
 * leaks. */
static kolo_status without_memory(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *part = NULL;
    kolo_alloc_fail_nth(*(const uint64_t *)argument);
    kolo_status status = kolo_split(comm, 4, 0, NULL, &part);
    kolo_alloc_fail_nth(0);
    WORLD_EXPECT((status == KOLO_OK) == (part != NULL), "%s", kolo_error_detail());
    WORLD_EXPECT(status != KOLO_ERR_INTERNAL && status != KOLO_ERR_TIMEOUT, "%s",
                 kolo_error_detail());
    (void)kolo_finalize(part);
    return KOLO_OK; /* whatever happened, a status reported it */
}

Test(split, allocation_failures_are_statuses, .timeout = 60)
{
    for (uint64_t nth = 1; nth < 30; nth++)
        run("inproc", 1, without_memory, &nth);
}
