// SPDX-License-Identifier: Apache-2.0
// Every driver function that kolo uses, from the list in memory/cuda_driver.h, with each way in
// which it can be unusable: it is missing, as in an older driver; it is refused each time, as in a
// sandbox; memory runs out once; the device is lost in it. In each case every collective, on every
// kind of memory, among 2 to 4 ranks, is right or ends with a status that names the call; and if
// there is another way, it is taken.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/cuda_driver.h"
#include "tests/support/any_collective.h"
#include "tests/support/length.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

enum { RANKS_MAX = 4, COUNT = 1501, BYTES = RANKS_MAX * COUNT * 4, NOT_PERMITTED = 800 };

/* ---- functions, and how they fail ---- */

static const struct {
    const char *name;
    bool may_be_absent;
} functions[] = {
#define NEEDED(member, symbol, name, parameters) {symbol, false},
#define LATER(member, symbol, name, parameters) {symbol, true},
    KOLO_CUDA_FUNCTIONS(NEEDED) KOLO_CUDA_LATER_FUNCTIONS(LATER)
#undef NEEDED
#undef LATER
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

enum fault { ABSENT, UNSUPPORTED, FORBIDDEN, OUT_OF_MEMORY, LOST, FAULTS };

struct setup {
    int function;
    enum fault fault;
};

static const char *absent; /* a function that the loader does not find */

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name)
{
    return absent && strcmp(absent, name) == 0 ? NULL : __real_dlsym(handle, name);
}

/* ---- uses of memory ---- */

enum kind { LENT, BROUGHT, MANAGED, PINNED, MIXED, FOLLOWED, KINDS };

static const struct world worlds[KINDS] = {
    [LENT] = {.transport = "shm", .settings = {"KOLO_PLAN=twoshot", NULL}},
    [BROUGHT] = {.transport = "tcp", .settings = {"KOLO_STAGE_BYTES=4KiB", NULL}},
    [MANAGED] = {.transport = "inproc"},
    [PINNED] = {.transport = "shm"},
    [MIXED] = {.transport = "shm"},
    [FOLLOWED] = {.transport = "inproc"}};

static const struct mock_cuda *mock; /* NULL: no driver has been loaded yet */
static uint8_t expected[RANKS_MAX + 1][RANKS_MAX][ANY_COLLECTIVES][BYTES];

struct side {
    uint8_t *send, *recv;
    bool is_device;
    _Alignas(16) uint8_t host_send[BYTES];
    _Alignas(16) uint8_t host_recv[BYTES];
};

/** Memory of the program, which all worlds share. */
static uint8_t *brought(enum kind kind, int rank, int which)
{
    static uint8_t *memory[2][RANKS_MAX][2]; /* a rank only touches its own */
    uint8_t **at = &memory[kind == MANAGED][rank][which];
    if (!*at)
        *at = mock->alloc(kind == MANAGED ? MOCK_MANAGED : MOCK_DEVICE, rank % MOCK_DEVICES, BYTES);
    return *at;
}

static kolo_status allocate(struct kolo_comm *comm, enum kind kind, struct side *side)
{
    const int rank = kolo_rank(comm);
    side->is_device = mock && kind != PINNED && (kind != MIXED || rank % 2 != 0);
    if (!mock)
        return KOLO_OK;
    mock->set_current(rank % MOCK_DEVICES);
    if (kind == LENT || kind == PINNED) {
        void *send = NULL, *recv = NULL;
        kolo_status status = kind == LENT ? kolo_alloc_device(comm, BYTES, 0, &send)
                                          : kolo_alloc(comm, BYTES, &send);
        if (status == KOLO_OK)
            status = kind == LENT ? kolo_alloc_device(comm, BYTES, 0, &recv)
                                  : kolo_alloc(comm, BYTES, &recv);
        side->send = send;
        side->recv = recv;
        return status;
    }
    if (side->is_device) {
        side->send = brought(kind, rank, 0);
        side->recv = brought(kind, rank, 1);
    }
    return KOLO_OK;
}

static void fill(struct side *side, int rank, int which)
{
    for (size_t i = 0; i < BYTES / 4; i++)
        ((int32_t *)(void *)side->host_send)[i] = (int32_t)((size_t)(rank + which) * 1000 + i);
    memset(side->host_recv, which, BYTES);
    if (which == ANY_BROADCAST)
        memcpy(side->host_recv, side->host_send, BYTES);
    if (side->is_device) {
        mock->write(side->send, side->host_send, BYTES);
        mock->write(side->recv, side->host_recv, BYTES);
    } else if (side->send != side->host_send) {
        memcpy(side->send, side->host_send, BYTES);
        memcpy(side->recv, side->host_recv, BYTES);
    }
}

static void fetch(struct side *side)
{
    if (side->is_device)
        mock->read(side->recv, side->host_recv, BYTES);
    else if (side->recv != side->host_recv)
        memcpy(side->host_recv, side->recv, BYTES);
}

