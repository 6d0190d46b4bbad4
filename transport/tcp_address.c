// SPDX-License-Identifier: Apache-2.0
// How a rank's TCP places travel to the others: u8 count, then of each u8 family (4 or 6), u16
// port, the address in network order, u8 entry of KOLO_NET, u8 hardware or not, u32 Mbit/s. What
// comes back in is hostile.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/wire.h"
#include "transport/tcp.h"

const void *kolo_tcp_address_of(const struct kolo_place *place, size_t *bytes_out,
                                uint16_t *port_out)
{
    const void *addr = &place->addr;

    if (place->addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = addr;
        *bytes_out = sizeof in->sin_addr;
        *port_out = ntohs(in->sin_port);
        return &in->sin_addr;
    }
    const struct sockaddr_in6 *in6 = addr;
    *bytes_out = sizeof in6->sin6_addr;
    *port_out = ntohs(in6->sin6_port);
    return &in6->sin6_addr;
}

bool kolo_tcp_is_loopback(const struct kolo_place *place)
{
    size_t bytes;
    uint16_t port;
    const uint8_t *address = kolo_tcp_address_of(place, &bytes, &port);

    return bytes == 4 ? address[0] == 127 : memcmp(address, &in6addr_loopback, bytes) == 0;
}

kolo_status kolo_tcp_write_places(const struct kolo_place *places, size_t count,
                                  struct kolo_address *address_out)
{
    struct kolo_writer writer = kolo_writer_over(address_out->data, sizeof address_out->data);
    size_t written = 0;
    kolo_status status;

    kolo_write_u8(&writer, (uint8_t)count);
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        uint16_t port;
        const void *address = kolo_tcp_address_of(&places[i], &bytes, &port);
        kolo_write_u8(&writer, bytes == 4 ? 4 : 6);
        kolo_write_u16(&writer, port);
        kolo_write_bytes(&writer, address, bytes);
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
    void *addr = &place->addr;
    uint8_t family = kolo_read_u8(reader);
    uint16_t port = kolo_read_u16(reader);

    memset(place, 0, sizeof *place);
    if (family == 4) {
        struct sockaddr_in *in = addr;
        place->bytes = sizeof *in;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        kolo_read_bytes(reader, &in->sin_addr, sizeof in->sin_addr);
    } else if (family == 6) {
        struct sockaddr_in6 *in6 = addr;
        place->bytes = sizeof *in6;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        kolo_read_bytes(reader, &in6->sin6_addr, sizeof in6->sin6_addr);
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
