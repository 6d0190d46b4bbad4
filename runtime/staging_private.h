// SPDX-License-Identifier: Apache-2.0
// What the files of staging share: a device buffer, what stands in for it, and the copies between
// the two: of the whole buffer, in segments while the plan runs, or none at all. Private to
// staging*.c, stream.c and board_lent.c.
#ifndef KOLO_RUNTIME_STAGING_PRIVATE_H
#define KOLO_RUNTIME_STAGING_PRIVATE_H

#include "memory/lane.h"
#include "runtime/slabs.h"
#include "runtime/staging.h"

/** A part of a buffer; `at` is its offset. */
struct kolo_byte_range {
    size_t at, bytes;
};

/** A segment of a buffer. All have the same length except the last. */
struct kolo_segment {
    uint64_t mark; /* after its copy to the host; 0: it is not copied to the host */
    size_t first;  /* the first step that touches it */
    /* 1 + the last step that receives into it, and the last one that computes what is in it before
     * its messages; 0: none does */
    size_t received, computed;
    bool has_place; /* in the order in which segments are copied to the host */
    size_t turn;    /* not of this segment: segments[i].turn is the i-th in that order */
    bool is_put;    /* its copy to the host has been started */
    bool is_out;    /* the copy of its result has been started */
};

/** A device buffer. */
struct kolo_staged {
    struct kolo_staged *next;
    struct kolo_lane *lane;
    struct kolo_slab *slab;
    bool is_reserved;       /* only addresses stand in for it, without memory (staging_lent.c) */
    uint8_t *device, *host; /* the buffer, and the host memory that stands in for it */
    struct kolo_byte_range in, out; /* the parts that are copied to the host, and back */
    uint64_t marks[KOLO_WAYS]; /* after the last copy in each direction; KOLO_LANE_IDLE: not yet */
    uint64_t passed;           /* the latest mark of the copies to the host that was seen passed */
    size_t bytes, segment_bytes, segment_count;
    /* of the order in which segments are copied to the host: how many have a place, how many are
     * touched by steps that have begun or are next, and how many have been put */
    size_t placed, due, put;
    /* segments that steps write, and whose copies back have not been started */
    size_t results_left;
    /* when segments were last checked for results: steps that were over and that had begun, and to
     * where in this buffer the oldest one that was not over had received */
    size_t steps_over, steps_begun, arrived;
    struct kolo_segment segments[];
};

/** A device failed, and this thread's detail says how: fails the communicator. Held: lock. */
kolo_status kolo_staging_fail(struct kolo_request *request, kolo_status status);
/** The lane for the device that @p pointer points to, opened if necessary. Held: lock. */
kolo_status kolo_staging_lane(struct kolo_engine *engine, const struct kolo_pointer *pointer,
                              struct kolo_lane **lane_out) KOLO_NODISCARD;
/** The segment length for a buffer of @p bytes bytes, at least @p least. */
size_t kolo_flow_segment_bytes(size_t bytes, size_t least);
/** Whether the copies of @p request can run while its plan runs. */
bool kolo_flow_can(const struct kolo_request *request);
/** Starts copying the input to the host: in segments, in the order in which the plan needs them, or
 * else whole. Held: lock, as in all below. */
kolo_status kolo_flow_begin(struct kolo_request *request, bool in_segments) KOLO_NODISCARD;
/** Whether all input is on the host. KOLO_AGAIN: not yet. Any other failure: of the device or its
 * driver. */
kolo_status kolo_flow_is_in(struct kolo_request *request) KOLO_NODISCARD;
/** Whether everything that @p step touches is on the host; statuses as above. */
kolo_status kolo_flow_has(struct kolo_request *request,
                          const struct kolo_step *step) KOLO_NODISCARD;
/** Takes a slab for a buffer that only has addresses. Held: lock, which is released meanwhile.
 * ERR_NO_MEMORY. */
kolo_status kolo_staging_take_slab(struct kolo_request *request,
                                   struct kolo_staged *staged) KOLO_NODISCARD;
