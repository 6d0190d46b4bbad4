// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 that plays two devices: what kolo calls of the real one, and hooks for tests
// (tests/support/mock_cuda.h). A device's memory is a memfd, mapped where the mock writes it and
// once more, without any access, at the address that the program is given: a host that touches it
// dies. Stricter than the real one where a mistake would be silent there: memory is copied in its own
// context alone, what was written on a stream is not there before the context was waited for, and
// nothing is copied that is not within one allocation.
//
// MOCK_CUDA_FAIL=FUNCTION=RESULT makes every call of one function fail.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/cuda_driver.h"
#include "tests/support/mock_cuda.h"

enum { ALLOCATIONS_MAX = 512, FUNCTIONS_MAX = 32, STACK_MAX = 16, CONTEXTS = 2 * MOCK_DEVICES };

/* 2 * device: its primary context; and 1: another. */
static struct context {
    int device, uses; /* 0: there is none */
} contexts[CONTEXTS];

static struct allocation {
    enum mock_kind kind;
    struct context *context; /* NULL: none */
    int device;
    size_t bytes;
    uint8_t *memory;  /* the program's address */
    uint8_t *alias;   /* the same, for the mock */
    uint8_t *pending; /* what a stream will have written; NULL: nothing */
} allocations[ALLOCATIONS_MAX];

static struct function {
    const char *name;
    int calls;
} functions[FUNCTIONS_MAX];

static const char *failing;
static int failing_in, failing_with, lost;
static int is_initialized;
static _Thread_local struct context *stack[STACK_MAX];
static _Thread_local int depth;

static struct function *function_of(const char *name)
{
    for (int i = 0; i < FUNCTIONS_MAX; i++) {
        if (!functions[i].name)
            functions[i].name = name;
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    }
    abort();
}

/* Counts a call; what it is to return, or 0 to go on. */
static int enter(const char *name)
{
    const char *always = getenv("MOCK_CUDA_FAIL");
    size_t length = strlen(name);
    function_of(name)->calls++;
    if (always && strncmp(always, name, length) == 0 && always[length] == '=')
        return (int)strtol(always + length + 1, NULL, 10);
    if (lost)
        return lost;
    if (!failing || strcmp(failing, name) != 0 || --failing_in > 0)
        return KOLO_CUDA_SUCCESS;
    failing = NULL;
    if (failing_with >= KOLO_CUDA_ILLEGAL_ADDRESS && failing_with <= KOLO_CUDA_LAUNCH_FAILED)
        lost = failing_with;
    return failing_with;
}

#define ENTER()                                                                                    \
    do {                                                                                           \
        int entered = enter(__func__);                                                             \
        if (entered != KOLO_CUDA_SUCCESS)                                                          \
            return entered;                                                                        \
        if (!is_initialized)                                                                       \
            return KOLO_CUDA_NOT_INITIALIZED;                                                      \
    } while (0)

