// SPDX-License-Identifier: Apache-2.0
// Where a line of a rank ends: at a newline, or at a carriage return that is not part of one, since
// the steps of a progress bar are lines too.
#ifndef KOLO_LAUNCHER_LINE_END_H
#define KOLO_LAUNCHER_LINE_END_H

#include <stdint.h>
#include <string.h>

/** The end of the line at @p at; @p past if the bytes up to there do not have it. */
static inline const uint8_t *kolo_line_end(const uint8_t *at, const uint8_t *past)
{
    enum { STEP = 4096 /* not all that follows is searched for each step of a progress bar */ };
    while (at < past) {
        const size_t bytes = past - at < STEP ? (size_t)(past - at) : STEP;
        const uint8_t *newline = memchr(at, '\n', bytes);
        const uint8_t *back = memchr(at, '\r', newline ? (size_t)(newline - at) : bytes);
        if (back)
            return back + 1 < past && back[1] == '\n' ? back + 2 : back + 1;
        if (newline)
            return newline + 1;
        at += bytes;
    }
    return past;
}

#endif
