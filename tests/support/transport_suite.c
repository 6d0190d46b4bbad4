// SPDX-License-Identifier: Apache-2.0
// The cases of the conformance suite, transport_suite.h.
#include "tests/support/transport_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/length.h"
#include "transport/core.h"

static const size_t sizes[] = {0, 1, 7, 64, 4095, 4096, 65537, 1 << 20, 9 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0], GUARD = 0xa5, CHANNELS = 48 };

static struct kolo_desc desc_of(unsigned number)
{
    struct kolo_desc desc = {{0}};
    desc.bytes[0] = (uint8_t)number;
    desc.bytes[1] = (uint8_t)(number >> 8);
    desc.bytes[23] = 0x5a;
    return desc;
}

static void fill(uint8_t *data, size_t bytes, unsigned seed)
{
    uint32_t state = seed * 2654435761U + 1;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525U + 1013904223U;
        data[i] = (uint8_t)(state >> 24);
    }
}

static bool is_filled(const uint8_t *data, size_t bytes, unsigned seed)
{
    uint32_t state = seed * 2654435761U + 1;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525U + 1013904223U;
        if (data[i] != (uint8_t)(state >> 24))
            return false;
    }
    return true;
}

static void once(const char *transport, int size, const char *setting, const char *value,
                 void (*run)(struct suite_rank *rank))
{
    struct suite_world *world = suite_open(transport, size, setting, value);
    suite_run(world, run);
    suite_close(world);
}

static const char *heard_text(const struct suite_rank *rank)
{
    return rank->heard[1 - rank->rank].text;
}

/* ---- messages ---- */

/* Sends one message of each size from rank 0 to rank 1 and back, in @p memory with a guard at its
 * end. */
static void exchange_sizes(struct suite_rank *rank, uint8_t *memory)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    for (unsigned i = 0; link && i < 2 * SIZES; i++) {
        size_t bytes = sizes[i / 2];
        struct kolo_desc desc = desc_of(i);
        struct kolo_work work;
        memory[bytes] = GUARD;
        if ((int)(i % 2) == rank->rank) {
            fill(memory, bytes, i);
            kolo_link_send(link, 1, &desc, memory, bytes, &work);
        } else {
            memset(memory, 0, bytes);
            kolo_link_recv(link, 1, &desc, memory, bytes, NULL, &work);
        }
        SUITE_CHECK(rank, suite_settle(rank, &work, 1), "%zu bytes", bytes);
        SUITE_CHECK(rank, work.status == KOLO_OK, "%zu bytes: %s: %s", bytes,
                    kolo_status_name(work.status), heard_text(rank));
        SUITE_CHECK(rank, is_filled(memory, bytes, i), "%zu bytes", bytes);
        SUITE_CHECK(rank, memory[bytes] == GUARD, "%zu bytes: written past the end", bytes);
    }
}

static void sizes_plain(struct suite_rank *rank)
{
    uint8_t *memory = malloc(sizes[SIZES - 1] + 1);
    exchange_sizes(rank, memory);
    free(memory);
}

static void sizes_heap(struct suite_rank *rank)
{
    void *memory = NULL;
    SUITE_CHECK(rank, kolo_heap_alloc(rank->heap, sizes[SIZES - 1] + 1, &memory) == KOLO_OK, "%s",
                kolo_error_detail());
    exchange_sizes(rank, memory);
}

void suite_carries_messages_of_every_size(const char *transport)
{
    struct suite_world *world = suite_open(transport, 2, NULL, NULL);
    suite_run(world, sizes_plain);
    suite_run(world, sizes_heap);
    suite_close(world);
}

/* Every rank exchanges messages with every other one, with all sizes posted at once. */
static void all_with_all(struct suite_rank *rank)
{
    enum { WORKS = 2 * SIZES };
    struct kolo_work works[SUITE_RANKS_MAX][WORKS];
    uint8_t *memory[SUITE_RANKS_MAX][WORKS];
    for (int peer = 0; peer < rank->world->size; peer++) {
        struct kolo_link *link = peer == rank->rank ? NULL : suite_link(rank, peer);
        for (unsigned i = 0; link && i < SIZES; i++) {
            struct kolo_desc desc = desc_of(i);
            memory[peer][i] = malloc(sizes[i] + 1);
            memory[peer][SIZES + i] = malloc(sizes[i] + 1);
            fill(memory[peer][i], sizes[i], i + 100 * (unsigned)rank->rank);
            kolo_link_send(link, 3, &desc, memory[peer][i], sizes[i], &works[peer][i]);
            kolo_link_recv(link, 3, &desc, memory[peer][SIZES + i], sizes[i], NULL,
                           &works[peer][SIZES + i]);
        }
    }
    for (int peer = 0; peer < rank->world->size; peer++) {
        if (peer == rank->rank)
            continue;
        SUITE_CHECK(rank, suite_settle(rank, works[peer], WORKS), "peer %d", peer);
        for (unsigned i = 0; i < WORKS; i++)
            SUITE_CHECK(rank, works[peer][i].status == KOLO_OK, "peer %d work %u: %s", peer, i,
                        kolo_status_name(works[peer][i].status));
        for (unsigned i = 0; i < SIZES; i++)
            SUITE_CHECK(rank,
                        is_filled(memory[peer][SIZES + i], sizes[i], i + 100 * (unsigned)peer),
                        "peer %d, %zu bytes", peer, sizes[i]);
        for (unsigned i = 0; i < WORKS; i++)
            free(memory[peer][i]);
    }
}

void suite_carries_both_directions_at_once_between_three(const char *transport)
{
    once(transport, 3, NULL, NULL, all_with_all);
}

