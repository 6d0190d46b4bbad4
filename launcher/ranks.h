// SPDX-License-Identifier: Apache-2.0
// The numbers of the ranks of one host. They need not be consecutive.
#ifndef KOLO_LAUNCHER_RANKS_H
#define KOLO_LAUNCHER_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kolo_ranks {
    uint32_t *at; /* ascending */
    uint32_t count;
};

/** Whether @p rank is one of @p ranks. Only then its place among them is written. */
bool kolo_ranks_find(const struct kolo_ranks *ranks, uint32_t rank, uint32_t *place_out);
/** Whether there is one at least, they ascend, and all are below @p size. */
bool kolo_ranks_are_valid(const struct kolo_ranks *ranks, uint32_t size);
/** Writes "rank 3", "ranks 4 to 7" or "ranks 0, 2, 4 and 6"; of many, only the first and the
 * last. */
void kolo_ranks_text(const struct kolo_ranks *ranks, char *text, size_t capacity);
/** Writes "rank 3" or "ranks 0-2, 5, 7-9"; ends in ", ..." if there is no room for all. */
void kolo_ranks_brief(const struct kolo_ranks *ranks, char *text, size_t capacity);

#endif
