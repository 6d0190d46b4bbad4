// SPDX-License-Identifier: Apache-2.0
// The messages from ranks: one handler for each, which reads the whole body before it uses any of
// it. Any failure except ERR_NO_MEMORY is the rank's fault, and ends its connection.
#include "runtime/store_server.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/call.h"

struct join {
    int32_t rank, pid;
    uint32_t size, timeout_ms;
    char host[KOLO_STORE_HOST_MAX];
    const uint8_t *peer;
    size_t peer_bytes;
};

/** Explains why the place of @p join is taken: which process has it, or had it. */
static void say_taken(const struct kolo_store_server *server, const struct join *join,
                      char text[KOLO_STORE_TEXT_MAX])
{
    const struct kolo_store_member *member = &server->members[join->rank];
    const bool is_itself = member->pid == join->pid && strcmp(member->host, join->host) == 0;
    const bool has_left = member->state == MEMBER_LEFT;
    char other[KOLO_SERVER_NAME_MAX];
    kolo_server_name(server, join->rank, other);
    if (is_itself && has_left)
        snprintf(text, KOLO_STORE_TEXT_MAX,
                 "%s, this process, has finalized and cannot join again; keep the communicator "
                 "until the end",
                 other);
    else if (is_itself)
        snprintf(text, KOLO_STORE_TEXT_MAX,
                 "%s, this process, has joined already; call kolo_init once, and kolo_dup or "
                 "kolo_split for more communicators",
                 other);
    else if (has_left)
        snprintf(text, KOLO_STORE_TEXT_MAX,
                 "%s has finalized, and another process (%s, pid %d) cannot join as rank %d after "
                 "it; a job is one program: start each by a kolorun of its own",
                 other, join->host, (int)join->pid, (int)join->rank);
    else
        snprintf(text, KOLO_STORE_TEXT_MAX,
                 "%s is there already and another process (%s, pid %d) joins as rank %d; give each "
                 "process its own rank",
                 other, join->host, (int)join->pid, (int)join->rank);
}

static bool check_join(struct kolo_store_connection *connection, const struct join *join)
{
    struct kolo_store_server *server = connection->server;
    int size = server->config.size;
    char text[KOLO_STORE_TEXT_MAX];
    const char *owner = server->config.owner ? server->config.owner : "the rendezvous";
    if (join->size != (uint32_t)size) {
        snprintf(text, sizeof text,
                 "rank %d (%s, pid %d) says the job has %u rank%s, %s says %d; start all with the "
                 "same size",
                 (int)join->rank, join->host, (int)join->pid, (unsigned int)join->size,
                 join->size == 1 ? "" : "s", owner, size);
    } else if (join->rank < 0 || join->rank >= size) {
        snprintf(text, sizeof text,
                 "rank %d (%s, pid %d) is not in a job of %d rank%s; ranks are 0 to %d",
                 (int)join->rank, join->host, (int)join->pid, size, size == 1 ? "" : "s", size - 1);
    } else if (server->members[join->rank].state != MEMBER_ABSENT) {
        say_taken(server, join, text);
    } else {
        return true;
    }
    kolo_server_reject_join(connection, join->rank, text);
    return false;
}

static kolo_status make_world(const struct kolo_store_server *server,
                              struct kolo_message **message_out)
{
    size_t bytes = 4;
    for (int rank = 0; rank < server->config.size; rank++)
        bytes += 4 + server->members[rank].peer_bytes;
    if (bytes >= KOLO_STORE_MESSAGE_MAX)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "the table of %d ranks takes %zu bytes, more than %d; fewer transports "
                         "(KOLO_TRANSPORT) make it smaller",
                         server->config.size, bytes, KOLO_STORE_MESSAGE_MAX);
    struct kolo_writer body;
    struct kolo_message *message = kolo_message_create(KOLO_STORE_WORLD, bytes, &body);
    if (!message)
        return KOLO_ERR_NO_MEMORY;
    kolo_write_u32(&body, (uint32_t)server->config.size);
    for (int rank = 0; rank < server->config.size; rank++)
        kolo_write_blob(&body, server->members[rank].peer, server->members[rank].peer_bytes);
    kolo_status status = kolo_message_seal(message, &body);
    if (status == KOLO_OK)
        *message_out = message;
    else
        kolo_message_drop(message);
    return status;
}

