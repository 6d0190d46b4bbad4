// SPDX-License-Identifier: Apache-2.0
// The files of --output-dir, in a job: when a write counts as stuck, and what is said about files
// that are not complete. Files that cannot be written any more do not end a job, since what a rank
// computes is worth more than what it says.
//
// A write may take as long as a call of the library while ranks run (KOLO_TIMEOUT, with a warning
// before), and KOLO_EXIT_TIMEOUT when all have ended; each time that it comes further, the time
// begins anew. It is counted in looks, not by the clock, since kolorun itself may be stopped.
#include "launcher/job_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/exit_status.h"

enum { LOOK_MS = 100 };

kolo_status kolo_job_open_files_of_ranks(struct kolo_job *job)
{
    const struct kolo_options *options = job->options;
    if (!options->output_dir)
        return KOLO_OK;
    return kolo_filer_start(options->output_dir, job->size, options->settings.start_timeout_ms,
                            &job->files.filer);
}

bool kolo_job_is_filed(const struct kolo_job *job)
{
    return !job->streams[JOB_FILES] || kolo_output_is_drained(job->streams[JOB_FILES]);
}

/* ---- a write that is stuck ---- */

static void give_up(struct kolo_job *job, const char *limit)
{
    char name[KOLO_RANK_FILE_NAME_BYTES];
    kolo_filer_at(job->files.filer, name);
    kolo_filer_abandon(job->files.filer);
    snprintf(job->files.stuck, sizeof job->files.stuck, "a write to %s did not end within %.1f s%s",
             name[0] ? name : "a file", (double)job->files.stuck_ms / 1000, limit);
}

static void warn(struct kolo_job *job)
{
    char name[KOLO_RANK_FILE_NAME_BYTES];
    kolo_filer_at(job->files.filer, name);
    job->files.has_warned = true;
    kolo_output_print(
        job->streams[JOB_ERR],
        "kolorun: --output-dir %s: a write to %s has not ended for %.1f s; ranks that "
        "write more wait for it",
        job->options->output_dir, name[0] ? name : "a file", (double)job->files.stuck_ms / 1000);
}

static void look(uv_timer_t *timer)
{
    struct kolo_job *job = timer->data;
    const struct kolo_settings *settings = &job->options->settings;
    const uint64_t progress = kolo_filer_progress(job->files.filer);
    const bool is_leaving = job->phase == JOB_LEAVING;
    if (kolo_job_is_filed(job) || progress != job->files.progress) {
        job->files.progress = progress;
        job->files.stuck_ms = 0;
        return;
    }
    job->files.stuck_ms += LOOK_MS;
    if (is_leaving && job->files.stuck_ms >= settings->exit_timeout_ms)
        give_up(job, " (KOLO_EXIT_TIMEOUT)");
    else if (job->files.stuck_ms >= settings->timeout_ms)
        give_up(job, " (KOLO_TIMEOUT)");
    else if (job->files.stuck_ms >= settings->stall_warn_ms && !job->files.has_warned)
        warn(job);
}

/* Why nothing can be written any more. */
static const char *reason(const struct kolo_job *job, int error, char *words, size_t capacity)
{
    if (job->files.stuck[0])
        return job->files.stuck;
    return error == EOWNERDEAD ? "kolorun-files, the process that writes them, has died"
                               : strerror_r(error, words, capacity);
}

static void on_broken(void *context, int error)
{
    struct kolo_job *job = context;
    char words[96];
    job->files.are_broken = true;
    if (job->files.stuck[0] && job->phase == JOB_LEAVING) {
        job->files.has_stuck_late = true; /* which is said when all is known that is missing */
        return;
    }
    kolo_output_print(job->streams[JOB_ERR],
                      "kolorun: --output-dir %s: %s: its files end here, and the job goes on%s",
                      job->options->output_dir, reason(job, error, words, sizeof words),
                      job->options->no_copy ? "; what the ranks write from now on follows here"
                                            : "");
}

static int write_parts(void *context, int file, struct iovec *parts, int count)
{
    return kolo_filer_write(context, file, parts, count);
}

kolo_status kolo_job_watch_files(struct kolo_job *job, struct kolo_output_events events)
{
    if (!job->files.filer)
        return KOLO_OK;
    events.broken = on_broken;
    kolo_status status = kolo_output_create(&job->loop, -1, &events, &job->streams[JOB_FILES]);
    if (status != KOLO_OK)
        return status;
    kolo_output_write_by(job->streams[JOB_FILES], write_parts, job->files.filer);
    (void)uv_timer_init(&job->loop, &job->files.timer);
    job->files.timer.data = job;
    (void)uv_timer_start(&job->files.timer, look, LOOK_MS, LOOK_MS);
    return KOLO_OK;
}

/* ---- the end ---- */

void kolo_job_settle_files(struct kolo_job *job)
{
    if (kolo_job_is_filed(job))
        return;
    if (!job->files.stuck[0])
        give_up(job, ", when the job was stopped");
    while (!kolo_job_is_filed(job)) /* nothing waits for the files any more */
        (void)uv_run(&job->loop, UV_RUN_ONCE);
}

/* Says what is missing in the files when all ranks have ended. */
static void tell_missing(const struct kolo_job *job)
{
    const char *directory = job->options->output_dir;
    if (job->files.has_stuck_late)
        fprintf(stderr,
                "kolorun: --output-dir %s: %s: %ju bytes of the ranks' output are not in its "
                "files%s\n",
                directory, job->files.stuck, (uintmax_t)job->files.lost,
                job->options->no_copy ? ", nor here" : "");
    else if (job->lost > 0)
        fprintf(
            stderr,
            "kolorun: %ju bytes of the ranks' output are lost: they are neither in %s nor here%s\n",
            (uintmax_t)job->lost, directory,
            job->unstored[JOB_FILES] > 0 ? ": kolorun had no memory for them" : "");
}

int kolo_job_end_files(struct kolo_job *job, int exit_status)
{
    bool is_whole = !job->files.are_broken && job->lost == 0 && job->unstored[JOB_FILES] == 0;
    const kolo_status ended =
        kolo_filer_end(job->files.filer, job->has_started, job->options->settings.exit_timeout_ms);
    job->files.filer = NULL;
    if (ended != KOLO_OK) {
        fprintf(stderr, "kolorun: %s\n", kolo_error_detail());
        is_whole = false;
    }
    tell_missing(job);
    if (exit_status != 0 || is_whole)
        return exit_status;
    if (!job->files.has_stuck_late)
        fprintf(stderr, "kolorun: the files in %s are not complete\n", job->options->output_dir);
    return EXIT_STATUS_FAILED;
}
