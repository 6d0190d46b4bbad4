// SPDX-License-Identifier: Apache-2.0
// Owns a rank's end of the connection to the store. Must never block, except in join and close, and
// must never call an event except from the poller's callback. A send that fails is noticed there
// too, because a broken socket is always ready. The job's first failure is kept: calls that wait,
// and all later calls, end with it.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/peers.h"
#include "runtime/store_stall.h"
#include "runtime/store_wire.h"

enum {
    /* At the deadline the server names the missing ranks; its message may take this long to
     * arrive. */
    VERDICT_GRACE_MS = 2000,
    FILLS_PER_EVENT = 64
};

struct kolo_store_client {
    struct kolo_watch watch; /* must be first: the callback gets its address */
    struct kolo_stream stream;
    struct kolo_poller *poller; /* one of the join itself, later the rank's */
    struct kolo_store_client_events events;
    const struct kolo_peer *peers; /* NULL until WORLD */
    int rank, size;
    bool is_joining;
    /* What came after WORLD may already be in the stream's buffer, where epoll does not see it. */
    bool has_unread;
    bool is_lost;
    kolo_status failed; /* status of the job's failure; OK: it has not failed */
    char failed_text[KOLO_STORE_TEXT_MAX];
    struct kolo_store_call *calls;
    uint32_t last_id;
    uint32_t interest;
};

/* ---- calls ---- */

static void end_call(struct kolo_store_call *call, kolo_status status, const char *why)
{
    snprintf(call->why, sizeof call->why, "%s", why);
    call->status = status;
}

static void tell_answered(const struct kolo_store_client *client)
{
    if (!client->is_joining && client->events.answered)
        client->events.answered(client->events.context);
}

static void end_all_calls(struct kolo_store_client *client, kolo_status status, const char *why)
{
    while (client->calls) {
        struct kolo_store_call *call = client->calls;
        client->calls = call->next;
        end_call(call, status, why);
    }
    tell_answered(client);
}

static struct kolo_store_call *take_call(struct kolo_store_client *client, uint32_t id)
{
    struct kolo_store_call **link = &client->calls;
    while (*link && (*link)->id != id)
        link = &(*link)->next;
    struct kolo_store_call *call = *link;
    if (call)
        *link = call->next;
    return call;
}

/* ---- messages in ---- */

static kolo_status on_world(struct kolo_store_client *client, struct kolo_reader *body)
{
    uint32_t size = kolo_read_u32(body);
    if (client->peers || size != (uint32_t)client->size)
        return kolo_fail(KOLO_ERR_PROTOCOL, "the store sends a table of %u ranks, expected %d",
                         (unsigned int)size, client->size);
    return kolo_peers_read(body->at, kolo_reader_left(body), client->size, &client->peers);
}

static void note_failure(struct kolo_store_client *client, int rank, uint32_t scope,
                         kolo_status why, const char text[KOLO_STORE_TEXT_MAX])
{
    if (scope == KOLO_STORE_JOB || client->is_joining) {
        client->failed = why;
        memcpy(client->failed_text, text, KOLO_STORE_TEXT_MAX);
        end_all_calls(client, why, text);
    }
    if (!client->is_joining && client->events.failed)
        client->events.failed(client->events.context, rank, scope, why, text);
}

static kolo_status on_failed(struct kolo_store_client *client, struct kolo_reader *body)
{
    char text[KOLO_STORE_TEXT_MAX] = "";
    int32_t rank = kolo_read_i32(body);
    uint32_t scope = kolo_read_u32(body);
    kolo_status why = kolo_status_from_wire(kolo_read_i32(body));
    kolo_read_text(body, text, sizeof text);
    kolo_status status = kolo_reader_finish(body, "FAILED");
    if (status != KOLO_OK || client->failed != KOLO_OK)
        return status;
    if (rank < -1 || rank >= client->size || (scope == KOLO_STORE_RANK && rank < 0))
        return kolo_fail(KOLO_ERR_PROTOCOL, "the store says that rank %d failed", (int)rank);
    note_failure(client, rank, scope, why, text);
    return KOLO_OK;
}

