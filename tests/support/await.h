// SPDX-License-Identifier: Apache-2.0
// For tests that wait for what another thread or process does, of which nobody tells them.
#ifndef KOLO_TESTS_SUPPORT_AWAIT_H
#define KOLO_TESTS_SUPPORT_AWAIT_H

#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"

enum {
    AWAIT_MS = 30000, /* long enough for a busy machine: what has not come by then does not come */
    AWAIT_YIELDS = 1000
};

/** What is nearly there is noticed at once; who waits longer leaves the processor to the others. */
static inline void await_turn(int *turns)
{
    if (*turns < AWAIT_YIELDS)
        ++*turns, (void)sched_yield();
    else
        (void)nanosleep(&(struct timespec){.tv_nsec = KOLO_NS_PER_MS}, NULL);
}

/** Looks at @p condition until it is true or AWAIT_MS have passed; says whether it is. */
#define AWAIT(condition)                                                                           \
    __extension__({                                                                                \
        const kolo_deadline await_until_ = kolo_deadline_in_ms(AWAIT_MS);                          \
        bool await_is_ = (condition);                                                              \
        for (int turns_ = 0; !await_is_ && !kolo_deadline_passed(await_until_);                    \
             await_is_ = (condition))                                                              \
            await_turn(&turns_);                                                                   \
        await_is_;                                                                                 \
    })

#endif
