// SPDX-License-Identifier: Apache-2.0
// Host lists: who gets which ranks. Pure: reads a text or a file, asks no network.
#ifndef KOLO_LAUNCHER_HOSTS_H
#define KOLO_LAUNCHER_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { KOLO_HOST_MAX = 256, KOLO_HOSTS_MAX = 65536, KOLO_SLOTS_MAX = 1048576 };

/** One host; its ranks are first_rank ... first_rank + ranks - 1. */
struct kolo_host {
    char name[KOLO_HOST_MAX]; /* as given, also USER@HOST */
    int slots;                /* 1 where none was given */
    bool is_open;             /* no slots were given: takes as many ranks as it must */
    bool is_here;             /* this machine, no ssh */
    int first_rank, ranks;    /* by kolo_hosts_map */
};
struct kolo_hosts {
    struct kolo_host *at;
    size_t count, capacity;
    uint32_t *places; /* by a hash of the name: 1 + where in at, or 0 */
    size_t places_count;
};

/** One host more, or more slots of one that is there. ERR_INVALID: no host name, or too many. */
kolo_status kolo_hosts_add(struct kolo_hosts *hosts, const char *name, int slots,
                           bool is_open) KOLO_NODISCARD;
/** "host[:slots],[2001:db8::1]:2,user@host". A host named twice adds up. ERR_INVALID names text and
 * grammar. */
kolo_status kolo_hosts_parse(struct kolo_hosts *hosts, const char *list) KOLO_NODISCARD;
/** Lines "host[:slots]" or "host slots=N"; # begins a comment. ERR_INVALID names file and line, or
 * that it had no end within @p timeout_ms: a pipe may be the list. */
kolo_status kolo_hosts_read(struct kolo_hosts *hosts, const char *path,
                            int64_t timeout_ms) KOLO_NODISCARD;
/** This machine alone, with @p slots slots that are not enforced. */
kolo_status kolo_hosts_here(struct kolo_hosts *hosts, int slots) KOLO_NODISCARD;
/** Gives out @p np ranks (0: one per slot) in blocks, in the order of the list; hosts that get none
 * are dropped. ERR_INVALID if the slots do not suffice: says how many there are, and what to do. */
kolo_status kolo_hosts_map(struct kolo_hosts *hosts, int np, bool oversubscribe,
                           int *size_out) KOLO_NODISCARD;
/** The host of @p rank. */
const struct kolo_host *kolo_hosts_of(const struct kolo_hosts *hosts, int rank);
void kolo_hosts_fini(struct kolo_hosts *hosts);

#endif
