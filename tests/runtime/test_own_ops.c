// SPDX-License-Identifier: Apache-2.0
// runtime/own_ops.c: reductions by operators of the program, over every transport and plan, against
// a fold in rank order; ranks that pass different operators; and refusals.
#include <criterion/criterion.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm.h"
#include "tests/support/world.h"

enum { COUNTS = 4, LONGEST = 5000, RANKS_MAX = 5 };
static const size_t counts[COUNTS] = {0, 1, 17, LONGEST};

/** An affine map x -> a x + b modulo 2^32. Composition is associative but not commutative. An
 * element has 12 bytes, which divides no frame's size. */
struct map {
    uint32_t a, b, times; /* times: the number of maps composed */
};

static struct map compose(struct map first, struct map second)
{
    return (struct map){first.a * second.a, second.a * first.b + second.b,
                        first.times + second.times};
}

static void compose_all(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    struct map *a = into;
    const struct map *b = from;
    if (dtype != KOLO_OPAQUE(sizeof(struct map)) || context)
        count = 0; /* the result then shows that it was called */
    for (size_t i = 0; i < count; i++)
        a[i] = compose(a[i], b[i]);
}

/** What a C++ program would call plus, with a context that counts. */
static void add_all(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    double *a = into;
    const double *b = from;
    *(size_t *)context += dtype == KOLO_FLOAT64 ? count : 0;
    for (size_t i = 0; i < count; i++)
        a[i] += b[i];
}

static struct map input(size_t rank, size_t i)
{
    return (struct map){(uint32_t)(2 * (7 * rank + i) + 3), (uint32_t)(rank * 1000 + i), 1};
}

static struct map expected(size_t ranks, size_t i)
{
    struct map map = input(0, i);
    for (size_t rank = 1; rank < ranks; rank++)
        map = compose(map, input(rank, i));
    return map;
}

static kolo_status compare(const struct map *got, size_t ranks, size_t first, size_t count,
                           const char *what)
{
    for (size_t i = 0; i < count; i++) {
        struct map want = expected(ranks, first + i);
        WORLD_EXPECT(memcmp(&got[i], &want, sizeof want) == 0,
                     "%s of %zu: element %zu is {%u, %u, %u}, not {%u, %u, %u}", what, count, i,
                     got[i].a, got[i].b, got[i].times, want.a, want.b, want.times);
    }
    return KOLO_OK;
}

struct stage {
    struct kolo_comm *comm;
    kolo_redop op;
    struct map *send, *recv;
};

static kolo_status reductions(const struct stage *stage, size_t count)
{
    struct kolo_comm *comm = stage->comm;
    const kolo_dtype type = KOLO_OPAQUE(sizeof(struct map));
    const size_t n = (size_t)kolo_size(comm), rank = (size_t)kolo_rank(comm);
    const int root = (int)n - 1;
    for (size_t i = 0; i < count * n; i++)
        stage->send[i] = input(rank, i);
    WORLD_TRY(kolo_allreduce(comm, stage->send, stage->recv, count, type, stage->op, NULL, NULL));
    WORLD_TRY(compare(stage->recv, n, 0, count, "allreduce"));
    WORLD_TRY(
        kolo_reduce(comm, stage->send, stage->recv, count, type, stage->op, root, NULL, NULL));
    if ((int)rank == root)
        WORLD_TRY(compare(stage->recv, n, 0, count, "reduce"));
    struct kolo_request *request = NULL;
    WORLD_TRY(kolo_reduce_scatter(comm, stage->send, stage->recv, count, type, stage->op, NULL,
                                  &request));
    WORLD_TRY(kolo_wait(&request, -1));
    WORLD_TRY(compare(stage->recv, n, rank * count, count, "reduce_scatter"));
    WORLD_TRY(kolo_allreduce(comm, stage->send, stage->send, count, type, stage->op, NULL, NULL));
    return compare(stage->send, n, 0, count, "allreduce in place");
}

