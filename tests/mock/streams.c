// SPDX-License-Identifier: Apache-2.0
// Streams, events, modules and launches of the tests' libcuda.so.1. A stream is a queue with a
// thread that does one operation after the other, each as late as mock_delays says. So code that
// uses the destination of a copy before it waited for the copy reads the old contents. The default
// streams have the handles of cuda.h; a stream that was not made as non-blocking waits for what the
// legacy default stream of its context was given before, and the other way round. After a
// failure (mock_fail_async, or a kernel out of bounds) the device is lost: nothing more is done,
// and no host function is called.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tests/mock/mock.h"

enum {
    GREATEST_PRIORITY = -5,
    STREAMS_MAX = 2048, /* streams of a lost device are never destroyed, so there are many */
    CONTEXTS = 2 * MOCK_DEVICES,
    POLL_NS = 100000
};

/** The handles of the default streams: CU_STREAM_LEGACY, which NULL means too, and
 * CU_STREAM_PER_THREAD. */
enum { LEGACY = 1, PER_THREAD = 2 };

struct event {
    const struct context *context;
    uint64_t parts; /* number of streams of its context that it still waits for */
    /* how often it was recorded in a stream, and how often the stream has reached it */
    uint64_t given, done;
    int64_t due; /* of a timed device: when it passes */
    bool is_destroyed;
    struct event *next;
};

enum what { COPY, KERNEL, RECORD_PART, RECORD, AWAIT_EVENT, AWAIT_VALUE, CALL };

struct op {
    struct op *next;
    enum what what;
    uint64_t number;            /* number in the order in which all streams got their operations */
    uint64_t into, from, count; /* of a copy; the value that is waited for; the number of threads */
    /* where the count is written once the operation is done; 0: nowhere */
    uint64_t answer;
    struct event *event;
    void (*call)(void *context);
    void *context;
    const struct mock_kernel *kernel;
    void *owned; /* freed after the operation */
    struct kolo_cuda_job job;
    struct mock_launch launch;
};

struct stream {
    struct context *context;
    int priority;
    bool is_legacy, is_blocking; /* neither: it ignores the legacy default stream */
    struct op *first, *last;     /* the first one is being done */
    int length;
    uint64_t given, done; /* number of operations submitted and done */
    bool is_closing;
    enum mock_capture capture;
    bool is_spoilt; /* its capture is invalid */
    int64_t due;    /* of a timed device: when its last copy is done */
};

struct module {
    int loaded;
};

static struct stream *streams[STREAMS_MAX];
static struct stream *defaults[CONTEXTS];
static _Thread_local struct stream *own[CONTEXTS]; /* default streams of this thread */
static struct event *events; /* kept after they are destroyed, so that later uses are noticed */
static struct module the_module;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t seed;
static int most_us, async_in, async_with;
static bool is_held, is_muted, is_one_queue;
static uint64_t numbers;
/* copies to the host that may be done before one from the host; -1: any number */
static int copies_left = -1;
static int copying; /* streams that are doing something now */
/* operations of all streams that are not done, closed streams included */
static int waiting;
static int longest;     /* queue length at which a thread that adds more waits; 0: none */
static int blocked;     /* threads that wait for room in a queue, or for all streams */
static bool is_alone;   /* a call keeps other threads out: */
static pthread_t alone; /* that of this thread */
static _Thread_local int capture_mode; /* CUstreamCaptureMode; 0: global */

/** Waits until nothing is being copied, because a failed device no longer writes. Held: lock. */
void mock_lose(int result)
{
    while (copying > 0 && !mock_lost)
        (void)pthread_cond_wait(&changed, &mock_lock);
    if (!mock_lost)
        mock_lost = result;
    (void)pthread_cond_broadcast(&changed);
}

/* ---- what a stream does ---- */

/** Held: lock; released while waiting. */
static void wait_a_while(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&changed, &mock_lock, &until);
}

static bool is_of_device(uint64_t address)
{
    const struct allocation *a = mock_allocation(address);
    return a && a->kind != MOCK_PINNED;
}

