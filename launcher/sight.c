// SPDX-License-Identifier: Apache-2.0
// Looks at a rank's process twice, since processor time shows only over a while, and puts what was
// seen into words. Must never signal or stop the process.
#include "launcher/sight.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* As state: /proc does not show the process to this user. */
static const char HIDDEN = '?';

enum {
    PERMILLE_MAX = 100000000, /* of a hundred thousand processors */
    GENERATIONS_MAX = 64,     /* between the process that was started and the one that joined */
    SCRIPTS_MAX = 8           /* scripts that wait for scripts */
};

static bool descends(pid_t pid, pid_t ancestor)
{
    struct kolo_process_stat stat;
    for (int i = 0; i < GENERATIONS_MAX && pid > 1; i++) {
        if (pid == ancestor)
            return true;
        if (!kolo_process_stat(pid, &stat))
            return false;
        pid = stat.parent;
    }
    return false;
}

static pid_t behind_scripts(pid_t pid)
{
    for (int i = 0; i < SCRIPTS_MAX; i++) {
        const pid_t next = kolo_process_awaited(pid);
        if (next <= 0)
            break;
        pid = next;
    }
    return pid;
}

/* It cannot be read: it has ended, or this user may not see it. */
static void lose(struct kolo_sight *sight, pid_t pid)
{
    sight->pid = kolo_process_is_there(pid) ? (uint32_t)pid : 0;
    sight->state = HIDDEN;
}

void kolo_sight_begin(struct kolo_sight *sight, uint32_t rank, pid_t child, pid_t said)
{
    struct kolo_process_stat stat;
    const pid_t pid = said > 0 && descends(said, child) ? said : behind_scripts(child);
    *sight = (struct kolo_sight){.rank = rank};
    if (!kolo_process_stat(pid, &stat)) {
        lose(sight, pid);
        return;
    }
    sight->pid = (uint32_t)pid;
    sight->cpu_ms = stat.cpu_ms;
}

void kolo_sight_end(struct kolo_sight *sight, int64_t ms)
{
    struct kolo_process_stat stat;
    if (sight->pid == 0 || sight->state == HIDDEN)
        return;
    if (!kolo_process_stat((pid_t)sight->pid, &stat)) {
        lose(sight, (pid_t)sight->pid);
        return;
    }
    if (ms > 0 && stat.cpu_ms > sight->cpu_ms)
        sight->permille = (uint32_t)((stat.cpu_ms - sight->cpu_ms) * 1000 / (uint64_t)ms);
    memcpy(sight->name, stat.name, sizeof sight->name);
    sight->state = stat.state;
    sight->threads = stat.threads;
    sight->cpu_ms = stat.cpu_ms;
    kolo_process_blocked((pid_t)sight->pid, sight->blocked, sizeof sight->blocked);
}

/* ---- over the wire ---- */

void kolo_sight_write(struct kolo_writer *writer, const struct kolo_sight *sight)
{
    kolo_write_u32(writer, sight->rank);
    kolo_write_u32(writer, sight->pid);
    kolo_write_text(writer, sight->name);
    kolo_write_u8(writer, (uint8_t)sight->state);
    kolo_write_u32(writer, sight->threads);
    kolo_write_u32(writer, sight->permille);
    kolo_write_u64(writer, sight->cpu_ms);
    kolo_write_text(writer, sight->blocked);
}

kolo_status kolo_sight_read(struct kolo_reader *reader, struct kolo_sight *sight_out)
{
    *sight_out = (struct kolo_sight){.rank = kolo_read_u32(reader)};
    sight_out->pid = kolo_read_u32(reader);
    kolo_read_text(reader, sight_out->name, sizeof sight_out->name);
    sight_out->state = (char)kolo_read_u8(reader);
    sight_out->threads = kolo_read_u32(reader);
    sight_out->permille = kolo_read_u32(reader);
    sight_out->cpu_ms = kolo_read_u64(reader);
    kolo_read_text(reader, sight_out->blocked, sizeof sight_out->blocked);
    if (sight_out->permille > PERMILLE_MAX)
        sight_out->permille = PERMILLE_MAX;
    kolo_text_clean(sight_out->name);
    kolo_text_clean(sight_out->blocked);
    return kolo_reader_finish(reader, "a sight of a rank");
}

/* ---- in words ---- */

/* What a call is that most people do not know by its name. */
static const char *meaning(const char *blocked)
{
    static const struct {
        const char *call, *means;
    } known[] = {{"futex", " (a lock, or the end of a thread)"},
                 {"nanosleep", " (it sleeps)"},
                 {"clock_nanosleep", " (it sleeps)"},
                 {"wait4", " (the end of a child process)"},
                 {"waitid", " (the end of a child process)"},
                 {"pause", " (a signal)"},
                 {"rt_sigsuspend", " (a signal)"},
                 {"rt_sigtimedwait", " (a signal)"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(blocked, known[i].call) == 0)
            return known[i].means;
    return "";
}

static void say_busy(uint32_t permille, char *text, size_t capacity)
{
    if (permille < 1500)
        snprintf(text, capacity, "busy (%u %% of a processor)", (permille + 5) / 10);
    else
        snprintf(text, capacity, "busy (%.1f processors)", permille / 1000.0);
}

bool kolo_sight_has_ended(const struct kolo_sight *sight)
{
    const bool is_dead = sight->state == 'Z' || sight->state == 'X';
    return sight->pid == 0 || (is_dead && sight->threads <= 1);
}

void kolo_sight_text(const struct kolo_sight *sight, char *text, size_t capacity)
{
    const char *what = sight->blocked[0] ? sight->blocked : "something that is not shown";
    if (kolo_sight_has_ended(sight))
        snprintf(text, capacity, "its process has ended");
    else if (sight->state == HIDDEN)
        snprintf(text, capacity, "what it does is not shown (its user may not see it in /proc)");
    else if (sight->state == 'T')
        snprintf(text, capacity, "stopped by a signal (SIGCONT continues it)");
    else if (sight->state == 't')
        snprintf(text, capacity, "stopped by a debugger");
    else if (sight->permille >= KOLO_SIGHT_BUSY_PERMILLE)
        say_busy(sight->permille, text, capacity);
    else if (sight->state == 'Z')
        snprintf(text, capacity, "its main thread has ended, and other threads go on");
    else if (sight->state == 'R')
        snprintf(text, capacity, "ready to run, but it gets %u %% of a processor",
                 (sight->permille + 5) / 10);
    else if (sight->state == 'D')
        snprintf(text, capacity, "stuck within the kernel (state D) in %s", what);
    else
        snprintf(text, capacity, "blocked in %s%s", what, meaning(what));
}
