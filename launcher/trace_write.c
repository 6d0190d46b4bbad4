// SPDX-License-Identifier: Apache-2.0
// Writes a trace as Chrome trace JSON, which Perfetto and chrome://tracing open. Each rank is a
// process, with a track for kolo_init, one for each communicator, one for its messages and one for
// the waits for requests, and further ones where calls overlap (several threads, requests). A slice
// begins when the call's turn has come; the part in which it waited for others is a slice inside
// it. Texts from elsewhere are passed through jansson.
#include "launcher/trace.h"

#include <kolo/types.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "tools/letters.h"

enum {
    LANE_CHAINS = 1024,
    SHOWN_WAIT_NS = 1000, /* shorter waits appear only in the arguments */
    QUOTED_MAX = 6 * KOLO_TIMELINE_NAME_MAX + 3,
    NS_PER_US = 1000
};

enum lane_kind { LANE_START, LANE_CALLS, LANE_MESSAGES, LANE_WAITS, LANE_QUEUED };
static const char *const lane_texts[] = {"start", "collectives", "messages", "waits", "queued"};

/* Calls that do not overlap. */
struct lane {
    enum lane_kind kind;
    uint32_t comm;
    int64_t end_ns;
    uint32_t next; /* next of its chain: index + 1 */
};

struct writing {
    const struct kolo_trace *trace;
    FILE *out;
    bool has_event;
    int64_t zero_ns, end_ns; /* of the trace, by the first clock */
    const struct kolo_trace_track *track;
    struct lane *lanes;
    size_t lane_count, lane_capacity;
    uint32_t chains[LANE_CHAINS]; /* the first of a kind and communicator: index + 1 */
    kolo_status status;
};

/* ---- numbers and texts ---- */

/** @p text as JSON, with its quotes. */
static const char *quote(const char *text, char quoted[QUOTED_MAX])
{
    char repaired[KOLO_TIMELINE_NAME_MAX + 1];
    snprintf(repaired, sizeof repaired, "%s", text);
    letters_repair(repaired, strlen(repaired));
    json_t *string = json_string(repaired);
    size_t length = string ? json_dumpb(string, quoted, QUOTED_MAX - 1, JSON_ENCODE_ANY) : 0;
    if (length == 0 || length > QUOTED_MAX - 1)
        length = (size_t)snprintf(quoted, QUOTED_MAX, "\"?\"");
    quoted[length] = '\0';
    json_decref(string);
    return quoted;
}

static void write_us(FILE *out, const char *key, int64_t ns)
{
    const int64_t whole = ns > 0 ? ns : 0;
    fprintf(out, ",\"%s\":%" PRId64 ".%03d", key, whole / NS_PER_US, (int)(whole % NS_PER_US));
}

/** Begins an event: its fields follow, then "}". */
static void begin_event(struct writing *writing, char phase, const char *quoted_name)
{
    fprintf(writing->out, "%s{\"ph\":\"%c\",\"pid\":%d,\"name\":%s",
            writing->has_event ? ",\n" : "", phase, writing->track->rank, quoted_name);
    writing->has_event = true;
}

static int64_t from_zero(const struct writing *writing, int64_t own_ns)
{
    return kolo_trace_time(writing->trace, writing->track, own_ns) - writing->zero_ns;
}

/* ---- lanes ---- */

/** Its turn never came. */
static bool is_queued(const struct kolo_timeline_record *record)
{
    return record->enter_ns < 0;
}

static enum lane_kind lane_kind_of(const struct kolo_timeline_record *record)
{
    const enum kolo_timeline_shape shape = kolo_timeline_shape(record);
    if (record->comm == KOLO_TIMELINE_NO_COMM)
        return LANE_START;
    if (is_queued(record))
        return LANE_QUEUED;
    if (shape == KOLO_SHAPE_WAIT)
        return LANE_WAITS;
    return shape == KOLO_SHAPE_SEND || shape == KOLO_SHAPE_RECV ? LANE_MESSAGES : LANE_CALLS;
}

