// SPDX-License-Identifier: Apache-2.0
// The course of an examination. Hosts go on side by side; what one of them takes too long for is
// noted, and the rest goes on without it.
//
//   REACHING --all have greeted, are lost, or are late--> LOOKING --all have said their facts, are
//     lost, or are late--> TRYING (the paths between those that said them)
//     --all are tried, or late--> SURVEYING (what asks drivers) --all, or late--> ENDING --all
//     gone--> OVER
#include "launcher/doctor.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launcher/examine.h"
#include "launcher/job_spec.h"
#include "launcher/remote.h"
#include "launcher/spawn.h"
#include "tools/exit_status.h"
#include "tools/outfile.h"
#include "transport/conn.h"

enum {
    CALLS_MAX = 64,
    REACH_MS = 15000,     /* unless --start-timeout says another time */
    REACH_MORE_MS = 1000, /* so that ssh, which has the same time, can say why */
    FACTS_MS = 20000,     /* from the last greeting */
    SURVEY_MS = 30000,    /* from its begin: a driver of many devices takes seconds */
    MARGIN_MS = 5000,     /* for what is on its way */
    END_MS = 5000,
    WHOLE_MAX = 64, /* hosts of which every pair is tried; of more each tries some (is_tried) */
    NOISE_BYTES = 200
};

enum phase { REACHING, LOOKING, TRYING, SURVEYING, ENDING, OVER };

/* One host: its checkup, and how far it is. */
struct visit {
    struct kolo_remote remote;
    struct kolo_host host;
    struct kolo_checkup *checkup;
    struct doctor *doctor;
    char *text; /* of the examiner, not taken yet */
    size_t used, capacity;
    int64_t asked_ns;     /* wall clock, when its clock was asked for */
    size_t paths_pending; /* that it was asked for */
    bool has_greeted, has_started, is_lost, is_given_up;
};

struct doctor {
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t child;
    const struct kolo_options *options;
    const struct kolo_hosts *hosts;
    int size;
    struct kolo_remote_config config;
    struct kolo_secret secret;
    struct kolo_checkup *checkups;
    struct visit *visits;
    size_t count, called, calling, gone;
    struct kolo_paths paths;
    enum phase phase;
    int64_t began_ns, reach_ms;
    bool is_advancing;
};

#define SAY(doctor, ...)                                                                           \
    do {                                                                                           \
        if ((doctor)->options->verbose)                                                            \
            fprintf(stderr, "kolorun: " __VA_ARGS__);                                              \
    } while (0)

/* ---- telling the examiner ---- */

static void tell(struct visit *visit, const char *word, ...) __attribute__((sentinel));
static void tell(struct visit *visit, const char *word, ...)
{
    const char *fields[8] = {word};
    char line[KOLO_FACT_LINE_MAX];
    size_t count = 1;
    va_list list;
    va_start(list, word);
    for (const char *field; count < 7 && (field = va_arg(list, const char *)) != NULL;)
        fields[count++] = field;
    va_end(list);
    size_t bytes = kolo_fact_line(line, fields);
    kolo_channel_send(&visit->remote.channel, KOLO_FRAME_EXAMINE, line, bytes);
    explicit_bzero(line, sizeof line);
}

static void ask_facts(struct visit *visit)
{
    struct doctor *doctor = visit->doctor;
    char secret[2 * KOLO_SECRET_BYTES + 1], self[16], hosts[16];
    kolo_secret_format(&doctor->secret, secret);
    snprintf(self, sizeof self, "%d", visit->remote.index);
    snprintf(hosts, sizeof hosts, "%zu", doctor->count);
    tell(visit, "secret", secret, NULL);
    tell(visit, "self", self, hosts, NULL);
    visit->asked_ns = kolo_wall_ns();
    tell(visit, "clock", NULL);
    explicit_bzero(secret, sizeof secret);
}

/* Of many hosts each tries those at distances of powers of two, in both directions: so all are
 * joined by few steps, whatever fails of one is seen by several, and the paths of a host are few.
 * And all try kolorun. */
