// SPDX-License-Identifier: Apache-2.0
// Messages from and to device memory, between two ranks over RDMA devices in memory: where they
// arrive, that the host never touches them (it has no access to the mock's memory), and what
// happens to abandoned ones.
#include "tests/support/transport_suite.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_fixture.h"
#include "tests/support/mock_cuda.h"
#include "tests/support/rdma_messages.h"

enum { MIB = 1 << 20, BYTES = 3 * MIB + 1000, SIZES = 6 };

static const size_t sizes[SIZES] = {1, 60, 4096, 70000, BYTES, 9 * MIB};
static const struct mock_cuda *mock;

static void begin_all(void)
{
    mock = mock_cuda_load();
    mock->begin();
    begin();
}

TestSuite(rdma_landing, .init = begin_all, .fini = end, .timeout = 100);

/** Allocates memory of the rank's device that its endpoint knows. */
static uint8_t *allocate_there(struct suite_rank *rank, size_t bytes)
{
    struct kolo_pointer pointer;
    if (kolo_device_alloc(rank->rank, NULL, bytes, &pointer) != KOLO_OK ||
        !kolo_endpoint_know(rank->endpoint, &pointer)) {
        suite_fail(rank, "memory", "%s", kolo_error_detail());
        return NULL;
    }
    return (uint8_t *)(uintptr_t)pointer.memory;
}

static void fill_there(uint8_t *memory, size_t bytes, unsigned seed)
{
    uint8_t *copy = malloc(bytes);
    fill(copy, bytes, seed);
    mock->write(memory, copy, bytes);
    free(copy);
}

static size_t first_wrong_there(const uint8_t *memory, size_t bytes, unsigned seed)
{
    uint8_t *copy = malloc(bytes);
    mock->read(memory, copy, bytes);
    const size_t wrong = first_wrong(copy, bytes, seed);
    free(copy);
    return wrong;
}

static bool is_early;

/** Messages of each size in both directions; the receive is posted before or after the send. */
static void to_and_fro(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *out = allocate_there(rank, 9 * MIB), *in = allocate_there(rank, 9 * MIB);
    uint8_t *instead = calloc(1, 9 * MIB);
    const struct kolo_action action = {.kind = KOLO_COPY, .landing = in};
    struct kolo_work works[2];
    SUITE_CHECK(rank, link && out && in && instead, "no link");
    SUITE_CHECK(rank, kolo_link_reaches_devices(link), "it does not");
    for (unsigned i = 0; i < SIZES; i++) {
        const unsigned seed = i + (unsigned)rank->rank, theirs = i + 1 - (unsigned)rank->rank;
        fill_there(out, sizes[i], seed);
        if (is_early)
            kolo_link_send(link, 1, &desc, out, sizes[i], &works[1]);
        SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "size %zu", sizes[i]);
        kolo_link_recv(link, 1, &desc, instead, sizes[i], &action, &works[0]);
        SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "size %zu", sizes[i]);
        if (!is_early)
            kolo_link_send(link, 1, &desc, out, sizes[i], &works[1]);
        SUITE_CHECK(rank, suite_settle(rank, works, 2), "size %zu", sizes[i]);
        SUITE_CHECK(rank, works[0].status == KOLO_OK && works[1].status == KOLO_OK, "%s: %s",
                    kolo_status_name(works[0].status), rank->heard[1 - rank->rank].text);
        SUITE_CHECK(rank, works[0].has_landed == (!is_early && sizes[i] >= 65536), "size %zu",
                    sizes[i]);
        size_t wrong = works[0].has_landed ? first_wrong_there(in, sizes[i], theirs)
                                           : first_wrong(instead, sizes[i], theirs);
        SUITE_CHECK(rank, wrong == sizes[i], "size %zu, byte %zu", sizes[i], wrong);
        SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "size %zu", sizes[i]);
    }
    free(instead);
    kolo_endpoint_device_gone(rank->endpoint, in);
    kolo_endpoint_device_gone(rank->endpoint, out);
}

