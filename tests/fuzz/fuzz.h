// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzzers. Each defines LLVMFuzzerTestOneInput(), which is called by libFuzzer
// (KOLO_FUZZ) or by fuzz_main.c, which replays a corpus and mutates it from seeds.
#ifndef KOLO_TESTS_FUZZ_H
#define KOLO_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kolo/kolo.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static inline void fuzz_check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz: %s; detail: %s\n", what, kolo_error_detail());
    abort();
}

/* Checks the outcome for bytes from outside: success, a refusal, or no room; a failure has a
 * detail of one line. @param is_expected  whether any other status is allowed here */
static inline void fuzz_check_status(kolo_status status, bool is_expected)
{
    bool is_fine = status == KOLO_OK || status == KOLO_ERR_DATA || status == KOLO_ERR_NO_MEMORY;
    fuzz_check(is_fine || is_expected, "another status");
    fuzz_check(status == KOLO_OK || (kolo_error_detail()[0] && !strchr(kolo_error_detail(), '\n')),
               "no line of detail");
}

#endif
