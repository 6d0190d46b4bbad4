// SPDX-License-Identifier: Apache-2.0
// The naive opinion on every collective: each element of each rank is a small whole number known
// from (rank, index, seed), so the right result of any operator, type and order of operands is
// exact, and is computed here one rank after the other.
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

/** Elements offset, offset + 1, ... of what @p rank holds. */
void oracle_fill(const struct oracle *oracle, int rank, size_t offset, void *data, size_t count);
/** Are these elements the ones of @p rank? *at_out: the first that is not. */
bool oracle_is_of(const struct oracle *oracle, int rank, size_t offset, const void *data,
                  size_t count, size_t *at_out);
/** Are these elements the reduction over all ranks, bit for bit? */
bool oracle_is_reduced(const struct oracle *oracle, size_t offset, const void *data, size_t count,
                       size_t *at_out);

#endif
