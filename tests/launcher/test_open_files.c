// SPDX-License-Identifier: Apache-2.0
// The limit of open files: raised for this process alone, and only as far as it may be.
#include <string.h>
#include <sys/resource.h>

#include <criterion/criterion.h>

#include "launcher/open_files.h"

static struct rlimit limit_now(void)
{
    struct rlimit limit;
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    return limit;
}

static void set_limit(rlim_t soft, rlim_t hard)
{
    const struct rlimit limit = {.rlim_cur = soft, .rlim_max = hard};
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

Test(open_files, are_raised_to_what_is_needed_and_given_back)
{
    uintmax_t most = 0;
    set_limit(100, 400);
    kolo_open_files_give_back(); /* nothing was raised */
    cr_assert(kolo_open_files_allow(90, 10, &most) && limit_now().rlim_cur == 100);
    cr_assert(kolo_open_files_allow(200, 50, &most) && limit_now().rlim_cur == 250);
    cr_assert(kolo_open_files_allow(150, 0, &most) && limit_now().rlim_cur == 250, "lowered");
    cr_assert(kolo_open_files_allow(390, 50, &most) && limit_now().rlim_cur == 400, "the spare");
    cr_assert(!kolo_open_files_allow(401, 0, &most) && most == 400);
    cr_assert(limit_now().rlim_cur == 400 && limit_now().rlim_max == 400);
    kolo_open_files_give_back();
    cr_assert(limit_now().rlim_cur == 100 && limit_now().rlim_max == 400);
}

Test(open_files, a_job_that_needs_too_many_is_refused)
{
    set_limit(64, 1024);
    cr_assert(kolo_open_files_allow_job(800, 60) == KOLO_OK && limit_now().rlim_cur == 1024);
    cr_assert(kolo_open_files_allow_job(800, 100) == KOLO_ERR_CONFIG);
    cr_assert(strcmp(kolo_error_detail(),
                     "1118 open files are needed for 800 ranks on 100 hosts, and ulimit -n is 1024 "
                     "at most; raise nofile in /etc/security/limits.conf") == 0,
              "%s", kolo_error_detail());
    cr_assert(kolo_open_files_allow_job(1, 1000) == KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "for 1 rank on 1000 hosts"), "%s", kolo_error_detail());
}

Test(open_files, an_agent_of_too_many_ranks_is_refused)
{
    set_limit(64, 1024);
    cr_assert(kolo_open_files_allow_agent(20) == KOLO_OK && limit_now().rlim_cur == 112);
    cr_assert(kolo_open_files_allow_agent(335) == KOLO_OK && limit_now().rlim_cur == 1024);
    cr_assert(kolo_open_files_allow_agent(336) == KOLO_ERR_SYSTEM);
    cr_assert(strcmp(kolo_error_detail(),
                     "1025 open files are needed for 336 ranks on one host, and ulimit -n is 1024 "
                     "there at most; raise nofile in /etc/security/limits.conf") == 0,
              "%s", kolo_error_detail());
}
