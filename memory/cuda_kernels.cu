// SPDX-License-Identifier: Apache-2.0
// The kernels of memory/cuda_kernels.h for the device's compiler. Compiled by nvcc to a fatbin that
// the library carries as bytes (cmake/KoloCuda.cmake) and hands to the driver.
#include <stdint.h>

#define KOLO_DEVICE static __device__ __forceinline__
/* Not static: nvcc would put a hash of the path of this file into their names, and so of the source
 * folder into the library. */
#define KOLO_DEVICE_APART __device__ __noinline__
#define KOLO_KERNEL(name)                                                                          \
    extern "C" __global__ void __launch_bounds__(KOLO_CUDA_BLOCK, KOLO_CUDA_BLOCKS)                \
        name(const __grid_constant__ struct kolo_cuda_job job)
#define KOLO_THREAD ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x)
#define KOLO_THREADS ((uint64_t)gridDim.x * blockDim.x)
#define KOLO_UNROLLED _Pragma("unroll")

struct packet;
static __device__ struct packet packet_get(uint64_t address);
static __device__ void packet_put(uint64_t address, struct packet x);

/* The device's own conversions, as IEEE 754 has them, with subnormals. */
static __device__ __forceinline__ float float16_decode(uint16_t bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

static __device__ __forceinline__ uint16_t float16_encode(float x)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return x != x ? (uint16_t)0x7e00 : bits;
}

#include "memory/cuda_kernels.h"

/* All memory here is global, which the compiler cannot know, since addresses are numbers. No memory
 * clobber is declared: what is stored depends on everything that was loaded of its packet. */
static __device__ __forceinline__ struct packet packet_get(uint64_t address)
{
    struct packet r;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.word[0]), "=r"(r.word[1]), "=r"(r.word[2]), "=r"(r.word[3])
                 : "l"(address));
    return r;
}

static __device__ __forceinline__ void packet_put(uint64_t address, struct packet x)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(address), "r"(x.word[0]), "r"(x.word[1]), "r"(x.word[2]), "r"(x.word[3]));
}
