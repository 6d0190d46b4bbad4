// SPDX-License-Identifier: Apache-2.0
// Shrinks: the ranks of a communicator that has failed ask, each for itself, which of them survive.
//
// They all get the same answer at the same time, as soon as every member has asked, finalized the
// communicator, left or died. So a rank that dies while the others wait is one survivor less, and
// no rank waits for it. If two ranks that asked report that they cannot reach each other, one of
// them is left out and gets an error. Must never answer some and keep others waiting: every rank
// that has asked when the answer is sent is in the new communicator.
//
// Which members have finalized a communicator is kept until all of its members have, or are gone.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/store_server.h"

/** A rank that waits for the answer. */
struct arrival {
    int rank;
    uint32_t id;
    kolo_deadline until;
    struct arrival *next;
    uint8_t lost[]; /* ranks that it can no longer reach */
};

struct kolo_shrink {
    uint32_t number; /* number of the communicator that failed */
    uint8_t *members;
    uint8_t *asked; /* those that have asked, also if their time is over */
    struct arrival *arrivals;
    int64_t since_ns;      /* when the first of them came */
    int64_t warn_every_ms; /* doubles with each warning */
    kolo_deadline warn_at;
    struct kolo_shrink *next;
};

static bool has_bit(const uint8_t *bits, int rank)
{
    return (bits[rank / 8] >> (rank % 8)) & 1;
}

static void set_bit(uint8_t *bits, int rank)
{
    bits[rank / 8] = (uint8_t)(bits[rank / 8] | 1 << (rank % 8));
}

static void clear_bit(uint8_t *bits, int rank)
{
    bits[rank / 8] = (uint8_t)(bits[rank / 8] & ~(1 << (rank % 8)));
}

static bool has_arrived(const struct kolo_shrink *shrink, int rank)
{
    const struct arrival *arrival = shrink->arrivals;
    while (arrival && arrival->rank != rank)
        arrival = arrival->next;
    return arrival != NULL;
}

static bool is_gone(const struct kolo_store_server *server, int rank)
{
    enum kolo_member_state state = server->members[rank].state;
    return state == MEMBER_LEFT || state == MEMBER_DEAD;
}

/* ---- finalized communicators ---- */

/* The most communicators that are kept. If there are more, a rank that shrinks one of the others
 * waits until its deadline. */
enum { RETIRED_MAX = 4096 };

/** A communicator that some members have finalized, a bit each. */
struct retired {
    uint32_t number;
    uint8_t *members, *finalized;
};

static void free_retired(struct retired *retired)
{
    kolo_free_memory(retired->members);
    kolo_free_memory(retired->finalized);
    kolo_free_memory(retired);
}

static bool has_finalized(const struct kolo_store_server *server, uint32_t number, int rank)
{
    const struct retired *retired = kolo_map_get(&server->retired, number);
    return retired && has_bit(retired->finalized, rank);
}

/** Whether some member may still ask to shrink it. */
static bool is_wanted(const struct kolo_store_server *server, const struct retired *retired)
{
    for (int rank = 0; rank < server->config.size; rank++)
        if (has_bit(retired->members, rank) && !has_bit(retired->finalized, rank) &&
            !is_gone(server, rank))
            return true;
    return false;
}

/** Forgets the communicator if no member may still ask. */
static bool forget(struct kolo_store_server *server, struct retired *retired)
{
    if (is_wanted(server, retired))
        return false;
    kolo_map_remove(&server->retired, retired->number);
    free_retired(retired);
    return true;
}

/** A rank has gone: forgets the communicators that no other rank can ask for. */
static void forget_all(struct kolo_store_server *server)
{
    uint32_t cursor = 0;
    struct retired *retired;
    while ((retired = kolo_map_next(&server->retired, &cursor)) != NULL)
        if (forget(server, retired))
            cursor = 0;
}

static struct retired *add_retired(struct kolo_store_server *server, uint32_t number,
                                   const uint8_t *members)
{
    size_t bytes = kolo_stall_bits_bytes(server->config.size);
    struct retired *retired =
        server->retired.count < RETIRED_MAX ? kolo_calloc(1, sizeof *retired) : NULL;
    if (!retired)
        return NULL;
    retired->number = number;
    retired->members = kolo_calloc(bytes, 1);
    retired->finalized = kolo_calloc(bytes, 1);
    if (!retired->members || !retired->finalized ||
        kolo_map_put(&server->retired, number, retired) != KOLO_OK) {
        free_retired(retired);
        return NULL;
    }
    memcpy(retired->members, members, bytes);
    return retired;
}

