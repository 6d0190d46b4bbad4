// SPDX-License-Identifier: Apache-2.0
// Ctrl-Z: the whole job stops with kolorun, and continues with it.
//
//   OFF --allow--> READY --SIGTSTP--> ASKING
//   ASKING --all hosts answered, or a second--> (stopped) --SIGCONT--> READY
//   ASKING --SIGCONT--> READY
//   any --forbid--> OFF
//
// Hosts stop the process groups of their ranks, and from then on neither expect nor send a
// heartbeat; if kolorun dies, they still notice the end of their channel. kolorun stops itself only
// after that. A SIGTSTP while OFF is remembered.
#ifndef KOLO_LAUNCHER_PAUSE_H
#define KOLO_LAUNCHER_PAUSE_H

#include <uv.h>

#include "launcher/remote.h"

enum kolo_pause_state { KOLO_PAUSE_OFF, KOLO_PAUSE_READY, KOLO_PAUSE_ASKING };

struct kolo_pause {
    uv_signal_t stop, go_on;
    uv_timer_t timer;
    struct kolo_remote *remotes;
    size_t count, missing; /* missing: number of answers still to come */
    uint32_t round;        /* answers to an earlier round do not count */
    enum kolo_pause_state state;
    bool is_wanted;
    void (*changed)(void *context, bool is_pausing);
    void *context;
};

/** Watches the signals, unless SIGTSTP is ignored (kolorun was started without job control). The
 * handles are closed with the loop. @p changed is called before the hosts are told to stop their
 * ranks, and after they are told to let them go on. */
void kolo_pause_init(struct kolo_pause *pause, uv_loop_t *loop, struct kolo_remote *remotes,
                     size_t count, void (*changed)(void *context, bool is_pausing), void *context);
/** The ranks have been started: from now on the job can be stopped. */
void kolo_pause_allow(struct kolo_pause *pause);
/** @p remote has stopped its ranks. */
void kolo_pause_answered(struct kolo_pause *pause, struct kolo_remote *remote, uint32_t round);
/** The job is about to end: ranks that were stopped continue, and later SIGTSTPs have no effect. */
void kolo_pause_forbid(struct kolo_pause *pause);

#endif
