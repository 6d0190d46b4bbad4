// SPDX-License-Identifier: Apache-2.0
// The internal state of a job, shared by job.c (its beginning and end, timers and signals),
// job_streams.c (output and input), job_files.c (the files of --output-dir), job_phases.c (the
// state machine), job_hosts.c (what happens to hosts), job_ranks.c (what agents and the store
// report about ranks), job_rest.c (what is left with --keep-going) and job_status.c (which tells
// the user what ranks do).
#ifndef KOLO_LAUNCHER_JOB_STATE_H
#define KOLO_LAUNCHER_JOB_STATE_H

#include <uv.h>

#include "base/clock.h"
#include "launcher/filer.h"
#include "launcher/gather.h"
#include "launcher/input.h"
#include "launcher/job.h"
#include "launcher/meeting.h"
#include "launcher/output.h"
#include "launcher/pause.h"
#include "launcher/remote.h"
#include "launcher/survey.h"
#include "launcher/verdict.h"

enum kolo_job_phase {
    JOB_STARTING,
    JOB_RUNNING,
    JOB_ASKED,
    JOB_GRACE,
    JOB_TERM,
    JOB_KILL,
    JOB_ABANDON,
    JOB_COLLECTING,
    JOB_LEAVING,
    JOB_PHASES
};
enum { KOLO_JOB_SIGNALS = 6 /* that kolorun handles */ };
enum { JOB_OUT, JOB_ERR, JOB_FILES, JOB_STREAMS };
enum { JOB_COLLECT_MS = 2000 /* longest time between two pieces of timelines */ };

/** The files of --output-dir. */
struct kolo_job_files {
    struct kolo_filer *filer; /* NULL: without --output-dir, and no stream JOB_FILES */
    uv_timer_t timer;
    uint64_t progress; /* of the filer, when it was last looked at */
    int64_t stuck_ms;  /* for how long there has been none, although there is something to write */
    char stuck[160];   /* that a write did not end, and within which time; "": none was given up */
    uint64_t lost;     /* bytes that are not in the files; known as the job's `lost` is */
    bool are_broken;   /* nothing can be written to them any more */
    bool has_warned, has_stuck_late; /* of a write that does not end */
};

/** Who asked the job to end. */
struct kolo_job_asked {
    int signal; /* the latest; 0: none */
    int64_t ns;
    int64_t agent_ns; /* when an agent got it; 0: none, or kolorun has got it too */
};

/** With --keep-going: the losses, and what is left when others have ended. */
struct kolo_job_rest {
    uv_timer_t timer; /* when it is next looked at */
    int64_t stuck_ns; /* since when it is known that nothing can follow; 0: it is not */
    int64_t warn_ns;  /* when it is named next, and how long after the time before; 0: never yet */
    int64_t warn_ms;
    int64_t losses_ns; /* of the first of the losses of this second */
    int losses;
};

struct kolo_job {
    uv_loop_t loop;
    const struct kolo_options *options;
    const struct kolo_hosts *hosts;
    int size;
    enum kolo_job_phase phase;
    uv_timer_t phase_timer, start_timer, job_timer;
    uv_signal_t child, signals[KOLO_JOB_SIGNALS];
    struct kolo_pause pause;
    struct kolo_survey survey;
    struct kolo_job_rest rest;
    unsigned int survey_reasons; /* bits: why the survey in progress was asked for */
    struct kolo_remote_config remote_config;
    struct kolo_remote *remotes;
    size_t called, calling, prepared, gone;
    struct kolo_meeting *meeting;
    struct kolo_verdict *verdict;
    struct kolo_output *streams[JOB_STREAMS]; /* JOB_ERR may be the same as JOB_OUT */
    struct kolo_job_files files;
    struct kolo_input *input;
    uint64_t input_bytes;       /* of standard input that were sent to rank 0 */
    struct kolo_gather *gather; /* NULL: no timeline */
    char verdict_line[2 * KOLO_DETAIL_MAX];
    int64_t began_ns;
    uint64_t lost; /* bytes of output that are nowhere; known once the streams are closed */
    uint64_t unstored[JOB_STREAMS]; /* for how many there was no memory; known then as well */
    bool has_output;    /* not all is passed on that ranks have written to standard output */
    int lost_double;    /* the error of one output that is both, which ended no job; 0: none */
    bool is_stderr_cut; /* standard error could not be written, and not because nobody reads it */
    int broken_error;   /* that standard output cannot be written with; 0: none yet */
    int64_t broken_ns;  /* since when */
    struct kolo_job_asked asked;
    int exit_status;
    bool is_input_cut; /* rank 0 did not get all of it: the job fails */
    bool has_started, is_joined, is_quiet, said_verdict, said_stray;
    bool is_bounded; /* ended by its deadline or a signal: no reader may delay it for ever */
    bool is_hurried; /* the loop ends soon, whatever is written */
};

