// SPDX-License-Identifier: Apache-2.0
// The messages of the store, shared by server and client, and the stream that carries them over a
// socket.
//
// A message is [u32 bytes][u32 bytes, inverted][u64 checksum][u8 type][body]; bytes counts type and
// body, and the checksum is of these. What a network card, a switch or memory changed on the way is
// ERR_DATA, whatever KOLO_CHECKSUM says, since a wrong value here (a key's, an address) would be
// believed by all ranks, and messages are few. Bodies, in order of their fields (text: u16 length
// and bytes; blob: u32 length and bytes):
//
//   rank -> server                                    server -> rank
//   JOIN     i32 rank, u32 size, u32 timeout_ms,      WORLD   u32 size, blob peer (each rank)
//            i32 pid, text host, blob peer            FAILED  i32 rank, u32 scope, i32 status, text
//   SET      u32 id, text key, blob value             LEFT    i32 rank, one or more
//   GET      u32 id, u8 wait, text key                ANSWER  u32 id, i32 status, i64 sum,
//   ADD      u32 id, text key, i64 amount                     text why, blob value
//   CANCEL   u32 id
//   STALLED  u32 channel, u32 sequence, 24 desc, text words, blob members (a bit each, or empty),
//            u8 own (enum kolo_own_wait)
//   RESUMED  u32 channel, u32 sequence
//   SHRINK   u32 id, u32 number, u32 timeout_ms, blob members, blob lost (a bit for each rank that
//            this one cannot reach any more): answered with the survivors
//   FINALIZED  u32 number, blob members: this rank has left that communicator
//   ABORT    u32 scope, i32 status, text
//   LEAVE    -
//
// Threads: a stream and the messages queued on it may be used by one thread at a time.
#ifndef KOLO_RUNTIME_STORE_WIRE_H
#define KOLO_RUNTIME_STORE_WIRE_H

#include "base/text.h" /* whoever takes a text from a message cleans it */
#include "base/wire.h"
#include "runtime/store.h"

enum kolo_store_type {
    KOLO_STORE_JOIN = 1,
    KOLO_STORE_SET,
    KOLO_STORE_GET,
    KOLO_STORE_ADD,
    KOLO_STORE_CANCEL,
    KOLO_STORE_STALLED,
    KOLO_STORE_RESUMED,
    KOLO_STORE_ABORT,
    KOLO_STORE_LEAVE,
    KOLO_STORE_SHRINK,
    KOLO_STORE_FINALIZED,
    KOLO_STORE_WORLD = 32,
    KOLO_STORE_FAILED,
    KOLO_STORE_LEFT,
    KOLO_STORE_ANSWER
};

enum {
    KOLO_STORE_HEAD_BYTES = 16,
    KOLO_STORE_HOST_MAX = 64,
    KOLO_STORE_PEER_MAX = 8 << 10,             /* one rank's blob */
    KOLO_STORE_JOIN_MAX = 16 << 10,            /* longest message before a rank has joined */
    KOLO_STORE_ASK_MAX = (1 << 20) + (4 << 10) /* and afterwards: the longest SET */
};

/** A message on its way to one or more sockets. */
struct kolo_message {
    uint32_t refs;
    size_t bytes; /* length of data, including the head */
    uint8_t data[];
};
/** Makes a message with room for a body of @p body_max bytes, which is written through *body_out.
 * It has one reference. NULL: no memory. */
struct kolo_message *kolo_message_create(enum kolo_store_type type, size_t body_max,
                                         struct kolo_writer *body_out);
/** Writes the head of a message whose type and body are the @p bytes bytes behind it. */
void kolo_message_head(uint8_t *data, size_t bytes);
/** Fixes the length. ERR_DATA if the body did not fit. */
kolo_status kolo_message_seal(struct kolo_message *message,
                              const struct kolo_writer *body) KOLO_NODISCARD;
/** Drops a reference. NULL is allowed. */
void kolo_message_drop(struct kolo_message *message);

/** Incoming and outgoing messages of a non-blocking socket. */
struct kolo_stream {
    int fd;
    size_t in_max;   /* longest message that is accepted */
    bool is_changed; /* something changed on the way here */
    uint8_t *in;
    size_t in_capacity, in_begin, in_end;
    struct kolo_message **out; /* a ring */
    size_t out_capacity, out_head, out_count;
    size_t out_sent;  /* bytes sent of the message at out_head */
    size_t out_bytes; /* queued and not yet sent */
    int out_error;    /* the errno value with which the first send failed; 0: none did */
};
/** Takes @p fd and makes it non-blocking. */
kolo_status kolo_stream_init(struct kolo_stream *stream, int fd, size_t in_max) KOLO_NODISCARD;
/** Closes the socket and frees everything. A zeroed stream with fd -1 is allowed. */
void kolo_stream_fini(struct kolo_stream *stream);
/** Sets that a peer which is silent for @p timeout_ms counts as gone (only TCP; 0: the system's
 * rules). */
void kolo_stream_keepalive(const struct kolo_stream *stream, int64_t timeout_ms);
/** Appends @p message and takes a reference of its own. */
kolo_status kolo_stream_queue(struct kolo_stream *stream,
                              struct kolo_message *message) KOLO_NODISCARD;
/** Sends what the socket takes. ERR_LINK: the connection is broken. */
kolo_status kolo_stream_flush(struct kolo_stream *stream) KOLO_NODISCARD;
/** Reads once. OK: bytes came; AGAIN: none are there; ERR_LINK: the connection ended. The detail
 * says why, also if it was a send that found it out. */
kolo_status kolo_stream_fill(struct kolo_stream *stream) KOLO_NODISCARD;
/** Gets the next complete message; *body_out is valid until the next fill. AGAIN: not all of it has
 * arrived; ERR_PROTOCOL: its length is not allowed; ERR_DATA: it changed on the way. */
kolo_status kolo_stream_next(struct kolo_stream *stream, uint8_t *type_out,
                             struct kolo_reader *body_out) KOLO_NODISCARD;

/** The status for a number from the wire; ERR_PROTOCOL if it is not a failure. */
kolo_status kolo_status_from_wire(int32_t value);
/** "60 s", "0.3 s". */
void kolo_duration_format(int64_t ms, char *text, size_t capacity);

#endif
