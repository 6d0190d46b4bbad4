// SPDX-License-Identifier: Apache-2.0
// What the files of the tests' libcuda.so.1 share. One lock guards everything. A stream does its
// work without the lock, so that a sanitizer sees who accesses memory at the same time.
#ifndef KOLO_TESTS_MOCK_MOCK_H
#define KOLO_TESTS_MOCK_MOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/cuda_driver.h"
#include "memory/cuda_job.h"
#include "tests/mock/program.h"
#include "tests/support/mock_cuda.h"

enum { ALLOCATIONS_MAX = 4096, MOCK_MEMORY = 1 << 30 };

struct context {
    int device, uses;      /* uses 0: the context does not exist */
    unsigned bit, reaches; /* its own bit; the bits of other contexts whose memory it reaches */
};

struct allocation {
    enum mock_kind kind;
    struct context *context; /* NULL: none */
    int device;
    size_t bytes;
    int fd;            /* memfd with its memory; -1: none */
    bool is_asked_for; /* allocated by cuMemAlloc */
    unsigned long long id;
    uint8_t *memory;              /* the program's address */
    uint8_t *alias;               /* the same memory where the mock accesses it */
    uint8_t *pending;             /* what a stream will have written; NULL: nothing */
    const struct context *writer; /* of that stream */
    int opens; /* if it is another process's memory, how often it is mapped; else 0 */
    int owner; /* that process */
    unsigned long long owner_id; /* its id there */
};

extern pthread_mutex_t mock_lock;
extern int mock_lost; /* what every call returns from now on; 0: no device is lost */
/* This thread runs a host function for a stream, which must not call the driver. */
extern _Thread_local bool mock_is_called;

/** Counts a call. Returns its failure, or 0 to go on. */
int mock_enter(const char *name);
struct context *mock_top(void);
/** The primary context of a device; its count of uses increases. */
struct context *mock_primary(int device);
/** NULL: it is not memory of the driver. */
struct allocation *mock_allocation(uint64_t address);
bool mock_within(const struct allocation *a, uint64_t address, size_t bytes);
/** Performs writes that were deferred by write_later. Held: lock. */
void mock_write_pending(const struct context *context);
/** Where the mock accesses that memory; NULL if the range leaves its allocation. */
uint8_t *mock_place(uint64_t address, size_t bytes);

static inline void mock_unlock(pthread_mutex_t **lock)
{
    (void)pthread_mutex_unlock(*lock);
}

/** Holds the lock until the end of the block. */
#define LOCKED()                                                                                   \
    __attribute__((cleanup(mock_unlock), unused)) pthread_mutex_t *locked_ = &mock_lock;           \
    (void)pthread_mutex_lock(locked_)
/** The same; also returns from the function if the call is to fail. */
#define ENTER()                                                                                    \
    LOCKED();                                                                                      \
    do {                                                                                           \
        int entered = mock_enter(__func__);                                                        \
        if (entered != KOLO_CUDA_SUCCESS)                                                          \
            return entered;                                                                        \
    } while (0)

// cuda.h maps these names to other symbols.
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemsetD8 cuMemsetD8_v2
#define cuMemHostRegister cuMemHostRegister_v2
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamBatchMemOp cuStreamBatchMemOp_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
#define DECLARE(member, symbol, name, parameters)                                                  \
    int name parameters __attribute__((visibility("default")));
KOLO_CUDA_FUNCTIONS(DECLARE)
KOLO_CUDA_LATER_FUNCTIONS(DECLARE)
/* Called by programs, never by the library. */
DECLARE(, , cuMemAllocManaged, (uint64_t * memory_out, size_t bytes, unsigned flags))
DECLARE(, , cuMemAllocAsync, (uint64_t * memory_out, size_t bytes, void *stream))
DECLARE(, , cuCtxCreate_v2, (void **context_out, unsigned flags, int device))
#undef DECLARE

/** All allocations; after the last one comes one of 0 bytes. */
struct allocation *mock_allocations(void);
/** Adds an allocation for the memory in @p fd. */
struct allocation *mock_add(enum mock_kind kind, int device, size_t bytes, int fd);
/** Ends the process if a stream still has to use it. */
void mock_take_out_unused(struct allocation *a);
/** Whether kernels of @p context reach the memory at @p address. */
bool mock_reaches(const struct context *context, uint64_t address);