/** Prints a line if --verbose is given. */
#define JOB_SAY(job, ...)                                                                          \
    do {                                                                                           \
        if ((job)->options->verbose)                                                               \
            kolo_output_print((job)->streams[JOB_ERR], __VA_ARGS__);                               \
    } while (0)

static inline double kolo_job_age_s(const struct kolo_job *job)
{
    return (double)(kolo_now_ns() - job->began_ns) / 1e9;
}

/* job_phases.c */
/** The only function that changes the phase. It lasts @p limit_ms at most (-1: until something
 * happens). Returns false if the phase may not follow the current one. */
bool kolo_job_enter(struct kolo_job *job, enum kolo_job_phase phase, int64_t limit_ms);
/** Should the others continue without a rank that was lost? Not before all have met: until then
 * none of them can continue. */
bool kolo_job_keeps_going(const struct kolo_job *job);
/** Something failed: gives the ranks time to report their errors, then ends them. Ranks that a
 * signal has asked to end have their time already. */
void kolo_job_begin_end(struct kolo_job *job);
/** The same for ranks that run, also if a signal has asked them. */
void kolo_job_give_grace(struct kolo_job *job);
void kolo_job_kill(struct kolo_job *job);
/** A signal ends the job: all ranks get it, and have the exit timeout. */
void kolo_job_ask(struct kolo_job *job, int number);
/** Sends a signal to all running ranks. */
void kolo_job_signal(struct kolo_job *job, int number);
/** If everything has ended and all output is written: prints the verdict and ends the loop. */
void kolo_job_leave(struct kolo_job *job);
void kolo_job_leave_if_gone(struct kolo_job *job);
/** While it leaves: what was said is to be read within the exit timeout. */
void kolo_job_bound_leaving(struct kolo_job *job);
void kolo_job_phase_ended(uv_timer_t *timer);

/* job_hosts.c */
/** Calls as many of the remaining hosts as may be called at a time. */
void kolo_job_call_hosts(struct kolo_job *job);
/** An agent got a signal, which its ranks have got from it: the others get it too. ERR_PROTOCOL: it
 * is none that ends an agent. */
kolo_status kolo_job_agent_signalled(struct kolo_job *job, struct kolo_remote *remote,
                                     uint32_t number) KOLO_NODISCARD;
struct kolo_remote_events kolo_job_host_events(struct kolo_job *job);

/* job_ranks.c */
/** Handles what a host's agent says. */
kolo_status kolo_job_message(struct kolo_remote *remote, const struct kolo_frame_message *message);
struct kolo_store_server_events kolo_job_store_events(struct kolo_job *job);

/* job_rest.c */
/** With --keep-going, a host is lost: says so, if others go on. */
void kolo_job_tell_host_loss(struct kolo_job *job, const struct kolo_host *host, const char *why);
/** The same for a rank; @p how follows its name, and how it ended if it has. */
void kolo_job_tell_rank_loss(struct kolo_job *job, int rank, const char *how);
/** A rank has ended, or is lost: soon looks at what is left, with --keep-going. */
void kolo_job_look_after_rest(struct kolo_job *job);
/** A survey has seen what is left. */
void kolo_job_rest_seen(struct kolo_job *job);

