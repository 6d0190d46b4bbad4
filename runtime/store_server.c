// SPDX-License-Identifier: Apache-2.0
// Owns the job's meeting place: who joined, the key-value table, the first failure, the comparison
// of stalls. Must never block, trust a message, or let one connection's trouble reach another one.
//
// A rank's life, in set_member_state's table:
//
//   ABSENT --JOIN--> JOINED --LEAVE--> LEFT
//      |               | connection ends
//      | died          +-----> LOST --verdict (died), or grace over--> DEAD
//      +---------------+-------------------------------------------->  DEAD
//
// The first failure wins: its FAILED message is kept and sent to every rank, also to one that joins
// later. A connection is dropped only by the poller's callback or by expire; a send that fails only
// shuts the socket down, and the poller tells. So no list changes while it is walked.
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/store_kv.h"
#include "runtime/store_stall.h"
#include "runtime/store_wire.h"

enum {
    HANDSHAKE_MS = 10000,    /* to prove the secret */
    REJECTED_MS = 5000,      /* for a rejected rank to read why */
    FILLS_PER_EVENT = 16,    /* then others have their turn */
    OUT_BYTES_MAX = 8 << 20, /* a rank that does not read its answers is not asked for more */
    LISTENERS_MAX = 16
};

enum member_state { ABSENT, JOINED, LEFT, LOST, DEAD, MEMBER_STATES };

struct connection {
    struct kolo_watch watch; /* first: the callback gets it */
    struct kolo_store_server *server;
    struct kolo_stream stream;
    struct kolo_kv_owner waits;
    int rank;              /* -1 until JOIN */
    bool is_rejected;      /* it was told why; its messages are ignored */
    kolo_deadline join_by; /* KOLO_NEVER once joined */
    uint32_t events;       /* what the poller watches */
    struct connection *prev, *next;
};

struct member {
    enum member_state state;
    struct connection *connection; /* NULL unless JOINED */
    int32_t pid;
    char host[KOLO_STORE_HOST_MAX];
    uint8_t *peer; /* opaque, for the table */
    size_t peer_bytes;
    kolo_deadline verdict_by; /* LOST */
};

struct kolo_store_server {
    struct kolo_poller *poller;
    struct kolo_store_server_config config;
    struct kolo_listener *listeners[LISTENERS_MAX];
    size_t listener_count;
    struct connection *connections;
    struct member *members;
    int joined_count;
    bool has_world; /* the table went out */
    struct kolo_kv *kv;
    struct kolo_stalls *stalls;
    struct kolo_message *failed; /* FAILED, kept for ranks that join later */
    bool has_failed;
    int64_t first_join_ns;
    kolo_deadline start_by;
    kolo_deadline due; /* no deadline of ours comes before it */
};

/* ---- names and words ---- */

/** "rank 5 (host7, pid 812)", or "rank 5" of one that never joined. */
static void name_rank(const struct kolo_store_server *server, int rank, char *text, size_t capacity)
{
    const struct member *member = &server->members[rank];
    if (member->state == ABSENT || !member->host[0])
        snprintf(text, capacity, "rank %d", rank);
    else
        snprintf(text, capacity, "rank %d (%s, pid %d)", rank, member->host, (int)member->pid);
}

struct words {
    char *at;
    size_t left;
};

static void say(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct words *words, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(words->at, words->left, format, arguments);
    va_end(arguments);
    if (length <= 0)
        return;
    size_t taken = (size_t)length < words->left ? (size_t)length : words->left - 1;
    words->at += taken;
    words->left -= taken;
}

/** The ranks in state ABSENT, compressed: "rank 3" or "ranks 3, 5-7". */
static void say_absent(const struct kolo_store_server *server, struct words *words)
{
    enum { ROOM_FOR_REST = 96 };
    int size = server->config.size;
    say(words, size - server->joined_count == 1 ? "rank " : "ranks ");
    const char *comma = "";
    for (int rank = 0; rank < size; rank++) {
        int last = rank;
        if (server->members[rank].state != ABSENT)
            continue;
        while (last + 1 < size && server->members[last + 1].state == ABSENT)
            last++;
        if (words->left < ROOM_FOR_REST) {
            say(words, ", ...");
            return;
        }
        say(words, last == rank ? "%s%d" : "%s%d-%d", comma, rank, last);
        comma = ", ";
        rank = last;
    }
}

/* ---- deadlines ---- */

