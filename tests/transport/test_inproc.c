// SPDX-License-Identifier: Apache-2.0
// The conformance suite over inproc, and what only inproc has.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/await.h"
#include "tests/support/transport_suite.h"

KOLO_TRANSPORT_SUITE(inproc, inproc)

/* Rank 0 sends and closes before rank 1 has looked at its port for the first time. */
static void send_and_close(struct suite_rank *rank)
{
    struct kolo_desc desc = {{1}};
    struct kolo_work work;
    char text[7] = "";
    atomic_int *has_closed = &rank->world->met[0];
    if (rank->rank == 1)
        (void)AWAIT(atomic_load(has_closed) != 0 || atomic_load(&rank->world->failed));
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    SUITE_CHECK(rank, link != NULL, "no link: %s", kolo_error_detail());
    if (rank->rank == 0) {
        kolo_link_send(link, 1, &desc, "before", sizeof text, &work);
        SUITE_CHECK(rank, suite_settle(rank, &work, 1), "not taken");
        (void)kolo_endpoint_close(rank->endpoint, kolo_deadline_in_ms(10000));
        rank->endpoint = NULL;
        atomic_store(has_closed, 1);
        return;
    }
    kolo_link_recv(link, 1, &desc, text, sizeof text, NULL, &work);
    SUITE_CHECK(rank, suite_settle(rank, &work, 1), "not received");
    SUITE_CHECK(rank, work.status == KOLO_OK && strcmp(text, "before") == 0, "%s, '%s'",
                kolo_status_name(work.status), text);
}

Test(inproc, keeps_what_a_peer_sent_before_it_closed, .timeout = 60)
{
    struct suite_world *world = suite_open("inproc", 2, NULL, NULL);
    suite_run(world, send_and_close);
    suite_close(world);
}
