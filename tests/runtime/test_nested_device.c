// SPDX-License-Identifier: Apache-2.0
// runtime/nested.c on memory of devices: sums inside hosts are kernels, only shares are copied to
// the host, and calls follow streams. Ranks are threads that pretend to be on several hosts.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "memory/cuda_image.h"
#include "memory/reduce.h"
#include "runtime/nested.h"
#include "tests/support/await.h"
#include "tests/support/hosts.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/oracle.h"
#include "tests/support/world.h"

/* COUNT float32 elements: three pieces of 1 MiB, and some more */
enum { PIECES = 4, COUNT = 3 * (1 << 20) / 4 + 1003, BYTES = COUNT * 4, ROUNDS = 4 };

static const struct mock_cuda *mock;

static void begin(unsigned seed)
{
    mock = mock_cuda_load();
    mock->begin();
    mock->set_current(0);
    mock->delays(seed, 50);
}

/** What a rank has: buffers on the device, what is in them, and a stream. */
struct side {
    void *send, *recv, *stream;
    uint8_t bytes[BYTES];
};

static kolo_status side_create(struct kolo_comm *comm, bool is_lent, struct side **side_out)
{
    const int device = kolo_rank(comm) % MOCK_DEVICES;
    struct side *side = malloc(sizeof *side);
    if (!side)
        abort();
    side->stream = mock->stream(device);
    if (is_lent) {
        WORLD_TRY(kolo_alloc_device(comm, BYTES, device, &side->send));
        WORLD_TRY(kolo_alloc_device(comm, BYTES, device, &side->recv));
    } else {
        side->send = mock->alloc(MOCK_DEVICE, device, BYTES);
        side->recv = mock->alloc(MOCK_DEVICE, device, BYTES);
    }
    *side_out = side;
    return KOLO_OK;
}

static kolo_status side_free(struct kolo_comm *comm, struct side *side, bool is_lent)
{
    if (is_lent) {
        WORLD_TRY(kolo_free(comm, side->send));
        WORLD_TRY(kolo_free(comm, side->recv));
    }
    free(side);
    return KOLO_OK;
}

static kolo_status is_right(const struct side *side, const struct oracle *oracle)
{
    size_t at;
    WORLD_EXPECT(oracle_is_reduced(oracle, 0, side->bytes, COUNT, &at), "%s: element %zu",
                 kolo_redop_text(oracle->op), at);
    return KOLO_OK;
}

/** Allreduces what a late stream writes, in place or not, and checks it. */
static kolo_status check(struct kolo_comm *comm, struct side *side, kolo_redop op, bool in_place)
{
    const struct oracle oracle = {KOLO_FLOAT32, op, kolo_size(comm), (unsigned)op + in_place};
    const uint32_t before = comm->nest->host->sequences.collective;
    void *send = in_place ? side->recv : side->send;
    oracle_fill(&oracle, kolo_rank(comm), 0, side->bytes, COUNT);
    mock->write_on(side->stream, send, side->bytes, BYTES);
    WORLD_TRY(kolo_allreduce(comm, send, side->recv, COUNT, KOLO_FLOAT32, op, NULL, NULL));
    mock->read(side->recv, side->bytes, BYTES);
    WORLD_EXPECT(comm->nest->host->sequences.collective == before + 2 * PIECES,
                 "not nested in pieces");
    return is_right(side, &oracle);
}

struct setup { /* no pointers, because the test runs in another process */
    int size, hosts;
    char transport[8];
    bool is_lent;
};

static kolo_status plain_calls(struct kolo_comm *comm, void *argument)
{
    const struct setup *setup = argument;
    struct side *side;
    WORLD_TRY(side_create(comm, setup->is_lent, &side));
    WORLD_TRY(check(comm, side, KOLO_SUM, false));
    WORLD_TRY(check(comm, side, KOLO_AVERAGE, true));
    WORLD_TRY(check(comm, side, KOLO_MAX, false));
    return side_free(comm, side, setup->is_lent);
}

ParameterizedTestParameters(nested_device, sums_on_devices)
{
    static struct setup setups[] = {{4, 2, "", true},
                                    {8, 2, "", true},
                                    {6, 3, "", true},
                                    {4, 2, "", false},
                                    {4, 2, "tcp", true}};
    return cr_make_param_array(struct setup, setups, sizeof setups / sizeof *setups);
}

/** Threads lend to each other whatever their host, so that nothing is copied to the host here, not
 * even shares. In tests/cluster/twolevel.sh ranks are processes. */
ParameterizedTest(struct setup *setup, nested_device, sums_on_devices, .timeout = 300)
{
    struct world world = {.size = setup->size,
                          .transport = setup->transport[0] ? setup->transport : NULL,
                          .settings = {"KOLO_NESTED_BYTES=1"}};
    if (kolo_cuda_image_bytes == 0)
        cr_skip_test("this build has no CUDA kernels: nvcc was not found");
    begin((unsigned)setup->size);
    hosts_pretend(setup->hosts);
    WORLD_MUST_RUN(&world, plain_calls, setup);
    if (setup->is_lent && !setup->transport[0]) {
        cr_assert_gt(mock->calls("cuLaunchKernel"), 0, "no sum on a device");
        cr_assert_eq(mock->calls("cuMemcpyAsync"), 0, "%d copies", mock->calls("cuMemcpyAsync"));
    }
}

/* ---- streams ---- */

