// SPDX-License-Identifier: Apache-2.0
// Makes and verifies the checksums of frames (checksum.h), and says what was changed and where to
// look. Must never read a field of a header that was not verified.
#include "transport/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/core.h"

enum {
    SUMMED_BYTES = KOLO_HEADER_BYTES + (int)sizeof(uint64_t)
}; /* what the header's sum covers */

kolo_status kolo_sums_open(struct kolo_link *link)
{
    if (!kolo_link_settings(link)->checksum)
        return KOLO_OK;
    link->sums = kolo_aligned(KOLO_CHECKSUM_ALIGNMENT, sizeof *link->sums);
    if (!link->sums)
        return KOLO_ERR_NO_MEMORY;
    link->header_bytes = KOLO_HEADER_BYTES_MAX;
    return KOLO_OK;
}

/* ---- headers ---- */

static void append_sums(const struct kolo_frame *frame, uint8_t out[KOLO_HEADER_BYTES_MAX])
{
    struct kolo_writer writer =
        kolo_writer_over(out + KOLO_HEADER_BYTES, KOLO_HEADER_BYTES_MAX - KOLO_HEADER_BYTES);
    kolo_write_u64(&writer, kolo_checksum_of(frame->payload, frame->header.bytes));
    kolo_write_u64(&writer, kolo_checksum_of(out, SUMMED_BYTES));
}

void kolo_frame_pack(const struct kolo_link *link, const struct kolo_frame *frame,
                     uint8_t out[KOLO_HEADER_BYTES_MAX])
{
    kolo_header_pack(&frame->header, out);
    if (link->sums)
        append_sums(frame, out);
}

/* ---- what to say ---- */

/** Which way the bytes went: "tcp 10.0.0.5:4711 (10.0.0.4:1234 to 10.0.0.5:4711 by eth0, ...)". */
static void say_way(const struct kolo_link *link, char *text, size_t capacity)
{
    char place[256] = "", path[256] = "";
    if (link->transport->describe)
        link->transport->describe(link, place, sizeof place);
    if (link->transport->explain)
        link->transport->explain(link, path, sizeof path);
    const bool says_more = path[0] != '\0' && strcmp(place, path) != 0;
    snprintf(text, capacity, "%s%s%s%s", place[0] != '\0' ? place : link->transport->name,
             says_more ? " (" : "", says_more ? path : "", says_more ? ")" : "");
}

static kolo_status differs(const struct kolo_link *link, const char *what, uint64_t sent,
                           uint64_t here)
{
    char way[400];
    say_way(link, way, sizeof way);
    return kolo_fail(KOLO_ERR_DATA,
                     "%s changed on the way here, over %s: the checksum was %016" PRIx64
                     " and is %016" PRIx64
                     " (a network card, a switch or memory corrupts data, unless the program wrote "
                     "to the buffer during the call: run kolobench diagnose, and look at dmesg, "
                     "ethtool -S and memory errors on both hosts)",
                     what, way, sent, here);
}

static void say_call(const struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                     char *text, size_t capacity)
{
    const struct kolo_endpoint_events *events = &link->endpoint->config.events;
    snprintf(text, capacity, "channel %u", channel);
    if (events->words)
        events->words(events->context, channel, desc, text, capacity);
}

/** Where a frame that is waiting for its receive begins in its message, if no part of it went
 *  elsewhere. */
static size_t stashed_before(const struct kolo_channel *channel, const struct kolo_stash *stash)
{
    size_t bytes = 0;
    for (const struct kolo_stash *at = channel->stash_first; at && at != stash; at = at->next)
        if (memcmp(&at->desc, &stash->desc, sizeof at->desc) == 0)
            bytes += at->bytes;
    return bytes;
}

