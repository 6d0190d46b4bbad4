// SPDX-License-Identifier: Apache-2.0
// Runs folds with the kernels of memory/cuda_kernels.h. Owns a module in each context in which the
// kernels are used, and the handles of its functions. Must never wait for a device, nor touch
// memory itself.
//
// To load kernels a driver may wait until the context has done all its work. If ranks are threads
// of one process, a stream of that context may wait for the rank that is about to load them. So the
// first rank that needs the kernels in a context loads them for all ranks.
//
// A launch has at most as many blocks as the device can run at the same time, and each thread takes
// one packet after the other. So a long vector does not cost more blocks, and no remainder of
// blocks runs in a second round that leaves most processors idle.
#include "memory/cuda_fold.h"

#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "memory/cuda_image.h"
#include "memory/cuda_job.h"
#include "memory/held.h"
#include "memory/reduce.h"

enum { NAME_MAX_BYTES = 48, LOAD_MS = 2000, UNLOAD_MS = 2000 };

struct kolo_cuda_kernels {
    struct kolo_cuda_kernels *next;
    void *context;
    int uses;
    const struct kolo_cuda_driver *driver;
    int ordinal;
    unsigned blocks_max;
    void *module;
    void *fold[KOLO_DTYPES][KOLO_REDOPS]; /* for an average: the kernel of the sum */
    void *scale[KOLO_DTYPES];
    void *copy;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kolo_cuda_kernels
    *loaded; /* held: lock, which also guards their use counts and links */

/* ---- loading ---- */

/* Drivers since CUDA 12.4 may load a kernel only when it is first launched, and then wait until its
 * context has done all its work: streams that wait for the very call whose kernel it is would never
 * continue. Older drivers have loaded the kernel when they have found it. */
static kolo_status find(struct kolo_cuda_kernels *kernels, const char *name, void **function_out)
{
    const struct kolo_cuda_driver *driver = kernels->driver;
    const char *what = "cuModuleGetFunction";
    int result = driver->module_get_function(function_out, kernels->module, name);
    if (result == KOLO_CUDA_SUCCESS && driver->function_load) {
        what = "cuFuncLoad";
        result = driver->function_load(*function_out);
        if (kolo_cuda_is_refusal(result)) /* such a driver does not load lazily either */
            result = KOLO_CUDA_SUCCESS;
    }
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    char call[NAME_MAX_BYTES + 32];
    (void)snprintf(call, sizeof call, "%s of %s", what, name);
    return kolo_cuda_fail(driver, call, kernels->ordinal, result);
}

/** The type whose kernel does @p op: products and logical results of unsigned integers are those of
 * the signed type of the same size. */
static kolo_dtype type_of_kernel(kolo_dtype dtype, kolo_redop op)
{
    const bool is_signed_too =
        op == KOLO_PROD || op == KOLO_LAND || op == KOLO_LOR || op == KOLO_LXOR;
    if (is_signed_too && dtype == KOLO_UINT16)
        return KOLO_INT16;
    if (is_signed_too && dtype == KOLO_UINT32)
        return KOLO_INT32;
    return is_signed_too && dtype == KOLO_UINT64 ? KOLO_INT64 : dtype;
}

/** The name of a kernel. Bitwise operators have the same kernel for all types. */
static void name_of(char name[NAME_MAX_BYTES], kolo_dtype dtype, kolo_redop op)
{
    const bool is_of_bits = op == KOLO_BAND || op == KOLO_BOR || op == KOLO_BXOR;
    (void)snprintf(name, NAME_MAX_BYTES, "kolo_fold_%s%s%s",
                   kolo_redop_text(op == KOLO_AVERAGE ? KOLO_SUM : op), is_of_bits ? "" : "_",
                   is_of_bits ? "" : kolo_dtype_text(type_of_kernel(dtype, op)));
}

static kolo_status find_all(struct kolo_cuda_kernels *kernels)
{
    char name[NAME_MAX_BYTES];
    kolo_status status = find(kernels, "kolo_fold_band", &kernels->copy);
    for (int dtype = 0; status == KOLO_OK && dtype < KOLO_DTYPES; dtype++) {
        for (int op = 0; status == KOLO_OK && op < KOLO_REDOPS; op++) {
            if (!kolo_reduce_function((kolo_dtype)dtype, (kolo_redop)op))
                continue;
            name_of(name, (kolo_dtype)dtype, (kolo_redop)op);
            status = find(kernels, name, &kernels->fold[dtype][op]);
        }
        if (status == KOLO_OK && kolo_dtype_is_float((kolo_dtype)dtype)) {
            (void)snprintf(name, sizeof name, "kolo_scale_%s", kolo_dtype_text((kolo_dtype)dtype));
            status = find(kernels, name, &kernels->scale[dtype]);
        }
    }
    return status;
}

static kolo_status load(struct kolo_cuda_kernels *kernels)
{
    const struct kolo_cuda_driver *driver = kernels->driver;
    int device = 0, processors = 1;
    const char *call = "cuDeviceGet";
    int result = driver->device_get(&device, kernels->ordinal);
    if (result == KOLO_CUDA_SUCCESS) {
        call = "cuDeviceGetAttribute";
        result = driver->device_get_attribute(&processors, KOLO_CUDA_ATTRIBUTE_PROCESSORS, device);
    }
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(driver, call, kernels->ordinal, result);
    kernels->blocks_max = (unsigned)processors * KOLO_CUDA_BLOCKS;
    result = driver->module_load(&kernels->module, kolo_cuda_image);
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    const kolo_status status = kolo_cuda_fail(driver, "cuModuleLoadData", kernels->ordinal, result);
    return result == KOLO_CUDA_INVALID_IMAGE || result == KOLO_CUDA_NO_BINARY ||
                   result == KOLO_CUDA_UNSUPPORTED_PTX
               ? KOLO_ERR_UNSUPPORTED
               : status;
}

/** Frees kernels that nobody uses. Must be in the context. */
static void end(struct kolo_cuda_kernels *kernels)
{
    if (kernels->module)
        (void)kernels->driver->module_unload(kernels->module);
    kolo_free_memory(kernels);
}

/** Loads the kernels into @p context, which is the current one. Held: lock. */
static kolo_status make(const struct kolo_cuda_driver *driver, int ordinal, void *context,
                        struct kolo_cuda_kernels **kernels_out)
{
    struct kolo_cuda_kernels *kernels = kolo_calloc(1, sizeof *kernels);
    if (!kernels)
        return KOLO_ERR_NO_MEMORY;
    kernels->driver = driver;
    kernels->ordinal = ordinal;
    kernels->context = context;
    kolo_status status = load(kernels);
    if (status == KOLO_OK)
        status = find_all(kernels);
    if (status != KOLO_OK) {
        end(kernels);
        return status;
    }
    kernels->next = loaded;
    *kernels_out = loaded = kernels;
    return KOLO_OK;
}

static struct kolo_cuda_kernels *of_context(const void *context)
{
    struct kolo_cuda_kernels *kernels = loaded;
    while (kernels && kernels->context != context)
        kernels = kernels->next;
    return kernels;
}

/** Takes kernels that are loaded already. False: there are none. */
static bool take_loaded(const void *context, struct kolo_cuda_kernels **kernels_out)
{
    (void)pthread_mutex_lock(&lock);
    struct kolo_cuda_kernels *kernels = of_context(context);
    if (kernels) {
        kernels->uses++;
        *kernels_out = kernels;
    }
    (void)pthread_mutex_unlock(&lock);
    return kernels != NULL;
}

kolo_status kolo_cuda_kernels_load(const struct kolo_cuda_driver *driver, int ordinal,
                                   kolo_deadline deadline, struct kolo_cuda_kernels **kernels_out)
{
    void *context = NULL;
    if (kolo_cuda_image_bytes == 0)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "this build has no CUDA kernels: build again where nvcc is");
    const int result = driver->context_get_current(&context);
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(driver, "cuCtxGetCurrent", ordinal, result);
    if (take_loaded(context, kernels_out))
        return KOLO_OK;
    /* Not long: the stream may be another rank's of this process, and wait for the very call that
     * wants the kernels. Without them it copies to the host. */
    if (kolo_none_held_begin(context, kolo_deadline_min(deadline, kolo_deadline_in_ms(LOAD_MS)),
                             NULL) != KOLO_OK)
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "device %d: kernels cannot be loaded while a stream waits for a "
                         "collective, and one still does",
                         ordinal);
    (void)pthread_mutex_lock(&lock);
    struct kolo_cuda_kernels *kernels = of_context(context);
    const kolo_status status = kernels ? KOLO_OK : make(driver, ordinal, context, &kernels);
    if (status == KOLO_OK) {
        kernels->uses++;
        *kernels_out = kernels;
    }
    (void)pthread_mutex_unlock(&lock);
    kolo_none_held_end(context);
    return status;
}

