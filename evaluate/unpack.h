// SPDX-License-Identifier: Apache-2.0
// What a file contains: its bytes, or, if it is gzip, what was packed.
#ifndef KOLO_EVALUATE_UNPACK_H
#define KOLO_EVALUATE_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/status.h"

struct eval_unpack {
    const char *path;
    int fd;
    enum { EVAL_NOT_LOOKED, EVAL_PLAIN, EVAL_GZIP } kind;
    unsigned char *packed; /* NULL: not open */
    z_stream stream;       /* its input is what `packed` still has */
    bool is_inside;        /* a member has begun and has not ended */
    bool is_over;          /* the file has no more bytes */
    uint64_t taken;        /* bytes of the file that were read */
    uint64_t content;      /* bytes that were given out */
};

/** Takes @p fd, also if it fails. @p path must stay valid. @return KOLO_OK; ERR_NO_MEMORY. */
kolo_status eval_unpack_open(struct eval_unpack *unpack, const char *path, int fd) KOLO_NODISCARD;
/** Continues at a byte of a plain file. @return KOLO_OK; ERR_DATA (packed); ERR_SYSTEM. */
kolo_status eval_unpack_skip(struct eval_unpack *unpack, uint64_t to) KOLO_NODISCARD;
/** Fills @p into, unless the content is over before. @return KOLO_OK; ERR_SYSTEM; ERR_NO_MEMORY;
 * ERR_DATA (gzip that is cut or damaged, or has something else behind it). */
kolo_status eval_unpack_read(struct eval_unpack *unpack, unsigned char *into, size_t capacity,
                             size_t *got_out) KOLO_NODISCARD;
/** The bytes of the file that were used. */
uint64_t eval_unpack_used(const struct eval_unpack *unpack);
/** One that was never opened (zero) is allowed. */
void eval_unpack_close(struct eval_unpack *unpack);

#endif
