// SPDX-License-Identifier: Apache-2.0
// The reduction kernels for AVX2 with F16C. Compiled with their flags; run only after
// kolo_reduce_usable_avx2().
#include <immintrin.h>

#define KOLO_VECTOR_BYTES 32
#define KOLO_VARIANT kolo_reduce_avx2
#define KOLO_VARIANT_NAME "avx2"
#define KOLO_VARIANT_USABLE kolo_reduce_usable_avx2

#include "memory/reduce_vectors.h"

static KOLO_ALWAYS_INLINE struct float_pair halves_decode(bits_vector x)
{
    const __m256i bits = (__m256i)x;
    return (struct float_pair){(f32_vector)_mm256_cvtph_ps(_mm256_castsi256_si128(bits)),
                               (f32_vector)_mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))};
}

static KOLO_ALWAYS_INLINE bits_vector halves_encode(struct float_pair pair)
{
    const __m128i low = _mm256_cvtps_ph((__m256)pair.low, _MM_FROUND_TO_NEAREST_INT);
    const __m128i high = _mm256_cvtps_ph((__m256)pair.high, _MM_FROUND_TO_NEAREST_INT);
    return (bits_vector)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static KOLO_ALWAYS_INLINE void vector_stream(uint8_t *to, bits_vector x)
{
    _mm256_stream_si256((void *)to, (__m256i)x);
}

static KOLO_ALWAYS_INLINE void stream_fence(void)
{
    _mm_sfence();
}

#include "memory/reduce_table.h"
