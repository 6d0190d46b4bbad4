// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks: order, sizes, all pairs at once, both directions.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/world.h"

static void run(const char *transport, int size,
                kolo_status (*body)(struct kolo_comm *comm, void *argument))
{
    struct world world = {.size = size, .transport = transport, .settings = {"KOLO_TIMEOUT=30"}};
    WORLD_MUST_RUN(&world, body, NULL);
}

static const size_t lengths[] = {0, 1, 3, 4095, 4096, 65537, 1 << 20, 300001};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]), LONGEST = 1 << 20 };

static uint8_t byte_at(size_t message, size_t i)
{
    return (uint8_t)(message * 31 + i * 7 + (i >> 9));
}

static kolo_status in_order(struct kolo_comm *comm, void *argument)
{
    uint8_t *buffer = malloc(LONGEST);
    kolo_status status = KOLO_OK;
    (void)argument;
    for (size_t m = 0; m < 3 * LENGTHS && status == KOLO_OK; m++) {
        size_t count = lengths[m % LENGTHS];
        if (kolo_rank(comm) == (int)(m / LENGTHS) % 2) {
            for (size_t i = 0; i < count; i++)
                buffer[i] = byte_at(m, i);
            status = kolo_send(comm, buffer, count, KOLO_UINT8, 1 - kolo_rank(comm), NULL, NULL);
            memset(buffer, 0xee, count); /* may be reused at once */
            continue;
        }
        status = kolo_recv(comm, buffer, count, KOLO_UINT8, 1 - kolo_rank(comm), NULL, NULL);
        for (size_t i = 0; i < count && status == KOLO_OK; i++)
            if (buffer[i] != byte_at(m, i))
                status = kolo_fail(KOLO_ERR_INTERNAL, "message %zu, byte %zu is wrong", m, i);
    }
    free(buffer);
    return status;
}

ParameterizedTestParameters(p2p, order_and_sizes)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, p2p, order_and_sizes, .timeout = 60)
{
    run(param->name, 2, in_order);
}

enum { PER_PAIR = 10 };

static kolo_status everybody_with_everybody(struct kolo_comm *comm, void *argument)
{
    int n = kolo_size(comm), rank = kolo_rank(comm), count = 0;
    struct kolo_request *requests[2 * 8 * PER_PAIR];
    int64_t out[8][PER_PAIR], in[8][PER_PAIR];
    kolo_status status = KOLO_OK;
    (void)argument;
    for (int i = 0; i < PER_PAIR; i++)
        for (int step = 1; step < n; step++) {
            int to = (rank + step) % n, from = (rank + n - step) % n;
            out[to][i] = rank * 10000 + to * 100 + i;
            KOLO_TRY(kolo_recv(comm, &in[from][i], 1, KOLO_INT64, from, NULL, &requests[count++]));
            KOLO_TRY(kolo_send(comm, &out[to][i], 1, KOLO_INT64, to, NULL, &requests[count++]));
        }
    KOLO_TRY(kolo_barrier(comm, NULL, NULL)); /* beside the messages */
    while (count > 0)
        KOLO_TRY(kolo_wait(&requests[--count], -1));
    for (int from = 0; from < n; from++)
        for (int i = 0; i < PER_PAIR && from != rank; i++)
            WORLD_EXPECT(in[from][i] == from * 10000 + rank * 100 + i, "message %d from %d: %lld",
                         i, from, (long long)in[from][i]);
out:
    return status;
}

ParameterizedTestParameters(p2p, all_pairs)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, p2p, all_pairs, .timeout = 60)
{
    run(param->name, 7, everybody_with_everybody);
}