static void many_in_order(struct suite_rank *rank)
{
    enum { MESSAGES = 400 };
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_work *works = calloc(MESSAGES, sizeof *works);
    uint32_t(*numbers)[700] = calloc(MESSAGES, sizeof *numbers);
    struct kolo_desc desc = desc_of(1);
    for (unsigned i = 0; link && i < MESSAGES; i++) {
        size_t bytes = i % 5 == 0 ? sizeof numbers[i] : sizeof(uint32_t);
        numbers[i][0] = rank->rank == 0 ? i : 0;
        if (rank->rank == 0)
            kolo_link_send(link, 9, &desc, numbers[i], bytes, &works[i]);
        else
            kolo_link_recv(link, 9, &desc, numbers[i], bytes, NULL, &works[i]);
    }
    SUITE_CHECK(rank, suite_settle(rank, works, MESSAGES), "not all came");
    for (unsigned i = 0; i < MESSAGES; i++)
        SUITE_CHECK(rank, works[i].status == KOLO_OK && numbers[i][0] == i, "message %u is %u: %s",
                    i, numbers[i][0], kolo_status_name(works[i].status));
    free(numbers);
    free(works);
}

void suite_keeps_the_order_of_a_channel(const char *transport)
{
    once(transport, 2, NULL, NULL, many_in_order);
}

/* Rank 1 receives from the channels one by one, in the opposite order of the sends. */
static void opposite_orders(struct suite_rank *rank)
{
    enum { BYTES = 100000 };
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_work *works = calloc(CHANNELS, sizeof *works);
    uint8_t *memory = malloc((size_t)CHANNELS * BYTES);
    for (unsigned i = 0; link && i < CHANNELS; i++) {
        unsigned channel = rank->rank == 0 ? i : CHANNELS - 1 - i;
        uint8_t *at = memory + (size_t)channel * BYTES;
        struct kolo_desc desc = desc_of(channel);
        size_t bytes = channel % 3 == 0 ? BYTES : channel % 3;
        if (rank->rank == 0) {
            fill(at, bytes, channel);
            kolo_link_send(link, channel * 977, &desc, at, bytes, &works[channel]);
            continue;
        }
        kolo_link_recv(link, channel * 977, &desc, at, bytes, NULL, &works[channel]);
        SUITE_CHECK(rank, suite_settle(rank, &works[channel], 1), "channel %u", channel);
        SUITE_CHECK(rank, works[channel].status == KOLO_OK && is_filled(at, bytes, channel),
                    "channel %u: %s", channel, kolo_status_name(works[channel].status));
    }
    SUITE_CHECK(rank, suite_settle(rank, works, CHANNELS), "a send is left over");
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank %d", rank->rank);
    free(memory);
    free(works);
}

void suite_channels_do_not_wait_for_each_other(const char *transport)
{
    once(transport, 2, "CREDIT_BYTES", "64KiB", opposite_orders);
}

/* ---- early frames and credit ---- */

static bool heard_early(struct suite_rank *rank, void *context)
{
    return rank->heard[1 - rank->rank].early >= *(int *)context;
}

static void early(struct suite_rank *rank)
{
    enum { MESSAGES = 10, STEP = 300 };
    static uint8_t memory[2][MESSAGES][MESSAGES * STEP];
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_work works[MESSAGES];
    struct kolo_desc desc = desc_of(77);
    int wanted = MESSAGES;
    if (rank->rank == 1) {
        SUITE_CHECK(rank, suite_until(rank, heard_early, &wanted), "%d", rank->heard[0].early);
        SUITE_CHECK(rank, memcmp(&rank->heard[0].arrived, &desc, sizeof desc) == 0, "description");
    }
    for (unsigned i = 0; link && i < MESSAGES; i++) {
        uint8_t *at = memory[rank->rank][i];
        fill(at, i * STEP, rank->rank == 0 ? i : 99);
        if (rank->rank == 0)
            kolo_link_send(link, 4, &desc, at, i * STEP, &works[i]);
        else
            kolo_link_recv(link, 4, &desc, at, i * STEP, NULL, &works[i]);
    }
    SUITE_CHECK(rank, suite_settle(rank, works, MESSAGES), "not all came");
    for (unsigned i = 0; i < MESSAGES; i++)
        SUITE_CHECK(rank,
                    works[i].status == KOLO_OK && is_filled(memory[rank->rank][i], i * STEP, i),
                    "message %u: %s", i, kolo_status_name(works[i].status));
}

void suite_keeps_what_comes_early(const char *transport)
{
    once(transport, 2, NULL, NULL, early);
}

/* What the stash of a channel holds, by its parts and by its account. */
static bool is_within_credit(struct suite_rank *rank, const struct kolo_link *link, uint32_t id)
{
    const struct kolo_channel *channel = kolo_map_get(&link->channels, id);
    size_t bytes = 0, window = rank->world->settings.credit_bytes;
    if (!channel)
        return true;
    for (const struct kolo_stash *stash = channel->stash_first; stash; stash = stash->next)
        bytes += KOLO_FRAME_COST_BYTES + (stash->is_remote ? 0 : stash->bytes);
    return bytes <= window && channel->charged <= window && bytes <= channel->charged;
}

enum { FLOOD_MESSAGES = 1000, FLOOD_BYTES = 1300, FLOOD_LONG = 3 << 20 };

static void send_flood(struct suite_rank *rank, struct kolo_link *link, uint8_t *memory,
                       struct kolo_work *works)
{
    struct kolo_desc desc = desc_of(5);
    struct kolo_work other;
    for (size_t i = 0; i <= FLOOD_MESSAGES; i++)
        kolo_link_send(link, 1, &desc, memory + i * FLOOD_BYTES,
                       i < FLOOD_MESSAGES ? FLOOD_BYTES : FLOOD_LONG, &works[i]);
    kolo_link_send(link, 2, &desc, "x", 1, &other);
    SUITE_CHECK(rank, suite_settle(rank, &other, 1), "channel 2 waits for channel 1");
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 0");
    SUITE_CHECK(rank, works[FLOOD_MESSAGES - 1].status == KOLO_AGAIN, "sent beyond the credit");
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank 0");
}

static void receive_flood(struct suite_rank *rank, struct kolo_link *link, uint8_t *memory,
                          struct kolo_work *works)
{
    struct kolo_desc desc = desc_of(5);
    struct kolo_work other;
    uint8_t byte = 0;
    kolo_link_recv(link, 2, &desc, &byte, 1, NULL, &other);
    SUITE_CHECK(rank, suite_settle(rank, &other, 1), "channel 2 waits for channel 1");
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 1");
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank 1");
    SUITE_CHECK(rank, is_within_credit(rank, link, 1), "more was kept than the credit");
    for (size_t i = 0; i <= FLOOD_MESSAGES; i++) {
        kolo_link_recv(link, 1, &desc, memory + i * FLOOD_BYTES,
                       i < FLOOD_MESSAGES ? FLOOD_BYTES : FLOOD_LONG, NULL, &works[i]);
        SUITE_CHECK(rank, i % 2 == 0 || suite_settle(rank, &works[i], 1), "message %zu: %s", i,
                    rank->heard[0].text);
        SUITE_CHECK(rank, is_within_credit(rank, link, 1), "at message %zu", i);
    }
}

