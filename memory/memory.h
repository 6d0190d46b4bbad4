// SPDX-License-Identifier: Apache-2.0
// Memory of all kinds: the interface of a kind (struct kolo_memory_ops), what a pointer of the
// program points to, page locking, device memory, and the heap of spans behind kolo_alloc. A kind
// is a file that is compiled or not; the generated table kolo_memory_kinds lists those that were.
// Must never know what a peer is.
#ifndef KOLO_MEMORY_MEMORY_H
#define KOLO_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/status.h"

enum kolo_memory_kind {
    KOLO_MEMORY_HOST,
    KOLO_MEMORY_PINNED,  /* host memory, page-locked for a device */
    KOLO_MEMORY_MANAGED, /* moves between host and device */
    KOLO_MEMORY_DEVICE
};

/** One line: why a backend cannot be used here. If it can: "", or what it has found. */
struct kolo_why {
    char text[256];
};

/** A hold on host pages that are locked for devices. All zeros: none. */
struct kolo_pin {
    const struct kolo_memory_ops *ops; /* NULL: not locked by this library */
    void *context;                     /* the backend's context in which they are locked */
    int device;                        /* number of its device, for messages */
    bool is_held;                      /* whether the pin keeps that device's context alive */
};

/** Memory that other processes of the host can map: a memfd, its mapping, and a number that is
 * unique within the heap. A span is one allocation or, after kolo_heap_sever, a piece of one. */
struct kolo_span {
    void *base;
    size_t bytes;       /* length of the mapping, in whole pages */
    int fd;             /* memfd; owned by the heap; -1: the pages are this process's alone */
    uint64_t id;        /* of these pages; never reused within a heap */
    size_t file_bytes;  /* length of the memfd */
    size_t file_offset; /* offset of base in the memfd */
    void *allocation;   /* base of the allocation */
    const void *end;    /* of what was asked for of the allocation; the rest is nobody's */
    bool is_plain;      /* not to be locked for devices */
    bool is_aside;      /* of the first span of an allocation: it waits to be freed */
    uint64_t stamp;     /* kolo_forks_stamp() before it was made; 0: it is not kept when freed */
    struct kolo_pin pin;
};

/** Memory of the program: of which kind it is, and how to access it. */
struct kolo_pointer {
    const void *memory;
    enum kolo_memory_kind kind;
    int device;    /* device number in this process; -1: none */
    void *context; /* the backend's; if the memory has none, that of the thread; may be NULL */
    const struct kolo_memory_ops *ops; /* its backend; NULL: ordinary host memory */
};

/** The allocation that a pointer points into. */
struct kolo_extent {
    uint8_t *start; /* its start; small allocations share pages */
    size_t length;
    uint8_t *base; /* the whole host pages around it */
    size_t bytes;
    uint64_t id; /* number of the allocation, never reused in this process */
};

/** What a process sends to the others of its host about a device allocation, so that their devices
 * can access it. Plain bytes without gaps. */
struct kolo_loan {
    uint64_t process; /* random number of the process; 0: none */
    uint64_t id;      /* number of the allocation, never reused in that process */
    uint64_t start;   /* its address in the owner's process */
    uint64_t length;
    uint8_t device[16]; /* equal in all processes that see the device; zeros: unknown */
    uint8_t handle[64]; /* the driver's handle for other processes */
};

/** Says which device a rank uses if none is named: one of those at the rank's NUMA node if there
 * are any, else one of all. */
struct kolo_device_share {
    int numa_node; /* node that the rank is bound to; -1: several, or unknown */
    /* The rank's number among those bound to that node. It uses the device of that number, modulo
     * the number of devices. */
    int turn_there;
    int turn; /* the same, among all ranks of the host */
};

/** A pair of queues of copies to and from a device, which run by themselves (memory/lane.h). */
struct kolo_lane;

