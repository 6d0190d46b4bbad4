// SPDX-License-Identifier: Apache-2.0
// Authenticated connections: non-blocking connect and accept over TCP and Unix sockets, and the
// mutual challenge-response by which both sides prove that they know the job's secret before a
// single byte of the peer is interpreted.
//
//   acceptor             dialler
//      | --- nonce_a --->  |
//      | <--- claim -----  |    nonce_d, greeting_d, HMAC("kolo-dial" nonce_a nonce_d greeting_d)
//      | ---- answer --->  |    greeting_a, HMAC("kolo-accept" nonce_d nonce_a greeting_a)
//
// Nonces, greetings and HMACs have 32 bytes each; the key of the HMACs is the secret. The HMAC is
// HMAC-SHA256 of libcrypto, compared in constant time. All lengths are fixed, so nothing is parsed
// before it is proved; a stranger gets 32 random bytes and then a closed socket. Nonces are fresh,
// so a replay proves nothing.
#ifndef KOLO_TRANSPORT_CONN_H
#define KOLO_TRANSPORT_CONN_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport/places.h"
#include "transport/poller.h"

enum { KOLO_SECRET_BYTES = 32, KOLO_GREETING_BYTES = 32, KOLO_LISTENER_PENDING_MAX = 128 };

struct kolo_secret {
    uint8_t bytes[KOLO_SECRET_BYTES];
};

/** 32 random bytes from the system. */
kolo_status kolo_secret_make(struct kolo_secret *secret_out) KOLO_NODISCARD;
/** Makes a proof with it, so that a libcrypto that cannot is found out before anybody waits.
 *  ERR_SYSTEM. */
kolo_status kolo_secret_try(const struct kolo_secret *secret) KOLO_NODISCARD;
/** Converts 64 hexadecimal digits to bytes, and tries the secret. ERR_CONFIG, whose detail never
 *  contains the text; ERR_SYSTEM. */
kolo_status kolo_secret_parse(const char *hex, struct kolo_secret *secret_out) KOLO_NODISCARD;
void kolo_secret_format(const struct kolo_secret *secret, char hex_out[65]);

/** What each side says about itself inside the proof. The layer that uses the connection fills it
 *  in; see the enums. */
struct kolo_greeting {
    uint8_t protocol; /* KOLO_PROTOCOL_VERSION */
    uint8_t purpose;  /* enum kolo_purpose */
    int32_t from, to; /* ranks; -1: not a rank */
    uint64_t tag;     /* its meaning depends on the purpose */
};
enum { KOLO_PROTOCOL_VERSION = 11 };
enum kolo_purpose {
    KOLO_PURPOSE_STORE = 1,
    KOLO_PURPOSE_TCP,
    KOLO_PURPOSE_SHM,
    KOLO_PURPOSE_RDMA,
    KOLO_PURPOSE_DOCTOR
};

/** A connection that is being made. The callback comes exactly once, from dispatch or from
 *  kolo_conn_expire, and never from within the call that created the connection. The fd then
 *  belongs to the callee; it is non-blocking, and TCP_NODELAY is set. After the callback the object
 *  is gone. */
struct kolo_conn;
typedef void kolo_conn_done(void *context, kolo_status status, int fd,
                            const struct kolo_greeting *theirs);

/** How several places of one peer are compared. The memory is the caller's and must outlive the
 *  connection. */
struct kolo_race {
    const struct kolo_place *locals; /* this machine's addresses, with what is known of them */
    size_t local_count;
    int numa_node; /* the node that this rank is bound in; -1: several, or unknown */
    unsigned turn; /* this rank's number on its host: ranks take turns among equal interfaces */
    /* ---- results ---- */
    size_t answered, tried;
    char text[96]; /* "eth0, 25000 Mbit/s, round trip 61 us" */
};
/** Whom to dial. Everything but the race is copied. */
struct kolo_dial_config {
    const struct kolo_place *places;
    size_t count;
    const struct kolo_secret *secret;
    const struct kolo_greeting *mine;
    int64_t pause_ms; /* how long to wait before the first place is dialled */
    kolo_deadline deadline;
    struct kolo_race *race; /* NULL: take the first place that answers */
    const char *advice;     /* what may be wrong if no place takes a connection; lent; or NULL */
    kolo_conn_done *done;
    void *context;
};
/** Dials all places and takes the first one that proves the secret and is the expected peer: same
 *  protocol and purpose, and, if mine->to and the peer's `from` are ranks, that rank. A place that
 *  refuses, resets, is silent or closes early is dialled again (after 20 ms, doubling to 500 ms)
 *  until the deadline, since the peer may be starting or busy. A place where a stranger or the
 *  wrong rank answers is given up.
 *
 *  Without a race, dials are staggered: the next one starts when one failed, or after 100 ms. With
 *  a race, all start at once. Of those that answer within a round trip or two of the first one, the
 *  one with the best path (path_quality.h) is proved first, and the others only if it fails.
 *
 *  ERR_INVALID: no places, or too many; ERR_NO_MEMORY. done() gets KOLO_OK, or ERR_CONNECT,
 *  ERR_AUTH, ERR_PROTOCOL or ERR_TIMEOUT (all silent), with every place and its answer in the
 *  detail; errors come at the deadline, or as soon as all places are given up. ERR_SYSTEM: this
 *  rank has lacked for a second what it takes to dial at all, such as a descriptor. */
