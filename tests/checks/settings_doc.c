// SPDX-License-Identifier: Apache-2.0
// Prints docs/SETTINGS.md from the registry. Build target settings-doc writes the file, check
// settings_doc compares it.
#include "base/settings.h"

int main(void)
{
    kolo_settings_print_markdown(stdout);
    return fflush(stdout) != 0;
}
