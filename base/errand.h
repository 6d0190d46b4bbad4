// SPDX-License-Identifier: Apache-2.0
// Errands: work that may never return, such as asking a name server, reading a file of a network
// file system, or waiting for a device. A thread of its own does it, and the caller waits for it by
// a deadline.
//
// Threads: any; each errand belongs to one.
#ifndef KOLO_BASE_ERRAND_H
#define KOLO_BASE_ERRAND_H

#include <stddef.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/status.h"

/** What an errand does. Both functions get the errand's memory. */
struct kolo_errand {
    /** May wait for ever. Called on the errand's thread; what it finds goes into the memory. It may
     * use nothing else that the caller might free after having left. */
    void (*run)(void *memory);
    /** Releases what @e run has left in the memory, if nobody waits for it any more. NULL: nothing
     * is to be released. */
    void (*discard)(void *memory);
};

/** @p bytes of memory for an errand, all 0: the caller puts there what the errand needs. NULL:
 *  ERR_NO_MEMORY, with the detail set. */
void *kolo_errand_create(size_t bytes) KOLO_NODISCARD;
/** Frees the memory. Not what @e run has left there: that is the caller's. NULL: nothing. */
void kolo_errand_destroy(void *memory);

/** Runs @p errand, once for each memory, and waits until it is done, until @p deadline, or until
 *  @p unless (NULL: nothing) is over.
 *  @return 0: it is done, and the caller has @p memory back. ETIMEDOUT or ECANCELED: it is not; the
 *  caller has left it, and @p memory is the errand's, which frees it. Another errno: it was not
 *  started for lack of a thread, and the caller still has @p memory. */
int kolo_errand_run(const struct kolo_errand *errand, void *memory, kolo_deadline deadline,
                    const struct kolo_unless *unless) KOLO_NODISCARD;

#endif