/** A blocking call, and one with a request that its stream waits for. */
static kolo_status follow(struct kolo_comm *comm, const struct any_call *any, struct side *side)
{
    const struct kolo_opts opts = {.size = sizeof opts,
                                   .stream = mock->stream(kolo_rank(comm) % MOCK_DEVICES)};
    struct any_call following = *any;
    struct kolo_request *request = NULL;
    following.opts = &opts;
    if (any->which != ANY_ALLREDUCE)
        return any_collective(comm, &following, side->send, side->recv);
    const kolo_status status = kolo_allreduce(comm, side->send, side->recv, any->count, any->dtype,
                                              any->op, &opts, &request);
    return status == KOLO_OK ? kolo_wait(&request, -1) : status;
}

static kolo_status call_all(struct kolo_comm *comm, enum kind kind, struct side *side)
{
    const int rank = kolo_rank(comm), size = kolo_size(comm);
    for (int which = 0; which < ANY_COLLECTIVES; which++) {
        const struct any_call any = {.which = (enum any_collective)which,
                                     .dtype = KOLO_INT32,
                                     .op = KOLO_SUM,
                                     .count = COUNT,
                                     .less = 7,
                                     .apart = COUNT};
        uint8_t *const right = expected[size][rank][which];
        if (kind == LENT && which == ANY_ALLTOALLV) /* no board supports it */
            continue;
        fill(side, rank, which);
        WORLD_TRY(kind == FOLLOWED && mock ? follow(comm, &any, side)
                                           : any_collective(comm, &any, side->send, side->recv));
        fetch(side);
        if (!mock)
            memcpy(right, side->host_recv, BYTES);
        WORLD_EXPECT(memcmp(right, side->host_recv, BYTES) == 0, "collective %d is wrong", which);
    }
    return kolo_barrier(comm, NULL, NULL);
}

static kolo_status use(struct kolo_comm *comm, void *argument)
{
    const enum kind kind = *(const enum kind *)argument;
    struct side *side = calloc(1, sizeof *side);
    char words[KOLO_DETAIL_MAX];
    if (!side)
        abort();
    side->send = side->host_send;
    side->recv = side->host_recv;
    kolo_status status = allocate(comm, kind, side);
    if (status == KOLO_OK)
        status = call_all(comm, kind, side);
    (void)snprintf(words, sizeof words, "%s", status == KOLO_OK ? "" : kolo_error_detail());
    if (mock && (kind == LENT || kind == PINNED)) {
        if (side->send) /* memory that the driver does not free is not checked */
            (void)kolo_free(comm, side->send);
        if (side->recv)
            (void)kolo_free(comm, side->recv);
    }
    free(side);
    return status == KOLO_OK ? KOLO_OK : kolo_fail(status, "%s", words);
}

/* ---- the verdict ---- */

/** Whether the text names the function, without the version of its symbol; two functions appear as
 * descriptions. */
static bool is_named(const char *symbol, const char *text)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s", symbol);
    char *version = strstr(name, "_v2");
    if (version)
        *version = '\0';
    /* pages that stay locked cause a refusal when other memory is mapped there */
    if (strcmp(symbol, "cuMemHostUnregister") == 0 && strstr(text, "cuMem"))
        return true;
    return strstr(text, name) ||
           (strcmp(symbol, "cuDeviceGetAttribute") == 0 && strstr(text, "(cuStreamBatchMemOp)")) ||
           (strcmp(symbol, "cuStreamQuery") == 0 && strstr(text, "copying on device"));
}

/** Whether there is another way, or no part of a collective needs the function. */
static bool is_spared(const struct setup *setup, enum kind kind)
{
    static const char *const dispensable[] = {"cuCtxGetStreamPriorityRange",
                                              "cuStreamIsCapturing",
                                              "cuThreadExchangeStreamCaptureMode",
                                              "cuIpcGetMemHandle",
                                              "cuIpcOpenMemHandle_v2",
                                              "cuDeviceGetUuid_v2",
                                              "cuFuncLoad",
                                              "cuCtxRecordEvent",
                                              "cuMemGetHandleForAddressRange"};
    static const char *const dispensable_at_run_time[] = {
        "cuDriverGetVersion",    "cuDeviceGetName",     "cuDeviceGetPCIBusId",
        "cuCtxEnablePeerAccess", "cuModuleLoadData",    "cuModuleGetFunction",
        "cuDeviceGetAttribute",  "cuMemHostRegister_v2"};
    const char *name = functions[setup->function].name;
    if (setup->fault > FORBIDDEN)
        return false;
    for (size_t i = 0; i < sizeof dispensable / sizeof *dispensable; i++)
        if (strcmp(dispensable[i], name) == 0)
            return true;
    for (size_t i = 0; i < sizeof dispensable_at_run_time / sizeof *dispensable_at_run_time; i++)
        if (strcmp(dispensable_at_run_time[i], name) == 0)
            return setup->fault != ABSENT && kind != FOLLOWED;
    return setup->fault == ABSENT && functions[setup->function].may_be_absent && kind != FOLLOWED;
}

