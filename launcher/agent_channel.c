// SPDX-License-Identifier: Apache-2.0
// The libuv side of frames.h. Writes are queued here without a bound, so whoever sends much
// (output, input) must do so under credit.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launcher/agent_channel.h"

enum {
    READ_BYTES = 64 << 10,
    BEAT_MS = 500,
    BEATS = 4, /* at least, in the time that counts as silence */
    LOOKS = 5  /* checks of the silence between two beats */
};

struct write {
    uv_write_t request;
    struct kolo_agent_channel *channel;
    size_t bytes;
    uint8_t data[];
};

/* Checks first that a loop has enough descriptors: libuv aborts if it has an epoll but cannot get a
 * pipe for its signals. */
static int try_descriptors(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    const int third = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
    const int error = third < 0 ? -errno : 0;
    close(ends[0]);
    close(ends[1]);
    if (third >= 0)
        close(third);
    return error;
}

kolo_status kolo_loop_open(uv_loop_t *loop)
{
    int error = try_descriptors();
    if (error == 0)
        error = uv_loop_init(loop);
    return error == 0 ? KOLO_OK
                      : kolo_fail_start(-error, "cannot make an event loop (epoll, eventfd, pipe)");
}

static void end(struct kolo_agent_channel *channel, kolo_status why)
{
    if (channel->has_ended)
        return;
    channel->has_ended = true;
    if (channel->is_open) {
        uv_timer_stop(&channel->beat);
        uv_timer_stop(&channel->failing);
    }
    channel->ended(channel->context, why);
}

static void on_failing(uv_timer_t *timer)
{
    struct kolo_agent_channel *channel = timer->data;
    end(channel, kolo_fail(channel->failed, "%s", channel->why));
}

/* A frame is lost. Whoever sends it may be in the middle of anything, so the loop ends the channel;
 * until then nothing more is sent. */
static void fail(struct kolo_agent_channel *channel, kolo_status why)
{
    channel->failed = why;
    kolo_detail_keep(channel->why);
    (void)uv_timer_start(&channel->failing, on_failing, 0, 0);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct kolo_agent_channel *channel = handle->data;
    uint8_t *room = NULL;
    size_t bytes = 0;
    *buf = uv_buf_init(NULL, 0); /* libuv reports it as ENOBUFS */
    if (kolo_frames_room(&channel->frames, READ_BYTES, &room, &bytes) == KOLO_OK)
        *buf = uv_buf_init((char *)room, (unsigned)(bytes < READ_BYTES ? bytes : READ_BYTES));
}

static void took(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    (void)buf;
    struct kolo_agent_channel *channel = stream->data;
    if (channel->has_ended || got == 0)
        return;
    if (got == UV_ENOBUFS) { /* as give_room has said */
        end(channel, KOLO_ERR_NO_MEMORY);
        return;
    }
    if (got < 0) {
        (void)kolo_fail(KOLO_ERR_LINK, "%s", got == UV_EOF ? "closed" : uv_strerror((int)got));
        end(channel, KOLO_ERR_LINK);
        return;
    }
    channel->heard_ns = kolo_now_ns();
    kolo_status status =
        kolo_frames_took(&channel->frames, (size_t)got, channel->frame, channel->context);
    if (status != KOLO_OK)
        end(channel, status);
}

/* Time in which this process did not run (it was stopped, waited for a processor, or was busy) does
 * not count as silence: what came meanwhile has not been read yet. */
static void forgive(struct kolo_agent_channel *channel, int64_t now_ns)
{
    int64_t late_ns = now_ns - channel->looked_ns - channel->look_ns;
    if (late_ns > channel->look_ns)
        channel->heard_ns += late_ns;
    if (channel->heard_ns > now_ns) /* it was read first when this process ran again */
        channel->heard_ns = now_ns;
    channel->looked_ns = now_ns;
}

static void send_beat(struct kolo_agent_channel *channel, int64_t now_ns)
{
    channel->beaten_ns = now_ns;
    kolo_agent_channel_send(channel, KOLO_FRAME_BEAT, NULL, 0);
}

static void on_beat(uv_timer_t *timer)
{
    struct kolo_agent_channel *channel = timer->data;
    int64_t now_ns = kolo_now_ns();
    forgive(channel, now_ns);
    int64_t silent_ms = (now_ns - channel->heard_ns) / KOLO_NS_PER_MS;
    if (silent_ms > channel->silence_ms) {
        (void)kolo_fail(KOLO_ERR_TIMEOUT, "silent for %.1f s", (double)silent_ms / 1000);
        end(channel, KOLO_ERR_TIMEOUT);
        return;
    }
    if (channel->looks++ % LOOKS == 0)
        send_beat(channel, now_ns);
}

void kolo_agent_channel_beat(struct kolo_agent_channel *channel)
{
    const int64_t now_ns = kolo_now_ns();
    if (channel->is_open && !channel->has_ended && uv_is_active((uv_handle_t *)&channel->beat) &&
        now_ns - channel->beaten_ns >= LOOKS * channel->look_ns)
        send_beat(channel, now_ns);
}

kolo_status kolo_agent_channel_open(struct kolo_agent_channel *channel, uv_loop_t *loop, int fd_in,
                                    int fd_out, bool wants_preamble)
{
    kolo_frames_init(&channel->frames, wants_preamble);
    (void)uv_pipe_init(loop, &channel->in, 0);
    (void)uv_pipe_init(loop, &channel->out, 0);
    (void)uv_timer_init(loop, &channel->beat);
    (void)uv_timer_init(loop, &channel->failing);
    channel->in.data = channel->out.data = channel->beat.data = channel->failing.data = channel;
    channel->is_open = true;
    channel->heard_ns = kolo_now_ns();
    int error = uv_pipe_open(&channel->in, fd_in);
    if (error)
        close(fd_in);
    int error_out = uv_pipe_open(&channel->out, fd_out);
    if (error_out)
        close(fd_out);
    if (!error && !error_out)
        error = uv_read_start((uv_stream_t *)&channel->in, give_room, took);
    if (error || error_out)
        return kolo_fail(KOLO_ERR_SYSTEM, "open the channel to an agent: %s",
                         uv_strerror(error ? error : error_out));
    return KOLO_OK;
}

