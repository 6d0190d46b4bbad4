// SPDX-License-Identifier: Apache-2.0
// The rdma transport over devices in memory: what happens to a link when RDMA is not available at
// its start (it uses TCP, or ends, according to the settings) or breaks later.
#include "tests/support/await.h"
#include "tests/support/transport_suite.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/support/fake_fixture.h"
#include "transport/rdma.h"

TestSuite(rdma, .init = begin, .fini = end);

/* ---- what is not available at the start ---- */

enum { BYTES = 300000 };
static char described[2][128];

/** A long message in each direction. */
static void exchange(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = {{1}};
    struct kolo_work works[2];
    uint8_t *out = malloc(BYTES), *in = calloc(1, BYTES);
    if (!link)
        return;
    for (size_t i = 0; i < BYTES; i++)
        out[i] = (uint8_t)(i * 7 + i / 251 + (size_t)rank->rank);
    kolo_link_send(link, 1, &desc, out, BYTES, &works[0]);
    kolo_link_recv(link, 1, &desc, in, BYTES, NULL, &works[1]);
    SUITE_CHECK(rank, suite_settle(rank, works, 2), "stuck");
    SUITE_CHECK(rank, works[0].status == KOLO_OK && works[1].status == KOLO_OK, "%s %s: %s",
                kolo_status_name(works[0].status), kolo_status_name(works[1].status),
                rank->heard[1 - rank->rank].text);
    for (size_t i = 0; i < BYTES; i++)
        SUITE_CHECK(rank, in[i] == (uint8_t)(i * 7 + i / 251 + 1 - (size_t)rank->rank), "byte %zu",
                    i);
    kolo_link_describe(link, described[rank->rank], sizeof described[0]);
    free(out);
    free(in);
}

/** Two ranks whose endpoints may fall back to TCP. */
static struct suite_world *open_auto(void)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    snprintf(world->settings.transport, sizeof world->settings.transport, "auto");
    return world;
}

/** Checks what users are told about the link. */
static void expect_named(const struct suite_world *world, const char *name, const char *reason)
{
    const char *transport = NULL, *why = NULL;
    for (int i = 0; i < 2; i++) {
        kolo_endpoint_choice(world->ranks[i].endpoint, 1 - i, &transport, &why);
        cr_assert_str_eq(transport, name);
        cr_assert(strstr(why, reason), "'%s' is not in: %s", reason, why);
    }
}

static void expect_tcp(const char *reason)
{
    struct suite_world *world = open_auto();
    logged[0] = '\0';
    if (strcmp(reason, "no answer") == 0)
        fake_verbs_complete_as(1, IBV_WC_RETRY_EXC_ERR);
    suite_run(world, exchange);
    suite_run(world, exchange);
    expect_named(world, "tcp", "; by tcp instead: ");
    suite_close(world);
    for (int i = 0; i < 2; i++)
        cr_assert(strncmp(described[i], "tcp ", 4) == 0, "%s: rank %d: %s", reason, i,
                  described[i]);
    cr_assert(strstr(logged, "is reached by tcp, not rdma: "), "%s", logged);
    cr_assert(strstr(logged, "there, ") == NULL, "who has the cause says it: %s", logged);
    cr_assert(strstr(logged, reason), "'%s' is not in: %s", reason, logged);
}

Test(rdma, messages_go_by_rdma, .timeout = 60)
{
    struct suite_world *world = open_auto();
    suite_run(world, exchange);
    expect_named(world, "rdma", "; rdma fake0 port 1 to RoCE v2 ");
    suite_close(world);
    for (int i = 0; i < 2; i++)
        cr_assert(strncmp(described[i], "rdma fake0 port 1 to RoCE v2 10.0.0.1 up", 40) == 0, "%s",
                  described[i]);
    cr_assert(logged[0] == '\0', "%s", logged);
}

static char card[] = "/tmp/kolo-card-XXXXXX"; /* as a directory of /sys */

/** The line to a rank that has published a port of that speed, and only its first @p bytes bytes
 * (0: all). */