/* ---- timed.c ---- */

/** Whether copies only take time. Held: lock, as in the next two. */
bool mock_is_timed(void);
/** Takes as long as a call. */
void mock_timed_call(void);
/** Returns when a copy is done that begins at @p after or later, both as of kolo_now_ns(). */
int64_t mock_timed_copy(int64_t after, bool is_in, size_t bytes);

/* ---- peers.c ---- */

/** Creates the file of an allocation. */
int mock_file_create(unsigned long long id);
bool mock_is_ipc_capable(const struct allocation *a);
bool mock_is_mapped_elsewhere(const struct allocation *a);

/* ---- streams.c ---- */

/** Waits until all streams of @p context are idle, or the device is lost. Held: lock. */
void mock_streams_wait(const struct context *context);
/** With MOCK_CUDA_ALONE set, does what the real driver (580) does when it frees, unmaps, unlocks or
 * loads something: waits for all streams of @p context, and meanwhile lets no other thread into the
 * driver. Held: lock. */
void mock_streams_wait_alone(const struct context *context);
/** Waits while another thread is in such a call. Held: lock. */
void mock_admit(void);
/** Invalidates captures on streams of @p context (NULL: of all), with @p is_global only captures in
 * global mode. False: there is none. Held: lock. */
bool mock_streams_spoil(const struct context *context, bool is_global);
/** Whether a capture, of any thread, forbids the call. Held: lock. */
bool mock_is_refused(const char *name);
/** Loses the device, once nothing is being copied. Held: lock; released while waiting. */
void mock_lose(int result);
/** Ends and closes all streams, which do no more work. Held: lock. */
void mock_streams_end(void);
/** For a lost device: waits until all streams have dropped their work. Held: lock. */
void mock_streams_forget(void);
/** Whether a copy, or a kernel of the library, that accesses it is still to be done. Held: lock. */
bool mock_streams_use(const struct allocation *a);
void *mock_stream(int device);
void mock_write_on(void *stream, void *memory, const void *from, size_t bytes);
void mock_await(void *stream, const void *memory, unsigned value);
int mock_capture(void *stream, enum mock_capture capture);
int mock_capture_mode(void);
void mock_queue(int most);
void mock_one_queue(int is_one);
int mock_blocked(void);
void mock_delays(unsigned seed, int most_us);
void mock_hold(int held);
void mock_mute(int muted);
void mock_pace(int most);
void mock_fail_async(int nth, int result);

/* ---- threads.c ---- */

/** Starts a thread that is joined when the process ends. Held: lock. */
void mock_thread_start(void *(*run)(void *argument), void *argument);
/** The last call of such a thread, before it releases the lock. Held: lock. */
void mock_thread_over(void);

/* ---- kernels.c ---- */

struct mock_kernel {
    const char *name;
    void (*run)(void);
    const struct mock_program_kernel *program; /* NULL: a kernel of the library */
    bool is_loaded;
};
/** NULL: there is none of that name. */
struct mock_kernel *mock_kernel_named(const char *name);
/** All kernels of the library; after the last one comes one without a name. */
struct mock_kernel *mock_kernels(void);
/** Runs it, one thread after the other. */
void mock_kernel_run(const struct mock_kernel *kernel, const struct kolo_cuda_job *given,
                     uint64_t threads);

/* ---- programs.c ---- */

struct mock_launch {
    const struct mock_program_kernel *kernel;
    unsigned blocks, block_threads;
    union mock_parameter parameters[MOCK_PARAMETERS_MAX];
};
/** NULL: there is none of that name. */
struct mock_kernel *mock_program_kernel_named(const char *name);
/** Copies the parameters of a launch. False: the kernel has too many. */
bool mock_program_take(struct mock_launch *launch, const struct mock_program_kernel *kernel,
                       unsigned blocks, unsigned block_threads, void **parameters);
/** Translates addresses to the mock's. False: one is not the driver's. Held: lock. */
bool mock_program_resolve(struct mock_launch *launch);
void mock_program_run(const struct mock_launch *launch);

#endif
