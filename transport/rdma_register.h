// SPDX-License-Identifier: Apache-2.0
// Registrations: memory that a device may read, and that peers who are told its key may write.
//
// Memory of kolo_alloc is registered once, as a whole span, when a request first needs a part of
// it, and stays so until it is freed: pinning costs far more than a message. Other memory is
// registered for one request only, since nobody tells when the program gives it back: a key that is
// kept would mean other pages one day, and silently wrong data.
//
// Memory of a device is registered by its dma-buf, a whole allocation, when a call first brings a
// part of it, and stays so until somebody says that it goes, or another allocation has its address:
// its driver's number tells. What cannot be registered is remembered as such.
//
// Memory whose registration the device refuses to undo is not given back: it is kept with the
// registration, which is undone when room is made, or when the device is closed. What the program
// itself frees is safe before that, since the kernel keeps registered pages from others; its
// addresses may lead to other pages meanwhile.
//
// Threads: those of the endpoint, one at a time.
#ifndef KOLO_TRANSPORT_RDMA_REGISTER_H
#define KOLO_TRANSPORT_RDMA_REGISTER_H

#include "transport/map.h"
#include "transport/rdma_device.h"

/** Registers @p bytes bytes with these rights (IBV_ACCESS_*). ERR_SYSTEM: the detail says why not
 * and what to change. */
kolo_status kolo_rdma_register(const struct kolo_rdma_device *device, void *memory, size_t bytes,
                               int access, struct ibv_mr **handle_out) KOLO_NODISCARD;
/** Undoes it, then has @p release free @p memory of so many bytes (NULL: there is none). Where the
 * device refuses, that is done later, and a warning says so. */
void kolo_rdma_unregister(struct kolo_rdma_device *device, struct ibv_mr *handle, void *memory,
                          size_t bytes, void (*release)(void *memory, size_t bytes));
/** For kolo_rdma_device_close(), when nothing else is left: the last try at what was refused. What
 * is refused again is never freed. */
void kolo_rdma_unregister_refused(struct kolo_rdma_device *device);

/** What is registered: the whole span, or just what was asked for. */
struct kolo_rdma_region {
    struct ibv_mr *handle;
    uint32_t local_key, remote_key;
    uint64_t span;  /* 0: for one request */
    uint32_t users; /* requests that have it */
    bool is_gone;   /* its span, or allocation, is no more: the last user lets go of it */
    bool is_device; /* of an allocation of a device's; without a handle: it cannot be registered */
    struct kolo_extent extent;     /* is_device: which */
    struct kolo_rdma_region *next; /* is_device */
    /* those of its span, also when other ones have taken their place; NULL: of no span */
    uint8_t *pages;
};

struct kolo_rdma_regions {
    struct kolo_rdma_device *device;
    struct kolo_heap *heap; /* may be NULL: every registration is for one request */
    struct kolo_map spans;  /* regions by the lower half of their span's number */
    struct kolo_rdma_region *devices;
};

void kolo_rdma_regions_init(struct kolo_rdma_regions *regions, struct kolo_rdma_device *device,
                            struct kolo_heap *heap);
/** Lets go of all; no request may have one any more. */
void kolo_rdma_regions_fini(struct kolo_rdma_regions *regions);

/** The region that @p memory and @p bytes bytes from it lie in, until kolo_rdma_regions_give().
 * ERR_SYSTEM: the memory cannot be registered, as of kolo_rdma_register. ERR_NO_MEMORY. */
kolo_status kolo_rdma_regions_take(struct kolo_rdma_regions *regions, void *memory, size_t bytes,
                                   struct kolo_rdma_region **region_out) KOLO_NODISCARD;
void kolo_rdma_regions_give(struct kolo_rdma_regions *regions, struct kolo_rdma_region *region);
/** Makes the allocation of a device's that @p pointer is of known, if it is not; false: the device
 * is not reached there, and a line for those who debug says why, once. */
bool kolo_rdma_regions_know(struct kolo_rdma_regions *regions, const struct kolo_pointer *pointer);
/** The region of an allocation that is known, and that @p memory and @p bytes bytes from it lie in,
 * until kolo_rdma_regions_give(). NULL: there is none. */
struct kolo_rdma_region *kolo_rdma_regions_take_device(struct kolo_rdma_regions *regions,
                                                       const void *memory, size_t bytes);
/** Does it lie in one of them? */
bool kolo_rdma_regions_is_device(const struct kolo_rdma_regions *regions, const void *memory,
                                 size_t bytes);
/** The allocation of a device's that @p memory is of is about to be freed. */
void kolo_rdma_regions_forget(struct kolo_rdma_regions *regions, const void *memory);
/** Span @p id is about to be freed. */
void kolo_rdma_regions_gone(struct kolo_rdma_regions *regions, uint64_t id);
/** Brings what a device wrote into @p memory by @p region, which is_gone and was of a span, to
 * where that memory leads now: of a page that was cut off for what is given up beside it, it is
 * elsewhere. */
void kolo_rdma_regions_bring(const struct kolo_rdma_regions *regions,
                             const struct kolo_rdma_region *region, void *memory, size_t bytes);

#endif
