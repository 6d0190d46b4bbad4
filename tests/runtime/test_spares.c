// SPDX-License-Identifier: Apache-2.0
// Memory of requests that are over is used again, cleared, and no more of it is kept than allowed.
#include <criterion/criterion.h>

#include <string.h>

#include "base/alloc.h"
#include "runtime/comm.h"
#include "runtime/spares.h"
#include "tests/support/world.h"

enum { MANY = KOLO_SPARES_MAX + 10 };

static bool is_clear(const struct kolo_request *request)
{
    const uint8_t *bytes = (const uint8_t *)request;
    size_t i = 0;
    while (i < offsetof(struct kolo_request, main) && bytes[i] == 0)
        i++;
    return i == offsetof(struct kolo_request, main);
}

Test(spares, are_cleared_and_bounded)
{
    struct kolo_request *requests[MANY];
    struct kolo_engine *engine;
    cr_assert(kolo_engine_create(&engine) == KOLO_OK);
    for (int round = 0; round < 2; round++) {
        const uint64_t before = kolo_alloc_count();
        for (int i = 0; i < MANY; i++) {
            requests[i] = i % 2 ? kolo_spares_take(engine) : kolo_spares_try(engine);
            cr_assert(requests[i] && is_clear(requests[i]), "request %d is not cleared", i);
            memset(requests[i], 0xa5, sizeof *requests[i]);
        }
        const uint64_t made = kolo_alloc_count() - before;
        cr_expect(made == (round == 0 ? MANY : MANY - KOLO_SPARES_MAX), "%d: %d allocations", round,
                  (int)made);
        cr_expect(engine->spares.count == 0);
        for (int i = 0; i < MANY; i++)
            kolo_spares_give(engine, requests[i]);
        cr_expect(engine->spares.count == KOLO_SPARES_MAX);
    }
    kolo_spares_free(engine);
    cr_expect(!engine->spares.first && engine->spares.count == 0);
    kolo_engine_give_up(engine);
}

/** While another call has the lock, memory is allocated, without waiting. */
Test(spares, a_held_lock_is_not_waited_for, .timeout = 30)
{
    struct kolo_engine *engine;
    cr_assert(kolo_engine_create(&engine) == KOLO_OK);
    struct kolo_request *kept = kolo_spares_try(engine);
    cr_assert(kept != NULL);
    kolo_spares_give(engine, kept);
    kolo_engine_enter(engine);
    struct kolo_request *other = kolo_spares_try(engine);
    cr_expect(other && (other != kept || KOLO_SPARES_MAX == 0));
    kolo_engine_leave(engine);
    kolo_spares_give(engine, other);
    kolo_engine_give_up(engine); /* frees what is kept: a leak would fail this test */
}

static kolo_status call_twice(struct kolo_comm *comm, void *argument)
{
    uint64_t after_first = 0;
    (void)argument;
    for (int turn = 0; turn < 3; turn++) {
        struct kolo_request *request = NULL;
        WORLD_TRY(kolo_barrier(comm, NULL, &request));
        WORLD_TRY(kolo_wait(&request, -1));
        if (turn == 0)
            after_first = kolo_alloc_count();
    }
    WORLD_EXPECT(KOLO_SPARES_MAX == 0 || kolo_alloc_count() == after_first,
                 "%d allocations for calls like the first",
                 (int)(kolo_alloc_count() - after_first));
    return KOLO_OK;
}

Test(spares, calls_like_earlier_ones_allocate_nothing, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, call_twice, NULL);
}
