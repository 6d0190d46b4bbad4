// SPDX-License-Identifier: Apache-2.0
// runtime/store_wire.c: the messages of the store as bytes.
#include "runtime/store_wire.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(store_wire, .timeout = 120);

static void open_pair(struct kolo_stream streams[2], size_t in_max)
{
    int pair[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    for (int i = 0; i < 2; i++)
        cr_assert(kolo_stream_init(&streams[i], pair[i], in_max) == KOLO_OK);
}

static struct kolo_message *make_message(uint32_t number, size_t bytes)
{
    struct kolo_writer body;
    struct kolo_message *message = kolo_message_create(KOLO_STORE_SET, bytes + 4, &body);
    cr_assert(message);
    kolo_write_u32(&body, number);
    for (size_t i = 0; i < bytes; i++)
        kolo_write_u8(&body, (uint8_t)(number + i));
    cr_assert(kolo_message_seal(message, &body) == KOLO_OK);
    return message;
}

Test(store_wire, messages_of_all_lengths_arrive_in_order)
{
    enum { COUNT = 400 };
    struct kolo_stream streams[2];
    open_pair(streams, 1 << 20);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct kolo_message *message = make_message(i, i * 37 % 5000 + (i % 50 ? 0 : 300000));
        cr_assert(kolo_stream_queue(&streams[0], message) == KOLO_OK);
        kolo_message_drop(message);
    }
    for (uint32_t i = 0; i < COUNT;) {
        uint8_t type;
        struct kolo_reader body;
        cr_assert(kolo_stream_flush(&streams[0]) == KOLO_OK);
        kolo_status status = kolo_stream_next(&streams[1], &type, &body);
        if (status == KOLO_AGAIN) {
            cr_assert(kolo_stream_fill(&streams[1]) == KOLO_OK);
            continue;
        }
        cr_assert(status == KOLO_OK && type == KOLO_STORE_SET && kolo_read_u32(&body) == i);
        size_t left = kolo_reader_left(&body);
        cr_assert(left == i * 37 % 5000 + (i % 50 ? 0 : 300000));
        for (size_t j = 0; j < left; j++)
            cr_assert(kolo_read_u8(&body) == (uint8_t)(i + j));
        i++;
    }
    cr_assert(streams[0].out_count == 0 && streams[0].out_bytes == 0);
    cr_assert(kolo_stream_fill(&streams[1]) == KOLO_AGAIN);
    kolo_stream_fini(&streams[0]);
    cr_assert(kolo_stream_fill(&streams[1]) == KOLO_ERR_LINK);
    kolo_stream_fini(&streams[1]);
}

Test(store_wire, announced_length_costs_nothing)
{
    struct kolo_stream streams[2];
    uint8_t type;
    struct kolo_reader body;
    open_pair(streams, 64 << 20);
    uint8_t head[KOLO_STORE_HEAD_BYTES + 4] = {0};
    static const uint32_t length = 64 << 20, inverted = ~(uint32_t)(64 << 20);
    memcpy(head, &length, sizeof length);
    memcpy(head + sizeof length, &inverted, sizeof inverted);
    cr_assert(send(streams[0].fd, head, sizeof head, 0) == sizeof head);
    cr_assert(kolo_stream_fill(&streams[1]) == KOLO_OK);
    cr_assert(kolo_stream_next(&streams[1], &type, &body) == KOLO_AGAIN);
    cr_assert(streams[1].in_capacity <= 8192, "%zu", streams[1].in_capacity);
    for (int i = 0; i < 2; i++)
        kolo_stream_fini(&streams[i]);
}

/** Each bit of a message, changed on the way, is noticed as soon as the message is there; a wrong
 * length at once, whatever it is. */
