// SPDX-License-Identifier: Apache-2.0
// The examiner's loop: one thread, one poller. Drivers are asked by a child process, which writes
// whole lines to the same standard output; if the child fails, the examiner reports how it ended.
#include "launcher/examine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/short_file.h"
#include "launcher/examine_paths.h"
#include "launcher/verdict.h"

enum { ORDER_FIELDS = 4, SURVEY_LOOK_MS = 50 };

struct examiner {
    struct kolo_watch input; /* first: ready() gets this */
    struct kolo_settings settings;
    struct kolo_poller *poller;
    struct kolo_path_tests *tests;
    struct kolo_secret secret;
    int self, hosts;
    bool has_secret, has_ended;
    kolo_status status; /* why it has ended */
    pid_t surveyor;
    char *text; /* of standard input, not parsed yet */
    size_t used, capacity;
};

/* ---- saying ---- */

void kolo_say(const char *word, ...)
{
    char line[KOLO_FACT_LINE_MAX];
    va_list fields;
    va_start(fields, word);
    size_t bytes = kolo_fact_line_v(line, word, fields);
    va_end(fields);
    while (write(STDOUT_FILENO, line, bytes) < 0 && errno == EINTR) /* atomic: see PIPE_BUF */
        ;
}

void kolo_say_number(enum kolo_fact_number number, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    kolo_say("number", kolo_fact_number_name(number), text, NULL);
}

void kolo_say_text(enum kolo_fact_text text, const char *value)
{
    kolo_say("text", kolo_fact_text_name(text), value, NULL);
}

static void say_clock(void)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)kolo_wall_ns());
    kolo_say("clock", text, NULL);
}

/* ---- places and paths ---- */

static int64_t mtu_of(const char *interface)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/class/net/%s/mtu", interface);
    const int64_t mtu = kolo_short_file_number(path);
    return mtu > 0 ? mtu : 0;
}

static void say_places(const struct examiner *examiner)
{
    size_t count = 0;
    const struct kolo_place *places = kolo_path_tests_places(examiner->tests, &count);
    for (size_t i = 0; i < count; i++) {
        char address[KOLO_PLACE_TEXT_MAX], speed[32], mtu[32];
        kolo_place_format(&places[i], address, sizeof address);
        snprintf(speed, sizeof speed, "%u", (unsigned)places[i].facts.speed_mbit);
        snprintf(mtu, sizeof mtu, "%lld", (long long)mtu_of(places[i].facts.interface));
        kolo_say("place", address, places[i].facts.interface,
                 places[i].facts.is_hardware ? "1" : "0", speed, mtu, NULL);
    }
}

static void on_path(void *context, const struct kolo_fact_path *path)
{
    char to[16], place[16], rtt[32];
    (void)context;
    snprintf(to, sizeof to, "%d", path->to);
    snprintf(place, sizeof place, "%d", path->place);
    snprintf(rtt, sizeof rtt, "%lld", (long long)path->rtt_us);
    kolo_say("path", to, place, kolo_fact_path_end_name(path->end), rtt, path->words, NULL);
}

static void on_all(void *context)
{
    (void)context;
    kolo_examine_others(); /* now that all hosts have examiners that can be recognised */
    kolo_say("end", "paths", NULL);
}

static kolo_status listen_here(struct examiner *examiner)
{
    const struct kolo_path_events events = {.context = examiner, .path = on_path, .all = on_all};
    kolo_status status =
        kolo_path_tests_create(examiner->poller, &examiner->settings, &examiner->secret,
                               examiner->self, examiner->hosts, &events, &examiner->tests);
    if (!examiner->tests)
        return status;
    if (status != KOLO_OK)
        kolo_say_text(KOLO_FACT_listen_error, kolo_error_detail());
    say_places(examiner);
    return KOLO_OK;
}

/* ---- orders ---- */

static kolo_status take_self(struct examiner *examiner, char *const *fields)
{
    examiner->self = (int)strtol(fields[1], NULL, 10);
    examiner->hosts = (int)strtol(fields[2], NULL, 10);
    if (examiner->self < 0 || examiner->hosts <= examiner->self)
        return kolo_fail(KOLO_ERR_PROTOCOL, "no such host");
    return KOLO_OK;
}

static kolo_status take_secret(struct examiner *examiner, char *const *fields)
{
    kolo_status status = kolo_secret_parse(fields[1], &examiner->secret);
    explicit_bzero(fields[1], strlen(fields[1]));
    examiner->has_secret = status == KOLO_OK;
    return status;
}

static kolo_status take_clock(struct examiner *examiner, char *const *fields)
{
    (void)fields;
    if (!examiner->has_secret || examiner->tests)
        return kolo_fail(KOLO_ERR_PROTOCOL, "clock out of turn");
    say_clock();
    kolo_examine_machine(&examiner->settings);
    kolo_status status = listen_here(examiner);
    kolo_say("end", "facts", NULL);
    return status;
}

static kolo_status take_target(struct examiner *examiner, char *const *fields)
{
    if (!examiner->tests)
        return kolo_fail(KOLO_ERR_PROTOCOL, "target out of turn");
    return kolo_path_tests_add(examiner->tests, (int)strtol(fields[1], NULL, 10),
                               (int)strtol(fields[2], NULL, 10), fields[3]);
}

