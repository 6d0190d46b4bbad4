// SPDX-License-Identifier: Apache-2.0
// TCP links between endpoints of this thread, and between an endpoint and a raw peer that knows the
// secret but does not behave.
#include <criterion/criterion.h>

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tests/support/transport_suite.h"
#include "transport/conn_private.h"
#include "transport/core.h"
#include "transport/link.h"
#include "transport/tcp.h"

KOLO_TRANSPORT_SUITE(tcp, tcp)

enum { RANKS_MAX = 8 };

struct rank {
    struct kolo_endpoint *endpoint;
    int mismatches, aborted, left, down, early;
    kolo_status why;
    char text[1024];
};

struct world {
    int size;
    struct kolo_settings settings;
    struct kolo_secret secret;
    struct rank ranks[RANKS_MAX];
    struct kolo_peer peers[RANKS_MAX];
};

static void on_mismatch(void *context, int peer, uint32_t channel, const struct kolo_desc *expected,
                        const struct kolo_desc *arrived)
{
    (void)peer, (void)channel, (void)expected, (void)arrived;
    ((struct rank *)context)->mismatches++;
}

static void on_aborted(void *context, int peer, uint32_t subject, kolo_status why, const char *text)
{
    struct rank *rank = context;
    (void)peer;
    rank->aborted++;
    (void)subject;
    rank->why = why;
    snprintf(rank->text, sizeof rank->text, "%s", text);
}

static void on_early(void *context, int peer, uint32_t channel, const struct kolo_desc *desc)
{
    (void)peer;
    (void)channel;
    (void)desc;
    ((struct rank *)context)->early++;
}

static void on_left(void *context, int peer)
{
    (void)peer;
    ((struct rank *)context)->left++;
}

static void on_down(void *context, int peer, kolo_status why, const char *text)
{
    struct rank *rank = context;
    (void)peer;
    rank->down++;
    rank->why = why;
    snprintf(rank->text, sizeof rank->text, "%s", text);
}

static void set(struct world *w, const char *name, const char *value)
{
    cr_assert(kolo_settings_set(&w->settings, name, value, KOLO_FROM_API) == KOLO_OK, "%s",
              kolo_error_detail());
}

static void init_world(struct world *w, int size)
{
    memset(w, 0, sizeof *w);
    w->size = size;
    kolo_settings_init(&w->settings);
    set(w, "transport", "tcp");
    cr_assert(kolo_secret_make(&w->secret) == KOLO_OK);
}

static void open_rank(struct world *w, int rank)
{
    struct kolo_endpoint_config config = {.rank = rank,
                                          .size = w->size,
                                          .settings = &w->settings,
                                          .secret = w->secret,
                                          .events = {.context = &w->ranks[rank],
                                                     .mismatch = on_mismatch,
                                                     .early = on_early,
                                                     .aborted = on_aborted,
                                                     .left = on_left,
                                                     .down = on_down}};
    kolo_identity_here(rank, &config.identity);
    cr_assert(kolo_endpoint_open(&config, &w->ranks[rank].endpoint) == KOLO_OK, "%s",
              kolo_error_detail());
    kolo_endpoint_self(w->ranks[rank].endpoint, &w->peers[rank]);
}

/** Opens the first @p opened ranks; the test plays the others. */
static void open_ranks(struct world *w, int opened)
{
    for (int i = 0; i < opened; i++)
        open_rank(w, i);
    for (int i = opened; i < w->size; i++) {
        w->peers[i] = w->peers[0];
        w->peers[i].identity.rank = i;
    }
}

static void join_ranks(struct world *w, int opened)
{
    for (int i = 0; i < opened; i++)
        cr_assert(kolo_endpoint_set_peers(w->ranks[i].endpoint, w->peers) == KOLO_OK, "%s",
                  kolo_error_detail());
}

static void open_world(struct world *w, int opened)
{
    open_ranks(w, opened);
    join_ranks(w, opened);
}

static void close_world(struct world *w)
{
    for (int i = 0; i < w->size; i++)
        (void)kolo_endpoint_close(w->ranks[i].endpoint, kolo_deadline_in_ms(0));
}

static bool progress(struct world *w)
{
    bool any = false;
    for (int i = 0; i < w->size; i++) {
        bool moved = false;
        if (w->ranks[i].endpoint)
            cr_assert(kolo_endpoint_progress(w->ranks[i].endpoint, &moved) == KOLO_OK);
        any |= moved;
    }
    return any;
}

/** Makes progress until *flag is no longer AGAIN (or, for a count, positive). */
static void run_until(struct world *w, const kolo_status *status, const int *count, int ms)
{
    kolo_deadline deadline = kolo_deadline_in_ms(ms);
    while (!kolo_deadline_passed(deadline)) {
        progress(w);
        if ((status && *status != KOLO_AGAIN) || (count && *count > 0))
            return;
    }
}

static struct kolo_link *link_of(struct world *w, int from, int to)
{
    struct kolo_link *link = NULL;
    cr_assert(kolo_endpoint_link(w->ranks[from].endpoint, to, kolo_deadline_in_ms(10000), &link) ==
                  KOLO_OK,
              "%s", kolo_error_detail());
    return link;
}

static struct kolo_desc desc_of(int tag)
{
    struct kolo_desc desc = {{0}};
    desc.bytes[0] = (uint8_t)tag;
    desc.bytes[23] = (uint8_t)(tag >> 8);
    return desc;
}

static uint8_t pattern(size_t i, int tag)
{
    return (uint8_t)(i * 7 + i / 251 + (size_t)tag * 31);
}

static uint8_t *make_data(size_t bytes, int tag)
{
    uint8_t *data = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = pattern(i, tag);
    return data;
}

/** Sends one message and checks it. */
static void move(struct world *w, int from, int to, uint32_t channel, size_t bytes, bool is_early)
{
    struct kolo_desc desc = desc_of((int)bytes);
    struct kolo_work send, receive;
    uint8_t *src = make_data(bytes, (int)channel), *dst = calloc(1, bytes + 1);
    struct kolo_link *out = link_of(w, from, to), *in = link_of(w, to, from);

    kolo_link_send(out, channel, &desc, src, bytes, &send);
    for (int i = 0; is_early && i < 50; i++)
        progress(w);
    kolo_link_recv(in, channel, &desc, dst, bytes, NULL, &receive);
    run_until(w, &receive.status, NULL, 10000);
    run_until(w, &send.status, NULL, 10000);
    cr_assert(send.status == KOLO_OK && receive.status == KOLO_OK, "%zu: %d %d %s", bytes,
              send.status, receive.status, w->ranks[to].text);
    cr_assert(memcmp(src, dst, bytes) == 0, "%zu bytes differ", bytes);
    free(src);
    free(dst);
}

static const size_t sizes[] = {0,      1,      7,      8,       31,           32,    33,
                               4095,   4096,   65503,  65504,   65505,        65536, 65537,
                               262144, 262145, 300000, 1000003, (8 << 20) + 5};

Test(tcp, messages_of_all_sizes_both_ways, .timeout = 60)
{
    struct world w;
    init_world(&w, 2);
    open_world(&w, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        move(&w, 0, 1, 1, sizes[i], false);
        move(&w, 1, 0, 2, sizes[i], true);
    }
    close_world(&w);
}

