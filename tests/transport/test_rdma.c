// SPDX-License-Identifier: Apache-2.0
// The rdma transport over devices in memory: what becomes of a link when something of RDMA cannot be had at its start (it goes
// by TCP, or ends, as the settings say) or breaks later.
#include "tests/support/transport_suite.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/support/fake_fixture.h"
#include "transport/rdma.h"

TestSuite(rdma, .init = begin, .fini = end);

/* ---- what cannot be had at the start ---- */

enum { BYTES = 300000 };
static char described[2][128];

/** One long message each way. */
static void exchange(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = {{1}};
    struct kolo_work works[2];
    uint8_t *out = malloc(BYTES), *in = calloc(1, BYTES);
    if (link == NULL)
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

/** Two ranks whose endpoints may go on by TCP. */
static struct suite_world *open_auto(void)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    snprintf(world->settings.transport, sizeof world->settings.transport, "auto");
    return world;
}

/** What users are told of the link. */
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

/** A short message each way between rank 0 and each other, one rank after the other. */
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
        if (link == NULL)
            return;
        kolo_link_send(link, 1, &desc, &out, 1, &works[0]);
        kolo_link_recv(link, 1, &desc, &in, 1, NULL, &works[1]);
        SUITE_CHECK(rank, suite_settle(rank, works, 2) && in == 7, "rank %d", peer);
    }
}

Test(rdma, what_fails_with_several_peers_in_a_row_is_tried_no_more, .timeout = 60)
{
    atomic_store(&turn, 0);
    fake_verbs_device(0)->attr.max_cqe = 2 * RDMA_PLACES; /* for one link */
    struct suite_world *world = suite_open("rdma", 8, NULL, NULL);
    snprintf(world->settings.transport, sizeof world->settings.transport, "auto");
    suite_run(world, meet_each);
    suite_close(world);
    cr_assert(strstr(logged, "4 ranks, such as rank 2 on "), "%s", logged);
    cr_assert(strstr(logged, "the completion queue of 64 entries is full"), "%s", logged);
    cr_assert(strstr(logged, "2 ranks, such as rank 6 on "), "%s", logged);
    cr_assert(strstr(logged, "tried no more"), "%s", logged);
    const char *second = strchr(logged, '\n');
    cr_assert(second != NULL && strchr(second + 1, '\n') == second + strlen(second) - 1,
              "more than two lines: %s", logged);
}

/** Four ranks on a port that has pairs for one link: the others go by TCP, and the one line names its limit. */
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

/* ---- a peer that proves itself and then says nothing, or what nobody says ---- */

static int stranger_fd;

static void keep_fd(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    (void)theirs;
    *(kolo_status *)context = status;
    stranger_fd = fd;
}

static bool has_ended(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1].down > 0;
}

static const struct kolo_address *address_of(const struct suite_world *world, int rank)
{
    int i = 0;
    while (kolo_transports[i] != &kolo_transport_rdma)
        i++;
    return &world->peers[rank].addresses[i];
}

/** Rank 1 proves itself to rank 0 by hand. */
/** Rank 0 has a link then; a connection that ends before that is none to it, and nobody hears of it. */
static void settle_which_stands(struct suite_rank *rank)
{
    struct pollfd fd = {.fd = stranger_fd, .events = POLLIN};
    uint8_t byte;
    SUITE_CHECK(rank,
                poll(&fd, 1, 30000) == 1 && recv(stranger_fd, &byte, 1, 0) == 1 &&
                    send(stranger_fd, "s", 1, MSG_NOSIGNAL) == 1,
                "no welcome");
}

static void dial_by_hand(struct suite_rank *rank)
{
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(rank->endpoint);
    const struct kolo_greeting mine = {
        .protocol = KOLO_PROTOCOL_VERSION, .purpose = KOLO_PURPOSE_RDMA, .from = 1, .to = 0};
    const struct kolo_address *address = address_of(rank->world, 0);
    struct kolo_place places[TCP_PLACES_MAX];
    struct kolo_rdma_gids gids;
    struct kolo_conn *conn = NULL;
    kolo_status status = KOLO_AGAIN;
    size_t used = 0, count = 0;
    SUITE_CHECK(rank, kolo_rdma_published(address, &gids, &used), "no address");
    SUITE_CHECK(rank,
                kolo_tcp_read_places(address->data + used, address->bytes - used, places, &count) ==
                    KOLO_OK,
                "no place");
    SUITE_CHECK(rank,
                kolo_conn_dial(kolo_endpoint_poller(rank->endpoint), places, count, &config->secret,
                               &mine, kolo_deadline_in_ms(30000), keep_fd, &status,
                               &conn) == KOLO_OK,
                "%s", kolo_error_detail());
    while (status == KOLO_AGAIN)
        SUITE_CHECK(rank, kolo_endpoint_progress(rank->endpoint, NULL) == KOLO_OK, "progress");
    SUITE_CHECK(rank, status == KOLO_OK, "%s", kolo_status_name(status));
    settle_which_stands(rank);
}

