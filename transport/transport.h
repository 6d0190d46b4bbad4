// SPDX-License-Identifier: Apache-2.0
// Links between two ranks. The runtime sees an endpoint (one per rank) and its links (one per
// peer), whatever carries them; a message is a header that says what both sides believe, and a
// payload. Knows nothing of collectives: it compares 24 opaque bytes of description and reports a
// difference.
//
// Receive and reduce are one operation: a receive carries the action to apply to each byte as it
// arrives.
//
// Threads: one thread at a time in an endpoint's functions (the runtime holds a lock), but
// kolo_endpoint_sleep is called without that lock (one sleeper), and kolo_endpoint_wake by anyone.
// Nothing here blocks but _sleep and _close.
#ifndef KOLO_TRANSPORT_TRANSPORT_H
#define KOLO_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kolo/types.h>

#include "base/clock.h"
#include "base/settings.h"
#include "base/status.h"
#include "base/wire.h"
#include "memory/memory.h"
#include "memory/reduce.h"
#include "transport/conn.h"
#include "transport/poller.h"

/** What both sides believe about a message: packed by the runtime, compared byte by byte here. */
struct kolo_desc {
    uint8_t bytes[24];
};
enum {
    KOLO_HEADER_BYTES = 32
}; /* on the wire: u32 channel, u32 payload bytes of this frame, 24 bytes desc */

struct kolo_operator;
/** Frames are multiples of it, but for a message's last: elements of a size that divides it are
 * never torn. Others cannot be combined on arrival. */
enum { KOLO_FRAME_STEP_BYTES = 16 };

/** What happens to arriving bytes. COPY: dst = incoming. REDUCE: dst[i] = local[i] op incoming[i],
 * or, with incoming_first, incoming[i] op local[i]; local may equal dst. */
enum kolo_action_kind { KOLO_COPY, KOLO_REDUCE };
struct kolo_action {
    enum kolo_action_kind kind;
    kolo_dtype dtype;
    kolo_redop op;
    const void *local;
    bool incoming_first;
    const struct kolo_operator *own; /* instead of op, if not NULL; elements divide 16 bytes */
    /** COPY: memory of a device that the endpoint knows (kolo_endpoint_know), as long as dst. The
     * message may land there instead, and the work says so. NULL: none. */
    void *landing;
};

struct kolo_endpoint;
struct kolo_link;

/** One send or receive: the caller's memory from the call until status is no longer KOLO_AGAIN (or
 * until cancelled). */
struct kolo_work {
    kolo_status status; /* KOLO_AGAIN, KOLO_OK, or why it failed */
    size_t bytes;       /* of the message */
    size_t bytes_taken; /* handed to the transport (send) */
    size_t bytes_done;  /* moved */
    uint8_t *dst;       /* receive */
    const uint8_t *src; /* send */
    struct kolo_action action;
    struct kolo_desc desc;
    uint32_t channel;
    bool is_taken; /* send: the last frame was handed over (a message of 0 bytes has one frame too)
                    */
    bool is_cancelled;
    bool is_remote;     /* send: goes as one frame of any length, not through the peer's sink */
    bool is_lent;       /* receive: the transport has lent its memory to the peer */
    bool has_landed;    /* receive: the message is in action.landing, and dst is as it was */
    bool has_turn;      /* receive: its message has had its turn, and not all of it is there yet */
    uint32_t number;    /* of the channel's sends, or receives, from 0 */
    int32_t frames_out; /* send: frames the transport still holds */
    struct kolo_link *link;
    struct kolo_work *next;
};

/** Who a rank is: exchanged at start. */
struct kolo_identity {
    int32_t rank;
    int32_t pid;
    uint64_t process; /* random per process: equal means the same address space */
    uint64_t host_id; /* equal means shared memory is possible: boot id, network namespace and host
                         name, hashed */
    char host[64];    /* host name */
    int32_t cores;    /* processors online, as this rank sees them; at least 1 */
    int32_t numa;     /* OS index of the NUMA node that its binding lies in; -1: several, or not
                         known */
};
enum { KOLO_CORES_MAX = 1 << 20, KOLO_NUMA_MAX = 1 << 20 };
/** Fills in pid, process, host_id, host and cores of this process; numa is -1. */
void kolo_identity_here(int rank, struct kolo_identity *identity_out);

