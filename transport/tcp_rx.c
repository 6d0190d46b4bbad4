// SPDX-License-Identifier: Apache-2.0
// The incoming direction of a TCP link. Headers, small payloads, and everything that is combined or
// dropped go through one buffer, so that a reduction works on bytes that are still in the cache.
// The rest of a large payload that is copied is read directly into its place, together with the
// header that follows.
//
// A long frame that arrives before its receive waits in the socket for a while. Its receive is most
// likely the next one posted, and to copy the frame to the stash would cost a copy and page faults.
// It waits for a limited number of looks and never through a sleep, since what this rank waits for
// may come behind it on the same connection. Nor does it wait once a send has failed: then the link
// ends when nothing more can be read, and what comes behind the frame may be the peer's goodbye.
//
// Must never trust a length: the core bounds each frame before a byte of it is stored.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "transport/checksum.h"
#include "transport/tcp.h"

enum {
    BUFFER_BYTES = 64 << 10,
    DIRECT_BYTES = 4 << 10, /* from here on a copy in user space costs more than a second iovec */
    /* how much to read where a header is next: small messages completely, little of long ones */
    START_BYTES = 8 << 10,
    HELD_BYTES_MIN = 16 << 10, /* a smaller early frame is copied to the stash at once */
    HELD_LOOKS = 64,
    BURST_READS = 32 /* per turn, so that one link does not starve the others */
};

/** Whether this frame is to wait in the socket. */
static bool holds(struct tcp_link *tcp, const struct kolo_header *header)
{
    if (header->bytes >= HELD_BYTES_MIN && tcp->rx.held < HELD_LOOKS && tcp->tx.error == 0 &&
        !kolo_endpoint_is_armed(tcp->base.endpoint) && kolo_link_is_early(&tcp->base, header)) {
        tcp->rx.held++;
        return true;
    }
    tcp->rx.held = 0;
    return false;
}

/** Begins a frame whose header is in the buffer. False: the link is down. */
static bool begin_frame(struct tcp_link *tcp, const struct kolo_header *header)
{
    kolo_status status;

    tcp->rx.head += tcp->base.header_bytes;
    tcp->rx.is_in_frame = true;
    status = kolo_link_rx_begin(&tcp->base, header);
    if (status != KOLO_OK)
        kolo_link_set_down(&tcp->base, status);
    return tcp->base.state == KOLO_LINK_UP;
}

static bool end_frame(struct tcp_link *tcp)
{
    kolo_status status;

    tcp->rx.is_in_frame = false;
    status = kolo_link_rx_end(&tcp->base);
    if (status != KOLO_OK)
        kolo_link_set_down(&tcp->base, status);
    return tcp->base.state == KOLO_LINK_UP;
}

/** Takes the next header from the buffer and begins its frame. False: that must wait, or the link
 *  is down. */
static bool take_header(struct tcp_link *tcp)
{
    struct kolo_header header;
    if (tcp->rx.tail - tcp->rx.head < tcp->base.header_bytes)
        return false;
    kolo_status status = kolo_frame_unpack(&tcp->base, tcp->rx.buf + tcp->rx.head, &header);
    if (status != KOLO_OK) {
        kolo_link_set_down(&tcp->base, status);
        return false;
    }
    return !holds(tcp, &header) && begin_frame(tcp, &header);
}

/** Handles what is in the buffer. False: the link is down. */
static bool parse(struct tcp_link *tcp)
{
    struct tcp_rx *rx = &tcp->rx;
    struct kolo_sink *sink = &tcp->base.sink;

    for (;;) {
        if (!rx->is_in_frame && !take_header(tcp)) {
            if (tcp->base.state != KOLO_LINK_UP)
                return false;
            break;
        }
        if (sink->left > 0) {
            size_t used = kolo_sink_put(sink, rx->buf + rx->head, rx->tail - rx->head);
            rx->head += used;
            if (used == 0)
                break; /* nothing left, or only a part of an element */
        }
        if (sink->left == 0 && !end_frame(tcp))
            return false;
    }
    memmove(rx->buf, rx->buf + rx->head, rx->tail - rx->head); /* a part of a header or of an
                                                                * element */
    rx->tail -= rx->head;
    rx->head = 0;
    return true;
}

/** Reads once. Returns what recv returns; *wanted_out: how many bytes there was room for. */
static ssize_t read_some(struct tcp_link *tcp, size_t *wanted_out)
{
    struct tcp_rx *rx = &tcp->rx;
    struct kolo_sink *sink = &tcp->base.sink;
    int fd = tcp->socket.watch.fd;
    size_t room = 0;
    uint8_t *direct = rx->is_in_frame && rx->tail == 0 ? kolo_sink_room(sink, &room) : NULL;
    ssize_t got;

    if (direct && room >= DIRECT_BYTES) {
        struct iovec parts[2] = {{direct, room}, {rx->buf, tcp->base.header_bytes}};
        *wanted_out = room + tcp->base.header_bytes;
        got = readv(fd, parts, 2);
        if (got > 0) {
            size_t stored = (size_t)got < room ? (size_t)got : room;
            kolo_sink_stored(sink, stored);
            rx->tail = (size_t)got - stored;
        }
    } else {
        *wanted_out = (rx->is_in_frame ? BUFFER_BYTES : START_BYTES) - rx->tail;
        got = recv(fd, rx->buf + rx->tail, *wanted_out, 0);
        if (got > 0)
            rx->tail += (size_t)got;
    }
    return got;
}

static bool run(struct tcp_link *tcp)
{
    bool moved = false;

    if (tcp->rx.held > 0) {
        moved = !parse(tcp);
        if (moved || tcp->rx.held > 0)
            return moved;
        moved = true;
    }
    for (int reads = 0; reads < BURST_READS; reads++) {
        size_t wanted = 0;
        ssize_t got = read_some(tcp, &wanted);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            break;
        if (got <= 0) {
            /* an end after a failed send: the send has taken the error from the socket */
            kolo_tcp_fail(tcp, got < 0 ? errno : tcp->tx.error);
            return true;
        }
        moved = true;
        if (!parse(tcp))
            return true;
        if ((size_t)got < wanted || tcp->rx.held > 0)
            break; /* the socket is empty, which the next read would only confirm */
    }
    return moved;
}

bool kolo_tcp_receive(struct tcp_link *tcp)
{
    bool moved;

    if (tcp->rx.is_running || tcp->base.state != KOLO_LINK_UP)
        return false;
    if (!tcp->rx.buf)
        tcp->rx.buf = kolo_aligned(64, BUFFER_BYTES);
    if (!tcp->rx.buf) {
        kolo_link_set_down(&tcp->base, KOLO_ERR_NO_MEMORY);
        return true;
    }
    tcp->rx.is_running = true;
    moved = run(tcp);
    tcp->rx.is_running = false;
    if (tcp->tx.error != 0 && tcp->base.state == KOLO_LINK_UP && !moved) {
        kolo_tcp_fail(tcp, tcp->tx.error);
        moved = true;
    }
    return moved;
}
