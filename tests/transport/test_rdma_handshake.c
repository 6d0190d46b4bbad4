// SPDX-License-Identifier: Apache-2.0
// The hello: what is packed is unpacked again, and any other bytes are refused with the name of the
// field that is wrong.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma_handshake.h"

static const struct kolo_rdma_gids published = {
    .all = {{.kind = KOLO_RDMA_ROCE_V2, .bytes = {[10] = 0xff, 0xff, 10, 0, 0, 1}},
            {.kind = KOLO_RDMA_INFINIBAND, .bytes = {0xfe, 0x80, [15] = 9}}},
    .count = 2};

static struct kolo_rdma_hello offer(void)
{
    return (struct kolo_rdma_hello){.offers = true,
                                    .gid = published.all[0],
                                    .mtu = IBV_MTU_4096,
                                    .pair = 0xffffff,
                                    .packet = 0x123456,
                                    .buffers = 32,
                                    .buffer_bytes = 65568,
                                    .round = 0x12345678,
                                    .received = UINT64_C(0x123456789abcdef0)};
}

static kolo_status unpack(const struct kolo_rdma_hello *hello, struct kolo_rdma_hello *hello_out)
{
    uint8_t bytes[KOLO_RDMA_HELLO_BYTES];
    kolo_rdma_hello_pack(hello, bytes);
    return kolo_rdma_hello_unpack(bytes, &published, hello_out);
}

Test(rdma_handshake, an_offer_comes_back)
{
    struct kolo_rdma_hello sent = offer(), got;
    cr_assert(unpack(&sent, &got) == KOLO_OK, "%s", kolo_error_detail());
    cr_assert(got.offers && got.pair == sent.pair && got.packet == sent.packet &&
              got.mtu == sent.mtu);
    cr_assert(got.buffers == 32 && got.buffer_bytes == 65568 && got.lid == 0 &&
              got.reason[0] == '\0');
    cr_assert(got.round == sent.round && got.received == sent.received);
    cr_assert(got.gid.kind == KOLO_RDMA_ROCE_V2 && memcmp(got.gid.bytes, sent.gid.bytes, 16) == 0);
    sent.gid = published.all[1];
    sent.lid = 0xbfff;
    cr_assert(unpack(&sent, &got) == KOLO_OK && got.lid == 0xbfff &&
              got.gid.kind == KOLO_RDMA_INFINIBAND);
}

Test(rdma_handshake, a_reason_comes_back)
{
    struct kolo_rdma_hello sent = {.reason = "rxe0: the limit of locked memory is 64 KiB"}, got;
    cr_assert(unpack(&sent, &got) == KOLO_OK && !got.offers);
    cr_assert_str_eq(got.reason, sent.reason);
    snprintf(sent.reason, sizeof sent.reason, "a\033[2Jb\nc\177");
    cr_assert(unpack(&sent, &got) == KOLO_OK);
    cr_assert_str_eq(got.reason, "a?[2Jb?c?");
    memset(sent.reason, 'x', sizeof sent.reason - 1);
    cr_assert(unpack(&sent, &got) == KOLO_OK && strlen(got.reason) == KOLO_RDMA_REASON_BYTES - 1);
}

#define REFUSED(field, value, text)                                                                \
    do {                                                                                           \
        struct kolo_rdma_hello forged = offer(), got = {.pair = 77};                               \
        forged.field = (value);                                                                    \
        cr_assert(unpack(&forged, &got) == KOLO_ERR_PROTOCOL, "%s", text);                         \
        cr_assert(strstr(kolo_error_detail(), text), "%s: %s", text, kolo_error_detail());         \
        cr_assert(got.pair == 77, "nothing is written");                                           \
    } while (0)

Test(rdma_handshake, each_field_is_checked)
{
    REFUSED(mtu, 0, "MTU code 0");
    REFUSED(mtu, 6, "MTU code 6");
    REFUSED(pair, 0, "queue pair 0");
    REFUSED(pair, 1u << 24, "queue pair 16777216");
    REFUSED(packet, 1u << 24, "packet number 16777216");
    REFUSED(lid, 1, "LID 1");
    REFUSED(buffers, 0, "a number of eager buffers of 0");
    REFUSED(buffers, 24, "a number of eager buffers of 24");
    REFUSED(buffers, 4, "a number of eager buffers of 4");
    REFUSED(buffers, 2048, "a number of eager buffers of 2048");
    REFUSED(buffer_bytes, 2047, "eager buffers of bytes 2047");
    REFUSED(buffer_bytes, UINT32_MAX, "eager buffers of bytes 4294967295");
    REFUSED(gid.kind, (enum kolo_rdma_kind)4, "an address of kind 4");
    REFUSED(gid.kind, KOLO_RDMA_ROCE_V1, "has not published");
    REFUSED(gid.bytes[15], 2, "has not published");
    REFUSED(gid, published.all[1], "LID 0");
}

