// SPDX-License-Identifier: Apache-2.0
// Frames between kolorun and its agents: whole, in pieces, and from a dishonest sender.
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "launcher/frames.h"

struct seen {
    int count;
    enum kolo_frame_type types[64];
    size_t bytes[64];
    uint8_t first[64];
};

static kolo_status see(void *context, enum kolo_frame_type type, struct kolo_reader *body)
{
    struct seen *seen = context;
    seen->types[seen->count] = type;
    seen->bytes[seen->count] = kolo_reader_left(body);
    seen->first[seen->count++] = kolo_reader_left(body) > 0 ? body->at[0] : 0;
    return KOLO_OK;
}

static size_t put(uint8_t *to, enum kolo_frame_type type, size_t bytes, uint8_t fill)
{
    kolo_frame_head(to, type, bytes);
    memset(to + KOLO_FRAME_HEAD_BYTES, fill, bytes);
    return KOLO_FRAME_HEAD_BYTES + bytes;
}

/* Feeds @p data in pieces of @p step bytes. */
static kolo_status feed(struct kolo_frames *frames, const uint8_t *data, size_t bytes, size_t step,
                        struct seen *seen)
{
    kolo_status status = KOLO_OK;
    for (size_t at = 0; at < bytes && status == KOLO_OK; at += step) {
        size_t piece = bytes - at < step ? bytes - at : step, room = 0;
        uint8_t *to = NULL;
        cr_assert(kolo_frames_room(frames, piece, &to, &room) == KOLO_OK && room >= piece);
        memcpy(to, data + at, piece);
        status = kolo_frames_took(frames, piece, see, seen);
    }
    return status;
}

Test(frames, arrive_whatever_the_pieces)
{
    static uint8_t data[70000];
    size_t bytes = put(data, KOLO_FRAME_READY, 3, 7);
    bytes += put(data + bytes, KOLO_FRAME_BEAT, 0, 0);
    bytes += put(data + bytes, KOLO_FRAME_OUTPUT, 65536, 9);
    bytes += put(data + bytes, KOLO_FRAME_DONE, 1, 5);
    for (size_t step = 1; step < bytes; step = step * 3 + 1) {
        struct kolo_frames frames;
        struct seen seen = {.count = 0};
        kolo_frames_init(&frames, false);
        cr_assert(feed(&frames, data, bytes, step, &seen) == KOLO_OK);
        cr_assert(seen.count == 4, "step %zu: %d frames", step, seen.count);
        cr_assert(seen.types[2] == KOLO_FRAME_OUTPUT && seen.bytes[2] == 65536 &&
                  seen.first[2] == 9);
        cr_assert(seen.first[0] == 7 && seen.bytes[1] == 0 && seen.first[3] == 5);
        kolo_frames_fini(&frames);
    }
}

/* The output of a shell that never became an agent: its end is kept, in whatever pieces it came. */
Test(frames, keeps_the_end_of_chatter)
{
    static uint8_t data[5000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)('a' + i % 26);
    for (size_t bytes = 0; bytes <= sizeof data; bytes = bytes * 2 + 1)
        for (size_t step = 1; step <= bytes + 1; step = step * 5 + 2) {
            struct kolo_frames frames;
            struct seen seen = {.count = 0};
            char kept[KOLO_NOISE_KEPT];
            size_t want = bytes < sizeof kept ? bytes : sizeof kept;
            kolo_frames_init(&frames, true);
            cr_assert(feed(&frames, data, bytes, step, &seen) == KOLO_OK);
            cr_assert(kolo_frames_noise(&frames, kept) == want, "%zu of %zu", bytes, step);
            cr_assert(memcmp(kept, data + bytes - want, want) == 0, "%zu of %zu", bytes, step);
            kolo_frames_fini(&frames);
        }
}

