// SPDX-License-Identifier: Apache-2.0
// What every kernel of memory/cuda_kernels.h is given, by value. Read by the host's compiler, the
// device's (C++), and the tests' libcuda.so.1.
#ifndef KOLO_MEMORY_CUDA_JOB_H
#define KOLO_MEMORY_CUDA_JOB_H

#include <stdint.h>

enum {
    KOLO_CUDA_INPUTS_MAX = 64,
    KOLO_CUDA_OUTPUTS_MAX = 64,
    KOLO_CUDA_PACKET_BYTES = 16, /* what a thread of the device loads and stores at once */
    KOLO_CUDA_BLOCK = 256,       /* threads */
    KOLO_CUDA_BLOCKS = 4         /* that a processor of the device has room for, at a time */
};

enum {                            /* of all addresses, bits */
       KOLO_CUDA_FIT_PACKETS = 1, /* multiples of a packet */
       KOLO_CUDA_FIT_WORDS = 2    /* multiples of four bytes, and so is the length */
};

struct kolo_cuda_job {
    uint64_t out[KOLO_CUDA_OUTPUTS_MAX], in[KOLO_CUDA_INPUTS_MAX]; /* addresses */
    uint64_t nout, nin;
    uint64_t bytes;   /* of every input and output; whole elements */
    uint64_t divisor; /* of a sum that is an average; 0 and 1: none */
    double factor;    /* of a scaling */
    uint64_t fit;     /* KOLO_CUDA_FIT_ */
};

#endif
