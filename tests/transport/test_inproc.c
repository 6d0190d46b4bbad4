// SPDX-License-Identifier: Apache-2.0
// The conformance suite over inproc, and what only inproc has.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
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

/* A callback of a frame that is being received fails the link, which then gives up all frames that
 * have come; AddressSanitizer finds what is used afterwards. */
static struct kolo_endpoint *ends[2];

static void abort_without_memory(void *context, int peer, uint32_t channel,
                                 const struct kolo_desc *arrived)
{
    (void)context;
    (void)peer;
    (void)arrived;
    kolo_alloc_fail_nth(2); /* the message that tells of it, and not the text of the failure */
    kolo_endpoint_abort(ends[1], NULL, 0, channel, KOLO_ERR_ABORTED, "given up");
    kolo_alloc_fail_nth(0);
}

static void note_down(void *context, int peer, kolo_status why, const char *text)
{
    (void)peer;
    (void)text;
    *(kolo_status *)context = why;
}

Test(inproc, a_callback_may_end_the_link, .timeout = 60)
{
    enum { FRAMES = 3 };
    kolo_status down = KOLO_OK;
    struct kolo_settings settings;
    struct kolo_peer peers[2];
    struct kolo_link *links[2];
    struct kolo_work works[FRAMES];
    const struct kolo_desc desc = {{1}};
    const char data[64] = "";
    bool has_moved;
    kolo_settings_init(&settings);
    snprintf(settings.transport, sizeof settings.transport, "inproc");
    for (int i = 0; i < 2; i++) {
        struct kolo_endpoint_config config = {.rank = i, .size = 2, .settings = &settings};
        config.events.context = &down;
        config.events.down = note_down;
        config.events.early = i == 1 ? abort_without_memory : NULL;
        kolo_identity_here(i, &config.identity);
        cr_assert(kolo_endpoint_open(&config, &ends[i]) == KOLO_OK, "%s", kolo_error_detail());
        kolo_endpoint_self(ends[i], &peers[i]);
    }
    for (int i = 0; i < 2; i++)
        cr_assert(kolo_endpoint_set_peers(ends[i], peers) == KOLO_OK, "%s", kolo_error_detail());
    for (int i = 0; i < 2; i++)
        cr_assert(kolo_endpoint_link(ends[i], 1 - i, KOLO_NEVER, &links[i]) == KOLO_OK, "%s",
                  kolo_error_detail());
    for (int i = 0; i < FRAMES; i++)
        kolo_link_send(links[0], 8, &desc, data, sizeof data, &works[i]);
    cr_assert(kolo_endpoint_progress(ends[1], &has_moved) == KOLO_OK);
    cr_assert(down == KOLO_ERR_NO_MEMORY, "the link is up: %s", kolo_status_name(down));
    for (int i = 0; i < 2; i++)
        (void)kolo_endpoint_close(ends[i], kolo_deadline_in_ms(1000));
}
