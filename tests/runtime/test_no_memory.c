// SPDX-License-Identifier: Apache-2.0
// Allocations fail one by one in every kind of call. Whichever it is, and on whichever rank:
// results are right, or a call says why not; a call that lacked memory before anything was sent can
// be repeated; a rank that loses the communicator passes that on, so nobody waits for a deadline;
// and no rank takes it for a fault of another kind.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <stdint.h>
#include <stdlib.h>

#include <kolo/metrics.h>

#include "base/alloc.h"
#include "tests/support/any_collective.h"
#include "tests/support/length.h"
#include "tests/support/world.h"

enum {
    RANKS = 3,
    SHORT = 4,
    LONG = 40000,  /* elements of a block: several chunks, and above every threshold */
    ATTEMPTS = 24, /* allocations that fail, one in each world */
    ATTEMPTS_SOAK = 80
};

struct trial {
    int kind;
    size_t count;    /* of a block */
    bool is_in_heap; /* buffers of kolo_alloc */
    uint64_t nth;    /* the allocation that fails */
};

/** Buffers of RANKS blocks. */
struct buffers {
    float *send, *recv;
};

/** Repeats @p call if it says that nothing was sent for want of memory. Only one allocation fails,
 * so if it fails again the communicator is lost. */
#define AGAIN_IF_POOR(status, call)                                                                \
    do {                                                                                           \
        (status) = (call);                                                                         \
        if ((status) == KOLO_ERR_NO_MEMORY)                                                        \
            (status) = (call);                                                                     \
    } while (0)

static float value_of(int rank, size_t i)
{
    return (float)((rank + 1) * (int)(i % 50 + 1));
}

/** The sum of element @p i of all ranks. */
static float sum_of(size_t i)
{
    float sum = 0;
    for (int rank = 0; rank < RANKS; rank++)
        sum += value_of(rank, i);
    return sum;
}

static kolo_status check_sums(const float *recv, size_t count)
{
    for (size_t i = 0; i < count; i++)
        WORLD_EXPECT(recv[i] == sum_of(i), "sum %zu is %g, not %g", i, (double)recv[i],
                     (double)sum_of(i));
    return KOLO_OK;
}

/** Checks the blocks of @p count elements in @p recv: block r is what rank r sent. */
static kolo_status check_blocks(const float *recv, size_t count)
{
    for (int rank = 0; rank < RANKS; rank++)
        for (size_t i = 0; i < count; i++)
            WORLD_EXPECT(recv[(size_t)rank * count + i] == value_of(rank, i),
                         "block %d, element %zu", rank, i);
    return KOLO_OK;
}

static kolo_status check_sent_by(int rank, const float *recv, size_t count)
{
    for (size_t i = 0; i < count; i++)
        WORLD_EXPECT(recv[i] == value_of(rank, i), "element %zu of rank %d", i, rank);
    return KOLO_OK;
}

/** Whether @p recv has what the collective gives rank @p rank. */
static kolo_status check_result(enum any_collective which, int rank, const float *recv,
                                size_t count)
{
    const int root = RANKS / 2; /* of any_collective() */
    switch (which) {
    case ANY_REDUCE:
        return rank == root ? check_sums(recv, count) : KOLO_OK;
    case ANY_ALLREDUCE:
    case ANY_REDUCE_SCATTER:
    case ANY_REDUCE_SCATTERV:
        return check_sums(recv, count);
    case ANY_GATHER:
    case ANY_GATHERV:
        return rank == root ? check_blocks(recv, count) : KOLO_OK;
    case ANY_ALLGATHER:
    case ANY_ALLGATHERV:
    case ANY_ALLTOALL:
    case ANY_ALLTOALLV:
        return check_blocks(recv, count);
    case ANY_BROADCAST:
    case ANY_SCATTER:
    case ANY_SCATTERV:
        return check_sent_by(root, recv, count);
    case ANY_COLLECTIVES:
        break;
    }
    return kolo_fail(KOLO_ERR_INTERNAL, "no such collective");
}

