// SPDX-License-Identifier: Apache-2.0
// bench/words.c: arguments such as lists of sizes, times and names, and order statistics.
#include <criterion/criterion.h>
#include <string.h>

#include "bench/statistics.h"
#include "bench/words.h"

static void sizes_are(const char *text, const char *expected)
{
    int64_t sizes[BENCH_SIZES_MAX];
    size_t count = 0, used = 0;
    char got[512] = "none";
    if (bench_parse_sizes(text, sizes, &count))
        for (size_t i = 0; i < count; i++)
            used += (size_t)snprintf(got + used, sizeof got - used, "%s%lld", i ? " " : "",
                                     (long long)sizes[i]);
    cr_expect_str_eq(got, expected, "%s: got %s", text, got);
}

Test(words, lists_of_sizes)
{
    sizes_are("4", "4");
    sizes_are("4,64K,1M", "4 65536 1048576");
    sizes_are("1M,4,4", "4 1048576");
    sizes_are("4:64", "4 16 64");
    sizes_are("4:64:x2", "4 8 16 32 64");
    sizes_are("4:64:2", "4 8 16 32 64");
    sizes_are("4:100:x4", "4 16 64");
    sizes_are("1K:4K:+1K", "1024 2048 3072 4096");
    sizes_are("8:8", "8");
    sizes_are("1,4:16:x4,9", "1 4 9 16");
    sizes_are("9223372036854775807", "9223372036854775807");
    for (const char *const *bad =
             (const char *const[]){"", ",", "4,", "0", "-4", "4:", "4:2", "4:8:", "4:8:x1", "4:8:x",
                                   "4:8:+0", "4:8:+", "x", "4:8:x2:2", "1:1M:+1", NULL};
         *bad; bad++)
        sizes_are(*bad, "none");
}

Test(words, times)
{
    int64_t ns = 0;
    cr_expect(bench_parse_time("0.2s", &ns) && ns == 200000000);
    cr_expect(bench_parse_time("50ms", &ns) && ns == 50000000);
    cr_expect(bench_parse_time("2", &ns) && ns == 2000000000);
    cr_expect(bench_parse_time("1min", &ns) && ns == 60000000000);
    cr_expect(bench_parse_time("1.5m", &ns) && ns == 90000000000);
    cr_expect(bench_parse_time("1h", &ns) && ns == 3600000000000);
    for (const char *const *bad =
             (const char *const[]){"", "s", "-1s", "1d", "nan", "inf", "0", "1e99", " 1", NULL};
         *bad; bad++)
        cr_expect_not(bench_parse_time(*bad, &ns), "'%s' was taken", *bad);
}

Test(words, nearest)
{
    const char *const words[] = {"allreduce", "allgather", "broadcast", "sum", "min", NULL};
    cr_expect_str_eq(bench_nearest("alreduce", words), "allreduce");
    cr_expect_str_eq(bench_nearest("bcast", (const char *const[]){"bcast2", NULL}), "bcast2");
    cr_expect_str_eq(bench_nearest("broad", words), "broadcast");
    cr_expect_str_eq(bench_nearest("summ", words), "sum");
    cr_expect_null(bench_nearest("frobnicate", words));
    cr_expect_null(bench_nearest("", words));
    char longest[4096];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    cr_expect_null(bench_nearest(longest, words));
}

Test(words, texts)
{
    char text[32];
    cr_expect_str_eq(bench_size_text(4, text, sizeof text), "4 B");
    cr_expect_str_eq(bench_size_text(65536, text, sizeof text), "64 KiB");
    cr_expect_str_eq(bench_size_text(1.5 * (1 << 20), text, sizeof text), "1.5 MiB");
    cr_expect_str_eq(bench_time_text(0.494, text, sizeof text), "0.49 us");
    cr_expect_str_eq(bench_time_text(14600, text, sizeof text), "14.60 ms");
}

Test(statistics, percentiles_and_medians)
{
    double values[] = {5, 1, 4, 2, 3}, scratch[5];
    bench_sort(values, 5);
    cr_expect_eq(bench_percentile(values, 5, 0), 1);
    cr_expect_eq(bench_percentile(values, 5, 50), 3);
    cr_expect_eq(bench_percentile(values, 5, 90), 5);
    cr_expect_eq(bench_percentile(values, 5, 100), 5);
    cr_expect_eq(bench_percentile(values, 0, 50), 0);
    cr_expect_eq(bench_median((double[]){4, 1, 3, 2}, 4), 2.5);
    cr_expect_eq(bench_median(values, 0), 0);
    cr_expect_eq(bench_mad((double[]){1, 2, 3, 4, 100}, 5, 3, scratch), 1);
}
