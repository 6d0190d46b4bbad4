// SPDX-License-Identifier: Apache-2.0
// Ranks that call different things: every rank must end with the same status and a text that names
// both calls. Also broadcasts that are over on some ranks, where only later calls reveal the
// difference.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/call.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/world.h"

/** Whether all ranks of such a world can have a board. */
static bool has_board(const struct world_param *param)
{
    return strcmp(param->name, "tcp") != 0;
}

/* ---- different calls ---- */

/** One of two calls that do not match. */
struct side {
    enum kolo_call_kind kind;
    size_t count;
    kolo_dtype dtype;
    kolo_redop op;
    int root;
    const char *name;
};

struct quarrel {
    const char *what;
    struct side sides[2];
};

static const struct quarrel quarrels[] = {
    {"counts",
     {{.kind = KOLO_CALL_ALLREDUCE, .count = 10}, {.kind = KOLO_CALL_ALLREDUCE, .count = 11}}},
    {"long counts",
     {{.kind = KOLO_CALL_ALLREDUCE, .count = 50000},
      {.kind = KOLO_CALL_ALLREDUCE, .count = 50001}}},
    {"plans by size",
     {{.kind = KOLO_CALL_ALLREDUCE, .count = 1}, {.kind = KOLO_CALL_ALLREDUCE, .count = 50000}}},
    {"types",
     {{.kind = KOLO_CALL_ALLREDUCE, .count = 8, .dtype = KOLO_FLOAT32},
      {.kind = KOLO_CALL_ALLREDUCE, .count = 8, .dtype = KOLO_INT32}}},
    {"operators",
     {{.kind = KOLO_CALL_ALLREDUCE, .count = 8, .op = KOLO_SUM},
      {.kind = KOLO_CALL_ALLREDUCE, .count = 8, .op = KOLO_MAX}}},
    {"broadcast roots",
     {{.kind = KOLO_CALL_BROADCAST, .count = 8, .dtype = KOLO_UINT8, .root = 0},
      {.kind = KOLO_CALL_BROADCAST, .count = 8, .dtype = KOLO_UINT8, .root = 1}}},
    {"broadcast counts",
     {{.kind = KOLO_CALL_BROADCAST, .count = 8, .dtype = KOLO_UINT8, .root = 1},
      {.kind = KOLO_CALL_BROADCAST, .count = 9, .dtype = KOLO_UINT8, .root = 1}}},
    {"long broadcasts",
     {{.kind = KOLO_CALL_BROADCAST, .count = 3000000, .dtype = KOLO_UINT8, .root = 0},
      {.kind = KOLO_CALL_BROADCAST, .count = 3000000, .dtype = KOLO_UINT8, .root = 1}}},
    {"reduce roots",
     {{.kind = KOLO_CALL_REDUCE, .count = 8, .root = 0},
      {.kind = KOLO_CALL_REDUCE, .count = 8, .root = 1}}},
    {"gather roots",
     {{.kind = KOLO_CALL_GATHER, .count = 8, .root = 1},
      {.kind = KOLO_CALL_GATHER, .count = 8, .root = 0}}},
    {"scatter roots",
     {{.kind = KOLO_CALL_SCATTER, .count = 50000, .root = 1},
      {.kind = KOLO_CALL_SCATTER, .count = 50000, .root = 0}}},
    {"collectives",
     {{.kind = KOLO_CALL_ALLREDUCE, .count = 8}, {.kind = KOLO_CALL_ALLGATHER, .count = 8}}},
    {"barrier and reduce",
     {{.kind = KOLO_CALL_BARRIER}, {.kind = KOLO_CALL_REDUCE, .count = 8, .root = 1}}},
    {"barrier and broadcast",
     {{.kind = KOLO_CALL_BARRIER},
      {.kind = KOLO_CALL_BROADCAST, .count = 8, .dtype = KOLO_UINT8, .root = 1}}},
    {"reduce_scatter and allreduce",
     {{.kind = KOLO_CALL_REDUCE_SCATTER, .count = 8}, {.kind = KOLO_CALL_ALLREDUCE, .count = 8}}},
    {"nothing and something",
     {{.kind = KOLO_CALL_ALLREDUCE, .count = 0}, {.kind = KOLO_CALL_ALLREDUCE, .count = 5}}},
    {"names",
     {{.kind = KOLO_CALL_ALLREDUCE, .count = 8, .name = "grad/3"},
      {.kind = KOLO_CALL_ALLREDUCE, .count = 8, .name = "grad/4"}}},
};
enum { QUARRELS = sizeof quarrels / sizeof quarrels[0] };

