// SPDX-License-Identifier: Apache-2.0
// Registrations: memory of kolo_alloc is registered once, other memory for each request, nothing is
// kept of freed memory, and a failure has its reason in the text.
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "memory/memory.h"
#include "tests/support/fake_verbs.h"
#include "transport/rdma_register.h"

enum { BYTES = 1 << 20 };

static struct kolo_rdma_device *device;
static struct kolo_heap *heap;
static struct kolo_rdma_regions regions;

static void begin(void)
{
    fake_verbs_reset();
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), fake_verbs_settings(""), -1, &device) ==
              KOLO_OK);
    cr_assert(kolo_heap_create(&heap) == KOLO_OK);
    kolo_rdma_regions_init(&regions, device, heap);
}

static void end(void)
{
    kolo_rdma_regions_fini(&regions);
    kolo_heap_destroy(heap);
    kolo_rdma_device_close(device);
    cr_assert(fake_verbs_living() == 0, "%d left", fake_verbs_living());
}

static void gone(void *context, uint64_t id)
{
    kolo_rdma_regions_gone(context, id);
}

static char *allocate(size_t bytes)
{
    void *memory = NULL;
    cr_assert(kolo_heap_alloc(heap, bytes, &memory) == KOLO_OK);
    return memory;
}

static struct kolo_rdma_region *take(void *memory, size_t bytes)
{
    struct kolo_rdma_region *region = NULL;
    cr_assert(kolo_rdma_regions_take(&regions, memory, bytes, &region) == KOLO_OK, "%s",
              kolo_error_detail());
    return region;
}

TestSuite(rdma_register, .init = begin, .fini = end, .timeout = 60);

Test(rdma_register, memory_of_kolo_alloc_is_registered_once_and_whole)
{
    char *memory = allocate(BYTES);
    struct kolo_rdma_region *first = take(memory, 64),
                            *second = take(memory + BYTES / 2, BYTES / 2);
    cr_assert(first == second && first->handle->length >= BYTES && first->handle->addr == memory);
    cr_assert(first->local_key == first->handle->lkey && first->remote_key == first->handle->rkey);
    kolo_rdma_regions_give(&regions, first);
    kolo_rdma_regions_give(&regions, second);
    for (int i = 0; i < 100; i++)
        kolo_rdma_regions_give(&regions, take(memory, BYTES));
    cr_assert(fake_verbs_registered() == 1 && fake_verbs_regions() == 1);
}

Test(rdma_register, what_is_freed_is_let_go)
{
    char *memory = allocate(BYTES);
    kolo_rdma_regions_give(&regions, take(memory, BYTES));
    cr_assert(kolo_heap_free(heap, memory, gone, &regions) == KOLO_OK && fake_verbs_regions() == 0);
    /* The address is used again, by another span. */
    for (int i = 0; i < 20; i++) {
        memory = allocate(BYTES);
        struct kolo_rdma_region *region = take(memory, BYTES);
        cr_assert(region->handle->addr == memory && fake_verbs_regions() == 1);
        kolo_rdma_regions_give(&regions, region);
        cr_assert(kolo_heap_free(heap, memory, gone, &regions) == KOLO_OK);
    }
    cr_assert(fake_verbs_registered() == 21 && fake_verbs_regions() == 0);
}

/** Neither stays its memory locked, nor may a device come late to what is there then. */
Test(rdma_register, what_was_registered_is_not_kept)
{
    char *memory = allocate(BYTES), *other = allocate(BYTES);
    kolo_rdma_regions_give(&regions, take(memory + BYTES / 2, 1));
    cr_assert(!kolo_heap_keep(heap, memory, gone, &regions));
    cr_assert(kolo_heap_free(heap, memory, gone, &regions) == KOLO_OK && fake_verbs_regions() == 0);
    cr_assert(kolo_heap_keep(heap, other, gone, &regions));
}

