// SPDX-License-Identifier: Apache-2.0
// The only file that includes xxHash, as code that is compiled in: the library needs nothing of it
// at run time.
#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= KOLO_CHECKSUM_STATE_BYTES, "room for the state");
_Static_assert(_Alignof(XXH3_state_t) <= KOLO_CHECKSUM_ALIGNMENT, "alignment of the state");

static XXH3_state_t *state_of(struct kolo_checksum *checksum)
{
    return (XXH3_state_t *)(void *)checksum->state;
}

uint64_t kolo_checksum_of(const void *data, size_t bytes)
{
    return XXH3_64bits(bytes > 0 ? data : "", bytes);
}

void kolo_checksum_begin(struct kolo_checksum *checksum)
{
    (void)XXH3_64bits_reset(state_of(checksum));
}

void kolo_checksum_add(struct kolo_checksum *checksum, const void *data, size_t bytes)
{
    if (bytes > 0)
        (void)XXH3_64bits_update(state_of(checksum), data, bytes);
}

uint64_t kolo_checksum_end(const struct kolo_checksum *checksum)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)checksum->state);
}
