// SPDX-License-Identifier: Apache-2.0
// Links whose queue pair breaks while the peer lives, over devices in memory. Either they come
// back, and every message arrives once and whole, wherever the break was, whether or not the
// interrupted request had arrived, and whatever fails during recovery; or they end with the error
// that broke them.
#include "tests/support/transport_suite.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "tests/support/fake_fixture.h"
#include "tests/support/rdma_messages.h"
#include "transport/checksum.h"
#include "transport/rdma.h"

enum { BYTES = 1300000, ROUNDS = 4 };

TestSuite(rdma_resume, .init = begin, .fini = end, .timeout = 120);

/* ---- the traffic ---- */

static void (*fault)(struct suite_rank *rank);

/** In both directions at the same time: messages that are written directly, that are sent to eager
 * buffers from where they lie, and that are copied. */
static void exchange_all(struct suite_rank *rank, struct kolo_link *link, uint8_t *memory,
                         uint8_t *own, unsigned round)
{
    struct kolo_desc desc = {{9}};
    struct kolo_work works[6];
    uint8_t *out = memory, *in = memory + BYTES, small[2] = {(uint8_t)round, 0};
    const unsigned ours = round + (unsigned)rank->rank, theirs = round + 1 - (unsigned)rank->rank;
    fill(out, BYTES, ours);
    memset(in, 0, BYTES);
    memset(own, 0, BYTES);
    kolo_link_recv(link, 1, &desc, in, BYTES, NULL, &works[0]);
    kolo_link_recv(link, 2, &desc, own, BYTES, NULL, &works[1]);
    kolo_link_recv(link, 3, &desc, &small[1], 1, NULL, &works[2]);
    kolo_link_send(link, 1, &desc, out, BYTES, &works[3]);
    kolo_link_send(link, 2, &desc, out, BYTES, &works[4]);
    kolo_link_send(link, 3, &desc, &small[0], 1, &works[5]);
    SUITE_CHECK(rank, suite_settle(rank, works, 6), "stuck in round %u: %s", round, logged);
    for (int i = 0; i < 6; i++)
        SUITE_CHECK(rank, works[i].status == KOLO_OK, "%s: %s", kolo_status_name(works[i].status),
                    rank->heard[1 - rank->rank].text);
    SUITE_CHECK(rank,
                small[1] == round && first_wrong(in, BYTES, theirs) == BYTES &&
                    first_wrong(own, BYTES, theirs) == BYTES,
                "round %u: content", round);
}

static void work(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *memory = allocate(rank, 2 * (size_t)BYTES), *own = malloc(BYTES);
    SUITE_CHECK(rank, link && memory && own, "no link");
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    if (rank->rank == 0)
        fault(rank);
    for (unsigned round = 0; round < ROUNDS; round++)
        exchange_all(rank, link, memory, own, round);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 4), "the last");
    free(own);
}

static void run(void)
{
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "10s");
    suite_run(world, work);
    suite_close(world);
}

static bool came_back(void)
{
    return strstr(logged, "trying to bring it back") && strstr(logged, ": back after ");
}

/* ---- where the queue pair breaks ---- */

static int nth;

static void lose_a_message(struct suite_rank *rank)
{
    (void)rank;
    fake_verbs_complete_as(nth, IBV_WC_RETRY_EXC_ERR);
}
static void lose_an_answer(struct suite_rank *rank)
{
    (void)rank;
    fake_verbs_lose_answer(nth);
}

static void come_back_from(int first, int end, int step, void (*what)(struct suite_rank *rank))
{
    fault = what;
    for (nth = first; nth < end; nth += step) {
        logged[0] = '\0';
        run();
        cr_assert(came_back(), "%d: %s", nth, logged);
    }
}

Test(rdma_resume, a_message_that_is_lost_is_sent_again)
{
    come_back_from(1, 120, 7, lose_a_message);
}

Test(rdma_resume, a_message_whose_answer_is_lost_is_not_taken_twice)
{
    come_back_from(1, 120, 7, lose_an_answer);
}

static void refuse_a_send(struct suite_rank *rank)
{
    (void)rank;
    fake_verbs_fail("post_send", nth, EINVAL);
}
static void refuse_a_receive(struct suite_rank *rank)
{
    (void)rank;
    fake_verbs_fail("post_recv", nth, ENOMEM);
}

