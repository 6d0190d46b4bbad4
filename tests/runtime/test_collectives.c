// SPDX-License-Identifier: Apache-2.0
// Every collective against the naive oracle: world sizes, counts, types, operators, in and out of
// place, misaligned, in user memory and memory of kolo_alloc, with both plans, over every
// transport.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <stdlib.h>
#include <string.h>

#include "memory/reduce.h"
#include "runtime/call.h"
#include "tests/support/length.h"
#include "tests/support/oracle.h"
#include "tests/support/world.h"

/** One collective call on every rank. */
struct round {
    enum kolo_call_kind kind;
    size_t count; /* per rank */
    kolo_dtype dtype;
    kolo_redop op;
    int root;
    bool in_place, is_async;
    size_t shift; /* bytes by which the buffers are misaligned */
};

enum { MARGIN = 64, COUNTS_MAX = 16 };
static const unsigned char guard_byte = 0xa5;

/** The memory of a rank for its rounds: two areas, with guards around the part that is used. */
struct stage {
    struct kolo_comm *comm;
    unsigned char *areas[2];
    size_t bytes;
    unsigned seed;
    size_t counts[COUNTS_MAX], displs[COUNTS_MAX]; /* for calls on blocks of different lengths */
    /* for alltoallv: what this rank sends to and receives from each rank, in any order */
    size_t send_counts[COUNTS_MAX], send_displs[COUNTS_MAX];
    size_t recv_counts[COUNTS_MAX], recv_displs[COUNTS_MAX];
};

/** The positions of this rank's data in a round, in elements. */
struct layout {
    size_t send_count, recv_count;
    size_t overlay; /* in place: the position of the smaller buffer in the larger one */
    bool has_send, has_recv;
};

/** The end of the last of @p n blocks. */
static size_t extent_of(const size_t *counts, const size_t *displs, size_t n)
{
    size_t extent = 0;
    for (size_t i = 0; i < n; i++)
        if (displs[i] + counts[i] > extent)
            extent = displs[i] + counts[i];
    return extent;
}

/** The position of this rank's block if blocks are packed. */
static size_t packed_offset(const size_t *counts, size_t rank)
{
    size_t at = 0;
    for (size_t i = 0; i < rank; i++)
        at += counts[i];
    return at;
}

static struct layout lay_out(const struct stage *stage, const struct round *round)
{
    size_t n = (size_t)kolo_size(stage->comm), rank = (size_t)kolo_rank(stage->comm);
    bool is_root = (int)rank == round->root;
    struct layout layout = {round->count, round->count, 0, true, true};
    switch (round->kind) {
    case KOLO_CALL_REDUCE:
        layout.has_recv = is_root;
        break;
    case KOLO_CALL_GATHER:
        layout.has_recv = is_root;
        __attribute__((fallthrough));
    case KOLO_CALL_ALLGATHER:
        layout.recv_count *= n;
        layout.overlay = rank * round->count;
        break;
    case KOLO_CALL_GATHERV:
        layout.has_recv = is_root;
        __attribute__((fallthrough));
    case KOLO_CALL_ALLGATHERV:
        layout.send_count = stage->counts[rank];
        layout.overlay = stage->displs[rank];
        layout.recv_count = extent_of(stage->counts, stage->displs, n);
        break;
    case KOLO_CALL_SCATTERV:
        layout.has_send = is_root;
        layout.send_count = extent_of(stage->counts, stage->displs, n);
        layout.recv_count = stage->counts[rank];
        layout.overlay = stage->displs[rank];
        break;
    case KOLO_CALL_REDUCE_SCATTERV:
        layout.send_count = packed_offset(stage->counts, n);
        layout.recv_count = stage->counts[rank];
        layout.overlay = packed_offset(stage->counts, rank);
        break;
    case KOLO_CALL_ALLTOALL:
        layout.send_count = layout.recv_count = n * round->count;
        break;
    case KOLO_CALL_ALLTOALLV:
        layout.send_count = extent_of(stage->send_counts, stage->send_displs, n);
        layout.recv_count = extent_of(stage->recv_counts, stage->recv_displs, n);
        break;
    case KOLO_CALL_SCATTER:
        layout.has_send = is_root;
        __attribute__((fallthrough));
    case KOLO_CALL_REDUCE_SCATTER:
        layout.send_count *= n;
        layout.overlay = rank * round->count;
        break;
    case KOLO_CALL_BROADCAST:
        layout.has_send = is_root;
        break;
    case KOLO_CALL_BARRIER:
        layout.has_send = layout.has_recv = false;
        break;
    case KOLO_CALL_ALLREDUCE:
    case KOLO_CALL_SEND:
    case KOLO_CALL_RECV:
    case KOLO_CALL_SPLIT:
    case KOLO_CALL_DUP:
    case KOLO_CALL_FINALIZE:
    case KOLO_CALL_COMPUTE:
    case KOLO_CALLS:
        break;
    }
    return layout;
}

