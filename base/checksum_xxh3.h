// SPDX-License-Identifier: Apache-2.0
// XXH3 from the header of xxHash, as code that is compiled in: the library needs nothing of it at
// run time. xxHash uses XXH_VECTOR, or else the best instruction set for which the file that
// includes this is compiled. A file base/checksum_<set>.c defines
//
//   KOLO_VARIANT         the identifier of its struct kolo_checksum_variant
//   KOLO_VARIANT_NAME    its name as text
//   KOLO_VARIANT_USABLE  its run-time check
//   XXH_VECTOR           the set, which the builder's flags may exceed (-march=native)
//
// and includes this. Everything here is static, so that no function compiled for one instruction
// set can replace that of another.
#ifndef KOLO_BASE_CHECKSUM_XXH3_H
#define KOLO_BASE_CHECKSUM_XXH3_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/checksum_variant.h"

_Static_assert(sizeof(XXH3_state_t) <= KOLO_CHECKSUM_STATE_BYTES, "room for the state");
_Static_assert(_Alignof(XXH3_state_t) <= KOLO_CHECKSUM_ALIGNMENT, "alignment of the state");
_Static_assert(XXH_ACC_ALIGN <= KOLO_CHECKSUM_ALIGNMENT, "alignment of the vectors in the state");

static XXH3_state_t *state_of(struct kolo_checksum *checksum)
{
    return (XXH3_state_t *)(void *)checksum->state;
}

static uint64_t variant_of(const void *data, size_t bytes)
{
    return XXH3_64bits(bytes > 0 ? data : "", bytes);
}

static void variant_begin(struct kolo_checksum *checksum)
{
    (void)XXH3_64bits_reset(state_of(checksum));
}

static void variant_add(struct kolo_checksum *checksum, const void *data, size_t bytes)
{
    if (bytes > 0)
        (void)XXH3_64bits_update(state_of(checksum), data, bytes);
}

static uint64_t variant_end(const struct kolo_checksum *checksum)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)checksum->state);
}

const struct kolo_checksum_variant KOLO_VARIANT = {.name = KOLO_VARIANT_NAME,
                                                   .usable = KOLO_VARIANT_USABLE,
                                                   .of = variant_of,
                                                   .begin = variant_begin,
                                                   .add = variant_add,
                                                   .end = variant_end};

#endif
