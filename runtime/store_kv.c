// SPDX-License-Identifier: Apache-2.0
// Owns a hash map from text to bytes with a limit in total: keys, values and waiting questions all
// count. A key that is only waited for has an entry without a value, which is removed with its last
// question. Must never know what a connection is.
#include "runtime/store_kv.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/wire.h"

enum { BUCKETS_FIRST = 64, INTEGER_BYTES = 8 };

struct kolo_kv_wait {
    struct entry *entry;
    struct kolo_kv_owner *owner;
    uint32_t id;
    struct kolo_kv_wait *next_here; /* of the same entry */
    struct kolo_kv_wait *next_mine; /* of the same owner */
};

struct entry {
    struct entry *next;
    uint64_t hash;
    uint8_t *value; /* NULL: only waited for */
    size_t bytes;
    struct kolo_kv_wait *waits;
    char key[];
};

struct kolo_kv {
    struct entry **buckets;
    size_t bucket_count, entry_count;
    size_t bytes, bytes_max;
    void (*answer)(void *context, struct kolo_kv_owner *owner, uint32_t id, const void *value,
                   size_t bytes);
    void *context;
};

kolo_status kolo_kv_create(size_t bytes_max,
                           void (*answer)(void *context, struct kolo_kv_owner *owner, uint32_t id,
                                          const void *value, size_t bytes),
                           void *context, struct kolo_kv **kv_out)
{
    struct kolo_kv *kv = kolo_calloc(1, sizeof *kv);
    if (!kv)
        return KOLO_ERR_NO_MEMORY;
    kv->buckets = kolo_calloc(BUCKETS_FIRST, sizeof(struct entry *));
    if (!kv->buckets) {
        kolo_free_memory(kv);
        return KOLO_ERR_NO_MEMORY;
    }
    kv->bucket_count = BUCKETS_FIRST;
    kv->bytes_max = bytes_max;
    kv->answer = answer;
    kv->context = context;
    *kv_out = kv;
    return KOLO_OK;
}

static void free_entry(struct entry *entry)
{
    while (entry->waits) {
        struct kolo_kv_wait *wait = entry->waits;
        entry->waits = wait->next_here;
        kolo_free_memory(wait);
    }
    kolo_free_memory(entry->value);
    kolo_free_memory(entry);
}

void kolo_kv_destroy(struct kolo_kv *kv)
{
    if (!kv)
        return;
    for (size_t i = 0; i < kv->bucket_count; i++)
        while (kv->buckets[i]) {
            struct entry *entry = kv->buckets[i];
            kv->buckets[i] = entry->next;
            free_entry(entry);
        }
    kolo_free_memory((void *)kv->buckets);
    kolo_free_memory(kv);
}

size_t kolo_kv_bytes(const struct kolo_kv *kv)
{
    return kv->bytes;
}

/** The pointer to the entry of @p key, or the NULL at the end of its bucket. */
static struct entry **find(struct kolo_kv *kv, const char *key, uint64_t hash)
{
    struct entry **link = &kv->buckets[hash & (kv->bucket_count - 1)];
    while (*link && ((*link)->hash != hash || strcmp((*link)->key, key) != 0))
        link = &(*link)->next;
    return link;
}

/** Doubles the buckets if there are more entries than buckets. Without memory the table only gets
 * slower. */
static void spread(struct kolo_kv *kv)
{
    if (kv->entry_count <= kv->bucket_count)
        return;
    size_t count = kv->bucket_count * 2;
    struct entry **buckets = kolo_calloc(count, sizeof(struct entry *));
    if (!buckets)
        return;
    for (size_t i = 0; i < kv->bucket_count; i++)
        while (kv->buckets[i]) {
            struct entry *entry = kv->buckets[i];
            kv->buckets[i] = entry->next;
            entry->next = buckets[entry->hash & (count - 1)];
            buckets[entry->hash & (count - 1)] = entry;
        }
    kolo_free_memory((void *)kv->buckets);
    kv->buckets = buckets;
    kv->bucket_count = count;
}

static kolo_status check_room(const struct kolo_kv *kv, size_t more)
{
    if (more > kv->bytes_max - kv->bytes)
        return kolo_fail(KOLO_ERR_NO_MEMORY,
                         "the job's key-value store is full: %zu of %zu bytes, %zu more asked for",
                         kv->bytes, kv->bytes_max, more);
    return KOLO_OK;
}

static size_t entry_cost(const char *key)
{
    return sizeof(struct entry) + strlen(key) + 1;
}

/** Finds the entry of @p key, or makes it. The caller will add @p more bytes to it. */
static kolo_status reach(struct kolo_kv *kv, const char *key, size_t more, struct entry **entry_out)
{
    uint64_t hash = kolo_hash_text(KOLO_HASH_START, key);
    struct entry *entry = *find(kv, key, hash);
    kolo_status status = check_room(kv, more + (entry ? 0 : entry_cost(key)));
    if (status != KOLO_OK)
        return status;
    if (!entry) {
        size_t key_bytes = strlen(key) + 1;
        entry = kolo_calloc(1, sizeof *entry + key_bytes);
        if (!entry)
            return KOLO_ERR_NO_MEMORY;
        memcpy(entry->key, key, key_bytes);
        entry->hash = hash;
        kv->entry_count++;
        kv->bytes += entry_cost(key);
        spread(kv);
        struct entry **link = &kv->buckets[hash & (kv->bucket_count - 1)];
        entry->next = *link;
        *link = entry;
    }
    *entry_out = entry;
    return KOLO_OK;
}

