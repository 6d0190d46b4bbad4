// SPDX-License-Identifier: Apache-2.0
// Owns the memory of requests that are over and were freed, until later requests use it. Must never
// keep more than KOLO_SPARES_MAX, nor give out memory that a request still uses.
#include "runtime/spares.h"

#include "base/alloc.h"
#include "runtime/request.h"

struct kolo_request *kolo_spares_take(struct kolo_engine *engine)
{
    struct kolo_request *request = engine->spares.first;
    if (!request)
        return kolo_calloc(1, sizeof *request);
    engine->spares.first = request->next;
    engine->spares.count--;
    kolo_request_clear(request);
    return request;
}

struct kolo_request *kolo_spares_try(struct kolo_engine *engine)
{
    if (pthread_mutex_trylock(&engine->lock) != 0)
        return kolo_calloc(1, sizeof(struct kolo_request));
    struct kolo_request *request = kolo_spares_take(engine);
    pthread_mutex_unlock(&engine->lock);
    return request;
}

void kolo_spares_give(struct kolo_engine *engine, struct kolo_request *request)
{
    if (engine->spares.count >= KOLO_SPARES_MAX) {
        kolo_free_memory(request);
        return;
    }
    request->next = engine->spares.first;
    engine->spares.first = request;
    engine->spares.count++;
}

void kolo_spares_free(struct kolo_engine *engine)
{
    struct kolo_request *request;
    while ((request = engine->spares.first) != NULL) {
        engine->spares.first = request->next;
        kolo_free_memory(request);
    }
    engine->spares.count = 0;
}
