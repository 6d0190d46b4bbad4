// SPDX-License-Identifier: Apache-2.0
// The numbers of the channels that an endpoint has forgotten: sorted ranges, 8 bytes for each
// communicator that was finalized.
#ifndef KOLO_TRANSPORT_FORGOTTEN_H
#define KOLO_TRANSPORT_FORGOTTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct kolo_forgotten_range {
    uint32_t first, last;
};
/** A zeroed one is empty. */
struct kolo_forgotten {
    struct kolo_forgotten_range *ranges;
    size_t count, capacity;
};

/** Adds @p count numbers from @p first on, none of which may be there. ERR_NO_MEMORY: nothing is
 *  added. */
kolo_status kolo_forgotten_add(struct kolo_forgotten *forgotten, uint32_t first,
                               uint32_t count) KOLO_NODISCARD;
bool kolo_forgotten_has(const struct kolo_forgotten *forgotten, uint32_t number);
void kolo_forgotten_fini(struct kolo_forgotten *forgotten);

#endif