static void judge(const struct setup *setup, enum kind kind, const struct world *world)
{
    static const char *const faults[FAULTS] = {"absent", "not supported", "not permitted",
                                               "out of memory", "lost"};
    const char *name = functions[setup->function].name;
    const struct world_result *cause = world_cause(world);
    for (int rank = 0; rank < world->size; rank++) {
        const struct world_result *result = &world->results[rank];
        cr_expect(result->status != KOLO_ERR_TIMEOUT && result->status != KOLO_ERR_INTERNAL,
                  "%s %s, memory %d, rank %d of %d: %s", name, faults[setup->fault], kind, rank,
                  world->size, result->text);
        cr_expect(result->status == KOLO_OK || !is_spared(setup, kind),
                  "%s %s, memory %d, rank %d of %d has no other way: %s", name,
                  faults[setup->fault], kind, rank, world->size, result->text);
    }
    if (cause->status == KOLO_OK)
        return;
    cr_expect(setup->fault == LOST ? strstr(cause->text, "(700)") != NULL
                                   : is_named(name, cause->text),
              "%s %s, memory %d of %d ranks: %s", name, faults[setup->fault], kind, world->size,
              cause->text);
}

/* ---- the trials ---- */

static void arm(const struct setup *setup, int nth)
{
    static const int results[FAULTS] = {[UNSUPPORTED] = KOLO_CUDA_NOT_SUPPORTED,
                                        [FORBIDDEN] = NOT_PERMITTED,
                                        [OUT_OF_MEMORY] = KOLO_CUDA_OUT_OF_MEMORY,
                                        [LOST] = KOLO_CUDA_ILLEGAL_ADDRESS};
    char always[96];
    const char *name = functions[setup->function].name;
    (void)snprintf(always, sizeof always, "%s=%d", name, results[setup->fault]);
    if (setup->fault == UNSUPPORTED || setup->fault == FORBIDDEN) {
        (void)setenv("MOCK_CUDA_FAIL", always, 1);
        (void)setenv("MOCK_CUDA_PAGEABLE", "1", 1); /* matters if pages cannot be locked */
    } else if (setup->fault != ABSENT)
        mock->fail(name, setup->fault == LOST ? 3 * nth : nth, results[setup->fault]);
}

static void disarm(void)
{
    (void)unsetenv("MOCK_CUDA_FAIL");
    (void)unsetenv("MOCK_CUDA_PAGEABLE");
    mock->fail("", 1, 0);
}

static void run(const struct setup *setup, enum kind kind, int size)
{
    struct world world = worlds[kind];
    world.size = size;
    world.settings[world.settings[0] != NULL] = "KOLO_TIMEOUT=20s";
    if (mock) {
        mock->begin();
        arm(setup, size);
    }
    const kolo_status status = world_run(&world, use, &kind);
    if (!mock) {
        cr_assert_eq(status, KOLO_OK, "%s", world_cause(&world)->text);
        return;
    }
    disarm();
    judge(setup, kind, &world);
}

/** A library without the function that tells what a pointer is counts as no driver: only that
 * function could tell that memory is a device's. */
static bool is_driver_unknown(const struct setup *setup, int kind)
{
    const char *name = functions[setup->function].name;
    return setup->fault == ABSENT && kind != LENT && kind != PINNED &&
           (strcmp(name, "cuPointerGetAttributes") == 0 || strcmp(name, "cuGetErrorName") == 0);
}

ParameterizedTestParameters(device_matrix, each_function_each_fault)
{
    static struct setup setups[FUNCTIONS * FAULTS];
    for (int i = 0; i < FUNCTIONS * FAULTS; i++)
        setups[i] = (struct setup){i / FAULTS, (enum fault)(i % FAULTS)};
    return cr_make_param_array(struct setup, setups, FUNCTIONS * FAULTS);
}

/** In a slow preset (TEST_SHORT), every third use, which ones depends on the case. */
static bool is_wanted(const struct setup *setup, int kind)
{
    return !test_is_short() || (setup->function + (int)setup->fault + kind) % 3 == 0;
}

/** The right results are those of host memory, in a process that has no driver yet. Each function
 * is tested with one world size per use, three functions with all sizes. */
ParameterizedTest(struct setup *setup, device_matrix, each_function_each_fault, .timeout = 300)
{
    for (int size = 2; size <= RANKS_MAX; size++)
        run(setup, MIXED, size);
    absent = setup->fault == ABSENT ? functions[setup->function].name : NULL;
    mock = mock_cuda_load();
    for (int kind = 0; kind < KINDS; kind++)
        if (is_wanted(setup, kind) && !is_driver_unknown(setup, kind))
            run(setup, (enum kind)kind, 2 + (setup->function + (int)setup->fault + kind) % 3);
}
