// SPDX-License-Identifier: Apache-2.0
// Registers memory with devices (rdma_register.h says for how long). If the device has no room for
// a registration, unused regions are removed, and it is tried once more. Must never free memory
// that a device may still reach.
#include "transport/rdma_register.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

/* ---- one registration ---- */

/** Explains why memory could not be registered, and what to change. */
static kolo_status cannot(const struct kolo_rdma_device *device, size_t bytes, int error)
{
    char name[KOLO_RDMA_PORT_TEXT_MAX];
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    kolo_rdma_device_format(device, name);
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    /* A limit of 0 is reported as a lack of permission. */
    if ((error == ENOMEM && limit.rlim_cur != RLIM_INFINITY) ||
        (error == EPERM && limit.rlim_cur == 0))
        return kolo_fail(
            KOLO_ERR_SYSTEM,
            "%s: %zu bytes cannot be locked in memory, the limit is %llu KiB: raise it (ulimit -l "
            "unlimited, "
            "memlock in /etc/security/limits.conf, LimitMEMLOCK=infinity of a service)",
            name, bytes, (unsigned long long)limit.rlim_cur / 1024);
    if (error == EFAULT || error == EINVAL)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error,
                               "%s: %zu bytes cannot be registered: are they mapped, and writable?",
                               name, bytes);
    return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "%s: %zu bytes cannot be registered", name,
                           bytes);
}

kolo_status kolo_rdma_register(const struct kolo_rdma_device *device, void *memory, size_t bytes,
                               int access, struct ibv_mr **handle_out)
{
    errno = 0;
    struct ibv_mr *handle = device->verbs->reg_mr(device->domain, memory, bytes, access);
    if (!handle)
        return cannot(device, bytes, errno);
    *handle_out = handle;
    return KOLO_OK;
}

/* ---- what could not be undone ---- */

struct kolo_rdma_refused {
    struct kolo_rdma_refused *next;
    struct ibv_mr *handle;
    void *memory;
    size_t bytes;
    void (*release)(void *memory, size_t bytes);
};

/** Returns 0, or why the device refuses. A device that is gone reaches nothing. */
static int undo(const struct kolo_rdma_device *device, struct ibv_mr *handle)
{
    int error = device->verbs->dereg_mr(handle);
    return device->is_gone ? 0 : error;
}

void kolo_rdma_unregister(struct kolo_rdma_device *device, struct ibv_mr *handle, void *memory,
                          size_t bytes, void (*release)(void *memory, size_t bytes))
{
    const size_t length = handle->length;
    int error = undo(device, handle);
    if (error == 0) {
        if (memory)
            release(memory, bytes);
        return;
    }
    KOLO_WARN("rdma %s: the registration of %zu bytes cannot be undone (error %d): it is tried "
              "again when the device is closed, and the memory kept until then",
              device->name, length, error);
    struct kolo_rdma_refused *refused = kolo_calloc(1, sizeof *refused);
    if (!refused)
        return; /* kept for good */
    *refused = (struct kolo_rdma_refused){device->refused, handle, memory, bytes, release};
    device->refused = refused;
}

/** Tries all of them once more. Returns how many were undone. */
static int undo_refused(struct kolo_rdma_device *device)
{
    int count = 0;
    struct kolo_rdma_refused **at = &device->refused;
    while (*at) {
        struct kolo_rdma_refused *refused = *at;
        if (undo(device, refused->handle) != 0) {
            at = &refused->next;
            continue;
        }
        *at = refused->next;
        if (refused->memory)
            refused->release(refused->memory, refused->bytes);
        kolo_free_memory(refused);
        count++;
    }
    return count;
}

void kolo_rdma_unregister_refused(struct kolo_rdma_device *device)
{
    int count = 0;
    (void)undo_refused(device);
    while (device->refused) {
        struct kolo_rdma_refused *refused = device->refused;
        device->refused = refused->next;
        kolo_free_memory(refused);
        count++;
    }
    if (count > 0)
        KOLO_WARN("rdma %s: %d registrations could not be undone, and their memory is not used "
                  "again in this process: look at dmesg",
                  device->name, count);
}

/* ---- one region ---- */

static kolo_status make(struct kolo_rdma_regions *regions, void *memory, size_t bytes,
                        struct kolo_rdma_region **region_out)
{
    struct kolo_rdma_region *region = kolo_calloc(1, sizeof *region);
    if (!region)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status =
        kolo_rdma_register(regions->device, memory, bytes,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &region->handle);
    if (status != KOLO_OK) {
        kolo_free_memory(region);
        return status;
    }
    region->local_key = region->handle->lkey;
    region->remote_key = region->handle->rkey;
    *region_out = region;
    return KOLO_OK;
}

static void unmap(void *pages, size_t bytes)
{
    (void)munmap(pages, bytes);
}

static void destroy(struct kolo_rdma_regions *regions, struct kolo_rdma_region *region)
{
    if (region->handle)
        kolo_rdma_unregister(regions->device, region->handle, region->pages, region->handle->length,
                             unmap);
    kolo_free_memory(region);
}