/** A broadcast that also checks the data it received, and fails if they are wrong. */
static kolo_status do_broadcast(struct kolo_comm *comm, const struct side *side, char *data,
                                const struct kolo_opts *opts)
{
    memset(data, 100 + kolo_rank(comm), side->count);
    kolo_status status =
        kolo_broadcast(comm, data, side->count, KOLO_UINT8, side->root, opts, NULL);
    for (size_t i = 0; status == KOLO_OK && i < side->count; i++)
        WORLD_EXPECT(data[i] == 100 + side->root, "element %zu of the broadcast is wrong", i);
    return status;
}

static kolo_status do_call(struct kolo_comm *comm, const struct side *side)
{
    struct kolo_opts opts = {.size = sizeof opts, .name = side->name};
    size_t all = side->count * (size_t)kolo_size(comm) * 8 + 8;
    char *send = calloc(all, 1), *recv = calloc(all, 1);
    kolo_status status = KOLO_ERR_INTERNAL;
    if (side->kind == KOLO_CALL_ALLREDUCE)
        status = kolo_allreduce(comm, send, recv, side->count, side->dtype, side->op, &opts, NULL);
    if (side->kind == KOLO_CALL_REDUCE)
        status = kolo_reduce(comm, send, recv, side->count, side->dtype, side->op, side->root,
                             &opts, NULL);
    if (side->kind == KOLO_CALL_BROADCAST)
        status = do_broadcast(comm, side, recv, &opts);
    if (side->kind == KOLO_CALL_GATHER)
        status = kolo_gather(comm, send, recv, side->count, side->dtype, side->root, &opts, NULL);
    if (side->kind == KOLO_CALL_SCATTER)
        status = kolo_scatter(comm, send, recv, side->count, side->dtype, side->root, &opts, NULL);
    if (side->kind == KOLO_CALL_ALLGATHER)
        status = kolo_allgather(comm, send, recv, side->count, side->dtype, &opts, NULL);
    if (side->kind == KOLO_CALL_REDUCE_SCATTER)
        status =
            kolo_reduce_scatter(comm, send, recv, side->count, side->dtype, side->op, &opts, NULL);
    if (side->kind == KOLO_CALL_BARRIER)
        status = kolo_barrier(comm, &opts, NULL);
    free(send);
    free(recv);
    return status;
}

struct dispute {
    const struct quarrel *quarrel;
    int odd; /* the rank whose call differs */
};

static kolo_status differ(struct kolo_comm *comm, void *argument)
{
    const struct dispute *dispute = argument;
    const struct side *side = &dispute->quarrel->sides[kolo_rank(comm) == dispute->odd];
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* sequence 0: all ranks agree */
    if (status == KOLO_OK)
        status = do_call(comm, side);
    /* a broadcast may end on this rank before the difference is known: then the next call fails */
    if (status == KOLO_OK && side->kind == KOLO_CALL_BROADCAST)
        status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK)
        return status;
    char first[KOLO_DETAIL_MAX];
    strcpy(first, kolo_error_detail());
    kolo_status again = kolo_barrier(comm, NULL, NULL);
    WORLD_EXPECT(again == status, "a later call returns %s, not %s", kolo_status_name(again),
                 kolo_status_name(status));
    return kolo_fail(status, "%s", first);
}

