// SPDX-License-Identifier: Apache-2.0
// Finds and names the ranks of one host. Must never need more time than the logarithm of their
// number for one rank: each frame of an agent names one.
#include "launcher/ranks.h"

#include <stdio.h>
#include <string.h>

enum { NAMED_MAX = 8 };

bool kolo_ranks_find(const struct kolo_ranks *ranks, uint32_t rank, uint32_t *place_out)
{
    uint32_t low = 0, high = ranks->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (ranks->at[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == ranks->count || ranks->at[low] != rank)
        return false;
    *place_out = low;
    return true;
}

bool kolo_ranks_are_valid(const struct kolo_ranks *ranks, uint32_t size)
{
    for (uint32_t i = 1; i < ranks->count; i++)
        if (ranks->at[i] <= ranks->at[i - 1])
            return false;
    return ranks->count > 0 && ranks->at[ranks->count - 1] < size;
}

void kolo_ranks_text(const struct kolo_ranks *ranks, char *text, size_t capacity)
{
    const uint32_t count = ranks->count, last = ranks->at[count - 1];
    if (count == 1) {
        snprintf(text, capacity, "rank %u", last);
        return;
    }
    if (last - ranks->at[0] == count - 1) {
        snprintf(text, capacity, "ranks %u to %u", ranks->at[0], last);
        return;
    }
    const uint32_t named = count <= NAMED_MAX ? count - 1 : NAMED_MAX - 2;
    snprintf(text, capacity, "ranks %u", ranks->at[0]);
    for (uint32_t i = 1; i < named; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, capacity - used, ", %u", ranks->at[i]);
    }
    const size_t used = strlen(text);
    snprintf(text + used, capacity - used, count <= NAMED_MAX ? " and %u" : " ... %u", last);
}

void kolo_ranks_brief(const struct kolo_ranks *ranks, char *text, size_t capacity)
{
    enum { ROOM_FOR_SPAN = 24, ROOM_FOR_REST = 8 };
    size_t used = (size_t)snprintf(text, capacity, ranks->count == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < ranks->count; i++) {
        const uint32_t first = ranks->at[i];
        if (used + ROOM_FOR_SPAN + ROOM_FOR_REST > capacity) {
            snprintf(text + used, capacity - used, ", ...");
            return;
        }
        while (i + 1 < ranks->count && ranks->at[i + 1] == ranks->at[i] + 1)
            i++;
        const uint32_t last = ranks->at[i];
        const char *comma = first == ranks->at[0] ? "" : ",";
        used += (size_t)snprintf(text + used, capacity - used, last == first ? "%s %u" : "%s %u-%u",
                                 comma, first, last);
    }
}
