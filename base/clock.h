// SPDX-License-Identifier: Apache-2.0
// Monotonic time and absolute deadlines. Tests can replace the clock. In the library and in kolorun
// only clock.c reads a clock.
#ifndef KOLO_BASE_CLOCK_H
#define KOLO_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/** A time of the monotonic clock in nanoseconds. KOLO_NEVER is a deadline that never passes. */
typedef int64_t kolo_deadline;
#define KOLO_NEVER INT64_MAX
#define KOLO_NS_PER_MS INT64_C(1000000)
#define KOLO_NS_PER_S INT64_C(1000000000)

/** @p ns nanoseconds, at least 0, as system calls take them. */
static inline struct timespec kolo_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / KOLO_NS_PER_S),
                             .tv_nsec = (long)(ns % KOLO_NS_PER_S)};
}

/** Now, in nanoseconds of CLOCK_MONOTONIC, or of the clock that a test has installed. Threads:
 *  any. */
int64_t kolo_now_ns(void);

/** Nanoseconds since 1970 by the wall clock, which people can set: for comparing the clocks of
 *  hosts, never for waiting. Threads: any. */
int64_t kolo_wall_ns(void);

/** Nanoseconds since the machine was started, by CLOCK_BOOTTIME, as /proc says when processes were:
 *  never for waiting. Threads: any. */
int64_t kolo_boot_ns(void);

/** For tests, before threads start: replaces the clock by @p now (NULL: the real one again). */
void kolo_clock_replace(int64_t (*now)(void));

/** The deadline @p timeout_ms from now; negative: KOLO_NEVER. Saturates at KOLO_NEVER. */
kolo_deadline kolo_deadline_in_ms(int64_t timeout_ms);

/** The deadline @p ms milliseconds after @p deadline; KOLO_NEVER stays KOLO_NEVER. Saturates. */
static inline kolo_deadline kolo_deadline_plus_ms(kolo_deadline deadline, int64_t ms)
{
    return deadline < KOLO_NEVER - ms * KOLO_NS_PER_MS ? deadline + ms * KOLO_NS_PER_MS
                                                       : KOLO_NEVER;
}

bool kolo_deadline_passed(kolo_deadline deadline);

/** The earlier of two deadlines. */
static inline kolo_deadline kolo_deadline_min(kolo_deadline a, kolo_deadline b)
{
    return a < b ? a : b;
}

/** The remaining time in milliseconds for poll(): rounded up, 0 if the deadline has passed, -1 for
 *  KOLO_NEVER, at most INT_MAX. */
int kolo_deadline_poll_ms(kolo_deadline deadline);

#endif
