// SPDX-License-Identifier: Apache-2.0
// Threads: thread_main and what it calls run on the thread, everything else on the loop. `lock`
// guards the flags and, by the functions in the header, what the owner shares with the thread. A
// handle of libuv may be used by one thread while another closes it only if a lock orders them,
// hence uv_async_send under the lock, and never once is_closed is set.
#include "launcher/side_thread.h"

#include <pthread.h>

static void destroy(struct kolo_side_thread *side)
{
    uv_cond_destroy(&side->more);
    uv_mutex_destroy(&side->lock);
    side->calls->free(side->owner); /* side is a part of it */
}

/* Waits until there is something to do; false: the thread must end. Held: lock. */
static bool await_work(struct kolo_side_thread *side)
{
    while (!side->is_closed && !side->calls->can(side->owner))
        uv_cond_wait(&side->more, &side->lock);
    return !side->is_closed;
}

static void thread_main(void *context)
{
    struct kolo_side_thread *side = context;
    uv_mutex_lock(&side->lock);
    while (await_work(side)) {
        side->calls->take(side->owner);
        side->is_working = true;
        uv_mutex_unlock(&side->lock);
        side->calls->work(side->owner);
        uv_mutex_lock(&side->lock);
        side->is_working = false;
        side->calls->give(side->owner);
        if (!side->is_closed)
            (void)uv_async_send(&side->wake);
    }
    side->has_left = true;
    const bool is_last = side->is_dropped;
    uv_mutex_unlock(&side->lock);
    if (is_last)
        destroy(side);
}

static void on_wake(uv_async_t *wake)
{
    struct kolo_side_thread *side = wake->data;
    side->calls->heard(side->owner);
}

/* The thread waits for the lock until its handle is there. In this order no handle has to be closed
 * after a failure, for which the loop would have to run. */
static int start_both(struct kolo_side_thread *side, uv_loop_t *loop)
{
    uv_mutex_lock(&side->lock);
    int error = uv_thread_create(&side->thread, thread_main, side);
    const bool has_thread = error == 0;
    if (has_thread)
        error = uv_async_init(loop, &side->wake, on_wake);
    side->wake.data = side;
    side->is_closed = error != 0;
    uv_mutex_unlock(&side->lock);
    if (has_thread && error != 0)
        (void)uv_thread_join(&side->thread);
    return error;
}

kolo_status kolo_side_start(struct kolo_side_thread *side, uv_loop_t *loop,
                            const struct kolo_side_calls *calls, void *owner, const char *what)
{
    *side = (struct kolo_side_thread){.calls = calls, .owner = owner};
    int error = uv_mutex_init(&side->lock);
    if (error != 0)
        goto no_lock;
    error = uv_cond_init(&side->more);
    if (error != 0)
        goto no_cond;
    error = start_both(side, loop);
    if (error == 0)
        return KOLO_OK;
    uv_cond_destroy(&side->more);
no_cond:
    uv_mutex_destroy(&side->lock);
no_lock:
    return kolo_fail_start(-error, "cannot start a thread for %s", what); /* libuv's are negated */
}

void kolo_side_lock(struct kolo_side_thread *side)
{
    uv_mutex_lock(&side->lock);
}

void kolo_side_unlock(struct kolo_side_thread *side)
{
    uv_cond_signal(&side->more);
    uv_mutex_unlock(&side->lock);
}

bool kolo_side_is_working(const struct kolo_side_thread *side)
{
    return side->is_working;
}

void kolo_side_close(struct kolo_side_thread *side)
{
    uv_mutex_lock(&side->lock);
    side->is_closed = true;
    const bool is_stuck = side->is_working;
    uv_cond_signal(&side->more);
    uv_mutex_unlock(&side->lock);
    if (is_stuck)
        (void)pthread_detach(side->thread); /* perhaps it ends only with the process */
    else
        (void)uv_thread_join(&side->thread);
    uv_close((uv_handle_t *)&side->wake, NULL);
}

void kolo_side_drop(struct kolo_side_thread *side)
{
    uv_mutex_lock(&side->lock);
    side->is_dropped = true;
    const bool is_last = side->has_left;
    uv_mutex_unlock(&side->lock);
    if (is_last)
        destroy(side);
}
