// SPDX-License-Identifier: Apache-2.0
// The outgoing direction of a link: cuts messages into frames, fairly between channels, within the
// credit that the peer gave. Must never hand over a byte without credit, and never touch a work
// after its last frame is done.
//
// Order: control frames (aborts and the transport's own, credit), then one frame of each ready
// channel in turn, then, when no send is left, goodbye. A frame has at most segment_bytes and at
// most a quarter of the peer's credit (four segments once the peer has said that it has room for
// the whole message). Except at the end of a message it is a multiple of 16 bytes, so no element is
// ever split. If less than an eighth of the credit is left, the channel waits instead of sending
// tiny frames.
#include <string.h>

#include "base/alloc.h"
#include "base/wire.h"
#include "transport/core.h"

enum { LONG_FRAME_SEGMENTS = 4 };

static size_t frame_bytes_max(const struct kolo_channel *channel)
{
    const struct kolo_link *link = channel->link;
    size_t segment = kolo_link_settings(link)->segment_bytes;
    size_t bytes = channel->credit > link->credit_bytes
                       ? segment * LONG_FRAME_SEGMENTS
                       : kolo_min_bytes(segment, link->credit_bytes / 4);
    return bytes & ~(size_t)(KOLO_FRAME_STEP_BYTES - 1);
}

/* How much payload the credit of @p channel allows for the next frame. False: it must wait. */
static bool frame_within_credit(const struct kolo_channel *channel, size_t *bytes_out)
{
    const struct kolo_work *work = channel->send_next;
    if (channel->credit < KOLO_FRAME_COST_BYTES)
        return false;
    size_t room = channel->credit - KOLO_FRAME_COST_BYTES;
    size_t left = work->bytes - work->bytes_taken;
    if (work->is_remote) {
        *bytes_out = left;
        return true;
    }
    size_t wanted = kolo_min_bytes(left, frame_bytes_max(channel));
    if (wanted > room) {
        room &= ~(size_t)(KOLO_FRAME_STEP_BYTES - 1);
        if (room < kolo_min_bytes(wanted, channel->link->credit_bytes / 8))
            return false;
        wanted = room;
    }
    *bytes_out = wanted;
    return true;
}

void kolo_channel_wake(struct kolo_channel *channel)
{
    struct kolo_link *link = channel->link;
    struct kolo_work *work = channel->send_next;
    size_t unused;
    if (channel->is_ready || !work || link->state != KOLO_LINK_UP)
        return;
    if (work->bytes_taken == 0 && link->transport->is_remote)
        work->is_remote = link->transport->is_remote(link, work);
    if (!frame_within_credit(channel, &unused))
        return;
    channel->is_ready = true;
    channel->ready_next = NULL;
    if (link->ready_last)
        link->ready_last->ready_next = channel;
    else
        link->ready_first = channel;
    link->ready_last = channel;
}

void kolo_channel_unready(struct kolo_channel *channel)
{
    struct kolo_link *link = channel->link;
    struct kolo_channel *before = NULL;
    if (!channel->is_ready)
        return;
    for (struct kolo_channel *at = link->ready_first; at != channel; at = at->ready_next)
        before = at;
    if (before)
        before->ready_next = channel->ready_next;
    else
        link->ready_first = channel->ready_next;
    if (link->ready_last == channel)
        link->ready_last = before;
    channel->is_ready = false;
}

void kolo_link_reconsider(struct kolo_link *link, uint32_t id)
{
    struct kolo_channel *channel = kolo_map_get(&link->channels, id);
    if (!channel || !channel->is_ready)
        return;
    kolo_channel_unready(channel);
    kolo_channel_wake(channel);
}

kolo_status kolo_channel_credit(struct kolo_channel *channel, uint64_t bytes)
{
    const struct kolo_work *work = channel->send_next;
    uint64_t limit = channel->link->credit_bytes;
    if (channel->tx_fault != KOLO_OK) /* may be for what was cancelled; nothing is sent */
        return KOLO_OK;
    if (work && work->bytes_taken > 0)
        limit += work->bytes - work->bytes_taken; /* the peer has room for all of that */
    if (channel->credit > limit || bytes > limit - channel->credit)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "rank %d returned %llu bytes of credit on channel %u, more than were used",
                         channel->link->peer, (unsigned long long)bytes, channel->id);
    channel->credit += bytes;
    kolo_channel_wake(channel);
    return KOLO_OK;
}

/* ---- control frames ---- */

static void control_frame(struct kolo_frame *frame, uint8_t type, const void *payload, size_t bytes)
{
    *frame = (struct kolo_frame){.payload = payload, .bytes = bytes};
    frame->header.channel = KOLO_CHANNEL_CONTROL;
    frame->header.bytes = (uint32_t)bytes;
    frame->header.desc.bytes[0] = type;
}

static void take_credit(struct kolo_link *link, struct kolo_frame *frame)
{
    struct kolo_channel *channel = link->owing_first;
    link->owing_first = channel->owing_next;
    if (!link->owing_first)
        link->owing_last = NULL;
    channel->is_owing = false;
    control_frame(frame, KOLO_CONTROL_CREDIT, NULL, 0);
    struct kolo_writer writer = kolo_writer_over(frame->header.desc.bytes + 4, 12);
    kolo_write_u32(&writer, channel->id);
    kolo_write_u64(&writer, channel->owed + channel->ahead);
    channel->charged -= channel->owed;
    channel->owed = channel->ahead = 0;
}

