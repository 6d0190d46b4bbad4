// SPDX-License-Identifier: Apache-2.0
// A thread beside kolorun's loop, for calls on a descriptor that may block for ever. What the call
// works on is in the memory of the thread's owner, guarded by the lock of this file.
//
// When the loop ends, the thread may be stuck in a call. It is left behind then, and whenever the
// call returns, it must not use the loop, which is gone, nor what the loop has freed: it wakes the
// loop only while that has not closed it, and the last of the two frees the memory.
#ifndef KOLO_LAUNCHER_SIDE_THREAD_H
#define KOLO_LAUNCHER_SIDE_THREAD_H

#include <stdbool.h>
#include <uv.h>

#include "base/status.h"

/** What a thread does, again and again. @p owner is what was given to kolo_side_start. */
struct kolo_side_calls {
    /** Whether there is something to do now. Held: the lock. */
    bool (*can)(void *owner);
    /** Takes what is to be done. Held: the lock. */
    void (*take)(void *owner);
    /** Does it, and may block. Not held: the lock. Must not use what the loop may change. */
    void (*work)(void *owner);
    /** Keeps what came of it for the loop. Held: the lock. */
    void (*give)(void *owner);
    /** Called on the loop after `give`, possibly once for several. Not held: the lock. */
    void (*heard)(void *owner);
    /** Frees the owner. Called on the loop or on the thread, by the last of the two. */
    void (*free)(void *owner);
};

struct kolo_side_thread {
    uv_async_t wake;
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t more;
    const struct kolo_side_calls *calls;
    void *owner;
    bool is_closed, is_working, has_left, is_dropped; /* guarded by the lock */
};

/** Starts a thread for @p what, which only an error names (ERR_SYSTEM). After that nothing is left
 * of it, and the owner is not freed. */
kolo_status kolo_side_start(struct kolo_side_thread *side, uv_loop_t *loop,
                            const struct kolo_side_calls *calls, void *owner,
                            const char *what) KOLO_NODISCARD;
void kolo_side_lock(struct kolo_side_thread *side);
/** Also makes the thread look whether there is something to do. */
void kolo_side_unlock(struct kolo_side_thread *side);
/** Whether the thread is between `take` and `give`. Held: the lock. */
bool kolo_side_is_working(const struct kolo_side_thread *side);
/** Ends the thread, or leaves it behind if it is at work. `heard` is not called afterwards. */
void kolo_side_close(struct kolo_side_thread *side);
/** To be called once, after kolo_side_close, when the loop has run: the owner is freed now, or when
 * a thread that was left behind returns. */
void kolo_side_drop(struct kolo_side_thread *side);

#endif