/** Some devices refuse what is posted to a pair that has broken before they report why it broke. */
Test(rdma_resume, a_request_that_is_refused_is_posted_to_another_pair)
{
    come_back_from(1, 120, 7, refuse_a_send);
    come_back_from(1, 60, 7, refuse_a_receive);
}

/* ---- what fails during recovery ---- */

static const char *function;

static void lose_and_fail(struct suite_rank *rank)
{
    (void)rank;
    fake_verbs_complete_as(20, IBV_WC_RETRY_EXC_ERR);
    fake_verbs_fail(function, nth, EINVAL);
}

/** For one queue pair that breaks, two are stopped, prepared, connected and made ready to send. */
Test(rdma_resume, a_round_that_fails_is_followed_by_another)
{
    function = "modify_qp";
    come_back_from(5, 9, 1, lose_and_fail); /* connected to its peer's, or made ready to send */
}

/** Of what the replaced pair posts again, and after that. */
Test(rdma_resume, a_request_that_is_refused_on_the_way_back_is_not_lost)
{
    function = "post_send";
    come_back_from(20, 60, 3, lose_and_fail);
}

/* ---- an address that is away ---- */

static bool has_failed_twice(struct suite_rank *rank, void *context)
{
    const struct rdma_link *link = context;
    (void)rank;
    return link->resume.tries >= 2;
}

/** The queue pair of rank 0 breaks while its port has no address. Rank 1 only receives, so it hears
 * of no round that is not offered. */
static void lose_the_address_for_a_while(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    struct fake_port *port = &fake_verbs_device(0)->ports[0];
    const int count = port->gid_count;
    struct kolo_work work;
    char byte = 0;
    SUITE_CHECK(rank, link && suite_meet(rank, 1), "no link");
    if (rank->rank == 0) {
        fake_verbs_complete_as(1, IBV_WC_RETRY_EXC_ERR);
        port->gid_count = 0;
        kolo_link_send(link, 9, &desc, "z", 1, &work);
        SUITE_CHECK(rank, suite_until(rank, has_failed_twice, link), "no round failed");
        port->gid_count = count;
    } else {
        kolo_link_recv(link, 9, &desc, &byte, 1, NULL, &work);
    }
    SUITE_CHECK(rank, suite_settle(rank, &work, 1) && work.status == KOLO_OK, "%s: %s",
                kolo_status_name(work.status), rank->heard[1 - rank->rank].text);
    SUITE_CHECK(rank, byte == (rank->rank == 0 ? 0 : 'z'), "content");
    SUITE_CHECK(rank, suite_meet(rank, 2), "rank %d", rank->rank);
}

/** Rounds that fail before the peer was told of them do not count: the peer expects the number that
 * comes next. */
Test(rdma_resume, an_address_that_was_away_for_a_while)
{
    suite_devices[0] = "fake0";
    suite_devices[1] = "fake1";
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "10s");
    suite_run(world, lose_the_address_for_a_while);
    suite_close(world);
    cr_assert(came_back(), "%s", logged);
}

/* ---- a cable ---- */

static bool is_logged(struct suite_rank *rank, void *text)
{
    (void)rank;
    pthread_mutex_lock(&logged_lock);
    bool is = strstr(logged, text) != NULL;
    pthread_mutex_unlock(&logged_lock);
    return is;
}

static size_t lost_bytes = 1;

/** Nothing passes for a while, in either direction. */
static void flap(struct suite_rank *rank)
{
    static const uint8_t lost[100];
    struct kolo_link *link = suite_link(rank, 1);
    struct kolo_desc desc = {{7}};
    static struct kolo_work first;
    static char text[] = "trying to bring it back";
    fake_verbs_cut_cable(true);
    kolo_link_send(link, 9, &desc, lost, lost_bytes, &first);
    if (!suite_until(rank, is_logged, text))
        suite_fail(rank, "break", "nobody noticed");
    fake_verbs_cut_cable(false);
}

Test(rdma_resume, a_cable_that_was_out_for_a_while)
{
    fault = flap;
    run();
    cr_assert(came_back(), "%s", logged);
}

/** The addresses are at other positions in the table when the cable is back. */
static void flap_and_move(struct suite_rank *rank)
{
    for (int i = 0; i < 2; i++)
        fake_verbs_turn_gids(&fake_verbs_device(i)->ports[0]);
    flap(rank);
}

