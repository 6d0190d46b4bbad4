// SPDX-License-Identifier: Apache-2.0
// Asks every backend of the build whether it can be used here. Backends load drivers, which may
// hang or crash, so a process of its own asks each of them and sends the lines of its answer
// through a pipe; a driver that does not answer costs its own line only.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kolo/version.h>

#include "base/build.h"
#include "base/clock.h"
#include "launcher/examine.h"
#include "launcher/info.h"
#include "launcher/verdict.h"
#include "memory/memory.h"
#include "runtime/local.h"
#include "transport/conn.h"
#include "transport/devices.h"
#include "transport/peer_memory.h"
#include "transport/transport.h"

static void print_line(FILE *out, const char *kind, const char *name, kolo_status status,
                       const struct kolo_why *why)
{
    bool works = status == KOLO_OK;
    fprintf(out, "%-10s %-8s %s%s%s\n", kind, name, works ? "works" : "no",
            why->text[0] ? ": " : "", why->text);
}

static void print_machine(FILE *out)
{
    struct utsname names;
    const struct kolo_local *local = kolo_local_facts();
    if (uname(&names) == 0)
        fprintf(out, "host       %s, %s %s, %s\n", names.nodename, names.sysname, names.release,
                names.machine);
    fprintf(out, "processor  %d core%s, %d hardware thread%s, %d NUMA node%s\n", local->cores,
            local->cores == 1 ? "" : "s", local->cpus, local->cpus == 1 ? "" : "s",
            local->numa_nodes, local->numa_nodes == 1 ? "" : "s");
    if (local->error[0])
        fprintf(out, "processor  hwloc: %s\n", local->error);
    fprintf(out, "memory     %lld MiB\n",
            (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / (1 << 20));
}

/* Those that it would offer if it could. */
static void print_unusable(const struct kolo_settings *settings, FILE *out)
{
    char unusable[512];
    kolo_places_unusable(settings->net, unusable, sizeof unusable);
    if (unusable[0] != '\0')
        fprintf(out, "network    left out: %s\n", unusable);
}

/** Prints the addresses that this host offers to others under KOLO_NET, the preferred one first. */
static void print_network(const struct kolo_settings *settings, FILE *out)
{
    enum { SHOWN_MAX = 32 };
    struct kolo_place places[SHOWN_MAX];
    char address[KOLO_PLACE_TEXT_MAX], unnamed[256];
    size_t count = 0;
    if (kolo_places_local(settings->net, 0, places, SHOWN_MAX, &count) != KOLO_OK) {
        fprintf(out, "network    no: %s\n", kolo_error_detail());
        return;
    }
    for (size_t i = 0; i < count; i++) {
        char speed[32] = "";
        kolo_place_format(&places[i], address, sizeof address);
        *strrchr(address, ':') = '\0'; /* each rank has its own port */
        if (places[i].facts.speed_mbit > 0)
            snprintf(speed, sizeof speed, ", %u Mbit/s", (unsigned int)places[i].facts.speed_mbit);
        fprintf(out, "network    %-8s %s%s%s\n", places[i].facts.interface, address,
                places[i].facts.is_hardware ? ", hardware" : "", speed);
    }
    print_unusable(settings, out);
    kolo_places_unnamed(settings->net, unnamed, sizeof unnamed);
    if (unnamed[0] != '\0')
        fprintf(out, "network    KOLO_NET: %s: nothing of this host has this name\n", unnamed);
}

static void print_device(void *context, const char *name, const char *text)
{
    fprintf(context, "device     %-8s %s\n", name, text);
}

kolo_status kolo_info_try_reading(struct kolo_why *why_out)
{
    const uint64_t word = (uint64_t)getpid();
    const struct kolo_peer_memory self = {
        .pid = (int32_t)getpid(), .word_at = (uint64_t)(uintptr_t)&word, .word = word};
    uint64_t seen;
    int result = 0;
    fflush(NULL); /* _exit in the child writes nothing; nothing may be buffered all the same */
    pid_t child = fork();
    if (child == 0)
        _exit(kolo_peer_memory_read(&self, self.word_at, &seen, sizeof seen) != KOLO_OK);
    while (child > 0 && waitpid(child, &result, 0) < 0 && errno == EINTR)
        ;
    *why_out = (struct kolo_why){""};
    if (child > 0 && WIFEXITED(result) && WEXITSTATUS(result) == 0)
        return KOLO_OK;
    snprintf(why_out->text, sizeof why_out->text,
             "the system does not let processes read each other's memory "
             "(kernel.yama.ptrace_scope, a container): "
             "KOLO_CMA does nothing");
    return KOLO_ERR_UNSUPPORTED;
}

static void print_reading(const struct kolo_settings *settings, FILE *out)
{
    struct kolo_why why = {"KOLO_CMA=0"};
    kolo_status status = settings->cma ? kolo_info_try_reading(&why) : KOLO_ERR_UNSUPPORTED;
    print_line(out, "memory", "cma", status, &why);
}

/* ---- what only a driver knows ---- */

enum { LOOK_MS = 5 };

struct question {
    const char *kind, *name;
    const struct kolo_settings *settings;
    size_t number; /* in the table of that kind */
    void (*answer)(const struct question *question, FILE *out);
};

static void answer_transport(const struct question *question, FILE *out)
{
    kolo_status status;
    struct kolo_why why;
    (void)kolo_transport_probe(question->number, question->settings, &status, &why);
    print_line(out, question->kind, question->name, status, &why);
}

static const char *memory_name(size_t number)
{
    return kolo_memory_kinds[number] ? kolo_memory_kinds[number]->name : NULL;
}

static void answer_memory(const struct question *question, FILE *out)
{
    const struct kolo_memory_ops *kind = kolo_memory_kinds[question->number];
    struct kolo_why why = {.text = ""};
    const kolo_status status = kind->survey ? kind->survey(&why) : kind->probe(&why);
    print_line(out, question->kind, question->name, status, &why);
}

static const char *device_name(size_t number)
{
    return kolo_device_reports[number] ? kolo_device_reports[number]->what : NULL;
}

static void answer_devices(const struct question *question, FILE *out)
{
    if (kolo_device_reports[question->number]->report(print_device, out) != KOLO_OK)
        print_device(out, question->name, kolo_error_detail());
}

__attribute__((noreturn)) static void answer_and_exit(const struct question *question, int fd,
                                                      pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    FILE *out = getppid() == parent ? fdopen(fd, "w") : NULL;
    if (!out)
        _exit(1);
    (void)setvbuf(out, NULL, _IOLBF, 0); /* what is known is seen if the next line hangs */
    question->answer(question, out);
    _exit(fflush(out) != 0);
}

/* Copies all that comes through @p fd. Returns false if it has not ended by then. */
static bool copy_lines(int fd, kolo_deadline deadline, FILE *out, size_t *bytes_out)
{
    char piece[512];
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    *bytes_out = 0;
    for (;;) {
        fflush(out); /* before a wait */
        const int ready = poll(&answer, 1, kolo_deadline_poll_ms(deadline));
        if (ready == 0)
            return false;
        if (ready < 0) /* interrupted */
            continue;
        const ssize_t got = read(fd, piece, sizeof piece);
        if (got == 0)
            return true;
        *bytes_out += got > 0 ? fwrite(piece, 1, (size_t)got, out) : 0;
    }
}

/* Returns false, and leaves the process to end when it can, if it has not ended by then. */
static bool reap(pid_t child, kolo_deadline deadline, int *result_out)
{
    pid_t ended;
    while ((ended = waitpid(child, result_out, WNOHANG)) == 0 && !kolo_deadline_passed(deadline))
        (void)poll(NULL, 0, LOOK_MS);
    if (ended == 0)
        (void)kill(child, SIGKILL);
    return ended != 0;
}

static void ask_process(const struct question *question, pid_t child, int fd, FILE *out)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(KOLO_SURVEY_MS);
    struct kolo_why why = {""};
    char signal_name[32];
    size_t bytes;
    int result = 0;
    const bool is_answered = copy_lines(fd, deadline, out, &bytes);
    const bool has_ended = reap(child, deadline, &result);
    if (!is_answered || !has_ended) {
        snprintf(why.text, sizeof why.text,
                 "its driver has not answered within %d s; ranks may hang there as well: see dmesg",
                 KOLO_SURVEY_MS / 1000);
    } else if (WIFSIGNALED(result)) {
        kolo_signal_text(WTERMSIG(result), signal_name, sizeof signal_name);
        snprintf(why.text, sizeof why.text,
                 "its driver ended the process that asked it by signal %d (%s); see dmesg",
                 WTERMSIG(result), signal_name);
    } else if (WEXITSTATUS(result) != 0 || bytes == 0) {
        snprintf(why.text, sizeof why.text,
                 "its driver ended the process that asked it with status %d; see dmesg",
                 WEXITSTATUS(result));
    }
    if (why.text[0] != '\0')
        print_line(out, question->kind, question->name, KOLO_ERR_SYSTEM, &why);
}

