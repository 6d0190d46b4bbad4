// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_SUPPORT_PLACE_TEXT_H
#define TESTS_SUPPORT_PLACE_TEXT_H

#include "transport/places.h"

/** kolo_place_format() for an assertion: valid until the next call. */
const char *place_text(const struct kolo_place *place);

#endif
