// SPDX-License-Identifier: Apache-2.0
// transport/checksum.c: what is on the wire with checksums and without, every bit of a header, and
// which links have them.
#include <criterion/criterion.h>
#include <string.h>

#include "base/checksum.h"
#include "tests/support/transport_frames.h"
#include "transport/checksum.h"

enum { PAYLOAD = 100 };
static uint8_t payload[PAYLOAD];
static struct kolo_work owner; /* what makes a frame one of data */

static struct kolo_frame frame_of(uint32_t bytes)
{
    for (size_t i = 0; i < PAYLOAD; i++)
        payload[i] = (uint8_t)(i * 3 + 1);
    return (struct kolo_frame){
        .header = header_of(7, bytes), .payload = payload, .bytes = bytes, .work = &owner};
}

/** Rank 0's link to rank 1, which is up. */
static struct kolo_link *open_tcp(struct suite_world **world_out, const char *transport,
                                  const char *checksum)
{
    suite_checksum = checksum;
    *world_out = suite_open(transport, 2, NULL, NULL);
    struct kolo_link *link = suite_link(&(*world_out)->ranks[0], 1);
    cr_assert_not_null(link);
    for (int i = 0; link->state != KOLO_LINK_UP; i++) {
        cr_assert(i < 10000000, "it does not come up");
        for (int rank = 0; rank < 2; rank++)
            cr_assert_eq(kolo_endpoint_progress((*world_out)->ranks[rank].endpoint, NULL), KOLO_OK);
    }
    return link;
}

Test(checksum, without_them_a_header_is_what_it_was, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_tcp(&world, "tcp", "0");
    const struct kolo_frame frame = frame_of(PAYLOAD);
    uint8_t plain[KOLO_HEADER_BYTES], packed[KOLO_HEADER_BYTES_MAX];
    struct kolo_header header;
    memset(packed, 0x5a, sizeof packed);
    cr_assert_eq(link->header_bytes, KOLO_HEADER_BYTES);
    cr_assert_null(link->sums);
    kolo_header_pack(&frame.header, plain);
    kolo_frame_pack(link, &frame, packed);
    cr_assert_eq(memcmp(plain, packed, sizeof plain), 0);
    for (size_t i = sizeof plain; i < sizeof packed; i++)
        cr_assert_eq(packed[i], 0x5a, "byte %zu", i);
    cr_assert_eq(kolo_frame_unpack(link, packed, &header), KOLO_OK);
    cr_assert_eq(memcmp(&header, &frame.header, sizeof header), 0);
    suite_close(world);
}

Test(checksum, with_them_both_sums_follow_little_endian, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_tcp(&world, "tcp", "1");
    static const uint32_t lengths[] = {0, 1, PAYLOAD};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const struct kolo_frame frame = frame_of(lengths[i]);
        uint8_t packed[KOLO_HEADER_BYTES_MAX] = {0}, plain[KOLO_HEADER_BYTES];
        struct kolo_header header;
        cr_assert_eq(link->header_bytes, 48);
        kolo_header_pack(&frame.header, plain);
        kolo_frame_pack(link, &frame, packed);
        cr_assert_eq(memcmp(plain, packed, sizeof plain), 0);
        struct kolo_reader reader = kolo_reader_over(packed + 32, 16);
        cr_assert_eq(kolo_read_u64(&reader), kolo_checksum_of(payload, lengths[i]));
        cr_assert_eq(kolo_read_u64(&reader), kolo_checksum_of(packed, 40));
        cr_assert_eq(kolo_frame_unpack(link, packed, &header), KOLO_OK, "%s", kolo_error_detail());
        cr_assert_eq(memcmp(&header, &frame.header, sizeof header), 0);
    }
    suite_close(world);
}

