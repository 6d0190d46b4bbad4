// SPDX-License-Identifier: Apache-2.0
// The beginning and the end of a job, its timers and the user's signals. Must not handle its
// streams (job_streams.c) and the events of hosts and ranks (job_hosts.c, job_ranks.c). Every host
// is called (a bounded number at a time), told the job, and checks whether it can start it; nothing
// is started until all of them can.
#include "launcher/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "launcher/beside.h"
#include "launcher/job_state.h"
#include "runtime/timeline.h"
#include "tools/exit_status.h"
#include "transport/places.h"

/* The first three end the job; SIGQUIT (Ctrl-\) asks what it does. The others mean what the program
 * says: to write a checkpoint before a scheduler ends the job, for example. */
static const int watched_signals[KOLO_JOB_SIGNALS] = {SIGINT,  SIGTERM, SIGHUP,
                                                      SIGQUIT, SIGUSR1, SIGUSR2};

static const int harmless[] = {SIGQUIT, SIGUSR1, SIGUSR2};

/* A person does not press Ctrl-C again so soon. */
static const int64_t REPEATED_NS = 200 * KOLO_NS_PER_MS;

/* ---- time and signals ---- */

static void on_start_timeout(uv_timer_t *timer)
{
    struct kolo_job *job = timer->data;
    char names[256], printed[448];
    kolo_job_name_unprepared(job, names, sizeof names);
    kolo_job_quote_unprepared(job, printed, sizeof printed);
    kolo_verdict_trouble(job->verdict, kolo_now_ns(), KOLO_EXIT_HOST,
                         "%s: no answer within %.1f s (--start-timeout)%s; nothing was started%s",
                         names, (double)job->options->settings.start_timeout_ms / 1000, printed,
                         printed[0] ? "" : "; 'kolorun doctor' with the same hosts says more");
    kolo_job_kill(job);
}

static void on_job_timeout(uv_timer_t *timer)
{
    struct kolo_job *job = timer->data;
    if (job->phase == JOB_LEAVING) /* it did: only its output is not read yet */
        kolo_job_bound_leaving(job);
    else
        kolo_job_end_by_timeout(job);
}

/* Some programs pass on to kolorun a signal that the terminal, or they, send to its whole process
 * group as well, a session that is ended gets SIGHUP right after SIGTERM, and agents that got a
 * signal as kolorun did may be heard first: that is one request, and does not kill what the ranks
 * are saving. */
static bool is_repeated(const struct kolo_job *job, int number)
{
    const bool is_same =
        number == job->asked.signal || number == SIGHUP || job->asked.signal == SIGHUP;
    return is_same && job->asked.signal != 0 && kolo_now_ns() - job->asked.ns < REPEATED_NS;
}

static void blame_signal(struct kolo_job *job, int64_t when_ns, int number)
{
    job->asked.agent_ns = 0;
    job->asked.signal = number;
    job->asked.ns = when_ns;
    kolo_verdict_trouble(job->verdict, when_ns, KOLO_EXIT_SIGNAL + number,
                         "stopped by signal %d (SIG%s); the job was ended", number,
                         sigabbrev_np(number));
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct kolo_job *job = handle->data;
    if (number == SIGUSR1 || number == SIGUSR2) {
        if (job->phase == JOB_RUNNING)
            kolo_job_signal(job, number);
        return;
    }
    if (number == SIGQUIT) {
        kolo_job_tell_status(job);
        return;
    }
    if (is_repeated(job, number)) {
        if (job->asked.agent_ns != 0)
            blame_signal(job, job->asked.agent_ns - 1, number);
        else if (job->asked.signal == SIGHUP && number != SIGHUP) /* of two, it comes first */
            blame_signal(job, job->asked.ns - 1, number);
        return;
    }
    if (job->phase == JOB_COLLECTING) { /* the user does not want to wait for the rest */
        kolo_job_kill(job);
        return;
    }
    job->is_bounded = true;
    blame_signal(job, kolo_now_ns(), number);
    if (job->phase == JOB_LEAVING) { /* nobody reads the rest, and the user does not want to wait */
        job->exit_status = KOLO_EXIT_SIGNAL + number;
        uv_stop(&job->loop);
    } else if (job->phase == JOB_RUNNING) {
        kolo_job_ask(job, number);
    } else {
        kolo_job_kill(job);
    }
}

static void on_child(uv_signal_t *handle, int number)
{
    (void)number;
    struct kolo_job *job = handle->data;
    int wait_status;
    for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;)
        for (size_t i = 0; i < job->hosts->count && !kolo_beside_reaped(pid); i++)
            if (kolo_remote_reaped(&job->remotes[i], pid, wait_status))
                break;
}

/* ---- beginning and end ---- */

