// SPDX-License-Identifier: Apache-2.0
// runtime/store_kv.c: the table of keys and values, with its bound and its waiting readers.
#include "runtime/store_kv.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

TestSuite(store_kv, .timeout = 120);

struct heard {
    int count;
    uint32_t id;
    struct kolo_kv_owner *owner;
    size_t bytes;
};

static void hear(void *context, struct kolo_kv_owner *owner, uint32_t id, const void *value,
                 size_t bytes)
{
    struct heard *heard = context;
    (void)value;
    *heard = (struct heard){heard->count + 1, id, owner, bytes};
}

Test(store_kv, thousands_of_keys_and_an_exact_account)
{
    struct kolo_kv *kv;
    struct heard heard = {0};
    enum { KEYS = 5000 };
    cr_assert(kolo_kv_create(1 << 24, hear, &heard, &kv) == KOLO_OK);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < KEYS; i++) {
            char key[32];
            snprintf(key, sizeof key, "key %d", i);
            cr_assert(kolo_kv_table_set(kv, key, key, strlen(key) + (size_t)round) == KOLO_OK);
        }
    size_t full = kolo_kv_bytes(kv);
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        const void *value;
        size_t bytes;
        snprintf(key, sizeof key, "key %d", i);
        cr_assert(kolo_kv_table_get(kv, key, &value, &bytes) == KOLO_OK);
        cr_assert(bytes == strlen(key) + 1 && memcmp(value, key, bytes) == 0);
    }
    struct kolo_kv_owner owner = {0};
    for (uint32_t i = 0; i < 10; i++)
        cr_assert(kolo_kv_wait(kv, i & 1 ? "odd" : "even", &owner, i) == KOLO_OK);
    cr_assert(kolo_kv_bytes(kv) > full);
    kolo_kv_cancel(kv, &owner, 3);
    kolo_kv_cancel(kv, &owner, 99);
    kolo_kv_forget(kv, &owner);
    cr_assert(kolo_kv_bytes(kv) == full && heard.count == 0, "%zu of %zu", kolo_kv_bytes(kv), full);
    kolo_kv_destroy(kv);
}

Test(store_kv, waits_are_answered_once_by_owner)
{
    struct kolo_kv *kv;
    struct heard heard = {0};
    struct kolo_kv_owner owners[2] = {0};
    int64_t sum;
    cr_assert(kolo_kv_create(1 << 20, hear, &heard, &kv) == KOLO_OK);
    cr_assert(kolo_kv_wait(kv, "a", &owners[0], 5) == KOLO_OK);
    cr_assert(kolo_kv_wait(kv, "a", &owners[1], 6) == KOLO_OK);
    kolo_kv_forget(kv, &owners[0]);
    cr_assert(kolo_kv_table_add(kv, "a", -4, &sum) == KOLO_OK && sum == -4);
    cr_assert(heard.count == 1 && heard.id == 6 && heard.owner == &owners[1] && heard.bytes == 8);
    cr_assert(kolo_kv_table_add(kv, "a", INT64_MIN, &sum) == KOLO_OK && sum == INT64_MAX - 3);
    cr_assert(heard.count == 1);
    kolo_kv_destroy(kv);
}

Test(store_kv, bound_holds_and_keeps_the_older_value)
{
    struct kolo_kv *kv;
    struct heard heard = {0};
    struct kolo_kv_owner owner = {0};
    static uint8_t value[4096];
    const void *got;
    size_t bytes;
    cr_assert(kolo_kv_create(4096, hear, &heard, &kv) == KOLO_OK);
    cr_assert(kolo_kv_table_set(kv, "a", value, 1000) == KOLO_OK);
    cr_assert(kolo_kv_table_set(kv, "a", value, 4096) == KOLO_ERR_NO_MEMORY);
    cr_assert(strstr(kolo_error_detail(), "store is full"), "%s", kolo_error_detail());
    cr_assert(kolo_kv_table_get(kv, "a", &got, &bytes) == KOLO_OK && bytes == 1000);
    cr_assert(kolo_kv_table_set(kv, "b", value, 3096) == KOLO_ERR_NO_MEMORY);
    int waits = 0;
    while (kolo_kv_wait(kv, "c", &owner, 1) == KOLO_OK)
        waits++;
    cr_assert(waits > 0 && waits < 100);
    kolo_kv_forget(kv, &owner);
    cr_assert(kolo_kv_table_set(kv, "a", value, 3000) == KOLO_OK);
    kolo_kv_destroy(kv);
}

Test(store_kv, every_allocation_may_fail)
{
    struct kolo_kv *kv;
    struct heard heard = {0};
    struct kolo_kv_owner owner = {0};
    for (uint64_t nth = 1; nth < 10; nth++) {
        int64_t sum;
        kolo_alloc_fail_nth(nth);
        if (kolo_kv_create(4096, hear, &heard, &kv) != KOLO_OK)
            continue;
        size_t empty = kolo_kv_bytes(kv);
        bool is_waiting = kolo_kv_wait(kv, "a", &owner, 1) == KOLO_OK;
        cr_assert(is_waiting || kolo_kv_bytes(kv) == empty);
        bool is_there = kolo_kv_table_set(kv, "b", "x", 1) == KOLO_OK;
        cr_assert(is_there || is_waiting || kolo_kv_bytes(kv) == empty);
        (void)!kolo_kv_table_add(kv, "a", 1, &sum);
        kolo_alloc_fail_nth(0);
        kolo_kv_forget(kv, &owner);
        kolo_kv_destroy(kv);
    }
}