static kolo_status on_left(struct kolo_store_client *client, struct kolo_reader *body)
{
    do {
        int32_t rank = kolo_read_i32(body);
        if (body->failed)
            break;
        if (rank < 0 || rank >= client->size)
            return kolo_fail(KOLO_ERR_PROTOCOL, "the store says that rank %d left", (int)rank);
        if (client->events.left)
            client->events.left(client->events.context, rank);
    } while (kolo_reader_left(body) > 0);
    return kolo_reader_finish(body, "LEFT");
}

/** Copies what the store answers, as far as there is room if the caller gave some. False: there is
 * no memory for it. */
static bool take_value(struct kolo_store_call *call, const void *value, size_t bytes)
{
    if (bytes == 0)
        return true;
    if (call->room) {
        memcpy(call->room, value, bytes < call->room_bytes ? bytes : call->room_bytes);
        return true;
    }
    call->value = kolo_calloc(bytes, 1);
    if (call->value)
        memcpy(call->value, value, bytes);
    return call->value != NULL;
}

static kolo_status on_answer(struct kolo_store_client *client, struct kolo_reader *body)
{
    char why[KOLO_DETAIL_MAX] = "";
    size_t bytes = 0;
    uint32_t id = kolo_read_u32(body);
    int32_t code = kolo_read_i32(body);
    int64_t sum = kolo_read_i64(body);
    kolo_read_text(body, why, sizeof why);
    const uint8_t *value = kolo_read_blob(body, &bytes);
    kolo_status status = kolo_reader_finish(body, "ANSWER");
    if (status != KOLO_OK)
        return status;
    struct kolo_store_call *call = take_call(client, id);
    if (!call) /* cancelled */
        return KOLO_OK;
    if (code == KOLO_OK && !take_value(call, value, bytes)) {
        end_call(call, KOLO_ERR_NO_MEMORY, kolo_error_detail());
        tell_answered(client);
        return KOLO_OK;
    }
    call->bytes = bytes;
    call->sum = sum;
    call->is_answered = true;
    end_call(call, code == KOLO_OK ? KOLO_OK : kolo_status_from_wire(code), why);
    tell_answered(client);
    return KOLO_OK;
}

static kolo_status handle(struct kolo_store_client *client, uint8_t type, struct kolo_reader *body)
{
    switch (type) {
    case KOLO_STORE_WORLD:
        return on_world(client, body);
    case KOLO_STORE_FAILED:
        return on_failed(client, body);
    case KOLO_STORE_LEFT:
        return on_left(client, body);
    case KOLO_STORE_ANSWER:
        return on_answer(client, body);
    default:
        return kolo_fail(KOLO_ERR_PROTOCOL, "the store sends a message of type %d", (int)type);
    }
}

/** Whether what joining waits for has arrived. What comes after it is left to the owner's
 * poller. */
static bool has_joined(const struct kolo_store_client *client)
{
    return client->peers || client->failed != KOLO_OK;
}

static kolo_status receive(struct kolo_store_client *client)
{
    for (int fills = 0; fills <= FILLS_PER_EVENT; fills++) {
        kolo_status status;
        uint8_t type;
        struct kolo_reader body;
        while ((status = kolo_stream_next(&client->stream, &type, &body)) == KOLO_OK) {
            status = handle(client, type, &body);
            if (status != KOLO_OK)
                return status;
            if (client->is_joining && has_joined(client))
                return KOLO_OK;
        }
        if (status != KOLO_AGAIN)
            return status;
        status = fills < FILLS_PER_EVENT ? kolo_stream_fill(&client->stream) : KOLO_AGAIN;
        if (status != KOLO_OK)
            return status == KOLO_AGAIN ? KOLO_OK : status;
    }
    return KOLO_OK;
}

/* ---- the socket ---- */

static void set_interest(struct kolo_store_client *client)
{
    bool wants_turn = client->stream.out_count > 0 || client->has_unread;
    uint32_t interest = EPOLLIN | (wants_turn ? (uint32_t)EPOLLOUT : 0);
    if (client->is_lost || interest == client->interest)
        return;
    client->interest = interest;
    kolo_poller_modify(client->poller, &client->watch, interest);
}

