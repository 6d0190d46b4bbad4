// SPDX-License-Identifier: Apache-2.0
// The life of a job. Every host is called (a bounded number at a time), told the job, and looks
// whether it can start it; only when all can is anything started.
//
//   STARTING --all hosts prepared--> RUNNING --a failure--> GRACE --1 s--> TERM --0.3 s--> KILL
//      |  a failure                     | SIGINT...: forwarded                  --2 s--> ABANDON
//      `--> KILL                        `--> ASKED --exit timeout, a failure--> GRACE
//   any --every host done, timelines come in--> COLLECTING --every host gone--> LEAVING
//                                                   `--2 s without any--> ABANDON
//   any --every host gone--> LEAVING (what was said is written) --> the loop ends
//
// GRACE lets the other ranks, who learn of the failure within milliseconds, say what they have to
// say. It is short when no rank is connected: nobody learns of it, but who fails of the same cause
// (a bad option, which only rank 0 may put into words) is about to. In each phase hosts may become
// gone, and when all are the job leaves.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launcher/gather.h"
#include "launcher/input.h"
#include "launcher/job.h"
#include "launcher/job_spec.h"
#include "launcher/meeting.h"
#include "launcher/output.h"
#include "launcher/pause.h"
#include "launcher/remote.h"
#include "launcher/strays.h"
#include "launcher/verdict.h"
#include "runtime/timeline.h"
#include "tools/exit_status.h"

enum {
    CALLS_MAX = 32, /* hosts that are being called at a time */
    GRACE_MS = 1000,
    UNCONNECTED_GRACE_MS = 250,
    TERM_MS = 300,
    KILL_MS = 2000,
    COLLECT_MS = 2000, /* between two pieces of timelines */
    OUT = 0,
    ERR = 1
};

enum phase { STARTING, RUNNING, ASKED, GRACE, TERM, KILL, ABANDON, COLLECTING, LEAVING, PHASES };

static const bool may_follow[PHASES][PHASES] = {
    [STARTING] = {[RUNNING] = true, [KILL] = true, [LEAVING] = true},
    [RUNNING] = {[ASKED] = true,
                 [GRACE] = true,
                 [TERM] = true,
                 [KILL] = true,
                 [COLLECTING] = true,
                 [LEAVING] = true},
    [ASKED] = {[GRACE] = true, [TERM] = true, [KILL] = true, [COLLECTING] = true, [LEAVING] = true},
    [GRACE] = {[TERM] = true, [KILL] = true, [COLLECTING] = true, [LEAVING] = true},
    [TERM] = {[KILL] = true, [COLLECTING] = true, [LEAVING] = true},
    [KILL] = {[ABANDON] = true, [COLLECTING] = true, [LEAVING] = true},
    [ABANDON] = {[LEAVING] = true},
    [COLLECTING] = {[COLLECTING] = true, [KILL] = true, [ABANDON] = true, [LEAVING] = true},
};

struct job {
    uv_loop_t loop;
    const struct kolo_options *options;
    const struct kolo_hosts *hosts;
    int size;
    enum phase phase;
    uv_timer_t phase_timer, start_timer, job_timer;
    uv_signal_t child, signals[3];
    struct kolo_pause pause;
    struct kolo_remote_config remote_config;
    struct kolo_remote *remotes;
    size_t called, calling, prepared, gone;
    struct kolo_meeting *meeting;
    struct kolo_verdict *verdict;
    struct kolo_output *streams[2];
    struct kolo_input *input;
    struct kolo_gather *gather; /* NULL: no timeline */
    char verdict_line[2 * KOLO_DETAIL_MAX];
    int64_t began_ns;
    int exit_status;
    bool has_started, is_joined, is_quiet, said_verdict, said_stray;
};

static const int watched_signals[3] = {SIGINT, SIGTERM, SIGHUP};

/* ---- saying ---- */

#define SAY(job, ...)                                                                              \
    do {                                                                                           \
        if ((job)->options->verbose)                                                               \
            kolo_output_print((job)->streams[ERR], __VA_ARGS__);                                   \
    } while (0)