static void words_of(const struct side *side, char *words, size_t capacity)
{
    struct kolo_call call = {.kind = side->kind,
                             .count = side->count,
                             .dtype = side->dtype,
                             .op = side->op,
                             .root = side->root};
    kolo_call_words(&call, words, capacity);
}

/** Blocks in memory of kolo_alloc, about whose displacements rank 1 disagrees. */
static kolo_status lie_elsewhere(struct kolo_comm *comm, void *argument)
{
    enum { EACH = 40000 };
    const enum kolo_call_kind kind = *(const enum kolo_call_kind *)argument;
    const size_t counts[] = {EACH, EACH, 0}, here[] = {0, EACH, 0}, there[] = {EACH, 0, 5};
    const size_t *displs = kolo_rank(comm) == 1 ? there : here;
    void *whole, *block;
    kolo_status status;
    WORLD_TRY(kolo_alloc(comm, (size_t)2 * EACH * sizeof(float), &whole));
    WORLD_TRY(kolo_alloc(comm, EACH * sizeof(float), &block));
    if (kind == KOLO_CALL_ALLGATHERV)
        status = kolo_allgatherv(comm, block, whole, counts, displs, KOLO_FLOAT32, NULL, NULL);
    else if (kind == KOLO_CALL_GATHERV)
        status = kolo_gatherv(comm, block, whole, counts, displs, KOLO_FLOAT32, 0, NULL, NULL);
    else
        status = kolo_scatterv(comm, whole, counts, displs, block, KOLO_FLOAT32, 0, NULL, NULL);
    return status == KOLO_OK ? kolo_barrier(comm, NULL, NULL) : status; /* it may have succeeded */
}

ParameterizedTestParameters(mismatch, blocks_that_lie_elsewhere)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, blocks_that_lie_elsewhere, .timeout = 60)
{
    enum kolo_call_kind kinds[] = {KOLO_CALL_ALLGATHERV, KOLO_CALL_GATHERV, KOLO_CALL_SCATTERV};
    for (int k = 0; k < 3; k++)
        for (int size = 2; size <= 3; size++) {
            struct world world = {
                .size = size, .transport = param->name, .settings = {"KOLO_TIMEOUT=20"}};
            (void)world_run(&world, lie_elsewhere, &kinds[k]);
            for (int rank = 0; rank < size; rank++) {
                const struct world_result *result = &world.results[rank];
                cr_assert(result->status == KOLO_ERR_MISMATCH && strstr(result->text, "displs"),
                          "%s, kind %d, rank %d of %d: %s: %s", param->name, (int)kinds[k], rank,
                          size, kolo_status_name(result->status), result->text);
            }
        }
}

ParameterizedTestParameters(mismatch, different_calls)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, different_calls, .timeout = 120)
{
    for (int q = 0; q < QUARRELS; q++)
        for (int size = 2; size <= 4; size++) {
            struct dispute dispute = {&quarrels[q], q % size};
            struct world world = {
                .size = size, .transport = param->name, .settings = {"KOLO_TIMEOUT=20"}};
            char words[2][KOLO_WORDS_MAX];
            (void)world_run(&world, differ, &dispute);
            for (int i = 0; i < 2; i++)
                words_of(&quarrels[q].sides[i], words[i], sizeof words[i]);
            for (int rank = 0; rank < size; rank++) {
                const struct world_result *result = &world.results[rank];
                cr_assert(result->status == KOLO_ERR_MISMATCH,
                          "%s, %s, %d ranks, odd %d: rank %d returned %s: %s", param->name,
                          quarrels[q].what, size, dispute.odd, rank,
                          kolo_status_name(result->status), result->text);
                cr_assert(strstr(result->text, words[0]) && strstr(result->text, words[1]) &&
                              strstr(result->text, "sequence 1"),
                          "%s, %s, %d ranks: rank %d does not name both sides: %s", param->name,
                          quarrels[q].what, size, rank, result->text);
                if (quarrels[q].sides[0].name)
                    cr_assert(strstr(result->text, "'grad/3'") && strstr(result->text, "'grad/4'"),
                              "%s: rank %d does not name both tensors: %s", param->name, rank,
                              result->text);
            }
        }
}

