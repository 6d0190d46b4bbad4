// SPDX-License-Identifier: Apache-2.0
// Compares the kernels of a real CUDA device with the processor's, bit for bit, for bench/gpu. The
// tests run the same source on the host (tests/memory/test_cuda_fold.c), and cannot see what the
// device's compiler, its conversions of float16 and its loads of 16 bytes do. `device_kernels
// [CALLS]` (12) makes so many calls of each type and operator, of random shapes, and one on more
// than 4 GiB if the device has that much, and prints a line of JSON. Exit status: 1, bits differ
// (the first ones are printed); 77, no device or no kernels.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/types.h>

#include "base/alloc.h"
#include "bench/micro/check.h"
#include "memory/cuda_fold.h"
#include "memory/reduce.h"

/* PATTERNS: of a 16-bit type. BYTES: all of them, and what a shifted vector needs. */
enum {
    INPUTS = 5,
    OUTPUTS = 2,
    PATTERNS = 1 << 16,
    SHIFT = 64,
    BYTES = PATTERNS * 2 + SHIFT,
    CALLS = 12,
    CALLS_MAX = 100000,
    PRINTED = 10
};
static const uint64_t beyond = (UINT64_C(4) << 30) + 4096 + 48;

struct rig {
    const struct kolo_cuda_driver *driver;
    struct kolo_cuda_visit visit;
    struct kolo_cuda_kernels *kernels;
    void *stream;
    uint8_t *in[INPUTS], *out[OUTPUTS]; /* on the device */
    uint8_t host_in[INPUTS][BYTES], expected[BYTES], got[BYTES];
    uint64_t state; /* of random numbers */
    int calls, wrong;
};

