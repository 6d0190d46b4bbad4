// SPDX-License-Identifier: Apache-2.0
// Checksums over RDMA, between devices in memory: the conformance suite with them, and one bit that
// changes on the wire. Without checksums the message is wrong and nobody notices; with them its
// receive fails, and the error says what it was. By every way that a message can take: eager
// buffers, frames that are read in place, writes directly into the receive, and several rails.
#include "tests/support/transport_suite.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_fixture.h"
#include "tests/support/rdma_messages.h"
#include "tests/support/rdma_rails.h"
#include "transport/rdma.h"

static void begin_with_checksums(void)
{
    begin();
    suite_checksum = "1";
}
TestSuite(rdma_checksum, .init = begin_with_checksums, .fini = end, .timeout = 180);
KOLO_TRANSPORT_SUITE(rdma_checksum, rdma)

/* ---- one bit ---- */

enum { MIB = 1 << 20 };

/** A way that a message takes, and which request of it is changed where. */
struct way {
    size_t bytes;
    bool from_heap, to_heap, reduces;
    int rails;
    int nth;
    size_t least;        /* only requests of at least that many bytes count */
    bool has_header;     /* the request begins with the header of a frame */
    bool is_written;     /* directly */
    size_t last_bytes;   /* of the write that the link may end before */
    const char *changed; /* what the error says has changed; NULL: "bytes from byte ... on" */
};
static struct way now;
static int place; /* first, middle or last byte of the payload */

static bool is_down(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].down > 0;
}

static uint8_t *get(struct suite_rank *rank, bool from_heap)
{
    return from_heap ? allocate(rank, now.bytes) : calloc(1, now.bytes);
}

static size_t count_wrong(const uint8_t *memory, unsigned seed)
{
    size_t wrong = 0;
    for (size_t i = 0; i < now.bytes; i++)
        wrong += memory[i] != (uint8_t)(i * 7 + i / 251 + seed);
    return wrong;
}

/** Where in the request the bit is: first, middle or last byte of the payload. */
static ptrdiff_t position(const struct kolo_link *link)
{
    const ptrdiff_t header_bytes = now.has_header ? (ptrdiff_t)link->header_bytes : 0;
    return place == 0 ? header_bytes : place == 1 ? header_bytes + (ptrdiff_t)now.least / 2 : -1;
}

static void check_error(struct suite_rank *rank, const struct kolo_work *work)
{
    const struct suite_heard *heard = &rank->heard[0];
    char what[96];
    SUITE_CHECK(rank, work->status == KOLO_ERR_DATA, "%s: %s", kolo_status_name(work->status),
                heard->text);
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "no event");
    SUITE_CHECK(rank, heard->down == 1 && heard->why == KOLO_ERR_DATA, "%s",
                kolo_status_name(heard->why));
    SUITE_CHECK(rank, strstr(heard->text, " changed on the way here, over rdma fake0 port 1 to "),
                "%s", heard->text);
    if (now.changed)
        snprintf(what, sizeof what, "%s", now.changed);
    else if (now.is_written)
        snprintf(what, sizeof what, "some byte of a message of %zu bytes of channel 1 ", now.bytes);
    else
        snprintf(what, sizeof what, "on, in a message of %zu bytes of channel 1, ", now.bytes);
    SUITE_CHECK(rank, strstr(heard->text, what), "not '%s' but %s", what, heard->text);
}

static void receive(struct suite_rank *rank, struct kolo_link *link, const struct kolo_desc *desc)
{
    uint8_t *memory = get(rank, now.to_heap);
    const struct kolo_action sum = {
        .kind = KOLO_REDUCE, .dtype = KOLO_UINT8, .op = KOLO_SUM, .local = memory};
    struct kolo_work work;
    SUITE_CHECK(rank, memory != NULL, "memory");
    memset(memory, now.reduces ? 1 : 0, now.bytes);
    kolo_link_recv(link, 1, desc, memory, now.bytes, now.reduces ? &sum : NULL, &work);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2) && suite_meet(rank, 2), "offers");
    SUITE_CHECK(rank, suite_settle(rank, &work, 1), "stuck: %s", rank->heard[0].text);
    if (link->sums)
        check_error(rank, &work);
    else
        SUITE_CHECK(rank, work.status == KOLO_OK && count_wrong(memory, now.reduces ? 4 : 3) == 1,
                    "%s, %zu bytes wrong: %s", kolo_status_name(work.status),
                    count_wrong(memory, now.reduces ? 4 : 3), rank->heard[0].text);
    if (!now.to_heap)
        free(memory);
}

