// SPDX-License-Identifier: Apache-2.0
// Oracle: qsort of all records by score, image and position.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "metrics/coco.h"

enum { SOURCES_MAX = 9, EACH_MAX = 300, MOST = SOURCES_MAX * EACH_MAX };

/* The records of a source, which are of its own images, and their order. */
struct list {
    struct kolo_coco_record record[EACH_MAX];
    uint32_t order[EACH_MAX], place_of[EACH_MAX];
    size_t count;
};
static struct list lists[SOURCES_MAX];

static int by_all(const void *a, const void *b)
{
    const struct kolo_coco_record *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* Three detections per image, whose places go to the sources in turn. */
static void make(struct list *list, size_t number, size_t sources, size_t count, int scores)
{
    list->count = count;
    for (size_t i = 0; i < count; i++)
        list->record[i] = (struct kolo_coco_record){.score = rand() % scores / 8.0,
                                                    .place = (uint32_t)(i / 3 * sources + number),
                                                    .position = (uint16_t)(i % 3)};
}

/* As the owning rank has them: numbers in order, with the places in a separate array. */
static struct kolo_coco_source with_order(struct list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        list->order[i] = i;
        list->place_of[i] = list->record[i].place;
        list->record[i].place = UINT32_MAX; /* for example, the category */
    }
    cr_assert_eq(kolo_coco_sort(list->record, list->order, list->count), KOLO_OK);
    return (struct kolo_coco_source){.record = list->record,
                                     .order = list->order,
                                     .place_of = list->place_of,
                                     .count = list->count};
}

static struct kolo_coco_source as_it_stands(struct list *list)
{
    qsort(list->record, list->count, sizeof *list->record, by_all);
    return (struct kolo_coco_source){.record = list->record, .count = list->count};
}

static void check_run(struct kolo_coco_run *run, const struct kolo_coco_record *expected,
                      size_t count)
{
    const struct kolo_coco_record *taken[KOLO_COCO_TAKEN_MAX];
    size_t at = 0, here;
    cr_assert_eq(run->count, count);
    kolo_coco_run_rewind(run);
    while ((here = kolo_coco_run_take(run, taken)) > 0)
        for (size_t i = 0; i < here; i++, at++) {
            cr_assert_lt(at, count);
            cr_assert_eq(taken[i]->score, expected[at].score, "%zu of %zu", at, count);
            cr_assert_eq(taken[i]->position, expected[at].position, "%zu of %zu", at, count);
            if (taken[i]->place != UINT32_MAX)
                cr_assert_eq(taken[i]->place, expected[at].place, "%zu of %zu", at, count);
        }
    cr_assert_eq(at, count);
    cr_assert_eq(kolo_coco_run_take(run, taken), 0);
}

/* @param own the source with an order array; the other sources have the order in their places */
static void merges(struct kolo_coco_run *run, size_t sources, size_t own, size_t most, int scores)
{
    static struct kolo_coco_record expected[MOST];
    size_t count = 0;
    for (size_t s = 0; s < sources; s++) {
        make(&lists[s], s, sources, most ? (size_t)rand() % most : 0, scores);
        for (size_t i = 0; i < lists[s].count; i++)
            expected[count++] = lists[s].record[i];
    }
    qsort(expected, count, sizeof *expected, by_all);
    kolo_coco_run_clear(run);
    for (size_t s = 0; s < sources; s++) {
        struct kolo_coco_source source = s == own ? with_order(&lists[s]) : as_it_stands(&lists[s]);
        kolo_coco_run_add(run, &source);
    }
    check_run(run, expected, count);
    check_run(run, expected, count); /* reads it again */
}

Test(coco_run, reads_what_qsort_gives)
{
    struct kolo_coco_run run = {.source = NULL};
    cr_assert_eq(kolo_coco_run_make(&run, SOURCES_MAX), KOLO_OK);
    for (size_t sources = 1; sources <= SOURCES_MAX; sources++)
        for (size_t own = 0; own < sources; own++) {
            merges(&run, sources, own, EACH_MAX, 1 << 30);
            merges(&run, sources, own, EACH_MAX, 4);
            merges(&run, sources, own, EACH_MAX, 1);
            merges(&run, sources, own, 3, 2); /* some sources are empty */
        }
    kolo_coco_run_free(&run);
}

Test(coco_run, of_nothing_is_over_at_once)
{
    struct kolo_coco_run run = {.source = NULL};
    cr_assert_eq(kolo_coco_run_make(&run, 2), KOLO_OK);
    merges(&run, 0, 0, 0, 1);
    merges(&run, 2, 0, 0, 1);
    kolo_coco_run_free(&run);
    kolo_coco_run_free(&run); /* freeing it again does nothing */
}