static void due_at(struct kolo_store_server *server, kolo_deadline deadline)
{
    server->due = kolo_deadline_min(server->due, deadline);
}

/* ---- ranks ---- */

static void set_member_state(struct kolo_store_server *server, int rank, enum member_state state)
{
    static const char *const names[MEMBER_STATES] = {[ABSENT] = "absent",
                                                     [JOINED] = "joined",
                                                     [LEFT] = "left",
                                                     [LOST] = "lost",
                                                     [DEAD] = "dead"};
    struct member *member = &server->members[rank];
    KOLO_DEBUG("store: rank %d: %s -> %s", rank, names[member->state], names[state]);
    member->state = state;
    if (state != JOINED)
        kolo_stalls_forget(server->stalls, rank);
}

/* ---- sending ---- */

static void watch_events(struct connection *connection)
{
    uint32_t events = connection->stream.out_bytes < OUT_BYTES_MAX ? EPOLLIN : 0;
    if (connection->stream.out_count > 0)
        events |= EPOLLOUT;
    if (events == connection->events)
        return;
    connection->events = events;
    kolo_poller_modify(connection->server->poller, &connection->watch, events);
}

/** The poller will report the socket as closed; the callback then drops the connection. */
static void break_connection(struct connection *connection)
{
    (void)shutdown(connection->stream.fd, SHUT_RDWR);
}

static void post(struct connection *connection, struct kolo_message *message)
{
    if (kolo_stream_queue(&connection->stream, message) != KOLO_OK ||
        kolo_stream_flush(&connection->stream) != KOLO_OK)
        break_connection(connection);
    watch_events(connection);
}

static void broadcast(struct kolo_store_server *server, struct kolo_message *message)
{
    for (struct connection *each = server->connections; each; each = each->next)
        if (each->rank >= 0)
            post(each, message);
}

/** Sends an ANSWER; without memory for it the connection ends, so that nobody waits for it. */
static void answer(struct connection *connection, uint32_t id, kolo_status status, int64_t sum,
                   const void *value, size_t bytes)
{
    enum { ANSWER_FIXED = 32 };
    const char *why = status == KOLO_OK || status == KOLO_ERR_NOT_FOUND ? "" : kolo_error_detail();
    struct kolo_writer body;
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_ANSWER, ANSWER_FIXED + KOLO_DETAIL_MAX + bytes, &body);
    if (!message) {
        break_connection(connection);
        return;
    }
    kolo_write_u32(&body, id);
    kolo_write_i32(&body, status);
    kolo_write_i64(&body, sum);
    kolo_write_text(&body, why);
    kolo_write_blob(&body, value, bytes);
    if (kolo_message_seal(message, &body) == KOLO_OK)
        post(connection, message);
    else
        break_connection(connection);
    kolo_message_drop(message);
}

static void answer_wait(void *context, struct kolo_kv_owner *owner, uint32_t id, const void *value,
                        size_t bytes)
{
    (void)context;
    struct connection *connection =
        (struct connection *)(void *)((char *)owner - offsetof(struct connection, waits));
    answer(connection, id, KOLO_OK, 0, value, bytes);
}

/* ---- failure ---- */

static struct kolo_message *failed_message(int rank, kolo_status why, const char *text)
{
    struct kolo_writer body;
    struct kolo_message *message =
        kolo_message_create(KOLO_STORE_FAILED, 16 + KOLO_STORE_TEXT_MAX, &body);
    if (!message)
        return NULL;
    kolo_write_i32(&body, rank);
    kolo_write_i32(&body, why);
    kolo_write_text(&body, text);
    if (kolo_message_seal(message, &body) != KOLO_OK) {
        kolo_message_drop(message);
        return NULL;
    }
    return message;
}

/** Fails the job, the first time only. Without memory to say why, the ranks lose their connections.
 */
static void fail_job(struct kolo_store_server *server, int rank, kolo_status why, const char *words,
                     bool tell_owner)
{
    char text[KOLO_STORE_TEXT_MAX];
    if (server->has_failed)
        return;
    snprintf(text, sizeof text, "%s", words);
    kolo_text_clean(text);
    KOLO_INFO("store: the job failed: %s", text);
    server->has_failed = true;
    server->start_by = KOLO_NEVER;
    server->failed = failed_message(rank, why, text);
    if (server->failed)
        broadcast(server, server->failed);
    else
        for (struct connection *each = server->connections; each; each = each->next)
            break_connection(each);
    if (tell_owner && server->config.events.aborted)
        server->config.events.aborted(server->config.events.context, rank, why, text);
}

