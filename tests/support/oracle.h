// SPDX-License-Identifier: Apache-2.0
// A naive reference for every collective. Each element of each rank is a small integer that follows
// from (rank, index, seed). So the result of any operator and type is exact in any order of
// operands, and is computed here one rank after the other.
#ifndef KOLO_TESTS_ORACLE_H
#define KOLO_TESTS_ORACLE_H

#include <stdbool.h>
#include <stddef.h>

#include <kolo/types.h>

struct oracle {
    kolo_dtype dtype;
    kolo_redop op; /* the range of the numbers depends on it */
    int ranks;
    unsigned seed;
};

/** Writes elements offset, offset + 1, ... of @p rank's contribution. */
void oracle_fill(const struct oracle *oracle, int rank, size_t offset, void *data, size_t count);
/** Checks that these are the elements of @p rank. *at_out is the first one that is not. */
bool oracle_is_of(const struct oracle *oracle, int rank, size_t offset, const void *data,
                  size_t count, size_t *at_out);
/** Checks that these are the reduction over all ranks, bit for bit. */
bool oracle_is_reduced(const struct oracle *oracle, size_t offset, const void *data, size_t count,
                       size_t *at_out);

#endif
