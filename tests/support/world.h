// SPDX-License-Identifier: Apache-2.0
// Runs N ranks as threads over a chosen transport, for tests of the runtime and above. Only the
// main thread may assert: a rank reports what is wrong by its status and detail, which world_run()
// keeps for every rank.
#ifndef KOLO_TESTS_WORLD_H
#define KOLO_TESTS_WORLD_H

#include <stdbool.h>
#include <string.h>

#include <kolo/kolo.h>

#include "base/status.h"

enum { WORLD_RANKS_MAX = 64, WORLD_SETTINGS_MAX = 8 };

struct world_result {
    kolo_status status;
    char text[KOLO_DETAIL_MAX];
};

struct world {
    int size;
    const char *transport;                        /* "inproc", ...; NULL: auto */
    const char *settings[WORLD_SETTINGS_MAX + 1]; /* further settings, "NAME=value" */
    struct world_result results[WORLD_RANKS_MAX]; /* what each rank's body returned */
};

/** Runs @p body on every rank and keeps each result. Returns the status of kolo_run_threads(). */
kolo_status world_run(struct world *world,
                      kolo_status (*body)(struct kolo_comm *comm, void *argument), void *argument);

/** The cause if several ranks failed: the first failure that is not a consequence of another
 * rank's. */
const struct world_result *world_cause(const struct world *world);

/** The transports of this build, for loops: world_transports[i], NULL at the end. */
extern const char *const world_transports[];

/** The parameter of parameterised tests: one transport. It is copied into the test's process, so it
 * has no pointers. */
struct world_param {
    char name[16];
};
enum { WORLD_PARAMS = 3 };
extern struct world_param world_params[WORLD_PARAMS];

/** For tests (with Criterion): asserts that @p body returns KOLO_OK on every rank. */
#define WORLD_MUST_RUN(world, body, argument)                                                      \
    do {                                                                                           \
        const kolo_status ran_ = world_run(world, body, argument);                                 \
        cr_assert(ran_ == KOLO_OK, "%d ranks, %s, %s: %s: %s", (world)->size,                      \
                  (world)->transport != NULL ? (world)->transport : "any transport",               \
                  (world)->settings[0] != NULL ? (world)->settings[0] : "no settings",             \
                  kolo_status_name(ran_), world_cause(world)->text);                               \
    } while (0)

/** For bodies: returns the status of @p call, unless it is KOLO_OK. */
#define WORLD_TRY(call)                                                                            \
    do {                                                                                           \
        const kolo_status tried_ = (call);                                                         \
        if (tried_ != KOLO_OK)                                                                     \
            return tried_;                                                                         \
    } while (0)

/** For bodies: returns ERR_INTERNAL with a text, unless @p condition. */
#define WORLD_EXPECT(condition, ...)                                                               \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return kolo_fail(KOLO_ERR_INTERNAL, __VA_ARGS__);                                      \
    } while (0)

/** For bodies: checks that @p call is refused with ERR_INVALID and a detail that contains @p
 * words. */
#define WORLD_INVALID(call, words)                                                                 \
    WORLD_EXPECT((call) == KOLO_ERR_INVALID && strstr(kolo_error_detail(), words), "line %d: %s",  \
                 __LINE__, kolo_error_detail())

/** Whether a rank took the end of a link for the cause, because it did not hear of the cause within
 * the time for which it waits, as on a machine that is too busy: then the test may try again. */
static inline bool world_heard_late(const struct world *world)
{
    for (int rank = 0; rank < world->size; rank++)
        if (world->results[rank].status == KOLO_ERR_PEER)
            return true;
    return false;
}
enum { WORLD_TRIES = 5 };

#endif
