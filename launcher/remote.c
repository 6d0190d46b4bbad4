// SPDX-License-Identifier: Apache-2.0
// Reaches a host. The end of a host has three parts that come in any order: its process, its
// channel and its last output on standard error. settle() waits a moment for all of them, so that
// the reason can be named, but never longer.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kolo/version.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/settings.h"
#include "launcher/remote.h"
#include "launcher/remote_parts.h"
#include "launcher/spawn.h"

enum { SETTLE_MS = 1000, RETRY_MS = 200, RETRY_MOST_MS = 2000, ATTEMPTS_MAX = 7 };
enum { NOTES_MAX = 16 /* of an agent; it has one to send */ };

static const bool may_follow[KOLO_REMOTE_STATES][KOLO_REMOTE_STATES] = {
    [KOLO_REMOTE_IDLE] = {[KOLO_REMOTE_CALLING] = true, [KOLO_REMOTE_GONE] = true},
    [KOLO_REMOTE_CALLING] =
        {[KOLO_REMOTE_IDLE] = true, [KOLO_REMOTE_JOINED] = true, [KOLO_REMOTE_GONE] = true},
    [KOLO_REMOTE_JOINED] =
        {[KOLO_REMOTE_PREPARED] = true, [KOLO_REMOTE_FINISHED] = true, [KOLO_REMOTE_GONE] = true},
    [KOLO_REMOTE_PREPARED] =
        {[KOLO_REMOTE_RUNNING] = true, [KOLO_REMOTE_FINISHED] = true, [KOLO_REMOTE_GONE] = true},
    [KOLO_REMOTE_RUNNING] = {[KOLO_REMOTE_FINISHED] = true, [KOLO_REMOTE_GONE] = true},
    [KOLO_REMOTE_FINISHED] = {[KOLO_REMOTE_GONE] = true},
};

static bool move(struct kolo_remote *remote, enum kolo_remote_state state)
{
    if (!may_follow[remote->state][state])
        return false;
    remote->state = state;
    return true;
}

kolo_status kolo_remote_config_init(struct kolo_remote_config *config, uv_loop_t *loop,
                                    const struct kolo_settings *settings, const char *agent)
{
    *config = (struct kolo_remote_config){.loop = loop,
                                          .ssh = settings->ssh,
                                          .start_timeout_ms = settings->start_timeout_ms,
                                          .peer_timeout_ms = settings->peer_timeout_ms};
    if (readlink("/proc/self/exe", config->own_path, sizeof config->own_path - 1) < 0)
        return kolo_fail(KOLO_ERR_SYSTEM, "cannot read /proc/self/exe; is /proc mounted?");
    config->agent = agent ? agent : config->own_path;
    return KOLO_OK;
}

void kolo_remote_init(struct kolo_remote *remote, const struct kolo_remote_config *config,
                      const struct kolo_host *host, int index)
{
    *remote = (struct kolo_remote){.config = config, .host = host, .index = index};
}

/* ---- ending ---- */

static void close_handles(struct kolo_remote *remote)
{
    if (!remote->has_handles)
        return;
    remote->has_handles = false;
    kolo_agent_channel_close(&remote->channel);
    uv_close((uv_handle_t *)&remote->errors, NULL);
}

static void go(struct kolo_remote *remote)
{
    close_handles(remote);
    if (remote->has_timer)
        uv_close((uv_handle_t *)&remote->timer, NULL);
    remote->has_timer = false;
    (void)move(remote, KOLO_REMOTE_GONE);
}

static void call_again(uv_timer_t *timer)
{
    kolo_remote_call(timer->data); /* the loop has closed the old handles by now */
}

/* Hosts behind one jump host are refused by its sshd together, which takes 10 logins at a time
 * (MaxStartups): so that they do not come again together, each has a share of its own of the
 * pause, between a half and one and a half. */
static uint64_t retry_ms(const struct kolo_remote *remote)
{
    const uint64_t wanted = (uint64_t)RETRY_MS << (remote->attempts - 1);
    const uint64_t pause = wanted < RETRY_MOST_MS ? wanted : RETRY_MOST_MS;
    const uint64_t spread = (uint64_t)remote->index * 40503 % 65536; /* by the golden ratio */
    return pause / 2 + pause * spread / 65536;
}

static bool try_again(struct kolo_remote *remote)
{
    if (remote->state != KOLO_REMOTE_CALLING || remote->is_dismissed ||
        remote->attempts >= ATTEMPTS_MAX || remote->host->is_here ||
        !kolo_remote_is_refused_by_load(remote))
        return false;
    (void)move(remote, KOLO_REMOTE_IDLE);
    close_handles(remote);
    (void)uv_timer_start(&remote->timer, call_again, retry_ms(remote), 0);
    return true;
}

