// SPDX-License-Identifier: Apache-2.0
// runtime/request.c: a call on a device's buffer that fails while its receives are offered to a peer's RDMA device, and copies of
// what has come are still on their way. On devices in memory, and the mock's.
#include "memory/cuda_driver.h"
#include "tests/support/fake_fixture.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/world.h"

enum { PIECES = 32, PIECE = 64 << 10, BYTES = PIECES * PIECE };

TestSuite(rdma_staging, .init = begin, .fini = end, .timeout = 100);

static const struct mock_cuda *mock;

static kolo_status reduce(struct kolo_comm *comm, void *argument)
{
    void *memory = mock->alloc(MOCK_DEVICE, kolo_rank(comm), BYTES);
    (void)argument;
    return kolo_allreduce(comm, memory, memory, BYTES, KOLO_UINT8, KOLO_SUM, NULL, NULL);
}

/** The offers are cut off, and pages are unlocked for that: the mock aborts if they are still copied. */
Test(rdma_staging, pages_are_cut_off_when_copies_are_over)
{
    mock = mock_cuda_load();
    mock->begin();
    mock->delays(1, 5000);
    for (int nth = 24; nth < 56; nth += 4) {
        struct world world = {.size = 2,
                              .transport = "rdma",
                              .settings = {"KOLO_STAGE_BYTES=64KiB", "KOLO_SEGMENT_BYTES=64KiB",
                                           "KOLO_RDMA_DIRECT_BYTES=4KiB", "KOLO_PLAN=ring"}};
        mock->fail("cuMemcpyAsync", 2 * PIECES + nth, KOLO_CUDA_INVALID_VALUE);
        const kolo_status status = world_run(&world, reduce, NULL);
        mock->fail("", 1, 0); /* a call may be through with fewer copies */
        cr_assert(status == KOLO_OK || status == KOLO_ERR_SYSTEM, "%s", world_cause(&world)->text);
    }
}