static struct context *top(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

static struct allocation *allocation_of(uint64_t address)
{
    for (int i = 0; i < ALLOCATIONS_MAX && allocations[i].memory; i++)
        if (address - (uint64_t)(uintptr_t)allocations[i].memory < allocations[i].bytes)
            return &allocations[i];
    return NULL;
}

/* ---- the driver ---- */

#define DECLARE(member, symbol, name, parameters) int name parameters;
// What cuda.h calls by another name than the symbol.
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#pragma GCC visibility push(default)
KOLO_CUDA_FUNCTIONS(DECLARE)
extern const struct mock_cuda mock_cuda;

int cuInit(unsigned flags)
{
    int result = enter(__func__);
    if (result == KOLO_CUDA_SUCCESS)
        is_initialized = 1;
    return flags == 0 ? result : KOLO_CUDA_INVALID_VALUE;
}

int cuDriverGetVersion(int *version_out)
{
    *version_out = 12080;
    return enter(__func__);
}

int cuGetErrorName(int result, const char **name_out)
{
    *name_out = result == KOLO_CUDA_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                : result == KOLO_CUDA_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                : result == KOLO_CUDA_NO_DEVICE     ? "CUDA_ERROR_NO_DEVICE"
                                                    : NULL;
    return *name_out ? KOLO_CUDA_SUCCESS : KOLO_CUDA_INVALID_VALUE;
}

int cuDeviceGetCount(int *count_out)
{
    ENTER();
    *count_out = MOCK_DEVICES;
    return KOLO_CUDA_SUCCESS;
}

/* A device's handle is not its number. */
int cuDeviceGet(int *device_out, int ordinal)
{
    ENTER();
    if (ordinal < 0 || ordinal >= MOCK_DEVICES)
        return KOLO_CUDA_INVALID_VALUE;
    *device_out = 100 + ordinal;
    return KOLO_CUDA_SUCCESS;
}

int cuDeviceGetName(char *name_out, int bytes, int device)
{
    ENTER();
    snprintf(name_out, (size_t)bytes, "Mock %d", device - 100);
    return KOLO_CUDA_SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context_out, int device)
{
    ENTER();
    struct context *context = &contexts[2 * (device - 100)];
    context->uses++;
    *context_out = context;
    return KOLO_CUDA_SUCCESS;
}

int cuDevicePrimaryCtxRelease(int device)
{
    ENTER();
    contexts[2 * (device - 100)].uses--;
    return KOLO_CUDA_SUCCESS;
}

int cuCtxGetCurrent(void **context_out)
{
    ENTER();
    *context_out = top();
    return KOLO_CUDA_SUCCESS;
}

int cuCtxGetDevice(int *device_out)
{
    ENTER();
    if (!top())
        return KOLO_CUDA_INVALID_CONTEXT;
    *device_out = 100 + top()->device;
    return KOLO_CUDA_SUCCESS;
}

int cuCtxPushCurrent(void *context)
{
    ENTER();
    struct context *pushed = context;
    if (pushed < contexts || pushed >= contexts + CONTEXTS || depth == STACK_MAX)
        return KOLO_CUDA_INVALID_VALUE;
    if (pushed->uses <= 0)
        return KOLO_CUDA_CONTEXT_IS_DESTROYED;
    stack[depth++] = pushed;
    return KOLO_CUDA_SUCCESS;
}

int cuCtxPopCurrent(void **context_out)
{
    if (depth == 0)
        return KOLO_CUDA_INVALID_CONTEXT;
    *context_out = stack[--depth]; /* also from a device that is lost */
    ENTER();
    return KOLO_CUDA_SUCCESS;
}

int cuCtxSynchronize(void)
{
    ENTER();
    if (!top())
        return KOLO_CUDA_INVALID_CONTEXT;
    for (int i = 0; i < ALLOCATIONS_MAX && allocations[i].memory; i++) {
        struct allocation *a = &allocations[i];
        if (!a->pending || (a->context ? a->context != top() : a->device != top()->device))
            continue;
        memcpy(a->alias, a->pending, a->bytes);
        munmap(a->pending, a->bytes);
        a->pending = NULL;
    }
    return KOLO_CUDA_SUCCESS;
}

int cuPointerGetAttributes(unsigned count, int *attributes, void **values, uint64_t address)
{
    ENTER();
    const struct allocation *a = allocation_of(address);
    for (unsigned i = 0; i < count; i++)
        switch (attributes[i]) {
        case KOLO_CUDA_POINTER_CONTEXT:
            *(void **)values[i] = a ? a->context : NULL;
            break;
        case KOLO_CUDA_POINTER_MEMORY_TYPE:
            *(unsigned *)values[i] = !a                       ? 0
                                     : a->kind == MOCK_PINNED ? KOLO_CUDA_MEMORY_HOST
                                                              : KOLO_CUDA_MEMORY_DEVICE;
            break;
        case KOLO_CUDA_POINTER_IS_MANAGED:
            *(unsigned *)values[i] = a && a->kind == MOCK_MANAGED;
            break;
        case KOLO_CUDA_POINTER_DEVICE_ORDINAL:
            *(int *)values[i] = a ? a->device : -2;
            break;
        default:
            return KOLO_CUDA_INVALID_VALUE;
        }
    return KOLO_CUDA_SUCCESS;
}

int cuMemcpyDtoH(void *into, uint64_t from, size_t bytes)
{
    ENTER();
    const struct allocation *a = allocation_of(from);
    if (!top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (!a || bytes == 0 || bytes > a->bytes - (size_t)(from - (uint64_t)(uintptr_t)a->memory))
        return KOLO_CUDA_INVALID_VALUE;
    if (a->context ? a->context != top() : a->device != top()->device)
        return KOLO_CUDA_INVALID_CONTEXT;
    memcpy(into, a->alias + (from - (uint64_t)(uintptr_t)a->memory), bytes);
    return KOLO_CUDA_SUCCESS;
}

#pragma GCC visibility pop

/* ---- the hooks ---- */

static void begin(void)
{
    for (int i = 0; i < CONTEXTS; i++)
        contexts[i].device = i / 2;
    contexts[0].uses = 1;
    if (cuInit(0) != KOLO_CUDA_SUCCESS)
        abort();
}

static uint8_t *map(size_t bytes, int protection, int flags, int fd)
{
    uint8_t *memory = mmap(NULL, bytes, protection, flags, fd, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

static void *mock_alloc(enum mock_kind kind, int device, size_t bytes)
{
    struct allocation *a = allocations;
    while (a->memory)
        if (++a == allocations + ALLOCATIONS_MAX)
            abort();
    int fd = memfd_create("mock", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    int access = kind == MOCK_PINNED ? PROT_READ | PROT_WRITE : PROT_NONE;
    *a = (struct allocation){.kind = kind,
                             .device = device,
                             .bytes = bytes,
                             .memory = map(bytes, access, MAP_SHARED, fd),
                             .alias = map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd)};
    close(fd);
    if (kind != MOCK_NO_CONTEXT) {
        a->context = &contexts[2 * device + (kind == MOCK_OTHER)];
        if (a->context->uses == 0)
            a->context->uses = 1;
    }
    return a->memory;
}

static void mock_write(void *memory, const void *from, size_t bytes)
{
    struct allocation *a = allocation_of((uint64_t)(uintptr_t)memory);
    if (!a || bytes > a->bytes)
        abort();
    memcpy(a->alias, from, bytes);
}

static void write_later(void *memory, const void *from, size_t bytes)
{
    struct allocation *a = allocation_of((uint64_t)(uintptr_t)memory);
    if (!a || bytes > a->bytes)
        abort();
    a->pending = map(a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memcpy(a->pending, from, bytes);
}

static void fail(const char *function, int nth, int result)
{
    failing = function;
    failing_in = nth;
    failing_with = result;
    lost = 0;
}

static int calls(const char *name)
{
    int sum = 0;
    for (int i = 0; i < FUNCTIONS_MAX && functions[i].name; i++)
        if (!name || strcmp(functions[i].name, name) == 0)
            sum += functions[i].calls;
    return sum;
}

static void set_current(int device)
{
    depth = 0;
    if (device < 0)
        return;
    stack[depth++] = &contexts[2 * device];
    if (contexts[2 * device].uses == 0)
        contexts[2 * device].uses = 1;
}

static int depth_now(void)
{
    return depth;
}

static int current(void)
{
    return top() ? (int)(top() - contexts) : -1;
}

static int retained(int device)
{
    return contexts[2 * device].uses;
}

static void destroy_other(int device)
{
    contexts[2 * device + 1].uses = 0;
}

const struct mock_cuda mock_cuda = {
    .begin = begin,
    .alloc = mock_alloc,
    .write = mock_write,
    .write_later = write_later,
    .fail = fail,
    .calls = calls,
    .set_current = set_current,
    .depth = depth_now,
    .current = current,
    .retained = retained,
    .destroy_other = destroy_other,
};
