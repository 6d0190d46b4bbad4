// SPDX-License-Identifier: Apache-2.0
// What a CUDA device gives at most, for bench/gpu: `device_rate [BYTES]` (256 MiB) prints one line
// of JSON: how many devices there are and the name of the first, the rates of copies on it and from
// and to page-locked memory in GB/s (bytes copied, once), and what one kernel launch takes until it
// is over, and how far apart launches in a row are, in microseconds. Medians of several runs. What
// cannot be had (locked pages, kernels) is left out, with a line. Exit status 77: no device.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "memory/cuda_fold.h"
#include "memory/cuda_memory.h"

enum { RUNS = 15, LAUNCHES = 100, MS = 60000, UNAVAILABLE = 77 };

struct rig {
    const struct kolo_cuda_driver *driver;
    struct kolo_pointer from, to;
    struct kolo_cuda_visit visit;
    struct kolo_cuda_kernels *kernels; /* NULL: this build has none */
    void *stream, *host;
    bool is_locked; /* the host's memory is */
    size_t bytes;
};

static void check(kolo_status status, const char *what)
{
    if (status == KOLO_OK)
        return;
    fprintf(stderr, "device_rate: %s: %s\n", what, kolo_error_detail());
    exit(status == KOLO_ERR_UNSUPPORTED ? UNAVAILABLE : 1);
}

static void judge(const struct rig *rig, const char *call, int result)
{
    if (result != KOLO_CUDA_SUCCESS)
        check(kolo_cuda_fail(rig->driver, call, rig->visit.ordinal, result), "failed");
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/** Until it is over. */
static void finish(const struct rig *rig)
{
    judge(rig, "cuStreamSynchronize", rig->driver->stream_synchronize(rig->stream));
}

/** The median time in ns of @p work and its end; the first run is not counted. */
static double median(struct rig *rig, void (*work)(struct rig *rig))
{
    int64_t ns[RUNS];
    work(rig);
    finish(rig);
    for (int i = 0; i < RUNS; i++) {
        const int64_t begun = kolo_now_ns();
        work(rig);
        finish(rig);
        ns[i] = kolo_now_ns() - begun;
    }
    qsort(ns, RUNS, sizeof *ns, ascending);
    return (double)ns[RUNS / 2];
}

static void copy(struct rig *rig, const void *to, const void *from)
{
    judge(rig, "cuMemcpyAsync",
          rig->driver->copy((uintptr_t)to, (uintptr_t)from, rig->bytes, rig->stream));
}

static void copy_within(struct rig *rig)
{
    copy(rig, rig->to.memory, rig->from.memory);
}

static void copy_in(struct rig *rig)
{
    copy(rig, rig->host, rig->from.memory);
}

static void copy_out(struct rig *rig)
{
    copy(rig, rig->to.memory, rig->host);
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

/** The last that is done with the device, which a kernel that fails takes along. */
static bool can_launch(struct rig *rig)
{
    kolo_status status = kolo_cuda_kernels_load(rig->driver, rig->visit.ordinal, &rig->kernels);
    if (status == KOLO_OK)
        status = try_launch(rig);
    const int result = status == KOLO_OK ? rig->driver->stream_synchronize(rig->stream) : 0;
    if (result != KOLO_CUDA_SUCCESS)
        status = kolo_cuda_fail(rig->driver, "a kernel", rig->visit.ordinal, result);
    if (status != KOLO_OK)
        fprintf(stderr, "device_rate: no launch is measured: %s\n", kolo_error_detail());
    return status == KOLO_OK;
}

static void launch_in_a_row(struct rig *rig)
{
    for (int i = 0; i < LAUNCHES; i++)
        launch(rig);
}

static void set_up(struct rig *rig)
{
    struct kolo_pin pin;
    check(kolo_device_alloc(0, NULL, rig->bytes, &rig->from), "memory of a device");
    check(kolo_device_alloc(0, NULL, rig->bytes, &rig->to), "memory of a device");
    rig->driver = kolo_cuda_driver_loaded();
    check(kolo_cuda_visit_primary(&rig->from, &rig->visit), "context");
    check(kolo_cuda_enter(&rig->visit), "context");
    judge(rig, "cuStreamCreate",
          rig->driver->stream_create(&rig->stream, KOLO_CUDA_STREAM_NON_BLOCKING, 0));
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

int main(int argc, char **argv)
{
    const unsigned long long bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 256u << 20;
    struct rig rig = {.bytes = (size_t)bytes};
    char name[128] = "?";
    int device = 0, count = 0;
    if (bytes < 4 || bytes > (1ull << 40)) {
        fprintf(stderr, "device_rate: %s: expected bytes, from 4 to 2^40\n", argv[1]);
        return 2;
    }
    set_up(&rig);
    judge(&rig, "cuDeviceGetCount", rig.driver->device_get_count(&count));
    judge(&rig, "cuDeviceGet", rig.driver->device_get(&device, 0));
    judge(&rig, "cuDeviceGetName", rig.driver->device_get_name(name, sizeof name - 1, device));
    for (char *c = name; *c; c++)
        if (*c == '"' || *c == '\\' || *c < ' ')
            *c = '?';
    printf("{\"devices\": %d, \"name\": \"%s\", \"bytes\": %zu, \"copy_gbps\": %.3f", count, name,
           rig.bytes, gbps(&rig, median(&rig, copy_within)));
    if (rig.is_locked)
        printf(", \"to_host_gbps\": %.3f, \"to_device_gbps\": %.3f",
               gbps(&rig, median(&rig, copy_in)), gbps(&rig, median(&rig, copy_out)));
    if (can_launch(&rig))
        printf(", \"launch_us\": %.2f, \"launch_apart_us\": %.2f", median(&rig, launch) / 1e3,
               median(&rig, launch_in_a_row) / 1e3 / LAUNCHES);
    printf("}\n");
    return 0;
}
