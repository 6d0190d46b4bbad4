// SPDX-License-Identifier: Apache-2.0
// The same call on all ranks, and who came last to it.
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
    cr_assert(trace.late_count == 2);
    cr_assert(trace.lates[0].rank == 1 && trace.lates[0].late_ns == 2000);
    cr_assert(trace.lates[1].rank == 0 && trace.lates[1].late_ns == 1);
    kolo_trace_fini(&trace);
}

Test(trace_match, nobody_is_the_last_of_what_is_not_whole)
{
    begin();
    maker_call(&makers[0], 0, 1000, 2000); /* made room on rank 2 */
    maker_call(&makers[1], 0, 1000, 2000);
    maker_call(&makers[0], 1, 3000, 4000); /* twice on one rank: no call of kolo's */
    maker_call(&makers[0], 1, 3000, 4000);
    maker_call(&makers[1], 1, 3000, 4000);
    struct kolo_trace trace = merged();
    cr_assert(trace.late_count == 0);
    cr_assert(call_of(&trace, 0, 0)->last == KOLO_TRACE_NOBODY);
    cr_assert(call_of(&trace, 1, 1)->last == KOLO_TRACE_NOBODY);
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
    struct kolo_trace trace = merged();
    cr_assert(trace.late_count == 0);
    kolo_trace_fini(&trace);
    begin();
    queued.enter_ns = 1500;
    maker_call(&makers[0], 0, 1000, 0);
    maker_call(&makers[1], 0, 1000, 0);
    maker_add(&makers[2], &queued);
    trace = merged();
    cr_assert(trace.late_count == 1 && trace.lates[0].rank == 2 && trace.lates[0].late_ns == 500);
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
    cr_assert(trace.late_count == 0); /* it waits for its root alone */
    cr_assert(call_of(&trace, 0, 0)->last == 2 && call_of(&trace, 0, 0)->arrived_ns == 4000);
    cr_assert(call_of(&trace, 0, 1)->last == 2 && call_of(&trace, 0, 1)->arrived_ns == 4000);
    kolo_trace_fini(&trace);
}

Test(trace_match, messages)
{
    begin();
    maker_message(&makers[0], KOLO_SHAPE_SEND, 2, 5, 3000, 3100);
    maker_message(&makers[2], KOLO_SHAPE_RECV, 0, 5, 1000, 3200);
    maker_message(&makers[2], KOLO_SHAPE_SEND, 0, 5, 4000, 4100); /* the other way */
    maker_message(&makers[1], KOLO_SHAPE_RECV, 0, 5, 1000, 0);    /* never sent */
    struct kolo_trace trace = merged();
    const struct kolo_trace_call *send = call_of(&trace, 0, 0), *recv = call_of(&trace, 2, 0);
    cr_assert(send->message == recv->message && send->message != 0);
    cr_assert(recv->last == 0 && recv->arrived_ns == 3000);
    cr_assert(kolo_trace_waited(&trace, recv, 1000, 3200) == 2000);
    cr_assert(call_of(&trace, 2, 1)->message == 0 && call_of(&trace, 1, 0)->message == 0);
    kolo_trace_fini(&trace);
}
