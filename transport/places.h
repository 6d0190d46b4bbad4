// SPDX-License-Identifier: Apache-2.0
// A place is a socket address (IPv4, IPv6 or Unix) at which somebody listens, with what is known of
// the interface that leads there. What sockaddr_in and sockaddr_in6 have in them is read and
// written here alone.
#ifndef KOLO_TRANSPORT_PLACES_H
#define KOLO_TRANSPORT_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/status.h"
#include "transport/ports.h"

/** One place to connect to, or to listen at. */
struct kolo_place {
    struct sockaddr_storage addr;
    socklen_t bytes;
    struct kolo_ports ports; /* to listen at port 0: at one of these */
    struct kolo_place_facts {
        uint8_t entry;       /* of KOLO_NET that allows it; 0 is the preferred one */
        bool is_hardware;    /* a card, a bond or a VLAN: no bridge, tunnel or veth */
        uint32_t speed_mbit; /* 0: unknown */
        char interface[16];  /* of this machine; "" for another's place */
        int numa_node;       /* of the interface (its number in /sys); -1: unknown, or another's */
    } facts;
};
/** "10.0.0.5:4711", "[::1]:80", "unix:@name": for messages. */
void kolo_place_format(const struct kolo_place *place, char *text, size_t capacity);
/** The address @p ip (4 or 16 bytes in network order; NULL: any address of this machine) of
 * @p family AF_INET or AF_INET6 at @p port (0: not chosen yet). */
struct kolo_place kolo_place_make(sa_family_t family, const void *ip, uint16_t port);
/** IPv4 or IPv6: it has an address and a port in the sense of the next five. */
bool kolo_place_is_ip(const struct kolo_place *place);
/** The address in network order, 4 or 16 bytes; NULL and 0: it is none of IP. */
const uint8_t *kolo_place_ip(const struct kolo_place *place, size_t *bytes_out);
/** 0 also where it is none of IP; nothing is set then. */
uint16_t kolo_place_port(const struct kolo_place *place);
void kolo_place_set_port(struct kolo_place *place, uint16_t port);
bool kolo_place_is_loopback(const struct kolo_place *place);
/** The same address of IP, whatever the ports. */
bool kolo_place_is_same_ip(const struct kolo_place *one, const struct kolo_place *other);
/** "HOST:PORT[,HOST:PORT...]" (names resolved, IPv4 and IPv6) to at most @p max places. ERR_CONNECT
 * naming the host. */
kolo_status kolo_places_resolve(const char *text, struct kolo_place *places_out, size_t max,
                                size_t *count_out) KOLO_NODISCARD;

/* ---- places_local.c ---- */

/** The addresses of this machine that others may reach at @p port, best first: `net` is the setting
 * KOLO_NET. Loopback comes last and only as long as nothing else is up, or when net names it. */
kolo_status kolo_places_local(const char *net, uint16_t port, struct kolo_place *places_out,
                              size_t max, size_t *count_out) KOLO_NODISCARD;
/** How many those are in all, if one beyond the first @p count may be the only one that others
 * reach; 0: there are no more, or the more are bridges and tunnels, and hardware is among the
 * first. */
size_t kolo_places_missed(const char *net, const struct kolo_place *places, size_t count);
/** The number of the entry of `net` that allows an address of this machine, whether or not it is
 * up: 0 is the preferred one; -1: it is left out. @p place's port means nothing. */
int kolo_places_entry(const char *net, const char *interface, const struct kolo_place *place);
/** The entries of `net` that want something and name nothing of this machine, with commas between,
 * cut to @p capacity; "": none, or `net` cannot be read. They may be another host's, or misspelt.
 */
void kolo_places_unnamed(const char *net, char *text, size_t capacity);

#endif