/* ---- any combination of roots ---- */

enum { FREE_CHOICES = 4 /* three roots, or a barrier instead */ };

/** What each rank calls, one digit per rank. */
struct opinions {
    int digits;
    const char *transport;
};

static bool is_unanimous(int digits, int size)
{
    for (int rank = 1, rest = digits / FREE_CHOICES; rank < size; rank++, rest /= FREE_CHOICES)
        if (rest % FREE_CHOICES != digits % FREE_CHOICES)
            return false;
    return true;
}

/** A broadcast from rank 1, then what this rank's digit says (a broadcast or a barrier), then a
 * barrier. */
static kolo_status have_opinions(struct kolo_comm *comm, void *argument)
{
    int digit = ((const struct opinions *)argument)->digits, rank = kolo_rank(comm);
    struct side all = {.kind = KOLO_CALL_BROADCAST, .count = 8, .root = 1};
    for (int i = 0; i < rank; i++)
        digit /= FREE_CHOICES;
    digit %= FREE_CHOICES;
    struct side mine = {
        .kind = digit == 3 ? KOLO_CALL_BARRIER : KOLO_CALL_BROADCAST, .count = 8, .root = digit};
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* all have started */
    if (status == KOLO_OK)
        status = do_call(comm, &all);
    if (status != KOLO_OK) /* the others have left the barrier, and have found the difference */
        return status;
    status = do_call(comm, &mine);
    return status == KOLO_OK ? kolo_barrier(comm, NULL, NULL) : status;
}

static void check_opinions(const char *transport, const char *plan, int size)
{
    int all = 1;
    for (int rank = 0; rank < size; rank++)
        all *= FREE_CHOICES;
    for (int digits = 0; digits < all; digits++) {
        struct opinions opinions = {digits, transport};
        struct world world = {
            .size = size, .transport = transport, .settings = {"KOLO_TIMEOUT=20", plan}};
        (void)world_run(&world, have_opinions, &opinions);
        if (is_unanimous(digits, size))
            continue;
        for (int rank = 0; rank < size; rank++)
            cr_assert(world.results[rank].status == KOLO_ERR_MISMATCH &&
                          strstr(world.results[rank].text, "sequence 2"),
                      "%s, %s, opinions %d: rank %d of %d: %s: %s", transport, plan, digits, rank,
                      size, kolo_status_name(world.results[rank].status), world.results[rank].text);
    }
}

ParameterizedTestParameters(mismatch, whatever_they_take_for_the_root)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, whatever_they_take_for_the_root,
                  .timeout = 240)
{
    check_opinions(param->name, "KOLO_PLAN=tree", 3);
    check_opinions(param->name, "KOLO_PLAN=ring", 3);
    if (has_board(param))
        check_opinions(param->name, "KOLO_PLAN=oneshot", 3);
}

/* ---- a broadcast that is over on some ranks ---- */

struct early_leaver {
    atomic_bool is_over; /* on rank 1 */
    bool finalizes;
};

