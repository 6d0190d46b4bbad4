// SPDX-License-Identifier: Apache-2.0
// Memory kinds and spans. A kind is a file that is compiled or not; the generated table
// kolo_memory_kinds lists those that were. Knows nothing of peers.
#ifndef KOLO_MEMORY_MEMORY_H
#define KOLO_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

enum kolo_memory_kind {
    KOLO_MEMORY_HOST,
    KOLO_MEMORY_PINNED,  /* of the host, page-locked for a device */
    KOLO_MEMORY_MANAGED, /* moves between host and device */
    KOLO_MEMORY_DEVICE,
    KOLO_MEMORY_KINDS
};

/** Why a backend cannot be used here: one line. If it can: "", or what it has found. */
struct kolo_why {
    char text[256];
};

/** A hold on pages of the host that are locked for devices. Zeros: none. */
struct kolo_pin {
    const struct kolo_memory_ops *ops; /* NULL: they are not locked by us */
    void *context;                     /* the backend's, in which they are */
    int device;                        /* the number of its device, for words */
    bool is_held;                      /* the pin keeps that device's context alive */
};

/** Memory that neighbours can map: memfd, its mapping, and a number that is unique within the heap.
 * One allocation; or, after kolo_heap_sever, a piece of one. */
struct kolo_span {
    void *base;
    size_t bytes;       /* of the mapping, whole pages */
    int fd;             /* memfd; the heap's */
    uint64_t id;        /* never reused within a heap */
    size_t file_bytes;  /* of the memfd */
    size_t file_offset; /* of base in the memfd */
    void *allocation;   /* where the allocation begins */
    bool is_plain;      /* not to be locked for devices */
    struct kolo_pin pin;
};

/** Memory that a program brings: what kind it is of, and how to reach it. */
struct kolo_pointer {
    const void *memory;
    enum kolo_memory_kind kind;
    int device;                        /* its number in this process; -1: none */
    void *context;                     /* the backend's; may be NULL */
    const struct kolo_memory_ops *ops; /* who knows it; NULL: the host, it is read as it is */
};

/** The allocation that a pointer leads into. */
struct kolo_extent {
    uint8_t *start; /* its own; small ones share pages */
    size_t length;
    uint8_t *base; /* all of the host's pages that it has a part of */
    size_t bytes;
    uint64_t id; /* of the allocation: no other of this process ever has it */
};

/** What a process tells the others of its host of an allocation of a device's, so that theirs reach
 * it: plain bytes without gaps. */
struct kolo_loan {
    uint64_t process; /* drawn by each; 0: none */
    uint64_t id;      /* of the allocation: no other of that process ever has it */
    uint64_t start;   /* where its owner has it */
    uint64_t length;
    uint8_t device[16]; /* the same for all processes that see the device; zeros: not known */
    uint8_t handle[64]; /* the driver's, for other processes */
};

/** Which device a rank takes where nobody names one: of those at its NUMA node, if there are any,
 * else of all. */
struct kolo_device_share {
    int numa_node; /* that it is bound in; -1: several, or not known */
    /* Its number among the ranks that are bound there: so many devices on, and round. */
    int turn_there;
    int turn; /* the same among all of the host */
};

/** What else may end a wait: asked now and then, by the thread that waits. */
struct kolo_unless {
    bool (*is_over)(void *context);
    void *context;
};

/** A way to a device's memory and back: copies that go on by themselves (memory/lane.h). */
struct kolo_lane;

