// SPDX-License-Identifier: Apache-2.0
// Moves frames of the core in and out of the rings of an open link, and lends kolo_alloc memory.
// Must never block or spin: what does not fit waits until the reader rings the bell. Every record
// of the peer is hostile.
#include "transport/shm.h"

#include <string.h>

/* How many records one pull takes at most, so that one busy link does not starve the others. */
enum { PULL_RECORDS_MAX = 256 };

/* ---- out ---- */

bool kolo_shm_is_remote(struct kolo_link *base, const struct kolo_work *work)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    const struct kolo_endpoint_config *config = kolo_endpoint_config_of(base->endpoint);
    struct kolo_span span;
    if (!config->heap || work->bytes == 0 || work->bytes < config->settings->shm_direct_bytes ||
        !kolo_heap_find(config->heap, work->src, work->bytes, &span))
        return false;
    base->signal_seen = KOLO_SHM_ALWAYS_LOOK; // to see what becomes of the loan
    uint64_t offset = span.file_offset + (uint64_t)(work->src - (const uint8_t *)span.base);
    return kolo_shm_lender_promise(&link->lender, link->watch.fd, &span, offset, work);
}

static kolo_status put_frame(struct kolo_shm_link *link, const struct kolo_frame *frame)
{
    uint8_t header[KOLO_HEADER_BYTES], descriptor[KOLO_SHM_DESCRIPTOR_BYTES];
    kolo_header_pack(&frame->header, header);
    if (!frame->is_remote) {
        kolo_shm_writer_put(&link->writer, KOLO_SHM_RECORD_FRAME, header, frame->payload,
                            frame->bytes);
        return KOLO_OK;
    }
    kolo_status status = kolo_shm_lender_offer(&link->lender, frame, descriptor);
    if (status == KOLO_OK)
        kolo_shm_writer_put(&link->writer, KOLO_SHM_RECORD_LOAN, header, descriptor,
                            sizeof descriptor);
    return status;
}

bool kolo_shm_push(struct kolo_link *base)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    size_t longest = kolo_shm_record_max(link->writer.capacity);
    kolo_status status = KOLO_OK;
    struct kolo_frame frame;
    bool moved = false;
    while (status == KOLO_OK && kolo_link_has_frames(base)) {
        status = kolo_shm_writer_room(&link->writer, longest);
        if (status != KOLO_OK || !kolo_link_next_frame(base, longest, &frame))
            break;
        status = put_frame(link, &frame);
        if (status != KOLO_OK)
            break;
        kolo_shm_bell_ring(&link->bell);
        if (!frame.is_remote)
            kolo_link_frame_done(base, &frame);
        moved = true;
    }
    if (status != KOLO_OK && status != KOLO_AGAIN)
        kolo_shm_end(link, status);
    return moved;
}

bool kolo_shm_put(struct kolo_link *base, const uint8_t header[KOLO_HEADER_BYTES],
                  const void *payload, size_t bytes)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    if (bytes > kolo_shm_record_max(link->writer.capacity) ||
        bytes >= kolo_endpoint_config_of(base->endpoint)->settings->shm_direct_bytes ||
        kolo_shm_writer_room(&link->writer, bytes) != KOLO_OK)
        return false;
    kolo_shm_writer_put(&link->writer, KOLO_SHM_RECORD_FRAME, header, payload, bytes);
    kolo_shm_bell_ring(&link->bell);
    return true;
}

void kolo_shm_withdraw(struct kolo_link *base, struct kolo_work *work)
{
    kolo_shm_lender_withdraw(&kolo_shm_link_of(base)->lender, work);
}

void kolo_shm_span_gone(struct kolo_link *base, uint64_t id)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    if (link->state != KOLO_SHM_OPEN)
        return;
    kolo_shm_lender_forget(&link->lender, id);
    kolo_shm_lender_tell(&link->lender, link->watch.fd);
}

/** Completes the sends whose memory the peer has read. */
static bool collect(struct kolo_shm_link *link)
{
    struct kolo_frame frame;
    bool moved = false;
    while (kolo_shm_lender_collect(&link->lender, &frame)) {
        if (frame.work)
            kolo_link_frame_done(&link->base, &frame);
        moved = true;
    }
    if (link->lender.gone_count > 0)
        kolo_shm_lender_tell(&link->lender, link->watch.fd);
    return moved;
}

/* ---- in ---- */

/** Puts one piece of a payload into the link's sink. */
static kolo_status feed(struct kolo_link *base, const struct kolo_shm_piece *piece)
{
    size_t done = 0, bytes;
    while (done < piece->bytes) {
        uint8_t *room = kolo_sink_room(&base->sink, &bytes);
        if (room) {
            bytes = bytes < piece->bytes - done ? bytes : piece->bytes - done;
            memcpy(room, piece->at + done, bytes);
            kolo_sink_stored(&base->sink, bytes);
        } else {
            bytes = kolo_sink_put(&base->sink, piece->at + done, piece->bytes - done);
        }
        if (bytes == 0)
            return kolo_fail(KOLO_ERR_PROTOCOL, "a frame of %zu bytes ends within an element",
                             piece->bytes);
        done += bytes;
    }
    return KOLO_OK;
}

