// SPDX-License-Identifier: Apache-2.0
// Memory of CUDA devices shared between the processes of one host (CUDA IPC). Owns the mappings of
// other processes' memory, and a hold on the device's primary context if the memory has no context
// of its own. Must never unmap what work on a device may still use: whoever maps an allocation
// holds it until that work is over, and an allocation that is forgotten meanwhile is stale, and
// unmapped after its last hold. Unmaps only in kolo_cuda_borrower_unmap and _close, since unmapping
// can block; the exception is a mapping that is refused as soon as it was made.
//
// The driver does not define what happens if an owner frees an allocation that others have mapped,
// so the owner must first hear from all of them. When a process dies, only its own mappings end;
// what others have mapped of its memory stays valid for them. No two allocations of a process have
// the same number (CU_POINTER_ATTRIBUTE_BUFFER_ID), so a late message about a freed one is
// recognised and refused.
//
// Only other processes can map an allocation. In its own process it is used at its own address,
// after its context has been opened to this one if they differ. To tell which case it is, each
// process has a random number; process ids would not do, since those of two containers may be
// equal.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"
#include "memory/cuda_loan.h"
#include "memory/cuda_memory.h"
#include "memory/held.h"

_Static_assert(sizeof(struct kolo_loan) == 4 * sizeof(uint64_t) + 16 + 64, "a loan has gaps");
_Static_assert(sizeof((struct kolo_loan){0}.handle) == sizeof(struct kolo_cuda_handle), "it fits");

struct kolo_mapping {
    struct kolo_mapping *next;
    struct kolo_loan loan;
    kolo_cuda_address base; /* its address in this context */
    int lender;
    int holds;
    bool is_here;  /* of this process: nothing to unmap */
    bool is_stale; /* is unmapped after its last hold */
};

struct kolo_cuda_borrower {
    struct kolo_cuda_visit visit;
    struct kolo_mapping *first;
    struct kolo_mapping *stuck; /* mappings that the driver refused to unmap; held: stuck_lock */
};

static pthread_mutex_t stuck_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- lending ---- */

static pthread_mutex_t number_lock = PTHREAD_MUTEX_INITIALIZER;

/** The random number of this process, never 0. */
static kolo_status draw_number(uint64_t *number_out)
{
    static uint64_t number; /* held: number_lock */
    kolo_status status = KOLO_OK;
    (void)pthread_mutex_lock(&number_lock);
    while (number == 0 && status == KOLO_OK) {
        uint64_t drawn = 0;
        status = kolo_random(&drawn, sizeof drawn);
        number = status == KOLO_OK ? drawn : 0;
    }
    *number_out = number;
    (void)pthread_mutex_unlock(&number_lock);
    return status;
}

/** Checks that the driver allows other processes to map this kind of memory. */
static kolo_status check_kind(const struct kolo_cuda_driver *driver,
                              const struct kolo_pointer *pointer)
{
    unsigned is_capable = 0;
    int attributes[] = {KOLO_CUDA_POINTER_IS_IPC_CAPABLE};
    void *values[] = {&is_capable};
    if (!driver->ipc_get_handle)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "device %d: the driver has no cuIpcGetMemHandle, so that no other process "
                         "can map its memory; one of CUDA 11 or later for Linux has",
                         pointer->device);
    const int result = driver->pointer_get_attributes(
        1, attributes, values, (kolo_cuda_address)(uintptr_t)pointer->memory);
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(driver, "cuPointerGetAttributes", pointer->device, result);
    if (!is_capable)
        return kolo_fail(
            KOLO_ERR_UNSUPPORTED,
            "device %d: no other process can map the memory at %p, which is managed, of "
            "a pool or mapped by the program; what kolo_alloc_device and cudaMalloc "
            "give can be",
            pointer->device, pointer->memory);
    return KOLO_OK;
}

/** Identifies the device independently of its number in a process. */
static void name_device(const struct kolo_cuda_visit *visit, uint8_t name_out[static 16])
{
    const struct kolo_cuda_driver *driver = visit->driver;
    int device = 0;
    if (!driver->device_get_uuid ||
        driver->device_get(&device, visit->ordinal) != KOLO_CUDA_SUCCESS ||
        driver->device_get_uuid(name_out, device) != KOLO_CUDA_SUCCESS)
        memset(name_out, 0, 16);
}

