// SPDX-License-Identifier: Apache-2.0
// The descendants of a process, by one look at /proc. A process that has no children left and is
// dead is not counted. What forks between two looks is found by the next one: callers repeat until
// nobody is left.
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launcher/spawn.h"
#include "runtime/store_wire.h"

struct process {
    pid_t pid, parent;
    char name[32], state; /* as in proc(5) */
    bool is_dead, is_ours;
};
struct processes {
    struct process *at;
    size_t count, capacity;
};

/* "PID (NAME) STATE PPID ...": the name may hold anything, so the last parenthesis counts. */
static bool read_stat(const char *pid_text, struct process *process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid_text);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return false;
    text[got] = '\0';
    const char *name = strchr(text, '('), *after = strrchr(text, ')');
    char state = 0;
    int parent = 0;
    if (!name || !after || sscanf(after + 1, " %c %d", &state, &parent) != 2)
        return false;
    *process = (struct process){.pid = (pid_t)strtol(pid_text, NULL, 10),
                                .parent = parent,
                                .state = state,
                                .is_dead = state == 'Z' || state == 'X'};
    snprintf(process->name, sizeof process->name, "%.*s", (int)(after - name - 1), name + 1);
    kolo_text_clean(process->name); /* a process may call itself anything */
    return true;
}

static bool list_processes(struct processes *list)
{
    DIR *folder = opendir("/proc");
    if (!folder)
        return false;
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct process process;
        if (!isdigit((unsigned char)entry->d_name[0]) || !read_stat(entry->d_name, &process))
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

static bool is_parent_ours(const struct processes *list, pid_t parent, pid_t root)
{
    if (parent == root)
        return true;
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].pid == parent)
            return list->at[i].is_ours;
    return false;
}

/* Marks until nothing changes: as many rounds as the tree is deep, at worst. */
static void mark_descendants(struct processes *list, pid_t root)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < list->count; i++) {
            struct process *process = &list->at[i];
            if (process->is_ours || !is_parent_ours(list, process->parent, root))
                continue;
            process->is_ours = changed = true;
        }
    }
}

static void look(struct processes *list, pid_t root)
{
    *list = (struct processes){.at = NULL};
    if (list_processes(list))
        mark_descendants(list, root);
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

static const char *reason(const struct process *process)
{
    if (kill(process->pid, 0) != 0 && errno == EPERM)
        return ": it is another user's, who must end it";
    return process->state == 'D' ? ": it hangs within the kernel; see dmesg there" : "";
}

void kolo_tree_describe(pid_t root, char *text, size_t capacity)
{
    struct processes list;
    const struct process *first = NULL;
    size_t living = 0;
    look(&list, root);
    for (size_t i = 0; i < list.count; i++)
        if (list.at[i].is_ours && !list.at[i].is_dead && living++ == 0)
            first = &list.at[i];
    if (first == NULL)
        snprintf(text, capacity, "a process that /proc does not show outlives SIGKILL");
    else if (living == 1)
        snprintf(text, capacity, "process %d (%s) outlives SIGKILL%s", (int)first->pid, first->name,
                 reason(first));
    else
        snprintf(text, capacity, "process %d (%s) and %zu more outlive SIGKILL%s", (int)first->pid,
                 first->name, living - 1, reason(first));
    kolo_free_memory(list.at);
}
