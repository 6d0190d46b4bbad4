// SPDX-License-Identifier: Apache-2.0
// Framing: bytes to frames and back. Trusts nothing: lengths and types are checked before a body is
// touched.
#include <string.h>

#include "base/alloc.h"
#include "launcher/frames.h"

const uint8_t kolo_preamble[KOLO_PREAMBLE_BYTES] = "\n\x02kolo-agent-1\x03";

static const char *const names[KOLO_FRAME_TYPES] = {[KOLO_FRAME_NONE] = "?",
#define KOLO_FRAME_TEXT(name) [KOLO_FRAME_##name] = #name,
                                                    KOLO_FRAME_MAP(KOLO_FRAME_TEXT)
#undef KOLO_FRAME_TEXT
};

const char *kolo_frame_text(enum kolo_frame_type type)
{
    return type > KOLO_FRAME_NONE && type < KOLO_FRAME_TYPES ? names[type] : names[KOLO_FRAME_NONE];
}

void kolo_frames_init(struct kolo_frames *frames, bool wants_preamble)
{
    *frames = (struct kolo_frames){.wants_preamble = wants_preamble};
}

void kolo_frames_fini(struct kolo_frames *frames)
{
    kolo_free_wiped(frames->data, frames->capacity);
    kolo_frames_init(frames, false);
}

/* Not by kolo_grow, which leaves what it moved in memory that is free. */
static kolo_status grow(struct kolo_frames *frames, size_t need)
{
    const size_t capacity = need > 2 * frames->capacity ? need : 2 * frames->capacity;
    uint8_t *data = kolo_calloc(capacity, 1);
    if (!data)
        return KOLO_ERR_NO_MEMORY;
    if (frames->used > 0)
        memcpy(data, frames->data, frames->used);
    kolo_free_wiped(frames->data, frames->capacity);
    frames->data = data;
    frames->capacity = capacity;
    return KOLO_OK;
}

kolo_status kolo_frames_room(struct kolo_frames *frames, size_t need, uint8_t **room_out,
                             size_t *bytes_out)
{
    if (frames->used + need > frames->capacity) {
        kolo_status status = grow(frames, frames->used + need);
        if (status != KOLO_OK)
            return status;
    }
    *room_out = frames->data + frames->used;
    *bytes_out = frames->capacity - frames->used;
    return KOLO_OK;
}

static void drop_front(struct kolo_frames *frames, size_t bytes)
{
    frames->used -= bytes;
    if (bytes > 0 && frames->used > 0)
        memmove(frames->data, frames->data + bytes, frames->used);
}

/* Appends @p bytes bytes to the @p used bytes in @p kept, of which the newest stay; returns how
 * many. */
static size_t keep_end(char kept[KOLO_NOISE_KEPT], size_t used, const uint8_t *data, size_t bytes)
{
    if (bytes > KOLO_NOISE_KEPT) {
        data += bytes - KOLO_NOISE_KEPT;
        bytes = KOLO_NOISE_KEPT;
    }
    const size_t over = used + bytes > KOLO_NOISE_KEPT ? used + bytes - KOLO_NOISE_KEPT : 0;
    memmove(kept, kept + over, used - over);
    memcpy(kept + used - over, data, bytes);
    return used - over + bytes;
}

static size_t noise_kept(const struct kolo_frames *frames)
{
    return frames->noise_bytes < KOLO_NOISE_KEPT ? frames->noise_bytes : KOLO_NOISE_KEPT;
}

size_t kolo_frames_noise(const struct kolo_frames *frames, char text_out[KOLO_NOISE_KEPT])
{
    const size_t used = noise_kept(frames);
    memcpy(text_out, frames->noise, used);
    return frames->wants_preamble && frames->used > 0
               ? keep_end(text_out, used, frames->data, frames->used)
               : used;
}

