// SPDX-License-Identifier: Apache-2.0
// Letters of UTF-8, in text of unknown origin, such as file contents and file names: it may be any
// bytes. base/text.h replaces control characters.
#ifndef KOLO_TOOLS_LETTERS_H
#define KOLO_TOOLS_LETTERS_H

#include <stddef.h>

/** Length in bytes of the UTF-8 letter at the beginning of @p text, which is NUL-terminated; 0: it
 * begins with none. */
size_t letters_first(const char *text);
/** Replaces each byte that does not belong to a UTF-8 letter, and each 0, by '?'. @p text is
 * terminated behind @p length bytes. */
void letters_repair(char *text, size_t length);

#endif
