// SPDX-License-Identifier: Apache-2.0
// FNV-1a, with the offset bases and primes of the Internet-Draft "The FNV Non-Cryptographic Hash
// Algorithm".
#include "base/hash.h"

#include <string.h>

static const uint64_t PRIME = UINT64_C(1099511628211);
static const uint32_t PRIME32 = 16777619;

uint64_t kolo_hash_word(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * PRIME;
}

uint64_t kolo_hash(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = kolo_hash_word(hash, at[i]);
    return hash;
}

uint64_t kolo_hash_text(uint64_t hash, const char *text)
{
    return kolo_hash(hash, text, strlen(text));
}

uint32_t kolo_hash32(uint32_t hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * PRIME32;
    return hash;
}
