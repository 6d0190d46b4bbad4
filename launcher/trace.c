// SPDX-License-Identifier: Apache-2.0
// The memory of a trace: the bytes of each rank, and the calls that could be read from them.
#include "launcher/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "tools/letters.h"

static kolo_status check(const struct kolo_trace *trace, int rank,
                         const struct kolo_timeline_head *head)
{
    if (rank >= 0 && head->rank != rank)
        return kolo_fail(KOLO_ERR_DATA, "it says that it is of rank %d", head->rank);
    if (trace->size > 0 && head->size != trace->size)
        return kolo_fail(KOLO_ERR_DATA, "it is of a job of %d ranks, those before it of one of %d",
                         head->size, trace->size);
    if (trace->job != 0 && head->job != 0 && head->job != trace->job)
        return kolo_fail(KOLO_ERR_DATA, "it is of another job than those before it");
    for (size_t i = 0; i < trace->track_count; i++)
        if (trace->tracks[i].rank == head->rank)
            return kolo_fail(KOLO_ERR_DATA, "it is of rank %d, as one before it", head->rank);
    return KOLO_OK;
}

static kolo_status keep(struct kolo_trace *trace, void *data, size_t bytes,
                        const struct kolo_timeline_view *view)
{
    void *tracks = trace->tracks;
    kolo_status status =
        kolo_grow(&tracks, &trace->track_capacity, trace->track_count + 1, sizeof *trace->tracks);
    if (status != KOLO_OK)
        return status;
    trace->tracks = tracks;
    trace->size = view->head->size;
    trace->job = trace->job != 0 ? trace->job : view->head->job;
    trace->tracks[trace->track_count++] = (struct kolo_trace_track){
        .rank = view->head->rank, .data = data, .bytes = bytes, .view = *view};
    return KOLO_OK;
}

kolo_status kolo_trace_add(struct kolo_trace *trace, int rank, void *data, size_t bytes)
{
    struct kolo_timeline_view view;
    kolo_status status;
    KOLO_TRY(kolo_timeline_view(data, bytes, &view));
    KOLO_TRY(check(trace, rank, view.head));
    KOLO_TRY(keep(trace, data, bytes, &view));
    return KOLO_OK;
out:
    kolo_free_memory(data);
    return status;
}

static int by_rank(const void *left, const void *right)
{
    const struct kolo_trace_track *a = left, *b = right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static int64_t latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void find_end(const struct kolo_trace *trace, struct kolo_trace_track *track)
{
    track->end_ns = track->view.head->ended_ns;
    for (size_t i = 0; i < track->count; i++) {
        const struct kolo_timeline_record *record = &trace->calls[track->first + i].record;
        track->end_ns = latest(track->end_ns,
                               latest(record->begin_ns, latest(record->enter_ns, record->end_ns)));
    }
}

static kolo_status read_calls(struct kolo_trace *trace, uint32_t index)
{
    struct kolo_trace_track *track = &trace->tracks[index];
    const struct kolo_timeline_view *view = &track->view;
    void *calls = trace->calls;
    kolo_status status =
        kolo_grow(&calls, &trace->call_capacity,
                  trace->call_count + (size_t)(view->end - view->first), sizeof *trace->calls);
    if (status != KOLO_OK)
        return status;
    trace->calls = calls;
    track->first = trace->call_count;
    track->dropped = view->first;
    for (uint64_t number = view->first; number < view->end; number++) {
        struct kolo_trace_call *call = &trace->calls[trace->call_count];
        *call = (struct kolo_trace_call){.track = index, .last = KOLO_TRACE_NOBODY};
        if (kolo_timeline_get(view, number, &call->record))
            trace->call_count++;
        else
            track->torn++;
    }
    track->count = trace->call_count - track->first;
    find_end(trace, track);
    return KOLO_OK;
}

static kolo_status find_clock(struct kolo_trace *trace, struct kolo_trace_track *track)
{
    const uint64_t id = track->view.head->clock;
    for (track->clock = 0; track->clock < trace->clock_count; track->clock++)
        if (trace->clocks[track->clock].id == id)
            return KOLO_OK;
    void *clocks = trace->clocks;
    kolo_status status =
        kolo_grow(&clocks, &trace->clock_capacity, trace->clock_count + 1, sizeof *trace->clocks);
    if (status != KOLO_OK)
        return status;
    trace->clocks = clocks;
    trace->clocks[trace->clock_count++] =
        (struct kolo_trace_clock){.id = id, .rank = track->rank, .how = KOLO_CLOCK_UNKNOWN};
    return KOLO_OK;
}

kolo_status kolo_trace_merge(struct kolo_trace *trace)
{
    kolo_status status = KOLO_OK;
    if (trace->track_count > 0)
        qsort(trace->tracks, trace->track_count, sizeof *trace->tracks, by_rank);
    for (uint32_t i = 0; i < trace->track_count; i++) {
        KOLO_TRY(read_calls(trace, i));
        KOLO_TRY(find_clock(trace, &trace->tracks[i]));
    }
    KOLO_TRY(kolo_trace_align(trace));
    KOLO_TRY(kolo_trace_match(trace));
out:
    return status;
}

int64_t kolo_trace_time(const struct kolo_trace *trace, const struct kolo_trace_track *track,
                        int64_t ns)
{
    const struct kolo_trace_clock *clock = &trace->clocks[track->clock];
    return ns + clock->offset_ns + (int64_t)(clock->rate * (double)(ns - clock->at_ns));
}

int64_t kolo_trace_waited(const struct kolo_trace *trace, const struct kolo_trace_call *call,
                          int64_t from_ns, int64_t to_ns)
{
    const struct kolo_trace_track *track = &trace->tracks[call->track];
    const int64_t begin_ns = kolo_trace_time(trace, track, from_ns);
    const int64_t end_ns = kolo_trace_time(trace, track, to_ns);
    const int64_t until_ns = call->arrived_ns < end_ns ? call->arrived_ns : end_ns;
    if (call->last == KOLO_TRACE_NOBODY || call->last == track->rank || until_ns <= begin_ns)
        return 0;
    return until_ns - begin_ns;
}

int64_t kolo_trace_end(const struct kolo_trace *trace, const struct kolo_trace_call *call)
{
    return call->record.end_ns > 0 ? call->record.end_ns : trace->tracks[call->track].end_ns;
}

void kolo_trace_host(const struct kolo_trace_track *track, char host[KOLO_TIMELINE_HOST_MAX])
{
    memcpy(host, track->view.head->host, KOLO_TIMELINE_HOST_MAX);
    host[KOLO_TIMELINE_HOST_MAX - 1] = '\0';
    letters_repair(host, strlen(host));
    kolo_text_clean(host);
}

void kolo_trace_fini(struct kolo_trace *trace)
{
    for (size_t i = 0; i < trace->track_count; i++)
        kolo_free_memory(trace->tracks[i].data);
    kolo_free_memory(trace->tracks);
    kolo_free_memory(trace->calls);
    kolo_free_memory(trace->clocks);
    kolo_free_memory(trace->costs);
    *trace = (struct kolo_trace){.size = 0};
}
