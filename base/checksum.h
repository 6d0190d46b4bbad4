// SPDX-License-Identifier: Apache-2.0
// Checksums of 64 bits by which ranks notice that bytes changed between their memories: XXH3 of
// xxHash. Both ends must have the same function, so its values are the same in every version. It
// must not be used against somebody who chooses the bytes.
#ifndef KOLO_BASE_CHECKSUM_H
#define KOLO_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/** The checksum of @p bytes bytes; @p data may be NULL if there are none. */
uint64_t kolo_checksum_of(const void *data, size_t bytes);

enum { KOLO_CHECKSUM_STATE_BYTES = 576, KOLO_CHECKSUM_ALIGNMENT = 64 };
/** The same for bytes that come in pieces, of any sizes. */
struct kolo_checksum {
    _Alignas(KOLO_CHECKSUM_ALIGNMENT) uint8_t state[KOLO_CHECKSUM_STATE_BYTES];
};
void kolo_checksum_begin(struct kolo_checksum *checksum);
void kolo_checksum_add(struct kolo_checksum *checksum, const void *data, size_t bytes);
/** The checksum of all bytes since the beginning. */
uint64_t kolo_checksum_end(const struct kolo_checksum *checksum);

#endif