/** Tells one connection why it cannot take part, and lets it go. */
static void reject(struct connection *connection, struct kolo_message *message)
{
    connection->is_rejected = true;
    connection->join_by = kolo_deadline_in_ms(REJECTED_MS);
    due_at(connection->server, connection->join_by);
    if (message)
        post(connection, message);
    else
        break_connection(connection);
}

/** @p connection joined wrongly: before the start that fails the job, afterwards only it hears so.
 */
static void reject_join(struct connection *connection, int rank, const char *text)
{
    struct kolo_store_server *server = connection->server;
    if (rank < 0 || rank >= server->config.size)
        rank = -1;
    if (!server->has_world)
        fail_job(server, rank, KOLO_ERR_INVALID, text, true);
    struct kolo_message *message = failed_message(rank, KOLO_ERR_INVALID, text);
    reject(connection, message);
    kolo_message_drop(message);
}

/* ---- connections ---- */

static void drop_connection(struct connection *connection)
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
    struct member *member = &server->members[rank];
    member->connection = NULL;
    if (member->state != JOINED)
        return;
    set_member_state(server, rank, LOST);
    if (server->has_failed)
        return;
    member->verdict_by = kolo_deadline_in_ms(server->config.lost_grace_ms);
    due_at(server, member->verdict_by);
    if (server->config.events.lost)
        server->config.events.lost(server->config.events.context, rank);
}

/* ---- messages ---- */

struct join {
    int32_t rank, pid;
    uint32_t size, timeout_ms;
    char host[KOLO_STORE_HOST_MAX];
    const uint8_t *peer;
    size_t peer_bytes;
};

static bool check_join(struct connection *connection, const struct join *join)
{
    struct kolo_store_server *server = connection->server;
    int size = server->config.size;
    char text[KOLO_STORE_TEXT_MAX], other[128];
    const char *owner = server->config.owner ? server->config.owner : "the rendezvous";
    if (join->size != (uint32_t)size) {
        snprintf(text, sizeof text,
                 "rank %d (%s, pid %d) says the job has %u ranks, %s says %d; start all with the "
                 "same size",
                 (int)join->rank, join->host, (int)join->pid, (unsigned int)join->size, owner,
                 size);
    } else if (join->rank < 0 || join->rank >= size) {
        snprintf(text, sizeof text,
                 "rank %d (%s, pid %d) is not in a job of %d ranks; ranks are 0 to %d",
                 (int)join->rank, join->host, (int)join->pid, size, size - 1);
    } else if (server->members[join->rank].state != ABSENT) {
        name_rank(server, join->rank, other, sizeof other);
        snprintf(text, sizeof text,
                 "%s is there already and another process (%s, pid %d) joins as rank %d; give each "
                 "process its own rank",
                 other, join->host, (int)join->pid, (int)join->rank);
    } else {
        return true;
    }
    reject_join(connection, join->rank, text);
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
        fail_job(server, -1, status, kolo_error_detail(), true);
        return;
    }
    server->has_world = true;
    server->start_by = KOLO_NEVER;
    broadcast(server, message);
    kolo_message_drop(message);
    if (server->config.events.joined)
        server->config.events.joined(server->config.events.context);
}

static kolo_status admit(struct connection *connection, const struct join *join)
{
    struct kolo_store_server *server = connection->server;
    struct member *member = &server->members[join->rank];
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
    set_member_state(server, join->rank, JOINED);
    if (server->joined_count++ == 0) {
        server->first_join_ns = kolo_now_ns();
        server->start_by = kolo_deadline_in_ms(server->config.start_timeout_ms);
    }
    /* A rank that gives up sooner than the others is told by us whom it waited for. */
    server->start_by =
        kolo_deadline_min(server->start_by, kolo_deadline_in_ms((int64_t)join->timeout_ms));
    due_at(server, server->start_by);
    if (server->joined_count == server->config.size)
        start_world(server);
    return KOLO_OK;
}

static kolo_status on_join(struct connection *connection, struct kolo_reader *body)
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
    if (connection->server->has_failed) {
        reject(connection, connection->server->failed);
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

static kolo_status on_set(struct connection *connection, struct kolo_reader *body)
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
    answer(connection, id, kolo_kv_table_set(connection->server->kv, key, value, bytes), 0, NULL,
           0);
    return KOLO_OK;
}

static kolo_status on_get(struct connection *connection, struct kolo_reader *body)
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
    answer(connection, id, status, 0, value, bytes);
    return KOLO_OK;
}

