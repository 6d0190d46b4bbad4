// SPDX-License-Identifier: Apache-2.0
// Runs one kind of metric with every world size, distribution of samples and transport, and asserts
// that the results are the same bytes. States are saved, restored and merged on the way. For tests
// of metrics/.
#ifndef KOLO_TESTS_SHARDS_H
#define KOLO_TESTS_SHARDS_H

#include <kolo/metrics.h>

enum { SHARD_RESULT_MAX = 4096 };

struct shard_kind {
    int64_t samples; /* numbered from 0 */
    size_t result_bytes;
    /** collectives of a compute beyond the sum and those that every metric makes */
    uint32_t exchanges;
    /** @p samples of the configuration: 0, or all of them. */
    kolo_status (*create)(int64_t samples, struct kolo_metric **metric_out);
    /** Adds sample @p i; @p index is NULL or &i. */
    kolo_status (*update)(struct kolo_metric *metric, int64_t i, const int64_t *index);
    /** Writes result_bytes bytes, none of which may depend on which rank has which sample. */
    kolo_status (*result)(const struct kolo_metric *metric, void *result_out);
};

/** Asserts that all runs give the same result, and writes it to *result_out. */
void shards_agree(const struct shard_kind *kind, void *result_out);

/** A pseudo-random number for each @p x. */
uint64_t shard_hash(uint64_t x);

#endif