/* The connection broke, but the host had been lost before: ssh noticed first. */
static bool broke_after_silence(const struct kolo_remote *remote)
{
    int64_t allowed_ms = remote->channel.silence_ms;
    return remote->channel_ended && allowed_ms > 0 &&
           remote->broken_ns - remote->lost_ns > allowed_ms / 2 * KOLO_NS_PER_MS;
}

bool kolo_remote_is_quiet(const struct kolo_remote *remote)
{
    const int64_t quiet_ns = kolo_now_ns() - remote->channel.heard_ns;
    return remote->is_silent || broke_after_silence(remote) ||
           (remote->channel.is_open && remote->channel.silence_ms > 0 &&
            quiet_ns > remote->channel.silence_ms / 2 * KOLO_NS_PER_MS);
}

static void conclude(struct kolo_remote *remote)
{
    char why[KOLO_DETAIL_MAX] = "";
    if (remote->state == KOLO_REMOTE_GONE || remote->state == KOLO_REMOTE_IDLE)
        return;
    if (try_again(remote))
        return;
    bool has_failed = remote->state != KOLO_REMOTE_FINISHED && !remote->is_dismissed;
    if (!remote->is_silent && !broke_after_silence(remote))
        remote->lost_ns = kolo_now_ns();
    if (has_failed && remote->state == KOLO_REMOTE_CALLING)
        kolo_remote_describe_call(remote, why, sizeof why);
    else if (has_failed)
        kolo_remote_describe_loss(remote, why, sizeof why);
    if (!remote->process_ended)
        kolo_remote_kill(remote);
    go(remote);
    if (has_failed)
        remote->config->events.failed(remote->config->events.context, remote, why);
    remote->config->events.gone(remote->config->events.context, remote);
}

static void looked(uv_timer_t *timer)
{
    conclude(timer->data);
}

/* A timer that is due runs before the loop looks at the streams, and this process may have been
 * held up since it was set: all that the host has said may still be there. */
static void settled(uv_timer_t *timer)
{
    (void)uv_timer_start(timer, looked, 1, 0);
}

static void settle(struct kolo_remote *remote)
{
    if (!remote->has_handles)
        return;
    if (remote->process_ended && remote->channel_ended && remote->errors_ended)
        conclude(remote);
    else if (!uv_is_active((uv_handle_t *)&remote->timer))
        (void)uv_timer_start(&remote->timer, settled, SETTLE_MS, 0);
}

static void on_channel_end(void *context, kolo_status why)
{
    struct kolo_remote *remote = context;
    remote->channel_ended = true;
    snprintf(remote->broken, sizeof remote->broken, "%s", kolo_error_detail());
    remote->is_silent = why == KOLO_ERR_TIMEOUT;
    remote->lost_ns = remote->channel.heard_ns;
    remote->broken_ns = kolo_now_ns();
    if (why == KOLO_ERR_LINK)
        settle(remote);
    else
        conclude(remote); /* silence or nonsense: no more will come */
}

bool kolo_remote_reaped(struct kolo_remote *remote, pid_t pid, int wait_status)
{
    if (remote->pid != pid || remote->process_ended || remote->state == KOLO_REMOTE_IDLE)
        return false;
    remote->process_ended = true;
    remote->wait_status = wait_status;
    settle(remote);
    return true;
}

void kolo_remote_kill(struct kolo_remote *remote)
{
    if (remote->pid <= 0 || remote->process_ended)
        return;
    if (remote->host->is_here) { /* the guardian kills the rest, even if its worker is stopped */
        (void)kolo_tree_signal(remote->pid, SIGKILL);
        (void)kill(remote->pid, SIGTERM);
        (void)kill(remote->pid, SIGCONT);
    } else {
        (void)kill(-remote->pid, SIGKILL); /* also what a script in the place of ssh has started */
    }
}

void kolo_remote_dismiss(struct kolo_remote *remote)
{
    remote->is_dismissed = true;
    if (remote->state == KOLO_REMOTE_IDLE) {
        go(remote);
        remote->config->events.gone(remote->config->events.context, remote);
    } else if (remote->state == KOLO_REMOTE_CALLING) {
        kolo_remote_kill(remote);
    } else {
        kolo_agent_channel_send(&remote->channel, KOLO_FRAME_END, NULL, 0);
    }
}