/** Rank 1 has its data before rank 2 makes another call. */
static kolo_status one_is_through(struct kolo_comm *comm, void *argument)
{
    struct early_leaver *leaver = argument;
    char data[8] = {0};
    /* opens the links */
    kolo_status status = kolo_broadcast(comm, data, 8, KOLO_UINT8, 0, NULL, NULL);
    WORLD_EXPECT(status == KOLO_OK, "the first broadcast: %s", kolo_error_detail());
    data[0] = kolo_rank(comm) == 0 ? 5 : 1;
    WORLD_EXPECT(kolo_rank(comm) != 2 || AWAIT(atomic_load(&leaver->is_over)),
                 "rank 1 is not over");
    status = kolo_rank(comm) == 2 ? kolo_barrier(comm, NULL, NULL)
                                  : kolo_broadcast(comm, data, 8, KOLO_UINT8, 0, NULL, NULL);
    if (kolo_rank(comm) == 0 && status == KOLO_OK) {
        if (leaver->finalizes)
            return KOLO_OK;
        status = kolo_barrier(comm, NULL, NULL);
    }
    if (kolo_rank(comm) != 1) {
        WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "%s: %s", kolo_status_name(status),
                     kolo_error_detail());
        return KOLO_OK;
    }
    atomic_store(&leaver->is_over, true);
    WORLD_EXPECT(status == KOLO_OK && data[0] == 5, "%s, %d", kolo_status_name(status), data[0]);
    if (leaver->finalizes)
        return KOLO_OK;
    return kolo_barrier(comm, NULL, NULL);
}

ParameterizedTestParameters(mismatch, a_broadcast_that_was_over)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, a_broadcast_that_was_over, .timeout = 60)
{
    for (int way = 0; way < (has_board(param) ? 4 : 2); way++) {
        bool finalizes = way % 2 != 0;
        const char *plan = way < 2 ? "KOLO_PLAN=tree" : "KOLO_PLAN=oneshot";
        struct early_leaver leaver = {.finalizes = finalizes};
        struct world world = {
            .size = 3, .transport = param->name, .settings = {"KOLO_TIMEOUT=20", plan}};
        kolo_status status = world_run(&world, one_is_through, &leaver);
        const char *text = finalizes ? kolo_error_detail() : world.results[1].text;
        cr_assert(status == KOLO_ERR_MISMATCH, "%s: %s: %s", param->name, kolo_status_name(status),
                  text);
        cr_assert(strstr(text, "broadcast(count 8, uint8, root 0)") && strstr(text, "barrier()") &&
                      strstr(text, "sequence 1"),
                  "%s: %s", param->name, text);
    }
}

/* ---- how far a root runs ahead ---- */

enum { AHEAD = 3 * KOLO_OPEN_MAX };

/** Rank 2, whose data nobody needs, comes when the root can go no further. */
static kolo_status run_ahead(struct kolo_comm *comm, void *argument)
{
    atomic_bool *may_come = argument;
    int64_t data[2] = {0, 0};
    kolo_status status = kolo_barrier(comm, NULL, NULL); /* opens the links */
    WORLD_EXPECT(kolo_rank(comm) != 2 || AWAIT(atomic_load(may_come)), "the root goes on");
    for (int i = 0; status == KOLO_OK && i < AHEAD; i++) {
        struct kolo_request *request = NULL;
        bool is_closed = kolo_rank(comm) == 0 && i == KOLO_OPEN_MAX - 1;
        data[0] = kolo_rank(comm) == 0 ? i : -1;
        status = kolo_broadcast(comm, data, 1, KOLO_INT64, 0, NULL, is_closed ? &request : NULL);
        if (is_closed && status == KOLO_OK) {
            status = kolo_wait(&request, 100);
            WORLD_EXPECT(status == KOLO_AGAIN, "broadcast %d waits for nobody: %s", i,
                         kolo_status_name(status));
            atomic_store(may_come, true);
            status = kolo_wait(&request, -1);
        }
        WORLD_EXPECT(status != KOLO_OK || data[0] == i, "broadcast %d brought %lld", i,
                     (long long)data[0]);
    }
    return status == KOLO_OK ? kolo_barrier(comm, NULL, NULL) : status;
}

ParameterizedTestParameters(mismatch, a_root_runs_ahead)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, a_root_runs_ahead, .timeout = 60)
{
    atomic_bool may_come = false;
    struct world world = {
        .size = 3, .transport = param->name, .settings = {"KOLO_TIMEOUT=20", "KOLO_PLAN=tree"}};
    WORLD_MUST_RUN(&world, run_ahead, &may_come);
}