/* Skips everything up to and including the preamble. */
static kolo_status find_preamble(struct kolo_frames *frames)
{
    const uint8_t *at = memmem(frames->data, frames->used, kolo_preamble, KOLO_PREAMBLE_BYTES);
    size_t noise = at ? (size_t)(at - frames->data) : 0;
    if (!at && frames->used >= KOLO_PREAMBLE_BYTES)
        noise = frames->used - (KOLO_PREAMBLE_BYTES - 1);
    if (noise > 0)
        (void)keep_end(frames->noise, noise_kept(frames), frames->data, noise);
    frames->noise_bytes += noise;
    if (frames->noise_bytes > KOLO_PREAMBLE_NOISE_MAX)
        return kolo_fail(KOLO_ERR_PROTOCOL,
                         "more than %d bytes of other output before the agent's; see what the "
                         "start-up files of the shell there (.bashrc) print",
                         (int)KOLO_PREAMBLE_NOISE_MAX);
    drop_front(frames, noise + (at ? KOLO_PREAMBLE_BYTES : 0));
    frames->wants_preamble = !at;
    return KOLO_OK;
}

/* The length of the frame at @p offset with its head; 0 if it is not complete. */
static kolo_status frame_at(const struct kolo_frames *frames, size_t offset, size_t *bytes_out,
                            enum kolo_frame_type *type_out)
{
    struct kolo_reader head = kolo_reader_over(
        frames->data + offset,
        frames->used - offset < KOLO_FRAME_HEAD_BYTES ? 0 : (size_t)KOLO_FRAME_HEAD_BYTES);
    size_t body = kolo_read_u32(&head);
    unsigned type = kolo_read_u8(&head);
    *bytes_out = 0;
    if (head.failed)
        return KOLO_OK;
    if (body > KOLO_FRAME_BODY_MAX || type == KOLO_FRAME_NONE || type >= KOLO_FRAME_TYPES)
        return kolo_fail(KOLO_ERR_PROTOCOL, "a frame of type %u with %zu bytes", type, body);
    *type_out = (enum kolo_frame_type)type;
    if (frames->used - offset >= KOLO_FRAME_HEAD_BYTES + body)
        *bytes_out = KOLO_FRAME_HEAD_BYTES + body;
    return KOLO_OK;
}

kolo_status kolo_frames_took(struct kolo_frames *frames, size_t bytes, kolo_frame_fn *fn,
                             void *context)
{
    kolo_status status = KOLO_OK;
    frames->used += bytes;
    if (frames->wants_preamble)
        status = find_preamble(frames);
    if (status != KOLO_OK || frames->wants_preamble)
        return status;
    size_t offset = 0, length = 0;
    enum kolo_frame_type type = KOLO_FRAME_NONE;
    while ((status = frame_at(frames, offset, &length, &type)) == KOLO_OK && length > 0) {
        struct kolo_reader body = kolo_reader_over(frames->data + offset + KOLO_FRAME_HEAD_BYTES,
                                                   length - KOLO_FRAME_HEAD_BYTES);
        offset += length;
        status = fn(context, type, &body);
        if (status != KOLO_OK)
            break;
    }
    drop_front(frames, offset);
    return status;
}

void kolo_frame_head(uint8_t head[KOLO_FRAME_HEAD_BYTES], enum kolo_frame_type type, size_t bytes)
{
    struct kolo_writer writer = kolo_writer_over(head, KOLO_FRAME_HEAD_BYTES);
    kolo_write_u32(&writer, (uint32_t)bytes);
    kolo_write_u8(&writer, (uint8_t)type);
}

void kolo_outcome_write(struct kolo_writer *writer, const struct kolo_outcome *outcome)
{
    kolo_write_u32(writer, outcome->rank);
    kolo_write_u32(writer, outcome->pid);
    kolo_write_u32(writer, outcome->signal);
    kolo_write_u32(writer, outcome->status);
    kolo_write_u8(writer, outcome->core_dumped);
    kolo_write_u8(writer, outcome->memory_ran_out);
    kolo_write_u8(writer, outcome->time_ran_out);
    kolo_write_u64(writer, outcome->age_ms);
}

void kolo_outcome_read(struct kolo_reader *reader, struct kolo_outcome *outcome_out)
{
    struct kolo_outcome outcome = {.rank = kolo_read_u32(reader),
                                   .pid = kolo_read_u32(reader),
                                   .signal = kolo_read_u32(reader),
                                   .status = kolo_read_u32(reader),
                                   .core_dumped = kolo_read_u8(reader) != 0,
                                   .memory_ran_out = kolo_read_u8(reader) != 0,
                                   .time_ran_out = kolo_read_u8(reader) != 0,
                                   .age_ms = kolo_read_u64(reader)};
    *outcome_out = outcome;
}