kolo_status kolo_cuda_lend(const struct kolo_pointer *pointer, struct kolo_loan *loan_out)
{
    struct kolo_loan loan;
    struct kolo_cuda_visit visit;
    struct kolo_extent extent;
    kolo_status status;
    KOLO_TRY(kolo_cuda_extent(pointer, &extent));
    loan.id = extent.id;
    loan.start = (uint64_t)(uintptr_t)extent.start;
    loan.length = extent.length;
    KOLO_TRY(draw_number(&loan.process));
    KOLO_TRY(kolo_cuda_visit_primary(pointer, &visit));
    status = check_kind(visit.driver, pointer);
    if (status == KOLO_OK)
        status = kolo_cuda_enter(&visit);
    if (status == KOLO_OK) {
        struct kolo_cuda_handle handle;
        const int result = visit.driver->ipc_get_handle(&handle, loan.start);
        if (result != KOLO_CUDA_SUCCESS)
            status = kolo_cuda_fail(visit.driver, "cuIpcGetMemHandle", visit.ordinal, result);
        else
            memcpy(loan.handle, &handle, sizeof handle);
        name_device(&visit, loan.device);
        kolo_cuda_leave(&visit);
    }
    kolo_cuda_release(&visit);
    if (status == KOLO_OK)
        *loan_out = loan;
out:
    return status;
}

/* ---- mapping ---- */

static kolo_status refuse(const struct kolo_mapping *mapping, const char *why)
{
    return kolo_fail(KOLO_ERR_PROTOCOL,
                     "lender %d lends %llu bytes of a device's memory, allocation %llu, %s",
                     mapping->lender, (unsigned long long)mapping->loan.length,
                     (unsigned long long)mapping->loan.id, why);
}

/** Lets this context access memory of @p context. */
static kolo_status open_context(const struct kolo_cuda_visit *visit, void *context)
{
    if (!context || context == visit->context)
        return KOLO_OK;
    kolo_status status = kolo_cuda_enter(visit);
    if (status != KOLO_OK)
        return status;
    const int result = visit->driver->context_enable_peer(context, 0);
    if (result != KOLO_CUDA_SUCCESS && result != KOLO_CUDA_PEER_ALREADY_ENABLED)
        status = kolo_cuda_fail(visit->driver, "cuCtxEnablePeerAccess", visit->ordinal, result);
    kolo_cuda_leave(visit);
    return status;
}

/** Accesses memory of another thread of this process. */
static kolo_status reach(const struct kolo_cuda_visit *visit, struct kolo_mapping *mapping)
{
    const struct kolo_loan *loan = &mapping->loan;
    struct kolo_pointer pointer;
    struct kolo_extent extent;
    kolo_status status = kolo_pointer_look((const void *)(uintptr_t)loan->start, &pointer);
    if (status != KOLO_OK)
        return status;
    if (pointer.kind != KOLO_MEMORY_DEVICE)
        return refuse(mapping, "which is not there");
    status = kolo_cuda_extent(&pointer, &extent);
    if (status != KOLO_OK)
        return status;
    if (extent.id != loan->id || (uintptr_t)extent.start != loan->start ||
        extent.length != loan->length)
        return refuse(mapping, "where there is another");
    mapping->is_here = true;
    mapping->base = loan->start;
    return open_context(visit, pointer.context);
}

/** Must be in the context. */
static kolo_status map_handle(const struct kolo_cuda_visit *visit, struct kolo_mapping *mapping)
{
    size_t bytes = 0;
    int attributes[] = {KOLO_CUDA_POINTER_RANGE_BYTES};
    void *values[] = {&bytes};
    struct kolo_cuda_handle handle;
    memcpy(&handle, mapping->loan.handle, sizeof handle);
    int result =
        visit->driver->ipc_open_handle(&mapping->base, handle, KOLO_CUDA_IPC_LAZY_PEER_ACCESS);
    if (result != KOLO_CUDA_SUCCESS)
        return kolo_cuda_fail(visit->driver, "cuIpcOpenMemHandle", visit->ordinal, result);
    result = visit->driver->pointer_get_attributes(1, attributes, values, mapping->base);
    const kolo_status status =
        result != KOLO_CUDA_SUCCESS
            ? kolo_cuda_fail(visit->driver, "cuPointerGetAttributes", visit->ordinal, result)
        : bytes < mapping->loan.length ? refuse(mapping, "of which the driver maps less")
                                       : KOLO_OK;
    if (status != KOLO_OK)
        (void)visit->driver->ipc_close_handle(mapping->base);
    return status;
}