/** Blocks of different lengths with gaps, the last rank's first. */
static void choose_blocks(struct stage *stage, size_t count)
{
    size_t at = 1;
    for (int rank = kolo_size(stage->comm) - 1; rank >= 0; rank--) {
        stage->counts[rank] = count == 0 ? 0 : (count + (size_t)rank * 5) % (count + 2);
        stage->displs[rank] = at;
        at += stage->counts[rank] + (size_t)rank % 2;
    }
}

/** The number of elements that rank @p from sends to rank @p to: none, few, or at most @p count. */
static size_t exchanged(int from, int to, size_t count)
{
    return (size_t)(from * 7 + to * 3) * (count + 1) / 11 % (count + 1);
}

/** The positions of the blocks on rank @p rank: the last rank's first, with gaps. */
static void choose_exchange(struct stage *stage, int rank, size_t count, size_t *send_displs)
{
    size_t out = 2, in = 1;
    for (int peer = kolo_size(stage->comm) - 1; peer >= 0; peer--) {
        send_displs[peer] = out;
        out += exchanged(rank, peer, count) + 1;
        if (rank != kolo_rank(stage->comm))
            continue;
        stage->send_counts[peer] = exchanged(rank, peer, count);
        stage->recv_counts[peer] = exchanged(peer, rank, count);
        stage->recv_displs[peer] = in;
        in += stage->recv_counts[peer] + (size_t)peer % 2;
    }
}

static kolo_status call(const struct stage *stage, const struct round *round, const void *send,
                        void *recv)
{
    struct kolo_request *request = NULL, **out = round->is_async ? &request : NULL;
    struct kolo_comm *comm = stage->comm;
    size_t count = round->count;
    kolo_status status = KOLO_ERR_INTERNAL;
    switch (round->kind) {
    case KOLO_CALL_ALLREDUCE:
        status = kolo_allreduce(comm, send, recv, count, round->dtype, round->op, NULL, out);
        break;
    case KOLO_CALL_REDUCE:
        status =
            kolo_reduce(comm, send, recv, count, round->dtype, round->op, round->root, NULL, out);
        break;
    case KOLO_CALL_BROADCAST:
        status = kolo_broadcast(comm, recv, count, round->dtype, round->root, NULL, out);
        break;
    case KOLO_CALL_ALLGATHER:
        status = kolo_allgather(comm, send, recv, count, round->dtype, NULL, out);
        break;
    case KOLO_CALL_ALLGATHERV:
        status = kolo_allgatherv(comm, send, recv, stage->counts, stage->displs, round->dtype, NULL,
                                 out);
        break;
    case KOLO_CALL_REDUCE_SCATTER:
        status = kolo_reduce_scatter(comm, send, recv, count, round->dtype, round->op, NULL, out);
        break;
    case KOLO_CALL_GATHER:
        status = kolo_gather(comm, send, recv, count, round->dtype, round->root, NULL, out);
        break;
    case KOLO_CALL_GATHERV:
        status = kolo_gatherv(comm, send, recv, stage->counts, stage->displs, round->dtype,
                              round->root, NULL, out);
        break;
    case KOLO_CALL_SCATTER:
        status = kolo_scatter(comm, send, recv, count, round->dtype, round->root, NULL, out);
        break;
    case KOLO_CALL_SCATTERV:
        status = kolo_scatterv(comm, send, stage->counts, stage->displs, recv, round->dtype,
                               round->root, NULL, out);
        break;
    case KOLO_CALL_REDUCE_SCATTERV:
        status = kolo_reduce_scatterv(comm, send, recv, stage->counts, round->dtype, round->op,
                                      NULL, out);
        break;
    case KOLO_CALL_ALLTOALL:
        status = kolo_alltoall(comm, send, recv, count, round->dtype, NULL, out);
        break;
    case KOLO_CALL_ALLTOALLV:
        status = kolo_alltoallv(comm, send, stage->send_counts, stage->send_displs, recv,
                                stage->recv_counts, stage->recv_displs, round->dtype, NULL, out);
        break;
    case KOLO_CALL_BARRIER:
        status = kolo_barrier(comm, NULL, out);
        break;
    case KOLO_CALL_SEND:
    case KOLO_CALL_RECV:
    case KOLO_CALL_SPLIT:
    case KOLO_CALL_DUP:
    case KOLO_CALL_FINALIZE:
    case KOLO_CALL_COMPUTE:
    case KOLO_CALLS:
        break;
    }
    if (status == KOLO_OK && round->is_async)
        status = kolo_wait(&request, -1);
    return status;
}