static kolo_status on_add(struct connection *connection, struct kolo_reader *body)
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
    answer(connection, id, status, sum, NULL, 0);
    return KOLO_OK;
}

static kolo_status on_cancel(struct connection *connection, struct kolo_reader *body)
{
    uint32_t id = kolo_read_u32(body);
    kolo_status status = kolo_reader_finish(body, "CANCEL");
    if (status == KOLO_OK)
        kolo_kv_cancel(connection->server->kv, &connection->waits, id);
    return status;
}

static void fail_mismatch(struct kolo_store_server *server, const struct kolo_stall *other,
                          int rank, const char *words)
{
    int there = kolo_stall_first(other, server->config.size);
    const char *low_words = there < rank ? other->words : words;
    const char *high_words = there < rank ? words : other->words;
    int low = there < rank ? there : rank, high = there < rank ? rank : there;
    char text[KOLO_STORE_TEXT_MAX];
    snprintf(text, sizeof text,
             "rank %d (%s) calls %.400s, sequence %u, but rank %d (%s) calls %.400s, sequence %u",
             low, server->members[low].host, low_words, (unsigned int)other->sequence, high,
             server->members[high].host, high_words, (unsigned int)other->sequence);
    fail_job(server, -1, KOLO_ERR_MISMATCH, text, true);
}

static kolo_status on_stalled(struct connection *connection, struct kolo_reader *body)
{
    struct kolo_store_server *server = connection->server;
    char words[KOLO_STORE_TEXT_MAX] = "";
    struct kolo_desc desc;
    const struct kolo_stall *other = NULL;
    uint32_t channel = kolo_read_u32(body);
    uint32_t sequence = kolo_read_u32(body);
    kolo_read_bytes(body, desc.bytes, sizeof desc.bytes);
    kolo_read_text(body, words, sizeof words);
    kolo_status status = kolo_reader_finish(body, "STALLED");
    if (status != KOLO_OK || server->has_failed)
        return status;
    kolo_text_clean(words);
    status = kolo_stalls_report(server->stalls, connection->rank, channel, sequence, &desc, words,
                                &other);
    if (status == KOLO_ERR_MISMATCH) {
        fail_mismatch(server, other, connection->rank, words);
        return KOLO_OK;
    }
    if (status != KOLO_OK)
        KOLO_WARN("store: cannot compare a stalled call: %s", kolo_error_detail());
    due_at(server, kolo_deadline_in_ms(server->config.stall_warn_ms));
    return KOLO_OK;
}

static kolo_status on_resumed(struct connection *connection, struct kolo_reader *body)
{
    uint32_t channel = kolo_read_u32(body);
    uint32_t sequence = kolo_read_u32(body);
    kolo_status status = kolo_reader_finish(body, "RESUMED");
    if (status == KOLO_OK)
        kolo_stalls_resume(connection->server->stalls, connection->rank, channel, sequence);
    return status;
}

static kolo_status on_abort(struct connection *connection, struct kolo_reader *body)
{
    char text[KOLO_STORE_TEXT_MAX] = "";
    kolo_status why = kolo_status_from_wire(kolo_read_i32(body));
    kolo_read_text(body, text, sizeof text);
    kolo_status status = kolo_reader_finish(body, "ABORT");
    if (status == KOLO_OK)
        fail_job(connection->server, connection->rank, why, text, true);
    return status;
}

/** ERR_LINK: the connection is done with. */
static kolo_status on_leave(struct connection *connection, struct kolo_reader *body)
{
    struct kolo_store_server *server = connection->server;
    int rank = connection->rank;
    struct kolo_writer writer;
    kolo_status status = kolo_reader_finish(body, "LEAVE");
    if (status != KOLO_OK)
        return status;
    if (!server->has_world && !server->has_failed)
        return kolo_fail(KOLO_ERR_PROTOCOL, "LEAVE before the start");
    set_member_state(server, rank, LEFT);
    struct kolo_message *message = kolo_message_create(KOLO_STORE_LEFT, 4, &writer);
    if (message) {
        kolo_write_i32(&writer, rank);
        status = kolo_message_seal(message, &writer);
    }
    for (struct connection *each = server->connections; each; each = each->next) {
        if (each->rank < 0 || each == connection)
            continue;
        if (message && status == KOLO_OK)
            post(each, message);
        else
            break_connection(each);
    }
    kolo_message_drop(message);
    if (server->config.events.left)
        server->config.events.left(server->config.events.context, rank);
    return KOLO_ERR_LINK;
}

