// SPDX-License-Identifier: Apache-2.0
// Decodes the bodies of frames. The description of a job is decoded by spec.c.
#include "launcher/messages.h"

#include <signal.h>

#include "base/clock.h"
#include "base/text.h"

enum { EXIT_STATUS_MOST = 255 };
/* As old as a rank can be: what is older would overflow where it is counted in nanoseconds. */
static const uint64_t AGE_MOST_MS = INT64_MAX / KOLO_NS_PER_MS;

static struct kolo_piece rest(struct kolo_reader *body)
{
    struct kolo_piece piece = {.at = body->at, .bytes = kolo_reader_left(body)};
    body->at += piece.bytes;
    return piece;
}

/* A text that will be shown. */
static void read_clean(struct kolo_reader *body, char *text, size_t capacity)
{
    kolo_read_text(body, text, capacity);
    kolo_text_clean(text);
}

static void read_ready(struct kolo_reader *body, struct kolo_frame_message *message)
{
    message->ready.protocol = kolo_read_u32(body);
    read_clean(body, message->ready.version, sizeof message->ready.version);
    read_clean(body, message->ready.host, sizeof message->ready.host);
    message->ready.pid = kolo_read_u32(body);
}

static void read_output(struct kolo_reader *body, struct kolo_frame_message *message)
{
    enum { OUT = 1, ERROR = 2 };
    message->rank = kolo_read_u32(body);
    const unsigned stream = kolo_read_u8(body);
    message->output.is_error = stream == ERROR;
    message->output.text = rest(body);
    if (stream != OUT && stream != ERROR)
        body->failed = true;
}

/* The status becomes kolorun's own, of which a shell sees 8 bits: 256 would be success. */
static void read_refused(struct kolo_reader *body, struct kolo_frame_message *message)
{
    message->refused.exit_status = kolo_read_u32(body);
    read_clean(body, message->refused.why, sizeof message->refused.why);
    if (message->refused.exit_status < 1 || message->refused.exit_status > EXIT_STATUS_MOST)
        body->failed = true;
}

static void read_exited(struct kolo_reader *body, struct kolo_frame_message *message)
{
    kolo_outcome_read(body, &message->exited);
    message->rank = message->exited.rank;
    if (message->exited.status > EXIT_STATUS_MOST || message->exited.signal >= NSIG ||
        message->exited.age_ms > AGE_MOST_MS)
        body->failed = true;
}

static void read_body(struct kolo_reader *body, struct kolo_frame_message *message)
{
    switch ((int)message->type) {
    case KOLO_FRAME_READY:
        read_ready(body, message);
        break;
    case KOLO_FRAME_REFUSED:
        read_refused(body, message);
        break;
    case KOLO_FRAME_STARTED:
        message->rank = kolo_read_u32(body);
        message->value = kolo_read_u32(body);
        break;
    case KOLO_FRAME_OUTPUT:
        read_output(body, message);
        break;
    case KOLO_FRAME_TIMELINE:
        message->rank = kolo_read_u32(body);
        message->piece = rest(body);
        break;
    case KOLO_FRAME_EXITED:
        read_exited(body, message);
        break;
    case KOLO_FRAME_STRAY:
        if (kolo_stray_read(body, &message->stray) == KOLO_OK)
            message->rank = message->stray.rank;
        break;
    case KOLO_FRAME_SEEN:
        message->seen.round = kolo_read_u32(body);
        if (kolo_sight_read(body, &message->seen.sight) == KOLO_OK)
            message->rank = message->seen.sight.rank;
        break;
    case KOLO_FRAME_NOTE:
    case KOLO_FRAME_JOB:
    case KOLO_FRAME_INPUT:
    case KOLO_FRAME_EXAMINE:
    case KOLO_FRAME_FACTS:
    case KOLO_FRAME_LOOK:
        message->piece = rest(body);
        break;
    case KOLO_FRAME_WANTED:
    case KOLO_FRAME_CREDIT:
    case KOLO_FRAME_SIGNAL:
    case KOLO_FRAME_PAUSE:
    case KOLO_FRAME_PAUSED:
    case KOLO_FRAME_RESUME:
    case KOLO_FRAME_LOOKED:
        message->value = kolo_read_u32(body);
        break;
    default: /* nothing */
        break;
    }
}

kolo_status kolo_frame_message_read(enum kolo_frame_type type, struct kolo_reader *body,
                                    struct kolo_frame_message *message_out)
{
    *message_out = (struct kolo_frame_message){.type = type};
    read_body(body, message_out);
    if (kolo_reader_finish(body, kolo_frame_text(type)) != KOLO_OK)
        return kolo_fail(KOLO_ERR_PROTOCOL, "a malformed %s", kolo_frame_text(type));
    return KOLO_OK;
}