enum { KOLO_TRANSPORTS_MAX = 8, KOLO_ADDRESS_MAX = 512 };
/** How to reach a rank by one transport; opaque to all others. bytes 0: not offered. */
struct kolo_address {
    uint16_t bytes;
    uint8_t data[KOLO_ADDRESS_MAX];
};
/** One rank as the others see it. addresses[i] belongs to kolo_transports[i]... by name on the
 * wire. */
struct kolo_peer {
    struct kolo_identity identity;
    /* its KOLO_CREDIT_BYTES: what may be sent to it before it is asked for */
    uint64_t credit_bytes;
    struct kolo_address addresses[KOLO_TRANSPORTS_MAX];
};

/** Told to the runtime from within kolo_endpoint_progress (or _link, _send, _recv, _close). @p text
 * lives during the call. They may call kolo_endpoint_abort and kolo_work_cancel, nothing else. Any
 * may be NULL. */
struct kolo_endpoint_events {
    void *context;
    /** A message's description differs from that of the receive it meets. The receive failed with
     * ERR_MISMATCH. */
    void (*mismatch)(void *context, int peer, uint32_t channel, const struct kolo_desc *expected,
                     const struct kolo_desc *arrived);
    /** A frame arrived that no receive waits for yet. It is kept. */
    void (*early)(void *context, int peer, uint32_t channel, const struct kolo_desc *arrived);
    /** The peer gave up @p subject (a number of the runtime's) and says why. */
    void (*aborted)(void *context, int peer, uint32_t subject, kolo_status why, const char *text);
    /** The peer said goodbye: nothing more will come from it, nothing sent to it will be taken. */
    void (*left)(void *context, int peer);
    /** The link fell (or never came up): @p why ERR_LINK, ERR_CONNECT, ERR_AUTH, ERR_PROTOCOL,
     * ERR_TIMEOUT, ... */
    void (*down)(void *context, int peer, kolo_status why, const char *text);
    /** The peer has done with @p subject, but for what it has sent, all of which is here. */
    void (*finalized)(void *context, int peer, uint32_t subject, uint32_t sequence);
    /** The peer wants back what it has lent under @p number. May call kolo_endpoint_return, too. */
    void (*recalled)(void *context, int peer, uint64_t number);
    /** The peer has no part any more in what this rank has lent under @p number. */
    void (*returned)(void *context, int peer, uint64_t number);
};

/** ERR_CONFIG: @p name is no transport of any build, nor auto. One that only this build lacks
 * passes: another host's may have it. */
kolo_status kolo_transport_name_check(const char *name) KOLO_NODISCARD;
/** Has @p peer published an address for the transport of that name? All ranks come to the same
 * answer; whether it reaches anybody is a matter of the pair. */
bool kolo_transport_is_offered(const char *name, const struct kolo_peer *peer);

/** Mbit/s of the network card by which @p peer is reached best, as its system says: 0: that is not
 * known, or there is none; and how many it has that are as good, which the ranks of its host share.
 * All ranks come to the same answer. */
uint32_t kolo_transport_line_mbit(const char *name, const struct kolo_peer *peer,
                                  size_t *cards_out);

/** The transports of this build, by number from 0, best first: the name (NULL beyond the last),
 * whether it can be used on this machine, and if not, why. For `kolorun info` and kolo_get_info().
 */
const char *kolo_transport_probe(size_t number, const struct kolo_settings *settings,
                                 kolo_status *status_out, struct kolo_why *why_out);

struct kolo_endpoint_config {
    int rank, size;
    const struct kolo_settings *settings; /* outlives the endpoint */
    struct kolo_secret secret;
    struct kolo_identity identity;
    struct kolo_heap *heap; /* spans of kolo_alloc; may be NULL */
    struct kolo_endpoint_events events;
};

/** Opens every transport that can be used here and is allowed by KOLO_TRANSPORT.
 *  ERR_CONFIG for an unknown transport name, or if a forced one does not understand its settings;
 * ERR_UNSUPPORTED naming why, if it cannot be had. */
kolo_status kolo_endpoint_open(const struct kolo_endpoint_config *config,
                               struct kolo_endpoint **endpoint_out) KOLO_NODISCARD;