typedef kolo_status handle_message(struct connection *connection, struct kolo_reader *body);
static handle_message *const handlers[] = {
    [KOLO_STORE_JOIN] = on_join,       [KOLO_STORE_SET] = on_set,
    [KOLO_STORE_GET] = on_get,         [KOLO_STORE_ADD] = on_add,
    [KOLO_STORE_CANCEL] = on_cancel,   [KOLO_STORE_STALLED] = on_stalled,
    [KOLO_STORE_RESUMED] = on_resumed, [KOLO_STORE_ABORT] = on_abort,
    [KOLO_STORE_LEAVE] = on_leave,
};

/** JOIN comes first and once. */
static kolo_status handle(struct connection *connection, uint8_t type, struct kolo_reader *body)
{
    handle_message *handler = type < sizeof handlers / sizeof handlers[0] ? handlers[type] : NULL;
    if (connection->is_rejected)
        return KOLO_OK;
    if (!handler || (connection->rank < 0) != (type == KOLO_STORE_JOIN))
        return kolo_fail(KOLO_ERR_PROTOCOL, "a message of type %d %s", (int)type,
                         connection->rank < 0 ? "before JOIN" : "is not for a store's server");
    return handler(connection, body);
}

/** Everything whole that is in the buffer. A rank whose answers pile up has to read them first. */
static kolo_status handle_all(struct connection *connection)
{
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
    return KOLO_OK;
}