static bool is_exchanged(const struct stage *stage, const struct round *round,
                         const struct oracle *oracle, const unsigned char *recv, size_t *at_out)
{
    size_t bytes = kolo_dtype_bytes(round->dtype), rank = (size_t)kolo_rank(stage->comm);
    bool has_lengths = round->kind == KOLO_CALL_ALLTOALLV;
    struct stage other = *stage;
    for (int i = 0; i < kolo_size(stage->comm); i++) {
        choose_exchange(&other, i, round->count, other.send_displs);
        size_t from = has_lengths ? other.send_displs[rank] : rank * round->count;
        size_t to = has_lengths ? stage->recv_displs[i] : (size_t)i * round->count;
        size_t count = has_lengths ? stage->recv_counts[i] : round->count;
        if (!oracle_is_of(oracle, i, from, recv + to * bytes, count, at_out))
            return false;
    }
    return true;
}

/** Checks @p recv. Gaps must still hold the guard byte (or, in place, be unchanged). */
static bool is_right(const struct stage *stage, const struct round *round,
                     const struct oracle *oracle, const unsigned char *recv, size_t *at_out)
{
    size_t bytes = kolo_dtype_bytes(round->dtype), rank = (size_t)kolo_rank(stage->comm);
    int n = kolo_size(stage->comm);
    switch (round->kind) {
    case KOLO_CALL_ALLREDUCE:
    case KOLO_CALL_REDUCE:
        return oracle_is_reduced(oracle, 0, recv, round->count, at_out);
    case KOLO_CALL_REDUCE_SCATTER:
        return oracle_is_reduced(oracle, rank * round->count, recv, round->count, at_out);
    case KOLO_CALL_BROADCAST:
        return oracle_is_of(oracle, round->root, 0, recv, round->count, at_out);
    case KOLO_CALL_SCATTER:
        return oracle_is_of(oracle, round->root, rank * round->count, recv, round->count, at_out);
    case KOLO_CALL_ALLGATHER:
    case KOLO_CALL_GATHER:
        for (int i = 0; i < n; i++)
            if (!oracle_is_of(oracle, i, 0, recv + (size_t)i * round->count * bytes, round->count,
                              at_out))
                return false;
        return true;
    case KOLO_CALL_ALLGATHERV:
    case KOLO_CALL_GATHERV:
        for (int i = 0; i < n; i++)
            if (!oracle_is_of(oracle, i, 0, recv + stage->displs[i] * bytes, stage->counts[i],
                              at_out))
                return false;
        return true;
    case KOLO_CALL_SCATTERV:
        return oracle_is_of(oracle, round->root, stage->displs[rank], recv, stage->counts[rank],
                            at_out);
    case KOLO_CALL_REDUCE_SCATTERV:
        return oracle_is_reduced(oracle, packed_offset(stage->counts, rank), recv,
                                 stage->counts[rank], at_out);
    case KOLO_CALL_ALLTOALL:
    case KOLO_CALL_ALLTOALLV:
        return is_exchanged(stage, round, oracle, recv, at_out);
    case KOLO_CALL_BARRIER:
    case KOLO_CALL_SEND:
    case KOLO_CALL_RECV:
    case KOLO_CALL_SPLIT:
    case KOLO_CALL_DUP:
    case KOLO_CALL_FINALIZE:
    case KOLO_CALL_COMPUTE:
    case KOLO_CALLS:
        break;
    }
    return true;
}

