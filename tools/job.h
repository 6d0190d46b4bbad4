// SPDX-License-Identifier: Apache-2.0
// A program's place in a job of kolorun, before it has a communicator: which rank prints what all
// ranks would print, and how ranks end whose command line is wrong.
#ifndef KOLO_TOOLS_JOB_H
#define KOLO_TOOLS_JOB_H

#include <stdarg.h>
#include <stdbool.h>

/** Whether this process prints messages for its job: it is rank 0, or not in a job of kolorun. */
bool job_speaks(void);

/** Prints "PROGRAM: " and a line about the command line of this process, which is mostly that of
 *  all ranks: at once if no other process of its job can print it. Another rank than 0 of kolorun
 *  keeps it until job_leave(). */
void job_complain(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void job_complain_args(const char *program, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/** For a process that is about to end with a failure. kolorun ends the job with the first rank that
 *  fails, so rank 0 leaves at once, and a rank that has kept a complaint waits for that. If it is
 *  still there after one to four seconds (longer if KOLO_START_TIMEOUT is more than a minute), no
 *  rank before it has the complaint, or rank 0 is late: it prints it. */
void job_leave(void);

#endif
