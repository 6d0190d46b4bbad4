// SPDX-License-Identifier: Apache-2.0
// Decides where threads are delayed, and how long. The first times that a place of the program is
// reached count most, since that is where loops that wait spend the least: there a thread is often
// delayed, later seldom. In each process a few places, others each time, are delayed often for
// long. Must never make stores visible.
#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/delays/delays.h"

enum { SITES = 4096, LONG_TIMES = 10 };

/** What a process does; chosen at its start. */
struct manner {
    uint32_t first; /* the first times at a site, of which one in FIRST_ONE_IN is delayed */
    uint32_t later; /* of later ones one in this many */
    uint32_t hot;   /* of 64 sites this many are delayed often for long */
    uint32_t longest_us;
};
enum { FIRST_ONE_IN = 4, HOT_FIRST = 2000, HOT_ONE_IN = 3, HOT_LATER_ONE_IN = 300 };

static const struct manner manners[] = {
    {64, 20000, 3, 300}, {64, 3000, 0, 100}, {64, 100000, 6, 2000}, {8, 50000, 1, 500}};
static atomic_uint hits[SITES];
static atomic_int manner = -1;
static _Atomic uint64_t seed;
static __thread uint64_t state;

/** Chosen by the time, so that each process and each run differs. */
static void choose(void)
{
    struct timespec now;
    int none = -1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t mixed = ((uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 32) * 0x9e3779b97f4a7c15;
    atomic_store(&seed, mixed);
    atomic_compare_exchange_strong(&manner, &none,
                                   (int)(mixed >> 32) & (sizeof manners / sizeof manners[0] - 1));
}

uint64_t delays_random(void)
{
    if (manner < 0)
        choose();
    if (state == 0)
        state = (seed ^ (uint64_t)syscall(SYS_gettid) * 0xbf58476d1ce4e5b9) | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

void delays_sleep(long us)
{
    const struct timespec length = {us / 1000000, us % 1000000 * 1000};
    syscall(SYS_nanosleep, &length, NULL);
}

/** One use in how many at @p site is delayed now. */
static uint32_t one_in(uint32_t site, const struct manner *how)
{
    const uint32_t hit = atomic_fetch_add(&hits[site], 1);
    const uint32_t mixed = (site ^ (uint32_t)seed) * 2654435761u >> 26;
    if (mixed < how->hot)
        return hit < HOT_FIRST ? HOT_ONE_IN : HOT_LATER_ONE_IN;
    return hit < how->first ? FIRST_ONE_IN : how->later;
}

static void delay(const struct manner *how)
{
    const uint64_t random = delays_random() >> 8;
    enum { KINDS = 4, YIELDS = 8, SHORT_US = 20, SPINS = 2048, LONG_ONE_IN = 16 };
    switch (delays_random() % KINDS) {
    case 0:
        for (uint64_t i = 0; i <= random % YIELDS; i++)
            syscall(SYS_sched_yield);
        break;
    case 1:
        delays_sleep(1 + (long)(random % SHORT_US));
        break;
    case 2:
        delays_sleep(1 + (long)(random % how->longest_us));
        break;
    default:
        if (random % LONG_ONE_IN == 0)
            delays_sleep((long)how->longest_us * LONG_TIMES);
        else
            for (volatile uint64_t i = 0; i < random % SPINS; i++)
                ;
        break;
    }
}

void delays_pause(const void *site)
{
    const uint64_t random = delays_random();
    const struct manner *how = &manners[manner];
    const int before = errno;
    if (random % one_in((uint32_t)(((uintptr_t)site * 0x9e3779b97f4a7c15) >> 52), how) == 0)
        delay(how);
    errno = before;
}
