// SPDX-License-Identifier: Apache-2.0
// The messages to ranks: answers, failures, rejections. Must never drop a connection: the socket of
// a connection that cannot be written to is shut down, and the poller then notices.
#include "runtime/store_server.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"

/* ---- names and words ---- */

const char *kolo_server_name(const struct kolo_store_server *server, int rank,
                             char text[KOLO_SERVER_NAME_MAX])
{
    const struct kolo_store_member *member = &server->members[rank];
    const struct kolo_store_server_events *events = &server->config.events;
    const char *host = NULL;
    uint32_t pid = 0;
    if (member->host[0] == '\0' && events->started &&
        events->started(events->context, rank, &host, &pid))
        snprintf(text, KOLO_SERVER_NAME_MAX, "rank %d (%.64s, pid %u)", rank, host,
                 (unsigned int)pid);
    else if (member->host[0] == '\0')
        snprintf(text, KOLO_SERVER_NAME_MAX, "rank %d", rank);
    else
        snprintf(text, KOLO_SERVER_NAME_MAX, "rank %d (%s, pid %d)", rank, member->host,
                 (int)member->pid);
    return text;
}

/* ---- deadlines ---- */

void kolo_server_due_at(struct kolo_store_server *server, kolo_deadline deadline)
{
    server->due = kolo_deadline_min(server->due, deadline);
}

/* ---- ranks ---- */

void kolo_server_set_state(struct kolo_store_server *server, int rank, enum kolo_member_state state)
{
    static const char *const names[MEMBER_STATES] = {[MEMBER_ABSENT] = "absent",
                                                     [MEMBER_JOINED] = "joined",
                                                     [MEMBER_LEFT] = "left",
                                                     [MEMBER_LOST] = "lost",
                                                     [MEMBER_DEAD] = "dead"};
    struct kolo_store_member *member = &server->members[rank];
    KOLO_DEBUG("store: rank %d: %s -> %s", rank, names[member->state], names[state]);
    member->state = state;
    if (state == MEMBER_JOINED)
        return;
    kolo_stalls_forget(server->stalls, rank);
    kolo_server_shrink_forget(server, rank, 0);
}

/* ---- sending ---- */

void kolo_server_watch(struct kolo_store_connection *connection)
{
    uint32_t events = connection->stream.out_bytes < OUT_BYTES_MAX ? EPOLLIN : 0;
    /* No byte may come any more that would lead to the messages that wait. */
    if (connection->stream.out_count > 0 || connection->has_more)
        events |= EPOLLOUT;
    if (events == connection->events)
        return;
    connection->events = events;
    kolo_poller_modify(connection->server->poller, &connection->watch, events);
}

/** Shuts the socket down; the poller's callback then drops the connection. */
static void break_off(struct kolo_store_connection *connection)
{
    (void)shutdown(connection->stream.fd, SHUT_RDWR);
}

static void post(struct kolo_store_connection *connection, struct kolo_message *message)
{
    if (kolo_stream_queue(&connection->stream, message) != KOLO_OK ||
        kolo_stream_flush(&connection->stream) != KOLO_OK)
        break_off(connection);
    kolo_server_watch(connection);
}

static struct kolo_message *left_message(const struct kolo_store_server *server)
{
    struct kolo_writer body;
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_LEFT, 4 * (size_t)server->leaving_count, &body);
    if (!message)
        return NULL;
    for (int i = 0; i < server->leaving_count; i++)
        kolo_write_i32(&body, server->leaving[i]);
    if (kolo_message_seal(message, &body) == KOLO_OK)
        return message;
    kolo_message_drop(message);
    return NULL;
}

/** If there is no memory for the message, the ranks lose their connections. */
void kolo_server_tell_left(struct kolo_store_server *server)
{
    if (server->leaving_count == 0)
        return;
    struct kolo_message *message = left_message(server);
    server->leaving_count = 0;
    for (struct kolo_store_connection *each = server->connections; each; each = each->next) {
        if (each->rank < 0 || server->members[each->rank].state == MEMBER_LEFT)
            continue;
        if (message)
            post(each, message);
        else
            break_off(each);
    }
    kolo_message_drop(message);
}

void kolo_server_broadcast(struct kolo_store_server *server, struct kolo_message *message)
{
    kolo_server_tell_left(server);
    for (struct kolo_store_connection *each = server->connections; each; each = each->next)
        if (each->rank >= 0)
            post(each, message);
}

/** Sends an ANSWER. If there is no memory for it the connection ends, so that the rank does not
 * wait for it. */
