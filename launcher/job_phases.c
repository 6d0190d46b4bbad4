// SPDX-License-Identifier: Apache-2.0
// The phases of a job: which may follow which, how long each may last, and what is done to all
// hosts when it begins. Must never know why: whoever notices a failure tells the verdict, then
// begins the end.
//
//   STARTING --all hosts prepared--> RUNNING --a failure--> GRACE --1 s--> TERM --0.3 s--> KILL
//      |  a failure                     | SIGINT...: forwarded                  --2 s--> ABANDON
//      `--> KILL                        `--> ASKED --exit timeout, job timeout--> GRACE
//   RUNNING --output broken for 0.2 s, and no signal came--> KILL
//   any --every host done, timelines come in--> COLLECTING --every host gone--> LEAVING
//                                                   `--2 s without any--> ABANDON
//   any --every host gone--> LEAVING (what was said is written) --> the loop ends
//   ABANDON --2 s--> LEAVING (1 s)
//
// In ASKED ranks that fail do not shorten the time of the others: most die of the signal at
// once, and one (rank 0, often) saves what it has. GRACE gives the other ranks, which learn of
// the failure within milliseconds, time to report it. It is short if no rank is connected: then
// no rank learns of it, but ranks that fail for the same cause (a bad option, which perhaps only
// rank 0 reports) are about to. It is not short while hosts are asked what their ranks do. Hosts
// may go in any phase; when all are gone, the job leaves. It waits as long as a reader of its
// output does (a pager), but only for the exit timeout if the time of the job was over, or a
// signal ended it.
#include "launcher/job_state.h"

#include <signal.h>

enum { GRACE_MS = 1000, UNCONNECTED_GRACE_MS = 250, TERM_MS = 300, KILL_MS = 2000, LAST_MS = 1000 };

static const bool may_follow[JOB_PHASES][JOB_PHASES] = {
    [JOB_STARTING] = {[JOB_RUNNING] = true, [JOB_KILL] = true, [JOB_LEAVING] = true},
    [JOB_RUNNING] = {[JOB_ASKED] = true,
                     [JOB_GRACE] = true,
                     [JOB_TERM] = true,
                     [JOB_KILL] = true,
                     [JOB_COLLECTING] = true,
                     [JOB_LEAVING] = true},
    [JOB_ASKED] = {[JOB_GRACE] = true,
                   [JOB_TERM] = true,
                   [JOB_KILL] = true,
                   [JOB_COLLECTING] = true,
                   [JOB_LEAVING] = true},
    [JOB_GRACE] =
        {[JOB_TERM] = true, [JOB_KILL] = true, [JOB_COLLECTING] = true, [JOB_LEAVING] = true},
    [JOB_TERM] = {[JOB_KILL] = true, [JOB_COLLECTING] = true, [JOB_LEAVING] = true},
    [JOB_KILL] = {[JOB_ABANDON] = true, [JOB_COLLECTING] = true, [JOB_LEAVING] = true},
    [JOB_ABANDON] = {[JOB_LEAVING] = true},
    [JOB_COLLECTING] =
        {[JOB_COLLECTING] = true, [JOB_KILL] = true, [JOB_ABANDON] = true, [JOB_LEAVING] = true},
};

bool kolo_job_keeps_going(const struct kolo_job *job)
{
    return job->options->keep_going && job->is_joined && job->phase == JOB_RUNNING;
}

bool kolo_job_enter(struct kolo_job *job, enum kolo_job_phase phase, int64_t limit_ms)
{
    if (!may_follow[job->phase][phase])
        return false;
    job->phase = phase;
    (void)uv_timer_stop(&job->phase_timer);
    if (limit_ms >= 0)
        (void)uv_timer_start(&job->phase_timer, kolo_job_phase_ended, (uint64_t)limit_ms, 0);
    return true;
}

void kolo_job_signal(struct kolo_job *job, int number)
{
    for (size_t i = 0; i < job->hosts->count; i++)
        if (job->remotes[i].state == KOLO_REMOTE_RUNNING)
            kolo_agent_channel_send_u32(&job->remotes[i].channel, KOLO_FRAME_SIGNAL,
                                        (uint32_t)number);
}

void kolo_job_kill(struct kolo_job *job)
{
    if (!kolo_job_enter(job, JOB_KILL, KILL_MS))
        return;
    kolo_pause_forbid(&job->pause);
    kolo_verdict_sends(job->verdict, SIGTERM);
    kolo_verdict_sends(job->verdict, SIGKILL);
    (void)uv_timer_stop(&job->start_timer);
    for (size_t i = 0; i < job->hosts->count; i++) {
        kolo_job_take_rest(&job->remotes[i]);
        if (job->remotes[i].state != KOLO_REMOTE_GONE)
            kolo_remote_dismiss(&job->remotes[i]);
    }
}