/* Twenty times the credit in messages too short to be lent, then a long one; meanwhile another
 * channel must not be blocked. */
static void beyond_credit(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_work *works = calloc(FLOOD_MESSAGES + 1, sizeof *works);
    size_t bytes = (size_t)FLOOD_MESSAGES * FLOOD_BYTES + FLOOD_LONG;
    uint8_t *memory = malloc(bytes);
    SUITE_CHECK(rank, link != NULL, "no link");
    fill(memory, bytes, rank->rank == 0 ? 3 : 4);
    if (rank->rank == 0)
        send_flood(rank, link, memory, works);
    else
        receive_flood(rank, link, memory, works);
    SUITE_CHECK(rank, suite_settle(rank, works, FLOOD_MESSAGES + 1), "not all moved: %s",
                heard_text(rank));
    for (size_t i = 0; i <= FLOOD_MESSAGES; i++)
        SUITE_CHECK(rank, works[i].status == KOLO_OK, "%zu: %s, %s", i,
                    kolo_status_name(works[i].status), heard_text(rank));
    SUITE_CHECK(rank, is_filled(memory, bytes, 3), "bytes differ");
    free(memory);
    free(works);
}

void suite_bounds_what_comes_early_by_the_credit(const char *transport)
{
    once(transport, 2, "CREDIT_BYTES", "64KiB", beyond_credit);
}

enum { LEFT_CHANNELS = 5, LEFT_MESSAGES = 40, LEFT_BYTES = 1000 };

/** Whether every channel keeps more than half of its credit. */
static bool keeps_all(struct suite_rank *rank, void *context)
{
    const struct kolo_link *link = context;
    for (uint32_t id = 1; id <= LEFT_CHANNELS; id++) {
        const struct kolo_channel *channel = kolo_map_get(&link->channels, id);
        if (!channel || channel->charged <= rank->world->settings.credit_bytes / 2)
            return false;
    }
    return true;
}

/* The peer of all these frames ends: nothing of one channel may be used for another. */
static void leave_unreceived(struct suite_rank *rank)
{
    static const uint8_t data[LEFT_BYTES];
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_work works[LEFT_CHANNELS][LEFT_MESSAGES];
    const struct kolo_desc desc = desc_of(6);
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 1) {
        SUITE_CHECK(rank, suite_until(rank, keeps_all, link), "%s", heard_text(rank));
        SUITE_CHECK(rank, suite_meet(rank, 0), "rank 1");
        return;
    }
    for (uint32_t id = 1; id <= LEFT_CHANNELS; id++)
        for (int i = 0; i < LEFT_MESSAGES; i++)
            kolo_link_send(link, id, &desc, data, LEFT_BYTES, &works[id - 1][i]);
    for (uint32_t id = 1; id <= LEFT_CHANNELS; id++)
        SUITE_CHECK(rank, suite_settle(rank, works[id - 1], LEFT_MESSAGES), "channel %u", id);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 0");
}

void suite_closes_with_what_nobody_received(const char *transport)
{
    once(transport, 2, "CREDIT_BYTES", "64KiB", leave_unreceived);
}

/* ---- reduce ---- */

/* Small integers, which every type represents exactly. */
static void fill_type(uint8_t *at, kolo_dtype dtype, size_t count, unsigned seed)
{
    size_t element = kolo_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        unsigned value = (unsigned)(i * 7 + seed * 13) % 11 + 1;
        uint64_t whole = value;
        double wide = value;
        float narrow = (float)value;
        uint16_t half = dtype == KOLO_BFLOAT16 ? kolo_bfloat16_from_float(narrow)
                                               : kolo_float16_from_float(narrow);
        const void *source = &whole;
        if (dtype == KOLO_FLOAT64)
            source = &wide;
        else if (dtype == KOLO_FLOAT32)
            source = &narrow;
        else if (dtype == KOLO_FLOAT16 || dtype == KOLO_BFLOAT16)
            source = &half;
        memcpy(at + i * element, source, element);
    }
}

struct reduction {
    kolo_dtype dtype;
    kolo_redop op;
    size_t count, skew; /* skew: bytes by which every buffer is misaligned */
    bool in_place, incoming_first;
};

/* NaNs with different payloads show which operand came first, if the operator preserves them. */
static void mark_order(uint8_t *arriving, uint8_t *local, const struct reduction *reduction)
{
    uint32_t first = 0x7fc00001, second = 0x7fc00002;
    if (reduction->dtype != KOLO_FLOAT32 || reduction->count < 3)
        return;
    memcpy(arriving + 8, &first, 4);
    memcpy(local + 8, &second, 4);
}

