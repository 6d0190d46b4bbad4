// SPDX-License-Identifier: Apache-2.0
// The sampler: which samples a rank takes in an epoch. Owns the rank's list of indices. It must
// never communicate.
//
// torch's rule: permute 0..N-1 (seed + epoch); make the list W * ceil(N / W) long by repeating it
// from its start (pad), or W * floor(N / W) long by cutting it (drop_last); give rank r the entries
// r, r + W, r + 2W, ... The unpadded mode assigns the N entries in the same way and stops there.
// torch.randperm on a CPU: for i = 0 .. N-2, swap entry i with entry i + (32 random bits
// modulo N - i).
#include <limits.h>

#include <kolo/metrics.h>

#include "base/alloc.h"
#include "base/status.h"
#include "metrics/metric.h"
#include "metrics/mt19937.h"

struct kolo_sampler {
    struct kolo_sampler_config config;
    int64_t count;
    int64_t *indices;     /* this rank's */
    int32_t *permutation; /* of the whole data set; NULL without shuffling */
};

static kolo_status check(const struct kolo_sampler_config *config)
{
    kolo_status status = kolo_check_struct("kolo_sampler_create", "config", "kolo_sampler_config",
                                           config, sizeof *config);
    if (status != KOLO_OK)
        return status;
    if (config->samples < 0 || config->samples > INT32_MAX)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_sampler_create: samples %lld is not in 0..%d",
                         (long long)config->samples, INT32_MAX);
    if (config->nranks < 1 || config->rank < 0 || config->rank >= config->nranks)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_sampler_create: rank %d of %d rank%s does not exist; "
                         "set rank and nranks to kolo_rank() and kolo_size()",
                         config->rank, config->nranks, config->nranks == 1 ? "" : "s");
    if ((unsigned)config->tail > KOLO_SAMPLER_UNPADDED)
        return kolo_fail(KOLO_ERR_INVALID,
                         "kolo_sampler_create: tail %d is not a value of kolo_sampler_tail",
                         (int)config->tail);
    return KOLO_OK;
}

static int64_t count_of(const struct kolo_sampler_config *config)
{
    int64_t n = config->samples, w = config->nranks;
    switch (config->tail) {
    case KOLO_SAMPLER_PAD:
        return n / w + (n % w != 0);
    case KOLO_SAMPLER_DROP_LAST:
        return n / w;
    case KOLO_SAMPLER_UNPADDED:
        break;
    }
    return n / w + (config->rank < n % w);
}

static void permute(int32_t *permutation, int32_t count, uint64_t seed)
{
    struct kolo_mt19937 mt;
    kolo_mt19937_seed(&mt, (uint32_t)seed);
    for (int32_t i = 0; i < count; i++)
        permutation[i] = i;
    for (int32_t i = 0; i < count - 1; i++) {
        int32_t other = i + (int32_t)(kolo_mt19937_next(&mt) % (uint32_t)(count - i));
        int32_t kept = permutation[i];
        permutation[i] = permutation[other];
        permutation[other] = kept;
    }
}

static void deal(struct kolo_sampler *sampler, uint64_t epoch)
{
    const struct kolo_sampler_config *config = &sampler->config;
    if (sampler->permutation)
        permute(sampler->permutation, (int32_t)config->samples, config->seed + epoch);
    for (int64_t i = 0; i < sampler->count; i++) {
        int64_t at =
            (config->rank + i * config->nranks) % config->samples; /* wraps only in padding */
        sampler->indices[i] = sampler->permutation ? sampler->permutation[at] : at;
    }
}

kolo_status kolo_sampler_create(const struct kolo_sampler_config *config,
                                struct kolo_sampler **sampler_out)
{
    kolo_status status = check(config);
    if (status != KOLO_OK)
        return status;
    if (!sampler_out)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_sampler_create: sampler_out is NULL");
    struct kolo_sampler *sampler = kolo_calloc(1, sizeof *sampler);
    if (!sampler)
        return KOLO_ERR_NO_MEMORY;
    sampler->config = *config;
    sampler->count = count_of(config);
    sampler->indices = kolo_calloc((size_t)sampler->count, sizeof *sampler->indices);
    if (config->shuffle)
        sampler->permutation = kolo_calloc((size_t)config->samples, sizeof *sampler->permutation);
    if (!sampler->indices || (config->shuffle && !sampler->permutation)) {
        kolo_sampler_destroy(sampler);
        return KOLO_ERR_NO_MEMORY;
    }
    deal(sampler, 0);
    *sampler_out = sampler;
    return KOLO_OK;
}

kolo_status kolo_sampler_set_epoch(struct kolo_sampler *sampler, int64_t epoch)
{
    if (!sampler)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_sampler_set_epoch: sampler is NULL");
    if (epoch < 0)
        return kolo_fail(KOLO_ERR_INVALID, "kolo_sampler_set_epoch: epoch %lld is negative",
                         (long long)epoch);
    deal(sampler, (uint64_t)epoch);
    return KOLO_OK;
}

int64_t kolo_sampler_count(const struct kolo_sampler *sampler)
{
    return sampler ? sampler->count : 0;
}

const int64_t *kolo_sampler_indices(const struct kolo_sampler *sampler)
{
    return sampler ? sampler->indices : NULL;
}

void kolo_sampler_destroy(struct kolo_sampler *sampler)
{
    if (!sampler)
        return;
    kolo_free_memory(sampler->permutation);
    kolo_free_memory(sampler->indices);
    kolo_free_memory(sampler);
}
