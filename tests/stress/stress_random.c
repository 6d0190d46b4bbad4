// SPDX-License-Identifier: Apache-2.0
// Random calls on several communicators that overlap. Afterwards every byte on each rank is
// checked: results, inputs, the gaps between slices, and the memory around the buffers.
//
// A call follows from the seed, the communicator and the call's number, so all its ranks agree. How
// a rank makes it (blocking, by a request, persistent, in place, in memory of kolo_alloc, the
// alignment) is its own choice. One thread calls on all communicators in turn, or each has a
// thread. The reference folds from left to right in rank order, one element at a time. A program
// without Criterion:
//
//     stress-random [SEED [WORLDS]]                   ranks as threads, settings by the seed
//     kolorun -np 4 stress-random [SEED]              one world, settings from the environment
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/kolo.h>

/** The reference uses no memory of other threads. ThreadSanitizer, which would take most of the
 * test's time for it, sees its results as they are copied from and compared with. */
#define REFERENCE __attribute__((no_sanitize("thread"))) static

enum {
    RANKS_MAX = 8,
    COMMS = 4,
    GUARD = 64,
    PARTS_MAX = 5,
    PENDING_MAX = 4,
    STEPS = 60,
    CHILD_STEPS = 6
};

enum kind {
    ALLREDUCE,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTERV, /* the kinds up to here combine elements */
    BROADCAST,
    ALLGATHER,
    ALLGATHERV,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLTOALL,
    ALLTOALLV,
    EXCHANGE, /* every rank sends to one and receives from another */
    BARRIER,
    KINDS
};

static const char *const kind_names[KINDS] = {
    "allreduce", "reduce",     "reduce_scatter", "reduce_scatterv", "broadcast",
    "allgather", "allgatherv", "gather",         "gatherv",         "scatter",
    "scatterv",  "alltoall",   "alltoallv",      "exchange",        "barrier"};

/* ---- chance ---------------------------------------------------------------------------------- */

REFERENCE uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = mix(*state, 1);
    return mix(*state, 2) % below;
}

