// SPDX-License-Identifier: Apache-2.0
// How a communicator fails, and why it did. Private to runtime/.
//
// A cause may first be a suspicion, which leaves some time for a more telling cause to arrive. Then
// it becomes the failure, which never changes. Held: the engine's lock, in all calls.
#ifndef KOLO_RUNTIME_FAILURE_H
#define KOLO_RUNTIME_FAILURE_H

#include "base/clock.h"
#include "base/status.h"
#include "runtime/call.h"

struct kolo_comm;
struct kolo_request;

enum {
    KOLO_VERDICT_GRACE_MS = 300 /* how long a broken link may wait for the store to say why */
};

/** Why the communicator is lost; status KOLO_OK: it is not lost. */
struct kolo_failure {
    kolo_status status;
    char text[KOLO_DETAIL_MAX];
    char during[KOLO_WORDS_MAX + 32]; /* the call that was running; "" if none */
    bool is_told;                     /* a call has returned it to the program */
};

/** A cause that gives way to a better one until its deadline. */
struct kolo_suspicion {
    kolo_status status; /* KOLO_OK: none */
    int peer;           /* whose link broke, or who left; -1: no peer */
    kolo_deadline deadline;
    bool is_from_store; /* which need not be told then */
    char text[KOLO_DETAIL_MAX];
};

/** Something is wrong, with @p peer unless it is -1. It becomes the failure after @p grace_ms,
 * unless a more telling cause arrives. */
void kolo_comm_suspect(struct kolo_comm *comm, int peer, kolo_status status, int64_t grace_ms,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
/** Something failed in what this rank does with @p peer; @p text says what. The words blame the
 * peer, unless it is this rank that lacks something. */
void kolo_comm_suspect_link(struct kolo_comm *comm, int peer, kolo_status status, const char *text);
/** Something failed on this rank, in what it does with @p peer unless it is -1; this thread's
 * detail says what. All ranks are told where. */
void kolo_comm_suspect_here(struct kolo_comm *comm, int peer, kolo_status status);
/** Applies failures that may have been reported before the communicator was opened. */
void kolo_comm_hear(struct kolo_comm *comm);
/** Turns a suspicion whose time has come into the failure: ends all requests and tells the
 * others. */
void kolo_comm_settle(struct kolo_comm *comm);
/** Sets the failure, and tells the store and the other ranks; the first one wins. */
void kolo_comm_fail(struct kolo_comm *comm, kolo_status status, const char *text);
/** The same, but tells nobody: they know of it, or hear of it otherwise. */
void kolo_comm_fail_quietly(struct kolo_comm *comm, kolo_status status, const char *text);
/** The same for what failed on this rank: @p what, to which the text adds where, for all ranks. */
void kolo_comm_fail_here(struct kolo_comm *comm, kolo_status status, const char *what);
/** Whether @p world, which this rank is just making, has failed by what came after its start: a
 * rank is lost, or the failure is reported by one that had made it. It is made all the same. */
bool kolo_comm_failed_after_start(const struct kolo_comm *world);
/** The failure as the result of a call: sets this thread's detail and returns the status. @p
 * request NULL: the call is not a request. */
kolo_status kolo_comm_failed(struct kolo_comm *comm, const struct kolo_request *request);
/** What the end of @p comm has to say of a broadcast that was its last call: that it was called
 * differently by some rank, with the detail, if no call has said so. Whichever thread made progress
 * may have noticed it. KOLO_OK: nothing. */
kolo_status kolo_comm_last_word(struct kolo_comm *comm);

#endif
