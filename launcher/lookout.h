// SPDX-License-Identifier: Apache-2.0
// An agent's look at its ranks when kolorun asks what they do (LOOK): answers with SEEN for each
// rank, and LOOKED.
#ifndef KOLO_LAUNCHER_LOOKOUT_H
#define KOLO_LAUNCHER_LOOKOUT_H

#include <sys/types.h>
#include <uv.h>

#include "launcher/agent_channel.h"

/** A rank to look at: its process, and the one as which it joined the job (0: not known). */
struct kolo_lookout_target {
    uint32_t rank;
    pid_t child, said;
};

struct kolo_lookout;

/** ERR_NO_MEMORY, ERR_SYSTEM. */
kolo_status kolo_lookout_create(uv_loop_t *loop, struct kolo_agent_channel *channel,
                                struct kolo_lookout **lookout_out) KOLO_NODISCARD;
/** Looks at @p count ranks (copied), and answers. An earlier request that is not answered yet may
 * never be. ERR_NO_MEMORY. */
kolo_status kolo_lookout_ask(struct kolo_lookout *lookout, uint32_t round,
                             const struct kolo_lookout_target *targets,
                             size_t count) KOLO_NODISCARD;
/** Ends the thread, or leaves it behind. NULL is allowed, as below. */
void kolo_lookout_close(struct kolo_lookout *lookout);
/** To be called after the loop has run. */
void kolo_lookout_destroy(struct kolo_lookout *lookout);

#endif
