// SPDX-License-Identifier: Apache-2.0
#include "tests/support/transport_suite.h"

KOLO_TRANSPORT_SUITE(inproc, inproc)
