// SPDX-License-Identifier: Apache-2.0
// Packs and unpacks the blocks of rdma_handshake.h. Must never accept a field with a value that its
// sender could not have meant.
#include "transport/rdma_handshake.h"

#include <string.h>

#include "base/text.h"
#include "base/wire.h"

enum { VERSION = 2, ROUND_AT = 240, NUMBER_MAX = (1 << 24) - 1, LID_MAX = 0xbfff };
static const uint32_t magic = 0x4d44526b; /* "kRDM" */

void kolo_rdma_hello_pack(const struct kolo_rdma_hello *hello, uint8_t out[KOLO_RDMA_HELLO_BYTES])
{
    struct kolo_writer writer = kolo_writer_over(out, KOLO_RDMA_HELLO_BYTES);
    memset(out, 0, KOLO_RDMA_HELLO_BYTES);
    kolo_write_u32(&writer, magic);
    kolo_write_u8(&writer, VERSION);
    kolo_write_u8(&writer, hello->offers ? (uint8_t)hello->gid.kind : 0);
    kolo_write_u8(&writer, hello->offers ? hello->mtu : 0);
    kolo_write_u8(&writer, hello->is_joined);
    kolo_write_u32(&writer, hello->pair);
    kolo_write_u32(&writer, hello->packet);
    kolo_write_u16(&writer, hello->lid);
    kolo_write_u16(&writer, 0);
    kolo_write_u32(&writer, hello->buffers);
    kolo_write_u32(&writer, hello->buffer_bytes);
    kolo_write_bytes(&writer, hello->gid.bytes, sizeof hello->gid.bytes);
    kolo_write_text(&writer, hello->offers ? "" : hello->reason);
    writer = kolo_writer_over(out + ROUND_AT, KOLO_RDMA_HELLO_BYTES - ROUND_AT);
    kolo_write_u32(&writer, hello->round);
    kolo_write_u64(&writer, hello->received);
}

static bool is_published(const struct kolo_rdma_gid *gid, const struct kolo_rdma_gids *published)
{
    for (size_t i = 0; published && i < published->count; i++)
        if (published->all[i].kind == gid->kind &&
            memcmp(published->all[i].bytes, gid->bytes, sizeof gid->bytes) == 0)
            return true;
    return published == NULL;
}

static kolo_status bad(const char *field, unsigned long value)
{
    return kolo_fail(KOLO_ERR_PROTOCOL,
                     "an RDMA handshake with %s %lu: do all ranks run the same version of kolo?",
                     field, value);
}

static kolo_status check_offer(const struct kolo_rdma_hello *hello,
                               const struct kolo_rdma_gids *published)
{
    bool is_infiniband = hello->gid.kind == KOLO_RDMA_INFINIBAND;
    if (hello->gid.kind >= KOLO_RDMA_KINDS)
        return bad("an address of kind", hello->gid.kind);
    if (hello->mtu < IBV_MTU_256 || hello->mtu > IBV_MTU_4096)
        return bad("MTU code", hello->mtu);
    if (hello->pair == 0 || hello->pair > NUMBER_MAX)
        return bad("queue pair", hello->pair);
    if (hello->packet > NUMBER_MAX)
        return bad("packet number", hello->packet);
    if (is_infiniband != (hello->lid != 0) || hello->lid > LID_MAX)
        return bad("LID", hello->lid);
    if (hello->buffers < KOLO_RDMA_BUFFERS_MIN || hello->buffers > KOLO_RDMA_BUFFERS_MAX ||
        (hello->buffers & (hello->buffers - 1)) != 0)
        return bad("a number of eager buffers of", hello->buffers);
    if (hello->buffer_bytes < KOLO_RDMA_BUFFER_BYTES_MIN ||
        hello->buffer_bytes > KOLO_RDMA_BUFFER_BYTES_MAX)
        return bad("eager buffers of bytes", hello->buffer_bytes);
    if (!is_published(&hello->gid, published))
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "an RDMA handshake with an address that its rank has not published");
    return KOLO_OK;
}

