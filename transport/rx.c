// SPDX-License-Identifier: Apache-2.0
// The incoming direction of a link: matches frames with receives, keeps early frames, returns
// credit. Every byte of a header is hostile here: nothing is allocated or written beyond what the
// channel's credit or the receive allows. With checksums (checksum.h) no frame counts as received
// before its own is verified.
//
// A channel cannot be used any more (rx_fault) once a message met a receive with another
// description, or a receive was cancelled. What arrives on it is dropped, and its credit is still
// returned, so that the peer can finish its sends.
//
// Nor can what follows a message that its sender took back be received (is_broken_off): it is
// dropped too. But the receives stay: why the sender took it back is told elsewhere.
//
// What arrives on a channel that was forgotten is dropped as well, and nothing is returned for it:
// a message that the peer sends although this rank has finalized the communicator. Credit for what
// this rank had sent there may come too.
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/wire.h"
#include "transport/checksum.h"
#include "transport/core.h"

/* ---- credit ---- */

static void owe(struct kolo_channel *channel)
{
    struct kolo_link *link = channel->link;
    if (channel->is_owing)
        return;
    channel->is_owing = true;
    channel->owing_next = NULL;
    if (link->owing_last)
        link->owing_last->owing_next = channel;
    else
        link->owing_first = channel;
    link->owing_last = channel;
}

void kolo_channel_consumed(struct kolo_channel *channel, size_t cost)
{
    channel->owed += cost;
    if (channel->owed >= kolo_link_settings(channel->link)->credit_bytes / 2)
        owe(channel);
}

/** Returns the credit for the rest of a message before it arrives, since it needs no memory of
 *  ours. */
static void prepay(struct kolo_channel *channel, size_t left)
{
    if (channel->prepaid > 0 || left < kolo_link_settings(channel->link)->credit_bytes / 2)
        return;
    channel->prepaid = left;
    channel->ahead += left; /* what is here already is of a message that arrived before it could be
                             * told */
    owe(channel);
}

static kolo_status charge(struct kolo_channel *channel, size_t cost)
{
    size_t window = kolo_link_settings(channel->link)->credit_bytes;
    if (cost > window - channel->charged)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "rank %d sent %zu bytes on channel %u beyond its credit of %zu",
                         channel->link->peer, cost, channel->id, window);
    channel->charged += cost;
    return KOLO_OK;
}

/* ---- matching ---- */

static void mismatch(struct kolo_channel *channel, struct kolo_work *work,
                     const struct kolo_desc *arrived)
{
    const struct kolo_endpoint_events *events = &channel->link->endpoint->config.events;
    struct kolo_desc expected = work->desc;
    channel->rx_fault = KOLO_ERR_MISMATCH;
    kolo_channel_fail_receives(channel, KOLO_ERR_MISMATCH);
    if (events->mismatch)
        events->mismatch(events->context, channel->link->peer, channel->id, &expected, arrived);
}

static kolo_status check_length(const struct kolo_channel *channel, const struct kolo_work *work,
                                size_t bytes, bool is_remote)
{
    size_t left = work->bytes - work->bytes_done;
    size_t step =
        work->action.kind == KOLO_REDUCE ? kolo_dtype_bytes(work->action.dtype) : (size_t)1;
    bool is_empty = bytes == 0 && work->bytes > 0;
    if (bytes <= left && !is_empty && bytes % step == 0 && (!is_remote || bytes == work->bytes))
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_PROTOCOL,
                     "rank %d sent %zu bytes on channel %u, where %zu of %zu were still expected",
                     channel->link->peer, bytes, channel->id, left, work->bytes);
}

/** Whether what arrives on the channel is dropped. */
static bool drops(const struct kolo_channel *channel)
{
    return channel->rx_fault != KOLO_OK || channel->is_broken_off;
}

/* Finds the receive that takes a frame: *work_out, or NULL if the frame is to be dropped. */
static kolo_status match(struct kolo_channel *channel, const struct kolo_desc *desc, size_t bytes,
                         bool is_remote, struct kolo_work **work_out)
{
    struct kolo_work *work = channel->recv_first;
    *work_out = NULL;
    if (drops(channel))
        return KOLO_OK;
    if (memcmp(desc, &work->desc, sizeof *desc) != 0) {
        mismatch(channel, work, desc);
        return KOLO_OK;
    }
    kolo_status status = check_length(channel, work, bytes, is_remote);
    if (status == KOLO_OK)
        *work_out = work;
    return status;
}

