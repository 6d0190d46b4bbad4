// SPDX-License-Identifier: Apache-2.0
// The descendants of a process, as seen in one pass over /proc. A dead process without children is
// not counted. A process forked during the pass is found by the next one: callers repeat until
// there is none left.
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "launcher/descendants.h"
#include "launcher/process.h"
#include "launcher/spawn.h"

struct processes {
    struct kolo_process *at;
    size_t count, capacity;
};

static bool read_process(const char *pid_text, struct kolo_process *process)
{
    struct kolo_process_stat stat;
    const pid_t pid = (pid_t)strtol(pid_text, NULL, 10);
    if (!kolo_process_stat(pid, &stat))
        return false;
    *process = (struct kolo_process){.pid = pid,
                                     .parent = stat.parent,
                                     .state = stat.state,
                                     .is_dead = stat.state == 'Z' || stat.state == 'X'};
    memcpy(process->name, stat.name, sizeof process->name);
    return true;
}

static bool list_processes(struct processes *list)
{
    DIR *folder = opendir("/proc");
    if (!folder)
        return false;
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct kolo_process process;
        if (!isdigit((unsigned char)entry->d_name[0]) || !read_process(entry->d_name, &process))
            continue;
        void *at = list->at;
        if (kolo_grow(&at, &list->capacity, list->count + 1, sizeof process) != KOLO_OK)
            break;
        list->at = at;
        list->at[list->count++] = process;
    }
    closedir(folder);
    return true;
}

static void look(struct processes *list, pid_t root)
{
    *list = (struct processes){.at = NULL};
    if (list_processes(list))
        (void)kolo_descendants_mark(list->at, list->count, root);
}

int kolo_tree_signal(pid_t root, int number)
{
    struct processes list;
    int living = 0;
    look(&list, root);
    for (size_t i = 0; i < list.count; i++) {
        if (!list.at[i].is_ours || list.at[i].is_dead)
            continue;
        living++;
        if (number != 0)
            (void)kill(list.at[i].pid, number);
    }
    kolo_free_memory(list.at);
    return living;
}

void kolo_tree_visit(pid_t root, void (*visit)(void *context, pid_t pid, const char *name),
                     void *context)
{
    struct processes list;
    look(&list, root);
    for (size_t i = 0; i < list.count; i++)
        if (list.at[i].is_ours && !list.at[i].is_dead)
            visit(context, list.at[i].pid, list.at[i].name);
    kolo_free_memory(list.at);
}

static const char *reason(const struct kolo_process *process)
{
    if (kill(process->pid, 0) != 0 && errno == EPERM)
        return ": it is another user's, who must end it";
    return process->state == 'D' ? ": it hangs within the kernel; see dmesg there" : "";
}

void kolo_tree_describe(pid_t root, char *text, size_t capacity)
{
    struct processes list;
    const struct kolo_process *first = NULL;
    size_t living = 0;
    look(&list, root);
    for (size_t i = 0; i < list.count; i++)
        if (list.at[i].is_ours && !list.at[i].is_dead && living++ == 0)
            first = &list.at[i];
    if (!first)
        snprintf(text, capacity, "a process that /proc does not show outlives SIGKILL");
    else if (living == 1)
        snprintf(text, capacity, "process %d (%s) outlives SIGKILL%s", (int)first->pid, first->name,
                 reason(first));
    else
        snprintf(text, capacity, "process %d (%s) and %zu more outlive SIGKILL%s", (int)first->pid,
                 first->name, living - 1, reason(first));
    kolo_free_memory(list.at);
}
