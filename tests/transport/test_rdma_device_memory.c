// SPDX-License-Identifier: Apache-2.0
// transport/rdma_register.c, memory of CUDA devices: it is registered once by its dma-buf and found
// by its address, the registration ends with its allocation, and it is never confused with later
// memory at the same address. Each refusal occurs, and is not asked for again. Uses the mock's
// devices and fake_verbs.
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "memory/cuda_driver.h"
#include "tests/support/fake_verbs.h"
#include "tests/support/mock_cuda.h"
#include "transport/rdma_register.h"

enum { BYTES = 300000 };

static const struct mock_cuda *mock;
static struct kolo_rdma_device *device;
static struct kolo_rdma_regions regions;
static struct kolo_verbs verbs;

static void begin(void)
{
    mock = mock_cuda_load();
    mock->begin();
    fake_verbs_reset();
    verbs = *fake_verbs_table();
    cr_assert(kolo_rdma_device_open(&verbs, fake_verbs_settings(""), -1, &device) == KOLO_OK);
    kolo_rdma_regions_init(&regions, device, NULL);
}

static void end(void)
{
    kolo_rdma_regions_fini(&regions);
    kolo_rdma_device_close(device);
    cr_assert(fake_verbs_living() == 0, "%d left", fake_verbs_living());
}

static struct kolo_pointer allocate(void)
{
    struct kolo_pointer pointer;
    cr_assert(kolo_device_alloc(0, NULL, BYTES, &pointer) == KOLO_OK, "%s", kolo_error_detail());
    return pointer;
}

static const uint8_t *at(const struct kolo_pointer *pointer, size_t offset)
{
    return (const uint8_t *)pointer->memory + offset;
}

TestSuite(rdma_device_memory, .init = begin, .fini = end, .timeout = 60);

Test(rdma_device_memory, an_allocation_is_registered_once_and_whole)
{
    const struct kolo_pointer pointer = allocate();
    cr_assert(kolo_rdma_regions_take_device(&regions, pointer.memory, 1) == NULL, "unknown");
    for (int i = 0; i < 3; i++)
        cr_assert(kolo_rdma_regions_know(&regions, &pointer));
    cr_assert(fake_verbs_registered() == 1);
    struct kolo_rdma_region *first = kolo_rdma_regions_take_device(&regions, at(&pointer, 7), 9),
                            *last = kolo_rdma_regions_take_device(&regions, at(&pointer, 0), BYTES);
    cr_assert(first && first == last && first->users == 2);
    cr_assert(first->handle->addr == pointer.memory && first->handle->length >= BYTES);
    cr_assert(first->local_key == first->handle->lkey && first->remote_key == first->handle->rkey);
    cr_assert(kolo_rdma_regions_take_device(&regions, at(&pointer, 1), first->extent.length) ==
              NULL);
    cr_assert(kolo_rdma_regions_take_device(&regions, at(&pointer, 0) - 1, 2) == NULL);
    kolo_rdma_regions_give(&regions, first);
    kolo_rdma_regions_give(&regions, last);
    cr_assert(fake_verbs_regions() == 1, "kept");
}

Test(rdma_device_memory, what_is_freed_is_let_go_when_nobody_has_it)
{
    const struct kolo_pointer pointer = allocate(), other = allocate();
    cr_assert(kolo_rdma_regions_know(&regions, &pointer) &&
              kolo_rdma_regions_know(&regions, &other));
    struct kolo_rdma_region *region =
        kolo_rdma_regions_take_device(&regions, pointer.memory, BYTES);
    kolo_rdma_regions_forget(&regions, pointer.memory);
    cr_assert(fake_verbs_regions() == 2, "somebody still writes there");
    cr_assert(kolo_rdma_regions_take_device(&regions, pointer.memory, 1) == NULL);
    kolo_rdma_regions_give(&regions, region);
    cr_assert(fake_verbs_regions() == 1);
    kolo_rdma_regions_forget(&regions, other.memory);
    kolo_rdma_regions_forget(&regions, other.memory);
    cr_assert(fake_verbs_regions() == 0);
}

