// SPDX-License-Identifier: Apache-2.0
// Flags and numbers of file descriptors that were opened elsewhere.
//
// Threads: any.
#ifndef KOLO_BASE_DESCRIPTOR_H
#define KOLO_BASE_DESCRIPTOR_H

#include <stdbool.h>

/** From now on no read, write or accept on @p fd waits, by whatever process shares it. False: errno
 *  says why not. */
bool kolo_descriptor_set_nonblocking(int fd);
/** For each descriptor that kolo keeps: gives it a number above 2. A program may have closed its
 * standard streams; if such a number were memory of kolo_alloc or a connection, the program's error
 * messages would be written there. -1: @p fd is -1, or errno says why it has no such number, and it
 * is closed. */
int kolo_descriptor_keep(int fd);

#endif
