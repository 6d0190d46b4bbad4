// SPDX-License-Identifier: Apache-2.0
// The ranks of one host, as seen by their agent: starts and watches them, collects their output in
// lines and sends it as far as credit allows. Lives on the agent's loop.
#ifndef KOLO_LAUNCHER_CHILDREN_H
#define KOLO_LAUNCHER_CHILDREN_H

#include <sys/resource.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/agent_channel.h"

struct kolo_children;

/** Checks that the directory and the program exist, and assigns processors and devices to the
 * ranks. On failure *exit_status_out is kolorun's exit status: 126 or 127, or 2 if there are too
 * few processors or devices. */
kolo_status kolo_children_prepare(uv_loop_t *loop, struct kolo_agent_channel *channel,
                                  const struct kolo_spec *spec, struct kolo_children **children_out,
                                  int *exit_status_out) KOLO_NODISCARD;
/** Starts all ranks, and reports each when its program has been executed. If one cannot be started,
 * calls @p failed, once, with the reason in the detail; it must end those that are there. */
void kolo_children_start(struct kolo_children *children, void (*failed)(void *context),
                         void *context);
/** Process @p pid has ended with @p wait_status: reports it if it was a rank. */
void kolo_children_reaped(struct kolo_children *children, pid_t pid, int wait_status,
                          const struct rusage *usage);
/** Sends a signal to the process groups of the running ranks. */
void kolo_children_signal(struct kolo_children *children, int number);
/** Passes standard input on to rank 0; 0 bytes: its end. Fails if there is no memory for them. */
kolo_status kolo_children_input(struct kolo_children *children, const void *data,
                                size_t bytes) KOLO_NODISCARD;
/** Allows @p bytes more bytes of output to be sent. */
void kolo_children_credit(struct kolo_children *children, size_t bytes);
/** Nobody reads any more: output is discarded from now on. */
void kolo_children_mute(struct kolo_children *children);
/** Sends the next piece of the ranks' timelines, after all ranks have ended. Returns false if there
 * is nothing left. */
bool kolo_children_send_records(struct kolo_children *children);
/** Writes for each rank of the host, in the order of the job's description, its process; 0: none
 * yet, or it has ended. */
void kolo_children_pids(const struct kolo_children *children, pid_t *pids_out);
int kolo_children_running(const struct kolo_children *children);
/** Returns the number of streams whose end has not been sent yet. *idle_ms_out: the time since
 * anything arrived, 0 while something waits for credit. */
int kolo_children_streams(const struct kolo_children *children, int64_t *idle_ms_out);
/** Closes all handles; kolo_children_destroy, after the loop has run, frees the memory. */
void kolo_children_close(struct kolo_children *children);
void kolo_children_destroy(struct kolo_children *children);

#endif
