// SPDX-License-Identifier: Apache-2.0
// Finds the same call on all ranks, and which rank came to it last.
#include <criterion/criterion.h>

#include "tests/launcher/trace_maker.h"

enum { SIZE = 3 };

static struct maker makers[SIZE];

static void begin(void)
{
    for (int rank = 0; rank < SIZE; rank++)
        makers[rank] = maker_begin(rank, SIZE, 7, "a");
}

static struct kolo_trace merged(void)
{
    struct kolo_trace trace = {.size = 0};
    for (int rank = SIZE - 1; rank >= 0; rank--)
        cr_assert(maker_give(&makers[rank], &trace) == KOLO_OK);
    cr_assert(kolo_trace_merge(&trace) == KOLO_OK);
    return trace;
}

static const struct kolo_trace_call *call_of(const struct kolo_trace *trace, int rank, size_t nth)
{
    cr_assert(trace->tracks[rank].rank == rank && nth < trace->tracks[rank].count);
    return &trace->calls[trace->tracks[rank].first + nth];
}

Test(trace_match, the_last_of_a_collective)
{
    static const int64_t begins[SIZE] = {1000, 5000, 3000};
    begin();
    for (int rank = 0; rank < SIZE; rank++) {
        maker_call(&makers[rank], 0, begins[rank], 6000);
        maker_call(&makers[rank], 1, 7000 - rank, 8000);
    }
    struct kolo_trace trace = merged();
    for (int rank = 0; rank < SIZE; rank++) {
        const struct kolo_trace_call *call = call_of(&trace, rank, 0);
        cr_assert(call->last == 1 && call->arrived_ns == 5000);
        cr_assert(kolo_trace_waited(&trace, call, begins[rank], 6000) ==
                  (rank == 1 ? 0 : 5000 - begins[rank]));
        cr_assert(call_of(&trace, rank, 1)->last == 0);
    }
    /* up to 3000, two ranks share the blame for rank 0's wait; after that, two wait for one */
    cr_assert(trace.matched == 2 && trace.costs[1].ns == 1000 + 2 * 2000 + 0.5);
    cr_assert(trace.costs[2].ns == 1000 && trace.costs[0].ns == 0.5 + 2);
    cr_assert(trace.costs[1].calls == 1 && trace.costs[2].calls == 1 && trace.costs[0].calls == 0);
    kolo_trace_fini(&trace);
}

Test(trace_match, nobody_is_the_last_of_what_is_not_whole)
{
    begin();
    maker_call(&makers[0], 0, 1000, 2000); /* dropped on rank 2 to make room */
    maker_call(&makers[1], 0, 1000, 2000);
    maker_call(&makers[0], 2, 5000, 0); /* rank 2 may have taken part in it */
    for (uint32_t i = 0; i <= MAKER_CAPACITY; i++)
        maker_message(&makers[2], KOLO_SHAPE_SEND, 1, i, 6000 + i, 6000 + i);
    maker_call(&makers[0], 1, 3000, 4000); /* twice on one rank, which no call of kolo does */
    maker_call(&makers[0], 1, 3000, 4000);
    maker_call(&makers[1], 1, 3000, 4000);
    struct kolo_trace trace = merged();
    cr_assert(trace.matched == 0);
    cr_assert(call_of(&trace, 0, 0)->last == KOLO_TRACE_NOBODY);
    cr_assert(call_of(&trace, 0, 1)->last == KOLO_TRACE_NOBODY);
    cr_assert(call_of(&trace, 1, 1)->last == KOLO_TRACE_NOBODY);
    kolo_trace_fini(&trace);
}

