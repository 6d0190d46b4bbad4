// SPDX-License-Identifier: Apache-2.0
// Members that have finalized a communicator while others still call on it.
//
// Held: the engine's lock, in all calls.
#ifndef KOLO_RUNTIME_FINALIZED_H
#define KOLO_RUNTIME_FINALIZED_H

#include "runtime/comm.h"

/** The first collective in which this rank will not have taken part, if it finalizes now. */
uint32_t kolo_comm_end_sequence(const struct kolo_comm *comm);
/** Tells the members that this rank calls nothing more on it. It has no requests any more. */
void kolo_comm_tell_finalized(struct kolo_comm *comm, uint32_t end_sequence);
/** Tells the store the same of communicator @p number, whose members are the world's @p ranks
 * (NULL: the first @p size): whoever shrinks it need not wait for this rank. */
void kolo_comm_tell_store(struct kolo_engine *engine, uint32_t number, const int *ranks, int size);
/** Member @p rank takes part in no collective from @p sequence on, and sends nothing more. */
void kolo_comm_hear_finalized(struct kolo_comm *comm, int rank, uint32_t sequence);
/** Fails it if something of it waits for a member that will not come. Each look at everything asks
 * once comm->finalized is there. */
void kolo_comm_check_finalized(struct kolo_comm *comm);
/** The same for a send, which a member that has gone may yet let through: once it has stalled. */
void kolo_comm_check_stalled_send(struct kolo_comm *comm, const struct kolo_request *request);

#endif