static void ask(const struct question *question, FILE *out)
{
    int ends[2] = {-1, -1};
    struct kolo_why why;
    const pid_t parent = getpid();
    fflush(out); /* a driver may call exit() */
    const pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    const int cause = errno;
    if (child == 0)
        answer_and_exit(question, ends[1], parent);
    if (ends[1] >= 0)
        close(ends[1]);
    if (child > 0) {
        ask_process(question, child, ends[0], out);
    } else {
        (void)kolo_fail_start(cause, "no process could be started to ask for it");
        snprintf(why.text, sizeof why.text, "%s", kolo_error_detail());
        print_line(out, question->kind, question->name, KOLO_ERR_SYSTEM, &why);
    }
    if (ends[0] >= 0)
        close(ends[0]);
}

static void ask_all(const char *kind, const char *(*name)(size_t number),
                    void (*answer)(const struct question *question, FILE *out),
                    const struct kolo_settings *settings, FILE *out)
{
    struct question question = {.kind = kind, .answer = answer, .settings = settings};
    for (; (question.name = name(question.number)) != NULL; question.number++)
        ask(&question, out);
}

void kolo_info_print(const struct kolo_settings *settings, FILE *out)
{
    fprintf(out, "kolo       %s\n", KOLO_VERSION);
    print_machine(out);
    print_network(settings, out);
    ask_all("transport", kolo_transport_name, answer_transport, settings, out);
    ask_all("memory", memory_name, answer_memory, settings, out);
    print_reading(settings, out);
    ask_all("device", device_name, answer_devices, settings, out);
    for (size_t i = 0; kolo_left_out[i].what; i++)
        fprintf(out, "left out   %-8s %s\n", kolo_left_out[i].what, kolo_left_out[i].why);
}
