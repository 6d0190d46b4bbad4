// SPDX-License-Identifier: Apache-2.0
// Locks host pages for devices. Owns nothing: a pin belongs to its holder. Must never make a
// device's context, nor fail a caller: memory that cannot be locked is slower, but not wrong.
#include <stdatomic.h>

#include "base/log.h"
#include "memory/memory.h"

/** The first refusal in a process is a warning; many may follow for the same reason, and are logged
 * as information. */
static void tell(size_t bytes)
{
    static atomic_flag was_told = ATOMIC_FLAG_INIT;
    const enum kolo_log_level level =
        atomic_flag_test_and_set(&was_told) ? KOLO_LOG_INFO : KOLO_LOG_WARN;
    KOLO_LOG(level, "%zu bytes are not page-locked, copies to and from devices are slower: %s",
             bytes, kolo_error_detail());
}

void kolo_pin(const struct kolo_pointer *near, void *memory, size_t bytes, struct kolo_pin *pin_out)
{
    kolo_status status = KOLO_AGAIN;
    *pin_out = (struct kolo_pin){.ops = NULL};
    for (size_t i = 0; status == KOLO_AGAIN && kolo_memory_kinds[i]; i++) {
        const struct kolo_memory_ops *kind = kolo_memory_kinds[i];
        if (kind->pin && (near ? kind == near->ops : kind->is_present()))
            status = kind->pin(near, memory, bytes, pin_out);
    }
    if (status == KOLO_OK || status == KOLO_AGAIN)
        return;
    tell(bytes);
    kolo_detail_set(""); /* the caller's work has not failed */
}

void kolo_unpin(struct kolo_pin *pin, void *memory)
{
    if (pin->ops)
        pin->ops->unpin(pin, memory);
    *pin = (struct kolo_pin){.ops = NULL};
}