static void reduce_once(struct suite_rank *rank, const struct reduction *reduction)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    size_t bytes = reduction->count * kolo_dtype_bytes(reduction->dtype), room = bytes + 16;
    uint8_t *memory = malloc(3 * room + 1), *oracle = malloc(room), *first = malloc(room);
    uint8_t *second = malloc(room);
    uint8_t *arriving = memory + reduction->skew, *local = arriving + room,
            *dst = local + room - 16;
    struct kolo_desc desc = desc_of((unsigned)reduction->dtype * 16 + (unsigned)reduction->op);
    struct kolo_work work = {0};
    fill_type(first, reduction->dtype, reduction->count, 1);
    fill_type(second, reduction->dtype, reduction->count, 2);
    mark_order(first, second, reduction);
    memcpy(arriving, first, bytes);
    memcpy(local, second, bytes);
    kolo_reduce_function(reduction->dtype, reduction->op)(
        oracle, reduction->incoming_first ? first : second,
        reduction->incoming_first ? second : first, reduction->count);
    struct kolo_action action = {.kind = KOLO_REDUCE,
                                 .dtype = reduction->dtype,
                                 .op = reduction->op,
                                 .local = local,
                                 .incoming_first = reduction->incoming_first};
    if (reduction->in_place)
        dst = local;
    if (link && rank->rank == 0)
        kolo_link_send(link, 1, &desc, arriving, bytes, &work);
    else if (link)
        kolo_link_recv(link, 1, &desc, dst, bytes, &action, &work);
    bool is_settled = suite_settle(rank, &work, 1);
    bool is_equal = rank->rank == 0 || memcmp(dst, oracle, bytes) == 0;
    free(memory);
    free(oracle);
    free(first);
    free(second);
    SUITE_CHECK(rank, is_settled && work.status == KOLO_OK, "%s %s: %s %s",
                kolo_dtype_text(reduction->dtype), kolo_redop_text(reduction->op),
                kolo_status_name(work.status), heard_text(rank));
    SUITE_CHECK(rank, is_equal, "%s %s of %zu, skew %zu%s%s", kolo_dtype_text(reduction->dtype),
                kolo_redop_text(reduction->op), reduction->count, reduction->skew,
                reduction->in_place ? ", in place" : "",
                reduction->incoming_first ? ", incoming first" : "");
}

static void reduce_all(struct suite_rank *rank)
{
    static const size_t counts[] = {0, 1, 5, 333, 40001};
    for (unsigned type = 0; type < KOLO_DTYPES; type++)
        for (unsigned op = 0; op < KOLO_REDOPS; op++)
            for (unsigned i = 0; kolo_reduce_function((kolo_dtype)type, (kolo_redop)op) && i < 10 &&
                                 rank->error[0] == '\0';
                 i++) {
                if (test_is_short() && i != (type + op) % 8 && i != 9)
                    continue;
                bool flip = (type + op + i) % 2 == 0, other = (op + i / 2) % 2 == 0;
                struct reduction reduction = {(kolo_dtype)type,    (kolo_redop)op, counts[i / 2],
                                              i % 2 * (1 + i / 2), flip,           other};
                reduce_once(rank, &reduction);
            }
}

void suite_reduces_every_type_on_receive(const char *transport)
{
    once(transport, 2, NULL, NULL, reduce_all);
}

/* ---- mistakes ---- */

static bool heard_mismatch(struct suite_rank *rank, void *context)
{
    return rank->heard[1 - rank->rank].mismatch >= *(int *)context;
}

static void check_mismatches(struct suite_rank *rank, const struct kolo_work *works,
                             const uint8_t *memory, size_t bytes)
{
    struct kolo_desc mine = desc_of(11), theirs = desc_of(10);
    const struct suite_heard *heard = &rank->heard[0];
    int two = 2;
    SUITE_CHECK(rank, suite_until(rank, heard_mismatch, &two), "%d events", heard->mismatch);
    SUITE_CHECK(rank, heard->mismatch == 2, "%d events", heard->mismatch);
    SUITE_CHECK(rank, memcmp(&heard->expected, &mine, sizeof mine) == 0, "what was expected");
    SUITE_CHECK(rank, memcmp(&heard->arrived, &theirs, sizeof mine) == 0, "what arrived");
    for (int i = 0; i < 2; i++)
        SUITE_CHECK(rank, works[i].status == KOLO_ERR_MISMATCH, "%s",
                    kolo_status_name(works[i].status));
    for (size_t i = 0; i < 2 * bytes; i++)
        SUITE_CHECK(rank, memory[i] == 0, "garbage at byte %zu", i);
}

/* On channel 1 the receive waits; on channel 2 the message comes first. Channel 3 must not be
 * affected. */
static void mismatches(struct suite_rank *rank)
{
    enum { BYTES = 50000 };
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc wrong = desc_of(10 + (unsigned)rank->rank), right = desc_of(1);
    struct kolo_work works[3];
    uint8_t *memory = calloc(3, BYTES);
    int one = 1;
    SUITE_CHECK(rank, link != NULL, "no link");
    for (unsigned i = 0; i < 3; i++) {
        uint8_t *at = memory + i * BYTES;
        const struct kolo_desc *desc = i < 2 ? &wrong : &right;
        SUITE_CHECK(rank, i != 0 || rank->rank == 1 || suite_meet(rank, 0), "rank 0");
        SUITE_CHECK(rank, i != 1 || rank->rank == 0 || suite_until(rank, heard_early, &one),
                    "nothing came early");
        if (rank->rank == 0)
            kolo_link_send(link, i + 1, desc, memset(at, 1, BYTES), BYTES, &works[i]);
        else
            kolo_link_recv(link, i + 1, desc, at, BYTES, NULL, &works[i]);
        SUITE_CHECK(rank, i != 0 || rank->rank == 0 || suite_meet(rank, 0), "rank 1");
    }
    SUITE_CHECK(rank, suite_settle(rank, works, 3), "a message is stuck");
    SUITE_CHECK(rank, works[2].status == KOLO_OK && memory[2 * BYTES] == 1, "channel 3: %s",
                kolo_status_name(works[2].status));
    if (rank->rank == 1)
        check_mismatches(rank, works, memory, BYTES);
    SUITE_CHECK(rank, suite_meet(rank, 1), "end");
    free(memory);
}

void suite_reports_a_mismatch_on_the_side_that_receives(const char *transport)
{
    once(transport, 2, NULL, NULL, mismatches);
}

static bool heard_down(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].down > 0;
}

static void wrong_length(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = desc_of(1);
    struct kolo_work work;
    uint8_t out[200] = {0}, in[201];
    memset(in, GUARD, sizeof in);
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 0) {
        kolo_link_send(link, 1, &desc, out, 200, &work);
    } else {
        kolo_link_recv(link, 1, &desc, in, 100, NULL, &work);
        SUITE_CHECK(rank, suite_settle(rank, &work, 1), "the receive is stuck");
        SUITE_CHECK(rank, work.status == KOLO_ERR_PROTOCOL, "%s", kolo_status_name(work.status));
        SUITE_CHECK(rank, in[100] == GUARD, "written past the end");
        SUITE_CHECK(rank, strstr(heard_text(rank), "rank 0 sent 200 bytes") != NULL, "%s",
                    heard_text(rank));
    }
    SUITE_CHECK(rank, suite_until(rank, heard_down, NULL), "no event");
    SUITE_CHECK(rank, suite_meet(rank, 0), "end");
}

