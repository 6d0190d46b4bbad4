// SPDX-License-Identifier: Apache-2.0
// Owns the server of the store, where the ranks of a job meet: which ranks joined, the key-value
// table, failures, and the comparison of stalls. Must never block, trust a message, or let a
// failing connection affect another one.
//
// The states of a rank, which only kolo_server_set_state changes:
//
//   ABSENT --JOIN--> JOINED --LEAVE--> LEFT
//      |               | connection ends
//      | died          +-----> LOST --verdict (died), or grace over--> DEAD
//      +---------------+-------------------------------------------->  DEAD
//
// A failure ends the job (always, until all ranks have joined), or the communicators that contain a
// dead rank, or one communicator. The first failure of each is sent to every rank, and later ones
// are ignored; the job's failure is kept for ranks that join later. Only the poller's callback and
// expire drop a connection. A send that fails only shuts the socket down, and the poller then
// notices. So no list changes while it is iterated.
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/store_server.h"

/* ---- connections ---- */

static void drop_connection(struct kolo_store_connection *connection)
{
    struct kolo_store_server *server = connection->server;
    int rank = connection->rank;
    kolo_poller_remove(server->poller, &connection->watch);
    kolo_kv_forget(server->kv, &connection->waits);
    kolo_stream_fini(&connection->stream);
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        server->connections = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    kolo_free_memory(connection);
    if (rank < 0)
        return;
    struct kolo_store_member *member = &server->members[rank];
    member->connection = NULL;
    if (member->state != MEMBER_JOINED)
        return;
    kolo_server_set_state(server, rank, MEMBER_LOST);
    if (server->has_failed)
        return;
    member->verdict_by = kolo_deadline_in_ms(server->config.lost_grace_ms);
    kolo_server_due_at(server, member->verdict_by);
    if (server->config.events.lost)
        server->config.events.lost(server->config.events.context, rank);
}

static kolo_status serve(struct kolo_store_connection *connection)
{
    kolo_status status = kolo_stream_flush(&connection->stream);
    bool has_ended = status != KOLO_OK; /* what it sent before that still counts */
    for (int fills = 0;; fills++) {
        status = kolo_server_handle_all(connection);
        if (status != KOLO_OK || connection->stream.out_bytes >= OUT_BYTES_MAX)
            break;
        if (fills == FILLS_PER_EVENT && !has_ended)
            break;
        status = kolo_stream_fill(&connection->stream);
        if (status != KOLO_OK)
            break;
    }
    if (status == KOLO_AGAIN || status == KOLO_OK)
        return has_ended ? KOLO_ERR_LINK : KOLO_OK;
    return status;
}

/** What the rank @p name sends cannot be believed any more. It is told as well. */
static void fail_changed(struct kolo_store_connection *connection, const char *name)
{
    char text[KOLO_STORE_TEXT_MAX];
    snprintf(text, sizeof text, "from %s to the %s", name, kolo_error_detail());
    kolo_server_fail(connection->server, connection->rank, KOLO_STORE_JOB, KOLO_ERR_DATA, text,
                     true);
}

static void connection_ready(struct kolo_watch *watch, uint32_t events)
{
    struct kolo_store_connection *connection = (struct kolo_store_connection *)(void *)watch;
    kolo_status status = serve(connection);
    bool is_stuck = connection->stream.out_bytes >= OUT_BYTES_MAX;
    if (status == KOLO_OK && is_stuck && (events & (EPOLLHUP | EPOLLERR)))
        status = KOLO_ERR_LINK; /* nobody will read its answers */
    if (status == KOLO_OK) {
        kolo_server_watch(connection);
        return;
    }
    if (status != KOLO_ERR_LINK) {
        char name[KOLO_SERVER_NAME_MAX] = "a process that has not joined";
        if (connection->rank >= 0)
            kolo_server_name(connection->server, connection->rank, name);
        KOLO_WARN("store: dropping the connection of %s: %s: %s", name, kolo_status_text(status),
                  kolo_error_detail());
        if (connection->stream.is_changed && connection->rank >= 0)
            fail_changed(connection, name);
    }
    drop_connection(connection);
}

