// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "tests/support/transport_suite.h"
#include "transport/core.h"

static kolo_status open_with(const char *transport, int size, struct kolo_endpoint **endpoint_out)
{
    static struct kolo_settings settings;
    struct kolo_endpoint_config config = {.size = size, .settings = &settings};
    kolo_settings_init(&settings);
    cr_assert_eq(kolo_settings_set(&settings, "TRANSPORT", transport, KOLO_FROM_API), KOLO_OK);
    kolo_identity_here(0, &config.identity);
    return kolo_endpoint_open(&config, endpoint_out);
}

Test(endpoint, an_unknown_transport_is_named_with_those_there_are, .timeout = 60)
{
    struct kolo_endpoint *endpoint = NULL;
    cr_assert_eq(open_with("pigeon", 2, &endpoint), KOLO_ERR_CONFIG);
    cr_assert_null(endpoint);
    cr_assert(strstr(kolo_error_detail(), "KOLO_TRANSPORT=pigeon") != NULL, "%s",
              kolo_error_detail());
    cr_assert(strstr(kolo_error_detail(), "inproc") != NULL, "%s", kolo_error_detail());
    cr_assert_eq(open_with("pigeon", 1, &endpoint), KOLO_ERR_CONFIG, "also in a world of one");
}

Test(endpoint, says_what_joins_two_ranks_and_why, .timeout = 60)
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

Test(endpoint, a_forced_transport_that_does_not_reach_is_an_error_that_names_the_rank,
     .timeout = 60)
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

Test(endpoint, has_no_link_to_itself_or_beyond_the_world, .timeout = 60)
{
    struct suite_world *world = suite_open("inproc", 2, NULL, NULL);
    struct kolo_link *link = NULL;
    for (int peer = -1; peer <= 2; peer++)
        if (peer != 1)
            cr_assert_eq(kolo_endpoint_link(world->ranks[0].endpoint, peer, KOLO_NEVER, &link),
                         KOLO_ERR_INVALID);
    cr_assert_null(link);
    suite_close(world);
}

Test(endpoint, close_gives_up_at_its_deadline_and_frees_all, .timeout = 60)
{
    struct suite_world *world = suite_open("inproc", 2, NULL, NULL);
    struct kolo_link *link = suite_link(&world->ranks[0], 1);
    struct kolo_desc desc = {{0}};
    static uint8_t memory[100000];
    struct kolo_work work;
    kolo_link_send(link, 1, &desc, memory, sizeof memory, &work);
    struct kolo_endpoint *endpoint = world->ranks[0].endpoint;
    world->ranks[0].endpoint = NULL;
    cr_assert_eq(kolo_endpoint_close(endpoint, kolo_deadline_in_ms(30)), KOLO_ERR_TIMEOUT);
    cr_assert(strstr(kolo_error_detail(), "to rank 1: inproc rank 1 up") != NULL, "%s",
              kolo_error_detail());
    cr_assert_eq(work.status, KOLO_ERR_ABORTED);
    suite_close(world);
    cr_assert_eq(kolo_endpoint_close(NULL, 0), KOLO_OK);
}

Test(endpoint, every_failing_allocation_at_open_is_a_status, .timeout = 60)
{
    struct kolo_endpoint *endpoint = NULL;
    for (uint64_t nth = 1; nth < 10; nth++) {
        kolo_alloc_fail_nth(nth);
        kolo_status status = open_with("inproc", 2, &endpoint);
        kolo_alloc_fail_nth(0);
        if (status == KOLO_OK)
            cr_assert_eq(kolo_endpoint_close(endpoint, 0), KOLO_OK);
        else
            cr_assert_eq(status, KOLO_ERR_NO_MEMORY);
    }
}
