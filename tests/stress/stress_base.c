// SPDX-License-Identifier: Apache-2.0
// What base/ shares between threads, used by several threads at once: log level, sink and rank, the
// allocation counters, the clock's hook; and the detail, of which each thread has its own.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"

enum { THREADS = 6, ROUNDS = 3000 };

static atomic_int mistakes;
static atomic_long failed_allocations;
static int contexts[2];

static void expect(bool truth, const char *what)
{
    if (!truth && atomic_fetch_add(&mistakes, 1) < 10)
        fprintf(stderr, "stress base: %s\n", what);
}

static void sink_0(void *context, enum kolo_log_level level, const char *line)
{
    expect(context == &contexts[0] && level == KOLO_LOG_WARN && *line, "sink 0");
}

static void sink_1(void *context, enum kolo_log_level level, const char *line)
{
    expect(context == &contexts[1] && level == KOLO_LOG_WARN && *line, "sink 1");
}

static int64_t fake_now(void)
{
    return 1;
}

static void one_round(int me, int round)
{
    char mine[64];
    snprintf(mine, sizeof mine, "thread %d round %d", me, round);
    (void)kolo_fail(KOLO_ERR_DATA, "%s", mine);
    KOLO_WARN("%s", mine);
    kolo_log_set_sink(round % 2 ? sink_1 : sink_0, &contexts[round % 2]);
    kolo_log_set_level(round % 5 ? KOLO_LOG_WARN : KOLO_LOG_ERROR);
    kolo_clock_replace(round % 3 ? NULL : fake_now);
    expect(kolo_now_ns() > 0, "clock");
    expect(strcmp(kolo_error_detail(), mine) == 0, "detail of another thread");

    char *copy = kolo_strdup(mine);
    if (copy)
        expect(strcmp(copy, mine) == 0, "strdup");
    else
        atomic_fetch_add(&failed_allocations, 1);
    kolo_free_memory(copy);

    struct kolo_settings settings;
    kolo_settings_init(&settings);
    expect(kolo_settings_set(&settings, "timeot", "1", KOLO_FROM_API) == KOLO_ERR_NOT_FOUND, "set");
}

static void *run(void *context)
{
    int me = *(int *)context;
    kolo_log_set_rank(me);
    for (int round = 0; round < ROUNDS; round++)
        one_round(me, round);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int ranks[THREADS];
    kolo_log_set_sink(sink_0, &contexts[0]);
    /* whatever the order is, exactly one attempt fails */
    kolo_alloc_fail_nth(THREADS * ROUNDS / 2);
    uint64_t before = kolo_alloc_count();
    for (int i = 0; i < THREADS; i++) {
        ranks[i] = i;
        if (pthread_create(&threads[i], NULL, run, &ranks[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    expect(kolo_alloc_count() - before == THREADS * ROUNDS, "allocations are not counted right");
    expect(atomic_load(&failed_allocations) == 1, "not exactly one allocation failed");
    return atomic_load(&mistakes) != 0;
}
