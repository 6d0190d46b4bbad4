// SPDX-License-Identifier: Apache-2.0
// The ranks of a host as processes: starts and reaps them. lines.c handles their output.
//
// All are forked at once, so that a signal reaches every one of them, and none is waited for: where
// a file system does not answer, executing a program takes long, and the agent's heartbeat must go
// on. STARTED is sent before anything else about a rank.
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/settings.h"
#include "launcher/bind.h"
#include "launcher/children.h"
#include "launcher/gpus.h"
#include "launcher/lines.h"
#include "launcher/open_files.h"
#include "launcher/records.h"
#include "launcher/spawn.h"
#include "tools/exit_status.h"

struct child {
    struct kolo_children *children;
    uint32_t rank;
    pid_t pid;
    int64_t started_ns;
    bool is_running;
    bool is_starting; /* and it has yet to say whether it was executed */
    uv_poll_t report;
    int report_fd, ours[3];
    struct kolo_records records; /* the timeline */
    struct kolo_lines streams[2];
};

/* A write of standard input to rank 0 in progress. */
struct input {
    uv_write_t request;
    struct kolo_children *children;
    uint32_t bytes;
    uint8_t data[];
};

struct kolo_children {
    uv_loop_t *loop;
    struct kolo_agent_channel *channel;
    const struct kolo_spec *spec;
    struct child *at;
    uint32_t count, running;
    struct kolo_lines_shared lines;
    uv_pipe_t input;
    uv_shutdown_t input_end;
    bool has_input;
    char program[PATH_MAX];
    uint64_t kills_before; /* out-of-memory kills before */
    cpu_set_t *cpus;       /* one set per rank; NULL: the agent's */
    struct kolo_gpu_shares gpus;
    void (*failed)(void *context);
    void *context;
    bool has_failed; /* a rank could not be started */
};

/* How often the kernel's out-of-memory killer has acted on this machine; 0 if it does not say. */
static uint64_t memory_kills(void)
{
    FILE *file = fopen("/proc/vmstat", "re");
    char line[128];
    uint64_t kills = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "oom_kill ", 9) == 0)
            kills = strtoull(line + 9, NULL, 10);
    if (file)
        fclose(file);
    return kills;
}

static const char *value_in(char *const *entries, const char *name)
{
    const size_t length = strlen(name);
    for (; entries && *entries; entries++)
        if (strncmp(*entries, name, length) == 0 && (*entries)[length] == '=')
            return *entries + length + 1;
    return NULL;
}

/* The value of a variable as a rank will see it; NULL: not set. */
static const char *value_of(const struct kolo_spec *spec, const char *name)
{
    const char *value = value_in(spec->env.at, name);
    return value ? value : value_in(kolo_environment_entries(), name);
}

static const char *search_path(const struct kolo_spec *spec)
{
    const char *path = value_of(spec, "PATH");
    return path ? path : "/usr/local/bin:/usr/bin:/bin";
}

/* Assigns devices to each rank; none if the job does not ask for it. */
static kolo_status plan_gpus(const struct kolo_spec *spec, const cpu_set_t *sets,
                             struct kolo_gpu_shares *shares)
{
    struct kolo_gpus gpus = {.all = NULL};
    int *nodes = NULL;
    kolo_status status = KOLO_OK;
    if (spec->gpus == 0)
        return KOLO_OK;
    KOLO_TRY(kolo_gpus_find("", value_of(spec, "CUDA_VISIBLE_DEVICES"),
                            value_of(spec, "CUDA_DEVICE_ORDER"), &gpus));
    nodes = sets ? kolo_calloc(spec->ranks.count, sizeof *nodes) : NULL;
    if (sets && !nodes) {
        status = KOLO_ERR_NO_MEMORY;
        goto out;
    }
    if (nodes)
        kolo_bind_nodes(sets, (int)spec->ranks.count, nodes);
    status = kolo_gpus_deal(&gpus, (int)spec->gpus, nodes, (int)spec->ranks.count, shares);
out:
    kolo_free_memory(nodes);
    kolo_gpus_fini(&gpus);
    return status;
}

/* Assigns processors and devices to each rank. */
static kolo_status plan_shares(struct kolo_children *children)
{
    const struct kolo_spec *spec = children->spec;
    kolo_status status = kolo_bind_plan(spec->bind, (int)spec->ranks.count, &children->cpus);
    if (status == KOLO_ERR_UNSUPPORTED && spec->bind == KOLO_BIND_AUTO)
        status = KOLO_OK;
    return status == KOLO_OK ? plan_gpus(spec, children->cpus, &children->gpus) : status;
}