Test(rdma_resume, an_address_that_stands_elsewhere_is_found_again)
{
    fault = flap_and_move;
    run();
    cr_assert(came_back(), "%s", logged);
}

/** As if other programs had taken the device's resources for inline sends. */
static void flap_and_inline_less(struct suite_rank *rank)
{
    fake_verbs_device(0)->inline_most = fake_verbs_device(1)->inline_most = 64;
    flap(rank);
}

Test(rdma_resume, a_fresh_pair_may_inline_less)
{
    lost_bytes = 100; /* too long for inline sends now, but not before */
    fault = flap_and_inline_less;
    run();
    cr_assert(came_back(), "%s", logged);
}

static bool is_down(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].down > 0;
}

static void lose_the_cable(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    struct kolo_work sent;
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 0)
        fake_verbs_cut_cable(true);
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    kolo_link_send(link, 9, &desc, "z", 1, &sent);
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "nobody noticed");
}

Test(rdma_resume, a_cable_that_stays_out_is_the_error_that_it_was)
{
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "1s");
    int named = 0;
    suite_run(world, lose_the_cable);
    for (int i = 0; i < 2; i++) {
        const struct suite_heard *heard = &world->ranks[i].heard[1 - i];
        cr_assert(heard->down == 1 && heard->why == KOLO_ERR_LINK, "%s", heard->text);
        named += strstr(heard->text, " on ") && strstr(heard->text, "by rdma fake0 port 1: ");
    }
    cr_assert(named > 0, "%s / %s", world->ranks[0].heard[1].text, world->ranks[1].heard[0].text);
    fake_verbs_cut_cable(false);
    suite_close(world);
}

/* ---- what the error says ---- */

/** The queue pair of rank 0 breaks. */
static void lose_and_end(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    struct kolo_work sent;
    SUITE_CHECK(rank, link && suite_meet(rank, 1), "no link");
    if (rank->rank == 0) {
        fault(rank);
        fake_verbs_complete_as(1, IBV_WC_RETRY_EXC_ERR);
        kolo_link_send(link, 9, &desc, "z", 1, &sent);
    }
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "it came back: %s", logged);
}

/** Runs it, and expects @p text and @p more of a side whose rounds failed. */
static void expect_end(void (*what)(struct suite_rank *rank), const char *text, const char *more)
{
    suite_devices[0] = "fake0";
    suite_devices[1] = "fake1";
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "1s");
    fault = what;
    suite_run(world, lose_and_end);
    const struct suite_heard *heard = &world->ranks[0].heard[1];
    cr_assert(heard->why == KOLO_ERR_LINK && strstr(heard->text, text) && strstr(heard->text, more),
              "%s", heard->text);
    suite_close(world);
}

static void lose_the_address(struct suite_rank *rank)
{
    (void)rank;
    fake_verbs_device(0)->ports[0].gid_count = 0;
}

Test(rdma_resume, an_address_that_stays_away_is_named)
{
    expect_end(lose_the_address, "by rdma fake0 port 1: ",
               "; it could not be brought back: no fresh pair was joined within KOLO_PEER_TIMEOUT: "
               "rdma fake0: its port has the address RoCE v2 10.0.0.1 no more: give it back");
}

/** In place of the C library's: how blocks are refused; 0: they are not. */
static atomic_int send_error;
enum { IS_CUT = -1 };

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    const int error = bytes == KOLO_RDMA_HELLO_BYTES ? atomic_load(&send_error) : 0;
    if (error == 0)
        return sendto(fd, data, bytes, flags, NULL, 0);
    errno = error == IS_CUT ? ECONNRESET : error; /* of an earlier call, if it is cut */
    return error == IS_CUT ? (ssize_t)bytes - 1 : -1;
}

static int refusal;

static void refuse_blocks(struct suite_rank *rank)
{
    (void)rank;
    atomic_store(&send_error, refusal);
}

static void expect_refused(int error, const char *text, const char *more)
{
    refusal = error;
    expect_end(refuse_blocks, text, more);
    atomic_store(&send_error, 0);
}

Test(rdma_resume, a_connection_that_has_ended_is_not_one_that_takes_no_data)
{
    static const char full[] =
        "; it could not be brought back: the connection to the peer takes no data";
    expect_refused(EAGAIN, "by rdma fake0 port 1: ", full);
    expect_refused(IS_CUT, "by rdma fake0 port 1: ", full);
    expect_refused(ECONNRESET, "rank 1 at tcp ", ": connection reset by peer");
    expect_refused(ENOMEM, "rank 1 at tcp ", ": Cannot allocate memory");
}

