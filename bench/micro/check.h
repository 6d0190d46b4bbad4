// SPDX-License-Identifier: Apache-2.0
// What the programs in this folder do when a call fails: they end, with one line that says why.
#ifndef KOLO_BENCH_MICRO_CHECK_H
#define KOLO_BENCH_MICRO_CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory/cuda_driver.h"
#include "memory/cuda_memory.h"

enum { MICRO_UNAVAILABLE = 77 }; /* the exit status: there is nothing here to measure */

/** Ends the program if @p status is one of a failure: with 77 for KOLO_ERR_UNSUPPORTED, else 1.
 * @p what failed, for the reader; may be NULL if the detail tells. */
static inline void check(kolo_status status, const char *what)
{
    if (status == KOLO_OK)
        return;
    fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, what ? what : "",
            what ? ": " : "", kolo_error_detail());
    exit(status == KOLO_ERR_UNSUPPORTED ? MICRO_UNAVAILABLE : 1);
}

/** The same for the result of one of the driver's calls. */
static inline void judge(const struct kolo_cuda_visit *visit, const char *call, int result)
{
    if (result != KOLO_CUDA_SUCCESS)
        check(kolo_cuda_fail(visit->driver, call, visit->ordinal, result), "failed");
}

#endif
