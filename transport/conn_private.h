// SPDX-License-Identifier: Apache-2.0
// Shared by conn.c (dialling), conn_listener.c (accepting), conn_timer.c (their timers) and
// conn_handshake.c (the handshake on one socket), and by tcp.h, whose links have timers of that
// kind. Private to transport/.
#ifndef KOLO_TRANSPORT_CONN_PRIVATE_H
#define KOLO_TRANSPORT_CONN_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/auth.h"
#include "transport/conn.h"

/** A point in time at which kolo_conn_expire calls `fire`. It is the first field of its owner, in
 *  the owner's memory. */
struct kolo_conn_timer {
    kolo_deadline at;
    void (*fire)(struct kolo_conn_timer *timer, kolo_deadline now);
    struct kolo_poller *poller;
    struct kolo_conn_timer *next, *previous;
    uint64_t round; /* the call of kolo_conn_expire that fired it last */
};
kolo_status kolo_conn_timer_add(struct kolo_conn_timer *timer,
                                struct kolo_poller *poller) KOLO_NODISCARD;
void kolo_conn_timer_remove(struct kolo_conn_timer *timer);

/** Where the poller keeps the room that its listeners share (conn_listener.c). It must have a
 *  timer. */
struct kolo_conn_room;
struct kolo_conn_room **kolo_conn_room(struct kolo_poller *poller);

/** How a handshake ended. */
enum kolo_conn_verdict {
    KOLO_VERDICT_PROVED,
    KOLO_VERDICT_ERROR,       /* a system call failed: errno value in `error` */
    KOLO_VERDICT_LACK,        /* this rank lacks what it takes: a descriptor, say */
    KOLO_VERDICT_CLOSED,      /* the peer closed, and had not read a proof of ours */
    KOLO_VERDICT_REJECTED,    /* the peer closed after it had our proof */
    KOLO_VERDICT_WRONG_PROOF, /* the peer does not know the secret */
    KOLO_VERDICT_SILENT,      /* given up by its owner */
    KOLO_VERDICT_OTHER_VERSION /* proved, but not the expected peer: see `theirs` */,
    KOLO_VERDICT_OTHER_PURPOSE,
    KOLO_VERDICT_OTHER_RANK
};

enum kolo_handshake_state {
    KOLO_HANDSHAKE_OVER, /* finished, or not begun */
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

enum { KOLO_CONGESTION_MAX = 16 }; /* the name of a congestion control, including its NUL */
/** The congestion control of a socket; "" if it is not a TCP socket. */
void kolo_conn_congestion(int fd, char name_out[KOLO_CONGESTION_MAX]);
/** For a socket that is going to connect or listen: sets reno if the system's congestion control is
 *  bbr. bbr paces from the moment that there is a connection, and its pacing stays when another
 *  congestion control is set later; whoever wants bbr sets it again afterwards. Other congestion
 *  controls are left alone, since some must be set before the connection is made. Sockets other
 *  than TCP are unaffected. The few bytes of the store's connections stay with reno. */
void kolo_conn_set_unpaced(int fd);

struct kolo_handshake;
struct kolo_handshake_owner {
    /** Dialler: the nonce has arrived. Returning false holds the handshake until
     *  kolo_handshake_prove. */
    bool (*may_prove)(struct kolo_handshake *handshake);
    /** The end of the handshake, told once, never from within kolo_handshake_dial or _accept. The
     *  socket (watch.fd) is no longer watched and is still open: take it, or call
     *  kolo_handshake_drop. */
    void (*over)(struct kolo_handshake *handshake, enum kolo_conn_verdict verdict, int error);
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
    size_t bytes, bytes_done; /* bytes of buf to move in this state, and moved so far */
    struct kolo_greeting theirs;
    /** KOLO_OK, or the status of what this rank itself lacked, when the thread's detail said what.
     *  Valid when a dial has failed at once, and when the verdict is KOLO_VERDICT_LACK. */
    kolo_status lack;
};

/** Begins to connect to handshake->place. Returns 0, or the errno value of what failed at once;
 *  then `lack` says whether it is this rank that lacks something. The fields poller, owner, secret,
 *  mine and place must be set. */
int kolo_handshake_dial(struct kolo_handshake *handshake);
/** Begins with an accepted socket, which it takes in every case. */
int kolo_handshake_accept(struct kolo_handshake *handshake, int fd);
/** Whether the whole claim of an accepted connection has arrived and is only not read yet: its
 *  handshake ends with the next look. */
bool kolo_handshake_is_fed(const struct kolo_handshake *handshake);
/** Continues a handshake that is held; it may end within this call. */
void kolo_handshake_prove(struct kolo_handshake *handshake);
/** Closes without telling the owner. Safe for a handshake that is over. */
void kolo_handshake_drop(struct kolo_handshake *handshake);
/** Takes the socket of a handshake that is over. */
int kolo_handshake_take(struct kolo_handshake *handshake);

#endif