static void send_one(struct suite_rank *rank, struct kolo_link *link, const struct kolo_desc *desc)
{
    uint8_t *memory = get(rank, now.from_heap);
    struct kolo_work work;
    SUITE_CHECK(rank, memory != NULL, "memory");
    fill(memory, now.bytes, 3);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2) && suite_meet(rank, 2), "offers");
    fake_verbs_flip(now.nth, now.least, position(link));
    kolo_link_send(link, 1, desc, memory, now.bytes, &work);
    SUITE_CHECK(rank, suite_settle(rank, &work, 1), "stuck");
    if (!now.from_heap)
        free(memory);
}

static void one_bit(struct suite_rank *rank)
{
    struct rdma_link *link = rails_up(rank, now.rails);
    const struct kolo_desc desc = {{9}};
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 0)
        send_one(rank, &link->tcp.base, &desc);
    else
        receive(rank, &link->tcp.base, &desc);
    SUITE_CHECK(rank, suite_meet(rank, 3), "end");
}

static void change(const struct way *way, const char *checksum)
{
    char rails[8];
    now = *way;
    rails_expected = now.rails;
    suite_checksum = checksum;
    snprintf(rails, sizeof rails, "%d", now.rails);
    for (place = 0; place < 3; place++) {
        const size_t written = fake_verbs_written();
        struct suite_world *world = suite_open("rdma", 2, "RDMA_RAILS", rails);
        suite_run(world, one_bit);
        cr_assert(fake_verbs_flipped(), "nothing was changed: %zu bytes, place %d", now.bytes,
                  place);
        cr_assert(!now.is_written || fake_verbs_written() >= written + now.bytes - now.last_bytes,
                  "it was not written directly");
        cr_assert(now.is_written || fake_verbs_written() == written, "it was written directly");
        suite_close(world);
    }
}

static void change_both(const struct way *way)
{
    change(way, "0");
    change(way, "1");
}

Test(rdma_checksum, a_bit_in_an_eager_buffer)
{
    change_both(
        &(struct way){.bytes = 100, .rails = 1, .nth = 1, .least = 120, .has_header = true});
    for (int i = 0; i < 2; i++)
        change_both(&(struct way){.bytes = 300000,
                                  .reduces = i == 1,
                                  .rails = 1,
                                  .nth = 1 + 2 * i,
                                  .least = 60000,
                                  .has_header = true});
}

Test(rdma_checksum, a_bit_of_a_frame_that_is_read_in_place)
{
    change_both(&(struct way){.bytes = 300000,
                              .from_heap = true,
                              .reduces = true,
                              .rails = 1,
                              .nth = 2,
                              .least = 60000,
                              .has_header = true});
}

Test(rdma_checksum, a_bit_of_a_message_that_is_written_directly)
{
    const struct way first = {.bytes = 3 * MIB + 1000,
                              .from_heap = true,
                              .to_heap = true,
                              .rails = 1,
                              .nth = 1,
                              .least = 1000,
                              .is_written = true};
    struct way last = first;
    last.nth = 4;
    change_both(&first);
    change_both(&last);
}

Test(rdma_checksum, a_bit_of_a_message_that_goes_by_several_rails)
{
    for (int nth = 1; nth < 4; nth += 2)
        change_both(&(struct way){.bytes = 3 * MIB + 1000,
                                  .from_heap = true,
                                  .to_heap = true,
                                  .rails = 3,
                                  .nth = nth,
                                  .least = 1000,
                                  .is_written = true});
}