static struct kolo_line line_at(uint8_t width, uint8_t speed, uint16_t bytes)
{
    snprintf(fake_verbs_device(0)->base.ibdev_path, IBV_SYSFS_PATH_MAX, "%s", card);
    fake_verbs_device(0)->ports[0].attr.active_width = width;
    fake_verbs_device(0)->ports[0].attr.active_speed = speed;
    struct suite_world *world = open_auto();
    struct kolo_peer peer = world->peers[1];
    for (int i = 0; i < KOLO_TRANSPORTS_MAX && bytes > 0; i++)
        peer.addresses[i].bytes = bytes;
    const struct kolo_line mine = kolo_transport_line("rdma", &world->peers[0]);
    const struct kolo_line line = kolo_transport_line("rdma", &peer);
    cr_assert(bytes > 0 || mine.card == line.card, "both use one port");
    suite_close(world);
    return line;
}

Test(rdma, a_rank_publishes_the_speed_of_its_port, .timeout = 60)
{
    enum { FOUR_LANES = 2, EDR = 32, NDR = 128 };
    char path[64];
    cr_assert(mkdtemp(card));
    snprintf(path, sizeof path, "%s/device", card);
    cr_assert_eq(line_at(FOUR_LANES, EDR, 0).mbit, 0, "what a device of software says");
    cr_assert(mkdir(path, 0700) == 0);
    const struct kolo_line line = line_at(FOUR_LANES, EDR, 0);
    cr_assert(line.mbit == 100000 && line.cards == 0 && line.card != 0, "%u", line.mbit);
    cr_assert_eq(line_at(FOUR_LANES, NDR, 0).mbit, 400000);
    cr_assert_eq(line_at(FOUR_LANES, 0, 0).mbit, 0, "not known");
    for (uint16_t bytes = 1; bytes < 4 + 1 + 17; bytes++)
        cr_assert_eq(line_at(FOUR_LANES, EDR, bytes).mbit, 0, "cut off at byte %u", bytes);
    cr_assert(rmdir(path) == 0 && rmdir(card) == 0);
}

Test(rdma, what_fails_at_the_start_leaves_tcp, .timeout = 100)
{
    fake_verbs_fail("reg_mr", 1, ENOMEM);
    expect_tcp("cannot be");
    fake_verbs_fail("post_recv", 9, EIO);
    expect_tcp("does not take it: Input/output error");
    static const char *const steps[] = {"prepared", "prepared", "joined to its peer's"};
    for (int nth = 1; nth <= 3; nth++) {
        fake_verbs_fail("modify_qp", nth, EINVAL);
        expect_tcp(steps[nth - 1]);
    }
    fake_verbs_fail("post_send", 1, EIO);
    expect_tcp("a message of 4096 bytes: the device does not take it");
    expect_tcp("no answer");
    fake_verbs_delay(1, INT_MAX);
    expect_tcp("a first message gets no answer in time");
    cr_assert(fake_verbs_living() == 0);
}

static atomic_int turn;

static bool is_its_turn(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->rank <= atomic_load(&turn);
}

/** A short message in each direction between rank 0 and every other rank, one after the other. */
static void meet_each(struct suite_rank *rank)
{
    const int last = rank->rank == 0 ? rank->world->size - 1 : 0;
    SUITE_CHECK(rank, suite_until(rank, is_its_turn, NULL), "rank %d", rank->rank);
    for (int peer = rank->rank == 0; peer <= last; peer++) {
        struct kolo_link *link = suite_link(rank, peer);
        struct kolo_desc desc = {{1}};
        struct kolo_work works[2];
        uint8_t out = 7, in = 0;
        atomic_fetch_add(&turn, rank->rank == 0);
        if (!link)
            return;
        kolo_link_send(link, 1, &desc, &out, 1, &works[0]);
        kolo_link_recv(link, 1, &desc, &in, 1, NULL, &works[1]);
        SUITE_CHECK(rank, suite_settle(rank, works, 2) && in == 7, "rank %d", peer);
    }
}

