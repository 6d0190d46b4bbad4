// SPDX-License-Identifier: Apache-2.0
// See fake_names.h. The definitions here come before those of the C library, which dlsym finds.
#include "tests/support/fake_names.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answers = PTHREAD_COND_INITIALIZER;
static bool is_answering; /* guarded by the lock */
static atomic_int asked, given, unfreed;

void fake_names_answer(void)
{
    (void)pthread_mutex_lock(&lock);
    is_answering = true;
    (void)pthread_cond_broadcast(&answers);
    (void)pthread_mutex_unlock(&lock);
}

int fake_names_asked(void)
{
    return atomic_load(&asked);
}

int fake_names_given(void)
{
    return atomic_load(&given);
}

int fake_names_unfreed(void)
{
    return atomic_load(&unfreed);
}

static void wait_for_answer(void)
{
    atomic_fetch_add(&asked, 1);
    (void)pthread_mutex_lock(&lock);
    while (!is_answering)
        (void)pthread_cond_wait(&answers, &lock);
    (void)pthread_mutex_unlock(&lock);
}

/** The C library's; by memcpy, because ISO C has no cast from an object to a function. */
static void find_next(const char *name, void *function_out, size_t bytes)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function_out, &found, bytes);
}

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found_out)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    find_next("getaddrinfo", &next, sizeof next);
    if ((hints->ai_flags & AI_NUMERICHOST) == 0) {
        errno = EPERM;
        if (strcmp(host, "missing.example") == 0)
            return EAI_NONAME;
        if (strcmp(host, "full.example") == 0)
            return EAI_MEMORY;
        if (strcmp(host, "broken.example") == 0)
            return EAI_SYSTEM;
        if (strcmp(host, "quick.example") == 0)
            host = "10.0.0.9";
        if (strcmp(host, "silent.example") == 0) {
            wait_for_answer();
            host = "10.0.0.8";
        }
    }
    const int error = next(host, port, hints, found_out);
    if (error == 0) {
        atomic_fetch_add(&unfreed, 1);
        atomic_fetch_add(&given, 1);
    }
    return error;
}

void freeaddrinfo(struct addrinfo *found)
{
    void (*next)(struct addrinfo *);
    find_next("freeaddrinfo", &next, sizeof next);
    next(found);
    atomic_fetch_sub(&unfreed, 1);
}