/** Rank 1 makes no call until the series of broadcasts has ended. */
static kolo_status stream_to_nobody(struct kolo_comm *comm, void *argument)
{
    char data[8] = {0};
    struct kolo_opts opts = {.size = sizeof opts, .timeout_ms = 500};
    atomic_bool *is_over = argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    WORLD_EXPECT(kolo_rank(comm) != 1 || AWAIT(atomic_load(is_over)), "the stream does not end");
    if (kolo_rank(comm) == 1)
        return status;
    for (int i = 0; status == KOLO_OK && i < KOLO_OPEN_MAX; i++)
        status = kolo_broadcast(comm, data, 8, KOLO_UINT8, 0, &opts, NULL);
    atomic_store(is_over, true);
    return status;
}

Test(mismatch, a_stream_of_broadcasts_misses_who_never_comes, .timeout = 60)
{
    atomic_bool is_over = false;
    struct world world = {
        .size = 2, .transport = "tcp", .settings = {"KOLO_TIMEOUT=20", "KOLO_PLAN=tree"}};
    (void)world_run(&world, stream_to_nobody, &is_over);
    cr_assert(world.results[0].status == KOLO_ERR_TIMEOUT &&
                  strstr(world.results[0].text, "waiting for rank 1 ("),
              "%s: %s", kolo_status_name(world.results[0].status), world.results[0].text);
}

/** No rank makes a call after a broadcast that ranks called differently. */
static kolo_status differ_and_leave(struct kolo_comm *comm, void *argument)
{
    const struct dispute *dispute = argument;
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK)
        status = do_call(comm, &dispute->quarrel->sides[kolo_rank(comm) == dispute->odd]);
    return status;
}

static void check_leaving(const char *transport, const char *plan, const struct quarrel *quarrel,
                          int odd)
{
    struct dispute dispute = {quarrel, odd};
    struct world world = {.size = 3, .transport = transport, .settings = {"KOLO_TIMEOUT=20", plan}};
    kolo_status status = world_run(&world, differ_and_leave, &dispute);
    cr_assert(status == KOLO_ERR_MISMATCH, "%s, %s, %s, odd %d: %s", transport, plan, quarrel->what,
              odd, kolo_status_name(status));
}

ParameterizedTestParameters(mismatch, leaving_after_different_broadcasts)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, leaving_after_different_broadcasts,
                  .timeout = 120)
{
    for (int q = 0; q < QUARRELS; q++)
        for (int odd = 0; odd < 3 && strstr(quarrels[q].what, "broadcast"); odd++) {
            check_leaving(param->name, "KOLO_PLAN=tree", &quarrels[q], odd);
            if (has_board(param) && quarrels[q].sides[1].count < 1000)
                check_leaving(param->name, "KOLO_PLAN=oneshot", &quarrels[q], odd);
        }
}

/** Rank 1 leaves without the last broadcast, whose message has arrived, and so has what rank 0 sent
 * after it. */
static kolo_status leave_without_it(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    char data[8] = {0};
    kolo_status status = kolo_barrier(comm, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        status = kolo_broadcast(comm, data, 8, KOLO_UINT8, 0, NULL, NULL);
    if (status != KOLO_OK)
        return status;
    return kolo_rank(comm) == 0 ? kolo_send(comm, data, 8, KOLO_UINT8, 1, NULL, NULL)
                                : kolo_recv(comm, data, 8, KOLO_UINT8, 0, NULL, NULL);
}

ParameterizedTestParameters(mismatch, leaving_without_the_last_broadcast)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, leaving_without_the_last_broadcast,
                  .timeout = 60)
{
    for (int way = 0; way <= has_board(param); way++) {
        const char *plan = way == 0 ? "KOLO_PLAN=tree" : "KOLO_PLAN=oneshot";
        struct world world = {
            .size = 2, .transport = param->name, .settings = {"KOLO_TIMEOUT=20", plan}};
        kolo_status status = world_run(&world, leave_without_it, NULL);
        cr_assert(status == KOLO_ERR_MISMATCH, "%s, %s: %s", param->name, plan,
                  kolo_status_name(status));
    }
}

