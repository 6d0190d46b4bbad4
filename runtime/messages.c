// SPDX-License-Identifier: Apache-2.0
// Advances the messages of a communicator, which run side by side. Any number of them may be
// waiting, so each poll only looks for as many that are over as works have ended since the poll
// before. They mostly end in the order in which they began, so few others are looked at. Must never
// leave out a message that may go on although no work has ended: one with device buffers, or one
// that has failed and ends once the cause is settled.
#include <stdint.h>

#include "runtime/comm.h"
#include "runtime/staging.h"

/** Whether a message that is not over must be advanced at each turn, not only once some work has
 * ended: it has device buffers, or has failed, which ends it once the cause is settled. */
static bool must_be_watched(const struct kolo_request *request)
{
    return request->staged || kolo_message_has_failed(request);
}

/** Returns whether it is over. If the communicator has failed meanwhile, all requests are. */
static bool advance_message(struct kolo_comm *comm, struct kolo_request *request)
{
    if ((request->stage == KOLO_STAGING_OUT || request->route->advance(request)) &&
        (!request->staged || kolo_staging_is_out(request)))
        kolo_request_end(request, KOLO_OK);
    const bool is_over = request->status != KOLO_AGAIN;
    comm->messages.are_watched |= !is_over && must_be_watched(request);
    return is_over;
}

void kolo_messages_advance(struct kolo_comm *comm)
{
    const uint64_t over = kolo_endpoint_works_over(comm->engine->endpoint);
    uint64_t to_find = comm->messages.are_watched ? UINT64_MAX : over - comm->messages.works_seen;
    if (to_find == 0)
        return;
    comm->messages.works_seen = over;
    comm->messages.are_watched = false;
    for (struct kolo_request *request = comm->messages.list.first, *next; request; request = next) {
        next = request->next;
        to_find -= advance_message(comm, request);
        if (to_find == 0 || comm->failure.status != KOLO_OK)
            break;
    }
}

void kolo_message_advance_new(struct kolo_comm *comm, struct kolo_request *request)
{
    if (advance_message(comm, request))
        comm->messages.works_seen++; /* kolo_messages_advance() need not look for it */
}