static kolo_status map(const struct kolo_cuda_visit *visit, struct kolo_mapping *mapping)
{
    uint64_t number;
    kolo_status status = draw_number(&number);
    if (status != KOLO_OK)
        return status;
    if (mapping->loan.process == number)
        return reach(visit, mapping);
    if (!visit->driver->ipc_open_handle || !visit->driver->ipc_close_handle)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "device %d: the driver has no cuIpcOpenMemHandle: one of CUDA 11 or later "
                         "for Linux has",
                         visit->ordinal);
    status = kolo_cuda_enter(visit);
    if (status != KOLO_OK)
        return status;
    status = map_handle(visit, mapping);
    kolo_cuda_leave(visit);
    return status;
}

/** Unmaps a mapping. False: it is still mapped, and kernels can access it. A context that was
 * destroyed has taken its mappings along, and in one whose device has failed nothing runs any
 * more. */
static bool unmap(const struct kolo_cuda_visit *visit, const struct kolo_mapping *mapping)
{
    static atomic_bool has_warned;
    if (mapping->is_here)
        return true;
    /* streams are held only until their calls are over, or have failed */
    const kolo_status none = kolo_none_held_begin(visit->context, KOLO_NEVER, NULL);
    const bool is_there = kolo_cuda_push(visit) == KOLO_CUDA_SUCCESS;
    const int result = is_there ? visit->driver->ipc_close_handle(mapping->base) : 0;
    if (none == KOLO_OK)
        kolo_none_held_end(visit->context);
    if (!is_there)
        return true;
    if (result != KOLO_CUDA_SUCCESS && !atomic_exchange(&has_warned, true)) {
        (void)kolo_cuda_fail(visit->driver, "cuIpcCloseMemHandle", visit->ordinal, result);
        KOLO_WARN("memory of lender %d stays mapped to the end of the process: %s", mapping->lender,
                  kolo_error_detail());
    }
    kolo_cuda_leave(visit);
    return result == KOLO_CUDA_SUCCESS || result == KOLO_CUDA_INVALID_CONTEXT ||
           kolo_cuda_is_loss(result);
}

static void put_by(struct kolo_cuda_borrower *borrower, struct kolo_mapping *mapping)
{
    (void)pthread_mutex_lock(&stuck_lock);
    mapping->next = borrower->stuck;
    borrower->stuck = mapping;
    (void)pthread_mutex_unlock(&stuck_lock);
}

/** Marks the mappings for which @p goes returns true as stale. True: there are none. */
static bool drop(struct kolo_cuda_borrower *borrower, int lender,
                 bool (*goes)(const struct kolo_mapping *mapping, const struct kolo_loan *loan),
                 const struct kolo_loan *loan)
{
    bool is_gone = true;
    for (struct kolo_mapping *mapping = borrower->first; mapping; mapping = mapping->next)
        if (mapping->lender == lender && goes(mapping, loan)) {
            mapping->is_stale = true;
            is_gone = false;
        }
    return is_gone;
}

static bool is_named(const struct kolo_mapping *mapping, const struct kolo_loan *loan)
{
    return loan->id == 0 || loan->id == mapping->loan.id;
}

/** A process never has two allocations at the same address at a time. */
static bool is_overlapped(const struct kolo_mapping *mapping, const struct kolo_loan *loan)
{
    return mapping->loan.process != loan->process ||
           (mapping->loan.start < loan->start + loan->length &&
            loan->start < mapping->loan.start + mapping->loan.length);
}

static bool is_same(const struct kolo_mapping *mapping, const struct kolo_loan *loan)
{
    return !mapping->is_stale && mapping->loan.process == loan->process &&
           mapping->loan.id == loan->id && mapping->loan.start == loan->start &&
           mapping->loan.length == loan->length;
}

/* ---- public functions ---- */