/* ---- the calls ---- */

static kolo_status collective(struct kolo_comm *comm, const struct trial *trial,
                              const struct buffers *buffers)
{
    const struct any_call any = {.which = (enum any_collective)trial->kind,
                                 .dtype = KOLO_FLOAT32,
                                 .op = KOLO_SUM,
                                 .count = trial->count,
                                 .apart = trial->count};
    kolo_status status;
    AGAIN_IF_POOR(status, any_collective(comm, &any, buffers->send, buffers->recv));
    WORLD_TRY(status);
    return check_result(any.which, kolo_rank(comm), buffers->recv, trial->count);
}

/** Each rank sends to the next one. */
static kolo_status messages(struct kolo_comm *comm, const struct trial *trial,
                            const struct buffers *buffers)
{
    const int to = (kolo_rank(comm) + 1) % RANKS, from = (kolo_rank(comm) + RANKS - 1) % RANKS;
    struct kolo_request *request = NULL;
    kolo_status status;
    AGAIN_IF_POOR(status,
                  kolo_send(comm, buffers->send, trial->count, KOLO_FLOAT32, to, NULL, &request));
    WORLD_TRY(status);
    AGAIN_IF_POOR(status,
                  kolo_recv(comm, buffers->recv, trial->count, KOLO_FLOAT32, from, NULL, NULL));
    const kolo_status sent = kolo_wait(&request, -1);
    WORLD_TRY(status);
    WORLD_TRY(sent);
    return check_sent_by(from, buffers->recv, trial->count);
}

static kolo_status request(struct kolo_comm *comm, const struct trial *trial,
                           const struct buffers *buffers)
{
    struct kolo_request *sum = NULL;
    kolo_status status;
    AGAIN_IF_POOR(status, kolo_allreduce(comm, buffers->send, buffers->recv, trial->count,
                                         KOLO_FLOAT32, KOLO_SUM, NULL, &sum));
    WORLD_TRY(status);
    WORLD_TRY(kolo_wait(&sum, -1));
    return check_sums(buffers->recv, trial->count);
}

static kolo_status persistent(struct kolo_comm *comm, const struct trial *trial,
                              const struct buffers *buffers)
{
    const struct kolo_opts again = {.size = sizeof again, .flags = KOLO_PERSISTENT};
    struct kolo_request *sum = NULL;
    kolo_status status;
    AGAIN_IF_POOR(status, kolo_allreduce(comm, buffers->send, buffers->recv, trial->count,
                                         KOLO_FLOAT32, KOLO_SUM, &again, &sum));
    for (int i = 0; i < 2 && status == KOLO_OK; i++)
        AGAIN_IF_POOR(status, kolo_run(sum));
    (void)kolo_request_free(&sum);
    return status == KOLO_OK ? check_sums(buffers->recv, trial->count) : status;
}

/** Two sums in one group, the second in the second block. */
static kolo_status grouped(struct kolo_comm *comm, const struct trial *trial,
                           const struct buffers *buffers)
{
    WORLD_TRY(kolo_group_begin(comm));
    for (size_t i = 0; i < 2; i++)
        if (kolo_allreduce(comm, buffers->send + i * trial->count, buffers->recv + i * trial->count,
                           trial->count, KOLO_FLOAT32, KOLO_SUM, NULL, NULL) != KOLO_OK)
            break; /* the end says why */
    return kolo_group_end(comm, NULL, NULL);
}

static kolo_status group(struct kolo_comm *comm, const struct trial *trial,
                         const struct buffers *buffers)
{
    kolo_status status;
    AGAIN_IF_POOR(status, grouped(comm, trial, buffers));
    return status == KOLO_OK ? check_sums(buffers->recv, trial->count) : status;
}

static void add(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    float *sums = into;
    (void)dtype;
    (void)context;
    for (size_t i = 0; i < count; i++)
        sums[i] += ((const float *)from)[i];
}

