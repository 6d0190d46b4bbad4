// SPDX-License-Identifier: Apache-2.0
// One kind of metric over every world size, way of dealing out samples and transport: the results
// must be the same bytes. On the way states are saved, restored and merged. For tests of metrics/.
#ifndef KOLO_TESTS_SHARDS_H
#define KOLO_TESTS_SHARDS_H

#include <kolo/metrics.h>

enum { SHARD_RESULT_MAX = 4096 };

struct shard_kind {
    int64_t samples; /* numbered from 0 */
    size_t result_bytes;
    uint32_t exchanges; /* collectives of a compute beside the sum, and those every metric takes */
    /** With @p samples as the configuration's: 0, or all of them. */
    kolo_status (*create)(int64_t samples, struct kolo_metric **metric_out);
    /** Adds sample @p i; @p index is NULL or &i. */
    kolo_status (*update)(struct kolo_metric *metric, int64_t i, const int64_t *index);
    /** Writes result_bytes bytes, in which nothing depends on who has which sample. */
    kolo_status (*result)(const struct kolo_metric *metric, void *result_out);
};

/** Asserts that all give the same; *result_out is that. */
void shards_agree(const struct shard_kind *kind, void *result_out);

/** A number without pattern for each @p x. */
uint64_t shard_hash(uint64_t x);

#endif
