// SPDX-License-Identifier: Apache-2.0
// tools/job.c outside of a job, and what kolorun's variables make of it. tests/bench/kolobench.sh
// has ranks that leave together.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tools/job.h"

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

Test(job, who_is_in_no_job_waits_for_nobody, .timeout = 60)
{
    cr_assert(unsetenv("KOLO_LAUNCHER") == 0);
    cr_assert(setenv("KOLO_RANK", "1", 1) == 0 && setenv("KOLO_SIZE", "2", 1) == 0);
    job_leave_together();
}
