// SPDX-License-Identifier: Apache-2.0
// base/clock.c: the clock and its replacement, and deadlines, up to those that saturate.
#include "base/clock.h"

#include <criterion/criterion.h>
#include <limits.h>

static int64_t fake_ns;

static int64_t fake_now(void)
{
    return fake_ns;
}

static void use_fake(void)
{
    fake_ns = 1000000000;
    kolo_clock_replace(fake_now);
}

Test(clock, the_real_one_is_monotonic)
{
    int64_t last = kolo_now_ns();
    cr_assert(last > 0, "%lld", (long long)last);
    for (int i = 0; i < 10000; i++) {
        int64_t now = kolo_now_ns();
        cr_assert(now >= last, "%lld after %lld", (long long)now, (long long)last);
        last = now;
    }
}

Test(clock, null_brings_the_real_one_back, .init = use_fake)
{
    cr_assert(kolo_now_ns() == 1000000000, "fake");
    kolo_clock_replace(NULL);
    int64_t now = kolo_now_ns();
    cr_assert(now != 1000000000 && kolo_now_ns() >= now, "real");
}

Test(clock, a_deadline_passes_on_its_nanosecond, .init = use_fake)
{
    kolo_deadline deadline = kolo_deadline_in_ms(5);
    cr_assert(deadline == 1005000000, "%lld", (long long)deadline);
    fake_ns = deadline - 1;
    cr_assert(!kolo_deadline_passed(deadline), "before");
    fake_ns = deadline;
    cr_assert(kolo_deadline_passed(deadline), "on it");
    cr_assert(kolo_deadline_passed(kolo_deadline_in_ms(0)), "0 ms");
}

Test(clock, never_does_not_come, .init = use_fake)
{
    cr_assert(kolo_deadline_in_ms(-1) == KOLO_NEVER, "-1");
    cr_assert(kolo_deadline_in_ms(INT64_MIN) == KOLO_NEVER, "INT64_MIN");
    fake_ns = INT64_MAX;
    cr_assert(!kolo_deadline_passed(KOLO_NEVER), "at the end of time");
}

Test(clock, far_deadlines_saturate, .init = use_fake)
{
    cr_assert(kolo_deadline_in_ms(INT64_MAX) == KOLO_NEVER, "the product overflows");
    cr_assert(kolo_deadline_in_ms(INT64_MAX / 1000000) == KOLO_NEVER, "the sum overflows");
    fake_ns = 0;
    cr_assert(kolo_deadline_in_ms(INT64_MAX / 1000000) == INT64_MAX / 1000000 * 1000000, "fits");
}

Test(clock, poll_ms_rounds_up_and_never_early, .init = use_fake)
{
    static const struct {
        int64_t now, deadline;
        int expected;
    } cases[] = {
        {0, 0, 0},
        {1, 0, 0},
        {0, 1, 1},
        {0, 999999, 1},
        {0, 1000000, 1},
        {0, 1000001, 2},
        {0, (int64_t)INT_MAX * 1000000, INT_MAX},
        {0, (int64_t)INT_MAX * 1000000 + 1, INT_MAX},
        {0, KOLO_NEVER - 1, INT_MAX},
        {INT64_MIN, KOLO_NEVER - 1, INT_MAX},
        {-1, 0, 1},
        {0, INT64_MIN, 0},
        {0, KOLO_NEVER, -1},
        {INT64_MAX, KOLO_NEVER, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_ns = cases[i].now;
        int got = kolo_deadline_poll_ms(cases[i].deadline);
        cr_assert(got == cases[i].expected, "case %zu: %d", i, got);
    }
}

Test(clock, the_earlier_deadline)
{
    cr_assert(kolo_deadline_min(1, KOLO_NEVER) == 1, "first");
    cr_assert(kolo_deadline_min(KOLO_NEVER, 2) == 2, "second");
    cr_assert(kolo_deadline_min(KOLO_NEVER, KOLO_NEVER) == KOLO_NEVER, "both");
}

Test(clock, the_wall_has_its_own)
{
    int64_t now_s = kolo_wall_ns() / 1000000000;
    cr_assert(now_s > 1700000000, "%lld", (long long)now_s);
    fake_ns = 5;
    kolo_clock_replace(fake_now);
    cr_assert(kolo_wall_ns() / 1000000000 >= now_s - 60, "a false clock is not the wall's");
    kolo_clock_replace(NULL);
}

Test(clock, a_later_deadline_saturates)
{
    cr_assert(kolo_deadline_plus_ms(7, 5) == 5000007, "5 ms");
    cr_assert(kolo_deadline_plus_ms(KOLO_NEVER, 5) == KOLO_NEVER, "never stays");
    cr_assert(kolo_deadline_plus_ms(KOLO_NEVER - 1000001, 1) == KOLO_NEVER - 1, "the last one");
    cr_assert(kolo_deadline_plus_ms(KOLO_NEVER - 999999, 1) == KOLO_NEVER, "past the end");
}
