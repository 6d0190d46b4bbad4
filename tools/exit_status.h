// SPDX-License-Identifier: Apache-2.0
// How a program ends, by one rule for all: 0; 2 where what it was told (options, settings, what
// they name) is refused, as the parsers of command lines do; 1 where anything else failed.
#ifndef KOLO_TOOLS_EXIT_STATUS_H
#define KOLO_TOOLS_EXIT_STATUS_H

#include <kolo/status.h>

enum { EXIT_STATUS_FAILED = 1, EXIT_STATUS_REFUSED = 2 };

static inline int exit_status_of(kolo_status status)
{
    return status == KOLO_OK           ? 0
           : status == KOLO_ERR_CONFIG ? EXIT_STATUS_REFUSED
                                       : EXIT_STATUS_FAILED;
}

#endif
