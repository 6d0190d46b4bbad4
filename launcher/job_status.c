// SPDX-License-Identifier: Apache-2.0
// Tells the user what the ranks of a job do: on request, when some have waited long for others, and
// when the job is ended although it runs. What they wait in is known from the store, what the
// others do from a survey of the hosts. Must never end a job by itself, nor keep its end waiting
// for longer than a survey lasts.
#include "launcher/job_state.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "launcher/report.h"

/* Why a survey was asked for. */
enum {
    SURVEY_ASKED = 1,
    SURVEY_MISSING = 2,
    SURVEY_TIMEOUT = 4,
    SURVEY_REST = 8,
    SURVEY_LATE = 16
};

static void print_line(void *context, const char *line)
{
    struct kolo_job *job = context;
    kolo_output_print(job->streams[JOB_ERR], "kolorun:   %s", line);
}

struct kolo_report_rank *kolo_job_collect(struct kolo_job *job, bool with_sights)
{
    const size_t size = (size_t)job->size;
    struct kolo_report_rank *ranks = kolo_calloc(size, sizeof ranks[0]);
    struct kolo_store_view *views = kolo_calloc(size, sizeof views[0]);
    if (!ranks || !views || kolo_meeting_view(job->meeting, views) != KOLO_OK) {
        kolo_free_memory(ranks);
        ranks = NULL;
    }
    for (size_t i = 0; ranks && i < job->hosts->count; i++) {
        const struct kolo_host *host = &job->hosts->at[i];
        for (uint32_t j = 0; j < host->ranks.count; j++) {
            const int rank = (int)host->ranks.at[j];
            ranks[rank].host = host->name;
            ranks[rank].has_ended = kolo_verdict_has_ended(job->verdict, rank);
            ranks[rank].sight = with_sights ? kolo_survey_sight(&job->survey, rank) : NULL;
            ranks[rank].started = kolo_verdict_pid(job->verdict, rank);
            ranks[rank].view = views[rank];
        }
    }
    kolo_free_memory(views);
    return ranks;
}

static void tell(struct kolo_job *job, enum kolo_report_choice choice)
{
    struct kolo_report_rank *ranks = kolo_job_collect(job, true);
    if (ranks && choice == KOLO_REPORT_ALL)
        kolo_output_print(job->streams[JOB_ERR], "kolorun: after %.1f s:", kolo_job_age_s(job));
    if (ranks)
        (void)kolo_report(ranks, job->size, choice, kolo_now_ns(), print_line, job);
    kolo_free_memory(ranks);
}

void kolo_job_print_running(struct kolo_job *job, const struct kolo_report_rank *ranks)
{
    (void)kolo_report(ranks, job->size, KOLO_REPORT_RUNNING, kolo_now_ns(), print_line, job);
}

static void end_by_timeout(struct kolo_job *job)
{
    char text[128];
    snprintf(text, sizeof text, "the job did not end within %.1f s (--timeout)",
             (double)job->options->settings.job_timeout_ms / 1000);
    kolo_meeting_abort(job->meeting, KOLO_ERR_TIMEOUT, text);
    kolo_job_begin_end(job);
    kolo_job_give_grace(job); /* also to ranks that a signal has asked, and for which it is over */
}

void kolo_job_keep_late(struct kolo_job *job)
{
    char text[KOLO_SIGHT_TEXT_MAX];
    const int rank = kolo_verdict_first_late(job->verdict);
    const struct kolo_sight *sight = rank >= 0 ? kolo_survey_sight(&job->survey, rank) : NULL;
    if (!sight || kolo_sight_has_ended(sight))
        return;
    kolo_sight_text(sight, text, sizeof text);
    kolo_verdict_late_does(job->verdict, text);
}

static void on_survey(void *context)
{
    struct kolo_job *job = context;
    const unsigned int reasons = job->survey_reasons;
    const bool is_over = job->phase >= JOB_TERM; /* the ranks are being ended */
    job->survey_reasons = 0;
    if (!is_over && (reasons & (SURVEY_ASKED | SURVEY_TIMEOUT)))
        tell(job, KOLO_REPORT_ALL);
    else if (!is_over && (reasons & SURVEY_MISSING))
        tell(job, KOLO_REPORT_MISSING);
    if (reasons & SURVEY_LATE)
        kolo_job_keep_late(job);
    if (reasons & SURVEY_REST)
        kolo_job_rest_seen(job);
    if (reasons & SURVEY_TIMEOUT)
        end_by_timeout(job);
}