/** A long frame without a receive waits in the socket for its receive, but does not delay what is
 * behind it for long. */
Test(tcp, what_stands_behind_an_early_frame_arrives, .timeout = 60)
{
    struct world w;
    struct kolo_desc desc = desc_of(1);
    struct kolo_work send[2], receive[2];
    uint8_t *src = make_data(1 << 20, 1), *dst = calloc(1, 1 << 20), word = 0;

    init_world(&w, 2);
    open_world(&w, 2);
    move(&w, 0, 1, 2, 1, false);
    kolo_link_send(link_of(&w, 0, 1), 1, &desc, src, 1 << 19, &send[0]);
    kolo_link_send(link_of(&w, 0, 1), 2, &desc, src, 1, &send[1]);
    kolo_link_recv(link_of(&w, 1, 0), 2, &desc, &word, 1, NULL, &receive[1]);
    run_until(&w, &receive[1].status, NULL, 10000);
    cr_assert(receive[1].status == KOLO_OK && word == src[0]);
    kolo_link_recv(link_of(&w, 1, 0), 1, &desc, dst, 1 << 19, NULL, &receive[0]);
    run_until(&w, &receive[0].status, NULL, 10000);
    cr_assert(receive[0].status == KOLO_OK && memcmp(src, dst, 1 << 19) == 0);
    free(src);
    free(dst);
    close_world(&w);
}

/** A rank that goes to sleep has been told of everything that arrived, even if it waits for
 * nothing. */
Test(tcp, a_rank_that_sleeps_holds_no_early_frame, .timeout = 60)
{
    struct world w;
    struct kolo_desc desc = desc_of(1);
    struct kolo_work send;
    uint8_t *src = make_data(1 << 19, 1);

    init_world(&w, 2);
    open_world(&w, 2);
    move(&w, 0, 1, 2, 1, false);
    w.ranks[1].early = 0;
    kolo_link_send(link_of(&w, 0, 1), 1, &desc, src, 1 << 19, &send);
    run_until(&w, &send.status, NULL, 100);
    kolo_endpoint_arm(w.ranks[1].endpoint);
    /* fewer looks than a rank that does not sleep would wait for */
    for (int looks = 0; looks < 8; looks++)
        cr_assert(kolo_endpoint_progress(w.ranks[1].endpoint, NULL) == KOLO_OK);
    cr_assert(w.ranks[1].early == 2, "%d frames", w.ranks[1].early);
    kolo_endpoint_disarm(w.ranks[1].endpoint);
    free(src);
    close_world(&w);
}

Test(tcp, works_over_ipv6, .timeout = 60)
{
    struct world w;
    char text[256];
    init_world(&w, 2);
    set(&w, "net", "::1");
    open_world(&w, 2);
    move(&w, 0, 1, 1, 1000003, false);
    move(&w, 1, 0, 1, 1000003, true);
    kolo_link_describe(link_of(&w, 0, 1), text, sizeof text);
    cr_assert(strstr(text, "tcp [::1]:"), "%s", text);
    close_world(&w);
}

Test(tcp, dials_that_cross_end_in_one_link, .timeout = 60)
{
    for (int delay = 0; delay < 30; delay++) {
        struct world w;
        init_world(&w, 2);
        open_world(&w, 2);
        int first = delay % 2;
        (void)link_of(&w, first, 1 - first);
        for (int i = 0; i < delay / 2; i++) {
            bool moved;
            cr_assert(kolo_endpoint_progress(w.ranks[delay % 3 == 0].endpoint, &moved) == KOLO_OK);
        }
        (void)link_of(&w, 1 - first, first);
        move(&w, 0, 1, 1, 100, false);
        move(&w, 1, 0, 1, 100, false);
        cr_assert(w.ranks[0].down == 0 && w.ranks[1].down == 0, "%s%s", w.ranks[0].text,
                  w.ranks[1].text);
        close_world(&w);
    }
}

Test(tcp, reductions_take_whole_elements_whatever_the_cuts, .timeout = 60)
{
    static const size_t counts[] = {1, 3, 8188, 8189, 131071, 400001};
    struct world w;

    init_world(&w, 2);
    open_world(&w, 2);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t count = counts[c];
        struct kolo_desc desc = desc_of((int)count);
        int64_t *src = malloc(count * 8), *dst = malloc(count * 8);
        for (size_t i = 0; i < count; i++) {
            src[i] = (int64_t)i * 3;
            dst[i] = (int64_t)i << 32;
        }
        struct kolo_action action = {
            .kind = KOLO_REDUCE, .dtype = KOLO_INT64, .op = KOLO_SUM, .local = dst};
        struct kolo_work send, receive;
        /* A small message before it puts the large one at an odd offset in the buffer. */
        move(&w, 0, 1, 9, 13, true);
        kolo_link_recv(link_of(&w, 1, 0), 3, &desc, dst, count * 8, &action, &receive);
        kolo_link_send(link_of(&w, 0, 1), 3, &desc, src, count * 8, &send);
        run_until(&w, &receive.status, NULL, 10000);
        run_until(&w, &send.status, NULL, 10000);
        cr_assert(receive.status == KOLO_OK && send.status == KOLO_OK);
        for (size_t i = 0; i < count; i++)
            cr_assert(dst[i] == (int64_t)i * 3 + ((int64_t)i << 32), "element %zu of %zu", i,
                      count);
        free(src);
        free(dst);
    }
    close_world(&w);
}

Test(tcp, many_channels_do_not_wait_for_each_other, .timeout = 60)
{
    enum { CHANNELS = 40 };
    struct world w;
    struct kolo_work sends[CHANNELS], receives[CHANNELS];
    uint8_t *src[CHANNELS], *dst[CHANNELS];
    size_t bytes = 3 << 20; /* more than the credit, so most of it waits for its receive */

    init_world(&w, 2);
    open_world(&w, 2);
    for (int i = 0; i < CHANNELS; i++) {
        struct kolo_desc desc = desc_of(i);
        src[i] = make_data(bytes, i);
        dst[i] = calloc(1, bytes);
        kolo_link_send(link_of(&w, 0, 1), (uint32_t)i, &desc, src[i], bytes, &sends[i]);
    }
    for (int i = 0; i < 200; i++)
        progress(&w);
    for (int i = CHANNELS; i-- > 0;) { /* the last one first */
        struct kolo_desc desc = desc_of(i);
        kolo_link_recv(link_of(&w, 1, 0), (uint32_t)i, &desc, dst[i], bytes, NULL, &receives[i]);
        run_until(&w, &receives[i].status, NULL, 10000);
        cr_assert(receives[i].status == KOLO_OK, "channel %d: %d %s", i, receives[i].status,
                  w.ranks[1].text);
        cr_assert(memcmp(src[i], dst[i], bytes) == 0, "channel %d", i);
        run_until(&w, &sends[i].status, NULL, 10000);
        cr_assert(sends[i].status == KOLO_OK);
        free(src[i]);
        free(dst[i]);
    }
    close_world(&w);
}

