// SPDX-License-Identifier: Apache-2.0
// The tests' driver across processes: memory that another process maps, and contexts of one process
// that access each other's memory. A handle names the memfd of an allocation in its owner's
// process; the other process opens it there.
//
// The mock is stricter than the real driver, which leaves two cases undefined. An owner that frees
// memory while another process has it mapped is ended (a mapping holds a shared lock on the file).
// An owner is also ended if it exports memory of cuMemAlloc that fills only a part of its block,
// because that exports the rest of the block too.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/cuda_driver.h"
#include "tests/mock/mock.h"

struct handle {
    int pid, fd, device;
    unsigned long long id;
    size_t bytes;
};
_Static_assert(sizeof(struct handle) <= sizeof(struct kolo_cuda_handle), "it fits");

enum { NAME_BYTES = 40, BLOCK_BYTES = 2 << 20 };

static void write_name(char name[static NAME_BYTES], unsigned long long id)
{
    snprintf(name, NAME_BYTES, "mock-%llu", id);
}

int mock_file_create(unsigned long long id)
{
    char name[NAME_BYTES];
    write_name(name, id);
    return memfd_create(name, MFD_CLOEXEC);
}

bool mock_is_ipc_capable(const struct allocation *a)
{
    return a->fd >= 0 && !a->opens && (a->kind == MOCK_DEVICE || a->kind == MOCK_OTHER);
}

bool mock_is_mapped_elsewhere(const struct allocation *a)
{
    return a->fd >= 0 && a->owner == 0 && flock(a->fd, LOCK_EX | LOCK_NB) != 0;
}

/** Opens the file of the allocation, locked for a mapping; -1: it no longer exists. */
static int open_file(const struct handle *handle)
{
    char path[64], name[NAME_BYTES], found[sizeof name + 32] = "", wanted[sizeof found];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
    write_name(name, handle->id);
    snprintf(wanted, sizeof wanted, "/memfd:%s (deleted)", name);
    if (readlink(path, found, sizeof found - 1) < 0 || strcmp(found, wanted) != 0)
        return -1;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

#pragma GCC visibility push(default)

int cuIpcGetMemHandle(struct kolo_cuda_handle *handle_out, uint64_t memory)
{
    ENTER();
    const struct allocation *a = mock_allocation(memory);
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (!a || !mock_is_ipc_capable(a))
        return KOLO_CUDA_INVALID_VALUE;
    if (a->bytes % BLOCK_BYTES != 0 && a->is_asked_for) {
        fprintf(stderr, "mock: %zu bytes are lent, and so is what else lies in their block\n",
                a->bytes);
        abort();
    }
    const struct handle handle = {
        .pid = getpid(), .fd = a->fd, .device = a->device, .id = a->id, .bytes = a->bytes};
    memset(handle_out, 0, sizeof *handle_out);
    memcpy(handle_out, &handle, sizeof handle);
    return KOLO_CUDA_SUCCESS;
}

/** This context's existing mapping of it; NULL: none. */
static struct allocation *find_opened(const struct handle *handle)
{
    struct allocation *a = mock_allocations();
    for (; a->bytes > 0; a++)
        if (a->opens > 0 && a->context == mock_top() && a->owner == handle->pid &&
            a->owner_id == handle->id)
            return a;
    return NULL;
}

int cuIpcOpenMemHandle(uint64_t *memory_out, struct kolo_cuda_handle given, unsigned flags)
{
    ENTER();
    struct handle handle;
    memcpy(&handle, &given, sizeof handle);
    if (!mock_top() || handle.pid == getpid())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (flags != KOLO_CUDA_IPC_LAZY_PEER_ACCESS)
        return KOLO_CUDA_INVALID_VALUE;
    struct allocation *a = find_opened(&handle);
    if (!a) {
        const int fd = open_file(&handle);
        if (fd < 0)
            return KOLO_CUDA_INVALID_HANDLE;
        a = mock_add(MOCK_NO_CONTEXT, handle.device, handle.bytes, fd);
        a->context = mock_top();
        a->owner = handle.pid;
        a->owner_id = handle.id;
    }
    a->opens++;
    *memory_out = (uint64_t)(uintptr_t)a->memory;
    return KOLO_CUDA_SUCCESS;
}

int cuIpcCloseMemHandle(uint64_t memory)
{
    ENTER();
    struct allocation *a = mock_allocation(memory);
    if (!mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (!a || a->opens == 0 || a->context != mock_top() || (uint64_t)(uintptr_t)a->memory != memory)
        return KOLO_CUDA_INVALID_VALUE;
    mock_streams_wait_alone(mock_top());
    if (--a->opens == 0)
        mock_take_out_unused(a);
    return KOLO_CUDA_SUCCESS;
}

int cuDeviceGetUuid(uint8_t *uuid_out, int device)
{
    ENTER();
    memset(uuid_out, device + 1, 16); /* the same in every process */
    return KOLO_CUDA_SUCCESS;
}

int cuCtxEnablePeerAccess(void *context, unsigned flags)
{
    ENTER();
    const struct context *peer = context;
    if (!mock_top() || peer == mock_top())
        return KOLO_CUDA_INVALID_CONTEXT;
    if (flags != 0)
        return KOLO_CUDA_INVALID_VALUE;
    if (mock_top()->reaches & peer->bit)
        return KOLO_CUDA_PEER_ALREADY_ENABLED;
    mock_top()->reaches |= peer->bit;
    return KOLO_CUDA_SUCCESS;
}

#pragma GCC visibility pop
