// SPDX-License-Identifier: Apache-2.0
// For tests of RDMA links with several rails over devices in memory.
#ifndef KOLO_TESTS_SUPPORT_RDMA_RAILS_H
#define KOLO_TESTS_SUPPORT_RDMA_RAILS_H

#include "tests/support/rdma_messages.h"
#include "transport/rdma.h"

enum { LONG_BYTES = 2 * 1000 * 1000 + 3 };
static int rails_expected;

static inline int rails_going(const struct rdma_link *link)
{
    int count = 1;
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX; i++)
        count += link->rails.all[i].step == RAIL_GOES;
    return count;
}

/** True once every rail has come up or failed, and as many are up as expected. */
static inline bool are_rails_up(struct suite_rank *rank, void *context)
{
    const struct rdma_link *link = context;
    (void)rank;
    for (int i = 1; i < KOLO_RDMA_RAILS_MAX; i++)
        if (link->rails.all[i].step != RAIL_NONE && link->rails.all[i].step != RAIL_GOES &&
            link->rails.all[i].step != RAIL_OVER)
            return false;
    return rails_going(link) == rails_expected;
}

/** True once only the first rail is up and all others are over. */
static inline bool has_rails_left(struct suite_rank *rank, void *context)
{
    const struct rdma_link *link = context;
    (void)rank;
    return rails_going(link) == 1 && link->rails.all[1].step == RAIL_OVER;
}

static inline bool is_link_down(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].down > 0;
}

/** A link with @p expected rails that are up on both sides; NULL if there are fewer or more. */
static inline struct rdma_link *rails_up(struct suite_rank *rank, int expected)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    if (!link || rails_expected != expected)
        return NULL;
    return suite_until(rank, are_rails_up, link) && suite_meet(rank, 1) ? (struct rdma_link *)link
                                                                        : NULL;
}

/** Sends a long message in memory of kolo_alloc each way, between short ones. True: all arrived
 * whole. */
static inline bool exchange_long(struct suite_rank *rank, struct kolo_link *link, unsigned round)
{
    struct kolo_desc desc = {{9}};
    struct kolo_work works[4];
    uint8_t *memory = allocate(rank, 2 * (size_t)LONG_BYTES), short_in = 0;
    const uint8_t short_out = (uint8_t)round;
    const unsigned theirs = round + 1 - (unsigned)rank->rank;
    if (!memory)
        return false;
    fill(memory, LONG_BYTES, round + (unsigned)rank->rank);
    kolo_link_recv(link, 1, &desc, memory + LONG_BYTES, LONG_BYTES, NULL, &works[0]);
    kolo_link_recv(link, 1, &desc, &short_in, 1, NULL, &works[1]);
    bool is_good = exchange_bytes(rank, link, 2);
    kolo_link_send(link, 1, &desc, memory, LONG_BYTES, &works[2]);
    kolo_link_send(link, 1, &desc, &short_out, 1, &works[3]);
    is_good = is_good && suite_settle(rank, works, 4);
    for (int i = 0; i < 4; i++)
        is_good = is_good && works[i].status == KOLO_OK;
    is_good = is_good && short_in == short_out &&
              first_wrong(memory + LONG_BYTES, LONG_BYTES, theirs) == LONG_BYTES;
    return kolo_heap_free(rank->heap, memory, NULL, NULL) == KOLO_OK && is_good;
}

#endif
