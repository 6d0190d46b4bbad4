// SPDX-License-Identifier: Apache-2.0
// Where ranks meet: one server per job (in kolorun, or in a thread of rank 0 where there is no
// launcher) and one client per rank, over an authenticated connection that stays open. It carries
// the table of ranks, the key-value store, the news that a rank died or failed, and reports of
// stalled calls, which the server compares: two ranks that wait in different calls are told so at
// once, whatever their plans send to whom.
//
// Messages are [u32 bytes][u8 type][body], bounded (KOLO_STORE_MESSAGE_MAX), read by the checked
// reader. Server and client are event-driven on a poller and never block, except where it says so.
#ifndef KOLO_RUNTIME_STORE_H
#define KOLO_RUNTIME_STORE_H

#include "transport/conn.h"
#include "transport/transport.h"

enum {
    KOLO_STORE_MESSAGE_MAX = 64 << 20,
    KOLO_STORE_VALUE_MAX = 1 << 20,
    KOLO_STORE_KEY_MAX = 255,
    KOLO_STORE_TOTAL_MAX = 256 << 20, /* all keys and values of a job */
    KOLO_STORE_TEXT_MAX = 1024
};

/** What a failure ends: the communicator of that number, or one of these. */
#define KOLO_STORE_RANK UINT32_MAX       /* every communicator that has the rank */
#define KOLO_STORE_JOB (UINT32_MAX - 1u) /* all */
/** How many channels each communicator has; its number is the channel's divided by this. */
enum { KOLO_CHANNELS_PER_COMM = 4 };
/* Those of a communicator on each link, after its number times that. */
enum { KOLO_CHANNEL_COLLECTIVE = 0, KOLO_CHANNEL_MESSAGE = 1, KOLO_CHANNEL_CLOSING = 2 };
/** The key that counts the communicators that were made: no text that people write. */
#define KOLO_STORE_NUMBERS_KEY "\001communicators"

/* ---- server ---- */

/** What the owner of a server wants to know; any may be NULL. From dispatch or from a call below.
 */
struct kolo_store_server_events {
    void *context;
    void (*joined)(void *context);         /* all ranks are there; the table went out */
    void (*came)(void *context, int rank); /* called kolo_init, be it too late to join */
    void (*left)(void *context, int rank); /* said goodbye */
    /** The connection of @p rank ended without goodbye, and kolo_store_server_died was not called
     * for it before. */
    void (*lost)(void *context, int rank);
    /** The job, or a communicator of it, failed by a rank (it aborted, joined wrongly, or its
     * connection was lost and no verdict came) or by what the server found (a mismatch, missing
     * ranks: rank -1). Already on its way to all ranks. Not called for kolo_store_server_died and
     * _abort. */
    void (*aborted)(void *context, int rank, kolo_status why, const char *text);
    /** A line for the user: a stall warning that names the missing ranks. */
    void (*notice)(void *context, const char *text);
};
struct kolo_store_server;
struct kolo_store_server_config {
    int size;
    const char *owner; /* who said the size, for messages: "rank 0", "kolorun"; a constant, or NULL
                        */
    struct kolo_secret secret;
    uint64_t job_id; /* the greeting's tag; a dialer with another one is turned away. 0: none */
    int64_t start_timeout_ms; /* counts from the first rank's JOIN (a program need not use kolo);
                                 then every rank that joined gets ERR_TIMEOUT with the ranks that
                                 are missing */
    int64_t stall_warn_ms;
    struct kolo_ports ports; /* at which it listens where the port is left open */
    int64_t peer_timeout_ms; /* a silent host's connection is lost after this; 0: the system's */
    /** How long a lost connection may wait for a verdict (kolo_store_server_died) before the ranks
     * are told just "lost its connection". */
    int64_t lost_grace_ms;
    struct kolo_store_server_events events;
};
kolo_status kolo_store_server_create(struct kolo_poller *poller,
                                     const struct kolo_store_server_config *config,
                                     struct kolo_store_server **server_out) KOLO_NODISCARD;
