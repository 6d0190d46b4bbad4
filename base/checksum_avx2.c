// SPDX-License-Identifier: Apache-2.0
// XXH3 for AVX2. Compiled with its flags; run only after kolo_checksum_usable_avx2().
#define KOLO_VARIANT kolo_checksum_avx2
#define KOLO_VARIANT_NAME "avx2"
#define KOLO_VARIANT_USABLE kolo_checksum_usable_avx2
#define XXH_VECTOR XXH_AVX2

#include "base/checksum_xxh3.h"