/* job_status.c */
struct kolo_report_rank;
/** What is known of each rank; kolo_free_memory frees it. NULL: no memory. The sights are left out
 * if nobody was asked. */
struct kolo_report_rank *kolo_job_collect(struct kolo_job *job, bool with_sights);
/** Prints what the ranks do that have not ended. */
void kolo_job_print_running(struct kolo_job *job, const struct kolo_report_rank *ranks);
/** Looks what the first rank does that had not called kolo_init in time, for the verdict. */
void kolo_job_look_at_late(struct kolo_job *job);
/** Tells the verdict what has been seen of it, also if a host whose ranks have ended since never
 * answers. */
void kolo_job_keep_late(struct kolo_job *job);
/** Looks what the ranks do that are left: kolo_job_rest_seen. */
void kolo_job_survey_rest(struct kolo_job *job);
/** Writes the names of the hosts that are not ready to start. */
void kolo_job_name_unprepared(const struct kolo_job *job, char *text, size_t capacity);
/** Writes which of them printed something, and its last line: "; NAME printed 'LINE'"; "": none. */
void kolo_job_quote_unprepared(const struct kolo_job *job, char *text, size_t capacity);
kolo_status kolo_job_open_survey(struct kolo_job *job) KOLO_NODISCARD;
/** The user asks what the job does. */
void kolo_job_tell_status(struct kolo_job *job);
/** The ranks are about to be stopped, or go on. Nobody is told that they are stopped. */
void kolo_job_paused(void *context, bool is_pausing);
/** Some ranks wait for others: looks what those that are in no call do, and tells the user. */
void kolo_job_look_for_missing(struct kolo_job *job);
/** The time of the job is over: tells what the ranks do, then ends it. */
void kolo_job_end_by_timeout(struct kolo_job *job);
/** The user ends the job: tells what is known, without asking, if ranks have waited for long. */
void kolo_job_tell_stall(struct kolo_job *job);

/* job_streams.c */
kolo_status kolo_job_open_streams(struct kolo_job *job) KOLO_NODISCARD;
/** Passes on what a rank has written. ERR_PROTOCOL: the host had no credit for it. */
kolo_status kolo_job_output(struct kolo_job *job, struct kolo_remote *remote,
                            const struct kolo_frame_message *message) KOLO_NODISCARD;
/** The ranks of a host are about to be killed: lets it send what they have written, also if nobody
 * reads the output now. */
void kolo_job_take_rest(struct kolo_remote *remote);
/** The job ends: tells the verdict if its output was broken, and no signal or deadline ended it. */
void kolo_job_judge_output(struct kolo_job *job);
/** Ends the job because its output is broken. */
void kolo_job_end_unread(struct kolo_job *job);
/** Begins to pass standard input on to rank 0. If that cannot be, rank 0 gets its end. */
void kolo_job_open_input(struct kolo_job *job);
/** Whether all output is written. */
bool kolo_job_is_drained(const struct kolo_job *job);
/** As kolo_output_close and kolo_output_destroy. */
void kolo_job_close_streams(struct kolo_job *job);
/** When they are closed: says how much of the output is lost, and fails the job, if there was no
 * memory for it. */
void kolo_job_tell_unstored(struct kolo_job *job);
void kolo_job_destroy_streams(struct kolo_job *job);

/* job_files.c */
/** With --output-dir: makes the files, before anything else is done. */
kolo_status kolo_job_open_files_of_ranks(struct kolo_job *job) KOLO_NODISCARD;
/** Opens the stream of the files; @p events are those of the other streams, except `broken`. */
kolo_status kolo_job_watch_files(struct kolo_job *job,
                                 struct kolo_output_events events) KOLO_NODISCARD;
/** Whether the files have what they are to have, or have been given up. */
bool kolo_job_is_filed(const struct kolo_job *job);
/** When the loop has ended: gives up a write that has not. */
void kolo_job_settle_files(struct kolo_job *job);
/** When the streams are closed: closes the files, and says what is missing in them. Returns the
 * exit status; a failure of a rank, @p exit_status, counts first. */
int kolo_job_end_files(struct kolo_job *job, int exit_status);

#endif
