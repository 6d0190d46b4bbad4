// SPDX-License-Identifier: Apache-2.0
// See fake_open.h.
#include "tests/support/fake_open.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/fake_verbs.h"

struct kolo_rdma_device *fake_open(const char *wanted)
{
    struct kolo_rdma_device *device = NULL;
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), fake_verbs_settings(wanted), -1, &device) ==
                  KOLO_OK,
              "%s", kolo_error_detail());
    return device;
}

void fake_open_refused(const char *wanted, kolo_status status, const char *text)
{
    struct kolo_rdma_device *device = NULL;
    cr_assert(kolo_rdma_device_open(fake_verbs_table(), fake_verbs_settings(wanted), -1, &device) ==
                  status,
              "'%s' %s", wanted, text);
    cr_assert(!device && fake_verbs_living() == 0);
    cr_assert(strstr(kolo_error_detail(), text), "'%s' is not in: %s", text, kolo_error_detail());
}