/** Releases the addresses. */
void kolo_lent_drop(struct kolo_staged *staged);
/** Whether the call's arguments and options allow that its buffers are lent. Called before there is
 * a request. */
bool kolo_lent_may(const struct kolo_comm *comm, const struct kolo_task *task);
/** Whether this is memory that can be lent. Asks its driver, once for each allocation. Not held:
 * lock, as in the next. */
bool kolo_lent_look(struct kolo_request *request, const void *memory, size_t bytes);
/** Prepares the lanes of the request; if that fails, it does not lend. */
void kolo_lent_ready(struct kolo_request *request);
/** Reserves addresses to stand in for the buffer. False: the buffer should get memory. Held:
 * lock. */
bool kolo_lent_reserve(const struct kolo_request *request, struct kolo_staged *staged);
/** Whether all buffers of the request can be lent to the other ranks. Then kolo_lent_begin makes it
 * KOLO_STAGING_LENT. */
bool kolo_lent_can(const struct kolo_request *request);
void kolo_lent_begin(struct kolo_request *request);
/** The lane of the request's buffers. */
struct kolo_lane *kolo_lent_lane(const struct kolo_request *request);
/** Kernels that use the buffers are over when @p mark of the outgoing direction of their lane has
 * passed. */
void kolo_lent_marked(struct kolo_request *request, uint64_t mark);
/** Multiplies the input of a call that lends by its prescale, which is not 0, on the device;
 * kolo_lent_input_is_scaled says when that is over. ERR_SYSTEM: of the device or its driver. */
kolo_status kolo_lent_scale_input(struct kolo_request *request) KOLO_NODISCARD;
/** KOLO_OK: the input is scaled. KOLO_AGAIN: not yet. Any other failure: of the device or its
 * driver. */
kolo_status kolo_lent_input_is_scaled(const struct kolo_request *request) KOLO_NODISCARD;
/** As kolo_request_finish, for a call that lends: multiplies the result by its postscale. */
kolo_status kolo_lent_finish(struct kolo_request *request) KOLO_NODISCARD;
/** Copies what was lent to the host after all, which may take a while: KOLO_STAGING_IN. False: a
 * failure, which is the communicator's; the request has ended. */
bool kolo_lent_take_in(struct kolo_request *request);
/** The call goes through host memory after all: takes memory for buffers that only have addresses.
 * ERR_NO_MEMORY. */
kolo_status kolo_lent_bring(struct kolo_request *request) KOLO_NODISCARD;
/** Whether the links of @p request reach its device buffers themselves. staging_direct.c, as the
 * next five. */
bool kolo_direct_is_possible(const struct kolo_request *request);
/** The same, without the links: whether the buffers allow it. Makes the buffers known, which may
 * take the driver a while. */
bool kolo_direct_buffers_allow(const struct kolo_request *request);
void kolo_direct_begin(struct kolo_request *request);
/** The device address for @p host; NULL: @p host is plain host memory. */
uint8_t *kolo_direct_address(const struct kolo_request *request, uint8_t *host);
/** The receive @p work is over: copies it to its device if it has not landed there. */
kolo_status kolo_direct_received(struct kolo_request *request,
                                 const struct kolo_work *work) KOLO_NODISCARD;
/** Whether @p step, number @p index, may begin. Starts what it copies. KOLO_AGAIN: a copy is not
 * done yet. Any other failure: of the device or its driver. */
kolo_status kolo_direct_may(struct kolo_request *request, size_t index,
                            const struct kolo_step *step) KOLO_NODISCARD;
/** Steps have begun or are over: starts copying what the next ones need to the host, and what the
 * plan has finished with back. */
kolo_status kolo_flow_continue(struct kolo_request *request) KOLO_NODISCARD;
/** The call is over: starts copying back all other segments. */
kolo_status kolo_flow_end(struct kolo_request *request) KOLO_NODISCARD;

#endif