static bool is_tried(const struct doctor *doctor, size_t from, size_t to)
{
    const struct kolo_checkup *there = &doctor->checkups[to];
    if (from == to || !there->has_facts || doctor->checkups[from].is_launcher)
        return false;
    if (doctor->count <= WHOLE_MAX || there->is_launcher || there->is_here)
        return true;
    size_t ahead = (to + doctor->count - from) % doctor->count;
    size_t behind = doctor->count - ahead;
    return (ahead & (ahead - 1)) == 0 || (behind & (behind - 1)) == 0;
}

/* @return how many paths. */
static size_t ask_paths(struct visit *visit)
{
    struct doctor *doctor = visit->doctor;
    size_t count = 0;
    for (size_t to = 0; to < doctor->count; to++) {
        const struct kolo_facts *there = &doctor->checkups[to].facts;
        if (!is_tried(doctor, (size_t)visit->remote.index, to))
            continue;
        for (size_t i = 0; i < there->place_count; i++, count++) {
            char host[16], place[16];
            snprintf(host, sizeof host, "%zu", to);
            snprintf(place, sizeof place, "%zu", i);
            tell(visit, "target", host, place, there->places[i].address, NULL);
        }
    }
    tell(visit, "dial", NULL);
    visit->paths_pending = count;
    return count;
}

/* ---- phases ---- */

static void on_timer(uv_timer_t *timer);

static void enter(struct doctor *doctor, enum phase phase, int64_t limit_ms)
{
    doctor->phase = phase;
    (void)uv_timer_start(&doctor->timer, on_timer, (uint64_t)(limit_ms > 0 ? limit_ms : 0), 0);
}

static bool is_there(const struct visit *visit)
{
    return !visit->is_lost && !visit->is_given_up;
}

static bool is_done(const struct visit *visit, enum phase phase)
{
    if (!is_there(visit))
        return true;
    switch ((int)phase) {
    case REACHING:
        return visit->has_greeted;
    case LOOKING:
        return visit->checkup->has_facts;
    case TRYING:
        return visit->checkup->has_paths;
    case SURVEYING:
        return visit->checkup->has_survey;
    default:
        return false;
    }
}

static bool all_done(const struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++)
        if (!is_done(&doctor->visits[i], doctor->phase))
            return false;
    return true;
}

static void begin_paths(struct doctor *doctor)
{
    size_t most = 0;
    for (size_t i = 0; i < doctor->count; i++) {
        size_t count = is_there(&doctor->visits[i]) ? ask_paths(&doctor->visits[i]) : 0;
        most = count > most ? count : most;
    }
    SAY(doctor, "trying the network: at most %zu paths from each host\n", most);
    int64_t rounds = (int64_t)(most + KOLO_PATHS_AT_ONCE - 1) / KOLO_PATHS_AT_ONCE;
    enter(doctor, TRYING, MARGIN_MS + rounds * (KOLO_PATH_DIAL_MS + KOLO_PATH_LONG_MS));
}

static void begin_end(struct doctor *doctor)
{
    enter(doctor, ENDING, END_MS);
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->visits[i].remote.state != KOLO_REMOTE_GONE)
            kolo_remote_dismiss(&doctor->visits[i].remote);
}

static int64_t survey_left_ms(const struct doctor *doctor)
{
    int64_t left_ms = 0, now_ns = kolo_now_ns();
    for (size_t i = 0; i < doctor->count; i++) {
        const struct visit *visit = &doctor->visits[i];
        int64_t age_ms = (now_ns - visit->remote.called_ns) / 1000000;
        if (!is_done(visit, SURVEYING) && SURVEY_MS - age_ms > left_ms)
            left_ms = SURVEY_MS - age_ms;
    }
    return left_ms;
}

static void leave_if_gone(struct doctor *doctor)
{
    if (doctor->phase != ENDING || doctor->gone < doctor->count)
        return;
    doctor->phase = OVER;
    uv_stop(&doctor->loop);
}

