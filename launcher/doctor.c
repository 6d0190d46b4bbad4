// SPDX-License-Identifier: Apache-2.0
// The beginning and the end of an examination, and its report. doctor_phases.c has its course,
// doctor_visit.c what hosts say.
#include "launcher/doctor.h"

#include <signal.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launcher/beside.h"
#include "launcher/doctor_state.h"
#include "launcher/examine.h"
#include "launcher/filer.h"
#include "launcher/job.h"
#include "launcher/open_files.h"
#include "tools/exit_status.h"

enum { REACH_MS = 15000 /* unless --start-timeout is given */ };

/* ---- its life ---- */

static void on_child(uv_signal_t *handle, int number)
{
    struct kolo_doctor *doctor = handle->data;
    int wait_status;
    pid_t pid;
    (void)number;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0)
        for (size_t i = 0; i < doctor->count && !kolo_beside_reaped(pid); i++)
            if (kolo_remote_reaped(&doctor->visits[i].remote, pid, wait_status))
                break;
}

/* kolorun's own machine is examined even if it is not one of the hosts: ranks connect with it. */
static bool needs_launcher(const struct kolo_hosts *hosts)
{
    for (size_t i = 0; i < hosts->count; i++)
        if (hosts->at[i].is_here)
            return false;
    return true;
}

static void open_visit(struct kolo_doctor *doctor, size_t index, const struct kolo_host *host,
                       bool is_launcher)
{
    struct kolo_visit *visit = &doctor->visits[index];
    visit->doctor = doctor;
    visit->host = *host;
    visit->checkup = &doctor->checkups[index];
    *visit->checkup = (struct kolo_checkup){.name = visit->host.name,
                                            .ranks = is_launcher ? 0 : (int)host->ranks.count,
                                            .is_here = host->is_here && !is_launcher,
                                            .is_launcher = is_launcher};
    kolo_facts_init(&visit->checkup->facts);
    kolo_remote_init(&visit->remote, &doctor->config, &visit->host, (int)index);
}

static kolo_status open_visits(struct kolo_doctor *doctor)
{
    static uint32_t rank;
    static const struct kolo_host launcher = {
        .name = "this machine", .slots = 1, .is_here = true, .ranks = {.at = &rank, .count = 1}};
    const struct kolo_hosts *hosts = doctor->hosts;
    doctor->count = hosts->count + needs_launcher(hosts);
    doctor->checkups = kolo_calloc(doctor->count, sizeof doctor->checkups[0]);
    doctor->visits = kolo_calloc(doctor->count, sizeof doctor->visits[0]);
    if (!doctor->checkups || !doctor->visits)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < hosts->count; i++)
        open_visit(doctor, i, &hosts->at[i], false);
    if (doctor->count > hosts->count)
        open_visit(doctor, hosts->count, &launcher, true);
    return KOLO_OK;
}

static kolo_status open_doctor(struct kolo_doctor *doctor)
{
    const struct kolo_settings *settings = &doctor->options->settings;
    kolo_status status =
        kolo_remote_config_init(&doctor->config, &doctor->loop, settings, doctor->options->agent);
    if (status != KOLO_OK)
        return status;
    doctor->reach_ms = settings->source[KOLO_SET_START_TIMEOUT] == KOLO_FROM_DEFAULT
                           ? REACH_MS
                           : settings->start_timeout_ms;
    doctor->config.start_timeout_ms = doctor->reach_ms;
    doctor->config.events = kolo_doctor_events(doctor);
    status = kolo_secret_make(&doctor->secret);
    if (status == KOLO_OK)
        status = kolo_secret_try(&doctor->secret);
    return status == KOLO_OK ? open_visits(doctor) : status;
}

static void examine(struct kolo_doctor *doctor)
{
    (void)uv_timer_init(&doctor->loop, &doctor->timer);
    (void)uv_signal_init(&doctor->loop, &doctor->child);
    doctor->timer.data = doctor->child.data = doctor;
    (void)uv_signal_start(&doctor->child, on_child, SIGCHLD);
    kolo_doctor_enter(doctor, DOCTOR_REACHING, doctor->reach_ms + DOCTOR_REACH_MORE_MS);
    kolo_doctor_call_hosts(doctor);
    (void)uv_run(&doctor->loop, UV_RUN_DEFAULT);
}