Test(checksum, each_bit_of_a_header_is_covered, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_tcp(&world, "tcp", "1");
    const struct kolo_frame frame = frame_of(PAYLOAD);
    uint8_t packed[KOLO_HEADER_BYTES_MAX];
    struct kolo_header header;
    kolo_frame_pack(link, &frame, packed);
    for (size_t bit = 0; bit < 8 * sizeof packed; bit++) {
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_assert_eq(kolo_frame_unpack(link, packed, &header), KOLO_ERR_DATA, "bit %zu", bit);
        cr_assert(strstr(kolo_error_detail(), "the header of a frame changed on the way"), "%s",
                  kolo_error_detail());
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    suite_close(world);
}

Test(checksum, memory_that_ranks_share_has_none, .timeout = 60)
{
    static const char *const transports[] = {"inproc", "shm"};
    for (size_t i = 0; i < 2; i++) {
        struct suite_world *world;
        struct kolo_link *link = open_tcp(&world, transports[i], "1");
        cr_assert_null(link->sums, "%s", transports[i]);
        cr_assert_eq(link->header_bytes, KOLO_HEADER_BYTES, "%s", transports[i]);
        suite_close(world);
    }
}

Test(checksum, a_frame_that_is_dropped_is_verified_too, .timeout = 60)
{
    struct suite_world *world;
    struct kolo_link *link = open_tcp(&world, "tcp", "1");
    const struct kolo_frame frame = frame_of(PAYLOAD);
    uint8_t packed[KOLO_HEADER_BYTES_MAX];
    struct kolo_header header;
    for (int is_changed = 0; is_changed < 2; is_changed++) {
        struct kolo_work work;
        uint8_t memory[PAYLOAD];
        kolo_frame_pack(link, &frame, packed);
        kolo_link_recv(link, 7 + (uint32_t)is_changed, &frame.header.desc, memory, PAYLOAD, NULL,
                       &work);
        cr_assert_eq(kolo_frame_unpack(link, packed, &header), KOLO_OK);
        header.channel = work.channel;
        cr_assert_eq(kolo_link_rx_begin(link, &header), KOLO_OK, "%s", kolo_error_detail());
        cr_assert_eq(kolo_sink_put(&link->sink, payload, PAYLOAD / 2), PAYLOAD / 2);
        kolo_work_cancel(&work); /* the rest of the frame is dropped */
        cr_assert_eq(work.status, KOLO_ERR_ABORTED);
        payload[PAYLOAD - 1] ^= (uint8_t)is_changed;
        cr_assert_eq(kolo_sink_put(&link->sink, payload + PAYLOAD / 2, PAYLOAD / 2), PAYLOAD / 2);
        const kolo_status status = kolo_link_rx_end(link);
        cr_assert_eq(status, is_changed ? KOLO_ERR_DATA : KOLO_OK, "%s", kolo_error_detail());
    }
    cr_assert(strstr(kolo_error_detail(),
                     "100 bytes in a message of channel 8, for which nobody waits any more,"),
              "%s", kolo_error_detail());
    suite_close(world);
}

Test(checksum, ranks_that_differ_are_told_so_in_the_same_words, .timeout = 60)
{
    struct suite_world *world;
    char first[KOLO_DETAIL_MAX];
    (void)open_tcp(&world, "tcp", "0");
    world->peers[1].checksum = true;
    cr_assert_eq(kolo_endpoint_set_peers(world->ranks[0].endpoint, world->peers), KOLO_ERR_CONFIG);
    kolo_detail_keep(first);
    cr_assert(strstr(first, "KOLO_CHECKSUM is 0 on rank 0 on ") &&
                  strstr(first, " and 1 on rank 1 on ") &&
                  strstr(first, "kolorun --set checksum=1"),
              "%s", first);
    cr_assert_eq(kolo_endpoint_set_peers(world->ranks[1].endpoint, world->peers), KOLO_ERR_CONFIG);
    cr_assert_str_eq(kolo_error_detail(), first);
    world->peers[0].checksum = true;
    cr_assert_eq(kolo_endpoint_set_peers(world->ranks[0].endpoint, world->peers), KOLO_OK);
    suite_close(world);
}
