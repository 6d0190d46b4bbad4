// SPDX-License-Identifier: Apache-2.0
// See place_text.h.
#include "tests/support/place_text.h"

const char *place_text(const struct kolo_place *place)
{
    static char text[160];
    kolo_place_format(place, text, sizeof text);
    return text;
}