Test(rdma, what_fails_with_several_peers_in_a_row_is_tried_no_more, .timeout = 60)
{
    atomic_store(&turn, 0);
    fake_verbs_device(0)->attr.max_cqe = 2 * RDMA_BUFFERS; /* enough for one link */
    struct suite_world *world = suite_open("rdma", 8, NULL, NULL);
    snprintf(world->settings.transport, sizeof world->settings.transport, "auto");
    suite_run(world, meet_each);
    suite_close(world);
    cr_assert(strstr(logged, "4 ranks, such as rank 2 on "), "%s", logged);
    cr_assert(strstr(logged, "the completion queue of 64 entries is full"), "%s", logged);
    cr_assert(strstr(logged, "2 ranks, such as rank 6 on "), "%s", logged);
    cr_assert(strstr(logged, "tried no more"), "%s", logged);
    const char *second = strchr(logged, '\n');
    cr_assert(second && strchr(second + 1, '\n') == second + strlen(second) - 1,
              "more than two lines: %s", logged);
}

/** Four ranks use a port that has room for the queue pairs of only one link: the other links use
 * TCP, and one warning names the limit. */
Test(rdma, a_device_that_has_no_room_for_more_pairs_leaves_tcp, .timeout = 60)
{
    fake_verbs_device(0)->attr.max_qp = 2;
    atomic_store(&turn, 0);
    struct suite_world *world = suite_open("rdma", 4, NULL, NULL);
    snprintf(world->settings.transport, sizeof world->settings.transport, "auto");
    suite_run(world, meet_each);
    suite_close(world);
    cr_assert(strstr(logged, "a queue pair of 32 requests cannot be made, it has no room for more"),
              "%s", logged);
    cr_assert(strstr(logged, "reached by tcp, not rdma: ") && strstr(logged, "KOLO_RDMA_DEVICE"),
              "%s", logged);
}

static void lose_it_and_go_on(struct suite_rank *rank)
{
    if (rank->rank == 0)
        fake_verbs_remove(fake_verbs_device(0));
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank %d", rank->rank);
    exchange(rank);
}

Test(rdma, a_device_that_is_pulled_out_before_its_links_leaves_tcp, .timeout = 60)
{
    struct suite_world *world = open_auto();
    suite_run(world, lose_it_and_go_on);
    expect_named(world, "tcp", "; by tcp instead: ");
    suite_close(world);
    cr_assert(strstr(logged, "is reached by tcp, not rdma: rdma fake0"), "%s", logged);
}

Test(rdma, an_address_that_moved_since_the_start_is_found_again, .timeout = 60)
{
    struct suite_world *world = open_auto();
    fake_verbs_turn_gids(&fake_verbs_device(0)->ports[0]);
    suite_run(world, exchange);
    cr_assert(logged[0] == '\0', "%s", logged);
    expect_named(world, "rdma", "; rdma fake0 port 1 to RoCE v2 10.0.0.1");
    suite_close(world);
}

Test(rdma, an_address_that_is_gone_since_the_start_leaves_tcp, .timeout = 60)
{
    struct suite_world *world = open_auto();
    fake_verbs_device(0)->ports[0].gid_count = 0;
    suite_run(world, exchange);
    expect_named(world, "tcp", "; by tcp instead: ");
    suite_close(world);
    cr_assert(strstr(logged, "reached by tcp, not rdma: rdma fake0: its port has the address RoCE "
                             "v2 10.0.0.1 no more: give it back"),
              "%s", logged);
}

/** Whether it comes back in time is found out by the first message. */
Test(rdma, a_port_that_is_down_since_the_start_is_tried, .timeout = 60)
{
    struct suite_world *world = open_auto();
    fake_verbs_device(0)->ports[0].attr.state = IBV_PORT_DOWN;
    suite_run(world, exchange);
    cr_assert(logged[0] == '\0', "%s", logged);
    suite_close(world);
}

static void lose_it_meanwhile(struct suite_rank *rank)
{
    if (rank->rank == 0)
        fake_verbs_tell(fake_verbs_device(0), IBV_EVENT_DEVICE_FATAL, 0);
    exchange(rank);
}

Test(rdma, a_device_that_is_pulled_out_while_its_links_come_up_leaves_tcp, .timeout = 60)
{
    for (int i = 0; i < 20; i++) {
        fake_verbs_delay(1, INT_MAX);
        struct suite_world *world = open_auto();
        suite_run(world, lose_it_meanwhile);
        expect_named(world, "tcp", "; by tcp instead: ");
        suite_close(world);
    }
}

