// SPDX-License-Identifier: Apache-2.0
// The queues of one channel: sends, receives, early frames. Must never complete a work while
// somebody still reads or writes its memory.
#include "base/alloc.h"
#include "transport/core.h"

struct kolo_channel *kolo_channel_of(struct kolo_link *link, uint32_t id)
{
    struct kolo_channel *channel = kolo_map_get(&link->channels, id);
    if (channel)
        return channel;
    if (link->channels.count >= KOLO_CHANNELS_MAX) {
        kolo_fail(KOLO_ERR_PROTOCOL, "link to rank %d: more than %d channels", link->peer,
                  KOLO_CHANNELS_MAX);
        return NULL;
    }
    channel = kolo_calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    channel->link = link;
    channel->id = id;
    channel->credit = link->credit_bytes;
    if (kolo_map_put(&link->channels, id, channel) != KOLO_OK) {
        kolo_free_memory(channel);
        return NULL;
    }
    return channel;
}

static void disown(struct kolo_channel *channel)
{
    struct kolo_link *link = channel->link;
    struct kolo_channel *before = NULL;
    if (!channel->is_owing)
        return;
    for (struct kolo_channel *at = link->owing_first; at != channel; at = at->owing_next)
        before = at;
    if (before)
        before->owing_next = channel->owing_next;
    else
        link->owing_first = channel->owing_next;
    if (link->owing_last == channel)
        link->owing_last = before;
    channel->is_owing = false;
}

void kolo_channel_destroy(struct kolo_channel *channel)
{
    kolo_channel_drop_stash(channel);
    disown(channel); /* what was dropped may be owed, which no peer will hear of */
    kolo_free_memory(channel);
}

void kolo_channel_forget(struct kolo_link *link, uint32_t id)
{
    struct kolo_channel *channel = kolo_map_get(&link->channels, id);
    if (!channel || channel->send_first || channel->recv_first)
        return;
    kolo_channel_drop_stash(channel); /* the rest of a frame that is arriving is dropped too */
    if (link->rx_channel == channel)
        link->rx_channel = NULL;
    kolo_map_remove(&link->channels, id);
    kolo_channel_destroy(channel);
}

/* ---- queues of works ---- */

static void append(struct kolo_work **first, struct kolo_work **last, struct kolo_work *work)
{
    if (*last)
        (*last)->next = work;
    else
        *first = work;
    *last = work;
}

/** Removes @p work from the queue; its `next` is unchanged. False: it is not in the queue. */
static bool cut_out(struct kolo_work **first, struct kolo_work **last, const struct kolo_work *work)
{
    struct kolo_work *before = NULL;
    for (struct kolo_work *at = *first; at != work; at = at->next) {
        if (!at)
            return false;
        before = at;
    }
    if (before)
        before->next = work->next;
    else
        *first = work->next;
    if (*last == work)
        *last = before;
    return true;
}

/* ---- sends ---- */

void kolo_channel_add_send(struct kolo_channel *channel, struct kolo_work *work)
{
    append(&channel->send_first, &channel->send_last, work);
    work->number = channel->sends_posted++;
    if (!channel->send_next)
        channel->send_next = work;
    channel->link->sends++;
}

void kolo_channel_remove_send(struct kolo_channel *channel, struct kolo_work *work)
{
    if (!cut_out(&channel->send_first, &channel->send_last, work))
        return;
    if (channel->send_next == work)
        channel->send_next = work->next;
    work->next = NULL;
    channel->link->sends--;
}

void kolo_channel_fail_sends(struct kolo_channel *channel, kolo_status why)
{
    struct kolo_link *link = channel->link;
    kolo_channel_unready(channel);
    while (channel->send_first) {
        struct kolo_work *work = channel->send_first;
        kolo_channel_remove_send(channel, work);
        if ((work->frames_out > 0 || work->is_remote) && link->transport->withdraw)
            link->transport->withdraw(link, work);
        work->frames_out = 0;
        kolo_work_end(work, why);
    }
}

/* ---- receives ---- */

void kolo_channel_add_receive(struct kolo_channel *channel, struct kolo_work *work)
{
    append(&channel->recv_first, &channel->recv_last, work);
    work->number = channel->receives_posted++;
    channel->link->receives++;
}

void kolo_channel_remove_receive(struct kolo_channel *channel, struct kolo_work *work)
{
    if (!cut_out(&channel->recv_first, &channel->recv_last, work))
        return;
    work->next = NULL;
    channel->link->receives--;
    channel->link->turns -= work->has_turn;
    work->has_turn = false;
    if (channel->link->sink.work == work)
        kolo_sink_drop(&channel->link->sink);
    if (work->is_lent) {
        work->is_lent = false;
        channel->link->transport->take_back(channel->link, work);
    }
}

void kolo_channel_fail_receives(struct kolo_channel *channel, kolo_status why)
{
    channel->is_cut = channel->recv_first && channel->recv_first->has_turn;
    while (channel->recv_first) {
        struct kolo_work *work = channel->recv_first;
        kolo_channel_remove_receive(channel, work);
        kolo_work_end(work, why);
    }
}

void kolo_channel_fail(struct kolo_channel *channel, kolo_status why)
{
    kolo_channel_fail_sends(channel, why);
    kolo_channel_fail_receives(channel, why);
}

/* ---- early frames ---- */

struct kolo_stash *kolo_channel_take_stash(struct kolo_channel *channel)
{
    struct kolo_stash *stash = channel->stash_first;
    if (!stash)
        return NULL;
    channel->stash_first = stash->next;
    if (!channel->stash_first)
        channel->stash_last = NULL;
    return stash;
}

static void give_back(struct kolo_link *link, struct kolo_stash *stash)
{
    if (stash->is_remote)
        link->transport->release(link, stash->cookie);
    if (link->sink.stash == stash)
        kolo_sink_drop(&link->sink);
    kolo_free_memory(stash);
}

void kolo_channel_drop_stash(struct kolo_channel *channel)
{
    struct kolo_stash *stash;
    while ((stash = kolo_channel_take_stash(channel)) != NULL) {
        size_t cost = KOLO_FRAME_COST_BYTES + (stash->is_remote ? 0 : stash->bytes);
        bool is_arriving = channel->link->sink.stash == stash;
        give_back(channel->link, stash);
        if (!is_arriving) /* otherwise the end of its frame tells */
            kolo_channel_consumed(channel, cost);
    }
}

void kolo_channel_drop_unfinished(struct kolo_channel *channel)
{
    struct kolo_stash *stash = channel->stash_first;
    bool is_behind = channel->is_cut; /* part of a message that will never be complete */
    channel->stash_first = channel->stash_last = NULL;
    while (stash) {
        struct kolo_stash *next = stash->next;
        stash->next = NULL;
        is_behind |= stash->turn_of != NULL;
        if (stash->is_remote || !stash->is_complete || is_behind) {
            give_back(channel->link, stash);
        } else if (!channel->stash_last) {
            channel->stash_first = channel->stash_last = stash;
        } else {
            channel->stash_last->next = stash;
            channel->stash_last = stash;
        }
        stash = next;
    }
}
