// SPDX-License-Identifier: Apache-2.0
// Finds processes of other jobs of kolo on this host: agents of kolorun by their name, and ranks by
// their environment, which can be read only for this user's processes. Ancestors and descendants of
// this process do not count.
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/process_stat.h"
#include "base/short_file.h"
#include "launcher/examine.h"
#include "runtime/local.h"

struct process {
    pid_t pid, parent;
    int64_t age_s;
    char name[32];
    bool is_agent, is_rank;
};
struct table {
    struct process *at;
    size_t count, capacity;
};

/* Whether this is the environment of a rank that kolorun started. */
static bool is_rank(const char *data, size_t bytes)
{
    bool has_rank = false, has_launcher = false;
    for (const char *at = data; at < data + bytes; at += strlen(at) + 1) {
        has_rank = has_rank || strncmp(at, "KOLO_RANK=", 10) == 0;
        has_launcher = has_launcher || strcmp(at, "KOLO_LAUNCHER=kolorun") == 0;
    }
    return has_rank && has_launcher;
}

static int64_t seconds_up(void)
{
    char text[64];
    ssize_t got = kolo_short_file_read("/proc/uptime", text, sizeof text);
    return got > 0 ? strtoll(text, NULL, 10) : -1; /* there is a fraction behind it */
}

/* "PID (NAME) S PARENT ...": the name may contain anything. */
static bool read_process(pid_t pid, int64_t up_s, char *data, size_t capacity,
                         struct process *process_out)
{
    int parent = 0;
    unsigned long long start = 0;
    char state = 0;
    if (kolo_process_read_fact((int)pid, "stat", data, capacity) <= 0)
        return false;
    char *open = strchr(data, '('), *close = strrchr(data, ')');
    if (!open || !close || close < open ||
        sscanf(close + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &state, &parent, &start) != 3 ||
        state == 'Z')
        return false;
    *process_out = (struct process){.pid = pid, .parent = parent, .age_s = -1};
    snprintf(process_out->name, sizeof process_out->name, "%.*s", (int)(close - open - 1),
             open + 1);
    if (up_s >= 0)
        process_out->age_s = up_s - (int64_t)(start / (unsigned long long)sysconf(_SC_CLK_TCK));
    process_out->is_agent = strcmp(process_out->name, KOLO_LOCAL_AGENT) == 0;
    ssize_t got = 0;
    if (!process_out->is_agent)
        got = kolo_process_read_fact((int)pid, "environ", data, capacity);
    process_out->is_rank = got > 0 && is_rank(data, (size_t)got);
    return true;
}

static void read_all(struct table *table)
{
    enum { ENVIRONMENT_BYTES = 1 << 18 };
    struct dirent *entry;
    int64_t up_s = seconds_up();
    char *data = kolo_calloc(ENVIRONMENT_BYTES, 1);
    DIR *folder = opendir("/proc");
    while (data && folder && (entry = readdir(folder)) != NULL) {
        struct process process;
        void *at = table->at;
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            !read_process((pid_t)strtol(entry->d_name, NULL, 10), up_s, data, ENVIRONMENT_BYTES,
                          &process))
            continue;
        if (kolo_grow(&at, &table->capacity, table->count + 1, sizeof process) != KOLO_OK)
            break;
        table->at = at;
        table->at[table->count++] = process;
    }
    if (folder)
        closedir(folder);
    kolo_free_memory(data);
}

static const struct process *find(const struct table *table, pid_t pid)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->at[i].pid == pid)
            return &table->at[i];
    return NULL;
}

/* Whether @p process is below an agent, or below @p ancestor. The search is bounded: the table is
 * not read at one moment, so it may show a loop of parents that never existed. */
static bool is_below(const struct table *table, const struct process *process, pid_t ancestor)
{
    for (size_t steps = 0; process && steps < table->count; steps++) {
        if (ancestor ? process->pid == ancestor : process->is_agent)
            return true;
        process = find(table, process->parent);
    }
    return false;
}

/* The agent that watches this examiner: the outermost one above it. */
static pid_t own_agent(const struct table *table)
{
    pid_t found = 0;
    const struct process *process = find(table, getpid());
    for (size_t steps = 0; process && steps < table->count; steps++) {
        if (process->is_agent)
            found = process->pid;
        process = find(table, process->parent);
    }
    return found;
}

/* Whether another doctor has started this agent, or this doctor has under another name of the
 * host. */
static bool has_examiner(const struct table *table, const struct process *agent)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->at[i].name, KOLO_EXAMINER_NAME) == 0 &&
            is_below(table, &table->at[i], agent->pid))
            return true;
    return false;
}

/* One line per job: the guardian, or each rank that has none. */
static bool is_worth_a_line(const struct table *table, const struct process *process)
{
    const struct process *parent = find(table, process->parent);
    if (process->is_agent)
        return !(parent && parent->is_agent) && !has_examiner(table, process);
    return process->is_rank && !is_below(table, process, 0);
}

void kolo_examine_others(void)
{
    struct table table = {.at = NULL};
    read_all(&table);
    pid_t own = own_agent(&table);
    for (size_t i = 0; i < table.count; i++) {
        const struct process *process = &table.at[i];
        char pid[16], age[32];
        if (!is_worth_a_line(&table, process) || (own && is_below(&table, process, own)))
            continue;
        snprintf(pid, sizeof pid, "%d", (int)process->pid);
        snprintf(age, sizeof age, "%lld", (long long)process->age_s);
        kolo_say("other", pid, process->is_agent ? "1" : "0", age, process->name, NULL);
    }
    kolo_free_memory(table.at);
}
