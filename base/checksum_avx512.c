// SPDX-License-Identifier: Apache-2.0
// XXH3 for AVX-512 F. Compiled with its flags; run only after kolo_checksum_usable_avx512().
#define KOLO_VARIANT kolo_checksum_avx512
#define KOLO_VARIANT_NAME "avx512"
#define KOLO_VARIANT_USABLE kolo_checksum_usable_avx512
#define XXH_VECTOR XXH_AVX512

#include "base/checksum_xxh3.h"