/** This rank as the others shall see it. */
void kolo_endpoint_self(const struct kolo_endpoint *endpoint, struct kolo_peer *peer_out);
void kolo_peer_write(struct kolo_writer *writer, const struct kolo_peer *peer);
kolo_status kolo_peer_read(struct kolo_reader *reader, struct kolo_peer *peer_out) KOLO_NODISCARD;
/** The table of all ranks, by rank; lent until close. Must be set before the first link. Chooses a
 * transport for each pair by capability and priority; ERR_UNSUPPORTED naming the rank and why if a
 * forced one does not reach it. */
kolo_status kolo_endpoint_set_peers(struct kolo_endpoint *endpoint,
                                    const struct kolo_peer *peers) KOLO_NODISCARD;
/** Which transport joins us and @p peer, and why ("same process", "same host", "forced by
 * KOLO_TRANSPORT"): once there is a link, the one that it goes by. "none" and why not, if none
 * does. The text is good until the next call. */
void kolo_endpoint_choice(struct kolo_endpoint *endpoint, int peer, const char **transport_out,
                          const char **why_out);

/** The name of that transport alone. */
const char *kolo_endpoint_goes_by(struct kolo_endpoint *endpoint, int peer);

/** Messages between us and @p peer from so many bytes on are copied less if they lie in memory of
 * the heap; SIZE_MAX: that makes no difference. */
size_t kolo_endpoint_direct_bytes(const struct kolo_endpoint *endpoint, int peer);

/** The link to @p peer (not self); begins to connect at the first call. Works may be posted before
 * it is up.
 *  @p deadline bounds the connecting. A link that fell gives what ended it. After a peer's goodbye
 * the link is still given: what had arrived can be received, all else fails with ERR_PEER. */
kolo_status kolo_endpoint_link(struct kolo_endpoint *endpoint, int peer, kolo_deadline deadline,
                               struct kolo_link **link_out) KOLO_NODISCARD;

/** Has the link to @p peer fallen, other than by the peer's goodbye? Links that fell do not come up
 * again. */
bool kolo_endpoint_link_fell(const struct kolo_endpoint *endpoint, int peer);

/** The link to @p peer if it is up; NULL: it is not, or there is none. */
struct kolo_link *kolo_endpoint_link_up(const struct kolo_endpoint *endpoint, int peer);

/** Moves whatever can be moved now over one link alone. True: something was. Failures are
 * events. */
bool kolo_link_look(struct kolo_link *link);
/** Does such a look cost a load, as long as the peer has done nothing? */
bool kolo_link_has_signal(const struct kolo_link *link);
/** Moves whatever can be moved now. *moved_out (may be NULL): whether anything did. Failures of
 * links are events. */
kolo_status kolo_endpoint_progress(struct kolo_endpoint *endpoint, bool *moved_out) KOLO_NODISCARD;
/** From here on peers wake us. Call it, then progress once more, then, if nothing moved, sleep. */
void kolo_endpoint_arm(struct kolo_endpoint *endpoint);
void kolo_endpoint_sleep(struct kolo_endpoint *endpoint, kolo_deadline deadline);
void kolo_endpoint_disarm(struct kolo_endpoint *endpoint);
void kolo_endpoint_wake(struct kolo_endpoint *endpoint);
struct kolo_poller *kolo_endpoint_poller(struct kolo_endpoint *endpoint);

/** Sends @p bytes bytes as one message on @p channel. Messages of one channel arrive in order;
 * channels do not wait for each other. work->status becomes KOLO_OK when @p src may be reused.
 * KOLO_CHANNEL_CONTROL is not for callers. */
#define KOLO_CHANNEL_CONTROL UINT32_MAX
void kolo_link_send(struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                    const void *src, size_t bytes, struct kolo_work *work);
/** Receives the next message of @p channel, which must have this description and length. For REDUCE
 * @p bytes is a multiple of the type's size. */
void kolo_link_recv(struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                    void *dst, size_t bytes, const struct kolo_action *action,
                    struct kolo_work *work);
/** Sends a short message now, as kolo_link_send() would: it is over. False: it cannot go at once,
 * and nothing has happened. */
