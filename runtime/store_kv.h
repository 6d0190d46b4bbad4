// SPDX-License-Identifier: Apache-2.0
// The key-value table of the store's server, and the questions that wait until a key is set.
// Private to the server.
#ifndef KOLO_RUNTIME_STORE_KV_H
#define KOLO_RUNTIME_STORE_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct kolo_kv;
/** One that may wait for keys. Embedded in a connection; initially zero. */
struct kolo_kv_owner {
    struct kolo_kv_wait *waits;
};

/** @p answer is called from set and add, when the key that question @p id of @p owner waits for has
 * been set. */
kolo_status kolo_kv_create(size_t bytes_max,
                           void (*answer)(void *context, struct kolo_kv_owner *owner, uint32_t id,
                                          const void *value, size_t bytes),
                           void *context, struct kolo_kv **kv_out) KOLO_NODISCARD;
void kolo_kv_destroy(struct kolo_kv *kv);
/** ERR_NO_MEMORY if the table would exceed its limit; the old value then stays. */
kolo_status kolo_kv_table_set(struct kolo_kv *kv, const char *key, const void *value,
                              size_t bytes) KOLO_NODISCARD;
/** Finds a value. It belongs to the table and is valid until the next change. ERR_NOT_FOUND. */
kolo_status kolo_kv_table_get(struct kolo_kv *kv, const char *key, const void **value_out,
                              size_t *bytes_out) KOLO_NODISCARD;
/** Adds to the 8-byte little-endian integer (0 if the key is new; wraps around). ERR_INVALID: the
 * value has another length. */
kolo_status kolo_kv_table_add(struct kolo_kv *kv, const char *key, int64_t amount,
                              int64_t *sum_out) KOLO_NODISCARD;
/** Answers question @p id as soon as the key is set. The key must not exist yet. */
kolo_status kolo_kv_wait(struct kolo_kv *kv, const char *key, struct kolo_kv_owner *owner,
                         uint32_t id) KOLO_NODISCARD;
void kolo_kv_cancel(struct kolo_kv *kv, struct kolo_kv_owner *owner, uint32_t id);
void kolo_kv_forget(struct kolo_kv *kv, struct kolo_kv_owner *owner);
/** The bytes that count against the limit now. */
size_t kolo_kv_bytes(const struct kolo_kv *kv);

#endif
