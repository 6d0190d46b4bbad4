// SPDX-License-Identifier: Apache-2.0
// Shared by conn.c (dialing), conn_listener.c (accepting), conn_timer.c (when to look at either)
// and conn_handshake.c (one socket's way through the proof). Nobody else includes it but their
// tests.
#ifndef KOLO_TRANSPORT_CONN_PRIVATE_H
#define KOLO_TRANSPORT_CONN_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/auth.h"
#include "transport/conn.h"

/** A point in time at which kolo_conn_expire calls fire; the owner's memory, its first field. */
struct kolo_conn_timer {
    kolo_deadline at;
    void (*fire)(struct kolo_conn_timer *timer, kolo_deadline now);
    struct kolo_poller *poller;
    struct kolo_conn_timer *next, *previous;
    uint64_t round; /* of the kolo_conn_expire that fired it last */
};
kolo_status kolo_conn_timer_add(struct kolo_conn_timer *timer,
                                struct kolo_poller *poller) KOLO_NODISCARD;
void kolo_conn_timer_remove(struct kolo_conn_timer *timer);

/** How a handshake ended. */
enum kolo_verdict {
    KOLO_VERDICT_PROVED,
    KOLO_VERDICT_ERROR,       /* a system call failed: errno value in `error` */
    KOLO_VERDICT_CLOSED,      /* the peer closed before we said anything */
    KOLO_VERDICT_REJECTED,    /* the peer closed on our proof */
    KOLO_VERDICT_WRONG_PROOF, /* the peer does not know the secret */
    KOLO_VERDICT_SILENT,      /* given up by the owner */
    KOLO_VERDICT_OTHER_VERSION /* proved, but it is not whom we want: see `theirs` */,
    KOLO_VERDICT_OTHER_PURPOSE,
    KOLO_VERDICT_OTHER_RANK
};

enum kolo_handshake_state {
    KOLO_HANDSHAKE_OVER, /* or not begun */
    KOLO_HANDSHAKE_CONNECTING,
    KOLO_HANDSHAKE_AWAITS_NONCE,
    KOLO_HANDSHAKE_HELD,
    KOLO_HANDSHAKE_SENDS_CLAIM,
    KOLO_HANDSHAKE_AWAITS_ANSWER,
    KOLO_HANDSHAKE_SENDS_NONCE,
    KOLO_HANDSHAKE_AWAITS_CLAIM,
    KOLO_HANDSHAKE_SENDS_ANSWER,
    KOLO_HANDSHAKE_STATES
};

enum { KOLO_CONGESTION_MAX = 16 }; /* the name of a congestion control, with its 0 */
/** The one that a socket has; "" where it is none of TCP. */
void kolo_conn_congestion(int fd, char name_out[KOLO_CONGESTION_MAX]);
/** Of a socket that is to connect or to listen: reno instead of bbr, where that is the system's.
 * bbr paces from the moment that there is a connection, and its pacing stays when another control
 * is set later; so who wants the system's sets it then. Others are left alone, since some want to
 * be there when the connection is made. Sockets that are none of TCP do not mind. The few bytes of
 * the store's connections stay with reno. */
void kolo_conn_set_unpaced(int fd);

struct kolo_handshake;
struct kolo_handshake_owner {
    /** Dialer: the nonce has come. False holds the handshake until kolo_handshake_prove. */
    bool (*may_prove)(struct kolo_handshake *handshake);
    /** The end, once, never from within kolo_handshake_dial or _accept. The socket (watch.fd) is no
     * longer watched and still open: take it, or call kolo_handshake_drop. */
    void (*over)(struct kolo_handshake *handshake, enum kolo_verdict verdict, int error);
};

struct kolo_handshake {
    struct kolo_watch watch;
    struct kolo_poller *poller;
    const struct kolo_handshake_owner *owner;
    const struct kolo_secret *secret;
    const struct kolo_greeting *mine;
    const struct kolo_place *place; /* for the log */
    enum kolo_handshake_state state;
    uint8_t nonce_a[KOLO_NONCE_BYTES], nonce_d[KOLO_NONCE_BYTES];
    uint8_t buf[KOLO_CLAIM_BYTES];
    size_t bytes, bytes_done; /* of buf: to move in this state, moved */
    struct kolo_greeting theirs;
};

/** Begins to connect to handshake->place. 0, or the errno value of what failed at once. The fields
 * poller, owner, secret, mine and place are set before. */
int kolo_handshake_dial(struct kolo_handshake *handshake);
/** Begins with an accepted socket, which is taken in every case. */
int kolo_handshake_accept(struct kolo_handshake *handshake, int fd);
/** An accepted one whose whole claim has arrived and is not read yet: it is over at the next
 * look. */
bool kolo_handshake_is_fed(const struct kolo_handshake *handshake);
/** Lets a held one go on; it may end within this call. */
void kolo_handshake_prove(struct kolo_handshake *handshake);
/** Closes without a word to the owner. Safe on one that is over. */
void kolo_handshake_drop(struct kolo_handshake *handshake);
/** Takes the socket of one that is over. */
int kolo_handshake_take(struct kolo_handshake *handshake);

#endif
