// SPDX-License-Identifier: Apache-2.0
// The expected permutations were printed by torch 1.13: torch.randperm(n, generator=g) after
// g.manual_seed(seed). The layout is compared with a naive implementation of torch's rule.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/metrics.h>

#include "base/alloc.h"

static struct kolo_sampler *make(int64_t samples, int rank, int nranks, bool shuffle, uint64_t seed,
                                 kolo_sampler_tail tail)
{
    struct kolo_sampler_config config = {.size = sizeof config,
                                         .samples = samples,
                                         .rank = rank,
                                         .nranks = nranks,
                                         .shuffle = shuffle,
                                         .seed = seed,
                                         .tail = tail};
    struct kolo_sampler *sampler = NULL;
    cr_assert_eq(kolo_sampler_create(&config, &sampler), KOLO_OK, "%s", kolo_error_detail());
    return sampler;
}

static void expect_permutation(uint64_t seed, int64_t epoch, const int64_t *expected, int64_t n)
{
    struct kolo_sampler *sampler = make(n, 0, 1, true, seed, KOLO_SAMPLER_PAD);
    cr_assert_eq(kolo_sampler_set_epoch(sampler, epoch), KOLO_OK);
    cr_assert_eq(kolo_sampler_count(sampler), n);
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(kolo_sampler_indices(sampler)[i], expected[i], "seed %llu entry %lld",
                     (unsigned long long)seed, (long long)i);
    kolo_sampler_destroy(sampler);
}

Test(sampler, permutes_as_torch_does)
{
    expect_permutation(0, 0, (const int64_t[]){0}, 1);
    expect_permutation(0, 0, (const int64_t[]){0, 1}, 2);
    expect_permutation(0, 0, (const int64_t[]){4, 1, 7, 5, 3, 9, 0, 8, 6, 2}, 10);
    expect_permutation(1, 0, (const int64_t[]){5, 6, 1, 2, 0, 8, 9, 3, 7, 4}, 10);
    expect_permutation(0, 1, (const int64_t[]){5, 6, 1, 2, 0, 8, 9, 3, 7, 4}, 10);
    expect_permutation(
        100, 23, (const int64_t[]){15, 14, 1, 0, 4, 7, 16, 2, 13, 11, 3, 12, 8, 5, 10, 6, 9}, 17);
    expect_permutation((UINT64_C(1) << 32) + 7, 0, (const int64_t[]){0, 1, 3, 2, 4}, 5);
}

Test(sampler, permutes_60000_as_torch_does)
{
    struct kolo_sampler *sampler = make(60000, 0, 1, true, 42, KOLO_SAMPLER_PAD);
    const int64_t *indices = kolo_sampler_indices(sampler);
    const int64_t first[] = {37542, 43087, 2992, 25810, 39634};
    const int64_t last[] = {44527, 54582, 28045, 16929, 22100};
    cr_assert_arr_eq(indices, first, sizeof first);
    cr_assert_arr_eq(indices + 59995, last, sizeof last);
    int64_t checksum = 0;
    for (int64_t i = 0; i < 60000; i++)
        checksum += i * indices[i];
    cr_assert_eq(checksum, INT64_C(53966354288704));
    kolo_sampler_destroy(sampler);
}

/* torch's rule, naively: extend or truncate the list of all samples, then take every nranks-th. */
static int64_t expected_at(const int64_t *all, int64_t samples, int rank, int nranks, int64_t i)
{
    return all[(rank + i * nranks) % samples];
}

static int64_t expected_count(int64_t samples, int rank, int nranks, kolo_sampler_tail tail)
{
    int64_t total = samples, count = 0;
    if (tail == KOLO_SAMPLER_PAD)
        while (total % nranks)
            total++;
    if (tail == KOLO_SAMPLER_DROP_LAST)
        while (total % nranks)
            total--;
    for (int64_t at = rank; at < total; at += nranks)
        count++;
    return count;
}