/* ---- arrivals ---- */

static bool may_come(const struct kolo_store_server *server, const struct kolo_shrink *shrink,
                     int rank)
{
    return has_bit(shrink->members, rank) && !is_gone(server, rank) && !has_arrived(shrink, rank) &&
           !has_finalized(server, shrink->number, rank);
}

/** Finds a member that may still ask, or -1. Prefers one that never asked to one that asked and
 * gave up. */
static int find_missing(const struct kolo_store_server *server, const struct kolo_shrink *shrink)
{
    int waited = -1;
    for (int rank = 0; rank < server->config.size; rank++) {
        if (!may_come(server, shrink, rank))
            continue;
        if (!has_bit(shrink->asked, rank))
            return rank;
        if (waited < 0)
            waited = rank;
    }
    return waited;
}

static void free_shrink(struct kolo_shrink *shrink)
{
    while (shrink->arrivals) {
        struct arrival *arrival = shrink->arrivals;
        shrink->arrivals = arrival->next;
        kolo_free_memory(arrival);
    }
    kolo_free_memory(shrink->members);
    kolo_free_memory(shrink->asked);
    kolo_free_memory(shrink);
}

/** Removes the arrivals of @p rank: the one with @p id, or all (0). */
static void take_out(struct kolo_shrink *shrink, int rank, uint32_t id)
{
    struct arrival **link = &shrink->arrivals;
    while (*link) {
        struct arrival *arrival = *link;
        if (arrival->rank != rank || (id != 0 && arrival->id != id)) {
            link = &arrival->next;
            continue;
        }
        *link = arrival->next;
        kolo_free_memory(arrival);
    }
}

/* ---- ranks that cannot reach each other ---- */

/** The ranks that survive, and from how many of the others each is cut off, as it or they
 * report. */
struct choice {
    int size;
    int *cuts;
    uint8_t *survivors;
};

/** Adds (@p by 1) or removes (@p by -1) what @p arrival reports about survivors. */
static void count_cuts(struct choice *choice, const struct arrival *arrival, int by)
{
    for (int rank = 0; rank < choice->size; rank++) {
        if (!has_bit(arrival->lost, rank) || !has_bit(choice->survivors, rank))
            continue;
        choice->cuts[rank] += by;
        choice->cuts[arrival->rank] += by;
    }
}

/** The survivor that is cut off from the most others; of equals, the highest rank. -1: none is cut
 * off. */
static int most_cut_off(const struct choice *choice)
{
    int most = -1;
    for (int rank = 0; rank < choice->size; rank++)
        if (choice->cuts[rank] > 0 && (most < 0 || choice->cuts[rank] >= choice->cuts[most]))
            most = rank;
    return most;
}

static void leave_out(struct choice *choice, const struct kolo_shrink *shrink, int rank)
{
    for (const struct arrival *at = shrink->arrivals; at; at = at->next) {
        if (at->rank == rank)
            count_cuts(choice, at, -1);
        else if (has_bit(choice->survivors, at->rank) && has_bit(at->lost, rank))
            choice->cuts[at->rank]--;
    }
    choice->cuts[rank] = 0;
    clear_bit(choice->survivors, rank);
}

/** Chooses the survivors: all that asked, except for a few that are left out so that the rest can
 * reach each other. */
static void choose(struct choice *choice, const struct kolo_shrink *shrink)
{
    int rank;
    for (const struct arrival *at = shrink->arrivals; at; at = at->next)
        set_bit(choice->survivors, at->rank);
    for (const struct arrival *at = shrink->arrivals; at; at = at->next)
        count_cuts(choice, at, 1);
    while ((rank = most_cut_off(choice)) >= 0)
        leave_out(choice, shrink, rank);
}

/** Finds a rank that asked and that @p of cannot reach, preferably a survivor. There is at least
 * one. */
