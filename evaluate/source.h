// SPDX-License-Identifier: Apache-2.0
// A file, plain or gzip, read once from front to back in pieces, which knows where in it a byte is.
#ifndef KOLO_EVALUATE_SOURCE_H
#define KOLO_EVALUATE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/status.h"
#include "evaluate/progress.h"

struct eval_source {
    const char *path;
    gzFile file;
    unsigned char *data; /* the present piece */
    size_t bytes;        /* of it; 0: the file is over */
    uint64_t before;     /* bytes of the pieces before, unpacked */
    uint64_t lines;      /* line ends in the pieces before */
    uint64_t line_start; /* where the line begins that is open at the start of the piece */
    uint32_t sum;        /* CRC-32 of the pieces so far, where it is asked for */
    bool is_summed;      /* a part never is */
    struct eval_progress progress;
};

/** What a file is: two that have all of it in common are one, or a copy that is not told from
 * it. */
struct eval_identity {
    int64_t device, inode, bytes, changed_ns,
        written_ns; /* all 0: it can be read as a whole alone */
};

/** Of a regular file that begins with @p first; of all else, zero. */
struct eval_identity eval_source_identify(const char *path, char first);
/** @p path lives as long as the source. @param is_summed  whether its sum is asked for */
kolo_status eval_source_open(struct eval_source *source, const char *path,
                             bool is_summed) KOLO_NODISCARD;
/** Goes on at a byte of a plain file. Nobody knows its line then. @return KOLO_OK; ERR_DATA
 *  (packed); ERR_SYSTEM. */
kolo_status eval_source_skip(struct eval_source *source, uint64_t to) KOLO_NODISCARD;
/** The next piece. @return KOLO_OK; ERR_SYSTEM; ERR_DATA (damaged or cut gzip). */
kolo_status eval_source_next(struct eval_source *source) KOLO_NODISCARD;
/** Fails with "PATH: line L, column C (byte B): " and @p what, for byte @p at of the piece. */
kolo_status eval_source_fail(const struct eval_source *source, size_t at, const char *what);
/** A source that was never opened (zero) is fine. */
void eval_source_close(struct eval_source *source);

#endif
