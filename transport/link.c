// SPDX-License-Identifier: Apache-2.0
// The life of a link, and the runtime's calls on it: send, receive, cancel, describe. Must never
// leave a work unfinished once the link can no longer finish it.
//
//   CONNECTING --set_up--> UP --set_down--> DOWN
//        \------------set_down-------------/
//
// The peer's goodbye leaves the link UP, so that our own goodbye can be sent, but fails its works:
// the peer sends and takes nothing more. Early frames are kept in both cases, so that what had
// arrived can still be received.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "transport/core.h"

static const char *const state_text[] = {
    [KOLO_LINK_CONNECTING] = "connecting", [KOLO_LINK_UP] = "up", [KOLO_LINK_DOWN] = "down"};

void kolo_link_init(struct kolo_link *link, struct kolo_port *port, int peer)
{
    link->endpoint = port->endpoint;
    link->port = port;
    link->transport = port->transport;
    link->peer = peer;
    link->state = KOLO_LINK_CONNECTING;
    link->header_bytes = KOLO_HEADER_BYTES;
    link->credit_bytes = kolo_endpoint_peer(port->endpoint, peer)->credit_bytes;
}

bool kolo_link_gives_way(const struct kolo_link *link)
{
    return link->peer < kolo_endpoint_config_of(link->endpoint)->rank;
}

static void drop_controls(struct kolo_link *link)
{
    while (link->control_first) {
        struct kolo_control *control = link->control_first;
        link->control_first = control->next;
        kolo_free_memory(control);
    }
    link->control_last = NULL;
}

void kolo_link_fini(struct kolo_link *link)
{
    uint32_t cursor = 0;
    struct kolo_channel *channel;
    drop_controls(link);
    while ((channel = kolo_map_next(&link->channels, &cursor)) != NULL)
        kolo_channel_destroy(channel);
    kolo_map_fini(&link->channels);
    kolo_free_memory(link->sums);
    kolo_free_memory(link->why_text);
}

void kolo_link_set_up(struct kolo_link *link)
{
    uint32_t cursor = 0;
    struct kolo_channel *channel;
    if (link->state != KOLO_LINK_CONNECTING)
        return;
    link->state = KOLO_LINK_UP;
    while ((channel = kolo_map_next(&link->channels, &cursor)) != NULL)
        kolo_channel_wake(channel);
    KOLO_DEBUG("link to rank %d up (%s)", link->peer, link->transport->name);
}

bool kolo_link_reaches_devices(const struct kolo_link *link)
{
    return link->state == KOLO_LINK_UP && !link->sums && /* no processor could verify them */
           link->transport->reaches_devices && link->transport->reaches_devices(link);
}

void kolo_link_fail_works(struct kolo_link *link, kolo_status why)
{
    uint32_t cursor = 0;
    struct kolo_channel *channel;
    while ((channel = kolo_map_next(&link->channels, &cursor)) != NULL)
        kolo_channel_fail(channel, why);
}

void kolo_link_left(struct kolo_link *link)
{
    const struct kolo_endpoint_events *events = &link->endpoint->config.events;
    link->owes_left = link->turns > 0;
    if (link->owes_left) /* what was sent before it is still under way */
        return;
    link->heard_goodbye = true;
    kolo_link_fail_works(link, KOLO_ERR_PEER);
    if (events->left)
        events->left(events->context, link->peer);
}

void kolo_link_look_left(struct kolo_link *link)
{
    if (link->owes_left && link->turns == 0 && link->state == KOLO_LINK_UP)
        kolo_link_left(link);
}

static void tell_down(const struct kolo_link *link)
{
    const struct kolo_endpoint *endpoint = link->endpoint;
    const struct kolo_endpoint_events *events = &endpoint->config.events;
    if (link->heard_goodbye || endpoint->is_closing || !events->down)
        return;
    events->down(events->context, link->peer, link->why,
                 link->why_text ? link->why_text : kolo_status_text(link->why));
}

/** Whether something that was sent is lost with the link, while its works are still there. A send
 *  that has not ended is told by its own status, unless its owner has left it to the close. */
static bool loses(const struct kolo_link *link)
{
    const struct kolo_transport *transport = link->transport;
    if (link->heard_goodbye || link->owes_left)
        return false;
    return (link->endpoint->is_closing && link->sends > 0) ||
           (link->state == KOLO_LINK_UP && transport->has_undelivered &&
            transport->has_undelivered(link));
}

