// SPDX-License-Identifier: Apache-2.0
// The ranks of one host, seen by their agent: started, watched, their lines gathered and sent under
// credit. Lives on the agent's loop.
#ifndef KOLO_LAUNCHER_CHILDREN_H
#define KOLO_LAUNCHER_CHILDREN_H

#include <sys/resource.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/channel.h"

struct kolo_children;

/** Looks whether the directory and the program are there, and deals processors and devices out to
 * the ranks. On failure *exit_status_out is what kolorun shall end with: 126 or 127, or 2 where
 * there is too little to deal out. */
kolo_status kolo_children_prepare(uv_loop_t *loop, struct kolo_channel *channel,
                                  const struct kolo_spec *spec, struct kolo_children **children_out,
                                  int *exit_status_out) KOLO_NODISCARD;
/** Starts all ranks, reporting each. A failure leaves the started ones to be ended. */
kolo_status kolo_children_start(struct kolo_children *children) KOLO_NODISCARD;
/** Process @p pid ended with wait status @p wait_status: reports it if it was a rank. */
void kolo_children_reaped(struct kolo_children *children, pid_t pid, int wait_status,
                          const struct rusage *usage);
/** For the process groups of the ranks that run. */
void kolo_children_signal(struct kolo_children *children, int number);
/** Standard input for rank 0; 0 bytes: its end. */
void kolo_children_input(struct kolo_children *children, const void *data, size_t bytes);
/** @p bytes more of output may be sent. */
void kolo_children_credit(struct kolo_children *children, size_t bytes);
/** Nobody reads any more: output is thrown away from here on. */
void kolo_children_mute(struct kolo_children *children);
/** Sends the next piece of what the ranks, all of which have ended, have left of their calls.
 * False: that was all. */
bool kolo_children_send_records(struct kolo_children *children);
int kolo_children_running(const struct kolo_children *children);
/** Streams whose end has not been sent yet; *idle_ms_out: how long ago anything arrived, 0 while
 * something waits for credit. */
int kolo_children_streams(const struct kolo_children *children, int64_t *idle_ms_out);
/** Closes all handles; the memory is freed by kolo_children_destroy after the loop ran. */
void kolo_children_close(struct kolo_children *children);
void kolo_children_destroy(struct kolo_children *children);

#endif
