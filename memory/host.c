// SPDX-License-Identifier: Apache-2.0
// The memory kind "host": ordinary host memory in a memfd, so that processes which are given the
// descriptor can map the same pages. Owns nothing after a call returns: the span belongs to the
// heap.
//
// The pages are reserved at once (fallocate), so that a lack of memory is an error of the
// allocation and not a SIGBUS of a later access. For the same reason the size is sealed: no other
// process can truncate the file under a mapping. If a sandbox forbids memfds, a file without a name
// is used instead. It cannot be sealed, so other processes do not accept it, shm is left out, and
// all data goes over TCP.
//
// Huge pages are left to the system: with shmem_enabled=advise and aligned 256 MiB, madvise got
// none and changed no figure.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "memory/memory.h"
#include "memory/shared_file.h"

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/** @return the descriptor, or -1 and errno. */
static int open_file(bool *is_memfd_out)
{
    int fd = kolo_memfd_create("kolo");
    *is_memfd_out = fd >= 0;
    if (fd < 0 && kolo_memfd_is_forbidden(errno)) {
        const int error = errno;
        fd = kolo_nameless_file_create();
        errno = error;
    }
    return fd;
}

static const char *memfd_advice(int error)
{
    switch (error) {
    case EMFILE:
        return "this process has too many open files: raise `ulimit -n`";
    case ENFILE:
        return "the system has too many open files: raise fs.file-max";
    case ENOSYS:
    case EPERM:
    case EACCES:
        return "a sandbox or an old kernel forbids memfd_create, and no file in /dev/shm or /tmp "
               "takes its place; allow one of them, or use memory of the program's own";
    default:
        return "memfd_create";
    }
}

/** The same before the system's words, which kolo_fail_errno gives the advice itself for these. */
static const char *memfd_words(int error)
{
    return error == EMFILE || error == ENFILE ? "memfd_create" : memfd_advice(error);
}

static kolo_status host_probe(struct kolo_why *why_out)
{
    bool is_memfd;
    const int fd = open_file(&is_memfd);
    if (fd < 0) {
        const int error = errno;
        (void)snprintf(why_out->text, sizeof why_out->text, "%s", memfd_advice(error));
        return kolo_fail_errno(KOLO_ERR_UNSUPPORTED, error, "host memory: %s", memfd_words(error));
    }
    (void)snprintf(why_out->text, sizeof why_out->text, "%s",
                   is_memfd ? ""
                            : "in files that neighbours do not map: a sandbox or an old kernel "
                              "forbids memfd_create");
    (void)close(fd);
    return KOLO_OK;
}

kolo_status kolo_shared_memory_check(size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        bytes > limit.rlim_cur)
        return kolo_fail(KOLO_ERR_NO_MEMORY,
                         "%zu bytes of shared memory exceed the file size limit of %llu: raise "
                         "`ulimit -f`",
                         bytes, (unsigned long long)limit.rlim_cur);
    struct sysinfo info;
    if (sysinfo(&info) != 0)
        return KOLO_OK;
    const uint64_t total = ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
    if (bytes > total)
        return kolo_fail(KOLO_ERR_NO_MEMORY,
                         "%zu bytes of shared memory are more than this host has (%llu with swap): "
                         "allocate less per rank or use more hosts",
                         bytes, (unsigned long long)total);
    return KOLO_OK;
}

kolo_status kolo_shared_memory_refused(int error, size_t bytes)
{
    switch (error) {
    case ENOSPC:
    case ENOMEM:
        return kolo_fail_errno(KOLO_ERR_NO_MEMORY, error,
                               "%zu bytes of shared memory: free memory or raise the limit of "
                               "memory of this container or job",
                               bytes);
    case EFBIG:
        return kolo_fail_errno(KOLO_ERR_NO_MEMORY, error, "%zu bytes of shared memory", bytes);
    default:
        return kolo_fail_errno(KOLO_ERR_SYSTEM, error, "reserving %zu bytes of shared memory",
                               bytes);
    }
}

/** A file that cannot be sealed is not accepted by other processes, and shm lends it to none
 * (kolo_shm_memory_check). */
static kolo_status reserve(int fd, size_t bytes)
{
    const int error =
        ftruncate(fd, (off_t)bytes) == 0 ? kolo_shared_file_reserve(fd, 0, bytes) : errno;
    if (error != 0)
        return kolo_shared_memory_refused(error, bytes);
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return KOLO_OK;
}

kolo_status kolo_shared_memory_unmappable(int error, size_t bytes)
{
    return kolo_fail_errno(KOLO_ERR_NO_MEMORY, error,
                           "mapping %zu bytes of shared memory: raise `ulimit -v` (or `ulimit -l` "
                           "if memory is locked), or vm.max_map_count",
                           bytes);
}

static kolo_status host_alloc(size_t bytes, struct kolo_span *span_out)
{
    kolo_status status;
    const size_t page = page_bytes();
    if (bytes > SIZE_MAX / 2)
        return kolo_fail(KOLO_ERR_NO_MEMORY,
                         "%zu bytes of shared memory: no address space has so "
                         "many; is the size negative?",
                         bytes);
    const size_t whole = bytes ? (bytes + page - 1) / page * page : page;
    KOLO_TRY(kolo_shared_memory_check(whole));
    bool is_memfd;
    const int fd = open_file(&is_memfd);
    if (fd < 0) {
        const int error = errno;
        return kolo_fail_errno(error == ENOMEM ? KOLO_ERR_NO_MEMORY : KOLO_ERR_SYSTEM, error,
                               "%zu bytes of shared memory: %s", bytes, memfd_words(error));
    }
    status = reserve(fd, whole);
    if (status != KOLO_OK)
        goto close_fd;
    void *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        status = kolo_shared_memory_unmappable(errno, whole);
        goto close_fd;
    }
    *span_out = (struct kolo_span){.base = base, .bytes = whole, .fd = fd, .file_bytes = whole};
    return KOLO_OK;
close_fd:
    (void)close(fd);
out:
    return status;
}

static void host_release(struct kolo_span *span)
{
    if (!span->base)
        return;
    (void)munmap(span->base, span->bytes);
    if (span->fd >= 0)
        (void)close(span->fd);
    *span = (struct kolo_span){.fd = -1};
}

static kolo_status host_move(struct kolo_span *span, void *base)
{
    if (mremap(span->base, span->bytes, span->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base) ==
        MAP_FAILED)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "moving %zu bytes of shared memory",
                               span->bytes);
    span->base = base;
    return KOLO_OK;
}

/** The kernel makes the copy at the first write, while it lets no thread of the process write.
 * Until then the page is still the file's, with all that was written to it. */
static kolo_status host_take_page(const struct kolo_span *span, void *page, void *own,
                                  struct kolo_span *span_out)
{
    const size_t bytes = page_bytes();
    const size_t offset = span->file_offset + (size_t)((uint8_t *)page - (uint8_t *)span->base);
    if (mmap(page, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, span->fd,
             (off_t)offset) == MAP_FAILED)
        return kolo_fail_errno(KOLO_ERR_SYSTEM, errno, "a page of shared memory of its own");
    volatile uint8_t *byte = own;
    *byte = *byte; /* the first write */
    *span_out = (struct kolo_span){.base = page, .bytes = bytes, .fd = -1};
    return KOLO_OK;
}

const struct kolo_memory_ops kolo_memory_host = {
    .name = "host",
    .kind = KOLO_MEMORY_HOST,
    .probe = host_probe,
    .alloc = host_alloc,
    .release = host_release,
    .move = host_move,
    .take_page = host_take_page,
};
