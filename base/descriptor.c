// SPDX-License-Identifier: Apache-2.0
// Sets flags of file descriptors. Owns none. Must never change another flag.
#include "base/descriptor.h"

#include <fcntl.h>

bool kolo_descriptor_set_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}
