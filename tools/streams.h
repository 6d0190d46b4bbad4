// SPDX-License-Identifier: Apache-2.0
// The standard streams of a program: ensures that they exist when it begins, and that its standard
// output has been written when it ends.
#ifndef KOLO_TOOLS_STREAMS_H
#define KOLO_TOOLS_STREAMS_H

#include "base/status.h"

/** Ensures that descriptors 0, 1 and 2 are open, so that no other file gets one of these numbers.
 * Writing to a standard output that was closed fails. Writing beyond `ulimit -f` fails with EFBIG
 * instead of a signal. */
kolo_status streams_secure(void) KOLO_NODISCARD;

/** Has everything so far been written to standard output? ERR_SYSTEM says why not; the caller
 * reports it, see streams_end. */
kolo_status streams_flush(void) KOLO_NODISCARD;

/** Returns what @p program, which would end with @p exit_status, shall end with: 1 instead of 0 if
 * its output could not all be written. It prints a line about that, unless streams_flush has
 * reported it before. */
int streams_end(const char *program, int exit_status) KOLO_NODISCARD;

#endif