struct kolo_memory_ops {
    const char *name;
    enum kolo_memory_kind kind;
    /** Whether the kind can be used in this process as it is; if not, why. Changes nothing in the
     * process. */
    kolo_status (*probe)(struct kolo_why *why_out);
    /** Whether it can be used on this machine. May load libraries, and take long. NULL: as
     * probe. */
    kolo_status (*survey)(struct kolo_why *why_out);
    /** Whether a pointer of this process can point to such memory. Takes tens of nanoseconds. NULL:
     * this is host memory, and the next two are NULL too. */
    bool (*is_present)(void);
    /** Finds out what @p memory is; leaves *pointer unchanged if it does not belong to this
     * backend. */
    kolo_status (*look)(const void *memory, struct kolo_pointer *pointer);
    /** As kolo_stream_look. NULL: its devices have no streams. */
    kolo_status (*stream_look)(void *stream, struct kolo_pointer *pointer_out);
    /** Copies @p bytes bytes to the host, after the earlier work of the memory's device is done. */
    kolo_status (*fetch)(const struct kolo_pointer *pointer, size_t bytes, void *copy_out,
                         kolo_deadline deadline);
    /** As kolo_lane_open. NULL: it has no lanes. */
    kolo_status (*lane_open)(const struct kolo_pointer *pointer, void (*wake)(void *context),
                             void *context, struct kolo_lane **lane_out);
    /** As kolo_pin, in the context of @p near, a pointer into memory of this kind. @p near NULL: in
     * the context that the thread uses; KOLO_AGAIN if it uses none. The function is NULL if the
     * kind's devices need no locked pages. */
    kolo_status (*pin)(const struct kolo_pointer *near, void *memory, size_t bytes,
                       struct kolo_pin *pin_out);
    void (*unpin)(const struct kolo_pin *pin, void *memory);
    /** As kolo_device_alloc and the two functions after it. NULL: it has no such memory. */
    kolo_status (*device_alloc)(int device, const struct kolo_device_share *share, size_t bytes,
                                struct kolo_pointer *pointer_out);
    kolo_status (*device_free)(const struct kolo_pointer *pointer, kolo_deadline deadline,
                               const struct kolo_unless *unless);
    void (*device_release)(const struct kolo_pointer *pointer);
    /** As kolo_pointer_extent and kolo_pointer_share. NULL: other devices cannot access it. */
    kolo_status (*extent)(const struct kolo_pointer *pointer, struct kolo_extent *extent_out);
    kolo_status (*share)(const struct kolo_pointer *pointer, const struct kolo_extent *extent,
                         int *fd_out);
    /** As kolo_pointer_lend. NULL: no other process can access it. */
    kolo_status (*lend)(const struct kolo_pointer *pointer, struct kolo_loan *loan_out);
    /* For the kind that heaps are made of; NULL for others. */
    /** Allocates at least @p bytes zeroed bytes (0: a page) as a span with fd and base; the heap
     * sets the id. The pages are reserved, so using them cannot fail. ERR_NO_MEMORY; ERR_SYSTEM. */
    kolo_status (*alloc)(size_t bytes, struct kolo_span *span_out);
    void (*release)(struct kolo_span *span);
    /** Moves the mapping of @p span to @p base, replacing what is mapped there. */
    kolo_status (*move)(struct kolo_span *span, void *base);
    /** Gives the process a copy of its own of the page at @p page of @p span, in its place. No
     * write of this process to the page is lost, whenever it comes; others keep the old page.
     * @p own is a byte of it to which nobody writes meanwhile. ERR_SYSTEM: nothing has changed. */
    kolo_status (*take_page)(const struct kolo_span *span, void *page, void *own,
                             struct kolo_span *span_out);
};

/** NULL-terminated; generated by the build from the backends that were compiled. */
extern const struct kolo_memory_ops *const kolo_memory_kinds[];

/** Checks an allocation before @p bytes bytes of a memfd are asked for, and refuses one that could
 * only fail later and worse, by a signal or the out-of-memory killer: ERR_NO_MEMORY, which names
 * the limit. Threads: any. */
kolo_status kolo_shared_memory_check(size_t bytes) KOLO_NODISCARD;
/** The failure that @p bytes bytes of a memfd were refused with errno value @p error, and the next
 * step: ERR_NO_MEMORY or ERR_SYSTEM. Threads: any. */
kolo_status kolo_shared_memory_refused(int error, size_t bytes);
/** The same if they cannot be mapped: ERR_NO_MEMORY. Threads: any. */
kolo_status kolo_shared_memory_unmappable(int error, size_t bytes);

/** Whether some pointer of this process may point to memory other than the host's. Takes tens of
 * nanoseconds. Threads, as of the next two: any. */
bool kolo_pointer_may_be_foreign(void);
/** True: this is certainly host memory, as found in some nanoseconds without asking a driver.
 * False: it may be anything, and always before kolo_memory_find_plain(), which must be called once.
 * Threads: any. */
bool kolo_memory_is_plain(const void *memory, size_t bytes);
void kolo_memory_find_plain(void);
/** Notes that memory of a heap is plain, if there is room for it, until kolo_memory_remove_plain(),
 * which comes before its pages are unmapped. Threads: any. */