void kolo_agent_channel_watch(struct kolo_agent_channel *channel, int64_t silence_ms)
{
    if (!channel->is_open || channel->has_ended)
        return;
    channel->silence_ms = silence_ms;
    channel->heard_ns = channel->looked_ns = kolo_now_ns();
    channel->looks = 0;
    uint64_t beat = (uint64_t)(silence_ms / BEATS < BEAT_MS ? silence_ms / BEATS : BEAT_MS);
    uint64_t look = beat / LOOKS ? beat / LOOKS : 1;
    channel->look_ns = (int64_t)look * KOLO_NS_PER_MS;
    (void)uv_timer_start(&channel->beat, on_beat, 0, look);
}

void kolo_agent_channel_rest(struct kolo_agent_channel *channel)
{
    if (channel->is_open && !channel->has_ended)
        (void)uv_timer_stop(&channel->beat);
}

void kolo_agent_channel_resume(struct kolo_agent_channel *channel)
{
    if (channel->silence_ms > 0)
        kolo_agent_channel_watch(channel, channel->silence_ms);
}

/* Frees a write, most of which are output, and long. JOB and EXAMINE hold the secret. */
static void forget(struct write *write)
{
    if (write->bytes > 4 &&
        (write->data[4] == KOLO_FRAME_JOB || write->data[4] == KOLO_FRAME_EXAMINE))
        kolo_free_wiped(write, sizeof *write + write->bytes);
    else
        kolo_free_memory(write);
}

static void written(uv_write_t *request, int error)
{
    struct write *write = request->data;
    struct kolo_agent_channel *channel = write->channel;
    forget(write);
    /* EPIPE: the other end has ended, or closed its input. What it had sent is read first, then its
     * end. */
    if (error && error != UV_ECANCELED && error != UV_EPIPE) {
        (void)kolo_fail(KOLO_ERR_LINK, "%s", uv_strerror(error));
        end(channel, KOLO_ERR_LINK);
    }
    if (!error && channel->drained && channel->failed == KOLO_OK &&
        uv_stream_get_write_queue_size((uv_stream_t *)&channel->out) == 0)
        channel->drained(channel->context);
}

static void queue(struct kolo_agent_channel *channel, const uv_buf_t parts[3])
{
    size_t bytes = parts[0].len + parts[1].len + parts[2].len;
    if (!channel->is_open || channel->has_ended || channel->failed != KOLO_OK)
        return;
    struct write *write = kolo_calloc(1, sizeof *write + bytes);
    if (!write) {
        fail(channel, KOLO_ERR_NO_MEMORY);
        return;
    }
    uint8_t *at = write->data;
    for (int i = 0; i < 3; i++) {
        if (parts[i].len > 0)
            memcpy(at, parts[i].base, parts[i].len);
        at += parts[i].len;
    }
    write->channel = channel;
    write->bytes = bytes;
    write->request.data = write;
    uv_buf_t buf = uv_buf_init((char *)write->data, (unsigned)bytes);
    int error = uv_write(&write->request, (uv_stream_t *)&channel->out, &buf, 1, written);
    if (error) {
        forget(write);
        fail(channel, kolo_fail(KOLO_ERR_LINK, "%s", uv_strerror(error)));
    }
}

static uv_buf_t part(const void *data, size_t bytes)
{
    uv_buf_t buf = {.base = NULL, .len = bytes};
    memcpy(&buf.base, &data, sizeof data); /* not const in libuv, but only read */
    return buf;
}

void kolo_agent_channel_send_two(struct kolo_agent_channel *channel, enum kolo_frame_type type,
                                 const void *first, size_t first_bytes, const void *second,
                                 size_t second_bytes)
{
    uint8_t head[KOLO_FRAME_HEAD_BYTES];
    kolo_frame_head(head, type, first_bytes + second_bytes);
    uv_buf_t parts[3] = {part(head, sizeof head), part(first, first_bytes),
                         part(second, second_bytes)};
    queue(channel, parts);
}

void kolo_agent_channel_send(struct kolo_agent_channel *channel, enum kolo_frame_type type,
                             const void *body, size_t bytes)
{
    kolo_agent_channel_send_two(channel, type, body, bytes, NULL, 0);
}

void kolo_agent_channel_send_u32(struct kolo_agent_channel *channel, enum kolo_frame_type type,
                                 uint32_t value)
{
    uint8_t body[sizeof value];
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_write_u32(&writer, value);
    kolo_agent_channel_send(channel, type, body, sizeof body);
}

void kolo_agent_channel_send_raw(struct kolo_agent_channel *channel, const void *data, size_t bytes)
{
    uv_buf_t parts[3] = {part(data, bytes), part(NULL, 0), part(NULL, 0)};
    queue(channel, parts);
}

void kolo_agent_channel_close(struct kolo_agent_channel *channel)
{
    if (!channel->is_open)
        return;
    channel->is_open = false;
    channel->has_ended = true;
    uv_close((uv_handle_t *)&channel->in, NULL);
    uv_close((uv_handle_t *)&channel->out, NULL);
    uv_close((uv_handle_t *)&channel->beat, NULL);
    uv_close((uv_handle_t *)&channel->failing, NULL);
}
