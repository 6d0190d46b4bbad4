// SPDX-License-Identifier: Apache-2.0
// Sets how often the kernel asks a silent peer. Must never make it give up a peer before its time.
//
// A way that is back is found out by what is sent over it. By default the kernel doubles the time
// between two tries to send the same bytes: after 6 s it tries again at 13 s. So a connection whose
// way was out for 7 s would be given up after 10 s although the way had been back for 3 s.
#include "transport/keepalive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/log.h"

enum {
    RTO_MAX_MS = 44, /* TCP_RTO_MAX_MS, which headers before Linux 6.15 lack */
    RTO_MAX_MS_LEAST = 1000,
    RTO_MAX_MS_MOST = 120000, /* the kernel's bounds of it */
    PROBES_MAX = 127,
    SECONDS_MAX = 32767, /* the kernel's bounds of keepalive */
    ASKS = 8,            /* an idle peer is asked after each of so many parts of the timeout, except
                          * the last one, after which it is given up */
    TRIES = 4            /* to send the same bytes within the timeout, by the longest pause. More
                          * would use up the tries that net.ipv4.tcp_retries2 allows. */
};

static int64_t between(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static void set(int fd, int level, int option, int64_t value)
{
    const int number = (int)value;

    /* Each option is only an improvement: the connection also works without it. */
    if (setsockopt(fd, level, option, &number, sizeof number) != 0)
        KOLO_DEBUG("fd %d: socket option %d refused", fd, option);
}

void kolo_keepalive_set(int fd, int64_t timeout_ms)
{
    const int64_t seconds = (timeout_ms + 999) / 1000; /* not before its time */
    const int64_t every = between(seconds / ASKS, 1, SECONDS_MAX);
    int64_t count = between(seconds / every - 1, 1, PROBES_MAX);
    int64_t idle = seconds - every * count; /* with what the division left over */

    if (idle > SECONDS_MAX && count < PROBES_MAX)
        idle = seconds - every * ++count;
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, between(idle, 1, SECONDS_MAX));
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, every);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, count);
    set(fd, IPPROTO_TCP, RTO_MAX_MS,
        between(timeout_ms / TRIES, RTO_MAX_MS_LEAST, RTO_MAX_MS_MOST));
}