static kolo_status check_rest(struct kolo_reader *reader, unsigned long reserved,
                              struct kolo_rdma_hello *hello)
{
    while (!reader->failed && kolo_reader_left(reader) > KOLO_RDMA_HELLO_BYTES - ROUND_AT)
        reserved |= kolo_read_u8(reader);
    hello->round = kolo_read_u32(reader);
    hello->received = kolo_read_u64(reader);
    while (kolo_reader_left(reader) > 0)
        reserved |= kolo_read_u8(reader);
    if (reader->failed)
        return kolo_fail(KOLO_ERR_PROTOCOL, "an RDMA handshake whose text does not end");
    return reserved != 0 ? bad("something in its reserved fields:", reserved) : KOLO_OK;
}

kolo_status kolo_rdma_hello_unpack(const uint8_t in[KOLO_RDMA_HELLO_BYTES],
                                   const struct kolo_rdma_gids *published,
                                   struct kolo_rdma_hello *hello_out)
{
    struct kolo_reader reader = kolo_reader_over(in, KOLO_RDMA_HELLO_BYTES);
    struct kolo_rdma_hello hello = {.offers = false};
    uint32_t first = kolo_read_u32(&reader);
    uint8_t version = kolo_read_u8(&reader);
    if (first != magic)
        return kolo_fail(KOLO_ERR_PROTOCOL, "what should be an RDMA handshake begins with %08x",
                         first);
    if (version != VERSION)
        return bad("version", version);
    hello.gid.kind = (enum kolo_rdma_kind)kolo_read_u8(&reader);
    hello.offers = hello.gid.kind != 0;
    hello.mtu = kolo_read_u8(&reader);
    uint8_t joined = kolo_read_u8(&reader);
    unsigned long reserved = joined > 1 ? joined : 0;
    hello.is_joined = joined == 1;
    hello.pair = kolo_read_u32(&reader);
    hello.packet = kolo_read_u32(&reader);
    hello.lid = kolo_read_u16(&reader);
    reserved |= kolo_read_u16(&reader);
    hello.buffers = kolo_read_u32(&reader);
    hello.buffer_bytes = kolo_read_u32(&reader);
    kolo_read_bytes(&reader, hello.gid.bytes, sizeof hello.gid.bytes);
    kolo_read_text(&reader, hello.reason, sizeof hello.reason);
    kolo_text_clean(hello.reason);
    kolo_status status = check_rest(&reader, reserved, &hello);
    if (status == KOLO_OK && hello.offers)
        status = check_offer(&hello, published);
    if (status == KOLO_OK)
        *hello_out = hello;
    return status;
}

/* ---- published addresses ---- */

size_t kolo_rdma_gids_pack(const struct kolo_rdma_gids *gids, uint8_t out[KOLO_RDMA_GIDS_BYTES_MAX])
{
    struct kolo_writer writer = kolo_writer_over(out, KOLO_RDMA_GIDS_BYTES_MAX);
    kolo_write_u8(&writer, (uint8_t)gids->count);
    for (size_t i = 0; i < gids->count; i++) {
        kolo_write_u8(&writer, (uint8_t)gids->all[i].kind);
        kolo_write_bytes(&writer, gids->all[i].bytes, sizeof gids->all[i].bytes);
    }
    return (size_t)(writer.at - out);
}

kolo_status kolo_rdma_gids_unpack(const uint8_t *in, size_t bytes, struct kolo_rdma_gids *gids_out,
                                  size_t *used_out)
{
    struct kolo_reader reader = kolo_reader_over(in, bytes);
    struct kolo_rdma_gids gids = {.count = kolo_read_u8(&reader)};
    if (gids.count == 0 || gids.count > KOLO_RDMA_GIDS_MAX)
        return kolo_fail(KOLO_ERR_DATA, "an RDMA port with %zu addresses", gids.count);
    for (size_t i = 0; i < gids.count; i++) {
        uint8_t kind = kolo_read_u8(&reader);
        if (kind == 0 || kind >= KOLO_RDMA_KINDS)
            return kolo_fail(KOLO_ERR_DATA, "an RDMA address of kind %u", kind);
        gids.all[i].kind = (enum kolo_rdma_kind)kind;
        kolo_read_bytes(&reader, gids.all[i].bytes, sizeof gids.all[i].bytes);
    }
    if (reader.failed)
        return kolo_fail(KOLO_ERR_DATA, "an RDMA port with %zu addresses in %zu bytes", gids.count,
                         bytes);
    *gids_out = gids;
    *used_out = bytes - kolo_reader_left(&reader);
    return KOLO_OK;
}
