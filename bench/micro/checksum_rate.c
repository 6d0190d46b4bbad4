// SPDX-License-Identifier: Apache-2.0
// How many bytes per second the checksum sums up: `checksum_rate` prints a line for each variant
// that this processor can run, with the rates at four lengths, of bytes in one piece. The variants
// take turns, and the rate is that of the median of the turns.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checksum_variant.h"

enum { LENGTHS = 4, TURNS = 21, VARIANTS = 8 };
static const size_t lengths[LENGTHS] = {40, 16u << 10, 1u << 20, 64u << 20};
static const size_t turn_bytes = 64u << 20;

static volatile uint64_t sink; /* so that no sum is left out */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double turn_s(const struct kolo_checksum_variant *variant, const uint8_t *data, size_t bytes)
{
    const size_t repeats = turn_bytes / (bytes < 1024 ? 16 * bytes : bytes);
    const double start = now_s();
    for (size_t i = 0; i < repeats; i++)
        sink = variant->of(data, bytes);
    return (now_s() - start) / (double)repeats;
}

static void measure(const uint8_t *data, double gigabytes[VARIANTS][LENGTHS])
{
    static double seconds[VARIANTS][TURNS];
    for (int length = 0; length < LENGTHS; length++) {
        for (int turn = 0; turn < TURNS; turn++)
            for (int v = 0; v < VARIANTS && kolo_checksum_variants[v]; v++)
                if (kolo_checksum_variants[v]->usable())
                    seconds[v][turn] = turn_s(kolo_checksum_variants[v], data, lengths[length]);
        for (int v = 0; v < VARIANTS; v++) {
            qsort(seconds[v], TURNS, sizeof(**seconds), by_size);
            gigabytes[v][length] = 1e-9 * (double)lengths[length] / seconds[v][TURNS / 2];
        }
    }
}

int main(void)
{
    const size_t most = lengths[LENGTHS - 1];
    double gigabytes[VARIANTS][LENGTHS];
    uint8_t *data = aligned_alloc(4096, most);
    if (!data) {
        fprintf(stderr, "checksum_rate: no memory for %zu bytes\n", most);
        return EXIT_FAILURE;
    }
    memset(data, 1, most);
    measure(data, gigabytes);
    printf("%-8s %9s %9s %9s %9s  GB/s\n", "variant", "40 B", "16 KiB", "1 MiB", "64 MiB");
    for (int v = 0; v < VARIANTS && kolo_checksum_variants[v]; v++) {
        if (!kolo_checksum_variants[v]->usable())
            continue;
        printf("%-8s", kolo_checksum_variants[v]->name);
        for (int length = 0; length < LENGTHS; length++)
            printf(" %9.1f", gigabytes[v][length]);
        printf("\n");
    }
    free(data);
    return EXIT_SUCCESS;
}
