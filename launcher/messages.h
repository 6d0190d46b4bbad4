// SPDX-License-Identifier: Apache-2.0
// What a frame says: its body, decoded as a whole. Neither kolorun nor an agent acts on a frame
// before it is known to be complete and to have nothing else in it.
#ifndef KOLO_LAUNCHER_MESSAGES_H
#define KOLO_LAUNCHER_MESSAGES_H

#include "launcher/frames.h"
#include "launcher/hosts.h"
#include "launcher/sight.h"
#include "launcher/strays.h"

/** A part of the frame, which may be read as long as that. */
struct kolo_piece {
    const uint8_t *at;
    size_t bytes;
};

struct kolo_frame_message {
    enum kolo_frame_type type;
    uint32_t rank; /* of STARTED, OUTPUT, EXITED, STRAY, SEEN, TIMELINE */
    union {
        struct {
            uint32_t protocol, pid;
            char version[64], host[KOLO_HOST_MAX];
        } ready;
        struct {
            uint32_t exit_status;
            char why[KOLO_DETAIL_MAX];
        } refused;
        struct {
            bool is_error; /* of standard error */
            struct kolo_piece text;
        } output;
        struct kolo_outcome exited;
        struct kolo_stray stray;
        struct {
            uint32_t round;
            struct kolo_sight sight;
        } seen;
        struct kolo_piece piece; /* NOTE, TIMELINE, JOB, INPUT, EXAMINE, FACTS, LOOK */
        /* STARTED: pid; WANTED, CREDIT, SIGNAL, PAUSE, PAUSED, RESUME, LOOKED */
        uint32_t value;
    };
};

/** @return ERR_PROTOCOL if @p body is not exactly what frames.h says of @p type. */
kolo_status kolo_frame_message_read(enum kolo_frame_type type, struct kolo_reader *body,
                                    struct kolo_frame_message *message_out) KOLO_NODISCARD;

#endif
