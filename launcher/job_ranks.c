// SPDX-License-Identifier: Apache-2.0
// Handles what is heard of a job's ranks: from their agents in frames, which are not trusted, and
// from the store in which they meet. Passes it to the verdict, the output and the other ranks. Must
// never decide how the job ends (job_phases.c).
#include "launcher/job_state.h"

#include "launcher/strays.h"

/* ---- what agents say ---- */

static void tell_death(struct kolo_job *job, const struct kolo_outcome *outcome)
{
    char how[256];
    kolo_outcome_text(outcome, how, sizeof how);
    kolo_meeting_died(job->meeting, (int)outcome->rank, how);
}

static void on_started(struct kolo_job *job, struct kolo_remote *remote, uint32_t rank,
                       uint32_t pid)
{
    job->has_started = true;
    kolo_verdict_started(job->verdict, (int)rank, remote->host->name, pid);
    JOB_SAY(job, "kolorun: rank %u started on %s (pid %u) after %.3f s", rank, remote->host->name,
            pid, kolo_job_age_s(job));
}

/* With --keep-going, whether that fails the job or not: the others have lost it. */
static void tell_desertion(struct kolo_job *job, int rank)
{
    if (kolo_job_keeps_going(job) && kolo_verdict_is_deserter(job->verdict, rank))
        kolo_job_tell_rank_loss(job, rank, " without kolo_finalize");
}

static void on_exited(struct kolo_job *job, const struct kolo_outcome *outcome)
{
    int rank = (int)outcome->rank;
    bool has_failed = kolo_verdict_ended(job->verdict, outcome, kolo_now_ns());
    /* A rank that was never connected, or whose connection broke before, will not be heard of
     * again. If its connection still stands, wait until that breaks: a process that the rank left
     * may hold it. */
    bool has_deserted = !kolo_verdict_has_left(job->verdict, rank) &&
                        !kolo_meeting_is_here(job->meeting, rank) &&
                        (!job->is_joined || kolo_verdict_is_deserter(job->verdict, rank));
    if ((has_failed || has_deserted) && job->phase < JOB_TERM) /* later nobody is left to tell */
        tell_death(job, outcome);
    if (has_failed && !job->is_joined && kolo_meeting_has_come(job->meeting, rank))
        kolo_verdict_waited(job->verdict);
    if (has_failed && kolo_job_keeps_going(job)) {
        kolo_verdict_keep_going(job->verdict);
        kolo_job_tell_rank_loss(job, rank, "");
    } else if (has_failed) {
        kolo_job_begin_end(job);
    } else if (has_deserted) {
        tell_desertion(job, rank);
    }
    kolo_job_look_after_rest(job);
}

/* A rank that continues in the background is not waited for, as with mpirun and srun: the job is
 * ended as if it had failed. A process that does not use kolo, or was left by a rank that had
 * finished with it, does not fail a job that ended well. */
static void on_stray(struct kolo_job *job, struct kolo_remote *remote,
                     const struct kolo_stray *stray)
{
    char how[128];
    const int rank = (int)stray->rank;
    if (kolo_verdict_has_left(job->verdict, rank))
        return;
    if (stray->is_of_kolo || kolo_meeting_is_here(job->meeting, rank)) {
        snprintf(how, sizeof how, "went on as the rank (process %u, %s)", stray->pid, stray->name);
        kolo_verdict_strayed(job->verdict, rank, how);
        if (!kolo_job_keeps_going(job))
            kolo_job_begin_end(job);
    } else if (!job->said_stray) {
        job->said_stray = true;
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: rank %d left process %u (%s) in the background on %s; it is "
                          "ended with the job",
                          rank, stray->pid, stray->name, remote->host->name);
    } else {
        JOB_SAY(job, "kolorun: rank %d left process %u (%s) on %s", rank, stray->pid, stray->name,
                remote->host->name);
    }
}

static void on_note(struct kolo_job *job, struct kolo_remote *remote, const struct kolo_piece *note)
{
    kolo_output_print(job->streams[JOB_ERR], "kolorun: host %s: %.*s", remote->host->name,
                      (int)(note->bytes > 200 ? 200 : note->bytes), (const char *)note->at);
}

/* Nothing of the job is left except the timelines of its ranks. */
static bool are_done(const struct kolo_job *job)
{
    for (size_t i = 0; i < job->hosts->count; i++)
        if (job->remotes[i].state < KOLO_REMOTE_FINISHED)
            return false;
    return true;
}

static kolo_status on_timeline(struct kolo_job *job, uint32_t rank, const struct kolo_piece *piece)
{
    kolo_status status = kolo_gather_take(job->gather, (int)rank, piece->at, piece->bytes);
    if (status != KOLO_OK || !are_done(job))
        return status;
    if (kolo_job_enter(job, JOB_COLLECTING, JOB_COLLECT_MS)) {
        (void)uv_timer_stop(&job->job_timer);
        kolo_job_leave(job);
    }
    return KOLO_OK;
}

