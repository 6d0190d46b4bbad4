// SPDX-License-Identifier: Apache-2.0
// Owns the list of stalls. Two descriptions at the same (channel, sequence) are a mismatch. Two
// sequence numbers on one channel are not, since one rank may be behind; and each rank numbers its
// messages by itself. The ranks that each rank waits for are kept separately, since one rank may
// still need what another no longer needs. Must never know a connection or a name.
#include "runtime/store_stall.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct kolo_stalls {
    int size;
    int64_t warn_ms;
    struct kolo_stall *first;
    uint16_t *per_rank; /* number of stalls in which each rank waits */
};

kolo_status kolo_stalls_create(int size, int64_t warn_ms, struct kolo_stalls **stalls_out)
{
    struct kolo_stalls *stalls = kolo_calloc(1, sizeof *stalls);
    if (!stalls)
        return KOLO_ERR_NO_MEMORY;
    stalls->size = size;
    stalls->warn_ms = warn_ms > 0 ? warn_ms : 1;
    stalls->per_rank = kolo_calloc((size_t)size, sizeof *stalls->per_rank);
    if (!stalls->per_rank) {
        kolo_free_memory(stalls);
        return KOLO_ERR_NO_MEMORY;
    }
    *stalls_out = stalls;
    return KOLO_OK;
}

static void free_stall(struct kolo_stall *stall)
{
    kolo_free_memory(stall->words);
    kolo_free_memory(stall->ranks);
    while (stall->waits) {
        struct kolo_stall_wait *wait = stall->waits;
        stall->waits = wait->next;
        kolo_free_memory(wait);
    }
    kolo_free_memory(stall);
}

void kolo_stalls_destroy(struct kolo_stalls *stalls)
{
    if (!stalls)
        return;
    while (stalls->first) {
        struct kolo_stall *stall = stalls->first;
        stalls->first = stall->next;
        free_stall(stall);
    }
    kolo_free_memory(stalls->per_rank);
    kolo_free_memory(stalls);
}

static bool has_bit(const uint8_t *bits, int rank)
{
    return (bits[rank / 8] >> (rank % 8)) & 1;
}

bool kolo_stall_has(const struct kolo_stall *stall, int rank)
{
    return has_bit(stall->ranks, rank);
}

bool kolo_stall_awaits(const struct kolo_stall *stall, int rank)
{
    for (const struct kolo_stall_wait *wait = stall->waits; wait; wait = wait->next)
        if (has_bit(wait->members, rank))
            return true;
    return false;
}

enum kolo_own_wait kolo_stall_own(const struct kolo_stall *stall, int rank)
{
    const struct kolo_stall_wait *wait =
        rank >= 0 && kolo_stall_has(stall, rank) ? stall->waits : NULL;
    while (wait && wait->rank != rank)
        wait = wait->next;
    return wait ? wait->own : KOLO_OWN_NONE;
}

int kolo_stall_count_own(const struct kolo_stall *stall, enum kolo_own_wait own)
{
    int count = 0;
    for (const struct kolo_stall_wait *wait = stall->waits; wait; wait = wait->next)
        count += wait->own == own;
    return count;
}

size_t kolo_stall_bits_bytes(int size)
{
    return (size_t)size / 8 + 1;
}

int kolo_stall_first(const struct kolo_stall *stall, int size)
{
    for (int rank = 0; rank < size; rank++)
        if (kolo_stall_has(stall, rank))
            return rank;
    return -1;
}

bool kolo_stall_is_message(const struct kolo_stall *stall)
{
    return stall->channel % KOLO_CHANNELS_PER_COMM == KOLO_CHANNEL_MESSAGE;
}

void kolo_stall_text(const struct kolo_stall *stall, char *text, size_t capacity)
{
    if (kolo_stall_is_message(stall)) /* its words contain its number */
        snprintf(text, capacity, "%.300s", stall->words);
    else
        snprintf(text, capacity, "%.300s sequence %u", stall->words, (unsigned int)stall->sequence);
}

const struct kolo_stall *kolo_stalls_of(const struct kolo_stalls *stalls, int rank)
{
    const struct kolo_stall *longest = NULL;
    int64_t since_ns = INT64_MAX;
    for (const struct kolo_stall *stall = stalls->first; stall; stall = stall->next)
        for (const struct kolo_stall_wait *wait = stall->waits; wait; wait = wait->next)
            if (wait->rank == rank && wait->since_ns < since_ns) {
                longest = stall;
                since_ns = wait->since_ns;
            }
    return longest;
}

