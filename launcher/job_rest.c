// SPDX-License-Identifier: Apache-2.0
// With --keep-going: says at once which ranks are lost, and looks after those that are left when
// the others have ended. Must never end a rank that may still do something: who only computes, or
// waits for a disk, is named again and again, but is not ended.
//
// What is left is looked at if nobody can be waited for by it: each rank that still runs has
// asked nothing of the store since the latest failure (so it has not noticed it, or made nothing
// of it), or has lost its connection to the store, so that the others count it as dead. If all of
// them are stopped by a signal, nothing can follow: they have the exit timeout, and are then ended,
// as at the end of any job. A lost connection alone is no reason to end a rank: who waits in a call
// gets an error by it, and who has become another program, say, may be saving what it has.
#include "launcher/job_state.h"

#include <stdio.h>

#include "base/alloc.h"
#include "launcher/report.h"

enum {
    FIRST_LOOK_MS = 500,  /* others may be about to end for the same cause */
    LOSSES_PER_SECOND = 8 /* of which each has a line */
};

/* Of a rank that runs. */
static bool is_cut_off(const struct kolo_report_rank *rank)
{
    return rank->view.place == KOLO_VIEW_GONE;
}

static bool is_stopped(const struct kolo_report_rank *rank)
{
    return rank->sight && rank->sight->state == 'T';
}

/* ---- losses ---- */

/* Whether ranks run, not counting those of host @p lost, if it is not NULL. */
static bool has_running(const struct kolo_job *job, const struct kolo_host *lost)
{
    for (size_t i = 0; i < job->hosts->count; i++) {
        const struct kolo_host *host = &job->hosts->at[i];
        if (host == lost || job->remotes[i].state != KOLO_REMOTE_RUNNING)
            continue;
        for (uint32_t j = 0; j < host->ranks.count; j++)
            if (!kolo_verdict_has_ended(job->verdict, (int)host->ranks.at[j]))
                return true;
    }
    return false;
}

/* Of many losses at once, the verdict names some. */
static bool is_too_much(struct kolo_job_rest *rest)
{
    const int64_t now_ns = kolo_now_ns();
    if (now_ns - rest->losses_ns > 1000 * KOLO_NS_PER_MS || rest->losses == 0) {
        rest->losses_ns = now_ns;
        rest->losses = 0;
    }
    return rest->losses++ >= LOSSES_PER_SECOND;
}

static void tell_loss(struct kolo_job *job, const struct kolo_host *lost, const char *what)
{
    if (has_running(job, lost) && !is_too_much(&job->rest))
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: after %.1f s: %s; the others go on (--keep-going)",
                          kolo_job_age_s(job), what);
    kolo_job_look_after_rest(job);
}

void kolo_job_tell_host_loss(struct kolo_job *job, const struct kolo_host *host, const char *why)
{
    tell_loss(job, host, why);
}

void kolo_job_tell_rank_loss(struct kolo_job *job, int rank, const char *how)
{
    char who[512], what[768];
    kolo_verdict_name(job->verdict, rank, who, sizeof who);
    snprintf(what, sizeof what, "%s%s", who, how);
    tell_loss(job, NULL, what);
}

/* ---- the rest ---- */

/* NULL: no memory, or what is left is no matter. The ranks of a lost host have ended. */
static struct kolo_report_rank *collect(struct kolo_job *job, bool with_sights)
{
    struct kolo_report_rank *ranks =
        kolo_job_keeps_going(job) ? kolo_job_collect(job, with_sights) : NULL;
    for (size_t i = 0; ranks && i < job->hosts->count; i++) {
        const struct kolo_ranks *own = &job->hosts->at[i].ranks;
        for (uint32_t j = 0; j < own->count && job->remotes[i].state != KOLO_REMOTE_RUNNING; j++)
            ranks[own->at[j]].has_ended = true;
    }
    return ranks;
}

/* Whether others have ended and nobody can be waited for by those that run. */
static bool is_left_over(const struct kolo_report_rank *ranks, int size)
{
    int running = 0;
    for (int rank = 0; rank < size; rank++) {
        const struct kolo_store_view *view = &ranks[rank].view;
        if (ranks[rank].has_ended)
            continue;
        if (!is_cut_off(&ranks[rank]) && !(view->place == KOLO_VIEW_HERE && view->is_silent))
            return false;
        running++;
    }
    return running > 0 && running < size;
}

static void on_look(uv_timer_t *timer);

