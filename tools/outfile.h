// SPDX-License-Identifier: Apache-2.0
// A file that is whole under its name or not there, also where the process is killed meanwhile. A
// device or a pipe ("-" is /dev/stdout) is written in place; a link stays one, and what it leads to
// is replaced. For one thread of a program at a time.
#ifndef KOLO_TOOLS_OUTFILE_H
#define KOLO_TOOLS_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

struct outfile {
    FILE *stream; /* NULL: not open */
    const char *option, *path;
    bool is_in_place, is_named; /* named: there is, or may be, a file of the name `beside` */
    int fd;                     /* while it is closed */
    struct outfile *_Atomic next;
    char target[4096], beside[4096]; /* target: path, with links followed */
};

/** For tests: as where the file system has no files without a name. */
extern bool outfile_has_names_only;

/** An option and the file that it names; path NULL: it was not given. */
struct outfile_place {
    const char *option, *path;
};

/** Refuses two places that are one file, whatever their names; a device (/dev/null) takes
 * several. */
kolo_status outfile_distinct(const struct outfile_place *places, size_t count) KOLO_NODISCARD;
/** Refuses @p path where it is one of the @p count files that are read; one that is not there is
 * for whoever reads it to name. */
kolo_status outfile_spares(const char *option, const char *path, const char *const *read,
                           size_t count) KOLO_NODISCARD;
/** @p option is named in messages: "--json". It and @p path stay where they are, and live, as
 * long as the file is open. */
kolo_status outfile_open(struct outfile *file, const char *option, const char *path) KOLO_NODISCARD;
/** Whether it could be opened: before hours of work for it. Changes nothing. */
kolo_status outfile_probe(const char *option, const char *path) KOLO_NODISCARD;
/** Moves it to its name; with @p keep false, or where that fails, leaves nothing. A file that is
 * not open is fine. */
kolo_status outfile_close(struct outfile *file, bool keep);
/** Closes several, so that none has its name where one of them could not be written; the first
 * failure is named. */
kolo_status outfile_close_all(struct outfile *const *files, size_t count, bool keep);

#endif
