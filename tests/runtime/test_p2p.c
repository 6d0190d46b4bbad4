// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks: order, sizes, all pairs at once, both directions.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "tests/support/world.h"

static void run(const char *transport, int size,
                kolo_status (*body)(struct kolo_comm *comm, void *argument))
{
    struct world world = {.size = size, .transport = transport, .settings = {"KOLO_TIMEOUT=30"}};
    WORLD_MUST_RUN(&world, body, NULL);
}

static const size_t lengths[] = {0, 1, 3, 4095, 4096, 65537, 1 << 20, 300001};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], LONGEST = 1 << 20 };

static uint8_t byte_at(size_t message, size_t i)
{
    return (uint8_t)(message * 31 + i * 7 + (i >> 9));
}

static kolo_status in_order(struct kolo_comm *comm, void *argument)
{
    uint8_t *buffer = malloc(LONGEST);
    kolo_status status = KOLO_OK;
    (void)argument;
    for (size_t m = 0; m < 3 * LENGTHS && status == KOLO_OK; m++) {
        size_t count = lengths[m % LENGTHS];
        if (kolo_rank(comm) == (int)(m / LENGTHS) % 2) {
            for (size_t i = 0; i < count; i++)
                buffer[i] = byte_at(m, i);
            status = kolo_send(comm, buffer, count, KOLO_UINT8, 1 - kolo_rank(comm), NULL, NULL);
            memset(buffer, 0xee, count); /* the buffer may be reused at once */
            continue;
        }
        status = kolo_recv(comm, buffer, count, KOLO_UINT8, 1 - kolo_rank(comm), NULL, NULL);
        for (size_t i = 0; i < count && status == KOLO_OK; i++)
            if (buffer[i] != byte_at(m, i))
                status = kolo_fail(KOLO_ERR_INTERNAL, "message %zu, byte %zu is wrong", m, i);
    }
    free(buffer);
    return status;
}

ParameterizedTestParameters(p2p, order_and_sizes)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, p2p, order_and_sizes, .timeout = 60)
{
    run(param->name, 2, in_order);
}

enum { PER_PAIR = 10 };

static kolo_status everybody_with_everybody(struct kolo_comm *comm, void *argument)
{
    int n = kolo_size(comm), rank = kolo_rank(comm), count = 0;
    struct kolo_request *requests[2 * 8 * PER_PAIR];
    int64_t out[8][PER_PAIR], in[8][PER_PAIR];
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < PER_PAIR; i++)
        for (int step = 1; step < n; step++) {
            int to = (rank + step) % n, from = (rank + n - step) % n;
            out[to][i] = rank * 10000 + to * 100 + i;
            KOLO_TRY(kolo_recv(comm, &in[from][i], 1, KOLO_INT64, from, NULL, &requests[count++]));
            KOLO_TRY(kolo_send(comm, &out[to][i], 1, KOLO_INT64, to, NULL, &requests[count++]));
        }
    KOLO_TRY(kolo_barrier(comm, NULL, NULL)); /* independent of the messages */
    while (count > 0)
        KOLO_TRY(kolo_wait(&requests[--count], -1));
    for (int from = 0; from < n; from++)
        for (int i = 0; i < PER_PAIR && from != rank; i++)
            WORLD_EXPECT(in[from][i] == from * 10000 + rank * 100 + i, "message %d from %d: %lld",
                         i, from, (long long)in[from][i]);
out:
    return status;
}

ParameterizedTestParameters(p2p, all_pairs)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, p2p, all_pairs, .timeout = 60)
{
    run(param->name, 7, everybody_with_everybody);
}

/* ---- over at once, or not ---- */

/** After this, messages between ranks 0 and 1 need not open a connection, and both have left
 * kolo_init. A single message in one direction would not be enough: rank 0 could go on, and fail
 * on purpose, while rank 1 is still starting. */
static kolo_status meet(struct kolo_comm *comm)
{
    int64_t word = 0;
    const int rank = kolo_rank(comm);
    if (rank > 1)
        return KOLO_OK;
    for (int turn = 0; turn < 2; turn++)
        WORLD_TRY(turn == rank ? kolo_send(comm, &word, 1, KOLO_INT64, 1 - rank, NULL, NULL)
                               : kolo_recv(comm, &word, 1, KOLO_INT64, 1 - rank, NULL, NULL));
    return KOLO_OK;
}