/** Two small allocations in one page, as drivers make them. */
Test(rdma_device_memory, what_shares_a_page_is_let_go_by_itself)
{
    const struct kolo_pointer first = allocate(), second = allocate();
    cr_assert(kolo_rdma_regions_know(&regions, &first));
    struct kolo_extent *extent = &regions.devices->extent;
    const uint8_t *low = extent->base < at(&second, 0) ? extent->base : at(&second, 0);
    const uint8_t *high = extent->base < at(&second, 0) ? at(&second, BYTES) : at(&first, BYTES);
    extent->base = (uint8_t *)(uintptr_t)low; /* the pages that both share */
    extent->bytes = (size_t)(high - low);
    cr_assert(kolo_rdma_regions_know(&regions, &second));
    cr_assert(kolo_rdma_regions_is_device(&regions, first.memory, BYTES) &&
              kolo_rdma_regions_is_device(&regions, second.memory, BYTES));
    kolo_rdma_regions_forget(&regions, second.memory);
    cr_assert(kolo_rdma_regions_is_device(&regions, first.memory, BYTES));
    cr_assert(!kolo_rdma_regions_is_device(&regions, second.memory, 1));
}

/** Nothing reported that the first allocation was freed. */
Test(rdma_device_memory, an_address_that_is_given_out_again_is_registered_anew)
{
    const struct kolo_pointer pointer = allocate();
    cr_assert(kolo_rdma_regions_know(&regions, &pointer));
    const uint32_t key = regions.devices->local_key;
    regions.devices->extent.id += 1000; /* as if another allocation had been there before */
    cr_assert(kolo_rdma_regions_know(&regions, &pointer));
    struct kolo_rdma_region *region =
        kolo_rdma_regions_take_device(&regions, pointer.memory, BYTES);
    cr_assert(region->local_key != key && fake_verbs_regions() == 1);
    /* The same while the registration is in use: its users keep the old pages, all others get the
     * new ones. */
    region->extent.id += 1000;
    cr_assert(kolo_rdma_regions_know(&regions, &pointer) && fake_verbs_regions() == 2);
    struct kolo_rdma_region *fresh = kolo_rdma_regions_take_device(&regions, pointer.memory, 1);
    cr_assert(fresh && fresh != region);
    kolo_rdma_regions_give(&regions, fresh);
    kolo_rdma_regions_give(&regions, region);
    cr_assert(fake_verbs_regions() == 1);
}

static void refused(int asked)
{
    const struct kolo_pointer pointer = allocate();
    const int before = mock->calls("cuMemGetHandleForAddressRange");
    for (int i = 0; i < 3; i++)
        cr_assert(!kolo_rdma_regions_know(&regions, &pointer));
    cr_assert(kolo_rdma_regions_take_device(&regions, pointer.memory, 1) == NULL);
    cr_assert_eq(mock->calls("cuMemGetHandleForAddressRange") - before, asked);
    cr_assert(fake_verbs_regions() == 0 && kolo_error_detail()[0] == '\0');
    kolo_rdma_regions_forget(&regions, pointer.memory);
    cr_assert(regions.devices == NULL);
}

Test(rdma_device_memory, a_refusal_is_kept)
{
    fake_verbs_fail("reg_dmabuf_mr", 1, EOPNOTSUPP);
    refused(1);
    fake_verbs_fail("reg_dmabuf_mr", 1, ENOMEM);
    refused(1);
    mock->fail("cuMemGetHandleForAddressRange", 1, KOLO_CUDA_NOT_SUPPORTED);
    refused(1);
    mock->shares(0, 0);
    refused(0);
    mock->shares(1, KOLO_CUDA_WRITES_ORDERED_FOR_OWNER);
    verbs.reg_dmabuf_mr = NULL;
    refused(0);
}

Test(rdma_device_memory, without_memory_or_an_answer_nothing_is_kept)
{
    const struct kolo_pointer pointer = allocate();
    kolo_alloc_fail_nth(1);
    cr_assert(!kolo_rdma_regions_know(&regions, &pointer));
    kolo_alloc_fail_nth(0);
    mock->fail("cuPointerGetAttributes", 1, KOLO_CUDA_INVALID_VALUE);
    cr_assert(!kolo_rdma_regions_know(&regions, &pointer) && kolo_error_detail()[0] == '\0');
    cr_assert(!regions.devices && kolo_rdma_regions_know(&regions, &pointer));
}
