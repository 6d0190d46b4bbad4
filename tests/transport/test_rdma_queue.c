// SPDX-License-Identifier: Apache-2.0
// Queue pairs between two devices: every message arrives once, in order and whole, and no receiver
// is ever not ready. Suite rdma_queue runs over devices in memory, and, if KOLO_TEST_RDMA names two
// ports ("rxe0,rxe1"), over those (tests/vm/rdma.sh); suite rdma_queue_faults only over devices in
// memory.
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/support/fake_verbs.h"
#include "transport/rdma_queue.h"

enum { BUFFERS = 16, BUFFER_BYTES = 4096, ENTRIES = 256, PATIENCE_MS = 30000 };

struct side {
    struct kolo_rdma_device *device;
    struct kolo_rdma_completions *completions;
    struct kolo_rdma_queue *queue;
    size_t gid; /* index among the device's addresses */
    unsigned sent, to_send, got;
    unsigned seed_out, seed_in;
    int failures;
    kolo_status why;
    char detail[KOLO_DETAIL_MAX];
};
static struct side sides[2];
static uint32_t buffers = BUFFERS;

static const char *real_ports(void)
{
    return getenv("KOLO_TEST_RDMA");
}

static const struct kolo_verbs *verbs(void)
{
    const struct kolo_verbs *table = fake_verbs_table();
    if (real_ports())
        cr_assert(kolo_verbs_load(&table) == KOLO_OK, "%s", kolo_error_detail());
    return table;
}

/* ---- messages whose length and bytes follow from their number ---- */

static size_t length_of(unsigned *seed)
{
    unsigned which = (unsigned)rand_r(seed) % 4, random = (unsigned)rand_r(seed);
    return which == 0   ? 1 + random % 64
           : which == 1 ? 1 + random % BUFFER_BYTES
           : which == 2 ? BUFFER_BYTES
                        : 8;
}

static void write_message(uint8_t *buffer, size_t bytes, unsigned number)
{
    for (size_t i = 0; i < bytes; i++)
        buffer[i] = (uint8_t)(number * 31 + i * 7 + i / 256);
}

static void send_what_fits(struct side *side)
{
    uint8_t *buffer;
    while (side->sent < side->to_send && (buffer = kolo_rdma_queue_buffer(side->queue)) != NULL) {
        size_t bytes = length_of(&side->seed_out);
        write_message(buffer, bytes, side->sent++);
        kolo_rdma_queue_send(side->queue, bytes, side->sent == side->to_send);
    }
}

static void arrived(struct kolo_rdma_queue *queue, const uint8_t *data, size_t bytes)
{
    struct side *side = queue->context;
    uint8_t expected[BUFFER_BYTES];
    size_t length = length_of(&side->seed_in);
    cr_assert(bytes == length, "message %u has %zu bytes instead of %zu", side->got, bytes, length);
    write_message(expected, bytes, side->got++);
    cr_assert(memcmp(data, expected, bytes) == 0, "message %u", side->got);
}

static void has_room(struct kolo_rdma_queue *queue)
{
    send_what_fits(queue->context);
}

static void failed(struct kolo_rdma_queue *queue, kolo_status why)
{
    struct side *side = queue->context;
    side->failures++;
    side->why = why;
    snprintf(side->detail, sizeof side->detail, "%s", kolo_error_detail());
}

static void describe(const struct kolo_rdma_queue *queue, char *text, size_t capacity)
{
    snprintf(text, capacity, "rank %d on host b", queue->context == &sides[0]);
}

static const struct kolo_rdma_queue_ops ops = {
    .arrived = arrived, .has_room = has_room, .failed = failed, .describe = describe};

/* ---- two sides ---- */

