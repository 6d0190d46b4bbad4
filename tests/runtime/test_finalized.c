// SPDX-License-Identifier: Apache-2.0
// runtime/finalized.c: a member finalizes a communicator of kolo_dup while others still call on it,
// over every transport, on boards and over links. A rank that waits for the member learns of it at
// once, although that member never looks at its links again. Calls in which the member took part,
// and messages that it sent before, are not disturbed.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/await.h"
#include "tests/support/world.h"

/** A wait for a deadline (KOLO_TIMEOUT) would take as long as the test may. */
enum { TIMEOUT_S = 60, RANKS = 4, GONE = 1 };

struct way {
    char transport[16], plan[32];
};
static struct way ways[] = {{"inproc", "KOLO_PLAN=auto"}, {"inproc", "KOLO_PLAN=ring"},
                            {"shm", "KOLO_PLAN=auto"},    {"shm", "KOLO_PLAN=ring"},
                            {"tcp", "KOLO_PLAN=auto"},    {"tcp", "KOLO_PLAN=ring"}};

static void run(const struct way *way, int size,
                kolo_status (*body)(struct kolo_comm *comm, void *argument))
{
    atomic_int through = 0;
    struct world world = {.size = size,
                          .transport = way->transport,
                          .settings = {way->plan, "KOLO_TIMEOUT=60", "KOLO_STALL=200ms"}};
    WORLD_MUST_RUN(&world, body, &through);
}

#define ON_ALL(test, size, body)                                                                   \
    ParameterizedTestParameters(finalized, test)                                                   \
    {                                                                                              \
        return cr_make_param_array(struct way, ways, sizeof(ways) / sizeof(ways[0]));              \
    }                                                                                              \
    ParameterizedTest(struct way *way, finalized, test, .timeout = TIMEOUT_S)                      \
    {                                                                                              \
        run(way, size, body);                                                                      \
    }

/** Waits, without calling the library, until @p count others have counted themselves. */
static kolo_status stays_away(const atomic_int *through, int count)
{
    WORLD_EXPECT(AWAIT(atomic_load(through) >= count),
                 "the others wait for a rank that has finalized");
    return KOLO_OK;
}

/** Checks that @p status is what a rank that waits for rank GONE gets, with @p words in the
 * detail. */
static kolo_status names_it(kolo_status status, const char *words)
{
    const char *detail = kolo_error_detail();
    WORLD_EXPECT(status == KOLO_ERR_PEER && strstr(detail, "rank 1 (") &&
                     strstr(detail, "has finalized communicator ") && strstr(detail, words),
                 "%s: %s", kolo_status_name(status), detail);
    return KOLO_OK;
}

static kolo_status sum(struct kolo_comm *comm, int64_t count)
{
    int64_t *data = calloc((size_t)count, sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = kolo_rank(comm) + i;
    kolo_status status =
        kolo_allreduce(comm, data, data, (size_t)count, KOLO_INT64, KOLO_SUM, NULL, NULL);
    int64_t n = kolo_size(comm), last = n * (n - 1) / 2 + n * (count - 1);
    if (status == KOLO_OK && data[count - 1] != last)
        status = kolo_fail(KOLO_ERR_INTERNAL, "the sum is %lld", (long long)data[count - 1]);
    free(data);
    return status;
}

/* ---- calls that it does not make ---- */

static kolo_status calls_on(struct kolo_comm *comm, void *argument)
{
    struct kolo_comm *copy = NULL;
    atomic_int *through = argument;
    kolo_status status;
    KOLO_TRY(kolo_dup(comm, NULL, &copy));
    KOLO_TRY(sum(copy, 1000));
    /* otherwise the failure may reach a rank that is still in the sum */
    KOLO_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == GONE) {
        KOLO_TRY(kolo_finalize(copy));
        KOLO_TRY(stays_away(through, RANKS - 1));
    } else {
        status = sum(copy, 100);
        KOLO_TRY(names_it(status, "where sequence 1 was its last, during allreduce(count 100"));
        WORLD_EXPECT(kolo_barrier(copy, NULL, NULL) == KOLO_ERR_PEER, "a later call");
        ++*through;
        KOLO_TRY(kolo_finalize(copy));
    }
    KOLO_TRY(sum(comm, 1000)); /* the world still works */
out:
    return status;
}

ON_ALL(who_calls_without_it_hears_so, RANKS, calls_on)

/** The others are already in a call when it finalizes, in calls of several kinds. */
static kolo_status waits_already(struct kolo_comm *comm, void *argument)
{
    struct timespec pause = {.tv_nsec = 30000000};
    float data[64] = {0}, all[64 * RANKS];
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int kind = 0; kind < 4; kind++) {
        struct kolo_comm *copy = NULL;
        KOLO_TRY(kolo_dup(comm, NULL, &copy));
        KOLO_TRY(kolo_barrier(comm, NULL, NULL)); /* all have the communicator */
        if (kolo_rank(comm) == GONE) {
            nanosleep(&pause, NULL); /* most likely they are; if not, it is the case above */
            KOLO_TRY(kolo_finalize(copy));
            continue;
        }
        if (kind == 0)
            status = kolo_barrier(copy, NULL, NULL);
        if (kind == 1)
            status = kolo_broadcast(copy, data, 64, KOLO_FLOAT32, GONE, NULL, NULL);
        if (kind == 2)
            status = kolo_reduce(copy, data, data, 64, KOLO_FLOAT32, KOLO_SUM, GONE, NULL, NULL);
        if (kind == 3)
            status = kolo_allgather(copy, data, all, 64, KOLO_FLOAT32, NULL, NULL);
        KOLO_TRY(names_it(status, "where sequence 0 was its last, during "));
        KOLO_TRY(kolo_finalize(copy));
    }
    KOLO_TRY(sum(comm, 1000));
