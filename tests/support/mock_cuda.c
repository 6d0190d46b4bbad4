// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mock_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

const struct mock_cuda *mock_cuda_load(void)
{
    void *library = dlopen(MOCK_CUDA, RTLD_NOW | RTLD_LOCAL);
    const struct mock_cuda *mock = library ? dlsym(library, "mock_cuda") : NULL;
    if (!mock) {
        fprintf(stderr, "%s: %s\n", MOCK_CUDA, dlerror());
        exit(1);
    }
    return mock;
}

void *mock_cuda_copy(const struct mock_cuda *mock, enum mock_kind kind, int device,
                     const void *from, size_t bytes)
{
    void *memory = mock->alloc(kind, device, bytes);
    mock->write_later(memory, from, bytes);
    return memory;
}