static kolo_status own_operator(struct kolo_comm *comm, const struct trial *trial,
                                const struct buffers *buffers)
{
    const struct kolo_op sum = {.size = sizeof sum, .name = "plus", .fold = add};
    kolo_redop op;
    kolo_status status;
    AGAIN_IF_POOR(status, kolo_op_create(comm, &sum, &op));
    WORLD_TRY(status);
    AGAIN_IF_POOR(status, kolo_allreduce(comm, buffers->send, buffers->recv, trial->count,
                                         KOLO_FLOAT32, op, NULL, NULL));
    return status == KOLO_OK ? check_sums(buffers->recv, trial->count) : status;
}

static kolo_status compute(struct kolo_comm *comm, struct kolo_metric *mean)
{
    struct kolo_mean_result result = {.size = sizeof result};
    kolo_status status = kolo_metrics_compute(comm, &mean, 1, NULL);
    if (status == KOLO_OK)
        status = kolo_mean_result(mean, &result);
    WORLD_EXPECT(status != KOLO_OK || result.mean == 2, "a mean of %g", result.mean);
    return status;
}

static kolo_status metric(struct kolo_comm *comm, const struct trial *trial,
                          const struct buffers *buffers)
{
    const struct kolo_mean_config config = {.size = sizeof config};
    const double value = kolo_rank(comm) + 1;
    struct kolo_metric *mean = NULL;
    kolo_status status;
    (void)trial;
    (void)buffers;
    AGAIN_IF_POOR(status, kolo_mean_create(&config, &mean));
    WORLD_TRY(status);
    AGAIN_IF_POOR(status, kolo_mean_update_float64(mean, &value, 1, NULL));
    if (status == KOLO_OK)
        status = compute(comm, mean); /* not again: all ranks hear of it */
    kolo_metric_destroy(mean);
    return status;
}

static kolo_status keys(struct kolo_comm *comm, const struct trial *trial,
                        const struct buffers *buffers)
{
    int64_t sum = 0;
    char value[8] = "";
    size_t bytes = sizeof value;
    kolo_status status = KOLO_OK;
    (void)trial;
    (void)buffers;
    AGAIN_IF_POOR(status, kolo_kv_add(comm, "sum", 1, &sum));
    WORLD_TRY(status);
    if (kolo_rank(comm) == 0)
        AGAIN_IF_POOR(status, kolo_kv_set(comm, "key", "value", 5));
    WORLD_TRY(status);
    AGAIN_IF_POOR(status, kolo_kv_get(comm, "key", value, &bytes, -1));
    WORLD_EXPECT(status != KOLO_OK || (bytes == 5 && memcmp(value, "value", 5) == 0), "%.8s",
                 value);
    return status;
}

