// SPDX-License-Identifier: Apache-2.0
// Monotonic time and absolute deadlines. Tests replace the clock; nothing else in the project reads
// one.
#ifndef KOLO_BASE_CLOCK_H
#define KOLO_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/** A point of the monotonic clock in nanoseconds; KOLO_NEVER does not come. */
typedef int64_t kolo_deadline;
#define KOLO_NEVER INT64_MAX
#define KOLO_NS_PER_MS INT64_C(1000000)

/** Now, in nanoseconds of CLOCK_MONOTONIC or of the clock a test put in. Threads: any. */
int64_t kolo_now_ns(void);

/** Nanoseconds since 1970 by the clock on the wall, which people set: to hold the clocks of hosts
 * against each other, and for nothing that waits. Threads: any. */
int64_t kolo_wall_ns(void);

/** Replaces the clock by @p now (NULL: the real one again). For tests, before threads start. */
void kolo_clock_replace(int64_t (*now)(void));

/** The deadline @p timeout_ms from now; negative: KOLO_NEVER. Saturates. */
kolo_deadline kolo_deadline_in_ms(int64_t timeout_ms);

/** @p ms milliseconds after @p deadline; KOLO_NEVER stays what it is. Saturates. */
static inline kolo_deadline kolo_deadline_plus_ms(kolo_deadline deadline, int64_t ms)
{
    return deadline < KOLO_NEVER - ms * KOLO_NS_PER_MS ? deadline + ms * KOLO_NS_PER_MS
                                                       : KOLO_NEVER;
}

bool kolo_deadline_passed(kolo_deadline deadline);

/** The earlier one. */
static inline kolo_deadline kolo_deadline_min(kolo_deadline a, kolo_deadline b)
{
    return a < b ? a : b;
}

/** What is left in milliseconds as poll() takes it: rounded up, 0 when passed, -1 for KOLO_NEVER,
 * at most INT_MAX. */
int kolo_deadline_poll_ms(kolo_deadline deadline);

#endif