void kolo_memory_add_plain(const void *memory, size_t bytes);
void kolo_memory_remove_plain(const void *memory);
/** Finds out what @p memory is; it need not be valid memory. ERR_SYSTEM if the device's driver
 * fails. */
kolo_status kolo_pointer_look(const void *memory, struct kolo_pointer *pointer_out) KOLO_NODISCARD;
/** Finds the context of a stream of the program: *pointer_out has the context and no memory.
 * ERR_INVALID: it is not a stream. ERR_UNSUPPORTED: it is being captured into a graph, no device
 * driver is loaded in this process, or the driver lacks a function. ERR_SYSTEM. */
kolo_status kolo_stream_look(void *stream, struct kolo_pointer *pointer_out) KOLO_NODISCARD;
/** Whether the host can read it directly, once the program has ensured that it is written. */
static inline bool kolo_pointer_is_host(const struct kolo_pointer *pointer)
{
    return pointer->kind == KOLO_MEMORY_HOST || pointer->kind == KOLO_MEMORY_PINNED;
}
/** Copies device memory to the host, after the earlier work of the device is done. KOLO_AGAIN: it
 * is not done by @p deadline. ERR_UNSUPPORTED: the driver lacks a function. ERR_SYSTEM,
 * ERR_NO_MEMORY: the detail names the driver's call, the device and the result. */
kolo_status kolo_pointer_fetch(const struct kolo_pointer *pointer, size_t bytes, void *copy_out,
                               kolo_deadline deadline) KOLO_NODISCARD;

/** Finds the allocation of device memory. If it is freed and the same address is allocated again,
 * that is another allocation. ERR_UNSUPPORTED: its kind has none that others can access;
 * ERR_SYSTEM. */
kolo_status kolo_pointer_extent(const struct kolo_pointer *pointer,
                                struct kolo_extent *extent_out) KOLO_NODISCARD;
/** Makes a dma-buf of it, through which other devices read and write it in place; the caller must
 * close the descriptor. What another device has written is visible to the memory's own device as
 * soon as the host knows of it. ERR_UNSUPPORTED: the device, its driver or this kernel cannot do
 * it; the detail says why. ERR_SYSTEM, ERR_NO_MEMORY. */
kolo_status kolo_pointer_share(const struct kolo_pointer *pointer, const struct kolo_extent *extent,
                               int *fd_out) KOLO_NODISCARD;

/** Describes the whole allocation that @p pointer points into, so that other processes of the host
 * can map it. It stays the caller's; it may be freed only after every process that mapped it has
 * said that it no longer does. ERR_UNSUPPORTED: they cannot map it; the detail says why.
 * ERR_SYSTEM, ERR_NO_MEMORY. */
kolo_status kolo_pointer_lend(const struct kolo_pointer *pointer,
                              struct kolo_loan *loan_out) KOLO_NODISCARD;

/** Locks whole host pages, so that copies between them and devices run by themselves: for all
 * devices of the same kind as @p near, a pointer into device memory; NULL: for those of which the
 * calling thread has a context. Makes no context. Memory that cannot be locked is used as it is,
 * which is logged. Threads, as of the next: any. */
void kolo_pin(const struct kolo_pointer *near, void *memory, size_t bytes,
              struct kolo_pin *pin_out);
/** Must be called before the pages are unmapped, when nothing is copied to them or from them any
 * more. */
void kolo_unpin(struct kolo_pin *pin, void *memory);

/** Allocates memory on device number @p device of this process; below 0: on the device whose
 * context the calling thread has, else as @p share says. May load a driver and make a context,
 * which is held until kolo_device_release. The contents are unspecified. ERR_UNSUPPORTED: there is
 * no device, or the build has no support for any; ERR_INVALID: there is no device of that number;
 * ERR_NO_MEMORY, ERR_SYSTEM. Threads, as of the next two: any. */
kolo_status kolo_device_alloc(int device, const struct kolo_device_share *share, size_t bytes,
                              struct kolo_pointer *pointer_out) KOLO_NODISCARD;
/** Frees the memory after the earlier work of the device is done. KOLO_AGAIN: it is not done by @p
 * deadline, or @p unless (may be NULL) has ended the wait; the memory is not freed. An error: the
 * device failed, and the memory is gone. */
kolo_status kolo_device_free(const struct kolo_pointer *pointer, kolo_deadline deadline,
                             const struct kolo_unless *unless) KOLO_NODISCARD;
/** Releases the hold on its context. This may destroy the context, and everything else in it. */
void kolo_device_release(const struct kolo_pointer *pointer);

