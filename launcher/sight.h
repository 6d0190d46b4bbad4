// SPDX-License-Identifier: Apache-2.0
// What a rank's process does at the moment, as its agent sees it from outside.
#ifndef KOLO_LAUNCHER_SIGHT_H
#define KOLO_LAUNCHER_SIGHT_H

#include "base/status.h"
#include "base/wire.h"
#include "launcher/process.h"

enum {
    KOLO_SIGHT_BLOCKED_MAX = 192,
    KOLO_SIGHT_TEXT_MAX = 320,
    KOLO_SIGHT_BYTES = 320,        /* upper bound of a frame's body */
    KOLO_SIGHT_BUSY_PERMILLE = 100 /* who uses less of a processor waits most of the time */
};

struct kolo_sight {
    uint32_t rank, pid; /* pid 0: it has no process any more */
    char name[KOLO_PROCESS_NAME_MAX];
    char state; /* as in proc(5) */
    uint32_t threads;
    uint32_t permille; /* of a processor, lately; more than 1000 with several threads */
    uint64_t cpu_ms;   /* since its start */
    char blocked[KOLO_SIGHT_BLOCKED_MAX];
};

/** Begins to look at the rank whose process is @p child: at the process @p said, as which it joined
 * the job, if that descends from it; else at the child, or at the process that this one waits for,
 * as a script does. May wait (launcher/process.h). */
void kolo_sight_begin(struct kolo_sight *sight, uint32_t rank, pid_t child, pid_t said);
/** Completes what kolo_sight_begin began @p ms ago. May wait. */
void kolo_sight_end(struct kolo_sight *sight, int64_t ms);

void kolo_sight_write(struct kolo_writer *writer, const struct kolo_sight *sight);
/** ERR_DATA: the bytes are not a sight. */
kolo_status kolo_sight_read(struct kolo_reader *reader,
                            struct kolo_sight *sight_out) KOLO_NODISCARD;

/** Whether nothing of the process is left but its number. */
bool kolo_sight_has_ended(const struct kolo_sight *sight);
/** Writes what the process does: "busy (98 % of a processor)", "blocked in read of /data/a.bin". */
void kolo_sight_text(const struct kolo_sight *sight, char *text, size_t capacity);

#endif
