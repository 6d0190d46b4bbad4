// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 with two simulated devices: the functions of the driver that kolo calls, and hooks
// for tests (tests/support/mock_cuda.h). The memory of a device is a memfd that is mapped twice:
// where the mock accesses it, and, without any access, at the address that the program gets. So a
// host that touches device memory crashes.
//
// The mock is stricter than the real driver where a mistake would go unnoticed there. Memory is
// copied only in its own context, what was written on a stream is not there before the context was
// waited for, and a copy must stay within one allocation. Streams are in tests/mock/streams.c, and
// kernels (the library's, built by the host's compiler) in tests/mock/kernels.c.
//
// MOCK_CUDA_FAIL=FUNCTION=RESULT makes every call of one function fail.
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/cuda_driver.h"
#include "tests/mock/mock.h"

enum { FUNCTIONS_MAX = 64, STACK_MAX = 16, CONTEXTS = 2 * MOCK_DEVICES };

/* 2 * device is the primary context of a device, 2 * device + 1 another one. */
static struct context contexts[CONTEXTS];
static struct allocation allocations[ALLOCATIONS_MAX + 1]; /* the last one stays empty */
static int allocation_count;

static struct function {
    const char *name;
    int calls;
} functions[FUNCTIONS_MAX];

static const char *failing;
static int failing_in, failing_with;
static int is_initialized;
static int has_dma_buf = 1, ordering = KOLO_CUDA_WRITES_ORDERED_FOR_OWNER;
static unsigned long long next_id = 1;
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

/* ---- shared with streams.c ---- */

pthread_mutex_t mock_lock = PTHREAD_MUTEX_INITIALIZER;
int mock_lost;
_Thread_local bool mock_is_called;

/** Whether a device with this error is lost, so that all later calls return it. */
static bool is_lost_with(int result)
{
    return (result >= KOLO_CUDA_ILLEGAL_ADDRESS && result <= KOLO_CUDA_LAUNCH_FAILED) ||
           result == MOCK_ECC_UNCORRECTABLE || result == MOCK_UNKNOWN;
}

int mock_enter(const char *name)
{
    const char *always = getenv("MOCK_CUDA_FAIL");
    size_t length = strlen(name);
    if (mock_is_called) { /* the real driver refuses the call, or deadlocks */
        fprintf(stderr, "mock: %s is called by a function that a stream called\n", name);
        abort();
    }
    mock_admit();
    function_of(name)->calls++;
    if (always && strncmp(always, name, length) == 0 && always[length] == '=')
        return (int)strtol(always + length + 1, NULL, 10);
    if (mock_lost)
        return mock_lost;
    if (mock_is_refused(name))
        return KOLO_CUDA_STREAM_CAPTURE_UNSUPPORTED;
    if (failing && (strcmp(failing, "*") == 0 || strcmp(failing, name) == 0) && --failing_in <= 0) {
        failing = NULL;
        if (is_lost_with(failing_with))
            mock_lose(failing_with);
        return failing_with;
    }
    return is_initialized || strcmp(name, "cuInit") == 0 ? KOLO_CUDA_SUCCESS
                                                         : KOLO_CUDA_NOT_INITIALIZED;
}

