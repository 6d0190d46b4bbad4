// SPDX-License-Identifier: Apache-2.0
// Links between two ranks. The runtime sees an endpoint (one per rank) and its links (one per
// peer), whichever transport carries them. A message consists of a header, which says what its
// sender believes about it, and a payload. This folder must not know what a collective is: it
// compares 24 opaque bytes of description and reports a difference.
//
// Receive and reduce are one operation: a receive carries the action that is applied to the bytes
// as they arrive.
//
// Threads: only one thread at a time may be in an endpoint's functions (the runtime holds a lock).
// There are two exceptions: kolo_endpoint_sleep is called without that lock (by one thread at a
// time), and kolo_endpoint_wake may be called by any thread at any time. No function blocks except
// _sleep and _close.
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

/** What a rank believes about a message. The runtime packs it; the transports compare it byte by
 *  byte. */
struct kolo_desc {
    uint8_t bytes[24];
};
enum {
    KOLO_HEADER_BYTES = 32
}; /* on the wire: u32 channel, u32 payload bytes of this frame, 24 bytes desc; with KOLO_CHECKSUM
    * also u64 checksum of the payload, u64 checksum of the 40 bytes before it */

struct kolo_operator;
/** The payload of each frame but the last of a message is a multiple of this, so an element whose
 *  size divides it is never split. Elements of other sizes cannot be combined on arrival. */
enum { KOLO_FRAME_STEP_BYTES = 16 };

/** What is done with arriving bytes. COPY: dst = incoming. REDUCE: dst[i] = local[i] op
 *  incoming[i], or incoming[i] op local[i] if incoming_first is set; local may equal dst. */
enum kolo_action_kind { KOLO_COPY, KOLO_REDUCE };
struct kolo_action {
    enum kolo_action_kind kind;
    kolo_dtype dtype;
    kolo_redop op;
    const void *local;
    bool incoming_first;
    const struct kolo_operator *own; /* if not NULL, instead of op; its elements' size divides 16 */
    /** COPY only: device memory as long as dst, which the endpoint knows (kolo_endpoint_know). The
     *  message may be written there instead of to dst; has_landed then says so. NULL: none. */
    void *landing;
};

struct kolo_endpoint;
struct kolo_link;

/** One send or receive. The memory is the caller's; it must stay valid from the call until status
 *  is no longer KOLO_AGAIN, or until the work is cancelled. */
struct kolo_work {
    kolo_status status; /* KOLO_AGAIN while it is under way, KOLO_OK, or why it failed */
    size_t bytes;       /* of the message */
    size_t bytes_taken; /* send: handed to the transport so far */
    size_t bytes_done;  /* moved so far */
    uint8_t *dst;       /* receive */
    const uint8_t *src; /* send */
    struct kolo_action action;
    struct kolo_desc desc;
    uint32_t channel;
    bool is_taken;      /* send: the last frame was handed over (0 bytes have one frame too) */
    bool is_remote;     /* send: goes as one frame of any length, which bypasses the peer's sink */
    bool is_lent;       /* receive: the transport has lent its memory to the peer */
    bool has_landed;    /* receive: the message is in action.landing; dst is unchanged */
    bool has_turn;      /* receive: it has its turn (the peer has said, in the channel's order, that
                         * it writes the message), but the message is not complete yet */
    uint32_t number;    /* number among the channel's sends, or receives, counted from 0 */
    int32_t frames_out; /* send: frames the transport still holds */
    struct kolo_link *link;
    struct kolo_work *next;
    struct kolo_works_over *told; /* kolo_work_tell; NULL: nobody wants to know */
    void *owner;                  /* of kolo_work_tell */
    struct kolo_work *next_over, *previous_over;
};

/** Works that have ended and whose owners have not looked yet, in the order of their ends. */
struct kolo_works_over {
    struct kolo_work *first, *last;
};

