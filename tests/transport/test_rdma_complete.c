// SPDX-License-Identifier: Apache-2.0
// Completions over the devices with injected faults: requests end in order, each once, whatever the
// device reports; every status has its text; and undefined fields are not read (under ASan the
// fake's garbage would crash the test).
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/support/fake_verbs.h"
#include "transport/rdma_complete.h"

enum { REQUESTS = 16, BYTES = 64, ENTRIES = 64 };

/** One side of the queue pair under test. */
struct side {
    struct kolo_rdma_device *device;
    struct kolo_rdma_completions *completions;
    struct ibv_qp *pair;
    struct ibv_mr *region;
    struct kolo_rdma_track sends, receives;
    uint8_t memory[REQUESTS * BYTES];
    int done[1000], done_count; /* the `context` of each request, in the order of completion */
    uint32_t numbers[1000];
    int failures;
    kolo_status why;
    char detail[KOLO_DETAIL_MAX];
};
static struct side sides[2];

static struct side *side_of(const struct kolo_rdma_track *track)
{
    return track == &sides[0].sends || track == &sides[0].receives ? &sides[0] : &sides[1];
}

static void done(struct kolo_rdma_track *track, const struct kolo_rdma_request *request,
                 const struct ibv_wc *wc)
{
    struct side *side = side_of(track);
    cr_assert(track->is_receive == (wc != NULL));
    side->numbers[side->done_count] = wc ? wc->imm_data : 0;
    side->done[side->done_count++] = (int)(intptr_t)request->context;
}

static void failed(struct kolo_rdma_track *track, kolo_status why)
{
    struct side *side = side_of(track);
    side->failures++;
    side->why = why;
    snprintf(side->detail, sizeof side->detail, "%s", kolo_error_detail());
}

static void describe(const struct kolo_rdma_track *track, char *text, size_t capacity)
{
    snprintf(text, capacity, "rank %d on host b", side_of(track) == &sides[0]);
}

static const struct kolo_rdma_track_ops ops = {
    .done = done, .failed = failed, .describe = describe};