Test(tcp, a_cancelled_send_leaves_the_others_whole, .timeout = 60)
{
    struct world w;
    size_t bytes = 900000;

    init_world(&w, 2);
    set(&w, "credit_bytes", "64MiB"); /* so that the socket fills up before the credit ends */
    set(&w, "segment_bytes", "4MiB");
    open_world(&w, 2);
    move(&w, 0, 1, 1, 10, false);
    for (int round = 0; round < 5; round++) {
        struct kolo_desc desc = desc_of(round);
        struct kolo_work doomed, good, receive;
        uint8_t *doomed_src = make_data(48 << 20, 1), *src = make_data(bytes, 2);
        uint8_t *dst = calloc(1, bytes);
        uint32_t channel = 10 + 2 * (uint32_t)round;
        kolo_link_send(link_of(&w, 0, 1), channel, &desc, doomed_src, 48 << 20, &doomed);
        kolo_link_send(link_of(&w, 0, 1), channel + 1, &desc, src, bytes, &good);
        cr_assert(doomed.status == KOLO_AGAIN, "the kernel cannot hold it all");
        kolo_work_cancel(&doomed);
        cr_assert(doomed.status == KOLO_ERR_ABORTED);
        memset(doomed_src, 0xee, 48 << 20);
        free(doomed_src); /* ASan reports any later read */
        kolo_link_recv(link_of(&w, 1, 0), channel + 1, &desc, dst, bytes, NULL, &receive);
        run_until(&w, &receive.status, NULL, 10000);
        cr_assert(receive.status == KOLO_OK, "%d %s%s", receive.status, w.ranks[0].text,
                  w.ranks[1].text);
        run_until(&w, &good.status, NULL, 10000);
        cr_assert(good.status == KOLO_OK && memcmp(src, dst, bytes) == 0);
        free(src);
        free(dst);
    }
    cr_assert(w.ranks[0].down == 0 && w.ranks[1].down == 0);
    close_world(&w);
}

Test(tcp, a_peer_that_does_not_read_is_not_lost, .timeout = 60)
{
    struct world w;
    struct kolo_work send, receive;
    struct kolo_desc desc = desc_of(1);
    size_t bytes = 60 << 20;
    uint8_t *src = make_data(bytes, 1), *dst = calloc(1, bytes);

    init_world(&w, 2);
    set(&w, "peer_timeout", "400ms");
    /* far more than the sockets hold, so that the window closes */
    set(&w, "credit_bytes", "64MiB");
    open_world(&w, 2);
    move(&w, 0, 1, 2, 10, false);
    kolo_link_send(link_of(&w, 0, 1), 1, &desc, src, bytes, &send);
    kolo_deadline deadline = kolo_deadline_in_ms(2500);
    while (!kolo_deadline_passed(deadline)) {
        bool moved;
        kolo_endpoint_arm(w.ranks[0].endpoint);
        cr_assert(kolo_endpoint_progress(w.ranks[0].endpoint, &moved) == KOLO_OK);
        kolo_endpoint_sleep(w.ranks[0].endpoint, kolo_deadline_in_ms(50));
        kolo_endpoint_disarm(w.ranks[0].endpoint);
    }
    cr_assert(send.status == KOLO_AGAIN, "%d %s", send.status, w.ranks[0].text);
    kolo_link_recv(link_of(&w, 1, 0), 1, &desc, dst, bytes, NULL, &receive);
    run_until(&w, &receive.status, NULL, 20000);
    cr_assert(receive.status == KOLO_OK, "%d %s", receive.status, w.ranks[1].text);
    cr_assert(memcmp(src, dst, bytes) == 0);
    free(src);
    free(dst);
    close_world(&w);
}

static void *close_rank_0(void *context)
{
    struct world *w = context;
    kolo_status status = kolo_endpoint_close(w->ranks[0].endpoint, kolo_deadline_in_ms(50000));
    return status == KOLO_OK ? w : NULL;
}

Test(tcp, what_was_sent_before_the_goodbye_arrives, .timeout = 60)
{
    for (int round = 0; round < 10; round++) {
        struct world w;
        struct kolo_work send, unread, receive;
        struct kolo_desc desc = desc_of(1);
        size_t bytes = 900000; /* within the credit, but more than the peer's socket takes */
        uint8_t *src = make_data(bytes, 1), *dst = calloc(1, bytes);
        uint8_t crumb = 1;
        pthread_t thread;
        void *closed;

        init_world(&w, 2);
        open_world(&w, 2);
        move(&w, 0, 1, 2, 10, false);
        /* A socket that is closed with unread bytes resets the connection. */
        kolo_link_send(link_of(&w, 1, 0), 7, &desc, &crumb, 1, &unread);
        kolo_link_send(link_of(&w, 0, 1), 1, &desc, src, bytes, &send);
        kolo_link_recv(link_of(&w, 1, 0), 1, &desc, dst, bytes, NULL, &receive);
        cr_assert(pthread_create(&thread, NULL, close_rank_0, &w) == 0);
        kolo_deadline deadline = kolo_deadline_in_ms(50000);
        while (w.ranks[1].left + w.ranks[1].down == 0 && !kolo_deadline_passed(deadline))
            cr_assert(kolo_endpoint_progress(w.ranks[1].endpoint, NULL) == KOLO_OK);
        cr_assert(pthread_join(thread, &closed) == 0 && closed);
        w.ranks[0].endpoint = NULL;
        cr_assert(send.status == KOLO_OK);
        cr_assert(w.ranks[1].left == 1 && w.ranks[1].down == 0, "%s", w.ranks[1].text);
        cr_assert(receive.status == KOLO_OK && memcmp(src, dst, bytes) == 0, "%d", receive.status);
        free(src);
        free(dst);
        close_world(&w);
    }
}

/** How many bytes of rank 0's the kernel has not seen acknowledged. */
static int unacknowledged(struct world *w)
{
    int bytes = 0;
    const struct tcp_link *tcp = (const struct tcp_link *)link_of(w, 0, 1);
    cr_assert(ioctl(tcp->socket.watch.fd, SIOCOUTQ, &bytes) == 0);
    return bytes;
}

/** Rank 0 sends messages, each until the kernel has it, while rank 1 reads nothing: as many as fill
 * rank 1's socket, or only one. Returns when nothing more is acknowledged. */
static void send_to_nobody(struct world *w, bool fills)
{
    enum { BYTES = 4096 };
    static const uint8_t data[BYTES];
    const kolo_deadline deadline = kolo_deadline_in_ms(50000);
    const struct kolo_desc desc = desc_of(1);
    const struct tcp_link *in = (const struct tcp_link *)link_of(w, 1, 0);
    const int least = BYTES;
    struct kolo_work send;
    cr_assert(setsockopt(in->socket.watch.fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least) == 0);
    do {
        kolo_link_send(link_of(w, 0, 1), 1, &desc, data, BYTES, &send);
        cr_assert(send.status == KOLO_OK, "%d", send.status);
    } while (fills && unacknowledged(w) < 8 * BYTES);
    while (!fills && unacknowledged(w) > 0 && !kolo_deadline_passed(deadline))
        poll(NULL, 0, 1);
    cr_assert((unacknowledged(w) > 0) == fills, "%d", unacknowledged(w));
}

/** Ends rank 1's side of the link without a goodbye, as a crash would. */
static void crash_rank_1(struct world *w)
{
    kolo_link_set_down(link_of(w, 1, 0), kolo_fail(KOLO_ERR_ABORTED, "a crash"));
}

/** What was sent is in the kernel, and the connection breaks before the peer has it. Nobody waits
 * for a work that could fail, so that the close is the only one to say it. */
