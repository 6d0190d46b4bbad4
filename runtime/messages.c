// SPDX-License-Identifier: Apache-2.0
// Advances the messages of a communicator, which run side by side. Any number of them may be
// waiting, so none is looked at before its work has ended, which then puts itself into a list
// (kolo_work_tell). Must never leave out a message that may go on although no work has ended: one
// with device buffers, or one that has failed and ends once the cause is settled.
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

/** Advances all, those too that may go on although no work has ended. */
static void advance_all(struct kolo_comm *comm)
{
    comm->messages.are_watched = false;
    for (struct kolo_request *request = comm->messages.list.first, *next; request; request = next) {
        next = request->next;
        (void)advance_message(comm, request);
        if (comm->failure.status != KOLO_OK)
            break;
    }
}

void kolo_message_untell(struct kolo_request *request)
{
    kolo_work_untell(request->told);
    request->told = NULL;
}

void kolo_messages_advance(struct kolo_comm *comm)
{
    if (comm->messages.are_watched)
        advance_all(comm);
    while (comm->messages.over.first) {
        struct kolo_request *request = comm->messages.over.first->owner;
        kolo_message_untell(request);
        (void)advance_message(comm, request);
    }
}

void kolo_message_advance_new(struct kolo_comm *comm, struct kolo_request *request)
{
    struct kolo_flight *flight = &request->main.alone;
    if (advance_message(comm, request) || must_be_watched(request))
        return;
    request->told = request->call.kind == KOLO_CALL_SEND ? &flight->out : &flight->in;
    kolo_work_tell(request->told, &comm->messages.over, request);
}
