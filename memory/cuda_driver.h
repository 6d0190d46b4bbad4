// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver library, libcuda.so.1, as a table of the functions that kolo calls. The build
// needs nothing of CUDA: the types and numbers here belong to the driver's ABI, which does not
// change while a symbol keeps its name. If there is a toolkit, tests/memory/test_cuda_abi.c
// compares them with its cuda.h.
#ifndef KOLO_MEMORY_CUDA_DRIVER_H
#define KOLO_MEMORY_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/** CUdeviceptr */
typedef uint64_t kolo_cuda_address;
/** CUipcMemHandle */
struct kolo_cuda_handle {
    char bytes[64];
};

enum { /* CUresult */
       KOLO_CUDA_SUCCESS = 0,
       KOLO_CUDA_INVALID_VALUE = 1,
       KOLO_CUDA_OUT_OF_MEMORY = 2,
       KOLO_CUDA_NOT_INITIALIZED = 3,
       KOLO_CUDA_STUB_LIBRARY = 34,
       KOLO_CUDA_DEVICE_UNAVAILABLE = 46,
       KOLO_CUDA_NO_DEVICE = 100,
       KOLO_CUDA_INVALID_IMAGE = 200,
       KOLO_CUDA_INVALID_CONTEXT = 201,
       KOLO_CUDA_NO_BINARY = 209,
       KOLO_CUDA_ECC_UNCORRECTABLE = 214,
       KOLO_CUDA_PEER_UNSUPPORTED = 217,
       KOLO_CUDA_NVLINK_UNCORRECTABLE = 220,
       KOLO_CUDA_UNSUPPORTED_PTX = 222,
       KOLO_CUDA_CONTAINED = 226,
       KOLO_CUDA_INVALID_HANDLE = 400,
       KOLO_CUDA_NOT_FOUND = 500,
       KOLO_CUDA_NOT_READY = 600,
       KOLO_CUDA_ILLEGAL_ADDRESS = 700,
       KOLO_CUDA_PEER_ALREADY_ENABLED = 704,
       KOLO_CUDA_CONTEXT_IS_DESTROYED = 709,
       KOLO_CUDA_ALREADY_REGISTERED = 712,
       KOLO_CUDA_LAUNCH_FAILED = 719,
       KOLO_CUDA_NOT_PERMITTED = 800,
       KOLO_CUDA_NOT_SUPPORTED = 801,
       KOLO_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
       KOLO_CUDA_STREAM_CAPTURE_UNSUPPORTED = 900,
       KOLO_CUDA_STREAM_CAPTURE_IMPLICIT = 906,
       KOLO_CUDA_CAPTURED_EVENT = 907,
       KOLO_CUDA_UNKNOWN = 999,
};

enum { /* CUpointer_attribute */
       KOLO_CUDA_POINTER_CONTEXT = 1,
       KOLO_CUDA_POINTER_MEMORY_TYPE = 2,
       KOLO_CUDA_POINTER_BUFFER_ID = 7,
       KOLO_CUDA_POINTER_IS_MANAGED = 8,
       KOLO_CUDA_POINTER_DEVICE_ORDINAL = 9,
       KOLO_CUDA_POINTER_IS_IPC_CAPABLE = 10,
       KOLO_CUDA_POINTER_RANGE_START = 11,
       KOLO_CUDA_POINTER_RANGE_BYTES = 12,
};

enum { /* CUmemorytype */
       KOLO_CUDA_MEMORY_HOST = 1,
       KOLO_CUDA_MEMORY_DEVICE = 2,
};

enum { /* flags, and CUdevice_attribute */
       KOLO_CUDA_STREAM_NON_BLOCKING = 1,
       KOLO_CUDA_EVENT_NO_TIMING = 2,
       KOLO_CUDA_REGISTER_PORTABLE = 1,
       KOLO_CUDA_REGISTER_MAPPED = 2,
       KOLO_CUDA_WAIT_GREATER = 0,
       KOLO_CUDA_WRITE_DEFAULT = 0,
       KOLO_CUDA_CAPTURE_NONE = 0,
       KOLO_CUDA_CAPTURE_MODE_RELAXED = 2,
       KOLO_CUDA_ATTRIBUTE_PROCESSORS = 16,
       KOLO_CUDA_ATTRIBUTE_WRITES_ORDERING = 118,
       KOLO_CUDA_ATTRIBUTE_WAITS_FOR_VALUES = 122,
       KOLO_CUDA_ATTRIBUTE_DMA_BUF = 124,
       KOLO_CUDA_WRITES_ORDERED_FOR_OWNER = 100,
       KOLO_CUDA_HANDLE_DMA_BUF = 1,
       KOLO_CUDA_IPC_LAZY_PEER_ACCESS = 1,
};

enum { /* CUstreamBatchMemOpType */
       KOLO_CUDA_WAIT_VALUE = 1,
       KOLO_CUDA_WRITE_VALUE = 2,
};