/** Adds the ranks that @p stall lacks; @p members is room for a set. */
static void add_awaited(const struct kolo_stalls *stalls, const struct kolo_stall *stall,
                        uint8_t *members, bool *is_awaited)
{
    const size_t bytes = kolo_stall_bits_bytes(stalls->size);
    memset(members, 0, bytes);
    for (const struct kolo_stall_wait *wait = stall->waits; wait; wait = wait->next)
        for (size_t i = 0; i < bytes; i++)
            members[i] |= wait->members[i];
    for (int rank = 0; rank < stalls->size; rank++)
        if (has_bit(members, rank) && !has_bit(stall->ranks, rank))
            is_awaited[rank] = true;
}

kolo_status kolo_stalls_survey(const struct kolo_stalls *stalls,
                               const struct kolo_stall **calls_out, bool *is_awaited_out)
{
    const size_t size = (size_t)stalls->size;
    kolo_status status = KOLO_OK;
    uint8_t *members = kolo_calloc(kolo_stall_bits_bytes(stalls->size), 1);
    int64_t *since_ns = kolo_calloc(size, sizeof since_ns[0]);
    memset(calls_out, 0, size * sizeof calls_out[0]);
    memset(is_awaited_out, 0, size * sizeof is_awaited_out[0]);
    if (!members || !since_ns) {
        status = KOLO_ERR_NO_MEMORY;
        goto out;
    }
    for (const struct kolo_stall *stall = stalls->first; stall; stall = stall->next) {
        add_awaited(stalls, stall, members, is_awaited_out);
        for (const struct kolo_stall_wait *wait = stall->waits; wait; wait = wait->next)
            if (!calls_out[wait->rank] || wait->since_ns < since_ns[wait->rank]) {
                calls_out[wait->rank] = stall;
                since_ns[wait->rank] = wait->since_ns;
            }
    }
out:
    kolo_free_memory(members);
    kolo_free_memory(since_ns);
    return status;
}

/** The words may be followed by the broadcast before the call, in brackets. */
static bool begins_with(const char *text, const char *words)
{
    const char *rest = strstr(words, " [after ");
    return strncmp(text, words, rest ? (size_t)(rest - words) : strlen(words)) == 0;
}

const struct kolo_stall *kolo_stalls_find(const struct kolo_stalls *stalls, int rank,
                                          uint32_t number, const char *text)
{
    for (const struct kolo_stall *stall = stalls->first; stall; stall = stall->next)
        if (stall->channel / KOLO_CHANNELS_PER_COMM == number && kolo_stall_has(stall, rank) &&
            begins_with(text, stall->words))
            return stall;
    return NULL;
}

bool kolo_stalls_is_past(const struct kolo_stalls *stalls, const struct kolo_stall *stall, int rank)
{
    if (kolo_stall_is_message(stall)) /* each rank uses numbers of its own */
        return false;
    for (const struct kolo_stall *other = stalls->first; other; other = other->next)
        if (other->channel == stall->channel && kolo_stall_has(other, rank) &&
            (int32_t)(other->sequence - stall->sequence) > 0)
            return true;
    return false;
}

int kolo_stalls_behind(const struct kolo_stalls *stalls, const struct kolo_stall *stall)
{
    const size_t bytes = kolo_stall_bits_bytes(stalls->size);
    int behind = 0;
    bool is_behind = true; /* the list is in the order in which stalls began */
    for (const struct kolo_stall *other = stalls->first; other; other = other->next) {
        if (other == stall)
            is_behind = false;
        else if (kolo_stall_is_message(other) &&
                 memcmp(other->waits->members, stall->waits->members, bytes) == 0) {
            if (is_behind)
                return -1;
            behind++;
        }
    }
    return behind;
}

/** The link to the stall that @p rank means, or to where it would be added. */
static struct kolo_stall **find(struct kolo_stalls *stalls, int rank, uint32_t channel,
                                uint32_t sequence)
{
    struct kolo_stall **link = &stalls->first;
    for (; *link; link = &(*link)->next)
        if ((*link)->channel == channel && (*link)->sequence == sequence &&
            (!kolo_stall_is_message(*link) || kolo_stall_has(*link, rank)))
            break;
    return link;
}

static struct kolo_stall *make_stall(const struct kolo_stalls *stalls, const char *words)
{
    size_t bytes = kolo_stall_bits_bytes(stalls->size);
    struct kolo_stall *stall = kolo_calloc(1, sizeof *stall);
    if (!stall)
        return NULL;
    stall->words = kolo_strdup(words);
    stall->ranks = kolo_calloc(bytes, 1);
    if (!stall->words || !stall->ranks) {
        free_stall(stall);
        return NULL;
    }
    stall->since_ns = kolo_now_ns();
    stall->warn_every_ms = stalls->warn_ms;
    stall->warn_at = kolo_deadline_in_ms(stalls->warn_ms);
    return stall;
}

