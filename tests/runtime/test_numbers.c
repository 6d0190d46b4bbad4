// SPDX-License-Identifier: Apache-2.0
// runtime/numbers.c: no number is given away twice, whichever ranks and threads take them; the
// store is asked once for a block; and the end of all numbers.
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/kv.h"
#include "runtime/numbers.h"
#include "tests/support/world.h"

enum { RANKS = 3, THREADS = 2, TAKES = 100, WAIT_MS = 10000 };

/** What was taken by all, in the order of time. */
struct taken {
    _Atomic uint32_t count;
    struct {
        int32_t first, count;
    } of[RANKS * THREADS * TAKES];
};

struct taker {
    struct kolo_comm *comm;
    struct taken *taken;
    int number;
    kolo_status status;
};

static void *take_many(void *argument)
{
    struct taker *taker = argument;
    for (int i = 0; i < TAKES && taker->status == KOLO_OK; i++) {
        const int count = 1 + (i * 7 + taker->number) % (i % 20 == 0 ? 200 : 5);
        int32_t first = -1;
        taker->status = kolo_numbers_take(taker->comm, "a test", count, WAIT_MS, &first);
        const uint32_t at = taker->taken->count++;
        taker->taken->of[at].first = first;
        taker->taken->of[at].count = count;
    }
    return NULL;
}

static kolo_status by_threads(struct kolo_comm *comm, void *argument)
{
    struct taker takers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){.comm = comm, .taken = argument, .number = i, .status = KOLO_OK};
        WORLD_EXPECT(pthread_create(&threads[i], NULL, take_many, &takers[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        WORLD_EXPECT(takers[i].status == KOLO_OK, "thread %d: %s", i,
                     kolo_status_name(takers[i].status));
    return KOLO_OK;
}

Test(numbers, are_never_given_away_twice, .timeout = 60)
{
    enum { MOST = 1 << 17 };
    static struct taken taken;
    static bool is_used[MOST];
    struct world world = {.size = RANKS};
    WORLD_MUST_RUN(&world, by_threads, &taken);
    cr_assert_eq(taken.count, RANKS * THREADS * TAKES);
    for (uint32_t i = 0; i < taken.count; i++)
        for (int32_t n = 0; n < taken.of[i].count; n++) {
            const int32_t number = taken.of[i].first + n;
            cr_assert(number > 0 && number < MOST, "%d", (int)number);
            cr_assert(!is_used[number], "%d is given away again", (int)number);
            is_used[number] = true;
        }
}

static kolo_status one_block(struct kolo_comm *comm, void *argument)
{
    int64_t last = 0;
    int32_t first = 0;
    (void)argument;
    for (int32_t i = 1; i <= KOLO_NUMBERS_BLOCK; i++) {
        WORLD_TRY(kolo_numbers_take(comm, "a test", 1, WAIT_MS, &first));
        WORLD_EXPECT(first == i, "%d, not %d", (int)first, (int)i);
    }
    WORLD_TRY(kolo_kv_take(comm, "a test", 1, WAIT_MS, &last));
    WORLD_EXPECT(last == KOLO_NUMBERS_BLOCK + 1, "the store is at %lld", (long long)last);
    return KOLO_OK;
}

Test(numbers, come_from_the_store_in_blocks, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, one_block, NULL);
}

/** What is left of a block stays when a call that needs more of them leaves less of its own. */
static kolo_status rest_of_a_block(struct kolo_comm *comm, void *argument)
{
    int32_t first = 0;
    (void)argument;
    WORLD_TRY(kolo_numbers_take(comm, "a test", 1, WAIT_MS, &first));
    WORLD_EXPECT(first == 1, "%d", (int)first);
    WORLD_TRY(kolo_numbers_take(comm, "a test", KOLO_NUMBERS_BLOCK, WAIT_MS, &first));
    WORLD_EXPECT(first == KOLO_NUMBERS_BLOCK + 1, "%d", (int)first);
    WORLD_TRY(kolo_numbers_take(comm, "a test", 1, WAIT_MS, &first));
    WORLD_EXPECT(first == 2, "%d", (int)first);
    return KOLO_OK;
}

Test(numbers, keep_the_longer_rest, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, rest_of_a_block, NULL);
}

/** Near the end the store has less than a block: what there is can be used. */
static kolo_status last_ones(struct kolo_comm *comm, void *argument)
{
    int64_t last = 0;
    int32_t first = 0;
    (void)argument;
    WORLD_TRY(kolo_kv_take(comm, "a test", KOLO_COMMS_MAX - 4, WAIT_MS, &last));
    for (int32_t i = 3; i > 0; i--) {
        WORLD_TRY(kolo_numbers_take(comm, "a test", 1, WAIT_MS, &first));
        WORLD_EXPECT(first == KOLO_COMMS_MAX - i, "%d", (int)first);
    }
    const kolo_status status = kolo_numbers_take(comm, "a test", 1, WAIT_MS, &first);
    WORLD_EXPECT(status == KOLO_ERR_SYSTEM && strstr(kolo_error_detail(), "are used"), "%s: %s",
                 kolo_status_name(status), kolo_error_detail());
    return KOLO_OK;
}

Test(numbers, have_an_end, .timeout = 60)
{
    struct world world = {.size = 1};
    WORLD_MUST_RUN(&world, last_ones, NULL);
}