Test(frames, skips_chatter_before_the_preamble)
{
    static const char chatter[] = "Welcome!\n\x02kolo\n\x02kolo-agent-0";
    uint8_t data[256];
    size_t bytes = sizeof chatter - 1;
    memcpy(data, chatter, bytes);
    memcpy(data + bytes, kolo_preamble, KOLO_PREAMBLE_BYTES);
    bytes += KOLO_PREAMBLE_BYTES;
    bytes += put(data + bytes, KOLO_FRAME_BEAT, 0, 0);
    for (size_t step = 1; step <= bytes; step++) {
        struct kolo_frames frames;
        struct seen seen = {.count = 0};
        kolo_frames_init(&frames, true);
        cr_assert(feed(&frames, data, bytes, step, &seen) == KOLO_OK);
        cr_assert(seen.count == 1 && seen.types[0] == KOLO_FRAME_BEAT, "step %zu", step);
        kolo_frames_fini(&frames);
    }
}

Test(frames, bounds_the_chatter)
{
    static uint8_t data[KOLO_PREAMBLE_NOISE_MAX + 64];
    struct kolo_frames frames;
    struct seen seen = {.count = 0};
    memset(data, 'y', sizeof data);
    kolo_frames_init(&frames, true);
    cr_assert(feed(&frames, data, sizeof data, 4096, &seen) == KOLO_ERR_PROTOCOL);
    cr_assert(frames.capacity < 65536, "kept %zu bytes of it", frames.capacity);
    kolo_frames_fini(&frames);
}

Test(frames, refuses_lies)
{
    static const uint8_t lies[][KOLO_FRAME_HEAD_BYTES] = {
        {0, 0, 0, 0, 0},                        /* no type */
        {0, 0, 0, 0, KOLO_FRAME_TYPES},         /* unknown type */
        {0, 0, 0, 0, 255},                      /* unknown type */
        {1, 0, 0, 1, KOLO_FRAME_BEAT},          /* 16 MiB plus 1 */
        {255, 255, 255, 255, KOLO_FRAME_OUTPUT} /* 4 GiB */
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct kolo_frames frames;
        struct seen seen = {.count = 0};
        kolo_frames_init(&frames, false);
        kolo_status status = feed(&frames, lies[i], KOLO_FRAME_HEAD_BYTES, 1, &seen);
        cr_assert(status == KOLO_ERR_PROTOCOL, "lie %zu", i);
        cr_assert(seen.count == 0);
        kolo_frames_fini(&frames);
    }
}

Test(frames, random_bytes_never_hurt)
{
    srandom(1);
    for (int round = 0; round < 2000; round++) {
        uint8_t data[512];
        struct kolo_frames frames;
        struct seen seen = {.count = 0};
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (uint8_t)(random() % 24); /* short lengths, known types */
        kolo_frames_init(&frames, false);
        (void)feed(&frames, data, 300, (size_t)(1 + random() % 300), &seen);
        struct kolo_reader reader = kolo_reader_over(data, sizeof data);
        struct kolo_spec spec;
        cr_assert(kolo_spec_unpack(&reader, &spec) != KOLO_OK);
        kolo_spec_fini(&spec);
        kolo_frames_fini(&frames);
    }
}

Test(frames, an_outcome_survives)
{
    struct kolo_outcome outcome = {.rank = 5,
                                   .pid = 812,
                                   .signal = 9,
                                   .core_dumped = true,
                                   .time_ran_out = true,
                                   .age_ms = 12345678901},
                        back;
    uint8_t data[KOLO_OUTCOME_BYTES];
    struct kolo_writer writer = kolo_writer_over(data, sizeof data);
    kolo_outcome_write(&writer, &outcome);
    size_t bytes = 0;
    cr_assert(kolo_writer_finish(&writer, data, &bytes) == KOLO_OK && bytes == sizeof data);
    struct kolo_reader reader = kolo_reader_over(data, sizeof data);
    kolo_outcome_read(&reader, &back);
    cr_assert(kolo_reader_finish(&reader, "outcome") == KOLO_OK);
    cr_assert(back.rank == 5 && back.pid == 812 && back.signal == 9 && back.core_dumped &&
              !back.memory_ran_out && back.time_ran_out && back.age_ms == 12345678901);
}