static void finish(struct kolo_channel *channel, struct kolo_work *work)
{
    if (work->bytes_done < work->bytes)
        return;
    kolo_channel_remove_receive(channel, work);
    kolo_work_end(work, KOLO_OK);
}

static void combine(struct kolo_work *work, const void *data, size_t bytes)
{
    struct kolo_sink sink;
    kolo_sink_to_work(&sink, work, bytes);
    kolo_sink_put(&sink, data, bytes);
}

/* Moves a frame that is in memory as a whole into @p work; NULL: drops it. */
static void absorb(struct kolo_channel *channel, struct kolo_work *work, const void *data,
                   size_t bytes)
{
    if (!work)
        return;
    combine(work, data, bytes);
    finish(channel, work);
}

static void absorb_remote(struct kolo_channel *channel, struct kolo_work *work, const void *data,
                          size_t bytes, uint64_t cookie)
{
    struct kolo_link *link = channel->link;
    if (work && link->transport->claim && !link->transport->claim(link, cookie)) {
        channel->is_broken_off = true;
        return;
    }
    if (work)
        combine(work, data, bytes);
    if (link->transport->release(link, cookie) && work) {
        finish(channel, work);
    } else if (work) { /* what was read is worthless */
        work->bytes_done -= bytes;
        channel->is_broken_off = true;
    }
}

/** The message of @p work is the next one in order: nothing else is until it is complete. */
static kolo_status take_turn(struct kolo_channel *channel, struct kolo_work *work)
{
    struct kolo_link *link = channel->link;
    kolo_channel_consumed(channel, KOLO_FRAME_COST_BYTES);
    if (channel->rx_fault != KOLO_OK)
        return KOLO_OK;
    if (channel->recv_first != work || (work->bytes_done > 0 && work->bytes_done < work->bytes))
        return kolo_fail(KOLO_ERR_PROTOCOL, "rank %d wrote a message of channel %u out of turn",
                         link->peer, channel->id);
    work->has_turn = true;
    link->turns++;
    link->bytes_received += work->bytes;
    finish(channel, work); /* if all of it arrived before its turn */
    return KOLO_OK;
}

static void deliver_turn(struct kolo_channel *channel, struct kolo_stash *stash)
{
    struct kolo_work *work = stash->turn_of;
    kolo_free_memory(stash);
    kolo_status status = take_turn(channel, work);
    if (status != KOLO_OK)
        kolo_link_set_down(channel->link, status);
}

static void deliver_one(struct kolo_channel *channel, struct kolo_stash *stash)
{
    struct kolo_link *link = channel->link;
    struct kolo_work *work;
    if (stash->turn_of) {
        deliver_turn(channel, stash);
        return;
    }
    size_t cost = KOLO_FRAME_COST_BYTES + (stash->is_remote ? 0 : stash->bytes);
    kolo_status status = match(channel, &stash->desc, stash->bytes, stash->is_remote, &work);
    if (stash->is_remote)
        absorb_remote(channel, work, stash->data, stash->bytes, stash->cookie);
    else
        absorb(channel, work, stash->payload, stash->bytes);
    kolo_free_memory(stash);
    kolo_channel_consumed(channel, cost);
    if (status != KOLO_OK)
        kolo_link_set_down(link, status);
}

/** Whether there is a receive for a frame that arrives now. Behind a message that has its turn
 *  there is none. */
static bool can_take(const struct kolo_channel *channel)
{
    return channel->recv_first && !channel->recv_first->has_turn;
}

void kolo_channel_deliver(struct kolo_channel *channel)
{
    bool delivered = false;
    while (channel->stash_first && channel->stash_first->is_complete &&
           (can_take(channel) || drops(channel))) {
        deliver_one(channel, kolo_channel_take_stash(channel));
        delivered = true;
    }
    const struct kolo_work *work = channel->recv_first;
    /* all early frames are delivered, so no frame is just being written directly into the
     * receive */
    if (delivered && !channel->stash_first && work && work->bytes_done > 0)
        prepay(channel, work->bytes - work->bytes_done);
}