static double age_s(const struct job *job)
{
    return (double)(kolo_now_ns() - job->began_ns) / 1e9;
}

/* ---- phases ---- */

static void on_phase_end(uv_timer_t *timer);
static void leave_if_gone(struct job *job);
static void on_input(void *context, const void *data, size_t bytes);

/* Shall the others go on without a rank that was lost? Not before all have met: nobody could. */
static bool keeps_going(const struct job *job)
{
    return job->options->keep_going && job->is_joined && job->phase == RUNNING;
}

static bool enter(struct job *job, enum phase phase, int64_t limit_ms)
{
    if (!may_follow[job->phase][phase])
        return false;
    job->phase = phase;
    (void)uv_timer_stop(&job->phase_timer);
    if (limit_ms >= 0)
        (void)uv_timer_start(&job->phase_timer, on_phase_end, (uint64_t)limit_ms, 0);
    return true;
}

static void signal_all(struct job *job, int number)
{
    for (size_t i = 0; i < job->hosts->count; i++)
        if (job->remotes[i].state == KOLO_REMOTE_RUNNING)
            kolo_channel_send_u32(&job->remotes[i].channel, KOLO_FRAME_SIGNAL, (uint32_t)number);
}

static void kill_all(struct job *job)
{
    if (!enter(job, KILL, KILL_MS))
        return;
    kolo_pause_forbid(&job->pause);
    kolo_verdict_sends(job->verdict, SIGTERM);
    kolo_verdict_sends(job->verdict, SIGKILL);
    (void)uv_timer_stop(&job->start_timer);
    for (size_t i = 0; i < job->hosts->count; i++)
        if (job->remotes[i].state != KOLO_REMOTE_GONE)
            kolo_remote_dismiss(&job->remotes[i]);
}

static void terminate(struct job *job)
{
    if (!enter(job, TERM, TERM_MS))
        return;
    kolo_verdict_sends(job->verdict, SIGTERM);
    signal_all(job, SIGTERM);
}

/* Something failed: the others may speak, then they are ended. */
static void begin_end(struct job *job)
{
    kolo_pause_forbid(&job->pause);
    if (job->phase == STARTING)
        kill_all(job);
    else if (job->phase == RUNNING || job->phase == ASKED)
        (void)enter(job, GRACE,
                    kolo_meeting_connected(job->meeting) > 0 ? GRACE_MS : UNCONNECTED_GRACE_MS);
}

static void abandon(struct job *job)
{
    if (!enter(job, ABANDON, KILL_MS))
        return;
    for (size_t i = 0; i < job->hosts->count; i++)
        kolo_remote_kill(&job->remotes[i]);
}

static void on_phase_end(uv_timer_t *timer)
{
    struct job *job = timer->data;
    switch ((int)job->phase) {
    case ASKED:
        begin_end(job);
        break;
    case GRACE:
        terminate(job);
        break;
    case TERM:
        kill_all(job);
        break;
    case KILL:
    case COLLECTING:
        abandon(job);
        break;
    case ABANDON:
        (void)enter(job, LEAVING, -1);
        uv_stop(&job->loop);
        break;
    default:
        break;
    }
}

static bool is_drained(struct job *job)
{
    return kolo_output_is_drained(job->streams[OUT]) && kolo_output_is_drained(job->streams[ERR]);
}

/* Everything is gone; once what it said is written, the verdict follows, then the loop ends. */
static void leave(struct job *job)
{
    if (job->phase < COLLECTING || !is_drained(job))
        return;
    if (!job->said_verdict) {
        job->said_verdict = true;
        job->exit_status =
            kolo_verdict_finish(job->verdict, job->verdict_line, sizeof job->verdict_line);
        if (job->verdict_line[0] && !job->is_quiet) {
            kolo_output_print(job->streams[ERR], "kolorun: %s", job->verdict_line);
            return;
        }
    }
    if (job->phase == LEAVING)
        uv_stop(&job->loop);
}

static void leave_if_gone(struct job *job)
{
    if (job->gone == job->hosts->count && enter(job, LEAVING, -1))
        leave(job);
}

