// SPDX-License-Identifier: Apache-2.0
// Owns the framing of the store's messages. The input buffer grows with what has really arrived, up
// to the limit that its owner set, so a length alone never costs memory. The output queue holds
// references, so a message to a thousand ranks is stored once. Must never interpret a body.
#include "runtime/store_wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checksum.h"
#include "base/descriptor.h"
#include "transport/keepalive.h"

enum { IN_FIRST = 4096, IN_KEEP = 64 << 10, OUT_BATCH = 32 };

struct kolo_message *kolo_message_create(enum kolo_store_type type, size_t body_max,
                                         struct kolo_writer *body_out)
{
    struct kolo_message *message =
        kolo_calloc(1, sizeof *message + KOLO_STORE_HEAD_BYTES + 1 + body_max);
    if (!message)
        return NULL;
    message->refs = 1;
    message->data[KOLO_STORE_HEAD_BYTES] = (uint8_t)type;
    *body_out = kolo_writer_over(message->data + KOLO_STORE_HEAD_BYTES + 1, body_max);
    return message;
}

void kolo_message_head(uint8_t *data, size_t bytes)
{
    struct kolo_writer head = kolo_writer_over(data, KOLO_STORE_HEAD_BYTES);
    kolo_write_u32(&head, (uint32_t)bytes);
    kolo_write_u32(&head, ~(uint32_t)bytes);
    kolo_write_u64(&head, kolo_checksum_of(data + KOLO_STORE_HEAD_BYTES, bytes));
}

kolo_status kolo_message_seal(struct kolo_message *message, const struct kolo_writer *body)
{
    size_t bytes = 0;
    kolo_status status =
        kolo_writer_finish(body, message->data + KOLO_STORE_HEAD_BYTES + 1, &bytes);
    if (status != KOLO_OK)
        return status;
    kolo_message_head(message->data, bytes + 1);
    message->bytes = KOLO_STORE_HEAD_BYTES + 1 + bytes;
    return KOLO_OK;
}

void kolo_message_drop(struct kolo_message *message)
{
    if (message && --message->refs == 0)
        kolo_free_memory(message);
}

kolo_status kolo_stream_init(struct kolo_stream *stream, int fd, size_t in_max)
{
    *stream = (struct kolo_stream){.fd = fd, .in_max = in_max};
    if (!kolo_descriptor_set_nonblocking(fd))
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "store: cannot use socket %d", fd);
    return KOLO_OK;
}

void kolo_stream_fini(struct kolo_stream *stream)
{
    for (size_t i = 0; i < stream->out_count; i++)
        kolo_message_drop(stream->out[(stream->out_head + i) % stream->out_capacity]);
    kolo_free_memory((void *)stream->out);
    kolo_free_memory(stream->in);
    if (stream->fd >= 0)
        close(stream->fd);
    *stream = (struct kolo_stream){.fd = -1};
}

void kolo_stream_keepalive(const struct kolo_stream *stream, int64_t timeout_ms)
{
    const unsigned int unacked_ms = (unsigned int)(timeout_ms < INT32_MAX ? timeout_ms : INT32_MAX);
    if (timeout_ms <= 0)
        return;
    kolo_keepalive_set(stream->fd, timeout_ms);
    /* sockets of other families refuse this, but cannot lose their peer silently either */
    (void)setsockopt(stream->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof unacked_ms);
}

/** Makes room for one more message in the ring. A full ring is copied to a larger array. */
static kolo_status make_slot(struct kolo_stream *stream)
{
    if (stream->out_count < stream->out_capacity)
        return KOLO_OK;
    size_t capacity = stream->out_capacity ? 2 * stream->out_capacity : 8;
    struct kolo_message **out = kolo_calloc(capacity, sizeof(struct kolo_message *));
    if (!out)
        return KOLO_ERR_NO_MEMORY;
    for (size_t i = 0; i < stream->out_count; i++)
        out[i] = stream->out[(stream->out_head + i) % stream->out_capacity];
    kolo_free_memory((void *)stream->out);
    stream->out = out;
    stream->out_capacity = capacity;
    stream->out_head = 0;
    return KOLO_OK;
}

kolo_status kolo_stream_queue(struct kolo_stream *stream, struct kolo_message *message)
{
    kolo_status status = make_slot(stream);
    if (status != KOLO_OK)
        return status;
    stream->out[(stream->out_head + stream->out_count) % stream->out_capacity] = message;
    stream->out_count++;
    stream->out_bytes += message->bytes;
    message->refs++;
    return KOLO_OK;
}

static void take_sent(struct kolo_stream *stream, size_t bytes)
{
    stream->out_bytes -= bytes;
    while (bytes > 0) {
        struct kolo_message *message = stream->out[stream->out_head];
        size_t left = message->bytes - stream->out_sent;
        if (bytes < left) {
            stream->out_sent += bytes;
            return;
        }
        bytes -= left;
        stream->out_sent = 0;
        stream->out_head = (stream->out_head + 1) % stream->out_capacity;
        stream->out_count--;
        kolo_message_drop(message);
    }
}

kolo_status kolo_stream_flush(struct kolo_stream *stream)
{
    while (stream->out_count > 0) {
        struct iovec parts[OUT_BATCH];
        struct msghdr batch = {.msg_iov = parts};
        size_t skip = stream->out_sent;
        for (size_t i = 0; i < stream->out_count && i < OUT_BATCH; i++) {
            struct kolo_message *message =
                stream->out[(stream->out_head + i) % stream->out_capacity];
            parts[i] = (struct iovec){message->data + skip, message->bytes - skip};
            batch.msg_iovlen++;
            skip = 0;
        }
        ssize_t sent = sendmsg(stream->fd, &batch, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            take_sent(stream, (size_t)sent);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
            return KOLO_OK;
        } else if (errno != EINTR) {
            stream->out_error = stream->out_error == 0 ? errno : stream->out_error;
            return kolo_fail_errno(KOLO_ERR_LINK, errno, "store: cannot send");
        }
    }
    return KOLO_OK;
}

