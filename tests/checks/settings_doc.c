// SPDX-License-Identifier: Apache-2.0
// Prints docs/SETTINGS.md from the registry, or with the argument "man" docs/man/kolo-settings.7.
// Build target settings-doc writes both files, check settings_doc compares them.
#include <string.h>

#include "base/settings.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "man") == 0)
        kolo_settings_print_man(stdout);
    else
        kolo_settings_print_markdown(stdout);
    return fflush(stdout) != 0;
}
