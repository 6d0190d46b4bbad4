// SPDX-License-Identifier: Apache-2.0
// Which of several paths is best, and what a live connection reports.
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/await.h"
#include "transport/path_quality.h"

static struct kolo_path_quality path(int64_t rtt_us, unsigned preference, bool is_hardware,
                                     uint32_t speed_mbit)
{
    return (struct kolo_path_quality){rtt_us, preference, is_hardware, speed_mbit, "eth0", false};
}

Test(path_quality, speed_decides_among_round_trips_that_are_alike)
{
    const struct kolo_path_quality paths[] = {path(50, 0, true, 1000), path(90, 0, true, 25000),
                                              path(40, 0, true, 10000)};
    cr_assert(kolo_path_quality_best(paths, 3, 0) == 1);
}

Test(path_quality, a_detour_loses_whatever_speaks_for_it)
{
    const struct kolo_path_quality paths[] = {path(5000, 0, true, 100000), path(100, 1, false, 0)};
    const struct kolo_path_quality swapped[] = {paths[1], paths[0]};
    cr_assert(kolo_path_quality_best(paths, 2, 0) == 1);
    cr_assert(kolo_path_quality_best(swapped, 2, 0) == 0);
}

Test(path_quality, the_users_order_comes_before_hardware_and_speed)
{
    const struct kolo_path_quality paths[] = {path(50, 2, true, 25000), path(60, 0, false, 1000)};
    cr_assert(kolo_path_quality_best(paths, 2, 0) == 1);
}

Test(path_quality, hardware_comes_before_what_a_bridge_says_of_its_speed)
{
    const struct kolo_path_quality paths[] = {path(50, 0, false, 10000), path(60, 0, true, 0)};
    cr_assert(kolo_path_quality_best(paths, 2, 0) == 1);
}

Test(path_quality, all_else_equal_the_shorter_round_trip)
{
    const struct kolo_path_quality paths[] = {path(50, 0, true, 0), path(49, 0, true, 0)};
    cr_assert(kolo_path_quality_best(paths, 2, 0) == 1);
    cr_assert(kolo_path_quality_best(paths, 1, 0) == 0);
}

/** A card with ordinary properties, which may or may not be near. */
static struct kolo_path_quality card(const char *interface, bool is_near, int64_t rtt_us)
{
    struct kolo_path_quality quality = path(rtt_us, 0, true, 25000);

    strcpy(quality.interface, interface);
    quality.is_near = is_near;
    return quality;
}

Test(path_quality, equal_cards_are_taken_in_turn_by_name_whatever_the_round_trips)
{
    const struct kolo_path_quality paths[] = {card("eth2", false, 40), card("eth0", false, 60),
                                              card("eth1", false, 50), card("eth0", false, 55),
                                              card("eth1", false, 90)};
    static const size_t expected[] = {3, 2, 0};

    for (unsigned turn = 0; turn < 10; turn++)
        cr_assert(kolo_path_quality_best(paths, 5, turn) == expected[turn % 3], "turn %u: %zu",
                  turn, kolo_path_quality_best(paths, 5, turn));
}

Test(path_quality, near_cards_come_first_and_share_among_themselves)
{
    const struct kolo_path_quality paths[] = {card("eth0", false, 40), card("eth1", true, 60),
                                              card("eth2", true, 50)};

    for (unsigned turn = 0; turn < 4; turn++) {
        cr_assert(kolo_path_quality_best(paths, 2, turn) == 1, "one is near: turn %u", turn);
        cr_assert(kolo_path_quality_best(paths, 3, turn) == 1 + turn % 2, "two are: turn %u", turn);
    }
}

Test(path_quality, near_comes_after_speed_and_a_detour_has_no_turn)
{
    struct kolo_path_quality paths[] = {card("eth0", true, 40), card("eth1", false, 60),
                                        card("eth2", false, 5000)};

    paths[1].speed_mbit = paths[2].speed_mbit = 100000;
    for (unsigned turn = 0; turn < 4; turn++)
        cr_assert(kolo_path_quality_best(paths, 3, turn) == 1, "turn %u", turn);
}

Test(path_quality, a_live_connection_shows_interface_speed_and_round_trip)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct kolo_place theirs = {.bytes = sizeof at, .facts = {1, true, 10000, "", -1}};
    struct kolo_place ours = {.bytes = sizeof at, .facts = {2, true, 25000, "eth7", 3}};
    struct kolo_path_quality quality;
    socklen_t bytes = sizeof at;
    char text[96];
    int door = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert(bind(door, (struct sockaddr *)&at, sizeof at) == 0 && listen(door, 1) == 0);
    cr_assert(getsockname(door, (struct sockaddr *)&at, &bytes) == 0);
    cr_assert(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    memcpy(&theirs.addr, &at, sizeof at);
    at.sin_port = 0;
    memcpy(&ours.addr, &at, sizeof at);
    kolo_path_quality_measure(fd, &theirs, &ours, 1, 3, &quality);
    cr_assert(quality.is_near, "the rank is on the node of the interface");
    kolo_path_quality_measure(fd, &theirs, &ours, 1, 2, &quality);
    cr_assert(!quality.is_near, "the rank is on another node");
    ours.facts.numa_node = -1;
    kolo_path_quality_measure(fd, &theirs, &ours, 1, -1, &quality);
    cr_assert(!quality.is_near, "neither is known");
    cr_assert(quality.preference == 3 && quality.is_hardware && quality.speed_mbit == 10000);
    cr_assert(quality.rtt_us > 0 && quality.rtt_us < 1000000, "%lld", (long long)quality.rtt_us);
    kolo_path_quality_format(&quality, text, sizeof text);
    cr_assert(strncmp(text, "eth7, 10000 Mbit/s, round trip ", 31) == 0, "%s", text);
    kolo_path_quality_measure(fd, &theirs, NULL, 0, 3, &quality);
    cr_assert(quality.preference == UINT32_MAX && quality.interface[0] == '\0' && !quality.is_near);
    close(fd);
    close(door);
}

static uint32_t mean_round_trip_us(int fd)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;

    cr_assert(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0);
    return info.tcpi_rtt;
}

static bool has_sent_all(int fd)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;

    cr_assert(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0);
    return info.tcpi_unacked == 0;
}

/** Sends a byte that is acknowledged only after tens of milliseconds; whether that has made the
 * mean of the round trips three times as long as @p least_us, which a busy machine may have made
 * long. */
static bool is_mean_spoilt(int fd, int peer, int64_t least_us)
{
    cr_assert(setsockopt(peer, IPPROTO_TCP, TCP_QUICKACK, &(int){0}, sizeof(int)) == 0);
    cr_assert(send(fd, "", 1, 0) == 1);
    cr_assert(AWAIT(has_sent_all(fd)));
    return mean_round_trip_us(fd) > 3 * least_us;
}

Test(path_quality, a_few_slow_round_trips_make_no_detour)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert(bind(door, (struct sockaddr *)&at, sizeof at) == 0 && listen(door, 1) == 0);
    cr_assert(getsockname(door, (struct sockaddr *)&at, &bytes) == 0);
    cr_assert(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    const int peer = accept(door, NULL, NULL);
    const int64_t least_us = kolo_path_round_trip_us(fd);
    cr_assert(peer >= 0 && least_us > 0);
    cr_assert(AWAIT(is_mean_spoilt(fd, peer, least_us)));
    cr_assert(kolo_path_round_trip_us(fd) <= least_us);
    cr_assert(kolo_path_round_trip_us(0) == 0, "not a connection");
    close(peer);
    close(fd);
    close(door);
}
