// SPDX-License-Identifier: Apache-2.0
// Holds the timelines that agents have sent, and the file that becomes the trace, which has no name
// until it is complete. Timelines are not interpreted before the job has ended. A rank's bytes
// are bounded by the length of a timeline of this job, whatever its agent sends.
#include "launcher/gather.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "launcher/trace.h"

struct part {
    uint8_t *data;
    size_t bytes, capacity;
};

struct kolo_gather {
    struct kolo_scribe *scribe; /* NULL: the trace is written, or cannot be */
    const char *path;
    int size;
    size_t bytes_max; /* per rank */
    struct part *parts;
    int silent; /* ranks that recorded nothing */
};

/** Writes the beginning of the trace: it fills a block, so that a full disk is noticed now. */
static kolo_status begin_file(struct kolo_gather *gather)
{
    fprintf(kolo_scribe_stream(gather->scribe), "{\"displayTimeUnit\":\"ns\",%4096s\n", "");
    return kolo_scribe_sync(gather->scribe);
}

kolo_status kolo_gather_create(const struct kolo_scribe_place *place, int size, uint32_t calls,
                               struct kolo_gather **gather_out)
{
    char why[KOLO_DETAIL_MAX];
    struct kolo_gather *gather = kolo_calloc(1, sizeof *gather);
    if (!gather)
        return KOLO_ERR_NO_MEMORY;
    *gather = (struct kolo_gather){
        .path = place->path, .size = size, .bytes_max = kolo_timeline_bytes(calls)};
    gather->parts = kolo_calloc((size_t)size, sizeof *gather->parts);
    kolo_status status =
        gather->parts ? kolo_scribe_open(place, &gather->scribe) : KOLO_ERR_NO_MEMORY;
    if (status == KOLO_OK)
        status = begin_file(gather);
    if (status == KOLO_OK) {
        *gather_out = gather;
        return KOLO_OK;
    }
    kolo_detail_keep(why);
    kolo_gather_destroy(gather);
    if (status == KOLO_ERR_NO_MEMORY || status == KOLO_ERR_UNSUPPORTED)
        return status; /* not because of the file */
    return kolo_fail(KOLO_ERR_CONFIG, "%s%s", why,
                     strstr(why, "; ") ? "" : "; give a file that can be written");
}

kolo_status kolo_gather_take(struct kolo_gather *gather, int rank, const void *data, size_t bytes)
{
    if (!gather || rank < 0 || rank >= gather->size)
        return kolo_fail(KOLO_ERR_PROTOCOL, "a timeline of rank %d, which was not asked for", rank);
    struct part *part = &gather->parts[rank];
    if (bytes > gather->bytes_max - part->bytes)
        return kolo_fail(KOLO_ERR_PROTOCOL, "more than %zu bytes of the timeline of rank %d",
                         gather->bytes_max, rank);
    void *grown = part->data;
    kolo_status status = kolo_grow(&grown, &part->capacity, part->bytes + bytes, 1);
    if (status != KOLO_OK)
        return status;
    part->data = grown;
    memcpy(part->data + part->bytes, data, bytes);
    part->bytes += bytes;
    return KOLO_OK;
}

/* ---- the end ---- */

static void say(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "kolorun: %s\n", line);
}

/** Whether the rank has written to its timeline. */
static bool is_used(const struct part *part)
{
    const struct kolo_timeline_head *head = (const void *)part->data;
    return part->bytes >= KOLO_TIMELINE_HEAD_BYTES && (head->pid != 0 || head->written > 0);
}

static void add(struct kolo_gather *gather, struct kolo_trace *trace, int rank, bool is_quiet)
{
    struct part *part = &gather->parts[rank];
    if (!is_used(part)) {
        gather->silent++;
        return;
    }
    kolo_status status = kolo_trace_add(trace, rank, part->data, part->bytes);
    *part = (struct part){.data = NULL};
    if (status != KOLO_OK && !is_quiet)
        fprintf(stderr, "kolorun: timeline: rank %d is left out: %s\n", rank, kolo_error_detail());
}

static void say_silent(const struct kolo_gather *gather)
{
    if (gather->silent > 0)
        fprintf(stderr,
                "kolorun: timeline: %d of %d ranks have none: they did not call kolo_init, or "
                "were lost with their host\n",
                gather->silent, gather->size);
}

static kolo_status write(struct kolo_gather *gather, struct kolo_trace *trace, const char *verdict)
{
    kolo_status status = kolo_trace_merge(trace);
    if (status == KOLO_OK)
        status = kolo_trace_write(trace, verdict, kolo_scribe_stream(gather->scribe));
    const kolo_status closed = kolo_scribe_close(gather->scribe, status == KOLO_OK);
    gather->scribe = NULL;
    return status == KOLO_OK ? closed : status;
}

kolo_status kolo_gather_finish(struct kolo_gather *gather, const char *verdict, bool is_quiet)
{
    struct kolo_trace trace = {.size = 0};
    for (int rank = 0; rank < gather->size; rank++)
        add(gather, &trace, rank, is_quiet);
    kolo_status status = write(gather, &trace, verdict);
    if (status == KOLO_OK && !is_quiet && trace.track_count > 0)
        kolo_trace_summary(&trace, gather->path, say, NULL);
    if (status == KOLO_OK && !is_quiet)
        say_silent(gather);
    kolo_trace_fini(&trace);
    return status;
}

void kolo_gather_destroy(struct kolo_gather *gather)
{
    if (!gather)
        return;
    (void)kolo_scribe_close(gather->scribe, false);
    for (int rank = 0; gather->parts && rank < gather->size; rank++)
        kolo_free_memory(gather->parts[rank].data);
    kolo_free_memory(gather->parts);
    kolo_free_memory(gather);
}