static struct kolo_stall_wait **find_wait(struct kolo_stall *stall, int rank)
{
    struct kolo_stall_wait **link = &stall->waits;
    while (*link && (*link)->rank != rank)
        link = &(*link)->next;
    return link;
}

/** Adds @p rank, which is not in it yet, to @p stall. */
static kolo_status join_stall(struct kolo_stalls *stalls, struct kolo_stall *stall, int rank)
{
    struct kolo_stall_wait *wait =
        kolo_calloc(sizeof *wait + kolo_stall_bits_bytes(stalls->size), 1);
    if (!wait)
        return KOLO_ERR_NO_MEMORY;
    wait->rank = rank;
    wait->since_ns = kolo_now_ns();
    wait->next = stall->waits;
    stall->waits = wait;
    stall->ranks[rank / 8] = (uint8_t)(stall->ranks[rank / 8] | 1 << (rank % 8));
    stall->count++;
    stalls->per_rank[rank]++;
    return KOLO_OK;
}

/** What the rank waits for now. */
static void set_reported(const struct kolo_stalls *stalls, struct kolo_stall_wait *wait,
                         const struct kolo_stall_report *report)
{
    size_t bytes = kolo_stall_bits_bytes(stalls->size);
    wait->own = report->own;
    if (report->members)
        memcpy(wait->members, report->members, bytes);
    else
        memset(wait->members, 0xff, bytes);
}

kolo_status kolo_stalls_report(struct kolo_stalls *stalls, int rank,
                               const struct kolo_stall_report *report,
                               const struct kolo_stall **other_out)
{
    struct kolo_stall *stall = *find(stalls, rank, report->channel, report->sequence);
    struct kolo_stall *fresh = NULL;
    if (stall && !kolo_stall_is_message(stall) &&
        memcmp(&stall->desc, report->desc, sizeof stall->desc) != 0) {
        *other_out = stall;
        return KOLO_ERR_MISMATCH;
    }
    struct kolo_stall_wait *wait =
        stall && kolo_stall_has(stall, rank) ? *find_wait(stall, rank) : NULL;
    if (wait) {
        set_reported(stalls, wait, report);
        return KOLO_OK;
    }
    if (stalls->per_rank[rank] >= KOLO_STALLS_PER_RANK)
        return KOLO_OK;
    if (!stall)
        stall = fresh = make_stall(stalls, report->words);
    if (!stall || join_stall(stalls, stall, rank) != KOLO_OK) {
        if (fresh)
            free_stall(fresh);
        return KOLO_ERR_NO_MEMORY;
    }
    set_reported(stalls, stall->waits, report);
    if (fresh) {
        fresh->channel = report->channel;
        fresh->sequence = report->sequence;
        fresh->desc = *report->desc;
        *find(stalls, rank, report->channel, report->sequence) = fresh;
    }
    return KOLO_OK;
}

/** Removes @p rank from the stall at @p link. True: it was the last, the stall was freed, and @p
 * link has the next one. */
static bool leave_stall(struct kolo_stalls *stalls, struct kolo_stall **link, int rank)
{
    struct kolo_stall *stall = *link;
    struct kolo_stall_wait **waits = find_wait(stall, rank), *wait = *waits;
    if (!wait)
        return false;
    *waits = wait->next;
    kolo_free_memory(wait);
    stall->ranks[rank / 8] = (uint8_t)(stall->ranks[rank / 8] & ~(1 << (rank % 8)));
    stalls->per_rank[rank]--;
    if (--stall->count > 0)
        return false;
    *link = stall->next;
    free_stall(stall);
    return true;
}

void kolo_stalls_resume(struct kolo_stalls *stalls, int rank, uint32_t channel, uint32_t sequence)
{
    struct kolo_stall **link = find(stalls, rank, channel, sequence);
    if (*link)
        leave_stall(stalls, link, rank);
}

void kolo_stalls_forget(struct kolo_stalls *stalls, int rank)
{
    struct kolo_stall **link = &stalls->first;
    while (*link)
        if (!leave_stall(stalls, link, rank))
            link = &(*link)->next;
}

kolo_deadline kolo_stalls_expire(struct kolo_stalls *stalls,
                                 void (*warn)(void *context, const struct kolo_stall *stall),
                                 void *context)
{
    kolo_deadline next = KOLO_NEVER;
    for (struct kolo_stall *stall = stalls->first; stall; stall = stall->next) {
        if (kolo_deadline_passed(stall->warn_at)) {
            warn(context, stall);
            if (stall->warn_every_ms < INT32_MAX)
                stall->warn_every_ms *= 2;
            stall->warn_at = kolo_deadline_in_ms(stall->warn_every_ms);
        }
        next = kolo_deadline_min(next, stall->warn_at);
    }
    return next;
}
