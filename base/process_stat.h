// SPDX-License-Identifier: Apache-2.0
// What /proc says of another process of this machine.
#ifndef KOLO_BASE_PROCESS_STAT_H
#define KOLO_BASE_PROCESS_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Reads the beginning of /proc/PID/FACT into @p text as kolo_short_file_read does. */
ssize_t kolo_process_read_fact(int pid, const char *fact, char *text, size_t capacity);

/** Reads the beginning of /proc/PID/stat, "PID (NAME) STATE PARENT ...", into @p text. Returns
 * where the name ends: at its ')', which a blank follows. A name may contain anything. NULL: the
 * process cannot be seen. */
char *kolo_process_read_stat(int pid, char *text, size_t capacity);

/** Whether process @p pid has not begun to end, although it existed at @p since_ns (a time of
 * kolo_boot_ns): its number may have been given to another one since. False also if it cannot be
 * seen. If true, the path of the program that it runs now is put into @p program; "": not known. */
bool kolo_process_lives(int pid, int64_t since_ns, char *program, size_t capacity);

#endif
