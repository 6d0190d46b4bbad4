// SPDX-License-Identifier: Apache-2.0
// The exit statuses of all programs: 0 for success; 2 if options, settings or what they name are
// refused, as usual for parsers of command lines; 1 for any other failure.
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
