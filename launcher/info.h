// SPDX-License-Identifier: Apache-2.0
// `kolorun info`: shows what this machine and this build can do.
#ifndef KOLO_LAUNCHER_INFO_H
#define KOLO_LAUNCHER_INFO_H

#include <stdio.h>

#include "base/settings.h"
#include "memory/memory.h"

/** Checks whether ranks of this user can read each other's memory here: a child process tries to
 * read this one's. */
kolo_status kolo_info_try_reading(struct kolo_why *why_out) KOLO_NODISCARD;
void kolo_info_print(const struct kolo_settings *settings, FILE *out);

#endif
