// SPDX-License-Identifier: Apache-2.0
// Short files, above all those of /proc and /sys in which the kernel states one fact.
//
// Threads: any.
#ifndef KOLO_BASE_SHORT_FILE_H
#define KOLO_BASE_SHORT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Reads the beginning of the file at @p path, at most @p capacity - 1 bytes, into @p text, and
 * terminates it. Returns the number of bytes, among which may be zeros; -1: it cannot be read, and
 * @p text is "". */
ssize_t kolo_short_file_read(const char *path, char *text, size_t capacity);

/** The whole number that is all that the file at @p path contains, except for a newline at its end.
 * -1: it contains something else (a negative number, for example), or cannot be read. */
int64_t kolo_short_file_number(const char *path);

#endif