static bool is_guarded(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != guard_byte)
            return false;
    return true;
}

static bool has_lengths(enum kolo_call_kind kind)
{
    return kind == KOLO_CALL_ALLGATHERV || kind == KOLO_CALL_GATHERV ||
           kind == KOLO_CALL_SCATTERV || kind == KOLO_CALL_REDUCE_SCATTERV ||
           kind == KOLO_CALL_ALLTOALLV;
}

/** A forced plan that cannot move blocks of different lengths is an error, and nothing is
 * written. */
static kolo_status expect_untouched(const struct oracle *oracle, int rank,
                                    const struct layout *layout, bool in_place,
                                    const unsigned char *send, const unsigned char *recv,
                                    size_t recv_bytes)
{
    size_t at;
    WORLD_EXPECT(strstr(kolo_error_detail(), "blocks of different lengths") != NULL, "%s",
                 kolo_error_detail());
    WORLD_EXPECT(!layout->has_send || oracle_is_of(oracle, rank, 0, send, layout->send_count, &at),
                 "rank %d: send was written at %zu", rank, at);
    WORLD_EXPECT(in_place || !layout->has_recv || is_guarded(recv, recv_bytes),
                 "rank %d: recv was written", rank);
    return KOLO_OK;
}

static kolo_status play_round(struct stage *stage, const struct round *round)
{
    struct oracle oracle = {round->dtype, round->op, kolo_size(stage->comm), ++stage->seed};
    size_t bytes = kolo_dtype_bytes(round->dtype), at = 0;
    int rank = kolo_rank(stage->comm);
    choose_blocks(stage, round->count);
    choose_exchange(stage, rank, round->count, stage->send_displs);
    struct layout layout = lay_out(stage, round);
    size_t send_bytes = layout.send_count * bytes, recv_bytes = layout.recv_count * bytes;
    unsigned char *send = stage->areas[0] + MARGIN + round->shift;
    unsigned char *recv = stage->areas[1] + MARGIN + round->shift;
    WORLD_EXPECT(send_bytes + 3 * MARGIN < stage->bytes && recv_bytes + 3 * MARGIN < stage->bytes,
                 "the stage is too small for count %zu", round->count);
    memset(stage->areas[0], guard_byte, send_bytes + 2 * MARGIN + round->shift);
    memset(stage->areas[1], guard_byte, recv_bytes + 2 * MARGIN + round->shift);
    bool never = round->kind == KOLO_CALL_ALLTOALL || round->kind == KOLO_CALL_ALLTOALLV;
    bool in_place = round->kind == KOLO_CALL_BROADCAST ||
                    (round->in_place && !never && layout.has_send && layout.has_recv);
    if (in_place && send_bytes <= recv_bytes)
        send = recv + layout.overlay * bytes;
    else if (in_place)
        recv = send + layout.overlay * bytes;
    if (layout.has_send)
        oracle_fill(&oracle, rank, 0, send, layout.send_count);
    kolo_status status =
        call(stage, round, layout.has_send ? send : NULL, layout.has_recv ? recv : NULL);
    if (status == KOLO_ERR_UNSUPPORTED && has_lengths(round->kind))
        return expect_untouched(&oracle, rank, &layout, in_place, send, recv, recv_bytes);
    if (status != KOLO_OK)
        return status;
    char words[KOLO_WORDS_MAX];
    struct kolo_call facts = {.kind = round->kind,
                              .dtype = round->dtype,
                              .op = round->op,
                              .root = round->root,
                              .count = round->count};
    kolo_call_words(&facts, words, sizeof words);
    WORLD_EXPECT(!layout.has_recv || is_right(stage, round, &oracle, recv, &at),
                 "%s in place %d async %d shift %zu, rank %d: element %zu is wrong", words,
                 in_place, round->is_async, round->shift, rank, at);
    WORLD_EXPECT(in_place || !layout.has_send ||
                     oracle_is_of(&oracle, rank, 0, send, layout.send_count, &at),
                 "%s, rank %d: send was written at %zu", words, rank, at);
    WORLD_EXPECT(!layout.has_recv || in_place ||
                     (is_guarded(recv - MARGIN, MARGIN) && is_guarded(recv + recv_bytes, MARGIN)),
                 "%s, rank %d: written beyond recv", words, rank);
    return KOLO_OK;
}

