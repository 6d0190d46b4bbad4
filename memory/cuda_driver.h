// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver library, libcuda.so.1, as a table of the functions that kolo calls. Nothing of
// CUDA is needed to build: the types and numbers here are facts of the driver's ABI, which does not
// change under a symbol's name; where there is a toolkit, tests/memory/test_cuda_abi.c holds them
// against its cuda.h.
#ifndef KOLO_MEMORY_CUDA_DRIVER_H
#define KOLO_MEMORY_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/** CUdeviceptr */
typedef uint64_t kolo_cuda_address;

enum { /* CUresult */
       KOLO_CUDA_SUCCESS = 0,
       KOLO_CUDA_INVALID_VALUE = 1,
       KOLO_CUDA_OUT_OF_MEMORY = 2,
       KOLO_CUDA_NOT_INITIALIZED = 3,
       KOLO_CUDA_STUB_LIBRARY = 34,
       KOLO_CUDA_NO_DEVICE = 100,
       KOLO_CUDA_INVALID_CONTEXT = 201,
       KOLO_CUDA_ILLEGAL_ADDRESS = 700,
       KOLO_CUDA_CONTEXT_IS_DESTROYED = 709,
       KOLO_CUDA_LAUNCH_FAILED = 719,
       KOLO_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
       KOLO_CUDA_STREAM_CAPTURE_UNSUPPORTED = 900,
       KOLO_CUDA_CAPTURED_EVENT = 907,
};

enum { /* CUpointer_attribute */
       KOLO_CUDA_POINTER_CONTEXT = 1,
       KOLO_CUDA_POINTER_MEMORY_TYPE = 2,
       KOLO_CUDA_POINTER_IS_MANAGED = 8,
       KOLO_CUDA_POINTER_DEVICE_ORDINAL = 9,
};

enum { /* CUmemorytype */
       KOLO_CUDA_MEMORY_HOST = 1,
       KOLO_CUDA_MEMORY_DEVICE = 2,
};

// clang-format off
/** What kolo calls: X(member, symbol, what cuda.h calls it, parameters). All return a CUresult. */
#define KOLO_CUDA_FUNCTIONS(X)                                                                     \
    X(init,                    "cuInit",                 cuInit, (unsigned flags))                 \
    X(driver_get_version,      "cuDriverGetVersion",     cuDriverGetVersion, (int *version_out))   \
    X(get_error_name,          "cuGetErrorName",         cuGetErrorName,                           \
      (int result, const char **name_out))                                                         \
    X(device_get_count,        "cuDeviceGetCount",       cuDeviceGetCount, (int *count_out))       \
    X(device_get,              "cuDeviceGet",            cuDeviceGet, (int *device_out, int ordinal)) \
    X(device_get_name,         "cuDeviceGetName",        cuDeviceGetName,                          \
      (char *name_out, int bytes, int device))                                                     \
    X(primary_context_retain,  "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain,               \
      (void **context_out, int device))                                                            \
    X(primary_context_release, "cuDevicePrimaryCtxRelease_v2", cuDevicePrimaryCtxRelease, (int device)) \
    X(context_get_current,     "cuCtxGetCurrent",        cuCtxGetCurrent, (void **context_out))    \
    X(context_get_device,      "cuCtxGetDevice",         cuCtxGetDevice, (int *device_out))        \
    X(context_push,            "cuCtxPushCurrent_v2",    cuCtxPushCurrent, (void *context))        \
    X(context_pop,             "cuCtxPopCurrent_v2",     cuCtxPopCurrent, (void **context_out))    \
    X(context_synchronize,     "cuCtxSynchronize",       cuCtxSynchronize, (void))                 \
    X(pointer_get_attributes,  "cuPointerGetAttributes", cuPointerGetAttributes,                   \
      (unsigned count, int *attributes, void **values, kolo_cuda_address address))                 \
    X(copy_to_host,            "cuMemcpyDtoH_v2",        cuMemcpyDtoH,                             \
      (void *into, kolo_cuda_address from, size_t bytes))
// clang-format on

struct kolo_cuda_driver {
#define KOLO_CUDA_MEMBER(member, symbol, name, parameters) int(*member) parameters;
    KOLO_CUDA_FUNCTIONS(KOLO_CUDA_MEMBER)
#undef KOLO_CUDA_MEMBER
};

/** The driver, if this process has loaded it; NULL: it has not, or what it has loaded lacks a
 * function. Loads nothing and tells the driver nothing; for as long as no library at all has been
 * loaded since the last call it costs some tens of nanoseconds. Threads: any. */
const struct kolo_cuda_driver *kolo_cuda_driver_loaded(void);
/** The driver, loaded if need be, for the rest of the process.
 * @return KOLO_OK; ERR_UNSUPPORTED (it is not there, or lacks a function: the detail says which). */
kolo_status kolo_cuda_driver_load(const struct kolo_cuda_driver **driver_out) KOLO_NODISCARD;
/** Writes the detail of a call that failed: its name, the device (below 0: none), the result with its
 * name, and what to do.
 * @return ERR_NO_MEMORY for that, else ERR_SYSTEM. */
kolo_status kolo_cuda_fail(const struct kolo_cuda_driver *driver, const char *call, int device,
                           int result);

#endif
