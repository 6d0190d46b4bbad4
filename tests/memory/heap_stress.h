// SPDX-License-Identifier: Apache-2.0
// Threads that allocate, find, free and keep on one heap, for the Criterion test and the plain
// stress program. A thread knows only its own spans; it must find each of them from its first to
// its last byte, whatever the other threads do.
#ifndef KOLO_TESTS_HEAP_STRESS_H
#define KOLO_TESTS_HEAP_STRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "memory/memory.h"

enum { STRESS_THREADS = 4, STRESS_ROUNDS = 300, STRESS_HELD = 8, STRESS_IDS = 4096 };

struct heap_stress {
    struct kolo_heap *heap;
    atomic_int seen[STRESS_IDS]; /* how often an id was freed */
    atomic_int failures;
};

struct heap_stress_thread {
    struct heap_stress *stress;
    int index;
    unsigned char *held[STRESS_HELD];
};

static inline void stress_gone(void *context, uint64_t id)
{
    struct heap_stress *stress = context;
    if (id >= STRESS_IDS || atomic_fetch_add(&stress->seen[id], 1) != 0)
        atomic_fetch_add(&stress->failures, 1);
}

static inline bool stress_found(struct heap_stress *stress, const unsigned char *memory,
                                size_t pages)
{
    struct kolo_span first, last, beyond;
    return kolo_heap_find(stress->heap, memory, 1, &first) && first.base == memory &&
           kolo_heap_find(stress->heap, memory + first.bytes - 1, 1, &last) &&
           last.id == first.id && first.bytes >= pages * 4096 &&
           !kolo_heap_find(stress->heap, memory, first.bytes + 1, &beyond);
}

/** Frees it for good in every other round, as kolo_free would. */
static inline bool stress_free(struct heap_stress *stress, unsigned char *memory, int round)
{
    return (round / STRESS_HELD % 2 == 0 &&
            kolo_heap_keep(stress->heap, memory, stress_gone, stress)) ||
           kolo_heap_free(stress->heap, memory, stress_gone, stress) == KOLO_OK;
}

static inline bool stress_round(struct heap_stress_thread *thread, int round)
{
    struct heap_stress *stress = thread->stress;
    const int slot = round % STRESS_HELD;
    const size_t pages = (size_t)(1 + (round * 7 + thread->index) % 5);
    unsigned char **held = &thread->held[slot];
    if (*held && !stress_free(stress, *held, round))
        return false;
    void *memory = NULL;
    if (kolo_heap_alloc(stress->heap, pages * 4096, &memory) != KOLO_OK)
        return false;
    *held = memory;
    if ((*held)[0] != 0 || (*held)[pages * 4096 - 1] != 0)
        return false;
    memset(*held, thread->index, pages * 4096);
    for (int i = 0; i < STRESS_HELD; i++)
        if (thread->held[i] &&
            (!stress_found(stress, thread->held[i], 1) || thread->held[i][0] != thread->index))
            return false;
    return stress_found(stress, *held, pages);
}

static inline void *stress_thread(void *argument)
{
    struct heap_stress_thread *thread = argument;
    for (int round = 0; round < STRESS_ROUNDS; round++)
        if (!stress_round(thread, round)) {
            atomic_fetch_add(&thread->stress->failures, 1);
            break;
        }
    for (int i = 0; i < STRESS_HELD / 2; i++) /* the heap frees the rest */
        if (thread->held[i] && kolo_heap_free(thread->stress->heap, thread->held[i], stress_gone,
                                              thread->stress) != KOLO_OK)
            atomic_fetch_add(&thread->stress->failures, 1);
    return NULL;
}

/** Returns how many checks failed. */
static inline int heap_stress_run(void)
{
    static struct heap_stress stress;
    static struct heap_stress_thread threads[STRESS_THREADS];
    pthread_t ids[STRESS_THREADS];
    if (kolo_heap_create(&stress.heap) != KOLO_OK)
        return 1;
    int started = 0;
    for (; started < STRESS_THREADS; started++) {
        threads[started] = (struct heap_stress_thread){.stress = &stress, .index = started};
        if (pthread_create(&ids[started], NULL, stress_thread, &threads[started]) != 0)
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    kolo_heap_destroy(stress.heap);
    return atomic_load(&stress.failures) + (STRESS_THREADS - started);
}

#endif