static void lose(bool is_told_before)
{
    struct world w;
    init_world(&w, 2);
    open_world(&w, 2);
    move(&w, 0, 1, 2, 10, false);
    send_to_nobody(&w, true);
    crash_rank_1(&w);
    const kolo_deadline deadline = kolo_deadline_in_ms(50000);
    while (is_told_before && w.ranks[0].down == 0 && !kolo_deadline_passed(deadline))
        cr_assert(kolo_endpoint_progress(w.ranks[0].endpoint, NULL) == KOLO_OK);
    kolo_status status = kolo_endpoint_close(w.ranks[0].endpoint, kolo_deadline_in_ms(50000));
    w.ranks[0].endpoint = NULL;
    cr_assert(status == KOLO_ERR_LINK && w.ranks[0].down == is_told_before, "%s, %d down",
              kolo_status_name(status), w.ranks[0].down);
    cr_assert(
        strstr(kolo_error_detail(), "what rank 0 sent last may not have reached rank 1 on ") &&
            strstr(kolo_error_detail(), " by peer"),
        "%s", kolo_error_detail());
    close_world(&w);
}

Test(tcp, what_is_lost_with_the_link_during_the_close_is_told, .timeout = 120)
{
    lose(false);
}

Test(tcp, what_was_lost_with_the_link_before_the_close_is_told, .timeout = 120)
{
    lose(true);
}

/** The peer has all messages, and lacks only the goodbye. */
Test(tcp, a_goodbye_that_is_lost_is_no_failure, .timeout = 120)
{
    struct world w;
    init_world(&w, 2);
    open_world(&w, 2);
    move(&w, 0, 1, 2, 10, false);
    send_to_nobody(&w, false);
    crash_rank_1(&w);
    kolo_status status = kolo_endpoint_close(w.ranks[0].endpoint, kolo_deadline_in_ms(50000));
    w.ranks[0].endpoint = NULL;
    cr_assert(status == KOLO_OK, "%s: %s", kolo_status_name(status), kolo_error_detail());
    close_world(&w);
}

/** Rank 0 dials, and rank 1 has offered to use the connection, of which rank 0 does not know yet.
 * Returns rank 1's link. */
static struct kolo_link *offer(struct world *w)
{
    const kolo_deadline deadline = kolo_deadline_in_ms(50000);
    struct kolo_link *offered = NULL;
    (void)link_of(w, 0, 1);
    while (!offered && !kolo_deadline_passed(deadline)) {
        for (int i = 0; i < 2; i++)
            cr_assert(kolo_endpoint_progress(w->ranks[i].endpoint, NULL) == KOLO_OK);
        offered = kolo_map_get(&w->ranks[1].endpoint->links, 0);
    }
    cr_assert(offered && offered->state == KOLO_LINK_CONNECTING);
    cr_assert(link_of(w, 0, 1)->state == KOLO_LINK_CONNECTING);
    return offered;
}

/** The byte by which rank 0 takes a connection is not acknowledged, nor is the notice behind it. */
Test(tcp, a_link_that_ends_before_its_first_message_loses_nothing, .timeout = 120)
{
    struct world w;
    init_world(&w, 2);
    open_world(&w, 2);
    struct kolo_link *offered = offer(&w);
    kolo_endpoint_abort(w.ranks[0].endpoint, NULL, 0, 1, KOLO_ERR_MISMATCH, "counts differ");
    kolo_link_set_down(offered, kolo_fail(KOLO_ERR_ABORTED, "a crash"));
    run_until(&w, NULL, &w.ranks[0].down, 50000);
    cr_assert(w.ranks[0].down == 1);
    kolo_status status = kolo_endpoint_close(w.ranks[0].endpoint, kolo_deadline_in_ms(50000));
    w.ranks[0].endpoint = NULL;
    cr_assert(status == KOLO_OK, "%s: %s", kolo_status_name(status), kolo_error_detail());
    close_world(&w);
}

/** Rank 1 leaves before it knows whether rank 0 takes its offer. Rank 0 does so, before or after
 * that, and sends a message. */
static void leave_offered(const char *checksum, bool is_taken)
{
    struct world w;
    const struct kolo_desc desc = desc_of(1);
    const kolo_deadline deadline = kolo_deadline_in_ms(50000);
    struct kolo_work send;
    init_world(&w, 2);
    set(&w, "checksum", checksum);
    open_world(&w, 2);
    (void)offer(&w);
    kolo_endpoint_abort(w.ranks[1].endpoint, NULL, 0, 1, KOLO_ERR_MISMATCH, "counts differ");
    kolo_link_send(link_of(&w, 0, 1), 1, &desc, "x", 1, &send);
    while (is_taken && send.status == KOLO_AGAIN && !kolo_deadline_passed(deadline))
        cr_assert(kolo_endpoint_progress(w.ranks[0].endpoint, NULL) == KOLO_OK);
    cr_assert(send.status == (is_taken ? KOLO_OK : KOLO_AGAIN), "%d", send.status);
    kolo_status status = kolo_endpoint_close(w.ranks[1].endpoint, kolo_deadline_in_ms(50000));
    w.ranks[1].endpoint = NULL;
    cr_assert(status == KOLO_OK, "%s: %s", kolo_status_name(status), kolo_error_detail());
    run_until(&w, NULL, &w.ranks[0].left, 50000);
    for (int i = 0; i < 100; i++)
        progress(&w);
    cr_assert(w.ranks[0].left == 1 && w.ranks[0].down == 0, "%s", w.ranks[0].text);
    cr_assert(w.ranks[0].aborted == 1 && w.ranks[0].why == KOLO_ERR_MISMATCH);
    status = kolo_endpoint_close(w.ranks[0].endpoint, kolo_deadline_in_ms(50000));
    w.ranks[0].endpoint = NULL;
    cr_assert(status == KOLO_OK, "%s: %s", kolo_status_name(status), kolo_error_detail());
    close_world(&w);
}

Test(tcp, a_rank_that_leaves_says_goodbye_where_it_has_offered_a_link, .timeout = 120)
{
    for (int i = 0; i < 4; i++)
        leave_offered(i & 1 ? "1" : "0", i & 2);
}

/** A peer that says goodbye takes nothing more, which is its own affair. The goodbye stands behind
 * a message of @p bytes bytes that this rank has not taken either. */
static void leave_both(size_t bytes)
{
    struct world w;
    const struct kolo_desc desc = desc_of(1);
    const kolo_deadline deadline = kolo_deadline_in_ms(50000);
    struct kolo_work send;
    uint8_t *unread = make_data(bytes, 1);
    bool is_seen = bytes == 0;
    init_world(&w, 2);
    open_world(&w, 2);
    move(&w, 0, 1, 2, 10, false);
    send_to_nobody(&w, true);
    if (bytes > 0) {
        kolo_link_send(link_of(&w, 1, 0), 1, &desc, unread, bytes, &send);
        cr_assert(send.status == KOLO_OK, "%d", send.status);
    }
    while (!is_seen && !kolo_deadline_passed(deadline))
        cr_assert(kolo_endpoint_progress(w.ranks[0].endpoint, &is_seen) == KOLO_OK);
    (void)kolo_endpoint_close(w.ranks[1].endpoint, kolo_deadline_in_ms(0)); /* rank 0 is still */
    w.ranks[1].endpoint = NULL;
    kolo_status status = kolo_endpoint_close(w.ranks[0].endpoint, kolo_deadline_in_ms(50000));
    w.ranks[0].endpoint = NULL;
    cr_assert(status == KOLO_OK, "%zu bytes, %s: %s", bytes, kolo_status_name(status),
              kolo_error_detail());
    free(unread);
    close_world(&w);
}

