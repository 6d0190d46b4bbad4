// SPDX-License-Identifier: Apache-2.0
// transport/places.c: addresses from and to text.
#include <criterion/criterion.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "tests/support/fake_names.h"
#include "tests/support/place_text.h"
#include "transport/places.h"

Test(places, resolve_reads_numbers_of_both_families)
{
    struct kolo_place places[4];
    size_t count = 0;

    cr_assert(kolo_places_resolve("10.0.0.5:4711,[::1]:80,10.0.0.5:4711", 0, places, 4, &count) ==
                  KOLO_OK,
              "%s", kolo_error_detail());
    cr_assert(count == 2, "the same one twice counts once: %zu", count);
    cr_assert_str_eq(place_text(&places[0]), "10.0.0.5:4711");
    cr_assert_str_eq(place_text(&places[1]), "[::1]:80");
}

Test(places, resolve_knows_localhost, .timeout = 120)
{
    struct kolo_place places[8];
    size_t count = 0;

    cr_assert(kolo_places_resolve("localhost:1", KOLO_NEVER, places, 8, &count) == KOLO_OK);
    cr_assert(count >= 1);
}

Test(places, resolve_never_writes_more_than_there_is_room)
{
    struct kolo_place places[2] = {{.bytes = 0}, {.bytes = 7}};
    size_t count = 0;

    cr_assert(kolo_places_resolve("1.1.1.1:1,2.2.2.2:2,3.3.3.3:3", 0, places, 1, &count) ==
              KOLO_OK);
    cr_assert(count == 1 && places[1].bytes == 7);
}

Test(places, resolve_refuses_what_is_no_place)
{
    static const char *const bad[] = {
        "",           "host",     ":80",     "host:",    "host:0",
        "host:65536", "host:80x", "host:-1", "::1:80",   "[::1]80",
        "[]:80",      "a:1,,b:2", "a:1,",    "host: 80", "host:123456789"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kolo_place place;
        size_t count = 77;
        cr_assert(kolo_places_resolve(bad[i], 0, &place, 1, &count) != KOLO_OK, "\"%s\"", bad[i]);
        cr_assert(count == 77);
        cr_assert(strlen(kolo_error_detail()) > 0);
    }
}

Test(places, resolve_names_the_host_it_cannot_find, .timeout = 60)
{
    struct kolo_place place;
    size_t count;

    cr_assert(kolo_places_resolve("no-such-host.invalid:80", KOLO_NEVER, &place, 1, &count) ==
              KOLO_ERR_CONNECT);
    cr_assert(strstr(kolo_error_detail(), "no-such-host.invalid"), "%s", kolo_error_detail());
    cr_assert(kolo_places_resolve("no-such-host.invalid:80,127.0.0.1:9", KOLO_NEVER, &place, 1,
                                  &count) == KOLO_OK,
              "the other one will do");
}

Test(places, resolve_gives_each_name_a_share_of_the_time, .timeout = 60)
{
    struct kolo_place places[2];
    size_t count;

    cr_assert(kolo_places_resolve("silent.example:1,quick.example:2,10.0.0.7:3",
                                  kolo_deadline_in_ms(2000), places, 2, &count) == KOLO_OK,
              "%s", kolo_error_detail());
    cr_assert(count == 2);
    cr_assert_str_eq(place_text(&places[0]), "10.0.0.9:2");
    cr_assert_str_eq(place_text(&places[1]), "10.0.0.7:3");
    cr_assert(kolo_places_resolve("silent.example:1", kolo_deadline_in_ms(20), places, 2, &count) ==
              KOLO_ERR_CONNECT);
    cr_assert(kolo_places_resolve("quick.example:1,10.0.0.7:3", 0, places, 2, &count) == KOLO_OK,
              "addresses need no time");
    cr_assert(count == 1);
    fake_names_answer();
}

