// SPDX-License-Identifier: Apache-2.0
// KOLO_PORTS: which ranges are valid, that every port of a range is tried once, and that listeners
// stay within it.
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/conn.h"

static void nobody(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    (void)context;
    (void)status;
    (void)fd;
    (void)theirs;
}

Test(ports, a_range_is_read_strictly)
{
    static const char *const bad[] = {"0",     "0-5", "5-4", "1-65536", "65536", "-5",  "5-",
                                      "5-6-7", "a",   "5,6", " 5",      "5 ",    "5--6"};
    struct kolo_ports ports = {7, 7};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert(kolo_ports_parse(bad[i], &ports) == KOLO_ERR_CONFIG, "%s", bad[i]);
        cr_assert(ports.low == 7 && strstr(kolo_error_detail(), "KOLO_PORTS="), "%s",
                  kolo_error_detail());
    }
    cr_assert(kolo_ports_parse("1-65535", &ports) == KOLO_OK);
    cr_assert(ports.low == 1 && ports.high == 65535 && kolo_ports_count(&ports) == 65535);
    cr_assert(kolo_ports_parse("4711", &ports) == KOLO_OK);
    cr_assert(ports.low == 4711 && ports.high == 4711 && kolo_ports_first(&ports) == 0);
    cr_assert(kolo_ports_parse("", &ports) == KOLO_OK);
    cr_assert(ports.low == 0 && kolo_ports_count(&ports) == 1 && kolo_ports_at(&ports, 3) == 0);
}

Test(ports, once_round_meets_every_port_once)
{
    const struct kolo_ports ports = {65530, 65535};
    bool met[6] = {false};
    unsigned first = kolo_ports_first(&ports);

    for (unsigned i = 0; i < kolo_ports_count(&ports); i++) {
        uint16_t port = kolo_ports_at(&ports, first + i);
        cr_assert(port >= 65530 && !met[port - 65530], "%d", port);
        met[port - 65530] = true;
    }
}

/** Finds three consecutive free ports of 127.0.0.1. */
static struct kolo_ports find_free(void)
{
    for (uint16_t low = (uint16_t)(20000 + getpid() % 3000 * 3); low < 30000; low += 3) {
        int fds[3], free = 0;
        for (int i = 0; i < 3; i++) {
            struct sockaddr_in at = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)(low + i)),
                                     .sin_addr = {htonl(INADDR_LOOPBACK)}};
            fds[i] = socket(AF_INET, SOCK_STREAM, 0);
            free += bind(fds[i], (const struct sockaddr *)&at, sizeof at) == 0;
        }
        for (int i = 0; i < 3; i++)
            close(fds[i]);
        if (free == 3)
            return (struct kolo_ports){low, (uint16_t)(low + 2)};
    }
    cr_assert_fail("no three free ports");
    return (struct kolo_ports){0};
}

Test(ports, listeners_keep_to_the_range_and_say_when_it_is_full)
{
    const struct sockaddr_in loopback = {.sin_family = AF_INET,
                                         .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct kolo_greeting mine = {.protocol = KOLO_PROTOCOL_VERSION};
    struct kolo_place place = {.bytes = sizeof loopback, .ports = find_free()};
    struct kolo_listener *listeners[4] = {NULL};
    struct kolo_poller *poller;
    struct kolo_secret secret = {0};
    char range[32];

    memcpy(&place.addr, &loopback, sizeof loopback);
    cr_assert(kolo_poller_create(&poller) == KOLO_OK);
    for (int i = 0; i < 3; i++) {
        struct kolo_place bound;
        struct sockaddr_in at;
        cr_assert(kolo_listener_open(poller,
                                     &(struct kolo_listener_config){.place = &place,
                                                                    .handshake_ms = 1000,
                                                                    .secret = &secret,
                                                                    .mine = &mine,
                                                                    .accepted = nobody},
                                     &listeners[i]) == KOLO_OK,
                  "%s", kolo_error_detail());
        kolo_listener_place(listeners[i], &bound);
        memcpy(&at, &bound.addr, sizeof at);
        cr_assert(ntohs(at.sin_port) >= place.ports.low && ntohs(at.sin_port) <= place.ports.high);
    }
    cr_assert(kolo_listener_open(poller,
                                 &(struct kolo_listener_config){.place = &place,
                                                                .handshake_ms = 1000,
                                                                .secret = &secret,
                                                                .mine = &mine,
                                                                .accepted = nobody},
                                 &listeners[3]) == KOLO_ERR_SYSTEM);
    snprintf(range, sizeof range, "KOLO_PORTS=%d-%d", place.ports.low, place.ports.high);
    cr_assert(strstr(kolo_error_detail(), range) && strstr(kolo_error_detail(), "widen"), "%s",
              kolo_error_detail());
    for (int i = 0; i < 3; i++)
        kolo_listener_close(listeners[i]);
    kolo_poller_destroy(poller);
}

/** The first port that needs no privilege. */
static int first_of_anybody(void)
{
    int first = 0;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "r");

    if (file && fscanf(file, "%d", &first) != 1)
        first = 0;
    if (file)
        fclose(file);
    return first;
}

Test(ports, those_that_a_user_may_not_have_are_not_called_taken)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct kolo_place place = {.bytes = sizeof any, .ports = {2, 4}};
    const struct kolo_secret secret = {{7}};
    const struct kolo_greeting mine = {.from = 0, .to = -1};
    struct kolo_poller *poller;
    struct kolo_listener *listener;

    if (first_of_anybody() < 5 || (geteuid() == 0 && setuid(65534) != 0))
        cr_skip_test("whoever it is may have them here");
    memcpy(&place.addr, &any, sizeof any);
    cr_assert(kolo_poller_create(&poller) == KOLO_OK);
    cr_assert(kolo_listener_open(poller,
                                 &(struct kolo_listener_config){.place = &place,
                                                                .handshake_ms = 1000,
                                                                .secret = &secret,
                                                                .mine = &mine,
                                                                .accepted = nobody},
                                 &listener) == KOLO_ERR_SYSTEM);
    cr_assert(strstr(kolo_error_detail(), "KOLO_PORTS=2-4: this user may not listen at 3 of these"),
              "%s", kolo_error_detail());
    kolo_poller_destroy(poller);
}