/** Listens at @p place (port 0: any); *port_out (may be NULL) says where. May be called for IPv4
 * and IPv6. */
kolo_status kolo_store_server_listen(struct kolo_store_server *server,
                                     const struct kolo_place *place,
                                     uint16_t *port_out) KOLO_NODISCARD;
/** Serves a connection that needs no proof (a socket pair inside this process). Takes @p fd in
 * every case. */
kolo_status kolo_store_server_adopt(struct kolo_store_server *server, int fd) KOLO_NODISCARD;
/** @p rank is dead and @p how says how ("killed by signal 9 (SIGKILL)", "exited with status 3"):
 * told to all ranks as ERR_PEER "rank 5 (host7, pid 812) killed by ...", once. Before all ranks are
 * there it fails the job, later the communicators that have the rank. */
void kolo_store_server_died(struct kolo_store_server *server, int rank, const char *how);
/** Fails the job on every rank. */
void kolo_store_server_abort(struct kolo_store_server *server, kolo_status why, const char *text);
/** Fires deadlines that have come; the next one is returned. Call after every dispatch. Runs
 * kolo_conn_expire too. */
kolo_deadline kolo_store_server_expire(struct kolo_store_server *server);
/** Ranks whose connection is open now. */
int kolo_store_server_connected(const struct kolo_store_server *server);
/** Whether @p rank has joined, and its connection stands. */
bool kolo_store_server_is_here(const struct kolo_store_server *server, int rank);
/** Whether @p rank has ever called kolo_init, whatever became of it. */
bool kolo_store_server_has_come(const struct kolo_store_server *server, int rank);
void kolo_store_server_destroy(struct kolo_store_server *server);

/** Runs a server on a thread of its own (its events come from that thread); serves until
 * kolo_store_thread_stop, which waits (up to the deadline) until every rank has left, then ends it.
 * *port_out (may be NULL): the port of all places; those with port 0 share one that the system
 * chooses. */
struct kolo_store_thread;
kolo_status kolo_store_thread_start(const struct kolo_store_server_config *config,
                                    const struct kolo_place *places, size_t count,
                                    uint16_t *port_out,
                                    struct kolo_store_thread **thread_out) KOLO_NODISCARD;
/** One end of a socket pair whose other end the server has adopted. Any thread. */
kolo_status kolo_store_thread_pair(struct kolo_store_thread *thread, int *fd_out) KOLO_NODISCARD;
void kolo_store_thread_stop(struct kolo_store_thread *thread, kolo_deadline deadline);

/* ---- client ---- */

struct kolo_store_client_events {
    void *context;
    /** Something failed: a rank died (ERR_PEER, @p rank), aborted, timed out or mismatched. @p
     * scope is what ended by it: a communicator's number, KOLO_STORE_RANK or KOLO_STORE_JOB. @p
     * text names it in full. */
    void (*failed)(void *context, int rank, uint32_t scope, kolo_status why, const char *text);
    /** @p rank said goodbye. */
    void (*left)(void *context, int rank);
    /** The connection to the server fell. */
    void (*lost)(void *context);
    /** A call has ended. */
    void (*answered)(void *context);
};
struct kolo_store_client;
/** Joins as @p self over @p fd, a connection that has proved itself (kolo_rendezvous_dial,
 * kolo_store_dial); blocks until all ranks are there, without running other callbacks of @p poller.
 * The client lives on @p poller, which its owner dispatches from then on; events come from there
 * only. Takes @p fd in every case.
 *  @return KOLO_OK and the table of @p size peers, owned by the client; ERR_CONNECT, ERR_TIMEOUT
 * (naming the missing ranks), ERR_INVALID (size differs, rank given twice: named), ERR_PEER. */
kolo_status kolo_store_client_join(struct kolo_poller *poller, int fd, const struct kolo_peer *self,
                                   int size, kolo_deadline deadline,
                                   const struct kolo_store_client_events *events,
                                   struct kolo_store_client **client_out,
                                   const struct kolo_peer **peers_out) KOLO_NODISCARD;

