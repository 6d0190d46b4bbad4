// SPDX-License-Identifier: Apache-2.0
// A fork is counted in the child and not in the parent, and only once, however often forks are
// watched. The stamp changes in the parent, and is 0 while a thread is in fork().
#include <criterion/criterion.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/forks.h"

/** Runs @p child in a child of this process, and returns what it returns. */
static int in_child(int (*child)(unsigned before), unsigned before)
{
    int status = -1;
    const pid_t pid = fork();
    cr_assert(pid >= 0, "fork");
    if (pid == 0)
        _exit(child(before));
    cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int forks_since(unsigned before)
{
    return (int)(kolo_forks() - before);
}

static int forks_of_a_child(unsigned before)
{
    return in_child(forks_since, before);
}

Test(forks, are_counted_in_the_child_alone)
{
    cr_assert(kolo_forks_watch() == KOLO_OK && kolo_forks_watch() == KOLO_OK);
    const unsigned before = kolo_forks();
    cr_expect(in_child(forks_since, before) == 1);
    cr_expect(in_child(forks_of_a_child, before) == 2);
    cr_expect(kolo_forks() == before);
}

static uint64_t stamp_during;

static void look_during(void)
{
    stamp_during = kolo_forks_stamp();
}

static int stamps_of_a_child(unsigned before)
{
    const uint64_t first = kolo_forks_stamp(), second = kolo_forks_stamp();
    return (int)before + (first != 0 && first == second &&
                          in_child(forks_since, kolo_forks()) == 1 && kolo_forks_stamp() > second);
}

Test(forks, change_the_stamp_of_the_parent)
{
    cr_assert(pthread_atfork(look_during, NULL, NULL) == 0); /* what is installed first runs last */
    cr_assert(kolo_forks_watch() == KOLO_OK);
    const uint64_t stamp = kolo_forks_stamp();
    cr_assert(stamp != 0 && kolo_forks_stamp() == stamp);
    stamp_during = 1;
    cr_expect(in_child(stamps_of_a_child, 0) == 1);
    cr_expect(stamp_during == 0 && kolo_forks_stamp() > stamp);
}