/** Whether another stream of the same queue has waited for the host since before. Held: lock. */
static bool is_behind(const struct stream *stream, const struct op *op)
{
    for (int i = 0; is_one_queue && i < STREAMS_MAX; i++) {
        const struct stream *other = streams[i];
        if (other && other != stream && other->context == stream->context &&
            other->priority == stream->priority && other->first &&
            other->first->what == AWAIT_VALUE && other->first->number < op->number)
            return true;
    }
    return false;
}

/** Whether a stream that it must wait for has yet to do what it was given before. Held: lock. */
static bool is_after_others(const struct stream *stream, const struct op *op)
{
    for (int i = 0; (stream->is_legacy || stream->is_blocking) && i < STREAMS_MAX; i++) {
        const struct stream *other = streams[i];
        const bool waits = other && other->context == stream->context &&
                           (stream->is_legacy ? other->is_blocking : other->is_legacy);
        if (waits && other->first && other->first->number < op->number)
            return true;
    }
    return false;
}

/** Held: lock. */
static bool is_ready(const struct stream *stream, const struct op *op)
{
    if (is_behind(stream, op) || is_after_others(stream, op))
        return false;
    if (op->what == COPY)
        return copies_left != 0 || !is_of_device(op->from) || is_of_device(op->into);
    if (op->what == CALL)
        return !is_muted;
    if (op->what == AWAIT_EVENT)
        return op->event->done >= op->count &&
               (!mock_is_timed() || op->event->due <= kolo_now_ns());
    if (op->what != AWAIT_VALUE)
        return true;
    const uint32_t now =
        __atomic_load_n((uint32_t *)(void *)mock_place(op->into, 4), __ATOMIC_ACQUIRE);
    return (int32_t)(now - (uint32_t)op->count) >= 0;
}

static void dawdle(void)
{
    struct timespec pause = {.tv_sec = 0};
    (void)pthread_mutex_lock(&mock_lock);
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    if (most_us > 0)
        pause.tv_nsec = (long)((seed >> 33) % (uint64_t)most_us) * 1000;
    (void)pthread_mutex_unlock(&mock_lock);
    if (pause.tv_nsec > 0)
        (void)nanosleep(&pause, NULL);
}

/** Like mock_place(), for a kernel of @p context, which must reach the memory; 0: it does not.
 * Held: lock. */
static uint64_t place_for(const struct context *context, uint64_t address, size_t bytes)
{
    return mock_reaches(context, address) ? (uint64_t)(uintptr_t)mock_place(address, bytes) : 0;
}

/** Translates the program's addresses to the mock's. Held: lock. */
static bool resolve(const struct context *context, struct op *op)
{
    bool good = true;
    if (op->what == COPY) {
        op->into = (uint64_t)(uintptr_t)mock_place(op->into, op->count);
        op->from = (uint64_t)(uintptr_t)mock_place(op->from, op->count);
        return op->into && op->from;
    }
    if (op->answer)
        return (op->answer = (uint64_t)(uintptr_t)mock_place(op->answer, 4)) != 0;
    if (op->what != KERNEL)
        return true;
    if (op->kernel->program)
        return mock_program_resolve(&op->launch);
    for (uint64_t i = 0; i < op->job.nin; i++)
        good &= (op->job.in[i] = place_for(context, op->job.in[i], op->job.bytes)) != 0;
    for (uint64_t i = 0; i < op->job.nout; i++)
        good &= (op->job.out[i] = place_for(context, op->job.out[i], op->job.bytes)) != 0;
    return good;
}

/** Counts the copies that mock_pace() limits. Held: lock. */
static void count_copy(const struct op *op)
{
    if (!is_of_device(op->from) && is_of_device(op->into))
        copies_left = -1;
    else if (is_of_device(op->from) && !is_of_device(op->into) && copies_left > 0)
        copies_left--;
}

