// SPDX-License-Identifier: Apache-2.0
// Control characters in UTF-8. Other bytes stay, valid or not: a terminal for UTF-8 obeys none.
#include "base/text.h"

#include <string.h>

size_t kolo_text_control(const char *text)
{
    const unsigned char first = (unsigned char)text[0];
    const unsigned char second = first != '\0' ? (unsigned char)text[1] : 0;
    if (first != '\0' && kolo_text_is_control(text[0]))
        return 1;
    return first == 0xc2 && second >= 0x80 && second < 0xa0 ? 2 : 0;
}

void kolo_text_clean_bytes(char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes; at++) {
        const size_t length = text[at] == '\0' ? 1 : kolo_text_control(text + at);
        memset(text + at, '?', length);
    }
}

void kolo_text_clean(char *text)
{
    kolo_text_clean_bytes(text, strlen(text));
}
