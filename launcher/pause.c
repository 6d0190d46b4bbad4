// SPDX-License-Identifier: Apache-2.0
// Stops this process by SIGSTOP inside a callback of the loop: raise() returns after SIGCONT, and
// nothing of the loop has run in between.
#include <signal.h>

#include "launcher/pause.h"

enum { ANSWER_MS = 1000 }; /* a host that does not answer must not keep the user waiting */

static void send_all(struct kolo_pause *pause, enum kolo_frame_type type)
{
    for (size_t i = 0; i < pause->count; i++) {
        if (pause->remotes[i].state != KOLO_REMOTE_RUNNING)
            continue;
        kolo_agent_channel_send_u32(&pause->remotes[i].channel, type, pause->round);
        pause->missing++;
    }
}

/* Every deadline of silence starts again. */
static void go_on(struct kolo_pause *pause)
{
    pause->state = KOLO_PAUSE_READY;
    (void)uv_timer_stop(&pause->timer);
    uv_update_time(pause->timer.loop);
    send_all(pause, KOLO_FRAME_RESUME);
    for (size_t i = 0; i < pause->count; i++)
        kolo_agent_channel_resume(&pause->remotes[i].channel);
    pause->changed(pause->context, false);
}

static void stop_here(struct kolo_pause *pause)
{
    (void)raise(SIGSTOP);
    go_on(pause);
}

static void on_no_answer(uv_timer_t *timer)
{
    stop_here(timer->data);
}

static void ask(struct kolo_pause *pause)
{
    pause->state = KOLO_PAUSE_ASKING;
    pause->is_wanted = false;
    pause->round++;
    pause->missing = 0;
    pause->changed(pause->context, true);
    send_all(pause, KOLO_FRAME_PAUSE);
    (void)uv_timer_start(&pause->timer, on_no_answer, pause->missing > 0 ? ANSWER_MS : 0, 0);
}

static void on_stop(uv_signal_t *handle, int number)
{
    (void)number;
    struct kolo_pause *pause = handle->data;
    if (pause->state == KOLO_PAUSE_OFF)
        pause->is_wanted = true;
    else if (pause->state == KOLO_PAUSE_READY)
        ask(pause);
}

/* Continued before it was stopped. */
static void on_go_on(uv_signal_t *handle, int number)
{
    (void)number;
    struct kolo_pause *pause = handle->data;
    pause->is_wanted = false;
    if (pause->state == KOLO_PAUSE_ASKING)
        go_on(pause);
}

void kolo_pause_init(struct kolo_pause *pause, uv_loop_t *loop, struct kolo_remote *remotes,
                     size_t count, void (*changed)(void *context, bool is_pausing), void *context)
{
    struct sigaction now;
    *pause = (struct kolo_pause){
        .remotes = remotes, .count = count, .changed = changed, .context = context};
    (void)uv_timer_init(loop, &pause->timer);
    (void)uv_signal_init(loop, &pause->stop);
    (void)uv_signal_init(loop, &pause->go_on);
    pause->timer.data = pause->stop.data = pause->go_on.data = pause;
    if (sigaction(SIGTSTP, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
        return;
    (void)uv_signal_start(&pause->stop, on_stop, SIGTSTP);
    (void)uv_signal_start(&pause->go_on, on_go_on, SIGCONT);
}

void kolo_pause_allow(struct kolo_pause *pause)
{
    pause->state = KOLO_PAUSE_READY;
    if (pause->is_wanted)
        ask(pause);
}

void kolo_pause_answered(struct kolo_pause *pause, struct kolo_remote *remote, uint32_t round)
{
    if (pause->state != KOLO_PAUSE_ASKING || round != pause->round || pause->missing == 0)
        return;
    kolo_agent_channel_rest(&remote->channel);
    if (--pause->missing == 0)
        stop_here(pause);
}

void kolo_pause_forbid(struct kolo_pause *pause)
{
    if (pause->state == KOLO_PAUSE_ASKING)
        go_on(pause);
    pause->state = KOLO_PAUSE_OFF;
}