static size_t add_lane(struct writing *writing)
{
    void *lanes = writing->lanes;
    const size_t count = writing->lane_count;
    if (kolo_grow(&lanes, &writing->lane_capacity, count + 1, sizeof *writing->lanes) != KOLO_OK) {
        writing->status = KOLO_ERR_NO_MEMORY;
        return 0;
    }
    writing->lanes = lanes;
    writing->lane_count++;
    return count;
}

/** The lane for a call of this duration: the first free one of its kind, or a new one. */
static size_t find_lane(struct writing *writing, const struct kolo_timeline_record *record,
                        int64_t begin_ns, int64_t end_ns)
{
    const enum lane_kind kind = lane_kind_of(record);
    uint32_t *first = &writing->chains[(record->comm * 8u + (uint32_t)kind) % LANE_CHAINS];
    uint32_t last = 0;
    for (uint32_t at = *first; at != 0; at = writing->lanes[at - 1].next) {
        struct lane *lane = &writing->lanes[at - 1];
        last = at;
        if (lane->kind == kind && lane->comm == record->comm && lane->end_ns <= begin_ns) {
            lane->end_ns = end_ns;
            return at - 1;
        }
    }
    const size_t added = add_lane(writing);
    if (writing->status != KOLO_OK)
        return 0;
    *(last == 0 ? first : &writing->lanes[last - 1].next) = (uint32_t)added + 1;
    writing->lanes[added] = (struct lane){kind, record->comm, end_ns, 0};
    return added;
}

static void name_lanes(struct writing *writing)
{
    for (size_t i = 0; i < writing->lane_count; i++) {
        const struct lane *lane = &writing->lanes[i];
        begin_event(writing, 'M', "\"thread_name\"");
        fprintf(writing->out, ",\"tid\":%zu,\"args\":{\"name\":\"", i);
        if (lane->kind == LANE_START)
            fprintf(writing->out, "start\"}}");
        else if (lane->comm == 0)
            fprintf(writing->out, "world: %s\"}}", lane_texts[lane->kind]);
        else
            fprintf(writing->out, "communicator %" PRIu32 ": %s\"}}", lane->comm,
                    lane_texts[lane->kind]);
        begin_event(writing, 'M', "\"thread_sort_index\"");
        fprintf(writing->out, ",\"tid\":%zu,\"args\":{\"sort_index\":%zu}}", i, i);
    }
}

/* ---- calls ---- */

/** As kolobench computes it: see bench/operations.c. */
static double bus_factor(const char *kind, uint32_t size)
{
    static const char *const once[] = {
        "allgather", "allgatherv", "reduce_scatter", "reduce_scatterv", "gather",
        "gatherv",   "scatter",    "scatterv",       "alltoall",        "alltoallv"};
    if (strcmp(kind, "allreduce") == 0)
        return 2.0 * (size - 1) / size;
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++)
        if (strcmp(kind, once[i]) == 0)
            return (double)(size - 1) / size;
    return 1;
}

static void write_what(const struct writing *writing, const struct kolo_trace_call *call)
{
    const struct kolo_timeline_record *record = &call->record;
    const enum kolo_timeline_shape shape = kolo_timeline_shape(record);
    char text[KOLO_TIMELINE_NAME_MAX], quoted[QUOTED_MAX];
    FILE *out = writing->out;
    const bool is_message = /* of the waits, only those for a receive have a peer */
        shape == KOLO_SHAPE_SEND || shape == KOLO_SHAPE_RECV || shape == KOLO_SHAPE_WAIT;
    if (record->comm != KOLO_TIMELINE_NO_COMM)
        fprintf(out, "\"communicator\":%" PRIu32 ",\"sequence\":%" PRIu32 ",", record->comm,
                record->sequence);
    fprintf(out, "\"ranks\":%" PRIu32, record->size);
    if (record->bytes > 0)
        fprintf(out, ",\"bytes\":%" PRIu64 ",\"type\":\"%s\"", record->bytes,
                kolo_dtype_text((kolo_dtype)record->dtype));
    if (record->op != KOLO_TIMELINE_NO_OP)
        fprintf(out, ",\"operator\":\"%s\"", kolo_redop_text((kolo_redop)record->op));
    if (record->peer >= 0)
        fprintf(out, ",\"%s\":%d", is_message ? (shape == KOLO_SHAPE_SEND ? "to" : "from") : "root",
                record->peer);
    kolo_timeline_word_text(&writing->track->view, record->plan, text);
    if (text[0] != '\0')
        fprintf(out, ",\"plan\":%s", quote(text, quoted));
    kolo_timeline_word_text(&writing->track->view, record->transport, text);
    if (text[0] != '\0')
        fprintf(out, ",\"transport\":%s", quote(text, quoted));
    kolo_timeline_name_text(&writing->track->view, record->name, text);
    if (record->name > 0)
        fprintf(out, ",\"name\":%s", quote(text, quoted));
}