/** Mostly small, sometimes large. */
static size_t draw_count(uint64_t *state)
{
    uint64_t bits = draw(state, 16);
    if (bits == 15 && draw(state, 4) == 0)
        bits = 18;
    return (size_t)draw(state, (1u << bits) + 1);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/** What all ranks of the communicator agree on. */
struct call {
    enum kind kind;
    kolo_dtype dtype;
    kolo_redop op; /* KOLO_REDOP_OWN: an operator of the program */
    int root, distance;
    /* alltoallv: from each rank to each rank; others use row 0 */
    size_t count, counts[RANKS_MAX][RANKS_MAX];
    bool deterministic, is_rough, is_scaled; /* is_rough: floats whose sums need rounding */
    /* odd ranks contribute half of their values, and have a prescale of their own */
    bool is_weighed;
    uint64_t key;
};

static bool combines(enum kind kind)
{
    return kind <= REDUCE_SCATTERV;
}

static bool is_float(kolo_dtype dtype)
{
    return dtype >= KOLO_FLOAT16 && dtype <= KOLO_FLOAT64;
}

static bool is_unsigned(kolo_dtype dtype)
{
    return dtype == KOLO_UINT8 || (dtype >= KOLO_UINT16 && dtype <= KOLO_UINT64);
}

static void draw_type(struct call *call, uint64_t *state)
{
    uint64_t way = draw(state, 10);
    call->dtype = (kolo_dtype)draw(state, KOLO_DTYPES);
    call->op = (kolo_redop)draw(state, KOLO_REDOPS);
    call->deterministic = draw(state, 3) == 0;
    if (way == 0) {
        call->dtype = KOLO_OPAQUE(draw(state, 2) == 0 ? 8 : 12);
        call->op = (kolo_redop)KOLO_REDOP_OWN;
        return;
    }
    if (is_float(call->dtype) && call->op >= KOLO_BAND)
        call->op = KOLO_SUM;
    if (way == 1) {
        call->dtype = draw(state, 2) == 0 ? KOLO_FLOAT32 : KOLO_FLOAT64;
        call->op = KOLO_SUM;
        call->is_rough = call->deterministic = true;
    } else {
        call->is_scaled = is_float(call->dtype) && call->op != KOLO_PROD && draw(state, 4) == 0;
    }
}

static void draw_call(struct call *call, int ranks, uint64_t *state)
{
    *call = (struct call){.kind = (enum kind)draw(state, KINDS), .key = draw(state, UINT64_MAX)};
    draw_type(call, state);
    if (!combines(call->kind))
        call->is_rough = call->is_scaled = call->deterministic = false;
    call->is_weighed =
        combines(call->kind) && is_float(call->dtype) && !call->is_scaled && draw(state, 4) == 0;
    call->root = (int)draw(state, (uint64_t)ranks);
    call->distance = ranks > 1 ? 1 + (int)draw(state, (uint64_t)ranks - 1) : 0;
    if (call->kind == EXCHANGE && ranks == 1)
        call->kind = BARRIER;
    call->count = draw_count(state);
    for (int i = 0; i < ranks; i++)
        for (int k = 0; k < ranks; k++)
            call->counts[i][k] = draw(state, 4) == 0 ? 0 : draw_count(state) / 2;
}

/* ---- elements -------------------------------------------------------------------------------- */

/** Composition of maps x -> a x + b: associative, and the order matters. c: only for 12 bytes. */
struct map {
    uint32_t a, b, c;
};

static void compose(void *into, const void *from, size_t count, kolo_dtype dtype, void *context)
{
    size_t bytes = kolo_dtype_bytes(dtype);
    (void)context;
    for (size_t i = 0; i < count; i++) {
        struct map first = {0}, second = {0};
        memcpy(&first, (char *)into + i * bytes, bytes);
        memcpy(&second, (const char *)from + i * bytes, bytes);
        first = (struct map){first.a * second.a, first.b * second.a + second.b, first.c + second.c};
        memcpy((char *)into + i * bytes, &first, bytes);
    }
}

/** Numbers so small that every type represents all their sums, products and averages exactly. */
REFERENCE int64_t small_number(const struct call *call, uint64_t chance, int ranks)
{
    bool is_byte = call->dtype == KOLO_INT8 || call->dtype == KOLO_UINT8;
    int64_t number = (int64_t)(chance % 7) - (is_unsigned(call->dtype) ? 0 : 3);
    if (combines(call->kind) && call->op == KOLO_PROD)
        number = (int64_t)(chance % 2) + 1;
    else if (is_byte)
        number = number > 0;
    return combines(call->kind) && call->op == KOLO_AVERAGE ? number * ranks : number;
}

REFERENCE void store(kolo_dtype dtype, int64_t number, void *out)
{
    float single = (float)number;
    double twice = (double)number;
    uint32_t bits;
    uint16_t half;
    memcpy(&bits, &single, 4);
    if (dtype == KOLO_FLOAT16)
        half = number == 0 ? 0
                           : (uint16_t)((bits >> 31 << 15) | (((bits >> 23 & 255) - 112) << 10) |
                                        (bits >> 13 & 1023));
    else
        half = (uint16_t)(bits >> 16);
    if (dtype == KOLO_FLOAT64)
        memcpy(out, &twice, 8);
    else if (dtype == KOLO_FLOAT32)
        memcpy(out, &single, 4);
    else if (dtype == KOLO_FLOAT16 || dtype == KOLO_BFLOAT16)
        memcpy(out, &half, 2);
    else
        for (size_t i = 0, n = kolo_dtype_bytes(dtype); i < n; i++)
            ((uint8_t *)out)[i] = (uint8_t)((uint64_t)number >> 8 * i);
}

REFERENCE double rough_number(uint64_t chance)
{
    return ((double)(chance % 2000003) - 1000001.5) / (double)(1 + chance / 7 % 1009);
}

/** Element @p index of the contribution of @p rank. */
REFERENCE void element(const struct call *call, int ranks, int rank, size_t index, int round,
                       void *out)
{
    uint64_t chance = mix(mix(call->key, (uint64_t)rank * 64 + (uint64_t)round), index);
    if (call->dtype >= KOLO_DTYPES) {
        struct map map = {(uint32_t)chance | 1, (uint32_t)(chance >> 32), (uint32_t)(chance >> 16)};
        memcpy(out, &map, kolo_dtype_bytes(call->dtype));
    } else if (call->is_rough && call->dtype == KOLO_FLOAT32) {
        memcpy(out, &(float){(float)rough_number(chance)}, 4);
    } else if (call->is_rough) {
        memcpy(out, &(double){rough_number(chance)}, 8);
    } else {
        store(call->dtype, small_number(call, chance, ranks), out);
    }
}

REFERENCE int64_t fold(kolo_redop op, int64_t a, int64_t b)
{
    switch (op) {
    case KOLO_MIN:
        return a < b ? a : b;
    case KOLO_MAX:
        return a > b ? a : b;
    case KOLO_PROD:
        return a * b;
    case KOLO_BAND:
        return a & b;
    case KOLO_BOR:
        return a | b;
    case KOLO_BXOR:
        return a ^ b;
    case KOLO_LAND:
        return a != 0 && b != 0;
    case KOLO_LOR:
        return a != 0 || b != 0;
    case KOLO_LXOR:
        return (a != 0) != (b != 0);
    case KOLO_SUM:
    case KOLO_AVERAGE:
    case KOLO_REDOPS:
    case KOLO_REDOP_LAST:
    default:
        return a + b;
    }
}

REFERENCE void folded_rough(const struct call *call, int ranks, size_t index, int round, void *out)
{
    float single = 0, next = 0;
    double twice = 0, after = 0;
    for (int r = 0; r < ranks; r++) {
        bool is_single = call->dtype == KOLO_FLOAT32;
        element(call, ranks, r, index, round, is_single ? (void *)&next : (void *)&after);
        single = r == 0 ? next : single + next;
        twice = r == 0 ? after : twice + after;
    }
    if (call->dtype == KOLO_FLOAT32)
        memcpy(out, &single, 4);
    else
        memcpy(out, &twice, 8);
}

/** The same element of all ranks, combined. */
REFERENCE void folded(const struct call *call, int ranks, size_t index, int round, void *out)
{
    int64_t number = 0;
    if (call->is_rough) {
        folded_rough(call, ranks, index, round, out);
        return;
    }
    for (int r = 0; r < ranks; r++) {
        struct map next;
        uint64_t chance = mix(mix(call->key, (uint64_t)r * 64 + (uint64_t)round), index);
        if (call->dtype >= KOLO_DTYPES) {
            element(call, ranks, r, index, round, r == 0 ? out : (void *)&next);
            if (r > 0)
                compose(out, &next, 1, call->dtype, NULL);
            continue;
        }
        int64_t value = small_number(call, chance, ranks);
        if (r > 0)
            number = fold(call->op, number, value);
        else
            number = call->op >= KOLO_LAND && call->op < KOLO_REDOPS ? value != 0 : value;
    }
    if (call->dtype < KOLO_DTYPES)
        store(call->dtype, call->op == KOLO_AVERAGE ? number / ranks : number, out);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/** @p count elements of the receive buffer from @p at on, which come from rank @p from (-1: all
 * ranks, combined), from @p index on. */
struct block {
    size_t at, count, index;
    int from;
};

/** A call as one rank sees it, in elements. */
struct shape {
    size_t send, recv; /* lengths of both buffers; 0: none, or not needed */
    size_t send_counts[RANKS_MAX], send_displs[RANKS_MAX];
    size_t recv_counts[RANKS_MAX], recv_displs[RANKS_MAX];
    struct block blocks[RANKS_MAX];
    int block_count;
    bool may_be_in_place;
    size_t inside; /* in place: the position of the shorter buffer within the longer one */
    bool rest_is_lost;
};

/** Slices, sometimes with gaps, in rank order or in the opposite order. @return the total length */
static size_t place(const size_t counts[], int ranks, uint64_t key, size_t displs[])
{
    size_t at = 0;
    for (int i = 0; i < ranks; i++) {
        int r = key % 2 == 0 ? i : ranks - 1 - i;
        displs[r] = at;
        at += counts[r] + (mix(key, (uint64_t)r) % 3 == 0 ? mix(key, at) % 5 : 0);
    }
    return at;
}

static void add(struct shape *shape, size_t at, size_t count, int from, size_t index)
{
    shape->blocks[shape->block_count++] = (struct block){at, count, index, from};
}

static void shape_to_all(const struct call *call, int ranks, int me, bool receives, struct shape *s)
{
    bool has_counts = call->kind == ALLGATHERV || call->kind == GATHERV;
    for (int r = 0; r < ranks; r++) {
        s->recv_counts[r] = has_counts ? call->counts[0][r] : call->count;
        s->recv_displs[r] = (size_t)r * call->count;
    }
    size_t all = (size_t)ranks * call->count;
    if (has_counts)
        all = place(s->recv_counts, ranks, call->key, s->recv_displs);
    s->send = s->recv_counts[me];
    if (!receives)
        return;
    s->recv = all;
    s->may_be_in_place = true;
    s->inside = s->recv_displs[me];
    for (int r = 0; r < ranks; r++)
        add(s, s->recv_displs[r], s->recv_counts[r], r, 0);
}

static void shape_shares(const struct call *call, int ranks, int me, struct shape *s)
{
    bool has_counts = call->kind == REDUCE_SCATTERV || call->kind == SCATTERV;
    bool is_combined = combines(call->kind), sends = is_combined || me == call->root;
    for (int r = 0; r < ranks; r++) {
        s->send_counts[r] = has_counts ? call->counts[0][r] : call->count;
        s->send_displs[r] = r == 0 ? 0 : s->send_displs[r - 1] + s->send_counts[r - 1];
    }
    size_t all = s->send_displs[ranks - 1] + s->send_counts[ranks - 1];
    if (call->kind == SCATTERV)
        all = place(s->send_counts, ranks, call->key, s->send_displs);
    s->send = sends ? all : 0;
    s->recv = s->send_counts[me];
    s->may_be_in_place = sends;
    s->inside = s->send_displs[me];
    s->rest_is_lost = is_combined;
    add(s, 0, s->recv, is_combined ? -1 : call->root, s->send_displs[me]);
}

static void shape_pairs(const struct call *call, int ranks, int me, struct shape *s)
{
    bool has_counts = call->kind == ALLTOALLV;
    size_t counts[RANKS_MAX], displs[RANKS_MAX];
    for (int r = 0; r < ranks; r++) {
        s->send_counts[r] = has_counts ? call->counts[me][r] : call->count;
        s->recv_counts[r] = has_counts ? call->counts[r][me] : call->count;
        s->send_displs[r] = s->recv_displs[r] = (size_t)r * call->count;
    }
    s->send = s->recv = (size_t)ranks * call->count;
    if (has_counts) {
        s->send = place(s->send_counts, ranks, mix(call->key, (uint64_t)me), s->send_displs);
        s->recv = place(s->recv_counts, ranks, mix(call->key, 100 + (uint64_t)me), s->recv_displs);
    }
    for (int r = 0; r < ranks; r++) {
        displs[me] = (size_t)me * call->count;
        for (int k = 0; has_counts && k < ranks; k++)
            counts[k] = call->counts[r][k];
        if (has_counts)
            place(counts, ranks, mix(call->key, (uint64_t)r), displs);
        add(s, s->recv_displs[r], s->recv_counts[r], r, displs[me]);
    }
}

static void shape_of(const struct call *call, int ranks, int me, struct shape *s)
{
    size_t count = call->count;
    *s = (struct shape){0};
    switch (call->kind) {
    case ALLREDUCE:
    case REDUCE:
        s->send = count;
        s->may_be_in_place = call->kind == ALLREDUCE || me == call->root;
        s->recv = s->may_be_in_place ? count : 0;
        if (s->may_be_in_place)
            add(s, 0, count, -1, 0);
        break;
    case BROADCAST:
        s->send = me == call->root ? count : 0;
        s->may_be_in_place = me == call->root; /* the root always may be */
        s->recv = count;
        add(s, 0, count, call->root, 0);
        break;
    case ALLGATHER:
    case ALLGATHERV:
        shape_to_all(call, ranks, me, true, s);
        break;
    case GATHER:
    case GATHERV:
        shape_to_all(call, ranks, me, me == call->root, s);
        break;
    case REDUCE_SCATTER:
    case REDUCE_SCATTERV:
    case SCATTER:
    case SCATTERV:
        shape_shares(call, ranks, me, s);
        break;
    case ALLTOALL:
    case ALLTOALLV:
        shape_pairs(call, ranks, me, s);
        break;
    case EXCHANGE:
        s->send = s->recv = count;
        add(s, 0, count, (me + ranks - call->distance) % ranks, 0);
        break;
    case BARRIER:
    case KINDS:
    default:
        break;
    }
}

/* ---- players --------------------------------------------------------------------------------- */

struct player {
    struct kolo_comm *world;
    kolo_redop own;
    uint64_t chance; /* this rank's own */
    struct batch *pending[PENDING_MAX];
    bool has_failed;
    uint64_t calls;
};

/** A communicator, its number in the plan of the seed, and how many steps it has had. */
struct place_of_calls {
    struct kolo_comm *comm;
    uint64_t seed, steps;
};

struct job {
    struct call call;
    struct shape shape;
    int ranks, me, round;
    bool is_in_place, is_kolos;
    struct kolo_comm *comm;
    size_t bytes;
    uint8_t *memory, *send, *recv;
    struct kolo_request *requests[2];
};

enum way { BLOCKING, BY_REQUEST, BY_START, BY_RUN, WAYS };

/** Calls that are made together: a single one, or a group. */
struct batch {
    struct job jobs[PARTS_MAX];
    int count, repeats;
    bool is_group, is_refused; /* is_refused: the forced plan does not support such a call */
    enum way way;
    struct kolo_request *request; /* of the group */
};

static bool fail(struct player *player, const struct job *job, const char *what, const char *why)
{
    if (player->has_failed)
        return false;
    player->has_failed = true;
    fprintf(stderr, "rank %d: %s (%d of %d): %s: %s\n", kolo_rank(player->world),
            !job ? "" : kind_names[job->call.kind], !job ? 0 : job->me, !job ? 0 : job->ranks, what,
            why);
    if (job)
        fprintf(stderr, "rank %d: count %zu, %s, %s, root %d, %s%s%s%s, round %d\n",
                kolo_rank(player->world), job->call.count, kolo_dtype_text(job->call.dtype),
                kolo_redop_text(job->call.op), job->call.root, job->is_in_place ? "in place, " : "",
                job->is_kolos ? "kolo's memory, " : "",
                job->call.is_scaled    ? "scaled, "
                : job->call.is_weighed ? "weighed, "
                                       : "",
                job->call.is_rough ? "rough" : "", job->round);
    kolo_abort(player->world, "a rank of the test failed");
    return false;
}

/** The forced plan does not support such a call: all ranks get the error. */
static bool is_refusal(kolo_status status)
{
    return status == KOLO_ERR_UNSUPPORTED && strstr(kolo_error_detail(), "KOLO_PLAN=");
}

static bool keep(struct player *player, const struct job *job, kolo_status status)
{
    if (status == KOLO_OK)
        return !player->has_failed;
    return fail(player, job, kolo_status_name(status), kolo_error_detail());
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static bool job_open(struct player *player, struct job *job, struct kolo_comm *comm)
{
    size_t bytes = kolo_dtype_bytes(job->call.dtype);
    void *memory = NULL;
    job->comm = comm;
    job->ranks = kolo_size(comm);
    job->me = kolo_rank(comm);
    shape_of(&job->call, job->ranks, job->me, &job->shape);
    job->is_in_place = job->shape.may_be_in_place &&
                       (job->call.kind == BROADCAST || draw(&player->chance, 3) == 0);
    job->is_kolos = draw(&player->chance, 2) == 0;
    size_t first = GUARD + (draw(&player->chance, 2) == 0 ? draw(&player->chance, GUARD) : 0);
    size_t second = first + GUARD + job->shape.send * bytes;
    job->bytes = second + job->shape.recv * bytes + GUARD;
    if (!job->is_kolos)
        memory = malloc(job->bytes);
    else if (!keep(player, job, kolo_alloc(comm, job->bytes, &memory)))
        return false;
    job->memory = memory;
    job->send = job->memory + first;
    job->recv = job->memory + second;
    if (job->is_in_place && job->shape.send < job->shape.recv)
        job->send = job->recv + job->shape.inside * bytes;
    else if (job->is_in_place)
        job->recv = job->send + job->shape.inside * bytes;
    return true;
}

static void job_close(struct player *player, struct job *job)
{
    if (job->is_kolos)
        keep(player, job, kolo_free(job->comm, job->memory));
    else
        free(job->memory);
}

static bool has_weight(const struct job *job)
{
    return job->call.is_weighed && job->me % 2 == 1;
}

/** Exact, because it decrements the exponent; the test's numbers are 0 or far from the smallest
 * one. */
REFERENCE void halve(kolo_dtype dtype, uint8_t *at)
{
    const size_t bytes = kolo_dtype_bytes(dtype);
    const unsigned fraction = dtype == KOLO_FLOAT64    ? 52
                              : dtype == KOLO_FLOAT32  ? 23
                              : dtype == KOLO_BFLOAT16 ? 7
                                                       : 10;
    const uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    uint64_t bits = 0;
    memcpy(&bits, at, bytes);
    if ((bits & ~sign) != 0)
        bits -= UINT64_C(1) << fraction;
    memcpy(at, &bits, bytes);
}

REFERENCE void fill_send(const struct job *job, uint8_t *send)
{
    size_t bytes = kolo_dtype_bytes(job->call.dtype);
    for (size_t i = 0; i < job->shape.send; i++)
        element(&job->call, job->ranks, job->me, i, job->round, send + i * bytes);
    for (size_t i = 0; has_weight(job) && i < job->shape.send; i++)
        halve(job->call.dtype, send + i * bytes);
}

/** The job's memory before its call. The caller frees it. */
static uint8_t *filled(const struct job *job)
{
    uint8_t *memory = malloc(job->bytes);
    memset(memory, 0xa5, job->bytes);
    fill_send(job, memory + (job->send - job->memory));
    return memory;
}

static void job_fill(struct job *job)
{
    job->round++;
    uint8_t *memory = filled(job);
    memcpy(job->memory, memory, job->bytes);
    free(memory);
}

/** Names the first byte that is wrong. */
static bool fail_by_byte(struct player *player, const struct job *job, const uint8_t *want)
{
    size_t wrong = 0;
    while (want[wrong] == job->memory[wrong])
        wrong++;
    char text[200];
    snprintf(text, sizeof text,
             "byte %zu of %zu (send at %td, recv at %td) is %02x instead of %02x", wrong,
             job->bytes, job->send - job->memory, job->recv - job->memory, job->memory[wrong],
             want[wrong]);
    return fail(player, job, "wrong", text);
}

REFERENCE void fill_block(const struct job *job, const struct block *block, uint8_t *recv)
{
    size_t bytes = kolo_dtype_bytes(job->call.dtype);
    for (size_t i = 0; i < block->count; i++) {
        uint8_t *out = recv + (block->at + i) * bytes;
        if (block->from < 0)
            folded(&job->call, job->ranks, block->index + i, job->round, out);
        else
            element(&job->call, job->ranks, block->from, block->index + i, job->round, out);
    }
}

/** Checks all of the job's memory. */
static bool job_check(struct player *player, struct job *job)
{
    const struct shape *s = &job->shape;
    uint8_t *want = filled(job);
    if (job->is_in_place && s->rest_is_lost)
        memcpy(want + (job->send - job->memory), job->send,
               s->send * kolo_dtype_bytes(job->call.dtype));
    for (int b = 0; b < s->block_count; b++)
        fill_block(job, &s->blocks[b], want + (job->recv - job->memory));
    bool is_right = memcmp(want, job->memory, job->bytes) == 0 || fail_by_byte(player, job, want);
    free(want);
    return is_right;
}

/** Makes the call. Each pointer that is not NULL gets a request; an exchange has two. */
static kolo_status job_call(struct player *player, struct job *job, const struct kolo_opts *opts,
                            struct kolo_request **request)
{
    const struct call *c = &job->call;
    const struct shape *s = &job->shape;
    struct kolo_comm *comm = job->comm;
    kolo_redop op = c->op == (kolo_redop)KOLO_REDOP_OWN ? player->own : c->op;
    void *recv = s->recv > 0 || s->block_count > 0 ? job->recv : NULL;
    switch (c->kind) {
    case ALLREDUCE:
        return kolo_allreduce(comm, job->send, recv, c->count, c->dtype, op, opts, request);
    case REDUCE:
        return kolo_reduce(comm, job->send, recv, c->count, c->dtype, op, c->root, opts, request);
    case REDUCE_SCATTER:
        return kolo_reduce_scatter(comm, job->send, recv, c->count, c->dtype, op, opts, request);
    case REDUCE_SCATTERV:
        return kolo_reduce_scatterv(comm, job->send, recv, s->send_counts, c->dtype, op, opts,
                                    request);
    case BROADCAST:
        return kolo_broadcast(comm, recv, c->count, c->dtype, c->root, opts, request);
    case ALLGATHER:
        return kolo_allgather(comm, job->send, recv, c->count, c->dtype, opts, request);
    case ALLGATHERV:
        return kolo_allgatherv(comm, job->send, recv, s->recv_counts, s->recv_displs, c->dtype,
                               opts, request);
    case GATHER:
        return kolo_gather(comm, job->send, recv, c->count, c->dtype, c->root, opts, request);
    case GATHERV:
        return kolo_gatherv(comm, job->send, recv, s->recv_counts, s->recv_displs, c->dtype,
                            c->root, opts, request);
    case SCATTER:
        return kolo_scatter(comm, job->send, recv, c->count, c->dtype, c->root, opts, request);
    case SCATTERV:
        return kolo_scatterv(comm, job->send, s->send_counts, s->send_displs, recv, c->dtype,
                             c->root, opts, request);
    case ALLTOALL:
        return kolo_alltoall(comm, job->send, recv, c->count, c->dtype, opts, request);
    case ALLTOALLV:
        return kolo_alltoallv(comm, job->send, s->send_counts, s->send_displs, recv, s->recv_counts,
                              s->recv_displs, c->dtype, opts, request);
    case EXCHANGE: /* done by job_exchange() */
    case BARRIER:
    case KINDS:
    default:
        return kolo_barrier(comm, opts, request);
    }
}

static kolo_status job_exchange(struct job *job, const struct kolo_opts *opts, bool is_group)
{
    const struct call *c = &job->call;
    int to = (job->me + c->distance) % job->ranks,
        from = (job->me + job->ranks - c->distance) % job->ranks;
    kolo_status status = kolo_send(job->comm, job->send, c->count, c->dtype, to, opts,
                                   is_group ? NULL : &job->requests[0]);
    if (status == KOLO_OK)
        status = kolo_recv(job->comm, job->recv, c->count, c->dtype, from, opts,
                           is_group ? NULL : &job->requests[1]);
    return status;
}

static kolo_status job_make(struct player *player, struct job *job, enum way way, bool is_group)
{
    struct kolo_opts opts = {.size = sizeof opts};
    bool persists = !is_group && (way == BY_START || way == BY_RUN);
    if (job->call.is_scaled)
        opts.prescale = 2, opts.postscale = 0.5;
    if (has_weight(job))
        opts.prescale = 2;
    opts.flags = (job->call.deterministic ? (unsigned)KOLO_DETERMINISTIC : 0) |
                 (persists ? (unsigned)KOLO_PERSISTENT : 0);
    player->calls++;
    if (job->call.kind == EXCHANGE)
        return job_exchange(job, &opts, is_group);
    return job_call(player, job, &opts, is_group || way == BLOCKING ? NULL : &job->requests[0]);
}

/* ---- batches --------------------------------------------------------------------------------- */

static bool batch_refused(struct player *player, struct batch *batch)
{
    batch->is_refused = true;
    for (int i = 0; i < batch->count; i++) {
        struct job *job = &batch->jobs[i];
        uint8_t *want = filled(job);
        if (memcmp(want, job->memory, job->bytes) != 0)
            fail(player, job, "wrong", "a call that was refused has written");
        free(want);
    }
    return !player->has_failed;
}

static bool batch_make(struct player *player, struct batch *batch)
{
    struct kolo_comm *comm = batch->jobs[0].comm;
    bool persists = batch->way == BY_START || batch->way == BY_RUN;
    struct kolo_opts opts = {.size = sizeof opts,
                             .flags = persists ? (unsigned)KOLO_PERSISTENT : 0};
    kolo_status status = KOLO_OK;
    if (batch->is_group && !keep(player, NULL, kolo_group_begin(comm)))
        return false;
    for (int i = 0; i < batch->count; i++) {
        status = job_make(player, &batch->jobs[i], batch->way, batch->is_group);
        if (!is_refusal(status) && !keep(player, &batch->jobs[i], status))
            return false;
    }
    if (batch->is_group)
        status = kolo_group_end(comm, &opts, batch->way == BLOCKING ? NULL : &batch->request);
    return is_refusal(status) ? batch_refused(player, batch)
                              : keep(player, &batch->jobs[0], status);
}

/** All requests of the batch; some may be NULL. */
static int batch_requests(struct batch *batch, struct kolo_request **requests[3])
{
    requests[0] = &batch->request;
    requests[1] = &batch->jobs[0].requests[0];
    requests[2] = &batch->jobs[0].requests[1];
    return 3;
}

static bool batch_start(struct player *player, struct batch *batch)
{
    struct kolo_request **requests[3];
    for (int i = 0, n = batch_requests(batch, requests); i < n; i++) {
        if (!*requests[i])
            continue;
        bool runs =
            batch->way == BY_RUN && (batch->is_group || batch->jobs[0].call.kind != EXCHANGE);
        if (!keep(player, &batch->jobs[0],
                  runs ? kolo_run(*requests[i]) : kolo_start(*requests[i])))
            return false;
    }
    return true;
}

static bool batch_wait(struct player *player, struct batch *batch)
{
    struct kolo_request **requests[3];
    for (int i = 0, n = batch_requests(batch, requests); i < n; i++) {
        kolo_status status = KOLO_AGAIN;
        for (uint64_t k = draw(&player->chance, 3); k > 0 && status == KOLO_AGAIN && *requests[i];
             k--)
            status = kolo_test(requests[i]);
        if (status == KOLO_AGAIN)
            status = kolo_wait(requests[i], -1);
        if (!keep(player, &batch->jobs[0], status))
            return false;
    }
    for (int i = 0; i < batch->count; i++)
        if (!job_check(player, &batch->jobs[i]))
            return false;
    return true;
}

static void batch_end(struct player *player, struct batch *batch)
{
    struct kolo_request **requests[3];
    if (!player->has_failed && (batch->way == BY_START || batch->way == BY_RUN))
        for (int i = 0, n = batch_requests(batch, requests); i < n; i++)
            keep(player, &batch->jobs[0], kolo_request_free(requests[i]));
    for (int i = 0; i < batch->count; i++)
        job_close(player, &batch->jobs[i]);
    free(batch);
}

static bool settle(struct player *player, int slot)
{
    struct batch *batch = player->pending[slot];
    player->pending[slot] = NULL;
    if (!batch || !batch_wait(player, batch))
        return !player->has_failed; /* a failed call keeps its memory, which may still be lent */
    batch_end(player, batch);
    return !player->has_failed;
}

static bool settle_all(struct player *player)
{
    for (int i = 0; i < PENDING_MAX; i++)
        if (!settle(player, i))
            return false;
    return true;
}

/** Runs all rounds of the batch; the last one may stay pending. */
static bool batch_play(struct player *player, struct batch *batch)
{
    bool persists = batch->way == BY_START || batch->way == BY_RUN;
    for (int round = 0; round < batch->repeats; round++) {
        for (int i = 0; i < batch->count; i++)
            job_fill(&batch->jobs[i]);
        if ((round == 0 || !persists) && !batch_make(player, batch))
            return false;
        if (batch->is_refused)
            break;
        if (persists && !batch_start(player, batch))
            return false;
        bool is_last = round == batch->repeats - 1;
        if (is_last && batch->way != BLOCKING && draw(&player->chance, 3) > 0) {
            int slot = (int)draw(&player->chance, PENDING_MAX);
            if (!settle(player, slot))
                return false;
            player->pending[slot] = batch;
            return true;
        }
        if (!batch_wait(player, batch))
            return false;
    }
    batch_end(player, batch);
    return !player->has_failed;
}

static bool play_batch(struct player *player, struct place_of_calls *where, uint64_t *state)
{
    struct batch *batch = calloc(1, sizeof *batch);
    batch->is_group = draw(state, 4) == 0;
    batch->count = batch->is_group ? 1 + (int)draw(state, PARTS_MAX) : 1;
    batch->repeats = draw(state, 4) == 0 ? 3 : 1;
    batch->way = (enum way)draw(&player->chance, WAYS);
    bool is_alike = draw(state, 2) == 0; /* short calls of one type are fused into one */
    for (int i = 0; i < batch->count; i++) {
        struct call *call = &batch->jobs[i].call;
        draw_call(call, kolo_size(where->comm), state);
        if (is_alike && i == 0 && batch->count > 1 && draw(state, 2) == 0) {
            call->kind = ALLREDUCE;
            call->count %= 200;
            call->is_weighed = is_float(call->dtype) && !call->is_scaled && draw(state, 2) == 0;
        }
        if (is_alike && i > 0) {
            size_t count = call->count % 200;
            uint64_t key = call->key;
            *call = batch->jobs[0].call;
            call->key = key;
            call->count = count;
        }
        if (!job_open(player, &batch->jobs[i], where->comm))
            return false;
    }
    return batch_play(player, batch);
}

/** Checks which ranks are in the communicator, and in which order. */
static bool is_as_asked(const struct kolo_comm *comm, const int colours[], const int keys[],
                        int ranks, int me)
{
    int size = 0, rank = 0;
    if (colours[me] < 0)
        return comm == NULL;
    for (int r = 0; r < ranks; r++) {
        size += colours[r] == colours[me];
        rank +=
            colours[r] == colours[me] && (keys[r] < keys[me] || (keys[r] == keys[me] && r < me));
    }
    return comm && kolo_size(comm) == size && kolo_rank(comm) == rank;
}

static bool play_step(struct player *player, struct place_of_calls *where);

/** Some of the ranks call on a communicator of their own for a while. */
static bool play_child(struct player *player, struct place_of_calls *where, uint64_t *state)
{
    int ranks = kolo_size(where->comm), me = kolo_rank(where->comm), colours[RANKS_MAX],
        keys[RANKS_MAX];
    struct place_of_calls child = {.comm = NULL};
    for (int r = 0; r < ranks; r++) {
        colours[r] = (int)draw(state, 3) - 1;
        keys[r] = (int)draw(state, 5) - 2;
    }
    uint64_t seed = draw(state, UINT64_MAX);
    if (!keep(player, NULL, kolo_split(where->comm, colours[me], keys[me], NULL, &child.comm)))
        return false;
    if (!is_as_asked(child.comm, colours, keys, ranks, me))
        return fail(player, NULL, "wrong", "another communicator than was asked for");
    if (!child.comm)
        return true;
    child.seed = mix(seed, (uint64_t)colours[me]);
    for (int i = 0; i < CHILD_STEPS; i++)
        if (!play_step(player, &child))
            return false;
    return settle_all(player) && keep(player, NULL, kolo_finalize(child.comm));
}

static bool play_step(struct player *player, struct place_of_calls *where)
{
    uint64_t state = mix(where->seed, where->steps++);
    if (draw(&state, 25) == 0)
        return play_child(player, where, &state);
    return play_batch(player, where, &state);
}

/* ---- worlds ---------------------------------------------------------------------------------- */

struct hand {
    struct player player;
    struct place_of_calls where;
    pthread_t thread;
};

static void *play_alone(void *argument)
{
    struct hand *hand = argument;
    for (int i = 0; i < STEPS && hand->where.comm; i++)
        if (!play_step(&hand->player, &hand->where))
            return NULL;
    settle_all(&hand->player);
    return NULL;
}

static void play_in_turn(struct hand hands[], uint64_t seed)
{
    uint64_t state = mix(seed, 77);
    for (int i = 0; i < COMMS * STEPS; i++) {
        struct place_of_calls *where = &hands[draw(&state, COMMS)].where;
        if (where->comm && !play_step(&hands[0].player, where))
            return;
    }
    settle_all(&hands[0].player);
}

static kolo_status make_comms(struct hand hands[], struct kolo_comm *world, uint64_t seed)
{
    const struct kolo_op op = {.size = sizeof op, .name = "compose", .fold = compose};
    uint64_t state = mix(seed, 5);
    kolo_redop own;
    kolo_status status = kolo_op_create(world, &op, &own);
    for (int i = 0; i < COMMS && status == KOLO_OK; i++) {
        struct hand *hand = &hands[i];
        *hand = (struct hand){.player = {.world = world, .own = own}, .where.comm = world};
        hand->player.chance = mix(mix(seed, 1000 + (uint64_t)kolo_rank(world)), (uint64_t)i);
        int colours[RANKS_MAX], keys[RANKS_MAX];
        for (int r = 0; r < kolo_size(world); r++) {
            colours[r] = (int)draw(&state, 3) - 1;
            keys[r] = (int)draw(&state, 7);
        }
        int me = kolo_rank(world);
        if (i == 1)
            status = kolo_dup(world, NULL, &hand->where.comm);
        else if (i > 1)
            status = kolo_split(world, colours[me], keys[me], NULL, &hand->where.comm);
        if (i > 1 && status == KOLO_OK &&
            !is_as_asked(hand->where.comm, colours, keys, kolo_size(world), me))
            status = KOLO_ERR_INTERNAL;
        hand->where.seed = mix(mix(seed, 50 + (uint64_t)i), i > 1 ? (uint64_t)colours[me] : 0);
    }
    return status;
}

static kolo_status play_world(struct kolo_comm *world, void *argument)
{
    uint64_t seed = *(const uint64_t *)argument;
    struct hand hands[COMMS];
    kolo_status status = make_comms(hands, world, seed);
    bool has_failed = false;
    if (status != KOLO_OK)
        return status;
    if (seed % 2 == 0)
        play_in_turn(hands, seed);
    for (int i = 0; i < COMMS && seed % 2 == 1; i++)
        if (pthread_create(&hands[i].thread, NULL, play_alone, &hands[i]) != 0)
            exit(2);
    for (int i = 0; i < COMMS && seed % 2 == 1; i++)
        pthread_join(hands[i].thread, NULL);
    for (int i = 0; i < COMMS; i++)
        has_failed = has_failed || hands[i].player.has_failed;
    return has_failed ? KOLO_ERR_INTERNAL : kolo_barrier(world, NULL, NULL);
}

/** Settings drawn from a seed: transports, plans, and the smallest sizes of all buffers. */
static void draw_settings(uint64_t seed, const char *settings[7])
{
    enum { NEEDS_MEMORY = 3 }; /* the first plans of the list need ranks with memory in common */
    static const char *const transports[] = {"KOLO_TRANSPORT=inproc", "KOLO_TRANSPORT=shm",
                                             "KOLO_TRANSPORT=tcp"};
    static const char *const plans[] = {
        "KOLO_PLAN=twoshot",  "KOLO_PLAN=twoshot", "KOLO_PLAN=twoshot",   "KOLO_PLAN=auto",
        "KOLO_PLAN=auto",     "KOLO_PLAN=auto",    "KOLO_PLAN=auto",      "KOLO_PLAN=ring",
        "KOLO_PLAN=doubling", "KOLO_PLAN=halving", "KOLO_PLAN=tree",      "KOLO_PLAN=flat",
        "KOLO_PLAN=direct",   "KOLO_PLAN=bruck",   "KOLO_PLAN=scattered", "KOLO_PLAN=binary",
        "KOLO_PLAN=spread"};
    static const char *const tight[] = {"KOLO_SEGMENT_BYTES=4096",  "KOLO_CREDIT_BYTES=65536",
                                        "KOLO_SHM_RING_BYTES=4096", "KOLO_SHM_DIRECT_BYTES=0",
                                        "KOLO_SPIN_US=0",           "KOLO_STALL=5ms",
                                        "KOLO_YIELD_US=0",          "KOLO_CMA_BYTES=1"};
    uint64_t state = mix(seed, 9), transport = draw(&state, 3);
    uint64_t first = transport == 2 ? NEEDS_MEMORY : 0;
    settings[0] = "KOLO_TIMEOUT=400";
    settings[1] = transports[transport];
    settings[2] = plans[first + draw(&state, sizeof plans / sizeof *plans - first)];
    settings[3] = tight[draw(&state, sizeof tight / sizeof *tight)];
    settings[4] = tight[draw(&state, sizeof tight / sizeof *tight)];
    settings[5] = mix(seed, 10) % 2 == 0 ? "KOLO_CHECKSUM=0" : "KOLO_CHECKSUM=1";
    settings[6] = NULL;
}

static int play_threads(uint64_t seed)
{
    const char *settings[7];
    struct kolo_config config = {.size = sizeof config, .settings = settings};
    int ranks = 1 + (int)(mix(seed, 3) % RANKS_MAX);
    draw_settings(seed, settings);
    printf("seed %" PRIu64 ": %d ranks, %s, %s, %s, %s, %s\n", seed, ranks, settings[1],
           settings[2], settings[3], settings[4], settings[5]);
    fflush(stdout);
    kolo_status status = kolo_run_threads(ranks, &config, play_world, &seed);
    if (status != KOLO_OK)
        fprintf(stderr, "seed %" PRIu64 ": %s: %s\n", seed, kolo_status_name(status),
                kolo_error_detail());
    return status != KOLO_OK;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    uint64_t worlds = argc > 2 ? strtoull(argv[2], NULL, 0) : 10;
    if (getenv("KOLO_LAUNCHER")) {
        struct kolo_comm *world = NULL;
        kolo_status status = kolo_init(NULL, &world);
        if (status == KOLO_OK)
            status = play_world(world, &seed);
        if (status != KOLO_OK)
            fprintf(stderr, "%s: %s\n", kolo_status_name(status), kolo_error_detail());
        kolo_status end = kolo_finalize(world);
        return status != KOLO_OK || end != KOLO_OK;
    }
    for (uint64_t i = 0; i < worlds; i++)
        if (play_threads(seed + i) != 0)
            return 1;
    puts("random: every byte was right");
    return 0;
}