/** Tells the runtime that a frame with this description waits for its receive. */
static void say_early(const struct kolo_channel *channel, const struct kolo_desc *desc)
{
    const struct kolo_endpoint_events *events = &channel->link->endpoint->config.events;
    if (events->early)
        events->early(events->context, channel->link->peer, channel->id, desc);
}

void kolo_channel_say_stashed(const struct kolo_channel *channel)
{
    const struct kolo_stash *first = channel->stash_first, *other = first->next;
    while (other && memcmp(&other->desc, &first->desc, sizeof first->desc) == 0)
        other = other->next;
    say_early(channel, &first->desc);
    if (other)
        say_early(channel, &other->desc);
}

/* Appends an early frame, with room for @p payload_bytes. */
static struct kolo_stash *add_stash(struct kolo_channel *channel, const struct kolo_desc *desc,
                                    size_t payload_bytes)
{
    struct kolo_stash *stash = kolo_aligned(_Alignof(max_align_t), sizeof *stash + payload_bytes);
    if (!stash)
        return NULL;
    *stash = (struct kolo_stash){.desc = *desc, .bytes = payload_bytes};
    if (channel->stash_last)
        channel->stash_last->next = stash;
    else
        channel->stash_first = stash;
    channel->stash_last = stash;
    return stash;
}

/* Whether a frame that begins now must queue behind others, or wait for a receive. */
static bool is_early(const struct kolo_channel *channel)
{
    return !drops(channel) && (channel->stash_first || !can_take(channel));
}

/* ---- control frames ---- */

static kolo_status heard_credit(struct kolo_link *link, struct kolo_reader *reader)
{
    uint32_t id = kolo_read_u32(reader);
    uint64_t bytes = kolo_read_u64(reader);
    struct kolo_channel *channel = kolo_map_get(&link->channels, id);
    if (!channel && kolo_forgotten_has(&link->endpoint->forgotten, id))
        return KOLO_OK;
    if (!channel)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "rank %d returned credit on channel %u, which was never used", link->peer,
                         id);
    return kolo_channel_credit(channel, bytes);
}

static void heard_abort(struct kolo_link *link, struct kolo_reader *reader)
{
    const struct kolo_endpoint_events *events = &link->endpoint->config.events;
    char text[KOLO_CONTROL_BYTES_MAX + 1];
    kolo_status why = kolo_read_i32(reader);
    uint32_t subject = kolo_read_u32(reader);
    if (why >= KOLO_OK || strcmp(kolo_status_name(why), "KOLO_?") == 0)
        why = KOLO_ERR_ABORTED;
    size_t bytes = link->rx_header.bytes;
    memcpy(text, link->rx_control, bytes);
    text[bytes] = '\0';
    kolo_text_clean_bytes(text, bytes);
    if (events->aborted)
        events->aborted(events->context, link->peer, subject, why, text);
}

static void heard_finalized(struct kolo_link *link, struct kolo_reader *reader)
{
    const struct kolo_endpoint_events *events = &link->endpoint->config.events;
    uint32_t subject = kolo_read_u32(reader), sequence = kolo_read_u32(reader);
    if (events->finalized)
        events->finalized(events->context, link->peer, subject, sequence);
}

static void heard_loan(struct kolo_link *link, uint8_t type, struct kolo_reader *reader)
{
    const struct kolo_endpoint_events *events = &link->endpoint->config.events;
    const uint64_t number = kolo_read_u64(reader);
    if (type == KOLO_CONTROL_RECALL && events->recalled)
        events->recalled(events->context, link->peer, number);
    else if (type == KOLO_CONTROL_RETURNED && events->returned)
        events->returned(events->context, link->peer, number);
}