/** A call whose turn never came waited for those before it, not for a rank. */
static int64_t waited(const struct writing *writing, const struct kolo_trace_call *call,
                      int64_t entered_ns, int64_t end_ns)
{
    return is_queued(&call->record) ? 0
                                    : kolo_trace_waited(writing->trace, call, entered_ns, end_ns);
}

static void write_how(const struct writing *writing, const struct kolo_trace_call *call,
                      const char *kind, int64_t entered_ns, int64_t end_ns)
{
    const struct kolo_timeline_record *record = &call->record;
    const int64_t wait_ns = waited(writing, call, entered_ns, end_ns);
    FILE *out = writing->out;
    if (is_queued(record))
        fprintf(out, ",\"queued\":true");
    if (kolo_timeline_flags(record) & KOLO_TIMELINE_IS_ASYNC)
        fprintf(out, ",\"asynchronous\":true");
    if (kolo_timeline_flags(record) & KOLO_TIMELINE_IS_FUSED)
        fprintf(out, ",\"fused\":true");
    if (entered_ns > record->begin_ns)
        write_us(out, "queued_us", entered_ns - record->begin_ns);
    if (call->last != KOLO_TRACE_NOBODY) {
        fprintf(out, ",\"last\":%d", call->last);
        write_us(out, "waited_us", wait_ns);
    }
    if (record->end_ns == 0)
        fprintf(out, ",\"open\":true");
    else if (record->status != KOLO_OK)
        fprintf(out, ",\"status\":\"%s\"", kolo_status_name((kolo_status)record->status));
    const int64_t moving_ns = end_ns - entered_ns - wait_ns;
    if (record->end_ns > 0 && record->status == KOLO_OK && record->bytes > 0 && moving_ns > 0 &&
        record->size > 1)
        fprintf(out, ",\"busbw_gbps\":%.4g",
                (double)record->bytes / (double)moving_ns * bus_factor(kind, record->size));
}

/** An arrow from a send to its receive. */
static void write_flow(struct writing *writing, const struct kolo_trace_call *call, size_t lane,
                       int64_t ts_ns)
{
    const bool sends = kolo_timeline_shape(&call->record) == KOLO_SHAPE_SEND;
    begin_event(writing, sends ? 's' : 'f', "\"message\"");
    fprintf(writing->out, ",\"cat\":\"message\",\"id\":%" PRIu32 ",\"tid\":%zu%s", call->message,
            lane, sends ? "" : ",\"bp\":\"e\"");
    write_us(writing->out, "ts", ts_ns);
    fprintf(writing->out, "}");
}

static void write_wait(struct writing *writing, const struct kolo_trace_call *call, size_t lane,
                       int64_t ts_ns, int64_t wait_ns)
{
    char name[48];
    snprintf(name, sizeof name, "\"waits for rank %d\"", call->last);
    begin_event(writing, 'X', name);
    fprintf(writing->out, ",\"cat\":\"wait\",\"tid\":%zu", lane);
    write_us(writing->out, "ts", ts_ns);
    write_us(writing->out, "dur", wait_ns);
    fprintf(writing->out, "}");
}

