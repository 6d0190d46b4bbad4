// SPDX-License-Identifier: Apache-2.0
// The network side of the examiner: listens as a rank would, and tries the places of other hosts.
// Each connection must prove knowledge of the session's secret (transport/conn.h) before any of its
// data is interpreted.
#ifndef KOLO_LAUNCHER_EXAMINE_PATHS_H
#define KOLO_LAUNCHER_EXAMINE_PATHS_H

#include "base/settings.h"
#include "launcher/doctor_facts.h"
#include "transport/conn.h"

struct kolo_path_tests;

/** Called for each path when it has ended, and once when all have. */
struct kolo_path_events {
    void *context;
    void (*path)(void *context, const struct kolo_fact_path *path);
    void (*all)(void *context);
};
/** Begins to listen. @p self is the number of this host among @p hosts; @p poller is the caller's.
 * If it fails for another reason than memory, *tests_out is still set and must be destroyed: the
 * paths to others can then be tried all the same. */
kolo_status kolo_path_tests_create(struct kolo_poller *poller, const struct kolo_settings *settings,
                                   const struct kolo_secret *secret, int self, int hosts,
                                   const struct kolo_path_events *events,
                                   struct kolo_path_tests **tests_out) KOLO_NODISCARD;
/** The places at which it listens, as a rank would offer them. */
const struct kolo_place *kolo_path_tests_places(const struct kolo_path_tests *tests,
                                                size_t *count_out);
/** Adds one place to try. ERR_INVALID: @p address is not an address. */
kolo_status kolo_path_tests_add(struct kolo_path_tests *tests, int to, int place,
                                const char *address) KOLO_NODISCARD;
/** Begins to try all places that were added. Only kolo_path_tests_turn calls the events. */
void kolo_path_tests_begin(struct kolo_path_tests *tests);
/** To be called after the poller ran: handles timeouts. @return when it must be called again. */
kolo_deadline kolo_path_tests_turn(struct kolo_path_tests *tests);
void kolo_path_tests_destroy(struct kolo_path_tests *tests);

#endif
