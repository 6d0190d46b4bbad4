// SPDX-License-Identifier: Apache-2.0
// One reliable queue pair to a peer and the memory that lies ready on both sides: messages of up to
// a buffer's size go from a buffer here to one there, in order, each once. No sockets, no links:
// who uses it brings the two hellos together.
//
// Credit. Of its `buffers` receives each side keeps RESERVE back and gives the others to its peer:
// a message uses one up, and it comes back, added to the next message the other way (its 32-bit
// number), or, when half are owed and nothing goes there, by a message without bytes. Such a
// message uses no credit: it lands in the reserve. Two of them at most are not yet read at any
// time, since the second is owed only for messages that its reader has sent after it read of the
// first. A flush, once in a queue's life, lands there too. So a receive is always ready and the
// device never has to ask again (RNR).
//
// Beside messages a queue writes into memory of the peer's that it was told of, in a row of pieces.
// The last of a row is told there by a mark of 16 bits: it uses a buffer up, as a message does, and
// fills none. A number is mark << 16 | credit.
//
// A pair that breaks although the peer lives is replaced by a fresh one (rdma_resume.h brings both
// sides to it). What the peer has received is counted by its completions, which come in order: what
// was posted before is over, the rest is posted again, out of the same memory. So each message
// arrives once.
//
// These are eager buffers: of fixed size, in registered memory, ready before it is known what
// comes; those to send from and those to receive into are one allocation. A send is signaled where
// its completion is asked for: that of one is that of all before it (rdma_complete.h).
//
// Closing destroys the queue pair first: from then on the device touches none of the memory.
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
    /** A message has come; the bytes are there during the call. */
    void (*arrived)(struct kolo_rdma_queue *queue, const uint8_t *data, size_t bytes);
    /** The peer has written into memory of ours all that it has marked so. */
    void (*written)(struct kolo_rdma_queue *queue, uint16_t mark);
    /** The last of a row of writes of ours, or a send, posted with this context, is over. */
    void (*has_written)(struct kolo_rdma_queue *queue, void *context);
    /** A piece of ours, of so many bytes, is over. NULL where none is written. */
    void (*passed)(struct kolo_rdma_queue *queue, size_t bytes);
    /** Something that was in the way of a send may be so no more. */
    void (*has_room)(struct kolo_rdma_queue *queue);
    /** The pair broke, and the detail says why, but the peer may live. True: somebody brings it
     * back; else, and where this is NULL, the queue is of no use any more. */
    bool (*broke)(struct kolo_rdma_queue *queue);
    /** The queue is of no use any more, and the detail says why. Once. */
    void (*failed)(struct kolo_rdma_queue *queue, kolo_status why);
    /** Who is at the other end: "rank 3 on host b". */
    void (*describe)(const struct kolo_rdma_queue *queue, char *text, size_t capacity);
    /* others do what it cannot: broke() is asked whatever breaks it, but for broken protocol */
    bool is_spare;
};

/** A send as it was posted, to post it again. */
struct kolo_rdma_posted {
    struct ibv_sge parts[2];
    uint64_t address;
    uint64_t uses; /* of buffers there, with this one */
    uint32_t remote_key;
    enum ibv_wr_opcode opcode;
    uint16_t mark;
    uint8_t part_count;
    bool is_inlined;
};

struct kolo_rdma_queue {
    const struct kolo_rdma_queue_ops *ops;
    void *context; /* the owner's */
    struct kolo_rdma_completions *completions;
    struct ibv_qp *pair;
    struct kolo_rdma_track sends, receives;
    struct ibv_mr *region;
    uint8_t *memory;                /* buffers to send from, then those to receive into */
    uint32_t buffers, buffer_bytes; /* here */
    uint32_t message_bytes;         /* the smaller of both sides' buffers */
    uint32_t inline_bytes;
    uint32_t write_bytes; /* of one write */
    size_t writes_out;    /* bytes of writes that have not completed */
    uint32_t packet;
    uint32_t credit;            /* messages that the peer has a buffer for */
    uint32_t credit_whole;      /* all it ever gave */
    uint32_t owed;              /* buffers here that are free again, and it was not told */
    uint64_t watched;           /* sends.first at the last look of the watch */
    kolo_deadline silent_since; /* the look that found it there first; 0: nothing is on its way */
    struct kolo_rdma_posted *posted; /* a ring, by number of the send */
    uint64_t uses;                   /* sends that took a receive there, of all pairs */
    uint64_t settled;                /* of them: so many arrived on the pairs before */
    bool is_connected, has_failed, is_flushed;
    bool is_loose; /* a pair that it had could not be destroyed */
    bool is_cut; /* the pair is broken: what came before that is delivered, and nothing is posted */
    bool holds;  /* sends wait until those of the pair before are posted again */
    bool takes_parts; /* a message may lie in two parts */
};

/** A queue pair with @p buffers receives (a power of two) of @p buffer_bytes bytes each ready.
 * ERR_UNSUPPORTED, ERR_SYSTEM: the device does not give it, and why; ERR_NO_MEMORY. */
kolo_status kolo_rdma_queue_open(struct kolo_rdma_completions *completions,
                                 const struct kolo_rdma_queue_ops *ops, void *context,
                                 uint32_t buffers, uint32_t buffer_bytes,
                                 struct kolo_rdma_queue **queue_out) KOLO_NODISCARD;
