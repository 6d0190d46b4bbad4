// SPDX-License-Identifier: Apache-2.0
// The .init and .fini of test suites for links over RDMA. They use devices in memory, or the two
// ports that KOLO_TEST_RDMA names ("rxe0,rxe1"): even ranks the first, odd ranks the second.
#ifndef KOLO_TESTS_SUPPORT_RDMA_DEVICES_H
#define KOLO_TESTS_SUPPORT_RDMA_DEVICES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_fixture.h"
#include "tests/support/transport_suite.h"

static void begin_by_what_there_is(void)
{
    static char names[128];
    const char *real = getenv("KOLO_TEST_RDMA");
    if (!real) {
        begin();
        return;
    }
    snprintf(names, sizeof names, "%s", real);
    char *comma = strchr(names, ',');
    cr_assert_not_null(comma, "KOLO_TEST_RDMA=%s: two ports with a comma between", real);
    *comma = '\0';
    suite_devices[0] = names;
    suite_devices[1] = comma + 1;
}

static void end_of_it(void)
{
    if (!getenv("KOLO_TEST_RDMA"))
        end();
}

#endif
