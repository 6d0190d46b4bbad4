// SPDX-License-Identifier: Apache-2.0
// Packs and unpacks the 32 bytes in front of each frame: u32 channel, u32 payload bytes, 24 bytes
// description.
#include "base/wire.h"
#include "transport/link.h"

void kolo_header_pack(const struct kolo_header *header, uint8_t out[KOLO_HEADER_BYTES])
{
    struct kolo_writer writer = kolo_writer_over(out, KOLO_HEADER_BYTES);
    kolo_write_u32(&writer, header->channel);
    kolo_write_u32(&writer, header->bytes);
    kolo_write_bytes(&writer, header->desc.bytes, sizeof header->desc.bytes);
}

void kolo_header_unpack(const uint8_t in[KOLO_HEADER_BYTES], struct kolo_header *header_out)
{
    struct kolo_reader reader = kolo_reader_over(in, KOLO_HEADER_BYTES);
    header_out->channel = kolo_read_u32(&reader);
    header_out->bytes = kolo_read_u32(&reader);
    kolo_read_bytes(&reader, header_out->desc.bytes, sizeof header_out->desc.bytes);
}