/** NULL is fine. */
void kolo_rdma_queue_close(struct kolo_rdma_queue *queue);
/** How it is reached at our address @p gid. */
void kolo_rdma_queue_hello(const struct kolo_rdma_queue *queue, const struct kolo_rdma_gid *gid,
                           struct kolo_rdma_hello *hello_out);
/** Joins it to the peer's, which said @p theirs; @p gid as for the hello. From here on messages may
 * come. The first may be sent when the peer has done the same. ERR_LINK, and why. */
kolo_status kolo_rdma_queue_connect(struct kolo_rdma_queue *queue, const struct kolo_rdma_gid *gid,
                                    const struct kolo_rdma_hello *theirs) KOLO_NODISCARD;

/** Where the next message is to be written, message_bytes long; NULL: no buffer is free, here or
 * there, now. */
uint8_t *kolo_rdma_queue_buffer(struct kolo_rdma_queue *queue);
/** Sends what was written there: @p bytes bytes, at least 1. @p is_signaled: somebody will ask
 * whether all is drained, so it gets a completion of its own. Else one message in so many does, as
 * buffers are needed again: each completion costs the device an entry, and us a look. What fails
 * completes in any case. */
void kolo_rdma_queue_send(struct kolo_rdma_queue *queue, size_t bytes, bool is_signaled);
/** Memory of ours, and, of a write, where its bytes go. */
struct kolo_rdma_write {
    const void *data;
    size_t bytes; /* at most write_bytes */
    uint32_t key;
    uint64_t address;
    uint32_t remote_key;
};
/** Can a write be posted now? The last of a row uses a buffer there, for its mark. Only so much of
 * writes is out at a time that what is sent beside them need not wait long. */
bool kolo_rdma_queue_can_write(const struct kolo_rdma_queue *queue, bool is_last);
/** Writes, in order with all that is sent; the memory is lent until the last of the row is over. */
void kolo_rdma_queue_write(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write);
/** The same; passed() tells when it is over. */
void kolo_rdma_queue_write_piece(struct kolo_rdma_queue *queue,
                                 const struct kolo_rdma_write *write);
/** The last of a row, which the peer is told with @p mark, and we with @p context (not NULL). It
 * may have no bytes. */
void kolo_rdma_queue_write_last(struct kolo_rdma_queue *queue, const struct kolo_rdma_write *write,
                                uint16_t mark, void *context);
/** As kolo_rdma_queue_send(), of @p bytes bytes in the buffer and behind them @p rest, which is
 * lent until has_written(@p context), not NULL. Together at most message_bytes; only where
 * takes_parts. */
void kolo_rdma_queue_send_with(struct kolo_rdma_queue *queue, size_t bytes,
                               const struct kolo_rdma_write *rest, void *context, bool is_signaled);
/** From here on the device touches no memory of it, and nothing of it is told. The queue is of no
 * use any more. False: the device does not let go of its pair, and may still write what was offered
 * to the peer. */
bool kolo_rdma_queue_stop(struct kolo_rdma_queue *queue);

/** Breaks the pair, if it is not broken yet: nothing goes in or out any more. What has come is
 * delivered by the next polls. ERR_LINK: that cannot be had. */
kolo_status kolo_rdma_queue_cut(struct kolo_rdma_queue *queue) KOLO_NODISCARD;
/** Has all that came before the cut been delivered? Then the next is how many requests of the
 * peer's have arrived in all. */
bool kolo_rdma_queue_is_still(const struct kolo_rdma_queue *queue);
uint64_t kolo_rdma_queue_received(const struct kolo_rdma_queue *queue);
/** A fresh pair in the place of one that is still; sends wait. Not from within a callback. Errors
 * as _open; ERR_LINK also: the device does not let go of the old pair (see _stop). */
kolo_status kolo_rdma_queue_renew(struct kolo_rdma_queue *queue) KOLO_NODISCARD;
/** The peer, which is still, has @p received so many. ERR_PROTOCOL: it cannot. */
kolo_status kolo_rdma_queue_settle(struct kolo_rdma_queue *queue, uint64_t received) KOLO_NODISCARD;
/** Both sides are connected again: posts what did not arrive, and lets sends go on. Gives how many
 * there were. */
unsigned kolo_rdma_queue_replay(struct kolo_rdma_queue *queue);

/** For how long no send has completed although some are on their way, as far as the looks that this
 * is can tell: 0 at the first of them, and where @p is_late, since nobody looked for a while. Where
 * no send on its way is signaled, a signaled write of no bytes follows: it needs nothing of the
 * peer's program, not even a buffer. */
int64_t kolo_rdma_queue_silence_ns(struct kolo_rdma_queue *queue, kolo_deadline now, bool is_late);
/** It has been too long: the queue fails, with @p text. */
void kolo_rdma_queue_give_up(struct kolo_rdma_queue *queue, const char *text);

/** Nothing will follow what was sent: its end is signaled, if it is not yet. */
void kolo_rdma_queue_flush(struct kolo_rdma_queue *queue);
/** Has all that was sent reached the peer's memory, as far as completions tell? */
bool kolo_rdma_queue_is_drained(const struct kolo_rdma_queue *queue);

#endif
