// SPDX-License-Identifier: Apache-2.0
// What the ranks of a job wait in, compared by (channel, sequence). Private to the store's server.
#ifndef KOLO_RUNTIME_STORE_STALL_H
#define KOLO_RUNTIME_STORE_STALL_H

#include "runtime/store.h"

enum { KOLO_STALLS_PER_RANK = 256 };

/** A rank that waits, and for whom, a bit each. */
struct kolo_stall_wait {
    struct kolo_stall_wait *next;
    int rank;
    int64_t since_ns;
    uint8_t members[];
};

/** Ranks that wait in the same call. */
struct kolo_stall {
    uint32_t channel, sequence;
    struct kolo_desc desc;
    char *words;
    uint8_t *ranks; /* that wait here now, a bit each */
    struct kolo_stall_wait *waits;
    int count; /* of them */
    int64_t since_ns;
    int64_t warn_every_ms; /* doubles */
    kolo_deadline warn_at;
    struct kolo_stall *next;
};
bool kolo_stall_has(const struct kolo_stall *stall, int rank);
/** Is it one rank's wait for a message, rather than a call of several? */
bool kolo_stall_is_message(const struct kolo_stall *stall);
/** Does any of the ranks that wait need @p rank? */
bool kolo_stall_awaits(const struct kolo_stall *stall, int rank);
/** Of the bits of a world of @p size. */
size_t kolo_stall_bits_bytes(int size);
/** The lowest rank that waits in it. */
int kolo_stall_first(const struct kolo_stall *stall, int size);

struct kolo_stalls;
kolo_status kolo_stalls_create(int size, int64_t warn_ms,
                               struct kolo_stalls **stalls_out) KOLO_NODISCARD;
void kolo_stalls_destroy(struct kolo_stalls *stalls);
/** @p rank waits in what @p report, which is copied, says; if it has reported that before, for the
 * members that it names now. On a channel of messages (KOLO_CHANNEL_MESSAGE) each rank numbers its
 * own, which meet nobody else's. ERR_MISMATCH: other ranks wait at the same place in another call,
 * *other_out. ERR_NO_MEMORY. Of a rank that reports more than KOLO_STALLS_PER_RANK calls no further
 * ones are heard. */
kolo_status kolo_stalls_report(struct kolo_stalls *stalls, int rank,
                               const struct kolo_stall_report *report,
                               const struct kolo_stall **other_out) KOLO_NODISCARD;
void kolo_stalls_resume(struct kolo_stalls *stalls, int rank, uint32_t channel, uint32_t sequence);
/** What @p rank has waited in for longest; NULL: nothing that it has reported. */
const struct kolo_stall *kolo_stalls_of(const struct kolo_stalls *stalls, int rank);
/** Does @p rank wait in a later call of those that @p stall is one of, which is over on it then? */
bool kolo_stalls_is_past(const struct kolo_stalls *stalls, const struct kolo_stall *stall,
                         int rank);
/** How many ranks wait for a message of the same peer as @p stall, or to be rid of one, and have
 * for a shorter time; -1: one has for longer, and its warning is for all. */
int kolo_stalls_behind(const struct kolo_stalls *stalls, const struct kolo_stall *stall);
/** @p rank waits in nothing any more: it left or is gone. */
void kolo_stalls_forget(struct kolo_stalls *stalls, int rank);
/** Calls @p warn for what has waited long enough; returns when the next one will have. */
kolo_deadline kolo_stalls_expire(struct kolo_stalls *stalls,
                                 void (*warn)(void *context, const struct kolo_stall *stall),
                                 void *context);

#endif