void kolo_job_ask(struct kolo_job *job, int number)
{
    job->is_bounded = true;
    kolo_pause_forbid(&job->pause);
    kolo_job_tell_stall(job);
    if (kolo_job_enter(job, JOB_ASKED, job->options->settings.exit_timeout_ms))
        kolo_job_signal(job, number);
}

static void terminate(struct kolo_job *job)
{
    if (!kolo_job_enter(job, JOB_TERM, TERM_MS))
        return;
    kolo_verdict_sends(job->verdict, SIGTERM);
    kolo_job_signal(job, SIGTERM);
}

void kolo_job_give_grace(struct kolo_job *job)
{
    const bool is_short = kolo_meeting_connected(job->meeting) == 0 && job->survey_reasons == 0;
    (void)kolo_job_enter(job, JOB_GRACE, is_short ? UNCONNECTED_GRACE_MS : GRACE_MS);
}

void kolo_job_begin_end(struct kolo_job *job)
{
    kolo_pause_forbid(&job->pause);
    if (job->phase == JOB_STARTING)
        kolo_job_kill(job);
    else if (job->phase == JOB_RUNNING)
        kolo_job_give_grace(job);
}

static void abandon(struct kolo_job *job)
{
    if (!kolo_job_enter(job, JOB_ABANDON, KILL_MS))
        return;
    for (size_t i = 0; i < job->hosts->count; i++)
        kolo_remote_kill(&job->remotes[i]);
}

/* The verdict, once; it need not be read. */
static void say_verdict(struct kolo_job *job)
{
    if (job->said_verdict)
        return;
    job->said_verdict = true;
    kolo_job_judge_output(job);
    kolo_job_keep_late(job);
    for (int i = JOB_OUT; i <= JOB_ERR; i++)
        kolo_output_end_line(job->streams[i]);
    job->exit_status =
        kolo_verdict_finish(job->verdict, job->verdict_line, sizeof job->verdict_line);
    if (job->verdict_line[0] && !job->is_quiet)
        kolo_output_print(job->streams[JOB_ERR], "kolorun: %s", job->verdict_line);
}

/* Ends the loop when all is written, or soon. */
static void hurry(struct kolo_job *job)
{
    if (job->is_hurried) {
        uv_stop(&job->loop);
        return;
    }
    job->is_hurried = true;
    say_verdict(job);
    (void)uv_timer_start(&job->phase_timer, kolo_job_phase_ended, LAST_MS, 0);
    kolo_job_leave(job);
}

void kolo_job_bound_leaving(struct kolo_job *job)
{
    (void)uv_timer_start(&job->phase_timer, kolo_job_phase_ended,
                         (uint64_t)job->options->settings.exit_timeout_ms, 0);
}

/* The output was to be read by now. Files have limits of their own. */
static void end_leaving(struct kolo_job *job)
{
    const bool is_lost = !job->is_hurried;
    if (!kolo_job_is_filed(job)) {
        (void)uv_timer_start(&job->phase_timer, kolo_job_phase_ended, LAST_MS, 0);
        return;
    }
    if (is_lost)
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: the output was not read for %.1f s (KOLO_EXIT_TIMEOUT); what "
                          "the ranks wrote last is lost",
                          (double)job->options->settings.exit_timeout_ms / 1000);
    hurry(job);
    if (is_lost && job->exit_status == 0)
        job->exit_status = KOLO_EXIT_TIMEOUT;
}

void kolo_job_phase_ended(uv_timer_t *timer)
{
    struct kolo_job *job = timer->data;
    switch ((int)job->phase) {
    case JOB_RUNNING:
        kolo_job_end_unread(job);
        break;
    case JOB_ASKED:
        kolo_job_give_grace(job);
        break;
    case JOB_GRACE:
        terminate(job);
        break;
    case JOB_TERM:
        kolo_job_kill(job);
        break;
    case JOB_KILL:
    case JOB_COLLECTING:
        abandon(job);
        break;
    case JOB_ABANDON:
        (void)kolo_job_enter(job, JOB_LEAVING, -1);
        hurry(job);
        break;
    case JOB_LEAVING:
        end_leaving(job);
        break;
    default:
        break;
    }
}

/* All hosts are gone. Once their output is written, prints the verdict and ends the loop. */
void kolo_job_leave(struct kolo_job *job)
{
    if (job->phase < JOB_COLLECTING)
        return;
    kolo_output_settle(job->streams[JOB_ERR]); /* nothing more comes */
    if (!kolo_job_is_drained(job))
        return;
    say_verdict(job);
    if (job->phase == JOB_LEAVING && kolo_job_is_drained(job)) /* the verdict, too */
        uv_stop(&job->loop);
}

void kolo_job_leave_if_gone(struct kolo_job *job)
{
    if (job->gone < job->hosts->count || !kolo_job_enter(job, JOB_LEAVING, -1))
        return;
    if (job->is_bounded)
        kolo_job_bound_leaving(job);
    kolo_job_leave(job);
}