Test(tcp, what_a_peer_that_leaves_has_not_taken_is_no_failure, .timeout = 120)
{
    static const size_t bytes[] = {0, 4000, 20000}; /* short, and long enough to be held */
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        leave_both(bytes[i]);
}

Test(tcp, an_abort_arrives_though_the_connection_ends, .timeout = 60)
{
    struct world w;
    init_world(&w, 2);
    open_world(&w, 2);
    move(&w, 0, 1, 2, 10, false);
    kolo_endpoint_abort(w.ranks[0].endpoint, NULL, 0, 0, KOLO_ERR_PEER, "rank 7 died of hunger");
    (void)kolo_endpoint_close(w.ranks[0].endpoint, kolo_deadline_in_ms(2000));
    w.ranks[0].endpoint = NULL;
    run_until(&w, NULL, &w.ranks[1].aborted, 20000);
    cr_assert(w.ranks[1].aborted == 1 && w.ranks[1].why == KOLO_ERR_PEER);
    cr_assert_str_eq(w.ranks[1].text, "rank 7 died of hunger");
    close_world(&w);
}

/** Rank 0 begins to dial rank 1, which has existed and is gone. */
static void dial_nobody(struct world *w, int within_ms)
{
    struct kolo_link *link;
    open_rank(w, 0);
    for (int peer = 1; peer < w->size; peer++) {
        open_rank(w, peer);
        (void)kolo_endpoint_close(w->ranks[peer].endpoint, 0);
        w->ranks[peer].endpoint = NULL;
    }
    cr_assert(kolo_endpoint_set_peers(w->ranks[0].endpoint, w->peers) == KOLO_OK);
    for (int peer = 1; peer < w->size; peer++)
        cr_assert(kolo_endpoint_link(w->ranks[0].endpoint, peer, kolo_deadline_in_ms(within_ms),
                                     &link) == KOLO_OK);
}

Test(tcp, nobody_at_the_address_is_told_by_name, .timeout = 60)
{
    struct world w;
    init_world(&w, 2);
    dial_nobody(&w, 2000);
    run_until(&w, NULL, &w.ranks[0].down, 20000);
    cr_assert(w.ranks[0].down == 1 && w.ranks[0].why == KOLO_ERR_CONNECT, "%d", w.ranks[0].why);
    cr_assert(strstr(w.ranks[0].text, "cannot reach rank 1: ") &&
                  strstr(w.ranks[0].text, "connection refused"),
              "%s", w.ranks[0].text);
    close_world(&w);
}

Test(tcp, nobody_at_the_address_is_waited_for_as_long_as_a_start_may_take, .timeout = 60)
{
    struct world w;
    init_world(&w, 2);
    set(&w, "start_timeout", "300ms");
    dial_nobody(&w, 600000);
    run_until(&w, NULL, &w.ranks[0].down, 50000);
    cr_assert(w.ranks[0].down == 1 && w.ranks[0].why == KOLO_ERR_CONNECT, "%d", w.ranks[0].why);
    close_world(&w);
}

/* Within one host nothing is said of a firewall; tests/cluster/network.sh has one between hosts. */
static int slow_dials;

static void count_slow_dials(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    slow_dials += level == KOLO_LOG_WARN && strstr(line, "cannot reach rank 1: ") &&
                  strstr(line, "connection refused") && !strstr(line, "firewall");
}

Test(tcp, a_dial_that_takes_long_warns, .timeout = 60)
{
    struct world w;
    init_world(&w, 2);
    set(&w, "stall_warn", "50ms");
    kolo_log_set_sink(count_slow_dials, NULL);
    dial_nobody(&w, 600000);
    run_until(&w, NULL, &slow_dials, 50000);
    cr_assert(slow_dials == 1 && w.ranks[0].down == 0, "%d %d", slow_dials, w.ranks[0].down);
    kolo_log_set_sink(NULL, NULL);
    close_world(&w);
}

/* How many ranks were named or counted, and in how many lines. */
static int late_told, late_lines;

static void count_late(void *context, enum kolo_log_level level, const char *line)
{
    const char *more = strstr(line, " waited for, too") ? strrchr(line, ';') : NULL;
    (void)context;
    if (level != KOLO_LOG_WARN || !strstr(line, "cannot reach rank "))
        return;
    late_lines++;
    late_told += 1 + (more ? atoi(more + 1) : 0);
}

/** In the first line, which comes when the first of them is late, and in one at the end of the time
 * in which no other is said. */
Test(tcp, of_many_dials_that_take_long_one_is_named, .timeout = 60)
{
    struct world w;
    init_world(&w, RANKS_MAX);
    set(&w, "stall_warn", "300ms");
    kolo_log_set_sink(count_late, NULL);
    dial_nobody(&w, 600000);
    while (late_told < RANKS_MAX - 1)
        progress(&w);
    cr_assert(late_told == RANKS_MAX - 1 && late_lines < RANKS_MAX - 1, "%d in %d", late_told,
              late_lines);
    kolo_log_set_sink(NULL, NULL);
    close_world(&w);
}

/* ---- settings ---- */

static int warnings;

static void count_warnings(void *context, enum kolo_log_level level, const char *line)
{
    (void)context;
    if (level == KOLO_LOG_WARN && strstr(line, "KOLO_TCP_CONGESTION=no-such-thing"))
        warnings++;
}

Test(tcp, an_unknown_congestion_control_warns_once, .timeout = 60)
{
    struct world w;
    init_world(&w, 3);
    set(&w, "tcp_congestion", "no-such-thing");
    kolo_log_set_sink(count_warnings, NULL);
    open_world(&w, 3);
    move(&w, 0, 1, 1, 10, false);
    move(&w, 0, 2, 1, 10, false);
    cr_assert(warnings == 3, "one for each rank: %d", warnings);
    close_world(&w);
}

static int index_of_tcp(void)
{
    int index = 0;
    while (kolo_transports[index] != &kolo_transport_tcp)
        index++;
    return index;
}

/** The congestion control of @p rank's first link, on the side that dialled and on the side that
 * was dialled. */
static void congestion_of(const struct world *w, int rank, char name[64])
{
    const struct kolo_link *link = w->ranks[rank].endpoint->first_link;
    socklen_t bytes = 63;
    memset(name, 0, 64);
    cr_assert_not_null(link);
    cr_assert(getsockopt(((const struct tcp_link *)link)->socket.watch.fd, IPPROTO_TCP,
                         TCP_CONGESTION, name, &bytes) == 0);
}

Test(tcp, inside_a_host_the_congestion_control_is_reno_unless_another_is_asked_for, .timeout = 60)
{
    static const char *const asked[] = {"", "reno", "cubic", "bbr"};
    for (int i = 0; i < 4; i++) {
        struct world w;
        char name[64], wanted[64] = "reno";
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        init_world(&w, 2);
        set(&w, "tcp_congestion", asked[i]);
        if (asked[i][0] != '\0' &&
            setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, asked[i], (socklen_t)strlen(asked[i])) == 0)
            snprintf(wanted, sizeof wanted, "%s", asked[i]); /* it may be used on this machine */
        open_world(&w, 2);
        move(&w, 0, 1, 1, 10, false);
        for (int rank = 0; rank < 2; rank++) {
            congestion_of(&w, rank, name);
            cr_assert_str_eq(name, wanted, "rank %d, asked for '%s'", rank, asked[i]);
        }
        close_world(&w);
        close(fd);
    }
}