/** Whether the communicator has failed, as whoever makes progress on this rank may notice while the
 * program is in no call of it. */
static bool has_failed_meanwhile(struct kolo_comm *comm)
{
    kolo_comm_enter(comm);
    kolo_engine_poll(comm->engine);
    kolo_comm_settle(comm);
    const bool has_failed = comm->failure.status != KOLO_OK;
    kolo_comm_leave(comm);
    return has_failed;
}

struct unnoticed {
    atomic_bool is_over; /* on rank 1 */
    bool is_part;        /* a communicator other than the world */
};

/** The quarrel is over before rank 1 finalizes, and no call of rank 1 has said so. */
static kolo_status finalize_after_a_quarrel(struct kolo_comm *world, void *argument)
{
    struct unnoticed *unnoticed = argument;
    struct kolo_comm *comm = world;
    const int rank = kolo_rank(world);
    char data[8] = {0};
    kolo_status status = unnoticed->is_part ? kolo_dup(world, NULL, &comm) : KOLO_OK;
    if (status == KOLO_OK) /* opens the links */
        status = kolo_broadcast(comm, data, 8, KOLO_UINT8, 0, NULL, NULL);
    if (status != KOLO_OK)
        return status;
    WORLD_EXPECT(rank != 2 || AWAIT(atomic_load(&unnoticed->is_over)), "rank 1 is not over");
    status = rank == 2 ? kolo_barrier(comm, NULL, NULL)
                       : kolo_broadcast(comm, data, 8, KOLO_UINT8, 0, NULL, NULL);
    if (rank == 1) {
        WORLD_EXPECT(status == KOLO_OK, "rank 1: %s", kolo_error_detail());
        atomic_store(&unnoticed->is_over, true);
        WORLD_EXPECT(AWAIT(has_failed_meanwhile(comm)), "nothing failed");
    }
    if (!unnoticed->is_part)
        return KOLO_OK;
    const kolo_status end = kolo_finalize(comm);
    if (rank != 1)
        return kolo_barrier(world, NULL, NULL);
    WORLD_EXPECT(end == KOLO_ERR_MISMATCH && strstr(kolo_error_detail(), "barrier()"), "%s: %s",
                 kolo_status_name(end), kolo_error_detail());
    return kolo_barrier(world, NULL, NULL);
}

ParameterizedTestParameters(mismatch, noticed_by_another_thread)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, noticed_by_another_thread, .timeout = 60)
{
    for (int is_part = 0; is_part < 2; is_part++) {
        struct unnoticed unnoticed = {.is_part = is_part};
        struct world world = {
            .size = 3, .transport = param->name, .settings = {"KOLO_TIMEOUT=20", "KOLO_PLAN=tree"}};
        const kolo_status status = world_run(&world, finalize_after_a_quarrel, &unnoticed);
        const char *text = kolo_error_detail();
        cr_assert(status == (is_part ? KOLO_OK : KOLO_ERR_MISMATCH) &&
                      (is_part || strstr(text, "barrier()")),
                  "%s, part %d: %s: %s", param->name, is_part, kolo_status_name(status), text);
    }
}

/* ---- broadcasts as later calls describe them ---- */

