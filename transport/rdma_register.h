// SPDX-License-Identifier: Apache-2.0
// Registrations: memory that a device may read, and that peers who know its key may write.
//
// kolo_alloc memory is registered once, as a whole span, when a request first needs a part of it,
// and stays registered until it is freed, since pinning costs far more than a message. Other memory
// is registered for one request only, because nobody tells when the program frees it: a key that
// was kept would one day refer to other pages, and data would be silently wrong.
//
// Device memory is registered through its dma-buf, a whole allocation, when a call first uses a
// part of it. It stays registered until it is reported as freed, or until its address belongs to
// another allocation, to which the driver gives another number. Memory that cannot be registered is
// remembered as such.
//
// If the device refuses to undo a registration, the library does not free the memory. It keeps it
// with the registration, which is undone when room is needed or when the device is closed. A
// program may free such memory of its own: the kernel does not give registered pages to anybody
// else, though the program's addresses may lead to other pages then.
//
// Threads: those of the endpoint, one at a time.
#ifndef KOLO_TRANSPORT_RDMA_REGISTER_H
#define KOLO_TRANSPORT_RDMA_REGISTER_H

#include "transport/map.h"
#include "transport/rdma_device.h"

/** Registers @p bytes bytes with these rights (IBV_ACCESS_*). ERR_SYSTEM: the detail says why not,
 *  and what to change. */
kolo_status kolo_rdma_register(const struct kolo_rdma_device *device, void *memory, size_t bytes,
                               int access, struct ibv_mr **handle_out) KOLO_NODISCARD;
/** Undoes it, then has @p release free the @p bytes bytes of @p memory (NULL: there is none). If
 *  the device refuses, this is done later, and a warning says so. */
void kolo_rdma_unregister(struct kolo_rdma_device *device, struct ibv_mr *handle, void *memory,
                          size_t bytes, void (*release)(void *memory, size_t bytes));
/** For kolo_rdma_device_close(), when nothing else is left: tries a last time to undo what was
 *  refused. What is refused again is never freed. */
void kolo_rdma_unregister_refused(struct kolo_rdma_device *device);

/** What is registered: the whole span, or only what was asked for. */
struct kolo_rdma_region {
    struct ibv_mr *handle;
    uint32_t local_key, remote_key;
    uint64_t span;                 /* 0: registered for one request */
    uint32_t users;                /* requests that use it */
    bool is_gone;                  /* its span or allocation is gone: the last user undoes it */
    bool is_device;                /* device memory; without a handle: it cannot be registered */
    struct kolo_extent extent;     /* if is_device: the allocation */
    struct kolo_rdma_region *next; /* if is_device: in the list */
    /* the pages of its span, even if others have replaced them; NULL: not of a span */
    uint8_t *pages;
};

struct kolo_rdma_regions {
    struct kolo_rdma_device *device;
    struct kolo_heap *heap; /* may be NULL: every registration is then for one request */
    struct kolo_map spans;  /* regions, keyed by the lower half of their span's number */
    struct kolo_rdma_region *devices;
};

void kolo_rdma_regions_init(struct kolo_rdma_regions *regions, struct kolo_rdma_device *device,
                            struct kolo_heap *heap);
/** Undoes all registrations; no request may use one any more. */
void kolo_rdma_regions_fini(struct kolo_rdma_regions *regions);

/** The region that contains @p bytes bytes from @p memory on, until kolo_rdma_regions_give().
 *  ERR_SYSTEM: the memory cannot be registered, as for kolo_rdma_register. ERR_NO_MEMORY. */
kolo_status kolo_rdma_regions_take(struct kolo_rdma_regions *regions, void *memory, size_t bytes,
                                   struct kolo_rdma_region **region_out) KOLO_NODISCARD;
void kolo_rdma_regions_give(struct kolo_rdma_regions *regions, struct kolo_rdma_region *region);
/** Makes @p pointer's allocation of device memory known, unless it is known already. False: the
 *  device cannot be reached there; a debug line says why, once. */
bool kolo_rdma_regions_know(struct kolo_rdma_regions *regions, const struct kolo_pointer *pointer);
/** The region of a known allocation that contains @p bytes bytes from @p memory on, until
 *  kolo_rdma_regions_give(). NULL: there is none. */
struct kolo_rdma_region *kolo_rdma_regions_take_device(struct kolo_rdma_regions *regions,
                                                       const void *memory, size_t bytes);
/** Whether the memory is in a known allocation. */
bool kolo_rdma_regions_is_device(const struct kolo_rdma_regions *regions, const void *memory,
                                 size_t bytes);
/** The allocation of device memory to which @p memory belongs is about to be freed. */
void kolo_rdma_regions_forget(struct kolo_rdma_regions *regions, const void *memory);
/** Span @p id is about to be freed. */
void kolo_rdma_regions_gone(struct kolo_rdma_regions *regions, uint64_t id);
/** @p region has is_gone and was of a span: copies what a device wrote through it into @p memory to
 *  where that memory leads now. They differ if the page was cut off because something else in it
 *  was given up. */
void kolo_rdma_regions_bring(const struct kolo_rdma_regions *regions,
                             const struct kolo_rdma_region *region, void *memory, size_t bytes);

#endif