Test(places, format_shows_unix_names)
{
    struct kolo_place place = {.bytes = offsetof(struct sockaddr_un, sun_path) + 6};
    struct sockaddr_un *name = (struct sockaddr_un *)&place.addr;

    name->sun_family = AF_UNIX;
    memcpy(name->sun_path, "\0ko\1lo", 6);
    cr_assert_str_eq(place_text(&place), "unix:@ko?lo");
    memcpy(name->sun_path, "/a/b/c", 6);
    cr_assert_str_eq(place_text(&place), "unix:/a/b/c");
    place.bytes = offsetof(struct sockaddr_un, sun_path);
    cr_assert_str_eq(place_text(&place), "unix:");
    place.addr.ss_family = 99;
    cr_assert_str_eq(place_text(&place), "address family 99");
}

Test(places, addresses_of_both_families_are_made_and_read)
{
    static const struct {
        sa_family_t family;
        uint8_t ip[16];
        size_t bytes;
        uint16_t port;
        bool is_loopback;
        const char *text;
    } cases[] = {{AF_INET, {10, 0, 0, 5}, 4, 4711, false, "10.0.0.5:4711"},
                 {AF_INET, {127, 3, 2, 1}, 4, 1, true, "127.3.2.1:1"},
                 {AF_INET, {0}, 4, 0, false, "0.0.0.0:0"},
                 {AF_INET6, {[15] = 1}, 16, 80, true, "[::1]:80"},
                 {AF_INET6, {127}, 16, 65535, false, "[7f00::]:65535"},
                 {AF_INET6, {0}, 16, 0, false, "[::]:0"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kolo_place place = kolo_place_make(cases[i].family, cases[i].ip, cases[i].port);
        size_t bytes = 0;
        const uint8_t *ip = kolo_place_ip(&place, &bytes);
        cr_assert_str_eq(place_text(&place), cases[i].text);
        cr_assert(kolo_place_is_ip(&place));
        cr_assert(bytes == cases[i].bytes && memcmp(ip, cases[i].ip, bytes) == 0, "%s",
                  cases[i].text);
        cr_assert(kolo_place_port(&place) == cases[i].port, "%s", cases[i].text);
        cr_assert(kolo_place_is_loopback(&place) == cases[i].is_loopback, "%s", cases[i].text);
        kolo_place_set_port(&place, 258); /* 1, 2 in network order */
        cr_assert(strstr(place_text(&place), ":258") != NULL, "%s", place_text(&place));
        for (size_t j = 0; j < sizeof cases / sizeof cases[0]; j++) {
            struct kolo_place other = kolo_place_make(cases[j].family, cases[j].ip, 7);
            cr_assert(kolo_place_is_same_ip(&place, &other) == (i == j), "%s, %s", cases[i].text,
                      cases[j].text);
        }
    }
    struct kolo_place loopback[2] = {kolo_place_make(AF_INET, cases[1].ip, 1),
                                     kolo_place_make(AF_INET6, cases[3].ip, 1)};
    cr_assert(kolo_places_are_loopback(loopback, 2));
    loopback[1] = kolo_place_make(AF_INET, cases[0].ip, 1);
    cr_assert(!kolo_places_are_loopback(loopback, 2));
    const struct kolo_place any = kolo_place_make(AF_INET6, NULL, 9);
    cr_assert_str_eq(place_text(&any), "[::]:9");
}

Test(places, unix_sockets_have_neither_address_nor_port)
{
    struct kolo_place place = {.addr.ss_family = AF_UNIX, .bytes = sizeof(sa_family_t)};
    const struct kolo_place before = place;
    size_t bytes = 1;

    cr_assert(!kolo_place_is_ip(&place) && !kolo_place_is_loopback(&place));
    cr_assert(!kolo_place_ip(&place, &bytes) && bytes == 0);
    kolo_place_set_port(&place, 80);
    cr_assert(kolo_place_port(&place) == 0);
    cr_assert(memcmp(&place, &before, sizeof place) == 0);
    cr_assert(!kolo_place_is_same_ip(&place, &before));
}
