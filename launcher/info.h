// SPDX-License-Identifier: Apache-2.0
// `kolorun info`: what this machine and this build can do.
#ifndef KOLO_LAUNCHER_INFO_H
#define KOLO_LAUNCHER_INFO_H

#include <stdio.h>

#include "base/settings.h"

void kolo_info_print(const struct kolo_settings *settings, FILE *out);

#endif