/** Says which bytes of what the frame was that has arrived. */
static void say_frame(const struct kolo_link *link, char *text, size_t capacity)
{
    const struct kolo_header *header = &link->rx_header;
    const struct kolo_sink *sink = &link->sink;
    char call[320];
    if (header->channel == KOLO_CHANNEL_CONTROL) {
        snprintf(text, capacity, "the %u bytes of a control frame (type %u)", header->bytes,
                 header->desc.bytes[0]);
        return;
    }
    say_call(link, header->channel, &header->desc, call, sizeof call);
    if (sink->work)
        snprintf(text, capacity, "%u bytes from byte %zu on, in a message of %zu bytes of %s,",
                 header->bytes, sink->work->bytes_done - header->bytes, sink->work->bytes, call);
    else if (sink->stash)
        snprintf(text, capacity, "%u bytes from byte %zu on, in a message of %s that came early,",
                 header->bytes, stashed_before(link->rx_channel, sink->stash), call);
    else
        snprintf(text, capacity, "%u bytes in a message of %s, for which nobody waits any more,",
                 header->bytes, call);
}

/* ---- what arrives ---- */

static kolo_status verify_header(const struct kolo_link *link, const uint8_t *in)
{
    struct kolo_reader reader =
        kolo_reader_over(in + KOLO_HEADER_BYTES, KOLO_HEADER_BYTES_MAX - KOLO_HEADER_BYTES);
    link->sums->in_sent = kolo_read_u64(&reader);
    const uint64_t sent = kolo_read_u64(&reader), here = kolo_checksum_of(in, SUMMED_BYTES);
    return sent == here ? KOLO_OK : differs(link, "the header of a frame", sent, here);
}

kolo_status kolo_frame_unpack(struct kolo_link *link, const uint8_t *in,
                              struct kolo_header *header_out)
{
    kolo_header_unpack(in, header_out);
    return !link->sums ? KOLO_OK : verify_header(link, in);
}

/* ---- blocks ---- */

static uint32_t sum_of_block(const uint8_t *block, size_t bytes)
{
    return (uint32_t)kolo_checksum_of(block, bytes - sizeof(uint32_t));
}

void kolo_block_seal(const struct kolo_link *link, uint8_t *block, size_t bytes)
{
    struct kolo_writer writer =
        kolo_writer_over(block + bytes - sizeof(uint32_t), sizeof(uint32_t));
    if (link->sums)
        kolo_write_u32(&writer, sum_of_block(block, bytes));
}

kolo_status kolo_block_verify(const struct kolo_link *link, uint8_t *block, size_t bytes)
{
    uint8_t *end = block + bytes - sizeof(uint32_t);
    struct kolo_reader reader = kolo_reader_over(end, sizeof(uint32_t));
    const uint32_t sent = kolo_read_u32(&reader);
    if (!link->sums)
        return KOLO_OK;
    if (sent != sum_of_block(block, bytes))
        return differs(link, "an RDMA handshake", sent, sum_of_block(block, bytes));
    memset(end, 0, sizeof(uint32_t));
    return KOLO_OK;
}

/* ---- payload ---- */

void kolo_sums_begin(struct kolo_link *link)
{
    kolo_checksum_begin(&link->sums->in);
    link->sink.sum = &link->sums->in;
}

kolo_status kolo_sums_verify(const struct kolo_link *link)
{
    const uint64_t here = kolo_checksum_end(&link->sums->in);
    char what[480];
    if (here == link->sums->in_sent)
        return KOLO_OK;
    say_frame(link, what, sizeof what);
    return differs(link, what, link->sums->in_sent, here);
}

kolo_status kolo_sums_verify_work(const struct kolo_link *link, const struct kolo_work *work,
                                  uint64_t sent)
{
    const uint64_t here = kolo_checksum_end(&link->sums->whole);
    char what[480], call[320];
    if (here == sent)
        return KOLO_OK;
    say_call(link, work->channel, &work->desc, call, sizeof call);
    snprintf(what, sizeof what, "some byte of a message of %zu bytes of %s", work->bytes, call);
    return differs(link, what, sent, here);
}