void suite_reports_a_wrong_length_as_broken_protocol(const char *transport)
{
    once(transport, 2, NULL, NULL, wrong_length);
}

/* ---- the end of a peer ---- */

static bool heard_left(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].left > 0;
}

static void close_now(struct suite_rank *rank)
{
    struct kolo_endpoint *endpoint = rank->endpoint;
    rank->endpoint = NULL;
    kolo_status status = kolo_endpoint_close(endpoint, kolo_deadline_in_ms(60000));
    SUITE_CHECK(rank, status == KOLO_OK, "%s", kolo_error_detail());
}

static void hear_goodbye(struct suite_rank *rank, struct kolo_link *link)
{
    struct kolo_desc desc = desc_of(1);
    struct kolo_work before, after, waiting;
    char text[8] = "";
    kolo_link_recv(link, 2, &desc, text, 7, NULL, &waiting);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 1");
    SUITE_CHECK(rank, suite_until(rank, heard_left, NULL), "no goodbye: %s", heard_text(rank));
    SUITE_CHECK(rank, waiting.status == KOLO_ERR_PEER, "%s", kolo_status_name(waiting.status));
    for (int i = 0; i < 300; i++)
        SUITE_CHECK(rank, kolo_endpoint_progress(rank->endpoint, NULL) == KOLO_OK, "progress");
    link = suite_link(rank, 0);
    SUITE_CHECK(rank, link != NULL, "the link is gone before all was received");
    kolo_link_recv(link, 1, &desc, text, 7, NULL, &before);
    SUITE_CHECK(rank, before.status == KOLO_OK && strcmp(text, "before") == 0, "%s: %s",
                kolo_status_name(before.status), text);
    kolo_link_recv(link, 1, &desc, text, 7, NULL, &after);
    SUITE_CHECK(rank, after.status == KOLO_ERR_PEER, "%s", kolo_status_name(after.status));
    kolo_link_send(link, 1, &desc, text, 7, &after);
    SUITE_CHECK(rank, after.status == KOLO_ERR_PEER, "%s", kolo_status_name(after.status));
    SUITE_CHECK(rank, rank->heard[0].down == 0 && rank->heard[0].left == 1, "%d down: %s",
                rank->heard[0].down, heard_text(rank));
}

static void goodbye(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = desc_of(1);
    struct kolo_work work;
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 1) {
        hear_goodbye(rank, link);
        return;
    }
    kolo_link_send(link, 1, &desc, "before", 7, &work);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 0");
    close_now(rank);
}

void suite_tells_a_goodbye_and_keeps_what_came_before(const char *transport)
{
    once(transport, 2, NULL, NULL, goodbye);
}

/* Rank 0 posts three messages and closes at once; rank 1 receives them later. */
static void close_at_once(struct suite_rank *rank)
{
    enum { BYTES = 2 << 20, MESSAGES = 3 };
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = desc_of(1);
    struct kolo_work works[MESSAGES];
    uint8_t *memory = malloc((size_t)MESSAGES * BYTES);
    SUITE_CHECK(rank, link != NULL, "no link");
    fill(memory, (size_t)MESSAGES * BYTES, rank->rank == 0 ? 8 : 0);
    for (size_t i = 0; i < MESSAGES && rank->rank == 0; i++)
        kolo_link_send(link, 1, &desc, memory + i * BYTES, BYTES, &works[i]);
    if (rank->rank == 0)
        close_now(rank);
    for (size_t i = 0; i < MESSAGES && rank->rank == 1; i++) {
        kolo_link_recv(link, 1, &desc, memory + i * BYTES, BYTES, NULL, &works[i]);
        SUITE_CHECK(rank, suite_settle(rank, &works[i], 1), "message %zu", i);
        SUITE_CHECK(rank, works[i].status == KOLO_OK, "message %zu: %s, %s", i,
                    kolo_status_name(works[i].status), heard_text(rank));
    }
    SUITE_CHECK(rank, is_filled(memory, (size_t)MESSAGES * BYTES, 8), "bytes differ");
    free(memory);
}

void suite_hands_over_all_before_it_closes(const char *transport)
{
    once(transport, 2, NULL, NULL, close_at_once);
}

/* Sends one byte from rank 0 to rank 1, so that the link is up on both sides. */
static bool shake_hands(struct suite_rank *rank, struct kolo_link **link_out)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = desc_of(1);
    struct kolo_work work;
    char byte = 0;
    if (!link)
        return false;
    if (rank->rank == 0)
        kolo_link_send(link, 1, &desc, "", 1, &work);
    else
        kolo_link_recv(link, 1, &desc, &byte, 1, NULL, &work);
    *link_out = link;
    return suite_settle(rank, &work, 1) && work.status == KOLO_OK;
}

static bool heard_abort(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].aborted > 0;
}

static void aborts(struct suite_rank *rank)
{
    struct kolo_link *link = NULL;
    SUITE_CHECK(rank, shake_hands(rank, &link), "no message");
    if (rank->rank == 0) {
        int nobody = 1, peer = 1;
        kolo_endpoint_abort(rank->endpoint, &nobody, 0, 8, KOLO_ERR_PEER, "not for you");
        kolo_endpoint_abort(rank->endpoint, &peer, 1, 9, KOLO_ERR_MISMATCH,
                            "rank 0: the count\nwas 7, not 8");
        SUITE_CHECK(rank, suite_meet(rank, 0), "rank 0");
        return;
    }
    SUITE_CHECK(rank, suite_until(rank, heard_abort, NULL), "nothing heard");
    SUITE_CHECK(rank, rank->heard[0].why == KOLO_ERR_MISMATCH, "%s",
                kolo_status_name(rank->heard[0].why));
    SUITE_CHECK(rank, rank->heard[0].subject == 9, "subject %u", rank->heard[0].subject);
    SUITE_CHECK(rank, strcmp(heard_text(rank), "rank 0: the count?was 7, not 8") == 0, "%s",
                heard_text(rank));
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 1");
}

