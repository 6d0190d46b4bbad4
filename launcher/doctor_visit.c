// SPDX-License-Identifier: Apache-2.0
// Talks with the examiner of one host, and puts what it says into the host's checkup. Must never
// accept more than it asked for: otherwise another host could fill this one's memory.
#include "launcher/doctor_state.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "launcher/examine.h"
#include "launcher/job_spec.h"

enum { CALLS_MAX = 64, NOISE_BYTES = 200 };

/* ---- telling the examiner ---- */

static void tell(struct kolo_visit *visit, const char *word, ...) __attribute__((sentinel));
static void tell(struct kolo_visit *visit, const char *word, ...)
{
    char line[KOLO_FACT_LINE_MAX];
    va_list fields;
    va_start(fields, word);
    size_t bytes = kolo_fact_line_v(line, word, fields);
    va_end(fields);
    kolo_agent_channel_send(&visit->remote.channel, KOLO_FRAME_EXAMINE, line, bytes);
    explicit_bzero(line, sizeof line);
}

static void ask_facts(struct kolo_visit *visit)
{
    struct kolo_doctor *doctor = visit->doctor;
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

/* With many hosts, each tries those at distances of powers of two, in both directions. Thus few
 * steps connect any two of them, several hosts see the failure of one, and each host has few paths.
 * All of them also try kolorun. */
static bool is_tried(const struct kolo_doctor *doctor, size_t from, size_t to)
{
    const struct kolo_checkup *there = &doctor->checkups[to];
    if (from == to || !there->has_facts || doctor->checkups[from].is_launcher)
        return false;
    if (doctor->count <= DOCTOR_WHOLE_MAX || there->is_launcher || there->is_here)
        return true;
    size_t ahead = (to + doctor->count - from) % doctor->count;
    size_t behind = doctor->count - ahead;
    return (ahead & (ahead - 1)) == 0 || (behind & (behind - 1)) == 0;
}

size_t kolo_visit_ask_paths(struct kolo_visit *visit)
{
    struct kolo_doctor *doctor = visit->doctor;
    size_t count = 0;
    for (size_t to = 0; to < doctor->count; to++) {
        const struct kolo_facts *there = &doctor->checkups[to].facts;
        if (!is_tried(doctor, (size_t)visit->remote.index, to))
            continue;
        for (size_t i = 0; i < there->place_count; i++) {
            char host[16], place[16];
            if (kolo_fact_place_is_loopback(&there->places[i]) &&
                !kolo_facts_are_twins(&visit->checkup->facts, there))
                continue; /* it would lead to the host itself */
            snprintf(host, sizeof host, "%zu", to);
            snprintf(place, sizeof place, "%zu", i);
            tell(visit, "target", host, place, there->places[i].address, NULL);
            count++;
        }
    }
    tell(visit, "dial", NULL);
    visit->paths_pending = count;
    return count;
}

/* ---- what hosts say ---- */

static struct kolo_visit *visit_of(struct kolo_remote *remote)
{
    return (struct kolo_visit *)remote; /* its first member */
}

void kolo_doctor_call_hosts(struct kolo_doctor *doctor)
{
    while (doctor->phase == DOCTOR_REACHING && doctor->called < doctor->count &&
           doctor->calling < CALLS_MAX) {
        struct kolo_visit *visit = &doctor->visits[doctor->called++];
        doctor->calling++;
        kolo_remote_call(&visit->remote);
    }
}

static void keep_noise(struct kolo_visit *visit)
{
    struct kolo_checkup *checkup = visit->checkup;
    const struct kolo_remote *remote = &visit->remote;
    size_t used = 0;
    checkup->noise_bytes = remote->channel.frames.noise_bytes;
    for (size_t i = 0; i < remote->words_len && used < NOISE_BYTES; i++)
        checkup->noise[used++] = isspace((unsigned char)remote->words[i]) ? ' ' : remote->words[i];
    while (used > 0 && checkup->noise[used - 1] == ' ')
        used--;
    checkup->noise[used] = '\0';
    kolo_text_clean_bytes(checkup->noise, used);
}

static void on_joined(void *context, struct kolo_remote *remote)
{
    struct kolo_doctor *doctor = context;
    struct kolo_visit *visit = visit_of(remote);
    uint8_t *data = NULL;
    size_t bytes = 0;
    doctor->calling--;
    visit->has_greeted = true;
    visit->checkup->reach_ms = (double)(kolo_now_ns() - remote->called_ns) / 1e6;
    DOCTOR_SAY(doctor, "host %s: agent (pid %u on %s) is there after %.3f s\n", visit->host.name,
               remote->agent_pid, remote->agent_host, visit->checkup->reach_ms / 1000);
    struct kolo_job_facts facts = {.options = doctor->options,
                                   .host = &visit->host,
                                   .size = doctor->size,
                                   .first_host = doctor->hosts->at,
                                   .meeting = NULL};
    if (kolo_job_spec_pack(&facts, &data, &bytes) == KOLO_OK) {
        kolo_agent_channel_send(&remote->channel, KOLO_FRAME_JOB, data, bytes);
        kolo_free_wiped(data, bytes);
    } else {
        snprintf(visit->checkup->refused, sizeof visit->checkup->refused, "%s",
                 kolo_error_detail());
        visit->is_given_up = true;
        kolo_remote_dismiss(remote);
    }
    kolo_doctor_call_hosts(doctor);
    kolo_doctor_advance(doctor);
}

/* The first EXAMINE starts the examiner, whose first line asks for more. */
static void begin_examination(struct kolo_visit *visit)
{
    visit->has_started = true;
    if (!visit->host.is_here) /* what it printed before the greeting has arrived by now */
        keep_noise(visit);
    kolo_agent_channel_send(&visit->remote.channel, KOLO_FRAME_EXAMINE, NULL, 0);
}

static void on_prepared(void *context, struct kolo_remote *remote)
{
    (void)context;
    begin_examination(visit_of(remote));
}

static void on_refused(void *context, struct kolo_remote *remote, int exit_status, const char *why)
{
    struct kolo_visit *visit = visit_of(remote);
    struct kolo_checkup *checkup = visit->checkup;
    (void)exit_status;
    if (visit->has_started) /* it had accepted the job: for example, its agent was killed */
        snprintf(checkup->gone, sizeof checkup->gone, "%s", why);
    else if (!checkup->is_launcher) /* this machine needs neither the directory nor devices */
        snprintf(checkup->refused, sizeof checkup->refused, "%s", why);
    if (!visit->has_started) {
        begin_examination(visit);
        return;
    }
    visit->is_given_up = true;
    kolo_remote_dismiss(remote);
    kolo_doctor_advance(context);
}

static void take_clock(struct kolo_visit *visit, int64_t theirs_ns)
{
    int64_t now_ns = kolo_wall_ns();
    visit->checkup->clock_doubt_ns = (now_ns - visit->asked_ns) / 2;
    visit->checkup->clock_offset_ns = theirs_ns - visit->asked_ns - visit->checkup->clock_doubt_ns;
    visit->checkup->has_clock = true;
}

/* Accepts only a path that was asked for: otherwise a host could fill this one's memory. */
static kolo_status take_path(struct kolo_visit *visit, struct kolo_fact_path *path)
{
    struct kolo_doctor *doctor = visit->doctor;
    path->from = visit->remote.index;
    if (visit->paths_pending == 0 || (size_t)path->to >= doctor->count ||
        !is_tried(doctor, (size_t)path->from, (size_t)path->to) ||
        (size_t)path->place >= doctor->checkups[path->to].facts.place_count)
        return kolo_fail(KOLO_ERR_PROTOCOL, "reports a path that was not asked for");
    visit->paths_pending--;
    return kolo_fact_paths_add(&doctor->paths, path);
}

static kolo_status take_news(struct kolo_visit *visit, struct kolo_fact_news *news)
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

static kolo_status take_line(void *context, char *line)
{
    struct kolo_visit *visit = context;
    struct kolo_fact_news news;
    kolo_status status = kolo_facts_take(&visit->checkup->facts, line, &news);
    return status == KOLO_OK ? take_news(visit, &news) : status;
}

/* Parses the complete lines received so far. */
static kolo_status take_lines(struct kolo_visit *visit)
{
    kolo_status status = kolo_fact_lines_take(visit->text, &visit->used, take_line, visit);
    if (status == KOLO_OK && visit->used >= KOLO_FACT_LINE_MAX)
        status = kolo_fail(KOLO_ERR_PROTOCOL, "a line of facts without an end");
    return status;
}

static kolo_status on_message(struct kolo_remote *remote, const struct kolo_frame_message *message)
{
    struct kolo_visit *visit = visit_of(remote);
    void *text = visit->text;
    if (message->type == KOLO_FRAME_NOTE)
        return KOLO_OK;
    if (message->type != KOLO_FRAME_FACTS)
        return kolo_fail(KOLO_ERR_PROTOCOL, "%s in an examination", kolo_frame_text(message->type));
    const size_t bytes = message->piece.bytes;
    if (bytes == 0 && !visit->is_given_up && visit->doctor->phase < DOCTOR_ENDING)
        return kolo_fail(KOLO_ERR_PROTOCOL, "its examiner ended early");
    kolo_status status = kolo_grow(&text, &visit->capacity, visit->used + bytes + 1, 1);
    if (status != KOLO_OK)
        return status;
    visit->text = text;
    memcpy(visit->text + visit->used, message->piece.at, bytes);
    visit->used += bytes;
    status = take_lines(visit);
    kolo_doctor_advance(visit->doctor);
    return status;
}

static void on_failed(void *context, struct kolo_remote *remote, const char *why)
{
    struct kolo_doctor *doctor = context;
    struct kolo_visit *visit = visit_of(remote);
    struct kolo_checkup *checkup = visit->checkup;
    if (!visit->has_greeted)
        doctor->calling--;
    /* the reason why the channel ended says more than that the connection broke, except if it
     * simply closed */
    if (visit->has_greeted && !visit->is_given_up)
        snprintf(checkup->gone, sizeof checkup->gone, "%s",
                 remote->broken[0] && strcmp(remote->broken, "closed") != 0 ? remote->broken : why);
    else if (!visit->is_given_up)
        snprintf(checkup->unreached, sizeof checkup->unreached, "%s", why);
    visit->is_lost = true;
    if (doctor->phase < DOCTOR_TRYING) /* so that no host tries it */
        checkup->has_facts = false;
    kolo_doctor_call_hosts(doctor);
    kolo_doctor_advance(doctor);
}

static void on_gone(void *context, struct kolo_remote *remote)
{
    struct kolo_doctor *doctor = context;
    (void)remote;
    doctor->gone++;
    kolo_doctor_advance(doctor);
}

struct kolo_remote_events kolo_doctor_events(struct kolo_doctor *doctor)
{
    return (struct kolo_remote_events){.context = doctor,
                                       .joined = on_joined,
                                       .prepared = on_prepared,
                                       .refused = on_refused,
                                       .message = on_message,
                                       .failed = on_failed,
                                       .gone = on_gone};
}
