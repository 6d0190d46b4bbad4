// SPDX-License-Identifier: Apache-2.0
// Every kind of message, whole, and with each number of bytes too few or one too many.
// tests/launcher/malformed.sh sends such frames to kolorun and to an agent.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/messages.h"

enum { ROOM = 128 };

/** Writes a body of @p type. Returns how many bytes it needs at least; more may follow if
 * *is_open_out. */
static size_t write_body(enum kolo_frame_type type, uint8_t *body, bool *is_open_out)
{
    const struct kolo_outcome outcome = {.rank = 7, .pid = 11, .status = 3, .age_ms = 99};
    const struct kolo_stray stray = {.rank = 7, .pid = 11, .name = "sleep"};
    const struct kolo_sight sight = {.rank = 7, .pid = 11, .state = 'S', .blocked = "futex"};
    struct kolo_writer writer = kolo_writer_over(body, ROOM);
    size_t bytes = 0;
    *is_open_out = false;
    switch ((int)type) {
    case KOLO_FRAME_READY:
        kolo_write_u32(&writer, 5);
        kolo_write_text(&writer, "1.2.3");
        kolo_write_text(&writer, "there");
        kolo_write_u32(&writer, 11);
        break;
    case KOLO_FRAME_REFUSED:
        kolo_write_u32(&writer, 126);
        kolo_write_text(&writer, "no such program");
        break;
    case KOLO_FRAME_STARTED:
        kolo_write_u32(&writer, 7);
        kolo_write_u32(&writer, 11);
        break;
    case KOLO_FRAME_OUTPUT:
        kolo_write_u32(&writer, 7);
        kolo_write_u8(&writer, 2);
        *is_open_out = true;
        break;
    case KOLO_FRAME_TIMELINE:
        kolo_write_u32(&writer, 7);
        *is_open_out = true;
        break;
    case KOLO_FRAME_EXITED:
        kolo_outcome_write(&writer, &outcome);
        break;
    case KOLO_FRAME_STRAY:
        kolo_stray_write(&writer, &stray);
        break;
    case KOLO_FRAME_SEEN:
        kolo_write_u32(&writer, 3);
        kolo_sight_write(&writer, &sight);
        break;
    case KOLO_FRAME_WANTED:
    case KOLO_FRAME_CREDIT:
    case KOLO_FRAME_SIGNAL:
    case KOLO_FRAME_PAUSE:
    case KOLO_FRAME_PAUSED:
    case KOLO_FRAME_RESUME:
    case KOLO_FRAME_LOOKED:
        kolo_write_u32(&writer, 11);
        break;
    case KOLO_FRAME_NOTE:
    case KOLO_FRAME_JOB:
    case KOLO_FRAME_INPUT:
    case KOLO_FRAME_EXAMINE:
    case KOLO_FRAME_FACTS:
    case KOLO_FRAME_LOOK:
        *is_open_out = true;
        break;
    default:
        cr_assert(type == KOLO_FRAME_PREPARED || type == KOLO_FRAME_DONE ||
                      type == KOLO_FRAME_START || type == KOLO_FRAME_END || type == KOLO_FRAME_BEAT,
                  "%s is new; give it a body", kolo_frame_text(type));
        break;
    }
    cr_assert_eq(kolo_writer_finish(&writer, body, &bytes), KOLO_OK);
    return bytes;
}

/** Decodes exactly @p bytes bytes of memory, so that a sanitizer sees every read beyond. */
static kolo_status read_part(enum kolo_frame_type type, const uint8_t *body, size_t bytes,
                             struct kolo_frame_message *message)
{
    uint8_t *copy = malloc(bytes + !bytes);
    memcpy(copy, body, bytes);
    struct kolo_reader reader = kolo_reader_over(copy, bytes);
    kolo_status status = kolo_frame_message_read(type, &reader, message);
    free(copy);
    return status;
}

Test(messages, of_a_wrong_length_are_refused)
{
    for (int i = KOLO_FRAME_NONE + 1; i < KOLO_FRAME_TYPES; i++) {
        const enum kolo_frame_type type = (enum kolo_frame_type)i;
        struct kolo_frame_message message;
        uint8_t body[ROOM] = {0};
        char words[64];
        bool is_open;
        const size_t whole = write_body(type, body, &is_open);
        snprintf(words, sizeof words, "a malformed %s", kolo_frame_text(type));
        for (size_t bytes = 0; bytes <= whole + 1; bytes++) {
            kolo_status want =
                bytes == whole || (is_open && bytes > whole) ? KOLO_OK : KOLO_ERR_PROTOCOL;
            cr_assert_eq(read_part(type, body, bytes, &message), want, "%s of %zu bytes for %zu",
                         kolo_frame_text(type), bytes, whole);
            cr_assert(want == KOLO_OK || strcmp(kolo_error_detail(), words) == 0, "%s",
                      kolo_error_detail());
        }
    }
}

static kolo_status read_refusal(uint32_t exit_status)
{
    uint8_t body[ROOM];
    struct kolo_frame_message message;
    struct kolo_writer writer = kolo_writer_over(body, ROOM);
    size_t bytes = 0;
    kolo_write_u32(&writer, exit_status);
    kolo_write_text(&writer, "no");
    cr_assert_eq(kolo_writer_finish(&writer, body, &bytes), KOLO_OK);
    return read_part(KOLO_FRAME_REFUSED, body, bytes, &message);
}

static kolo_status read_end(struct kolo_outcome outcome)
{
    uint8_t body[ROOM];
    struct kolo_frame_message message;
    struct kolo_writer writer = kolo_writer_over(body, ROOM);
    size_t bytes = 0;
    kolo_outcome_write(&writer, &outcome);
    cr_assert_eq(kolo_writer_finish(&writer, body, &bytes), KOLO_OK);
    return read_part(KOLO_FRAME_EXITED, body, bytes, &message);
}