static void check_layout(int64_t samples, int nranks, bool shuffle, kolo_sampler_tail tail)
{
    struct kolo_sampler *all = make(samples, 0, 1, shuffle, 9, KOLO_SAMPLER_UNPADDED);
    for (int rank = 0; rank < nranks; rank++) {
        struct kolo_sampler *sampler = make(samples, rank, nranks, shuffle, 9, tail);
        int64_t count = kolo_sampler_count(sampler);
        cr_assert_eq(count, expected_count(samples, rank, nranks, tail),
                     "samples %lld rank %d of %d tail %d", (long long)samples, rank, nranks, tail);
        for (int64_t i = 0; i < count; i++)
            cr_assert_eq(kolo_sampler_indices(sampler)[i],
                         expected_at(kolo_sampler_indices(all), samples, rank, nranks, i));
        kolo_sampler_destroy(sampler);
    }
    kolo_sampler_destroy(all);
}

Test(sampler, deals_out_as_torch_does)
{
    const int64_t samples[] = {0, 1, 2, 3, 7, 10, 64, 101};
    for (size_t s = 0; s < sizeof samples / sizeof *samples; s++)
        for (int nranks = 1; nranks <= 13; nranks++)
            for (int tail = KOLO_SAMPLER_PAD; tail <= KOLO_SAMPLER_UNPADDED; tail++) {
                check_layout(samples[s], nranks, false, (kolo_sampler_tail)tail);
                check_layout(samples[s], nranks, true, (kolo_sampler_tail)tail);
            }
}

Test(sampler, refuses_what_makes_no_sense)
{
    struct kolo_sampler *sampler = NULL;
    struct kolo_sampler_config good = {.size = sizeof good, .samples = 5, .nranks = 2};
    struct kolo_sampler_config bad[7] = {good, good, good, good, good, good, good};
    bad[0].size = 4;
    bad[1].samples = -1;
    bad[2].samples = INT64_C(1) << 31;
    bad[3].nranks = 0;
    bad[4].rank = 2;
    bad[5].tail = (kolo_sampler_tail)3;
    bad[6].rank = -1;
    for (int i = 0; i < 7; i++) {
        cr_assert_eq(kolo_sampler_create(&bad[i], &sampler), KOLO_ERR_INVALID, "case %d", i);
        cr_assert_neq(strlen(kolo_error_detail()), 0, "case %d", i);
        cr_assert_null(sampler);
    }
    cr_assert_eq(kolo_sampler_create(NULL, &sampler), KOLO_ERR_INVALID);
    cr_assert_eq(kolo_sampler_create(&good, NULL), KOLO_ERR_INVALID);
    sampler = make(5, 0, 2, true, 0, KOLO_SAMPLER_PAD);
    cr_assert_eq(kolo_sampler_set_epoch(sampler, -1), KOLO_ERR_INVALID);
    kolo_sampler_destroy(sampler);
    kolo_sampler_destroy(NULL);
    cr_assert_eq(kolo_sampler_count(NULL), 0);
    cr_assert_null(kolo_sampler_indices(NULL));
}

Test(sampler, survives_failing_allocations)
{
    struct kolo_sampler_config config = {
        .size = sizeof config, .samples = 50, .nranks = 3, .shuffle = true};
    for (uint64_t nth = 1; nth < 10; nth++) {
        struct kolo_sampler *sampler = NULL;
        kolo_alloc_fail_nth(nth);
        kolo_status status = kolo_sampler_create(&config, &sampler);
        kolo_alloc_fail_nth(0);
        cr_assert(status == KOLO_OK || status == KOLO_ERR_NO_MEMORY);
        cr_assert_eq(status == KOLO_OK, sampler != NULL);
        kolo_sampler_destroy(sampler);
        if (status == KOLO_OK)
            return;
    }
    cr_assert_fail("never succeeded");
}