/** The next number of splitmix64. */
static uint64_t draw(struct rig *rig)
{
    uint64_t x = rig->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void finish(const struct rig *rig)
{
    judge(&rig->visit, "cuStreamSynchronize", rig->driver->stream_synchronize(rig->stream));
}

static void copy(const struct rig *rig, void *to, const void *from, size_t bytes)
{
    judge(&rig->visit, "cuMemcpyAsync",
          rig->driver->copy((uintptr_t)to, (uintptr_t)from, bytes, rig->stream));
    finish(rig);
}

/* ---- operands ---- */

/** Bits of an element of 8 bytes: often those of a zero, an infinity, a NaN with a payload, a
 * number at the end of a range, or a subnormal one. */
static uint64_t bits64(struct rig *rig)
{
    static const uint64_t special[] = {0,
                                       1,
                                       0x3ff0000000000000,
                                       0x7ff0000000000000,
                                       0x7ff8000000000001,
                                       0x7fefffffffffffff,
                                       0x000fffffffffffff,
                                       0x0010000000000000};
    const uint64_t random = draw(rig), sign = draw(rig) << 63;
    if (random % 3 == 0)
        return sign | special[random / 3 % (sizeof special / sizeof *special)];
    return draw(rig);
}

static uint32_t bits32(struct rig *rig)
{
    static const uint32_t special[] = {0,          1,          0x3f800000, 0x7f800000,
                                       0x7fc12345, 0x7f7fffff, 0x007fffff, 0x00800000};
    const uint64_t random = draw(rig);
    const uint32_t sign = (uint32_t)(draw(rig) & 1) << 31;
    if (random % 3 == 0)
        return sign | special[random / 3 % (sizeof special / sizeof *special)];
    return (uint32_t)draw(rig);
}

/** The first input has every pattern of 16 bits. */
static void put_element(struct rig *rig, uint8_t *at, size_t size, int input, size_t index)
{
    const uint64_t wide = size == 8 ? bits64(rig) : 0;
    const uint32_t word = size == 4 ? bits32(rig) : (uint32_t)draw(rig);
    const uint16_t half = (uint16_t)(input == 0 ? index : word);
    const void *from = size == 8 ? (const void *)&wide : size == 2 ? (const void *)&half : &word;
    memcpy(at, from, size);
}

static void fill(struct rig *rig, size_t size)
{
    for (int k = 0; k < INPUTS; k++) {
        for (size_t i = 0; i < BYTES / size; i++)
            put_element(rig, rig->host_in[k] + i * size, size, k, i);
        copy(rig, rig->in[k], rig->host_in[k], BYTES);
    }
}

/* ---- one call ---- */

static void tell(struct rig *rig, const char *what, size_t size, size_t count, size_t nin)
{
    size_t i = 0;
    while (memcmp(rig->got + i * size, rig->expected + i * size, size) == 0)
        i++;
    if (rig->wrong++ >= PRINTED)
        return;
    fprintf(stderr, "device_kernels: %s: element %zu of %zu, %zu inputs: ", what, i, count, nin);
    for (size_t byte = size; byte-- > 0;)
        fprintf(stderr, "%02x", rig->got[i * size + byte]);
    fprintf(stderr, " on the device, ");
    for (size_t byte = size; byte-- > 0;)
        fprintf(stderr, "%02x", rig->expected[i * size + byte]);
    fprintf(stderr, " on the host\n");
}

static void compare(struct rig *rig, const void *out, const char *what, size_t size, size_t count,
                    size_t nin)
{
    copy(rig, rig->got, out, count * size);
    if (memcmp(rig->got, rig->expected, count * size) != 0)
        tell(rig, what, size, count, nin);
}

/** Shifts of addresses: none; by bytes, which no element is aligned to; or by elements. */
static size_t shift(struct rig *rig, size_t kind, size_t size)
{
    return kind == 0 ? 0 : draw(rig) % 16 / (kind == 1 ? 1 : size) * (kind == 1 ? 1 : size);
}

static void fold(struct rig *rig, const struct kolo_fold *how)
{
    const size_t size = kolo_dtype_bytes(how->dtype), kind = draw(rig) % 3;
    const size_t nin = 1 + draw(rig) % INPUTS, nout = 1 + draw(rig) % OUTPUTS;
    const size_t most = (BYTES - SHIFT) / size;
    const size_t count = draw(rig) % 2 ? most : 1 + draw(rig) % (draw(rig) % 2 ? 70 : most);
    const void *in[INPUTS], *host[INPUTS];
    void *out[OUTPUTS], *place[] = {rig->expected};
    char what[64];
    for (size_t k = 0; k < nin; k++) {
        const size_t by = shift(rig, kind, size);
        in[k] = rig->in[k] + by;
        host[k] = rig->host_in[k] + by;
    }
    for (size_t j = 0; j < nout; j++)
        out[j] = rig->out[j] + shift(rig, kind, size);
    const size_t over = draw(rig) % (2 * nin); /* an output may be an input */
    if (over < nin)
        out[0] = (void *)(uintptr_t)in[over];
    kolo_fold(how, place, 1, host, nin, count, KOLO_STORE_CACHED);
    check(kolo_cuda_fold(rig->kernels, rig->stream, how, out, nout, in, nin, count), "a fold");
    finish(rig);
    (void)snprintf(what, sizeof what, "%s of %s, divisor %zu", kolo_redop_text(how->op),
                   kolo_dtype_text(how->dtype), how->divisor);
    for (size_t j = 0; j < nout; j++)
        compare(rig, out[j], what, size, count, nin);
    if (over < nin)
        copy(rig, rig->in[over], rig->host_in[over], BYTES);
    rig->calls++;
}

static void scale(struct rig *rig, kolo_dtype dtype)
{
    static const double factors[] = {0.1, -3, 1e-300, 65504, 0x1p-14, 0};
    const size_t size = kolo_dtype_bytes(dtype);
    char what[64];
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        const size_t by = i % 2 * size, count = (BYTES - SHIFT) / size - i;
        kolo_scale(rig->expected, rig->host_in[0] + by, count, dtype, factors[i]);
        check(kolo_cuda_scale(rig->kernels, rig->stream, rig->out[0] + by, rig->in[0] + by, count,
                              dtype, factors[i]),
              "a scaling");
        finish(rig);
        (void)snprintf(what, sizeof what, "%s times %g", kolo_dtype_text(dtype), factors[i]);
        compare(rig, rig->out[0] + by, what, size, count, 1);
        rig->calls++;
    }
}