/* ---- those of spans ---- */

static struct kolo_rdma_region *kept(const struct kolo_rdma_regions *regions, uint64_t span)
{
    struct kolo_rdma_region *region = kolo_map_get(&regions->spans, (uint32_t)span);
    return region && region->span == span ? region : NULL;
}

static void forget(struct kolo_rdma_regions *regions, struct kolo_rdma_region *region)
{
    kolo_map_remove(&regions->spans, (uint32_t)region->span);
    destroy(regions, region);
}

static struct kolo_rdma_region *find_idle(const struct kolo_rdma_regions *regions)
{
    uint32_t cursor = 0;
    struct kolo_rdma_region *region;
    while ((region = kolo_map_next(&regions->spans, &cursor)) != NULL)
        if (region->users == 0)
            return region;
    return NULL;
}

/** Removes regions that nobody uses. True: there were some. */
static bool forget_idle(struct kolo_rdma_regions *regions)
{
    bool made = false;
    struct kolo_rdma_region *idle;
    while ((idle = find_idle(regions)) != NULL) {
        forget(regions, idle);
        made = true;
    }
    return made;
}

/** True: some room was made. */
static bool make_room(struct kolo_rdma_regions *regions)
{
    bool has_undone = undo_refused(regions->device) > 0;
    return forget_idle(regions) || has_undone;
}

static kolo_status make_surely(struct kolo_rdma_regions *regions, void *memory, size_t bytes,
                               struct kolo_rdma_region **region_out)
{
    kolo_status status = make(regions, memory, bytes, region_out);
    if (status == KOLO_ERR_SYSTEM && make_room(regions))
        status = make(regions, memory, bytes, region_out);
    return status;
}

/** Maps the pages of @p span a second time, which still leads to them when the span's own addresses
 *  do not. */
static kolo_status map_pages(struct kolo_rdma_region *region, const struct kolo_span *span)
{
    void *pages =
        mmap(NULL, span->bytes, PROT_READ, MAP_SHARED, span->fd, (off_t)span->file_offset);
    if (pages == MAP_FAILED)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "%zu bytes cannot be mapped once more",
                               span->bytes);
    region->pages = pages;
    return KOLO_OK;
}

/** Registers the whole of @p span and keeps it. A span is not kept if the lower half of its number
 *  is already taken: two such numbers are 2^32 apart. */
static kolo_status keep(struct kolo_rdma_regions *regions, const struct kolo_span *span,
                        struct kolo_rdma_region **region_out)
{
    struct kolo_rdma_region *region = NULL;
    kolo_status status = make_surely(regions, span->base, span->bytes, &region);
    if (status != KOLO_OK)
        return status;
    status = map_pages(region, span);
    if (status == KOLO_OK && !kolo_map_get(&regions->spans, (uint32_t)span->id)) {
        region->span = span->id;
        status = kolo_map_put(&regions->spans, (uint32_t)span->id, region);
    }
    if (status != KOLO_OK) {
        destroy(regions, region);
        return status;
    }
    kolo_heap_never_keep(regions->heap, span->base); /* freed pages must not stay locked */
    *region_out = region;
    return KOLO_OK;
}

/* ---- memory of devices ---- */

/** Compares with the allocation, not with its pages: a neighbour may have a part of those. */
static bool covers(const struct kolo_rdma_region *region, const void *memory, size_t bytes)
{
    const uint8_t *start = region->extent.start, *at = memory;
    return at >= start && (size_t)(at - start) <= region->extent.length &&
           bytes <= region->extent.length - (size_t)(at - start);
}

/** Removes the region that *@p at points to from the list. */
static void forget_device(struct kolo_rdma_regions *regions, struct kolo_rdma_region **at)
{
    struct kolo_rdma_region *region = *at;
    *at = region->next;
    region->is_gone = true;
    if (region->users == 0)
        destroy(regions, region);
}

/** Registers the memory's dma-buf. */
static kolo_status register_device(struct kolo_rdma_regions *regions,
                                   const struct kolo_pointer *pointer,
                                   struct kolo_rdma_region *region)
{
    const struct kolo_rdma_device *device = regions->device;
    const struct kolo_extent *extent = &region->extent;
    int fd = -1;
    if (!device->verbs->reg_dmabuf_mr)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "libibverbs has no ibv_reg_dmabuf_mr: install rdma-core 34 or newer");
    kolo_status status = kolo_pointer_share(pointer, extent, &fd);
    if (status != KOLO_OK)
        return status;
    errno = 0;
    region->handle =
        device->verbs->reg_dmabuf_mr(device->domain, 0, extent->bytes, (uintptr_t)extent->base, fd,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    int error = errno;
    (void)close(fd);
    if (!region->handle)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error,
                               "rdma %s: %zu bytes of a device's memory cannot be registered",
                               device->name, extent->bytes);
    region->local_key = region->handle->lkey;
    region->remote_key = region->handle->rkey;
    return KOLO_OK;
}