static void open_side(int number)
{
    struct side *side = &sides[number];
    char port[64] = "";
    snprintf(port, sizeof port, "fake%d", number);
    if (real_ports()) {
        const char *comma = strchr(real_ports(), ',');
        int length = (int)(comma - real_ports());
        snprintf(port, sizeof port, "%.*s", number == 0 ? length : 60,
                 number == 0 ? real_ports() : comma + 1);
    }
    *side = (struct side){.seed_out = 100 + (unsigned)number, .seed_in = 101 - (unsigned)number};
    cr_assert(kolo_rdma_device_open(verbs(), fake_verbs_settings(port), -1, &side->device) ==
                  KOLO_OK,
              "%s", kolo_error_detail());
    cr_assert(kolo_rdma_completions_open(side->device, ENTRIES, &side->completions) == KOLO_OK);
    cr_assert(kolo_rdma_queue_open(side->completions, &ops, side, buffers, BUFFER_BYTES,
                                   &side->queue) == KOLO_OK,
              "%s", kolo_error_detail());
}

static void close_side(struct side *side)
{
    kolo_rdma_queue_close(side->queue);
    side->queue = NULL;
    kolo_rdma_completions_close(side->completions);
    kolo_rdma_device_close(side->device);
}

/** The hello of the other side, through the wire format. */
static struct kolo_rdma_hello hello_of(struct side *side)
{
    struct kolo_rdma_hello hello;
    uint8_t bytes[KOLO_RDMA_HELLO_BYTES];
    kolo_rdma_queue_hello(side->queue, &side->device->gids.all[side->gid], &hello);
    kolo_rdma_hello_pack(&hello, bytes);
    cr_assert(kolo_rdma_hello_unpack(bytes, &side->device->gids, &hello) == KOLO_OK, "%s",
              kolo_error_detail());
    return hello;
}

static void connect_sides(void)
{
    struct kolo_why why;
    cr_assert(kolo_rdma_gids_join(&sides[0].device->gids, &sides[1].device->gids, &sides[0].gid,
                                  &sides[1].gid, &why));
    for (int i = 0; i < 2; i++) {
        const struct kolo_rdma_hello theirs = hello_of(&sides[1 - i]);
        cr_assert(kolo_rdma_queue_buffer(sides[i].queue) == NULL, "not before it is joined");
        cr_assert(kolo_rdma_queue_connect(sides[i].queue, &sides[i].device->gids.all[sides[i].gid],
                                          &theirs) == KOLO_OK,
                  "%s", kolo_error_detail());
    }
}

static void begin(void)
{
    fake_verbs_reset();
    open_side(0);
    open_side(1);
    connect_sides();
}

static void end(void)
{
    close_side(&sides[0]);
    close_side(&sides[1]);
    cr_assert(fake_verbs_living() == 0, "%d left", fake_verbs_living());
}

static bool poll_both(void)
{
    bool moved[2] = {false, false};
    for (int i = 0; i < 2; i++)
        cr_assert(kolo_rdma_completions_poll(sides[i].completions, &moved[i]) == KOLO_OK);
    return moved[0] || moved[1];
}

static bool is_over(void)
{
    return sides[0].got == sides[1].to_send && sides[1].got == sides[0].to_send &&
           kolo_rdma_queue_is_drained(sides[0].queue) && kolo_rdma_queue_is_drained(sides[1].queue);
}

static void run(unsigned first, unsigned second)
{
    kolo_deadline deadline = kolo_deadline_in_ms(PATIENCE_MS);
    sides[0].to_send += first;
    sides[1].to_send += second;
    send_what_fits(&sides[0]);
    send_what_fits(&sides[1]);
    while (!is_over() && sides[0].failures + sides[1].failures == 0 && kolo_now_ns() < deadline)
        poll_both();
    cr_assert(sides[0].failures + sides[1].failures == 0, "%s %s", sides[0].detail,
              sides[1].detail);
    cr_assert(is_over(), "%u of %u and %u of %u came", sides[1].got, sides[0].to_send, sides[0].got,
              sides[1].to_send);
    cr_assert(fake_verbs_not_ready() == 0);
}

TestSuite(rdma_queue, .init = begin, .fini = end, .timeout = 100);
TestSuite(rdma_queue_faults, .init = begin, .fini = end, .timeout = 60);

Test(rdma_queue, credit_that_does_not_fit_into_a_number_comes_with_the_next)
{
    end();
    buffers = ENTRIES / 2;
    begin();
    sides[0].queue->has_checks = sides[1].queue->has_checks = true;
    run(3000, 0);
    run(3000, 3000);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(sides[i].queue->credit + sides[1 - i].queue->owed,
                     sides[i].queue->credit_whole);
}

