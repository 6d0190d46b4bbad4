// SPDX-License-Identifier: Apache-2.0
// base/numa.c on directories that look like those of /sys.
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/numa.h"

static char directory[] = "/tmp/kolo-test-numa-XXXXXX";

static int node_if(const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%s/numa_node", directory);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
    const int node = kolo_numa_node_of(directory);
    cr_assert(unlink(path) == 0);
    return node;
}

Test(numa, a_device_is_at_the_node_that_its_file_says)
{
    cr_assert_not_null(mkdtemp(directory));
    cr_expect_eq(node_if("0\n"), 0);
    cr_expect_eq(node_if("17\n"), 17);
    cr_expect_eq(node_if("-1\n"), -1);
    cr_expect_eq(node_if(""), -1);
    cr_expect_eq(node_if("none\n"), -1);
    cr_expect_eq(node_if("99999999999\n"), -1);
    cr_expect_eq(node_if("2147483647\n"), INT_MAX);
    cr_expect_eq(kolo_numa_node_of(directory), -1, "there is no such file");
    cr_assert(rmdir(directory) == 0);
    cr_expect_eq(kolo_numa_node_of(directory), -1, "there is no such device");
}

Test(numa, what_all_devices_share_is_no_bridge)
{
    static const char cpus[] = "/sys/devices/system/cpu", one[] = "/sys/devices/system/cpu/cpu0";
    if (access(one, F_OK) != 0)
        cr_skip_test("there is no %s", one);
    cr_expect_eq(kolo_bridges_shared(one, cpus), 2);
    cr_expect_eq(kolo_bridges_shared(cpus, one), 2);
    cr_expect_eq(kolo_bridges_shared(one, one), 3);
    cr_expect_eq(kolo_bridges_shared("/sys/devices/system/cpu/../cpu/cpu0", cpus), 2);
    cr_expect_eq(kolo_bridges_shared(one, "/sys/devices"), 0);
    cr_expect_eq(kolo_bridges_shared(one, "/"), 0);
    cr_expect_eq(kolo_bridges_shared(one, "/sys/there is none"), 0);
}

Test(numa, a_name_that_is_too_long_is_no_device)
{
    static char name[PATH_MAX + 1];
    for (int i = 0; i < PATH_MAX; i++)
        name[i] = '/';
    cr_expect_eq(kolo_numa_node_of(name), -1);
}
