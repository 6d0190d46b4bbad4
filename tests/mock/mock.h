// SPDX-License-Identifier: Apache-2.0
// What the files of the tests' libcuda.so.1 share. One lock guards all of it; what a stream does it
// does without the lock, so that a sanitizer sees who touches memory meanwhile.
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
    int device, uses;      /* 0: there is none */
    unsigned bit, reaches; /* its own, and those of others whose memory it reaches, too */
};

struct allocation {
    enum mock_kind kind;
    struct context *context; /* NULL: none */
    int device;
    size_t bytes;
    int fd;            /* of its memory; -1: none */
    bool is_asked_for; /* by cuMemAlloc */
    unsigned long long id;
    uint8_t *memory;  /* the program's address */
    uint8_t *alias;   /* the same, for the mock */
    uint8_t *pending; /* what a stream will have written; NULL: nothing */
    int opens;        /* how often another process's was mapped; 0: it is this process's */
    int owner;        /* that process, and */
    unsigned long long owner_id; /* the id there */
};

extern pthread_mutex_t mock_lock;
extern int mock_lost; /* what every call returns from here on; 0: all is well */
/* This thread runs a function of the host's for a stream, which may not call the driver. */
extern _Thread_local bool mock_is_called;

/** Counts a call; what it is to return, or 0 to go on. */
int mock_enter(const char *name);
struct context *mock_top(void);
/** The primary context of a device, once more in use. */
struct context *mock_primary(int device);
/** NULL: it is none of the driver's. */
struct allocation *mock_allocation(uint64_t address);
bool mock_within(const struct allocation *a, uint64_t address, size_t bytes);
/** What is written later is written. Held: lock. */
void mock_write_pending(const struct context *context);
/** Where the mock reads and writes it; NULL: it leaves its allocation. */
uint8_t *mock_place(uint64_t address, size_t bytes);

static inline void mock_unlock(pthread_mutex_t **lock)
{
    (void)pthread_mutex_unlock(*lock);
}

/** Until the end of the block. */
#define LOCKED()                                                                                   \
    __attribute__((cleanup(mock_unlock), unused)) pthread_mutex_t *locked_ = &mock_lock;           \
    (void)pthread_mutex_lock(locked_)
/** The same, and the call's return if it is to fail. */
#define ENTER()                                                                                    \
    LOCKED();                                                                                      \
    do {                                                                                           \
        int entered = mock_enter(__func__);                                                        \
        if (entered != KOLO_CUDA_SUCCESS)                                                          \
            return entered;                                                                        \
    } while (0)

// What cuda.h calls by another name than the symbol.
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
/* The library never calls it, programs do. */
DECLARE(, , cuMemAllocManaged, (uint64_t * memory_out, size_t bytes, unsigned flags))
#undef DECLARE

/** All; behind the last one of no bytes. */
struct allocation *mock_allocations(void);
/** A new one of what is in @p fd. */
struct allocation *mock_add(enum mock_kind kind, int device, size_t bytes, int fd);
/** Ends the process if a stream still has to use it. */
void mock_take_out_unused(struct allocation *a);
/** Do kernels of @p context reach what is at @p address? */
bool mock_reaches(const struct context *context, uint64_t address);

/* ---- peers.c ---- */

/** The file of an allocation. */
int mock_file_create(unsigned long long id);
bool mock_is_ipc_capable(const struct allocation *a);
bool mock_is_mapped_elsewhere(const struct allocation *a);

/* ---- streams.c ---- */

/** Until all streams of @p context have nothing left, or the device is lost. Held: lock. */
void mock_streams_wait(const struct context *context);
/** Spoils captures of streams of @p context (NULL: of all), if @p is_global those alone whose mode
 * is that. False: there is none. Held: lock. */
bool mock_streams_spoil(const struct context *context, bool is_global);
/** Does a capture of some thread's forbid the call? Held: lock. */
bool mock_is_refused(const char *name);
/** The device is lost, once nothing is being copied. Held: lock, which it gives up meanwhile. */
void mock_lose(int result);
/** They do nothing more, and close. Held: lock. */
void mock_streams_end(void);
/** Of a device that is lost: until all streams have dropped what they were given. Held: lock. */
void mock_streams_forget(void);
/** Is a copy or a kernel of the library's that touches it still to be done? Held: lock. */
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

/** A thread that is waited for when the process ends. Held: lock. */
void mock_thread_start(void *(*run)(void *argument), void *argument);
/** The last of the calling one, before it gives the lock up. Held: lock. */
void mock_thread_over(void);

/* ---- kernels.c ---- */

struct mock_kernel {
    const char *name;
    void (*run)(void);
    const struct mock_program_kernel *program; /* NULL: it is the library's */
    bool is_loaded;
};
/** NULL: there is none of that name. */
struct mock_kernel *mock_kernel_named(const char *name);
/** All of the library's, until one without a name. */
struct mock_kernel *mock_kernels(void);
/** Runs it thread by thread. */
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
/** False: it has too many parameters. */
bool mock_program_take(struct mock_launch *launch, const struct mock_program_kernel *kernel,
                       unsigned blocks, unsigned block_threads, void **parameters);
/** False: an address is none of the driver's. Held: lock. */
bool mock_program_resolve(struct mock_launch *launch);
void mock_program_run(const struct mock_launch *launch);

#endif
