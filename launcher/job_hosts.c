// SPDX-License-Identifier: Apache-2.0
// Handles a job's hosts: calls a bounded number at a time, tells them the job, starts them when all
// are prepared, and notices their loss. Must never decide how the job ends (job_phases.c).
#include "launcher/job_state.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/job_spec.h"

enum { CALLS_MAX = 32 /* hosts that are called at the same time */ };

void kolo_job_call_hosts(struct kolo_job *job)
{
    while (job->phase == JOB_STARTING && job->called < job->hosts->count &&
           job->calling < CALLS_MAX) {
        struct kolo_remote *remote = &job->remotes[job->called++];
        job->calling++;
        kolo_remote_call(remote);
    }
}

static void on_joined(void *context, struct kolo_remote *remote)
{
    struct kolo_job *job = context;
    uint8_t *data = NULL;
    size_t bytes = 0;
    job->calling--;
    JOB_SAY(job, "kolorun: host %s: agent (pid %u on %s) is there after %.3f s", remote->host->name,
            remote->agent_pid, remote->agent_host, kolo_job_age_s(job));
    struct kolo_job_facts facts = {.options = job->options,
                                   .host = remote->host,
                                   .size = job->size,
                                   .first_host = job->hosts->at,
                                   .meeting = job->meeting};
    const kolo_status status = kolo_job_spec_pack(&facts, &data, &bytes);
    if (status == KOLO_OK) {
        kolo_agent_channel_send(&remote->channel, KOLO_FRAME_JOB, data, bytes);
        kolo_free_wiped(data, bytes);
    } else if (status == KOLO_ERR_NO_MEMORY) {
        kolo_verdict_trouble(job->verdict, kolo_now_ns(), KOLO_EXIT_SHORTAGE,
                             "cannot start: %s: %s; nothing was started", kolo_status_text(status),
                             kolo_error_detail());
        kolo_job_begin_end(job);
    } else {
        kolo_verdict_trouble(job->verdict, kolo_now_ns(), KOLO_EXIT_USAGE, "%s",
                             kolo_error_detail());
        kolo_job_begin_end(job);
    }
    kolo_job_call_hosts(job);
}

static void start_all(struct kolo_job *job)
{
    if (!kolo_job_enter(job, JOB_RUNNING, -1))
        return;
    (void)uv_timer_stop(&job->start_timer);
    JOB_SAY(job, "kolorun: %zu host%s prepared after %.3f s: starting %d rank%s", job->hosts->count,
            job->hosts->count == 1 ? "" : "s", kolo_job_age_s(job), job->size,
            job->size == 1 ? "" : "s");
    for (size_t i = 0; i < job->hosts->count; i++)
        kolo_remote_start(&job->remotes[i]);
    if (!job->options->no_input)
        kolo_job_open_input(job);
    kolo_pause_allow(&job->pause);
}

static void on_prepared(void *context, struct kolo_remote *remote)
{
    (void)remote;
    struct kolo_job *job = context;
    if (++job->prepared == job->hosts->count)
        start_all(job);
}

/* Records that a host is lost, and why; it was last heard at @p seen_ns. The ranks end with their
 * agent, and their end may have been noticed before: returns when. */
static int64_t note_host(struct kolo_job *job, const struct kolo_host *host, int64_t seen_ns,
                         int exit_status, const char *why)
{
    int64_t when_ns = kolo_verdict_evidence(job->verdict, &host->ranks, seen_ns);
    if (kolo_job_keeps_going(job))
        kolo_verdict_keep_going(job->verdict);
    if (job->phase == JOB_STARTING)
        kolo_verdict_trouble(job->verdict, when_ns, exit_status, "%s; nothing was started", why);
    else
        kolo_verdict_host(job->verdict, when_ns, exit_status, why, &host->ranks);
    if (kolo_job_keeps_going(job))
        kolo_job_tell_host_loss(job, host, why);
    return when_ns;
}

static void on_refused(void *context, struct kolo_remote *remote, int exit_status, const char *why)
{
    struct kolo_job *job = context;
    char text[KOLO_DETAIL_MAX];
    snprintf(text, sizeof text, "host %s: %s", remote->host->name, why);
    (void)note_host(job, remote->host, kolo_now_ns(), exit_status, text);
    if (!kolo_job_keeps_going(job)) /* else its ranks end, or are lost with it */
        kolo_job_begin_end(job);
}

kolo_status kolo_job_agent_signalled(struct kolo_job *job, struct kolo_remote *remote,
                                     uint32_t number)
{
    char text[KOLO_DETAIL_MAX];
    if (number != SIGTERM && number != SIGINT && number != SIGHUP)
        return kolo_fail(KOLO_ERR_PROTOCOL, "signal %u for its ranks", number);
    if (job->phase != JOB_RUNNING) /* it ends, and its ranks have the time that this takes */
        return KOLO_OK;
    const bool goes_on = kolo_job_keeps_going(job);
    snprintf(text, sizeof text, "host %s: its agent got signal %u (SIG%s)", remote->host->name,
             number, sigabbrev_np((int)number));
    job->asked.agent_ns = note_host(job, remote->host, kolo_now_ns(), KOLO_EXIT_HOST, text);
    if (goes_on)
        return KOLO_OK;
    job->asked.signal = (int)number;
    job->asked.ns = kolo_now_ns();
    kolo_job_ask(job, (int)number);
    return KOLO_OK;
}

/* If one host is silent and so are all others, this machine is the one that is cut off. */
static bool hears_nobody(const struct kolo_job *job)
{
    size_t far = 0;
    for (size_t i = 0; i < job->hosts->count; i++) {
        if (job->hosts->at[i].is_here)
            continue;
        if (!kolo_remote_is_quiet(&job->remotes[i]))
            return false;
        far++;
    }
    return far > 1;
}

static void on_failed(void *context, struct kolo_remote *remote, const char *why)
{
    struct kolo_job *job = context;
    char text[KOLO_DETAIL_MAX];
    snprintf(text, sizeof text, "%s%s", why,
             hears_nobody(job) ? ", and all other hosts are as silent (is the network of this "
                                 "machine down?)"
                               : "");
    (void)note_host(job, remote->host, remote->lost_ns,
                    kolo_remote_lacks_something(remote) ? KOLO_EXIT_SHORTAGE : KOLO_EXIT_HOST,
                    text);
    for (uint32_t i = 0; i < remote->host->ranks.count && job->phase != JOB_STARTING; i++) {
        const int rank = (int)remote->host->ranks.at[i];
        if (!kolo_verdict_has_ended(job->verdict, rank))
            kolo_meeting_died(job->meeting, rank, "was lost with its host");
    }
    if (!kolo_job_keeps_going(job))
        kolo_job_begin_end(job);
}

static void on_gone(void *context, struct kolo_remote *remote)
{
    (void)remote;
    struct kolo_job *job = context;
    job->gone++;
    kolo_job_leave_if_gone(job);
}

struct kolo_remote_events kolo_job_host_events(struct kolo_job *job)
{
    return (struct kolo_remote_events){.context = job,
                                       .joined = on_joined,
                                       .prepared = on_prepared,
                                       .refused = on_refused,
                                       .message = kolo_job_message,
                                       .failed = on_failed,
                                       .gone = on_gone};
}