/** Not held: lock. */
static void carry_out(struct op *op)
{
    if (op->what == COPY)
        memcpy((void *)(uintptr_t)op->into, (const void *)(uintptr_t)op->from, op->count);
    else if (op->what == KERNEL && op->kernel->program)
        mock_program_run(&op->launch);
    else if (op->what == KERNEL)
        mock_kernel_run(op->kernel, &op->job, op->count);
    else if (op->what == CALL) {
        mock_is_called = true;
        op->call(op->context);
        mock_is_called = false;
    }
}

/** Does the first operation of the queue. Held: lock; released meanwhile. */
static void do_first(struct stream *stream)
{
    struct op *op = stream->first;
    while (!mock_lost && (is_held || !is_ready(stream, op)))
        wait_a_while();
    if (!mock_lost && async_in > 0 && --async_in == 0)
        mock_lose(async_with);
    if (op->what == COPY && copies_left >= 0)
        count_copy(op);
    if (!mock_lost && !resolve(stream->context, op))
        mock_lose(KOLO_CUDA_ILLEGAL_ADDRESS);
    if (!mock_lost) {
        copying++;
        (void)pthread_mutex_unlock(&mock_lock);
        dawdle();
        carry_out(op);
        (void)pthread_mutex_lock(&mock_lock);
        copying--;
        if (op->what == RECORD_PART)
            op->event->parts--;
        if (op->what == RECORD)
            op->event->done++;
        /* the program frees the page as soon as it sees the value, but not before the lock is
         * free */
        if (op->answer)
            __atomic_store_n((uint32_t *)(uintptr_t)op->answer, (uint32_t)op->count,
                             __ATOMIC_RELEASE);
    }
    stream->first = op->next;
    if (!op->next)
        stream->last = NULL;
    stream->length--;
    stream->done++;
    waiting--;
    free(op->owned);
    free(op);
    (void)pthread_cond_broadcast(&changed);
}

/** A scan of all streams for work while the process ends must not find this one. Held: lock. */
static void take_out(const struct stream *stream)
{
    for (int i = 0; i < STREAMS_MAX; i++)
        if (streams[i] == stream)
            streams[i] = NULL;
    for (int i = 0; i < CONTEXTS; i++)
        if (defaults[i] == stream)
            defaults[i] = NULL;
}

static void *live(void *argument)
{
    struct stream *stream = argument;
    (void)pthread_mutex_lock(&mock_lock);
    for (;;)
        if (stream->first)
            do_first(stream);
        else if (stream->is_closing)
            break;
        else
            (void)pthread_cond_wait(&changed, &mock_lock);
    take_out(stream);
    free(stream);
    mock_thread_over();
    (void)pthread_mutex_unlock(&mock_lock);
    return NULL;
}

/** Held: lock. */
static struct stream *make_stream(struct context *context, int priority, bool is_blocking)
{
    int at = 0;
    struct stream *stream = calloc(1, sizeof *stream);
    while (at < STREAMS_MAX && streams[at])
        at++;
    if (!stream || at == STREAMS_MAX)
        abort();
    stream->context = context;
    stream->priority = priority;
    stream->is_blocking = is_blocking;
    streams[at] = stream;
    mock_thread_start(live, stream);
    return stream;
}

/** A default stream of the current context, which is made if there is none yet; NULL: no context is
 * current. Held: lock. */
static struct stream *find_default(bool is_legacy)
{
    if (!mock_top())
        return NULL;
    const int context = __builtin_ctz(mock_top()->bit);
    struct stream **found = is_legacy ? &defaults[context] : &own[context];
    if (!*found)
        *found = make_stream(mock_top(), 0, !is_legacy);
    (*found)->is_legacy = is_legacy;
    return *found;
}

/** The stream; NULL: there is none. Held: lock. */
static struct stream *find(void *handle)
{
    if ((uintptr_t)handle <= PER_THREAD)
        return find_default((uintptr_t)handle != PER_THREAD);
    for (int i = 0; i < STREAMS_MAX; i++)
        if (streams[i] == handle)
            return streams[i];
    return NULL;
}

