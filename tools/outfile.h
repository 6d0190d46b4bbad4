// SPDX-License-Identifier: Apache-2.0
// A file that is either complete under its name or absent, also if the process is killed meanwhile.
// A device or a pipe ("-" is /dev/stdout) is written in place; a link stays a link, and the file it
// leads to is replaced, or overwritten at the end if its name cannot be. To be used by one thread
// of a program at a time.
#ifndef KOLO_TOOLS_OUTFILE_H
#define KOLO_TOOLS_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

struct outfile {
    FILE *stream; /* NULL: not open */
    const char *option, *path;
    bool is_in_place, is_copied; /* is_copied: from a file without a name, when it is closed */
    bool is_named;               /* there is, or may be, a file of the name `beside` */
    bool is_settled;             /* it is being closed, and has no stream any more */
    int fd;                      /* what the stream writes to */
    int error;                   /* why the first write that failed did so */
    struct outfile *_Atomic next;
    char target[4096], beside[4096]; /* target: path, with links followed */
};

/** For tests: act as if the file system had no files without names. */
extern bool outfile_has_names_only;

/** An option and the file that it names; path NULL: it was not given. */
struct outfile_place {
    const char *option, *path;
};

/** Refuses two places that are the same file, whatever their names; a device (/dev/null) may be
 * given several times. */
kolo_status outfile_distinct(const struct outfile_place *places, size_t count) KOLO_NODISCARD;
/** Refuses @p path if it is one of the @p count files that are read. A file that does not exist is
 * left to its reader to report. */
kolo_status outfile_spares(const char *option, const char *path, const char *const *read,
                           size_t count) KOLO_NODISCARD;
/** @p option is how messages name it: "--json". It and @p path must stay valid, and @p file must
 * stay where it is, as long as the file is open. Its stream has no fileno(). */
kolo_status outfile_open(struct outfile *file, const char *option, const char *path) KOLO_NODISCARD;
/** Checks whether it could be opened, so that hours of work are not lost. Changes nothing. */
kolo_status outfile_probe(const char *option, const char *path) KOLO_NODISCARD;
/** Moves the file to its name. With @p keep false, or on failure, leaves nothing behind. A file
 * that is not open is allowed. */
kolo_status outfile_close(struct outfile *file, bool keep);
/** Closes several files. If one of them could not be written, none gets its name, and the first
 * failure is named. */
kolo_status outfile_close_all(struct outfile *const *files, size_t count, bool keep);

#endif
