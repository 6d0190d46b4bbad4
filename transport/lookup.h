// SPDX-License-Identifier: Apache-2.0
// The addresses of a host name, by a deadline.
#ifndef KOLO_TRANSPORT_LOOKUP_H
#define KOLO_TRANSPORT_LOOKUP_H

#include <netdb.h>

#include "base/clock.h"
#include "base/status.h"

/** The stream addresses of @p host (a name, or an address as text) at @p port (a number as text).
 *  An address is never looked up, and nothing is waited for; a name is not looked up either if
 *  @p deadline has passed.
 *  @param found_out what freeaddrinfo takes; NULL unless KOLO_OK.
 *  @return KOLO_OK; ERR_CONNECT: there is none, or no answer by the deadline; ERR_NO_MEMORY or
 *  ERR_SYSTEM: it could not be asked for. The detail names the host. Threads: any. */
kolo_status kolo_lookup(const char *host, const char *port, kolo_deadline deadline,
                        struct addrinfo **found_out) KOLO_NODISCARD;

#endif
