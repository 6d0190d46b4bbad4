// SPDX-License-Identifier: Apache-2.0
// How many bytes per second the reduction kernels move: `reduce_rate [VARIANT [TYPE [OP]]]` prints
// a line per variant, type and operator with the rate at three sizes of operand, a = a op b in
// place, as the ring uses them. The rate is the bytes of the three streams (two read, one written)
// by the time of the best of several runs. The first line is the rate of memcpy, two streams.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/reduce.h"

enum { SIZES = 3, RUNS = 7 };
static const size_t sizes[SIZES] = {32u << 10, 1u << 20, 64u << 20};
static const size_t traffic_bytes = 128u << 20; /* of one operand, per run */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void copy(void *out, const void *a, const void *b, size_t bytes)
{
    (void)a;
    memcpy(out, b, bytes);
}

/** The best rate in GB/s with @p streams streams of @p bytes bytes. */
static double rate(kolo_reduce_fn kernel, size_t element_bytes, uint8_t *a, const uint8_t *b,
                   size_t bytes, int streams)
{
    const size_t repeats = traffic_bytes / bytes;
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        const double start = now_s();
        for (size_t i = 0; i < repeats; i++)
            kernel(a, a, b, bytes / element_bytes);
        const double seconds = now_s() - start;
        best = seconds < best ? seconds : best;
    }
    return streams * 1e-9 * (double)(bytes * repeats) / best;
}

static void print_row(const char *name, kolo_reduce_fn kernel, size_t element_bytes, uint8_t *a,
                      const uint8_t *b, int streams)
{
    printf("%-24s", name);
    for (int i = 0; i < SIZES; i++)
        printf(" %9.1f", rate(kernel, element_bytes, a, b, sizes[i], streams));
    printf("\n");
    fflush(stdout);
}

/** Values near one, whose products neither overflow nor become subnormal, which slows some
 * processors down. The bytes suit every type: 1.0f, and small integers. */
static void fill(uint8_t *a, size_t bytes, kolo_dtype dtype)
{
    static const uint64_t ones[KOLO_DTYPES] = {[KOLO_INT8] = 1,
                                               [KOLO_INT16] = 1,
                                               [KOLO_INT32] = 1,
                                               [KOLO_INT64] = 1,
                                               [KOLO_UINT8] = 1,
                                               [KOLO_FLOAT16] = 0x3c00,
                                               [KOLO_BFLOAT16] = 0x3f80,
                                               [KOLO_FLOAT32] = 0x3f800000,
                                               [KOLO_FLOAT64] = 0x3ff0000000000000u};
    const size_t size = kolo_dtype_bytes(dtype);
    for (size_t at = 0; at < bytes; at += size)
        memcpy(a + at, &ones[dtype], size);
}

static int is_wanted(int argc, char **argv, int index, const char *text)
{
    return argc <= index || strcmp(argv[index], text) == 0;
}

int main(int argc, char **argv)
{
    const size_t most = sizes[SIZES - 1];
    uint8_t *a = aligned_alloc(4096, most), *b = aligned_alloc(4096, most);
    if (!a || !b) {
        fprintf(stderr, "reduce_rate: no memory for two operands of %zu bytes\n", most);
        return EXIT_FAILURE;
    }
    memset(a, 1, most);
    memset(b, 1, most);
    printf("%-24s %9s %9s %9s  GB/s\n", "operand", "32 KiB", "1 MiB", "64 MiB");
    print_row("memcpy", copy, 1, a, b, 2);
    const char *variant;
    for (int v = 0; (variant = kolo_reduce_variant(v)) != NULL; v++)
        for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
            for (int op = 0; op < KOLO_AVERAGE; op++) {
                const char *type_text = kolo_dtype_text((kolo_dtype)dtype);
                const char *op_text = kolo_redop_text((kolo_redop)op);
                if (!is_wanted(argc, argv, 1, variant) || !is_wanted(argc, argv, 2, type_text) ||
                    !is_wanted(argc, argv, 3, op_text))
                    continue;
                char name[64];
                snprintf(name, sizeof name, "%s %s %s", variant, type_text, op_text);
                fill(a, most, (kolo_dtype)dtype);
                fill(b, most, (kolo_dtype)dtype);
                print_row(name, kolo_reduce_function_of(variant, (kolo_dtype)dtype, (kolo_redop)op),
                          kolo_dtype_bytes((kolo_dtype)dtype), a, b, 3);
            }
    free(a);
    free(b);
    return EXIT_SUCCESS;
}