void suite_delivers_the_text_of_an_abort(const char *transport)
{
    once(transport, 2, NULL, NULL, aborts);
}

static bool heard_finalized(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].finalized > 0;
}

/** When the event arrives, everything that was sent before has arrived too: receives of it need no
 * further progress. */
static void finalizes(struct suite_rank *rank)
{
    enum { MESSAGES = 5, BYTES = 100 };
    struct kolo_link *link = NULL;
    struct kolo_work works[MESSAGES];
    unsigned char memory[MESSAGES][BYTES] = {{0}};
    int peer = 1 - rank->rank;
    SUITE_CHECK(rank, shake_hands(rank, &link), "no message");
    if (rank->rank == 1)
        SUITE_CHECK(rank, suite_until(rank, heard_finalized, NULL), "nothing heard");
    for (int i = 0; i < MESSAGES; i++) {
        struct kolo_desc desc = desc_of((unsigned char)(i + 2));
        if (rank->rank == 0)
            kolo_link_send(link, 5, &desc, memory[i], BYTES, &works[i]);
        else
            kolo_link_recv(link, 5, &desc, memory[i], BYTES, NULL, &works[i]);
        SUITE_CHECK(rank, rank->rank == 0 || works[i].status == KOLO_OK, "message %d: %s", i,
                    kolo_status_name(works[i].status));
    }
    if (rank->rank == 0) {
        SUITE_CHECK(rank, suite_settle(rank, works, MESSAGES), "not sent");
        kolo_endpoint_finalized(rank->endpoint, &peer, 1, 9, 77);
    } else {
        SUITE_CHECK(rank, rank->heard[0].subject == 9 && rank->heard[0].sequence == 77,
                    "subject %u, sequence %u", rank->heard[0].subject, rank->heard[0].sequence);
    }
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank %d", rank->rank);
}

void suite_tells_that_a_subject_is_finalized_behind_what_was_sent(const char *transport)
{
    once(transport, 2, NULL, NULL, finalizes);
}

enum { LOANS = 3 };
static const uint64_t loans[LOANS] = {1, UINT64_MAX, (uint64_t)7 << 40};

static bool heard_recalls(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].recalled == LOANS;
}

static bool heard_returns(struct suite_rank *rank, void *context)
{
    (void)context;
    return rank->heard[1 - rank->rank].returned == LOANS;
}

static void recalls(struct suite_rank *rank)
{
    struct kolo_link *link = NULL;
    SUITE_CHECK(rank, shake_hands(rank, &link), "no message");
    for (int i = 0; rank->rank == 0 && i < LOANS; i++)
        SUITE_CHECK(rank, kolo_endpoint_recall(rank->endpoint, 1, loans[i]), "nobody to ask");
    if (rank->rank == 1) {
        SUITE_CHECK(rank, suite_until(rank, heard_recalls, NULL), "nothing heard");
        SUITE_CHECK(rank, rank->heard[0].loan == loans[LOANS - 1], "another one");
        for (int i = 0; i < LOANS; i++)
            kolo_endpoint_return(rank->endpoint, 0, loans[i]);
    } else {
        SUITE_CHECK(rank, suite_until(rank, heard_returns, NULL), "nothing heard");
        SUITE_CHECK(rank, rank->heard[1].loan == loans[LOANS - 1], "another one");
        SUITE_CHECK(rank, rank->heard[1].recalled == 0, "recalled");
    }
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank %d", rank->rank);
}

void suite_recalls_loans_and_hears_that_they_are_returned(const char *transport)
{
    once(transport, 2, NULL, NULL, recalls);
}

static void cancel_receive(struct suite_rank *rank)
{
    enum { BYTES = 300000 };
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = desc_of(1);
    struct kolo_work work, next;
    uint8_t *memory = calloc(1, BYTES), byte = 0;
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 0) {
        memset(memory, 1, BYTES);
        SUITE_CHECK(rank, suite_meet(rank, 0), "rank 0");
        kolo_link_send(link, 1, &desc, memory, BYTES, &work);
        kolo_link_send(link, 2, &desc, "y", 1, &next);
        SUITE_CHECK(rank, suite_settle(rank, &work, 1), "nobody takes what was cancelled");
        SUITE_CHECK(rank, suite_settle(rank, &next, 1), "channel 2");
    } else {
        kolo_link_recv(link, 1, &desc, memory, BYTES, NULL, &work);
        kolo_work_cancel(&work);
        SUITE_CHECK(rank, work.status == KOLO_ERR_ABORTED, "%s", kolo_status_name(work.status));
        kolo_work_cancel(&work);
        SUITE_CHECK(rank, suite_meet(rank, 0), "rank 1");
        kolo_link_recv(link, 2, &desc, &byte, 1, NULL, &next);
        SUITE_CHECK(rank, suite_settle(rank, &next, 1) && byte == 'y', "channel 2");
        for (size_t i = 0; i < BYTES; i++)
            SUITE_CHECK(rank, memory[i] == 0, "byte %zu was written after the cancel", i);
    }
    SUITE_CHECK(rank, suite_meet(rank, 1), "end");
    free(memory);
}

void suite_takes_back_a_receive(const char *transport)
{
    once(transport, 2, NULL, NULL, cancel_receive);
}

enum { TAKEN_BACK_BYTES = 4 << 20, TAKEN_BACK = 4 };

static void take_back(struct suite_rank *rank, struct kolo_link *link)
{
    struct kolo_desc desc = desc_of(1);
    struct kolo_work works[TAKEN_BACK], next;
    uint8_t *memory = calloc(TAKEN_BACK, TAKEN_BACK_BYTES);
    for (unsigned i = 0; i < TAKEN_BACK; i++)
        kolo_link_send(link, 1 + i, &desc, memory + (size_t)i * TAKEN_BACK_BYTES, TAKEN_BACK_BYTES,
                       &works[i]);
    kolo_work_cancel(&works[0]);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 0");
    for (unsigned i = 0; i < TAKEN_BACK; i++) {
        kolo_work_cancel(&works[i]);
        SUITE_CHECK(rank, works[i].status != KOLO_AGAIN, "work %u", i);
    }
    free(memory);
    kolo_link_send(link, 9, &desc, "z", 1, &next);
    SUITE_CHECK(rank, suite_settle(rank, &next, 1) && next.status == KOLO_OK, "%s: %s",
                kolo_status_name(next.status), heard_text(rank));
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank 0");
}