/* As many phases as are over. */
static void advance(struct doctor *doctor)
{
    if (doctor->is_advancing) /* from within an event of what it does */
        return;
    doctor->is_advancing = true;
    if (doctor->phase == REACHING && all_done(doctor))
        enter(doctor, LOOKING, FACTS_MS);
    if (doctor->phase == LOOKING && all_done(doctor))
        begin_paths(doctor);
    if (doctor->phase == TRYING && all_done(doctor))
        enter(doctor, SURVEYING, survey_left_ms(doctor));
    if (doctor->phase == SURVEYING && all_done(doctor))
        begin_end(doctor);
    leave_if_gone(doctor);
    doctor->is_advancing = false;
}

/* ---- who is late ---- */

static void describe_late(struct visit *visit)
{
    struct kolo_checkup *checkup = visit->checkup;
    double limit_s = (double)visit->doctor->reach_ms / 1000;
    if (!visit->has_greeted)
        snprintf(checkup->unreached, sizeof checkup->unreached,
                 checkup->is_here ? "the agent on this machine did not answer within %.0f s"
                                  : "no answer by ssh within %.0f s; see that it is up, that no "
                                    "start-up file of the shell there waits (ssh HOST true), or "
                                    "give it longer: --start-timeout",
                 limit_s);
    else if (!visit->has_started)
        snprintf(checkup->unfinished, sizeof checkup->unfinished,
                 "its agent greeted, and could not look at the directory and the program within "
                 "%d s; see whether a file system there hangs (df)",
                 FACTS_MS / 1000);
    else if (visit->doctor->phase == LOOKING)
        snprintf(
            checkup->unfinished, sizeof checkup->unfinished,
            "did not say within %d s what it has; see its load, and whether a file system there "
            "hangs (df)",
            FACTS_MS / 1000);
    else
        snprintf(checkup->unfinished, sizeof checkup->unfinished,
                 "did not finish trying the network; see its load, and start again");
}

static void give_up_late(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++) {
        struct visit *visit = &doctor->visits[i];
        if (is_done(visit, doctor->phase))
            continue;
        SAY(doctor, "host %s: is not waited for any longer\n", visit->host.name);
        describe_late(visit);
        visit->is_given_up = true;
        kolo_remote_dismiss(&visit->remote);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct doctor *doctor = timer->data;
    doctor->is_advancing = true;
    if (doctor->phase <= TRYING) {
        give_up_late(doctor);
    } else if (doctor->phase == SURVEYING) { /* the finding is that it did not end */
        begin_end(doctor);
    } else if (doctor->phase == ENDING) {
        for (size_t i = 0; i < doctor->count; i++)
            kolo_remote_kill(&doctor->visits[i].remote);
        doctor->phase = OVER;
        uv_stop(&doctor->loop);
    }
    doctor->is_advancing = false;
    advance(doctor);
}

/* ---- what hosts say ---- */

static struct visit *visit_of(struct kolo_remote *remote)
{
    return (struct visit *)remote; /* its first member */
}

static void call_hosts(struct doctor *doctor)
{
    while (doctor->phase == REACHING && doctor->called < doctor->count &&
           doctor->calling < CALLS_MAX) {
        struct visit *visit = &doctor->visits[doctor->called++];
        doctor->calling++;
        kolo_remote_call(&visit->remote);
    }
}

static void keep_noise(struct visit *visit)
{
    struct kolo_checkup *checkup = visit->checkup;
    const struct kolo_remote *remote = &visit->remote;
    size_t used = 0;
    checkup->noise_bytes = remote->channel.frames.noise_bytes;
    for (size_t i = 0; i < remote->words_len && used < NOISE_BYTES; i++)
        checkup->noise[used++] = (unsigned char)remote->words[i] < 0x20 ? ' ' : remote->words[i];
    while (used > 0 && checkup->noise[used - 1] == ' ')
        used--;
    checkup->noise[used] = '\0';
}

