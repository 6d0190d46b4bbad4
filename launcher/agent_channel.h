// SPDX-License-Identifier: Apache-2.0
// Frames over a pair of pipes on a libuv loop, with a heartbeat in both directions. Used by kolorun
// (one channel per host) and by the agent. The owner of the channel provides its memory, and must
// keep it until the loop has closed the channel's handles.
#ifndef KOLO_LAUNCHER_AGENT_CHANNEL_H
#define KOLO_LAUNCHER_AGENT_CHANNEL_H

#include <uv.h>

#include "launcher/frames.h"

struct kolo_agent_channel {
    uv_pipe_t in, out;
    uv_timer_t beat, failing;
    struct kolo_frames frames;
    kolo_frame_fn *frame;
    /* Called once, by the loop and never by a function below: ERR_LINK (the other end closed or
     * broke), ERR_TIMEOUT (it was silent), ERR_PROTOCOL, ERR_NO_MEMORY. */
    void (*ended)(void *context, kolo_status why);
    void (*drained)(void *context); /* all that was queued has been written; may be NULL */
    void *context;
    int64_t silence_ms; /* 0: silence has no limit (until the agent is ready) */
    int64_t heard_ns;
    int64_t looked_ns, look_ns; /* last check of the silence, and the interval of checks */
    int64_t beaten_ns;          /* last heartbeat sent */
    unsigned looks;
    bool is_open, has_ended;
    kolo_status failed; /* why a frame could not be queued, which is about to end the channel */
    char why[KOLO_DETAIL_MAX];
};

/** Opens a loop for channels; ERR_SYSTEM says what is missing, and what helps. */
kolo_status kolo_loop_open(uv_loop_t *loop) KOLO_NODISCARD;

/** Takes ownership of both descriptors, also on failure. They may be the same socket; then fd_out
 * is a duplicate.
 */
kolo_status kolo_agent_channel_open(struct kolo_agent_channel *channel, uv_loop_t *loop, int fd_in,
                                    int fd_out, bool wants_preamble) KOLO_NODISCARD;
/** From now on, ends the channel if nothing is heard from the other end for @p silence_ms. */
void kolo_agent_channel_watch(struct kolo_agent_channel *channel, int64_t silence_ms);
/** Sends a heartbeat if one is due, for work that the loop waits for. */
void kolo_agent_channel_beat(struct kolo_agent_channel *channel);
/** Stops sending and expecting heartbeats until the channel is resumed. The end of the channel is
 * still noticed.
 */
void kolo_agent_channel_rest(struct kolo_agent_channel *channel);
/** Sends and expects heartbeats again from now on, if the channel did so before. */
void kolo_agent_channel_resume(struct kolo_agent_channel *channel);
/** Queues a frame; does nothing if the channel has ended. A failure ends the channel. */
void kolo_agent_channel_send(struct kolo_agent_channel *channel, enum kolo_frame_type type,
                             const void *body, size_t bytes);
/** The same, with the body in two parts. */
void kolo_agent_channel_send_two(struct kolo_agent_channel *channel, enum kolo_frame_type type,
                                 const void *first, size_t first_bytes, const void *second,
                                 size_t second_bytes);
void kolo_agent_channel_send_u32(struct kolo_agent_channel *channel, enum kolo_frame_type type,
                                 uint32_t value);
/** Queues bytes as they are, such as the preamble. */
void kolo_agent_channel_send_raw(struct kolo_agent_channel *channel, const void *data,
                                 size_t bytes);
/** Closes both pipes. No callback is called afterwards; the memory may be freed once the loop has
 * run. */
void kolo_agent_channel_close(struct kolo_agent_channel *channel);

#endif
