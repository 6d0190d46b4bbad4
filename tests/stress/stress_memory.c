// SPDX-License-Identifier: Apache-2.0
// memory/ used by several threads: one heap, and kernels whose first selection all threads race
// for. A program without Criterion, for ThreadSanitizer and for emulators of other processors.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/memory/heap_stress.h"
#include "tests/memory/reduce_oracle.h"

enum { REDUCERS = 4 };

struct reducer {
    pthread_t thread;
    int index;
    bool failed;
    struct oracle_failure why;
};

/** Each thread checks every fourth pair of type and operator, beginning with the selection of
 * kernels. */
static void *reducer_run(void *argument)
{
    struct reducer *reducer = argument;
    for (int pair = reducer->index; pair < KOLO_DTYPES * KOLO_REDOPS; pair += REDUCERS) {
        const kolo_dtype dtype = (kolo_dtype)(pair / KOLO_REDOPS);
        const kolo_redop op = (kolo_redop)(pair % KOLO_REDOPS);
        if (!oracle_is_defined(dtype, op))
            continue;
        struct oracle_data *data = oracle_data_create(dtype, op);
        if (kolo_reduce_function(dtype, op) !=
            kolo_reduce_function_of(kolo_reduce_variant(0), dtype, op)) {
            snprintf(reducer->why.text, sizeof reducer->why.text, "the dispatch is not the best");
            reducer->failed = true;
        }
        for (int i = 0; !reducer->failed && kolo_reduce_variant(i); i++)
            reducer->failed =
                !oracle_check_kernel(kolo_reduce_variant(i), data, &reducer->why) ||
                !oracle_check_divide(kolo_reduce_variant(i), data, 3, &reducer->why) ||
                !oracle_check_divide(kolo_reduce_variant(i), data, 257, &reducer->why);
        free(data);
    }
    return NULL;
}

static bool reducers_agree(void)
{
    static struct reducer reducers[REDUCERS];
    bool good = true;
    for (int i = 0; i < REDUCERS; i++) {
        reducers[i].index = i;
        if (pthread_create(&reducers[i].thread, NULL, reducer_run, &reducers[i]) != 0)
            abort();
    }
    for (int i = 0; i < REDUCERS; i++) {
        pthread_join(reducers[i].thread, NULL);
        if (reducers[i].failed)
            fprintf(stderr, "stress_memory: %s\n", reducers[i].why.text);
        good &= !reducers[i].failed;
    }
    return good;
}

int main(void)
{
    const bool reduced = reducers_agree();
    const int failures = heap_stress_run();
    if (failures)
        fprintf(stderr, "stress_memory: %d failures of the heap\n", failures);
    printf("stress_memory: kernels");
    for (int i = 0; kolo_reduce_variant(i); i++)
        printf(" %s", kolo_reduce_variant(i));
    printf(": %s; heap: %s\n", reduced ? "good" : "WRONG", failures ? "WRONG" : "good");
    return reduced && failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
