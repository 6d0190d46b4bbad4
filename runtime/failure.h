// SPDX-License-Identifier: Apache-2.0
// How a communicator fails, and why it did. Private to runtime/.
//
// Held: the engine's lock, in all calls.
#ifndef KOLO_RUNTIME_FAILURE_H
#define KOLO_RUNTIME_FAILURE_H

#include "base/clock.h"
#include "base/status.h"
#include "runtime/call.h"

struct kolo_comm;
struct kolo_request;

enum {
    KOLO_VERDICT_GRACE_MS = 300 /* how long a fallen link may wait for the store to say why */
};

/** Why the communicator is lost; status KOLO_OK: it is not. */
struct kolo_failure {
    kolo_status status;
    char text[KOLO_DETAIL_MAX];
    char during[KOLO_WORDS_MAX + 32]; /* the call that ran then; "" */
};

/** A cause that waits for a better one until its deadline. */
struct kolo_suspicion {
    kolo_status status; /* KOLO_OK: none */
    int peer;           /* whose link fell, or who left; -1: not that */
    kolo_deadline deadline;
    bool is_told; /* learned from the store: need not be told to it */
    char text[KOLO_DETAIL_MAX];
};

/** Something is wrong, with @p peer if not -1; it becomes the failure after @p grace_ms, unless
 * something more telling comes. */
void kolo_comm_suspect(struct kolo_comm *comm, int peer, kolo_status status, int64_t grace_ms,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
/** What members may have told of it before it was opened. */
void kolo_comm_hear(struct kolo_comm *comm);
/** Turns a ripe suspicion into the failure: ends all requests, tells the others. */
void kolo_comm_settle(struct kolo_comm *comm);
/** The first failure wins. @p tell: the store and the links do not know it yet. */
void kolo_comm_fail(struct kolo_comm *comm, kolo_status status, const char *text, bool tell);
/** The failure as a call's result: sets this thread's detail, returns the status. @p request NULL:
 * the call is no request. */
kolo_status kolo_comm_failed(struct kolo_comm *comm, const struct kolo_request *request);

#endif