/** What the server sends cannot be believed any more. The others are told why this rank goes. */
static void fail_changed(struct kolo_store_client *client)
{
    char text[KOLO_STORE_TEXT_MAX] = "";
    snprintf(text, sizeof text, "rank %d: %s", client->rank, kolo_error_detail());
    kolo_store_client_abort(client, KOLO_STORE_JOB, KOLO_ERR_DATA, text);
    note_failure(client, -1, KOLO_STORE_JOB, KOLO_ERR_DATA, text);
}

static void set_lost(struct kolo_store_client *client, kolo_status why)
{
    char text[KOLO_DETAIL_MAX + 64];
    snprintf(text, sizeof text, "lost the connection to the job's store: %s", kolo_error_detail());
    if (why != KOLO_ERR_LINK && !client->is_joining)
        KOLO_WARN("%s: %s", text, kolo_status_text(why));
    client->is_lost = true;
    kolo_poller_remove(client->poller, &client->watch);
    end_all_calls(client, KOLO_ERR_PEER, text);
    if (!client->is_joining && client->events.lost)
        client->events.lost(client->events.context);
}

static void client_ready(struct kolo_watch *watch, uint32_t events)
{
    struct kolo_store_client *client = (struct kolo_store_client *)(void *)watch;
    (void)events;
    kolo_status flushed = kolo_stream_flush(&client->stream);
    client->has_unread = false;
    kolo_status status = receive(client); /* first read what it sent before it went */
    if (status == KOLO_OK && !(client->is_joining && has_joined(client)))
        status = flushed;
    if (client->stream.is_changed)
        fail_changed(client);
    if (status != KOLO_OK)
        set_lost(client, status);
    else
        set_interest(client);
}

/** Seals and queues @p message, whose reference it takes. */
static kolo_status post(struct kolo_store_client *client, struct kolo_message *message,
                        const struct kolo_writer *body)
{
    if (!message)
        return KOLO_ERR_NO_MEMORY;
    kolo_status status = kolo_message_seal(message, body);
    if (status == KOLO_OK)
        status = kolo_stream_queue(&client->stream, message);
    kolo_message_drop(message);
    if (status != KOLO_OK)
        return status;
    if (kolo_stream_flush(&client->stream) != KOLO_OK)
        (void)shutdown(client->stream.fd, SHUT_RDWR); /* the poller will notice */
    set_interest(client);
    return KOLO_OK;
}

/* ---- joining ---- */

static kolo_status post_join(struct kolo_store_client *client, const struct kolo_peer *self,
                             kolo_deadline deadline)
{
    uint8_t blob[KOLO_STORE_PEER_MAX];
    size_t bytes = 0;
    struct kolo_writer peer = kolo_writer_over(blob, sizeof blob), body = {0};
    kolo_peer_write(&peer, self);
    kolo_status status = kolo_writer_finish(&peer, blob, &bytes);
    if (status != KOLO_OK)
        return status;
    int left_ms = kolo_deadline_poll_ms(deadline);
    client->rank = self->identity.rank;
    struct kolo_message *message = kolo_message_create(KOLO_STORE_JOIN, KOLO_STORE_JOIN_MAX, &body);
    kolo_write_i32(&body, self->identity.rank);
    kolo_write_u32(&body, (uint32_t)client->size);
    kolo_write_u32(&body, left_ms < 0 ? UINT32_MAX : (uint32_t)left_ms);
    kolo_write_i32(&body, self->identity.pid);
    kolo_write_text(&body, self->identity.host);
    kolo_write_blob(&body, blob, bytes);
    return post(client, message, &body);
}