/** How long the server's host may be silent before the connection counts as lost
 * (KOLO_PEER_TIMEOUT).
 */
void kolo_store_client_keepalive(struct kolo_store_client *client, int64_t peer_timeout_ms);

/** A question to the store: the caller's memory until status is no longer KOLO_AGAIN, or until
 * cancelled. */
struct kolo_store_call {
    kolo_status status; /* AGAIN; OK; ERR_NOT_FOUND; ERR_TIMEOUT; ERR_INVALID (add: not an integer);
                           ERR_PEER */
    void *value;        /* get: allocated (kolo_free_memory), the caller's */
    size_t bytes;
    int64_t sum;      /* add */
    char why[400];    /* on failure: what the store knows beyond the status, or what became of it */
    bool is_answered; /* by the store; else it failed here */
    uint32_t id;      /* the client's */
    struct kolo_store_call *next;
};
void kolo_store_client_set(struct kolo_store_client *client, const char *key, const void *value,
                           size_t bytes, struct kolo_store_call *call);
/** @p wait: answer when the key exists; else at once. */
void kolo_store_client_get(struct kolo_store_client *client, const char *key, bool wait,
                           struct kolo_store_call *call);
void kolo_store_client_add(struct kolo_store_client *client, const char *key, int64_t amount,
                           struct kolo_store_call *call);
void kolo_store_client_cancel(struct kolo_store_client *client, struct kolo_store_call *call);

/** Who goes on when communicator @p number has failed: @p members has a bit for each of its ranks,
 * @p lost for each of those that this one cannot reach any more, alive or not. Answered when every
 * member has asked, finalized it, left or died, the same to all: call->value has a bit for each
 * rank that asked and goes on, call->sum is a number for their communicator. Of two that asked and
 * cannot reach each other one is left out: it gets ERR_PEER. ERR_TIMEOUT after @p timeout_ms:
 * call->why names a rank that has not come. */
void kolo_store_client_shrink(struct kolo_store_client *client, uint32_t number,
                              const uint8_t *members, const uint8_t *lost, uint32_t timeout_ms,
                              struct kolo_store_call *call);

/** This rank has finalized communicator @p number, of which @p members has the ranks: who shrinks
 * it does not wait for this one. */
void kolo_store_client_finalized(struct kolo_store_client *client, uint32_t number,
                                 const uint8_t *members);

/** A call in which a rank waits and nothing moves. */
struct kolo_stall_report {
    uint32_t channel, sequence;   /* on a channel of messages: a number of this rank's own */
    const struct kolo_desc *desc; /* what it believes */
    const char *words;            /* the same for people */
    const uint8_t *members;       /* ranks that have to come, a bit each; NULL: all of the world */
};
/** This rank has been waiting in a call. The server answers by `failed` (ERR_MISMATCH, both sides
 * named) if another rank waits at the same channel and sequence number with another description. On
 * a channel of messages nothing is compared. */
void kolo_store_client_stalled(struct kolo_store_client *client,
                               const struct kolo_stall_report *report);
/** It goes on. */
void kolo_store_client_resumed(struct kolo_store_client *client, uint32_t channel,
                               uint32_t sequence);
/** Fails @p scope (a communicator's number, or KOLO_STORE_JOB) on every rank, with this text. */
void kolo_store_client_abort(struct kolo_store_client *client, uint32_t scope, kolo_status why,
                             const char *text);
/** The table of peers becomes the caller's (kolo_peers_drop), for whoever still needs it when the
 * client is closed: an endpoint that drains. Just before the close. NULL gives NULL. */
const struct kolo_peer *kolo_store_client_take_peers(struct kolo_store_client *client);
/** Says goodbye, waits until that has been written (deadline), closes. NULL is fine. */
void kolo_store_client_close(struct kolo_store_client *client, kolo_deadline deadline);

#endif
