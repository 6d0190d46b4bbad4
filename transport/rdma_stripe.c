// SPDX-License-Identifier: Apache-2.0
// Writes the messages that go directly into a peer's memory (rdma_direct.h): short ones by the
// first rail, long ones in pieces by all rails that work, each piece by the rail that will deliver
// it first (rdma_pace.h). Must never report a message as complete while a rail may still read it.
//
// Each rail that carried a piece ends its row with a mark of its own, which has no bytes; the first
// rail's mark says how many such rows there are. If a rail ended before its row was known to have
// arrived, the first rail writes the whole message once more, followed by a mark that replaces the
// lost one. The peer does not read the message before that mark, so receiving the same bytes twice
// does no harm.
#include "transport/checksum.h"
#include "transport/rdma.h"

static struct kolo_rdma_queue *queue_of(const struct rdma_link *link, int rail)
{
    return rail == 0 ? link->queue : link->rails.all[rail].queue;
}

static bool goes(const struct rdma_link *link, int rail)
{
    return rail == 0 || link->rails.all[rail].step == RAIL_GOES;
}

/* ---- what is over ---- */

void kolo_rdma_row_is_over(struct rdma_link *link, struct kolo_rdma_row *row)
{
    struct kolo_rdma_writing *writing = kolo_rdma_direct_of_row(row);
    row->state = KOLO_RDMA_ROW_NONE;
    if (!kolo_rdma_direct_is_over(writing))
        return;
    if (writing->work)
        kolo_link_frame_done(&link->tcp.base, &writing->frame);
    kolo_rdma_direct_end(&link->direct, writing);
}

void kolo_rdma_has_written(struct kolo_rdma_queue *queue, void *context)
{
    kolo_rdma_row_is_over(queue->context, context);
}

void kolo_rdma_passed(struct kolo_rdma_queue *queue, size_t bytes)
{
    struct rdma_link *link = queue->context;
    kolo_rdma_pace_over(&link->rails.paces[0], bytes, kolo_now_ns());
}

/* ---- which is next ---- */

void kolo_rdma_begin_writing(struct rdma_link *link, const struct kolo_frame *frame)
{
    struct kolo_rdma_writing *writing = kolo_rdma_direct_find(&link->direct, frame->work);
    writing->frame = *frame; /* what is_remote() promised stays valid until it is withdrawn */
    writing->is_begun = true;
    writing->has_told_sum = link->tcp.base.sums == NULL;
    if (!writing->has_told_sum)
        kolo_checksum_begin(&link->tcp.base.sums->out);
    kolo_rdma_set_writing(link, writing);
}

/** A message that was posted completely and must be written again. */
static struct kolo_rdma_writing *find_again(struct rdma_link *link)
{
    for (int i = 0; i < KOLO_RDMA_SLOTS; i++) {
        struct kolo_rdma_writing *writing = &link->direct.writings[i];
        for (int r = 1; r < KOLO_RDMA_RAILS_MAX; r++)
            if (writing->region && writing->rows[r].state == KOLO_RDMA_ROW_AGAIN &&
                writing->rows[0].state != KOLO_RDMA_ROW_OPEN) {
                writing->again = &writing->rows[r];
                writing->posted = 0;
                return writing;
            }
    }
    return NULL;
}

static struct kolo_rdma_writing *next_writing(struct rdma_link *link)
{
    if (!link->writing && link->has_again) {
        struct kolo_rdma_writing *writing = find_again(link);
        link->has_again = writing != NULL;
        if (writing)
            kolo_rdma_set_writing(link, writing);
    }
    return link->writing;
}

void kolo_rdma_wake_writing(struct rdma_link *link)
{
    link->has_again = true;
    if (link->tcp.base.state == KOLO_LINK_UP && next_writing(link))
        (void)kolo_link_push(&link->tcp.base);
}

/* ---- the checksum ---- */

