// SPDX-License-Identifier: Apache-2.0
// Kernels of a program for the tests' libcuda.so.1. The library that MOCK_CUDA_KERNELS names
// contains them, compiled for the host from the same source, as an array `mock_program_kernels`
// whose last element has no name.
#ifndef KOLO_TESTS_MOCK_PROGRAM_H
#define KOLO_TESTS_MOCK_PROGRAM_H

#include <stdint.h>

enum { MOCK_PARAMETERS_MAX = 16 };

union mock_parameter {
    void *address; /* where the host may access it */
    int32_t integer;
    float real;
};

struct mock_program_kernel {
    const char *name;
    const char *parameters; /* one letter each: a (address), i or r */
    /** Runs all threads of a launch. */
    void (*run)(const union mock_parameter *parameters, unsigned blocks, unsigned block_threads);
};

#endif
