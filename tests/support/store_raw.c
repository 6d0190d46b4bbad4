// SPDX-License-Identifier: Apache-2.0
// See store_raw.h.
#include "tests/support/store_raw.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_joined(void *context)
{
    ((struct raw_server *)context)->joined++;
}

static void on_came(void *context, int rank)
{
    (void)rank;
    ((struct raw_server *)context)->came++;
}

static void on_left(void *context, int rank)
{
    struct raw_server *raw = context;
    raw->left++;
    raw->last_rank = rank;
}

static void on_lost(void *context, int rank)
{
    struct raw_server *raw = context;
    raw->lost++;
    raw->last_rank = rank;
}

static void on_aborted(void *context, int rank, kolo_status why, const char *text)
{
    struct raw_server *raw = context;
    raw->aborted++;
    raw->last_rank = rank;
    raw->why = why;
    snprintf(raw->text, sizeof raw->text, "%s", text);
}

/* Only host7 is known. */
static bool on_started(void *context, int rank, const char **host_out, uint32_t *pid_out)
{
    (void)context;
    if (rank != 7)
        return false;
    *host_out = "host7";
    *pid_out = 812;
    return true;
}

static void on_notice(void *context, const char *text)
{
    struct raw_server *raw = context;
    raw->notices++;
    snprintf(raw->notice, sizeof raw->notice, "%s", text);
}

kolo_status raw_server_open(struct raw_server *raw, int size)
{
    *raw = (struct raw_server){.last_rank = -2};
    const struct kolo_store_server_config config = {.size = size,
                                                    .owner = "rank 0",
                                                    .start_timeout_ms = 60000,
                                                    .stall_warn_ms = 30000,
                                                    .lost_grace_ms = 500,
                                                    .events = {.context = raw,
                                                               .joined = on_joined,
                                                               .came = on_came,
                                                               .left = on_left,
                                                               .lost = on_lost,
                                                               .aborted = on_aborted,
                                                               .started = on_started,
                                                               .notice = on_notice}};
    kolo_status status = kolo_poller_create(&raw->poller);
    if (status == KOLO_OK)
        status = kolo_store_server_create(raw->poller, &config, &raw->server);
    if (status != KOLO_OK) {
        kolo_poller_destroy(raw->poller);
        raw->poller = NULL;
    }
    return status;
}

void raw_server_close(struct raw_server *raw)
{
    kolo_store_server_destroy(raw->server);
    kolo_poller_destroy(raw->poller);
}

void raw_server_pump(struct raw_server *raw)
{
    int count = 1;
    while (count > 0) {
        if (kolo_poller_dispatch(raw->poller, &count) != KOLO_OK)
            return;
        kolo_store_server_expire(raw->server);
    }
}

kolo_status raw_rank_open(struct raw_server *raw, struct raw_rank *rank)
{
    int pair[2];
    *rank = (struct raw_rank){.stream = {.fd = -1}};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return KOLO_ERR_SYSTEM;
    kolo_status status = kolo_stream_init(&rank->stream, pair[1], KOLO_STORE_MESSAGE_MAX);
    if (status != KOLO_OK) {
        close(pair[0]);
        return status;
    }
    return kolo_store_server_adopt(raw->server, pair[0]);
}

void raw_rank_close(struct raw_rank *rank)
{
    kolo_stream_fini(&rank->stream);
}

