// SPDX-License-Identifier: Apache-2.0
// Host memory that stands in for device buffers is taken, given back, kept and freed; this needs no
// device. test_staging.c, with the mock's devices, tests that it is page-locked and outlives late
// copies.
#include <criterion/criterion.h>

#include "base/alloc.h"
#include "memory/held.h"
#include "memory/memory.h"
#include "runtime/comm.h"
#include "runtime/slabs.h"
#include "tests/support/world.h"

enum { SMALL = 1 << 20, MEDIUM = 4 << 20, LARGE = 48 << 20, LARGES = 4 };

static kolo_status take(struct kolo_comm *comm, size_t bytes, struct kolo_slab **slab_out)
{
    struct kolo_pointer near;
    kolo_status status = kolo_pointer_look(comm, &near);
    return status == KOLO_OK ? kolo_slab_take(comm, bytes, &near, slab_out) : status;
}

/** Runs @p body under the engine's lock. */
static kolo_status hold(struct kolo_comm *comm, kolo_status (*body)(struct kolo_comm *comm))
{
    kolo_comm_enter(comm);
    kolo_status status = body(comm);
    kolo_comm_leave(comm);
    return status;
}

/** Takes the smallest slab that is free and long enough, or a new one if there is none. */
static kolo_status take_and_give_back(struct kolo_comm *comm)
{
    struct kolo_slab *small = NULL, *medium = NULL, *again = NULL, *other = NULL;
    kolo_status status;
    KOLO_TRY(take(comm, SMALL, &small));
    KOLO_TRY(take(comm, MEDIUM, &medium));
    WORLD_EXPECT(small != medium && small->bytes >= SMALL && medium->bytes >= MEDIUM, "too short");
    WORLD_EXPECT(comm->engine->slabs.bytes_unused == 0, "both are used");
    kolo_slab_give_back(comm->engine, medium);
    kolo_slab_give_back(comm->engine, small);
    WORLD_EXPECT(comm->engine->slabs.bytes_unused == small->bytes + medium->bytes, "none is");
    KOLO_TRY(take(comm, 1, &again));
    WORLD_EXPECT(again == small, "the smallest that is long enough");
    KOLO_TRY(take(comm, 1, &again));
    WORLD_EXPECT(again == medium, "the next, where that is used");
    KOLO_TRY(take(comm, 1, &other));
    WORLD_EXPECT(other != small && other != medium, "one for two calls");
    kolo_slab_give_back(comm->engine, small);
    kolo_slab_give_back(comm->engine, medium);
    kolo_slab_give_back(comm->engine, other);
out:
    return status;
}

static kolo_status has_its_own(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    return hold(comm, take_and_give_back);
}

Test(slabs, a_call_has_its_own, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, has_its_own, NULL);
}

/** A part of a slab is severed from ranks that may still write to it. The rest is then locked
 * apart, if at all, and neighbours map each part on its own. */
static kolo_status sever_and_take(struct kolo_comm *comm)
{
    struct kolo_slab *first = NULL, *again = NULL;
    struct kolo_engine *engine = comm->engine;
    struct kolo_span span;
    kolo_status status;
    KOLO_TRY(take(comm, SMALL, &first));
    KOLO_TRY(kolo_heap_sever(engine->heap, (uint8_t *)first->memory + SMALL / 2, 1, NULL, NULL));
    WORLD_EXPECT(!kolo_heap_find(engine->heap, first->memory, SMALL, &span), "it is in one piece");
    kolo_slab_give_back(engine, first);
    KOLO_TRY(take(comm, SMALL, &again));
    WORLD_EXPECT(kolo_heap_find(engine->heap, again->memory, SMALL, &span), "it is in pieces");
    WORLD_EXPECT(engine->slabs.bytes_unused == 0 && atomic_load(&engine->slabs.has_to_free),
                 "the other is not to be freed");
    kolo_slab_give_back(engine, again);
out:
    return status;
}

