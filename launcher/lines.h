// SPDX-License-Identifier: Apache-2.0
// One output stream of one rank. It is sent as whole lines while there is credit, and not read
// while there is none, so that a slow reader slows the rank down and nothing is lost. Of a rank
// that talks with a person, what has no end after a while is sent as well: a prompt.
#ifndef KOLO_LAUNCHER_LINES_H
#define KOLO_LAUNCHER_LINES_H

#include <uv.h>

#include "launcher/agent_channel.h"

/** What all streams of a host share. */
struct kolo_lines_shared {
    struct kolo_agent_channel *channel;
    int64_t credit; /* bytes that may be sent; the last frame may exceed it */
    int64_t heard_ns;
    int open;
    bool is_mute; /* nobody reads: discard */
};

struct kolo_lines {
    uv_pipe_t pipe;
    struct kolo_lines_shared *shared;
    uint8_t *data;
    size_t used, capacity;
    uint32_t rank;
    uint8_t stream; /* 1 or 2 */
    bool is_open, is_reading, at_end;
    bool shows_prompts;
    bool is_prompt; /* what waits is sent though it has no end */
    bool is_full;   /* and there is no memory for more */
    bool is_cut;    /* it ends where the buffer of a program may have been full */
    bool is_bar;    /* it follows a carriage return */
    uint64_t heard;
    uv_timer_t prompt_timer;
};

/** Takes ownership of @p fd on success. */
kolo_status kolo_lines_open(struct kolo_lines *lines, struct kolo_lines_shared *shared,
                            uv_loop_t *loop, int fd, uint32_t rank, int stream) KOLO_NODISCARD;
/** To be called after kolo_lines_open: prompts are sent. */
void kolo_lines_show_prompts(struct kolo_lines *lines, uv_loop_t *loop);
/** There is new credit: sends what waits, and reads on. */
void kolo_lines_resume(struct kolo_lines *lines);
void kolo_lines_close(struct kolo_lines *lines);

#endif
