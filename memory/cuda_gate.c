// SPDX-License-Identifier: Apache-2.0
// Gates in streams of the program. A gate is a function that the driver calls when the stream has
// reached it, followed, if the stream is to wait, by a wait for a word in host memory. Owns the
// words: a cache line for each gate, in pages that are locked if streams wait for them. Must never
// change the thread's current context. Waits for nothing itself. But the driver may wait until a
// stream continues, if the stream's queue is full or before it locks pages; so the caller must hold
// nothing that a stream waits for.
//
// Why a word: the stream must wait for something that the host has yet to do. No event can be
// recorded for that, and a host function that waits would block the driver's thread, which has
// others to call.
//
// A word is never reset. Each use of a gate has a ticket, one higher than the last, and a stream
// waits until the word is at least its ticket; so a stream that still reads the word for an earlier
// use continues too. When a stream has read the word for the last time, it writes the ticket into a
// second word. Until then the gate is not used again, nor its page freed.
//
// The wait ends only when this request ends. A driver call after the wait could block on a full
// stream, and then the request could never end. So the wait and that write are one call, the last.
//
// Threads: several may place gates at a time. New pages are put in front of the list under the
// lane's lock and stay there; a gate belongs to the thread that took it.
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "memory/cuda_memory.h"
#include "memory/gate_watch.h"

enum { LINE = 64, PASSED = sizeof(uint32_t) };

struct gate {
    struct kolo_gate base;
    kolo_cuda_address at;   /* the word, for the device; PASSED bytes after it is the next: */
    const uint32_t *passed; /* the ticket of the last wait that the stream has finished */
    uint32_t awaited;       /* the ticket of the last wait that was given to a stream */
};

/** A page of words. */
struct kolo_cuda_gates {
    struct kolo_cuda_gates *next;
    uint8_t *words;
    bool is_locked; /* if not, no stream can wait for its words */
    size_t count;
    struct gate gates[];
};

/* ---- streams ---- */

/** Explains why @p call did not accept @p stream: it is not a stream, or another one is being
 * captured, or the device has failed, of which the other ranks must hear. */
static kolo_status not_a_stream(const struct kolo_cuda_visit *visit, void *stream, const char *call,
                                int result)
{
    const char *name = NULL;
    if (visit->driver->get_error_name(result, &name) != KOLO_CUDA_SUCCESS || !name)
        name = "an unknown error";
    if (result == KOLO_CUDA_STREAM_CAPTURE_IMPLICIT ||
        result == KOLO_CUDA_STREAM_CAPTURE_UNSUPPORTED)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "stream %p cannot be used while another is captured (%s)", stream, name);
    if (result == KOLO_CUDA_INVALID_VALUE || result == KOLO_CUDA_INVALID_HANDLE ||
        result == KOLO_CUDA_INVALID_CONTEXT || result == KOLO_CUDA_CONTEXT_IS_DESTROYED)
        return kolo_fail(KOLO_ERR_INVALID, "%p is not a CUDA stream: %s says %s", stream, call,
                         name);
    return kolo_cuda_fail(visit->driver, call, visit->ordinal, result);
}

static kolo_status refuse_capture(const struct kolo_cuda_visit *visit, void *stream)
{
    int capture = KOLO_CUDA_CAPTURE_NONE, result = KOLO_CUDA_NOT_SUPPORTED;
    if (visit->driver->stream_is_capturing)
        result = visit->driver->stream_is_capturing(stream, &capture);
    if (kolo_cuda_is_refusal(result)) /* a driver that cannot report captures has none */
        return KOLO_OK;
    if (result != KOLO_CUDA_SUCCESS)
        return not_a_stream(visit, stream, "cuStreamIsCapturing", result);
    if (capture != KOLO_CUDA_CAPTURE_NONE)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "stream %p is captured into a graph, which cannot hold a collective: end "
                         "the capture before the call",
                         stream);
    return KOLO_OK;
}

static kolo_status judge(const struct kolo_cuda_visit *visit, const char *call, int result)
{
    if (result == KOLO_CUDA_SUCCESS)
        return KOLO_OK;
    return kolo_cuda_fail(visit->driver, call, visit->ordinal, result);
}

/** The number of the current context's device in this process. */
static kolo_status find_ordinal(struct kolo_cuda_visit *visit)
{
    const struct kolo_cuda_driver *driver = visit->driver;
    int device = -1, other = -1, count = 0;
    kolo_status status;
    KOLO_TRY(judge(visit, "cuCtxGetDevice", driver->context_get_device(&device)));
    KOLO_TRY(judge(visit, "cuDeviceGetCount", driver->device_get_count(&count)));
    for (int i = 0; i < count && visit->ordinal < 0; i++) {
        KOLO_TRY(judge(visit, "cuDeviceGet", driver->device_get(&other, i)));
        if (other == device)
            visit->ordinal = i;
    }
out:
    return status;
}

