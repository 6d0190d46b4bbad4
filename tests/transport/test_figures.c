// SPDX-License-Identifier: Apache-2.0
// Which of several paths is the best, and what a live connection shows.
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/figures.h"

static struct kolo_figures path(int64_t rtt_us, unsigned preference, bool is_hardware,
                                uint32_t speed_mbit)
{
    return (struct kolo_figures){rtt_us, preference, is_hardware, speed_mbit, "eth0"};
}

Test(figures, speed_decides_among_round_trips_that_are_alike)
{
    const struct kolo_figures paths[] = {path(50, 0, true, 1000), path(90, 0, true, 25000),
                                         path(40, 0, true, 10000)};
    cr_assert(kolo_figures_best(paths, 3) == 1);
}

Test(figures, a_detour_loses_whatever_speaks_for_it)
{
    const struct kolo_figures paths[] = {path(5000, 0, true, 100000), path(100, 1, false, 0)};
    const struct kolo_figures swapped[] = {paths[1], paths[0]};
    cr_assert(kolo_figures_best(paths, 2) == 1);
    cr_assert(kolo_figures_best(swapped, 2) == 0);
}

Test(figures, the_users_order_comes_before_hardware_and_speed)
{
    const struct kolo_figures paths[] = {path(50, 2, true, 25000), path(60, 0, false, 1000)};
    cr_assert(kolo_figures_best(paths, 2) == 1);
}

Test(figures, hardware_comes_before_what_a_bridge_says_of_its_speed)
{
    const struct kolo_figures paths[] = {path(50, 0, false, 10000), path(60, 0, true, 0)};
    cr_assert(kolo_figures_best(paths, 2) == 1);
}

Test(figures, all_else_equal_the_shorter_round_trip)
{
    const struct kolo_figures paths[] = {path(50, 0, true, 0), path(49, 0, true, 0)};
    cr_assert(kolo_figures_best(paths, 2) == 1);
    cr_assert(kolo_figures_best(paths, 1) == 0);
}

Test(figures, a_live_connection_shows_interface_speed_and_round_trip)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct kolo_place theirs = {.bytes = sizeof at, .facts = {1, true, 10000, ""}};
    struct kolo_place ours = {.bytes = sizeof at, .facts = {2, true, 25000, "eth7"}};
    struct kolo_figures figures;
    socklen_t bytes = sizeof at;
    char text[96];
    int door = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert(bind(door, (struct sockaddr *)&at, sizeof at) == 0 && listen(door, 1) == 0);
    cr_assert(getsockname(door, (struct sockaddr *)&at, &bytes) == 0);
    cr_assert(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    memcpy(&theirs.addr, &at, sizeof at);
    at.sin_port = 0;
    memcpy(&ours.addr, &at, sizeof at);
    kolo_figures_take(fd, &theirs, &ours, 1, &figures);
    cr_assert(figures.preference == 3 && figures.is_hardware && figures.speed_mbit == 10000);
    cr_assert(figures.rtt_us > 0 && figures.rtt_us < 1000000, "%lld", (long long)figures.rtt_us);
    kolo_figures_format(&figures, text, sizeof text);
    cr_assert(strncmp(text, "eth7, 10000 Mbit/s, round trip ", 31) == 0, "%s", text);
    kolo_figures_take(fd, &theirs, NULL, 0, &figures);
    cr_assert(figures.preference == UINT32_MAX && figures.interface[0] == '\0');
    close(fd);
    close(door);
}