/** Waits for WORLD or FAILED. */
static kolo_status wait_for_world(struct kolo_store_client *client, kolo_deadline deadline)
{
    const kolo_deadline verdict = kolo_deadline_plus_ms(deadline, VERDICT_GRACE_MS);
    KOLO_DEBUG("start: joined; waiting until all %d ranks have", client->size);
    while (!has_joined(client) && !client->is_lost) {
        if (kolo_deadline_passed(verdict))
            return kolo_fail(KOLO_ERR_TIMEOUT,
                             "the job's store did not say in time that all %d ranks are there",
                             client->size);
        kolo_poller_sleep(client->poller, verdict);
        kolo_status status = kolo_poller_dispatch(client->poller, NULL);
        if (status != KOLO_OK)
            return status;
    }
    if (client->failed != KOLO_OK)
        return kolo_fail(client->failed, "%s", client->failed_text);
    if (client->is_lost) {
        char why[KOLO_DETAIL_MAX];
        kolo_detail_keep(why);
        return kolo_fail(KOLO_ERR_CONNECT,
                         "lost the connection to the job's store before all ranks were there: %s",
                         why);
    }
    KOLO_DEBUG("start: all %d ranks have joined", client->size);
    return KOLO_OK;
}

/** Moves the connection to the rank's poller. Until what came after WORLD has been handled, it asks
 * for EPOLLOUT and so is always ready, even if something is posted before. */
static kolo_status move_to(struct kolo_store_client *client, struct kolo_poller *poller)
{
    kolo_poller_remove(client->poller, &client->watch);
    client->interest = EPOLLIN | EPOLLOUT;
    kolo_status status = kolo_poller_add(poller, &client->watch, client->interest);
    if (status == KOLO_OK) {
        client->poller = poller;
        client->is_joining = false;
        client->has_unread = true;
    }
    return status;
}

static void free_client(struct kolo_store_client *client)
{
    if (!client)
        return;
    kolo_stream_fini(&client->stream);
    kolo_peers_drop(client->peers);
    kolo_free_memory(client);
}

static kolo_status open_client(const struct kolo_store_client_config *config,
                               struct kolo_store_client **client_out)
{
    struct kolo_store_client *client = kolo_calloc(1, sizeof *client);
    if (!client) {
        close(config->fd);
        return KOLO_ERR_NO_MEMORY;
    }
    client->watch = (struct kolo_watch){config->fd, client_ready};
    client->size = config->size;
    client->is_joining = true;
    client->events = config->events;
    kolo_status status = kolo_stream_init(&client->stream, config->fd, KOLO_STORE_MESSAGE_MAX);
    if (status != KOLO_OK) {
        free_client(client);
        return status;
    }
    *client_out = client;
    return KOLO_OK;
}

kolo_status kolo_store_client_join(const struct kolo_store_client_config *config,
                                   struct kolo_store_client **client_out,
                                   const struct kolo_peer **peers_out)
{
    struct kolo_store_client *client = NULL;
    struct kolo_poller *own = NULL;
    kolo_status status = open_client(config, &client);
    if (status != KOLO_OK)
        return status;
    KOLO_TRY(kolo_poller_create(&own));
    client->poller = own;
    client->interest = EPOLLIN;
    KOLO_TRY(kolo_poller_add(own, &client->watch, EPOLLIN));
    status = post_join(client, config->self, config->deadline);
    if (status == KOLO_OK)
        status = wait_for_world(client, config->deadline);
    if (status == KOLO_OK)
        status = move_to(client, config->poller);
    else if (!client->is_lost)
        kolo_poller_remove(own, &client->watch);
    if (status == KOLO_OK) {
        *client_out = client;
        *peers_out = client->peers;
        client = NULL;
    }
out:
    kolo_poller_destroy(own);
    free_client(client);
    return status;
}

void kolo_store_client_keepalive(struct kolo_store_client *client, int64_t peer_timeout_ms)
{
    kolo_stream_keepalive(&client->stream, peer_timeout_ms);
}

/* ---- asking and telling ---- */

/** Prepares @p call. False: it has already ended. */
static bool begin_call(struct kolo_store_client *client, const char *key, size_t bytes,
                       struct kolo_store_call *call)
{
    size_t key_bytes = strlen(key);
    *call = (struct kolo_store_call){.status = KOLO_AGAIN};
    if (key_bytes < 1 || key_bytes > KOLO_STORE_KEY_MAX)
        end_call(call, KOLO_ERR_INVALID, "a key is 1 to 255 bytes of text");
    else if (bytes > KOLO_STORE_VALUE_MAX)
        end_call(call, KOLO_ERR_INVALID, "a value is at most 1 MiB");
    else if (client->failed != KOLO_OK)
        end_call(call, client->failed, client->failed_text);
    else if (client->is_lost)
        end_call(call, KOLO_ERR_PEER, "the connection to the job's store is lost");
    if (call->status != KOLO_AGAIN)
        return false;
    call->id = ++client->last_id;
    return true;
}