/* ---- talking ---- */

static kolo_status take_ready(struct kolo_remote *remote, const struct kolo_frame_message *message)
{
    const bool is_same = strcmp(message->ready.version, KOLO_VERSION) == 0;
    if (is_same && message->ready.protocol != KOLO_AGENT_PROTOCOL)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "runs another build of kolorun %s (protocol %u, this one has %d); install "
                         "the same",
                         KOLO_VERSION, message->ready.protocol, KOLO_AGENT_PROTOCOL);
    if (!is_same)
        return kolo_fail(KOLO_ERR_PROTOCOL, "runs kolorun %s, this one is %s; install the same",
                         message->ready.version, KOLO_VERSION);
    if (!move(remote, KOLO_REMOTE_JOINED))
        return kolo_fail(KOLO_ERR_PROTOCOL, "a second greeting");
    snprintf(remote->agent_host, sizeof remote->agent_host, "%s", message->ready.host);
    remote->agent_pid = message->ready.pid;
    kolo_agent_channel_watch(&remote->channel, remote->config->peer_timeout_ms);
    remote->config->events.joined(remote->config->events.context, remote);
    return KOLO_OK;
}

/* These frames need no credit, and nobody may read what they make kolorun say. An agent sends one
 * STARTED and one STRAY per rank at most. */
static kolo_status count_telling(struct kolo_remote *remote, enum kolo_frame_type type)
{
    if (type != KOLO_FRAME_NOTE && type != KOLO_FRAME_STARTED && type != KOLO_FRAME_STRAY)
        return KOLO_OK;
    if (remote->told++ < 2 * remote->host->ranks.count + NOTES_MAX)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_PROTOCOL, "more than an agent has to tell (%s)",
                     kolo_frame_text(type));
}

static kolo_status on_frame(void *context, enum kolo_frame_type type, struct kolo_reader *body)
{
    struct kolo_remote *remote = context;
    const struct kolo_remote_events *events = &remote->config->events;
    struct kolo_frame_message message;
    kolo_status status = kolo_frame_message_read(type, body, &message);
    if (status == KOLO_OK)
        status = count_telling(remote, type);
    if (status != KOLO_OK)
        return status;
    switch ((int)type) {
    case KOLO_FRAME_READY:
        return take_ready(remote, &message);
    case KOLO_FRAME_PREPARED:
        if (!move(remote, KOLO_REMOTE_PREPARED))
            return kolo_fail(KOLO_ERR_PROTOCOL, "PREPARED out of turn");
        events->prepared(events->context, remote);
        return KOLO_OK;
    case KOLO_FRAME_REFUSED:
        events->refused(events->context, remote, (int)message.refused.exit_status,
                        message.refused.why);
        return KOLO_OK;
    case KOLO_FRAME_DONE:
        return move(remote, KOLO_REMOTE_FINISHED)
                   ? KOLO_OK
                   : kolo_fail(KOLO_ERR_PROTOCOL, "DONE out of turn");
    case KOLO_FRAME_BEAT:
        return KOLO_OK;
    case KOLO_FRAME_STARTED:
    case KOLO_FRAME_OUTPUT:
    case KOLO_FRAME_EXITED:
    case KOLO_FRAME_WANTED:
    case KOLO_FRAME_NOTE:
    case KOLO_FRAME_STRAY:
    case KOLO_FRAME_SIGNAL:
    case KOLO_FRAME_PAUSED:
    case KOLO_FRAME_SEEN:
    case KOLO_FRAME_LOOKED:
    case KOLO_FRAME_FACTS:
    case KOLO_FRAME_TIMELINE:
        return events->message(remote, &message);
    default:
        return kolo_fail(KOLO_ERR_PROTOCOL, "%s is not for kolorun", kolo_frame_text(type));
    }
}

static void give_words_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct kolo_remote *remote = handle->data;
    size_t half = sizeof remote->words / 2;
    if (remote->words_len > half) { /* keep the newer half */
        memmove(remote->words, remote->words + remote->words_len - half, half);
        remote->words_len = half;
    }
    *buf = uv_buf_init(remote->words + remote->words_len,
                       (unsigned)(sizeof remote->words - remote->words_len));
}

static void took_words(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    (void)buf;
    struct kolo_remote *remote = stream->data;
    if (got > 0)
        remote->words_len += (size_t)got;
    if (got >= 0)
        return;
    remote->errors_ended = true;
    (void)uv_read_stop(stream);
    if (remote->process_ended || remote->channel_ended)
        settle(remote);
}

