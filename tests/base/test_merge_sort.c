// SPDX-License-Identifier: Apache-2.0
// The merge sort: in order, stable, nothing lost, no place touched that the caller did not give; at
// every length around the runs that are merged.
#include "base/merge_sort.h"

#include <criterion/criterion.h>
#include <stdint.h>

enum { LENGTH_MAX = 200, GUARD = 0x5A5A5A5A };

struct card {
    uint32_t value, number;
};

static inline bool has_higher_value(const struct card *a, const struct card *b)
{
    return a->value > b->value;
}

KOLO_DEFINE_MERGE_SORT(sort_cards, struct card, has_higher_value)

static uint32_t next_of(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static void check(size_t count, uint32_t values)
{
    struct card cards[LENGTH_MAX + 1], spare[LENGTH_MAX + 1];
    uint32_t state = (uint32_t)count + values, at[LENGTH_MAX] = {0};

    for (size_t i = 0; i < count; i++)
        cards[i] = (struct card){next_of(&state) % values, (uint32_t)i};
    memset(spare, 0, sizeof spare);
    cards[count].number = spare[count].number = GUARD;
    sort_cards(cards, spare, count);
    for (size_t i = 0; i < count; i++) {
        at[cards[i].number]++;
        cr_assert(
            i == 0 || cards[i - 1].value > cards[i].value ||
                (cards[i - 1].value == cards[i].value && cards[i - 1].number < cards[i].number),
            "%zu cards of %u values: place %zu", count, values, i);
    }
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(at[i], 1, "%zu cards of %u values: card %zu", count, values, i);
    cr_assert_eq(cards[count].number, GUARD);
    cr_assert_eq(spare[count].number, GUARD);
}

Test(merge_sort, is_stable_and_loses_nothing_at_any_length)
{
    for (size_t count = 0; count <= LENGTH_MAX; count++)
        for (uint32_t values = 1; values <= 1000; values *= 10)
            check(count, values);
}