Test(trace_match, who_never_comes_is_waited_for_to_the_end)
{
    begin();
    maker_call(&makers[0], 0, 1000, 0);
    maker_call(&makers[1], 0, 2000, 5000);
    maker_fail(&makers[1], KOLO_ERR_PEER);
    maker_head(&makers[0])->ended_ns = 9000;
    maker_head(&makers[2])->ended_ns = 4000;
    struct kolo_trace trace = merged();
    const struct kolo_trace_call *open = call_of(&trace, 0, 0), *failed = call_of(&trace, 1, 0);
    cr_assert(open->last == 2 && failed->last == 2);
    cr_assert(kolo_trace_waited(&trace, open, 1000, kolo_trace_end(&trace, open)) == 8000);
    cr_assert(kolo_trace_waited(&trace, failed, 2000, 5000) == 3000);
    /* rank 0's wait also counts for rank 1 until rank 1 came */
    cr_assert(trace.costs[2].ns == 500 + 7000 + 3000 && trace.costs[1].ns == 500);
    kolo_trace_fini(&trace);
}

Test(trace_match, who_never_comes_to_a_part_of_the_world_was_seen_in_it)
{
    struct kolo_timeline_record call = {.comm = 5,
                                        .begin_ns = 1000,
                                        .end_ns = 2000,
                                        .size = 2,
                                        .peer = -1,
                                        .shape_flags = KOLO_SHAPE_ALL};
    begin();
    maker_add(&makers[1], &call);
    maker_add(&makers[2], &call);
    call.sequence = 1;
    call.begin_ns = 3000;
    call.end_ns = 0;
    maker_add(&makers[1], &call);
    call.comm = 6; /* the other rank is unknown */
    maker_add(&makers[1], &call);
    struct kolo_trace trace = merged();
    cr_assert(call_of(&trace, 1, 1)->last == 2);
    cr_assert(call_of(&trace, 1, 2)->last == KOLO_TRACE_NOBODY);
    kolo_trace_fini(&trace);
}

Test(trace_match, a_message_and_a_root_that_never_come)
{
    struct kolo_timeline_record broadcast = {
        .begin_ns = 2000, .size = SIZE, .peer = 0, .shape_flags = KOLO_SHAPE_ROOT};
    begin();
    maker_message(&makers[1], KOLO_SHAPE_RECV, 2, 0, 1000, 0);
    maker_add(&makers[2], &broadcast);
    maker_head(&makers[1])->ended_ns = maker_head(&makers[2])->ended_ns = 7000;
    struct kolo_trace trace = merged();
    cr_assert(call_of(&trace, 1, 0)->last == 2 && call_of(&trace, 2, 0)->last == 0);
    cr_assert(trace.costs[2].ns == 6000);
    cr_assert(trace.costs[0].ns == 5000 && trace.matched == 2);
    kolo_trace_fini(&trace);
}

Test(trace_match, a_call_that_waits_for_its_turn_has_not_come)
{
    struct kolo_timeline_record queued = {
        .begin_ns = 1000, .enter_ns = -1, .size = SIZE, .peer = -1, .shape_flags = KOLO_SHAPE_ALL};
    begin();
    maker_call(&makers[0], 0, 1000, 0);
    maker_call(&makers[1], 0, 1000, 0);
    maker_add(&makers[2], &queued);
    maker_head(&makers[0])->ended_ns = 1500;
    struct kolo_trace trace = merged();
    cr_assert(call_of(&trace, 0, 0)->last == 2 && trace.costs[2].ns == 500);
    kolo_trace_fini(&trace);
    begin();
    queued.enter_ns = 1500;
    maker_call(&makers[0], 0, 1000, 2000);
    maker_call(&makers[1], 0, 1000, 2000);
    maker_add(&makers[2], &queued);
    trace = merged();
    cr_assert(call_of(&trace, 0, 0)->last == 2 && trace.costs[2].ns == 1000);
    kolo_trace_fini(&trace);
}

Test(trace_match, a_root_and_a_wait)
{
    struct kolo_timeline_record broadcast = {.size = SIZE, .peer = 2, .plan = MAKER_WORD_RING};
    begin();
    for (int rank = 0; rank < SIZE; rank++) {
        broadcast.begin_ns = rank == 2 ? 4000 : 1000;
        broadcast.end_ns = 5000;
        broadcast.shape_flags = KOLO_SHAPE_ROOT;
        maker_add(&makers[rank], &broadcast);
    }
    broadcast.begin_ns = 2000;
    broadcast.peer = -1;
    broadcast.shape_flags = KOLO_SHAPE_WAIT;
    maker_add(&makers[0], &broadcast);
    struct kolo_trace trace = merged();
    /* it waits only for its root: rank 0 in the call and once more for it, rank 1 in the call */
    cr_assert(trace.matched == 1 && trace.costs[2].ns == 3000 + 2000 + 3000);
    cr_assert(call_of(&trace, 0, 0)->last == 2 && call_of(&trace, 0, 0)->arrived_ns == 4000);
    cr_assert(call_of(&trace, 0, 1)->last == 2 && call_of(&trace, 0, 1)->arrived_ns == 4000);
    kolo_trace_fini(&trace);
}