static kolo_status heard_control(struct kolo_link *link)
{
    const struct kolo_header *header = &link->rx_header;
    uint8_t type = header->desc.bytes[0];
    struct kolo_reader reader =
        kolo_reader_over(header->desc.bytes + 4, sizeof header->desc.bytes - 4);
    if (type >= KOLO_CONTROL_TRANSPORT && link->transport->control)
        return link->transport->control(link, header, link->rx_control);
    if (type == KOLO_CONTROL_CREDIT && header->bytes == 0)
        return heard_credit(link, &reader);
    if (type == KOLO_CONTROL_ABORT) {
        heard_abort(link, &reader);
        return KOLO_OK;
    }
    if (type == KOLO_CONTROL_FINALIZED && header->bytes == 0) {
        heard_finalized(link, &reader);
        return KOLO_OK;
    }
    if ((type == KOLO_CONTROL_RECALL || type == KOLO_CONTROL_RETURNED) && header->bytes == 0) {
        heard_loan(link, type, &reader);
        return KOLO_OK;
    }
    if (type == KOLO_CONTROL_GOODBYE && header->bytes == 0) {
        kolo_link_left(link);
        return KOLO_OK;
    }
    return kolo_fail(KOLO_ERR_PROTOCOL,
                     "rank %d sent an unknown control frame (type %u, %u bytes): do all ranks run "
                     "the same version of kolo?",
                     link->peer, type, header->bytes);
}

static kolo_status begin_control(struct kolo_link *link, size_t bytes)
{
    if (bytes > KOLO_CONTROL_BYTES_MAX)
        return kolo_fail(KOLO_ERR_PROTOCOL, "rank %d sent a control frame of %zu bytes", link->peer,
                         bytes);
    kolo_sink_to_memory(&link->sink, link->rx_control, bytes);
    return KOLO_OK;
}

/* ---- frames ---- */

static kolo_status check_open(const struct kolo_link *link)
{
    if (link->state != KOLO_LINK_UP)
        return kolo_fail(KOLO_ERR_LINK, "a frame from rank %d on a link that is not up",
                         link->peer);
    if (link->heard_goodbye)
        return kolo_fail(KOLO_ERR_PROTOCOL, "rank %d sent a frame after its goodbye", link->peer);
    return KOLO_OK;
}

/* The channel of an arriving frame, which is charged for the frame and for those of its @p bytes
 * that are not prepaid. */
static kolo_status open_channel(struct kolo_link *link, const struct kolo_header *header,
                                size_t bytes, struct kolo_channel **channel_out)
{
    struct kolo_channel *channel = kolo_channel_of(link, header->channel);
    if (!channel)
        return link->channels.count >= KOLO_CHANNELS_MAX ? KOLO_ERR_PROTOCOL : KOLO_ERR_NO_MEMORY;
    *channel_out = channel;
    link->rx_prepaid = kolo_min_bytes(bytes, channel->prepaid);
    channel->prepaid -= link->rx_prepaid;
    return charge(channel, KOLO_FRAME_COST_BYTES + bytes - link->rx_prepaid);
}

static bool is_forgotten(const struct kolo_link *link, uint32_t id)
{
    return !kolo_map_get(&link->channels, id) && kolo_forgotten_has(&link->endpoint->forgotten, id);
}

bool kolo_link_is_early(const struct kolo_link *link, const struct kolo_header *header)
{
    if (header->channel == KOLO_CHANNEL_CONTROL || link->state != KOLO_LINK_UP ||
        link->heard_goodbye)
        return false;
    const struct kolo_channel *channel = kolo_map_get(&link->channels, header->channel);
    return channel ? is_early(channel) : !is_forgotten(link, header->channel);
}

static kolo_status begin_frame(struct kolo_link *link, const struct kolo_header *header)
{
    struct kolo_channel *channel = NULL;
    struct kolo_work *work = NULL;
    kolo_status status = KOLO_OK;
    link->rx_channel = NULL;
    kolo_sink_to_memory(&link->sink, NULL, header->bytes);
    KOLO_TRY(check_open(link));
    link->rx_header = *header;
    if (header->channel == KOLO_CHANNEL_CONTROL)
        return begin_control(link, header->bytes);
    if (is_forgotten(link, header->channel))
        return KOLO_OK;
    KOLO_TRY(open_channel(link, header, header->bytes, &channel));
    link->rx_channel = channel;
    link->bytes_received += header->bytes;
    if (is_early(channel)) {
        struct kolo_stash *stash = add_stash(channel, &header->desc, header->bytes);
        if (!stash)
            return KOLO_ERR_NO_MEMORY;
        kolo_sink_to_stash(&link->sink, stash);
        say_early(channel, &header->desc);
        return KOLO_OK;
    }
    KOLO_TRY(match(channel, &header->desc, header->bytes, false, &work));
    if (work) {
        kolo_sink_to_work(&link->sink, work, header->bytes);
        prepay(channel, work->bytes - work->bytes_done - header->bytes);
    }
out:
    return status;
}

