// SPDX-License-Identifier: Apache-2.0
// Saved states of metrics, valid ones and ones that were tampered with.
#ifndef KOLO_TESTS_METRIC_STATE_H
#define KOLO_TESTS_METRIC_STATE_H

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <string.h>

#include <kolo/metrics.h>

enum { HASH_BYTES = 32, ROOM = 8192 };

static inline size_t state_saved(struct kolo_metric *metric, uint8_t bytes[ROOM])
{
    size_t need, written;
    cr_assert_eq(kolo_metric_save(metric, NULL, 0, &need), KOLO_OK);
    cr_assert_leq(need, ROOM);
    cr_assert_eq(kolo_metric_save(metric, bytes, need - 1, &written), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_metric_save(metric, bytes, need, &written), KOLO_OK, "%s",
                 kolo_error_detail());
    cr_assert_eq(written, need);
    return written;
}

/* Writes the right checksum behind the body. */
static inline void state_sign(uint8_t *bytes, size_t body)
{
    EVP_Digest(bytes, body, bytes + body, NULL, EVP_sha256(), NULL);
}

struct state_verdicts {
    int accepted, refused;
};

/* Anybody can compute a right checksum, so states are not trusted. Changes every byte in several
 * ways; a state that is accepted must still compute. Adds to *verdicts. */
static inline void state_survives(struct kolo_metric *metric, void (*compute)(void *), void *arg,
                                  struct state_verdicts *verdicts)
{
    static const uint8_t ways[] = {0x01, 0x80, 0xff, 0x40};
    uint8_t bytes[ROOM], changed[ROOM];
    size_t size = state_saved(metric, bytes), body = size - HASH_BYTES;
    for (size_t i = 8; i < body; i++)
        for (int way = 0; way < 4; way++) {
            memcpy(changed, bytes, size);
            changed[i] ^= ways[way];
            size_t cut = way == 3 ? i : body;
            state_sign(changed, cut);
            kolo_status status = kolo_metric_restore(metric, changed, cut + HASH_BYTES);
            cr_assert(status == KOLO_OK || status == KOLO_ERR_DATA, "byte %zu: %s", i,
                      kolo_error_detail());
            cr_assert(status == KOLO_OK || strstr(kolo_error_detail(), "kolo_metric_restore"), "%s",
                      kolo_error_detail());
            verdicts->refused += status != KOLO_OK;
            if (status == KOLO_OK && verdicts->accepted++ % 16 == 0)
                compute(arg);
        }
}

#endif