static kolo_status receive_frame(struct kolo_shm_link *link, const struct kolo_header *header,
                                 const struct kolo_shm_record *record)
{
    kolo_status status;
    if (header->bytes != record->bytes)
        return kolo_fail(KOLO_ERR_PROTOCOL, "a frame of %u bytes in a record of %u", header->bytes,
                         record->bytes);
    // A goodbye fails the works that are still under way, so first take what the peer had read
    // before it.
    if (header->channel == KOLO_CHANNEL_CONTROL)
        collect(link);
    KOLO_TRY(kolo_link_rx_begin(&link->base, header));
    KOLO_TRY(feed(&link->base, &record->pieces[0]));
    KOLO_TRY(feed(&link->base, &record->pieces[1]));
    status = kolo_link_rx_end(&link->base);
out:
    return status;
}

static kolo_status receive_loan(struct kolo_shm_link *link, const struct kolo_header *header,
                                const struct kolo_shm_record *record)
{
    struct kolo_shm_borrowed borrowed;
    uint8_t descriptor[KOLO_SHM_DESCRIPTOR_BYTES];
    if (record->bytes != sizeof descriptor)
        return kolo_fail(KOLO_ERR_PROTOCOL, "a descriptor of %u bytes", record->bytes);
    memcpy(descriptor, record->pieces[0].at, sizeof descriptor); // within a line, so one piece
    kolo_status status = kolo_shm_borrower_take(&link->borrower, descriptor, &borrowed);
    if (status == KOLO_AGAIN) { // announced before the record, but the ring was read first
        status = kolo_shm_read_socket(link);
        if (status != KOLO_OK && status != KOLO_ERR_LINK)
            return status;
        status = kolo_shm_borrower_take(&link->borrower, descriptor, &borrowed);
    }
    if (status == KOLO_AGAIN)
        return kolo_fail(KOLO_ERR_PROTOCOL, "a descriptor names a span that was never passed");
    if (status != KOLO_OK)
        return status;
    return kolo_link_rx_remote(&link->base, header, borrowed.data, borrowed.bytes, borrowed.slot);
}

bool kolo_shm_claim(struct kolo_link *base, uint64_t cookie)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    if (kolo_shm_borrower_claim(&link->borrower, (uint32_t)cookie))
        return true;
    kolo_shm_bell_ring(&link->bell);
    return false;
}

bool kolo_shm_release(struct kolo_link *base, uint64_t cookie)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    bool is_valid = kolo_shm_borrower_release(&link->borrower, (uint32_t)cookie);
    kolo_shm_bell_ring(&link->bell);
    return is_valid;
}

static kolo_status receive(struct kolo_shm_link *link, const struct kolo_shm_record *record)
{
    struct kolo_header header;
    kolo_header_unpack(record->header, &header);
    if (record->kind == KOLO_SHM_RECORD_FRAME)
        return receive_frame(link, &header, record);
    if (record->kind == KOLO_SHM_RECORD_LOAN)
        return receive_loan(link, &header, record);
    return kolo_fail(KOLO_ERR_PROTOCOL, "a record of unknown kind %u", record->kind);
}

/** Takes up to @p max records. KOLO_AGAIN: there are no more. */
static kolo_status receive_some(struct kolo_shm_link *link, int max, bool *moved)
{
    struct kolo_shm_record record;
    for (int i = 0; i < max && link->state == KOLO_SHM_OPEN; i++) {
        kolo_status status = kolo_shm_reader_peek(&link->reader, &record);
        if (status == KOLO_OK)
            status = receive(link, &record);
        if (status != KOLO_OK)
            return status;
        *moved = true;
        if (kolo_shm_reader_pop(&link->reader, &record))
            kolo_shm_bell_ring(&link->bell);
    }
    return KOLO_OK;
}

kolo_status kolo_shm_take(struct kolo_link *base, const uint8_t header[KOLO_HEADER_BYTES],
                          void *dst, size_t bytes)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    struct kolo_shm_record record;
    if (base->signal_seen == KOLO_SHM_ALWAYS_LOOK)
        return KOLO_ERR_NOT_FOUND;
    if (atomic_load(base->signal) == 0)
        return KOLO_AGAIN;
    if (kolo_shm_reader_peek(&link->reader, &record) != KOLO_OK ||
        record.kind != KOLO_SHM_RECORD_FRAME || record.bytes != bytes ||
        memcmp(record.header, header, KOLO_HEADER_BYTES) != 0)
        return KOLO_ERR_NOT_FOUND;
    if (bytes > 0) {
        const size_t first = record.pieces[0].bytes;
        memcpy(dst, record.pieces[0].at, first);
        memcpy((uint8_t *)dst + first, record.pieces[1].at, bytes - first);
    }
    if (kolo_shm_reader_pop(&link->reader, &record))
        kolo_shm_bell_ring(&link->bell);
    base->signal = kolo_shm_reader_word(&link->reader);
    return KOLO_OK;
}

bool kolo_shm_pull(struct kolo_link *base)
{
    struct kolo_shm_link *link = kolo_shm_link_of(base);
    if (link->state != KOLO_SHM_OPEN)
        return false;
    bool moved = link->lender.taken != 0 && collect(link);
    kolo_status status = receive_some(link, PULL_RECORDS_MAX, &moved);
    if (status != KOLO_OK && status != KOLO_AGAIN)
        kolo_shm_end(link, status);
    base->signal = kolo_shm_reader_word(&link->reader);
    base->signal_seen = link->lender.taken == 0 ? 0 : KOLO_SHM_ALWAYS_LOOK;
    return moved;
}

void kolo_shm_drain(struct kolo_shm_link *link)
{
    kolo_status status = KOLO_OK;
    bool moved;
    collect(link);
    while (link->state == KOLO_SHM_OPEN && status == KOLO_OK)
        status = receive_some(link, PULL_RECORDS_MAX, &moved);
    if (status != KOLO_OK && status != KOLO_AGAIN)
        kolo_shm_end(link, status);
}
