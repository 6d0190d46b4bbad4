// SPDX-License-Identifier: Apache-2.0
// The streams of a job: its output, for which the agents get credit back, and its input. A reader
// that goes away ends the job, unless a signal ends it: the rest is dropped then, and its credit
// returned. Files that cannot be written any more do not end it (job_files.c). With --no-copy the
// output comes to kolorun's own streams after that, and for the same reason the job does not end if
// those are broken as well.
//
// With --output-dir each byte goes to a file and, without --no-copy, also to kolorun's own streams.
// Its credit is returned once it is in both, so that neither queue grows beyond the credit. What is
// left when ranks are killed needs none: kolorun gives a host little time then, and it may be why a
// rank failed.
#include "launcher/job_state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/fold.h"
#include "launcher/job_spec.h"
#include "tools/exit_status.h"

enum {
    BROKEN_MS = 200,     /* for a signal that broken output came with */
    REST_BYTES = 5 << 20 /* more than the pipes of a rank and its agent's buffers for them hold */
};
enum { TO_SELF, TO_FILES }; /* where bytes were written: index of kolo_remote.written */

static bool copies(const struct kolo_job *job)
{
    return !job->files.filer || !job->options->no_copy;
}

/* One output is both if they are one file, pipe or terminal: what comes first is shown first there,
 * and no line tears another. */
static bool is_double(const struct kolo_job *job, int stream)
{
    return stream == JOB_ERR && job->streams[JOB_ERR] == job->streams[JOB_OUT];
}

static void on_written(void *context, int owner, size_t bytes)
{
    struct kolo_job *job = context;
    job->remotes[owner].written[TO_SELF] += bytes;
}

static void on_filed(void *context, int owner, size_t bytes)
{
    struct kolo_job *job = context;
    job->remotes[owner].written[TO_FILES] += bytes;
}

/* The bytes of a host that have come to where they belong. */
static uint64_t arrived(const struct kolo_job *job, const struct kolo_remote *remote)
{
    const uint64_t self = remote->written[TO_SELF], filed = remote->written[TO_FILES];
    if (!job->files.filer || !copies(job))
        return self + filed;
    return self < filed ? self : filed;
}

static void pay_credit(struct kolo_job *job)
{
    for (size_t i = 0; i < job->hosts->count; i++) {
        struct kolo_remote *remote = &job->remotes[i];
        const uint64_t due = arrived(job, remote) - remote->paid;
        if (due == 0)
            continue;
        if (remote->state == KOLO_REMOTE_RUNNING)
            kolo_agent_channel_send_u32(&remote->channel, KOLO_FRAME_CREDIT, (uint32_t)due);
        remote->paid += due;
    }
}

static void on_batch(void *context)
{
    pay_credit(context);
}

static void on_drained(void *context)
{
    struct kolo_job *job = context;
    if (kolo_output_is_drained(job->streams[JOB_OUT]))
        job->has_output = false;
    kolo_job_leave(job);
}

/* Ctrl-C ends the reader in `kolorun ... | tee log` as well, and a terminal that closes breaks the
 * output before its SIGHUP comes: the job does not end because of its output if it is about to be
 * ended by a signal, for which its ranks have more time. */
static void give_up_stdout(struct kolo_job *job, int error)
{
    char words[96];
    if (job->files.are_broken && !copies(job)) { /* not where the output was to go */
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: standard output: %s: what the ranks write from now on is lost, "
                          "and the job goes on",
                          strerror_r(error, words, sizeof words));
        return;
    }
    if (job->is_bounded) /* a signal or its time ends the job: the ranks keep the time they have */
        return;
    job->broken_error = error;
    job->broken_ns = kolo_now_ns();
    if (job->phase == JOB_RUNNING)
        (void)uv_timer_start(&job->phase_timer, kolo_job_phase_ended, BROKEN_MS, 0);
    else
        kolo_job_end_unread(job);
}

/* It may also be standard error, whose loss ends no job: one ends when what a rank has written to
 * its standard output is lost. */
