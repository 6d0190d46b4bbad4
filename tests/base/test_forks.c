// SPDX-License-Identifier: Apache-2.0
// A fork is counted in the child and not in the parent, and only once, however often forks are
// watched.
#include <criterion/criterion.h>

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
