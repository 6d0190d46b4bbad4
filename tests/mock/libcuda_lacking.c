// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 that takes every pointer for device memory, but lacks the functions to copy from
// it.
#include "memory/cuda_driver.h"

#pragma GCC visibility push(default)
int cuGetErrorName(int result, const char **name_out);
int cuPointerGetAttributes(unsigned count, int *attributes, void **values, uint64_t address);
#pragma GCC visibility pop

int cuGetErrorName(int result, const char **name_out)
{
    *name_out = "CUDA_ERROR";
    return result == KOLO_CUDA_SUCCESS ? KOLO_CUDA_INVALID_VALUE : KOLO_CUDA_SUCCESS;
}

int cuPointerGetAttributes(unsigned count, int *attributes, void **values, uint64_t address)
{
    for (unsigned i = 0; i < count && address != 0; i++)
        if (attributes[i] == KOLO_CUDA_POINTER_MEMORY_TYPE)
            *(unsigned *)values[i] = KOLO_CUDA_MEMORY_DEVICE;
        else if (attributes[i] == KOLO_CUDA_POINTER_DEVICE_ORDINAL)
            *(int *)values[i] = 0;
        else if (attributes[i] == KOLO_CUDA_POINTER_CONTEXT)
            *(void **)values[i] = values;
    return KOLO_CUDA_SUCCESS;
}