static void look_around(struct suite_rank *rank)
{
    for (int i = 0; i < 1000; i++)
        SUITE_CHECK(rank, kolo_endpoint_progress(rank->endpoint, NULL) == KOLO_OK, "progress");
}

Test(rdma, a_device_without_links_is_left_alone)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, look_around);
    cr_assert(fake_verbs_polls() == 0, "%d", fake_verbs_polls());
    suite_run(world, exchange);
    cr_assert(fake_verbs_polls() > 0);
    suite_close(world);
}

/* ---- what is an error if RDMA is forced ---- */

/** Waits until the other side's link is down. */
static bool is_down(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].down > 0;
}

static void meet_the_end(struct suite_rank *rank)
{
    struct kolo_link *link = NULL;
    kolo_status status =
        kolo_endpoint_link(rank->endpoint, 1 - rank->rank, kolo_deadline_in_ms(30000), &link);
    if (status == KOLO_OK)
        SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "it does not end");
}

Test(rdma, what_fails_at_the_start_is_an_error_where_rdma_is_forced, .timeout = 60)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    fake_verbs_fail("reg_mr", 1, EPERM);
    suite_run(world, meet_the_end);
    for (int i = 0; i < 2; i++) {
        const struct suite_heard *heard = &world->ranks[i].heard[1 - i];
        cr_assert(heard->why == KOLO_ERR_CONNECT, "%d %s", (int)heard->why, heard->text);
        cr_assert(strstr(heard->text, "cannot be reached by rdma: ") &&
                      strstr(heard->text, "Operation not permitted") &&
                      strstr(heard->text, "KOLO_TRANSPORT=rdma"),
                  "%s", heard->text);
    }
    suite_close(world);
}

/** In place of the C library's: while it is set, a block of the handshake is cut, as no error. */
static atomic_bool cuts_blocks;

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    if (!atomic_load(&cuts_blocks) || bytes != KOLO_RDMA_HELLO_BYTES)
        return sendto(fd, data, bytes, flags, NULL, 0);
    const ssize_t sent = sendto(fd, data, bytes - 1, flags, NULL, 0);
    errno = EPERM; /* of an earlier call */
    return sent;
}

Test(rdma, a_block_that_is_cut_has_no_error_of_an_earlier_call, .timeout = 60)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    atomic_store(&cuts_blocks, true);
    suite_run(world, meet_the_end);
    atomic_store(&cuts_blocks, false);
    for (int i = 0; i < 2; i++) {
        const struct suite_heard *heard = &world->ranks[i].heard[1 - i];
        cr_assert(heard->why == KOLO_ERR_LINK && strstr(heard->text, "connection "), "%d %s",
                  (int)heard->why, heard->text);
    }
    suite_close(world);
}

/** A device without room for a second queue pair, with no other transport allowed: both sides get
 * the reason. */
Test(rdma, a_device_that_has_no_room_for_more_pairs_is_an_error_where_rdma_is_forced, .timeout = 60)
{
    fake_verbs_device(0)->attr.max_qp = 1;
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, meet_the_end);
    for (int i = 0; i < 2; i++) {
        const struct suite_heard *heard = &world->ranks[i].heard[1 - i];
        cr_assert(heard->why == KOLO_ERR_CONNECT && strstr(heard->text, "has no room for more"),
                  "%d %s", (int)heard->why, heard->text);
    }
    suite_close(world);
}

/** A device that never says what became of the first message. */
Test(rdma, no_answer_to_the_first_message_is_an_error_where_rdma_is_forced, .timeout = 60)
{
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "1s");
    fake_verbs_delay(1, INT_MAX);
    suite_run(world, meet_the_end);
    for (int i = 0; i < 2; i++) {
        const struct suite_heard *heard = &world->ranks[i].heard[1 - i];
        cr_assert(heard->why == KOLO_ERR_CONNECT &&
                      strstr(heard->text, "a first message gets no answer in time") &&
                      strstr(heard->text, "KOLO_TRANSPORT=rdma allows nothing else"),
                  "%d %s", (int)heard->why, heard->text);
    }
    suite_close(world);
}

/* ---- what breaks later ---- */

