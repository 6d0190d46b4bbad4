// SPDX-License-Identifier: Apache-2.0
// kolobench that lacks memory for its JSON: the allocation POOR_NTH of jansson fails. It says at
// the end if there were not as many.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static long left;

static void *take(size_t bytes)
{
    return left > 0 && --left == 0 ? NULL : malloc(bytes);
}

static void say(void)
{
    if (left > 0)
        fputs("poor: it did not lack any\n", stderr);
}

__attribute__((constructor)) static void begin(void)
{
    const char *nth = getenv("POOR_NTH");
    left = nth ? strtol(nth, NULL, 10) : 0;
    json_set_alloc_funcs(take, free);
    (void)atexit(say);
}