Test(rdma_queue, messages_go_one_way)
{
    run(2000, 0);
    run(0, 2000);
}

Test(rdma_queue, messages_go_both_ways)
{
    run(2000, 2000);
    run(1, 700);
    run(700, 1);
}

Test(rdma_queue, messages_go_to_and_fro)
{
    for (int i = 0; i < 300; i++) {
        run(1, 0);
        run(0, 1);
    }
}

Test(rdma_queue, nobody_sends_without_a_buffer_there)
{
    sides[0].to_send = 1000;
    send_what_fits(&sides[0]);
    bool moved;
    for (int i = 0; i < 50; i++) /* the receiver does not poll */
        cr_assert(kolo_rdma_completions_poll(sides[0].completions, &moved) == KOLO_OK);
    cr_assert(sides[0].sent == BUFFERS - 4 && !kolo_rdma_queue_buffer(sides[0].queue), "%u",
              sides[0].sent);
    run(0, 0);
}

/** Posts the next message of side 0, which need not be signalled. */
static void post_one(void)
{
    struct side *side = &sides[0];
    uint8_t *buffer = kolo_rdma_queue_buffer(side->queue);
    size_t bytes = length_of(&side->seed_out);
    cr_assert(buffer != NULL);
    write_message(buffer, bytes, side->sent++);
    kolo_rdma_queue_send(side->queue, bytes, false);
}

Test(rdma_queue_faults, silence_is_counted_from_the_look_that_finds_it)
{
    enum { FIRST = 1000 };
    struct kolo_rdma_queue *queue = sides[0].queue;
    cr_assert(kolo_rdma_queue_silence_ns(queue, FIRST, false) == 0);
    cr_assert(kolo_rdma_queue_silence_ns(queue, FIRST + 10, false) == 0, "nothing is on its way");
    fake_verbs_delay(1, INT_MAX);
    post_one();
    cr_assert(kolo_rdma_queue_silence_ns(queue, FIRST + 20, false) == 0);
    cr_assert(kolo_rdma_queue_silence_ns(queue, FIRST + 30, false) == 10);
    cr_assert(kolo_rdma_queue_silence_ns(queue, FIRST + 40, true) == 0, "nobody looked");
    cr_assert(kolo_rdma_queue_silence_ns(queue, FIRST + 50, false) == 10);
    poll_both();
    cr_assert(sides[0].failures == 0);
    kolo_rdma_queue_give_up(queue, "no word");
    cr_assert(sides[0].failures == 1 && sides[0].why == KOLO_ERR_LINK, "%s", sides[0].detail);
    cr_assert(strstr(sides[0].detail, "rank 1 on host b by rdma fake0 port 1: a message of ") &&
                  strstr(sides[0].detail, " bytes: no word"),
              "%s", sides[0].detail);
}

Test(rdma_queue_faults, of_what_would_not_be_told_the_device_is_asked_once)
{
    int done = 0, told = 0, polls = 0;
    post_one();
    while (poll_both() && polls++ < PATIENCE_MS)
        ;
    fake_verbs_sends(&done, &told);
    cr_assert(done == 1 && told == 0 && !kolo_rdma_queue_is_drained(sides[0].queue));
    for (int look = 1; look < 5; look++)
        cr_assert(kolo_rdma_queue_silence_ns(sides[0].queue, look, true) == 0);
    poll_both();
    fake_verbs_sends(&done, &told);
    cr_assert(done == 2 && told == 1, "%d, %d", done, told);
    cr_assert(kolo_rdma_queue_is_drained(sides[0].queue));
    cr_assert(fake_verbs_not_ready() == 0 && sides[0].failures + sides[1].failures == 0);
}

