// SPDX-License-Identifier: Apache-2.0
// The outgoing direction of a TCP link: takes frames from the core and hands several of them,
// headers and payloads, to the kernel in one sendmsg, directly from the senders' memory. What the
// kernel does not take stays in place and is continued when the socket has room. Must never block,
// and never read a payload after its withdrawal.
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "transport/checksum.h"
#include "transport/tcp.h"

enum { JOINED_BYTES_MAX = 2 << 10 };

static struct tcp_tx_frame *frame_at(struct tcp_tx *tx, size_t index)
{
    return &tx->frames[(tx->first + index) % TCP_TX_FRAMES];
}

static size_t frame_bytes(const struct tcp_link *tcp, const struct tcp_tx_frame *item)
{
    return tcp->base.header_bytes + item->frame.bytes;
}

/** Takes as many frames from the core as one call is to send. */
static void fill(struct tcp_link *tcp)
{
    struct tcp_tx *tx = &tcp->tx;
    size_t bytes = 0;

    for (size_t i = 0; i < tx->count; i++)
        bytes += frame_bytes(tcp, frame_at(tx, i));
    while (tx->count < TCP_TX_FRAMES && bytes < TCP_TX_BATCH_BYTES) {
        struct tcp_tx_frame *item = frame_at(tx, tx->count);
        if (!kolo_link_next_frame(&tcp->base, SIZE_MAX, &item->frame))
            return;
        kolo_frame_pack(&tcp->base, &item->frame, item->header);
        item->copy = NULL;
        tx->count++;
        bytes += frame_bytes(tcp, item);
    }
}

/** Collects what the next call is to send. iov_base is not const, but sendmsg only reads. */
static size_t gather(struct tcp_link *tcp, struct iovec *parts)
{
    struct tcp_tx *tx = &tcp->tx;
    const size_t header_bytes = tcp->base.header_bytes;
    size_t count = 0, skip = tx->offset;

    for (size_t i = 0; i < tx->count; i++) {
        struct tcp_tx_frame *item = frame_at(tx, i);
        const uint8_t *payload = item->frame.payload;
        if (skip < header_bytes) {
            parts[count++] = (struct iovec){item->header + skip, header_bytes - skip};
            skip = 0;
        } else {
            skip -= header_bytes;
        }
        if (item->frame.bytes > skip) {
            memcpy(&parts[count].iov_base, &(const uint8_t *){payload + skip}, sizeof(void *));
            parts[count++].iov_len = item->frame.bytes - skip;
        }
        skip = 0;
    }
    return count;
}

static void pop(struct tcp_link *tcp)
{
    struct tcp_tx *tx = &tcp->tx;
    struct tcp_tx_frame *item = frame_at(tx, 0);

    kolo_free_memory(item->copy);
    item->copy = NULL;
    tx->passed += frame_bytes(tcp, item);
    tx->first = (tx->first + 1) % TCP_TX_FRAMES;
    tx->count--;
    tx->offset = 0;
    if (kolo_link_frame_done(&tcp->base, &item->frame))
        tx->ended = tx->passed;
}

/** @p bytes more bytes were sent. */
static void advance(struct tcp_link *tcp, size_t bytes)
{
    struct tcp_tx *tx = &tcp->tx;

    while (bytes > 0) {
        size_t left = frame_bytes(tcp, frame_at(tx, 0)) - tx->offset;
        if (bytes < left) {
            tx->offset += bytes;
            return;
        }
        bytes -= left;
        pop(tcp);
    }
}

void kolo_tcp_watch_room(struct tcp_link *tcp, bool watches_room)
{
    if (tcp->tx.watches_room == watches_room)
        return;
    tcp->tx.watches_room = watches_room;
    kolo_poller_modify(kolo_endpoint_poller(tcp->base.endpoint), &tcp->socket.watch,
                       watches_room ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/** Sends a few bytes as one piece: copying them costs less than passing their parts to the
 *  kernel. */
static ssize_t send_joined(int fd, const struct iovec *parts, size_t count)
{
    uint8_t joined[JOINED_BYTES_MAX];
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        memcpy(joined + bytes, parts[i].iov_base, parts[i].iov_len);
        bytes += parts[i].iov_len;
    }
    return send(fd, joined, bytes, MSG_NOSIGNAL);
}

static ssize_t send_parts(int fd, struct iovec *parts, size_t count)
{
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    if (bytes <= JOINED_BYTES_MAX)
        return send_joined(fd, parts, count);
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

/** Calls the kernel once. False: it takes no more now, or ever. A rank that is awake simply tries
 *  again at its next look; the poller is asked to tell of room only before a sleep. */
static bool send_some(struct tcp_link *tcp)
{
    struct iovec parts[2 * TCP_TX_FRAMES];
    size_t count = gather(tcp, parts);
    ssize_t put;

    do
        put = send_parts(tcp->socket.watch.fd, parts, count);
    while (put < 0 && errno == EINTR);
    if (put >= 0) {
        advance(tcp, (size_t)put);
        return true;
    }
    if (errno != EAGAIN)
        tcp->tx.error = errno;
    else if (kolo_endpoint_is_armed(tcp->base.endpoint))
        kolo_tcp_watch_room(tcp, true);
    return false;
}

bool kolo_tcp_push(struct kolo_link *base)
{
    struct tcp_link *tcp = (struct tcp_link *)base;
    bool moved = false;

    if (tcp->tx.error != 0)
        return false;
    for (;;) {
        fill(tcp);
        if (tcp->tx.count == 0 || !send_some(tcp))
            break;
        moved = true;
    }
    /* The peer's last messages may still be in the socket: an abort says more than a reset. */
    if (tcp->tx.error != 0 && !tcp->rx.is_running)
        moved |= kolo_tcp_receive(tcp);
    return moved;
}

/** The first frame was sent in part: the peer needs the rest, but its memory is no longer ours. */
static void keep_copy(struct tcp_link *tcp, struct tcp_tx_frame *item)
{
    if (item->frame.bytes > 0) {
        item->copy = kolo_aligned(16, item->frame.bytes);
        if (!item->copy) {
            kolo_link_set_down(&tcp->base, KOLO_ERR_NO_MEMORY);
            return;
        }
        memcpy(item->copy, item->frame.payload, item->frame.bytes);
        item->frame.payload = item->copy;
    }
    item->frame.work = NULL;
}

void kolo_tcp_withdraw(struct kolo_link *base, struct kolo_work *work)
{
    struct tcp_link *tcp = (struct tcp_link *)base;
    struct tcp_tx *tx = &tcp->tx;
    size_t kept = 0, count = tx->count;

    if (count > 0 && tx->offset > 0 && frame_at(tx, 0)->frame.work == work)
        keep_copy(tcp, frame_at(tx, 0));
    if (tx->count == 0)
        return; /* out of memory: the link went down and dropped everything */
    for (size_t i = 0; i < count; i++)
        if (frame_at(tx, i)->frame.work != work) {
            if (kept != i)
                *frame_at(tx, kept) = *frame_at(tx, i);
            kept++;
        }
    tx->count = kept;
}

void kolo_tcp_tx_drop(struct tcp_link *tcp)
{
    while (tcp->tx.count > 0)
        pop(tcp);
}