static void on_stdout_broken(void *context, int error)
{
    struct kolo_job *job = context;
    if (is_double(job, JOB_ERR) && !job->has_output)
        job->lost_double = error;
    else
        give_up_stdout(job, error);
}

static void note_output(struct kolo_job *job)
{
    job->has_output = true;
    if (job->lost_double != 0)
        give_up_stdout(job, job->lost_double);
    job->lost_double = 0;
}

void kolo_job_judge_output(struct kolo_job *job)
{
    char words[96];
    const int error = job->is_bounded ? 0 : job->broken_error;
    if (error == EPIPE) {
        job->is_quiet = true; /* as if SIGPIPE had ended it: `kolorun ... | head` */
        kolo_verdict_trouble(job->verdict, job->broken_ns, KOLO_EXIT_SIGNAL + SIGPIPE,
                             "nobody reads the output");
    } else if (error != 0) {
        kolo_verdict_trouble(job->verdict, job->broken_ns, EXIT_FAILURE,
                             "the output cannot be written: %s",
                             strerror_r(error, words, sizeof words));
    }
}

void kolo_job_end_unread(struct kolo_job *job)
{
    kolo_job_judge_output(job);
    kolo_job_kill(job);
}

/* Nobody can be told: the job continues, and its exit status says it. A pipe that nobody reads is
 * a choice of who closed it (`2> >(head)`). */
static void on_stderr_broken(void *context, int error)
{
    struct kolo_job *job = context;
    job->is_stderr_cut = job->is_stderr_cut || error != EPIPE;
}

/* Sends rank 0 a part of standard input, or its end (0 bytes). */
static void send_input(struct kolo_job *job, const void *data, size_t bytes)
{
    if (job->remotes[0].state == KOLO_REMOTE_RUNNING) {
        kolo_agent_channel_send(&job->remotes[0].channel, KOLO_FRAME_INPUT, data, bytes);
        job->input_bytes += bytes;
    } else if (bytes > 0) {
        kolo_input_taken(job->input, bytes);
    }
}

static void on_input(void *context, const void *data, size_t bytes)
{
    struct kolo_job *job = context;
    char words[96];
    const int error = bytes == 0 ? kolo_input_error(job->input) : 0;
    if (error != 0) {
        job->is_input_cut = true;
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: standard input cannot be read: %s; rank 0 got %ju bytes of it "
                          "(--no-stdin leaves it unread)",
                          strerror_r(error, words, sizeof words), (uintmax_t)job->input_bytes);
    }
    if (bytes > 0 && ((const char *)data)[bytes - 1] == '\n' &&
        kolo_options_is_dialogue(job->options))
        kolo_output_line_ended(job->streams[JOB_OUT]); /* the terminal shows what is typed */
    send_input(job, data, bytes);
}

void kolo_job_open_input(struct kolo_job *job)
{
    if (kolo_input_create(&job->loop, STDIN_FILENO, on_input, job, &job->input) == KOLO_OK)
        return;
    job->is_input_cut = true;
    kolo_output_print(job->streams[JOB_ERR],
                      "kolorun: %s; rank 0 gets no input (--no-stdin needs no thread)",
                      kolo_error_detail());
    send_input(job, NULL, 0);
}

/* Lines of fewer ranks would never be folded, only delayed. */
static bool folds(const struct kolo_job *job)
{
    const struct kolo_options *options = job->options;
    return !options->no_prefix && !options->no_fold && job->size > KOLO_FOLD_RANKS_MIN;
}

kolo_status kolo_job_open_streams(struct kolo_job *job)
{
    struct kolo_output_events events = {.context = job,
                                        .written = on_written,
                                        .batch = on_batch,
                                        .drained = on_drained,
                                        .broken = on_stdout_broken};
    kolo_status status =
        kolo_output_create(&job->loop, STDOUT_FILENO, &events, &job->streams[JOB_OUT]);
    events.broken = on_stderr_broken;
    if (status == KOLO_OK && kolo_options_is_one_output())
        job->streams[JOB_ERR] = job->streams[JOB_OUT];
    else if (status == KOLO_OK)
        status = kolo_output_create(&job->loop, STDERR_FILENO, &events, &job->streams[JOB_ERR]);
    if (status == KOLO_OK && kolo_options_is_dialogue(job->options))
        kolo_output_keep_open(job->streams[JOB_OUT]);
    for (int i = JOB_OUT; i <= JOB_ERR && status == KOLO_OK && job->options->no_prefix; i++)
        kolo_output_no_prefix(job->streams[i]);
    if (status == KOLO_OK && folds(job))
        status = kolo_output_fold(job->streams[JOB_ERR], &job->loop, job->size,
                                  (int)job->hosts->count, KOLO_JOB_CREDIT_BYTES / 2);
    events.written = on_filed;
    return status == KOLO_OK ? kolo_job_watch_files(job, events) : status;
}

