// SPDX-License-Identifier: Apache-2.0
// A place is a socket address (IPv4, IPv6 or Unix) at which somebody listens, together with what is
// known of the interface that leads there. The fields of a place's sockaddr_in or sockaddr_in6 are
// read and written only in places.c.
#ifndef KOLO_TRANSPORT_PLACES_H
#define KOLO_TRANSPORT_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport/ports.h"

/** One place to connect to, or to listen at. */
struct kolo_place {
    struct sockaddr_storage addr;
    socklen_t bytes;
    struct kolo_ports ports; /* for listening at port 0: choose one of these */
    struct kolo_place_facts {
        uint8_t entry;       /* the entry of KOLO_NET that allows it; 0 is the preferred one */
        bool is_hardware;    /* a card, a bond or a VLAN; not a bridge, tunnel or veth */
        uint32_t speed_mbit; /* 0: unknown */
        char interface[16];  /* on this machine; "": a place of another machine */
        int numa_node;       /* of the interface (its number in /sys); -1: unknown, or not of this
                              * machine */
    } facts;
};
enum { KOLO_PLACE_TEXT_MAX = 128 }; /* the longest are names of Unix sockets */
/** Formats a place for messages: "10.0.0.5:4711", "[::1]:80", "unix:@name". */
void kolo_place_format(const struct kolo_place *place, char *text, size_t capacity);
/** A place with address @p ip (4 or 16 bytes in network order; NULL: any address of this machine)
 *  of @p family AF_INET or AF_INET6, at @p port (0: not chosen yet). */
struct kolo_place kolo_place_make(sa_family_t family, const void *ip, uint16_t port);
/** Whether it is IPv4 or IPv6, so that it has an address and a port for the next five functions. */
bool kolo_place_is_ip(const struct kolo_place *place);
/** The address in network order, 4 or 16 bytes; NULL and 0 if it is not an IP address. */
const uint8_t *kolo_place_ip(const struct kolo_place *place, size_t *bytes_out);
/** Read and set the port. Without an IP address, the port is 0, and setting does nothing. */
uint16_t kolo_place_port(const struct kolo_place *place);
void kolo_place_set_port(struct kolo_place *place, uint16_t port);
bool kolo_place_is_loopback(const struct kolo_place *place);
/** Whether both have the same IP address; ports are ignored. */
bool kolo_place_is_same_ip(const struct kolo_place *one, const struct kolo_place *other);
/** Resolves "HOST:PORT[,HOST:PORT...]" (names, IPv4 and IPv6) to at most @p max places. Addresses
 *  are resolved at once. Of the time until @p deadline each name has an equal share, and what those
 *  before it left; if the deadline has passed, only addresses are resolved. It is an error if
 *  nothing is found: ERR_CONFIG (not of this form), or that of the last failure, which names the
 *  host: ERR_CONNECT, ERR_NO_MEMORY or ERR_SYSTEM. */
kolo_status kolo_places_resolve(const char *text, kolo_deadline deadline,
                                struct kolo_place *places_out, size_t max,
                                size_t *count_out) KOLO_NODISCARD;

/* ---- places_local.c ---- */

/** Whether every entry of `net` (KOLO_NET) is a name or a network, wherever it is. ERR_CONFIG. */
kolo_status kolo_places_check(const char *net) KOLO_NODISCARD;
/** The addresses of this machine that others may reach at @p port, best first; `net` is the setting
 *  KOLO_NET. Loopback comes last, and only if nothing else is up or `net` names it. */
kolo_status kolo_places_local(const char *net, uint16_t port, struct kolo_place *places_out,
                              size_t max, size_t *count_out) KOLO_NODISCARD;
/** How many such addresses there are in total, if others may be able to reach only one that is not
 *  among the first @p count. 0: there are no more, or the further ones are bridges and tunnels
 *  while the first ones include hardware. */
size_t kolo_places_missed(const char *net, const struct kolo_place *places, size_t count);
/** The number of the entry of `net` that allows an address of this machine, whether or not it is
 *  up: 0 is the preferred one; -1: it is excluded. @p place's port is ignored. */
int kolo_places_entry(const char *net, const char *interface, const struct kolo_place *place);
/** Those entries of `net` that include something but match nothing on this machine, separated by
 *  commas and cut to @p capacity; "": there are none, or `net` cannot be parsed. They may be meant
 *  for another host, or be misspelt. */
void kolo_places_unnamed(const char *net, char *text, size_t capacity);
/** The addresses of this machine that `net` allows and the system lists, although nobody can listen
 *  there, each with the reason: "eth0 fd01::2 is in use by another host too", separated by commas
 *  and cut to @p capacity; "": there are none. They are as good as absent in all the others. */
void kolo_places_unusable(const char *net, char *text, size_t capacity);
/** Whether others than this machine can reach none of the places. */
bool kolo_places_are_loopback(const struct kolo_place *places, size_t count);
/** Whether this machine can reach itself, at 127.0.0.1 or ::1: its ranks need that, also to reach
 *  each other at its other addresses. */
bool kolo_places_loopback_works(void);

#endif
