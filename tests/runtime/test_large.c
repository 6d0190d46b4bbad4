// SPDX-License-Identifier: Apache-2.0
// Counts beyond 2^31. Every plan is checked for vectors of 2^33 elements, without memory: slices
// lie within their buffers, what one rank sends another receives, and results are covered; the
// shares of a board make up the whole; descriptions keep such counts. With TEST_SOAK=1 an
// allreduce, a broadcast and a message of 2^31 + 3 bytes really run, over shared memory and TCP.
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/board_moves.h"
#include "runtime/comm.h"
#include "tests/support/length.h"
#include "tests/support/world.h"

enum { RANKS_MAX = 5, MESSAGES_MAX = 4096 };

static const size_t HUGE = ((size_t)1 << 33) + 5, SEGMENT = ((size_t)1 << 28) + 1;

/** What one rank sends to another, in order. */
struct traffic {
    size_t out[MESSAGES_MAX], in[MESSAGES_MAX], outs, ins;
};
static struct traffic traffic[RANKS_MAX][RANKS_MAX];

struct extents {
    size_t of[KOLO_BUFFERS], received;
};

static void check_slice(const struct kolo_plan *plan, const struct extents *extents,
                        const struct kolo_slice *slice)
{
    size_t end;
    if (slice->count == 0)
        return;
    cr_assert(!__builtin_add_overflow(slice->offset, slice->count, &end) &&
                  end <= extents->of[slice->buffer],
              "%s %s: elements %zu + %zu of buffer %d, which has %zu",
              kolo_collective_text(plan->collective), plan->name, slice->offset, slice->count,
              (int)slice->buffer, extents->of[slice->buffer]);
}

static void note_written(struct extents *extents, const struct kolo_slice *slice)
{
    if (slice->buffer == KOLO_BUFFER_RECV)
        extents->received += slice->count;
}

static void run_step(const struct kolo_plan *plan, const struct kolo_plan_args *args, size_t index,
                     struct extents *extents)
{
    struct kolo_step step;
    plan->step(args, index, &step);
    const struct kolo_slice *all[] = {&step.copy_from, &step.copy_to,  &step.finish,
                                      &step.out,       &step.in,       &step.local,
                                      &step.fold.out,  &step.fold.mine};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_slice(plan, extents, all[i]);
    note_written(extents, &step.copy_to);
    if (step.fold.ways > 0)
        note_written(extents, &step.fold.out);
    if (step.to >= 0) {
        struct traffic *to = &traffic[args->rank][step.to];
        cr_assert(to->outs < MESSAGES_MAX);
        to->out[to->outs++] = step.out.count;
    }
    if (step.from >= 0) {
        struct traffic *from = &traffic[step.from][args->rank];
        cr_assert(from->ins < MESSAGES_MAX);
        from->in[from->ins++] = step.in.count;
        note_written(extents, &step.in);
    }
}

static void run_rank(const struct kolo_plan *plan, const struct kolo_plan_args *args)
{
    struct extents extents = {0};
    if (plan->collective == KOLO_COLLECTIVE_BARRIER)
        return;
    kolo_moves_extent(plan->collective, args, args->rank, &extents.of[KOLO_BUFFER_SEND],
                      &extents.of[KOLO_BUFFER_RECV]);
    size_t wanted = extents.of[KOLO_BUFFER_RECV];
    /* the root has one buffer, which already holds the data */
    if (plan->collective == KOLO_COLLECTIVE_BROADCAST) {
        wanted = args->rank == args->root ? 0 : args->count;
        extents.of[KOLO_BUFFER_SEND] = extents.of[KOLO_BUFFER_RECV] = args->count;
    }
    extents.of[KOLO_BUFFER_SCRATCH] = plan->scratch(args);
    for (size_t i = 0; i < plan->nsteps(args); i++)
        run_step(plan, args, i, &extents);
    cr_assert(extents.received >= wanted, "%s %s: rank %d gets %zu of %zu",
              kolo_collective_text(plan->collective), plan->name, args->rank, extents.received,
              wanted);
}

static void run_plan(const struct kolo_plan *plan, int size, size_t count)
{
    struct kolo_plan_args args = {
        .size = size, .root = size - 1, .count = count, .segment = SEGMENT};
    args.in_place = plan->collective == KOLO_COLLECTIVE_BROADCAST;
    memset(traffic, 0, sizeof traffic);
    if (kolo_plan_fits(plan, &args, 1))
        return;
    for (args.rank = 0; args.rank < size; args.rank++)
        run_rank(plan, &args);
    for (int from = 0; from < size; from++)
        for (int to = 0; to < size; to++) {
            const struct traffic *pair = &traffic[from][to];
            cr_assert(pair->outs == pair->ins &&
                          memcmp(pair->out, pair->in, pair->outs * sizeof *pair->out) == 0,
                      "%s %s: from %d to %d differs", kolo_collective_text(plan->collective),
                      plan->name, from, to);
        }
}