/* ---- hosts ---- */

static void call_hosts(struct job *job)
{
    while (job->phase == STARTING && job->called < job->hosts->count && job->calling < CALLS_MAX) {
        struct kolo_remote *remote = &job->remotes[job->called++];
        job->calling++;
        kolo_remote_call(remote);
    }
}

static void on_joined(void *context, struct kolo_remote *remote)
{
    struct job *job = context;
    uint8_t *data = NULL;
    size_t bytes = 0;
    job->calling--;
    SAY(job, "kolorun: host %s: agent (pid %u on %s) is there after %.3f s", remote->host->name,
        remote->agent_pid, remote->agent_host, age_s(job));
    struct kolo_job_facts facts = {.options = job->options,
                                   .host = remote->host,
                                   .size = job->size,
                                   .first_host = job->hosts->at,
                                   .meeting = job->meeting};
    if (kolo_job_spec_pack(&facts, &data, &bytes) == KOLO_OK) {
        kolo_channel_send(&remote->channel, KOLO_FRAME_JOB, data, bytes);
        explicit_bzero(data, bytes);
        kolo_free_memory(data);
    } else {
        kolo_verdict_trouble(job->verdict, kolo_now_ns(), KOLO_EXIT_USAGE, "%s",
                             kolo_error_detail());
        begin_end(job);
    }
    call_hosts(job);
}

static void start_all(struct job *job)
{
    if (!enter(job, RUNNING, -1))
        return;
    (void)uv_timer_stop(&job->start_timer);
    SAY(job, "kolorun: %zu host%s prepared after %.3f s: starting %d rank%s", job->hosts->count,
        job->hosts->count == 1 ? "" : "s", age_s(job), job->size, job->size == 1 ? "" : "s");
    for (size_t i = 0; i < job->hosts->count; i++)
        kolo_remote_start(&job->remotes[i]);
    if (!job->options->no_input &&
        kolo_input_create(&job->loop, STDIN_FILENO, on_input, job, &job->input) != KOLO_OK)
        kolo_output_print(job->streams[ERR], "kolorun: %s: rank 0 gets none", kolo_error_detail());
    kolo_pause_allow(&job->pause);
}

static void on_prepared(void *context, struct kolo_remote *remote)
{
    (void)remote;
    struct job *job = context;
    if (++job->prepared == job->hosts->count)
        start_all(job);
}

/* What comes of it for the job that a host is not there. */
static const char *words_of_end(const struct job *job)
{
    if (job->phase == STARTING)
        return "nothing was started";
    return keeps_going(job) ? "the others went on" : "the job was ended";
}

static void on_refused(void *context, struct kolo_remote *remote, int exit_status, const char *why)
{
    struct job *job = context;
    /* An agent that ends takes its ranks with it, and they may be missed before it is heard. */
    int64_t when_ns = kolo_verdict_evidence(job->verdict, remote->host->first_rank,
                                            remote->host->ranks, kolo_now_ns());
    kolo_verdict_trouble(job->verdict, when_ns, exit_status, "host %s: %s; %s", remote->host->name,
                         why, words_of_end(job));
    if (!keeps_going(job)) /* else its ranks are heard to end, or are lost with it */
        begin_end(job);
}

static void on_failed(void *context, struct kolo_remote *remote, const char *why)
{
    struct job *job = context;
    int64_t when_ns = kolo_verdict_evidence(job->verdict, remote->host->first_rank,
                                            remote->host->ranks, remote->lost_ns);
    kolo_verdict_trouble(job->verdict, when_ns, KOLO_EXIT_HOST, "%s; %s", why, words_of_end(job));
    for (int i = 0; i < remote->host->ranks && job->phase != STARTING; i++) {
        int rank = remote->host->first_rank + i;
        if (!kolo_verdict_has_ended(job->verdict, rank))
            kolo_meeting_died(job->meeting, rank, "was lost with its host");
    }
    if (!keeps_going(job))
        begin_end(job);
}

static void on_gone(void *context, struct kolo_remote *remote)
{
    (void)remote;
    struct job *job = context;
    job->gone++;
    leave_if_gone(job);
}