Test(rdma_register, what_is_freed_in_use_stays_for_who_uses_it)
{
    char *memory = allocate(BYTES);
    struct kolo_rdma_region *region = take(memory, BYTES), *again = take(memory, 1);
    cr_assert(kolo_heap_free(heap, memory, gone, &regions) == KOLO_OK);
    cr_assert(fake_verbs_regions() == 1);
    char *other = allocate(BYTES);
    struct kolo_rdma_region *fresh = take(other, BYTES);
    cr_assert(fresh != region && fake_verbs_regions() == 2, "a new span is another registration");
    kolo_rdma_regions_give(&regions, region);
    cr_assert(fake_verbs_regions() == 2);
    kolo_rdma_regions_give(&regions, again);
    cr_assert(fake_verbs_regions() == 1);
    kolo_rdma_regions_give(&regions, fresh);
}

Test(rdma_register, a_severed_span_is_registered_anew)
{
    char *memory = allocate(BYTES);
    kolo_rdma_regions_give(&regions, take(memory, BYTES));
    cr_assert(kolo_heap_sever(heap, memory + BYTES / 4, BYTES / 4, gone, &regions) == KOLO_OK);
    cr_assert(fake_verbs_regions() == 0, "the old pages are not ours any more");
    struct kolo_rdma_region *region = take(memory + BYTES / 4, BYTES / 4);
    cr_assert((char *)region->handle->addr == memory + BYTES / 4 && region->span != 0);
    kolo_rdma_regions_give(&regions, region);
    /* A range across an edge lies in no single span. */
    region = take(memory, BYTES);
    cr_assert(region->span == 0 && region->handle->length == BYTES);
    kolo_rdma_regions_give(&regions, region);
}

Test(rdma_register, other_memory_is_registered_for_one_request)
{
    char *memory = malloc(BYTES);
    for (int i = 0; i < 3; i++) {
        struct kolo_rdma_region *region = take(memory + i, 100);
        cr_assert(region->handle->addr == memory + i && region->handle->length == 100 &&
                  fake_verbs_regions() == 1);
        kolo_rdma_regions_give(&regions, region);
        cr_assert(fake_verbs_regions() == 0);
    }
    free(memory);
    regions.heap = NULL;
    char byte = 0;
    kolo_rdma_regions_give(&regions, take(&byte, 1));
}

Test(rdma_register, what_nobody_uses_makes_room)
{
    char *memory[8];
    for (int i = 0; i < 8; i++) {
        memory[i] = allocate(4096);
        struct kolo_rdma_region *region = take(memory[i], 1);
        if (i != 5)
            kolo_rdma_regions_give(&regions, region);
    }
    cr_assert(fake_verbs_regions() == 8);
    fake_verbs_fail("reg_mr", 1, ENOMEM);
    struct kolo_rdma_region *region = take(memory, sizeof memory);
    cr_assert(fake_verbs_regions() == 2, "the one in use, and the new one");
    kolo_rdma_regions_give(&regions, region);
    region = take(memory[5], 1);
    cr_assert(region->users == 2);
    kolo_rdma_regions_give(&regions, region);
    kolo_rdma_regions_give(&regions, region);
}

static char logged[4096];

