// SPDX-License-Identifier: Apache-2.0
// See mock_cuda.h: loads the mock driver, and arranges /sys for it.
#include "tests/support/mock_cuda.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

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

static bool put_at(const char *directory, int device, int node)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/0000:%02x:00.0", directory, (unsigned)MOCK_BUS + device);
    if (mkdir(path, 0700) != 0)
        return false;
    (void)snprintf(path, sizeof path, "%s/0000:%02x:00.0/numa_node", directory,
                   (unsigned)MOCK_BUS + device);
    FILE *file = fopen(path, "w");
    const bool is_put = file && fprintf(file, "%d\n", node) > 0;
    return file && fclose(file) == 0 && is_put;
}

/* Mounts a file system in memory over the devices of /sys; it ends with the mount namespace. */
bool mock_cuda_at_nodes(int first, int second)
{
    static const char place[] = "/sys/bus/pci/devices";
    return unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("kolo-test", place, "tmpfs", 0, NULL) == 0 && put_at(place, 0, first) &&
           put_at(place, 1, second);
}
