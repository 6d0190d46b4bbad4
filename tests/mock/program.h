// SPDX-License-Identifier: Apache-2.0
// Kernels of a program's own, for the tests' libcuda.so.1: a library that MOCK_CUDA_KERNELS names
// brings them, compiled for the host from the same text, as an array `mock_program_kernels` that
// ends with one without a name.
#ifndef KOLO_TESTS_MOCK_PROGRAM_H
#define KOLO_TESTS_MOCK_PROGRAM_H

#include <stdint.h>

enum { MOCK_PARAMETERS_MAX = 16 };

union mock_parameter {
    void *address; /* where the host may touch it */
    int32_t integer;
    float real;
};

struct mock_program_kernel {
    const char *name;
    const char *parameters; /* a letter each: a for address, i, r */
    /** All threads of a launch. */
    void (*run)(const union mock_parameter *parameters, unsigned blocks, unsigned block_threads);
};

#endif