/* ---- a device that cannot destroy its queue pair ---- */

static int stubborn; /* the ranks whose device is stubborn */

/** The queue pair breaks while a receive is offered, and the device of one side fails to destroy
 * its own. */
static void break_one_that_is_not_destroyed(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    struct kolo_work received, sent;
    struct offered offered;
    SUITE_CHECK(rank, link && prepare_offer(rank, BYTES, &offered), "no link");
    kolo_link_recv(link, 1, &desc, offered.memory, BYTES, NULL, &received);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2) && suite_meet(rank, 1), "offers");
    if (rank->rank == 0) {
        fake_verbs_fail("destroy_qp", 1, EBUSY);
        fake_verbs_complete_as(1, IBV_WC_RETRY_EXC_ERR);
        kolo_link_send(link, 9, &desc, "z", 1, &sent);
    }
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "it came back: %s", logged);
    SUITE_CHECK(rank, received.status == rank->heard[1 - rank->rank].why, "%s",
                kolo_status_name(received.status));
    if (strstr(rank->heard[1 - rank->rank].text,
               "it could not be brought back: rdma fake0: the device does not destroy")) {
        __atomic_fetch_add(&stubborn, 1, __ATOMIC_RELAXED);
        SUITE_CHECK(rank, is_cut_off(&offered), "the program sees what is written late");
    }
}

Test(rdma_resume, a_link_ends_with_a_pair_that_its_device_does_not_let_go_of)
{
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "10s");
    suite_run(world, break_one_that_is_not_destroyed);
    suite_close(world);
    cr_assert(stubborn == 1 && strstr(logged, "a queue pair cannot be destroyed"), "%s", logged);
}

/* ---- a path that only short messages pass ---- */

struct chat {
    struct kolo_link *link;
    struct kolo_work work;
    char byte;
};

/** Sends one message after the other until the link has ended. */
static bool has_chatted(struct suite_rank *rank, void *context)
{
    struct kolo_desc desc = {{5}};
    struct chat *chat = context;
    if (is_down(rank, NULL))
        return true;
    if (chat->work.status == KOLO_AGAIN)
        return false;
    if (rank->rank == 1)
        kolo_link_send(chat->link, 3, &desc, &chat->byte, 1, &chat->work);
    else
        kolo_link_recv(chat->link, 3, &desc, &chat->byte, 1, NULL, &chat->work);
    return false;
}

static void talk_while_a_long_one_is_lost(struct suite_rank *rank)
{
    struct kolo_desc desc = {{9}}, unused;
    struct chat chat = {.link = come_up(rank, &unused), .work = {.status = KOLO_OK}};
    struct kolo_work work;
    uint8_t *memory = allocate(rank, BYTES);
    SUITE_CHECK(rank, chat.link && memory, "no link");
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    fake_verbs_narrow(1024);
    if (rank->rank == 0)
        kolo_link_send(chat.link, 1, &desc, memory, BYTES, &work);
    else
        kolo_link_recv(chat.link, 1, &desc, memory, BYTES, NULL, &work);
    SUITE_CHECK(rank, suite_until(rank, has_chatted, &chat), "tried for ever");
}

static int count_of(const char *text)
{
    int count = 0;
    for (const char *at = strstr(logged, text); at; at = strstr(at + 1, text))
        count++;
    return count;
}

/** Messages from the other side do not prove that the message that broke the queue pair gets
 * through. */
Test(rdma_resume, what_breaks_every_pair_ends_the_link)
{
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "1s");
    suite_run(world, talk_while_a_long_one_is_lost);
    for (int i = 0; i < 2; i++)
        cr_assert(world->ranks[i].heard[1 - i].down == 1, "%s", logged);
    /* the other side's messages arrive each time */
    cr_assert(count_of("rank 1 on ") <= 1, "%s", logged);
    suite_close(world);
}

static void fall_silent(struct suite_rank *rank)
{
    (void)rank;
    fake_verbs_delay(3, INT_MAX);
}

static void fall_silent_and_hide(struct suite_rank *rank)
{
    fall_silent(rank);
    fake_verbs_fail("query_port", 1, EIO);
}

