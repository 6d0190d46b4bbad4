// SPDX-License-Identifier: Apache-2.0
// Frames over a pair of pipes on a libuv loop, with a heartbeat both ways. Used by kolorun (one per
// host) and by the agent. The channel is its owner's memory until the loop has closed its handles.
#ifndef KOLO_LAUNCHER_CHANNEL_H
#define KOLO_LAUNCHER_CHANNEL_H

#include <uv.h>

#include "launcher/frames.h"

struct kolo_channel {
    uv_pipe_t in, out;
    uv_timer_t beat;
    struct kolo_frames frames;
    kolo_frame_fn *frame;
    /* Once: ERR_LINK (the other end closed or broke), ERR_TIMEOUT (silent), ERR_PROTOCOL. */
    void (*ended)(void *context, kolo_status why);
    void (*drained)(void *context); /* may be NULL: all that was queued is written */
    void *context;
    int64_t silence_ms; /* 0: any silence is fine (until the agent is ready) */
    int64_t heard_ns;
    int64_t looked_ns, look_ns; /* the latest look at the silence, and the time between two */
    unsigned looks;
    bool is_open, has_ended;
};

/** A loop for channels; ERR_SYSTEM says what it lacks, and what helps. */
kolo_status kolo_loop_open(uv_loop_t *loop) KOLO_NODISCARD;

/** Takes both descriptors (they may be the same socket, then fd_out is a duplicate) in every case.
 */
kolo_status kolo_channel_open(struct kolo_channel *channel, uv_loop_t *loop, int fd_in, int fd_out,
                              bool wants_preamble) KOLO_NODISCARD;
/** From here on the other end must be heard at least every @p silence_ms. */
void kolo_channel_watch(struct kolo_channel *channel, int64_t silence_ms);
/** Neither expects nor sends a heartbeat until it is resumed. The end of the channel is still seen.
 */
void kolo_channel_rest(struct kolo_channel *channel);
/** Watches again, if it did before, from now on. */
void kolo_channel_resume(struct kolo_channel *channel);
/** Queues a frame; nothing if the channel ended. A failure ends the channel. */
void kolo_channel_send(struct kolo_channel *channel, enum kolo_frame_type type, const void *body,
                       size_t bytes);
/** As above with the body in two parts. */
void kolo_channel_send_two(struct kolo_channel *channel, enum kolo_frame_type type,
                           const void *first, size_t first_bytes, const void *second,
                           size_t second_bytes);
void kolo_channel_send_u32(struct kolo_channel *channel, enum kolo_frame_type type, uint32_t value);
/** Bytes (such as the preamble) as they are. */
void kolo_channel_send_raw(struct kolo_channel *channel, const void *data, size_t bytes);
/** Closes both pipes; the memory is free once the loop ran. No callback comes afterwards. */
void kolo_channel_close(struct kolo_channel *channel);

#endif
