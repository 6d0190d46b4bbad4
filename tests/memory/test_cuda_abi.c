// SPDX-License-Identifier: Apache-2.0
// Compares the driver's ABI as memory/cuda_driver.h declares it with the toolkit's own header.
#include <criterion/criterion.h>
#include <cuda.h>

#include "memory/cuda_driver.h"
#include "memory/memory.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(KOLO_CUDA_SUCCESS, CUDA_SUCCESS);
SAME(KOLO_CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(KOLO_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(KOLO_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(KOLO_CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(KOLO_CUDA_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(KOLO_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(KOLO_CUDA_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(KOLO_CUDA_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(KOLO_CUDA_UNSUPPORTED_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(KOLO_CUDA_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(KOLO_CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(KOLO_CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(KOLO_CUDA_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(KOLO_CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(KOLO_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(KOLO_CUDA_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(KOLO_CUDA_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(KOLO_CUDA_REGISTER_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(KOLO_CUDA_WAIT_GREATER, CU_STREAM_WAIT_VALUE_GEQ);
SAME(KOLO_CUDA_WRITE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(KOLO_CUDA_WAIT_VALUE, CU_STREAM_MEM_OP_WAIT_VALUE_32);
SAME(KOLO_CUDA_WRITE_VALUE, CU_STREAM_MEM_OP_WRITE_VALUE_32);
SAME(KOLO_CUDA_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(KOLO_CUDA_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(KOLO_CUDA_ATTRIBUTE_PROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(KOLO_CUDA_ATTRIBUTE_WAITS_FOR_VALUES, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SAME(KOLO_CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(KOLO_CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(KOLO_CUDA_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(KOLO_CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(KOLO_CUDA_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(KOLO_CUDA_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(KOLO_CUDA_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT);
SAME(KOLO_CUDA_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(KOLO_CUDA_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(KOLO_CUDA_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(KOLO_CUDA_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(KOLO_CUDA_POINTER_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(KOLO_CUDA_POINTER_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(KOLO_CUDA_POINTER_RANGE_BYTES, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(KOLO_CUDA_ATTRIBUTE_WRITES_ORDERING, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
SAME(KOLO_CUDA_ATTRIBUTE_DMA_BUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
SAME(KOLO_CUDA_WRITES_ORDERED_FOR_OWNER, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
SAME(KOLO_CUDA_HANDLE_DMA_BUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(KOLO_CUDA_PEER_UNSUPPORTED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME(KOLO_CUDA_PEER_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(KOLO_CUDA_POINTER_IS_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(KOLO_CUDA_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(KOLO_CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(KOLO_CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);

_Static_assert(sizeof(kolo_cuda_address) == sizeof(CUdeviceptr), "CUdeviceptr");
_Static_assert(sizeof(int) == sizeof(CUresult) && sizeof(int) == sizeof(CUdevice) &&
                   sizeof(int) == sizeof(CUpointer_attribute) &&
                   sizeof(int) == sizeof(CUmemorytype),
               "what is passed as int");
_Static_assert(sizeof(void *) == sizeof(CUcontext), "CUcontext");
_Static_assert(sizeof(struct kolo_cuda_handle) == sizeof(CUipcMemHandle) &&
                   _Alignof(struct kolo_cuda_handle) == _Alignof(CUipcMemHandle),
               "CUipcMemHandle");

#define SAME_PLACE(member, theirs)                                                                 \
    _Static_assert(offsetof(struct kolo_cuda_memory_op, member) ==                                 \
                           offsetof(CUstreamBatchMemOpParams, waitValue.theirs) &&                 \
                       offsetof(struct kolo_cuda_memory_op, member) ==                             \
                           offsetof(CUstreamBatchMemOpParams, writeValue.theirs),                  \
                   #member)
SAME_PLACE(operation, operation);
SAME_PLACE(at, address);
SAME_PLACE(value, value);
SAME_PLACE(flags, flags);
_Static_assert(sizeof(struct kolo_cuda_memory_op) == sizeof(CUstreamBatchMemOpParams),
               "CUstreamBatchMemOpParams");
_Static_assert(sizeof(CUuuid) == sizeof((struct kolo_loan){0}.device), "CUuuid");

/* Checks the numbers and types of arguments: each call of our declaration is made with the
 * arguments of theirs. */
enum {
    CALLS =
        sizeof(cuInit(0u)) + sizeof(cuDriverGetVersion((int *)0)) +
        sizeof(cuGetErrorName(CUDA_SUCCESS, (const char **)0)) +
        sizeof(cuDeviceGetCount((int *)0)) + sizeof(cuDeviceGet((int *)0, 0)) +
        sizeof(cuDeviceGetName((char *)0, 0, 0)) + sizeof(cuDeviceGetPCIBusId((char *)0, 0, 0)) +
        sizeof(cuDeviceGetUuid((CUuuid *)0, 0)) +
        sizeof(cuDevicePrimaryCtxRetain((CUcontext *)0, 0)) + sizeof(cuDevicePrimaryCtxRelease(0)) +
        sizeof(cuCtxGetCurrent((CUcontext *)0)) + sizeof(cuCtxGetDevice((int *)0)) +
        sizeof(cuCtxPushCurrent((CUcontext)0)) + sizeof(cuCtxPopCurrent((CUcontext *)0)) +
        sizeof(cuCtxSynchronize()) + sizeof(cuCtxRecordEvent((CUcontext)0, (CUevent)0)) +
        sizeof(cuPointerGetAttributes(0u, (CUpointer_attribute *)0, (void **)0,
                                      (kolo_cuda_address)0)) +
        sizeof(cuMemcpyDtoH((void *)0, (kolo_cuda_address)0, (size_t)0)) +
        sizeof(cuMemcpyAsync((kolo_cuda_address)0, (kolo_cuda_address)0, (size_t)0, (CUstream)0)) +
        sizeof(cuMemAlloc((CUdeviceptr *)0, (size_t)0)) + sizeof(cuMemFree((kolo_cuda_address)0)) +
        sizeof(cuMemsetD8((kolo_cuda_address)0, (unsigned char)0, (size_t)0)) +
        sizeof(cuMemHostRegister((void *)0, (size_t)0, 0u)) +
        sizeof(cuMemHostUnregister((void *)0)) +
        sizeof(cuStreamCreateWithPriority((CUstream *)0, 0u, 0)) +
        sizeof(cuCtxGetStreamPriorityRange((int *)0, (int *)0)) +
        sizeof(cuStreamDestroy((CUstream)0)) + sizeof(cuStreamQuery((CUstream)0)) +
        sizeof(cuStreamSynchronize((CUstream)0)) +
        sizeof(cuStreamIsCapturing((CUstream)0, (CUstreamCaptureStatus *)0)) +
        sizeof(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)0)) +
        sizeof(cuStreamBatchMemOp((CUstream)0, 0u, (CUstreamBatchMemOpParams *)0, 0u)) +
        sizeof(cuEventCreate((CUevent *)0, 0u)) + sizeof(cuEventDestroy((CUevent)0)) +
        sizeof(cuEventQuery((CUevent)0)) + sizeof(cuEventRecord((CUevent)0, (CUstream)0)) +
        sizeof(cuStreamWaitEvent((CUstream)0, (CUevent)0, 0u)) +
        sizeof(cuLaunchHostFunc((CUstream)0, (CUhostFn)0, (void *)0)) +
        sizeof(cuDeviceGetAttribute((int *)0, (CUdevice_attribute)0, 0)) +
        sizeof(cuModuleLoadData((CUmodule *)0, (const void *)0)) +
        sizeof(cuMemGetHandleForAddressRange((void *)0, (CUdeviceptr)0, (size_t)0,
                                             (CUmemRangeHandleType)0, 0ull)) +
        sizeof(cuModuleUnload((CUmodule)0)) + sizeof(cuCtxEnablePeerAccess((CUcontext)0, 0u)) +
        sizeof(cuIpcGetMemHandle((CUipcMemHandle *)0, (CUdeviceptr)0)) +
        sizeof(cuIpcOpenMemHandle((CUdeviceptr *)0, (CUipcMemHandle){{0}}, 0u)) +
        sizeof(cuIpcCloseMemHandle((CUdeviceptr)0)) +
        sizeof(cuModuleGetFunction((CUfunction *)0, (CUmodule)0, (const char *)0)) +
        sizeof(cuFuncLoad((CUfunction)0)) + sizeof(cuStreamGetCtx((CUstream)0, (CUcontext *)0)) +
        sizeof(cuLaunchKernel((CUfunction)0, 0u, 0u, 0u, 0u, 0u, 0u, 0u, (CUstream)0, (void **)0,
                              (void **)0))
};

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

Test(cuda_abi, symbols_are_those_that_the_header_leads_to)
{
    /* cuda.h maps names to the ABI versions that its prototypes describe */
#define CHECK(member, symbol, name, parameters) cr_expect_str_eq(symbol, TEXT(name));
    KOLO_CUDA_FUNCTIONS(CHECK)
    KOLO_CUDA_LATER_FUNCTIONS(CHECK)
    cr_assert_gt((int)CALLS, 0);
}