/* ---- ranks ---- */

static bool is_of(const struct kolo_remote *remote, uint32_t rank)
{
    return rank >= (uint32_t)remote->host->first_rank &&
           rank - (uint32_t)remote->host->first_rank < (uint32_t)remote->host->ranks;
}

static void tell_death(struct job *job, const struct kolo_outcome *outcome)
{
    char how[256];
    kolo_outcome_text(outcome, how, sizeof how);
    kolo_meeting_died(job->meeting, (int)outcome->rank, how);
}

static void on_started(struct job *job, struct kolo_remote *remote, uint32_t rank, uint32_t pid)
{
    job->has_started = true;
    kolo_verdict_started(job->verdict, (int)rank, remote->host->name, pid);
    SAY(job, "kolorun: rank %u started on %s (pid %u) after %.3f s", rank, remote->host->name, pid,
        age_s(job));
}

static void on_exited(struct job *job, const struct kolo_outcome *outcome)
{
    int rank = (int)outcome->rank;
    bool has_failed = kolo_verdict_ended(job->verdict, outcome, kolo_now_ns());
    /* One that was never connected, or whose connection fell before, will not be heard of again. Of
     * one whose connection stands, its own fall tells: a process that it left may have it. */
    bool has_deserted = !kolo_verdict_has_left(job->verdict, rank) &&
                        !kolo_meeting_is_here(job->meeting, rank) &&
                        (!job->is_joined || kolo_verdict_is_deserter(job->verdict, rank));
    if ((has_failed || has_deserted) && job->phase < TERM) /* then nobody is left to tell */
        tell_death(job, outcome);
    if (has_failed && !job->is_joined && kolo_meeting_has_come(job->meeting, rank))
        kolo_verdict_waited(job->verdict);
    if (has_failed && keeps_going(job)) {
        kolo_verdict_keep_going(job->verdict);
        SAY(job, "kolorun: rank %d failed after %.3f s; the others go on (--keep-going)", rank,
            age_s(job));
    } else if (has_failed) {
        begin_end(job);
    }
}

/* A rank that went on in the background is not waited for, as by mpirun and srun: the job is ended
 * as if it had failed. What is not of kolo, or was left by a rank that had done with it, does not
 * fail a job that ended well. */
static kolo_status on_stray(struct job *job, struct kolo_remote *remote, struct kolo_reader *body)
{
    struct kolo_stray stray;
    char how[128];
    kolo_status status = kolo_stray_read(body, &stray);
    if (status != KOLO_OK || !is_of(remote, stray.rank))
        return kolo_fail(KOLO_ERR_PROTOCOL, "a malformed STRAY");
    const int rank = (int)stray.rank;
    if (kolo_verdict_has_left(job->verdict, rank))
        return KOLO_OK;
    if (stray.is_of_kolo || kolo_meeting_is_here(job->meeting, rank)) {
        snprintf(how, sizeof how, "went on as the rank (process %u, %s)", stray.pid, stray.name);
        kolo_verdict_strayed(job->verdict, rank, how);
        if (!keeps_going(job))
            begin_end(job);
    } else if (!job->said_stray) {
        job->said_stray = true;
        kolo_output_print(job->streams[ERR],
                          "kolorun: rank %d left process %u (%s) in the background on %s; it is "
                          "ended with the job",
                          rank, stray.pid, stray.name, remote->host->name);
    } else {
        SAY(job, "kolorun: rank %d left process %u (%s) on %s", rank, stray.pid, stray.name,
            remote->host->name);
    }
    return KOLO_OK;
}

static void on_output(struct job *job, struct kolo_remote *remote, uint32_t rank,
                      struct kolo_reader *body)
{
    unsigned stream = kolo_read_u8(body);
    size_t bytes = kolo_reader_left(body);
    kolo_output_lines(job->streams[stream == 2 ? ERR : OUT], remote->index,
                      job->options->no_prefix ? -1 : (int)rank, body->at, bytes);
}