static void ask(struct kolo_store_client *client, struct kolo_message *message,
                const struct kolo_writer *body, struct kolo_store_call *call)
{
    kolo_status status = post(client, message, body);
    if (status != KOLO_OK) {
        end_call(call, status, kolo_error_detail());
        return;
    }
    call->next = client->calls;
    client->calls = call;
}

void kolo_store_client_set(struct kolo_store_client *client, const char *key, const void *value,
                           size_t bytes, struct kolo_store_call *call)
{
    struct kolo_writer body = {0};
    if (!begin_call(client, key, bytes, call))
        return;
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_SET, 16 + KOLO_STORE_KEY_MAX + bytes, &body);
    kolo_write_u32(&body, call->id);
    kolo_write_text(&body, key);
    kolo_write_blob(&body, value, bytes);
    ask(client, message, &body, call);
}

void kolo_store_client_get(struct kolo_store_client *client, const char *key, bool wait,
                           struct kolo_store_call *call)
{
    struct kolo_writer body = {0};
    if (!begin_call(client, key, 0, call))
        return;
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_GET, 16 + KOLO_STORE_KEY_MAX, &body);
    kolo_write_u32(&body, call->id);
    kolo_write_u8(&body, wait);
    kolo_write_text(&body, key);
    ask(client, message, &body, call);
}

void kolo_store_client_add(struct kolo_store_client *client, const char *key, int64_t amount,
                           struct kolo_store_call *call)
{
    struct kolo_writer body = {0};
    if (!begin_call(client, key, 0, call))
        return;
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_ADD, 16 + KOLO_STORE_KEY_MAX, &body);
    kolo_write_u32(&body, call->id);
    kolo_write_text(&body, key);
    kolo_write_i64(&body, amount);
    ask(client, message, &body, call);
}

void kolo_store_client_shrink(struct kolo_store_client *client, const struct kolo_store_loss *loss,
                              struct kolo_store_call *call)
{
    size_t bytes = kolo_stall_bits_bytes(client->size);
    struct kolo_writer body = {0};
    if (!begin_call(client, "survivors", 0, call))
        return;
    call->room = loss->survivors;
    call->room_bytes = bytes;
    struct kolo_message *message = kolo_message_create(KOLO_STORE_SHRINK, 20 + 2 * bytes, &body);
    kolo_write_u32(&body, call->id);
    kolo_write_u32(&body, loss->number);
    kolo_write_u32(&body, loss->timeout_ms);
    kolo_write_blob(&body, loss->members, bytes);
    kolo_write_blob(&body, loss->lost, bytes);
    ask(client, message, &body, call);
}

/** Posts a message that needs no answer. If there is no memory it is not sent: ranks that wait for
 * it have a deadline. */
static void tell(struct kolo_store_client *client, struct kolo_message *message,
                 const struct kolo_writer *body)
{
    if (post(client, message, body) != KOLO_OK)
        KOLO_WARN("cannot tell the job's store: %s", kolo_error_detail());
}

void kolo_store_client_cancel(struct kolo_store_client *client, struct kolo_store_call *call)
{
    struct kolo_writer body = {0};
    if (call->status != KOLO_AGAIN || !take_call(client, call->id))
        return;
    end_call(call, KOLO_ERR_ABORTED, "cancelled");
    struct kolo_message *message = kolo_message_create(KOLO_STORE_CANCEL, 4, &body);
    kolo_write_u32(&body, call->id);
    tell(client, message, &body);
}

/** Copies a text for a message, cut to the length that the other side accepts. */
static void cut_text(char text[KOLO_STORE_TEXT_MAX], const char *from)
{
    snprintf(text, KOLO_STORE_TEXT_MAX, "%s", from);
}

