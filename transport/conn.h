// SPDX-License-Identifier: Apache-2.0
// Authenticated connections: non-blocking connect and accept over TCP and Unix sockets, and the
// mutual challenge-response that proves knowledge of the job's secret before one byte of the peer
// is interpreted.
//
//   acceptor                                   dialer
//   nonce_a (32) ------------------------------>
//            <------------- nonce_d (32) greeting_d (32) HMAC(secret, "kolo-dial"   nonce_a nonce_d
//            greeting_d) (32)
//   greeting_a (32) HMAC(secret, "kolo-accept" nonce_d nonce_a greeting_a) (32)
//   ------------------------------>
//
// HMAC-SHA256 of libcrypto, compared in constant time. All lengths are fixed, so that nothing is
// parsed before it is proved; a stranger gets 32 random bytes and then a closed socket. Nonces are
// fresh, so a replay proves nothing.
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
/** 64 hexadecimal digits to bytes; ERR_CONFIG (never echoing the text). */
kolo_status kolo_secret_parse(const char *hex, struct kolo_secret *secret_out) KOLO_NODISCARD;
void kolo_secret_format(const struct kolo_secret *secret, char hex_out[65]);

/** What each side says of itself inside the proof. Packed by the layer that uses the connection;
 * see the enums. */
struct kolo_greeting {
    uint8_t protocol; /* KOLO_PROTOCOL_VERSION */
    uint8_t purpose;  /* enum kolo_purpose */
    int32_t from, to; /* ranks; -1: not a rank */
    uint64_t tag;     /* free for the purpose */
};
enum { KOLO_PROTOCOL_VERSION = 7 };
enum kolo_purpose {
    KOLO_PURPOSE_STORE = 1,
    KOLO_PURPOSE_TCP,
    KOLO_PURPOSE_SHM,
    KOLO_PURPOSE_RDMA,
    KOLO_PURPOSE_DOCTOR
};

/** A connection on its way up. The callback comes once, from dispatch or from kolo_conn_expire,
 * never from within the call that created it; the fd is the callee's, non-blocking, and holds no
 * small message back (TCP_NODELAY). After the callback the object is gone. */
struct kolo_conn;
typedef void kolo_conn_done(void *context, kolo_status status, int fd,
                            const struct kolo_greeting *theirs);

/** How several places of one peer are compared; the caller's, to live as long as the conn. */
struct kolo_race {
    const struct kolo_place *locals; /* this machine's addresses, with their facts */
    size_t local_count;
    int numa_node; /* that this rank is bound in; -1: several, or unknown */
    unsigned turn; /* this rank's number on its host: of equal interfaces its ranks take turns */
    /* ---- what came of it ---- */
    size_t answered, tried;
    char text[96]; /* "eth0, 25000 Mbit/s, round trip 61 us" */
};
/** Whom to dial; all but the race is copied. */
struct kolo_dial_config {
    const struct kolo_place *places;
    size_t count;
    const struct kolo_secret *secret;
    const struct kolo_greeting *mine;
    kolo_deadline deadline;
    struct kolo_race *race; /* NULL: the first place that answers will do */
    const char *advice;     /* what may be wrong where no place takes a connection; lent; or NULL */
    kolo_conn_done *done;
    void *context;
};
/** Dials all places and takes the first that proves the secret and is whom we mean: same protocol
 * and purpose, and, where mine->to and their `from` are ranks, that rank. A refused, reset, silent
 * or prematurely closed one is dialled again (20 ms doubling to 500 ms) until the deadline: the
 * peer may be starting, or busy. A place where a stranger answers, or the wrong rank, is given up.
 *
 * Without a race dials are staggered: the next starts when one failed or after 100 ms. With one all
 * start at once, and among those that answer within a round trip or two of the first the one with
 * the best path (path_quality.h) is the first to be proved; the others only if it fails.
 *
 * ERR_INVALID: no places, or too many; ERR_NO_MEMORY. What done() is told: KOLO_OK; ERR_CONNECT,
 * ERR_AUTH, ERR_PROTOCOL, ERR_TIMEOUT (all silent) with every place and what it answered in the
 * detail: at the deadline, or as soon as all places are given up. */
kolo_status kolo_conn_dial(struct kolo_poller *poller, const struct kolo_dial_config *config,
                           struct kolo_conn **conn_out) KOLO_NODISCARD;
/** "cannot reach rank 1: 10.0.0.5:4711 no answer; ADVICE": what each place has answered so far;
 * "rank 1 is late: ..." where its host takes connections and nobody there says a word. */
void kolo_conn_explain(const struct kolo_conn *conn, char *text, size_t capacity);
/** Bounds how long nobody may be there: at @p by the dial ends as at its deadline, unless some
 * place has taken a connection by then. A peer that is busy or stopped has, since its kernel does;
 * one that is gone, or behind a firewall, has not. Right after the dial was begun. */
void kolo_conn_expect(struct kolo_conn *conn, kolo_deadline by);
/** Gives up silently: no callback. */
void kolo_conn_cancel(struct kolo_conn *conn);

/** Where and as whom to listen; copied. */
struct kolo_listener_config {
    const struct kolo_place *place;
    int handshake_ms; /* how long a peer may take to prove itself */
    const struct kolo_secret *secret;
    const struct kolo_greeting *mine; /* answers the greeting of each, with their `from` as `to` */
    kolo_conn_done *accepted;
    void *context;
};
/** Listens; every peer that proves the secret reaches accepted() (status KOLO_OK). Strangers are
 * dropped in silence: at a wrong proof, after handshake_ms, or, the oldest first, when
 * KOLO_LISTENER_PENDING_MAX wait beside as many as are expected. One that proves itself but means
 * another rank, purpose or protocol gets the answer, so that it knows, and is dropped.
 * ERR_SYSTEM: nobody can listen there; ERR_NO_MEMORY. */
struct kolo_listener;
kolo_status kolo_listener_open(struct kolo_poller *poller,
                               const struct kolo_listener_config *config,
                               struct kolo_listener **listener_out) KOLO_NODISCARD;
void kolo_listener_close(struct kolo_listener *listener);
/** So many peers may come at once: there is room for them all beside
 * KOLO_LISTENER_PENDING_MAX strangers, however long each takes to prove itself. */
void kolo_listener_expect(struct kolo_listener *listener, int peers);
/** Where it listens, with the port that the system chose. */
void kolo_listener_place(const struct kolo_listener *listener, struct kolo_place *place_out);
/** Connections dropped so far without proof. */
uint64_t kolo_listener_strangers(const struct kolo_listener *listener);

/** Fires the deadlines and redials that have come, for every conn and listener of the poller, and
 * returns the next point in time at which it must be called again (KOLO_NEVER: none). The list
 * hangs off the poller: kolo_poller_conns. */
kolo_deadline kolo_conn_expire(struct kolo_poller *poller);

#endif