kolo_status kolo_cuda_stream_look(void *stream, struct kolo_pointer *pointer_out)
{
    const struct kolo_cuda_driver *driver = kolo_cuda_driver_loaded();
    struct kolo_cuda_visit visit = {.driver = driver, .ordinal = -1};
    kolo_status status = kolo_cuda_driver_check(driver);
    if (status != KOLO_OK)
        return status;
    const int result = driver->stream_get_context(stream, &visit.context);
    if (result != KOLO_CUDA_SUCCESS)
        return not_a_stream(&visit, stream, "cuStreamGetCtx", result);
    status = kolo_cuda_enter(&visit);
    if (status != KOLO_OK)
        return status;
    status = find_ordinal(&visit);
    if (status == KOLO_OK)
        status = refuse_capture(&visit, stream);
    kolo_cuda_leave(&visit);
    if (status == KOLO_OK)
        *pointer_out = (struct kolo_pointer){.kind = KOLO_MEMORY_DEVICE,
                                             .device = visit.ordinal,
                                             .context = visit.context,
                                             .ops = &kolo_memory_cuda};
    return status;
}

/* ---- words ---- */

/** Must be in the context, as the rest of this file except for public functions. */
static kolo_status lock_words(const struct kolo_cuda_visit *visit, struct kolo_cuda_gates *page,
                              size_t bytes, kolo_cuda_address *at_out)
{
    kolo_status status;
    KOLO_TRY(
        judge(visit, "cuMemHostRegister of a page of words",
              visit->driver->host_register(
                  page->words, bytes, KOLO_CUDA_REGISTER_PORTABLE | KOLO_CUDA_REGISTER_MAPPED)));
    status = judge(visit, "cuMemHostGetDevicePointer",
                   visit->driver->host_get_address(at_out, page->words, 0));
    if (status != KOLO_OK)
        (void)visit->driver->host_unregister(page->words);
out:
    return status;
}

/** Makes a page of gates. Gates for which no stream waits need no words that a device can
 * access. */
static kolo_status make_page(struct kolo_cuda_gates **gates, struct kolo_lane *lane,
                             const struct kolo_cuda_visit *visit, bool holds)
{
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE), count = bytes / LINE;
    kolo_cuda_address at = 0;
    struct kolo_cuda_gates *page = kolo_calloc(1, sizeof *page + count * sizeof page->gates[0]);
    if (page)
        page->words = kolo_aligned(bytes, bytes);
    kolo_status status = page && page->words ? KOLO_OK : KOLO_ERR_NO_MEMORY;
    if (status == KOLO_OK && holds)
        status = lock_words(visit, page, bytes, &at);
    if (status != KOLO_OK) {
        if (page)
            kolo_free_memory(page->words);
        kolo_free_memory(page);
        return status;
    }
    page->count = count;
    page->is_locked = holds;
    for (size_t i = 0; i < count; i++) {
        page->gates[i].base =
            (struct kolo_gate){.lane = lane, .word = (uint32_t *)(void *)(page->words + i * LINE)};
        page->gates[i].at = at + i * LINE;
        page->gates[i].passed = page->gates[i].base.word + 1;
        memset(page->gates[i].base.word, 0, 2 * sizeof(uint32_t));
    }
    (void)pthread_mutex_lock(&lane->lock);
    page->next = *gates;
    *gates = page;
    (void)pthread_mutex_unlock(&lane->lock);
    return KOLO_OK;
}

/** Whether no stream reads the gate's word any more. */
static bool is_unread(const struct gate *gate)
{
    return __atomic_load_n(gate->passed, __ATOMIC_ACQUIRE) == gate->awaited;
}

static struct gate *find_free(struct kolo_cuda_gates **gates, struct kolo_lane *lane, bool holds)
{
    (void)pthread_mutex_lock(&lane->lock);
    struct kolo_cuda_gates *first = *gates;
    (void)pthread_mutex_unlock(&lane->lock);
    for (struct kolo_cuda_gates *page = first; page; page = page->next)
        for (size_t i = 0; i < page->count && (page->is_locked || !holds); i++) {
            struct gate *gate = &page->gates[i];
            if (!kolo_gate_take(&gate->base))
                continue;
            if (is_unread(gate))
                return gate;
            kolo_gate_drop(&gate->base);
        }
    return NULL;
}

static kolo_status take_gate(struct kolo_cuda_gates **gates, struct kolo_lane *lane,
                             const struct kolo_cuda_visit *visit, bool holds,
                             struct gate **gate_out)
{
    struct gate *gate;
    /* other threads may take all gates of a new page */
    while (!(gate = find_free(gates, lane, holds))) {
        const kolo_status status = make_page(gates, lane, visit, holds);
        if (status != KOLO_OK)
            return status;
    }
    *gate_out = gate;
    return KOLO_OK;
}

