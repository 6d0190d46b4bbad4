// SPDX-License-Identifier: Apache-2.0
// Reads /sys and nothing else. Must never fail: whatever is missing or makes no sense counts as
// unknown.
#include "base/numa.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/short_file.h"

int kolo_numa_node_of(const char *directory)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/numa_node", directory);
    if (length >= (int)sizeof path)
        return -1;
    const int64_t node = kolo_short_file_number(path); /* it is -1 if the firmware does not say */
    return node <= INT_MAX ? (int)node : -1;
}

static bool ends_component(char next)
{
    return next == '/' || next == '\0';
}

/** How many components, from the start, two absolute paths have in common. */
static int common_components(const char *one, const char *other)
{
    int common = 0;
    for (size_t i = 1; one[i - 1] == other[i - 1] && one[i - 1] != '\0'; i++)
        common += one[i - 1] != '/' && ends_component(one[i]) && ends_component(other[i]);
    return common;
}

int kolo_bridges_shared(const char *one, const char *other)
{
    char a[PATH_MAX], b[PATH_MAX];
    if (!realpath(one, a) || !realpath(other, b))
        return 0;
    const int shared = common_components(a, b), everywhere = common_components(a, "/sys/devices");
    return shared > everywhere ? shared - everywhere : 0;
}