static void meet_a_stranger(struct suite_rank *rank)
{
    if (rank->rank == 1)
        dial_by_hand(rank);
    else
        SUITE_CHECK(rank, suite_until(rank, has_ended, NULL), "the link has no deadline");
}

Test(rdma, who_is_dialled_and_hears_no_more_gives_up, .timeout = 60)
{
    struct suite_world *world = suite_open("rdma", 2, "START_TIMEOUT", "2s");
    suite_run(world, meet_a_stranger);
    const struct suite_heard *heard = &world->ranks[0].heard[1];
    cr_assert(heard->why == KOLO_ERR_TIMEOUT && strstr(heard->text, "did not settle what"), "%s",
              heard->text);
    close(stranger_fd);
    suite_close(world);
}

/** What rank 1 says after its proof, and what rank 0 makes of it. */
struct forgery {
    const char *what;
    size_t bytes; /* of a block that begins as a good one */
    size_t at;    /* is changed, ... */
    uint8_t by;   /* ... by these bits */
    kolo_status why;
    const char *text;
};
static const struct forgery *forgery;

/** A good hello of rank 1, but for its queue pair, which is nobody's. */
static void good_block(const struct suite_world *world, uint8_t block[KOLO_RDMA_HELLO_BYTES])
{
    struct kolo_rdma_gids gids;
    size_t used = 0;
    cr_assert(kolo_rdma_published(address_of(world, 1), &gids, &used));
    const struct kolo_rdma_hello hello = {.offers = true,
                                          .gid = gids.all[0],
                                          .mtu = IBV_MTU_1024,
                                          .pair = 0xfffff0,
                                          .packet = 77,
                                          .places = RDMA_PLACES,
                                          .place_bytes = RDMA_PLACE_BYTES};
    kolo_rdma_hello_pack(&hello, block);
}

static void forge(struct suite_rank *rank)
{
    uint8_t block[KOLO_RDMA_HELLO_BYTES + 1] = {0};
    meet_a_stranger(rank);
    if (rank->rank == 0)
        return;
    good_block(rank->world, block);
    block[forgery->at] ^= forgery->by;
    SUITE_CHECK(rank,
                send(stranger_fd, block, forgery->bytes, MSG_NOSIGNAL) == (ssize_t)forgery->bytes,
                "not sent");
    (void)shutdown(stranger_fd, SHUT_WR);
}

Test(rdma, what_is_forged_or_cut_off_ends_the_link_and_names_the_peer, .timeout = 100)
{
    static const struct forgery forgeries[] = {
        {"nothing", 0, 0, 0, KOLO_ERR_LINK, "closed by peer"},
        {"half a block", 128, 0, 0, KOLO_ERR_LINK, "closed by peer"},
        {"all but a byte", 255, 0, 0, KOLO_ERR_LINK, "closed by peer"},
        {"the block alone", 256, 0, 0, KOLO_ERR_LINK, "closed by peer"},
        {"another magic", 256, 0, 1, KOLO_ERR_PROTOCOL, "begins with"},
        {"another version", 256, 4, 1, KOLO_ERR_PROTOCOL, "version 3"},
        {"another kind", 256, 5, 4, KOLO_ERR_PROTOCOL, "an address of kind 7"},
        {"another address", 256, 40, 1, KOLO_ERR_PROTOCOL, "has not published"},
        {"a long text", 256, 45, 0xff, KOLO_ERR_PROTOCOL, "whose text does not end"},
        {"a byte behind it", 256, 255, 1, KOLO_ERR_PROTOCOL, "reserved fields"},
    };
    for (size_t i = 0; i < sizeof forgeries / sizeof forgeries[0]; i++) {
        forgery = &forgeries[i];
        struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
        suite_run(world, forge);
        const struct suite_heard *heard = &world->ranks[0].heard[1];
        cr_assert(heard->why == forgery->why && strstr(heard->text, forgery->text) &&
                      strstr(heard->text, "rank 1 "),
                  "%s: %s", forgery->what, heard->text);
        close(stranger_fd);
        suite_close(world);
    }
}

