// SPDX-License-Identifier: Apache-2.0
// Files that exist only in memory, which processes map that are given the descriptor: memfds, and a
// replacement for them in sandboxes that forbid memfds.
#ifndef KOLO_MEMORY_SHARED_FILE_H
#define KOLO_MEMORY_SHARED_FILE_H

#include <stddef.h>

/** Makes a memfd that can be sealed and cannot be executed. @return the descriptor, or -1 and
 * errno. */
int kolo_memfd_create(const char *name);
/** Whether @p error means that memfds are forbidden (and not, for example, that there are too many
 * open files). */
int kolo_memfd_is_forbidden(int error);
/** Makes a file without a name in /dev/shm, or else in /tmp. It cannot be sealed, so other
 * processes do not accept it. @return the descriptor, or -1 and errno. */
int kolo_nameless_file_create(void);
/** Allocates the pages of the @p bytes bytes from @p at on now; in a file that has not been written
 * they all read 0. Otherwise a lack of memory would be a SIGBUS later. @return 0, or an errno
 * value. */
int kolo_shared_file_reserve(int fd, size_t at, size_t bytes);
/** The same, but never writes: what is in the file stays. Where fallocate is not supported, it
 * fails. */
int kolo_shared_file_allocate(int fd, size_t at, size_t bytes);

#endif
