// SPDX-License-Identifier: Apache-2.0
// Feeds frames that no honest peer sends to a link of an inproc world of two ranks.
#ifndef KOLO_TESTS_TRANSPORT_FRAMES_H
#define KOLO_TESTS_TRANSPORT_FRAMES_H

#include <string.h>

#include "tests/support/transport_suite.h"
#include "transport/core.h"

/* Opens the world; returns rank 0's link to rank 1. */
static inline struct kolo_link *open_link(struct suite_world **world_out, const char *credit)
{
    *world_out = suite_open("inproc", 2, "CREDIT_BYTES", credit);
    struct kolo_link *link = suite_link(&(*world_out)->ranks[0], 1);
    cr_assert_not_null(link);
    cr_assert_eq(link->state, KOLO_LINK_UP);
    return link;
}

static inline struct kolo_header header_of(uint32_t channel, uint32_t bytes)
{
    return (struct kolo_header){.channel = channel, .bytes = bytes, .desc = {{1, 2, 3}}};
}

static inline struct kolo_header control_of(uint8_t type, uint32_t bytes)
{
    struct kolo_header header = {.channel = KOLO_CHANNEL_CONTROL, .bytes = bytes};
    header.desc.bytes[0] = type;
    return header;
}

/* Feeds a whole frame with a payload of zeros. */
static inline kolo_status feed(struct kolo_link *link, const struct kolo_header *header)
{
    uint8_t zeros[4096] = {0};
    kolo_status status = kolo_link_rx_begin(link, header);
    for (size_t left = header->bytes; status == KOLO_OK && left > 0;)
        left -= kolo_sink_put(&link->sink, zeros, left < sizeof zeros ? left : sizeof zeros);
    return status == KOLO_OK ? kolo_link_rx_end(link) : status;
}

/* The test takes the link's frames, which hold their payload, as over tcp. @p plain is the link's
 * transport from now on; returns its own one, to be put back. */
static inline const struct kolo_transport *drive_frames(struct kolo_link *link,
                                                        struct kolo_transport *plain)
{
    const struct kolo_transport *real = link->transport;
    *plain = *real;
    plain->is_remote = NULL;
    link->transport = plain;
    link->is_pushing = true;
    return real;
}

#endif
