// SPDX-License-Identifier: Apache-2.0
// Random bytes from the system.
#ifndef KOLO_BASE_RANDOM_H
#define KOLO_BASE_RANDOM_H

#include <stddef.h>

#include "base/status.h"

/** Fills @p data with @p bytes random bytes; never with fewer. ERR_SYSTEM; then @p data is
 *  unspecified. Threads: any. */
kolo_status kolo_random(void *data, size_t bytes) KOLO_NODISCARD;

#endif