/** Makes the checksum of the first @p until bytes. They are read before they are posted, so it
 *  takes the time in which the device writes those before them. */
static void sum_up(struct rdma_link *link, struct kolo_rdma_writing *writing, size_t until)
{
    if (writing->has_told_sum || until <= writing->summed)
        return;
    kolo_checksum_add(&link->tcp.base.sums->out, writing->frame.payload + writing->summed,
                      until - writing->summed);
    writing->summed = until;
}

/** Tells the peer the checksum of a message, of which everything but its last write is posted.
 *  False: there is no room for it now. */
static bool tell_sum(struct rdma_link *link, struct kolo_rdma_writing *writing)
{
    const struct kolo_link *base = &link->tcp.base;
    struct kolo_frame frame = {.header = {.channel = KOLO_CHANNEL_CONTROL}};
    if (writing->has_told_sum)
        return true;
    uint8_t *buffer = kolo_rdma_queue_buffer(link->queue);
    if (!buffer)
        return false;
    sum_up(link, writing, writing->frame.bytes);
    kolo_rdma_direct_tell_sum(writing, KOLO_RDMA_SUM_FRAME, kolo_checksum_end(&base->sums->out),
                              &frame.header.desc);
    kolo_frame_pack(base, &frame, buffer);
    writing->has_told_sum = true; /* before a refusal ends everything */
    kolo_rdma_queue_send(link->queue, base->header_bytes, false);
    return base->state == KOLO_LINK_UP;
}

void kolo_rdma_finish_sum(struct rdma_link *link, const struct kolo_work *work)
{
    struct kolo_rdma_writing *writing = link->writing;
    if (writing && writing->work == work)
        sum_up(link, writing, writing->frame.bytes);
}

/* ---- pieces ---- */

/** Whether rail @p r may carry pieces of it. A rail whose mark was posted has said that there are
 *  no more. */
static bool may_have(const struct rdma_link *link, const struct kolo_rdma_writing *writing, int r)
{
    return writing->rails[r] && goes(link, r) && writing->rows[r].state != KOLO_RDMA_ROW_CLOSED;
}

/** Whether rails other than the first may carry pieces of it. */
static bool is_striped(const struct rdma_link *link, const struct kolo_rdma_writing *writing)
{
    if (writing->again || link->direct.rails_open == 0)
        return false;
    for (int r = 1; r < KOLO_RDMA_RAILS_MAX; r++)
        if (may_have(link, writing, r))
            return true;
    return false;
}

/** The rail for the next piece; -1: it is better to wait. */
static int choose(struct rdma_link *link, const struct kolo_rdma_writing *writing, size_t bytes)
{
    struct kolo_rdma_pace *paces[KOLO_RDMA_RAILS_MAX] = {&link->rails.paces[0]};
    for (int r = 1; r < KOLO_RDMA_RAILS_MAX; r++)
        if (may_have(link, writing, r))
            paces[r] = &link->rails.paces[r];
    return kolo_rdma_pace_choose(paces, KOLO_RDMA_RAILS_MAX, bytes,
                                 writing->frame.bytes - writing->posted);
}

static struct kolo_rdma_write next_bytes(const struct kolo_rdma_writing *writing, int rail,
                                         size_t bytes)
{
    const struct kolo_rdma_region *region = rail == 0 ? writing->region : writing->rails[rail];
    return (struct kolo_rdma_write){.data = writing->frame.payload + writing->posted,
                                    .bytes = bytes,
                                    .key = region->local_key,
                                    .address = writing->offer.address + writing->posted,
                                    .remote_key =
                                        rail == 0 ? writing->offer.key : writing->offer.keys[rail]};
}

/** Posts the next piece of a message that uses several rails. False: there is no room for it
 *  now. */
