// SPDX-License-Identifier: Apache-2.0
// Letters of UTF-8, see letters.h. Overlong forms, surrogates and code points beyond U+10FFFF are
// not accepted.
#include "tools/letters.h"

size_t letters_first(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    size_t length = *byte < 0x80 ? 1 : *byte < 0xc2 ? 0 : *byte < 0xe0 ? 2 : *byte < 0xf0 ? 3 : 4;
    if (*byte > 0xf4 || (*byte == 0xe0 && byte[1] < 0xa0) || (*byte == 0xed && byte[1] > 0x9f) ||
        (*byte == 0xf0 && byte[1] < 0x90) || (*byte == 0xf4 && byte[1] > 0x8f))
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

void letters_repair(char *text, size_t length)
{
    for (size_t at = 0, bytes; at < length; at += bytes) {
        bytes = letters_first(text + at);
        if (bytes == 0 || text[at] == '\0') {
            text[at] = '?';
            bytes = 1;
        }
    }
}