/* The last write of a message waits for the frame that tells its checksum, and is not carried out
 * if the receiver has ended the link by then. */
Test(rdma_checksum, a_bit_of_the_checksum_of_a_message_that_is_written_directly)
{
    enum { LAST = 1000 };
    change(&(struct way){.bytes = 3 * MIB + LAST,
                         .from_heap = true,
                         .to_heap = true,
                         .rails = 1,
                         .nth = 4,
                         .least = KOLO_HEADER_BYTES_MAX,
                         .is_written = true,
                         .last_bytes = LAST,
                         .changed = "the header of a frame"},
           "1");
}

/* ---- the numbers beside the messages ---- */

enum { SHORT_MESSAGES = 40, SHORT_BYTES = 100 };

/** What is changed: @p bits of the number of the @p nth message, or mark, or return of credit. */
static struct {
    enum ibv_wr_opcode opcode;
    int nth, rails;
    uint32_t bits;
} number;
static atomic_int told; /* ranks that noticed it, and said what it was */

static void one_number(struct suite_rank *rank)
{
    const bool is_mark = number.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const size_t bytes = is_mark ? 3 * MIB : SHORT_BYTES, count = is_mark ? 1 : SHORT_MESSAGES;
    const struct kolo_desc desc = {{9}};
    struct rdma_link *link = rails_up(rank, number.rails);
    uint8_t *memory = allocate(rank, bytes * count);
    const struct suite_heard *heard = &rank->heard[1 - rank->rank];
    struct kolo_work works[SHORT_MESSAGES];
    SUITE_CHECK(rank, link && memory, "no link");
    fill(memory, bytes * count, rank->rank == 0 ? 3 : 4);
    for (size_t i = 0; i < count && rank->rank == 1; i++)
        kolo_link_recv(&link->tcp.base, 1, &desc, memory + i * bytes, bytes, NULL, &works[i]);
    SUITE_CHECK(rank, exchange_bytes(rank, &link->tcp.base, 2) && suite_meet(rank, 2), "offers");
    if (rank->rank == 0)
        fake_verbs_flip_number(number.opcode, number.nth, number.bits);
    for (size_t i = 0; i < count && rank->rank == 0; i++)
        kolo_link_send(&link->tcp.base, 1, &desc, memory + i * bytes, bytes, &works[i]);
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "nobody noticed");
    SUITE_CHECK(rank, suite_settle(rank, works, count), "stuck: %s", heard->text);
    size_t whole = 0; /* they end in order */
    for (size_t i = 0; i < count && rank->rank == 1; i++)
        whole += works[i].status == KOLO_OK ? bytes : 0;
    SUITE_CHECK(rank, first_wrong(memory, whole, 3) == whole, "byte %zu of %zu",
                first_wrong(memory, whole, 3), whole);
    if (heard->why == KOLO_ERR_DATA && strstr(heard->text, "the number that came with a message"))
        atomic_fetch_add(&told, 1);
    SUITE_CHECK(rank, suite_meet(rank, 3), "end");
}

static void change_number(enum ibv_wr_opcode opcode, int nth, int rails, uint32_t bits)
{
    number.opcode = opcode;
    number.nth = nth;
    number.bits = bits;
    number.rails = rails_expected = rails;
    atomic_store(&told, 0);
    struct suite_world *world = suite_open("rdma", 2, "RDMA_RAILS", rails == 1 ? "1" : "3");
    suite_run(world, one_number);
    suite_close(world);
    cr_assert(fake_verbs_flipped(), "nothing was changed: opcode %d, number %d", (int)opcode, nth);
    cr_assert(told > 0, "bits %08x of number %d", bits, nth);
}

/* Among the first 40 are messages of rank 0 and returns of credit from rank 1. */
Test(rdma_checksum, each_bit_of_a_number)
{
    for (int bit = 0; bit < 32; bit++)
        change_number(IBV_WR_SEND_WITH_IMM, 1 + bit, 1, UINT32_C(1) << bit);
}