out:
    return status;
}

ON_ALL(who_waits_already_hears_so, RANKS, waits_already)

/* ---- messages ---- */

/** Messages that it sent before arrive. Those that it never sent, or will not receive, end with an
 * error that names it. */
static kolo_status messages(struct kolo_comm *comm, void *argument)
{
    enum { SHORT = 100, LONG = 1 << 20, SENT = 5 };
    struct kolo_comm *copies[2] = {NULL};
    atomic_int *through = argument;
    double *data = calloc(LONG, sizeof *data);
    kolo_status status;
    for (int i = 0; i < 2; i++)
        KOLO_TRY(kolo_dup(comm, NULL, &copies[i]));
    KOLO_TRY(kolo_barrier(comm, NULL, NULL)); /* all have both communicators */
    if (kolo_rank(comm) == GONE) {
        for (int i = 0; i < SENT; i++) {
            data[0] = i + 1;
            KOLO_TRY(kolo_send(copies[0], data, SHORT, KOLO_FLOAT64, 0, NULL, NULL));
        }
        for (int i = 0; i < 2; i++)
            KOLO_TRY(kolo_finalize(copies[i]));
        KOLO_TRY(stays_away(through, 1));
    } else if (kolo_rank(comm) == 0) {
        for (int i = 0; i < SENT; i++) {
            KOLO_TRY(kolo_recv(copies[0], data, SHORT, KOLO_FLOAT64, GONE, NULL, NULL));
            WORLD_EXPECT(data[0] == i + 1.0, "message %d is %g", i, data[0]);
        }
        status = kolo_recv(copies[0], data, SHORT, KOLO_FLOAT64, GONE, NULL, NULL);
        KOLO_TRY(names_it(status, "during recv(count 100"));
        /* some sends may succeed although nobody receives them */
        for (int i = 0; i < 3 && status == KOLO_OK; i++)
            status = kolo_send(copies[1], data, LONG, KOLO_FLOAT64, GONE, NULL, NULL);
        if (status != KOLO_OK)
            KOLO_TRY(names_it(status, "during send("));
        ++*through;
    }
    KOLO_TRY(sum(comm, 1000));
out:
    free(data);
    return status;
}

ON_ALL(messages_of_before_arrive_and_no_others, 3, messages)

/* ---- no false alarm ---- */

/** Every rank finalizes as soon as its own last call is over, and goes on with the next
 * communicator. */
static kolo_status at_once(struct kolo_comm *comm, void *argument)
{
    enum { TIMES = 60, LONG = 20000 };
    int rank = kolo_rank(comm), n = kolo_size(comm);
    int64_t *data = calloc(LONG, sizeof *data), *more = calloc(LONG, sizeof *more);
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < TIMES; i++) {
        struct kolo_comm *copy = NULL;
        struct kolo_request *sending = NULL;
        size_t count = i % 2 == 0 ? 10 : LONG;
        KOLO_TRY(kolo_dup(comm, NULL, &copy));
        if (i % 4 == 0)
            KOLO_TRY(sum(copy, (int64_t)count));
        if (i % 4 == 1)
            KOLO_TRY(kolo_broadcast(copy, data, count, KOLO_INT64, i % n, NULL, NULL));
        if (i % 4 == 2)
            KOLO_TRY(kolo_reduce(copy, data, more, count, KOLO_INT64, KOLO_SUM, i % n, NULL, NULL));
        data[0] = rank;
        KOLO_TRY(kolo_send(copy, data, count, KOLO_INT64, (rank + 1) % n, NULL, &sending));
        KOLO_TRY(kolo_recv(copy, more, count, KOLO_INT64, (rank + n - 1) % n, NULL, NULL));
        WORLD_EXPECT(more[0] == (rank + n - 1) % n, "message %lld", (long long)more[0]);
        KOLO_TRY(kolo_wait(&sending, -1));
        KOLO_TRY(kolo_finalize(copy));
    }
out:
    free(data);
    free(more);
    return status;
}

ON_ALL(whoever_ends_first_disturbs_nobody, RANKS, at_once)

/** A broadcast is closed only for its root: other ranks may have finished it, and finalized, before
 * a late rank calls it. */
static kolo_status broadcasts(struct kolo_comm *comm, void *argument)
{
    enum { TIMES = 60, LONG = 20000 };
    struct timespec pause = {.tv_nsec = 2000000};
    int rank = kolo_rank(comm), n = kolo_size(comm);
    int64_t *data = calloc(LONG, sizeof *data);
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < TIMES; i++) {
        struct kolo_comm *copy = NULL;
        size_t count = i % 2 == 0 ? 10 : LONG;
        int root = i / 2 % n;
        KOLO_TRY(kolo_dup(comm, NULL, &copy));
        data[count - 1] = rank == root ? i : -1;
        if (rank == (root + 1 + i % 3) % n)
            nanosleep(&pause, NULL);
        KOLO_TRY(kolo_broadcast(copy, data, count, KOLO_INT64, root, NULL, NULL));
        WORLD_EXPECT(data[count - 1] == i, "broadcast %d brought %lld", i,
                     (long long)data[count - 1]);
        memset(data, 0x77, LONG * sizeof *data); /* the buffer belongs to this rank again */
        KOLO_TRY(kolo_finalize(copy));
    }
out:
    free(data);
    return status;
}

ON_ALL(a_broadcast_reaches_who_is_late, RANKS, broadcasts)