static void on_joined(void *context, struct kolo_remote *remote)
{
    struct doctor *doctor = context;
    struct visit *visit = visit_of(remote);
    uint8_t *data = NULL;
    size_t bytes = 0;
    doctor->calling--;
    visit->has_greeted = true;
    visit->checkup->reach_ms = (double)(kolo_now_ns() - remote->called_ns) / 1e6;
    SAY(doctor, "host %s: agent (pid %u on %s) is there after %.3f s\n", visit->host.name,
        remote->agent_pid, remote->agent_host, visit->checkup->reach_ms / 1000);
    struct kolo_job_facts facts = {.options = doctor->options,
                                   .host = &visit->host,
                                   .size = doctor->size,
                                   .first_host = doctor->hosts->at,
                                   .meeting = NULL};
    if (kolo_job_spec_pack(&facts, &data, &bytes) == KOLO_OK) {
        kolo_channel_send(&remote->channel, KOLO_FRAME_JOB, data, bytes);
        kolo_free_memory(data);
    } else {
        snprintf(visit->checkup->refused, sizeof visit->checkup->refused, "%s",
                 kolo_error_detail());
        visit->is_given_up = true;
        kolo_remote_dismiss(remote);
    }
    call_hosts(doctor);
    advance(doctor);
}

/* The first EXAMINE starts the examiner, whose first line asks for more. */
static void begin_examination(struct visit *visit)
{
    visit->has_started = true;
    if (!visit->host.is_here) /* what was written before the greeting has come by now */
        keep_noise(visit);
    kolo_channel_send(&visit->remote.channel, KOLO_FRAME_EXAMINE, NULL, 0);
}

static void on_prepared(void *context, struct kolo_remote *remote)
{
    (void)context;
    begin_examination(visit_of(remote));
}

static void on_refused(void *context, struct kolo_remote *remote, int exit_status, const char *why)
{
    struct visit *visit = visit_of(remote);
    struct kolo_checkup *checkup = visit->checkup;
    (void)exit_status;
    if (visit->has_started) /* the job was not refused: its agent was killed, say */
        snprintf(checkup->gone, sizeof checkup->gone, "%s", why);
    else if (!checkup->is_launcher) /* it need not have the directory, or devices */
        snprintf(checkup->refused, sizeof checkup->refused, "%s", why);
    if (!visit->has_started) {
        begin_examination(visit);
        return;
    }
    visit->is_given_up = true;
    kolo_remote_dismiss(remote);
    advance(context);
}

static void take_clock(struct visit *visit, int64_t theirs_ns)
{
    int64_t now_ns = kolo_wall_ns();
    visit->checkup->clock_doubt_ns = (now_ns - visit->asked_ns) / 2;
    visit->checkup->clock_offset_ns = theirs_ns - visit->asked_ns - visit->checkup->clock_doubt_ns;
    visit->checkup->has_clock = true;
}

/* One that it was asked for: else a host could fill this one's memory. */
static kolo_status take_path(struct visit *visit, struct kolo_path *path)
{
    struct doctor *doctor = visit->doctor;
    path->from = visit->remote.index;
    if (visit->paths_pending == 0 || (size_t)path->to >= doctor->count ||
        !is_tried(doctor, (size_t)path->from, (size_t)path->to) ||
        (size_t)path->place >= doctor->checkups[path->to].facts.place_count)
        return kolo_fail(KOLO_ERR_PROTOCOL, "tells of a path that nobody asked for");
    visit->paths_pending--;
    return kolo_paths_add(&doctor->paths, path);
}

static kolo_status take_news(struct visit *visit, struct kolo_fact_news *news)
{
    struct kolo_checkup *checkup = visit->checkup;
    if (news->kind == KOLO_LINE_CLOCK) {
        take_clock(visit, news->clock_ns);
    } else if (news->kind == KOLO_LINE_PATH) {
        return take_path(visit, &news->path);
    } else if (news->kind == KOLO_LINE_END) {
        checkup->has_facts = checkup->has_facts || strcmp(news->step, "facts") == 0;
        checkup->has_survey = checkup->has_survey || strcmp(news->step, "survey") == 0;
        checkup->has_paths = checkup->has_paths || strcmp(news->step, "paths") == 0;
    } else if (visit->asked_ns == 0 && strcmp(checkup->facts.step, "start") == 0) {
        ask_facts(visit);
    }
    return KOLO_OK;
}

