// SPDX-License-Identifier: Apache-2.0
// The streams of a job: its output, for which the agents get credit back, and its input. A reader
// that goes away ends the job.
#include "launcher/job_state.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_written(void *context, int owner, size_t bytes)
{
    struct kolo_job *job = context;
    job->remotes[owner].owed += bytes;
}

static void pay_credit(struct kolo_job *job)
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
    kolo_job_leave(context);
}

static void on_stdout_broken(void *context, int error)
{
    struct kolo_job *job = context;
    char words[96];
    if (error == EPIPE) {
        job->is_quiet = true; /* as if SIGPIPE had ended it: `kolorun ... | head` */
        kolo_verdict_trouble(job->verdict, kolo_now_ns(), KOLO_EXIT_SIGNAL + SIGPIPE,
                             "nobody reads the output");
    } else {
        kolo_verdict_trouble(job->verdict, kolo_now_ns(), EXIT_FAILURE,
                             "the output cannot be written: %s",
                             strerror_r(error, words, sizeof words));
    }
    kolo_job_kill(job);
}

static void on_stderr_broken(void *context, int error)
{
    (void)context; /* nobody to tell; the job continues */
    (void)error;
}

void kolo_job_input(void *context, const void *data, size_t bytes)
{
    struct kolo_job *job = context;
    if (job->remotes[0].state == KOLO_REMOTE_RUNNING)
        kolo_channel_send(&job->remotes[0].channel, KOLO_FRAME_INPUT, data, bytes);
    else if (bytes > 0)
        kolo_input_taken(job->input, bytes);
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
    if (status == KOLO_OK)
        status = kolo_output_create(&job->loop, STDERR_FILENO, &events, &job->streams[JOB_ERR]);
    return status;
}

void kolo_job_output(struct kolo_job *job, const struct kolo_remote *remote,
                     const struct kolo_message *message)
{
    kolo_output_lines(job->streams[message->output.is_error ? JOB_ERR : JOB_OUT], remote->index,
                      job->options->no_prefix ? -1 : (int)message->rank, message->output.text.at,
                      message->output.text.bytes);
}

bool kolo_job_is_drained(const struct kolo_job *job)
{
    return kolo_output_is_drained(job->streams[JOB_OUT]) &&
           kolo_output_is_drained(job->streams[JOB_ERR]);
}

void kolo_job_close_streams(struct kolo_job *job)
{
    kolo_output_close(job->streams[JOB_OUT]);
    kolo_output_close(job->streams[JOB_ERR]);
}

void kolo_job_destroy_streams(struct kolo_job *job)
{
    kolo_output_destroy(job->streams[JOB_OUT]);
    kolo_output_destroy(job->streams[JOB_ERR]);
}