static void close_left(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_doctor(struct kolo_doctor *doctor)
{
    uv_walk(&doctor->loop, close_left, NULL);
    (void)uv_run(&doctor->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&doctor->loop);
    for (size_t i = 0; doctor->visits && i < doctor->count; i++) {
        kolo_remote_fini(&doctor->visits[i].remote);
        kolo_free_memory(doctor->visits[i].text);
    }
    kolo_free_memory(doctor->visits);
    kolo_free_memory(doctor->checkups);
    kolo_free_memory(doctor->paths.at);
    explicit_bzero(&doctor->secret, sizeof doctor->secret);
}

/* ---- what is told ---- */

static void judge(const struct kolo_doctor *doctor, struct kolo_findings *findings)
{
    const struct kolo_options *options = doctor->options;
    struct utsname names = {.machine = ""};
    char build[17];
    kolo_build_hash(build);
    (void)uname(&names);
    const struct kolo_prognosis job = {.size = doctor->size,
                                       .agent = doctor->config.agent,
                                       .build = build,
                                       .machine = names.machine,
                                       .ports = options->settings.ports,
                                       .net = options->settings.net,
                                       .transport = options->settings.transport,
                                       .gpus = options->gpus};
    kolo_judge_hosts(doctor->checkups, doctor->count, &job, findings);
    kolo_judge_paths(doctor->checkups, doctor->count, &doctor->paths, &job, findings);
    if (doctor->count > DOCTOR_WHOLE_MAX)
        kolo_findings_add(findings, KOLO_SEVERITY_NOTE, "sample", -1,
                          "%zu hosts: each was tried with some of the others, not with all",
                          doctor->count);
    kolo_findings_sort(findings);
}

static kolo_status write_json(struct kolo_doctor *doctor, const struct kolo_diagnosis *diagnosis)
{
    if (!doctor->json)
        return KOLO_OK;
    const kolo_status status = kolo_diagnosis_write(diagnosis, kolo_scribe_stream(doctor->json));
    const kolo_status closed = kolo_scribe_close(doctor->json, status == KOLO_OK);
    doctor->json = NULL;
    return closed != KOLO_OK ? closed : status;
}

/* @return the exit status. */
static int report(struct kolo_doctor *doctor)
{
    struct kolo_findings findings = {.at = NULL};
    int exit_status = 0;
    judge(doctor, &findings);
    const struct kolo_diagnosis diagnosis = {.hosts = doctor->checkups,
                                             .count = doctor->count,
                                             .size = doctor->size,
                                             .paths = &doctor->paths,
                                             .findings = &findings,
                                             .seconds =
                                                 (double)(kolo_now_ns() - doctor->began_ns) / 1e9};
    kolo_diagnosis_print(&diagnosis, stdout);
    const kolo_status status = write_json(doctor, &diagnosis);
    if (findings.is_short)
        fprintf(stderr, "kolorun: memory is short: some findings are missing\n");
    if (status != KOLO_OK)
        fprintf(stderr, "kolorun: %s\n", kolo_error_detail());
    if (status != KOLO_OK || findings.is_short ||
        (findings.count > 0 && findings.at[0].severity < KOLO_SEVERITY_NOTE))
        exit_status = EXIT_STATUS_FAILED;
    kolo_findings_fini(&findings);
    return exit_status;
}

static struct kolo_scribe_place place_of(const struct kolo_options *options, const char *option,
                                         const char *path)
{
    return (struct kolo_scribe_place){.option = option,
                                      .path = path,
                                      .output_dir = options->output_dir,
                                      .input = options->hostfile,
                                      .open_limit_ms = options->settings.start_timeout_ms,
                                      .write_limit_ms = options->settings.exit_timeout_ms};
}

/* Opens the doctor's own file, so that one that cannot be written is refused now. The job would
 * refuse a place where the trace or the files of ranks cannot be written, so the doctor checks that
 * too. The trace may be meant for the directory that is made for the files; the doctor's own file
 * may not, since the directory is removed again. */
static kolo_status open_places(struct kolo_doctor *doctor)
{
    const struct kolo_options *options = doctor->options;
    const struct kolo_scribe_place json = place_of(options, "--json", options->json);
    const struct kolo_scribe_place timeline = place_of(options, "--timeline", options->timeline);
    struct kolo_filer *filer = NULL;
    char why[KOLO_DETAIL_MAX];
    kolo_status status = KOLO_OK;
    if (options->json)
        status = kolo_scribe_open(&json, &doctor->json);
    if (status == KOLO_OK && options->output_dir)
        status = kolo_filer_start(options->output_dir, doctor->size,
                                  options->settings.start_timeout_ms, &filer);
    if (status == KOLO_OK && options->timeline)
        status = kolo_scribe_probe(&timeline);
    kolo_detail_keep(why);
    (void)kolo_filer_end(filer, false, options->settings.exit_timeout_ms);
    kolo_detail_set(why);
    return status;
}

int kolo_doctor_run(const struct kolo_options *options, const struct kolo_hosts *hosts, int size)
{
    struct kolo_doctor doctor = {
        .options = options, .hosts = hosts, .size = size, .began_ns = kolo_now_ns()};
    (void)signal(SIGPIPE, SIG_IGN);
    uintmax_t most = 0; /* too few of them are a finding */
    (void)kolo_open_files_allow(kolo_open_files_of_job(size, hosts->count), 0, &most);
    int exit_status = open_places(&doctor) == KOLO_OK ? EXIT_STATUS_FAILED : EXIT_STATUS_REFUSED;
    if (exit_status == EXIT_STATUS_REFUSED || kolo_loop_open(&doctor.loop) != KOLO_OK) {
        fprintf(stderr, "kolorun: %s\n", kolo_error_detail());
        (void)kolo_scribe_close(doctor.json, false);
        return exit_status;
    }
    kolo_status status = open_doctor(&doctor);
    if (status == KOLO_OK) {
        examine(&doctor);
        exit_status = report(&doctor);
    } else {
        fprintf(stderr, "kolorun: cannot start: %s: %s\n", kolo_status_text(status),
                kolo_error_detail());
    }
    close_doctor(&doctor);
    (void)kolo_scribe_close(doctor.json, false);
    return exit_status;
}
