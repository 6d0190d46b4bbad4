// SPDX-License-Identifier: Apache-2.0
// Who failed first. Collects what is learnt of each rank and when, and turns it into one line and
// an exit status. Pure: no I/O, no clock; every @p when_ns is the caller's.
#ifndef KOLO_LAUNCHER_VERDICT_H
#define KOLO_LAUNCHER_VERDICT_H

#include "launcher/frames.h"

struct kolo_verdict;

kolo_status kolo_verdict_create(int size, struct kolo_verdict **verdict_out) KOLO_NODISCARD;
void kolo_verdict_destroy(struct kolo_verdict *verdict);

/** The others went on when a rank had failed: the line says so. */
void kolo_verdict_keep_going(struct kolo_verdict *verdict);
/** A rank failed that had called kolo_init before all had: who ended without that left it alone.
 *  (Elsewhere a rank need not be of kolo.) */
void kolo_verdict_waited(struct kolo_verdict *verdict);
/** @p rank runs at @p host (lent) as @p pid. */
void kolo_verdict_started(struct kolo_verdict *verdict, int rank, const char *host, uint32_t pid);
/** The connection of @p rank to the store ended: after a goodbye, or without one. */
void kolo_verdict_left(struct kolo_verdict *verdict, int rank);
void kolo_verdict_lost(struct kolo_verdict *verdict, int rank, int64_t when_ns);
/** From now on kolorun itself ends ranks by this signal, SIGTERM or SIGKILL: who dies of it has not
 * failed of it. */
void kolo_verdict_sends(struct kolo_verdict *verdict, int number);
/** @p rank ended. True if that fails the job: not with status 0. */
bool kolo_verdict_ended(struct kolo_verdict *verdict, const struct kolo_outcome *outcome,
                        int64_t when_ns);
/** @p rank ended with status 0, and what it had left in the background goes on: @p how is what it
 * did there. That fails the job from the moment on that the rank ended. */
void kolo_verdict_strayed(struct kolo_verdict *verdict, int rank, const char *how);
/** Something else ended the job: a host lost (@p when_ns: when it was last heard), a deadline, a
 * signal. Only the earliest one counts. */
void kolo_verdict_trouble(struct kolo_verdict *verdict, int64_t when_ns, int exit_status,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
/** The same of a host that was lost with its @p ranks: what became of the others is added. */
void kolo_verdict_host(struct kolo_verdict *verdict, int64_t when_ns, int exit_status,
                       const char *text, int first_rank, int ranks);

/** When the loss of a host with these ranks, noticed at @p when_ns, first showed: the connection of
 * a rank whose end nobody reported may have fallen before. */
int64_t kolo_verdict_evidence(const struct kolo_verdict *verdict, int first_rank, int ranks,
                              int64_t when_ns);
/** Ended with status 0, having been connected, without a goodbye. */
bool kolo_verdict_is_deserter(const struct kolo_verdict *verdict, int rank);
/** Ended with status 0, whatever it had done. */
bool kolo_verdict_ended_well(const struct kolo_verdict *verdict, int rank);
bool kolo_verdict_has_left(const struct kolo_verdict *verdict, int rank);
bool kolo_verdict_has_ended(const struct kolo_verdict *verdict, int rank);

/** "was killed by signal 9 (SIGKILL)", "exited with status 3". */
void kolo_outcome_text(const struct kolo_outcome *outcome, char *text, size_t capacity);

/** The exit status, and what to say about it ("" for success). */
int kolo_verdict_finish(const struct kolo_verdict *verdict, char *line, size_t capacity);

#endif
