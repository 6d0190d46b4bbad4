// SPDX-License-Identifier: Apache-2.0
// FNV-1a, which spreads values over a table, or tells apart what differs by mistake. It must not be
// used against somebody who chooses the values. Ranks compare its results, and saved states contain
// them, so they are the same in every version.
#ifndef KOLO_BASE_HASH_H
#define KOLO_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/** The hash of nothing, with which a series of the following calls begins. */
#define KOLO_HASH_START UINT64_C(14695981039346656037)
#define KOLO_HASH32_START UINT32_C(2166136261)

/** Continues @p hash with @p bytes bytes; @p data may be NULL if there are none. */
uint64_t kolo_hash(uint64_t hash, const void *data, size_t bytes);
/** The same with the bytes of a text, without its end. */
uint64_t kolo_hash_text(uint64_t hash, const char *text);
/** Continues it with a whole word at once, which is not the same as with its bytes. */
uint64_t kolo_hash_word(uint64_t hash, uint64_t word);
/** The function of 32 bits, with values of its own. */
uint32_t kolo_hash32(uint32_t hash, const void *data, size_t bytes);

#endif
