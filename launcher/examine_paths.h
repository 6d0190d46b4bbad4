// SPDX-License-Identifier: Apache-2.0
// The network side of the examiner: listens where a rank would, and tries the places of other
// hosts. Each connection proves the secret of the session (transport/conn.h) before a byte of it
// counts.
#ifndef KOLO_LAUNCHER_EXAMINE_PATHS_H
#define KOLO_LAUNCHER_EXAMINE_PATHS_H

#include "base/settings.h"
#include "launcher/doctor_facts.h"
#include "transport/conn.h"

struct kolo_path_tests;

/** Told of each path when it has ended, and once when all have. */
struct kolo_path_events {
    void *context;
    void (*path)(void *context, const struct kolo_path *path);
    void (*all)(void *context);
};
/** @p self: the number of this host among @p hosts. Listens; @p poller is the caller's. *tests_out
 * is to be destroyed also where that failed, unless memory is short; others may be tried then all
 * the same. */
kolo_status kolo_path_tests_create(struct kolo_poller *poller, const struct kolo_settings *settings,
                                   const struct kolo_secret *secret, int self, int hosts,
                                   const struct kolo_path_events *events,
                                   struct kolo_path_tests **tests_out) KOLO_NODISCARD;
/** The places where it listens, as a rank would offer them. */
const struct kolo_place *kolo_path_tests_places(const struct kolo_path_tests *tests,
                                                size_t *count_out);
/** One more to try. ERR_INVALID: @p address is none. */
kolo_status kolo_path_tests_add(struct kolo_path_tests *tests, int to, int place,
                                const char *address) KOLO_NODISCARD;
/** Begins to try all that were added; events come from kolo_path_tests_turn alone. */
void kolo_path_tests_begin(struct kolo_path_tests *tests);
/** After the poller ran: what time alone brings. @return when it must be called again. */
kolo_deadline kolo_path_tests_turn(struct kolo_path_tests *tests);
void kolo_path_tests_destroy(struct kolo_path_tests *tests);

#endif