/* ---- a world's programme ---- */

struct programme {
    int size;
    const char *transport, *plan_setting;
    bool from_heap;
    kolo_status (*play)(struct stage *stage);
    size_t bytes;
};

static const enum kolo_call_kind all_kinds[] = {
    KOLO_CALL_ALLREDUCE,  KOLO_CALL_REDUCE,         KOLO_CALL_BROADCAST, KOLO_CALL_ALLGATHER,
    KOLO_CALL_ALLGATHERV, KOLO_CALL_REDUCE_SCATTER, KOLO_CALL_GATHER,    KOLO_CALL_GATHERV,
    KOLO_CALL_SCATTER,    KOLO_CALL_BARRIER,        KOLO_CALL_SCATTERV,  KOLO_CALL_REDUCE_SCATTERV,
    KOLO_CALL_ALLTOALL,   KOLO_CALL_ALLTOALLV};
enum { KINDS = sizeof all_kinds / sizeof all_kinds[0] };

static kolo_status play_counts(struct stage *stage)
{
    size_t n = (size_t)kolo_size(stage->comm);
    size_t counts[] = {0, 1, n - 1, n, n + 1, 1013};
    int number = 0;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (int k = 0; k < KINDS; k++)
            for (int in_place = 0; in_place < 2; in_place++, number++) {
                struct round round = {.kind = all_kinds[k],
                                      .count = counts[c],
                                      .dtype = KOLO_FLOAT32,
                                      .op = KOLO_SUM,
                                      .root = number % (int)n,
                                      .in_place = in_place,
                                      .is_async = number % 7 == 3,
                                      .shift = (size_t)number % 3};
                kolo_status status = play_round(stage, &round);
                if (status != KOLO_OK)
                    return status;
            }
    return KOLO_OK;
}

static kolo_status play_types(struct stage *stage)
{
    static const enum kolo_call_kind kinds[] = {KOLO_CALL_ALLREDUCE, KOLO_CALL_REDUCE,
                                                KOLO_CALL_REDUCE_SCATTER};
    int number = 0, n = kolo_size(stage->comm);
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        for (int op = 0; op < KOLO_REDOPS; op++)
            for (int k = 0; k < 3; k++, number++) {
                if (!kolo_reduce_function((kolo_dtype)dtype, (kolo_redop)op))
                    continue;
                struct round round = {.kind = kinds[k],
                                      .count = 41,
                                      .dtype = (kolo_dtype)dtype,
                                      .op = (kolo_redop)op,
                                      .root = number % n,
                                      .in_place = number % 2,
                                      .shift = (size_t)(number / 2) % 2};
                kolo_status status = play_round(stage, &round);
                if (status != KOLO_OK)
                    return status;
            }
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        for (int k = 0; k < KINDS; k++, number++) {
            struct round round = {.kind = all_kinds[k],
                                  .count = 17,
                                  .dtype = (kolo_dtype)dtype,
                                  .op = KOLO_SUM,
                                  .root = number % n,
                                  .in_place = number % 2,
                                  .shift = (size_t)number % 2};
            kolo_status status = play_round(stage, &round);
            if (status != KOLO_OK)
                return status;
        }
    return KOLO_OK;
}