/** A real queue of launches is limited too. Held: lock; released while waiting, so that afterwards
 * the stream may be gone. */
static void await_room(const struct stream *stream)
{
    blocked++;
    while (!mock_lost && longest > 0 && stream->length >= longest)
        (void)pthread_cond_wait(&changed, &mock_lock);
    blocked--;
}

/** Held: lock. */
static int submit(void *handle, const struct op *what)
{
    struct stream *stream = find(handle);
    struct op *op = malloc(sizeof *op);
    if (!op)
        abort();
    *op = *what;
    if (stream && stream->capture == MOCK_NO_CAPTURE && op->what != RECORD_PART)
        await_room(stream);
    stream = find(handle);
    if (!stream || stream->capture != MOCK_NO_CAPTURE) {
        free(op->owned);
        free(op);
        return stream ? KOLO_CUDA_STREAM_CAPTURE_UNSUPPORTED : KOLO_CUDA_INVALID_HANDLE;
    }
    op->next = NULL;
    op->number = ++numbers;
    stream->length++;
    stream->given++;
    waiting++;
    if (stream->last)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    (void)pthread_cond_broadcast(&changed);
    return KOLO_CUDA_SUCCESS;
}

/** Whether it has done its earlier operations, or is gone. Another stream at its place in the table
 * may delay the answer. */
static bool has_done(int at, const struct stream *stream, uint64_t given)
{
    return streams[at] != stream || streams[at]->done >= given;
}

void mock_admit(void)
{
    while (is_alone && !pthread_equal(alone, pthread_self()) && !mock_lost)
        (void)pthread_cond_wait(&changed, &mock_lock);
}

void mock_streams_wait_alone(const struct context *context)
{
    if (!getenv("MOCK_CUDA_ALONE"))
        return;
    mock_admit();
    is_alone = true;
    alone = pthread_self();
    mock_streams_wait(context);
    is_alone = false;
    (void)pthread_cond_broadcast(&changed);
}

void mock_streams_wait(const struct context *context)
{
    struct stream *of[STREAMS_MAX];
    uint64_t given[STREAMS_MAX];
    for (int i = 0; i < STREAMS_MAX; i++) {
        of[i] = streams[i] && streams[i]->context == context ? streams[i] : NULL;
        given[i] = of[i] ? of[i]->given : 0;
    }
    blocked++;
    for (int i = 0; i < STREAMS_MAX; i++)
        while (!mock_lost && of[i] && !has_done(i, of[i], given[i]))
            (void)pthread_cond_wait(&changed, &mock_lock);
    blocked--;
}

bool mock_streams_spoil(const struct context *context, bool is_global)
{
    bool spoils = false;
    for (int i = 0; i < STREAMS_MAX; i++)
        if (streams[i] && streams[i]->capture >= (is_global ? MOCK_CAPTURE_GLOBAL : MOCK_CAPTURE) &&
            (!context || streams[i]->context == context))
            spoils = streams[i]->is_spoilt = true;
    return spoils;
}

/** Calls that may wait for a stream, or cannot be part of a graph, invalidate captures of other
 * threads, unless the calling thread has chosen relaxed mode. Held: lock. */
bool mock_is_refused(const char *name)
{
    static const char *const unsafe[] = {"cuCtxSynchronize",
                                         "cuEventQuery",
                                         "cuMemAlloc_v2",
                                         "cuMemFree_v2",
                                         "cuMemHostRegister_v2",
                                         "cuMemcpyDtoH_v2",
                                         "cuMemHostUnregister",
                                         "cuMemsetD8_v2",
                                         "cuModuleLoadData",
                                         "cuModuleUnload",
                                         "cuStreamQuery",
                                         "cuStreamSynchronize",
                                         "cuDevicePrimaryCtxRetain",
                                         "cuStreamCreateWithPriority",
                                         "cuFuncLoad"};
    if (capture_mode == KOLO_CUDA_CAPTURE_MODE_RELAXED)
        return false;
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        if (strcmp(name, unsafe[i]) == 0)
            return mock_streams_spoil(NULL, true);
    return false;
}