static void run_spinning(struct world_param *param, int size,
                         kolo_status (*body)(struct kolo_comm *comm, void *argument),
                         struct world *world)
{
    *world = (struct world){.size = size,
                            .transport = param->name,
                            .settings = {"KOLO_TIMEOUT=20", "KOLO_SPIN_US=100"}};
    (void)world_run(world, body, NULL);
}

enum { MIXED = 2000 };

/** Whether message @p i is sent or received without waiting for it. */
static bool is_async(int i, int rank)
{
    return (i * 7 + rank * 3) % 5 < 2;
}

static kolo_status blocking_among_others(struct kolo_comm *comm, void *argument)
{
    static int64_t data[2][MIXED];
    struct kolo_request *requests[MIXED] = {NULL};
    const int rank = kolo_rank(comm);
    (void)argument;
    for (int i = 0; i < MIXED; i++) {
        struct kolo_request **request = is_async(i, rank) ? &requests[i] : NULL;
        if ((i / 37) % 2 == rank) {
            data[rank][i] = i * 11;
            WORLD_TRY(kolo_send(comm, &data[rank][i], 1, KOLO_INT64, 1 - rank, NULL, request));
        } else {
            WORLD_TRY(kolo_recv(comm, &data[rank][i], 1, KOLO_INT64, 1 - rank, NULL, request));
        }
    }
    for (int i = 0; i < MIXED; i++) {
        WORLD_TRY(kolo_wait(&requests[i], -1));
        WORLD_EXPECT(data[rank][i] == i * 11, "message %d: %lld", i, (long long)data[rank][i]);
    }
    return KOLO_OK;
}

ParameterizedTestParameters(p2p, blocking_ones_keep_the_order_of_all)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, p2p, blocking_ones_keep_the_order_of_all,
                  .timeout = 60)
{
    struct world world;
    run_spinning(param, 2, blocking_among_others, &world);
    for (int rank = 0; rank < 2; rank++)
        cr_assert(world.results[rank].status == KOLO_OK, "rank %d: %s", rank,
                  world.results[rank].text);
}

static atomic_bool has_come; /* shared by all ranks of a test's process */

/** Rank 2 has no links yet. */
static kolo_status third_comes_late(struct kolo_comm *comm, void *argument)
{
    const int rank = kolo_rank(comm);
    int64_t word = 0, last = 0;
    (void)argument;
    WORLD_TRY(meet(comm));
    if (rank == 2) {
        kolo_status status = kolo_send(comm, &word, 1, KOLO_INT64, 0, NULL, NULL);
        atomic_store(&has_come, true);
        return status;
    }
    while (last == 0) {
        last = atomic_load(&has_come);
        WORLD_TRY(rank == 0 ? kolo_send(comm, &last, 1, KOLO_INT64, 1, NULL, NULL)
                            : kolo_recv(comm, &last, 1, KOLO_INT64, 0, NULL, NULL));
    }
    return rank == 0 ? kolo_recv(comm, &word, 1, KOLO_INT64, 2, NULL, NULL) : KOLO_OK;
}

ParameterizedTestParameters(p2p, many_in_a_row_keep_nobody_out)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, p2p, many_in_a_row_keep_nobody_out, .timeout = 60)
{
    struct world world;
    atomic_store(&has_come, false);
    run_spinning(param, 3, third_comes_late, &world);
    for (int rank = 0; rank < 3; rank++)
        cr_assert(world.results[rank].status == KOLO_OK, "rank %d: %s", rank,
                  world.results[rank].text);
}

static kolo_status differ(struct kolo_comm *comm, void *argument)
{
    int64_t data[4] = {0};
    (void)argument;
    WORLD_TRY(meet(comm));
    if (kolo_rank(comm) == 1)
        return kolo_recv(comm, data, 4, KOLO_INT64, 0, NULL, NULL);
    WORLD_TRY(kolo_send(comm, data, 3, KOLO_INT64, 1, NULL, NULL));
    return kolo_barrier(comm, NULL, NULL);
}