static kolo_status on_rank(struct kolo_job *job, struct kolo_remote *remote,
                           const struct kolo_frame_message *message)
{
    uint32_t place;
    if (!kolo_ranks_find(&remote->host->ranks, message->rank, &place))
        return kolo_fail(KOLO_ERR_PROTOCOL, "%s for rank %u", kolo_frame_text(message->type),
                         message->rank);
    if (message->type == KOLO_FRAME_TIMELINE)
        return on_timeline(job, message->rank, &message->piece);
    if (message->type == KOLO_FRAME_OUTPUT)
        return kolo_job_output(job, remote, message);
    if (message->type == KOLO_FRAME_SEEN)
        kolo_survey_seen(&job->survey, message->seen.round, &message->seen.sight);
    else if (message->type == KOLO_FRAME_STARTED)
        on_started(job, remote, message->rank, message->value);
    else if (message->type == KOLO_FRAME_EXITED)
        on_exited(job, &message->exited);
    else
        on_stray(job, remote, &message->stray);
    return KOLO_OK;
}

kolo_status kolo_job_message(struct kolo_remote *remote, const struct kolo_frame_message *message)
{
    struct kolo_job *job = remote->config->events.context;
    switch ((int)message->type) {
    case KOLO_FRAME_NOTE:
        on_note(job, remote, &message->piece);
        return KOLO_OK;
    case KOLO_FRAME_SIGNAL:
        return kolo_job_agent_signalled(job, remote, message->value);
    case KOLO_FRAME_WANTED:
        if (job->input)
            kolo_input_taken(job->input, message->value);
        return KOLO_OK;
    case KOLO_FRAME_PAUSED:
        kolo_pause_answered(&job->pause, remote, message->value);
        return KOLO_OK;
    case KOLO_FRAME_LOOKED:
        kolo_survey_looked(&job->survey, remote, message->value);
        return KOLO_OK;
    case KOLO_FRAME_FACTS:
        return kolo_fail(KOLO_ERR_PROTOCOL, "FACTS of a job");
    default:
        return on_rank(job, remote, message);
    }
}

/* ---- the store ---- */

static void on_joined(void *context)
{
    struct kolo_job *job = context;
    job->is_joined = true;
    JOB_SAY(job, "kolorun: all %d rank%s met after %.3f s", job->size, job->size == 1 ? "" : "s",
            kolo_job_age_s(job));
}

static void on_came(void *context, int rank)
{
    struct kolo_job *job = context;
    if (!kolo_verdict_ended_well(job->verdict, rank))
        return;
    kolo_verdict_strayed(job->verdict, rank, "called kolo_init");
    if (!kolo_job_keeps_going(job))
        kolo_job_begin_end(job);
}

static void on_left(void *context, int rank)
{
    struct kolo_job *job = context;
    kolo_verdict_left(job->verdict, rank);
}

static void on_lost(void *context, int rank)
{
    struct kolo_job *job = context;
    kolo_verdict_lost(job->verdict, rank, kolo_now_ns());
    if (kolo_verdict_is_deserter(job->verdict, rank))
        kolo_meeting_died(job->meeting, rank, "exited with status 0 without kolo_finalize");
    tell_desertion(job, rank);
}

/* Ranks have not called kolo_init, and the others fail, which are not the cause. */
static void note_late(struct kolo_job *job)
{
    const int64_t now_ns = kolo_now_ns();
    for (int rank = 0; rank < job->size; rank++)
        if (!kolo_meeting_has_come(job->meeting, rank))
            kolo_verdict_late(job->verdict, rank, now_ns);
    kolo_job_look_at_late(job);
}

/* Of what fails after the start the ranks speak themselves, but not of a rank that goes on without
 * its connection. */
static void on_aborted(void *context, int rank, kolo_status why, const char *text)
{
    struct kolo_job *job = context;
    (void)text;
    if (!job->is_joined && rank < 0 && why == KOLO_ERR_TIMEOUT)
        note_late(job);
    if (!kolo_job_keeps_going(job) || rank < 0 || why != KOLO_ERR_PEER ||
        kolo_meeting_is_here(job->meeting, rank) || kolo_verdict_has_ended(job->verdict, rank) ||
        kolo_verdict_has_left(job->verdict, rank))
        return;
    kolo_verdict_keep_going(job->verdict);
    kolo_job_tell_rank_loss(job, rank, " lost its connection");
}

static bool on_asked(void *context, int rank, const char **host_out, uint32_t *pid_out)
{
    const struct kolo_job *job = context;
    return kolo_verdict_started_as(job->verdict, rank, host_out, pid_out);
}

static void on_notice(void *context, const char *text)
{
    struct kolo_job *job = context;
    kolo_output_print(job->streams[JOB_ERR], "kolorun: %s", text);
    kolo_job_look_for_missing(job);
}

struct kolo_store_server_events kolo_job_store_events(struct kolo_job *job)
{
    return (struct kolo_store_server_events){.context = job,
                                             .joined = on_joined,
                                             .came = on_came,
                                             .left = on_left,
                                             .lost = on_lost,
                                             .aborted = on_aborted,
                                             .started = on_asked,
                                             .notice = on_notice};
}
