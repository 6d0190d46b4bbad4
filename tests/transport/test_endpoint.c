// SPDX-License-Identifier: Apache-2.0
// transport/endpoint.c: links that do not exist, closing with a deadline, strangers
// that say nothing, and failing allocations.
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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

/** Connects to where the endpoint listens on shm. */
static int connect_to(const struct kolo_endpoint *endpoint)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct kolo_peer peer;
    kolo_endpoint_self(endpoint, &peer);
    const struct kolo_address *address = &peer.addresses[kolo_transport_index("shm")];
    cr_assert(address->bytes > 0 && address->bytes < sizeof name.sun_path);
    memcpy(name.sun_path + 1, address->data, address->bytes);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const size_t bytes = offsetof(struct sockaddr_un, sun_path) + 1 + address->bytes;
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&name, (socklen_t)bytes) == 0);
    return fd;
}

/** A host may be silent for days, if the user says so; a connection that has proved nothing may
 * not. */
Test(endpoint, drops_a_silent_stranger_whatever_the_peer_timeout, .timeout = 60)
{
    static const char *const timeouts[] = {"100ms", "168h"};
    kolo_deadline by = kolo_deadline_in_ms(5000); /* of the first; the second has 10 s */
    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        struct kolo_endpoint *endpoint = NULL;
        struct kolo_settings settings;
        struct kolo_endpoint_config config = {.size = 2, .settings = &settings};
        char bytes[64];
        bool moved;
        kolo_settings_init(&settings);
        cr_assert_eq(kolo_settings_set(&settings, "TRANSPORT", "shm", KOLO_FROM_API), KOLO_OK);
        cr_assert_eq(kolo_settings_set(&settings, "PEER_TIMEOUT", timeouts[i], KOLO_FROM_API),
                     KOLO_OK, "%s", kolo_error_detail());
        kolo_identity_here(0, &config.identity);
        cr_assert_eq(kolo_endpoint_open(&config, &endpoint), KOLO_OK, "%s", kolo_error_detail());
        const int fd = connect_to(endpoint);
        while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) != 0) {
            kolo_endpoint_arm(endpoint);
            kolo_endpoint_sleep(endpoint, kolo_deadline_in_ms(20));
            kolo_endpoint_disarm(endpoint);
            cr_assert_eq(kolo_endpoint_progress(endpoint, &moved), KOLO_OK);
        }
        cr_assert(!kolo_deadline_passed(by), "after %s", timeouts[i]);
        by = kolo_deadline_in_ms(40000);
        (void)close(fd);
        cr_assert_eq(kolo_endpoint_close(endpoint, 0), KOLO_OK);
    }
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