struct kolo_memory_ops {
    const char *name;
    enum kolo_memory_kind kind;
    /** Usable in this process, as it is? else why not. Changes nothing in it. */
    kolo_status (*probe)(struct kolo_why *why_out);
    /** Usable on this machine? May load what it needs, and take long. NULL: as probe. */
    kolo_status (*survey)(struct kolo_why *why_out);
    /** Can a pointer of this process lead to such memory? Tens of nanoseconds. NULL: it is the
     * host's, and so are the next two. */
    bool (*is_present)(void);
    /** What @p memory is; leaves *pointer as it is if it is none of this backend's. */
    kolo_status (*look)(const void *memory, struct kolo_pointer *pointer);
    /** As kolo_stream_look; NULL: its devices have no streams. */
    kolo_status (*stream_look)(void *stream, struct kolo_pointer *pointer_out);
    /** Copies @p bytes bytes to the host, when the work that was given to the memory's device
     * before is done. */
    kolo_status (*fetch)(const struct kolo_pointer *pointer, size_t bytes, void *copy_out,
                         kolo_deadline deadline);
    /** As kolo_lane_open; NULL: it has no lanes. */
    kolo_status (*lane_open)(const struct kolo_pointer *pointer, void (*wake)(void *context),
                             void *context, struct kolo_lane **lane_out);
    /** As kolo_pin, in the context of @p near, of a device of this kind; NULL: the one that the
     * thread uses, KOLO_AGAIN if it uses none. NULL: its devices need no locked pages. */
    kolo_status (*pin)(const struct kolo_pointer *near, void *memory, size_t bytes,
                       struct kolo_pin *pin_out);
    void (*unpin)(const struct kolo_pin *pin, void *memory);
    /** As kolo_device_alloc and the next two; NULL: it has no such memory. */
    kolo_status (*device_alloc)(int device, const struct kolo_device_share *share, size_t bytes,
                                struct kolo_pointer *pointer_out);
    kolo_status (*device_free)(const struct kolo_pointer *pointer, kolo_deadline deadline,
                               const struct kolo_unless *unless);
    void (*device_release)(const struct kolo_pointer *pointer);
    /** As kolo_pointer_extent and kolo_pointer_share; NULL: other devices do not reach it. */
    kolo_status (*extent)(const struct kolo_pointer *pointer, struct kolo_extent *extent_out);
    kolo_status (*share)(const struct kolo_pointer *pointer, const struct kolo_extent *extent,
                         int *fd_out);
    /** As kolo_pointer_lend; NULL: no other process reaches it. */
    kolo_status (*lend)(const struct kolo_pointer *pointer, struct kolo_loan *loan_out);
    /* What a heap needs of the kind that it is made of; NULL of others. */
    /** At least @p bytes zeroed bytes (0: a page) as a span with fd and base; id is left to the
     * heap. The pages are there: using them cannot fail. ERR_NO_MEMORY; ERR_SYSTEM. */
    kolo_status (*alloc)(size_t bytes, struct kolo_span *span_out);
    void (*release)(struct kolo_span *span);
    /** Moves @p span's mapping to @p base, in place of what is mapped there. */
    kolo_status (*move)(struct kolo_span *span, void *base);
};

/** NULL-terminated; generated by the build from the backends compiled. */
extern const struct kolo_memory_ops *const kolo_memory_kinds[];

/** Refuses what could only fail later and worse, by a signal or by the system's out-of-memory
 * killer: ERR_NO_MEMORY, naming the limit. Before @p bytes bytes of a memfd are asked for. Threads:
 * any. */
kolo_status kolo_shared_memory_check(size_t bytes) KOLO_NODISCARD;

/** False: every pointer of this process leads to the host's memory. Tens of nanoseconds.
 * Threads, as of the next two: any. */
bool kolo_pointer_may_be_foreign(void);
/** Surely the host's, without asking anybody: some nanoseconds. False: it may be anything, also
 * before kolo_memory_find_plain(), which is called once before. Threads: any. */
bool kolo_memory_is_plain(const void *memory, size_t bytes);
void kolo_memory_find_plain(void);
/** What a heap has given out is plain from here on, if there is room to note it; before its pages
 * go it is no more. Threads: any. */
void kolo_memory_add_plain(const void *memory, size_t bytes);
void kolo_memory_remove_plain(const void *memory);
/** Finds out what @p memory is, which need not be anything. ERR_SYSTEM if the device's driver
 * fails. */
kolo_status kolo_pointer_look(const void *memory, struct kolo_pointer *pointer_out) KOLO_NODISCARD;
/** What a stream of the program's is of: *pointer_out leads to no memory, but to its context.
 * ERR_INVALID: it is none; ERR_UNSUPPORTED: it is captured into a graph, or there is no device's
 * driver in this process, or one that lacks a function; ERR_SYSTEM. */
kolo_status kolo_stream_look(void *stream, struct kolo_pointer *pointer_out) KOLO_NODISCARD;
/** Can the host read it as it is, as soon as the program has seen to it that it is written? */
static inline bool kolo_pointer_is_host(const struct kolo_pointer *pointer)
{
    return pointer->kind == KOLO_MEMORY_HOST || pointer->kind == KOLO_MEMORY_PINNED;
}
/** Copies what is not the host's to it, when the work that was given to the device before is done.
 * KOLO_AGAIN: it is not by @p deadline. ERR_UNSUPPORTED: the driver lacks a function; ERR_SYSTEM,
 * ERR_NO_MEMORY: the driver's call, device and result are in the detail. */
kolo_status kolo_pointer_fetch(const struct kolo_pointer *pointer, size_t bytes, void *copy_out,
                               kolo_deadline deadline) KOLO_NODISCARD;

/** The allocation that a device's memory is of: what is freed and allocated again at the same
 * address is another. ERR_UNSUPPORTED: its kind has none that others reach; ERR_SYSTEM. */
kolo_status kolo_pointer_extent(const struct kolo_pointer *pointer,
                                struct kolo_extent *extent_out) KOLO_NODISCARD;
/** A dma-buf of it, by which other devices read and write it where it lies: a descriptor that is
 * the caller's to close. What another device has written there is there for the memory's own device
 * as soon as the host knows of it. ERR_UNSUPPORTED: the device, its driver or this kernel do not
 * give it, and why; ERR_SYSTEM, ERR_NO_MEMORY. */
