// SPDX-License-Identifier: Apache-2.0
// Verifies the checksums of messages that were written directly: short ones when they have arrived,
// long ones in pieces, one with each look at the link, so that this rank's other links move in
// between. Must never let a message end that was not verified.
#include "transport/checksum.h"
#include "transport/rdma.h"

/** A piece is what a link moves at once elsewhere, too. */
static size_t piece_bytes(const struct rdma_link *link)
{
    return kolo_endpoint_config_of(link->tcp.base.endpoint)->settings->segment_bytes;
}

static struct rdma_check *check_at(struct rdma_checks *checks, unsigned number)
{
    return &checks->all[(checks->first + number) % KOLO_RDMA_SLOTS];
}

static void remove_first(struct rdma_link *link)
{
    struct rdma_checks *checks = &link->checks;
    checks->first = (checks->first + 1) % KOLO_RDMA_SLOTS;
    checks->count--;
    checks->summed = 0;
    kolo_rdma_set_signal(link);
}

/** Sums up at most @p most bytes of the first message, and ends it if these were its last. */
static void go_on(struct rdma_link *link, size_t most)
{
    struct kolo_link *base = &link->tcp.base;
    struct rdma_checks *checks = &link->checks;
    const struct rdma_check check = *check_at(checks, 0);
    if (!check.work) { /* was given up */
        remove_first(link);
        return;
    }
    const size_t left = check.work->bytes - checks->summed, bytes = left < most ? left : most;
    if (checks->summed == 0)
        kolo_checksum_begin(&base->sums->whole);
    kolo_checksum_add(&base->sums->whole, (const uint8_t *)check.work->dst + checks->summed, bytes);
    checks->summed += bytes;
    if (bytes < left)
        return;
    remove_first(link);
    kolo_status status = kolo_sums_verify_work(base, check.work, check.sum);
    if (status != KOLO_OK) {
        kolo_link_set_down(base, status);
        return;
    }
    check.work->is_lent = false;
    kolo_link_rx_whole(base, check.work);
}

void kolo_rdma_check(struct rdma_link *link, struct kolo_work *work, uint64_t sum)
{
    struct rdma_checks *checks = &link->checks;
    while (checks->count == KOLO_RDMA_SLOTS)
        go_on(link, SIZE_MAX);
    if (link->tcp.base.state != KOLO_LINK_UP)
        return;
    *check_at(checks, checks->count++) = (struct rdma_check){.work = work, .sum = sum};
    kolo_rdma_set_signal(link);
    if (checks->count == 1 && work->bytes <= piece_bytes(link))
        go_on(link, work->bytes);
}

bool kolo_rdma_go_on_checking(struct rdma_link *link)
{
    if (link->checks.count == 0)
        return false;
    go_on(link, piece_bytes(link));
    return true;
}

void kolo_rdma_finish_checks(struct rdma_link *link)
{
    char detail[KOLO_DETAIL_MAX];
    kolo_detail_keep(detail);
    while (link->checks.count > 0 && link->tcp.base.state == KOLO_LINK_UP)
        go_on(link, SIZE_MAX);
    kolo_detail_set(detail);
}

bool kolo_rdma_drop_check(struct rdma_link *link, const struct kolo_work *work)
{
    for (unsigned i = 0; i < link->checks.count; i++)
        if (check_at(&link->checks, i)->work == work) {
            check_at(&link->checks, i)->work = NULL;
            return true;
        }
    return false;
}