/** A pair of connected TCP sockets, whose end may be more than a close. */
static void open_tcp_pair(int pair[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    const int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(bind(door, (struct sockaddr *)&at, sizeof at) == 0 && listen(door, 1) == 0);
    cr_assert(getsockname(door, (struct sockaddr *)&at, &bytes) == 0);
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(connect(pair[0], (struct sockaddr *)&at, sizeof at) == 0);
    pair[1] = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    cr_assert(pair[1] >= 0);
    close(door);
}

/** Whoever reads after the send that failed must not believe that the other side just closed. */
Test(store_wire, what_a_send_finds_out_is_told)
{
    static const char text[] = "store: cannot send: Connection reset by peer";
    const struct linger none = {.l_onoff = 1};
    struct kolo_stream stream;
    int pair[2];
    open_tcp_pair(pair);
    cr_assert(kolo_stream_init(&stream, pair[0], 1 << 20) == KOLO_OK);
    cr_assert(setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    close(pair[1]); /* a reset */
    struct pollfd ended = {.fd = pair[0]};
    cr_assert(poll(&ended, 1, 20000) == 1);
    struct kolo_message *message = make_message(1, 100);
    cr_assert(kolo_stream_queue(&stream, message) == KOLO_OK);
    kolo_message_drop(message);
    cr_assert_eq(kolo_stream_flush(&stream), KOLO_ERR_LINK);
    cr_assert_str_eq(kolo_error_detail(), text);
    cr_assert_eq(kolo_stream_flush(&stream), KOLO_ERR_LINK);
    cr_assert_eq(kolo_stream_fill(&stream), KOLO_ERR_LINK);
    cr_assert_str_eq(kolo_error_detail(), text);
    kolo_stream_fini(&stream);
}

Test(store_wire, what_a_receive_finds_out_is_told)
{
    const struct linger none = {.l_onoff = 1};
    struct kolo_stream stream;
    int pair[2];
    open_tcp_pair(pair);
    cr_assert(kolo_stream_init(&stream, pair[0], 1 << 20) == KOLO_OK);
    cr_assert_eq(kolo_stream_fill(&stream), KOLO_AGAIN);
    cr_assert(setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    close(pair[1]); /* a reset */
    struct pollfd ended = {.fd = pair[0]};
    cr_assert(poll(&ended, 1, 20000) == 1);
    cr_assert_eq(kolo_stream_fill(&stream), KOLO_ERR_LINK);
    cr_assert_str_eq(kolo_error_detail(), "store: cannot receive: Connection reset by peer");
    kolo_stream_fini(&stream);
    cr_assert_eq(kolo_stream_init(&stream, -1, 1 << 20), KOLO_ERR_SYSTEM);
    cr_assert_str_eq(kolo_error_detail(), "store: cannot use socket -1: Bad file descriptor");
}

Test(store_wire, a_changed_bit_is_noticed)
{
    struct kolo_message *message = make_message(7, 40);
    const size_t bits = 8 * message->bytes;
    for (size_t i = 0; i < bits; i++) {
        struct kolo_stream streams[2];
        uint8_t type;
        struct kolo_reader body;
        open_pair(streams, 1 << 20);
        message->data[i / 8] ^= (uint8_t)(1u << i % 8);
        cr_assert(kolo_stream_queue(&streams[0], message) == KOLO_OK);
        cr_assert(kolo_stream_flush(&streams[0]) == KOLO_OK);
        cr_assert(kolo_stream_fill(&streams[1]) == KOLO_OK);
        cr_assert(kolo_stream_next(&streams[1], &type, &body) == KOLO_ERR_DATA, "bit %zu", i);
        message->data[i / 8] ^= (uint8_t)(1u << i % 8);
        for (int side = 0; side < 2; side++)
            kolo_stream_fini(&streams[side]);
    }
    kolo_message_drop(message);
}

Test(store_wire, body_that_does_not_fit_is_no_message)
{
    struct kolo_writer body;
    struct kolo_message *message = kolo_message_create(KOLO_STORE_SET, 2, &body);
    kolo_write_u32(&body, 1);
    cr_assert(kolo_message_seal(message, &body) != KOLO_OK);
    kolo_message_drop(message);
    kolo_message_drop(NULL);
}

Test(store_wire, statuses_and_durations)
{
    char said[32];
    cr_assert(kolo_status_from_wire(KOLO_ERR_PEER) == KOLO_ERR_PEER);
    cr_assert(kolo_status_from_wire(0) == KOLO_ERR_PROTOCOL);
    cr_assert(kolo_status_from_wire(1) == KOLO_ERR_PROTOCOL);
    cr_assert(kolo_status_from_wire(-999) == KOLO_ERR_PROTOCOL);
    cr_assert(kolo_status_from_wire(INT32_MIN) == KOLO_ERR_PROTOCOL);
    kolo_duration_format(60000, said, sizeof said);
    cr_assert(strcmp(said, "60 s") == 0);
    kolo_duration_format(59998, said, sizeof said);
    cr_assert(strcmp(said, "60 s") == 0);
    kolo_duration_format(250, said, sizeof said);
    cr_assert(strcmp(said, "0.2 s") == 0 || strcmp(said, "0.3 s") == 0);
}

Test(store_wire, what_a_rank_waits_for_itself_is_found_in_a_text)
{
    char text[256];
    for (enum kolo_own_wait own = KOLO_OWN_NONE; own < KOLO_OWN_WAITS; own++) {
        snprintf(text, sizeof text, "rank 0 (a) waits for %s; and more", kolo_own_text(own));
        cr_assert(kolo_own_is_in(text) == (own != KOLO_OWN_NONE), "%s", text);
    }
}
