// SPDX-License-Identifier: Apache-2.0
// What the files of the backend "cuda" share: entering contexts, waiting for them, and lanes.
#ifndef KOLO_MEMORY_CUDA_MEMORY_H
#define KOLO_MEMORY_CUDA_MEMORY_H

#include "base/clock.h"
#include "memory/cuda_driver.h"
#include "memory/lane.h"
#include "memory/memory.h"

/** A context to work in. */
struct kolo_cuda_visit {
    const struct kolo_cuda_driver *driver;
    int ordinal; /* number of the device */
    int device;  /* the driver's handle of the device */
    void *context;
    bool is_retained;
};

/** Finds the memory's context; for memory without one it is the device's primary context, which is
 * held until kolo_cuda_release. On failure nothing is held. */
kolo_status kolo_cuda_visit_primary(const struct kolo_pointer *pointer,
                                    struct kolo_cuda_visit *visit_out) KOLO_NODISCARD;
void kolo_cuda_release(struct kolo_cuda_visit *visit);
/** Makes it the thread's current context until kolo_cuda_leave. Meanwhile no capture of a stream
 * into a graph, by any thread, affects this thread's calls (relaxed mode). */
kolo_status kolo_cuda_enter(const struct kolo_cuda_visit *visit) KOLO_NODISCARD;
/** The same, but returns a CUresult and writes no detail. */
int kolo_cuda_push(const struct kolo_cuda_visit *visit);
void kolo_cuda_leave(const struct kolo_cuda_visit *visit);

/** Waits until all earlier work of the context is done. KOLO_AGAIN: it is not by @p deadline, or @p
 * unless (may be NULL) ended the wait. @p spare (may be NULL) keeps an event of the context for the
 * next wait; its owner destroys it. Threads: any. */
kolo_status kolo_cuda_await(const struct kolo_cuda_visit *visit, _Atomic(void *) *spare,
                            kolo_deadline deadline,
                            const struct kolo_unless *unless) KOLO_NODISCARD;

kolo_status kolo_cuda_lane_open(const struct kolo_pointer *pointer, void (*wake)(void *context),
                                void *context, struct kolo_lane **lane_out) KOLO_NODISCARD;
/** The gates of a lane (memory/cuda_gate.c). */
struct kolo_cuda_gates;
kolo_status kolo_cuda_stream_look(void *stream, struct kolo_pointer *pointer_out) KOLO_NODISCARD;
/** As kolo_lane_place, for @p lane in the context of @p visit; *@p gates is initially NULL. */
kolo_status kolo_cuda_gate_place(struct kolo_cuda_gates **gates, struct kolo_lane *lane,
                                 const struct kolo_cuda_visit *visit, void *stream, bool holds,
                                 int64_t timeout_ms, struct kolo_gate **gate_out) KOLO_NODISCARD;
/** As the lane's check_gates. */
kolo_status kolo_cuda_gates_check(const struct kolo_cuda_gates *gates) KOLO_NODISCARD;
/** Frees gates that no stream reads any more. Call it in the context, if that still exists. NULL is
 * allowed. */
void kolo_cuda_gates_free(struct kolo_cuda_gates *gates, const struct kolo_cuda_visit *visit);
/** As the backend's pin and unpin. */
kolo_status kolo_cuda_pin(const struct kolo_pointer *near, void *memory, size_t bytes,
                          struct kolo_pin *pin_out) KOLO_NODISCARD;
void kolo_cuda_unpin(const struct kolo_pin *pin, void *memory);
/** As the backend's device_alloc, device_free and device_release. */
kolo_status kolo_cuda_alloc(int device, const struct kolo_device_share *share, size_t bytes,
                            struct kolo_pointer *pointer_out) KOLO_NODISCARD;
kolo_status kolo_cuda_free(const struct kolo_pointer *pointer, kolo_deadline deadline,
                           const struct kolo_unless *unless) KOLO_NODISCARD;
void kolo_cuda_let_go(const struct kolo_pointer *pointer);
/** As the backend's extent and share. */
kolo_status kolo_cuda_extent(const struct kolo_pointer *pointer,
                             struct kolo_extent *extent_out) KOLO_NODISCARD;
kolo_status kolo_cuda_share(const struct kolo_pointer *pointer, const struct kolo_extent *extent,
                            int *fd_out) KOLO_NODISCARD;

/** Whether the result means that there can be no device memory. */
static inline bool kolo_cuda_has_no_devices(int result)
{
    return result == KOLO_CUDA_NOT_INITIALIZED || result == KOLO_CUDA_STUB_LIBRARY ||
           result == KOLO_CUDA_NO_DEVICE;
}

extern const struct kolo_memory_ops kolo_memory_cuda;

#endif
