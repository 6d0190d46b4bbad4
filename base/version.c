// SPDX-License-Identifier: Apache-2.0
// The version of the library at run time.
#include <kolo/version.h>

const char *kolo_version(void)
{
    return KOLO_VERSION;
}
