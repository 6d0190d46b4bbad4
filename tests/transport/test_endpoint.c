// SPDX-License-Identifier: Apache-2.0
// transport/endpoint.c: links that do not exist, closing with a deadline, and failing allocations.
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
