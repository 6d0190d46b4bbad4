// SPDX-License-Identifier: Apache-2.0
// transport/header.c: the layout of a frame's header is the wire format.
#include <criterion/criterion.h>
#include <string.h>

#include "transport/link.h"

Test(header, is_32_bytes_little_endian)
{
    struct kolo_header header = {.channel = 0x01020304, .bytes = 0x0a0b0c0d}, copy;
    uint8_t bytes[KOLO_HEADER_BYTES];
    memset(header.desc.bytes, 0x77, sizeof header.desc.bytes);
    kolo_header_pack(&header, bytes);
    cr_assert_eq(memcmp(bytes, "\x04\x03\x02\x01\x0d\x0c\x0b\x0a\x77", 9), 0);
    kolo_header_unpack(bytes, &copy);
    cr_assert_eq(memcmp(&header, &copy, sizeof copy), 0);
}
