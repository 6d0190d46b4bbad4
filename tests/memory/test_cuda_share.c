// SPDX-License-Identifier: Apache-2.0
// memory/cuda_share.c with the mock driver: which allocation a pointer belongs to, its dma-buf, and
// every possible refusal, after which nothing is left open or current.
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/cuda_driver.h"
#include "memory/memory.h"
#include "tests/support/mock_cuda.h"

enum { BYTES = 100000 };

static const struct mock_cuda *mock;

static void begin(void)
{
    mock = mock_cuda_load();
    mock->begin();
}

static struct kolo_pointer look(const void *memory)
{
    struct kolo_pointer pointer;
    cr_assert(kolo_pointer_look(memory, &pointer) == KOLO_OK);
    return pointer;
}

static struct kolo_extent extent_of(const void *memory)
{
    const struct kolo_pointer pointer = look(memory);
    struct kolo_extent extent;
    cr_assert_eq(kolo_pointer_extent(&pointer, &extent), KOLO_OK, "%s", kolo_error_detail());
    return extent;
}

static int open_files(void)
{
    int count = 0;
    struct stat unused;
    for (int fd = 0; fd < 256; fd++)
        count += fstat(fd, &unused) == 0;
    return count;
}

TestSuite(cuda_share, .init = begin, .timeout = 60);

Test(cuda_share, an_extent_is_the_whole_allocation_in_whole_pages)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mock->alloc(MOCK_DEVICE, 1, BYTES);
    const struct kolo_extent whole = extent_of(memory), inner = extent_of(memory + BYTES - 1);
    cr_assert(whole.start == (uint8_t *)memory && whole.length == BYTES);
    cr_assert(whole.base == (uint8_t *)memory && whole.bytes == (BYTES + page - 1) / page * page);
    cr_assert(memcmp(&whole, &inner, sizeof whole) == 0);
    cr_assert_neq(extent_of(mock->alloc(MOCK_DEVICE, 1, BYTES)).id, whole.id);
}

/** The same address, but another allocation. */
Test(cuda_share, memory_that_was_given_out_again_is_another)
{
    struct kolo_pointer pointer, again;
    cr_assert(kolo_device_alloc(0, NULL, BYTES, &pointer) == KOLO_OK);
    const struct kolo_extent extent = extent_of(pointer.memory);
    cr_assert(kolo_device_free(&pointer, KOLO_NEVER, NULL) == KOLO_OK);
    cr_assert(kolo_device_alloc(0, NULL, BYTES, &again) == KOLO_OK);
    cr_assert_neq(extent_of(again.memory).id, extent.id);
}

Test(cuda_share, others_reach_the_memory_by_its_dma_buf)
{
    static uint8_t bytes[BYTES], seen[BYTES];
    int fd = -1;
    const int depth = mock->depth(), top = mock->current(), retained = mock->retained(0);
    for (int kind = MOCK_DEVICE; kind <= MOCK_NO_CONTEXT; kind++) {
        void *memory = mock->alloc((enum mock_kind)kind, 0, BYTES);
        const struct kolo_pointer pointer = look(memory);
        const struct kolo_extent extent = extent_of(memory);
        cr_assert_eq(kolo_pointer_share(&pointer, &extent, &fd), KOLO_OK, "%s",
                     kolo_error_detail());
        uint8_t *pages = mmap(NULL, extent.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        cr_assert(pages != MAP_FAILED);
        memset(bytes, kind + 1, sizeof bytes);
        memcpy(pages, bytes, sizeof bytes);
        mock->read(memory, seen, sizeof seen);
        cr_assert(memcmp(bytes, seen, sizeof bytes) == 0);
        munmap(pages, extent.bytes);
        close(fd);
    }
    cr_assert(mock->depth() == depth && mock->current() == top && mock->retained(0) == retained);
}

static void refused(const void *memory, kolo_status status, const char *words)
{
    const struct kolo_pointer pointer = look(memory);
    const struct kolo_extent extent = extent_of(memory);
    const int files = open_files(), depth = mock->depth();
    int fd = -7;
    const kolo_status got = kolo_pointer_share(&pointer, &extent, &fd);
    cr_assert(got == status && strstr(kolo_error_detail(), words), "%s: %s", kolo_status_name(got),
              kolo_error_detail());
    cr_assert(fd == -7 && open_files() == files && mock->depth() == depth);
}

Test(cuda_share, every_refusal_says_why_and_leaves_nothing)
{
    static const struct {
        const char *function;
        int nth, result;
        kolo_status status;
    } cases[] = {
        {"cuDeviceGet", 1, KOLO_CUDA_INVALID_VALUE, KOLO_ERR_SYSTEM},
        {"cuDeviceGetAttribute", 1, KOLO_CUDA_INVALID_VALUE, KOLO_ERR_SYSTEM},
        {"cuDeviceGetAttribute", 2, KOLO_CUDA_INVALID_VALUE, KOLO_ERR_SYSTEM},
        {"cuCtxPushCurrent_v2", 1, KOLO_CUDA_INVALID_CONTEXT, KOLO_ERR_SYSTEM},
        {"cuMemGetHandleForAddressRange", 1, KOLO_CUDA_NOT_SUPPORTED, KOLO_ERR_SYSTEM},
        {"cuMemGetHandleForAddressRange", 1, KOLO_CUDA_OUT_OF_MEMORY, KOLO_ERR_NO_MEMORY},
    };
    void *memory = mock->alloc(MOCK_DEVICE, 0, BYTES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mock->fail(cases[i].function, cases[i].nth, cases[i].result);
        refused(memory, cases[i].status, "on device 0");
    }
    mock->shares(0, KOLO_CUDA_WRITES_ORDERED_FOR_OWNER);
    refused(memory, KOLO_ERR_UNSUPPORTED, "gives no dma-buf");
    mock->shares(1, 0);
    refused(memory, KOLO_ERR_UNSUPPORTED, "does not order");
}

Test(cuda_share, what_is_no_allocation_has_no_extent)
{
    void *memory = mock->alloc(MOCK_DEVICE, 0, BYTES);
    struct kolo_pointer pointer = look(memory);
    struct kolo_extent extent;
    mock->fail("cuPointerGetAttributes", 1, KOLO_CUDA_INVALID_VALUE);
    cr_assert_eq(kolo_pointer_extent(&pointer, &extent), KOLO_ERR_SYSTEM);
    pointer.memory = &extent; /* for example, it was freed meanwhile */
    cr_assert_eq(kolo_pointer_extent(&pointer, &extent), KOLO_ERR_UNSUPPORTED);
    const struct kolo_pointer host = look(&extent);
    int fd = -1;
    cr_assert_eq(kolo_pointer_extent(&host, &extent), KOLO_ERR_UNSUPPORTED);
    cr_assert(kolo_pointer_share(&host, &extent, &fd) == KOLO_ERR_UNSUPPORTED &&
              strstr(kolo_error_detail(), "do not reach"));
}