static kolo_status none_comes(struct kolo_comm *comm, void *argument)
{
    int64_t data[4] = {0};
    struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 300};
    (void)argument;
    WORLD_TRY(meet(comm));
    if (kolo_rank(comm) == 1)
        return kolo_recv(comm, data, 4, KOLO_INT64, 0, &opts, NULL);
    return kolo_barrier(comm, NULL, NULL);
}

static kolo_status one_leaves(struct kolo_comm *comm, void *argument)
{
    int64_t data[4] = {0};
    (void)argument;
    WORLD_TRY(meet(comm));
    return kolo_rank(comm) == 1 ? kolo_recv(comm, data, 4, KOLO_INT64, 0, NULL, NULL) : KOLO_OK;
}

/** Rank 0 gives up in a series of messages; rank 1 must name the message of the series that did not
 * come. */
static kolo_status one_gives_up(struct kolo_comm *comm, void *argument)
{
    kolo_status status = meet(comm);
    char words[32];
    (void)argument;
    for (int64_t i = 1, word; status == KOLO_OK; i++) {
        word = i;
        snprintf(words, sizeof words, " sequence %d", (int)i);
        status = kolo_rank(comm) == 0 ? kolo_send(comm, &word, 1, KOLO_INT64, 1, NULL, NULL)
                                      : kolo_recv(comm, &word, 1, KOLO_INT64, 0, NULL, NULL);
        if (kolo_rank(comm) == 0 && i == 1000)
            kolo_abort(comm, "enough");
    }
    const char *text = kolo_error_detail();
    const size_t length = strlen(text), end = strlen(words);
    WORLD_EXPECT(status == KOLO_ERR_ABORTED && length > end &&
                     strcmp(text + length - end, words) == 0,
                 "%s, not%s", text, words);
    return KOLO_OK;
}

ParameterizedTestParameters(p2p, a_failure_names_the_message)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, p2p, a_failure_names_the_message, .timeout = 60)
{
    struct world world;
    run_spinning(param, 2, one_gives_up, &world);
    for (int rank = 0; rank < 2; rank++)
        cr_assert(world.results[rank].status == KOLO_OK, "rank %d: %s", rank,
                  world.results[rank].text);
}

static const struct {
    const char *name;
    kolo_status (*body)(struct kolo_comm *comm, void *argument);
    kolo_status status; /* of rank 1, the receiver */
    const char *words[2];
} failing[] = {
    {"other counts",
     differ,
     KOLO_ERR_MISMATCH,
     {"recv(count 4, int64, from rank 0)", "send(count 3, int64, to rank 1)"}},
    {"no message", none_comes, KOLO_ERR_TIMEOUT, {"recv(count 4, int64, from rank 0)", "rank 0 ("}},
    {"a peer that leaves",
     one_leaves,
     KOLO_ERR_PEER,
     {"rank 0 (", "recv(count 4, int64, from rank 0)"}},
};

ParameterizedTestParameters(p2p, what_fails_says_so)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, p2p, what_fails_says_so, .timeout = 60)
{
    for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++) {
        struct world world;
        run_spinning(param, 2, failing[i].body, &world);
        const struct world_result *result = &world.results[1];
        cr_assert(result->status == failing[i].status &&
                      strstr(result->text, failing[i].words[0]) &&
                      strstr(result->text, failing[i].words[1]),
                  "%s: %s: %s", failing[i].name, kolo_status_name(result->status), result->text);
    }
}

/* ---- with a request that is over at once ---- */

enum { AT_ONCE = 10 };

static atomic_int turns; /* whose turn it is, shared by all ranks of a test's process */

static void await_turn(int turn)
{
    while (atomic_load(&turns) < turn)
        sched_yield();
}

