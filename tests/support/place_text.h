// SPDX-License-Identifier: Apache-2.0
// The text of a place, for messages of assertions.
#ifndef TESTS_SUPPORT_PLACE_TEXT_H
#define TESTS_SUPPORT_PLACE_TEXT_H

#include "transport/places.h"

/** kolo_place_format() with a buffer of its own: valid until the next call. */
const char *place_text(const struct kolo_place *place);

#endif
