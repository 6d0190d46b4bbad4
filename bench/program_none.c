// SPDX-License-Identifier: Apache-2.0
// Replaces program_cuda.c in a build without CUDA: there is no such memory.
#include "base/status.h"
#include "bench/program_memory.h"

kolo_status bench_program_alloc(struct kolo_comm *comm, size_t bytes, bool is_managed,
                                void **memory_out)
{
    (void)comm, (void)bytes;
    *memory_out = NULL;
    return kolo_fail(KOLO_ERR_UNSUPPORTED, "--memory %s: this build has no CUDA (KOLO_CUDA=OFF)",
                     is_managed ? "managed" : "cuda");
}

void bench_program_free(void *memory)
{
    (void)memory;
}
