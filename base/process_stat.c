// SPDX-License-Identifier: Apache-2.0
// Reads /proc/PID of other processes. Must never trust what follows a name before it is parsed: the
// process chooses its name.
#include "base/process_stat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/short_file.h"

enum { STAT_BYTES = 1024, IS_EXITING = 0x4 /* the kernel's PF_EXITING, which proc(5) shows */ };

ssize_t kolo_process_read_fact(int pid, const char *fact, char *text, size_t capacity)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, fact);
    return kolo_short_file_read(path, text, capacity);
}

char *kolo_process_read_stat(int pid, char *text, size_t capacity)
{
    (void)kolo_process_read_fact(pid, "stat", text, capacity);
    char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end : NULL;
}

/** What the program of a process was when it was started; a deleted one has a word after it. */
static void read_program(int pid, char *program, size_t capacity)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    const ssize_t length = readlink(path, program, capacity - 1);
    program[length > 0 ? length : 0] = '\0';
}

bool kolo_process_lives(int pid, int64_t since_ns, char *program, size_t capacity)
{
    char text[STAT_BYTES], state;
    unsigned flags;
    uint64_t started; /* in ticks since the machine was started */
    const char *name_end = pid > 0 ? kolo_process_read_stat(pid, text, sizeof text) : NULL;
    const int64_t ticks = sysconf(_SC_CLK_TCK);
    if (!name_end || ticks <= 0 ||
        sscanf(
            name_end + 1,
            " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
            &state, &flags, &started) != 3)
        return false;
    if (state == 'Z' || state == 'X' || (flags & IS_EXITING) != 0 ||
        started > (uint64_t)(since_ns / (1000000000 / ticks)))
        return false;
    read_program(pid, program, capacity);
    return true;
}
