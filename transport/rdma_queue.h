// SPDX-License-Identifier: Apache-2.0
// One reliable queue pair to a peer and the memory that is ready on both sides: messages of up to a
// buffer's size go from a buffer here to a buffer there, in order, each exactly once. It knows no
// sockets and no links: its user exchanges the two hellos.
//
// Credit. Of its `buffers` receives each side keeps RESERVE in reserve and gives the others to its
// peer. A message uses one of them. It is given back with the next message in the other direction
// (in its 32-bit number), or, when half of them are owed and there is no such message, by a message
// without bytes. That one uses no credit, but a receive of the reserve. At most two such messages
// are unread at any time, since the second one is owed only for messages that its reader sent after
// it had read the first. A flush, which happens once in a queue's life, uses the reserve too. So a
// receive is always ready, and the device never has to retry (RNR).
//
// In addition to messages, a queue writes into memory that the peer has told it of, in a row of
// pieces. The last write of a row tells the peer a mark of 16 bits: it uses up a buffer, like a
// message, without filling it. rdma_number.h has the layout of the 32-bit number.
//
// A pair that breaks although the peer lives is replaced by a fresh one (rdma_resume.h coordinates
// both sides). What the peer has received is known from the number of its completions, which come
// in order: requests posted before that are over, the others are posted again, from the same
// memory. So each message arrives exactly once.
//
// The buffers are eager buffers: of fixed size, in registered memory, ready before the message is
// known. Those to send from and those to receive into are one allocation. A send is signaled if its
// completion is asked for; the completion of a send completes all sends before it
// (rdma_complete.h).
//
// Closing destroys the queue pair first: after that the device touches none of the memory.
//
// Threads: those of the endpoint, one at a time. Callbacks come from kolo_rdma_completions_poll, or
// from a send that the device refuses; they must not close the queue.
#ifndef KOLO_TRANSPORT_RDMA_QUEUE_H
#define KOLO_TRANSPORT_RDMA_QUEUE_H

#include "base/clock.h"
#include "transport/rdma_complete.h"
#include "transport/rdma_handshake.h"

struct kolo_rdma_queue;
struct kolo_rdma_queue_ops {
    /** A message has arrived; its bytes are valid during the call. */
    void (*arrived)(struct kolo_rdma_queue *queue, const uint8_t *data, size_t bytes);
    /** The peer has written everything to which this mark belongs into our memory. */
    void (*written)(struct kolo_rdma_queue *queue, uint16_t mark);
    /** The last write of a row, or a send, that was posted with this context is over. */
    void (*has_written)(struct kolo_rdma_queue *queue, void *context);
    /** One of our pieces, of that many bytes, is over. NULL if no pieces are written. */
    void (*passed)(struct kolo_rdma_queue *queue, size_t bytes);
    /** Something that prevented a send may not do so any more. */
    void (*has_room)(struct kolo_rdma_queue *queue);
    /** The pair broke, for the reason in the detail, but the peer may live. Return true if the pair
     *  will be replaced; otherwise, and if this is NULL, the queue cannot be used any more. */
    bool (*broke)(struct kolo_rdma_queue *queue);
    /** The queue cannot be used any more, for the reason in the detail. Called once. */
    void (*failed)(struct kolo_rdma_queue *queue, kolo_status why);
    /** Writes who is at the other end: "rank 3 on host b". */
    void (*describe)(const struct kolo_rdma_queue *queue, char *text, size_t capacity);
    /* other queues can do its work: broke() is called whatever the cause, except for a violation of
     * the protocol */
    bool is_spare;
};

/** A send as it was posted, so that it can be posted again. */
struct kolo_rdma_posted {
    struct ibv_sge parts[2];
    uint64_t address;
    uint64_t uses; /* buffers of the peer's used so far, including this one */
    uint32_t remote_key;
    enum ibv_wr_opcode opcode;
    uint16_t mark;
    uint8_t part_count;
    bool is_inlined;
};

struct kolo_rdma_queue {
    const struct kolo_rdma_queue_ops *ops;
    void *context; /* used by the owner only */
    struct kolo_rdma_completions *completions;
    struct ibv_qp *pair;
    struct kolo_rdma_track sends, receives;
    struct ibv_mr *region;
    uint8_t *memory;                /* buffers to send from, then buffers to receive into */
    uint32_t buffers, buffer_bytes; /* on this side */
    uint32_t message_bytes;         /* the smaller buffer size of both sides */
    uint32_t inline_bytes;
    uint32_t write_bytes; /* the most of one write */
    size_t writes_out;    /* bytes of writes that have not completed */
    uint32_t packet;
    uint32_t credit;            /* messages for which the peer has a buffer */
    uint32_t credit_whole;      /* all that it ever gave */
    uint32_t owed;              /* buffers here that are free again, of which the peer was not
                                 * told */
    uint64_t watched;           /* the value of sends.first at the watch's last look */
    kolo_deadline silent_since; /* the look that first found that value; 0: nothing is under way */
    struct kolo_rdma_posted *posted; /* a ring, indexed by the number of the send */
    uint64_t uses;                   /* sends that used a receive of the peer's, over all pairs */
    uint64_t settled;                /* how many of them arrived on the previous pairs */
    bool is_connected, has_failed, is_flushed;
    bool is_loose; /* one of its pairs could not be destroyed */
    bool is_cut;   /* the pair is broken: what arrived before is delivered, and nothing is posted */
    bool holds;    /* sends wait until those of the previous pair have been posted again */
    bool takes_parts; /* a message may consist of two parts */
    bool has_checks;  /* the numbers have checks; set by the owner, on both sides, before it joins
                       * the pairs */
};

/** Opens a queue pair with @p buffers receives (a power of two) of @p buffer_bytes bytes each.
 *  ERR_UNSUPPORTED, ERR_SYSTEM: the device refuses, with the reason; ERR_NO_MEMORY. */
