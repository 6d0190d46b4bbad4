// SPDX-License-Identifier: Apache-2.0
// The proof of the handshake that conn.h shows: nonces, greetings and the HMAC over them, as pure
// functions over bytes. This file knows no sockets. Private to transport/.
#ifndef KOLO_TRANSPORT_AUTH_H
#define KOLO_TRANSPORT_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/conn.h"

enum {
    KOLO_NONCE_BYTES = 32,
    KOLO_PROOF_BYTES = 32,
    /* nonce_d, greeting_d, proof */
    KOLO_CLAIM_BYTES = KOLO_NONCE_BYTES + KOLO_GREETING_BYTES + KOLO_PROOF_BYTES,
    /* greeting_a, proof */
    KOLO_ANSWER_BYTES = KOLO_GREETING_BYTES + KOLO_PROOF_BYTES
};

void kolo_greeting_pack(const struct kolo_greeting *greeting, uint8_t out[KOLO_GREETING_BYTES]);
void kolo_greeting_unpack(const uint8_t in[KOLO_GREETING_BYTES],
                          struct kolo_greeting *greeting_out);

/** Make what one side sends: the dialler's claim over both nonces, and the acceptor's answer.
 *  ERR_SYSTEM if libcrypto has no HMAC-SHA256. */
kolo_status kolo_claim_make(const struct kolo_secret *secret, const uint8_t nonce_a[],
                            const uint8_t nonce_d[], const struct kolo_greeting *mine,
                            uint8_t claim_out[KOLO_CLAIM_BYTES]) KOLO_NODISCARD;
kolo_status kolo_answer_make(const struct kolo_secret *secret, const uint8_t nonce_a[],
                             const uint8_t nonce_d[], const struct kolo_greeting *mine,
                             uint8_t answer_out[KOLO_ANSWER_BYTES]) KOLO_NODISCARD;

/** Check what the other side sent, in constant time. The greeting (and nonce_d) are written only if
 *  the message is proved. */
bool kolo_claim_check(const struct kolo_secret *secret, const uint8_t nonce_a[],
                      const uint8_t claim[KOLO_CLAIM_BYTES], uint8_t nonce_d_out[],
                      struct kolo_greeting *theirs_out);
bool kolo_answer_check(const struct kolo_secret *secret, const uint8_t nonce_a[],
                       const uint8_t nonce_d[], const uint8_t answer[KOLO_ANSWER_BYTES],
                       struct kolo_greeting *theirs_out);

#endif
