// SPDX-License-Identifier: Apache-2.0
// Looks up the addresses of a host by a deadline, which getaddrinfo does not take: it waits for
// name servers, and for other sources of names, as long as the system is configured to.
//
// So a name is looked up by an errand (base/errand.h), which is left behind if the deadline passes.
#include "transport/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/errand.h"

struct lookup {
    int error, system_error; /* what getaddrinfo returned, and errno */
    struct addrinfo *found;
    const char *host, *port; /* in the text below */
    char text[];
};

static const struct addrinfo stream = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

static void ask(void *memory)
{
    struct lookup *lookup = memory;
    struct addrinfo *found = NULL;
    lookup->error = getaddrinfo(lookup->host, lookup->port, &stream, &found);
    lookup->system_error = errno;
    lookup->found = lookup->error == 0 ? found : NULL;
}

static void discard(void *memory)
{
    struct lookup *lookup = memory;
    if (lookup->found)
        freeaddrinfo(lookup->found);
}

static struct lookup *create(const char *host, const char *port)
{
    const size_t host_bytes = strlen(host) + 1, port_bytes = strlen(port) + 1;
    struct lookup *lookup = kolo_errand_create(sizeof *lookup + host_bytes + port_bytes);
    if (!lookup)
        return NULL;
    lookup->host = memcpy(lookup->text, host, host_bytes);
    lookup->port = memcpy(lookup->text + host_bytes, port, port_bytes);
    return lookup;
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
    static const struct kolo_errand errand = {ask, discard};
    struct addrinfo address = stream;
    *found_out = NULL;
    address.ai_flags |= AI_NUMERICHOST;
    int error = getaddrinfo(host, port, &address, found_out);
    if (error != EAI_NONAME)
        return judge(host, error, errno);
    if (kolo_deadline_passed(deadline))
        return fail_late(host);

    struct lookup *lookup = create(host, port);
    kolo_status status = KOLO_OK;
    if (!lookup)
        return KOLO_ERR_NO_MEMORY;
    error = kolo_errand_run(&errand, lookup, deadline, NULL);
    if (error == ETIMEDOUT)
        return fail_late(host);
    if (error == 0) {
        status = judge(host, lookup->error, lookup->system_error);
        *found_out = lookup->found;
    } else {
        status = kolo_fail_start(error, "cannot start a thread to resolve host \"%s\"", host);
    }
    kolo_errand_destroy(lookup);
    return status;
}
