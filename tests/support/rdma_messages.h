// SPDX-License-Identifier: Apache-2.0
// For tests of RDMA links between two ranks over devices in memory: memory that peers may write
// directly, bytes that follow from a number, and a link that is up on both sides.
#ifndef KOLO_TESTS_SUPPORT_RDMA_MESSAGES_H
#define KOLO_TESTS_SUPPORT_RDMA_MESSAGES_H

#include <string.h>
#include <sys/mman.h>

#include "tests/support/transport_suite.h"

static inline uint8_t *allocate(struct suite_rank *rank, size_t bytes)
{
    void *memory = NULL;
    if (kolo_heap_alloc(rank->heap, bytes, &memory) != KOLO_OK)
        suite_fail(rank, "memory", "%s", kolo_error_detail());
    return memory;
}

static inline void fill(uint8_t *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

static inline size_t first_wrong(const uint8_t *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != (uint8_t)(i * 7 + i / 251 + seed))
            return i;
    return bytes;
}

/** Brings up a link on both sides. NULL: it failed. */
static inline struct kolo_link *come_up(struct suite_rank *rank, struct kolo_desc *desc)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_work works[2];
    uint8_t in = 0;
    if (!link)
        return NULL;
    *desc = (struct kolo_desc){{9}};
    kolo_link_send(link, 77, desc, "x", 1, &works[0]);
    kolo_link_recv(link, 77, desc, &in, 1, NULL, &works[1]);
    return suite_settle(rank, works, 2) && suite_meet(rank, 0) ? link : NULL;
}

/** Exchanges a message in each direction, so that the peer's offers are here: they were sent before
 * that message. */
static inline bool exchange_bytes(struct suite_rank *rank, struct kolo_link *link, uint32_t channel)
{
    struct kolo_desc desc = {{8}};
    struct kolo_work works[2];
    uint8_t in = 0;
    kolo_link_send(link, channel, &desc, "y", 1, &works[0]);
    kolo_link_recv(link, channel, &desc, &in, 1, NULL, &works[1]);
    return suite_settle(rank, works, 2) && works[0].status == KOLO_OK && works[1].status == KOLO_OK;
}

/** Memory offered to a device, and a second mapping of its pages, which remains whatever happens to
 * the first. */
struct offered {
    uint8_t *memory, *map, *pages;
    size_t bytes, map_bytes;
};

/** Allocates @p bytes bytes, each of value 5, to be offered. */
static inline bool prepare_offer(struct suite_rank *rank, size_t bytes, struct offered *offered_out)
{
    struct kolo_span span;
    uint8_t *memory = allocate(rank, bytes);
    if (!memory || !kolo_heap_find(rank->heap, memory, bytes, &span))
        return false;
    uint8_t *map = mmap(NULL, span.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, span.fd, 0);
    if (map == MAP_FAILED)
        return false;
    memset(memory, 5, bytes);
    *offered_out =
        (struct offered){memory, map, map + span.file_offset + (memory - (uint8_t *)span.base),
                         bytes, span.file_bytes};
    return true;
}

/** Writes to the pages as a late device would. True: the program's memory has not changed. */
static inline bool is_cut_off(struct offered *offered)
{
    size_t same = 0;
    memset(offered->pages, 1, offered->bytes);
    while (same < offered->bytes && offered->memory[same] == 5)
        same++;
    munmap(offered->map, offered->map_bytes);
    return same == offered->bytes;
}

#endif
