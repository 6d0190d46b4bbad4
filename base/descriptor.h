// SPDX-License-Identifier: Apache-2.0
// Flags of file descriptors that were opened elsewhere.
#ifndef KOLO_BASE_DESCRIPTOR_H
#define KOLO_BASE_DESCRIPTOR_H

#include <stdbool.h>

/** From now on no read, write or accept on @p fd waits, by whatever process shares it. False: errno
 *  says why not. Threads: any. */
bool kolo_descriptor_set_nonblocking(int fd);

#endif