static void keep_line(void *context, enum kolo_log_level level, const char *line)
{
    const size_t used = strlen(logged);
    (void)context;
    if (level <= KOLO_LOG_WARN)
        snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

/** A span that was registered and then freed, but that its device fails to deregister. Returns
 * another mapping of its pages. */
static uint8_t *free_refused(void)
{
    char *memory = allocate(BYTES);
    struct kolo_rdma_region *region = take(memory, BYTES);
    uint8_t *pages = region->pages;
    kolo_rdma_regions_give(&regions, region);
    logged[0] = '\0';
    kolo_log_set_sink(keep_line, NULL);
    fake_verbs_fail("dereg_mr", 1, EBUSY);
    cr_assert(kolo_heap_free(heap, memory, gone, &regions) == KOLO_OK && fake_verbs_regions() == 1);
    cr_assert(strstr(logged, "fake0: the registration of 1048576 bytes cannot be undone"), "%s",
              logged);
    logged[0] = '\0';
    return pages;
}

static bool is_mapped(uint8_t *pages)
{
    unsigned char there;
    return mincore(pages, 1, &there) == 0;
}

Test(rdma_register, what_a_device_does_not_let_go_of_is_kept_until_it_does)
{
    uint8_t *pages = free_refused();
    cr_assert(is_mapped(pages), "the system may have them while the device writes there");
    char *memory = allocate(BYTES);
    struct kolo_rdma_region *region = take(memory, BYTES);
    cr_assert(fake_verbs_regions() == 2, "not taken for another span's");
    kolo_rdma_regions_give(&regions, region);
    fake_verbs_fail("reg_mr", 1, ENOMEM);
    char *other = allocate(BYTES);
    region = take(other, BYTES);
    cr_assert(fake_verbs_regions() == 1, "it makes room, as do those that nobody uses");
    kolo_rdma_regions_give(&regions, region);
    kolo_log_set_sink(NULL, NULL);
}

Test(rdma_register, what_a_device_does_not_let_go_of_is_tried_again_at_its_end)
{
    const uint8_t *pages = free_refused();
    kolo_rdma_regions_fini(&regions);
    cr_assert(fake_verbs_regions() == 1 && is_mapped((uint8_t *)(uintptr_t)pages));
    kolo_rdma_device_close(device);
    device = NULL;
    cr_assert(fake_verbs_regions() == 0 && logged[0] == '\0', "%s", logged);
    kolo_log_set_sink(NULL, NULL);
}

Test(rdma_register, what_a_device_never_lets_go_of_is_told)
{
    uint8_t *pages = free_refused();
    kolo_rdma_regions_fini(&regions);
    fake_verbs_fail("dereg_mr", 1, EBUSY);
    kolo_rdma_device_close(device);
    device = NULL;
    cr_assert(strstr(logged, "fake0: 1 registrations could not be undone"), "%s", logged);
    cr_assert(is_mapped(pages), "never again the system's");
    kolo_log_set_sink(NULL, NULL);
}

static void refused(int error, const char *text)
{
    char byte = 0;
    struct kolo_rdma_region *region = NULL;
    fake_verbs_fail("reg_mr", 1, error);
    cr_assert(kolo_rdma_regions_take(&regions, &byte, 1, &region) == KOLO_ERR_SYSTEM && !region);
    cr_assert(strstr(kolo_error_detail(), text), "'%s' is not in: %s", text, kolo_error_detail());
    cr_assert(strstr(kolo_error_detail(), "fake0 port 1: 1 bytes"), "%s", kolo_error_detail());
}

Test(rdma_register, the_reason_says_what_to_change)
{
    const struct rlimit tight = {64 << 10, 64 << 10}, none = {0, 0};
    refused(EFAULT, "are they mapped, and writable?: Bad address");
    refused(EIO, "cannot be registered: Input/output error");
    cr_assert(setrlimit(RLIMIT_MEMLOCK, &tight) == 0);
    refused(ENOMEM, "the limit is 64 KiB: raise it (ulimit -l unlimited");
    refused(EPERM, "cannot be registered: Operation not permitted");
    cr_assert(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    refused(EPERM, "the limit is 0 KiB: raise it (ulimit -l unlimited");
}

Test(rdma_register, without_memory_of_our_own)
{
    char *memory = allocate(BYTES);
    struct kolo_rdma_region *region = NULL;
    for (uint64_t nth = 1; nth <= 2; nth++) { /* the region, then its entry in the map */
        kolo_alloc_fail_nth(nth);
        cr_assert(kolo_rdma_regions_take(&regions, memory, 1, &region) == KOLO_ERR_NO_MEMORY);
        cr_assert(!region && fake_verbs_regions() == 0);
    }
    kolo_alloc_fail_nth(0);
    kolo_rdma_regions_give(&regions, take(memory, 1));
}

Test(rdma_register, numbers_that_end_alike_are_told_apart)
{
    char *memory = allocate(4096), *other = allocate(4096);
    struct kolo_rdma_region *region = take(memory, 1);
    region->span += UINT64_C(1) << 32; /* as if it were the span 2^32 later */
    struct kolo_rdma_region *second = take(memory, 1), *third = take(other, 1);
    cr_assert(second != region && second->span == 0 && third->span != 0);
    kolo_rdma_regions_give(&regions, second);
    kolo_rdma_regions_give(&regions, third);
    kolo_rdma_regions_gone(&regions, region->span - (UINT64_C(1) << 32));
    cr_assert(fake_verbs_regions() == 2, "another's end is not ours");
    kolo_rdma_regions_give(&regions, region);
}