Test(trace_match, messages)
{
    begin();
    maker_message(&makers[0], KOLO_SHAPE_SEND, 2, 5, 3000, 3100);
    maker_message(&makers[2], KOLO_SHAPE_RECV, 0, 5, 1000, 3200);
    maker_message(&makers[2], KOLO_SHAPE_SEND, 0, 5, 4000, 4100); /* in the other direction */
    maker_message(&makers[1], KOLO_SHAPE_RECV, 0, 5, 1000, 0);    /* never sent */
    struct kolo_trace trace = merged();
    const struct kolo_trace_call *send = call_of(&trace, 0, 0), *recv = call_of(&trace, 2, 0);
    cr_assert(send->message == recv->message && send->message != 0);
    cr_assert(recv->last == 0 && recv->arrived_ns == 3000);
    cr_assert(kolo_trace_waited(&trace, recv, 1000, 3200) == 2000);
    cr_assert(trace.costs[0].ns == 2000);
    cr_assert(call_of(&trace, 2, 1)->message == 0 && call_of(&trace, 1, 0)->message == 0);
    kolo_trace_fini(&trace);
}

/** A receive of that rank which it does not wait in. */
static void add_async_recv(struct maker *maker, int peer, int64_t begin_ns, int64_t end_ns)
{
    const struct kolo_timeline_record recv = {
        .sequence = 5,
        .begin_ns = begin_ns,
        .end_ns = end_ns,
        .size = SIZE,
        .peer = peer,
        .shape_flags = (uint8_t)(KOLO_SHAPE_RECV | KOLO_TIMELINE_IS_ASYNC << 4)};
    maker_add(maker, &recv);
}

Test(trace_match, a_wait_for_a_receive_waits_for_the_sender)
{
    begin();
    maker_message(&makers[0], KOLO_SHAPE_SEND, 2, 5, 3000, 3100);
    add_async_recv(&makers[2], 0, 1000, 3200);
    maker_message(&makers[2], KOLO_SHAPE_WAIT, 0, 5, 1500, 1600); /* until a deadline */
    maker_message(&makers[2], KOLO_SHAPE_WAIT, 0, 5, 2000, 3300);
    add_async_recv(&makers[1], 2, 1000, 0); /* never sent */
    maker_message(&makers[1], KOLO_SHAPE_WAIT, 2, 5, 2000, 0);
    maker_message(&makers[1], KOLO_SHAPE_WAIT, 0, 7, 2000, 2500);  /* its receive is not recorded */
    maker_message(&makers[1], KOLO_SHAPE_WAIT, -1, 0, 2500, 2600); /* a wait for a send */
    maker_head(&makers[1])->ended_ns = 7000;
    struct kolo_trace trace = merged();
    for (uint32_t i = 1; i <= 2; i++)
        cr_assert(call_of(&trace, 2, i)->last == 0 && call_of(&trace, 2, i)->arrived_ns == 3000);
    cr_assert(call_of(&trace, 0, 0)->message == call_of(&trace, 2, 0)->message);
    cr_assert(call_of(&trace, 2, 2)->message == 0);
    cr_assert(trace.costs[0].ns == 100 + 1000, "%g", trace.costs[0].ns);
    cr_assert(call_of(&trace, 1, 1)->last == 2 && trace.costs[2].ns == 5000);
    cr_assert(call_of(&trace, 1, 2)->last == KOLO_TRACE_NOBODY);
    cr_assert(trace.matched == 2);
    kolo_trace_fini(&trace);
}
