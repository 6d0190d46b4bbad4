// SPDX-License-Identifier: Apache-2.0
// The calls in which the ranks of a job wait, compared by (channel, sequence). Private to the
// store's server.
#ifndef KOLO_RUNTIME_STORE_STALL_H
#define KOLO_RUNTIME_STORE_STALL_H

#include "runtime/store.h"

enum { KOLO_STALLS_PER_RANK = 256 };

/** A rank that waits, and the ranks that it waits for, a bit each. */
struct kolo_stall_wait {
    struct kolo_stall_wait *next;
    int rank;
    enum kolo_own_wait own;
    int64_t since_ns;
    uint8_t members[];
};

/** Ranks that wait in the same call. */
struct kolo_stall {
    uint32_t channel, sequence;
    struct kolo_desc desc;
    char *words;
    uint8_t *ranks; /* ranks that wait here now, a bit each */
    struct kolo_stall_wait *waits;
    int count; /* number of those ranks */
    int64_t since_ns;
    int64_t warn_every_ms; /* doubles with each warning */
    kolo_deadline warn_at;
    struct kolo_stall *next;
};
bool kolo_stall_has(const struct kolo_stall *stall, int rank);
/** Writes the call as the ranks describe it, with its sequence number. */
void kolo_stall_text(const struct kolo_stall *stall, char *text, size_t capacity);
/** Whether it is one rank's: for a message, or, before a call, for its device. Else it is a call of
 * several ranks. */
bool kolo_stall_is_message(const struct kolo_stall *stall);
/** Whether any of the waiting ranks needs @p rank. */
bool kolo_stall_awaits(const struct kolo_stall *stall, int rank);
/** What @p rank waits for in it that no other rank can bring. -1: of no rank. */
enum kolo_own_wait kolo_stall_own(const struct kolo_stall *stall, int rank);
/** The number of ranks that wait in it for that. */
int kolo_stall_count_own(const struct kolo_stall *stall, enum kolo_own_wait own);
/** The bytes of a set of ranks in a world of @p size. */
size_t kolo_stall_bits_bytes(int size);
/** The lowest rank that waits in it. */
int kolo_stall_first(const struct kolo_stall *stall, int size);

struct kolo_stalls;
kolo_status kolo_stalls_create(int size, int64_t warn_ms,
                               struct kolo_stalls **stalls_out) KOLO_NODISCARD;
void kolo_stalls_destroy(struct kolo_stalls *stalls);
/** Records that @p rank waits in the call of @p report, which is copied. If it has reported that
 * call before, the members and what it waits for itself are replaced. On a channel of messages
 * (KOLO_CHANNEL_MESSAGE) each rank uses numbers of its own, which are never compared with those of
 * others. ERR_MISMATCH: other ranks wait at the same place in a different call, *other_out.
 * ERR_NO_MEMORY. Once a rank has reported KOLO_STALLS_PER_RANK calls, further ones are ignored. */
kolo_status kolo_stalls_report(struct kolo_stalls *stalls, int rank,
                               const struct kolo_stall_report *report,
                               const struct kolo_stall **other_out) KOLO_NODISCARD;
void kolo_stalls_resume(struct kolo_stalls *stalls, int rank, uint32_t channel, uint32_t sequence);
/** The call in which @p rank has waited for the longest time; NULL: it has reported none. */
const struct kolo_stall *kolo_stalls_of(const struct kolo_stalls *stalls, int rank);
/** For each rank: the call as kolo_stalls_of says (NULL: none), and whether it is missing in a call
 * whose ranks wait for it. Each array has an element for each rank. Takes one pass over all waits.
 * ERR_NO_MEMORY. */
kolo_status kolo_stalls_survey(const struct kolo_stalls *stalls,
                               const struct kolo_stall **calls_out,
                               bool *is_awaited_out) KOLO_NODISCARD;
/** The call of communicator @p number in which @p rank waits and with whose words @p text begins;
 * NULL: there is none. */
const struct kolo_stall *kolo_stalls_find(const struct kolo_stalls *stalls, int rank,
                                          uint32_t number, const char *text);
/** Whether @p rank waits in a later call on the channel of @p stall, so that the call of @p stall
 * is over on it. */
bool kolo_stalls_is_past(const struct kolo_stalls *stalls, const struct kolo_stall *stall,
                         int rank);
/** How many other ranks wait for a message from the peer of @p stall, or to it, or, if it has none,
 * for their devices too, and have waited for a shorter time. -1: one has waited longer, and its
 * warning speaks for all. */
int kolo_stalls_behind(const struct kolo_stalls *stalls, const struct kolo_stall *stall);
/** @p rank no longer waits in anything: it left or is gone. */
void kolo_stalls_forget(struct kolo_stalls *stalls, int rank);
/** Calls @p warn for each call that has waited long enough; returns when the next one will have. */
kolo_deadline kolo_stalls_expire(struct kolo_stalls *stalls,
                                 void (*warn)(void *context, const struct kolo_stall *stall),
                                 void *context);

#endif
