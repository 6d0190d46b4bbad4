// SPDX-License-Identifier: Apache-2.0
// Raises the soft limit of open files. Must never let a program that is executed have the raised
// one.
//
// Measured on one host: kolorun has 18 descriptors, 1 per rank (its connection to the store) and 3
// per host, an agent 12 and 2 per rank (and 1 more with --timeline). While it starts its ranks, all
// of which are started before the first has been executed, it has up to 17 and 3 per rank.
// tests/launcher/cli.sh runs jobs that have just enough of them.
#include "launcher/open_files.h"

#include <sys/resource.h>

#include "transport/conn.h"

enum { OWN = 18, PER_RANK = 1, PER_HOST = 3 };
/* Of an agent: what it cannot do without, and what it may have for moments, too. */
enum { OWN_OF_AGENT = 17, PER_CHILD = 3, OWN_WANTED = 32, PER_CHILD_WANTED = 4 };
/* Only wanted: for processes that are just being started, and for strangers. */
enum { SPARE = 32 + KOLO_LISTENER_PENDING_MAX };

static struct rlimit before;
static bool is_raised;

size_t kolo_open_files_of_job(int ranks, size_t hosts)
{
    return OWN + (size_t)ranks * PER_RANK + hosts * PER_HOST;
}

size_t kolo_open_files_of_agent(int ranks)
{
    return OWN_WANTED + (size_t)ranks * PER_CHILD_WANTED;
}

bool kolo_open_files_allow(size_t needed, size_t spare, uintmax_t *most_out)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    const struct rlimit found = limit;
    const rlim_t wanted = needed + spare;
    limit.rlim_cur =
        limit.rlim_max < wanted ? limit.rlim_max : wanted; /* infinity is the largest */
    if (found.rlim_cur < limit.rlim_cur && setrlimit(RLIMIT_NOFILE, &limit) == 0) {
        before = is_raised ? before : found;
        is_raised = true;
    } else {
        limit = found;
    }
    *most_out = limit.rlim_cur;
    return limit.rlim_cur >= needed;
}

kolo_status kolo_open_files_allow_job(int ranks, size_t hosts)
{
    uintmax_t most = 0;
    const size_t needed = kolo_open_files_of_job(ranks, hosts);
    if (kolo_open_files_allow(needed, SPARE, &most))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_CONFIG,
                     "%zu open files are needed for %d rank%s on %zu host%s, and ulimit -n is %ju "
                     "at most; raise nofile in /etc/security/limits.conf",
                     needed, ranks, ranks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s", most);
}

kolo_status kolo_open_files_allow_agent(int ranks)
{
    uintmax_t most = 0;
    const size_t needed = OWN_OF_AGENT + (size_t)ranks * PER_CHILD;
    if (kolo_open_files_allow(needed, kolo_open_files_of_agent(ranks) - needed, &most))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "%zu open files are needed for %d ranks on one host, and ulimit -n is %ju "
                     "there at most; raise nofile in /etc/security/limits.conf",
                     needed, ranks, most);
}

void kolo_open_files_give_back(void)
{
    if (is_raised)
        (void)setrlimit(RLIMIT_NOFILE, &before);
}
