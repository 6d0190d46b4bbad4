// SPDX-License-Identifier: Apache-2.0
// Starts processes that cannot outlive their parent, and finds all processes that descend from
// them.
#ifndef KOLO_LAUNCHER_SPAWN_H
#define KOLO_LAUNCHER_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

struct kolo_spawn {
    const char *path; /* executed as it is, without a search */
    const char *what; /* it, in messages; NULL: its path */
    char *const *argv;
    char *const *env;
    const char *cwd;       /* NULL: the parent's */
    int fds[3];            /* its standard streams; -1: /dev/null */
    int kept_fd;           /* one more descriptor that it keeps, with the same number; 0: none */
    int death_signal;      /* signal it gets when the thread that called this ends; 0: none */
    const cpu_set_t *cpus; /* NULL: the parent's */
    bool may_be_unbound;   /* if the system refuses `cpus` (in a sandbox): keep the parent's */
    bool has_own_session;  /* false: the parent's session */
};

/** Starts @p spawn as the leader of its own process group, with default signal handling and no file
 * descriptors except its standard streams and kept_fd, and with the limit of open files that this
 * process was started with (open_files.h). Returns once it has been executed, which may
 * take long where the file system of the program or of `cwd` does not answer.
 *  @return KOLO_OK; ERR_SYSTEM with what failed in the detail and its errno in *error_out. */
kolo_status kolo_spawn(const struct kolo_spawn *spawn, pid_t *pid_out,
                       int *error_out) KOLO_NODISCARD;

/** The same without waiting: the process is there, in its own group, and *report_out, which is the
 * caller's to close, becomes readable when it has been executed, or could not be. */
kolo_status kolo_spawn_begin(const struct kolo_spawn *spawn, pid_t *pid_out, int *report_out,
                             int *error_out) KOLO_NODISCARD;
/** How that went; @p spawn must have the same path and cwd. After a failure, the process still has
 * to be waited for. KOLO_AGAIN: @p report does not block, and is not readable yet. */
kolo_status kolo_spawn_end(const struct kolo_spawn *spawn, int report,
                           int *error_out) KOLO_NODISCARD;

/** Finds the file that executing @p name in directory @p cwd with search path @p path would run: it
 * is executable and not a directory. Its path is absolute if @p cwd is. ERR_NOT_FOUND (*error_out
 * ENOENT or EACCES) names what was looked for. */
kolo_status kolo_program_find(const char *name, const char *cwd, const char *path, char *found_out,
                              size_t capacity, int *error_out) KOLO_NODISCARD;

/** Sends @p signal to every living descendant of @p root (not to itself).
 *  @return their number. Orphans count if @p root is their reaper (a subreaper). */
int kolo_tree_signal(pid_t root, int signal);

/** Calls @p visit for every living descendant of @p root. @p name is the process's own name, with
 * unprintable characters replaced. */
void kolo_tree_visit(pid_t root, void (*visit)(void *context, pid_t pid, const char *name),
                     void *context);

/** For processes that SIGKILL did not end: writes into @p text which descendants of @p root still
 * live, and why, as far as that can be seen. */
void kolo_tree_describe(pid_t root, char *text, size_t capacity);

/** Both ends are close-on-exec. ERR_SYSTEM. */
kolo_status kolo_pipe(int ends_out[2]) KOLO_NODISCARD;

#endif