Test(rdma_queue, a_peer_that_is_gone_is_named)
{
    kolo_deadline deadline = kolo_deadline_in_ms(PATIENCE_MS);
    run(10, 10);
    kolo_rdma_queue_close(sides[1].queue);
    sides[1].queue = NULL;
    sides[0].to_send++;
    send_what_fits(&sides[0]);
    while (sides[0].failures == 0 && kolo_now_ns() < deadline)
        poll_both();
    cr_assert(sides[0].failures == 1 && sides[0].why == KOLO_ERR_LINK, "%s", sides[0].detail);
    cr_assert(strstr(sides[0].detail, "rank 1 on host b by rdma ") &&
                  strstr(sides[0].detail, "a message of "),
              "%s", sides[0].detail);
    cr_assert(kolo_rdma_queue_buffer(sides[0].queue) == NULL);
}

/* ---- faults ---- */

static void refused(kolo_status status, const char *text)
{
    struct kolo_rdma_queue *queue = NULL;
    int living = fake_verbs_living();
    kolo_status got =
        kolo_rdma_queue_open(sides[0].completions, &ops, &sides[0], BUFFERS, BUFFER_BYTES, &queue);
    cr_assert(got == status && !queue, "%s: %d", text, (int)got);
    cr_assert(strstr(kolo_error_detail(), text), "'%s' is not in: %s", text, kolo_error_detail());
    cr_assert(fake_verbs_living() == living && sides[0].completions->entries_used == 2 * BUFFERS);
}

Test(rdma_queue_faults, a_queue_that_cannot_be_opened_leaves_nothing)
{
    fake_verbs_fail("reg_mr", 1, EPERM);
    refused(KOLO_ERR_SYSTEM, "cannot be registered: Operation not permitted");
    fake_verbs_fail("modify_qp", 1, EINVAL);
    refused(KOLO_ERR_LINK, "the queue pair cannot be prepared: Invalid argument");
    fake_verbs_fail("post_recv", 7, ENOMEM);
    refused(KOLO_ERR_LINK, "a receive of 4096 bytes: the device does not take it");
    cr_assert(sides[0].failures == 0);
    for (uint64_t nth = 1; nth <= 4; nth++) {
        kolo_alloc_fail_nth(nth);
        refused(KOLO_ERR_NO_MEMORY, "");
    }
    kolo_alloc_fail_nth(0);
    run(10, 10);
}

static bool is_done_without(struct kolo_rdma_queue *queue)
{
    struct side *side = queue->context;
    side->failures++;
    snprintf(side->detail, sizeof side->detail, "%s", kolo_error_detail());
    cr_assert(kolo_rdma_queue_cut(queue) == KOLO_OK);
    return true;
}

/** When other queue pairs replace this one, the sender knows that these messages arrived and will
 * not send them again. */
Test(rdma_queue_faults, what_had_arrived_is_delivered_although_a_receive_is_refused)
{
    static const struct kolo_rdma_queue_ops spare_ops = {.arrived = arrived,
                                                         .has_room = has_room,
                                                         .broke = is_done_without,
                                                         .failed = failed,
                                                         .describe = describe,
                                                         .is_spare = true};
    const int64_t deadline = kolo_now_ns() + PATIENCE_MS * INT64_C(1000000);
    bool moved = true;
    sides[0].queue->ops = &spare_ops;
    sides[1].to_send = 3;
    send_what_fits(&sides[1]);
    while (!kolo_rdma_queue_is_drained(sides[1].queue) && kolo_now_ns() < deadline)
        cr_assert(kolo_rdma_completions_poll(sides[1].completions, &moved) == KOLO_OK);
    fake_verbs_fail("post_recv", 1, EIO);
    while (!kolo_rdma_queue_is_still(sides[0].queue) && kolo_now_ns() < deadline)
        cr_assert(kolo_rdma_completions_poll(sides[0].completions, &moved) == KOLO_OK);
    cr_assert(sides[0].got == 3 && kolo_rdma_queue_received(sides[0].queue) == 3, "%u",
              sides[0].got);
    cr_assert(sides[0].failures == 1 &&
                  strstr(sides[0].detail, "a receive of 4096 bytes: the device does not take it"),
              "%d: %s", sides[0].failures, sides[0].detail);
}