static void start_world(struct kolo_store_server *server)
{
    struct kolo_message *message = NULL;
    kolo_status status = make_world(server, &message);
    if (status != KOLO_OK) {
        kolo_server_fail(server, -1, KOLO_STORE_JOB, status, kolo_error_detail(), true);
        return;
    }
    server->has_world = true;
    server->start_by = KOLO_NEVER;
    kolo_server_broadcast(server, message);
    kolo_message_drop(message);
    if (server->config.events.joined)
        server->config.events.joined(server->config.events.context);
}

static kolo_status admit(struct kolo_store_connection *connection, const struct join *join)
{
    struct kolo_store_server *server = connection->server;
    struct kolo_store_member *member = &server->members[join->rank];
    uint8_t *peer = kolo_calloc(join->peer_bytes ? join->peer_bytes : 1, 1);
    if (!peer)
        return KOLO_ERR_NO_MEMORY;
    memcpy(peer, join->peer, join->peer_bytes);
    member->peer = peer;
    member->peer_bytes = join->peer_bytes;
    member->pid = join->pid;
    memcpy(member->host, join->host, sizeof member->host);
    member->connection = connection;
    connection->rank = join->rank;
    connection->join_by = KOLO_NEVER;
    connection->stream.in_max = KOLO_STORE_ASK_MAX;
    kolo_server_set_state(server, join->rank, MEMBER_JOINED);
    if (server->joined_count++ == 0) {
        server->first_join_ns = kolo_now_ns();
        server->start_by = kolo_deadline_in_ms(server->config.start_timeout_ms);
        server->tell_by = kolo_deadline_in_ms(TELL_EVERY_MS);
        kolo_server_due_at(server, server->tell_by);
    }
    /* a rank that gives up sooner than the others is told by the server which ranks are missing */
    server->start_by =
        kolo_deadline_min(server->start_by, kolo_deadline_in_ms((int64_t)join->timeout_ms));
    kolo_server_due_at(server, server->start_by);
    if (server->joined_count == server->config.size)
        start_world(server);
    return KOLO_OK;
}

static void note_coming(struct kolo_store_server *server, int rank)
{
    const struct kolo_store_server_events *events = &server->config.events;
    if (rank < 0 || rank >= server->config.size)
        return;
    server->members[rank].has_come = true;
    if (events->came)
        events->came(events->context, rank);
}

static kolo_status on_join(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    struct join join = {.rank = kolo_read_i32(body)};
    join.size = kolo_read_u32(body);
    join.timeout_ms = kolo_read_u32(body);
    join.pid = kolo_read_i32(body);
    kolo_read_text(body, join.host, sizeof join.host);
    join.peer = kolo_read_blob(body, &join.peer_bytes);
    kolo_status status = kolo_reader_finish(body, "JOIN");
    if (status != KOLO_OK)
        return status;
    kolo_text_clean(join.host);
    if (join.peer_bytes > KOLO_STORE_PEER_MAX)
        return kolo_fail(KOLO_ERR_PROTOCOL, "JOIN with a peer of %zu bytes", join.peer_bytes);
    note_coming(connection->server, join.rank);
    if (connection->server->has_failed) {
        kolo_server_reject(connection, connection->server->failed);
        return KOLO_OK;
    }
    if (!check_join(connection, &join))
        return KOLO_OK;
    return admit(connection, &join);
}

/** Keys are 1 to KOLO_STORE_KEY_MAX bytes. */
static void read_key(struct kolo_reader *body, char key[KOLO_STORE_KEY_MAX + 1])
{
    kolo_read_text(body, key, KOLO_STORE_KEY_MAX + 1);
    if (!key[0])
        body->failed = true;
}

static kolo_status on_set(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    char key[KOLO_STORE_KEY_MAX + 1] = "";
    size_t bytes = 0;
    uint32_t id = kolo_read_u32(body);
    read_key(body, key);
    const uint8_t *value = kolo_read_blob(body, &bytes);
    kolo_status status = kolo_reader_finish(body, "SET");
    if (status != KOLO_OK)
        return status;
    if (bytes > KOLO_STORE_VALUE_MAX)
        return kolo_fail(KOLO_ERR_PROTOCOL, "SET of %zu bytes", bytes);
    kolo_server_answer(connection, id, kolo_kv_table_set(connection->server->kv, key, value, bytes),
                       0, NULL, 0);
    return KOLO_OK;
}

static kolo_status on_get(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    char key[KOLO_STORE_KEY_MAX + 1] = "";
    uint32_t id = kolo_read_u32(body);
    bool wait = kolo_read_u8(body) != 0;
    read_key(body, key);
    kolo_status status = kolo_reader_finish(body, "GET");
    if (status != KOLO_OK)
        return status;
    const void *value = NULL;
    size_t bytes = 0;
    status = kolo_kv_table_get(connection->server->kv, key, &value, &bytes);
    if (status == KOLO_ERR_NOT_FOUND && wait) {
        status = kolo_kv_wait(connection->server->kv, key, &connection->waits, id);
        if (status == KOLO_OK)
            return KOLO_OK;
    }
    kolo_server_answer(connection, id, status, 0, value, bytes);
    return KOLO_OK;
}

