// SPDX-License-Identifier: Apache-2.0
// Opens a port of the RDMA devices in memory, chosen by KOLO_RDMA_DEVICE.
#ifndef KOLO_TESTS_SUPPORT_FAKE_OPEN_H
#define KOLO_TESTS_SUPPORT_FAKE_OPEN_H

#include "transport/rdma_device.h"

/** Opens the port that KOLO_RDMA_DEVICE=@p wanted selects. Asserts that this succeeds. */
struct kolo_rdma_device *fake_open(const char *wanted);
/** Asserts that opening fails with @p status and a detail that contains @p text, and leaves nothing
 * open. */
void fake_open_refused(const char *wanted, kolo_status status, const char *text);

#endif