kolo_status kolo_link_rx_begin(struct kolo_link *link, const struct kolo_header *header)
{
    kolo_status status = begin_frame(link, header);
    if (link->sums)
        kolo_sums_begin(link);
    return status;
}

kolo_status kolo_link_rx_end(struct kolo_link *link)
{
    struct kolo_sink *sink = &link->sink;
    struct kolo_channel *channel = link->rx_channel;
    if (link->state != KOLO_LINK_UP)
        return KOLO_OK;
    if (sink->left > 0)
        return kolo_fail(KOLO_ERR_INTERNAL, "a frame from rank %d ended %zu bytes early",
                         link->peer, sink->left);
    if (link->sums) {
        kolo_status status = kolo_sums_verify(link);
        if (status != KOLO_OK)
            return status;
    }
    if (!channel && link->rx_header.channel == KOLO_CHANNEL_CONTROL)
        return heard_control(link);
    if (!channel)
        return KOLO_OK; /* forgotten */
    struct kolo_work *work = sink->work;
    struct kolo_stash *stash = sink->stash;
    kolo_sink_drop(sink);
    if (stash) {
        stash->is_complete = true;
        kolo_channel_deliver(channel);
        return KOLO_OK;
    }
    if (work)
        finish(channel, work);
    kolo_channel_consumed(channel,
                          KOLO_FRAME_COST_BYTES + link->rx_header.bytes - link->rx_prepaid);
    return KOLO_OK;
}

kolo_status kolo_link_rx_remote(struct kolo_link *link, const struct kolo_header *header,
                                const void *data, size_t bytes, uint64_t cookie)
{
    struct kolo_channel *channel = NULL;
    struct kolo_work *work = NULL;
    kolo_status status = check_open(link);
    if (status == KOLO_OK && header->channel == KOLO_CHANNEL_CONTROL)
        status = kolo_fail(KOLO_ERR_PROTOCOL,
                           "rank %d sent a control frame as memory to read in place", link->peer);
    if (status == KOLO_OK && is_forgotten(link, header->channel)) {
        link->transport->release(link, cookie);
        return KOLO_OK;
    }
    if (status == KOLO_OK)
        status = open_channel(link, header, 0, &channel);
    if (status == KOLO_OK && is_early(channel)) {
        struct kolo_stash *stash = add_stash(channel, &header->desc, 0);
        if (stash) {
            stash->bytes = bytes;
            stash->data = data;
            stash->cookie = cookie;
            stash->is_complete = stash->is_remote = true;
            link->bytes_received += bytes;
            say_early(channel, &header->desc);
            return KOLO_OK;
        }
        status = KOLO_ERR_NO_MEMORY;
    }
    if (status == KOLO_OK)
        status = match(channel, &header->desc, bytes, true, &work);
    if (status != KOLO_OK) {
        link->transport->release(link, cookie);
        return status;
    }
    link->bytes_received += bytes;
    absorb_remote(channel, work, data, bytes, cookie);
    kolo_channel_consumed(channel, KOLO_FRAME_COST_BYTES);
    return KOLO_OK;
}

kolo_status kolo_link_rx_turn(struct kolo_link *link, struct kolo_work *work)
{
    struct kolo_channel *channel = NULL;
    const struct kolo_header header = {.channel = work->channel};
    kolo_status status = check_open(link);
    if (status == KOLO_OK)
        status = open_channel(link, &header, 0, &channel);
    if (status != KOLO_OK)
        return status;
    if (!is_early(channel))
        return take_turn(channel, work);
    struct kolo_stash *stash = add_stash(channel, &work->desc, 0);
    if (!stash)
        return KOLO_ERR_NO_MEMORY;
    stash->turn_of = work;
    stash->is_complete = true;
    return KOLO_OK;
}

void kolo_link_rx_whole(struct kolo_link *link, struct kolo_work *work)
{
    struct kolo_channel *channel = kolo_map_get(&link->channels, work->channel);
    work->bytes_done = work->bytes;
    if (!work->has_turn)
        return; /* its turn waits for what came before it */
    finish(channel, work);
    kolo_channel_deliver(channel);
    kolo_link_look_left(link);
}
