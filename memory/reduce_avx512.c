// SPDX-License-Identifier: Apache-2.0
// The reduction kernels for AVX-512 F, BW, DQ and VL. Compiled with their flags; run only after
// kolo_reduce_usable_avx512().
#include <immintrin.h>

#define KOLO_VECTOR_BYTES 64
#define KOLO_VARIANT kolo_reduce_avx512
#define KOLO_VARIANT_NAME "avx512"
#define KOLO_VARIANT_USABLE kolo_reduce_usable_avx512

#include "memory/reduce_vectors.h"

static KOLO_ALWAYS_INLINE struct float_pair halves_decode(bits_vector x)
{
    const __m512i bits = (__m512i)x;
    return (struct float_pair){(f32_vector)_mm512_cvtph_ps(_mm512_castsi512_si256(bits)),
                               (f32_vector)_mm512_cvtph_ps(_mm512_extracti64x4_epi64(bits, 1))};
}

static KOLO_ALWAYS_INLINE bits_vector halves_encode(struct float_pair pair)
{
    const __m256i low = _mm512_cvtps_ph((__m512)pair.low, _MM_FROUND_TO_NEAREST_INT);
    const __m256i high = _mm512_cvtps_ph((__m512)pair.high, _MM_FROUND_TO_NEAREST_INT);
    return (bits_vector)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

static KOLO_ALWAYS_INLINE void vector_stream(uint8_t *to, bits_vector x)
{
    _mm512_stream_si512((void *)to, (__m512i)x);
}

static KOLO_ALWAYS_INLINE void stream_fence(void)
{
    _mm_sfence();
}

#include "memory/reduce_table.h"
