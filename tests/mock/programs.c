// SPDX-License-Identifier: Apache-2.0
// Kernels of a program, from the one library that MOCK_CUDA_KERNELS names. A parameter is copied
// when the kernel is launched; addresses are translated to the mock's when it runs. An address
// outside of every allocation fails the device, as on a real one.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mock/mock.h"

enum { KERNELS_MAX = 32 };

static struct mock_kernel kernels[KERNELS_MAX];

static const struct mock_program_kernel *brought(void)
{
    const char *path = getenv("MOCK_CUDA_KERNELS");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct mock_program_kernel *found =
        library ? dlsym(library, "mock_program_kernels") : NULL;
    if (path && !found) {
        fprintf(stderr, "mock: MOCK_CUDA_KERNELS: %s\n", dlerror());
        abort();
    }
    return found;
}

struct mock_kernel *mock_program_kernel_named(const char *name)
{
    const struct mock_program_kernel *found = kernels[0].name ? NULL : brought();
    for (int i = 0; found && found[i].name && i < KERNELS_MAX; i++)
        kernels[i] = (struct mock_kernel){.name = found[i].name, .program = &found[i]};
    for (int i = 0; i < KERNELS_MAX && kernels[i].name; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

bool mock_program_take(struct mock_launch *launch, const struct mock_program_kernel *kernel,
                       unsigned blocks, unsigned block_threads, void **parameters)
{
    *launch =
        (struct mock_launch){.kernel = kernel, .blocks = blocks, .block_threads = block_threads};
    if (strlen(kernel->parameters) > MOCK_PARAMETERS_MAX)
        return false;
    for (int i = 0; kernel->parameters[i]; i++)
        memcpy(&launch->parameters[i], parameters[i],
               kernel->parameters[i] == 'a' ? sizeof(void *) : sizeof(int32_t));
    return true;
}

bool mock_program_resolve(struct mock_launch *launch)
{
    for (int i = 0; launch->kernel->parameters[i]; i++) {
        void **address = &launch->parameters[i].address;
        const uint64_t at = (uint64_t)(uintptr_t)*address;
        if (launch->kernel->parameters[i] != 'a' || !at)
            continue;
        if (!mock_allocation(at))
            return false;
        *address = mock_place(at, 1);
    }
    return true;
}

void mock_program_run(const struct mock_launch *launch)
{
    launch->kernel->run(launch->parameters, launch->blocks, launch->block_threads);
}
