// SPDX-License-Identifier: Apache-2.0
// The examiner: a process that the agent of each host starts for `kolorun doctor`. It prints facts
// in lines (doctor_facts.h) on standard output, and takes requests in lines on standard input:
//
//   examiner                                     doctor
//   begin start ------------------------------>
//            <---------------------------------- secret <64 digits>, self <number> <hosts>, clock
//   clock, number, text, place ..., end facts ->
//   backend ..., end survey ------------------->  from a child process: drivers may hang
//            <---------------------------------- target <host> <place> <address> ..., dial
//   path ..., end paths ----------------------->
//            <---------------------------------- the end of standard input: the examiner ends
#ifndef KOLO_LAUNCHER_EXAMINE_H
#define KOLO_LAUNCHER_EXAMINE_H

#include <stdarg.h>
#include <stdint.h>

#include "base/settings.h"
#include "launcher/doctor_facts.h"

#define KOLO_EXAMINER_NAME "kolo-examiner" /* the process's name */
/** A driver with many devices takes seconds; one that takes longer than this hangs. */
enum { KOLO_SURVEY_MS = 30000 };
/** Time limits for one path, and how many are tried at once. */
enum { KOLO_PATH_DIAL_MS = 4000, KOLO_PATH_LONG_MS = 3000, KOLO_PATHS_AT_ONCE = 64 };

/** kolorun --examine. @return the exit status. */
int kolo_examine_main(void);

/** Writes one line of facts to standard output, in one piece. */
void kolo_say(const char *word, ...) __attribute__((sentinel));
void kolo_say_number(enum kolo_fact_number number, int64_t value);
void kolo_say_text(enum kolo_fact_text text, const char *value);

/** Reports processors, memory, limits and names: nothing that could block. */
void kolo_examine_machine(const struct kolo_settings *settings);
/** Reports processes of other jobs. */
void kolo_examine_others(void);
/** Reports transports, kinds of memory and devices; asks drivers, which may hang. */
void kolo_examine_backends(const struct kolo_settings *settings);

/** The limits of this process's cgroup and of the cgroups around it; -1: no limit. @p root is put
 * before /proc and /sys ("" except in tests). */
struct kolo_cgroup {
    int64_t quota_milli, memory_limit_bytes, memory_room_bytes;
};
void kolo_cgroup_read(const char *root, struct kolo_cgroup *cgroup_out);
/** Writes a hash of this process's executable, as 16 digits; "" if it cannot be read. */
void kolo_build_hash(char text[17]);

#endif
