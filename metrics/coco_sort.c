// SPDX-License-Identifier: Apache-2.0
// The records of a category, best score first: of equal scores by the image's place, then by the
// position in the image. The key is unique, so the order depends on nothing else. A stable radix
// sort, byte by byte, over bytes that differ; those of one rank come in the order of places, and
// then the scores alone are sorted.
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"

enum { DIGITS = 8, VALUES = 256, FEW = 48 };

/* Greater scores have smaller keys; -0 and 0 have the same. */
static uint64_t score_key(const struct kolo_coco_record *record)
{
    double score = record->score == 0 ? 0 : record->score;
    uint64_t bits;
    memcpy(&bits, &score, sizeof bits);
    uint64_t ascending = bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
    return ~ascending;
}

static uint64_t place_key(const struct kolo_coco_record *record)
{
    return (uint64_t)record->place << 16 | record->position;
}

static bool comes_before(const struct kolo_coco_record *a, const struct kolo_coco_record *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return place_key(a) < place_key(b);
}

static void sort_few(const struct kolo_coco_record *records, uint32_t *order, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t number = order[i];
        size_t at = i;
        for (; at > 0 && comes_before(&records[number], &records[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = number;
    }
}

struct lists {
    uint64_t *key, *other_key;
    uint32_t *order, *other_order;
};

/* Stable, by one byte of the key. */
static void deal(struct lists *lists, size_t count, int digit, const uint32_t *values)
{
    uint32_t starts[VALUES], sum = 0;
    for (int value = 0; value < VALUES; value++) {
        starts[value] = sum;
        sum += values[value];
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t at = starts[lists->key[i] >> 8 * digit & 0xff]++;
        lists->other_key[at] = lists->key[i];
        lists->other_order[at] = lists->order[i];
    }
    *lists = (struct lists){lists->other_key, lists->key, lists->other_order, lists->order};
}

static void sort_by_key(struct lists *lists, size_t count)
{
    uint32_t values[DIGITS][VALUES] = {{0}};
    for (size_t i = 0; i < count; i++)
        for (int digit = 0; digit < DIGITS; digit++)
            values[digit][lists->key[i] >> 8 * digit & 0xff]++;
    for (int digit = 0; digit < DIGITS; digit++)
        if (values[digit][lists->key[0] >> 8 * digit & 0xff] != count)
            deal(lists, count, digit, values[digit]);
}

static bool is_in_place(const struct kolo_coco_record *records, const uint32_t *order, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (place_key(&records[order[i - 1]]) > place_key(&records[order[i]]))
            return false;
    return true;
}

kolo_status kolo_coco_sort(const struct kolo_coco_record *records, uint32_t *order, size_t count)
{
    if (count <= FEW) {
        sort_few(records, order, count);
        return KOLO_OK;
    }
    uint64_t *keys = kolo_calloc(2 * count, sizeof *keys);
    uint32_t *spare = kolo_calloc(count, sizeof *spare);
    struct lists lists = {keys, keys ? keys + count : NULL, order, spare};
    if (keys && spare) {
        if (!is_in_place(records, order, count)) {
            for (size_t i = 0; i < count; i++)
                lists.key[i] = place_key(&records[order[i]]);
            sort_by_key(&lists, count);
        }
        for (size_t i = 0; i < count; i++)
            lists.key[i] = score_key(&records[lists.order[i]]);
        sort_by_key(&lists, count);
        if (lists.order != order)
            memcpy(order, lists.order, count * sizeof *order);
    }
    kolo_status status = keys && spare ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    kolo_free_memory(keys);
    kolo_free_memory(spare);
    return status;
}
