// SPDX-License-Identifier: Apache-2.0
// Checks what this x86 processor, and the system that saves its registers, can run. Compiled for
// the baseline only.
#include <cpuid.h>

#include "memory/reduce_variant.h"

/** __builtin_cpu_supports knows F16C only in newer compilers, so this asks the processor. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (unsigned)bit_F16C) != 0;
}

bool kolo_reduce_usable_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && has_f16c();
}

bool kolo_reduce_usable_avx512(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
