// SPDX-License-Identifier: Apache-2.0
// SHA-256 and the HMAC with it, of libcrypto, at any time. libcrypto clears itself up in a handler
// of exit(), and crashes if it is used afterwards; but a program may finalize a communicator in a
// later handler, or in the destructor of a global object.
//
// Threads: any.
#ifndef KOLO_BASE_CRYPTO_H
#define KOLO_BASE_CRYPTO_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { KOLO_SHA256_BYTES = 32 };

/** The SHA-256 of @p bytes bytes.
 *  @return KOLO_OK; ERR_SYSTEM: libcrypto has no SHA-256, or has been cleared up; ERR_NO_MEMORY. */
kolo_status kolo_sha256(const void *data, size_t bytes,
                        uint8_t hash_out[KOLO_SHA256_BYTES]) KOLO_NODISCARD;
/** The HMAC-SHA256 (RFC 2104) of @p bytes bytes with a key of @p key_bytes bytes.
 *  @return As kolo_sha256. */
kolo_status kolo_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                             uint8_t proof_out[KOLO_SHA256_BYTES]) KOLO_NODISCARD;

#endif
