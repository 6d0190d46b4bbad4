// SPDX-License-Identifier: Apache-2.0
// Streamed stores for an instruction set without stores past the caches that are worth using: plain
// stores.
#ifndef KOLO_MEMORY_FOLD_PLAIN_H
#define KOLO_MEMORY_FOLD_PLAIN_H

#include <string.h>

#include "memory/reduce_vectors.h"

static KOLO_ALWAYS_INLINE void vector_stream(uint8_t *to, bits_vector x)
{
    memcpy(to, &x, sizeof x);
}

static KOLO_ALWAYS_INLINE void stream_fence(void)
{
}

#endif
