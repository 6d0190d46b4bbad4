// SPDX-License-Identifier: Apache-2.0
// How a communicator fails when ranks leave or abort: every rank must end with the same status and
// a text that names the culprit.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "runtime/comm.h"
#include "tests/support/world.h"

/* ---- a rank that leaves ---- */

static kolo_status one_leaves(struct kolo_comm *comm, void *argument)
{
    float data[64] = {0};
    (void)argument;
    if (kolo_rank(comm) == 1)
        return KOLO_OK;
    return kolo_allreduce(comm, data, data, 64, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
}

ParameterizedTestParameters(failure, early_finalize)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, failure, early_finalize, .timeout = 60)
{
    for (int size = 2; size <= 5; size++) {
        struct world world = {.size = size,
                              .transport = param->name,
                              .settings = {"KOLO_TIMEOUT=20", "KOLO_PLAN=ring"}};
        (void)world_run(&world, one_leaves, NULL);
        for (int rank = 0; rank < size; rank++) {
            const struct world_result *result = &world.results[rank];
            if (rank == 1)
                continue;
            cr_assert(result->status == KOLO_ERR_PEER, "%s, %d ranks: rank %d: %s: %s", param->name,
                      size, rank, kolo_status_name(result->status), result->text);
            cr_assert(
                strstr(result->text, "rank 1 (") && strstr(result->text, "has left") &&
                    strstr(result->text, "during allreduce(count 64, float32, sum) sequence 0"),
                "rank %d: %s", rank, result->text);
        }
    }
}

/* ---- abort ---- */

static void *abort_soon(void *argument)
{
    struct timespec pause = {.tv_nsec = 100000000};
    nanosleep(&pause, NULL); /* most likely while the others wait; it must work in either case */
    kolo_abort(argument, "the disk is full");
    kolo_abort(argument, "a second reason");
    return NULL;
}

static kolo_status abort_from_another_thread(struct kolo_comm *comm, void *argument)
{
    float data[64] = {0};
    pthread_t thread;
    (void)argument;
    if (kolo_rank(comm) != 1)
        return kolo_allreduce(comm, data, data, 64, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    if (pthread_create(&thread, NULL, abort_soon, comm) != 0)
        return KOLO_ERR_SYSTEM;
    kolo_status status = kolo_recv(comm, data, 64, KOLO_FLOAT32, 0, NULL, NULL);
    char text[KOLO_DETAIL_MAX];
    strcpy(text, kolo_error_detail());
    pthread_join(thread, NULL);
    return status == KOLO_OK ? status : kolo_fail(status, "%s", text);
}

ParameterizedTestParameters(failure, abort_while_waiting)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, failure, abort_while_waiting, .timeout = 60)
{
    struct world world = {.size = 4, .transport = param->name, .settings = {"KOLO_TIMEOUT=20"}};
    (void)world_run(&world, abort_from_another_thread, NULL);
    for (int rank = 0; rank < 4; rank++) {
        const struct world_result *result = &world.results[rank];
        cr_assert(result->status == KOLO_ERR_ABORTED, "rank %d: %s: %s", rank,
                  kolo_status_name(result->status), result->text);
        cr_assert(strstr(result->text, "rank 1 (") && strstr(result->text, "the disk is full") &&
                      strstr(result->text, "during "),
                  "rank %d: %s", rank, result->text);
    }
}

/* ---- a buffer is not touched after the failure ---- */

static kolo_status keeps_hands_off(struct kolo_comm *comm, void *argument)
{
    size_t count = 1 << 20;
    float *data = calloc(count, sizeof(*data));
    struct timespec pause = {.tv_nsec = 20000000};
    (void)argument;
    if (kolo_rank(comm) == 0) {
        nanosleep(&pause, NULL);
        kolo_abort(comm, "enough");
    }
    kolo_status status =
        kolo_allreduce(comm, data, data, count, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    memset(data, 1, count * sizeof(*data));
    free(data); /* ASan reports whoever still accesses it */
    return status;
}

ParameterizedTestParameters(failure, hands_off)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, failure, hands_off, .timeout = 60)
{
    for (int i = 0; i < 5; i++) {
        struct world world = {.size = 3, .transport = param->name, .settings = {"KOLO_TIMEOUT=20"}};
        (void)world_run(&world, keeps_hands_off, NULL);
        for (int rank = 0; rank < 3; rank++)
            cr_assert(world.results[rank].status == KOLO_ERR_ABORTED, "rank %d: %s: %s", rank,
                      kolo_status_name(world.results[rank].status), world.results[rank].text);
    }
}
