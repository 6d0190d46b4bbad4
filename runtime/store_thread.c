// SPDX-License-Identifier: Apache-2.0
// Owns the thread that serves the store if there is no launcher. The server and its poller belong
// to that thread from its start to its end; under the lock, other threads leave descriptors for it
// to adopt and ask it to stop, and then wake it.
//
// If the poller fails (a program may have closed its descriptor), nothing that a rank sends would
// be noticed. So the thread then tells the ranks, ends the server, and ends itself.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/thread.h"
#include "runtime/store.h"

enum { PORT_TRIES = 16 };

struct kolo_store_thread {
    pthread_t thread;
    struct kolo_poller *poller;
    struct kolo_store_server *server;
    pthread_mutex_t lock; /* guards the members below */
    int *adopt;           /* descriptors for the server */
    size_t adopt_count, adopt_capacity;
    bool is_stopping;
    kolo_deadline stop_by;
    char failure[KOLO_DETAIL_MAX]; /* why the thread has ended the server; "": it has not */
};

/** Takes what other threads have left. False: it is time to end. */
static bool take_wishes(struct kolo_store_thread *thread, kolo_deadline *stop_by_out)
{
    pthread_mutex_lock(&thread->lock);
    for (size_t i = 0; i < thread->adopt_count; i++)
        if (kolo_store_server_adopt(thread->server, thread->adopt[i]) != KOLO_OK)
            KOLO_WARN("store: cannot serve a connection: %s", kolo_error_detail());
    thread->adopt_count = 0;
    bool is_stopping = thread->is_stopping;
    *stop_by_out = is_stopping ? thread->stop_by : KOLO_NEVER;
    pthread_mutex_unlock(&thread->lock);
    return !is_stopping ||
           (kolo_store_server_connected(thread->server) > 0 && !kolo_deadline_passed(*stop_by_out));
}

/** The poller has failed; the detail says why. */
static void end_store(struct kolo_store_thread *thread)
{
    char text[KOLO_STORE_TEXT_MAX];
    pthread_mutex_lock(&thread->lock);
    snprintf(thread->failure, sizeof thread->failure, "%s", kolo_error_detail());
    for (size_t i = 0; i < thread->adopt_count; i++)
        close(thread->adopt[i]);
    thread->adopt_count = 0;
    pthread_mutex_unlock(&thread->lock);
    snprintf(text, sizeof text, "the job's store has failed: %s", kolo_error_detail());
    KOLO_WARN("store: %s", text);
    kolo_store_server_abort(thread->server, KOLO_ERR_SYSTEM, text);
    kolo_store_server_destroy(thread->server);
    thread->server = NULL;
}

static void *serve(void *argument)
{
    struct kolo_store_thread *thread = argument;
    kolo_deadline stop_by, next = KOLO_NEVER;
    /* checked after each dispatch, in which the last rank may have left */
    while (take_wishes(thread, &stop_by)) {
        kolo_poller_sleep(thread->poller, kolo_deadline_min(next, stop_by));
        if (kolo_poller_dispatch(thread->poller, NULL) != KOLO_OK) {
            end_store(thread);
            break;
        }
        next = kolo_store_server_expire(thread->server);
    }
    return NULL;
}

/** Listens at all places. Those with an open port get the port of the first. */
static kolo_status listen_all(struct kolo_store_server *server, const struct kolo_place *places,
                              size_t count, uint16_t *port_out)
{
    uint16_t port = 0;
    for (size_t i = 0; i < count; i++) {
        struct kolo_place at = places[i];
        if (kolo_place_port(&at) == 0)
            kolo_place_set_port(&at, port);
        kolo_status status = kolo_store_server_listen(server, &at, &port);
        if (status != KOLO_OK)
            return status == KOLO_ERR_SYSTEM ? KOLO_ERR_CONNECT : status;
    }
    *port_out = port;
    return KOLO_OK;
}

/** Makes the server. A port that is free at the first place may be in use at another; then all
 * places try another port. */
