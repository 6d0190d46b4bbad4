// SPDX-License-Identifier: Apache-2.0
// The standard streams of a program: that they are there when it begins, and that what it said on
// standard output has been written when it ends.
#ifndef KOLO_TOOLS_STREAMS_H
#define KOLO_TOOLS_STREAMS_H

#include "base/status.h"

/** Makes sure that descriptors 0, 1 and 2 are open, so that no file gets such a number. Writing to
 * a standard output that was closed fails; so does, by EFBIG and no signal, what goes beyond
 * `ulimit -f`. */
kolo_status streams_secure(void) KOLO_NODISCARD;

/** Has all that was said so far left for standard output? ERR_SYSTEM and why not; whoever asks says
 * so, see streams_end. */
kolo_status streams_flush(void) KOLO_NODISCARD;

/** What @p program, which would end with @p exit_status, ends with: 1 for 0 where not all that it
 * said could be written, with a line about it, unless streams_flush has said that before. */
int streams_end(const char *program, int exit_status) KOLO_NODISCARD;

#endif
