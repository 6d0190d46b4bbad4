// SPDX-License-Identifier: Apache-2.0
// Runs what may never return on a thread that its caller can leave behind. The errand's state is
// shared by the two, and freed by the last of them that is done with it. A thread that is left must
// not touch anything but that state. libkolo.so stays loaded for such a thread, also after dlclose
// (-z nodelete).
#include "base/errand.h"

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/thread.h"

struct state {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done, is_left; /* held: lock */
    struct kolo_errand errand;
    alignas(max_align_t) unsigned char memory[];
};

static struct state *state_of(void *memory)
{
    return (struct state *)(void *)((unsigned char *)memory - offsetof(struct state, memory));
}

/** Returns 0 or an errno. */
static int init_locks(struct state *state)
{
    int error = kolo_condition_init(&state->done);
    if (error != 0)
        return error;
    error = pthread_mutex_init(&state->lock, NULL);
    if (error != 0)
        (void)pthread_cond_destroy(&state->done);
    return error;
}

void *kolo_errand_create(size_t bytes)
{
    struct state *state = kolo_calloc(1, sizeof *state + bytes);
    if (!state)
        return NULL;
    const int error = init_locks(state);
    if (error == 0)
        return state->memory;
    kolo_free_memory(state);
    (void)kolo_fail_errno(KOLO_ERR_NO_MEMORY, error, "the lock of an errand");
    return NULL;
}

void kolo_errand_destroy(void *memory)
{
    if (!memory)
        return;
    struct state *state = state_of(memory);
    (void)pthread_mutex_destroy(&state->lock);
    (void)pthread_cond_destroy(&state->done);
    kolo_free_memory(state);
}

static void *thread_main(void *argument)
{
    struct state *state = argument;
    state->errand.run(state->memory);
    (void)pthread_mutex_lock(&state->lock);
    state->is_done = true;
    const bool is_left = state->is_left;
    (void)pthread_cond_signal(&state->done);
    (void)pthread_mutex_unlock(&state->lock);
    if (is_left) {
        if (state->errand.discard)
            state->errand.discard(state->memory);
        kolo_errand_destroy(state->memory);
    }
    return NULL;
}

/** Returns 0, ETIMEDOUT or ECANCELED. */
static int await(struct state *state, kolo_deadline deadline, const struct kolo_unless *unless)
{
    int error = 0;
    (void)pthread_mutex_lock(&state->lock);
    while (!state->is_done && error == 0)
        error = kolo_condition_wait_unless(&state->done, &state->lock, deadline, unless);
    state->is_left = !state->is_done;
    error = state->is_done ? 0 : error;
    (void)pthread_mutex_unlock(&state->lock);
    return error;
}

int kolo_errand_run(const struct kolo_errand *errand, void *memory, kolo_deadline deadline,
                    const struct kolo_unless *unless)
{
    struct state *state = state_of(memory);
    pthread_t thread;
    state->errand = *errand;
    int error = kolo_thread_start(&thread, NULL, thread_main, state);
    if (error != 0)
        return error;
    error = await(state, deadline, unless);
    if (error == 0)
        (void)pthread_join(thread, NULL); /* a program that counts its threads finds none more */
    else
        (void)pthread_detach(thread);
    return error;
}