void kolo_link_set_down(struct kolo_link *link, kolo_status why)
{
    uint32_t cursor = 0;
    struct kolo_channel *channel;
    if (link->state == KOLO_LINK_DOWN)
        return;
    const char *detail = kolo_error_detail();
    link->why = why;
    link->why_text = detail[0] != '\0' ? kolo_strdup(detail) : NULL;
    link->has_lost = loses(link);
    link->state = KOLO_LINK_DOWN;
    if (link->transport->down)
        link->transport->down(link);
    kolo_link_fail_works(link, link->heard_goodbye ? KOLO_ERR_PEER : why);
    while ((channel = kolo_map_next(&link->channels, &cursor)) != NULL)
        kolo_channel_drop_unfinished(channel);
    drop_controls(link);
    link->owes_goodbye = false;
    tell_down(link);
}

/* The status for a new work that can neither be sent nor be completed from early frames. */
static kolo_status cannot(const struct kolo_link *link)
{
    if (link->heard_goodbye)
        return KOLO_ERR_PEER;
    if (link->state == KOLO_LINK_DOWN)
        return link->why;
    if (link->endpoint->is_closing || link->owes_goodbye || link->said_goodbye)
        return KOLO_ERR_ABORTED;
    return KOLO_OK;
}

bool kolo_link_gathers(const struct kolo_link *link)
{
    return link->transport->gathers;
}

kolo_status kolo_link_open_channel(struct kolo_link *link, uint32_t id)
{
    return kolo_channel_of(link, id) ? KOLO_OK : KOLO_ERR_NO_MEMORY;
}

static struct kolo_channel *open_work(struct kolo_link *link, uint32_t id,
                                      const struct kolo_desc *desc, struct kolo_work *work,
                                      size_t bytes)
{
    *work = (struct kolo_work){.status = KOLO_AGAIN, .bytes = bytes, .desc = *desc, .link = link};
    work->channel = id;
    struct kolo_channel *channel = NULL;
    if (id == KOLO_CHANNEL_CONTROL)
        kolo_work_end(work, kolo_fail(KOLO_ERR_INVALID, "channel %u is not for callers", id));
    else if ((channel = kolo_channel_of(link, id)) == NULL)
        kolo_work_end(work, KOLO_ERR_NO_MEMORY);
    return channel;
}

void kolo_link_queue(struct kolo_link *link, uint32_t channel_id, const struct kolo_desc *desc,
                     const void *src, size_t bytes, struct kolo_work *work)
{
    struct kolo_channel *channel = open_work(link, channel_id, desc, work, bytes);
    if (!channel)
        return;
    work->src = src;
    kolo_status fault = channel->tx_fault != KOLO_OK ? channel->tx_fault : cannot(link);
    if (fault != KOLO_OK) {
        kolo_work_end(work, fault);
        return;
    }
    kolo_channel_add_send(channel, work);
    kolo_channel_wake(channel);
}

void kolo_link_send(struct kolo_link *link, uint32_t channel_id, const struct kolo_desc *desc,
                    const void *src, size_t bytes, struct kolo_work *work)
{
    kolo_link_queue(link, channel_id, desc, src, bytes, work);
    if (work->status == KOLO_AGAIN)
        kolo_link_push(link);
}

static kolo_status check_action(const struct kolo_action *action, size_t bytes)
{
    if (!action || action->kind == KOLO_COPY)
        return KOLO_OK;
    size_t element = kolo_dtype_bytes(action->dtype);
    bool can = action->own ? element > 0 && KOLO_FRAME_STEP_BYTES % element == 0
                           : kolo_reduce_function(action->dtype, action->op) != NULL;
    if (can && bytes % element == 0)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_INVALID, "cannot receive %zu bytes as %s", bytes,
                     kolo_dtype_text(action->dtype));
}

void kolo_link_recv(struct kolo_link *link, uint32_t channel_id, const struct kolo_desc *desc,
                    void *dst, size_t bytes, const struct kolo_action *action,
                    struct kolo_work *work)
{
    struct kolo_channel *channel = open_work(link, channel_id, desc, work, bytes);
    if (!channel)
        return;
    work->dst = dst;
    if (action)
        work->action = *action;
    kolo_status fault = check_action(action, bytes);
    if (fault == KOLO_OK)
        fault = channel->rx_fault;
    if (fault != KOLO_OK) {
        kolo_work_end(work, fault);
        return;
    }
    kolo_channel_add_receive(channel, work);
    kolo_channel_deliver(channel);
    fault = cannot(link);
    if (work->status == KOLO_AGAIN && fault != KOLO_OK) {
        kolo_channel_remove_receive(channel, work);
        kolo_work_end(work, fault);
    }
    if (work->status == KOLO_AGAIN && work->bytes_done == 0 && !channel->stash_first &&
        link->transport->posted)
        link->transport->posted(link, work);
}

