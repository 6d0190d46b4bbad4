// SPDX-License-Identifier: Apache-2.0
// Upper limits of a CUDA device, for bench/gpu. `device_rate [BYTES]` (256 MiB) prints one line of
// JSON: the number of devices and the name of the first; the rates of copies on it and from and to
// page-locked memory in GB/s (bytes copied, once); and the time of one kernel launch until it is
// over and between launches in a row, in microseconds. `device_rate --calls` prints one line with
// the times of the driver's calls that a short collective consists of, in microseconds; several
// processes at once share the device, as ranks do. All are medians of several runs. What is not
// available (locked pages, kernels) is left out, with a line. Exit status 77: no device.
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/micro/check.h"
#include "memory/cuda_fold.h"

enum { RUNS = 15, CALL_RUNS = 301, LAUNCHES = 100, MS = 60000, CALLS_BYTES = 1 << 16 };

struct rig {
    const struct kolo_cuda_driver *driver;
    struct kolo_pointer from, to;
    struct kolo_cuda_visit visit;
    struct kolo_cuda_kernels *kernels; /* NULL: this build has none */
    void *stream, *teller, *event, *host;
    _Atomic(void *) awaiting; /* as a lane keeps it */
    bool is_locked;           /* whether the host's memory is */
    atomic_int told;          /* set by host functions in the stream */
    size_t bytes;
    int runs; /* of which a median is taken */
};

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/** Waits until everything is done. */
static void finish(const struct rig *rig)
{
    judge(&rig->visit, "cuStreamSynchronize", rig->driver->stream_synchronize(rig->stream));
}

/** The median time in ns of @p work; the first run is not counted. The streams' work of one run is
 * over before the next. */
static double median(struct rig *rig, void (*work)(struct rig *rig))
{
    int64_t ns[CALL_RUNS];
    for (int i = -1; i < rig->runs; i++) {
        const int64_t begun = kolo_now_ns();
        work(rig);
        if (i >= 0)
            ns[i] = kolo_now_ns() - begun;
        judge(&rig->visit, "cuCtxSynchronize", rig->driver->context_synchronize());
    }
    qsort(ns, (size_t)rig->runs, sizeof *ns, ascending);
    return (double)ns[rig->runs / 2];
}

static void copy(struct rig *rig, const void *to, const void *from, size_t bytes)
{
    judge(&rig->visit, "cuMemcpyAsync",
          rig->driver->copy((uintptr_t)to, (uintptr_t)from, bytes, rig->stream));
    finish(rig);
}

static void copy_within(struct rig *rig)
{
    copy(rig, rig->to.memory, rig->from.memory, rig->bytes);
}

static void copy_in(struct rig *rig)
{
    copy(rig, rig->host, rig->from.memory, rig->bytes);
}

static void copy_out(struct rig *rig)
{
    copy(rig, rig->to.memory, rig->host, rig->bytes);
}

static kolo_status try_launch(struct rig *rig)
{
    const struct kolo_fold sum = {.dtype = KOLO_FLOAT32, .op = KOLO_SUM};
    void *const out[] = {(void *)(uintptr_t)rig->to.memory};
    const void *const in[] = {rig->from.memory, rig->to.memory};
    return kolo_cuda_fold(rig->kernels, rig->stream, &sum, out, 1, in, 2, 1);
}

static void launch(struct rig *rig)
{
    check(try_launch(rig), "kolo_cuda_fold");
}

/** Must be the last use of the device, because a kernel that fails makes it unusable. */
static bool can_launch(struct rig *rig)
{
    kolo_status status =
        kolo_cuda_kernels_load(rig->driver, rig->visit.ordinal, KOLO_NEVER, &rig->kernels);
    if (status == KOLO_OK)
        status = try_launch(rig);
    const int result = status == KOLO_OK ? rig->driver->stream_synchronize(rig->stream) : 0;
    if (result != KOLO_CUDA_SUCCESS)
        status = kolo_cuda_fail(rig->driver, "a kernel", rig->visit.ordinal, result);
    if (status != KOLO_OK)
        fprintf(stderr, "device_rate: no launch is measured: %s\n", kolo_error_detail());
    return status == KOLO_OK;
}