static kolo_status on_note(struct job *job, struct kolo_remote *remote, struct kolo_reader *body)
{
    kolo_output_print(job->streams[ERR], "kolorun: host %s: %.*s", remote->host->name,
                      (int)(kolo_reader_left(body) > 200 ? 200 : kolo_reader_left(body)),
                      (const char *)body->at);
    return KOLO_OK;
}

/* Nothing of the job is left but what its ranks have kept of their calls. */
static bool are_done(const struct job *job)
{
    for (size_t i = 0; i < job->hosts->count; i++)
        if (job->remotes[i].state < KOLO_REMOTE_FINISHED)
            return false;
    return true;
}

static kolo_status on_timeline(struct job *job, uint32_t rank, struct kolo_reader *body)
{
    kolo_status status = kolo_gather_take(job->gather, (int)rank, body->at, kolo_reader_left(body));
    if (status != KOLO_OK || !are_done(job))
        return status;
    if (enter(job, COLLECTING, COLLECT_MS)) {
        (void)uv_timer_stop(&job->job_timer);
        leave(job);
    }
    return KOLO_OK;
}

static kolo_status on_frame(void *context, enum kolo_frame_type type, struct kolo_reader *body)
{
    struct kolo_remote *remote = context;
    struct job *job = remote->config->events.context;
    if (type == KOLO_FRAME_NOTE)
        return on_note(job, remote, body);
    if (type == KOLO_FRAME_EXITED) {
        struct kolo_outcome outcome;
        kolo_outcome_read(body, &outcome);
        kolo_status status = kolo_reader_finish(body, "an agent's EXITED");
        if (status != KOLO_OK || !is_of(remote, outcome.rank))
            return kolo_fail(KOLO_ERR_PROTOCOL, "a malformed EXITED");
        on_exited(job, &outcome);
        return KOLO_OK;
    }
    if (type == KOLO_FRAME_STRAY)
        return on_stray(job, remote, body);
    if (type == KOLO_FRAME_FACTS)
        return kolo_fail(KOLO_ERR_PROTOCOL, "FACTS of a job");
    uint32_t value = kolo_read_u32(body);
    if (type == KOLO_FRAME_WANTED) {
        if (job->input)
            kolo_input_taken(job->input, value);
    } else if (type == KOLO_FRAME_PAUSED) {
        kolo_pause_answered(&job->pause, remote, value);
    } else if (!is_of(remote, value)) {
        return kolo_fail(KOLO_ERR_PROTOCOL, "%s for rank %u", kolo_frame_text(type), value);
    } else if (type == KOLO_FRAME_TIMELINE) {
        return on_timeline(job, value, body);
    } else if (type == KOLO_FRAME_STARTED) {
        on_started(job, remote, value, kolo_read_u32(body));
    } else {
        on_output(job, remote, value, body);
    }
    return body->failed ? kolo_fail(KOLO_ERR_PROTOCOL, "a short %s", kolo_frame_text(type))
                        : KOLO_OK;
}

/* ---- the store ---- */

static void on_joined_all(void *context)
{
    struct job *job = context;
    job->is_joined = true;
    SAY(job, "kolorun: all %d rank%s met after %.3f s", job->size, job->size == 1 ? "" : "s",
        age_s(job));
}

static void on_came(void *context, int rank)
{
    struct job *job = context;
    if (!kolo_verdict_ended_well(job->verdict, rank))
        return;
    kolo_verdict_strayed(job->verdict, rank, "called kolo_init");
    if (!keeps_going(job))
        begin_end(job);
}

static void on_left(void *context, int rank)
{
    struct job *job = context;
    kolo_verdict_left(job->verdict, rank);
}

static void on_lost(void *context, int rank)
{
    struct job *job = context;
    kolo_verdict_lost(job->verdict, rank, kolo_now_ns());
    if (kolo_verdict_is_deserter(job->verdict, rank))
        kolo_meeting_died(job->meeting, rank, "exited with status 0 without kolo_finalize");
}

static void on_notice(void *context, const char *text)
{
    struct job *job = context;
    kolo_output_print(job->streams[ERR], "kolorun: %s", text);
}

/* ---- output and input ---- */