static void run(void (*function)(struct suite_rank *rank))
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, function);
    cr_assert(fake_verbs_regions() == 2, "the eager buffers, and nothing of a device's: %d",
              fake_verbs_regions());
    suite_close(world);
}

Test(rdma_landing, long_messages_land_where_they_are_wanted)
{
    run(to_and_fro);
    cr_assert(fake_verbs_written() == (size_t)2 * (70000 + BYTES + 9 * MIB));
    cr_assert(mock->calls("cuMemcpyAsync") + mock->calls("cuMemcpyDtoH_v2") == 0);
}

Test(rdma_landing, what_comes_early_goes_through_eager_buffers)
{
    is_early = true;
    run(to_and_fro);
    cr_assert(fake_verbs_written() < (size_t)2 * 9 * MIB);
}

/** More messages at once than there are entries and eager buffers. */
static void many(struct suite_rank *rank)
{
    enum { COUNT = 200, EACH = 80000 };
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *out = allocate_there(rank, EACH), *in = allocate(rank, (size_t)COUNT * EACH);
    struct kolo_work works[2 * COUNT];
    SUITE_CHECK(rank, link && out && in, "no link");
    fill_there(out, EACH, 5);
    for (uint32_t i = 0; i < COUNT; i++) {
        kolo_link_recv(link, i + 10, &desc, in + (size_t)i * EACH, EACH, NULL, &works[i]);
        kolo_link_send(link, i + 10, &desc, out, EACH, &works[COUNT + i]);
    }
    SUITE_CHECK(rank, suite_settle(rank, works, 2 * COUNT), "not over");
    for (int i = 0; i < 2 * COUNT; i++)
        SUITE_CHECK(rank, works[i].status == KOLO_OK, "%d: %s", i,
                    kolo_status_name(works[i].status));
    for (size_t i = 0; i < COUNT; i++)
        SUITE_CHECK(rank, first_wrong(in + i * EACH, EACH, 5) == EACH, "message %zu", i);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the end");
    kolo_endpoint_device_gone(rank->endpoint, out);
}

Test(rdma_landing, many_messages_wait_for_entries)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, many);
    suite_close(world);
}

static bool is_down(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].down > 0;
}

/** Rank 0 cancels a receive that rank 1 may write into. */
static void give_up_a_receive(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *in = allocate_there(rank, BYTES), *instead = calloc(1, BYTES);
    const struct kolo_action action = {.kind = KOLO_COPY, .landing = in};
    struct kolo_work work;
    SUITE_CHECK(rank, link && in && instead, "no link");
    if (rank->rank == 0)
        kolo_link_recv(link, 1, &desc, instead, BYTES, &action, &work);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "offers");
    SUITE_CHECK(rank, suite_meet(rank, 1), "meeting");
    if (rank->rank == 0)
        kolo_work_cancel(&work);
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "the link stands");
    if (rank->rank == 0)
        SUITE_CHECK(rank, strstr(rank->heard[1].text, "a device's memory was given up"), "%s",
                    rank->heard[1].text);
    free(instead);
}

/** Rank 0 cancels a send that its device is reading. */
static void give_up_a_send(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *out = allocate_there(rank, BYTES);
    struct kolo_work work;
    SUITE_CHECK(rank, link && out, "no link");
    SUITE_CHECK(rank, suite_meet(rank, 1), "meeting");
    if (rank->rank == 0) {
        fake_verbs_delay(1, 1 << 30);
        kolo_link_send(link, 1, &desc, out, BYTES, &work);
        kolo_work_cancel(&work);
    }
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "the link stands");
}

Test(rdma_landing, what_is_given_up_ends_the_link)
{
    for (int i = 0; i < 2; i++) {
        struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
        suite_run(world, i == 0 ? give_up_a_receive : give_up_a_send);
        suite_close(world);
    }
}