void mock_streams_end(void)
{
    if (!mock_lost)
        mock_lost = KOLO_CUDA_CONTEXT_IS_DESTROYED;
    for (int i = 0; i < STREAMS_MAX; i++)
        if (streams[i])
            streams[i]->is_closing = true;
    (void)pthread_cond_broadcast(&changed);
}

void mock_streams_forget(void)
{
    while (mock_lost && waiting > 0)
        (void)pthread_cond_wait(&changed, &mock_lock);
}

/** @p address may be the program's or the mock's. */
static bool is_within(const struct allocation *a, uint64_t address)
{
    return address - (uint64_t)(uintptr_t)a->memory < a->bytes ||
           address - (uint64_t)(uintptr_t)a->alias < a->bytes;
}

static bool op_uses(const struct op *op, const struct allocation *a)
{
    if (op->what == COPY)
        return is_within(a, op->into) || is_within(a, op->from);
    if (op->what == AWAIT_VALUE)
        return is_within(a, op->into) || (op->answer && is_within(a, op->answer));
    bool uses = false;
    for (uint64_t i = 0; op->what == KERNEL && i < op->job.nin; i++)
        uses |= is_within(a, op->job.in[i]);
    for (uint64_t i = 0; op->what == KERNEL && i < op->job.nout; i++)
        uses |= is_within(a, op->job.out[i]);
    return uses;
}

bool mock_streams_use(const struct allocation *a)
{
    for (int i = 0; i < STREAMS_MAX && !mock_lost; i++)
        for (const struct op *op = streams[i] ? streams[i]->first : NULL; op; op = op->next)
            if (op_uses(op, a))
                return true;
    return false;
}

/* ---- the driver ---- */

/** Moves the event to the front: destroyed ones are kept for ever, but those in use are looked up
 * again and again. */
static bool is_event(const void *event)
{
    for (struct event **at = &events; *at; at = &(*at)->next)
        if (*at == event) {
            struct event *found = *at;
            *at = found->next;
            found->next = events;
            events = found;
            return !found->is_destroyed;
        }
    return false;
}

int cuStreamCreateWithPriority(void **stream_out, unsigned flags, int priority)
{
    ENTER();
    if (!mock_top() || flags > KOLO_CUDA_STREAM_NON_BLOCKING)
        return mock_top() ? KOLO_CUDA_INVALID_VALUE : KOLO_CUDA_INVALID_CONTEXT;
    const int nearest = priority < GREATEST_PRIORITY ? GREATEST_PRIORITY
                        : priority > 0               ? 0
                                                     : priority;
    *stream_out = make_stream(mock_top(), nearest, flags != KOLO_CUDA_STREAM_NON_BLOCKING);
    return KOLO_CUDA_SUCCESS;
}

/* For programs. */
int cuStreamCreate(void **stream_out, unsigned flags) __attribute__((visibility("default")));
int cuStreamCreate(void **stream_out, unsigned flags)
{
    return cuStreamCreateWithPriority(stream_out, flags, 0);
}

int cuCtxGetStreamPriorityRange(int *least_out, int *greatest_out)
{
    ENTER();
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    *least_out = 0;
    *greatest_out = GREATEST_PRIORITY;
    return KOLO_CUDA_SUCCESS;
}

int cuStreamDestroy(void *handle)
{
    ENTER();
    struct stream *stream = find(handle);
    if (!stream || (uintptr_t)handle <= PER_THREAD)
        return KOLO_CUDA_INVALID_HANDLE;
    take_out(stream);
    stream->is_closing = true;
    (void)pthread_cond_broadcast(&changed);
    return KOLO_CUDA_SUCCESS;
}

int cuStreamQuery(void *handle)
{
    ENTER();
    const struct stream *stream = find(handle);
    if (!stream)
        return KOLO_CUDA_INVALID_HANDLE;
    if (mock_is_timed() && stream->due > kolo_now_ns())
        return KOLO_CUDA_NOT_READY;
    return stream->first ? KOLO_CUDA_NOT_READY : KOLO_CUDA_SUCCESS;
}

