// SPDX-License-Identifier: Apache-2.0
// Checksums over TCP: the conformance suite with them, and one bit of a frame that changes behind
// its checksum. Without checksums the message is wrong and nobody notices; with them its receive
// fails, and the error says what it was. Both for messages that are copied and reduced, whose
// receive waits or comes late, and of all lengths.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/flip.h"
#include "tests/support/transport_suite.h"
#include "transport/core.h"

static void use_checksums(void)
{
    suite_checksum = "1";
}
TestSuite(tcp_checksum, .init = use_checksums, .timeout = 180);
KOLO_TRANSPORT_SUITE(tcp_checksum, tcp)

/* ---- one bit ---- */

/** The case that the ranks carry out now. */
static struct {
    size_t bytes;
    bool reduces, is_early;
    enum flip_place place;
    int nth; /* of the message's frames */
} now;

static bool has_early(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[0].early > 0;
}

static bool is_down(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].down > 0;
}

static void fill(uint8_t *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)(i * 7 + i / 251 + 3);
}

static size_t count_wrong(const uint8_t *memory, size_t bytes, unsigned added)
{
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        wrong += memory[i] != (uint8_t)(i * 7 + i / 251 + 3 + added);
    return wrong;
}

/** The link, over which a message has gone. */
static struct kolo_link *come_up(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    const struct kolo_desc desc = {{9}};
    struct kolo_work works[2];
    uint8_t in = 0;
    if (!link)
        return NULL;
    kolo_link_send(link, 5, &desc, "x", 1, &works[0]);
    kolo_link_recv(link, 5, &desc, &in, 1, NULL, &works[1]);
    return suite_settle(rank, works, 2) && suite_meet(rank, 0) ? link : NULL;
}

static void check_error(struct suite_rank *rank, const struct kolo_work *work)
{
    const struct suite_heard *heard = &rank->heard[0];
    char what[64] = "";
    SUITE_CHECK(rank, work->status == KOLO_ERR_DATA, "%s", kolo_status_name(work->status));
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "no event");
    SUITE_CHECK(rank, heard->down == 1 && heard->why == KOLO_ERR_DATA, "%s",
                kolo_status_name(heard->why));
    SUITE_CHECK(rank, strstr(heard->text, " changed on the way here, over tcp 127.0.0.1:"), "%s",
                heard->text);
    SUITE_CHECK(rank, strstr(heard->text, "kolobench diagnose"), "%s", heard->text);
    if (now.place == FLIP_HEADER)
        snprintf(what, sizeof what, "the header of a frame ");
    else if (!now.is_early)
        snprintf(what, sizeof what, "on, in a message of %zu bytes of channel 1, ", now.bytes);
    else /* later frames may come when the receive is there */
        snprintf(what, sizeof what, "%s",
                 now.nth == 1 ? "on, in a message of channel 1 that came early, "
                              : " of channel 1");
    SUITE_CHECK(rank, strstr(heard->text, what), "not '%s' but %s", what, heard->text);
}

static void receive(struct suite_rank *rank, struct kolo_link *link, uint8_t *memory)
{
    const struct kolo_desc desc = {{1, 2, 3}};
    const struct kolo_action sum = {
        .kind = KOLO_REDUCE, .dtype = KOLO_UINT8, .op = KOLO_SUM, .local = memory};
    const bool is_covered = link->sums != NULL;
    struct kolo_work work;
    memset(memory, now.reduces ? 1 : 0, now.bytes);
    if (now.is_early && now.place != FLIP_HEADER)
        SUITE_CHECK(rank, suite_until(rank, has_early, NULL), "nothing came early");
    if (now.is_early) /* the link may be down before the receive is posted */
        for (int i = 0; i < 1000; i++)
            SUITE_CHECK(rank, kolo_endpoint_progress(rank->endpoint, NULL) == KOLO_OK, "progress");
    kolo_link_recv(link, 1, &desc, memory, now.bytes, now.reduces ? &sum : NULL, &work);
    SUITE_CHECK(rank, is_covered || now.is_early || suite_meet(rank, 1), "rank 1");
    if (!is_covered && now.place == FLIP_HEADER) { /* it went to another channel */
        kolo_work_cancel(&work);
        return;
    }
    SUITE_CHECK(rank, suite_settle(rank, &work, 1), "stuck");
    if (is_covered) {
        check_error(rank, &work);
        return;
    }
    SUITE_CHECK(rank, work.status == KOLO_OK, "%s: %s", kolo_status_name(work.status),
                rank->heard[0].text);
    SUITE_CHECK(rank, count_wrong(memory, now.bytes, now.reduces ? 1 : 0) == 1, "%zu bytes wrong",
                count_wrong(memory, now.bytes, now.reduces ? 1 : 0));
}

static void one_bit(struct suite_rank *rank)
{
    struct kolo_link *link = come_up(rank);
    uint8_t *memory = malloc(now.bytes);
    const struct kolo_desc desc = {{1, 2, 3}};
    struct kolo_work work;
    SUITE_CHECK(rank, link && memory, "no link");
    if (rank->rank == 0) {
        const bool is_covered = link->sums != NULL;
        fill(memory, now.bytes);
        SUITE_CHECK(rank, is_covered || now.is_early || suite_meet(rank, 1), "rank 0");
        flip_arm(0, now.nth, 1, now.place);
        kolo_link_send(link, 1, &desc, memory, now.bytes, &work);
        SUITE_CHECK(rank, suite_settle(rank, &work, 1), "stuck");
        SUITE_CHECK(rank, is_covered || work.status == KOLO_OK, "%s", rank->heard[1].text);
    } else {
        receive(rank, link, memory);
    }
    SUITE_CHECK(rank, suite_meet(rank, 2), "end");
    free(memory);
}

static void each_place(const char *checksum, size_t bytes, int nth)
{
    suite_checksum = checksum;
    for (int i = 0; i < 16; i++) {
        now.bytes = bytes;
        now.nth = nth;
        now.reduces = i % 2 == 1;
        now.is_early = i / 2 % 2 == 1;
        now.place = (enum flip_place)(i / 4);
        struct suite_world *world = suite_open("tcp", 2, NULL, NULL);
        suite_run(world, one_bit);
        cr_assert(flip_done(NULL, NULL), "nothing was changed: %zu bytes, case %d", bytes, i);
        suite_close(world);
        flip_end();
    }
}

Test(tcp_checksum, without_them_a_bit_that_changes_is_a_wrong_result_with_OK)
{
    each_place("0", 1, 1);
    each_place("0", 5000, 1);
    each_place("0", 300000, 1);
    each_place("0", 3000000, 2);
}

Test(tcp_checksum, a_bit_of_a_short_message_is_an_error)
{
    each_place("1", 1, 1);
    each_place("1", 16, 1);
    each_place("1", 5000, 1);
}

Test(tcp_checksum, a_bit_of_a_long_message_is_an_error)
{
    each_place("1", 300000, 1);
    each_place("1", 300000, 2);
    each_place("1", 3000000, 1);
    each_place("1", 3000000, 3);
}
