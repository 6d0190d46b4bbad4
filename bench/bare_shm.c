// SPDX-License-Identifier: Apache-2.0
// Bare loops over memory that all ranks map. Each rank has a flag, a counter on a line of its own;
// a turn is over when all flags have reached it. Staged data alternates between two stages, so a
// rank that is one turn ahead overwrites nothing that is still read: it has seen all flags of the
// turn before.
#include <sched.h>
#include <string.h>

#include "bench/bare.h"
#include "runtime/relax.h"

enum { LOOKS = 2048, ELEMENT = 4 };

/* ---- layout ---- */

static size_t pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

uint64_t *bare_flag(const struct bare_world *world, int rank)
{
    return (uint64_t *)(void *)(world->memory + (size_t)rank * BARE_LINE_BYTES);
}

uint8_t *bare_stages(const struct bare_world *world, int rank)
{
    size_t each = 4 * (size_t)BARE_STAGE_BYTES + 2 * pages(world->vector_bytes);
    return world->memory + pages((size_t)world->nranks * BARE_LINE_BYTES) + (size_t)rank * each;
}

/* What @p rank sends, or (second pair of stages) its part of an intermediate result. */
static uint8_t *stage(const struct bare_world *world, int rank, bool result)
{
    return bare_stages(world, rank) +
           ((size_t)world->parity + 2 * (size_t)result) * BARE_STAGE_BYTES;
}

static uint8_t *lent_send(const struct bare_world *world, int rank)
{
    return bare_stages(world, rank) + 4 * (size_t)BARE_STAGE_BYTES;
}

static uint8_t *lent_recv(const struct bare_world *world, int rank)
{
    return lent_send(world, rank) + pages(world->vector_bytes);
}

/* ---- flags ---- */

bool bare_await(struct bare_world *world, const uint64_t *flag, uint64_t turn)
{
    for (uint32_t look = 1; __atomic_load_n(flag, __ATOMIC_ACQUIRE) < turn; look++) {
        if (world->crowded)
            sched_yield();
        else
            kolo_relax();
        if (look % LOOKS != 0)
            continue;
        if (kolo_deadline_passed(world->deadline))
            return false;
        sched_yield();
    }
    return true;
}

/** Waits for all ranks. */
static bool meet(struct bare_world *world)
{
    world->turn++;
    __atomic_store_n(bare_flag(world, world->rank), world->turn, __ATOMIC_RELEASE);
    for (int i = 1; i < world->nranks; i++)
        if (!bare_await(world, bare_flag(world, (world->rank + i) % world->nranks), world->turn))
            return false;
    return true;
}

/* ---- what each rank makes of what all have put up ---- */

static size_t blocks(enum bench_shape shape, int nranks)
{
    if (shape == BENCH_NOTHING)
        return 0;
    return shape == BENCH_ALL ? (size_t)nranks : 1;
}

static void fold(const struct bare_world *world, const struct bare_loop *loop, void *const outs[],
                 size_t nouts, uint8_t *const ins[], size_t offset, size_t count)
{
    static const struct kolo_fold sum = {.dtype = KOLO_FLOAT32, .op = KOLO_SUM};
    const void *from[BARE_RANKS_MAX];
    for (int rank = 0; rank < world->nranks; rank++)
        from[rank] = ins[rank] + offset * ELEMENT;
    if (count > 0)
        kolo_fold(&sum, outs, nouts, from, (size_t)world->nranks, count, loop->how);
}