/* Long messages are cancelled, some at once and some halfway, and their memory is freed. The other
 * side, which is receiving them, must not read it (sanitizers check that), and the link must go
 * on. */
static void cancel_send(struct suite_rank *rank)
{
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    struct kolo_desc desc = desc_of(1);
    struct kolo_work works[TAKEN_BACK], next;
    uint8_t byte = 0;
    SUITE_CHECK(rank, link != NULL, "no link");
    if (rank->rank == 0) {
        take_back(rank, link);
        return;
    }
    uint8_t *memory = calloc(TAKEN_BACK, TAKEN_BACK_BYTES);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 1");
    for (unsigned i = 0; i < TAKEN_BACK; i++)
        kolo_link_recv(link, 1 + i, &desc, memory + (size_t)i * TAKEN_BACK_BYTES, TAKEN_BACK_BYTES,
                       NULL, &works[i]);
    kolo_link_recv(link, 9, &desc, &byte, 1, NULL, &next);
    SUITE_CHECK(rank, suite_settle(rank, &next, 1) && byte == 'z', "channel 9: %s, %s",
                kolo_status_name(next.status), heard_text(rank));
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank 1");
    for (unsigned i = 0; i < TAKEN_BACK; i++)
        kolo_work_cancel(&works[i]);
    free(memory);
}

void suite_takes_back_a_send(const char *transport)
{
    for (int i = 0; i < 10; i++)
        once(transport, 2, NULL, NULL, cancel_send);
}

/* Rank 0 takes the first of two messages back, when the second may be over. */
static void take_first_back(struct suite_rank *rank, struct kolo_link *link, const uint8_t *memory)
{
    const struct kolo_desc first = desc_of(1), second = desc_of(2);
    struct kolo_work works[2], next;
    kolo_link_send(link, 2, &first, memory, TAKEN_BACK_BYTES, &works[0]);
    kolo_link_send(link, 2, &second, "y", 1, &works[1]);
    SUITE_CHECK(rank, works[0].status == KOLO_AGAIN, "%s", kolo_status_name(works[0].status));
    kolo_work_cancel(&works[0]);
    SUITE_CHECK(rank, works[1].status != KOLO_AGAIN, "nothing can follow what was taken back");
    kolo_link_send(link, 3, &first, "z", 1, &next);
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 0");
    SUITE_CHECK(rank, suite_settle(rank, &next, 1) && next.status == KOLO_OK, "%s: %s",
                kolo_status_name(next.status), heard_text(rank));
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank 0");
}

/* Rank 1 receives both: neither comes, and that is no mismatch. What is behind them on the link
 * does. */
static void receive_behind(struct suite_rank *rank, struct kolo_link *link, uint8_t *memory)
{
    const struct kolo_desc first = desc_of(1), second = desc_of(2);
    struct kolo_work works[2], next;
    uint8_t byte = 0, last = 0;
    SUITE_CHECK(rank, suite_meet(rank, 0), "rank 1");
    kolo_link_recv(link, 2, &first, memory, TAKEN_BACK_BYTES, NULL, &works[0]);
    kolo_link_recv(link, 2, &second, &byte, 1, NULL, &works[1]);
    kolo_link_recv(link, 3, &first, &last, 1, NULL, &next);
    SUITE_CHECK(rank, suite_settle(rank, &next, 1) && last == 'z', "%s: %s",
                kolo_status_name(next.status), heard_text(rank));
    SUITE_CHECK(rank, suite_meet(rank, 1), "rank 1");
    SUITE_CHECK(rank, rank->heard[0].mismatch == 0, "a mismatch");
    for (int i = 0; i < 2; i++)
        SUITE_CHECK(rank, works[i].status == KOLO_AGAIN && byte == 0, "message %d: %s", i,
                    kolo_status_name(works[i].status));
    for (int i = 0; i < 2; i++)
        kolo_work_cancel(&works[i]);
}

static void take_back_before(struct suite_rank *rank, bool in_heap)
{
    struct kolo_link *link = NULL;
    void *memory = in_heap ? NULL : calloc(1, TAKEN_BACK_BYTES);
    SUITE_CHECK(rank, memory || kolo_heap_alloc(rank->heap, TAKEN_BACK_BYTES, &memory) == KOLO_OK,
                "%s", kolo_error_detail());
    SUITE_CHECK(rank, shake_hands(rank, &link), "no message");
    if (rank->rank == 0)
        take_first_back(rank, link, memory);
    else
        receive_behind(rank, link, memory);
    if (!in_heap)
        free(memory);
}

static void take_back_plain(struct suite_rank *rank)
{
    take_back_before(rank, false);
}

static void take_back_heap(struct suite_rank *rank)
{
    take_back_before(rank, true);
}

void suite_receives_nothing_behind_a_send_that_was_taken_back(const char *transport)
{
    once(transport, 2, NULL, NULL, take_back_plain);
    once(transport, 2, NULL, NULL, take_back_heap);
}

static void vanish(struct suite_rank *rank)
{
    struct kolo_link *link = NULL;
    struct kolo_desc desc = desc_of(1);
    struct kolo_work work, more;
    char byte = 0;
    SUITE_CHECK(rank, shake_hands(rank, &link), "no message");
    SUITE_CHECK(rank, suite_meet(rank, 0), "both");
    if (rank->rank == 0) {
        suite_crash(rank);
        return;
    }
    kolo_link_recv(link, 1, &desc, &byte, 1, NULL, &work);
    SUITE_CHECK(rank, suite_settle(rank, &work, 1), "the receive never ends");
    SUITE_CHECK(rank, kolo_status_lost(work.status) == KOLO_LOST_LINK, "%s",
                kolo_status_name(work.status));
    SUITE_CHECK(rank, rank->heard[0].down == 1 && rank->heard[0].left == 0, "%d down, %d left",
                rank->heard[0].down, rank->heard[0].left);
    SUITE_CHECK(rank, strstr(heard_text(rank), "rank 0") != NULL, "%s", heard_text(rank));
    kolo_link_send(link, 1, &desc, "", 1, &more);
    SUITE_CHECK(rank, more.status == work.status, "%s", kolo_status_name(more.status));
    kolo_status status = kolo_endpoint_link(rank->endpoint, 0, KOLO_NEVER, &link);
    SUITE_CHECK(rank, status == work.status, "%s", kolo_status_name(status));
    SUITE_CHECK(rank, strcmp(kolo_error_detail(), heard_text(rank)) == 0, "%s",
                kolo_error_detail());
}

