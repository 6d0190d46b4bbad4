// SPDX-License-Identifier: Apache-2.0
// Memory that stands for a program's own, from cuMemAlloc or cuMemAllocManaged; kolo itself never
// calls the latter, so it is looked up here. Each piece holds the device's primary context as long
// as it lives. Must never use what kolo knows about memory that it has allocated.
#include "bench/program_memory.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/status.h"
#include "memory/cuda_memory.h"

enum { ATTACH_GLOBAL = 1 }; /* CU_MEM_ATTACH_GLOBAL: any stream on any device may access it */

typedef int (*alloc_managed)(kolo_cuda_address *memory_out, size_t bytes, unsigned flags);

struct piece {
    struct piece *next;
    struct kolo_cuda_visit visit;
    kolo_cuda_address memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *pieces; /* held: lock */

static void keep(struct piece *piece)
{
    (void)pthread_mutex_lock(&lock);
    piece->next = pieces;
    pieces = piece;
    (void)pthread_mutex_unlock(&lock);
}

static struct piece *take_out(const void *memory)
{
    (void)pthread_mutex_lock(&lock);
    struct piece **at = &pieces;
    while (*at && (*at)->memory != (uintptr_t)memory)
        at = &(*at)->next;
    struct piece *piece = *at;
    if (piece)
        *at = piece->next;
    (void)pthread_mutex_unlock(&lock);
    return piece;
}

static kolo_status judge(const struct piece *piece, const char *call, size_t bytes, int result)
{
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    (void)kolo_cuda_fail(piece->visit.driver, call, piece->visit.ordinal, result);
    if (result != KOLO_CUDA_OUT_OF_MEMORY)
        return KOLO_ERR_SYSTEM;
    return kolo_fail(KOLO_ERR_NO_MEMORY, "%s: device %d does not have %zu bytes free", call,
                     piece->visit.ordinal, bytes);
}

static kolo_status get_managed(struct piece *piece, size_t bytes)
{
    alloc_managed function = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (library) {
        *(void **)&function = dlsym(library, "cuMemAllocManaged");
        (void)dlclose(library); /* others have loaded it too */
    }
    if (!function)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "--memory managed: libcuda.so.1 has no cuMemAllocManaged");
    return judge(piece, "cuMemAllocManaged", bytes, function(&piece->memory, bytes, ATTACH_GLOBAL));
}

static kolo_status get(struct piece *piece, size_t bytes, bool is_managed)
{
    kolo_status status = kolo_cuda_enter(&piece->visit);
    if (status != KOLO_OK)
        return status;
    status = is_managed ? get_managed(piece, bytes)
                        : judge(piece, "cuMemAlloc", bytes,
                                piece->visit.driver->alloc(&piece->memory, bytes));
    kolo_cuda_leave(&piece->visit);
    return status;
}

/** Finds the device of this rank, and takes a hold on its context. */
static kolo_status find_device(struct kolo_comm *comm, struct kolo_cuda_visit *visit_out)
{
    struct kolo_pointer near;
    void *memory = NULL;
    kolo_status status = kolo_alloc_device(comm, 1, -1, &memory);
    if (status != KOLO_OK)
        return status;
    status = kolo_pointer_look(memory, &near);
    if (status == KOLO_OK)
        status = kolo_cuda_visit_primary(&near, visit_out);
    const kolo_status freed = kolo_free(comm, memory);
    return status == KOLO_OK ? freed : status;
}

kolo_status bench_program_alloc(struct kolo_comm *comm, size_t bytes, bool is_managed,
                                void **memory_out)
{
    struct piece *piece = kolo_calloc(1, sizeof *piece);
    *memory_out = NULL;
    if (!piece)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status = find_device(comm, &piece->visit);
    if (status == KOLO_OK)
        status = get(piece, bytes, is_managed);
    if (status != KOLO_OK) {
        kolo_cuda_release(&piece->visit);
        kolo_free_memory(piece);
        return status;
    }
    *memory_out = (void *)(uintptr_t)piece->memory;
    keep(piece);
    return KOLO_OK;
}

void bench_program_free(void *memory)
{
    struct piece *piece = memory ? take_out(memory) : NULL;
    if (!piece)
        return;
    if (kolo_cuda_push(&piece->visit) == KOLO_CUDA_SUCCESS) {
        (void)piece->visit.driver->free(piece->memory);
        kolo_cuda_leave(&piece->visit);
    }
    kolo_cuda_release(&piece->visit);
    kolo_free_memory(piece);
}
