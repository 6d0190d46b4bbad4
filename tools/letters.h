// SPDX-License-Identifier: Apache-2.0
// Makes text of unknown origin, such as file contents and file names, safe to show: it may be any
// bytes.
#ifndef KOLO_TOOLS_LETTERS_H
#define KOLO_TOOLS_LETTERS_H

#include <stddef.h>

/** Length in bytes of the UTF-8 letter at the beginning of @p text, which is NUL-terminated; 0: it
 * begins with none. */
size_t letters_first(const char *text);
/** Replaces each byte that does not belong to a UTF-8 letter, and each 0, by '?'. @p text is
 * terminated behind @p length bytes. */
void letters_repair(char *text, size_t length);
/** Replaces each byte of a control character in the NUL-terminated @p text by '?': those of ASCII
 * and the additional ones of Unicode (C1), which terminals may obey too. For output of other
 * programs that is shown on a terminal. */
void letters_disarm(char *text);

#endif
