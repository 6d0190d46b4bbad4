// SPDX-License-Identifier: Apache-2.0
// A stable merge sort, made for a type and an order: the compiler sees the comparison, which a call
// through a pointer, as in qsort(), hides from it. Must never allocate: the caller has the room.
#ifndef KOLO_BASE_MERGE_SORT_H
#define KOLO_BASE_MERGE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { KOLO_MERGE_SORT_RUN = 16 }; /* so many are sorted by insertion, then merged */

/** Defines static void @p name(type *items, type *spare, size_t count): sorts the items, and uses
 *  as many places of @p spare. comes_before(const type *a, const type *b) tells whether a must be
 *  before b; neither before the other: they keep their order. */
#define KOLO_DEFINE_MERGE_SORT(name, type, comes_before)                                           \
    static void name##_run(type *items, size_t count)                                              \
    {                                                                                              \
        for (size_t i = 1; i < count; i++) {                                                       \
            type item = items[i];                                                                  \
            size_t at = i;                                                                         \
            for (; at > 0 && comes_before(&item, &items[at - 1]); at--)                            \
                items[at] = items[at - 1];                                                         \
            items[at] = item;                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void name##_merge(const type *from, type *to, size_t middle, size_t count)              \
    {                                                                                              \
        size_t left = 0, right = middle;                                                           \
        for (size_t i = 0; i < count; i++) {                                                       \
            bool takes_right =                                                                     \
                left == middle || (right < count && comes_before(&from[right], &from[left]));      \
            to[i] = from[takes_right ? right++ : left++];                                          \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void name(type *items, type *spare, size_t count)                                       \
    {                                                                                              \
        type *from = items, *to = spare;                                                           \
        for (size_t i = 0; i < count; i += KOLO_MERGE_SORT_RUN)                                    \
            name##_run(items + i,                                                                  \
                       count - i < KOLO_MERGE_SORT_RUN ? count - i : KOLO_MERGE_SORT_RUN);         \
        for (size_t run = KOLO_MERGE_SORT_RUN; run < count; run *= 2) {                            \
            for (size_t i = 0; i < count; i += 2 * run) {                                          \
                size_t length = count - i < 2 * run ? count - i : 2 * run;                         \
                name##_merge(from + i, to + i, run < length ? run : length, length);               \
            }                                                                                      \
            type *other = from;                                                                    \
            from = to;                                                                             \
            to = other;                                                                            \
        }                                                                                          \
        if (from != items)                                                                         \
            memcpy(items, from, count * sizeof *items);                                            \
    }

#endif
