// SPDX-License-Identifier: Apache-2.0
// How a rank's TCP places are published to the others: u8 count, then for each u8 family (4 or 6),
// u16 port, the address in network order, u8 entry of KOLO_NET, u8 whether it is hardware, u32
// Mbit/s. What is read back is hostile.
#include <netinet/in.h>
#include <string.h>

#include "base/wire.h"
#include "transport/tcp.h"

kolo_status kolo_tcp_write_places(const struct kolo_place *places, size_t count,
                                  struct kolo_address *address_out)
{
    struct kolo_writer writer = kolo_writer_over(address_out->data, sizeof address_out->data);
    size_t written = 0;
    kolo_status status;

    kolo_write_u8(&writer, (uint8_t)count);
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        const uint8_t *ip = kolo_place_ip(&places[i], &bytes);
        kolo_write_u8(&writer, bytes == 4 ? 4 : 6);
        kolo_write_u16(&writer, kolo_place_port(&places[i]));
        kolo_write_bytes(&writer, ip, bytes);
        kolo_write_u8(&writer, places[i].facts.entry);
        kolo_write_u8(&writer, places[i].facts.is_hardware);
        kolo_write_u32(&writer, places[i].facts.speed_mbit);
    }
    status = kolo_writer_finish(&writer, address_out->data, &written);
    address_out->bytes = (uint16_t)written;
    return status;
}

static void read_place(struct kolo_reader *reader, struct kolo_place *place)
{
    uint8_t family = kolo_read_u8(reader), ip[sizeof(struct in6_addr)] = {0};
    uint16_t port = kolo_read_u16(reader);

    memset(place, 0, sizeof *place);
    if (family == 4 || family == 6) {
        kolo_read_bytes(reader, ip, family == 4 ? sizeof(struct in_addr) : sizeof ip);
        *place = kolo_place_make(family == 4 ? AF_INET : AF_INET6, ip, port);
    } else {
        reader->failed = true;
    }
    place->facts.entry = kolo_read_u8(reader);
    place->facts.is_hardware = kolo_read_u8(reader) != 0;
    place->facts.speed_mbit = kolo_read_u32(reader);
    place->facts.numa_node = -1;
}

kolo_status kolo_tcp_read_places(const uint8_t *data, size_t bytes, struct kolo_place *places_out,
                                 size_t *count_out)
{
    struct kolo_reader reader = kolo_reader_over(data, bytes);
    size_t count = kolo_read_u8(&reader);
    kolo_status status;

    if (count == 0 || count > TCP_PLACES_MAX)
        return kolo_fail(KOLO_ERR_DATA, "a tcp address with %zu places", count);
    for (size_t i = 0; i < count; i++)
        read_place(&reader, &places_out[i]);
    status = kolo_reader_finish(&reader, "a tcp address");
    if (status == KOLO_OK)
        *count_out = count;
    return status;
}

/** Whether a place is a card of the same kind, with an address of the same kind, so that each card
 *  counts once. */
static bool is_as_good(const struct kolo_place *place, const struct kolo_place *first)
{
    return place->addr.ss_family == first->addr.ss_family &&
           place->facts.entry == first->facts.entry &&
           place->facts.is_hardware == first->facts.is_hardware &&
           place->facts.speed_mbit == first->facts.speed_mbit;
}

struct kolo_line kolo_tcp_line(const struct kolo_address *address)
{
    struct kolo_place places[TCP_PLACES_MAX];
    struct kolo_line line = {.mbit = 0};
    size_t count = 0;

    if (kolo_tcp_read_places(address->data, address->bytes, places, &count) != KOLO_OK ||
        !places[0].facts.is_hardware || places[0].facts.speed_mbit == 0)
        return line; /* the speed that bridges and tunnels state means nothing */
    for (size_t i = 0; i < count; i++)
        line.cards += is_as_good(&places[i], &places[0]);
    line.mbit = places[0].facts.speed_mbit;
    return line;
}