void suite_tells_that_a_peer_vanished(const char *transport)
{
    once(transport, 2, NULL, NULL, vanish);
}

/* ---- sleeping, dialling ---- */

/* Sleeps, without polling in between, until the work is settled or the deadline passes. */
static void sleep_until_settled(struct suite_rank *rank, const struct kolo_work *work,
                                kolo_deadline deadline)
{
    while (work->status == KOLO_AGAIN && !kolo_deadline_passed(deadline)) {
        bool moved = false;
        SUITE_CHECK(rank, !atomic_load(&rank->world->failed), "the other one failed");
        kolo_endpoint_arm(rank->endpoint);
        SUITE_CHECK(rank, kolo_endpoint_progress(rank->endpoint, &moved) == KOLO_OK, "%s",
                    kolo_error_detail());
        if (!moved)
            kolo_endpoint_sleep(rank->endpoint, deadline);
        kolo_endpoint_disarm(rank->endpoint);
    }
}

/* Ping-pong between two ranks that always sleep; a lost wake-up shows as a passed deadline. */
static void sleepers(struct suite_rank *rank)
{
    enum { ROUNDS = 300, BYTES = 5000 };
    static uint8_t memory[2][BYTES];
    struct kolo_link *link = suite_link(rank, 1 - rank->rank);
    kolo_deadline deadline = kolo_deadline_in_ms(60000);
    for (unsigned i = 0; link && i < ROUNDS; i++) {
        struct kolo_desc desc = desc_of(i);
        struct kolo_work work;
        size_t bytes = i % 3 == 0 ? BYTES : 8;
        if ((int)(i % 2) == rank->rank)
            kolo_link_send(link, 1, &desc, memory[rank->rank], bytes, &work);
        else
            kolo_link_recv(link, 1, &desc, memory[rank->rank], bytes, NULL, &work);
        sleep_until_settled(rank, &work, deadline);
        SUITE_CHECK(rank, work.status != KOLO_AGAIN, "round %u: a wake was lost", i);
        SUITE_CHECK(rank, work.status == KOLO_OK, "round %u: %s: %s", i,
                    kolo_status_name(work.status), heard_text(rank));
    }
    SUITE_CHECK(rank, suite_meet(rank, 0), "end");
}

void suite_wakes_a_sleeper(const char *transport)
{
    once(transport, 2, NULL, NULL, sleepers);
}

/* All ranks connect to all others at the same moment. */
static void first_contact(struct suite_rank *rank)
{
    struct kolo_work works[2 * SUITE_RANKS_MAX];
    int size = rank->world->size, got[SUITE_RANKS_MAX];
    size_t count = 0;
    struct kolo_desc desc = desc_of(1);
    SUITE_CHECK(rank, suite_meet(rank, 0), "start");
    for (int i = 1; i < size; i++) {
        int peer = (rank->rank + i) % size;
        struct kolo_link *link = suite_link(rank, peer);
        SUITE_CHECK(rank, link != NULL, "no link");
        got[peer] = -1;
        kolo_link_send(link, 1, &desc, &rank->rank, sizeof(int), &works[count++]);
        kolo_link_recv(link, 1, &desc, &got[peer], sizeof(int), NULL, &works[count++]);
    }
    SUITE_CHECK(rank, suite_settle(rank, works, count), "stuck");
    for (size_t i = 0; i < count; i++)
        SUITE_CHECK(rank, works[i].status == KOLO_OK, "%s: %s%s%s%s",
                    kolo_status_name(works[i].status), rank->heard[0].text, rank->heard[1].text,
                    rank->heard[2].text, rank->heard[3].text);
    for (int i = 0; i < size; i++)
        SUITE_CHECK(rank, i == rank->rank || got[i] == i, "from %d: %d", i, got[i]);
    SUITE_CHECK(rank, suite_meet(rank, 1), "end");
}

void suite_settles_simultaneous_dials(const char *transport)
{
    for (int i = 0; i < 15; i++)
        once(transport, 4, NULL, NULL, first_contact);
}

/* Rank 1 is gone before rank 0 first calls it: its address leads nowhere. */
static void dial_the_dead(struct suite_rank *rank)
{
    struct kolo_desc desc = desc_of(1);
    struct kolo_link *link = NULL;
    struct kolo_work work;
    char byte = 0;
    if (rank->rank == 1) {
        close_now(rank);
        atomic_fetch_add(&rank->world->met[0], 1);
        return;
    }
    SUITE_CHECK(rank, suite_meet(rank, 0), "start");
    kolo_status status = kolo_endpoint_link(rank->endpoint, 1, kolo_deadline_in_ms(700), &link);
    if (status == KOLO_OK) {
        kolo_link_recv(link, 1, &desc, &byte, 1, NULL, &work);
        SUITE_CHECK(rank, suite_settle(rank, &work, 1), "never gives up");
        status = work.status;
        SUITE_CHECK(rank, rank->heard[1].down == 1, "%d", rank->heard[1].down);
        SUITE_CHECK(rank, strstr(heard_text(rank), "rank 1") != NULL, "%s", heard_text(rank));
    } else {
        SUITE_CHECK(rank, strstr(kolo_error_detail(), "rank 1") != NULL, "%s", kolo_error_detail());
    }
    /* threads of one process know that it is gone, others only that nothing answers */
    const kolo_status gone =
        strcmp(rank->world->transport, "inproc") == 0 ? KOLO_ERR_PEER : KOLO_ERR_CONNECT;
    SUITE_CHECK(rank, status == gone || status == KOLO_ERR_TIMEOUT, "%s", kolo_status_name(status));
}

void suite_gives_up_connecting_at_the_deadline(const char *transport)
{
    once(transport, 2, NULL, NULL, dial_the_dead);
}
