// SPDX-License-Identifier: Apache-2.0
// Ctrl-Z: the whole job pauses with kolorun, and goes on with it.
//
//   OFF --allow--> READY --SIGTSTP--> ASKING --all hosts answered, or a second--> (stopped)
//   --SIGCONT--> READY
//                                       `--cancel, SIGCONT--> READY
//
// Hosts stop their ranks' process groups and from then on expect no heartbeat, nor send one; that
// kolorun died they still see by the end of their channel. Only then kolorun stops itself. A
// SIGTSTP while OFF is remembered.
#ifndef KOLO_LAUNCHER_PAUSE_H
#define KOLO_LAUNCHER_PAUSE_H

#include <uv.h>

#include "launcher/remote.h"

enum kolo_pause_state { KOLO_PAUSE_OFF, KOLO_PAUSE_READY, KOLO_PAUSE_ASKING };

struct kolo_pause {
    uv_signal_t stop, go_on;
    uv_timer_t timer;
    struct kolo_remote *remotes;
    size_t count, missing; /* missing: answers */
    uint32_t round;        /* an answer to an earlier one does not count */
    enum kolo_pause_state state;
    bool is_wanted;
};

/** Watches the signals, unless SIGTSTP is ignored (kolorun was started without job control). The
 * handles are closed with the loop. */
void kolo_pause_init(struct kolo_pause *pause, uv_loop_t *loop, struct kolo_remote *remotes,
                     size_t count);
/** The ranks were started: from here on the job can pause. */
void kolo_pause_allow(struct kolo_pause *pause);
/** @p remote has stopped its ranks. */
void kolo_pause_answered(struct kolo_pause *pause, struct kolo_remote *remote, uint32_t round);
/** The job is about to end: what was stopped goes on, and later SIGTSTPs do nothing. */
void kolo_pause_forbid(struct kolo_pause *pause);

#endif