/** The system says only once why a connection broke. If it has said so to a send, it shows no more
 *  than the end of the stream here. */
static kolo_status fail_ended(const struct kolo_stream *stream)
{
    if (stream->out_error != 0 && stream->out_error != EPIPE)
        return kolo_fail_errno(KOLO_ERR_LINK, stream->out_error, "store: cannot send");
    return kolo_fail(KOLO_ERR_LINK, "store: the other side closed the connection");
}

/** Makes room for more input at in_end. A large buffer that has become empty is freed first. */
static kolo_status make_room(struct kolo_stream *stream)
{
    if (stream->in_begin == stream->in_end) {
        stream->in_begin = stream->in_end = 0;
        if (stream->in_capacity > IN_KEEP) {
            kolo_free_memory(stream->in);
            stream->in = NULL;
            stream->in_capacity = 0;
        }
    }
    if (stream->in_end < stream->in_capacity)
        return KOLO_OK;
    if (stream->in_begin > 0) {
        memmove(stream->in, stream->in + stream->in_begin, stream->in_end - stream->in_begin);
        stream->in_end -= stream->in_begin;
        stream->in_begin = 0;
        return KOLO_OK;
    }
    size_t need = stream->in_capacity ? stream->in_capacity + 1 : IN_FIRST;
    void *in = stream->in;
    kolo_status status = kolo_grow(&in, &stream->in_capacity, need, 1);
    stream->in = in;
    return status;
}

kolo_status kolo_stream_fill(struct kolo_stream *stream)
{
    kolo_status status = make_room(stream);
    if (status != KOLO_OK)
        return status;
    ssize_t got;
    do
        got = recv(stream->fd, stream->in + stream->in_end, stream->in_capacity - stream->in_end,
                   MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        stream->in_end += (size_t)got;
        return KOLO_OK;
    }
    if (got == 0)
        return fail_ended(stream);
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return KOLO_AGAIN;
    return kolo_fail_errno(KOLO_ERR_LINK, errno, "store: cannot receive");
}

static kolo_status changed(struct kolo_stream *stream, const char *what)
{
    stream->is_changed = true;
    return kolo_fail(
        KOLO_ERR_DATA,
        "store: %s changed on the way here, its checksum does not fit (a network card, "
        "a switch or memory corrupts data: look at dmesg, ethtool -S and memory errors "
        "on both hosts)",
        what);
}

kolo_status kolo_stream_next(struct kolo_stream *stream, uint8_t *type_out,
                             struct kolo_reader *body_out)
{
    const size_t there = stream->in_end - stream->in_begin;
    if (there < KOLO_STORE_HEAD_BYTES)
        return KOLO_AGAIN; /* there may be no buffer yet */
    const uint8_t *const message = stream->in + stream->in_begin;
    struct kolo_reader head = kolo_reader_over(message, KOLO_STORE_HEAD_BYTES);
    const uint32_t bytes = kolo_read_u32(&head), inverted = kolo_read_u32(&head);
    const uint64_t sum = kolo_read_u64(&head);
    if (bytes != ~inverted)
        return changed(stream, "the length of a message");
    if (bytes < 1 || bytes > stream->in_max)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "store: a message announces %u bytes, it may have 1 to %zu", bytes,
                         stream->in_max);
    if (there - KOLO_STORE_HEAD_BYTES < bytes)
        return KOLO_AGAIN;
    if (kolo_checksum_of(message + KOLO_STORE_HEAD_BYTES, bytes) != sum)
        return changed(stream, "a message");
    *type_out = message[KOLO_STORE_HEAD_BYTES];
    *body_out = kolo_reader_over(message + KOLO_STORE_HEAD_BYTES + 1, bytes - 1);
    stream->in_begin += KOLO_STORE_HEAD_BYTES + bytes;
    return KOLO_OK;
}

kolo_status kolo_status_from_wire(int32_t value)
{
    static const kolo_status known[] = {
#define KOLO_STATUS_VALUE(name, value, lost, text) KOLO_##name,
        KOLO_STATUS_MAP(KOLO_STATUS_VALUE)
#undef KOLO_STATUS_VALUE
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (value < 0 && (int32_t)known[i] == value)
            return known[i];
    return KOLO_ERR_PROTOCOL;
}

void kolo_duration_format(int64_t ms, char *text, size_t capacity)
{
    if (ms >= 9950)
        snprintf(text, capacity, "%lld s", (long long)((ms + 500) / 1000));
    else
        snprintf(text, capacity, "%.1f s", (double)ms / 1000.0);
}

static const char *const own_texts[KOLO_OWN_WAITS] = {
    [KOLO_OWN_NONE] = "other ranks",
    [KOLO_OWN_STREAM] = "the earlier work of its stream",
    [KOLO_OWN_DEVICE] = "the earlier work of its device",
    [KOLO_OWN_INPUT] = "the copies from its device",
    [KOLO_OWN_WORK] = "the work of its device",
    [KOLO_OWN_RESULT] = "the copies of its result to its device"};

const char *kolo_own_text(enum kolo_own_wait own)
{
    return own_texts[own];
}

bool kolo_own_is_in(const char *text)
{
    for (int own = KOLO_OWN_NONE + 1; own < KOLO_OWN_WAITS; own++)
        if (strstr(text, own_texts[own]))
            return true;
    return false;
}