kolo_status kolo_cuda_borrower_open(const struct kolo_pointer *near,
                                    struct kolo_cuda_borrower **borrower_out)
{
    struct kolo_cuda_borrower *borrower = kolo_calloc(1, sizeof *borrower);
    if (!borrower)
        return KOLO_ERR_NO_MEMORY;
    const kolo_status status = kolo_cuda_visit_primary(near, &borrower->visit);
    if (status == KOLO_OK)
        *borrower_out = borrower;
    else
        kolo_free_memory(borrower);
    return status;
}

void kolo_cuda_borrower_close(struct kolo_cuda_borrower *borrower)
{
    if (!borrower)
        return;
    kolo_cuda_borrower_unmap(borrower, borrower->first);
    for (struct kolo_mapping *next; borrower->stuck; borrower->stuck = next) {
        next = borrower->stuck->next;
        kolo_free_memory(borrower->stuck);
    }
    kolo_cuda_release(&borrower->visit);
    kolo_free_memory(borrower);
}

kolo_status kolo_cuda_borrower_map(struct kolo_cuda_borrower *borrower, int lender,
                                   const struct kolo_loan *loan, struct kolo_mapping **mapping_out)
{
    struct kolo_mapping *mapping = borrower->first;
    if (loan->length == 0 || loan->start > UINT64_MAX - loan->length)
        return refuse(&(const struct kolo_mapping){.lender = lender, .loan = *loan},
                      "which is no range");
    while (mapping && !(mapping->lender == lender && is_same(mapping, loan)))
        mapping = mapping->next;
    if (!mapping) {
        (void)drop(borrower, lender, is_overlapped, loan);
        mapping = kolo_calloc(1, sizeof *mapping);
        if (!mapping)
            return KOLO_ERR_NO_MEMORY;
        mapping->lender = lender;
        mapping->loan = *loan;
        const kolo_status status = map(&borrower->visit, mapping);
        if (status != KOLO_OK) {
            kolo_free_memory(mapping);
            return status;
        }
        mapping->next = borrower->first;
        borrower->first = mapping;
    }
    mapping->holds++;
    *mapping_out = mapping;
    return KOLO_OK;
}

kolo_status kolo_cuda_mapping_reach(const struct kolo_mapping *mapping, uint64_t address,
                                    size_t bytes, void **memory_out)
{
    const uint64_t offset = address - mapping->loan.start;
    if (offset > mapping->loan.length || bytes > mapping->loan.length - offset)
        return refuse(mapping, "and uses what is not in it");
    *memory_out = (void *)(uintptr_t)(mapping->base + offset);
    return KOLO_OK;
}

void kolo_cuda_mapping_done(struct kolo_mapping *mapping)
{
    mapping->holds--;
}

bool kolo_cuda_borrower_forget(struct kolo_cuda_borrower *borrower, int lender, uint64_t id)
{
    return drop(borrower, lender, is_named, &(const struct kolo_loan){.id = id});
}

bool kolo_cuda_borrower_stuck(struct kolo_cuda_borrower *borrower, int *lender_out,
                              uint64_t *id_out)
{
    (void)pthread_mutex_lock(&stuck_lock);
    struct kolo_mapping *mapping = borrower->stuck;
    if (mapping)
        borrower->stuck = mapping->next;
    (void)pthread_mutex_unlock(&stuck_lock);
    if (!mapping)
        return false;
    *lender_out = mapping->lender;
    *id_out = mapping->loan.id;
    kolo_free_memory(mapping);
    return true;
}

struct kolo_mapping *kolo_cuda_borrower_detach(struct kolo_cuda_borrower *borrower)
{
    struct kolo_mapping *detached = NULL, **at = &borrower->first;
    while (*at) {
        struct kolo_mapping *mapping = *at;
        if (!mapping->is_stale || mapping->holds > 0) {
            at = &mapping->next;
            continue;
        }
        *at = mapping->next;
        mapping->next = detached;
        detached = mapping;
    }
    return detached;
}

void kolo_cuda_borrower_unmap(struct kolo_cuda_borrower *borrower, struct kolo_mapping *mappings)
{
    for (struct kolo_mapping *next; mappings; mappings = next) {
        next = mappings->next;
        if (unmap(&borrower->visit, mappings))
            kolo_free_memory(mappings);
        else
            put_by(borrower, mappings);
    }
}