static void on_written(void *context, int owner, size_t bytes)
{
    struct job *job = context;
    job->remotes[owner].owed += bytes;
}

static void pay_credit(struct job *job)
{
    for (size_t i = 0; i < job->hosts->count; i++) {
        struct kolo_remote *remote = &job->remotes[i];
        if (remote->owed == 0)
            continue;
        if (remote->state == KOLO_REMOTE_RUNNING)
            kolo_channel_send_u32(&remote->channel, KOLO_FRAME_CREDIT, (uint32_t)remote->owed);
        remote->owed = 0;
    }
}

static void on_batch(void *context)
{
    pay_credit(context);
}

static void on_drained(void *context)
{
    leave(context);
}

static void on_stdout_broken(void *context, int error)
{
    struct job *job = context;
    char words[96];
    if (error == EPIPE) {
        job->is_quiet = true; /* as a program that SIGPIPE ends: `kolorun ... | head` */
        kolo_verdict_trouble(job->verdict, kolo_now_ns(), KOLO_EXIT_SIGNAL + SIGPIPE,
                             "nobody reads the output");
    } else {
        kolo_verdict_trouble(job->verdict, kolo_now_ns(), EXIT_FAILURE,
                             "the output cannot be written: %s",
                             strerror_r(error, words, sizeof words));
    }
    kill_all(job);
}

static void on_stderr_broken(void *context, int error)
{
    (void)context; /* nobody to tell; the job goes on */
    (void)error;
}

static void on_input(void *context, const void *data, size_t bytes)
{
    struct job *job = context;
    if (job->remotes[0].state == KOLO_REMOTE_RUNNING)
        kolo_channel_send(&job->remotes[0].channel, KOLO_FRAME_INPUT, data, bytes);
    else if (bytes > 0)
        kolo_input_taken(job->input, bytes);
}

/* ---- time and signals ---- */

static void on_start_timeout(uv_timer_t *timer)
{
    struct job *job = timer->data;
    char names[256] = "";
    size_t used = 0, missing = 0;
    for (size_t i = 0; i < job->hosts->count; i++) {
        if (job->remotes[i].state >= KOLO_REMOTE_PREPARED)
            continue;
        if (missing++ < 4)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.50s", used ? ", " : "",
                                     job->hosts->at[i].name);
    }
    kolo_verdict_trouble(
        job->verdict, kolo_now_ns(), KOLO_EXIT_HOST,
        "host%s %s%s: no answer within %.1f s (--start-timeout); nothing was started",
        missing == 1 ? "" : "s", names, missing > 4 ? " and others" : "",
        (double)job->options->settings.start_timeout_ms / 1000);
    kill_all(job);
}

static void on_job_timeout(uv_timer_t *timer)
{
    struct job *job = timer->data;
    char text[128];
    snprintf(text, sizeof text, "the job did not end within %.1f s (--timeout)",
             (double)job->options->settings.job_timeout_ms / 1000);
    kolo_verdict_trouble(job->verdict, kolo_now_ns(), KOLO_EXIT_TIMEOUT, "%s; it was ended", text);
    kolo_meeting_abort(job->meeting, KOLO_ERR_TIMEOUT, text);
    begin_end(job);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct job *job = handle->data;
    if (job->phase == COLLECTING) { /* the user does not want to wait for the rest */
        kill_all(job);
        return;
    }
    kolo_verdict_trouble(job->verdict, kolo_now_ns(), KOLO_EXIT_SIGNAL + number,
                         "stopped by signal %d (SIG%s); the job was ended", number,
                         sigabbrev_np(number));
    if (job->phase == LEAVING) { /* nobody reads what is left, and the user does not want to wait */
        job->exit_status = KOLO_EXIT_SIGNAL + number;
        uv_stop(&job->loop);
    } else if (job->phase == RUNNING) {
        kolo_pause_forbid(&job->pause);
        (void)enter(job, ASKED, job->options->settings.exit_timeout_ms);
        signal_all(job, number);
    } else {
        kill_all(job);
    }
}