/** Who a rank is. Ranks exchange this at start. */
struct kolo_identity {
    int32_t rank;
    int32_t pid;
    uint64_t process; /* random per process; if two are equal, the ranks share an address space */
    uint64_t host_id; /* hash of boot id, network namespace and host name; if two are equal, shared
                       * memory is possible */
    char host[64];    /* host name */
    int32_t cores;    /* processors online, as this rank sees them; at least 1 */
    int32_t numa;     /* OS index of the NUMA node that the rank is bound in; -1: several nodes, or
                       * not known */
};
enum { KOLO_CORES_MAX = 1 << 20, KOLO_NUMA_MAX = 1 << 20 };
/** Fills in rank, pid, process, host_id, host and cores of this process; sets numa to -1. */
void kolo_identity_here(int rank, struct kolo_identity *identity_out);

enum { KOLO_TRANSPORTS_MAX = 8, KOLO_ADDRESS_MAX = 512 };
/** How to reach a rank by one transport; opaque to all other transports. bytes 0: not offered. */
struct kolo_address {
    uint16_t bytes;
    uint8_t data[KOLO_ADDRESS_MAX];
};
/** One rank as the others see it. addresses[i] belongs to kolo_transports[i]; on the wire they go
 *  by the transports' names. */
struct kolo_peer {
    struct kolo_identity identity;
    /* the peer's KOLO_CREDIT_BYTES: how much may be sent to it before it posts a receive */
    uint64_t credit_bytes;
    bool checksum; /* the peer's KOLO_CHECKSUM, which must be that of all */
    struct kolo_address addresses[KOLO_TRANSPORTS_MAX];
};

/** Events for the runtime, called from within kolo_endpoint_progress (or _link, _send, _recv,
 *  _close). @p text is valid during the call only. A callback may call kolo_endpoint_abort and
 *  kolo_work_cancel, nothing else. Any may be NULL. */
struct kolo_endpoint_events {
    void *context;
    /** A message's description differs from that of the receive it was matched with. The receive
     *  has failed with ERR_MISMATCH. */
    void (*mismatch)(void *context, int peer, uint32_t channel, const struct kolo_desc *expected,
                     const struct kolo_desc *arrived);
    /** A frame arrived for which no receive is posted yet. It is kept. */
    void (*early)(void *context, int peer, uint32_t channel, const struct kolo_desc *arrived);
    /** The peer gave up @p subject (a number that only the runtime interprets), for the reason
     *  given. */
    void (*aborted)(void *context, int peer, uint32_t subject, kolo_status why, const char *text);
    /** The peer said goodbye: it sends nothing more, and takes nothing that is sent to it. */
    void (*left)(void *context, int peer);
    /** The link went down, or never came up: @p why is ERR_LINK, ERR_CONNECT, ERR_AUTH,
     *  ERR_PROTOCOL, ERR_TIMEOUT, ... */
    void (*down)(void *context, int peer, kolo_status why, const char *text);
    /** The peer is done with @p subject, and everything that it sent for it has arrived. */
    void (*finalized)(void *context, int peer, uint32_t subject, uint32_t sequence);
    /** The peer wants back what it has lent under @p number. The callback may also call
     *  kolo_endpoint_return. */
    void (*recalled)(void *context, int peer, uint64_t number);
    /** The peer no longer uses what this rank has lent it under @p number. */
    void (*returned)(void *context, int peer, uint64_t number);
    /** Writes what a message with this description belongs to, for an error message:
     *  "allreduce(count 10, float32, sum) sequence 7". */
    void (*words)(void *context, uint32_t channel, const struct kolo_desc *desc, char *text,
                  size_t capacity);
};

/** ERR_CONFIG: @p name is neither auto nor the name of a transport of any build. The name of a
 *  transport that only this build lacks is accepted, since another host's build may have it. */
kolo_status kolo_transport_name_check(const char *name) KOLO_NODISCARD;
/** Whether @p peer has published an address for the transport of that name. All ranks get the same
 *  answer; it does not say whether the address can be reached from any of them. */
bool kolo_transport_is_offered(const char *name, const struct kolo_peer *peer);

/** The line by which a rank is reached. */
struct kolo_line {
    uint32_t mbit; /* the speed of one card in Mbit/s, as its system states it; 0: not known */
    /* How many cards of its host are equally good, if its ranks take turns at them; 0: this rank
     * uses the card with number @p card, which other ranks of its host may use too. */
    size_t cards;
    uint64_t card;
};
/** The best line to @p peer over the transport of that name. All ranks get the same answer. */
struct kolo_line kolo_transport_line(const char *name, const struct kolo_peer *peer);

