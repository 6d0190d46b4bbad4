// SPDX-License-Identifier: Apache-2.0
// Oracle: qsort by score and original position.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "metrics/coco.h"

enum { MOST = 3000 };
static struct kolo_coco_record records[MOST];

static uint32_t stood[MOST]; /* the original position of each record */

static int by_key(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (records[x].score != records[y].score)
        return records[x].score > records[y].score ? -1 : 1;
    return (stood[x] > stood[y]) - (stood[x] < stood[y]);
}

static void sorts(size_t count, int scores, bool in_place)
{
    static uint32_t order[MOST], expected[MOST];
    for (size_t i = 0; i < count; i++) {
        records[i].score = (rand() % scores - scores / 2) * 0.37;
        if (records[i].score == 0 && i % 2)
            records[i].score = -0.0;
        order[i] = expected[i] = (uint32_t)(in_place ? i : count - 1 - i);
        stood[order[i]] = (uint32_t)i;
    }
    qsort(expected, count, sizeof *expected, by_key);
    cr_assert_eq(kolo_coco_sort(records, order, count), KOLO_OK);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(order[i], expected[i], "%zu of %zu", i, count);
}

Test(coco_sort, keys_of_scores_fall)
{
    const double scores[] = {-INFINITY,           -1.5, -1e-300, 0, 1e-300, 0.5,
                             0.50000000000000011, 1,    1e300};
    for (size_t i = 1; i < sizeof scores / sizeof *scores; i++)
        cr_assert_gt(kolo_coco_score_key(scores[i - 1]), kolo_coco_score_key(scores[i]));
    cr_assert_eq(kolo_coco_score_key(-0.0), kolo_coco_score_key(0.0));
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
