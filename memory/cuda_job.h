// SPDX-License-Identifier: Apache-2.0
// The argument that every kernel of memory/cuda_kernels.h gets, by value. Read by the host's
// compiler, the device's compiler (as C++), and the tests' libcuda.so.1.
#ifndef KOLO_MEMORY_CUDA_JOB_H
#define KOLO_MEMORY_CUDA_JOB_H

#include <stdint.h>

enum {
    KOLO_CUDA_INPUTS_MAX = 64,
    KOLO_CUDA_OUTPUTS_MAX = 64,
    KOLO_CUDA_PACKET_BYTES = 16, /* bytes that a thread of the device loads and stores at once */
    KOLO_CUDA_BLOCK = 256,       /* threads of a block */
    KOLO_CUDA_BLOCKS = 4         /* blocks that a processor of the device has room for at a time */
};

enum {                            /* bits; they apply to all addresses */
       KOLO_CUDA_FIT_PACKETS = 1, /* multiples of a packet */
       KOLO_CUDA_FIT_WORDS = 2    /* multiples of four bytes, and so is the length */
};

struct kolo_cuda_job {
    uint64_t out[KOLO_CUDA_OUTPUTS_MAX], in[KOLO_CUDA_INPUTS_MAX]; /* addresses */
    uint64_t nout, nin;
    uint64_t bytes;   /* length of every input and output; whole elements */
    uint64_t divisor; /* divisor of an average; 0 and 1: none */
    double factor;    /* factor of a scaling */
    uint64_t fit;     /* KOLO_CUDA_FIT_ */
};

#endif
