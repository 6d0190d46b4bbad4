// SPDX-License-Identifier: Apache-2.0
// How thorough a test may be, according to the environment.
#ifndef KOLO_TESTS_SUPPORT_LENGTH_H
#define KOLO_TESTS_SUPPORT_LENGTH_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool test_has(const char *variable)
{
    const char *value = getenv(variable);
    return value && strcmp(value, "1") == 0;
}

/** The long run (script/test --soak). */
static inline bool test_is_long(void)
{
    return test_has("TEST_SOAK");
}

/** A slow preset: a part of the test is enough, because another preset runs all of it. */
static inline bool test_is_short(void)
{
    return test_has("TEST_SHORT");
}

#endif
