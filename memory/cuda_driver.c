// SPDX-License-Identifier: Apache-2.0
// Finds the driver at run time. Owns the one table of its functions, and the handle of the library,
// which stays open for the rest of the process. Must never load the driver unless asked:
// kolo_cuda_driver_loaded() alone adds nothing of CUDA to the process.
//
// A pointer can point into device memory only if something has loaded libcuda.so.1. Asking the
// loader for the library (RTLD_NOLOAD) searches its path, which is far too slow for every call with
// an array. But the loader counts the libraries that it has loaded, and returns that count in tens
// of nanoseconds (dl_iterate_phdr): while the count is the same, so is the last answer.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "memory/cuda_driver.h"

static const char library[] = "libcuda.so.1";

static struct kolo_cuda_driver table; /* held: lock, until `driver` points to it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(const struct kolo_cuda_driver *) driver;
/* The loader's count, plus 1, when the driver was last looked for in vain; 0: never. */
static atomic_ullong looked_at;

static int first_object(struct dl_phdr_info *info, size_t bytes, void *count_out)
{
    (void)bytes;
    *(unsigned long long *)count_out = info->dlpi_adds;
    return 1;
}

/** The number of libraries that the loader has ever loaded. */
static unsigned long long loads(void)
{
    unsigned long long count = 0;
    (void)dl_iterate_phdr(first_object, &count);
    return count;
}

kolo_status kolo_cuda_driver_check(const struct kolo_cuda_driver *of)
{
    if (!of->missing)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "%s has no %s, which drivers of CUDA 11 or later have: update the driver",
                     library, of->missing);
}

/** held: lock */
static kolo_status bind_all(void *handle)
{
    static const struct {
        const char *name;
        size_t offset;
        bool is_needed;
    } symbols[] = {
#define ENTRY(member, symbol, name, parameters)                                                    \
    {symbol, offsetof(struct kolo_cuda_driver, member), true},
#define LATER(member, symbol, name, parameters)                                                    \
    {symbol, offsetof(struct kolo_cuda_driver, member), false},
        KOLO_CUDA_FUNCTIONS(ENTRY) KOLO_CUDA_LATER_FUNCTIONS(LATER)
#undef ENTRY
#undef LATER
    };
    table.missing = NULL;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (!found && symbols[i].is_needed && !table.missing)
            table.missing = symbols[i].name;
        memcpy((char *)&table + symbols[i].offset, &found, sizeof found);
    }
    /* a pointer into device memory must not count as host memory because a copy function is
     * missing */
    return table.pointer_get_attributes && table.get_error_name ? KOLO_OK
                                                                : kolo_cuda_driver_check(&table);
}

