// SPDX-License-Identifier: Apache-2.0
// The conformance suite over RDMA: with devices in memory, or those of KOLO_TEST_RDMA.
#include "tests/support/rdma_devices.h"

TestSuite(rdma_conformance, .init = begin_by_what_there_is, .fini = end_of_it);
KOLO_TRANSPORT_SUITE(rdma_conformance, rdma)
