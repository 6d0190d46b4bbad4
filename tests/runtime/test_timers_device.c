// SPDX-License-Identifier: Apache-2.0
// runtime/timers.c: of a rank that waits for its own device, warnings say so, whether it waits
// before a call, in it, or for the result, and they blame nobody else.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "runtime/comm.h"
#include "tests/support/await.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

enum own_case { OWN_STREAM, OWN_DEVICE, OWN_INPUT, OWN_RESULT, OWN_CASES };
enum { OWN_BYTES = 4000 };

/** What a warning must contain in each case, without a word about rank 1 being late. */
static const char *const own_words[OWN_CASES][2] = {
    {"allreduce(count 1000, int32, sum) sequence 0: waiting for ",
     " waits for the earlier work of its stream"},
    {"not there yet: rank 0 (",
     ", in allreduce(count 1000, int32, sum), waiting for the earlier work of its device)"},
    {"recv(count 1000, int32, from rank 0) sequence 0 on rank 1 (",
     ", in send(count 1000, int32, to rank 1), waiting for the copies from its device)"},
    {"allreduce(count 1000, int32, sum) sequence 0: waiting for ",
     " waits for the copies of its result to its device"}};

static const struct mock_cuda *mock;
static enum own_case own_case;
static atomic_bool is_own_said;

static void look_for_own(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    (void)level;
    if (strstr(line, own_words[own_case][0]) && strstr(line, own_words[own_case][1]) &&
        !strstr(line, "not there yet: rank 1 ("))
        atomic_store(&is_own_said, true);
}

/** Once that was said, lets the device of rank 0 go on. */
static void *let_device_go_on(void *flag)
{
    static const uint32_t one = 1;
    (void)AWAIT(atomic_load(&is_own_said));
    mock->hold(0);
    mock->write(flag, &one, sizeof one);
    return NULL;
}

static kolo_status call_on_device(struct kolo_comm *comm, void *stream, void *device)
{
    int32_t data[OWN_BYTES / 4] = {0};
    const struct kolo_opts opts = {.size = sizeof opts,
                                   .stream = own_case == OWN_STREAM ? stream : NULL};
    const int rank = kolo_rank(comm);
    if (own_case == OWN_INPUT)
        return rank == 0 ? kolo_send(comm, device, OWN_BYTES / 4, KOLO_INT32, 1, NULL, NULL)
                         : kolo_recv(comm, data, OWN_BYTES / 4, KOLO_INT32, 0, NULL, NULL);
    /* with its input on the host, all that rank 0 copies is its result */
    const void *send = rank == 0 && own_case != OWN_RESULT ? device : data;
    return kolo_allreduce(comm, send, rank == 0 ? device : data, OWN_BYTES / 4, KOLO_INT32,
                          KOLO_SUM, rank == 0 ? &opts : NULL, NULL);
}

static kolo_status wait_for_own_device(struct kolo_comm *comm, void *argument)
{
    static const uint32_t zero = 0;
    pthread_t thread;
    (void)argument;
    if (kolo_rank(comm) != 0)
        return call_on_device(comm, NULL, NULL);
    void *device = mock->alloc(MOCK_DEVICE, 0, OWN_BYTES);
    void *stream = mock->stream(0);
    uint32_t *flag = mock->alloc(MOCK_NO_CONTEXT, 0, sizeof *flag);
    mock->write(flag, &zero, sizeof zero);
    if (own_case == OWN_STREAM || own_case == OWN_DEVICE)
        mock->await(stream, flag, 1);
    else
        mock->hold(1);
    if (pthread_create(&thread, NULL, let_device_go_on, flag) != 0)
        return KOLO_ERR_SYSTEM;
    const kolo_status status = call_on_device(comm, stream, device);
    pthread_join(thread, NULL);
    return status;
}

ParameterizedTestParameters(timers_device, who_waits_for_its_own_device_is_named)
{
    return cr_make_param_array(struct world_param, world_params, WORLD_PARAMS);
}
ParameterizedTest(struct world_param *param, timers_device, who_waits_for_its_own_device_is_named,
                  .timeout = 300)
{
    mock = mock_cuda_load();
    for (int i = 0; i < OWN_CASES; i++) {
        struct world world = {
            .size = 2,
            .transport = param->name,
            .settings = {"KOLO_TIMEOUT=60", "KOLO_STALL=50ms", "KOLO_STALL_WARN=200ms"}};
        own_case = (enum own_case)i;
        mock->begin();
        mock->set_current(0);
        atomic_store(&is_own_said, false);
        kolo_log_set_sink(look_for_own, NULL);
        WORLD_MUST_RUN(&world, wait_for_own_device, NULL);
        kolo_log_set_sink(NULL, NULL);
        cr_assert(atomic_load(&is_own_said), "%s, case %d", param->name, i);
    }
}