static void launch_one(struct rig *rig)
{
    launch(rig);
    finish(rig);
}

static void launch_in_a_row(struct rig *rig)
{
    for (int i = 0; i < LAUNCHES; i++)
        launch(rig);
    finish(rig);
}

/* ---- what a short collective is made of ---- */

static void make_event(struct rig *rig)
{
    void *event = NULL;
    judge(&rig->visit, "cuEventCreate",
          rig->driver->event_create(&event, KOLO_CUDA_EVENT_NO_TIMING));
    judge(&rig->visit, "cuEventDestroy", rig->driver->event_destroy(event));
}

static void await_event(struct rig *rig)
{
    int result;
    while ((result = rig->driver->event_query(rig->event)) == KOLO_CUDA_NOT_READY) {
    }
    judge(&rig->visit, "cuEventQuery", result);
}

static void record(struct rig *rig)
{
    judge(&rig->visit, "cuEventRecord", rig->driver->event_record(rig->event, rig->stream));
    await_event(rig);
}

static void record_context(struct rig *rig)
{
    judge(&rig->visit, "cuCtxRecordEvent",
          rig->driver->context_record_event(rig->visit.context, rig->event));
    await_event(rig);
}

static void synchronize(struct rig *rig)
{
    judge(&rig->visit, "cuCtxSynchronize", rig->driver->context_synchronize());
}

static void await_device(struct rig *rig)
{
    check(kolo_cuda_await(&rig->visit, &rig->awaiting, kolo_deadline_in_ms(MS), NULL),
          "the device's work");
}

static void tell(void *context)
{
    struct rig *rig = context;
    atomic_fetch_add(&rig->told, 1);
}

/** Records a mark as a lane does, with a notification for a sleeping thread (memory/cuda_lane.c),
 * and waits for that. A thread that polls needs record() only. */
static void mark(struct rig *rig)
{
    judge(&rig->visit, "cuEventRecord", rig->driver->event_record(rig->event, rig->stream));
    judge(&rig->visit, "cuStreamWaitEvent",
          rig->driver->stream_wait_event(rig->teller, rig->event, 0));
    judge(&rig->visit, "cuLaunchHostFunc", rig->driver->launch_host(rig->teller, tell, rig));
}

static void mark_and_be_told(struct rig *rig)
{
    const int before = atomic_load(&rig->told);
    mark(rig);
    while (atomic_load(&rig->told) == before)
        (void)sched_yield();
}

static void copy_word_in(struct rig *rig)
{
    copy(rig, rig->host, rig->from.memory, 4);
}

static void copy_word_out(struct rig *rig)
{
    copy(rig, rig->to.memory, rig->host, 4);
}

static bool has_context_events(struct rig *rig)
{
    return rig->driver->context_record_event &&
           rig->driver->context_record_event(rig->visit.context, rig->event) == KOLO_CUDA_SUCCESS;
}

static void print_calls(struct rig *rig)
{
    const bool can_record = has_context_events(rig);
    const struct {
        const char *name;
        void (*work)(struct rig *rig);
        bool is_there;
    } calls[] = {
        {"event_made_and_destroyed", make_event, true},
        {"event_of_stream_recorded_and_seen", record, true},
        {"event_of_context_recorded_and_seen", record_context, can_record},
        {"context_synchronized", synchronize, true},
        {"device_awaited", await_device, true},
        {"mark_put", mark, true},
        {"mark_put_and_told", mark_and_be_told, true},
        {"word_to_host", copy_word_in, rig->is_locked},
        {"word_to_device", copy_word_out, rig->is_locked},
        {"kernel", launch_one, can_launch(rig)},
    };
    const char *separator = "{";
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (!calls[i].is_there)
            continue;
        printf("%s\"%s_us\": %.2f", separator, calls[i].name, median(rig, calls[i].work) / 1e3);
        separator = ", ";
    }
    printf("}\n");
}