/* ---- gates ---- */

static void reached(void *gate)
{
    kolo_gate_reach(gate);
}

static kolo_status can_hold(const struct kolo_cuda_visit *visit)
{
    const struct kolo_cuda_driver *driver = visit->driver;
    int device = -1, can = 0, result = KOLO_CUDA_NOT_SUPPORTED;
    const char *call = "cuCtxGetDevice";
    if (driver->stream_batch)
        result = driver->context_get_device(&device);
    if (result == KOLO_CUDA_SUCCESS) {
        call = "cuDeviceGetAttribute";
        result = driver->device_get_attribute(&can, KOLO_CUDA_ATTRIBUTE_WAITS_FOR_VALUES, device);
    }
    const bool is_unknown = result == KOLO_CUDA_NOT_SUPPORTED || result == KOLO_CUDA_INVALID_VALUE;
    if (result != KOLO_CUDA_SUCCESS && !is_unknown)
        return judge(visit, call, result);
    if (can && !is_unknown)
        return KOLO_OK;
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "streams of device %d cannot wait for the host (cuStreamBatchMemOp): make the "
                     "call without request_out",
                     visit->ordinal);
}

/** Makes the stream wait for the word, after its earlier work. */
static kolo_status hold(struct gate *gate, const struct kolo_cuda_visit *visit, void *stream,
                        int64_t timeout_ms)
{
    struct kolo_cuda_memory_op operations[] = {{.operation = KOLO_CUDA_WAIT_VALUE,
                                                .at = gate->at,
                                                .value = gate->base.ticket,
                                                .flags = KOLO_CUDA_WAIT_GREATER},
                                               {.operation = KOLO_CUDA_WRITE_VALUE,
                                                .at = gate->at + PASSED,
                                                .value = gate->base.ticket,
                                                .flags = KOLO_CUDA_WRITE_DEFAULT}};
    const kolo_status status =
        judge(visit, "cuStreamBatchMemOp", visit->driver->stream_batch(stream, 2, operations, 0));
    if (status != KOLO_OK)
        return status;
    gate->awaited = gate->base.ticket;
    /* now, since the next call of the driver, or the lock of the caller, may be waited for until
     * the stream goes on */
    gate->base.is_holding = true;
    kolo_gate_watch(&gate->base, kolo_deadline_in_ms(timeout_ms));
    return KOLO_OK;
}

static kolo_status place(struct gate *gate, const struct kolo_cuda_visit *visit, void *stream,
                         bool holds, int64_t timeout_ms)
{
    gate->base.ticket++;
    kolo_status status =
        judge(visit, "cuLaunchHostFunc", visit->driver->launch_host(stream, reached, gate));
    if (status != KOLO_OK) {
        kolo_gate_drop(&gate->base);
        return status;
    }
    if (holds)
        status = hold(gate, visit, stream, timeout_ms);
    if (status != KOLO_OK)
        kolo_gate_open(&gate->base); /* the gate's function will still be called */
    return status;
}

kolo_status kolo_cuda_gate_place(struct kolo_cuda_gates **gates, struct kolo_lane *lane,
                                 const struct kolo_cuda_visit *visit, void *stream, bool holds,
                                 int64_t timeout_ms, struct kolo_gate **gate_out)
{
    struct gate *gate = NULL;
    kolo_status status = kolo_cuda_enter(visit);
    if (status != KOLO_OK)
        return status;
    /* a persistent request was prepared before the capture */
    status = refuse_capture(visit, stream);
    if (status == KOLO_OK && holds)
        status = can_hold(visit);
    if (status == KOLO_OK)
        status = take_gate(gates, lane, visit, holds, &gate);
    if (status == KOLO_OK)
        status = place(gate, visit, stream, holds, timeout_ms);
    kolo_cuda_leave(visit);
    if (status == KOLO_OK)
        *gate_out = &gate->base;
    return status;
}

kolo_status kolo_cuda_gates_check(const struct kolo_cuda_gates *gates)
{
    for (const struct kolo_cuda_gates *page = gates; page; page = page->next)
        for (size_t i = 0; i < page->count; i++)
            if (!is_unread(&page->gates[i]))
                return KOLO_AGAIN;
    return KOLO_OK;
}

void kolo_cuda_gates_free(struct kolo_cuda_gates *gates, const struct kolo_cuda_visit *visit)
{
    for (struct kolo_cuda_gates *page = gates, *next; page; page = next) {
        next = page->next;
        if (page->is_locked)
            (void)visit->driver->host_unregister(page->words);
        kolo_free_memory(page->words);
        kolo_free_memory(page);
    }
}