Test(rdma_queue_faults, few_messages_are_told_but_all_that_somebody_waits_for)
{
    int done = 0, told = 0, flushed = 0;
    bool moved;
    run(1000, 0);
    fake_verbs_sends(&done, &told);
    cr_assert(done >= 1000 && told * 2 < done, "%d of %d", told, done);
    uint8_t *buffer = kolo_rdma_queue_buffer(sides[0].queue);
    size_t bytes = length_of(&sides[0].seed_out);
    write_message(buffer, bytes, sides[0].sent++);
    kolo_rdma_queue_send(sides[0].queue, bytes, false);
    for (int i = 0; i < 50; i++)
        cr_assert(kolo_rdma_completions_poll(sides[0].completions, &moved) == KOLO_OK);
    cr_assert(!kolo_rdma_queue_is_drained(sides[0].queue));
    kolo_rdma_queue_flush(sides[0].queue);
    for (int i = 0; i < 50; i++)
        poll_both();
    cr_assert(kolo_rdma_queue_is_drained(sides[0].queue));
    fake_verbs_sends(&done, &told);
    kolo_rdma_queue_flush(sides[0].queue);
    fake_verbs_sends(&flushed, &told);
    cr_assert(flushed == done && fake_verbs_not_ready() == 0, "%d and %d", flushed, done);
}

static uint32_t inlined_by(uint32_t most)
{
    struct kolo_rdma_queue *queue = NULL;
    fake_verbs_device(0)->inline_most = most;
    cr_assert(kolo_rdma_queue_open(sides[0].completions, &ops, &sides[0], BUFFERS, BUFFER_BYTES,
                                   &queue) == KOLO_OK);
    const uint32_t bytes = queue->inline_bytes;
    kolo_rdma_queue_close(queue);
    return bytes;
}

Test(rdma_queue_faults, as_much_is_inlined_as_the_device_takes)
{
    cr_assert(inlined_by(256) == 220 && inlined_by(101) == 96 && inlined_by(64) == 48);
    cr_assert(inlined_by(47) == 0 && inlined_by(0) == 0);
}

Test(rdma_queue_faults, a_queue_has_its_pages_for_itself)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct kolo_rdma_queue *queue = NULL;
    cr_assert(kolo_rdma_queue_open(sides[0].completions, &ops, &sides[0], BUFFERS,
                                   BUFFER_BYTES + 32, &queue) == KOLO_OK);
    cr_assert((uintptr_t)queue->memory % page == 0 && queue->region->length % page == 0,
              "%zu bytes at %p", queue->region->length, (void *)queue->memory);
    kolo_rdma_queue_close(queue);
}

Test(rdma_queue_faults, memory_that_stays_registered_is_not_freed)
{
    struct ibv_mr *region = sides[0].queue->region;
    uint8_t *memory = sides[0].queue->memory;
    fake_verbs_fail("dereg_mr", 1, EBUSY);
    kolo_rdma_queue_close(sides[0].queue);
    sides[0].queue = NULL;
    memset(memory, 1, region->length); /* as a device may do */
    cr_assert(fake_verbs_regions() == 2, "until the device is closed");
}

Test(rdma_queue_faults, a_pair_that_cannot_be_joined_says_so)
{
    static const char *const texts[] = {"cannot be joined to its peer's", "cannot begin to send"};
    for (int nth = 1; nth <= 2; nth++) {
        end();
        fake_verbs_reset();
        open_side(0);
        open_side(1);
        const struct kolo_rdma_hello theirs = hello_of(&sides[1]);
        fake_verbs_fail("modify_qp", nth, ETIMEDOUT);
        cr_assert(kolo_rdma_queue_connect(sides[0].queue, &sides[0].device->gids.all[0], &theirs) ==
                  KOLO_ERR_LINK);
        cr_assert(strstr(kolo_error_detail(), texts[nth - 1]), "%s", kolo_error_detail());
        cr_assert(kolo_rdma_queue_buffer(sides[0].queue) == NULL);
    }
}

Test(rdma_queue_faults, credit_that_was_never_used_is_a_lie)
{
    run(3, 0);
    sides[1].queue->owed = 100;
    sides[1].to_send = 1;
    send_what_fits(&sides[1]);
    while (poll_both())
        ;
    cr_assert(sides[0].failures == 1 && sides[0].why == KOLO_ERR_PROTOCOL && sides[0].got == 0);
    cr_assert(
        strstr(sides[0].detail,
               "rank 1 on host b by rdma: more eager buffers were returned than were used (100)"),
        "%s", sides[0].detail);
}

