// SPDX-License-Identifier: Apache-2.0
// The rdma transport with a peer that knows the secret but does not behave: it says nothing, forges
// or cuts off the negotiation, or completes it and then sends what no honest peer sends. Over
// devices in memory, or over those of KOLO_TEST_RDMA.
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

#include "tests/support/rdma_devices.h"
#include "transport/rdma.h"

TestSuite(rdma_hostile, .init = begin_by_what_there_is, .fini = end_of_it);

/* ---- a peer that proves itself and then is silent, or sends what no honest peer sends ---- */

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

/** Rank 0 then has a link. A connection that ends before that is not a link yet, and nothing is
 * reported. */
static void settle_which_stands(struct suite_rank *rank)
{
    struct pollfd fd = {.fd = stranger_fd, .events = POLLIN};
    uint8_t byte;
    SUITE_CHECK(rank,
                poll(&fd, 1, 30000) == 1 && recv(stranger_fd, &byte, 1, 0) == 1 &&
                    send(stranger_fd, "s", 1, MSG_NOSIGNAL) == 1,
                "no welcome");
}

/** Rank 1 dials rank 0 and proves itself, driven by the test. */
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
                kolo_conn_dial(kolo_endpoint_poller(rank->endpoint),
                               &(struct kolo_dial_config){.places = places,
                                                          .count = count,
                                                          .secret = &config->secret,
                                                          .mine = &mine,
                                                          .deadline = kolo_deadline_in_ms(30000),
                                                          .done = keep_fd,
                                                          .context = &status},
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

Test(rdma_hostile, who_is_dialled_and_hears_no_more_gives_up, .timeout = 60)
{
    struct suite_world *world = suite_open("rdma", 2, "START_TIMEOUT", "2s");
    suite_run(world, meet_a_stranger);
    const struct suite_heard *heard = &world->ranks[0].heard[1];
    cr_assert(heard->why == KOLO_ERR_TIMEOUT && strstr(heard->text, "did not settle what"), "%s",
              heard->text);
    close(stranger_fd);
    suite_close(world);
}

/** What rank 1 sends after its proof, and what rank 0 must report. */
struct forgery {
    const char *what;
    size_t bytes; /* sent of a block that is valid otherwise */
    size_t at;    /* the byte that is changed */
    uint8_t by;   /* the bits that are changed in it */
    kolo_status why;
    const char *text;
};
static const struct forgery *forgery;

/** A valid hello of rank 1, except that its queue pair does not exist. */
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
                                          .buffers = RDMA_BUFFERS,
                                          .buffer_bytes = RDMA_BUFFER_BYTES};
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

Test(rdma_hostile, what_is_forged_or_cut_off_ends_the_link_and_names_the_peer, .timeout = 100)
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

/* ---- a peer that completes the negotiation, and then sends what no honest peer sends ---- */

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

/** One stage: sends our block, then receives theirs. */
static bool agree_by_hand(struct by_hand *hand, const struct kolo_rdma_hello *mine,
                          struct kolo_rdma_hello *theirs)
{
    uint8_t block[KOLO_RDMA_HELLO_BYTES];
    kolo_rdma_hello_pack(mine, block);
    return send(stranger_fd, block, sizeof block, MSG_NOSIGNAL) == (ssize_t)sizeof block &&
           receive_by_hand(hand, block, sizeof block) == sizeof block &&
           kolo_rdma_hello_unpack(block, &hand->gids, theirs) == KOLO_OK && theirs->offers;
}

static uint8_t *buffer_by_hand(struct by_hand *hand)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(30000);
    uint8_t *buffer;
    while ((buffer = kolo_rdma_queue_buffer(hand->queue)) == NULL && !hand->queue->has_failed &&
           !kolo_deadline_passed(deadline))
        poll_by_hand(hand);
    return buffer;
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
    uint8_t *buffer;
    const struct kolo_settings *settings = kolo_endpoint_config_of(rank->endpoint)->settings;
    const struct kolo_verbs *verbs = NULL;
    if (kolo_verbs_load(&verbs) != KOLO_OK ||
        kolo_rdma_device_open(verbs, settings, -1, &hand->device) != KOLO_OK ||
        kolo_rdma_completions_open(hand->device, 4 * RDMA_BUFFERS, &hand->completions) != KOLO_OK ||
        kolo_rdma_queue_open(hand->completions, &ops, hand, RDMA_BUFFERS, RDMA_BUFFER_BYTES,
                             &hand->queue) != KOLO_OK ||
        !kolo_rdma_published(address_of(rank->world, 0), &hand->gids, &used) ||
        !kolo_rdma_gids_join(&hand->device->gids, &hand->gids, &ours, &other, &why))
        return false;
    const struct kolo_rdma_gid gid = hand->device->gids.all[ours];
    kolo_rdma_queue_hello(hand->queue, &gid, &mine);
    if (!agree_by_hand(hand, &mine, &theirs) ||
        kolo_rdma_queue_connect(hand->queue, &gid, &theirs) != KOLO_OK ||
        !agree_by_hand(hand, &mine, &theirs) || (buffer = buffer_by_hand(hand)) == NULL)
        return false;
    memset(buffer, 0, 4096);
    kolo_rdma_queue_send(hand->queue, 4096, true);
    return agree_by_hand(hand, &mine, &theirs);
}

static void send_by_hand(struct by_hand *hand)
{
    for (int i = 0; i < hostile->times; i++) {
        uint8_t *buffer = buffer_by_hand(hand);
        if (!buffer)
            return; /* the other side has closed the connection */
        memset(buffer, 0, hostile->bytes);
        if (hostile->bytes >= KOLO_HEADER_BYTES)
            kolo_header_pack(&hostile->header, buffer);
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

Test(rdma_hostile, what_a_hostile_peer_sends_ends_the_link_as_broken_protocol, .timeout = 100)
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
