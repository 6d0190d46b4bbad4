// SPDX-License-Identifier: Apache-2.0
// The only place where messages from outside are converted to integers (beside the bit fields of
// RDMA's immediate data, transport/rdma_number.h). take() and kolo_writer_claim() compare what is
// requested with what is left before they touch a byte, and nothing is added to a pointer that
// could pass its end. After the first failure, reads return zeroes and writes have no effect.
#include "base/wire.h"

#include <string.h>

struct kolo_reader kolo_reader_over(const void *data, size_t bytes)
{
    static const uint8_t nothing[1];
    const uint8_t *start = data ? data : nothing;
    return (struct kolo_reader){.at = start, .end = start + (data ? bytes : 0)};
}

/* The next @p bytes bytes; NULL: the reader has failed. */
static const uint8_t *take(struct kolo_reader *reader, size_t bytes)
{
    if (reader->failed || bytes > (size_t)(reader->end - reader->at)) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *at = reader->at;
    reader->at += bytes;
    return at;
}

static uint64_t read_integer(struct kolo_reader *reader, size_t bytes)
{
    const uint8_t *at = take(reader, bytes);
    uint64_t value = 0;
    for (size_t i = 0; at && i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

uint8_t kolo_read_u8(struct kolo_reader *reader)
{
    return (uint8_t)read_integer(reader, 1);
}

uint16_t kolo_read_u16(struct kolo_reader *reader)
{
    return (uint16_t)read_integer(reader, 2);
}

uint32_t kolo_read_u32(struct kolo_reader *reader)
{
    return (uint32_t)read_integer(reader, 4);
}

uint64_t kolo_read_u64(struct kolo_reader *reader)
{
    return read_integer(reader, 8);
}

int32_t kolo_read_i32(struct kolo_reader *reader)
{
    return (int32_t)kolo_read_u32(reader);
}

int64_t kolo_read_i64(struct kolo_reader *reader)
{
    return (int64_t)kolo_read_u64(reader);
}

void kolo_read_bytes(struct kolo_reader *reader, void *data, size_t bytes)
{
    const uint8_t *at = take(reader, bytes);
    if (bytes == 0)
        return;
    if (at)
        memcpy(data, at, bytes);
    else
        memset(data, 0, bytes);
}

void kolo_read_text(struct kolo_reader *reader, char *text, size_t capacity)
{
    size_t bytes = kolo_read_u16(reader);
    const uint8_t *at = take(reader, bytes);
    if (capacity > 0)
        text[0] = '\0';
    if (!at)
        return;
    if (bytes >= capacity || memchr(at, '\0', bytes)) {
        reader->failed = true;
        return;
    }
    memcpy(text, at, bytes);
    text[bytes] = '\0';
}

const uint8_t *kolo_read_blob(struct kolo_reader *reader, size_t *bytes_out)
{
    size_t bytes = kolo_read_u32(reader);
    const uint8_t *at = take(reader, bytes);
    *bytes_out = at ? bytes : 0;
    return at;
}

size_t kolo_reader_left(const struct kolo_reader *reader)
{
    return reader->failed ? 0 : (size_t)(reader->end - reader->at);
}

kolo_status kolo_reader_finish(const struct kolo_reader *reader, const char *what)
{
    if (reader->failed)
        return kolo_fail(KOLO_ERR_DATA, "%s: cut short or malformed", what);
    if (reader->at != reader->end)
        return kolo_fail(KOLO_ERR_DATA, "%s: %zu bytes too many", what, kolo_reader_left(reader));
    return KOLO_OK;
}

void kolo_write_bytes(struct kolo_writer *writer, const void *data, size_t bytes)
{
    if (bytes == 0)
        return;
    uint8_t *at = kolo_writer_claim(writer, bytes);
    if (at)
        memcpy(at, data, bytes);
}

void kolo_write_text(struct kolo_writer *writer, const char *text)
{
    size_t bytes = strlen(text);
    if (bytes > UINT16_MAX) {
        writer->failed = true;
        return;
    }
    kolo_write_u16(writer, (uint16_t)bytes);
    kolo_write_bytes(writer, text, bytes);
}

void kolo_write_blob(struct kolo_writer *writer, const void *data, size_t bytes)
{
    if (bytes > UINT32_MAX) {
        writer->failed = true;
        return;
    }
    kolo_write_u32(writer, (uint32_t)bytes);
    kolo_write_bytes(writer, data, bytes);
}

kolo_status kolo_writer_finish(const struct kolo_writer *writer, const void *start,
                               size_t *bytes_out)
{
    if (writer->failed)
        return kolo_fail(KOLO_ERR_DATA, "message does not fit its buffer");
    *bytes_out = writer->at ? (size_t)(writer->at - (const uint8_t *)start) : 0;
    return KOLO_OK;
}
