// SPDX-License-Identifier: Apache-2.0
// See flip.h: replaces the payload of a frame by a changed copy.
#include "tests/support/flip.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "transport/checksum.h"

void __real_kolo_frame_pack(const struct kolo_link *link, const struct kolo_frame *frame,
                            uint8_t *out);
void __wrap_kolo_frame_pack(const struct kolo_link *link, const struct kolo_frame *frame,
                            uint8_t *out);

enum { BIT = 0x10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool is_armed, is_control, is_done;
    int rank, nth, from, to;
    size_t least, at;
    enum flip_place place;
    uint8_t *copy;
} flip;

static bool is_meant(const struct kolo_link *link, const struct kolo_frame *frame)
{
    const int rank = kolo_endpoint_config_of(link->endpoint)->rank;
    if (!flip.is_armed || (flip.rank >= 0 && flip.rank != rank) || frame->is_remote)
        return false;
    if (flip.is_control)
        return frame->work == NULL;
    return frame->work && frame->bytes > 0 && frame->bytes >= flip.least && --flip.nth == 0;
}

static void flip_payload(struct kolo_frame *frame)
{
    const size_t at = flip.place == FLIP_FIRST  ? 0
                      : flip.place == FLIP_LAST ? frame->bytes - 1
                                                : frame->bytes / 2;
    flip.copy = malloc(frame->bytes);
    if (!flip.copy)
        abort();
    memcpy(flip.copy, frame->payload, frame->bytes);
    flip.copy[at] ^= BIT;
    frame->payload = flip.copy;
}

void __wrap_kolo_frame_pack(const struct kolo_link *link, const struct kolo_frame *frame,
                            uint8_t *out)
{
    __real_kolo_frame_pack(link, frame, out);
    pthread_mutex_lock(&lock);
    if (is_meant(link, frame)) {
        flip.is_armed = false;
        flip.is_done = true;
        flip.from = kolo_endpoint_config_of(link->endpoint)->rank;
        flip.to = link->peer;
        if (flip.is_control || flip.place == FLIP_HEADER)
            out[flip.at] ^= BIT;
        else
            flip_payload((struct kolo_frame *)(uintptr_t)frame);
    }
    pthread_mutex_unlock(&lock);
}

static void arm(int rank, int nth, size_t least, enum flip_place place, bool is_control, size_t at)
{
    flip_end();
    pthread_mutex_lock(&lock);
    flip.is_armed = true;
    flip.is_control = is_control;
    flip.rank = rank;
    flip.nth = nth;
    flip.least = least;
    flip.place = place;
    flip.at = at;
    pthread_mutex_unlock(&lock);
}

void flip_arm(int rank, int nth, size_t least, enum flip_place place)
{
    arm(rank, nth, least, place, false, 0);
}

void flip_arm_control(int rank, size_t at)
{
    arm(rank, 0, 0, FLIP_HEADER, true, at);
}

bool flip_done(int *from_out, int *to_out)
{
    pthread_mutex_lock(&lock);
    const bool is_done = flip.is_done;
    if (from_out)
        *from_out = flip.from;
    if (to_out)
        *to_out = flip.to;
    pthread_mutex_unlock(&lock);
    return is_done;
}

void flip_end(void)
{
    pthread_mutex_lock(&lock);
    free(flip.copy);
    memset(&flip, 0, sizeof flip);
    pthread_mutex_unlock(&lock);
}