static void write_call(struct writing *writing, const struct kolo_trace_call *call)
{
    const struct kolo_timeline_record *record = &call->record;
    char kind[KOLO_TIMELINE_WORD_MAX], quoted[QUOTED_MAX];
    const int64_t entered_ns = record->enter_ns > 0 ? record->enter_ns : record->begin_ns;
    const int64_t end_ns = kolo_trace_end(writing->trace, call);
    const int64_t ts_ns = from_zero(writing, entered_ns), over_ns = from_zero(writing, end_ns);
    const size_t lane = find_lane(writing, record, ts_ns, over_ns);
    kolo_timeline_word_text(&writing->track->view, record->kind, kind);
    begin_event(writing, 'X', quote(kind, quoted));
    fprintf(writing->out, ",\"cat\":\"%s\",\"tid\":%zu", lane_texts[lane_kind_of(record)], lane);
    write_us(writing->out, "ts", ts_ns);
    write_us(writing->out, "dur", over_ns - ts_ns);
    fprintf(writing->out, ",\"args\":{");
    write_what(writing, call);
    write_how(writing, call, kind, entered_ns, end_ns);
    fprintf(writing->out, "}}");
    const int64_t wait_ns = waited(writing, call, entered_ns, end_ns);
    if (wait_ns >= SHOWN_WAIT_NS)
        write_wait(writing, call, lane, ts_ns, wait_ns);
    if (call->message > 0)
        write_flow(writing, call, lane, ts_ns);
}

/* ---- ranks ---- */

static bool ended_badly(const struct kolo_timeline_head *head)
{
    return head->wait_status != 0;
}

/** When the rank ended, by its own clock, as far as that is known. */
static int64_t ended_at(const struct kolo_trace_track *track)
{
    const int64_t ended_ns = track->view.head->ended_ns;
    return ended_ns > 0 ? ended_ns : track->end_ns;
}

static void write_end(struct writing *writing)
{
    const struct kolo_timeline_head *head = writing->track->view.head;
    const int status = head->wait_status;
    char name[96];
    if (!ended_badly(head))
        return;
    if (WIFSIGNALED(status))
        snprintf(name, sizeof name, "\"killed by signal %d\"", WTERMSIG(status));
    else
        snprintf(name, sizeof name, "\"exited with status %d\"", WEXITSTATUS(status));
    begin_event(writing, 'i', name);
    fprintf(writing->out, ",\"cat\":\"end\",\"s\":\"p\",\"tid\":0");
    write_us(writing->out, "ts", from_zero(writing, ended_at(writing->track)));
    fprintf(writing->out, "}");
}

static void write_process(struct writing *writing)
{
    char host[KOLO_TIMELINE_HOST_MAX], text[KOLO_TIMELINE_HOST_MAX + 64], quoted[QUOTED_MAX];
    kolo_trace_host(writing->track, host);
    snprintf(text, sizeof text, "rank %d on %.40s", writing->track->rank, host);
    begin_event(writing, 'M', "\"process_name\"");
    fprintf(writing->out, ",\"args\":{\"name\":%s}}", quote(text, quoted));
    begin_event(writing, 'M', "\"process_sort_index\"");
    fprintf(writing->out, ",\"args\":{\"sort_index\":%d}}", writing->track->rank);
}

static int64_t latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void write_track(struct writing *writing, const struct kolo_trace_track *track)
{
    writing->track = track;
    writing->lane_count = 0;
    memset(writing->chains, 0, sizeof writing->chains);
    write_process(writing);
    for (size_t i = 0; i < track->count; i++)
        write_call(writing, &writing->trace->calls[track->first + i]);
    name_lanes(writing);
    write_end(writing);
}

/* ---- the whole ---- */

static void find_extent(struct writing *writing)
{
    const struct kolo_trace *trace = writing->trace;
    writing->zero_ns = INT64_MAX;
    writing->end_ns = INT64_MIN;
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct kolo_trace_track *track = &trace->tracks[i];
        const int64_t end_ns = track->end_ns;
        if (end_ns == 0)
            continue;
        writing->end_ns = latest(writing->end_ns, kolo_trace_time(trace, track, end_ns));
        for (size_t j = 0; j < track->count; j++) {
            const int64_t begin_ns =
                kolo_trace_time(trace, track, trace->calls[track->first + j].record.begin_ns);
            writing->zero_ns = begin_ns < writing->zero_ns ? begin_ns : writing->zero_ns;
        }
    }
    if (writing->zero_ns == INT64_MAX)
        writing->zero_ns = writing->end_ns = 0;
}