bool raw_rank_send(struct raw_rank *rank, const void *data, size_t bytes)
{
    return send(rank->stream.fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

static void read_message(struct raw_rank *rank)
{
    struct kolo_reader *body = &rank->body;
    if (rank->type == KOLO_STORE_FAILED) {
        rank->rank = kolo_read_i32(body);
        rank->scope = kolo_read_u32(body);
        rank->status = kolo_status_from_wire(kolo_read_i32(body));
        kolo_read_text(body, rank->text, sizeof rank->text);
    } else if (rank->type == KOLO_STORE_LEFT) {
        rank->rank = kolo_read_i32(body);
    } else if (rank->type == KOLO_STORE_ANSWER) {
        rank->id = kolo_read_u32(body);
        int32_t code = kolo_read_i32(body);
        rank->status = code == 0 ? KOLO_OK : kolo_status_from_wire(code);
        rank->sum = kolo_read_i64(body);
        kolo_read_text(body, rank->text, sizeof rank->text);
        rank->value = kolo_read_blob(body, &rank->bytes);
    }
}

bool raw_rank_next(struct raw_rank *rank)
{
    for (;;) {
        kolo_status status = kolo_stream_next(&rank->stream, &rank->type, &rank->body);
        if (status == KOLO_OK) {
            read_message(rank);
            return true;
        }
        status = kolo_stream_fill(&rank->stream);
        if (status == KOLO_OK)
            continue;
        rank->is_closed = status != KOLO_AGAIN;
        return false;
    }
}

static void send_message(struct raw_rank *rank, struct kolo_message *message,
                         const struct kolo_writer *body)
{
    if (message && kolo_message_seal(message, body) == KOLO_OK &&
        kolo_stream_queue(&rank->stream, message) == KOLO_OK &&
        kolo_stream_flush(&rank->stream) != KOLO_OK)
        rank->is_closed = true;
    kolo_message_drop(message);
}

void raw_join(struct raw_rank *rank, int number, uint32_t size, uint32_t timeout_ms,
              const char *host, size_t peer_bytes)
{
    struct kolo_writer body = {0};
    uint8_t peer[KOLO_STORE_JOIN_MAX];
    memset(peer, (uint8_t)number, sizeof peer);
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_JOIN, 2 * KOLO_STORE_JOIN_MAX, &body);
    kolo_write_i32(&body, number);
    kolo_write_u32(&body, size);
    kolo_write_u32(&body, timeout_ms);
    kolo_write_i32(&body, 800 + number);
    kolo_write_text(&body, host);
    kolo_write_blob(&body, peer, peer_bytes);
    send_message(rank, message, &body);
}

void raw_set(struct raw_rank *rank, uint32_t id, const char *key, const void *value, size_t bytes)
{
    struct kolo_writer body = {0};
    struct kolo_message *message = kolo_message_create(KOLO_STORE_SET, bytes + 2048, &body);
    kolo_write_u32(&body, id);
    kolo_write_text(&body, key);
    kolo_write_blob(&body, value, bytes);
    send_message(rank, message, &body);
}

void raw_get(struct raw_rank *rank, uint32_t id, bool wait, const char *key)
{
    struct kolo_writer body = {0};
    struct kolo_message *message = kolo_message_create(KOLO_STORE_GET, 2048, &body);
    kolo_write_u32(&body, id);
    kolo_write_u8(&body, wait);
    kolo_write_text(&body, key);
    send_message(rank, message, &body);
}

void raw_add(struct raw_rank *rank, uint32_t id, const char *key, int64_t amount)
{
    struct kolo_writer body = {0};
    struct kolo_message *message = kolo_message_create(KOLO_STORE_ADD, 2048, &body);
    kolo_write_u32(&body, id);
    kolo_write_text(&body, key);
    kolo_write_i64(&body, amount);
    send_message(rank, message, &body);
}

void raw_stalled_own(struct raw_rank *rank, uint32_t channel, uint32_t sequence, uint8_t desc,
                     const char *words, const uint8_t *members, enum kolo_own_wait own)
{
    struct kolo_writer body = {0};
    struct kolo_desc what;
    memset(&what, desc, sizeof what);
    struct kolo_message *message = kolo_message_create(KOLO_STORE_STALLED, 2048, &body);
    kolo_write_u32(&body, channel);
    kolo_write_u32(&body, sequence);
    kolo_write_bytes(&body, what.bytes, sizeof what.bytes);
    kolo_write_text(&body, words);
    kolo_write_blob(&body, members, members ? 1 : 0);
    kolo_write_u8(&body, (uint8_t)own);
    send_message(rank, message, &body);
}

void raw_stalled_for(struct raw_rank *rank, uint32_t channel, uint32_t sequence, uint8_t desc,
                     const char *words, const uint8_t *members)
{
    raw_stalled_own(rank, channel, sequence, desc, words, members, KOLO_OWN_NONE);
}

void raw_stalled(struct raw_rank *rank, uint32_t channel, uint32_t sequence, uint8_t desc,
                 const char *words)
{
    raw_stalled_for(rank, channel, sequence, desc, words, NULL);
}

void raw_resumed(struct raw_rank *rank, uint32_t channel, uint32_t sequence)
{
    struct kolo_writer body = {0};
    struct kolo_message *message = kolo_message_create(KOLO_STORE_RESUMED, 8, &body);
    kolo_write_u32(&body, channel);
    kolo_write_u32(&body, sequence);
    send_message(rank, message, &body);
}

void raw_shrink(struct raw_rank *rank, uint32_t id, uint32_t number, uint32_t timeout_ms,
                uint8_t members)
{
    raw_shrink_without(rank, id, number, timeout_ms, members, 0);
}

void raw_shrink_without(struct raw_rank *rank, uint32_t id, uint32_t number, uint32_t timeout_ms,
                        uint8_t members, uint8_t lost)
{
    raw_shrink_many(rank, id, number, timeout_ms, &members, &lost, 1);
}

void raw_shrink_many(struct raw_rank *rank, uint32_t id, uint32_t number, uint32_t timeout_ms,
                     const uint8_t *members, const uint8_t *lost, size_t bytes)
{
    struct kolo_writer body = {0};
    struct kolo_message *message = kolo_message_create(KOLO_STORE_SHRINK, 32, &body);
    kolo_write_u32(&body, id);
    kolo_write_u32(&body, number);
    kolo_write_u32(&body, timeout_ms);
    kolo_write_blob(&body, members, bytes);
    kolo_write_blob(&body, lost, bytes);
    send_message(rank, message, &body);
}

void raw_finalized(struct raw_rank *rank, uint32_t number, uint8_t members)
{
    struct kolo_writer body = {0};
    struct kolo_message *message = kolo_message_create(KOLO_STORE_FINALIZED, 32, &body);
    kolo_write_u32(&body, number);
    kolo_write_blob(&body, &members, 1);
    send_message(rank, message, &body);
}

void raw_abort(struct raw_rank *rank, uint32_t scope, int32_t why, const char *text)
{
    struct kolo_writer body = {0};
    struct kolo_message *message = kolo_message_create(KOLO_STORE_ABORT, 2048, &body);
    kolo_write_u32(&body, scope);
    kolo_write_i32(&body, why);
    kolo_write_text(&body, text);
    send_message(rank, message, &body);
}

void raw_plain(struct raw_rank *rank, enum kolo_store_type type, bool has_number, uint32_t number)
{
    struct kolo_writer body = {0};
    struct kolo_message *message = kolo_message_create(type, 4, &body);
    if (has_number)
        kolo_write_u32(&body, number);
    send_message(rank, message, &body);
}
