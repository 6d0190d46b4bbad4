// SPDX-License-Identifier: Apache-2.0
// Owns the job's secret as bytes and as text, and the proofs made with it (HMAC-SHA256). Must never
// log or echo a secret, and never compare a secret or a proof except in constant time.
//
// The claim and the answer are computed over different labels and nonce orders, so a message of one
// side, reflected, is never a valid message of the other side.
#include "transport/auth.h"

#include <string.h>

#include <openssl/crypto.h>

#include "base/crypto.h"
#include "base/random.h"
#include "base/wire.h"

kolo_status kolo_secret_make(struct kolo_secret *secret_out)
{
    struct kolo_secret secret;
    kolo_status status = kolo_random(&secret, sizeof secret);

    if (status == KOLO_OK)
        *secret_out = secret;
    OPENSSL_cleanse(&secret, sizeof secret);
    return status;
}

kolo_status kolo_secret_try(const struct kolo_secret *secret)
{
    uint8_t proof[KOLO_PROOF_BYTES];
    return kolo_hmac_sha256(secret->bytes, sizeof secret->bytes, "", 0, proof);
}

/** The value of a hexadecimal digit; -1: it is not one. */
static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

kolo_status kolo_secret_parse(const char *hex, struct kolo_secret *secret_out)
{
    struct kolo_secret secret = {{0}};
    kolo_status status = KOLO_OK;
    size_t length = strlen(hex);

    if (length != 2 * KOLO_SECRET_BYTES)
        return kolo_fail(KOLO_ERR_CONFIG,
                         "KOLO_SECRET: expected %d hexadecimal digits, not %zu characters (kolorun "
                         "makes one; by hand: openssl rand -hex 32)",
                         2 * KOLO_SECRET_BYTES, length);
    for (size_t i = 0; i < KOLO_SECRET_BYTES; i++) {
        int high = digit_value(hex[2 * i]);
        int low = digit_value(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            status = kolo_fail(KOLO_ERR_CONFIG,
                               "KOLO_SECRET contains a character that is not a hexadecimal digit");
        else
            secret.bytes[i] = (uint8_t)(high << 4 | low);
    }
    if (status == KOLO_OK)
        status = kolo_secret_try(&secret);
    if (status == KOLO_OK)
        *secret_out = secret;
    OPENSSL_cleanse(&secret, sizeof secret);
    return status;
}

void kolo_secret_format(const struct kolo_secret *secret, char hex_out[65])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < KOLO_SECRET_BYTES; i++) {
        hex_out[2 * i] = digits[secret->bytes[i] >> 4];
        hex_out[2 * i + 1] = digits[secret->bytes[i] & 15];
    }
    hex_out[2 * KOLO_SECRET_BYTES] = '\0';
}

void kolo_greeting_pack(const struct kolo_greeting *greeting, uint8_t out[KOLO_GREETING_BYTES])
{
    struct kolo_writer writer = kolo_writer_over(out, KOLO_GREETING_BYTES);

    memset(out, 0, KOLO_GREETING_BYTES);
    kolo_write_u8(&writer, greeting->protocol);
    kolo_write_u8(&writer, greeting->purpose);
    kolo_write_i32(&writer, greeting->from);
    kolo_write_i32(&writer, greeting->to);
    kolo_write_u64(&writer, greeting->tag);
}

void kolo_greeting_unpack(const uint8_t in[KOLO_GREETING_BYTES], struct kolo_greeting *greeting_out)
{
    struct kolo_reader reader = kolo_reader_over(in, KOLO_GREETING_BYTES);

    greeting_out->protocol = kolo_read_u8(&reader);
    greeting_out->purpose = kolo_read_u8(&reader);
    greeting_out->from = kolo_read_i32(&reader);
    greeting_out->to = kolo_read_i32(&reader);
    greeting_out->tag = kolo_read_u64(&reader);
}

static kolo_status prove(const struct kolo_secret *secret, const char *label, const uint8_t *first,
                         const uint8_t *second, const uint8_t *greeting, uint8_t *proof_out)
{
    uint8_t text[16 + 2 * KOLO_NONCE_BYTES + KOLO_GREETING_BYTES];
    struct kolo_writer writer = kolo_writer_over(text, sizeof text);
    size_t bytes;
    kolo_status status;

    kolo_write_bytes(&writer, label, strlen(label));
    kolo_write_bytes(&writer, first, KOLO_NONCE_BYTES);
    kolo_write_bytes(&writer, second, KOLO_NONCE_BYTES);
    kolo_write_bytes(&writer, greeting, KOLO_GREETING_BYTES);
    status = kolo_writer_finish(&writer, text, &bytes);
    if (status != KOLO_OK)
        return status;
    return kolo_hmac_sha256(secret->bytes, KOLO_SECRET_BYTES, text, bytes, proof_out);
}

static bool is_proved(const struct kolo_secret *secret, const char *label, const uint8_t *first,
                      const uint8_t *second, const uint8_t *greeting, const uint8_t *proof)
{
    uint8_t expected[KOLO_PROOF_BYTES];

    return prove(secret, label, first, second, greeting, expected) == KOLO_OK &&
           CRYPTO_memcmp(expected, proof, KOLO_PROOF_BYTES) == 0;
}

static const char dial_label[] = "kolo-dial";
static const char accept_label[] = "kolo-accept";

kolo_status kolo_claim_make(const struct kolo_secret *secret, const uint8_t nonce_a[],
                            const uint8_t nonce_d[], const struct kolo_greeting *mine,
                            uint8_t claim_out[KOLO_CLAIM_BYTES])
{
    uint8_t *greeting = claim_out + KOLO_NONCE_BYTES;

    memcpy(claim_out, nonce_d, KOLO_NONCE_BYTES);
    kolo_greeting_pack(mine, greeting);
    return prove(secret, dial_label, nonce_a, nonce_d, greeting, greeting + KOLO_GREETING_BYTES);
}

kolo_status kolo_answer_make(const struct kolo_secret *secret, const uint8_t nonce_a[],
                             const uint8_t nonce_d[], const struct kolo_greeting *mine,
                             uint8_t answer_out[KOLO_ANSWER_BYTES])
{
    kolo_greeting_pack(mine, answer_out);
    return prove(secret, accept_label, nonce_d, nonce_a, answer_out,
                 answer_out + KOLO_GREETING_BYTES);
}

bool kolo_claim_check(const struct kolo_secret *secret, const uint8_t nonce_a[],
                      const uint8_t claim[KOLO_CLAIM_BYTES], uint8_t nonce_d_out[],
                      struct kolo_greeting *theirs_out)
{
    const uint8_t *greeting = claim + KOLO_NONCE_BYTES;

    if (!is_proved(secret, dial_label, nonce_a, claim, greeting, greeting + KOLO_GREETING_BYTES))
        return false;
    memcpy(nonce_d_out, claim, KOLO_NONCE_BYTES);
    kolo_greeting_unpack(greeting, theirs_out);
    return true;
}

bool kolo_answer_check(const struct kolo_secret *secret, const uint8_t nonce_a[],
                       const uint8_t nonce_d[], const uint8_t answer[KOLO_ANSWER_BYTES],
                       struct kolo_greeting *theirs_out)
{
    if (!is_proved(secret, accept_label, nonce_d, nonce_a, answer, answer + KOLO_GREETING_BYTES))
        return false;
    kolo_greeting_unpack(answer, theirs_out);
    return true;
}
