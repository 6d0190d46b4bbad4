// SPDX-License-Identifier: Apache-2.0
// Text that may be any bytes, as what stands in files and in names of files is.
#ifndef KOLO_TOOLS_LETTERS_H
#define KOLO_TOOLS_LETTERS_H

#include <stddef.h>

/** Bytes of the UTF-8 letter that begins at @p text, which ends with 0; 0: none does. */
size_t letters_first(const char *text);
/** Makes '?' of each byte that is of no letter of UTF-8, and of 0. @p text has an end mark behind
 *  @p length bytes. */
void letters_repair(char *text, size_t length);
/** Makes '?' of each byte of a control character in @p text, which ends with 0: those of ASCII, and
 *  those that UTF-8 has beside them (C1), which terminals may obey as well. For what another
 *  program has said and a terminal shows. */
void letters_disarm(char *text);

#endif
