// SPDX-License-Identifier: Apache-2.0
// transport/auth.c: secrets, and the proofs by which two ranks convince each other that they know
// one.
#include <criterion/criterion.h>

#include <ctype.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/random.h"
#include "transport/auth.h"

static const struct kolo_greeting greeting = {
    .protocol = 1, .purpose = KOLO_PURPOSE_TCP, .from = 3, .to = -1, .tag = 0x0123456789abcdef};

struct fixture {
    struct kolo_secret secret, other;
    uint8_t nonce_a[KOLO_NONCE_BYTES], nonce_d[KOLO_NONCE_BYTES];
};

static struct fixture make_fixture(void)
{
    struct fixture f;
    cr_assert(kolo_secret_make(&f.secret) == KOLO_OK);
    cr_assert(kolo_secret_make(&f.other) == KOLO_OK);
    cr_assert(kolo_random(f.nonce_a, sizeof f.nonce_a) == KOLO_OK);
    cr_assert(kolo_random(f.nonce_d, sizeof f.nonce_d) == KOLO_OK);
    return f;
}

Test(auth, secrets_differ_and_survive_text)
{
    struct fixture f = make_fixture();
    struct kolo_secret back;
    char hex[65];

    cr_assert(memcmp(&f.secret, &f.other, sizeof f.secret) != 0);
    kolo_secret_format(&f.secret, hex);
    cr_assert(strlen(hex) == 64);
    cr_assert(kolo_secret_parse(hex, &back) == KOLO_OK);
    cr_assert(memcmp(&f.secret, &back, sizeof back) == 0);
    for (char *digit = hex; *digit != '\0'; digit++)
        *digit = (char)toupper((unsigned char)*digit);
    cr_assert(kolo_secret_parse(hex, &back) == KOLO_OK);
    cr_assert(memcmp(&f.secret, &back, sizeof back) == 0);
}

Test(auth, bad_secret_text_is_refused_and_never_echoed)
{
    static const char *const bad[] = {
        "", "abc", "zz23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde "};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kolo_secret secret = {{7}};
        cr_assert(kolo_secret_parse(bad[i], &secret) == KOLO_ERR_CONFIG, "case %zu", i);
        cr_assert(secret.bytes[0] == 7, "case %zu wrote its output", i);
        cr_assert(strstr(kolo_error_detail(), "KOLO_SECRET"), "%s", kolo_error_detail());
        cr_assert(strlen(bad[i]) < 4 || !strstr(kolo_error_detail(), bad[i]), "echoed");
    }
}

Test(auth, greeting_packs_and_unpacks)
{
    uint8_t bytes[KOLO_GREETING_BYTES];
    struct kolo_greeting back;

    kolo_greeting_pack(&greeting, bytes);
    kolo_greeting_unpack(bytes, &back);
    cr_assert(back.protocol == 1 && back.purpose == KOLO_PURPOSE_TCP && back.from == 3 &&
              back.to == -1 && back.tag == greeting.tag);
    cr_assert(bytes[2] == 3 && bytes[5] == 0 && bytes[6] == 0xff && bytes[10] == 0xef,
              "little-endian, in the order of the fields");
}

Test(auth, claim_is_the_hmac_that_the_header_says)
{
    struct fixture f = make_fixture();
    uint8_t claim[KOLO_CLAIM_BYTES], text[256], expected[32];
    size_t used = 0;

    cr_assert(kolo_claim_make(&f.secret, f.nonce_a, f.nonce_d, &greeting, claim) == KOLO_OK);
    memcpy(text, "kolo-dial", 9);
    used = 9;
    memcpy(text + used, f.nonce_a, 32);
    memcpy(text + used + 32, f.nonce_d, 32);
    kolo_greeting_pack(&greeting, text + used + 64);
    HMAC(EVP_sha256(), f.secret.bytes, 32, text, used + 96, expected, NULL);
    cr_assert(memcmp(claim + 64, expected, 32) == 0);
}

Test(auth, claim_and_answer_convince_who_knows_the_secret)
{
    struct fixture f = make_fixture();
    uint8_t claim[KOLO_CLAIM_BYTES], answer[KOLO_ANSWER_BYTES], nonce_d[KOLO_NONCE_BYTES];
    struct kolo_greeting theirs;

    cr_assert(kolo_claim_make(&f.secret, f.nonce_a, f.nonce_d, &greeting, claim) == KOLO_OK);
    cr_assert(kolo_claim_check(&f.secret, f.nonce_a, claim, nonce_d, &theirs));
    cr_assert(theirs.from == 3 && memcmp(nonce_d, f.nonce_d, sizeof nonce_d) == 0);
    cr_assert(kolo_answer_make(&f.secret, f.nonce_a, f.nonce_d, &greeting, answer) == KOLO_OK);
    cr_assert(kolo_answer_check(&f.secret, f.nonce_a, f.nonce_d, answer, &theirs));

    cr_assert(!kolo_claim_check(&f.other, f.nonce_a, claim, nonce_d, &theirs), "another secret");
    cr_assert(!kolo_answer_check(&f.other, f.nonce_a, f.nonce_d, answer, &theirs));
    cr_assert(!kolo_claim_check(&f.secret, f.nonce_d, claim, nonce_d, &theirs), "a replay");
    cr_assert(!kolo_answer_check(&f.secret, f.nonce_d, f.nonce_a, answer, &theirs));
}

Test(auth, a_claim_is_no_answer)
{
    struct fixture f = make_fixture();
    uint8_t claim[KOLO_CLAIM_BYTES];
    struct kolo_greeting theirs;

    /* What a reflector could try: to send the dialler's own claim back to it. */
    cr_assert(kolo_claim_make(&f.secret, f.nonce_a, f.nonce_d, &greeting, claim) == KOLO_OK);
    cr_assert(!kolo_answer_check(&f.secret, f.nonce_a, f.nonce_d, claim + 32, &theirs));
    cr_assert(!kolo_answer_check(&f.secret, f.nonce_d, f.nonce_a, claim + 32, &theirs));
}

Test(auth, every_flipped_bit_is_noticed)
{
    struct fixture f = make_fixture();
    uint8_t claim[KOLO_CLAIM_BYTES], answer[KOLO_ANSWER_BYTES], nonce_d[KOLO_NONCE_BYTES];
    struct kolo_greeting theirs;

    cr_assert(kolo_claim_make(&f.secret, f.nonce_a, f.nonce_d, &greeting, claim) == KOLO_OK);
    for (size_t bit = 0; bit < 8 * sizeof claim; bit++) {
        claim[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert(!kolo_claim_check(&f.secret, f.nonce_a, claim, nonce_d, &theirs), "bit %zu", bit);
        claim[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    cr_assert(kolo_answer_make(&f.secret, f.nonce_a, f.nonce_d, &greeting, answer) == KOLO_OK);
    for (size_t bit = 0; bit < 8 * sizeof answer; bit++) {
        answer[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert(!kolo_answer_check(&f.secret, f.nonce_a, f.nonce_d, answer, &theirs), "bit %zu",
                  bit);
        answer[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}
