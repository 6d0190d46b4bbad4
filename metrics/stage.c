// SPDX-License-Identifier: Apache-2.0
// Arrays in a device's memory, on their way into a metric. Each is copied to the host as a whole,
// because an update adds all or nothing and therefore checks everything before it adds anything.
// Owns the copies until the update ends. If all pointers of the process are known to be host
// pointers, staging costs an update only one check.
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/settings.h"
#include "memory/memory.h"
#include "metrics/stage.h"

struct kolo_stage_copy {
    struct kolo_stage_copy *next;
    _Alignas(max_align_t) unsigned char bytes[];
};

static const void *failed(struct kolo_stage *stage, const char *name, kolo_status status)
{
    stage->status = kolo_fail(status, "%s: %s%s: %s", stage->call, stage->part ? stage->part : "",
                              name, kolo_error_detail());
    return NULL;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct kolo_settings settings;

/** kolo_init() reports a wrong setting; here it counts as not set. */
static void load_settings(void)
{
    kolo_settings_init(&settings);
    if (kolo_settings_load(&settings, NULL, NULL, NULL) != KOLO_OK)
        kolo_detail_set("");
}

/** Returns how long to wait for a device, in milliseconds. It is taken from the settings,
 *  because an update has no communicator. */
static int64_t timeout(void)
{
    (void)pthread_once(&once, load_settings);
    return settings.timeout_ms;
}

static const void *fetch(struct kolo_stage *stage, const char *name,
                         const struct kolo_pointer *pointer, size_t bytes)
{
    struct kolo_stage_copy *copy =
        kolo_aligned(_Alignof(max_align_t), sizeof(struct kolo_stage_copy) + bytes);
    if (!copy)
        return failed(stage, name, KOLO_ERR_NO_MEMORY);
    copy->next = stage->copies;
    stage->copies = copy;
    const int64_t timeout_ms = timeout();
    kolo_status status =
        kolo_pointer_fetch(pointer, bytes, copy->bytes, kolo_deadline_in_ms(timeout_ms));
    if (status == KOLO_AGAIN)
        status = kolo_fail(KOLO_ERR_TIMEOUT,
                           "the device has not done within %lld ms what the program gave it before "
                           "(KOLO_TIMEOUT)",
                           (long long)timeout_ms);
    return status == KOLO_OK ? copy->bytes : failed(stage, name, status);
}

const void *kolo_stage(struct kolo_stage *stage, const char *name, const void *array, size_t count,
                       size_t columns, size_t element_bytes)
{
    struct kolo_pointer pointer;
    size_t elements, bytes;
    if (stage->pointers == KOLO_STAGE_UNKNOWN)
        stage->pointers = kolo_pointer_may_be_foreign() ? KOLO_STAGE_FOREIGN : KOLO_STAGE_HOST;
    if (stage->status != KOLO_OK || !array || count == 0)
        return array;
    if (__builtin_mul_overflow(count, columns, &elements) ||
        __builtin_mul_overflow(elements, element_bytes, &bytes) || bytes > PTRDIFF_MAX) {
        (void)kolo_fail(KOLO_ERR_INVALID, "%zu times %zu elements are too many", count, columns);
        return failed(stage, name, KOLO_ERR_INVALID);
    }
    if (stage->pointers == KOLO_STAGE_HOST)
        return array;
    const kolo_status status = kolo_pointer_look(array, &pointer);
    if (status != KOLO_OK)
        return failed(stage, name, status);
    if (kolo_pointer_is_host(&pointer))
        return array;
    return fetch(stage, name, &pointer, bytes);
}

void kolo_stage_end(struct kolo_stage *stage)
{
    while (stage->copies) {
        struct kolo_stage_copy *next = stage->copies->next;
        kolo_free_memory(stage->copies);
        stage->copies = next;
    }
}