/** Handles the descriptors that are ready. */
static void look_at_files(struct suite_rank *rank)
{
    bool moved;
    kolo_endpoint_arm(rank->endpoint);
    for (int i = 0; i < 10; i++)
        SUITE_CHECK(rank, kolo_endpoint_progress(rank->endpoint, &moved) == KOLO_OK, "%s",
                    kolo_error_detail());
    kolo_endpoint_disarm(rank->endpoint);
}

static void lose_the_device(struct suite_rank *rank)
{
    exchange(rank);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank %d", rank->rank);
    if (rank->rank == 0)
        fake_verbs_remove(fake_verbs_device(0));
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "nobody noticed");
    look_at_files(rank);
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank %d", rank->rank);
    const int asked = fake_verbs_asked_news();
    look_at_files(rank);
    SUITE_CHECK(rank, fake_verbs_asked_news() == asked, "its file is looked at for ever");
}

static void expect_lost(void (*body)(struct suite_rank *rank), const char *reason)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, body);
    for (int i = 0; i < 2; i++)
        cr_assert(world->ranks[i].heard[1 - i].down > 0, "rank %d", i);
    const struct suite_heard *heard = &world->ranks[0].heard[1];
    cr_assert(heard->why == KOLO_ERR_LINK && strstr(heard->text, reason), "%s", heard->text);
    suite_close(world);
    cr_assert(fake_verbs_living() == 0);
}

/** Rank 1 sends a byte, for which rank 0 sleeps. */
static void lose_the_channel(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = {{3}};
    struct kolo_work work;
    uint8_t byte = 1;
    exchange(rank);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank %d", rank->rank);
    if (rank->rank == 1) {
        SUITE_CHECK(rank, suite_meet(rank, 1), "rank 1");
        kolo_link_send(link, 9, &desc, &byte, 1, &work);
        SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "rank 1 does not notice");
        return;
    }
    bool moved;
    kolo_endpoint_arm(rank->endpoint);
    SUITE_CHECK(rank, kolo_endpoint_progress(rank->endpoint, &moved) == KOLO_OK, "no progress");
    fake_verbs_fail("get_cq_event", 1, EIO);
    SUITE_CHECK(rank, suite_meet(rank, 1) && suite_until(rank, is_down, NULL),
                "rank 0 does not notice");
}

Test(rdma, completions_that_are_not_told_of_end_the_links, .timeout = 60)
{
    expect_lost(lose_the_channel, "rdma fake0: it does not tell of completions any more");
}

Test(rdma, a_device_that_is_pulled_out_ends_its_links, .timeout = 60)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, lose_the_device);
    for (int i = 0; i < 2; i++) {
        const struct suite_heard *heard = &world->ranks[i].heard[1 - i];
        cr_assert(heard->why == KOLO_ERR_LINK && strstr(heard->text, "rdma fake0 port 1: "), "%s",
                  heard->text);
    }
    suite_close(world);
}

static atomic_bool has_vanished;

/** Rank 0 only checks its descriptors, so it sees the end of the connection before the message. */
static void meet_the_end_first(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = {{2}};
    struct kolo_work work;
    uint8_t bytes[64] = {1, 2, 3};
    exchange(rank);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank %d", rank->rank);
    if (rank->rank == 1) {
        kolo_link_send(link, 5, &desc, bytes, sizeof bytes, &work);
        SUITE_CHECK(rank, suite_settle(rank, &work, 1) && work.status == KOLO_OK, "not sent");
        suite_crash(rank);
        atomic_store(&has_vanished, true);
        return;
    }
    bytes[2] = 0;
    kolo_link_recv(link, 5, &desc, bytes, sizeof bytes, NULL, &work);
    SUITE_CHECK(rank, AWAIT(atomic_load(&has_vanished)), "rank 0 is there yet");
    for (kolo_deadline deadline = kolo_deadline_in_ms(30000);
         rank->heard[1].down == 0 && kolo_now_ns() < deadline;)
        SUITE_CHECK(rank,
                    kolo_poller_dispatch(kolo_endpoint_poller(rank->endpoint), NULL) == KOLO_OK,
                    "poller");
    SUITE_CHECK(rank, work.status == KOLO_OK && bytes[2] == 3, "%s", kolo_status_name(work.status));
    SUITE_CHECK(
        rank, rank->heard[1].down == 1 && strstr(rank->heard[1].text, "connection closed by peer"),
        "%s", rank->heard[1].text);
}