static int find_cut(const struct choice *choice, const struct kolo_shrink *shrink,
                    const struct arrival *of)
{
    int found = -1;
    for (const struct arrival *at = shrink->arrivals; at; at = at->next)
        if ((has_bit(of->lost, at->rank) || has_bit(at->lost, of->rank)) &&
            (found < 0 || has_bit(choice->survivors, at->rank)))
            found = at->rank;
    return found;
}

static kolo_status refuse_cut_off(const struct kolo_store_server *server, int rank, int other)
{
    char name[KOLO_SERVER_NAME_MAX], others[KOLO_SERVER_NAME_MAX];
    kolo_server_name(server, rank, name);
    kolo_server_name(server, other, others);
    return kolo_fail(KOLO_ERR_PEER,
                     "%s, this process, and %s cannot reach each other any more, though both live: "
                     "the others go on without this one",
                     name, others);
}

static void answer_one(const struct kolo_store_server *server, const struct kolo_shrink *shrink,
                       const struct choice *choice, const struct arrival *arrival, int64_t number)
{
    struct kolo_store_connection *connection = server->members[arrival->rank].connection;
    kolo_status status = KOLO_OK;
    if (!has_bit(choice->survivors, arrival->rank))
        status = refuse_cut_off(server, arrival->rank, find_cut(choice, shrink, arrival));
    kolo_server_answer(connection, arrival->id, status, number, choice->survivors,
                       kolo_stall_bits_bytes(choice->size));
}

static void answer_all(struct kolo_store_server *server, const struct kolo_shrink *shrink)
{
    struct choice choice = {.size = server->config.size};
    int64_t number = 0;
    kolo_status status = kolo_kv_table_add(server->kv, KOLO_STORE_NUMBERS_KEY, 1, &number);
    if (status == KOLO_OK) {
        choice.cuts = kolo_calloc((size_t)choice.size, sizeof *choice.cuts);
        choice.survivors = kolo_calloc(kolo_stall_bits_bytes(choice.size), 1);
        status = choice.cuts && choice.survivors ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    }
    if (status == KOLO_OK)
        choose(&choice, shrink);
    for (const struct arrival *at = shrink->arrivals; at; at = at->next)
        if (status == KOLO_OK)
            answer_one(server, shrink, &choice, at, number);
        else
            kolo_server_answer(server->members[at->rank].connection, at->id, status, 0, NULL, 0);
    kolo_free_memory(choice.cuts);
    kolo_free_memory(choice.survivors);
}

/** Answers the shrinks that are complete. Called after every change by which one may become
 * complete, so each that has arrivals afterwards also lacks a member. */
static void look(struct kolo_store_server *server)
{
    struct kolo_shrink **link = &server->shrinks;
    while (*link) {
        struct kolo_shrink *shrink = *link;
        if (shrink->arrivals && find_missing(server, shrink) >= 0) {
            link = &shrink->next;
            continue;
        }
        *link = shrink->next;
        if (shrink->arrivals)
            answer_all(server, shrink);
        free_shrink(shrink);
    }
}

static struct kolo_shrink *find_or_add(struct kolo_store_server *server, uint32_t number,
                                       const uint8_t *members)
{
    size_t bytes = kolo_stall_bits_bytes(server->config.size);
    struct kolo_shrink *shrink = server->shrinks;
    while (shrink && shrink->number != number)
        shrink = shrink->next;
    if (shrink)
        return shrink;
    shrink = kolo_calloc(1, sizeof *shrink);
    if (!shrink)
        return NULL;
    shrink->number = number;
    shrink->members = kolo_calloc(bytes, 1);
    shrink->asked = kolo_calloc(bytes, 1);
    if (!shrink->members || !shrink->asked) {
        free_shrink(shrink);
        return NULL;
    }
    memcpy(shrink->members, members, bytes);
    shrink->next = server->shrinks;
    server->shrinks = shrink;
    return shrink;
}

/** A rank that counts as dead (because its host was lost, for example) may still send messages: it
 * is not a survivor. */
static kolo_status refuse_lost(const struct kolo_store_server *server, int rank)
{
    char name[KOLO_SERVER_NAME_MAX];
    kolo_server_name(server, rank, name);
    return kolo_fail(KOLO_ERR_PEER, "%s, this process, counts as lost: the others go on without it",
                     name);
}