Test(rdma_handshake, other_bytes_are_refused)
{
    uint8_t good[KOLO_RDMA_HELLO_BYTES], bytes[KOLO_RDMA_HELLO_BYTES];
    struct kolo_rdma_hello hello = offer(), got;
    unsigned seed = 5;
    kolo_rdma_hello_pack(&hello, good);
    /* what a truncated hello would be if it were filled up with zeros */
    memset(bytes, 0, sizeof bytes);
    cr_assert(kolo_rdma_hello_unpack(bytes, &published, &got) == KOLO_ERR_PROTOCOL);
    cr_assert(strstr(kolo_error_detail(), "begins with 00000000"), "%s", kolo_error_detail());
    memcpy(bytes, good, sizeof bytes);
    bytes[4] = 1;
    cr_assert(kolo_rdma_hello_unpack(bytes, &published, &got) == KOLO_ERR_PROTOCOL);
    cr_assert(strstr(kolo_error_detail(), "version 1"), "%s", kolo_error_detail());
    static const size_t reserved[] = {7, 18, 19, KOLO_RDMA_HELLO_BYTES - 1, 46};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        memcpy(bytes, good, sizeof bytes);
        bytes[reserved[i]] ^= 2;
        cr_assert(kolo_rdma_hello_unpack(bytes, &published, &got) == KOLO_ERR_PROTOCOL, "byte %zu",
                  reserved[i]);
    }
    memcpy(bytes, good, sizeof bytes);
    bytes[45] = 0xff; /* a text without an end */
    cr_assert(kolo_rdma_hello_unpack(bytes, &published, &got) == KOLO_ERR_PROTOCOL);
    /* A hello that is accepted is packed again as the same bytes, so nothing of it was misread. */
    for (int round = 0; round < 200000; round++) {
        memcpy(bytes, good, sizeof bytes);
        for (int i = rand_r(&seed) % 4; i >= 0; i--)
            bytes[rand_r(&seed) % 64] = (uint8_t)rand_r(&seed);
        if (kolo_rdma_hello_unpack(bytes, &published, &got) == KOLO_OK && got.offers &&
            got.reason[0] == '\0') {
            uint8_t again[KOLO_RDMA_HELLO_BYTES];
            kolo_rdma_hello_pack(&got, again);
            cr_assert(memcmp(again, bytes, sizeof again) == 0, "round %d", round);
        }
    }
}

Test(rdma_handshake, addresses_are_published_and_read)
{
    uint8_t bytes[KOLO_RDMA_GIDS_BYTES_MAX + 1];
    struct kolo_rdma_gids got;
    size_t used = 0, packed = kolo_rdma_gids_pack(&published, bytes);
    cr_assert(packed == 1 + 2 * 17);
    cr_assert(kolo_rdma_gids_unpack(bytes, sizeof bytes, &got, &used) == KOLO_OK &&
              used == packed && got.count == 2);
    for (size_t i = 0; i < 2; i++)
        cr_assert(got.all[i].kind == published.all[i].kind &&
                  memcmp(got.all[i].bytes, published.all[i].bytes, 16) == 0);
    for (size_t cut = 0; cut < packed; cut++)
        cr_assert(kolo_rdma_gids_unpack(bytes, cut, &got, &used) == KOLO_ERR_DATA, "%zu bytes",
                  cut);
    bytes[0] = KOLO_RDMA_GIDS_MAX + 1;
    cr_assert(kolo_rdma_gids_unpack(bytes, sizeof bytes, &got, &used) == KOLO_ERR_DATA);
    bytes[0] = 2;
    bytes[1] = 4;
    cr_assert(kolo_rdma_gids_unpack(bytes, sizeof bytes, &got, &used) == KOLO_ERR_DATA);
    cr_assert(strstr(kolo_error_detail(), "of kind 4"), "%s", kolo_error_detail());
}