static void look_in(struct kolo_job *job, int64_t ms)
{
    (void)uv_timer_start(&job->rest.timer, on_look, (uint64_t)(ms > 1 ? ms : 1), 0);
}

void kolo_job_look_after_rest(struct kolo_job *job)
{
    if (kolo_job_keeps_going(job) && !uv_is_active((uv_handle_t *)&job->rest.timer))
        look_in(job, FIRST_LOOK_MS);
}

static void on_look(uv_timer_t *timer)
{
    struct kolo_job *job = timer->data;
    struct kolo_report_rank *ranks = collect(job, false);
    if (ranks && is_left_over(ranks, job->size))
        kolo_job_survey_rest(job);
    else
        job->rest.stuck_ns = job->rest.warn_ms = 0;
    kolo_free_memory(ranks);
}

/* How many of those that run @p fits; all of them if it is NULL. */
static int count(const struct kolo_report_rank *ranks, int size,
                 bool (*fits)(const struct kolo_report_rank *rank))
{
    int found = 0;
    for (int rank = 0; rank < size; rank++)
        found += !ranks[rank].has_ended && (!fits || fits(&ranks[rank]));
    return found;
}

static void end_rest(struct kolo_job *job, const struct kolo_report_rank *ranks)
{
    for (int rank = 0; rank < job->size; rank++)
        if (!ranks[rank].has_ended)
            kolo_verdict_behind(job->verdict, rank,
                                is_cut_off(&ranks[rank])
                                    ? "which had lost its connection and was stopped by a signal"
                                    : "which was stopped by a signal");
    kolo_job_begin_end(job);
}

/* Nothing can follow. */
static void bound(struct kolo_job *job, const struct kolo_report_rank *ranks)
{
    struct kolo_job_rest *rest = &job->rest;
    const int64_t limit_ms = job->options->settings.exit_timeout_ms;
    const int64_t left_ms = rest->stuck_ns == 0
                                ? limit_ms
                                : limit_ms - (kolo_now_ns() - rest->stuck_ns) / KOLO_NS_PER_MS;
    if (left_ms <= 0) {
        end_rest(job, ranks);
        return;
    }
    if (rest->stuck_ns == 0) {
        rest->stuck_ns = kolo_now_ns();
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: after %.1f s: the other ranks have ended; what is left can do "
                          "nothing, and is ended in %.1f s (KOLO_EXIT_TIMEOUT):",
                          kolo_job_age_s(job), (double)limit_ms / 1000);
        kolo_job_print_running(job, ranks);
    }
    look_in(job, left_ms);
}

/* Says what is left now and then: after KOLO_STALL_WARN, and each time after twice as long. */
static void warn(struct kolo_job *job, const struct kolo_report_rank *ranks)
{
    struct kolo_job_rest *rest = &job->rest;
    const int64_t now_ns = kolo_now_ns(), every_ms = job->options->settings.stall_warn_ms;
    const bool are_cut_off = count(ranks, job->size, is_cut_off) == count(ranks, job->size, NULL);
    rest->stuck_ns = 0;
    if (rest->warn_ms == 0) {
        rest->warn_ms = every_ms;
        rest->warn_ns = now_ns + every_ms * KOLO_NS_PER_MS;
    } else if (now_ns >= rest->warn_ns) {
        rest->warn_ms *= 2;
        rest->warn_ns = now_ns + rest->warn_ms * KOLO_NS_PER_MS;
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: after %.1f s: the other ranks have ended; what is left has %s:",
                          kolo_job_age_s(job),
                          are_cut_off ? "lost its connection, and may still do something"
                                      : "not called kolo_shrink since the latest failure");
        kolo_job_print_running(job, ranks);
    }
    look_in(job, every_ms);
}

void kolo_job_rest_seen(struct kolo_job *job)
{
    struct kolo_report_rank *ranks = collect(job, true);
    if (!ranks || !is_left_over(ranks, job->size)) {
        job->rest.stuck_ns = job->rest.warn_ms = 0;
        kolo_free_memory(ranks);
        return;
    }
    const int running = count(ranks, job->size, NULL);
    const int stopped = count(ranks, job->size, is_stopped);
    if (stopped == running)
        bound(job, ranks);
    else if (running == 1 || stopped > 0 || count(ranks, job->size, is_cut_off) > 0)
        warn(job, ranks); /* else they may still wait for each other */
    else
        look_in(job, job->options->settings.stall_warn_ms);
    kolo_free_memory(ranks);
}