struct context *mock_top(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

struct context *mock_primary(int device)
{
    contexts[2 * device].uses++;
    return &contexts[2 * device];
}

struct allocation *mock_allocation(uint64_t address)
{
    for (int i = 0; i < allocation_count; i++)
        if (address - (uint64_t)(uintptr_t)allocations[i].memory < allocations[i].bytes)
            return &allocations[i];
    return NULL;
}

bool mock_within(const struct allocation *a, uint64_t address, size_t bytes)
{
    return bytes <= a->bytes - (size_t)(address - (uint64_t)(uintptr_t)a->memory);
}

uint8_t *mock_place(uint64_t address, size_t bytes)
{
    struct allocation *a = mock_allocation(address);
    if (!a)
        return (uint8_t *)(uintptr_t)address; /* memory of the host */
    if (!mock_within(a, address, bytes))
        return NULL;
    return a->alias + (address - (uint64_t)(uintptr_t)a->memory);
}

struct allocation *mock_allocations(void)
{
    return allocations;
}

bool mock_reaches(const struct context *context, uint64_t address)
{
    const struct allocation *a = mock_allocation(address);
    if (!a || a->kind == MOCK_PINNED || !a->context || a->context->device == context->device)
        return true;
    return (context->reaches & a->context->bit) != 0;
}

/* Unmaps its memory and its alias, unless they are the same: then the memory is the program's. */
static void take_out(struct allocation *a)
{
    if (a->memory != a->alias) {
        munmap(a->memory, a->bytes);
        munmap(a->alias, a->bytes);
        close(a->fd);
    }
    *a = allocations[--allocation_count];
    allocations[allocation_count] = (struct allocation){.bytes = 0};
}

/* The real driver would wait, for an unlimited time. */
void mock_take_out_unused(struct allocation *a)
{
    if (mock_streams_use(a) || mock_is_mapped_elsewhere(a)) {
        const char *always = getenv("MOCK_CUDA_FAIL");
        fprintf(stderr, "mock: %zu bytes are given back while they are copied or mapped (%s)\n",
                a->bytes, always ? always : "no function always fails");
        abort();
    }
    take_out(a);
}

/* ---- the driver ---- */

#pragma GCC visibility push(default)
extern const struct mock_cuda mock_cuda;

int cuInit(unsigned flags)
{
    LOCKED();
    int result = mock_enter(__func__);
    if (result == KOLO_CUDA_SUCCESS)
        is_initialized = 1;
    for (int i = 0; i < CONTEXTS; i++) {
        contexts[i].device = i / 2;
        contexts[i].bit = 1u << i;
    }
    return flags == 0 ? result : KOLO_CUDA_INVALID_VALUE;
}

int cuDriverGetVersion(int *version_out)
{
    LOCKED();
    *version_out = 12080;
    return mock_enter(__func__);
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

/* The handle of a device is deliberately not its number. */
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

int cuDeviceGetPCIBusId(char *name_out, int bytes, int device)
{
    ENTER();
    snprintf(name_out, (size_t)bytes, "0000:%02X:00.0", MOCK_BUS + device - 100);
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
    *context_out = mock_top();
    return KOLO_CUDA_SUCCESS;
}

int cuCtxGetDevice(int *device_out)
{
    ENTER();
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    *device_out = 100 + mock_top()->device;
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
    *context_out = stack[--depth]; /* works with a lost device too */
    ENTER();
    return KOLO_CUDA_SUCCESS;
}

void mock_write_pending(const struct context *context)
{
    for (int i = 0; i < allocation_count; i++) {
        struct allocation *a = &allocations[i];
        if (!a->pending || a->writer != context)
            continue;
        memcpy(a->alias, a->pending, a->bytes);
        munmap(a->pending, a->bytes);
        a->pending = NULL;
    }
}

int cuCtxSynchronize(void)
{
    ENTER();
    const struct context *context = mock_top();
    if (!context)
        return KOLO_CUDA_INVALID_CONTEXT;
    if (mock_streams_spoil(context, false))
        return KOLO_CUDA_STREAM_CAPTURE_UNSUPPORTED;
    mock_streams_wait(context);
    mock_write_pending(context);
    return mock_lost;
}

int cuPointerGetAttributes(unsigned count, int *attributes, void **values, uint64_t address)
{
    ENTER();
    const struct allocation *a = mock_allocation(address);
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
        case KOLO_CUDA_POINTER_BUFFER_ID:
            *(unsigned long long *)values[i] = a ? a->id : 0;
            break;
        case KOLO_CUDA_POINTER_RANGE_START:
            *(kolo_cuda_address *)values[i] = a ? (uint64_t)(uintptr_t)a->memory : 0;
            break;
        case KOLO_CUDA_POINTER_RANGE_BYTES:
            *(size_t *)values[i] = a ? a->bytes : 0;
            break;
        case KOLO_CUDA_POINTER_IS_IPC_CAPABLE:
            *(unsigned *)values[i] = a && mock_is_ipc_capable(a);
            break;
        default:
            return KOLO_CUDA_INVALID_VALUE;
        }
    return KOLO_CUDA_SUCCESS;
}

int cuMemcpyDtoH(void *into, uint64_t from, size_t bytes)
{
    ENTER();
    const struct allocation *a = mock_allocation(from);
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (!a || bytes == 0 || !mock_within(a, from, bytes))
        return KOLO_CUDA_INVALID_VALUE;
    if (a->context ? a->context != mock_top() : a->device >= 0 && a->device != mock_top()->device)
        return KOLO_CUDA_INVALID_CONTEXT;
    memcpy(into, a->alias + (from - (uint64_t)(uintptr_t)a->memory), bytes);
    return KOLO_CUDA_SUCCESS;
}

int cuDeviceGetAttribute(int *value_out, int attribute, int device)
{
    ENTER();
    if (device < 100 || device >= 100 + MOCK_DEVICES)
        return KOLO_CUDA_INVALID_VALUE;
    *value_out = attribute == KOLO_CUDA_ATTRIBUTE_PROCESSORS        ? 1
                 : attribute == KOLO_CUDA_ATTRIBUTE_DMA_BUF         ? has_dma_buf
                 : attribute == KOLO_CUDA_ATTRIBUTE_WRITES_ORDERING ? ordering
                                                                    : 1;
    return KOLO_CUDA_SUCCESS;
}

/* The range must consist of whole pages, from the start of one allocation. */
int cuMemGetHandleForAddressRange(void *handle_out, uint64_t at, size_t bytes, int type,
                                  unsigned long long flags)
{
    ENTER();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const struct allocation *a = mock_allocation(at);
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (!a || a->fd < 0 || type != KOLO_CUDA_HANDLE_DMA_BUF || flags != 0 || at % page != 0 ||
        bytes % page != 0 || (uint64_t)(uintptr_t)a->memory != at ||
        bytes > (a->bytes + page - 1) / page * page)
        return KOLO_CUDA_INVALID_VALUE;
    if (!has_dma_buf)
        return KOLO_CUDA_NOT_SUPPORTED;
    *(int *)handle_out = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
    return KOLO_CUDA_SUCCESS;
}

static struct allocation *make(enum mock_kind kind, int device, size_t bytes);

/** Allocates in the current context. */
static int allocate(enum mock_kind kind, size_t bytes, struct allocation **out)
{
    if (!mock_top() || bytes == 0)
        return mock_top() ? KOLO_CUDA_INVALID_VALUE : KOLO_CUDA_INVALID_CONTEXT;
    if (bytes > MOCK_MEMORY)
        return KOLO_CUDA_OUT_OF_MEMORY;
    *out = make(kind, mock_top()->device, bytes);
    (*out)->context = mock_top();
    return KOLO_CUDA_SUCCESS;
}

int cuMemAlloc(uint64_t *memory_out, size_t bytes)
{
    ENTER();
    struct allocation *a;
    const int result = allocate(MOCK_DEVICE, bytes, &a);
    if (result != KOLO_CUDA_SUCCESS)
        return result;
    a->is_asked_for = true;
    *memory_out = (uint64_t)(uintptr_t)a->memory;
    return KOLO_CUDA_SUCCESS;
}

int cuMemAllocManaged(uint64_t *memory_out, size_t bytes, unsigned flags)
{
    ENTER();
    struct allocation *a;
    const int result =
        flags == 1 || flags == 2 ? allocate(MOCK_MANAGED, bytes, &a) : KOLO_CUDA_INVALID_VALUE;
    if (result == KOLO_CUDA_SUCCESS)
        *memory_out = (uint64_t)(uintptr_t)a->memory;
    return result;
}

/* It is there at once, and for the contexts of all devices. */
int cuMemAllocAsync(uint64_t *memory_out, size_t bytes, void *stream)
{
    ENTER();
    struct allocation *a;
    (void)stream;
    const int result = allocate(MOCK_NO_CONTEXT, bytes, &a);
    if (result != KOLO_CUDA_SUCCESS)
        return result;
    a->context = NULL;
    *memory_out = (uint64_t)(uintptr_t)a->memory;
    return KOLO_CUDA_SUCCESS;
}

/* There is one for each device. */
int cuCtxCreate_v2(void **context_out, unsigned flags, int device)
{
    ENTER();
    struct context *context = &contexts[2 * (device - 100) + 1];
    if (flags != 0 || depth == STACK_MAX || context->uses > 0)
        return KOLO_CUDA_INVALID_VALUE;
    context->uses = 1;
    *context_out = stack[depth++] = context;
    return KOLO_CUDA_SUCCESS;
}

int cuMemFree(uint64_t memory)
{
    ENTER();
    struct allocation *a = mock_allocation(memory);
    if (!a || (uint64_t)(uintptr_t)a->memory != memory || a->kind == MOCK_PINNED || a->opens)
        return KOLO_CUDA_INVALID_VALUE;
    mock_streams_wait_alone(a->context ? a->context : mock_top());
    mock_take_out_unused(a);
    return KOLO_CUDA_SUCCESS;
}

int cuMemsetD8(uint64_t memory, unsigned char value, size_t bytes)
{
    ENTER();
    const struct allocation *a = mock_allocation(memory);
    if (!a || !mock_within(a, memory, bytes))
        return KOLO_CUDA_INVALID_VALUE;
    memset(a->alias + (memory - (uint64_t)(uintptr_t)a->memory), value, bytes);
    return KOLO_CUDA_SUCCESS;
}

static bool locks_slowly;

/** Held: lock; released while waiting. */
static void lock_slowly(void)
{
    if (locks_slowly && mock_top())
        mock_streams_wait(mock_top());
}

int cuMemHostRegister(void *memory, size_t bytes, unsigned flags)
{
    ENTER();
    lock_slowly();
    uint64_t from = (uint64_t)(uintptr_t)memory;
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (!memory || bytes == 0 || flags != (KOLO_CUDA_REGISTER_PORTABLE | KOLO_CUDA_REGISTER_MAPPED))
        return KOLO_CUDA_INVALID_VALUE;
    for (int i = 0; i < allocation_count; i++)
        if ((uint64_t)(uintptr_t)allocations[i].memory < from + bytes &&
            from < (uint64_t)(uintptr_t)allocations[i].memory + allocations[i].bytes)
            return KOLO_CUDA_ALREADY_REGISTERED;
    if (allocation_count == ALLOCATIONS_MAX)
        return KOLO_CUDA_OUT_OF_MEMORY;
    allocations[allocation_count++] = (struct allocation){.kind = MOCK_PINNED,
                                                          .context = mock_top(),
                                                          .device = mock_top()->device,
                                                          .bytes = bytes,
                                                          .fd = -1,
                                                          .memory = memory,
                                                          .alias = memory};
    return KOLO_CUDA_SUCCESS;
}

int cuMemHostUnregister(void *memory)
{
    ENTER();
    lock_slowly();
    struct allocation *a = mock_allocation((uint64_t)(uintptr_t)memory);
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (!a || a->memory != memory || a->memory != a->alias)
        return KOLO_CUDA_INVALID_VALUE;
    mock_streams_wait_alone(mock_top());
    mock_take_out_unused(a);
    return KOLO_CUDA_SUCCESS;
}

int cuMemHostGetDevicePointer(uint64_t *address_out, void *memory, unsigned flags)
{
    ENTER();
    const struct allocation *a = mock_allocation((uint64_t)(uintptr_t)memory);
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (!a || a->kind != MOCK_PINNED || flags != 0)
        return KOLO_CUDA_INVALID_VALUE;
    *address_out = (uint64_t)(uintptr_t)memory;
    return KOLO_CUDA_SUCCESS;
}

#pragma GCC visibility pop

/* ---- the hooks ---- */

static void mock_lock_slowly(int slowly)
{
    LOCKED();
    locks_slowly = slowly != 0;
}

static void begin(void)
{
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

/** Maps addresses for new memory. Pages that were locked there, and that the driver refused to
 * unlock, no longer belong to the program. */
static uint8_t *map_new(size_t bytes, int protection, int fd)
{
    uint8_t *memory = map(bytes, protection, MAP_SHARED, fd);
    for (int i = allocation_count - 1; i >= 0; i--) {
        struct allocation *a = &allocations[i];
        if (a->memory == a->alias && a->memory < memory + bytes && memory < a->memory + a->bytes)
            take_out(a);
    }
    return memory;
}

struct allocation *mock_add(enum mock_kind kind, int device, size_t bytes, int fd)
{
    const int access = kind == MOCK_PINNED ? PROT_READ | PROT_WRITE : PROT_NONE;
    uint8_t *memory = map_new(bytes, access, fd);
    uint8_t *alias = map_new(bytes, PROT_READ | PROT_WRITE, fd);
    struct allocation *a = &allocations[allocation_count++];
    if (allocation_count > ALLOCATIONS_MAX)
        abort();
    *a = (struct allocation){.kind = kind,
                             .device = device,
                             .bytes = bytes,
                             .fd = fd,
                             .id = next_id++,
                             .memory = memory,
                             .alias = alias};
    if (kind != MOCK_NO_CONTEXT && device >= 0) {
        a->context = &contexts[2 * device + (kind == MOCK_OTHER)];
        if (a->context->uses == 0)
            a->context->uses = 1;
    }
    return a;
}

static struct allocation *make(enum mock_kind kind, int device, size_t bytes)
{
    int fd = mock_file_create(next_id);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    return mock_add(kind, device, bytes, fd);
}

static void *mock_alloc(enum mock_kind kind, int device, size_t bytes)
{
    LOCKED();
    return make(kind, device, bytes)->memory;
}

static void mock_read(const void *memory, void *into, size_t bytes)
{
    LOCKED();
    const struct allocation *a = mock_allocation((uint64_t)(uintptr_t)memory);
    if (!a || !mock_within(a, (uint64_t)(uintptr_t)memory, bytes))
        abort();
    memcpy(into, a->alias + ((const uint8_t *)memory - a->memory), bytes);
}

static int registered(void)
{
    LOCKED();
    int count = 0;
    for (int i = 0; i < allocation_count; i++)
        count += allocations[i].memory == allocations[i].alias;
    return count;
}

static int allocated(void)
{
    LOCKED();
    return allocation_count;
}

static void mock_write(void *memory, const void *from, size_t bytes)
{
    LOCKED();
    struct allocation *a = mock_allocation((uint64_t)(uintptr_t)memory);
    if (!a || !mock_within(a, (uint64_t)(uintptr_t)memory, bytes))
        abort();
    memcpy(a->alias + ((uint8_t *)memory - a->memory), from, bytes);
}

/** The context in which a program works on memory: that of the memory. Memory of a pool has none:
 * then the thread's current one, if it is one of the device, or else the primary one. */
static const struct context *writer_of(const struct allocation *a)
{
    if (a->context)
        return a->context;
    const struct context *current = mock_top();
    return current && current->device == a->device ? current : &contexts[2 * a->device];
}

static void write_later(void *memory, const void *from, size_t bytes)
{
    LOCKED();
    struct allocation *a = mock_allocation((uint64_t)(uintptr_t)memory);
    if (!a || bytes > a->bytes)
        abort();
    a->pending = map(a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memcpy(a->pending, from, bytes);
    a->writer = writer_of(a);
}

static void fail(const char *function, int nth, int result)
{
    LOCKED();
    mock_streams_forget(); /* a device that works again does no earlier work */
    failing = function;
    failing_in = nth;
    failing_with = result;
    for (int i = allocation_count - 1; mock_lost && i >= 0; i--)
        if (allocations[i].memory == allocations[i].alias)
            /* pages that nobody could unlock may now belong to another allocation */
            take_out(&allocations[i]);
    mock_lost = 0;
}

static int calls(const char *name)
{
    LOCKED();
    int sum = 0;
    for (int i = 0; i < FUNCTIONS_MAX && functions[i].name; i++)
        if (!name || strcmp(functions[i].name, name) == 0)
            sum += functions[i].calls;
    return sum;
}

static void set_current(int device)
{
    LOCKED();
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
    return mock_top() ? (int)(mock_top() - contexts) : -1;
}

static int retained(int device)
{
    return contexts[2 * device].uses;
}

static void shares(int has, int order)
{
    LOCKED();
    has_dma_buf = has;
    ordering = order;
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
    .read = mock_read,
    .registered = registered,
    .allocated = allocated,
    .stream = mock_stream,
    .write_on = mock_write_on,
    .await = mock_await,
    .capture = mock_capture,
    .capture_mode = mock_capture_mode,
    .queue = mock_queue,
    .one_queue = mock_one_queue,
    .blocked = mock_blocked,
    .delays = mock_delays,
    .lock_slowly = mock_lock_slowly,
    .hold = mock_hold,
    .mute = mock_mute,
    .pace = mock_pace,
    .fail_async = mock_fail_async,
    .shares = shares,
};