/** Long vectors: 1 Mi elements, and for the collectives on blocks 1 Mi over all ranks. */
static kolo_status play_long(struct stage *stage)
{
    size_t n = (size_t)kolo_size(stage->comm);
    for (int k = 0; k < KINDS; k++) {
        enum kolo_call_kind kind = all_kinds[k];
        bool is_whole =
            kind == KOLO_CALL_ALLREDUCE || kind == KOLO_CALL_REDUCE || kind == KOLO_CALL_BROADCAST;
        struct round round = {.kind = kind,
                              .count = is_whole ? 1u << 20 : (1u << 20) / n,
                              .dtype = KOLO_FLOAT32,
                              .op = KOLO_SUM,
                              .root = (int)n - 1,
                              .in_place = k % 2,
                              .shift = (size_t)k % 3 * 2,
                              .is_async = k == 4};
        kolo_status status = play_round(stage, &round);
        if (status != KOLO_OK)
            return status;
    }
    return KOLO_OK;
}

static kolo_status open_stage(struct stage *stage, bool from_heap)
{
    for (int i = 0; i < 2; i++) {
        void *area = NULL;
        if (from_heap) {
            kolo_status status = kolo_alloc(stage->comm, stage->bytes, &area);
            if (status != KOLO_OK)
                return status;
        } else {
            area = malloc(stage->bytes);
        }
        stage->areas[i] = area;
        WORLD_EXPECT(area != NULL, "no memory for the test");
    }
    return KOLO_OK;
}

static void close_stage(struct stage *stage, bool from_heap)
{
    for (int i = 0; i < 2; i++) {
        if (from_heap)
            (void)kolo_free(stage->comm, stage->areas[i]);
        else
            free(stage->areas[i]);
    }
}

static kolo_status play(struct kolo_comm *comm, void *argument)
{
    const struct programme *programme = argument;
    struct stage stage = {.comm = comm, .bytes = programme->bytes};
    kolo_status status = open_stage(&stage, programme->from_heap);
    if (status == KOLO_OK)
        status = programme->play(&stage);
    close_stage(&stage, programme->from_heap);
    return status;
}

static void run(const struct programme *programme)
{
    struct world world = {.size = programme->size,
                          .transport = programme->transport,
                          .settings = {programme->plan_setting, "KOLO_TIMEOUT=60"}};
    kolo_status status = world_run(&world, play, (void *)(uintptr_t)programme);
    const struct world_result *cause = world_cause(&world);
    cr_assert(status == KOLO_OK, "%s, %d ranks, %s, %s memory: %s (%s; %s)", programme->transport,
              programme->size, programme->plan_setting, programme->from_heap ? "kolo" : "user",
              cause->text, kolo_status_name(cause->status), kolo_error_detail());
}

static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 16};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/** Settings that choose plans; a forced plan is used if it exists and supports the call. */
static const char *const plan_settings[] = {
    "KOLO_SMALL_BYTES=16KiB", "KOLO_SMALL_BYTES=0", "KOLO_PLAN=direct", "KOLO_PLAN=flat",
    "KOLO_PLAN=halving",      "KOLO_PLAN=doubling", "KOLO_PLAN=bruck",  "KOLO_PLAN=tree",
    "KOLO_PLAN=scattered",    "KOLO_PLAN=binary"};
enum { PLAN_SETTINGS = sizeof plan_settings / sizeof plan_settings[0] };

/** One size over one transport: a process that ran all of them would need as long as the timeout
 * for a hang. */
struct size_param {
    struct world_param world;
    int size_index;
};

static struct criterion_test_params all_sizes(void)
{
    static struct size_param all[WORLD_PARAMS * SIZES];
    for (int i = 0; i < WORLD_PARAMS * SIZES; i++)
        all[i] = (struct size_param){world_params[i / SIZES], i % SIZES};
    return cr_make_param_array(struct size_param, all, WORLD_PARAMS * SIZES);
}