static kolo_status send_at_once(struct kolo_comm *comm)
{
    struct kolo_request *requests[AT_ONCE], *same;
    int64_t data[AT_ONCE];
    const uint64_t before = kolo_alloc_count();
    for (int i = 0; i < AT_ONCE; i++) {
        data[i] = i * 5;
        WORLD_TRY(kolo_send(comm, &data[i], 1, KOLO_INT64, 1, NULL, &requests[i]));
        WORLD_EXPECT(requests[i] != NULL, "no request");
    }
    same = requests[0];
    WORLD_INVALID(kolo_start(same), "not made with KOLO_PERSISTENT");
    WORLD_INVALID(kolo_request_free(&same), "not made with KOLO_PERSISTENT");
    for (int i = 0; i < AT_ONCE; i++)
        WORLD_EXPECT((i % 2 ? kolo_test(&requests[i]) : kolo_wait(&requests[i], 0)) == KOLO_OK &&
                         requests[i] == NULL,
                     "message %d is not over", i);
    WORLD_EXPECT(kolo_alloc_count() == before, "%d allocations",
                 (int)(kolo_alloc_count() - before));
    WORLD_TRY(kolo_send(comm, data, 1, KOLO_INT64, 1, NULL, &same)); /* finalize frees it */
    atomic_store(&turns, 1);
    await_turn(2);
    return KOLO_OK;
}

static kolo_status take_at_once(struct kolo_comm *comm)
{
    struct kolo_request *requests[AT_ONCE];
    int64_t data[AT_ONCE] = {0};
    await_turn(1);
    const uint64_t before = kolo_alloc_count();
    for (int i = 0; i < AT_ONCE; i++)
        WORLD_TRY(kolo_recv(comm, &data[i], 1, KOLO_INT64, 0, NULL, &requests[i]));
    for (int i = 0; i < AT_ONCE; i++) {
        WORLD_EXPECT(kolo_test(&requests[i]) == KOLO_OK, "message %d has arrived", i);
        WORLD_EXPECT(data[i] == i * 5, "message %d: %lld", i, (long long)data[i]);
    }
    const uint64_t made = kolo_alloc_count() - before;
    WORLD_TRY(kolo_recv(comm, data, 1, KOLO_INT64, 0, NULL, NULL));
    atomic_store(&turns, 2);
    WORLD_EXPECT(made == 0, "%d allocations", (int)made);
    return KOLO_OK;
}

static kolo_status both_at_once(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    WORLD_TRY(meet(comm));
    const kolo_status status = kolo_rank(comm) == 0 ? send_at_once(comm) : take_at_once(comm);
    atomic_store(&turns, 2); /* if it failed, the other must not wait */
    return status;
}

Test(p2p, short_messages_that_are_over_at_once_need_no_request, .timeout = 60)
{
    struct world_param shm = {.name = "shm"};
    struct world world;
    atomic_store(&turns, 0);
    run_spinning(&shm, 2, both_at_once, &world);
    for (int rank = 0; rank < 2; rank++)
        cr_assert(world.results[rank].status == KOLO_OK, "rank %d: %s", rank,
                  world.results[rank].text);
}

/** The peer is not to blame for memory that the kernel cannot read. */
static kolo_status send_protected(struct kolo_comm *comm, void *argument)
{
    enum { BYTES = 1 << 20 };
    kolo_status status;
    void *memory = mmap(NULL, BYTES, kolo_rank(comm) == 0 ? PROT_NONE : PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)argument;
    WORLD_EXPECT(memory != MAP_FAILED, "mmap");
    if (kolo_rank(comm) == 0)
        status = kolo_send(comm, memory, BYTES, KOLO_UINT8, 1, NULL, NULL);
    else
        status = kolo_recv(comm, memory, BYTES, KOLO_UINT8, 0, NULL, NULL);
    munmap(memory, BYTES);
    return status;
}

Test(p2p, a_buffer_that_cannot_be_read_is_its_own_ranks_fault, .timeout = 60)
{
    /* a checksum would read it in the program, where that is a signal */
    struct world world = {.size = 2, .transport = "tcp", .settings = {"KOLO_CHECKSUM=0"}};
    (void)world_run(&world, send_protected, NULL);
    for (int rank = 0; rank < 2; rank++)
        cr_assert(world.results[rank].status == KOLO_ERR_SYSTEM &&
                      strstr(world.results[rank].text, "rank 0's own buffer, for data to or from "
                                                       "rank 1 at tcp "),
                  "%s: %s", kolo_status_name(world.results[rank].status), world.results[rank].text);
}