/** Messages of rank 0 get no answer, and its device does not report it. */
static void fall_silent_by(void (*what)(struct suite_rank *rank), const char *text)
{
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "4s");
    fault = what;
    suite_run(world, work);
    suite_close(world);
    cr_assert(strstr(logged, text) && came_back(), "no '%s': %s", text, logged);
}

/** A device whose port is active may still be sending again, so the network is named first. */
Test(rdma_resume, a_device_that_fell_silent)
{
    fall_silent_by(fall_silent, "no answer for KOLO_PEER_TIMEOUT: the peer's process or host is "
                                "gone, or the network between");
    cr_assert(strstr(logged, "; the device has said nothing of it for ") &&
                  strstr(logged, " s, and its port is active: "),
              "%s", logged);
}

Test(rdma_resume, a_device_that_fell_silent_and_whose_port_is_gone)
{
    fall_silent_by(fall_silent_and_hide, "the device has said nothing of it for ");
    cr_assert(strstr(logged, " s (KOLO_PEER_TIMEOUT), not even an error; its port is not there any "
                             "more: look at ip link") &&
                  !strstr(logged, "no answer for KOLO_PEER_TIMEOUT"),
              "%s", logged);
}

/* ---- false claims ---- */

static void (*forge)(struct rdma_link *link, struct kolo_rdma_hello *hello);

/** Rank 0 sends something over the connection that no honest rank sends. */
static void lie(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t block[KOLO_RDMA_HELLO_BYTES];
    SUITE_CHECK(rank, link != NULL, "no link");
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    if (rank->rank == 0) {
        struct rdma_link *ours = (struct rdma_link *)link;
        struct kolo_rdma_hello hello;
        kolo_rdma_queue_hello(ours->queue, &ours->gid, &hello);
        hello.round = 1;
        hello.received = kolo_rdma_queue_received(ours->queue);
        forge(ours, &hello);
        kolo_rdma_hello_pack(&hello, block);
        kolo_block_seal(&ours->tcp.base, block,
                        sizeof block); /* it lies, but nothing was changed */
        SUITE_CHECK(rank,
                    send(ours->tcp.socket.watch.fd, block, sizeof block, MSG_NOSIGNAL) ==
                        (ssize_t)sizeof block,
                    "not sent");
    }
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "it was believed");
}

static void of_a_round_to_come(struct rdma_link *link, struct kolo_rdma_hello *hello)
{
    (void)link;
    hello->round = 7;
}
static void joined_without_an_offer(struct rdma_link *link, struct kolo_rdma_hello *hello)
{
    (void)link;
    hello->is_joined = true;
}
static void of_another_shape(struct rdma_link *link, struct kolo_rdma_hello *hello)
{
    (void)link;
    hello->buffers *= 2;
}
static void of_another_address(struct rdma_link *link, struct kolo_rdma_hello *hello)
{
    (void)link;
    hello->gid.bytes[15] ^= 0x40;
}
static void with_more_than_was_sent(struct rdma_link *link, struct kolo_rdma_hello *hello)
{
    (void)link;
    hello->received += 1000;
}
static void with_less_than_was_heard_of(struct rdma_link *link, struct kolo_rdma_hello *hello)
{
    (void)link;
    hello->received = 0;
}

static void caught(void (*what)(struct rdma_link *link, struct kolo_rdma_hello *hello),
                   const char *text)
{
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "10s");
    forge = what;
    suite_run(world, lie);
    const struct suite_heard *heard = &world->ranks[1].heard[0];
    cr_assert(heard->why == KOLO_ERR_PROTOCOL && strstr(heard->text, text), "%s: %s",
              kolo_status_name(heard->why), heard->text);
    suite_close(world);
}

Test(rdma_resume, words_that_are_not_true_are_broken_protocol)
{
    caught(of_a_round_to_come, "sent a word of round 7 of bringing a queue pair back");
    caught(joined_without_an_offer, "sent a word of round 1 of bringing a queue pair back");
    caught(of_another_shape, "sent a word of round 1 of bringing a queue pair back");
    caught(of_another_address, "an address that its rank has not published");
}

Test(rdma_resume, counts_that_cannot_be_are_broken_protocol)
{
    caught(with_more_than_was_sent, "messages of ");
    caught(with_less_than_was_heard_of, "messages of ");
}