kolo_status kolo_children_prepare(uv_loop_t *loop, struct kolo_agent_channel *channel,
                                  const struct kolo_spec *spec, struct kolo_children **children_out,
                                  int *exit_status_out)
{
    *exit_status_out = 126;
    struct stat facts;
    errno = stat(spec->cwd, &facts) == 0 && !S_ISDIR(facts.st_mode) ? ENOTDIR : 0;
    if (errno != 0 || access(spec->cwd, X_OK) != 0)
        return kolo_fail_errno(KOLO_ERR_NOT_FOUND, errno, "directory '%.512s'", spec->cwd);
    struct kolo_children *children = kolo_calloc(1, sizeof *children);
    if (!children)
        return KOLO_ERR_NO_MEMORY;
    children->loop = loop;
    children->channel = channel;
    children->spec = spec;
    children->lines = (struct kolo_lines_shared){
        .channel = channel, .credit = spec->credit_bytes, .heard_ns = kolo_now_ns()};
    children->kills_before = memory_kills();
    int error = 0;
    kolo_status status = kolo_program_find(spec->argv.at[0], spec->cwd, search_path(spec),
                                           children->program, sizeof children->program, &error);
    if (status != KOLO_OK) {
        *exit_status_out = error == ENOENT ? 127 : 126;
        goto out;
    }
    status = kolo_open_files_allow_agent((int)spec->ranks.count);
    children->at = kolo_calloc(spec->ranks.count, sizeof children->at[0]);
    if (!children->at)
        status = KOLO_ERR_NO_MEMORY;
    if (status == KOLO_OK)
        status = plan_shares(children);
    if (status == KOLO_ERR_UNSUPPORTED || status == KOLO_ERR_CONFIG)
        *exit_status_out = EXIT_STATUS_REFUSED;
out:
    if (status == KOLO_OK)
        *children_out = children;
    else
        kolo_children_destroy(children);
    return status;
}

/* Sets the variables of a rank that sees only some devices. Its network card should be near its
 * first device, unless the user has said otherwise. */
static kolo_status add_gpus(const struct kolo_spec *spec, const struct kolo_gpu_shares *gpus,
                            uint32_t local, struct kolo_texts *env)
{
    kolo_status status = KOLO_OK;
    if (gpus->names.count == 0)
        return KOLO_OK;
    KOLO_TRY(kolo_texts_define(env, "CUDA_VISIBLE_DEVICES", gpus->names.at[local]));
    if (!value_of(spec, "KOLO_NEAR") && gpus->addresses.at[local][0] != '\0')
        status = kolo_texts_define(env, "KOLO_NEAR", gpus->addresses.at[local]);
out:
    return status;
}

/* Creates the memory for a rank's timeline if the job has one, and tells the rank where it is. */
static kolo_status add_records(const struct kolo_children *children, uint32_t local,
                               struct kolo_texts *env)
{
    const struct kolo_spec *spec = children->spec;
    struct kolo_records *records = &children->at[local].records;
    char value[32];
    if (spec->timeline_calls == 0)
        return KOLO_OK;
    kolo_status status = kolo_records_open(records, (int)spec->ranks.at[local], (int)spec->size,
                                           spec->timeline_calls);
    snprintf(value, sizeof value, "fd://%d", records->fd);
    return status == KOLO_OK ? kolo_texts_define(env, "KOLO_TIMELINE", value) : status;
}

/* Sets the variables that differ between ranks. */
static kolo_status make_env(const struct kolo_children *children, uint32_t local,
                            struct kolo_texts *env)
{
    const struct kolo_spec *spec = children->spec;
    kolo_status status = KOLO_OK;
    KOLO_TRY(kolo_spec_environment(spec, env));
    const struct {
        const char *name, *alias;
        uint32_t value;
    } own[] = {{"KOLO_RANK", "RANK", spec->ranks.at[local]},
               {"KOLO_SIZE", "WORLD_SIZE", spec->size},
               {"KOLO_LOCAL_RANK", "LOCAL_RANK", local},
               {"KOLO_LOCAL_SIZE", "LOCAL_WORLD_SIZE", spec->ranks.count}};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        char text[16];
        snprintf(text, sizeof text, "%u", own[i].value);
        KOLO_TRY(kolo_texts_define(env, own[i].name, text));
        KOLO_TRY(kolo_texts_define(env, own[i].alias, text));
    }
    KOLO_TRY(add_records(children, local, env));
    status = add_gpus(spec, &children->gpus, local, env);
