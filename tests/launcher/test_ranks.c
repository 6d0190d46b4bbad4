// SPDX-License-Identifier: Apache-2.0
// The ranks of a host: found, checked and named.
#include <string.h>

#include <criterion/criterion.h>

#include "launcher/ranks.h"

#define RANKS(...)                                                                                 \
    ((struct kolo_ranks){.at = (uint32_t[]){__VA_ARGS__},                                          \
                         .count = sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)})

static void is_text(struct kolo_ranks ranks, const char *expected)
{
    char text[128], tight[8];
    kolo_ranks_text(&ranks, text, sizeof text);
    cr_expect_str_eq(text, expected);
    kolo_ranks_text(&ranks, tight, sizeof tight);
    cr_expect(strlen(tight) < sizeof tight && strncmp(tight, expected, strlen(tight)) == 0);
}

Test(ranks, as_text)
{
    is_text(RANKS(3), "rank 3");
    is_text(RANKS(4, 5), "ranks 4 to 5");
    is_text(RANKS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), "ranks 0 to 9");
    is_text(RANKS(0, 2), "ranks 0 and 2");
    is_text(RANKS(1, 3, 5, 6), "ranks 1, 3, 5 and 6");
    is_text(RANKS(0, 2, 4, 6, 8, 10, 12, 14), "ranks 0, 2, 4, 6, 8, 10, 12 and 14");
    is_text(RANKS(0, 2, 4, 6, 8, 10, 12, 14, 16), "ranks 0, 2, 4, 6, 8, 10 ... 16");
}

static void is_brief(struct kolo_ranks ranks, size_t capacity, const char *expected)
{
    char text[64];
    kolo_ranks_brief(&ranks, text, capacity);
    cr_assert_str_eq(text, expected);
}

Test(ranks, are_named_in_brief)
{
    enum { ALL = 64, LITTLE = 48 };
    is_brief(RANKS(3), ALL, "rank 3");
    is_brief(RANKS(0, 1), ALL, "ranks 0-1");
    is_brief(RANKS(0, 1, 2, 5, 7, 8), ALL, "ranks 0-2, 5, 7-8");
    is_brief(RANKS(1, 3, 5), ALL, "ranks 1, 3, 5");
    is_brief(RANKS(100, 102, 104, 106), LITTLE, "ranks 100, 102, 104, ...");
    is_brief(RANKS(4000000000u, 4000000001u), LITTLE, "ranks 4000000000-4000000001");
}

Test(ranks, as_text_that_is_cut)
{
    char whole[80];
    kolo_ranks_text(&RANKS(1, 3, 5, 7), whole, sizeof whole);
    for (size_t capacity = 1; capacity <= strlen(whole); capacity++) {
        char text[80];
        memset(text, '#', sizeof text);
        kolo_ranks_text(&RANKS(1, 3, 5, 7), text, capacity);
        cr_assert(strlen(text) == capacity - 1 && strncmp(text, whole, capacity - 1) == 0, "%s",
                  text);
        cr_assert_eq(text[capacity], '#', "%zu", capacity);
    }
}

Test(ranks, are_found)
{
    const struct kolo_ranks ranks = RANKS(1, 4, 5, 9, 4000000000u);
    for (uint32_t rank = 0; rank < 12; rank++) {
        uint32_t place = 77;
        const bool is_there = rank == 1 || rank == 4 || rank == 5 || rank == 9;
        cr_assert_eq(kolo_ranks_find(&ranks, rank, &place), is_there, "%u", rank);
        cr_assert(is_there ? ranks.at[place] == rank : place == 77, "%u", rank);
    }
    uint32_t place;
    cr_assert(kolo_ranks_find(&ranks, 4000000000u, &place) && place == 4);
    cr_assert_not(kolo_ranks_find(&ranks, UINT32_MAX, &place));
    cr_assert_not(kolo_ranks_find(&(struct kolo_ranks){.at = NULL}, 0, &place));
}

Test(ranks, that_make_no_sense_are_known)
{
    cr_assert(kolo_ranks_are_valid(&RANKS(0, 2, 6), 7));
    cr_assert(kolo_ranks_are_valid(&RANKS(6), 7));
    cr_assert_not(kolo_ranks_are_valid(&RANKS(0, 2, 7), 7));
    cr_assert_not(kolo_ranks_are_valid(&RANKS(2, 2), 7));
    cr_assert_not(kolo_ranks_are_valid(&RANKS(3, 2), 7));
    cr_assert_not(kolo_ranks_are_valid(&(struct kolo_ranks){.at = NULL}, 7));
}
