// SPDX-License-Identifier: Apache-2.0
// XXH3 for every processor: by the vectors that the compiler may use everywhere (SSE2 on x86-64,
// NEON on 64-bit Arm), else in plain C.
#define KOLO_VARIANT kolo_checksum_c
#define KOLO_VARIANT_NAME "c"
#define KOLO_VARIANT_USABLE kolo_checksum_usable_always

#include "base/checksum_xxh3.h"

bool kolo_checksum_usable_always(void)
{
    return true;
}
