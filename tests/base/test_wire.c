// SPDX-License-Identifier: Apache-2.0
// base/wire.c: what is written is read, and bytes that are truncated or lie are refused.
#include "base/wire.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* One field of each kind, in a heap block of exact size, so that ASan detects reads past the
 * end. */
static const char message_text[] = "rank 3";
static const uint8_t message_blob[] = {9, 8, 7};

static void write_message(struct kolo_writer *writer)
{
    kolo_write_u8(writer, 0xfe);
    kolo_write_u16(writer, 0x1234);
    kolo_write_u32(writer, 0x89abcdef);
    kolo_write_u64(writer, 0x0123456789abcdef);
    kolo_write_i32(writer, INT32_MIN);
    kolo_write_i64(writer, -2);
    kolo_write_bytes(writer, "ab", 2);
    kolo_write_text(writer, message_text);
    kolo_write_blob(writer, message_blob, sizeof message_blob);
}

enum { MESSAGE_BYTES = 1 + 2 + 4 + 8 + 4 + 8 + 2 + (2 + 6) + (4 + 3) };

static void read_message(struct kolo_reader *reader)
{
    char text[16] = "old";
    uint8_t bytes[2] = {1, 1};
    size_t blob_bytes = 99;
    (void)kolo_read_u8(reader);
    (void)kolo_read_u16(reader);
    (void)kolo_read_u32(reader);
    (void)kolo_read_u64(reader);
    (void)kolo_read_i32(reader);
    (void)kolo_read_i64(reader);
    kolo_read_bytes(reader, bytes, sizeof bytes);
    kolo_read_text(reader, text, sizeof text);
    const uint8_t *blob = kolo_read_blob(reader, &blob_bytes);
    cr_assert((blob == NULL) == reader->failed && (blob || blob_bytes == 0), "blob");
    cr_assert(blob || strcmp(text, "old") != 0, "text is always written");
}

Test(wire, the_bytes_are_little_endian)
{
    uint8_t data[MESSAGE_BYTES];
    static const uint8_t expected[MESSAGE_BYTES] = {
        0xfe, 0x34, 0x12, 0xef, 0xcd, 0xab, 0x89, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
        0,    0,    0,    0x80, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'a',  'b',  6,
        0,    'r',  'a',  'n',  'k',  ' ',  '3',  3,    0,    0,    0,    9,    8,    7};
    struct kolo_writer writer = kolo_writer_over(data, sizeof data);
    write_message(&writer);
    size_t bytes = 0;
    cr_assert(kolo_writer_finish(&writer, data, &bytes) == KOLO_OK, "finish");
    cr_assert(bytes == MESSAGE_BYTES, "%zu", bytes);
    cr_assert(memcmp(data, expected, sizeof expected) == 0, "bytes");
}

Test(wire, what_was_written_is_read)
{
    uint8_t data[MESSAGE_BYTES];
    struct kolo_writer writer = kolo_writer_over(data, sizeof data);
    write_message(&writer);
    struct kolo_reader reader = kolo_reader_over(data, sizeof data);
    char two[2], text[sizeof message_text];
    size_t bytes;
    cr_assert(kolo_read_u8(&reader) == 0xfe, "u8");
    cr_assert(kolo_read_u16(&reader) == 0x1234, "u16");
    cr_assert(kolo_read_u32(&reader) == 0x89abcdef, "u32");
    cr_assert(kolo_read_u64(&reader) == 0x0123456789abcdef, "u64");
    cr_assert(kolo_read_i32(&reader) == INT32_MIN, "i32");
    cr_assert(kolo_read_i64(&reader) == -2, "i64");
    kolo_read_bytes(&reader, two, 2);
    cr_assert(memcmp(two, "ab", 2) == 0, "bytes");
    kolo_read_text(&reader, text, sizeof text);
    cr_assert(strcmp(text, message_text) == 0, "text fits its capacity to the byte");
    cr_assert(kolo_reader_left(&reader) == 7, "%zu", kolo_reader_left(&reader));
    const uint8_t *blob = kolo_read_blob(&reader, &bytes);
    cr_assert(blob == data + MESSAGE_BYTES - 3 && bytes == 3, "blob in place");
    cr_assert(kolo_reader_finish(&reader, "message") == KOLO_OK, "%s", kolo_error_detail());
}