static void open_side(int number)
{
    struct side *side = &sides[number];
    const struct kolo_verbs *verbs = fake_verbs_table();
    *side = (struct side){.done_count = 0};
    cr_assert(kolo_rdma_device_open(verbs, fake_verbs_settings(number == 0 ? "fake0" : "fake1"), -1,
                                    &side->device) == KOLO_OK);
    cr_assert(kolo_rdma_completions_open(side->device, ENTRIES, &side->completions) == KOLO_OK);
    cr_assert(kolo_rdma_track_open(&side->sends, side->completions, &ops, false, REQUESTS) ==
              KOLO_OK);
    cr_assert(kolo_rdma_track_open(&side->receives, side->completions, &ops, true, REQUESTS) ==
              KOLO_OK);
    side->region = verbs->reg_mr(side->device->domain, side->memory, sizeof side->memory,
                                 IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp_init_attr attr = {.send_cq = side->completions->queue,
                                    .recv_cq = side->completions->queue,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {REQUESTS, REQUESTS, 1, 1, 0}};
    side->pair = verbs->create_qp(side->device->domain, &attr);
    cr_assert(side->pair != NULL);
}

static void connect_side(int number)
{
    const struct kolo_verbs *verbs = fake_verbs_table();
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp_attr receive = {.qp_state = IBV_QPS_RTR,
                                  .dest_qp_num = sides[1 - number].pair->qp_num,
                                  .path_mtu = IBV_MTU_1024};
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS, .retry_cnt = 3, .rnr_retry = 3};
    struct ibv_qp *pair = sides[number].pair;
    cr_assert(verbs->modify_qp(pair, &init,
                               IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                   IBV_QP_ACCESS_FLAGS) == 0);
    cr_assert(verbs->modify_qp(pair, &receive,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                   IBV_QP_MIN_RNR_TIMER) == 0);
    cr_assert(verbs->modify_qp(pair, &send,
                               IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void close_side(int number)
{
    struct side *side = &sides[number];
    const struct kolo_verbs *verbs = fake_verbs_table();
    verbs->destroy_qp(side->pair);
    kolo_rdma_track_close(&side->sends);
    kolo_rdma_track_close(&side->receives);
    kolo_rdma_track_close(&side->receives);
    verbs->dereg_mr(side->region);
    kolo_rdma_completions_close(side->completions);
    kolo_rdma_device_close(side->device);
}

static void begin(void)
{
    fake_verbs_reset();
    open_side(0);
    open_side(1);
    connect_side(0);
    connect_side(1);
}

static void end(void)
{
    close_side(0);
    close_side(1);
    cr_assert(fake_verbs_living() == 0, "%d left", fake_verbs_living());
}

TestSuite(rdma_complete, .init = begin, .fini = end, .timeout = 60);

static bool poll_both(void)
{
    bool moved[2] = {false, false};
    for (int i = 0; i < 2; i++)
        cr_assert(kolo_rdma_completions_poll(sides[i].completions, &moved[i]) == KOLO_OK, "%s",
                  kolo_error_detail());
    return moved[0] || moved[1];
}

static void poll_until_quiet(void)
{
    for (int quiet = 0; quiet < 8; quiet++)
        if (poll_both())
            quiet = 0;
}

static int post_receive(struct side *side, int number)
{
    const struct kolo_rdma_request request = {
        .what = "a receive", .bytes = BYTES, .context = (void *)(intptr_t)number};
    struct ibv_sge part = {.addr = (uintptr_t)side->memory + (size_t)(number % REQUESTS) * BYTES,
                           .length = BYTES,
                           .lkey = side->region->lkey};
    struct ibv_recv_wr *bad, wr = {.sg_list = &part, .num_sge = 1};
    wr.wr_id = kolo_rdma_track_add(&side->receives, &request, true);
    int error = fake_verbs_table()->post_recv(side->pair, &wr, &bad);
    if (error != 0)
        kolo_rdma_track_refused(&side->receives, error);
    return error;
}

static int post_send(struct side *side, int number, bool is_signaled)
{
    const struct kolo_rdma_request request = {
        .what = "a send", .bytes = BYTES, .context = (void *)(intptr_t)number};
    struct ibv_sge part = {
        .addr = (uintptr_t)side->memory, .length = BYTES, .lkey = side->region->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &part,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND_WITH_IMM,
                                   .imm_data = (uint32_t)number,
                                   .send_flags = is_signaled ? IBV_SEND_SIGNALED : 0};
    wr.wr_id = kolo_rdma_track_add(&side->sends, &request, is_signaled);
    int error = fake_verbs_table()->post_send(side->pair, &wr, &bad);
    if (error != 0)
        kolo_rdma_track_refused(&side->sends, error);
    return error;
}

static void in_order(const struct side *side, int count)
{
    cr_assert(side->done_count == count, "%d ended instead of %d", side->done_count, count);
    for (int i = 0; i < count; i++)
        cr_assert(side->done[i] == i, "place %d: %d", i, side->done[i]);
}

static void has_failed(const struct side *side, kolo_status why, const char *text)
{
    cr_assert(side->failures == 1 && side->why == why, "%d failures, status %d: %s", side->failures,
              (int)side->why, side->detail);
    cr_assert(strstr(side->detail, text), "'%s' is not in: %s", text, side->detail);
    cr_assert(strstr(side->detail, side == &sides[0] ? "rank 1 on host b by rdma fake0 port 1: "
                                                     : "rank 0 on host b by rdma fake1 port 1: "),
              "%s", side->detail);
}

Test(rdma_complete, a_told_send_ends_all_before_it)
{
    int received = 0, sent = 0;
    for (; received < REQUESTS; received++)
        cr_assert(post_receive(&sides[1], received) == 0);
    while (sent < 900) {
        bool is_signaled = kolo_rdma_track_wants_signal(&sides[0].sends) || sent == 899;
        if (!kolo_rdma_track_is_full(&sides[0].sends) && sent < received) {
            cr_assert(post_send(&sides[0], sent, is_signaled) == 0, "%d", sent);
            sent++;
        } else {
            poll_both();
        }
        for (; !kolo_rdma_track_is_full(&sides[1].receives); received++)
            cr_assert(post_receive(&sides[1], received) == 0);
    }
    poll_until_quiet();
    in_order(&sides[0], 900);
    in_order(&sides[1], 900);
    for (int i = 0; i < 900; i++)
        cr_assert(sides[1].numbers[i] == (uint32_t)i);
    cr_assert(sides[0].failures == 0 && sides[1].failures == 0);
}

Test(rdma_complete, numbers_go_round)
{
    for (int i = 0; i < 2; i++) {
        sides[i].sends.first = sides[i].sends.next = sides[i].sends.signaled =
            (UINT64_C(1) << 40) - 3;
        sides[i].receives.first = sides[i].receives.next = (UINT64_C(1) << 40) - 3;
    }
    for (int i = 0; i < 8; i++) {
        cr_assert(post_receive(&sides[1], i) == 0 && post_send(&sides[0], i, i % 4 == 3) == 0);
        poll_until_quiet();
    }
    in_order(&sides[0], 8);
    in_order(&sides[1], 8);
    cr_assert(sides[0].failures == 0 && sides[1].failures == 0, "%s%s", sides[0].detail,
              sides[1].detail);
}

Test(rdma_complete, every_status_has_its_words)
{
    static const struct {
        enum ibv_wc_status status;
        kolo_status why;
        const char *text;
    } cases[] = {{IBV_WC_LOC_LEN_ERR, KOLO_ERR_INTERNAL, "longer than the buffer for it"},
                 {IBV_WC_LOC_QP_OP_ERR, KOLO_ERR_LINK, "no way to the peer"},
                 {IBV_WC_LOC_PROT_ERR, KOLO_ERR_LINK, "not registered any more"},
                 {IBV_WC_WR_FLUSH_ERR, KOLO_ERR_LINK, "the connection was ended"},
                 {IBV_WC_REM_ACCESS_ERR, KOLO_ERR_LINK, "memory is not there for us any more"},
                 {IBV_WC_RETRY_EXC_ERR, KOLO_ERR_LINK, "process or host is gone"},
                 {IBV_WC_RNR_RETRY_EXC_ERR, KOLO_ERR_LINK, "is its process stopped?"},
                 {IBV_WC_FATAL_ERR, KOLO_ERR_LINK, "the device broke down"},
                 {(enum ibv_wc_status)99, KOLO_ERR_LINK, "that kolo does not know"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[64];
        end();
        begin();
        cr_assert(post_receive(&sides[1], 0) == 0);
        fake_verbs_complete_as(1, cases[i].status);
        cr_assert(post_send(&sides[0], 0, true) == 0 && post_send(&sides[0], 1, true) == 0);
        poll_until_quiet();
        has_failed(&sides[0], cases[i].why, cases[i].text);
        snprintf(words, sizeof words, "a send of 64 bytes: ");
        cr_assert(strstr(sides[0].detail, words), "%s", sides[0].detail);
        snprintf(words, sizeof words, "(status %d, ", (int)cases[i].status);
        cr_assert(strstr(sides[0].detail, words), "%s", sides[0].detail);
        cr_assert(sides[0].done_count == 0, "what was flushed is not done");
    }
    cr_assert_str_eq(kolo_rdma_status_text(IBV_WC_SUCCESS), "success");
    for (int status = IBV_WC_SUCCESS; status <= IBV_WC_GENERAL_ERR; status++)
        cr_assert(strlen(kolo_rdma_status_text((enum ibv_wc_status)status)) > 0);
}

Test(rdma_complete, a_peer_that_has_no_place_or_is_gone)
{
    cr_assert(post_send(&sides[0], 0, true) == 0);
    poll_until_quiet();
    has_failed(&sides[0], KOLO_ERR_LINK, "has had no buffer free for a message for too long");
    end();
    begin();
    fake_verbs_table()->destroy_qp(sides[1].pair);
    cr_assert(post_send(&sides[0], 0, true) == 0);
    poll_until_quiet();
    has_failed(&sides[0], KOLO_ERR_LINK, "no answer");
    struct ibv_qp_init_attr attr = {.send_cq = sides[1].completions->queue,
                                    .recv_cq = sides[1].completions->queue,
                                    .qp_type = IBV_QPT_RC};
    sides[1].pair = fake_verbs_table()->create_qp(sides[1].device->domain, &attr);
}

Test(rdma_complete, a_message_that_is_too_long_is_the_peers_fault)
{
    const struct kolo_rdma_request request = {.what = "a receive", .bytes = 1};
    struct ibv_sge part = {
        .addr = (uintptr_t)sides[1].memory, .length = 1, .lkey = sides[1].region->lkey};
    struct ibv_recv_wr *bad, wr = {.sg_list = &part, .num_sge = 1};
    wr.wr_id = kolo_rdma_track_add(&sides[1].receives, &request, true);
    cr_assert(fake_verbs_table()->post_recv(sides[1].pair, &wr, &bad) == 0);
    cr_assert(post_send(&sides[0], 0, true) == 0);
    poll_until_quiet();
    has_failed(&sides[1], KOLO_ERR_PROTOCOL,
               "a receive of 1 bytes: the message is longer than the buffer for it");
    has_failed(&sides[0], KOLO_ERR_LINK, "refused the message");
}

Test(rdma_complete, what_comes_twice_is_found)
{
    cr_assert(post_receive(&sides[1], 0) == 0 && post_receive(&sides[1], 1) == 0);
    fake_verbs_duplicate(1); /* the receiver's completion */
    cr_assert(post_send(&sides[0], 0, true) == 0);
    poll_until_quiet();
    has_failed(&sides[1], KOLO_ERR_INTERNAL, "told a request twice");
}

Test(rdma_complete, what_comes_twice_and_has_no_successor_is_found)
{
    cr_assert(post_receive(&sides[1], 0) == 0);
    fake_verbs_duplicate(2); /* the sender's completion */
    cr_assert(post_send(&sides[0], 0, true) == 0);
    poll_until_quiet();
    in_order(&sides[0], 1);
    has_failed(&sides[0], KOLO_ERR_INTERNAL, "told a request twice");
    cr_assert(sides[1].failures == 0);
}

Test(rdma_complete, receives_out_of_order_are_found)
{
    for (int i = 0; i < 4; i++)
        cr_assert(post_receive(&sides[1], i) == 0);
    fake_verbs_swap(1);
    for (int i = 0; i < 3; i++)
        cr_assert(post_send(&sides[0], i, false) == 0);
    poll_until_quiet();
    has_failed(&sides[1], KOLO_ERR_INTERNAL, "before those that were posted before it");
    cr_assert(sides[1].done_count == 0);
}

Test(rdma_complete, sends_out_of_order_end_once)
{
    for (int i = 0; i < 4; i++)
        cr_assert(post_receive(&sides[1], i) == 0);
    cr_assert(post_send(&sides[0], 0, true) == 0);
    poll_until_quiet();
    /* Completions of both sides alternate in time, but each side has a queue of its own: this
     * swaps two of the sender's. */
    fake_verbs_swap(2);
    cr_assert(post_send(&sides[0], 1, true) == 0 && post_send(&sides[0], 2, true) == 0);
    poll_until_quiet();
    in_order(&sides[0], 3);
    has_failed(&sides[0], KOLO_ERR_INTERNAL, "told a request twice");
}

Test(rdma_complete, what_comes_late_for_a_closed_track_is_dropped)
{
    cr_assert(post_receive(&sides[1], 0) == 0);
    fake_verbs_delay(1, 3);
    cr_assert(post_send(&sides[0], 0, true) == 0);
    poll_both();
    cr_assert(sides[0].done_count == 0);
    kolo_rdma_track_close(&sides[0].sends);
    poll_until_quiet();
    cr_assert(sides[0].completions->late == 1 && sides[0].done_count == 0 &&
              sides[0].failures == 0);
    in_order(&sides[1], 1);
}

Test(rdma_complete, a_post_that_is_refused_ends_the_track)
{
    cr_assert(post_receive(&sides[1], 0) == 0);
    fake_verbs_fail("post_send", 2, ENOMEM);
    cr_assert(post_send(&sides[0], 0, true) == 0 && post_send(&sides[0], 1, true) == ENOMEM);
    has_failed(&sides[0], KOLO_ERR_LINK,
               "a send of 64 bytes: the device does not take it: Cannot allocate memory");
    fake_verbs_fail("post_recv", 1, EIO);
    cr_assert(post_receive(&sides[1], 1) == EIO);
    has_failed(&sides[1], KOLO_ERR_LINK,
               "a receive of 64 bytes: the device does not take it: Input/output error");
    poll_until_quiet();
}

Test(rdma_complete, a_device_that_is_pulled_out_fails_each_track_once)
{
    cr_assert(post_receive(&sides[0], 0) == 0 && post_receive(&sides[0], 1) == 0);
    fake_verbs_delay(1, 100);
    cr_assert(post_send(&sides[0], 0, true) == 0);
    fake_verbs_remove(fake_verbs_device(0));
    poll_until_quiet();
    cr_assert(sides[0].failures == 2, "its sends and its receives");
    cr_assert(strstr(sides[0].detail, "the connection was ended"), "%s", sides[0].detail);
    cr_assert(kolo_rdma_device_news(sides[0].device) == KOLO_ERR_LINK);
}

Test(rdma_complete, the_channel_tells_what_comes_after_it_was_armed)
{
    struct pollfd wait = {.fd = sides[1].completions->channel->fd, .events = POLLIN};
    bool moved;
    cr_assert(post_receive(&sides[1], 0) == 0 && post_receive(&sides[1], 1) == 0);
    cr_assert(kolo_rdma_completions_arm(sides[1].completions) == KOLO_OK && poll(&wait, 1, 0) == 0);
    cr_assert(post_send(&sides[0], 0, true) == 0);
    cr_assert(kolo_rdma_completions_poll(sides[0].completions, &moved) == KOLO_OK && moved);
    cr_assert(poll(&wait, 1, 0) == 1);
    cr_assert(kolo_rdma_completions_heard(sides[1].completions) == KOLO_OK);
    cr_assert(poll(&wait, 1, 0) == 0);
    cr_assert(kolo_rdma_completions_poll(sides[1].completions, &moved) == KOLO_OK && moved);
    in_order(&sides[1], 1);
    /* A notification that nobody has read does not keep the queue from being closed. */
    cr_assert(kolo_rdma_completions_arm(sides[1].completions) == KOLO_OK);
    cr_assert(post_send(&sides[0], 1, true) == 0);
    poll_until_quiet();
    cr_assert(poll(&wait, 1, 0) == 1);
    fake_verbs_fail("req_notify_cq", 1, EIO);
    cr_assert(kolo_rdma_completions_arm(sides[1].completions) == KOLO_ERR_LINK);
    fake_verbs_fail("get_cq_event", 1, EIO);
    cr_assert(kolo_rdma_completions_heard(sides[1].completions) == KOLO_ERR_LINK);
    cr_assert(strstr(kolo_error_detail(), "does not tell of completions any more"), "%s",
              kolo_error_detail());
}

Test(rdma_complete, a_queue_that_is_not_destroyed_goes_with_its_device)
{
    struct kolo_rdma_completions *completions = NULL;
    const int living = fake_verbs_living();
    cr_assert(kolo_rdma_completions_open(sides[0].device, 16, &completions) == KOLO_OK);
    fake_verbs_fail("destroy_cq", 1, EBUSY);
    kolo_rdma_completions_close(completions);
    cr_assert(fake_verbs_living() == living + 2, "the queue, and the channel that it uses");
}

Test(rdma_complete, a_queue_that_cannot_be_read_says_so)
{
    bool moved;
    fake_verbs_fail("poll_cq", 1, 0);
    cr_assert(kolo_rdma_completions_poll(sides[0].completions, &moved) == KOLO_ERR_LINK && !moved);
    cr_assert(strstr(kolo_error_detail(), "rdma fake0: its completions cannot be read"), "%s",
              kolo_error_detail());
}

Test(rdma_complete, tracks_have_room_or_are_refused)
{
    struct kolo_rdma_track third, fourth, fifth = {.requests = NULL};
    struct kolo_rdma_completions *completions = sides[0].completions;
    cr_assert(kolo_rdma_track_open(&third, completions, &ops, false, REQUESTS) == KOLO_OK);
    kolo_alloc_fail_nth(1);
    cr_assert(kolo_rdma_track_open(&fourth, completions, &ops, false, REQUESTS) ==
              KOLO_ERR_NO_MEMORY);
    completions->next_number =
        third.number; /* after 2^24 numbers they repeat: one that is in use is skipped */
    cr_assert(kolo_rdma_track_open(&fourth, completions, &ops, false, REQUESTS) == KOLO_OK);
    cr_assert(fourth.number != third.number);
    cr_assert(kolo_rdma_track_open(&fifth, completions, &ops, false, REQUESTS) ==
              KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "the completion queue of 64 entries is full, 16 more"),
              "%s", kolo_error_detail());
    kolo_rdma_track_close(&third);
    cr_assert(kolo_rdma_track_open(&fifth, completions, &ops, false, REQUESTS) == KOLO_OK);
    kolo_rdma_track_close(&fourth);
    kolo_rdma_track_close(&fifth);
}

Test(rdma_complete, a_queue_that_cannot_be_made_leaves_nothing)
{
    static const char *const calls[] = {"create_comp_channel", "create_cq"};
    struct kolo_rdma_completions *completions = NULL;
    int living = fake_verbs_living();
    for (size_t i = 0; i < 2; i++) {
        fake_verbs_fail(calls[i], 1, ENOMEM);
        cr_assert(kolo_rdma_completions_open(sides[0].device, 16, &completions) == KOLO_ERR_SYSTEM);
        cr_assert(strstr(kolo_error_detail(), "Cannot allocate memory"), "%s", kolo_error_detail());
    }
    kolo_alloc_fail_nth(1);
    cr_assert(kolo_rdma_completions_open(sides[0].device, 16, &completions) == KOLO_ERR_NO_MEMORY);
    cr_assert(kolo_rdma_completions_open(sides[0].device, 0, &completions) == KOLO_ERR_UNSUPPORTED);
    cr_assert(kolo_rdma_completions_open(sides[0].device, 1u << 20, &completions) ==
              KOLO_ERR_UNSUPPORTED);
    cr_assert(strstr(kolo_error_detail(), "at most 1024"), "%s", kolo_error_detail());
    cr_assert(!completions && fake_verbs_living() == living);
}