static kolo_status open_driver(int flags)
{
    kolo_status status = KOLO_OK;
    (void)pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&driver, memory_order_acquire)) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | flags);
        if (!handle) {
            const char *error = dlerror();
            status = kolo_fail(KOLO_ERR_UNSUPPORTED, "NVIDIA's driver cannot be loaded: %s",
                               error ? error : library);
        } else if ((status = bind_all(handle)) == KOLO_OK) {
            atomic_store_explicit(&driver, &table, memory_order_release);
        } else {
            (void)dlclose(handle);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

const struct kolo_cuda_driver *kolo_cuda_driver_loaded(void)
{
    const struct kolo_cuda_driver *found = atomic_load_explicit(&driver, memory_order_acquire);
    if (found)
        return found;
    /* the count is read first, so a library that is loaded meanwhile makes the next call look
     * again */
    const unsigned long long now = loads() + 1;
    if (atomic_load_explicit(&looked_at, memory_order_relaxed) == now)
        return NULL;
    if (open_driver(RTLD_NOLOAD) == KOLO_OK)
        return atomic_load_explicit(&driver, memory_order_acquire);
    kolo_detail_set(""); /* nothing has failed */
    atomic_store_explicit(&looked_at, now, memory_order_relaxed);
    return NULL;
}

kolo_status kolo_cuda_driver_load(const struct kolo_cuda_driver **driver_out)
{
    kolo_status status = open_driver(0);
    if (status == KOLO_OK)
        status = kolo_cuda_driver_check(&table);
    if (status == KOLO_OK)
        *driver_out = atomic_load_explicit(&driver, memory_order_acquire);
    return status;
}

static bool is_of_capture(int result)
{
    return result >= KOLO_CUDA_STREAM_CAPTURE_UNSUPPORTED && result <= KOLO_CUDA_CAPTURED_EVENT;
}

bool kolo_cuda_is_refusal(int result)
{
    return result == KOLO_CUDA_NOT_PERMITTED || result == KOLO_CUDA_NOT_SUPPORTED;
}

/** Whether a program's work on the device, or kolo's, has failed. */
static bool is_of_work(int result)
{
    return result >= KOLO_CUDA_ILLEGAL_ADDRESS && result <= KOLO_CUDA_LAUNCH_FAILED;
}

bool kolo_cuda_is_loss(int result)
{
    return is_of_work(result) || result == KOLO_CUDA_ECC_UNCORRECTABLE ||
           result == KOLO_CUDA_NVLINK_UNCORRECTABLE || result == KOLO_CUDA_CONTAINED ||
           result == KOLO_CUDA_UNKNOWN;
}

static const char *advice(int result)
{
    switch (result) {
    case KOLO_CUDA_INVALID_VALUE:
        return "is the memory still allocated, and as long as the call says?";
    case KOLO_CUDA_OUT_OF_MEMORY:
        return "free memory of the device";
    case KOLO_CUDA_NOT_INITIALIZED:
        return "the program has not begun to use CUDA, or this process was forked by one that has, "
               "and cannot use it";
    case KOLO_CUDA_STUB_LIBRARY:
        return "this libcuda.so.1 is the toolkit's stub: take its folder out of LD_LIBRARY_PATH";
    case KOLO_CUDA_DEVICE_UNAVAILABLE:
        return "another process has the GPU to itself (nvidia-smi -q -d COMPUTE): give each rank a "
               "GPU, or have the mode set to Default";
    case KOLO_CUDA_NO_DEVICE:
        return "there is no GPU, or CUDA_VISIBLE_DEVICES hides it";
    case KOLO_CUDA_INVALID_IMAGE:
    case KOLO_CUDA_NO_BINARY:
    case KOLO_CUDA_UNSUPPORTED_PTX:
        return "kolo's kernels are newer than this driver or not for this GPU: update the driver, "
               "or "
               "build with KOLO_CUDA_ARCHITECTURES";
    case KOLO_CUDA_INVALID_CONTEXT:
    case KOLO_CUDA_CONTEXT_IS_DESTROYED:
        return "the memory's context is gone: call before it is destroyed";
    case KOLO_CUDA_PEER_UNSUPPORTED:
        return "the two GPUs do not reach each other's memory: see nvidia-smi topo -p2p r";
    case KOLO_CUDA_NOT_PERMITTED:
    case KOLO_CUDA_NOT_SUPPORTED:
        return "this driver, the device or the container around it does not allow that call: see "
               "what is passed into the container, or try outside of it";
    case KOLO_CUDA_SYSTEM_DRIVER_MISMATCH:
        return "libcuda.so.1 and the kernel's module are of different versions: restart the "
               "machine";
    default:
        break;
    }
    if (is_of_work(result))
        return "work on the device failed before, of the program or of a rank in its process: "
               "look at the first error";
    if (is_of_capture(result))
        return "a stream is captured into a graph, which cannot hold this call: make it before the "
               "capture or after it";
    return "see nvidia-smi and the kernel's log";
}

kolo_status kolo_cuda_fail(const struct kolo_cuda_driver *of, const char *call, int device,
                           int result)
{
    const char *name = NULL;
    char where[32] = "";
    if (of->get_error_name(result, &name) != KOLO_CUDA_SUCCESS || !name)
        name = "a result without a name";
    if (device >= 0)
        (void)snprintf(where, sizeof where, " on device %d", device);
    return kolo_fail(result == KOLO_CUDA_OUT_OF_MEMORY ? KOLO_ERR_NO_MEMORY
                     : is_of_capture(result)           ? KOLO_ERR_UNSUPPORTED
                                                       : KOLO_ERR_SYSTEM,
                     "%s%s: %s (%d); %s", call, where, name, result, advice(result));
}