/** A wait for a value of 32 bits, or a write of one: CUstreamBatchMemOpParams. */
struct kolo_cuda_memory_op {
    int operation;
    kolo_cuda_address at;
    uint32_t value, unused;
    unsigned flags;
    uint64_t reserved[2];
};

// clang-format off
/** The functions that kolo calls: X(member, symbol, name in cuda.h, parameters). All return a
 * CUresult. */
#define KOLO_CUDA_FUNCTIONS(X)                                                                     \
    X(init,                    "cuInit",                 cuInit, (unsigned flags))                 \
    X(driver_get_version,      "cuDriverGetVersion",     cuDriverGetVersion, (int *version_out))   \
    X(get_error_name,          "cuGetErrorName",         cuGetErrorName,                           \
      (int result, const char **name_out))                                                         \
    X(device_get_count,        "cuDeviceGetCount",       cuDeviceGetCount, (int *count_out))       \
    X(device_get,              "cuDeviceGet",            cuDeviceGet,                              \
      (int *device_out, int ordinal))                                                              \
    X(device_get_name,         "cuDeviceGetName",        cuDeviceGetName,                          \
      (char *name_out, int bytes, int device))                                                     \
    X(device_get_pci,          "cuDeviceGetPCIBusId",    cuDeviceGetPCIBusId,                      \
      (char *name_out, int bytes, int device))                                                     \
    X(primary_context_retain,  "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain,               \
      (void **context_out, int device))                                                            \
    X(primary_context_release, "cuDevicePrimaryCtxRelease_v2", cuDevicePrimaryCtxRelease,          \
      (int device))                                                                                \
    X(context_get_current,     "cuCtxGetCurrent",        cuCtxGetCurrent, (void **context_out))    \
    X(context_get_device,      "cuCtxGetDevice",         cuCtxGetDevice, (int *device_out))        \
    X(context_push,            "cuCtxPushCurrent_v2",    cuCtxPushCurrent, (void *context))        \
    X(context_pop,             "cuCtxPopCurrent_v2",     cuCtxPopCurrent, (void **context_out))    \
    X(context_enable_peer,     "cuCtxEnablePeerAccess",  cuCtxEnablePeerAccess,                    \
      (void *context, unsigned flags))                                                             \
    X(context_synchronize,     "cuCtxSynchronize",       cuCtxSynchronize, (void))                 \
    X(pointer_get_attributes,  "cuPointerGetAttributes", cuPointerGetAttributes,                   \
      (unsigned count, int *attributes, void **values, kolo_cuda_address address))                 \
    X(copy_to_host,            "cuMemcpyDtoH_v2",        cuMemcpyDtoH,                             \
      (void *into, kolo_cuda_address from, size_t bytes))                                          \
    X(copy,                    "cuMemcpyAsync",          cuMemcpyAsync,                            \
      (kolo_cuda_address into, kolo_cuda_address from, size_t bytes, void *stream))                \
    X(alloc,                   "cuMemAlloc_v2",          cuMemAlloc,                               \
      (kolo_cuda_address *memory_out, size_t bytes))                                               \
    X(free,                    "cuMemFree_v2",           cuMemFree, (kolo_cuda_address memory))    \
    X(clear,                   "cuMemsetD8_v2",          cuMemsetD8,                               \
      (kolo_cuda_address memory, unsigned char value, size_t bytes))                               \
    X(host_register,           "cuMemHostRegister_v2",   cuMemHostRegister,                        \
      (void *memory, size_t bytes, unsigned flags))                                                \
    X(host_unregister,         "cuMemHostUnregister",    cuMemHostUnregister, (void *memory))      \
    X(host_get_address,        "cuMemHostGetDevicePointer_v2", cuMemHostGetDevicePointer,          \
      (kolo_cuda_address *address_out, void *memory, unsigned flags))                              \
    X(stream_create,           "cuStreamCreateWithPriority", cuStreamCreateWithPriority,           \
      (void **stream_out, unsigned flags, int priority))                                           \
    X(stream_destroy,          "cuStreamDestroy_v2",     cuStreamDestroy, (void *stream))          \
    X(stream_query,            "cuStreamQuery",          cuStreamQuery, (void *stream))            \
    X(stream_synchronize,      "cuStreamSynchronize",    cuStreamSynchronize, (void *stream))      \
    X(stream_get_context,      "cuStreamGetCtx",         cuStreamGetCtx,                           \
      (void *stream, void **context_out))                                                          \
    X(event_create,            "cuEventCreate",          cuEventCreate,                            \
      (void **event_out, unsigned flags))                                                          \
    X(event_destroy,           "cuEventDestroy_v2",      cuEventDestroy, (void *event))            \
    X(event_query,             "cuEventQuery",           cuEventQuery, (void *event))              \
    X(event_record,            "cuEventRecord",          cuEventRecord,                            \
      (void *event, void *stream))                                                                 \
    X(stream_wait_event,       "cuStreamWaitEvent",      cuStreamWaitEvent,                        \
      (void *stream, void *event, unsigned flags))                                                 \
    X(launch_host,             "cuLaunchHostFunc",       cuLaunchHostFunc,                         \
      (void *stream, void (*function)(void *), void *context))                                     \
    X(device_get_attribute,    "cuDeviceGetAttribute",   cuDeviceGetAttribute,                     \
      (int *value_out, int attribute, int device))                                                 \
    X(module_load,             "cuModuleLoadData",       cuModuleLoadData,                         \
      (void **module_out, const void *image))                                                      \
    X(module_unload,           "cuModuleUnload",         cuModuleUnload, (void *module))           \
    X(module_get_function,     "cuModuleGetFunction",    cuModuleGetFunction,                      \
      (void **function_out, void *module, const char *name))                                       \
    X(launch,                  "cuLaunchKernel",         cuLaunchKernel,                           \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, \
       void **extra))
/** Functions that may be missing (then NULL): in drivers before CUDA 12.5, in those for other
 * systems, or in a replacement for a driver in a sandbox. kolo works without each of them. */
#define KOLO_CUDA_LATER_FUNCTIONS(X)                                                               \
    X(context_get_priorities,  "cuCtxGetStreamPriorityRange", cuCtxGetStreamPriorityRange,         \
      (int *least_out, int *greatest_out))                                                         \
    X(stream_is_capturing,     "cuStreamIsCapturing",    cuStreamIsCapturing,                      \
      (void *stream, int *capture_out))                                                            \
    X(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode",                           \
      cuThreadExchangeStreamCaptureMode, (int *mode))                                              \
    X(ipc_get_handle,          "cuIpcGetMemHandle",      cuIpcGetMemHandle,                        \
      (struct kolo_cuda_handle *handle_out, kolo_cuda_address memory))                             \
    X(ipc_open_handle,         "cuIpcOpenMemHandle_v2",  cuIpcOpenMemHandle,                       \
      (kolo_cuda_address *memory_out, struct kolo_cuda_handle handle, unsigned flags))             \
    X(ipc_close_handle,        "cuIpcCloseMemHandle",    cuIpcCloseMemHandle,                      \
      (kolo_cuda_address memory))                                                                  \
    X(device_get_uuid,         "cuDeviceGetUuid_v2",     cuDeviceGetUuid,                          \
      (uint8_t *uuid_out, int device))                                                             \
    X(context_record_event, "cuCtxRecordEvent",       cuCtxRecordEvent,                         \
      (void *context, void *event))                                                                \
    X(stream_batch,            "cuStreamBatchMemOp_v2",  cuStreamBatchMemOp,                       \
      (void *stream, unsigned count, struct kolo_cuda_memory_op *operations, unsigned flags))      \
    X(function_load,           "cuFuncLoad",             cuFuncLoad, (void *function))             \
    X(get_handle,              "cuMemGetHandleForAddressRange", cuMemGetHandleForAddressRange,     \
      (void *handle_out, kolo_cuda_address at, size_t bytes, int type, unsigned long long flags))
// clang-format on

struct kolo_cuda_driver {
#define KOLO_CUDA_MEMBER(member, symbol, name, parameters) int(*member) parameters;
    KOLO_CUDA_FUNCTIONS(KOLO_CUDA_MEMBER)
    KOLO_CUDA_LATER_FUNCTIONS(KOLO_CUDA_MEMBER)
#undef KOLO_CUDA_MEMBER
    /* the first required function that is missing; NULL: none */
    const char *missing;
};

/** The driver, if this process has loaded it. NULL: it has not, or the library that it loaded
 * cannot tell what a pointer points to; that function and kolo_cuda_fail are always there. Before
 * using anything else, call kolo_cuda_driver_check. Loads nothing and calls nothing in the driver.
 * Takes some tens of nanoseconds, as long as no library has been loaded since the last call.
 * Threads: any. */
const struct kolo_cuda_driver *kolo_cuda_driver_loaded(void);
/** Checks that all required functions are there. ERR_UNSUPPORTED: one is missing; the detail names
 * it. */
kolo_status kolo_cuda_driver_check(const struct kolo_cuda_driver *driver) KOLO_NODISCARD;
/** Loads the driver if necessary, for the rest of the process.
 *  @return KOLO_OK; ERR_UNSUPPORTED (it is not there, or a function is missing: the detail says
 *  which). */
kolo_status kolo_cuda_driver_load(const struct kolo_cuda_driver **driver_out) KOLO_NODISCARD;
/** Whether this is the result of a call that the driver, the device or a sandbox does not support
 * at all, so that another way must be used. */
bool kolo_cuda_is_refusal(int result);
/** Whether this is the result of calls after the device, or work on it, has failed: then none of
 * its work is running any more, and none will. */
bool kolo_cuda_is_loss(int result);
/** Writes the detail of a call that failed: the name of the call, the device (below 0: none), the
 * result and its name, and advice.
 *  @return ERR_NO_MEMORY if the device has no memory, ERR_UNSUPPORTED while a stream is captured,
 *  else ERR_SYSTEM. */
kolo_status kolo_cuda_fail(const struct kolo_cuda_driver *driver, const char *call, int device,
                           int result);

#endif