static kolo_status take_dial(struct examiner *examiner, char *const *fields)
{
    (void)fields;
    if (!examiner->tests)
        return kolo_fail(KOLO_ERR_PROTOCOL, "dial out of turn");
    kolo_path_tests_begin(examiner->tests);
    return KOLO_OK;
}

static const struct {
    const char *word;
    size_t fields; /* fields after the word */
    kolo_status (*take)(struct examiner *examiner, char *const *fields);
} orders[] = {{"self", 2, take_self},
              {"secret", 1, take_secret},
              {"clock", 0, take_clock},
              {"target", 3, take_target},
              {"dial", 0, take_dial}};

static kolo_status take_order(void *context, char *line)
{
    struct examiner *examiner = context;
    char *fields[ORDER_FIELDS], *rest = line;
    size_t count = 0;
    while (rest && count < ORDER_FIELDS)
        fields[count++] = strsep(&rest, "\t");
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        if (!rest && strcmp(fields[0], orders[i].word) == 0 && count == orders[i].fields + 1)
            return orders[i].take(examiner, fields);
    return kolo_fail(KOLO_ERR_PROTOCOL, "no such order");
}

static void on_input(struct kolo_watch *watch, uint32_t events)
{
    struct examiner *examiner = (struct examiner *)watch;
    void *text = examiner->text;
    (void)events;
    kolo_status status =
        kolo_grow(&text, &examiner->capacity, examiner->used + KOLO_FACT_LINE_MAX, 1);
    if (status == KOLO_OK) {
        examiner->text = text;
        ssize_t got = read(watch->fd, examiner->text + examiner->used, KOLO_FACT_LINE_MAX);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        examiner->has_ended = got <= 0;
        examiner->used += got > 0 ? (size_t)got : 0;
        status = kolo_fact_lines_take(examiner->text, &examiner->used, take_order, examiner);
    }
    if (status != KOLO_OK) {
        examiner->has_ended = true;
        examiner->status = status;
    }
}

/* ---- the surveyor ---- */

static void start_surveyor(struct examiner *examiner)
{
    pid_t parent = getpid();
    examiner->surveyor = fork();
    if (examiner->surveyor < 0)
        kolo_say_text(KOLO_FACT_survey_error, "no process could be started for it");
    if (examiner->surveyor < 0)
        kolo_say("end", "survey", NULL);
    if (examiner->surveyor != 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        kolo_examine_backends(&examiner->settings);
    _exit(0);
}

/* @return when to check again. */
static kolo_deadline watch_surveyor(struct examiner *examiner)
{
    int status = 0;
    char text[96], name[32];
    if (examiner->surveyor <= 0)
        return KOLO_NEVER;
    pid_t pid = waitpid(examiner->surveyor, &status, WNOHANG);
    if (pid == 0)
        return kolo_deadline_in_ms(SURVEY_LOOK_MS);
    examiner->surveyor = 0;
    kolo_signal_text(WTERMSIG(status), name, sizeof name);
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "ended by signal %d (%s)", WTERMSIG(status), name);
    else
        snprintf(text, sizeof text, "ended with status %d", WEXITSTATUS(status));
    if (pid > 0 && status != 0)
        kolo_say_text(KOLO_FACT_survey_error, text);
    kolo_say("end", "survey", NULL);
    return KOLO_NEVER;
}

/* ---- its life ---- */

static kolo_status work(struct examiner *examiner)
{
    kolo_status status = KOLO_OK;
    kolo_settings_init(&examiner->settings);
    KOLO_TRY(kolo_settings_load(&examiner->settings, NULL, NULL, NULL));
    kolo_say("begin", "start", NULL);
    start_surveyor(examiner);
    KOLO_TRY(kolo_poller_create(&examiner->poller));
    KOLO_TRY(kolo_poller_add(examiner->poller, &examiner->input, EPOLLIN));
    while (!examiner->has_ended) {
        kolo_deadline next = watch_surveyor(examiner);
        if (examiner->tests)
            next = kolo_deadline_min(next, kolo_path_tests_turn(examiner->tests));
        kolo_poller_sleep(examiner->poller, next);
        KOLO_TRY(kolo_poller_dispatch(examiner->poller, NULL));
    }
    status = examiner->status;
out:
    return status;
}

int kolo_examine_main(void)
{
    struct examiner examiner = {.input = {.fd = STDIN_FILENO, .ready = on_input}};
    if (isatty(STDIN_FILENO)) {
        fprintf(stderr, "kolorun: --examine is for kolorun itself; try 'kolorun doctor'\n");
        return 2;
    }
    (void)prctl(PR_SET_NAME, KOLO_EXAMINER_NAME);
    (void)signal(SIGPIPE, SIG_IGN);
    kolo_status status = work(&examiner);
    if (status != KOLO_OK)
        fprintf(stderr, "kolorun: examiner: %s\n", kolo_error_detail());
    kolo_path_tests_destroy(examiner.tests);
    kolo_poller_destroy(examiner.poller);
    kolo_free_wiped(examiner.text, examiner.capacity);
    explicit_bzero(&examiner.secret, sizeof examiner.secret);
    return status != KOLO_OK;
}
