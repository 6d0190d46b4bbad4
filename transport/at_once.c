// SPDX-License-Identifier: Apache-2.0
// Sends a short message, or takes one that is already there, without making a work for it. That is
// possible if nothing waits in the queues before it, because then the transport moves its single
// frame at once. Must never overtake a work or a frame that came before it, or take a frame that is
// incomplete or not the expected one. Must leave the channel as a work would (numbers, credit,
// counts of bytes). Whatever is not that simple is refused without any effect, and the caller posts
// a work.
#include <string.h>

#include "transport/core.h"

/** Longer messages gain nothing: moving their bytes costs more than a work. */
enum { AT_ONCE_BYTES = 4 << 10 };

static bool is_open(const struct kolo_link *link)
{
    return link->state == KOLO_LINK_UP && !link->heard_goodbye && !link->said_goodbye &&
           !link->owes_goodbye && !link->owes_left && !link->endpoint->is_closing;
}

static void pack(const struct kolo_channel *channel, const struct kolo_desc *desc, size_t bytes,
                 uint8_t header_out[KOLO_HEADER_BYTES])
{
    const struct kolo_header header = {
        .channel = channel->id, .bytes = (uint32_t)bytes, .desc = *desc};
    kolo_header_pack(&header, header_out);
}

/* ---- out ---- */

/** Whether the message fits into one frame as tx.c would cut it, and there is credit for that
 *  frame. */
static bool is_one_frame(const struct kolo_channel *channel, size_t bytes)
{
    const struct kolo_link *link = channel->link;
    return bytes <= AT_ONCE_BYTES && bytes <= kolo_link_settings(link)->segment_bytes &&
           bytes <= link->credit_bytes / 4 && channel->credit >= KOLO_FRAME_COST_BYTES + bytes;
}

bool kolo_link_send_at_once(struct kolo_link *link, uint32_t id, const struct kolo_desc *desc,
                            const void *src, size_t bytes)
{
    uint8_t header[KOLO_HEADER_BYTES];
    if (!link->transport->put || !is_open(link) || link->is_pushing || kolo_link_has_frames(link))
        return false;
    struct kolo_channel *channel = kolo_map_get(&link->channels, id);
    if (!channel || channel->send_first || channel->tx_fault != KOLO_OK ||
        !is_one_frame(channel, bytes))
        return false;
    pack(channel, desc, bytes, header);
    if (!link->transport->put(link, header, src, bytes))
        return false;
    channel->credit -= KOLO_FRAME_COST_BYTES + bytes;
    channel->sends_posted++;
    link->bytes_sent += bytes;
    return true;
}

/* ---- in ---- */

bool kolo_link_expect(struct kolo_link *link, uint32_t id, const struct kolo_desc *desc,
                      size_t bytes, struct kolo_expected *expected_out)
{
    if (!link->transport->take || !is_open(link))
        return false;
    struct kolo_channel *channel = kolo_map_get(&link->channels, id);
    if (!channel || channel->recv_first || channel->stash_first || channel->rx_fault != KOLO_OK ||
        channel->is_broken_off || channel->prepaid > 0)
        return false;
    const size_t window = kolo_link_settings(link)->credit_bytes;
    if (KOLO_FRAME_COST_BYTES + bytes > window - channel->charged)
        return false;
    expected_out->channel = channel;
    expected_out->bytes = bytes;
    pack(channel, desc, bytes, expected_out->header);
    return true;
}

kolo_status kolo_link_take(struct kolo_link *link, const struct kolo_expected *expected, void *dst)
{
    struct kolo_channel *channel = expected->channel;
    const size_t cost = KOLO_FRAME_COST_BYTES + expected->bytes;
    kolo_status status = link->transport->take(link, expected->header, dst, expected->bytes);
    if (status != KOLO_OK)
        return status;
    channel->charged += cost;
    channel->receives_posted++;
    link->bytes_received += expected->bytes;
    kolo_channel_consumed(channel, cost);
    if (link->owing_first)
        kolo_link_push(link);
    return KOLO_OK;
}