/* Of kolorun's own status a shell sees the lowest 8 bits: a job that failed must not become a
 * success. */
Test(messages, with_no_status_of_a_process_are_refused)
{
    const uint32_t wrong[] = {0, 256, 512, 0xffffff00, UINT32_MAX};
    cr_assert_eq(read_refusal(1), KOLO_OK);
    cr_assert_eq(read_refusal(255), KOLO_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_eq(read_refusal(wrong[i]), KOLO_ERR_PROTOCOL, "%u", wrong[i]);
        cr_assert_eq(read_end((struct kolo_outcome){.status = wrong[i]}),
                     wrong[i] == 0 ? KOLO_OK : KOLO_ERR_PROTOCOL, "%u", wrong[i]);
    }
    cr_assert_eq(read_end((struct kolo_outcome){.status = 255}), KOLO_OK);
    cr_assert_eq(read_end((struct kolo_outcome){.signal = 64}), KOLO_OK);
    cr_assert_eq(read_end((struct kolo_outcome){.signal = 128}), KOLO_ERR_PROTOCOL);
    cr_assert_eq(read_end((struct kolo_outcome){.age_ms = UINT64_MAX}), KOLO_ERR_PROTOCOL);
}

static struct kolo_frame_message read_whole(enum kolo_frame_type type, uint8_t *body)
{
    struct kolo_frame_message message;
    bool is_open;
    const size_t bytes = write_body(type, body, &is_open);
    struct kolo_reader reader = kolo_reader_over(body, bytes + (is_open ? 3 : 0));
    cr_assert_eq(kolo_frame_message_read(type, &reader, &message), KOLO_OK);
    cr_assert_eq(message.type, type);
    return message;
}

Test(messages, say_what_was_sent)
{
    uint8_t body[ROOM] = {0};
    struct kolo_frame_message got = read_whole(KOLO_FRAME_READY, body);
    cr_assert(got.ready.protocol == 5 && got.ready.pid == 11 &&
              strcmp(got.ready.version, "1.2.3") == 0 && strcmp(got.ready.host, "there") == 0);
    got = read_whole(KOLO_FRAME_REFUSED, body);
    cr_assert(got.refused.exit_status == 126 && strcmp(got.refused.why, "no such program") == 0);
    got = read_whole(KOLO_FRAME_STARTED, body);
    cr_assert(got.rank == 7 && got.value == 11);
    got = read_whole(KOLO_FRAME_OUTPUT, body);
    cr_assert(got.rank == 7 && got.output.is_error);
    cr_assert(got.output.text.at == body + 5 && got.output.text.bytes == 3);
    got = read_whole(KOLO_FRAME_TIMELINE, body);
    cr_assert(got.rank == 7 && got.piece.at == body + 4 && got.piece.bytes == 3);
    got = read_whole(KOLO_FRAME_EXITED, body);
    cr_assert(got.rank == 7 && got.exited.rank == 7 && got.exited.status == 3 &&
              got.exited.age_ms == 99);
    got = read_whole(KOLO_FRAME_STRAY, body);
    cr_assert(got.rank == 7 && got.stray.pid == 11 && strcmp(got.stray.name, "sleep") == 0);
    got = read_whole(KOLO_FRAME_SEEN, body);
    cr_assert(got.rank == 7 && got.seen.round == 3 && got.seen.sight.pid == 11 &&
              strcmp(got.seen.sight.blocked, "futex") == 0);
    got = read_whole(KOLO_FRAME_CREDIT, body);
    cr_assert_eq(got.value, 11);
    got = read_whole(KOLO_FRAME_NOTE, body);
    cr_assert(got.piece.at == body && got.piece.bytes == 3);
}

Test(messages, of_an_unknown_stream_are_refused)
{
    struct kolo_frame_message message;
    for (int stream = 0; stream < 256; stream++) {
        const uint8_t body[] = {7, 0, 0, 0, (uint8_t)stream, 'x', '\n'};
        kolo_status want = stream == 1 || stream == 2 ? KOLO_OK : KOLO_ERR_PROTOCOL;
        cr_assert_eq(read_part(KOLO_FRAME_OUTPUT, body, sizeof body, &message), want, "%d", stream);
        cr_assert(want != KOLO_OK || message.output.is_error == (stream == 2));
    }
}

Test(messages, to_be_shown_have_no_control_characters)
{
    uint8_t body[ROOM] = {0};
    struct kolo_frame_message message;
    size_t bytes = 0;
    struct kolo_writer writer = kolo_writer_over(body, sizeof body);
    kolo_write_u32(&writer, 1);
    kolo_write_text(&writer, "no\n\x1b[31mprogram");
    cr_assert_eq(kolo_writer_finish(&writer, body, &bytes), KOLO_OK);
    cr_assert_eq(read_part(KOLO_FRAME_REFUSED, body, bytes, &message), KOLO_OK);
    cr_assert_str_eq(message.refused.why, "no\?\?[31mprogram");
    writer = kolo_writer_over(body, sizeof body);
    kolo_write_u32(&writer, 4);
    kolo_write_text(&writer, "0.1\x7f");
    kolo_write_text(&writer, "host\xc2\x9b");
    kolo_write_u32(&writer, 11);
    cr_assert_eq(kolo_writer_finish(&writer, body, &bytes), KOLO_OK);
    cr_assert_eq(read_part(KOLO_FRAME_READY, body, bytes, &message), KOLO_OK);
    cr_assert_str_eq(message.ready.version, "0.1?");
    cr_assert_str_eq(message.ready.host, "host\?\?");
}
