// SPDX-License-Identifier: Apache-2.0
// Interprets nothing that it relays. The examiner bounds its own output (lists of facts, one line
// per path); its input waits in libuv's queue until it is read.
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/relay.h"
#include "launcher/spawn.h"

enum { READ_BYTES = 16 << 10 };

struct kolo_relay {
    struct kolo_agent_channel *channel;
    uv_pipe_t to, from;
    bool has_to, has_from, has_ended;
    pid_t pid;
    char piece[READ_BYTES];
};

struct write {
    uv_write_t request;
    size_t bytes;
    char data[];
};

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct kolo_relay *relay = handle->data;
    (void)suggested;
    *buf = uv_buf_init(relay->piece, sizeof relay->piece);
}

static void took(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct kolo_relay *relay = stream->data;
    if (got > 0)
        kolo_agent_channel_send(relay->channel, KOLO_FRAME_FACTS, buf->base, (size_t)got);
    if (got >= 0 || relay->has_ended)
        return;
    relay->has_ended = true;
    (void)uv_read_stop(stream);
    kolo_agent_channel_send(relay->channel, KOLO_FRAME_FACTS, NULL, 0);
}

static void forget(struct write *write)
{
    kolo_free_wiped(write, sizeof *write + write->bytes); /* it may contain the secret */
}

static void written(uv_write_t *request, int error)
{
    (void)error; /* it has ended, which its output will show */
    forget(request->data);
}

void kolo_relay_tell(struct kolo_relay *relay, const void *data, size_t bytes)
{
    if (!relay->has_to || bytes == 0)
        return;
    struct write *write = kolo_calloc(1, sizeof *write + bytes);
    if (!write)
        return; /* it misses a request, and is given up when its time is over */
    memcpy(write->data, data, bytes);
    write->bytes = bytes;
    write->request.data = write;
    uv_buf_t buf = uv_buf_init(write->data, (unsigned)bytes);
    if (uv_write(&write->request, (uv_stream_t *)&relay->to, &buf, 1, written) != 0)
        forget(write);
}

/* Takes ownership of fd in any case. */
static bool open_pipe(uv_loop_t *loop, uv_pipe_t *pipe, int fd, void *data)
{
    (void)uv_pipe_init(loop, pipe, 0);
    pipe->data = data;
    if (uv_pipe_open(pipe, fd) == 0)
        return true;
    close(fd);
    return false;
}

static kolo_status spawn(struct kolo_relay *relay, const struct kolo_spec *spec, int in, int out)
{
    char *argv[] = {(char[]){"kolorun"}, (char[]){"--examine"}, NULL};
    struct kolo_texts env = {.at = NULL};
    int error = 0;
    kolo_status status = KOLO_OK;
    KOLO_TRY(kolo_spec_environment(spec, &env));
    struct kolo_spawn spawn = {.path = "/proc/self/exe",
                               .what = "kolorun's examination",
                               .argv = argv,
                               .env = env.at,
                               .fds = {in, out, STDERR_FILENO},
                               .death_signal = SIGKILL};
    status = kolo_spawn(&spawn, &relay->pid, &error);
out:
    kolo_texts_fini(&env);
    return status;
}

kolo_status kolo_relay_start(uv_loop_t *loop, struct kolo_agent_channel *channel,
                             const struct kolo_spec *spec, struct kolo_relay **relay_out)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    kolo_status status = KOLO_OK;
    struct kolo_relay *relay = kolo_calloc(1, sizeof *relay);
    if (!relay)
        return KOLO_ERR_NO_MEMORY;
    relay->channel = channel;
    *relay_out = relay; /* destroyed with the agent, also if only half set up */
    KOLO_TRY(kolo_pipe(in));
    KOLO_TRY(kolo_pipe(out));
    KOLO_TRY(spawn(relay, spec, in[0], out[1]));
    bool is_open = open_pipe(loop, &relay->to, in[1], relay);
    relay->has_to = true;
    is_open = open_pipe(loop, &relay->from, out[0], relay) && is_open;
    relay->has_from = true;
    in[1] = out[0] = -1;
    if (!is_open || uv_read_start((uv_stream_t *)&relay->from, give_room, took) != 0)
        status = kolo_fail(KOLO_ERR_SYSTEM, "open the pipes of the examiner");
out:
    for (int i = 0; i < 2; i++) {
        if (in[i] >= 0)
            close(in[i]);
        if (out[i] >= 0)
            close(out[i]);
    }
    return status;
}

void kolo_relay_close(struct kolo_relay *relay)
{
    if (!relay)
        return;
    if (relay->has_to)
        uv_close((uv_handle_t *)&relay->to, NULL);
    if (relay->has_from)
        uv_close((uv_handle_t *)&relay->from, NULL);
    relay->has_to = relay->has_from = false;
}

void kolo_relay_destroy(struct kolo_relay *relay)
{
    kolo_free_memory(relay);
}