static void init_timer(struct kolo_job *job, uv_timer_t *timer)
{
    (void)uv_timer_init(&job->loop, timer);
    timer->data = job;
}

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static void init_handles(struct kolo_job *job)
{
    const struct kolo_settings *settings = &job->options->settings;
    init_timer(job, &job->phase_timer);
    init_timer(job, &job->start_timer);
    init_timer(job, &job->job_timer);
    init_timer(job, &job->rest.timer);
    (void)uv_timer_start(&job->start_timer, on_start_timeout, (uint64_t)settings->start_timeout_ms,
                         0);
    if (settings->job_timeout_ms > 0)
        (void)uv_timer_start(&job->job_timer, on_job_timeout, (uint64_t)settings->job_timeout_ms,
                             0);
    for (int i = 0; i < KOLO_JOB_SIGNALS; i++) {
        (void)uv_signal_init(&job->loop, &job->signals[i]);
        job->signals[i].data = job;
        if (watched_signals[i] != SIGHUP || !is_ignored(SIGHUP)) /* nohup */
            (void)uv_signal_start(&job->signals[i], on_signal, watched_signals[i]);
    }
    (void)uv_signal_init(&job->loop, &job->child);
    job->child.data = job;
    (void)uv_signal_start(&job->child, on_child, SIGCHLD);
}

static kolo_status open_meeting(struct kolo_job *job)
{
    bool is_local = true;
    for (size_t i = 0; i < job->hosts->count; i++)
        is_local = is_local && job->hosts->at[i].is_here;
    if (is_local && !kolo_places_loopback_works())
        kolo_output_print(job->streams[JOB_ERR],
                          "kolorun: warning: the loopback interface is down, over which ranks of "
                          "kolo meet; bring it up (ip link set lo up)");
    const struct kolo_store_server_events events = kolo_job_store_events(job);
    return kolo_meeting_create(&job->loop, job->size, is_local, &job->options->settings, &events,
                               &job->meeting);
}

static kolo_status open_remotes(struct kolo_job *job)
{
    kolo_status status = kolo_remote_config_init(&job->remote_config, &job->loop,
                                                 &job->options->settings, job->options->agent);
    if (status != KOLO_OK)
        return status;
    job->remote_config.events = kolo_job_host_events(job);
    job->remotes = kolo_calloc(job->hosts->count, sizeof job->remotes[0]);
    if (!job->remotes)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < job->hosts->count; i++)
        kolo_remote_init(&job->remotes[i], &job->remote_config, &job->hosts->at[i], (int)i);
    kolo_pause_init(&job->pause, &job->loop, job->remotes, job->hosts->count, kolo_job_paused, job);
    return KOLO_OK;
}

static kolo_status open_job(struct kolo_job *job)
{
    kolo_status status = KOLO_OK;
    KOLO_TRY(kolo_verdict_create(job->size, &job->verdict));
    KOLO_TRY(kolo_job_open_streams(job));
    KOLO_TRY(open_meeting(job));
    KOLO_TRY(open_remotes(job));
    KOLO_TRY(kolo_job_open_survey(job));
out:
    return status;
}