/* The whole lines among what has come. */
static kolo_status take_lines(struct visit *visit)
{
    kolo_status status = KOLO_OK;
    char *begin = visit->text, *end;
    while (status == KOLO_OK &&
           (end = memchr(begin, '\n', visit->used - (size_t)(begin - visit->text))) != NULL) {
        struct kolo_fact_news news;
        *end = '\0';
        status = kolo_facts_take(&visit->checkup->facts, begin, &news);
        begin = end + 1;
        if (status == KOLO_OK)
            status = take_news(visit, &news);
    }
    visit->used -= (size_t)(begin - visit->text);
    memmove(visit->text, begin, visit->used);
    if (status == KOLO_OK && visit->used >= KOLO_FACT_LINE_MAX)
        status = kolo_fail(KOLO_ERR_PROTOCOL, "a line of facts without an end");
    return status;
}

static kolo_status on_frame(void *context, enum kolo_frame_type type, struct kolo_reader *body)
{
    struct visit *visit = visit_of(context);
    size_t bytes = kolo_reader_left(body);
    void *text = visit->text;
    if (type == KOLO_FRAME_NOTE)
        return KOLO_OK;
    if (type != KOLO_FRAME_FACTS)
        return kolo_fail(KOLO_ERR_PROTOCOL, "%s in an examination", kolo_frame_text(type));
    if (bytes == 0 && !visit->is_given_up && visit->doctor->phase < ENDING)
        return kolo_fail(KOLO_ERR_PROTOCOL, "its examiner ended early");
    kolo_status status = kolo_grow(&text, &visit->capacity, visit->used + bytes + 1, 1);
    if (status != KOLO_OK)
        return status;
    visit->text = text;
    memcpy(visit->text + visit->used, body->at, bytes);
    visit->used += bytes;
    status = take_lines(visit);
    advance(visit->doctor);
    return status;
}

static void on_failed(void *context, struct kolo_remote *remote, const char *why)
{
    struct doctor *doctor = context;
    struct visit *visit = visit_of(remote);
    struct kolo_checkup *checkup = visit->checkup;
    if (!visit->has_greeted)
        doctor->calling--;
    /* what the channel ended with says more than that the connection broke, but for its plain
     * end */
    if (visit->has_greeted && !visit->is_given_up)
        snprintf(checkup->gone, sizeof checkup->gone, "%s",
                 remote->broken[0] && strcmp(remote->broken, "closed") != 0 ? remote->broken : why);
    else if (!visit->is_given_up)
        snprintf(checkup->unreached, sizeof checkup->unreached, "%s", why);
    visit->is_lost = true;
    if (doctor->phase < TRYING) /* nobody is to try it */
        checkup->has_facts = false;
    call_hosts(doctor);
    advance(doctor);
}

static void on_gone(void *context, struct kolo_remote *remote)
{
    struct doctor *doctor = context;
    (void)remote;
    doctor->gone++;
    advance(doctor);
}

static void on_child(uv_signal_t *handle, int number)
{
    struct doctor *doctor = handle->data;
    int wait_status;
    pid_t pid;
    (void)number;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0)
        for (size_t i = 0; i < doctor->count; i++)
            if (kolo_remote_reaped(&doctor->visits[i].remote, pid, wait_status))
                break;
}

/* ---- its life ---- */

/* kolorun's own machine takes part where it is none of the hosts: ranks call it. */
static bool needs_launcher(const struct kolo_hosts *hosts)
{
    for (size_t i = 0; i < hosts->count; i++)
        if (hosts->at[i].is_here)
            return false;
    return true;
}