static kolo_status open_connection(struct kolo_store_server *server, int fd)
{
    struct kolo_store_connection *connection = kolo_calloc(1, sizeof *connection);
    if (!connection) {
        close(fd);
        return KOLO_ERR_NO_MEMORY;
    }
    connection->watch = (struct kolo_watch){fd, connection_ready};
    connection->server = server;
    connection->rank = -1;
    connection->events = EPOLLIN;
    connection->join_by = kolo_deadline_in_ms(server->config.start_timeout_ms);
    kolo_status status = kolo_stream_init(&connection->stream, fd, KOLO_STORE_JOIN_MAX);
    if (status == KOLO_OK)
        status = kolo_poller_add(server->poller, &connection->watch, EPOLLIN);
    if (status != KOLO_OK) {
        kolo_stream_fini(&connection->stream);
        kolo_free_memory(connection);
        return status;
    }
    kolo_stream_keepalive(&connection->stream, server->config.peer_timeout_ms);
    connection->next = server->connections;
    if (connection->next)
        connection->next->prev = connection;
    server->connections = connection;
    kolo_server_due_at(server, connection->join_by);
    return KOLO_OK;
}

static void accepted(void *context, kolo_status status, int fd, const struct kolo_greeting *theirs)
{
    struct kolo_store_server *server = context;
    if (status != KOLO_OK)
        return;
    if (theirs->protocol != KOLO_PROTOCOL_VERSION || theirs->purpose != KOLO_PURPOSE_STORE ||
        theirs->tag != server->config.job_id) {
        KOLO_INFO("store: turned away a process of another job or version");
        close(fd);
        return;
    }
    if (open_connection(server, fd) != KOLO_OK)
        KOLO_WARN("store: cannot serve a connection: %s", kolo_error_detail());
}

/* ---- functions for the owner ---- */

kolo_status kolo_store_server_create(struct kolo_poller *poller,
                                     const struct kolo_store_server_config *config,
                                     struct kolo_store_server **server_out)
{
    kolo_status status = KOLO_ERR_NO_MEMORY;
    if (config->size < 1)
        return kolo_fail(KOLO_ERR_INVALID, "store: a job of %d ranks", config->size);
    struct kolo_store_server *server = kolo_calloc(1, sizeof *server);
    if (!server)
        return KOLO_ERR_NO_MEMORY;
    server->poller = poller;
    server->config = *config;
    server->start_by = server->due = KOLO_NEVER;
    server->members = kolo_calloc((size_t)config->size, sizeof *server->members);
    server->leaving = kolo_calloc((size_t)config->size, sizeof *server->leaving);
    if (!server->members || !server->leaving)
        goto out;
    KOLO_TRY(kolo_kv_create(KOLO_STORE_TOTAL_MAX, kolo_server_answer_wait, server, &server->kv));
    KOLO_TRY(kolo_stalls_create(config->size, config->stall_warn_ms, &server->stalls));
    *server_out = server;
    return KOLO_OK;
out:
    kolo_store_server_destroy(server);
    return status;
}

kolo_status kolo_store_server_listen(struct kolo_store_server *server,
                                     const struct kolo_place *place, uint16_t *port_out)
{
    const struct kolo_greeting mine = {.protocol = KOLO_PROTOCOL_VERSION,
                                       .purpose = KOLO_PURPOSE_STORE,
                                       .from = -1,
                                       .to = -1,
                                       .tag = server->config.job_id};
    struct kolo_listener *listener;
    struct kolo_place at = *place;
    at.ports = server->config.ports;
    if (server->listener_count == LISTENERS_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "store: more than %d places to listen at",
                         LISTENERS_MAX);
    const struct kolo_listener_config config = {.place = &at,
                                                .handshake_ms = HANDSHAKE_MS,
                                                .secret = &server->config.secret,
                                                .mine = &mine,
                                                .accepted = accepted,
                                                .context = server};
    kolo_status status = kolo_listener_open(server->poller, &config, &listener);
    if (status != KOLO_OK)
        return status;
    kolo_listener_expect(listener, server->config.size);
    server->listeners[server->listener_count++] = listener;
    kolo_listener_place(listener, &at);
    if (port_out)
        *port_out = kolo_place_port(&at);
    return KOLO_OK;
}

kolo_status kolo_store_server_adopt(struct kolo_store_server *server, int fd)
{
    return open_connection(server, fd);
}

void kolo_store_server_died(struct kolo_store_server *server, int rank, const char *how)
{
    char name[KOLO_SERVER_NAME_MAX], text[KOLO_STORE_TEXT_MAX];
    if (rank < 0 || rank >= server->config.size)
        return;
    enum kolo_member_state state = server->members[rank].state;
    if (state == MEMBER_LEFT || state == MEMBER_DEAD)
        return;
    kolo_server_name(server, rank, name);
    snprintf(text, sizeof text, "%s %s", name, how);
    kolo_server_set_state(server, rank, MEMBER_DEAD);
    kolo_server_fail(server, rank, KOLO_STORE_RANK, KOLO_ERR_PEER, text, false);
}