Test(wire, a_message_cut_at_any_byte_fails)
{
    uint8_t whole[MESSAGE_BYTES];
    struct kolo_writer writer = kolo_writer_over(whole, sizeof whole);
    write_message(&writer);
    for (size_t bytes = 0; bytes < MESSAGE_BYTES; bytes++) {
        uint8_t *cut = malloc(bytes ? bytes : 1);
        memcpy(cut, whole, bytes);
        struct kolo_reader reader = kolo_reader_over(cut, bytes);
        read_message(&reader);
        cr_assert(kolo_reader_finish(&reader, "hello") == KOLO_ERR_DATA, "%zu", bytes);
        cr_assert(strcmp(kolo_error_detail(), "hello: cut short or malformed") == 0, "%s",
                  kolo_error_detail());
        cr_assert(kolo_reader_left(&reader) == 0, "%zu", bytes);
        free(cut);
    }
}

Test(wire, a_message_with_more_behind_it_fails)
{
    uint8_t data[MESSAGE_BYTES + 2] = {0};
    struct kolo_writer writer = kolo_writer_over(data, MESSAGE_BYTES);
    write_message(&writer);
    struct kolo_reader reader = kolo_reader_over(data, sizeof data);
    read_message(&reader);
    cr_assert(kolo_reader_finish(&reader, "hello") == KOLO_ERR_DATA, "status");
    cr_assert(strcmp(kolo_error_detail(), "hello: 2 bytes too many") == 0, "%s",
              kolo_error_detail());
}

Test(wire, a_buffer_too_short_by_any_number_fails)
{
    for (size_t bytes = 0; bytes < MESSAGE_BYTES; bytes++) {
        uint8_t *data = malloc(bytes ? bytes : 1);
        struct kolo_writer writer = kolo_writer_over(data, bytes);
        size_t written = 77;
        write_message(&writer);
        cr_assert(kolo_writer_finish(&writer, data, &written) == KOLO_ERR_DATA, "%zu", bytes);
        cr_assert(written == 77, "written only on success");
        free(data);
    }
}

Test(wire, a_failure_stays)
{
    uint8_t data[4] = {1, 2, 3, 4};
    struct kolo_reader reader = kolo_reader_over(data, sizeof data);
    cr_assert(kolo_read_u64(&reader) == 0, "zero");
    cr_assert(kolo_read_u8(&reader) == 0, "the bytes that are there are not read any more");
    cr_assert(kolo_reader_finish(&reader, "x") == KOLO_ERR_DATA, "reader");
    struct kolo_writer writer = kolo_writer_over(data, sizeof data);
    kolo_write_u64(&writer, UINT64_MAX);
    kolo_write_u8(&writer, 0xff);
    size_t bytes;
    cr_assert(kolo_writer_finish(&writer, data, &bytes) == KOLO_ERR_DATA, "writer");
    cr_assert(data[0] == 1 && data[3] == 4, "nothing was written");
}

Test(wire, bytes_that_are_not_there_are_zeroes)
{
    uint8_t data[3] = {1, 2, 3}, out[4] = {9, 9, 9, 9};
    struct kolo_reader reader = kolo_reader_over(data, sizeof data);
    kolo_read_bytes(&reader, out, sizeof out);
    cr_assert(memcmp(out, "\0\0\0\0", 4) == 0, "zeroes");
    cr_assert(reader.failed, "failed");
}

