// SPDX-License-Identifier: Apache-2.0
// Files of memory alone, which others map that are given the descriptor: memfds, and what does for
// one where a sandbox forbids those.
#ifndef KOLO_MEMORY_SHARED_FILE_H
#define KOLO_MEMORY_SHARED_FILE_H

#include <stddef.h>

/** A memfd that can be sealed and not be executed. @return the descriptor, or -1 and errno. */
int kolo_memfd_create(const char *name);
/** Is it an error of who may not have any, unlike that of who has too many files? */
int kolo_memfd_is_forbidden(int error);
/** A file without a name in /dev/shm, or else in /tmp. It cannot be sealed, so that no neighbour
 * takes it. @return the descriptor, or -1 and errno. */
int kolo_nameless_file_create(void);
/** Gives @p bytes from @p at on their pages now, which all read 0 in a file that nobody has
 * written: later, their lack would be SIGBUS. @return 0, or an errno value. */
int kolo_shared_file_reserve(int fd, size_t at, size_t bytes);

#endif
