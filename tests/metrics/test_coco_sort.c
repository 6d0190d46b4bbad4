// SPDX-License-Identifier: Apache-2.0
// Oracle: qsort by the whole key.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "metrics/coco.h"

enum { MOST = 3000 };
static struct kolo_coco_record records[MOST];

static int by_key(const void *a, const void *b)
{
    const struct kolo_coco_record *x = &records[*(const uint32_t *)a];
    const struct kolo_coco_record *y = &records[*(const uint32_t *)b];
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

static void sorts(size_t count, int scores, bool in_place)
{
    static uint32_t order[MOST], expected[MOST];
    for (size_t i = 0; i < count; i++) {
        records[i] =
            (struct kolo_coco_record){.score = (rand() % scores - scores / 2) * 0.37,
                                      .place = (uint32_t)(in_place ? i / 5 : (i * 7919 % count)),
                                      .position = (uint16_t)(i % 5)};
        if (records[i].score == 0 && i % 2)
            records[i].score = -0.0;
        order[i] = expected[i] = (uint32_t)i;
    }
    qsort(expected, count, sizeof *expected, by_key);
    cr_assert_eq(kolo_coco_sort(records, order, count), KOLO_OK);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(order[i], expected[i], "%zu of %zu", i, count);
}

Test(coco_sort, as_qsort_does)
{
    for (size_t count = 0; count < 200; count += 7) {
        sorts(count, 5, true);
        sorts(count, 1000000, false);
    }
    sorts(MOST, 3, true);
    sorts(MOST, 3, false);
    sorts(MOST, 1, false);
    sorts(MOST, 1 << 30, false);
}