int cuStreamSynchronize(void *handle)
{
    ENTER();
    const struct stream *stream = find(handle);
    if (!stream)
        return KOLO_CUDA_INVALID_HANDLE;
    while (!mock_lost && stream->first)
        (void)pthread_cond_wait(&changed, &mock_lock);
    return mock_lost;
}

/* Default streams are those of the current context. */
int cuStreamGetCtx(void *handle, void **context_out)
{
    ENTER();
    const struct stream *stream = find(handle);
    if (!stream)
        return (uintptr_t)handle <= PER_THREAD ? KOLO_CUDA_INVALID_CONTEXT
                                               : KOLO_CUDA_INVALID_HANDLE;
    *context_out = stream->context;
    return KOLO_CUDA_SUCCESS;
}

int cuStreamIsCapturing(void *handle, int *capture_out)
{
    ENTER();
    const struct stream *stream = find(handle);
    if (!stream)
        return KOLO_CUDA_INVALID_HANDLE;
    *capture_out = stream->capture != MOCK_NO_CAPTURE;
    return KOLO_CUDA_SUCCESS;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    const int before = capture_mode;
    if (*mode < 0 || *mode > KOLO_CUDA_CAPTURE_MODE_RELAXED)
        return KOLO_CUDA_INVALID_VALUE;
    capture_mode = *mode; /* works with a lost device too */
    *mode = before;
    return KOLO_CUDA_SUCCESS;
}

/** Supports the batches that kolo makes: a wait, and a write to the location that it waits for. */
int cuStreamBatchMemOp(void *stream, unsigned count, struct kolo_cuda_memory_op *operations,
                       unsigned flags)
{
    ENTER();
    const struct kolo_cuda_memory_op *wait = operations, *write = operations + 1;
    if (count != 2 || flags != 0 || wait->operation != KOLO_CUDA_WAIT_VALUE ||
        wait->flags != KOLO_CUDA_WAIT_GREATER || write->operation != KOLO_CUDA_WRITE_VALUE ||
        write->flags != KOLO_CUDA_WRITE_DEFAULT || write->value != wait->value ||
        !mock_allocation(wait->at) || !mock_allocation(write->at))
        return KOLO_CUDA_INVALID_VALUE;
    return submit(stream, &(struct op){.what = AWAIT_VALUE,
                                       .into = wait->at,
                                       .answer = write->at,
                                       .count = wait->value});
}

int cuEventCreate(void **event_out, unsigned flags)
{
    ENTER();
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        abort();
    if (!mock_top() || flags > KOLO_CUDA_EVENT_NO_TIMING + 1) {
        free(event);
        return mock_top() ? KOLO_CUDA_INVALID_VALUE : KOLO_CUDA_INVALID_CONTEXT;
    }
    event->context = mock_top();
    event->next = events;
    *event_out = events = event;
    return KOLO_CUDA_SUCCESS;
}

int cuEventRecord(void *event, void *handle)
{
    ENTER();
    struct event *recorded = event;
    const struct stream *stream = find(handle);
    if (!is_event(event) || !stream || stream->context != recorded->context)
        return KOLO_CUDA_INVALID_HANDLE;
    if (mock_is_timed()) {
        recorded->due = stream->due;
        return KOLO_CUDA_SUCCESS;
    }
    const int result = submit(handle, &(struct op){.what = RECORD, .event = recorded});
    recorded->given += result == KOLO_CUDA_SUCCESS;
    return result;
}

int cuStreamWaitEvent(void *handle, void *event, unsigned flags)
{
    ENTER();
    struct event *awaited = event;
    if (!is_event(event) || flags != 0)
        return flags == 0 ? KOLO_CUDA_INVALID_HANDLE : KOLO_CUDA_INVALID_VALUE;
    return submit(handle,
                  &(struct op){.what = AWAIT_EVENT, .event = awaited, .count = awaited->given});
}

