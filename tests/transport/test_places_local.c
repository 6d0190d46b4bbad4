// SPDX-License-Identifier: Apache-2.0
// The addresses of this machine: which are offered, in which order, and the effect of KOLO_NET.
#include <criterion/criterion.h>

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/add_label.h"
#include "tests/support/place_text.h"
#include "transport/places.h"

Test(places_local, one_address_is_allowed_as_all_of_them_are)
{
    static const struct {
        const char *net;
        int entry;
    } cases[] = {{"", 0},       {"eth7", 0},  {"eth8", -1},           {"eth8,10.0.0.0/8", 1},
                 {"^eth7", -1}, {"!eth8", 0}, {"eth7,^10.0.0.5", -1}, {"11.0.0.0/8", -1},
                 {"//", -1}};
    struct kolo_place place;
    size_t count = 0;

    cr_assert(kolo_places_resolve("10.0.0.5:1", 0, &place, 1, &count) == KOLO_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_assert(kolo_places_entry(cases[i].net, "eth7", &place) == cases[i].entry, "%s: %d",
                  cases[i].net, kolo_places_entry(cases[i].net, "eth7", &place));
}

/** In a network of its own nothing is up. */
Test(places_local, loopback_works_if_it_is_up)
{
    cr_expect(kolo_places_loopback_works());
    if (unshare(CLONE_NEWNET) == 0)
        cr_expect(!kolo_places_loopback_works());
}

Test(places_local, local_addresses_carry_the_port_and_no_link_local)
{
    struct kolo_place places[32];
    size_t count = 0;

    cr_assert(kolo_places_local("", 4711, places, 32, &count) == KOLO_OK);
    cr_assert(count >= 1);
    for (size_t i = 0; i < count; i++) {
        cr_assert(strstr(place_text(&places[i]), ":4711"), "%s", place_text(&places[i]));
        cr_assert(!strstr(place_text(&places[i]), "fe80"), "%s", place_text(&places[i]));
        cr_assert(count == 1 || i == count - 1 || !strstr(place_text(&places[i]), "127.0.0.1") ||
                      strstr(place_text(&places[i + 1]), "[::1]"),
                  "loopback is last");
    }
}

/** The NUMA node of an interface according to /sys, read independently. */
static int node_of(const char *interface)
{
    char path[96];
    int node = -1;

    snprintf(path, sizeof path, "/sys/class/net/%s/device/numa_node", interface);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%d", &node) != 1)
        node = -1;
    if (file)
        fclose(file);
    return node;
}

Test(places_local, local_addresses_know_the_numa_node_of_their_interface)
{
    struct kolo_place places[32];
    size_t count = 0;

    cr_assert(kolo_places_local("", 1, places, 32, &count) == KOLO_OK);
    for (size_t i = 0; i < count; i++)
        cr_assert(places[i].facts.numa_node == node_of(places[i].facts.interface), "%s: %d",
                  places[i].facts.interface, places[i].facts.numa_node);
    cr_assert(kolo_places_local("lo", 1, places, 32, &count) == KOLO_OK);
    cr_assert(places[0].facts.numa_node == -1, "no card: no node");
}

Test(places_local, net_chooses_by_name_network_and_address)
{
    struct kolo_place places[8];
    size_t count = 0;

    cr_assert(kolo_places_local("lo", 1, places, 8, &count) == KOLO_OK);
    cr_assert_str_eq(place_text(&places[0]), "127.0.0.1:1");
    cr_assert(kolo_places_local("127.0.0.0/8", 1, places, 8, &count) == KOLO_OK);
    cr_assert(count == 1, "IPv4 only: %zu", count);
    cr_assert(kolo_places_local("127.0.0.1", 1, places, 8, &count) == KOLO_OK);
    cr_assert(count == 1);
    cr_assert(kolo_places_local("126.0.0.0/7,lo", 1, places, 8, &count) == KOLO_OK);
    cr_assert_str_eq(place_text(&places[0]), "127.0.0.1:1");
    cr_assert(kolo_places_local("nosuch0,lo", 1, places, 8, &count) == KOLO_OK,
              "hosts name their interfaces differently: one entry that fits is enough");
    cr_assert_str_eq(place_text(&places[0]), "127.0.0.1:1");
}

Test(places_local, bits_of_a_network_that_count)
{
    struct kolo_place place;
    size_t count = 0;

    cr_assert(kolo_places_resolve("10.1.2.3:1", 0, &place, 1, &count) == KOLO_OK);
    cr_expect(kolo_places_entry("0.0.0.0/0", "eth0", &place) == 0, "any address");
    cr_expect(kolo_places_entry("10.1.2.2/31", "eth0", &place) == 0);
    cr_expect(kolo_places_entry("10.1.2.2/32", "eth0", &place) == -1);
    cr_expect(kolo_places_entry("10.1.2.2", "eth0", &place) == -1);
    cr_expect(kolo_places_entry("11.1.2.3/7", "eth0", &place) == 0);
    cr_expect(kolo_places_entry("11.1.2.3/8", "eth0", &place) == -1);
    cr_expect(kolo_places_entry("8.0.0.0/6,10.1.0.0/16", "eth0", &place) == 0);
    cr_expect(kolo_places_entry("10.2.0.0/15,10.1.3.0/23,10.1.2.3", "eth0", &place) == 1);
    cr_expect(kolo_places_entry("::/0", "eth0", &place) == -1, "another family");
}

/** Of the addresses that `net` allows, the one that is not loopback's; "": none. */
static const char *other_than_loopback(const char *net)
{
    static struct kolo_place places[8];
    size_t count = 0;
    cr_assert(kolo_places_local(net, 1, places, 8, &count) == KOLO_OK, "%s", kolo_error_detail());
    for (size_t i = 0; i < count; i++) {
        cr_assert_str_eq(places[i].facts.interface, "lo", "%s", places[i].facts.interface);
        if (!kolo_place_is_loopback(&places[i]))
            return place_text(&places[i]);
    }
    return "";
}

/** In a network of its own, the address is found by no name, by its interface and by its label. */
static void find_by_label(const char *label)
{
    const char *const names[] = {"", "lo", label};
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        cr_skip_test("no network of its own is allowed here");
    cr_assert(add_label(label, "10.1.2.3"));
    for (int i = 0; i < 3; i++)
        cr_expect_str_eq(other_than_loopback(names[i]), "10.1.2.3:1", "%s", names[i]);
}

Test(places_local, an_address_with_a_label_is_of_its_interface)
{
    find_by_label("lo:7");
    cr_expect_str_eq(other_than_loopback("^lo:7"), "");
    cr_expect_str_eq(other_than_loopback("lo,!lo:7"), "");
    struct kolo_place place;
    size_t count = 0;
    cr_assert(kolo_places_resolve("10.1.2.3:1", 0, &place, 1, &count) == KOLO_OK);
    cr_expect(kolo_places_entry("lo:8,lo:7", "lo", &place) == 1);
    cr_expect(kolo_places_entry("lo:8,lo", "lo", &place) == 1);
    cr_expect(kolo_places_entry("lo:8", "lo", &place) == -1);
    cr_expect(kolo_places_local("lo:8", 1, &place, 1, &count) == KOLO_ERR_CONFIG);
    cr_expect(strstr(kolo_error_detail(), "lo 10.1.2.3"), "%s", kolo_error_detail());
}

/** iproute2 accepts what begins with the interface's name, the kernel anything. */
Test(places_local, a_label_without_a_colon_is_not_an_interface)
{
    find_by_label("lo7");
    cr_expect_str_eq(other_than_loopback("lo,^lo7"), "");
    struct kolo_place place;
    size_t count = 0;
    cr_expect(kolo_places_local("^lo", 1, &place, 1, &count) == KOLO_ERR_CONFIG);
    cr_assert(kolo_places_resolve("10.1.2.3:1", 0, &place, 1, &count) == KOLO_OK);
    cr_expect(kolo_places_entry("lo8,lo7", "lo", &place) == 1);
    cr_expect(kolo_places_entry("lo8,lo", "lo", &place) == 1);
}

Test(places_local, entries_that_name_nothing_are_known)
{
    char text[64], cut[8];

    kolo_places_unnamed("nosuch0,lo,203.0.113.0/24,^nosuch1", text, sizeof text);
    cr_assert_str_eq(text, "nosuch0, 203.0.113.0/24", "%s", text);
    kolo_places_unnamed("nosuch0,lo", cut, sizeof cut);
    cr_assert_str_eq(cut, "nosuch0");
    kolo_places_unnamed("lo", text, sizeof text);
    cr_assert_str_eq(text, "");
    kolo_places_unnamed("", text, sizeof text);
    cr_assert_str_eq(text, "");
    kolo_places_unnamed("10.0.0.0/33", text, sizeof text);
    cr_assert_str_eq(text, "", "what cannot be read is an error elsewhere");
}

/** What is unusable needs a second host: tests/cluster/network.sh has it. */
Test(places_local, addresses_here_are_usable)
{
    char text[64] = "x";

    kolo_places_unusable("lo", text, sizeof text);
    cr_assert_str_eq(text, "");
}

Test(places_local, net_leaves_out_what_is_marked)
{
    struct kolo_place all[32], places[32];
    size_t all_count = 0, count = 0;

    cr_assert(kolo_places_local("lo,^127.0.0.0/8,^::1", 1, places, 32, &count) == KOLO_ERR_CONFIG);
    cr_assert(kolo_places_local("^lo,lo", 1, places, 32, &count) == KOLO_ERR_CONFIG,
              "left out whatever else names it");
    cr_assert(kolo_places_local("lo,!::1", 1, places, 32, &count) == KOLO_OK);
    cr_assert(count == 1);
    cr_assert_str_eq(place_text(&places[0]), "127.0.0.1:1");
    cr_assert(kolo_places_local("", 1, all, 32, &all_count) == KOLO_OK);
    cr_assert(kolo_places_local("^nosuch0,!203.0.113.0/24", 1, places, 32, &count) == KOLO_OK);
    cr_assert(count == all_count, "what is not there can be left out: %zu of %zu", count,
              all_count);
}

Test(places_local, net_refuses_what_it_cannot_read_or_find)
{
    static const char *const bad[] = {
        "nosuch0",      "10.0.0.0/33",
        "10.0.0.0/",    "127.0.0.1/x",
        "127.0.0.0/8,", "fd00::/129",
        "lo/8",         "^",
        "!!lo",         "^lo/8",
        "240.0.0.0/30", "name-that-is-longer-than-any-interface-or-address-could-be"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kolo_place places[8];
        size_t count = 77;
        cr_assert(kolo_places_local(bad[i], 1, places, 8, &count) == KOLO_ERR_CONFIG, "\"%s\"",
                  bad[i]);
        cr_assert(count == 77 && strstr(kolo_error_detail(), "KOLO_NET"), "%s",
                  kolo_error_detail());
    }
    struct kolo_place place;
    size_t count;
    cr_assert(kolo_places_local("nosuch0", 1, &place, 1, &count) == KOLO_ERR_CONFIG);
    cr_assert(strstr(kolo_error_detail(), "nosuch0") && strstr(kolo_error_detail(), "lo 127.0.0.1"),
              "says what there is: %s", kolo_error_detail());
}

Test(places_local, those_for_which_there_is_no_room_are_counted)
{
    struct kolo_place places[64];
    size_t count = 0;

    cr_assert(kolo_places_local("lo", 1, places, 64, &count) == KOLO_OK);
    cr_assert(kolo_places_missed("lo", places, count) == 0, "all are there");
    cr_assert(kolo_places_missed("lo", places, 0) == count);
    cr_assert(kolo_places_missed("nosuch0", places, 0) == 0);
    cr_assert(kolo_places_missed("10.0.0.0/33", places, 0) == 0);
}
