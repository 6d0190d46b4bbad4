// SPDX-License-Identifier: Apache-2.0
// The only caller of getrandom. Must never return fewer bytes than were asked for: a signal may
// interrupt the system's call, before the first byte or after some.
#include "base/random.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

kolo_status kolo_random(void *data, size_t bytes)
{
    uint8_t *at = data;
    while (bytes > 0) {
        const ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "random bytes from the system");
        at += got;
        bytes -= (size_t)got;
    }
    return KOLO_OK;
}