void kolo_store_client_stalled(struct kolo_store_client *client,
                               const struct kolo_stall_report *report)
{
    size_t bytes = report->members ? kolo_stall_bits_bytes(client->size) : 0;
    char text[KOLO_STORE_TEXT_MAX];
    struct kolo_writer body = {0};
    if (client->is_lost || client->failed != KOLO_OK)
        return;
    cut_text(text, report->words);
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_STALLED, 64 + KOLO_STORE_TEXT_MAX + bytes, &body);
    kolo_write_u32(&body, report->channel);
    kolo_write_u32(&body, report->sequence);
    kolo_write_bytes(&body, report->desc->bytes, sizeof report->desc->bytes);
    kolo_write_text(&body, text);
    kolo_write_blob(&body, report->members, bytes);
    kolo_write_u8(&body, (uint8_t)report->own);
    tell(client, message, &body);
}

void kolo_store_client_finalized(struct kolo_store_client *client, uint32_t number,
                                 const uint8_t *members)
{
    size_t bytes = kolo_stall_bits_bytes(client->size);
    struct kolo_writer body = {0};
    if (client->is_lost || client->failed != KOLO_OK)
        return;
    struct kolo_message *message = kolo_message_create(KOLO_STORE_FINALIZED, 16 + bytes, &body);
    kolo_write_u32(&body, number);
    kolo_write_blob(&body, members, bytes);
    tell(client, message, &body);
}

void kolo_store_client_resumed(struct kolo_store_client *client, uint32_t channel,
                               uint32_t sequence)
{
    struct kolo_writer body = {0};
    if (client->is_lost || client->failed != KOLO_OK)
        return;
    struct kolo_message *message = kolo_message_create(KOLO_STORE_RESUMED, 8, &body);
    kolo_write_u32(&body, channel);
    kolo_write_u32(&body, sequence);
    tell(client, message, &body);
}

void kolo_store_client_abort(struct kolo_store_client *client, uint32_t scope, kolo_status why,
                             const char *text)
{
    char cut[KOLO_STORE_TEXT_MAX];
    struct kolo_writer body = {0};
    if (client->is_lost || client->failed != KOLO_OK)
        return;
    cut_text(cut, text);
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_ABORT, 16 + KOLO_STORE_TEXT_MAX, &body);
    kolo_write_u32(&body, scope);
    kolo_write_i32(&body, why);
    kolo_write_text(&body, cut);
    tell(client, message, &body);
}

/* ---- leaving ---- */

/** Writes the goodbye and waits for the server's end of the connection: closing earlier, with
 * unread input, could reset the connection and take the goodbye with it. */
static void drain(struct kolo_store_client *client, kolo_deadline deadline)
{
    bool is_said = false;
    for (;;) {
        kolo_status status = kolo_stream_flush(&client->stream);
        if (status == KOLO_OK && !is_said && client->stream.out_count == 0) {
            is_said = true;
            (void)shutdown(client->stream.fd, SHUT_WR);
        }
        while (status == KOLO_OK) {
            client->stream.in_begin = client->stream.in_end = 0;
            status = kolo_stream_fill(&client->stream);
        }
        if (status != KOLO_AGAIN || kolo_deadline_passed(deadline))
            return;
        short events = client->stream.out_count > 0 ? POLLIN | POLLOUT : POLLIN;
        struct pollfd socket = {.fd = client->stream.fd, .events = events};
        if (poll(&socket, 1, kolo_deadline_poll_ms(deadline)) < 0 && errno != EINTR)
            return;
    }
}

const struct kolo_peer *kolo_store_client_take_peers(struct kolo_store_client *client)
{
    const struct kolo_peer *peers = client ? client->peers : NULL;
    if (client)
        client->peers = NULL;
    return peers;
}

void kolo_store_client_close(struct kolo_store_client *client, kolo_deadline deadline)
{
    struct kolo_writer body = {0};
    if (!client)
        return;
    end_all_calls(client, KOLO_ERR_ABORTED, "the communicator is closed");
    if (!client->is_lost) {
        tell(client, kolo_message_create(KOLO_STORE_LEAVE, 0, &body), &body);
        kolo_poller_remove(client->poller, &client->watch);
        client->is_lost = true;
        drain(client, deadline);
    }
    free_client(client);
}