/** The transports of this build, best first, numbered from 0; NULL: there is no such number. */
const char *kolo_transport_name(size_t number);
/** Looks at the transport with that number: returns the name (NULL: there is no such number),
 *  whether it can be used on this machine, and if not, why. For `kolorun info` and
 *  kolo_get_info(). */
const char *kolo_transport_probe(size_t number, const struct kolo_settings *settings,
                                 kolo_status *status_out, struct kolo_why *why_out);

struct kolo_endpoint_config {
    int rank, size;
    const struct kolo_settings *settings; /* must outlive the endpoint */
    struct kolo_secret secret;
    struct kolo_identity identity;
    struct kolo_heap *heap; /* the spans of kolo_alloc; may be NULL */
    struct kolo_endpoint_events events;
};

/** Opens every transport that can be used here and that KOLO_TRANSPORT allows. ERR_CONFIG: an
 *  unknown transport name, or a forced transport cannot use its settings. ERR_UNSUPPORTED: a forced
 *  transport is not available; the detail says why. */
kolo_status kolo_endpoint_open(const struct kolo_endpoint_config *config,
                               struct kolo_endpoint **endpoint_out) KOLO_NODISCARD;
/** This rank as the others should see it. */
void kolo_endpoint_self(const struct kolo_endpoint *endpoint, struct kolo_peer *peer_out);
void kolo_peer_write(struct kolo_writer *writer, const struct kolo_peer *peer);
kolo_status kolo_peer_read(struct kolo_reader *reader, struct kolo_peer *peer_out) KOLO_NODISCARD;
/** Sets the table of all ranks, indexed by rank; it is lent until close, and must be set before the
 *  first link is made. Chooses a transport for each peer by capability and priority. ERR_CONFIG, in
 *  the same words on all ranks: they differ in KOLO_CHECKSUM. ERR_UNSUPPORTED, naming the rank and
 *  the reason: a forced transport does not reach it. */
kolo_status kolo_endpoint_set_peers(struct kolo_endpoint *endpoint,
                                    const struct kolo_peer *peers) KOLO_NODISCARD;
/** Which transport joins this rank and @p peer, and why ("same process", "same host", "forced by
 *  KOLO_TRANSPORT"); once there is a link, the transport that it uses. If none reaches the peer:
 *  "none", and why not. The texts are valid until the next call. */
void kolo_endpoint_choice(struct kolo_endpoint *endpoint, int peer, const char **transport_out,
                          const char **why_out);

/** Only the name of that transport. */
const char *kolo_endpoint_goes_by(struct kolo_endpoint *endpoint, int peer);

/** Messages of at least this many bytes between this rank and @p peer are copied fewer times if
 *  they lie in memory of the heap; SIZE_MAX: that makes no difference. */
size_t kolo_endpoint_direct_bytes(const struct kolo_endpoint *endpoint, int peer);

/** The link to @p peer (not this rank itself). The first call begins to connect, within @p
 *  deadline; works may be posted before the link is up. For a link that went down, returns the
 *  status that ended it. After the peer's goodbye the link is still returned: what has arrived can
 *  be received, everything else fails with ERR_PEER. Else ERR_INVALID (no such rank, this rank, or
 *  before the peers are known), ERR_UNSUPPORTED (no transport joins the two: the detail says why),
 *  ERR_NO_MEMORY or ERR_SYSTEM. */
kolo_status kolo_endpoint_link(struct kolo_endpoint *endpoint, int peer, kolo_deadline deadline,
                               struct kolo_link **link_out) KOLO_NODISCARD;

/** Whether the link to @p peer went down other than by the peer's goodbye. Such a link does not
 *  come up again. */
bool kolo_endpoint_link_fell(const struct kolo_endpoint *endpoint, int peer);
/** What broke the link to @p peer, which was up; valid until close. NULL: it is not broken, or
 *  nothing is known of the cause. */
const char *kolo_endpoint_broken_link(const struct kolo_endpoint *endpoint, int peer);
/** Whether something may still arrive from @p peer: the link to it is up, and it has not said
 *  goodbye. */