static kolo_status severed(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    const kolo_status status = hold(comm, sever_and_take);
    kolo_slabs_trim(comm->engine);
    return status;
}

Test(slabs, one_in_pieces_is_not_used_again, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, severed, NULL);
}

/** If there are more than are kept, the least recently used one is freed, at the next call. Earlier
 * calls did not use as many. */
static kolo_status give_back_many(struct kolo_comm *comm)
{
    struct kolo_slab *slabs[LARGES] = {NULL}, *again = NULL;
    struct kolo_engine *engine = comm->engine;
    kolo_status status = KOLO_OK;
    for (int i = 0; i < LARGES; i++)
        KOLO_TRY(take(comm, LARGE, &slabs[i]));
    kolo_slab_give_back(engine, slabs[0]);
    KOLO_TRY(take(comm, LARGE, &again)); /* the first one is now the most recently used */
    WORLD_EXPECT(again == slabs[0], "it was free");
    WORLD_EXPECT(engine->slabs.bytes_kept == engine->slabs.bytes_used, "what calls use is kept");
    engine->slabs.bytes_kept = 0;
    for (int i = 0; i < LARGES; i++)
        kolo_slab_give_back(engine, slabs[i]);
    WORLD_EXPECT(engine->slabs.bytes_unused <= 128 << 20, "%zu bytes", engine->slabs.bytes_unused);
    for (const struct kolo_slab *at = engine->slabs.first; at; at = at->next)
        WORLD_EXPECT(at == slabs[0] || at == slabs[3], "an older one is kept");
    WORLD_EXPECT(atomic_load(&engine->slabs.has_to_free), "the others are to be freed");
out:
    return status;
}

static kolo_status are_freed(struct kolo_comm *comm)
{
    WORLD_EXPECT(comm->engine->slabs.to_free == NULL, "they are still there");
    return KOLO_OK;
}

static kolo_status keep_few(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    kolo_status status = hold(comm, give_back_many);
    kolo_slabs_trim(comm->engine);
    return status == KOLO_OK ? hold(comm, are_freed) : status;
}

Test(slabs, few_bytes_are_kept, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, keep_few, NULL);
}

static kolo_status leave_many(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    return hold(comm, give_back_many);
}

/** Those that are to be freed are freed at the end, although another rank of this process holds a
 * stream; LeakSanitizer, which makes this test fail otherwise, watches. */
Test(slabs, none_outlives_its_rank, .timeout = 60)
{
    static const char stream;
    struct world world = {.size = 1};
    cr_assert_eq(kolo_held_begin(&stream, KOLO_NEVER), KOLO_OK);
    WORLD_MUST_RUN(&world, leave_many, NULL);
    kolo_held_end(&stream);
}

static size_t bytes_wanted;

static kolo_status run_out_of_memory(struct kolo_comm *comm)
{
    struct kolo_slab *slab = NULL;
    kolo_status status = KOLO_OK;
    for (int nth = 1; !slab; nth++) {
        kolo_alloc_fail_nth((uint64_t)nth);
        status = take(comm, bytes_wanted, &slab);
        kolo_alloc_fail_nth(0);
        WORLD_EXPECT(slab || (status == KOLO_ERR_NO_MEMORY && !comm->engine->slabs.first),
                     "allocation %d fails: %s", nth, kolo_status_name(status));
    }
    kolo_slab_give_back(comm->engine, slab);
    return status;
}

static kolo_status fail_each(struct kolo_comm *comm, void *argument)
{
    (void)argument;
    return hold(comm, run_out_of_memory);
}

Test(slabs, every_allocation_may_fail, .timeout = 60)
{
    static const size_t sizes[] = {4096, MEDIUM}; /* ordinary memory, and memory of the heap */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct world world = {.size = 1, .settings = {"KOLO_SHM_DIRECT_BYTES=1MiB"}};
        bytes_wanted = sizes[i];
        WORLD_MUST_RUN(&world, fail_each, NULL);
    }
}
