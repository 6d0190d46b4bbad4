// SPDX-License-Identifier: Apache-2.0
// The version of the library is that of its headers.
#include <kolo/version.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(version, library_and_header_agree_on_three_numbers)
{
    int major, minor, patch;
    char rest;
    cr_assert(strcmp(kolo_version(), KOLO_VERSION) == 0, "%s", kolo_version());
    cr_assert(sscanf(kolo_version(), "%d.%d.%d%c", &major, &minor, &patch, &rest) == 3, "%s",
              kolo_version());
}
