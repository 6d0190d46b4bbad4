// SPDX-License-Identifier: Apache-2.0
// Members that have finalized a communicator while others still make calls on it: how they announce
// it, and how calls that wait for them fail at once.
//
// Held: the engine's lock, in all calls.
#ifndef KOLO_RUNTIME_FINALIZED_H
#define KOLO_RUNTIME_FINALIZED_H

#include "runtime/comm.h"

/** The sequence number of the first collective without this rank, if it finalizes now. */
uint32_t kolo_comm_end_sequence(const struct kolo_comm *comm);
/** Tells the members that this rank makes no more calls on @p comm. It must have no requests any
 * more. */
void kolo_comm_tell_finalized(struct kolo_comm *comm, uint32_t end_sequence);
/** Tells the store the same of communicator @p number, whose members are the world's @p ranks
 * (NULL: the first @p size). So a shrink of it need not wait for this rank. */
void kolo_comm_tell_store(struct kolo_engine *engine, uint32_t number, const int *ranks, int size);
/** Member @p rank takes part in no collective from @p sequence on, and sends nothing more. */
void kolo_comm_hear_finalized(struct kolo_comm *comm, int rank, uint32_t sequence);
/** Fails @p comm if one of its calls waits for a member that will not come. Called in each poll of
 * everything once comm->finalized is there. */
void kolo_comm_check_finalized(struct kolo_comm *comm);
/** The same for a send that has stalled; before that, a member that has gone may still accept
 * it. */
void kolo_comm_check_stalled_send(struct kolo_comm *comm, const struct kolo_request *request);

#endif
