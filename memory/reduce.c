// SPDX-License-Identifier: Apache-2.0
// Chooses among the kernels that the build compiled: uses the first variant of the generated table
// that this processor can run, found once. Must never compute anything itself.
#include "memory/reduce.h"

#include <stdatomic.h>
#include <string.h>

#include "base/float_mode.h"
#include "memory/reduce_variant.h"

/** The best variant. Threads that find `best` empty at the same time find the same answer. */
const struct kolo_reduce_variant *kolo_reduce_best(void)
{
    static _Atomic(const struct kolo_reduce_variant *) best;
    const struct kolo_reduce_variant *found = atomic_load_explicit(&best, memory_order_relaxed);
    for (size_t i = 0; !found; i++)
        if (kolo_reduce_variants[i]->usable())
            found = kolo_reduce_variants[i];
    atomic_store_explicit(&best, found, memory_order_relaxed);
    return found;
}

static kolo_reduce_fn function_of(const struct kolo_reduce_variant *variant, kolo_dtype dtype,
                                  kolo_redop op)
{
    if ((unsigned)dtype >= KOLO_DTYPES || (unsigned)op >= KOLO_REDOPS)
        return NULL;
    return variant->combine[dtype][op];
}

kolo_reduce_fn kolo_reduce_function(kolo_dtype dtype, kolo_redop op)
{
    return function_of(kolo_reduce_best(), dtype, op);
}

void kolo_divide(void *data, size_t count, kolo_dtype dtype, size_t divisor)
{
    const uint64_t mode = kolo_float_mode_begin();
    kolo_reduce_best()->divide[dtype](data, count, divisor);
    kolo_float_mode_end(mode);
}

void kolo_scale(void *out, const void *in, size_t count, kolo_dtype dtype, double factor)
{
    const uint64_t mode = kolo_float_mode_begin();
    kolo_reduce_best()->scale[dtype](out, in, count, factor);
    kolo_float_mode_end(mode);
}

bool kolo_dtype_is_float(kolo_dtype dtype)
{
    return (unsigned)dtype < KOLO_DTYPES && kolo_reduce_best()->scale[dtype];
}

const char *kolo_reduce_variant(int index)
{
    for (size_t i = 0; kolo_reduce_variants[i]; i++)
        if (kolo_reduce_variants[i]->usable() && index-- == 0)
            return kolo_reduce_variants[i]->name;
    return NULL;
}

const struct kolo_reduce_variant *kolo_reduce_variant_named(const char *name)
{
    for (size_t i = 0; kolo_reduce_variants[i]; i++)
        if (strcmp(kolo_reduce_variants[i]->name, name) == 0 && kolo_reduce_variants[i]->usable())
            return kolo_reduce_variants[i];
    return NULL;
}

kolo_reduce_fn kolo_reduce_function_of(const char *variant, kolo_dtype dtype, kolo_redop op)
{
    const struct kolo_reduce_variant *found = kolo_reduce_variant_named(variant);
    return found ? function_of(found, dtype, op) : NULL;
}

kolo_divide_fn kolo_divide_function_of(const char *variant, kolo_dtype dtype)
{
    const struct kolo_reduce_variant *found = kolo_reduce_variant_named(variant);
    return found && (unsigned)dtype < KOLO_DTYPES ? found->divide[dtype] : NULL;
}

kolo_scale_fn kolo_scale_function_of(const char *variant, kolo_dtype dtype)
{
    const struct kolo_reduce_variant *found = kolo_reduce_variant_named(variant);
    return found && (unsigned)dtype < KOLO_DTYPES ? found->scale[dtype] : NULL;
}