/* Produces the whole result of this rank; @p ins is where each rank's contribution lies. */
static void produce(const struct bare_world *world, const struct bare_loop *loop,
                    uint8_t *const ins[], uint8_t *out)
{
    const struct bare_pattern *p = loop->pattern;
    size_t bytes = loop->count * ELEMENT, own = (size_t)world->rank * loop->count;
    void *outs[1] = {out};
    if (p->on_root && world->rank != 0)
        return;
    if (p->result == BENCH_REDUCED)
        fold(world, loop, outs, 1, ins, p->recv == BENCH_OWN ? own : 0, loop->count);
    else if (p->result == BENCH_ROOTS && (world->rank != 0 || p->recv == BENCH_OWN))
        kolo_copy(out, ins[0] + (p->recv == BENCH_OWN ? own * ELEMENT : 0), bytes, loop->how);
    for (int i = 0; p->recv == BENCH_ALL && i < world->nranks; i++) {
        int rank = (world->rank + i) % world->nranks; /* not all from the same rank at once */
        size_t at = p->result == BENCH_TRANSPOSED ? own * ELEMENT : 0;
        kolo_copy(out + (size_t)rank * bytes, ins[rank] + at, bytes, loop->how);
    }
}

/* ---- the ways ---- */

static bool one_shot(struct bare_world *world, void *context)
{
    const struct bare_loop *loop = context;
    uint8_t *ins[BARE_RANKS_MAX];
    size_t bytes = loop->count * blocks(loop->pattern->send, world->nranks) * ELEMENT;
    world->parity ^= 1;
    if (loop->pattern->result != BENCH_ROOTS || world->rank == 0)
        memcpy(stage(world, world->rank, false), world->user_send, bytes);
    if (!meet(world))
        return false;
    for (int rank = 0; rank < world->nranks; rank++)
        ins[rank] = stage(world, rank, false);
    produce(world, loop, ins, world->user_recv);
    return true;
}

static size_t edge(const struct bare_world *world, size_t count, int rank)
{
    return count * (size_t)rank / (size_t)world->nranks / 16 * 16;
}

/* The slice of the vector that this rank reduces. */
static size_t slice(const struct bare_world *world, size_t count, size_t *offset_out)
{
    *offset_out = edge(world, count, world->rank);
    size_t end = world->rank + 1 == world->nranks ? count : edge(world, count, world->rank + 1);
    return end - *offset_out;
}

static bool direct(struct bare_world *world, void *context)
{
    const struct bare_loop *loop = context;
    const struct bare_pattern *p = loop->pattern;
    uint8_t *ins[BARE_RANKS_MAX];
    void *outs[BARE_RANKS_MAX];
    size_t offset, count = slice(world, loop->count, &offset), bytes = loop->count * ELEMENT;
    if (!meet(world))
        return false;
    for (int rank = 0; rank < world->nranks; rank++) {
        ins[rank] = lent_send(world, rank);
        outs[rank] = lent_recv(world, rank) + offset * ELEMENT;
    }
    if (p->result == BENCH_REDUCED && p->recv == BENCH_ONE)
        fold(world, loop, outs, p->on_root ? 1 : (size_t)world->nranks, ins, offset, count);
    else if (p->result == BENCH_GATHERED && p->on_root)
        kolo_copy(lent_recv(world, 0) + (size_t)world->rank * bytes, ins[world->rank], bytes,
                  loop->how);
    else
        produce(world, loop, ins, lent_recv(world, world->rank));
    return meet(world);
}

/* One chunk of an allreduce or a reduce: copy in, reduce by slices, copy out. Stages of one parity
 * are reused after all ranks have met twice. */
static bool reduce_chunk(struct bare_world *world, const struct bare_loop *loop, size_t at,
                         size_t count)
{
    uint8_t *ins[BARE_RANKS_MAX];
    size_t offset, own = slice(world, count, &offset);
    world->parity ^= 1;
    memcpy(stage(world, world->rank, false), world->user_send + at * ELEMENT, count * ELEMENT);
    if (!meet(world))
        return false;
    for (int rank = 0; rank < world->nranks; rank++)
        ins[rank] = stage(world, rank, false);
    void *outs[1] = {stage(world, world->rank, true) + offset * ELEMENT};
    fold(world, loop, outs, 1, ins, offset, own);
    if (!meet(world))
        return false;
    for (int rank = 0; rank < world->nranks; rank++) {
        size_t from = edge(world, count, rank);
        size_t end = rank + 1 == world->nranks ? count : edge(world, count, rank + 1);
        if (!loop->pattern->on_root || world->rank == 0)
            memcpy(world->user_recv + (at + from) * ELEMENT,
                   stage(world, rank, true) + from * ELEMENT, (end - from) * ELEMENT);
    }
    return true;
}

