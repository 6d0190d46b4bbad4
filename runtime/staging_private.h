// SPDX-License-Identifier: Apache-2.0
// What the files of staging share: a buffer of a device's, what stands in for it, and the copies
// between the two, whole or in segments that go on beside the plan, or none at all. Private to
// staging*.c, stream.c and board_lent.c.
#ifndef KOLO_RUNTIME_STAGING_PRIVATE_H
#define KOLO_RUNTIME_STAGING_PRIVATE_H

#include "memory/lane.h"
#include "runtime/slabs.h"
#include "runtime/staging.h"

/** A part of a buffer, from its beginning. */
struct kolo_byte_range {
    size_t at, bytes;
};

/** Of a buffer, all as long but the last. */
struct kolo_segment {
    uint64_t mark; /* after its copy to the host; 0: nothing of it is copied there */
    size_t last;   /* one more than the number of the last step that writes to it; 0: none does */
    bool is_put;   /* its copy to the host is on its way, or over */
    bool is_out;   /* the same of the copy of its result */
};

/** A buffer of a device's. */
struct kolo_staged {
    struct kolo_staged *next;
    struct kolo_lane *lane;
    struct kolo_slab *slab;
    bool is_reserved;               /* what stands in for it are addresses alone (staging_lent.c) */
    uint8_t *device, *host;         /* the buffer, and what stands in for it */
    struct kolo_byte_range in, out; /* what is copied to the host, and from it */
    uint64_t marks[KOLO_WAYS]; /* after the last copy of each way; KOLO_LANE_IDLE: not marked yet */
    uint64_t passed;           /* of the marks of the way in, as far as was seen */
    size_t steps_seen;         /* that were over when segments were last looked at */
    size_t bytes, segment_bytes, segment_count;
    struct kolo_segment segments[];
};

/** A device failed, which says this thread's detail: so does the communicator. Held: lock. */
kolo_status kolo_staging_fail(struct kolo_request *request, kolo_status status);
/** The lane to what @p pointer leads to, opened if need be. Held: lock. */
kolo_status kolo_staging_lane(struct kolo_engine *engine, const struct kolo_pointer *pointer,
                              struct kolo_lane **lane_out) KOLO_NODISCARD;
/** The bytes of a segment of a buffer of @p bytes bytes, at least @p least. */
size_t kolo_flow_segment_bytes(size_t bytes, size_t least);
/** Whether copies of @p request can go on beside its plan. */
bool kolo_flow_can(const struct kolo_request *request);
/** Puts the input on its way to the host: in segments, in the order in which the plan needs them,
 * or else whole. Held: lock, as of all below. */
kolo_status kolo_flow_begin(struct kolo_request *request, bool in_segments) KOLO_NODISCARD;
/** Is all input on the host? KOLO_AGAIN: not yet. Else the device failed. */
kolo_status kolo_flow_is_in(struct kolo_request *request) KOLO_NODISCARD;
/** A slab for what only has addresses. Held: lock, which is given up meanwhile. ERR_NO_MEMORY. */
kolo_status kolo_staging_take_slab(struct kolo_request *request,
                                   struct kolo_staged *staged) KOLO_NODISCARD;
/** Gives addresses back. */
void kolo_lent_drop(struct kolo_staged *staged);
/** By what the call asks for, can its buffers be lent? Before there is a request. */
bool kolo_lent_may(const struct kolo_comm *comm, const struct kolo_task *task);
/** Is it memory that can be lent? Asks its driver, once for each. Not held: lock, as of the
 * next. */
bool kolo_lent_look(struct kolo_request *request, const void *memory, size_t bytes);
/** Makes its lanes ready; if they cannot be, it does not lend. */
void kolo_lent_ready(struct kolo_request *request);
/** Addresses to stand in for it; false: that one had better have memory. Held: lock. */
bool kolo_lent_reserve(const struct kolo_request *request, struct kolo_staged *staged);
/** Is all of it to be shown to the other ranks? Then it is KOLO_STAGE_LENT after _begin. */
bool kolo_lent_can(const struct kolo_request *request);
void kolo_lent_begin(struct kolo_request *request);
/** The lane of its buffers. */
struct kolo_lane *kolo_lent_lane(const struct kolo_request *request);
/** Kernels that use its buffers are over when @p mark is passed, of its lane's way out. */
void kolo_lent_marked(struct kolo_request *request, uint64_t mark);
/** What was lent goes to the host after all, which may take a while: KOLO_STAGE_IN. A failure is
 * the communicator's, and all is over: false. */
bool kolo_lent_take_in(struct kolo_request *request);
/** It goes by the host after all: memory for what has addresses alone. ERR_NO_MEMORY. */
kolo_status kolo_lent_bring(struct kolo_request *request) KOLO_NODISCARD;
/** Do the links of @p request reach its devices' buffers by themselves? staging_direct.c, as the
 * next five. */
bool kolo_direct_can(const struct kolo_request *request);
/** The same but for the links; makes the buffers known, which may take the driver a while. */
bool kolo_direct_could(const struct kolo_request *request);
void kolo_direct_begin(struct kolo_request *request);
/** What stands there for @p host; NULL: it is the host's own. */
uint8_t *kolo_direct_address(const struct kolo_request *request, uint8_t *host);
/** The receive @p work is over: it goes to its device, if it has not landed there. */
kolo_status kolo_direct_received(struct kolo_request *request,
                                 const struct kolo_work *work) KOLO_NODISCARD;
/** May @p step, number @p index, begin? Begins what it copies. KOLO_AGAIN: a copy is not done. Else
 * the device failed. */
kolo_status kolo_direct_may(struct kolo_request *request, size_t index,
                            const struct kolo_step *step) KOLO_NODISCARD;
/** Puts the segments on their way back that the plan has done with. */
kolo_status kolo_flow_out(struct kolo_request *request) KOLO_NODISCARD;
/** Puts all others on their way back: the call is over. */
kolo_status kolo_flow_end(struct kolo_request *request) KOLO_NODISCARD;

#endif