static void on_child(uv_signal_t *handle, int number)
{
    (void)number;
    struct job *job = handle->data;
    int wait_status;
    for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;)
        for (size_t i = 0; i < job->hosts->count; i++)
            if (kolo_remote_reaped(&job->remotes[i], pid, wait_status))
                break;
}

/* ---- beginning and end ---- */

static void init_timer(struct job *job, uv_timer_t *timer)
{
    (void)uv_timer_init(&job->loop, timer);
    timer->data = job;
}

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static void init_handles(struct job *job)
{
    const struct kolo_settings *settings = &job->options->settings;
    init_timer(job, &job->phase_timer);
    init_timer(job, &job->start_timer);
    init_timer(job, &job->job_timer);
    (void)uv_timer_start(&job->start_timer, on_start_timeout, (uint64_t)settings->start_timeout_ms,
                         0);
    if (settings->job_timeout_ms > 0)
        (void)uv_timer_start(&job->job_timer, on_job_timeout, (uint64_t)settings->job_timeout_ms,
                             0);
    for (int i = 0; i < 3; i++) {
        (void)uv_signal_init(&job->loop, &job->signals[i]);
        job->signals[i].data = job;
        if (watched_signals[i] != SIGHUP || !is_ignored(SIGHUP)) /* nohup */
            (void)uv_signal_start(&job->signals[i], on_signal, watched_signals[i]);
    }
    (void)uv_signal_init(&job->loop, &job->child);
    job->child.data = job;
    (void)uv_signal_start(&job->child, on_child, SIGCHLD);
}

static kolo_status open_streams(struct job *job)
{
    struct kolo_output_events events = {.context = job,
                                        .written = on_written,
                                        .batch = on_batch,
                                        .drained = on_drained,
                                        .broken = on_stdout_broken};
    kolo_status status = kolo_output_create(&job->loop, STDOUT_FILENO, &events, &job->streams[OUT]);
    events.broken = on_stderr_broken;
    if (status == KOLO_OK)
        status = kolo_output_create(&job->loop, STDERR_FILENO, &events, &job->streams[ERR]);
    return status;
}

static kolo_status open_meeting(struct job *job)
{
    bool is_local = true;
    for (size_t i = 0; i < job->hosts->count; i++)
        is_local = is_local && job->hosts->at[i].is_here;
    struct kolo_store_server_events events = {.context = job,
                                              .joined = on_joined_all,
                                              .came = on_came,
                                              .left = on_left,
                                              .lost = on_lost,
                                              .notice = on_notice};
    return kolo_meeting_create(&job->loop, job->size, is_local, &job->options->settings, &events,
                               &job->meeting);
}

static kolo_status open_remotes(struct job *job)
{
    kolo_status status = kolo_remote_config_init(&job->remote_config, &job->loop,
                                                 &job->options->settings, job->options->agent);
    if (status != KOLO_OK)
        return status;
    job->remote_config.events = (struct kolo_remote_events){.context = job,
                                                            .joined = on_joined,
                                                            .prepared = on_prepared,
                                                            .refused = on_refused,
                                                            .frame = on_frame,
                                                            .failed = on_failed,
                                                            .gone = on_gone};
    job->remotes = kolo_calloc(job->hosts->count, sizeof job->remotes[0]);
    if (!job->remotes)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < job->hosts->count; i++)
        kolo_remote_init(&job->remotes[i], &job->remote_config, &job->hosts->at[i], (int)i);
    kolo_pause_init(&job->pause, &job->loop, job->remotes, job->hosts->count);
    return KOLO_OK;
}

static kolo_status open_job(struct job *job)
{
    kolo_status status = KOLO_OK;
    KOLO_TRY(kolo_verdict_create(job->size, &job->verdict));
    KOLO_TRY(open_streams(job));
    KOLO_TRY(open_meeting(job));
    KOLO_TRY(open_remotes(job));
out:
    return status;
}

