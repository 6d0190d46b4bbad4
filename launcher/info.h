// SPDX-License-Identifier: Apache-2.0
// `kolorun info`: what this machine and this build can do.
#ifndef KOLO_LAUNCHER_INFO_H
#define KOLO_LAUNCHER_INFO_H

#include <stdio.h>

#include "base/settings.h"
#include "memory/memory.h"

/** Whether ranks of this user here may read each other's memory: a child tries with this
 * process. */
kolo_status kolo_info_try_reading(struct kolo_why *why_out) KOLO_NODISCARD;
void kolo_info_print(const struct kolo_settings *settings, FILE *out);

#endif
