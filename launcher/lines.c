// SPDX-License-Identifier: Apache-2.0
// Collects lines. The buffer grows only for a line that does not fit, up to LINE_MAX_BYTES; a
// longer line is sent in pieces, each of which becomes a line of its own, and so is one for which
// there is no memory.
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launcher/lines.h"

enum { READ_BYTES = 64 << 10, LINE_MAX_BYTES = 1 << 20 };

/* Much longer than a program takes to write a line in parts, and hardly felt by who types. Text
 * that a full buffer has cut is not meant to be seen, and the next step of a progress bar comes
 * soon; but both may be a prompt. */
enum { PROMPT_MS = 200, UNLIKELY_MS = 2000 };

/* The C library's buffer for a pipe; those of other languages are multiples, and Python writes up
 * to a few texts less. */
enum { BUFFER_BYTES = 4096, BUFFER_MARGIN = 256 };

/* How many bytes could be sent now: whole lines, or a last or overlong one. What a carriage return
 * ends is a line too, or a progress bar would be seen when it is full; unless it may be the first
 * half of a line's end. */
static size_t sendable(const struct kolo_lines *lines)
{
    const uint8_t *newline = lines->used > 0 ? memrchr(lines->data, '\n', lines->used) : NULL;
    const uint8_t *back = lines->used > 0 ? memrchr(lines->data, '\r', lines->used - 1) : NULL;
    const uint8_t *end = back && (!newline || back > newline) ? back : newline;
    if (end)
        return (size_t)(end - lines->data) + 1;
    return lines->at_end || lines->is_prompt || lines->is_full || lines->used >= LINE_MAX_BYTES
               ? lines->used
               : 0;
}

static void send_bytes(struct kolo_lines *lines, size_t bytes)
{
    uint8_t head[5];
    struct kolo_writer writer = kolo_writer_over(head, sizeof head);
    kolo_write_u32(&writer, lines->rank);
    kolo_write_u8(&writer, lines->stream);
    if (!lines->shared->is_mute)
        kolo_agent_channel_send_two(lines->shared->channel, KOLO_FRAME_OUTPUT, head, sizeof head,
                                    lines->data, bytes);
    lines->shared->credit -= (int64_t)bytes;
    lines->is_bar = lines->data[bytes - 1] == '\r';
    lines->used -= bytes;
    if (lines->used > 0)
        memmove(lines->data, lines->data + bytes, lines->used);
    lines->is_prompt = lines->is_full = false;
    if (lines->shows_prompts)
        (void)uv_timer_stop(&lines->prompt_timer);
}

static void closed(uv_handle_t *handle)
{
    struct kolo_lines *lines = handle->data;
    kolo_free_memory(lines->data);
    lines->data = NULL;
    lines->used = lines->capacity = 0;
}

void kolo_lines_close(struct kolo_lines *lines)
{
    if (!lines->is_open)
        return;
    lines->is_open = lines->is_reading = false;
    lines->shared->open--;
    uv_close((uv_handle_t *)&lines->pipe, closed);
    if (lines->shows_prompts)
        uv_close((uv_handle_t *)&lines->prompt_timer, NULL);
}

static kolo_status make_room(struct kolo_lines *lines)
{
    void *data = lines->data;
    const kolo_status status = kolo_grow(&data, &lines->capacity, lines->used + READ_BYTES, 1);
    if (status == KOLO_OK)
        lines->data = data;
    return status;
}

/* Without memory, what room is left: none (which libuv reports as ENOBUFS) if the buffer is full.
 */
static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct kolo_lines *lines = handle->data;
    size_t room = READ_BYTES;
    if (make_room(lines) != KOLO_OK)
        room = lines->capacity - lines->used;
    *buf = uv_buf_init((char *)lines->data + lines->used, (unsigned)room);
}

static void on_prompt(uv_timer_t *timer)
{
    struct kolo_lines *lines = timer->data;
    lines->is_prompt = lines->used > 0;
    kolo_lines_resume(lines);
}

static void await_prompt(struct kolo_lines *lines)
{
    if (lines->shows_prompts && lines->used > 0 && !lines->is_prompt &&
        !uv_is_active((uv_handle_t *)&lines->prompt_timer))
        (void)uv_timer_start(&lines->prompt_timer, on_prompt,
                             lines->is_cut || lines->is_bar ? UNLIKELY_MS : PROMPT_MS, 0);
}

static void took(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    (void)buf;
    struct kolo_lines *lines = stream->data;
    if (got == 0)
        return;
    lines->shared->heard_ns = kolo_now_ns();
    if (got == UV_ENOBUFS) {
        lines->is_full = true;
    } else if (got < 0) {
        lines->at_end = true;
    } else {
        lines->used += (size_t)got;
        lines->heard += (uint64_t)got;
        lines->is_cut = lines->heard % BUFFER_BYTES == 0 || got % BUFFER_BYTES == 0 ||
                        got % BUFFER_BYTES > BUFFER_BYTES - BUFFER_MARGIN;
        if (lines->is_cut && lines->shows_prompts)
            (void)uv_timer_stop(&lines->prompt_timer);
    }
    kolo_lines_resume(lines);
}

/* Sends what credit allows, and reads on unless a whole line waits for credit. */
void kolo_lines_resume(struct kolo_lines *lines)
{
    if (!lines->is_open)
        return;
    size_t bytes = sendable(lines);
    if (bytes > 0 && (lines->shared->credit > 0 || lines->shared->is_mute)) {
        send_bytes(lines, bytes);
        bytes = sendable(lines);
    }
    if (lines->at_end && lines->used == 0) {
        kolo_lines_close(lines);
        return;
    }
    bool may_read = !lines->at_end && bytes == 0;
    if (may_read && !lines->is_reading)
        lines->is_reading = uv_read_start((uv_stream_t *)&lines->pipe, give_room, took) == 0;
    if (!may_read && lines->is_reading) {
        (void)uv_read_stop((uv_stream_t *)&lines->pipe);
        lines->is_reading = false;
    }
    await_prompt(lines);
}

kolo_status kolo_lines_open(struct kolo_lines *lines, struct kolo_lines_shared *shared,
                            uv_loop_t *loop, int fd, uint32_t rank, int stream)
{
    *lines = (struct kolo_lines){.shared = shared, .rank = rank, .stream = (uint8_t)stream};
    (void)uv_pipe_init(loop, &lines->pipe, 0);
    lines->pipe.data = lines;
    lines->is_open = true;
    shared->open++;
    if (make_room(lines) != KOLO_OK)
        return KOLO_ERR_NO_MEMORY;
    int error = uv_pipe_open(&lines->pipe, fd);
    if (error)
        return kolo_fail(KOLO_ERR_SYSTEM, "open the output of rank %u: %s", rank,
                         uv_strerror(error));
    kolo_lines_resume(lines);
    return KOLO_OK;
}

void kolo_lines_show_prompts(struct kolo_lines *lines, uv_loop_t *loop)
{
    (void)uv_timer_init(loop, &lines->prompt_timer);
    lines->prompt_timer.data = lines;
    lines->shows_prompts = true;
}