static void open_visit(struct doctor *doctor, size_t index, const struct kolo_host *host,
                       bool is_launcher)
{
    struct visit *visit = &doctor->visits[index];
    visit->doctor = doctor;
    visit->host = *host;
    visit->checkup = &doctor->checkups[index];
    *visit->checkup = (struct kolo_checkup){.name = visit->host.name,
                                            .ranks = is_launcher ? 0 : host->ranks,
                                            .is_here = host->is_here && !is_launcher,
                                            .is_launcher = is_launcher};
    kolo_facts_init(&visit->checkup->facts);
    kolo_remote_init(&visit->remote, &doctor->config, &visit->host, (int)index);
}

static kolo_status open_visits(struct doctor *doctor)
{
    static const struct kolo_host launcher = {
        .name = "this machine", .slots = 1, .is_here = true, .ranks = 1};
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

static kolo_status open_doctor(struct doctor *doctor)
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
    doctor->config.events = (struct kolo_remote_events){.context = doctor,
                                                        .joined = on_joined,
                                                        .prepared = on_prepared,
                                                        .refused = on_refused,
                                                        .frame = on_frame,
                                                        .failed = on_failed,
                                                        .gone = on_gone};
    status = kolo_secret_make(&doctor->secret);
    return status == KOLO_OK ? open_visits(doctor) : status;
}

static void examine(struct doctor *doctor)
{
    (void)uv_timer_init(&doctor->loop, &doctor->timer);
    (void)uv_signal_init(&doctor->loop, &doctor->child);
    doctor->timer.data = doctor->child.data = doctor;
    (void)uv_signal_start(&doctor->child, on_child, SIGCHLD);
    enter(doctor, REACHING, doctor->reach_ms + REACH_MORE_MS);
    call_hosts(doctor);
    (void)uv_run(&doctor->loop, UV_RUN_DEFAULT);
}

static void close_left(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_doctor(struct doctor *doctor)
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

static void judge(const struct doctor *doctor, struct kolo_findings *findings)
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
    if (doctor->count > WHOLE_MAX)
        kolo_findings_add(findings, KOLO_SEVERITY_NOTE, "sample", -1,
                          "of %zu hosts each was tried with some others, not with all",
                          doctor->count);
    kolo_findings_sort(findings);
}

/* @return the exit status. */
static int report(const struct doctor *doctor)
{
    struct kolo_findings findings = {.at = NULL};
    struct outfile file = {.stream = NULL};
    kolo_status status = KOLO_OK;
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
    if (doctor->options->json) {
        status = outfile_open(&file, "--json", doctor->options->json);
        bool is_open = status == KOLO_OK;
        if (is_open)
            status = kolo_diagnosis_write(&diagnosis, file.stream);
        if (is_open) {
            kolo_status closed = outfile_close(&file, status == KOLO_OK);
            status = status == KOLO_OK ? closed : status;
        }
    }
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

/* The trace is the job's, which would be refused for its place as well. */
static kolo_status probe_places(const struct kolo_options *options)
{
    kolo_status status = KOLO_OK;
    if (options->json)
        status = outfile_probe("--json", options->json);
    if (status == KOLO_OK && options->timeline)
        status = outfile_probe("--timeline", options->timeline);
    return status;
}

int kolo_doctor_run(const struct kolo_options *options, const struct kolo_hosts *hosts, int size)
{
    struct doctor doctor = {
        .options = options, .hosts = hosts, .size = size, .began_ns = kolo_now_ns()};
    (void)signal(SIGPIPE, SIG_IGN);
    if (probe_places(options) != KOLO_OK) {
        fprintf(stderr, "kolorun: %s\n", kolo_error_detail());
        return EXIT_STATUS_REFUSED;
    }
    if (uv_loop_init(&doctor.loop) != 0) {
        fprintf(stderr, "kolorun: cannot make an event loop\n");
        return EXIT_STATUS_FAILED;
    }
    kolo_status status = open_doctor(&doctor);
    int exit_status = EXIT_STATUS_FAILED;
    if (status == KOLO_OK) {
        examine(&doctor);
        exit_status = report(&doctor);
    } else {
        fprintf(stderr, "kolorun: cannot start: %s: %s\n", kolo_status_text(status),
                kolo_error_detail());
    }
    close_doctor(&doctor);
    return exit_status;
}