kolo_status kolo_conn_dial(struct kolo_poller *poller, const struct kolo_dial_config *config,
                           struct kolo_conn **conn_out) KOLO_NODISCARD;
/** Writes what each place has answered so far: "cannot reach rank 1: 10.0.0.5:4711 no answer;
 *  ADVICE", or "rank 1 is late: ..." if its host takes connections but no process there answers. */
void kolo_conn_explain(const struct kolo_conn *conn, char *text, size_t capacity);
/** Bounds how long to wait for a host that does not answer at all: at @p by the dial ends as at its
 *  deadline, unless some place has taken a connection by then. A peer that is busy or stopped has
 *  taken one, since its kernel does; one that is gone, or behind a firewall, has not. To be called
 *  right after the dial was begun. */
void kolo_conn_expect(struct kolo_conn *conn, kolo_deadline by);
/** Whether a place has been sent our proof and has not answered it: its process may have taken the
 *  connection already. */
bool kolo_conn_is_proving(const struct kolo_conn *conn);
/** Whether the other side has ended a connection before it sent anything on it, as a dialler does
 *  that is not answered in time and dials again. */
bool kolo_conn_is_left(int fd);
/** Gives up without calling back. */
void kolo_conn_cancel(struct kolo_conn *conn);

/** Where to listen, and as whom. Copied. */
struct kolo_listener_config {
    const struct kolo_place *place;
    int handshake_ms; /* how long a peer may take to prove itself */
    const struct kolo_secret *secret;
    const struct kolo_greeting *mine; /* our greeting, sent to each peer with its `from` as `to` */
    kolo_conn_done *accepted;
    void *context;
};
/** Listens; accepted() is called with KOLO_OK for every peer that proves the secret. Strangers are
 *  dropped without an answer: for a wrong proof, after handshake_ms, or, the oldest first, when the
 *  listeners of the poller have KOLO_LISTENER_PENDING_MAX connections pending in addition to the
 *  expected ones, or fewer if the limit of open files is low: an eighth of it for strangers, and
 *  half of it for expected peers, divided among the process's pollers that have listeners. A peer
 *  that proves the secret but means another rank, purpose or protocol gets the answer, so that it
 *  can tell, and is dropped. ERR_SYSTEM: cannot listen there; ERR_NO_MEMORY. */
struct kolo_listener;
kolo_status kolo_listener_open(struct kolo_poller *poller,
                               const struct kolo_listener_config *config,
                               struct kolo_listener **listener_out) KOLO_NODISCARD;
void kolo_listener_close(struct kolo_listener *listener);
/** @p peers peers may connect at the same time: there is room for all of them in addition to
 *  the strangers, if the limit of open files allows, however long each takes to prove itself. */
void kolo_listener_expect(struct kolo_listener *listener, int peers);
/** Where it listens, including the port that the system chose. */
void kolo_listener_place(const struct kolo_listener *listener, struct kolo_place *place_out);
/** How many connections were dropped so far without a proof. */
uint64_t kolo_listener_strangers(const struct kolo_listener *listener);
/** Writes who tried last to prove itself, and why it was dropped: "a process at 10.0.0.5:4711 does
 *  not know the secret". False: nobody was. */
bool kolo_listener_explain(const struct kolo_listener *listener, char *text, size_t capacity);
/** Writes what it has lacked to accept connections: "listener 0.0.0.0:4711: accept: Too many open
 *  files; ...". False: nothing. */
bool kolo_listener_explain_lack(const struct kolo_listener *listener, char *text, size_t capacity);

/** Handles the deadlines and redials that are due, for every connection and listener of the poller,
 *  and returns when it must be called next (KOLO_NEVER: there is none). The poller holds their
 *  list: kolo_poller_conns. */
kolo_deadline kolo_conn_expire(struct kolo_poller *poller);

#endif