/** Collectives that do not combine move elements of any size too. */
static kolo_status moves(const struct stage *stage, size_t count)
{
    struct kolo_comm *comm = stage->comm;
    const kolo_dtype type = KOLO_OPAQUE(sizeof(struct map));
    const size_t n = (size_t)kolo_size(comm), rank = (size_t)kolo_rank(comm);
    for (size_t i = 0; i < count * n; i++)
        stage->send[i] = input(rank, i);
    WORLD_TRY(kolo_alltoall(comm, stage->send, stage->recv, count, type, NULL, NULL));
    for (size_t i = 0; i < count * n; i++) {
        struct map want = input(count == 0 ? 0 : i / count, rank * count + i % count);
        WORLD_EXPECT(memcmp(&stage->recv[i], &want, sizeof want) == 0, "alltoall: element %zu", i);
    }
    WORLD_TRY(kolo_broadcast(comm, stage->send, count, type, 0, NULL, NULL));
    for (size_t i = 0; i < count; i++) {
        struct map want = input(0, i);
        WORLD_EXPECT(memcmp(&stage->send[i], &want, sizeof want) == 0, "broadcast: element %zu", i);
    }
    return KOLO_OK;
}

static kolo_status sums(const struct stage *stage, size_t count)
{
    const size_t n = (size_t)kolo_size(stage->comm), rank = (size_t)kolo_rank(stage->comm);
    double *send = (void *)stage->send, *recv = (void *)stage->recv;
    size_t calls = 0;
    kolo_redop op;
    const struct kolo_op add = {.size = sizeof add,
                                .name = "add",
                                .fold = add_all,
                                .context = &calls,
                                .flags = KOLO_COMMUTATIVE};
    WORLD_TRY(kolo_op_create(stage->comm, &add, &op));
    for (size_t i = 0; i < count; i++)
        send[i] = (double)(rank + i);
    WORLD_TRY(kolo_allreduce(stage->comm, send, recv, count, KOLO_FLOAT64, op, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        WORLD_EXPECT(recv[i] == (double)(n * (n - 1) / 2 + n * i), "sum: element %zu is %g", i,
                     recv[i]);
    int64_t total = (int64_t)calls; /* not every rank must combine something itself */
    WORLD_TRY(kolo_allreduce(stage->comm, &total, &total, 1, KOLO_INT64, KOLO_SUM, NULL, NULL));
    WORLD_EXPECT(n == 1 || count == 0 || total > 0, "the context was not handed over");
    return kolo_op_free(stage->comm, op);
}

static kolo_status all_counts(struct stage *stage)
{
    const struct kolo_op composition = {
        .size = sizeof composition, .name = "compose", .fold = compose_all};
    WORLD_TRY(kolo_op_create(stage->comm, &composition, &stage->op));
    for (int i = 0; i < COUNTS; i++) {
        WORLD_TRY(reductions(stage, counts[i]));
        WORLD_TRY(moves(stage, counts[i]));
        WORLD_TRY(sums(stage, counts[i]));
    }
    return kolo_op_free(stage->comm, stage->op);
}

static kolo_status both_memories(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    struct stage stage = {.comm = comm};
    size_t bytes = LONGEST * RANKS_MAX * sizeof(struct map);
    void *send, *recv;
    WORLD_TRY(kolo_alloc(comm, bytes, &send));
    WORLD_TRY(kolo_alloc(comm, bytes, &recv));
    stage.send = send;
    stage.recv = recv;
    WORLD_TRY(all_counts(&stage));
    stage.send = calloc(1, bytes);
    stage.recv = calloc(1, bytes);
    kolo_status status = stage.send && stage.recv ? all_counts(&stage) : KOLO_ERR_NO_MEMORY;
    free(stage.send);
    free(stage.recv);
    return status;
}

Test(own_ops, every_transport, .timeout = 120)
{
    for (int t = 0; world_transports[t]; t++)
        for (int size = 1; size <= RANKS_MAX; size += 2) {
            struct world world = {.size = size,
                                  .transport = world_transports[t],
                                  .settings = {"KOLO_SEGMENT_BYTES=4KiB"}};
            WORLD_MUST_RUN(&world, both_memories, NULL);
        }
}

static kolo_status ordered_by_links(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    struct stage stage = {.comm = comm,
                          .send = calloc(LONGEST * RANKS_MAX, sizeof(struct map)),
                          .recv = calloc(LONGEST * RANKS_MAX, sizeof(struct map))};
    const struct kolo_op composition = {
        .size = sizeof composition, .name = "compose", .fold = compose_all};
    kolo_status status = stage.send && stage.recv ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    if (status == KOLO_OK)
        status = kolo_op_create(comm, &composition, &stage.op);
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, stage.send, stage.recv, LONGEST,
                                KOLO_OPAQUE(sizeof(struct map)), stage.op, NULL, NULL);
    for (int i = 0; i < COUNTS && status == KOLO_OK; i++)
        status = sums(&stage, counts[i]);
    free(stage.send);
    free(stage.recv);
    return status;
}

/** Plans that combine pairs can use only commutative operators, because they combine on arrival. */
Test(own_ops, forced_plans, .timeout = 120)
{
    static const char *const plans[] = {"KOLO_PLAN=ring", "KOLO_PLAN=doubling", "KOLO_PLAN=direct",
                                        "KOLO_PLAN=flat"};
    for (int t = 0; world_transports[t]; t++)
        for (int i = 0; i < 4; i++) {
            struct world world = {.size = 3,
                                  .transport = world_transports[t],
                                  .settings = {plans[i], "KOLO_SEGMENT_BYTES=4KiB"}};
            kolo_status status = world_run(&world, ordered_by_links, NULL);
            cr_assert(status == (i < 2 ? KOLO_ERR_UNSUPPORTED : KOLO_OK), "%s, %s: %s",
                      world_transports[t], plans[i], world_cause(&world)->text);
        }
}

/** The value of the lowest rank: associative, not commutative. */
static void keep_all(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    (void)into, (void)from, (void)count, (void)dtype, (void)context;
}

static kolo_status lowest(struct kolo_comm *comm, void *argument)
{
    const struct kolo_op keep = {.size = sizeof keep, .name = "keep", .fold = keep_all};
    static int32_t memory[WORLD_RANKS_MAX][LONGEST];
    int32_t *values = memory[kolo_rank(comm)];
    kolo_redop op;
    (void)argument;
    WORLD_TRY(kolo_op_create(comm, &keep, &op));
    for (int i = 0; i < COUNTS; i++) {
        for (size_t k = 0; k < counts[i]; k++)
            values[k] = kolo_rank(comm) * 10000 + (int32_t)k;
        kolo_status status =
            kolo_allreduce(comm, values, values, counts[i], KOLO_INT32, op, NULL, NULL);
        if (status != KOLO_OK)
            return status;
        for (size_t k = 0; k < counts[i]; k++)
            WORLD_EXPECT(values[k] == (int32_t)k, "[%zu] is %d", k, (int)values[k]);
    }
    return kolo_op_free(comm, op);
}

/** Whatever its elements' size, an operator that does not say so is not taken for commutative. */
Test(own_ops, in_order_though_elements_divide_frames, .timeout = 120)
{
    static const char *const plans[] = {"KOLO_PLAN=auto", "KOLO_PLAN=ring", "KOLO_PLAN=doubling"};
    for (int t = 0; world_transports[t]; t++)
        for (int i = 0; i < 3; i++) {
            struct world world = {
                .size = 3, .transport = world_transports[t], .settings = {plans[i]}};
            kolo_status status = world_run(&world, lowest, NULL);
            cr_assert(status == (i > 0 ? KOLO_ERR_UNSUPPORTED : KOLO_OK), "%s, %s: %s",
                      world_transports[t], plans[i], world_cause(&world)->text);
        }
}

static kolo_status sums_alone(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    static double memory[WORLD_RANKS_MAX][2][LONGEST];
    struct stage stage = {.comm = comm,
                          .send = (void *)memory[kolo_rank(comm)][0],
                          .recv = (void *)memory[kolo_rank(comm)][1]};
    for (int i = 0; i < COUNTS; i++)
        WORLD_TRY(sums(&stage, counts[i]));
    return KOLO_OK;
}

Test(own_ops, commutative_on_arrival, .timeout = 120)
{
    static const char *const plans[] = {"KOLO_PLAN=ring", "KOLO_PLAN=doubling"};
    for (int t = 0; world_transports[t]; t++)
        for (int i = 0; i < 2; i++) {
            struct world world = {.size = 3,
                                  .transport = world_transports[t],
                                  .settings = {plans[i], "KOLO_SEGMENT_BYTES=4KiB"}};
            WORLD_MUST_RUN(&world, sums_alone, NULL);
        }
}

static kolo_status different_names(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    const struct kolo_op mine = {
        .size = sizeof mine, .name = kolo_rank(comm) == 0 ? "left" : "right", .fold = compose_all};
    struct map map = input(0, 0);
    kolo_redop op;
    WORLD_TRY(kolo_op_create(comm, &mine, &op));
    kolo_status status =
        kolo_allreduce(comm, &map, &map, 1, KOLO_OPAQUE(sizeof map), op, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s", kolo_status_name(status));
    /* the detail is about both ranks, or about this one only */
    const char *detail = kolo_error_detail();
    bool names_both = strstr(detail, "'left'") && strstr(detail, "'right'");
    WORLD_EXPECT(names_both || strstr(detail, "another operator"), "%s", detail);
    return KOLO_OK;
}

static kolo_status different_sizes(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    char bytes[32] = {0};
    kolo_status status =
        kolo_broadcast(comm, bytes, 1, KOLO_OPAQUE(12 + kolo_rank(comm)), 0, NULL, NULL);
    /* its root has only sent, and learns of the failure in the next call */
    if (kolo_rank(comm) == 0 && status == KOLO_OK)
        status = kolo_barrier(comm, NULL, NULL);
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s", kolo_status_name(status));
    WORLD_EXPECT(strstr(kolo_error_detail(), "12 bytes each") != NULL, "%s", kolo_error_detail());
    return KOLO_OK;
}

Test(own_ops, ranks_that_differ, .timeout = 60)
{
    for (int t = 0; world_transports[t]; t++) {
        struct world world = {
            .size = 2, .transport = world_transports[t], .settings = {"KOLO_STALL=1"}};
        WORLD_MUST_RUN(&world, different_names, NULL);
        WORLD_MUST_RUN(&world, different_sizes, NULL);
    }
}

static kolo_status refusals(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    char text[KOLO_OP_NAME_MAX + 2];
    struct kolo_op op = {.size = sizeof op, .name = "x", .fold = compose_all};
    struct map a[2] = {{0, 0, 0}, {1, 1, 1}};
    const kolo_dtype type = KOLO_OPAQUE(sizeof *a);
    kolo_redop made, other;
    memset(text, 'n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    WORLD_INVALID(kolo_op_create(NULL, &op, &made), "comm");
    WORLD_INVALID(kolo_op_create(comm, NULL, &made), "op is");
    WORLD_INVALID(kolo_op_create(comm, &op, NULL), "op_out");
    op.flags = 2;
    WORLD_INVALID(kolo_op_create(comm, &op, &made), "flags");
    op.flags = 0;
    op.name = text;
    WORLD_INVALID(kolo_op_create(comm, &op, &made), "name");
    op.name = "two\nlines";
    WORLD_INVALID(kolo_op_create(comm, &op, &made), "byte 3 of op->name");
    op.name = "a\xc2\x9b"
              "31mred"; /* CSI, as one character of Unicode */
    WORLD_INVALID(kolo_op_create(comm, &op, &made),
                  "byte 1 of op->name is the control character 0x9b");
    op.name = "x";
    op.fold = NULL;
    WORLD_INVALID(kolo_op_create(comm, &op, &made), "fold");
    op.fold = compose_all;
    op.size--;
    WORLD_INVALID(kolo_op_create(comm, &op, &made), "size");
    op.size++;
    WORLD_TRY(kolo_op_create(comm, &op, &made));
    WORLD_TRY(kolo_op_create(comm, &op, &other));
    WORLD_EXPECT(made != other, "one number for two");
    WORLD_INVALID(kolo_allreduce(comm, a, a + 1, 1, type, KOLO_SUM, NULL, NULL), "opaque");
    WORLD_INVALID(kolo_allreduce(comm, a, a + 1, 1, KOLO_OPAQUE(0), made, NULL, NULL), "type");
    WORLD_INVALID(kolo_allreduce(comm, a, a + 1, 1, KOLO_OPAQUE(4097), made, NULL, NULL), "type");
    WORLD_INVALID(kolo_allreduce(comm, a, a + 1, SIZE_MAX / 4096, type, made, NULL, NULL),
                  "too large");
    struct kolo_request *request = NULL;
    WORLD_TRY(kolo_allreduce(comm, a, a, 1, type, made, NULL, &request));
    WORLD_INVALID(kolo_op_free(comm, made), "in use");
    WORLD_TRY(kolo_wait(&request, -1));
    WORLD_TRY(kolo_op_free(comm, made));
    WORLD_INVALID(kolo_op_free(comm, made), "was not made");
    WORLD_INVALID(kolo_op_free(comm, KOLO_SUM), "was not made");
    WORLD_INVALID(kolo_allreduce(comm, a, a + 1, 1, type, made, NULL, NULL), "kolo_op_create");
    WORLD_EXPECT(a[0].a == 0 && a[1].a == 1, "written");
    /* more than the initial size of the table; finalize frees those that are left */
    for (int i = 0; i < 40; i++)
        WORLD_TRY(kolo_op_create(comm, &op, &made));
    return KOLO_OK;
}

Test(own_ops, refusals)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, refusals, NULL);
}