static void close_left(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* What is said from here on is written by this thread. If nobody reads standard error, that would
 * wait for ever. */
static void hush_if_unread(struct kolo_job *job)
{
    enum { PATIENCE_MS = 1000, LOOK_MS = 10 };
    const kolo_deadline end = kolo_deadline_in_ms(PATIENCE_MS);
    while (job->streams[JOB_ERR] && !kolo_output_is_drained(job->streams[JOB_ERR])) {
        if (kolo_deadline_passed(end)) {
            const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
            if (nothing >= 0)
                (void)dup2(nothing, STDERR_FILENO);
            return;
        }
        (void)poll(NULL, 0, LOOK_MS);
        (void)uv_run(&job->loop, UV_RUN_NOWAIT);
    }
}

static void ignore_harmless(void)
{
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        (void)signal(harmless[i], SIG_IGN);
}

/* SIGQUIT asks, SIGUSR1 and SIGUSR2 are for ranks: none may end what is written from here on. The
 * loop gives them back their default action when it closes, so they are held back until they are
 * ignored again. */
static void hold_back_harmless(bool is_held)
{
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        (void)sigaddset(&set, harmless[i]);
    if (!is_held)
        ignore_harmless();
    (void)pthread_sigmask(is_held ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static void close_job(struct kolo_job *job)
{
    hold_back_harmless(true);
    kolo_meeting_close(job->meeting);
    kolo_input_close(job->input);
    kolo_job_close_streams(job);
    uv_walk(&job->loop, close_left, NULL);
    (void)uv_run(&job->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&job->loop);
    hold_back_harmless(false);
    for (size_t i = 0; job->remotes && i < job->hosts->count; i++)
        kolo_remote_fini(&job->remotes[i]);
    kolo_survey_fini(&job->survey);
    kolo_free_memory(job->remotes);
    kolo_meeting_destroy(job->meeting);
    kolo_input_destroy(job->input);
    kolo_job_destroy_streams(job);
    kolo_verdict_destroy(job->verdict);
}

static void say_unchanged(const char *path)
{
    char text[KOLO_DETAIL_MAX];
    snprintf(text, sizeof text, "timeline: nothing was started; %s is unchanged", path);
    kolo_text_clean(text);
    fprintf(stderr, "kolorun: %s\n", text);
}

/* The exit status after writing the trace, if there is to be one. A job that was refused has no
 * trace, and an existing file stays. */
static int end_timeline(struct kolo_job *job)
{
    int exit_status = job->exit_status;
    if (job->gather && !job->has_started) {
        if (!job->is_quiet)
            say_unchanged(job->options->timeline);
    } else if (job->gather &&
               kolo_gather_finish(job->gather, job->verdict_line, job->is_quiet) != KOLO_OK) {
        fprintf(stderr, "kolorun: no timeline: %s\n", kolo_error_detail());
        exit_status = exit_status != 0 ? exit_status : EXIT_STATUS_FAILED;
    }
    kolo_gather_destroy(job->gather);
    return exit_status;
}

/* Opens what the job will write, so that a place that cannot be written is refused now. The trace
 * may be meant for the directory that is made for the files. Returns the exit status; 0: go on. */
static int open_places(struct kolo_job *job)
{
    const struct kolo_options *options = job->options;
    char why[KOLO_DETAIL_MAX];
    kolo_status status = KOLO_OK;
    KOLO_TRY(kolo_job_open_files_of_ranks(job));
    if (options->timeline)
        status = kolo_gather_create(
            &(struct kolo_scribe_place){.option = "--timeline",
                                        .path = options->timeline,
                                        .output_dir = options->output_dir,
                                        .input = options->hostfile,
                                        .open_limit_ms = options->settings.start_timeout_ms,
                                        .write_limit_ms = options->settings.exit_timeout_ms},
            job->size, kolo_options_timeline_calls(options, job->size), &job->gather);
out:
    if (status == KOLO_OK)
        return 0;
    kolo_detail_keep(why);
    (void)kolo_job_end_files(job, KOLO_EXIT_USAGE);
    fprintf(stderr, "kolorun: %s\n", why);
    return status == KOLO_ERR_NO_MEMORY || status == KOLO_ERR_UNSUPPORTED ? KOLO_EXIT_SHORTAGE
                                                                          : KOLO_EXIT_USAGE;
}

int kolo_job_run(const struct kolo_options *options, const struct kolo_hosts *hosts, int size)
{
    struct kolo_job job = {.options = options, .hosts = hosts, .size = size, .phase = JOB_STARTING};
    const int refusal = open_places(&job);
    if (refusal != 0)
        return refusal;
    if (options->timeline && options->settings.timeline[0] != '\0' &&
        !kolo_timeline_is_lent(&options->settings))
        fprintf(
            stderr,
            "kolorun: warning: KOLO_TIMELINE=%s has no effect with --timeline; use one of them\n",
            options->settings.timeline);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* the write fails, which is told */
    (void)signal(SIGTTIN, SIG_IGN);
    (void)signal(SIGTTOU, SIG_IGN); /* it would stop this process alone, not the job */
    ignore_harmless();              /* until the loop handles them */
    job.began_ns = kolo_now_ns();
    if (kolo_loop_open(&job.loop) != KOLO_OK) {
        fprintf(stderr, "kolorun: %s\n", kolo_error_detail());
        kolo_gather_destroy(job.gather);
        return kolo_job_end_files(&job, KOLO_EXIT_SHORTAGE);
    }
    init_handles(&job);
    kolo_status status = open_job(&job);
    if (status == KOLO_OK) {
        kolo_job_call_hosts(&job);
        (void)uv_run(&job.loop, UV_RUN_DEFAULT);
    } else {
        fprintf(stderr, "kolorun: cannot start: %s: %s\n", kolo_status_text(status),
                kolo_error_detail());
        job.exit_status = status == KOLO_ERR_CONFIG ? EXIT_STATUS_REFUSED : KOLO_EXIT_SHORTAGE;
    }
    kolo_job_settle_files(&job);
    hush_if_unread(&job);
    close_job(&job);
    if (job.exit_status == 0 && (job.is_input_cut || job.is_stderr_cut))
        job.exit_status = EXIT_STATUS_FAILED;
    kolo_job_tell_unstored(&job);
    return kolo_job_end_files(&job, end_timeline(&job));
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
        char ranks[128];
        kolo_ranks_text(&host->ranks, ranks, sizeof ranks);
        printf("%s: %s%s", host->name, ranks, host->is_here ? " (this machine)" : " by");
        for (size_t j = 0; j < argv.count; j++)
            printf(" %s", argv.at[j]);
        printf("\n");
        kolo_texts_fini(&argv);
    }
}