static kolo_status serve(struct connection *connection)
{
    kolo_status status = kolo_stream_flush(&connection->stream);
    bool has_ended = status != KOLO_OK; /* what it sent before still counts */
    for (int fills = 0;; fills++) {
        status = handle_all(connection);
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

static void connection_ready(struct kolo_watch *watch, uint32_t events)
{
    struct connection *connection = (struct connection *)(void *)watch;
    kolo_status status = serve(connection);
    bool is_stuck = connection->stream.out_bytes >= OUT_BYTES_MAX;
    if (status == KOLO_OK && is_stuck && (events & (EPOLLHUP | EPOLLERR)))
        status = KOLO_ERR_LINK; /* nobody will read them */
    if (status == KOLO_OK) {
        watch_events(connection);
        return;
    }
    if (status != KOLO_ERR_LINK) {
        char name[128] = "a process that has not joined";
        if (connection->rank >= 0)
            name_rank(connection->server, connection->rank, name, sizeof name);
        KOLO_WARN("store: dropping the connection of %s: %s: %s", name, kolo_status_text(status),
                  kolo_error_detail());
    }
    drop_connection(connection);
}

static kolo_status open_connection(struct kolo_store_server *server, int fd)
{
    struct connection *connection = kolo_calloc(1, sizeof *connection);
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
    due_at(server, connection->join_by);
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

/* ---- what the owner calls ---- */

static uint16_t place_port(const struct kolo_place *place)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (place->addr.ss_family == AF_INET) {
        memcpy(&v4, &place->addr, sizeof v4);
        return ntohs(v4.sin_port);
    }
    if (place->addr.ss_family == AF_INET6) {
        memcpy(&v6, &place->addr, sizeof v6);
        return ntohs(v6.sin6_port);
    }
    return 0;
}

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
    if (!server->members)
        goto out;
    KOLO_TRY(kolo_kv_create(KOLO_STORE_TOTAL_MAX, answer_wait, server, &server->kv));
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
    struct kolo_place at;
    if (server->listener_count == LISTENERS_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "store: more than %d places to listen at",
                         LISTENERS_MAX);
    kolo_status status =
        kolo_listener_open(server->poller, place, HANDSHAKE_MS, &server->config.secret, &mine,
                           accepted, server, &listener);
    if (status != KOLO_OK)
        return status;
    server->listeners[server->listener_count++] = listener;
    kolo_listener_place(listener, &at);
    if (port_out)
        *port_out = place_port(&at);
    return KOLO_OK;
}

kolo_status kolo_store_server_adopt(struct kolo_store_server *server, int fd)
{
    return open_connection(server, fd);
}

void kolo_store_server_died(struct kolo_store_server *server, int rank, const char *how)
{
    char name[128], text[KOLO_STORE_TEXT_MAX];
    if (rank < 0 || rank >= server->config.size)
        return;
    enum member_state state = server->members[rank].state;
    if (state == LEFT || state == DEAD)
        return;
    name_rank(server, rank, name, sizeof name);
    snprintf(text, sizeof text, "%s %s", name, how);
    set_member_state(server, rank, DEAD);
    fail_job(server, rank, KOLO_ERR_PEER, text, false);
}

void kolo_store_server_abort(struct kolo_store_server *server, kolo_status why, const char *text)
{
    fail_job(server, -1, why, text, false);
}

static void warn_stall(void *context, const struct kolo_stall *stall)
{
    enum { ROOM_FOR_REST = 96 };
    struct kolo_store_server *server = context;
    char text[KOLO_STORE_TEXT_MAX], waited[32];
    struct words words = {text, sizeof text};
    int missing = 0, named = 0;
    if (server->has_failed || !server->config.events.notice)
        return;
    kolo_duration_format((kolo_now_ns() - stall->since_ns) / 1000000, waited, sizeof waited);
    say(&words, "%.400s sequence %u: waiting for %s; ", stall->words, (unsigned int)stall->sequence,
        waited);
    for (int rank = 0; rank < server->config.size; rank++) {
        const struct member *member = &server->members[rank];
        if (kolo_stall_has(stall, rank))
            continue;
        missing++;
        if (words.left < ROOM_FOR_REST + KOLO_STORE_HOST_MAX)
            continue;
        say(&words, "%srank %d (%s%s)", named++ ? ", " : "not there yet: ", rank, member->host,
            member->state == JOINED ? "" : ", gone");
    }
    if (missing > named)
        say(&words, " and %d more", missing - named);
    if (!missing)
        say(&words, "all ranks are there");
    server->config.events.notice(server->config.events.context, text);
}

static void expire_start(struct kolo_store_server *server)
{
    char text[KOLO_STORE_TEXT_MAX], waited[32];
    struct words words = {text, sizeof text};
    if (!kolo_deadline_passed(server->start_by))
        return;
    kolo_duration_format((server->start_by - server->first_join_ns) / 1000000, waited,
                         sizeof waited);
    say_absent(server, &words);
    say(&words, " of %d did not start within %s", server->config.size, waited);
    fail_job(server, -1, KOLO_ERR_TIMEOUT, text, true);
}

static void expire_verdicts(struct kolo_store_server *server)
{
    for (int rank = 0; rank < server->config.size && !server->has_failed; rank++) {
        char name[128], text[KOLO_STORE_TEXT_MAX];
        struct member *member = &server->members[rank];
        if (member->state != LOST)
            continue;
        if (!kolo_deadline_passed(member->verdict_by)) {
            due_at(server, member->verdict_by);
            continue;
        }
        name_rank(server, rank, name, sizeof name);
        snprintf(text, sizeof text, "%s lost its connection", name);
        set_member_state(server, rank, DEAD);
        fail_job(server, rank, KOLO_ERR_PEER, text, true);
    }
}

static void expire_connections(struct kolo_store_server *server)
{
    struct connection *next;
    for (struct connection *each = server->connections; each; each = next) {
        next = each->next;
        if (kolo_deadline_passed(each->join_by))
            drop_connection(each);
        else
            due_at(server, each->join_by);
    }
}

kolo_deadline kolo_store_server_expire(struct kolo_store_server *server)
{
    kolo_deadline conns = kolo_conn_expire(server->poller);
    if (kolo_deadline_passed(server->due)) {
        server->due = KOLO_NEVER;
        expire_start(server);
        due_at(server, server->start_by);
        expire_verdicts(server);
        expire_connections(server);
        due_at(server, kolo_stalls_expire(server->stalls, warn_stall, server));
    }
    return kolo_deadline_min(conns, server->due);
}

int kolo_store_server_connected(const struct kolo_store_server *server)
{
    int count = 0;
    for (const struct connection *each = server->connections; each; each = each->next)
        count += each->rank >= 0;
    return count;
}

void kolo_store_server_destroy(struct kolo_store_server *server)
{
    if (!server)
        return;
    for (size_t i = 0; i < server->listener_count; i++)
        kolo_listener_close(server->listeners[i]);
    server->has_failed = true; /* what is lost from here on is not news */
    while (server->connections)
        drop_connection(server->connections);
    for (int rank = 0; server->members && rank < server->config.size; rank++)
        kolo_free_memory(server->members[rank].peer);
    kolo_free_memory(server->members);
    kolo_message_drop(server->failed);
    kolo_kv_destroy(server->kv);
    kolo_stalls_destroy(server->stalls);
    kolo_free_memory(server);
}