void kolo_store_server_abort(struct kolo_store_server *server, kolo_status why, const char *text)
{
    kolo_server_fail(server, -1, KOLO_STORE_JOB, why, text, false);
}

static void expire_connections(struct kolo_store_server *server)
{
    struct kolo_store_connection *next;
    for (struct kolo_store_connection *each = server->connections; each; each = next) {
        next = each->next;
        if (kolo_deadline_passed(each->join_by))
            drop_connection(each);
        else
            kolo_server_due_at(server, each->join_by);
    }
}

kolo_deadline kolo_store_server_expire(struct kolo_store_server *server)
{
    kolo_deadline conns = kolo_conn_expire(server->poller);
    kolo_server_tell_left(server);
    if (kolo_deadline_passed(server->due)) {
        server->due = KOLO_NEVER;
        kolo_server_expire_own(server);
        expire_connections(server);
    }
    return kolo_deadline_min(conns, server->due);
}

int kolo_store_server_connected(const struct kolo_store_server *server)
{
    int count = 0;
    for (const struct kolo_store_connection *each = server->connections; each; each = each->next)
        count += each->rank >= 0;
    return count;
}

bool kolo_store_server_is_here(const struct kolo_store_server *server, int rank)
{
    return rank >= 0 && rank < server->config.size && server->members[rank].state == MEMBER_JOINED;
}

bool kolo_store_server_has_come(const struct kolo_store_server *server, int rank)
{
    return rank >= 0 && rank < server->config.size && server->members[rank].has_come;
}

static void view_member(const struct kolo_store_server *server,
                        const struct kolo_store_member *member, struct kolo_store_view *view_out)
{
    *view_out = (struct kolo_store_view){.place = KOLO_VIEW_GONE,
                                         .pid = member->pid,
                                         .is_silent = member->failures != server->failures};
    if (member->state == MEMBER_ABSENT)
        view_out->place = KOLO_VIEW_ABSENT;
    else if (member->state == MEMBER_JOINED)
        view_out->place = KOLO_VIEW_HERE;
    else if (member->state == MEMBER_LEFT)
        view_out->place = KOLO_VIEW_LEFT;
}

kolo_status kolo_store_server_view(const struct kolo_store_server *server,
                                   struct kolo_store_view *views_out)
{
    const size_t size = (size_t)server->config.size;
    const struct kolo_stall **calls = kolo_calloc(size, sizeof calls[0]);
    bool *is_awaited = kolo_calloc(size, sizeof is_awaited[0]);
    kolo_status status = calls && is_awaited ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    if (status == KOLO_OK)
        status = kolo_stalls_survey(server->stalls, calls, is_awaited);
    for (size_t rank = 0; rank < size; rank++) {
        struct kolo_store_view *view = &views_out[rank];
        view_member(server, &server->members[rank], view);
        if (status != KOLO_OK)
            continue;
        view->is_awaited = is_awaited[rank];
        view->call = calls[rank];
        if (calls[rank]) {
            view->since_ns = calls[rank]->since_ns;
            view->own = kolo_stall_own(calls[rank], (int)rank);
            kolo_stall_text(calls[rank], view->words, sizeof view->words);
        }
    }
    kolo_server_shrink_view(server, views_out);
    kolo_free_memory(calls);
    kolo_free_memory(is_awaited);
    return status;
}

int32_t kolo_store_server_pid(const struct kolo_store_server *server, int rank)
{
    return server->members[rank].pid;
}

void kolo_store_server_destroy(struct kolo_store_server *server)
{
    if (!server)
        return;
    for (size_t i = 0; i < server->listener_count; i++)
        kolo_listener_close(server->listeners[i]);
    server->has_failed = true; /* connections lost from here on are not reported */
    while (server->connections)
        drop_connection(server->connections);
    for (int rank = 0; server->members && rank < server->config.size; rank++)
        kolo_free_memory(server->members[rank].peer);
    kolo_free_memory(server->members);
    kolo_free_memory(server->leaving);
    kolo_server_shrink_end(server);
    kolo_message_drop(server->failed);
    kolo_map_fini(&server->failed_comms);
    kolo_kv_destroy(server->kv);
    kolo_stalls_destroy(server->stalls);
    kolo_free_wiped(server, sizeof *server); /* the secret */
}