kolo_status kolo_pointer_share(const struct kolo_pointer *pointer, const struct kolo_extent *extent,
                               int *fd_out) KOLO_NODISCARD;

/** What other processes of the host need to reach the whole allocation that @p pointer leads into,
 * which stays the caller's: it may be freed once everybody who mapped it has said that it has not
 * any more. ERR_UNSUPPORTED: they cannot, and why; ERR_SYSTEM, ERR_NO_MEMORY. */
kolo_status kolo_pointer_lend(const struct kolo_pointer *pointer,
                              struct kolo_loan *loan_out) KOLO_NODISCARD;

/** Locks whole pages of the host for all devices that have kin of @p near (a pointer into one's
 * memory; NULL: for those of which the calling thread has a context), so that copies to them and
 * from them go on by themselves. Makes no context. What cannot be locked is used as it is: a line
 * in the log. Threads, as of the next: any. */
void kolo_pin(const struct kolo_pointer *near, void *memory, size_t bytes,
              struct kolo_pin *pin_out);
/** Before the pages are unmapped; nothing is copied to them or from them any more. */
void kolo_unpin(struct kolo_pin *pin, void *memory);

/** Memory of a device: of number @p device in this process; below 0: of the one whose context the
 * calling thread has, else as @p share says. May load a driver and make
 * a context, which is held until kolo_device_release. Its content is unspecified. ERR_UNSUPPORTED:
 * there is no device, or the build knows none; ERR_INVALID: none of that number; ERR_NO_MEMORY,
 * ERR_SYSTEM. Threads, as of the next two: any. */
kolo_status kolo_device_alloc(int device, const struct kolo_device_share *share, size_t bytes,
                              struct kolo_pointer *pointer_out) KOLO_NODISCARD;
/** Frees the memory when the work that the device was given before is done. KOLO_AGAIN: that is not
 * so by @p deadline, or @p unless (may be NULL) has ended the wait, and it is still there; an
 * error: the device failed, and it is gone. */
kolo_status kolo_device_free(const struct kolo_pointer *pointer, kolo_deadline deadline,
                             const struct kolo_unless *unless) KOLO_NODISCARD;
/** Lets go of its context, which may be the end of it, and of all that others have in it. */
void kolo_device_release(const struct kolo_pointer *pointer);

/** The spans of one communicator: finds the span a pointer lies in. Threads: any, locked inside. */
struct kolo_heap;
kolo_status kolo_heap_create(struct kolo_heap **heap_out) KOLO_NODISCARD;
/** Releases all that is left in it. */
void kolo_heap_destroy(struct kolo_heap *heap);
kolo_status kolo_heap_alloc(struct kolo_heap *heap, size_t bytes, void **memory_out) KOLO_NODISCARD;
/** As that, of memory to which no device copies: it is not locked for them, so that no driver is
 * called for it. */
kolo_status kolo_heap_alloc_plain(struct kolo_heap *heap, size_t bytes,
                                  void **memory_out) KOLO_NODISCARD;
/** Unlocks what begins at @p memory, which is about to be freed, and will not be locked again: a
 * driver may wait for its devices before it does so, or be about to lock it, and a lock of the
 * caller's that devices need must not be held meanwhile. Of memory that is none of the heap's it
 * does nothing. */
void kolo_heap_unpin(struct kolo_heap *heap, const void *memory);
/** From here on all spans are locked for the devices that have kin of @p near, a pointer into the
 * memory of one; those that are there by the thread that comes first, while others use the heap:
 * they wait only to sever or free the very span. Cheap for all later ones. */
void kolo_heap_pin(struct kolo_heap *heap, const struct kolo_pointer *near);
/** ERR_INVALID if @p memory is not the base of a span. @p gone (may be NULL) is told the id before
 * the release. */
kolo_status kolo_heap_free(struct kolo_heap *heap, void *memory,
                           void (*gone)(void *context, uint64_t id), void *context);
/** Puts fresh pages with the same content under the @p bytes bytes at @p memory (whole pages around
 * them), so that a neighbour who mapped the old ones no longer writes here, whatever it still does.
 * The memory is used, found, lent and freed as before, but under new ids, and as spans of their
 * own: what crosses the edge of the severed part lies in no one span. Nobody may write to these
 * pages meanwhile. @p gone (may be NULL) is told the old ids, under the heap's lock. ERR_INVALID if
 * they do not lie in one allocation; ERR_NO_MEMORY, ERR_SYSTEM: nothing has changed. */
kolo_status kolo_heap_sever(struct kolo_heap *heap, const void *memory, size_t bytes,
                            void (*gone)(void *context, uint64_t id), void *context) KOLO_NODISCARD;
/** True, and a copy of the span, if @p memory and the @p bytes bytes from it lie in one. O(log n),
 * no lock in the common case of a heap without spans. */
bool kolo_heap_find(struct kolo_heap *heap, const void *memory, size_t bytes,
                    struct kolo_span *span_out);

#endif
