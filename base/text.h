// SPDX-License-Identifier: Apache-2.0
// Text of unknown origin: what another process, host or user sent must not control the terminal on
// which it is shown, nor look like a line of its own.
#ifndef KOLO_BASE_TEXT_H
#define KOLO_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/** Whether @p byte is a control character of ASCII. */
static inline bool kolo_text_is_control(char byte)
{
    return (unsigned char)byte < ' ' || byte == 0x7f;
}

/** Length in bytes of the control character that the NUL-terminated @p text begins with: one of
 *  ASCII, or of the additional ones of Unicode (C1), which terminals may obey too. 0: none. */
size_t kolo_text_control(const char *text);

/** Replaces each byte of such characters by '?'. */
void kolo_text_clean(char *text);

/** The same for @p bytes bytes, among which may be zeros, which are replaced too. @p text is
 *  terminated behind them. */
void kolo_text_clean_bytes(char *text, size_t bytes);

#endif
