// SPDX-License-Identifier: Apache-2.0
// See hosts.h. A rank knows its host by gethostname(), which is replaced here.
#include "tests/support/hosts.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

static atomic_int hosts, asked;

void hosts_pretend(int count)
{
    atomic_store(&asked, 0);
    atomic_store(&hosts, count);
}

int gethostname(char *name, size_t bytes)
{
    static _Thread_local int turn = -1;
    struct utsname own;
    const int count = atomic_load(&hosts);
    if (count == 0)
        return uname(&own) == 0 && snprintf(name, bytes, "%s", own.nodename) >= 0 ? 0 : -1;
    if (turn < 0)
        turn = atomic_fetch_add(&asked, 1);
    return snprintf(name, bytes, "host%d", turn % count) >= 0 ? 0 : -1;
}