static kolo_status make_server(struct kolo_store_thread *thread,
                               const struct kolo_store_server_config *config,
                               const struct kolo_place *places, size_t count, uint16_t *port_out)
{
    kolo_status status = KOLO_OK;
    for (int i = 0; i < PORT_TRIES; i++) {
        status = kolo_store_server_create(thread->poller, config, &thread->server);
        if (status != KOLO_OK)
            return status;
        status = listen_all(thread->server, places, count, port_out);
        if (status == KOLO_OK || count < 2)
            return status;
        kolo_store_server_destroy(thread->server);
        thread->server = NULL;
    }
    return status;
}

static void free_thread(struct kolo_store_thread *thread)
{
    for (size_t i = 0; i < thread->adopt_count; i++)
        close(thread->adopt[i]);
    kolo_free_memory(thread->adopt);
    kolo_store_server_destroy(thread->server);
    kolo_poller_destroy(thread->poller);
    pthread_mutex_destroy(&thread->lock);
    kolo_free_memory(thread);
}

static kolo_status start(struct kolo_store_thread *thread)
{
    int error = kolo_thread_start(&thread->thread, NULL, serve, thread);
    if (error)
        return kolo_fail_start(error, "store: cannot start a thread");
    return KOLO_OK;
}

kolo_status kolo_store_thread_start(const struct kolo_store_server_config *config,
                                    const struct kolo_place *places, size_t count,
                                    uint16_t *port_out, struct kolo_store_thread **thread_out)
{
    kolo_status status;
    uint16_t port = 0;
    struct kolo_store_thread *thread = kolo_calloc(1, sizeof *thread);
    if (!thread)
        return KOLO_ERR_NO_MEMORY;
    pthread_mutex_init(&thread->lock, NULL);
    KOLO_TRY(kolo_poller_create(&thread->poller));
    KOLO_TRY(make_server(thread, config, places, count, &port));
    KOLO_TRY(start(thread));
    if (port_out)
        *port_out = port;
    *thread_out = thread;
    return KOLO_OK;
out:
    free_thread(thread);
    return status;
}

/** Leaves @p fd for the server to adopt. */
static kolo_status leave_fd(struct kolo_store_thread *thread, int fd)
{
    kolo_status status;
    pthread_mutex_lock(&thread->lock);
    void *adopt = thread->adopt;
    if (thread->failure[0] != '\0')
        status = kolo_fail(KOLO_ERR_SYSTEM, "the job's store has failed: %s", thread->failure);
    else
        status = kolo_grow(&adopt, &thread->adopt_capacity, thread->adopt_count + 1, sizeof(int));
    thread->adopt = adopt;
    if (status == KOLO_OK)
        thread->adopt[thread->adopt_count++] = fd;
    pthread_mutex_unlock(&thread->lock);
    return status;
}

kolo_status kolo_store_thread_pair(struct kolo_store_thread *thread, int *fd_out)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "store: cannot make a socket pair");
    kolo_status status = KOLO_OK;
    for (int i = 0; i < 2; i++)
        if ((pair[i] = kolo_descriptor_keep(pair[i])) < 0)
            status = kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "store: cannot keep a socket");
    if (status == KOLO_OK)
        status = leave_fd(thread, pair[0]);
    if (status != KOLO_OK) {
        close(pair[0]);
        close(pair[1]);
        return status;
    }
    kolo_poller_wake(thread->poller);
    *fd_out = pair[1];
    return KOLO_OK;
}

void kolo_store_thread_stop(struct kolo_store_thread *thread, kolo_deadline deadline)
{
    if (!thread)
        return;
    pthread_mutex_lock(&thread->lock);
    thread->is_stopping = true;
    thread->stop_by = deadline;
    pthread_mutex_unlock(&thread->lock);
    kolo_poller_wake(thread->poller);
    pthread_join(thread->thread, NULL);
    free_thread(thread);
}