kolo_status kolo_job_open_survey(struct kolo_job *job)
{
    return kolo_survey_init(&job->survey, &job->loop, job->size, job->remotes, job->hosts->count,
                            on_survey, job);
}

static void survey(struct kolo_job *job, unsigned int reason)
{
    job->survey_reasons |= reason;
    kolo_survey_ask(&job->survey, job->meeting);
}

void kolo_job_name_unprepared(const struct kolo_job *job, char *text, size_t capacity)
{
    enum { NAMED_MAX = 4 };
    size_t used = 0, missing = 0;
    char names[224] = "";
    for (size_t i = 0; job->remotes && i < job->hosts->count; i++) {
        if (job->remotes[i].state >= KOLO_REMOTE_PREPARED)
            continue;
        if (missing++ < NAMED_MAX)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.50s", used ? ", " : "",
                                     job->hosts->at[i].name);
    }
    snprintf(text, capacity, "host%s %s%s", missing == 1 ? "" : "s", names,
             missing > NAMED_MAX ? " and others" : "");
}

void kolo_job_quote_unprepared(const struct kolo_job *job, char *text, size_t capacity)
{
    char words[384] = "";
    text[0] = '\0';
    for (size_t i = 0; i < job->hosts->count && words[0] == '\0'; i++) {
        kolo_remote_quote(&job->remotes[i], words, sizeof words);
        if (words[0])
            snprintf(text, capacity, "; %.50s printed %s", job->hosts->at[i].name, words);
    }
}

static const char *ending(enum kolo_job_phase phase)
{
    if (phase == JOB_COLLECTING)
        return "the ranks have ended; it collects their timelines";
    if (phase == JOB_LEAVING)
        return "the ranks have ended; it waits for what they wrote to be read, or written to files";
    return "the job is being ended";
}

void kolo_job_tell_status(struct kolo_job *job)
{
    char names[256];
    if (job->phase == JOB_STARTING) {
        kolo_job_name_unprepared(job, names, sizeof names);
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: after %.1f s: nothing is started yet; it waits for %s",
                          kolo_job_age_s(job), names);
    } else if (job->phase < JOB_TERM) {
        survey(job, SURVEY_ASKED);
    } else {
        kolo_output_print(job->streams[JOB_ERR], "kolorun: after %.1f s: %s", kolo_job_age_s(job),
                          ending(job->phase));
    }
}

void kolo_job_paused(void *context, bool is_pausing)
{
    struct kolo_job *job = context;
    if (is_pausing) {
        kolo_output_settle(job->streams[JOB_ERR]);
        kolo_survey_hold(&job->survey);
    } else {
        kolo_survey_go_on(&job->survey, job->meeting);
    }
}

void kolo_job_look_for_missing(struct kolo_job *job)
{
    if (job->phase == JOB_RUNNING)
        survey(job, SURVEY_MISSING);
}

void kolo_job_look_at_late(struct kolo_job *job)
{
    if (job->phase == JOB_RUNNING)
        survey(job, SURVEY_LATE);
}

void kolo_job_survey_rest(struct kolo_job *job)
{
    survey(job, SURVEY_REST);
}

void kolo_job_end_by_timeout(struct kolo_job *job)
{
    job->is_bounded = true;
    kolo_verdict_trouble(job->verdict, kolo_now_ns(), KOLO_EXIT_TIMEOUT,
                         "the job did not end within %.1f s (--timeout); it was ended",
                         (double)job->options->settings.job_timeout_ms / 1000);
    if (job->phase == JOB_RUNNING)
        survey(job, SURVEY_TIMEOUT);
    else
        end_by_timeout(job);
}

void kolo_job_tell_stall(struct kolo_job *job)
{
    enum { STALL_MS = 1000 };
    struct kolo_report_rank *ranks = kolo_job_collect(job, false);
    const int64_t now_ns = kolo_now_ns();
    if (ranks && kolo_report_has_stall(ranks, job->size, STALL_MS, now_ns)) {
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: when it was stopped, after %.1f s:", kolo_job_age_s(job));
        (void)kolo_report(ranks, job->size, KOLO_REPORT_ALL, now_ns, print_line, job);
    }
    kolo_free_memory(ranks);
}