/* ---- a peer that settles everything as it should, and then sends what nobody sends ---- */

struct hostile {
    const char *what;
    size_t bytes; /* of each message */
    struct kolo_header header;
    int times;
};
static const struct hostile *hostile;

struct by_hand {
    struct kolo_rdma_device *device;
    struct kolo_rdma_completions *completions;
    struct kolo_rdma_queue *queue;
    struct kolo_rdma_gids gids; /* of rank 0 */
};

static void ignore_message(struct kolo_rdma_queue *queue, const uint8_t *data, size_t bytes)
{
    (void)queue;
    (void)data;
    (void)bytes;
}

static void ignore_mark(struct kolo_rdma_queue *queue, uint16_t mark)
{
    (void)queue;
    (void)mark;
}

static void ignore_write(struct kolo_rdma_queue *queue, void *context)
{
    (void)queue;
    (void)context;
}

static void ignore(struct kolo_rdma_queue *queue)
{
    (void)queue;
}

static void ignore_end(struct kolo_rdma_queue *queue, kolo_status why)
{
    (void)queue;
    (void)why;
}

static void describe_none(const struct kolo_rdma_queue *queue, char *text, size_t capacity)
{
    (void)queue;
    snprintf(text, capacity, "rank 0");
}

static void poll_by_hand(struct by_hand *hand)
{
    bool moved = false;
    cr_assert(kolo_rdma_completions_poll(hand->completions, &moved) == KOLO_OK);
    sched_yield();
}

static size_t receive_by_hand(struct by_hand *hand, uint8_t *data, size_t bytes)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(30000);
    size_t got = 0;
    while (got < bytes && !kolo_deadline_passed(deadline)) {
        ssize_t more = recv(stranger_fd, data + got, bytes - got, 0);
        if (more == 0)
            break;
        got += more > 0 ? (size_t)more : 0;
        poll_by_hand(hand);
    }
    return got;
}

/** One stage: our block, then theirs. */
static bool agree_by_hand(struct by_hand *hand, const struct kolo_rdma_hello *mine,
                          struct kolo_rdma_hello *theirs)
{
    uint8_t block[KOLO_RDMA_HELLO_BYTES];
    kolo_rdma_hello_pack(mine, block);
    return send(stranger_fd, block, sizeof block, MSG_NOSIGNAL) == (ssize_t)sizeof block &&
           receive_by_hand(hand, block, sizeof block) == sizeof block &&
           kolo_rdma_hello_unpack(block, &hand->gids, theirs) == KOLO_OK && theirs->offers;
}

static uint8_t *place_by_hand(struct by_hand *hand)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(30000);
    uint8_t *place;
    while ((place = kolo_rdma_queue_place(hand->queue)) == NULL && !hand->queue->has_failed &&
           !kolo_deadline_passed(deadline))
        poll_by_hand(hand);
    return place;
}

/** All three stages; false: rank 0 did not agree. */
static bool join_by_hand(struct suite_rank *rank, struct by_hand *hand)
{
    static const struct kolo_rdma_queue_ops ops = {.arrived = ignore_message,
                                                   .written = ignore_mark,
                                                   .has_written = ignore_write,
                                                   .has_room = ignore,
                                                   .failed = ignore_end,
                                                   .describe = describe_none};
    struct kolo_rdma_hello mine, theirs;
    struct kolo_why why;
    size_t ours = 0, other = 0, used = 0;
    uint8_t *place;
    if (kolo_rdma_device_open(fake_verbs_table(), fake_verbs_settings("fake0"), -1,
                              &hand->device) != KOLO_OK ||
        kolo_rdma_completions_open(hand->device, 4 * RDMA_PLACES, &hand->completions) != KOLO_OK ||
        kolo_rdma_queue_open(hand->completions, &ops, hand, RDMA_PLACES, RDMA_PLACE_BYTES,
                             &hand->queue) != KOLO_OK ||
        !kolo_rdma_published(address_of(rank->world, 0), &hand->gids, &used) ||
        !kolo_rdma_gids_join(&hand->device->gids, &hand->gids, &ours, &other, &why))
        return false;
    const struct kolo_rdma_gid gid = hand->device->gids.all[ours];
    kolo_rdma_queue_hello(hand->queue, &gid, &mine);
    if (!agree_by_hand(hand, &mine, &theirs) ||
        kolo_rdma_queue_connect(hand->queue, &gid, &theirs) != KOLO_OK ||
        !agree_by_hand(hand, &mine, &theirs) || (place = place_by_hand(hand)) == NULL)
        return false;
    memset(place, 0, 4096);
    kolo_rdma_queue_send(hand->queue, 4096, true);
    return agree_by_hand(hand, &mine, &theirs);
}

