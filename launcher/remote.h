// SPDX-License-Identifier: Apache-2.0
// One host as kolorun sees it: the process that leads there (ssh, or the agent itself on this
// machine), the channel to the agent, and its output on standard error.
//
//   IDLE --call--> CALLING --READY--> JOINED --PREPARED--> PREPARED --start--> RUNNING
//     RUNNING --DONE--> FINISHED;  any --process and channel ended--> GONE
//
// GONE without FINISHED is a failure, unless the host was dismissed; it is reported once, with a
// reason.
#ifndef KOLO_LAUNCHER_REMOTE_H
#define KOLO_LAUNCHER_REMOTE_H

#include <uv.h>

#include "base/settings.h"
#include "launcher/agent_channel.h"
#include "launcher/hosts.h"
#include "launcher/messages.h"

enum kolo_remote_state {
    KOLO_REMOTE_IDLE,
    KOLO_REMOTE_CALLING,
    KOLO_REMOTE_JOINED,
    KOLO_REMOTE_PREPARED,
    KOLO_REMOTE_RUNNING,
    KOLO_REMOTE_FINISHED,
    KOLO_REMOTE_GONE,
    KOLO_REMOTE_STATES
};

struct kolo_remote;
/** All are called on the loop. */
struct kolo_remote_events {
    void *context;
    void (*joined)(void *context, struct kolo_remote *remote);
    void (*prepared)(void *context, struct kolo_remote *remote);
    /** It will not start its ranks; @p exit_status is what kolorun is to end with (126, 127, 2 or
     * 1). */
    void (*refused)(void *context, struct kolo_remote *remote, int exit_status, const char *why);
    /** STARTED, OUTPUT, EXITED, WANTED, NOTE, STRAY, PAUSED, SEEN, LOOKED, FACTS, TIMELINE. */
    kolo_status (*message)(struct kolo_remote *remote, const struct kolo_frame_message *message);
    void (*failed)(void *context, struct kolo_remote *remote, const char *why);
    void (*gone)(void *context, struct kolo_remote *remote);
};
/** Shared by all hosts of a job; must outlive them. */
struct kolo_remote_config {
    uv_loop_t *loop;
    const char *ssh;   /* the ssh command, split at blanks */
    const char *agent; /* path of kolorun on the hosts */
    int64_t start_timeout_ms, peer_timeout_ms;
    struct kolo_remote_events events;
    char own_path[4096]; /* path of this kolorun, which is used there too unless another is given */
};

enum { KOLO_REMOTE_WORDS = 2048 };

struct kolo_remote {
    const struct kolo_remote_config *config;
    const struct kolo_host *host;
    int index;
    enum kolo_remote_state state;
    struct kolo_agent_channel channel;
    uv_pipe_t errors;
    uv_timer_t timer;
    char words[KOLO_REMOTE_WORDS]; /* the end of its output on standard error */
    size_t words_len;
    bool has_handles, has_timer, is_dismissed, is_silent, process_ended, channel_ended,
        errors_ended;
    int attempts;
    pid_t pid; /* ssh, or the agent's guardian */
    int wait_status;
    uint32_t agent_pid;
    int64_t called_ns;
    int64_t lost_ns;   /* when it failed: now, or when a silent one was last heard */
    int64_t broken_ns; /* when the channel ended */
    char agent_host[KOLO_HOST_MAX];
    char broken[256];    /* why the channel ended */
    uint64_t written[2]; /* bytes of output written: to kolorun's own streams, to files */
    uint64_t taken;      /* bytes of output that came */
    uint32_t told;       /* frames that may each have put a line into kolorun's output */
    uint64_t paid;       /* and those of them for which credit was returned */
    uint64_t rest;       /* bytes that may come without, since its ranks are killed */
};

/** Fills in how a job's settings say that hosts are reached. @p agent NULL: by this program's own
 * path. The caller sets the events. *config must not be moved afterwards. ERR_SYSTEM: /proc is not
 * available. */
kolo_status kolo_remote_config_init(struct kolo_remote_config *config, uv_loop_t *loop,
                                    const struct kolo_settings *settings, const char *agent);
void kolo_remote_init(struct kolo_remote *remote, const struct kolo_remote_config *config,
                      const struct kolo_host *host, int index);
/** Starts ssh or the agent. A failure is reported by an event. */
void kolo_remote_call(struct kolo_remote *remote);
void kolo_remote_start(struct kolo_remote *remote);
/** Asks the host to end; nothing that it does afterwards is a failure. Sends END if an agent
 * listens; if the host has not been reached yet, closes the connection. */
void kolo_remote_dismiss(struct kolo_remote *remote);
/** Disconnects at once: kills ssh, or every process of the agent if it is on this machine. */
void kolo_remote_kill(struct kolo_remote *remote);
/** Whether it was lost because of silence, or has been silent for half the time that this takes. */
bool kolo_remote_is_quiet(const struct kolo_remote *remote);
/** A child of this process has ended; returns true if it was this host's. */
bool kolo_remote_reaped(struct kolo_remote *remote, pid_t pid, int wait_status);
/** Whether it could be reached, but its agent lacks something that it needs to start. */
bool kolo_remote_lacks_something(const struct kolo_remote *remote);
/** Writes what a host that has not answered yet printed last, in quotes: it may say what it waits
 * for. "": nothing. */
void kolo_remote_quote(const struct kolo_remote *remote, char *text, size_t capacity);
/** Writes the command line that reaches the host, for people to read. */
void kolo_remote_command(const struct kolo_remote_config *config, const struct kolo_host *host,
                         struct kolo_texts *argv);
/** To be called after the loop has run. */
void kolo_remote_fini(struct kolo_remote *remote);

#endif
