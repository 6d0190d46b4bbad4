// SPDX-License-Identifier: Apache-2.0
// memory/kept.c: never more than the bound, in spans and in bytes, of which the oldest go first;
// and nothing that a child of the process has.
#include <criterion/criterion.h>

#include "memory/kept.h"

enum { PAGE = 4096, STAMP = 3 };

static struct kolo_span span_of(uint64_t id, size_t bytes)
{
    return (struct kolo_span){.id = id, .bytes = bytes, .stamp = STAMP};
}

/** What the heap does: the oldest go until there is room. Returns how many. */
static int keep(struct kolo_kept *kept, struct kolo_span span, uint64_t *next)
{
    struct kolo_span oldest;
    int gone = 0;
    for (; !kolo_kept_put(kept, &span, &oldest); gone++) {
        cr_assert(oldest.id == *next, "span %d instead of %d", (int)oldest.id, (int)*next);
        ++*next;
    }
    return gone;
}

Test(kept, never_exceeds_its_bound)
{
    static const size_t lengths[] = {
        PAGE, KOLO_KEPT_LONGEST, 16 * PAGE, KOLO_KEPT_LONGEST / 2, PAGE, PAGE, 2 * PAGE};
    struct kolo_kept kept = {.count = 0};
    uint64_t next = 1, id = 1;
    for (; id < 1000; id++) {
        (void)keep(&kept, span_of(id, lengths[id * id % 11 % 7]), &next);
        size_t bytes = 0;
        for (size_t i = 0; i < kept.count; i++)
            bytes += kept.spans[i].bytes;
        cr_assert(kept.count <= 16 && bytes <= 2 << 20 && bytes == kept.bytes);
    }
    cr_assert(next > 900, "only %d were taken out", (int)next);
    struct kolo_span oldest;
    for (; kept.count > 0; next++)
        cr_assert(kolo_kept_take_oldest(&kept, &oldest) && oldest.id == next);
    cr_assert(next == id && kept.bytes == 0 && !kolo_kept_take_oldest(&kept, &oldest));
}

Test(kept, has_room_for_as_much_as_the_bound)
{
    struct kolo_kept kept = {.count = 0};
    uint64_t next = 1;
    for (uint64_t id = 1; id <= KOLO_KEPT_SPANS; id++)
        cr_assert(keep(&kept, span_of(id, PAGE), &next) == 0);
    cr_assert(keep(&kept, span_of(100, PAGE), &next) == 1);
    struct kolo_kept other = {.count = 0};
    next = 1;
    for (uint64_t id = 1; id <= 2; id++)
        cr_assert(keep(&other, span_of(id, KOLO_KEPT_LONGEST), &next) == 0);
    cr_assert(keep(&other, span_of(3, PAGE), &next) == 1);
}

/** A process may have many ranks. One that keeps something gets room for something else. */
Test(kept, has_a_bound_for_the_process)
{
    enum { HEAPS = 6, FULL = 64 / 16 };
    struct kolo_kept kept[HEAPS] = {{.count = 0}};
    struct kolo_span span, oldest;
    uint64_t next = 1;
    for (uint64_t id = 1; id <= FULL * KOLO_KEPT_SPANS; id++)
        cr_assert(keep(&kept[(id - 1) / KOLO_KEPT_SPANS], span_of(id, PAGE), &next) == 0);
    span = span_of(100, PAGE);
    cr_assert(!kolo_kept_put(&kept[FULL], &span, &oldest) && oldest.id == 100);
    cr_assert(kolo_kept_take(&kept[0], PAGE, STAMP, &oldest));
    cr_assert(kolo_kept_put(&kept[FULL], &span, &oldest) && kept[FULL].count == 1);
    span.id = 101;
    cr_assert(!kolo_kept_put(&kept[FULL], &span, &oldest) && oldest.id == 100);
    cr_assert(kolo_kept_put(&kept[FULL], &span, &oldest));
    cr_assert(!kolo_kept_put(&kept[FULL + 1], &span, &oldest) && oldest.id == 101);
}

Test(kept, gives_the_last_of_the_same_length)
{
    struct kolo_kept kept = {.count = 0};
    struct kolo_span span;
    uint64_t next = 1;
    for (uint64_t id = 1; id <= 6; id++)
        cr_assert(keep(&kept, span_of(id, (1 + id % 2) * PAGE), &next) == 0);
    cr_assert(!kolo_kept_take(&kept, 3 * PAGE, STAMP, &span));
    for (uint64_t id = 5; id >= 1 && id <= 5; id -= 2)
        cr_assert(kolo_kept_take(&kept, 2 * PAGE, STAMP, &span) && span.id == id);
    cr_assert(!kolo_kept_take(&kept, 2 * PAGE, STAMP, &span));
    cr_assert(kept.count == 3 && kept.bytes == 3 * PAGE);
    cr_assert(kolo_kept_take_oldest(&kept, &span) && span.id == 2);
    cr_assert(kolo_kept_take_oldest(&kept, &span) && span.id == 4);
}

Test(kept, gives_nothing_from_before_a_fork)
{
    struct kolo_kept kept = {.count = 0};
    struct kolo_span span, later = span_of(3, PAGE);
    uint64_t next = 1;
    for (uint64_t id = 1; id <= 2; id++)
        (void)keep(&kept, span_of(id, PAGE), &next);
    cr_assert(!kolo_kept_take(&kept, PAGE, STAMP + 1, &span));
    later.stamp = STAMP + 1;
    cr_assert(keep(&kept, later, &next) == 2 && kept.count == 1);
    cr_assert(kolo_kept_take(&kept, PAGE, STAMP + 1, &span) && span.id == 3);
}