/** Registers a new region. A refusal is kept too, since asking the driver costs time. */
static bool know_anew(struct kolo_rdma_regions *regions, const struct kolo_pointer *pointer,
                      const struct kolo_extent *extent)
{
    struct kolo_rdma_region *region = kolo_calloc(1, sizeof *region);
    if (!region)
        return false;
    region->is_device = true;
    region->extent = *extent;
    if (register_device(regions, pointer, region) != KOLO_OK) {
        KOLO_DEBUG("memory of device %d goes through the host's: %s", pointer->device,
                   kolo_error_detail());
        kolo_detail_set(""); /* the call has not failed */
    }
    region->next = regions->devices;
    regions->devices = region;
    return region->handle != NULL;
}

bool kolo_rdma_regions_know(struct kolo_rdma_regions *regions, const struct kolo_pointer *pointer)
{
    struct kolo_extent extent;
    struct kolo_rdma_region **at = &regions->devices;
    if (kolo_pointer_extent(pointer, &extent) != KOLO_OK) {
        kolo_detail_set("");
        return false;
    }
    while (*at) {
        struct kolo_rdma_region *region = *at;
        if (region->extent.id == extent.id)
            return region->handle != NULL;
        if (region->extent.start < extent.start + extent.length &&
            extent.start < region->extent.start + region->extent.length)
            forget_device(regions, at); /* an earlier allocation at that address */
        else
            at = &region->next;
    }
    return know_anew(regions, pointer, &extent);
}

static struct kolo_rdma_region *find_device(const struct kolo_rdma_regions *regions,
                                            const void *memory, size_t bytes)
{
    struct kolo_rdma_region *region = regions->devices;
    while (region && !(region->handle && covers(region, memory, bytes)))
        region = region->next;
    return region;
}

bool kolo_rdma_regions_is_device(const struct kolo_rdma_regions *regions, const void *memory,
                                 size_t bytes)
{
    return find_device(regions, memory, bytes) != NULL;
}

struct kolo_rdma_region *kolo_rdma_regions_take_device(struct kolo_rdma_regions *regions,
                                                       const void *memory, size_t bytes)
{
    struct kolo_rdma_region *region = find_device(regions, memory, bytes);
    if (region)
        region->users++;
    return region;
}

void kolo_rdma_regions_forget(struct kolo_rdma_regions *regions, const void *memory)
{
    struct kolo_rdma_region **at = &regions->devices;
    while (*at)
        if (covers(*at, memory, 1))
            forget_device(regions, at);
        else
            at = &(*at)->next;
}

/* ---- the interface ---- */

void kolo_rdma_regions_init(struct kolo_rdma_regions *regions, struct kolo_rdma_device *device,
                            struct kolo_heap *heap)
{
    *regions = (struct kolo_rdma_regions){.device = device, .heap = heap};
}

void kolo_rdma_regions_fini(struct kolo_rdma_regions *regions)
{
    (void)forget_idle(regions);
    kolo_map_fini(&regions->spans);
    while (regions->devices)
        forget_device(regions, &regions->devices);
}

kolo_status kolo_rdma_regions_take(struct kolo_rdma_regions *regions, void *memory, size_t bytes,
                                   struct kolo_rdma_region **region_out)
{
    struct kolo_span span;
    struct kolo_rdma_region *region = NULL;
    kolo_status status = KOLO_OK;
    if (regions->heap && kolo_heap_find(regions->heap, memory, bytes, &span)) {
        region = kept(regions, span.id);
        if (!region)
            status = keep(regions, &span, &region);
    } else {
        status = make_surely(regions, memory, bytes, &region);
    }
    if (status != KOLO_OK)
        return status;
    region->users++;
    *region_out = region;
    return KOLO_OK;
}

void kolo_rdma_regions_give(struct kolo_rdma_regions *regions, struct kolo_rdma_region *region)
{
    region->users--;
    bool is_kept = region->span != 0 || region->is_device;
    if (region->users == 0 && (!is_kept || region->is_gone))
        destroy(regions, region);
}

void kolo_rdma_regions_gone(struct kolo_rdma_regions *regions, uint64_t id)
{
    struct kolo_rdma_region *region = kept(regions, id);
    if (!region)
        return;
    if (region->users == 0) {
        forget(regions, region);
        return;
    }
    kolo_map_remove(&regions->spans,
                    (uint32_t)id); /* if pinned, its pages outlive the span for their users */
    region->is_gone = true;
}

void kolo_rdma_regions_bring(const struct kolo_rdma_regions *regions,
                             const struct kolo_rdma_region *region, void *memory, size_t bytes)
{
    uint8_t *at = memory;
    bool is_there = bytes > 0 && kolo_heap_has(regions->heap, at) &&
                    kolo_heap_has(regions->heap, at + bytes - 1);
    if (is_there) /* otherwise the program has freed it meanwhile */
        memcpy(at, region->pages + (at - (uint8_t *)region->handle->addr), bytes);
}
