// SPDX-License-Identifier: Apache-2.0
// The only place where messages from outside are converted to integers and strings, and back.
// Little-endian, with bounds checks. A reader or writer that ran over its end stays failed, so one
// check at the end is enough.
#ifndef KOLO_BASE_WIRE_H
#define KOLO_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Elements and records are sent and saved as they are in memory, beside the integers that this file
 * converts. The hosts of a job, and those that use a saved state, must agree on that layout. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "kolo runs on little-endian machines (x86-64, aarch64) alone");

struct kolo_reader {
    const uint8_t *at, *end;
    bool failed;
};

struct kolo_writer {
    uint8_t *at, *end;
    bool failed;
};

struct kolo_reader kolo_reader_over(const void *data, size_t bytes);
uint8_t kolo_read_u8(struct kolo_reader *reader);
uint16_t kolo_read_u16(struct kolo_reader *reader);
uint32_t kolo_read_u32(struct kolo_reader *reader);
uint64_t kolo_read_u64(struct kolo_reader *reader);
int32_t kolo_read_i32(struct kolo_reader *reader);
int64_t kolo_read_i64(struct kolo_reader *reader);
/** Copies @p bytes bytes to @p data; zeroes @p data if there are not that many. */
void kolo_read_bytes(struct kolo_reader *reader, void *data, size_t bytes);
/** Reads a u16 length and that many bytes, NUL-terminated, into @p text (of @p capacity); fails if
 *  it does not fit or contains a NUL. */
void kolo_read_text(struct kolo_reader *reader, char *text, size_t capacity);
/** Reads a u32 length and that many bytes, which are returned in place. */
const uint8_t *kolo_read_blob(struct kolo_reader *reader, size_t *bytes_out);
size_t kolo_reader_left(const struct kolo_reader *reader);
/** ERR_DATA with @p what in the detail if anything was missing, or if bytes are left over. */
kolo_status kolo_reader_finish(const struct kolo_reader *reader, const char *what) KOLO_NODISCARD;

static inline struct kolo_writer kolo_writer_over(void *data, size_t bytes)
{
    uint8_t *start = (uint8_t *)data;
    return (struct kolo_writer){.at = start, .end = data ? start + bytes : NULL};
}

/** Room for the next @p bytes bytes; NULL: the writer has failed. This function and the following
 *  ones are inline, so that several integers written in a row become a few stores. */
static inline uint8_t *kolo_writer_claim(struct kolo_writer *writer, size_t bytes)
{
    if (writer->failed || !writer->at || bytes > (size_t)(writer->end - writer->at)) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *at = writer->at;
    writer->at += bytes;
    return at;
}

static inline void kolo_write_u8(struct kolo_writer *writer, uint8_t value)
{
    uint8_t *at = kolo_writer_claim(writer, sizeof value);
    if (at)
        *at = value;
}

static inline void kolo_write_u16(struct kolo_writer *writer, uint16_t value)
{
    uint8_t *at = kolo_writer_claim(writer, sizeof value);
    for (size_t i = 0; at && i < sizeof value; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline void kolo_write_u32(struct kolo_writer *writer, uint32_t value)
{
    uint8_t *at = kolo_writer_claim(writer, sizeof value);
    for (size_t i = 0; at && i < sizeof value; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline void kolo_write_u64(struct kolo_writer *writer, uint64_t value)
{
    uint8_t *at = kolo_writer_claim(writer, sizeof value);
    for (size_t i = 0; at && i < sizeof value; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline void kolo_write_i32(struct kolo_writer *writer, int32_t value)
{
    kolo_write_u32(writer, (uint32_t)value);
}

static inline void kolo_write_i64(struct kolo_writer *writer, int64_t value)
{
    kolo_write_u64(writer, (uint64_t)value);
}

void kolo_write_bytes(struct kolo_writer *writer, const void *data, size_t bytes);
void kolo_write_text(struct kolo_writer *writer, const char *text);
void kolo_write_blob(struct kolo_writer *writer, const void *data, size_t bytes);
/** ERR_DATA if it did not fit. @p start is what was passed to kolo_writer_over; *bytes_out is the
 *  number of bytes written. */
kolo_status kolo_writer_finish(const struct kolo_writer *writer, const void *start,
                               size_t *bytes_out) KOLO_NODISCARD;

#endif
