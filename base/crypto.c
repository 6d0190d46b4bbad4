// SPDX-License-Identifier: Apache-2.0
// Asks libcrypto for hashes. Owns the knowledge whether libcrypto may still be used. Must never use
// it after it has cleared itself up.
//
// If kolo is the first to use libcrypto, libcrypto is told not to clear itself up at exit: the
// kernel does that as well. If the program was the first, libcrypto says when it begins to, and
// waits until nobody hashes.
//
// Where memory runs out, libcrypto fails with whatever error it comes to next, or with none; but
// errno is that of the allocation.
#include "base/crypto.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdbool.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static bool is_cleared;        /* held: lock */
static bool has_lacked_memory; /* before it could be used; set once */

/** Called by libcrypto, before it clears itself up. */
static void clear_up(void)
{
    (void)pthread_rwlock_wrlock(&lock);
    is_cleared = true;
    (void)pthread_rwlock_unlock(&lock);
}

/** Makes what libcrypto would make at its first hash. If it lacks memory for that, it crashes there
 * (seen in 3.0); here it only fails, and then it must not be used. */
static bool has_context(void)
{
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
    return OSSL_LIB_CTX_get0_global_default() != NULL;
#else
    return true;
#endif
}

static void watch(void)
{
    errno = 0;
    /* Without memory they fail, and else only if libcrypto has been cleared up already. */
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) == 1 && OPENSSL_atexit(clear_up) == 1 &&
        has_context())
        return;
    has_lacked_memory = errno == ENOMEM;
    clear_up();
}

static kolo_status begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch);
    (void)pthread_rwlock_rdlock(&lock);
    errno = 0;
    if (!is_cleared)
        return KOLO_OK;
    (void)pthread_rwlock_unlock(&lock);
    if (has_lacked_memory)
        return kolo_fail(KOLO_ERR_NO_MEMORY,
                         "libcrypto cannot be used: there was no memory for it at its first use");
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "libcrypto cannot be used any more, because the process is ending: call "
                     "kolo_init before the program's first use of OpenSSL, or finalize earlier");
}

static kolo_status end(bool has_succeeded, const char *what)
{
    const bool lacks_memory = errno == ENOMEM;
    (void)pthread_rwlock_unlock(&lock);
    if (has_succeeded)
        return KOLO_OK;
    if (lacks_memory)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "libcrypto has no memory for %s", what);
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "libcrypto refuses %s: is its default provider not active? look at "
                     "OPENSSL_CONF and `openssl list -providers`",
                     what);
}

kolo_status kolo_sha256(const void *data, size_t bytes, uint8_t hash_out[KOLO_SHA256_BYTES])
{
    const kolo_status status = begin();
    if (status != KOLO_OK)
        return status;
    return end(EVP_Digest(data, bytes, hash_out, NULL, EVP_sha256(), NULL) == 1, "SHA-256");
}

kolo_status kolo_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                             uint8_t proof_out[KOLO_SHA256_BYTES])
{
    const kolo_status status = begin();
    if (status != KOLO_OK)
        return status;
    return end(HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, proof_out, NULL) != NULL,
               "HMAC-SHA256");
}
