// SPDX-License-Identifier: Apache-2.0
// The agent's side of an examination: starts the examiner (examine.h) in the environment of the
// ranks, and passes bytes on between it and kolorun: EXAMINE frames to its standard input, what it
// says as FACTS.
#ifndef KOLO_LAUNCHER_RELAY_H
#define KOLO_LAUNCHER_RELAY_H

#include <uv.h>

#include "launcher/channel.h"

struct kolo_relay;

/** @p channel outlives it. The process is the agent's child, to be reaped and killed like any. */
kolo_status kolo_relay_start(uv_loop_t *loop, struct kolo_channel *channel,
                             const struct kolo_spec *spec,
                             struct kolo_relay **relay_out) KOLO_NODISCARD;
void kolo_relay_tell(struct kolo_relay *relay, const void *data, size_t bytes);
/** Closes the handles; the memory is freed by kolo_relay_destroy after the loop ran. */
void kolo_relay_close(struct kolo_relay *relay);
void kolo_relay_destroy(struct kolo_relay *relay);

#endif