static bool take_control(struct kolo_link *link, size_t max_bytes, struct kolo_frame *frame)
{
    struct kolo_control *control = link->control_first;
    if (control->header.bytes > max_bytes)
        return false;
    link->control_first = control->next;
    if (!link->control_first)
        link->control_last = NULL;
    *frame = (struct kolo_frame){.header = control->header,
                                 .payload = control->payload,
                                 .bytes = control->header.bytes,
                                 .control = control};
    return true;
}

kolo_status kolo_link_queue_control(struct kolo_link *link, const struct kolo_desc *desc,
                                    const void *payload, size_t bytes)
{
    struct kolo_control *control = kolo_calloc(1, sizeof *control + bytes);
    if (!control)
        return KOLO_ERR_NO_MEMORY;
    control->header = (struct kolo_header){KOLO_CHANNEL_CONTROL, (uint32_t)bytes, *desc};
    if (bytes > 0)
        memcpy(control->payload, payload, bytes);
    if (link->control_last)
        link->control_last->next = control;
    else
        link->control_first = control;
    link->control_last = control;
    return KOLO_OK;
}

kolo_status kolo_link_send_control(struct kolo_link *link, const struct kolo_desc *desc,
                                   const void *payload, size_t bytes)
{
    if (bytes > KOLO_CONTROL_BYTES_MAX || desc->bytes[0] < KOLO_CONTROL_TRANSPORT)
        return kolo_fail(KOLO_ERR_INTERNAL, "a control frame of type %u with %zu bytes",
                         desc->bytes[0], bytes);
    return kolo_link_queue_control(link, desc, payload, bytes);
}

/* ---- frames ---- */

bool kolo_link_has_frames(const struct kolo_link *link)
{
    return link->state == KOLO_LINK_UP && !link->said_goodbye &&
           (link->control_first || link->owing_first || link->ready_first ||
            (link->owes_goodbye && link->sends == 0));
}

static bool take_data(struct kolo_link *link, size_t max_bytes, struct kolo_frame *frame)
{
    struct kolo_channel *channel = link->ready_first;
    struct kolo_work *work = channel->send_next;
    size_t bytes = 0;
    if (!frame_within_credit(channel, &bytes))
        return false; /* cannot happen: a channel in the ready list has a frame */
    if (!work->is_remote && bytes > max_bytes) {
        bytes = max_bytes & ~(size_t)(KOLO_FRAME_STEP_BYTES - 1);
        if (bytes == 0)
            return false;
    }
    *frame = (struct kolo_frame){.payload = bytes > 0 ? work->src + work->bytes_taken : NULL,
                                 .bytes = bytes,
                                 .is_remote = work->is_remote,
                                 .work = work};
    frame->header.channel = channel->id;
    frame->header.bytes = work->is_remote ? 0 : (uint32_t)bytes;
    frame->header.desc = work->desc;

    work->bytes_taken += bytes;
    work->frames_out++;
    channel->credit -= KOLO_FRAME_COST_BYTES + frame->header.bytes;
    if (work->bytes_taken == work->bytes) {
        work->is_taken = true;
        channel->send_next = work->next;
    }
    kolo_channel_unready(channel);
    kolo_channel_wake(channel);
    link->bytes_sent += bytes;
    return true;
}

bool kolo_link_next_frame(struct kolo_link *link, size_t max_bytes, struct kolo_frame *frame_out)
{
    if (!kolo_link_has_frames(link))
        return false;
    if (link->control_first)
        return take_control(link, max_bytes, frame_out);
    else if (link->owing_first)
        take_credit(link, frame_out);
    else if (link->ready_first)
        return take_data(link, max_bytes, frame_out);
    else {
        control_frame(frame_out, KOLO_CONTROL_GOODBYE, NULL, 0);
        link->owes_goodbye = false;
        link->said_goodbye = true;
    }
    return true;
}

/** Moves the first channel other than @p id that has a frame to the front; remote frames do not
 *  count. False: there is none. */
static bool bring_other(struct kolo_link *link, uint32_t id)
{
    struct kolo_channel *channel = link->ready_first;
    while (channel && (channel->id == id || channel->send_next->is_remote))
        channel = channel->ready_next;
    if (!channel || channel == link->ready_first)
        return channel != NULL;
    kolo_channel_unready(channel);
    channel->is_ready = true;
    channel->ready_next = link->ready_first;
    link->ready_first = channel;
    return true;
}

bool kolo_link_next_frame_beside(struct kolo_link *link, uint32_t id, size_t max_bytes,
                                 struct kolo_frame *frame_out)
{
    const bool has_others = link->control_first || link->owing_first;
    return (has_others || bring_other(link, id)) &&
           kolo_link_next_frame(link, max_bytes, frame_out);
}

bool kolo_link_frame_done(struct kolo_link *link, const struct kolo_frame *frame)
{
    struct kolo_work *work = frame->work;
    kolo_free_memory(frame->control);
    if (!work || link->state == KOLO_LINK_DOWN)
        return false;
    work->bytes_done += frame->bytes;
    work->frames_out--;
    if (!work->is_taken || work->frames_out > 0)
        return false;
    struct kolo_channel *channel = kolo_map_get(&link->channels, work->channel);
    kolo_channel_remove_send(channel, work);
    kolo_work_end(work, KOLO_OK);
    return true;
}

bool kolo_link_push(struct kolo_link *link)
{
    if (link->state != KOLO_LINK_UP || link->is_pushing)
        return false;
    link->is_pushing = true;
    bool moved = link->transport->push(link);
    link->is_pushing = false;
    return moved;
}