/** The first rank waits. */
static void begin_wait(struct kolo_store_server *server, struct kolo_shrink *shrink)
{
    shrink->since_ns = kolo_now_ns();
    shrink->warn_every_ms = server->config.stall_warn_ms;
    shrink->warn_at = kolo_deadline_in_ms(shrink->warn_every_ms);
    kolo_server_due_at(server, shrink->warn_at);
}

static kolo_status add_arrival(struct kolo_store_connection *connection, uint32_t id,
                               uint32_t number, const uint8_t *members, const uint8_t *lost,
                               uint32_t timeout_ms)
{
    struct kolo_store_server *server = connection->server;
    size_t bytes = kolo_stall_bits_bytes(server->config.size);
    if (is_gone(server, connection->rank))
        return refuse_lost(server, connection->rank);
    struct kolo_shrink *shrink = find_or_add(server, number, members);
    if (!shrink)
        return KOLO_ERR_NO_MEMORY;
    if (memcmp(shrink->members, members, bytes) != 0 || has_arrived(shrink, connection->rank))
        return kolo_fail(KOLO_ERR_INVALID, "ranks differ in who is in communicator %u",
                         (unsigned int)number);
    struct arrival *arrival = kolo_calloc(1, sizeof *arrival + bytes);
    if (!arrival)
        return KOLO_ERR_NO_MEMORY;
    arrival->rank = connection->rank;
    arrival->id = id;
    arrival->until = kolo_deadline_in_ms((int64_t)timeout_ms);
    if (!shrink->arrivals)
        begin_wait(server, shrink);
    arrival->next = shrink->arrivals;
    memcpy(arrival->lost, lost, bytes);
    shrink->arrivals = arrival;
    set_bit(shrink->asked, connection->rank);
    kolo_server_due_at(server, arrival->until);
    return KOLO_OK;
}

kolo_status kolo_server_shrink(struct kolo_store_connection *connection, struct kolo_reader *body)
{
    struct kolo_store_server *server = connection->server;
    size_t bytes = 0, lost_bytes = 0;
    uint32_t id = kolo_read_u32(body);
    uint32_t number = kolo_read_u32(body);
    uint32_t timeout_ms = kolo_read_u32(body);
    const uint8_t *members = kolo_read_blob(body, &bytes);
    const uint8_t *lost = kolo_read_blob(body, &lost_bytes);
    kolo_status status = kolo_reader_finish(body, "SHRINK");
    if (status != KOLO_OK)
        return status;
    if (bytes != kolo_stall_bits_bytes(server->config.size) || lost_bytes != bytes ||
        !has_bit(members, connection->rank) || has_bit(lost, connection->rank) || id == 0)
        return kolo_fail(KOLO_ERR_PROTOCOL, "SHRINK with %zu bytes of members, %zu of lost ones",
                         bytes, lost_bytes);
    status = add_arrival(connection, id, number, members, lost, timeout_ms);
    if (status != KOLO_OK)
        kolo_server_answer(connection, id, status, 0, NULL, 0);
    look(server);
    return KOLO_OK;
}

kolo_status kolo_server_finalized(struct kolo_store_connection *connection,
                                  struct kolo_reader *body)
{
    struct kolo_store_server *server = connection->server;
    size_t bytes = 0;
    uint32_t number = kolo_read_u32(body);
    const uint8_t *members = kolo_read_blob(body, &bytes);
    kolo_status status = kolo_reader_finish(body, "FINALIZED");
    if (status != KOLO_OK)
        return status;
    if (bytes != kolo_stall_bits_bytes(server->config.size) ||
        !has_bit(members, connection->rank) || number == 0)
        return kolo_fail(KOLO_ERR_PROTOCOL, "FINALIZED %u with %zu bytes of members",
                         (unsigned int)number, bytes);
    struct retired *retired = kolo_map_get(&server->retired, number);
    if (!retired)
        retired = add_retired(server, number, members);
    if (!retired)
        return KOLO_OK; /* ranks that wait for this one have a deadline */
    set_bit(retired->finalized, connection->rank);
    look(server);
    (void)forget(server, retired);
    return KOLO_OK;
}

void kolo_server_shrink_forget(struct kolo_store_server *server, int rank, uint32_t id)
{
    forget_all(server);
    for (struct kolo_shrink *shrink = server->shrinks; shrink; shrink = shrink->next)
        take_out(shrink, rank, id);
    look(server);
}