void kolo_cuda_kernels_unload(struct kolo_cuda_kernels *kernels)
{
    if (!kernels)
        return;
    (void)pthread_mutex_lock(&lock);
    const bool is_last = --kernels->uses == 0;
    struct kolo_cuda_kernels **at = &loaded;
    while (is_last && *at != kernels)
        at = &(*at)->next;
    if (is_last)
        *at = kernels->next;
    (void)pthread_mutex_unlock(&lock);
    if (!is_last)
        return;
    const void *context = kernels->context;
    const kolo_status none = kolo_none_held_begin(context, kolo_deadline_in_ms(UNLOAD_MS), NULL);
    end(kernels);
    if (none == KOLO_OK)
        kolo_none_held_end(context);
}

/* ---- launching ---- */

static uint64_t address_of(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

static kolo_status launch(const struct kolo_cuda_kernels *kernels, void *stream, void *function,
                          struct kolo_cuda_job *job)
{
    uint64_t misfit = 0;
    for (size_t i = 0; i < job->nin; i++)
        misfit |= job->in[i];
    for (size_t i = 0; i < job->nout; i++)
        misfit |= job->out[i];
    job->fit = (misfit % KOLO_CUDA_PACKET_BYTES == 0 ? KOLO_CUDA_FIT_PACKETS : 0) |
               ((misfit | job->bytes) % sizeof(uint32_t) == 0 ? KOLO_CUDA_FIT_WORDS : 0);
    const uint64_t each = (uint64_t)KOLO_CUDA_BLOCK * KOLO_CUDA_PACKET_BYTES;
    const uint64_t blocks = job->bytes / each + (job->bytes % each != 0);
    if (blocks == 0)
        return KOLO_OK;
    const int result = kernels->driver->launch(
        function, blocks < kernels->blocks_max ? (unsigned)blocks : kernels->blocks_max, 1, 1,
        KOLO_CUDA_BLOCK, 1, 1, 0, stream, (void *[]){job}, NULL);
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    return kolo_cuda_fail(kernels->driver, "cuLaunchKernel", kernels->ordinal, result);
}

/** Chooses the kernel. The fold of one input is a copy, bit for bit, except for logical
 * operators. */
static void *function_of(const struct kolo_cuda_kernels *kernels, const struct kolo_fold *fold,
                         size_t nin)
{
    const bool is_logical = fold->op == KOLO_LAND || fold->op == KOLO_LOR || fold->op == KOLO_LXOR;
    const bool divides = fold->op == KOLO_AVERAGE && fold->divisor > 1;
    if (fold->own || kolo_dtype_bytes(fold->dtype) == 0)
        return NULL;
    if (nin == 1 && !is_logical && !divides)
        return kernels->copy;
    if ((unsigned)fold->dtype >= KOLO_DTYPES || (unsigned)fold->op >= KOLO_REDOPS)
        return NULL;
    return kernels->fold[fold->dtype][fold->op];
}

kolo_status kolo_cuda_fold(const struct kolo_cuda_kernels *kernels, void *stream,
                           const struct kolo_fold *fold, void *const out[], size_t nout,
                           const void *const in[], size_t nin, size_t count)
{
    struct kolo_cuda_job job = {.nout = nout,
                                .nin = nin,
                                .bytes = count * kolo_dtype_bytes(fold->dtype),
                                .divisor = fold->op == KOLO_AVERAGE ? fold->divisor : 0};
    void *function = function_of(kernels, fold, nin);
    if (!function)
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "no CUDA kernel for %s of %s",
                         kolo_redop_text(fold->op), kolo_dtype_text(fold->dtype));
    if (nin > KOLO_CUDA_INPUTS_MAX || nout > KOLO_CUDA_OUTPUTS_MAX)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "a fold of %zu inputs to %zu outputs is too wide for one CUDA kernel", nin,
                         nout);
    for (size_t i = 0; i < nin; i++)
        job.in[i] = address_of(in[i]);
    for (size_t i = 0; i < nout; i++)
        job.out[i] = address_of(out[i]);
    return launch(kernels, stream, function, &job);
}

kolo_status kolo_cuda_scale(const struct kolo_cuda_kernels *kernels, void *stream, void *out,
                            const void *in, size_t count, kolo_dtype dtype, double factor)
{
    struct kolo_cuda_job job = {.out = {address_of(out)},
                                .in = {address_of(in)},
                                .nout = 1,
                                .nin = 1,
                                .bytes = count * kolo_dtype_bytes(dtype),
                                .factor = factor};
    return launch(kernels, stream, kernels->scale[dtype], &job);
}