out:
    return status;
}

/* Creates pipes for the streams: theirs[] go to the rank, ours[] stay. -1: /dev/null. */
static kolo_status make_pipes(bool with_input, int theirs[3], int ours[3])
{
    kolo_status status = KOLO_OK;
    for (int i = 0; i < 3; i++)
        theirs[i] = ours[i] = -1;
    for (int i = with_input ? 0 : 1; i < 3 && status == KOLO_OK; i++) {
        int ends[2];
        status = kolo_pipe(ends);
        if (status != KOLO_OK)
            break;
        theirs[i] = ends[i == 0 ? 0 : 1];
        ours[i] = ends[i == 0 ? 1 : 0];
    }
    return status;
}

static void close_all(int fds[3])
{
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* Opens the way of standard input, which may come before the rank is executed. */
static kolo_status open_input(struct kolo_children *children, int *fd)
{
    if (*fd < 0)
        return KOLO_OK;
    (void)uv_pipe_init(children->loop, &children->input, 0);
    children->input.data = children;
    children->has_input = true;
    const int error = uv_pipe_open(&children->input, *fd);
    if (error != 0)
        return kolo_fail(KOLO_ERR_SYSTEM, "open the input of rank 0: %s", uv_strerror(error));
    *fd = -1;
    return KOLO_OK;
}

static kolo_status open_outputs(struct kolo_children *children, struct child *child)
{
    kolo_status status = KOLO_OK;
    for (int i = 1; i < 3; i++) {
        KOLO_TRY(kolo_lines_open(&child->streams[i - 1], &children->lines, children->loop,
                                 child->ours[i], child->rank, i));
        child->ours[i] = -1;
        if (children->spec->is_dialogue && child->rank == 0)
            kolo_lines_show_prompts(&child->streams[i - 1], children->loop);
    }
out:
    return status;
}

static void report_start(struct kolo_children *children, const struct child *child)
{
    uint8_t body[8];
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_write_u32(&writer, child->rank);
    kolo_write_u32(&writer, (uint32_t)child->pid);
    kolo_agent_channel_send(children->channel, KOLO_FRAME_STARTED, body, sizeof body);
}

/* Only the first failure is told: the others are of the same cause, or of the end that follows. */
static void fail(struct kolo_children *children)
{
    if (children->has_failed)
        return;
    children->has_failed = true;
    children->failed(children->context);
}

/* The loop must forget it before it is closed: processes that are not executed yet have copies. */
static void forget_report(struct child *child)
{
    child->is_starting = false;
    uv_close((uv_handle_t *)&child->report, NULL);
    close(child->report_fd);
}

/* Hears from a starting rank whether it was executed, if it has said so. */
static void settle(struct kolo_children *children, struct child *child)
{
    const struct kolo_spawn spawn = {.path = children->program, .cwd = children->spec->cwd};
    int error = 0;
    kolo_status status = kolo_spawn_end(&spawn, child->report_fd, &error);
    if (status == KOLO_AGAIN)
        return;
    forget_report(child);
    if (status == KOLO_OK) {
        child->started_ns = kolo_now_ns();
        report_start(children, child);
        status = open_outputs(children, child);
    } else {
        child->is_running = false;
        children->running--;
    }
    close_all(child->ours);
    if (status != KOLO_OK)
        fail(children);
}

static void on_report(uv_poll_t *handle, int error, int events)
{
    struct child *child = handle->data;
    (void)error;
    (void)events;
    settle(child->children, child);
}

static kolo_status watch_report(struct kolo_children *children, struct child *child)
{
    int error = uv_poll_init(children->loop, &child->report, child->report_fd);
    if (error != 0) {
        close(child->report_fd);
        return kolo_fail(KOLO_ERR_SYSTEM, "watch the start of rank %u: %s", child->rank,
                         uv_strerror(error));
    }
    child->report.data = child;
    child->is_starting = true;
    (void)uv_poll_start(&child->report, UV_READABLE, on_report);
    return KOLO_OK;
}

static kolo_status start_child(struct kolo_children *children, uint32_t local)
{
    const struct kolo_spec *spec = children->spec;
    struct child *child = &children->at[local];
    struct kolo_texts env = {.at = NULL};
    int theirs[3] = {-1, -1, -1}, error = 0;
    kolo_status status = KOLO_OK;
    *child =
        (struct child){.children = children, .rank = spec->ranks.at[local], .ours = {-1, -1, -1}};
    KOLO_TRY(make_env(children, local, &env));
    KOLO_TRY(make_pipes(spec->has_input && child->rank == 0, theirs, child->ours));
    KOLO_TRY(open_input(children, &child->ours[0]));
    struct kolo_spawn spawn = {.path = children->program,
                               .argv = spec->argv.at,
                               .env = env.at,
                               .cwd = spec->cwd,
                               .fds = {theirs[0], theirs[1], theirs[2]},
                               .kept_fd = child->records.fd,
                               .death_signal = SIGKILL,
                               .cpus = children->cpus ? &children->cpus[local] : NULL,
                               .may_be_unbound = children->spec->bind == KOLO_BIND_AUTO};
    KOLO_TRY(kolo_spawn_begin(&spawn, &child->pid, &child->report_fd, &error));
    children->count = local + 1;
    KOLO_TRY(watch_report(children, child));
    child->is_running = true;
    child->started_ns = kolo_now_ns();
    children->running++;
out:
    close_all(theirs);
    if (status != KOLO_OK)
        close_all(child->ours);
    kolo_texts_fini(&env);
    return status;
}

void kolo_children_start(struct kolo_children *children, void (*failed)(void *context),
                         void *context)
{
    children->failed = failed;
    children->context = context;
    for (uint32_t i = 0; i < children->spec->ranks.count && !children->has_failed; i++) {
        if (start_child(children, i) != KOLO_OK)
            fail(children);
        kolo_agent_channel_beat(children->channel); /* a thousand of them take seconds */
    }
}

static double seconds_of(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

/* The system sends SIGXCPU at the soft limit of processor time and SIGKILL at the hard limit. For
 * this it counts ticks, which on a virtual machine that waits for a processor exceed the time that
 * it reports as used: 3.05 s were seen at a limit of 4 s. */
static bool has_run_out_of_time(int number, const struct rusage *usage)
{
    struct rlimit limit;
    if ((number != SIGXCPU && number != SIGKILL) || getrlimit(RLIMIT_CPU, &limit) != 0)
        return false;
    if (number == SIGXCPU)
        return limit.rlim_cur != RLIM_INFINITY;
    return limit.rlim_max != RLIM_INFINITY && seconds_of(usage) > 0.6 * (double)limit.rlim_max;
}

static void report_end(struct kolo_children *children, const struct child *child, int wait_status,
                       const struct rusage *usage)
{
    bool signalled = WIFSIGNALED(wait_status);
    struct kolo_outcome outcome = {
        .rank = child->rank,
        .pid = (uint32_t)child->pid,
        .signal = signalled ? (uint32_t)WTERMSIG(wait_status) : 0,
        .status = signalled ? 0 : (uint32_t)WEXITSTATUS(wait_status),
        .core_dumped = signalled && WCOREDUMP(wait_status),
        .age_ms = (uint64_t)((kolo_now_ns() - child->started_ns) / KOLO_NS_PER_MS)};
    if (outcome.signal == SIGKILL)
        outcome.memory_ran_out = memory_kills() > children->kills_before;
    outcome.time_ran_out = has_run_out_of_time((int)outcome.signal, usage);
    uint8_t body[KOLO_OUTCOME_BYTES];
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_outcome_write(&writer, &outcome);
    kolo_agent_channel_send(children->channel, KOLO_FRAME_EXITED, body, sizeof body);
}

void kolo_children_reaped(struct kolo_children *children, pid_t pid, int wait_status,
                          const struct rusage *usage)
{
    for (uint32_t i = 0; i < children->count; i++) {
        struct child *child = &children->at[i];
        if (!child->is_running || child->pid != pid)
            continue;
        if (child->is_starting)
            settle(children, child);
        if (!child->is_running)
            return; /* it was never executed */
        child->is_running = false;
        children->running--;
        report_end(children, child, wait_status, usage);
        kolo_records_ended(&child->records, wait_status);
        return;
    }
}

bool kolo_children_send_records(struct kolo_children *children)
{
    uint8_t data[KOLO_RECORDS_PIECE_BYTES], rank[4];
    for (uint32_t i = 0; i < children->spec->ranks.count; i++) {
        struct child *child = &children->at[i];
        const size_t bytes = kolo_records_next(&child->records, data);
        if (bytes == 0)
            continue;
        struct kolo_writer writer = kolo_writer_over(rank, sizeof rank);
        kolo_write_u32(&writer, child->rank);
        kolo_agent_channel_send_two(children->channel, KOLO_FRAME_TIMELINE, rank, sizeof rank, data,
                                    bytes);
        return true;
    }
    return false;
}

void kolo_children_signal(struct kolo_children *children, int number)
{
    for (uint32_t i = 0; i < children->count; i++)
        if (children->at[i].is_running)
            (void)kill(-children->at[i].pid, number);
}

static void input_written(uv_write_t *request, int error)
{
    (void)error; /* rank 0 closed its standard input: the rest is discarded */
    struct input *input = request->data;
    kolo_agent_channel_send_u32(input->children->channel, KOLO_FRAME_WANTED, input->bytes);
    kolo_free_memory(input);
}

static void end_input(struct kolo_children *children)
{
    if (children->has_input && !uv_is_closing((uv_handle_t *)&children->input))
        uv_close((uv_handle_t *)&children->input, NULL);
}

static void input_shut(uv_shutdown_t *request, int error)
{
    (void)error;
    end_input(request->data);
}

/* After what was written before. */
static void shut_input(struct kolo_children *children)
{
    children->input_end.data = children;
    if (uv_shutdown(&children->input_end, (uv_stream_t *)&children->input, input_shut) != 0)
        end_input(children);
}

kolo_status kolo_children_input(struct kolo_children *children, const void *data, size_t bytes)
{
    const bool is_open = children->has_input && !uv_is_closing((uv_handle_t *)&children->input);
    if (bytes == 0) {
        if (is_open)
            shut_input(children);
        return KOLO_OK;
    }
    if (!is_open) {
        kolo_agent_channel_send_u32(children->channel, KOLO_FRAME_WANTED, (uint32_t)bytes);
        return KOLO_OK;
    }
    struct input *input = kolo_calloc(1, sizeof *input + bytes);
    if (!input)
        return KOLO_ERR_NO_MEMORY;
    memcpy(input->data, data, bytes);
    input->children = children;
    input->bytes = (uint32_t)bytes;
    input->request.data = input;
    uv_buf_t buf = uv_buf_init((char *)input->data, (unsigned)bytes);
    if (uv_write(&input->request, (uv_stream_t *)&children->input, &buf, 1, input_written) != 0)
        input_written(&input->request, UV_EPIPE);
    return KOLO_OK;
}

static void more_credit(struct kolo_children *children, int64_t bytes)
{
    if (children->lines.credit <= 0 && bytes > 0) /* what waited for credit was not read */
        children->lines.heard_ns = kolo_now_ns();
    children->lines.credit += bytes;
    for (uint32_t i = 0; i < children->count; i++)
        for (int stream = 0; stream < 2; stream++)
            kolo_lines_resume(&children->at[i].streams[stream]);
}

void kolo_children_credit(struct kolo_children *children, size_t bytes)
{
    more_credit(children, (int64_t)bytes);
}

void kolo_children_mute(struct kolo_children *children)
{
    children->lines.is_mute = true;
    more_credit(children, 0);
}

void kolo_children_pids(const struct kolo_children *children, pid_t *pids_out)
{
    for (uint32_t i = 0; i < children->count; i++)
        pids_out[i] = children->at[i].is_running ? children->at[i].pid : 0;
}

int kolo_children_running(const struct kolo_children *children)
{
    return (int)children->running;
}

int kolo_children_streams(const struct kolo_children *children, int64_t *idle_ms_out)
{
    *idle_ms_out = children->lines.credit > 0 || children->lines.is_mute
                       ? (kolo_now_ns() - children->lines.heard_ns) / KOLO_NS_PER_MS
                       : 0;
    return children->lines.open;
}

void kolo_children_close(struct kolo_children *children)
{
    end_input(children);
    for (uint32_t i = 0; i < children->count; i++) {
        struct child *child = &children->at[i];
        for (int stream = 0; stream < 2; stream++)
            kolo_lines_close(&child->streams[stream]);
        if (child->is_starting) {
            forget_report(child);
            close_all(child->ours);
        }
    }
}

void kolo_children_destroy(struct kolo_children *children)
{
    if (!children)
        return;
    for (uint32_t i = 0; i < children->count; i++)
        for (int stream = 0; stream < 2; stream++)
            kolo_free_memory(children->at[i].streams[stream].data);
    for (uint32_t i = 0; children->at && i < children->spec->ranks.count; i++)
        kolo_records_close(&children->at[i].records);
    kolo_free_memory(children->at);
    kolo_free_memory(children->cpus);
    kolo_gpu_shares_fini(&children->gpus);
    kolo_free_memory(children);
}
