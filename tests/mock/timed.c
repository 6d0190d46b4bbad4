// SPDX-License-Identifier: Apache-2.0
// A device that only takes time, for measurements of how copies and the network overlap: with
//
//     MOCK_CUDA_TIMED=CALL_NS,LATENCY_NS,MB_PER_S[,SLICE_NS,PROCESSES]
//
// copies between host and device move nothing (so results are wrong). The call takes CALL_NS of the
// thread that makes it. The copy is done LATENCY_NS after its stream can begin it, plus what its
// bytes take at that rate, which all copies of one direction share, as they share a copy engine.
// With the last two, processes take turns on the device: each works for SLICE_NS, then the next, by
// LOCAL_RANK. Whether a copy is done is computed when somebody asks, so that no thread of the mock
// takes time of the processors that the ranks need.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/mock/mock.h"

static struct {
    long call_ns, latency_ns, mb_per_s, slice_ns, processes;
    long place; /* of this process among them */
} timed;
static int64_t free_at[2]; /* when the engine of each direction has done all that it was given */

static bool read_settings(void)
{
    const char *text = getenv("MOCK_CUDA_TIMED"), *place = getenv("LOCAL_RANK");
    const int count = text ? sscanf(text, "%ld,%ld,%ld,%ld,%ld", &timed.call_ns, &timed.latency_ns,
                                    &timed.mb_per_s, &timed.slice_ns, &timed.processes)
                           : 0;
    if (text && ((count != 3 && count != 5) || timed.mb_per_s <= 0)) {
        fprintf(stderr, "MOCK_CUDA_TIMED=%s: see tests/mock/timed.c\n", text);
        abort();
    }
    timed.place = place && timed.processes > 0 ? atol(place) % timed.processes : 0;
    return text;
}

bool mock_is_timed(void)
{
    static int known = -1;
    if (known < 0)
        known = read_settings();
    return known;
}

void mock_timed_call(void)
{
    const int64_t until = kolo_now_ns() + timed.call_ns;
    while (kolo_now_ns() < until) {
    }
}

/** When @p work_ns of work are done that begin at @p at, in the slices of this process. */
static int64_t after_work(int64_t at, int64_t work_ns)
{
    if (timed.processes < 2 || timed.slice_ns <= 0)
        return at + work_ns;
    for (;;) {
        const int64_t slice = at / timed.slice_ns, left = (slice + 1) * timed.slice_ns - at;
        const bool is_ours = slice % timed.processes == timed.place;
        if (is_ours && work_ns <= left)
            return at + work_ns;
        work_ns -= is_ours ? left : 0;
        at += left;
    }
}

int64_t mock_timed_copy(int64_t after, bool is_in, size_t bytes)
{
    int64_t begin = kolo_now_ns();
    if (begin < after)
        begin = after;
    begin += timed.latency_ns;
    if (begin < free_at[is_in])
        begin = free_at[is_in];
    return free_at[is_in] = after_work(begin, (int64_t)bytes * 1000 / timed.mb_per_s);
}
