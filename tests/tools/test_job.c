// SPDX-License-Identifier: Apache-2.0
// tools/job.c outside of a job, and what kolorun's variables make of it. tests/bench/kolobench.sh
// has jobs in which all ranks, or one of them, have a wrong command line.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/job.h"

static int said; /* what this process writes to standard error comes out of it */

static void listen_to_stderr(void)
{
    int ends[2];
    cr_assert(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    (void)close(ends[1]);
    said = ends[0];
}

/** What has been said since the test began must be @p expected. */
static void has_said(const char *expected)
{
    char text[16384];
    (void)close(STDERR_FILENO);
    size_t bytes = 0;
    for (ssize_t got; (got = read(said, text + bytes, sizeof text - 1 - bytes)) > 0;)
        bytes += (size_t)got;
    text[bytes] = '\0';
    cr_expect_str_eq(text, expected);
}

static void be_rank(const char *rank, const char *launcher)
{
    cr_assert(setenv("KOLO_RANK", rank, 1) == 0 && setenv("KOLO_SIZE", "3", 1) == 0);
    cr_assert(launcher ? setenv("KOLO_LAUNCHER", launcher, 1) == 0
                       : unsetenv("KOLO_LAUNCHER") == 0);
    listen_to_stderr();
}

Test(job, rank_0_speaks_and_so_does_who_is_in_no_job)
{
    cr_assert(unsetenv("KOLO_RANK") == 0);
    cr_expect(job_speaks());
    cr_assert(setenv("KOLO_RANK", "1", 1) == 0);
    cr_expect_not(job_speaks());
    cr_assert(setenv("KOLO_RANK", "10", 1) == 0);
    cr_expect_not(job_speaks());
    cr_assert(setenv("KOLO_RANK", "0", 1) == 0);
    cr_expect(job_speaks());
}

Test(job, who_is_in_no_job_complains_at_once)
{
    be_rank("1", NULL);
    job_complain("test", "the number %d", 5);
    has_said("test: the number 5\n");
}

Test(job, rank_0_complains_at_once_and_waits_for_nobody, .timeout = 60)
{
    cr_assert(setenv("KOLO_START_TIMEOUT", "7d", 1) == 0);
    be_rank("0", "kolorun");
    job_complain("test", "the number %d", 5);
    job_leave();
    has_said("test: the number 5\n");
}

Test(job, another_rank_keeps_its_complaint)
{
    be_rank("1", "kolorun");
    job_complain("test", "the number %d", 5);
    has_said("");
}

/** How long that is, @p rank has waited for rank 0 when it complains by itself. */
static void complains_after(const char *rank, const char *start_timeout, int64_t least_ms)
{
    cr_assert(setenv("KOLO_START_TIMEOUT", start_timeout, 1) == 0);
    be_rank(rank, "kolorun");
    const int64_t begin_ns = kolo_now_ns();
    job_complain("test", "the number %d", 5);
    job_leave();
    cr_expect_geq(kolo_now_ns() - begin_ns, least_ms * KOLO_NS_PER_MS);
    has_said("test: the number 5\n");
}

Test(job, rank_1_waits_for_rank_0, .timeout = 60)
{
    complains_after("1", "60s", 1000);
}

Test(job, rank_2_waits_longer, .timeout = 60)
{
    complains_after("2", "60s", 2500);
}

Test(job, no_longer_than_a_job_takes_to_start, .timeout = 60)
{
    complains_after("2", "100ms", 62);
}

Test(job, longer_if_a_job_may_take_longer_to_start, .timeout = 60)
{
    complains_after("1", "150s", 2500);
}

Test(job, a_setting_that_is_wrong_is_no_reason_to_be_silent, .timeout = 60)
{
    complains_after("1", "soon", 1000);
}

Test(job, who_has_nothing_to_say_does_not_wait, .timeout = 60)
{
    cr_assert(setenv("KOLO_START_TIMEOUT", "7d", 1) == 0);
    be_rank("1", "kolorun");
    job_leave();
    has_said("");
}

Test(job, a_long_complaint_is_cut)
{
    char word[10000] = "", expected[8193];
    memset(word, 'x', sizeof word - 1);
    memset(expected, 'x', sizeof expected);
    memcpy(expected, "test: ", 6);
    memcpy(expected + sizeof expected - 2, "\n", 2);
    be_rank("0", "kolorun");
    job_complain("test", "%s", word);
    has_said(expected);
}