Test(wire, a_text_must_fit_and_hold_no_nul)
{
    uint8_t data[] = {3, 0, 'a', 'b', 'c'};
    char text[4] = "zzz";
    struct kolo_reader reader = kolo_reader_over(data, sizeof data);
    kolo_read_text(&reader, text, 3);
    cr_assert(reader.failed && *text == '\0', "3 bytes and NUL do not fit 3");
    reader = kolo_reader_over(data, sizeof data);
    kolo_read_text(&reader, text, 0);
    cr_assert(reader.failed, "no capacity at all");
    reader = kolo_reader_over(data, sizeof data);
    kolo_read_text(&reader, text, 4);
    cr_assert(!reader.failed && strcmp(text, "abc") == 0, "fits");
    data[3] = '\0';
    reader = kolo_reader_over(data, sizeof data);
    kolo_read_text(&reader, text, 4);
    cr_assert(reader.failed && *text == '\0', "NUL inside");
}

Test(wire, lengths_that_lie_are_caught)
{
    uint8_t blob[] = {0xff, 0xff, 0xff, 0xff, 1, 2, 3};
    struct kolo_reader reader = kolo_reader_over(blob, sizeof blob);
    size_t bytes = 5;
    cr_assert(!kolo_read_blob(&reader, &bytes) && bytes == 0, "blob");
    uint8_t text[] = {0xff, 0xff, 'a'};
    char out[8];
    reader = kolo_reader_over(text, sizeof text);
    kolo_read_text(&reader, out, sizeof out);
    cr_assert(reader.failed && *out == '\0', "text");
    reader = kolo_reader_over(text, sizeof text);
    kolo_read_bytes(&reader, out, 0);
    cr_assert(!reader.failed, "nothing is always there");
}

Test(wire, what_has_no_length_on_the_wire_is_refused)
{
    char *text = malloc(UINT16_MAX + 2);
    uint8_t *data = malloc(UINT16_MAX + 16);
    memset(text, 'x', UINT16_MAX + 1);
    text[UINT16_MAX + 1] = '\0';
    size_t bytes;
    struct kolo_writer writer = kolo_writer_over(data, UINT16_MAX + 16);
    kolo_write_text(&writer, text);
    cr_assert(kolo_writer_finish(&writer, data, &bytes) == KOLO_ERR_DATA, "65536");
    text[UINT16_MAX] = '\0';
    writer = kolo_writer_over(data, UINT16_MAX + 16);
    kolo_write_text(&writer, text);
    cr_assert(kolo_writer_finish(&writer, data, &bytes) == KOLO_OK, "65535");
    cr_assert(bytes == UINT16_MAX + 2, "%zu", bytes);
    writer = kolo_writer_over(data, 16);
    kolo_write_blob(&writer, data, (size_t)UINT32_MAX + 1);
    cr_assert(writer.failed, "a blob of 4 GiB");
    free(text);
    free(data);
}

Test(wire, empty_buffers_and_empty_fields)
{
    struct kolo_reader reader = kolo_reader_over(NULL, 0);
    cr_assert(kolo_reader_finish(&reader, "x") == KOLO_OK, "nothing to read");
    cr_assert(kolo_read_u8(&reader) == 0 && reader.failed, "one byte too many");
    uint8_t data[6];
    size_t bytes = 9;
    struct kolo_writer writer = kolo_writer_over(NULL, 0);
    cr_assert(kolo_writer_finish(&writer, NULL, &bytes) == KOLO_OK && bytes == 0, "nothing");
    kolo_write_u8(&writer, 1);
    cr_assert(kolo_writer_finish(&writer, NULL, &bytes) == KOLO_ERR_DATA, "into nothing");
    writer = kolo_writer_over(data, sizeof data);
    kolo_write_text(&writer, "");
    kolo_write_blob(&writer, NULL, 0);
    cr_assert(kolo_writer_finish(&writer, data, &bytes) == KOLO_OK && bytes == 6, "%zu", bytes);
    reader = kolo_reader_over(data, sizeof data);
    char text[1];
    kolo_read_text(&reader, text, sizeof text);
    cr_assert(kolo_read_blob(&reader, &bytes) && bytes == 0, "an empty blob is not NULL");
    cr_assert(kolo_reader_finish(&reader, "x") == KOLO_OK, "%s", kolo_error_detail());
}
