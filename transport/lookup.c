// SPDX-License-Identifier: Apache-2.0
// Looks up the addresses of a host by a deadline, which getaddrinfo does not take: it waits for
// name servers, and for other sources of names, as long as the system is configured to.
//
// So a name is looked up on a thread of its own. If the deadline passes, the thread is left behind.
// It then must not touch anything but its lookup, which it shares with nobody any more: the last of
// the two that are done with a lookup frees it. libkolo.so stays loaded for such a thread, also
// after dlclose (-z nodelete).
#include "transport/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/condition.h"
#include "base/thread.h"

struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool is_answered, is_left; /* guarded by the lock */
    int error, system_error;   /* what getaddrinfo returned, and errno */
    struct addrinfo *found;
    const char *host, *port; /* in the text below */
    char text[];
};

static const struct addrinfo stream = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

static void destroy(struct lookup *lookup)
{
    if (lookup->found)
        freeaddrinfo(lookup->found);
    (void)pthread_cond_destroy(&lookup->answered);
    (void)pthread_mutex_destroy(&lookup->lock);
    kolo_free_memory(lookup);
}

static struct lookup *create(const char *host, const char *port)
{
    const size_t host_bytes = strlen(host) + 1, port_bytes = strlen(port) + 1;
    struct lookup *lookup = kolo_calloc(1, sizeof *lookup + host_bytes + port_bytes);
    if (!lookup)
        return NULL;
    if (pthread_mutex_init(&lookup->lock, NULL) != 0) {
        kolo_free_memory(lookup);
        return NULL;
    }
    if (kolo_condition_init(&lookup->answered) != 0) {
        (void)pthread_mutex_destroy(&lookup->lock);
        kolo_free_memory(lookup);
        return NULL;
    }
    lookup->host = memcpy(lookup->text, host, host_bytes);
    lookup->port = memcpy(lookup->text + host_bytes, port, port_bytes);
    return lookup;
}

static void *ask(void *argument)
{
    struct lookup *lookup = argument;
    struct addrinfo *found = NULL;
    const int error = getaddrinfo(lookup->host, lookup->port, &stream, &found);
    const int system_error = errno;

    (void)pthread_mutex_lock(&lookup->lock);
    lookup->error = error;
    lookup->system_error = system_error;
    lookup->found = error == 0 ? found : NULL;
    lookup->is_answered = true;
    const bool is_left = lookup->is_left;
    (void)pthread_cond_signal(&lookup->answered);
    (void)pthread_mutex_unlock(&lookup->lock);
    if (is_left)
        destroy(lookup);
    return NULL;
}

/** Starts the thread, which nobody joins. Returns 0 or an errno. */
static int start(struct lookup *lookup)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = kolo_thread_start(&thread, &attributes, ask, lookup);
    (void)pthread_attr_destroy(&attributes);
    return error;
}

/** Returns whether there is an answer. If not, the lookup is the thread's. */
static bool await(struct lookup *lookup, kolo_deadline deadline)
{
    (void)pthread_mutex_lock(&lookup->lock);
    while (!lookup->is_answered && !kolo_deadline_passed(deadline))
        (void)kolo_condition_wait(&lookup->answered, &lookup->lock, deadline);
    const bool is_answered = lookup->is_answered;
    lookup->is_left = !is_answered;
    (void)pthread_mutex_unlock(&lookup->lock);
    return is_answered;
}

static kolo_status judge(const char *host, int error, int system_error)
{
    if (error == EAI_MEMORY)
        return kolo_fail(KOLO_ERR_NO_MEMORY, "cannot resolve host \"%s\"", host);
    if (error == EAI_SYSTEM)
        return kolo_fail_errno(KOLO_ERR_CONNECT, system_error, "cannot resolve host \"%s\"", host);
    if (error != 0)
        return kolo_fail(KOLO_ERR_CONNECT, "cannot resolve host \"%s\": %s", host,
                         gai_strerror(error));
    return KOLO_OK;
}

static kolo_status fail_late(const char *host)
{
    return kolo_fail(KOLO_ERR_CONNECT,
                     "cannot resolve host \"%s\": no answer by the deadline; do the name servers "
                     "of this machine answer (getent ahosts %s)? An address needs none",
                     host, host);
}

kolo_status kolo_lookup(const char *host, const char *port, kolo_deadline deadline,
                        struct addrinfo **found_out)
{
    struct addrinfo address = stream;
    *found_out = NULL;
    address.ai_flags |= AI_NUMERICHOST;
    int error = getaddrinfo(host, port, &address, found_out);
    if (error != EAI_NONAME)
        return judge(host, error, errno);
    if (kolo_deadline_passed(deadline))
        return fail_late(host);

    struct lookup *lookup = create(host, port);
    if (!lookup)
        return KOLO_ERR_NO_MEMORY;
    error = start(lookup);
    if (error != 0) {
        destroy(lookup);
        return kolo_fail_start(error, "cannot start a thread to resolve host \"%s\"", host);
    }
    if (!await(lookup, deadline))
        return fail_late(host);
    const kolo_status status = judge(host, lookup->error, lookup->system_error);
    *found_out = lookup->found;
    lookup->found = NULL;
    destroy(lookup);
    return status;
}