static void close_left(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_job(struct job *job)
{
    kolo_meeting_close(job->meeting);
    kolo_input_close(job->input);
    kolo_output_close(job->streams[OUT]);
    kolo_output_close(job->streams[ERR]);
    uv_walk(&job->loop, close_left, NULL);
    (void)uv_run(&job->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&job->loop);
    for (size_t i = 0; job->remotes && i < job->hosts->count; i++)
        kolo_remote_fini(&job->remotes[i]);
    kolo_free_memory(job->remotes);
    kolo_meeting_destroy(job->meeting);
    kolo_input_destroy(job->input);
    kolo_output_destroy(job->streams[OUT]);
    kolo_output_destroy(job->streams[ERR]);
    kolo_verdict_destroy(job->verdict);
}

/* The exit status once the trace, if there is to be one, is written. Of a job that was refused
 * there is none, and one that is there stays. */
static int end_timeline(struct job *job)
{
    int exit_status = job->exit_status;
    if (job->gather && !job->has_started) {
        if (!job->is_quiet)
            fprintf(stderr, "kolorun: timeline: nothing was started; %s is as it was\n",
                    job->options->timeline);
    } else if (job->gather &&
               kolo_gather_finish(job->gather, job->verdict_line, job->is_quiet) != KOLO_OK) {
        fprintf(stderr, "kolorun: no timeline: %s\n", kolo_error_detail());
        exit_status = exit_status != 0 ? exit_status : EXIT_STATUS_FAILED;
    }
    kolo_gather_destroy(job->gather);
    return exit_status;
}

int kolo_job_run(const struct kolo_options *options, const struct kolo_hosts *hosts, int size)
{
    struct job job = {.options = options, .hosts = hosts, .size = size, .phase = STARTING};
    if (options->timeline &&
        kolo_gather_create(options->timeline, size, kolo_options_timeline_calls(options, size),
                           &job.gather) != KOLO_OK) {
        fprintf(stderr, "kolorun: %s\n", kolo_error_detail());
        return KOLO_EXIT_USAGE;
    }
    if (options->timeline && options->settings.timeline[0] != '\0' &&
        !kolo_timeline_is_lent(&options->settings))
        fprintf(stderr,
                "kolorun: warning: KOLO_TIMELINE=%s makes no files beside --timeline; unset one\n",
                options->settings.timeline);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGTTIN, SIG_IGN);
    job.began_ns = kolo_now_ns();
    if (uv_loop_init(&job.loop) != 0) {
        fprintf(stderr, "kolorun: cannot make an event loop\n");
        kolo_gather_destroy(job.gather);
        return 1;
    }
    init_handles(&job);
    kolo_status status = open_job(&job);
    if (status == KOLO_OK) {
        call_hosts(&job);
        (void)uv_run(&job.loop, UV_RUN_DEFAULT);
    } else {
        fprintf(stderr, "kolorun: cannot start: %s: %s\n", kolo_status_text(status),
                kolo_error_detail());
        job.exit_status = exit_status_of(status);
    }
    close_job(&job);
    return end_timeline(&job);
}

void kolo_job_print(const struct kolo_options *options, const struct kolo_hosts *hosts, int size)
{
    struct kolo_remote_config config = {.ssh = options->settings.ssh,
                                        .agent = options->agent ? options->agent : "(this kolorun)",
                                        .start_timeout_ms = options->settings.start_timeout_ms,
                                        .peer_timeout_ms = options->settings.peer_timeout_ms};
    printf("%d rank%s of %s on %zu host%s\n", size, size == 1 ? "" : "s", options->program[0],
           hosts->count, hosts->count == 1 ? "" : "s");
    for (size_t i = 0; i < hosts->count; i++) {
        const struct kolo_host *host = &hosts->at[i];
        struct kolo_texts argv = {.at = NULL};
        if (!host->is_here)
            kolo_remote_command(&config, host, &argv);
        printf("%s: rank%s %d", host->name, host->ranks == 1 ? "" : "s", host->first_rank);
        if (host->ranks > 1)
            printf(" to %d", host->first_rank + host->ranks - 1);
        printf(host->is_here ? " (this machine)" : " by");
        for (size_t j = 0; j < argv.count; j++)
            printf(" %s", argv.at[j]);
        printf("\n");
        kolo_texts_fini(&argv);
    }
}