/** The nth call of something fails in the middle of traffic: either both sides end, or neither
 * notices; nothing hangs. */
static void disturbed(const char *what, int nth)
{
    end();
    begin();
    if (strcmp(what, "complete") == 0)
        fake_verbs_complete_as(nth, IBV_WC_REM_OP_ERR);
    else if (strcmp(what, "duplicate") == 0)
        fake_verbs_duplicate(nth);
    else if (strcmp(what, "swap") == 0)
        fake_verbs_swap(nth);
    else if (strcmp(what, "delay") == 0)
        fake_verbs_delay(nth, 20);
    else
        fake_verbs_fail(what, nth, EIO);
    sides[0].to_send = sides[1].to_send = 60;
    send_what_fits(&sides[0]);
    send_what_fits(&sides[1]);
    for (int quiet = 0; quiet < 40; quiet++)
        if (poll_both())
            quiet = 0;
    bool has_failed = sides[0].failures + sides[1].failures > 0;
    cr_assert(has_failed || is_over(), "%s %d: stuck", what, nth);
    cr_assert(sides[0].failures <= 1 && sides[1].failures <= 1);
    for (int i = 0; i < 2; i++)
        cr_assert(sides[i].failures == 0 || strstr(sides[i].detail, "on host b by rdma fake"), "%s",
                  sides[i].detail);
    if (strcmp(what, "delay") == 0)
        cr_assert(is_over(), "late is not lost");
}

Test(rdma_queue_faults, whatever_goes_wrong_ends)
{
    static const char *const what[] = {"complete", "duplicate", "swap",
                                       "delay",    "post_send", "post_recv"};
    for (size_t i = 0; i < sizeof what / sizeof what[0]; i++)
        for (int nth = 1; nth < 80; nth += i < 4 ? 3 : 7)
            disturbed(what[i], nth);
}

Test(rdma_queue_faults, into_a_queue_that_was_stopped_nobody_sends)
{
    int living = fake_verbs_living();
    cr_assert(kolo_rdma_queue_stop(sides[1].queue));
    cr_assert(fake_verbs_living() == living - 1,
              "the pair is there, and may have requests at work");
    uint8_t *buffer = kolo_rdma_queue_buffer(sides[0].queue);
    memset(buffer, 1, BUFFER_BYTES);
    kolo_rdma_queue_send(sides[0].queue, BUFFER_BYTES, true);
    for (int i = 0; i < 40; i++)
        poll_both();
    cr_assert(sides[0].failures == 1 && sides[1].failures == 0 && sides[1].got == 0);
    for (size_t i = 0; i < (size_t)2 * BUFFERS * BUFFER_BYTES; i++)
        cr_assert(sides[1].queue->memory[i] == 0, "byte %zu was written", i);
    cr_assert(kolo_rdma_queue_stop(sides[1].queue), "once more");
}

Test(rdma_queue_faults, who_stops_a_queue_hears_that_its_device_does_not_let_go)
{
    fake_verbs_fail("destroy_qp", 1, EBUSY);
    cr_assert(!kolo_rdma_queue_stop(sides[1].queue));
    cr_assert(!kolo_rdma_queue_stop(sides[1].queue), "nor is the pair gone when asked again");
}

Test(rdma_queue_faults, a_device_that_is_pulled_out_ends_both)
{
    sides[0].to_send = sides[1].to_send = 500;
    send_what_fits(&sides[0]);
    send_what_fits(&sides[1]);
    for (int i = 0; i < 3; i++)
        poll_both();
    fake_verbs_remove(fake_verbs_device(0));
    for (int quiet = 0; quiet < 40; quiet++)
        if (poll_both())
            quiet = 0;
    cr_assert(sides[0].failures == 1 && sides[1].failures <= 1,
              "who has nothing on its way does not notice");
    cr_assert(kolo_rdma_device_news(sides[0].device) == KOLO_ERR_LINK);
}
