// SPDX-License-Identifier: Apache-2.0
// Opens a port of the devices in memory, as a setting says.
#ifndef KOLO_TESTS_SUPPORT_FAKE_OPEN_H
#define KOLO_TESTS_SUPPORT_FAKE_OPEN_H

#include "transport/rdma_device.h"

/** That KOLO_RDMA_DEVICE=@p wanted means; it must be had. */
struct kolo_rdma_device *fake_open(const char *wanted);
/** It must fail with @p status, say @p text, and leave nothing open. */
void fake_open_refused(const char *wanted, kolo_status status, const char *text);

#endif
