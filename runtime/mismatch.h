// SPDX-License-Identifier: Apache-2.0
// Ranks that call different things. Private to runtime/.
//
// Held: the engine's lock, in all calls.
#ifndef KOLO_RUNTIME_MISMATCH_H
#define KOLO_RUNTIME_MISMATCH_H

#include <stddef.h>
#include <stdint.h>

struct kolo_comm;
struct kolo_desc;

/** Member @p peer called something else than this rank: fails the communicator. */
void kolo_comm_mismatch(struct kolo_comm *comm, int peer, const struct kolo_desc *mine,
                        const struct kolo_desc *theirs);
/** The first collective of @p comm is entered: checks messages of it that arrived earlier. */
void kolo_comm_look_early(struct kolo_comm *comm);
/** What this rank called as number @p sequence, if that was a broadcast that may be open; else
 * NULL. */
const struct kolo_desc *kolo_comm_past(const struct kolo_comm *comm, uint32_t sequence);

/* ---- for the endpoint's events; @p context: struct kolo_engine, @p world_rank: in it ---- */

/** A message met a receive with another description. */
void kolo_mismatch_found(void *context, int world_rank, uint32_t channel,
                         const struct kolo_desc *expected, const struct kolo_desc *arrived);
/** A message has arrived for which no receive is posted. Reports a mismatch at once that would
 * otherwise show when the receive is posted, or never. */
void kolo_mismatch_look(void *context, int world_rank, uint32_t channel,
                        const struct kolo_desc *arrived);
/** Writes which call a message belongs to: "allreduce(...) in communicator 2 (...) sequence 7". */
void kolo_mismatch_words(void *context, uint32_t channel, const struct kolo_desc *desc, char *text,
                         size_t capacity);

#endif