bool kolo_endpoint_may_deliver(const struct kolo_endpoint *endpoint, int peer);

/** The link to @p peer if it is up; NULL if it is not, or if there is none. */
struct kolo_link *kolo_endpoint_link_up(const struct kolo_endpoint *endpoint, int peer);

/** Moves what can be moved now over this one link. Returns true if something was moved. Failures
 *  are told as events. */
bool kolo_link_look(struct kolo_link *link);
/** Whether kolo_link_look() costs a single load while the peer has done nothing. */
bool kolo_link_has_signal(const struct kolo_link *link);
/** Moves what can be moved now, over all links. *moved_out (may be NULL): whether anything moved.
 *  Failures of links are told as events. */
kolo_status kolo_endpoint_progress(struct kolo_endpoint *endpoint, bool *moved_out) KOLO_NODISCARD;
/** Asks peers to wake this rank from now on. To sleep: call this, then progress once more, and
 *  sleep only if nothing moved. */
void kolo_endpoint_arm(struct kolo_endpoint *endpoint);
void kolo_endpoint_sleep(struct kolo_endpoint *endpoint, kolo_deadline deadline);
void kolo_endpoint_disarm(struct kolo_endpoint *endpoint);
void kolo_endpoint_wake(struct kolo_endpoint *endpoint);
struct kolo_poller *kolo_endpoint_poller(struct kolo_endpoint *endpoint);

/** Makes the channel, if there is none yet, so that no message on it lacks memory for it.
 *  ERR_NO_MEMORY. */
kolo_status kolo_link_open_channel(struct kolo_link *link, uint32_t channel) KOLO_NODISCARD;
/** Sends @p bytes bytes as one message on @p channel. Messages of one channel arrive in order;
 *  channels do not wait for each other. work->status becomes KOLO_OK when @p src may be reused.
 *  Callers must not use KOLO_CHANNEL_CONTROL. */
#define KOLO_CHANNEL_CONTROL UINT32_MAX
void kolo_link_send(struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                    const void *src, size_t bytes, struct kolo_work *work);
/** Whether messages over @p link that are queued together leave in one system call. */
bool kolo_link_gathers(const struct kolo_link *link);
/** As kolo_link_send(), but hands nothing over yet: the next kolo_link_send() over this link takes
 *  the message along. Callers must call kolo_link_push() soon, which does nothing if that has
 *  happened. */
void kolo_link_queue(struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                     const void *src, size_t bytes, struct kolo_work *work);
/** Hands over as much as can be moved now, unless that is already being done or the link is not up.
 *  Transports call it too, when they learn that they can move frames again. True: something was
 *  moved. */
bool kolo_link_push(struct kolo_link *link);
/** Receives the next message of @p channel, which must have this description and length. For
 *  REDUCE, @p bytes must be a multiple of the type's size. */
void kolo_link_recv(struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                    void *dst, size_t bytes, const struct kolo_action *action,
                    struct kolo_work *work);
/** Sends a short message immediately, with the same effect as a completed kolo_link_send(). False:
 *  it cannot be sent at once, and nothing was done. */
bool kolo_link_send_at_once(struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                            const void *src, size_t bytes);
/** A message that is expected next on its channel. Valid until another function uses the link. */
struct kolo_expected {
    struct kolo_channel *channel;
    size_t bytes;
    uint8_t header[KOLO_HEADER_BYTES];
};
/** Whether kolo_link_take() can wait for the next message of @p channel, without a work. */
bool kolo_link_expect(struct kolo_link *link, uint32_t channel, const struct kolo_desc *desc,
                      size_t bytes, struct kolo_expected *expected_out);
/** Looks once. KOLO_OK: the message is in @p dst, and complete. KOLO_AGAIN: nothing has arrived
 *  yet. KOLO_ERR_NOT_FOUND (without a detail): something else has arrived; use kolo_link_recv(). */
kolo_status kolo_link_take(struct kolo_link *link, const struct kolo_expected *expected,
                           void *dst) KOLO_NODISCARD;
/** Takes a work back: when this returns, nobody touches its buffers any more, and its status is
 *  ERR_ABORTED, or the one that it already had. That channel of the link cannot be used
 *  afterwards. */