/** No message of the broadcast reveals the difference, only what this rank later says about it. */
static kolo_status remember_otherwise(struct kolo_comm *comm, void *argument)
{
    int odd = *(const int *)argument;
    char data[8] = {0};
    float one = 1;
    kolo_status status = KOLO_OK;
    for (int i = 0; status == KOLO_OK && i < 3; i++)
        status = kolo_broadcast(comm, data, 8, KOLO_UINT8, 0, NULL, NULL);
    if (status != KOLO_OK)
        return status;
    kolo_comm_enter(comm);
    comm->broadcasts.history ^= kolo_rank(comm) == odd ? 0x10000 : 0;
    kolo_comm_leave(comm);
    return kolo_allreduce(comm, &one, &one, 1, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
}

ParameterizedTestParameters(mismatch, what_calls_say_of_broadcasts)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, what_calls_say_of_broadcasts, .timeout = 60)
{
    for (int which = 0; which < (has_board(param) ? 8 : 4); which++) {
        int odd = which % 4; /* 3: none */
        const char *plan = which < 4 ? "KOLO_PLAN=tree" : "KOLO_PLAN=oneshot";
        struct world world = {
            .size = 3, .transport = param->name, .settings = {"KOLO_TIMEOUT=20", plan}};
        (void)world_run(&world, remember_otherwise, &odd);
        for (int rank = 0; rank < 3; rank++) {
            const struct world_result *result = &world.results[rank];
            bool says_it = strstr(result->text, "after broadcast") &&
                           strstr(result->text, "allreduce(count 1, float32, sum)");
            cr_assert(odd < 3 ? result->status == KOLO_ERR_MISMATCH && says_it
                              : result->status == KOLO_OK,
                      "%s, odd %d, rank %d: %s: %s", param->name, odd, rank,
                      kolo_status_name(result->status), result->text);
        }
    }
}

static kolo_status differ_in_messages(struct kolo_comm *comm, void *argument)
{
    double data[4] = {0};
    (void)argument;
    /* otherwise a failure may reach a rank that is still in kolo_init */
    kolo_status begun = kolo_barrier(comm, NULL, NULL);
    if (begun != KOLO_OK)
        return begun;
    if (kolo_rank(comm) == 0) { /* its message may be received before the mismatch is found */
        kolo_status status = kolo_send(comm, data, 3, KOLO_FLOAT64, 1, NULL, NULL);
        if (status != KOLO_OK)
            return status;
    }
    if (kolo_rank(comm) == 1)
        return kolo_recv(comm, data, 4, KOLO_FLOAT64, 0, NULL, NULL);
    return kolo_barrier(comm, NULL, NULL);
}

ParameterizedTestParameters(mismatch, different_messages)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, mismatch, different_messages, .timeout = 60)
{
    struct world world = {.size = 3, .transport = param->name, .settings = {"KOLO_TIMEOUT=20"}};
    (void)world_run(&world, differ_in_messages, NULL);
    for (int rank = 0; rank < 3; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert(result->status == KOLO_ERR_MISMATCH, "rank %d: %s: %s", rank,
                  kolo_status_name(result->status), result->text);
        cr_assert(strstr(result->text, "recv(count 4, float64, from rank 0)") &&
                      strstr(result->text, "send(count 3, float64, to rank 1)"),
                  "rank %d: %s", rank, result->text);
    }
}

/* ---- ranks that wait for each other in different calls ---- */

static kolo_status wait_in_a_circle(struct kolo_comm *comm, void *argument)
{
    float data[4] = {0};
    (void)argument;
    /* each root waits for a message that nobody sends, so no message ever meets another
     * description */
    return kolo_gather(comm, data, data, 0, KOLO_FLOAT32, kolo_rank(comm), NULL, NULL);
}

Test(mismatch, every_rank_its_own_root, .timeout = 120)
{
    struct world world = {.size = 3, .settings = {"KOLO_TIMEOUT=20"}};
    (void)world_run(&world, wait_in_a_circle, NULL);
    for (int rank = 0; rank < 3; rank++)
        cr_assert(world.results[rank].status == KOLO_ERR_MISMATCH, "rank %d: %s", rank,
                  world.results[rank].text);
}