static bool post_piece(struct rdma_link *link, struct kolo_rdma_writing *writing)
{
    size_t bytes = writing->frame.bytes - writing->posted;
    if (bytes > KOLO_RDMA_PIECE_BYTES)
        bytes = KOLO_RDMA_PIECE_BYTES;
    const int rail = choose(link, writing, bytes);
    struct kolo_rdma_queue *queue = rail >= 0 ? queue_of(link, rail) : NULL;
    if (!queue || !kolo_rdma_queue_can_write(queue, false))
        return false;
    const struct kolo_rdma_write write = next_bytes(writing, rail, bytes);
    struct kolo_rdma_row *row = &writing->rows[rail];
    if (row->state == KOLO_RDMA_ROW_NONE)
        writing->parts++;
    row->state = KOLO_RDMA_ROW_OPEN;
    sum_up(link, writing, writing->posted + bytes);
    writing->posted += bytes; /* before a refusal ends everything */
    kolo_rdma_pace_posted(&link->rails.paces[rail], bytes, kolo_now_ns());
    kolo_rdma_queue_write_piece(queue, &write);
    return true;
}

/** Posts the first rail's mark with the rest of the bytes: the last request of a message, or of its
 *  repetition. */
static void post_last(struct rdma_link *link, struct kolo_rdma_writing *writing, size_t bytes)
{
    const struct kolo_rdma_write write = next_bytes(writing, 0, bytes);
    struct kolo_rdma_row *row = writing->again ? writing->again : &writing->rows[0];
    const uint8_t parts = writing->again ? KOLO_RDMA_PART : writing->parts;
    writing->posted += bytes;
    writing->again = NULL;
    row->state = KOLO_RDMA_ROW_CLOSED;
    kolo_rdma_set_writing(link, NULL);
    kolo_rdma_queue_write_last(link->queue, &write, kolo_rdma_direct_mark(writing, parts), row);
}

/** Posts the marks of the other rails. Rails that have stopped meanwhile get theirs when the
 *  message is written again. False: there is no room now. */
static bool close_rows(struct rdma_link *link, struct kolo_rdma_writing *writing)
{
    for (int r = 1; r < KOLO_RDMA_RAILS_MAX; r++) {
        struct kolo_rdma_row *row = &writing->rows[r];
        const struct kolo_rdma_write nothing = {.data = NULL};
        if (row->state != KOLO_RDMA_ROW_OPEN || !goes(link, r))
            continue;
        struct kolo_rdma_queue *queue = queue_of(link, r);
        if (!kolo_rdma_queue_can_write(queue, true))
            return false;
        row->state = KOLO_RDMA_ROW_CLOSED;
        row->closes = queue->uses + 1;
        kolo_rdma_queue_write_last(queue, &nothing, kolo_rdma_direct_mark(writing, KOLO_RDMA_PART),
                                   row);
    }
    return true;
}

/** Posts the next part of it. False: there is no room for it now. */
static bool post_next(struct rdma_link *link, struct kolo_rdma_writing *writing)
{
    const size_t left = writing->frame.bytes - writing->posted;
    if (left > 0 && is_striped(link, writing))
        return post_piece(link, writing);
    const bool is_last = left <= link->queue->write_bytes;
    if (is_last && (!tell_sum(link, writing) || !close_rows(link, writing)))
        return false;
    if (!kolo_rdma_queue_can_write(link->queue, is_last))
        return false;
    if (is_last) {
        post_last(link, writing, left);
        return true;
    }
    const struct kolo_rdma_write write = next_bytes(writing, 0, link->queue->write_bytes);
    sum_up(link, writing, writing->posted + write.bytes);
    writing->posted += write.bytes;
    kolo_rdma_queue_write(link->queue, &write);
    return true;
}

bool kolo_rdma_go_on_writing(struct rdma_link *link)
{
    struct kolo_rdma_writing *writing;
    while ((writing = next_writing(link)) != NULL)
        if (!post_next(link, writing))
            return false;
    return link->tcp.base.state == KOLO_LINK_UP;
}
