// SPDX-License-Identifier: Apache-2.0
// Determines who failed first. Collects what is learnt about each rank and when, and turns it into
// one line and an exit status. Pure: no I/O, no clock; the caller passes every @p when_ns.
#ifndef KOLO_LAUNCHER_VERDICT_H
#define KOLO_LAUNCHER_VERDICT_H

#include "launcher/frames.h"

struct kolo_verdict;

kolo_status kolo_verdict_create(int size, struct kolo_verdict **verdict_out) KOLO_NODISCARD;
void kolo_verdict_destroy(struct kolo_verdict *verdict);

/** Ends @p rank, which nothing can follow any more: @p how says what it did ("stopped by a signal",
 * a constant). The line says so. */
void kolo_verdict_behind(struct kolo_verdict *verdict, int rank, const char *how);
/** The others continued after a rank had failed: the line says so. */
void kolo_verdict_keep_going(struct kolo_verdict *verdict);
/** A rank that had called kolo_init failed before all had called it: then a rank that ended without
 * calling it is the cause. (Otherwise a rank need not use kolo.) */
void kolo_verdict_waited(struct kolo_verdict *verdict);
/** @p rank runs on @p host (borrowed) as @p pid. */
void kolo_verdict_started(struct kolo_verdict *verdict, int rank, const char *host, uint32_t pid);
/** Its host and process; false: it was not started. */
bool kolo_verdict_started_as(const struct kolo_verdict *verdict, int rank, const char **host_out,
                             uint32_t *pid_out);
/** @p rank has not called kolo_init, and the others gave up waiting for it at @p when_ns: it is the
 * cause if they fail then. Not if it has ended. */
void kolo_verdict_late(struct kolo_verdict *verdict, int rank, int64_t when_ns);
/** The lowest of those ranks, or -1; and what it does ("stopped by a signal"). */
int kolo_verdict_first_late(const struct kolo_verdict *verdict);
void kolo_verdict_late_does(struct kolo_verdict *verdict, const char *what);
/** The process as which it was started; 0: it was not. */
uint32_t kolo_verdict_pid(const struct kolo_verdict *verdict, int rank);
/** The connection of @p rank to the store has ended, after a goodbye or without one. */
void kolo_verdict_left(struct kolo_verdict *verdict, int rank);
void kolo_verdict_lost(struct kolo_verdict *verdict, int rank, int64_t when_ns);
/** From now on kolorun itself ends ranks by this signal, SIGTERM or SIGKILL; dying of it is no
 * longer a failure. */
void kolo_verdict_sends(struct kolo_verdict *verdict, int number);
/** A rank ended. Returns true if that fails the job: its status was not 0. */
bool kolo_verdict_ended(struct kolo_verdict *verdict, const struct kolo_outcome *outcome,
                        int64_t when_ns);
/** @p rank ended with status 0, but something it left in the background continues; @p how says what
 * that did. The job counts as failed from the time at which the rank ended. */
void kolo_verdict_strayed(struct kolo_verdict *verdict, int rank, const char *how);
/** Something else ended the job: a lost host (@p when_ns: when it was last heard), a deadline, a
 * signal. Only the earliest counts. */
void kolo_verdict_trouble(struct kolo_verdict *verdict, int64_t when_ns, int exit_status,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
/** The same for a lost host with @p ranks (borrowed): the line adds what happened to the others. */
void kolo_verdict_host(struct kolo_verdict *verdict, int64_t when_ns, int exit_status,
                       const char *text, const struct kolo_ranks *ranks);

/** When the loss of a host with these ranks, noticed at @p when_ns, first showed: the connection of
 * a rank whose end nobody reported may have broken before. */
int64_t kolo_verdict_evidence(const struct kolo_verdict *verdict, const struct kolo_ranks *ranks,
                              int64_t when_ns);
/** It ended with status 0 without a goodbye, after having been connected. */
bool kolo_verdict_is_deserter(const struct kolo_verdict *verdict, int rank);
/** It ended with status 0, whatever it had done before. */
bool kolo_verdict_ended_well(const struct kolo_verdict *verdict, int rank);
bool kolo_verdict_has_left(const struct kolo_verdict *verdict, int rank);
bool kolo_verdict_has_ended(const struct kolo_verdict *verdict, int rank);

/** "SIGKILL", "SIGRTMIN+2"; "unknown" for a number that is no signal's. */
void kolo_signal_text(int number, char *text, size_t capacity);

/** Writes "rank 3 (host1, pid 812) was killed by signal 9 (SIGKILL)" of a rank that has ended, and
 * "rank 3 (host1, pid 812)" of another. */
void kolo_verdict_name(const struct kolo_verdict *verdict, int rank, char *text, size_t capacity);

/** "was killed by signal 9 (SIGKILL)", "exited with status 3". */
void kolo_outcome_text(const struct kolo_outcome *outcome, char *text, size_t capacity);

/** Returns the exit status, and writes the verdict into @p line ("" for success). */
int kolo_verdict_finish(const struct kolo_verdict *verdict, char *line, size_t capacity);

#endif