static kolo_status copied(struct kolo_comm *comm, const struct trial *trial,
                          const struct buffers *buffers)
{
    struct kolo_comm *copy = NULL;
    kolo_status status;
    AGAIN_IF_POOR(status, kolo_dup(comm, NULL, &copy));
    WORLD_TRY(status);
    AGAIN_IF_POOR(status, kolo_allreduce(copy, buffers->send, buffers->recv, trial->count,
                                         KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    WORLD_TRY(status);
    WORLD_TRY(check_sums(buffers->recv, trial->count));
    return kolo_finalize(copy);
}

static kolo_status shrunk(struct kolo_comm *comm, const struct trial *trial,
                          const struct buffers *buffers)
{
    struct kolo_comm *copy = NULL, *rest = NULL;
    kolo_status status;
    kolo_alloc_fail_nth(0);
    WORLD_TRY(kolo_dup(comm, NULL, &copy));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        kolo_alloc_fail_nth(trial->nth);
    kolo_abort(copy, "so that it can be shrunk");
    AGAIN_IF_POOR(status, kolo_shrink(copy, NULL, &rest));
    WORLD_TRY(status);
    if (kolo_size(rest) < RANKS)
        return kolo_fail(KOLO_ERR_PEER, "a rank lost a connection for want of memory");
    AGAIN_IF_POOR(status, kolo_allreduce(rest, buffers->send, buffers->recv, trial->count,
                                         KOLO_FLOAT32, KOLO_SUM, NULL, NULL));
    return status == KOLO_OK ? check_sums(buffers->recv, trial->count) : status;
}

typedef kolo_status call_fn(struct kolo_comm *comm, const struct trial *trial,
                            const struct buffers *buffers);

static call_fn *const others[] = {copied,       messages, request, persistent, group,
                                  own_operator, metric,   keys,    shrunk};
enum { COPIED = ANY_COLLECTIVES, KINDS = ANY_COLLECTIVES + sizeof others / sizeof others[0] };

/* ---- a world for each ---- */

static kolo_status play(struct kolo_comm *comm, const struct trial *trial,
                        const struct buffers *buffers)
{
    const int rank = kolo_rank(comm);
    call_fn *call =
        trial->kind < ANY_COLLECTIVES ? collective : others[trial->kind - ANY_COLLECTIVES];
    for (size_t i = 0; i < RANKS * trial->count; i++) {
        buffers->send[i] = value_of(rank, i % trial->count);
        buffers->recv[i] = trial->kind == ANY_BROADCAST ? value_of(rank, i) : -1;
    }
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (rank == 0)
        kolo_alloc_fail_nth(trial->nth);
    const kolo_status status = call(comm, trial, buffers);
    kolo_alloc_fail_nth(0);
    const kolo_status last = kolo_barrier(comm, NULL, NULL);
    return status == KOLO_OK ? last : status;
}

static kolo_status lacking(struct kolo_comm *comm, void *argument)
{
    const struct trial *trial = argument;
    const size_t bytes = RANKS * trial->count * sizeof(float);
    void *send = NULL, *recv = NULL;
    if (trial->is_in_heap) {
        WORLD_TRY(kolo_alloc(comm, bytes, &send));
        WORLD_TRY(kolo_alloc(comm, bytes, &recv));
    } else {
        send = malloc(bytes);
        recv = malloc(bytes);
    }
    const struct buffers buffers = {send, recv};
    const kolo_status status =
        send && recv ? play(comm, trial, &buffers) : kolo_fail(KOLO_ERR_INTERNAL, "no memory");
    if (!trial->is_in_heap) {
        free(send);
        free(recv);
    }
    return status;
}

/** Whether a rank may end like this if one allocation fails. ERR_PEER: some rank could not keep a
 * link, or its connection to the store, for want of memory. ERR_SYSTEM: from kolo_dup. */
static bool is_honest(int kind, kolo_status status)
{
    return status == KOLO_OK || status == KOLO_ERR_NO_MEMORY || status == KOLO_ERR_PEER ||
           (kind == COPIED && status == KOLO_ERR_SYSTEM);
}

static void check(const char *transport, struct trial trial)
{
    struct world world = {.size = RANKS, .transport = transport, .settings = {"KOLO_TIMEOUT=30s"}};
    (void)world_run(&world, lacking, &trial);
    for (int rank = 0; rank < RANKS; rank++)
        cr_assert(is_honest(trial.kind, world.results[rank].status),
                  "%s, call %d of %zu elements, heap %d, allocation %d, rank %d: %s: %s", transport,
                  trial.kind, trial.count, trial.is_in_heap, (int)trial.nth, rank,
                  kolo_status_name(world.results[rank].status), world.results[rank].text);
}

ParameterizedTestParameters(no_memory, one_allocation_fails)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, no_memory, one_allocation_fails, .timeout = 500)
{
    const uint64_t attempts = test_is_long() ? ATTEMPTS_SOAK : ATTEMPTS;
    for (int kind = 0; kind < KINDS; kind++)
        for (int way = 0; way < (kind < ANY_COLLECTIVES ? 4 : 2); way++)
            for (uint64_t nth = 1; nth <= attempts; nth++)
                check(param->name,
                      (struct trial){kind, way & 1 ? LONG : SHORT, (way & 2) != 0, nth});
}