Test(large, every_plan)
{
    for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan))
        for (int size = 1; size <= RANKS_MAX && plan->step; size++) {
            run_plan(plan, size, HUGE);
            run_plan(plan, size, ((size_t)1 << 31) - 1);
            run_plan(plan, size, ((size_t)1 << 32) + 1);
        }
}

/* ---- scratch ---- */

/** Elements of scratch for each element of a block, computed naively: what each plan that holds
 * other ranks' data must report. 0: it is not one of those plans. */
static size_t naive_held(const struct kolo_plan *plan, size_t n)
{
    size_t held = n / 2; /* bruck: what is packed and what is received in one round */
    if (strcmp(plan->name, "flat") == 0)
        return n - 1;
    if (plan->collective != KOLO_COLLECTIVE_ALLTOALL || strcmp(plan->name, "bruck") != 0)
        return 0;
    for (size_t block = 0; block < n; block++)
        held += (size_t)__builtin_popcountll(block);
    return held;
}

static void check_scratch(const struct kolo_plan *plan, struct kolo_plan_args *args,
                          size_t element_bytes)
{
    size_t held = naive_held(plan, (size_t)args->size), needed, bytes, most = KOLO_SCRATCH_BYTES;
    bool is_too_much =
        held > 0 && (__builtin_mul_overflow(held, args->count, &needed) ||
                     __builtin_mul_overflow(needed, element_bytes, &needed) || needed > most);
    const char *why = kolo_plan_fits(plan, args, element_bytes);
    if (plan->fits(args))
        return;
    cr_assert((why != NULL) == is_too_much, "%s %s: %d ranks, %zu of %zu bytes: %s",
              kolo_collective_text(plan->collective), plan->name, args->size, args->count,
              element_bytes, why ? why : "fits");
    for (args->rank = 0; !why && args->rank < args->size; args->rank += args->size - 1)
        cr_assert(!__builtin_mul_overflow(plan->scratch(args), element_bytes, &bytes) &&
                      (held == 0 || bytes <= most),
                  "%s %s: %d ranks, %zu of %zu bytes", kolo_collective_text(plan->collective),
                  plan->name, args->size, args->count, element_bytes);
    args->rank = 0;
}

Test(large, scratch_is_bounded_in_bytes)
{
    static const size_t elements[] = {1, 2, 4, 8, 24, KOLO_OPAQUE_BYTES_MAX};
    static const int sizes[] = {2, 3, 8, 255, 256, 1000, 4096};
    for (const struct kolo_plan *plan = kolo_plan_next(NULL); plan; plan = kolo_plan_next(plan))
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0] && plan->step; s++)
            for (size_t e = 0; e < sizeof elements / sizeof elements[0]; e++)
                for (size_t bytes = elements[e]; bytes <= (size_t)PTRDIFF_MAX / 4096 / 3;
                     bytes *= 3) {
                    struct kolo_plan_args args = {
                        .size = sizes[s], .count = bytes / elements[e], .segment = SEGMENT};
                    check_scratch(plan, &args, elements[e]);
                }
}

/** Two levels need hosts: the bound is the size of its scratch, which is the same on every rank. */
Test(large, scratch_of_an_alltoall_in_two_levels)
{
    enum { RANKS = 4096 };
    static int of[RANKS], memory[KOLO_HOSTS_INTS(RANKS)];
    struct kolo_topology hosts;
    const struct kolo_plan *plan = kolo_plan_find(KOLO_COLLECTIVE_ALLTOALL, "twolevel");
    for (int rank = 0; rank < RANKS; rank++)
        of[rank] = rank / 64;
    kolo_topology_fill(&hosts, RANKS, of, NULL, memory);
    struct kolo_plan_args args = {.size = RANKS, .hosts = &hosts, .count = 1, .segment = SEGMENT};
    size_t each = plan->scratch(&args), most = KOLO_SCRATCH_BYTES / 8 / each;
    cr_assert(each >= 2 * 63 * 64 && each <= 3 * RANKS, "%zu", each);
    args.count = most;
    cr_expect(!kolo_plan_fits(plan, &args, 8) && plan->scratch(&args) == most * each);
    args.count = most + 1;
    cr_expect(kolo_plan_fits(plan, &args, 8) != NULL);
    args.count = SIZE_MAX / 8;
    cr_expect(kolo_plan_fits(plan, &args, 8) != NULL);
}