bool kolo_link_send_at_once(struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                            const void *src, size_t bytes);
/** A message that is to come next on its channel. Valid until the link is used otherwise. */
struct kolo_expected {
    struct kolo_channel *channel;
    size_t bytes;
    uint8_t header[KOLO_HEADER_BYTES];
};
/** Can the next message of @p channel be waited for by kolo_link_take(), without a work? */
bool kolo_link_expect(struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                      size_t bytes, struct kolo_expected *expected_out);
/** One look. KOLO_OK: the message is in @p dst, and over. KOLO_AGAIN: nothing is there yet.
 * KOLO_ERR_NOT_FOUND (without a detail): something else is; use kolo_link_recv(). */
kolo_status kolo_link_take(struct kolo_link *link, const struct kolo_expected *expected,
                           void *dst) KOLO_NODISCARD;
/** Takes a work back: on return its buffers are no longer touched by anyone, status is ERR_ABORTED
 * (or what it had). The link is of no use for that channel afterwards. */
void kolo_work_cancel(struct kolo_work *work);
/** A snapshot for error messages: "tcp 10.0.0.5:4711 up, 3 of 8 MiB received". */
void kolo_link_describe(const struct kolo_link *link, char *text, size_t capacity);

/** Span @p id of the heap is about to be freed (kolo_heap_free's callback): peers on this host
 * unmap it. No work may use it. */
void kolo_endpoint_span_gone(struct kolo_endpoint *endpoint, uint64_t id);

/** Makes memory of a device known to the transports that reach it without the host; false: none
 * does, or the device does not allow it. From here on what is sent may lie there, on links of which
 * kolo_link_reaches_devices() says so, and what is received may land there. May call the device's
 * driver; the answer is kept until kolo_endpoint_device_gone. */
bool kolo_endpoint_know(struct kolo_endpoint *endpoint, const struct kolo_pointer *pointer);
/** Is the link up, and does it read and write a device's memory that the endpoint knows? */
bool kolo_link_reaches_devices(const struct kolo_link *link);
/** Memory of a device is about to be freed. No work may use it. */
void kolo_endpoint_device_gone(struct kolo_endpoint *endpoint, const void *memory);

/** The channels from @p first on, @p count of them, are of no more use to this rank, on any link:
 * no work of them is on its way, and what had arrived early is dropped. Their numbers must not be
 * used again. */
void kolo_endpoint_forget(struct kolo_endpoint *endpoint, uint32_t first, uint32_t count);
/** Says `early` once more for each link on which something waits for a receive on @p channel: of
 * the first frame there, and of the first behind it that has another description. */
void kolo_endpoint_say_early(struct kolo_endpoint *endpoint, uint32_t channel);
/** Tells @p count peers (NULL: all), as far as there are links to them, that this rank gave up
 * @p subject, and why. The links go on. Best effort, never blocks. */
void kolo_endpoint_abort(struct kolo_endpoint *endpoint, const int *peers, int count,
                         uint32_t subject, kolo_status why, const char *text);
/** Tells @p count peers (NULL: all), as far as there are links to them, that this rank has done
 * with @p subject, and @p sequence, which means something to the runtime alone. No work of its
 * channels is on its way. Best effort, never blocks. */
void kolo_endpoint_finalized(struct kolo_endpoint *endpoint, const int *peers, int count,
                             uint32_t subject, uint32_t sequence);
/** Asks @p peer for what this rank has lent to it under @p number (of a device's memory; what of it
 * is mapped is the runtime's affair), which is answered by the event `returned`, or never: also by
 * the link's end. False: there is no link to ask on, and so nobody who has it. Never blocks. */
bool kolo_endpoint_recall(struct kolo_endpoint *endpoint, int peer, uint64_t number);
/** Tells @p peer that what it has lent under @p number is not mapped here. Best effort, as that. */
void kolo_endpoint_return(struct kolo_endpoint *endpoint, int peer, uint64_t number);
/** Says goodbye on every link that is up, waits until all has been handed over, then closes
 * everything. ERR_TIMEOUT if the deadline passed first (closed all the same). NULL is fine. */
kolo_status kolo_endpoint_close(struct kolo_endpoint *endpoint, kolo_deadline deadline);

#endif
