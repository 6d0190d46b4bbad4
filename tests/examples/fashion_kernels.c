// SPDX-License-Identifier: Apache-2.0
// The kernels of examples/fashion_kernels.cu for the host's compiler, run one thread after the
// other, in the form in which the tests' libcuda.so.1 takes a program's kernels
// (tests/mock/program.h).
#include "tests/mock/program.h"

struct place {
    unsigned x;
};
static _Thread_local struct place blockIdx, threadIdx, blockDim;

#define KERNEL static void
#include "examples/fashion_kernels.cu"

#define EACH_THREAD                                                                                \
    for (blockDim.x = block_threads, blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)            \
        for (threadIdx.x = 0; threadIdx.x < block_threads; threadIdx.x++)
#define RUN(name)                                                                                  \
    static void run_##name(const union mock_parameter *with, unsigned blocks,                      \
                           unsigned block_threads)

RUN(hidden)
{
    EACH_THREAD fashion_hidden(with[0].address, with[1].address, with[2].address, with[3].integer);
}

RUN(scores)
{
    EACH_THREAD fashion_scores(with[0].address, with[1].address, with[2].address, with[3].integer);
}

RUN(back)
{
    EACH_THREAD fashion_back(with[0].address, with[1].address, with[2].address, with[3].address,
                             with[4].integer);
}

RUN(gradient)
{
    EACH_THREAD fashion_gradient(with[0].address, with[1].address, with[2].address, with[3].integer,
                                 with[4].integer, with[5].integer);
}

RUN(update)
{
    EACH_THREAD fashion_update(with[0].address, with[1].address, with[2].address, with[3].real,
                               with[4].real, with[5].integer);
}

extern const struct mock_program_kernel mock_program_kernels[];
__attribute__((visibility("default"))) const struct mock_program_kernel mock_program_kernels[] = {
    {"fashion_hidden", "aaai", run_hidden},   {"fashion_scores", "aaai", run_scores},
    {"fashion_back", "aaaai", run_back},      {"fashion_gradient", "aaaiii", run_gradient},
    {"fashion_update", "aaarri", run_update}, {0}};
