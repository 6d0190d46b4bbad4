// SPDX-License-Identifier: Apache-2.0
// The only file of the library and of kolorun that reads a clock. Deadlines are absolute, so a
// retry never extends one.
#include "base/clock.h"

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail: clock and pointer are valid */
    return now.tv_sec * KOLO_NS_PER_S + now.tv_nsec;
}

int64_t kolo_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* cannot fail either */
    return now.tv_sec * KOLO_NS_PER_S + now.tv_nsec;
}

int64_t kolo_boot_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now); /* cannot fail either */
    return now.tv_sec * KOLO_NS_PER_S + now.tv_nsec;
}

static int64_t (*_Atomic clock_hook)(void) = monotonic_ns;

int64_t kolo_now_ns(void)
{
    return atomic_load_explicit(&clock_hook, memory_order_acquire)();
}

void kolo_clock_replace(int64_t (*now)(void))
{
    atomic_store_explicit(&clock_hook, now ? now : monotonic_ns, memory_order_release);
}

kolo_deadline kolo_deadline_in_ms(int64_t timeout_ms)
{
    int64_t timeout_ns;
    int64_t deadline;
    if (timeout_ms < 0 || __builtin_mul_overflow(timeout_ms, KOLO_NS_PER_MS, &timeout_ns) ||
        __builtin_add_overflow(kolo_now_ns(), timeout_ns, &deadline))
        return KOLO_NEVER;
    return deadline;
}

bool kolo_deadline_passed(kolo_deadline deadline)
{
    return deadline != KOLO_NEVER && kolo_now_ns() >= deadline;
}

int kolo_deadline_poll_ms(kolo_deadline deadline)
{
    if (deadline == KOLO_NEVER)
        return -1;
    int64_t now = kolo_now_ns();
    if (now >= deadline)
        return 0;
    uint64_t left_ns = (uint64_t)deadline - (uint64_t)now; /* also right when now is negative */
    uint64_t left_ms = left_ns / KOLO_NS_PER_MS + (left_ns % KOLO_NS_PER_MS != 0);
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}
