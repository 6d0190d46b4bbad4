// SPDX-License-Identifier: Apache-2.0
// Waits for conditions that another thread or process makes true without notifying the test.
#ifndef KOLO_TESTS_SUPPORT_AWAIT_H
#define KOLO_TESTS_SUPPORT_AWAIT_H

#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"

enum {
    /* long enough for a busy machine; a condition that is still false then is a failure */
    AWAIT_MS = 30000,
    AWAIT_YIELDS = 1000
};

/** Yields at first, so that a condition that is almost true is noticed at once; then sleeps 1 ms
 * each time, so that other threads have the processor. */
static inline void await_turn(int *turns)
{
    if (*turns < AWAIT_YIELDS)
        ++*turns, (void)sched_yield();
    else
        (void)nanosleep(&(struct timespec){.tv_nsec = KOLO_NS_PER_MS}, NULL);
}

/** Checks @p condition until it is true or AWAIT_MS have passed; its value is whether it was
 * true. */
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
