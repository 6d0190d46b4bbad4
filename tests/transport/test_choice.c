// SPDX-License-Identifier: Apache-2.0
// transport/choice.c: which transport joins two ranks, and the text that says why.
#include <string.h>

#include "tests/support/transport_suite.h"
#include "transport/core.h"
#include "transport/tcp.h"

static kolo_status open_with(const char *transport, int size, struct kolo_endpoint **endpoint_out)
{
    static struct kolo_settings settings;
    struct kolo_endpoint_config config = {.size = size, .settings = &settings};
    kolo_settings_init(&settings);
    cr_assert_eq(kolo_settings_set(&settings, "TRANSPORT", transport, KOLO_FROM_API), KOLO_OK);
    kolo_identity_here(0, &config.identity);
    return kolo_endpoint_open(&config, endpoint_out);
}

Test(choice, an_unknown_transport_is_named_with_those_there_are, .timeout = 60)
{
    struct kolo_endpoint *endpoint = NULL;
    cr_assert_eq(open_with("pigeon", 2, &endpoint), KOLO_ERR_CONFIG);
    cr_assert_null(endpoint);
    cr_assert(strstr(kolo_error_detail(), "KOLO_TRANSPORT=pigeon") != NULL, "%s",
              kolo_error_detail());
    cr_assert(strstr(kolo_error_detail(), "inproc") != NULL, "%s", kolo_error_detail());
    cr_assert_eq(open_with("pigeon", 1, &endpoint), KOLO_ERR_CONFIG, "also in a world of one");
}

Test(choice, says_what_joins_two_ranks_and_why, .timeout = 60)
{
    struct suite_world *world = suite_open("inproc", 2, NULL, NULL);
    const char *transport, *why;
    kolo_endpoint_choice(world->ranks[0].endpoint, 1, &transport, &why);
    cr_assert_str_eq(transport, "inproc");
    cr_assert_str_eq(why, "forced by KOLO_TRANSPORT");
    strcpy(world->settings.transport, "auto");
    kolo_endpoint_choice(world->ranks[0].endpoint, 1, &transport, &why);
    cr_assert_str_eq(why, "same process");
    suite_close(world);
}

Test(choice, knows_what_a_peer_offers, .timeout = 60)
{
    struct kolo_peer peer = {.identity = {.rank = 1}};
    int tcp = 0;
    while (strcmp(kolo_transports[tcp]->name, "tcp") != 0)
        tcp++;
    peer.addresses[tcp].bytes = 1;
    cr_assert(kolo_transport_is_offered("tcp", &peer));
    cr_assert_not(kolo_transport_is_offered("shm", &peer));
    cr_assert_not(kolo_transport_is_offered("rdma", &peer), "also where the build has none");
}

Test(choice, a_port_finds_the_address_of_its_own_transport, .timeout = 60)
{
    const struct kolo_transport stranger = {.name = "pigeon"};
    struct kolo_peer peer = {.identity = {.rank = 1}};
    for (int i = 0; kolo_transports[i]; i++) {
        const struct kolo_port port = {.transport = kolo_transports[i]};
        cr_assert_eq(kolo_port_address_of(&port, &peer), &peer.addresses[i]);
        peer.addresses[i].bytes = 1;
    }
    cr_assert_eq(kolo_port_address_of(&(struct kolo_port){.transport = &stranger}, &peer)->bytes, 0,
                 "what no transport of the table has published");
}

/* An address with @p alike places of cards with equal properties, and then another place. */
static struct kolo_line line_of(struct kolo_peer *peer, int tcp, int alike, uint32_t mbit,
                                bool is_hardware)
{
    static const uint8_t ip[] = {10, 0, 0, 1};
    struct kolo_place places[4];
    for (int i = 0; i < 4; i++) {
        places[i] = kolo_place_make(AF_INET, ip, (uint16_t)(4000 + i));
        places[i].facts.is_hardware = is_hardware;
        places[i].facts.speed_mbit = i < alike ? mbit : mbit / 10;
    }
    cr_assert_eq(kolo_tcp_write_places(places, 4, &peer->addresses[tcp]), KOLO_OK);
    return kolo_transport_line("tcp", peer);
}

Test(choice, knows_a_peers_line_as_its_cards_say, .timeout = 60)
{
    struct kolo_peer peer = {.identity = {.rank = 1}};
    struct kolo_line line = kolo_transport_line("tcp", &peer);
    int tcp = 0;
    while (strcmp(kolo_transports[tcp]->name, "tcp") != 0)
        tcp++;
    cr_assert(line.mbit == 0 && line.cards == 0, "no address");
    line = line_of(&peer, tcp, 2, 25000, true);
    cr_assert(line.mbit == 25000 && line.cards == 2, "%u, %zu", line.mbit, line.cards);
    line = line_of(&peer, tcp, 1, 100000, true);
    cr_assert(line.mbit == 100000 && line.cards == 1, "%u, %zu", line.mbit, line.cards);
    cr_assert_eq(line_of(&peer, tcp, 4, 10, false).mbit, 0, "a tunnel's speed means nothing");
    cr_assert_eq(line_of(&peer, tcp, 4, 0, true).mbit, 0, "unknown");
    peer.addresses[tcp].bytes = 5;
    cr_assert_eq(kolo_transport_line("tcp", &peer).mbit, 0, "cut off");
    cr_assert_eq(kolo_transport_line("shm", &peer).mbit, 0);
}

Test(choice, a_pair_that_nothing_joins_hears_why_a_transport_was_left_out, .timeout = 60)
{
    struct kolo_endpoint *endpoint = NULL;
    struct kolo_settings settings;
    struct kolo_endpoint_config config = {.size = 2, .settings = &settings};
    struct kolo_peer peers[2];
    kolo_settings_init(&settings);
    cr_assert_eq(kolo_settings_set(&settings, "NET", "nosuchnet0", KOLO_FROM_API), KOLO_OK);
    kolo_identity_here(0, &config.identity);
    cr_assert_eq(kolo_endpoint_open(&config, &endpoint), KOLO_OK, "%s", kolo_error_detail());
    memset(peers, 0, sizeof peers);
    peers[0].identity = peers[1].identity = config.identity;
    strcpy(peers[1].identity.host, "host2");
    peers[1].identity.process++;
    cr_assert_eq(kolo_endpoint_set_peers(endpoint, peers), KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "no tcp here: ") != NULL, "%s", kolo_error_detail());
    cr_assert(strstr(kolo_error_detail(), "\"nosuchnet0\"") != NULL, "%s", kolo_error_detail());
    kolo_endpoint_close(endpoint, 0);
}

Test(choice, a_forced_transport_that_does_not_reach_is_an_error_that_names_the_rank, .timeout = 60)
{
    struct suite_world *world = suite_open("inproc", 3, NULL, NULL);
    struct kolo_endpoint *endpoint = world->ranks[0].endpoint;
    world->peers[2].identity.process++;
    cr_assert_eq(kolo_endpoint_set_peers(endpoint, world->peers), KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "rank 2") != NULL, "%s", kolo_error_detail());
    cr_assert(strstr(kolo_error_detail(), "another process") != NULL, "%s", kolo_error_detail());
    world->peers[2].identity.process--;
    world->peers[1].addresses[0].bytes = 0;
    cr_assert_eq(kolo_endpoint_set_peers(endpoint, world->peers), KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "rank 1") != NULL, "%s", kolo_error_detail());
    suite_close(world);
}