int cuEventDestroy(void *event)
{
    ENTER();
    if (!is_event(event))
        return KOLO_CUDA_INVALID_HANDLE;
    ((struct event *)event)->is_destroyed = true;
    return KOLO_CUDA_SUCCESS;
}

int cuCtxRecordEvent(void *context, void *event)
{
    ENTER();
    struct event *recorded = event;
    int result = is_event(event) && recorded->context == context ? KOLO_CUDA_SUCCESS
                                                                 : KOLO_CUDA_INVALID_HANDLE;
    if (mock_streams_spoil(context, false))
        return KOLO_CUDA_STREAM_CAPTURE_UNSUPPORTED;
    mock_write_pending(context);
    for (int i = 0; i < STREAMS_MAX && result == KOLO_CUDA_SUCCESS; i++)
        if (streams[i] && streams[i]->context == context && streams[i]->first) {
            result = submit(streams[i], &(struct op){.what = RECORD_PART, .event = recorded});
            recorded->parts += result == KOLO_CUDA_SUCCESS;
        }
    return result;
}

int cuEventQuery(void *event)
{
    ENTER();
    const struct event *asked = event;
    if (!is_event(event))
        return KOLO_CUDA_INVALID_HANDLE;
    if (mock_is_timed() && asked->due > kolo_now_ns())
        return KOLO_CUDA_NOT_READY;
    return asked->parts > 0 || asked->done < asked->given ? KOLO_CUDA_NOT_READY : KOLO_CUDA_SUCCESS;
}

int cuLaunchHostFunc(void *stream, void (*function)(void *), void *context)
{
    ENTER();
    return submit(stream, &(struct op){.what = CALL, .call = function, .context = context});
}

/** As the driver's documentation allows, a copy from or to memory that is not page-locked waits for
 * its stream, if MOCK_CUDA_PAGEABLE is set. Held: lock; released while waiting. */
static void wait_for_pageable(void *handle)
{
    const struct stream *stream = find(handle);
    const uint64_t given = stream ? stream->given : 0;
    while (getenv("MOCK_CUDA_PAGEABLE") && !mock_lost && find(handle) == stream && stream &&
           stream->done < given)
        (void)pthread_cond_wait(&changed, &mock_lock);
}

int cuMemcpyAsync(uint64_t into, uint64_t from, size_t bytes, void *stream)
{
    ENTER();
    const struct allocation *to = mock_allocation(into), *of = mock_allocation(from);
    if ((to && !mock_within(to, into, bytes)) || (of && !mock_within(of, from, bytes)) ||
        (!to && !of)) /* memory that is not page-locked would make the call wait */
        return KOLO_CUDA_INVALID_VALUE;
    if (mock_is_timed() && find(stream)) {
        find(stream)->due =
            mock_timed_copy(find(stream)->due, is_of_device(from) && !is_of_device(into), bytes);
        mock_timed_call();
        return KOLO_CUDA_SUCCESS;
    }
    const int result =
        submit(stream, &(struct op){.what = COPY, .into = into, .from = from, .count = bytes});
    if (result == KOLO_CUDA_SUCCESS && (!to || !of))
        wait_for_pageable(stream);
    return result;
}

int cuModuleLoadData(void **module_out, const void *image)
{
    static const unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba};
    ENTER();
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (memcmp(image, fatbin, sizeof fatbin) != 0)
        return KOLO_CUDA_INVALID_IMAGE;
    mock_streams_wait_alone(mock_top());
    mock_streams_wait(mock_top());
    if (mock_lost)
        return mock_lost;
    the_module.loaded++;
    *module_out = &the_module;
    return KOLO_CUDA_SUCCESS;
}

int cuModuleUnload(void *module)
{
    ENTER();
    if (module != &the_module || the_module.loaded-- <= 0)
        return KOLO_CUDA_INVALID_HANDLE;
    for (struct mock_kernel *kernel = mock_kernels(); kernel->name && the_module.loaded == 0;
         kernel++)
        kernel->is_loaded = false;
    return KOLO_CUDA_SUCCESS;
}