/** In a slow preset (TEST_SHORT), every third plan, which ones depends on the size. */
static bool is_wanted(const struct size_param *param, int variant)
{
    return !test_is_short() || (param->size_index + variant) % 3 == 0;
}

/** Runs all plans in one world. */
static void run_plans(const struct size_param *param, kolo_status (*play_all)(struct stage *),
                      size_t bytes)
{
    for (int variant = 0; variant < PLAN_SETTINGS; variant++) {
        if (!is_wanted(param, variant))
            continue;
        struct programme programme = {.size = sizes[param->size_index],
                                      .transport = param->world.name,
                                      .play = play_all,
                                      .bytes = bytes,
                                      .plan_setting = plan_settings[variant],
                                      .from_heap = (param->size_index + variant / 2) % 2 == 1};
        run(&programme);
    }
}

ParameterizedTestParameters(collectives, all_counts)
{
    return all_sizes();
}
ParameterizedTest(struct size_param *param, collectives, all_counts, .timeout = 300)
{
    run_plans(param, play_counts, 512 << 10);
}

ParameterizedTestParameters(collectives, all_types_and_operators)
{
    return all_sizes();
}
ParameterizedTest(struct size_param *param, collectives, all_types_and_operators, .timeout = 300)
{
    run_plans(param, play_types, 64 << 10);
}

ParameterizedTestParameters(collectives, long_vectors)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, collectives, long_vectors, .timeout = 300)
{
    static const int long_sizes[] = {1, 2, 3, 7, 16, 5};
    static const char *const long_settings[] = {"KOLO_SMALL_BYTES=16KiB", "KOLO_SMALL_BYTES=0",
                                                "KOLO_PLAN=direct",       "KOLO_PLAN=halving",
                                                "KOLO_PLAN=scattered",    "KOLO_PLAN=binary"};
    for (size_t i = 0; i < sizeof long_sizes / sizeof long_sizes[0]; i++) {
        struct programme programme = {.size = long_sizes[i],
                                      .transport = param->name,
                                      .plan_setting = long_settings[i % 6],
                                      .from_heap = i % 2 == 0,
                                      .play = play_long,
                                      .bytes = (5 << 20)};
        run(&programme);
    }
}

/* A block of no elements has no position: its displacement cannot make the buffers overlap, and
 * may differ between ranks. Ranks may or may not pass the displacements of packed blocks. */
static kolo_status far_empty_block(struct kolo_comm *comm, void *arg)
{
    const size_t counts[] = {4, 0};
    const size_t displs[] = {0, (size_t)1 << (20 + kolo_rank(comm))}, packed[] = {0, 4};
    int buffer[16] = {0};
    (void)arg;
    for (int i = 8; i < 12; i++)
        buffer[i] = i;
    kolo_status status =
        kolo_allgatherv(comm, buffer + 8, buffer, counts, displs, KOLO_INT32, NULL, NULL);
    if (status == KOLO_OK)
        status = kolo_allgatherv(comm, buffer + 8, buffer, counts,
                                 kolo_rank(comm) == 0 ? packed : NULL, KOLO_INT32, NULL, NULL);
    return status == KOLO_OK && buffer[3] != 11 ? KOLO_ERR_INTERNAL : status;
}

Test(collectives, an_empty_block_may_lie_anywhere, .timeout = 60)
{
    cr_assert(kolo_run_threads(2, NULL, far_empty_block, NULL) == KOLO_OK, "%s",
              kolo_error_detail());
}

/* ---- wrong lengths ---- */

