// SPDX-License-Identifier: Apache-2.0
// The deadlines of the server: the end of the start, the end of the wait for a verdict, and
// warnings of stalls that have lasted.
#include "runtime/store_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "transport/conn.h"

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

/** Writes the ranks that have not joined, in short form: "rank 3" or "ranks 3, 5-7". */
static void say_absent(const struct kolo_store_server *server, struct words *words)
{
    enum { ROOM_FOR_REST = 96 };
    int size = server->config.size;
    say(words, size - server->joined_count == 1 ? "rank " : "ranks ");
    const char *comma = "";
    for (int rank = 0; rank < size; rank++) {
        int last = rank;
        if (server->members[rank].state != MEMBER_ABSENT)
            continue;
        while (last + 1 < size && server->members[last + 1].state == MEMBER_ABSENT)
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

static void say_call(struct words *words, const struct kolo_stall *stall)
{
    char text[KOLO_STORE_CALL_MAX];
    kolo_stall_text(stall, text, sizeof text);
    say(words, "%s", text);
}

/** Writes "rank 3 (host3)", and the call in which that rank waits itself, and for what if not for
 * other ranks. */
static void say_missing(const struct kolo_store_server *server, struct words *words, int rank)
{
    const struct kolo_store_member *member = &server->members[rank];
    const struct kolo_stall *own = kolo_stalls_of(server->stalls, rank);
    say(words, "rank %d (%s%s", rank, member->host, member->state == MEMBER_JOINED ? "" : ", gone");
    if (own) {
        say(words, ", in ");
        say_call(words, own);
        if (kolo_stall_own(own, rank) != KOLO_OWN_NONE)
            say(words, ", waiting for %s", kolo_own_text(kolo_stall_own(own, rank)));
    }
    say(words, ")");
}

/** Whether there is room for that, and for what follows. */
static bool has_room(const struct kolo_store_server *server, const struct words *words, int rank)
{
    enum { REST = 192 + KOLO_STORE_HOST_MAX, AROUND = 24 };
    char call[KOLO_STORE_CALL_MAX] = "";
    const struct kolo_stall *own = kolo_stalls_of(server->stalls, rank);
    size_t more = 0;
    if (own) {
        kolo_stall_text(own, call, sizeof call);
        more = strlen(call) + strlen(kolo_own_text(kolo_stall_own(own, rank))) + AROUND;
    }
    return words->left >= REST + KOLO_STORE_HOST_MAX + more;
}

/** Writes the ranks that the call needs and that do not wait in it: if @p past those that have
 * already completed it, else those that have not come. Returns their number. */
static int say_others(const struct kolo_store_server *server, struct words *words,
                      const struct kolo_stall *stall, bool past, const char *title)
{
    int missing = 0, named = 0;
    for (int rank = 0; rank < server->config.size; rank++) {
        if (kolo_stall_has(stall, rank) || !kolo_stall_awaits(stall, rank) ||
            kolo_stalls_is_past(server->stalls, stall, rank) != past)
            continue;
        missing++;
        if (!has_room(server, words, rank))
            continue;
        say(words, "%s", named++ ? ", " : title);
        say_missing(server, words, rank);
    }
    if (named == 0 && missing > 0)
        say(words, "%s%d rank%s", title, missing, missing == 1 ? "" : "s");
    else if (missing > named)
        say(words, " and %d more", missing - named);
    return missing;
}

/** If some ranks have completed the call, no rank is late: what is sent to those that wait has not
 * arrived. */
static void say_way(const struct kolo_store_server *server, struct words *words,
                    const struct kolo_stall *stall)
{
    const int first = kolo_stall_first(stall, server->config.size);
    say(words, ": what is sent to rank %d (%s)", first, server->members[first].host);
    if (stall->count > 1)
        say(words, " and %d more", stall->count - 1);
    say(words, " is slow, or lost on the way");
}

/** Writes which @p count ranks wait in the call for @p own, the lowest by name, but not @p told. */
static void say_own(const struct kolo_store_server *server, struct words *words,
                    const struct kolo_stall *stall, enum kolo_own_wait own, int count, int told)
{
    enum { NAMED_MAX = 4 };
    int named = 0;
    for (int rank = 0; rank < server->config.size && named < count && named < NAMED_MAX; rank++)
        if (rank != told && kolo_stall_own(stall, rank) == own)
            say(words, "%srank %d (%s)", named++ ? ", " : "", rank, server->members[rank].host);
    if (count > named)
        say(words, " and %d more", count - named);
    say(words, count == 1 ? " waits for %s" : " wait, each for %s", kolo_own_text(own));
}

/** Writes all that ranks in the call wait for themselves, but not what rank @p told does. Returns
 * the number of those ranks. */
static int say_all_own(const struct kolo_store_server *server, struct words *words,
                       const struct kolo_stall *stall, int told)
{
    int all = 0;
    for (enum kolo_own_wait own = KOLO_OWN_NONE + 1; own < KOLO_OWN_WAITS; own++) {
        const int count = kolo_stall_count_own(stall, own) - (kolo_stall_own(stall, told) == own);
        if (count == 0)
            continue;
        say(words, "%s", all > 0 ? "; " : "");
        say_own(server, words, stall, own, count, told);
        all += count;
    }
    return all;
}

/** Writes what holds up a call of several ranks: what ranks in it wait for themselves, but not of
 * rank @p told, which has said so; which ranks have not come to it, or have already completed it.
 */
static void say_why(const struct kolo_store_server *server, struct words *words,
                    const struct kolo_stall *stall, int told)
{
    const int own = say_all_own(server, words, stall, told);
    const int missing =
        say_others(server, words, stall, false, own ? "; " KOLO_STORE_ABSENT : KOLO_STORE_ABSENT);
    const int past =
        say_others(server, words, stall, true, own || missing ? "; over on " : "over on ");
    if (own || kolo_stall_own(stall, told) != KOLO_OWN_NONE)
        return;
    if (past)
        say_way(server, words, stall);
    else if (!missing && stall->count == 1)
        say(words, "rank %d is in it and waits for no other",
            kolo_stall_first(stall, server->config.size));
    else if (!missing)
        say(words,
            "the %d ranks in it wait only for each other: what they send is slow or does not "
            "arrive",
            stall->count);
}

void kolo_server_say_absent(const struct kolo_store_server *server, int rank, uint32_t scope,
                            char text[KOLO_STORE_TEXT_MAX])
{
    const size_t used = strlen(text);
    struct words words = {text + used, KOLO_STORE_TEXT_MAX - used};
    const struct kolo_stall *stall =
        rank >= 0 ? kolo_stalls_find(server->stalls, rank, scope & ~KOLO_STORE_UNMET, text) : NULL;
    if (!stall)
        return;
    say(&words, "; ");
    const char *const begin = words.at;
    say_why(server, &words, stall, rank);
    if (words.at == begin)
        text[used] = '\0';
}

/** Writes how many more ranks wait for the same peer, or, if @p is_own, for what is their own. */
static void say_behind(struct words *words, int behind, bool is_own)
{
    if (behind > 0 && is_own)
        say(words, "; %d more rank%s for work of %s", behind, behind == 1 ? " waits" : "s wait",
            behind == 1 ? "its device" : "their devices");
    else if (behind > 0)
        say(words, "; %d more rank%s for a message of it", behind,
            behind == 1 ? " waits" : "s wait");
}

/** Writes why a call stalls that is one rank's: a message, or a call that has not begun. */
static void say_of_one(const struct kolo_store_server *server, struct words *words,
                       const struct kolo_stall *stall, const char *waited, int behind)
{
    const int rank = kolo_stall_first(stall, server->config.size);
    const enum kolo_own_wait own = kolo_stall_own(stall, rank);
    say(words, " on rank %d (%s): waiting for %s", rank, server->members[rank].host, waited);
    if (own != KOLO_OWN_NONE) {
        say(words, " for %s", kolo_own_text(own));
    } else {
        say(words, "; ");
        say_why(server, words, stall, -1);
    }
    say_behind(words, behind, own != KOLO_OWN_NONE);
}

static void warn_stall(void *context, const struct kolo_stall *stall)
{
    struct kolo_store_server *server = context;
    char text[KOLO_STORE_TEXT_MAX], waited[32];
    struct words words = {text, sizeof text};
    const bool is_of_one = kolo_stall_is_message(stall);
    const int behind = is_of_one ? kolo_stalls_behind(server->stalls, stall) : 0;
    if (server->has_failed || !server->config.events.notice || behind < 0)
        return;
    kolo_duration_format((kolo_now_ns() - stall->since_ns) / KOLO_NS_PER_MS, waited, sizeof waited);
    say_call(&words, stall);
    if (is_of_one) {
        say_of_one(server, &words, stall, waited, behind);
    } else {
        say(&words, ": waiting for %s; ", waited);
        say_why(server, &words, stall, -1);
    }
    server->config.events.notice(server->config.events.context, text);
}

/** A missing rank may have come with another secret, or have been kept out by many strangers, or by
 * a lack of descriptors, of which it is enough to hear from one listener. */
static void say_dropped(const struct kolo_store_server *server, struct words *words)
{
    char text[320];
    uint64_t strangers = 0;
    for (size_t i = 0; i < server->listener_count; i++) {
        strangers += kolo_listener_strangers(server->listeners[i]);
        if (kolo_listener_explain(server->listeners[i], text, sizeof text))
            say(words, "; %s", text);
    }
    if (strangers >= KOLO_LISTENER_PENDING_MAX)
        say(words, "; %llu connections that did not prove themselves were dropped meanwhile",
            (unsigned long long)strangers);
    for (size_t i = 0; i < server->listener_count; i++)
        if (kolo_listener_explain_lack(server->listeners[i], text, sizeof text)) {
            say(words, "; %s", text);
            break;
        }
}

/** Writes where the ranks were started that have not joined, as far as the owner knows. */
static void say_started(const struct kolo_store_server *server, struct words *words)
{
    enum { NAMED_MAX = 4 };
    const struct kolo_store_server_events *events = &server->config.events;
    int named = 0, more = 0;
    for (int rank = 0; rank < server->config.size && events->started; rank++) {
        const char *host = NULL;
        uint32_t pid = 0;
        if (server->members[rank].state != MEMBER_ABSENT ||
            !events->started(events->context, rank, &host, &pid))
            continue;
        if (named == NAMED_MAX)
            more++;
        else if (named++ == 0)
            say(words, "; %s started rank %d as pid %u on %.64s", server->config.owner, rank,
                (unsigned int)pid, host);
        else
            say(words, ", rank %d as pid %u on %.64s", rank, (unsigned int)pid, host);
    }
    if (more > 0)
        say(words, ", and %d more", more);
}

static void expire_start(struct kolo_store_server *server)
{
    char text[KOLO_STORE_TEXT_MAX], waited[32];
    struct words words = {text, sizeof text};
    if (!kolo_deadline_passed(server->start_by))
        return;
    kolo_duration_format((server->start_by - server->first_join_ns) / KOLO_NS_PER_MS, waited,
                         sizeof waited);
    say_absent(server, &words);
    say(&words, " of %d did not start within %s", server->config.size, waited);
    say_started(server, &words);
    say_dropped(server, &words);
    kolo_server_fail(server, -1, KOLO_STORE_JOB, KOLO_ERR_TIMEOUT, text, true);
}

/** Logs now and then which ranks a long start is waiting for. */
static void tell_start(struct kolo_store_server *server)
{
    char text[KOLO_STORE_TEXT_MAX];
    struct words words = {text, sizeof text};
    bool is_start = server->joined_count > 0 && !server->has_world && !server->has_failed;
    if (!is_start || !kolo_log_on(KOLO_LOG_DEBUG))
        return;
    if (kolo_deadline_passed(server->tell_by)) {
        say_absent(server, &words);
        KOLO_DEBUG("store: %d of %d ranks have joined; waiting for %s", server->joined_count,
                   server->config.size, text);
        server->tell_by = kolo_deadline_in_ms(TELL_EVERY_MS);
    }
    kolo_server_due_at(server, server->tell_by);
}

static void expire_verdicts(struct kolo_store_server *server)
{
    for (int rank = 0; rank < server->config.size && !server->has_failed; rank++) {
        char name[KOLO_SERVER_NAME_MAX], text[KOLO_STORE_TEXT_MAX];
        struct kolo_store_member *member = &server->members[rank];
        if (member->state != MEMBER_LOST)
            continue;
        if (!kolo_deadline_passed(member->verdict_by)) {
            kolo_server_due_at(server, member->verdict_by);
            continue;
        }
        kolo_server_name(server, rank, name);
        snprintf(text, sizeof text, "%s lost its connection", name);
        kolo_server_set_state(server, rank, MEMBER_DEAD);
        kolo_server_fail(server, rank, KOLO_STORE_RANK, KOLO_ERR_PEER, text, true);
    }
}

void kolo_server_expire_own(struct kolo_store_server *server)
{
    expire_start(server);
    kolo_server_due_at(server, server->start_by);
    tell_start(server);
    expire_verdicts(server);
    kolo_server_shrink_expire(server);
    kolo_server_due_at(server, kolo_stalls_expire(server->stalls, warn_stall, server));
}