/** To the sockets, 127.0.0.1 and 127.0.0.2 look like two hosts. */
static void move_apart(struct world *w)
{
    struct kolo_place places[TCP_PLACES_MAX];
    int tcp = index_of_tcp();
    for (int rank = 0; rank < w->size; rank++) {
        struct kolo_address *address = &w->peers[rank].addresses[tcp];
        size_t count = 0;
        cr_assert(kolo_tcp_read_places(address->data, address->bytes, places, &count) == KOLO_OK);
        for (size_t i = 0; i < count; i++) {
            struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&places[i].addr;
            if (places[i].addr.ss_family == AF_INET)
                v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
        }
        cr_assert(kolo_tcp_write_places(places, count, address) == KOLO_OK);
    }
}

Test(tcp, between_hosts_the_congestion_control_is_the_systems, .timeout = 60)
{
    struct world w;
    char name[64], wanted[64] = "";
    socklen_t bytes = 63;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted, &bytes) == 0);
    close(fd);
    init_world(&w, 2);
    open_ranks(&w, 2);
    move_apart(&w);
    join_ranks(&w, 2);
    move(&w, 0, 1, 1, 10, false);
    for (int rank = 0; rank < 2; rank++) {
        congestion_of(&w, rank, name);
        cr_assert_str_eq(name, wanted, "rank %d", rank);
    }
    close_world(&w);
}

Test(tcp, net_without_an_address_is_refused)
{
    struct world w;
    struct kolo_endpoint *endpoint;
    init_world(&w, 2);
    set(&w, "net", "240.1.2.0/24");
    struct kolo_endpoint_config config = {
        .rank = 0, .size = 2, .settings = &w.settings, .secret = w.secret};
    kolo_identity_here(0, &config.identity);
    cr_assert(kolo_endpoint_open(&config, &endpoint) != KOLO_OK);
    cr_assert(strstr(kolo_error_detail(), "240.1.2.0/24"), "%s", kolo_error_detail());
}

Test(tcp, a_nonsense_address_does_not_reach)
{
    struct world w;
    init_world(&w, 2);
    open_rank(&w, 0);
    srand(5);
    for (int i = 0; i < 300; i++) {
        struct kolo_address *address = &w.peers[1].addresses[index_of_tcp()];
        w.peers[1] = w.peers[0];
        address->bytes = (uint16_t)(1 + rand() % 40);
        for (int j = 0; j < address->bytes; j++)
            address->data[j] = (uint8_t)(rand() % (j == 0 ? 20 : 256));
        if (i % 2)
            address->data[1] = 4;
        kolo_status status = kolo_endpoint_set_peers(w.ranks[0].endpoint, w.peers);
        cr_assert(status == KOLO_OK || status == KOLO_ERR_UNSUPPORTED, "%d", status);
    }
    w.peers[1].addresses[index_of_tcp()] = (struct kolo_address){2, {1, 9}};
    cr_assert(kolo_endpoint_set_peers(w.ranks[0].endpoint, w.peers) == KOLO_ERR_UNSUPPORTED);
    close_world(&w);
}

Test(tcp, loopback_of_another_host_does_not_reach)
{
    struct world w;
    init_world(&w, 2);
    set(&w, "net", "lo");
    open_rank(&w, 0);
    w.peers[1] = w.peers[0];
    w.peers[1].identity.rank = 1;
    w.peers[1].identity.host_id++;
    cr_assert(kolo_endpoint_set_peers(w.ranks[0].endpoint, w.peers) == KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "loopback"), "%s", kolo_error_detail());
    close_world(&w);
}

/* ---- a peer that knows the secret, and then misbehaves ---- */

struct raw {
    struct kolo_poller *poller;
    int fd;
    kolo_status status;
};

static void on_raw(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct raw *raw = context;
    (void)theirs;
    raw->status = status;
    raw->fd = fd;
}

/** Dials rank @p to as rank @p rank, and proves itself. */
static void raw_dial(struct world *w, struct raw *raw, int rank, int to)
{
    const struct kolo_greeting mine = {KOLO_PROTOCOL_VERSION, KOLO_PURPOSE_TCP, rank, to, 0};
    struct kolo_place place;
    struct kolo_conn *conn;
    size_t count;
    const struct kolo_address *address = &w->peers[to].addresses[index_of_tcp()];
    char text[64];

    /* The first place of its address: count, family (4), port, four bytes. */
    cr_assert(address->data[1] == 4);
    snprintf(text, sizeof text, "%d.%d.%d.%d:%d", address->data[4], address->data[5],
             address->data[6], address->data[7], address->data[2] | address->data[3] << 8);
    cr_assert(kolo_places_resolve(text, 0, &place, 1, &count) == KOLO_OK);
    *raw = (struct raw){.fd = -1, .status = KOLO_AGAIN};
    cr_assert(kolo_poller_create(&raw->poller) == KOLO_OK);
    cr_assert(kolo_conn_dial(raw->poller,
                             &(struct kolo_dial_config){.places = &place,
                                                        .count = 1,
                                                        .secret = &w->secret,
                                                        .mine = &mine,
                                                        .deadline = kolo_deadline_in_ms(20000),
                                                        .done = on_raw,
                                                        .context = raw},
                             &conn) == KOLO_OK);
    while (raw->status == KOLO_AGAIN) {
        progress(w);
        (void)kolo_conn_expire(raw->poller);
        cr_assert(kolo_poller_dispatch(raw->poller, NULL) == KOLO_OK);
    }
    cr_assert(raw->status == KOLO_OK, "%s", kolo_error_detail());
}

/** The next byte from the rank; -1: the end of the stream; -2: nothing yet. */
static int raw_byte(const struct raw *raw)
{
    uint8_t byte = 0;
    ssize_t got = recv(raw->fd, &byte, 1, 0);
    return got == 1 ? byte : got < 0 && errno == EAGAIN ? -2 : -1;
}

static int raw_await(struct world *w, const struct raw *raw)
{
    kolo_deadline deadline = kolo_deadline_in_ms(20000);
    int byte;
    while ((byte = raw_byte(raw)) == -2 && !kolo_deadline_passed(deadline))
        progress(w);
    return byte;
}

/** Dials rank 0 as @p rank, until the link is up. */
static void raw_open(struct world *w, struct raw *raw, int rank)
{
    raw_dial(w, raw, rank, 0);
    cr_assert(raw_await(w, raw) == 'k');
    cr_assert(send(raw->fd, "s", 1, MSG_NOSIGNAL) == 1);
}

static void raw_close(struct raw *raw)
{
    close(raw->fd);
    kolo_poller_destroy(raw->poller);
}

static void raw_send(struct world *w, struct raw *raw, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    kolo_deadline deadline = kolo_deadline_in_ms(20000);
    while (bytes > 0 && !kolo_deadline_passed(deadline)) {
        ssize_t put = send(raw->fd, at, bytes, MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN)
            return; /* it was disconnected, as it should be */
        if (put > 0) {
            at += put;
            bytes -= (size_t)put;
        }
        progress(w);
    }
}