/* One chunk of each block, for the other patterns. */
static bool move_chunk(struct bare_world *world, const struct bare_loop *loop, size_t at,
                       size_t count)
{
    const struct bare_pattern *p = loop->pattern;
    struct bare_loop part = {p, count, KOLO_STORE_CACHED, 0};
    uint8_t *ins[BARE_RANKS_MAX];
    size_t send = blocks(p->send, world->nranks), recv = blocks(p->recv, world->nranks);
    world->parity ^= 1;
    for (size_t i = 0; (p->result != BENCH_ROOTS || world->rank == 0) && i < send; i++)
        memcpy(stage(world, world->rank, false) + i * count * ELEMENT,
               world->user_send + (i * loop->count + at) * ELEMENT, count * ELEMENT);
    if (!meet(world))
        return false;
    for (int rank = 0; rank < world->nranks; rank++)
        ins[rank] = stage(world, rank, false);
    if (recv == 1) {
        produce(world, &part, ins, world->user_recv + at * ELEMENT);
        return true;
    }
    for (int i = 0; (!p->on_root || world->rank == 0) && i < world->nranks; i++) {
        int rank = (world->rank + i) % world->nranks;
        size_t from = p->result == BENCH_TRANSPOSED ? (size_t)world->rank * count : 0;
        memcpy(world->user_recv + ((size_t)rank * loop->count + at) * ELEMENT,
               ins[rank] + from * ELEMENT, count * ELEMENT);
    }
    return true;
}

static bool staged(struct bare_world *world, void *context)
{
    const struct bare_loop *loop = context;
    const struct bare_pattern *p = loop->pattern;
    bool whole = p->result == BENCH_REDUCED && p->recv == BENCH_ONE;
    size_t most = BARE_STAGE_BYTES / ELEMENT / (whole ? 1 : blocks(p->send, world->nranks));
    for (size_t at = 0; at < loop->count; at += most) {
        size_t count = loop->count - at < most ? loop->count - at : most;
        bool ok = whole ? reduce_chunk(world, loop, at, count) : move_chunk(world, loop, at, count);
        if (!ok)
            return false;
    }
    return true;
}

bool bare_fits(const struct bare_pattern *pattern, enum bare_way way, int nranks, size_t bytes)
{
    bool by_rank = pattern->send == BENCH_ALL || pattern->recv == BENCH_ALL;
    size_t sends = by_rank && pattern->send != BENCH_ALL ? bytes / (size_t)nranks : bytes;
    if (way == BARE_ONE_SHOT)
        return sends <= BARE_STAGE_BYTES;
    if (pattern->send == BENCH_NOTHING)
        return false;
    return way != BARE_STREAM || bytes >= 1 << 20;
}

void bare_shm_run(const struct bare_world *world, const struct bare_pattern *pattern,
                  enum bare_way way, size_t bytes, struct bare_run *run_out)
{
    bool by_rank = pattern->send == BENCH_ALL || pattern->recv == BENCH_ALL;
    *run_out = (struct bare_run){
        .name = pattern->name,
        .step = way == BARE_ONE_SHOT ? one_shot
                : way == BARE_STAGED ? staged
                                     : direct,
        .loop = {.pattern = pattern,
                 .how = way == BARE_STREAM ? KOLO_STORE_STREAM : KOLO_STORE_CACHED,
                 .count = bytes / ELEMENT / (by_rank ? (size_t)world->nranks : 1)}};
}