/** Finds an arrival whose deadline has passed. */
static struct arrival *find_expired(struct kolo_store_server *server, struct kolo_shrink *shrink)
{
    for (struct arrival *arrival = shrink->arrivals; arrival; arrival = arrival->next) {
        if (kolo_deadline_passed(arrival->until))
            return arrival;
        kolo_server_due_at(server, arrival->until);
    }
    return NULL;
}

/** Names some of the ranks that have not come. */
static void warn(const struct kolo_store_server *server, const struct kolo_shrink *shrink)
{
    enum { NAMED_MAX = 4 };
    char text[KOLO_STORE_TEXT_MAX], name[KOLO_SERVER_NAME_MAX], waited[32];
    int named = 0, more = 0;
    kolo_duration_format((kolo_now_ns() - shrink->since_ns) / KOLO_NS_PER_MS, waited,
                         sizeof waited);
    snprintf(text, sizeof text, "kolo_shrink: waiting for %s; " KOLO_STORE_ABSENT, waited);
    for (int rank = 0; rank < server->config.size; rank++) {
        const size_t used = strlen(text);
        if (!may_come(server, shrink, rank))
            continue;
        kolo_server_name(server, rank, name);
        if (named < NAMED_MAX)
            snprintf(text + used, sizeof text - used, "%s%s", named++ ? ", " : "", name);
        else
            more++;
    }
    const size_t used = strlen(text);
    if (more > 0)
        snprintf(text + used, sizeof text - used, " and %d more", more);
    server->config.events.notice(server->config.events.context, text);
}

static void expire_warnings(struct kolo_store_server *server)
{
    for (struct kolo_shrink *shrink = server->shrinks; shrink; shrink = shrink->next) {
        if (!shrink->arrivals || server->has_failed || !server->config.events.notice)
            continue;
        if (kolo_deadline_passed(shrink->warn_at)) {
            warn(server, shrink);
            shrink->warn_every_ms *= 2;
            shrink->warn_at = kolo_deadline_in_ms(shrink->warn_every_ms);
        }
        kolo_server_due_at(server, shrink->warn_at);
    }
}

void kolo_server_shrink_view(const struct kolo_store_server *server, struct kolo_store_view *views)
{
    for (const struct kolo_shrink *shrink = server->shrinks; shrink; shrink = shrink->next) {
        for (const struct arrival *at = shrink->arrivals; at; at = at->next) {
            struct kolo_store_view *view = &views[at->rank];
            view->call = shrink;
            view->since_ns = shrink->since_ns;
            view->own = KOLO_OWN_NONE;
            snprintf(view->words, sizeof view->words, "kolo_shrink");
        }
        for (int rank = 0; rank < server->config.size && shrink->arrivals; rank++)
            views[rank].is_awaited = views[rank].is_awaited || may_come(server, shrink, rank);
    }
}

void kolo_server_shrink_expire(struct kolo_store_server *server)
{
    for (struct kolo_shrink *shrink = server->shrinks; shrink; shrink = shrink->next) {
        struct arrival *arrival;
        while ((arrival = find_expired(server, shrink)) != NULL) {
            char name[KOLO_SERVER_NAME_MAX];
            /* there is one: if nobody were missing, look() would have answered */
            int rank = arrival->rank, missing = find_missing(server, shrink);
            kolo_server_name(server, missing, name);
            kolo_fail(KOLO_ERR_TIMEOUT, "%s %s", name,
                      has_bit(shrink->asked, missing) ? "has given up" : "has not come");
            kolo_server_answer(server->members[rank].connection, arrival->id, KOLO_ERR_TIMEOUT, 0,
                               NULL, 0);
            take_out(shrink, rank, 0);
        }
    }
    look(server);
    expire_warnings(server);
}

void kolo_server_shrink_end(struct kolo_store_server *server)
{
    uint32_t cursor = 0;
    struct retired *retired;
    while ((retired = kolo_map_next(&server->retired, &cursor)) != NULL)
        free_retired(retired);
    kolo_map_fini(&server->retired);
    while (server->shrinks) {
        struct kolo_shrink *shrink = server->shrinks;
        server->shrinks = shrink->next;
        free_shrink(shrink);
    }
}