/** Calls behind each other's results, with no wait in between. */
static kolo_status behind_streams(struct kolo_comm *comm, void *argument)
{
    const struct setup *setup = argument;
    struct kolo_request *requests[ROUNDS] = {NULL};
    const struct oracle oracle = {KOLO_FLOAT32, KOLO_MAX, kolo_size(comm), 9};
    struct side *side;
    WORLD_TRY(side_create(comm, setup->is_lent, &side));
    const struct kolo_opts opts = {.size = sizeof opts, .stream = side->stream};
    oracle_fill(&oracle, kolo_rank(comm), 0, side->bytes, COUNT);
    mock->write_on(side->stream, side->send, side->bytes, BYTES);
    for (int round = 0; round < ROUNDS; round++)
        WORLD_TRY(kolo_allreduce(comm, round == 0 ? side->send : side->recv, side->recv, COUNT,
                                 KOLO_FLOAT32, KOLO_MAX, &opts, &requests[round]));
    for (int round = 0; round < ROUNDS; round++)
        WORLD_TRY(kolo_wait(&requests[round], -1));
    mock->read(side->recv, side->bytes, BYTES);
    WORLD_TRY(is_right(side, &oracle));
    /* the same, blocking */
    WORLD_TRY(
        kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_FLOAT32, KOLO_MAX, &opts, NULL));
    mock->read(side->recv, side->bytes, BYTES);
    WORLD_TRY(is_right(side, &oracle));
    return side_free(comm, side, setup->is_lent);
}

ParameterizedTestParameters(nested_device, follows_streams)
{
    static struct setup setups[] = {{4, 2, "", true}, {4, 2, "tcp", false}, {6, 2, "", true}};
    return cr_make_param_array(struct setup, setups, sizeof setups / sizeof *setups);
}

ParameterizedTest(struct setup *setup, nested_device, follows_streams, .timeout = 300)
{
    struct world world = {.size = setup->size,
                          .transport = setup->transport[0] ? setup->transport : NULL,
                          .settings = {"KOLO_NESTED_BYTES=1"}};
    begin((unsigned)setup->size + 1);
    hosts_pretend(setup->hosts);
    WORLD_MUST_RUN(&world, behind_streams, setup);
}

/* ---- devices that are held up ---- */

static atomic_bool is_named;

/** Of the outer call, whose own words name no communicator; what follows may, since a rank whose
 * device holds up the start of an inner call is not in the outer one yet. */
static void look_for_devices(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    (void)level;
    const char *const waiting = strstr(line, ": waiting for ");
    const char *const communicator = strstr(line, "communicator");
    if (!waiting || (communicator && communicator < waiting))
        return;
    if (strstr(line, " wait, each for the ") || strstr(line, " waits for the "))
        atomic_store(&is_named, true);
}

static kolo_status held_up(struct kolo_comm *comm, void *argument)
{
    struct kolo_request *request = NULL;
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, true, &side));
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        mock->hold(1);
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    WORLD_TRY(kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL,
                             &request));
    (void)AWAIT(atomic_load(&is_named));
    mock->hold(0);
    WORLD_TRY(kolo_wait(&request, -1));
    return side_free(comm, side, true);
}

/** The inner calls know what is waited for, and warnings of the outer call say it. */
Test(nested_device, a_device_that_is_held_up_is_named, .timeout = 300)
{
    struct world world = {.size = 4,
                          .settings = {"KOLO_NESTED_BYTES=1", "KOLO_TIMEOUT=60", "KOLO_STALL=50ms",
                                       "KOLO_STALL_WARN=500ms"}};
    begin(5);
    hosts_pretend(2);
    kolo_log_set_sink(look_for_devices, NULL);
    WORLD_MUST_RUN(&world, held_up, NULL);
    kolo_log_set_sink(NULL, NULL);
    cr_assert(atomic_load(&is_named), "nobody is named");
}

/* ---- failures ---- */

/** A device fails under the calls: every rank's call ends with a status, which names the call. */
static kolo_status with_a_lost_device(struct kolo_comm *comm, void *argument)
{
    char detail[KOLO_DETAIL_MAX];
    struct side *side;
    (void)argument;
    WORLD_TRY(side_create(comm, true, &side));
    memset(side->bytes, 0, BYTES);
    mock->write_on(side->stream, side->send, side->bytes, BYTES);
    WORLD_TRY(kolo_barrier(comm, NULL, NULL));
    if (kolo_rank(comm) == 0)
        mock->fail_async(*(const int *)argument, MOCK_ECC_UNCORRECTABLE);
    kolo_status status = KOLO_OK;
    for (int round = 0; round < ROUNDS && status == KOLO_OK; round++)
        status =
            kolo_allreduce(comm, side->send, side->recv, COUNT, KOLO_FLOAT32, KOLO_SUM, NULL, NULL);
    (void)snprintf(detail, sizeof detail, "%s", kolo_error_detail());
    (void)kolo_free(comm, side->send);
    (void)kolo_free(comm, side->recv);
    free(side);
    WORLD_EXPECT(status == KOLO_ERR_SYSTEM && strstr(detail, "(214)"), "%s: %s",
                 kolo_status_name(status), detail);
    WORLD_EXPECT(comm->failure.status == KOLO_ERR_SYSTEM, "the communicator has not failed");
    return KOLO_OK;
}

ParameterizedTestParameters(nested_device, a_lost_device_ends_it_on_all_ranks)
{
    static int nths[] = {1, 2, 5, 9, 14, 20, 33, 47};
    return cr_make_param_array(int, nths, sizeof nths / sizeof *nths);
}

ParameterizedTest(int *nth, nested_device, a_lost_device_ends_it_on_all_ranks, .timeout = 300)
{
    struct world world = {.size = 4, .settings = {"KOLO_NESTED_BYTES=1", "KOLO_EXIT_TIMEOUT=1s"}};
    begin((unsigned)*nth);
    hosts_pretend(2);
    WORLD_MUST_RUN(&world, with_a_lost_device, nth);
}