/* ---- starting ---- */

static kolo_status open_handles(struct kolo_remote *remote, int fd_in, int fd_out, int fd_errors)
{
    uv_loop_t *loop = remote->config->loop;
    kolo_frames_fini(&remote->channel.frames);
    remote->channel =
        (struct kolo_agent_channel){.frame = on_frame, .ended = on_channel_end, .context = remote};
    (void)uv_pipe_init(loop, &remote->errors, 0);
    remote->errors.data = remote;
    if (!remote->has_timer) {
        (void)uv_timer_init(loop, &remote->timer);
        remote->timer.data = remote;
        remote->has_timer = true;
    }
    remote->has_handles = true;
    kolo_status status = kolo_agent_channel_open(&remote->channel, loop, fd_in, fd_out, true);
    const int error = uv_pipe_open(&remote->errors, fd_errors);
    if (error != 0) {
        close(fd_errors);
        return kolo_fail(KOLO_ERR_SYSTEM, "watch the standard error of a host: %s",
                         uv_strerror(error));
    }
    if (uv_read_start((uv_stream_t *)&remote->errors, give_words_room, took_words) != 0)
        remote->errors_ended = true;
    return status;
}

static kolo_status spawn_call(struct kolo_remote *remote, const int fds[3])
{
    struct kolo_texts argv = {.at = NULL};
    char path[4096];
    int error = 0;
    kolo_status status = KOLO_OK;
    struct kolo_spawn spawn = {.path = "/proc/self/exe",
                               .what = "kolorun's agent",
                               .env = kolo_environment_entries(),
                               .fds = {fds[0], fds[1], fds[2]},
                               .has_own_session = true};
    if (remote->host->is_here) {
        KOLO_TRY(kolo_texts_add(&argv, "kolorun"));
        KOLO_TRY(kolo_texts_add(&argv, "--agent"));
    } else {
        const char *search = kolo_environment("PATH");
        KOLO_TRY(kolo_remote_make_command(remote->config, remote->host, &argv));
        status = kolo_program_find(argv.at[0], ".", search ? search : "/usr/bin:/bin", path,
                                   sizeof path, &error);
        if (status != KOLO_OK) {
            status = kolo_fail(status,
                               "'%s', which is to reach it, cannot be run on this machine (%s); "
                               "install an ssh client, or give --ssh COMMAND",
                               argv.at[0], strerror(error));
            goto out;
        }
        spawn.path = path;
        spawn.what = NULL;
        spawn.death_signal = SIGTERM;
    }
    spawn.argv = argv.at;
    status = kolo_spawn(&spawn, &remote->pid, &error);
out:
    kolo_texts_fini(&argv);
    return status;
}

static void close_ends(int ends[2])
{
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
}

void kolo_remote_call(struct kolo_remote *remote)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, errors[2] = {-1, -1};
    kolo_status status = KOLO_OK;
    remote->process_ended = remote->channel_ended = remote->errors_ended = false;
    remote->words_len = 0;
    remote->broken[0] = '\0';
    remote->attempts++;
    remote->called_ns = kolo_now_ns();
    (void)move(remote, KOLO_REMOTE_CALLING);
    KOLO_TRY(kolo_pipe(in));
    KOLO_TRY(kolo_pipe(out));
    KOLO_TRY(kolo_pipe(errors));
    int theirs[3] = {in[0], out[1], errors[1]};
    KOLO_TRY(spawn_call(remote, theirs));
    int fd_in = out[0], fd_out = in[1], fd_errors = errors[0];
    out[0] = in[1] = errors[0] = -1;
    status = open_handles(remote, fd_in, fd_out, fd_errors);
out:
    close_ends(in);
    close_ends(out);
    close_ends(errors);
    if (status == KOLO_OK)
        return;
    char why[KOLO_DETAIL_MAX];
    snprintf(why, sizeof why, "host %s: %s", remote->host->name, kolo_error_detail());
    kolo_remote_kill(remote);
    go(remote);
    remote->lost_ns = kolo_now_ns();
    remote->config->events.failed(remote->config->events.context, remote, why);
    remote->config->events.gone(remote->config->events.context, remote);
}

void kolo_remote_start(struct kolo_remote *remote)
{
    if (move(remote, KOLO_REMOTE_RUNNING))
        kolo_agent_channel_send(&remote->channel, KOLO_FRAME_START, NULL, 0);
}

void kolo_remote_fini(struct kolo_remote *remote)
{
    kolo_frames_fini(&remote->channel.frames);
}