/* Copies to kolorun's own streams what a rank has written. */
static void copy(struct kolo_job *job, int owner, int rank, bool is_error,
                 const struct kolo_piece *text)
{
    if (is_error) {
        kolo_output_foldable(job->streams[JOB_ERR], owner, rank, text->at, text->bytes);
        return;
    }
    note_output(job);
    kolo_output_lines(job->streams[JOB_OUT], owner, rank, text->at, text->bytes);
    kolo_output_interrupt(job->streams[JOB_ERR]); /* both may be shown in one place */
}

kolo_status kolo_job_output(struct kolo_job *job, struct kolo_remote *remote,
                            const struct kolo_frame_message *message)
{
    const struct kolo_piece *text = &message->output.text;
    const int rank = (int)message->rank;
    const bool is_error = message->output.is_error;
    const bool is_lost = job->files.are_broken && !copies(job);
    if (remote->taken - remote->paid >= KOLO_JOB_CREDIT_BYTES + remote->rest)
        return kolo_fail(KOLO_ERR_PROTOCOL, "more output than it had credit for");
    remote->taken += text->bytes;
    if (job->files.filer && !is_lost)
        kolo_output_bytes(job->streams[JOB_FILES], kolo_filer_file(rank, is_error), remote->index,
                          text->at, text->bytes);
    if (copies(job) || is_lost)
        copy(job, remote->index, rank, is_error, text);
    return KOLO_OK;
}

void kolo_job_take_rest(struct kolo_remote *remote)
{
    const uint64_t rest = (uint64_t)remote->host->ranks.count * REST_BYTES;
    if (remote->state != KOLO_REMOTE_RUNNING || remote->rest > 0)
        return;
    remote->rest = rest < UINT32_MAX ? rest : UINT32_MAX;
    kolo_agent_channel_send_u32(&remote->channel, KOLO_FRAME_CREDIT, (uint32_t)remote->rest);
}

bool kolo_job_is_drained(const struct kolo_job *job)
{
    for (int i = 0; i < JOB_STREAMS; i++)
        if (job->streams[i] && !kolo_output_is_drained(job->streams[i]))
            return false;
    return true;
}

void kolo_job_close_streams(struct kolo_job *job)
{
    if (job->streams[JOB_FILES])
        job->files.lost = kolo_output_lost(job->streams[JOB_FILES]);
    for (int i = 0; i < JOB_STREAMS; i++) {
        if (is_double(job, i))
            continue;
        if (job->streams[i] && !copies(job))
            job->lost += kolo_output_lost(job->streams[i]);
        if (job->streams[i])
            job->unstored[i] = kolo_output_unstored(job->streams[i]);
        kolo_output_close(job->streams[i]);
    }
}

void kolo_job_tell_unstored(struct kolo_job *job)
{
    const uint64_t bytes = job->unstored[JOB_OUT] + job->unstored[JOB_ERR];
    if (bytes == 0 || !copies(job))
        return;
    fprintf(stderr,
            "kolorun: %ju bytes of the ranks' output are lost: kolorun had no memory for them\n",
            (uintmax_t)bytes);
    if (job->exit_status == 0)
        job->exit_status = EXIT_STATUS_FAILED;
}

void kolo_job_destroy_streams(struct kolo_job *job)
{
    for (int i = 0; i < JOB_STREAMS; i++)
        if (!is_double(job, i))
            kolo_output_destroy(job->streams[i]);
}
