// SPDX-License-Identifier: Apache-2.0
// A runtime for programs that were compiled with -fsanitize=thread, in place of ThreadSanitizer's.
// It does not look for races, it brings them about: it delays threads at their atomic operations,
// and keeps stores from the other threads for a while, as C's memory model allows, also where the
// processor would not. A call whose order is too weak, or that counts on being fast, fails then
// within seconds instead of once in months.
//
//   stores.c    what a thread has stored and the others do not see yet
//   pauses.c    where and how long threads are delayed
//   atomics.c   what the compiler calls at each access
//   calls.c     the functions of the C library by which others could learn of earlier stores
#ifndef KOLO_TESTS_DELAYS_H
#define KOLO_TESTS_DELAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- stores.c ---- */

/** Keeps a store of @p bytes (1 to 8) for later, or returns false: it is to be done now. Earlier
 * stores of this thread become visible before it either way. */
bool delays_keep(void *at, uint64_t value, size_t bytes);
/** This thread reads @p bytes at @p at: true, and the value, if it has kept a store there. */
bool delays_kept(const void *at, size_t bytes, uint64_t *value_out);
/** This thread accesses @p bytes at @p at without an atomic operation. */
void delays_touch(const void *at, size_t bytes);
/** All stores of this thread become visible now. */
void delays_flush(void);

/* ---- pauses.c ---- */

/** Perhaps delays this thread, which is about to do an atomic operation at @p site of the
 * program. */
void delays_pause(const void *site);
/** A random number of this thread. */
uint64_t delays_random(void);
/** Sleeps without making stores visible. */
void delays_sleep(long us);

#endif
