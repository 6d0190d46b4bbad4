// SPDX-License-Identifier: Apache-2.0
// What is known of a path between two addresses, and which of several paths is the best.
#ifndef KOLO_TRANSPORT_PATH_QUALITY_H
#define KOLO_TRANSPORT_PATH_QUALITY_H

#include <stddef.h>

#include "transport/conn.h"

struct kolo_path_quality {
    int64_t rtt_us;      /* the shortest one so far */
    unsigned preference; /* position in KOLO_NET on both sides; lower is better */
    bool is_hardware;    /* whether both sides have hardware: no bridge, tunnel or veth */
    uint32_t speed_mbit; /* the lower speed of both sides; 0: neither is known */
    char interface[16];  /* on our side; "": none that KOLO_NET allows */
    bool is_near;        /* our interface and this rank are known to be on the same NUMA node */
};

/** The shortest round trip of TCP connection @p fd so far, at least 1; 0: not known. */
int64_t kolo_path_round_trip_us(int fd);
/** Measures connection @p fd to @p place. @p locals are this machine's addresses that KOLO_NET
 *  allows, @p numa_node is the node that this rank is bound in, or -1. */
void kolo_path_quality_measure(int fd, const struct kolo_place *place,
                               const struct kolo_place *locals, size_t local_count, int numa_node,
                               struct kolo_path_quality *quality_out);
/** Index of the best path; @p count must be at least 1. If interfaces are equal in everything but
 *  the round trip, ranks take turns among them, in the order of their names: @p turn is the rank's
 *  number on its host. */
size_t kolo_path_quality_best(const struct kolo_path_quality *paths, size_t count, unsigned turn);
/** "eth0, 25000 Mbit/s, round trip 61 us" */
void kolo_path_quality_format(const struct kolo_path_quality *quality, char *text, size_t capacity);

#endif
