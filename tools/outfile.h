// SPDX-License-Identifier: Apache-2.0
// A file that is whole under its name or not there: written beside it, then renamed. A device or a
// pipe (/dev/stdout) is written in place.
#ifndef KOLO_TOOLS_OUTFILE_H
#define KOLO_TOOLS_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

struct outfile {
    FILE *stream; /* NULL: not open */
    const char *option, *path;
    bool is_in_place;
    char beside[4096];
};

/** @p option is named in messages: "--json". @p path lives as long as the file is open. */
kolo_status outfile_open(struct outfile *file, const char *option, const char *path) KOLO_NODISCARD;
/** Moves it to its name; with @p keep false, or where that fails, leaves nothing. A file that is
 * not open is fine. */
kolo_status outfile_close(struct outfile *file, bool keep);

#endif