static void check_type(struct rig *rig, kolo_dtype dtype, int calls)
{
    fill(rig, kolo_dtype_bytes(dtype));
    for (int op = 0; op < KOLO_REDOPS; op++)
        for (int i = 0; i < calls && kolo_reduce_function(dtype, (kolo_redop)op); i++) {
            const struct kolo_fold how = {.dtype = dtype,
                                          .op = (kolo_redop)op,
                                          .divisor = 1 + draw(rig) % 9 * (size_t)(i % 3)};
            fold(rig, &how);
        }
    if (kolo_dtype_is_float(dtype))
        scale(rig, dtype);
}

/* ---- more than 4 GiB ---- */

/** Sums bytes: all of one input are 1, of the other 2. Looks at both ends and at 4 GiB. False: the
 * device has no room. */
static bool check_long(struct rig *rig)
{
    const struct kolo_fold sum = {.dtype = KOLO_UINT8, .op = KOLO_SUM};
    const uint64_t places[] = {0, (UINT64_C(4) << 30) - SHIFT / 2, beyond - SHIFT};
    kolo_cuda_address memory[2] = {0, 0};
    bool has_room = true;
    for (unsigned char i = 0; i < 2 && has_room; i++)
        has_room = rig->driver->alloc(&memory[i], beyond) == KOLO_CUDA_SUCCESS;
    if (has_room) {
        void *const out[] = {(void *)(uintptr_t)memory[1]};
        const void *const in[] = {(const void *)(uintptr_t)memory[0], out[0]};
        for (unsigned char i = 0; i < 2; i++)
            judge(&rig->visit, "cuMemsetD8",
                  rig->driver->clear(memory[i], (unsigned char)(i + 1), beyond));
        judge(&rig->visit, "cuCtxSynchronize", rig->driver->context_synchronize());
        check(kolo_cuda_fold(rig->kernels, rig->stream, &sum, out, 1, in, 2, beyond), "a fold");
        finish(rig);
        memset(rig->expected, 3, SHIFT);
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            compare(rig, (const uint8_t *)out[0] + places[i], "sum of more than 4 GiB", 1, SHIFT,
                    2);
        rig->calls++;
    }
    for (int i = 0; i < 2; i++)
        if (memory[i])
            judge(&rig->visit, "cuMemFree", rig->driver->free(memory[i]));
    return has_room;
}

static void set_up(struct rig *rig)
{
    struct kolo_pointer memory;
    for (int i = 0; i < INPUTS + OUTPUTS; i++) {
        check(kolo_device_alloc(0, NULL, BYTES, &memory), "memory of a device");
        *(i < INPUTS ? &rig->in[i] : &rig->out[i - INPUTS]) = (uint8_t *)(uintptr_t)memory.memory;
    }
    rig->driver = kolo_cuda_driver_loaded();
    check(kolo_cuda_visit_primary(&memory, &rig->visit), "context");
    check(kolo_cuda_enter(&rig->visit), "context");
    judge(&rig->visit, "cuStreamCreate",
          rig->driver->stream_create(&rig->stream, KOLO_CUDA_STREAM_NON_BLOCKING, 0));
    check(kolo_cuda_kernels_load(rig->driver, rig->visit.ordinal, KOLO_NEVER, &rig->kernels),
          "kernels");
}

int main(int argc, char **argv)
{
    const long calls = argc > 1 ? strtol(argv[1], NULL, 10) : CALLS;
    struct rig *rig = kolo_calloc(1, sizeof *rig);
    if (argc > 2 || calls < 1 || calls > CALLS_MAX || !rig) {
        fprintf(stderr, "device_kernels: %s: expected a number of calls, from 1 to %d\n",
                argv[argc - 1], CALLS_MAX);
        return 2;
    }
    set_up(rig);
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        check_type(rig, (kolo_dtype)dtype, (int)calls);
    const bool is_long = check_long(rig);
    printf("{\"calls\": %d, \"wrong\": %d, \"beyond_4GiB\": %s}\n", rig->calls, rig->wrong,
           is_long ? "true" : "false");
    return rig->wrong > 0;
}
