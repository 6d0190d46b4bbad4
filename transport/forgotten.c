// SPDX-License-Identifier: Apache-2.0
// Owns the list of the channels that an endpoint has forgotten. Must never lose a number: what
// arrives late on a forgotten channel would be taken for the beginning of a new one.
//
// Communicators' numbers grow, so a new range usually comes last, but communicators may be
// finalized in any order. Ranges that touch become one.
#include "transport/forgotten.h"

#include <string.h>

#include "base/alloc.h"

enum { RANGES_FIRST = 8 };

/** The index of the first range that ends at @p number or after it. */
static size_t find(const struct kolo_forgotten *forgotten, uint32_t number)
{
    size_t low = 0, high = forgotten->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (forgotten->ranges[middle].last < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool kolo_forgotten_has(const struct kolo_forgotten *forgotten, uint32_t number)
{
    const size_t at = find(forgotten, number);
    return at < forgotten->count && forgotten->ranges[at].first <= number;
}

static kolo_status make_room(struct kolo_forgotten *forgotten)
{
    if (forgotten->count < forgotten->capacity)
        return KOLO_OK;
    const size_t capacity = forgotten->capacity == 0 ? RANGES_FIRST : 2 * forgotten->capacity;
    struct kolo_forgotten_range *ranges = kolo_calloc(capacity, sizeof *ranges);
    if (!ranges)
        return KOLO_ERR_NO_MEMORY;
    if (forgotten->count > 0)
        memcpy(ranges, forgotten->ranges, forgotten->count * sizeof *ranges);
    kolo_free_memory(forgotten->ranges);
    forgotten->ranges = ranges;
    forgotten->capacity = capacity;
    return KOLO_OK;
}

static void remove_range(struct kolo_forgotten *forgotten, size_t at)
{
    struct kolo_forgotten_range *range = &forgotten->ranges[at];
    forgotten->count--;
    memmove(range, range + 1, (forgotten->count - at) * sizeof *range);
}

kolo_status kolo_forgotten_add(struct kolo_forgotten *forgotten, uint32_t first, uint32_t count)
{
    const uint32_t last = first + (count - 1);
    const size_t at = find(forgotten, first);
    if (count == 0)
        return KOLO_OK;
    kolo_status status = make_room(forgotten);
    if (status != KOLO_OK)
        return status;
    struct kolo_forgotten_range *range = &forgotten->ranges[at];
    const bool joins_next = at < forgotten->count && range->first == last + 1;
    const bool joins_previous = at > 0 && range[-1].last + 1 == first;
    if (joins_next)
        range->first = first;
    if (joins_previous)
        range[-1].last = joins_next ? range->last : last;
    if (joins_next && joins_previous)
        remove_range(forgotten, at);
    if (joins_next || joins_previous)
        return KOLO_OK;
    memmove(range + 1, range, (forgotten->count - at) * sizeof *range);
    *range = (struct kolo_forgotten_range){first, last};
    forgotten->count++;
    return KOLO_OK;
}

void kolo_forgotten_fini(struct kolo_forgotten *forgotten)
{
    kolo_free_memory(forgotten->ranges);
    *forgotten = (struct kolo_forgotten){0};
}