static kolo_status on_add(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    char key[KOLO_STORE_KEY_MAX + 1] = "";
    int64_t sum = 0;
    uint32_t id = kolo_read_u32(body);
    read_key(body, key);
    int64_t amount = kolo_read_i64(body);
    kolo_status status = kolo_reader_finish(body, "ADD");
    if (status != KOLO_OK)
        return status;
    status = kolo_kv_table_add(connection->server->kv, key, amount, &sum);
    kolo_server_answer(connection, id, status, sum, NULL, 0);
    return KOLO_OK;
}

static kolo_status on_cancel(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    uint32_t id = kolo_read_u32(body);
    kolo_status status = kolo_reader_finish(body, "CANCEL");
    if (status == KOLO_OK)
        kolo_kv_cancel(connection->server->kv, &connection->waits, id);
    if (status == KOLO_OK && id != 0)
        kolo_server_shrink_forget(connection->server, connection->rank, id);
    return status;
}

/** The difference between two calls that are described in the same words. */
static const char *difference(const struct kolo_desc *one, const struct kolo_desc *other)
{
    struct kolo_call mine, theirs;
    kolo_call_unpack(one, &mine);
    kolo_call_unpack(other, &theirs);
    return kolo_call_difference(&mine, &theirs);
}

static void fail_mismatch(struct kolo_store_server *server, const struct kolo_stall *other,
                          int rank, const struct kolo_desc *desc, const char *words)
{
    const bool says_it = strcmp(words, other->words) != 0;
    int there = kolo_stall_first(other, server->config.size);
    const char *low_words = there < rank ? other->words : words;
    const char *high_words = there < rank ? words : other->words;
    int low = there < rank ? there : rank, high = there < rank ? rank : there;
    char text[KOLO_STORE_TEXT_MAX];
    snprintf(text, sizeof text,
             "rank %d (%s) calls %.400s, sequence %u, but rank %d (%s) calls %.400s, sequence %u%s",
             low, server->members[low].host, low_words, (unsigned int)other->sequence, high,
             server->members[high].host, high_words, (unsigned int)other->sequence,
             says_it ? "" : difference(&other->desc, desc));
    kolo_server_fail(server, -1, other->channel / KOLO_CHANNELS_PER_COMM, KOLO_ERR_MISMATCH, text,
                     true);
}

static kolo_status on_stalled(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    struct kolo_store_server *server = connection->server;
    char words[KOLO_STORE_TEXT_MAX] = "";
    struct kolo_desc desc;
    const struct kolo_stall *other = NULL;
    size_t member_bytes = 0;
    uint32_t channel = kolo_read_u32(body);
    uint32_t sequence = kolo_read_u32(body);
    kolo_read_bytes(body, desc.bytes, sizeof desc.bytes);
    kolo_read_text(body, words, sizeof words);
    const uint8_t *members = kolo_read_blob(body, &member_bytes);
    const uint8_t own = kolo_read_u8(body);
    kolo_status status = kolo_reader_finish(body, "STALLED");
    if (status != KOLO_OK || server->has_failed ||
        kolo_map_get(&server->failed_comms, channel / KOLO_CHANNELS_PER_COMM))
        return status;
    if (member_bytes > 0 && member_bytes != kolo_stall_bits_bytes(server->config.size))
        return kolo_fail(KOLO_ERR_PROTOCOL, "STALLED with %zu bytes of members", member_bytes);
    if (own >= KOLO_OWN_WAITS)
        return kolo_fail(KOLO_ERR_PROTOCOL, "STALLED in wait %d of its own", (int)own);
    kolo_text_clean(words);
    const struct kolo_stall_report report = {.channel = channel,
                                             .sequence = sequence,
                                             .desc = &desc,
                                             .words = words,
                                             .members = member_bytes > 0 ? members : NULL,
                                             .own = (enum kolo_own_wait)own};
    status = kolo_stalls_report(server->stalls, connection->rank, &report, &other);
    if (status == KOLO_ERR_MISMATCH) {
        fail_mismatch(server, other, connection->rank, &desc, words);
        return KOLO_OK;
    }
    if (status != KOLO_OK)
        KOLO_WARN("store: cannot compare a stalled call: %s", kolo_error_detail());
    kolo_server_due_at(server, kolo_deadline_in_ms(server->config.stall_warn_ms));
    return KOLO_OK;
}