void kolo_server_answer(struct kolo_store_connection *connection, uint32_t id, kolo_status status,
                        int64_t sum, const void *value, size_t bytes)
{
    enum { ANSWER_FIXED = 32 };
    const char *why = status == KOLO_OK || status == KOLO_ERR_NOT_FOUND ? "" : kolo_error_detail();
    struct kolo_writer body;
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_ANSWER, ANSWER_FIXED + strlen(why) + bytes, &body);
    if (!message) {
        break_off(connection);
        return;
    }
    kolo_write_u32(&body, id);
    kolo_write_i32(&body, status);
    kolo_write_i64(&body, sum);
    kolo_write_text(&body, why);
    kolo_write_blob(&body, value, bytes);
    kolo_server_tell_left(connection->server);
    if (kolo_message_seal(message, &body) == KOLO_OK)
        post(connection, message);
    else
        break_off(connection);
    kolo_message_drop(message);
}

void kolo_server_answer_wait(void *context, struct kolo_kv_owner *owner, uint32_t id,
                             const void *value, size_t bytes)
{
    (void)context;
    struct kolo_store_connection *connection =
        (struct kolo_store_connection *)(void *)((char *)owner -
                                                 offsetof(struct kolo_store_connection, waits));
    kolo_server_answer(connection, id, KOLO_OK, 0, value, bytes);
}

/* ---- failure ---- */

static struct kolo_message *failed_message(int rank, uint32_t scope, kolo_status why,
                                           const char *text)
{
    struct kolo_writer body;
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_FAILED, 16 + KOLO_STORE_TEXT_MAX, &body);
    if (!message)
        return NULL;
    kolo_write_i32(&body, rank);
    kolo_write_u32(&body, scope);
    kolo_write_i32(&body, why);
    kolo_write_text(&body, text);
    if (kolo_message_seal(message, &body) != KOLO_OK) {
        kolo_message_drop(message);
        return NULL;
    }
    return message;
}

/** Whether this is the first failure of @p scope; records it. */
static bool is_first(struct kolo_store_server *server, uint32_t scope)
{
    if (server->has_failed)
        return false;
    if (scope == KOLO_STORE_RANK) /* the rank's state ensures that this is told only once */
        return true;
    if (scope == KOLO_STORE_JOB) {
        server->has_failed = true;
        server->start_by = KOLO_NEVER;
        return true;
    }
    if (kolo_map_get(&server->failed_comms, scope))
        return false;
    if (kolo_map_put(&server->failed_comms, scope, server) != KOLO_OK)
        KOLO_WARN("store: cannot record a failure: %s", kolo_error_detail());
    return true;
}

/** If there is no memory for the message, the ranks lose their connections. */
void kolo_server_fail(struct kolo_store_server *server, int rank, uint32_t scope, kolo_status why,
                      const char *words, bool tell_owner)
{
    char text[KOLO_STORE_TEXT_MAX];
    snprintf(text, sizeof text, "%s", words);
    kolo_text_clean(text);
    if (!server->has_world)
        scope = KOLO_STORE_JOB;
    if (!is_first(server, scope))
        return;
    server->failures++;
    KOLO_INFO("store: %s failed: %s", scope == KOLO_STORE_JOB ? "the job" : "a communicator", text);
    struct kolo_message *message = failed_message(rank, scope, why, text);
    if (message)
        kolo_server_broadcast(server, message);
    else
        for (struct kolo_store_connection *each = server->connections; each; each = each->next)
            break_off(each);
    if (scope == KOLO_STORE_JOB)
        server->failed = message;
    else
        kolo_message_drop(message);
    if (tell_owner && server->config.events.aborted)
        server->config.events.aborted(server->config.events.context, rank, why, text);
}

void kolo_server_reject(struct kolo_store_connection *connection, struct kolo_message *message)
{
    connection->is_rejected = true;
    connection->join_by = kolo_deadline_in_ms(REJECTED_MS);
    kolo_server_due_at(connection->server, connection->join_by);
    if (message)
        post(connection, message);
    else
        break_off(connection);
}

void kolo_server_reject_join(struct kolo_store_connection *connection, int rank, const char *text)
{
    struct kolo_store_server *server = connection->server;
    if (rank < 0 || rank >= server->config.size)
        rank = -1;
    if (!server->has_world)
        kolo_server_fail(server, rank, KOLO_STORE_JOB, KOLO_ERR_INVALID, text, true);
    struct kolo_message *message = failed_message(rank, KOLO_STORE_JOB, KOLO_ERR_INVALID, text);
    kolo_server_reject(connection, message);
    kolo_message_drop(message);
}