Test(large, shares_of_a_board)
{
    const struct kolo_plan_args args = {.size = 3, .count = HUGE, .segment = SEGMENT};
    for (int c = 0; c < KOLO_COLLECTIVES; c++) {
        enum kolo_collective collective = (enum kolo_collective)c;
        size_t total = 0, shared = 0;
        if (kolo_moves_fit(collective, &args))
            continue;
        for (size_t i = 0; i < kolo_moves_count(collective, &args); i++) {
            struct kolo_move move;
            kolo_moves_at(collective, &args, i, &move);
            total += move.count;
        }
        for (int part = 0; part < 3; part++) {
            struct kolo_share share;
            struct kolo_move move;
            kolo_share_begin(collective, &args, part, 3, 16, &share);
            while (kolo_share_next(&share, SEGMENT, &move))
                shared += move.count;
        }
        cr_assert(shared == total && (total >= HUGE || collective == KOLO_COLLECTIVE_BARRIER),
                  "%s: %zu of %zu", kolo_collective_text(collective), shared, total);
    }
}

Test(large, descriptions)
{
    struct kolo_call call = {
        .kind = KOLO_CALL_ALLREDUCE, .count = HUGE, .dtype = KOLO_OPAQUE(4096)};
    struct kolo_desc desc;
    struct kolo_call back;
    char words[KOLO_WORDS_MAX];
    kolo_call_pack(&call, &desc);
    kolo_call_unpack(&desc, &back);
    cr_assert(back.count == HUGE && back.dtype == KOLO_OPAQUE(4096));
    kolo_call_words(&back, words, sizeof words);
    cr_assert(strstr(words, "count 8589934597, 4096 bytes each") != NULL, "%s", words);
}

/* ---- calls that really run ---- */

static uint8_t input(int rank, size_t i)
{
    return (uint8_t)(i * 37 + (i >> 29) + (size_t)rank * 11);
}

static kolo_status check(const uint8_t *at, size_t count, int first, int ranks, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        unsigned sum = 0;
        for (int rank = first; rank < first + ranks; rank++)
            sum += input(rank, i);
        WORLD_EXPECT(at[i] == (uint8_t)sum, "%s: element %zu is %u, not %u", what, i, at[i],
                     (uint8_t)sum);
    }
    return KOLO_OK;
}

static kolo_status call_all(struct kolo_comm *comm, uint8_t *memory, size_t count)
{
    const int rank = kolo_rank(comm);
    kolo_status status;
    for (size_t i = 0; i < count; i++)
        memory[i] = input(rank, i);
    KOLO_TRY(kolo_allreduce(comm, memory, memory, count, KOLO_UINT8, KOLO_SUM, NULL, NULL));
    KOLO_TRY(check(memory, count, 0, 2, "allreduce"));
    for (size_t i = 0; i < count; i++)
        memory[i] = input(rank, i);
    if (rank == 0)
        KOLO_TRY(kolo_send(comm, memory, count, KOLO_UINT8, 1, NULL, NULL));
    else
        KOLO_TRY(kolo_recv(comm, memory, count, KOLO_UINT8, 0, NULL, NULL));
    KOLO_TRY(check(memory, count, 0, 1, "message"));
    for (size_t i = 0; i < count; i++)
        memory[i] = input(rank, i);
    KOLO_TRY(kolo_broadcast(comm, memory, count, KOLO_UINT8, 1, NULL, NULL));
    KOLO_TRY(check(memory, count, 1, 1, "broadcast"));
out:
    return status;
}

static kolo_status really(struct kolo_comm *comm, void *argument)
{
    const size_t count = ((size_t)1 << 31) + 3;
    void *memory = NULL;
    kolo_status status;
    if (*(const bool *)argument) {
        KOLO_TRY(kolo_alloc(comm, count, &memory));
        KOLO_TRY(call_all(comm, memory, count));
        return kolo_free(comm, memory);
    }
    memory = malloc(count);
    status = memory ? call_all(comm, memory, count) : KOLO_ERR_NO_MEMORY;
    free(memory);
out:
    return status;
}

Test(large, two_gibibytes, .timeout = 600)
{
    static const char *const transports[] = {"shm", "tcp"};
    if (!test_is_long())
        cr_skip_test("TEST_SOAK=1 runs it");
    for (int i = 0; i < 4; i++) {
        bool is_shared = i % 2 == 1;
        struct world world = {
            .size = 2, .transport = transports[i / 2], .settings = {"KOLO_TIMEOUT=300"}};
        WORLD_MUST_RUN(&world, really, &is_shared);
    }
}