kolo_status kolo_rdma_queue_open(struct kolo_rdma_completions *completions,
                                 const struct kolo_rdma_queue_ops *ops, void *context,
                                 uint32_t buffers, uint32_t buffer_bytes,
                                 struct kolo_rdma_queue **queue_out) KOLO_NODISCARD;
/** @p queue may be NULL. */
void kolo_rdma_queue_close(struct kolo_rdma_queue *queue);
/** Describes how it is reached at our address @p gid. */
void kolo_rdma_queue_hello(const struct kolo_rdma_queue *queue, const struct kolo_rdma_gid *gid,
                           struct kolo_rdma_hello *hello_out);
/** Joins it to the peer's, as described by @p theirs; @p gid as for the hello. From now on messages
 *  may arrive. The first message may be sent when the peer has done the same. ERR_LINK, with the
 *  reason. */
kolo_status kolo_rdma_queue_connect(struct kolo_rdma_queue *queue, const struct kolo_rdma_gid *gid,
                                    const struct kolo_rdma_hello *theirs) KOLO_NODISCARD;

/** Where to write the next message, message_bytes long; NULL: no buffer is free now, here or
 *  there. */
uint8_t *kolo_rdma_queue_buffer(struct kolo_rdma_queue *queue);
/** Sends the @p bytes bytes (at least 1) that were written there. @p is_signaled: somebody will ask
 *  whether everything is drained, so the message gets a completion of its own. Otherwise only some
 *  messages have one, as often as buffers are needed again, since each completion costs the device
 *  an entry and us a look. A send that fails completes in any case. */
void kolo_rdma_queue_send(struct kolo_rdma_queue *queue, size_t bytes, bool is_signaled);
/** Memory of ours, and for a write, where its bytes go. */
struct kolo_rdma_write {
    const void *data;
    size_t bytes; /* at most write_bytes */
    uint32_t key;
    uint64_t address;
    uint32_t remote_key;
};
/** Whether a write can be posted now. The last write of a row uses a buffer of the peer's, for its
 *  mark. The bytes of writes under way are limited, so that messages sent between them need not
 *  wait long. */
bool kolo_rdma_queue_can_write(const struct kolo_rdma_queue *queue, bool is_last);
/** Writes, in order with everything that is sent. The memory is lent until the last write of the
 *  row is over. */
void kolo_rdma_queue_write(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write);
/** The same, and passed() tells when it is over. */
void kolo_rdma_queue_write_piece(struct kolo_rdma_queue *queue,
                                 const struct kolo_rdma_write *write);
/** The last write of a row, which the peer is told with @p mark, and the owner with @p context (not
 *  NULL). It may have no bytes. */
void kolo_rdma_queue_write_last(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write,
                                uint16_t mark, void *context);
/** As kolo_rdma_queue_send(), for the @p bytes bytes in the buffer followed by @p rest, which is
 *  lent until has_written(@p context), which must not be NULL. Together at most message_bytes. Only
 *  if takes_parts is set. */
void kolo_rdma_queue_send_with(struct kolo_rdma_queue *queue, size_t bytes,
                               const struct kolo_rdma_write *rest, void *context, bool is_signaled);
/** When this returns, the device touches none of its memory, and no callback comes. The queue
 *  cannot be used any more. False: the device does not release its pair, and may still write into
 *  memory that was offered to the peer. */
bool kolo_rdma_queue_stop(struct kolo_rdma_queue *queue);

/** Breaks the pair, unless it is broken already: nothing goes in or out any more. The next polls
 *  deliver what has arrived. ERR_LINK: the device refuses. */
kolo_status kolo_rdma_queue_cut(struct kolo_rdma_queue *queue) KOLO_NODISCARD;
/** Whether everything that arrived before the cut was delivered. If so, kolo_rdma_queue_received()
 *  says how many requests of the peer's have arrived in total. */
bool kolo_rdma_queue_is_still(const struct kolo_rdma_queue *queue);
uint64_t kolo_rdma_queue_received(const struct kolo_rdma_queue *queue);
/** Replaces a pair that is still by a fresh one; sends wait. Must not be called from within a
 *  callback. Errors as for _open; also ERR_LINK: the device does not release the old pair (see
 *  _stop). */
kolo_status kolo_rdma_queue_renew(struct kolo_rdma_queue *queue) KOLO_NODISCARD;
/** The peer, whose pair is still, has @p received that many. ERR_PROTOCOL: that is impossible. */
kolo_status kolo_rdma_queue_settle(struct kolo_rdma_queue *queue, uint64_t received) KOLO_NODISCARD;
/** Both sides are connected again: posts what did not arrive, and lets sends continue. Returns how
 *  many were posted again. */
unsigned kolo_rdma_queue_replay(struct kolo_rdma_queue *queue);

/** For how long no send has completed although some are under way, measured between calls of this
 *  function. 0 at the first call, and if @p is_late, since then nobody looked for a while. If no
 *  send under way is signaled, posts a signaled write of no bytes, which needs nothing of the
 *  peer's program, not even a buffer. */
int64_t kolo_rdma_queue_silence_ns(struct kolo_rdma_queue *queue, kolo_deadline now, bool is_late);
/** The silence has lasted too long: the queue fails, with @p text. */
void kolo_rdma_queue_give_up(struct kolo_rdma_queue *queue, const char *text);

/** Nothing will follow what was sent: makes sure that its end is signaled. */
void kolo_rdma_queue_flush(struct kolo_rdma_queue *queue);
/** Whether everything that was sent has reached the peer's memory, as far as completions tell. */
bool kolo_rdma_queue_is_drained(const struct kolo_rdma_queue *queue);

#endif