/** Rank 1 expects one element more from rank 0 than rank 0 sends. */
static kolo_status lengths_differ(struct kolo_comm *comm, void *arg)
{
    (void)arg;
    const size_t send_counts[] = {1, 2};
    size_t recv_counts[] = {1, 1};
    float send[8] = {0}, recv[8] = {0};
    int rank = kolo_rank(comm);
    if (rank == 1)
        recv_counts[0] = 3, recv_counts[1] = 2;
    kolo_status status = kolo_alltoallv(comm, send, send_counts, NULL, recv, recv_counts, NULL,
                                        KOLO_FLOAT32, NULL, NULL);
    if (rank == 0 && status == KOLO_OK)
        return KOLO_OK; /* this rank has all it wanted, and may be gone before rank 1 complains */
    WORLD_EXPECT(status == KOLO_ERR_MISMATCH, "rank %d: %s (%s)", rank, kolo_status_name(status),
                 kolo_error_detail());
    WORLD_EXPECT(strstr(kolo_error_detail(), "alltoallv(count 2, float32)") &&
                     strstr(kolo_error_detail(), "alltoallv(count 3, float32)"),
                 "rank %d: %s", rank, kolo_error_detail());
    return KOLO_OK;
}

ParameterizedTestParameters(collectives, alltoallv_of_other_lengths)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, collectives, alltoallv_of_other_lengths, .timeout = 60)
{
    struct world world = {.size = 2, .transport = param->name};
    WORLD_MUST_RUN(&world, lengths_differ, NULL);
}

#define EXPECT_INVALID(call)                                                                       \
    WORLD_EXPECT((call) == KOLO_ERR_INVALID, "line %d: not refused, or otherwise: %s", __LINE__,   \
                 kolo_error_detail())

/** Nothing is sent or written, and the communicator still works. */
static kolo_status wrong_arguments(struct kolo_comm *comm, void *arg)
{
    (void)arg;
    enum { N = 8 };
    float send[N] = {0}, recv[N] = {0};
    const size_t ones[] = {1, 1}, most = SIZE_MAX, huge[] = {SIZE_MAX / 2, SIZE_MAX / 2};
    const size_t same[] = {0, 0}, far[] = {0, SIZE_MAX}, own[] = {2, 2};
    const kolo_dtype f32 = KOLO_FLOAT32;
    EXPECT_INVALID(kolo_alltoall(comm, send, recv, most, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoall(comm, send, recv, most / 8, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoall(comm, send, send, 1, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoall(comm, send, send + 1, 1, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoall(comm, NULL, recv, 1, f32, NULL, NULL));
    for (int op = KOLO_BAND; op <= KOLO_LXOR; op++)
        EXPECT_INVALID(kolo_allreduce(comm, send, recv, 1, f32, (kolo_redop)op, NULL, NULL));
    EXPECT_INVALID(kolo_alltoallv(comm, send, NULL, NULL, recv, ones, NULL, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoallv(comm, send, ones, NULL, recv, NULL, NULL, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoallv(comm, send, ones, NULL, recv, ones, same, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoallv(comm, send, ones, NULL, recv, ones, far, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoallv(comm, send, huge, NULL, recv, ones, NULL, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoallv(comm, send, ones, NULL, recv, own, NULL, f32, NULL, NULL));
    EXPECT_INVALID(kolo_alltoallv(comm, send, ones, NULL, send + 1, ones, NULL, f32, NULL, NULL));
    EXPECT_INVALID(kolo_scatterv(comm, send, NULL, NULL, recv, f32, 0, NULL, NULL));
    EXPECT_INVALID(kolo_scatterv(comm, send, ones, NULL, recv, f32, 2, NULL, NULL));
    EXPECT_INVALID(kolo_scatterv(comm, send, huge, NULL, recv, f32, 0, NULL, NULL));
    EXPECT_INVALID(kolo_reduce_scatterv(comm, send, recv, NULL, f32, KOLO_SUM, NULL, NULL));
    EXPECT_INVALID(kolo_reduce_scatterv(comm, send, recv, huge, f32, KOLO_SUM, NULL, NULL));
    EXPECT_INVALID(kolo_reduce_scatterv(comm, send, NULL, ones, f32, KOLO_SUM, NULL, NULL));
    for (int i = 0; i < N; i++)
        WORLD_EXPECT(send[i] == 0 && recv[i] == 0, "written");
    return kolo_alltoall(comm, send, recv, 1, f32, NULL, NULL);
}

Test(collectives, wrong_arguments_of_blocks, .timeout = 60)
{
    struct world world = {.size = 2};
    WORLD_MUST_RUN(&world, wrong_arguments, NULL);
}
