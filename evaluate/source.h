// SPDX-License-Identifier: Apache-2.0
// A file, plain or gzip, read once from front to back in pieces; knows the position of each byte.
#ifndef KOLO_EVALUATE_SOURCE_H
#define KOLO_EVALUATE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "evaluate/progress.h"
#include "evaluate/unpack.h"

struct eval_source {
    const char *path;
    struct eval_unpack content;
    unsigned char *data; /* the current piece */
    size_t bytes;        /* of the piece; 0: the file is over */
    uint64_t before;     /* bytes of the pieces before, unpacked */
    uint64_t lines;      /* line ends in the pieces before */
    uint64_t line_start; /* beginning of the line that contains the start of the piece */
    uint32_t sum;        /* CRC-32 of the pieces so far, if asked for */
    bool is_summed;      /* never for a part */
    bool is_regular;     /* a file that stays what it was when it was opened: */
    int64_t size, written_ns;
    struct eval_progress progress;
};

/** Identifies a file: if all of it is equal for two files, they are the same file, or a copy that
 * cannot be distinguished. */
struct eval_identity {
    int64_t device, inode, bytes, changed_ns, written_ns; /* all 0: can only be read as a whole */
};

/** The identity of a regular file that begins with @p first; zero for any other. */
struct eval_identity eval_source_identify(const char *path, char first);
/** @p path must stay valid as long as the source. @param is_summed  whether to compute its sum */
kolo_status eval_source_open(struct eval_source *source, const char *path,
                             bool is_summed) KOLO_NODISCARD;
/** Continues at a byte of a plain file. Lines are not known from then on. @return KOLO_OK; ERR_DATA
 * (packed); ERR_SYSTEM. */
kolo_status eval_source_skip(struct eval_source *source, uint64_t to) KOLO_NODISCARD;
/** Reads the next piece. @return KOLO_OK; ERR_SYSTEM; ERR_NO_MEMORY; ERR_DATA (as
 * eval_unpack_read()). */
kolo_status eval_source_next(struct eval_source *source) KOLO_NODISCARD;
/** What reading all of it has come to, which is @p status unless somebody has written to the file
 * meanwhile: then what was read may be partly one file and partly another, and that is the error. A
 * file that was replaced by another (by rename) stays what it was. */
kolo_status eval_source_judge(const struct eval_source *source, kolo_status status) KOLO_NODISCARD;
/** Fails with "PATH: line L, column C (byte B): " and @p what, for byte @p at of the piece. */
kolo_status eval_source_fail(const struct eval_source *source, size_t at, const char *what);
/** A source that was never opened (zero) is allowed. */
void eval_source_close(struct eval_source *source);

#endif