/** Removes an entry that has neither a value nor a question. */
static void prune(struct kolo_kv *kv, struct entry *entry)
{
    if (entry->value || entry->waits)
        return;
    *find(kv, entry->key, entry->hash) = entry->next;
    kv->entry_count--;
    kv->bytes -= entry_cost(entry->key);
    free_entry(entry);
}

/** Takes @p wait off both of its lists and frees it; its entry stays. */
static void end_wait(struct kolo_kv *kv, struct kolo_kv_wait *wait)
{
    struct kolo_kv_wait **here = &wait->entry->waits, **mine = &wait->owner->waits;
    while (*here != wait)
        here = &(*here)->next_here;
    *here = wait->next_here;
    while (*mine != wait)
        mine = &(*mine)->next_mine;
    *mine = wait->next_mine;
    kv->bytes -= sizeof *wait;
    kolo_free_memory(wait);
}

static void answer_all(struct kolo_kv *kv, struct entry *entry)
{
    while (entry->waits) {
        struct kolo_kv_owner *owner = entry->waits->owner;
        uint32_t id = entry->waits->id;
        end_wait(kv, entry->waits);
        kv->answer(kv->context, owner, id, entry->value, entry->bytes);
    }
}

kolo_status kolo_kv_table_set(struct kolo_kv *kv, const char *key, const void *value, size_t bytes)
{
    struct entry *entry = NULL;
    const void *old;
    size_t old_bytes = 0;
    if (kolo_kv_table_get(kv, key, &old, &old_bytes) != KOLO_OK)
        old_bytes = 0;
    kolo_status status = reach(kv, key, bytes > old_bytes ? bytes - old_bytes : 0, &entry);
    if (status != KOLO_OK)
        return status;
    uint8_t *copy = kolo_calloc(bytes ? bytes : 1, 1);
    if (!copy) {
        prune(kv, entry);
        return KOLO_ERR_NO_MEMORY;
    }
    if (bytes)
        memcpy(copy, value, bytes);
    kolo_free_memory(entry->value);
    entry->value = copy;
    entry->bytes = bytes;
    kv->bytes = kv->bytes - old_bytes + bytes;
    answer_all(kv, entry);
    return KOLO_OK;
}

kolo_status kolo_kv_table_get(struct kolo_kv *kv, const char *key, const void **value_out,
                              size_t *bytes_out)
{
    struct entry *entry = *find(kv, key, kolo_hash_text(KOLO_HASH_START, key));
    if (!entry || !entry->value)
        return KOLO_ERR_NOT_FOUND;
    *value_out = entry->value;
    *bytes_out = entry->bytes;
    return KOLO_OK;
}

kolo_status kolo_kv_table_add(struct kolo_kv *kv, const char *key, int64_t amount, int64_t *sum_out)
{
    const void *old = NULL;
    size_t bytes = 0;
    uint64_t sum = (uint64_t)amount;
    if (kolo_kv_table_get(kv, key, &old, &bytes) == KOLO_OK) {
        if (bytes != INTEGER_BYTES)
            return kolo_fail(KOLO_ERR_INVALID,
                             "key \"%s\" holds %zu bytes, an integer to add to has %d", key, bytes,
                             INTEGER_BYTES);
        struct kolo_reader reader = kolo_reader_over(old, bytes);
        sum += kolo_read_u64(&reader);
    }
    uint8_t value[INTEGER_BYTES];
    struct kolo_writer writer = kolo_writer_over(value, sizeof value);
    kolo_write_u64(&writer, sum);
    kolo_status status = kolo_kv_table_set(kv, key, value, sizeof value);
    if (status == KOLO_OK)
        *sum_out = (int64_t)sum;
    return status;
}

kolo_status kolo_kv_wait(struct kolo_kv *kv, const char *key, struct kolo_kv_owner *owner,
                         uint32_t id)
{
    struct entry *entry = NULL;
    kolo_status status = reach(kv, key, sizeof(struct kolo_kv_wait), &entry);
    if (status != KOLO_OK)
        return status;
    struct kolo_kv_wait *wait = kolo_calloc(1, sizeof *wait);
    if (!wait) {
        prune(kv, entry);
        return KOLO_ERR_NO_MEMORY;
    }
    *wait = (struct kolo_kv_wait){entry, owner, id, entry->waits, owner->waits};
    entry->waits = owner->waits = wait;
    kv->bytes += sizeof *wait;
    return KOLO_OK;
}

void kolo_kv_cancel(struct kolo_kv *kv, struct kolo_kv_owner *owner, uint32_t id)
{
    struct kolo_kv_wait *wait = owner->waits;
    while (wait && wait->id != id)
        wait = wait->next_mine;
    if (!wait)
        return;
    struct entry *entry = wait->entry;
    end_wait(kv, wait);
    prune(kv, entry);
}

void kolo_kv_forget(struct kolo_kv *kv, struct kolo_kv_owner *owner)
{
    while (owner->waits) {
        struct entry *entry = owner->waits->entry;
        end_wait(kv, owner->waits);
        prune(kv, entry);
    }
}