Test(rdma_checksum, each_bit_of_a_mark)
{
    for (int bit = 0; bit < 32; bit++) {
        change_number(IBV_WR_RDMA_WRITE_WITH_IMM, 1, 1, UINT32_C(1) << bit);
        change_number(IBV_WR_RDMA_WRITE_WITH_IMM, 1 + bit % 3, 3, UINT32_C(1) << bit);
    }
}

Test(rdma_checksum, several_bits_of_a_number)
{
    unsigned seed = 1;
    for (int i = 0; i < 40; i++) {
        uint32_t bits = i == 0 ? UINT32_MAX : 0;
        for (int j = 0; j < 2 + i % 4; j++) {
            seed = seed * 1103515245 + 12345;
            bits |= UINT32_C(1) << (seed >> 16) % 32;
        }
        change_number(i % 2 == 0 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM, 1, 1, bits);
    }
}

/* ---- what is given up ---- */

/** Rank 0 gives up a message of which the device has written a part, and overwrites its memory. The
 *  device goes on from the old pages, which the checksum must be of, so that the link lives. */
static void give_up(struct suite_rank *rank)
{
    enum { LONG = 24 * MIB };
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    uint8_t *memory = allocate(rank, LONG);
    struct kolo_work work;
    SUITE_CHECK(rank, link && memory, "no link");
    if (rank->rank == 1)
        kolo_link_recv(link, 1, &desc, memory, LONG, NULL, &work);
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2) && suite_meet(rank, 1), "offers");
    if (rank->rank == 0) {
        const struct rdma_link *ours = (const struct rdma_link *)link;
        fill(memory, LONG, 5);
        fake_verbs_delay(2, 1000);
        kolo_link_send(link, 1, &desc, memory, LONG, &work);
        SUITE_CHECK(rank, ours->writing && ours->writing->posted < LONG, "everything is posted");
        kolo_work_cancel(&work);
        memset(memory, 0, LONG);
    } else {
        SUITE_CHECK(rank, suite_settle(rank, &work, 1) && work.status == KOLO_OK, "%s",
                    rank->heard[0].text);
        SUITE_CHECK(rank, first_wrong(memory, LONG, 5) == LONG, "byte %zu",
                    first_wrong(memory, LONG, 5));
    }
    SUITE_CHECK(rank, exchange_bytes(rank, link, 2), "the link does not go on: %s",
                rank->heard[1 - rank->rank].text);
}

Test(rdma_checksum, a_send_that_is_given_up_has_the_checksum_of_what_it_was)
{
    struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
    suite_run(world, give_up);
    suite_close(world);
}

/* ---- what a dishonest peer tells ---- */

static void tell_wrongly(struct suite_rank *rank)
{
    struct kolo_desc desc;
    struct kolo_link *link = come_up(rank, &desc);
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 0) {
        const struct kolo_desc wrong = {{KOLO_RDMA_SUM_FRAME, (uint8_t)place}};
        SUITE_CHECK(rank, kolo_link_send_control(link, &wrong, NULL, 0) == KOLO_OK, "memory");
        (void)kolo_link_push(link);
    }
    SUITE_CHECK(rank, suite_until(rank, is_down, NULL), "nobody noticed");
    if (rank->rank == 1)
        SUITE_CHECK(rank, rank->heard[0].why == KOLO_ERR_PROTOCOL, "%s", rank->heard[0].text);
    SUITE_CHECK(rank, suite_meet(rank, 3), "end");
}

Test(rdma_checksum, a_sum_of_nothing_is_broken_protocol)
{
    static const int slots[] = {0, KOLO_RDMA_SLOTS - 1, KOLO_RDMA_SLOTS, 255};
    for (size_t i = 0; i < 2 * sizeof slots / sizeof slots[0]; i++) {
        place = slots[i / 2];
        suite_checksum = i % 2 == 0 ? "1" : "0";
        struct suite_world *world = suite_open("rdma", 2, NULL, NULL);
        suite_run(world, tell_wrongly);
        suite_close(world);
    }
}
