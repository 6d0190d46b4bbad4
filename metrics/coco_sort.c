// SPDX-License-Identifier: Apache-2.0
// Sorts the records of a category, best score first. Records of equal scores keep their order;
// callers pass them ordered by image and position, so that the result depends on nothing else. It
// is a stable radix sort, byte by byte, over the bytes in which keys differ. Owns its temporary
// lists.
#include <string.h>

#include "base/alloc.h"
#include "metrics/coco.h"

enum { DIGITS = 8, VALUES = 256, FEW = 48 };

uint64_t kolo_coco_score_key(double score)
{
    double value = score == 0 ? 0 : score;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t ascending = bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
    return ~ascending;
}

static void sort_few(const struct kolo_coco_record *records, uint32_t *order, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t number = order[i];
        size_t at = i;
        for (; at > 0 && records[number].score > records[order[at - 1]].score; at--)
            order[at] = order[at - 1];
        order[at] = number;
    }
}

struct lists {
    uint64_t *key, *other_key;
    uint32_t *order, *other_order;
};

/* One pass of the radix sort: a stable sort by one byte of the key. */
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
        for (size_t i = 0; i < count; i++)
            lists.key[i] = kolo_coco_score_key(records[order[i]].score);
        sort_by_key(&lists, count);
        if (lists.order != order)
            memcpy(order, lists.order, count * sizeof *order);
    }
    kolo_status status = keys && spare ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    kolo_free_memory(keys);
    kolo_free_memory(spare);
    return status;
}
