// SPDX-License-Identifier: Apache-2.0
// The agent's side of an examination: starts the examiner (examine.h) in the environment of the
// ranks, and relays between it and kolorun: EXAMINE frames go to its standard input, its output
// becomes FACTS frames.
#ifndef KOLO_LAUNCHER_RELAY_H
#define KOLO_LAUNCHER_RELAY_H

#include <uv.h>

#include "launcher/agent_channel.h"

struct kolo_relay;

/** @p channel must outlive the relay. The process is a child of the agent, and is reaped and killed
 * like any other. */
kolo_status kolo_relay_start(uv_loop_t *loop, struct kolo_agent_channel *channel,
                             const struct kolo_spec *spec,
                             struct kolo_relay **relay_out) KOLO_NODISCARD;
void kolo_relay_tell(struct kolo_relay *relay, const void *data, size_t bytes);
/** Closes the handles; kolo_relay_destroy, after the loop has run, frees the memory. */
void kolo_relay_close(struct kolo_relay *relay);
void kolo_relay_destroy(struct kolo_relay *relay);

#endif
