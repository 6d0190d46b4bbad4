// SPDX-License-Identifier: Apache-2.0
// How often a silent peer is asked: from a tenth of a second to a week.
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/keepalive.h"

enum { RTO_MAX_MS = 44 };

static int64_t value_of(int fd, int level, int option)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    return getsockopt(fd, level, option, &value, &bytes) == 0 ? value : -1;
}

static void check_asks(int64_t timeout_ms)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    kolo_keepalive_set(fd, timeout_ms);
    const int64_t every_s = value_of(fd, IPPROTO_TCP, TCP_KEEPINTVL),
                  count = value_of(fd, IPPROTO_TCP, TCP_KEEPCNT),
                  end_s = value_of(fd, IPPROTO_TCP, TCP_KEEPIDLE) + every_s * count,
                  whole_s = (timeout_ms + 999) / 1000;
    cr_assert(value_of(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
    cr_assert(every_s >= 1 && (every_s == 1 || count >= 7), "%lld ms: %lld every %lld s",
              (long long)timeout_ms, (long long)count, (long long)every_s);
    /* neither before its time, when the peer may be there again, nor later */
    cr_assert_eq(end_s, whole_s < 2 ? 2 : whole_s, "%lld ms: %lld s", (long long)timeout_ms,
                 (long long)end_s);
    close(fd);
}

Test(keepalive, asks_several_times_and_ends_at_the_timeout)
{
    static const int64_t others_ms[] = {100,   1000,   2001,    2900,     3900,      9900,
                                        15999, 600000, 3600000, 36000000, 262143000, 604800000};
    for (int64_t seconds = 2; seconds <= 200; seconds++)
        check_asks(seconds * 1000);
    for (size_t i = 0; i < sizeof others_ms / sizeof others_ms[0]; i++)
        check_asks(others_ms[i]);
}

/* The kernel gives up by itself after net.ipv4.tcp_retries2 tries (15 by default, 8 at least by RFC
 * 1122), of which the first five or so take little time. */
Test(keepalive, bytes_are_sent_again_in_time_but_not_too_often)
{
    static const int64_t timeouts[] = {100, 4000, 10000, 60000, 600000, 604800000};
    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        const int64_t before_ms = value_of(fd, IPPROTO_TCP, RTO_MAX_MS);
        kolo_keepalive_set(fd, timeouts[i]);
        const int64_t most_ms = value_of(fd, IPPROTO_TCP, RTO_MAX_MS);
        close(fd);
        if (before_ms < 0)
            cr_skip_test("the kernel (before Linux 6.15) has no TCP_RTO_MAX_MS");
        const int64_t wanted_ms = timeouts[i] / 4;
        cr_assert_eq(most_ms,
                     wanted_ms < 1000     ? 1000
                     : wanted_ms > 120000 ? 120000
                                          : wanted_ms,
                     "%lld ms: %lld ms", (long long)timeouts[i], (long long)most_ms);
    }
}

Test(keepalive, other_sockets_are_left_as_they_are)
{
    int ends[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    kolo_keepalive_set(ends[0], 10000);
    cr_assert(write(ends[0], "x", 1) == 1);
    kolo_keepalive_set(-1, 10000);
}