static kolo_status on_resumed(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    uint32_t channel = kolo_read_u32(body);
    uint32_t sequence = kolo_read_u32(body);
    kolo_status status = kolo_reader_finish(body, "RESUMED");
    if (status == KOLO_OK)
        kolo_stalls_resume(connection->server->stalls, connection->rank, channel, sequence);
    return status;
}

static kolo_status on_abort(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    char text[KOLO_STORE_TEXT_MAX] = "";
    uint32_t scope = kolo_read_u32(body);
    kolo_status why = kolo_status_from_wire(kolo_read_i32(body));
    kolo_read_text(body, text, sizeof text);
    kolo_status status = kolo_reader_finish(body, "ABORT");
    if (status == KOLO_OK && scope == KOLO_STORE_RANK)
        status = kolo_fail(KOLO_ERR_PROTOCOL, "ABORT of a rank");
    if (status == KOLO_OK && why == KOLO_ERR_TIMEOUT)
        kolo_server_say_absent(connection->server, connection->rank, scope, text);
    if (status == KOLO_OK)
        kolo_server_fail(connection->server, connection->rank, scope, why, text, true);
    return status;
}

/** What was understood ends in ERR_LINK, as if the rank had closed the connection. */
static kolo_status on_leave(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    struct kolo_store_server *server = connection->server;
    int rank = connection->rank;
    kolo_status status = kolo_reader_finish(body, "LEAVE");
    if (status != KOLO_OK)
        return status;
    if (!server->has_world && !server->has_failed)
        return kolo_fail(KOLO_ERR_PROTOCOL, "LEAVE before the start");
    kolo_server_set_state(server, rank, MEMBER_LEFT);
    server->leaving[server->leaving_count++] = rank;
    if (server->config.events.left)
        server->config.events.left(server->config.events.context, rank);
    return KOLO_ERR_LINK;
}

typedef kolo_status handle_message(struct kolo_store_connection *connection,
                                   struct kolo_reader *body);
static handle_message *const handlers[] = {
    [KOLO_STORE_JOIN] = on_join,
    [KOLO_STORE_SET] = on_set,
    [KOLO_STORE_GET] = on_get,
    [KOLO_STORE_ADD] = on_add,
    [KOLO_STORE_CANCEL] = on_cancel,
    [KOLO_STORE_STALLED] = on_stalled,
    [KOLO_STORE_RESUMED] = on_resumed,
    [KOLO_STORE_ABORT] = on_abort,
    [KOLO_STORE_LEAVE] = on_leave,
    [KOLO_STORE_SHRINK] = kolo_server_shrink,
    [KOLO_STORE_FINALIZED] = kolo_server_finalized,
};

/** Whether the program itself has made a call, unlike what the library says on its own. */
static bool is_of_program(uint8_t type)
{
    return type == KOLO_STORE_SET || type == KOLO_STORE_GET || type == KOLO_STORE_ADD ||
           type == KOLO_STORE_SHRINK || type == KOLO_STORE_FINALIZED;
}

/** Calls the handler of a message. JOIN must come first, and only once. */
static kolo_status handle(struct kolo_store_connection *connection, uint8_t type,
                          struct kolo_reader *body)
{
    handle_message *handler = type < sizeof handlers / sizeof handlers[0] ? handlers[type] : NULL;
    if (connection->is_rejected)
        return KOLO_OK;
    if (!handler || (connection->rank < 0) != (type == KOLO_STORE_JOIN))
        return kolo_fail(KOLO_ERR_PROTOCOL, "a message of type %d %s", (int)type,
                         connection->rank < 0 ? "before JOIN" : "is not for a store's server");
    if (is_of_program(type))
        connection->server->members[connection->rank].failures = connection->server->failures;
    return handler(connection, body);
}

/** Handles every complete message in the buffer. If too many answers wait to be read by the rank,
 * the rest waits. */
kolo_status kolo_server_handle_all(struct kolo_store_connection *connection)
{
    connection->has_more = false;
    while (connection->stream.out_bytes < OUT_BYTES_MAX) {
        uint8_t type;
        struct kolo_reader body;
        kolo_status status = kolo_stream_next(&connection->stream, &type, &body);
        if (status == KOLO_AGAIN)
            return KOLO_OK;
        if (status == KOLO_OK)
            status = handle(connection, type, &body);
        if (status != KOLO_OK)
            return status;
    }
    connection->has_more = true;
    return KOLO_OK;
}
