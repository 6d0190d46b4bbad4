// SPDX-License-Identifier: Apache-2.0
// Memory of requests that are over, kept for the next ones: most programs have about as many
// requests at a time as before.
#ifndef KOLO_RUNTIME_SPARES_H
#define KOLO_RUNTIME_SPARES_H

#include "runtime/engine.h"

struct kolo_request;

/** How many are kept, of 1.4 KiB each. AddressSanitizer sees the use of a request that is over only
 * if its memory is freed, so then none is kept. */
#if defined(__SANITIZE_ADDRESS__)
enum { KOLO_SPARES_MAX = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { KOLO_SPARES_MAX = 0 };
#else
enum { KOLO_SPARES_MAX = 512 };
#endif
#else
enum { KOLO_SPARES_MAX = 512 };
#endif

/** Memory for a request, cleared as by kolo_request_clear(). Held: lock. NULL: ERR_NO_MEMORY. */
struct kolo_request *kolo_spares_take(struct kolo_engine *engine);
/** The same if the lock is not held. Does not wait for it. */
struct kolo_request *kolo_spares_try(struct kolo_engine *engine);
/** Keeps or frees the memory of @p request, which owns nothing any more. Held: lock. */
void kolo_spares_give(struct kolo_engine *engine, struct kolo_request *request);
/** Frees all that are kept. */
void kolo_spares_free(struct kolo_engine *engine);

#endif
