// SPDX-License-Identifier: Apache-2.0
// Checks what this x86 processor, and the system that saves its registers, can run. Compiled for
// the baseline only.
#include "base/checksum_variant.h"

bool kolo_checksum_usable_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2");
}

bool kolo_checksum_usable_avx512(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f");
}
