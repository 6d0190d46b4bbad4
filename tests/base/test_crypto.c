// SPDX-License-Identifier: Apache-2.0
// base/crypto.c against the vectors of its standards, after libcrypto has cleared itself up, and
// without memory.
#include "base/crypto.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

static const char *hex(const uint8_t bytes[KOLO_SHA256_BYTES])
{
    static char text[2 * KOLO_SHA256_BYTES + 1];
    for (int i = 0; i < KOLO_SHA256_BYTES; i++)
        (void)snprintf(text + (size_t)i * 2, 3, "%02x", bytes[i]);
    return text;
}

/** FIPS 180-4's example, and the empty message. */
Test(crypto, hashes_of_the_standard)
{
    uint8_t hash[KOLO_SHA256_BYTES];
    cr_assert(kolo_sha256("abc", 3, hash) == KOLO_OK);
    cr_assert_str_eq(hex(hash), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cr_assert(kolo_sha256("", 0, hash) == KOLO_OK);
    cr_assert_str_eq(hex(hash), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/** RFC 4231: cases 2, and 6, whose key is longer than a block. */
Test(crypto, proofs_of_the_standard)
{
    static const char asked[] = "what do ya want for nothing?",
                      hashed[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    uint8_t proof[KOLO_SHA256_BYTES], key[131];
    cr_assert(kolo_hmac_sha256("Jefe", 4, asked, strlen(asked), proof) == KOLO_OK);
    cr_assert_str_eq(hex(proof),
                     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    cr_assert(kolo_hmac_sha256(key, sizeof key, hashed, strlen(hashed), proof) == KOLO_OK);
    cr_assert_str_eq(hex(proof),
                     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void expect_refusals(void)
{
    uint8_t hash[KOLO_SHA256_BYTES];
    cr_assert(kolo_sha256("abc", 3, hash) == KOLO_ERR_SYSTEM);
    cr_assert(strstr(kolo_error_detail(), "process is ending") != NULL, "%s", kolo_error_detail());
    cr_assert(kolo_hmac_sha256("Jefe", 4, "abc", 3, hash) == KOLO_ERR_SYSTEM);
}

Test(crypto, an_error_after_libcrypto_has_cleared_itself_up)
{
    uint8_t hash[KOLO_SHA256_BYTES];
    cr_assert(kolo_sha256("abc", 3, hash) == KOLO_OK);
    OPENSSL_cleanup();
    expect_refusals();
}

Test(crypto, an_error_if_the_first_use_is_too_late)
{
    uint8_t hash[KOLO_SHA256_BYTES]; /* by a hash: OPENSSL_init_crypto(0, NULL) prepares nothing */
    cr_assert(EVP_Digest("abc", 3, hash, NULL, EVP_sha256(), NULL) == 1);
    OPENSSL_cleanup();
    expect_refusals();
}

static bool has_no_memory, is_ours;
static int left = -1; /* allocations until one fails; negative: none does */

static bool is_refused(void)
{
    return has_no_memory || (left >= 0 && left-- == 0);
}

static void *allocate(size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    if (!is_refused())
        return malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

static void *allocate_again(void *memory, size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    if (!is_refused())
        return realloc(memory, bytes);
    errno = ENOMEM;
    return NULL;
}

static void let_go(void *memory, const char *file, int line)
{
    (void)file;
    (void)line;
    free(memory);
}

static const char fresh[] = "TEST_CRYPTO_FRESH";

enum use { WELL, LACKING, OTHERWISE, OVER /* libcrypto has made fewer allocations */, DIED };

/** Uses libcrypto for the first time in a child, in which allocation @p failing fails. */
static enum use use_without(int failing)
{
    uint8_t proof[KOLO_SHA256_BYTES];
    int ended;
    const pid_t child = fork();
    if (child == 0) {
        left = failing;
        const kolo_status status = kolo_hmac_sha256("Jefe", 4, "abc", 3, proof);
        const bool is_lacking = status == KOLO_ERR_NO_MEMORY;
        _exit(left >= 0 ? OVER : is_lacking ? LACKING : status == KOLO_OK ? WELL : OTHERWISE);
    }
    const bool has_ended = child > 0 && waitpid(child, &ended, 0) == child && WIFEXITED(ended);
    return has_ended ? (enum use)WEXITSTATUS(ended) : DIED;
}

/** Before Criterion uses libcrypto, after which it is too late. */
__attribute__((constructor)) static void allocate_for_libcrypto(void)
{
    enum use how = WELL;
    is_ours = CRYPTO_set_mem_functions(allocate, allocate_again, let_go) == 1;
    if (!getenv(fresh))
        return;
    for (int failing = 0; how == WELL || how == LACKING; failing += failing < 100 ? 1 : 20) {
        how = use_without(failing);
        if (how == OTHERWISE || how == DIED)
            fprintf(stderr, "allocation %d: %s\n", failing, how == DIED ? "died" : "no memory?");
    }
    _exit(is_ours && how == OVER ? 0 : 1);
}

Test(crypto, a_lack_of_memory_is_told_as_one)
{
    uint8_t hash[KOLO_SHA256_BYTES];
    if (!is_ours)
        cr_skip_test("something has used libcrypto before");
    cr_assert(kolo_sha256("abc", 3, hash) == KOLO_OK);
    cr_assert(kolo_hmac_sha256("Jefe", 4, "abc", 3, hash) == KOLO_OK);
    has_no_memory = true;
    cr_assert(kolo_hmac_sha256("Jefe", 4, "abc", 3, hash) == KOLO_ERR_NO_MEMORY);
    cr_assert_str_eq(kolo_error_detail(), "libcrypto has no memory for HMAC-SHA256");
    cr_assert(kolo_sha256("abc", 3, hash) == KOLO_ERR_NO_MEMORY);
    has_no_memory = false;
    cr_assert(kolo_sha256("abc", 3, hash) == KOLO_OK);
}

Test(crypto, a_lack_of_memory_at_the_first_use)
{
    uint8_t hash[KOLO_SHA256_BYTES];
    if (!is_ours)
        cr_skip_test("something has used libcrypto before");
    cr_assert(OPENSSL_init_crypto(0, NULL) == 1);
    has_no_memory = true;
    cr_assert(kolo_sha256("abc", 3, hash) == KOLO_ERR_NO_MEMORY);
    cr_assert(strstr(kolo_error_detail(), "no memory") != NULL, "%s", kolo_error_detail());
}

/** Each of the first allocations of libcrypto's first use fails in turn, and some of the others, in
 * a process that has not used it. */
Test(crypto, a_lack_of_memory_in_the_middle_of_the_first_use, .timeout = 120)
{
    int ended;
    if (!is_ours)
        cr_skip_test("something has used libcrypto before");
    const pid_t child = fork();
    if (child == 0) {
        (void)setenv(fresh, "1", 1);
        (void)execl("/proc/self/exe", "test-base-crypto", (char *)NULL);
        _exit(127);
    }
    cr_assert(child > 0 && waitpid(child, &ended, 0) == child);
    cr_assert(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}
