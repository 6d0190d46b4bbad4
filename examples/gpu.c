// SPDX-License-Identifier: Apache-2.0
// See gpu.h. The driver's functions have the same names and parameters in every version; those that
// were changed once have a number at the end of their name (_v2).
#include "gpu.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define FUNCTIONS(X)                                                                               \
    X(init,            "cuInit",                   (unsigned flags))                               \
    X(error_name,      "cuGetErrorName",           (int result, const char **name_out))            \
    X(device_count,    "cuDeviceGetCount",         (int *count_out))                               \
    X(device_get,      "cuDeviceGet",              (int *device_out, int number))                  \
    X(device_name,     "cuDeviceGetName",          (char *name_out, int bytes, int device))        \
    X(context_retain,  "cuDevicePrimaryCtxRetain", (void **context_out, int device))               \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
    X(context_push,    "cuCtxPushCurrent_v2",      (void *context))                                \
    X(context_pop,     "cuCtxPopCurrent_v2",       (void **context_out))                           \
    X(module_load,     "cuModuleLoadData",         (void **module_out, const void *image))         \
    X(module_unload,   "cuModuleUnload",           (void *module))                                 \
    X(module_function, "cuModuleGetFunction",                                                      \
      (void **function_out, void *module, const char *name))                                       \
    X(stream_create,   "cuStreamCreate",           (void **stream_out, unsigned flags))            \
    X(stream_destroy,  "cuStreamDestroy_v2",       (void *stream))                                 \
    X(stream_wait,     "cuStreamSynchronize",      (void *stream))                                 \
    X(copy,            "cuMemcpyAsync",                                                            \
      (uint64_t into, uint64_t from, size_t bytes, void *stream))                                  \
    X(launch,          "cuLaunchKernel",                                                           \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, \
       void **extra))
// clang-format on

struct gpu {
#define MEMBER(member, symbol, parameters) int(*member) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
    void *library, *context, *module, *stream;
    int device, number;
    char name[128], error[GPU_ERROR_MAX];
};

/* The first failure is the one that is reported. */
__attribute__((format(printf, 2, 3))) static bool fail(struct gpu *gpu, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!gpu->error[0])
        vsnprintf(gpu->error, sizeof gpu->error, format, arguments);
    va_end(arguments);
    return false;
}

static bool judge(struct gpu *gpu, const char *call, int result)
{
    const char *name = NULL;
    if (result == 0)
        return !gpu->error[0];
    if (gpu->error_name(result, &name) != 0 || !name)
        name = "CUDA error";
    return fail(gpu, "%s on GPU %d: %s (%d); see nvidia-smi and the kernel's log", call,
                gpu->number, name, result);
}

static bool load_driver(struct gpu *gpu)
{
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
#define ENTRY(member, symbol, parameters) {symbol, offsetof(struct gpu, member)},
        FUNCTIONS(ENTRY)
#undef ENTRY
    };
    gpu->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!gpu->library)
        return fail(gpu, "there is no NVIDIA driver: %s", dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(gpu->library, symbols[i].name);
        if (!found)
            return fail(gpu, "libcuda.so.1 has no %s; update the driver", symbols[i].name);
        memcpy((char *)gpu + symbols[i].offset, &found, sizeof found);
    }
    return true;
}

static bool take_device(struct gpu *gpu, int wanted)
{
    int count = 0;
    if (!judge(gpu, "cuInit", gpu->init(0)) ||
        !judge(gpu, "cuDeviceGetCount", gpu->device_count(&count)))
        return false;
    if (count < 1)
        return fail(gpu, "there is no GPU, or CUDA_VISIBLE_DEVICES hides it");
    gpu->number = wanted % count;
    if (!judge(gpu, "cuDeviceGet", gpu->device_get(&gpu->device, gpu->number)) ||
        !judge(gpu, "cuDeviceGetName",
               gpu->device_name(gpu->name, (int)sizeof gpu->name - 1, gpu->device)))
        return false;
    void *context = NULL;
    if (!judge(gpu, "cuDevicePrimaryCtxRetain", gpu->context_retain(&context, gpu->device)))
        return false;
    gpu->context = context;
    return judge(gpu, "cuCtxPushCurrent", gpu->context_push(context));
}

bool gpu_open(struct gpu **gpu_out, int wanted, const void *image, char error[GPU_ERROR_MAX])
{
    enum { NON_BLOCKING = 1 }; /* does not wait for the stream that every program has */
    struct gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu) {
        snprintf(error, GPU_ERROR_MAX, "out of memory");
        return false;
    }
    if (load_driver(gpu) && take_device(gpu, wanted) &&
        judge(gpu, "cuModuleLoadData", gpu->module_load(&gpu->module, image)) &&
        judge(gpu, "cuStreamCreate", gpu->stream_create(&gpu->stream, NON_BLOCKING))) {
        *gpu_out = gpu;
        return true;
    }
    snprintf(error, GPU_ERROR_MAX, "%s", gpu->error);
    gpu_close(gpu);
    return false;
}

/* The library stays loaded: kolo may be using it. */
void gpu_close(struct gpu *gpu)
{
    void *popped;
    if (!gpu)
        return;
    if (gpu->stream)
        (void)gpu->stream_destroy(gpu->stream);
    if (gpu->module)
        (void)gpu->module_unload(gpu->module);
    if (gpu->context) {
        (void)gpu->context_pop(&popped);
        (void)gpu->context_release(gpu->device);
    }
    free(gpu);
}

const char *gpu_name(const struct gpu *gpu)
{
    return gpu->name;
}

int gpu_number(const struct gpu *gpu)
{
    return gpu->number;
}

void *gpu_stream(const struct gpu *gpu)
{
    return gpu->stream;
}

const char *gpu_error(const struct gpu *gpu)
{
    return gpu->error;
}

bool gpu_kernel(struct gpu *gpu, const char *name, void **kernel_out)
{
    return judge(gpu, "cuModuleGetFunction", gpu->module_function(kernel_out, gpu->module, name));
}

bool gpu_copy(struct gpu *gpu, void *into, const void *from, size_t bytes)
{
    return judge(gpu, "cuMemcpyAsync",
                 gpu->copy((uintptr_t)into, (uintptr_t)from, bytes, gpu->stream));
}

bool gpu_launch(struct gpu *gpu, void *kernel, size_t threads, void **parameters)
{
    const unsigned blocks = (unsigned)((threads + GPU_BLOCK - 1) / GPU_BLOCK);
    return judge(
        gpu, "cuLaunchKernel",
        gpu->launch(kernel, blocks, 1, 1, GPU_BLOCK, 1, 1, 0, gpu->stream, parameters, NULL));
}

bool gpu_wait(struct gpu *gpu)
{
    return judge(gpu, "cuStreamSynchronize", gpu->stream_wait(gpu->stream));
}
