// SPDX-License-Identifier: Apache-2.0
// Chooses among the variants of XXH3 that the build compiled: uses the first one of the generated
// table that this processor can run, found once. Must never compute anything itself.
#include "base/checksum.h"

#include <stdatomic.h>

#include "base/checksum_variant.h"

/** Threads that find `best` empty at the same time find the same answer. */
const struct kolo_checksum_variant *kolo_checksum_best(void)
{
    static _Atomic(const struct kolo_checksum_variant *) best;
    const struct kolo_checksum_variant *found = atomic_load_explicit(&best, memory_order_relaxed);
    if (found)
        return found;
    for (size_t i = 0; !found; i++)
        if (kolo_checksum_variants[i]->usable())
            found = kolo_checksum_variants[i];
    atomic_store_explicit(&best, found, memory_order_relaxed);
    return found;
}

uint64_t kolo_checksum_of(const void *data, size_t bytes)
{
    return kolo_checksum_best()->of(data, bytes);
}

void kolo_checksum_begin(struct kolo_checksum *checksum)
{
    kolo_checksum_best()->begin(checksum);
}

void kolo_checksum_add(struct kolo_checksum *checksum, const void *data, size_t bytes)
{
    kolo_checksum_best()->add(checksum, data, bytes);
}

uint64_t kolo_checksum_end(const struct kolo_checksum *checksum)
{
    return kolo_checksum_best()->end(checksum);
}