static void send_by_hand(struct by_hand *hand)
{
    for (int i = 0; i < hostile->times; i++) {
        uint8_t *place = place_by_hand(hand);
        if (place == NULL)
            return; /* the other side had enough */
        memset(place, 0, hostile->bytes);
        if (hostile->bytes >= KOLO_HEADER_BYTES)
            kolo_header_pack(&hostile->header, place);
        kolo_rdma_queue_send(hand->queue, hostile->bytes, true);
    }
}

static void be_hostile(struct suite_rank *rank)
{
    struct by_hand hand = {.device = NULL};
    meet_a_stranger(rank);
    if (rank->rank == 0)
        return;
    bool has_joined = join_by_hand(rank, &hand);
    if (has_joined)
        send_by_hand(&hand);
    const kolo_deadline deadline = kolo_deadline_in_ms(30000);
    uint8_t byte; /* until rank 0 has closed the connection */
    while (has_joined && recv(stranger_fd, &byte, 1, 0) < 0 && errno == EAGAIN &&
           !kolo_deadline_passed(deadline))
        poll_by_hand(&hand);
    kolo_rdma_queue_close(hand.queue);
    kolo_rdma_completions_close(hand.completions);
    kolo_rdma_device_close(hand.device);
    SUITE_CHECK(rank, has_joined, "not joined: %s", kolo_error_detail());
}

Test(rdma, what_a_hostile_peer_sends_ends_the_link_as_broken_protocol, .timeout = 100)
{
    enum { PAYLOAD = 60000, CONTROL = KOLO_HEADER_BYTES + 4 };
    static const struct hostile attacks[] = {
        {"less than a header", 10, {.channel = 0}, 1},
        {"a header for more", 132, {.channel = 8, .bytes = 5000}, 1},
        {"a header for less", 132, {.channel = 8, .bytes = 99}, 1},
        {"a header for 4 GiB", 132, {.channel = 8, .bytes = UINT32_MAX}, 1},
        {"a control frame of no kind",
         CONTROL,
         {.channel = KOLO_CHANNEL_CONTROL, .bytes = 4, .desc = {{77}}},
         1},
        {"a control frame of a transport",
         CONTROL,
         {.channel = KOLO_CHANNEL_CONTROL, .bytes = 4, .desc = {{255}}},
         1},
        {"an offer of a slot that there is not",
         KOLO_HEADER_BYTES + KOLO_RDMA_OFFER_BYTES,
         {.channel = KOLO_CHANNEL_CONTROL,
          .bytes = KOLO_RDMA_OFFER_BYTES,
          .desc = {{KOLO_CONTROL_TRANSPORT, KOLO_RDMA_SLOTS}}},
         1},
        {"an offer of no bytes",
         KOLO_HEADER_BYTES + KOLO_RDMA_OFFER_BYTES,
         {.channel = KOLO_CHANNEL_CONTROL,
          .bytes = KOLO_RDMA_OFFER_BYTES,
          .desc = {{KOLO_CONTROL_TRANSPORT}}},
         1},
        {"half an offer",
         CONTROL,
         {.channel = KOLO_CHANNEL_CONTROL, .bytes = 4, .desc = {{KOLO_CONTROL_TRANSPORT}}},
         1},
        {"more than the credit of a channel",
         KOLO_HEADER_BYTES + PAYLOAD,
         {.channel = 8, .bytes = PAYLOAD, .desc = {{1}}},
         64},
    };
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        hostile = &attacks[i];
        struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
        suite_run(world, be_hostile);
        const struct suite_heard *heard = &world->ranks[0].heard[1];
        cr_assert(heard->why == KOLO_ERR_PROTOCOL, "%s: %s: %s", hostile->what,
                  kolo_status_name(heard->why), heard->text);
        close(stranger_fd);
        suite_close(world);
    }
}

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

/** A device without room for a second pair, where nothing else is allowed: both sides hear the reason. */
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

/* ---- what breaks later ---- */

/** What is ready among them is told. */
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

/** A byte from rank 1, which rank 0 sleeps for. */
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

/** Rank 0 looks at its descriptors alone, so that it meets the end of the connection before the message. */
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
    while (!atomic_load(&has_vanished))
        sched_yield();
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
    while (name != NULL && strcmp(name, "rdma") != 0);
    cr_assert(name != NULL && status == KOLO_ERR_UNSUPPORTED && strstr(why.text, "no RDMA device"),
              "%s", why.text);
}