void kolo_work_cancel(struct kolo_work *work);
/** Has @p work, which is under way, append itself to @p over when it ends, whatever its status and
 *  whichever call ends it. kolo_work_untell() must come before its memory is used otherwise. */
void kolo_work_tell(struct kolo_work *work, struct kolo_works_over *over, void *owner);
/** Undoes that, also after it has ended. */
void kolo_work_untell(struct kolo_work *work);
/** A snapshot for error messages: "tcp 10.0.0.5:4711 up, 3 of 8 MiB received". */
void kolo_link_describe(const struct kolo_link *link, char *text, size_t capacity);

/** Span @p id of the heap is about to be freed (the callback of kolo_heap_free): peers on this host
 *  unmap it. No work may use it. */
void kolo_endpoint_span_gone(struct kolo_endpoint *endpoint, uint64_t id);
/** Span @p id of the heap is being cut in pieces (the callback of kolo_heap_sever). Nothing new is
 *  named by it. A collective of any board that may have named it goes on with it, and so do its
 *  neighbours: they unmap the span when that collective is over. Memory of the span that was not
 *  replaced is the same for both sides all the time. */
void kolo_endpoint_span_cut(struct kolo_endpoint *endpoint, uint64_t id);

/** Makes device memory known to the transports that can reach it without the host. From then on,
 *  links for which kolo_link_reaches_devices() is true can send from it, and messages can land in
 *  it. False: no transport can, or the device does not allow it. May call the device's driver; the
 *  answer is kept until kolo_endpoint_device_gone. */
bool kolo_endpoint_know(struct kolo_endpoint *endpoint, const struct kolo_pointer *pointer);
/** Whether the link is up and reads and writes device memory that the endpoint knows. */
bool kolo_link_reaches_devices(const struct kolo_link *link);
/** Device memory is about to be freed. No work may use it. */
void kolo_endpoint_device_gone(struct kolo_endpoint *endpoint, const void *memory);

/** This rank no longer needs the @p count channels from @p first on, on any link: none of their
 *  works is under way, and what has arrived early or arrives late is dropped, without returning
 *  credit for it. Their numbers must not be used again. */
void kolo_endpoint_forget(struct kolo_endpoint *endpoint, uint32_t first, uint32_t count);
/** Repeats the event `early` for each link on which frames wait for a receive on @p channel: for
 *  the first such frame, and for the first one after it whose description differs. */
void kolo_endpoint_say_early(struct kolo_endpoint *endpoint, uint32_t channel);
/** Tells @p count peers (NULL: all), as far as there are links to them, that this rank gave up @p
 *  subject, and why. The links stay up. Best effort; never blocks. */
void kolo_endpoint_abort(struct kolo_endpoint *endpoint, const int *peers, int count,
                         uint32_t subject, kolo_status why, const char *text);
/** Tells @p count peers (NULL: all), as far as there are links to them, that this rank is done with
 *  @p subject. @p sequence is interpreted by the runtime only. None of the channels' works is under
 *  way. Best effort; never blocks. */
void kolo_endpoint_finalized(struct kolo_endpoint *endpoint, const int *peers, int count,
                             uint32_t subject, uint32_t sequence);
/** Asks @p peer to return what this rank has lent it under @p number (device memory; which memory
 *  is mapped where is the runtime's concern). The answer is the event `returned`, which may never
 *  come, for example because the link ends. False: there is no link to ask on, so the peer has
 *  nothing of it. Never blocks. */
bool kolo_endpoint_recall(struct kolo_endpoint *endpoint, int peer, uint64_t number);
/** Tells @p peer that what it has lent under @p number is not mapped here any more. Best effort;
 *  never blocks. */
void kolo_endpoint_return(struct kolo_endpoint *endpoint, int peer, uint64_t number);
/** Says goodbye on every link that is up, waits until everything has been handed over, then closes
 *  everything, whatever it returns. ERR_TIMEOUT: the deadline passed first. ERR_LINK: a link went
 *  down, now or before, without the peer's goodbye, and what was sent over it may not have arrived;
 *  the detail says why. @p endpoint may be NULL. */
kolo_status kolo_endpoint_close(struct kolo_endpoint *endpoint, kolo_deadline deadline);

#endif