static void set_up(struct rig *rig)
{
    struct kolo_pin pin;
    check(kolo_device_alloc(0, NULL, rig->bytes, &rig->from), "memory of a device");
    check(kolo_device_alloc(0, NULL, rig->bytes, &rig->to), "memory of a device");
    rig->driver = kolo_cuda_driver_loaded();
    check(kolo_cuda_visit_primary(&rig->from, &rig->visit), "context");
    check(kolo_cuda_enter(&rig->visit), "context");
    judge(&rig->visit, "cuStreamCreate",
          rig->driver->stream_create(&rig->stream, KOLO_CUDA_STREAM_NON_BLOCKING, 0));
    judge(&rig->visit, "cuStreamCreate",
          rig->driver->stream_create(&rig->teller, KOLO_CUDA_STREAM_NON_BLOCKING, 0));
    judge(&rig->visit, "cuEventCreate",
          rig->driver->event_create(&rig->event, KOLO_CUDA_EVENT_NO_TIMING));
    rig->host = kolo_aligned(4096, rig->bytes);
    check(rig->host ? KOLO_OK : KOLO_ERR_NO_MEMORY, "memory of the host");
    kolo_pin(&rig->from, rig->host, rig->bytes, &pin);
    rig->is_locked = pin.ops != NULL;
    if (!rig->is_locked)
        fprintf(stderr, "device_rate: no copy from and to the host is measured: see the warning\n");
}

static double gbps(const struct rig *rig, double ns)
{
    return ns > 0 ? (double)rig->bytes / ns : 0;
}

static void print_limits(struct rig *rig)
{
    char name[128] = "?";
    int device = 0, count = 0;
    judge(&rig->visit, "cuDeviceGetCount", rig->driver->device_get_count(&count));
    judge(&rig->visit, "cuDeviceGet", rig->driver->device_get(&device, 0));
    judge(&rig->visit, "cuDeviceGetName",
          rig->driver->device_get_name(name, sizeof name - 1, device));
    for (char *c = name; *c; c++)
        if (*c == '"' || *c == '\\' || *c < ' ')
            *c = '?';
    printf("{\"devices\": %d, \"name\": \"%s\", \"bytes\": %zu, \"copy_gbps\": %.3f", count, name,
           rig->bytes, gbps(rig, median(rig, copy_within)));
    if (rig->is_locked)
        printf(", \"to_host_gbps\": %.3f, \"to_device_gbps\": %.3f",
               gbps(rig, median(rig, copy_in)), gbps(rig, median(rig, copy_out)));
    if (can_launch(rig))
        printf(", \"launch_us\": %.2f, \"launch_apart_us\": %.2f", median(rig, launch_one) / 1e3,
               median(rig, launch_in_a_row) / 1e3 / LAUNCHES);
    printf("}\n");
}

int main(int argc, char **argv)
{
    const bool of_calls = argc > 1 && strcmp(argv[1], "--calls") == 0;
    unsigned long long bytes = 256u << 20;
    if (of_calls)
        bytes = CALLS_BYTES;
    else if (argc > 1)
        bytes = strtoull(argv[1], NULL, 10);
    struct rig rig = {.bytes = (size_t)bytes, .runs = of_calls ? CALL_RUNS : RUNS};
    if (argc > 2 || bytes < 4 || bytes > (1ull << 40)) {
        fprintf(stderr, "device_rate: %s: expected bytes, from 4 to 2^40, or --calls\n",
                argv[argc - 1]);
        return 2;
    }
    set_up(&rig);
    if (of_calls)
        print_calls(&rig);
    else
        print_limits(&rig);
    return 0;
}