Test(rdma, what_was_sent_before_the_end_comes_before_it, .timeout = 60)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    atomic_store(&has_vanished, false);
    suite_run(world, meet_the_end_first);
    suite_close(world);
}

/** Rank 0's last message is in an eager buffer, so its send is over, and never passes the cable. */
static void lose_the_last(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = {{2}};
    struct kolo_work work;
    uint8_t bytes[64] = {1, 2, 3};
    exchange(rank);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank %d", rank->rank);
    if (rank->rank == 1) {
        SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "rank 1 does not notice");
        return;
    }
    fake_verbs_cut_cable(true);
    kolo_link_send(link, 5, &desc, bytes, sizeof bytes, &work);
    SUITE_CHECK(rank, work.status == KOLO_OK, "%s", kolo_status_name(work.status));
    struct kolo_endpoint *endpoint = rank->endpoint;
    rank->endpoint = NULL;
    kolo_status status = kolo_endpoint_close(endpoint, kolo_deadline_in_ms(50000));
    SUITE_CHECK(
        rank,
        status == KOLO_ERR_LINK &&
            strstr(kolo_error_detail(), "what rank 0 sent last may not have reached rank 1 on ") &&
            strstr(kolo_error_detail(), "by rdma fake0 port 1: "),
        "%s: %s", kolo_status_name(status), kolo_error_detail());
}

Test(rdma, what_is_lost_with_the_link_during_the_close_is_told, .timeout = 120)
{
    struct suite_world *world = suite_open("rdma", 2, "PEER_TIMEOUT", "1s");
    suite_run(world, lose_the_last);
    fake_verbs_cut_cable(false);
    suite_close(world);
}

Test(rdma, a_device_that_was_named_and_cannot_be_used_is_a_warning)
{
    static struct kolo_settings settings;
    struct kolo_endpoint_config config = {.size = 2, .settings = &settings};
    struct kolo_endpoint *endpoint = NULL;
    kolo_settings_init(&settings);
    cr_assert(kolo_settings_set(&settings, "RDMA_DEVICE", "mlx5_7", KOLO_FROM_API) == KOLO_OK);
    kolo_identity_here(0, &config.identity);
    cr_assert(kolo_endpoint_open(&config, &endpoint) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(strstr(logged, "KOLO_RDMA_DEVICE=mlx5_7 is not used: ") &&
                  strstr(logged, "there is no RDMA port 'mlx5_7' on this host"),
              "%s", logged);
    cr_assert(kolo_endpoint_close(endpoint, 0) == KOLO_OK);
}

Test(rdma, a_port_that_was_named_for_a_further_rail_and_cannot_be_used_is_a_warning)
{
    static struct kolo_settings settings;
    struct kolo_endpoint_config config = {.size = 2, .settings = &settings};
    struct kolo_endpoint *endpoint = NULL;
    kolo_settings_init(&settings);
    cr_assert(kolo_settings_set(&settings, "RDMA_DEVICE", "fake0,mlx5_7", KOLO_FROM_API) ==
              KOLO_OK);
    cr_assert(kolo_settings_set(&settings, "RDMA_RAILS", "0", KOLO_FROM_API) == KOLO_OK);
    kolo_identity_here(0, &config.identity);
    cr_assert(kolo_endpoint_open(&config, &endpoint) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(strstr(logged, "KOLO_RDMA_DEVICE=fake0,mlx5_7: port 2 is not used: there is no "
                             "further RDMA port 'mlx5_7' on this host"),
              "%s", logged);
    cr_assert(kolo_endpoint_close(endpoint, 0) == KOLO_OK);
}

Test(rdma, a_host_without_devices_says_so)
{
    struct kolo_settings settings;
    struct kolo_why why;
    kolo_status status;
    const char *name = NULL;
    size_t number = 0;
    kolo_settings_init(&settings);
    fake_verbs_device_count(0);
    do
        name = kolo_transport_probe(number++, &settings, &status, &why);
    while (name && strcmp(name, "rdma") != 0);
    cr_assert(name && status == KOLO_ERR_UNSUPPORTED && strstr(why.text, "no RDMA device"), "%s",
              why.text);
}
