// SPDX-License-Identifier: Apache-2.0
// Host lists, and which ranks each host gets. Pure: reads a text or a file, asks no network.
#ifndef KOLO_LAUNCHER_HOSTS_H
#define KOLO_LAUNCHER_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "base/status.h"
#include "launcher/ranks.h"

enum { KOLO_HOST_MAX = 256, KOLO_HOSTS_MAX = 65536, KOLO_SLOTS_MAX = KOLO_SIZE_MAX };

struct kolo_host {
    char name[KOLO_HOST_MAX]; /* as given, also USER@HOST */
    int slots;                /* 1 if not given */
    bool is_open;             /* slots were not given: takes as many ranks as necessary */
    bool is_here;             /* this machine, no ssh */
    struct kolo_ranks ranks;  /* set by kolo_hosts_map */
};
struct kolo_hosts {
    struct kolo_host *at;
    size_t count, capacity;
    uint32_t *places; /* hash table by name: 1 + the index in `at`, or 0 */
    size_t places_count;
    uint32_t *ranks; /* of all hosts, one host after the other */
};

/** Adds a host, or slots to one that is already there. All names of this machine (localhost,
 * 127.0.0.1, ::1, its own) are one host, which has the first of them as its name. ERR_INVALID: not
 * a host name, or too many. */
kolo_status kolo_hosts_add(struct kolo_hosts *hosts, const char *name, int slots,
                           bool is_open) KOLO_NODISCARD;
/** Parses "host[:slots],[2001:db8::1]:2,user@host". The slots of a host named twice are added.
 * ERR_INVALID names the text and the grammar. */
kolo_status kolo_hosts_parse(struct kolo_hosts *hosts, const char *list) KOLO_NODISCARD;
/** Reads lines "host[:slots]" or "host slots=N"; # begins a comment. ERR_INVALID names the file and
 * the line, or says that the file had no end within @p timeout_ms (it may be a pipe). */
kolo_status kolo_hosts_read(struct kolo_hosts *hosts, const char *path,
                            int64_t timeout_ms) KOLO_NODISCARD;
/** Adds this machine only, with @p slots slots that are not enforced. */
kolo_status kolo_hosts_here(struct kolo_hosts *hosts, int slots) KOLO_NODISCARD;
/** How ranks are assigned to hosts. */
struct kolo_hosts_rule {
    int np;             /* number of ranks; 0: one per slot */
    bool oversubscribe; /* there may be more ranks than slots */
    bool in_turn;       /* each host gets one rank in turn; else one is filled after the other */
};
/** Assigns ranks to the hosts, in the order of the list, and drops hosts that get none. ERR_INVALID
 * if there are too few slots: says how many there are, and what to do. */
kolo_status kolo_hosts_map(struct kolo_hosts *hosts, const struct kolo_hosts_rule *rule,
                           int *size_out) KOLO_NODISCARD;
void kolo_hosts_fini(struct kolo_hosts *hosts);

#endif