/** Kernels are loaded at their first use, which waits for all streams of the context, as it may in
 * drivers. Held: lock; released while waiting. */
static int load(struct mock_kernel *kernel)
{
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (!kernel->is_loaded)
        mock_streams_wait(mock_top());
    kernel->is_loaded = true;
    return mock_lost;
}

int cuFuncLoad(void *function)
{
    ENTER();
    return function ? load(function) : KOLO_CUDA_INVALID_HANDLE;
}

int cuModuleGetFunction(void **function_out, void *module, const char *name)
{
    ENTER();
    if (module != &the_module)
        return KOLO_CUDA_INVALID_HANDLE;
    struct mock_kernel *kernel = mock_kernel_named(name);
    if (!kernel)
        kernel = mock_program_kernel_named(name);
    *function_out = kernel;
    return kernel ? KOLO_CUDA_SUCCESS : KOLO_CUDA_NOT_FOUND;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **parameters, void **extra)
{
    ENTER();
    if (!function || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 ||
        block_x > KOLO_CUDA_BLOCK || block_y != 1 || block_z != 1 || shared_bytes != 0 || extra)
        return KOLO_CUDA_INVALID_VALUE;
    struct op op = {.what = KERNEL, .kernel = function, .count = (uint64_t)grid_x * block_x};
    const int loaded = load(function);
    if (loaded != KOLO_CUDA_SUCCESS)
        return loaded;
    if (!op.kernel->program)
        memcpy(&op.job, parameters[0], sizeof op.job);
    else if (!mock_program_take(&op.launch, op.kernel->program, grid_x, block_x, parameters))
        return KOLO_CUDA_INVALID_VALUE;
    return submit(stream, &op);
}

/* ---- the hooks ---- */

void *mock_stream(int device)
{
    LOCKED();
    return make_stream(mock_primary(device), 0, true);
}

void mock_write_on(void *stream, void *memory, const void *from, size_t bytes)
{
    LOCKED();
    uint8_t *copy = malloc(bytes + (bytes == 0));
    if (!copy)
        abort();
    memcpy(copy, from, bytes);
    const struct op op = {.what = COPY,
                          .into = (uint64_t)(uintptr_t)memory,
                          .from = (uint64_t)(uintptr_t)copy,
                          .count = bytes,
                          .owned = copy};
    if (submit(stream, &op) != KOLO_CUDA_SUCCESS)
        abort();
}

void mock_await(void *stream, const void *memory, unsigned value)
{
    LOCKED();
    const struct op op = {.what = AWAIT_VALUE, .into = (uint64_t)(uintptr_t)memory, .count = value};
    if (submit(stream, &op) != KOLO_CUDA_SUCCESS)
        abort();
}

int mock_capture(void *handle, enum mock_capture capture)
{
    LOCKED();
    struct stream *stream = find(handle);
    const int is_good = !stream->is_spoilt;
    stream->capture = capture;
    stream->is_spoilt = false;
    return is_good;
}

int mock_capture_mode(void)
{
    return capture_mode;
}

void mock_queue(int most)
{
    LOCKED();
    longest = most;
    (void)pthread_cond_broadcast(&changed);
}

void mock_one_queue(int is_one)
{
    LOCKED();
    is_one_queue = is_one != 0;
}

int mock_blocked(void)
{
    LOCKED();
    return blocked;
}

void mock_delays(unsigned from, int most)
{
    LOCKED();
    seed = from;
    most_us = most;
}

void mock_hold(int held)
{
    LOCKED();
    is_held = held != 0;
}

void mock_mute(int muted)
{
    LOCKED();
    is_muted = muted != 0;
}

void mock_pace(int most)
{
    LOCKED();
    copies_left = most;
}

void mock_fail_async(int nth, int result)
{
    LOCKED();
    async_in = nth;
    async_with = result;
}