static void cancel_send(struct kolo_channel *channel, struct kolo_work *work)
{
    struct kolo_link *link = channel->link;
    bool is_begun = work->bytes_taken > 0 || work->frames_out > 0;
    kolo_channel_unready(channel);
    kolo_channel_remove_send(channel, work);
    if ((work->frames_out > 0 || work->is_remote) && link->transport->withdraw)
        link->transport->withdraw(link, work);
    work->frames_out = 0;
    if (is_begun) /* the peer has a part of it, so what follows would be taken for the rest */
        channel->tx_fault = KOLO_ERR_ABORTED;
    if (channel->tx_fault != KOLO_OK)
        kolo_channel_fail_sends(channel, channel->tx_fault);
    kolo_channel_wake(channel);
}

static void cancel_receive(struct kolo_channel *channel, struct kolo_work *work)
{
    kolo_channel_remove_receive(channel, work);
    channel->rx_fault = KOLO_ERR_ABORTED;
    kolo_channel_fail_receives(channel, KOLO_ERR_ABORTED);
    kolo_channel_drop_stash(channel);
    kolo_link_look_left(channel->link);
}

/* Only the queues distinguish a send from a receive: an empty message has neither source nor
 * destination. */
static bool is_queued_send(const struct kolo_channel *channel, const struct kolo_work *work)
{
    for (const struct kolo_work *at = channel->send_first; at; at = at->next)
        if (at == work)
            return true;
    return false;
}

void kolo_work_cancel(struct kolo_work *work)
{
    if (work->status != KOLO_AGAIN || !work->link)
        return;
    struct kolo_channel *channel = kolo_map_get(&work->link->channels, work->channel);
    if (!channel)
        return;
    if (is_queued_send(channel, work))
        cancel_send(channel, work);
    else
        cancel_receive(channel, work);
    kolo_work_end(work, KOLO_ERR_ABORTED);
}

void kolo_work_tell(struct kolo_work *work, struct kolo_works_over *over, void *owner)
{
    work->told = over;
    work->owner = owner;
    work->next_over = work->previous_over = NULL;
}

void kolo_work_is_over(struct kolo_work *work)
{
    struct kolo_works_over *over = work->told;
    work->previous_over = over->last;
    if (over->last)
        over->last->next_over = work;
    else
        over->first = work;
    over->last = work;
}

void kolo_work_untell(struct kolo_work *work)
{
    struct kolo_works_over *over = work->told;
    work->told = NULL;
    if (work->status == KOLO_AGAIN) /* it is not in the list */
        return;
    if (work->previous_over)
        work->previous_over->next_over = work->next_over;
    else
        over->first = work->next_over;
    if (work->next_over)
        work->next_over->previous_over = work->previous_over;
    else
        over->last = work->previous_over;
}

/* Sums up what the works in a queue have done and want in total, since a stall report needs "3 of 8
 * MiB". */
static void sum_works(const struct kolo_work *work, uint64_t *done, uint64_t *all)
{
    for (; work; work = work->next) {
        *done += work->bytes_done;
        *all += work->bytes;
    }
}

void kolo_link_describe(const struct kolo_link *link, char *text, size_t capacity)
{
    char name[400] = "";
    uint64_t sent = 0, to_send = 0, received = 0, to_receive = 0;
    uint32_t cursor = 0;
    const struct kolo_channel *channel;
    if (link->transport->describe)
        link->transport->describe(link, name, sizeof name);
    while ((channel = kolo_map_next(&link->channels, &cursor)) != NULL) {
        sum_works(channel->send_first, &sent, &to_send);
        sum_works(channel->recv_first, &received, &to_receive);
    }
    char progress[2][64] = {"", ""};
    if (to_send > 0)
        snprintf(progress[0], sizeof progress[0], ", %" PRIu64 " of %" PRIu64 " bytes sent", sent,
                 to_send);
    if (to_receive > 0)
        snprintf(progress[1], sizeof progress[1], ", %" PRIu64 " of %" PRIu64 " bytes received",
                 received, to_receive);
    snprintf(text, capacity, "%s %s%s%s%s", name[0] != '\0' ? name : link->transport->name,
             state_text[link->state], link->heard_goodbye ? " (peer left)" : "", progress[0],
             progress[1]);
}