static void open_for_raw(struct world *w, int size)
{
    init_world(w, size);
    set(w, "net", "127.0.0.1");
    open_world(w, 1);
}

Test(tcp, the_end_without_a_goodbye_is_told, .timeout = 60)
{
    struct world w;
    struct raw raw;
    open_for_raw(&w, 2);
    raw_open(&w, &raw, 1);
    raw_close(&raw);
    run_until(&w, NULL, &w.ranks[0].down, 20000);
    cr_assert(w.ranks[0].down == 1 && w.ranks[0].why == KOLO_ERR_LINK);
    cr_assert(strncmp(w.ranks[0].text, "rank 1 at tcp 127.0.0.1:", 24) == 0 &&
                  strstr(w.ranks[0].text, ": connection closed by peer"),
              "%s", w.ranks[0].text);
    close_world(&w);
}

/** A send that fails takes the error from the socket; a read says only that the stream ended. */
Test(tcp, what_a_send_finds_out_is_told, .timeout = 60)
{
    struct world w;
    struct raw raw;
    struct kolo_desc desc = {{1}};
    struct kolo_work work;
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    open_for_raw(&w, 2);
    raw_open(&w, &raw, 1);
    struct kolo_link *link = link_of(&w, 0, 1);
    for (int i = 0; i < 1000000 && link->state != KOLO_LINK_UP; i++)
        progress(&w);
    cr_assert(link->state == KOLO_LINK_UP);
    cr_assert(setsockopt(raw.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    raw_close(&raw);
    kolo_link_send(link, 1, &desc, "x", 1, &work);
    run_until(&w, NULL, &w.ranks[0].down, 20000);
    cr_assert(strstr(w.ranks[0].text, ": connection reset by peer"), "%s", w.ranks[0].text);
    close_world(&w);
}

/** Like a rank that got no answer in time and dials again. */
Test(tcp, a_connection_that_its_dialler_has_left_is_no_link, .timeout = 60)
{
    struct world w;
    struct raw raw;
    int ends[2];
    const struct kolo_greeting theirs = {KOLO_PROTOCOL_VERSION, KOLO_PURPOSE_TCP, 1, 0, 0};
    open_for_raw(&w, 2);
    /* one connection that is abandoned before anything was sent, and one after that */
    for (int i = 0; i < 2; i++) {
        cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
        if (i == 1)
            cr_assert(send(ends[1], "x", 1, 0) == 1);
        close(ends[0]);
        kolo_endpoint_incoming(w.ranks[0].endpoint->ports[index_of_tcp()], &theirs, ends[1]);
        progress(&w);
        cr_assert(w.ranks[0].down == 0, "%s", w.ranks[0].text);
    }
    raw_open(&w, &raw, 1);
    cr_assert(w.ranks[0].down == 0, "%s", w.ranks[0].text);
    raw_close(&raw);
    close_world(&w);
}

/** Like a rank that got no answer in time at one place, and also proves itself at another: it takes
 * the first answer, which may come from either. */
Test(tcp, of_several_dials_the_one_that_is_not_left_stands, .timeout = 60)
{
    enum { DIALS = 3 };
    for (int taken = 0; taken < DIALS; taken++) {
        struct world w;
        struct raw raw[DIALS];
        open_for_raw(&w, 2);
        for (int i = 0; i < DIALS; i++)
            raw_dial(&w, &raw[i], 1, 0);
        cr_assert(raw_await(&w, &raw[0]) == 'k');
        for (int i = 1; i < DIALS; i++)
            cr_assert(raw_byte(&raw[i]) == -2, "dial %d is not held", i);
        for (int i = 0; i < taken; i++)
            raw_close(&raw[i]);
        for (int i = DIALS; taken > 0 && i-- > taken + 1;)
            raw_close(&raw[i]);
        cr_assert(taken == 0 || raw_await(&w, &raw[taken]) == 'k', "dial %d is not welcome", taken);
        cr_assert(send(raw[taken].fd, "s", 1, MSG_NOSIGNAL) == 1);
        for (int i = 1; taken == 0 && i < DIALS; i++) {
            cr_assert(raw_await(&w, &raw[i]) == -1, "dial %d is not closed", i);
            raw_close(&raw[i]);
        }
        cr_assert(w.ranks[0].down == 0, "%s", w.ranks[0].text);
        raw_close(&raw[taken]);
        run_until(&w, NULL, &w.ranks[0].down, 20000);
        cr_assert(w.ranks[0].why == KOLO_ERR_LINK, "%s", w.ranks[0].text);
        close_world(&w);
    }
}

/** Dials that their rank has abandoned are not reported, however many there are; the link comes up
 * when either side dials next. */
Test(tcp, a_dial_that_is_left_after_its_welcome_is_made_anew, .timeout = 60)
{
    for (int round = 0; round < 12; round++) {
        struct world w;
        struct raw raw[TCP_RIVALS_MAX + 3];
        const int dials = round < 10 ? 1 + round / 2 : TCP_RIVALS_MAX + 3, from = round % 2;
        init_world(&w, 2);
        set(&w, "net", "127.0.0.1");
        open_world(&w, 2);
        for (int i = 0; i < dials; i++)
            raw_dial(&w, &raw[i], from, 1 - from);
        cr_assert(raw_await(&w, &raw[0]) == 'k');
        cr_assert(dials <= TCP_RIVALS_MAX + 1 || raw_await(&w, &raw[1]) == -1,
                  "the oldest is held");
        for (int i = 0; i < dials; i++)
            raw_close(&raw[i]);
        for (int i = 0; i < round * 7; i++)
            progress(&w);
        move(&w, round % 3 == 0, round % 3 != 0, 1, 1000, false);
        move(&w, round % 3 != 0, round % 3 == 0, 2, 1000, false);
        cr_assert(w.ranks[0].down == 0 && w.ranks[1].down == 0, "%s%s", w.ranks[0].text,
                  w.ranks[1].text);
        close_world(&w);
    }
}

Test(tcp, a_dial_that_is_never_said_to_stand_is_given_up, .timeout = 60)
{
    struct world w;
    struct raw raw;
    init_world(&w, 2);
    set(&w, "net", "127.0.0.1");
    set(&w, "start_timeout", "300ms");
    open_world(&w, 1);
    raw_dial(&w, &raw, 1, 0);
    cr_assert(raw_await(&w, &raw) == 'k');
    run_until(&w, NULL, &w.ranks[0].down, 20000);
    cr_assert(w.ranks[0].why == KOLO_ERR_TIMEOUT && strstr(w.ranks[0].text, "did not say that its"),
              "%s", w.ranks[0].text);
    raw_close(&raw);
    close_world(&w);
}

Test(tcp, another_byte_than_that_a_dial_stands_breaks_the_protocol, .timeout = 60)
{
    struct world w;
    struct raw raw;
    open_for_raw(&w, 2);
    raw_dial(&w, &raw, 1, 0);
    cr_assert(raw_await(&w, &raw) == 'k');
    cr_assert(send(raw.fd, "S", 1, MSG_NOSIGNAL) == 1);
    run_until(&w, NULL, &w.ranks[0].down, 20000);
    cr_assert(w.ranks[0].why == KOLO_ERR_PROTOCOL && strstr(w.ranks[0].text, "53"), "%s",
              w.ranks[0].text);
    raw_close(&raw);
    close_world(&w);
}

Test(tcp, a_reset_in_the_middle_of_a_message_is_told, .timeout = 60)
{
    struct world w;
    struct raw raw;
    uint8_t bytes[KOLO_HEADER_BYTES + 10] = {0};
    struct kolo_header header = {.channel = 5, .bytes = 100};

    open_for_raw(&w, 2);
    raw_open(&w, &raw, 1);
    kolo_header_pack(&header, bytes);
    raw_send(&w, &raw, bytes, sizeof bytes);
    for (int i = 0; i < 20; i++)
        progress(&w);
    raw_close(&raw);
    run_until(&w, NULL, &w.ranks[0].down, 20000);
    cr_assert(w.ranks[0].down == 1 && w.ranks[0].why == KOLO_ERR_LINK);
    cr_assert(strstr(w.ranks[0].text, "in the middle of a message"), "%s", w.ranks[0].text);
    close_world(&w);
}

Test(tcp, frames_may_come_byte_by_byte, .timeout = 60)
{
    struct world w;
    struct raw raw;
    struct kolo_work receive;
    struct kolo_header header = {.channel = 5, .bytes = 40, .desc = desc_of(3)};
    uint8_t bytes[KOLO_HEADER_BYTES + 40];
    int32_t sum[10];
    struct kolo_action action = {
        .kind = KOLO_REDUCE, .dtype = KOLO_INT32, .op = KOLO_SUM, .local = sum};

    open_for_raw(&w, 2);
    raw_open(&w, &raw, 1);
    kolo_header_pack(&header, bytes);
    for (int32_t i = 0; i < 10; i++) {
        sum[i] = 1000000;
        memcpy(bytes + KOLO_HEADER_BYTES + 4 * i, &i, 4);
    }
    kolo_link_recv(link_of(&w, 0, 1), 5, &header.desc, sum, sizeof sum, &action, &receive);
    for (size_t i = 0; i < sizeof bytes; i++) {
        cr_assert(receive.status == KOLO_AGAIN);
        raw_send(&w, &raw, bytes + i, 1);
        for (int j = 0; j < 5; j++)
            progress(&w);
    }
    run_until(&w, &receive.status, NULL, 20000);
    cr_assert(receive.status == KOLO_OK);
    for (int32_t i = 0; i < 10; i++)
        cr_assert(sum[i] == 1000000 + i);
    raw_close(&raw);
    close_world(&w);
}

Test(tcp, an_oversized_frame_breaks_the_protocol, .timeout = 60)
{
    static const uint32_t lengths[] = {UINT32_MAX, 0x80000000u, 64 << 20};
    for (size_t i = 0; i < 3; i++) {
        struct world w;
        struct raw raw;
        uint8_t bytes[KOLO_HEADER_BYTES];
        struct kolo_header header = {.channel = 5, .bytes = lengths[i]};
        open_for_raw(&w, 2);
        raw_open(&w, &raw, 1);
        kolo_header_pack(&header, bytes);
        raw_send(&w, &raw, bytes, sizeof bytes);
        run_until(&w, NULL, &w.ranks[0].down, 20000);
        cr_assert(w.ranks[0].down == 1 && w.ranks[0].why == KOLO_ERR_PROTOCOL, "%d %s",
                  w.ranks[0].why, w.ranks[0].text);
        raw_close(&raw);
        close_world(&w);
    }
}

/** Frames that are almost valid: small channels, plausible lengths, random descriptions. */
static size_t make_hostile(uint8_t *bytes, size_t capacity, int kind)
{
    size_t used = 0;
    while (used + KOLO_HEADER_BYTES + 600 < capacity) {
        struct kolo_header header = {.channel = (uint32_t)(rand() % 4),
                                     .bytes = (uint32_t)(rand() % 600)};
        if (rand() % 8 == 0)
            header.channel = KOLO_CHANNEL_CONTROL;
        if (rand() % 64 == 0)
            header.bytes = (uint32_t)rand();
        for (size_t i = 0; i < sizeof header.desc.bytes; i++)
            header.desc.bytes[i] = (uint8_t)(rand() % (kind == 1 ? 4 : 256));
        kolo_header_pack(&header, bytes + used);
        used += KOLO_HEADER_BYTES;
        for (uint32_t i = 0; i < header.bytes && i < 600; i++)
            bytes[used++] = (uint8_t)rand();
    }
    return used;
}

Test(tcp, hostile_frames_end_the_link_at_most, .timeout = 120)
{
    enum { ROUNDS = 60 };
    static uint8_t bytes[40000];

    srand(20240717);
    for (int round = 0; round < ROUNDS; round++) {
        struct world w;
        struct raw raw;
        struct kolo_work receive;
        struct kolo_desc desc = {{0}};
        static uint8_t dst[512];
        size_t used = sizeof bytes;

        open_for_raw(&w, 2);
        raw_open(&w, &raw, 1);
        kolo_link_recv(link_of(&w, 0, 1), 1, &desc, dst, sizeof dst, NULL, &receive);
        if (round % 3 == 0)
            for (size_t i = 0; i < sizeof bytes; i++)
                bytes[i] = (uint8_t)rand();
        else
            used = make_hostile(bytes, sizeof bytes, round % 3);
        for (size_t at = 0; at < used;) {
            size_t part = 1 + (size_t)rand() % 3000;
            if (part > used - at)
                part = used - at;
            raw_send(&w, &raw, bytes + at, part);
            at += part;
        }
        for (int i = 0; i < 30; i++)
            progress(&w);
        cr_assert(w.ranks[0].down <= 1);
        raw_close(&raw);
        if (receive.status == KOLO_AGAIN)
            kolo_work_cancel(&receive);
        close_world(&w);
    }
}

Test(tcp, allocation_failures_come_back_as_such, .timeout = 120)
{
    /* Each allocation made by opening, connecting and sending one message fails once. */
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct world w;
        struct kolo_work send = {.status = KOLO_AGAIN}, receive = {.status = KOLO_AGAIN};
        struct kolo_desc desc = desc_of(1);
        struct kolo_link *out, *in;
        uint8_t src[100] = {1}, dst[100];

        init_world(&w, 2);
        open_world(&w, 2);
        kolo_alloc_fail_nth(nth);
        if (kolo_endpoint_link(w.ranks[0].endpoint, 1, kolo_deadline_in_ms(2000), &out) ==
            KOLO_OK) {
            kolo_link_send(out, 1, &desc, src, sizeof src, &send);
            kolo_deadline deadline = kolo_deadline_in_ms(100);
            while (send.status == KOLO_AGAIN && !kolo_deadline_passed(deadline))
                progress(&w);
            if (kolo_endpoint_link(w.ranks[1].endpoint, 0, kolo_deadline_in_ms(2000), &in) ==
                KOLO_OK)
                kolo_link_recv(in, 1, &desc, dst, sizeof dst, NULL, &receive);
            deadline = kolo_deadline_in_ms(100);
            while (receive.status == KOLO_AGAIN && !kolo_deadline_passed(deadline))
                progress(&w);
        }
        kolo_alloc_fail_nth(0);
        close_world(&w);
    }
}