/** The spans of a rank; finds the span that a pointer points into. Threads: any, locked inside. */
struct kolo_heap;
kolo_status kolo_heap_create(struct kolo_heap **heap_out) KOLO_NODISCARD;
/** Frees the heap and all spans that are left in it. */
void kolo_heap_destroy(struct kolo_heap *heap);
kolo_status kolo_heap_alloc(struct kolo_heap *heap, size_t bytes, void **memory_out) KOLO_NODISCARD;
/** As kolo_heap_alloc, for memory that no device copies to or from: it is not locked for devices,
 * so no driver is called for it. */
kolo_status kolo_heap_alloc_plain(struct kolo_heap *heap, size_t bytes,
                                  void **memory_out) KOLO_NODISCARD;
/** Unlocks the allocation at @p memory, which is about to be freed, and does not lock it again. A
 * driver may wait for its devices before it unlocks, or be about to lock it, so the caller must not
 * hold a lock that devices need. Does nothing if the memory is not of the heap. */
void kolo_heap_unpin(struct kolo_heap *heap, const void *memory);
/** Puts the allocation at @p memory aside, to be freed later. For kolo_heap_free it is freed
 * already; an allocation of the same length may get it. ERR_INVALID as from kolo_heap_free. */
kolo_status kolo_heap_put_aside(struct kolo_heap *heap, void *memory) KOLO_NODISCARD;
/** Whether an allocation is aside. Without a lock. */
bool kolo_heap_has_aside(const struct kolo_heap *heap);
/** Ends that for one of those that are aside, which the caller then frees. False: none is. */
bool kolo_heap_take_aside(struct kolo_heap *heap, void **memory_out);
/** Frees the allocation at @p memory, but keeps its pages for a kolo_heap_alloc of the same length,
 * within bounds (memory/kept.h). Those that have been kept longest are freed to make room, or it is
 * itself; @p gone (may be NULL) is called with the ids. No driver is called, nor waited for. False:
 * it is not kept, nothing has changed, and the caller must free it. */
bool kolo_heap_keep(struct kolo_heap *heap, void *memory, void (*gone)(void *context, uint64_t id),
                    void *context);
/** Frees all that is kept. False: nothing was. */
bool kolo_heap_drop_kept(struct kolo_heap *heap, void (*gone)(void *context, uint64_t id),
                         void *context);
/** The allocation that contains @p memory is not to be kept when it is freed: something outside
 * this process uses its pages until it is told that they are gone. */
void kolo_heap_never_keep(struct kolo_heap *heap, const void *memory);
/** From now on locks all spans for the devices of the same kind as @p near, a pointer into device
 * memory. The first thread that calls this locks the existing spans, while others use the heap;
 * they wait only to sever or free the span that is being locked. Later calls are cheap. */
void kolo_heap_pin(struct kolo_heap *heap, const struct kolo_pointer *near);
/** Frees the allocation at @p memory. ERR_INVALID: @p memory is not the base of one. @p gone (may
 * be NULL) is called with its id before it is released. */
kolo_status kolo_heap_free(struct kolo_heap *heap, void *memory,
                           void (*gone)(void *context, uint64_t id), void *context);
/** Takes the @p bytes bytes at @p memory away from the processes that have mapped them: whatever
 * those write from now on, they write to pages that this memory no longer has. Whole pages are
 * replaced by fresh ones with the same contents, and become a span of their own, which is lent and
 * freed as before; nobody may write to the bytes meanwhile. What else lies in the first and the
 * last page may be written at any time, by threads of this process. So these pages become copies
 * that the kernel makes (take_page), which cannot be lent any more. All spans of the allocation
 * that were touched get new ids; so kolo_heap_find no longer finds bytes that cross an edge.
 * @p gone (may be NULL) is called with the old ids, under the heap's lock. ERR_INVALID: the bytes
 * are not in one allocation; ERR_NO_MEMORY, ERR_SYSTEM: not all were taken, or none. */
kolo_status kolo_heap_sever(struct kolo_heap *heap, const void *memory, size_t bytes,
                            void (*gone)(void *context, uint64_t id), void *context) KOLO_NODISCARD;
/** Whether the byte at @p memory belongs to an allocation, even if it cannot be lent any more. */
bool kolo_heap_has(struct kolo_heap *heap, const void *memory);
/** Finds the span that contains the @p bytes bytes at @p memory, if it can be lent, and copies it.
 * False: there is none. O(log n), without a lock in the common case of a heap without spans. */
bool kolo_heap_find(struct kolo_heap *heap, const void *memory, size_t bytes,
                    struct kolo_span *span_out);

#endif