/** Places the verdict where the first rank that ended badly did so, or at the end. */
static void write_verdict(struct writing *writing, const char *verdict)
{
    int64_t at_ns = INT64_MAX;
    const struct kolo_trace *trace = writing->trace;
    json_t *text = json_string(verdict);
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct kolo_timeline_head *head = trace->tracks[i].view.head;
        const int64_t ended_ns = ended_badly(head) ? kolo_trace_time(trace, &trace->tracks[i],
                                                                     ended_at(&trace->tracks[i]))
                                                   : INT64_MAX;
        if (ended_ns < at_ns) {
            at_ns = ended_ns;
            writing->track = &trace->tracks[i];
        }
    }
    if (quoted && trace->track_count > 0) {
        if (at_ns == INT64_MAX) {
            at_ns = writing->end_ns;
            writing->track = &trace->tracks[0];
        }
        begin_event(writing, 'i', quoted);
        fprintf(writing->out, ",\"cat\":\"verdict\",\"s\":\"g\",\"tid\":0");
        write_us(writing->out, "ts", at_ns - writing->zero_ns);
        fprintf(writing->out, "}");
    }
    free(quoted);
    json_decref(text);
}

static void write_ranks(const struct writing *writing)
{
    const struct kolo_trace *trace = writing->trace;
    fprintf(writing->out, "\"ranks\":[");
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct kolo_trace_track *track = &trace->tracks[i];
        fprintf(writing->out,
                "%s\n{\"rank\":%d,\"pid\":%" PRIu32 ",\"calls\":%zu,\"dropped\":%" PRIu64
                ",\"torn\":%" PRIu64 ",\"names_lost\":%" PRIu64 ",\"clock\":%" PRIu32 "}",
                i > 0 ? "," : "", track->rank, (uint32_t)track->view.head->pid, track->count,
                track->dropped, track->torn, track->view.head->names_lost, track->clock);
    }
    fprintf(writing->out, "]");
}

static void write_clocks(const struct writing *writing)
{
    static const char *const hows[] = {[KOLO_CLOCK_SAME] = "the first",
                                       [KOLO_CLOCK_CALLS] = "calls in common",
                                       [KOLO_CLOCK_ONE_WAY] = "calls in common, one way",
                                       [KOLO_CLOCK_UNKNOWN] = "unknown"};
    const struct kolo_trace *trace = writing->trace;
    fprintf(writing->out, "\"clocks\":[");
    for (size_t i = 0; i < trace->clock_count; i++) {
        const struct kolo_trace_clock *clock = &trace->clocks[i];
        fprintf(writing->out,
                "%s\n{\"lowest_rank\":%d,\"offset_ns\":%" PRId64 ",\"rate\":%.9g,\"by\":\"%s\"",
                i > 0 ? "," : "", clock->rank, clock->offset_ns, clock->rate, hows[clock->how]);
        if (clock->error_ns >= 0)
            fprintf(writing->out, ",\"uncertainty_ns\":%" PRId64, clock->error_ns);
        fprintf(writing->out, "}");
    }
    fprintf(writing->out, "]");
}

kolo_status kolo_trace_write(const struct kolo_trace *trace, const char *verdict, FILE *out)
{
    struct writing writing = {.trace = trace, .out = out};
    find_extent(&writing);
    fprintf(out, "\"traceEvents\":[\n");
    for (size_t i = 0; i < trace->track_count; i++)
        write_track(&writing, &trace->tracks[i]);
    if (verdict[0] != '\0')
        write_verdict(&writing, verdict);
    fprintf(out, "\n],\n\"otherData\":{\"writer\":\"kolo\",\"size\":%d,", trace->size);
    write_ranks(&writing);
    fprintf(out, ",\n");
    write_clocks(&writing);
    fprintf(out, "}}\n");
    kolo_free_memory(writing.lanes);
    return writing.status;
}
